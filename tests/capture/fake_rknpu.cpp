// SPDX-License-Identifier: MIT
// The stock driver and three cores, preloaded into a program where there is no NPU.  Its node is
// the regular file that RKCHAIN_FAKE_NODE names: buffers are ranges of that file, and an offset
// there is the NPU's address.
//
//   RKCHAIN_FAKE_CREATE    bytes of MEM_CREATE's argument: 32, 40 or 48 (else it is EINVAL)
//   RKCHAIN_FAKE_COUNTERS  a file of CoreCounters that all processes count in
//
// It uses the kernel directly, so that a shim before it sees only what the program does.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capture/fake_counters.hpp"
#include "kmod/core/chain.h"
#include "lib/model/npu.h"
#include "uapi/rknpu.h"

namespace {

using rkchain::test::CoreCounters;

constexpr unsigned kBase = 0x40;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kArena = 0x4000000;  // of addresses, for each process
constexpr std::uint64_t kArenas = 48;
constexpr std::uint32_t kCores = 3;
constexpr std::uint64_t kObject = 0xffff000000000000;

struct DrmVersion {
  int version[3];
  std::size_t name_bytes;
  char* name;
  std::size_t more[4];
};

struct Range {
  std::uint64_t iova;
  std::uint64_t size;
  std::byte* memory;
};

class Core {
 public:
  Core(std::uint32_t index, void* driver, void* (*reach)(void*, npu_access, u64, u64))
      : memory_(new std::max_align_t[npu_core_size() / sizeof(std::max_align_t) + 1]) {
    ops_.map = reach;
    ops_.ctx = driver;
    npu_init(get(), index, &ops_);
  }
  npu_core* get() { return reinterpret_cast<npu_core*>(memory_.get()); }
  std::mutex& mutex() { return *mutex_; }
  /// Whoever held it is not in this process.
  void after_fork() {
    static_cast<void>(mutex_.release());
    mutex_ = std::make_unique<std::mutex>();
    npu_init(get(), 0, &ops_);
  }

 private:
  std::unique_ptr<std::max_align_t[]> memory_;
  npu_ops ops_{};
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

template <typename T>
bool get(T& to, const void* from, std::size_t bytes = sizeof(T)) {
  const iovec local{&to, bytes}, remote{const_cast<void*>(from), bytes};
  const long got = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, &remote, 1UL, 0UL);
  if (got == -1 && (errno == ENOSYS || errno == EPERM)) std::memcpy(&to, from, bytes);
  return got == static_cast<long>(bytes) || (got == -1 && (errno == ENOSYS || errno == EPERM));
}

/// Past a shim before it, and not past a sanitizer.
long next_mmap(void* address, std::size_t size, int protection, int flags, long fd, long offset) {
  using Call = void* (*)(void*, std::size_t, int, int, int, off_t);
  static const auto next = reinterpret_cast<Call>(dlsym(RTLD_NEXT, "mmap"));
  return reinterpret_cast<long>(
      next(address, size, protection, flags, static_cast<int>(fd), offset));
}

void next_munmap(void* address, std::size_t size) {
  using Call = int (*)(void*, std::size_t);
  static const auto next = reinterpret_cast<Call>(dlsym(RTLD_NEXT, "munmap"));
  next(address, size);
}

class Driver {
 public:
  Driver() {
    const char* node = std::getenv("RKCHAIN_FAKE_NODE");
    if (node != nullptr) node_ = node;
    const char* create = std::getenv("RKCHAIN_FAKE_CREATE");
    if (create != nullptr) create_bytes_ = static_cast<std::size_t>(std::atoi(create));
    open_counters();
    for (std::uint32_t i = 0; i < kCores; i++) cores_.emplace_back(i, this, reach);
  }

  bool is_node(int fd) {
    struct stat node {
    }, file{};
    return !node_.empty() && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
           stat(node_.c_str(), &node) == 0 && node.st_ino == file.st_ino &&
           node.st_dev == file.st_dev;
  }

  int call(int fd, unsigned long command, void* argument) {
    switch (_IOC_NR(command)) {
      case 0:
        return version(argument);
      case kBase + RKNPU_ACTION:
        return act(argument);
      case kBase + RKNPU_SUBMIT:
        return submit(command, argument);
      case kBase + RKNPU_MEM_CREATE:
        return create(fd, command, argument);
      case kBase + RKNPU_MEM_MAP:
        return map(argument);
      case kBase + RKNPU_MEM_DESTROY:
        return destroy(argument);
      case kBase + RKNPU_MEM_SYNC: {
        rknpu_mem_sync sync{};
        return get(sync, argument) ? 0 : -EFAULT;
      }
      default:
        return -ENOTTY;
    }
  }

  void before_fork() { mutex_.lock(); }
  void after_fork(bool child) {
    if (child) {
      for (Core& core : cores_) core.after_fork();
      arena_ = next_ = 0;
    }
    mutex_.unlock();
  }

 private:
  static void* reach(void* self, npu_access, u64 iova, u64 bytes) {
    auto& driver = *static_cast<Driver*>(self);
    const std::lock_guard lock(driver.mutex_);
    for (const auto& [handle, range] : driver.ranges_)
      if (iova >= range.iova && iova - range.iova + bytes <= range.size)
        return range.memory + (iova - range.iova);
    return nullptr;
  }

  void open_counters() {
    const char* path = std::getenv("RKCHAIN_FAKE_COUNTERS");
    if (path == nullptr) return;
    const long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (ftruncate(static_cast<int>(fd), sizeof(CoreCounters)) == 0) {
      const long memory =
          next_mmap(nullptr, sizeof(CoreCounters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
      if (memory > 0) counters_ = reinterpret_cast<CoreCounters*>(memory);
    }
    syscall(SYS_close, fd);
  }

  static int version(void* argument) {
    DrmVersion version{};
    if (!get(version, argument)) return -EFAULT;
    version.version[1] = 9;
    version.version[2] = 8;
    version.version[0] = 0;
    if (version.name != nullptr)
      std::memcpy(version.name, "rknpu", version.name_bytes < 5 ? version.name_bytes : 5);
    version.name_bytes = 5;
    std::memcpy(argument, &version, sizeof(version));
    return 0;
  }

  static int act(void* argument) {
    rknpu_action action{};
    if (!get(action, argument)) return -EFAULT;
    if (action.flags != RKNPU_GET_DRV_VERSION && action.flags != RKNPU_GET_HW_VERSION)
      return -EINVAL;
    action.value = action.flags == RKNPU_GET_DRV_VERSION ? 908 : 0x46495245;
    std::memcpy(argument, &action, sizeof(action));
    return 0;
  }

  int create(int fd, unsigned long command, void* argument) {
    rknpu_mem_create memory{};
    if (_IOC_SIZE(command) != create_bytes_) return -EINVAL;
    if (!get(memory, argument, create_bytes_)) return -EFAULT;
    const std::lock_guard lock(mutex_);
    if (memory.handle == 0) {
      if (memory.size == 0 || memory.size > kArena) return -EINVAL;
      memory.handle = allocate(fd, (memory.size + kPage - 1) / kPage * kPage);
      if (memory.handle == 0) return -ENOMEM;
    }
    const auto at = ranges_.find(memory.handle);
    if (at == ranges_.end()) return -EINVAL;
    memory.size = at->second.size;
    memory.dma_addr = at->second.iova;
    memory.obj_addr = kObject + at->second.iova;
    std::memcpy(argument, &memory, create_bytes_);
    return 0;
  }

  /// Addresses that no other process has; the file's first word counts them.
  bool take_arena(int fd) {
    struct stat file {};
    constexpr std::uint64_t whole = kArena * (kArenas + 4);
    if (fstat(fd, &file) != 0) return false;
    if (static_cast<std::uint64_t>(file.st_size) != whole &&
        ftruncate(fd, static_cast<off_t>(whole)) != 0)
      return false;
    const long memory = next_mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
    if (memory < 0 && memory >= -4095) return false;
    auto* taken = reinterpret_cast<std::atomic<std::uint64_t>*>(memory);
    arena_ = kArena * (4 + taken->fetch_add(1) % kArenas);
    next_munmap(reinterpret_cast<void*>(memory), kPage);
    next_ = arena_;
    free_.clear();
    return true;
  }

  /// Takes addresses and handles again that were given back.
  std::uint32_t allocate(int fd, std::uint64_t size) {
    if (arena_ == 0 && !take_arena(fd)) return 0;
    std::uint64_t iova = next_;
    auto old = free_.begin();
    while (old != free_.end() && old->size != size) ++old;
    if (old != free_.end()) {
      iova = old->iova;
      free_.erase(old);
    } else if (next_ + size > arena_ + kArena) {
      return 0;
    } else {
      next_ += size;
    }
    const long memory =
        next_mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<long>(iova));
    if (memory < 0 && memory >= -4095) return 0;
    std::uint32_t handle = 1;
    while (ranges_.count(handle) != 0) handle++;
    ranges_[handle] = {iova, size, reinterpret_cast<std::byte*>(memory)};
    std::memset(ranges_[handle].memory, 0, size);
    return handle;
  }

  int map(void* argument) {
    rknpu_mem_map place{};
    if (!get(place, argument)) return -EFAULT;
    const std::lock_guard lock(mutex_);
    const auto at = ranges_.find(place.handle);
    if (at == ranges_.end()) return -EINVAL;
    place.offset = at->second.iova;
    std::memcpy(argument, &place, sizeof(place));
    return 0;
  }

  int destroy(void* argument) {
    rknpu_mem_destroy gone{};
    if (!get(gone, argument)) return -EFAULT;
    const std::lock_guard lock(mutex_);
    const auto at = ranges_.find(gone.handle);
    if (at == ranges_.end()) return -EINVAL;
    next_munmap(at->second.memory, at->second.size);
    free_.push_back(at->second);
    ranges_.erase(at);
    return 0;
  }

  int submit(unsigned long command, void* argument) {
    rknpu_submit args{};
    const std::size_t bytes = _IOC_SIZE(command) < sizeof(args) ? _IOC_SIZE(command) : sizeof(args);
    if (!get(args, argument, bytes)) return -EFAULT;
    if (args.task_number == 0 || args.core_mask > 7 || (args.flags & RKNPU_JOB_PC) == 0)
      return -EINVAL;
    const bool chosen = args.core_mask != 0;
    const auto core =
        static_cast<std::uint32_t>(chosen ? __builtin_ctz(args.core_mask) : (turn_++ % kCores));
    const rknpu_subcore_task part = args.subcore_task[chosen ? core : 0];
    rknpu_task task{};
    if (!read_task(args.task_obj_addr, part.task_start, task)) return -EINVAL;
    const int result = run(core, task, part.task_number);
    args.task_counter = part.task_number;
    args.hw_elapse_time = 1000;
    std::memcpy(argument, &args, bytes);
    return result;
  }

  bool read_task(std::uint64_t object, std::uint64_t index, rknpu_task& task) {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, range] : ranges_) {
      if (kObject + range.iova != object) continue;
      if ((index + 1) * sizeof(task) > range.size) return false;
      std::memcpy(&task, range.memory + index * sizeof(task), sizeof(task));
      return true;
    }
    return false;
  }

  int run(std::uint32_t index, const rknpu_task& task, std::uint32_t tasks) {
    Core& core = cores_[index];
    const std::lock_guard lock(core.mutex());
    const npu_job job{static_cast<u32>(task.regcmd_addr), rkc_pc_amount(task.regcfg_amount),
                      task.int_mask, tasks, 0};
    npu_start(core.get(), &job);
    while ((npu_run(core.get()) & (NPU_EV_IDLE | NPU_EV_STUCK)) == 0) {
    }
    const u32 status = npu_read(core.get(), NPU_PC_INT_STATUS);
    npu_write(core.get(), NPU_PC_INT_CLEAR, 0x1ffff);
    const bool good = (status & task.int_mask) != 0;
    if (counters_ != nullptr) {
      counters_->submits[index].fetch_add(1);
      counters_->tasks[index].fetch_add(tasks);
      if (!good) counters_->failed.fetch_add(1);
    }
    if (!good) npu_reset(core.get());
    return good ? 0 : -ETIMEDOUT;
  }

  std::string node_;
  std::size_t create_bytes_ = sizeof(rknpu_mem_create);
  std::mutex mutex_;
  std::map<std::uint32_t, Range> ranges_;
  std::vector<Range> free_;
  std::uint64_t arena_ = 0;
  std::uint64_t next_ = 0;
  std::atomic<std::uint32_t> turn_ = 0;
  std::deque<Core> cores_;
  CoreCounters* counters_ = nullptr;
};

Driver& driver() {
  static Driver* const it = new Driver;
  return *it;
}

/// Early, so that whoever calls the driver with a lock held has it before the driver's own.
[[gnu::constructor]] void follow_forks() {
  pthread_atfork([] { driver().before_fork(); }, [] { driver().after_fork(false); },
                 [] { driver().after_fork(true); });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long command,
                                                            ...) noexcept {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool ours = _IOC_TYPE(command) == 'd' && driver().is_node(fd);
  if (!ours) return static_cast<int>(syscall(SYS_ioctl, fd, command, argument));
  const int saved = errno;
  const int result = driver().call(fd, command, argument);
  errno = result < 0 ? -result : saved;
  return result < 0 ? -1 : result;
}

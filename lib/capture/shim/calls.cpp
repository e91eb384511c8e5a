// SPDX-License-Identifier: MIT
#include "capture/shim/calls.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>

namespace rkchain::capture::shim {
namespace {

thread_local bool searching = false;
thread_local bool guarded = false;

template <typename F>
class Next {
 public:
  constexpr explicit Next(const char* name) noexcept : name_(name) {}

  F* get() noexcept {
    void* found = found_.load(std::memory_order_acquire);
    // dlsym() may want memory, and whoever gives it mmap().
    if (found == nullptr && !searching) {
      const KeepErrno keep;
      searching = true;
      found = dlsym(RTLD_NEXT, name_);
      searching = false;
      found_.store(found, std::memory_order_release);
    }
    return reinterpret_cast<F*>(found);
  }

 private:
  const char* name_;
  std::atomic<void*> found_ = nullptr;
};

constinit Next<int(int, unsigned long, ...)> ioctl_call("ioctl");
constinit Next<void*(void*, std::size_t, int, int, int, off64_t)> mmap_call("mmap64");
constinit Next<int(void*, std::size_t)> munmap_call("munmap");
constinit Next<int(const char*, int, ...)> open_call("open64");
constinit Next<int(int, const char*, int, ...)> openat_call("openat64");
constinit Next<int(int)> close_call("close");
constinit Next<int(unsigned, unsigned, int)> close_range_call("close_range");
constinit Next<void(int)> closefrom_call("closefrom");
constinit Next<int(int)> dup_call("dup");
constinit Next<int(int, int)> dup2_call("dup2");
constinit Next<int(int, int, int)> dup3_call("dup3");
constinit Next<int(int, int, ...)> fcntl_call("fcntl64");

/// As functions of the C library return.
std::int64_t told(std::int64_t result) noexcept {
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

int told_int(std::int64_t result) noexcept { return static_cast<int>(told(result)); }

std::uint64_t number(int value) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

std::atomic<bool> no_vm_read = false;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
std::uint64_t signals_at_fork = 0;

std::uint64_t block_signals() noexcept {
  const std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t before = 0;
  raw(SYS_rt_sigprocmask, SIG_BLOCK, word(&all), word(&before), sizeof(before));
  return before;
}

void restore_signals(const std::uint64_t& before) noexcept {
  raw(SYS_rt_sigprocmask, SIG_SETMASK, word(&before), 0, sizeof(before));
}

}  // namespace

std::int64_t raw(std::int64_t number, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                 std::uint64_t d, std::uint64_t e, std::uint64_t f) noexcept {
  const KeepErrno keep;
  const long result = syscall(number, a, b, c, d, e, f);
  return result == -1 ? -std::int64_t{errno} : std::int64_t{result};
}

int next_ioctl(int fd, unsigned long command, void* argument) noexcept {
  if (auto* next = ioctl_call.get()) return next(fd, command, argument);
  return told_int(raw(SYS_ioctl, number(fd), command, word(argument)));
}

void* next_mmap(void* address, std::size_t size, int protection, int flags, int fd,
                std::int64_t offset) noexcept {
  if (auto* next = mmap_call.get()) return next(address, size, protection, flags, fd, offset);
  return reinterpret_cast<void*>(
      told(raw(SYS_mmap, word(address), size, number(protection), number(flags), number(fd),
               static_cast<std::uint64_t>(offset))));
}

int next_munmap(void* address, std::size_t size) noexcept {
  if (auto* next = munmap_call.get()) return next(address, size);
  return told_int(raw(SYS_munmap, word(address), size));
}

int next_open(const char* path, int flags, mode_t mode) noexcept {
  if (auto* next = open_call.get()) return next(path, flags, mode);
  return told_int(raw(SYS_openat, number(AT_FDCWD), word(path), number(flags), mode));
}

int next_openat(int folder, const char* path, int flags, mode_t mode) noexcept {
  if (auto* next = openat_call.get()) return next(folder, path, flags, mode);
  return told_int(raw(SYS_openat, number(folder), word(path), number(flags), mode));
}

int next_close(int fd) noexcept {
  if (auto* next = close_call.get()) return next(fd);
  return told_int(raw(SYS_close, number(fd)));
}

int next_close_range(unsigned first, unsigned last, int flags) noexcept {
  if (auto* next = close_range_call.get()) return next(first, last, flags);
  return told_int(raw(SYS_close_range, first, last, number(flags)));
}

void next_closefrom(int first) noexcept {
  if (auto* next = closefrom_call.get()) next(first);
}

int next_dup(int fd) noexcept {
  if (auto* next = dup_call.get()) return next(fd);
  return told_int(raw(SYS_dup, number(fd)));
}

int next_dup2(int from, int to) noexcept {
  if (auto* next = dup2_call.get()) return next(from, to);
  if (from != to) return told_int(raw(SYS_dup3, number(from), number(to), 0));
  return raw(SYS_fcntl, number(from), F_GETFD) < 0 ? told_int(-EBADF) : to;
}

int next_dup3(int from, int to, int flags) noexcept {
  if (auto* next = dup3_call.get()) return next(from, to, flags);
  return told_int(raw(SYS_dup3, number(from), number(to), number(flags)));
}

int next_fcntl(int fd, int command, void* argument) noexcept {
  if (auto* next = fcntl_call.get()) return next(fd, command, argument);
  return told_int(raw(SYS_fcntl, number(fd), number(command), word(argument)));
}

// Through whoever watches over memory, as a sanitizer does.
void* get_memory(std::size_t bytes) noexcept {
  const KeepErrno keep;
  void* memory =
      next_mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED ? memory : nullptr;
}

void give_memory(void* memory, std::size_t bytes) noexcept {
  const KeepErrno keep;
  if (memory != nullptr) next_munmap(memory, bytes);
}

int status_of(int fd, struct stat& status) noexcept {
  const KeepErrno keep;
  return fstat(fd, &status) == 0 ? 0 : -errno;
}

std::uint64_t now_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000U +
         static_cast<std::uint64_t>(time.tv_nsec);
}

bool read_program(void* to, std::uint64_t address, std::size_t bytes) noexcept {
  if (bytes == 0) return true;
  if (!no_vm_read.load(std::memory_order_relaxed)) {
    const iovec local{to, bytes};
    const iovec remote{reinterpret_cast<void*>(address), bytes};
    const std::int64_t pid = raw(SYS_getpid);
    const std::int64_t got = raw(SYS_process_vm_readv, static_cast<std::uint64_t>(pid),
                                 word(&local), 1, word(&remote), 1, 0);
    if (got != -ENOSYS && got != -EPERM) return got == static_cast<std::int64_t>(bytes);
    no_vm_read.store(true, std::memory_order_relaxed);
  }
  if (address < 4096) return false;
  std::memcpy(to, reinterpret_cast<const void*>(address), bytes);
  return true;
}

Guard::Guard() noexcept : signals_(block_signals()) {
  pthread_mutex_lock(&mutex);
  guarded = true;
}

Guard::~Guard() {
  guarded = false;
  pthread_mutex_unlock(&mutex);
  restore_signals(signals_);
}

void Guard::before_fork() noexcept {
  const std::uint64_t signals = block_signals();
  pthread_mutex_lock(&mutex);
  guarded = true;
  signals_at_fork = signals;
}

void Guard::after_fork() noexcept {
  const std::uint64_t signals = signals_at_fork;
  guarded = false;
  pthread_mutex_unlock(&mutex);
  restore_signals(signals);
}

void Guard::start_anew() noexcept {
  mutex = PTHREAD_MUTEX_INITIALIZER;
  guarded = false;
}

bool Guard::mine() noexcept { return guarded; }

}  // namespace rkchain::capture::shim

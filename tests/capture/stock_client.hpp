// SPDX-License-Identifier: MIT
// A program that knows nothing but the stock driver's calls.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "kmod/core/chain.h"
#include "uapi/rknpu.h"

namespace rkchain::test {

inline constexpr std::uint32_t kData = 0x403;
inline constexpr std::uint32_t kTasks = 0x40b;

inline std::size_t create_bytes() {
  const char* text = std::getenv("RKCHAIN_FAKE_CREATE");
  return text != nullptr ? static_cast<std::size_t>(std::atoi(text)) : sizeof(rknpu_mem_create);
}

inline unsigned long create_command() {
  return _IOC(_IOC_READ | _IOC_WRITE, 'd', 0x40 + RKNPU_MEM_CREATE, create_bytes());
}

struct ClientBuffer {
  std::uint32_t handle = 0;
  std::uint64_t size = 0;
  std::uint64_t object = 0;
  std::uint64_t iova = 0;
  std::uint8_t* memory = nullptr;

  bool create(int fd, std::uint64_t bytes, std::uint32_t flags) {
    rknpu_mem_create args{};
    args.size = bytes;
    args.flags = flags;
    if (ioctl(fd, create_command(), &args) != 0) return false;
    handle = args.handle;
    size = args.size;
    object = args.obj_addr;
    iova = args.dma_addr;
    rknpu_mem_map place{};
    place.handle = handle;
    if (ioctl(fd, RKNPU_IOCTL_MEM_MAP, &place) != 0) return false;
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                    static_cast<off_t>(place.offset));
    memory = at != MAP_FAILED ? static_cast<std::uint8_t*>(at) : nullptr;
    return memory != nullptr;
  }

  bool destroy(int fd) {
    const bool unmapped = munmap(memory, size) == 0;
    rknpu_mem_destroy args{};
    args.handle = handle;
    args.obj_addr = object;
    return ioctl(fd, RKNPU_IOCTL_MEM_DESTROY, &args) == 0 && unmapped;
  }

  [[nodiscard]] int sync(int fd, std::uint32_t flags) const {
    rknpu_mem_sync args{};
    args.flags = flags;
    args.obj_addr = object;
    args.size = size;
    return ioctl(fd, RKNPU_IOCTL_MEM_SYNC, &args);
  }
};

inline rknpu_submit make_submit(std::uint64_t object, std::uint32_t core, std::uint32_t tasks) {
  rknpu_submit args{};
  args.flags = RKNPU_JOB_PC;
  args.timeout = 6000;
  args.task_number = tasks;
  args.task_obj_addr = object;
  args.core_mask = 1U << core;
  args.fence_fd = -1;
  args.subcore_task[core].task_number = tasks;
  return args;
}

/// A chain of equal matmuls, 4 x 32 x 32 of ones, and what it needs.
class Work {
 public:
  static constexpr std::uint32_t kMost = 3;  ///< tasks

  bool create(int fd) {
    fd_ = fd;
    return tasks_.create(fd, 4096, kTasks) && program_.create(fd, 8192, kData) &&
           data_.create(fd, 3 * 4096, kData);
  }
  bool destroy() { return tasks_.destroy(fd_) && program_.destroy(fd_) && data_.destroy(fd_); }
  /// The descriptor that it uses from now on.
  void use(int fd) { fd_ = fd; }

  void build(std::uint32_t tasks) {
    std::memset(data_.memory, 1, 2 * 4096);
    std::memset(data_.memory + 2 * 4096, 0, 4096);
    rkc_matmul blocks[kMost]{};
    for (rkc_matmul& block : blocks) {
      block.type = RKC_I8_I32;
      block.layout = RKC_FLAT;
      block.m = block.m_total = 4;
      block.k = block.n = 32;
      block.a = static_cast<u32>(data_.iova);
      block.b = block.a + 4096;
      block.c = block.a + 2 * 4096;
    }
    rkc_measure measure{};
    const u32 mode = tasks == 1 ? RKC_SINGLE : RKC_LINK;
    rkc_chain_measure(mode, tasks, &measure, nullptr);
    u64 words[kMost * 128]{};
    rkc_chain_emit(mode, blocks, tasks, program_.iova, words, nullptr);
    std::memcpy(program_.memory, words, sizeof(words));
    for (std::uint32_t i = 0; i < tasks; i++) {
      rknpu_task task{};
      task.int_mask = RKNPU_INT_DPU;
      task.regcfg_amount = measure.regcfg_amount;
      task.regcmd_addr = program_.iova + std::uint64_t{8} * i * measure.stride;
      std::memcpy(tasks_.memory + i * sizeof(task), &task, sizeof(task));
    }
  }

  /// Cache maintenance of all that it has.
  [[nodiscard]] bool sync(std::uint32_t flags) const {
    return tasks_.sync(fd_, flags) == 0 && program_.sync(fd_, flags) == 0 &&
           data_.sync(fd_, flags) == 0;
  }

  [[nodiscard]] int submit(std::uint32_t core, std::uint32_t tasks) const {
    rknpu_submit args = make_submit(tasks_.object, core, tasks);
    return ioctl(fd_, RKNPU_IOCTL_SUBMIT, &args);
  }

  /// Are the results there?
  [[nodiscard]] bool right() const {
    for (std::size_t i = 0; i < std::size_t{4} * 32; i++) {
      std::int32_t value = 0;
      std::memcpy(&value, data_.memory + 2 * 4096 + 4 * i, 4);
      if (value != 32) return false;
    }
    return true;
  }

  [[nodiscard]] const ClientBuffer& data() const { return data_; }
  [[nodiscard]] const ClientBuffer& tasks() const { return tasks_; }

 private:
  int fd_ = -1;
  ClientBuffer tasks_, program_, data_;
};

}  // namespace rkchain::test

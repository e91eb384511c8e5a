// SPDX-License-Identifier: MIT
// The stock driver as its callers see it, with three cores of the software NPU behind it.
// It notes every submit that breaks a rule.
#pragma once

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/model_memory.hpp"
#include "fake_system.hpp"
#include "kmod/core/chain.h"
#include "kmod/core/judge.h"
#include "kmod/core/window.h"
#include "lib/model/npu.h"
#include "uapi/rknpu.h"

namespace rkchain::test {

class FakeRknpu {
 public:
  static constexpr int kFd = 70;
  static constexpr const char* kNode = "/dev/dri/renderD129";

  /// What a submit comes to.
  struct Fate {
    int error = 0;
    bool committed = true;
  };

  struct Sync {
    std::uint64_t object = 0;
    std::uint32_t flags = 0;
    std::uint64_t size = 0;
  };

  // Set before use.
  std::size_t create_size = sizeof(rknpu_mem_create);
  int domain = 0;  ///< of ACTION 24, or a negative errno
  std::uint64_t iova_offset = 0;
  /// Asked on the thread of each submit, before it runs; it may block.
  std::function<Fate(std::uint32_t core)> fate;

  /// Puts a node of this driver into a machine.
  explicit FakeRknpu(FakeSystem& machine) {
    machine.nodes[kNode] = kFd;
    machine.drivers[kFd] = "rknpu";
    machine.devices.push_back({kNode, {"rockchip,rk3588-rknpu"}});
    machine.drm_ioctl = [this](int, unsigned long command, void* argument) {
      return call(command, argument);
    };
    machine.map = [this](int, std::size_t, std::uint64_t offset, std::byte*& memory) {
      return map(offset, memory);
    };
    for (std::uint32_t i = 0; i < 3; ++i) {
      const std::size_t size = (npu_core_size() + 63) / 64 * 64;
      cores_[i].npu.reset(static_cast<npu_core*>(std::aligned_alloc(64, size)));
      cores_[i].ops.map = [](void* self, npu_access, u64 iova, u64 len) -> void* {
        return static_cast<FakeRknpu*>(self)->reach(iova, len);
      };
      cores_[i].ops.ctx = this;
      npu_init(cores_[i].npu.get(), i, &cores_[i].ops);
    }
  }

  [[nodiscard]] std::size_t buffers() const {
    const std::lock_guard lock(mutex_);
    return buffers_.size();
  }
  [[nodiscard]] std::vector<rknpu_submit> submits() const {
    const std::lock_guard lock(mutex_);
    return submits_;
  }
  [[nodiscard]] std::vector<std::string> violations() const {
    const std::lock_guard lock(mutex_);
    return violations_;
  }
  [[nodiscard]] std::vector<Sync> syncs() const {
    const std::lock_guard lock(mutex_);
    return syncs_;
  }
  void forget_syncs() {
    const std::lock_guard lock(mutex_);
    syncs_.clear();
  }
  /// How the driver names the buffer at an address.
  [[nodiscard]] std::uint64_t object_at(std::uint32_t iova) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, region] : buffers_) {
      if (region->iova() == iova) return object(handle);
    }
    return 0;
  }

 private:
  struct Free {
    void operator()(npu_core* core) const noexcept { std::free(core); }
  };
  struct Core {
    std::unique_ptr<npu_core, Free> npu;
    npu_ops ops{};
    bool busy = false;
  };

  static std::uint64_t object(std::uint32_t handle) {
    return 0xffff000000000000 + std::uint64_t{handle} * 256;
  }

  int call(unsigned long command, void* argument) {
    switch (_IOC_NR(command) - 0x40) {
      case RKNPU_ACTION:
        return act(*static_cast<rknpu_action*>(argument));
      case RKNPU_SUBMIT:
        return submit(*static_cast<rknpu_submit*>(argument));
      case RKNPU_MEM_CREATE:
        if (_IOC_SIZE(command) != create_size) return -ENOTTY;
        return create(argument);
      case RKNPU_MEM_MAP: {
        auto& place = *static_cast<rknpu_mem_map*>(argument);
        place.offset = std::uint64_t{place.handle} << 16;
        return 0;
      }
      case RKNPU_MEM_DESTROY: {
        const auto& gone = *static_cast<rknpu_mem_destroy*>(argument);
        const std::lock_guard lock(mutex_);
        if (gone.obj_addr != object(gone.handle)) violations_.emplace_back("MEM_DESTROY: object");
        return buffers_.erase(gone.handle) == 1 ? 0 : -EINVAL;
      }
      case RKNPU_MEM_SYNC: {
        const auto& range = *static_cast<rknpu_mem_sync*>(argument);
        const std::lock_guard lock(mutex_);
        syncs_.push_back({range.obj_addr, range.flags, range.size});
        return 0;
      }
      default:
        return -ENOTTY;
    }
  }

  int act(rknpu_action& action) const {
    if (action.flags == RKNPU_GET_DRV_VERSION) action.value = 908;
    if (action.flags == RKNPU_GET_IOMMU_DOMAIN) {
      if (domain < 0) return domain;
      action.value = static_cast<std::uint32_t>(domain);
    }
    return action.flags == RKNPU_GET_DRV_VERSION || action.flags == RKNPU_GET_IOMMU_DOMAIN
               ? 0
               : -EINVAL;
  }

  int create(void* argument) {
    rknpu_mem_create memory{};
    std::memcpy(&memory, argument, create_size);
    auto region = std::make_shared<ModelRegion>(space_, memory.size);
    const std::lock_guard lock(mutex_);
    if (memory.size % 4096 != 0) violations_.emplace_back("MEM_CREATE: size");
    if ((memory.flags & ~0x28U) != 0x403) violations_.emplace_back("MEM_CREATE: flags");
    memory.handle = next_handle_++;
    memory.obj_addr = object(memory.handle);
    memory.dma_addr = region->iova() + iova_offset;
    mapped_kernel_[memory.handle] = (memory.flags & RKNPU_MEM_KERNEL_MAPPING) != 0;
    buffers_.emplace(memory.handle, std::move(region));
    std::memcpy(argument, &memory, create_size);
    return 0;
  }

  int map(std::uint64_t offset, std::byte*& memory) {
    const std::lock_guard lock(mutex_);
    const auto at = buffers_.find(static_cast<std::uint32_t>(offset >> 16));
    if (at == buffers_.end()) return -EINVAL;
    memory = at->second->cpu();
    return 0;
  }

  void* reach(std::uint64_t iova, std::uint64_t len) {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, region] : buffers_) {
      if (iova >= region->iova() && iova + len <= region->iova() + region->size()) {
        return region->cpu() + (iova - region->iova());
      }
    }
    return nullptr;
  }

  int submit(rknpu_submit& args) {
    const auto core = static_cast<std::uint32_t>(__builtin_ctz(args.core_mask | 8));
    std::shared_ptr<ModelRegion> array;
    {
      const std::lock_guard lock(mutex_);
      submits_.push_back(args);
      const auto rule = [&](bool kept, const char* what) {
        if (!kept) violations_.emplace_back(what);
      };
      rule(core < 3 && args.core_mask == 1U << core, "one core");
      rule(args.flags == RKNPU_JOB_PC, "flags");
      rule(args.timeout == RKC_STOCK_TIMEOUT_MS, "time-out");
      rule(args.task_base_addr == 0 && args.iommu_domain_id == 0, "base address, domain");
      rule(args.fence_fd == -1, "fence");
      if (core >= 3) return -EINVAL;
      rule(args.task_number != 0 && args.subcore_task[core].task_number == args.task_number &&
               args.subcore_task[core].task_start == args.task_start,
           "tasks of the core");
      rule(!cores_[core].busy, "one submit per core");
      cores_[core].busy = true;
      for (const auto& [handle, region] : buffers_) {
        if (object(handle) != args.task_obj_addr) continue;
        array = region;
        rule(mapped_kernel_[handle], "task array without KERNEL_MAPPING");
      }
      rule(array != nullptr, "task array");
    }
    const int error = array ? execute(args, core, *array) : -EINVAL;
    const std::lock_guard lock(mutex_);
    cores_[core].busy = false;
    return error;
  }

  int execute(rknpu_submit& args, std::uint32_t core, ModelRegion& array) {
    const std::size_t last = args.task_start + args.task_number - 1;
    if ((last + 1) * sizeof(rknpu_task) > array.size()) return -EFAULT;
    rknpu_task first{};
    std::memcpy(&first, array.cpu() + args.task_start * sizeof(first), sizeof(first));
    std::byte* const status =
        array.cpu() + last * sizeof(rknpu_task) + offsetof(rknpu_task, int_status);
    std::uint32_t value = 0;
    std::memcpy(&value, status, sizeof(value));
    if (value != RKC_NOT_COMMITTED) {
      const std::lock_guard lock(mutex_);
      violations_.emplace_back("int_status was not preset");
    }
    const Fate what = fate ? fate(core) : Fate{};
    value = 0;
    if (what.error == 0) {
      npu_core* const npu = cores_[core].npu.get();
      const npu_job job{static_cast<u32>(first.regcmd_addr), rkc_pc_amount(first.regcfg_amount),
                        first.int_mask, args.task_number, 0};
      npu_start(npu, &job);
      while ((npu_run(npu) & (NPU_EV_IDLE | NPU_EV_STUCK)) == 0) {
      }
      value = npu_read(npu, NPU_PC_INT_STATUS);
      npu_write(npu, NPU_PC_INT_CLEAR, 0x1ffff);
      args.task_counter = args.task_number;
      args.hw_elapse_time = 1000 * static_cast<std::int64_t>(args.task_number);
      if ((value & first.int_mask) == 0) return -ETIMEDOUT;
    }
    if (what.committed) std::memcpy(status, &value, sizeof(value));
    return what.error;
  }

  const std::shared_ptr<IovaSpace> space_ = std::make_shared<IovaSpace>();
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<ModelRegion>> buffers_;
  std::map<std::uint32_t, bool> mapped_kernel_;
  std::uint32_t next_handle_ = 1;
  std::array<Core, 3> cores_;
  std::vector<rknpu_submit> submits_;
  std::vector<std::string> violations_;
  std::vector<Sync> syncs_;
};

}  // namespace rkchain::test

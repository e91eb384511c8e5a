// SPDX-License-Identifier: MIT
//
// The software NPU for the fuzzers: memory that consists of the declared buffers and nothing else,
// and a core that an earlier client has left in a state of its own.
#pragma once

#include <array>
#include <random>

#include "fuzz/input.hpp"
#include "kmod/core/check.h"
#include "lib/model/npu.h"
#include "lib/model/npu_core.h"

namespace rkchain::fuzz {

/// The declared buffers, each in a heap block of exactly its size.
class Memory {
 public:
  struct Buffer {
    rkc_buf declared;
    std::vector<std::uint8_t> bytes;
  };

  explicit Memory(const std::vector<rkc_buf>& declared) {
    std::minstd_rand random(1);
    for (const auto& buf : declared) {
      buffers_.push_back({buf, std::vector<std::uint8_t>(buf.size)});
      // Small as int8, and never infinity or NaN as fp16.
      auto& bytes = buffers_.back().bytes;
      for (std::size_t i = 0; i < bytes.size(); i++) {
        const u32 r = random() >> 8;
        if ((buf.iova + i) % 2 == 0) {
          bytes[i] = static_cast<std::uint8_t>(r % 7 - 3);
        } else {
          bytes[i] = static_cast<std::uint8_t>((r & 7) != 0 ? r >> 3 & 3 : 0x30 | (r & 0x80));
        }
      }
    }
  }

  [[nodiscard]] const std::vector<Buffer>& buffers() const { return buffers_; }

  /// @return nullptr where that was not declared
  std::uint8_t* find(u64 iova, u64 len, u32 flag) {
    for (auto& buffer : buffers_) {
      const auto& [start, size, flags, reserved] = buffer.declared;
      if ((flags & flag) != 0 && iova >= start && len <= size && iova - start <= size - len) {
        return buffer.bytes.data() + (iova - start);
      }
    }
    return nullptr;
  }

  bool operator==(const Memory& other) const {
    return std::equal(buffers_.begin(), buffers_.end(), other.buffers_.begin(),
                      [](const Buffer& x, const Buffer& y) { return x.bytes == y.bytes; });
  }

 private:
  std::vector<Buffer> buffers_;
};

/// Makes a core one that somebody has used before: CBUF and the shadow registers hold what depends
/// on a seed.
inline void poison(npu_core* core, u32 seed, const npu_ops* ops) {
  npu_init(core, 0, ops);
  npu_poison(core, seed * 0x9e3779b1U | 1);
  std::minstd_rand random(seed);
  for (std::size_t i = 0; i < NPU_CBUF_BYTES; i += 2) {
    // Never infinity or NaN as fp16: these would make all pasts look alike.
    const u32 r = (random() >> 8 & 0xffff) & ~0x4000U;
    core->cbuf[i] = static_cast<u8>(r);
    core->cbuf[i + 1] = static_cast<u8>(r >> 8);
  }
}

/// One job as a driver gives it.
struct Job {
  u32 amount = 0;  ///< PC_DATA_AMOUNT
  u32 tasks = 1;
};

class World {
 public:
  static constexpr u32 kPoisons = 2;

  World() {
    ops_.map = [](void* ctx, npu_access access, u64 iova, u64 len) -> void* {
      return static_cast<World*>(ctx)->map(access, iova, len);
    };
    ops_.scratch = [](void* ctx, u32 which, u64 len) -> void* {
      auto& scratch = static_cast<World*>(ctx)->scratch_[which];
      scratch.assign(len, 0x5a);
      return scratch.data();
    };
    ops_.ctx = this;
    core_ = std::make_unique<std::byte[]>(npu_core_size());
    for (auto& poisoned : poisoned_) {
      poison(core(), static_cast<u32>(&poisoned - poisoned_.data()) + 1, &ops_);
      poisoned.assign(core_.get(), core_.get() + npu_core_size());
    }
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Gives the core the past number @p past, of which there are any number.
  void use(u32 past) {
    if (past < kPoisons) {
      std::memcpy(core_.get(), poisoned_[past].data(), npu_core_size());
    } else {
      poison(core(), past + 1, &ops_);
    }
  }

  npu_core* core() { return reinterpret_cast<npu_core*>(core_.get()); }

  /// Runs a program that lies at @p iova.  @return whether it came to a good end
  bool run(Memory& memory, const Words& program, u32 iova, const Job& job) {
    memory_ = &memory;
    program_ = &program;
    program_iova_ = iova;
    const npu_job start{iova, job.amount, NPU_INT_DPU_0 | NPU_INT_DPU_1, job.tasks, 0};
    npu_start(core(), &start);
    const u32 events = npu_run(core());
    const u32 status = npu_read(core(), NPU_PC_INT_STATUS);
    npu_write(core(), NPU_PC_INT_CLEAR, ~0U);
    return (events & (NPU_EV_IRQ | NPU_EV_IDLE)) == (NPU_EV_IRQ | NPU_EV_IDLE) &&
           npu_fault(core())->code == NPU_FAULT_NONE &&
           (status == NPU_INT_DPU_0 || status == NPU_INT_DPU_1);
  }

  /// While set, an access outside of what these blocks touch breaks a property.
  void confine(const std::vector<rkc_extents>* extents) { extents_ = extents; }

 private:
  void* map(npu_access access, u64 iova, u64 len) {
    if (access == NPU_FETCH) {
      const u64 size = program_->size() * 8;
      if (iova < program_iova_ || len > size || iova - program_iova_ > size - len) return nullptr;
      return reinterpret_cast<std::byte*>(program_->data()) + (iova - program_iova_);
    }
    if (extents_ != nullptr) {
      const bool inside = std::any_of(extents_->begin(), extents_->end(),
                                      [access, iova, len](const rkc_extents& block) {
                                        const auto& x = access == NPU_FEATURE  ? block.a
                                                        : access == NPU_WEIGHT ? block.b
                                                                               : block.c;
                                        return iova >= x.start && iova + len <= x.start + x.len;
                                      });
      require(inside, "what we emit touches only what its extents say");
    }
    return memory_->find(iova, len, access == NPU_OUTPUT ? RKC_BUF_WRITE : RKC_BUF_READ);
  }

  npu_ops ops_{};
  std::array<std::vector<std::byte>, kPoisons> poisoned_;  ///< to be copied, which is quicker
  std::unique_ptr<std::byte[]> core_;
  std::array<std::vector<std::uint8_t>, 2> scratch_;
  Memory* memory_ = nullptr;
  const Words* program_ = nullptr;
  u64 program_iova_ = 0;
  const std::vector<rkc_extents>* extents_ = nullptr;
};

}  // namespace rkchain::fuzz

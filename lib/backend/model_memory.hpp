// SPDX-License-Identifier: MIT
// The memory around the software NPU: a 32-bit address space of regions that
// the CPU can reach too, and the part of it that one chain may touch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/model/npu.h"

namespace rkchain {

/// Hands out addresses.  They are multiples of 4096, below 4 GiB, never 0, and at
/// least 4096 bytes of nothing lie between any two regions.  Thread-safe.
class IovaSpace {
 public:
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kBegin = 0x10000000;
  static constexpr std::uint64_t kEnd = 0xfffff000;

  /// @param size a multiple of kPage
  /// @throws Error out_of_memory.
  std::uint32_t take(std::uint64_t size);
  void give_back(std::uint32_t iova) noexcept;

 private:
  [[nodiscard]] std::uint64_t find(std::uint64_t from, std::uint64_t size) const;

  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> taken_;  ///< begin -> end
  std::uint64_t used_ = 0;
  std::uint64_t next_ = kBegin;
};

/// Memory with an address in an IovaSpace, zeroed.
class ModelRegion {
 public:
  /// @throws Error out_of_memory.
  ModelRegion(std::shared_ptr<IovaSpace> space, std::size_t size);
  ModelRegion(const ModelRegion&) = delete;
  ModelRegion& operator=(const ModelRegion&) = delete;
  ~ModelRegion();

  [[nodiscard]] std::byte* cpu() const noexcept { return cpu_; }
  [[nodiscard]] std::uint32_t iova() const noexcept { return iova_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Takes the region away from the NPU, as a broken page table would.
  void unmap() noexcept { mapped_ = false; }
  [[nodiscard]] bool mapped() const noexcept { return mapped_; }

 private:
  std::shared_ptr<IovaSpace> space_;
  std::size_t size_ = 0;
  std::size_t whole_ = 0;  ///< in pages
  std::uint32_t iova_ = 0;
  std::byte* cpu_ = nullptr;
  std::atomic<bool> mapped_{true};
};

/// What one chain may touch: it fetches from its own program, reads features and
/// weights where READ was declared, and writes where WRITE was.
class ModelView {
 public:
  void set_program(std::shared_ptr<ModelRegion> program) { program_ = std::move(program); }
  /// The regions of a view do not overlap.
  void add(std::shared_ptr<ModelRegion> region, bool read, bool write);

  /// @return bytes [iova, iova + len), or nullptr when any of them is not allowed.
  [[nodiscard]] std::byte* map(npu_access access, std::uint64_t iova, std::uint64_t len) const;

 private:
  struct Declared {
    std::shared_ptr<ModelRegion> region;
    bool read = false;
    bool write = false;
  };

  std::shared_ptr<ModelRegion> program_;
  std::vector<Declared> declared_;  ///< by address
};

}  // namespace rkchain

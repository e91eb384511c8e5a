// SPDX-License-Identifier: MIT
// What kmod/core says of a chain, for the back ends that run chains from this process.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "kmod/core/chain.h"
#include "kmod/core/check.h"

namespace rkchain {

/// A chain that has been recognised and stays inside its buffers.
class CheckedChain {
 public:
  /// @param buffers those that the chain declares, at their addresses
  /// @param mode the layout that it is going to run in
  /// @param ordered a block may read what an earlier one wrote
  /// @throws Error check_failed with reason, block and word; invalid_argument for the mode.
  CheckedChain(const ChainProgram& program, std::span<const rkc_buf> buffers, Mode mode,
               bool ordered);

  /// Lays the program out that the NPU fetches: the generator's, not the caller's.
  /// @param iova where @p words lies for the NPU
  /// @param words room for measure().words
  /// @throws Error check_failed for the address.
  void emit(std::uint64_t iova, std::uint64_t* words) const;

  [[nodiscard]] std::uint32_t blocks() const noexcept {
    return static_cast<std::uint32_t>(blocks_.size());
  }
  [[nodiscard]] std::span<const rkc_matmul> matmuls() const noexcept { return blocks_; }
  [[nodiscard]] const rkc_measure& measure() const noexcept { return measure_; }
  [[nodiscard]] bool replayable() const noexcept { return checked_.replayable; }
  [[nodiscard]] const rkc_cost& cost() const noexcept { return checked_.cost; }
  /// Multiplications and additions with inputs of one byte, and of two.
  [[nodiscard]] const std::array<std::uint64_t, 2>& macs() const noexcept { return macs_; }

 private:
  std::uint32_t mode_;
  std::vector<rkc_matmul> blocks_;
  std::array<std::uint64_t, 2> macs_{};
  rkc_checked checked_{};
  rkc_measure measure_{};
};

/// As the checker wants it.
[[nodiscard]] inline rkc_buf declared(const BufferUse& use, std::uint32_t iova, std::size_t size) {
  return {iova, size,
          (use.read ? RKC_BUF_READ : 0) | (use.write ? RKC_BUF_WRITE : 0) |
              (use.sync ? RKC_BUF_SYNC : 0),
          0};
}

/// @throws Error invalid_argument
void require_mode(Mode mode);
/// @throws Error invalid_argument when nothing or more than the address space is asked for.
void require_buffer_size(std::size_t size);
/// @throws Error invalid_argument when bytes [offset, offset + size) are not all in @p whole.
void require_range(std::size_t offset, std::size_t size, std::size_t whole);

}  // namespace rkchain

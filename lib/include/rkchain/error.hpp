// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace rkchain {

/// What a caller can act on.  Values are those of the C ABI (rkchain_status).
enum class Errc : std::int32_t {
  invalid_argument = 1,   ///< an argument breaks a limit; the text names both
  out_of_memory = 2,      ///< host memory or device address space
  no_device = 3,          ///< no NPU, or no driver that we can use
  permission = 4,         ///< a node exists and may not be opened
  check_failed = 5,       ///< a program was refused; see Error::reason()
  busy = 6,               ///< the chain is in flight already
  queue_full = 7,         ///< backpressure: try again after a completion
  timed_out = 8,          ///< a deadline of the caller passed; the work goes on
  hung = 9,               ///< the NPU did not finish the chain
  dma_error = 10,         ///< the NPU touched an address that is not mapped
  early_completion = 11,  ///< completion was signalled before the last block
  dropped_dispatch = 12,  ///< accepted and never started
  io = 13,                ///< any other failure of the device
  cancelled = 14,         ///< a predecessor failed, or the stream was closed
  unsupported = 15,       ///< valid, but not by this back end
  bad_format = 16,        ///< a file or text that cannot be read
};

[[nodiscard]] std::string_view name(Errc code) noexcept;

/// The only exception type that the library throws on its own account.
class Error : public std::runtime_error {
 public:
  static constexpr std::uint32_t no_position = 0xffffffffU;

  Error(Errc code, const std::string& what) : std::runtime_error(what), code_(code) {}
  Error(Errc code, const std::string& what, std::uint32_t reason, std::uint32_t block,
        std::uint32_t word)
      : std::runtime_error(what), code_(code), reason_(reason), block_(block), word_(word) {}

  [[nodiscard]] Errc code() const noexcept { return code_; }
  /// Number of the reason (kmod/core/reason.h) when code() is check_failed, else 0.
  [[nodiscard]] std::uint32_t reason() const noexcept { return reason_; }
  [[nodiscard]] std::uint32_t block() const noexcept { return block_; }
  /// 64-bit word within the block, or no_position.
  [[nodiscard]] std::uint32_t word() const noexcept { return word_; }

 private:
  Errc code_;
  std::uint32_t reason_ = 0;
  std::uint32_t block_ = no_position;
  std::uint32_t word_ = no_position;
};

}  // namespace rkchain

#pragma GCC visibility pop

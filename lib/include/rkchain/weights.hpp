// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "rkchain/device.hpp"
#include "rkchain/types.hpp"

#pragma GCC visibility push(default)

namespace rkchain {

/// B[K,N], packed once as the NPU reads it and resident on the device.
///
/// K and N are any numbers >= 1: padding is zeros.  Copies share the memory.
class Weights {
 public:
  /// @param source int8, laid out as @p order says: N rows of K elements (nk) or K rows of N (kn).
  /// @param stride elements from one source row to the next; 0 = rows follow without gaps, and
  ///   then source.size() has to be K * N exactly.
  /// @throws Error invalid_argument: a dimension is 0, K * N is more than the NPU addresses,
  ///   source is too short or not K * N, stride is shorter than a row; out_of_memory.
  static Weights pack(const Device& device, std::uint32_t k, std::uint32_t n,
                      std::span<const std::int8_t> source, Source order = Source::nk,
                      std::size_t stride = 0);
  /// The same for fp16.
  static Weights pack(const Device& device, std::uint32_t k, std::uint32_t n,
                      std::span<const Half> source, Source order = Source::nk,
                      std::size_t stride = 0);

  [[nodiscard]] std::uint32_t k() const noexcept;
  [[nodiscard]] std::uint32_t n() const noexcept;
  [[nodiscard]] bool is_fp16() const noexcept;
  /// Bytes on the device, padding included.
  [[nodiscard]] std::size_t device_bytes() const noexcept;

  struct [[gnu::visibility("hidden")]] Impl;
  explicit Weights(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  [[nodiscard]] const Impl& impl() const noexcept { return *impl_; }
  [[nodiscard]] const std::shared_ptr<const Impl>& share() const noexcept { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace rkchain

#pragma GCC visibility pop

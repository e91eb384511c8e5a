// SPDX-License-Identifier: MIT
// What results are compared with: seeded data, and matmuls on the CPU.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rkchain/types.hpp"

namespace rkchain::tool {

/// A sequence of numbers that is the same on every machine (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// @return low .. high, both included; high - low < 2^32.
  std::int32_t between(std::int32_t low, std::int32_t high);
  [[nodiscard]] std::vector<std::int8_t> bytes(std::size_t count, std::int32_t low,
                                               std::int32_t high);

 private:
  std::uint64_t state_;
};

/// C[M,N] = A[M,K] * B, with B as [N][K]; sums are exact for K <= 131071.
void reference_i8(const Shape& shape, std::span<const std::int8_t> a,
                  std::span<const std::int8_t> b, std::span<std::int32_t> c);
/// The same for fp16 values that are already float, summed in double.
/// @param scale per element, the sum of the products' magnitudes: what a tolerance refers to.
void reference_f16(const Shape& shape, std::span<const float> a, std::span<const float> b,
                   std::span<double> c, std::span<double> scale);

/// The place of one element of the packed weights that the NPU reads.
[[nodiscard]] std::size_t packed_index(std::uint32_t k_size, std::uint32_t kernel_group,
                                       std::uint32_t k, std::uint32_t n);

[[nodiscard]] constexpr std::int8_t saturate_i8(std::int32_t value) noexcept {
  return static_cast<std::int8_t>(value < -128 ? -128 : value > 127 ? 127 : value);
}

}  // namespace rkchain::tool

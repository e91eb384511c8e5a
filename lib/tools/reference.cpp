// SPDX-License-Identifier: MIT
#include "tools/reference.hpp"

#include <cmath>

namespace rkchain::tool {

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
  return z ^ z >> 31;
}

std::int32_t Random::between(std::int32_t low, std::int32_t high) {
  const auto span = static_cast<std::uint64_t>(std::int64_t{high} - low + 1);
  return static_cast<std::int32_t>(low + static_cast<std::int64_t>((next() >> 32) * span >> 32));
}

std::vector<std::int8_t> Random::bytes(std::size_t count, std::int32_t low, std::int32_t high) {
  std::vector<std::int8_t> values(count);
  for (std::int8_t& value : values) value = static_cast<std::int8_t>(between(low, high));
  return values;
}

void reference_i8(const Shape& shape, std::span<const std::int8_t> a,
                  std::span<const std::int8_t> b, std::span<std::int32_t> c) {
  const std::size_t k_size = shape.k;
  for (std::size_t m = 0; m < shape.m; m++)
    for (std::size_t n = 0; n < shape.n; n++) {
      const std::int8_t* x = a.data() + m * k_size;
      const std::int8_t* w = b.data() + n * k_size;
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < k_size; k++) sum += x[k] * w[k];
      c[m * shape.n + n] = sum;
    }
}

void reference_f16(const Shape& shape, std::span<const float> a, std::span<const float> b,
                   std::span<double> c, std::span<double> scale) {
  const std::size_t k_size = shape.k;
  for (std::size_t m = 0; m < shape.m; m++)
    for (std::size_t n = 0; n < shape.n; n++) {
      const float* x = a.data() + m * k_size;
      const float* w = b.data() + n * k_size;
      double sum = 0, magnitude = 0;
      for (std::size_t k = 0; k < k_size; k++) {
        // Two factors of 11 bits: the product is exact.
        const double product = static_cast<double>(x[k]) * w[k];
        sum += product;
        magnitude += std::fabs(product);
      }
      c[m * shape.n + n] = sum;
      scale[m * shape.n + n] = magnitude;
    }
}

std::size_t packed_index(std::uint32_t k_size, std::uint32_t kernel_group, std::uint32_t k,
                         std::uint32_t n) {
  constexpr std::uint32_t channels = 32;
  return std::size_t{n / kernel_group} * kernel_group * k_size +
         std::size_t{k / channels} * kernel_group * channels +
         std::size_t{n % kernel_group} * channels + k % channels;
}

}  // namespace rkchain::tool

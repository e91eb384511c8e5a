// SPDX-License-Identifier: MIT
// Vocabulary types of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

namespace rkchain {

/// Element types of a matmul, input -> output.  Values are those of the C ABI.
enum class Type : std::uint8_t {
  i8_i32 = 0,   ///< int8 x int8, exact int32 sums
  i8_i8 = 1,    ///< int8 x int8, sums saturated to int8
  f16_f32 = 2,  ///< fp16 x fp16, sum rounded to fp32
  f16_f16 = 3,  ///< fp16 x fp16, sum rounded to fp32, then to fp16
};

/// Memory layout of features and outputs on the device.
enum class Layout : std::uint8_t {
  flat = 0,    ///< row-major
  native = 1,  ///< NC1HWC2: groups of 16 bytes of channels, then pixels
};

/// How the device runs the blocks of one chain.
enum class Mode : std::uint8_t { wait = 0, wait41 = 1, link = 2, single = 3 };

/// How the matmuls of one Chain are spread over the cores.
enum class Strategy : std::uint8_t {
  /// One chain on one core; successive chains go round robin.
  rotate,
  /// The columns of every matmul over all cores, whole kernel groups each; of a flat result of
  /// several rows that is fed on, the rows.
  split,
  /// The blocks of one chain dealt out to all cores, then a barrier.
  fan_out,
};

/// How the source of weights lies in memory.
enum class Source : std::uint8_t {
  nk,  ///< [N][K] row-major: one row per output
  kn,  ///< [K][N] row-major
};

/// C[M,N] = A[M,K] * B[K,N]
struct Shape {
  std::uint32_t m = 0;
  std::uint32_t k = 0;
  std::uint32_t n = 0;
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// An fp16 value as its bits; the library never does arithmetic on the host's own half type.
struct Half {
  std::uint16_t bits = 0;
  friend bool operator==(const Half&, const Half&) = default;
};

/// Rounds to nearest even; overflow gives infinity, NaN stays NaN.
[[nodiscard]] Half to_half(float value) noexcept;
/// Exact.
[[nodiscard]] float to_float(Half value) noexcept;

[[nodiscard]] constexpr std::size_t input_bytes(Type type) noexcept {
  return type == Type::i8_i32 || type == Type::i8_i8 ? 1 : 2;
}
[[nodiscard]] constexpr std::size_t output_bytes(Type type) noexcept {
  return type == Type::i8_i8 ? 1 : type == Type::f16_f16 ? 2 : 4;
}

[[nodiscard]] std::string_view name(Type type) noexcept;      ///< "i8_i32" ...
[[nodiscard]] std::string_view name(Layout layout) noexcept;  ///< "flat", "native"
[[nodiscard]] std::string_view name(Mode mode) noexcept;      ///< "wait" ...
[[nodiscard]] std::string_view name(Strategy strategy) noexcept;

}  // namespace rkchain

#pragma GCC visibility pop

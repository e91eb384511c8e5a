// SPDX-License-Identifier: MIT
#include "rkchain/types.hpp"

#include <bit>

namespace rkchain {
namespace {

constexpr std::uint32_t kFloatInfinity = 0x7f800000U;
constexpr std::uint16_t kHalfInfinity = 0x7c00U;
constexpr std::uint16_t kHalfQuiet = 0x0200U;

/// value / 2^shift, rounded to nearest even; 1 <= shift <= 31.
constexpr std::uint32_t shift_to_even(std::uint32_t value, unsigned shift) noexcept {
  const std::uint32_t half = (1U << (shift - 1)) - 1;
  return (value + half + ((value >> shift) & 1U)) >> shift;
}

}  // namespace

Half to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t result = 0;
  if (magnitude > kFloatInfinity) {
    result = kHalfInfinity | kHalfQuiet | ((magnitude >> 13) & 0x3ffU);
  } else if (magnitude >= 0x47800000U) {  // 2^16 and more
    result = kHalfInfinity;
  } else if (magnitude >= 0x38800000U) {  // 2^-14 and more: a normal number
    // A carry out of the mantissa is right, up to and including infinity.
    result = shift_to_even(magnitude - (112U << 23), 13);
  } else if (magnitude >= 0x33000000U) {  // 2^-25 and more: subnormal, or rounds to one
    const unsigned shift = 126U - (magnitude >> 23);
    result = shift_to_even((magnitude & 0x7fffffU) | 0x800000U, shift);
  }
  return {static_cast<std::uint16_t>(sign | result)};
}

float to_float(Half value) noexcept {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fU;
  std::uint32_t mantissa = value.bits & 0x3ffU;
  std::uint32_t result = 0;
  if (exponent == 0x1fU) {
    result = kFloatInfinity | mantissa << 13;
  } else if (exponent != 0) {
    result = (exponent + 112U) << 23 | mantissa << 13;
  } else if (mantissa != 0) {
    // A subnormal: move its leading one to where a float hides it.
    const auto shift = static_cast<unsigned>(std::countl_zero(mantissa)) - 21U;
    mantissa = (mantissa << shift) & 0x3ffU;
    result = (113U - shift) << 23 | mantissa << 13;
  }
  return std::bit_cast<float>(sign | result);
}

std::string_view name(Type type) noexcept {
  switch (type) {
    case Type::i8_i32:
      return "i8_i32";
    case Type::i8_i8:
      return "i8_i8";
    case Type::f16_f32:
      return "f16_f32";
    case Type::f16_f16:
      return "f16_f16";
  }
  return "?";
}

std::string_view name(Layout layout) noexcept {
  switch (layout) {
    case Layout::flat:
      return "flat";
    case Layout::native:
      return "native";
  }
  return "?";
}

std::string_view name(Mode mode) noexcept {
  switch (mode) {
    case Mode::wait:
      return "wait";
    case Mode::wait41:
      return "wait41";
    case Mode::link:
      return "link";
    case Mode::single:
      return "single";
  }
  return "?";
}

std::string_view name(Strategy strategy) noexcept {
  switch (strategy) {
    case Strategy::rotate:
      return "rotate";
    case Strategy::split:
      return "split";
    case Strategy::fan_out:
      return "fan_out";
  }
  return "?";
}

}  // namespace rkchain

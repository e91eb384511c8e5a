// SPDX-License-Identifier: MIT
// What a matmul has to give, computed without anything of the library but its vocabulary types.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rkchain/rkchain.hpp"

namespace rkchain::test {

/// A fixed small sample of what takes long: for sanitizers and emulators.
inline bool sampled() {
#ifdef RKCHAIN_SAMPLE
  return true;
#else
  const char* const value = std::getenv("RKCHAIN_TEST_SAMPLE");
  return value != nullptr && std::string_view(value) != "0";
#endif
}

/// splitmix64: the same numbers everywhere, unlike what <random> makes of a generator.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// low .. high, both included.
  int between(int low, int high) {
    return low + static_cast<int>(next() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::uint64_t state_;
};

inline std::vector<std::int8_t> random_i8(std::size_t count, std::uint64_t seed) {
  Numbers numbers(seed);
  std::vector<std::int8_t> values(count);
  for (std::size_t i = 0; i < count; i += 8) {
    std::uint64_t word = numbers.next();
    for (std::size_t j = i; j < std::min(i + 8, count); ++j, word >>= 8) {
      values[j] = static_cast<std::int8_t>(word & 0xff);
    }
  }
  return values;
}

inline std::vector<std::int8_t> random_i8(std::size_t count, std::uint64_t seed, int low,
                                          int high) {
  Numbers numbers(seed);
  std::vector<std::int8_t> values(count);
  for (auto& value : values) value = static_cast<std::int8_t>(numbers.between(low, high));
  return values;
}

/// Whole numbers: every partial sum that stays below 2^24 is exact.
inline std::vector<Half> random_whole(std::size_t count, std::uint64_t seed, int low, int high) {
  Numbers numbers(seed);
  std::vector<Half> values(count);
  for (auto& value : values) value = to_half(static_cast<float>(numbers.between(low, high)));
  return values;
}

/// Multiples of 2^-10 in [-1, 1].
inline std::vector<Half> random_fraction(std::size_t count, std::uint64_t seed) {
  Numbers numbers(seed);
  std::vector<Half> values(count);
  for (auto& value : values) {
    value = to_half(static_cast<float>(numbers.between(-1024, 1024)) / 1024.0F);
  }
  return values;
}

/// [N][K] to [K][N].
template <typename T>
std::vector<T> transposed(std::span<const T> nk, std::size_t n, std::size_t k) {
  std::vector<T> kn(nk.size());
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < k; ++j) kn[j * n + i] = nk[i * k + j];
  }
  return kn;
}

/// Exact; b is [N][K].
inline std::vector<std::int32_t> product(std::span<const std::int8_t> a,
                                         std::span<const std::int8_t> b, const Shape& shape) {
  std::vector<std::int32_t> c(std::size_t{shape.m} * shape.n);
  for (std::size_t m = 0; m < shape.m; ++m) {
    for (std::size_t n = 0; n < shape.n; ++n) {
      std::int32_t sum = 0;
      const std::int8_t* const x = &a[m * shape.k];
      const std::int8_t* const y = &b[n * shape.k];
      for (std::size_t k = 0; k < shape.k; ++k) sum += x[k] * y[k];
      c[m * shape.n + n] = sum;
    }
  }
  return c;
}

inline std::vector<double> product(std::span<const Half> a, std::span<const Half> b,
                                   const Shape& shape) {
  std::vector<float> x(a.size());
  std::vector<float> y(b.size());
  std::transform(a.begin(), a.end(), x.begin(), to_float);
  std::transform(b.begin(), b.end(), y.begin(), to_float);
  std::vector<double> c(std::size_t{shape.m} * shape.n);
  for (std::size_t m = 0; m < shape.m; ++m) {
    for (std::size_t n = 0; n < shape.n; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < shape.k; ++k) {
        sum += static_cast<double>(x[m * shape.k + k]) * y[n * shape.k + k];
      }
      c[m * shape.n + n] = sum;
    }
  }
  return c;
}

inline std::vector<std::int8_t> saturated(std::span<const std::int32_t> sums) {
  std::vector<std::int8_t> values(sums.size());
  std::transform(sums.begin(), sums.end(), values.begin(),
                 [](std::int32_t v) { return static_cast<std::int8_t>(std::clamp(v, -128, 127)); });
  return values;
}

/// Compares whole results at the price of one matrix-vector product: C == A * B exactly when
/// C * x == A * (B * x) for all x.  For one random x modulo 2^64 each wrong row, whose errors
/// are below 2^32, is missed with a probability of at most 2^-31.
class Projection {
 public:
  /// @param b [N][K]
  Projection(std::span<const std::int8_t> b, std::uint32_t k, std::uint32_t n, std::uint64_t seed)
      : x_(n), bx_(k) {
    Numbers numbers(seed);
    for (auto& value : x_) value = numbers.next();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < k; ++j) {
        bx_[j] += x_[i] * static_cast<std::uint64_t>(std::int64_t{b[i * k + j]});
      }
    }
  }

  /// @return the first row of C that is wrong, or M.
  [[nodiscard]] std::size_t first_wrong_row(std::span<const std::int8_t> a,
                                            std::span<const std::int32_t> c) const {
    const std::size_t rows = a.size() / bx_.size();
    for (std::size_t m = 0; m < rows; ++m) {
      const auto left = dot(c.subspan(m * x_.size(), x_.size()), x_);
      const auto right = dot(a.subspan(m * bx_.size(), bx_.size()), bx_);
      if (left != right) return m;
    }
    return rows;
  }

 private:
  template <typename T>
  static std::uint64_t dot(std::span<const T> values, const std::vector<std::uint64_t>& by) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < by.size(); ++i) {
      sum += static_cast<std::uint64_t>(std::int64_t{values[i]}) * by[i];
    }
    return sum;
  }

  std::vector<std::uint64_t> x_;
  std::vector<std::uint64_t> bx_;
};

/// The back end that the suite runs on, RKCHAIN_TEST_BACKEND: model, kmod or stock.
inline BackendKind tested_backend() {
  const char* const value = std::getenv("RKCHAIN_TEST_BACKEND");
  for (const BackendKind kind : {BackendKind::kmod, BackendKind::stock}) {
    if (value != nullptr && value == name(kind)) return kind;
  }
  return BackendKind::model;
}

/// RKCHAIN_TEST_MODE: wait, wait41, link or single, where the back end has no mode of its own.
inline OpenOptions tested_options() {
  OpenOptions options;
  const char* const value = std::getenv("RKCHAIN_TEST_MODE");
  for (const Mode mode : {Mode::wait, Mode::wait41, Mode::link, Mode::single}) {
    if (value != nullptr && value == name(mode)) options.mode = mode;
  }
  return options;
}

inline Device open_device(OpenOptions options = tested_options()) {
  options.backend = tested_backend();
  return Device::open(options);
}

/// Code and text of what @p body throws; code 0 when it does not.
struct Thrown {
  Errc code{};
  std::string text;
};
template <typename Body>
Thrown thrown_by(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

}  // namespace rkchain::test

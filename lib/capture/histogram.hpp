// SPDX-License-Identifier: MIT
// How often which magnitude occurred, in memory that does not grow.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rkchain::capture {

/// Numbers by magnitude: exact below 16, then 16 steps for each power of two, so that a quantile
/// is at most 1/16 off.  Count, sum, smallest and largest are exact.
class Histogram {
 public:
  static constexpr std::size_t steps = 16;

  void add(std::uint64_t value) {
    const std::size_t at = place(value);
    if (buckets_.size() <= at) buckets_.resize(at + 1);
    buckets_[at]++;
    min_ = count_ == 0 ? value : std::min(min_, value);
    max_ = std::max(max_, value);
    sum_ += static_cast<double>(value);
    count_++;
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t min() const { return min_; }
  [[nodiscard]] std::uint64_t max() const { return max_; }
  [[nodiscard]] double sum() const { return sum_; }
  [[nodiscard]] double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

  /// @param part 0.5 is the median.
  /// @return the middle of the step where that part of the numbers is reached; 0 without any.
  [[nodiscard]] std::uint64_t quantile(double part) const {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(count_)));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); i++) {
      seen += buckets_[i];
      if (seen >= std::max<std::uint64_t>(wanted, 1))
        return std::clamp(low(i) + (low(i + 1) - low(i)) / 2, min_, max_);
    }
    return max_;
  }

  [[nodiscard]] const std::vector<std::uint64_t>& buckets() const { return buckets_; }
  /// The smallest number of bucket @p i.
  [[nodiscard]] static std::uint64_t low(std::size_t i) {
    if (i < steps) return i;
    const std::size_t octave = i / steps - 1;
    if (octave + std::bit_width(steps) > 64) return ~std::uint64_t{0};
    return static_cast<std::uint64_t>(steps + i % steps) << octave;
  }

 private:
  static std::size_t place(std::uint64_t value) {
    if (value < steps) return static_cast<std::size_t>(value);
    const auto octave = static_cast<std::size_t>(std::bit_width(value)) - std::bit_width(steps);
    return steps * (octave + 1) + (static_cast<std::size_t>(value >> octave) - steps);
  }

  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  std::uint64_t min_ = 0;
  std::uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace rkchain::capture

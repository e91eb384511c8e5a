// SPDX-License-Identifier: MIT
//
// Measuring one piece of code against another on a machine that others use too.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace rkchain::tool {

/// What time is taken. Thread time leaves out the turns that other programs had on the processor:
/// the one to use for work that neither waits nor hands over to other threads.
enum class Time { wall, thread };

struct MeasureOptions {
  Time time = Time::wall;
  std::size_t pairs = 15;  ///< samples of each, taken in turn
  std::chrono::nanoseconds sample = std::chrono::milliseconds(2);  ///< a sample's least length
  double spread = 1.25;      ///< upper quartile over lower one that counts as undisturbed
  std::size_t attempts = 5;  ///< how often to try for that
};

struct Ratio {
  double median;  ///< of the pairs' ratios, subject over baseline
  double min;
  double max;
  double spread;  ///< upper quartile over lower one
};

/// Makes the compiler believe that all memory is read and written here.
inline void touch_memory() { asm volatile("" ::: "memory"); }

namespace measure_detail {

inline std::chrono::nanoseconds now(Time time) {
  timespec t{};
  clock_gettime(time == Time::wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

template <class Work>
std::chrono::nanoseconds run(Work& work, std::size_t times, Time time) {
  const auto begin = now(time);
  for (std::size_t i = 0; i < times; ++i) {
    work();
    touch_memory();
  }
  return now(time) - begin;
}

/// How many calls make a sample long enough.
template <class Work>
std::size_t calibrate(Work& work, const MeasureOptions& options) {
  constexpr std::size_t most = std::size_t{1} << 30;
  run(work, 1, options.time);  // caches, page tables and the choice of instruction set
  std::size_t times = 1;
  for (auto took = run(work, times, options.time); took < options.sample && times < most;
       took = run(work, times, options.time)) {
    times *= took * 8 < options.sample ? 8 : 2;
  }
  return times;
}

inline Ratio summarise(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const std::size_t n = ratios.size();
  const double median = n % 2 == 1 ? ratios[n / 2] : (ratios[n / 2 - 1] + ratios[n / 2]) / 2;
  return {median, ratios.front(), ratios.back(), ratios[n - 1 - n / 4] / ratios[n / 4]};
}

}  // namespace measure_detail

/// The time of `subject()` over that of `baseline()`. Samples alternate, so that a change of clock
/// or a neighbour's load meets both of a pair; a disturbance shorter than that shows as spread, and
/// then all is taken again. The attempt with the least spread is the result.
template <class Subject, class Baseline>
Ratio measure_ratio(Subject&& subject, Baseline&& baseline, const MeasureOptions& options = {}) {
  namespace detail = measure_detail;
  const std::size_t subject_times = detail::calibrate(subject, options);
  const std::size_t baseline_times = detail::calibrate(baseline, options);
  const double scale = static_cast<double>(baseline_times) / static_cast<double>(subject_times);
  Ratio best{};
  for (std::size_t attempt = 0; attempt < std::max<std::size_t>(options.attempts, 1); ++attempt) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < std::max<std::size_t>(options.pairs, 1); ++i) {
      const std::chrono::duration<double> a = detail::run(subject, subject_times, options.time);
      const std::chrono::duration<double> b = detail::run(baseline, baseline_times, options.time);
      ratios.push_back(a / b * scale);
    }
    const Ratio now = detail::summarise(std::move(ratios));
    if (attempt == 0 || now.spread < best.spread) best = now;
    if (best.spread <= options.spread) break;
  }
  return best;
}

/// Its median alone.
template <class Subject, class Baseline>
double median_ratio(Subject&& subject, Baseline&& baseline, const MeasureOptions& options = {}) {
  return measure_ratio(subject, baseline, options).median;
}

}  // namespace rkchain::tool

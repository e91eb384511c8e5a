// SPDX-License-Identifier: MIT
#include "backend/reset_window.hpp"

#include <algorithm>
#include <chrono>

#include "kmod/core/window.h"

namespace rkchain {

std::uint64_t ResetWindow::opens(std::uint64_t now, std::uint64_t estimate) const {
  std::optional<std::uint64_t> oldest;
  for (const std::optional<Running>& each : running_) {
    if (!each) continue;
    oldest = std::min(oldest.value_or(each->began), each->began);
    estimate = std::max(estimate, each->estimate);
  }
  return oldest ? rkc_window_opens(*oldest, now, estimate) : 0;
}

ResetWindow::Turn::Turn(ResetWindow& window, std::uint32_t core, std::uint64_t estimate_ns)
    : window_(window), core_(core) {
  // A submit that returns opens the window at once; the clock is asked again often enough.
  constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(20);
  std::unique_lock lock(window_.mutex_);
  for (;;) {
    began_ = window_.now_ns_();
    const std::uint64_t again = window_.opens(began_, estimate_ns);
    if (again == 0) break;
    const std::chrono::nanoseconds rest(again > began_ ? again - began_ : 0);
    window_.ended_.wait_for(lock, std::min(rest, kLongest));
  }
  window_.running_[core_] = Running{began_, estimate_ns};
}

ResetWindow::Turn::~Turn() {
  const std::lock_guard lock(window_.mutex_);
  window_.running_[core_].reset();
  window_.ended_.notify_all();
}

}  // namespace rkchain

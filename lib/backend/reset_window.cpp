// SPDX-License-Identifier: MIT
#include "backend/reset_window.hpp"

#include <algorithm>
#include <chrono>

namespace rkchain {

ResetWindow::Turn::Turn(ResetWindow& window, std::uint32_t core, std::uint64_t estimate_ns)
    : window_(window), core_(core) {
  // A submit that returns opens the window at once; the clock is asked again often enough.
  constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(20);
  std::unique_lock lock(window_.mutex_);
  window_.cores_.core[core_].estimate_ns = estimate_ns;
  for (;;) {
    const std::uint64_t now = window_.now_ns_();
    const std::uint64_t again = rkc_cores_opens(&window_.cores_, core_, now);
    if (again == 0) {
      rkc_cores_submit(&window_.cores_, core_, now);
      return;
    }
    const std::chrono::nanoseconds rest(again > now ? again - now : 0);
    window_.ended_.wait_for(lock, std::min(rest, kLongest));
  }
}

void ResetWindow::Turn::back(rkc_return& returned) {
  const std::lock_guard lock(window_.mutex_);
  // What it means for the chain is for the caller to judge, who knows more of it.
  (void)rkc_cores_back(&window_.cores_, core_, window_.now_ns_(), &returned);
  out_ = false;
  window_.ended_.notify_all();
}

ResetWindow::Turn::~Turn() {
  if (!out_) return;
  const std::lock_guard lock(window_.mutex_);
  rkc_cores_recall(&window_.cores_, core_);
  window_.ended_.notify_all();
}

}  // namespace rkchain

// SPDX-License-Identifier: MIT
// The reset window of kmod/core/window.h, obeyed by the cores of one process.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "kmod/core/rotor.h"

namespace rkchain {

/// Tells each core's thread when it may hand a submit to the stock driver.  Thread-safe.
class ResetWindow {
 public:
  /// @param now_ns the clock
  explicit ResetWindow(std::function<std::uint64_t()> now_ns) : now_ns_(std::move(now_ns)) {}

  /// A submit on a core: begins when it may, ends with the object.
  class Turn {
   public:
    /// Waits while nothing may be dispatched.
    /// @param core that has no other turn
    /// @param estimate_ns how long the submit may take
    Turn(ResetWindow& window, std::uint32_t core, std::uint64_t estimate_ns);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();
    /// Since it began, ns.
    [[nodiscard]] std::uint64_t age() const { return window_.now_ns_() - began_; }

   private:
    ResetWindow& window_;
    std::uint32_t core_;
    std::uint64_t began_ = 0;
  };

 private:
  struct Running {
    std::uint64_t began = 0;
    std::uint64_t estimate = 0;
  };
  /// When to ask again; 0 for now.
  [[nodiscard]] std::uint64_t opens(std::uint64_t now, std::uint64_t estimate) const;

  std::function<std::uint64_t()> now_ns_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::array<std::optional<Running>, RKC_CORES> running_;
};

}  // namespace rkchain

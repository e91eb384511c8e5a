// SPDX-License-Identifier: MIT
// When the stock driver may be given a submit: the rules of kmod/core/cores.h, obeyed by the cores
// of one process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "kmod/core/cores.h"

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
    /// The driver has returned, with @p returned.error and @p returned.committed.  Fills in age
    /// and core.  What failed may mean that a reset is still going on.
    void back(rkc_return& returned);

   private:
    ResetWindow& window_;
    std::uint32_t core_;
    bool out_ = true;
  };

 private:
  std::function<std::uint64_t()> now_ns_;
  std::mutex mutex_;
  std::condition_variable ended_;
  rkc_cores cores_{};
};

}  // namespace rkchain

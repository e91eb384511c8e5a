// SPDX-License-Identifier: MIT
// Holds threads of a core until a test lets them go.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rkchain::test {

/// No wait of a test is longer: a defect fails instead of hanging.
inline constexpr std::chrono::seconds kLimit{20};

/// Opens in its destructor at the latest, so that a failed assertion lets go, too.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  /// What a core's thread calls; it may outlive the gate.  Returns false after the time limit.
  [[nodiscard]] auto keeper() const {
    return [state = state_](std::uint32_t core) {
      std::unique_lock lock(state->mutex);
      state->cores |= 1U << core;
      state->changed.notify_all();
      return state->changed.wait_for(lock, kLimit, [&] { return state->open; });
    };
  }

  void open() const {
    const std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }

  /// Until all cores of the mask are held.  @return false after the time limit.
  [[nodiscard]] bool await(std::uint32_t cores) const {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, kLimit, [&] { return (state_->cores & cores) == cores; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint32_t cores = 0;
    bool open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace rkchain::test

// SPDX-License-Identifier: MIT
// One run of a chain: queues its segments level by level and collects their completions.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "chain.hpp"
#include "rkchain/stream.hpp"

namespace rkchain::detail {

/// A segment as one run submits it.
struct Step {
  std::uint64_t chain = 0;
  std::uint32_t level = 0;
  std::uint32_t core_mask = 0;
  std::string_view text;  ///< the segment's; the chain keeps it until the run has ended
};

/// Nobody is told when a run may go on: whoever waits or asks moves it forward.  Thread-safe.
class Run {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Run(std::shared_ptr<Backend> backend, std::shared_ptr<Chain::Impl> chain,
      std::vector<Step> steps);

  /// Queues the first segments.
  /// @param after sequence number that has to end first
  /// @return false when the back end's queue is full; nothing has happened then.
  /// @throws Error what the back end says; nothing has happened then.
  bool start(std::optional<std::uint64_t> after);

  /// Moves the run forward until it has ended, or the deadline.  One in the past only asks.
  /// @return true when it has ended.
  bool wait_until(TimePoint deadline);

  [[nodiscard]] bool ended() const noexcept { return ended_; }
  /// Every segment has been queued.
  [[nodiscard]] bool queued() const noexcept { return queued_; }
  [[nodiscard]] std::uint64_t last_sequence() const noexcept { return last_sequence_; }

  /// After the end.  @throws Error the first failure.
  RunResult result() const;

 private:
  enum class State : std::uint8_t { waiting, queued, ended };
  struct Pending {
    std::uint64_t sequence = 0;
    std::size_t step = 0;
  };
  static constexpr std::uint32_t kNoLevel = 0xffffffffU;

  // All of these want mutex_ to be held.
  void queue_more();
  void record_ended();
  [[nodiscard]] std::optional<Completion> collect(std::uint64_t sequence, TimePoint deadline) const;
  std::size_t queue(std::size_t first, std::size_t count);
  void record(const Completion& completion, std::size_t step);
  void update();

  const std::shared_ptr<Backend> backend_;
  std::shared_ptr<Chain::Impl> chain_;  ///< until the end
  const std::vector<Step> steps_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> states_;
  std::deque<Pending> pending_;  ///< in the order of their sequence numbers
  bool started_ = false;
  bool collecting_ = false;   ///< a thread waits for the first of pending_
  bool drain_first_ = false;  ///< queue nothing before pending_ is empty
  std::uint32_t level_ = kNoLevel;
  std::optional<std::uint64_t> after_;  ///< what level_ waits for
  std::vector<SegmentResult> results_;
  std::optional<Errc> error_;
  std::string detail_;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> queued_ = false;
  std::atomic<std::uint64_t> last_sequence_ = 0;
};

}  // namespace rkchain::detail

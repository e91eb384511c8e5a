// SPDX-License-Identifier: MIT
#include "run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rkchain::detail {
namespace {

using std::chrono::steady_clock;

/// How long to leave a full queue alone that holds nothing of ours.
constexpr auto kBackOff = std::chrono::microseconds(200);
/// Back ends are asked for at most this much at a time, so that none has to care about overflow.
constexpr auto kLongest = std::chrono::hours(1);

Run::TimePoint capped(Run::TimePoint deadline) {
  return std::min<Run::TimePoint>(deadline, steady_clock::now() + kLongest);
}

}  // namespace

Run::Run(std::shared_ptr<Backend> backend, std::shared_ptr<Chain::Impl> chain,
         std::vector<Step> steps)
    : backend_(std::move(backend)),
      chain_(std::move(chain)),
      steps_(std::move(steps)),
      states_(steps_.size(), State::waiting),
      results_(steps_.size()) {}

bool Run::start(std::optional<std::uint64_t> after) {
  const std::lock_guard lock(mutex_);
  level_ = steps_.front().level;
  after_ = after;
  queue_more();
  if (std::all_of(states_.begin(), states_.end(), [](State s) { return s == State::waiting; })) {
    if (error_) throw Error(*error_, detail_);
    return false;
  }
  started_ = true;
  chain_->set_outcome(Chain::Impl::Outcome::running);
  update();
  return true;
}

bool Run::wait_until(TimePoint deadline) {
  std::shared_ptr<Chain::Impl> released;  // may be the last reference: not under the lock
  std::unique_lock lock(mutex_);
  if (!started_) return false;
  while (!ended_) {
    if (collecting_) {
      changed_.wait_until(lock, capped(deadline));
      if (!ended_ && collecting_ && steady_clock::now() >= deadline) return false;
      continue;
    }
    queue_more();
    update();
    if (ended_) break;
    if (pending_.empty()) {
      if (steady_clock::now() >= deadline) return false;
      changed_.wait_until(lock, std::min<TimePoint>(deadline, steady_clock::now() + kBackOff));
      continue;
    }
    const Pending next = pending_.front();
    collecting_ = true;
    lock.unlock();
    const std::optional<Completion> completion = collect(next.sequence, capped(deadline));
    lock.lock();
    collecting_ = false;
    if (completion) {
      pending_.pop_front();
      record(*completion, next.step);
      update();
    }
    changed_.notify_all();
    if (!completion && steady_clock::now() >= deadline) return false;
  }
  released = std::move(chain_);
  return true;
}

RunResult Run::result() const {
  const std::lock_guard lock(mutex_);
  if (error_) throw Error(*error_, detail_);
  return {results_};
}

/// What the back end says of a sequence number; nothing when the deadline has passed.
std::optional<Completion> Run::collect(std::uint64_t sequence, TimePoint deadline) const {
  try {
    return backend_->wait(sequence, deadline);
  } catch (const Error& error) {
    Completion completion;
    completion.sequence = sequence;
    completion.error = error.code();
    completion.detail = error.what();
    return completion;
  }
}

/// Records what has ended by now.
void Run::record_ended() {
  while (!pending_.empty()) {
    const auto completion = collect(pending_.front().sequence, TimePoint{});
    if (!completion) return;
    record(*completion, pending_.front().step);
    pending_.pop_front();
  }
}

/// Queues what waits, as far as the back end takes it.
void Run::queue_more() {
  if (drain_first_ && !pending_.empty()) return;
  if (drain_first_) {
    drain_first_ = false;
    level_ = kNoLevel;
  }
  for (;;) {
    // Room in a queue that was full comes from what has ended: when that failed, nothing more
    // of this run is to be queued.
    record_ended();
    if (error_ || drain_first_) return;
    const auto at = std::find(states_.begin(), states_.end(), State::waiting);
    if (at == states_.end()) return;
    const auto first = static_cast<std::size_t>(at - states_.begin());
    const Step& step = steps_[first];
    if (step.level != level_) {
      level_ = step.level;
      after_.reset();
      if (!pending_.empty()) after_ = pending_.back().sequence;
    }
    std::size_t count = 1;
    while (first + count < steps_.size() && states_[first + count] == State::waiting &&
           steps_[first + count].level == step.level &&
           steps_[first + count].core_mask == step.core_mask) {
      ++count;
    }
    if (queue(first, count) == 0) return;
  }
}

/// Queues steps [first, first + count): all, or when there is no room for all, one, or none.
/// @return how many.
std::size_t Run::queue(std::size_t first, std::size_t count) {
  std::vector<std::uint64_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = steps_[first + i].chain;
  for (;;) {
    try {
      const std::uint64_t sequence =
          backend_->submit({std::span(ids).first(count), steps_[first].core_mask, after_});
      for (std::size_t i = 0; i < count; ++i) {
        pending_.push_back({sequence + i, first + i});
        states_[first + i] = State::queued;
      }
      last_sequence_ = sequence + count - 1;
      return count;
    } catch (const Error& error) {
      if (error.code() != Errc::queue_full) {
        error_ = error.code();
        detail_ = fmt::format("{}: {}", steps_[first].text, error.what());
        return 0;
      }
      if (count == 1) return 0;
      count = 1;
    }
  }
}

void Run::record(const Completion& completion, std::size_t step) {
  SegmentResult& result = results_[step];
  result.sequence = completion.sequence;
  result.core = completion.core;
  result.retries = completion.retries;
  result.queued_ns = completion.queued_ns;
  result.started_ns = completion.started_ns;
  result.done_ns = completion.done_ns;
  states_[step] = State::ended;
  if (!completion.error) return;

  const bool cancelled = *completion.error == Errc::cancelled;
  // A level waits for everything that has been queued before it.  When it was cancelled and no
  // segment of ours has failed, somebody else's has: that is no reason not to run.
  if (cancelled && !error_ && steps_[step].level != steps_.front().level) {
    states_[step] = State::waiting;
    drain_first_ = true;
    return;
  }
  // What was cancelled only follows from what failed.
  if (error_ && (cancelled || *error_ != Errc::cancelled)) return;
  error_ = completion.error;
  // What never started has no core.
  const bool started = completion.done_ns != completion.started_ns;
  detail_ = fmt::format("{}{}: {}: {}", steps_[step].text,
                        started ? fmt::format(" on core {}", completion.core) : "",
                        name(*completion.error), completion.detail);
}

void Run::update() {
  // After a failure, what has not been queued never will be.
  if (error_) std::replace(states_.begin(), states_.end(), State::waiting, State::ended);
  queued_ = std::find(states_.begin(), states_.end(), State::waiting) == states_.end();
  const bool over = pending_.empty() && std::all_of(states_.begin(), states_.end(),
                                                    [](State s) { return s == State::ended; });
  if (!over || ended_) return;
  // In this order: as soon as the run is seen to have ended, the chain may run again.
  chain_->set_outcome(error_ ? Chain::Impl::Outcome::failed : Chain::Impl::Outcome::done);
  ended_ = true;
}

}  // namespace rkchain::detail

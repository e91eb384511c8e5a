// SPDX-License-Identifier: MIT
#include "backend/local_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

namespace rkchain {

namespace {

using std::chrono::steady_clock;

LocalQueue::Outcome run_guarded(const std::function<LocalQueue::Outcome(std::uint32_t)>& run,
                                std::uint32_t core) {
  LocalQueue::Outcome outcome;
  try {
    return run(core);
  } catch (const Error& error) {
    outcome.error = error.code();
    outcome.detail = error.what();
  } catch (const std::exception& error) {
    outcome.error = Errc::io;
    outcome.detail = error.what();
  } catch (...) {
    outcome.error = Errc::io;
    outcome.detail = "an exception of no known type";
  }
  return outcome;
}

}  // namespace

LocalQueue::LocalQueue(const Options& options) : clock_(options.clock), depth_(options.depth) {
  if ((options.usable_mask & RKC_CORES_ALL) == 0) {
    throw Error(Errc::invalid_argument, fmt::format("core mask {:#x} names none of cores 0 to {}",
                                                    options.usable_mask, kCores - 1));
  }
  if (options.depth == 0) {
    throw Error(Errc::invalid_argument, "a queue depth of 0 leaves no room for a chain");
  }
  rkc_rotor_init(&rotor_, options.usable_mask);
  try {
    for (std::uint32_t core = 0; core < kCores; ++core) {
      if ((rotor_.usable & 1U << core) != 0) {
        workers_[core].thread = std::thread(&LocalQueue::work, this, core);
      }
    }
  } catch (const std::system_error& error) {
    shutdown();
    throw Error(Errc::out_of_memory, fmt::format("no thread for a core: {}", error.what()));
  }
}

LocalQueue::~LocalQueue() { shutdown(); }

std::uint64_t LocalQueue::submit(std::vector<Job> jobs, std::uint32_t core_mask,
                                 std::optional<std::uint64_t> after) {
  const std::lock_guard lock(mutex_);
  if (stopping_) {
    throw Error(Errc::cancelled, "the device is being closed");
  }
  if (jobs.empty()) {
    throw Error(Errc::invalid_argument, "a submit without chains");
  }
  if (rotor_.usable == 0) {
    throw Error(Errc::no_device, "every core has been set aside");
  }
  if (!rkc_rotor_possible(&rotor_, core_mask)) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("core mask {:#x} has no usable core, mask {:#x}", core_mask, rotor_.usable));
  }
  if (after && *after >= next_sequence_) {
    throw Error(Errc::invalid_argument,
                fmt::format("after {}: the last sequence number submitted is {}", *after,
                            next_sequence_ - 1));
  }
  if (jobs.size() > depth_ || queue_.size() > depth_ - jobs.size()) {
    throw Error(Errc::queue_full, fmt::format("{} chains wait, {} more exceed the depth of {}",
                                              queue_.size(), jobs.size(), depth_));
  }

  const std::uint64_t first = next_sequence_;
  std::vector<Entry> entries;
  entries.reserve(jobs.size());
  for (Job& job : jobs) {
    entries.push_back({first + entries.size(), core_mask, after, now(), std::move(job)});
  }
  // An insertion at the end has all of its effect or none, also when memory runs out.
  queue_.insert(queue_.end(), std::move_iterator(entries.begin()),
                std::move_iterator(entries.end()));
  next_sequence_ += jobs.size();
  sweep();
  dispatch();
  return first;
}

std::optional<Completion> LocalQueue::wait(std::uint64_t sequence,
                                           steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (auto node = completions_.extract(sequence)) {
      failures_.erase(sequence);
      return std::move(node.mapped());
    }
    if (!pending(sequence)) {
      throw Error(Errc::invalid_argument, fmt::format("sequence number {} {}", sequence,
                                                      sequence == 0 || sequence >= next_sequence_
                                                          ? "has not been submitted"
                                                          : "has been waited for before"));
    }
    if (deadline == steady_clock::time_point::max()) {
      published_.wait(lock);
    } else if (published_.wait_until(lock, deadline) == std::cv_status::timeout &&
               !completions_.contains(sequence)) {
      return std::nullopt;
    }
  }
}

void LocalQueue::set_aside(std::uint32_t core) {
  const std::lock_guard lock(mutex_);
  rotor_.usable &= ~(1U << core);
  sweep();
}

void LocalQueue::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Entry& entry : queue_) {
      drop(entry, Errc::cancelled, "the device was closed before the chain had started");
    }
    queue_.clear();
    for (Worker& worker : workers_) {
      worker.wake.notify_one();
    }
  }
  for (Worker& worker : workers_) {
    if (worker.thread.joinable()) {
      worker.thread.join();
    }
  }
}

std::uint32_t LocalQueue::usable_mask() const {
  const std::lock_guard lock(mutex_);
  return rotor_.usable;
}

std::array<LocalQueue::Core, LocalQueue::kCores> LocalQueue::cores() const {
  const std::lock_guard lock(mutex_);
  std::array<Core, kCores> totals;
  for (std::uint32_t core = 0; core < kCores; ++core) {
    totals[core] = workers_[core].totals;
  }
  return totals;
}

void LocalQueue::work(std::uint32_t core) {
  Worker& self = workers_[core];
  std::unique_lock lock(mutex_);
  for (;;) {
    self.wake.wait(lock, [&] {
      return (self.state == State::running && !self.taken) ||
             (self.state == State::idle && stopping_);
    });
    if (self.state == State::idle) {
      return;
    }
    self.taken = true;
    auto run = std::exchange(self.entry.job.run, nullptr);
    lock.unlock();
    Outcome outcome = run_guarded(run, core);
    // What the job holds goes now: whoever has seen the completion finds it gone, and the lock
    // is not held for it.
    run = nullptr;
    lock.lock();
    self.outcome = std::move(outcome);
    self.state = State::ended;
    release_ended();
  }
}

std::uint64_t LocalQueue::now() const {
  if (clock_ == Clock::simulated) {
    return simulated_now_;
  }
  const auto since = steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

bool LocalQueue::pending(std::uint64_t sequence) const {
  const auto at = std::lower_bound(
      queue_.begin(), queue_.end(), sequence,
      [](const Entry& entry, std::uint64_t value) { return entry.sequence < value; });
  if (at != queue_.end() && at->sequence == sequence) {
    return true;
  }
  return std::any_of(workers_.begin(), workers_.end(), [sequence](const Worker& worker) {
    return worker.state != State::idle && worker.entry.sequence == sequence;
  });
}

/// The lowest sequence number that has not ended.
std::uint64_t LocalQueue::first_pending() const {
  std::uint64_t first =
      queue_.empty() ? std::numeric_limits<std::uint64_t>::max() : queue_.front().sequence;
  for (const Worker& worker : workers_) {
    if (worker.state != State::idle) {
      first = std::min(first, worker.entry.sequence);
    }
  }
  return first;
}

bool LocalQueue::cancelled(const Entry& entry) const {
  return entry.after && !failures_.empty() && *failures_.begin() <= *entry.after;
}

/// Gives waiting jobs to idle cores.
void LocalQueue::dispatch() {
  for (auto entry = queue_.begin(); entry != queue_.end();) {
    if ((rotor_.usable & ~rotor_.busy) == 0) {
      return;
    }
    const bool ready = !entry->after || *entry->after < first_pending();
    const int core = ready ? rkc_rotor_take(&rotor_, entry->core_mask) : -1;
    if (core < 0) {
      ++entry;
      continue;
    }
    Worker& worker = workers_[static_cast<std::uint32_t>(core)];
    worker.entry = std::move(*entry);
    worker.started_ns = now();
    worker.turn = turns_++;
    worker.taken = false;
    worker.state = State::running;
    worker.wake.notify_one();
    entry = queue_.erase(entry);
  }
}

void LocalQueue::release_ended() {
  while (Worker* worker = next_to_release()) {
    release(*worker);
    sweep();
    dispatch();
  }
}

/// The core that may be released now, if any.
LocalQueue::Worker* LocalQueue::next_to_release() {
  Worker* next = nullptr;
  for (Worker& worker : workers_) {
    if (clock_ == Clock::host) {
      if (worker.state == State::ended) {
        return &worker;
      }
      continue;
    }
    // Simulated ends are known in advance.  Of equal ones that which started first comes
    // first, so that equal jobs go round.
    const auto before = [](const Worker& x, const Worker& y) {
      const std::uint64_t end_x = x.started_ns + x.entry.job.duration_ns;
      const std::uint64_t end_y = y.started_ns + y.entry.job.duration_ns;
      return end_x != end_y ? end_x < end_y : x.turn < y.turn;
    };
    if (worker.state != State::idle && (next == nullptr || before(worker, *next))) {
      next = &worker;
    }
  }
  return next != nullptr && next->state == State::ended ? next : nullptr;
}

void LocalQueue::release(Worker& worker) {
  const auto core = static_cast<std::uint32_t>(&worker - workers_.data());
  if (clock_ == Clock::simulated) {
    simulated_now_ = worker.started_ns + worker.entry.job.duration_ns;
  }
  Completion completion;
  completion.sequence = worker.entry.sequence;
  completion.error = worker.outcome.error;
  completion.detail = std::move(worker.outcome.detail);
  completion.core = core;
  completion.retries = worker.outcome.retries;
  completion.hw_ns = worker.outcome.hw_ns;
  completion.queued_ns = worker.entry.queued_ns;
  completion.started_ns = worker.started_ns;
  completion.done_ns = now();

  ++worker.totals.jobs;
  worker.totals.busy_ns += completion.done_ns - completion.started_ns;
  worker.state = State::idle;
  rkc_rotor_release(&rotor_, core);
  if (worker.outcome.lose_core) {
    rotor_.usable &= ~(1U << core);
  }
  publish(std::move(completion));
  if (stopping_) {
    worker.wake.notify_one();
  }
}

/// Ends what can never run: no core left, or a predecessor has failed.  One pass is
/// enough, as predecessors stand before their followers.
void LocalQueue::sweep() {
  for (auto entry = queue_.begin(); entry != queue_.end();) {
    if (!rkc_rotor_possible(&rotor_, entry->core_mask)) {
      drop(*entry, Errc::no_device, "every core that the chain may use has been set aside");
    } else if (cancelled(*entry)) {
      drop(*entry, Errc::cancelled,
           fmt::format("an earlier chain, number {}, has failed", *failures_.begin()));
    } else {
      ++entry;
      continue;
    }
    entry = queue_.erase(entry);
  }
}

void LocalQueue::drop(Entry& entry, Errc error, std::string detail) {
  entry.job.run = nullptr;
  Completion completion;
  completion.sequence = entry.sequence;
  completion.error = error;
  completion.detail = std::move(detail);
  completion.queued_ns = entry.queued_ns;
  completion.started_ns = now();
  completion.done_ns = completion.started_ns;
  publish(std::move(completion));
}

void LocalQueue::publish(Completion completion) {
  if (completion.error) {
    failures_.insert(completion.sequence);
  }
  completions_.emplace(completion.sequence, std::move(completion));
  published_.notify_all();
}

}  // namespace rkchain

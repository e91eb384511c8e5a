// SPDX-License-Identifier: MIT
// The scheduler of the back ends that run chains from this process: one worker
// thread per core, one chain at a time per core, the rotation of kmod/core.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backend/backend.hpp"
#include "kmod/core/rotor.h"
#include "rkchain/device.hpp"
#include "rkchain/error.hpp"

namespace rkchain {

/// Runs jobs on cores, first come first served: whenever a core is idle it takes
/// the oldest job that it may take, and a job that no idle core may take does not
/// hold up those behind it.
///
/// The clock is either the host's, or simulated.  In simulated time each job lasts
/// as long as its submitter says, whatever the host needs for it: a core whose host
/// work is over is released when its simulated end is the earliest of all busy
/// cores.  So which core takes which job depends on the jobs alone, while the host
/// work of the cores runs in parallel.  Time stands still while all cores are idle.
///
/// Thread-safe.  A job must not call back into its queue.
class LocalQueue {
 public:
  static constexpr std::uint32_t kCores = RKC_CORES;

  enum class Clock : std::uint8_t { host, simulated };

  struct Options {
    Clock clock = Clock::host;
    std::uint32_t usable_mask = RKC_CORES_ALL;
    std::uint32_t depth = 256;  ///< jobs that wait for a core; running ones do not count
  };

  /// What became of a job.
  struct Outcome {
    std::optional<Errc> error;  ///< nothing = success
    std::string detail;         ///< text for the error
    std::uint32_t retries = 0;
    std::uint64_t hw_ns = 0;  ///< time on the NPU
    bool lose_core = false;   ///< the core is to be set aside
  };

  struct Job {
    /// Called on the core's own thread; destroyed before the completion can be seen.
    /// An exception becomes Errc::io.
    std::function<Outcome(std::uint32_t core)> run;
    std::uint64_t duration_ns = 0;  ///< in simulated time
  };

  struct Core {
    std::uint64_t jobs = 0;     ///< ended on this core
    std::uint64_t busy_ns = 0;  ///< sum of their times
  };

  /// @throws Error invalid_argument (no core, no depth), out_of_memory (no threads).
  explicit LocalQueue(const Options& options);
  LocalQueue(const LocalQueue&) = delete;
  LocalQueue& operator=(const LocalQueue&) = delete;
  /// As shutdown().
  ~LocalQueue();

  /// Queues all jobs or none, never blocks.
  ///
  /// With @p after they wait until every job up to that sequence number has ended.
  /// When one of those failed and wait() has not yet handed its failure out, they
  /// end as cancelled.
  /// @param core_mask cores allowed, 0 = any
  /// @return the first job's sequence number; the others follow.
  /// @throws Error queue_full; invalid_argument (no jobs, no usable core in the mask,
  ///   @p after not submitted yet); no_device (all cores are set aside); cancelled
  ///   (after shutdown).
  std::uint64_t submit(std::vector<Job> jobs, std::uint32_t core_mask,
                       std::optional<std::uint64_t> after);

  /// Waits for one job; each completion is handed out once.
  /// @return nothing when the deadline passed.
  /// @throws Error invalid_argument (never submitted, or handed out before).
  std::optional<Completion> wait(std::uint64_t sequence,
                                 std::chrono::steady_clock::time_point deadline);

  /// Takes a core out of rotation for good.  What it runs ends normally; what only
  /// it could have run fails with no_device.
  void set_aside(std::uint32_t core);

  /// Cancels what waits, lets finish what runs, and ends the threads.  Completions
  /// can still be had.  From one thread at a time; doing it again changes nothing.
  void shutdown();

  [[nodiscard]] std::uint32_t usable_mask() const;
  [[nodiscard]] std::array<Core, kCores> cores() const;

 private:
  struct Entry {
    std::uint64_t sequence = 0;
    std::uint32_t core_mask = 0;
    std::optional<std::uint64_t> after;
    std::uint64_t queued_ns = 0;
    Job job;
  };

  enum class State : std::uint8_t { idle, running, ended };

  struct Worker {
    State state = State::idle;
    bool taken = false;  ///< by the thread, since state is running
    Entry entry;
    Outcome outcome;
    std::uint64_t started_ns = 0;
    std::uint64_t turn = 0;  ///< order of starting
    Core totals;
    std::condition_variable wake;
    std::thread thread;
  };

  void work(std::uint32_t core);
  // All of these want mutex_ to be held.
  [[nodiscard]] std::uint64_t now() const;
  [[nodiscard]] bool pending(std::uint64_t sequence) const;
  [[nodiscard]] std::uint64_t first_pending() const;
  [[nodiscard]] bool cancelled(const Entry& entry) const;
  void dispatch();
  void release_ended();
  [[nodiscard]] Worker* next_to_release();
  void release(Worker& worker);
  void sweep();
  void drop(Entry& entry, Errc error, std::string detail);
  void publish(Completion completion);

  const Clock clock_;
  const std::uint32_t depth_;
  mutable std::mutex mutex_;
  std::condition_variable published_;
  rkc_rotor rotor_{};
  std::array<Worker, kCores> workers_;
  std::deque<Entry> queue_;  ///< ascending sequence numbers
  std::unordered_map<std::uint64_t, Completion> completions_;
  std::set<std::uint64_t> failures_;  ///< those of completions_ that failed
  std::uint64_t next_sequence_ = 1;
  std::uint64_t turns_ = 0;
  std::uint64_t simulated_now_ = 0;
  bool stopping_ = false;
};

}  // namespace rkchain

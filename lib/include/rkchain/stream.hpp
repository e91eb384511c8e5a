// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "rkchain/chain.hpp"
#include "rkchain/device.hpp"

#pragma GCC visibility push(default)

namespace rkchain {

/// What became of one segment (one registered chain) of a run.
struct SegmentResult {
  std::uint64_t sequence = 0;
  std::uint32_t core = 0;
  std::uint32_t retries = 0;
  // Nanoseconds; virtual time on the model, CLOCK_MONOTONIC otherwise.
  std::uint64_t queued_ns = 0;
  std::uint64_t started_ns = 0;
  std::uint64_t done_ns = 0;
};

struct RunResult {
  std::vector<SegmentResult> segments;
};

/// A run in flight.  Movable; dropping it does not cancel the run, and what the chain holds on
/// the device stays alive until the run has ended.
class Future {
 public:
  Future(Future&&) noexcept;
  Future& operator=(Future&&) noexcept;
  ~Future();

  [[nodiscard]] bool ready() const;
  /// @return true when the run has ended.
  bool wait_for(std::chrono::nanoseconds timeout) const;
  /// Waits for all segments and reports failure.  Once only.  The chain can be submitted again
  /// afterwards, whatever the outcome.
  /// @throws Error hung, dma_error, early_completion, dropped_dispatch, io, no_device, cancelled:
  ///   the first failure, with the segment, its matmuls and the core in its text;
  ///   invalid_argument: the second time, or moved from.
  RunResult get();

  struct [[gnu::visibility("hidden")]] Impl;
  explicit Future(std::unique_ptr<Impl> impl) noexcept;

 private:
  std::unique_ptr<Impl> impl_;
};

struct StreamOptions {
  std::uint32_t depth = 32;  ///< runs in flight before submit() blocks
};

struct SubmitOptions {
  std::uint32_t core_mask = 0;  ///< cores allowed, 0 = any; never more than one runs a segment
  /// After everything that this stream has submitted before.  A run that failed before this one
  /// could start and has not been waited for cancels it.
  bool ordered = false;
};

/// Submits chains asynchronously; each goes to the next free core.  Thread-safe.
class Stream {
 public:
  /// @throws Error invalid_argument when depth is 0.
  explicit Stream(const Device& device, const StreamOptions& options = {});
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  /// Waits for what is in flight.
  ~Stream();

  /// Blocks while `depth` runs are in flight or the device's queue is full.
  /// @throws Error busy: the chain is in flight; invalid_argument: it is not built, is on another
  ///   device, or no usable core is in the mask; no_device.
  Future submit(Chain& chain, const SubmitOptions& options = {});
  /// Never blocks: nothing when `depth` runs are in flight or the device's queue is full.
  std::optional<Future> try_submit(Chain& chain, const SubmitOptions& options = {});
  /// Waits until nothing is in flight.  Failures stay with their futures.
  void drain();

  struct [[gnu::visibility("hidden")]] Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace rkchain

#pragma GCC visibility pop

// SPDX-License-Identifier: MIT
#include "backend/trials.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "kmod/core/trial.h"

namespace rkchain {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

/// How often to look whether an output comes after all, and how much longer than expected.
constexpr milliseconds kLookAgain{5};
constexpr milliseconds kLate{100};

/// What became of one trial.
struct Tried {
  Completion done;
  std::uint32_t at_once = RKC_NO_WORD;  ///< a block that was wrong when completion was signalled
  std::uint32_t later = RKC_NO_WORD;    ///< and some time after it
};

/// As the module has it: 0 or a negative errno.
std::int32_t status_of(const Completion& done) {
  constexpr std::int32_t kIo = 5;
  if (!done.error) return 0;
  switch (*done.error) {
    case Errc::hung:
    case Errc::dropped_dispatch:
    case Errc::timed_out:
      return -RKC_ETIMEDOUT;
    case Errc::no_device:
      return -RKC_ENODEV;
    default:
      return -kIo;
  }
}

/// Memory of a trial; goes when its chain has gone as well.
class TrialBuffer {
 public:
  TrialBuffer(Backend& backend, std::size_t size)
      : backend_(backend), buffer_(backend.create_buffer(size)) {}
  TrialBuffer(const TrialBuffer&) = delete;
  TrialBuffer& operator=(const TrialBuffer&) = delete;
  ~TrialBuffer() { backend_.destroy_buffer(buffer_.id); }
  [[nodiscard]] const BackendBuffer* operator->() const noexcept { return &buffer_; }

 private:
  Backend& backend_;
  BackendBuffer buffer_;
};

class TrialChain {
 public:
  TrialChain(Backend& backend, const ChainProgram& program, const BufferUse& use)
      : backend_(backend), id_(backend.create_chain(program, std::span(&use, 1))) {}
  TrialChain(const TrialChain&) = delete;
  TrialChain& operator=(const TrialChain&) = delete;
  ~TrialChain() { backend_.destroy_chain(id_); }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 private:
  Backend& backend_;
  std::uint64_t id_;
};

class Bench {
 public:
  Bench(Backend& backend, const SelfTestOptions& options)
      : backend_(backend),
        options_(options),
        timeless_(backend.info().backend == BackendKind::model) {}

  void find_length(std::uint32_t cores);
  void judge(SelfTestResult& result);

 private:
  [[nodiscard]] Tried try_once(std::uint32_t kind, Mode mode, std::uint32_t core);
  [[nodiscard]] Tried try_chain(std::uint32_t kind, Mode mode, std::uint32_t core);
  [[nodiscard]] std::uint32_t look_later(const rkc_trial& trial, const BackendBuffer& buffer,
                                         std::uint32_t core, std::uint32_t wrong);

  Backend& backend_;
  const SelfTestOptions& options_;
  const bool timeless_;  ///< nothing happens there by waiting
  std::uint32_t blocks_ = RKC_TRIAL_FIRST_BLOCKS;
  std::uint64_t expected_ns_ = 0;
  std::uint32_t salt_ = 1;
};

/// Outputs that were not there may still come: with time, or once the core has something else.
std::uint32_t Bench::look_later(const rkc_trial& trial, const BackendBuffer& buffer,
                                std::uint32_t core, std::uint32_t wrong) {
  const auto look = [&] {
    backend_.sync_buffer(buffer.id, 0, buffer.size, Direction::from_device);
    return rkc_trial_wrong(&trial, buffer.cpu);
  };
  const auto until = steady_clock::now() + kLate + nanoseconds(2 * expected_ns_);
  while (!timeless_ && wrong != RKC_NO_WORD && steady_clock::now() < until) {
    std::this_thread::sleep_for(kLookAgain);
    wrong = look();
  }
  if (wrong == RKC_NO_WORD || trial.kind == RKC_TRIAL_SHORT) return wrong;
  (void)try_once(RKC_TRIAL_SHORT, Mode::single, core);
  return look();
}

/// Runs a trial once.  What is wrong with its outputs is not an error.
Tried Bench::try_once(std::uint32_t kind, Mode mode, std::uint32_t core) {
  const rkc_trial trial{kind,
                        kind == RKC_TRIAL_LONG    ? blocks_
                        : kind == RKC_TRIAL_ORDER ? std::uint32_t{RKC_TRIAL_ORDER_BLOCKS}
                                                  : std::uint32_t{RKC_TRIAL_SMALL_BLOCKS},
                        salt_++};
  const TrialBuffer buffer(backend_, rkc_trial_bytes(&trial));
  rkc_trial_fill(&trial, buffer->cpu);
  std::vector<rkc_matmul> blocks(trial.count);
  rkc_trial_blocks(&trial, buffer->iova, blocks.data());
  std::vector<std::uint64_t> words(std::size_t{trial.count - 1} * RKC_WAIT_STRIDE + RKC_FULL_WORDS);
  for (std::uint32_t i = 0; i < trial.count; ++i) {
    rkc_chain_append(words.data(), i, &blocks[i]);
  }
  ChainProgram program;
  program.words = words;
  program.count = trial.count;
  program.trial = mode;
  const TrialChain chain(backend_, program, {buffer->id, true, true, true});

  Tried tried;
  const std::uint64_t id = chain.id();
  const std::uint64_t sequence = backend_.submit({std::span(&id, 1), 1U << core, std::nullopt});
  tried.done = *backend_.wait(sequence, steady_clock::time_point::max());
  tried.at_once = rkc_trial_wrong(&trial, buffer->cpu);
  tried.later = tried.at_once;
  if (!tried.done.error && tried.at_once != RKC_NO_WORD) {
    tried.later = look_later(trial, *buffer.operator->(), core, tried.at_once);
  }
  return tried;
}

/// The same, and again if it hung: a dispatch can be lost for no reason of its own.
Tried Bench::try_chain(std::uint32_t kind, Mode mode, std::uint32_t core) {
  Tried tried = try_once(kind, mode, core);
  if (!options_.brief && status_of(tried.done) == -RKC_ETIMEDOUT) {
    tried = try_once(kind, mode, core);
  }
  return tried;
}

/// Makes the chain longer until what is behind its first block takes long enough, one by one,
/// as that is what is most likely to work.
void Bench::find_length(std::uint32_t cores) {
  for (std::uint32_t core = 0; core < RKC_CORES; ++core) {
    if ((cores >> core & 1) == 0) continue;
    for (;;) {
      const Tried tried = try_chain(RKC_TRIAL_LONG, Mode::single, core);
      if (tried.done.error) break;
      expected_ns_ = tried.done.hw_ns;
      const std::uint32_t more = 2 * (blocks_ - 1) + 1;
      if (expected_ns_ >= RKC_TRIAL_NS || more > RKC_TRIAL_MOST_BLOCKS) return;
      blocks_ = more;
    }
  }
}

void Bench::judge(SelfTestResult& result) {
  const std::uint32_t kind = options_.brief ? RKC_TRIAL_SHORT : RKC_TRIAL_LONG;
  Tried tried = try_chain(kind, result.mode, result.core);
  rkc_trial_seen seen{};
  seen.status = status_of(tried.done);
  seen.at_once = tried.at_once == RKC_NO_WORD;
  seen.later = tried.later == RKC_NO_WORD;
  seen.hw_ns = tried.done.hw_ns;
  seen.expected_ns = options_.brief ? 0 : expected_ns_;
  result.blocks = options_.brief ? std::uint32_t{RKC_TRIAL_SMALL_BLOCKS} : blocks_;
  result.hw_ns = seen.hw_ns;
  result.expected_ns = seen.expected_ns;
  result.detail = tried.done.detail;
  if (seen.status == 0 && !seen.at_once) result.block = tried.at_once;
  if (seen.status == 0 && seen.at_once) {
    tried = try_chain(RKC_TRIAL_ORDER, result.mode, result.core);
    seen.order = status_of(tried.done);
    seen.order_at_once = tried.at_once == RKC_NO_WORD;
    seen.order_later = tried.later == RKC_NO_WORD;
    result.detail = tried.done.detail;
    if (seen.order == 0 && !seen.order_at_once) result.block = tried.at_once;
  }
  result.verdict = static_cast<Verdict>(rkc_trial_verdict(&seen));
}

}  // namespace

std::vector<SelfTestResult> untested(const SelfTestOptions& options) {
  const std::uint32_t cores = options.core_mask != 0 ? options.core_mask : RKC_CORES_ALL;
  std::vector<SelfTestResult> results;
  for (std::uint32_t mode = 0; mode < RKC_MODES; ++mode) {
    const bool asked =
        options.modes.empty() ||
        std::ranges::find(options.modes, static_cast<Mode>(mode)) != options.modes.end();
    for (std::uint32_t core = 0; asked && core < RKC_CORES; ++core) {
      if ((cores >> core & 1) == 0) continue;
      SelfTestResult result;
      result.mode = static_cast<Mode>(mode);
      result.core = core;
      results.push_back(std::move(result));
    }
  }
  return results;
}

std::vector<SelfTestResult> run_trials(Backend& backend, const SelfTestOptions& options) {
  std::vector<SelfTestResult> results = untested(options);
  const auto usable = [&backend](std::uint32_t core) {
    return (backend.info().usable_mask >> core & 1) != 0;
  };
  Bench bench(backend, options);
  if (!options.brief) {
    bench.find_length((options.core_mask != 0 ? options.core_mask : RKC_CORES_ALL) &
                      backend.info().usable_mask);
  }
  for (SelfTestResult& result : results) {
    // A core may be lost on the way.
    if (!usable(result.core)) continue;
    if (options.progress) options.progress(result.mode, result.core);
    bench.judge(result);
  }
  return results;
}

}  // namespace rkchain

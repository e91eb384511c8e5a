// SPDX-License-Identifier: MIT
#include "backend/trials.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "kmod/core/course.h"

namespace rkchain {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

/// How often to look whether an output comes after all.
constexpr milliseconds kLookAgain{5};

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

/// A trial's chain in its buffer, on a back end.
class Running {
 public:
  Running(Backend& backend, const rkc_step& step)
      : backend_(backend), step_(step), buffer_(backend, rkc_trial_bytes(&step.trial)) {
    rkc_trial_fill(&step.trial, buffer_->cpu);
  }

  [[nodiscard]] Completion run();
  /// @return a block whose output is not there, RKC_NO_WORD for none.
  [[nodiscard]] std::uint32_t look() const { return rkc_trial_wrong(&step_.trial, buffer_->cpu); }
  [[nodiscard]] std::uint32_t look_again() const {
    backend_.sync_buffer(buffer_->id, 0, buffer_->size, Direction::from_device);
    return look();
  }

 private:
  Backend& backend_;
  const rkc_step& step_;
  TrialBuffer buffer_;
  /// Stays until the outputs have been looked at: an NPU that completes early still reads it.
  std::optional<TrialChain> chain_;
};

Completion Running::run() {
  const std::uint32_t count = step_.trial.count;
  std::vector<rkc_matmul> blocks(count);
  rkc_trial_blocks(&step_.trial, buffer_->iova, blocks.data());
  std::vector<std::uint64_t> words(std::size_t{count - 1} * RKC_WAIT_STRIDE + RKC_FULL_WORDS);
  for (std::uint32_t i = 0; i < count; ++i) rkc_chain_append(words.data(), i, &blocks[i]);
  ChainProgram program;
  program.words = words;
  program.count = count;
  program.trial = static_cast<Mode>(step_.mode);
  const std::uint64_t id =
      chain_.emplace(backend_, program, BufferUse{buffer_->id, true, true, true}).id();
  const std::uint64_t sequence =
      backend_.submit({std::span(&id, 1), 1U << step_.core, std::nullopt});
  return *backend_.wait(sequence, steady_clock::time_point::max());
}

/// Outputs that were not there may still come: with time, or once the core has something else.
std::uint32_t look_later(Backend& backend, const rkc_step& step, const Running& trial,
                         std::uint32_t wrong) {
  // Nothing happens there by waiting.
  const bool timeless = backend.info().backend == BackendKind::model;
  const auto until = steady_clock::now() + nanoseconds(step.late_ns);
  while (!timeless && wrong != RKC_NO_WORD && steady_clock::now() < until) {
    std::this_thread::sleep_for(kLookAgain);
    wrong = trial.look_again();
  }
  if (wrong == RKC_NO_WORD || step.trial.kind == RKC_TRIAL_SHORT) return wrong;
  rkc_step other = step;
  other.trial.kind = RKC_TRIAL_SHORT;
  other.trial.count = RKC_TRIAL_SMALL_BLOCKS;
  other.mode = RKC_SINGLE;
  (void)Running(backend, other).run();
  return trial.look_again();
}

/// Runs a trial.  What is wrong with its outputs is not an error.
rkc_tried try_step(Backend& backend, const rkc_step& step, std::string& detail) {
  Running trial(backend, step);
  const Completion done = trial.run();
  detail = done.detail;
  rkc_tried tried{};
  tried.status = status_of(done);
  tried.hw_ns = done.hw_ns;
  tried.at_once = trial.look();
  tried.later = tried.at_once;
  if (tried.status == 0 && tried.at_once != RKC_NO_WORD) {
    tried.later = look_later(backend, step, trial, tried.at_once);
  }
  return tried;
}

void fill(SelfTestResult& result, const rkc_course& course) {
  const auto mode = static_cast<std::uint32_t>(result.mode);
  const rkc_course_result& from = course.results[mode][result.core];
  result.verdict = static_cast<Verdict>(course.table.verdict[mode][result.core]);
  result.blocks = from.blocks;
  if (from.block != RKC_NO_WORD) result.block = from.block;
  result.hw_ns = from.hw_ns;
  result.expected_ns = from.expected_ns;
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
  std::uint32_t modes = 0;
  std::uint32_t cores = 0;
  for (const SelfTestResult& result : results) {
    modes |= 1U << static_cast<std::uint32_t>(result.mode);
    cores |= 1U << result.core;
  }
  rkc_course course;
  rkc_course_begin(&course, modes, cores, options.brief, 1);
  SelfTestResult* current = nullptr;
  rkc_step step;
  // A core may be lost on the way.
  while (rkc_course_next(&course, backend.info().usable_mask, &step)) {
    std::string detail;
    if (step.stage != RKC_COURSE_LENGTH) {
      const auto it = std::ranges::find_if(results, [&](const SelfTestResult& r) {
        return static_cast<std::uint32_t>(r.mode) == step.mode && r.core == step.core;
      });
      if (&*it != current && options.progress) options.progress(it->mode, it->core);
      current = &*it;
    }
    const rkc_tried tried = try_step(backend, step, detail);
    if (current != nullptr) current->detail = std::move(detail);
    rkc_course_tell(&course, &tried);
  }
  for (SelfTestResult& result : results) fill(result, course);
  return results;
}

}  // namespace rkchain

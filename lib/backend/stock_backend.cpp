// SPDX-License-Identifier: MIT
#include "backend/stock_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/checked_chain.hpp"
#include "backend/id_table.hpp"
#include "backend/local_queue.hpp"
#include "backend/reset_window.hpp"
#include "backend/rknpu_node.hpp"
#include "backend/saved_selftest.hpp"
#include "backend/trials.hpp"
#include "kmod/core/judge.h"
#include "kmod/core/ranges.h"
#include "kmod/core/window.h"

namespace rkchain {
namespace {

using Outcome = LocalQueue::Outcome;

constexpr std::uint32_t kDataFlags =
    RKNPU_MEM_NON_CONTIGUOUS | RKNPU_MEM_CACHEABLE | RKNPU_MEM_IOVA_ALIGNMENT;
constexpr std::uint32_t kTaskFlags = kDataFlags | RKNPU_MEM_KERNEL_MAPPING;
/// Failures in a row that are the core's own.
constexpr std::uint32_t kStrikes = 3;

/// A registered chain: what the NPU fetches, what the driver reads, what both need.
struct Chain {
  std::vector<std::shared_ptr<const RknpuBuffer>> buffers;
  /// What it touches of buffers declared SYNC, and no more: the rest may be another chain's,
  /// which another core is writing.
  std::vector<rkc_range> reads;
  std::vector<rkc_range> writes;
  std::unique_ptr<const RknpuBuffer> program;
  /// An array of tasks for each core, since the driver writes into the one that it runs.
  std::unique_ptr<const RknpuBuffer> tasks;
  std::uint32_t blocks = 0;
  rkc_measure measure{};
  std::uint64_t macs = 0;
  std::uint64_t submit_estimate_ns = 0;
  bool replayable = false;
  bool trial = false;

  [[nodiscard]] std::uint32_t tasks_per_core() const { return measure.tasks * measure.submits; }
  [[nodiscard]] std::uint32_t first_task(std::uint32_t core, std::uint32_t submit) const {
    return core * tasks_per_core() + submit * measure.tasks;
  }
  void sync(std::span<const rkc_range> ranges, Direction direction) const {
    for (const rkc_range& range : ranges) {
      buffers[range.buf]->sync(range.offset, range.size, direction);
    }
  }
  /// A word of shared memory; the driver may change it while we look.
  [[nodiscard]] volatile std::uint32_t* status(std::uint32_t task) const {
    return reinterpret_cast<volatile std::uint32_t*>(
        tasks->cpu() + std::size_t{task} * sizeof(rknpu_task) + offsetof(rknpu_task, int_status));
  }
};

/// Belongs to the core's thread.
struct Core {
  std::vector<std::shared_ptr<const Chain>> pinned;
  std::uint32_t strikes = 0;
};

/// What the NPU may still be working on when the device is closed has to outlive it, so it
/// stays until the process ends and the driver cleans up.
void keep(std::vector<std::shared_ptr<const Chain>> chains) {
  if (chains.empty()) return;
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::vector<std::shared_ptr<const Chain>>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(chains));
}

class StockBackend final : public Backend {
 public:
  StockBackend(const OpenOptions& options, std::shared_ptr<const RknpuNode> node);
  ~StockBackend() override;

  [[nodiscard]] DeviceInfo info() const override;
  [[nodiscard]] DeviceStats stats() const override;
  BackendBuffer create_buffer(std::size_t size) override;
  void destroy_buffer(std::uint64_t id) override;
  void sync_buffer(std::uint64_t id, std::size_t offset, std::size_t size,
                   Direction direction) override;
  std::uint64_t create_chain(const ChainProgram& program,
                             std::span<const BufferUse> buffers) override;
  void destroy_chain(std::uint64_t id) override;
  std::uint64_t submit(const SubmitRequest& request) override;
  std::optional<Completion> wait(std::uint64_t sequence,
                                 std::chrono::steady_clock::time_point deadline) override;
  std::vector<SelfTestResult> self_test(const SelfTestOptions& options) override;

 private:
  struct Submitted {
    rkc_return returned{};
    std::int64_t domain = 0;
    std::uint64_t hw_ns = 0;
  };

  /// Does a block's output reach memory before the next one reads?  Only where the CPU has
  /// seen the end of the one before the other starts is that not for the board to say.
  [[nodiscard]] bool ordered() const noexcept {
    return mode_ == Mode::single || proven_.contains(mode_);
  }
  void lay_out(Chain& chain, const CheckedChain& checked, std::span<const rkc_buf> buffers) const;
  [[nodiscard]] Outcome run(std::uint32_t index, const std::shared_ptr<const Chain>& chain);
  [[nodiscard]] Outcome run_submits(std::uint32_t index, const Chain& chain);
  [[nodiscard]] Submitted run_submit(std::uint32_t index, const Chain& chain, std::uint32_t submit);
  void judge(std::uint32_t index, const Submitted& submitted, const rkc_verdict& verdict,
             Outcome& outcome);

  const OpenOptions options_;
  const std::shared_ptr<const RknpuNode> node_;
  const std::uint32_t version_;
  const ProvenModes proven_;
  const Mode mode_;

  IdTable<const RknpuBuffer> buffers_{"buffer"};
  IdTable<const Chain> chains_{"chain"};
  std::atomic<std::uint64_t> next_id_{1};

  mutable std::mutex stats_mutex_;
  DeviceStats stats_;

  std::array<Core, LocalQueue::kCores> cores_;
  ResetWindow window_;
  LocalQueue queue_;  ///< the last member: its threads use all others
};

LocalQueue::Options queue_options(const OpenOptions& options) {
  LocalQueue::Options queue;
  queue.usable_mask = options.core_mask == 0 ? RKC_CORES_ALL : options.core_mask;
  queue.depth = options.queue_depth;
  return queue;
}

StockBackend::StockBackend(const OpenOptions& options, std::shared_ptr<const RknpuNode> node)
    : options_(options),
      node_(std::move(node)),
      version_(node_->driver_version()),
      proven_(ProvenModes::load(*node_->system(), rknpu_version_text(version_))),
      mode_(options.mode.value_or(proven_.best().value_or(Mode::link))),
      window_(node_->system()->now_ns),
      queue_(queue_options(options)) {
  require_mode(mode_);
}

StockBackend::~StockBackend() {
  queue_.shutdown();
  for (Core& core : cores_) keep(std::move(core.pinned));
}

DeviceInfo StockBackend::info() const {
  DeviceInfo info;
  info.backend = BackendKind::stock;
  info.driver = fmt::format("rknpu {}", rknpu_version_text(version_));
  info.mode = mode_;
  info.cores = LocalQueue::kCores;
  info.usable_mask = queue_.usable_mask();
  info.ordered = ordered();
  return info;
}

DeviceStats StockBackend::stats() const {
  const auto cores = queue_.cores();
  const std::lock_guard lock(stats_mutex_);
  DeviceStats stats = stats_;
  for (std::uint32_t index = 0; index < LocalQueue::kCores; ++index) {
    stats.core[index].chains = cores[index].jobs;
  }
  return stats;
}

BackendBuffer StockBackend::create_buffer(std::size_t size) {
  require_buffer_size(size);
  auto memory = std::make_shared<const RknpuBuffer>(node_, size, kDataFlags | RKNPU_MEM_ZEROING);
  const BackendBuffer buffer{next_id_++, memory->cpu(), memory->iova(), size};
  buffers_.add(buffer.id, std::move(memory));
  return buffer;
}

void StockBackend::destroy_buffer(std::uint64_t id) { buffers_.take(id); }

void StockBackend::sync_buffer(std::uint64_t id, std::size_t offset, std::size_t size,
                               Direction direction) {
  const auto memory = buffers_.get(id);
  require_range(offset, size, memory->size());
  memory->sync(offset, size, direction);
}

std::uint64_t StockBackend::create_chain(const ChainProgram& program,
                                         std::span<const BufferUse> buffers) {
  auto chain = std::make_shared<Chain>();
  std::vector<rkc_buf> all;
  all.reserve(buffers.size());
  for (const BufferUse& use : buffers) {
    auto memory = buffers_.get(use.id);
    all.push_back(declared(use, memory->iova(), memory->size()));
    chain->buffers.push_back(std::move(memory));
  }
  chain->trial = program.trial.has_value();
  lay_out(*chain,
          CheckedChain(program, all, program.trial.value_or(mode_), ordered() || chain->trial),
          all);

  const std::uint64_t id = next_id_++;
  chains_.add(id, std::move(chain));
  return id;
}

/// What a chain reads or writes of the buffers declared SYNC.
std::vector<rkc_range> ranges_of(const CheckedChain& checked, std::span<const rkc_buf> buffers,
                                 std::uint32_t flag) {
  std::vector<rkc_range> ranges(std::size_t{2} * checked.blocks());
  ranges.resize(rkc_chain_ranges(checked.matmuls().data(), checked.blocks(), buffers.data(),
                                 static_cast<std::uint32_t>(buffers.size()), flag, ranges.data()));
  return ranges;
}

void StockBackend::lay_out(Chain& chain, const CheckedChain& checked,
                           std::span<const rkc_buf> buffers) const {
  const rkc_measure& measure = checked.measure();
  chain.blocks = checked.blocks();
  chain.measure = measure;
  chain.macs = checked.cost().macs;
  chain.replayable = checked.replayable();
  chain.reads = ranges_of(checked, buffers, RKC_BUF_READ);
  chain.writes = ranges_of(checked, buffers, RKC_BUF_WRITE);
  // In the worst case one submit of a chain in single mode is nearly all of its work.
  chain.submit_estimate_ns = rkc_estimate_ns(&checked.cost(), measure.tasks, 1);

  chain.program = std::make_unique<const RknpuBuffer>(
      node_, std::size_t{measure.words} * sizeof(std::uint64_t), kDataFlags);
  // Fresh mappings, so that they may hold words and tasks as well as anything else.
  checked.emit(chain.program->iova(), reinterpret_cast<std::uint64_t*>(chain.program->cpu()));
  chain.program->sync(Direction::to_device);

  const std::uint32_t tasks = chain.tasks_per_core();
  chain.tasks = std::make_unique<const RknpuBuffer>(
      node_, std::size_t{LocalQueue::kCores} * tasks * sizeof(rknpu_task), kTaskFlags);
  for (std::uint32_t i = 0; i < LocalQueue::kCores * tasks; ++i) {
    rknpu_task task{};
    task.enable_mask = 0xd;
    task.int_mask = RKNPU_INT_DPU;
    task.int_clear = 0x1ffff;
    task.regcfg_amount = measure.regcfg_amount;
    task.regcmd_addr =
        chain.program->iova() + std::uint64_t{i % tasks} * measure.stride * sizeof(std::uint64_t);
    std::memcpy(chain.tasks->cpu() + i * sizeof(task), &task, sizeof(task));
  }
  chain.tasks->sync(Direction::to_device);
}

void StockBackend::destroy_chain(std::uint64_t id) { chains_.take(id); }

std::uint64_t StockBackend::submit(const SubmitRequest& request) {
  std::vector<LocalQueue::Job> jobs;
  jobs.reserve(request.chains.size());
  for (const std::uint64_t id : request.chains) {
    // The job holds the chain, and so the chain's memory, to its end.
    jobs.push_back(
        {[this, chain = chains_.get(id)](std::uint32_t core) { return run(core, chain); }, 0});
  }
  return queue_.submit(std::move(jobs), request.core_mask, request.after);
}

std::optional<Completion> StockBackend::wait(std::uint64_t sequence,
                                             std::chrono::steady_clock::time_point deadline) {
  return queue_.wait(sequence, deadline);
}

Outcome StockBackend::run(std::uint32_t index, const std::shared_ptr<const Chain>& chain) {
  // What is only written, too: a line that the CPU has dirtied may be evicted over the output.
  chain->sync(chain->reads, Direction::to_device);
  chain->sync(chain->writes, Direction::to_device);
  Outcome outcome = run_submits(index, *chain);
  Core& core = cores_[index];
  if (outcome.error) {
    core.pinned.push_back(chain);
  } else {
    core.pinned.clear();
    core.strikes = 0;
  }
  chain->sync(chain->writes, Direction::from_device);
  if (!outcome.error) {
    const std::lock_guard lock(stats_mutex_);
    stats_.blocks += chain->blocks;
    stats_.core[index].blocks += chain->blocks;
    stats_.core[index].macs += chain->macs;
  }
  return outcome;
}

/// All submits of a chain; once more when a reset of somebody's took one of them down.
Outcome StockBackend::run_submits(std::uint32_t index, const Chain& chain) {
  for (std::uint32_t retries = 0;; ++retries) {
    Outcome outcome;
    outcome.retries = retries;
    rkc_verdict verdict{};
    for (std::uint32_t submit = 0; submit < chain.measure.submits && !outcome.error; ++submit) {
      Submitted submitted = run_submit(index, chain, submit);
      submitted.returned.retries = retries;
      verdict = rkc_judge(&submitted.returned);
      outcome.hw_ns += submitted.hw_ns;
      verdict.strike = verdict.strike && !chain.trial;
      judge(index, submitted, verdict, outcome);
    }
    if (verdict.fate != RKC_FATE_AGAIN || verdict.poisoned) return outcome;
  }
}

StockBackend::Submitted StockBackend::run_submit(std::uint32_t index, const Chain& chain,
                                                 std::uint32_t submit) {
  Submitted result;
  rkc_return& returned = result.returned;
  returned.core = index;
  returned.replayable = chain.replayable;

  const std::uint32_t first = chain.first_task(index, submit);
  volatile std::uint32_t* const status = chain.status(first + chain.measure.tasks - 1);
  *status = RKC_NOT_COMMITTED;

  rknpu_submit argument{};
  argument.flags = RKNPU_JOB_PC;
  argument.timeout = RKC_STOCK_TIMEOUT_MS;
  argument.task_start = first;
  argument.task_number = chain.measure.tasks;
  argument.task_obj_addr = chain.tasks->object();
  argument.core_mask = 1U << index;
  argument.fence_fd = -1;
  argument.subcore_task[index] = {first, chain.measure.tasks};
  {
    ResetWindow::Turn turn(window_, index, chain.submit_estimate_ns);
    // In another program's domain the driver would wait for it, and then lose count.
    result.domain = node_->iommu_domain();
    if (result.domain != 0) return result;
    returned.error = node_->submit(argument);
    returned.committed = *status != RKC_NOT_COMMITTED;
    turn.back(returned);
  }

  const std::lock_guard lock(stats_mutex_);
  ++stats_.submits;
  if (returned.error == 0) {
    ++stats_.interrupts;
    stats_.tasks += chain.measure.tasks;
    if (argument.hw_elapse_time > 0) {
      result.hw_ns = static_cast<std::uint64_t>(argument.hw_elapse_time);
      stats_.core[index].busy_ns += result.hw_ns;
    }
  }
  return result;
}

/// What a submit that came back means, for people and for the core.
void StockBackend::judge(std::uint32_t index, const Submitted& submitted,
                         const rkc_verdict& verdict, Outcome& outcome) {
  if (submitted.domain > 0) {
    outcome.error = Errc::io;
    outcome.detail =
        fmt::format("another program holds the NPU in its IOMMU domain {}", submitted.domain);
    return;
  }
  if (submitted.domain < 0) {
    outcome.error = submitted.domain == -ENODEV ? Errc::no_device : Errc::io;
    outcome.detail = fmt::format("the rknpu driver does not tell its IOMMU domain: {}",
                                 error_text(static_cast<int>(submitted.domain)));
    return;
  }
  switch (verdict.fate) {
    case RKC_FATE_DONE:
      return;
    case RKC_FATE_GONE:
      outcome.error = Errc::no_device;
      outcome.detail = "the rknpu driver has gone";
      return;
    case RKC_FATE_HUNG:
      outcome.error = Errc::hung;
      outcome.detail = fmt::format(
          "core {} did not finish in the driver's time, {} ms; it has "
          "reset the NPU",
          index, submitted.returned.age_ns / 1'000'000);
      break;
    default:
      outcome.error = Errc::io;
      outcome.detail = fmt::format(
          "core {} was taken down by a reset of the NPU for somebody's chain ({}){}", index,
          error_text(submitted.returned.error),
          submitted.returned.retries != 0 ? ", twice"
          : submitted.returned.replayable ? ""
                                          : "; the chain writes what it reads, so that it cannot "
                                            "be run again");
      break;
  }
  Core& core = cores_[index];
  if (verdict.strike) ++core.strikes;
  if (verdict.poisoned) {
    outcome.lose_core = true;
    outcome.detail +=
        "; the driver never started it, so that the core is out until the driver "
        "is bound again";
  } else if (core.strikes >= kStrikes) {
    outcome.lose_core = true;
    outcome.detail +=
        fmt::format("; after {} such failures in a row the core is set aside", core.strikes);
  }
}

std::vector<SelfTestResult> StockBackend::self_test(const SelfTestOptions& options) {
  return run_trials(*this, options);
}

}  // namespace

std::shared_ptr<Backend> make_stock_backend(const OpenOptions& options,
                                            std::shared_ptr<const System> system) {
  return std::make_shared<StockBackend>(options, RknpuNode::find(system));
}

}  // namespace rkchain

// SPDX-License-Identifier: MIT
#include "backend/model_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "backend/checked_chain.hpp"
#include "backend/id_table.hpp"
#include "backend/local_queue.hpp"
#include "backend/model_i8.hpp"
#include "backend/model_memory.hpp"
#include "backend/trials.hpp"
#include "lib/model/npu.h"

namespace rkchain {

namespace {

using Outcome = LocalQueue::Outcome;

constexpr std::uint32_t kIntMatmul = NPU_INT_DPU_0 | NPU_INT_DPU_1;
constexpr std::uint32_t kIntAll = 0x1ffff;
/// From an interrupt until somebody looks at the memory.
constexpr std::uint64_t kWakeUpNs = 100'000;

/// A registered chain: what the NPU fetches, and what it may touch.
struct Chain {
  ModelView view;
  std::uint32_t program = 0;  ///< IOVA
  std::uint32_t blocks = 0;
  rkc_measure measure{};
  std::uint64_t duration_ns = 0;
  bool trial = false;
};

/// An access that a chain tried and may not do.
struct Refused {
  npu_access access = NPU_FETCH;
  std::uint64_t iova = 0;
  std::uint64_t len = 0;
};

struct FreeCore {
  void operator()(npu_core* core) const noexcept { std::free(core); }
};

/// One core and the world around it.  Belongs to the core's thread.
struct Core {
  std::unique_ptr<npu_core, FreeCore> npu;
  npu_ops ops{};
  /// The chain whose memory is in reach.  It stays so after its end, as the late knobs hold
  /// back outputs that are written before the next chain starts.
  std::shared_ptr<const Chain> chain;
  std::optional<Refused> refused;
  std::array<std::vector<std::byte>, 2> scratch;
};

// Callbacks of C code: no exception may leave them.

void* map_memory(void* context, npu_access access, u64 iova, u64 len) noexcept {
  auto& core = *static_cast<Core*>(context);
  std::byte* memory = core.chain ? core.chain->view.map(access, iova, len) : nullptr;
  if (memory == nullptr && !core.refused) {
    core.refused = Refused{access, iova, len};
  }
  return memory;
}

void* scratch_memory(void* context, u32 which, u64 len) noexcept {
  auto& memory = static_cast<Core*>(context)->scratch[which];
  try {
    if (memory.size() < len) {
      memory.resize(len);
    }
  } catch (const std::exception&) {
    return nullptr;
  }
  return memory.data();
}

std::string_view access_name(npu_access access) {
  switch (access) {
    case NPU_FETCH:
      return "program fetch";
    case NPU_FEATURE:
      return "feature read";
    case NPU_WEIGHT:
      return "weight read";
    case NPU_OUTPUT:
      return "output write";
    default:
      return "access";
  }
}

void set_knobs(npu_core& npu, const ModelOptions& options, std::uint32_t core) {
  auto& knobs = *npu_knobs(&npu);
  knobs.nowait = options.nowait;
  knobs.early = options.early;
  knobs.needs41 = options.needs41;
  knobs.late = options.late;
  knobs.rawlate = options.rawlate;
  knobs.cold = options.cold;
  knobs.bad = (options.bad_cores >> core & 1) != 0;
  knobs.stuck = (options.stuck_cores >> core & 1) != 0;
}

/// One submit as a driver would see it, and a little more.
struct Seen {
  std::uint32_t events = 0;
  std::uint32_t tasks = 0;             ///< task counter
  std::uint32_t status = 0;            ///< interrupt status
  bool fetched = false;                ///< any word of a program
  std::uint64_t blocks = 0;            ///< executed
  std::uint64_t blocks_signalled = 0;  ///< executed when the interrupt came
  std::uint64_t hw_ns = 0;             ///< until then
};

/// Did the core stop on its own account?
Outcome judge_fault(const Core& core, std::uint32_t index, std::uint32_t submit, const Seen& seen) {
  const auto& fault = *npu_fault(core.npu.get());
  const std::uint32_t block = submit + fault.block;
  Outcome outcome;
  if (fault.code == NPU_FAULT_DMA_READ || fault.code == NPU_FAULT_DMA_WRITE) {
    const Refused refused = core.refused.value_or(Refused{});
    outcome.error = Errc::dma_error;
    outcome.detail =
        fmt::format("core {}, block {}: {} of {} bytes at {:#010x}, which is not mapped for that",
                    index, block, access_name(refused.access), refused.len, refused.iova);
  } else if (fault.code != NPU_FAULT_NONE) {
    outcome.error = Errc::io;
    outcome.detail =
        fmt::format("core {}, block {}, word {}, register {:#06x}, value {:#010x}: {}", index,
                    block, fault.word, fault.reg, fault.value, npu_fault_text(fault.code));
  } else if ((seen.events & NPU_EV_STUCK) != 0 && !seen.fetched) {
    outcome.error = Errc::dropped_dispatch;
    outcome.detail = fmt::format("core {} accepted the chain and never started it", index);
  } else if ((seen.events & NPU_EV_STUCK) != 0) {
    outcome.error = Errc::hung;
    outcome.detail = fmt::format("core {} stopped after {} of {} blocks and was set aside", index,
                                 submit + seen.blocks, core.chain->blocks);
    outcome.lose_core = true;
  }
  return outcome;
}

/// How long a core's hardware needs for what it did between two readings of its counters: as
/// fast as the MAC array can be, or as the memory that one core was seen to get.
std::uint64_t hardware_ns(const struct npu_counters& from, const struct npu_counters& to) {
  constexpr std::uint64_t kMacsPerNs = 1024;
  constexpr std::uint64_t kBytesPerNs = 8;
  std::uint64_t bytes = 0;
  for (int access = 0; access < NPU_ACCESSES; ++access)
    bytes += to.bytes[access] - from.bytes[access];
  return std::max((to.macs - from.macs) / kMacsPerNs, bytes / kBytesPerNs);
}

/// Is what looks like the end the end?
Outcome judge_completion(const Chain& chain, std::uint32_t index, const Seen& seen) {
  Outcome outcome;
  if (seen.blocks != seen.blocks_signalled) {
    outcome.error = Errc::early_completion;
    outcome.detail = fmt::format("core {} signalled completion after {} of {} blocks", index,
                                 seen.blocks_signalled, chain.blocks);
  } else if (seen.tasks != chain.measure.tasks) {
    outcome.error = Errc::early_completion;
    outcome.detail = fmt::format("core {} signalled completion after {} of {} tasks", index,
                                 seen.tasks, chain.measure.tasks);
  } else if ((seen.status & kIntMatmul) == 0 || (seen.status & ~kIntMatmul) != 0) {
    outcome.error = Errc::io;
    outcome.detail =
        fmt::format("core {} ended with interrupt status {:#x}, expected bits of {:#x}", index,
                    seen.status, kIntMatmul);
  }
  return outcome;
}

class ModelBackend final : public Backend {
 public:
  ModelBackend(const OpenOptions& options, ModelHooks hooks);

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

  void unmap(std::uint64_t id) { buffers_.get(id)->unmap(); }

 private:
  [[nodiscard]] bool ordered() const noexcept;
  [[nodiscard]] Outcome run(std::uint32_t index, const std::shared_ptr<const Chain>& chain);
  [[nodiscard]] Outcome run_submit(std::uint32_t index, std::uint32_t submit);

  const OpenOptions options_;
  const Mode mode_;
  const ModelHooks hooks_;
  const std::shared_ptr<IovaSpace> space_ = std::make_shared<IovaSpace>();

  IdTable<ModelRegion> buffers_{"buffer"};
  IdTable<const Chain> chains_{"chain"};
  std::atomic<std::uint64_t> next_id_{1};

  mutable std::mutex stats_mutex_;
  DeviceStats stats_;

  std::atomic<std::uint64_t> starts_{0};
  std::array<Core, LocalQueue::kCores> cores_;
  LocalQueue queue_;  ///< the last member: its threads use all others
};

LocalQueue::Options queue_options(const OpenOptions& options) {
  LocalQueue::Options queue;
  queue.clock = LocalQueue::Clock::simulated;
  queue.usable_mask = options.core_mask == 0 ? RKC_CORES_ALL : options.core_mask;
  queue.depth = options.queue_depth;
  return queue;
}

ModelBackend::ModelBackend(const OpenOptions& options, ModelHooks hooks)
    : options_(options),
      mode_(options.mode.value_or(Mode::wait)),
      hooks_(std::move(hooks)),
      queue_(queue_options(options)) {
  require_mode(mode_);
  // A multiple of the alignment, as aligned_alloc() demands.
  constexpr std::size_t kAlignment = 64;
  const std::size_t size = (npu_core_size() + kAlignment - 1) / kAlignment * kAlignment;
  for (std::uint32_t index = 0; index < LocalQueue::kCores; ++index) {
    Core& core = cores_[index];
    core.npu.reset(static_cast<npu_core*>(std::aligned_alloc(kAlignment, size)));
    if (!core.npu) {
      throw Error(Errc::out_of_memory, fmt::format("no host memory for core {}", index));
    }
    core.ops.map = map_memory;
    core.ops.dot_i8 = options.model.plain ? nullptr : model_dot_i8;
    core.ops.scratch = scratch_memory;
    core.ops.ctx = &core;
    npu_init(core.npu.get(), index, &core.ops);
    set_knobs(*core.npu, options.model, index);
  }
}

/// May a block read what an earlier one wrote?  Not on silicon that writes too late, unless
/// each block is waited for, nor where the blocks of a program run into each other.
bool ModelBackend::ordered() const noexcept {
  const bool one_program = mode_ == Mode::wait || mode_ == Mode::wait41;
  return mode_ == Mode::single ||
         (!options_.model.rawlate && !(one_program && options_.model.nowait));
}

DeviceInfo ModelBackend::info() const {
  DeviceInfo info;
  info.backend = BackendKind::model;
  info.driver = "software NPU";
  info.mode = mode_;
  info.cores = LocalQueue::kCores;
  info.usable_mask = queue_.usable_mask();
  info.ordered = ordered();
  return info;
}

DeviceStats ModelBackend::stats() const {
  const auto cores = queue_.cores();
  const std::lock_guard lock(stats_mutex_);
  DeviceStats stats = stats_;
  for (std::uint32_t index = 0; index < LocalQueue::kCores; ++index) {
    stats.core[index].chains = cores[index].jobs;
    stats.core[index].busy_ns = cores[index].busy_ns;
  }
  return stats;
}

BackendBuffer ModelBackend::create_buffer(std::size_t size) {
  require_buffer_size(size);
  auto memory = std::make_shared<ModelRegion>(space_, size);
  const BackendBuffer buffer{next_id_++, memory->cpu(), memory->iova(), size};
  buffers_.add(buffer.id, std::move(memory));
  return buffer;
}

void ModelBackend::destroy_buffer(std::uint64_t id) { buffers_.take(id); }

void ModelBackend::sync_buffer(std::uint64_t id, std::size_t offset, std::size_t size,
                               Direction /*direction*/) {
  // The model sees the host's memory itself: there is nothing to do but to check.
  require_range(offset, size, buffers_.get(id)->size());
}

std::uint64_t ModelBackend::create_chain(const ChainProgram& program,
                                         std::span<const BufferUse> buffers) {
  auto chain = std::make_shared<Chain>();
  std::vector<rkc_buf> all;
  all.reserve(buffers.size());
  for (const BufferUse& use : buffers) {
    auto memory = buffers_.get(use.id);
    all.push_back(declared(use, memory->iova(), memory->size()));
    chain->view.add(std::move(memory), use.read, use.write);
  }
  const CheckedChain checked(program, all, program.trial.value_or(mode_),
                             ordered() || program.trial.has_value());
  chain->trial = program.trial.has_value();
  chain->blocks = checked.blocks();
  chain->measure = checked.measure();
  auto memory =
      std::make_shared<ModelRegion>(space_, std::size_t{chain->measure.words} * sizeof(u64));
  // The memory is a fresh mapping, so it may hold words as well as anything else.
  checked.emit(memory->iova(), reinterpret_cast<std::uint64_t*>(memory->cpu()));
  chain->program = memory->iova();
  chain->view.set_program(std::move(memory));
  chain->duration_ns = model_duration_ns(chain->measure.submits, chain->measure.tasks,
                                         checked.macs()[0], checked.macs()[1]);

  const std::uint64_t id = next_id_++;
  chains_.add(id, std::move(chain));
  return id;
}

void ModelBackend::destroy_chain(std::uint64_t id) { chains_.take(id); }

std::uint64_t ModelBackend::submit(const SubmitRequest& request) {
  std::vector<LocalQueue::Job> jobs;
  jobs.reserve(request.chains.size());
  for (const std::uint64_t id : request.chains) {
    // The job holds the chain, and so the chain's memory, to its end.
    auto chain = chains_.get(id);
    const std::uint64_t duration_ns = chain->duration_ns;
    jobs.push_back(
        {[this, chain = std::move(chain)](std::uint32_t core) { return run(core, chain); },
         duration_ns});
  }
  return queue_.submit(std::move(jobs), request.core_mask, request.after);
}

std::optional<Completion> ModelBackend::wait(std::uint64_t sequence,
                                             std::chrono::steady_clock::time_point deadline) {
  return queue_.wait(sequence, deadline);
}

/// What an early interrupt left behind.
void finish_rest(Core& core) {
  npu_core* npu = core.npu.get();
  while (npu_busy(npu) != 0 && (npu_run(npu) & (NPU_EV_IDLE | NPU_EV_STUCK)) == 0) {
  }
}

Outcome ModelBackend::run(std::uint32_t index, const std::shared_ptr<const Chain>& chain) {
  if (hooks_.before_chain) {
    hooks_.before_chain(index);
  }
  Core& core = cores_[index];
  finish_rest(core);
  npu_settle(core.npu.get());
  npu_write(core.npu.get(), NPU_PC_INT_CLEAR, kIntAll);
  core.chain = chain;
  core.refused.reset();
  if (options_.model.poison) {
    npu_poison(core.npu.get(), *options_.model.poison);
  }
  Outcome outcome;
  for (std::uint32_t submit = 0; submit < chain->measure.submits && !outcome.error; ++submit) {
    const std::uint64_t before = outcome.hw_ns;
    outcome = run_submit(index, submit);
    outcome.hw_ns += before;
  }
  if (chain->trial) {
    outcome.lose_core = false;
  }
  if (!options_.model.late && npu_busy(core.npu.get()) == 0) {
    core.chain.reset();
  }
  return outcome;
}

Outcome ModelBackend::run_submit(std::uint32_t index, std::uint32_t submit) {
  Core& core = cores_[index];
  const Chain& chain = *core.chain;
  npu_core* npu = core.npu.get();
  const std::uint64_t start = starts_.fetch_add(1) + 1;
  npu_knobs(npu)->drop = options_.model.drop_every != 0 && start % options_.model.drop_every == 0;

  const auto before = *npu_counters(npu);
  const npu_job job{chain.program + submit * chain.measure.stride * 8, chain.measure.pc_amount,
                    kIntMatmul, chain.measure.tasks, 0};
  npu_start(npu, &job);
  Seen seen;
  seen.events = npu_run(npu);
  seen.blocks_signalled = npu_counters(npu)->blocks - before.blocks;
  seen.hw_ns = hardware_ns(before, *npu_counters(npu));
  // What the hardware still does after an early interrupt must not meet the next chain.  Of a
  // trial it does what is over before anybody can look, and the rest later.
  const struct npu_counters signalled = *npu_counters(npu);
  while ((seen.events & (NPU_EV_IDLE | NPU_EV_STUCK)) == 0 &&
         (!chain.trial || hardware_ns(signalled, *npu_counters(npu)) < kWakeUpNs)) {
    seen.events |= npu_step(npu);
  }
  const auto& after = *npu_counters(npu);
  seen.blocks = after.blocks - before.blocks;
  seen.fetched = after.words != before.words;
  seen.tasks = npu_read(npu, NPU_PC_TASK_STATUS) & 0xfff;
  seen.status = npu_read(npu, NPU_PC_INT_STATUS);
  npu_write(npu, NPU_PC_INT_CLEAR, kIntAll);
  {
    const std::lock_guard lock(stats_mutex_);
    ++stats_.submits;
    stats_.interrupts += after.interrupts - before.interrupts;
    stats_.tasks += chain.measure.tasks;
    stats_.blocks += seen.blocks;
    stats_.core[index].blocks += seen.blocks;
    stats_.core[index].macs += after.macs - before.macs;
  }

  Outcome outcome = judge_fault(core, index, submit, seen);
  if (outcome.error) {
    npu_reset(npu);
  } else if (!chain.trial) {
    outcome = judge_completion(chain, index, seen);
  }
  outcome.hw_ns = seen.hw_ns;
  return outcome;
}

std::vector<SelfTestResult> ModelBackend::self_test(const SelfTestOptions& options) {
  return run_trials(*this, options);
}

}  // namespace

std::shared_ptr<Backend> make_model_backend(const OpenOptions& options, ModelHooks hooks) {
  return std::make_shared<ModelBackend>(options, std::move(hooks));
}

void model_unmap(Backend& backend, std::uint64_t buffer) {
  auto* model = dynamic_cast<ModelBackend*>(&backend);
  if (model == nullptr) {
    throw Error(Errc::invalid_argument, "not a software NPU");
  }
  model->unmap(buffer);
}

std::uint64_t model_duration_ns(std::uint32_t submits, std::uint32_t tasks, std::uint64_t macs_i8,
                                std::uint64_t macs_f16) {
  constexpr std::uint64_t kSubmitNs = 130'000;
  constexpr std::uint64_t kProgramNs = 18'000;
  constexpr std::uint64_t kMacsPerNsI8 = 1024;
  constexpr std::uint64_t kMacsPerNsF16 = 512;
  return submits * kSubmitNs + (tasks - 1) * kProgramNs + macs_i8 / kMacsPerNsI8 +
         macs_f16 / kMacsPerNsF16;
}

}  // namespace rkchain

// SPDX-License-Identifier: MIT
#include "backend/kmod_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/checked_chain.hpp"
#include "backend/id_table.hpp"
#include "backend/kmod_device.hpp"
#include "backend/rknpu_node.hpp"
#include "backend/trials.hpp"
#include "kmod/core/rotor.h"

namespace rkchain {
namespace {

using std::chrono::steady_clock;

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

struct Memory {
  std::shared_ptr<const Mapping> mapping;
  std::size_t size = 0;
};

/// What the module does not need to be asked about a chain.
struct Chain {
  std::vector<std::shared_ptr<const Mapping>> buffers;
  std::uint32_t blocks = 0;
  std::uint64_t macs = 0;
};

/// A chain that the module has been given.  Sequence numbers are ours: the module forgets a
/// failure when it has told us of it, we when the library has asked.
struct Submitted {
  std::uint64_t number = 0;  ///< the module's sequence number
  std::shared_ptr<const Chain> chain;
};

/// CLOCK_MONOTONIC for the module: -1 is for ever, what has passed polls.
std::int64_t deadline_ns(steady_clock::time_point deadline) {
  if (deadline == steady_clock::time_point::max()) return -1;
  const auto since =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch());
  return std::max<std::int64_t>(since.count(), 0);
}

/// Code and text for the status of a completion.
std::pair<Errc, std::string> failure(const rkchain_completion& done) {
  const auto on_core = [&] {
    return done.core == RKCHAIN_NO_CORE ? std::string() : fmt::format("core {} ", done.core);
  };
  switch (done.status) {
    case -ETIME:
      return {Errc::timed_out, (done.flags & RKCHAIN_DONE_RUNNING) != 0
                                   ? "the deadline passed, and the NPU may still write"
                                   : "the deadline passed before the chain had started"};
    case -ETIMEDOUT:
      return {Errc::hung, on_core() + "did not finish the chain; the NPU has been reset"};
    case -EIO:
      return {Errc::io,
              fmt::format("{}was taken down by a reset of the NPU for another chain{}", on_core(),
                          done.retries != 0 ? ", again" : ", and cannot be run again")};
    case -ECANCELED:
      return {Errc::cancelled, "a chain that this one follows has failed"};
    case -ENODEV:
      return {Errc::no_device, "no core is left that may run the chain, or the driver has gone"};
    default:
      return {Errc::io, error_text(done.status)};
  }
}

class KmodBackend final : public Backend {
 public:
  KmodBackend(const OpenOptions& options, std::shared_ptr<const System> system);

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
                                 steady_clock::time_point deadline) override;
  std::vector<SelfTestResult> self_test(const SelfTestOptions& options) override;

 private:
  void destroy(unsigned long command, std::string_view subject, std::uint64_t id) const;
  [[nodiscard]] std::uint32_t allowed(std::uint32_t asked) const;
  [[nodiscard]] std::pair<int, rkchain_wait> ask(std::uint64_t number, std::int64_t deadline,
                                                 rkchain_completion& done) const;
  // These want mutex_ to be held.
  [[nodiscard]] bool full(std::size_t more);
  void collect_ended();
  [[nodiscard]] std::optional<std::uint64_t> failed_up_to(std::uint64_t sequence) const;
  std::uint64_t cancel(std::size_t count, std::uint64_t failed);
  Completion record(std::uint64_t sequence, const rkchain_completion& done);

  const OpenOptions options_;
  const KmodDevice device_;
  const rkchain_query first_;  ///< what the module said at the start

  IdTable<const Memory> buffers_{"buffer"};
  IdTable<const Chain> chains_{"chain"};

  mutable std::mutex mutex_;                        ///< of all that follows
  std::map<std::uint64_t, Submitted> outstanding_;  ///< by sequence number
  std::multiset<std::uint64_t> awaited_;  ///< those of outstanding_ that a thread asks for
  std::unordered_map<std::uint64_t, Completion> ended_;  ///< and not asked for yet
  std::uint64_t last_sequence_ = 0;
  DeviceStats stats_;
};

KmodBackend::KmodBackend(const OpenOptions& options, std::shared_ptr<const System> system)
    : options_(options), device_(std::move(system)), first_(device_.query()) {
  if ((options.core_mask & ~RKC_CORES_ALL) != 0) {
    throw Error(Errc::invalid_argument, fmt::format("core mask {:#x} names a core that does not "
                                                    "exist: the limit is {:#x}",
                                                    options.core_mask, RKC_CORES_ALL));
  }
  if (options.queue_depth == 0) {
    throw Error(Errc::invalid_argument, "a queue depth of 0 leaves no room for a chain");
  }
  if (first_.provider == 0) {
    throw Error(Errc::no_device,
                "the rkchain module has no stock driver to work with: run \"rkchain provide\" as "
                "root");
  }
  const std::uint64_t missing = RKCHAIN_CAP_CHAINS & ~first_.capabilities;
  if (missing != 0) {
    throw Error(Errc::unsupported, fmt::format("this rkchain module lacks the capability {}, which "
                                               "the library needs",
                                               capability_names(missing)));
  }
}

DeviceInfo KmodBackend::info() const {
  const rkchain_query query = device_.query();
  DeviceInfo info;
  info.backend = BackendKind::kmod;
  info.driver = fmt::format("rkchain (rknpu {})", rknpu_version_text(query.driver_version));
  info.mode = static_cast<Mode>(query.mode);
  info.cores = static_cast<std::uint32_t>(__builtin_popcount(query.cores_present));
  info.usable_mask =
      query.cores_usable & (options_.core_mask == 0 ? RKC_CORES_ALL : options_.core_mask);
  info.ordered = (query.capabilities & RKCHAIN_CAP_FEED_ON) != 0;
  return info;
}

std::vector<SelfTestResult> KmodBackend::self_test(const SelfTestOptions& options) {
  std::vector<SelfTestResult> results = untested(options);
  std::vector<rkchain_selftest_result> found(results.size());
  rkchain_selftest call{};
  for (const SelfTestResult& result : results) {
    call.modes |= 1U << static_cast<std::uint32_t>(result.mode);
    call.cores |= 1U << result.core;
  }
  call.flags =
      (options.brief ? RKCHAIN_SELFTEST_SHORT : 0) | (options.shared ? RKCHAIN_SELFTEST_SHARED : 0);
  call.count = static_cast<std::uint32_t>(found.size());
  call.results = address_of(found.data());
  const int error = device_.call(RKCHAIN_IOCTL_SELFTEST, &call);
  if (error < 0) throw kmod_error("self-test", error, call.report);
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].verdict = static_cast<Verdict>(found[i].verdict);
    results[i].blocks = found[i].blocks;
    if (found[i].block != RKCHAIN_NO_WORD) results[i].block = found[i].block;
    results[i].hw_ns = found[i].hw_ns;
    results[i].expected_ns = found[i].expected_ns;
    if (found[i].status != 0) results[i].detail = error_text(found[i].status);
  }
  return results;
}

DeviceStats KmodBackend::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

BackendBuffer KmodBackend::create_buffer(std::size_t size) {
  require_buffer_size(size);
  rkchain_buf_create create{};
  create.size = size;
  create.fd = -1;
  const int error = device_.call(RKCHAIN_IOCTL_BUF_CREATE, &create);
  if (error < 0) throw kmod_error("buffer", error, create.report);
  try {
    // The mapping keeps the memory; the descriptor has done its work.
    const Fd fd(device_.system(), create.fd);
    auto mapping = std::make_shared<const Mapping>(device_.system(), fd.get(), size, 0);
    const BackendBuffer buffer{create.id, mapping->memory(),
                               static_cast<std::uint32_t>(create.iova), size};
    buffers_.add(buffer.id, std::make_shared<const Memory>(Memory{std::move(mapping), size}));
    return buffer;
  } catch (...) {
    rkchain_id gone{};
    gone.id = create.id;
    device_.call(RKCHAIN_IOCTL_BUF_DESTROY, &gone);
    throw;
  }
}

void KmodBackend::destroy(unsigned long command, std::string_view subject, std::uint64_t id) const {
  rkchain_id gone{};
  gone.id = static_cast<std::uint32_t>(id);
  const int error = device_.call(command, &gone);
  if (error < 0) throw kmod_error(subject, error, gone.report);
}

void KmodBackend::destroy_buffer(std::uint64_t id) {
  buffers_.take(id);
  destroy(RKCHAIN_IOCTL_BUF_DESTROY, "buffer", id);
}

void KmodBackend::sync_buffer(std::uint64_t id, std::size_t offset, std::size_t size,
                              Direction direction) {
  require_range(offset, size, buffers_.get(id)->size);
  if (size == 0) return;
  rkchain_buf_sync sync{};
  sync.id = static_cast<std::uint32_t>(id);
  sync.direction =
      direction == Direction::to_device ? RKCHAIN_SYNC_TO_DEVICE : RKCHAIN_SYNC_FROM_DEVICE;
  sync.offset = offset;
  sync.size = size;
  const int error = device_.call(RKCHAIN_IOCTL_BUF_SYNC, &sync);
  if (error < 0) throw kmod_error("sync", error, sync.report);
}

std::uint64_t KmodBackend::create_chain(const ChainProgram& program,
                                        std::span<const BufferUse> buffers) {
  auto chain = std::make_shared<Chain>();
  std::vector<rkchain_buf_use> uses;
  uses.reserve(buffers.size());
  for (const BufferUse& use : buffers) {
    chain->buffers.push_back(buffers_.get(use.id)->mapping);
    uses.push_back({static_cast<std::uint32_t>(use.id), (use.read ? RKCHAIN_USE_READ : 0) |
                                                            (use.write ? RKCHAIN_USE_WRITE : 0) |
                                                            (use.sync ? RKCHAIN_USE_SYNC : 0)});
  }
  rkchain_chain_create create{};
  create.programs = address_of(program.words.data());
  create.size = program.words.size_bytes();
  create.count = program.count;
  create.stride = program.stride;
  create.body = program.body;
  create.flags = program.link ? RKCHAIN_CHAIN_LINK : 0;
  create.buffers = address_of(uses.data());
  create.buffer_count = static_cast<std::uint32_t>(uses.size());
  const int error = device_.call(RKCHAIN_IOCTL_CHAIN_CREATE, &create);
  if (error < 0) throw kmod_error("chain", error, create.report);
  chain->blocks = program.count;
  chain->macs = create.macs;
  chains_.add(create.id, std::move(chain));
  return create.id;
}

void KmodBackend::destroy_chain(std::uint64_t id) {
  chains_.take(id);
  destroy(RKCHAIN_IOCTL_CHAIN_DESTROY, "chain", id);
}

/// Cores that a submit may use; 0 for any.
std::uint32_t KmodBackend::allowed(std::uint32_t asked) const {
  if (asked == 0 || options_.core_mask == 0) return asked | options_.core_mask;
  if ((asked & options_.core_mask) == 0) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("core mask {:#x} has no usable core, mask {:#x}", asked, options_.core_mask));
  }
  return asked & options_.core_mask;
}

std::uint64_t KmodBackend::submit(const SubmitRequest& request) {
  if (request.chains.empty()) throw Error(Errc::invalid_argument, "a submit without chains");
  const std::uint32_t core_mask = allowed(request.core_mask);
  if (request.after && (first_.capabilities & RKCHAIN_CAP_AFTER) == 0) {
    throw Error(Errc::unsupported, fmt::format("this rkchain module lacks the capability {}, which "
                                               "chains that follow others need",
                                               capability_names(RKCHAIN_CAP_AFTER)));
  }

  const std::lock_guard lock(mutex_);
  if (request.after && *request.after > last_sequence_) {
    throw Error(Errc::invalid_argument,
                fmt::format("after {}: the last sequence number submitted is {}", *request.after,
                            last_sequence_));
  }
  std::vector<std::uint32_t> ids;
  std::vector<std::shared_ptr<const Chain>> chains;
  for (const std::uint64_t id : request.chains) {
    chains.push_back(chains_.get(id));
    ids.push_back(static_cast<std::uint32_t>(id));
  }
  if (full(ids.size())) {
    throw Error(Errc::queue_full,
                fmt::format("{} chains have not ended, {} more exceed the depth of {}",
                            outstanding_.size(), ids.size(), options_.queue_depth));
  }

  rkchain_submit submit{};
  submit.chains = address_of(ids.data());
  submit.count = static_cast<std::uint32_t>(ids.size());
  submit.core_mask = core_mask;
  if (request.after) {
    if (const auto failed = failed_up_to(*request.after)) return cancel(ids.size(), *failed);
    // Of what has ended nothing is left to wait for.
    const auto next = outstanding_.upper_bound(*request.after);
    if (next != outstanding_.begin()) {
      submit.flags = RKCHAIN_SUBMIT_AFTER;
      submit.after = std::prev(next)->second.number;
    }
  }
  int error = device_.call(RKCHAIN_IOCTL_SUBMIT, &submit);
  if (error == -EAGAIN) {
    // Slots come free when completions are taken out of them.
    collect_ended();
    submit.report = {};
    error = device_.call(RKCHAIN_IOCTL_SUBMIT, &submit);
  }
  if (error < 0) throw kmod_error("submit", error, submit.report);
  const std::uint64_t first = last_sequence_ + 1;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    outstanding_.emplace(first + i, Submitted{submit.first + i, std::move(chains[i])});
  }
  last_sequence_ += chains.size();
  return first;
}

/// Is there no room for so many more?
bool KmodBackend::full(std::size_t more) {
  const std::size_t at_once = first_.max_submit != 0 ? first_.max_submit : more;
  if (more > options_.queue_depth || more > at_once) return true;
  if (outstanding_.size() > options_.queue_depth - more) collect_ended();
  return outstanding_.size() > options_.queue_depth - more;
}

/// The first failure up to there that nobody has asked for.
std::optional<std::uint64_t> KmodBackend::failed_up_to(std::uint64_t sequence) const {
  std::optional<std::uint64_t> failed;
  for (const auto& [number, completion] : ended_) {
    if (completion.error && number <= sequence && (!failed || number < *failed)) failed = number;
  }
  return failed;
}

/// Chains that end before the module hears of them.  @return the first sequence number.
std::uint64_t KmodBackend::cancel(std::size_t count, std::uint64_t failed) {
  Completion completion;
  completion.error = Errc::cancelled;
  completion.detail = fmt::format("an earlier chain, number {}, has failed", failed);
  completion.queued_ns = completion.started_ns = completion.done_ns = device_.system()->now_ns();
  const std::uint64_t first = last_sequence_ + 1;
  for (std::size_t i = 0; i < count; ++i) {
    completion.sequence = ++last_sequence_;
    ended_.emplace(completion.sequence, completion);
  }
  return first;
}

/// WAIT for one.  @return the call's result.
std::pair<int, rkchain_wait> KmodBackend::ask(std::uint64_t number, std::int64_t deadline,
                                              rkchain_completion& done) const {
  rkchain_wait wait{};
  wait.first = number;
  wait.count = 1;
  wait.deadline_ns = deadline;
  wait.completions = address_of(&done);
  const int error = device_.call(RKCHAIN_IOCTL_WAIT, &wait);
  return {error, wait};
}

std::optional<Completion> KmodBackend::wait(std::uint64_t sequence,
                                            steady_clock::time_point deadline) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (auto node = ended_.extract(sequence)) return std::move(node.mapped());
    const auto at = outstanding_.find(sequence);
    if (at == outstanding_.end()) {
      throw Error(Errc::invalid_argument, fmt::format("sequence number {} {}", sequence,
                                                      sequence == 0 || sequence > last_sequence_
                                                          ? "has not been submitted"
                                                          : "has been waited for before"));
    }
    number = at->second.number;
    awaited_.insert(sequence);
  }
  rkchain_completion done{};
  const auto [error, wait] = ask(number, deadline_ns(deadline), done);
  const std::lock_guard lock(mutex_);
  awaited_.erase(awaited_.find(sequence));
  if (error == -ETIME || (error == 0 && wait.done == 0)) return std::nullopt;
  if (error < 0) throw kmod_error("wait", error, wait.report);
  return record(sequence, done);
}

/// Takes in what has ended and nobody waits for, so that its places in the queue come free.
void KmodBackend::collect_ended() {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> idle;
  for (const auto& [sequence, submitted] : outstanding_) {
    if (!awaited_.contains(sequence)) idle.emplace_back(sequence, submitted.number);
  }
  for (const auto& [sequence, number] : idle) {
    rkchain_completion done{};
    const auto [error, wait] = ask(number, 0, done);
    if (error == 0 && wait.done == 1) ended_.emplace(sequence, record(sequence, done));
  }
}

/// Enters a completion into the books.
Completion KmodBackend::record(std::uint64_t sequence, const rkchain_completion& done) {
  const auto submitted = outstanding_.extract(sequence);
  Completion completion;
  completion.sequence = sequence;
  completion.retries = done.retries;
  completion.queued_ns = done.queued_ns;
  completion.done_ns = done.done_ns;
  const bool started = done.core < RKC_CORES && done.started_ns != 0;
  completion.started_ns = started ? done.started_ns : done.done_ns;
  completion.core = started ? done.core : 0;
  if (done.status != 0) {
    auto [code, text] = failure(done);
    completion.error = code;
    completion.detail = std::move(text);
  }
  if (!started) return completion;
  CoreStats& core = stats_.core[done.core];
  ++core.chains;
  core.busy_ns += done.hw_ns;
  if (!submitted || done.status != 0) return completion;
  const Chain& chain = *submitted.mapped().chain;
  const std::uint32_t blocks = chain.blocks;
  const std::uint64_t submits = first_.mode == RKCHAIN_MODE_SINGLE ? blocks : 1;
  const bool one_task = first_.mode == RKCHAIN_MODE_WAIT || first_.mode == RKCHAIN_MODE_WAIT41;
  stats_.submits += submits;
  stats_.interrupts += submits;
  stats_.tasks += one_task ? 1 : blocks;
  stats_.blocks += blocks;
  core.blocks += blocks;
  core.macs += chain.macs;
  return completion;
}

}  // namespace

std::shared_ptr<Backend> make_kmod_backend(const OpenOptions& options,
                                           std::shared_ptr<const System> system) {
  return std::make_shared<KmodBackend>(options, std::move(system));
}

}  // namespace rkchain

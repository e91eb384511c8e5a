// SPDX-License-Identifier: MIT
#include "capture/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "capture/replay_process.hpp"

namespace rkchain::capture {

namespace {

/// More than any program has threads that submit.
constexpr std::size_t most_open = 4096;

bool from_device(std::uint32_t flags) { return (flags & RKNPU_MEM_SYNC_FROM_DEVICE) != 0; }

}  // namespace

Replay::Replay(const ReplayOptions& options, ReplayObserver* observer)
    : budget_(std::make_shared<Budget>(options.limit_bytes)),
      npu_(options.blocks),
      observer_(observer) {}

Replay::~Replay() = default;

void Replay::visit(const Record& record) {
  clock_++;
  move_on(record);
  switch (record.kind()) {
    case Kind::process:
      return begin(record);
    case Kind::submit:
      return submit(record);
    case Kind::task:
      return task(record);
    case Kind::submitted:
      return submitted(record);
    case Kind::buffer:
      return buffer(record);
    case Kind::destroyed:
      return destroyed(record);
    case Kind::memory:
      return memory(record);
    case Kind::sync:
      return sync(record);
    case Kind::unseen:
      return unseen(record);
    case Kind::chain_submit:
      totals_.chain_submits++;
      process(record.header.pid).chain_submits.insert(record.get<ChainSubmit>().id);
      return;
    case Kind::end:
      totals_.lost += record.get<End>().lost;
      return;
    default:
      return;
  }
}

std::vector<SubmitResult> Replay::finish() {
  for (auto& [pid, process] : processes_) close(*process);
  processes_.clear();
  std::sort(results_.begin(), results_.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return std::move(results_);
}

Replay::Process& Replay::process(std::uint32_t pid) {
  auto& process = processes_[pid];
  if (!process) process = std::make_unique<Process>(ProcessImage(budget_));
  return *process;
}

/// Nothing more of it is to come: what it has not settled, it never will.
void Replay::close(Process& process) {
  while (!process.open.empty())
    give_up(process, *process.open.begin()->second, "the capture ends before the driver answered");
  for (auto& pending : process.pending) {
    for (auto& written : pending->written())
      pending->settle(process.image.now(), written.at, written.model.size(), true);
    emit(pending->compare());
  }
  process.pending.clear();
}

void Replay::emit(SubmitResult result) {
  totals_.words += result.words;
  totals_.equal += result.equal;
  totals_.left_out += result.left_out;
  totals_.with_difference += result.differs() ? 1 : 0;
  results_.push_back(std::move(result));
}

/// Those of a thread that has gone on: nothing that is yet to come belongs to them.
void Replay::emit_complete(Process& process, std::uint32_t tid) {
  std::erase_if(process.pending, [&](auto& pending) {
    if (pending->result().tid != tid || !pending->complete()) return false;
    emit(pending->compare());
    return true;
  });
}

void Replay::move_on(const Record& record) {
  const auto found = processes_.find(record.header.pid);
  if (found == processes_.end()) return;
  Process& process = *found->second;
  const Kind kind = record.kind();
  if (kind == Kind::submitted || kind == Kind::unseen) return;
  if (kind == Kind::memory && static_cast<When>(record.get<Memory>().when) != When::before) return;
  for (auto& pending : process.pending)
    if (pending->result().tid == record.header.tid) {
      pending->move();
      pending->settle_visible(process.image.now(), kind == Kind::submit);
    }
  emit_complete(process, record.header.tid);
}

void Replay::begin(const Record& record) {
  const auto data = record.get<struct capture::Process>();
  const std::uint32_t pid = record.header.pid;
  if (const auto old = processes_.find(pid); old != processes_.end()) close(*old->second);
  const auto parent = processes_.find(data.parent);
  const bool forked = static_cast<Begin>(data.begin) == Begin::forked && data.parent != pid &&
                      parent != processes_.end();
  auto begun =
      std::make_unique<Process>(forked ? parent->second->image.fork() : ProcessImage(budget_));
  begun->depth = static_cast<Depth>(data.depth);
  depth_ = std::max(depth_.value_or(Depth::submits), *begun->depth);
  processes_[pid] = std::move(begun);
}

void Replay::submit(const Record& record) {
  const auto data = record.get<Submit>();
  Process& process = this->process(record.header.pid);
  // A thread can wait for one only: of the one before nobody has told how it ended.
  std::vector<Open*> stale;
  for (auto& [id, open] : process.open)
    if (open->result.tid == record.header.tid || id == data.id) stale.push_back(open.get());
  if (process.open.size() >= most_open) stale.push_back(process.open.begin()->second.get());
  std::sort(stale.begin(), stale.end());
  stale.erase(std::unique(stale.begin(), stale.end()), stale.end());
  for (Open* open : stale) give_up(process, *open, "the capture does not say how it ended");

  auto open = std::make_unique<Open>(budget_);
  open->argument = data.argument;
  open->started = clock_;
  open->result.pid = record.header.pid;
  open->result.tid = record.header.tid;
  open->result.id = data.id;
  open->result.number = ++totals_.submits;
  open->result.core_mask = data.argument.core_mask;
  open->result.tasks = data.argument.task_number;
  process.image.watch(&open->moment);
  process.open[data.id] = std::move(open);
}

void Replay::task(const Record& record) {
  const auto data = record.get<Task>();
  Process& process = this->process(record.header.pid);
  const auto found = process.open.find(data.submit);
  if (found == process.open.end()) return;
  Open& open = *found->second;
  open.tasks[data.index].push_back(data);
  open.words.put(data.task.regcmd_addr, record.rest<Task>());
  open.moment.saved.clear();
  open.started = clock_;
}

void Replay::submitted(const Record& record) {
  const auto data = record.get<Submitted>();
  Process& process = this->process(record.header.pid);
  const auto found = process.open.find(data.id);
  if (found == process.open.end()) {
    if (process.chain_submits.erase(data.id) == 0) totals_.odd++;
    return;
  }
  Open& open = *found->second;
  if (data.result != 0)
    return give_up(process, open, fmt::format("the driver returned {}", data.result));
  run(process, open);
}

void Replay::buffer(const Record& record) {
  const auto data = record.get<Buffer>();
  Process& process = this->process(record.header.pid);
  for (const HeldBuffer* old : process.image.overlapping(data.iova, data.size))
    if (data.existed == 0 || old->iova != data.iova || old->size != data.size)
      gone(process, old->iova, old->size);
  if (!process.image.add(data)) totals_.odd++;
}

void Replay::destroyed(const Record& record) {
  const auto data = record.get<Destroyed>();
  Process& process = this->process(record.header.pid);
  const HeldBuffer* const buffer = process.image.by_handle(data.fd, data.handle);
  if (buffer == nullptr) return;
  gone(process, buffer->iova, buffer->size);
  process.image.remove(buffer->iova);
}

void Replay::gone(Process& process, std::uint64_t at, std::uint64_t len) {
  process.change(at, len);
}

void Replay::memory(const Record& record) {
  const auto data = record.get<Memory>();
  const auto bytes = record.rest<Memory>();
  Process& process = this->process(record.header.pid);
  const std::uint64_t at = data.iova + data.offset;
  if (at < data.iova || bytes.empty() || process.image.holding(at, bytes.size()) == nullptr) {
    totals_.odd++;
    return;
  }
  const When when = static_cast<When>(data.when);
  const View now = process.image.now();
  for (auto& pending : process.pending) {
    const bool own = pending->result().id == data.submit;
    if (when == When::before) {
      // Until its thread has gone on, it is its own memory that others see.
      if (pending->moved() || pending->result().tid == record.header.tid)
        pending->changed(now, at, bytes);
    } else if (when == When::synced) {
      pending->synced(at, bytes.size());
    } else if (own) {
      pending->reopen(at, bytes.size());
      if (data.stale == 0) pending->synced(at, bytes.size());
    }
  }
  // A stale view says nothing of what the device wrote.
  if (when != When::after || data.stale == 0) forget_changed(process, at, bytes);
  process.image.put(at, bytes);
  if (const auto open = process.open.find(data.submit);
      when == When::before && open != process.open.end()) {
    open->second->moment.saved.clear();
    open->second->started = clock_;
  }
}

/// Where the CPU's view of memory changes, what the device wrote there before is no more.
void Replay::forget_changed(Process& process, std::uint64_t at, std::span<const std::byte> bytes) {
  if (process.image.device().empty()) return;
  std::vector<std::byte> old(bytes.size());
  process.image.now().read(at, old);
  for (std::size_t i = 0; i < bytes.size(); i++) {
    const std::size_t from = i;
    while (i < bytes.size() && old[i] != bytes[i]) i++;
    if (i > from) process.image.device().forget(at + from, i - from);
  }
}

void Replay::sync(const Record& record) {
  const auto data = record.get<Sync>();
  Process& process = this->process(record.header.pid);
  if (observer_ != nullptr) observer_->synced(record.header.pid, from_device(data.flags));
  const HeldBuffer* const buffer = process.image.by_obj(data.obj);
  if (!from_device(data.flags) || buffer == nullptr || data.offset >= buffer->size) return;
  const std::uint64_t at = buffer->iova + data.offset;
  const std::uint64_t len = std::min(data.size, buffer->size - data.offset);
  for (auto& pending : process.pending) pending->synced(at, len);
  process.image.device().forget(at, len);
}

void Replay::unseen(const Record& record) {
  const auto data = record.get<Unseen>();
  Process& process = this->process(record.header.pid);
  const auto found = process.open.find(data.submit);
  if (found == process.open.end() || !found->second->unseen.empty()) return;
  const auto text = record.rest<Unseen>();
  std::string& to = found->second->unseen;
  for (const std::byte each : text.first(std::min<std::size_t>(text.size(), 200))) {
    const char c = static_cast<char>(each);
    to += c >= ' ' && c <= '~' ? c : '?';
  }
}

}  // namespace rkchain::capture

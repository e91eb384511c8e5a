// SPDX-License-Identifier: MIT
// Replay: a submit that has come back, on the software NPU.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "capture/replay.hpp"
#include "capture/replay_process.hpp"

namespace rkchain::capture {

namespace {

/// A core's part of a submit.
struct Part {
  std::uint32_t core = 0;
  rknpu_subcore_task range{};
};

/// As the stock driver reads its argument.
/// @param why set when it would never run
std::vector<Part> parts_of(const rknpu_submit& argument, std::string& why) {
  const std::uint32_t mask = argument.core_mask;
  const rknpu_subcore_task whole{argument.task_start, argument.task_number};
  const auto part = [&](std::uint32_t core, std::uint32_t place) {
    const rknpu_subcore_task& range = argument.subcore_task[place];
    // Alone, a core may be left to take all of them.
    return Part{core, range.task_number == 0 && mask != 3 && mask != 7 ? whole : range};
  };
  switch (mask) {
    case 0:
      return {part(0, 0)};
    case 1:
      return {part(0, 0)};
    case 2:
      return {part(1, 1)};
    case 4:
      return {part(2, 2)};
    case 3:
      return {part(0, 0), part(1, 1)};
    case 7:
      return {part(0, 2), part(1, 3), part(2, 4)};
    default:
      why = fmt::format("no core runs core mask {:#x}", mask);
      return {};
  }
}

std::string depth_text(std::optional<Depth> depth) {
  return depth && *depth == Depth::submits
             ? "its programs were not captured: the depth was submits, --depth everything is needed"
             : "its programs were not captured";
}

/// The recogniser's words for what it refuses.
std::string refusal(const Fetched& program, const rkc_err& err) {
  std::string text =
      fmt::format("program at {:#010x}: {}", program.iova, rkc_reason_text(err.reason));
  if (err.word != RKC_NO_WORD) text += fmt::format(", word {}", err.word);
  if (err.reg != 0) text += fmt::format(", register {:#06x}", err.reg);
  return text;
}

/// The matmuls of what was fetched for one task.
/// @return why not, empty when all are understood
std::string recognise(const Fetched& program, std::uint32_t body, bool link,
                      std::vector<rkc_matmul>& blocks) {
  static thread_local rkc_recogniser scratch{};
  const u32 total = static_cast<u32>(
      std::min<std::uint64_t>(program.words.size(), std::uint64_t{body} + RKC_TAIL_WORDS));
  rkc_err err{};
  rkc_program shape{};
  const u32 mode = rkc_program_detect(program.words.data(), total, &shape);
  if ((mode == RKC_WAIT || mode == RKC_WAIT41) && shape.count > 1) {
    for (u32 i = 0; i < shape.count; i++) {
      rkc_matmul matmul{};
      if (rkc_program_block(&scratch, &shape, i, &matmul, &err) != RKC_OK)
        return fmt::format("block {} of the {}", i, refusal(program, err));
      blocks.push_back(matmul);
    }
    return "";
  }
  if (body > RKC_BODY_MAX || total < body)
    return fmt::format("program at {:#010x}: {} words are not one matmul", program.iova, body);
  rkc_matmul matmul{};
  if (rkc_recognise(&scratch, program.words.data(), body, total, link, &matmul, &err) != RKC_OK)
    return refusal(program, err);
  blocks.push_back(matmul);
  return "";
}

using Results = std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>>;

/// Adds contiguous bytes, in pieces of one element size each.
void add_pieces(std::vector<Replay::Output>& ranges, const Results& results, std::uint64_t at,
                std::uint64_t end, const ProcessImage& image) {
  while (at < end) {
    const auto after = results.upper_bound(at);
    std::uint64_t stop = after == results.end() ? end : std::min(end, after->first);
    std::uint32_t element = 1;
    if (after != results.begin() && at < std::prev(after)->second.first) {
      element = std::prev(after)->second.second;
      stop = std::min(stop, std::prev(after)->second.first);
    }
    if (const HeldBuffer* const buffer = image.holding(at, 1))
      stop = std::min(stop, buffer->iova + buffer->size);
    if (!ranges.empty() && ranges.back().at + ranges.back().len == at &&
        ranges.back().element == element &&
        image.holding(ranges.back().at, stop - ranges.back().at))
      ranges.back().len += stop - at;
    else
      ranges.push_back({at, stop - at, element});
    at = stop;
  }
}

/// What was written, in as few pieces as there are.
std::vector<Replay::Output> output_ranges(const Pages& outputs,
                                          const std::vector<rkc_matmul>& blocks,
                                          const ProcessImage& image) {
  Results results;
  for (const rkc_matmul& block : blocks) {
    rkc_extents extents{};
    rkc_matmul_extents(&block, &extents);
    results[extents.c.start] = {extents.c.start + extents.c.len, rkc_out_bytes(block.type)};
  }
  std::vector<Replay::Output> ranges;
  outputs.each_run([&](std::uint64_t at, std::span<const std::byte> bytes) {
    add_pieces(ranges, results, at, at + bytes.size(), image);
  });
  return ranges;
}

}  // namespace

void Replay::give_up(Process& process, Open& open, const std::string& why) {
  open.result.why = why;
  if (observer_ != nullptr) observer_->passed_over(open.result);
  emit(open.result);
  process.image.unwatch(&open.moment);
  process.open.erase(open.result.id);
}

/// Tasks of a part, as they were captured.
std::string Replay::work_of(const Open& open, const rknpu_subcore_task& range, NpuWork& work) {
  work.pingpong = (open.argument.flags & RKNPU_JOB_PINGPONG) != 0;
  for (std::uint64_t i = 0; i < range.task_number; i++) {
    const std::uint64_t index = range.task_start + i;
    const auto found = open.tasks.find(index);
    if (found == open.tasks.end()) return fmt::format("task {} was not captured", index);
    const auto& same = found->second;
    const auto own = std::find_if(same.begin(), same.end(),
                                  [&](const Task& task) { return task.core == work.core; });
    const rknpu_task& task = own == same.end() ? same.front().task : own->task;
    const std::uint64_t regcmd = task.regcmd_addr;
    if (regcmd > 0xffffffff)
      return fmt::format("task {}: its program is at {:#x}, above 4 GiB", index, regcmd);
    work.tasks.push_back({static_cast<std::uint32_t>(regcmd), task.regcfg_amount, task.int_mask});
  }
  return "";
}

std::string Replay::run_parts(Open& open, NpuMemory& memory, Replayed& replayed) {
  std::string why;
  if (open.argument.task_base_addr != 0)
    return fmt::format("task_base_addr is {:#x}, which moves every address",
                       open.argument.task_base_addr);
  const auto parts = parts_of(open.argument, why);
  open.result.tasks = 0;
  for (const Part& part : parts) open.result.tasks += part.range.task_number;
  for (const Part& part : parts) {
    NpuWork work;
    work.core = part.core;
    if (why.empty()) why = work_of(open, part.range, work);
    if (!why.empty() || work.tasks.empty()) continue;
    const NpuResult done = npu_.run(work, memory);
    why = done.trouble;
    open.result.blocks += done.blocks;
    replayed.interrupts += done.interrupts;
    for (std::size_t i = 0; i < done.programs.size() && i < work.tasks.size(); i++) {
      const std::string refused = recognise(done.programs[i], work.tasks[i].regcfg_amount,
                                            work.tasks.size() > 1, replayed.blocks);
      if (replayed.unknown.empty()) replayed.unknown = refused;
    }
  }
  return why;
}

void Replay::run(Process& process, Open& open) {
  if (open.tasks.empty())
    return give_up(process, open, open.unseen.empty() ? depth_text(process.depth) : open.unseen);
  Pages outputs(budget_);
  Replayed replayed;
  replayed.before = process.image.at(open.moment);
  replayed.before.over.insert(replayed.before.over.begin(), &open.words);
  NpuMemory memory{replayed.before, &outputs, [&](std::uint64_t at, std::uint64_t len) {
                     return process.image.holding(at, len) != nullptr;
                   }};
  memory.view.over.insert(memory.view.over.begin(), &outputs);
  std::string why = run_parts(open, memory, replayed);
  if (!why.empty()) {
    const bool shallow = process.depth && *process.depth != Depth::everything;
    if (shallow) why += " (--depth everything captures memory)";
    if (!open.unseen.empty()) why += fmt::format(" ({})", open.unseen);
    return give_up(process, open, why);
  }
  totals_.replayed++;
  const auto ranges = output_ranges(outputs, replayed.blocks, process.image);
  for (const Output& range : ranges) overwritten(process, open, range.at, range.len);
  replayed.result = &open.result;
  replayed.image = &process.image;
  replayed.outputs = &outputs;
  if (observer_ != nullptr) observer_->replayed(replayed);
  add_pending(process, open, outputs, ranges);
  process.image.unwatch(&open.moment);
  process.open.erase(open.result.id);
}

/// Earlier outputs that this submit wrote over are what it found there.
void Replay::overwritten(Process& process, const Open& open, std::uint64_t at, std::uint64_t len) {
  for (auto& pending : process.pending) {
    if (pending->ended() < open.started)
      pending->settle(process.image.at_cpu(open.moment), at, len, true);
    else
      pending->raced(at, len);
  }
}

void Replay::add_pending(Process& process, Open& open, const Pages& outputs,
                         const std::vector<Output>& ranges) {
  auto pending = std::make_unique<Pending>(open.result, open.started, clock_);
  const bool unsure = (open.argument.flags & RKNPU_JOB_NONBLOCK) != 0;
  const View view{{&outputs}, nullptr, nullptr};
  pending->written().reserve(ranges.size());
  for (const Output& range : ranges) {
    Written& written = pending->written().emplace_back(budget_, range.at, range.len);
    const HeldBuffer* const buffer = process.image.holding(range.at, 1);
    written.buffer = buffer != nullptr ? buffer->iova : 0;
    written.element = range.element;
    written.stale = unsure || (buffer != nullptr && (buffer->flags & RKNPU_MEM_CACHEABLE) != 0);
    view.read(range.at, written.model);
    if (written.stale)
      process.image.device().put(range.at, written.model);
    else
      process.image.device().forget(range.at, range.len);
  }
  for (const auto& other : process.pending)
    if (other->ended() >= open.started)
      for (const Written& theirs : other->written()) pending->raced(theirs.at, theirs.model.size());
  process.pending.push_back(std::move(pending));
}

}  // namespace rkchain::capture

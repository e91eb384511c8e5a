// SPDX-License-Identifier: MIT
#include "capture/to_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kmod/core/check.h"

namespace rkchain::capture {

namespace {

constexpr std::uint32_t int_matmul = NPU_INT_DPU_0 | NPU_INT_DPU_1;
constexpr std::uint64_t space_end = 1ULL << 32;

bool overlap(const rkc_extent& x, const rkc_extent& y) {
  return x.start < y.start + y.len && y.start < x.start + x.len;
}

rkc_extents extents_of(const rkc_matmul& block) {
  rkc_extents extents{};
  rkc_matmul_extents(&block, &extents);
  return extents;
}

/// Would it matter which of the two comes first?
bool in_conflict(const rkc_matmul& x, const rkc_matmul& y) {
  const rkc_extents p = extents_of(x), q = extents_of(y);
  return overlap(p.c, q.a) || overlap(p.c, q.b) || overlap(p.c, q.c) || overlap(q.c, p.a) ||
         overlap(q.c, p.b);
}

}  // namespace

/// A chain that is being gathered.
struct ToChain::Group {
  explicit Group(const std::shared_ptr<Budget>& budget) : inputs(budget), expected(budget) {}

  /// @return why it does not go into this chain; then the group is as it was.
  std::string add(const Replayed& submit);

  std::vector<rkc_matmul> blocks;
  std::map<std::uint64_t, rkc_buf> buffers;  ///< by address
  Pages inputs;                              ///< what the chain finds
  Pages expected;                            ///< what the captured programs wrote
  std::uint64_t submits = 0;

 private:
  static std::string declare(std::map<std::uint64_t, rkc_buf>& to, const Replayed& submit,
                             const rkc_extent& extent, std::uint32_t flags);
  static std::string check(const std::vector<rkc_matmul>& all, std::size_t first,
                           const std::map<std::uint64_t, rkc_buf>& declared);
  bool load(const Replayed& submit, const Pages& done, const rkc_extent& extent,
            Pages& loads) const;
};

std::string ToChain::Group::declare(std::map<std::uint64_t, rkc_buf>& to, const Replayed& submit,
                                    const rkc_extent& extent, std::uint32_t flags) {
  const HeldBuffer* const held = submit.image->holding(extent.start, 1);
  if (held == nullptr) return "no buffer is known at an address that it uses";
  const auto [it, made] = to.try_emplace(held->iova, rkc_buf{held->iova, held->size, 0, 0});
  if (it->second.size != held->size) return "a buffer was exchanged in between";
  it->second.flags |= flags;
  return "";
}

/// Are the new blocks, from @p first on, legal behind the others?  Those before them are.
std::string ToChain::Group::check(const std::vector<rkc_matmul>& all, std::size_t first,
                                  const std::map<std::uint64_t, rkc_buf>& declared) {
  if (all.size() > RKC_WAIT_MAX) return fmt::format("a chain has at most {} blocks", RKC_WAIT_MAX);
  std::vector<rkc_buf> bufs;
  for (const auto& [iova, buffer] : declared) bufs.push_back(buffer);
  const u32 count = static_cast<u32>(bufs.size());
  rkc_err err{};
  u32 ret = rkc_bufs_check(bufs.data(), count, &err);
  for (std::size_t i = first; i < all.size() && ret == RKC_OK; i++) {
    // The checker asks of earlier blocks only whether this one reads what they wrote.
    const rkc_extents extents = extents_of(all[i]);
    std::vector<rkc_matmul> those;
    for (std::size_t j = 0; j < i; j++) {
      const rkc_extent written = extents_of(all[j]).c;
      if (overlap(written, extents.a) || overlap(written, extents.b)) those.push_back(all[j]);
    }
    those.push_back(all[i]);
    rkc_checked checked{};
    ret = rkc_chain_check(those.data(), static_cast<u32>(those.size()), bufs.data(), count, true,
                          &checked, &err);
  }
  return ret == RKC_OK ? "" : fmt::format("the checker: {}", rkc_reason_text(ret));
}

/// Takes what a block reads, unless blocks before it in the chain write that.
/// @return false when one chain cannot find both that and what earlier blocks read or wrote.
bool ToChain::Group::load(const Replayed& submit, const Pages& done, const rkc_extent& extent,
                          Pages& loads) const {
  std::vector<std::byte> bytes(extent.len), had(extent.len);
  std::vector<std::uint8_t> known(extent.len), made(extent.len), before(extent.len);
  submit.before.read(extent.start, bytes, known);
  View{{&done}, nullptr, nullptr}.read(extent.start, had, made);
  View{{&expected, &loads}, nullptr, &inputs}.read(extent.start, had, before);
  const auto wanted = [&](std::size_t i) { return known[i] != 0 && made[i] == 0; };
  for (std::size_t i = 0; i < bytes.size(); i++)
    if (wanted(i) && before[i] != 0 && had[i] != bytes[i]) return false;
  for (std::size_t i = 0, to = 0; i < bytes.size(); i = to + 1) {
    for (to = i; to < bytes.size() && wanted(to) && before[to] == 0;) to++;
    if (to > i) loads.put(extent.start + i, std::span(bytes).subspan(i, to - i));
  }
  return true;
}

std::string ToChain::Group::add(const Replayed& submit) {
  auto all = blocks;
  auto declared = buffers;
  all.insert(all.end(), submit.blocks.begin(), submit.blocks.end());
  Pages done(inputs.budget()), loads(inputs.budget());
  for (const rkc_matmul& block : submit.blocks) {
    const rkc_extents extents = extents_of(block);
    for (const auto& [extent, flags] :
         {std::pair(extents.a, RKC_BUF_READ), std::pair(extents.b, RKC_BUF_READ),
          std::pair(extents.c, RKC_BUF_WRITE)})
      if (std::string why = declare(declared, submit, extent, flags); !why.empty()) return why;
    if (!load(submit, done, extents.a, loads) || !load(submit, done, extents.b, loads))
      return "the program changed what a block reads";
    std::vector<std::byte> bytes(extents.c.len);
    std::vector<std::uint8_t> known(extents.c.len);
    View{{submit.outputs}, nullptr, nullptr}.read(extents.c.start, bytes, known);
    for (std::size_t i = 0, end = 0; i < bytes.size(); i = end + 1) {
      for (end = i; end < bytes.size() && known[end] != 0;) end++;
      if (end > i) done.put(extents.c.start + i, std::span(bytes).subspan(i, end - i));
    }
  }
  if (std::string why = check(all, blocks.size(), declared); !why.empty()) return why;
  blocks = std::move(all);
  buffers = std::move(declared);
  loads.each_run([&](auto at, auto bytes) { inputs.put(at, bytes); });
  submit.outputs->each_run([&](auto at, auto bytes) { expected.put(at, bytes); });
  submits++;
  return "";
}

ToChain::ToChain() = default;
ToChain::~ToChain() = default;

void ToChain::use(Replay& replay) { replay_ = &replay; }

void ToChain::leave(const SubmitResult& submit, const std::string& why) {
  // What it read or wrote is not known: nothing is gathered across it.
  end_process(submit.pid, "a submit that was left alone");
  report_.left.push_back({submit.pid, submit.id, submit.number, why});
  const std::uint64_t cores = std::max(1, std::popcount(submit.core_mask & 7));
  for (ChainCounts* counts : {&report_.captured, &report_.ours}) {
    counts->submits++;
    counts->tasks += submit.tasks;
    counts->interrupts += cores;
  }
}

void ToChain::passed_over(const SubmitResult& submit) { leave(submit, submit.why); }

void ToChain::replayed(const Replayed& submit) {
  const SubmitResult& result = *submit.result;
  if (!submit.unknown.empty()) return leave(result, submit.unknown);
  const Key key{result.pid, result.tid};
  std::vector<Key> others;
  for (const auto& [other, group] : groups_)
    if (other.first == key.first && other != key)
      for (const rkc_matmul& theirs : group->blocks)
        if (std::any_of(submit.blocks.begin(), submit.blocks.end(),
                        [&](const auto& ours) { return in_conflict(theirs, ours); })) {
          others.push_back(other);
          break;
        }
  for (const Key& other : others) end(other, "another thread used the same memory");

  auto& group = groups_[key];
  std::string why = "";
  if (group && !(why = group->add(submit)).empty()) end(key, why);
  if (!groups_[key]) {
    auto begun = std::make_unique<Group>(replay_->budget());
    if (why = begun->add(submit); !why.empty()) {
      groups_.erase(key);
      return leave(result, why);
    }
    groups_[key] = std::move(begun);
  }
  report_.taken_over++;
  report_.captured.submits++;
  report_.captured.tasks += result.tasks;
  report_.captured.interrupts += submit.interrupts;
}

void ToChain::synced(std::uint32_t pid, bool from_device) {
  syncs_++;
  if (from_device) end_process(pid, "the program looked at results (MEM_SYNC)");
}

void ToChain::end(Key key, const std::string& why) {
  const auto found = groups_.find(key);
  if (found == groups_.end()) return;
  const auto group = std::move(found->second);
  groups_.erase(found);
  if (!group) return;
  report_.ends[why]++;
  report_.chains++;
  report_.blocks += group->blocks.size();
  report_.longest = std::max<std::uint64_t>(report_.longest, group->blocks.size());
  report_.ours.submits++;
  report_.ours.tasks++;
  report_.ours.interrupts++;
  report_.ours.calls += 2;
  run(*group);
}

void ToChain::end_process(std::uint32_t pid, const std::string& why) {
  std::vector<Key> all;
  for (const auto& [key, group] : groups_)
    if (key.first == pid) all.push_back(key);
  for (const Key& key : all) end(key, why);
}

void ToChain::run(Group& group) {
  rkc_measure measure{};
  const u32 count = static_cast<u32>(group.blocks.size());
  rkc_chain_measure(RKC_WAIT, count, &measure, nullptr);
  const std::uint64_t bytes = std::uint64_t{measure.words} * 8;
  std::uint64_t iova = page_bytes;
  for (const auto& [start, buffer] : group.buffers)
    if (iova + bytes > start)
      iova = std::max(iova, (start + buffer.size + page_bytes - 1) / page_bytes * page_bytes);
  const auto fail = [&](const std::string& why) {
    if (report_.first.empty()) report_.first = why;
    group.expected.each_run([&](auto, auto run) { report_.bytes += run.size(); });
  };
  if (iova + bytes > space_end) return fail("no room for a chain's program below 4 GiB");

  std::vector<rkc_buf> bufs;
  for (const auto& [start, buffer] : group.buffers) bufs.push_back(buffer);
  rkc_err err{};
  rkc_checked checked{};
  if (const u32 ret = rkc_chain_check(group.blocks.data(), count, bufs.data(),
                                      static_cast<u32>(bufs.size()), true, &checked, &err);
      ret != RKC_OK)
    return fail(rkc_reason_text(ret));
  std::vector<u64> words(measure.words);
  if (const u32 ret =
          rkc_chain_emit(RKC_WAIT, group.blocks.data(), count, iova, words.data(), &err);
      ret != RKC_OK)
    return fail(rkc_reason_text(ret));
  Pages program(replay_->budget()), outputs(replay_->budget());
  program.put(iova, std::as_bytes(std::span(words)));
  NpuMemory memory{{{&outputs, &program}, nullptr, &group.inputs},
                   &outputs,
                   [&](std::uint64_t at, std::uint64_t len) {
                     const auto after = group.buffers.upper_bound(at);
                     if (after == group.buffers.begin()) return false;
                     const rkc_buf& buffer = std::prev(after)->second;
                     return at - buffer.iova < buffer.size &&
                            len <= buffer.size - (at - buffer.iova);
                   }};
  const NpuWork work{
      0, {{static_cast<std::uint32_t>(iova), measure.regcfg_amount, int_matmul}}, false};
  const NpuResult done = replay_->npu().run(work, memory);
  if (!done.trouble.empty()) return fail(fmt::format("a chain of {}: {}", count, done.trouble));
  compare(group, outputs);
}

void ToChain::compare(const Group& group, const Pages& outputs) {
  const View view{{&outputs}, nullptr, nullptr};
  group.expected.each_run([&](std::uint64_t at, std::span<const std::byte> want) {
    std::vector<std::byte> have(want.size());
    std::vector<std::uint8_t> known(want.size());
    view.read(at, have, known);
    report_.bytes += want.size();
    for (std::size_t i = 0; i < want.size(); i++) {
      const bool equal = known[i] != 0 && have[i] == want[i];
      report_.equal += equal ? 1 : 0;
      if (!equal && report_.first.empty())
        report_.first =
            fmt::format("address {:#010x}: the chain wrote {:#04x}, the captured programs {:#04x}",
                        at + i, static_cast<unsigned>(have[i]), static_cast<unsigned>(want[i]));
    }
  });
}

ChainReport ToChain::finish() {
  while (!groups_.empty()) end(groups_.begin()->first, "the capture ends");
  report_.captured.calls = report_.captured.submits + syncs_;
  // The module looks after caches itself; the stock driver's programs do not.
  report_.ours.calls += report_.left.empty() ? 0 : report_.left.size() + syncs_;
  return std::move(report_);
}

}  // namespace rkchain::capture

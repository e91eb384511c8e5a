// SPDX-License-Identifier: MIT
// Chain::build(): from matmuls to registered segments.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>

#include "buffer.hpp"
#include "chain.hpp"
#include "format.hpp"
#include "kmod/core/chain.h"
#include "rkchain/error.hpp"

namespace rkchain {
namespace {

using detail::Arena;
using detail::Item;
using detail::kArenas;
using detail::PlannedBlock;

struct Block {
  PlannedBlock planned;
  std::uint32_t item = 0;
  std::uint32_t level = 0;
};

constexpr std::size_t index(Arena arena) noexcept { return static_cast<std::size_t>(arena); }

/// Gives every item its arena and place.  @return bytes of each arena.
std::array<std::uint64_t, kArenas> place(std::vector<Item>& items, Layout layout) {
  std::array<std::uint64_t, kArenas> sizes{};
  for (Item& item : items) {
    if (item.is_result()) {
      item.arena = item.fed_on ? Arena::between : Arena::results;
      item.bytes = item.plan.output_bytes;
    } else {
      item.arena = Arena::inputs;
      item.bytes = detail::operand_bytes("input", layout, item.shape.m, item.shape.k,
                                         input_bytes(item.type));
    }
    std::uint64_t& size = sizes[index(item.arena)];
    item.offset = size;
    size += detail::round_up(item.bytes, detail::kTensorAlign);
    if (size >= detail::kDeviceBytes) {
      throw Error(Errc::out_of_memory,
                  fmt::format("build: operands and results of the chain do not fit into the {} "
                              "bytes that the NPU addresses",
                              detail::kDeviceBytes));
    }
  }
  return sizes;
}

/// What a segment does to buffers.
class Uses {
 public:
  void add(const Buffer& buffer, bool write, bool sync) {
    const std::uint64_t id = buffer.impl()->memory.id;
    BufferUse& use = uses_[id];
    use.id = id;
    (write ? use.write : use.read) = true;
    use.sync = use.sync || sync;
  }

  [[nodiscard]] std::vector<BufferUse> list() const {
    std::vector<BufferUse> all;
    all.reserve(uses_.size());
    for (const auto& [id, use] : uses_) all.push_back(use);
    return all;
  }

 private:
  std::map<std::uint64_t, BufferUse> uses_;
};

/// Planning, without memory.
class Builder {
 public:
  Builder(const Chain::Impl& chain, std::vector<Item>& items)
      : chain_(chain),
        items_(items),
        pinned_(chain.options.strategy != Strategy::rotate),
        lanes_(pinned_ ? count_lanes(chain.device.info()) : 1) {}

  void plan() {
    const bool split = chain_.options.strategy == Strategy::split;
    std::uint32_t lane = 0;
    for (Item& item : items_) {
      if (!item.is_result()) continue;
      item.plan = detail::plan_matmul(
          {item.type, chain_.options.layout, item.shape, split ? lanes_ : 1, lane, item.fed_on});
      lane = item.plan.next_lane;
    }
  }

  /// The tasks in the order in which they are queued, cut into segments' lengths.
  void lay_out(const std::array<Buffer, kArenas>& arenas) {
    const bool deal = chain_.options.strategy == Strategy::fan_out;
    std::vector<PlannedBlock> tasks;
    std::uint32_t dealt = 0;
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (!item.is_result()) continue;
      tasks.clear();
      detail::append_tasks(item.plan,
                           {address(arenas, items_[item.source]), item.weights->buffer.iova(),
                            address(arenas, item)},
                           tasks);
      for (PlannedBlock& task : tasks) {
        if (deal) task.lane = dealt++ % lanes_;
        blocks_.push_back({task, i, pinned_ ? item.level : 0});
      }
    }
    if (pinned_) {
      std::stable_sort(blocks_.begin(), blocks_.end(), [](const Block& x, const Block& y) {
        return std::tie(x.level, x.planned.lane) < std::tie(y.level, y.planned.lane);
      });
    }
    const bool dependent =
        std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.fed_on; });
    for (std::size_t begin = 0; begin < blocks_.size();) {
      std::size_t end = begin;
      while (end < blocks_.size() && blocks_[end].level == blocks_[begin].level &&
             blocks_[end].planned.lane == blocks_[begin].planned.lane) {
        ++end;
      }
      const auto cuts = detail::cut(static_cast<std::uint32_t>(end - begin), 1, RKC_WAIT_MAX);
      for (std::uint32_t i = 0; i < cuts.size(); ++i) {
        // Without lanes, each segment may need anything that the one before it has computed.
        const std::uint32_t level = pinned_     ? blocks_[begin].level
                                    : dependent ? i
                                                : blocks_[begin].level;
        parts_.push_back({begin + cuts[i].begin, cuts[i].size, level});
      }
      begin = end;
    }
  }

  std::vector<detail::Segment> register_all(const std::array<Buffer, kArenas>& arenas) const {
    std::vector<detail::Segment> segments;
    segments.reserve(parts_.size());
    std::vector<std::uint64_t> words;
    for (const Part& part : parts_) {
      rkc_measure measure{};
      rkc_chain_measure(RKC_WAIT, part.count, &measure, nullptr);
      words.resize(measure.words);
      Uses uses;
      const std::span blocks(&blocks_[part.begin], part.count);
      std::uint32_t last = kNone;
      for (std::uint32_t i = 0; i < part.count; ++i) {
        rkc_chain_append(words.data(), i, &blocks[i].planned.task);
        if (blocks[i].item == last) continue;
        last = blocks[i].item;
        const Item& item = items_[last];
        uses.add(item.weights->buffer, false, false);
        uses.add(arenas[index(items_[item.source].arena)], false, true);
        uses.add(arenas[index(item.arena)], true, true);
      }
      ChainProgram program;
      program.words = words;
      program.count = part.count;
      segments.push_back(
          {detail::RegisteredChain(chain_.device.share(), program, uses.list()), part.level,
           blocks.front().planned.lane,
           fmt::format("segment {} of {} ({} blocks of matmuls {} to {})", segments.size() + 1,
                       parts_.size(), part.count, items_[blocks.front().item].matmul,
                       items_[blocks.back().item].matmul)});
    }
    return segments;
  }

  [[nodiscard]] ChainPlan summary(std::uint64_t bytes) const {
    const auto mode = static_cast<u32>(chain_.device.info().mode);
    ChainPlan plan;
    plan.matmuls = chain_.matmuls;
    plan.blocks = static_cast<std::uint32_t>(blocks_.size());
    plan.segments = static_cast<std::uint32_t>(parts_.size());
    for (const Part& part : parts_) {
      rkc_measure measure{};
      rkc_chain_measure(mode, part.count, &measure, nullptr);
      plan.submits += measure.submits;
    }
    for (const Block& block : blocks_) {
      const rkc_matmul& task = block.planned.task;
      plan.macs += std::uint64_t{task.m} * task.k * task.n;
    }
    plan.device_bytes = bytes;
    return plan;
  }

  [[nodiscard]] bool pinned() const noexcept { return pinned_; }

 private:
  struct Part {
    std::size_t begin = 0;
    std::uint32_t count = 0;
    std::uint32_t level = 0;
  };
  static constexpr std::uint32_t kNone = 0xffffffffU;

  static std::uint32_t count_lanes(const DeviceInfo& info) {
    return std::max(1U, static_cast<std::uint32_t>(std::popcount(info.usable_mask)));
  }

  static std::uint32_t address(const std::array<Buffer, kArenas>& arenas, const Item& item) {
    return static_cast<std::uint32_t>(arenas[index(item.arena)].iova() + item.offset);
  }

  const Chain::Impl& chain_;
  std::vector<Item>& items_;
  const bool pinned_;
  const std::uint32_t lanes_;
  std::vector<Block> blocks_;
  std::vector<Part> parts_;
};

}  // namespace

void Chain::Impl::build() {
  if (built) throw Error(Errc::busy, "build: the chain has been built already");
  if (matmuls == 0) throw Error(Errc::invalid_argument, "build: no matmul has been appended");

  // Nothing of the chain changes before all of this has succeeded.
  std::vector<Item> placed = items;
  Builder builder(*this, placed);
  builder.plan();
  const auto sizes = place(placed, options.layout);
  std::array<Buffer, kArenas> memory;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < kArenas; ++i) {
    if (sizes[i] != 0) memory[i] = device.allocate(sizes[i]);
    bytes += sizes[i];
  }
  builder.lay_out(memory);
  auto registered = builder.register_all(memory);
  plan = builder.summary(bytes);
  items = std::move(placed);
  arenas = std::move(memory);
  segments = std::move(registered);
  pinned = builder.pinned();
  built = true;
}

}  // namespace rkchain

// SPDX-License-Identifier: MIT
#include "capture/shim/mappings.hpp"

#include <algorithm>

#include "capture/shim/journal.hpp"

namespace rkchain::capture::shim {
namespace {

constexpr std::size_t max_mappings = 4096;

struct Range {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

constinit Range ranges[max_mappings];
constinit std::atomic<std::size_t> count = 0;
constinit bool told_full = false;

void add(Range range) noexcept {
  const std::size_t at = count.load(std::memory_order_relaxed);
  if (at < max_mappings) {
    ranges[at] = range;
    count.store(at + 1, std::memory_order_relaxed);
    return;
  }
  if (!told_full) unseen(Missing::table_full, 0, range.start, "more mappings than are followed");
  told_full = true;
}

}  // namespace

bool any_mapping() noexcept { return count.load(std::memory_order_relaxed) != 0; }

void add_mapping(const Mapped& mapped) noexcept {
  const Guard guard;
  record(Kind::mapped, mapped);
  add({mapped.address, mapped.address + mapped.size});
}

void remove_mappings(std::uint64_t address, std::uint64_t size) noexcept {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t end = address + (size + page - 1) / page * page;
  const Guard guard;
  for (std::size_t i = 0; i < count.load(std::memory_order_relaxed); i++) {
    const Range range = ranges[i];
    const std::uint64_t from = std::max(range.start, address), to = std::min(range.end, end);
    if (from >= to) continue;
    Unmapped fixed{};
    fixed.address = from;
    fixed.size = to - from;
    record(Kind::unmapped, fixed);
    if (from > range.start && to < range.end) {
      ranges[i].end = from;
      add({to, range.end});
    } else if (from > range.start) {
      ranges[i].end = from;
    } else if (to < range.end) {
      ranges[i].start = to;
    } else {
      const std::size_t last = count.load(std::memory_order_relaxed) - 1;
      ranges[i] = ranges[last];
      count.store(last, std::memory_order_relaxed);
      i--;
    }
  }
}

void forget_mappings() noexcept { count.store(0, std::memory_order_relaxed); }

}  // namespace rkchain::capture::shim

// SPDX-License-Identifier: MIT
// From core to core, and how many submits are outstanding on each.
#include <algorithm>
#include <set>

#include "capture/report.hpp"

namespace rkchain::capture {

std::string_view name(Form form) noexcept {
  switch (form) {
    case Form::single:
      return "single program";
    case Form::wait:
      return "wait chain";
    case Form::wait41:
      return "wait41 chain";
    case Form::link:
      return "link chain";
    case Form::several:
      return "programs that do not name each other";
    case Form::mixed:
      return "tasks of several forms";
    case Form::unknown:
      break;
  }
  return "no layout that is known here";
}

// ---- order -------------------------------------------------------------------

void Order::add(std::uint32_t core) {
  if (last_) {
    steps++;
    if (*last_ != core) changes++;
    transitions.add({*last_, core}, ReportLimits::core_masks * ReportLimits::core_masks);
  }
  if (last_ != core) {
    runs++;
    run_ = 0;
  }
  run_++;
  last_ = core;
  if (run_ > longest) {
    longest = run_;
    longest_core = core;
  }
}

double Order::mean_run() const {
  return runs == 0 ? 0 : static_cast<double>(steps + 1) / static_cast<double>(runs);
}

Order::Circle Order::circle() const {
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint64_t>> next;
  std::set<std::uint32_t> cores;
  for (const auto& [pair, count] : transitions.of) {
    cores.insert({pair.first, pair.second});
    auto& best = next[pair.first];
    if (pair.first != pair.second && count > best.second) best = {pair.second, count};
  }
  Circle circle;
  if (cores.size() < 2) return circle;
  std::uint64_t follow = 0;
  std::uint32_t at = *cores.begin();
  do {
    circle.cores.push_back(at);
    const auto found = next.find(at);
    if (found == next.end() || found->second.second == 0) return {};
    follow += found->second.second;
    at = found->second.first;
  } while (at != *cores.begin() && circle.cores.size() < cores.size());
  if (at != *cores.begin() || circle.cores.size() != cores.size()) return {};
  circle.share = static_cast<double>(follow) / static_cast<double>(steps);
  return circle;
}

// ---- depth -------------------------------------------------------------------

void QueueDepth::until(std::uint64_t time_ns) {
  if (time_ns <= changed_ns) return;
  const std::uint64_t ns = time_ns - changed_ns;
  ns_at[std::min<std::uint64_t>(now, levels - 1)] += ns;
  weighted += static_cast<double>(now) * static_cast<double>(ns);
  changed_ns = time_ns;
}

std::uint64_t QueueDepth::span_ns() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t ns : ns_at) sum += ns;
  return sum;
}

double QueueDepth::mean() const {
  const std::uint64_t span = span_ns();
  return span == 0 ? 0 : weighted / static_cast<double>(span);
}

}  // namespace rkchain::capture

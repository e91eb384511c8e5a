// SPDX-License-Identifier: MIT
// The tables of rkchain report.
#include <algorithm>

#include "capture/svg.hpp"
#include "kmod/core/reason.h"
#include "kmod/core/regs.h"
#include "tools/captures.hpp"

namespace rkchain::tool {
namespace {

using namespace capture;
using Rows = std::vector<std::vector<std::string>>;

std::string percent(double part, double whole) {
  return whole == 0 ? "-" : fmt::format("{:.1f} %", 100 * part / whole);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return percent(static_cast<double>(part), static_cast<double>(whole));
}

void add_table(std::string& text, std::string_view head, const Rows& rows) {
  text += fmt::format("\n{}\n{}", head, table(rows));
}

/// By count, the largest first.
template <typename Key>
std::vector<std::pair<Key, std::uint64_t>> by_count(const Counts<Key>& counts) {
  std::vector<std::pair<Key, std::uint64_t>> rows(counts.of.begin(), counts.of.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return rows;
}

void add_cores(std::string& text, const Stats& stats) {
  Rows rows{{"core mask", "submits", "share", "tasks", "failed"}};
  for (const auto& [core, row] : stats.cores)
    rows.push_back({core_text(core), std::to_string(row.submits),
                    percent(row.submits, stats.submits), std::to_string(row.tasks),
                    std::to_string(row.failed)});
  if (stats.other_cores.submits != 0)
    rows.push_back({"others", std::to_string(stats.other_cores.submits),
                    percent(stats.other_cores.submits, stats.submits),
                    std::to_string(stats.other_cores.tasks),
                    std::to_string(stats.other_cores.failed)});
  add_table(text,
            fmt::format("Submits per core mask: {} submits, {} tasks", stats.submits, stats.tasks),
            rows);
}

void add_tasks(std::string& text, const Stats& stats) {
  if (stats.submits == 0) return;
  Rows rows{{"tasks per submit", "submits", "share"}};
  constexpr std::size_t most = 40;
  std::uint64_t others = stats.tasks_per_submit.others;
  for (const auto& [tasks, count] : by_count(stats.tasks_per_submit)) {
    if (rows.size() > most)
      others += count;
    else
      rows.push_back({std::to_string(tasks), std::to_string(count), percent(count, stats.submits)});
  }
  if (others != 0)
    rows.push_back({"others", std::to_string(others), percent(others, stats.submits)});
  add_table(text, "Tasks per submit", rows);
}

std::string circle_text(const Order& order) {
  const Order::Circle circle = order.circle();
  if (circle.cores.empty()) return "Round robin: no";
  std::string cores;
  for (const std::uint32_t core : circle.cores)
    cores += fmt::format("{}{:#x}", cores.empty() ? "" : " > ", core);
  const std::string_view verdict = circle.share >= 0.95  ? "yes"
                                   : circle.share >= 0.5 ? "mostly"
                                                         : "no";
  return fmt::format("Round robin: {}; {} of the steps follow {} > {:#x}", verdict,
                     percent(circle.share, 1.0), cores, circle.cores.front());
}

void add_order(std::string& text, const Order& order, std::string_view head) {
  if (order.steps == 0) return;
  text += fmt::format(
      "\n{}\n{} steps, {} of them to another core ({})\n{}\nLongest stay: {} on {}; mean {:.2f}\n",
      head, order.steps, order.changes, percent(order.changes, order.steps), circle_text(order),
      order.longest, core_text(order.longest_core), order.mean_run());
  std::vector<std::uint32_t> cores;
  for (const auto& [pair, count] : order.transitions.of)
    for (const std::uint32_t core : {pair.first, pair.second})
      if (std::find(cores.begin(), cores.end(), core) == cores.end()) cores.push_back(core);
  std::sort(cores.begin(), cores.end());
  constexpr std::size_t most = 12;
  if (cores.size() > most) cores.resize(most);
  Rows rows{{"from \\ to"}};
  for (const std::uint32_t to : cores) rows[0].push_back(core_text(to));
  for (const std::uint32_t from : cores) {
    rows.push_back({core_text(from)});
    for (const std::uint32_t to : cores) {
      const auto found = order.transitions.of.find({from, to});
      rows.back().push_back(
          std::to_string(found == order.transitions.of.end() ? 0 : found->second));
    }
  }
  text += table(rows);
}

void add_depth(std::string& text, const Stats& stats) {
  if (stats.depth.empty()) return;
  Rows rows{{"core mask", "max", "mean", "idle"}};
  for (std::size_t level = 1; level < QueueDepth::levels; level++)
    rows[0].push_back(fmt::format("{}{}", level, level + 1 == QueueDepth::levels ? "+" : ""));
  for (const auto& [core, depth] : stats.depth) {
    rows.push_back(
        {core_text(core), std::to_string(depth.most), fmt::format("{:.2f}", depth.mean())});
    for (const std::uint64_t ns : depth.ns_at) rows.back().push_back(percent(ns, depth.span_ns()));
  }
  add_table(text, "Submits outstanding, and the share of the time with so many", rows);
  if (stats.nonblock != 0)
    text +=
        fmt::format("{} submits did not block: they were outstanding for longer\n", stats.nonblock);
}

void add_times_row(Rows& rows, std::string_view what, const Histogram& times) {
  if (times.count() == 0) return;
  rows.push_back({std::string(what), std::to_string(times.count())});
  for (const double ns :
       {static_cast<double>(times.min()), static_cast<double>(times.quantile(0.5)),
        static_cast<double>(times.quantile(0.9)), static_cast<double>(times.quantile(0.99)),
        static_cast<double>(times.max()), times.mean()})
    rows.back().push_back(duration(ns));
}

const Rows times_head{{"", "count", "min", "median", "90 %", "99 %", "max", "mean"}};

void add_times(std::string& text, const Stats& stats) {
  Rows rows = times_head;
  add_times_row(rows, "between submits", stats.between_ns);
  add_times_row(rows, "in the driver", stats.took_ns);
  add_times_row(rows, "on the NPU (hw_elapse)", stats.hw_ns);
  if (rows.size() > 1) add_table(text, "Times", rows);
}

void add_failures(std::string& text, const Stats& stats) {
  if (stats.returned < stats.submits)
    text += fmt::format("\n{} submits did not come back\n", stats.submits - stats.returned);
  if (stats.failed == 0) return;
  Rows rows{{"error", "submits"}};
  for (const auto& [error, count] : by_count(stats.errors))
    rows.push_back({errno_text(error), std::to_string(count)});
  if (stats.errors.others != 0) rows.push_back({"others", std::to_string(stats.errors.others)});
  add_table(text, fmt::format("Failed: {} submits", stats.failed), rows);
}

std::string registers_text(const Foreign& foreign) {
  constexpr std::size_t most = 24;
  std::string text;
  for (std::size_t i = 0; i < std::min(foreign.values.size(), most); i++) {
    const RegisterValue& value = foreign.values[i];
    const rkc_reg* reg = rkc_reg_find(value.target, value.reg);
    text += fmt::format("{}{} {:04x}{}{} = {}", i % 3 == 0 ? "\n    " : ", ",
                        rkc_target_name(value.target), value.reg, reg == nullptr ? "" : " ",
                        reg == nullptr ? "" : reg->name,
                        value.address ? "address" : fmt::format("{:#x}", value.value));
  }
  if (foreign.registers > most)
    text += fmt::format("\n    and {} more (--json has them)", foreign.registers - most);
  return text + "\n";
}

void add_foreign(std::string& text, const Programs& programs) {
  if (programs.foreign.empty()) return;
  std::vector<const Foreign*> all;
  for (const auto& [hash, foreign] : programs.foreign) all.push_back(&foreign);
  std::stable_sort(all.begin(), all.end(),
                   [](const Foreign* a, const Foreign* b) { return a->count > b->count; });
  text += fmt::format("\nPrograms that are no matmul known here: {} kinds{}\n", all.size(),
                      programs.other_foreign == 0
                          ? ""
                          : fmt::format(", and {} programs of more", programs.other_foreign));
  constexpr std::size_t most = 32;
  for (std::size_t i = 0; i < std::min(all.size(), most); i++)
    text += fmt::format("  {} times, {} registers ({}){}", all[i]->count, all[i]->registers,
                        all[i]->reason == 0 ? "no layout fits" : rkc_reason_text(all[i]->reason),
                        registers_text(*all[i]));
}

void add_programs(std::string& text, const Stats& stats) {
  const Programs& programs = stats.programs;
  if (programs.blocks != 0) {
    Rows rows{{"matmul", "programs", "share"}};
    for (const auto& [shape, count] : by_count(programs.shapes))
      rows.push_back({shape_text(shape), std::to_string(count), percent(count, programs.blocks)});
    if (programs.shapes.others != 0)
      rows.push_back({"others", std::to_string(programs.shapes.others), ""});
    add_table(text,
              fmt::format("Programs by shape: {} in {} tasks", programs.blocks, programs.tasks),
              rows);
    text += fmt::format(
        "Repeats: {} of the tasks were there before ({}), {} apart from addresses "
        "({})\n",
        programs.same, percent(programs.same, programs.tasks), programs.alike,
        percent(programs.alike, programs.tasks));
    add_foreign(text, programs);
  }
  if (stats.layouts.of.empty()) return;
  Rows rows{{"layout", "submits"}};
  for (const auto& [layout, count] : by_count(stats.layouts))
    rows.push_back({layout_text(layout), std::to_string(count)});
  if (stats.layouts.others != 0) rows.push_back({"others", std::to_string(stats.layouts.others)});
  add_table(text, "Layout of submits", rows);
}

void add_chains(std::string& text, const Chains& chains) {
  if (chains.made + chains.submits + chains.completions == 0) return;
  text += fmt::format(
      "\nChains of /dev/rkchain: {} made, {} submits of {} chains, {} completions, "
      "{} failed, {} run again\n",
      chains.made, chains.submits, chains.submitted, chains.completions, chains.failed,
      chains.retries);
  if (chains.made != 0) {
    Rows rows{{"layout", "chains"}};
    for (const auto& [layout, count] : by_count(chains.layouts))
      rows.push_back({layout_text(layout), std::to_string(count)});
    text += table(rows);
  }
  if (chains.completions != 0) {
    Rows rows{{"core that ran them", "completions", "share"}};
    for (const auto& [core, count] : chains.cores.of)
      rows.push_back({core == RKCHAIN_NO_CORE ? "none" : std::to_string(core),
                      std::to_string(count), percent(count, chains.completions)});
    text += table(rows);
  }
  Rows times = times_head;
  add_times_row(times, "queued", chains.queued_ns);
  add_times_row(times, "from start to end", chains.ran_ns);
  add_times_row(times, "on the NPU", chains.hw_ns);
  if (times.size() > 1) text += table(times);
  for (const auto& [error, count] : chains.errors.of)
    text += fmt::format("{}: {} chains\n", errno_text(error), count);
  add_order(text, chains.order, "Order of cores, by completions of chains");
}

void add_unseen(std::string& text, const Stats& stats) {
  if (stats.unseen.of.empty() && stats.lost == 0 && stats.programs.unread == 0) return;
  text += "\nNot seen\n";
  for (const auto& [what, count] : stats.unseen.of)
    text += fmt::format("  {} times: {}\n", count, missing_text(what));
  if (stats.programs.unread != 0)
    text += fmt::format("  {} tasks whose programs are not in the file\n", stats.programs.unread);
  if (stats.lost != 0) text += fmt::format("  {} records lost\n", stats.lost);
  for (const std::string& what : stats.unseen_texts) text += fmt::format("  \"{}\"\n", what);
}

std::string stats_text(const Stats& stats) {
  std::string text;
  add_cores(text, stats);
  add_tasks(text, stats);
  add_order(text, stats.order, "Order of cores");
  add_depth(text, stats);
  add_times(text, stats);
  add_failures(text, stats);
  add_programs(text, stats);
  add_chains(text, stats.chains);
  add_unseen(text, stats);
  return text;
}

std::string processes_text(const Report& report) {
  Rows rows{{"process", "command", "submits", "tasks", "failed", "buffers", "bytes", "driver"}};
  for (const ProcessStats& process : report.processes)
    rows.push_back({fmt::format("{}{}", process.pid, process.forked ? " (forked)" : ""),
                    process.command.substr(0, 40), std::to_string(process.stats.submits),
                    std::to_string(process.stats.tasks), std::to_string(process.stats.failed),
                    std::to_string(process.buffers), grouped(process.buffer_bytes),
                    process.driver_version == 0 ? "-" : std::to_string(process.driver_version)});
  return "\nProcesses\n" + table(rows);
}

}  // namespace

std::string report_text(const Report& report, bool by_process) {
  std::string text;
  if (report.processes_known != 0) text += processes_text(report);
  text += stats_text(report.total);
  if (report.processes_left_out != 0)
    text +=
        fmt::format("\n{} records are of more than {} processes: they count in the total only\n",
                    report.processes_left_out, ReportLimits::processes);
  if (report.submits_not_followed != 0)
    text += fmt::format("\n{} submits were not followed: more than {} were open\n",
                        report.submits_not_followed, ReportLimits::open_submits);
  if (report.programs_forgotten)
    text += fmt::format(
        "\nOnly the first {} different programs are remembered: there may be more "
        "repeats\n",
        ReportLimits::programs);
  if (by_process)
    for (const ProcessStats& process : report.processes)
      text += fmt::format("\n==== process {}: {}\n{}", process.pid, process.command,
                          stats_text(process.stats));
  return text;
}

}  // namespace rkchain::tool

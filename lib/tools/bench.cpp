// SPDX-License-Identifier: MIT
// rkchain bench: what the library's own work costs, as ratios.
#include "tools/bench.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>

#include "tools/commands.hpp"

namespace rkchain::tool {
namespace {

struct Group {
  std::string_view name;
  std::vector<BenchRow> (*run)();
};

constexpr std::array groups{Group{"build", bench_build}, Group{"pack", bench_pack},
                            Group{"model", bench_model}, Group{"submit", bench_submit}};

bool within(const BenchRow& row) {
  if (row.limit == 0) return true;
  return row.speedup ? row.ratio >= row.limit : row.ratio <= row.limit;
}

std::string number(double value) { return value == 0 ? "-" : fmt::format("{:.2f}", value); }

std::string bound(const BenchRow& row, double value) {
  return (value != 0 && row.speedup ? ">= " : "") + number(value);
}

void print_rows(const std::vector<BenchRow>& rows) {
  std::size_t width = 0;
  for (const BenchRow& row : rows) width = std::max(width, row.name.size());
  put("{:<{}}  {:>8}  {:>8}  {:>8}  against\n", "", width, "ratio", "limit", "aim");
  for (const BenchRow& row : rows)
    put("{:<{}}  {:>8}  {:>8}  {:>8}  {}{}\n", row.name, width, number(row.ratio),
        bound(row, row.limit), bound(row, row.aim), row.against,
        within(row) ? "" : "  <- outside the limit");
}

Json to_json(const std::vector<BenchRow>& rows) {
  Json json = {{"ratios", Json::object()},
               {"limits", Json::object()},
               {"aims", Json::object()},
               {"against", Json::object()},
               {"more_is_better", Json::array()}};
  bool pass = true;
  for (const BenchRow& row : rows) {
    json["ratios"][row.name] = row.ratio;
    if (row.limit != 0) json["limits"][row.name] = row.limit;
    if (row.aim != 0) json["aims"][row.name] = row.aim;
    json["against"][row.name] = row.against;
    if (row.speedup) json["more_is_better"].push_back(row.name);
    pass = pass && within(row);
  }
  json["pass"] = pass;
  return json;
}

int bench(const Session& session, const std::string& what) {
  std::vector<BenchRow> rows;
  Progress progress("benchmarks", groups.size());
  for (const Group& group : groups) {
    if (what == "all" || what == group.name) {
      std::vector<BenchRow> more = group.run();
      std::move(more.begin(), more.end(), std::back_inserter(rows));
    }
    progress.step();
  }
  if (session.json)
    put_json(to_json(rows));
  else
    print_rows(rows);
  for (const BenchRow& row : rows)
    if (!within(row))
      failed("{}: {:.2f} is outside the limit of {}", row.name, row.ratio, row.limit);
  return exit_ok;
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
  auto what = std::make_shared<std::string>("all");
  CLI::App* command = app.add_subcommand("bench", "measure what the library's own work costs");
  command
      ->add_option_function<std::string>(
          "WHAT",
          [what](const std::string& text) {
            const bool known = text == "all" ||
                               std::any_of(groups.begin(), groups.end(),
                                           [&](const Group& group) { return group.name == text; });
            if (!known)
              bad_input("WHAT: no benchmark '{}'; there are build, pack, model, submit, all", text);
            *what = text;
          },
          "build (chains and their check), pack (weights and features), model (the software NPU), "
          "submit, or all; all if not given")
      ->type_name("");
  add_json(*command, session);
  command->footer(
      "A time alone says little on another machine, so each figure is a ratio of two that were\n"
      "taken in turn, the median of many pairs: 2 means twice as long as the baseline.  A\n"
      "speed-up is the other way round.  Exit code 1 when one is outside its limit; a busy\n"
      "machine can be the reason.\n"
      "\n"
      "Examples:\n"
      "  rkchain bench\n"
      "  rkchain bench pack\n"
      "  rkchain bench --json | jq .ratios\n");
  command->callback(
      [&session, what] { session.action = [&session, what] { return bench(session, *what); }; });
}

}  // namespace rkchain::tool

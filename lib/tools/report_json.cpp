// SPDX-License-Identifier: MIT
// The same as JSON.
#include "kmod/core/reason.h"
#include "kmod/core/regs.h"
#include "src/format.hpp"
#include "tools/captures.hpp"
#include "tools/matmul_args.hpp"

namespace rkchain::tool {
namespace {

using namespace capture;

Json times_json(const Histogram& times) {
  Json json = {{"count", times.count()}};
  if (times.count() == 0) return json;
  json["min_ns"] = times.min();
  json["median_ns"] = times.quantile(0.5);
  json["p90_ns"] = times.quantile(0.9);
  json["p99_ns"] = times.quantile(0.99);
  json["max_ns"] = times.max();
  json["mean_ns"] = times.mean();
  return json;
}

Json core_row_json(const CoreRow& row) {
  return {{"submits", row.submits}, {"tasks", row.tasks}, {"failed", row.failed}};
}

Json order_json(const Order& order) {
  const Order::Circle circle = order.circle();
  Json json = {{"steps", order.steps},
               {"changes", order.changes},
               {"runs", order.runs},
               {"longest_run", order.longest},
               {"longest_run_core", fmt::format("{:#x}", order.longest_core)},
               {"mean_run", order.mean_run()},
               {"round_robin", circle.share >= 0.95},
               {"round_robin_share", circle.share}};
  json["round_robin_order"] = Json::array();
  for (const std::uint32_t core : circle.cores)
    json["round_robin_order"].push_back(fmt::format("{:#x}", core));
  json["transitions"] = Json::array();
  for (const auto& [pair, count] : order.transitions.of)
    json["transitions"].push_back({{"from", fmt::format("{:#x}", pair.first)},
                                   {"to", fmt::format("{:#x}", pair.second)},
                                   {"count", count}});
  return json;
}

Json depth_json(const QueueDepth& depth) {
  Json json = {{"max", depth.most}, {"mean", depth.mean()}, {"ns_at", Json::array()}};
  for (const std::uint64_t ns : depth.ns_at) json["ns_at"].push_back(ns);
  return json;
}

template <typename Key, typename Name>
Json counts_json(const Counts<Key>& counts, Name&& name) {
  Json json = Json::object();
  for (const auto& [key, count] : counts.of) json[name(key)] = count;
  if (counts.others != 0) json["others"] = counts.others;
  return json;
}

Json layouts_json(const Counts<ProgramLayout>& layouts) {
  Json json = Json::array();
  for (const auto& [layout, count] : layouts.of)
    json.push_back({{"form", name(layout.form)},
                    {"tasks", layout.tasks},
                    {"S", layout.count},
                    {"stride", layout.stride},
                    {"body", layout.body},
                    {"count", count}});
  if (layouts.others != 0) json.push_back({{"form", "others"}, {"count", layouts.others}});
  return json;
}

Json foreign_json(const Foreign& foreign) {
  Json json = {{"count", foreign.count},
               {"reason", foreign.reason == 0 ? "no layout fits" : rkc_reason_text(foreign.reason)},
               {"registers", Json::array()}};
  for (const RegisterValue& value : foreign.values) {
    const rkc_reg* reg = rkc_reg_find(value.target, value.reg);
    Json entry = {{"unit", rkc_target_name(value.target)},
                  {"target", fmt::format("{:#06x}", value.target)},
                  {"register", fmt::format("{:#06x}", value.reg)}};
    if (reg != nullptr) entry["name"] = reg->name;
    entry["value"] = value.value;
    if (value.address) entry["address"] = true;
    json["registers"].push_back(std::move(entry));
  }
  if (foreign.registers > foreign.values.size())
    json["registers_left_out"] = foreign.registers - foreign.values.size();
  return json;
}

Json programs_json(const Programs& programs) {
  Json json = {{"tasks", programs.tasks},
               {"tasks_without_words", programs.unread},
               {"programs", programs.blocks},
               {"repeats", programs.same},
               {"repeats_but_addresses", programs.alike},
               {"shapes", Json::array()}};
  for (const auto& [shape, count] : programs.shapes.of)
    json["shapes"].push_back({{"type", name(static_cast<Type>(shape.type))},
                              {"layout", shape.layout == RKC_FLAT ? "flat" : "native"},
                              {"M", shape.m},
                              {"K", shape.k},
                              {"N", shape.n},
                              {"rows_total", shape.m_total},
                              {"count", count}});
  if (programs.shapes.others != 0) json["other_shapes"] = programs.shapes.others;
  json["unknown"] = Json::array();
  for (const auto& [hash, foreign] : programs.foreign)
    json["unknown"].push_back(foreign_json(foreign));
  if (programs.other_foreign != 0) json["other_unknown"] = programs.other_foreign;
  return json;
}

Json chains_json(const Chains& chains) {
  const auto hex = [](std::uint32_t mask) { return fmt::format("{:#x}", mask); };
  return {{"made", chains.made},
          {"without_words", chains.unread},
          {"layouts", layouts_json(chains.layouts)},
          {"submits", chains.submits},
          {"submitted", chains.submitted},
          {"core_masks", counts_json(chains.masks, hex)},
          {"completions", chains.completions},
          {"failed", chains.failed},
          {"retries", chains.retries},
          {"cores", counts_json(chains.cores,
                                [](std::uint32_t core) {
                                  return core == RKCHAIN_NO_CORE ? "none" : std::to_string(core);
                                })},
          {"errors", counts_json(chains.errors, errno_text)},
          {"order", order_json(chains.order)},
          {"queued", times_json(chains.queued_ns)},
          {"ran", times_json(chains.ran_ns)},
          {"hw", times_json(chains.hw_ns)}};
}

Json stats_json(const Stats& stats) {
  const auto number = [](std::uint32_t tasks) { return std::to_string(tasks); };
  Json json = {
      {"submits", stats.submits},   {"returned", stats.returned}, {"failed", stats.failed},
      {"nonblock", stats.nonblock}, {"tasks", stats.tasks},       {"first_ns", stats.first_ns},
      {"last_ns", stats.last_ns},   {"cores", Json::object()},    {"queue_depth", Json::object()}};
  for (const auto& [core, row] : stats.cores)
    json["cores"][fmt::format("{:#x}", core)] = core_row_json(row);
  if (stats.other_cores.submits != 0) json["cores"]["others"] = core_row_json(stats.other_cores);
  json["tasks_per_submit"] = counts_json(stats.tasks_per_submit, number);
  json["order"] = order_json(stats.order);
  for (const auto& [core, depth] : stats.depth)
    json["queue_depth"][fmt::format("{:#x}", core)] = depth_json(depth);
  json["between"] = times_json(stats.between_ns);
  json["took"] = times_json(stats.took_ns);
  json["hw_elapse"] = times_json(stats.hw_ns);
  json["errors"] = counts_json(stats.errors, errno_text);
  json["layouts"] = layouts_json(stats.layouts);
  json["layout_unread"] = stats.layout_unread;
  json["programs"] = programs_json(stats.programs);
  json["chains"] = chains_json(stats.chains);
  json["unseen"] =
      counts_json(stats.unseen, [](std::uint32_t what) { return std::string(missing_text(what)); });
  json["lost"] = stats.lost;
  json["unseen_texts"] = stats.unseen_texts;
  return json;
}

}  // namespace

Json report_json(const Report& report) {
  Json json = {{"total", stats_json(report.total)}, {"processes", Json::array()}};
  for (const ProcessStats& process : report.processes)
    json["processes"].push_back({{"pid", process.pid},
                                 {"parent", process.parent},
                                 {"known", process.known},
                                 {"forked", process.forked},
                                 {"ended", process.ended},
                                 {"command", process.command},
                                 {"driver_version", process.driver_version},
                                 {"buffers", process.buffers},
                                 {"buffer_bytes", process.buffer_bytes},
                                 {"stats", stats_json(process.stats)}});
  json["processes_left_out"] = report.processes_left_out;
  json["submits_not_followed"] = report.submits_not_followed;
  json["programs_forgotten"] = report.programs_forgotten;
  return json;
}

}  // namespace rkchain::tool

// SPDX-License-Identifier: MIT
// What is reported of captures whose content is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/report.hpp"
#include "capture/report_programs.hpp"
#include "capture/report_timeline.hpp"
#include "capture/svg.hpp"
#include "kmod/core/entry.h"
#include "kmod/core/reason.h"
#include "unit/capture_samples.hpp"

namespace rkchain::capture_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Report report_of(const std::string& bytes, std::optional<std::uint32_t> pid = std::nullopt) {
  Reporter reporter(pid);
  (void)read_capture(bytes_of(bytes), "sample",
                     [&](const Record& record) { reporter.add(record); });
  return reporter.finish();
}

// ---- numbers that are known ------------------------------------------------------

class Counted : public testing::TestWithParam<Format> {};

TEST_P(Counted, GivesItsTables) {
  const Report report = report_of(counted_capture(GetParam()));
  const Stats& total = report.total;
  EXPECT_EQ(total.submits, 1039U);
  EXPECT_EQ(total.returned, 1039U);
  EXPECT_EQ(total.failed, 0U);
  ASSERT_EQ(total.cores.size(), 4U);
  EXPECT_EQ(total.cores.at(1).submits, 365U);
  EXPECT_EQ(total.cores.at(2).submits, 365U);
  EXPECT_EQ(total.cores.at(4).submits, 309U);
  EXPECT_EQ(total.cores.at(7).submits, 0U);
  EXPECT_THAT(total.tasks_per_submit.of,
              ElementsAre(Pair(3U, 588U), Pair(6U, 448U), Pair(21U, 3U)));
  EXPECT_EQ(total.tasks, 3U * 588 + 6 * 448 + 21 * 3);
  ASSERT_EQ(report.processes.size(), 1U);
  EXPECT_EQ(report.processes[0].stats.submits, 1039U);
  EXPECT_EQ(total.between_ns.count(), 1038U);
  EXPECT_EQ(total.between_ns.min(), 1000U);
  EXPECT_EQ(total.between_ns.max(), 1000U);
  EXPECT_EQ(total.between_ns.quantile(0.5), 1000U);
  EXPECT_EQ(total.hw_ns.count(), 1039U);
  EXPECT_EQ(total.hw_ns.max(), 400U);
  EXPECT_EQ(total.took_ns.max(), 700U);
}

INSTANTIATE_TEST_SUITE_P(Forms, Counted,
                         testing::Values(Format::binary, Format::json, Format::text));

TEST(CaptureReport, LogOfSubmitsAlone) {
  std::string log;
  for (const CountedSubmit& submit : counted_submits())
    log += fmt::format("[12.3] === SUBMIT core={:#x} task_number={}\n", submit.core, submit.tasks);
  const Report report = report_of(log);
  EXPECT_EQ(report.total.cores.at(4).submits, 309U);
  EXPECT_EQ(report.total.tasks_per_submit.of.at(21), 3U);
  EXPECT_EQ(report.total.returned, 0U);
  // Without times there is nothing to say of them.
  EXPECT_EQ(report.total.between_ns.count(), 0U);
  EXPECT_TRUE(report.total.depth.empty());
  EXPECT_TRUE(report.bars.empty());
  EXPECT_EQ(report.processes_known, 0U);
}

// ---- order -------------------------------------------------------------------

Order order_of(std::initializer_list<std::uint32_t> cores) {
  Order order;
  for (const std::uint32_t core : cores) order.add(core);
  return order;
}

TEST(CaptureReport, OrderOfCores) {
  const Order round = order_of({1, 2, 4, 1, 2, 4, 1});
  EXPECT_EQ(round.steps, 6U);
  EXPECT_EQ(round.changes, 6U);
  EXPECT_THAT(round.circle().cores, ElementsAre(1, 2, 4));
  EXPECT_DOUBLE_EQ(round.circle().share, 1);
  EXPECT_EQ(round.longest, 1U);

  const Order back = order_of({4, 2, 1, 4, 2, 1, 1, 1});
  EXPECT_THAT(back.circle().cores, ElementsAre(1, 4, 2));
  EXPECT_DOUBLE_EQ(back.circle().share, 5.0 / 7);
  EXPECT_EQ(back.longest, 3U);
  EXPECT_EQ(back.longest_core, 1U);
  EXPECT_EQ(back.runs, 6U);
  EXPECT_DOUBLE_EQ(back.mean_run(), 8.0 / 6);
  EXPECT_EQ(back.transitions.of.at({1, 1}), 2U);

  EXPECT_TRUE(order_of({1, 1, 1}).circle().cores.empty());
  EXPECT_TRUE(order_of({1, 2, 4}).circle().cores.empty());
  // Two that swap, and a third that nobody goes to by habit.
  EXPECT_TRUE(order_of({1, 2, 1, 2, 1, 4, 1, 2, 1}).circle().cores.empty());
  EXPECT_EQ(Order().mean_run(), 0);
}

// ---- depth -------------------------------------------------------------------

TEST(CaptureReport, QueueDepth) {
  Writer writer(Format::binary);
  writer.submit(1, 1, 1, 1000).submit(2, 1, 1, 1100).submit(3, 2, 1, 1200);
  writer.submitted(1, 0, 1400).submitted(3, 0, 1500).submitted(2, 0, 2000);
  const Report report = report_of(writer.bytes());
  const QueueDepth& one = report.total.depth.at(1);
  EXPECT_EQ(one.most, 2U);
  EXPECT_EQ(one.ns_at[0], 0U);
  EXPECT_EQ(one.ns_at[1], 100U + 600);
  EXPECT_EQ(one.ns_at[2], 300U);
  EXPECT_DOUBLE_EQ(one.mean(), 1.3);
  const QueueDepth& two = report.total.depth.at(2);
  EXPECT_EQ(two.most, 1U);
  EXPECT_EQ(two.ns_at[0], 200U + 500);
  EXPECT_EQ(two.ns_at[1], 300U);
  EXPECT_EQ(two.span_ns(), 1000U);
}

TEST(CaptureReport, SubmitsThatDoNotComeBack) {
  Writer writer(Format::binary);
  writer.submit(1, 1, 1, 1000).submitted(9, 0, 1500);
  // Another program under the same pid begins with id 1 again.
  writer.add(Kind::process, Process{}, 1600, std::string("x\0", 2));
  writer.submit(1, 2, 1, 2000).submitted(1, -110, 3000);
  const Report report = report_of(writer.bytes());
  EXPECT_EQ(report.total.depth.at(1).most, 1U);
  EXPECT_EQ(report.total.depth.at(1).now, 0U);
  EXPECT_EQ(report.total.cores.at(1).failed, 0U);
  EXPECT_EQ(report.total.cores.at(2).failed, 1U);
  EXPECT_THAT(report.total.errors.of, ElementsAre(Pair(-110, 1U)));
  ASSERT_EQ(report.bars.size(), 1U);
  EXPECT_EQ(report.bars[0].core, 2U);
}

TEST(CaptureReport, MoreOpenSubmitsThanAreFollowed) {
  Writer writer(Format::binary);
  const std::uint64_t many = ReportLimits::open_submits + 10;
  for (std::uint64_t id = 1; id <= many; id++) writer.submit(id, 1, 1, id);
  const Report report = report_of(writer.bytes());
  EXPECT_EQ(report.total.submits, many);
  EXPECT_EQ(report.submits_not_followed, 10U);
}

// ---- processes -----------------------------------------------------------------

TEST(CaptureReport, Processes) {
  Writer writer(Format::binary);
  writer.add(Kind::process, Process{3, 1, 0, 0}, 10, std::string("demo\0-x\0", 8));
  writer.add(Kind::node, Node{5, 0, 908, 48}, 11, "/dev/dri/card1");
  Buffer buffer{};
  buffer.size = 4096;
  writer.add(Kind::buffer, buffer, 12);
  writer.submit(1, 1, 2, 20).submit(1, 2, 3, 21, 44);
  writer.submitted(1, 0, 30).submitted(1, 0, 31, 0, 44);
  writer.add(Kind::end, End{1, 0, 9, 2, 0}, 40);
  writer.add(Kind::unseen, Unseen{0, 5, 0, 7}, 41, "full disk", 44);
  const Report report = report_of(writer.bytes());
  ASSERT_EQ(report.processes.size(), 2U);
  const ProcessStats& first = report.processes[0];
  EXPECT_EQ(first.pid, 12U);
  EXPECT_EQ(first.parent, 3U);
  EXPECT_EQ(first.command, "demo -x");
  EXPECT_TRUE(first.known);
  EXPECT_TRUE(first.ended);
  EXPECT_EQ(first.driver_version, 908U);
  EXPECT_EQ(first.buffers, 1U);
  EXPECT_EQ(first.buffer_bytes, 4096U);
  EXPECT_EQ(first.stats.lost, 2U);
  EXPECT_FALSE(report.processes[1].known);
  EXPECT_EQ(report.processes[1].stats.cores.at(2).tasks, 3U);
  EXPECT_EQ(report.processes_known, 1U);
  EXPECT_EQ(report.total.lost, 9U);
  EXPECT_THAT(report.total.unseen.of, ElementsAre(Pair(5U, 1U)));
  EXPECT_THAT(report.total.unseen_texts, ElementsAre("full disk"));

  const Report one = report_of(writer.bytes(), 44);
  EXPECT_EQ(one.total.submits, 1U);
  EXPECT_EQ(one.total.cores.at(2).submits, 1U);
  EXPECT_EQ(one.processes.size(), 1U);
  EXPECT_TRUE(report_of(writer.bytes(), 5).processes.empty());
}

TEST(CaptureReport, MoreOfEachThanIsKept) {
  Writer writer(Format::binary);
  for (std::uint32_t i = 0; i < 300; i++) {
    writer.submit(1, i, 1, 100 + i, 1000 + i);
    writer.submitted(1, 0, 500 + i, 0, 1000 + i);
  }
  const Report report = report_of(writer.bytes());
  EXPECT_EQ(report.processes.size(), ReportLimits::processes);
  EXPECT_EQ(report.processes_left_out, 2 * (300 - ReportLimits::processes));
  EXPECT_EQ(report.total.submits, 300U);
  EXPECT_EQ(report.total.cores.size(), ReportLimits::core_masks);
  EXPECT_EQ(report.total.other_cores.submits, 300 - (ReportLimits::core_masks));
}

// ---- programs ------------------------------------------------------------------

TEST(CaptureReport, ProgramsByShape) {
  Writer writer(Format::binary);
  writer.submit(1, 1, 1, 10).task(1, 0, program(4)).submitted(1, 0, 20);
  writer.submit(2, 1, 1, 30).task(2, 0, program(4)).submitted(2, 0, 40);
  writer.submit(3, 1, 1, 50).task(3, 0, program(4, 1, RKC_WAIT, 0x20000)).submitted(3, 0, 60);
  writer.submit(4, 1, 1, 70).task(4, 0, program(2, 5, RKC_WAIT)).submitted(4, 0, 80);
  writer.submit(5, 1, 1, 90).task(5, 0, program(2, 3, RKC_WAIT41)).submitted(5, 0, 99);
  writer.submit(6, 1, 1, 100).submitted(6, 0, 110);
  const Report report = report_of(writer.bytes());
  const Programs& programs = report.total.programs;
  EXPECT_EQ(programs.tasks, 5U);
  EXPECT_EQ(programs.blocks, 11U);
  EXPECT_EQ(programs.same, 1U);
  EXPECT_EQ(programs.alike, 2U);
  EXPECT_THAT(programs.shapes.of,
              ElementsAre(Pair(MatmulShape{RKC_I8_I32, RKC_FLAT, 2, 64, 96, 2}, 8U),
                          Pair(MatmulShape{RKC_I8_I32, RKC_FLAT, 4, 64, 96, 4}, 3U)));
  EXPECT_TRUE(programs.foreign.empty());
  EXPECT_EQ(report.total.layouts.of.at({Form::single, 1, 1, 0, 108}), 3U);
  EXPECT_EQ(report.total.layouts.of.at({Form::wait, 1, 5, 110, 108}), 1U);
  EXPECT_EQ(report.total.layouts.of.at({Form::wait41, 1, 3, 110, 108}), 1U);
  EXPECT_EQ(report.total.layouts.of.size(), 3U);
  EXPECT_EQ(report.total.layout_unread, 1U);
}

TEST(CaptureReport, LinkChains) {
  constexpr std::uint64_t iova = 0x40000000;
  const auto words = program(2, 3, RKC_LINK, 0x10000, iova);
  const auto part = [&](std::size_t i) {
    return std::vector<std::uint64_t>(words.begin() + static_cast<std::ptrdiff_t>(112 * i),
                                      words.begin() + static_cast<std::ptrdiff_t>(112 * (i + 1)));
  };
  Writer writer(Format::binary);
  writer.submit(1, 1, 3, 10);
  for (std::uint32_t i = 0; i < 3; i++) writer.task(1, i, part(i), iova + 896 * i);
  writer.submitted(1, 0, 20).submit(2, 1, 3, 30);
  // The same in another order, which the links do not follow.
  for (const std::uint32_t i : {1U, 0U, 2U}) writer.task(2, i, part(i), iova + 896 * i);
  writer.submitted(2, 0, 40).submit(3, 1, 2, 50);
  writer.task(3, 0, program(2)).task(3, 1, program(2, 2)).submitted(3, 0, 60);
  // One that never comes back.
  writer.submit(4, 1, 1, 70).task(4, 0, program(2));
  const Report report = report_of(writer.bytes());
  EXPECT_EQ(report.total.layouts.of.at({Form::link, 3, 3, 112, 108}), 1U);
  EXPECT_EQ(report.total.layouts.of.at({Form::several, 3, 3, 0, 108}), 1U);
  EXPECT_EQ(report.total.layouts.of.at({Form::mixed, 2, 0, 0, 108}), 1U);
  EXPECT_EQ(report.total.layouts.of.at({Form::single, 1, 1, 0, 108}), 1U);
  EXPECT_EQ(report.total.programs.blocks, 10U);
  EXPECT_TRUE(report.total.programs.foreign.empty()) << "links are no reason to refuse";
}

TEST(CaptureReport, ProgramsThatAreNoMatmul) {
  std::vector<std::uint64_t> foreign = program(4);
  foreign[8] = rkc_entry(RKC_TARGET_CNA, 0x1020, 0x70007);
  std::vector<std::uint64_t> moved = foreign;
  for (std::uint64_t& word : moved)
    if (rkc_entry_reg(word) == 0x1070) word = rkc_entry(RKC_TARGET_CNA, 0x1070, 0xabc0);
  std::vector<std::uint64_t> other = foreign;
  other[8] = rkc_entry(RKC_TARGET_CNA, 0x1020, 0x70008);
  Writer writer(Format::binary);
  writer.submit(1, 1, 4, 10).task(1, 0, foreign).task(1, 1, moved).task(1, 2, other);
  writer.task(1, 3, {1, 2, 3}).submitted(1, 0, 20);
  const Report report = report_of(writer.bytes());
  const Programs& programs = report.total.programs;
  EXPECT_EQ(programs.blocks, 4U);
  EXPECT_TRUE(programs.shapes.of.empty());
  ASSERT_EQ(programs.foreign.size(), 3U);
  std::vector<std::uint64_t> counts;
  for (const auto& [hash, kind] : programs.foreign) {
    counts.push_back(kind.count);
    if (kind.count != 2) continue;
    EXPECT_NE(kind.reason, std::uint32_t{RKC_OK});
    const auto found = std::find_if(kind.values.begin(), kind.values.end(),
                                    [](const RegisterValue& value) { return value.reg == 0x1020; });
    ASSERT_NE(found, kind.values.end());
    EXPECT_EQ(found->value, 0x70007U);
    EXPECT_FALSE(found->address);
  }
  EXPECT_THAT(counts, testing::UnorderedElementsAre(1, 1, 2));
  EXPECT_EQ(programs.same, 0U);
  EXPECT_EQ(programs.alike, 1U);
}

TEST(CaptureReport, Addresses) {
  EXPECT_TRUE(is_address(RKC_TARGET_CNA, 0x1070));
  EXPECT_TRUE(is_address(RKC_TARGET_DPU, 0x4020));
  EXPECT_FALSE(is_address(RKC_TARGET_DPU, 0x1070));
  EXPECT_FALSE(is_address(RKC_TARGET_CNA, 0x1074));
}

// ---- /dev/rkchain ----------------------------------------------------------------

TEST(CaptureReport, OurOwnChains) {
  const auto words = program(2, 4, RKC_WAIT);
  Chain chain{};
  chain.id = 1;
  chain.count = 4;
  chain.stride = 110;
  chain.body = 108;
  chain.words = static_cast<std::uint32_t>(words.size());
  Writer writer(Format::binary);
  writer.add(Kind::chain, chain, 1,
             {reinterpret_cast<const char*>(words.data()), 8 * words.size()});
  writer.add(Kind::chain_submit, ChainSubmit{1, 3, 7, 0, 2}, 2, std::string("\1\0\0\0\1\0\0\0", 8));
  Completion done{};
  done.completion.queued_ns = 1000;
  done.completion.started_ns = 1500;
  done.completion.done_ns = 3500;
  done.completion.hw_ns = 1800;
  done.completion.core = 2;
  writer.add(Kind::completion, done, 3);
  done.completion.core = RKCHAIN_NO_CORE;
  done.completion.status = -125;
  done.completion.started_ns = 0;
  writer.add(Kind::completion, done, 4);
  done.completion.flags = RKCHAIN_DONE_RETIRED;
  writer.add(Kind::completion, done, 5);
  const Report report = report_of(writer.bytes());
  const Chains& chains = report.total.chains;
  EXPECT_EQ(chains.made, 1U);
  EXPECT_EQ(chains.layouts.of.at({Form::wait, 0, 4, 110, 108}), 1U);
  EXPECT_EQ(report.total.programs.blocks, 4U);
  EXPECT_EQ(chains.submits, 1U);
  EXPECT_EQ(chains.submitted, 2U);
  EXPECT_EQ(chains.completions, 2U);
  EXPECT_THAT(chains.cores.of, ElementsAre(Pair(2U, 1U), Pair(RKCHAIN_NO_CORE, 1U)));
  EXPECT_THAT(chains.errors.of, ElementsAre(Pair(-125, 1U)));
  EXPECT_EQ(chains.queued_ns.max(), 500U);
  EXPECT_EQ(chains.ran_ns.max(), 2000U);
  EXPECT_EQ(chains.hw_ns.max(), 1800U);
  EXPECT_EQ(report.total.submits, 0U);
}

// ---- histogram -----------------------------------------------------------------

TEST(CaptureReport, Histogram) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0U);
  for (std::uint64_t value = 1; value <= 1000; value++) histogram.add(value);
  EXPECT_EQ(histogram.min(), 1U);
  EXPECT_EQ(histogram.max(), 1000U);
  EXPECT_DOUBLE_EQ(histogram.mean(), 500.5);
  for (const auto& [part, value] : {std::pair{0.5, 500.0}, {0.9, 900.0}, {0.99, 990.0}})
    EXPECT_NEAR(static_cast<double>(histogram.quantile(part)), value, value / 16);
  EXPECT_EQ(histogram.quantile(0), 1U);
  EXPECT_EQ(histogram.quantile(1), 1000U);
  // Every number lies in its bucket, up to the largest.
  for (const std::uint64_t value : {0ULL, 15ULL, 16ULL, 17ULL, 255ULL, 1ULL << 40, ~0ULL}) {
    Histogram one;
    one.add(value);
    const std::size_t at = one.buckets().size() - 1;
    EXPECT_LE(Histogram::low(at), value);
    EXPECT_GE(Histogram::low(at + 1), value);
    EXPECT_EQ(one.quantile(0.5), value);
  }
}

// ---- drawing -------------------------------------------------------------------

/// Elements are closed in order, attributes quoted, and no bare '<' or '&' is in text.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t i = 0; i < xml.size(); i++) {
    if (xml[i] == '&' && xml.find(';', i) > i + 6) return false;
    if (xml[i] != '<') continue;
    const std::size_t end = xml.find('>', i);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(i + 1, end - i - 1);
    if (tag.empty() || tag.find('<') != std::string::npos) return false;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return false;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != name) return false;
      open.pop_back();
    } else if (tag[0] != '?' && tag.back() != '/') {
      open.push_back(name);
    }
    i = end;
  }
  return open.empty();
}

TEST(CaptureReport, Svg) {
  EXPECT_FALSE(well_formed("<a><b></a></b>"));
  EXPECT_FALSE(well_formed("<a>&</a>"));
  EXPECT_FALSE(well_formed("<a x=\"1></a>"));
  const std::string svg = draw_svg(report_of(counted_capture(Format::binary)), "a<b>&\"c\xff");
  EXPECT_TRUE(well_formed(svg));
  for (const char* part : {"Tasks per submit", "Time between submits", "core 0x4", "submits",
                           "3 tasks: 588 submits", "a&lt;b&gt;&amp;&quot;c?", "logarithmic"})
    EXPECT_THAT(svg, HasSubstr(part));
  const std::string empty = draw_svg(Report{}, "nothing");
  EXPECT_TRUE(well_formed(empty));
  EXPECT_THAT(empty, HasSubstr("nothing to show"));
}

TEST(CaptureReport, TimelineHasFewBars) {
  Timeline timeline;
  std::uint64_t submits = 0;
  for (std::uint64_t i = 0; i < 100000; i++, submits++)
    timeline.add({1U << i % 3, i * 1000, i * 1000 + 700 + i % 11, 1});
  EXPECT_LE(timeline.bars().size(), ReportLimits::bars);
  EXPECT_GT(timeline.bars().size(), ReportLimits::bars / 100);
  EXPECT_NE(timeline.joined_ns(), 0U);
  std::uint64_t kept = 0;
  for (const Bar& bar : timeline.bars()) kept += bar.submits;
  EXPECT_EQ(kept, submits);

  Writer writer(Format::binary);
  for (std::uint64_t id = 1; id <= 5000; id++)
    writer.submit(id, 1, 1, 10000 * id).submitted(id, 0, 10000 * id + 5000);
  const std::string svg = draw_svg(report_of(writer.bytes()), "many");
  EXPECT_THAT(svg, HasSubstr("for 5000 submits: those of a core within"));

  Timeline extreme;
  for (std::uint64_t i = 0; i <= ReportLimits::bars; i++) {
    const std::uint64_t at = i % 2 == 0 ? 0 : ~std::uint64_t{0};
    extreme.add({1, at, at, 1});
  }
  EXPECT_LE(extreme.bars().size(), ReportLimits::bars);
}

TEST(CaptureReport, Durations) {
  EXPECT_EQ(duration(0), "0 ns");
  EXPECT_EQ(duration(1234), "1.23 us");
  EXPECT_EQ(duration(5e6), "5 ms");
  EXPECT_EQ(duration(2.5e9), "2.5 s");
  EXPECT_EQ(duration(1234e9), "1234 s");
}

}  // namespace
}  // namespace rkchain::capture_test

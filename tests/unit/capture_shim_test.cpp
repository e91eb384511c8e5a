// SPDX-License-Identifier: MIT
// librkchain_capture.so before programs that do all that it must live with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>

#include "capture/shim_fixture.hpp"

namespace rkchain::test {
namespace {

using namespace rkchain::capture;
using nlohmann::json;
using testing::HasSubstr;

// ---- what is written -------------------------------------------------------------

TEST_F(Shim, Submits) {
  const Outcome outcome = probe("work");
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const Records all = records();
  EXPECT_EQ(check_pairs(all), 3U);
  EXPECT_EQ(driver_submits(), 3U);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().kind(), Kind::process);
  EXPECT_EQ(all.front().get<Process>().begin, static_cast<std::uint32_t>(Begin::started));
  EXPECT_THAT(all.front().rest<Process>(), HasSubstr(std::string("work\0", 5)));
  const Records nodes = of_kind(all, Kind::node);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].get<Node>().driver_version, 908U);
  EXPECT_EQ(nodes[0].get<Node>().create_bytes, 48U);
  EXPECT_EQ(nodes[0].rest<Node>(), path("node").string());
  const auto submits = of_kind(all, Kind::submit);
  EXPECT_EQ(submits[1].get<Submit>().argument.core_mask, 2U);
  EXPECT_EQ(submits[1].get<Submit>().argument.subcore_task[1].task_number, 2U);
  EXPECT_EQ(submits[1].get<Submit>().argument_bytes, 104U);
  const auto back = of_kind(all, Kind::submitted)[1].get<Submitted>();
  EXPECT_EQ(back.task_counter, 2U);
  EXPECT_EQ(back.hw_elapse_ns, 1000);
  EXPECT_EQ(back.result, 0);
  ASSERT_EQ(all.back().kind(), Kind::end);
  const auto end = all.back().get<End>();
  EXPECT_EQ(end.submits, 3U);
  EXPECT_EQ(end.records, all.size());
  EXPECT_EQ(end.lost + end.unseen + end.failed, 0U);
}

TEST_F(Shim, ProgramsOfEverySizeOfStruct) {
  for (const std::string size : {"32", "40", "48"}) {
    fs::remove(path("cap"));
    const Outcome outcome =
        probe("work", {{"RKCHAIN_CAPTURE_DEPTH", "programs"}, {"RKCHAIN_FAKE_CREATE", size}});
    ASSERT_EQ(outcome.code, 0) << size << outcome.err;
    const Records all = records();
    EXPECT_EQ(of_kind(all, Kind::node)[0].get<Node>().create_bytes, std::stoul(size));
    EXPECT_EQ(of_kind(all, Kind::buffer).size(), 3U);
    EXPECT_EQ(of_kind(all, Kind::destroyed).size(), 3U);
    EXPECT_EQ(of_kind(all, Kind::mapped).size(), 3U);
    EXPECT_EQ(of_kind(all, Kind::unmapped).size(), 3U);
    EXPECT_TRUE(of_kind(all, Kind::unseen).empty());
    EXPECT_TRUE(of_kind(all, Kind::memory).empty());
    const Records tasks = of_kind(all, Kind::task);
    ASSERT_EQ(tasks.size(), 1U + 2 + 3);
    for (const CapturedRecord& record : tasks) {
      const auto task = record.get<Task>();
      EXPECT_EQ(task.words, task.task.regcfg_amount + 4);
      EXPECT_EQ(record.payload.size(), sizeof(Task) + std::size_t{8} * task.words);
      EXPECT_EQ(task.core, task.submit - 1);
    }
    const auto mapped = of_kind(all, Kind::mapped)[0].get<Mapped>();
    EXPECT_EQ(mapped.handle, of_kind(all, Kind::buffer)[0].get<Buffer>().handle);
  }
}

TEST_F(Shim, VectorFromSiliconWithAllMemory) {
  const std::string vector = RKCHAIN_VECTORS_DIR "/int8_4x32x32.json";
  const Outcome outcome = run("capture_vector_probe '" + path("node").string() + "' " + vector,
                              {{"RKCHAIN_CAPTURE_DEPTH", "everything"}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "128/128 outputs\n");
  const Records all = records();
  const json want = json::parse(slurp(vector));
  std::string c;
  for (std::size_t i = 0; i < want["C"].get<std::string>().size(); i += 2)
    c += static_cast<char>(std::stoul(want["C"].get<std::string>().substr(i, 2), nullptr, 16));
  const auto buffers = of_kind(all, Kind::buffer);
  ASSERT_EQ(buffers.size(), 5U);
  const std::uint64_t c_iova = buffers[4].get<Buffer>().iova;
  std::size_t before = 0, after = 0;
  for (const CapturedRecord& record : of_kind(all, Kind::memory)) {
    const auto memory = record.get<Memory>();
    if (memory.when == static_cast<std::uint32_t>(When::before)) before++;
    if (memory.when != static_cast<std::uint32_t>(When::after)) continue;
    after++;
    EXPECT_EQ(memory.stale, 1U);
    EXPECT_EQ(memory.iova, c_iova) << "only C has changed";
    EXPECT_EQ(record.rest<Memory>().substr(0, c.size()), c);
  }
  EXPECT_EQ(before, 5U);
  EXPECT_EQ(after, 1U);
  EXPECT_EQ(of_kind(all, Kind::sync).size(), 6U);
}

TEST_F(Shim, JsonLines) {
  const Outcome outcome = probe("work", {{"RKCHAIN_CAPTURE_FILE", path("cap.jsonl")},
                                         {"RKCHAIN_CAPTURE_DEPTH", "everything"}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::ifstream file(path("cap.jsonl"));
  std::map<std::string, std::vector<json>> kinds;
  for (std::string line; std::getline(file, line);) {
    const json object = json::parse(line, nullptr, false);
    ASSERT_TRUE(object.is_object()) << line;
    kinds[object["kind"]].push_back(object);
  }
  ASSERT_EQ(kinds["file"].size(), 1U);
  EXPECT_EQ(kinds["file"][0]["format"], "rkchain-capture");
  EXPECT_EQ(kinds["process"][0]["command"][1], "work");
  ASSERT_EQ(kinds["submit"].size(), 3U);
  EXPECT_EQ(kinds["submit"][2]["argument"]["core_mask"], 4);
  EXPECT_EQ(kinds["submit"][2]["argument"]["fence_fd"], -1);
  EXPECT_EQ(kinds["submit"][2]["argument"]["subcore_task"][2], json::array({0, 3}));
  EXPECT_EQ(kinds["task"][0]["task"]["int_mask"], 0x300);
  EXPECT_EQ(kinds["task"][0]["words"].size(), 112U);
  EXPECT_EQ(kinds["task"][0]["words"][0].get<std::string>().size(), 16U);
  EXPECT_EQ(kinds["memory"][0]["data"].get<std::string>().size(),
            (kinds["memory"][0]["bytes"].get<std::size_t>() + 2) / 3 * 4);
  EXPECT_EQ(kinds["end"][0]["submits"], 3);
}

TEST_F(Shim, TextOnStandardError) {
  const Outcome outcome = probe("work", {{"RKCHAIN_CAPTURE_FILE", ""},
                                         {"ORK_SUBMIT_ONLY", "1"},
                                         {"RKCHAIN_CAPTURE_DEPTH", "everything"}});
  ASSERT_EQ(outcome.code, 0);
  const std::regex line(
      "(^|\n)=== SUBMIT core=0x2 task_number=2 task_start=0 flags=0x1 timeout=6000 "
      "subcore=0\\+0,0\\+2,0\\+0,0\\+0,0\\+0 task_obj=0x[0-9a-f]+ id=2 fd=[0-9]+ pid=[0-9]+ "
      "tid=[0-9]+ time_ns=[0-9]+\n=== DONE id=2 result=0 task_counter=2 hw_elapse_ns=1000 "
      "took_ns=[0-9]+ pid=");
  EXPECT_TRUE(std::regex_search(outcome.err, line)) << outcome.err;
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("TASK")));
}

TEST_F(Shim, TextOfPrograms) {
  const Outcome outcome = probe(
      "work", {{"RKCHAIN_CAPTURE_FILE", path("cap.log")}, {"RKCHAIN_CAPTURE_DEPTH", "programs"}});
  ASSERT_EQ(outcome.code, 0);
  const std::string text = slurp(path("cap.log"));
  EXPECT_TRUE(std::regex_search(
      text, std::regex("\n--- TASK submit=1 index=0 core=0 amount=108 int_mask=0x300 "
                       "regcmd=0x[0-9a-f]+ words=112 pid=[0-9]+ tid=[0-9]+ time_ns=[0-9]+\n"
                       "    [0-9a-f]{16}\n    [0-9a-f]{16}\n")))
      << text.substr(0, 2000);
}

TEST_F(Shim, AFileIsReplacedAndAFilePerProcessHasItsNumber) {
  std::ofstream(path("cap")) << "of an earlier run";
  ASSERT_EQ(probe("work").code, 0);
  EXPECT_EQ(check_pairs(records()), 3U);
  ASSERT_EQ(probe("fork", {{"RKCHAIN_CAPTURE_FILE", path("%p.cap")}}).code, 0);
  std::size_t files = 0, submits = 0;
  for (const auto& entry : fs::directory_iterator(path(""))) {
    if (entry.path().extension() != ".cap") continue;
    files++;
    submits += check_pairs(parse_records(slurp(entry.path())));
  }
  EXPECT_EQ(files, 2U);
  EXPECT_EQ(submits, 6U);
}

// ---- what a program sees ----------------------------------------------------------

TEST_F(Shim, ResultsAndErrnoAreTheDrivers) {
  const Outcome bare = probe("transcript", {}, false);
  ASSERT_EQ(bare.code, 0);
  ASSERT_THAT(bare.out, HasSubstr("half: -1, errno 14"));
  for (const std::string depth : {"submits", "programs", "everything"}) {
    const Outcome under = probe("transcript", {{"RKCHAIN_CAPTURE_DEPTH", depth}});
    EXPECT_EQ(under.code, 0) << depth;
    EXPECT_EQ(under.out, bare.out) << depth;
    const Records all = records();
    check_pairs(all);
    std::set<std::uint32_t> missing;
    for (const CapturedRecord& record : of_kind(all, Kind::unseen))
      missing.insert(record.get<Unseen>().what);
    EXPECT_EQ(missing.count(static_cast<std::uint32_t>(Missing::argument)), 1U) << depth;
    if (depth == "submits") continue;
    EXPECT_EQ(missing.count(static_cast<std::uint32_t>(Missing::task_array)), 1U);
    EXPECT_EQ(missing.count(static_cast<std::uint32_t>(Missing::program)), 1U);
  }
}

TEST_F(Shim, NothingIsWrittenWhereItCannotBe) {
  const Outcome bare = probe("transcript", {}, false);
  for (const std::string file : {"/nowhere/at/all", "/dev/full"}) {
    const Outcome under = probe("transcript", {{"RKCHAIN_CAPTURE_FILE", file}});
    EXPECT_EQ(under.code, 0) << file;
    EXPECT_EQ(under.out, bare.out) << file;
  }
}

TEST_F(Shim, ClosedStandardErrorIsNotWrittenTo) {
  const Outcome before = probe("work", {{"RKCHAIN_CAPTURE_FILE", ""}}, true, "2>&-");
  EXPECT_EQ(before.code, 0);
  const Outcome later = probe("closed-stderr", {{"RKCHAIN_CAPTURE_FILE", ""}});
  EXPECT_EQ(later.out, "good\n");
  EXPECT_THAT(later.err, HasSubstr("=== SUBMIT"));
  const Outcome file = probe("closed-stderr");
  EXPECT_EQ(file.out, "good\n");
  EXPECT_EQ(check_pairs(records()), 4U);
}

TEST_F(Shim, ABrokenPipeIsNoSignalToTheProgram) {
  const Outcome outcome = probe("work", {{"RKCHAIN_CAPTURE_FILE", ""}}, true, "2>&1 | true");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(driver_submits(), 3U);
}

// ---- descriptors --------------------------------------------------------------------

TEST_F(Shim, ProgramsThatCloseEverything) {
  const Outcome outcome = probe("close-loop", {{"RKCHAIN_CAPTURE_DEPTH", "programs"}});
  EXPECT_EQ(outcome.out, "good\n");
  EXPECT_EQ(check_pairs(records()), 10U);
}

TEST_F(Shim, ProgramsThatTakeTheSinksNumber) {
  const Outcome outcome = probe("take-numbers");
  EXPECT_EQ(outcome.out, "good\n");
  EXPECT_EQ(check_pairs(records()), 5U);
}

TEST_F(Shim, FewDescriptors) {
  before_ = "ulimit -n 24; ";
  const Outcome outcome = probe("work");
  EXPECT_EQ(outcome.out, "good\n");
  EXPECT_EQ(check_pairs(records()), 3U);
}

// ---- processes ----------------------------------------------------------------------

TEST_F(Shim, Forks) {
  for (const std::string depth : {"submits", "everything"}) {
    const Outcome outcome = probe("fork", {{"RKCHAIN_CAPTURE_DEPTH", depth}});
    EXPECT_EQ(outcome.out, "good\n") << outcome.err;
    const Records all = records();
    EXPECT_EQ(check_pairs(all), 6U);
    const Records processes = of_kind(all, Kind::process);
    ASSERT_EQ(processes.size(), 2U);
    EXPECT_EQ(processes[1].get<Process>().begin, static_cast<std::uint32_t>(Begin::forked));
    EXPECT_EQ(processes[1].get<Process>().parent, processes[0].header.pid);
    EXPECT_EQ(of_kind(all, Kind::end).size(), 2U);
    EXPECT_TRUE(of_kind(all, Kind::unseen).empty());
    if (depth == "submits") continue;
    // What the child has of its parent is told again: those three buffers, and its own.
    std::size_t inherited = 0;
    for (const CapturedRecord& record : of_kind(all, Kind::buffer))
      inherited += record.get<Buffer>().existed;
    EXPECT_EQ(inherited, 3U);
  }
}

TEST_F(Shim, ForksPastTheHandlers) {
  const Outcome outcome = probe("raw-fork", {{"RKCHAIN_CAPTURE_DEPTH", "programs"}});
  EXPECT_EQ(outcome.out, "good\n");
  const Records all = records();
  EXPECT_EQ(check_pairs(all), 3U);
  EXPECT_EQ(of_kind(all, Kind::process).size(), 2U);
}

TEST_F(Shim, ChildrenThatShareMemory) {
  const Outcome outcome = probe("vfork");
  EXPECT_EQ(outcome.out, "good\ngood\n");
  const Records all = records();
  EXPECT_EQ(check_pairs(all), 5U);
  // The parent's node was never closed, so it was seen once.
  std::size_t nodes = 0;
  for (const CapturedRecord& record : of_kind(all, Kind::node))
    nodes += record.header.pid == all.front().header.pid ? 1 : 0;
  EXPECT_EQ(nodes, 1U);
}

TEST_F(Shim, ExecutedProgramsAppend) {
  const Outcome spawned = probe("spawn");
  EXPECT_EQ(spawned.out, "good\ngood\n");
  EXPECT_EQ(check_pairs(records()), 6U);
  const Outcome onward = probe("exec", {{"RKCHAIN_CAPTURE_FILE", "cap"}});
  EXPECT_EQ(onward.out, "good\n");
  const Records all = records();
  EXPECT_EQ(of_kind(all, Kind::process).size(), 2U);
  EXPECT_EQ(of_kind(all, Kind::submit).size(), 4U);
  const Outcome text = probe("spawn", {{"RKCHAIN_CAPTURE_FILE", ""}});
  EXPECT_EQ(text.out, "good\ngood\n");
  EXPECT_THAT(text.err, HasSubstr("PROCESS"));
}

TEST_F(Shim, AFileThatMayNotGrowKillsNobody) {
  ASSERT_EQ(probe("work").code, 0);
  before_ = "ulimit -f 1; ";
  const Outcome outcome = probe("work", {{"RKCHAIN_CAPTURE_DEPTH", "programs"}});
  EXPECT_EQ(outcome.out, "good\n");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_LE(bytes().size(), 1024U);
}

TEST_F(Shim, WhatIsLostIsTold) {
  ASSERT_EQ(
      probe("late-pipe", {{"RKCHAIN_CAPTURE_FILE", ""}, {"RKCHAIN_CAPTURE_FORMAT", "json"}}).code,
      0);
  const std::string text = slurp(path("err"));
  const std::regex lost("\"kind\":\"unseen\".*\"what\":5,\"value\":[1-9]");
  EXPECT_TRUE(std::regex_search(text, lost)) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("\"kind\":\"end\".*\"lost\":[1-9]"))) << text;
}

// ---- all at once ------------------------------------------------------------------------

struct Stress {
  std::string program;
  std::string depth;
  unsigned submits;
};

class Stressed : public Shim, public testing::WithParamInterface<Stress> {};

TEST_P(Stressed, NothingIsLostOrLeftOrStuck) {
  const Stress& param = GetParam();
  const Outcome outcome =
      run(param.program + " '" + path("node").string() + "' " + std::to_string(param.submits),
          {{"RKCHAIN_CAPTURE_DEPTH", param.depth},
           {"ASAN_OPTIONS", "verify_asan_link_order=0"},
           {"TSAN_OPTIONS", "die_after_fork=0:exitcode=66"}},
          param.program == "capture_stress");
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err.substr(0, 6000);
  EXPECT_EQ(outcome.err, "");
  unsigned long long cores[3], tasks, wrong, maps;
  int descriptors = 0;
  ASSERT_EQ(std::sscanf(outcome.out.c_str(),
                        "cores %llu %llu %llu tasks %llu wrong %llu descriptors %d mappings %llu",
                        &cores[0], &cores[1], &cores[2], &tasks, &wrong, &descriptors, &maps),
            7)
      << outcome.out;
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(descriptors, 0);
  EXPECT_EQ(maps, 0U);
  const Records all = records();
  EXPECT_EQ(check_pairs(all), param.submits);
  EXPECT_EQ(driver_submits(), param.submits);
  std::map<std::uint32_t, unsigned long long> masks;
  for (const CapturedRecord& record : of_kind(all, Kind::submit))
    masks[record.get<Submit>().argument.core_mask]++;
  EXPECT_EQ(masks, (std::map<std::uint32_t, unsigned long long>{
                       {1, cores[0]}, {2, cores[1]}, {4, cores[2]}}));
  EXPECT_TRUE(of_kind(all, Kind::unseen).empty());
  if (param.depth == "submits") return;
  EXPECT_EQ(of_kind(all, Kind::task).size(), tasks);
  EXPECT_EQ(of_kind(all, Kind::mapped).size(), of_kind(all, Kind::unmapped).size());
  EXPECT_EQ(of_kind(all, Kind::buffer).size(), of_kind(all, Kind::destroyed).size());
}

INSTANTIATE_TEST_SUITE_P(Plain, Stressed,
                         testing::Values(Stress{"capture_stress", "submits", 10000},
                                         Stress{"capture_stress", "programs", 10000},
                                         Stress{"capture_stress", "everything", 1000}),
                         [](const auto& info) { return info.param.depth; });

std::vector<Stress> sanitized() {
  std::vector<Stress> list;
  std::istringstream names(RKCHAIN_SANITIZED_STRESS);
  for (std::string name; names >> name;) {
    list.push_back({name, "submits", 2000});
    list.push_back({name, "everything", 400});
  }
  return list;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Stressed);
INSTANTIATE_TEST_SUITE_P(Sanitized, Stressed, testing::ValuesIn(sanitized()),
                         [](const auto& info) { return info.param.program + info.param.depth; });

}  // namespace
}  // namespace rkchain::test

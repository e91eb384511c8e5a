// SPDX-License-Identifier: MIT
// The commands for captures, started as a user would start them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "unit/capture_samples.hpp"
#include "unit/tool_runner.hpp"

namespace rkchain::tool_test {
namespace {

using namespace capture_test;

/// The number that a table has in the row of that name.
std::string cell(const std::string& table, const std::string& row) {
  const std::size_t at = table.find("\n" + row + " ");
  if (at == std::string::npos) return "no row";
  std::istringstream rest(table.substr(at + 1 + row.size()));
  std::string word;
  rest >> word;
  return word;
}

std::string shell(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "no pipe";
  char line[256];
  while (std::fgets(line, sizeof(line), pipe) != nullptr) text += line;
  pclose(pipe);
  return text;
}

std::string programs() {
  Writer writer(Format::binary);
  writer.submit(1, 1, 2, 10).task(1, 0, program(4)).task(1, 1, program(2));
  writer.submitted(1, 0, 20).submit(2, 2, 1, 30).task(2, 0, program(2, 3)).submitted(2, 0, 40);
  return writer.bytes();
}

// ---- report --------------------------------------------------------------------

TEST_F(Tool, ReportOfKnownNumbers) {
  for (const Format format : {Format::binary, Format::json, Format::text}) {
    const std::string capture = file("capture", counted_capture(format));
    const Outcome outcome = run({"report", capture});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(cell(outcome.out, "0x1"), "365") << outcome.out;
    EXPECT_EQ(cell(outcome.out, "0x2"), "365");
    EXPECT_EQ(cell(outcome.out, "0x4"), "309");
    EXPECT_EQ(cell(outcome.out, "0x7"), "0");
    EXPECT_EQ(cell(outcome.out, "3"), "588");
    EXPECT_EQ(cell(outcome.out, "6"), "448");
    EXPECT_EQ(cell(outcome.out, "21"), "3");
    EXPECT_TRUE(has(outcome.out, "Submits per core mask: 1039 submits")) << outcome.out;
    EXPECT_TRUE(has(outcome.out, "Round robin: ")) << outcome.out;
    const json report = run_json({"report", capture, "--json"});
    EXPECT_EQ(report["format"], name(format));
    EXPECT_EQ(report["total"]["cores"]["0x4"]["submits"], 309);
    EXPECT_EQ(report["total"]["tasks_per_submit"], json({{"3", 588}, {"6", 448}, {"21", 3}}));
    EXPECT_EQ(report["total"]["between"]["median_ns"], 1000);
  }
}

TEST_F(Tool, CountingLinesOfTextByHand) {
  const std::string log = file("cap.log", counted_capture(Format::text));
  EXPECT_EQ(shell("grep '=== SUBMIT' " + quoted(log) +
                  " | grep -oE 'core=0x[0-9a-f]+' | sort | uniq -c | tr -s ' '"),
            " 365 core=0x1\n 365 core=0x2\n 309 core=0x4\n");
}

TEST_F(Tool, ReportOfPrograms) {
  const std::string capture = file("capture.bin", programs());
  const Outcome text = run({"report", capture, "--processes"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(has(text.out, "int8_int32 flat, M 4, K 64, N 96") ||
              has(text.out, "i8_i32 flat, M 4, K 64, N 96"))
      << text.out;
  EXPECT_TRUE(has(text.out, "wait chain, S = 3, stride 110, body 108")) << text.out;
  EXPECT_TRUE(has(text.out, "==== process 12")) << text.out;
  const json report = run_json({"report", capture, "--json"});
  EXPECT_EQ(report["total"]["programs"]["programs"], 5);
  EXPECT_EQ(report["total"]["programs"]["shapes"].size(), 2U);
  EXPECT_EQ(run_json({"report", "--json", capture, "--pid", "12"})["total"]["submits"], 2);
  refuses({"report", capture, "--pid", "13"}, 2, {"--pid", "13"});
}

TEST_F(Tool, ReportDraws) {
  const std::string capture = file("capture.bin", counted_capture(Format::binary));
  const Outcome outcome = run({"report", capture, "--svg", path("out.svg").string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string svg = read(path("out.svg"));
  EXPECT_EQ(svg.rfind("<?xml", 0), 0U);
  EXPECT_TRUE(has(svg, "Time between submits"));
  refuses({"report", capture, "--svg", "/no/such/out.svg"}, 2, {"/no/such/out.svg"});
}

TEST_F(Tool, ReportRefuses) {
  const std::string good = programs();
  const std::string cut = file("cut.bin", good.substr(0, good.size() - 5));
  refuses({"report", cut}, 2, {"cut.bin", fmt::format("offset {:#x}", good.size() - 5)});
  const Outcome part = run({"report", cut, "--partial"});
  EXPECT_EQ(part.code, 0) << part.err;
  EXPECT_TRUE(has(part.out, "before the damage")) << part.out;
  refuses({"report", "/no/such/file"}, 2, {"/no/such/file", "No such file"});
  refuses({"report"}, 2, {"FILE"});
  const Outcome piped = run({"report", "-", "--json"}, good);
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(json::parse(piped.out)["file"], "standard input");
  refuses({"report", "-"}, 2, {"standard input", "empty"});
}

TEST_F(Tool, ReportConverts) {
  const std::string capture = file("capture.bin", programs());
  const std::string lines = path("capture.json").string(), back = path("back.bin").string();
  const std::string text = path("capture.txt").string();
  EXPECT_EQ(run({"report", capture, "--convert", lines}).code, 0);
  EXPECT_EQ(read(lines)[0], '{');
  EXPECT_EQ(run({"report", lines, "--convert", back}).code, 0);
  EXPECT_EQ(read(back), programs());
  EXPECT_EQ(run({"report", back, "--convert", text}).code, 0);
  EXPECT_TRUE(has(read(text), "=== SUBMIT core=0x1 task_number=2"));
  EXPECT_EQ(run_json({"report", text, "--json"})["total"]["programs"]["programs"], 5);
  const Outcome out = run({"report", capture, "--convert", "-", "--format", "text"});
  EXPECT_EQ(out.out, read(text));
  refuses({"report", capture, "--convert", "x", "--format", "xml"}, 2, {"--format", "xml", "json"});
  refuses({"report", capture, "--convert", "/no/such/out"}, 2, {"/no/such/out"});
  refuses({"report", "-", "--convert", "x"}, 2, {"standard input", "twice"});
  refuses({"report", "/no/such/file", "--convert", "x"}, 2, {"/no/such/file", "No such file"});
}

// ---- dump ----------------------------------------------------------------------

TEST_F(Tool, DumpOfACapture) {
  for (const char* name : {"capture.bin", "capture.json", "capture.txt"}) {
    const std::string capture = path(name).string();
    ASSERT_EQ(run({"report", file("from.bin", programs()), "--convert", capture}).code, 0);
    const Outcome all = run({"dump", capture, "--summary"});
    EXPECT_EQ(all.code, 0) << all.err;
    EXPECT_TRUE(has(all.out, "submit 1 of process 12, task 0, any core, at 0x10000")) << all.out;
    EXPECT_TRUE(has(all.out, "M 4, K 64, N 96")) << all.out;
    const json dump = run_json({"dump", capture, "--json"});
    ASSERT_EQ(dump["programs"].size(), 3U);
    EXPECT_EQ(dump["programs"][2]["submit"], 2);
    EXPECT_EQ(dump["programs"][2]["chain"]["S"], 3);
  }
  const std::string capture = file("c.bin", programs());
  const json one = run_json({"dump", capture, "--json", "--submit", "1", "--task", "1"});
  ASSERT_EQ(one["programs"].size(), 1U);
  EXPECT_EQ(one["programs"][0]["blocks"][0]["matmul"]["M"], 2);
  refuses({"dump", capture, "--submit", "7", "--summary"}, 2, {"no program of that submit"});
  refuses({"dump", vector_file, "--submit", "7"}, 2, {"--submit"});
  refuses({"dump", "-"}, 2, {"standard input", "a file only"}, programs());
  refuses({"dump", file("cut.bin", programs().substr(0, 100)), "--summary"}, 2, {"offset"});
  Writer foreign(Format::binary);
  foreign.submit(1, 1, 1, 1).task(1, 0, {1, 2, 3});
  refuses({"dump", file("f.bin", foreign.bytes()), "--summary"}, 1, {"1 of 1 programs"});
}

TEST_F(Tool, DumpCompares) {
  std::vector<std::uint64_t> words = program(4);
  const std::string a = file("a.bin", raw(words));
  EXPECT_EQ(run({"dump", a, "--diff", a}).code, 0);
  const Outcome shapes = run({"dump", a, "--diff", file("b.bin", raw(program(2)))});
  EXPECT_EQ(shapes.code, 1);
  EXPECT_TRUE(has(shapes.out, "DATA_SIZE0")) << shapes.out;
  EXPECT_TRUE(has(shapes.out, "=4")) << shapes.out;

  // Another order is the same in the end; what is written twice counts as the last says.
  std::swap(words[20], words[40]);
  words.insert(words.begin(), words[8] ^ 0x70000);
  const Outcome order = run({"dump", a, "--diff", file("c.bin", raw(words))});
  EXPECT_EQ(order.code, 0) << order.out;
  EXPECT_TRUE(has(order.out, "order of registers differs")) << order.out;

  std::vector<std::uint64_t> less = program(4);
  const std::uint64_t gone = less[20];
  less.erase(less.begin() + 20);
  const json only = run_json({"dump", a, "--json", "--diff", file("d.bin", raw(less))}, 1);
  ASSERT_EQ(only["blocks"][0]["registers"].size(), 1U);
  EXPECT_EQ(only["blocks"][0]["registers"][0]["register"], fmt::format("{:#06x}", gone & 0xffff));
  EXPECT_TRUE(only["blocks"][0]["registers"][0].contains("A"));
  EXPECT_FALSE(only["blocks"][0]["registers"][0].contains("B"));
  EXPECT_EQ(only["same"], false);
}

TEST_F(Tool, DumpComparesCaptures) {
  const std::string capture = file("c.bin", programs());
  const std::string same = file("a.bin", raw(program(4)));
  EXPECT_EQ(run({"dump", capture, "--submit", "1", "--task", "0", "--diff", same}).code, 0);
  EXPECT_EQ(run({"dump", same, "--submit", "1", "--task", "1", "--diff", capture}).code, 1);
  refuses({"dump", capture, "--diff", same}, 2, {"3 programs", "--submit"});
  const json chain = run_json(
      {"dump", capture, "--submit", "2", "--json", "--diff", file("w.bin", raw(program(2, 4)))}, 1);
  EXPECT_EQ(chain["blocks_A"], 3);
  EXPECT_EQ(chain["blocks_B"], 4);
}

// ---- capture -------------------------------------------------------------------

class CaptureTool : public Tool {
 protected:
  CaptureTool() {
    // Any file: what is not a library is passed over by the loader, with a word on standard error.
    setenv("RKCHAIN_CAPTURE_LIBRARY", file("lib.so", "").c_str(), 1);
  }
  ~CaptureTool() override { unsetenv("RKCHAIN_CAPTURE_LIBRARY"); }

  Outcome capture(const Args& command, const Args& options = {}) const {
    Args args{"capture", "-o", path("cap.bin").string()};
    args.insert(args.end(), options.begin(), options.end());
    args.emplace_back("--");
    args.insert(args.end(), command.begin(), command.end());
    return run(args);
  }
};

TEST_F(CaptureTool, RunsTheProgramAsItIs) {
  const Outcome seven = capture({"/bin/sh", "-c", "echo out; exit 7"});
  EXPECT_EQ(seven.code, 7);
  EXPECT_EQ(seven.out, "out\n");
  EXPECT_EQ(capture({"/bin/sh", "-c", "kill -9 $$"}).code, 128 + 9);
  EXPECT_EQ(capture({"/bin/sh", "-c", "kill -PIPE $$"}).code, 128 + 13);
  // Its options are its own.
  EXPECT_EQ(capture({"/bin/echo", "--json", "-o", "info"}).out, "--json -o info\n");
}

TEST_F(CaptureTool, SetsWhatTheLibraryReads) {
  setenv("LD_PRELOAD", "", 1);
  const Args show{"/bin/sh", "-c",
                  "echo $LD_PRELOAD $RKCHAIN_CAPTURE_FILE $RKCHAIN_CAPTURE_FORMAT "
                  "$RKCHAIN_CAPTURE_DEPTH"};
  EXPECT_EQ(capture(show).out,
            path("lib.so").string() + " " + path("cap.bin").string() + " binary programs\n");
  EXPECT_TRUE(
      has(capture(show, {"--format", "json", "--depth", "everything"}).out, " json everything\n"));
  setenv("LD_PRELOAD", "/other.so", 1);
  EXPECT_EQ(capture(show).out.rfind(path("lib.so").string() + ":/other.so ", 0), 0U);
  unsetenv("LD_PRELOAD");
}

TEST_F(CaptureTool, TellsTotals) {
  Writer writer(Format::binary);
  writer.add(Kind::process, Process{}, 1, std::string("x\0", 2));
  writer.submit(1, 2, 3, 10).submitted(1, -110, 20);
  writer.add(Kind::unseen, Unseen{}, 30, "a buffer");
  const std::string ready = file("ready.bin", writer.bytes());
  const Outcome outcome =
      capture({"/bin/sh", "-c", "cp " + quoted(ready) + " $RKCHAIN_CAPTURE_FILE"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome.err,
                  "1 submits (0x1 0, 0x2 1, 0x4 0, 0x7 0), 3 tasks, 1 failed, 1 not "
                  "seen, 0 lost"))
      << outcome.err;
  EXPECT_TRUE(has(outcome.err, fmt::format("{} bytes", writer.bytes().size()))) << outcome.err;
  EXPECT_FALSE(has(outcome.err, "not captured")) << outcome.err;
}

TEST_F(CaptureTool, TellsWhatWasNotCaptured) {
  // What was there before is not taken for what has been captured.
  write(path("cap.bin"), counted_capture(Format::binary));
  const Outcome none = capture({"/bin/true"});
  EXPECT_EQ(none.code, 0);
  EXPECT_TRUE(has(none.err, "linked statically")) << none.err;
  EXPECT_FALSE(fs::exists(path("cap.bin")));
}

TEST_F(CaptureTool, PassesSignalsOn) {
  const std::string script =
      "trap 'echo got; exit 3' TERM; kill -TERM $PPID; i=0; "
      "while [ $i -lt 200 ]; do sleep 0.1; i=$((i+1)); done";
  const Outcome outcome = capture({"/bin/sh", "-c", script});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "got\n");
}

TEST_F(CaptureTool, Refuses) {
  const Outcome gone = capture({"/no/such/program"});
  EXPECT_EQ(gone.code, 127);
  EXPECT_TRUE(has(gone.err, "/no/such/program: No such file")) << gone.err;
  const Outcome denied = capture({file("text", "no program")});
  EXPECT_EQ(denied.code, 126);
  EXPECT_TRUE(has(denied.err, "Permission denied")) << denied.err;
  refuses({"capture"}, 2, {"CMD"});
  refuses({"capture", "--depth", "all", "--", "true"}, 2, {"--depth", "everything"});
  refuses({"capture", "--format", "xml", "--", "true"}, 2, {"--format", "xml"});
  refuses({"capture", "-o", "/no/such/file", "--", "true"}, 2, {"/no/such"});
  refuses({"capture", "-o", path("").string(), "--", "true"}, 2, {"directory"});
  setenv("RKCHAIN_CAPTURE_LIBRARY", "/no/lib.so", 1);
  refuses({"capture", "--", "true"}, 1, {"RKCHAIN_CAPTURE_LIBRARY", "/no/lib.so"});
  setenv("RKCHAIN_CAPTURE_LIBRARY", file("a b.so", "").c_str(), 1);
  refuses({"capture", "--", "true"}, 1, {"blanks"});
}

}  // namespace
}  // namespace rkchain::tool_test

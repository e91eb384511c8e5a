// SPDX-License-Identifier: MIT
// The command line tool, started as a user would start it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kmod/core/chain.h"
#include "unit/tool_runner.hpp"

namespace rkchain::tool_test {
namespace {

/// A chain of S small matmuls.
std::vector<std::uint64_t> chain(rkc_mode mode, std::uint32_t count) {
  std::vector<rkc_matmul> blocks(count);
  for (std::uint32_t i = 0; i < count; i++) {
    blocks[i].m = blocks[i].m_total = 1 + i;
    blocks[i].k = 64;
    blocks[i].n = 96;
    blocks[i].a = 0x10000 * (i + 1);
    blocks[i].b = 0x1000000 + 0x10000 * i;
    blocks[i].c = 0x2000000 + 0x10000 * i;
  }
  rkc_measure measure{};
  rkc_chain_measure(mode, count, &measure, nullptr);
  std::vector<u64> words(measure.words);
  rkc_chain_emit(mode, blocks.data(), count, 0x40000000, words.data(), nullptr);
  return {words.begin(), words.end()};
}

const Args regcmd_4x32x32 = {"regcmd",     "4",   "32",         "32",  "--a",
                             "0xfffe8000", "--b", "0xfffec000", "--c", "0xfffea000"};

Args with(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// ---- the line itself -------------------------------------------------------------

TEST_F(Tool, VersionAndHelp) {
  EXPECT_EQ(run({"--version"}).out, "rkchain " RKCHAIN_VERSION "\n");
  EXPECT_EQ(run({"--help"}).code, 0);
  for (const char* command :
       {"demo", "info", "run", "regcmd", "dump", "vector", "bench", "provide"}) {
    const Outcome help = run({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_TRUE(has(help.out, "Examples:")) << command;
    EXPECT_TRUE(has(help.out, "--json")) << command;
    EXPECT_EQ(help.err, "") << command;
  }
}

TEST_F(Tool, Usage) {
  EXPECT_EQ(run({}).code, 2);
  refuses({"run", "--frobnicate"}, 2, {"rkchain run: ", "--frobnicate"});
  refuses({"--frobnicate", "info"}, 2, {"--frobnicate"});
  refuses({"nothing"}, 2, {"nothing"});
  refuses({"run", "1", "2"}, 2, {"rkchain run: ", "N"});
  refuses({"regcmd", "4", "32", "32"}, 2, {"rkchain regcmd: ", "--a"});
  refuses({"dump"}, 2, {"rkchain dump: ", "FILE"});
  refuses({"vector"}, 2, {"rkchain vector: ", "FILE"});
  refuses({"bench", "nothing"}, 2, {"nothing", "build, pack, model, submit, all"});
}

TEST_F(Tool, OutputThatNobodyReads) {
  const Args args = with(regcmd_4x32x32, {});
  const std::string out = " | head -n 1 >" + quoted(path("out"));
  const Outcome head = run(args, "", out);
  EXPECT_EQ(head.code, 0);
  EXPECT_EQ(lines(head.out), 1U);
  EXPECT_EQ(head.err, "");
  // Much more than a pipe holds.
  const std::string program = file("long.bin", raw(chain(RKC_WAIT, 200)));
  const Outcome gone = run({"dump", program}, "", " | head -n 1 >" + quoted(path("out")));
  EXPECT_EQ(gone.code, 0);
  EXPECT_EQ(gone.err, "");
  const Outcome full = run(args, "", " >/dev/full");
  EXPECT_EQ(full.code, 1);
  EXPECT_TRUE(has(full.err, "standard output")) << full.err;
}

// ---- info -----------------------------------------------------------------------

TEST_F(Tool, Info) {
  const Outcome text = run({"--model", "info"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(has(text.out, "software NPU")) << text.out;
  const json info = run_json({"info", "--json", "--model"});
  EXPECT_EQ(info["backend"], "model");
  EXPECT_EQ(info["model"], true);
  EXPECT_EQ(info["cores"], 3);
  EXPECT_EQ(info["mode"], "wait");
  EXPECT_EQ(info["task_limits"]["wait_blocks_max"], 1191);
  const Outcome none = run({"info"});
  if (none.code != 0) {
    EXPECT_EQ(none.code, 1);
    EXPECT_EQ(none.err.rfind("rkchain info: ", 0), 0U) << none.err;
    EXPECT_EQ(none.out, "");
  }
}

// ---- provide --------------------------------------------------------------------

TEST_F(Tool, ProvideRefuses) {
  refuses({"provide", "/dev/dri/renderD129", "--release"}, 2, {"rkchain provide: ", "--release"});
  // Not the module of this machine.
  ASSERT_EQ(setenv("RKCHAIN_DEVICE", path("rkchain").c_str(), 1), 0);
  refuses({"provide"}, 1, {"rkchain provide: ", "no " + path("rkchain").string(), "modprobe"});
  ASSERT_EQ(setenv("RKCHAIN_DEVICE", file("no-device", "").c_str(), 1), 0);
  refuses({"provide", "--release"}, 1, {"rkchain provide: "});
  ASSERT_EQ(unsetenv("RKCHAIN_DEVICE"), 0);
}

// ---- regcmd ---------------------------------------------------------------------

TEST_F(Tool, RegcmdIsTheCapturedProgram) {
  const Outcome text = run(with(regcmd_4x32x32, {"--type", "i8", "--layout", "flat"}));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.out, joined(silicon_words()));
  const json object = run_json(with(regcmd_4x32x32, {"--json"}));
  EXPECT_EQ(object["regcmd"], silicon()["regcmd"]);
  // Decimal addresses, the body alone, a raw file.
  const std::string binary = path("program").string();
  const Outcome body = run({"regcmd", "4", "32", "32", "--a", "4294868992", "--b", "4294885376",
                            "--c", "4294877184", "--body", "--binary", binary});
  EXPECT_EQ(body.code, 0) << body.err;
  EXPECT_EQ(body.out, "");
  EXPECT_EQ(read(binary), raw(numbers(silicon_words())).substr(0, 8 * 108));
}

TEST_F(Tool, RegcmdTypesAndLayouts) {
  for (const char* type : {"i8", "i8i8", "f16", "f16f16"})
    for (const char* layout : {"flat", "native"}) {
      const Outcome words = run({"regcmd", "4", "64", "96", "--type", type, "--layout", layout,
                                 "--a", "0x10000", "--b", "0x20000", "--c", "0x30000"});
      EXPECT_EQ(words.code, 0) << words.err;
      EXPECT_EQ(lines(words.out), 112U);
      const Outcome dump = run({"dump", "-", "--json", "--summary"}, words.out);
      EXPECT_EQ(dump.code, 0) << dump.err;
      const json matmul = json::parse(dump.out)["blocks"][0]["matmul"];
      EXPECT_EQ(matmul["layout"], layout);
      EXPECT_EQ(matmul["M"], 4);
      EXPECT_EQ(matmul["K"], 64);
      EXPECT_EQ(matmul["N"], 96);
    }
  const Outcome one = run({"dump", "-"}, run({"regcmd", "1", "64", "96", "--layout", "native",
                                              "--a", "0x10000", "--b", "0x20000", "--c", "0x30000"})
                                             .out);
  EXPECT_TRUE(has(one.out, "surf_stride_signed=-3")) << one.out;
  const Outcome slice = run({"regcmd", "4", "64", "96", "--layout", "native", "--rows-total", "64",
                             "--a", "0x10000", "--b", "0x20000", "--c", "0x30000"});
  const Outcome dump = run({"dump", "-", "--json", "--summary"}, slice.out);
  EXPECT_EQ(json::parse(dump.out)["blocks"][0]["matmul"]["rows_total"], 64);
}

TEST_F(Tool, RegcmdLimits) {
  const Args at = {"--a", "0x1000", "--b", "0x100000", "--c", "0x8000000"};
  const auto refused = [&](const Args& shape, const std::vector<std::string>& words) {
    Args args = {"regcmd"};
    args.insert(args.end(), shape.begin(), shape.end());
    refuses(with(args, at), 2, words);
  };
  refused({"0", "32", "32"}, {"M = 0", "at least 1"});
  refused({"1", "0", "32"}, {"K = 0", "10752"});
  refused({"1", "33", "32"}, {"K = 33", "32"});
  refused({"1", "10784", "32"}, {"K = 10784", "10752"});
  refused({"1", "32", "0"}, {"N = 0", "8192"});
  refused({"1", "32", "16"}, {"N = 16", "32"});
  refused({"1", "32", "8224"}, {"N = 8224", "8192"});
  refused({"705", "512", "32"}, {"M = 705", "704"});
  refused({"17", "1024", "32", "--type", "f16"}, {"M = 17", "16"});
  refused({"4294967296", "32", "32"}, {"M", "4294967296", "4294967295"});
  refused({"99999999999999999999999", "32", "32"}, {"M", "limits"});
  refused({"0x", "32", "32"}, {"M", "'0x'"});
  refused({"four", "32", "32"}, {"M", "'four'"});
  refused({"4", "32", "32", "--type", "i4"}, {"--type", "i4", "f16f16"});
  refused({"4", "32", "32", "--layout", "round"}, {"--layout", "round", "native"});
  refused({"4", "32", "32", "--rows-total", "64"}, {"--rows-total", "native"});
  refused({"4", "32", "32", "--rows-total", "3", "--layout", "native"}, {"--rows-total = 3"});
  const auto refused_at = [&](const std::string& name, const std::string& value,
                              const std::vector<std::string>& words) {
    Args args = {"regcmd", "4", "32", "32"};
    for (const char* other : {"--a", "--b", "--c"})
      args = with(args, {other, other == name ? value : "0x1000"});
    refuses(args, 2, words);
  };
  for (const char* name : {"--a", "--b", "--c"}) {
    refused_at(name, "0x1008", {std::string(name) + " = 0x1008", "multiple of 16"});
    refused_at(name, "0xfffffff0", {name, "4 GiB"});
    refused_at(name, "0x100000000", {name, "0xffffffff"});
    refused_at(name, "here", {name, "'here'"});
  }
  refuses(with(regcmd_4x32x32, {"--binary", "/no/such/folder/file"}), 1, {"/no/such/folder/file"});
}

// ---- dump -----------------------------------------------------------------------

TEST_F(Tool, DumpOfTheCapturedProgramInEveryForm) {
  const std::vector<std::string> words = silicon_words();
  std::string hex32, prefixed, xxd, hexdump, plain;
  std::vector<std::uint64_t> values = numbers(words);
  for (std::size_t i = 0; i < words.size(); i++) {
    hex32 += words[i].substr(8) + " " + words[i].substr(0, 8) + "\n";
    prefixed +=
        "[" + std::to_string(i) + "] 0x" + words[i] + ",  // word " + std::to_string(i) + "\n";
  }
  const std::string bytes = raw(values);
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    xxd += fmt::format("{:08x}:", at);
    hexdump += fmt::format("{:08x} ", at);
    for (std::size_t i = at; i < at + 16; i++) {
      const std::string byte = fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
      xxd += (i % 2 == 0 ? " " : "") + byte;
      hexdump += (i % 8 == 0 ? "  " : " ") + byte;
      plain += byte;
    }
    // As text, bytes may look like comments.
    xxd += "  ..#.//;.........\n";
    hexdump += "  |..#.//;.........|\n";
    plain += at / 16 % 2 == 1 ? "\n" : "";
  }
  hexdump += "00000380\n";
  struct Form {
    const char* format;
    std::string bytes;
  };
  const Form forms[] = {{"raw", bytes},
                        {"hex64", joined(words)},
                        {"hex64", prefixed},
                        {"hex32", hex32},
                        {"xxd", xxd},
                        {"xxd", hexdump},
                        {"xxd", plain + "\n"},
                        {"json", read(vector_file)},
                        {"json", json(words).dump()}};
  for (const Form& form : forms) {
    for (const char* asked : {"auto", form.format}) {
      const Outcome outcome =
          run({"dump", file("program", form.bytes), "--json", "--format", asked});
      ASSERT_EQ(outcome.code, 0) << form.format << ": " << outcome.err;
      const json dump = json::parse(outcome.out);
      EXPECT_EQ(dump["format"], form.format);
      EXPECT_EQ(dump["words"], 112) << form.format;
      ASSERT_EQ(dump["blocks"].size(), 1U);
      const json& block = dump["blocks"][0];
      EXPECT_EQ(block["matmul"]["type"], "i8_i32");
      EXPECT_EQ(block["matmul"]["C"]["address"], "0xfffea000");
      EXPECT_EQ(block["matmul"]["C"]["bytes"], 512);
      for (std::size_t i = 0; i < words.size(); i++)
        EXPECT_EQ(block["words"][i]["entry"], words[i]);
      EXPECT_EQ(block["words"][8]["name"], "DATA_SIZE0");
      EXPECT_EQ(block["words"][8]["fields"]["height"], 4);
    }
  }
  const Outcome text = run({"dump", vector_file});
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(has(text.out, "i8_i32 flat, M 4, K 32, N 32")) << text.out;
  EXPECT_TRUE(has(text.out, "FEATURE_DATA_ADDR")) << text.out;
}

TEST_F(Tool, DumpOfChains) {
  for (const rkc_mode mode : {RKC_WAIT, RKC_WAIT41, RKC_LINK, RKC_SINGLE}) {
    const std::string program = file("chain", raw(chain(mode, 5)));
    const json dump = run_json({"dump", program, "--json"});
    EXPECT_EQ(dump["chain"]["mode"], rkc_mode_name(mode));
    EXPECT_EQ(dump["chain"]["S"], 5);
    EXPECT_EQ(dump["chain"]["stride"], mode == RKC_WAIT || mode == RKC_WAIT41 ? 110 : 112);
    ASSERT_EQ(dump["blocks"].size(), 5U);
    for (std::size_t i = 0; i < 5; i++) EXPECT_EQ(dump["blocks"][i]["matmul"]["M"], i + 1);
    if (mode == RKC_LINK) {
      EXPECT_EQ(dump["chain"]["links_in_place"], true);
      EXPECT_EQ(dump["blocks"][0]["next"], "0x40000380");
    }
  }
}

TEST_F(Tool, DumpOfWhatIsNoProgram) {
  const std::string good = raw(chain(RKC_WAIT, 3));
  refuses({"dump", file("f", good.substr(0, 803))}, 2, {"803 bytes", "offset 800"});
  refuses({"dump", file("f", "")}, 2, {"no words"});
  refuses({"dump", "/no/such/file"}, 2, {"/no/such/file", "No such file"});
  refuses({"dump", path(".").string()}, 2, {"directory"});
  refuses({"dump", file("f", joined(silicon_words()) + "0201zzzz00000000\n")}, 2,
          {":113:", "0201zzzz00000000"});
  refuses({"dump", file("f", "00b11040 02010000\n00001104\n")}, 2, {":2:", "odd number"});
  refuses({"dump", file("f", "00000000: 4010 b100 0000 0102\n*\n00000010: 4010\n")}, 2,
          {":2:", "left out"});
  refuses({"dump", file("f", "00000000: 4010 b100 0000 0102\n00000010: 4010\n")}, 2,
          {":2:", "0x10", "0x8"});
  refuses({"dump", file("f", "{\"regcmd\": [1, 2")}, 2, {"line 1"});
  refuses({"dump", file("f", "{\"programs\": []}")}, 2, {"regcmd", "missing"});
  refuses({"dump", file("f", "{\"regcmd\": [\"0201000000b11040\", \"xyz\"]}")}, 2, {"regcmd[1]"});
  refuses({"dump", file("f", "{\"regcmd\": 7}")}, 2, {"regcmd"});
  refuses({"dump", vector_file, "--format", "cbor"}, 2, {"--format", "cbor", "hex64"});
  const std::string big = path("big").string();
  write(big, "");
  fs::resize_file(big, (std::uintmax_t{64} << 20) + 8);
  refuses({"dump", big}, 2, {"67108864"});

  // Words, and no matmul: everything is shown, and the reason.
  const auto bad = [&](const std::string& bytes, const std::vector<std::string>& words) {
    const std::string program = file("f", bytes);
    const Outcome outcome = run({"dump", program});
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_TRUE(has(outcome.out, "no matmul")) << outcome.out;
    refuses({"dump", program, "--summary"}, 1, words);
    const json dump = run_json({"dump", program, "--json"}, 1);
    EXPECT_EQ(dump["understood"], false);
  };
  bad(good.substr(0, 8 * 60), {"block 0"});
  bad(good.substr(0, 8 * 250), {"block 2"});
  std::vector<std::uint64_t> words = chain(RKC_WAIT, 3);
  words[110 + 12] += 0x10000;  // 0x1030 of block 1
  bad(raw(words), {"block 1, word 12", "0x1030"});
  std::string noise;
  for (int i = 0; i < 800; i++) noise += static_cast<char>(i * 37 % 251);
  bad(noise, {});
  bad(std::string(64, '\0'), {});
}

// ---- run ------------------------------------------------------------------------

TEST_F(Tool, RunEveryTypeAndLayout) {
  for (const char* type : {"i8", "i8i8", "f16", "f16f16"})
    for (const char* layout : {"flat", "native"}) {
      const Outcome outcome = run(
          {"--model", "run", "3", "100", "70", "--type", type, "--layout", layout, "--chain", "3"});
      EXPECT_EQ(outcome.code, 0) << type << ' ' << layout << ": " << outcome.err;
      EXPECT_EQ(last_line(outcome.out), "3 x 3 x 100 x 70: all 630 elements equal");
    }
  const Outcome fractions =
      run({"--model", "run", "2", "64", "32", "--type", "f16", "--fractions"});
  EXPECT_EQ(fractions.code, 0) << fractions.err;
  EXPECT_TRUE(has(last_line(fractions.out), "within the tolerance")) << fractions.out;
}

TEST_F(Tool, RunModesStrategiesAndCores) {
  for (const char* mode : {"wait", "wait41", "link", "single"})
    for (const char* strategy : {"rotate", "split", "fan-out"}) {
      const json result = run_json({"run", "2", "256", "192", "--chain", "4", "--mode", mode,
                                    "--strategy", strategy, "--repeat", "5", "--model", "--json"});
      EXPECT_EQ(result["equal"], true);
      EXPECT_EQ(result["mode"], mode);
      EXPECT_EQ(result["elements"], 5 * 4 * 2 * 192);
      EXPECT_GE(result["plan"]["blocks"], 4);
      EXPECT_EQ(result["interrupts"], result["submits"]);
    }
  const json one = run_json({"--model", "run", "1", "64", "64", "--chain", "2", "--repeat", "6",
                             "--cores", "1", "--json"});
  EXPECT_EQ(one["cores"][1]["chains"], 6);
  EXPECT_EQ(one["cores"][0]["chains"], 0);
  const json two = run_json({"--model", "run", "1", "64", "64", "--chain", "2", "--repeat", "6",
                             "--cores", "0x5", "--json"});
  EXPECT_EQ(two["cores"][1]["chains"], 0);
  EXPECT_EQ(two["cores"][0]["chains"].get<int>() + two["cores"][2]["chains"].get<int>(), 6);
}

TEST_F(Tool, RunRefuses) {
  refuses({"--model", "run", "0", "32", "32"}, 2, {"M: 0"});
  refuses({"--model", "run", "1", "0", "32"}, 2, {"K: 0"});
  refuses({"--model", "run", "1", "200000", "32"}, 2, {"K: 200000", "131071"});
  refuses({"--model", "run", "99999999999", "32", "32"}, 2, {"M", "99999999999", "1048576"});
  refuses({"--model", "run", "1048576", "131071", "1"}, 2, {"A (M * K)", "1,073,741,824"});
  refuses({"--model", "run", "1", "4096", "4096", "--chain", "65535"}, 2, {"--chain"});
  refuses({"--model", "run", "1", "32", "32", "--chain", "0"}, 2, {"--chain", "0"});
  refuses({"--model", "run", "1", "32", "32", "--cores", "3"}, 2, {"--cores", "3"});
  refuses({"--model", "run", "1", "32", "32", "--cores", "0x8"}, 2, {"--cores", "0x7"});
  refuses({"--model", "run", "1", "32", "32", "--cores", "0,,1"}, 2, {"--cores"});
  refuses({"--model", "run", "1", "32", "32", "--mode", "jump"}, 2, {"--mode", "jump", "link"});
  refuses({"--model", "run", "1", "32", "32", "--strategy", "all"}, 2, {"--strategy", "fan-out"});
  refuses({"--model", "run", "1", "32", "32", "--repeat", "-1"}, 2, {"--repeat"});
  refuses({"--model", "run", "1", "32", "32", "--fractions"}, 2, {"--fractions", "fp16"});
}

// ---- demo -----------------------------------------------------------------------

TEST_F(Tool, Demo) {
  const Outcome text = run({"demo", "--model", "--layers", "2"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(last_line(text.out), "demo: PASS");
  EXPECT_TRUE(has(text.out.substr(0, text.out.find('\n')), "software NPU")) << text.out;
  EXPECT_TRUE(has(text.out, "\nC0 = 32\nC1 = 64\n")) << text.out;
  EXPECT_TRUE(has(text.out, "\nint8_4x32x32: 128/128\n")) << text.out;
  EXPECT_TRUE(has(text.out, "\nint8_4x32x32: 128/128 as the last block")) << text.out;
  EXPECT_EQ(text.err, "");
}

TEST_F(Tool, DemoOnTheBackEndThatWasAskedFor) {
  const Outcome nonsense = run({"demo"}, "", "", "abacus");
  EXPECT_EQ(nonsense.code, 2);
  EXPECT_TRUE(has(nonsense.err, "abacus")) << nonsense.err;
  // Never the model instead of what was named.
  const Outcome named = run({"demo", "--layers", "1"}, "", "", "kmod");
  if (named.code != 0) {
    EXPECT_EQ(named.code, 1);
    EXPECT_EQ(last_line(named.out), "demo: FAIL");
  }
  EXPECT_FALSE(has(named.out, "software NPU")) << named.out;
  const Outcome model = run({"demo", "--layers", "1"}, "", "", "model");
  EXPECT_EQ(last_line(model.out), "demo: PASS");
}

TEST_F(Tool, DemoCounts) {
  const json wait = run_json({"demo", "--model", "--layers", "2", "--json"});
  EXPECT_EQ(wait["pass"], true);
  EXPECT_EQ(wait["model"], true);
  ASSERT_EQ(wait["layers"].size(), 2U);
  for (const json& layer : wait["layers"]) {
    EXPECT_EQ(layer["chains"], 8);
    EXPECT_EQ(layer["tasks"], 14);
    EXPECT_EQ(layer["submits"], 8);
    EXPECT_EQ(layer["saved"], 6);
    EXPECT_EQ(layer["elements"], 2 * (2048 + 2 * 1024 + 1024 + 2 * 3072 + 1024));
    EXPECT_EQ(layer["equal"], layer["elements"]);
  }
  std::uint64_t tasks = 0;
  for (const json& core : wait["total"]["cores"]) {
    EXPECT_GT(core["tasks"], 0);
    tasks += core["tasks"].get<std::uint64_t>();
  }
  EXPECT_EQ(tasks, 28U);
  const json single = run_json({"demo", "--model", "--layers", "1", "--mode", "single", "--json"});
  EXPECT_EQ(single["total"]["submits"], 14);
  EXPECT_EQ(single["total"]["saved"], 0);
}

// ---- bench ----------------------------------------------------------------------

TEST_F(Tool, SelftestOfEverySilicon) {
  struct Case {
    const char* silicon;
    const char* wait;
    const char* wait41;
    const char* link;
    const char* single;
    const char* chosen;
  };
  constexpr const char* kWorks = "works";
  constexpr const char* kEarly = "completes early";
  constexpr const char* kWrong = "output wrong";
  constexpr const char* kOrder = "order between blocks not kept";
  for (const Case& c : {Case{"", kWorks, kWorks, kWorks, kWorks, "wait"},
                        Case{"nowait", kWrong, kWrong, kWorks, kWorks, "link"},
                        Case{"early", kEarly, kEarly, kWorks, kWorks, "link"},
                        Case{"needs41", kWrong, kWorks, kWorks, kWorks, "wait41"},
                        Case{"late", kEarly, kEarly, kEarly, kEarly, "single"},
                        Case{"rawlate", kOrder, kOrder, kOrder, kWorks, "single"},
                        Case{"badcore1", kWorks, kWorks, kWorks, kWorks, "wait"},
                        Case{"needs41,badcore1", kWrong, kWorks, kWorks, kWorks, "wait41"}}) {
    const std::string silicon = c.silicon;
    const bool late = silicon == "late";
    const json result = run_json({"selftest", "--silicon", silicon, "--json"}, late ? 1 : 0);
    EXPECT_EQ(result["chosen"], c.chosen) << silicon;
    EXPECT_FALSE(result["why"].get<std::string>().empty());
    EXPECT_EQ(result["model"], true);
    EXPECT_TRUE(result["saved"].is_null());
    const std::vector<std::pair<const char*, const char*>> modes{
        {"wait", c.wait}, {"wait41", c.wait41}, {"link", c.link}, {"single", c.single}};
    ASSERT_EQ(result["modes"].size(), modes.size());
    for (const auto& [mode, verdict] : modes) {
      const json& cores = result["modes"][mode]["cores"];
      ASSERT_EQ(cores.size(), 3U);
      for (std::uint32_t core = 0; core < 3; ++core) {
        const bool bad = core == 1 && silicon.find("badcore1") != std::string::npos;
        EXPECT_EQ(cores[core]["core"], core);
        EXPECT_EQ(cores[core]["verdict"], bad ? kWrong : verdict) << silicon << " " << mode;
      }
    }
  }
}

TEST_F(Tool, SelftestShowsATable) {
  const Outcome outcome = run({"--model", "selftest", "--silicon", "nowait"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* const part : {"core 0", "core 2", "output wrong", "wait41", "single", " us"})
    EXPECT_TRUE(has(outcome.out, part)) << part;
  EXPECT_EQ(last_line(outcome.out).rfind("chosen: link, ", 0), 0U);
  const Outcome part = run({"selftest", "--silicon", "", "--modes", "link,wait", "--cores", "2"});
  EXPECT_EQ(part.code, 0) << part.err;
  EXPECT_FALSE(has(part.out, "core 1"));
  EXPECT_FALSE(has(part.out, "single"));
}

TEST_F(Tool, SelftestRefuses) {
  refuses({"selftest", "--silicon", "slow"}, 2, {"--silicon", "'slow'", "nowait"});
  refuses({"selftest", "--silicon", "badcore3"}, 2, {"'badcore3'"});
  refuses({"--model", "selftest", "--modes", "fast"}, 2, {"--modes", "'fast'", "wait41"});
  refuses({"--model", "selftest", "--cores", "3"}, 2, {"--cores", "no core 3"});
}

TEST_F(Tool, Bench) {
  // Without a limit, so that a busy machine cannot make it fail.
  const json result = run_json({"bench", "submit", "--json"});
  ASSERT_EQ(result["ratios"].size(), 1U);
  EXPECT_GT(result["ratios"].begin().value().get<double>(), 0);
}

}  // namespace
}  // namespace rkchain::tool_test

// SPDX-License-Identifier: MIT
// "rkchain replay" as a user starts it.
#include <gtest/gtest.h>

#include "capture_film.hpp"
#include "tool_runner.hpp"

namespace rkchain::tool_test {
namespace {

using capture_test::Film;
using capture_test::Matmul;

class ReplayTool : public Tool {};

constexpr std::uint64_t at_program = 0x0f000000;

Film two(const Matmul& matmul) {
  Film film;
  film.process();
  matmul.buffers(film, 1);
  for (std::uint64_t id = 1; id <= 2; id++) {
    film.submit(id, 1, 1);
    film.task(id, 0, 0, at_program, matmul.program());
    matmul.inputs(film, id);
    film.submitted(id);
    film.after(id, matmul.descriptor.c, matmul.c);
  }
  return film;
}

const Matmul& small() {
  static const Matmul matmul(0x1000000, 4, 32, 32, 1);
  return matmul;
}

TEST_F(ReplayTool, WhatIsEqual) {
  const std::string capture = file("cap", two(small()).file());
  const Outcome outcome = run({"replay", capture});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(lines(outcome.out), 3U) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "submit 1 (pid 100, id 1): core mask 0x1, 1 task, 128/128 words"));
  EXPECT_TRUE(has(outcome.out, "256/256 words equal, 2 of 2 submits compared"));
  const Outcome one = run({"replay", "-", "--submit", "2"}, two(small()).file());
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(has(one.out, "128/128 words equal, 1 of 1 submits compared")) << one.out;
}

TEST_F(ReplayTool, Json) {
  const std::string capture = file("cap", two(small()).file());
  const json result = run_json({"replay", capture, "--to-chain", "--json"});
  EXPECT_EQ(result["pass"], true);
  EXPECT_EQ(result["equal"], 256);
  EXPECT_EQ(result["submits"].size(), 2U);
  EXPECT_EQ(result["to_chain"]["chains"], 1);
  EXPECT_EQ(result["to_chain"]["counted_not_measured"], true);
  EXPECT_EQ(result["to_chain"]["captured"]["interrupts"], 2);
  EXPECT_EQ(result["to_chain"]["as_chains"]["interrupts"], 1);
}

TEST_F(ReplayTool, ToChainSaysThatItCounts) {
  const Outcome outcome = run({"replay", file("cap", two(small()).file()), "--to-chain"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "counted, not measured: nothing is claimed of silicon"));
  EXPECT_TRUE(has(outcome.out, "512/512 bytes")) << outcome.out;
}

TEST_F(ReplayTool, WhatDiffers) {
  Matmul wrong = small();
  wrong.c[4] ^= std::byte{1};
  const std::string capture = file("cap", two(wrong).file());
  const Outcome outcome = run({"replay", capture});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.out, "127/128 words equal")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "buffer 0x01020000 at offset 0x4 (address 0x01020004)"))
      << outcome.out;
  EXPECT_EQ(run_json({"replay", capture, "--json"}, 1)["pass"], false);
}

TEST_F(ReplayTool, WhatCannotBeCompared) {
  Film film;
  film.process(capture::Depth::submits);
  film.submit(1, 1, 1);
  film.submitted(1);
  refuses({"replay", file("cap", film.file())}, 1,
          {"nothing could be compared", "--depth everything"});
  Film none;
  none.process();
  refuses({"replay", file("none", none.file())}, 1, {"it has no submits"});
  none.add(capture::Kind::chain_submit, capture::ChainSubmit{1, 4, 0, 0, 0});
  refuses({"replay", file("chains", none.file())}, 1, {"1 chain submits of /dev/rkchain"});
}

TEST_F(ReplayTool, BadInput) {
  const std::string whole = two(small()).file();
  refuses({"replay", file("cut", whole.substr(0, whole.size() - 5))}, 2, {"offset"});
  const Outcome partial = run({"replay", path("cut").string(), "--partial"});
  EXPECT_EQ(partial.code, 0) << partial.err;
  EXPECT_TRUE(has(partial.out, "the capture is damaged")) << partial.out;
  const std::string capture = file("cap", whole);
  refuses({"replay", capture, "--submit", "3"}, 2, {"--submit: 3 is out of range", "2 submits"});
  refuses({"replay", capture, "--submit", "0"}, 2, {"--submit"});
  refuses({"replay", capture, "--limit-bytes", "8192"}, 1, {"limit of 8192 bytes"});
  refuses({"replay"}, 2, {"FILE"});
}

TEST_F(ReplayTool, ManySubmitsAreASummary) {
  Film film = two(small());
  for (std::uint64_t id = 3; id <= 60; id++) {
    film.submit(id, 1, 1);
    film.task(id, 0, 0, at_program, id == 60 ? capture_test::Words{} : small().program());
    film.submitted(id);
  }
  const Outcome outcome = run({"replay", file("cap", film.file())});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(lines(outcome.out), 3U) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "7552/7552 words equal, 59 of 60 submits compared")) << outcome.out;
}

}  // namespace
}  // namespace rkchain::tool_test

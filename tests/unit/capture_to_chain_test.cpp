// SPDX-License-Identifier: MIT
// The work of a capture as chains: what goes into one, what ends it, and what is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "capture/to_chain.hpp"
#include "capture_film.hpp"

namespace rkchain::capture_test {
namespace {

using capture::ChainReport;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr std::uint64_t at_program = 0x0f000000;

ChainReport chains_of(const Film& film) {
  capture::ToChain to_chain;
  capture::Replay replay({}, &to_chain);
  to_chain.use(replay);
  film.play([&](const capture::Record& record) { replay.visit(record); });
  replay.finish();
  ChainReport report = to_chain.finish();
  EXPECT_EQ(report.equal, report.bytes) << report.first;
  EXPECT_EQ(report.first, "");
  return report;
}

void run(Film& film, std::uint64_t id, const Matmul& matmul, std::uint32_t core_mask = 1) {
  film.submit(id, core_mask, 1);
  film.task(id, 0, core_mask / 2, at_program, matmul.program());
  matmul.inputs(film, id);
  film.submitted(id);
  film.after(id, matmul.descriptor.c, matmul.c);
}

Matmul nth(std::uint32_t i) { return {0x1000000 + 0x100000 * i, 4, 64, 32, 50 + i}; }

Film begun(std::uint32_t matmuls) {
  Film film;
  film.process();
  for (std::uint32_t i = 0; i < matmuls; i++) nth(i).buffers(film, 1 + 3 * i);
  return film;
}

TEST(CaptureToChain, SixSubmitsAndALookInTheMiddle) {
  Film film = begun(6);
  for (std::uint32_t i = 0; i < 6; i++) {
    run(film, 1 + i, nth(i), 1U << i % 3);
    if (i == 2 || i == 5) film.sync(3 * (i + 1), RKNPU_MEM_SYNC_FROM_DEVICE, Matmul::window);
    if (i == 4) film.sync(1, RKNPU_MEM_SYNC_TO_DEVICE, Matmul::window);
  }
  const ChainReport report = chains_of(film);
  EXPECT_EQ(report.taken_over, 6U);
  EXPECT_EQ(report.chains, 2U);
  EXPECT_EQ(report.blocks, 6U);
  EXPECT_EQ(report.longest, 3U);
  EXPECT_EQ(report.bytes, 6U * 512);
  EXPECT_EQ(report.captured.submits, 6U);
  EXPECT_EQ(report.captured.tasks, 6U);
  EXPECT_EQ(report.captured.interrupts, 6U);
  EXPECT_EQ(report.captured.calls, 9U);
  EXPECT_EQ(report.ours.submits, 2U);
  EXPECT_EQ(report.ours.tasks, 2U);
  EXPECT_EQ(report.ours.interrupts, 2U);
  EXPECT_EQ(report.ours.calls, 4U);
  EXPECT_THAT(report.left, IsEmpty());
  EXPECT_THAT(report.ends, ElementsAre(Pair(HasSubstr("looked at results"), 2U)));
}

TEST(CaptureToChain, ALinkChainIsOneSubmitAndOneInterruptAlready) {
  Film film = begun(3);
  std::vector<rkc_matmul> blocks;
  for (std::uint32_t i = 0; i < 3; i++) blocks.push_back(nth(i).descriptor);
  rkc_measure measure{};
  rkc_chain_measure(RKC_LINK, 3, &measure, nullptr);
  Words words(measure.words);
  rkc_chain_emit(RKC_LINK, blocks.data(), 3, at_program, words.data(), nullptr);
  film.submit(1, 1, 3);
  for (std::uint32_t i = 0; i < 3; i++) {
    const auto first = words.begin() + i * measure.stride;
    film.task(1, i, 0, at_program + 8 * i * measure.stride, Words(first, first + measure.stride));
    nth(i).inputs(film, 1);
  }
  film.submitted(1);
  const ChainReport report = chains_of(film);
  EXPECT_EQ(report.captured.tasks, 3U);
  EXPECT_EQ(report.captured.interrupts, 1U);
  EXPECT_EQ(report.blocks, 3U);
  EXPECT_EQ(report.ours.tasks, 1U);
  EXPECT_EQ(report.ours.interrupts, 1U);
}

TEST(CaptureToChain, InputsThatChangeInBetweenBeginANewChain) {
  Film film = begun(1);
  Matmul second = nth(0);
  second.a[5] ^= std::byte{0x10};
  second.compute();
  run(film, 1, nth(0));
  run(film, 2, second);
  const ChainReport report = chains_of(film);
  EXPECT_EQ(report.chains, 2U);
  EXPECT_THAT(report.ends, ElementsAre(Pair("the capture ends", 1U),
                                       Pair("the program changed what a block reads", 1U)));
}

TEST(CaptureToChain, TheSameInputsMayBeReadAgain) {
  Film film = begun(1);
  run(film, 1, nth(0));
  run(film, 2, nth(0));
  EXPECT_EQ(chains_of(film).chains, 1U);
}

TEST(CaptureToChain, ResultsAsFeaturesOnlyWhereTheCheckerAllowsIt) {
  // int32 results are no int8 features for a chain of ours.
  Matmul second = nth(1);
  second.descriptor.a = nth(0).descriptor.c;
  second.descriptor.k = 128;
  second.a = nth(0).c;
  second.b.resize(128 * 32, std::byte{3});
  second.compute();
  Film film = begun(2);
  run(film, 1, nth(0));
  film.submit(2, 1, 1);
  film.task(2, 0, 0, at_program, second.program());
  film.before(2, second.descriptor.b, second.b);
  film.submitted(2);
  film.after(2, second.descriptor.c, second.c);
  const ChainReport report = chains_of(film);
  EXPECT_EQ(report.chains, 2U);
  EXPECT_EQ(report.taken_over, 2U);
  EXPECT_THAT(report.ends, testing::Contains(Pair(HasSubstr("the checker"), 1U)));

  // int8 results are, and the chain computes what the two submits did.
  Film fed = begun(2);
  rkc_matmul first = nth(0).descriptor, next = nth(1).descriptor;
  first.type = next.type = RKC_I8_I8;
  first.m = first.m_total = next.m = next.m_total = 4;
  first.k = next.k = 64;
  first.n = next.n = 64;
  next.a = first.c;
  const Bytes weights(64 * 64, std::byte{1});
  std::uint64_t id = 1;
  for (const rkc_matmul& matmul : {first, next}) {
    Words words(RKC_FULL_WORDS);
    rkc_chain_emit(RKC_SINGLE, &matmul, 1, 0, words.data(), nullptr);
    fed.submit(id, 1, 1);
    fed.task(id, 0, 0, at_program, words);
    if (id == 1) fed.before(id, first.a, nth(0).a);
    fed.before(id, matmul.b, weights);
    fed.submitted(id);
    // What the software NPU computes is computed here as well: with these weights, sums.
    Bytes sums(4 * 64);
    for (std::size_t row = 0; row < 4; row++) {
      int sum = 0;
      for (std::size_t k = 0; k < 64; k++) sum += static_cast<std::int8_t>(nth(0).a[row * 64 + k]);
      sum = std::clamp(sum, -128, 127);
      if (id == 2) sum = std::clamp(sum * 64, -128, 127);
      for (std::size_t column = 0; column < 64; column++)
        sums[row * 64 + column] = static_cast<std::byte>(sum);
    }
    fed.after(id++, matmul.c, sums);
  }
  const ChainReport good = chains_of(fed);
  EXPECT_EQ(good.chains, 1U);
  EXPECT_EQ(good.longest, 2U);
  EXPECT_EQ(good.bytes, 2U * 256);
}

TEST(CaptureToChain, ThreadsHaveTheirOwnChainsUnlessTheyMeet) {
  Film film = begun(3);
  for (std::uint32_t i = 0; i < 4; i++) {
    film.tid = 100 + i % 2;
    run(film, 1 + i, nth(i % 2));
  }
  EXPECT_EQ(chains_of(film).chains, 2U);
  // Thread 101 writes where thread 100 has just written.
  film.tid = 101;
  run(film, 5, nth(0));
  film.tid = 100;
  run(film, 6, nth(0));
  const ChainReport report = chains_of(film);
  EXPECT_EQ(report.chains, 3U);
  EXPECT_THAT(report.ends, testing::Contains(Pair(HasSubstr("another thread"), 2U)));
}

TEST(CaptureToChain, WhatCannotBeTakenOverIsLeftAsItIs) {
  Film film = begun(3);
  run(film, 1, nth(0));
  // A program that the recogniser refuses and that computes the same: its task's end twice.
  Matmul odd = nth(1);
  Words words = odd.program();
  words.insert(words.begin(), words.begin() + 3, words.begin() + 40);
  film.submit(2, 1, 1);
  film.task(2, 0, 0, at_program, words, static_cast<std::uint32_t>(words.size()) - 4);
  odd.inputs(film, 2);
  film.submitted(2, -22);
  film.sync(1, RKNPU_MEM_SYNC_TO_DEVICE, 4096);
  run(film, 3, nth(2));
  const ChainReport report = chains_of(film);
  ASSERT_EQ(report.left.size(), 1U);
  EXPECT_EQ(report.left[0].id, 2U);
  EXPECT_THAT(report.left[0].why, HasSubstr("-22"));
  EXPECT_EQ(report.taken_over, 2U);
  EXPECT_EQ(report.chains, 2U);
  EXPECT_EQ(report.captured.submits, 3U);
  EXPECT_EQ(report.ours.submits, 3U);
  EXPECT_EQ(report.captured.calls, 4U);
  EXPECT_EQ(report.ours.calls, 2U * 2 + 1 + 1);
}

TEST(CaptureToChain, ReasonsOfTheRecogniserAreGiven) {
  // Found by trying: words whose change the model runs and the recogniser refuses.
  bool found = false;
  for (std::uint32_t word = 0; word < RKC_BODY_WORDS && !found; word++)
    for (std::uint32_t bit = 0; bit < 32 && !found; bit++) {
      Words words = nth(0).program();
      words[word] ^= 1ULL << (16 + bit);
      Film film = begun(1);
      film.submit(1, 1, 1);
      film.task(1, 0, 0, at_program, words);
      nth(0).inputs(film, 1);
      film.submitted(1);
      film.after(1, nth(0).descriptor.c, nth(0).c);
      const ChainReport report = chains_of(film);
      found =
          report.left.size() == 1 && report.left[0].why.rfind("program at 0x0f000000: ", 0) == 0;
    }
  EXPECT_TRUE(found);
}

TEST(CaptureToChain, NoChainIsLongerThanAChainMayBe) {
  Film film = begun(1);
  for (std::uint32_t i = 0; i < RKC_WAIT_MAX + 2; i++) {
    film.submit(1 + i, 1, 1);
    film.task(1 + i, 0, 0, at_program, nth(0).program());
    if (i == 0) nth(0).inputs(film, 1);
    film.submitted(1 + i);
    if (i == 0) film.after(1, nth(0).descriptor.c, nth(0).c);
  }
  const ChainReport report = chains_of(film);
  EXPECT_EQ(report.chains, 2U);
  EXPECT_EQ(report.longest, RKC_WAIT_MAX);
  EXPECT_EQ(report.blocks, RKC_WAIT_MAX + 2U);
  EXPECT_THAT(report.ends, testing::Contains(Pair(HasSubstr("at most 1191 blocks"), 1U)));
}

}  // namespace
}  // namespace rkchain::capture_test

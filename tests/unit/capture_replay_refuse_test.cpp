// SPDX-License-Identifier: MIT
// Captured programs on the software NPU: what differs, and what cannot be replayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture_replay_scene.hpp"

namespace rkchain::capture_test {
namespace {

using capture::Depth;
using capture::Replay;
using capture::ReplayOptions;
using capture::When;
using testing::HasSubstr;

// ---- what differs ---------------------------------------------------------------

TEST(CaptureReplay, OneByteIsFoundAndNamed) {
  Matmul wrong = small();
  wrong.c[4 * 77 + 1] ^= std::byte{0x40};
  const auto result = replay(one(wrong)).at(0);
  EXPECT_EQ(result.words, 128U);
  EXPECT_EQ(result.equal, 127U);
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->buffer, small().descriptor.c);
  EXPECT_EQ(result.first->offset, 4U * 77);
  EXPECT_EQ(result.first->address, small().descriptor.c + 4U * 77);
  EXPECT_EQ(result.first->bytes, 4U);
  EXPECT_EQ(result.first->have ^ result.first->want, 0x4000U);
}

TEST(CaptureReplay, OneByteOfAnInputIsFound) {
  Matmul wrong = small();
  wrong.b[3] ^= std::byte{1};
  EXPECT_TRUE(replay(one(wrong)).at(0).differs());
}

TEST(CaptureReplay, AnyChangedRegisterIsFoundOrHarmless) {
  // Every word in turn: the results differ, the model cannot run it, or (schedules, defaults,
  // what is written twice) nothing changes.
  int differ = 0, refused = 0;
  for (std::uint32_t word = 0; word < RKC_BODY_WORDS; word++) {
    Words words = small().program();
    words[word] ^= 0x10ULL << 16;
    Film film;
    film.process();
    small().buffers(film, 1);
    film.submit(1, 1, 1);
    film.task(1, 0, 0, at_program, words);
    small().inputs(film, 1);
    film.submitted(1);
    film.after(1, small().descriptor.c, small().c);
    const auto result = replay(film).at(0);
    differ += result.differs() ? 1 : 0;
    refused += result.why.empty() ? 0 : 1;
  }
  EXPECT_GE(differ, 2);
  EXPECT_GE(refused, 10);
}

TEST(CaptureReplay, AnotherAddressOfTheFeaturesIsFound) {
  Matmul wrong = small();
  wrong.descriptor.a += 16;
  Film film;
  film.process();
  small().buffers(film, 1);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, wrong.program());
  small().inputs(film, 1);
  film.memory(When::before, 1, small().descriptor.a, small().a.size(), Bytes(64));
  film.submitted(1);
  film.after(1, small().descriptor.c, small().c);
  EXPECT_TRUE(replay(film).at(0).differs());
}

// ---- what cannot be replayed ----------------------------------------------------

TEST(CaptureReplay, WithoutPrograms) {
  Film film;
  film.process(Depth::submits);
  film.submit(1, 1, 1);
  film.submitted(1);
  expect_why(film, "--depth everything");
}

TEST(CaptureReplay, WithoutMemory) {
  Film film;
  film.process(Depth::programs);
  small().buffers(film, 1);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, small().program());
  film.submitted(1);
  expect_why(film, "was not captured (--depth everything captures memory)");
}

TEST(CaptureReplay, WithoutBuffer) {
  Film film;
  film.process();
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, small().program());
  film.submitted(1);
  expect_why(film, "of 1024 bytes at 0x01010000: no buffer there");
}

TEST(CaptureReplay, BeyondABuffer) {
  Film film;
  film.process();
  film.buffer(small().descriptor.a, Matmul::window + 64, 1);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, small().program());
  film.submitted(1);
  expect_why(film, "the buffer there is smaller");
}

TEST(CaptureReplay, WithoutTheProgramOfATask) {
  Film film;
  film.process();
  small().buffers(film, 1);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, {});
  film.submitted(1);
  expect_why(film, "no captured program and no buffer at 0x0f000000");
  film.buffer(at_program, 4096, 9);
  film.submit(2, 1, 1);
  film.task(2, 0, 0, at_program, {});
  film.submitted(2);
  expect_why(film, "nothing was captured of the buffer at 0x0f000000");
  film.submit(3, 1, 2);
  film.task(3, 0, 0, at_program, small().program());
  film.submitted(3);
  expect_why(film, "task 1 was not captured");
}

TEST(CaptureReplay, WhatTheCaptureCouldNotSeeIsRepeated) {
  Film film;
  film.process();
  film.submit(1, 1, 1);
  const std::string text = "the task array is not mapped";
  film.add(capture::Kind::unseen, capture::Unseen{1, 0, 0, 0}, std::as_bytes(std::span(text)));
  film.submitted(1);
  expect_why(film, text);
}

TEST(CaptureReplay, TheModelsOwnWords) {
  Words words = small().program();
  words[3] = 0x0101000000010044;  // a register of the PC that there is not
  Film film;
  film.process();
  small().buffers(film, 1);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, words);
  film.submitted(1);
  expect_why(film, "word 3, register 0x0044, value 0x1: unknown register");
  // and the core works again
  whole(film, 2, small());
  expect_equal(replay(film).at(1), 128);
}

TEST(CaptureReplay, SubmitsThatFailedOrNeverEnded) {
  Film film;
  film.process();
  small().buffers(film, 1);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, small().program());
  film.submitted(1, -110);
  expect_why(film, "the driver returned -110");
  film.submit(2, 1, 1);
  expect_why(film, "the capture ends before");
  film.submit(3, 1, 1);
  const auto results = replay(film);
  EXPECT_THAT(results.at(1).why, HasSubstr("does not say how it ended"));
}

TEST(CaptureReplay, ArgumentsThatNoModelFollows) {
  Film film;
  film.process();
  small().buffers(film, 1);
  film.submit(1, 5, 1);
  film.task(1, 0, 0, at_program, small().program());
  film.submitted(1);
  expect_why(film, "no core runs core mask 0x5");
  capture::Submit submit{};
  submit.id = 2;
  submit.argument.task_number = 1;
  submit.argument.task_base_addr = 0x1000;
  film.add(capture::Kind::submit, submit);
  film.task(2, 0, 0, at_program, small().program());
  film.submitted(2);
  expect_why(film, "task_base_addr is 0x1000");
  film.submit(3, 1, 1);
  film.task(3, 0, 0, 0x100000000, small().program());
  film.submitted(3);
  expect_why(film, "above 4 GiB");
  film.submit(4, 1, 1);
  film.task(4, 0, 0, at_program, small().program(), 0x40000);
  film.submitted(4);
  expect_why(film, "more than one task fetches");
}

TEST(CaptureReplay, TwoThatWriteTheSameAtTheSameTime) {
  Matmul other = small();
  other.a[0] ^= std::byte{0x22};
  other.descriptor.a = 0x3000000;
  other.compute();
  Film film;
  film.process();
  small().buffers(film, 1);
  film.buffer(other.descriptor.a, Matmul::window, 4);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, small().program());
  small().inputs(film, 1);
  film.tid = 101;
  film.submit(2, 2, 1);
  film.task(2, 0, 1, at_program + 0x1000, other.program());
  film.before(2, other.descriptor.a, other.a);
  film.submitted(2);
  film.tid = 100;
  film.submitted(1);
  film.after(1, small().descriptor.c, small().c);
  const auto results = replay(film);
  expect_equal(results.at(0), 128);
  EXPECT_THAT(results.at(1).why, HasSubstr("at the same time"));
  EXPECT_FALSE(results.at(1).differs());
}

TEST(CaptureReplay, TheLimitOfMemory) {
  ReplayOptions options;
  options.limit_bytes = 20000;
  Film film;
  film.process();
  film.buffer(0x1000000, 0x100000, 1);
  film.memory(When::before, 1, 0x1000000, 0, Bytes(65536));
  try {
    replay(film, options);
    FAIL();
  } catch (const capture::TooLarge& error) {
    EXPECT_THAT(error.what(), HasSubstr("limit of 20000 bytes"));
  }
  // Of outputs as well, which the model asks for.
  options.limit_bytes = 60000;
  EXPECT_THROW(replay(one(Matmul(0x1000000, 64, 32, 256, 1)), options), capture::TooLarge);
  options.limit_bytes = 600000;
  expect_equal(replay(one(Matmul(0x1000000, 64, 32, 256, 1)), options).at(0), 64 * 256);
}

TEST(CaptureReplay, TheLimitOfBlocks) {
  ReplayOptions options;
  options.blocks = 2;
  EXPECT_THAT(replay(chained(RKC_LINK), options).at(0).why, HasSubstr("limit of 2 blocks"));
}

TEST(CaptureReplay, RecordsThatDoNotFitArePassedOver) {
  Film film = one(small());
  film.submitted(77);
  film.add(capture::Kind::chain_submit, capture::ChainSubmit{78, 4, 0, 0, 0});
  film.submitted(78);
  film.task(77, 0, 0, at_program, {});
  film.memory(When::after, 1, 0x9000000, 0, Bytes(16));
  film.memory(When::after, 1, ~0ULL, 16, Bytes(16));
  film.buffer(~0ULL - 100, 4096, 50);
  film.buffer(0x8000000, 0, 51);
  film.destroyed(1234);
  film.sync(1234, RKNPU_MEM_SYNC_FROM_DEVICE, 100);
  Replay replay{ReplayOptions{}};
  film.play([&](const capture::Record& record) { replay.visit(record); });
  expect_equal(replay.finish().at(0), 128);
  EXPECT_EQ(replay.totals().odd, 5U);
  EXPECT_EQ(replay.totals().submits, 1U);
  EXPECT_EQ(replay.totals().replayed, 1U);
  EXPECT_EQ(replay.totals().words, 128U);
}

}  // namespace
}  // namespace rkchain::capture_test

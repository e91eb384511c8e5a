// SPDX-License-Identifier: MIT
// Captured programs on the software NPU: what is compared with what, and what is said when that
// is not possible.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "capture/replay.hpp"
#include "capture_replay_scene.hpp"

namespace rkchain::capture_test {
namespace {

using capture::Begin;
using capture::Depth;
using capture::Replay;
using capture::ReplayOptions;
using capture::SubmitResult;
using capture::When;
using testing::HasSubstr;

// ---- what is equal --------------------------------------------------------------

Bytes unhex(const std::string& text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST(CaptureReplay, TheVectorFromSilicon) {
  std::ifstream file(RKCHAIN_VECTORS_DIR "/int8_4x32x32.json");
  const auto vector = nlohmann::json::parse(file);
  Words words;
  for (const std::string word : vector["regcmd"]) words.push_back(std::stoull(word, nullptr, 16));
  const auto iova = [&](const char* key) {
    const auto& value = vector["iova"][key];
    return value.is_string() ? std::stoull(value.get<std::string>(), nullptr, 16)
                             : value.get<std::uint64_t>();
  };
  Film film;
  film.process();
  std::uint32_t handle = 1;
  for (const char* key : {"A", "B", "C"}) film.buffer(iova(key), 4096, handle++);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, iova("regcmd"), words);
  film.before(1, iova("A"), unhex(vector["A"]));
  film.before(1, iova("B"), unhex(vector["B"]));
  film.submitted(1);
  film.after(1, iova("C"), unhex(vector["C"]));
  const auto results = replay(film);
  ASSERT_EQ(results.size(), 1U);
  expect_equal(results[0], 128);
}

TEST(CaptureReplay, TheProgramMayComeFromMemory) {
  Film film;
  film.process();
  small().buffers(film, 1);
  film.buffer(at_program, 4096, 9);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, {});
  film.before(1, at_program, bytes_of(small().program()));
  small().inputs(film, 1);
  film.submitted(1);
  film.after(1, small().descriptor.c, small().c);
  expect_equal(replay(film).at(0), 128);
}

TEST(CaptureReplay, Chains) {
  for (const std::uint32_t mode : {RKC_WAIT, RKC_WAIT41, RKC_LINK}) {
    const auto results = replay(chained(mode));
    ASSERT_EQ(results.size(), 1U);
    expect_equal(results[0], 4 * 32 + 5 * 64 + 6 * 96);
    EXPECT_EQ(results[0].blocks, 3U);
    EXPECT_EQ(results[0].tasks, mode == RKC_LINK ? 3U : 1U);
  }
}

TEST(CaptureReplay, ThreeCoresInterleaved) {
  const auto matmuls = three();
  Film film;
  film.process();
  for (std::uint32_t i = 0; i < 3; i++) matmuls[i].buffers(film, 1 + 3 * i);
  for (std::uint32_t i = 0; i < 3; i++) {
    film.tid = 100 + i;
    film.submit(1 + i, 1U << i, 1);
    film.task(1 + i, 0, i, at_program + 0x1000 * i, matmuls[i].program());
    matmuls[i].inputs(film, 1 + i);
    // What another core is just writing.
    if (i != 0) film.before(1 + i, matmuls[0].descriptor.c, Bytes(64 * i, std::byte{0xaa}));
  }
  for (const std::uint32_t i : {2U, 0U, 1U}) {
    film.tid = 100 + i;
    film.submitted(1 + i);
    film.after(1 + i, matmuls[i].descriptor.c, matmuls[i].c);
  }
  const auto results = replay(film);
  ASSERT_EQ(results.size(), 3U);
  for (std::uint32_t i = 0; i < 3; i++) {
    EXPECT_EQ(results[i].id, 1 + i);
    expect_equal(results[i], matmuls[i].c.size() / 4);
  }
}

TEST(CaptureReplay, InputsThatOthersChangeMeanwhileAreAsTheyWere) {
  Matmul later = small();
  later.a[0] ^= std::byte{0x55};
  Film film;
  film.process();
  small().buffers(film, 1);
  Matmul other(0x2000000, 4, 32, 32, 9);
  other.buffers(film, 4);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, small().program());
  small().inputs(film, 1);
  film.tid = 101;
  film.submit(2, 2, 1);
  film.task(2, 0, 1, at_program + 0x1000, other.program());
  other.inputs(film, 2);
  film.before(2, small().descriptor.a, later.a);
  film.submitted(2);
  film.after(2, other.descriptor.c, other.c);
  film.tid = 100;
  film.submitted(1);
  film.after(1, small().descriptor.c, small().c);
  const auto results = replay(film);
  expect_equal(results.at(0), 128);
  expect_equal(results.at(1), 128);
}

TEST(CaptureReplay, OneSubmitOnThreeCores) {
  const auto matmuls = three();
  Film film;
  film.process();
  for (std::uint32_t i = 0; i < 3; i++) matmuls[i].buffers(film, 1 + 3 * i);
  capture::Submit submit{};
  submit.id = 1;
  submit.argument.flags = RKNPU_JOB_PC;
  submit.argument.core_mask = 7;
  submit.argument.task_number = 3;
  for (std::uint32_t i = 0; i < 3; i++) submit.argument.subcore_task[2 + i] = {i, 1};
  film.add(capture::Kind::submit, submit);
  for (std::uint32_t i = 0; i < 3; i++)
    film.task(1, i, i, at_program + 0x1000 * i, matmuls[i].program());
  for (const Matmul& matmul : matmuls) matmul.inputs(film, 1);
  film.submitted(1);
  for (const Matmul& matmul : matmuls) film.after(1, matmul.descriptor.c, matmul.c);
  const auto results = replay(film);
  expect_equal(results.at(0), 4 * 32 + 5 * 64 + 6 * 96);
  EXPECT_EQ(results.at(0).tasks, 3U);
}

TEST(CaptureReplay, OnlyWhatHasChangedIsInTheFile) {
  Matmul second = small();
  second.a[40] ^= std::byte{0x11};
  second.compute();
  Film film = one(small());
  // The same again: nothing has changed, not even the output.
  film.submit(2, 1, 1);
  film.task(2, 0, 0, at_program, small().program());
  film.submitted(2);
  film.submit(3, 1, 1);
  film.task(3, 0, 0, at_program, small().program());
  film.memory(When::before, 3, small().descriptor.a, 32, std::span(second.a).subspan(32, 32));
  film.submitted(3);
  film.memory(When::after, 3, small().descriptor.c, 128, std::span(second.c).subspan(128, 128));
  const auto results = replay(film);
  ASSERT_EQ(results.size(), 3U);
  for (const auto& result : results) expect_equal(result, 128);
}

TEST(CaptureReplay, TheProgramMayOverwriteResultsAfterwards) {
  Film film = one(small());
  film.submit(2, 1, 1);
  film.task(2, 0, 0, at_program, small().program());
  film.before(2, small().descriptor.c, Bytes(512));
  film.submitted(2);
  film.after(2, small().descriptor.c, small().c);
  for (const auto& result : replay(film)) expect_equal(result, 128);
}

TEST(CaptureReplay, BuffersThatAreDestroyedAndReused) {
  Matmul second(0x1000000, 4, 32, 32, 99);
  Film film = one(small());
  for (std::uint32_t handle = 1; handle <= 3; handle++) film.destroyed(handle);
  second.buffers(film, 1);
  whole(film, 2, second);
  // The same addresses again, and nobody has said that the old buffers are gone.
  film.buffer(0x1000000, 3 * Matmul::window, 7);
  film.submit(3, 1, 1);
  film.task(3, 0, 0, at_program, small().program());
  film.memory(When::before, 3, 0x1000000, 0, small().a);
  film.memory(When::before, 3, 0x1000000, Matmul::window, small().b);
  film.submitted(3);
  film.memory(When::after, 3, 0x1000000, 2 * Matmul::window, small().c);
  const auto results = replay(film);
  ASSERT_EQ(results.size(), 3U);
  for (const auto& result : results) expect_equal(result, 128);
}

TEST(CaptureReplay, MemoryOfADestroyedBufferIsGone) {
  Film film = one(small());
  film.destroyed(1);
  film.buffer(small().descriptor.a, Matmul::window, 1);
  film.submit(2, 1, 1);
  film.task(2, 0, 0, at_program, small().program());
  film.submitted(2);
  expect_why(film, "memory at 0x01000000 was not captured");
}

TEST(CaptureReplay, AForkedProcessHasTheMemoryOfItsParent) {
  Film film = one(small());
  film.pid = film.tid = 200;
  film.process(Depth::everything, 100, Begin::forked);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, small().program());
  film.submitted(1);
  expect_equal(replay(film).at(1), 128);
  film.pid = film.tid = 300;
  film.process(Depth::everything, 100, Begin::started);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, small().program());
  film.submitted(1);
  expect_why(film, "no buffer there");
}

// ---- cached memory --------------------------------------------------------------

Film cached() {
  Film film;
  film.process();
  small().buffers(film, 1, Film::cached);
  film.submit(1, 1, 1);
  film.task(1, 0, 0, at_program, small().program());
  small().inputs(film, 1);
  film.submitted(1);
  film.after(1, small().descriptor.c, Bytes(512, std::byte{0x77}), true);
  return film;
}

TEST(CaptureReplay, StaleOutputsThatAreNeverSyncedSayNothing) {
  const auto result = replay(cached()).at(0);
  EXPECT_EQ(result.words, 0U);
  EXPECT_EQ(result.left_out, 128U);
  EXPECT_THAT(result.why, HasSubstr("stale"));
}

TEST(CaptureReplay, WhatIsSyncedLaterCounts) {
  for (const bool sync_first : {true, false}) {
    Film film = cached();
    if (sync_first) film.sync(3, RKNPU_MEM_SYNC_FROM_DEVICE, Matmul::window);
    film.memory(When::synced, 1, small().descriptor.c, 0, small().c);
    if (!sync_first) film.sync(3, RKNPU_MEM_SYNC_FROM_DEVICE, Matmul::window);
    // and is not what the program makes of it
    film.submit(2, 1, 1);
    film.task(2, 0, 0, at_program, small().program());
    film.before(2, small().descriptor.c, Bytes(512, std::byte{1}));
    film.submitted(2);
    film.after(2, small().descriptor.c, small().c, true);
    const auto results = replay(film);
    expect_equal(results.at(0), 128);
    expect_equal(results.at(1), 128);
  }
}

TEST(CaptureReplay, ASyncedDifferenceIsOne) {
  Film film = cached();
  film.sync(3, RKNPU_MEM_SYNC_FROM_DEVICE, Matmul::window);
  const auto result = replay(film).at(0);
  EXPECT_EQ(result.words, 128U);
  EXPECT_TRUE(result.differs());
}

TEST(CaptureReplay, TheDeviceReadsWhatItWroteThoughTheCpuDoesNotSeeIt) {
  // The second matmul reads the first one's results as its features.
  Matmul second(0x2000000, 4, 128, 32, 5);
  second.descriptor.a = small().descriptor.c;
  second.a = small().c;
  second.compute();
  Film film = cached();
  film.buffer(second.descriptor.b, Matmul::window, 10);
  film.buffer(second.descriptor.c, Matmul::window, 11);
  film.submit(2, 1, 1);
  film.task(2, 0, 0, at_program, second.program());
  film.before(2, second.descriptor.b, second.b);
  film.submitted(2);
  film.after(2, second.descriptor.c, second.c);
  expect_equal(replay(film).at(1), 128);
}

}  // namespace
}  // namespace rkchain::capture_test

// SPDX-License-Identifier: MIT
// Small captures and their replay, for the tests of it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/replay.hpp"
#include "capture_film.hpp"

namespace rkchain::capture_test {

inline constexpr std::uint64_t at_program = 0x0f000000;

inline std::vector<capture::SubmitResult> replay(const Film& film,
                                                 const capture::ReplayOptions& options = {}) {
  capture::Replay replay(options);
  film.play([&](const capture::Record& record) { replay.visit(record); });
  return replay.finish();
}

inline void expect_equal(const capture::SubmitResult& result, std::uint64_t words) {
  EXPECT_EQ(result.why, "") << "submit " << result.number;
  EXPECT_EQ(result.words, words) << "submit " << result.number;
  EXPECT_EQ(result.equal, words) << "submit " << result.number;
  EXPECT_EQ(result.left_out, 0U);
}

inline void expect_why(const Film& film, const std::string& part) {
  const auto results = replay(film);
  ASSERT_FALSE(results.empty());
  EXPECT_THAT(results.back().why, testing::HasSubstr(part));
  EXPECT_EQ(results.back().words, 0U);
}

/// A submit of one matmul from its begin to its end.
inline void whole(Film& film, std::uint64_t id, const Matmul& matmul, std::uint32_t core_mask = 1) {
  film.submit(id, core_mask, 1);
  film.task(id, 0, core_mask / 2, at_program, matmul.program());
  matmul.inputs(film, id);
  film.submitted(id);
  film.after(id, matmul.descriptor.c, matmul.c);
}

inline Film one(const Matmul& matmul) {
  Film film;
  film.process();
  matmul.buffers(film, 1);
  whole(film, 1, matmul);
  return film;
}

inline const Matmul& small() {
  static const Matmul matmul(0x1000000, 4, 32, 32, 1);
  return matmul;
}

/// Three matmuls whose buffers lie apart.
inline std::vector<Matmul> three() {
  std::vector<Matmul> matmuls;
  for (std::uint32_t i = 0; i < 3; i++)
    matmuls.emplace_back(0x1000000 + 0x100000 * i, 4 + i, 64, 32 * (i + 1), 7 + i);
  return matmuls;
}

inline Film chained(std::uint32_t mode) {
  const auto matmuls = three();
  std::vector<rkc_matmul> blocks;
  for (const Matmul& matmul : matmuls) blocks.push_back(matmul.descriptor);
  rkc_measure measure{};
  rkc_chain_measure(mode, 3, &measure, nullptr);
  Words words(measure.words);
  rkc_chain_emit(mode, blocks.data(), 3, at_program, words.data(), nullptr);
  Film film;
  film.process();
  for (std::uint32_t i = 0; i < 3; i++) matmuls[i].buffers(film, 1 + 3 * i);
  film.submit(1, 2, measure.tasks);
  for (std::uint32_t i = 0; i < measure.tasks; i++) {
    const auto first = words.begin() + i * measure.stride;
    film.task(1, i, 1, at_program + 8 * i * measure.stride,
              measure.tasks == 1 ? words : Words(first, first + measure.stride),
              measure.regcfg_amount);
  }
  for (const Matmul& matmul : matmuls) matmul.inputs(film, 1);
  film.submitted(1);
  for (const Matmul& matmul : matmuls) film.after(1, matmul.descriptor.c, matmul.c);
  return film;
}

}  // namespace rkchain::capture_test

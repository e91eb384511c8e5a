// SPDX-License-Identifier: MIT
// kmod/core: how long programs and their blocks may be, and what is said of those that are longer.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "kmod/core/chain.h"
#include "kmod/core/entry.h"
#include "kmod/core/matmul.h"
#include "unit/core_samples.hpp"

namespace {

using rkchain::test::block;
using rkchain::test::full_program;
using rkchain::test::same;
using rkchain::test::Words;

TEST(Program, ShapesEndExactlyWhereTheyAreSaidTo) {
  const Words words(3 * 4096 + 4096, 0);
  const auto shape = [&words](std::uint64_t nwords, std::uint32_t count, std::uint32_t stride,
                              std::uint32_t body, bool link = false) {
    const rkc_program p{words.data(), nwords, count, stride, body, link};
    return rkc_program_shape(&p, nullptr);
  };
  EXPECT_EQ(shape(2 * 110 + 108, 3, 110, 108), RKC_OK);
  EXPECT_EQ(shape(2 * 110 + 107, 3, 110, 108), RKC_TRUNCATED);
  EXPECT_EQ(shape(2 * 110 + 108 + 4096, 3, 110, 108), RKC_OK);
  EXPECT_EQ(shape(2 * 110 + 108 + 4097, 3, 110, 108), RKC_BAD_STRIDE);
  EXPECT_EQ(shape(2 * 108 + 108, 3, 108, 108), RKC_OK);
  EXPECT_EQ(shape(3 * 108, 3, 107, 108), RKC_BAD_STRIDE);
  EXPECT_EQ(shape(2 * 4096 + 108, 3, 4096, 108), RKC_OK);
  EXPECT_EQ(shape(2 * 4097 + 108, 3, 4097, 108), RKC_BAD_STRIDE);
  EXPECT_EQ(shape(4096, 1, 4096, 4096), RKC_OK);
  EXPECT_EQ(shape(4097, 1, 4097, 4097), RKC_BAD_STRIDE);
  // One block alone has no stride.
  EXPECT_EQ(shape(112, 1, 0, 108), RKC_OK);
  EXPECT_EQ(shape(1191 * 108, 1191, 108, 108), RKC_OK);
  EXPECT_EQ(shape(1192 * 108, 1192, 108, 108), RKC_TOO_LONG);
  EXPECT_EQ(shape(1192 * 108, 1192, 108, 108, true), RKC_OK);
  EXPECT_EQ(shape(4095 * 108, 4095, 108, 108, true), RKC_OK);
  EXPECT_EQ(shape(4096 * 108, 4096, 108, 108, true), RKC_TOO_LONG);
}

TEST(Program, ShapesSayWhatWasFoundAndWhatWasExpected) {
  const auto error = [](std::uint64_t nwords, std::uint32_t count, std::uint32_t stride,
                        std::uint32_t body, bool link = false) {
    const rkc_program p{nullptr, nwords, count, stride, body, link};
    rkc_err err{1, 2, 3, 4, 5, 6};
    EXPECT_EQ(rkc_program_shape(&p, &err), err.reason);
    EXPECT_EQ(err.block, 0U);
    EXPECT_EQ(err.word, RKC_NO_WORD);
    EXPECT_EQ(err.reg, 0U);
    return std::array<std::uint64_t, 3>{err.reason, err.value, err.limit};
  };
  using Error = std::array<std::uint64_t, 3>;
  EXPECT_EQ(error(100, 0, 110, 108), (Error{RKC_EMPTY, 0, 1}));
  EXPECT_EQ(error(200000, 1192, 110, 108), (Error{RKC_TOO_LONG, 1192, 1191}));
  EXPECT_EQ(error(200000, 4096, 110, 108, true), (Error{RKC_TOO_LONG, 4096, 4095}));
  EXPECT_EQ(error(200000, 1, 0, 5000), (Error{RKC_BAD_STRIDE, 5000, 4096}));
  EXPECT_EQ(error(400, 3, 100, 108), (Error{RKC_BAD_STRIDE, 100, 108}));
  EXPECT_EQ(error(400, 3, 5000, 108), (Error{RKC_BAD_STRIDE, 5000, 4096}));
  EXPECT_EQ(error(300, 3, 110, 108), (Error{RKC_TRUNCATED, 300, 328}));
  EXPECT_EQ(error(5000, 3, 110, 108), (Error{RKC_BAD_STRIDE, 5000, 328 + 4096}));
}

TEST(Program, MeasuringSaysWhatWasFoundAndWhatWasExpected) {
  const auto error = [](std::uint32_t mode, std::uint32_t count) {
    rkc_measure m{};
    rkc_err err{1, 2, 3, 4, 5, 6};
    EXPECT_EQ(rkc_chain_measure(mode, count, &m, &err), err.reason);
    EXPECT_EQ(err.word, RKC_NO_WORD);
    EXPECT_EQ(err.reg, 0U);
    return std::array<std::uint64_t, 3>{err.reason, err.value, err.limit};
  };
  using Error = std::array<std::uint64_t, 3>;
  EXPECT_EQ(error(4, 1), (Error{RKC_BAD_MODE, 4, 3}));
  EXPECT_EQ(error(RKC_WAIT, 0), (Error{RKC_EMPTY, 0, 1}));
  EXPECT_EQ(error(RKC_SINGLE, 4096), (Error{RKC_TOO_LONG, 4096, 4095}));
  const rkc_matmul d = block(0, RKC_FLAT, 1, 32, 32);
  Words words(112);
  rkc_err err{};
  EXPECT_EQ(rkc_chain_emit(RKC_WAIT, &d, 1, 0x18, words.data(), &err), RKC_IOVA_ALIGN);
  EXPECT_EQ((std::array<std::uint64_t, 3>{err.reg, err.value, err.limit}),
            (std::array<std::uint64_t, 3>{0x10, 0x18, 16}));
  EXPECT_EQ(rkc_chain_emit(RKC_WAIT, &d, 1, 0xfffffff0, words.data(), &err), RKC_IOVA_RANGE);
  EXPECT_EQ((std::array<std::uint64_t, 3>{err.reg, err.value, err.limit}),
            (std::array<std::uint64_t, 3>{0x10, 0xfffffff0, 0x100000000}));
  EXPECT_EQ(err.word, RKC_NO_WORD);
}

TEST(Program, IsDetectedUpToTheLimitsOfAnyLayout) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 64, 96);
  const Words one = full_program(d);
  Words many;
  for (int i = 0; i < 4095; ++i) many.insert(many.end(), one.begin(), one.end());
  for (std::size_t i = 108; i + 112 < many.size(); i += 112)
    many[i] = rkc_entry(RKC_TARGET_PC, RKC_PC_ADDRESS, static_cast<std::uint32_t>(8 * (i + 4)));
  rkc_program p{};
  EXPECT_EQ(rkc_program_detect(many.data(), many.size(), &p), std::uint32_t{RKC_LINK});
  EXPECT_EQ(p.count, 4095U);
  EXPECT_EQ(p.stride, 112U);
  EXPECT_EQ(rkc_program_shape(&p, nullptr), RKC_OK);
  many.insert(many.end(), one.begin(), one.end());
  EXPECT_EQ(rkc_program_detect(many.data(), many.size(), &p), std::uint32_t{RKC_MODES});
  // Padding behind a block belongs to it, as long as a block may be.
  for (const std::uint32_t stride : {4096U, 4097U}) {
    Words padded = one;
    padded.resize(stride);
    padded.insert(padded.end(), one.begin(), one.end());
    const std::uint32_t found = rkc_program_detect(padded.data(), padded.size(), &p);
    if (stride > 4096) {
      EXPECT_EQ(found, std::uint32_t{RKC_MODES});
      continue;
    }
    EXPECT_EQ(found, std::uint32_t{RKC_SINGLE});
    EXPECT_EQ(p.count, 2U);
    EXPECT_EQ(p.stride, stride);
    EXPECT_EQ(p.body, 108U);
    EXPECT_FALSE(p.link);
  }
  // A block alone, without a tail or with one.
  for (const std::size_t size : {108U, 109U, 112U}) {
    EXPECT_EQ(rkc_program_detect(one.data(), size, &p), std::uint32_t{RKC_SINGLE});
    EXPECT_EQ(p.count, 1U);
    EXPECT_EQ(p.body, 108U);
  }
}

TEST(Program, ABlockOfAnyLengthUpTo4096Words) {
  // Padding in the body is no reason to refuse; its length is.
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 64, 96);
  Words words(RKC_BODY_WORDS);
  rkc_generate(&d, words.data());
  words.resize(4097);
  rkc_recogniser scratch{};
  rkc_matmul found{};
  rkc_err err{};
  EXPECT_EQ(rkc_recognise(&scratch, words.data(), 4096, 4096, false, &found, &err), RKC_OK);
  EXPECT_TRUE(same(found, d));
  EXPECT_EQ(rkc_recognise(&scratch, words.data(), 4097, 4097, false, &found, &err), RKC_BAD_STRIDE);
  EXPECT_EQ(err.value, 4097U);
  EXPECT_EQ(err.limit, 4096U);
  EXPECT_EQ(rkc_recognise(&scratch, words.data(), 109, 108, false, &found, &err), RKC_BAD_STRIDE);
  EXPECT_EQ(err.value, 109U);
  EXPECT_EQ(err.limit, 108U);
}

}  // namespace

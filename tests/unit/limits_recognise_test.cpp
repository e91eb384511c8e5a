// SPDX-License-Identifier: MIT
// kmod/core: what a wrong value of each register means to the recogniser.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kmod/core/chain.h"
#include "kmod/core/entry.h"
#include "kmod/core/matmul.h"
#include "unit/core_samples.hpp"

namespace {

using rkchain::test::block;
using rkchain::test::full_program;
using rkchain::test::Words;

using Refusal = std::array<std::uint64_t, 5>;  ///< reason, word, register, value, limit

Refusal refuse(const Words& words) {
  rkc_recogniser scratch{};
  rkc_matmul found{};
  rkc_err err{};
  const std::uint32_t total = static_cast<std::uint32_t>(words.size());
  EXPECT_EQ(rkc_recognise(&scratch, words.data(), 108, total, false, &found, &err), err.reason);
  return {err.reason, err.word, err.reg, err.value, err.limit};
}

TEST(Recogniser, EachRegisterHasItsReason) {
  const std::map<std::uint32_t, std::uint32_t> reasons = {
      {0x100c, RKC_PRECISION},     {0x3010, RKC_PRECISION},     {0x4010, RKC_PRECISION},
      {0x4050, RKC_PRECISION},     {0x1010, RKC_COWORK},        {0x1014, RKC_COWORK},
      {0x1040, RKC_CBUF_REUSE},    {0x1020, RKC_SIZE_MISMATCH}, {0x1024, RKC_SIZE_MISMATCH},
      {0x1028, RKC_SIZE_MISMATCH}, {0x102c, RKC_SIZE_MISMATCH}, {0x1030, RKC_SIZE_MISMATCH},
      {0x1034, RKC_SIZE_MISMATCH}, {0x1038, RKC_SIZE_MISMATCH}, {0x1044, RKC_SIZE_MISMATCH},
      {0x1084, RKC_SIZE_MISMATCH}, {0x1088, RKC_SIZE_MISMATCH}, {0x3014, RKC_SIZE_MISMATCH},
      {0x3018, RKC_SIZE_MISMATCH}, {0x4030, RKC_SIZE_MISMATCH}, {0x4034, RKC_SIZE_MISMATCH},
      {0x403c, RKC_SIZE_MISMATCH}, {0x4058, RKC_SIZE_MISMATCH}, {0x405c, RKC_SIZE_MISMATCH},
      {0x107c, RKC_STRIDE},        {0x1080, RKC_STRIDE},        {0x4024, RKC_STRIDE},
      {0x4038, RKC_STRIDE},        {0x40c0, RKC_STRIDE},        {0x1100, RKC_COMPRESSION},
      {0x1104, RKC_COMPRESSION},   {0x4004, RKC_POINTER}};
  rkc_matmul slice = block(RKC_F16_F32, RKC_SLICE, 4, 64, 96);
  slice.m_total = 77;
  for (const rkc_matmul& d :
       {block(RKC_I8_I32, RKC_FLAT, 4, 64, 96), block(RKC_F16_F16, RKC_FLAT, 5, 96, 48),
        block(RKC_I8_I8, RKC_NATIVE, 4, 64, 96), slice}) {
    const Words original = full_program(d);
    std::set<std::uint32_t> seen;
    for (std::size_t i = RKC_BODY_WORDS; i-- > 0;) {
      const std::uint32_t reg = rkc_entry_reg(original[i]);
      // The last write counts; any address will do.
      if (!seen.insert(reg).second || reg == 0x1070 || reg == 0x1110 || reg == 0x4020) continue;
      Words words = original;
      words[i] ^= u64{1} << (16 + 30);
      const Refusal refusal = refuse(words);
      std::uint32_t expected = RKC_VALUE;
      if (reasons.count(reg) != 0) expected = reasons.at(reg);
      if (reg >= 0x1140 && reg <= 0x117c) expected = RKC_COMPRESSION;
      if (reg >= 0x4100 && reg <= 0x412c) expected = RKC_LUT;
      EXPECT_EQ(refusal, (Refusal{expected, i, reg, rkc_entry_value(words[i]),
                                  rkc_entry_value(original[i])}))
          << std::hex << reg << ' ' << rkc_reason_name(static_cast<std::uint32_t>(refusal[0]));
    }
    EXPECT_GT(seen.size(), 100U);
  }
}

// Whichever bit is wrong, its own word is named: what the others agree about is what was meant.
TEST(Recogniser, NamesTheOneWordThatIsWrong) {
  const std::map<std::uint32_t, std::uint32_t> only_schedule = {
      {0x1010, 0x3ff0}, {0x1040, 0xff}, {0x3010, 1}, {0x4050, 2}};
  for (std::uint32_t type = 0; type < RKC_TYPES; ++type) {
    for (std::uint32_t layout = 0; layout < RKC_LAYOUTS; ++layout) {
      rkc_matmul d = block(type, layout, 5, 64, 96);
      if (layout == RKC_SLICE) d.m_total = 77;
      const Words original = full_program(d);
      std::set<std::uint32_t> seen;
      for (std::size_t i = RKC_BODY_WORDS; i-- > 0;) {
        const std::uint32_t reg = rkc_entry_reg(original[i]);
        if (!seen.insert(reg).second || reg == 0x1070 || reg == 0x1110 || reg == 0x4020) continue;
        const auto free = only_schedule.find(reg);
        for (int bit = 0; bit < 32; ++bit) {
          Words words = original;
          words[i] ^= u64{1} << (16 + bit);
          const Refusal refusal = refuse(words);
          if (free != only_schedule.end() && (free->second >> bit & 1) != 0) {
            EXPECT_EQ(refusal[0], RKC_OK) << std::hex << reg << ' ' << bit;
            continue;
          }
          EXPECT_NE(refusal[0], RKC_OK) << std::hex << reg << ' ' << bit;
          EXPECT_EQ(refusal[1], i)
              << std::hex << reg << ' ' << bit << " type " << type << " layout " << layout;
          EXPECT_EQ(refusal[3], rkc_entry_value(words[i])) << std::hex << reg << ' ' << bit;
          EXPECT_EQ(refusal[4], rkc_entry_value(original[i])) << std::hex << reg << ' ' << bit;
        }
      }
    }
  }
}

TEST(Recogniser, SaysWhatNoProgramHolds) {
  Words words = full_program(block(RKC_I8_I32, RKC_FLAT, 4, 64, 96));
  const auto with = [&words](std::size_t at, u64 word) {
    Words changed = words;
    changed[at] = word;
    return refuse(changed);
  };
  // In the body,
  EXPECT_EQ(with(7, rkc_entry(0x0081, 0x8, 0xd)), (Refusal{RKC_BAD_OP_ENABLE, 7, 0x8, 0xd, 0}));
  EXPECT_EQ(with(7, rkc_entry(0x0041, 0x9, 0x5)), (Refusal{RKC_BAD_OP_ENABLE, 7, 0x9, 0x5, 0}));
  EXPECT_EQ(with(7, rkc_entry(0x0101, 0x34, 0x5)), (Refusal{RKC_BASE_ADDRESS, 7, 0x34, 0x5, 0}));
  EXPECT_EQ(with(7, rkc_entry(0x2001, 0x5018, 0x5)),
            (Refusal{RKC_FOREIGN_TARGET, 7, 0x5018, 0x2001, 0}));
  EXPECT_EQ(with(7, rkc_entry(0, 0x1014, 0x5)),
            (Refusal{RKC_BAD_PADDING, 7, 0x1014, rkc_entry(0, 0x1014, 0x5), 0}));
  EXPECT_EQ(with(7, rkc_entry(0x0201, 0x4014, 0x5)),
            (Refusal{RKC_PAGE_MISMATCH, 7, 0x4014, 0x4000, 0x1000}));
  EXPECT_EQ(with(7, rkc_entry(0x0801, 0x3004, 0x5)), (Refusal{RKC_POINTER, 7, 0x3004, 0x5, 0}));
  EXPECT_EQ(with(7, rkc_entry(0x1001, 0x4008, 0x5)),
            (Refusal{RKC_UNIT_OP_ENABLE, 7, 0x4008, 0x5, 0}));
  for (const std::uint32_t reg : {0x1005U, 0x1006U, 0x1009U, 0x100aU, 0x1018U, 0x1200U, 0x1fffU})
    EXPECT_EQ(with(7, rkc_entry(0x0201, reg, 0x5)), (Refusal{RKC_UNKNOWN_REG, 7, reg, 0x5, 0}));
  for (const std::uint32_t reg : {0x3000U, 0x300cU, 0x3040U})
    EXPECT_EQ(with(7, rkc_entry(0x0801, reg, 0x5)), (Refusal{RKC_UNKNOWN_REG, 7, reg, 0x5, 0}));
  for (const std::uint32_t reg : {0x4000U, 0x4018U, 0x4130U, 0x4200U})
    EXPECT_EQ(with(7, rkc_entry(0x1001, reg, 0x5)), (Refusal{RKC_UNKNOWN_REG, 7, reg, 0x5, 0}));
  // and in the tail.
  EXPECT_EQ(with(110, rkc_entry(0x0041, 0x9, 0x5)),
            (Refusal{RKC_BAD_PADDING, 110, 0x9, rkc_entry(0x0041, 0x9, 0x5), 0}));
  EXPECT_EQ(with(110, rkc_entry(0, 0x9, 0)), (Refusal{RKC_BAD_PADDING, 110, 0x9, 0x9, 0}));
  EXPECT_EQ(with(111, rkc_entry(0x0081, 0x8, 0x1d)),
            (Refusal{RKC_BAD_OP_ENABLE, 111, 0x8, 0x1d, 0xd}));
  EXPECT_EQ(with(111, rkc_entry(0x0081, 0x4, 0xd)),
            (Refusal{RKC_BAD_OP_ENABLE, 111, 0x4, 0xd, 0xd}));
  EXPECT_EQ(with(109, rkc_entry(0x0101, 0x10, 0x80)), (Refusal{RKC_JUMP, 109, 0x10, 0x80, 0}));
  EXPECT_EQ(with(109, rkc_entry(0x0101, 0x20, 0x80)), (Refusal{RKC_INT_MASK, 109, 0x20, 0x80, 0}));
  EXPECT_EQ(with(110, rkc_entry(0x0801, 0x3010, 1)),
            (Refusal{RKC_BAD_PADDING, 110, 0x3010, 0x0801, 0}));
  EXPECT_EQ(with(110, rkc_entry(0x8001, 0x7008, 1)),
            (Refusal{RKC_FOREIGN_TARGET, 110, 0x7008, 0x8001, 0}));
  // An address that is left out is not address 0.
  for (const std::size_t at : {25U, 34U, 61U})
    EXPECT_EQ(with(at, 0), (Refusal{RKC_MISSING_REG, RKC_NO_WORD, rkc_entry_reg(words[at]), 0, 0}));
}

// Layers repeat their shapes: programs in the generator's order cost a comparison then, and are
// not read register by register.
TEST(Recogniser, NamesTheFirstOfSeveralThatAreWrong) {
  const Words original = full_program(block(RKC_I8_I32, RKC_FLAT, 4, 64, 96));
  std::vector<std::size_t> constants;
  for (std::size_t i = 0; i < RKC_BODY_WORDS; ++i) {
    Words words = original;
    words[i] ^= u64{1} << (16 + 30);
    const Refusal refusal = refuse(words);
    if (refusal[0] == RKC_VALUE && refusal[1] == i) constants.push_back(i);
  }
  ASSERT_GT(constants.size(), 10U);
  for (std::size_t one = 0; one + 1 < constants.size(); ++one) {
    Words words = original;
    for (const std::size_t i : {constants[one], constants[one + 1]}) words[i] ^= u64{1} << 46;
    EXPECT_EQ(refuse(words)[1], constants[one]);
    std::swap(words[constants[one]], words[constants[one + 1]]);
    EXPECT_EQ(refuse(words)[1], constants[one]);
  }
}

TEST(Recogniser, KnowsNothingOfTheProgramBefore) {
  const rkc_matmul d = block(RKC_F16_F32, RKC_FLAT, 4, 64, 96);
  const Words original = full_program(d);
  Words reordered(original.begin(), original.begin() + RKC_BODY_WORDS);
  std::rotate(reordered.begin() + 16, reordered.begin() + 50, reordered.end());
  const std::uint32_t body = RKC_BODY_WORDS - 1;
  std::size_t refused = 0;
  for (std::size_t missing = 0; missing < RKC_BODY_WORDS; ++missing) {
    Words words = reordered;
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(missing));
    rkc_matmul found;
    std::memset(&found, 0xff, sizeof(found));
    rkc_err fresh{};
    rkc_err used{};
    rkc_recogniser scratch{};
    ASSERT_EQ(rkc_recognise(&scratch, reordered.data(), RKC_BODY_WORDS, RKC_BODY_WORDS, false,
                            &found, nullptr),
              RKC_OK);
    EXPECT_TRUE(rkchain::test::same(found, d));
    // Longer than ours, so that it is not even compared with ours.
    Words padded = reordered;
    padded.push_back(0);
    std::memset(&found, 0xff, sizeof(found));
    ASSERT_EQ(rkc_recognise(&scratch, padded.data(), RKC_BODY_WORDS + 1, RKC_BODY_WORDS + 1, false,
                            &found, nullptr),
              RKC_OK);
    EXPECT_TRUE(rkchain::test::same(found, d));
    rkc_recognise(&scratch, words.data(), body, body, false, &found, &used);
    scratch = {};
    rkc_recognise(&scratch, words.data(), body, body, false, &found, &fresh);
    EXPECT_EQ(used.reason, fresh.reason) << missing;
    EXPECT_EQ(used.word, fresh.word) << missing;
    if (fresh.reason != RKC_OK) ++refused;
  }
  EXPECT_GT(refused, 20U);
}

TEST(Recogniser, IsQuickWithShapesThatItKnows) {
  const auto time = [](rkc_recogniser* scratch, const Words& words) {
    auto least = std::chrono::nanoseconds::max();
    for (int round = 0; round < 20; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 10; ++i) {
        rkc_matmul d{};
        d.a = d.b = d.c = 1;
        if (rkc_recognise(scratch, words.data(), 108, 108, false, &d, nullptr) != RKC_OK)
          return least;
      }
      least = std::min<std::chrono::nanoseconds>(least, std::chrono::steady_clock::now() - start);
    }
    return least;
  };
  rkc_recogniser known{};
  for (std::uint32_t type = 0; type < RKC_TYPES; ++type) {
    for (std::uint32_t layout = 0; layout < RKC_LAYOUTS; ++layout) {
      for (const std::uint32_t m : {1U, 3U}) {
        rkc_matmul d = block(type, layout, m, 64, 96);
        if (layout == RKC_SLICE) d.m_total = 77;
        Words words = full_program(d);
        words.resize(108);
        // What only schedules may differ.
        for (const std::size_t at : {0U, 15U}) words[at] ^= u64{0x77} << 16;
        words[6] ^= u64{0x3ff0} << 16;
        words[53] ^= u64{1} << 16;
        words[71] ^= u64{2} << 16;
        Words reordered = words;
        std::rotate(reordered.begin() + 16, reordered.begin() + 50, reordered.end());
        bool quick = false;
        for (int attempt = 0; attempt < 10 && !quick; ++attempt) {
          rkc_recogniser scratch{};
          const auto thorough = time(&scratch, reordered);
          quick = 2 * time(&known, words) < thorough;
        }
        EXPECT_TRUE(quick) << type << ' ' << layout << ' ' << m;
      }
    }
  }
}

}  // namespace

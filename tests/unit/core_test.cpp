// SPDX-License-Identifier: MIT
// kmod/core: generator and recogniser, word by word.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kmod/core/chain.h"
#include "kmod/core/entry.h"
#include "kmod/core/matmul.h"
#include "unit/core_samples.hpp"

namespace {

using rkchain::test::any_matmul;
using rkchain::test::block;
using rkchain::test::full_program;
using rkchain::test::same;
using rkchain::test::Words;

struct Verdict {
  std::uint32_t reason;
  rkc_matmul d;
  rkc_err err;
};

Verdict recognise(const Words& words, std::uint32_t body = RKC_BODY_WORDS, bool link = false) {
  rkc_recogniser scratch{};
  Verdict v{};
  v.reason = rkc_recognise(&scratch, words.data(), body, static_cast<std::uint32_t>(words.size()),
                           link, &v.d, &v.err);
  return v;
}

std::map<std::uint32_t, std::uint32_t> registers(const rkc_matmul& d) {
  std::map<std::uint32_t, std::uint32_t> map;
  std::array<u64, RKC_BODY_WORDS> body{};
  rkc_generate(&d, body.data());
  for (const u64 word : body) map[rkc_entry_reg(word)] = rkc_entry_value(word);
  return map;
}

// Index of the last word that writes a register.
std::size_t word_of(const Words& words, std::uint32_t reg) {
  for (std::size_t i = words.size(); i-- > 0;)
    if (rkc_entry_reg(words[i]) == reg && rkc_entry_target(words[i]) != RKC_TARGET_NOP) return i;
  return words.size();
}

void set_register(Words& words, std::uint32_t reg, std::uint32_t value) {
  const std::size_t i = word_of(words, reg);
  ASSERT_LT(i, words.size());
  words[i] = rkc_entry(rkc_entry_target(words[i]), reg, value);
}

TEST(Generator, WritesTheCapturedProgramWordForWord) {
  const auto vector =
      nlohmann::json::parse(std::ifstream(std::string(RKCHAIN_VECTORS_DIR) + "/int8_4x32x32.json"));
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 32, 32, 0xfffe8000, 0xfffec000, 0xfffea000);
  const Words words = full_program(d);
  ASSERT_EQ(vector["regcmd"].size(), words.size());
  for (std::size_t i = 0; i < words.size(); ++i)
    EXPECT_EQ(words[i], std::stoull(vector["regcmd"][i].get<std::string>(), nullptr, 16))
        << "word " << i;
}

TEST(Generator, WritesFp16Registers) {
  auto r = registers(block(RKC_F16_F32, RKC_FLAT, 4, 64, 48));
  EXPECT_EQ(r[0x100c], 0x20000000U | 2U << 7 | 2U << 4);
  EXPECT_EQ(r[0x1024], 63U << 16 | 64U);
  EXPECT_EQ(r[0x1030], 64U * 48 * 2);
  EXPECT_EQ(r[0x1034], 128U);
  EXPECT_EQ(r[0x1044], 2U);
  EXPECT_EQ(r[0x107c], 8U);
  EXPECT_EQ(r[0x3010], 0x201U);
  EXPECT_EQ(r[0x4010], 0xa8000002U);
  EXPECT_EQ(r[0x4038], 11U << 16 | 11U);
  EXPECT_EQ(r[0x4050], 0x36eU);
  EXPECT_EQ(r[0x4084], 1U);
  EXPECT_EQ(r[0x40c0], 0x40U);
  r = registers(block(RKC_F16_F16, RKC_FLAT, 4, 64, 48));
  EXPECT_EQ(r[0x4010], 0x48000002U);
  EXPECT_EQ(r[0x4038], 5U << 16 | 5U);
  EXPECT_EQ(r[0x4050], 0x126U);
  EXPECT_EQ(r[0x4084], 0x10001U);
  EXPECT_EQ(r[0x40c0], 0x20U);
  r = registers(block(RKC_I8_I8, RKC_FLAT, 4, 64, 64));
  EXPECT_EQ(r[0x4010], 0U);
  EXPECT_EQ(r[0x4038], 3U << 16 | 3U);
  EXPECT_EQ(r[0x4050], 0x124U);
  EXPECT_EQ(r[0x4084], 1U);
}

TEST(Generator, WritesNativeStrides) {
  auto r = registers(block(RKC_I8_I32, RKC_NATIVE, 5, 64, 32));
  EXPECT_EQ(r[0x100c], 0U);
  EXPECT_EQ(r[0x1010], 2U << 4);
  EXPECT_EQ(r[0x1020], 5U << 16 | 1U);
  EXPECT_EQ(r[0x1028], 5U);
  EXPECT_EQ(r[0x102c], 5U);
  EXPECT_EQ(r[0x1044], 5U);
  EXPECT_EQ(r[0x107c], 20U);
  EXPECT_EQ(r[0x1080], static_cast<std::uint32_t>(-15) & 0x0fffffffU);
  EXPECT_EQ(r[0x3014], 4U);
  EXPECT_EQ(r[0x4024], 80U);
  EXPECT_EQ(r[0x4030], 4U);
  EXPECT_EQ(r[0x4034], 0U);
  EXPECT_EQ(r[0x4038], 0U);
  EXPECT_EQ(r[0x40c0], 640U);
  EXPECT_EQ(registers(block(RKC_I8_I32, RKC_NATIVE, 1, 64, 32))[0x1080],
            static_cast<std::uint32_t>(-3) & 0x0fffffffU);
}

TEST(Generator, WritesRowSliceStrides) {
  rkc_matmul d = block(RKC_I8_I32, RKC_SLICE, 5, 64, 32);
  d.m_total = 100;
  auto r = registers(d);
  EXPECT_EQ(r[0x100c], 0x20000000U);
  EXPECT_EQ(r[0x107c], 100U);
  EXPECT_EQ(r[0x1080], 95U);
  EXPECT_EQ(r[0x4024], 1600U);
  EXPECT_EQ(r[0x4038], 0U);
  EXPECT_EQ(r[0x40c0], 12800U);
}

TEST(Generator, SplitsCbufByTheFeatures) {
  EXPECT_EQ(registers(block(RKC_I8_I32, RKC_FLAT, 1, 32, 32))[0x1040], 0xb1U);
  EXPECT_EQ(registers(block(RKC_I8_I32, RKC_FLAT, 64, 4096, 32))[0x1040], 0x48U);
  EXPECT_EQ(registers(block(RKC_I8_I32, RKC_FLAT, 704, 512, 32))[0x1040], 0x1bU);
}

TEST(Extents, CountPaddingReads) {
  rkc_extents x{};
  rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 5, 64, 96);
  rkc_matmul_extents(&d, &x);
  EXPECT_EQ(x.a.len, 5U * 64);
  EXPECT_EQ(x.b.len, 64U * 96);
  EXPECT_EQ(x.c.len, 5U * 96 * 4);
  d.layout = RKC_NATIVE;
  rkc_matmul_extents(&d, &x);
  EXPECT_EQ(x.a.len, 5U * 64 + 48 * 5);
  EXPECT_EQ(x.c.len, 5U * 96 * 4);
  d.layout = RKC_SLICE;
  d.m_total = 9;
  rkc_matmul_extents(&d, &x);
  EXPECT_EQ(x.a.len, 16U * (3 * 9 + 5));
  EXPECT_EQ(x.c.len, 16U * (23 * 9 + 5));
}

// Every limit of a descriptor, one row per place that refuses.
struct LimitCase {
  const char* what;
  rkc_matmul d;
  std::uint32_t reason;
  std::uint64_t value;
  std::uint64_t limit;
};

class Limits : public testing::TestWithParam<LimitCase> {};

TEST_P(Limits, RefusesWithReasonValueAndLimit) {
  rkc_err err{};
  EXPECT_EQ(rkc_matmul_check(&GetParam().d, &err), GetParam().reason);
  EXPECT_EQ(err.reason, GetParam().reason);
  EXPECT_EQ(err.value, GetParam().value);
  EXPECT_EQ(err.limit, GetParam().limit);
  EXPECT_EQ(rkc_matmul_check(&GetParam().d, nullptr), GetParam().reason);
}

rkc_matmul with_total(rkc_matmul d, std::uint32_t total) {
  d.m_total = total;
  return d;
}

constexpr std::uint64_t kFourGiB = 0x100000000ULL;

INSTANTIATE_TEST_SUITE_P(
    All, Limits,
    testing::Values(
        LimitCase{"type", block(9, RKC_FLAT, 1, 32, 32), RKC_BAD_TYPE, 9, 3},
        LimitCase{"layout", block(0, 7, 1, 32, 32), RKC_BAD_LAYOUT, 7, 2},
        LimitCase{"m 0", block(0, RKC_FLAT, 0, 32, 32), RKC_M_ZERO, 0, 1},
        LimitCase{"k 0", block(0, RKC_FLAT, 1, 0, 32), RKC_K_RANGE, 0, 10752},
        LimitCase{"k big", block(0, RKC_FLAT, 1, 10784, 32), RKC_K_RANGE, 10784, 10752},
        LimitCase{"k align", block(0, RKC_FLAT, 1, 48, 32), RKC_K_ALIGN, 48, 32},
        LimitCase{"n 0", block(0, RKC_FLAT, 1, 32, 0), RKC_N_RANGE, 0, 8192},
        LimitCase{"n big", block(0, RKC_FLAT, 1, 32, 16384), RKC_N_RANGE, 16384, 8192},
        LimitCase{"n align", block(0, RKC_FLAT, 1, 32, 48), RKC_N_ALIGN, 48, 32},
        LimitCase{"n align fp16", block(2, RKC_FLAT, 1, 32, 24), RKC_N_ALIGN, 24, 16},
        LimitCase{"rows 512", block(0, RKC_FLAT, 705, 512, 32), RKC_M_TOO_BIG, 705, 704},
        LimitCase{"rows 1024", block(0, RKC_FLAT, 321, 1024, 32), RKC_M_TOO_BIG, 321, 320},
        LimitCase{"rows 2048", block(0, RKC_FLAT, 129, 2048, 32), RKC_M_TOO_BIG, 129, 128},
        LimitCase{"rows 4096", block(0, RKC_FLAT, 65, 4096, 32), RKC_M_TOO_BIG, 65, 64},
        LimitCase{"rows 10752", block(0, RKC_FLAT, 4, 10752, 32), RKC_M_TOO_BIG, 4, 3},
        LimitCase{"rows fp16", block(2, RKC_FLAT, 17, 1024, 32), RKC_M_TOO_BIG, 17, 16},
        // The hang that others saw lies inside the general limit.
        LimitCase{"fp16 hang", block(2, RKC_FLAT, 129, 1024, 16), RKC_M_TOO_BIG, 129, 16},
        LimitCase{"slice > total", with_total(block(0, RKC_SLICE, 5, 32, 32), 4), RKC_ROWS_TOTAL, 4,
                  0x1ffffff},
        LimitCase{"total big", with_total(block(0, RKC_SLICE, 5, 32, 32), 0x2000000),
                  RKC_ROWS_TOTAL, 0x2000000, 0x1ffffff},
        LimitCase{"total of flat", with_total(block(0, RKC_FLAT, 5, 32, 32), 6), RKC_ROWS_TOTAL, 6,
                  5},
        LimitCase{"a align", block(0, RKC_FLAT, 1, 32, 32, 0x1008), RKC_ADDR_ALIGN, 0x1008, 16},
        LimitCase{"b align", block(0, RKC_FLAT, 1, 32, 32, 0x1000, 0x2001), RKC_ADDR_ALIGN, 0x2001,
                  16},
        LimitCase{"c align", block(0, RKC_FLAT, 1, 32, 32, 0x1000, 0x2000, 0x3004), RKC_ADDR_ALIGN,
                  0x3004, 16},
        LimitCase{"a range", block(0, RKC_FLAT, 2, 32, 32, 0xffffffd0), RKC_ADDR_RANGE,
                  kFourGiB + 0x10, kFourGiB},
        LimitCase{"a native padding", block(0, RKC_NATIVE, 1, 32, 32, 0xffffffe0), RKC_ADDR_RANGE,
                  kFourGiB + 48, kFourGiB},
        LimitCase{"b range", block(0, RKC_FLAT, 1, 32, 32, 0x1000, 0xfffffc10), RKC_ADDR_RANGE,
                  kFourGiB + 0x10, kFourGiB},
        LimitCase{"c range", block(0, RKC_FLAT, 1, 32, 32, 0x1000, 0x2000, 0xffffff90),
                  RKC_ADDR_RANGE, kFourGiB + 0x10, kFourGiB}),
    [](const auto& test) {
      std::string name = test.param.what;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

TEST(Limits, TakeTheLastByteBelow4GiB) {
  const rkc_matmul d = block(0, RKC_FLAT, 2, 32, 32, 0xffffffc0, 0xfffffc00, 0xffffff00);
  EXPECT_EQ(rkc_matmul_check(&d, nullptr), RKC_OK);
}

TEST(Limits, MaxRowsLeaveRoomForAKernelGroup) {
  for (std::uint32_t k = 32; k <= RKC_K_MAX; k += 32) {
    for (std::uint32_t type = 0; type < RKC_TYPES; ++type) {
      const std::uint32_t rows = rkc_max_rows(type, k);
      const std::uint32_t bytes = rkc_in_bytes(type);
      const std::uint32_t banks = (rows * k * bytes + 32767) / 32768;
      ASSERT_GE(rows, 1U);
      ASSERT_LE(banks, 11U);
      ASSERT_LE(rkc_kernel_group(type) * k * bytes, (12 - banks) * 32768) << "K " << k;
    }
  }
  EXPECT_EQ(rkc_max_rows(0, 33), 0U);
  EXPECT_EQ(rkc_max_rows(0, RKC_K_MAX + 32), 0U);
  EXPECT_EQ(rkc_max_rows(4, 32), 0U);
}

TEST(Recogniser, InvertsTheGenerator) {
  std::mt19937 rng(1);
  rkc_recogniser scratch{};
  for (int i = 0; i < 200000; ++i) {
    const rkc_matmul d = any_matmul(rng);
    std::array<u64, RKC_BODY_WORDS> words{};
    rkc_matmul found{};
    rkc_err err{};
    rkc_generate(&d, words.data());
    ASSERT_EQ(
        rkc_recognise(&scratch, words.data(), RKC_BODY_WORDS, RKC_BODY_WORDS, false, &found, &err),
        RKC_OK)
        << rkc_reason_name(err.reason) << " word " << err.word;
    ASSERT_TRUE(same(found, d));
  }
}

TEST(Recogniser, TakesAnyOrderAndRepeats) {
  std::mt19937 rng(2);
  for (int i = 0; i < 5000; ++i) {
    const rkc_matmul d = any_matmul(rng);
    Words words(RKC_BODY_WORDS);
    rkc_generate(&d, words.data());
    // A wrong value that a later write puts right does not count.
    Words before = words;
    std::shuffle(before.begin(), before.end(), rng);
    for (u64& word : before) word ^= u64{rng()} << 16 & 0xffffffff0000ULL;
    std::shuffle(words.begin(), words.end(), rng);
    words.insert(words.begin(), before.begin(), before.begin() + rng() % before.size());
    const Verdict v = recognise(words, static_cast<std::uint32_t>(words.size()));
    ASSERT_EQ(v.reason, RKC_OK) << rkc_reason_name(v.reason) << " word " << v.err.word;
    ASSERT_TRUE(same(v.d, d));
  }
}

// No first 0x1040, 0x1104, 0x1100 and one 0x100c; int8 with 3010 = 0, 4050 = 0x7fe.
Words other_generator(const rkc_matmul& d) {
  Words words(RKC_BODY_WORDS);
  rkc_generate(&d, words.data());
  words.erase(words.begin() + 5);
  words.erase(words.begin(), words.begin() + 3);
  if (d.type < RKC_F16_F32) {
    set_register(words, 0x3010, 0);
    words[word_of(words, 0x4050)] |= u64{2} << 16;
  }
  return words;
}

TEST(Recogniser, TakesThe104EntryProgram) {
  std::mt19937 rng(3);
  for (int i = 0; i < 5000; ++i) {
    const rkc_matmul d = any_matmul(rng);
    const Words words = other_generator(d);
    ASSERT_EQ(words.size(), 104U);
    const Verdict v = recognise(words, 104);
    ASSERT_EQ(v.reason, RKC_OK) << rkc_reason_name(v.reason) << " word " << v.err.word;
    ASSERT_TRUE(same(v.d, d));
  }
}

// NATIVE memory as an image one pixel wide, M high.
Words tall_native(const rkc_matmul& d) {
  Words words(RKC_BODY_WORDS);
  rkc_generate(&d, words.data());
  set_register(words, 0x1010, (d.m + 1) << 4);
  set_register(words, 0x1020, 1U << 16 | d.m);
  set_register(words, 0x1084, 1U << 16 | d.m);
  set_register(words, 0x1028, 1);
  set_register(words, 0x1044, (d.k * rkc_in_bytes(d.type) + 63) / 64);
  set_register(words, 0x107c, 4);
  set_register(words, 0x1080, (d.m - 4) & 0x0fffffffU);
  set_register(words, 0x3014, (d.m - 1) << 16);
  set_register(words, 0x4030, 0);
  set_register(words, 0x4034, d.m - 1);
  set_register(words, 0x405c, (d.m - 1) << 16);
  return words;
}

TEST(Recogniser, TakesNativeMemoryAsATallImage) {
  for (std::uint32_t m = 1; m <= 64; ++m) {
    const rkc_matmul d = block(RKC_I8_I32, RKC_NATIVE, m, 64, 32);
    const Verdict v = recognise(tall_native(d));
    ASSERT_EQ(v.reason, RKC_OK) << "M " << m << ' ' << rkc_reason_name(v.reason);
    ASSERT_TRUE(same(v.d, d));
  }
}

TEST(Recogniser, RefusesATallImageWithTheStrideRoundedWrongly) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_NATIVE, 6, 64, 32);
  Words words = tall_native(d);
  set_register(words, 0x1080, 4);  // 4 * ((6 + 3) / 4 - 1)
  const Verdict v = recognise(words);
  EXPECT_EQ(v.reason, RKC_STRIDE);
  EXPECT_EQ(v.err.reg, 0x1080U);
  EXPECT_EQ(v.err.word, word_of(words, 0x1080));
}

bool is_address_register(std::uint32_t reg) {
  return reg == 0x1070 || reg == 0x1110 || reg == 0x4020;
}

TEST(Recogniser, EverySingleBitChangeIsRefusedOrHarmless) {
  const std::array<rkc_matmul, 8> shapes = {
      block(RKC_I8_I32, RKC_FLAT, 4, 32, 32),
      block(RKC_I8_I32, RKC_FLAT, 1, 1024, 2048),
      block(RKC_I8_I8, RKC_FLAT, 64, 4096, 8192),
      block(RKC_F16_F32, RKC_FLAT, 3, 96, 16),
      block(RKC_F16_F16, RKC_NATIVE, 16, 64, 48),
      block(RKC_I8_I32, RKC_NATIVE, 1, 32, 32),
      with_total(block(RKC_I8_I32, RKC_SLICE, 4, 64, 64), 4),
      with_total(block(RKC_F16_F32, RKC_SLICE, 1, 32, 16), 77)};
  for (const rkc_matmul& d : shapes) {
    const Words original = full_program(d);
    std::size_t refused = 0;
    for (std::size_t i = 0; i < original.size(); ++i) {
      for (int bit = 0; bit < 64; ++bit) {
        Words words = original;
        words[i] ^= u64{1} << bit;
        const Verdict v = recognise(words);
        if (v.reason != RKC_OK) {
          ++refused;
          continue;
        }
        if (same(v.d, d)) continue;
        // Only an address may have changed: by that bit, or because a word of value 0 has
        // become a later write of an address register.
        ASSERT_TRUE(rkc_same_shape(&v.d, &d)) << "word " << i << " bit " << bit;
        ASSERT_TRUE(is_address_register(rkc_entry_reg(words[i]))) << "word " << i;
        if (bit < 16) continue;
        ASSERT_EQ((v.d.a ^ d.a) + (v.d.b ^ d.b) + (v.d.c ^ d.c), 1U << (bit - 16));
      }
    }
    // Nearly all of the 112 * 64 bits decide something.
    EXPECT_GT(refused, 6600U);
  }
}

// What differs from a good program, and what the refusal has to say.
struct RefusalCase {
  const char* what;
  std::uint64_t word;  ///< replaces the last write of its register, or is appended to the body
  std::uint32_t reason;
  bool append;
};

class Refusals : public testing::TestWithParam<RefusalCase> {};

TEST_P(Refusals, NameTheWord) {
  const RefusalCase& c = GetParam();
  Words words(RKC_BODY_WORDS);
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 64, 96);
  rkc_generate(&d, words.data());
  std::size_t at = words.size();
  if (c.append) {
    words.push_back(c.word);
  } else {
    at = word_of(words, rkc_entry_reg(c.word));
    ASSERT_LT(at, words.size());
    words[at] = c.word;
  }
  const Verdict v = recognise(words, static_cast<std::uint32_t>(words.size()));
  EXPECT_STREQ(rkc_reason_name(v.reason), rkc_reason_name(c.reason));
  EXPECT_EQ(v.err.word, at);
}

constexpr u64 cna(std::uint32_t reg, std::uint32_t value) {
  return u64{RKC_TARGET_CNA} << 48 | u64{value} << 16 | reg;
}
constexpr u64 core(std::uint32_t reg, std::uint32_t value) {
  return u64{RKC_TARGET_CORE} << 48 | u64{value} << 16 | reg;
}
constexpr u64 dpu(std::uint32_t reg, std::uint32_t value) {
  return u64{RKC_TARGET_DPU} << 48 | u64{value} << 16 | reg;
}
constexpr u64 other(std::uint32_t target, std::uint32_t reg, std::uint32_t value) {
  return u64{target} << 48 | u64{value} << 16 | reg;
}

INSTANTIATE_TEST_SUITE_P(
    All, Refusals,
    testing::Values(
        RefusalCase{"page", other(RKC_TARGET_CNA, 0x4014, 0), RKC_PAGE_MISMATCH, true},
        RefusalCase{"rdma", other(RKC_TARGET_DPU_RDMA, 0x5018, 0), RKC_FOREIGN_TARGET, true},
        RefusalCase{"ppu", other(RKC_TARGET_PPU, 0x6070, 0), RKC_FOREIGN_TARGET, true},
        RefusalCase{"rk3568", other(RKC_TARGET_RK3568, 0x2010, 0), RKC_FOREIGN_TARGET, true},
        RefusalCase{"unknown register", cna(0x1018, 0), RKC_UNKNOWN_REG, true},
        RefusalCase{"odd register", cna(0x1021, 0), RKC_UNKNOWN_REG, true},
        RefusalCase{"clock gate", cna(0x1090, 0), RKC_UNKNOWN_REG, true},
        RefusalCase{"mac gating", core(0x300c, 0), RKC_UNKNOWN_REG, true},
        RefusalCase{"jump address", other(RKC_TARGET_PC, 0x10, 0x1000), RKC_JUMP, true},
        RefusalCase{"jump amount", other(RKC_TARGET_PC, 0x14, 0x37), RKC_JUMP, true},
        RefusalCase{"base", other(RKC_TARGET_PC, 0x34, 0), RKC_BASE_ADDRESS, true},
        RefusalCase{"int mask", other(RKC_TARGET_PC, 0x20, 0x300), RKC_INT_MASK, true},
        RefusalCase{"int clear", other(RKC_TARGET_PC, 0x24, 0x1ffff), RKC_INT_MASK, true},
        RefusalCase{"task control", other(RKC_TARGET_PC, 0x30, 0x6001), RKC_TASK_CONTROL, true},
        RefusalCase{"pc op enable", other(RKC_TARGET_PC, 0x8, 1), RKC_PC_WRITE, true},
        RefusalCase{"cna op enable", cna(0x1008, 1), RKC_UNIT_OP_ENABLE, true},
        RefusalCase{"core op enable", core(0x3008, 1), RKC_UNIT_OP_ENABLE, true},
        RefusalCase{"dpu op enable", dpu(0x4008, 1), RKC_UNIT_OP_ENABLE, true},
        RefusalCase{"cna pointer", cna(0x1004, 0xe), RKC_POINTER, true},
        RefusalCase{"core pointer", core(0x3004, 0xe), RKC_POINTER, true},
        RefusalCase{"dpu pointer", dpu(0x4004, 0), RKC_POINTER, false},
        RefusalCase{"op in body", other(RKC_TARGET_OP_ENABLE, 8, 0xd), RKC_BAD_OP_ENABLE, true},
        RefusalCase{"nop with value", 0x10000, RKC_BAD_PADDING, true},
        RefusalCase{"short weights", cna(0x1030, 64 * 96 - 64), RKC_SHORT_WEIGHTS, false},
        RefusalCase{"short kernel", cna(0x1034, 32), RKC_SHORT_WEIGHTS, false},
        RefusalCase{"long weights", cna(0x1030, 64 * 96 + 64), RKC_SIZE_MISMATCH, false},
        RefusalCase{"cna height", cna(0x1020, 1 << 16 | 5), RKC_SIZE_MISMATCH, false},
        RefusalCase{"dma height", cna(0x1084, 1 << 16 | 3), RKC_SIZE_MISMATCH, false},
        RefusalCase{"channels", cna(0x1024, 31 << 16 | 32), RKC_SIZE_MISMATCH, false},
        RefusalCase{"dma channels", cna(0x1088, 32), RKC_SIZE_MISMATCH, false},
        RefusalCase{"kernels", cna(0x1038, 0x01010000 | 64), RKC_SIZE_MISMATCH, false},
        RefusalCase{"core kernels", core(0x3018, 63), RKC_SIZE_MISMATCH, false},
        RefusalCase{"core height", core(0x3014, 4 << 16), RKC_SIZE_MISMATCH, false},
        RefusalCase{"dpu channels", dpu(0x403c, 63 << 16 | 63), RKC_SIZE_MISMATCH, false},
        RefusalCase{"wdma channels", dpu(0x4058, 127), RKC_SIZE_MISMATCH, false},
        RefusalCase{"wdma height", dpu(0x405c, 7 << 16), RKC_SIZE_MISMATCH, false},
        RefusalCase{"entries", cna(0x1044, 2), RKC_SIZE_MISMATCH, false},
        RefusalCase{"cowork", cna(0x1014, 0x10000009), RKC_COWORK, false},
        RefusalCase{"conv2 low bits", cna(0x1010, 5 << 4 | 1), RKC_COWORK, false},
        RefusalCase{"data reuse", cna(0x1040, 0x10b1), RKC_CBUF_REUSE, false},
        RefusalCase{"weight reuse", cna(0x1040, 0x20b1), RKC_CBUF_REUSE, false},
        RefusalCase{"compression", cna(0x1100, 1), RKC_COMPRESSION, false},
        RefusalCase{"compression regs", cna(0x1104, 1), RKC_COMPRESSION, false},
        RefusalCase{"compression amount", cna(0x117c, 1), RKC_COMPRESSION, false},
        RefusalCase{"lut", dpu(0x4108, 1), RKC_LUT, false},
        RefusalCase{"line stride", cna(0x107c, 8), RKC_STRIDE, false},
        RefusalCase{"surface stride", cna(0x1080, 1), RKC_STRIDE, false},
        RefusalCase{"output stride", dpu(0x4024, 32), RKC_STRIDE, false},
        RefusalCase{"notch", dpu(0x4038, 22 << 16 | 22), RKC_STRIDE, false},
        RefusalCase{"surface add", dpu(0x40c0, 0x100), RKC_STRIDE, false},
        RefusalCase{"cna precision", cna(0x100c, 0x20000000 | 2 << 7 | 2 << 4), RKC_PRECISION,
                    false},
        RefusalCase{"core precision", core(0x3010, 0x201), RKC_PRECISION, false},
        RefusalCase{"output precision", dpu(0x4010, 0xa0000000), RKC_PRECISION, false},
        RefusalCase{"fc skip", cna(0x1060, 1), RKC_VALUE, false},
        RefusalCase{"bs", dpu(0x4040, 0x52), RKC_VALUE, false},
        RefusalCase{"scale", dpu(0x4084, 2), RKC_VALUE, false}),
    [](const auto& test) {
      std::string name = test.param.what;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(Recogniser, NamesARegisterThatIsMissing) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 64, 96);
  Words original(RKC_BODY_WORDS);
  rkc_generate(&d, original.data());
  std::size_t decisive = 0;
  for (const u64 gone : original) {
    const std::uint32_t reg = rkc_entry_reg(gone);
    Words words;
    for (const u64 word : original)
      if (rkc_entry_reg(word) != reg) words.push_back(word);
    const Verdict v = recognise(words, static_cast<std::uint32_t>(words.size()));
    // Zero is what a register holds when nothing writes it.
    if (rkc_entry_value(gone) == 0 || reg == 0x1010 || reg == 0x1040 || reg == 0x3010 ||
        reg == 0x4004) {
      EXPECT_EQ(v.reason, RKC_OK) << std::hex << reg;
      continue;
    }
    ++decisive;
    EXPECT_EQ(v.reason, RKC_MISSING_REG) << std::hex << reg;
    EXPECT_EQ(v.err.reg, reg);
    EXPECT_EQ(v.err.word, RKC_NO_WORD);
  }
  EXPECT_GT(decisive, 30U);
}

TEST(Recogniser, PointsLimitsAtTheirWords) {
  rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 705, 512, 32);
  Words words(RKC_BODY_WORDS);
  rkc_generate(&d, words.data());
  Verdict v = recognise(words);
  EXPECT_EQ(v.reason, RKC_M_TOO_BIG);
  EXPECT_EQ(v.err.word, 8U);
  EXPECT_EQ(v.err.value, 705U);
  EXPECT_EQ(v.err.limit, 704U);
  d = block(RKC_I8_I32, RKC_FLAT, 1, 32, 32, 0x1008);
  rkc_generate(&d, words.data());
  v = recognise(words);
  EXPECT_EQ(v.reason, RKC_ADDR_ALIGN);
  EXPECT_EQ(v.err.word, 25U);
}

TEST(Recogniser, ChecksTheTail) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 64, 96);
  struct Case {
    std::size_t at;
    u64 word;
    std::uint32_t reason;
    std::uint32_t with_link;
  };
  const std::array<Case, 9> cases = {{
      {108, other(RKC_TARGET_PC, 0x10, 0x8000), RKC_JUMP, RKC_OK},
      {109, other(RKC_TARGET_PC, 0x14, 0x37), RKC_JUMP, RKC_OK},
      {109, other(RKC_TARGET_PC, 0x34, 0), RKC_BASE_ADDRESS, RKC_BASE_ADDRESS},
      {110, other(RKC_TARGET_ARM, 0, 1), RKC_BAD_PADDING, RKC_BAD_PADDING},
      {110, cna(0x1020, 0), RKC_BAD_PADDING, RKC_BAD_PADDING},
      {110, other(RKC_TARGET_PPU, 0x6008, 1), RKC_FOREIGN_TARGET, RKC_FOREIGN_TARGET},
      {111, other(RKC_TARGET_OP_ENABLE, 8, 0x0f), RKC_OK, RKC_OK},
      {111, other(RKC_TARGET_OP_ENABLE, 8, 0x1d), RKC_BAD_OP_ENABLE, RKC_BAD_OP_ENABLE},
      {111, other(RKC_TARGET_OP_ENABLE, 4, 0x0d), RKC_BAD_OP_ENABLE, RKC_BAD_OP_ENABLE},
  }};
  for (const Case& c : cases) {
    Words words = full_program(d);
    words[c.at] = c.word;
    const Verdict v = recognise(words);
    EXPECT_EQ(v.reason, c.reason) << c.at;
    if (v.reason != RKC_OK) {
      EXPECT_EQ(v.err.word, c.at);
    }
    EXPECT_EQ(recognise(words, RKC_BODY_WORDS, true).reason, c.with_link) << c.at;
  }
}

TEST(Recogniser, RefusesImpossibleLengths) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 64, 96);
  const Words words = full_program(d);
  EXPECT_EQ(recognise(words, 0).reason, RKC_EMPTY);
  EXPECT_EQ(recognise(words, 113).reason, RKC_BAD_STRIDE);
}

TEST(Reasons, HaveNamesAndTexts) {
  EXPECT_STREQ(rkc_reason_name(RKC_K_ALIGN), "K_ALIGN");
  EXPECT_STREQ(rkc_reason_name(12345), "UNKNOWN");
  EXPECT_STREQ(rkc_reason_text(12345), "unknown reason");
  EXPECT_NE(std::string(rkc_reason_text(RKC_JUMP)).find("jump"), std::string::npos);
}

}  // namespace

// SPDX-License-Identifier: MIT
// kmod/core: where the limits of one matmul are, and which register they are those of.  They come
// from what boards showed.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "kmod/core/matmul.h"
#include "unit/core_samples.hpp"

namespace {

using rkchain::test::block;

TEST(Limits, EndExactlyWhereTheyAreSaidTo) {
  const auto check = [](const rkc_matmul& d) { return rkc_matmul_check(&d, nullptr); };
  // Most rows of each K, at the last K of each step and behind it.
  constexpr std::array<std::array<std::uint32_t, 2>, 11> rows = {{{32, 704},
                                                                  {512, 704},
                                                                  {544, 320},
                                                                  {1024, 320},
                                                                  {1056, 128},
                                                                  {2048, 128},
                                                                  {2080, 64},
                                                                  {4096, 64},
                                                                  {4128, 55},
                                                                  {5120, 44},
                                                                  {10752, 3}}};
  for (const auto& [k, most] : rows) {
    EXPECT_EQ(rkc_max_rows(RKC_I8_I32, k), most) << k;
    EXPECT_EQ(check(block(RKC_I8_I32, RKC_FLAT, most, k, 32)), RKC_OK) << k;
    EXPECT_EQ(check(block(RKC_I8_I32, RKC_FLAT, most + 1, k, 32)), RKC_M_TOO_BIG) << k;
  }
  EXPECT_EQ(rkc_max_rows(RKC_F16_F32, 32), 512U);
  EXPECT_EQ(rkc_max_rows(RKC_F16_F16, 10752), 1U);
  EXPECT_EQ(rkc_max_rows(RKC_I8_I32, 0), 0U);
  EXPECT_EQ(check(block(RKC_I8_I32, RKC_FLAT, 1, 32, 8192)), RKC_OK);
  EXPECT_EQ(check(block(RKC_I8_I32, RKC_FLAT, 1, 32, 8224)), RKC_N_RANGE);
  rkc_matmul slice = block(RKC_I8_I32, RKC_SLICE, 5, 32, 32, 0x10, 0x20, 0x30);
  EXPECT_EQ(check(slice), RKC_OK);
  // A slice of so many rows does not fit an address space, unless it is one atom wide.
  slice = block(RKC_I8_I8, RKC_SLICE, 5, 32, 32, 0, 0, 0);
  slice.m_total = 0x1ffffff;
  EXPECT_EQ(check(slice), RKC_OK);
  slice.m_total = 0x2000000;
  EXPECT_EQ(check(slice), RKC_ROWS_TOTAL);
}

TEST(Limits, NameTheRegisterThatHoldsWhatIsWrong) {
  const auto reg = [](const rkc_matmul& d) {
    rkc_err err{1, 2, 3, 4, 5, 6};
    EXPECT_NE(rkc_matmul_check(&d, &err), RKC_OK);
    EXPECT_EQ(err.block, 0U);
    EXPECT_EQ(err.word, RKC_NO_WORD);
    return err.reg;
  };
  rkc_matmul total = block(0, RKC_FLAT, 5, 32, 32);
  total.m_total = 6;
  rkc_matmul slice = block(0, RKC_SLICE, 5, 32, 32);
  slice.m_total = 4;
  EXPECT_EQ(reg(block(4, RKC_FLAT, 1, 32, 32)), 0x4010U);
  EXPECT_EQ(reg(block(0, 3, 1, 32, 32)), 0x100cU);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 0, 32, 32)), 0x1020U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 705, 32, 32)), 0x1020U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 0, 32)), 0x1024U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 33, 32)), 0x1024U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 0)), 0x1038U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 33)), 0x1038U);
  EXPECT_EQ(reg(total), 0x107cU);
  EXPECT_EQ(reg(slice), 0x107cU);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 8, 16, 16)), 0x1070U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 16, 8, 16)), 0x1110U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 16, 16, 8)), 0x4020U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 0xfffffff0, 16, 16)), 0x1070U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 16, 0xfffffff0, 16)), 0x1110U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 16, 16, 0xfffffff0)), 0x4020U);
}

}  // namespace

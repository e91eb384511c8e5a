// SPDX-License-Identifier: MIT
// kmod/core: what the checker says of chains and their buffers, and the time that it expects
// chains to take.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kmod/core/check.h"
#include "kmod/core/matmul.h"
#include "unit/core_samples.hpp"

namespace {

using rkchain::test::block;

constexpr std::uint32_t kBoth = RKC_BUF_READ | RKC_BUF_WRITE | RKC_BUF_SYNC;

/// Two blocks in three buffers, and what checking them says.
struct Chain {
  std::vector<rkc_buf> bufs = {{0x10000000, 0x1000, RKC_BUF_READ, 0},
                               {0x20000000, 0x2000, RKC_BUF_READ, 0},
                               {0x30000000, 0x1000, RKC_BUF_WRITE, 0}};
  std::vector<rkc_matmul> blocks = {
      block(RKC_I8_I8, RKC_FLAT, 4, 32, 64, 0x10000000, 0x20000000, 0x30000000),
      block(RKC_I8_I8, RKC_FLAT, 4, 32, 64, 0x10000100, 0x20000800, 0x30000400)};
  bool ordered = true;
  rkc_checked out{};

  using Error = std::array<std::uint64_t, 6>;
  Error error() {
    rkc_err err{1, 2, 3, 4, 5, 6};
    const std::uint32_t ret =
        rkc_chain_check(blocks.data(), static_cast<std::uint32_t>(blocks.size()), bufs.data(),
                        static_cast<std::uint32_t>(bufs.size()), ordered, &out, &err);
    if (ret == RKC_OK) return {};
    EXPECT_EQ(ret, err.reason);
    return {err.reason, err.block, err.word, err.reg, err.value, err.limit};
  }
};

TEST(Checker, SaysWhichExtentOfWhichBlockIsOutside) {
  Chain c;
  c.blocks[1].a = 0x11000000;
  EXPECT_EQ(c.error(),
            (Chain::Error{RKC_A_OUTSIDE, 1, RKC_NO_WORD, 0x1070, 0x11000000, 0x11000080}));
  c = {};
  c.blocks[1].b = 0x21000000;
  EXPECT_EQ(c.error(),
            (Chain::Error{RKC_B_OUTSIDE, 1, RKC_NO_WORD, 0x1110, 0x21000000, 0x21000800}));
  c = {};
  c.blocks[1].c = 0x31000000;
  EXPECT_EQ(c.error(),
            (Chain::Error{RKC_C_OUTSIDE, 1, RKC_NO_WORD, 0x4020, 0x31000000, 0x31000100}));
}

TEST(Checker, SaysWhichInputAnOutputOverlaps) {
  Chain c;
  for (rkc_buf& buf : c.bufs) buf.flags = kBoth;
  c.blocks[1].c = 0x10000070;
  c.blocks[1].a = 0x10000000;
  EXPECT_EQ(c.error(),
            (Chain::Error{RKC_OUTPUT_OVERLAP, 1, RKC_NO_WORD, 0x4020, 0x10000070, 0x10000000}));
  c.blocks[1].c = 0x10000080;
  EXPECT_EQ(c.error(), Chain::Error{});
  c.blocks[1].c = 0x20000ff0;
  EXPECT_EQ(c.error(),
            (Chain::Error{RKC_OUTPUT_OVERLAP, 1, RKC_NO_WORD, 0x4020, 0x20000ff0, 0x20000800}));
  c.blocks[1].c = 0x20001000;
  EXPECT_EQ(c.error(), Chain::Error{});
  c.blocks[1].c = 0x20000700;
  EXPECT_EQ(c.error(), Chain::Error{});
}

TEST(Checker, FollowsOutputsIntoFeaturesAndWeights) {
  for (const std::uint32_t reg : {0x1070U, 0x1110U}) {
    const auto feed = [reg](rkc_matmul& d, std::uint32_t address) {
      (reg == 0x1070 ? d.a : d.b) = address;
    };
    Chain c;
    c.bufs[2].flags = kBoth;
    feed(c.blocks[1], 0x300000f0);
    c.blocks[1].c = 0x30000a00;
    EXPECT_EQ(c.error(), Chain::Error{});
    EXPECT_TRUE(c.out.aliases);
    c.ordered = false;
    c.blocks.insert(c.blocks.begin(), c.blocks[0]);
    c.blocks[0].c = 0x30000f00;
    EXPECT_EQ(c.error(), (Chain::Error{RKC_ALIAS_ORDER, 2, RKC_NO_WORD, reg, 1, 0}));
    c.blocks[1].type = RKC_I8_I32;
    EXPECT_EQ(c.error(), (Chain::Error{RKC_ALIAS_TYPE, 2, RKC_NO_WORD, reg, 4, 1}));
    // Behind the output there is nothing to wait for.
    c.blocks[1].type = RKC_I8_I8;
    feed(c.blocks[2], 0x30000100);
    EXPECT_EQ(c.error(), Chain::Error{});
    EXPECT_FALSE(c.out.aliases);
  }
}

TEST(Checker, OverwritingFeaturesOrWeightsIsNotReplayable) {
  for (const std::uint32_t at : {0x10000000U, 0x20000000U}) {
    Chain c;
    for (rkc_buf& buf : c.bufs) buf.flags = kBoth;
    c.blocks[1].c = at;
    EXPECT_EQ(c.error(), Chain::Error{});
    EXPECT_FALSE(c.out.replayable);
    // Nor does a later block that is harmless make up for it.
    c.blocks.push_back(c.blocks[0]);
    c.blocks[2].c = 0x30000800;
    EXPECT_EQ(c.error(), Chain::Error{});
    EXPECT_FALSE(c.out.replayable);
  }
}

TEST(Checker, FindsBuffersInAnyOrder) {
  Chain c;
  c.bufs.push_back({0x40000000, 0x1000, RKC_BUF_READ | RKC_BUF_WRITE, 0});
  for (const std::uint32_t i : {0U, 1U, 0U}) {
    c.blocks.push_back(c.blocks[i]);
    c.blocks.back().a = 0x40000800;
    c.blocks.back().c = 0x40000000 + 0x100 * i;
    c.blocks.push_back(c.blocks[i]);
    c.blocks.back().b = 0x40000800;
  }
  EXPECT_EQ(c.error(), Chain::Error{});
  std::reverse(c.bufs.begin(), c.bufs.end());
  EXPECT_EQ(c.error(), Chain::Error{});
}

TEST(Checker, SaysWhichBufferIsWrong) {
  std::array<rkc_buf, 2> bufs = {{{0x1000, 0x1000, 1, 0}, {0x1fff, 0x1000, 2, 0}}};
  rkc_err err{};
  const auto error = [&] {
    rkc_bufs_check(bufs.data(), 2, &err);
    return Chain::Error{err.reason, err.block, err.word, err.reg, err.value, err.limit};
  };
  EXPECT_EQ(error(), (Chain::Error{RKC_BUFFERS_OVERLAP, 0, 1, 0, 0x1fff, 0x1000}));
  bufs[1] = {0xfffff000, 0x1001, 2, 0};
  EXPECT_EQ(error(), (Chain::Error{RKC_BUFFER_RANGE, 0, 1, 0, 0x100000001, 0x100000000}));
  bufs[1] = {0x100000000, 1, 2, 0};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_BUFFER_RANGE);
  bufs[1] = {0x0fff, 1, 2, 0};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_OK);
  bufs[1] = {0x0fff, 2, 2, 0};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_BUFFERS_OVERLAP);
}

// ---- times ------------------------------------------------------------------

TEST(Estimate, AddsSubmitsBlocksMacsAndBytes) {
  const rkc_cost nothing{0, 0};
  EXPECT_EQ(rkc_estimate_ns(&nothing, 0, 1), 170'000U);
  EXPECT_EQ(rkc_estimate_ns(&nothing, 1, 0), 18'000U);
  EXPECT_EQ(rkc_estimate_ns(&nothing, 10, 3), 690'000U);
  const rkc_cost macs{1'000'000, 0};
  EXPECT_EQ(rkc_estimate_ns(&macs, 0, 0), 10'000U);
  const rkc_cost bytes{0, 1'000'000};
  EXPECT_EQ(rkc_estimate_ns(&bytes, 0, 0), 250'000U);
  const rkc_cost both{1'000'000, 1'000'000};
  EXPECT_EQ(rkc_estimate_ns(&both, 1, 1), 448'000U);
}

}  // namespace

// SPDX-License-Identifier: MIT
// The policy that module and library share: the reset window, what a submit that came back
// means, and how cores are shared between clients.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "kmod/core/judge.h"
#include "kmod/core/ranges.h"
#include "kmod/core/share.h"
#include "kmod/core/window.h"

namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kTimeout = RKC_STOCK_TIMEOUT_NS;
constexpr std::uint64_t kStart = 1'000'000'000'000;

// ---- the reset window -------------------------------------------------------

/// Is it closed at this age of the oldest submit?
bool closed(std::uint64_t age, std::uint64_t estimate = 0) {
  return rkc_window_opens(kStart, kStart + age, estimate) != 0;
}

TEST(Window, IsOpenForASubmitThatIsYoung) {
  EXPECT_FALSE(closed(0));
  EXPECT_FALSE(closed(kTimeout / 2));
  EXPECT_FALSE(closed(kTimeout - RKC_WINDOW_SLACK_NS - 1));
}

/// When the reset of the k-th time-out must be over: timers are late by up to an eighth.
constexpr std::uint64_t over(std::uint64_t k) { return k * kTimeout * 9 / 8 + RKC_RESET_NS; }

TEST(Window, ClosesBeforeEachTimeOutAndOpensAfterTheReset) {
  for (std::uint64_t k = 1; k <= 5; ++k) {
    EXPECT_TRUE(closed(k * kTimeout - RKC_WINDOW_SLACK_NS)) << k;
    EXPECT_TRUE(closed(k * kTimeout)) << k;
    EXPECT_TRUE(closed(over(k) - 1)) << k;
    EXPECT_FALSE(closed(over(k))) << k;
  }
}

TEST(Window, ClosesEarlierForWhatTakesLonger) {
  const std::uint64_t estimate = 400 * kMs;
  EXPECT_FALSE(closed(kTimeout - estimate - RKC_WINDOW_SLACK_NS - 1, estimate));
  EXPECT_TRUE(closed(kTimeout - estimate - RKC_WINDOW_SLACK_NS, estimate));
}

TEST(Window, TellsWhenItOpens) {
  EXPECT_EQ(rkc_window_opens(kStart, kStart + kTimeout, 0), kStart + over(1));
  EXPECT_EQ(rkc_window_opens(kStart, kStart + 2 * kTimeout - 1, 0), kStart + over(2));
  // And at that moment it is open.
  const std::uint64_t opens = rkc_window_opens(kStart, kStart + 3 * kTimeout, 100 * kMs);
  EXPECT_EQ(rkc_window_opens(kStart, opens, 100 * kMs), 0U);
}

// ---- a submit that came back ------------------------------------------------

constexpr std::int32_t kEinval = -22;
constexpr std::int32_t kEtimedout = -RKC_ETIMEDOUT;

struct Case {
  const char* what;
  rkc_return back;
  rkc_fate fate;
  bool strike;
  bool poisoned;
};

TEST(Judge, EveryKindOfReturn) {
  constexpr bool yes = true;
  constexpr bool no = false;
  const std::array cases{
      Case{"well", {0, kMs, no, yes, yes, 0, 1}, RKC_FATE_DONE, no, no},
      Case{"well, though a reset was meant for it",
           {0, kMs, yes, yes, yes, 0, 1},
           RKC_FATE_DONE,
           no,
           no},
      Case{
          "hung, by our reset", {kEinval, 1000 * kMs, yes, yes, yes, 0, 1}, RKC_FATE_HUNG, yes, no},
      Case{"hung, by the driver's time-out",
           {kEtimedout, kTimeout, no, yes, yes, 0, 2},
           RKC_FATE_HUNG,
           yes,
           no},
      Case{"a time-out too early to be its own",
           {kEtimedout, kTimeout - 1, no, yes, yes, 0, 2},
           RKC_FATE_AGAIN,
           no,
           no},
      Case{"a bystander", {kEinval, 5 * kMs, no, yes, yes, 0, 0}, RKC_FATE_AGAIN, no, no},
      Case{"a bystander for the second time",
           {kEinval, 5 * kMs, no, yes, yes, 1, 0},
           RKC_FATE_HIT,
           no,
           no},
      Case{"a bystander that may not run again",
           {kEinval, 5 * kMs, no, yes, no, 0, 0},
           RKC_FATE_HIT,
           no,
           no},
      Case{"never committed on core 0",
           {kEinval, 5 * kMs, no, no, yes, 0, 0},
           RKC_FATE_AGAIN,
           no,
           no},
      Case{"never committed on core 1",
           {kEinval, 5 * kMs, no, no, yes, 0, 1},
           RKC_FATE_AGAIN,
           no,
           yes},
      Case{"never committed on core 2, and hung",
           {kEinval, 1000 * kMs, yes, no, yes, 0, 2},
           RKC_FATE_HUNG,
           yes,
           yes},
      Case{"the device went", {-RKC_ENODEV, kMs, no, no, yes, 0, 2}, RKC_FATE_GONE, no, no},
  };
  for (const Case& c : cases) {
    const rkc_verdict verdict = rkc_judge(&c.back);
    EXPECT_EQ(verdict.fate, c.fate) << c.what;
    EXPECT_EQ(verdict.strike, c.strike) << c.what;
    EXPECT_EQ(verdict.poisoned, c.poisoned) << c.what;
  }
}

// ---- what caches have to be looked after for ---------------------------------

rkc_matmul matmul(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  rkc_matmul d{};
  d.type = RKC_I8_I32;
  d.layout = RKC_FLAT;
  d.m = d.m_total = 4;  // A 128 bytes, B 1024, C 512
  d.k = d.n = 32;
  d.a = a;
  d.b = b;
  d.c = c;
  return d;
}

TEST(Ranges, OnlyWhatIsTouchedOfWhatIsDeclaredSync) {
  const std::array bufs{rkc_buf{0x10000, 0x1000, RKC_BUF_READ | RKC_BUF_SYNC, 0},
                        rkc_buf{0x11000, 0x1000, RKC_BUF_READ, 0},
                        rkc_buf{0x12000, 0x2000, RKC_BUF_WRITE | RKC_BUF_SYNC, 0}};
  // Outputs in any order: two that touch, one apart; all read the same rows.
  const std::array blocks{matmul(0x10100, 0x11000, 0x12400), matmul(0x10100, 0x11000, 0x13000),
                          matmul(0x10100, 0x11000, 0x12200)};
  std::array<rkc_range, 6> found{};
  ASSERT_EQ(rkc_chain_ranges(blocks.data(), 3, bufs.data(), 3, RKC_BUF_READ, found.data()), 1U);
  EXPECT_EQ(found[0].buf, 0U);
  EXPECT_EQ(found[0].offset, 0x100U);
  EXPECT_EQ(found[0].size, 128U);
  ASSERT_EQ(rkc_chain_ranges(blocks.data(), 3, bufs.data(), 3, RKC_BUF_WRITE, found.data()), 2U);
  EXPECT_EQ(found[0].buf, 2U);
  EXPECT_EQ(found[0].offset, 0x200U);
  EXPECT_EQ(found[0].size, 0x400U);
  EXPECT_EQ(found[1].offset, 0x1000U);
  EXPECT_EQ(found[1].size, 0x200U);
}

TEST(Ranges, BuffersThatLieSideBySideStayApart) {
  const std::array bufs{rkc_buf{0x10000, 0x200, RKC_BUF_WRITE | RKC_BUF_SYNC, 0},
                        rkc_buf{0x10200, 0x200, RKC_BUF_WRITE | RKC_BUF_SYNC, 0},
                        rkc_buf{0x20000, 0x1000, RKC_BUF_READ, 0}};
  const std::array blocks{matmul(0x20000, 0x20400, 0x10200), matmul(0x20000, 0x20400, 0x10000)};
  std::array<rkc_range, 2> found{};
  ASSERT_EQ(rkc_chain_ranges(blocks.data(), 2, bufs.data(), 3, RKC_BUF_WRITE, found.data()), 2U);
  EXPECT_EQ(found[0].buf, 0U);
  EXPECT_EQ(found[1].buf, 1U);
  EXPECT_EQ(found[1].offset, 0U);
}

TEST(Ranges, ManyInAnyOrder) {
  constexpr std::uint32_t kBlocks = 1191;
  const std::array bufs{rkc_buf{0x100000, 0x10000, RKC_BUF_READ, 0},
                        rkc_buf{0x1000000, 0x1000000, RKC_BUF_WRITE | RKC_BUF_SYNC, 0}};
  std::vector<rkc_matmul> blocks;
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    // 1024 bytes apart, each 512 long; 577 has no divisor in common with 1191.
    blocks.push_back(matmul(0x100000, 0x100400, 0x1000000 + i * 577 % kBlocks * 1024));
  }
  std::vector<rkc_range> found(kBlocks);
  ASSERT_EQ(rkc_chain_ranges(blocks.data(), kBlocks, bufs.data(), 2, RKC_BUF_WRITE, found.data()),
            kBlocks);
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    EXPECT_EQ(found[i].offset, i * 1024ULL);
    EXPECT_EQ(found[i].size, 512U);
  }
}

// ---- sharing ----------------------------------------------------------------

/// Chains that each of two clients gets of @p count, when both always have more.
std::array<int, 2> shares(std::array<int, 2> priority, std::array<std::uint64_t, 2> ns, int count) {
  std::array<rkc_share, 2> share{};
  std::array<int, 2> got{};
  for (int i = 0; i < count; ++i) {
    const std::size_t who = share[0].had <= share[1].had ? 0 : 1;
    rkc_share_charge(&share[who], ns[who], priority[who]);
    ++got[who];
  }
  return got;
}

TEST(Share, EqualClientsTakeTurns) {
  const auto got = shares({0, 0}, {kMs, kMs}, 100);
  EXPECT_EQ(got[0], 50);
  EXPECT_EQ(got[1], 50);
}

TEST(Share, PrioritiesWeigh) {
  const auto normal = shares({-1, 0}, {kMs, kMs}, 500);
  EXPECT_NEAR(normal[1], 4 * normal[0], 5);
  const auto high = shares({-1, 1}, {kMs, kMs}, 1700);
  EXPECT_NEAR(high[1], 16 * high[0], 17);
  EXPECT_GT(high[0], 0);
}

TEST(Share, ItIsCoreTimeThatIsShared) {
  const auto got = shares({0, 0}, {10 * kMs, kMs}, 1100);
  EXPECT_NEAR(got[1], 10 * got[0], 11);
}

TEST(Share, BeingIdleSavesNothingUp) {
  rkc_share idle{};
  rkc_share_wake(&idle, 1000);
  EXPECT_EQ(idle.had, 1000U);
  rkc_share_wake(&idle, 500);
  EXPECT_EQ(idle.had, 1000U);
}

}  // namespace

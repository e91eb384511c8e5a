// SPDX-License-Identifier: MIT
// kmod/core: the times and weights of the scheduling policy.
#include <gtest/gtest.h>

#include <cstdint>

#include "kmod/core/judge.h"
#include "kmod/core/share.h"
#include "kmod/core/window.h"

namespace {

TEST(Window, TimesAreWhatTheStockDriverNeeds) {
  EXPECT_EQ(RKC_STOCK_TIMEOUT_MS, 6000);
  EXPECT_EQ(RKC_STOCK_TIMEOUT_NS, 6'000'000'000U);
  EXPECT_EQ(RKC_RESET_NS, 300'000'000U);
  EXPECT_EQ(RKC_WINDOW_SLACK_NS, 50'000'000U);
  EXPECT_EQ(RKC_RESET_AGAIN_NS, 160'000'000U);
  // What the kernel says, and what it never says.
  EXPECT_EQ(RKC_ENODEV, 19);
  EXPECT_EQ(RKC_ETIMEDOUT, 110);
  EXPECT_EQ(RKC_NOT_COMMITTED, 0xdeadbeefU);
}

TEST(Share, ChargesCoreTimeOverWeight) {
  const auto charged = [](std::int32_t priority) {
    rkc_share share{1};
    rkc_share_charge(&share, 1000, priority);
    return share.had;
  };
  EXPECT_EQ(charged(-1), 16'001U);
  EXPECT_EQ(charged(0), 4'001U);
  EXPECT_EQ(charged(1), 1'001U);
}

}  // namespace

// SPDX-License-Identifier: MIT
// Trials: chains whose results are known, and what it means when they are not there.
#include "kmod/core/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kmod/core/check.h"

namespace {

constexpr std::uint32_t kIova = 0x10000;

class Trial : public testing::TestWithParam<rkc_trial> {
 protected:
  Trial() : memory_(rkc_trial_bytes(&trial_)), blocks_(trial_.count) {
    rkc_trial_fill(&trial_, memory_.data());
    rkc_trial_blocks(&trial_, kIova, blocks_.data());
  }

  template <typename T>
  T& at(std::uint32_t iova, std::size_t index = 0) {
    return *reinterpret_cast<T*>(memory_.data() + (iova - kIova) + index * sizeof(T));
  }

  /// Weight for output @p n of element @p k, packed as one task wants it.
  std::int8_t weight(const rkc_matmul& d, std::uint32_t n, std::uint32_t k) {
    const std::uint32_t piece = n / 32 * (d.k / 32) + k / 32;
    return at<std::int8_t>(d.b, std::size_t{piece} * 1024 + n % 32 * 32 + k % 32);
  }

  /// In plain C++, and nothing of the trial's own formulas.
  void compute(const rkc_matmul& d) {
    std::vector<std::int8_t> a(d.k);
    std::memcpy(a.data(), &at<std::int8_t>(d.a), d.k);
    for (std::uint32_t n = 0; n < d.n; ++n) {
      std::int32_t sum = 0;
      for (std::uint32_t k = 0; k < d.k; ++k) sum += a[k] * weight(d, n, k);
      if (d.type == RKC_I8_I8) {
        at<std::int8_t>(d.c, n) = static_cast<std::int8_t>(sum);
      } else {
        at<std::int32_t>(d.c, n) = sum;
      }
    }
  }

  void compute_all() {
    for (const rkc_matmul& d : blocks_) compute(d);
  }

  [[nodiscard]] std::uint32_t wrong() const { return rkc_trial_wrong(&trial_, memory_.data()); }

  const rkc_trial trial_ = GetParam();
  std::vector<std::byte> memory_;
  std::vector<rkc_matmul> blocks_;
};

TEST_P(Trial, IsAChainThatPassesTheChecker) {
  const rkc_buf buffer{kIova, memory_.size(), RKC_BUF_READ | RKC_BUF_WRITE, 0};
  rkc_checked checked{};
  rkc_err err{};
  EXPECT_EQ(memory_.size() % 4096, 0);
  for (const rkc_matmul& d : blocks_) EXPECT_EQ(rkc_matmul_check(&d, &err), RKC_OK) << err.reason;
  ASSERT_EQ(rkc_chain_check(blocks_.data(), trial_.count, &buffer, 1, true, &checked, &err), RKC_OK)
      << err.reason << " of block " << err.block;
  // A reset may take it down, and then it is run again.
  EXPECT_TRUE(checked.replayable);
  EXPECT_EQ(checked.aliases, trial_.kind == RKC_TRIAL_ORDER);
}

TEST_P(Trial, KnowsWhatItComputes) {
  compute_all();
  EXPECT_EQ(wrong(), RKC_NO_WORD);
}

TEST_P(Trial, SeesEveryBlockThatHasNotBeenComputed) {
  for (std::uint32_t missing = 0; missing < trial_.count; missing += trial_.count / 4) {
    rkc_trial_fill(&trial_, memory_.data());
    for (std::uint32_t i = 0; i < trial_.count; ++i) {
      if (i != missing) compute(blocks_[i]);
    }
    // What follows a block that is missing has read something else.
    if (trial_.kind == RKC_TRIAL_ORDER) {
      EXPECT_NE(wrong(), RKC_NO_WORD);
    } else {
      EXPECT_EQ(wrong(), missing);
    }
  }
  rkc_trial_fill(&trial_, memory_.data());
  EXPECT_EQ(wrong(), trial_.count - 1) << "the last one is looked at first";
}

TEST_P(Trial, SeesWhatAnotherBlockHasWritten) {
  compute_all();
  for (std::uint32_t i = 0; i + 1 < trial_.count; ++i) {
    std::uint32_t bytes = 0;
    std::uint32_t other = 0;
    const auto to = rkc_trial_output(&trial_, i, &bytes);
    const auto from = rkc_trial_output(&trial_, i + 1, &other);
    std::vector<std::byte> kept(memory_.begin() + static_cast<std::ptrdiff_t>(to),
                                memory_.begin() + static_cast<std::ptrdiff_t>(to + bytes));
    std::memcpy(&memory_[to], &memory_[from], std::min(bytes, other));
    EXPECT_EQ(wrong(), i);
    std::memcpy(&memory_[to], kept.data(), bytes);
  }
  EXPECT_EQ(wrong(), RKC_NO_WORD);
}

TEST_P(Trial, SeesEveryWrongByte) {
  compute_all();
  for (const std::uint32_t block : {0U, trial_.count - 1}) {
    std::uint32_t bytes = 0;
    const auto at = rkc_trial_output(&trial_, block, &bytes);
    EXPECT_EQ(at, blocks_[block].c - kIova);
    EXPECT_EQ(bytes, blocks_[block].n * rkc_out_bytes(blocks_[block].type));
    for (std::uint32_t i = 0; i < bytes; ++i) {
      memory_[at + i] ^= std::byte{1};
      EXPECT_EQ(wrong(), block) << i;
      memory_[at + i] ^= std::byte{1};
    }
  }
}

TEST_P(Trial, OfAnotherSaltHasOtherResults) {
  compute_all();
  for (const std::uint32_t salt : {1U, 2U, 1000U}) {
    rkc_trial other = trial_;
    other.salt += salt;
    EXPECT_EQ(rkc_trial_wrong(&other, memory_.data()), trial_.count - 1) << salt;
  }
}

TEST_P(Trial, HasOutputsThatNoSentinelIs) {
  for (const rkc_matmul& d : blocks_) EXPECT_EQ(at<std::uint8_t>(d.c), 0x5a);
  compute_all();
  for (const rkc_matmul& d : blocks_) {
    std::vector<std::byte> unwritten(std::size_t{d.n} * rkc_out_bytes(d.type),
                                     std::byte{RKC_TRIAL_SENTINEL});
    EXPECT_NE(std::memcmp(&at<std::byte>(d.c), unwritten.data(), unwritten.size()), 0);
    // Nor what fresh memory holds.
    std::ranges::fill(unwritten, std::byte{0});
    EXPECT_NE(std::memcmp(&at<std::byte>(d.c), unwritten.data(), unwritten.size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Trial,
                         testing::Values(rkc_trial{RKC_TRIAL_SHORT, RKC_TRIAL_SMALL_BLOCKS, 1},
                                         rkc_trial{RKC_TRIAL_LONG, RKC_TRIAL_FIRST_BLOCKS, 4711},
                                         rkc_trial{RKC_TRIAL_LONG, 17, 0xffffffff},
                                         rkc_trial{RKC_TRIAL_SHORT, 126, 1},
                                         rkc_trial{RKC_TRIAL_ORDER, RKC_TRIAL_ORDER_BLOCKS, 3}));

TEST(TrialShapes, BeginSmallAndGoOnHeavy) {
  const rkc_trial trial{RKC_TRIAL_LONG, 3, 0};
  rkc_matmul blocks[3];
  rkc_trial_blocks(&trial, kIova, blocks);
  EXPECT_EQ(blocks[0].k * blocks[0].n, 32 * 32);
  for (const rkc_matmul& d : {blocks[1], blocks[2]}) EXPECT_EQ(d.k * d.n, 4096 * 512);
  const rkc_trial small{RKC_TRIAL_SHORT, 3, 0};
  rkc_trial_blocks(&small, kIova, blocks);
  for (const rkc_matmul& d : blocks) EXPECT_EQ(d.k * d.n, 32 * 32);
}

TEST(TrialShapes, TakeTurnsInAnOrderedTrial) {
  const rkc_trial trial{RKC_TRIAL_ORDER, 3, 0};
  rkc_matmul blocks[3];
  rkc_trial_blocks(&trial, kIova, blocks);
  EXPECT_EQ(blocks[1].a, blocks[0].c);
  EXPECT_EQ(blocks[2].a, blocks[1].c);
  EXPECT_EQ(blocks[0].type, RKC_I8_I8);
}

// ---- verdicts -----------------------------------------------------------------

constexpr std::int32_t kTimeout = -RKC_ETIMEDOUT;
constexpr std::int32_t kIo = -5;
constexpr std::uint64_t kExpected = 80'000'000;

rkc_trial_seen good() { return {0, true, true, 0, true, true, kExpected, kExpected}; }

TEST(TrialVerdict, Works) {
  rkc_trial_seen seen = good();
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_WORKS);
  // Chains are faster than the sum of their blocks.
  seen.hw_ns = kExpected / 8;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_WORKS);
  seen.hw_ns = 0;
  seen.expected_ns = 0;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_WORKS);
}

TEST(TrialVerdict, CompletesEarly) {
  rkc_trial_seen seen = good();
  seen.at_once = false;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_EARLY);
  // Whoever looked too late is told by the clock.
  seen = good();
  seen.hw_ns = kExpected / 8 - 1;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_EARLY);
  seen = good();
  seen.order_at_once = false;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_EARLY);
}

TEST(TrialVerdict, OutputWrong) {
  rkc_trial_seen seen = good();
  seen.at_once = false;
  seen.later = false;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_WRONG);
}

TEST(TrialVerdict, OrderNotKept) {
  rkc_trial_seen seen = good();
  seen.order_at_once = false;
  seen.order_later = false;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_UNORDERED);
}

TEST(TrialVerdict, TimesOut) {
  rkc_trial_seen seen{};
  seen.status = kTimeout;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_TIMEOUT);
  seen = good();
  seen.order = kTimeout;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_TIMEOUT);
}

TEST(TrialVerdict, OfWhatOthersTookDownIsNone) {
  rkc_trial_seen seen = good();
  seen.status = kIo;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_UNTESTED);
  seen = good();
  seen.order = kIo;
  EXPECT_EQ(rkc_trial_verdict(&seen), RKC_TRIAL_UNTESTED);
}

TEST(TrialVerdict, HasANameEach) {
  const std::vector<std::string> names{
      "untested",  "works", "completes early", "output wrong", "order between blocks not kept",
      "times out", "?"};
  for (std::uint32_t i = 0; i < names.size(); ++i) EXPECT_EQ(rkc_trial_verdict_name(i), names[i]);
}

// ---- what follows -----------------------------------------------------------------

constexpr std::uint32_t bit(std::uint32_t mode) { return 1U << mode; }

rkc_trial_table all(std::uint8_t verdict) {
  rkc_trial_table table{};
  for (auto& mode : table.verdict) {
    for (auto& core : mode) core = verdict;
  }
  return table;
}

rkc_trial_summary summary_of(const rkc_trial_table& table) {
  rkc_trial_summary summary{};
  rkc_trial_summarise(&table, &summary);
  return summary;
}

TEST(TrialSummary, OfGoodSilicon) {
  const rkc_trial_summary summary = summary_of(all(RKC_TRIAL_WORKS));
  EXPECT_EQ(summary.works, 0xf);
  EXPECT_EQ(summary.tested, 0xf);
  EXPECT_EQ(summary.unordered, 0);
  EXPECT_EQ(summary.failed, 0);
}

TEST(TrialSummary, OfNothing) {
  const rkc_trial_summary summary = summary_of(all(RKC_TRIAL_UNTESTED));
  EXPECT_EQ(summary.works, 0);
  EXPECT_EQ(summary.tested, 0);
  EXPECT_EQ(summary.failed, 0);
}

TEST(TrialSummary, OneCoreThatFailsInAModeTakesTheModeAway) {
  for (std::uint8_t verdict = RKC_TRIAL_EARLY; verdict < RKC_TRIAL_VERDICTS; ++verdict) {
    rkc_trial_table table = all(RKC_TRIAL_WORKS);
    table.verdict[RKC_WAIT][2] = verdict;
    const rkc_trial_summary summary = summary_of(table);
    EXPECT_EQ(summary.works, 0xf & ~bit(RKC_WAIT));
    EXPECT_EQ(summary.failed, 0);
    EXPECT_EQ(summary.unordered, verdict == RKC_TRIAL_UNORDERED ? bit(RKC_WAIT) : 0);
  }
}

TEST(TrialSummary, ACoreWhereNothingWorksTakesNoModeAway) {
  for (std::uint32_t core = 0; core < 3; ++core) {
    rkc_trial_table table = all(RKC_TRIAL_WORKS);
    for (auto& mode : table.verdict) mode[core] = RKC_TRIAL_WRONG;
    const rkc_trial_summary summary = summary_of(table);
    EXPECT_EQ(summary.works, 0xf);
    EXPECT_EQ(summary.failed, bit(core));
  }
}

TEST(TrialSummary, OnlyACoreThatWasTriedOneByOneHasFailed) {
  rkc_trial_table table = all(RKC_TRIAL_UNTESTED);
  for (auto& core : table.verdict[RKC_WAIT]) core = RKC_TRIAL_WRONG;
  rkc_trial_summary summary = summary_of(table);
  EXPECT_EQ(summary.failed, 0);
  EXPECT_EQ(summary.works, 0);
  EXPECT_EQ(summary.tested, bit(RKC_WAIT));
  table.verdict[RKC_SINGLE][1] = RKC_TRIAL_TIMEOUT;
  summary = summary_of(table);
  EXPECT_EQ(summary.failed, 2);
  EXPECT_EQ(summary.tested, bit(RKC_WAIT) | bit(RKC_SINGLE));
}

TEST(TrialBest, IsTheFastestThatWorks) {
  EXPECT_EQ(rkc_trial_best(0xf), RKC_WAIT);
  EXPECT_EQ(rkc_trial_best(0xe), RKC_WAIT41);
  EXPECT_EQ(rkc_trial_best(bit(RKC_LINK) | bit(RKC_SINGLE)), RKC_LINK);
  EXPECT_EQ(rkc_trial_best(bit(RKC_SINGLE)), RKC_SINGLE);
  EXPECT_EQ(rkc_trial_best(0), RKC_SINGLE);
}

}  // namespace

// SPDX-License-Identifier: MIT
// The course of a self-test: what is tried after what, and what is made of it.
#include "kmod/core/course.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

namespace {

constexpr std::uint32_t kAllModes = (1U << RKC_MODES) - 1;
constexpr std::uint64_t kBlockNs = 1'000'000;
constexpr std::int32_t kTimeout = -RKC_ETIMEDOUT;
constexpr std::int32_t kIo = -5;

/// All well, with blocks of a millisecond each.
rkc_tried good(const rkc_step& step) {
  return {0, RKC_NO_WORD, RKC_NO_WORD, step.trial.count * kBlockNs};
}
rkc_tried failed(std::int32_t status) { return {status, 0, 0, 0}; }

class Course : public testing::Test {
 protected:
  void begin(std::uint32_t modes = kAllModes, std::uint32_t cores = RKC_CORES_ALL,
             bool brief = false) {
    rkc_course_begin(&course_, modes, cores, brief, 77);
  }
  /// To its end, with an NPU that does as @p npu says.
  void run(const std::function<rkc_tried(const rkc_step&)>& npu = good) {
    rkc_step step{};
    while (rkc_course_next(&course_, usable_, &step)) {
      ASSERT_LT(steps_.size(), 1000);
      steps_.push_back(step);
      const rkc_tried tried = npu(step);
      rkc_course_tell(&course_, &tried);
    }
  }
  [[nodiscard]] std::vector<rkc_step> of(std::uint32_t stage) const {
    std::vector<rkc_step> found;
    for (const rkc_step& step : steps_) {
      if (step.stage == stage) found.push_back(step);
    }
    return found;
  }
  [[nodiscard]] std::uint32_t verdict(std::uint32_t mode, std::uint32_t core) const {
    return course_.table.verdict[mode][core];
  }
  void expect_all(std::uint32_t expected) const {
    for (std::uint32_t mode = 0; mode < RKC_MODES; ++mode) {
      for (std::uint32_t core = 0; core < RKC_CORES; ++core) {
        EXPECT_EQ(verdict(mode, core), expected) << mode << "," << core;
      }
    }
  }

  rkc_course course_{};
  std::uint32_t usable_ = RKC_CORES_ALL;
  std::vector<rkc_step> steps_;
};

TEST_F(Course, FindsALengthAndThenTriesEveryModeOnEveryCore) {
  begin();
  run();
  // 5, 9 and 17 ms are too short.
  const auto length = of(RKC_COURSE_LENGTH);
  ASSERT_EQ(length.size(), 4);
  std::uint32_t blocks = RKC_TRIAL_FIRST_BLOCKS;
  for (const rkc_step& step : length) {
    EXPECT_EQ(step.trial.count, blocks);
    EXPECT_EQ(step.trial.kind, RKC_TRIAL_LONG);
    EXPECT_EQ(step.mode, RKC_SINGLE);
    EXPECT_EQ(step.core, 0);
    blocks = 2 * blocks - 1;
  }
  ASSERT_EQ(steps_.size(), 4 + 2 * RKC_MODES * RKC_CORES);
  for (std::uint32_t i = 0; i < RKC_MODES * RKC_CORES; ++i) {
    const rkc_step& first = steps_[4 + 2 * i];
    const rkc_step& order = steps_[5 + 2 * i];
    EXPECT_EQ(first.stage, RKC_COURSE_FIRST);
    EXPECT_EQ(first.trial.kind, RKC_TRIAL_LONG);
    EXPECT_EQ(first.trial.count, 33);
    EXPECT_EQ(order.stage, RKC_COURSE_ORDER);
    EXPECT_EQ(order.trial.kind, RKC_TRIAL_ORDER);
    EXPECT_EQ(order.trial.count, RKC_TRIAL_ORDER_BLOCKS);
    for (const rkc_step& step : {first, order}) {
      EXPECT_EQ(step.mode, i / RKC_CORES);
      EXPECT_EQ(step.core, i % RKC_CORES);
    }
  }
  expect_all(RKC_TRIAL_WORKS);
  const rkc_course_result& result = course_.results[RKC_LINK][2];
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.blocks, 33);
  EXPECT_EQ(result.block, RKC_NO_WORD);
  EXPECT_EQ(result.hw_ns, 33 * kBlockNs);
  EXPECT_EQ(result.expected_ns, 33 * kBlockNs);
}

TEST_F(Course, NoTwoTrialsHaveTheSameResults) {
  begin();
  run();
  std::set<std::uint32_t> salts;
  for (const rkc_step& step : steps_) salts.insert(step.trial.salt);
  EXPECT_EQ(salts.size(), steps_.size());
  EXPECT_EQ(*salts.begin(), 77);
}

TEST_F(Course, ABriefOneHasSmallChainsOnly) {
  begin(kAllModes, RKC_CORES_ALL, true);
  run();
  EXPECT_TRUE(of(RKC_COURSE_LENGTH).empty());
  const auto first = of(RKC_COURSE_FIRST);
  EXPECT_EQ(first.size(), RKC_MODES * RKC_CORES);
  for (const rkc_step& step : first) {
    EXPECT_EQ(step.trial.kind, RKC_TRIAL_SHORT);
    EXPECT_EQ(step.trial.count, RKC_TRIAL_SMALL_BLOCKS);
    EXPECT_EQ(step.late_ns, RKC_COURSE_LATE_NS);
  }
  EXPECT_EQ(of(RKC_COURSE_ORDER).size(), RKC_MODES * RKC_CORES);
  expect_all(RKC_TRIAL_WORKS);
  EXPECT_EQ(course_.results[0][0].blocks, RKC_TRIAL_SMALL_BLOCKS);
  EXPECT_EQ(course_.results[0][0].expected_ns, 0);
}

TEST_F(Course, TriesWhatIsAskedFor) {
  begin(1U << RKC_LINK | 1U << RKC_WAIT, 0x6);
  run();
  for (const rkc_step& step : steps_) EXPECT_TRUE(step.core == 1 || step.core == 2);
  for (std::uint32_t mode = 0; mode < RKC_MODES; ++mode) {
    for (std::uint32_t core = 0; core < RKC_CORES; ++core) {
      const bool asked = (mode == RKC_LINK || mode == RKC_WAIT) && core != 0;
      EXPECT_EQ(verdict(mode, core), asked ? RKC_TRIAL_WORKS : RKC_TRIAL_UNTESTED);
      EXPECT_EQ(course_.results[mode][core].blocks != 0, asked);
      EXPECT_EQ(course_.results[mode][core].block, RKC_NO_WORD);
    }
  }
}

TEST_F(Course, CoresThatAreOutStayUntested) {
  begin();
  usable_ = 0x2;
  run();
  for (const rkc_step& step : steps_) EXPECT_EQ(step.core, 1);
  for (std::uint32_t mode = 0; mode < RKC_MODES; ++mode) {
    EXPECT_EQ(verdict(mode, 0), RKC_TRIAL_UNTESTED);
    EXPECT_EQ(verdict(mode, 1), RKC_TRIAL_WORKS);
    EXPECT_EQ(verdict(mode, 2), RKC_TRIAL_UNTESTED);
  }
}

TEST_F(Course, HasNothingToDoWithoutCores) {
  begin();
  usable_ = 0;
  run();
  EXPECT_TRUE(steps_.empty());
  expect_all(RKC_TRIAL_UNTESTED);
}

TEST_F(Course, ACoreMayBeLostOnTheWay) {
  begin(1U << RKC_WAIT, RKC_CORES_ALL);
  run([this](const rkc_step& step) {
    if (step.stage == RKC_COURSE_FIRST && step.core == 1) usable_ = 0x5;
    return good(step);
  });
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_WORKS);
  EXPECT_EQ(verdict(RKC_WAIT, 1), RKC_TRIAL_UNTESTED);
  EXPECT_EQ(verdict(RKC_WAIT, 2), RKC_TRIAL_WORKS);
}

TEST_F(Course, TriesAgainWhatHung) {
  std::uint32_t hung = 0;
  begin(1U << RKC_WAIT, 0x1);
  run([&](const rkc_step& step) {
    // Every other one is lost.
    return hung++ % 2 == 0 ? failed(kTimeout) : good(step);
  });
  EXPECT_EQ(of(RKC_COURSE_LENGTH).size(), 8);
  EXPECT_EQ(of(RKC_COURSE_FIRST).size(), 2);
  EXPECT_EQ(of(RKC_COURSE_ORDER).size(), 2);
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_WORKS);
}

TEST_F(Course, BelievesItTheSecondTime) {
  begin(1U << RKC_WAIT, RKC_CORES_ALL);
  run([](const rkc_step& step) {
    return step.stage == RKC_COURSE_FIRST ? failed(kTimeout) : good(step);
  });
  // Twice on each core.
  EXPECT_EQ(of(RKC_COURSE_FIRST).size(), 6);
  EXPECT_TRUE(of(RKC_COURSE_ORDER).empty());
  for (std::uint32_t core = 0; core < RKC_CORES; ++core) {
    EXPECT_EQ(verdict(RKC_WAIT, core), RKC_TRIAL_TIMEOUT);
    EXPECT_EQ(course_.results[RKC_WAIT][core].status, kTimeout);
    EXPECT_EQ(course_.results[RKC_WAIT][core].block, RKC_NO_WORD);
  }
}

TEST_F(Course, ABriefOneTriesNothingTwice) {
  begin(1U << RKC_WAIT, 0x1, true);
  run([](const rkc_step&) { return failed(kTimeout); });
  EXPECT_EQ(steps_.size(), 1);
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_TIMEOUT);
}

TEST_F(Course, OnlyWhatHungIsTriedAgain) {
  begin(1U << RKC_WAIT, 0x1);
  run([](const rkc_step& step) {
    return step.stage == RKC_COURSE_FIRST ? failed(kIo) : good(step);
  });
  EXPECT_EQ(of(RKC_COURSE_FIRST).size(), 1);
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_UNTESTED);
  EXPECT_EQ(course_.results[RKC_WAIT][0].status, kIo);
}

TEST_F(Course, ASecondTryOnALostCoreDoesNotCountForTheNext) {
  begin(1U << RKC_WAIT, RKC_CORES_ALL);
  run([this](const rkc_step& step) {
    if (step.stage != RKC_COURSE_FIRST) return good(step);
    if (step.core == 0) usable_ = 0x6;
    return failed(kTimeout);
  });
  // Core 0 once, the others twice each.
  EXPECT_EQ(of(RKC_COURSE_FIRST).size(), 5);
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_UNTESTED);
  EXPECT_EQ(verdict(RKC_WAIT, 1), RKC_TRIAL_TIMEOUT);
}

// ---- what is made of it -------------------------------------------------------

TEST_F(Course, WhatComesLateIsEarlyCompletion) {
  begin(1U << RKC_WAIT, 0x1);
  run([](const rkc_step& step) {
    rkc_tried tried = good(step);
    if (step.stage == RKC_COURSE_FIRST) tried.at_once = 7;
    return tried;
  });
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_EARLY);
  EXPECT_EQ(course_.results[RKC_WAIT][0].block, 7);
  EXPECT_TRUE(of(RKC_COURSE_ORDER).empty()) << "nothing more is to be learnt";
}

TEST_F(Course, WhatNeverComesIsWrong) {
  begin(1U << RKC_WAIT, 0x1);
  run([](const rkc_step& step) {
    rkc_tried tried = good(step);
    if (step.stage == RKC_COURSE_FIRST) tried.at_once = tried.later = 7;
    return tried;
  });
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_WRONG);
}

TEST_F(Course, WhatIsMuchTooFastIsEarlyCompletion) {
  begin(1U << RKC_WAIT, 0x1);
  run([](const rkc_step& step) {
    rkc_tried tried = good(step);
    if (step.stage == RKC_COURSE_FIRST) tried.hw_ns /= 2 * RKC_TRIAL_TOO_SHORT;
    return tried;
  });
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_EARLY);
}

TEST_F(Course, TheOrderedTrialDecidesToo) {
  begin(kAllModes, 0x1);
  run([](const rkc_step& step) {
    rkc_tried tried = good(step);
    if (step.stage != RKC_COURSE_ORDER) return tried;
    if (step.mode == RKC_WAIT) tried.at_once = tried.later = 3;
    if (step.mode == RKC_WAIT41) tried.at_once = 2;
    if (step.mode == RKC_LINK) tried = failed(kTimeout);
    return tried;
  });
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_UNORDERED);
  EXPECT_EQ(course_.results[RKC_WAIT][0].block, 3);
  EXPECT_EQ(verdict(RKC_WAIT41, 0), RKC_TRIAL_EARLY);
  EXPECT_EQ(course_.results[RKC_WAIT41][0].block, 2);
  EXPECT_EQ(verdict(RKC_LINK, 0), RKC_TRIAL_TIMEOUT);
  EXPECT_EQ(course_.results[RKC_LINK][0].block, RKC_NO_WORD);
  EXPECT_EQ(verdict(RKC_SINGLE, 0), RKC_TRIAL_WORKS);
  // What was seen of one is not held against the next.
  EXPECT_EQ(course_.results[RKC_SINGLE][0].block, RKC_NO_WORD);
}

// ---- how long a chain is long enough ---------------------------------------------

TEST_F(Course, FindsTheLengthOnTheFirstCoreThatWorks) {
  begin();
  run([](const rkc_step& step) { return step.core == 0 ? failed(kIo) : good(step); });
  const auto length = of(RKC_COURSE_LENGTH);
  ASSERT_EQ(length.size(), 5);
  EXPECT_EQ(length[0].core, 0);
  for (std::size_t i = 1; i < length.size(); ++i) EXPECT_EQ(length[i].core, 1);
  EXPECT_EQ(course_.blocks, 33);
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_UNTESTED);
  EXPECT_EQ(verdict(RKC_WAIT, 2), RKC_TRIAL_WORKS);
}

TEST_F(Course, TriesOnWhenNoCoreWorksOneByOne) {
  begin();
  run([](const rkc_step& step) { return step.mode == RKC_SINGLE ? failed(kIo) : good(step); });
  EXPECT_EQ(of(RKC_COURSE_LENGTH).size(), RKC_CORES);
  EXPECT_EQ(course_.expected_ns, 0);
  EXPECT_EQ(course_.blocks, RKC_TRIAL_FIRST_BLOCKS);
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_WORKS);
  EXPECT_EQ(verdict(RKC_SINGLE, 0), RKC_TRIAL_UNTESTED);
}

TEST_F(Course, LongEnoughIsLongEnough) {
  for (const std::uint64_t ns : {RKC_TRIAL_NS - 1, RKC_TRIAL_NS}) {
    begin(1U << RKC_WAIT, 0x1);
    steps_.clear();
    run([ns](const rkc_step& step) {
      rkc_tried tried = good(step);
      tried.hw_ns = step.trial.count == RKC_TRIAL_FIRST_BLOCKS ? ns : 2 * RKC_TRIAL_NS;
      return tried;
    });
    EXPECT_EQ(of(RKC_COURSE_LENGTH).size(), ns < RKC_TRIAL_NS ? 2 : 1);
  }
}

TEST_F(Course, OnAFastNpuTheLongestHasToDo) {
  begin(1U << RKC_WAIT, 0x1);
  run([](const rkc_step& step) {
    rkc_tried tried = good(step);
    tried.hw_ns = step.trial.count;
    return tried;
  });
  EXPECT_EQ(of(RKC_COURSE_LENGTH).back().trial.count, RKC_TRIAL_MOST_BLOCKS);
  EXPECT_EQ(of(RKC_COURSE_FIRST).front().trial.count, RKC_TRIAL_MOST_BLOCKS);
  EXPECT_EQ(course_.expected_ns, RKC_TRIAL_MOST_BLOCKS);
}

TEST_F(Course, LooksLongerForOutputsOfWhatTakesLonger) {
  begin(1U << RKC_WAIT, 0x1);
  run();
  EXPECT_EQ(of(RKC_COURSE_LENGTH).front().late_ns, 100'000'000);
  EXPECT_EQ(of(RKC_COURSE_FIRST).front().late_ns, RKC_COURSE_LATE_NS + 2 * 33 * kBlockNs);
}

TEST_F(Course, GoesBackToTheLongestThatMayBeMade) {
  begin(1U << RKC_WAIT, 0x1);
  rkc_step step{};
  ASSERT_TRUE(rkc_course_next(&course_, usable_, &step));
  EXPECT_FALSE(rkc_course_shorten(&course_)) << "nothing has been made yet";
  rkc_tried tried = good(step);
  rkc_course_tell(&course_, &tried);
  ASSERT_TRUE(rkc_course_next(&course_, usable_, &step));
  EXPECT_EQ(step.trial.count, 9);
  EXPECT_TRUE(rkc_course_shorten(&course_));
  ASSERT_TRUE(rkc_course_next(&course_, usable_, &step));
  EXPECT_EQ(step.stage, RKC_COURSE_FIRST);
  EXPECT_EQ(step.mode, RKC_WAIT);
  EXPECT_EQ(step.core, 0);
  EXPECT_EQ(step.trial.count, 5);
  EXPECT_FALSE(rkc_course_shorten(&course_)) << "its length has been found";
  run();
  EXPECT_EQ(verdict(RKC_WAIT, 0), RKC_TRIAL_WORKS);
  EXPECT_EQ(course_.results[RKC_WAIT][0].expected_ns, 5 * kBlockNs);
}

}  // namespace

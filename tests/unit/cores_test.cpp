// SPDX-License-Identifier: MIT
// kmod/core/cores: which core takes what, when the driver may be given a submit, when the NPU
// is reset, and what a failure costs a core.
#include "kmod/core/cores.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <ostream>
#include <utility>

#include "kmod/core/judge.h"
#include "kmod/core/rotor.h"
#include "kmod/core/window.h"

namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kHang = 1000 * kMs;
constexpr std::uint64_t kTimeout = RKC_STOCK_TIMEOUT_NS;
constexpr std::uint64_t kSlack = RKC_WINDOW_SLACK_NS;
constexpr std::uint64_t kStart = 1'000'000 * kMs;
constexpr std::uint64_t kNever = RKC_NEVER;
constexpr std::int32_t kEinval = -RKC_EINVAL;
constexpr std::int32_t kEtimedout = -RKC_ETIMEDOUT;
constexpr std::uint32_t kStrikes = 3;

/// When the reset of a submit's k-th time-out must be over.
constexpr std::uint64_t over(std::uint64_t k) { return k * kTimeout * 9 / 8 + RKC_RESET_NS; }

/// The cores of a driver that has just come.
rkc_cores fresh(std::uint32_t poisoned = 0) {
  rkc_cores c{};
  rkc_cores_init(&c, poisoned);
  return c;
}

/// Takes a core that has to be @p id.
void take(rkc_cores& c, int id, std::uint64_t estimate = 0) {
  ASSERT_EQ(rkc_cores_take(&c, 1U << id, estimate), id);
}

/// Takes core @p id and gives the driver a submit there.
void submit(rkc_cores& c, int id, std::uint64_t now, std::uint64_t estimate = 0) {
  take(c, id, estimate);
  rkc_cores_submit(&c, static_cast<std::uint32_t>(id), now);
}

struct Due {
  std::uint64_t next;
  std::uint32_t reset;

  bool operator==(const Due&) const = default;
};

void PrintTo(const Due& due, std::ostream* out) {
  *out << "{next " << due.next << ", reset " << due.reset << "}";
}

Due watch(rkc_cores& c, std::uint64_t now, bool alone = true, std::uint64_t hang = kHang) {
  Due due{0, ~0U};
  due.next = rkc_cores_watch(&c, now, hang, alone, &due.reset);
  return due;
}

/// A submit comes back with @p error.
struct Back {
  std::int32_t error = 0;
  bool committed = true;
  bool replayable = true;
  std::uint32_t retries = 0;
};

rkc_verdict back(rkc_cores& c, std::uint32_t id, std::uint64_t now, const Back& how = {}) {
  rkc_return r{};
  r.error = how.error;
  r.committed = how.committed;
  r.replayable = how.replayable;
  r.retries = how.retries;
  return rkc_cores_back(&c, id, now, &r);
}

rkc_run_end ended(rkc_fate fate, bool strike = false, bool poisoned = false, bool failed = true,
                  bool trial = false) {
  return {{fate, strike, poisoned}, failed, trial};
}

const rkc_run_end kDone = ended(RKC_FATE_DONE, false, false, false);
const rkc_run_end kHung = ended(RKC_FATE_HUNG, true);

/// A run on @p id that ended like this: is the core lost by it?
bool run(rkc_cores& c, int id, const rkc_run_end& end, std::uint32_t strikes = kStrikes) {
  EXPECT_EQ(rkc_cores_take(&c, 1U << id, 0), id);
  return rkc_cores_finish(&c, static_cast<std::uint32_t>(id), &end, strikes);
}

// ---- a driver has come ------------------------------------------------------

TEST(CoresInit, AllAreUsableAndIdle) {
  const rkc_cores c = fresh();
  EXPECT_EQ(c.rotor.usable, RKC_CORES_ALL);
  EXPECT_EQ(c.rotor.busy, 0U);
  EXPECT_EQ(c.aside, 0U);
  EXPECT_EQ(c.poisoned, 0U);
  EXPECT_EQ(c.generation, 0U);
  EXPECT_FALSE(c.resetting);
  EXPECT_EQ(rkc_cores_out(&c), 0U);
}

TEST(CoresInit, WhatTheSameDriverHasLostStaysLost) {
  for (std::uint32_t lost = 0; lost <= RKC_CORES_ALL; ++lost) {
    rkc_cores c = fresh(lost);
    EXPECT_EQ(c.poisoned, lost);
    EXPECT_EQ(c.aside, 0U);
    EXPECT_EQ(c.rotor.usable, RKC_CORES_ALL & ~lost);
    for (std::uint32_t id = 0; id < RKC_CORES; ++id) {
      const bool poisoned = (lost & 1U << id) != 0;
      EXPECT_EQ(rkc_cores_take(&c, 1U << id, 0), poisoned ? -1 : static_cast<int>(id));
      EXPECT_EQ(rkc_cores_enable(&c, id), !poisoned);
    }
  }
}

TEST(CoresInit, ThereAreNoOtherCores) {
  const rkc_cores c = fresh(0xfffffff8 | 2);
  EXPECT_EQ(c.poisoned, 2U);
  EXPECT_EQ(c.rotor.usable, 5U);
}

TEST(CoresInit, EverythingElseIsForgottenAndTheGenerationGoesOn) {
  rkc_cores c = fresh();
  for (int id = 0; id < RKC_CORES; ++id) submit(c, id, kStart + 1, 7 * kMs);
  watch(c, kStart + 1 + kHang);
  watch(c, kStart + 1 + kHang);
  c.core[1].strikes = 2;
  c.aside = 4;
  c.rotor.next = 2;
  c.quiet = kStart;
  ASSERT_TRUE(c.resetting);
  ASSERT_EQ(c.generation, 2U);

  rkc_cores_init(&c, 1);
  EXPECT_EQ(c.generation, 2U);
  EXPECT_EQ(c.aside, 0U);
  EXPECT_EQ(c.poisoned, 1U);
  EXPECT_FALSE(c.resetting);
  EXPECT_EQ(c.again, 0U);
  EXPECT_EQ(c.quiet, 0U);
  EXPECT_EQ(c.rotor.busy, 0U);
  EXPECT_EQ(c.rotor.next, 0U);
  for (const rkc_core& core : c.core) {
    EXPECT_EQ(core.estimate_ns, 0U);
    EXPECT_EQ(core.submitted, 0U);
    EXPECT_FALSE(core.hung);
    EXPECT_EQ(core.strikes, 0U);
  }
}

// ---- taking -----------------------------------------------------------------

TEST(CoresTake, RotatesOverWhatIsFree) {
  rkc_cores c = fresh();
  EXPECT_EQ(rkc_cores_take(&c, RKC_CORES_ALL, 1), 0);
  EXPECT_EQ(rkc_cores_take(&c, RKC_CORES_ALL, 2), 1);
  EXPECT_EQ(rkc_cores_take(&c, RKC_CORES_ALL, 3), 2);
  EXPECT_EQ(rkc_cores_take(&c, RKC_CORES_ALL, 4), -1);
  EXPECT_EQ(c.core[0].estimate_ns, 1U);
  EXPECT_EQ(c.core[1].estimate_ns, 2U);
  EXPECT_EQ(c.core[2].estimate_ns, 3U);
  rkc_cores_finish(&c, 1, &kDone, kStrikes);
  EXPECT_EQ(rkc_cores_take(&c, RKC_CORES_ALL, 5), 1);
  EXPECT_EQ(c.core[1].estimate_ns, 5U);
}

/// Not the same one over and over when all are free.
TEST(CoresTake, RotatesAlsoWhenEverythingIsFree) {
  rkc_cores c = fresh();
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(rkc_cores_take(&c, RKC_CORES_ALL, 0), i % RKC_CORES);
    rkc_cores_finish(&c, static_cast<std::uint32_t>(i % RKC_CORES), &kDone, kStrikes);
  }
}

TEST(CoresTake, OnlyAllowedOnes) {
  rkc_cores c = fresh();
  EXPECT_EQ(rkc_cores_take(&c, 6, 9), 1);
  EXPECT_EQ(rkc_cores_take(&c, 6, 9), 2);
  EXPECT_EQ(rkc_cores_take(&c, 6, 9), -1);
  EXPECT_EQ(c.core[0].estimate_ns, 0U);
  EXPECT_EQ(rkc_cores_take(&c, 1, 9), 0);
}

/// For the rotor alone an empty mask is any core; a chain that no free core fits gets none.
TEST(CoresTake, NoneAllowedIsNone) {
  rkc_cores c = fresh();
  EXPECT_EQ(rkc_cores_take(&c, 0, 9), -1);
  EXPECT_EQ(c.rotor.busy, 0U);
}

TEST(CoresTake, NotWhatHasBeenLost) {
  rkc_cores c = fresh(2);
  rkc_cores_set_aside(&c, 4);
  EXPECT_EQ(rkc_cores_take(&c, 6, 0), -1);
  EXPECT_EQ(rkc_cores_take(&c, RKC_CORES_ALL, 0), 0);
}

TEST(CoresOut, IsWhatTheDriverHas) {
  rkc_cores c = fresh();
  take(c, 0);
  EXPECT_EQ(rkc_cores_out(&c), 0U);
  rkc_cores_submit(&c, 0, kStart);
  EXPECT_EQ(rkc_cores_out(&c), 1U);
  submit(c, 2, kStart);
  EXPECT_EQ(rkc_cores_out(&c), 5U);
  submit(c, 1, kStart);
  EXPECT_EQ(rkc_cores_out(&c), 7U);
  back(c, 0, kStart + 1);
  EXPECT_EQ(rkc_cores_out(&c), 6U);
  rkc_cores_recall(&c, 2);
  EXPECT_EQ(rkc_cores_out(&c), 2U);
}

// ---- the gate ---------------------------------------------------------------

TEST(CoresOpens, ForTheFirst) {
  rkc_cores c = fresh();
  take(c, 1, 400 * kMs);
  EXPECT_EQ(rkc_cores_opens(&c, 1, kStart), 0U);
}

TEST(CoresOpens, NotInTheWindowOfTheOldestSubmit) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  submit(c, 1, kStart + 5000 * kMs);
  take(c, 2);
  EXPECT_EQ(rkc_cores_opens(&c, 2, kStart + kTimeout - kSlack - 1), 0U);
  EXPECT_EQ(rkc_cores_opens(&c, 2, kStart + kTimeout - kSlack), kStart + over(1));
  EXPECT_EQ(rkc_cores_opens(&c, 2, kStart + over(1) - 1), kStart + over(1));
  EXPECT_EQ(rkc_cores_opens(&c, 2, kStart + over(1)), 0U);
  // The same, whichever core is the oldest.
  rkc_cores d = fresh();
  submit(d, 2, kStart);
  submit(d, 1, kStart + 5000 * kMs);
  take(d, 0);
  EXPECT_EQ(rkc_cores_opens(&d, 0, kStart + kTimeout - kSlack - 1), 0U);
  EXPECT_EQ(rkc_cores_opens(&d, 0, kStart + kTimeout - kSlack), kStart + over(1));
}

TEST(CoresOpens, EarlierTheLongerItsOwnChainTakes) {
  rkc_cores c = fresh();
  submit(c, 0, kStart, 10 * kMs);
  take(c, 1, 300 * kMs);
  const std::uint64_t closes = kStart + kTimeout - kSlack - 300 * kMs;
  EXPECT_EQ(rkc_cores_opens(&c, 1, closes - 1), 0U);
  EXPECT_EQ(rkc_cores_opens(&c, 1, closes), kStart + over(1));
}

TEST(CoresOpens, EarlierTheLongerAnyOtherTakes) {
  rkc_cores c = fresh();
  submit(c, 0, kStart, 10 * kMs);
  submit(c, 2, kStart + 5000 * kMs, 400 * kMs);
  take(c, 1, 300 * kMs);
  const std::uint64_t closes = kStart + kTimeout - kSlack - 400 * kMs;
  EXPECT_EQ(rkc_cores_opens(&c, 1, closes - 1), 0U);
  EXPECT_EQ(rkc_cores_opens(&c, 1, closes), kStart + over(1));
  // What the driver no longer has does not count.
  back(c, 2, closes - 1);
  EXPECT_EQ(rkc_cores_opens(&c, 1, closes), 0U);
}

TEST(CoresOpens, AsSoonAsTheOldestIsBack) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  take(c, 1);
  EXPECT_NE(rkc_cores_opens(&c, 1, kStart + kTimeout), 0U);
  back(c, 0, kStart + kTimeout);
  EXPECT_EQ(rkc_cores_opens(&c, 1, kStart + kTimeout), 0U);
}

/// What somebody else's reset wakes is awake before its end.
TEST(CoresOpens, NotUntilTheResetThatTookSomethingDownMustBeOver) {
  for (const std::int32_t error : {kEinval, kEtimedout}) {
    rkc_cores c = fresh();
    submit(c, 0, kStart);
    take(c, 1);
    const std::uint64_t now = kStart + 2 * kHang;
    back(c, 0, now, {error});
    for (const std::uint32_t id : {0U, 1U}) {
      EXPECT_EQ(rkc_cores_opens(&c, id, now), now + RKC_RESET_NS);
      EXPECT_EQ(rkc_cores_opens(&c, id, now + RKC_RESET_NS - 1), now + RKC_RESET_NS);
      EXPECT_EQ(rkc_cores_opens(&c, id, now + RKC_RESET_NS), 0U);
    }
  }
}

/// The watch knows when a reset of ours is over.
TEST(CoresOpens, AtOnceAfterAResetOfOurs) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  const std::uint64_t now = kStart + kHang;
  watch(c, now);
  back(c, 0, now, {kEinval});
  watch(c, now);
  EXPECT_EQ(rkc_cores_opens(&c, 0, now), 0U);
}

TEST(CoresOpens, AsSoonAsTheOldestIsRecalled) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  take(c, 1);
  rkc_cores_recall(&c, 0);
  EXPECT_EQ(rkc_cores_opens(&c, 1, kStart + kTimeout), 0U);
  // Its core still has the chain, and may submit it again.
  EXPECT_EQ(rkc_cores_take(&c, 1, 0), -1);
  EXPECT_EQ(rkc_cores_opens(&c, 0, kStart + kTimeout), 0U);
}

TEST(CoresOpens, NotWhileTheNpuIsAboutToBeReset) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  take(c, 1);
  watch(c, kStart + kHang - 1);
  EXPECT_EQ(rkc_cores_opens(&c, 1, kStart + kHang), 0U);
  watch(c, kStart + kHang);
  EXPECT_EQ(rkc_cores_opens(&c, 1, kStart + kHang), kNever);
  rkc_cores_was_reset(&c, kStart + kHang + 100 * kMs);
  EXPECT_EQ(rkc_cores_opens(&c, 1, kStart + kHang + 100 * kMs), kNever);
  // Even when what hung is back: the reset may not be over.
  back(c, 0, kStart + kHang + 100 * kMs, {kEinval});
  EXPECT_EQ(rkc_cores_opens(&c, 1, kStart + kHang + 100 * kMs), kNever);
  watch(c, kStart + kHang + 101 * kMs);
  EXPECT_EQ(rkc_cores_opens(&c, 1, kStart + kHang + 101 * kMs), 0U);
}

// ---- a submit comes back ----------------------------------------------------

TEST(CoresBack, FillsInWhatTheCallerDoesNotKnow) {
  rkc_cores c = fresh();
  submit(c, 2, kStart);
  rkc_return r{};
  r.hung = true;
  r.committed = true;
  r.core = 1;
  r.age_ns = 5;
  rkc_cores_back(&c, 2, kStart + 123, &r);
  EXPECT_EQ(r.age_ns, 123U);
  EXPECT_EQ(r.core, 2U);
  EXPECT_FALSE(r.hung);
  EXPECT_TRUE(r.committed);
  EXPECT_EQ(c.core[2].submitted, 0U);
}

TEST(CoresBack, IsJudgedByItsAge) {
  rkc_cores c = fresh();
  submit(c, 1, kStart);
  EXPECT_EQ(back(c, 1, kStart + kTimeout - 1, {kEtimedout}).fate, RKC_FATE_AGAIN);
  rkc_cores_submit(&c, 1, kStart);
  const rkc_verdict v = back(c, 1, kStart + kTimeout, {kEtimedout});
  EXPECT_EQ(v.fate, RKC_FATE_HUNG);
  EXPECT_TRUE(v.strike);
}

TEST(CoresBack, IsJudgedByItsCore) {
  for (std::uint32_t id = 0; id < RKC_CORES; ++id) {
    rkc_cores c = fresh();
    submit(c, static_cast<int>(id), kStart);
    EXPECT_EQ(back(c, id, kStart + 1, {kEinval, false}).poisoned, id > 0) << id;
  }
}

/// Whatever it said when it gave up; but not what came into no queue.
TEST(CoresBack, WhatWasNeverCommittedIsPoison) {
  for (const auto& [error, poisoned] : {std::pair{kEinval, true}, std::pair{kEtimedout, true},
                                        std::pair{-RKC_ENODEV, false}, std::pair{-12, false}}) {
    rkc_cores c = fresh();
    submit(c, 1, kStart);
    EXPECT_EQ(back(c, 1, kStart + 1, {error, false}).poisoned, poisoned) << error;
    rkc_cores_submit(&c, 1, kStart);
    EXPECT_FALSE(back(c, 1, kStart + 1, {error, true}).poisoned) << error;
  }
}

TEST(CoresBack, TheOneThatAResetWasMeantForHung) {
  rkc_cores c = fresh();
  submit(c, 1, kStart);
  submit(c, 2, kStart + kMs);
  // Core 2 is young: it gets no mark, and comes back.
  watch(c, kStart + kHang);
  EXPECT_EQ(back(c, 2, kStart + kHang, {kEinval}).fate, RKC_FATE_AGAIN);
  EXPECT_EQ(watch(c, kStart + kHang).reset, 2U);
  EXPECT_EQ(back(c, 1, kStart + kHang + kMs, {kEinval}).fate, RKC_FATE_HUNG);
}

TEST(CoresBack, TheMarkIsGoneWithIt) {
  rkc_cores c = fresh();
  submit(c, 1, kStart);
  ASSERT_EQ(watch(c, kStart + kHang).reset, 2U);
  EXPECT_TRUE(c.core[1].hung);
  back(c, 1, kStart + kHang + kMs, {kEinval});
  EXPECT_FALSE(c.core[1].hung);
  rkc_cores_submit(&c, 1, kStart + 2 * kHang);
  EXPECT_EQ(back(c, 1, kStart + 2 * kHang + kMs, {kEinval}).fate, RKC_FATE_AGAIN);
}

TEST(CoresSubmit, StartsWithoutAMark) {
  rkc_cores c = fresh();
  submit(c, 1, kStart);
  watch(c, kStart + kHang);
  ASSERT_TRUE(c.core[1].hung);
  rkc_cores_recall(&c, 1);
  rkc_cores_submit(&c, 1, kStart + 2 * kHang);
  EXPECT_FALSE(c.core[1].hung);
  EXPECT_EQ(c.core[1].submitted, kStart + 2 * kHang);
  EXPECT_EQ(c.core[0].submitted, 0U);
}

/// Each has its own part of what the judge is given.
TEST(CoresBack, ReplaysWhatMayBeReplayedOnce) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  EXPECT_EQ(back(c, 0, kStart + kMs, {kEinval, true, true, 0}).fate, RKC_FATE_AGAIN);
  rkc_cores_submit(&c, 0, kStart);
  EXPECT_EQ(back(c, 0, kStart + kMs, {kEinval, true, true, 1}).fate, RKC_FATE_HIT);
  rkc_cores_submit(&c, 0, kStart);
  EXPECT_EQ(back(c, 0, kStart + kMs, {kEinval, true, false, 0}).fate, RKC_FATE_HIT);
  rkc_cores_submit(&c, 0, kStart);
  EXPECT_EQ(back(c, 0, kStart + kMs).fate, RKC_FATE_DONE);
}

// ---- generations ------------------------------------------------------------

TEST(CoresGeneration, CountsOurResets) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  watch(c, kStart + kHang - 1);
  EXPECT_EQ(c.generation, 0U);
  watch(c, kStart + kHang);
  EXPECT_EQ(c.generation, 1U);
  rkc_cores_was_reset(&c, kStart + kHang);
  watch(c, kStart + kHang + RKC_RESET_AGAIN_NS - 1);
  EXPECT_EQ(c.generation, 1U);
  watch(c, kStart + kHang + RKC_RESET_AGAIN_NS);
  EXPECT_EQ(c.generation, 2U);
  // It comes back by these; that is not another one.
  back(c, 0, kStart + 2 * kHang, {kEinval});
  EXPECT_EQ(c.generation, 2U);
}

TEST(CoresGeneration, CountsOthersThatTookSomethingDown) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  back(c, 0, kStart + kMs, {kEinval});
  EXPECT_EQ(c.generation, 1U);
  rkc_cores_submit(&c, 0, kStart);
  back(c, 0, kStart + kTimeout, {kEtimedout});
  EXPECT_EQ(c.generation, 2U);
  rkc_cores_submit(&c, 0, kStart);
  back(c, 0, kStart + kMs);
  EXPECT_EQ(c.generation, 2U);
}

TEST(CoresGeneration, DoesNotCountWhatComesBackWell) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  watch(c, kStart + kHang);
  back(c, 0, kStart + kHang + kMs);
  EXPECT_EQ(c.generation, 1U);
}

// ---- the run is over --------------------------------------------------------

TEST(CoresFinish, TheCoreIsFreeAgain) {
  rkc_cores c = fresh();
  for (int id = 0; id < RKC_CORES; ++id) take(c, id);
  EXPECT_FALSE(rkc_cores_finish(&c, 1, &kDone, kStrikes));
  EXPECT_EQ(c.rotor.busy, 5U);
  EXPECT_EQ(c.rotor.usable, RKC_CORES_ALL);
}

TEST(CoresFinish, StrikesInARowSetACoreAside) {
  for (std::uint32_t strikes = 1; strikes <= 4; ++strikes) {
    rkc_cores c = fresh();
    for (std::uint32_t i = 1; i < strikes; ++i) {
      EXPECT_FALSE(run(c, 1, kHung, strikes)) << i << " of " << strikes;
      EXPECT_EQ(c.aside, 0U);
      EXPECT_EQ(c.core[1].strikes, i);
    }
    EXPECT_TRUE(run(c, 1, kHung, strikes));
    EXPECT_EQ(c.aside, 2U);
    EXPECT_EQ(c.poisoned, 0U);
    EXPECT_EQ(c.rotor.usable, 5U);
    EXPECT_EQ(c.rotor.busy, 0U);
    EXPECT_EQ(rkc_cores_take(&c, 2, 0), -1);
  }
}

TEST(CoresFinish, ASuccessForgivesThem) {
  rkc_cores c = fresh();
  run(c, 2, kHung);
  run(c, 2, kHung);
  run(c, 2, kDone);
  EXPECT_EQ(c.core[2].strikes, 0U);
  EXPECT_FALSE(run(c, 2, kHung));
  EXPECT_FALSE(run(c, 2, kHung));
  EXPECT_TRUE(run(c, 2, kHung));
}

TEST(CoresFinish, BeingHitNeitherStrikesNorForgives) {
  for (const rkc_fate fate : {RKC_FATE_AGAIN, RKC_FATE_HIT, RKC_FATE_GONE}) {
    rkc_cores c = fresh();
    run(c, 2, kHung);
    run(c, 2, kHung);
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(run(c, 2, ended(fate)));
    EXPECT_EQ(c.core[2].strikes, 2U);
    EXPECT_TRUE(run(c, 2, kHung));
  }
}

TEST(CoresFinish, EachCoreHasItsOwnStrikes) {
  rkc_cores c = fresh();
  for (int i = 0; i < 2; ++i)
    for (int id = 0; id < RKC_CORES; ++id) EXPECT_FALSE(run(c, id, kHung));
  EXPECT_FALSE(run(c, 0, kDone));
  EXPECT_TRUE(run(c, 1, kHung));
  EXPECT_FALSE(run(c, 0, kHung));
  EXPECT_TRUE(run(c, 2, kHung));
  EXPECT_EQ(c.aside, 6U);
  EXPECT_EQ(c.rotor.usable, 1U);
}

TEST(CoresFinish, WhatTriesSomethingOutDoesNotStrike) {
  rkc_cores c = fresh();
  for (int i = 0; i < 5; ++i)
    EXPECT_FALSE(run(c, 0, ended(RKC_FATE_HUNG, true, false, true, true)));
  EXPECT_EQ(c.core[0].strikes, 0U);
  EXPECT_EQ(c.aside, 0U);
  // But when it succeeds, the core is as good as any.
  run(c, 0, kHung);
  run(c, 0, ended(RKC_FATE_DONE, false, false, false, true));
  EXPECT_EQ(c.core[0].strikes, 0U);
}

TEST(CoresFinish, ASubmitThatWasNeverCommittedPoisons) {
  rkc_cores c = fresh();
  EXPECT_TRUE(run(c, 1, ended(RKC_FATE_AGAIN, false, true)));
  EXPECT_EQ(c.poisoned, 2U);
  EXPECT_EQ(c.aside, 0U);
  EXPECT_EQ(c.rotor.usable, 5U);
  EXPECT_EQ(c.rotor.busy, 0U);
}

TEST(CoresFinish, ATrialPoisonsLikeAnyOther) {
  rkc_cores c = fresh();
  EXPECT_TRUE(run(c, 2, ended(RKC_FATE_HUNG, true, true, true, true)));
  EXPECT_EQ(c.poisoned, 4U);
}

/// Poisoned goes before aside, also with the last strike: it cannot be brought back.
TEST(CoresFinish, PoisonedBeatsAside) {
  rkc_cores c = fresh();
  run(c, 1, kHung);
  run(c, 1, kHung);
  EXPECT_TRUE(run(c, 1, ended(RKC_FATE_HUNG, true, true)));
  EXPECT_EQ(c.poisoned, 2U);
  EXPECT_EQ(c.aside, 0U);
  EXPECT_FALSE(rkc_cores_enable(&c, 1));
}

/// A verdict of something else than a submit, of emptying a cache say, has been judged alike.
TEST(CoresFinish, NothingButASubmitPoisons) {
  rkc_cores c = fresh();
  EXPECT_FALSE(run(c, 1, ended(RKC_FATE_HIT, false, true, false)));
  EXPECT_EQ(c.poisoned, 0U);
  EXPECT_EQ(c.rotor.usable, RKC_CORES_ALL);
}

TEST(CoresFinish, TellsWhetherItWasThisRunThatLostTheCore) {
  rkc_cores c = fresh();
  take(c, 1);
  rkc_cores_set_aside(&c, 2);
  EXPECT_FALSE(rkc_cores_finish(&c, 1, &kDone, kStrikes));
  EXPECT_EQ(c.rotor.busy, 0U);
  EXPECT_EQ(c.rotor.usable, 5U);
}

// ---- the watch: nothing hangs -----------------------------------------------

TEST(CoresWatch, NeverIsLaterThanAnyTime) { EXPECT_EQ(kNever, ~std::uint64_t{0}); }

TEST(CoresWatch, HasNothingToDoWithoutSubmits) {
  rkc_cores c = fresh();
  EXPECT_EQ(watch(c, kStart), (Due{kNever, 0}));
  EXPECT_EQ(watch(c, kStart, false), (Due{kNever, 0}));
  take(c, 0);
  EXPECT_EQ(watch(c, kStart), (Due{kNever, 0}));
}

TEST(CoresWatch, IsDueWhenTheOldestWillHang) {
  for (const bool alone : {true, false}) {
    rkc_cores c = fresh();
    submit(c, 1, kStart + 3 * kMs);
    submit(c, 0, kStart + 2 * kMs);
    submit(c, 2, kStart + 5 * kMs);
    EXPECT_EQ(watch(c, kStart + 6 * kMs, alone), (Due{kStart + 2 * kMs + kHang, 0}));
    EXPECT_FALSE(c.resetting);
    back(c, 0, kStart + 7 * kMs);
    EXPECT_EQ(watch(c, kStart + 8 * kMs, alone), (Due{kStart + 3 * kMs + kHang, 0}));
  }
}

TEST(CoresWatch, AsOldAsIsAsked) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  EXPECT_EQ(watch(c, kStart + 10, true, 50), (Due{kStart + 50, 0}));
  EXPECT_EQ(watch(c, kStart + 49, true, 50), (Due{kStart + 50, 0}));
  EXPECT_EQ(watch(c, kStart + 50, true, 50), (Due{kStart + 50, 1}));
}

// ---- the watch: alone -------------------------------------------------------

TEST(CoresWatch, ResetsForWhatIsTooOld) {
  rkc_cores c = fresh();
  submit(c, 2, kStart);
  EXPECT_EQ(watch(c, kStart + kHang - 1), (Due{kStart + kHang, 0}));
  EXPECT_FALSE(c.resetting);
  EXPECT_FALSE(c.core[2].hung);
  EXPECT_EQ(watch(c, kStart + kHang), (Due{kStart + kHang, 4}));
  EXPECT_TRUE(c.resetting);
  EXPECT_TRUE(c.core[2].hung);
}

TEST(CoresWatch, WaitsForTheYoungOnes) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  submit(c, 1, kStart + 900 * kMs);
  submit(c, 2, kStart + 800 * kMs);
  EXPECT_EQ(watch(c, kStart + kHang), (Due{kStart + 800 * kMs + kHang, 0}));
  EXPECT_TRUE(c.resetting);
  EXPECT_FALSE(c.core[0].hung);
  EXPECT_EQ(c.generation, 0U);
  back(c, 2, kStart + kHang + 10 * kMs);
  EXPECT_EQ(watch(c, kStart + kHang + 10 * kMs), (Due{kStart + 900 * kMs + kHang, 0}));
  back(c, 1, kStart + kHang + 20 * kMs);
  EXPECT_EQ(watch(c, kStart + kHang + 20 * kMs), (Due{kStart + kHang + 20 * kMs, 1}));
  EXPECT_FALSE(c.core[1].hung);
  EXPECT_FALSE(c.core[2].hung);
}

TEST(CoresWatch, YoungOnesMayHangAsWell) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  submit(c, 1, kStart + 900 * kMs);
  EXPECT_EQ(watch(c, kStart + kHang), (Due{kStart + 900 * kMs + kHang, 0}));
  EXPECT_EQ(watch(c, kStart + 900 * kMs + kHang - 1), (Due{kStart + 900 * kMs + kHang, 0}));
  EXPECT_EQ(watch(c, kStart + 900 * kMs + kHang), (Due{kStart + 900 * kMs + kHang, 3}));
  EXPECT_TRUE(c.core[0].hung);
  EXPECT_TRUE(c.core[1].hung);
  EXPECT_FALSE(c.core[2].hung);
  EXPECT_EQ(c.generation, 1U);
  EXPECT_EQ(back(c, 0, kStart + 2 * kHang, {kEinval}).fate, RKC_FATE_HUNG);
  EXPECT_EQ(back(c, 1, kStart + 2 * kHang, {kEinval}).fate, RKC_FATE_HUNG);
  EXPECT_EQ(c.generation, 1U);
}

TEST(CoresWatch, ResetsAgainUntilWhatHangsIsBack) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  submit(c, 1, kStart);
  std::uint64_t now = kStart + kHang;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(watch(c, now), (Due{now, 3})) << i;
    now += 130 * kMs;
    rkc_cores_was_reset(&c, now);
    EXPECT_EQ(c.again, now + RKC_RESET_AGAIN_NS);
    EXPECT_EQ(watch(c, now), (Due{now + RKC_RESET_AGAIN_NS, 0}));
    EXPECT_EQ(watch(c, now + RKC_RESET_AGAIN_NS - 1), (Due{now + RKC_RESET_AGAIN_NS, 0}));
    EXPECT_TRUE(c.resetting);
    EXPECT_EQ(c.generation, i);
    now += RKC_RESET_AGAIN_NS;
  }
  // Only what still hangs.
  back(c, 0, now, {kEinval});
  EXPECT_EQ(watch(c, now), (Due{now, 2}));
  back(c, 1, now, {kEinval});
  EXPECT_EQ(watch(c, now), (Due{kNever, 0}));
  EXPECT_FALSE(c.resetting);
}

TEST(CoresWatch, TheNextHangIsNotHeldUpByTheLastReset) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  watch(c, kStart + kHang);
  // Far in the future, were it still to count.
  rkc_cores_was_reset(&c, kStart + 20 * kHang);
  back(c, 0, kStart + kHang, {kEinval});
  watch(c, kStart + kHang);
  rkc_cores_submit(&c, 0, kStart + 2 * kHang);
  EXPECT_EQ(watch(c, kStart + 3 * kHang), (Due{kStart + 3 * kHang, 1}));
}

TEST(CoresWatch, OpensTheGateWhenWhatHungCameBackByItself) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  submit(c, 1, kStart + 900 * kMs);
  watch(c, kStart + kHang);
  ASSERT_TRUE(c.resetting);
  back(c, 0, kStart + kHang + kMs);
  EXPECT_EQ(watch(c, kStart + kHang + kMs), (Due{kStart + 900 * kMs + kHang, 0}));
  EXPECT_FALSE(c.resetting);
  EXPECT_EQ(c.generation, 0U);
  take(c, 2);
  EXPECT_EQ(rkc_cores_opens(&c, 2, kStart + kHang + kMs), 0U);
}

// ---- the watch: not alone ---------------------------------------------------

TEST(CoresWatch, NotAloneNothingIsReset) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  for (const std::uint64_t age : {kHang, 2 * kHang, kTimeout, 3 * kTimeout}) {
    EXPECT_EQ(watch(c, kStart + age, false), (Due{kStart + age + RKC_ALONE_AGAIN_NS, 0}));
    EXPECT_FALSE(c.resetting);
    EXPECT_FALSE(c.core[0].hung);
  }
  EXPECT_EQ(c.generation, 0U);
  take(c, 1);
  EXPECT_EQ(rkc_cores_opens(&c, 1, kStart + kHang), 0U);
}

TEST(CoresWatch, NotAloneItLooksAgainSoonEnoughForTheYoung) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  submit(c, 1, kStart + RKC_ALONE_AGAIN_NS - 1);
  submit(c, 2, kStart + RKC_ALONE_AGAIN_NS);
  EXPECT_EQ(watch(c, kStart + kHang, false), (Due{kStart + kHang + RKC_ALONE_AGAIN_NS - 1, 0}));
  back(c, 1, kStart + kHang);
  EXPECT_EQ(watch(c, kStart + kHang, false), (Due{kStart + kHang + RKC_ALONE_AGAIN_NS, 0}));
  back(c, 2, kStart + kHang);
  EXPECT_EQ(watch(c, kStart + kHang, false), (Due{kStart + kHang + RKC_ALONE_AGAIN_NS, 0}));
}

TEST(CoresWatch, ResetsAsSoonAsItIsAlone) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  watch(c, kStart + 3 * kHang, false);
  EXPECT_EQ(watch(c, kStart + 3 * kHang + 1), (Due{kStart + 3 * kHang + 1, 1}));
}

TEST(CoresWatch, LetsGoWhenSomebodyComes) {
  rkc_cores c = fresh();
  submit(c, 0, kStart);
  watch(c, kStart + kHang);
  rkc_cores_was_reset(&c, kStart + kHang + 130 * kMs);
  ASSERT_TRUE(c.resetting);
  take(c, 1);
  const std::uint64_t now = kStart + kHang + 140 * kMs;
  EXPECT_EQ(watch(c, now, false), (Due{now + RKC_ALONE_AGAIN_NS, 0}));
  EXPECT_FALSE(c.resetting);
  EXPECT_EQ(rkc_cores_opens(&c, 1, now), 0U);
  // The reset was meant for it all the same.
  EXPECT_EQ(back(c, 0, now, {kEinval}).fate, RKC_FATE_HUNG);
}

// ---- set aside and brought back ---------------------------------------------

TEST(CoresSetAside, TakesThemOut) {
  for (std::uint32_t mask = 0; mask <= RKC_CORES_ALL; ++mask) {
    rkc_cores c = fresh();
    rkc_cores_set_aside(&c, mask);
    EXPECT_EQ(c.aside, mask);
    EXPECT_EQ(c.poisoned, 0U);
    EXPECT_EQ(c.rotor.usable, RKC_CORES_ALL & ~mask);
  }
}

TEST(CoresSetAside, LeavesThePoisonedAlone) {
  rkc_cores c = fresh(2);
  rkc_cores_set_aside(&c, RKC_CORES_ALL);
  EXPECT_EQ(c.aside, 5U);
  EXPECT_EQ(c.poisoned, 2U);
  EXPECT_EQ(c.rotor.usable, 0U);
}

TEST(CoresSetAside, ThereAreNoOtherCores) {
  rkc_cores c = fresh();
  rkc_cores_set_aside(&c, 0xfffffff8);
  EXPECT_EQ(c.aside, 0U);
  EXPECT_EQ(c.rotor.usable, RKC_CORES_ALL);
}

TEST(CoresEnable, BringsOneBack) {
  rkc_cores c = fresh();
  rkc_cores_set_aside(&c, RKC_CORES_ALL);
  EXPECT_TRUE(rkc_cores_enable(&c, 1));
  EXPECT_EQ(c.aside, 5U);
  EXPECT_EQ(c.rotor.usable, 2U);
  EXPECT_EQ(rkc_cores_take(&c, RKC_CORES_ALL, 0), 1);
}

TEST(CoresEnable, WithoutItsStrikes) {
  rkc_cores c = fresh();
  for (std::uint32_t i = 0; i < kStrikes; ++i) run(c, 1, kHung);
  run(c, 0, kHung);
  ASSERT_EQ(c.aside, 2U);
  EXPECT_TRUE(rkc_cores_enable(&c, 1));
  EXPECT_EQ(c.core[1].strikes, 0U);
  EXPECT_EQ(c.core[0].strikes, 1U);
  EXPECT_FALSE(run(c, 1, kHung));
  EXPECT_FALSE(run(c, 1, kHung));
  EXPECT_TRUE(run(c, 1, kHung));
}

TEST(CoresEnable, RefusesAPoisonedOne) {
  rkc_cores c = fresh();
  run(c, 1, kHung);
  run(c, 1, ended(RKC_FATE_HIT, false, true));
  rkc_cores_set_aside(&c, 4);
  EXPECT_FALSE(rkc_cores_enable(&c, 1));
  EXPECT_EQ(c.poisoned, 2U);
  EXPECT_EQ(c.aside, 4U);
  EXPECT_EQ(c.rotor.usable, 1U);
  EXPECT_EQ(c.core[1].strikes, 1U);
  EXPECT_TRUE(rkc_cores_enable(&c, 2));
  EXPECT_EQ(c.rotor.usable, 5U);
  // Until the driver is bound anew.
  rkc_cores_init(&c, 0);
  EXPECT_TRUE(rkc_cores_enable(&c, 1));
  EXPECT_EQ(c.rotor.usable, RKC_CORES_ALL);
}

TEST(CoresEnable, OneThatIsUsableStaysSo) {
  rkc_cores c = fresh();
  take(c, 0);
  EXPECT_TRUE(rkc_cores_enable(&c, 0));
  EXPECT_EQ(c.rotor.usable, RKC_CORES_ALL);
  EXPECT_EQ(c.rotor.busy, 1U);
}

}  // namespace

// SPDX-License-Identifier: MIT
// The scheduling policy of kmod/core in virtual time: many chains of several clients, over a
// driver and hardware that have all the faults there are.  What ought to come of it is judged by
// somebody who sees what the policy cannot: what has really happened.
#include "unit/simulation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "kmod/core/cores.h"
#include "unit/simulated_driver.hpp"
#include "unit/simulation_scene.hpp"

namespace {

using rkchain::sim::Figures;
using rkchain::sim::kEcanceled;
using rkchain::sim::kEio;
using rkchain::sim::kEnodev;
using rkchain::sim::kEtime;
using rkchain::sim::kEtimedout;
using rkchain::sim::kHang;
using rkchain::sim::kS;
using rkchain::sim::kStrikes;
using rkchain::sim::Policy;
using rkchain::sim::simulate;
using rkchain::sim::Time;
using rkchain::sim::World;

std::string said(const Figures& figures) {
  std::string text = figures.first;
  for (const auto& [what, count] : figures.wrong)
    text += "\n  " + std::to_string(count) + " x " + what;
  return text;
}

/// What all seeds of a world have come to.
class Table {
 public:
  void add(const std::string& world, const Figures& f) {
    Row& row = rows_[world];
    const auto status = [&f](int which) {
      const auto found = f.status.find(which);
      return found == f.status.end() ? 0 : found->second;
    };
    const Row figures{f.chains,       status(0),          status(kEtimedout), status(kEio),
                      status(kEtime), status(kEcanceled), status(kEnodev),    f.resets,
                      f.actions,      f.replays,          f.poisoned,         f.aside,
                      f.rebinds,      f.missed_for_hung,  f.left_behind,      f.gave_up,
                      f.met_foreign};
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += figures[i];
  }
  void print() const {
    std::printf("%-26s", "");
    for (const auto& [world, row] : rows_) std::printf("%10s", world.c_str());
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      std::printf("\n%-26s", kNames[i]);
      for (const auto& [world, row] : rows_)
        std::printf("%10llu", static_cast<unsigned long long>(row[i]));
    }
    std::printf("\n");
  }

 private:
  static constexpr std::array kNames{"chains",
                                     "well",
                                     "hung",
                                     "hit",
                                     "late",
                                     "cancelled",
                                     "no core",
                                     "resets",
                                     "  our own",
                                     "replays",
                                     "poisoned",
                                     "set aside",
                                     "rebinds",
                                     "missed a wake-up: hung",
                                     "left behind: hung",
                                     "never committed: hit",
                                     "met others' reset"};
  using Row = std::array<std::uint64_t, kNames.size()>;

  std::map<std::string, Row> rows_;
};

std::uint64_t chains(std::uint64_t all) { return rkchain::test::sampled() ? all / 20 : all; }

/// Of kinds().
constexpr std::size_t kOrdinary = 0;
constexpr std::size_t kAlone = 1;
constexpr std::size_t kCrowded = 2;

/// A world that everything is shown in.
struct Kind {
  const char* name;
  World world;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<Kind> kinds() {
  std::vector<Kind> kinds;
  World world;
  kinds.push_back({"ordinary", world});
  // Nothing but resets of our own.
  world.alone = true;
  kinds.push_back({"alone", world});
  // Other programs all the time; what they do to each other is done to us.
  world = {};
  world.others = {4 * kS, 60 * kS, 10'000};
  kinds.push_back({"crowded", world});
  // As the driver is: what a reset wakes is awake microseconds before its end.
  world.faults.wake_gap = 1;
  kinds.push_back({"brief", world});
  // A board that is about to fail.
  world = {};
  world.faults.dropped = 5'000;
  world.faults.stuck = 500;
  world.faults.stray = 1'000;
  world.faults.late = 1'000;
  kinds.push_back({"failing", world});
  return kinds;
}

class Simulated : public testing::TestWithParam<Kind> {
 protected:
  static void TearDownTestSuite() { table.print(); }

  static inline Table table;
};

TEST_P(Simulated, NothingIsLostWrongOrTwice) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    World world = GetParam().world;
    world.seed = seed;
    world.chains = chains(25'000);
    const Figures f = simulate(world);
    table.add(GetParam().name, f);
    EXPECT_TRUE(f.wrong.empty()) << "seed " << seed << ": " << said(f);
    // That there was something to be survived.
    EXPECT_GT(f.resets, 0U);
    EXPECT_GT(f.hung, 0U);
    EXPECT_GT(f.status.at(0), f.chains * 7 / 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Simulated, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(Simulation, TheSameSeedIsTheSameWorld) {
  World world;
  world.seed = 7;
  world.chains = chains(20'000);
  const Figures one = simulate(world);
  const Figures other = simulate(world);
  EXPECT_EQ(one.status, other.status);
  EXPECT_EQ(one.resets, other.resets);
  EXPECT_EQ(one.served, other.served);
}

/// Where nothing fails, clients that always have more get core time by their weight.
TEST(Simulation, CoreTimeIsSharedByWeight) {
  World world;
  world.chains = 60'000;
  world.faults = {0, 0, 0, 0, 0, 0, 25};
  world.alone = true;
  world.plain = true;
  world.priorities = {-1, 0, 1};
  const Figures f = simulate(world);
  EXPECT_TRUE(f.wrong.empty()) << said(f);
  EXPECT_EQ(f.status.at(0), f.chains);
  EXPECT_EQ(f.resets, 0U);
  const auto low = static_cast<double>(f.served.at(-1));
  EXPECT_NEAR(static_cast<double>(f.served.at(0)) / low, 4, 0.4);
  EXPECT_NEAR(static_cast<double>(f.served.at(1)) / low, 16, 1.6);
}

// ---- with a rule taken out, something has to be found -----------------------------

/// With this policy one of @p what goes wrong, in one of some seeds.
void expect_found(const Policy& policy, const std::set<std::string>& what, std::size_t kind) {
  std::string all;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world = kinds().at(kind).world;
    world.seed = seed;
    world.chains = 10'000;
    const Figures f = simulate(world, policy);
    all += said(f);
    for (const auto& [wrong, count] : f.wrong) {
      if (what.contains(wrong)) {
        return;
      }
    }
  }
  FAIL() << "nothing was found but: " << all;
}

TEST(SimulationControl, AGateThatIsAlwaysOpen) {
  Policy policy;
  policy.opens = [](const rkc_cores&, std::uint32_t, Time) { return Time{0}; };
  expect_found(policy, {"submit in the reset window", "submit though something hangs"}, kOrdinary);
  expect_found(policy, {"submit during an own reset"}, kAlone);
  expect_found(policy, {"submit during the reset of an own time-out"}, kCrowded);
}

TEST(SimulationControl, AGateThatForgetsOthersResets) {
  Policy policy;
  policy.opens = [](const rkc_cores& c, std::uint32_t id, Time now) {
    rkc_cores forgetful = c;
    forgetful.quiet = 0;
    return rkc_cores_opens(&forgetful, id, now);
  };
  expect_found(policy, {"submit during a reset that was known of"}, kCrowded);
}

TEST(SimulationControl, AGateThatStaysShut) {
  Policy policy;
  policy.opens = [](const rkc_cores& c, std::uint32_t id, Time now) {
    const Time opens = rkc_cores_opens(&c, id, now);
    return opens != 0 && opens != RKC_NEVER ? opens + kS : opens;
  };
  expect_found(policy, {"waits at an open gate"}, kCrowded);
}

TEST(SimulationControl, PoisonedCoresThatAreUsed) {
  Policy policy;
  policy.finish = [](rkc_cores& c, std::uint32_t id, const rkc_run_end& end) {
    rkc_run_end blind = end;
    blind.verdict.poisoned = false;
    return rkc_cores_finish(&c, id, &blind, kStrikes);
  };
  expect_found(policy, {"trap"}, kCrowded);
}

TEST(SimulationControl, AJudgeThatReplaysEverything) {
  Policy policy;
  policy.back = [](rkc_cores& c, std::uint32_t id, Time now, rkc_return& r) {
    rkc_verdict verdict = rkc_cores_back(&c, id, now, &r);
    if (verdict.fate == RKC_FATE_HIT) verdict.fate = RKC_FATE_AGAIN;
    return verdict;
  };
  expect_found(policy, {"ran twice and may not", "reported well and is not"}, kCrowded);
}

TEST(SimulationControl, AJudgeThatReplaysNothing) {
  Policy policy;
  policy.back = [](rkc_cores& c, std::uint32_t id, Time now, rkc_return& r) {
    r.replayable = false;
    return rkc_cores_back(&c, id, now, &r);
  };
  expect_found(policy, {"could have been run again"}, kCrowded);
}

TEST(SimulationControl, AJudgeThatTakesEveryErrorForAHang) {
  Policy policy;
  policy.back = [](rkc_cores& c, std::uint32_t id, Time now, rkc_return& r) {
    rkc_verdict verdict = rkc_cores_back(&c, id, now, &r);
    if (r.error != 0) verdict.fate = RKC_FATE_HUNG;
    return verdict;
  };
  expect_found(policy, {"reported as hung and was not"}, kCrowded);
}

TEST(SimulationControl, AResetThatDoesNotWaitForTheYoung) {
  Policy policy;
  policy.watch = [](rkc_cores& c, Time now, bool alone, std::uint32_t& reset) {
    rkc_cores old = c;
    for (rkc_core& core : old.core)
      if (core.submitted != 0 && now - core.submitted < kHang) core.submitted = 0;
    const Time next = rkc_cores_watch(&old, now, kHang, alone, &reset);
    for (std::size_t i = 0; i < RKC_CORES; ++i) old.core[i].submitted = c.core[i].submitted;
    c = old;
    return next;
  };
  expect_found(policy, {"an own reset hit what was young"}, kAlone);
}

TEST(SimulationControl, AResetThoughOthersAreThere) {
  Policy policy;
  policy.watch = [](rkc_cores& c, Time now, bool, std::uint32_t& reset) {
    return rkc_cores_watch(&c, now, kHang, true, &reset);
  };
  expect_found(policy, {"an own reset though not alone"}, kCrowded);
}

TEST(SimulationControl, ACoreThatIsNotGivenWork) {
  Policy policy;
  policy.finish = [](rkc_cores& c, std::uint32_t id, const rkc_run_end& end) {
    const bool lost = rkc_cores_finish(&c, id, &end, kStrikes);
    // Lost, and nobody is told.
    if (end.failed) c.rotor.usable &= ~(1U << id);
    return lost;
  };
  expect_found(policy, {"everything stands still"}, kAlone);
}

}  // namespace

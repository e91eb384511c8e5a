// SPDX-License-Identifier: MIT
// The self-test over every silicon that the model can play: is the table right, is the mode that
// it picks one that works, and do the ones that it does not pick compute wrongly?
#include "rkchain/selftest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/saved_selftest.hpp"
#include "kmod/core/trial.h"
#include "unit/backend_rig.hpp"
#include "unit/fake_system.hpp"

namespace rkchain {
namespace {

using namespace rkchain::test;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::array kModes{Mode::wait, Mode::wait41, Mode::link, Mode::single};

struct Silicon {
  const char* name;
  void (*set)(ModelOptions& model);
  /// Of wait, wait41, link, single, on each core but those that are bad.
  std::array<Verdict, 4> verdicts;
  Mode chosen;
  std::uint32_t bad_cores = 0;
};

constexpr Verdict W = Verdict::works;
constexpr Verdict E = Verdict::early;
constexpr Verdict X = Verdict::wrong;
constexpr Verdict U = Verdict::unordered;

const std::vector<Silicon>& all_silicon() {
  static const std::vector<Silicon> all{
      {"AsClaimed", [](ModelOptions&) {}, {W, W, W, W}, Mode::wait},
      {"DoesNotWait", [](ModelOptions& m) { m.nowait = true; }, {X, X, W, W}, Mode::link},
      {"CompletesEarly", [](ModelOptions& m) { m.early = true; }, {E, E, W, W}, Mode::link},
      {"NeedsTheMarker", [](ModelOptions& m) { m.needs41 = true; }, {X, W, W, W}, Mode::wait41},
      {"IsLate", [](ModelOptions& m) { m.late = true; }, {E, E, E, E}, Mode::single},
      {"IsLateBetweenBlocks",
       [](ModelOptions& m) { m.rawlate = true; },
       {U, U, U, W},
       Mode::single},
      {"HasABadCore0", [](ModelOptions& m) { m.bad_cores = 1; }, {W, W, W, W}, Mode::wait, 1},
      {"HasABadCore2", [](ModelOptions& m) { m.bad_cores = 4; }, {W, W, W, W}, Mode::wait, 4},
      {"NeedsTheMarkerAndHasABadCore",
       [](ModelOptions& m) {
         m.needs41 = true;
         m.bad_cores = 2;
       },
       {X, W, W, W},
       Mode::wait41,
       2},
      {"NeedsTheMarkerAndDoesNotWait",
       [](ModelOptions& m) {
         m.needs41 = true;
         m.nowait = true;
       },
       {X, X, W, W},
       Mode::link},
      {"NeedsTheMarkerAndCompletesEarly",
       [](ModelOptions& m) {
         m.needs41 = true;
         m.early = true;
       },
       {X, E, W, W},
       Mode::link},
  };
  return all;
}

class SelfTest : public testing::TestWithParam<Silicon> {
 protected:
  SelfTest() { GetParam().set(model_); }
  ModelOptions model_;
};

TEST_P(SelfTest, HasTheRightTable) {
  const Silicon& silicon = GetParam();
  const SelfTestReport report = self_test(Device(open_model(Mode::wait, model_)));
  ASSERT_EQ(report.results.size(), 12);
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    const SelfTestResult& result = report.results[i];
    EXPECT_EQ(result.mode, kModes[i / 3]);
    EXPECT_EQ(result.core, i % 3);
    const bool bad = (silicon.bad_cores >> result.core & 1) != 0;
    EXPECT_EQ(name(result.verdict), name(bad ? X : silicon.verdicts[i / 3]))
        << name(result.mode) << " on core " << result.core;
    EXPECT_GE(result.expected_ns, RKC_TRIAL_NS);
    EXPECT_EQ(result.block.has_value(), result.verdict != W);
  }
  EXPECT_EQ(report.chosen, silicon.chosen);
  const bool nothing = silicon.verdicts[3] != W;
  EXPECT_EQ(report.failed_cores, nothing ? 7 : silicon.bad_cores);
  EXPECT_EQ(report.proven.empty(), nothing);
  EXPECT_FALSE(report.why.empty());
}

/// Are the outputs of a chain right, at the moment when it has completed?
bool right_in(Mode mode, const ModelOptions& model, std::uint32_t core) {
  const auto backend = open_model(mode, model);
  const rkc_trial trial{RKC_TRIAL_LONG, 9, 1};
  const BackendBuffer buffer = backend->create_buffer(rkc_trial_bytes(&trial));
  rkc_trial_fill(&trial, buffer.cpu);
  std::vector<rkc_matmul> blocks(trial.count);
  rkc_trial_blocks(&trial, buffer.iova, blocks.data());
  std::vector<std::uint64_t> words(8 * RKC_WAIT_STRIDE + RKC_FULL_WORDS);
  for (std::uint32_t i = 0; i < trial.count; ++i) rkc_chain_append(words.data(), i, &blocks[i]);
  ChainProgram program;
  program.words = words;
  program.count = trial.count;
  program.trial = mode;
  const BufferUse use{buffer.id, true, true, true};
  run(*backend, backend->create_chain(program, std::span(&use, 1)), 1U << core);
  return rkc_trial_wrong(&trial, buffer.cpu) == RKC_NO_WORD;
}

TEST_P(SelfTest, IsWhatMakesTheDifference) {
  const Silicon& silicon = GetParam();
  for (std::uint32_t core = 0; core < 3; ++core) {
    const bool bad = (silicon.bad_cores >> core & 1) != 0;
    for (std::size_t i = 0; i < kModes.size(); ++i) {
      const bool right = silicon.verdicts[i] == W || silicon.verdicts[i] == U;
      EXPECT_EQ(right_in(kModes[i], model_, core), right && !bad)
          << name(kModes[i]) << " on core " << core;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plays, SelfTest, testing::ValuesIn(all_silicon()),
                         [](const auto& silicon) { return silicon.param.name; });

TEST(SelfTestOfEarlySilicon, WouldMissItWithShortChains) {
  ModelOptions model;
  model.early = true;
  const auto backend = open_model(Mode::wait, model);
  const auto wrong = [&](const rkc_trial& trial) {
    const BackendBuffer buffer = backend->create_buffer(rkc_trial_bytes(&trial));
    rkc_trial_fill(&trial, buffer.cpu);
    std::vector<rkc_matmul> blocks(trial.count);
    rkc_trial_blocks(&trial, buffer.iova, blocks.data());
    std::vector<std::uint64_t> words((trial.count - 1) * RKC_WAIT_STRIDE + RKC_FULL_WORDS);
    for (std::uint32_t i = 0; i < trial.count; ++i) rkc_chain_append(words.data(), i, &blocks[i]);
    ChainProgram program;
    program.words = words;
    program.count = trial.count;
    program.trial = Mode::wait;
    const BufferUse use{buffer.id, true, true, true};
    run(*backend, backend->create_chain(program, std::span(&use, 1)), 1);
    return rkc_trial_wrong(&trial, buffer.cpu);
  };
  // Microseconds are over before anybody looks.
  EXPECT_EQ(wrong({RKC_TRIAL_SHORT, 64, 1}), RKC_NO_WORD);
  EXPECT_NE(wrong({RKC_TRIAL_LONG, 9, 1}), RKC_NO_WORD);
}

TEST(SelfTestOptions, SomeModesOnSomeCores) {
  const Device device(open_model(Mode::wait));
  std::vector<std::string> seen;
  SelfTestOptions options;
  options.modes = {Mode::link, Mode::wait};
  options.core_mask = 5;
  options.progress = [&seen](Mode mode, std::uint32_t core) {
    seen.push_back(std::string(name(mode)) + std::to_string(core));
  };
  const SelfTestReport report = self_test(device, options);
  EXPECT_THAT(seen, ElementsAre("wait0", "wait2", "link0", "link2"));
  EXPECT_EQ(report.results.size(), 4);
  EXPECT_THAT(report.proven, ElementsAre(Mode::wait, Mode::link));
  EXPECT_EQ(report.failed_cores, 0);
}

TEST(SelfTestOptions, ABriefOne) {
  SelfTestOptions options;
  options.brief = true;
  const SelfTestReport report = self_test(Device(open_model(Mode::wait)), options);
  for (const SelfTestResult& result : report.results) {
    EXPECT_EQ(result.verdict, Verdict::works);
    EXPECT_EQ(result.blocks, RKC_TRIAL_SMALL_BLOCKS);
    EXPECT_EQ(result.expected_ns, 0);
  }
  EXPECT_THAT(report.why, HasSubstr("short test"));
}

TEST(SelfTestOptions, WhatDoesNotExistIsRefused) {
  const Device device(open_model(Mode::wait));
  SelfTestOptions options;
  options.modes = {static_cast<Mode>(4)};
  EXPECT_EQ(error_of([&] { (void)self_test(device, options); }).code(), Errc::invalid_argument);
  options = {};
  options.core_mask = 8;
  EXPECT_EQ(error_of([&] { (void)self_test(device, options); }).code(), Errc::invalid_argument);
}

TEST(SelfTestOfStuckSilicon, TimesOutAndLosesNoCore) {
  ModelOptions model;
  model.stuck_cores = 2;
  const auto backend = open_model(Mode::wait, model);
  const SelfTestReport report = self_test(Device(backend));
  for (const SelfTestResult& result : report.results) {
    EXPECT_EQ(result.verdict, result.core == 1 ? Verdict::timeout : Verdict::works);
    EXPECT_EQ(result.detail.empty(), result.core != 1);
  }
  EXPECT_EQ(report.failed_cores, 2);
  EXPECT_EQ(report.chosen, Mode::wait);
  EXPECT_EQ(backend->info().usable_mask, 7);
}

TEST(SelfTestOfForgetfulSilicon, TriesALostStartAgain) {
  ModelOptions model;
  model.drop_every = 500;  // more than a long chain one by one
  const SelfTestReport report = self_test(Device(open_model(Mode::wait, model)));
  for (const SelfTestResult& result : report.results) EXPECT_EQ(result.verdict, Verdict::works);
}

// ---- the file ---------------------------------------------------------------------

struct Saved : testing::Test {
  FakeSystem fake;
  const std::string path = "/home/somebody/.local/state/rkchain/selftest.json";
  Saved() {
    fake.variables["HOME"] = "/home/somebody";
    fake.contents["/proc/device-tree/serial-number"] = std::string("c0ffee\0", 7);
  }
  ProvenModes load(const std::string& driver = "0.9.8") {
    return ProvenModes::load(*fake.system(), driver);
  }
};

TEST_F(Saved, WhatIsWrittenIsRead) {
  fake.contents[path] = ProvenModes({Mode::link, Mode::wait}, "0.9.8", "c0ffee").text();
  const ProvenModes proven = load();
  EXPECT_THAT(proven.modes(), ElementsAre(Mode::wait, Mode::link));
  EXPECT_EQ(proven.best(), Mode::wait);
  EXPECT_TRUE(proven.contains(Mode::link));
  EXPECT_FALSE(proven.contains(Mode::single));
}

TEST_F(Saved, OfAnotherDriverOrBoardIsNotBelieved) {
  fake.contents[path] = ProvenModes({Mode::wait}, "0.9.8", "c0ffee").text();
  EXPECT_EQ(load("0.9.6").best(), std::nullopt);
  fake.contents["/proc/device-tree/serial-number"] = "another";
  EXPECT_EQ(load().best(), std::nullopt);
}

TEST_F(Saved, GarbageIsNothing) {
  for (const char* const text :
       {"", "{", "[]", "7", R"({"driver": "0.9.8"})", R"({"driver": 9, "board": "c0ffee"})",
        R"({"driver": "0.9.8", "board": "c0ffee", "proven": 7})",
        R"({"driver": "0.9.8", "board": "c0ffee", "proven": [1, "fast", null]})"}) {
    fake.contents[path] = text;
    EXPECT_THAT(load().modes(), IsEmpty()) << text;
  }
  fake.contents.erase(path);
  EXPECT_THAT(load().modes(), IsEmpty());
}

TEST_F(Saved, IsTheUsersBeforeTheMachines) {
  fake.contents["/var/lib/rkchain/selftest.json"] =
      ProvenModes({Mode::wait41}, "0.9.8", "c0ffee").text();
  EXPECT_EQ(load().best(), Mode::wait41);
  fake.contents[path] = ProvenModes({Mode::link}, "0.9.8", "c0ffee").text();
  EXPECT_EQ(load().best(), Mode::link);
  fake.variables["XDG_STATE_HOME"] = "/state";
  EXPECT_EQ(load().best(), Mode::wait41);
  fake.variables["RKCHAIN_SELFTEST_FILE"] = "/named";
  EXPECT_EQ(load().best(), std::nullopt);
  fake.contents["/named"] = ProvenModes({Mode::wait}, "0.9.8", "c0ffee").text();
  EXPECT_EQ(load().best(), Mode::wait);
}

}  // namespace
}  // namespace rkchain

// SPDX-License-Identifier: MIT
// How the model back end plays what silicon might do, and that each kind of it is told apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend_rig.hpp"

namespace rkchain {
namespace {

using namespace rkchain::test;
using testing::Each;
using testing::HasSubstr;

constexpr Mode kModes[] = {Mode::wait, Mode::wait41, Mode::link, Mode::single};

TEST(Silicon, EarlyCompletion) {
  ModelOptions model;
  model.early = true;
  for (const Mode mode : kModes) {
    const Rig rig(open_model(mode, model), 3);
    const Completion done = run(rig.backend(), rig.create());
    // A program of one block cannot end before its last block.
    if (mode == Mode::single || mode == Mode::link) {
      EXPECT_FALSE(done.error) << done.detail;
    } else {
      EXPECT_EQ(done.error, Errc::early_completion);
      EXPECT_THAT(done.detail, HasSubstr("1 of 3 blocks"));
    }
    EXPECT_EQ(rig.output(), rig.expected()) << "the rest has to run before the core is given away";
    const Rig one(open_model(mode, model), 1);
    EXPECT_FALSE(run(one.backend(), one.create()).error);
  }
}

TEST(Silicon, WithoutTheWaitOnlyOneProgramAtATimeIsRight) {
  ModelOptions model;
  model.nowait = true;
  for (const Mode mode : kModes) {
    const Rig rig(open_model(mode, model), 3);
    run(rig.backend(), rig.create());
    EXPECT_EQ(rig.output() == rig.expected(), mode == Mode::link || mode == Mode::single);
  }
}

TEST(Silicon, ThatNeedsTheArmMarkerIsWrongWithoutIt) {
  ModelOptions model;
  model.needs41 = true;
  for (const Mode mode : kModes) {
    const Rig rig(open_model(mode, model), 3);
    run(rig.backend(), rig.create());
    EXPECT_EQ(rig.output() == rig.expected(), mode != Mode::wait);
  }
}

TEST(Silicon, LateOutputIsThereLater) {
  ModelOptions model;
  model.late = true;
  const auto backend = open_model(Mode::wait, model);
  const Rig rig(backend, 2);
  const Rig other(backend, 1, 2);
  EXPECT_FALSE(run(*backend, rig.create(), 1).error);
  EXPECT_NE(rig.output(), rig.expected());
  EXPECT_FALSE(run(*backend, other.create(), 1).error);
  EXPECT_EQ(rig.output(), rig.expected());
}

TEST(Silicon, LateBetweenBlocksIsCompleteAtTheEnd) {
  ModelOptions model;
  model.rawlate = true;
  for (const Mode mode : kModes) {
    const Rig rig(open_model(mode, model), 3);
    EXPECT_FALSE(run(rig.backend(), rig.create()).error);
    EXPECT_EQ(rig.output(), rig.expected());
  }
}

TEST(Silicon, ABadCoreComputesWrongly) {
  ModelOptions model;
  model.bad_cores = 2;
  const Rig rig(open_model(Mode::wait, model), 2);
  const auto chain = rig.create();
  for (std::uint32_t core = 0; core < 3; ++core) {
    rig.clear();
    EXPECT_FALSE(run(rig.backend(), chain, 1U << core).error);
    EXPECT_EQ(rig.output() == rig.expected(), core != 1);
  }
}

TEST(Silicon, AStuckCoreIsSetAside) {
  ModelOptions model;
  model.stuck_cores = 1;
  for (const Mode mode : kModes) {
    const auto backend = open_model(mode, model);
    const Rig rig(backend, 2);
    const auto chain = rig.create();
    const Completion done = run(*backend, chain);
    EXPECT_EQ(done.core, 0);
    EXPECT_EQ(done.error, Errc::hung);
    EXPECT_THAT(done.detail, HasSubstr("0 of 2 blocks"));
    EXPECT_EQ(backend->info().usable_mask, 6);
    for (int i = 0; i < 4; ++i) EXPECT_FALSE(run(*backend, chain).error);
    EXPECT_EQ(rig.output(), rig.expected());
    EXPECT_EQ(error_of([&] { submit(*backend, chain, 1); }).code(), Errc::invalid_argument);
  }
}

TEST(Silicon, WithoutACoreThereIsNoDevice) {
  ModelOptions model;
  model.stuck_cores = 7;
  const auto backend = open_model(Mode::wait, model);
  const auto chain = Rig(backend, 1).create();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(*backend, chain).error, Errc::hung);
  EXPECT_EQ(error_of([&] { submit(*backend, chain); }).code(), Errc::no_device);
}

TEST(Silicon, EveryFourthStartIsDropped) {
  ModelOptions model;
  model.drop_every = 4;  // not one per core, so that each core has to recover
  const auto backend = open_model(Mode::wait, model);
  const Rig rig(backend, 2);
  const auto chain = rig.create();
  for (int i = 1; i <= 12; ++i) {
    rig.clear();
    const Completion done = run(*backend, chain);
    if (i % 4 == 0) {
      EXPECT_EQ(done.error, Errc::dropped_dispatch) << i;
      EXPECT_THAT(rig.output(), Each(0));
    } else {
      EXPECT_FALSE(done.error) << i;
      EXPECT_EQ(rig.output(), rig.expected());
    }
  }
  EXPECT_EQ(backend->info().usable_mask, 7);
  EXPECT_EQ(backend->stats().interrupts, 9);
}

TEST(Silicon, AColdCoreLosesItsFirstOutput) {
  ModelOptions model;
  model.cold = true;
  const Rig rig(open_model(Mode::wait, model), 2);
  const auto chain = rig.create();
  EXPECT_FALSE(run(rig.backend(), chain, 1).error);
  const auto output = rig.output();
  const auto half = output.begin() + Rig::kC / 4;
  EXPECT_THAT(std::vector(output.begin(), half), Each(0));
  const auto expected = rig.expected();
  EXPECT_TRUE(std::equal(half, output.end(), expected.begin() + Rig::kC / 4));
  EXPECT_FALSE(run(rig.backend(), chain, 1).error);
  EXPECT_EQ(rig.output(), expected);
}

TEST(Silicon, AnUnmappedAddressIsADmaError) {
  struct Case {
    const BackendBuffer& (Rig::*buffer)() const;
    const char* access;
  };
  for (const Mode mode : kModes) {
    for (const Case& c : {Case{&Rig::a, "feature read"}, Case{&Rig::b, "weight read"},
                          Case{&Rig::c, "output write"}}) {
      const auto backend = open_model(mode);
      const Rig rig(backend, 2);
      const Rig good(backend, 2, 2);
      const auto chain = rig.create();
      const BackendBuffer& buffer = (rig.*c.buffer)();
      model_unmap(*backend, buffer.id);
      const Completion done = run(*backend, chain, 1);
      EXPECT_EQ(done.error, Errc::dma_error);
      EXPECT_THAT(done.detail, HasSubstr(c.access));
      EXPECT_THAT(done.detail, HasSubstr("block 0"));
      char address[16];
      std::snprintf(address, sizeof(address), "0x%08x", buffer.iova);
      EXPECT_THAT(done.detail, HasSubstr(address));
      // The core takes the next chain as if nothing had happened.
      EXPECT_FALSE(run(*backend, good.create(), 1).error);
      EXPECT_EQ(good.output(), good.expected());
      EXPECT_EQ(backend->info().usable_mask, 7);
    }
  }
}

}  // namespace
}  // namespace rkchain

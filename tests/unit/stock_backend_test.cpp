// SPDX-License-Identifier: MIT
// The back end over the stock driver: the same results, and every rule that keeps the driver
// out of its own bugs.
#include "backend/stock_backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>

#include "backend/saved_selftest.hpp"
#include "backend_rig.hpp"
#include "fake_rknpu.hpp"
#include "rkchain/selftest.hpp"

namespace rkchain::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kSecond = 1'000'000'000;

class Stock : public testing::Test {
 protected:
  std::shared_ptr<Backend> open(Mode mode = Mode::wait, std::uint32_t core_mask = 0) {
    OpenOptions options;
    options.mode = mode;
    options.core_mask = core_mask;
    return make_stock_backend(options, machine.system());
  }

  /// Submits fail in this order, then they succeed.
  void plan(std::deque<FakeRknpu::Fate> fates) {
    const auto rest = std::make_shared<std::pair<std::mutex, std::deque<FakeRknpu::Fate>>>();
    rest->second = std::move(fates);
    driver.fate = [rest](std::uint32_t) -> FakeRknpu::Fate {
      const std::lock_guard lock(rest->first);
      if (rest->second.empty()) return {};
      const auto next = rest->second.front();
      rest->second.pop_front();
      return next;
    };
  }

  void TearDown() override { EXPECT_THAT(driver.violations(), IsEmpty()); }

  FakeSystem machine;
  FakeRknpu driver{machine};
};

struct Counted {
  Mode mode;
  std::uint64_t submits;
  std::uint64_t tasks;
};

class StockModes : public Stock, public testing::WithParamInterface<Counted> {};

TEST_P(StockModes, GiveTheSameResultsAtTheirOwnCost) {
  const Rig rig(open(GetParam().mode), 5);
  const auto chain = rig.create();
  const Completion done = run(rig.backend(), chain);
  EXPECT_FALSE(done.error) << done.detail;
  EXPECT_EQ(rig.output(), rig.expected());

  const DeviceStats stats = rig.backend().stats();
  EXPECT_EQ(stats.submits, GetParam().submits);
  EXPECT_EQ(stats.interrupts, GetParam().submits);
  EXPECT_EQ(stats.tasks, GetParam().tasks);
  EXPECT_EQ(stats.blocks, 5);
  EXPECT_THAT(driver.submits(), SizeIs(GetParam().submits));
  const CoreStats& core = stats.core[done.core];
  EXPECT_EQ(core.chains, 1);
  EXPECT_EQ(core.blocks, 5);
  EXPECT_EQ(core.macs, 5 * 4 * 64 * 32);
  EXPECT_EQ(core.busy_ns, 1000 * GetParam().tasks) << "the driver's measure";
}

INSTANTIATE_TEST_SUITE_P(All, StockModes,
                         testing::Values(Counted{Mode::wait, 1, 1}, Counted{Mode::wait41, 1, 1},
                                         Counted{Mode::link, 1, 5}, Counted{Mode::single, 5, 5}),
                         [](const auto& mode) { return std::string(name(mode.param.mode)); });

TEST_F(Stock, SaysWhatItIs) {
  const DeviceInfo info = open(Mode::link, 6)->info();
  EXPECT_EQ(info.backend, BackendKind::stock);
  EXPECT_EQ(info.driver, "rknpu 0.9.8");
  EXPECT_EQ(info.mode, Mode::link);
  EXPECT_EQ(info.usable_mask, 6);
  EXPECT_FALSE(info.ordered);
  EXPECT_TRUE(open(Mode::single)->info().ordered);
}

TEST_F(Stock, RefusesWhatTheModelRefuses) {
  Rig rig(open(), 2);
  auto uses = rig.uses();
  uses[0].read = false;
  EXPECT_EQ(error_of([&] { (void)rig.create(rig.words(), uses); }).reason(), RKC_A_OUTSIDE);
  uses = rig.uses();
  uses[0].id = 999;
  EXPECT_EQ(error_of([&] { (void)rig.create(rig.words(), uses); }).code(), Errc::invalid_argument);
  // By the size that was asked for, not by the pages that it got.
  rig.blocks[1].a += 16;
  EXPECT_EQ(error_of([&] { (void)rig.create(); }).reason(), RKC_A_OUTSIDE);
  EXPECT_EQ(error_of([&] { open(static_cast<Mode>(4)); }).code(), Errc::invalid_argument);
}

TEST_F(Stock, RotatesWithOneSubmitPerCore) {
  const auto backend = open();
  std::vector<Rig> rigs;
  std::vector<std::uint64_t> chains;
  for (unsigned i = 0; i < 24; ++i) {
    rigs.emplace_back(backend, 2, i);
    chains.push_back(rigs.back().create());
  }
  const auto first = backend->submit({chains, 0, std::nullopt});
  std::uint32_t cores = 0;
  for (std::uint64_t i = 0; i < 24; ++i) {
    const Completion done = finish(*backend, first + i);
    EXPECT_FALSE(done.error) << done.detail;
    cores |= 1U << done.core;
    EXPECT_EQ(rigs[i].output(), rigs[i].expected());
  }
  EXPECT_EQ(cores, 7);
}

TEST_F(Stock, OneChainMayRunOnSeveralCoresAtOnce) {
  Gate gate;
  driver.fate = [keeper = gate.keeper()](std::uint32_t core) {
    EXPECT_TRUE(keeper(core));
    return FakeRknpu::Fate{};
  };
  const Rig rig(open(Mode::link), 3);
  const auto chain = rig.create();
  std::vector<std::uint64_t> sequences;
  for (int i = 0; i < 3; ++i) sequences.push_back(submit(rig.backend(), chain));
  EXPECT_TRUE(gate.await(7));
  gate.open();
  for (const auto sequence : sequences) EXPECT_FALSE(finish(rig.backend(), sequence).error);
  EXPECT_EQ(rig.output(), rig.expected());
}

TEST_F(Stock, OlderDriversHaveShorterBuffers) {
  for (const std::size_t size : {48, 40, 32}) {
    driver.create_size = size;
    const Rig rig(open(), 2);
    EXPECT_FALSE(run(rig.backend(), rig.create()).error);
    EXPECT_EQ(rig.output(), rig.expected());
  }
  driver.create_size = 56;
  EXPECT_THAT(error_of([&] { open(); }).what(), HasSubstr("makes no buffer"));
}

TEST_F(Stock, AddressesAbove4GiBAreGivenBack) {
  const auto backend = open();
  driver.iova_offset = std::uint64_t{1} << 32;
  const Error error = error_of([&] { backend->create_buffer(100); });
  EXPECT_EQ(error.code(), Errc::out_of_memory);
  EXPECT_THAT(error.what(), HasSubstr("4 GiB"));
  EXPECT_EQ(driver.buffers(), 0);
}

TEST_F(Stock, SyncsWhatIsDeclared) {
  const Rig rig(open(), 2);
  driver.forget_syncs();
  const auto chain = rig.create();
  // The program and the tasks, once.
  ASSERT_THAT(driver.syncs(), SizeIs(2));
  for (const auto& sync : driver.syncs()) EXPECT_EQ(sync.flags, RKNPU_MEM_SYNC_TO_DEVICE);

  driver.forget_syncs();
  EXPECT_FALSE(run(rig.backend(), chain).error);
  // A is read: before; C is written: before, too, and after; B was not declared.
  const auto syncs = driver.syncs();
  ASSERT_THAT(syncs, SizeIs(3));
  EXPECT_EQ(syncs[0].object, driver.object_at(rig.a().iova));
  EXPECT_EQ(syncs[0].flags, RKNPU_MEM_SYNC_TO_DEVICE);
  EXPECT_EQ(syncs[1].object, driver.object_at(rig.c().iova));
  EXPECT_EQ(syncs[1].flags, RKNPU_MEM_SYNC_TO_DEVICE);
  EXPECT_EQ(syncs[2].object, driver.object_at(rig.c().iova));
  EXPECT_EQ(syncs[2].flags, RKNPU_MEM_SYNC_FROM_DEVICE);
  EXPECT_EQ(syncs[2].size, rig.c().size);
}

TEST_F(Stock, SyncsNothingThatMayBeAnotherChains) {
  Rig rig(open(), 3);
  rig.blocks.erase(rig.blocks.begin() + 1);  // another core may be writing its output
  const auto chain = rig.create();
  driver.forget_syncs();
  EXPECT_FALSE(run(rig.backend(), chain).error);
  // Two ranges each: of A before, of C before and after.
  const auto syncs = driver.syncs();
  ASSERT_THAT(syncs, SizeIs(6));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(syncs[i].size, i < 2 ? Rig::kA : Rig::kC);
}

TEST_F(Stock, BuffersGoWithTheLastChain) {
  const auto backend = open();
  {
    const Rig rig(backend, 2);
    const auto chain = rig.create();
    EXPECT_EQ(driver.buffers(), 5) << "A, B, C, program, tasks";
    for (const auto id : {rig.a().id, rig.b().id, rig.c().id}) backend->destroy_buffer(id);
    EXPECT_EQ(driver.buffers(), 5);
    EXPECT_FALSE(run(*backend, chain).error);
    backend->destroy_chain(chain);
  }
  EXPECT_EQ(driver.buffers(), 0);
  EXPECT_EQ(machine.mappings, 0);
}

// ---- what goes wrong ---------------------------------------------------------------

TEST_F(Stock, ABystanderRunsAgain) {
  plan({{-EINVAL, true}});
  const Rig rig(open(), 2);
  const Completion done = run(rig.backend(), rig.create());
  EXPECT_FALSE(done.error) << done.detail;
  EXPECT_EQ(done.retries, 1);
  EXPECT_EQ(rig.output(), rig.expected());
  EXPECT_EQ(rig.backend().stats().submits, 2);
  EXPECT_EQ(rig.backend().stats().interrupts, 1);
  EXPECT_EQ(rig.backend().info().usable_mask, 7);
}

TEST_F(Stock, ABystanderInSingleModeStartsAtItsFirstBlock) {
  plan({{}, {-EINVAL, true}});
  const Rig rig(open(Mode::single), 3);
  const Completion done = run(rig.backend(), rig.create());
  EXPECT_FALSE(done.error) << done.detail;
  EXPECT_EQ(done.retries, 1);
  EXPECT_THAT(driver.submits(), SizeIs(5));
  EXPECT_EQ(rig.output(), rig.expected());
}

TEST_F(Stock, ABystanderRunsAgainOnce) {
  plan({{-EINVAL, true}, {-EINVAL, true}});
  const Rig rig(open(), 2);
  const Completion done = run(rig.backend(), rig.create());
  EXPECT_EQ(done.error, Errc::io);
  EXPECT_EQ(done.retries, 1);
  EXPECT_THAT(done.detail, AllOf(HasSubstr("reset"), HasSubstr("twice")));
}

TEST_F(Stock, WhatWritesItsInputIsNotRunAgain) {
  plan({{-EINVAL, true}});
  Rig rig(open(Mode::single), 2);
  rig.blocks[0].type = RKC_I8_I8;
  rig.blocks[1].c = rig.blocks[0].a;  // the first one has read it
  rig.blocks[1].m = rig.blocks[1].m_total = 2;
  auto uses = rig.uses();
  for (auto& use : uses) use.read = use.write = true;
  const auto chain = rig.create(rig.words(), uses);
  const Completion done = run(rig.backend(), chain);
  EXPECT_EQ(done.error, Errc::io);
  EXPECT_EQ(done.retries, 0);
  EXPECT_THAT(done.detail, HasSubstr("cannot be run again"));
}

TEST_F(Stock, ACoreThatNeverStartedItsJobIsOut) {
  plan({{-EINVAL, false}});
  const Rig rig(open(), 2);
  const auto chain = rig.create();
  const Completion done = run(rig.backend(), chain, 2);
  EXPECT_EQ(done.error, Errc::io);
  EXPECT_EQ(done.core, 1);
  EXPECT_THAT(done.detail, HasSubstr("out until the driver is bound again"));
  EXPECT_EQ(rig.backend().info().usable_mask, 5);
  EXPECT_EQ(error_of([&] { submit(rig.backend(), chain, 2); }).code(), Errc::invalid_argument);
  EXPECT_FALSE(run(rig.backend(), chain).error);
}

TEST_F(Stock, Core0IsCleanedUpByTheDriver) {
  plan({{-EINVAL, false}});
  const Rig rig(open(), 2);
  const Completion done = run(rig.backend(), rig.create(), 1);
  EXPECT_FALSE(done.error) << done.detail;
  EXPECT_EQ(done.retries, 1);
  EXPECT_EQ(rig.backend().info().usable_mask, 7);
}

TEST_F(Stock, WhatHangsStaysPinnedUntilItsCoreHasDoneAnother) {
  machine.clock_ns = kSecond;
  driver.fate = [this, hang = std::make_shared<bool>(true)](std::uint32_t) -> FakeRknpu::Fate {
    if (!std::exchange(*hang, false)) return {};
    machine.clock_ns += 18 * kSecond;
    return {-ETIMEDOUT, true};
  };
  const auto backend = open(Mode::wait, 4);
  {
    const Rig rig(backend, 2);
    const auto chain = rig.create();
    const Completion done = run(*backend, chain);
    EXPECT_EQ(done.error, Errc::hung);
    EXPECT_EQ(done.core, 2);
    EXPECT_THAT(done.detail, HasSubstr("18000 ms"));
    backend->destroy_chain(chain);
    for (const auto id : {rig.a().id, rig.b().id, rig.c().id}) backend->destroy_buffer(id);
  }
  EXPECT_EQ(driver.buffers(), 5);
  const Rig other(backend, 1);
  const auto chain = other.create();
  EXPECT_EQ(driver.buffers(), 10);
  machine.clock_ns += kSecond;  // the driver's reset is over
  EXPECT_FALSE(run(*backend, chain).error);
  EXPECT_EQ(driver.buffers(), 5);
  EXPECT_EQ(backend->info().usable_mask, 4);
}

TEST_F(Stock, ClosingLeavesWhatMayStillRun) {
  plan({{-EINVAL, true}, {-EINVAL, true}});
  {
    const auto backend = open(Mode::wait, 1);
    const Rig rig(backend, 2);
    const auto chain = rig.create();
    EXPECT_EQ(run(*backend, chain).error, Errc::io);
    backend->destroy_chain(chain);
    for (const auto id : {rig.a().id, rig.b().id, rig.c().id}) backend->destroy_buffer(id);
  }
  EXPECT_EQ(driver.buffers(), 5);
  EXPECT_EQ(machine.open_descriptors, 1);
}

TEST_F(Stock, ACoreThatKeepsHangingIsSetAside) {
  machine.clock_ns = kSecond;
  driver.fate = [this](std::uint32_t) -> FakeRknpu::Fate {
    machine.clock_ns += 18 * kSecond;
    return {-ETIMEDOUT, true};
  };
  const Rig rig(open(), 1);
  const auto chain = rig.create();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run(rig.backend(), chain, 1).error, Errc::hung);
    machine.clock_ns += kSecond;  // the driver's reset is over
  }
  EXPECT_EQ(rig.backend().info().usable_mask, 7);
  const Completion done = run(rig.backend(), chain, 1);
  EXPECT_THAT(done.detail, HasSubstr("set aside"));
  EXPECT_EQ(rig.backend().info().usable_mask, 6);
}

TEST_F(Stock, NothingIsSubmittedIntoAnotherDomain) {
  driver.domain = 3;
  const Rig rig(open(), 1);
  const Completion done = run(rig.backend(), rig.create());
  EXPECT_EQ(done.error, Errc::io);
  EXPECT_THAT(done.detail, HasSubstr("domain 3"));
  EXPECT_THAT(driver.submits(), IsEmpty());
  EXPECT_EQ(rig.backend().info().usable_mask, 7);
  driver.domain = -EINVAL;  // a driver that knows of none
  EXPECT_FALSE(run(rig.backend(), rig.create()).error);
}

TEST_F(Stock, ADriverThatGoes) {
  plan({{-ENODEV, false}});
  const Rig rig(open(), 1);
  EXPECT_EQ(run(rig.backend(), rig.create(), 2).error, Errc::no_device);
}

// ---- the reset window --------------------------------------------------------------

TEST_F(Stock, NothingIsDispatchedIntoAReset) {
  machine.clock_ns = kSecond;
  Gate gate;
  driver.fate = [keeper = gate.keeper()](std::uint32_t core) {
    EXPECT_TRUE(core != 0 || keeper(core));
    return FakeRknpu::Fate{};
  };
  const auto backend = open();
  const Rig slow(backend, 1);
  const Rig quick(backend, 1);
  const auto held = submit(*backend, slow.create(), 1);
  ASSERT_TRUE(gate.await(1));
  const auto chain = quick.create();
  const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::milliseconds(80); };

  for (const std::uint64_t k : {1, 2, 3}) {
    machine.clock_ns = kSecond + k * 6 * kSecond - 100'000'000;
    EXPECT_FALSE(run(*backend, chain, 2).error) << "before the window";
    machine.clock_ns = kSecond + k * 6 * kSecond - 1'000'000;
    const auto waits = submit(*backend, chain, 2);
    EXPECT_FALSE(backend->wait(waits, soon())) << "shortly before " << k;
    // Timers are late by up to an eighth, and then comes the reset.
    machine.clock_ns = kSecond + k * 6 * kSecond * 9 / 8 + 299'000'000;
    EXPECT_FALSE(backend->wait(waits, soon())) << "a reset may be going on";
    machine.clock_ns = kSecond + k * 6 * kSecond * 9 / 8 + 301'000'000;
    EXPECT_FALSE(finish(*backend, waits).error);
  }

  // When the oldest returns there is nothing to wait for.
  machine.clock_ns = kSecond + 24 * kSecond - 1'000'000;
  const auto waits = submit(*backend, chain, 2);
  EXPECT_FALSE(backend->wait(waits, soon()));
  gate.open();
  EXPECT_FALSE(finish(*backend, held).error);
  EXPECT_FALSE(finish(*backend, waits).error);
}

// ---- the self-test ------------------------------------------------------------

TEST_F(Stock, TestsItself) {
  const auto backend = open(Mode::link);
  SelfTestOptions options;
  options.brief = true;
  const SelfTestReport report = self_test(Device(backend), options);
  ASSERT_THAT(report.results, SizeIs(12));
  for (const SelfTestResult& result : report.results) {
    EXPECT_EQ(result.verdict, Verdict::works) << name(result.mode) << result.core;
  }
  EXPECT_EQ(report.chosen, Mode::wait);
  EXPECT_EQ(backend->info().mode, Mode::link) << "nothing of the device is changed";
}

TEST_F(Stock, AHungTrialTakesNoCoreOut) {
  const auto backend = open();
  driver.fate = [this](std::uint32_t core) -> FakeRknpu::Fate {
    if (core != 1) return {};
    machine.clock_step_ns = kSecond / 5;
    machine.clock_ns = machine.system()->now_ns() + 7 * kSecond;
    return {-ETIMEDOUT, true};
  };
  SelfTestOptions options;
  options.brief = true;
  const SelfTestReport report = self_test(Device(backend), options);
  for (const SelfTestResult& result : report.results) {
    EXPECT_EQ(result.verdict, result.core == 1 ? Verdict::timeout : Verdict::works);
  }
  EXPECT_EQ(report.failed_cores, 2);
  EXPECT_EQ(backend->info().usable_mask, 7);
}

TEST_F(Stock, TakesTheModeThatWasProven) {
  OpenOptions options;
  const auto mode = [&] { return make_stock_backend(options, machine.system())->info(); };
  EXPECT_EQ(mode().mode, Mode::link);
  EXPECT_FALSE(mode().ordered);
  machine.contents["/var/lib/rkchain/selftest.json"] =
      ProvenModes({Mode::wait, Mode::single}, "0.9.8", "").text();
  EXPECT_EQ(mode().mode, Mode::wait);
  EXPECT_TRUE(mode().ordered);
  options.mode = Mode::wait41;
  EXPECT_EQ(mode().mode, Mode::wait41);
  EXPECT_FALSE(mode().ordered);
}

}  // namespace
}  // namespace rkchain::test

// SPDX-License-Identifier: MIT
// The back end over the module: what is asked of it, and what its answers become.
#include "backend/kmod_backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "backend/kmod_device.hpp"
#include "backend_rig.hpp"
#include "fake_module.hpp"
#include "rkchain/selftest.hpp"

namespace rkchain::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

class Kmod : public testing::Test {
 protected:
  std::shared_ptr<Backend> open(OpenOptions options = {}) {
    return make_kmod_backend(options, machine.system());
  }

  FakeSystem machine;
  FakeModule module{machine};
};

TEST_F(Kmod, SaysWhatItIs) {
  OpenOptions options;
  options.mode = Mode::wait;  // the module has its own
  options.core_mask = 6;
  module.query.cores_usable = 3;
  const auto backend = open(options);
  DeviceInfo info = backend->info();
  EXPECT_EQ(info.backend, BackendKind::kmod);
  EXPECT_EQ(info.driver, "rkchain (rknpu 0.9.8)");
  EXPECT_EQ(info.mode, Mode::link);
  EXPECT_EQ(info.cores, 3);
  EXPECT_EQ(info.usable_mask, 2);
  EXPECT_TRUE(info.ordered);
  module.query.capabilities = RKCHAIN_CAP_CHAINS;
  EXPECT_FALSE(backend->info().ordered);
}

TEST_F(Kmod, RunsChains) {
  const Rig rig(open(), 5);
  const Completion done = run(rig.backend(), rig.create());
  EXPECT_FALSE(done.error) << done.detail;
  EXPECT_EQ(rig.output(), rig.expected());
  EXPECT_EQ(done.started_ns - done.queued_ns, 10);
  EXPECT_GT(done.done_ns, done.started_ns);

  ASSERT_THAT(module.uses, SizeIs(3));
  EXPECT_EQ(module.uses[0].flags, RKCHAIN_USE_READ | RKCHAIN_USE_SYNC);
  EXPECT_EQ(module.uses[1].flags, RKCHAIN_USE_READ);
  EXPECT_EQ(module.uses[2].flags, RKCHAIN_USE_WRITE | RKCHAIN_USE_SYNC);

  const DeviceStats stats = rig.backend().stats();
  EXPECT_EQ(stats.submits, 1);
  EXPECT_EQ(stats.interrupts, 1);
  EXPECT_EQ(stats.tasks, 5) << "link";
  EXPECT_EQ(stats.blocks, 5);
  EXPECT_EQ(stats.core[done.core].chains, 1);
  EXPECT_EQ(stats.core[done.core].macs, 5000);
  EXPECT_EQ(stats.core[done.core].busy_ns, 777);
}

TEST_F(Kmod, ClosesWhatItHasMapped) {
  {
    const auto backend = open();
    const BackendBuffer buffer = backend->create_buffer(5000);
    EXPECT_EQ(buffer.size, 5000);
    EXPECT_EQ(machine.mappings, 1);
    EXPECT_EQ(machine.open_descriptors, 0) << "the node, less one dma-buf";
    backend->destroy_buffer(buffer.id);
    EXPECT_EQ(machine.mappings, 0);
    EXPECT_EQ(module.buffers(), 0);
    EXPECT_EQ(error_of([&] { backend->destroy_buffer(buffer.id); }).code(), Errc::invalid_argument);
    machine.map = [](int, std::size_t, std::uint64_t, std::byte*&) { return -ENOMEM; };
    EXPECT_EQ(error_of([&] { backend->create_buffer(1); }).code(), Errc::out_of_memory);
    EXPECT_EQ(module.buffers(), 0) << "given back";
  }
  EXPECT_EQ(error_of([&] { open()->create_buffer(0); }).code(), Errc::invalid_argument);
}

TEST_F(Kmod, AChainHoldsItsMappings) {
  const Rig rig(open(), 2);
  const auto chain = rig.create();
  for (const auto id : {rig.a().id, rig.b().id, rig.c().id}) rig.backend().destroy_buffer(id);
  EXPECT_EQ(machine.mappings, 3);
  EXPECT_FALSE(run(rig.backend(), chain).error);
  EXPECT_EQ(rig.output(), rig.expected());
  rig.backend().destroy_chain(chain);
  EXPECT_EQ(machine.mappings, 0);
}

TEST_F(Kmod, SyncsRanges) {
  const auto backend = open();
  const BackendBuffer buffer = backend->create_buffer(100);
  backend->sync_buffer(buffer.id, 10, 20, Direction::from_device);
  backend->sync_buffer(buffer.id, 100, 0, Direction::to_device);
  ASSERT_THAT(module.syncs, SizeIs(1));
  EXPECT_EQ(module.syncs[0].direction, RKCHAIN_SYNC_FROM_DEVICE);
  EXPECT_EQ(module.syncs[0].offset, 10);
  EXPECT_EQ(module.syncs[0].size, 20);
  EXPECT_EQ(error_of([&] { backend->sync_buffer(buffer.id, 90, 11, Direction::to_device); }).code(),
            Errc::invalid_argument);
}

TEST_F(Kmod, RefusalsAreThoseOfTheModel) {
  const Rig rig(open(), 3);
  const Rig same(open_model(), 3);
  auto words = rig.words();
  words[110 + 5] ^= std::uint64_t{1} << 20;
  const Error error = error_of([&] { (void)rig.create(words, rig.uses()); });
  const Error model = error_of([&] {
    auto other = same.words();
    other[110 + 5] ^= std::uint64_t{1} << 20;
    (void)same.create(other, same.uses());
  });
  EXPECT_EQ(error.code(), Errc::check_failed);
  EXPECT_EQ(error.reason(), model.reason());
  EXPECT_EQ(error.block(), 1);
  EXPECT_EQ(error.word(), model.word());
  EXPECT_EQ(std::string(error.what()).substr(0, 20), std::string(model.what()).substr(0, 20));
}

struct Said {
  int error;
  std::uint32_t reason;
  Errc code;
  const char* text;
};

class KmodAnswers : public Kmod, public testing::WithParamInterface<Said> {};

TEST_P(KmodAnswers, BecomeErrors) {
  rkchain_report report{};
  report.reason = GetParam().reason;
  report.value = 12;
  report.limit = 34;
  const Error error = kmod_error("chain", GetParam().error, report);
  EXPECT_EQ(error.code(), GetParam().code) << error.what();
  EXPECT_THAT(error.what(), AllOf(HasSubstr("chain: "), HasSubstr(GetParam().text)));
}

INSTANTIATE_TEST_SUITE_P(
    All, KmodAnswers,
    testing::Values(
        Said{-EINVAL, RKCHAIN_REASON_K_ALIGN, Errc::check_failed, "block 0"},
        Said{-EINVAL, RKCHAIN_REASON_FLAGS, Errc::unsupported, "older than this library"},
        Said{-EPERM, RKCHAIN_REASON_PRIVILEGE, Errc::permission, "root"},
        Said{-EINVAL, RKCHAIN_REASON_SIZE, Errc::invalid_argument, "found 12, the limit is 34"},
        Said{-ENODEV, RKCHAIN_REASON_NO_PROVIDER, Errc::no_device, "rkchain provide"},
        Said{-ENODEV, RKCHAIN_REASON_DEVICE_GONE, Errc::no_device, "has gone"},
        Said{-EOPNOTSUPP, RKCHAIN_REASON_WRONG_CHIP, Errc::no_device, "another chip"},
        Said{-EBUSY, RKCHAIN_REASON_PROVIDED, Errc::busy, "--release"},
        Said{-EDQUOT, RKCHAIN_REASON_QUOTA_BYTES, Errc::out_of_memory, "quota of device memory"},
        Said{-EDQUOT, RKCHAIN_REASON_QUOTA_CHAINS, Errc::out_of_memory, "quota of chains"},
        Said{-EDQUOT, RKCHAIN_REASON_QUOTA_BLOCKS, Errc::out_of_memory, "quota of blocks"},
        Said{-E2BIG, RKCHAIN_REASON_TOO_COSTLY, Errc::check_failed, "12 ns"},
        Said{-EAGAIN, RKCHAIN_REASON_QUEUE_FULL, Errc::queue_full, "queue"},
        Said{-EINVAL, RKCHAIN_REASON_BUFFER_ID, Errc::invalid_argument, "id 12"},
        Said{-EINVAL, RKCHAIN_REASON_CORE_MASK, Errc::invalid_argument, "0xc"},
        Said{-EINVAL, RKCHAIN_REASON_IOVA, Errc::out_of_memory, "4 GiB"},
        Said{-EINVAL, 999, Errc::io, "reason 999"}, Said{-ENOTTY, 0, Errc::unsupported, "older"},
        Said{-E2BIG, 0, Errc::unsupported, "older"}, Said{-EDQUOT, 0, Errc::out_of_memory, "quota"},
        Said{-EAGAIN, 0, Errc::queue_full, "full"}, Said{-ENOMEM, 0, Errc::out_of_memory, "memory"},
        Said{-ENODEV, 0, Errc::no_device, "NPU"}, Said{-EIO, 0, Errc::io, "error"}));

TEST_F(Kmod, FailuresOfCallsAreThrown) {
  const Rig rig(open(), 1);
  const auto chain = rig.create();
  module.answers[RKCHAIN_NR_BUF_CREATE] = {-EDQUOT, {RKCHAIN_REASON_QUOTA_BYTES, 0, 0, 0, 9, 8}};
  module.answers[RKCHAIN_NR_CHAIN_CREATE] = {-ENODEV, {RKCHAIN_REASON_NO_PROVIDER, 0, 0, 0, 0, 0}};
  module.answers[RKCHAIN_NR_SUBMIT] = {-EAGAIN, {RKCHAIN_REASON_QUEUE_FULL, 0, 0, 0, 5, 5}};
  EXPECT_EQ(error_of([&] { rig.backend().create_buffer(1); }).code(), Errc::out_of_memory);
  EXPECT_EQ(error_of([&] { (void)rig.create(); }).code(), Errc::no_device);
  EXPECT_EQ(error_of([&] { submit(rig.backend(), chain); }).code(), Errc::queue_full);
  EXPECT_EQ(error_of([&] { submit(rig.backend(), 4711); }).code(), Errc::invalid_argument);
}

struct Ended {
  int status;
  std::uint32_t core;
  Errc code;
  const char* text;
};

class KmodCompletions : public Kmod, public testing::WithParamInterface<Ended> {};

TEST_P(KmodCompletions, BecomeErrors) {
  const Rig rig(open(), 2);
  rkchain_completion done{};
  done.sequence = 1;
  done.status = GetParam().status;
  done.core = GetParam().core;
  done.queued_ns = 1;
  done.started_ns = done.core == RKCHAIN_NO_CORE ? 0 : 2;
  done.done_ns = 3;
  module.outcomes[1] = done;
  const Completion completion = run(rig.backend(), rig.create());
  EXPECT_EQ(completion.error, GetParam().code);
  EXPECT_THAT(completion.detail, HasSubstr(GetParam().text));
  const bool started = done.core != RKCHAIN_NO_CORE;
  EXPECT_EQ(completion.core, started ? done.core : 0);
  EXPECT_EQ(completion.started_ns, started ? 2 : 3);
  EXPECT_EQ(rig.backend().stats().blocks, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, KmodCompletions,
    testing::Values(Ended{-ETIME, RKCHAIN_NO_CORE, Errc::timed_out, "before the chain had started"},
                    Ended{-ETIMEDOUT, 2, Errc::hung, "core 2 did not finish"},
                    Ended{-EIO, 1, Errc::io, "core 1 was taken down by a reset"},
                    Ended{-ECANCELED, RKCHAIN_NO_CORE, Errc::cancelled, "has failed"},
                    Ended{-ENODEV, RKCHAIN_NO_CORE, Errc::no_device, "no core is left"}));

TEST_F(Kmod, CoresOfTheDeviceAndOfTheSubmitBothCount) {
  OpenOptions options;
  options.core_mask = 6;
  const Rig rig(open(options), 1);
  const auto chain = rig.create();
  for (const std::uint32_t mask : {0U, 3U, 7U}) {
    EXPECT_FALSE(run(rig.backend(), chain, mask).error);
    EXPECT_EQ(module.submits.back().core_mask, mask == 0 ? 6 : mask & 6);
  }
  EXPECT_EQ(error_of([&] { submit(rig.backend(), chain, 1); }).code(), Errc::invalid_argument);
  options.core_mask = 8;
  EXPECT_EQ(error_of([&] { open(options); }).code(), Errc::invalid_argument);
}

TEST_F(Kmod, FollowersNeedTheCapability) {
  const Rig rig(open(), 1);
  const auto chain = rig.create();
  const auto first = submit(rig.backend(), chain);
  const auto second = submit(rig.backend(), chain, 0, first);
  EXPECT_EQ(module.submits[1].flags, RKCHAIN_SUBMIT_AFTER);
  EXPECT_EQ(module.submits[1].after, first);
  EXPECT_FALSE(finish(rig.backend(), second).error);
  EXPECT_FALSE(finish(rig.backend(), first).error);
  EXPECT_EQ(error_of([&] { submit(rig.backend(), chain, 0, 99); }).code(), Errc::invalid_argument);

  module.query.capabilities &= ~std::uint64_t{RKCHAIN_CAP_AFTER};
  const Rig old(open(), 1);
  const auto lone = old.create();
  const auto sequence = submit(old.backend(), lone);
  const Error error = error_of([&] { submit(old.backend(), lone, 0, sequence); });
  EXPECT_EQ(error.code(), Errc::unsupported);
  EXPECT_THAT(error.what(), HasSubstr("capability AFTER"));
}

TEST_F(Kmod, EachCompletionIsHandedOutOnce) {
  const Rig rig(open(), 1);
  const auto chain = rig.create();
  EXPECT_THAT(error_of([&] { finish(rig.backend(), 1); }).what(), HasSubstr("not been submitted"));
  const auto sequence = submit(rig.backend(), chain);
  EXPECT_FALSE(finish(rig.backend(), sequence).error);
  EXPECT_THAT(error_of([&] { finish(rig.backend(), sequence); }).what(), HasSubstr("before"));
}

TEST(KmodQueue, WhatHasEndedMakesRoom) {
  Gate gate;
  FakeSystem machine;
  FakeModule module(machine,
                    {[keeper = gate.keeper()](std::uint32_t core) { (void)keeper(core); }});
  OpenOptions options;
  options.queue_depth = 4;
  const auto backend = make_kmod_backend(options, machine.system());
  const Rig rig(backend, 1);
  const auto chain = rig.create();
  std::vector<std::uint64_t> sequences;
  for (int i = 0; i < 4; ++i) sequences.push_back(submit(*backend, chain));
  EXPECT_EQ(error_of([&] { submit(*backend, chain); }).code(), Errc::queue_full);
  EXPECT_FALSE(backend->wait(sequences[0], std::chrono::steady_clock::now()));
  EXPECT_FALSE(backend->wait(sequences[0], {}));

  // One thread waits for the last; the others are nobody's, and end.
  std::thread waiter([&] { EXPECT_FALSE(finish(*backend, sequences[3]).error); });
  gate.open();
  waiter.join();
  for (int i = 0; i < 3; ++i) sequences.push_back(submit(*backend, chain));
  const std::vector<std::uint64_t> many(5, chain);
  EXPECT_EQ(error_of([&] { backend->submit({many, 0, std::nullopt}); }).code(), Errc::queue_full);
  sequences.erase(sequences.begin() + 3);
  for (const auto sequence : sequences) EXPECT_FALSE(finish(*backend, sequence).error);
  options.queue_depth = 0;
  EXPECT_EQ(error_of([&] { make_kmod_backend(options, machine.system()); }).code(),
            Errc::invalid_argument);
}

TEST(KmodQueue, AFailureThatWasTakenInStillCancelsFollowers) {
  FakeSystem machine;
  FakeModule module(machine);
  module.query.max_submit = 3;
  OpenOptions options;
  options.queue_depth = 4;
  const auto backend = make_kmod_backend(options, machine.system());
  const Rig rig(backend, 1);
  const auto chain = rig.create();
  rkchain_completion failed{};
  failed.status = -EIO;
  failed.core = 1;
  failed.started_ns = 1;
  module.outcomes[2] = failed;
  for (int i = 0; i < 4; ++i) submit(*backend, chain);
  EXPECT_FALSE(finish(*backend, 4).error);
  const std::vector<std::uint64_t> two(2, chain);
  EXPECT_EQ(backend->submit({two, 0, std::nullopt}), 5) << "takes in 1, 2 and 3";
  EXPECT_EQ(backend->submit({two, 0, 3}), 7) << "the module does not hear of these";
  EXPECT_THAT(module.submits, SizeIs(5));
  for (const std::uint64_t sequence : {7, 8}) {
    const Completion done = finish(*backend, sequence);
    EXPECT_EQ(done.sequence, sequence);
    EXPECT_EQ(done.error, Errc::cancelled);
    EXPECT_EQ(done.started_ns, done.done_ns);
  }
  // Up to the one before, nothing has failed; and after the failure has been told, all is new.
  EXPECT_EQ(backend->submit({{&chain, 1}, 0, 1}), 9);
  EXPECT_EQ(module.submits.back().flags, 0) << "1 has ended";
  EXPECT_EQ(finish(*backend, 2).error, Errc::io);
  EXPECT_EQ(backend->submit({{&chain, 1}, 0, 6}), 10);
  EXPECT_EQ(module.submits.back().flags, RKCHAIN_SUBMIT_AFTER);
  EXPECT_EQ(module.submits.back().after, 6);
  EXPECT_FALSE(finish(*backend, 9).error);
  EXPECT_FALSE(finish(*backend, 10).error);
  // More than the module takes at once is for the library to take apart.
  const std::vector<std::uint64_t> four(4, chain);
  EXPECT_EQ(error_of([&] { backend->submit({four, 0, std::nullopt}); }).code(), Errc::queue_full);
}

/// Has the module answer SELFTEST; what it was asked is in @p asked.
void answer_selftest(FakeSystem& machine, rkchain_selftest& asked, int error,
                     std::uint32_t reason) {
  machine.ioctl = [&asked, error, reason, inner = machine.ioctl](int fd, unsigned long command,
                                                                 void* argument) {
    if (_IOC_NR(command) != RKCHAIN_NR_SELFTEST) return inner(fd, command, argument);
    auto& call = *static_cast<rkchain_selftest*>(argument);
    asked = call;
    call.report.reason = reason;
    if (error != 0) return error;
    auto* const results = reinterpret_cast<rkchain_selftest_result*>(call.results);
    for (std::uint32_t i = 0; i < call.count; ++i) {
      results[i] = {};
      results[i].verdict = i == 1 ? RKCHAIN_VERDICT_TIMEOUT : RKCHAIN_VERDICT_WORKS;
      results[i].status = i == 1 ? -ETIMEDOUT : 0;
      results[i].blocks = 9;
      results[i].block = i == 1 ? 3 : RKCHAIN_NO_WORD;
      results[i].hw_ns = 100 + i;
      results[i].expected_ns = 200;
    }
    return 0;
  };
}

TEST_F(Kmod, HasTheModuleTestItself) {
  rkchain_selftest asked{};
  answer_selftest(machine, asked, 0, 0);
  SelfTestOptions options;
  options.modes = {Mode::single, Mode::wait};
  options.core_mask = 5;
  options.shared = true;
  const SelfTestReport report = self_test(Device(open()), options);
  EXPECT_EQ(asked.modes, 1U << RKCHAIN_MODE_WAIT | 1U << RKCHAIN_MODE_SINGLE);
  EXPECT_EQ(asked.cores, 5);
  EXPECT_EQ(asked.flags, RKCHAIN_SELFTEST_SHARED);
  EXPECT_EQ(asked.count, 4);
  ASSERT_THAT(report.results, SizeIs(4));
  EXPECT_EQ(report.results[1].mode, Mode::wait);
  EXPECT_EQ(report.results[1].core, 2);
  EXPECT_EQ(report.results[1].verdict, Verdict::timeout);
  EXPECT_EQ(report.results[1].block, 3);
  EXPECT_FALSE(report.results[1].detail.empty());
  EXPECT_EQ(report.results[3].mode, Mode::single);
  EXPECT_EQ(report.results[3].hw_ns, 103);
  EXPECT_EQ(report.results[3].expected_ns, 200);
  EXPECT_EQ(report.results[3].block, std::nullopt);
  // Wait does not work on core 2, which works one by one.
  EXPECT_EQ(report.chosen, Mode::single);
  options = {};
  options.brief = true;
  (void)self_test(Device(open()), options);
  EXPECT_EQ(asked.flags, RKCHAIN_SELFTEST_SHORT);
  EXPECT_EQ(asked.count, 12);
}

TEST_F(Kmod, SaysWhyTheModuleDoesNotTestItself) {
  rkchain_selftest asked{};
  answer_selftest(machine, asked, -EBUSY, RKCHAIN_REASON_NOT_ALONE);
  const Error busy = error_of([&] { (void)self_test(Device(open())); });
  EXPECT_EQ(busy.code(), Errc::busy);
  EXPECT_THAT(busy.what(), HasSubstr("other programs"));
  answer_selftest(machine, asked, -EPERM, RKCHAIN_REASON_PRIVILEGE);
  EXPECT_EQ(error_of([&] { (void)self_test(Device(open())); }).code(), Errc::permission);
}

TEST(KmodNames, OfCapabilities) {
  EXPECT_EQ(capability_names(RKCHAIN_CAP_CHAINS | RKCHAIN_CAP_FEED_ON), "CHAINS, FEED_ON");
  EXPECT_EQ(capability_names(RKCHAIN_CAP_FAILURES | 1ULL << 40), "FAILURES, bit 40");
}

}  // namespace
}  // namespace rkchain::test

// SPDX-License-Identifier: MIT
// Streams and futures, on a software NPU whose cores a test can hold.
#include "rkchain/stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "backend/model_backend.hpp"
#include "src/buffer.hpp"
#include "src/chain.hpp"
#include "unit/gate.hpp"
#include "unit/matmul_reference.hpp"

namespace rkchain::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A chain of one small matmul with its operand and what it has to give.
struct Job {
  explicit Job(const Device& device, std::uint64_t seed = 1, std::uint32_t repeat = 1,
               Strategy strategy = Strategy::rotate)
      : a(random_i8(64, seed)),
        b(random_i8(64 * 96, seed + 1)),
        chain(device, {strategy, Layout::flat}) {
    const Weights w = Weights::pack(device, 64, 96, b);
    x = chain.input(Type::i8_i32, 1, 64);
    for (std::uint32_t i = 0; i < repeat; ++i) y = chain.matmul(x, w);
    chain.build();
    chain.write(x, a);
  }

  [[nodiscard]] bool right() const {
    std::vector<std::int32_t> c(96);
    chain.read(y, c);
    return c == product(a, b, {1, 64, 96});
  }

  std::vector<std::int8_t> a;
  std::vector<std::int8_t> b;
  Chain chain;
  Tensor x;
  Tensor y;
};

/// A chain of two matmuls of which the second reads what the first has computed.
struct TwoLevels {
  explicit TwoLevels(const Device& device, Strategy strategy)
      : a(random_i8(64, 71, -1, 1)),
        b(random_i8(64 * 96, 72, -1, 1)),
        d(random_i8(96 * 96, 73, -1, 1)),
        chain(device, {strategy, Layout::flat}) {
    x = chain.input(Type::i8_i8, 1, 64);
    y = chain.matmul(x, Weights::pack(device, 64, 96, b), Type::i8_i8);
    z = chain.matmul(y, Weights::pack(device, 96, 96, d));
    chain.build();
    chain.write(x, a);
  }

  [[nodiscard]] bool right() const {
    std::vector<std::int32_t> c(96);
    chain.read(z, c);
    return c == product(saturated(product(a, b, {1, 64, 96})), d, {1, 96, 96});
  }

  std::vector<std::int8_t> a;
  std::vector<std::int8_t> b;
  std::vector<std::int8_t> d;
  Chain chain;
  Tensor x;
  Tensor y;
  Tensor z;
};

class StreamTest : public ::testing::Test {
 protected:
  /// A device whose cores wait for the gate before they start a chain.
  Device gated(OpenOptions options = {}) {
    return Device(make_model_backend(options, {[keeper = gate_.keeper()](std::uint32_t core) {
                                       static_cast<void>(keeper(core));
                                     }}));
  }
  static Device open(const ModelOptions& model) {
    OpenOptions options;
    options.model = model;
    return Device(make_model_backend(options));
  }
  static Errc failure(Future future) {
    return thrown_by([&] { future.get(); }).code;
  }

  Gate gate_;
};

TEST_F(StreamTest, FutureGivesSegmentsWithCoresAndTimes) {
  const Device device = open({});
  Job job(device);
  Stream stream(device);
  const RunResult result = stream.submit(job.chain).get();
  ASSERT_EQ(result.segments.size(), 1U);
  EXPECT_LT(result.segments[0].core, 3U);
  EXPECT_GT(result.segments[0].done_ns, result.segments[0].started_ns);
  EXPECT_GE(result.segments[0].started_ns, result.segments[0].queued_ns);
  EXPECT_TRUE(job.right());
}

TEST_F(StreamTest, FutureIsGotOnce) {
  const Device device = open({});
  Job job(device);
  Stream stream(device);
  Future future = stream.submit(job.chain);
  future.get();
  EXPECT_EQ(thrown_by([&] { future.get(); }).code, Errc::invalid_argument);
  EXPECT_EQ(thrown_by([&] { static_cast<void>(future.ready()); }).code, Errc::invalid_argument);
}

TEST_F(StreamTest, WaitForEndsWithTheTimeOrTheRun) {
  const Device device = gated();
  Job job(device);
  Stream stream(device);
  Future future = stream.submit(job.chain);
  EXPECT_FALSE(future.ready());
  EXPECT_FALSE(future.wait_for(5ms));
  gate_.open();
  EXPECT_TRUE(future.wait_for(std::chrono::nanoseconds::max()));
  EXPECT_TRUE(future.ready());
  future.get();
}

TEST_F(StreamTest, AChainInFlightIsBusy) {
  const Device device = gated();
  Job job(device);
  Stream stream(device);
  Stream other(device);
  Future future = stream.submit(job.chain);
  std::vector<std::int32_t> out(96);
  for (const Thrown& thrown :
       {thrown_by([&] { stream.submit(job.chain); }), thrown_by([&] { other.submit(job.chain); }),
        thrown_by([&] { other.try_submit(job.chain); }),
        thrown_by([&] { job.chain.write(job.x, job.a); }),
        thrown_by([&] { job.chain.read(job.y, out); })}) {
    EXPECT_EQ(thrown.code, Errc::busy);
    EXPECT_THAT(thrown.text, HasSubstr("in flight"));
  }
  gate_.open();
  future.get();
  stream.submit(job.chain).get();
  EXPECT_TRUE(job.right());
}

TEST_F(StreamTest, AChainIsFreeWhenItsRunHasEndedThoughNobodyAsked) {
  const Device device = open({});
  Job job(device);
  Stream stream(device);
  for (int i = 0; i < 20; ++i) {
    Future future = stream.submit(job.chain);
    while (!future.ready()) std::this_thread::yield();
    // Not got: dropped.
  }
  EXPECT_TRUE(job.right());
}

TEST_F(StreamTest, DepthLimitsRunsInFlight) {
  const Device device = gated();
  Stream stream(device, {2});
  Job first(device);
  Job second(device);
  Job third(device);
  stream.submit(first.chain);
  ASSERT_TRUE(stream.try_submit(second.chain));
  EXPECT_FALSE(stream.try_submit(third.chain));
  gate_.open();
  stream.drain();
  EXPECT_TRUE(stream.try_submit(third.chain));
}

TEST_F(StreamTest, ARunThatOvertakesAnotherMakesRoom) {
  const Device device(make_model_backend({}, {[keeper = gate_.keeper()](std::uint32_t core) {
                                           if (core == 0) static_cast<void>(keeper(core));
                                         }}));
  Stream stream(device, {2});
  Job slow(device, 1, 1000);
  Job quick(device);
  Job third(device);
  stream.submit(slow.chain, {1});
  stream.submit(quick.chain, {2}).get();
  EXPECT_TRUE(stream.try_submit(third.chain));
  gate_.open();
}

TEST_F(StreamTest, SubmitWaitsForTheOldestRun) {
  const Device device = gated();
  Stream stream(device, {1});
  Job first(device);
  Job second(device);
  Future future = stream.submit(first.chain);
  auto later = std::async(std::launch::async, [&] { stream.submit(second.chain).get(); });
  EXPECT_EQ(later.wait_for(20ms), std::future_status::timeout);
  gate_.open();
  ASSERT_EQ(later.wait_for(kLimit), std::future_status::ready);
  later.get();
  EXPECT_TRUE(future.ready());
  EXPECT_TRUE(second.right());
}

TEST_F(StreamTest, AskingForARunThatWaitsForItsTurnDoesNotStartIt) {
  std::atomic<int> started = 0;
  const Device device(
      make_model_backend({}, {[&started, keeper = gate_.keeper()](std::uint32_t core) {
                           ++started;
                           static_cast<void>(keeper(core));
                         }}));
  Stream stream(device, {1});
  Job first(device);
  Job second(device);
  stream.submit(first.chain);
  auto later = std::async(std::launch::async, [&] { stream.submit(second.chain).get(); });
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(2ms);
    static_cast<void>(thrown_by([&] { second.chain.write(second.x, second.a); }));
  }
  EXPECT_EQ(started, 1);
  gate_.open();
  ASSERT_EQ(later.wait_for(kLimit), std::future_status::ready);
  later.get();
  EXPECT_TRUE(second.right());
}

TEST_F(StreamTest, AFullDeviceQueueHoldsBack) {
  OpenOptions options;
  options.core_mask = 1;
  options.queue_depth = 1;
  const Device device = gated(options);
  Stream stream(device);
  Job running(device);
  Job queued(device);
  Job refused(device);
  stream.submit(running.chain);
  ASSERT_TRUE(gate_.await(1));
  ASSERT_TRUE(stream.try_submit(queued.chain));
  EXPECT_FALSE(stream.try_submit(refused.chain));
  auto later = std::async(std::launch::async, [&] { stream.submit(refused.chain).get(); });
  EXPECT_EQ(later.wait_for(20ms), std::future_status::timeout);
  gate_.open();
  ASSERT_EQ(later.wait_for(kLimit), std::future_status::ready);
  later.get();
  EXPECT_TRUE(refused.right());
}

TEST_F(StreamTest, AnotherStreamsWorkMayFillTheQueue) {
  OpenOptions options;
  options.core_mask = 1;
  options.queue_depth = 1;
  const Device device = gated(options);
  Stream stream(device);
  Stream other(device);
  Job running(device);
  Job queued(device);
  Job waiting(device);
  stream.submit(running.chain);
  ASSERT_TRUE(gate_.await(1));
  stream.submit(queued.chain);
  EXPECT_FALSE(other.try_submit(waiting.chain));
  auto later = std::async(std::launch::async, [&] { other.submit(waiting.chain).get(); });
  EXPECT_EQ(later.wait_for(20ms), std::future_status::timeout);
  gate_.open();
  ASSERT_EQ(later.wait_for(kLimit), std::future_status::ready);
  later.get();
  EXPECT_TRUE(waiting.right());
}

TEST_F(StreamTest, ARunMayHaveMoreSegmentsThanTheQueueHolds) {
  OpenOptions options;
  options.queue_depth = 1;
  options.core_mask = 1;
  const Device device(make_model_backend(options));
  Job job(device, 1, 5000);
  ASSERT_EQ(job.chain.plan().segments, 5U);
  Stream stream(device);
  const RunResult result = stream.submit(job.chain).get();
  EXPECT_EQ(result.segments.size(), 5U);
  EXPECT_TRUE(job.right());
}

TEST_F(StreamTest, LevelsWaitForRoomInTheQueue) {
  OpenOptions options;
  options.queue_depth = 1;
  const Device device(make_model_backend(options));
  TwoLevels job(device, Strategy::split);
  Stream stream(device);
  for (int i = 0; i < 10; ++i) {
    stream.submit(job.chain).get();
    ASSERT_TRUE(job.right());
  }
}

TEST_F(StreamTest, DroppedFuturesAndChainsEndByThemselves) {
  const Device device = gated();
  std::weak_ptr<Chain::Impl> alive;
  {
    Stream stream(device);
    {
      Job job(device);
      alive = job.chain.impl();
      static_cast<void>(stream.submit(job.chain));
    }
    EXPECT_FALSE(alive.expired()) << "the NPU may still write";
    gate_.open();
  }
  EXPECT_TRUE(alive.expired());
}

TEST_F(StreamTest, TheEndOfAStreamWaitsForItsRuns) {
  const Device device = gated();
  Job job(device);
  std::optional<Stream> stream(device);
  Future future = stream->submit(job.chain);
  auto ending = std::async(std::launch::async, [&] { stream.reset(); });
  EXPECT_EQ(ending.wait_for(20ms), std::future_status::timeout);
  gate_.open();
  ASSERT_EQ(ending.wait_for(kLimit), std::future_status::ready);
  EXPECT_TRUE(future.ready());
}

TEST_F(StreamTest, AFutureOutlivesItsStream) {
  const Device device = open({});
  Job job(device);
  std::optional<Stream> stream(device);
  Future future = stream->submit(job.chain);
  stream.reset();
  EXPECT_TRUE(future.ready());
  EXPECT_EQ(future.get().segments.size(), 1U);
}

TEST_F(StreamTest, OrderedRunsFollowEachOther) {
  const Device device = gated();
  Stream stream(device);
  Job first(device);
  Job second(device);
  Job third(device);
  Future f1 = stream.submit(first.chain);
  Future f2 = stream.submit(second.chain, {0, true});
  Future f3 = stream.submit(third.chain, {0, true});
  gate_.open();
  const auto s1 = f1.get().segments[0];
  const auto s2 = f2.get().segments[0];
  const auto s3 = f3.get().segments[0];
  EXPECT_GE(s2.started_ns, s1.done_ns);
  EXPECT_GE(s3.started_ns, s2.done_ns);
}

TEST_F(StreamTest, RunsRotateOverTheCores) {
  const Device device = gated();
  Stream stream(device);
  Job first(device);
  Job second(device);
  Job third(device);
  Future f1 = stream.submit(first.chain);
  Future f2 = stream.submit(second.chain);
  Future f3 = stream.submit(third.chain);
  gate_.open();
  const std::uint32_t cores = 1U << f1.get().segments[0].core | 1U << f2.get().segments[0].core |
                              1U << f3.get().segments[0].core;
  EXPECT_EQ(cores, 7U);
}

TEST_F(StreamTest, CoreMaskRestrictsEveryStrategy) {
  const Device device = open({});
  for (const Strategy strategy : {Strategy::rotate, Strategy::split, Strategy::fan_out}) {
    Job job(device, 1, 6, strategy);
    Stream stream(device);
    for (const SegmentResult& segment : stream.submit(job.chain, {4}).get().segments) {
      EXPECT_EQ(segment.core, 2U) << name(strategy);
    }
    EXPECT_TRUE(job.right());
  }
}

TEST_F(StreamTest, CoreMasksWithoutUsableCoresAreRefused) {
  OpenOptions options;
  options.core_mask = 3;
  const Device device(make_model_backend(options));
  for (const Strategy strategy : {Strategy::rotate, Strategy::split}) {
    Job job(device, 1, 1, strategy);
    Stream stream(device);
    const Thrown thrown = thrown_by([&] { stream.submit(job.chain, {4}); });
    EXPECT_EQ(thrown.code, Errc::invalid_argument);
    EXPECT_THAT(thrown.text, AllOf(HasSubstr("core_mask is 0x4"), HasSubstr("0x3")));
    stream.submit(job.chain, {2}).get();  // and the chain is not held to be in flight
  }
}

TEST_F(StreamTest, ChainsOfAnotherDeviceAreRefused) {
  const Device device = open({});
  const Device other = open({});
  Job job(device);
  Stream stream(other);
  const Thrown thrown = thrown_by([&] { stream.submit(job.chain); });
  EXPECT_EQ(thrown.code, Errc::invalid_argument);
  EXPECT_THAT(thrown.text, HasSubstr("another device"));
}

TEST_F(StreamTest, DepthZeroIsRefused) {
  const Device device = open({});
  const Thrown thrown = thrown_by([&] { Stream(device, {0}); });
  EXPECT_EQ(thrown.code, Errc::invalid_argument);
  EXPECT_THAT(thrown.text, HasSubstr("depth is 0"));
}

TEST_F(StreamTest, ManyThreadsShareOneStream) {
  const Device device = open({});
  Stream stream(device, {3});
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Job job(device, 100 + t);
      for (int i = 0; i < 25; ++i) {
        stream.submit(job.chain).get();
        right += job.right() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 100);
}

TEST_F(StreamTest, ManyThreadsWaitForOneRun) {
  const Device device = gated();
  Job job(device);
  Stream stream(device);
  Future future = stream.submit(job.chain);
  std::vector<std::future<bool>> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(std::async(std::launch::async, [&] { return future.wait_for(kLimit); }));
  }
  auto draining = std::async(std::launch::async, [&] { stream.drain(); });
  std::this_thread::sleep_for(5ms);
  gate_.open();
  for (auto& thread : waiting) EXPECT_TRUE(thread.get());
  draining.get();
  future.get();
}

// ---- failures ----

TEST_F(StreamTest, EarlyCompletionIsReported) {
  ModelOptions model;
  model.early = true;
  const Device device = open(model);
  Job job(device, 1, 3);
  Stream stream(device);
  const Thrown thrown = thrown_by([&] { stream.submit(job.chain).get(); });
  EXPECT_EQ(thrown.code, Errc::early_completion);
  EXPECT_THAT(thrown.text,
              AllOf(HasSubstr("segment 1 of 1"), HasSubstr("3 blocks of matmuls 0 to 2"),
                    HasSubstr("on core"), HasSubstr("1 of 3 blocks")));
}

TEST_F(StreamTest, ADroppedDispatchIsReportedAndTheChainRunsAgain) {
  ModelOptions model;
  model.drop_every = 2;
  const Device device = open(model);
  Job job(device);
  Stream stream(device);
  for (int i = 0; i < 3; ++i) {
    stream.submit(job.chain).get();
    EXPECT_TRUE(job.right());
    const Thrown thrown = thrown_by([&] { stream.submit(job.chain).get(); });
    EXPECT_EQ(thrown.code, Errc::dropped_dispatch);
    EXPECT_THAT(thrown.text, HasSubstr("never started"));
  }
}

TEST_F(StreamTest, AStuckCoreIsReportedAndTheOthersGoOn) {
  ModelOptions model;
  model.stuck_cores = 1;
  const Device device = open(model);
  Job job(device);
  Stream stream(device);
  const Thrown thrown = thrown_by([&] { stream.submit(job.chain, {1}).get(); });
  EXPECT_EQ(thrown.code, Errc::hung);
  EXPECT_THAT(thrown.text, AllOf(HasSubstr("hung"), HasSubstr("core 0")));
  EXPECT_EQ(device.info().usable_mask, 6U);
  for (int i = 0; i < 3; ++i) stream.submit(job.chain).get();
  EXPECT_TRUE(job.right());
}

TEST_F(StreamTest, PinnedChainsMoveToTheCoresThatAreLeft) {
  ModelOptions model;
  model.stuck_cores = 2;
  const Device device = open(model);
  Job job(device, 1, 6, Strategy::split);
  Stream stream(device);
  EXPECT_EQ(failure(stream.submit(job.chain)), Errc::hung);
  for (const SegmentResult& segment : stream.submit(job.chain).get().segments) {
    EXPECT_NE(segment.core, 1U);
  }
  EXPECT_TRUE(job.right());
}

TEST_F(StreamTest, NoCoreLeftIsReported) {
  ModelOptions model;
  model.stuck_cores = 7;
  const Device device = open(model);
  Stream stream(device);
  Job job(device);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(failure(stream.submit(job.chain)), Errc::hung);
  EXPECT_EQ(thrown_by([&] { stream.submit(job.chain); }).code, Errc::no_device);
}

TEST_F(StreamTest, ADmaErrorIsReported) {
  const Device device = open({});
  Job job(device);
  Stream stream(device);
  model_unmap(device.backend(), job.chain.impl()->arenas[0].impl()->memory.id);
  const Thrown thrown = thrown_by([&] { stream.submit(job.chain).get(); });
  EXPECT_EQ(thrown.code, Errc::dma_error);
  EXPECT_THAT(thrown.text, AllOf(HasSubstr("block 0"), HasSubstr("feature read")));
  const Thrown read = thrown_by([&] { static_cast<void>(job.right()); });
  EXPECT_EQ(read.code, Errc::invalid_argument);
  EXPECT_THAT(read.text, HasSubstr("the last run of the chain failed"));
}

TEST_F(StreamTest, TheFirstFailureIsReportedNotWhatItCancelled) {
  const Device device = open({});
  TwoLevels job(device, Strategy::split);
  Stream stream(device);
  model_unmap(device.backend(), job.chain.impl()->arenas[0].impl()->memory.id);
  const Thrown thrown = thrown_by([&] { stream.submit(job.chain).get(); });
  EXPECT_EQ(thrown.code, Errc::dma_error);
  EXPECT_THAT(thrown.text, HasSubstr("segment 1 of"));
}

TEST_F(StreamTest, AfterAFailureNothingMoreIsQueued) {
  OpenOptions options;
  options.core_mask = 1;
  options.queue_depth = 1;
  const Device device = gated(options);
  Job job(device, 1, 5000);
  model_unmap(device.backend(), job.chain.impl()->arenas[0].impl()->memory.id);
  Stream stream(device);
  Future future = stream.submit(job.chain);
  gate_.open();
  EXPECT_EQ(failure(std::move(future)), Errc::dma_error);
  EXPECT_LE(device.stats().submits, 3U) << "of 5";
}

TEST_F(StreamTest, AnotherStreamsFailureCancelsNobody) {
  const Device device = open({});
  Job bad(device);
  model_unmap(device.backend(), bad.chain.impl()->arenas[0].impl()->memory.id);
  Stream theirs(device);
  Future failed = theirs.submit(bad.chain);  // not waited for
  for (const Strategy strategy : {Strategy::split, Strategy::fan_out}) {
    TwoLevels job(device, strategy);
    Stream stream(device);
    stream.submit(job.chain).get();
    EXPECT_TRUE(job.right());
  }
  EXPECT_EQ(failure(std::move(failed)), Errc::dma_error);
}

TEST_F(StreamTest, AFailureCancelsOrderedFollowers) {
  const Device device = gated();
  Job bad(device);
  Job follower(device);
  model_unmap(device.backend(), bad.chain.impl()->arenas[0].impl()->memory.id);
  Stream stream(device);
  Future first = stream.submit(bad.chain);
  Future second = stream.submit(follower.chain, {0, true});
  gate_.open();
  EXPECT_EQ(failure(std::move(second)), Errc::cancelled);
  EXPECT_EQ(failure(std::move(first)), Errc::dma_error);
  stream.submit(follower.chain).get();
  EXPECT_TRUE(follower.right());
}

TEST_F(StreamTest, FeedingOnTakesAModeThatOrdersBlocks) {
  ModelOptions model;
  model.rawlate = true;
  const Device device = open(model);
  Chain chain(device);
  const Tensor x = chain.input(Type::i8_i8, 1, 32);
  const Weights w = Weights::pack(device, 32, 32, random_i8(32 * 32, 1));
  const Tensor y = chain.matmul(x, w, Type::i8_i8);
  const Thrown thrown = thrown_by([&] { chain.matmul(y, w); });
  EXPECT_EQ(thrown.code, Errc::invalid_argument);
  EXPECT_THAT(thrown.text, AllOf(HasSubstr("tensor 1 cannot be fed on"), HasSubstr("mode wait")));
}

// ---- devices ----

/// Sets RKCHAIN_BACKEND for one scope.
class Environment {
 public:
  explicit Environment(const char* value) {
    if (const char* old = std::getenv("RKCHAIN_BACKEND")) old_ = old;
    set(value);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { set(old_ ? old_->c_str() : nullptr); }

 private:
  static void set(const char* value) {
    if (value != nullptr) {
      setenv("RKCHAIN_BACKEND", value, 1);
    } else {
      unsetenv("RKCHAIN_BACKEND");
    }
  }
  std::optional<std::string> old_;
};

TEST(DeviceOpen, TheModelHasToBeAskedFor) {
  const Environment environment(nullptr);
  const Thrown thrown =
      thrown_by([] { EXPECT_NE(Device::open().info().backend, BackendKind::model); });
  // Where there is an NPU, that it is the one has been shown.
  if (thrown.text.empty()) return;
  EXPECT_TRUE(thrown.code == Errc::no_device || thrown.code == Errc::permission);
  EXPECT_THAT(thrown.text, AllOf(HasSubstr("RKCHAIN_BACKEND=model"), HasSubstr("--model")));
}

TEST(DeviceOpen, TheEnvironmentAsksForTheModel) {
  const Environment environment("model");
  EXPECT_EQ(Device::open().info().backend, BackendKind::model);
}

TEST(DeviceOpen, TheOptionsAreAboveTheEnvironment) {
  const Environment environment("kmod");
  OpenOptions options;
  options.backend = BackendKind::model;
  EXPECT_EQ(Device::open(options).info().driver, "software NPU");
}

TEST(DeviceOpen, AnUnknownBackEndIsRefusedWithThoseThatExist) {
  const Environment environment("gpu");
  const Thrown thrown = thrown_by([] { Device::open(); });
  EXPECT_EQ(thrown.code, Errc::invalid_argument);
  EXPECT_THAT(thrown.text, AllOf(HasSubstr("\"gpu\""), HasSubstr("auto, kmod, stock or model")));
}

TEST(DeviceOpen, CoresThatDoNotExistAreRefused) {
  OpenOptions options;
  options.backend = BackendKind::model;
  options.core_mask = 9;
  const Thrown thrown = thrown_by([&] { Device::open(options); });
  EXPECT_EQ(thrown.code, Errc::invalid_argument);
  EXPECT_THAT(thrown.text, AllOf(HasSubstr("core_mask is 0x9"), HasSubstr("0x7")));
}

TEST(DeviceOpen, QueuesOfNothingAreRefused) {
  OpenOptions options;
  options.backend = BackendKind::model;
  options.queue_depth = 0;
  const Thrown thrown = thrown_by([&] { Device::open(options); });
  EXPECT_EQ(thrown.code, Errc::invalid_argument);
  EXPECT_THAT(thrown.text, HasSubstr("queue_depth is 0"));
}

}  // namespace
}  // namespace rkchain::test

// SPDX-License-Identifier: MIT
// The scheduler alone, with jobs that do nothing or wait to be let go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "backend/local_queue.hpp"
#include "gate.hpp"

namespace rkchain {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using Outcome = LocalQueue::Outcome;
using Job = LocalQueue::Job;

using test::Gate;
using test::kLimit;

steady_clock::time_point soon() { return steady_clock::now() + kLimit; }

LocalQueue::Options simulated(std::uint32_t depth = 4096, std::uint32_t mask = 7) {
  return {LocalQueue::Clock::simulated, mask, depth};
}

LocalQueue::Options host(std::uint32_t depth = 4096, std::uint32_t mask = 7) {
  return {LocalQueue::Clock::host, mask, depth};
}

Job idle(std::uint64_t duration_ns = 100) {
  return {[](std::uint32_t) { return Outcome{}; }, duration_ns};
}

Job failing(Errc error = Errc::io) {
  return {[error](std::uint32_t) {
            Outcome outcome;
            outcome.error = error;
            outcome.detail = "on purpose";
            return outcome;
          },
          100};
}

Job held(const Gate& gate, std::uint64_t duration_ns = 100) {
  return {[keep = gate.keeper()](std::uint32_t core) {
            Outcome outcome;
            if (!keep(core)) outcome.error = Errc::hung;
            return outcome;
          },
          duration_ns};
}

std::uint64_t submit(LocalQueue& queue, Job job, std::uint32_t mask = 0,
                     std::optional<std::uint64_t> after = std::nullopt) {
  std::vector<Job> jobs;
  jobs.push_back(std::move(job));
  return queue.submit(std::move(jobs), mask, after);
}

Completion finish(LocalQueue& queue, std::uint64_t sequence) {
  auto completion = queue.wait(sequence, soon());
  if (!completion) throw std::runtime_error("time limit");
  EXPECT_EQ(completion->sequence, sequence);
  return *completion;
}

template <typename Call>
Errc error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return Errc::bad_format;
}

TEST(Rotation, EqualJobsAreSharedOutEqually) {
  LocalQueue queue(simulated());
  std::vector<std::uint64_t> sequences;
  for (int i = 0; i < 999; ++i) sequences.push_back(submit(queue, idle(700)));
  std::array<int, 3> jobs{};
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Completion done = finish(queue, sequences[i]);
    EXPECT_EQ(done.core, i % 3);
    EXPECT_FALSE(done.error);
    EXPECT_EQ(done.done_ns - done.started_ns, 700);
    ++jobs[done.core];
  }
  EXPECT_THAT(jobs, testing::Each(333));
  for (const auto& core : queue.cores()) {
    EXPECT_EQ(core.jobs, 333);
    EXPECT_EQ(core.busy_ns, 333 * 700);
  }
}

TEST(Rotation, OneAtATimeGoesRoundRobinToo) {
  LocalQueue queue(simulated());
  for (std::uint32_t i = 0; i < 12; ++i) {
    EXPECT_EQ(finish(queue, submit(queue, idle())).core, i % 3);
  }
}

TEST(Rotation, TiesKeepTheTurn) {
  LocalQueue queue(simulated());
  finish(queue, submit(queue, idle()));
  Gate gate;
  std::vector<std::uint64_t> sequences;
  for (int i = 0; i < 9; ++i) sequences.push_back(submit(queue, i < 3 ? held(gate) : idle()));
  gate.open();
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(finish(queue, sequences[i]).core, (i + 1) % 3);
  }
}

/// No core may idle in simulated time while a job that it may take waits.
void expect_no_core_idles(const std::vector<Completion>& done,
                          const std::vector<std::uint32_t>& masks, std::uint32_t usable) {
  for (std::uint32_t core = 0; core < 3; ++core) {
    if ((usable >> core & 1) == 0) continue;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> busy;
    for (const Completion& c : done) {
      if (c.core == core) busy.emplace_back(c.started_ns, c.done_ns);
    }
    std::sort(busy.begin(), busy.end());
    for (std::size_t i = 1; i < busy.size(); ++i) {
      ASSERT_LE(busy[i - 1].second, busy[i].first) << "core " << core << " runs two jobs";
    }
    for (std::size_t i = 0; i < done.size(); ++i) {
      if ((masks[i] != 0 && (masks[i] >> core & 1) == 0)) continue;
      // The core has to be busy from end to end of the job's time in the queue.
      std::uint64_t covered = done[i].queued_ns;
      for (const auto& [begin, end] : busy) {
        if (begin <= covered && covered < end) covered = end;
      }
      ASSERT_GE(covered, done[i].started_ns)
          << "core " << core << " idles while job " << i << " waits";
    }
  }
}

TEST(Rotation, NoCoreIdlesWhileWorkItMayTakeWaits) {
  std::mt19937 rng(20240601);
  for (int round = 0; round < 20; ++round) {
    LocalQueue queue(simulated());
    std::vector<std::uint64_t> sequences;
    std::vector<std::uint32_t> masks;
    for (int i = 0; i < 120; ++i) {
      masks.push_back(round % 2 == 0 ? 0 : rng() % 8);
      sequences.push_back(submit(queue, idle(1 + rng() % 1000), masks.back()));
    }
    std::vector<Completion> done;
    for (const auto sequence : sequences) done.push_back(finish(queue, sequence));
    for (std::size_t i = 0; i < done.size(); ++i) {
      ASSERT_TRUE(masks[i] == 0 || (masks[i] >> done[i].core & 1) != 0);
    }
    expect_no_core_idles(done, masks, 7);
  }
}

TEST(Rotation, DoesNotDependOnWhatTheHostNeeds) {
  // Whatever the jobs take on the host, simulated time and cores come out the same.
  const auto run = [](unsigned seed) {
    LocalQueue queue(simulated());
    std::mt19937 rng(seed);
    Gate gate;  // everything is queued before anything ends
    std::vector<std::uint64_t> sequences;
    for (std::uint32_t i = 0; i < 3; ++i) sequences.push_back(submit(queue, held(gate, 10 + i)));
    for (std::uint32_t i = 0; i < 60; ++i) {
      const auto delay = std::chrono::microseconds(rng() % 500);
      sequences.push_back(submit(queue, {[delay](std::uint32_t) {
                                           std::this_thread::sleep_for(delay);
                                           return Outcome{};
                                         },
                                         (i * 7919) % 97}));
    }
    gate.open();
    std::vector<std::array<std::uint64_t, 3>> trace;
    for (const auto sequence : sequences) {
      const Completion done = finish(queue, sequence);
      trace.push_back({done.core, done.started_ns, done.done_ns});
    }
    return trace;
  };
  EXPECT_EQ(run(1), run(2));
}

TEST(Rotation, HostWorkOfTheCoresRunsInParallel) {
  LocalQueue queue(simulated());
  Gate gate;
  std::vector<std::uint64_t> sequences;
  for (int i = 0; i < 3; ++i) sequences.push_back(submit(queue, held(gate)));
  ASSERT_TRUE(gate.await(7));
  gate.open();
  for (const auto sequence : sequences) EXPECT_FALSE(finish(queue, sequence).error);
}

TEST(Rotation, ACoreIsNotReleasedBeforeItsTime) {
  LocalQueue queue(simulated());
  Gate gate;
  const auto first = submit(queue, held(gate, 100));
  const auto later = submit(queue, idle(200));  // over at once on the host
  ASSERT_TRUE(gate.await(1));
  EXPECT_FALSE(queue.wait(later, steady_clock::now() + 50ms));
  gate.open();
  EXPECT_EQ(finish(queue, later).done_ns, 200);
  EXPECT_EQ(finish(queue, first).done_ns, 100);
}

TEST(Masks, AJobThatNoIdleCoreMayTakeDoesNotBlockTheOthers) {
  LocalQueue queue(host());
  Gate gate;
  const auto first = submit(queue, held(gate), 1);
  ASSERT_TRUE(gate.await(1));
  const auto waits = submit(queue, idle(), 1);
  const auto passes = submit(queue, idle(), 6);
  EXPECT_NE(finish(queue, passes).core, 0);
  EXPECT_FALSE(queue.wait(waits, steady_clock::now()));
  gate.open();
  EXPECT_EQ(finish(queue, first).core, 0);
  EXPECT_EQ(finish(queue, waits).core, 0);
}

TEST(Masks, OnlyUsableCoresAreUsed) {
  LocalQueue queue(simulated(256, 5));
  EXPECT_EQ(queue.usable_mask(), 5);
  for (int i = 0; i < 20; ++i) EXPECT_NE(finish(queue, submit(queue, idle())).core, 1);
  EXPECT_EQ(error_of([&] { submit(queue, idle(), 2); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { submit(queue, idle(), 8); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([] { LocalQueue none(simulated(256, 8)); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([] { LocalQueue none(simulated(0)); }), Errc::invalid_argument);
}

TEST(After, WaitsForAllBefore) {
  LocalQueue queue(simulated());
  Gate gate;
  submit(queue, idle(10));
  const auto slow = submit(queue, held(gate, 1000));
  const auto follower = submit(queue, idle(), 0, slow);
  const auto other = submit(queue, idle(10));
  EXPECT_FALSE(finish(queue, other).error);
  EXPECT_FALSE(queue.wait(follower, steady_clock::now() + 20ms));
  gate.open();
  const Completion done = finish(queue, follower);
  EXPECT_FALSE(done.error);
  EXPECT_GE(done.started_ns, finish(queue, slow).done_ns);
}

TEST(After, AChainOfFollowersKeepsItsOrder) {
  LocalQueue queue(simulated());
  std::vector<std::uint64_t> sequences{submit(queue, idle(50))};
  for (int i = 0; i < 50; ++i) sequences.push_back(submit(queue, idle(50), 0, sequences.back()));
  std::uint64_t end = 0;
  for (const auto sequence : sequences) {
    const Completion done = finish(queue, sequence);
    EXPECT_GE(done.started_ns, end);
    end = done.done_ns;
  }
  EXPECT_EQ(end, 51 * 50);
}

TEST(After, AFailedPredecessorCancels) {
  LocalQueue queue(simulated());
  Gate gate;
  const auto first = submit(queue, held(gate));
  const auto fails = submit(queue, failing(), 0, first);
  const auto follower = submit(queue, idle(), 0, fails);
  const auto second = submit(queue, idle(), 0, follower);
  const auto unrelated = submit(queue, idle(), 0, first);
  gate.open();
  EXPECT_EQ(finish(queue, second).error, Errc::cancelled);
  EXPECT_EQ(finish(queue, follower).error, Errc::cancelled);
  EXPECT_FALSE(finish(queue, unrelated).error);
  const Completion failure = finish(queue, fails);
  EXPECT_EQ(failure.error, Errc::io);
  EXPECT_EQ(failure.detail, "on purpose");
}

TEST(After, AFailureCountsUntilItHasBeenHandedOut) {
  LocalQueue queue(host());
  const auto fails = submit(queue, failing(Errc::hung), 1);
  finish(queue, submit(queue, idle(), 1));  // so it has ended
  const auto early = submit(queue, idle(), 0, fails);
  EXPECT_EQ(finish(queue, early).error, Errc::cancelled);
  EXPECT_EQ(finish(queue, fails).error, Errc::hung);
  EXPECT_FALSE(finish(queue, submit(queue, idle(), 0, fails)).error);
}

TEST(After, ANumberThatIsNotOutYetIsRefused) {
  LocalQueue queue(host());
  EXPECT_EQ(error_of([&] { submit(queue, idle(), 0, 1); }), Errc::invalid_argument);
  EXPECT_FALSE(finish(queue, submit(queue, idle(), 0, 0)).error);
}

TEST(Depth, AllOrNone) {
  LocalQueue queue(host(4));
  Gate gate;
  for (int i = 0; i < 3; ++i) submit(queue, held(gate));
  ASSERT_TRUE(gate.await(7));
  const auto several = [&](int count) {
    std::vector<Job> jobs;
    for (int i = 0; i < count; ++i) jobs.push_back(idle());
    return queue.submit(std::move(jobs), 0, std::nullopt);
  };
  EXPECT_EQ(error_of([&] { several(5); }), Errc::queue_full);
  EXPECT_EQ(error_of([&] { several(0); }), Errc::invalid_argument);
  const auto first = several(3);
  EXPECT_EQ(error_of([&] { several(2); }), Errc::queue_full);
  EXPECT_EQ(several(1), first + 3);
  EXPECT_EQ(error_of([&] { several(1); }), Errc::queue_full);
  gate.open();
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_FALSE(finish(queue, first + i).error);
  finish(queue, several(4));
}

TEST(Wait, HandsEachCompletionOutOnce) {
  LocalQueue queue(host());
  const auto sequence = submit(queue, idle());
  finish(queue, sequence);
  EXPECT_EQ(error_of([&] { queue.wait(sequence, soon()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { queue.wait(sequence + 1, soon()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { queue.wait(0, soon()); }), Errc::invalid_argument);
  // Without a deadline.
  EXPECT_TRUE(queue.wait(submit(queue, idle()), steady_clock::time_point::max()));
}

TEST(Wait, HostTimesAreInOrder) {
  LocalQueue queue(host());
  const auto before = steady_clock::now().time_since_epoch() / 1ns;
  const Completion done = finish(queue, submit(queue, {[](std::uint32_t) {
                                                         std::this_thread::sleep_for(2ms);
                                                         return Outcome{};
                                                       },
                                                       0}));
  EXPECT_GE(done.queued_ns, static_cast<std::uint64_t>(before));
  EXPECT_GE(done.started_ns, done.queued_ns);
  EXPECT_GE(done.done_ns, done.started_ns + 2'000'000);
}

TEST(Wait, AnExceptionInAJobIsAFailureOfThatJob) {
  LocalQueue queue(host());
  const auto throws = [](auto what) {
    return Job{[what](std::uint32_t) -> Outcome { throw what; }, 0};
  };
  EXPECT_EQ(finish(queue, submit(queue, throws(Error(Errc::dma_error, "x")))).error,
            Errc::dma_error);
  EXPECT_EQ(finish(queue, submit(queue, throws(std::runtime_error("y")))).detail, "y");
  EXPECT_EQ(finish(queue, submit(queue, throws(3))).error, Errc::io);
  EXPECT_FALSE(finish(queue, submit(queue, idle())).error);
}

TEST(Wait, WhatAJobHoldsIsGoneBeforeItsCompletion) {
  LocalQueue queue(host());
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  const auto sequence =
      submit(queue, {[held = std::move(held)](std::uint32_t) { return Outcome{}; }, 0});
  finish(queue, sequence);
  EXPECT_TRUE(watch.expired());
}

TEST(SetAside, AHungCoreTakesNoMore) {
  LocalQueue queue(simulated());
  Gate gate;  // the core is lost while something waits for it
  const auto lost = submit(queue,
                           {[keeper = gate.keeper()](std::uint32_t core) {
                              static_cast<void>(keeper(core));
                              Outcome outcome;
                              outcome.error = Errc::hung;
                              outcome.lose_core = true;
                              return outcome;
                            },
                            10},
                           2);
  const auto stranded = submit(queue, idle(), 2);
  gate.open();
  EXPECT_EQ(finish(queue, lost).error, Errc::hung);
  EXPECT_EQ(finish(queue, stranded).error, Errc::no_device);
  EXPECT_EQ(queue.usable_mask(), 5);
  for (int i = 0; i < 10; ++i) EXPECT_NE(finish(queue, submit(queue, idle())).core, 1);
  EXPECT_EQ(error_of([&] { submit(queue, idle(), 2); }), Errc::invalid_argument);
}

TEST(SetAside, WithoutCoresThereIsNoDevice) {
  LocalQueue queue(host());
  Gate gate;
  std::vector<std::uint64_t> running;
  for (int i = 0; i < 3; ++i) running.push_back(submit(queue, held(gate)));
  ASSERT_TRUE(gate.await(7));
  const auto waits = submit(queue, idle());
  for (std::uint32_t core = 0; core < 3; ++core) queue.set_aside(core);
  EXPECT_EQ(finish(queue, waits).error, Errc::no_device);
  EXPECT_EQ(error_of([&] { submit(queue, idle()); }), Errc::no_device);
  gate.open();
  for (const auto sequence : running) EXPECT_FALSE(finish(queue, sequence).error);
}

TEST(Shutdown, CancelsWhatWaitsAndFinishesWhatRuns) {
  for (const auto& options : {host(), simulated()}) {
    LocalQueue queue(options);
    Gate gate;
    std::vector<std::uint64_t> running;
    std::vector<std::uint64_t> waiting;
    for (int i = 0; i < 3; ++i) running.push_back(submit(queue, held(gate)));
    ASSERT_TRUE(gate.await(7));
    for (int i = 0; i < 5; ++i) waiting.push_back(submit(queue, idle()));
    std::thread closer([&] { queue.shutdown(); });
    for (const auto sequence : waiting) EXPECT_EQ(finish(queue, sequence).error, Errc::cancelled);
    EXPECT_FALSE(queue.wait(running[0], steady_clock::now()));
    gate.open();
    closer.join();
    for (const auto sequence : running) EXPECT_FALSE(finish(queue, sequence).error);
    EXPECT_EQ(error_of([&] { submit(queue, idle()); }), Errc::cancelled);
    queue.shutdown();
  }
}

TEST(Shutdown, TheDestructorNeedsNobodyToWait) {
  std::atomic<int> ran{0};
  {
    LocalQueue queue(simulated());
    for (int i = 0; i < 100; ++i) {
      submit(queue, {[&ran](std::uint32_t) {
                       ++ran;
                       return Outcome{};
                     },
                     10});
    }
  }
  EXPECT_LE(ran, 100);
}

TEST(Threads, ManySubmittersAndWaiters) {
  LocalQueue queue(simulated(64));
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&queue, &done, t] {
      for (int i = 0; i < 200; ++i) {
        const auto sequence = submit(queue, idle(static_cast<std::uint64_t>(1 + (t * 31 + i) % 17)),
                                     static_cast<std::uint32_t>(i % 8));
        if (!finish(queue, sequence).error) ++done;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(done, 800);
}

}  // namespace
}  // namespace rkchain

// SPDX-License-Identifier: MIT
// The model back end: memory, registration, execution, and how it plays bad silicon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "backend/model_memory.hpp"
#include "backend_rig.hpp"
#include "kmod/core/entry.h"

namespace rkchain {
namespace {

using namespace rkchain::test;
using testing::Each;
using testing::HasSubstr;
using Words = std::vector<std::uint64_t>;

constexpr std::size_t kMiB = 1 << 20;

TEST(Memory, IsZeroAlignedAndApart) {
  const auto backend = open_model();
  std::vector<BackendBuffer> buffers;
  for (const std::size_t size : {1UL, 4096UL, 4097UL, kMiB}) {
    buffers.push_back(backend->create_buffer(size));
    EXPECT_EQ(buffers.back().size, size);
    EXPECT_EQ(buffers.back().iova % 4096, 0);
    const std::span bytes(buffers.back().cpu, size);
    EXPECT_THAT(std::vector(bytes.begin(), bytes.end()), Each(std::byte{0}));
  }
  for (const auto& x : buffers) {
    for (const auto& y : buffers) {
      if (x.id != y.id && x.iova <= y.iova) {
        EXPECT_GE(y.iova, x.iova + x.size + 4096);
      }
    }
  }
}

TEST(Memory, HasLimits) {
  const auto backend = open_model();
  EXPECT_EQ(error_of([&] { backend->create_buffer(0); }).code(), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { backend->create_buffer((1UL << 32) + 1); }).code(),
            Errc::invalid_argument);
  std::vector<BackendBuffer> buffers;
  for (int i = 0; i < 7; ++i) buffers.push_back(backend->create_buffer(512 * kMiB));
  const Error full = error_of([&] { backend->create_buffer(512 * kMiB); });
  EXPECT_EQ(full.code(), Errc::out_of_memory);
  EXPECT_THAT(full.what(), HasSubstr("0xfffff000"));
  // What is given back can be had again.
  backend->destroy_buffer(buffers[3].id);
  EXPECT_EQ(error_of([&] { backend->create_buffer(512 * kMiB + 4096); }).code(),
            Errc::out_of_memory)
      << "no gap left";
  const BackendBuffer again = backend->create_buffer(512 * kMiB);
  EXPECT_EQ(again.iova, buffers[3].iova);
  EXPECT_EQ(error_of([&] { backend->destroy_buffer(buffers[3].id); }).code(),
            Errc::invalid_argument);
}

TEST(Memory, SyncChecksItsRange) {
  const auto backend = open_model();
  const BackendBuffer buffer = backend->create_buffer(100);
  backend->sync_buffer(buffer.id, 0, 100, Direction::to_device);
  backend->sync_buffer(buffer.id, 100, 0, Direction::from_device);
  for (const auto& [offset, size] : {std::pair{1UL, 100UL}, {101UL, 0UL}, {2UL, ~0UL}}) {
    const Error error = error_of([&, offset = offset, size = size] {
      backend->sync_buffer(buffer.id, offset, size, Direction::to_device);
    });
    EXPECT_EQ(error.code(), Errc::invalid_argument);
  }
}

TEST(View, AllowsWhatIsDeclaredAndNothingElse) {
  const auto space = std::make_shared<IovaSpace>();
  const auto region = [&] { return std::make_shared<ModelRegion>(space, 100); };
  const auto program = region();
  const auto in = region();
  const auto out = region();
  const auto foreign = region();
  ModelView view;
  view.set_program(program);
  view.add(out, false, true);
  view.add(in, true, false);

  const auto access = {NPU_FETCH, NPU_FEATURE, NPU_WEIGHT, NPU_OUTPUT};
  for (const auto& r : {program, in, out, foreign}) {
    for (const npu_access kind : access) {
      const bool allowed = (r == program && kind == NPU_FETCH) ||
                           (r == in && (kind == NPU_FEATURE || kind == NPU_WEIGHT)) ||
                           (r == out && kind == NPU_OUTPUT);
      EXPECT_EQ(view.map(kind, r->iova(), 100), allowed ? r->cpu() : nullptr);
      EXPECT_EQ(view.map(kind, r->iova() + 99, 1), allowed ? r->cpu() + 99 : nullptr);
      EXPECT_EQ(view.map(kind, r->iova(), 101), nullptr);
      EXPECT_EQ(view.map(kind, r->iova() + 1, 100), nullptr);
      EXPECT_EQ(view.map(kind, r->iova() - 1, 2), nullptr);
      EXPECT_EQ(view.map(kind, r->iova() + 1, ~0ULL), nullptr);
      EXPECT_EQ(view.map(kind, r->iova() + (1ULL << 32), 1), nullptr);
    }
  }
  in->unmap();
  EXPECT_EQ(view.map(NPU_FEATURE, in->iova(), 1), nullptr);
}

struct Refusal {
  const char* what;
  std::uint32_t word;
  std::uint64_t entry;
  std::uint32_t reason;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.what; }

class Refusals : public testing::TestWithParam<Refusal> {};

TEST_P(Refusals, NameReasonBlockAndWord) {
  const Rig rig(open_model(), 3);
  auto words = rig.words();
  words[2 * RKC_WAIT_STRIDE + GetParam().word] = GetParam().entry;
  const Error error = error_of([&] { (void)rig.create(words, rig.uses()); });
  EXPECT_EQ(error.code(), Errc::check_failed);
  EXPECT_EQ(error.reason(), GetParam().reason) << error.what();
  EXPECT_EQ(error.block(), 2);
  EXPECT_EQ(error.word(), GetParam().word);
  EXPECT_THAT(error.what(), HasSubstr("block 2"));
}

INSTANTIATE_TEST_SUITE_P(
    Words, Refusals,
    testing::Values(Refusal{"page", 5, rkc_entry(RKC_TARGET_CNA, 0x4010, 0), RKC_PAGE_MISMATCH},
                    Refusal{"pooling", 5, rkc_entry(RKC_TARGET_PPU, 0x6010, 0), RKC_FOREIGN_TARGET},
                    Refusal{"register", 5, rkc_entry(RKC_TARGET_CNA, 0x1ffc, 0), RKC_UNKNOWN_REG},
                    Refusal{"jump", 5, rkc_entry(RKC_TARGET_PC, 0x10, 0x10000000), RKC_JUMP},
                    Refusal{"rebase", 5, rkc_entry(RKC_TARGET_PC, 0x34, 1), RKC_BASE_ADDRESS},
                    Refusal{"mask", 5, rkc_entry(RKC_TARGET_PC, 0x20, 0), RKC_INT_MASK},
                    Refusal{"task", 5, rkc_entry(RKC_TARGET_PC, 0x30, 0), RKC_TASK_CONTROL},
                    Refusal{"pc", 5, rkc_entry(RKC_TARGET_PC, 0x3c, 0), RKC_PC_WRITE},
                    Refusal{"unit", 5, rkc_entry(RKC_TARGET_CNA, 0x1008, 1), RKC_UNIT_OP_ENABLE},
                    Refusal{"pointer", 5, rkc_entry(RKC_TARGET_CNA, 0x1004, 0xe), RKC_POINTER},
                    Refusal{"enable", 111, rkc_entry(RKC_TARGET_OP_ENABLE, 8, 0x7d),
                            RKC_BAD_OP_ENABLE},
                    Refusal{"padding", 5, rkc_entry(0, 0, 1), RKC_BAD_PADDING}));

TEST(Register, RefusesBadShapesOfPrograms) {
  const Rig rig(open_model(), 2);
  const auto words = rig.words();
  const auto reason = [&](ChainProgram program) {
    program.words = std::span(words).first(program.words.empty() ? words.size() : 200);
    return error_of([&] { rig.backend().create_chain(program, rig.uses()); }).reason();
  };
  EXPECT_EQ(reason({{}, 0, 110, 108, false}), RKC_EMPTY);
  EXPECT_EQ(reason({{}, 2, 100, 108, false}), RKC_BAD_STRIDE);
  EXPECT_EQ(reason({std::span(words), 2, 110, 108, false}), RKC_TRUNCATED);
  EXPECT_EQ(reason({{}, 1192, 110, 108, false}), RKC_TOO_LONG);
  // Longer than a wait chain can be, even where the layout that it came in could hold it.
  const Words many(std::size_t{1192} * 112);
  const Error error = error_of([&] {
    rig.backend().create_chain({many, 1192, 112, 108, true}, rig.uses());
  });
  EXPECT_EQ(error.reason(), RKC_TOO_LONG);
}

TEST(Register, RefusesAccessOutsideOfWhatIsDeclared) {
  const Rig rig(open_model(), 3);
  const auto reason = [&](std::vector<BufferUse> uses) {
    const Error error = error_of([&] { (void)rig.create(rig.words(), uses); });
    EXPECT_EQ(error.code(), Errc::check_failed);
    return error.reason();
  };
  auto uses = rig.uses();
  uses[0].read = false;
  EXPECT_EQ(reason(uses), RKC_A_OUTSIDE);
  uses = rig.uses();
  uses.erase(uses.begin() + 1);
  EXPECT_EQ(reason(uses), RKC_B_OUTSIDE);
  uses = rig.uses();
  uses[2] = {rig.c().id, true, false, false};
  EXPECT_EQ(reason(uses), RKC_C_OUTSIDE);
  uses = rig.uses();
  uses.push_back(uses[1]);
  EXPECT_EQ(reason(uses), RKC_BUFFERS_OVERLAP);
  uses = rig.uses();
  uses[1].id = 9999;
  EXPECT_EQ(error_of([&] { (void)rig.create(rig.words(), uses); }).code(), Errc::invalid_argument);
}

TEST(Register, RefusesByTheExactSizeOfBuffers) {
  Rig rig(open_model(), 2);
  rig.blocks[1].a += 16;  // one atom past the end, inside the buffer's last page
  const Error error = error_of([&] { (void)rig.create(); });
  EXPECT_EQ(error.reason(), RKC_A_OUTSIDE);
  EXPECT_EQ(error.block(), 1);
}

TEST(Register, RefusesOverlapsAndReadsOfWideOutputs) {
  const auto backend = open_model();
  Rig rig(backend, 2);
  auto uses = rig.uses();
  for (auto& use : uses) use.read = use.write = true;
  auto& second = rig.blocks[1];
  const auto c = second.c;
  second.c = rig.blocks[0].a;  // up to and including its own A
  EXPECT_EQ(error_of([&] { (void)rig.create(rig.words(), uses); }).reason(), RKC_OUTPUT_OVERLAP);
  second.c = c;
  second.a = rig.blocks[0].c;
  EXPECT_EQ(error_of([&] { (void)rig.create(rig.words(), uses); }).reason(), RKC_ALIAS_TYPE);
}

/// Block 1 reads what block 0 writes.
Rig fed_on(std::shared_ptr<Backend> backend) {
  Rig rig(std::move(backend), 2);
  rig.blocks[0].type = RKC_I8_I8;
  rig.blocks[0].n = 64;  // K of the next one; both blocks' weights are one matrix for it
  rig.blocks[1].a = rig.blocks[0].c;
  return rig;
}

TEST(Register, FeedingOnNeedsOrder) {
  for (const Mode mode : {Mode::wait, Mode::wait41, Mode::link, Mode::single}) {
    ModelOptions late;
    late.rawlate = true;
    ModelOptions nowait;
    nowait.nowait = true;
    for (const auto& [model, ordered] : {std::pair{ModelOptions{}, true},
                                         {late, mode == Mode::single},
                                         {nowait, mode == Mode::link || mode == Mode::single}}) {
      const auto backend = open_model(mode, model);
      EXPECT_EQ(backend->info().ordered, ordered);
      const Rig rig = fed_on(backend);
      auto uses = rig.uses();
      uses[2].read = true;
      if (!ordered) {
        EXPECT_EQ(error_of([&] { (void)rig.create(rig.words(), uses); }).reason(), RKC_ALIAS_ORDER);
        continue;
      }
      const auto chain = rig.create(rig.words(), uses);
      EXPECT_FALSE(run(*backend, chain).error);
      // From the definition: saturate the first product, multiply it again.
      const auto* a = reinterpret_cast<const std::int8_t*>(rig.a().cpu);
      const auto* b = reinterpret_cast<const std::int8_t*>(rig.b().cpu);
      const auto weight = [&](const std::int8_t* w, std::uint32_t n, std::uint32_t k) {
        return w[n / 32 * 32 * 64 + k / 32 * 1024 + n % 32 * 32 + k % 32];
      };
      std::vector<std::int32_t> want;
      for (std::uint32_t m = 0; m < Rig::kM; ++m) {
        std::vector<std::int32_t> middle(64);
        for (std::uint32_t n = 0; n < 64; ++n) {
          for (std::uint32_t k = 0; k < 64; ++k) middle[n] += a[m * 64 + k] * weight(b, n, k);
          middle[n] = std::clamp(middle[n], -128, 127);
        }
        for (std::uint32_t n = 0; n < 32; ++n) {
          std::int32_t sum = 0;
          for (std::uint32_t k = 0; k < 64; ++k) sum += middle[k] * weight(b + Rig::kB, n, k);
          want.push_back(sum);
        }
      }
      const auto all = rig.output();
      EXPECT_EQ(std::vector(all.begin() + Rig::kC / 4, all.end()), want);
    }
  }
}

TEST(Register, WordsOfTheCallerAreNotNeededAfterwards) {
  const Rig rig(open_model(), 4);
  auto words = rig.words();
  const auto chain = rig.create(words, rig.uses());
  std::fill(words.begin(), words.end(), ~0ULL);
  EXPECT_FALSE(run(rig.backend(), chain).error);
  EXPECT_EQ(rig.output(), rig.expected());
}

TEST(Lifetime, AChainHoldsItsBuffers) {
  const auto backend = open_model();
  const Rig rig(backend, 2);
  // Memory of the size of half the address space shows when it has gone.
  const BackendBuffer big = backend->create_buffer(2048 * kMiB);
  auto uses = rig.uses();
  uses.push_back({big.id, true, false, false});
  const auto chain = rig.create(rig.words(), uses);
  for (const auto id : {rig.a().id, rig.b().id, rig.c().id, big.id}) backend->destroy_buffer(id);
  EXPECT_EQ(error_of([&] { backend->create_buffer(2048 * kMiB); }).code(), Errc::out_of_memory);
  EXPECT_EQ(error_of([&] { (void)rig.create(); }).code(), Errc::invalid_argument);
  EXPECT_FALSE(run(*backend, chain).error);
  EXPECT_EQ(rig.output(), rig.expected());
  backend->destroy_chain(chain);
  EXPECT_EQ(backend->create_buffer(2048 * kMiB).size, 2048 * kMiB);
}

TEST(Lifetime, WorkOfADestroyedChainFinishes) {
  Gate gate;
  const auto backend = open_model(Mode::wait, {}, {gate.keeper()});
  const Rig rig(backend, 2);
  const auto chain = rig.create();
  const auto running = submit(*backend, chain, 1);
  const auto waiting = submit(*backend, chain, 1);
  ASSERT_TRUE(gate.await(1));
  backend->destroy_chain(chain);
  EXPECT_EQ(error_of([&] { submit(*backend, chain); }).code(), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { backend->destroy_chain(chain); }).code(), Errc::invalid_argument);
  gate.open();
  EXPECT_FALSE(finish(*backend, running).error);
  EXPECT_FALSE(finish(*backend, waiting).error);
  EXPECT_EQ(rig.output(), rig.expected());
}

TEST(Lifetime, ClosingWaitsForWhatRuns) {
  Gate gate;
  std::thread opener;
  {
    const auto backend = open_model(Mode::wait, {}, {gate.keeper()});
    const auto chain = Rig(backend, 1).create();
    for (int i = 0; i < 10; ++i) submit(*backend, chain);
    ASSERT_TRUE(gate.await(7));
    opener = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate.open();
    });
  }
  opener.join();
}

struct Counted {
  Mode mode;
  std::uint64_t submits;
  std::uint64_t tasks;
};

class Modes : public testing::TestWithParam<Counted> {};

TEST_P(Modes, GiveTheSameResultsAtTheirOwnCost) {
  for (const bool plain : {false, true}) {
    ModelOptions model;
    model.plain = plain;
    const Rig rig(open_model(GetParam().mode, model), 5);
    const auto chain = rig.create();
    const Completion done = run(rig.backend(), chain);
    EXPECT_FALSE(done.error) << done.detail;
    EXPECT_EQ(rig.output(), rig.expected());

    const DeviceStats stats = rig.backend().stats();
    EXPECT_EQ(stats.submits, GetParam().submits);
    EXPECT_EQ(stats.interrupts, GetParam().submits);
    EXPECT_EQ(stats.tasks, GetParam().tasks);
    EXPECT_EQ(stats.blocks, 5);
    const CoreStats& core = stats.core[done.core];
    EXPECT_EQ(core.chains, 1);
    EXPECT_EQ(core.blocks, 5);
    EXPECT_EQ(core.macs, 5 * 4 * 64 * 32);
    EXPECT_EQ(core.busy_ns, done.done_ns - done.started_ns);
    EXPECT_EQ(core.busy_ns,
              model_duration_ns(static_cast<std::uint32_t>(GetParam().submits),
                                static_cast<std::uint32_t>(GetParam().tasks / GetParam().submits),
                                core.macs, 0));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Modes,
                         testing::Values(Counted{Mode::wait, 1, 1}, Counted{Mode::wait41, 1, 1},
                                         Counted{Mode::link, 1, 5}, Counted{Mode::single, 5, 5}),
                         [](const auto& mode) { return std::string(name(mode.param.mode)); });

TEST(Run, Rotates) {
  const auto backend = open_model();
  std::vector<Rig> rigs;
  std::vector<std::uint64_t> chains;
  for (unsigned i = 0; i < 12; ++i) {
    rigs.emplace_back(backend, 2, i);
    chains.push_back(rigs.back().create());
  }
  const auto first = backend->submit({chains, 0, std::nullopt});
  for (std::uint64_t i = 0; i < 12; ++i) {
    const Completion done = finish(*backend, first + i);
    EXPECT_FALSE(done.error);
    EXPECT_EQ(done.core, i % 3);
    EXPECT_EQ(rigs[i].output(), rigs[i].expected());
  }
  for (const CoreStats& core : backend->stats().core) EXPECT_EQ(core.chains, 4);
}

TEST(Run, WhatAnEarlierClientLeftChangesNothing) {
  for (const std::uint32_t pattern : {0U, 0xffffffffU, 0x5a5a5a5aU}) {
    ModelOptions model;
    model.poison = pattern;
    const Rig rig(open_model(Mode::wait, model), 3);
    EXPECT_FALSE(run(rig.backend(), rig.create()).error);
    EXPECT_EQ(rig.output(), rig.expected());
  }
}

TEST(Run, AfterAFailureFollowersAreCancelled) {
  const auto backend = open_model();
  const Rig bad(backend, 1);
  const Rig good(backend, 1, 2);
  const auto bad_chain = bad.create();
  const auto good_chain = good.create();
  model_unmap(*backend, bad.a().id);
  const auto fails = submit(*backend, bad_chain);
  const auto follower = submit(*backend, good_chain, 0, fails);
  EXPECT_EQ(finish(*backend, follower).error, Errc::cancelled);
  EXPECT_EQ(finish(*backend, fails).error, Errc::dma_error);
  EXPECT_THAT(good.output(), Each(0));
}

TEST(Run, TheQueueHasADepth) {
  Gate gate;
  OpenOptions options;
  options.queue_depth = 2;
  const auto backend = make_model_backend(options, {gate.keeper()});
  const auto chain = Rig(backend, 1).create();
  for (int i = 0; i < 3; ++i) submit(*backend, chain);
  ASSERT_TRUE(gate.await(7));
  for (int i = 0; i < 2; ++i) submit(*backend, chain);
  EXPECT_EQ(error_of([&] { submit(*backend, chain); }).code(), Errc::queue_full);
  gate.open();
}

TEST(Open, ChecksItsOptions) {
  OpenOptions options;
  options.core_mask = 8;
  EXPECT_EQ(error_of([&] { make_model_backend(options); }).code(), Errc::invalid_argument);
  options = {};
  options.queue_depth = 0;
  EXPECT_EQ(error_of([&] { make_model_backend(options); }).code(), Errc::invalid_argument);
  options = {};
  options.mode = static_cast<Mode>(4);
  EXPECT_EQ(error_of([&] { make_model_backend(options); }).code(), Errc::invalid_argument);
}

TEST(Open, SaysThatItIsTheModel) {
  OpenOptions options;
  options.mode = Mode::link;
  options.core_mask = 6;
  const DeviceInfo info = make_model_backend(options)->info();
  EXPECT_EQ(info.backend, BackendKind::model);
  EXPECT_EQ(info.driver, "software NPU");
  EXPECT_EQ(info.mode, Mode::link);
  EXPECT_EQ(info.cores, 3);
  EXPECT_EQ(info.usable_mask, 6);
}

}  // namespace
}  // namespace rkchain

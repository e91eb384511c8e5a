// SPDX-License-Identifier: MIT
//
// The software NPU: chains, what silicon may do instead (the knobs), errors, and what the model
// refuses to judge.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "unit/model_world.hpp"

namespace rkchain::model_test {
namespace {

constexpr u32 kWait = 0x0f;
constexpr u32 kRun = 0x0d;
constexpr Program::size_type kBody = 108;

Program WaitChain(const std::vector<Matmul>& blocks, u32 op = kWait, bool marker = false) {
  Program program;
  for (std::size_t i = 0; i + 1 < blocks.size(); i++) {
    program += Body(blocks[i]);
    if (marker) program.push_back(Entry(0x0041, 0, 0));
    program.push_back(Entry(0x0081, 8, op));
    program.resize((i + 1) * kBlock);
  }
  program += Single(blocks.back());
  return program;
}

// Three int8 matmuls, each of which reads what the one before wrote.
class Chains : public testing::Test {
 protected:
  static constexpr u32 kM = 6, kSize = 64, kLength = 3;

  Chains() {
    auto& first = world_.Add(kA, kM * kSize).bytes;
    std::vector<const Bytes*> features{&first};
    for (u32 i = 0; i < kLength; i++) {
      blocks_.push_back({.type = Type::kI8I8,
                         .m = kM,
                         .k = kSize,
                         .n = kSize,
                         .a = i == 0 ? kA : blocks_.back().c,
                         .b = kB + 0x10000 * i,
                         .c = kC + 0x10000 * i});
      auto& weights = world_.Add(blocks_[i].b, blocks_[i].SizeB()).bytes;
      Fill(blocks_[i], weights, 10 + i);
      // Mostly zeros, so that not everything saturates.
      for (std::size_t j = 0; j < weights.size(); j += j % 8 != 6 ? 1 : 2) weights[j] = 0;
      outputs_.push_back(&world_.Add(blocks_[i].c, blocks_[i].SizeC()).bytes);
    }
    Fill(blocks_[0], first, 3);
    for (u32 i = 0; i < kLength; i++) {
      expected_.push_back(Reference(blocks_[i], i == 0 ? first : expected_[i - 1], Weights(i)));
    }
  }

  const Bytes& Weights(u32 i) { return *static_cast<const Bytes*>(&world_.At(blocks_[i].b).bytes); }

  u32 Run(const Program& program, u32 tasks = 1, bool pingpong = false) {
    world_.Load(program);
    return world_.Run(program, tasks, pingpong);
  }

  bool Right(u32 i) const { return *outputs_[i] == expected_[i]; }
  bool Untouched(u32 i) const { return *outputs_[i] == Bytes(outputs_[i]->size(), 0xcc); }
  bool AllRight() const { return Right(0) && Right(1) && Right(2); }
  void Forget() {
    for (auto* output : outputs_) std::fill(output->begin(), output->end(), 0xcc);
  }
  u32 TasksDone() { return npu_read(world_.core(), NPU_PC_TASK_STATUS); }

  World world_;
  std::vector<Matmul> blocks_;
  std::vector<Bytes*> outputs_;
  std::vector<Bytes> expected_;
};

TEST_F(Chains, DataIsWorthTesting) {
  EXPECT_NE(expected_[0], expected_[1]);
  for (const auto& output : expected_) {
    EXPECT_GT(std::ranges::count_if(output, [](u8 v) { return v != 0 && v != 127 && v != 128; }),
              kM * kSize / 4);
  }
}

TEST_F(Chains, WaitChain) {
  const Program program = WaitChain(blocks_);
  ASSERT_EQ(program.size(), 2u * kBlock + 112);
  EXPECT_EQ(program[108], Entry(0x0081, 8, kWait));
  EXPECT_EQ(Run(program), kDone);
  EXPECT_TRUE(AllRight());
  EXPECT_EQ(world_.counters().blocks, 3u);
  EXPECT_EQ(world_.counters().programs, 1u);
  EXPECT_EQ(world_.counters().interrupts, 1u);
  EXPECT_EQ(TasksDone(), 1u);
  EXPECT_FALSE(npu_busy(world_.core()));
}

TEST_F(Chains, StepsReportBlocks) {
  const Program program = WaitChain(blocks_);
  world_.Load(program);
  const npu_job job{kProgram, static_cast<u32>(program.size() / 2 - 1), 0x300, 1, 0};
  npu_start(world_.core(), &job);
  for (u32 i = 0; i < 3; i++) {
    EXPECT_EQ(npu_step(world_.core()), NPU_EV_BLOCK);
    EXPECT_TRUE(Right(i));
    EXPECT_EQ(npu_read(world_.core(), NPU_PC_INT_STATUS), 0u);
  }
  EXPECT_EQ(npu_step(world_.core()), kDone);
  EXPECT_EQ(npu_step(world_.core()), NPU_EV_IDLE);
}

TEST_F(Chains, LinkChain) {
  for (u32 i = 0; i < kLength; i++) {
    Program program = Body(blocks_[i]);
    program += i + 1 < kLength ? Tail(kProgram + 0x1000 * (i + 1), 0x37) : Tail();
    world_.Load(program, kProgram + 0x1000 * i);
  }
  EXPECT_EQ(world_.Run(Program(112), 3), kDone);
  EXPECT_TRUE(AllRight());
  EXPECT_EQ(world_.counters().programs, 3u);
  EXPECT_EQ(world_.counters().interrupts, 1u);
  EXPECT_EQ(TasksDone(), 3u);
}

TEST_F(Chains, PoisonDoesNotMatter) {
  for (const u32 pattern : {0xffffffffu, 0xa5a5a5a5u}) {
    Forget();
    npu_poison(world_.core(), pattern);
    EXPECT_EQ(Run(WaitChain(blocks_)), kDone);
    EXPECT_TRUE(AllRight());
  }
}

TEST_F(Chains, WithoutTheWaitBitTheParserClobbers) {
  EXPECT_EQ(Run(WaitChain(blocks_, kRun)), kDone);
  EXPECT_TRUE(Untouched(0));
  EXPECT_FALSE(Right(1));
  EXPECT_FALSE(Right(2));
  EXPECT_EQ(world_.counters().blocks, 3u);
}

TEST_F(Chains, WithPingpongTheParserWritesTheOtherGroup) {
  EXPECT_EQ(Run(WaitChain(blocks_, kRun), 1, true), kDone);
  EXPECT_TRUE(AllRight());
}

TEST_F(Chains, ABlockWithoutItsDpuPointerRepeatsTheFirst) {
  Program program = WaitChain(blocks_);
  auto& entry = program[kBlock + 8];
  ASSERT_EQ(entry, Reg(0x4004, 0xe));
  entry = 0;
  EXPECT_EQ(Run(program), kDone);
  EXPECT_TRUE(Right(0));
  EXPECT_TRUE(Untouched(1));
  EXPECT_FALSE(Right(2));
  EXPECT_EQ(world_.counters().blocks, 3u);
}

TEST_F(Chains, DoneBitsAlternate) {
  std::vector<u32> seen;
  for (u32 i = 0; i < 3; i++) {
    EXPECT_EQ(Run(Single(blocks_[0])), kDone);
    seen.push_back(world_.status);
  }
  EXPECT_THAT(seen, testing::ElementsAre(0x100, 0x200, 0x100));
  // Three more launches end on the same bit; reading it back after clearing gives nothing.
  EXPECT_EQ(Run(WaitChain(blocks_)), kDone);
  EXPECT_EQ(world_.status, 0x200u);
  EXPECT_EQ(npu_read(world_.core(), NPU_PC_INT_RAW_STATUS), 0u);
}

TEST_F(Chains, AMaskedInterruptStaysDown) {
  const Program program = Single(blocks_[0]);
  world_.Load(program);
  const npu_job job{kProgram, 55, 0x800, 1, 0};
  npu_start(world_.core(), &job);
  EXPECT_EQ(npu_run(world_.core()), NPU_EV_IDLE);
  EXPECT_EQ(npu_read(world_.core(), NPU_PC_INT_STATUS), 0u);
  EXPECT_EQ(npu_read(world_.core(), NPU_PC_INT_RAW_STATUS), 0x100u);
}

TEST_F(Chains, TaskBaseMovesEveryAddress) {
  constexpr u32 kBase = 0x8000;
  Matmul mm = blocks_[0];
  mm.a -= kBase;
  mm.b -= kBase;
  mm.c -= kBase;
  const Program program = Single(mm);
  world_.Load(program);
  for (const auto& [reg, value] : {std::pair{0x1004u, 0xeu},
                                   {0x3004u, 0xeu},
                                   {0x10u, kProgram - kBase},
                                   {0x14u, 55u},
                                   {0x20u, 0x300u},
                                   {0x30u, 0x6001u},
                                   {0x34u, kBase},
                                   {0x08u, 1u},
                                   {0x08u, 0u}}) {
    npu_write(world_.core(), reg, value);
  }
  EXPECT_EQ(npu_run(world_.core()), kDone);
  EXPECT_TRUE(Right(0));
}

// ---- knobs ----

TEST_F(Chains, KnobNowait) {
  world_.knobs().nowait = 1;
  EXPECT_EQ(Run(WaitChain(blocks_)), kDone);
  EXPECT_TRUE(Untouched(0));
  EXPECT_FALSE(Right(2));
}

TEST_F(Chains, KnobEarly) {
  world_.knobs().early = 1;
  EXPECT_EQ(Run(WaitChain(blocks_)), NPU_EV_BLOCK | NPU_EV_IRQ);
  EXPECT_EQ(world_.status, 0x100u);
  EXPECT_TRUE(Right(0));
  EXPECT_TRUE(Untouched(1));
  EXPECT_TRUE(npu_busy(world_.core()));
  EXPECT_EQ(npu_run(world_.core()), NPU_EV_IDLE);
  EXPECT_TRUE(AllRight());
  EXPECT_EQ(world_.counters().interrupts, 1u);
}

TEST_F(Chains, KnobNeeds41) {
  world_.knobs().needs41 = 1;
  EXPECT_EQ(Run(WaitChain(blocks_)), kDone);
  EXPECT_EQ(world_.counters().ignored, 2u);
  EXPECT_TRUE(Untouched(0));
  EXPECT_TRUE(Untouched(1));
  EXPECT_EQ(Run(WaitChain(blocks_, kWait, true)), kDone);
  EXPECT_TRUE(AllRight());
  // A marker is good for one op-enable.
  Forget();
  Program program = WaitChain(blocks_, kWait, true);
  program[kBlock + kBody] = 0;
  EXPECT_EQ(Run(program), kDone);
  EXPECT_TRUE(Right(0));
  EXPECT_TRUE(Untouched(1));
  EXPECT_EQ(world_.counters().ignored, 3u);
}

TEST_F(Chains, KnobLate) {
  world_.knobs().late = 1;
  EXPECT_EQ(Run(WaitChain(blocks_)), kDone);
  EXPECT_TRUE(Right(1));
  EXPECT_TRUE(Untouched(2));
  npu_settle(world_.core());
  EXPECT_TRUE(AllRight());
}

TEST_F(Chains, KnobRawlate) {
  world_.knobs().rawlate = 1;
  EXPECT_EQ(Run(WaitChain(blocks_)), kDone);
  EXPECT_TRUE(Right(0));
  EXPECT_FALSE(Right(1));
  EXPECT_FALSE(Untouched(1));
  // Blocks that do not depend on each other do not notice.
  blocks_[1].a = blocks_[2].a = kA;
  for (u32 i = 1; i < kLength; i++) {
    expected_[i] = Reference(blocks_[i], world_.At(kA).bytes, Weights(i));
  }
  EXPECT_EQ(Run(WaitChain(blocks_)), kDone);
  EXPECT_TRUE(AllRight());
}

TEST_F(Chains, LateKnobsKeepNativeOutputsInOrder) {
  for (auto& block : blocks_) block.layout = Layout::kNative;
  for (const u32 first : {kA, kC, kC + 0x10000}) {
    world_.At(first).bytes.resize(kM * kSize + 48 * kM);
  }
  world_.knobs().late = 1;
  EXPECT_EQ(Run(Single(blocks_[0])), kDone);
  npu_settle(world_.core());
  auto output = *outputs_[0];
  output.resize(kM * kSize);
  EXPECT_EQ(output, Reference(blocks_[0], world_.At(kA).bytes, Weights(0)));
}

TEST_F(Chains, LateKnobsNeedScratch) {
  world_.ops().scratch = nullptr;
  world_.knobs().late = 1;
  EXPECT_EQ(Run(WaitChain(blocks_)), NPU_EV_STUCK);
  EXPECT_EQ(world_.fault().code, NPU_FAULT_NO_SCRATCH);
}

TEST_F(Chains, ResetForgetsWhatIsHeldBack) {
  world_.knobs().late = 1;
  EXPECT_EQ(Run(Single(blocks_[0])), kDone);
  npu_reset(world_.core());
  npu_settle(world_.core());
  EXPECT_TRUE(Untouched(0));
}

TEST_F(Chains, KnobBad) {
  world_.knobs().bad = 1;
  EXPECT_EQ(Run(Single(blocks_[0])), kDone);
  for (std::size_t i = 0; i < expected_[0].size(); i += 4) expected_[0][i] ^= 1;
  EXPECT_TRUE(Right(0));
}

TEST_F(Chains, KnobDrop) {
  world_.knobs().drop = 1;
  EXPECT_EQ(Run(WaitChain(blocks_)), NPU_EV_STUCK);
  EXPECT_EQ(TasksDone(), 0u);
  EXPECT_EQ(world_.counters().starts, 1u);
  EXPECT_EQ(world_.counters().words, 0u);
  EXPECT_TRUE(npu_busy(world_.core()));
  // Only a reset cures it.
  world_.knobs().drop = 0;
  EXPECT_EQ(Run(WaitChain(blocks_)), NPU_EV_STUCK);
  npu_reset(world_.core());
  EXPECT_EQ(Run(WaitChain(blocks_)), kDone);
  EXPECT_TRUE(AllRight());
}

TEST_F(Chains, KnobStuck) {
  world_.knobs().stuck = 1;
  world_.knobs().stuck_after = 1;
  EXPECT_EQ(Run(WaitChain(blocks_)), NPU_EV_STUCK);
  EXPECT_TRUE(Right(0));
  EXPECT_TRUE(Untouched(1));
  EXPECT_EQ(npu_step(world_.core()), NPU_EV_STUCK);
  EXPECT_EQ(world_.status, 0u);
  EXPECT_EQ(world_.fault().code, NPU_FAULT_NONE);
}

TEST_F(Chains, KnobCold) {
  world_.knobs().cold = 1;
  for (int round = 0; round < 2; round++) {
    Forget();
    EXPECT_EQ(Run(Single(blocks_[0])), kDone);
    EXPECT_TRUE(Untouched(0));
    EXPECT_EQ(Run(Single(blocks_[0])), kDone);
    EXPECT_TRUE(Right(0));
    npu_reset(world_.core());
  }
}

TEST_F(Chains, KnobWrongStatus) {
  world_.knobs().wrong_status = 0x1000;
  EXPECT_EQ(Run(Single(blocks_[0])), kDone);
  EXPECT_EQ(world_.status, 0x1000u);
  EXPECT_TRUE(Right(0));
}

// ---- DMA errors ----

struct Unmapped {
  npu_access kind;
  u32 iova;
  u32 status;
  u32 reg;
};

class DmaErrors : public testing::TestWithParam<Unmapped> {};

TEST_P(DmaErrors, EndTheJobWithAnotherStatus) {
  const auto& [kind, iova, status, reg] = GetParam();
  for (const bool shorter : {false, true}) {
    Bench bench({.m = 4, .k = 64, .n = 32});
    const Program program = Single(bench.mm);
    bench.world.Load(program);
    auto& region = bench.world.At(iova);
    const Bytes whole = region.bytes;
    if (shorter) {
      region.bytes.pop_back();
    } else {
      (kind == NPU_OUTPUT ? region.writable : region.readable) = false;
    }
    EXPECT_EQ(bench.world.Run(program), kDone);
    EXPECT_EQ(bench.world.status, status);
    EXPECT_EQ(bench.world.fault().code,
              u32{kind == NPU_OUTPUT ? NPU_FAULT_DMA_WRITE : NPU_FAULT_DMA_READ});
    EXPECT_EQ(bench.world.fault().reg, reg);
    EXPECT_EQ(bench.world.fault().value, iova);
    EXPECT_EQ(bench.world.counters().blocks, 0u);
    EXPECT_FALSE(npu_busy(bench.world.core()));
    // The core is as good as before.
    region.bytes = whole;
    region.readable = region.writable = true;
    EXPECT_EQ(bench.world.Run(program), kDone);
    EXPECT_EQ(bench.world.fault().code, NPU_FAULT_NONE);
    EXPECT_EQ(bench.c, bench.expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Model, DmaErrors,
                         testing::Values(Unmapped{NPU_FETCH, kProgram, 0x1000, 0x10},
                                         Unmapped{NPU_FEATURE, kA, 0x1000, 0x1070},
                                         Unmapped{NPU_WEIGHT, kB, 0x1000, 0x1110},
                                         Unmapped{NPU_OUTPUT, kC, 0x2000, 0x4020}));

TEST_F(Chains, AnErrorInTheMiddleNamesItsBlock) {
  world_.At(blocks_[1].c).writable = false;
  EXPECT_EQ(Run(WaitChain(blocks_)), kDone);
  EXPECT_TRUE(Right(0));
  EXPECT_TRUE(Untouched(2));
  EXPECT_EQ(world_.fault().block, 1u);
  EXPECT_EQ(world_.fault().word, kBlock + 109);
}

// ---- what the model does not judge ----

class Faults : public testing::TestWithParam<std::pair<std::uint64_t, npu_fault_code>> {};

TEST_P(Faults, StopTheCore) {
  const auto& [entry, code] = GetParam();
  Bench bench({.m = 4, .k = 64, .n = 32});
  Program program = Body(bench.mm);
  program.push_back(entry);
  program += Tail();
  EXPECT_EQ(bench.Run(program), NPU_EV_STUCK);
  EXPECT_EQ(bench.world.fault().code, code);
  EXPECT_EQ(bench.world.fault().value, static_cast<u32>(entry >> 16));
  EXPECT_EQ(bench.c, Bytes(bench.c.size(), 0xcc));
  EXPECT_TRUE(npu_busy(bench.world.core()));
  npu_reset(bench.world.core());
  EXPECT_EQ(bench.Run(Single(bench.mm)), kDone);
  EXPECT_EQ(bench.c, bench.expected);
}

std::vector<std::pair<std::uint64_t, npu_fault_code>> Unjudged() {
  std::vector<std::pair<std::uint64_t, npu_fault_code>> list;
  for (const auto entry :
       {Entry(0x0000, 0x1024, 0), Entry(0x0401, 0x2004, 0), Entry(0x0201, 0x3010, 1),
        Entry(0x1001, 0x1070, 0), Entry(0x0101, 0x1010, 0), Entry(0x0041, 0, 1),
        Entry(0x0081, 0x000c, 0x0d), Entry(0x1234, 0x4020, 0), Entry(0x2001, 0x4020, 0)}) {
    list.emplace_back(entry, NPU_FAULT_BAD_ENTRY);
  }
  for (const auto entry : {Reg(0x1200, 0), Reg(0x1000, 0), Reg(0x1022, 0), Reg(0x3020, 0),
                           Reg(0x408c, 0), Entry(0x0101, 0x18, 0)}) {
    list.emplace_back(entry, NPU_FAULT_UNKNOWN_REG);
  }
  for (const auto entry : {Entry(0x2001, 0x5018, 0),
                           Entry(0x4001, 0x6070, 0),
                           Entry(0x8001, 0x701c, 0),
                           Entry(0x0101, 0x08, 1),
                           Entry(0x0081, 8, 0x18),
                           Entry(0x0081, 8, 0x1d),
                           Entry(0x0081, 8, 0x05),
                           Reg(0x4004, 0x1e),
                           Reg(0x1008, 1),
                           Reg(0x4008, 1),
                           Reg(0x1090, 1),
                           Reg(0x300c, 1),
                           Reg(0x100c, 1u << 29 | 0x10),  // another precision
                           Reg(0x100c, 1u << 30),
                           Reg(0x1010, 0x51),
                           Reg(0x1014, 0x10000009),  // co-work
                           Reg(0x1024, 0x003f0060),
                           Reg(0x1024, 0x002f0030),  // K not a multiple of 32
                           Reg(0x1028, 2),
                           Reg(0x102c, 5),
                           Reg(0x1038, 0x01010021),
                           Reg(0x1040, 0xb2),  // 13 banks
                           Reg(0x1040, 0x1000b1),
                           Reg(0x1060, 1),  // FC skip
                           Reg(0x1070, kA + 8),
                           Reg(0x1080, 0x10000000),
                           Reg(0x1084, 0x00010005),
                           Reg(0x1084, 0x00020004),
                           Reg(0x1088, 65),
                           Reg(0x1100, 1),  // decompression
                           Reg(0x117c, 1),
                           Reg(0x3010, 0x201),
                           Reg(0x3014, 0x00040000),
                           Reg(0x3018, 63),
                           Reg(0x400c, 0x1e5),
                           Reg(0x4010, 0xa0000000),  // fp32 from int8
                           Reg(0x4010, 0x80000002),
                           Reg(0x4030, 1),
                           Reg(0x4034, 4),
                           Reg(0x4038, 0x00070000),
                           Reg(0x403c, 0x001f003f),
                           Reg(0x4040, 0x52),  // BS
                           Reg(0x4050, 0x36e),
                           Reg(0x4058, 63),
                           Reg(0x405c, 0x00040000),
                           Reg(0x4060, 0),      // BN
                           Reg(0x4070, 0x382),  // EW
                           Reg(0x4080, 1),
                           Reg(0x4084, 2),
                           Reg(0x4084, 0x10001),
                           Reg(0x4088, 1),
                           Reg(0x412c, 1)}) {  // LUT
    list.emplace_back(entry, NPU_FAULT_UNSUPPORTED);
  }
  return list;
}

TEST_F(Chains, UnitsThatDisagreeAreNotJudged) {
  for (const auto& [entry, reg] :
       {std::pair{Reg(0x100c, 1u << 29 | 0x120), 0x3010u}, {Reg(0x1020, 0x00010005), 0x102cu}}) {
    Program program = Body(blocks_[0]);
    program.push_back(entry);
    program += Tail();
    EXPECT_EQ(Run(program), NPU_EV_STUCK);
    EXPECT_EQ(world_.fault().code, NPU_FAULT_UNSUPPORTED);
    EXPECT_EQ(world_.fault().reg, reg);
    npu_reset(world_.core());
  }
}

INSTANTIATE_TEST_SUITE_P(Model, Faults, testing::ValuesIn(Unjudged()));

TEST_F(Chains, AProgramThatLaunchesNothingHangs) {
  EXPECT_EQ(Run(Body(blocks_[0])), NPU_EV_STUCK);
  EXPECT_EQ(world_.fault().code, NPU_FAULT_NO_OP);
  EXPECT_EQ(world_.status, 0u);
  EXPECT_EQ(TasksDone(), 0u);
}

TEST_F(Chains, TasksWithoutAProgramHang) {
  EXPECT_EQ(Run(Single(blocks_[0]), 2), NPU_EV_STUCK);
  EXPECT_EQ(world_.fault().code, NPU_FAULT_NO_NEXT);
  EXPECT_EQ(TasksDone(), 1u);
  EXPECT_TRUE(Right(0));
}

TEST_F(Chains, AStartWhileBusyIsLost) {
  const Program program = Single(blocks_[0]);
  world_.Load(program);
  const npu_job job{kProgram, 55, 0x300, 1, 0};
  npu_start(world_.core(), &job);
  EXPECT_EQ(npu_step(world_.core()), NPU_EV_BLOCK);
  npu_write(world_.core(), NPU_PC_OP_ENABLE, 1);
  EXPECT_EQ(npu_run(world_.core()), kDone);
  EXPECT_EQ(npu_run(world_.core()), NPU_EV_IDLE);
  EXPECT_EQ(world_.counters().starts, 2u);
  EXPECT_EQ(world_.counters().blocks, 1u);
}

TEST_F(Chains, WithoutTheDriversPointersNothingNewIsLaunched) {
  const Program program = Single(blocks_[0]);
  world_.Load(program);
  for (const auto& [reg, value] : {std::pair{0x1004u, 0xeu},
                                   {0x10u, kProgram},
                                   {0x14u, 55u},
                                   {0x20u, 0x300u},
                                   {0x30u, 0x6001u},
                                   {0x08u, 1u}}) {
    npu_write(world_.core(), reg, value);
  }
  // Power-on state of the other group: nothing that the model could compute.
  EXPECT_EQ(npu_run(world_.core()), NPU_EV_STUCK);
  EXPECT_EQ(world_.fault().code, NPU_FAULT_UNSUPPORTED);
  EXPECT_TRUE(Untouched(0));

  // After a job it is that job's last block again: its pointers were good for it alone.
  npu_reset(world_.core());
  EXPECT_EQ(Run(Single(blocks_[0])), kDone);
  Forget();
  world_.Load(Single(blocks_[1]));
  for (const u32 reg : {0x1004u, 0x3004u}) {
    EXPECT_EQ(npu_read(world_.core(), reg) & 0xe, 0u);
  }
  npu_write(world_.core(), NPU_PC_DATA_AMOUNT, 55);
  npu_write(world_.core(), NPU_PC_OP_ENABLE, 1);
  EXPECT_EQ(npu_run(world_.core()), kDone);
  EXPECT_TRUE(Right(0));
  EXPECT_TRUE(Untouched(1));
}

TEST(Window, ReadsBackWhatWasWritten) {
  World world;
  npu_write(world.core(), 0x1070, 0x12345670);
  npu_write(world.core(), 0x4020, 0x89abcde0);
  npu_write(world.core(), 0x5018, 1);
  npu_write(world.core(), NPU_PC_DATA_AMOUNT, 0x12345);
  EXPECT_EQ(npu_read(world.core(), 0x1070), 0x12345670u);
  EXPECT_EQ(npu_read(world.core(), 0x4020), 0x89abcde0u);
  EXPECT_EQ(npu_read(world.core(), 0x5018), 0u);
  EXPECT_EQ(npu_read(world.core(), NPU_PC_DATA_AMOUNT), 0x2345u);
  npu_poison(world.core(), 0xdead);
  EXPECT_EQ(npu_read(world.core(), 0x1070), 0xdeadu);
  EXPECT_NE(npu_read(world.core(), NPU_PC_VERSION), 0u);
  EXPECT_EQ(npu_read(world.core(), 0xfff0), 0u);
}

TEST(FaultTexts, AllDiffer) {
  std::vector<std::string> texts;
  for (u32 code = 0; code <= NPU_FAULT_NO_SCRATCH + 1; code++) {
    EXPECT_THAT(texts, testing::Not(testing::Contains(npu_fault_text(code))));
    texts.emplace_back(npu_fault_text(code));
  }
}

}  // namespace
}  // namespace rkchain::model_test

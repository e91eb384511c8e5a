// SPDX-License-Identifier: MIT
//
// The software NPU: one matmul at a time, against plain loops and silicon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "unit/model_world.hpp"

namespace rkchain::model_test {
namespace {

TEST(Golden, SiliconWroteTheSame) {
  std::ifstream file(std::string(RKCHAIN_VECTORS_DIR) + "/int8_4x32x32.json");
  const auto json = nlohmann::json::parse(file);
  const auto bytes = [&](const char* key) {
    const auto hex = json.at(key).get<std::string>();
    Bytes result(hex.size() / 2);
    for (std::size_t i = 0; i < result.size(); i++) {
      result[i] = static_cast<std::uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
    }
    return result;
  };
  const auto iova = [&](const char* key) {
    return static_cast<u32>(std::stoul(json.at("iova").at(key).get<std::string>(), nullptr, 16));
  };
  Program program;
  for (const auto& entry : json.at("regcmd")) {
    program.push_back(std::stoull(entry.get<std::string>(), nullptr, 16));
  }
  World world;
  world.Add(iova("A"), 0).bytes = bytes("A");
  world.Add(iova("B"), 0).bytes = bytes("B");
  const auto expected = bytes("C");
  auto& c = world.Add(iova("C"), expected.size()).bytes;
  world.Load(program);
  EXPECT_EQ(world.Run(program), kDone);
  ASSERT_EQ(c.size(), 128u * 4);
  EXPECT_EQ(c, expected);

  // And the programs of this file are of that kind.
  Matmul mm{.m = 4, .k = 32, .n = 32, .a = iova("A"), .b = iova("B"), .c = iova("C")};
  EXPECT_THAT(Single(mm), testing::UnorderedElementsAreArray(program));
}

class AllTypes : public testing::TestWithParam<std::tuple<Type, Layout>> {
 protected:
  Matmul Make(u32 m, u32 k, u32 n) const {
    return {
        .type = std::get<0>(GetParam()), .layout = std::get<1>(GetParam()), .m = m, .k = k, .n = n};
  }
};

TEST_P(AllTypes, EqualsPlainLoops) {
  const std::vector<std::array<u32, 3>> shapes = {{1, 32, 32},   {2, 64, 96},  {4, 32, 32},
                                                  {7, 160, 32},  {67, 64, 64}, {130, 96, 32},
                                                  {64, 512, 64}, {3, 4096, 32}};
  for (const auto& [m, k, n] : shapes) {
    for (const bool fast : {false, true}) {
      SCOPED_TRACE(testing::Message() << m << " x " << k << " x " << n << " fast " << fast);
      Matmul mm = Make(m, k, n);
      // A whole tensor of H = M rows is native memory only where the strides say so.
      if (mm.layout == Layout::kColumn && m % 4 != 0 && m != 1) continue;
      Bench bench(mm, fast);
      EXPECT_EQ(bench.Run(Single(mm)), kDone);
      EXPECT_EQ(bench.world.fault().code, NPU_FAULT_NONE);
      EXPECT_EQ(bench.c, bench.expected);
      EXPECT_EQ(bench.world.counters().macs, u64{m} * k * n);
    }
  }
}

TEST_P(AllTypes, PoisonDoesNotMatter) {
  const Matmul mm = Make(12, 96, 64);
  for (const u32 pattern : {0xffffffffu, 0x5a5a5a5au}) {
    Bench bench(mm);
    npu_poison(bench.world.core(), pattern);
    EXPECT_EQ(bench.Run(Single(mm)), kDone);
    EXPECT_EQ(bench.c, bench.expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Model, AllTypes,
    testing::Combine(testing::Values(Type::kI8I32, Type::kI8I8, Type::kF16F32, Type::kF16F16),
                     testing::Values(Layout::kFlat, Layout::kNative, Layout::kColumn)));

TEST(Matmuls, SlicesOfANativeTensor) {
  for (const Type type : {Type::kI8I32, Type::kF16F16}) {
    Matmul whole{.type = type, .layout = Layout::kNative, .m = 13, .k = 64, .n = 64};
    Bench bench(whole);
    for (const auto& [first, rows] : {std::pair{0u, 8u}, std::pair{8u, 5u}}) {
      Matmul slice = whole;
      slice.m = rows;
      slice.total = 13;
      slice.a += 16 * first;
      slice.c += 16 * first;
      const Program program = Single(slice);
      auto& region = bench.world.Add(0x20000 + 0x1000 * first, program.size() * 8);
      std::memcpy(region.bytes.data(), program.data(), region.bytes.size());
      const npu_job job{static_cast<u32>(region.iova), 55, 0x300, 1, 0};
      npu_start(bench.world.core(), &job);
      EXPECT_EQ(npu_run(bench.world.core()), kDone);
      npu_write(bench.world.core(), NPU_PC_INT_CLEAR, 0x1ffff);
    }
    EXPECT_EQ(bench.c, bench.expected);
  }
}

TEST(Matmuls, FlatRowsFurtherApart) {
  Matmul mm{.m = 5, .k = 64, .n = 64};
  Bench bench(mm);
  auto& wide = bench.world.Add(0x500000, 5 * 512).bytes;
  Program program = Single(mm);
  for (auto& entry : program) {
    if ((entry & 0xffff) == 0x4020) entry = Reg(0x4020, 0x500000);
    if ((entry & 0xffff) == 0x4038) entry = Reg(0x4038, 0x001f001f);  // 512 bytes
  }
  EXPECT_EQ(bench.Run(program), kDone);
  for (u32 row = 0; row < 5; row++) {
    EXPECT_EQ(std::memcmp(&wide[row * 512], &bench.expected[row * 256], 256), 0);
    EXPECT_EQ(wide[row * 512 + 256], 0xcc);
  }
  // Per kernel group one run for each row.
  const auto writes = std::ranges::count(bench.world.trace, Access{NPU_OUTPUT, 0x500200, 128});
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(bench.world.trace.size(), 3u + 2 * 5);
}

TEST(Matmuls, Int8OutputIsScaledAndSaturated) {
  Matmul mm{.type = Type::kI8I8, .m = 4, .k = 64, .n = 32};
  Bench bench(mm);
  Program program = Single(mm);
  for (auto& entry : program) {
    if ((entry & 0xffff) == 0x4080) entry = Reg(0x4080, static_cast<u32>(-5));
    if ((entry & 0xffff) == 0x4084) entry = Reg(0x4084, 0xfffd);  // -3
    if ((entry & 0xffff) == 0x4088) entry = Reg(0x4088, 1);
  }
  EXPECT_EQ(bench.Run(program), kDone);
  mm.type = Type::kI8I32;
  const Bytes sums = Reference(mm, bench.a, bench.b);
  for (u32 i = 0; i < 4 * 32; i++) {
    std::int32_t sum;
    std::memcpy(&sum, &sums[4 * i], 4);
    const int expected = std::clamp(static_cast<int>(std::floor(sum * -3 / 2.0)) - 5, -128, 127);
    ASSERT_EQ(static_cast<std::int8_t>(bench.c[i]), expected);
  }
}

TEST(Matmuls, RowsThatDoNotFitAreStreamed) {
  for (const bool fast : {false, true}) {
    Matmul mm{.m = 200, .k = 512, .n = 64};
    Bench bench(mm, fast);
    EXPECT_EQ(bench.Run(With(mm, 0x1040, 0xb1)), kDone);
    EXPECT_EQ(bench.c, bench.expected);
    EXPECT_EQ(bench.world.counters().bytes[NPU_FEATURE], 2 * mm.SizeA());
  }
  // Rows that memory keeps together come together.
  Matmul column{.layout = Layout::kColumn, .m = 200, .k = 640, .n = 64};
  Bench columns(column);
  EXPECT_EQ(columns.Run(With(column, 0x1040, 0xb1)), kDone);
  EXPECT_EQ(columns.c, columns.expected);
  EXPECT_EQ(columns.world.counters().bytes[NPU_FEATURE], 2u * 200 * 640);
  // One row that does not fit is lost.
  Matmul mm{.layout = Layout::kNative, .m = 200, .k = 512, .n = 64};
  Bench bench(mm);
  EXPECT_EQ(bench.Run(With(mm, 0x1040, 0xb1)), kDone);
  EXPECT_NE(bench.c, bench.expected);
}

TEST(Matmuls, ProgramsOfOtherGenerators) {
  Matmul mm{.m = 4, .k = 64, .n = 32};
  Bench bench(mm);
  Program program = With(mm, 0x4050, 0x7fe);
  *std::find(program.begin(), program.end(), Reg(0x3010, 1)) = Reg(0x3010, 0);
  program.erase(program.begin(), program.begin() + 4);
  EXPECT_EQ(bench.Run(program), kDone);
  EXPECT_EQ(bench.c, bench.expected);
}

// ---- what was not fetched ----

struct Incomplete {
  u32 reg;
  u32 value;
};

class Stale : public testing::TestWithParam<Incomplete> {};

// What such a program computes depends on the client before it.
TEST_P(Stale, ComesFromTheEarlierClient) {
  const Matmul mm{.m = 12, .k = 128, .n = 64};
  for (const bool fast : {false, true}) {
    std::array<Bytes, 2> results;
    for (const std::size_t i : {0, 1}) {
      Bench bench(mm, fast);
      npu_poison(bench.world.core(), i == 0 ? 0x01010101 : 0x7f030201);
      EXPECT_EQ(bench.Run(With(mm, GetParam().reg, GetParam().value)), kDone);
      EXPECT_NE(bench.c, bench.expected);
      results[i] = bench.c;
    }
    EXPECT_NE(results[0], results[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Model, Stale,
                         testing::Values(Incomplete{0x1088, 64},           // channels
                                         Incomplete{0x1084, 1 << 16 | 6},  // rows
                                         Incomplete{0x1044, 1},            // bytes of a row
                                         Incomplete{0x1010, 0},            // grains
                                         Incomplete{0x1030, 2048},         // weights
                                         Incomplete{0x1034, 64},           // of a kernel
                                         Incomplete{0x1040, 0x10b1},       // reuse features
                                         Incomplete{0x1040, 0x20b1},       // reuse weights
                                         Incomplete{0x1040, 0x0001}));     // none for weights

TEST(Cbuf, ShowsTheLastKernelGroupThatWasRead) {
  // The model may use weights where they are; what it leaves behind must not tell.
  const Matmul mm{.m = 3, .k = 128, .n = 96};
  Bench bench(mm);
  bench.Run(Single(mm));
  const auto last_group = [&](u32 row, u32 n) { return &bench.expected[mm.AtC(row, 64 + n % 32)]; };
  for (const auto& [reg, value, stale_from] : {std::tuple{0x1040u, 0x20b1u, 0u},  // reuse weights
                                               {0x1030u, 128u * 64, 64u}}) {  // none for the last
    bench.Run(Single(mm));
    bench.Run(With(mm, reg, value));
    for (u32 n = stale_from; n < mm.n; n++) {
      const u32 row = n % mm.m;
      const auto* expected =
          stale_from == 0 ? last_group(row, n) : &bench.expected[mm.AtC(row, 32 + n % 32)];
      EXPECT_EQ(std::memcmp(&bench.c[mm.AtC(row, n)], expected, 4), 0) << n;
    }
  }
}

TEST(Registers, KeepWhatAnEarlierJobWrote) {
  const Matmul mm{.m = 4, .k = 64, .n = 32};
  Bench bench(mm);
  // Both groups are written once; the third job finds its own registers in the first.
  bench.Run(Single(mm));
  bench.Run(Single(mm));
  std::fill(bench.c.begin(), bench.c.end(), 0);
  Program program = {Reg(0x4004, 0xe)};
  program += Tail();
  bench.world.Load(program, 0x20000);
  const npu_job job{0x20000, 2, 0x300, 1, 0};
  npu_start(bench.world.core(), &job);
  EXPECT_EQ(npu_run(bench.world.core()), kDone);
  EXPECT_EQ(bench.c, bench.expected);
}

// ---- what is touched ----

TEST(Trace, FlatIsExact) {
  const Matmul mm{.m = 5, .k = 64, .n = 96};
  Bench bench(mm);
  bench.Run(Single(mm));
  EXPECT_THAT(
      bench.world.trace,
      testing::ElementsAre(Access{NPU_FETCH, kProgram, 896}, Access{NPU_WEIGHT, kB, 64 * 96},
                           Access{NPU_FEATURE, kA, 5 * 64}, Access{NPU_OUTPUT, kC, 5 * 96 * 4}));
  EXPECT_EQ(bench.world.counters().bytes[NPU_OUTPUT], 5u * 96 * 4);
  EXPECT_EQ(bench.world.counters().words, 112u);
}

TEST(Trace, NativeReadsRowsUpToAMultipleOfFour) {
  for (const u32 m : {1u, 5u, 8u}) {
    const Matmul mm{.layout = Layout::kNative, .m = m, .k = 64, .n = 32};
    Bench bench(mm);
    bench.Run(Single(mm));
    EXPECT_EQ(bench.world.trace[2], (Access{NPU_FEATURE, kA, m * 64 + 48 * m}));
    EXPECT_EQ(bench.world.trace.size(), 4u);
  }
}

TEST(Trace, SlicesAreSeparateRuns) {
  const Matmul mm{
      .type = Type::kI8I8, .layout = Layout::kNative, .m = 3, .k = 32, .n = 32, .total = 9};
  Bench bench(mm);
  bench.Run(Single(mm));
  bench.world.trace.erase(bench.world.trace.begin(), bench.world.trace.begin() + 2);
  EXPECT_THAT(bench.world.trace,
              testing::ElementsAre(Access{NPU_FEATURE, kA, 48}, Access{NPU_FEATURE, kA + 144, 48},
                                   Access{NPU_OUTPUT, kC, 48}, Access{NPU_OUTPUT, kC + 144, 48}));
}

TEST(Trace, StridesMayBeNegative) {
  const Matmul mm{.k = 64, .a = kA + 48};
  Program program = With(mm, 0x1080, 0x0ffffffe);  // slices 16 bytes down
  Bench bench(mm);
  EXPECT_EQ(bench.Run(program), kDone);
  EXPECT_EQ(bench.world.trace[2], (Access{NPU_FEATURE, kA, 64}));
  Bytes turned;
  for (int slice = 3; slice >= 0; slice--) {
    turned.insert(turned.end(), &bench.a[16 * slice], &bench.a[16 * slice] + 16);
  }
  EXPECT_EQ(bench.c, Reference(mm, turned, bench.b));
}

TEST(Trace, WeightsAreRoundedUp) {
  const Matmul mm{.k = 64};
  Bench bench(mm);
  bench.b.resize(mm.SizeB() + 64);
  EXPECT_EQ(bench.Run(With(mm, 0x1030, 64 * 32 + 1)), kDone);
  EXPECT_EQ(bench.world.trace[1], (Access{NPU_WEIGHT, kB, 64 * 32 + 64}));
  EXPECT_EQ(bench.c, bench.expected);
}

// ---- int8 ----

TEST(DotI8, EveryInstructionSetEqualsPlainC) {
  std::mt19937 random(3);
  const auto draw = [&](u32 low, u32 high) {
    return std::uniform_int_distribution<u32>(low, high)(random);
  };
  for (std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS; targets != 0;
       targets &= targets - 1) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (int round = 0; round < 60; round++) {
      const u32 pixels = draw(1, 20), k = 32 * draw(1, 40), stride = k + 32 * draw(0, 2);
      std::vector<s8> feature(pixels * stride), weight(32 * k);
      // Rounds of extremes: sums of products of -128 are what saturates in vector arithmetic.
      const auto next = [&] {
        return static_cast<s8>(round % 3 != 0 ? random() : random() % 8 ? -128 : 127);
      };
      std::generate(feature.begin(), feature.end(), next);
      std::generate(weight.begin(), weight.end(), next);
      std::vector<s32> expected(pixels * 32), got(pixels * 32);
      npu_dot_i8(expected.data(), feature.data(), stride, weight.data(), pixels, k);
      model_dot_i8(got.data(), feature.data(), stride, weight.data(), pixels, k);
      ASSERT_EQ(got, expected) << hwy::TargetName(targets & -targets) << " " << pixels << " " << k;
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(DotI8, PlainCEqualsLoops) {
  constexpr u32 k = 96, pixels = 2;
  std::mt19937 random(4);
  std::vector<s8> feature(pixels * k), weight(32 * k);
  std::generate(feature.begin(), feature.end(), [&] { return static_cast<s8>(random()); });
  std::generate(weight.begin(), weight.end(), [&] { return static_cast<s8>(random()); });
  std::vector<s32> got(pixels * 32);
  npu_dot_i8(got.data(), feature.data(), k, weight.data(), pixels, k);
  for (u32 p = 0; p < pixels; p++) {
    for (u32 n = 0; n < 32; n++) {
      s32 sum = 0;
      for (u32 i = 0; i < k; i++) {
        sum += feature[p * k + i] * weight[i / 32 * 1024 + n * 32 + i % 32];
      }
      EXPECT_EQ(got[p * 32 + n], sum);
    }
  }
}

// ---- fp16 ----

double HalfValue(u32 h) {
  const int exponent = static_cast<int>(h >> 10 & 31);
  const double mantissa = h & 0x3ff;
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  return h & 0x8000 ? -value : value;
}

u32 Bits(double value) { return std::bit_cast<u32>(static_cast<float>(value)); }

TEST(Fp16, ConversionsOfEveryFiniteHalf) {
  for (u32 h = 0; h < 0x7c00; h++) {
    for (const u32 sign : {0u, 0x8000u}) {
      const auto half = static_cast<u16>(h | sign);
      ASSERT_EQ(npu_f16_to_f32(half), Bits(HalfValue(half)) | (h == 0 ? sign << 16 : 0));
      ASSERT_EQ(npu_f32_to_f16(npu_f16_to_f32(half)), half);
      // Half way to the next one: to even; a little less or more: to the nearer.
      const double next = h == 0x7bff ? 65536 : HalfValue(h + 1);
      const auto middle = static_cast<float>((HalfValue(h) + next) / 2);
      const auto below = std::nextafter(middle, 0.0f);
      const auto above = std::nextafter(middle, std::numeric_limits<float>::infinity());
      ASSERT_EQ(npu_f32_to_f16(Bits(middle) | sign << 16), sign | (h + (h & 1)));
      ASSERT_EQ(npu_f32_to_f16(Bits(below) | sign << 16), sign | h);
      ASSERT_EQ(npu_f32_to_f16(Bits(above) | sign << 16), sign | (h + 1));
    }
  }
  EXPECT_EQ(npu_f16_to_f32(0x7c00), 0x7f800000u);
  EXPECT_EQ(npu_f16_to_f32(0xfc01), 0xffc02000u);
  EXPECT_EQ(npu_f32_to_f16(0xff800000), 0xfc00u);
  EXPECT_EQ(npu_f32_to_f16(0x7f800001), 0x7e00u);
  EXPECT_EQ(npu_f32_to_f16(0x00000001), 0u);
  EXPECT_EQ(npu_f32_to_f16(0xff7fffff), 0xfc00u);
}

// One sum of products, as fp32 bits and as an fp16 output.
struct Sum {
  u32 single;
  u32 half;
};

Sum SumOf(const std::vector<std::pair<u16, u16>>& products) {
  Sum sum{};
  for (const Type type : {Type::kF16F32, Type::kF16F16}) {
    const Matmul mm{.type = type, .k = 64, .n = 16};
    Bench bench(mm);
    std::fill(bench.a.begin(), bench.a.end(), 0);
    std::fill(bench.b.begin(), bench.b.end(), 0);
    for (u32 i = 0; i < products.size(); i++) {
      const u32 k = i * 37 % 64;  // in both blocks of 32 channels
      std::memcpy(&bench.a[mm.AtA(0, k)], &products[i].first, 2);
      std::memcpy(&bench.b[mm.AtB(k, 5)], &products[i].second, 2);
    }
    EXPECT_EQ(bench.Run(Single(mm)), kDone);
    std::memcpy(type == Type::kF16F32 ? &sum.single : &sum.half, &bench.c[mm.AtC(0, 5)],
                mm.out_size());
    // The neighbours got none of it.
    u32 other = 0;
    std::memcpy(&other, &bench.c[mm.AtC(0, 4)], mm.out_size());
    EXPECT_TRUE(other == 0 || (products[0].first & 0x7c00) == 0x7c00);
  }
  return sum;
}

TEST(Fp16, SumsAreExactAndRoundedOnce) {
  const u16 one = 0x3c00, two12 = 0x6c00, tiny = 0x0001, big = 0x7bff;
  EXPECT_EQ(SumOf({{two12, two12}, {one, one}}).single, Bits(16777216));     // tie, to even
  EXPECT_EQ(SumOf({{two12, two12}, {one, 0x4200}}).single, Bits(16777220));  // tie, to even
  EXPECT_EQ(SumOf({{two12, two12}, {one, one}, {tiny, tiny}}).single, Bits(16777218));
  EXPECT_EQ(SumOf({{big, big}, {tiny, tiny}, {big, 0xfbff}}).single, Bits(std::ldexp(1, -48)));
  EXPECT_EQ(SumOf({{tiny, 0x8001}}).single, Bits(-std::ldexp(1, -48)));
  EXPECT_EQ(SumOf({{big, big}, {big, big}}).single, Bits(2 * 65504.0 * 65504.0));
  EXPECT_EQ(SumOf({{one, one}, {one, 0xbc00}}).single, 0u);
}

TEST(Fp16, OutputIsRoundedOnceMore) {
  const u16 one = 0x3c00, tiny = 0x0001, half = 0x3800;
  EXPECT_EQ(SumOf({{0x7bff, one}, {0x4b80, one}}).half, 0x7bffu);  // 65519
  EXPECT_EQ(SumOf({{0x7bff, one}, {0x4c00, one}}).half, 0x7c00u);  // 65520: a tie, too far
  EXPECT_EQ(SumOf({{0xfbff, one}, {0xfbff, one}}).half, 0xfc00u);
  EXPECT_EQ(SumOf({{tiny, half}}).half, 0x0000u);  // ties of subnormals
  EXPECT_EQ(SumOf({{tiny, half}, {tiny, one}}).half, 0x0002u);
  EXPECT_EQ(SumOf({{0x6800, one}, {one, one}}).half, 0x6800u);  // 2049
  // 2049 + 2^-13 is nearer to 2050, but fp32 has it as 2049: the price of two roundings.
  EXPECT_EQ(SumOf({{0x6800, one}, {one, one}, {0x0800, one}}).half, 0x6800u);
}

TEST(Fp16, NanAndInfinityAreDefined) {
  const u16 one = 0x3c00, inf = 0x7c00;
  EXPECT_EQ(SumOf({{inf, one}, {one, one}}).single, 0x7f800000u);
  EXPECT_EQ(SumOf({{inf, 0xbc00}}).single, 0xff800000u);
  EXPECT_EQ(SumOf({{inf, one}, {inf, 0xbc00}}).single, 0x7fc00000u);
  EXPECT_EQ(SumOf({{inf, 0x0000}}).single, 0x7fc00000u);
  EXPECT_EQ(SumOf({{one, one}, {0x8000, inf}}).single, 0x7fc00000u);
  EXPECT_EQ(SumOf({{0x7e00, one}}).single, 0x7fc00000u);
  EXPECT_EQ(SumOf({{0x7c01, 0x0000}}).half, 0x7e00u);
  EXPECT_EQ(SumOf({{inf, one}}).half, 0x7c00u);
}

}  // namespace
}  // namespace rkchain::model_test

// SPDX-License-Identifier: MIT
#include "src/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "unit/matmul_reference.hpp"

namespace rkchain::detail {
namespace {

using test::thrown_by;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kDims[] = {1,   2,    15,   16,   17,   31,   32,   33,    63,    64,   65,
                                   129, 1000, 1024, 4096, 4097, 8192, 8193, 11008, 16384, 20000};

void expect_covered(const std::vector<Range>& ranges, std::uint32_t total) {
  std::uint32_t next = 0;
  for (const Range& range : ranges) {
    EXPECT_EQ(range.begin, next);
    EXPECT_GT(range.size, 0U);
    next += range.size;
  }
  EXPECT_EQ(next, total);
}

std::vector<Range> ranges_of(const std::vector<Tile>& tiles) {
  std::vector<Range> ranges;
  for (const Tile& tile : tiles) ranges.push_back(tile.range);
  return ranges;
}

TEST(Cut, CoversInTheFewestRanges) {
  for (const std::uint32_t total : kDims) {
    for (const std::uint32_t max : {1U, 7U, 64U, 704U, 8192U}) {
      const auto ranges = cut(total, 1, max);
      expect_covered(ranges, total);
      EXPECT_EQ(ranges.size(), (total + max - 1) / max) << total << " by " << max;
    }
  }
}

TEST(Cut, RangesDifferByOneUnitAtMost) {
  EXPECT_THAT(cut(160, 32, 64), ElementsAre(Range{0, 64}, Range{64, 64}, Range{128, 32}));
  EXPECT_THAT(cut(11008, 32, 4096),
              ElementsAre(Range{0, 3680}, Range{3680, 3680}, Range{7360, 3648}));
}

TEST(Cut, TheLastRangeNeedNotBeAMultiple) {
  EXPECT_THAT(cut(40, 16, 16), ElementsAre(Range{0, 16}, Range{16, 16}, Range{32, 8}));
}

TEST(Cut, TakesTheLargestDimensions) {
  const auto ranges = cut(0xffffffffU, 1, 0x80000000U);
  EXPECT_THAT(ranges, ElementsAre(Range{0, 0x80000000U}, Range{0x80000000U, 0x7fffffffU}));
}

TEST(Divide, GivesAsManyPartsAsThereAreUnits) {
  EXPECT_THAT(divide(64, 32, 3), ElementsAre(Range{0, 32}, Range{32, 32}));
  EXPECT_THAT(divide(128, 32, 3), ElementsAre(Range{0, 64}, Range{64, 32}, Range{96, 32}));
}

TEST(KTiles, ArePaddedAndAtMost4096) {
  for (const std::uint32_t k : kDims) {
    const auto tiles = k_tiles(k);
    expect_covered(tiles, static_cast<std::uint32_t>(round_up(k, 32)));
    for (const Range& tile : tiles) {
      EXPECT_EQ(tile.size % 32, 0U);
      EXPECT_LE(tile.size, 4096U);
      EXPECT_LT(tile.begin, k) << "a tile of padding alone";
    }
  }
}

TEST(Plan, SplitsKInto32BitPartialResults) {
  EXPECT_EQ(plan_matmul({Type::i8_i8, Layout::flat, {1, 4096, 32}}).type, Type::i8_i8);
  EXPECT_EQ(plan_matmul({Type::i8_i8, Layout::flat, {1, 4097, 32}}).type, Type::i8_i32);
  EXPECT_EQ(plan_matmul({Type::f16_f16, Layout::flat, {1, 4097, 32}}).type, Type::f16_f32);
}

TEST(Plan, PadsNToTheKernelGroup) {
  EXPECT_EQ(plan_matmul({Type::i8_i32, Layout::flat, {1, 32, 33}}).np, 64U);
  EXPECT_EQ(plan_matmul({Type::f16_f32, Layout::flat, {1, 32, 33}}).np, 48U);
}

TEST(Plan, PadsFedOnResultsAsOperands) {
  EXPECT_EQ(plan_matmul({Type::f16_f16, Layout::flat, {1, 32, 33}, 1, 0, true}).np, 64U);
}

TEST(Plan, DividesColumnsOverLanes) {
  const auto plan = plan_matmul({Type::i8_i32, Layout::flat, {4, 64, 1000}, 3});
  ASSERT_EQ(plan.n.size(), 3U);
  EXPECT_THAT(ranges_of(plan.n), ElementsAre(Range{0, 352}, Range{352, 352}, Range{704, 320}));
  EXPECT_EQ(plan.n[0].lane, 0U);
  EXPECT_EQ(plan.n[2].lane, 2U);
}

TEST(Plan, SmallResultsUseFewerLanesStartingWhereTheLastOneEnded) {
  const auto plan = plan_matmul({Type::i8_i32, Layout::flat, {1, 32, 33}, 3, 2});
  ASSERT_EQ(plan.n.size(), 2U);
  EXPECT_EQ(plan.n[0].lane, 2U);
  EXPECT_EQ(plan.n[1].lane, 0U);
  EXPECT_EQ(plan.next_lane, 1U);
}

TEST(Plan, FlatFedOnResultsHaveTheirReadersTiles) {
  const auto plan = plan_matmul({Type::i8_i8, Layout::flat, {64, 32, 8192}, 3, 0, true});
  EXPECT_EQ(ranges_of(plan.n), k_tiles(8192));
  EXPECT_TRUE(plan.rows_divided);
  ASSERT_EQ(plan.rows.size(), 3U);
  EXPECT_EQ(plan.rows[1].lane, 1U);
}

TEST(Plan, OneRowCanBeCutAnywhere) {
  const auto plan = plan_matmul({Type::i8_i8, Layout::flat, {1, 32, 128}, 3, 0, true});
  EXPECT_FALSE(plan.rows_divided);
  EXPECT_EQ(plan.n.size(), 3U);
}

/// Every block passes the core's own check, stays inside its three tensors, and the blocks of a
/// flat result tile it.
class PlanBlocks : public ::testing::TestWithParam<std::tuple<Type, Layout, std::uint32_t, bool>> {
 protected:
  void check(const Shape& shape) {
    const auto [type, layout, lanes, fed_on] = GetParam();
    const MatmulPlan plan = plan_matmul({type, layout, shape, lanes, 0, fed_on});
    const std::uint32_t in = rkc_in_bytes(static_cast<u32>(type));
    const Addresses at{0x1000, 0x20001000, 0x60001000};
    std::vector<PlannedBlock> blocks;
    append_tasks(plan, at, blocks);
    ASSERT_EQ(blocks.size(), plan.blocks());

    const std::uint64_t a_end = at.a + operand_bytes("", layout, shape.m, shape.k, in);
    const std::uint64_t b_end =
        at.b + round_up(shape.n, kPadding) * round_up(shape.k, kPadding) * in;
    std::uint64_t macs = 0;
    std::vector<std::pair<u64, u64>> outputs;
    for (const PlannedBlock& block : blocks) {
      rkc_err err{};
      ASSERT_EQ(rkc_matmul_check(&block.task, &err), u32{RKC_OK});
      rkc_extents x{};
      rkc_matmul_extents(&block.task, &x);
      ASSERT_LE(x.a.start + x.a.len, a_end);
      ASSERT_LE(x.b.start + x.b.len, b_end);
      ASSERT_LE(x.c.start + x.c.len, at.c + plan.output_bytes);
      ASSERT_LT(block.lane, lanes);
      macs += std::uint64_t{block.task.m} * block.task.k * block.task.n;
      outputs.emplace_back(x.c.start, x.c.start + x.c.len);
    }
    EXPECT_EQ(macs, std::uint64_t{shape.m} * plan.kp * plan.np);
    if (layout == Layout::native) return;  // row slices interleave
    std::sort(outputs.begin(), outputs.end());
    for (std::size_t i = 1; i < outputs.size(); ++i) {
      ASSERT_LE(outputs[i - 1].second, outputs[i].first);
    }
  }
};

TEST_P(PlanBlocks, PassTheCheckInsideTheirTensors) {
  for (const std::uint32_t m : {1U, 2U, 5U, 64U, 129U, 705U, 1500U}) {
    for (const std::uint32_t k : kDims) {
      for (const std::uint32_t n : kDims) {
        if (std::uint64_t{m} * k > 1U << 23 || std::uint64_t{m} * n > 1U << 23) continue;
        if (std::get<3>(GetParam()) && k > kTaskK) continue;
        SCOPED_TRACE(::testing::Message() << m << " x " << k << " x " << n);
        check({m, k, n});
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlanBlocks,
                         ::testing::Combine(::testing::Values(Type::i8_i32, Type::i8_i8,
                                                              Type::f16_f32, Type::f16_f16),
                                            ::testing::Values(Layout::flat, Layout::native),
                                            ::testing::Values(1U, 2U, 3U), ::testing::Bool()),
                         [](const auto& each) {
                           return std::string(name(std::get<0>(each.param))) + "_" +
                                  std::string(name(std::get<1>(each.param))) + "_" +
                                  std::to_string(std::get<2>(each.param)) +
                                  (std::get<3>(each.param) ? "_fed_on" : "");
                         });

TEST(PlanLimits, TallMatricesBecomeRowTiles) {
  const auto plan = plan_matmul({Type::i8_i32, Layout::flat, {1U << 20, 32, 32}});
  EXPECT_EQ(plan.rows.size(), ((1U << 20) + 703) / 704);
  expect_covered(ranges_of(plan.rows), 1U << 20);
}

TEST(PlanLimits, WideResultsBecomeColumnTiles) {
  const auto plan = plan_matmul({Type::f16_f32, Layout::flat, {1, 32, 1U << 24}});
  EXPECT_EQ(plan.n.size(), 2048U);
  expect_covered(ranges_of(plan.n), 1U << 24);
}

void expect_refused(const PlanRequest& request, const std::string& argument,
                    const std::string& limit) {
  const auto thrown = thrown_by([&] { plan_matmul(request); });
  EXPECT_EQ(thrown.code, Errc::invalid_argument);
  EXPECT_THAT(thrown.text, AllOf(HasSubstr(argument), HasSubstr(limit)));
}

TEST(PlanLimits, ZeroDimensionsAreNamed) {
  expect_refused({Type::i8_i32, Layout::flat, {0, 1, 1}}, "M is 0", "at least 1");
  expect_refused({Type::i8_i32, Layout::flat, {1, 0, 1}}, "K is 0", "at least 1");
  expect_refused({Type::i8_i32, Layout::flat, {1, 1, 0}}, "N is 0", "at least 1");
}

TEST(PlanLimits, HugeOperandsAreNamedWithTheLimit) {
  expect_refused({Type::i8_i32, Layout::flat, {0xffffffffU, 32, 1}}, "M = 4294967295",
                 "4294967296 bytes");
  expect_refused({Type::i8_i32, Layout::flat, {1, 0xffffffffU, 1}}, "K = 4294967296",
                 "4294967296 bytes");
  expect_refused({Type::i8_i32, Layout::flat, {1, 1, 0xffffffffU}}, "N = 4294967296",
                 "4294967296 bytes");
  expect_refused({Type::f16_f16, Layout::native, {0xffffffffU, 0xffffffffU, 0xffffffffU}},
                 "N = 4294967296", "4294967296 bytes");
}

TEST(PlanLimits, HugeResultsAreNamedWithTheLimit) {
  expect_refused({Type::i8_i32, Layout::flat, {1U << 16, 1, 1U << 16}}, "M = 65536",
                 "4294967296 bytes");
}

TEST(PlanLimits, PartialResultsCount) {
  EXPECT_NO_THROW(plan_matmul({Type::i8_i32, Layout::flat, {1U << 15, 4096, 1U << 14}}));
  expect_refused({Type::i8_i32, Layout::flat, {1U << 15, 8192, 1U << 14}}, "2 partial results",
                 "4294967296 bytes");
}

TEST(PlanLimits, NativeRowsAreLimited) {
  EXPECT_NO_THROW(plan_matmul({Type::i8_i8, Layout::flat, {33'554'432, 1, 1}}));
  expect_refused({Type::i8_i8, Layout::native, {33'554'432, 1, 1}}, "M = 33554432",
                 "33554431 rows");
}

}  // namespace
}  // namespace rkchain::detail

// SPDX-License-Identifier: MIT
// Matmuls and chains from end to end.  The same suite runs on every back end: see
// RKCHAIN_TEST_BACKEND.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "rkchain/rkchain.hpp"
#include "unit/library_fixture.hpp"
#include "unit/matmul_reference.hpp"

namespace rkchain::test {
namespace {

// ---- int8, every shape, every element ----

struct Extent {
  std::uint32_t k;
  std::uint32_t n;
};

class Int8 : public Library, public ::testing::WithParamInterface<Extent> {};

TEST_P(Int8, EveryElementIsExact) {
  const auto [k, n] = GetParam();
  const auto b = random_i8(std::size_t{k} * n, 1 + k * 31ULL + n);
  const Projection projection(b, k, n, 5);
  const Weights w = Weights::pack(device(), k, n, b);
  const std::vector<std::uint32_t> rows =
      sampled() ? std::vector<std::uint32_t>{1, 5, 129}
                : std::vector<std::uint32_t>{1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 129};
  for (const std::uint32_t m : rows) {
    if (sampled() && std::uint64_t{m} * k * n > 20'000'000) continue;
    const auto a = random_i8(std::size_t{m} * k, 2 + m);
    std::vector<std::int32_t> c(std::size_t{m} * n);
    matmul(device(), {m, k, n}, a, w, c);
    ASSERT_EQ(projection.first_wrong_row(a, c), m) << m << " rows";
  }
}

std::vector<Extent> extents() {
  if (sampled()) {
    return {{1, 1}, {31, 33}, {64, 32}, {33, 8193}, {1000, 31}, {4096, 16}, {11008, 33}};
  }
  std::vector<Extent> all;
  for (const std::uint32_t k : {1U, 31U, 32U, 33U, 64U, 1000U, 4096U, 11008U}) {
    for (const std::uint32_t n : {1U, 16U, 31U, 32U, 33U, 1000U, 8192U, 8193U})
      all.push_back({k, n});
  }
  return all;
}

std::string extent_name(const ::testing::TestParamInfo<Extent>& each) {
  return "K" + std::to_string(each.param.k) + "_N" + std::to_string(each.param.n);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Int8, ::testing::ValuesIn(extents()), extent_name);

/// The projection has to be able to fail.
TEST(Projection, FindsOneWrongBit) {
  const Shape shape{3, 40, 50};
  const auto a = random_i8(3 * 40, 1);
  const auto b = random_i8(50 * 40, 2);
  auto c = product(a, b, shape);
  const Projection projection(b, 40, 50, 3);
  ASSERT_EQ(projection.first_wrong_row(a, c), 3U);
  for (int bit = 0; bit < 32; ++bit) {
    c[70] ^= static_cast<std::int32_t>(1U << bit);
    EXPECT_EQ(projection.first_wrong_row(a, c), 1U) << "bit " << bit;
    c[70] ^= static_cast<std::int32_t>(1U << bit);
  }
}

// ---- types and layouts ----

class Layouts : public Library, public ::testing::WithParamInterface<Layout> {
 protected:
  static Chain chain() { return Chain(device(), {Strategy::rotate, GetParam()}); }
};
INSTANTIATE_TEST_SUITE_P(Both, Layouts, ::testing::Values(Layout::flat, Layout::native),
                         [](const auto& each) { return std::string(name(each.param)); });

/// Row tiles, K tiles, N tiles, none of them, all of them.
std::vector<Shape> some_shapes() {
  std::vector<Shape> shapes = {{1, 1, 1},    {1, 64, 33},     {3, 31, 31},  {4, 64, 64},
                               {5, 1000, 7}, {129, 1000, 33}, {2, 4100, 40}};
  if (!sampled()) {
    shapes.insert(shapes.end(), {{705, 32, 32}, {1, 32, 8200}, {130, 4100, 100}, {65, 4096, 129}});
  }
  return shapes;
}

std::string text(const Shape& shape) {
  return std::to_string(shape.m) + " x " + std::to_string(shape.k) + " x " +
         std::to_string(shape.n);
}

TEST_P(Layouts, Int8ToInt32) {
  for (const Shape& shape : some_shapes()) {
    const auto a = random_i8(std::size_t{shape.m} * shape.k, 11);
    const auto b = random_i8(std::size_t{shape.n} * shape.k, 12);
    Chain c = chain();
    const Tensor x = c.input(Type::i8_i32, shape.m, shape.k);
    const Tensor y = c.matmul(x, Weights::pack(device(), shape.k, shape.n, b));
    run(c, x, a);
    EXPECT_EQ(read<std::int32_t>(c, y), product(a, b, shape)) << text(shape);
  }
}

TEST_P(Layouts, Int8ToInt8Saturates) {
  for (const Shape& shape : some_shapes()) {
    const auto a = random_i8(std::size_t{shape.m} * shape.k, 13, -3, 3);
    const auto b = random_i8(std::size_t{shape.n} * shape.k, 14, -3, 3);
    Chain c = chain();
    const Tensor x = c.input(Type::i8_i8, shape.m, shape.k);
    const Tensor y = c.matmul(x, Weights::pack(device(), shape.k, shape.n, b), Type::i8_i8);
    run(c, x, a);
    EXPECT_EQ(read<std::int8_t>(c, y), saturated(product(a, b, shape))) << text(shape);
  }
}

TEST_P(Layouts, Fp16WholeNumbersAreExact) {
  for (const Shape& shape : some_shapes()) {
    const auto a = random_whole(std::size_t{shape.m} * shape.k, 15, -8, 8);
    const auto b = random_whole(std::size_t{shape.n} * shape.k, 16, -8, 8);
    const auto want = product(a, b, shape);
    Chain c = chain();
    const Tensor x = c.input(Type::f16_f32, shape.m, shape.k);
    const Weights w = Weights::pack(device(), shape.k, shape.n, b);
    const Tensor wide = c.matmul(x, w);
    const Tensor narrow = c.matmul(x, w, Type::f16_f16);
    run(c, x, a);
    const auto floats = read<float>(c, wide);
    const auto halves = read<Half>(c, narrow);
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(floats[i], want[i]) << text(shape) << " element " << i;
      ASSERT_EQ(halves[i], to_half(static_cast<float>(want[i]))) << text(shape) << " " << i;
    }
  }
}

TEST_P(Layouts, Fp16FractionsAreClose) {
  for (const Shape& shape : {Shape{5, 1000, 33}, Shape{2, 4100, 20}}) {
    const auto a = random_fraction(std::size_t{shape.m} * shape.k, 17);
    const auto b = random_fraction(std::size_t{shape.n} * shape.k, 18);
    const auto want = product(a, b, shape);
    Chain c = chain();
    const Tensor x = c.input(Type::f16_f32, shape.m, shape.k);
    const Tensor y = c.matmul(x, Weights::pack(device(), shape.k, shape.n, b));
    run(c, x, a);
    const auto have = read<float>(c, y);
    for (std::size_t i = 0; i < want.size(); ++i) {
      // K products of at most 1, each sum rounded at most once per product.
      ASSERT_NEAR(have[i], want[i], shape.k * std::ldexp(shape.k, -24)) << text(shape) << " " << i;
    }
  }
}

// ---- weights ----

TEST_F(Library, WeightsOfBothOrdersGiveTheSame) {
  const Shape shape{3, 100, 70};
  const auto a = random_i8(3 * 100, 21);
  const auto b = random_i8(70 * 100, 22);
  const auto kn = transposed(std::span<const std::int8_t>(b), 70, 100);
  std::vector<std::int32_t> c(3 * 70);
  matmul(device(), shape, a, Weights::pack(device(), 100, 70, kn, Source::kn), c);
  EXPECT_EQ(c, product(a, b, shape));
}

TEST_F(Library, WeightsMayHaveAStride) {
  const Shape shape{2, 4500, 9};  // two K tiles
  const auto a = random_i8(2 * 4500, 23);
  const auto b = random_i8(9 * 4500, 24);
  const auto kn = transposed(std::span<const std::int8_t>(b), 9, 4500);
  const auto widened = [](const std::vector<std::int8_t>& rows, std::size_t columns,
                          std::size_t stride) {
    const std::size_t count = rows.size() / columns;
    std::vector<std::int8_t> wide((count - 1) * stride + columns, 77);
    for (std::size_t i = 0; i < count; ++i) {
      std::copy_n(&rows[i * columns], columns, &wide[i * stride]);
    }
    return wide;
  };
  const auto want = product(a, b, shape);
  std::vector<std::int32_t> c(2 * 9);
  matmul(device(), shape, a,
         Weights::pack(device(), 4500, 9, widened(b, 4500, 4507), Source::nk, 4507), c);
  EXPECT_EQ(c, want);
  matmul(device(), shape, a, Weights::pack(device(), 4500, 9, widened(kn, 9, 16), Source::kn, 16),
         c);
  EXPECT_EQ(c, want);
}

TEST_F(Library, WeightsSayWhatTheyAre) {
  const Weights w = Weights::pack(device(), 33, 17, random_whole(33 * 17, 1, -1, 1));
  EXPECT_EQ(w.k(), 33U);
  EXPECT_EQ(w.n(), 17U);
  EXPECT_TRUE(w.is_fp16());
  EXPECT_GE(w.device_bytes(), 64U * 32U * 2U);
}

TEST_F(Library, WeightsOutliveTheirHandles) {
  const auto a = random_i8(64, 25);
  const auto b = random_i8(64 * 32, 26);
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 1, 64);
  const Tensor y = c.matmul(x, Weights::pack(device(), 64, 32, b));
  run(c, x, a);
  EXPECT_EQ(read<std::int32_t>(c, y), product(a, b, {1, 64, 32}));
}

// ---- chains ----

TEST_F(Library, OneOperandServesSeveralMatmulsOfSeveralTypes) {
  const std::uint32_t k = 5000;  // with a K split
  const auto a = random_i8(2 * k, 31, -2, 2);
  const auto b = random_i8(40 * k, 32, -2, 2);
  const auto d = random_i8(50 * k, 33, -2, 2);
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 2, k);
  const Tensor y = c.matmul(x, Weights::pack(device(), k, 40, b));
  const Tensor z = c.matmul(x, Weights::pack(device(), k, 50, d), Type::i8_i8);
  run(c, x, a);
  EXPECT_EQ(read<std::int32_t>(c, y), product(a, b, {2, k, 40}));
  EXPECT_EQ(read<std::int8_t>(c, z), saturated(product(a, d, {2, k, 50})));
}

TEST_F(Library, AChainRunsAgainWithNewValues) {
  const auto b = random_i8(40 * 100, 34);
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 3, 100);
  const Tensor y = c.matmul(x, Weights::pack(device(), 100, 40, b));
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto a = random_i8(3 * 100, 35 + i);
    run(c, x, a);
    EXPECT_EQ(read<std::int32_t>(c, y), product(a, b, {3, 100, 40}));
  }
}

TEST_F(Library, OperandsAreZeroAtFirstAndKeepTheirValues) {
  const auto a = random_i8(64, 36);
  const auto b = random_i8(64 * 32, 37);
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 1, 64);
  const Tensor y = c.matmul(x, Weights::pack(device(), 64, 32, b));
  c.build();
  Stream stream(device());
  stream.submit(c).get();
  EXPECT_EQ(read<std::int32_t>(c, y), std::vector<std::int32_t>(32));
  c.write(x, a);
  stream.submit(c).get();
  stream.submit(c).get();
  EXPECT_EQ(read<std::int32_t>(c, y), product(a, b, {1, 64, 32}));
}

TEST_F(Library, PlanTellsWhatTheChainCosts) {
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 64, 4097);
  c.matmul(x, Weights::pack(device(), 4097, 33, random_i8(4097 * 33, 1)));
  c.build();
  EXPECT_EQ(c.plan().matmuls, 1U);
  EXPECT_EQ(c.plan().blocks, 2U);  // two K tiles
  EXPECT_EQ(c.plan().segments, 1U);
  EXPECT_EQ(c.plan().macs, 64ULL * 4128 * 64);
  EXPECT_GE(c.plan().device_bytes, 64U * 4128U + 2 * 64U * 64U * 4U);
}

/// A random chain and what it has to give.
struct Recipe {
  struct Step {
    std::size_t source;  ///< into values
    std::vector<std::int8_t> b;
    Type type;
    Tensor result;
  };
  Tensor x;
  std::vector<Step> steps;
  std::vector<Tensor> tensors;
};

Recipe random_chain(const Device& device, Chain& chain, std::size_t count, std::uint64_t seed) {
  Numbers numbers(seed);
  const bool ordered = device.info().ordered;
  Recipe recipe;
  const auto m = static_cast<std::uint32_t>(numbers.between(1, 6));
  const auto k = static_cast<std::uint32_t>(numbers.between(1, 200));
  recipe.x = chain.input(Type::i8_i32, m, k);
  struct Operand {
    Tensor tensor;
    std::uint32_t width;
  };
  std::vector<Operand> operands{{recipe.x, k}};
  recipe.tensors.push_back(recipe.x);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t source = numbers.next() % operands.size();
    const auto n = static_cast<std::uint32_t>(numbers.between(1, 200));
    const Operand from = operands[source];
    auto b = random_i8(std::size_t{from.width} * n, numbers.next(), -2, 2);
    const Type type = numbers.between(0, 1) == 0 ? Type::i8_i32 : Type::i8_i8;
    const Tensor y = chain.matmul(from.tensor, Weights::pack(device, from.width, n, b), type);
    recipe.steps.push_back({source, std::move(b), type, y});
    if (type == Type::i8_i8 && ordered) operands.push_back({y, n});
  }
  return recipe;
}

void expect_recipe(const Chain& chain, const Recipe& recipe, const std::vector<std::int8_t>& a) {
  std::vector<std::vector<std::int8_t>> operands{a};
  for (const Recipe::Step& step : recipe.steps) {
    const Shape shape = chain.shape(step.result);
    const auto sums = product(operands[step.source], step.b, shape);
    if (step.type == Type::i8_i32) {
      std::vector<std::int32_t> have(sums.size());
      chain.read(step.result, have);
      ASSERT_EQ(have, sums) << "tensor " << step.result.index << ", " << text(shape);
    } else {
      std::vector<std::int8_t> have(sums.size());
      chain.read(step.result, have);
      operands.push_back(saturated(sums));
      ASSERT_EQ(have, operands.back()) << "tensor " << step.result.index << ", " << text(shape);
    }
  }
}

class Chains : public Library,
               public ::testing::WithParamInterface<std::tuple<Strategy, Layout>> {};
INSTANTIATE_TEST_SUITE_P(Ways, Chains,
                         ::testing::Combine(::testing::Values(Strategy::rotate, Strategy::split,
                                                              Strategy::fan_out),
                                            ::testing::Values(Layout::flat, Layout::native)),
                         [](const auto& each) {
                           return std::string(name(std::get<0>(each.param))) + "_" +
                                  std::string(name(std::get<1>(each.param)));
                         });

TEST_P(Chains, OfRandomMatmulsFedOnAtRandom) {
  const auto [strategy, layout] = GetParam();
  for (const std::size_t count : sampled() ? std::vector<std::size_t>{1, 7, 30}
                                           : std::vector<std::size_t>{1, 2, 3, 10, 50, 200}) {
    Chain c(device(), {strategy, layout});
    const Recipe recipe = random_chain(device(), c, count, 1000 + count);
    const Shape x = c.shape(recipe.x);
    const auto a = random_i8(std::size_t{x.m} * x.k, count);
    run(c, recipe.x, a);
    expect_recipe(c, recipe, a);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Chains, FeedOnFp16OfAnyWidth) {
  if (!feeds_on()) return;
  const auto [strategy, layout] = GetParam();
  for (const std::uint32_t m : {1U, 5U}) {
    for (const std::uint32_t n : {1U, 16U, 40U, 100U}) {
      const auto a = random_whole(std::size_t{m} * 20, 41, -2, 2);
      const auto b = random_whole(std::size_t{n} * 20, 42, -2, 2);
      const auto d = random_whole(std::size_t{n} * 30, 43, -2, 2);
      Chain c(device(), {strategy, layout});
      const Tensor x = c.input(Type::f16_f32, m, 20);
      const Tensor y = c.matmul(x, Weights::pack(device(), 20, n, b), Type::f16_f16);
      const Tensor z = c.matmul(y, Weights::pack(device(), n, 30, d));
      run(c, x, a);
      const auto middle = read<Half>(c, y);
      const auto want = product(middle, d, {m, n, 30});
      const auto have = read<float>(c, z);
      EXPECT_TRUE(std::equal(have.begin(), have.end(), want.begin(), want.end())) << m << " " << n;
    }
  }
}

TEST_P(Chains, FeedOnResultsThatAreReadInSeveralKTiles) {
  if (!feeds_on()) return;
  const auto [strategy, layout] = GetParam();
  const std::uint32_t n = 8193;
  for (const std::uint32_t m : {1U, 3U}) {
    const auto a = random_i8(std::size_t{m} * 33, 44, -1, 1);
    const auto b = random_i8(std::size_t{n} * 33, 45, -1, 1);
    const auto d = random_i8(std::size_t{n} * 20, 46, -1, 1);
    Chain c(device(), {strategy, layout});
    const Tensor x = c.input(Type::i8_i8, m, 33);
    const Tensor y = c.matmul(x, Weights::pack(device(), 33, n, b), Type::i8_i8);
    const Tensor z = c.matmul(y, Weights::pack(device(), n, 20, d));
    run(c, x, a);
    const auto middle = saturated(product(a, b, {m, 33, n}));
    EXPECT_EQ(read<std::int8_t>(c, y), middle);
    EXPECT_EQ(read<std::int32_t>(c, z), product(middle, d, {m, n, 20}));
  }
}

TEST_P(Chains, OfMoreBlocksThanOneSegmentTakes) {
  const auto [strategy, layout] = GetParam();
  const std::uint32_t count = 1200;
  const auto a = random_i8(32, 47);
  std::vector<std::vector<std::int8_t>> b;
  std::vector<Weights> w;
  for (std::uint64_t i = 0; i < 3; ++i) {
    b.push_back(random_i8(32 * 32, 48 + i));
    w.push_back(Weights::pack(device(), 32, 32, b.back()));
  }
  Chain c(device(), {strategy, layout});
  const Tensor x = c.input(Type::i8_i32, 1, 32);
  std::vector<Tensor> results;
  for (std::uint32_t i = 0; i < count; ++i) results.push_back(c.matmul(x, w[i % 3]));
  const RunResult result = run(c, x, a);
  EXPECT_EQ(c.plan().blocks, count);
  EXPECT_EQ(c.plan().segments, strategy == Strategy::rotate ? 2U : 3U);
  EXPECT_EQ(result.segments.size(), c.plan().segments);
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(read<std::int32_t>(c, results[i]), product(a, b[i % 3], {1, 32, 32})) << i;
  }
}

TEST_P(Chains, OfMoreDependentBlocksThanOneSegmentTakes) {
  if (!feeds_on()) return;
  const auto [strategy, layout] = GetParam();
  // Each matmul moves every value to the next place.
  const std::uint32_t count = strategy == Strategy::rotate ? 1200 : 40;
  std::vector<std::int8_t> b(32 * 32);
  for (std::size_t n = 0; n < 32; ++n) b[n * 32 + (n + 31) % 32] = 1;
  const Weights w = Weights::pack(device(), 32, 32, b);
  Chain c(device(), {strategy, layout});
  const Tensor x = c.input(Type::i8_i8, 1, 32);
  Tensor y = x;
  for (std::uint32_t i = 0; i < count; ++i) y = c.matmul(y, w, Type::i8_i8);
  const auto a = random_i8(32, 49);
  const RunResult result = run(c, x, a);
  auto want = a;
  std::rotate(want.begin(), want.end() - count % 32, want.end());
  EXPECT_EQ(read<std::int8_t>(c, y), want);
  for (std::size_t i = 1; i < result.segments.size(); ++i) {
    EXPECT_GE(result.segments[i].started_ns, result.segments[i - 1].done_ns);
  }
}

/// A back end with a mode of its own ignores the option, and has to give the same.
TEST_F(Library, EveryModeGivesTheSame) {
  for (const Mode mode : {Mode::wait, Mode::wait41, Mode::link, Mode::single}) {
    OpenOptions options;
    options.mode = mode;
    const Device other = open_device(options);
    Chain c(other, {Strategy::rotate, Layout::flat});
    const Recipe recipe = random_chain(other, c, 12, 77);
    c.build();
    const Shape x = c.shape(recipe.x);
    const auto a = random_i8(std::size_t{x.m} * x.k, 78);
    c.write(recipe.x, a);
    Stream(other).submit(c).get();
    expect_recipe(c, recipe, a);
    const Mode used = other.info().mode;
    EXPECT_EQ(c.plan().submits, used == Mode::single ? c.plan().blocks : 1) << name(used);
  }
}

TEST_F(Library, SplitRunsOnEveryUsableCore) {
  Chain c(device(), {Strategy::split, Layout::flat});
  const Tensor x = c.input(Type::i8_i32, 1, 64);
  c.matmul(x, Weights::pack(device(), 64, 1000, random_i8(64000, 51)));
  const RunResult result = run(c, x, random_i8(64, 52));
  std::uint32_t mask = 0;
  for (const SegmentResult& segment : result.segments) mask |= 1U << segment.core;
  EXPECT_EQ(mask, device().info().usable_mask);
}

TEST_F(Library, FanOutDealsBlocksToEveryUsableCore) {
  Chain c(device(), {Strategy::fan_out, Layout::flat});
  const Tensor x = c.input(Type::i8_i32, 1, 64);
  const Weights w = Weights::pack(device(), 64, 32, random_i8(64 * 32, 51));
  for (int i = 0; i < 6; ++i) c.matmul(x, w);
  const RunResult result = run(c, x, random_i8(64, 52));
  std::uint32_t mask = 0;
  for (const SegmentResult& segment : result.segments) mask |= 1U << segment.core;
  EXPECT_EQ(mask, device().info().usable_mask);
}

TEST_F(Library, RotateIsOneSubmitWhateverTheNumberOfMatmuls) {
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 1, 64);
  const Weights w = Weights::pack(device(), 64, 32, random_i8(64 * 32, 51));
  for (int i = 0; i < 100; ++i) c.matmul(x, w);
  c.build();
  const std::uint64_t before = device().stats().submits;
  Stream(device()).submit(c).get();
  EXPECT_EQ(device().stats().submits - before, c.plan().submits);
}

TEST_F(Library, BuffersAreZeroAndAligned) {
  const Buffer buffer = device().allocate(10000);
  ASSERT_TRUE(buffer);
  ASSERT_GE(buffer.size(), 10000U);
  EXPECT_EQ(buffer.iova() % 4096, 0U);
  EXPECT_TRUE(std::all_of(buffer.bytes().begin(), buffer.bytes().end(),
                          [](std::byte b) { return b == std::byte{0}; }));
  buffer.sync(Direction::to_device);
  EXPECT_FALSE(Buffer());
  EXPECT_EQ(Buffer().size(), 0U);
}

}  // namespace
}  // namespace rkchain::test

// SPDX-License-Identifier: MIT
// The C interface: every function once, every kind of mistake, and that no exception gets out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rkchain.h"

namespace {

using testing::HasSubstr;
using testing::StrEq;

constexpr std::int64_t kLimitNs = 20'000'000'000;

template <typename Handle, rkchain_status (*free)(Handle*)>
struct Free {
  void operator()(Handle* handle) const { EXPECT_EQ(free(handle), RKCHAIN_OK); }
};
template <typename Handle, rkchain_status (*free)(Handle*)>
using Owned = std::unique_ptr<Handle, Free<Handle, free>>;
using Device = Owned<rkchain_device, rkchain_close>;
using Weights = Owned<rkchain_weights, rkchain_weights_free>;
using Chain = Owned<rkchain_chain, rkchain_chain_free>;
using Stream = Owned<rkchain_stream, rkchain_stream_free>;
using Future = Owned<rkchain_future, rkchain_future_free>;

rkchain_open_options model() {
  rkchain_open_options options{};
  options.size = sizeof(options);
  options.backend = RKCHAIN_BACKEND_MODEL;
  return options;
}

Device open_model(const rkchain_open_options& options = model()) {
  rkchain_device* device = nullptr;
  EXPECT_EQ(rkchain_open(&options, &device), RKCHAIN_OK) << rkchain_last_error();
  return Device(device);
}

std::vector<std::int8_t> numbers(std::size_t count, int step) {
  std::vector<std::int8_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<std::int8_t>(static_cast<int>(i) * step % 251 - 125);
  }
  return values;
}

constexpr std::uint32_t kM = 3;
constexpr std::uint32_t kK = 70;
constexpr std::uint32_t kN = 37;

/// C = A * B^T
std::vector<std::int32_t> product(const std::vector<std::int8_t>& a,
                                  const std::vector<std::int8_t>& b) {
  std::vector<std::int32_t> c;
  for (std::uint32_t m = 0; m < kM; ++m) {
    for (std::uint32_t n = 0; n < kN; ++n) {
      std::int32_t sum = 0;
      for (std::uint32_t k = 0; k < kK; ++k) sum += a[m * kK + k] * b[n * kK + k];
      c.push_back(sum);
    }
  }
  return c;
}

Weights pack(const Device& device, const std::vector<std::int8_t>& b) {
  rkchain_weights* weights = nullptr;
  EXPECT_EQ(rkchain_weights_pack_i8(device.get(), kK, kN, b.data(), b.size(), RKCHAIN_NK, &weights),
            RKCHAIN_OK)
      << rkchain_last_error();
  return Weights(weights);
}

/// One matmul, built.
struct OneMatmul {
  explicit OneMatmul(const Device& device) : weights(pack(device, b)) {
    rkchain_chain* made = nullptr;
    EXPECT_EQ(rkchain_chain_create(device.get(), nullptr, &made), RKCHAIN_OK);
    chain.reset(made);
    EXPECT_EQ(rkchain_chain_input(made, RKCHAIN_I8_I32, kM, kK, &x), RKCHAIN_OK);
    EXPECT_EQ(rkchain_chain_matmul(made, x, weights.get(), RKCHAIN_I8_I32, &y), RKCHAIN_OK);
    EXPECT_EQ(rkchain_chain_build(made), RKCHAIN_OK) << rkchain_last_error();
    EXPECT_EQ(rkchain_chain_write_i8(made, x, a.data(), a.size()), RKCHAIN_OK);
  }
  std::vector<std::int8_t> a = numbers(kM * kK, 7);
  std::vector<std::int8_t> b = numbers(kN * kK, 11);
  Weights weights;
  Chain chain;
  rkchain_tensor x = 0;
  rkchain_tensor y = 0;
};

Stream stream_of(const Device& device, std::uint32_t depth = 0) {
  rkchain_stream_options options{};
  options.size = sizeof(options);
  options.depth = depth;
  rkchain_stream* stream = nullptr;
  EXPECT_EQ(rkchain_stream_create(device.get(), &options, &stream), RKCHAIN_OK);
  return Stream(stream);
}

TEST(Version, IsThatOfTheBuild) { EXPECT_THAT(rkchain_version(), StrEq(RKCHAIN_VERSION)); }

TEST(Errors, EachStatusHasItsText) {
  std::vector<std::string> texts;
  for (rkchain_status status = RKCHAIN_OK; status <= RKCHAIN_BAD_FORMAT; ++status) {
    texts.emplace_back(rkchain_strerror(status));
    EXPECT_NE(texts.back(), rkchain_strerror(RKCHAIN_BAD_FORMAT + 1)) << status;
  }
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
  EXPECT_THAT(rkchain_strerror(-1), StrEq(rkchain_strerror(17)));
}

TEST(Errors, TextsBelongToTheirThread) {
  EXPECT_EQ(rkchain_open(nullptr, nullptr), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_THAT(rkchain_last_error(), StrEq("device is NULL"));
  std::thread([] { EXPECT_THAT(rkchain_last_error(), StrEq("")); }).join();
  // A success leaves the text alone.
  EXPECT_EQ(rkchain_close(nullptr), RKCHAIN_OK);
  EXPECT_THAT(rkchain_last_error(), StrEq("device is NULL"));
}

TEST(Errors, ACheckCanBeAskedAbout) {
  std::uint32_t reason = 1;
  std::uint32_t block = 1;
  std::uint32_t word = 1;
  EXPECT_EQ(rkchain_open(nullptr, nullptr), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_EQ(rkchain_last_check(&reason, &block, &word), RKCHAIN_OK);
  EXPECT_EQ(reason, 0);
  EXPECT_EQ(block, 0xffffffff);
  EXPECT_EQ(word, 0xffffffff);
  EXPECT_EQ(rkchain_last_check(nullptr, nullptr, nullptr), RKCHAIN_OK);
}

TEST(Arguments, NullIsNamed) {
  const Device device = open_model();
  const OneMatmul one(device);
  const Stream stream = stream_of(device);
  const rkchain_device* d = device.get();
  rkchain_weights* weights = nullptr;
  rkchain_chain* chain = nullptr;
  rkchain_stream* made = nullptr;
  rkchain_tensor tensor = 0;
  rkchain_info info{sizeof(info), 0, 0, 0, 0, 0, {}};
  std::int8_t i8 = 0;
  std::uint16_t f16 = 0;
  std::int32_t i32 = 0;
  float f32 = 0;
  std::uint64_t bytes = 0;
  const auto expect = [](rkchain_status status, const char* name) {
    EXPECT_EQ(status, RKCHAIN_INVALID_ARGUMENT) << name;
    EXPECT_THAT(rkchain_last_error(), StrEq(std::string(name) + " is NULL"));
  };
  expect(rkchain_open(nullptr, nullptr), "device");
  expect(rkchain_device_info(nullptr, &info), "device");
  expect(rkchain_device_info(d, nullptr), "info");
  expect(rkchain_device_stats(nullptr, nullptr), "device");
  expect(rkchain_device_stats(d, nullptr), "stats");
  expect(rkchain_weights_pack_i8(nullptr, 1, 1, &i8, 1, 0, &weights), "device");
  expect(rkchain_weights_pack_i8(d, 1, 1, nullptr, 1, 0, &weights), "source");
  expect(rkchain_weights_pack_f16(d, 1, 1, &f16, 1, 0, nullptr), "weights");
  expect(rkchain_weights_bytes(nullptr, &bytes), "weights");
  expect(rkchain_weights_bytes(one.weights.get(), nullptr), "bytes");
  expect(rkchain_chain_create(nullptr, nullptr, &chain), "device");
  expect(rkchain_chain_create(d, nullptr, nullptr), "chain");
  expect(rkchain_chain_input(nullptr, 0, 1, 1, &tensor), "chain");
  expect(rkchain_chain_input(one.chain.get(), 0, 1, 1, nullptr), "tensor");
  expect(rkchain_chain_matmul(nullptr, 0, one.weights.get(), 0, &tensor), "chain");
  expect(rkchain_chain_matmul(one.chain.get(), 0, nullptr, 0, &tensor), "weights");
  expect(rkchain_chain_matmul(one.chain.get(), 0, one.weights.get(), 0, nullptr), "result");
  expect(rkchain_chain_build(nullptr), "chain");
  expect(rkchain_chain_plan(nullptr, nullptr), "chain");
  expect(rkchain_chain_plan(one.chain.get(), nullptr), "plan");
  expect(rkchain_chain_shape(nullptr, 0, nullptr, nullptr, nullptr), "chain");
  expect(rkchain_chain_write_i8(nullptr, 0, &i8, 1), "chain");
  expect(rkchain_chain_write_i8(one.chain.get(), 0, nullptr, 1), "values");
  expect(rkchain_chain_write_f16(one.chain.get(), 0, nullptr, 1), "values");
  expect(rkchain_chain_read_i32(nullptr, 0, &i32, 1), "chain");
  expect(rkchain_chain_read_i32(one.chain.get(), 0, nullptr, 1), "values");
  expect(rkchain_chain_read_i8(one.chain.get(), 0, nullptr, 1), "values");
  expect(rkchain_chain_read_f32(one.chain.get(), 0, nullptr, 1), "values");
  expect(rkchain_chain_read_f16(one.chain.get(), 0, nullptr, 1), "values");
  expect(rkchain_stream_create(nullptr, nullptr, &made), "device");
  expect(rkchain_stream_create(d, nullptr, nullptr), "stream");
  expect(rkchain_stream_submit(nullptr, one.chain.get(), nullptr, nullptr), "stream");
  expect(rkchain_stream_submit(stream.get(), nullptr, nullptr, nullptr), "chain");
  expect(rkchain_stream_try_submit(stream.get(), nullptr, nullptr, nullptr), "chain");
  expect(rkchain_stream_drain(nullptr), "stream");
  expect(rkchain_future_wait(nullptr, 0), "future");
  expect(rkchain_future_get(nullptr, nullptr), "future");
  expect(rkchain_matmul_i8(nullptr, 1, 1, 1, &i8, one.weights.get(), &i32), "device");
  expect(rkchain_matmul_i8(d, 1, 1, 1, nullptr, one.weights.get(), &i32), "a");
  expect(rkchain_matmul_i8(d, 1, 1, 1, &i8, nullptr, &i32), "weights");
  expect(rkchain_matmul_f16(d, 1, 1, 1, &f16, one.weights.get(), nullptr), "c");
  expect(rkchain_to_f16(nullptr, &f16, 1), "from");
  expect(rkchain_from_f16(&f16, nullptr, 1), "to");
  for (const auto status :
       {rkchain_close(nullptr), rkchain_weights_free(nullptr), rkchain_chain_free(nullptr),
        rkchain_stream_free(nullptr), rkchain_future_free(nullptr)}) {
    EXPECT_EQ(status, RKCHAIN_OK);
  }
  EXPECT_EQ(f32, 0);
}

TEST(Arguments, NumbersThatAreNoChoiceAreRefused) {
  rkchain_device* device = nullptr;
  auto options = model();
  options.backend = 4;
  EXPECT_EQ(rkchain_open(&options, &device), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_THAT(rkchain_last_error(), StrEq("backend is 4, the limit is 3"));
  options = model();
  options.mode = 5;
  EXPECT_EQ(rkchain_open(&options, &device), RKCHAIN_INVALID_ARGUMENT);
  options = model();
  options.model_flags = 256;
  EXPECT_EQ(rkchain_open(&options, &device), RKCHAIN_INVALID_ARGUMENT);
  options = model();
  options.core_mask = 8;
  EXPECT_EQ(rkchain_open(&options, &device), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_EQ(device, nullptr);

  const Device open = open_model();
  const OneMatmul one(open);
  rkchain_weights* weights = nullptr;
  const std::int8_t b[4] = {};
  EXPECT_EQ(rkchain_weights_pack_i8(open.get(), 2, 2, b, 4, 2, &weights), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_EQ(rkchain_weights_pack_i8(open.get(), 2, 2, b, 3, 0, &weights), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_EQ(rkchain_weights_pack_i8(open.get(), 0, 2, b, 0, 0, &weights), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_EQ(weights, nullptr);
  rkchain_chain_options shape{sizeof(shape), 3, 0};
  rkchain_chain* chain = nullptr;
  EXPECT_EQ(rkchain_chain_create(open.get(), &shape, &chain), RKCHAIN_INVALID_ARGUMENT);
  shape = {sizeof(shape), 0, 2};
  EXPECT_EQ(rkchain_chain_create(open.get(), &shape, &chain), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_EQ(chain, nullptr);
  rkchain_tensor tensor = 77;
  EXPECT_EQ(rkchain_chain_input(one.chain.get(), 4, 1, 1, &tensor), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_EQ(tensor, 77);
}

TEST(Structs, GrowInBothDirections) {
  // A caller that knows less.
  rkchain_open_options options = model();
  options.size = 8;
  options.mode = 99;  // lies behind what this caller has
  const Device device = open_model(options);
  struct {
    rkchain_info info;
    std::array<unsigned char, 8> more;
  } newer;
  std::memset(&newer, 0xee, sizeof(newer));
  newer.info.size = 16;
  EXPECT_EQ(rkchain_device_info(device.get(), &newer.info), RKCHAIN_OK);
  EXPECT_EQ(newer.info.cores, 3);
  EXPECT_EQ(newer.info.usable_mask, 0xeeeeeeee) << "written past the size";

  // A caller that knows more.
  newer.info.size = sizeof(newer);
  EXPECT_EQ(rkchain_device_info(device.get(), &newer.info), RKCHAIN_OK);
  EXPECT_THAT(newer.info.driver, StrEq("software NPU"));
  EXPECT_THAT(newer.more, testing::Each(0));
  struct {
    rkchain_open_options options = model();
    std::uint32_t more = 0;
  } wanted;
  wanted.options.size = sizeof(wanted);
  EXPECT_TRUE(open_model(wanted.options));
  wanted.more = 1;
  rkchain_device* refused = nullptr;
  EXPECT_EQ(rkchain_open(&wanted.options, &refused), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_THAT(rkchain_last_error(), HasSubstr("does not know"));

  // A caller that has forgotten.
  options.size = 0;
  EXPECT_EQ(rkchain_open(&options, &refused), RKCHAIN_INVALID_ARGUMENT);
  EXPECT_THAT(rkchain_last_error(), HasSubstr("options->size is 0"));
  rkchain_stats stats{};
  EXPECT_EQ(rkchain_device_stats(device.get(), &stats), RKCHAIN_INVALID_ARGUMENT);
}

TEST(Run, OneShot) {
  const Device device = open_model();
  const auto a = numbers(kM * kK, 7);
  const auto b = numbers(kN * kK, 11);
  const Weights weights = pack(device, b);
  std::vector<std::int32_t> c(kM * kN);
  ASSERT_EQ(rkchain_matmul_i8(device.get(), kM, kK, kN, a.data(), weights.get(), c.data()),
            RKCHAIN_OK)
      << rkchain_last_error();
  EXPECT_EQ(c, product(a, b));
  std::uint64_t bytes = 0;
  EXPECT_EQ(rkchain_weights_bytes(weights.get(), &bytes), RKCHAIN_OK);
  EXPECT_EQ(bytes, 96 * 64);
  EXPECT_EQ(rkchain_matmul_i8(device.get(), kM, kK + 1, kN, a.data(), weights.get(), c.data()),
            RKCHAIN_INVALID_ARGUMENT);
}

TEST(Run, OneShotInFp16) {
  const Device device = open_model();
  const std::vector<float> a = {1, 2.5F, -3, 0.25F};  // 2 x 2
  const std::vector<float> b = {4, -1, 8, 2};         // [K][N]
  std::vector<std::uint16_t> a16(4);
  std::vector<std::uint16_t> b16(4);
  EXPECT_EQ(rkchain_to_f16(a.data(), a16.data(), 4), RKCHAIN_OK);
  EXPECT_EQ(rkchain_to_f16(b.data(), b16.data(), 4), RKCHAIN_OK);
  rkchain_weights* made = nullptr;
  ASSERT_EQ(rkchain_weights_pack_f16(device.get(), 2, 2, b16.data(), b16.size(), RKCHAIN_KN, &made),
            RKCHAIN_OK);
  const Weights weights(made);
  std::vector<float> c(4);
  ASSERT_EQ(rkchain_matmul_f16(device.get(), 2, 2, 2, a16.data(), made, c.data()), RKCHAIN_OK)
      << rkchain_last_error();
  EXPECT_EQ(c, (std::vector<float>{24, 4, -10, 3.5F}));
}

TEST(Run, HalvesGoThereAndBack) {
  const std::vector<float> from = {0, 1, -2.5F, 65504, 1e9F};
  std::vector<std::uint16_t> half(5);
  std::vector<float> back(5);
  EXPECT_EQ(rkchain_to_f16(from.data(), half.data(), 5), RKCHAIN_OK);
  EXPECT_EQ(half, (std::vector<std::uint16_t>{0, 0x3c00, 0xc100, 0x7bff, 0x7c00}));
  EXPECT_EQ(rkchain_from_f16(half.data(), back.data(), 5), RKCHAIN_OK);
  EXPECT_EQ(back, (std::vector<float>{0, 1, -2.5F, 65504, INFINITY}));
}

TEST(Run, AChain) {
  const Device device = open_model();
  const OneMatmul one(device);
  rkchain_plan plan{};
  plan.size = sizeof(plan);
  EXPECT_EQ(rkchain_chain_plan(one.chain.get(), &plan), RKCHAIN_OK);
  EXPECT_EQ(plan.matmuls, 1);
  EXPECT_EQ(plan.blocks, 1);
  EXPECT_EQ(plan.submits, 1);
  EXPECT_GE(plan.macs, std::uint64_t{kM} * kK * kN);
  std::array<std::uint32_t, 3> shape{};
  EXPECT_EQ(rkchain_chain_shape(one.chain.get(), one.y, &shape[0], &shape[1], &shape[2]),
            RKCHAIN_OK);
  EXPECT_THAT(shape, testing::ElementsAre(kM, kK, kN));
  EXPECT_EQ(rkchain_chain_build(one.chain.get()), RKCHAIN_BUSY);

  const Stream stream = stream_of(device);
  for (int i = 0; i < 2; ++i) {
    rkchain_future* made = nullptr;
    ASSERT_EQ(rkchain_stream_submit(stream.get(), one.chain.get(), nullptr, &made), RKCHAIN_OK)
        << rkchain_last_error();
    const Future future(made);
    EXPECT_EQ(rkchain_future_wait(made, kLimitNs), RKCHAIN_OK);
    std::array<rkchain_segment, 2> segments{};
    rkchain_run run{sizeof(run), 2, 0, 0, segments.data()};
    EXPECT_EQ(rkchain_future_get(made, &run), RKCHAIN_OK);
    EXPECT_EQ(run.count, 1);
    EXPECT_EQ(segments[0].core, i);
    EXPECT_GT(segments[0].done_ns, segments[0].started_ns);
    EXPECT_EQ(rkchain_future_get(made, nullptr), RKCHAIN_INVALID_ARGUMENT);
  }
  std::vector<std::int32_t> c(kM * kN);
  EXPECT_EQ(rkchain_chain_read_i32(one.chain.get(), one.y, c.data(), c.size()), RKCHAIN_OK);
  EXPECT_EQ(c, product(one.a, one.b));
  EXPECT_EQ(rkchain_chain_read_i32(one.chain.get(), one.y, c.data(), c.size() - 1),
            RKCHAIN_INVALID_ARGUMENT);
  std::vector<float> wrong(kM * kN);
  EXPECT_EQ(rkchain_chain_read_f32(one.chain.get(), one.y, wrong.data(), wrong.size()),
            RKCHAIN_INVALID_ARGUMENT);

  rkchain_stats stats{};
  stats.size = sizeof(stats);
  EXPECT_EQ(rkchain_device_stats(device.get(), &stats), RKCHAIN_OK);
  EXPECT_EQ(stats.submits, 2);
  EXPECT_EQ(stats.interrupts, 2);
  EXPECT_EQ(stats.blocks, 2);
  EXPECT_EQ(stats.core[0].chains, 1);
  EXPECT_EQ(stats.core[1].chains, 1);
  EXPECT_EQ(stats.core[2].chains, 0);
}

TEST(Run, OptionsReachTheDevice) {
  auto options = model();
  options.mode = RKCHAIN_MODE_LINK;
  options.core_mask = 6;
  options.model_stuck_cores = 4;
  options.model_flags = RKCHAIN_MODEL_PLAIN | RKCHAIN_MODEL_POISON | RKCHAIN_MODEL_RAWLATE;
  options.model_poison = 0x5a5a5a5a;
  const Device device = open_model(options);
  rkchain_info info{};
  info.size = sizeof(info);
  EXPECT_EQ(rkchain_device_info(device.get(), &info), RKCHAIN_OK);
  EXPECT_EQ(info.backend, RKCHAIN_BACKEND_MODEL);
  EXPECT_EQ(info.mode, RKCHAIN_MODE_LINK);
  EXPECT_EQ(info.usable_mask, 6);
  EXPECT_EQ(info.ordered, 0);

  // A failure of the device comes out where its future is asked.
  const OneMatmul one(device);
  const Stream stream = stream_of(device);
  const rkchain_submit_options core2{sizeof(core2), 4, 0};
  rkchain_future* made = nullptr;
  ASSERT_EQ(rkchain_stream_submit(stream.get(), one.chain.get(), &core2, &made), RKCHAIN_OK);
  const Future future(made);
  EXPECT_EQ(rkchain_future_get(made, nullptr), RKCHAIN_HUNG);
  EXPECT_THAT(rkchain_last_error(), HasSubstr("core 2"));
  // The other core still works, without anybody holding a future.
  const rkchain_submit_options ordered{sizeof(ordered), 0, 1};
  EXPECT_EQ(rkchain_stream_submit(stream.get(), one.chain.get(), &ordered, nullptr), RKCHAIN_OK);
  EXPECT_EQ(rkchain_stream_drain(stream.get()), RKCHAIN_OK);
  std::vector<std::int32_t> c(kM * kN);
  EXPECT_EQ(rkchain_chain_read_i32(one.chain.get(), one.y, c.data(), c.size()), RKCHAIN_OK);
  EXPECT_EQ(c, product(one.a, one.b));
  // Two cores were opened, and one has hung.
  EXPECT_EQ(rkchain_stream_submit(stream.get(), one.chain.get(), &core2, nullptr),
            RKCHAIN_INVALID_ARGUMENT);
}

TEST(Run, HandlesAreFreedInAnyOrder) {
  Device device = open_model();
  OneMatmul one(device);
  Stream stream = stream_of(device);
  rkchain_future* made = nullptr;
  ASSERT_EQ(rkchain_stream_submit(stream.get(), one.chain.get(), nullptr, &made), RKCHAIN_OK);
  Future future(made);
  device.reset();
  one.weights.reset();
  one.chain.reset();
  stream.reset();
  EXPECT_EQ(rkchain_future_get(made, nullptr), RKCHAIN_OK);
}

}  // namespace

// SPDX-License-Identifier: MIT
// What cannot work, and what is said about it: the argument and the limit.  The same suite runs on
// every back end: see RKCHAIN_TEST_BACKEND.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "rkchain/rkchain.hpp"
#include "unit/library_fixture.hpp"
#include "unit/matmul_reference.hpp"

namespace rkchain::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BadInput : public Library {
 protected:
  template <typename Body>
  static void expect(Errc code, const std::string& argument, const std::string& limit,
                     Body&& body) {
    const Thrown thrown = thrown_by(body);
    EXPECT_EQ(name(thrown.code), name(code)) << thrown.text;
    EXPECT_THAT(thrown.text, AllOf(HasSubstr(argument), HasSubstr(limit)));
  }
  static Weights weights(std::uint32_t k = 64, std::uint32_t n = 32) {
    return Weights::pack(device(), k, n, std::vector<std::int8_t>(std::size_t{k} * n));
  }
};

TEST_F(BadInput, ZeroDimensions) {
  const std::vector<std::int8_t> none;
  Chain c(device());
  expect(Errc::invalid_argument, "input: M is 0", "at least 1",
         [&] { c.input(Type::i8_i32, 0, 1); });
  expect(Errc::invalid_argument, "input: K is 0", "at least 1",
         [&] { c.input(Type::i8_i32, 1, 0); });
  expect(Errc::invalid_argument, "Weights::pack: K is 0", "at least 1",
         [&] { Weights::pack(device(), 0, 1, none); });
  expect(Errc::invalid_argument, "Weights::pack: N is 0", "at least 1",
         [&] { Weights::pack(device(), 1, 0, none); });
}

TEST_F(BadInput, HugeDimensions) {
  const std::vector<std::int8_t> none;
  constexpr std::uint32_t most = 0xffffffffU;
  Chain c(device());
  expect(Errc::invalid_argument, "input: M = 4294967295", "4294967296 bytes",
         [&] { c.input(Type::i8_i32, most, 1); });
  expect(Errc::invalid_argument, "K = 4294967296", "4294967296 bytes",
         [&] { c.input(Type::f16_f32, 1, most); });
  expect(Errc::invalid_argument, "N = 4294967296", "4294967296 bytes",
         [&] { Weights::pack(device(), most, most, none); });
  const Tensor x = c.input(Type::i8_i32, 1U << 25, 1);
  expect(Errc::invalid_argument, "M = 33554432", "4294967296 bytes",
         [&] { c.matmul(x, weights(1, 32)); });
}

TEST_F(BadInput, ChainsThatAreTooBigTogether) {
  Chain c(device());
  for (int i = 0; i < 3; ++i) c.input(Type::i8_i32, 1U << 21, 1024);
  c.matmul(c.input(Type::i8_i32, 1, 64), weights());
  expect(Errc::out_of_memory, "build:", "4294967296 bytes", [&] { c.build(); });
  EXPECT_FALSE(c.built());
}

TEST_F(BadInput, SourcesOfTheWrongSize) {
  const std::vector<std::int8_t> source(99);
  expect(Errc::invalid_argument, "source has 99 elements", "K * N = 100",
         [&] { Weights::pack(device(), 10, 10, source); });
  expect(Errc::invalid_argument, "stride is 9", "10 elements",
         [&] { Weights::pack(device(), 10, 9, source, Source::nk, 9); });
  expect(Errc::invalid_argument, "source has 99 elements", "stride of 11",
         [&] { Weights::pack(device(), 10, 10, source, Source::nk, 11); });
  expect(Errc::invalid_argument, "source has 99 elements", "stride of 18446744073709551615",
         [&] { Weights::pack(device(), 10, 10, source, Source::nk, std::size_t{0} - 1); });
}

TEST_F(BadInput, KThatDisagrees) {
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 1, 65);
  expect(Errc::invalid_argument, "tensor 0 has K = 65", "the weights have K = 64",
         [&] { c.matmul(x, weights(64)); });
}

TEST_F(BadInput, TypesThatDisagree) {
  Chain c(device());
  const Tensor x = c.input(Type::f16_f32, 1, 64);
  expect(Errc::invalid_argument, "tensor 0 has fp16 elements", "the weights are int8",
         [&] { c.matmul(x, weights()); });
  expect(Errc::invalid_argument, "type is f16_f16", "the weights are int8",
         [&] { c.matmul(x, weights(), Type::f16_f16); });
  expect(Errc::invalid_argument, "input: type is 4", "the limit is 3",
         [&] { c.input(static_cast<Type>(4), 1, 64); });
  expect(Errc::invalid_argument, "type is 9", "the limit is 3",
         [&] { c.matmul(x, weights(), static_cast<Type>(9)); });
}

TEST_F(BadInput, ResultsThatCannotBeFedOn) {
  if (!feeds_on()) return;
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 1, 64);
  const Tensor wide = c.matmul(x, weights(64, 64));
  expect(Errc::invalid_argument, "tensor 1 cannot be fed on", "int32 elements",
         [&] { c.matmul(wide, weights()); });
  const Tensor narrow = c.matmul(x, weights(64, 33), Type::i8_i8);
  expect(Errc::invalid_argument, "tensor 2 has K = 33", "the weights have K = 64",
         [&] { c.matmul(narrow, weights()); });
  const Tensor long_x = c.input(Type::i8_i32, 1, 4097);
  const Tensor split = c.matmul(long_x, weights(4097, 64), Type::i8_i8);
  expect(Errc::invalid_argument, "K = 4097 is more than 4096", "the CPU has to add",
         [&] { c.matmul(split, weights()); });
}

TEST_F(BadInput, TensorsOfNowhere) {
  Chain c(device());
  c.input(Type::i8_i32, 1, 64);
  expect(Errc::invalid_argument, "matmul: tensor 1 does not exist", "has 1",
         [&] { c.matmul(Tensor{1}, weights()); });
  expect(Errc::invalid_argument, "shape: tensor 7 does not exist", "has 1",
         [&] { static_cast<void>(c.shape(Tensor{7})); });
}

TEST_F(BadInput, WeightsOfAnotherDevice) {
  const Device other = open_device();
  Chain c(other);
  const Tensor x = c.input(Type::i8_i32, 1, 64);
  expect(Errc::invalid_argument, "weights", "another device", [&] { c.matmul(x, weights()); });
}

TEST_F(BadInput, NothingToBuild) {
  Chain c(device());
  c.input(Type::i8_i32, 1, 64);
  expect(Errc::invalid_argument, "build", "no matmul", [&] { c.build(); });
}

TEST_F(BadInput, BeforeBuild) {
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 1, 64);
  const Tensor y = c.matmul(x, weights());
  std::vector<std::int8_t> a(64);
  std::vector<std::int32_t> out(32);
  Stream stream(device());
  expect(Errc::invalid_argument, "write", "not been built", [&] { c.write(x, a); });
  expect(Errc::invalid_argument, "read", "not been built", [&] { c.read(y, out); });
  expect(Errc::invalid_argument, "submit", "not been built", [&] { stream.submit(c); });
  expect(Errc::invalid_argument, "plan", "not been built", [&] { static_cast<void>(c.plan()); });
}

TEST_F(BadInput, AfterBuild) {
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 1, 64);
  c.matmul(x, weights());
  c.build();
  expect(Errc::busy, "build", "already", [&] { c.build(); });
  expect(Errc::busy, "input", "already", [&] { c.input(Type::i8_i32, 1, 1); });
  expect(Errc::busy, "matmul", "already", [&] { c.matmul(x, weights()); });
}

TEST_F(BadInput, WritesOfTheWrongKind) {
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 2, 64);
  const Tensor y = c.matmul(x, weights());
  c.build();
  std::vector<std::int8_t> a(127);
  std::vector<Half> halves(128);
  expect(Errc::invalid_argument, "values has 127 elements", "M * K = 2 * 64 = 128",
         [&] { c.write(x, a); });
  expect(Errc::invalid_argument, "tensor 0 has int8 elements", "not fp16",
         [&] { c.write(x, halves); });
  expect(Errc::invalid_argument, "tensor 1 is a result", "NPU", [&] { c.write(y, a); });
}

TEST_F(BadInput, ReadsOfTheWrongKind) {
  Chain c(device());
  const Tensor x = c.input(Type::i8_i32, 2, 64);
  const Tensor y = c.matmul(x, weights());
  c.build();
  std::vector<std::int32_t> out(64);
  std::vector<std::int32_t> more(65);
  std::vector<float> floats(64);
  expect(Errc::invalid_argument, "read", "never run", [&] { c.read(y, out); });
  Stream(device()).submit(c).get();
  expect(Errc::invalid_argument, "values has 65 elements", "M * N = 2 * 32 = 64",
         [&] { c.read(y, more); });
  expect(Errc::invalid_argument, "tensor 1 has int32 elements", "not fp32",
         [&] { c.read(y, floats); });
  expect(Errc::invalid_argument, "tensor 0 is an input", "CPU", [&] { c.read(x, out); });
}

TEST_F(BadInput, OneShotsThatDisagreeWithTheirShape) {
  const Weights w = weights(64, 32);
  std::vector<std::int8_t> a(64);
  std::vector<std::int32_t> c(32);
  expect(Errc::invalid_argument, "shape has K = 63", "K = 64", [&] {
    matmul(device(), {1, 63, 32}, a, w, c);
  });
  expect(Errc::invalid_argument, "a has 64 elements", "M * K = 128", [&] {
    matmul(device(), {2, 64, 32}, a, w, c);
  });
  c.resize(31);
  expect(Errc::invalid_argument, "c has 31 elements", "M * N = 32", [&] {
    matmul(device(), {1, 64, 32}, a, w, c);
  });
}

TEST_F(BadInput, BuffersOfImpossibleSizes) {
  expect(Errc::invalid_argument, "size is 0", "at least 1",
         [&] { static_cast<void>(device().allocate(0)); });
  expect(Errc::invalid_argument, "size = 4294967296", "4294967296 bytes",
         [&] { static_cast<void>(device().allocate(std::size_t{1} << 32)); });
}

}  // namespace
}  // namespace rkchain::test

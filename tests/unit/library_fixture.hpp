// SPDX-License-Identifier: MIT
// One device for all tests of a suite.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "rkchain/rkchain.hpp"
#include "unit/matmul_reference.hpp"

namespace rkchain::test {

class Library : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { device_ = std::make_unique<Device>(open_device()); }
  static void TearDownTestSuite() { device_.reset(); }

  static const Device& device() { return *device_; }

  /// May a matmul read another one's result?  Where the device's mode is not known to keep their
  /// order it has to be refused, which is all that there is to show then; the model keeps it.
  static bool feeds_on() {
    if (device().info().ordered) return true;
    EXPECT_NE(device().info().backend, BackendKind::model);
    const std::vector<std::int8_t> ones(32 * 32, 1);
    const Weights w = Weights::pack(device(), 32, 32, std::span(ones));
    Chain c(device());
    const Tensor y = c.matmul(c.input(Type::i8_i8, 1, 32), w, Type::i8_i8);
    try {
      c.matmul(y, w);
      ADD_FAILURE() << "fed on without an order";
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("before the next one reads"),
                std::string_view::npos)
          << error.what();
    }
    return false;
  }

  /// Builds, writes the operand, runs.
  template <typename T>
  static RunResult run(Chain& chain, Tensor x, const std::vector<T>& values) {
    if (!chain.built()) chain.build();
    chain.write(x, std::span<const T>(values));
    return Stream(device()).submit(chain).get();
  }

  template <typename T>
  static std::vector<T> read(const Chain& chain, Tensor t) {
    const Shape shape = chain.shape(t);
    std::vector<T> values(std::size_t{shape.m} * shape.n);
    chain.read(t, std::span<T>(values));
    return values;
  }

 private:
  static inline std::unique_ptr<Device> device_;
};

}  // namespace rkchain::test

// SPDX-License-Identifier: MIT
// One device for all tests of a suite.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "rkchain/rkchain.hpp"
#include "unit/matmul_reference.hpp"

namespace rkchain::test {

/// Why a test that feeds on results is skipped.
inline constexpr const char* kNotOrdered =
    "in its mode, this device is not known to finish a block before the next one reads";

class Library : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { device_ = std::make_unique<Device>(open_device()); }
  static void TearDownTestSuite() { device_.reset(); }

  static const Device& device() { return *device_; }

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

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>

#include "rkchain/device.hpp"
#include "rkchain/weights.hpp"

namespace rkchain {

/// Packed weights: per K tile (plan.hpp: k_tiles) the kernel groups of all columns, padded to
/// kPadding, one after the other.
struct Weights::Impl {
  Buffer buffer;
  std::uint32_t k = 0;
  std::uint32_t n = 0;
  bool fp16 = false;
};

}  // namespace rkchain

// SPDX-License-Identifier: MIT
// The parts of the demo.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "rkchain/rkchain.hpp"
#include "tools/cli.hpp"

namespace rkchain::tool {

struct DemoOptions {
  std::uint32_t layers = 28;
  std::uint32_t sequences = 2;
  std::uint32_t seed = 1;
  std::optional<Mode> mode;
};

/// What one layer did, all sequences together.
struct LayerWork {
  std::uint64_t chains = 0;
  std::uint64_t tasks = 0;  ///< register programs: what would be submits one by one
  std::uint64_t submits = 0;
  std::uint64_t interrupts = 0;
  std::array<CoreStats, 3> core{};
  std::uint64_t elements = 0;
  std::uint64_t different = 0;

  LayerWork& operator+=(const LayerWork& other);
};

struct LayersReport {
  std::vector<LayerWork> layers;
  std::string first_difference;

  [[nodiscard]] LayerWork total() const;
};

/// Decoder layers of Qwen3-0.6B for one token of each sequence, every result compared.
[[nodiscard]] LayersReport run_layers(const Device& device, const DemoOptions& options);

}  // namespace rkchain::tool

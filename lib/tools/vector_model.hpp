// SPDX-License-Identifier: MIT
// A vector's program on one core of the software NPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/vectors.hpp"

namespace rkchain::tool {

struct ModelRun {
  std::vector<std::uint8_t> c;  ///< what was written at the file's address of C
  std::string trouble;          ///< a fault, no completion, or a wrong earlier block
};

/// @param blocks 1: the program alone; more: as the last block of a wait chain, behind blocks
///   of other sizes whose results are compared as well.
/// @param poison what CBUF and registers hold before.
[[nodiscard]] ModelRun run_on_model(const Vector& vector, std::uint32_t blocks,
                                    std::uint32_t poison);

}  // namespace rkchain::tool

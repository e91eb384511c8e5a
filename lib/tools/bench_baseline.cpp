// SPDX-License-Identifier: MIT
// Alone in its file, so that its options are its own and no caller knows its sizes.
#include "tools/bench.hpp"

namespace rkchain::tool {

void baseline_i8(std::int32_t* c, const std::int8_t* a, const std::int8_t* b, std::size_t m,
                 std::size_t k, std::size_t n) {
  for (std::size_t row = 0; row < m; row++)
    for (std::size_t column = 0; column < n; column++) {
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < k; i++) sum += a[row * k + i] * b[column * k + i];
      c[row * n + column] = sum;
    }
}

}  // namespace rkchain::tool

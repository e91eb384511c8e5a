// SPDX-License-Identifier: MIT
// One matmul of kmod/core, in the words of the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kmod/core/matmul.h"
#include "kmod/core/reason.h"
#include "tools/cli.hpp"

namespace rkchain::tool {

/// "i8_i32 flat, M 4, K 32, N 32"
[[nodiscard]] std::string describe(const rkc_matmul& matmul);

/// A refusal of rkc_matmul_check() with the argument at fault and the limit.
/// @param names the argument of M, K, N, total rows, and the addresses A, B, C.
struct MatmulNames {
  std::string_view m = "M";
  std::string_view k = "K";
  std::string_view n = "N";
  std::string_view rows_total = "--rows-total";
  std::string_view a = "--a";
  std::string_view b = "--b";
  std::string_view c = "--c";
};
[[nodiscard]] std::string explain(const rkc_err& error, const MatmulNames& names);

/// The same for programs.
[[nodiscard]] Json to_json(const rkc_err& error);

/// Type, layout, sizes and what A, B and C occupy.
[[nodiscard]] Json to_json(const rkc_matmul& matmul);

[[nodiscard]] constexpr Type type_of(const rkc_matmul& matmul) {
  return static_cast<Type>(matmul.type);
}

}  // namespace rkchain::tool

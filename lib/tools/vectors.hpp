// SPDX-License-Identifier: MIT
// Test vectors: one program with what it read and what it wrote, in JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kmod/core/matmul.h"
#include "rkchain/types.hpp"

namespace rkchain::tool {

struct Vector {
  std::string name;
  rkc_matmul matmul{};  ///< passed rkc_matmul_check()
  std::vector<std::uint8_t> a;
  std::vector<std::uint8_t> b;  ///< packed
  std::vector<std::uint8_t> c;
  std::vector<std::uint64_t> regcmd;
  std::uint32_t regcmd_iova = 0;
  std::uint32_t regcfg_amount = RKC_BODY_WORDS;  ///< words of the body
  std::uint32_t int_mask = 0x300;

  [[nodiscard]] Type type() const { return static_cast<Type>(matmul.type); }
  [[nodiscard]] Shape shape() const { return {matmul.m, matmul.k, matmul.n}; }
  [[nodiscard]] std::uint64_t outputs() const { return std::uint64_t{matmul.m} * matmul.n; }
};

inline constexpr std::size_t max_vector_bytes = std::size_t{256} << 20;

/// @param file for messages.
/// @throws BadInput naming the file and the key.
[[nodiscard]] Vector parse_vector(std::string_view text, std::string_view file);

/// tests/vectors/int8_4x32x32.json, captured from silicon; part of the tool.
[[nodiscard]] Vector silicon_vector();

}  // namespace rkchain::tool

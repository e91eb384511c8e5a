// SPDX-License-Identifier: MIT
// Register programs as people keep them: raw, as hex text, or in JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli.hpp"

namespace rkchain::tool {

/// The most that is read of one file.
inline constexpr std::size_t max_dump_bytes = std::size_t{64} << 20;

enum class WordFormat : std::uint8_t {
  automatic,
  raw,    ///< 64-bit little-endian
  hex64,  ///< hex numbers of 64 bits
  hex32,  ///< hex numbers of 32 bits, the low half of each word first
  xxd,    ///< bytes in hex: xxd, xxd -p, hexdump -C
  json,   ///< {"regcmd": ["...", ...]} or the array alone
};
[[nodiscard]] std::string_view name(WordFormat format) noexcept;

struct Words {
  WordFormat format = WordFormat::raw;
  std::vector<std::uint64_t> words;
};

/// @param file for messages.
/// @throws BadInput with line or offset of what cannot be read.
[[nodiscard]] Words parse_words(std::string_view bytes, std::string_view file, WordFormat format);

/// @throws BadInput with line and column.
[[nodiscard]] Json parse_json(std::string_view text, std::string_view file);

/// Entries of a "regcmd" array: hex strings of up to 16 digits.
/// @param key for messages.
[[nodiscard]] std::vector<std::uint64_t> regcmd_words(const Json& array, std::string_view file,
                                                      std::string_view key);

/// @return nothing unless @p text is 1 to @p most hex digits, with or without 0x.
[[nodiscard]] bool parse_hex(std::string_view text, std::size_t most, std::uint64_t& value);

}  // namespace rkchain::tool

// SPDX-License-Identifier: MIT
// What a payload has to look like for those who read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "capture/record.hpp"

namespace rkchain::capture {

/// What follows a record's struct.
enum class Rest : std::uint8_t {
  none,
  words,    ///< of 64 bits, as many as a member says
  bytes,    ///< the same
  ids,      ///< of 32 bits, the same
  text,     ///< to the end of the payload
  strings,  ///< each ended by NUL
};

/// One kind of record.
struct Schema {
  Kind kind{};
  std::size_t size = 0;  ///< of its struct
  Rest rest = Rest::none;
  std::string_view rest_name;    ///< in JSON and text
  std::size_t count_offset = 0;  ///< of the number that says how much follows
};

/// @return nullptr for a kind that this version does not know.
[[nodiscard]] const Schema* schema_of(std::uint16_t kind) noexcept;
/// By name(Kind), in capitals or not.
[[nodiscard]] const Schema* schema_of(std::string_view name) noexcept;

/// Bytes of one piece of what follows; 0 where it is not counted.
[[nodiscard]] std::size_t piece_bytes(Rest rest) noexcept;

/// Does the payload hold its struct, and what that counts?
/// @return why not; empty when it does.
[[nodiscard]] std::string misfit(const Schema& schema, std::span<const std::byte> payload);

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
// The members of each record's struct, as JSON lines and text name them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "capture/record.hpp"

namespace rkchain::capture {

enum class Shape : std::uint8_t { u32, s32, u64, s64, hex32, hex64, subcores };

/// Text has the hex shapes as 0x..; JSON knows only numbers.
struct Field {
  const char* name;
  std::size_t offset;
  Shape shape;
};

/// A record's own members, and one struct within it.
struct Fields {
  std::span<const Field> own;
  const char* inner_name = nullptr;
  std::span<const Field> inner = {};
  std::size_t inner_offset = 0;
};

/// @return nothing for a number that is no kind
[[nodiscard]] Fields fields(Kind kind) noexcept;

/// A member's bits; negative ones are extended to 64.
[[nodiscard]] std::uint64_t load(const void* from, const Field& field) noexcept;

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
// How a matmul of any size becomes tasks that the NPU takes, and where its tiles lie.  Pure
// arithmetic: no device, no memory.
//
// Memory of an operand A[M,K], padded to Kp columns:
//   flat    one block per K tile, row-major [M][Kt], one after the other
//   native  one tensor; a K tile starts at a plane of 16-byte atoms
// Memory of a result C[M,N], padded to Np columns, once per K tile ("part"):
//   flat    one block per N tile, row-major [M][Nt], one after the other
//   native  one tensor; an N tile starts at a plane
// Weights: one block per K tile, whole kernel groups one after the other.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kmod/core/matmul.h"
#include "rkchain/types.hpp"

namespace rkchain::detail {

/// What 32 bits of address reach.
inline constexpr std::uint64_t kDeviceBytes = 1ULL << 32;
/// The library's own limit for K in one task; RKC_K_MAX is the hardware's.
inline constexpr std::uint32_t kTaskK = 4096;
/// K and the columns of packed weights are padded to this, whatever the type: so a result has
/// the padding that it needs as the next matmul's operand.
inline constexpr std::uint32_t kPadding = 32;
/// Where tensors start.
inline constexpr std::uint64_t kTensorAlign = 64;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

/// [begin, begin + size) of rows or columns, padding included.
struct Range {
  std::uint32_t begin = 0;
  std::uint32_t size = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

/// A range and who computes it.  Lanes stand for cores: which is which is decided per run.
struct Tile {
  Range range;
  std::uint32_t lane = 0;
};

/// Cuts [0, total) into the fewest ranges of at most @p max, as equal as multiples of @p unit can
/// be; only the last one's size need not be a multiple.
std::vector<Range> cut(std::uint32_t total, std::uint32_t unit, std::uint32_t max);

/// Cuts [0, total) into @p parts ranges, or fewer where there are not as many units.
std::vector<Range> divide(std::uint32_t total, std::uint32_t unit, std::uint32_t parts);

/// K tiles depend on K alone: every user of an operand or of weights finds the same.
std::vector<Range> k_tiles(std::uint32_t k);

/// @throws Error invalid_argument "<what>: <name> is 0; at least 1 is needed".
void require_positive(std::string_view what, std::string_view name, std::uint64_t value);

/// rows * columns * element_bytes.
/// @throws Error invalid_argument when that is more than the NPU addresses; the text names
///   both dimensions and the limit.
std::uint64_t device_bytes(std::string_view what, std::string_view row_name, std::uint64_t rows,
                           std::string_view column_name, std::uint64_t columns,
                           std::uint64_t element_bytes);

/// Bytes of an operand, those included that a native task reads past its rows.
/// @throws Error invalid_argument as device_bytes().
std::uint64_t operand_bytes(std::string_view what, Layout layout, std::uint32_t m, std::uint32_t k,
                            std::size_t element_bytes);

struct PlanRequest {
  Type type = Type::i8_i32;
  Layout layout = Layout::flat;
  Shape shape;
  std::uint32_t lanes = 1;       ///< over how many cores its columns are divided
  std::uint32_t first_lane = 0;  ///< who gets the first part, < lanes
  bool fed_on = false;           ///< the result has to be in the form of an operand
};

struct MatmulPlan {
  Type type = Type::i8_i32;  ///< what the tasks compute: a 32-bit type when K is split
  Layout layout = Layout::flat;
  std::uint32_t m = 0;
  std::uint32_t kp = 0;
  std::uint32_t np = 0;
  std::uint32_t packed_n = 0;  ///< columns that the weights were packed for, >= np
  std::vector<Range> k;
  std::vector<Tile> n;
  std::vector<Tile> rows;
  bool rows_divided = false;    ///< lanes divide the rows, not the columns
  std::uint32_t next_lane = 0;  ///< who would get the next part
  std::uint64_t part_bytes = 0;
  std::uint64_t output_bytes = 0;  ///< all parts, and what a native reader needs after them

  /// Several partial results that the CPU adds.
  [[nodiscard]] bool partial() const noexcept { return k.size() > 1; }
  [[nodiscard]] std::uint64_t blocks() const noexcept { return k.size() * n.size() * rows.size(); }
};

/// @throws Error invalid_argument: a dimension is 0, or too much for the device.
MatmulPlan plan_matmul(const PlanRequest& request);

/// Where operand, weights and result lie for the NPU.
struct Addresses {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
};

struct PlannedBlock {
  rkc_matmul task{};
  std::uint32_t lane = 0;
};

/// Appends the tasks of a planned matmul.
/// @throws Error check_failed when one breaks a limit, which only wrong addresses can cause.
void append_tasks(const MatmulPlan& plan, const Addresses& at, std::vector<PlannedBlock>& blocks);

}  // namespace rkchain::detail

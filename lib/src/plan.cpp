// SPDX-License-Identifier: MIT
#include "plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "format.hpp"
#include "rkchain/error.hpp"

namespace rkchain::detail {
namespace {

/// What a native task reads past its operand, per row.
constexpr std::uint64_t kNativeExcess = 48;
constexpr std::uint64_t kAtomBytes = 16;

std::vector<Range> cut_evenly(std::uint32_t total, std::uint32_t unit, std::uint64_t parts) {
  const std::uint64_t units = (std::uint64_t{total} + unit - 1) / unit;
  std::vector<Range> ranges;
  ranges.reserve(parts);
  std::uint32_t begin = 0;
  for (std::uint64_t i = 0; i < parts; ++i) {
    const std::uint64_t size = (units / parts + (i < units % parts ? 1 : 0)) * unit;
    const auto range = static_cast<std::uint32_t>(std::min<std::uint64_t>(size, total - begin));
    ranges.push_back({begin, range});
    begin += range;
  }
  return ranges;
}

/// Divides [0, total) over lanes, then each part into tiles of at most @p max.
std::vector<Tile> tile(std::uint32_t total, std::uint32_t unit, std::uint32_t max,
                       std::uint32_t lanes, std::uint32_t first_lane) {
  std::vector<Tile> tiles;
  std::uint32_t lane = first_lane;
  for (const Range& part : divide(total, unit, lanes)) {
    for (Range range : cut(part.size, unit, max)) {
      range.begin += part.begin;
      tiles.push_back({range, lane});
    }
    lane = (lane + 1) % lanes;
  }
  return tiles;
}

constexpr Type partial_type(Type type) noexcept {
  return input_bytes(type) == 1 ? Type::i8_i32 : Type::f16_f32;
}

}  // namespace

std::vector<Range> cut(std::uint32_t total, std::uint32_t unit, std::uint32_t max) {
  const std::uint64_t units = (std::uint64_t{total} + unit - 1) / unit;
  const std::uint64_t per_part = max / unit;
  return cut_evenly(total, unit, (units + per_part - 1) / per_part);
}

std::vector<Range> divide(std::uint32_t total, std::uint32_t unit, std::uint32_t parts) {
  const std::uint64_t units = (std::uint64_t{total} + unit - 1) / unit;
  return cut_evenly(total, unit, std::min<std::uint64_t>(units, parts));
}

std::vector<Range> k_tiles(std::uint32_t k) {
  return cut(static_cast<std::uint32_t>(round_up(k, kPadding)), kPadding, kTaskK);
}

void require_positive(std::string_view what, std::string_view name, std::uint64_t value) {
  if (value == 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: {} is 0; at least 1 is needed", what, name));
  }
}

std::uint64_t device_bytes(std::string_view what, std::string_view row_name, std::uint64_t rows,
                           std::string_view column_name, std::uint64_t columns,
                           std::uint64_t element_bytes) {
  // A dimension has 32 bits and an element 4 bytes: one of the two products cannot overflow.
  if (rows > (kDeviceBytes - 1) / (columns * element_bytes)) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("{}: {} = {} times {} = {} elements of {} bytes, padding included, do "
                    "not fit into the {} bytes that the NPU addresses",
                    what, row_name, rows, column_name, columns, element_bytes, kDeviceBytes));
  }
  return rows * columns * element_bytes;
}

std::uint64_t operand_bytes(std::string_view what, Layout layout, std::uint32_t m, std::uint32_t k,
                            std::size_t element_bytes) {
  const std::uint64_t bytes = device_bytes(what, "M", m, "K", round_up(k, kPadding), element_bytes);
  return layout == Layout::native ? bytes + kNativeExcess * m : bytes;
}

MatmulPlan plan_matmul(const PlanRequest& request) {
  const Shape& shape = request.shape;
  const auto type = static_cast<u32>(request.type);
  require_positive("matmul", "M", shape.m);
  require_positive("matmul", "K", shape.k);
  require_positive("matmul", "N", shape.n);
  const std::uint64_t packed_n = round_up(shape.n, kPadding);
  device_bytes("matmul", "N", packed_n, "K", round_up(shape.k, kPadding), rkc_in_bytes(type));
  operand_bytes("matmul", request.layout, shape.m, shape.k, rkc_in_bytes(type));

  MatmulPlan plan;
  plan.layout = request.layout;
  plan.m = shape.m;
  plan.k = k_tiles(shape.k);
  plan.type = plan.partial() ? partial_type(request.type) : request.type;
  const auto task = static_cast<u32>(plan.type);
  const std::uint32_t group = rkc_kernel_group(task);
  const std::uint64_t np = request.fed_on ? packed_n : round_up(shape.n, group);
  plan.part_bytes = device_bytes("matmul", "M", shape.m, "N", np, rkc_out_bytes(task));
  plan.kp = static_cast<std::uint32_t>(round_up(shape.k, kPadding));
  plan.np = static_cast<std::uint32_t>(np);
  plan.packed_n = static_cast<std::uint32_t>(packed_n);

  // A flat operand of several rows has a block of memory per K tile: a result that becomes one
  // is cut at the same columns, and it is the rows that can be divided.
  const bool flat_operand = request.fed_on && plan.layout == Layout::flat && plan.m > 1;
  const std::uint32_t lanes = std::max(request.lanes, 1U);
  const std::uint32_t max_rows = rkc_max_rows(task, plan.k.front().size);  // of the longest K tile
  plan.rows_divided = flat_operand && lanes > 1;
  if (flat_operand) {
    for (const Range& range : k_tiles(plan.np)) plan.n.push_back({range, 0});
    plan.rows = tile(plan.m, 1, max_rows, lanes, request.first_lane);
  } else {
    plan.n = tile(plan.np, group, RKC_N_MAX, lanes, request.first_lane);
    plan.rows = tile(plan.m, 1, max_rows, 1, 0);
  }
  plan.next_lane = ((flat_operand ? plan.rows : plan.n).back().lane + 1) % lanes;
  if (plan.layout == Layout::native && plan.rows.size() > 1 && plan.m > RKC_ROWS_TOTAL_MAX) {
    throw Error(Errc::invalid_argument,
                fmt::format("matmul: M = {} is more than the {} rows of a native tensor", plan.m,
                            RKC_ROWS_TOTAL_MAX));
  }

  plan.part_bytes = round_up(plan.part_bytes, kTensorAlign);
  plan.output_bytes = plan.part_bytes * plan.k.size();
  if (request.fed_on && plan.layout == Layout::native) {
    plan.output_bytes += kNativeExcess * plan.m;
  }
  if (plan.output_bytes >= kDeviceBytes) {
    throw Error(Errc::invalid_argument,
                fmt::format("matmul: M = {} times N = {} in {} partial results (K = {} is more "
                            "than {}) do not fit into the {} bytes that the NPU addresses",
                            shape.m, shape.n, plan.k.size(), shape.k, kTaskK, kDeviceBytes));
  }
  return plan;
}

void append_tasks(const MatmulPlan& plan, const Addresses& at, std::vector<PlannedBlock>& blocks) {
  const auto type = static_cast<u32>(plan.type);
  const std::uint64_t in = rkc_in_bytes(type);
  const std::uint64_t out = rkc_out_bytes(type);
  const std::uint64_t m = plan.m;
  const bool native = plan.layout == Layout::native;
  const bool sliced = native && plan.rows.size() > 1;

  PlannedBlock block;
  rkc_matmul& task = block.task;
  task.type = static_cast<u8>(type);
  task.layout = sliced ? RKC_SLICE : native ? RKC_NATIVE : RKC_FLAT;
  blocks.reserve(blocks.size() + plan.blocks());
  for (std::size_t part = 0; part < plan.k.size(); ++part) {
    const Range& k = plan.k[part];
    for (const Tile& n : plan.n) {
      for (const Tile& rows : plan.rows) {
        const std::uint64_t row_a = native ? kAtomBytes : k.size * in;
        const std::uint64_t row_c = native ? kAtomBytes : n.range.size * out;
        task.m = rows.range.size;
        task.k = k.size;
        task.n = n.range.size;
        task.m_total = sliced ? plan.m : rows.range.size;
        task.a = static_cast<u32>(at.a + k.begin * in * m + rows.range.begin * row_a);
        task.b = static_cast<u32>(at.b + std::uint64_t{k.begin} * plan.packed_n * in +
                                  std::uint64_t{n.range.begin} * k.size * in);
        task.c = static_cast<u32>(at.c + part * plan.part_bytes + n.range.begin * out * m +
                                  rows.range.begin * row_c);
        block.lane = plan.rows_divided ? rows.lane : n.lane;
        rkc_err err{};
        if (rkc_matmul_check(&task, &err) != RKC_OK) {
          err.block = static_cast<u32>(blocks.size());
          throw refusal(err, "matmul");
        }
        blocks.push_back(block);
      }
    }
  }
}

}  // namespace rkchain::detail

// SPDX-License-Identifier: MIT
//
// Descriptors from choices, and the words around bodies.
#pragma once

#include "fuzz/input.hpp"
#include "kmod/core/entry.h"

namespace rkchain::fuzz {

/// A shape within the limits without addresses; nearly always a small one.  Takes 6 bytes.
inline rkc_matmul any_shape(Input& in) {
  rkc_matmul d{};
  const u32 kind = in.byte();
  d.type = static_cast<u8>(kind % RKC_TYPES);
  d.layout = static_cast<u8>(kind / RKC_TYPES % RKC_LAYOUTS);
  const u32 group = rkc_kernel_group(d.type);
  d.m = 1 + in.below(8);
  d.k = 32 * (1 + in.below(4));
  d.n = group * (1 + in.below(64 / group));
  const u32 more = in.byte();
  const u32 large = in.byte();
  if (large > 240) {
    // One side up to its limit, the others small.
    const u32 to = (large - 240) * more;
    switch (large % 3) {
      case 0:
        d.m = 1 + to % rkc_max_rows(d.type, d.k);
        break;
      case 1:
        d.k = 32 * (1 + to % (RKC_K_MAX / 32));
        d.m = 1 + (d.m - 1) % rkc_max_rows(d.type, d.k);
        break;
      default:
        d.n = group * (1 + to % (RKC_N_MAX / group));
        break;
    }
  }
  d.m_total = d.m;
  if (d.layout == RKC_SLICE) d.m_total += more < 128 ? more % 4 : more * 8;
  return d;
}

/// The lowest address, the highest one, or one in between, for an extent of @p len.  Takes 3 bytes.
inline u32 any_address(Input& in, u64 len) {
  const u32 where = in.byte();
  const u32 atoms = in.half();
  const u64 highest = (0x100000000ULL - len) & ~15ULL;
  if (where < 64) return 16 * atoms;
  if (where < 128) return static_cast<u32>(highest - 16 * atoms);
  return static_cast<u32>(std::min<u64>(u64{where} << 24 | atoms << 4, highest));
}

/// A descriptor within the limits.  Takes 15 bytes.
inline rkc_matmul any_matmul(Input& in) {
  rkc_matmul d = any_shape(in);
  rkc_extents x{};
  rkc_matmul_extents(&d, &x);
  d.a = any_address(in, x.a.len);
  d.b = any_address(in, x.b.len);
  d.c = any_address(in, x.c.len);
  return d;
}

constexpr u64 kRun = u64{RKC_TARGET_OP_ENABLE} << 48 | u64{RKC_OP_MATMUL} << 16 | RKC_PC_OP_ENABLE;
constexpr u64 kRunAndWait = kRun | u64{2} << 16;
constexpr u64 kArm = u64{RKC_TARGET_ARM} << 48;

inline u64 pc_entry(u32 reg, u32 value) { return rkc_entry(RKC_TARGET_PC, reg, value); }

/// The end of a program; @p next is where the next one lies, of @p body words, 0 for none.
inline std::vector<u64> tail(u32 next, u32 body) {
  return {next != 0 ? pc_entry(RKC_PC_ADDRESS, next) : 0,
          pc_entry(RKC_PC_AMOUNT, next != 0 ? rkc_pc_amount(body) : 0), kArm, kRun};
}

}  // namespace rkchain::fuzz

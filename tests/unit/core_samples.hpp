// SPDX-License-Identifier: MIT
// Descriptors and programs for the tests of kmod/core.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kmod/core/chain.h"
#include "kmod/core/matmul.h"

namespace rkchain::test {

using Words = std::vector<u64>;

inline rkc_matmul block(std::uint32_t type, std::uint32_t layout, std::uint32_t m, std::uint32_t k,
                        std::uint32_t n, std::uint32_t a = 0x10000000, std::uint32_t b = 0x20000000,
                        std::uint32_t c = 0x40000000) {
  rkc_matmul d{};
  d.type = static_cast<u8>(type);
  d.layout = static_cast<u8>(layout);
  d.m = m;
  d.k = k;
  d.n = n;
  d.m_total = m;
  d.a = a;
  d.b = b;
  d.c = c;
  return d;
}

inline bool same(const rkc_matmul& x, const rkc_matmul& y) {
  return std::memcmp(&x, &y, sizeof(x)) == 0;
}

/// Any descriptor within the limits, small shapes more often than large ones.
inline rkc_matmul any_matmul(std::mt19937& rng) {
  const auto below = [&rng](std::uint32_t n) { return static_cast<std::uint32_t>(rng() % n); };
  rkc_matmul d{};
  d.type = static_cast<u8>(below(RKC_TYPES));
  d.layout = static_cast<u8>(below(RKC_LAYOUTS));
  d.k = 32 * (1 + below(below(2) != 0 ? 4 : RKC_K_MAX / 32));
  const std::uint32_t group = rkc_kernel_group(d.type);
  d.n = group * (1 + below(below(2) != 0 ? 4 : RKC_N_MAX / group));
  const std::uint32_t rows = rkc_max_rows(d.type, d.k);
  d.m = 1 + below(below(2) != 0 && rows > 8 ? 8 : rows);
  d.m_total = d.layout == RKC_SLICE ? d.m + below(below(2) != 0 ? 3 : 5000) : d.m;
  rkc_extents x{};
  rkc_matmul_extents(&d, &x);
  const auto place = [&](std::uint64_t len) {
    const std::uint64_t slots = (0x100000000ULL - len) / 16;
    return static_cast<std::uint32_t>(16 * (((std::uint64_t{rng()} << 32) | rng()) % (slots + 1)));
  };
  d.a = place(x.a.len);
  d.b = place(x.b.len);
  d.c = place(x.c.len);
  return d;
}

inline Words full_program(const rkc_matmul& d) {
  Words words(RKC_FULL_WORDS);
  rkc_chain_emit(RKC_SINGLE, &d, 1, 0, words.data(), nullptr);
  return words;
}

}  // namespace rkchain::test

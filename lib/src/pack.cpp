// SPDX-License-Identifier: MIT
//
// This file is compiled once per instruction set: Highway includes it again from foreach_target.h,
// so lib/ has to be on the include path. What is outside HWY_ONCE below must stand being seen
// several times.
#include "pack.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

// Scalable vectors cannot live in arrays, which the transposes need; no RK3588 core has them, and
// on machines that do, NEON is there too. SSSE3 without SSE4 is not worth its time to compile.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
#endif
// Machines without any known vectors get 16-byte vectors in plain C++. Highway avoids that with gcc
// before 12.3 for a miscompilation; pack_test runs this target too, so it would be seen here.
#ifndef HWY_BROKEN_EMU128
#define HWY_BROKEN_EMU128 0
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/pack.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "pack_weights-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rkchain::detail {
namespace HWY_NAMESPACE {
namespace {

// ---- native features and results: transposes of 16-byte atoms ----

/// What happens to an atom on arrival.
struct Copy {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D /*d*/, hn::Vec<D> v, const Byte* /*to*/) const {
    return v;
  }
};

template <class T>
struct Add {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> v, const Byte* to) const {
    const hn::Repartition<T, D> lanes;
    return hn::BitCast(d, hn::Add(hn::BitCast(lanes, hn::LoadU(d, to)), hn::BitCast(lanes, v)));
  }
};

/// Atom (r, c) at `from + r*from_stride + c*16` goes to `to + c*to_stride + r*16`. Each line of the
/// destination is written in one go, and a block reads few columns: where strides are powers of
/// two, its lines share a handful of cache sets.
template <class Arrive>
void transpose_atoms(Byte* to, std::size_t to_stride, const Byte* from, std::size_t from_stride,
                     std::size_t rows, std::size_t cols) {
  constexpr std::size_t line = kLine / kAtom;
  constexpr std::size_t block_rows = 64;
  constexpr std::size_t block_cols = 8;
  const Bytes d;
  const Atom atom;
  const Arrive arrive;
  for (std::size_t r0 = 0; r0 < rows; r0 += block_rows) {
    const std::size_t r1 = std::min(rows, r0 + block_rows);
    for (std::size_t c0 = 0; c0 < cols; c0 += block_cols) {
      const std::size_t c1 = std::min(cols, c0 + block_cols);
      std::size_t r = r0;
      for (; r + line <= r1; r += line) {
        for (std::size_t c = c0; c < c1; ++c) {
          for (std::size_t part = r; part < r + line; part += kBlocks) {
            Byte* const at = to + c * to_stride + part * kAtom;
            const auto v = load_blocks(d, from + part * from_stride + c * kAtom, from_stride);
            hn::StoreU(arrive(d, v, at), d, at);
          }
        }
      }
      for (; r < r1; ++r) {
        for (std::size_t c = c0; c < c1; ++c) {
          Byte* const at = to + c * to_stride + r * kAtom;
          const auto v = hn::LoadU(atom, from + r * from_stride + c * kAtom);
          hn::StoreU(arrive(atom, v, at), atom, at);
        }
      }
    }
  }
}

void copy_atoms(Byte* to, std::size_t to_stride, const Byte* from, std::size_t from_stride,
                std::size_t rows, std::size_t cols) {
  transpose_atoms<Copy>(to, to_stride, from, from_stride, rows, cols);
}

void add_atoms_i32(Byte* to, std::size_t to_stride, const Byte* from, std::size_t from_stride,
                   std::size_t rows, std::size_t cols) {
  transpose_atoms<Add<std::int32_t>>(to, to_stride, from, from_stride, rows, cols);
}

void add_atoms_f32(Byte* to, std::size_t to_stride, const Byte* from, std::size_t from_stride,
                   std::size_t rows, std::size_t cols) {
  transpose_atoms<Add<float>>(to, to_stride, from, from_stride, rows, cols);
}

// ---- rows ----

template <class T>
void add_row(T* to, const T* from, std::size_t n) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  }
  for (; i < n; ++i) to[i] += from[i];
}

void add_row_i32(std::int32_t* to, const std::int32_t* from, std::size_t n) {
  add_row(to, from, n);
}
void add_row_f32(float* to, const float* from, std::size_t n) { add_row(to, from, n); }

struct Saturate {
  template <class D>
  HWY_INLINE void operator()(D d, const std::int32_t* from, std::int8_t* to) const {
    const hn::Rebind<std::int8_t, D> narrow;
    hn::StoreU(hn::DemoteTo(narrow, hn::LoadU(d, from)), narrow, to);
  }
};

struct RoundToF16 {
  template <class D>
  HWY_INLINE void operator()(D d, const float* from, std::uint16_t* to) const {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const hn::Rebind<std::uint16_t, D> narrow;
    const auto bits = hn::BitCast(du, hn::LoadU(d, from));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffU));
    const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
    // Normal results: move the exponent's bias from 127 to 15, add just under half of the last
    // place, and one more when that place is odd. A carry into the exponent is right, up to and
    // including the step to infinity.
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1U));
    const auto biased = hn::Add(hn::Sub(magnitude, hn::Set(du, (127U - 15U) << 23)),
                                hn::Add(hn::Set(du, 0xfffU), odd));
    const auto normal = hn::ShiftRight<13>(biased);
    // Subnormal results: adding 0.5 lets the addition round at 2^-24, fp16's last place there.
    const auto half = hn::Set(d, 0.5F);
    const auto shifted = hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), half));
    const auto subnormal = hn::Sub(shifted, hn::BitCast(du, half));
    const auto nan =
        hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3ffU)), hn::Set(du, 0x7e00U));
    // Comparisons are signed: magnitudes are below 2^31, and every target has signed ones.
    const auto m = hn::BitCast(di, magnitude);
    auto result = hn::BitCast(di, normal);
    result = hn::IfThenElse(hn::Lt(m, hn::Set(di, (127 - 14) << 23)), hn::BitCast(di, subnormal),
                            result);
    result = hn::IfThenElse(hn::Gt(m, hn::Set(di, 0x477fffff)), hn::Set(di, 0x7c00), result);
    result = hn::IfThenElse(hn::Gt(m, hn::Set(di, 0x7f800000)), hn::BitCast(di, nan), result);
    result = hn::Or(result, hn::BitCast(di, sign));
    hn::StoreU(hn::DemoteTo(narrow, result), narrow, to);
  }
};

/// One row; what is left at its end goes through padded buffers so that there is one conversion.
template <class Convert, class From, class To>
void convert_row(To* to, const From* from, std::size_t n) {
  const hn::ScalableTag<From> d;
  constexpr std::size_t lanes = hn::MaxLanes(hn::ScalableTag<From>());
  const Convert convert;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) convert(d, from + i, to + i);
  if (i == n) return;
  From in[lanes] = {};
  To out[lanes];
  std::copy(from + i, from + n, in);
  convert(d, in, out);
  std::copy(out, out + (n - i), to + i);
}

void saturate_row(std::int8_t* to, const std::int32_t* from, std::size_t n) {
  convert_row<Saturate>(to, from, n);
}

void round_row(std::uint16_t* to, const float* from, std::size_t n) {
  convert_row<RoundToF16>(to, from, n);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rkchain::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace rkchain::detail {
namespace {

HWY_EXPORT(pack_nk_i8);
HWY_EXPORT(pack_nk_f16);
HWY_EXPORT(pack_kn_i8);
HWY_EXPORT(pack_kn_f16);
HWY_EXPORT(copy_atoms);
HWY_EXPORT(add_atoms_i32);
HWY_EXPORT(add_atoms_f32);
HWY_EXPORT(add_row_i32);
HWY_EXPORT(add_row_f32);
HWY_EXPORT(saturate_row);
HWY_EXPORT(round_row);

constexpr std::size_t kAtomBytes = 16;
constexpr std::size_t kTooLarge = std::numeric_limits<std::size_t>::max();

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

std::size_t product(std::size_t a, std::size_t b) {
  return b != 0 && a > kTooLarge / b ? kTooLarge : a * b;
}

/// Elements from the first of the first row to the last of the last one.
std::size_t extent(std::size_t rows, std::size_t stride, std::size_t width) {
  if (rows == 0 || width == 0) return 0;
  const std::size_t before = product(rows - 1, stride);
  return before > kTooLarge - width ? kTooLarge : before + width;
}

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

void check(std::size_t dst, std::size_t src, const WeightShape& s, std::size_t group, bool nk) {
  require(s.kp >= s.k && s.kp % kPackK == 0, "pack_weights: kp below k or not a multiple of 32");
  require(s.np >= s.n && s.np % group == 0, "pack_weights: np below n or not a multiple of KG");
  require(s.src_stride >= (nk ? s.k : s.n), "pack_weights: src_stride below the row's width");
  require(src >= (nk ? extent(s.n, s.src_stride, s.k) : extent(s.k, s.src_stride, s.n)),
          "pack_weights: source span too small");
  require(dst >= product(s.np, s.kp), "pack_weights: destination span too small");
}

void check(std::size_t dst, std::size_t src, const FeatureShape& s) {
  require(s.kp >= s.k && s.kp % kPackK == 0, "pack_features: kp below k or not a multiple of 32");
  require(s.mp >= s.m, "pack_features: mp below m");
  require(s.src_stride >= s.k, "pack_features: src_stride below k");
  require(src >= extent(s.m, s.src_stride, s.k), "pack_features: source span too small");
  require(dst >= product(s.mp, s.kp), "pack_features: destination span too small");
}

void check(std::size_t dst, std::size_t src, const NativeOutput& s, std::size_t atom) {
  require(s.mp >= s.m, "unpack_native: mp below m");
  require(s.dst_stride >= s.n, "unpack_native: dst_stride below n");
  require(dst >= extent(s.m, s.dst_stride, s.n), "unpack_native: destination span too small");
  require(s.n <= kTooLarge - atom && src >= product(round_up(s.n, atom), s.mp),
          "unpack_native: source span too small");
}

void check(std::size_t dst, std::size_t src, const FlatOutput& s) {
  require(s.src_stride >= s.n, "unpack_flat: src_stride below n");
  require(s.dst_stride >= s.n, "unpack_flat: dst_stride below n");
  require(dst >= extent(s.m, s.dst_stride, s.n), "unpack_flat: destination span too small");
  require(src >= extent(s.m, s.src_stride, s.n), "unpack_flat: source span too small");
}

template <class T>
void native(std::span<T> dst, std::span<const T> src, const FeatureShape& s) {
  constexpr std::size_t atom = kAtomBytes / sizeof(T);
  check(dst.size(), src.size(), s);
  const std::size_t whole = s.k / atom;
  HWY_DYNAMIC_DISPATCH(copy_atoms)
  (reinterpret_cast<std::uint8_t*>(dst.data()), s.mp * kAtomBytes,
   reinterpret_cast<const std::uint8_t*>(src.data()), s.src_stride * sizeof(T), s.m, whole);
  for (std::size_t a = 0; a < s.kp / atom; ++a) {
    T* const column = dst.data() + a * s.mp * atom;
    std::size_t filled = 0;
    if (a < whole) {
      filled = s.m;
    } else if (a * atom < s.k) {
      for (; filled < s.m; ++filled) {
        const T* const row = src.data() + filled * s.src_stride;
        T* const at = std::copy(row + a * atom, row + s.k, column + filled * atom);
        std::fill(at, column + (filled + 1) * atom, T{});
      }
    }
    std::fill(column + filled * atom, column + s.mp * atom, T{});
  }
}

template <class T>
void flat(std::span<T> dst, std::span<const T> src, const FeatureShape& s) {
  check(dst.size(), src.size(), s);
  if (s.m != 0 && s.k == s.kp && s.k == s.src_stride) {
    std::copy_n(src.data(), s.m * s.k, dst.data());
  } else {
    for (std::size_t r = 0; r < s.m; ++r) {
      const T* const row = src.data() + r * s.src_stride;
      std::fill_n(std::copy_n(row, s.k, dst.data() + r * s.kp), s.kp - s.k, T{});
    }
  }
  std::fill_n(dst.data() + s.m * s.kp, (s.mp - s.m) * s.kp, T{});
}

/// `atoms` moves whole atoms, `element` one element of the partial atom at the end of a row.
template <class T, class Atoms, class Element>
void from_native(std::span<T> dst, std::span<const T> src, const NativeOutput& s, Atoms atoms,
                 Element element) {
  constexpr std::size_t atom = kAtomBytes / sizeof(T);
  check(dst.size(), src.size(), s, atom);
  const std::size_t whole = s.n / atom;
  atoms(reinterpret_cast<std::uint8_t*>(dst.data()), s.dst_stride * sizeof(T),
        reinterpret_cast<const std::uint8_t*>(src.data()), s.mp * kAtomBytes, whole, s.m);
  if (whole * atom == s.n) return;
  for (std::size_t r = 0; r < s.m; ++r) {
    const T* const from = src.data() + (whole * s.mp + r) * atom;
    T* const to = dst.data() + r * s.dst_stride + whole * atom;
    for (std::size_t i = 0; i < s.n - whole * atom; ++i) element(to[i], from[i]);
  }
}

template <class T>
void copy_from_native(std::span<T> dst, std::span<const T> src, const NativeOutput& s) {
  from_native(dst, src, s, HWY_DYNAMIC_DISPATCH(copy_atoms), [](T& to, T from) { to = from; });
}

template <class To, class From, class Row>
void rows(std::span<To> dst, std::span<const From> src, const FlatOutput& s, Row row) {
  check(dst.size(), src.size(), s);
  if (s.n == 0) return;
  for (std::size_t r = 0; r < s.m; ++r) {
    row(dst.data() + r * s.dst_stride, src.data() + r * s.src_stride, s.n);
  }
}

template <class T>
void copy_rows(std::span<T> dst, std::span<const T> src, const FlatOutput& s) {
  rows(dst, src, s, [](T* to, const T* from, std::size_t n) { std::copy_n(from, n, to); });
}

}  // namespace

void pack_weights_i8_nk(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                        const WeightShape& shape) {
  check(dst.size(), src.size(), shape, kGroupI8, true);
  HWY_DYNAMIC_DISPATCH(pack_nk_i8)(dst.data(), src.data(), shape);
}

void pack_weights_i8_kn(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                        const WeightShape& shape) {
  check(dst.size(), src.size(), shape, kGroupI8, false);
  HWY_DYNAMIC_DISPATCH(pack_kn_i8)(dst.data(), src.data(), shape);
}

void pack_weights_f16_nk(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                         const WeightShape& shape) {
  check(dst.size(), src.size(), shape, kGroupF16, true);
  HWY_DYNAMIC_DISPATCH(pack_nk_f16)(dst.data(), src.data(), shape);
}

void pack_weights_f16_kn(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                         const WeightShape& shape) {
  check(dst.size(), src.size(), shape, kGroupF16, false);
  HWY_DYNAMIC_DISPATCH(pack_kn_f16)(dst.data(), src.data(), shape);
}

void pack_native(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                 const FeatureShape& shape) {
  native(dst, src, shape);
}

void pack_native(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                 const FeatureShape& shape) {
  native(dst, src, shape);
}

void pack_flat(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
               const FeatureShape& shape) {
  flat(dst, src, shape);
}

void pack_flat(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
               const FeatureShape& shape) {
  flat(dst, src, shape);
}

void unpack_native(std::span<std::int32_t> dst, std::span<const std::int32_t> src,
                   const NativeOutput& shape) {
  copy_from_native(dst, src, shape);
}

void unpack_native(std::span<float> dst, std::span<const float> src, const NativeOutput& shape) {
  copy_from_native(dst, src, shape);
}

void unpack_native(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                   const NativeOutput& shape) {
  copy_from_native(dst, src, shape);
}

void unpack_native(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                   const NativeOutput& shape) {
  copy_from_native(dst, src, shape);
}

void unpack_flat(std::span<std::int32_t> dst, std::span<const std::int32_t> src,
                 const FlatOutput& shape) {
  copy_rows(dst, src, shape);
}

void unpack_flat(std::span<float> dst, std::span<const float> src, const FlatOutput& shape) {
  copy_rows(dst, src, shape);
}

void unpack_flat(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                 const FlatOutput& shape) {
  copy_rows(dst, src, shape);
}

void unpack_flat(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                 const FlatOutput& shape) {
  copy_rows(dst, src, shape);
}

void add_native(std::span<std::int32_t> dst, std::span<const std::int32_t> src,
                const NativeOutput& shape) {
  from_native(dst, src, shape, HWY_DYNAMIC_DISPATCH(add_atoms_i32),
              [](std::int32_t& to, std::int32_t from) { to += from; });
}

void add_flat(std::span<std::int32_t> dst, std::span<const std::int32_t> src,
              const FlatOutput& shape) {
  rows(dst, src, shape, HWY_DYNAMIC_DISPATCH(add_row_i32));
}

void add_native(std::span<float> dst, std::span<const float> src, const NativeOutput& shape) {
  from_native(dst, src, shape, HWY_DYNAMIC_DISPATCH(add_atoms_f32),
              [](float& to, float from) { to += from; });
}

void add_flat(std::span<float> dst, std::span<const float> src, const FlatOutput& shape) {
  rows(dst, src, shape, HWY_DYNAMIC_DISPATCH(add_row_f32));
}

void saturate_i32_to_i8(std::span<std::int8_t> dst, std::span<const std::int32_t> src,
                        const FlatOutput& shape) {
  rows(dst, src, shape, HWY_DYNAMIC_DISPATCH(saturate_row));
}

void round_f32_to_f16(std::span<std::uint16_t> dst, std::span<const float> src,
                      const FlatOutput& shape) {
  rows(dst, src, shape, HWY_DYNAMIC_DISPATCH(round_row));
}

}  // namespace rkchain::detail
#endif  // HWY_ONCE

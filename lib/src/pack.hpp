// SPDX-License-Identifier: MIT
//
// Moving matrices between row-major memory and the layouts that the NPU reads and writes.
//
// Conventions of this header:
//  - Every size, stride and offset is counted in elements, never in bytes.
//  - An fp16 element is its bit pattern in a std::uint16_t.
//  - Sources and destinations may have any alignment. They must not overlap.
//  - Elements between the end of a row and its stride are neither read nor written.
//  - A span that is too small for its shape, or a padded size that does not fit, is a programming
//    error and throws std::invalid_argument before anything is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rkchain::detail {

/// K is padded to a multiple of this, whatever the type.
inline constexpr std::size_t kPackK = 32;
/// Columns of B in one kernel group (KG); N is padded to a multiple of it.
inline constexpr std::size_t kGroupI8 = 32;
inline constexpr std::size_t kGroupF16 = 16;
/// Elements of one native feature atom (C2), which is always 16 bytes.
inline constexpr std::size_t kAtomI8 = 16;
inline constexpr std::size_t kAtomF16 = 8;
inline constexpr std::size_t kAtomI32 = 4;
inline constexpr std::size_t kAtomF32 = 4;

/// Weights, B[K][N] in the mathematics.
struct WeightShape {
  std::size_t n;           ///< columns of B (output features)
  std::size_t k;           ///< rows of B (the summed dimension)
  std::size_t src_stride;  ///< between source rows: at least k for [N][K], at least n for [K][N]
  std::size_t kp;          ///< K in the packed layout: at least k, a multiple of kPackK
  std::size_t np;          ///< N in the packed layout: at least n, a multiple of the kernel group
};

/// Packs weights. The destination takes np * kp elements; element (n, k) lands at
/// `(n/KG)*KG*kp + (k/32)*KG*32 + (n%KG)*32 + k%32`, and padding is zero.
/// `_nk` reads element (n, k) at `src[n*src_stride + k]`, `_kn` at `src[k*src_stride + n]`.
void pack_weights_i8_nk(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                        const WeightShape& shape);
void pack_weights_i8_kn(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                        const WeightShape& shape);
void pack_weights_f16_nk(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                         const WeightShape& shape);
void pack_weights_f16_kn(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                         const WeightShape& shape);

/// Features, A[M][K], from row-major.
struct FeatureShape {
  std::size_t m;           ///< rows of A
  std::size_t k;           ///< columns of A
  std::size_t src_stride;  ///< between source rows, at least k
  std::size_t kp;          ///< K in the packed layout: at least k, a multiple of kPackK
  std::size_t mp;          ///< M in the packed layout, at least m; rows m..mp-1 become zero
};

/// Packs features natively. The destination takes mp * kp elements; element (m, k) lands at
/// `((k/C2)*mp + m)*C2 + k%C2` with C2 = kAtomI8 or kAtomF16. Padding is zero.
void pack_native(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                 const FeatureShape& shape);
void pack_native(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                 const FeatureShape& shape);

/// Packs features flat: row-major with a stride of kp. Padding is zero.
void pack_flat(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
               const FeatureShape& shape);
void pack_flat(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
               const FeatureShape& shape);

/// Results in the native layout: element (m, n) at `((n/C2o)*mp + m)*C2o + n%C2o`.
struct NativeOutput {
  std::size_t m;           ///< rows to take
  std::size_t n;           ///< columns to take
  std::size_t mp;          ///< rows in the native layout, at least m
  std::size_t dst_stride;  ///< between destination rows, at least n
};

/// Results in rows: element (m, n) at `src[m*src_stride + n]`.
struct FlatOutput {
  std::size_t m;           ///< rows to take
  std::size_t n;           ///< columns to take
  std::size_t src_stride;  ///< between source rows (the padded N), at least n
  std::size_t dst_stride;  ///< between destination rows, at least n
};

/// Copies results into row-major memory. C2o is 16 bytes: 4 for the 32-bit types, 8 for fp16,
/// 16 for int8. A native source must hold ceil(n/C2o) * mp whole atoms.
void unpack_native(std::span<std::int32_t> dst, std::span<const std::int32_t> src,
                   const NativeOutput& shape);
void unpack_native(std::span<float> dst, std::span<const float> src, const NativeOutput& shape);
void unpack_native(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                   const NativeOutput& shape);
void unpack_native(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                   const NativeOutput& shape);
void unpack_flat(std::span<std::int32_t> dst, std::span<const std::int32_t> src,
                 const FlatOutput& shape);
void unpack_flat(std::span<float> dst, std::span<const float> src, const FlatOutput& shape);
void unpack_flat(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                 const FlatOutput& shape);
void unpack_flat(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                 const FlatOutput& shape);

/// The same, but adds to what the destination holds: a matmul whose K was split leaves one partial
/// result per split. fp32 is one rounded addition per element, in the order of the calls.
void add_native(std::span<std::int32_t> dst, std::span<const std::int32_t> src,
                const NativeOutput& shape);
void add_native(std::span<float> dst, std::span<const float> src, const NativeOutput& shape);
void add_flat(std::span<std::int32_t> dst, std::span<const std::int32_t> src,
              const FlatOutput& shape);
void add_flat(std::span<float> dst, std::span<const float> src, const FlatOutput& shape);

/// The last step of a split matmul with int8 results: saturates to [-128, 127].
void saturate_i32_to_i8(std::span<std::int8_t> dst, std::span<const std::int32_t> src,
                        const FlatOutput& shape);

/// The last step of a split matmul with fp16 results: rounds to nearest, ties to even; too large
/// becomes infinity, too small a subnormal or zero, a NaN stays one (quiet, upper payload kept).
/// The same bits on every processor: no conversion instruction is used.
void round_f32_to_f16(std::span<std::uint16_t> dst, std::span<const float> src,
                      const FlatOutput& shape);

}  // namespace rkchain::detail

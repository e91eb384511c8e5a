// SPDX-License-Identifier: MIT
//
// The weight kernels of pack.cpp, compiled once per instruction set: the guard lets Highway's
// foreach_target.h include this file again for each.
#if defined(RKCHAIN_SRC_PACK_WEIGHTS_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef RKCHAIN_SRC_PACK_WEIGHTS_INL_HPP_
#undef RKCHAIN_SRC_PACK_WEIGHTS_INL_HPP_
#else
#define RKCHAIN_SRC_PACK_WEIGHTS_INL_HPP_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "pack.hpp"

HWY_BEFORE_NAMESPACE();
namespace rkchain::detail {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Byte = std::uint8_t;
using Bytes = hn::CappedTag<Byte, 64>;
using Atom = hn::FixedTag<Byte, 16>;

constexpr std::size_t kLine = 64;
constexpr std::size_t kAtom = 16;
constexpr std::size_t kVector = HWY_MAX_BYTES;
static_assert(kVector == 16 || kVector == 32 || kVector == 64);
constexpr std::size_t kBlocks = kVector / kAtom;

/// Bytes of one weight tile: a kernel group times 32 values of k, the same for both types.
constexpr std::size_t kTile = 1024;
/// Bytes of one source row of [K][N] that belong to one kernel group, the same for both types.
constexpr std::size_t kGroupBytes = 32;

/// Packed weights are written once and then read by the NPU, through memory. So a large destination
/// is written past the cache: that spares reading it first, and spares the cache. Below this size
/// it may well be in the cache already.
constexpr std::size_t kStreamFrom = std::size_t{1} << 20;

template <bool kStream, class D, class V>
HWY_INLINE void put(V v, D d, Byte* to) {
  if constexpr (kStream) {
    hn::Stream(v, d, to);
  } else {
    hn::StoreU(v, d, to);
  }
}

HWY_INLINE void copy_line(const Byte* from, Byte* to) {
  const Bytes d;
  for (std::size_t i = 0; i < kLine; i += kVector) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
}

/// Loads D's number of 16-byte blocks, `step` bytes apart, into one vector.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const Byte* from, std::size_t step) {
  if constexpr (hn::MaxLanes(D()) <= kAtom) {
    (void)step;
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr std::size_t blocks = hn::MaxLanes(hn::Half<D>()) / kAtom;
    return hn::Combine(d, load_blocks(half, from + blocks * step, step),
                       load_blocks(half, from, step));
  }
}

// ---- weights from [N][K]: each group of rows is cut into pieces of 32 values of k ----

struct Weights {
  Byte* dst;
  const Byte* src;
  std::size_t n, np;
  std::size_t k, kp;
  std::size_t stride;  // bytes between source rows
};

/// One row's 32 values for the tile that starts at `col` bytes into the row, padded with zeros.
HWY_INLINE void copy_piece(Byte* to, const Byte* row, std::size_t col, std::size_t row_bytes,
                           std::size_t piece) {
  const std::size_t have = col < row_bytes ? std::min(piece, row_bytes - col) : 0;
  if (have != 0) std::memcpy(to, row + col, have);
  if (have != piece) std::memset(to + have, 0, piece - have);
}

/// Two rows, one cache line of each, to two neighbouring rows of the tiles at `to`. Both rows are
/// written together because two pieces of int8 weights make one line.
template <std::size_t kPiece, bool kStream>
HWY_INLINE void copy_line_pair(Byte* to, const Byte* row0, const Byte* row1) {
  const Bytes d;
  if constexpr (kPiece == kLine) {
    for (std::size_t i = 0; i < kLine; i += kVector) {
      put<kStream>(hn::LoadU(d, row0 + i), d, to + i);
    }
    for (std::size_t i = 0; i < kLine; i += kVector) {
      put<kStream>(hn::LoadU(d, row1 + i), d, to + kLine + i);
    }
  } else if constexpr (kVector == kLine) {
    const auto a = hn::LoadU(d, row0);
    const auto b = hn::LoadU(d, row1);
    put<kStream>(hn::ConcatLowerLower(d, b, a), d, to);
    put<kStream>(hn::ConcatUpperUpper(d, b, a), d, to + kTile);
  } else {
    for (std::size_t tile = 0; tile < 2; ++tile) {
      for (std::size_t i = 0; i < kPiece; i += kVector) {
        put<kStream>(hn::LoadU(d, row0 + tile * kPiece + i), d, to + tile * kTile + i);
      }
      for (std::size_t i = 0; i < kPiece; i += kVector) {
        put<kStream>(hn::LoadU(d, row1 + tile * kPiece + i), d, to + tile * kTile + kPiece + i);
      }
    }
  }
}

template <std::size_t kElement, bool kStream>
void pack_nk_as(const Weights& w) {
  constexpr std::size_t piece = kPackK * kElement;
  constexpr std::size_t group = kTile / piece;
  // A run of eight lines per row lets the processor's prefetcher follow, and still stays within
  // what the caches hold of 32 rows whose stride is a power of two.
  constexpr std::size_t run = 8 * kLine;
  const std::size_t row_bytes = w.k * kElement;
  const std::size_t padded = w.kp * kElement;
  const std::size_t lines = row_bytes / kLine * kLine;
  for (std::size_t g = 0; g < w.np; g += group) {
    Byte* const dst = w.dst + g * padded;
    const std::size_t rows = g < w.n ? std::min(group, w.n - g) : 0;
    const std::size_t fast = rows == group ? lines : 0;
    const Byte* const src = rows != 0 ? w.src + g * w.stride : nullptr;
    for (std::size_t from = 0; from < fast; from += run) {
      const std::size_t to = std::min(fast, from + run);
      for (std::size_t r = 0; r < group; r += 2) {
        const Byte* const row = src + r * w.stride;
        for (std::size_t c = from; c < to; c += kLine) {
          copy_line_pair<piece, kStream>(dst + c / piece * kTile + r * piece, row + c,
                                         row + w.stride + c);
        }
      }
    }
    for (std::size_t c = fast; c < padded; c += piece) {
      Byte* const tile = dst + c / piece * kTile;
      for (std::size_t r = 0; r < rows; ++r) {
        copy_piece(tile + r * piece, src + r * w.stride, c, row_bytes, piece);
      }
      if (rows != group) std::memset(tile + rows * piece, 0, kTile - rows * piece);
    }
  }
}

// ---- weights from [K][N]: tiles of 32 rows are transposed ----

/// Asks for the next band of 32 rows, line by line in the order of memory, while the present one is
/// worked on. The tiles cut across 32 rows at once, too many streams for a prefetcher, and rows
/// whose stride is a power of two share a few cache sets; read this way they come at full speed.
class Ahead {
 public:
  Ahead(const Byte* first, std::size_t rows, std::size_t stride, std::size_t width)
      : row_(first), rows_(rows), stride_(stride), width_(width) {}

  HWY_INLINE void next() {
    hwy::Prefetch(row_ + col_);
    col_ += kLine;
    if (col_ >= width_) {
      col_ = 0;
      if (rows_ > 1) {
        --rows_;
        row_ += stride_;
      }
    }
  }

 private:
  const Byte* row_;
  std::size_t rows_;
  std::size_t stride_;
  std::size_t width_;
  std::size_t col_ = 0;
};

template <std::size_t kCount>
using Vectors = hn::Vec<Bytes>[kCount];

// The loops over vectors are folds: they must be unrolled for the vectors to stay in registers, at
// any optimisation level.
template <std::size_t kElement, std::size_t kCount, std::size_t... kPair>
HWY_INLINE void interleave(Vectors<kCount>& x, std::index_sequence<kPair...> /*pairs*/) {
  using Lane = std::conditional_t<kElement == 1, std::uint8_t, std::uint16_t>;
  const hn::Repartition<Lane, Bytes> d;
  const Bytes b;
  constexpr std::size_t half = kCount / 2;
  Vectors<kCount> y;
  ((y[2 * kPair] = hn::BitCast(
        b, hn::InterleaveLower(d, hn::BitCast(d, x[kPair]), hn::BitCast(d, x[kPair + half]))),
    y[2 * kPair + 1] = hn::BitCast(
        b, hn::InterleaveUpper(d, hn::BitCast(d, x[kPair]), hn::BitCast(d, x[kPair + half])))),
   ...);
  ((x[2 * kPair] = y[2 * kPair], x[2 * kPair + 1] = y[2 * kPair + 1]), ...);
}

/// Transposes the kBlocks squares of kCount x kCount elements that the blocks of x[0..kCount-1] are
/// the rows of: log2(kCount) rounds of a perfect shuffle.
template <std::size_t kElement, std::size_t kCount>
HWY_INLINE void transpose_squares(Vectors<kCount>& x) {
  constexpr std::make_index_sequence<kCount / 2> pairs;
  interleave<kElement, kCount>(x, pairs);
  interleave<kElement, kCount>(x, pairs);
  interleave<kElement, kCount>(x, pairs);
  if constexpr (kCount == 16) interleave<kElement, kCount>(x, pairs);
}

/// One vector of the squares: `step` bytes lie between the squares of neighbouring k. Where a
/// vector holds more of them than a tile has (int8 with the widest vectors), the upper half takes
/// those of the tile's other columns.
template <std::size_t kI, bool kBothColumns>
HWY_INLINE hn::Vec<Bytes> load_row(const Byte* from, std::size_t step, Ahead& ahead) {
  const Byte* const at = from + kI * kLine;
  if constexpr (kI % (kLine / kVector) == 0) ahead.next();
  if constexpr (kBothColumns) {
    const hn::Half<Bytes> half;
    return hn::Combine(Bytes(), load_blocks(half, at + kAtom, step), load_blocks(half, at, step));
  } else {
    return load_blocks(Bytes(), at, step);
  }
}

template <bool kBothColumns, std::size_t kCount, std::size_t... kI>
HWY_INLINE void load_rows(Vectors<kCount>& x, const Byte* from, std::size_t step, Ahead& ahead,
                          std::index_sequence<kI...> /*rows*/) {
  ((x[kI] = load_row<kI, kBothColumns>(from, step, ahead)), ...);
}

template <bool kStream, std::size_t... kI>
HWY_INLINE void store_halves(const Vectors<16>& x, Byte* to, std::index_sequence<kI...> /*pairs*/) {
  const Bytes d;
  (put<kStream>(hn::ConcatLowerLower(d, x[2 * kI + 1], x[2 * kI]), d, to + kI * kLine), ...);
  (put<kStream>(hn::ConcatUpperUpper(d, x[2 * kI + 1], x[2 * kI]), d, to + (kI + 8) * kLine), ...);
}

template <bool kStream, bool kBothColumns, std::size_t kRowBytes, std::size_t kCount,
          std::size_t... kI>
HWY_INLINE void store_rows(const Vectors<kCount>& x, Byte* to,
                           std::index_sequence<kI...> /*rows*/) {
  const Bytes d;
  if constexpr (kBothColumns) {
    store_halves<kStream>(x, to, std::make_index_sequence<kCount / 2>());
  } else {
    (put<kStream>(x[kI], d, to + kI * kRowBytes), ...);
  }
}

/// 32 rows of k, kLine bytes apart and kGroupBytes wide, to one tile. Not inlined: inside the loops
/// around it, compilers take minutes to allocate registers where sanitizers are on.
template <std::size_t kElement, bool kStream>
HWY_NOINLINE void transpose_tile(Byte* to, const Byte* from, Ahead& ahead) {
  constexpr std::size_t count = kAtom / kElement;     // elements in a block
  constexpr std::size_t row_blocks = kPackK / count;  // blocks in a row of the tile
  constexpr std::size_t row_bytes = kPackK * kElement;
  if constexpr (HWY_TARGET == HWY_EMU128) {
    // Emulated shuffles are slow to run, and very slow to compile with sanitizers.
    for (std::size_t n = 0; n < kGroupBytes / kElement; ++n) {
      ahead.next();
      for (std::size_t k = 0; k < kPackK; ++k) {
        for (std::size_t i = 0; i < kElement; ++i) {
          to[n * row_bytes + k * kElement + i] = from[k * kLine + n * kElement + i];
        }
      }
    }
  } else {
    constexpr bool both = kBlocks > row_blocks;
    constexpr std::make_index_sequence<count> rows;
    Vectors<count> x;
    for (std::size_t col = 0; col < (both ? kAtom : kGroupBytes); col += kAtom) {
      for (std::size_t block = 0; block < row_blocks; block += kBlocks) {
        load_rows<both, count>(x, from + block * count * kLine + col, count * kLine, ahead, rows);
        transpose_squares<kElement, count>(x);
        store_rows<kStream, both, row_bytes, count>(
            x, to + col / kElement * row_bytes + block * kAtom, rows);
      }
    }
  }
}

template <std::size_t kElement, bool kStream>
void pack_kn_as(const Weights& w) {
  // Two bands of a panel this wide (bytes) fit in a 512 KiB second-level cache, with room to spare.
  constexpr std::size_t panel = 4096;
  const std::size_t row_bytes = w.n * kElement;
  const std::size_t padded = w.np * kElement;
  // Rows are first gathered here, a line of each. That reads every source line in one go before
  // its cache set is needed again, and it is where padding comes in.
  alignas(kLine) Byte gathered[kPackK * kLine];
  for (std::size_t left = 0; left < padded; left += panel) {
    const std::size_t right = std::min(padded, left + panel);
    const std::size_t width = left < row_bytes ? std::min(right, row_bytes) - left : 0;
    for (std::size_t k = 0; k < w.kp; k += kPackK) {
      const std::size_t rows = k < w.k && width != 0 ? std::min(kPackK, w.k - k) : 0;
      const Byte* const src = rows != 0 ? w.src + k * w.stride : w.src;
      const bool more = width != 0 && k + kPackK < w.k;
      Ahead ahead(more ? src + kPackK * w.stride + left : src + (rows != 0 ? left : 0),
                  more ? std::min(kPackK, w.k - k - kPackK) : 1, w.stride, width);
      for (std::size_t c = left; c < right; c += kLine) {
        const std::size_t have = c < row_bytes ? std::min(kLine, row_bytes - c) : 0;
        if (rows == kPackK && have == kLine) {
          for (std::size_t r = 0; r < kPackK; ++r) {
            copy_line(src + r * w.stride + c, gathered + r * kLine);
          }
        } else {
          std::memset(gathered, 0, sizeof gathered);
          for (std::size_t r = 0; r < rows && have != 0; ++r) {
            std::memcpy(gathered + r * kLine, src + r * w.stride + c, have);
          }
        }
        for (std::size_t part = 0; part < kLine && c + part < right; part += kGroupBytes) {
          Byte* const tile =
              w.dst + (c + part) / kGroupBytes * (w.kp / kPackK) * kTile + k / kPackK * kTile;
          transpose_tile<kElement, kStream>(tile, gathered + part, ahead);
        }
      }
    }
  }
}

bool streams(const Weights& w, std::size_t element) {
  return w.np * w.kp * element >= kStreamFrom &&
         reinterpret_cast<std::uintptr_t>(w.dst) % kLine == 0;
}

template <std::size_t kElement>
Weights in_bytes(void* dst, const void* src, const WeightShape& shape) {
  return {static_cast<Byte*>(dst),
          static_cast<const Byte*>(src),
          shape.n,
          shape.np,
          shape.k,
          shape.kp,
          shape.src_stride * kElement};
}

template <std::size_t kElement>
void pack_nk(void* dst, const void* src, const WeightShape& shape) {
  const Weights w = in_bytes<kElement>(dst, src, shape);
  if (streams(w, kElement)) {
    pack_nk_as<kElement, true>(w);
    hwy::FlushStream();
  } else {
    pack_nk_as<kElement, false>(w);
  }
}

template <std::size_t kElement>
void pack_kn(void* dst, const void* src, const WeightShape& shape) {
  const Weights w = in_bytes<kElement>(dst, src, shape);
  if (streams(w, kElement)) {
    pack_kn_as<kElement, true>(w);
    hwy::FlushStream();
  } else {
    pack_kn_as<kElement, false>(w);
  }
}

void pack_nk_i8(void* dst, const void* src, const WeightShape& s) { pack_nk<1>(dst, src, s); }
void pack_nk_f16(void* dst, const void* src, const WeightShape& s) { pack_nk<2>(dst, src, s); }
void pack_kn_i8(void* dst, const void* src, const WeightShape& s) { pack_kn<1>(dst, src, s); }
void pack_kn_f16(void* dst, const void* src, const WeightShape& s) { pack_kn<2>(dst, src, s); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rkchain::detail
HWY_AFTER_NAMESPACE();

#endif  // RKCHAIN_SRC_PACK_WEIGHTS_INL_HPP_

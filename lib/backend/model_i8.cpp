// SPDX-License-Identifier: MIT
#include "backend/model_i8.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

// Highway compiles this file once per instruction set. Scalable vectors cannot be array elements.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/model_i8.cpp"
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rkchain::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kKernels = 32;        // of a kernel group
constexpr std::size_t kBlockChannels = 32;  // that the layout keeps together
constexpr std::size_t kBlockBytes = kKernels * kBlockChannels;

// What a chunk needs stays in the first-level cache: its weights, which every eight pixels read
// again, features widened to 16 bits, and sums that are still vectors.
constexpr std::size_t kChunkChannels = HWY_TARGET == HWY_AVX3 ? 512 : 256;
constexpr std::size_t kMaxPixels = 8;
constexpr std::size_t kMaxLanes = kBlockChannels;  // of 16 bits

using D16 = hn::CappedTag<std::int16_t, kBlockChannels>;
using D8 = hn::Rebind<std::int8_t, D16>;
using D32 = hn::Repartition<std::int32_t, D16>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;

// [channels / lanes][kPixels][lanes]: the order in which Tile() reads them.
template <std::size_t kPixels>
HWY_INLINE void Widen(const std::int8_t* HWY_RESTRICT feature, std::uint64_t pixel_stride,
                      std::size_t channels, std::int16_t* HWY_RESTRICT wide) {
  const std::size_t lanes = hn::Lanes(D16());
  for (std::size_t c = 0; c < channels; c += lanes) {
    for (std::size_t p = 0; p < kPixels; p++) {
      const auto narrow = hn::LoadU(D8(), feature + p * pixel_stride + c);
      hn::Store(hn::PromoteTo(D16(), narrow), D16(), wide);
      wide += lanes;
    }
  }
}

// Adds a chunk to kPixels x kTile sums, each a vector.
template <std::size_t kPixels, std::size_t kTile>
HWY_INLINE void Tile(const std::int16_t* HWY_RESTRICT wide, const std::int8_t* HWY_RESTRICT weight,
                     std::size_t channels, std::int32_t* HWY_RESTRICT sums) {
  const std::size_t lanes = hn::Lanes(D16());
  const std::size_t sum_lanes = hn::Lanes(D32());
  V32 even[kTile][kPixels];
  V32 odd[kTile][kPixels];  // some instruction sets split the sum
  HWY_UNROLL(8)
  for (std::size_t n = 0; n < kTile; n++) {
    HWY_UNROLL(8)
    for (std::size_t p = 0; p < kPixels; p++) {
      even[n][p] = hn::Load(D32(), sums + (n * kPixels + p) * sum_lanes);
      odd[n][p] = hn::Zero(D32());
    }
  }
  for (std::size_t block = 0; block < channels; block += kBlockChannels) {
    // The hardware does not guess the next chunk. Two kernels share a cache line.
    HWY_UNROLL(8)
    for (std::size_t n = 0; n < kTile; n += 2) {
      hwy::Prefetch(weight + n * kBlockChannels + kChunkChannels * kKernels);
    }
    for (std::size_t c = 0; c < kBlockChannels; c += lanes) {
      V16 w[kTile];
      HWY_UNROLL(8)
      for (std::size_t n = 0; n < kTile; n++) {
        w[n] = hn::PromoteTo(D16(), hn::LoadU(D8(), weight + n * kBlockChannels + c));
      }
      HWY_UNROLL(8)
      for (std::size_t p = 0; p < kPixels; p++) {
        const V16 f = hn::Load(D16(), wide);
        wide += lanes;
        HWY_UNROLL(8)
        for (std::size_t n = 0; n < kTile; n++) {
          even[n][p] = hn::ReorderWidenMulAccumulate(D32(), f, w[n], even[n][p], odd[n][p]);
        }
      }
    }
    weight += kBlockBytes;
  }
  HWY_UNROLL(8)
  for (std::size_t n = 0; n < kTile; n++) {
    HWY_UNROLL(8)
    for (std::size_t p = 0; p < kPixels; p++) {
      hn::Store(hn::Add(even[n][p], odd[n][p]), D32(), sums + (n * kPixels + p) * sum_lanes);
    }
  }
}

template <std::size_t kPixels, std::size_t kTile>
HWY_INLINE void Pixels(std::int32_t* acc, const std::int8_t* feature, std::uint64_t pixel_stride,
                       const std::int8_t* weight, std::size_t k) {
  static_assert(kPixels <= kMaxPixels && kKernels % kTile == 0);
  HWY_ALIGN std::int16_t wide[kPixels * kChunkChannels];
  HWY_ALIGN std::int32_t sums[kKernels * kPixels * kMaxLanes / 2];
  const std::size_t sum_lanes = hn::Lanes(D32());

  std::fill_n(sums, kKernels * kPixels * sum_lanes, 0);
  for (std::size_t first = 0; first < k; first += kChunkChannels) {
    const std::size_t channels = std::min(k - first, kChunkChannels);
    Widen<kPixels>(feature + first, pixel_stride, channels, wide);
    for (std::size_t n = 0; n < kKernels; n += kTile) {
      Tile<kPixels, kTile>(wide, weight + first * kKernels + n * kBlockChannels, channels,
                           sums + n * kPixels * sum_lanes);
    }
  }
  for (std::size_t n = 0; n < kKernels; n++) {
    for (std::size_t p = 0; p < kPixels; p++) {
      const V32 sum = hn::Load(D32(), sums + (n * kPixels + p) * sum_lanes);
      acc[p * kKernels + n] = hn::GetLane(hn::SumOfLanes(D32(), sum));
    }
  }
}

void Dot(std::int32_t* acc, const std::int8_t* feature, std::uint64_t pixel_stride,
         const std::int8_t* weight, std::size_t pixels, std::size_t k) {
  // With 16 registers, 8 sums and what they are made of fit.
  constexpr std::size_t kWide = HWY_TARGET == HWY_AVX3 ? 2 : 1;
  while (pixels != 0) {
    std::size_t step;
    if (pixels >= 8) {
      Pixels<8, kWide>(acc, feature, pixel_stride, weight, k);
      step = 8;
    } else if (pixels >= 4) {
      Pixels<4, 2>(acc, feature, pixel_stride, weight, k);
      step = 4;
    } else if (pixels >= 2) {
      Pixels<2, 4>(acc, feature, pixel_stride, weight, k);
      step = 2;
    } else {
      Pixels<1, 8>(acc, feature, pixel_stride, weight, k);
      step = 1;
    }
    acc += step * kKernels;
    feature += step * pixel_stride;
    pixels -= step;
  }
}

}  // namespace rkchain::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rkchain {

HWY_EXPORT(Dot);

void model_dot_i8(s32* acc, const s8* feature, u64 pixel_stride, const s8* weight, u32 pixels,
                  u32 k) {
  HWY_DYNAMIC_DISPATCH(Dot)(acc, feature, pixel_stride, weight, pixels, k);
}

}  // namespace rkchain
#endif  // HWY_ONCE

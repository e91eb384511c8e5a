// SPDX-License-Identifier: MIT
//
// Packing and unpacking against plain loops, bit for bit, on every instruction set of this machine.
// A whole destination is compared each time, with the guards around it and the gaps between its
// rows. Sources end where their last element ends, so that the address sanitizer sees a read
// beyond.
#include "src/pack.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace rkchain::detail {
namespace {

using Index = std::size_t;

constexpr std::align_val_t kLine{64};
constexpr Index kGuard = 64;

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

template <class T>
T value(std::uint64_t seed) {
  const auto bits = static_cast<std::int64_t>(mix(seed));
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(bits >> 40) / 1024.0F;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return static_cast<T>(bits >> 34);
  } else {
    return static_cast<T>(bits >> 48);
  }
}

/// `size` elements that begin `offset` elements after a cache line, between two guards.
template <class T>
class Buffer {
 public:
  Buffer(Index size, Index offset, Index guard, std::uint64_t seed)
      : begin_(guard + offset), size_(size), total_(begin_ + size + guard) {
    memory_.reset(static_cast<T*>(::operator new(std::max<Index>(total_, 1) * sizeof(T), kLine)));
    for (Index i = 0; i < total_; ++i) std::construct_at(memory_.get() + i, value<T>(seed + i));
  }

  std::span<T> view() { return {memory_.get() + begin_, size_}; }
  std::span<const T> view() const { return {memory_.get() + begin_, size_}; }
  std::span<const T> all() const { return {memory_.get(), total_}; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete(p, kLine); }
  };
  Index begin_;
  Index size_;
  Index total_;
  std::unique_ptr<T, Free> memory_;
};

template <class T>
Buffer<T> source(Index size, Index offset) {
  return Buffer<T>(size, offset, 0, 1);
}

template <class T>
Index first_difference(const Buffer<T>& a, const Buffer<T>& b) {
  const auto x = a.all();
  const auto y = b.all();
  for (Index i = 0; i < x.size(); ++i) {
    if constexpr (std::is_same_v<T, float>) {
      if (std::bit_cast<std::uint32_t>(x[i]) != std::bit_cast<std::uint32_t>(y[i])) return i;
    } else {
      if (x[i] != y[i]) return i;
    }
  }
  return x.size();
}

/// Runs `subject` and `reference` on equal destinations and compares them, guards and all.
template <class T, class Subject, class Reference>
void compare(Index size, Index offset, Subject subject, Reference reference,
             const std::string& what) {
  Buffer<T> got(size, offset, kGuard, 77);
  Buffer<T> want(size, offset, kGuard, 77);
  subject(got.view());
  reference(want.view());
  ASSERT_EQ(first_difference(got, want), got.all().size()) << what << " offset " << offset;
}

constexpr Index round_up(Index n, Index to) { return (n + to - 1) / to * to; }

Index extent(Index rows, Index stride, Index width) {
  return rows == 0 || width == 0 ? 0 : (rows - 1) * stride + width;
}

class PackTest : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::GetChosenTarget().Update(GetParam()); }
  void TearDown() override { hwy::GetChosenTarget().DeInit(); }
};

// ---- weights ----

template <class T>
void reference_weights(std::span<T> dst, std::span<const T> src, const WeightShape& s, bool nk) {
  constexpr Index group = sizeof(T) == 1 ? kGroupI8 : kGroupF16;
  for (Index n = 0; n < s.np; ++n) {
    for (Index k = 0; k < s.kp; ++k) {
      const Index at = n / group * group * s.kp + k / 32 * group * 32 + n % group * 32 + k % 32;
      const bool inside = n < s.n && k < s.k;
      dst[at] = inside ? src[nk ? n * s.src_stride + k : k * s.src_stride + n] : T{};
    }
  }
}

void pack_weights(std::span<std::int8_t> dst, std::span<const std::int8_t> src,
                  const WeightShape& s, bool nk) {
  nk ? pack_weights_i8_nk(dst, src, s) : pack_weights_i8_kn(dst, src, s);
}

void pack_weights(std::span<std::uint16_t> dst, std::span<const std::uint16_t> src,
                  const WeightShape& s, bool nk) {
  nk ? pack_weights_f16_nk(dst, src, s) : pack_weights_f16_kn(dst, src, s);
}

struct Slack {
  Index stride, groups, blocks, src_offset, dst_offset;
};

template <class T>
void check_weights(Index n, Index k, const Slack& slack) {
  constexpr Index group = sizeof(T) == 1 ? kGroupI8 : kGroupF16;
  for (const bool nk : {true, false}) {
    const WeightShape s{.n = n,
                        .k = k,
                        .src_stride = (nk ? k : n) + slack.stride,
                        .kp = round_up(k, kPackK) + slack.blocks * kPackK,
                        .np = round_up(n, group) + slack.groups * group};
    const auto src = source<T>(extent(nk ? n : k, s.src_stride, nk ? k : n), slack.src_offset);
    compare<T>(
        s.np * s.kp, slack.dst_offset,
        [&](std::span<T> dst) { pack_weights(dst, src.view(), s, nk); },
        [&](std::span<T> dst) { reference_weights<T>(dst, src.view(), s, nk); },
        (nk ? "nk " : "kn ") + std::to_string(sizeof(T)) + " bytes, n " + std::to_string(n) +
            " k " + std::to_string(k) + " stride " + std::to_string(s.src_stride));
    if (testing::Test::HasFatalFailure()) return;
  }
}

constexpr Slack kSlacks[] = {
    {0, 0, 0, 0, 0}, {1, 0, 1, 1, 0}, {7, 1, 0, 3, 1}, {33, 1, 1, 5, 16}, {64, 0, 0, 0, 7}};

TEST_P(PackTest, WeightsOfAwkwardSizes) {
  constexpr Index sizes[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 130};
  Index turn = 0;
  for (const Index n : sizes) {
    for (const Index k : sizes) {
      const Slack& slack = kSlacks[turn++ % std::size(kSlacks)];
      check_weights<std::int8_t>(n, k, slack);
      check_weights<std::uint16_t>(n, k, slack);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(PackTest, WeightsWithEverySlack) {
  for (const Slack& slack : kSlacks) {
    for (const auto& [n, k] :
         {std::pair<Index, Index>{1000, 33}, {33, 1000}, {96, 160}, {5, 520}}) {
      check_weights<std::int8_t>(n, k, slack);
      check_weights<std::uint16_t>(n, k, slack);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(PackTest, WeightsAtEveryOffset) {
  for (Index offset = 0; offset < 64; ++offset) {
    const Slack slack{.stride = offset % 5,
                      .groups = 0,
                      .blocks = 0,
                      .src_offset = offset,
                      .dst_offset = (offset * 7) % 64};
    check_weights<std::int8_t>(70, 97, slack);
    check_weights<std::uint16_t>(35, 97, slack);
    if (HasFatalFailure()) return;
  }
}

// Wider than a panel, and large enough to be written past the cache where the destination is
// aligned (offset 0), beside the same with one that is not.
TEST_P(PackTest, LargeWeights) {
  for (const Index dst_offset : {Index{0}, Index{16}, Index{1}}) {
    const Slack slack{
        .stride = 3, .groups = 1, .blocks = 1, .src_offset = 1, .dst_offset = dst_offset};
    check_weights<std::int8_t>(4200, 270, slack);
    check_weights<std::int8_t>(270, 4200, slack);
    check_weights<std::uint16_t>(4200, 140, slack);
    check_weights<std::uint16_t>(140, 4200, slack);
    if (HasFatalFailure()) return;
  }
  check_weights<std::int8_t>(8200, 128, kSlacks[0]);
  check_weights<std::int8_t>(1024, 1024, kSlacks[0]);
  check_weights<std::uint16_t>(1024, 1024, kSlacks[0]);
}

TEST_P(PackTest, NoWeightsAtAllArePadding) {
  check_weights<std::int8_t>(0, 40, kSlacks[3]);
  check_weights<std::int8_t>(40, 0, kSlacks[3]);
  check_weights<std::uint16_t>(0, 0, kSlacks[3]);
}

// ---- features ----

template <class T>
void check_features(Index m, Index k, const Slack& slack) {
  constexpr Index atom = 16 / sizeof(T);
  const FeatureShape s{.m = m,
                       .k = k,
                       .src_stride = k + slack.stride,
                       .kp = round_up(k, kPackK) + slack.blocks * kPackK,
                       .mp = m + 3 * slack.groups};
  const auto src = source<T>(extent(m, s.src_stride, k), slack.src_offset);
  const auto from = src.view();
  const auto plain = [&](std::span<T> dst, auto place) {
    for (Index r = 0; r < s.mp; ++r) {
      for (Index c = 0; c < s.kp; ++c) {
        dst[place(r, c)] = r < m && c < k ? from[r * s.src_stride + c] : T{};
      }
    }
  };
  const std::string what = "m " + std::to_string(m) + " k " + std::to_string(k);
  compare<T>(
      s.mp * s.kp, slack.dst_offset, [&](std::span<T> dst) { pack_native(dst, from, s); },
      [&](std::span<T> dst) {
        plain(dst, [&](Index r, Index c) { return (c / atom * s.mp + r) * atom + c % atom; });
      },
      "native " + what);
  compare<T>(
      s.mp * s.kp, slack.dst_offset, [&](std::span<T> dst) { pack_flat(dst, from, s); },
      [&](std::span<T> dst) { plain(dst, [&](Index r, Index c) { return r * s.kp + c; }); },
      "flat " + what);
}

TEST_P(PackTest, Features) {
  Index turn = 0;
  for (const Index m :
       std::initializer_list<Index>{0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 63, 100}) {
    for (const Index k :
         std::initializer_list<Index>{0, 1, 7, 8, 15, 16, 17, 32, 33, 63, 64, 100, 128, 1000}) {
      const Slack& slack = kSlacks[turn++ % std::size(kSlacks)];
      check_features<std::int8_t>(m, k, slack);
      check_features<std::uint16_t>(m, k, slack);
      if (HasFatalFailure()) return;
    }
  }
  for (Index offset = 0; offset < 32; ++offset) {
    check_features<std::int8_t>(21, 77, {offset % 3, 1, 0, offset, 31 - offset});
  }
}

// ---- results ----

template <class T>
T sum(T a, T b) {
  return static_cast<T>(a + b);
}

template <class T>
void check_results(Index m, Index n, const Slack& slack) {
  constexpr Index atom = 16 / sizeof(T);
  const NativeOutput native{.m = m, .n = n, .mp = m + slack.groups, .dst_stride = n + slack.stride};
  const FlatOutput flat{
      .m = m, .n = n, .src_stride = n + slack.blocks * 5, .dst_stride = n + slack.stride};
  const auto native_src = source<T>(round_up(n, atom) * native.mp, slack.src_offset);
  const auto flat_src = source<T>(extent(m, flat.src_stride, n), slack.src_offset);
  const auto from_native = [&](Index r, Index c) {
    return native_src.view()[(c / atom * native.mp + r) * atom + c % atom];
  };
  const auto from_flat = [&](Index r, Index c) { return flat_src.view()[r * flat.src_stride + c]; };
  const auto plain = [&](std::span<T> dst, auto from, bool add) {
    for (Index r = 0; r < m; ++r) {
      for (Index c = 0; c < n; ++c) {
        T& to = dst[r * (n + slack.stride) + c];
        to = add ? sum(to, from(r, c)) : from(r, c);
      }
    }
  };
  const Index size = extent(m, n + slack.stride, n);
  const std::string what = "m " + std::to_string(m) + " n " + std::to_string(n);
  compare<T>(
      size, slack.dst_offset,
      [&](std::span<T> dst) { unpack_native(dst, native_src.view(), native); },
      [&](std::span<T> dst) { plain(dst, from_native, false); }, "native " + what);
  compare<T>(
      size, slack.dst_offset, [&](std::span<T> dst) { unpack_flat(dst, flat_src.view(), flat); },
      [&](std::span<T> dst) { plain(dst, from_flat, false); }, "flat " + what);
  if constexpr (sizeof(T) == 4) {
    compare<T>(
        size, slack.dst_offset,
        [&](std::span<T> dst) { add_native(dst, native_src.view(), native); },
        [&](std::span<T> dst) { plain(dst, from_native, true); }, "add native " + what);
    compare<T>(
        size, slack.dst_offset, [&](std::span<T> dst) { add_flat(dst, flat_src.view(), flat); },
        [&](std::span<T> dst) { plain(dst, from_flat, true); }, "add flat " + what);
  }
}

TEST_P(PackTest, Results) {
  Index turn = 0;
  for (const Index m : std::initializer_list<Index>{0, 1, 3, 4, 15, 16, 17, 33, 100}) {
    for (const Index n :
         std::initializer_list<Index>{0, 1, 3, 4, 5, 8, 15, 16, 17, 31, 33, 63, 64, 100, 1000}) {
      const Slack& slack = kSlacks[turn++ % std::size(kSlacks)];
      check_results<std::int32_t>(m, n, slack);
      check_results<float>(m, n, slack);
      check_results<std::uint16_t>(m, n, slack);
      check_results<std::int8_t>(m, n, slack);
      if (HasFatalFailure()) return;
    }
  }
}

// ---- conversions ----

TEST_P(PackTest, SaturatesToInt8) {
  std::vector<std::int32_t> in;
  for (std::int32_t i = -300; i <= 300; ++i) in.push_back(i);
  for (const std::int32_t i :
       {32767, 32768, 65535, 65536, 65537, 0x7fffff80, -32768, -32769, -65536,
        std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
    in.push_back(i);
  }
  for (Index width : {Index{1}, Index{15}, Index{17}, Index{33}, in.size()}) {
    const FlatOutput s{
        .m = in.size() / width, .n = width, .src_stride = width, .dst_stride = width + 3};
    compare<std::int8_t>(
        extent(s.m, s.dst_stride, s.n), 1,
        [&](std::span<std::int8_t> dst) { saturate_i32_to_i8(dst, in, s); },
        [&](std::span<std::int8_t> dst) {
          for (Index i = 0; i < s.m * s.n; ++i) {
            dst[i / s.n * s.dst_stride + i % s.n] =
                static_cast<std::int8_t>(std::clamp(in[i], -128, 127));
          }
        },
        "width " + std::to_string(width));
  }
}

/// fp16's bits from a float by its definition, in doubles, which hold every step exactly.
std::uint16_t reference_f16(float f) {
  const auto bits = std::bit_cast<std::uint32_t>(f);
  const std::uint32_t sign = bits >> 31 << 15;
  if (std::isnan(f)) return static_cast<std::uint16_t>(sign | 0x7e00U | (bits >> 13 & 0x3ffU));
  const double x = std::fabs(static_cast<double>(f));
  if (x >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7c00U);
  const int exponent = x == 0.0 ? -14 : std::max(std::ilogb(x), -14);
  const auto places = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(x, 10 - exponent)));
  if (places < 1024) return static_cast<std::uint16_t>(sign | places);
  const auto biased = static_cast<std::uint32_t>(exponent + 15) << 10;
  return static_cast<std::uint16_t>(sign | (biased + places - 1024));
}

double from_f16(std::uint16_t h) {
  const int exponent = h >> 10 & 31;
  const int fraction = h & 1023;
  return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
}

TEST_P(PackTest, RoundsToF16) {
  std::vector<float> in;
  // Every finite fp16 value, every midpoint above one, and the floats beside those midpoints.
  for (std::uint16_t h = 0; h < 0x7c00; ++h) {
    const double here = from_f16(h);
    const double above = h == 0x7bff ? 65536.0 : from_f16(static_cast<std::uint16_t>(h + 1));
    const auto middle = static_cast<float>((here + above) / 2);
    for (const float f : {static_cast<float>(here), middle, std::nextafter(middle, 0.0F),
                          std::nextafter(middle, 1e9F)}) {
      in.push_back(f);
      in.push_back(-f);
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float f :
       {65504.0F, 65519.99F, 65520.0F, 1e9F, std::numeric_limits<float>::max(),
        std::numeric_limits<float>::infinity(), nan, std::bit_cast<float>(0x7f800001U),
        std::bit_cast<float>(0x7fbfffffU), std::numeric_limits<float>::denorm_min(),
        std::numeric_limits<float>::min()}) {
    in.push_back(f);
    in.push_back(-f);
  }
  for (std::uint64_t i = 0; i < 300'000; ++i) {
    in.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(mix(i))));
  }
  const FlatOutput all{.m = 1, .n = in.size(), .src_stride = in.size(), .dst_stride = in.size()};
  std::vector<std::uint16_t> out(in.size());
  round_f32_to_f16(out, in, all);
  for (Index i = 0; i < in.size(); ++i) {
    ASSERT_EQ(out[i], reference_f16(in[i])) << std::bit_cast<std::uint32_t>(in[i]);
  }
  for (const Index width : std::initializer_list<Index>{1, 3, 15, 17, 33, 100}) {
    const FlatOutput s{.m = 9, .n = width, .src_stride = width + 2, .dst_stride = width + 1};
    compare<std::uint16_t>(
        extent(s.m, s.dst_stride, s.n), 1,
        [&](std::span<std::uint16_t> dst) { round_f32_to_f16(dst, in, s); },
        [&](std::span<std::uint16_t> dst) {
          for (Index i = 0; i < s.m * s.n; ++i) {
            dst[i / s.n * s.dst_stride + i % s.n] =
                reference_f16(in[i / s.n * s.src_stride + i % s.n]);
          }
        },
        "width " + std::to_string(width));
  }
}

std::vector<std::int64_t> targets() {
  // Zero chooses the fallback, the one without vector instructions.
  std::vector<std::int64_t> list{0};
  constexpr std::int64_t vectors = HWY_TARGETS & ~(HWY_SCALAR | HWY_EMU128);
  for (std::int64_t rest = HWY_SUPPORTED_TARGETS & vectors; rest != 0; rest &= rest - 1) {
    list.push_back(rest & -rest);
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Targets, PackTest, testing::ValuesIn(targets()),
                         [](const testing::TestParamInfo<std::int64_t>& target) {
                           return std::string(target.param == 0 ? "Fallback"
                                                                : hwy::TargetName(target.param));
                         });

// ---- what is refused ----

TEST(PackArguments, AreCheckedBeforeAnythingIsWritten) {
  std::vector<std::int8_t> dst(32 * 32, 5);
  const std::vector<std::int8_t> src(32 * 32, 1);
  const auto weights = [&](std::size_t room, std::size_t have, const WeightShape& s) {
    pack_weights_i8_nk(std::span(dst).first(room), std::span(src).first(have), s);
  };
  const WeightShape good{.n = 32, .k = 32, .src_stride = 32, .kp = 32, .np = 32};
  EXPECT_THROW(weights(1023, 1024, good), std::invalid_argument);
  EXPECT_THROW(weights(1024, 1023, good), std::invalid_argument);
  EXPECT_THROW(weights(1024, 1024, {32, 32, 31, 32, 32}), std::invalid_argument);
  EXPECT_THROW(weights(1024, 1024, {32, 31, 32, 31, 32}), std::invalid_argument);
  EXPECT_THROW(weights(1024, 1024, {16, 32, 32, 32, 16}), std::invalid_argument);
  EXPECT_THROW(weights(1024, 1024, {32, 33, 33, 32, 32}), std::invalid_argument);
  EXPECT_THROW(weights(1024, 1024, {33, 1, 1, 32, 32}), std::invalid_argument);
  constexpr auto huge = std::size_t{1} << 60;
  EXPECT_THROW(weights(1024, 1024, {32, 32, 32, huge, huge}), std::invalid_argument);
  EXPECT_THROW(weights(1024, 1024, {32, 32, huge, 32, 32}), std::invalid_argument);
  EXPECT_THROW(pack_native(dst, src, FeatureShape{4, 32, 32, 32, 3}), std::invalid_argument);
  EXPECT_THROW(pack_native(dst, src, FeatureShape{33, 32, 32, 32, 33}), std::invalid_argument);
  EXPECT_THROW(pack_flat(dst, src, FeatureShape{4, 32, 31, 32, 4}), std::invalid_argument);
  EXPECT_THROW(unpack_native(dst, src, NativeOutput{4, 32, 3, 32}), std::invalid_argument);
  EXPECT_THROW(unpack_native(dst, src, NativeOutput{4, 32, 4, 31}), std::invalid_argument);
  EXPECT_THROW(unpack_native(dst, std::span(src).first(31), NativeOutput{1, 17, 1, 17}),
               std::invalid_argument);
  EXPECT_THROW(unpack_flat(dst, src, FlatOutput{4, 32, 31, 32}), std::invalid_argument);
  EXPECT_THROW(unpack_flat(dst, src, FlatOutput{33, 32, 32, 32}), std::invalid_argument);
  EXPECT_EQ(std::count(dst.begin(), dst.end(), 5), 32 * 32);
}

}  // namespace
}  // namespace rkchain::detail

// SPDX-License-Identifier: MIT
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "src/pack.hpp"
#include "tools/bench.hpp"
#include "tools/measure.hpp"

namespace rkchain::tool {
namespace {

constexpr std::align_val_t kLine{64};
constexpr const char* kAgainst = "memcpy of the same bytes";

/// Memory on a cache line, every page of it written.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t size)
      : memory_(static_cast<T*>(::operator new(size * sizeof(T), kLine))), size_(size) {
    for (std::size_t i = 0; i < size; ++i) {
      std::construct_at(memory_.get() + i, static_cast<T>(i * 2654435761U >> 13));
    }
  }

  std::span<T> view() { return {memory_.get(), size_}; }
  std::span<const T> view() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete(p, kLine); }
  };
  std::unique_ptr<T, Free> memory_;
  std::size_t size_;
};

template <class T>
class Bench {
 public:
  explicit Bench(std::size_t size) : from_(size), to_(size), copy_(size) {}

  /// `pack(to, from)` against copying `from`.
  template <class Pack>
  BenchRow row(const char* name, double limit, double aim, Pack pack) {
    // The size comes from the buffer at run time: a constant one would become a slow inline copy.
    const auto copy = [&] {
      const auto from = from_.view();
      std::memcpy(copy_.view().data(), from.data(), from.size_bytes());
    };
    const double ratio = median_ratio([&] { pack(to_.view(), std::as_const(from_).view()); }, copy,
                                      {.time = Time::thread});
    return {name, ratio, limit, aim, kAgainst};
  }

 private:
  Buffer<T> from_;
  Buffer<T> to_;
  Buffer<T> copy_;
};

using I8 = std::int8_t;
using F16 = std::uint16_t;

}  // namespace

std::vector<BenchRow> bench_pack() {
  using namespace rkchain::detail;
  std::vector<BenchRow> rows;
  {
    constexpr std::size_t size = 4096;
    constexpr WeightShape shape{.n = size, .k = size, .src_stride = size, .kp = size, .np = size};
    Bench<I8> bench(size * size);
    rows.push_back(bench.row(
        "pack_i8_nk", 1.6, 1.0,
        [&](std::span<I8> to, std::span<const I8> from) { pack_weights_i8_nk(to, from, shape); }));
    rows.push_back(bench.row(
        "pack_i8_kn", 2.5, 1.3,
        [&](std::span<I8> to, std::span<const I8> from) { pack_weights_i8_kn(to, from, shape); }));
  }
  {
    constexpr std::size_t n = 4096;
    constexpr std::size_t k = 2048;
    Bench<F16> bench(n * k);
    rows.push_back(
        bench.row("pack_f16_nk", 0, 1.0, [&](std::span<F16> to, std::span<const F16> from) {
          pack_weights_f16_nk(to, from, {.n = n, .k = k, .src_stride = k, .kp = k, .np = n});
        }));
    rows.push_back(
        bench.row("pack_f16_kn", 0, 1.3, [&](std::span<F16> to, std::span<const F16> from) {
          pack_weights_f16_kn(to, from, {.n = k, .k = n, .src_stride = k, .kp = n, .np = k});
        }));
  }
  {
    constexpr std::size_t m = 128;
    constexpr std::size_t k = 4096;
    constexpr FeatureShape shape{.m = m, .k = k, .src_stride = k, .kp = k, .mp = m};
    Bench<I8> bench(m * k);
    rows.push_back(bench.row(
        "pack_native_i8", 0, 3.0,
        [&](std::span<I8> to, std::span<const I8> from) { pack_native(to, from, shape); }));
    Bench<std::int32_t> results(m * k);
    rows.push_back(results.row("unpack_native_i32", 0, 0,
                               [&](std::span<std::int32_t> to, std::span<const std::int32_t> from) {
                                 unpack_native(to, from,
                                               {.m = m, .n = k, .mp = m, .dst_stride = k});
                               }));
  }
  {
    constexpr std::size_t m = 128;
    constexpr std::size_t k = 2048;
    Bench<F16> bench(m * k);
    rows.push_back(
        bench.row("pack_native_f16", 0, 3.0, [&](std::span<F16> to, std::span<const F16> from) {
          pack_native(to, from, {.m = m, .k = k, .src_stride = k, .kp = k, .mp = m});
        }));
  }
  return rows;
}

}  // namespace rkchain::tool

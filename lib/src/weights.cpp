// SPDX-License-Identifier: MIT
#include "weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "pack.hpp"
#include "plan.hpp"
#include "rkchain/error.hpp"

namespace rkchain {
namespace {

using detail::Range;

/// Elements that the packers know: an fp16 value is its bits there.
template <typename T>
using Packed = std::conditional_t<std::is_same_v<T, Half>, std::uint16_t, std::int8_t>;

/// Distance of source rows, once the source has been found long enough.
std::size_t source_stride(std::uint64_t rows, std::uint64_t columns, std::size_t stride,
                          std::size_t size) {
  if (stride == 0) {
    if (size != rows * columns) {
      throw Error(Errc::invalid_argument,
                  fmt::format("Weights::pack: source has {} elements, expected K * N = {}", size,
                              rows * columns));
    }
    return columns;
  }
  if (stride < columns) {
    throw Error(Errc::invalid_argument,
                fmt::format("Weights::pack: stride is {}; a row has {} elements", stride, columns));
  }
  // Division, as nobody has limited the stride.
  if (size < columns || (rows > 1 && (size - columns) / (rows - 1) < stride)) {
    throw Error(Errc::invalid_argument,
                fmt::format("Weights::pack: source has {} elements, too few for {} rows of {} at "
                            "a stride of {}",
                            size, rows, columns, stride));
  }
  return stride;
}

template <typename T>
std::shared_ptr<const Weights::Impl> pack_any(const Device& device, std::uint32_t k,
                                              std::uint32_t n, std::span<const T> source,
                                              Source order, std::size_t stride) {
  constexpr std::string_view what = "Weights::pack";
  detail::require_positive(what, "K", k);
  detail::require_positive(what, "N", n);
  const std::uint64_t np = detail::round_up(n, detail::kPadding);
  const std::uint64_t bytes =
      detail::device_bytes(what, "N", np, "K", detail::round_up(k, detail::kPadding), sizeof(T));
  const bool nk = order == Source::nk;
  const std::size_t row = source_stride(nk ? n : k, nk ? k : n, stride, source.size());

  auto impl = std::make_shared<Weights::Impl>();
  impl->buffer = device.allocate(bytes);
  impl->k = k;
  impl->n = n;
  impl->fp16 = std::is_same_v<T, Half>;

  const std::span<const Packed<T>> from{reinterpret_cast<const Packed<T>*>(source.data()),
                                        source.size()};
  const std::span<Packed<T>> to = impl->buffer.as<Packed<T>>();
  for (const Range& tile : detail::k_tiles(k)) {
    const detail::WeightShape shape{n, std::min(tile.size, k - tile.begin), row, tile.size, np};
    const auto out = to.subspan(tile.begin * np, tile.size * np);
    const auto in = from.subspan(tile.begin * (nk ? 1 : row));
    if constexpr (std::is_same_v<T, Half>) {
      nk ? detail::pack_weights_f16_nk(out, in, shape)
         : detail::pack_weights_f16_kn(out, in, shape);
    } else {
      nk ? detail::pack_weights_i8_nk(out, in, shape) : detail::pack_weights_i8_kn(out, in, shape);
    }
  }
  impl->buffer.sync(Direction::to_device);
  return impl;
}

}  // namespace

Weights Weights::pack(const Device& device, std::uint32_t k, std::uint32_t n,
                      std::span<const std::int8_t> source, Source order, std::size_t stride) {
  return Weights(pack_any(device, k, n, source, order, stride));
}

Weights Weights::pack(const Device& device, std::uint32_t k, std::uint32_t n,
                      std::span<const Half> source, Source order, std::size_t stride) {
  return Weights(pack_any(device, k, n, source, order, stride));
}

std::uint32_t Weights::k() const noexcept { return impl_->k; }
std::uint32_t Weights::n() const noexcept { return impl_->n; }
bool Weights::is_fp16() const noexcept { return impl_->fp16; }
std::size_t Weights::device_bytes() const noexcept { return impl_->buffer.size(); }

}  // namespace rkchain

// SPDX-License-Identifier: MIT
#include "chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <type_traits>
#include <utility>

#include "buffer.hpp"
#include "pack.hpp"
#include "rkchain/error.hpp"
#include "rkchain/stream.hpp"
#include "run.hpp"

namespace rkchain {
namespace detail {

RegisteredChain::~RegisteredChain() {
  if (!backend_) return;
  try {
    backend_->destroy_chain(id_);
  } catch (const std::exception&) {
    // A device that has gone has taken its chains along.
  }
}

}  // namespace detail

namespace {

using detail::FlatOutput;
using detail::Item;
using detail::NativeOutput;
using detail::Range;
using detail::Tile;

template <typename T>
inline constexpr std::string_view kElement = "";
template <>
inline constexpr std::string_view kElement<std::int8_t> = "int8";
template <>
inline constexpr std::string_view kElement<Half> = "fp16";
template <>
inline constexpr std::string_view kElement<std::int32_t> = "int32";
template <>
inline constexpr std::string_view kElement<float> = "fp32";

constexpr std::string_view operand_element(Type type) noexcept {
  return input_bytes(type) == 1 ? kElement<std::int8_t> : kElement<Half>;
}

constexpr std::string_view result_element(Type type) noexcept {
  switch (type) {
    case Type::i8_i32:
      return kElement<std::int32_t>;
    case Type::i8_i8:
      return kElement<std::int8_t>;
    case Type::f16_f32:
      return kElement<float>;
    case Type::f16_f16:
      return kElement<Half>;
  }
  return "?";
}

/// Elements that the packers know: an fp16 value is its bits there.
template <typename T>
using Packed = std::conditional_t<std::is_same_v<T, Half>, std::uint16_t, T>;

template <typename T>
std::span<const Packed<T>> packed(std::span<const T> values) {
  return {reinterpret_cast<const Packed<T>*>(values.data()), values.size()};
}

template <typename T>
std::span<Packed<T>> packed(std::span<T> values) {
  return {reinterpret_cast<Packed<T>*>(values.data()), values.size()};
}

void require_built(std::string_view what, const Chain::Impl& chain) {
  if (!chain.built) {
    throw Error(Errc::invalid_argument, fmt::format("{}: the chain has not been built", what));
  }
}

void require_type(std::string_view what, Type type) {
  const auto value = static_cast<unsigned>(type);
  constexpr auto limit = static_cast<unsigned>(Type::f16_f16);
  if (value > limit) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: type is {}; the limit is {}", what, value, limit));
  }
}

void require_size(std::string_view what, std::string_view product, std::size_t have,
                  std::uint64_t rows, std::uint64_t columns) {
  if (have != rows * columns) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: values has {} elements, expected {} = {} * {} = {}", what, have,
                            product, rows, columns, rows * columns));
  }
}

template <typename T>
void write_any(Chain::Impl& chain, Tensor t, std::span<const T> values) {
  const Item& item = chain.item("write", t);
  require_built("write", chain);
  if (item.is_result()) {
    throw Error(Errc::invalid_argument,
                fmt::format("write: tensor {} is a result, which only the NPU writes", t.index));
  }
  if (operand_element(item.type) != kElement<T>) {
    throw Error(Errc::invalid_argument,
                fmt::format("write: tensor {} has {} elements, not {}", t.index,
                            operand_element(item.type), kElement<T>));
  }
  const std::size_t m = item.shape.m;
  const std::size_t k = item.shape.k;
  require_size("write", "M * K", values.size(), m, k);
  static_cast<void>(chain.require_idle("write"));

  using P = Packed<T>;
  const auto to = reinterpret_cast<P*>(chain.memory(item, 0));
  if (chain.options.layout == Layout::native) {
    const std::size_t kp = detail::round_up(k, detail::kPadding);
    detail::pack_native(std::span<P>(to, m * kp), packed(values), {m, k, k, kp, m});
    return;
  }
  for (const Range& tile : detail::k_tiles(item.shape.k)) {
    const std::size_t columns = std::min<std::size_t>(tile.size, k - tile.begin);
    detail::pack_flat(std::span<P>(to + m * tile.begin, m * tile.size),
                      packed(values).subspan(tile.begin), {m, columns, k, tile.size, m});
  }
}

/// Copies what the tasks of a result wrote to row-major memory; partial results are added.
template <typename P>
void gather(const Chain::Impl& chain, const Item& item, std::span<P> out) {
  constexpr bool kAdds = std::is_same_v<P, std::int32_t> || std::is_same_v<P, float>;
  const detail::MatmulPlan& plan = item.plan;
  const std::size_t m = item.shape.m;
  const std::size_t n = item.shape.n;
  for (std::size_t part = 0; part < plan.k.size(); ++part) {
    const auto* const from = reinterpret_cast<const P*>(chain.memory(item, part * plan.part_bytes));
    if (plan.layout == Layout::native) {
      const std::span in(from, m * plan.np);
      const NativeOutput shape{m, n, m, n};
      if constexpr (kAdds) {
        if (part != 0) {
          detail::add_native(out, in, shape);
          continue;
        }
      }
      detail::unpack_native(out, in, shape);
      continue;
    }
    for (const Tile& tile : plan.n) {
      const auto [begin, size] = tile.range;
      if (begin >= n) break;  // padding alone
      const std::span in(from + m * begin, m * size);
      const FlatOutput shape{m, std::min<std::size_t>(size, n - begin), size, n};
      if constexpr (kAdds) {
        if (part != 0) {
          detail::add_flat(out.subspan(begin), in, shape);
          continue;
        }
      }
      detail::unpack_flat(out.subspan(begin), in, shape);
    }
  }
}

template <typename T>
void read_any(Chain::Impl& chain, Tensor t, std::span<T> values) {
  const Item& item = chain.item("read", t);
  require_built("read", chain);
  if (!item.is_result()) {
    throw Error(Errc::invalid_argument,
                fmt::format("read: tensor {} is an input, which only the CPU writes", t.index));
  }
  if (result_element(item.type) != kElement<T>) {
    throw Error(Errc::invalid_argument,
                fmt::format("read: tensor {} has {} elements, not {}", t.index,
                            result_element(item.type), kElement<T>));
  }
  const std::size_t m = item.shape.m;
  const std::size_t n = item.shape.n;
  require_size("read", "M * N", values.size(), m, n);
  switch (chain.require_idle("read")) {
    case Chain::Impl::Outcome::done:
      break;
    case Chain::Impl::Outcome::failed:
      throw Error(Errc::invalid_argument, "read: the last run of the chain failed");
    default:
      throw Error(Errc::invalid_argument, "read: the chain has never run");
  }

  if constexpr (std::is_same_v<T, std::int8_t>) {
    if (item.plan.partial()) {
      std::vector<std::int32_t> sums(m * n);
      gather(chain, item, std::span(sums));
      detail::saturate_i32_to_i8(values, sums, {m, n, n, n});
      return;
    }
  }
  if constexpr (std::is_same_v<T, Half>) {
    if (item.plan.partial()) {
      std::vector<float> sums(m * n);
      gather(chain, item, std::span(sums));
      detail::round_f32_to_f16(packed(values), sums, {m, n, n, n});
      return;
    }
  }
  gather(chain, item, packed(values));
}

/// Why a result cannot be the operand of a matmul, if it cannot.
std::string obstacle(const Chain::Impl& chain, const Item& item) {
  if (output_bytes(item.type) == 4) {
    return fmt::format("it has {} elements; only i8_i8 and f16_f16 results can be an operand",
                       result_element(item.type));
  }
  if (item.plan.partial()) {
    return fmt::format("its K = {} is more than {}, so that the CPU has to add its partial results",
                       item.shape.k, detail::kTaskK);
  }
  const DeviceInfo info = chain.device.info();
  if (!info.ordered) {
    return fmt::format(
        "mode {} of this device is not known to finish a block before the next one "
        "reads",
        name(info.mode));
  }
  return {};
}

Type widest(const Weights& w) noexcept { return w.is_fp16() ? Type::f16_f32 : Type::i8_i32; }

Tensor append(Chain::Impl& chain, Tensor a, const Weights& w, Type type) {
  if (chain.built) throw Error(Errc::busy, "matmul: the chain has been built already");
  const Item& operand = chain.item("matmul", a);
  require_type("matmul", type);
  if (w.impl().buffer.impl()->backend != chain.device.share()) {
    throw Error(Errc::invalid_argument, "matmul: the weights are on another device");
  }
  const std::string_view element = w.is_fp16() ? kElement<Half> : kElement<std::int8_t>;
  if (operand_element(type) != element) {
    throw Error(Errc::invalid_argument,
                fmt::format("matmul: type is {}, the weights are {}", name(type), element));
  }
  const bool computed = operand.is_result();
  const std::string_view have =
      computed ? result_element(operand.type) : operand_element(operand.type);
  const std::uint32_t k = computed ? operand.shape.n : operand.shape.k;
  if (computed) {
    const std::string reason = obstacle(chain, operand);
    if (!reason.empty()) {
      throw Error(
          Errc::invalid_argument,
          fmt::format("matmul: tensor {} cannot be fed on without the CPU: {}", a.index, reason));
    }
  }
  if (have != element) {
    throw Error(Errc::invalid_argument,
                fmt::format("matmul: tensor {} has {} elements, the weights "
                            "are {}",
                            a.index, have, element));
  }
  if (k != w.k()) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("matmul: tensor {} has K = {}, the weights have K = {}", a.index, k, w.k()));
  }

  Item item;
  item.type = type;
  item.shape = {operand.shape.m, k, w.n()};
  item.weights = w.share();
  item.source = a.index;
  item.matmul = chain.matmuls;
  item.level = computed ? operand.level + 1 : 0;
  // Where it lies is planned by build(), when it is known what is fed on; this finds what is too
  // big, in either form.
  item.plan = detail::plan_matmul({type, chain.options.layout, item.shape, 1, 0, true});
  chain.items.push_back(std::move(item));
  chain.items[a.index].fed_on = computed;
  ++chain.matmuls;
  return {static_cast<std::uint32_t>(chain.items.size() - 1)};
}

template <typename In, typename Out>
void matmul_once(const Device& device, const Shape& shape, std::span<const In> a, const Weights& w,
                 std::span<Out> c) {
  if (shape.k != w.k() || shape.n != w.n()) {
    throw Error(Errc::invalid_argument,
                fmt::format("matmul: shape has K = {}, N = {}; the weights have K = {}, N = {}",
                            shape.k, shape.n, w.k(), w.n()));
  }
  const auto check = [](std::string_view name, std::string_view product, std::size_t have,
                        std::uint64_t want) {
    if (have != want) {
      throw Error(
          Errc::invalid_argument,
          fmt::format("matmul: {} has {} elements, expected {} = {}", name, have, product, want));
    }
  };
  check("a", "M * K", a.size(), std::uint64_t{shape.m} * shape.k);
  check("c", "M * N", c.size(), std::uint64_t{shape.m} * shape.n);
  Chain chain(device);
  const Tensor x = chain.input(widest(w), shape.m, shape.k);
  const Tensor y = chain.matmul(x, w);
  chain.build();
  chain.write(x, a);
  Stream(device, {1}).submit(chain).get();
  chain.read(y, c);
}

}  // namespace

const Item& Chain::Impl::item(std::string_view what, Tensor t) const {
  if (t.index >= items.size()) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("{}: tensor {} does not exist; the chain has {}", what, t.index, items.size()));
  }
  return items[t.index];
}

void Chain::Impl::claim(const std::shared_ptr<detail::Run>& run) {
  for (;;) {
    std::shared_ptr<detail::Run> old;
    {
      const std::lock_guard lock(mutex_);
      old = current_.lock();
      if (!old || old->ended()) {
        current_ = run;
        return;
      }
    }
    // Nobody may have asked for it since it ended.
    if (!old->wait_until({})) throw Error(Errc::busy, "submit: the chain is in flight");
  }
}

void Chain::Impl::set_outcome(Outcome value) {
  const std::lock_guard lock(mutex_);
  outcome_ = value;
}

Chain::Impl::Outcome Chain::Impl::require_idle(std::string_view what) {
  std::shared_ptr<detail::Run> run;
  {
    const std::lock_guard lock(mutex_);
    run = current_.lock();
  }
  if (run && !run->wait_until({})) {
    throw Error(Errc::busy, fmt::format("{}: the chain is in flight", what));
  }
  const std::lock_guard lock(mutex_);
  return outcome_;
}

Chain::Chain(const Device& device, const ChainOptions& options)
    : impl_(std::make_shared<Impl>(device, options)) {}
Chain::Chain(Chain&&) noexcept = default;
Chain& Chain::operator=(Chain&&) noexcept = default;
Chain::~Chain() = default;

Tensor Chain::input(Type type, std::uint32_t m, std::uint32_t k) {
  if (impl_->built) throw Error(Errc::busy, "input: the chain has been built already");
  require_type("input", type);
  detail::require_positive("input", "M", m);
  detail::require_positive("input", "K", k);
  static_cast<void>(detail::operand_bytes("input", impl_->options.layout, m, k, input_bytes(type)));
  Item item;
  item.type = type;
  item.shape = {m, k, 0};
  impl_->items.push_back(std::move(item));
  return {static_cast<std::uint32_t>(impl_->items.size() - 1)};
}

Tensor Chain::matmul(Tensor a, const Weights& w, Type type) { return append(*impl_, a, w, type); }

Tensor Chain::matmul(Tensor a, const Weights& w) { return append(*impl_, a, w, widest(w)); }

void Chain::build() { impl_->build(); }

bool Chain::built() const noexcept { return impl_->built; }

const ChainPlan& Chain::plan() const {
  require_built("plan", *impl_);
  return impl_->plan;
}

Shape Chain::shape(Tensor t) const { return impl_->item("shape", t).shape; }

void Chain::write(Tensor t, std::span<const std::int8_t> values) { write_any(*impl_, t, values); }
void Chain::write(Tensor t, std::span<const Half> values) { write_any(*impl_, t, values); }

void Chain::read(Tensor t, std::span<std::int32_t> values) const { read_any(*impl_, t, values); }
void Chain::read(Tensor t, std::span<std::int8_t> values) const { read_any(*impl_, t, values); }
void Chain::read(Tensor t, std::span<float> values) const { read_any(*impl_, t, values); }
void Chain::read(Tensor t, std::span<Half> values) const { read_any(*impl_, t, values); }

void matmul(const Device& device, const Shape& shape, std::span<const std::int8_t> a,
            const Weights& w, std::span<std::int32_t> c) {
  matmul_once(device, shape, a, w, c);
}

void matmul(const Device& device, const Shape& shape, std::span<const Half> a, const Weights& w,
            std::span<float> c) {
  matmul_once(device, shape, a, w, c);
}

}  // namespace rkchain

// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "rkchain/device.hpp"
#include "rkchain/types.hpp"
#include "rkchain/weights.hpp"

#pragma GCC visibility push(default)

namespace rkchain {

struct ChainOptions {
  Strategy strategy = Strategy::rotate;
  Layout layout = Layout::flat;  ///< of operands and results on the device
};

/// Handle of an activation operand or a result within one Chain.
struct Tensor {
  std::uint32_t index = 0;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// What a built chain will cost.
struct ChainPlan {
  std::uint32_t matmuls = 0;     ///< as appended
  std::uint32_t blocks = 0;      ///< register programs after tiling
  std::uint32_t segments = 0;    ///< registered chains (splits, and at most 1191 blocks each)
  std::uint32_t submits = 0;     ///< submits to the NPU per run in the device's mode
  std::uint64_t macs = 0;        ///< padding included
  std::size_t device_bytes = 0;  ///< activations and results, weights apart
};

/// Several matmuls that run as one job.
///
///     Chain chain(device);
///     Tensor x = chain.input(Type::i8_i32, 1, 1024);
///     Tensor q = chain.matmul(x, wq);
///     Tensor k = chain.matmul(x, wk);
///     chain.build();
///     chain.write(x, activations);
///     stream.submit(chain).get();
///     chain.read(q, out);
///
/// Built once, run any number of times; weights stay shared.  A chain is in
/// flight at most once at a time.  Building, writing and reading one chain is
/// for one thread at a time; submitting is not restricted.
class Chain {
 public:
  explicit Chain(const Device& device, const ChainOptions& options = {});
  Chain(Chain&&) noexcept;
  Chain& operator=(Chain&&) noexcept;
  ~Chain();

  /// An activation operand A[M,K] that the CPU writes.
  /// @param type only its input element counts here.
  /// @throws Error invalid_argument: m or k is 0, or M * K is more than the NPU addresses; busy
  ///   after build().
  Tensor input(Type type, std::uint32_t m, std::uint32_t k);

  /// Appends C = a * w.
  /// @param a an input(), or the result of an earlier matmul whose element type
  ///   can be an input (i8_i8, f16_f16): then the device feeds it on without the CPU.  That takes
  ///   DeviceInfo::ordered, and K <= 4096 in the earlier matmul: partial results of a longer K
  ///   are added by the CPU.
  /// @throws Error invalid_argument: K disagrees, type does not fit the weights, a result that
  ///   cannot be fed on and why, a result that is more than the NPU addresses, weights of another
  ///   device; busy after build().
  Tensor matmul(Tensor a, const Weights& w, Type type);
  /// The same with int32 or fp32 results.
  Tensor matmul(Tensor a, const Weights& w);

  /// Plans, allocates, lays out, checks and registers.  A chain that could not be built is as it
  /// was before.
  /// @throws Error out_of_memory, check_failed, invalid_argument (nothing appended), busy the
  ///   second time.
  void build();
  [[nodiscard]] bool built() const noexcept;
  /// @throws Error invalid_argument before build().
  [[nodiscard]] const ChainPlan& plan() const;
  [[nodiscard]] Shape shape(Tensor t) const;  ///< matmul: M, K, N; input: M, K, 0

  /// Copies an operand in, row-major, M * K elements (int8 or fp16 as declared).  Operands keep
  /// their values from run to run; they are zero at first.
  /// @throws Error invalid_argument: not built, no such input, another element type or number of
  ///   elements; busy while the chain is in flight.
  void write(Tensor t, std::span<const std::int8_t> values);
  void write(Tensor t, std::span<const Half> values);
  /// Copies a result out, row-major, M * N elements, after the run has completed.
  /// @throws Error invalid_argument: not built, no such result, another element type or number of
  ///   elements, no run yet or a failed one; busy while the chain is in flight.
  void read(Tensor t, std::span<std::int32_t> values) const;
  void read(Tensor t, std::span<std::int8_t> values) const;
  void read(Tensor t, std::span<float> values) const;
  void read(Tensor t, std::span<Half> values) const;

  struct [[gnu::visibility("hidden")]] Impl;
  [[nodiscard]] const std::shared_ptr<Impl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// One matmul from host memory to host memory: packs, runs, unpacks.
/// @param a M * K elements, row-major.
/// @param c M * N elements, row-major.
/// @throws Error invalid_argument: a number of elements or the weights disagree with the shape;
///   what Chain and Future throw.
void matmul(const Device& device, const Shape& shape, std::span<const std::int8_t> a,
            const Weights& w, std::span<std::int32_t> c);
void matmul(const Device& device, const Shape& shape, std::span<const Half> a, const Weights& w,
            std::span<float> c);

}  // namespace rkchain

#pragma GCC visibility pop

// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kmod/core/chain.h"
#include "kmod/core/check.h"
#include "rkchain/rkchain.hpp"
#include "src/plan.hpp"
#include "tools/bench.hpp"
#include "tools/cli.hpp"
#include "tools/measure.hpp"

namespace rkchain::tool {
namespace {

constexpr std::uint32_t blocks = 64;
constexpr std::uint64_t a_at = 0x10000000, b_at = 0x20000000, c_at = 0x80000000;
constexpr std::uint64_t arena = 0x10000000;

/// Many short samples: what interrupts the process meets few of them.
const MeasureOptions short_samples{.pairs = 201, .sample = std::chrono::microseconds(100)};

/// Decoder layers of a small model, one after the other: Q, K, V, o, gate, up, down, ...
/// @param shapes_used 1: all of the first shape.
std::vector<rkc_matmul> layers(std::size_t shapes_used = 7) {
  constexpr Shape shapes[] = {{1, 1024, 2048}, {1, 1024, 1024}, {1, 1024, 1024}, {1, 2048, 1024},
                              {1, 1024, 3072}, {1, 1024, 3072}, {1, 3072, 1024}};
  std::vector<rkc_matmul> matmuls(blocks);
  for (std::uint32_t i = 0; i < blocks; i++) {
    const Shape& shape = shapes[i % shapes_used];
    rkc_matmul& matmul = matmuls[i];
    matmul.m = matmul.m_total = shape.m;
    matmul.k = shape.k;
    matmul.n = shape.n;
    matmul.a = static_cast<u32>(a_at + 0x1000 * std::uint64_t{i});
    matmul.b = static_cast<u32>(b_at + 0x400000 * std::uint64_t{i % 16});
    matmul.c = static_cast<u32>(c_at + 0x8000 * std::uint64_t{i});
  }
  return matmuls;
}

void check(std::uint32_t reason) {
  if (reason != RKC_OK) failed("benchmark: {}", rkc_reason_text(reason));
}

BenchRow append() {
  const std::vector<rkc_matmul> matmuls = layers();
  std::vector<u64> words(blocks * RKC_WAIT_STRIDE + RKC_FULL_WORDS);
  const std::vector<u64> from(words.size(), 1);
  std::vector<u64> to(words.size());
  // A size that the compiler knows would become a slow inline copy.
  std::size_t stride = 8 * RKC_WAIT_STRIDE;
  asm volatile("" : "+r"(stride));
  const double ratio = median_ratio(
      [&] {
        for (u32 i = 0; i < blocks; i++) rkc_chain_append(words.data(), i, &matmuls[i]);
      },
      [&] {
        for (u32 i = 0; i < blocks; i++) {
          std::memcpy(to.data() + i * RKC_WAIT_STRIDE, from.data() + i * RKC_WAIT_STRIDE, stride);
          touch_memory();
        }
      },
      short_samples);
  return {"append", ratio, 5, 2.5, "memcpy of 880 bytes"};
}

/// The same with what the library plans for each matmul before.
BenchRow append_planned() {
  const detail::MatmulPlan plan =
      detail::plan_matmul({Type::i8_i32, Layout::flat, {1, 1024, 2048}, 1, 0, false});
  std::vector<detail::PlannedBlock> tasks;
  tasks.reserve(blocks);
  std::vector<u64> words(blocks * RKC_WAIT_STRIDE + RKC_FULL_WORDS);
  const std::vector<u64> from(words.size(), 1);
  std::vector<u64> to(words.size());
  std::size_t stride = 8 * RKC_WAIT_STRIDE;
  asm volatile("" : "+r"(stride));
  const double ratio = median_ratio(
      [&] {
        tasks.clear();
        for (u32 i = 0; i < blocks; i++) {
          detail::append_tasks(plan, {0x10000000, 0x20000000, 0x30000000 + 0x8000 * i}, tasks);
          rkc_chain_append(words.data(), i, &tasks.back().task);
        }
      },
      [&] {
        for (u32 i = 0; i < blocks; i++) {
          std::memcpy(to.data() + i * RKC_WAIT_STRIDE, from.data() + i * RKC_WAIT_STRIDE, stride);
          touch_memory();
        }
      },
      short_samples);
  return {"append_planned", ratio, 0, 0, "memcpy of 880 bytes"};
}

/// What registering a chain does: recognise every block, limits, extents, generate anew.
BenchRow check64(std::string name, std::size_t shapes_used, double limit, double aim) {
  const std::vector<rkc_matmul> matmuls = layers(shapes_used);
  rkc_measure measure{};
  check(rkc_chain_measure(RKC_WAIT, blocks, &measure, nullptr));
  std::vector<u64> given(measure.words), made(measure.words);
  check(rkc_chain_emit(RKC_WAIT, matmuls.data(), blocks, 0, given.data(), nullptr));
  const rkc_program program{given.data(),   given.size(),   blocks,
                            measure.stride, RKC_BODY_WORDS, false};
  const rkc_buf buffers[] = {{a_at, arena, RKC_BUF_READ, 0},
                             {b_at, arena, RKC_BUF_READ, 0},
                             {c_at, arena, RKC_BUF_WRITE, 0}};
  const auto recogniser = std::make_unique<rkc_recogniser>();
  std::vector<rkc_matmul> found(blocks);
  rkc_checked checked{};
  std::uint32_t reason = RKC_OK;
  const auto register_chain = [&] {
    rkc_err error{};
    reason |= rkc_program_shape(&program, &error);
    for (u32 i = 0; i < blocks; i++)
      reason |= rkc_program_block(recogniser.get(), &program, i, &found[i], &error);
    reason |=
        rkc_chain_check(found.data(), blocks, buffers, std::size(buffers), true, &checked, &error);
    reason |= rkc_chain_emit(RKC_WAIT, found.data(), blocks, 0, made.data(), &error);
  };
  std::vector<u64> copy(given.size());
  std::size_t bytes = 8 * given.size();
  asm volatile("" : "+r"(bytes));
  const double ratio = median_ratio(
      register_chain, [&] { std::memcpy(copy.data(), given.data(), bytes); }, short_samples);
  check(reason);
  if (made != given) failed("benchmark: the chain generated anew is another one");
  return {std::move(name), ratio, limit, aim, "memcpy of the chain"};
}

/// One matmul of the least size: what is left is the way to the NPU and back.
Chain small_chain(const Device& device, const Weights& weights, std::uint32_t count) {
  Chain chain(device);
  const Tensor x = chain.input(Type::i8_i32, 1, weights.k());
  for (std::uint32_t i = 0; i < count; i++) chain.matmul(x, weights);
  chain.build();
  return chain;
}

}  // namespace

std::vector<BenchRow> bench_build() {
  return {append(), append_planned(), check64("check64", 7, 12, 5),
          check64("check64_same_shape", 1, 0, 5)};
}

std::vector<BenchRow> bench_submit() {
  OpenOptions open;
  open.backend = BackendKind::model;
  const Device device = Device::open(open);
  const std::vector<std::int8_t> values(32 * 32, 1);
  const Weights weights = Weights::pack(device, 32, 32, values);
  Chain one = small_chain(device, weights, 1);
  Chain all = small_chain(device, weights, blocks);
  Stream stream(device);
  const double ratio = median_ratio([&] { stream.submit(all).get(); },
                                    [&] {
                                      for (std::uint32_t i = 0; i < blocks; i++)
                                        stream.submit(one).get();
                                    });
  return {{"submit_chain64", ratio, 0, 0, "64 submits of one matmul each (software NPU)"}};
}

}  // namespace rkchain::tool

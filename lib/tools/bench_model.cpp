// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "backend/model_i8.hpp"
#include "kmod/core/chain.h"
#include "lib/model/npu.h"
#include "tools/bench.hpp"
#include "tools/cli.hpp"
#include "tools/measure.hpp"
#include "tools/reference.hpp"

namespace rkchain::tool {
namespace {

constexpr std::uint32_t m_size = 8, k_size = 2048, n_size = 2048;
constexpr u32 a_at = 0x10000000, b_at = 0x20000000, c_at = 0x30000000, program_at = 0x40000000;

/// One matmul on one core, as the model back end runs it.
class Job {
 public:
  Job(std::vector<std::int8_t> a, const std::vector<std::int8_t>& b)
      : a_(std::move(a)),
        b_(b.size()),
        c_(std::size_t{m_size} * n_size),
        words_(RKC_FULL_WORDS),
        core_(
            std::make_unique<std::max_align_t[]>(npu_core_size() / sizeof(std::max_align_t) + 1)) {
    for (std::uint32_t n = 0; n < n_size; n++)
      for (std::uint32_t k = 0; k < k_size; k++)
        b_[packed_index(k_size, 32, k, n)] = b[std::size_t{n} * k_size + k];
    rkc_matmul matmul{};
    matmul.m = matmul.m_total = m_size;
    matmul.k = k_size;
    matmul.n = n_size;
    matmul.a = a_at;
    matmul.b = b_at;
    matmul.c = c_at;
    if (rkc_matmul_check(&matmul, nullptr) != RKC_OK ||
        rkc_chain_emit(RKC_SINGLE, &matmul, 1, program_at, words_.data(), nullptr) != RKC_OK)
      failed("benchmark: no program for {} x {} x {}", m_size, k_size, n_size);
    ops_.map = map;
    ops_.dot_i8 = model_dot_i8;
    ops_.ctx = this;
    npu_init(core(), 0, &ops_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void run() {
    const npu_job job{program_at, rkc_pc_amount(RKC_BODY_WORDS), 0x300, 1, 0};
    npu_start(core(), &job);
    npu_run(core());
    npu_write(core(), NPU_PC_INT_CLEAR, 0x1ffff);
  }

  [[nodiscard]] const std::vector<std::int32_t>& c() const { return c_; }

 private:
  [[nodiscard]] npu_core* core() { return reinterpret_cast<npu_core*>(core_.get()); }

  template <typename T>
  static void* piece(std::vector<T>& bytes, u64 offset, u64 size) {
    if (offset + size > sizeof(T) * bytes.size()) return nullptr;
    return reinterpret_cast<std::byte*>(bytes.data()) + offset;
  }

  static void* map(void* context, npu_access access, u64 iova, u64 size) {
    auto& job = *static_cast<Job*>(context);
    switch (access) {
      case NPU_FETCH:
        return piece(job.words_, iova - program_at, size);
      case NPU_FEATURE:
        return piece(job.a_, iova - a_at, size);
      case NPU_WEIGHT:
        return piece(job.b_, iova - b_at, size);
      default:
        return piece(job.c_, iova - c_at, size);
    }
  }

  std::vector<std::int8_t> a_, b_;
  std::vector<std::int32_t> c_;
  std::vector<u64> words_;
  npu_ops ops_{};
  std::unique_ptr<std::max_align_t[]> core_;
};

}  // namespace

std::vector<BenchRow> bench_model() {
  Random random(1);
  const auto a = random.bytes(std::size_t{m_size} * k_size, -128, 127);
  const auto b = random.bytes(std::size_t{n_size} * k_size, -128, 127);
  std::vector<std::int32_t> c(std::size_t{m_size} * n_size);
  baseline_i8(c.data(), a.data(), b.data(), m_size, k_size, n_size);
  Job job(a, b);
  job.run();
  if (job.c() != c) failed("benchmark: the software NPU has other results than the CPU");

  // The loop walks through B in parts, so that its samples are as short as the other's: what
  // interrupts the process would meet long ones more often.
  constexpr std::size_t parts = 32, columns = n_size / parts;
  std::size_t part = 0;
  const double ratio = median_ratio(
      [&] {
        baseline_i8(c.data(), a.data(), b.data() + part * columns * k_size, m_size, k_size,
                    columns);
        part = (part + 1) % parts;
      },
      [&] { job.run(); }, {.pairs = 101, .sample = std::chrono::microseconds(500)});
  const double speedup = parts * ratio;
  return {{"model_i8_m8", speedup, 20, 30, "a plain -O2 loop (speed-up)", true}};
}

}  // namespace rkchain::tool

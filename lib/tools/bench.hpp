// SPDX-License-Identifier: MIT
//
// What the benchmarks report. Times of a machine mean little elsewhere, so each row is a ratio of
// two times that were taken together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rkchain::tool {

struct BenchRow {
  std::string name;
  double ratio;          ///< the subject's time over the baseline's
  double limit;          ///< more than this is a failure; 0: no limit, the row is information
  double aim;            ///< what is hoped for; 0: nothing in particular
  std::string against;   ///< the baseline
  bool speedup = false;  ///< the baseline's time over the subject's: less than the limit fails
};

/// Packing of weights and features, one thread, against memcpy of the same bytes.
std::vector<BenchRow> bench_pack();
/// Building chains and checking them, against memcpy of their words.
std::vector<BenchRow> bench_build();
/// The software NPU's int8 arithmetic against a plain loop.
std::vector<BenchRow> bench_model();
/// Submitting registered chains, on the software NPU.
std::vector<BenchRow> bench_submit();

/// C[m][n] = sum over k of A[m][k] * B[n][k], as anybody would write it; compiled with -O2.
void baseline_i8(std::int32_t* c, const std::int8_t* a, const std::int8_t* b, std::size_t m,
                 std::size_t k, std::size_t n);

}  // namespace rkchain::tool

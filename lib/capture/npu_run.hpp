// SPDX-License-Identifier: MIT
// Register programs on the software NPU, in memory of which only parts may be known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "capture/pages.hpp"
#include "lib/model/npu.h"

namespace rkchain::capture {

inline constexpr std::uint32_t npu_cores = 3;

/// Programs that one core runs for one submit.
struct NpuTask {
  std::uint32_t regcmd = 0;         ///< IOVA
  std::uint32_t regcfg_amount = 0;  ///< words of the body
  std::uint32_t int_mask = 0;
};
struct NpuWork {
  std::uint32_t core = 0;
  std::vector<NpuTask> tasks;
  bool pingpong = false;
};

/// What the programs find around them.
struct NpuMemory {
  View view;                 ///< has @ref outputs as its first layer
  Pages* outputs = nullptr;  ///< what was written
  /// Does one buffer hold all of these bytes?
  std::function<bool(std::uint64_t at, std::uint64_t len)> held;
};

struct Fetched {
  std::uint32_t iova = 0;
  std::vector<std::uint64_t> words;
};

struct NpuResult {
  std::string trouble;            ///< why it did not end as it should
  std::vector<Fetched> programs;  ///< in their order
  std::uint64_t blocks = 0;       ///< matmuls executed
  std::uint64_t interrupts = 0;
};

/// The three cores.  They keep their registers from one run to the next, as hardware does.
class Npu {
 public:
  /// @param blocks the most that one call of run() may execute
  explicit Npu(std::uint64_t blocks);
  Npu(const Npu&) = delete;
  Npu& operator=(const Npu&) = delete;

  /// @throws TooLarge.
  NpuResult run(const NpuWork& work, NpuMemory& memory);

 private:
  struct Piece {
    explicit Piece(const std::shared_ptr<Budget>& budget, std::uint64_t len)
        : share(budget, len), bytes(len) {}
    Share share;
    std::vector<std::byte> bytes;
  };
  struct Free {
    void operator()(npu_core* core) const noexcept { std::free(core); }
  };
  using Key = std::tuple<npu_access, std::uint64_t, std::uint64_t>;

  static void* map(void* context, npu_access access, u64 iova, u64 len) noexcept;
  void* piece(npu_access access, std::uint64_t iova, std::uint64_t len);
  void* fetch(std::uint64_t iova, std::uint64_t len);
  void write_back();
  std::string run_batch(const NpuWork& work, std::size_t first, std::size_t count);
  [[nodiscard]] std::string judge(npu_core* core, std::uint32_t events) const;

  std::array<std::unique_ptr<npu_core, Free>, npu_cores> cores_;
  npu_ops ops_{};
  std::uint64_t most_blocks_;

  // of the run under way
  NpuMemory* memory_ = nullptr;
  const std::vector<NpuTask>* tasks_ = nullptr;
  NpuResult result_;
  std::map<Key, std::unique_ptr<Piece>> pieces_;  ///< of the block under way
  std::unique_ptr<Piece> program_;
  std::string refused_;  ///< why the first access that failed did
  std::optional<TooLarge> too_large_;
};

}  // namespace rkchain::capture

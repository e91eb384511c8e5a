// SPDX-License-Identifier: MIT
// Captured programs on the software NPU, and its results beside the captured ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/image.hpp"
#include "capture/npu_run.hpp"
#include "capture/pending.hpp"
#include "capture/reader.hpp"
#include "kmod/core/chain.h"

namespace rkchain::capture {

struct ReplayOptions {
  std::uint64_t limit_bytes = 4ULL << 30;  ///< of memory held, over all processes
  std::uint64_t blocks = 1U << 20;         ///< of one core's part of a submit
};

/// A submit that ran on the software NPU, as it was and as it is understood.
struct Replayed {
  const SubmitResult* result = nullptr;
  const ProcessImage* image = nullptr;
  View before;                     ///< the memory that it found
  const Pages* outputs = nullptr;  ///< what it wrote
  std::uint64_t interrupts = 0;
  std::vector<rkc_matmul> blocks;  ///< all of its matmuls, when @ref unknown is empty
  std::string unknown;             ///< the first program that the recogniser refuses, and why
};

/// Is told of things in the file's order.
class ReplayObserver {
 public:
  ReplayObserver() = default;
  ReplayObserver(const ReplayObserver&) = delete;
  ReplayObserver& operator=(const ReplayObserver&) = delete;
  virtual ~ReplayObserver() = default;
  virtual void replayed(const Replayed& submit) = 0;
  /// It could not be replayed.
  virtual void passed_over(const SubmitResult& submit) = 0;
  /// A MEM_SYNC of the process.
  virtual void synced(std::uint32_t pid, bool from_device) = 0;
};

struct ReplayTotals {
  std::uint64_t submits = 0;
  std::uint64_t replayed = 0;
  std::uint64_t with_difference = 0;
  std::uint64_t words = 0;
  std::uint64_t equal = 0;
  std::uint64_t left_out = 0;
  std::uint64_t chain_submits = 0;  ///< of /dev/rkchain: they are not replayed
  std::uint64_t lost = 0;           ///< records that the capture could not write
  std::uint64_t odd = 0;            ///< records that contradict what came before them
};

/// Is shown a capture, record by record.
///
/// Memory is kept for each process: buffers as they were announced, with the bytes that the file
/// has told of.  A submit finds the memory that the file had told of at the last record that
/// belongs to it and precedes the driver's answer.  What the software NPU wrote is compared with
/// what the file says of those bytes until somebody overwrites them.
class Replay {
 public:
  /// @param observer may be nullptr
  explicit Replay(const ReplayOptions& options, ReplayObserver* observer = nullptr);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// @throws TooLarge.
  void visit(const Record& record);
  /// After the last record.
  /// @return by their order in the file
  std::vector<SubmitResult> finish();
  [[nodiscard]] const ReplayTotals& totals() const noexcept { return totals_; }
  /// The deepest that a process of the capture was; nothing when none said so.
  [[nodiscard]] std::optional<Depth> depth() const noexcept { return depth_; }
  /// Contiguous bytes that were written.
  struct Output {
    std::uint64_t at;
    std::uint64_t len;
    std::uint32_t element;  ///< bytes
  };

  [[nodiscard]] Npu& npu() noexcept { return npu_; }
  [[nodiscard]] const std::shared_ptr<Budget>& budget() const noexcept { return budget_; }

 private:
  struct Open;
  struct Process;

  Process& process(std::uint32_t pid);
  void begin(const Record& record);
  void submit(const Record& record);
  void task(const Record& record);
  void submitted(const Record& record);
  void buffer(const Record& record);
  void destroyed(const Record& record);
  void memory(const Record& record);
  void sync(const Record& record);
  void unseen(const Record& record);

  void move_on(const Record& record);
  static std::string work_of(const Open& open, const rknpu_subcore_task& range, NpuWork& work);
  std::string run_parts(Open& open, NpuMemory& memory, Replayed& replayed);
  void run(Process& process, Open& open);
  void add_pending(Process& process, Open& open, const Pages& outputs,
                   const std::vector<Output>& ranges);
  void overwritten(Process& process, const Open& open, std::uint64_t at, std::uint64_t len);
  void give_up(Process& process, Open& open, const std::string& why);
  static void gone(Process& process, std::uint64_t at, std::uint64_t len);
  static void forget_changed(Process& process, std::uint64_t at, std::span<const std::byte> bytes);
  void emit(SubmitResult result);
  void emit_complete(Process& process, std::uint32_t tid);
  void close(Process& process);

  std::shared_ptr<Budget> budget_;
  Npu npu_;
  ReplayObserver* observer_;
  std::map<std::uint32_t, std::unique_ptr<Process>> processes_;
  std::vector<SubmitResult> results_;
  ReplayTotals totals_;
  std::optional<Depth> depth_;
  std::uint64_t clock_ = 0;  ///< records so far
};

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
// Register programs of a capture: which matmuls they are, how they lie, and whether they came
// before.
#pragma once

#include <span>
#include <unordered_set>

#include "capture/report.hpp"
#include "kmod/core/chain.h"

namespace rkchain::capture {

using WordSpan = std::span<const std::uint64_t>;

/// Is that register's value an address, which says nothing of what a program computes?
[[nodiscard]] bool is_address(std::uint32_t target, std::uint32_t reg) noexcept;

/// What each register holds at the end of a program; unit registers only.
[[nodiscard]] std::vector<RegisterValue> final_registers(WordSpan words);

/// One task's words, as rkc_program_detect() takes them.
struct TaskProgram {
  Form form = Form::unknown;
  rkc_program program{};
  std::uint64_t next = 0;  ///< address that its last tail names; 0 for none
};
[[nodiscard]] TaskProgram detect_program(WordSpan words);

/// Layout of a submit, from its tasks in their order.
class LayoutOf {
 public:
  void add(const Task& task, const TaskProgram& program);
  void add_unread() { unread_ = true; }
  /// @return nothing when tasks were not there.
  [[nodiscard]] std::optional<ProgramLayout> layout() const;

 private:
  bool unread_ = false;
  bool linked_ = true;
  ProgramLayout first_{};
  std::uint32_t tasks_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t at_ = 0;
  std::int64_t step_ = 0;
  bool even_ = true;
  bool same_body_ = true;
  bool same_form_ = true;
};

/// Looks at programs once, for all who count them.
class ProgramReader {
 public:
  /// @param scopes whose counts go up
  TaskProgram add(WordSpan words, std::span<Programs* const> scopes);
  /// The same of a chain whose layout is given.
  void add(const rkc_program& program, std::span<Programs* const> scopes);
  [[nodiscard]] bool forgotten() const { return forgotten_; }

 private:
  void blocks(const rkc_program& program, std::span<Programs* const> scopes);
  void foreign(WordSpan words, std::uint32_t reason, std::span<Programs* const> scopes);
  void repeats(WordSpan words, std::span<Programs* const> scopes);
  bool seen(std::unordered_set<std::uint64_t>& known, std::uint64_t hash);

  std::unique_ptr<rkc_recogniser> recogniser_ = std::make_unique<rkc_recogniser>();
  std::unordered_set<std::uint64_t> same_;
  std::unordered_set<std::uint64_t> alike_;
  bool forgotten_ = false;
};

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
#include "capture/report_programs.hpp"

#include <algorithm>

#include "kmod/core/entry.h"
#include "kmod/core/regs.h"

namespace rkchain::capture {
namespace {

constexpr std::uint64_t hash_start = 0xcbf29ce484222325;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  // FNV over words, and a shift so that high bits reach the low ones.
  hash = (hash ^ value) * 0x100000001b3;
  return hash ^ hash >> 29;
}

bool is_unit(std::uint64_t word) {
  const int page = rkc_target_page(rkc_entry_target(word));
  return page >= rkc_target_page(RKC_TARGET_CNA);
}

std::uint64_t without_address(std::uint64_t word) {
  const std::uint32_t target = rkc_entry_target(word), reg = rkc_entry_reg(word);
  const bool link = target == RKC_TARGET_PC && reg == RKC_PC_ADDRESS;
  return link || is_address(target, reg) ? rkc_entry(target, reg, 0) : word;
}

/// Of the last block; what stands behind its body.
std::uint64_t next_of(const rkc_program& program) {
  const std::uint64_t last = std::uint64_t{program.count - 1} * program.stride + program.body;
  for (std::uint64_t i = last; i < program.nwords; i++)
    if (rkc_entry_target(program.words[i]) == RKC_TARGET_PC &&
        rkc_entry_reg(program.words[i]) == RKC_PC_ADDRESS && rkc_entry_value(program.words[i]) != 0)
      return rkc_entry_value(program.words[i]);
  return 0;
}

Form form_of(std::uint32_t mode, std::uint32_t count) {
  if (count == 1) return Form::single;
  switch (mode) {
    case RKC_WAIT:
      return Form::wait;
    case RKC_WAIT41:
      return Form::wait41;
    default:
      return Form::unknown;
  }
}

MatmulShape shape_of(const rkc_matmul& d) { return {d.type, d.layout, d.m, d.k, d.n, d.m_total}; }

}  // namespace

bool is_address(std::uint32_t target, std::uint32_t reg) noexcept {
  static constexpr std::uint32_t addresses[] = {
      0x1070, 0x1110, 0x4020,                          // features, weights, output
      0x5018, 0x5020, 0x502c, 0x5038, 0x6070, 0x701c,  // of the other units
  };
  return rkc_target_page(target) == static_cast<int>(reg & 0xf000) &&
         std::find(std::begin(addresses), std::end(addresses), reg) != std::end(addresses);
}

std::vector<RegisterValue> final_registers(WordSpan words) {
  std::map<std::uint32_t, std::uint32_t> last;
  for (const std::uint64_t word : words)
    if (is_unit(word))
      last[rkc_entry_target(word) << 16 | rkc_entry_reg(word)] = rkc_entry_value(word);
  std::vector<RegisterValue> values;
  values.reserve(last.size());
  for (const auto& [key, value] : last) {
    const auto target = static_cast<std::uint16_t>(key >> 16);
    const auto reg = static_cast<std::uint16_t>(key & 0xffff);
    values.push_back({target, reg, value, is_address(target, reg)});
  }
  return values;
}

TaskProgram detect_program(WordSpan words) {
  TaskProgram result;
  const std::uint32_t mode = rkc_program_detect(words.data(), words.size(), &result.program);
  if (mode == RKC_MODES || rkc_program_shape(&result.program, nullptr) != RKC_OK) {
    result.program.count = 0;
    return result;
  }
  result.form = form_of(mode, result.program.count);
  result.next = next_of(result.program);
  return result;
}

void LayoutOf::add(const Task& task, const TaskProgram& program) {
  const rkc_program& p = program.program;
  const std::uint64_t address = task.task.regcmd_addr;
  if (tasks_ == 0) {
    first_ = {program.form, 0, p.count, p.count > 1 ? p.stride : 0, p.body};
  } else {
    const auto step = static_cast<std::int64_t>(address - at_);
    linked_ = linked_ && next_ == address;
    even_ = even_ && (tasks_ == 1 || step == step_);
    same_body_ = same_body_ && p.body == first_.body;
    same_form_ = same_form_ && program.form == first_.form && p.count == first_.count;
    step_ = step;
  }
  tasks_++;
  next_ = program.next;
  at_ = address;
}

std::optional<ProgramLayout> LayoutOf::layout() const {
  if (unread_ || tasks_ == 0) return std::nullopt;
  ProgramLayout layout = first_;
  layout.tasks = tasks_;
  if (tasks_ == 1) return layout;
  const std::uint32_t stride =
      even_ && step_ > 0 && step_ % 8 == 0 ? static_cast<std::uint32_t>(step_ / 8) : 0;
  const std::uint32_t body = same_body_ ? first_.body : 0;
  if (!same_form_) return ProgramLayout{Form::mixed, tasks_, 0, 0, body};
  if (first_.form != Form::single) return layout;
  return ProgramLayout{linked_ ? Form::link : Form::several, tasks_, tasks_, stride, body};
}

bool ProgramReader::seen(std::unordered_set<std::uint64_t>& known, std::uint64_t hash) {
  if (known.contains(hash)) return true;
  if (known.size() < ReportLimits::programs)
    known.insert(hash);
  else
    forgotten_ = true;
  return false;
}

void ProgramReader::repeats(WordSpan words, std::span<Programs* const> scopes) {
  std::uint64_t same = mixed(hash_start, words.size());
  std::uint64_t alike = same;
  for (const std::uint64_t word : words) {
    same = mixed(same, word);
    alike = mixed(alike, without_address(word));
  }
  const bool was = seen(same_, same);
  const bool was_alike = seen(alike_, alike) || was;
  for (Programs* scope : scopes) {
    scope->tasks++;
    scope->same += was ? 1 : 0;
    scope->alike += was_alike ? 1 : 0;
  }
}

void ProgramReader::foreign(WordSpan words, std::uint32_t reason,
                            std::span<Programs* const> scopes) {
  std::vector<RegisterValue> values = final_registers(words);
  std::uint64_t hash = hash_start;
  for (const RegisterValue& value : values)
    hash = mixed(hash, rkc_entry(value.target, value.reg, value.address ? 0 : value.value));
  const std::uint64_t registers = values.size();
  values.resize(std::min(values.size(), ReportLimits::registers));
  for (Programs* scope : scopes) {
    const auto found = scope->foreign.find(hash);
    if (found != scope->foreign.end())
      found->second.count++;
    else if (scope->foreign.size() < ReportLimits::foreign)
      scope->foreign.emplace(hash, Foreign{1, reason, registers, values});
    else
      scope->other_foreign++;
  }
}

void ProgramReader::blocks(const rkc_program& program, std::span<Programs* const> scopes) {
  for (std::uint32_t i = 0; i < program.count; i++) {
    rkc_matmul matmul{};
    rkc_err error{};
    const bool known = rkc_program_block(recogniser_.get(), &program, i, &matmul, &error) == RKC_OK;
    for (Programs* scope : scopes) {
      scope->blocks++;
      if (known) scope->shapes.add(shape_of(matmul), ReportLimits::shapes);
    }
    const std::uint64_t first = std::uint64_t{i} * program.stride;
    if (!known) foreign({program.words + first, program.body}, error.reason, scopes);
  }
}

TaskProgram ProgramReader::add(WordSpan words, std::span<Programs* const> scopes) {
  repeats(words, scopes);
  TaskProgram found = detect_program(words);
  if (found.program.count == 0) {
    for (Programs* scope : scopes) scope->blocks++;
    foreign(words, 0, scopes);
    return found;
  }
  // A task's tail may name another task's program: that decides nothing about its own.
  found.program.link = true;
  rkc_program alone = found.program;
  std::vector<std::uint64_t> without;
  if (found.next != 0) {
    without.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(alone.nwords));
    const std::uint64_t tail = std::uint64_t{alone.count - 1} * alone.stride + alone.body;
    for (std::uint64_t i = tail; i < alone.nwords; i++)
      if (rkc_entry_target(without[i]) == RKC_TARGET_PC &&
          (rkc_entry_reg(without[i]) == RKC_PC_ADDRESS ||
           rkc_entry_reg(without[i]) == RKC_PC_AMOUNT))
        without[i] = rkc_entry(RKC_TARGET_PC, rkc_entry_reg(without[i]), 0);
    alone.words = without.data();
  }
  blocks(alone, scopes);
  return found;
}

void ProgramReader::add(const rkc_program& program, std::span<Programs* const> scopes) {
  repeats({program.words, program.nwords}, scopes);
  if (rkc_program_shape(&program, nullptr) == RKC_OK) {
    blocks(program, scopes);
    return;
  }
  for (Programs* scope : scopes) scope->blocks++;
  foreign({program.words, program.nwords}, 0, scopes);
}

}  // namespace rkchain::capture

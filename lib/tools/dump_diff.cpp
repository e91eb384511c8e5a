// SPDX-License-Identifier: MIT
// rkchain dump --diff: two programs, register by register.
#include <algorithm>
#include <map>

#include "capture/report_programs.hpp"
#include "kmod/core/entry.h"
#include "kmod/core/regs.h"
#include "tools/dump.hpp"

namespace rkchain::tool {
namespace {

using Program = std::span<const std::uint64_t>;

/// The last write of each register, and where it is.
struct Write {
  std::uint64_t word = 0;
  std::size_t at = 0;
};
using Registers = std::map<std::uint32_t, Write>;

std::uint32_t key_of(std::uint64_t word) {
  return rkc_entry_target(word) << 16 | rkc_entry_reg(word);
}

Registers registers_of(Program program) {
  Registers registers;
  for (std::size_t i = 0; i < program.size(); i++)
    if (rkc_entry_target(program[i]) != RKC_TARGET_NOP &&
        rkc_entry_target(program[i]) != RKC_TARGET_ARM)
      registers[key_of(program[i])] = {program[i], i};
  return registers;
}

/// The blocks of a chain, or the whole.
std::vector<Program> blocks_of(Program words) {
  const capture::TaskProgram found = capture::detect_program(words);
  if (found.program.count < 2) return {words};
  std::vector<Program> blocks;
  for (std::size_t i = 0; i < found.program.count; i++) {
    const std::size_t first = i * found.program.stride;
    const bool last = i + 1 == found.program.count;
    blocks.push_back(words.subspan(first, last ? words.size() - first : found.program.stride));
  }
  return blocks;
}

std::string where(std::uint64_t word) {
  return fmt::format("{:<8} {:04x} {:<22}", rkc_target_name(rkc_entry_target(word)),
                     rkc_entry_reg(word), reg_name(word));
}

std::string value_text(std::uint64_t word) {
  const std::string fields = field_text(word);
  return fmt::format("{:08x}{}{}", rkc_entry_value(word), fields.empty() ? "" : "  ", fields);
}

Json side_json(std::uint64_t word) {
  Json json = {{"value", rkc_entry_value(word)}};
  Json fields = field_json(word);
  if (!fields.empty()) json["fields"] = std::move(fields);
  return json;
}

/// What differs in one block.
struct Difference {
  struct Entry {
    const Write* a = nullptr;
    const Write* b = nullptr;
  };
  std::vector<Entry> entries;
  std::uint64_t out_of_order = 0;  ///< word of A from which on the order differs; 0 for none

  [[nodiscard]] bool same() const { return entries.empty(); }
};

std::vector<std::uint64_t> in_order(const Registers& registers, const Registers& other) {
  std::vector<const Write*> writes;
  for (const auto& [key, write] : registers)
    if (other.contains(key)) writes.push_back(&write);
  std::sort(writes.begin(), writes.end(),
            [](const Write* a, const Write* b) { return a->at < b->at; });
  std::vector<std::uint64_t> words;
  for (const Write* write : writes) words.push_back(write->word);
  return words;
}

/// @param a, b outlive the result
Difference compare(const Registers& a, const Registers& b) {
  Difference difference;
  for (const auto& [key, write] : a) {
    const auto found = b.find(key);
    if (found == b.end())
      difference.entries.push_back({&write, nullptr});
    else if (found->second.word != write.word)
      difference.entries.push_back({&write, &found->second});
  }
  for (const auto& [key, write] : b)
    if (!a.contains(key)) difference.entries.push_back({nullptr, &write});
  const std::vector<std::uint64_t> first = in_order(a, b), second = in_order(b, a);
  for (std::size_t i = 0; i < first.size() && difference.out_of_order == 0; i++)
    if (key_of(first[i]) != key_of(second[i])) difference.out_of_order = first[i];
  return difference;
}

void print(const Difference& difference) {
  for (const auto& [a, b] : difference.entries) {
    if (a != nullptr && b != nullptr)
      put("  {} A {}\n  {:36} B {}\n", where(a->word), value_text(a->word), "",
          value_text(b->word));
    else if (a != nullptr)
      put("  {} only in A: {}\n", where(a->word), value_text(a->word));
    else
      put("  {} only in B: {}\n", where(b->word), value_text(b->word));
  }
  if (difference.out_of_order != 0)
    put("  the order of registers differs, from {:04x} {} of A on\n",
        rkc_entry_reg(difference.out_of_order), reg_name(difference.out_of_order));
}

Json to_json(const Difference& difference) {
  Json json = {{"same", difference.same()}, {"registers", Json::array()}};
  for (const auto& [a, b] : difference.entries) {
    const std::uint64_t word = a != nullptr ? a->word : b->word;
    Json entry = {{"unit", rkc_target_name(rkc_entry_target(word))},
                  {"register", fmt::format("{:#06x}", rkc_entry_reg(word))},
                  {"name", reg_name(word)}};
    if (a != nullptr) entry["A"] = side_json(a->word);
    if (b != nullptr) entry["B"] = side_json(b->word);
    json["registers"].push_back(std::move(entry));
  }
  json["same_order"] = difference.out_of_order == 0;
  return json;
}

}  // namespace

int dump_diff(const Session& session, const DumpOptions& options) {
  const std::vector<std::uint64_t> a = one_program(options.file, options);
  const std::vector<std::uint64_t> b = one_program(options.other, options);
  const std::vector<Program> blocks_a = blocks_of(a), blocks_b = blocks_of(b);
  bool same = blocks_a.size() == blocks_b.size();
  Json json = {{"A", display_name(options.file)},
               {"B", display_name(options.other)},
               {"blocks_A", blocks_a.size()},
               {"blocks_B", blocks_b.size()},
               {"blocks", Json::array()}};
  if (!session.json)
    put("A: {}, {} words\nB: {}, {} words\n", display_name(options.file), a.size(),
        display_name(options.other), b.size());
  if (!session.json && !same) put("A has {} blocks, B has {}\n", blocks_a.size(), blocks_b.size());
  for (std::size_t i = 0; i < std::min(blocks_a.size(), blocks_b.size()); i++) {
    const Registers registers_a = registers_of(blocks_a[i]),
                    registers_b = registers_of(blocks_b[i]);
    const Difference difference = compare(registers_a, registers_b);
    same = same && difference.same();
    if (session.json) {
      json["blocks"].push_back(to_json(difference));
    } else if (!difference.same() || difference.out_of_order != 0) {
      put("block {}: {} registers differ\n", i, difference.entries.size());
      print(difference);
    }
  }
  json["same"] = same;
  if (session.json)
    put_json(json);
  else if (same)
    put_text("every register has the same value at the end\n");
  return same ? exit_ok : exit_failed;
}

}  // namespace rkchain::tool

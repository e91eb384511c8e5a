// SPDX-License-Identifier: MIT
// One word of a register program, for people.
#include "kmod/core/entry.h"
#include "kmod/core/regs.h"
#include "tools/dump.hpp"

namespace rkchain::tool {
namespace {

const rkc_reg* reg_of(std::uint64_t word) {
  return rkc_reg_find(rkc_entry_target(word), rkc_entry_reg(word));
}

template <typename Visit>
void for_each_field(std::uint64_t word, Visit&& visit) {
  const rkc_reg* reg = reg_of(word);
  if (reg == nullptr || reg->fields == nullptr) return;
  for (const rkc_field* field = reg->fields; field->name != nullptr; field++) {
    const std::int64_t span = std::int64_t{1} << field->width;
    std::int64_t value = rkc_entry_value(word) >> field->lo & (span - 1);
    if (std::string_view(field->name).ends_with("_signed") && value >= span / 2) value -= span;
    visit(field->name, value);
  }
}

}  // namespace

std::string_view reg_name(std::uint64_t word) {
  const rkc_reg* reg = reg_of(word);
  if (reg != nullptr) return reg->name;
  switch (rkc_entry_target(word)) {
    case RKC_TARGET_NOP:
      return "-";
    case RKC_TARGET_ARM:
      return "(arm)";
    default:
      return "?";
  }
}

std::string field_text(std::uint64_t word) {
  std::string fields;
  for_each_field(word, [&](const char* field, std::int64_t value) {
    if (value != 0) fields += fmt::format("{}{}={}", fields.empty() ? "" : " ", field, value);
  });
  return fields;
}

Json field_json(std::uint64_t word) {
  Json fields = Json::object();
  for_each_field(word, [&](const char* field, std::int64_t value) { fields[field] = value; });
  return fields;
}

void print_word(std::uint64_t word, std::size_t at, std::size_t offset) {
  const std::string fields = field_text(word);
  put("{:>5} {:>8x}  {:016x}  {:<8} {:04x} {:<22} {:08x}{}\n", at, offset, word,
      rkc_target_name(rkc_entry_target(word)), rkc_entry_reg(word), reg_name(word),
      rkc_entry_value(word), fields.empty() ? "" : "  " + fields);
}

Json word_json(std::uint64_t word, std::size_t at, std::size_t offset) {
  Json json = {{"word", at},
               {"offset", offset},
               {"entry", fmt::format("{:016x}", word)},
               {"target", fmt::format("{:#06x}", rkc_entry_target(word))},
               {"unit", rkc_target_name(rkc_entry_target(word))},
               {"register", fmt::format("{:#06x}", rkc_entry_reg(word))},
               {"name", reg_name(word)},
               {"value", rkc_entry_value(word)}};
  Json fields = field_json(word);
  if (!fields.empty()) json["fields"] = fields;
  return json;
}

}  // namespace rkchain::tool

// SPDX-License-Identifier: MIT
#include "capture/fields.hpp"
#include "capture/print.hpp"

namespace rkchain::capture {
namespace {

/// Bytes of the UTF-8 character at the start of @p text; 0 when there is none.
std::size_t utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t size = first < 0x80   ? 1
                           : first < 0xc2 ? 0
                           : first < 0xe0 ? 2
                           : first < 0xf0 ? 3
                           : first < 0xf5 ? 4
                                          : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; i++)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, and what is above U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f)) return 0;
  if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) return 0;
  return size;
}

void quoted(Print& print, std::string_view text) noexcept {
  print.put('"');
  while (!text.empty()) {
    const std::size_t size = utf8(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    if (size == 0)
      print.text("\\ufffd");
    else if (c < 0x20 || c == 0x7f)
      print.text("\\u").hex(c, 4);
    else if (c == '"' || c == '\\')
      print.put('\\').put(text[0]);
    else
      print.text(text.substr(0, size));
    text.remove_prefix(size == 0 ? 1 : size);
  }
  print.put('"');
}

void base64(Print& print, const unsigned char* data, std::size_t bytes) noexcept {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < bytes; i += 3) {
    const std::size_t have = bytes - i < 3 ? bytes - i : 3;
    std::uint32_t value = std::uint32_t{data[i]} << 16;
    if (have > 1) value |= std::uint32_t{data[i + 1]} << 8;
    if (have > 2) value |= data[i + 2];
    for (std::size_t digit = 0; digit < 4; digit++)
      print.put(digit <= have ? digits[value >> (18 - 6 * digit) & 63] : '=');
  }
}

void subcore_list(Print& print, const void* from, const Field& field) noexcept {
  rknpu_subcore_task tasks[RKNPU_MAX_CORES];
  std::memcpy(tasks, static_cast<const char*>(from) + field.offset, sizeof(tasks));
  const char* before = "[";
  for (const rknpu_subcore_task& task : tasks) {
    print.text(before).put('[').number(std::uint64_t{task.task_start}).put(',');
    print.number(std::uint64_t{task.task_number}).put(']');
    before = ",";
  }
  print.put(']');
}

void members(Print& print, std::span<const Field> fields, const void* from, bool first) noexcept {
  for (const Field& field : fields) {
    print.text(first ? "\"" : ",\"").text(field.name).text("\":");
    first = false;
    const std::uint64_t value = load(from, field);
    if (field.shape == Shape::subcores)
      subcore_list(print, from, field);
    else if (field.shape == Shape::s32 || field.shape == Shape::s64)
      print.number(static_cast<std::int64_t>(value));
    else
      print.number(value);
  }
}

void words(Print& print, const char* rest, std::size_t bytes) noexcept {
  print.text(",\"words\":[");
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, rest + i, 8);
    print.text(i == 0 ? "\"" : ",\"").hex(word, 16).put('"');
  }
  print.put(']');
}

void strings(Print& print, std::string_view text) noexcept {
  print.text(",\"command\":[");
  for (bool first = true; !text.empty(); first = false) {
    const std::string_view word = text.substr(0, text.find('\0'));
    if (!first) print.put(',');
    quoted(print, word);
    text.remove_prefix(word.size() < text.size() ? word.size() + 1 : word.size());
  }
  print.put(']');
}

void chains(Print& print, const char* rest, std::size_t bytes) noexcept {
  print.text(",\"chains\":[");
  for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
    std::uint32_t id = 0;
    std::memcpy(&id, rest + i, 4);
    if (i != 0) print.put(',');
    print.number(std::uint64_t{id});
  }
  print.put(']');
}

void what_follows(Print& print, Kind kind, const char* rest, std::size_t bytes) noexcept {
  switch (kind) {
    case Kind::process:
      return strings(print, {rest, bytes});
    case Kind::node:
      print.text(",\"path\":");
      return quoted(print, {rest, bytes});
    case Kind::unseen:
      print.text(",\"text\":");
      return quoted(print, {rest, bytes});
    case Kind::task:
    case Kind::chain:
      return words(print, rest, bytes);
    case Kind::chain_submit:
      return chains(print, rest, bytes);
    case Kind::memory:
      print.text(",\"data\":\"");
      base64(print, reinterpret_cast<const unsigned char*>(rest), bytes);
      print.put('"');
      return;
    default:
      return;
  }
}

}  // namespace

void encode_json(const RecordHeader& header, const void* fixed, const void* rest,
                 std::size_t rest_bytes, Output& to) noexcept {
  const Kind kind = static_cast<Kind>(header.kind);
  const Fields all = fields(kind);
  Print print(to);
  print.text("{\"kind\":\"").text(name(kind));
  print.text("\",\"pid\":").number(std::uint64_t{header.pid});
  print.text(",\"tid\":").number(std::uint64_t{header.tid});
  print.text(",\"time_ns\":").number(std::uint64_t{header.time_ns});
  members(print, all.own, fixed, false);
  if (all.inner_name != nullptr) {
    print.text(",\"").text(all.inner_name).text("\":{");
    members(print, all.inner, static_cast<const char*>(fixed) + all.inner_offset, true);
    print.put('}');
  }
  what_follows(print, kind, static_cast<const char*>(rest), rest_bytes);
  print.text("}\n");
}

}  // namespace rkchain::capture

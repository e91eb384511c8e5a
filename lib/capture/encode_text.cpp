// SPDX-License-Identifier: MIT
#include "capture/fields.hpp"
#include "capture/print.hpp"

namespace rkchain::capture {
namespace {

Print& decimal(Print& print, const char* key, std::uint64_t value) noexcept {
  return print.put(' ').text(key).put('=').number(value);
}

Print& hexadecimal(Print& print, const char* key, std::uint64_t value) noexcept {
  return print.put(' ').text(key).text("=0x").hex(value);
}

void trailer(Print& print, const RecordHeader& header) noexcept {
  decimal(print, "pid", header.pid);
  decimal(print, "tid", header.tid);
  decimal(print, "time_ns", header.time_ns);
  print.put('\n');
}

void submit(Print& print, const Submit& record) noexcept {
  const rknpu_submit& argument = record.argument;
  print.text("=== SUBMIT");
  hexadecimal(print, "core", argument.core_mask);
  decimal(print, "task_number", argument.task_number);
  decimal(print, "task_start", argument.task_start);
  hexadecimal(print, "flags", argument.flags);
  decimal(print, "timeout", argument.timeout);
  print.text(" subcore=");
  bool first = true;
  for (const rknpu_subcore_task& part : argument.subcore_task) {
    if (!first) print.put(',');
    first = false;
    print.number(std::uint64_t{part.task_start}).put('+').number(std::uint64_t{part.task_number});
  }
  hexadecimal(print, "task_obj", argument.task_obj_addr);
  decimal(print, "id", record.id);
  print.text(" fd=").number(std::int64_t{record.fd});
}

void submitted(Print& print, const Submitted& record) noexcept {
  print.text("=== DONE");
  decimal(print, "id", record.id);
  print.text(" result=").number(std::int64_t{record.result});
  decimal(print, "task_counter", record.task_counter);
  print.text(" hw_elapse_ns=").number(std::int64_t{record.hw_elapse_ns});
  decimal(print, "took_ns", record.took_ns);
}

void task(Print& print, const Task& record, std::size_t words) noexcept {
  print.text("--- TASK");
  decimal(print, "submit", record.submit);
  decimal(print, "index", record.index);
  if (record.core == any_core)
    print.text(" core=any");
  else
    decimal(print, "core", record.core);
  decimal(print, "amount", record.task.regcfg_amount);
  hexadecimal(print, "int_mask", record.task.int_mask);
  hexadecimal(print, "regcmd", record.task.regcmd_addr);
  decimal(print, "words", words);
}

void word_lines(Print& print, const char* rest, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, rest + i, 8);
    print.text("    ").hex(word, 16).put('\n');
  }
}

void upper(Print& print, std::string_view text) noexcept {
  for (const char c : text) print.put(c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
}

void members(Print& print, std::span<const Field> fields, const void* from) noexcept {
  for (const Field& field : fields) {
    const std::uint64_t value = load(from, field);
    print.put(' ').text(field.name).put('=');
    if (field.shape == Shape::hex32 || field.shape == Shape::hex64)
      print.text("0x").hex(value);
    else if (field.shape == Shape::s32 || field.shape == Shape::s64)
      print.number(static_cast<std::int64_t>(value));
    else
      print.number(value);
  }
}

/// A line must stay one.
void sentence(Print& print, const char* key, const char* rest, std::size_t bytes) noexcept {
  print.put(' ').text(key).text("=\"");
  for (std::size_t i = 0; i < bytes; i++) {
    const auto c = static_cast<unsigned char>(rest[i]);
    if (c < 0x20 && !(c == 0 && i + 1 < bytes))
      print.text(c == 0 ? "" : "?");
    else if (c == 0)
      print.put(' ');
    else
      print.put(c == '"' ? '\'' : rest[i]);
  }
  print.put('"');
}

}  // namespace

void encode_text(const RecordHeader& header, const void* fixed, const void* rest,
                 std::size_t rest_bytes, Output& to) noexcept {
  const Kind kind = static_cast<Kind>(header.kind);
  const auto* bytes = static_cast<const char*>(rest);
  if (kind == Kind::memory) return;
  Print print(to);
  if (kind == Kind::submit) {
    submit(print, *static_cast<const Submit*>(fixed));
  } else if (kind == Kind::submitted) {
    submitted(print, *static_cast<const Submitted*>(fixed));
  } else if (kind == Kind::task) {
    task(print, *static_cast<const Task*>(fixed), rest_bytes / 8);
  } else {
    const Fields all = fields(kind);
    print.text("--- ");
    upper(print, name(kind));
    members(print, all.own, fixed);
    if (all.inner_name != nullptr)
      members(print, all.inner, static_cast<const char*>(fixed) + all.inner_offset);
    if (kind == Kind::process) sentence(print, "command", bytes, rest_bytes);
    if (kind == Kind::node) sentence(print, "path", bytes, rest_bytes);
    if (kind == Kind::unseen) sentence(print, "text", bytes, rest_bytes);
    if (kind == Kind::chain) decimal(print, "words", rest_bytes / 8);
  }
  trailer(print, header);
  if (kind == Kind::task) word_lines(print, bytes, rest_bytes);
}

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "capture/reader_feed.hpp"

namespace rkchain::capture {
namespace {

using Json = nlohmann::json;

/// One line, for messages.
struct Line {
  std::string_view file;
  std::uint64_t number = 0;

  template <typename... T>
  [[noreturn]] void bad(fmt::format_string<T...> format, T&&... args) const {
    bad_capture(file, fmt::format("line {}", number), format, std::forward<T>(args)...);
  }
};

constexpr Field any_u32{"", 0, Shape::u32};
constexpr Field any_u64{"", 0, Shape::u64};

std::uint64_t number_of(const Json& value, const Field& field, const Line& line,
                        std::string_view key) {
  bool fits = false;
  if (value.is_number_unsigned()) {
    fits = value.get<std::uint64_t>() <= most_of(field);
  } else if (value.is_number_integer()) {
    // Negative, as the others count as unsigned.
    fits = has_sign(field) &&
           0 - static_cast<std::uint64_t>(value.get<std::int64_t>()) <= most_of(field) + 1;
  } else {
    line.bad("\"{}\" is no whole number", key);
  }
  if (!fits) line.bad("\"{}\": {} is out of range", key, value.dump());
  return value.is_number_unsigned() ? value.get<std::uint64_t>()
                                    : static_cast<std::uint64_t>(value.get<std::int64_t>());
}

const Json& member(const Json& object, std::string_view key, const Line& line) {
  const auto found = object.find(key);
  if (found == object.end()) line.bad("member \"{}\" is missing", key);
  return *found;
}

const std::string& string_of(const Json& value, const Line& line, std::string_view key) {
  if (!value.is_string()) line.bad("\"{}\" is no string", key);
  return value.get_ref<const std::string&>();
}

void set_subcores(Draft& draft, std::size_t at, const Json& pairs, const Line& line) {
  if (!pairs.is_array() || pairs.size() != RKNPU_MAX_CORES)
    line.bad("\"subcore_task\" is no array of {} pairs", RKNPU_MAX_CORES);
  for (const Json& pair : pairs) {
    if (!pair.is_array() || pair.size() != 2) line.bad("\"subcore_task\" holds what is no pair");
    for (const Json& value : pair) {
      draft.put(at, static_cast<std::uint32_t>(number_of(value, any_u32, line, "subcore_task")));
      at += sizeof(std::uint32_t);
    }
  }
}

void set_members(Draft& draft, std::span<const Field> fields, std::size_t base, const Json& object,
                 const Line& line) {
  for (const Field& field : fields) {
    const Json& value = member(object, field.name, line);
    if (field.shape == Shape::subcores)
      set_subcores(draft, base + field.offset, value, line);
    else
      draft.set(field, base, number_of(value, field, line, field.name));
  }
}

/// @return false for what is no base64.
bool append_base64(Draft& draft, std::string_view text) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  static const auto values = [] {
    std::array<std::int8_t, 256> table{};
    table.fill(-1);
    for (std::size_t i = 0; i < digits.size(); i++)
      table[static_cast<unsigned char>(digits[i])] = static_cast<std::int8_t>(i);
    return table;
  }();
  if (text.size() % 4 != 0) return false;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t bits = 0;
    for (std::size_t j = i; j < i + 4; j++) {
      const bool pad = j >= text.size() - padding;
      const int value = pad ? 0 : values[static_cast<unsigned char>(text[j])];
      if (value < 0) return false;
      bits = bits << 6 | static_cast<std::uint32_t>(value);
    }
    for (const unsigned shift : {16U, 8U, 0U}) bytes += static_cast<char>(bits >> shift & 0xff);
  }
  bytes.resize(bytes.size() - padding);
  draft.append(bytes.data(), bytes.size());
  return true;
}

void append_word(Draft& draft, const Json& entry, const Line& line) {
  const std::string& text = string_of(entry, line, "words");
  std::uint64_t word = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    line.bad("\"words\": {} is no word of at most 16 hex digits", shown(text));
  draft.append(&word, sizeof(word));
}

void append_each(Draft& draft, const Json& array, const Line& line) {
  const std::string_view key = draft.schema().rest_name;
  if (!array.is_array()) line.bad("\"{}\" is no array", key);
  for (const Json& entry : array) {
    if (draft.schema().rest == Rest::words) {
      append_word(draft, entry, line);
    } else if (draft.schema().rest == Rest::ids) {
      const auto id = static_cast<std::uint32_t>(number_of(entry, any_u32, line, key));
      draft.append(&id, sizeof(id));
    } else {
      const std::string& text = string_of(entry, line, key);
      draft.append(text.c_str(), text.size() + 1);
    }
  }
}

void append_rest(Draft& draft, const Json& object, const Line& line) {
  const Schema& schema = draft.schema();
  if (schema.rest == Rest::none) return;
  const Json& rest = member(object, schema.rest_name, line);
  if (schema.rest == Rest::text) {
    const std::string& text = string_of(rest, line, schema.rest_name);
    draft.append(text.data(), text.size());
  } else if (schema.rest == Rest::bytes) {
    if (!append_base64(draft, string_of(rest, line, schema.rest_name)))
      line.bad("\"{}\" is no base64", schema.rest_name);
  } else {
    append_each(draft, rest, line);
  }
  if (draft.payload().size() > max_payload)
    line.bad("a record of {} bytes, the limit is {}", draft.payload().size(), max_payload);
  if (schema.rest == Rest::words) draft.count();
  const std::string why = misfit(schema, draft.payload());
  if (!why.empty()) line.bad("{}", why);
}

void read_file_line(Reading& reading, const Json& object, const Line& line) {
  if (string_of(member(object, "kind", line), line, "kind") != "file" ||
      string_of(member(object, "format", line), line, "format") != "rkchain-capture")
    line.bad("no capture: the first line is not that of the file");
  const std::uint64_t version =
      number_of(member(object, "version", line), any_u64, line, "version");
  if (version != file_version)
    line.bad("version {} of the format; this program reads version {}", version, file_version);
  reading.result.realtime_ns =
      number_of(member(object, "realtime_ns", line), any_u64, line, "realtime_ns");
  reading.result.monotonic_ns =
      number_of(member(object, "monotonic_ns", line), any_u64, line, "monotonic_ns");
}

RecordHeader header_of(const Json& object, const Line& line) {
  RecordHeader header{};
  const auto number = [&](std::string_view key, const Field& field) {
    return number_of(member(object, key, line), field, line, key);
  };
  header.pid = static_cast<std::uint32_t>(number("pid", any_u32));
  header.tid = static_cast<std::uint32_t>(number("tid", any_u32));
  header.time_ns = number("time_ns", any_u64);
  return header;
}

void read_record(Reading& reading, const Json& object, const Line& line) {
  const Schema* schema =
      schema_of(std::string_view(string_of(member(object, "kind", line), line, "kind")));
  if (schema == nullptr) {
    reading.result.unknown++;
    return;
  }
  Draft draft(*schema);
  const RecordHeader header = header_of(object, line);
  const Fields all = fields(schema->kind);
  set_members(draft, all.own, 0, object, line);
  if (all.inner_name != nullptr) {
    const Json& inner = member(object, all.inner_name, line);
    if (!inner.is_object()) line.bad("\"{}\" is no object", all.inner_name);
    set_members(draft, all.inner, all.inner_offset, inner, line);
  }
  append_rest(draft, object, line);
  reading.visit(draft.record(header, line.number));
  reading.result.records++;
}

Json parse(std::string_view text, const Line& line) {
  try {
    Json object = Json::parse(text);
    if (!object.is_object()) line.bad("no JSON object");
    return object;
  } catch (const Json::parse_error& error) {
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.find("syntax error"), what.size()));
    line.bad("column {}: {}", error.byte, what.empty() ? error.what() : what);
  }
}

}  // namespace

void read_json(Reading& reading) {
  Line line{reading.name, 0};
  bool begun = false;
  while (const auto text = reading.feed.line()) {
    line.number++;
    if (text->size() > max_line) line.bad("longer than the limit of {} bytes", max_line);
    if (text->find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json object = parse(*text, line);
    if (begun)
      read_record(reading, object, line);
    else
      read_file_line(reading, object, line);
    begun = true;
  }
}

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
#include "tools/words.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace rkchain::tool {
namespace {

constexpr std::string_view blanks = " \t\r,";

bool is_hex(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

/// A token of untrusted text, short enough for a message.
std::string quoted(std::string_view token) {
  constexpr std::size_t most = 24;
  std::string text;
  for (const char c : token.substr(0, most)) text += c >= ' ' && c <= '~' ? c : '?';
  return "'" + text + (token.size() > most ? "...'" : "'");
}

/// 0x... without the prefix, and without the suffix of a C constant.
std::string_view digits_of(std::string_view token) {
  if (token.starts_with("0x") || token.starts_with("0X")) token.remove_prefix(2);
  while (!token.empty() && std::string_view("uUlL").find(token.back()) != std::string_view::npos)
    token.remove_suffix(1);
  return token;
}

/// Takes the next token off @p line; empty at its end.
std::string_view next_token(std::string_view& line) {
  const std::size_t begin = line.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return line = {};
  const std::size_t end = std::min(line.find_first_of(blanks, begin), line.size());
  const std::string_view token = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return token;
}

std::string_view without_comment(std::string_view line) {
  return line.substr(0, std::min({line.find('#'), line.find("//"), line.find(';'), line.size()}));
}

/// Without "[12]" or "0x60:" at the start, which say where a word is.
std::string_view without_position(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin);
  if (line.front() == '[' && line.find(']') != std::string_view::npos)
    line.remove_prefix(line.find(']') + 1);
  std::string_view rest = line;
  const std::string_view first = next_token(rest);
  return first.ends_with(':') ? rest : line;
}

/// Calls @p visit with each line and its number, from 1.
template <typename Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end), ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::vector<std::uint64_t> words_of_bytes(std::string_view bytes, std::string_view file) {
  if (bytes.size() % 8 != 0)
    bad_input("{}: {} bytes are no whole number of 8-byte words, the one at offset {} is cut off",
              file, bytes.size(), bytes.size() / 8 * 8);
  std::vector<std::uint64_t> words(bytes.size() / 8);
  for (std::size_t i = 0; i < bytes.size(); i++)
    words[i / 8] |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * (i % 8);
  return words;
}

std::vector<std::uint64_t> parse_hex64(std::string_view text, std::string_view file) {
  std::vector<std::uint64_t> words;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    line = without_position(without_comment(line));
    for (auto token = next_token(line); !token.empty(); token = next_token(line)) {
      std::uint64_t word = 0;
      if (!parse_hex(token, 16, word))
        bad_input("{}:{}: {} is no hex number of at most 16 digits", file, number, quoted(token));
      words.push_back(word);
    }
  });
  return words;
}

std::vector<std::uint64_t> parse_hex32(std::string_view text, std::string_view file) {
  std::vector<std::uint64_t> words;
  std::uint64_t low = 0;
  bool half_way = false;
  std::size_t last = 0;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    line = without_position(without_comment(line));
    for (auto token = next_token(line); !token.empty(); token = next_token(line)) {
      std::uint64_t half = 0;
      if (!parse_hex(token, 8, half))
        bad_input("{}:{}: {} is no hex number of at most 8 digits", file, number, quoted(token));
      last = number;
      if (half_way)
        words.push_back(half << 32 | low);
      else
        low = half;
      half_way = !half_way;
    }
  });
  if (half_way)
    bad_input("{}:{}: an odd number of 32-bit words ({}), the last entry has only one half", file,
              last, 2 * words.size() + 1);
  return words;
}

/// The bytes of one line of xxd or hexdump -C, its offset taken off.
std::string_view byte_columns(std::string_view line, bool colon) {
  const std::size_t begin = line.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin);
  // What follows the bytes is the same as text, and may look like anything.
  return line.substr(0, std::min(colon ? line.find("  ") : line.find('|'), line.size()));
}

std::vector<std::uint64_t> parse_xxd(std::string_view text, std::string_view file) {
  std::string bytes;
  std::optional<std::uint64_t> base;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    std::string_view rest = line;
    const std::string_view first = next_token(rest);
    if (first.empty()) return;
    if (first == "*")
      bad_input("{}:{}: '*' stands for lines left out; use hexdump -v or xxd without -a", file,
                number);
    const bool colon = first.ends_with(':');
    // "xxd -p" has no offsets; the last line of hexdump has nothing else.
    const bool plain = !colon && first.size() != 8 && first.size() != 7;
    if (!plain) {
      std::uint64_t offset = 0;
      if (!parse_hex(colon ? first.substr(0, first.size() - 1) : first, 16, offset))
        bad_input("{}:{}: {} is no offset in hex", file, number, quoted(first));
      if (!base) base = offset - bytes.size();
      if (offset - *base != bytes.size())
        bad_input("{}:{}: offset {:#x} where {:#x} comes next: lines are missing", file, number,
                  offset, *base + bytes.size());
      rest = byte_columns(rest, colon);
    } else {
      rest = line;
    }
    for (auto token = next_token(rest); !token.empty(); token = next_token(rest)) {
      if (!is_hex(token) || token.size() % 2 != 0)
        bad_input("{}:{}: {} is no even number of hex digits", file, number, quoted(token));
      for (std::size_t i = 0; i < token.size(); i += 2) {
        std::uint64_t byte = 0;
        (void)parse_hex(token.substr(i, 2), 2, byte);
        bytes += static_cast<char>(byte);
      }
    }
  });
  return words_of_bytes(bytes, file);
}

std::vector<std::uint64_t> parse_json_words(std::string_view text, std::string_view file) {
  const Json json = parse_json(text, file);
  if (json.is_array()) return regcmd_words(json, file, "the array");
  if (!json.is_object() || !json.contains("regcmd"))
    bad_input("{}: key \"regcmd\" is missing", file);
  return regcmd_words(json["regcmd"], file, "regcmd");
}

WordFormat detect_line(std::string_view line) {
  std::string_view rest = line;
  const std::string_view first = next_token(rest);
  const std::string_view second = next_token(rest);
  if (first.ends_with(':')) {
    if (is_hex(second) && (second.size() == 2 || second.size() == 4)) return WordFormat::xxd;
  } else if ((first.size() == 7 || first.size() == 8) && second.size() == 2 && is_hex(second)) {
    return WordFormat::xxd;
  }
  line = without_position(line);
  const std::string_view digits = digits_of(next_token(line));
  if (digits.size() > 16) return WordFormat::xxd;
  return digits.size() > 8 ? WordFormat::hex64 : WordFormat::hex32;
}

WordFormat detect(std::string_view bytes) {
  const bool text = std::all_of(bytes.begin(), bytes.end(), [](char c) {
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t' ||
           static_cast<unsigned char>(c) >= 0xc2;
  });
  const std::size_t begin = bytes.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && bytes[begin] == '{') return WordFormat::json;
  if (!text) return WordFormat::raw;
  // "[12] 0x..." starts with a bracket as well.
  if (begin != std::string_view::npos && bytes[begin] == '[') {
    const std::size_t inner = bytes.find_first_not_of(" \t\r\n", begin + 1);
    if (inner == std::string_view::npos || bytes[inner] == '"' || bytes[inner] == ']')
      return WordFormat::json;
  }
  std::optional<WordFormat> format;
  for_each_line(bytes, [&](std::string_view line, std::size_t) {
    line = without_comment(line);
    if (!format && line.find_first_not_of(blanks) != std::string_view::npos)
      format = detect_line(line);
  });
  return format.value_or(WordFormat::hex64);
}

}  // namespace

std::string_view name(WordFormat format) noexcept {
  static constexpr std::array<std::string_view, 6> names{"auto",  "raw", "hex64",
                                                         "hex32", "xxd", "json"};
  return names[static_cast<std::size_t>(format)];
}

bool parse_hex(std::string_view text, std::size_t most, std::uint64_t& value) {
  const std::string_view digits = digits_of(text);
  if (digits.size() > most || !is_hex(digits)) return false;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return true;
}

Json parse_json(std::string_view text, std::string_view file) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.find("parse error"), what.size()));
    bad_input("{}: {}", file, what);
  }
}

std::vector<std::uint64_t> regcmd_words(const Json& array, std::string_view file,
                                        std::string_view key) {
  if (!array.is_array()) bad_input("{}: {} is no array of hex strings", file, key);
  std::vector<std::uint64_t> words;
  words.reserve(array.size());
  for (const Json& entry : array) {
    std::uint64_t word = 0;
    if (!entry.is_string() || !parse_hex(entry.get_ref<const std::string&>(), 16, word))
      bad_input("{}: {}[{}] is no string of at most 16 hex digits", file, key, words.size());
    words.push_back(word);
  }
  return words;
}

Words parse_words(std::string_view bytes, std::string_view file, WordFormat format) {
  Words result;
  result.format = format == WordFormat::automatic ? detect(bytes) : format;
  switch (result.format) {
    case WordFormat::hex64:
      result.words = parse_hex64(bytes, file);
      break;
    case WordFormat::hex32:
      result.words = parse_hex32(bytes, file);
      break;
    case WordFormat::xxd:
      result.words = parse_xxd(bytes, file);
      break;
    case WordFormat::json:
      result.words = parse_json_words(bytes, file);
      break;
    default:
      result.words = words_of_bytes(bytes, file);
      break;
  }
  if (result.words.empty()) bad_input("{}: no words in it", file);
  return result;
}

}  // namespace rkchain::tool

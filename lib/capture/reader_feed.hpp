// SPDX-License-Identifier: MIT
// What the readers of the three forms share.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "capture/fields.hpp"
#include "capture/reader.hpp"
#include "capture/schema.hpp"

namespace rkchain::capture {

/// No line may be longer: a record of max_payload bytes takes about 10 MiB in JSON.
inline constexpr std::size_t max_line = std::size_t{16} << 20;

/// Bytes one behind the other.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  /// @return how many; 0 at the end.
  virtual std::size_t read(std::span<std::byte> to) = 0;
};

/// A window that moves over a source.
class Feed {
 public:
  explicit Feed(Source& source) : source_(source) {}

  /// The next @p bytes, fewer only at the end; valid until the next call.
  [[nodiscard]] std::span<const std::byte> peek(std::size_t bytes) {
    while (end_ - begin_ < bytes && more(bytes)) {
    }
    return {buffer_.data() + begin_, std::min(bytes, end_ - begin_)};
  }
  void skip(std::size_t bytes) {
    begin_ += bytes;
    offset_ += bytes;
  }
  /// Of the next byte.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

  /// The next line without its end; nothing behind the last.  Longer than max_line: its first
  /// max_line + 1 bytes.
  [[nodiscard]] std::optional<std::string_view> line();

 private:
  /// @param room that is needed from begin_ on
  bool more(std::size_t room);

  Source& source_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
};

/// What all of them are given.
struct Reading {
  Feed& feed;
  std::string_view name;
  const std::function<void(const Record&)>& visit;
  ReadResult result{};
};

void read_binary(Reading& reading);
void read_json(Reading& reading);
void read_text(Reading& reading);

/// @param where "offset 0x20", "line 7"
template <typename... T>
[[noreturn]] void bad_capture(std::string_view file, const std::string& where,
                              fmt::format_string<T...> format, T&&... args) {
  throw BadCapture(
      fmt::format("{}: {}: {}", file, where, fmt::format(format, std::forward<T>(args)...)));
}

/// A token of an untrusted file, short enough for a message.
[[nodiscard]] std::string shown(std::string_view token);

[[nodiscard]] inline bool narrow(const Field& field) {
  return field.shape == Shape::u32 || field.shape == Shape::s32 || field.shape == Shape::hex32;
}
[[nodiscard]] inline bool has_sign(const Field& field) {
  return field.shape == Shape::s32 || field.shape == Shape::s64;
}
/// The largest value that the member can have; negative ones go one further.
[[nodiscard]] inline std::uint64_t most_of(const Field& field) {
  return ~std::uint64_t{0} >> ((narrow(field) ? 32U : 0U) + (has_sign(field) ? 1U : 0U));
}

/// A record being put together from names and numbers.
class Draft {
 public:
  explicit Draft(const Schema& schema) : schema_(schema), payload_(schema.size) {}

  [[nodiscard]] const Schema& schema() const { return schema_; }
  /// Cut to the member's width.
  void set(const Field& field, std::size_t base, std::uint64_t bits) {
    std::memcpy(payload_.data() + base + field.offset, &bits, narrow(field) ? 4 : 8);
  }
  template <typename T>
  void put(std::size_t offset, T value) {
    std::memcpy(payload_.data() + offset, &value, sizeof(value));
  }
  template <typename T>
  [[nodiscard]] T at(std::size_t offset) const {
    T value{};
    std::memcpy(&value, payload_.data() + offset, sizeof(value));
    return value;
  }
  void append(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    payload_.insert(payload_.end(), from, from + bytes);
  }
  [[nodiscard]] std::span<const std::byte> payload() const { return payload_; }
  [[nodiscard]] std::size_t rest_bytes() const { return payload_.size() - schema_.size; }
  /// Sets the number that says how much follows.
  void count() {
    const std::size_t piece = piece_bytes(schema_.rest);
    if (piece != 0) put(schema_.count_offset, static_cast<std::uint32_t>(rest_bytes() / piece));
  }
  /// As it would stand in a binary file; magic and size are filled in.
  [[nodiscard]] Record record(RecordHeader header, std::uint64_t where) const {
    header.magic = record_magic;
    header.kind = static_cast<std::uint16_t>(schema_.kind);
    header.bytes = static_cast<std::uint32_t>(payload_.size());
    return {header, payload_, where};
  }

 private:
  const Schema& schema_;
  std::vector<std::byte> payload_;
};

}  // namespace rkchain::capture

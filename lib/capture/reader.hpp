// SPDX-License-Identifier: MIT
// Captures read back, whichever form they have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "capture/record.hpp"

namespace rkchain::capture {

/// The message names the file, the offset (binary) or line, and what is wrong there.
class BadCapture : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One record, valid while it is being visited.
struct Record {
  RecordHeader header{};
  std::span<const std::byte> payload;
  std::uint64_t where = 0;  ///< offset in a binary file, else line from 1

  [[nodiscard]] Kind kind() const noexcept { return static_cast<Kind>(header.kind); }
  /// Its struct.  read_capture() has made sure that it is there, and that what it counts is.
  template <typename T>
  [[nodiscard]] T get() const noexcept {
    T value{};
    std::memcpy(&value, payload.data(), sizeof(T));
    return value;
  }
  /// What follows the struct.
  template <typename T>
  [[nodiscard]] std::span<const std::byte> rest() const noexcept {
    return payload.subspan(sizeof(T));
  }
};

struct ReadResult {
  Format format = Format::binary;
  std::uint64_t records = 0;
  std::uint64_t unknown = 0;      ///< of kinds that this version does not know, passed over
  std::uint64_t realtime_ns = 0;  ///< of the file's header; 0 in text
  std::uint64_t monotonic_ns = 0;
  std::string damage;  ///< why reading ended early, when that was allowed
};

struct ReadOptions {
  /// What comes before the damage is enough: ReadResult::damage instead of an exception.
  bool partial = false;
};

/// Visits the records of a file ("-" is standard input) in the file's order.  Memory does not
/// grow with the file.  Text has submits and what they returned, tasks and their words; lines
/// may have anything before "===" and "---".
/// @throws BadCapture; rkchain::Error where the file cannot be opened or read.
ReadResult read_capture(const std::string& path, const std::function<void(const Record&)>& visit,
                        const ReadOptions& options = {});

/// The same of bytes in memory.
/// @param name for messages
ReadResult read_capture(std::span<const std::byte> bytes, std::string_view name,
                        const std::function<void(const Record&)>& visit,
                        const ReadOptions& options = {});

/// Do the first bytes of a file say that it is a capture?  A damaged one counts.
[[nodiscard]] bool looks_like_capture(std::string_view head);

}  // namespace rkchain::capture

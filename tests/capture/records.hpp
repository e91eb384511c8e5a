// SPDX-License-Identifier: MIT
// Binary captures taken apart by their layout alone, as a judge of those that write them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "capture/record.hpp"

namespace rkchain::test {

struct CapturedRecord {
  capture::RecordHeader header{};
  std::string payload;

  [[nodiscard]] capture::Kind kind() const { return static_cast<capture::Kind>(header.kind); }
  template <typename T>
  [[nodiscard]] T get() const {
    T value{};
    std::memcpy(&value, payload.data(), std::min(sizeof(T), payload.size()));
    return value;
  }
  template <typename T>
  [[nodiscard]] std::string rest() const {
    return payload.size() > sizeof(T) ? payload.substr(sizeof(T)) : std::string();
  }
};

using Records = std::vector<CapturedRecord>;

/// Bit by bit, unlike the one that it judges.
inline std::uint32_t slow_crc(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; i++) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320U : 0);
  }
  return ~crc;
}

/// A failure of the test where the bytes are no capture from beginning to end.
inline Records parse_records(const std::string& bytes) {
  Records records;
  capture::FileHeader head{};
  if (bytes.size() < sizeof(head)) {
    ADD_FAILURE() << "only " << bytes.size() << " bytes";
    return records;
  }
  std::memcpy(&head, bytes.data(), sizeof(head));
  EXPECT_EQ(std::memcmp(head.magic, capture::file_magic, sizeof(head.magic)), 0);
  EXPECT_EQ(head.endian, capture::file_endian);
  EXPECT_EQ(head.header_bytes, sizeof(head));
  for (std::size_t at = sizeof(head); at < bytes.size();) {
    CapturedRecord record;
    if (bytes.size() - at < sizeof(record.header)) {
      ADD_FAILURE() << "a header is cut off at " << at;
      break;
    }
    std::memcpy(&record.header, bytes.data() + at, sizeof(record.header));
    const std::size_t whole = sizeof(record.header) + record.header.bytes;
    if (record.header.magic != capture::record_magic || whole > bytes.size() - at) {
      ADD_FAILURE() << "no record at " << at;
      break;
    }
    std::string covered = bytes.substr(at, whole);
    std::memset(covered.data() + offsetof(capture::RecordHeader, crc), 0, 4);
    EXPECT_EQ(slow_crc(covered), record.header.crc) << "at " << at;
    record.payload = covered.substr(sizeof(record.header));
    records.push_back(std::move(record));
    at += whole;
  }
  return records;
}

inline Records of_kind(const Records& records, capture::Kind kind) {
  Records some;
  for (const CapturedRecord& record : records)
    if (record.kind() == kind) some.push_back(record);
  return some;
}

/// Each submit has come back once, after it was made, and ids count from 1 in each process.
/// @return how many there are
inline std::size_t check_pairs(const Records& records) {
  std::map<std::uint32_t, std::set<std::uint64_t>> made, back;
  for (const CapturedRecord& record : records) {
    const std::uint32_t pid = record.header.pid;
    if (record.kind() == capture::Kind::submit) {
      EXPECT_TRUE(made[pid].insert(record.get<capture::Submit>().id).second) << "an id twice";
    }
    if (record.kind() != capture::Kind::submitted) continue;
    const std::uint64_t id = record.get<capture::Submitted>().id;
    EXPECT_EQ(made[pid].count(id), 1U) << "back before it was made";
    EXPECT_TRUE(back[pid].insert(id).second) << "back twice";
  }
  EXPECT_EQ(made, back);
  std::size_t count = 0;
  for (const auto& [pid, ids] : made) {
    EXPECT_EQ(ids.empty() ? 0 : *ids.rbegin(), ids.size());
    count += ids.size();
  }
  return count;
}

}  // namespace rkchain::test

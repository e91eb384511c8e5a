// SPDX-License-Identifier: MIT
#include "capture/reader_feed.hpp"

namespace rkchain::capture {
namespace {

constexpr std::uint16_t most_header_bytes = 4096;
constexpr std::uint32_t foreign_record_magic = 0x4b525243;
constexpr std::uint32_t foreign_endian = 0x04030201;

template <typename T>
T load(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

std::string at(std::uint64_t offset) { return fmt::format("offset {:#x}", offset); }

/// The next @p bytes, which begin at @p offset of the file.
std::span<const std::byte> take(Reading& reading, std::size_t bytes, std::string_view what) {
  const auto got = reading.feed.peek(bytes);
  if (got.size() < bytes)
    bad_capture(reading.name, at(reading.feed.offset() + got.size()),
                "the file ends inside {} that begins at {:#x}: {} of {} bytes are there", what,
                reading.feed.offset(), got.size(), bytes);
  return got;
}

void read_header(Reading& reading) {
  const auto header = load<FileHeader>(take(reading, sizeof(FileHeader), "the file's header"));
  if (header.endian == foreign_endian)
    bad_capture(reading.name, at(offsetof(FileHeader, endian)),
                "written on a machine of the other byte order");
  if (header.endian != file_endian)
    bad_capture(reading.name, at(offsetof(FileHeader, endian)),
                "the mark of the byte order is {:#010x}, not {:#010x}", header.endian, file_endian);
  if (header.version != file_version)
    bad_capture(reading.name, at(offsetof(FileHeader, version)),
                "version {} of the format; this program reads version {}", header.version,
                file_version);
  if (header.header_bytes < sizeof(FileHeader) || header.header_bytes > most_header_bytes)
    bad_capture(reading.name, at(offsetof(FileHeader, header_bytes)),
                "a header of {} bytes, the limits are {} to {}", header.header_bytes,
                sizeof(FileHeader), most_header_bytes);
  (void)take(reading, header.header_bytes, "the file's header");
  reading.feed.skip(header.header_bytes);
  reading.result.realtime_ns = header.realtime_ns;
  reading.result.monotonic_ns = header.monotonic_ns;
}

std::uint32_t checksum(RecordHeader header, std::span<const std::byte> payload) {
  header.crc = 0;
  const std::uint32_t crc = crc32(0, &header, sizeof(header));
  return crc32(crc, payload.data(), payload.size());
}

void read_record(Reading& reading) {
  const std::uint64_t where = reading.feed.offset();
  const auto header = load<RecordHeader>(take(reading, sizeof(RecordHeader), "a record's header"));
  if (header.magic == foreign_record_magic)
    bad_capture(reading.name, at(where), "a record of the other byte order");
  if (header.magic != record_magic)
    bad_capture(reading.name, at(where),
                "no record begins here: its magic is {:#010x}, not {:#010x}", header.magic,
                record_magic);
  if (header.bytes > max_payload)
    bad_capture(reading.name, at(where + offsetof(RecordHeader, bytes)),
                "a record of {} bytes, the limit is {}", header.bytes, max_payload);
  const auto payload =
      take(reading, sizeof(header) + header.bytes, "a record").subspan(sizeof(header));
  const std::uint32_t crc = checksum(header, payload);
  if (crc != header.crc)
    bad_capture(reading.name, at(where + offsetof(RecordHeader, crc)),
                "the record is damaged: its CRC is {:#010x}, and it says {:#010x}", crc,
                header.crc);
  const Schema* schema = schema_of(header.kind);
  if (schema == nullptr) {
    reading.result.unknown++;
  } else {
    const std::string why = misfit(*schema, payload);
    if (!why.empty()) bad_capture(reading.name, at(where), "{}", why);
    reading.visit({header, payload, where});
    reading.result.records++;
  }
  reading.feed.skip(sizeof(header) + header.bytes);
}

}  // namespace

void read_binary(Reading& reading) {
  read_header(reading);
  while (!reading.feed.peek(1).empty()) read_record(reading);
}

}  // namespace rkchain::capture

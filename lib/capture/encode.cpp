// SPDX-License-Identifier: MIT
#include "capture/encode.hpp"

#include <cstring>

#include "capture/print.hpp"

namespace rkchain::capture {

void encode_begin(Format format, const FileHeader& header, Output& to) noexcept {
  if (format == Format::binary) to.put(&header, sizeof(header));
  if (format != Format::json) return;
  Print print(to);
  print.text(R"({"kind":"file","format":"rkchain-capture","version":)");
  print.number(std::uint64_t{header.version});
  print.text(R"(,"realtime_ns":)").number(std::uint64_t{header.realtime_ns});
  print.text(R"(,"monotonic_ns":)").number(std::uint64_t{header.monotonic_ns}).text("}\n");
}

void encode(Format format, RecordHeader header, const void* fixed, std::size_t fixed_bytes,
            const void* rest, std::size_t rest_bytes, Output& to) noexcept {
  header.magic = record_magic;
  header.reserved = 0;
  header.bytes = static_cast<std::uint32_t>(fixed_bytes + rest_bytes);
  header.crc = 0;
  if (format == Format::json) return encode_json(header, fixed, rest, rest_bytes, to);
  if (format == Format::text) return encode_text(header, fixed, rest, rest_bytes, to);
  std::uint32_t crc = crc32(0, &header, sizeof(header));
  crc = crc32(crc, fixed, fixed_bytes);
  header.crc = rest_bytes == 0 ? crc : crc32(crc, rest, rest_bytes);
  to.put(&header, sizeof(header));
  to.put(fixed, fixed_bytes);
  if (rest_bytes != 0) to.put(rest, rest_bytes);
}

}  // namespace rkchain::capture

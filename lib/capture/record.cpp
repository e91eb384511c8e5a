// SPDX-License-Identifier: MIT
#include "capture/record.hpp"

#include <array>
#include <cstring>

namespace rkchain::capture {
namespace {

constexpr std::string_view kinds[] = {"",          "process",      "node",   "closed",    "submit",
                                      "submitted", "task",         "buffer", "destroyed", "memory",
                                      "sync",      "action",       "mapped", "unmapped",  "unseen",
                                      "chain",     "chain_submit", "end",    "completion"};
static_assert(std::size(kinds) == last_kind + 1);

using Table = std::array<std::uint32_t, 256>;

/// tables[i][b]: what byte b comes to when i more bytes follow it.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; byte++) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320U : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t i = 1; i < tables.size(); i++)
    for (std::uint32_t byte = 0; byte < 256; byte++)
      tables[i][byte] = tables[i - 1][byte] >> 8 ^ tables[0][tables[i - 1][byte] & 0xff];
  return tables;
}

constexpr std::array<Table, 8> tables = make_tables();

std::uint32_t load32(const unsigned char* at) noexcept {
  return at[0] | std::uint32_t{at[1]} << 8 | std::uint32_t{at[2]} << 16 |
         std::uint32_t{at[3]} << 24;
}

}  // namespace

std::string_view name(Format format) noexcept {
  switch (format) {
    case Format::binary:
      return "binary";
    case Format::json:
      return "json";
    case Format::text:
      return "text";
  }
  return {};
}

std::string_view name(Kind kind) noexcept {
  const auto number = static_cast<std::uint16_t>(kind);
  return number <= last_kind ? kinds[number] : std::string_view{};
}

std::uint32_t crc32(std::uint32_t crc, const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    const std::uint32_t low = crc ^ load32(at), high = load32(at + 4);
    crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^ tables[5][low >> 16 & 0xff] ^
          tables[4][low >> 24] ^ tables[3][high & 0xff] ^ tables[2][high >> 8 & 0xff] ^
          tables[1][high >> 16 & 0xff] ^ tables[0][high >> 24];
  }
  for (; bytes != 0; bytes--, at++) crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
  return ~crc;
}

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
// Text made piece by piece, without the C library.
#pragma once

#include <cstring>
#include <string_view>

#include "capture/encode.hpp"

namespace rkchain::capture {

class Print {
 public:
  explicit Print(Output& to) noexcept : to_(to) {}
  ~Print() { flush(); }
  Print(const Print&) = delete;
  Print& operator=(const Print&) = delete;

  Print& text(std::string_view text) noexcept {
    for (const char c : text) put(c);
    return *this;
  }
  Print& put(char c) noexcept {
    if (used_ == sizeof(bytes_)) flush();
    bytes_[used_++] = c;
    return *this;
  }
  Print& number(std::uint64_t value) noexcept {
    char digits[20];
    std::size_t at = sizeof(digits);
    do digits[--at] = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    return text({digits + at, sizeof(digits) - at});
  }
  Print& number(std::int64_t value) noexcept {
    if (value < 0) put('-');
    return number(value < 0 ? 0 - static_cast<std::uint64_t>(value)
                            : static_cast<std::uint64_t>(value));
  }
  /// Without "0x", at least @p width digits.
  Print& hex(std::uint64_t value, int width = 1) noexcept {
    int digits = width;
    while (digits < 16 && value >> 4 * digits != 0) digits++;
    while (digits-- > 0) put("0123456789abcdef"[value >> 4 * digits & 15]);
    return *this;
  }

 private:
  void flush() noexcept {
    if (used_ != 0) to_.put(bytes_, used_);
    used_ = 0;
  }

  Output& to_;
  std::size_t used_ = 0;
  char bytes_[512];
};

/// Those behind encode().
void encode_json(const RecordHeader& header, const void* fixed, const void* rest,
                 std::size_t rest_bytes, Output& to) noexcept;
void encode_text(const RecordHeader& header, const void* fixed, const void* rest,
                 std::size_t rest_bytes, Output& to) noexcept;

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
// A record in one of the three forms.  Used inside programs that are captured, so nothing here
// allocates, throws or touches errno.
#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/record.hpp"

namespace rkchain::capture {

/// Where encoded bytes go, piece by piece.
class Output {
 public:
  virtual void put(const void* data, std::size_t bytes) noexcept = 0;

 protected:
  ~Output() = default;
};

/// What stands at the head of a file; nothing in text.
void encode_begin(Format format, const FileHeader& header, Output& to) noexcept;

/// @param header magic, bytes and crc are filled in here
/// @param fixed the record's struct
/// @param rest what follows it
void encode(Format format, RecordHeader header, const void* fixed, std::size_t fixed_bytes,
            const void* rest, std::size_t rest_bytes, Output& to) noexcept;

}  // namespace rkchain::capture

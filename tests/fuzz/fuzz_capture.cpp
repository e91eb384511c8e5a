// SPDX-License-Identifier: MIT
//
// Captures that mean nothing, records of any content, and what is written read back: the reader
// refuses in good order, the report takes all that it lets through, and nothing is lost.
#include <string>

#include "capture/encode.hpp"
#include "capture/report.hpp"
#include "capture/schema.hpp"
#include "capture/svg.hpp"
#include "fuzz/input.hpp"

namespace rkchain::fuzz {
namespace {

using namespace capture;

class StringOutput final : public Output {
 public:
  void put(const void* data, std::size_t bytes) noexcept override {
    text.append(static_cast<const char*>(data), bytes);
  }
  std::string text;
};

struct Kept {
  RecordHeader header{};
  std::string payload;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Reads bytes that have a heap block of exactly their size.
void read_anything(const std::string& bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  Reporter reporter;
  std::uint64_t visited = 0;
  bool broken = false;
  const auto visit = [&](const Record& record) {
    const Schema* schema = schema_of(record.header.kind);
    require(schema != nullptr && record.payload.size() >= schema->size, "a record has its struct");
    require(misfit(*schema, record.payload).empty(), "a record has what it counts");
    reporter.add(record);
    visited++;
  };
  const auto span = std::as_bytes(std::span(exact.data(), exact.size()));
  try {
    (void)read_capture(span, "fuzz", visit);
  } catch (const BadCapture& error) {
    broken = true;
    const std::string_view what = error.what();
    require(what.find(": offset ") != std::string_view::npos ||
                what.find(": line ") != std::string_view::npos,
            "a message says where");
  }
  const std::uint64_t first = visited;
  Report report = reporter.finish();
  require(report.total.submits <= first, "no submit comes from nowhere");
  require(!draw_svg(report, "fuzz").empty(), "a report can be drawn");
  try {
    visited = 0;
    Reporter again;
    const ReadResult result = read_capture(span, "fuzz",
                                           [&](const Record& record) {
                                             again.add(record);
                                             visited++;
                                           },
                                           {true});
    require(visited == first && result.records == first,
            "what comes before the damage is the same");
    require(broken == !result.damage.empty(), "damage is told");
  } catch (const BadCapture&) {
    require(broken && visited == 0, "part of a file is refused only where there is none");
  }
}

/// Members of any value, what follows as they count it; reserved ones are 0, as JSON has none.
Kept any_record(Input& in) {
  const auto kind = static_cast<std::uint16_t>(1 + in.below(last_kind));
  const Schema& schema = *schema_of(kind);
  Kept kept;
  kept.header.magic = record_magic;
  kept.header.kind = kind;
  kept.header.pid = in.byte() % 4;
  kept.header.tid = in.byte();
  kept.header.time_ns = in.word();
  kept.payload.resize(schema.size);
  const std::uint32_t small = in.byte() % 2;
  for (char& c : kept.payload) c = static_cast<char>(in.byte());
  if (small != 0)
    for (std::size_t i = 0; i < kept.payload.size(); i++)
      if (i % 4 != 0) kept.payload[i] = 0;
  const std::uint32_t count = in.below(20);
  if (const std::size_t piece = piece_bytes(schema.rest); piece != 0) {
    std::memcpy(kept.payload.data() + schema.count_offset, &count, sizeof(count));
    for (std::size_t i = 0; i < count * piece; i++) kept.payload += static_cast<char>(in.byte());
  } else if (schema.rest == Rest::text || schema.rest == Rest::strings) {
    for (std::uint32_t i = 0; i < count; i++)
      kept.payload += static_cast<char>(' ' + in.byte() % 95);
    if (schema.rest == Rest::strings) kept.payload += '\0';
  }
  return kept;
}

template <typename T>
void clear(Kept& kept, std::size_t offset) {
  std::memset(kept.payload.data() + offset, 0, sizeof(T));
}

void clear_reserved(Kept& kept) {
  switch (static_cast<Kind>(kept.header.kind)) {
    case Kind::process:
      return clear<std::uint32_t>(kept, offsetof(Process, reserved));
    case Kind::closed:
      return clear<std::uint32_t>(kept, offsetof(Closed, reserved));
    case Kind::submit:
      return clear<std::uint32_t>(kept,
                                  offsetof(Submit, argument) + offsetof(rknpu_submit, reserved));
    case Kind::task:
      return clear<std::uint32_t>(kept, offsetof(Task, reserved));
    case Kind::memory:
      return clear<std::uint32_t>(kept, offsetof(Memory, reserved));
    case Kind::unseen:
      return clear<std::uint32_t>(kept, offsetof(Unseen, reserved));
    case Kind::chain:
      return clear<std::uint32_t>(kept, offsetof(Chain, reserved));
    case Kind::completion:
      clear<std::uint32_t>(kept, offsetof(Completion, reserved));
      return clear<std::uint64_t>(
          kept, offsetof(Completion, completion) + offsetof(rkchain_completion, reserved));
    default:
      return;
  }
}

std::string encoded(Format format, const std::vector<Kept>& records) {
  StringOutput output;
  FileHeader header{};
  std::memcpy(header.magic, file_magic, sizeof(header.magic));
  header.endian = file_endian;
  header.version = file_version;
  header.header_bytes = sizeof(header);
  encode_begin(format, header, output);
  for (const Kept& record : records) {
    const std::size_t fixed = schema_of(record.header.kind)->size;
    alignas(8) char aligned[512] = {};
    std::memcpy(aligned, record.payload.data(), fixed);
    encode(format, record.header, aligned, fixed, record.payload.data() + fixed,
           record.payload.size() - fixed, output);
  }
  return output.text;
}

void write_and_read(const std::vector<Kept>& records) {
  for (const Format format : {Format::binary, Format::json}) {
    std::size_t at = 0;
    const std::string bytes = encoded(format, records);
    (void)read_capture(bytes_of(bytes), "fuzz", [&](const Record& record) {
      require(at < records.size(), "no more records come back than were written");
      const Kept& kept = records[at++];
      require(record.header.kind == kept.header.kind && record.header.pid == kept.header.pid &&
                  record.header.tid == kept.header.tid &&
                  record.header.time_ns == kept.header.time_ns,
              "a header comes back as it was written");
      require(record.payload.size() == kept.payload.size() &&
                  std::memcmp(record.payload.data(), kept.payload.data(), kept.payload.size()) == 0,
              "a payload comes back as it was written");
    });
    require(at == records.size(), "all that was written comes back");
  }
}

void judge(Input& in) {
  const u8 form = in.byte();
  if (form % 2 == 0) {
    std::string bytes;
    while (in.left() != 0) bytes += static_cast<char>(in.byte());
    read_anything(bytes);
    return;
  }
  std::vector<Kept> records;
  do {
    records.push_back(any_record(in));
    clear_reserved(records.back());
  } while (in.left() != 0 && records.size() < 64);
  write_and_read(records);
  const Format format = static_cast<Format>((form >> 1) % 3);
  std::string bytes = encoded(format, records);
  if ((form & 64) != 0) bytes.resize(bytes.size() - in.below(200) % (bytes.size() + 1));
  read_anything(bytes);
}

}  // namespace
}  // namespace rkchain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rkchain::fuzz::Input in(data, size);
  rkchain::fuzz::judge(in);
  return 0;
}

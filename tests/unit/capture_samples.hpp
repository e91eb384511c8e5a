// SPDX-License-Identifier: MIT
// Captures made for tests.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "capture/encode.hpp"
#include "capture/reader.hpp"
#include "kmod/core/chain.h"

namespace rkchain::capture_test {

using namespace capture;

class StringOutput final : public Output {
 public:
  void put(const void* data, std::size_t bytes) noexcept override {
    text.append(static_cast<const char*>(data), bytes);
  }
  std::string text;
};

/// Writes a capture in memory.
class Writer {
 public:
  explicit Writer(Format format) : format_(format) {
    FileHeader header{};
    std::memcpy(header.magic, file_magic, sizeof(header.magic));
    header.endian = file_endian;
    header.version = file_version;
    header.header_bytes = sizeof(header);
    header.realtime_ns = 1700000000000000000;
    header.monotonic_ns = 5000;
    encode_begin(format, header, output_);
  }

  template <typename T>
  Writer& add(Kind kind, const T& fixed, std::uint64_t time_ns = 0, const std::string& rest = "",
              std::uint32_t pid = 12) {
    RecordHeader header{};
    header.kind = static_cast<std::uint16_t>(kind);
    header.pid = pid;
    header.tid = pid + 1;
    header.time_ns = time_ns;
    encode(format_, header, &fixed, sizeof(fixed), rest.data(), rest.size(), output_);
    return *this;
  }

  Writer& submit(std::uint64_t id, std::uint32_t core, std::uint32_t tasks, std::uint64_t time_ns,
                 std::uint32_t pid = 12) {
    Submit record{};
    record.id = id;
    record.fd = 5;
    record.argument_bytes = sizeof(rknpu_submit);
    record.argument.flags = RKNPU_JOB_PC;
    record.argument.timeout = 6000;
    record.argument.task_number = tasks;
    record.argument.core_mask = core;
    record.argument.fence_fd = -1;
    record.argument.subcore_task[0] = {0, tasks};
    return add(Kind::submit, record, time_ns, "", pid);
  }

  Writer& submitted(std::uint64_t id, std::int32_t result, std::uint64_t time_ns,
                    std::int64_t hw_ns = 0, std::uint32_t pid = 12) {
    Submitted record{};
    record.id = id;
    record.result = result;
    record.hw_elapse_ns = hw_ns;
    record.took_ns = 700;
    return add(Kind::submitted, record, time_ns, "", pid);
  }

  Writer& task(std::uint64_t submit, std::uint32_t index, const std::vector<std::uint64_t>& words,
               std::uint64_t regcmd = 0x10000) {
    Task record{};
    record.submit = submit;
    record.index = index;
    record.core = any_core;
    record.task.int_mask = 0x300;
    record.task.regcfg_amount = 108;
    record.task.regcmd_addr = regcmd;
    record.words = static_cast<std::uint32_t>(words.size());
    return add(Kind::task, record, 0,
               {reinterpret_cast<const char*>(words.data()), 8 * words.size()});
  }

  [[nodiscard]] const std::string& bytes() const { return output_.text; }

 private:
  Format format_;
  StringOutput output_;
};

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// What a record held, kept.
struct Kept {
  RecordHeader header{};
  std::string payload;
  std::uint64_t where = 0;

  template <typename T>
  [[nodiscard]] T get() const {
    T value{};
    std::memcpy(&value, payload.data(), sizeof(T));
    return value;
  }
};

inline std::vector<Kept> read_all(const std::string& bytes, ReadResult* result = nullptr,
                                  const ReadOptions& options = {}) {
  std::vector<Kept> kept;
  const ReadResult read = read_capture(
      bytes_of(bytes), "sample",
      [&](const Record& record) {
        kept.push_back(
            {record.header,
             {reinterpret_cast<const char*>(record.payload.data()), record.payload.size()},
             record.where});
      },
      options);
  if (result != nullptr) *result = read;
  return kept;
}

/// The program of one matmul, or a chain of them.
inline std::vector<std::uint64_t> program(std::uint32_t m, std::uint32_t count = 1,
                                          std::uint32_t mode = RKC_WAIT, std::uint32_t a = 0x10000,
                                          std::uint64_t iova = 0x40000000) {
  std::vector<rkc_matmul> blocks(count);
  for (rkc_matmul& block : blocks) {
    block.m = block.m_total = m;
    block.k = 64;
    block.n = 96;
    block.a = a;
    block.b = 0x1000000;
    block.c = 0x2000000;
  }
  rkc_measure measure{};
  rkc_chain_measure(mode, count, &measure, nullptr);
  std::vector<u64> words(measure.words);
  rkc_chain_emit(mode, blocks.data(), count, iova, words.data(), nullptr);
  return {words.begin(), words.end()};
}

/// What somebody once counted: 1039 submits, 365 on core 0x1, 365 on 0x2, 309 on 0x4; 588 of 3
/// tasks, 448 of 6, 3 of 21.
struct CountedSubmit {
  std::uint32_t core;
  std::uint32_t tasks;
};
inline std::vector<CountedSubmit> counted_submits() {
  std::array<int, 3> left{365, 365, 309};
  std::vector<CountedSubmit> submits;
  for (std::size_t i = 0; submits.size() < 1039; i++) {
    if (left[i % 3] == 0) continue;
    left[i % 3]--;
    const std::size_t n = submits.size();
    submits.push_back({1U << i % 3, n < 588 ? 3U : n < 588 + 448 ? 6U : 21U});
  }
  return submits;
}

inline std::string counted_capture(Format format) {
  Writer writer(format);
  std::uint64_t id = 0;
  for (const CountedSubmit& submit : counted_submits()) {
    id++;
    writer.submit(id, submit.core, submit.tasks, 1000 * id);
    writer.submitted(id, 0, 1000 * id + 500, 400);
  }
  return writer.bytes();
}

}  // namespace rkchain::capture_test

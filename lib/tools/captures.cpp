// SPDX-License-Identifier: MIT
#include "tools/captures.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "capture/encode.hpp"
#include "capture/schema.hpp"
#include "kmod/core/matmul.h"
#include "tools/matmul_args.hpp"

namespace rkchain::tool {
namespace {

using namespace capture;

struct Close {
  void operator()(std::FILE* file) const {
    if (file != stdout) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, Close>;

class FileOutput final : public Output {
 public:
  explicit FileOutput(std::FILE* file) : file_(file) {}
  void put(const void* data, std::size_t bytes) noexcept override {
    if (error_ == 0 && std::fwrite(data, 1, bytes, file_) != bytes) error_ = errno;
  }
  [[nodiscard]] int error() const { return error_; }
  void flush() {
    if (error_ == 0 && std::fflush(file_) != 0) error_ = errno;
  }

 private:
  std::FILE* file_;
  int error_ = 0;
};

}  // namespace

ReadResult read_records(const std::string& path, const std::function<void(const Record&)>& visit,
                        bool partial) {
  try {
    return read_capture(path, visit, {partial});
  } catch (const BadCapture& error) {
    throw BadInput(error.what());
  }
}

bool is_capture(const std::string& path) {
  // What is read of a pipe is gone.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (!file) return false;
  std::string head(std::size_t{1} << 16, '\0');
  head.resize(std::fread(head.data(), 1, head.size(), file.get()));
  return looks_like_capture(head);
}

Format parse_capture_format(std::string_view text, std::string_view what) {
  for (const Format format : {Format::binary, Format::json, Format::text})
    if (name(format) == text) return format;
  bad_input("{}: no format '{}'; there are binary, json, text", what, text);
}

Format capture_format_of(std::string_view path) {
  if (path.ends_with(".json") || path.ends_with(".jsonl")) return Format::json;
  if (path.ends_with(".txt") || path.ends_with(".log")) return Format::text;
  return Format::binary;
}

void convert_capture(const std::string& from, const std::string& to, Format format, bool partial) {
  // The times are in the head that is written first, and are known when all has been read.
  std::error_code error;
  if (std::filesystem::exists(from, error) ? !std::filesystem::is_regular_file(from, error)
                                           : from == "-")
    bad_input("{}: --convert takes a file, which can be read twice", display_name(from));
  const ReadResult times = read_records(
      from, [](const Record&) {}, partial);
  const File file(to == "-" ? stdout : std::fopen(to.c_str(), "wb"));
  if (!file) bad_input("{}: {}", to, std::strerror(errno));
  FileOutput output(file.get());
  FileHeader header{};
  std::memcpy(header.magic, file_magic, sizeof(header.magic));
  header.endian = file_endian;
  header.version = file_version;
  header.header_bytes = sizeof(header);
  header.realtime_ns = times.realtime_ns;
  header.monotonic_ns = times.monotonic_ns;
  encode_begin(format, header, output);
  const auto write = [&](const Record& record) {
    const std::size_t fixed = schema_of(record.header.kind)->size;
    // Structs in payloads are not aligned, and an encoder takes structs.
    alignas(8) std::array<std::byte, 512> aligned{};
    std::memcpy(aligned.data(), record.payload.data(), fixed);
    const auto rest = record.payload.subspan(fixed);
    encode(format, record.header, aligned.data(), fixed, rest.data(), rest.size(), output);
  };
  (void)read_records(from, write, partial);
  output.flush();
  if (output.error() != 0 && output.error() != EPIPE)
    failed("{}: {}", to, std::strerror(output.error()));
}

std::string core_text(std::uint32_t mask) {
  return mask == 0 ? "0 (auto)" : fmt::format("{:#x}", mask);
}

std::string errno_text(std::int32_t error) {
  const char* text = strerrorname_np(error < 0 ? -error : error);
  return text != nullptr ? text : fmt::format("error {}", error);
}

std::string_view missing_text(std::uint32_t what) {
  switch (static_cast<Missing>(what)) {
    case Missing::task_array:
      return "task arrays that are not known or cannot be mapped";
    case Missing::program:
      return "programs that are not known or cannot be mapped";
    case Missing::memory:
      return "buffers that are not known or cannot be mapped";
    case Missing::table_full:
      return "more descriptors or buffers than are followed";
    case Missing::argument:
      return "arguments that cannot be read";
    case Missing::lost:
      return "records that could not be written";
  }
  return "something that this version does not know";
}

std::string shape_text(const MatmulShape& shape) {
  rkc_matmul matmul{};
  matmul.type = shape.type;
  matmul.layout = shape.layout;
  matmul.m = shape.m;
  matmul.k = shape.k;
  matmul.n = shape.n;
  matmul.m_total = shape.m_total;
  return describe(matmul);
}

std::string layout_text(const ProgramLayout& layout) {
  std::string text(name(layout.form));
  if (layout.count > 1) text += fmt::format(", S = {}", layout.count);
  if (layout.tasks > 1 && layout.form != Form::link)
    text += fmt::format(", {} tasks", layout.tasks);
  if (layout.stride != 0) text += fmt::format(", stride {}", layout.stride);
  if (layout.body != 0) text += fmt::format(", body {}", layout.body);
  return text;
}

}  // namespace rkchain::tool

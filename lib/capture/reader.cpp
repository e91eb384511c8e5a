// SPDX-License-Identifier: MIT
#include "capture/reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "capture/reader_feed.hpp"
#include "rkchain/error.hpp"

namespace rkchain::capture {
namespace {

constexpr std::size_t piece = std::size_t{1} << 18;

class FileSource final : public Source {
 public:
  explicit FileSource(const std::string& path)
      : name_(path == "-" ? "standard input" : path),
        own_(path != "-"),
        fd_(own_ ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : STDIN_FILENO) {
    if (fd_ < 0)
      throw Error(Errc::invalid_argument, fmt::format("{}: {}", name_, std::strerror(errno)));
  }
  ~FileSource() override {
    if (own_) ::close(fd_);
  }
  [[nodiscard]] const std::string& name() const { return name_; }

  std::size_t read(std::span<std::byte> to) override {
    for (;;) {
      const ssize_t got = ::read(fd_, to.data(), to.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) throw Error(Errc::io, fmt::format("{}: {}", name_, std::strerror(errno)));
    }
  }

 private:
  std::string name_;
  bool own_;
  int fd_;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : left_(bytes) {}
  std::size_t read(std::span<std::byte> to) override {
    const std::size_t count = std::min(to.size(), left_.size());
    if (count != 0) std::memcpy(to.data(), left_.data(), count);
    left_ = left_.subspan(count);
    return count;
  }

 private:
  std::span<const std::byte> left_;
};

/// @throws BadCapture for what has none of the three forms.
Format format_of(Feed& feed, std::string_view name) {
  const auto bytes = feed.peek(4096);
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (head.empty()) bad_capture(name, "offset 0", "the file is empty");
  const std::string_view magic(file_magic, sizeof(file_magic));
  if (head.starts_with(magic)) return Format::binary;
  // What a transfer as text makes of the magic, or cuts off.
  if (head.starts_with(magic.substr(0, 5)) || magic.starts_with(head))
    bad_capture(name, "offset 0", "the magic of a capture is damaged or cut off");
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && head[first] == '{') return Format::json;
  const std::size_t zero = head.find('\0');
  if (zero != std::string_view::npos)
    bad_capture(name, fmt::format("offset {:#x}", zero),
                "no capture: neither its magic, nor JSON lines, nor text");
  return Format::text;
}

ReadResult read_source(Source& source, std::string_view name,
                       const std::function<void(const Record&)>& visit,
                       const ReadOptions& options) {
  Feed feed(source);
  Reading reading{feed, name, visit, {}};
  reading.result.format = format_of(feed, name);
  try {
    switch (reading.result.format) {
      case Format::binary:
        read_binary(reading);
        break;
      case Format::json:
        read_json(reading);
        break;
      case Format::text:
        read_text(reading);
        break;
    }
  } catch (const BadCapture& error) {
    if (!options.partial || reading.result.records == 0) throw;
    reading.result.damage = error.what();
  }
  return reading.result;
}

}  // namespace

bool Feed::more(std::size_t room) {
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t wanted = std::max(room, end_ + 1);
  if (buffer_.size() < wanted) buffer_.resize(std::max(piece, wanted + wanted / 2));
  const std::size_t got = source_.read(std::span(buffer_).subspan(end_));
  end_ += got;
  return got != 0;
}

std::optional<std::string_view> Feed::line() {
  std::size_t seen = 0;
  for (;;) {
    const std::string_view text(reinterpret_cast<const char*>(buffer_.data()) + begin_,
                                end_ - begin_);
    const std::size_t end = text.find('\n', seen);
    if (end != std::string_view::npos && end <= max_line) {
      skip(end + 1);
      return text.substr(0, end);
    }
    seen = text.size();
    if (seen > max_line || !more(seen + 1)) {
      const std::size_t left = std::min(end_ - begin_, max_line + 1);
      if (left == 0) return std::nullopt;
      const std::string_view last(reinterpret_cast<const char*>(buffer_.data()) + begin_, left);
      skip(left);
      return last;
    }
  }
}

std::string shown(std::string_view token) {
  constexpr std::size_t most = 32;
  std::string text;
  for (const char c : token.substr(0, most)) text += c >= ' ' && c <= '~' ? c : '?';
  return "'" + text + (token.size() > most ? "...'" : "'");
}

ReadResult read_capture(const std::string& path, const std::function<void(const Record&)>& visit,
                        const ReadOptions& options) {
  FileSource source(path);
  return read_source(source, source.name(), visit, options);
}

ReadResult read_capture(std::span<const std::byte> bytes, std::string_view name,
                        const std::function<void(const Record&)>& visit,
                        const ReadOptions& options) {
  MemorySource source(bytes);
  return read_source(source, name, visit, options);
}

bool looks_like_capture(std::string_view head) {
  if (head.starts_with(std::string_view(file_magic, 5))) return true;
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  if (head[first] == '{')
    return head.substr(0, head.find('\n', first)).find("\"rkchain-capture\"") !=
           std::string_view::npos;
  for (const std::string_view mark : {"=== SUBMIT", "=== DONE", "--- TASK", "--- PROCESS"})
    if (head.find(mark) != std::string_view::npos) return true;
  return false;
}

}  // namespace rkchain::capture

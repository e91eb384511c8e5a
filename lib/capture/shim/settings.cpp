// SPDX-License-Identifier: MIT
#include "capture/shim/settings.hpp"

#include <sys/syscall.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include "capture/print.hpp"
#include "capture/shim/calls.hpp"

namespace rkchain::capture::shim {
namespace {

std::string_view variable(const char* name) noexcept {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Text that ends with NUL, as long as there is room for it.
class Line final : public Output {
 public:
  Line(char* to, std::size_t room) noexcept : to_(to), room_(room) {}
  void put(const void* data, std::size_t bytes) noexcept override {
    if (bytes < room_ - used_) std::memcpy(to_ + used_, data, bytes);
    used_ = bytes < room_ - used_ ? used_ + bytes : room_;
  }
  /// @return its length, 0 when it did not fit
  std::size_t end() noexcept {
    if (used_ >= room_) used_ = 0;
    to_[used_] = '\0';
    return used_;
  }

 private:
  char* to_;
  std::size_t room_;
  std::size_t used_ = 0;
};

Format choose_format(std::string_view asked, std::string_view file) noexcept {
  for (const Format format : {Format::binary, Format::json, Format::text})
    if (asked == name(format)) return format;
  if (file.empty()) return Format::text;
  if (file.ends_with(".json") || file.ends_with(".jsonl")) return Format::json;
  if (file.ends_with(".txt") || file.ends_with(".log")) return Format::text;
  return Format::binary;
}

Depth choose_depth(std::string_view asked) noexcept {
  if (asked == "programs") return Depth::programs;
  if (asked == "everything") return Depth::everything;
  return Depth::submits;
}

void absolute(std::string_view file, char (&to)[path_bytes]) noexcept {
  char folder[path_bytes] = {};
  const bool relative = file.front() != '/';
  if (relative && raw(SYS_getcwd, word(folder), sizeof(folder)) <= 0) return;
  Line line(to, sizeof(to));
  {
    Print print(line);
    if (relative) print.text(folder).put('/');
    print.text(file);
  }
  line.end();
}

/// Takes what stands before the next colon away.
std::uint64_t take_number(std::string_view& text, int base) noexcept {
  char digits[24] = {};
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon >= sizeof(digits)) return 0;
  std::memcpy(digits, text.data(), colon);
  text.remove_prefix(colon + 1);
  return std::strtoull(digits, nullptr, base);
}

std::uint32_t check_of(std::string_view file) noexcept {
  return crc32(0, file.data(), file.size());
}

/// Does this process belong to a tree whose first process has begun the same file?
bool continue_run(Settings& settings, std::string_view file, std::string_view run) noexcept {
  const KeepErrno keep;
  const std::uint64_t started = take_number(run, 10), device = take_number(run, 10);
  const std::uint64_t inode = take_number(run, 10), check = take_number(run, 16);
  if (started == 0 || check != check_of(file) || run.size() >= path_bytes) return false;
  if (run.empty() != file.empty()) return false;
  settings.first = false;
  settings.started = started;
  settings.device = device;
  settings.inode = inode;
  std::memcpy(settings.pattern, run.data(), run.size());
  settings.pattern[run.size()] = '\0';
  return true;
}

void begin_run(Settings& settings, std::string_view file) noexcept {
  // As coarse as the times of files are, so that no file of this run is older.
  timespec time{};
  clock_gettime(CLOCK_REALTIME_COARSE, &time);
  settings.started = static_cast<std::uint64_t>(time.tv_sec) * 1000000000U +
                     static_cast<std::uint64_t>(time.tv_nsec);
  if (!file.empty()) return absolute(file, settings.pattern);
  struct stat status {};
  if (status_of(2, status) != 0) return;
  settings.device = status.st_dev;
  settings.inode = status.st_ino;
}

}  // namespace

void read_settings(Settings& settings) noexcept {
  const std::string_view file = variable("RKCHAIN_CAPTURE_FILE");
  settings.to_stderr = file.empty();
  settings.own_files = file.find("%p") != std::string_view::npos;
  settings.format = choose_format(variable("RKCHAIN_CAPTURE_FORMAT"), file);
  settings.depth = choose_depth(variable("RKCHAIN_CAPTURE_DEPTH"));
  if (variable("ORK_SUBMIT_ONLY") == "1") settings.depth = Depth::submits;
  if (!continue_run(settings, file, variable(run_variable))) begin_run(settings, file);
}

std::size_t run_text(const Settings& settings, char* to, std::size_t room) noexcept {
  Line line(to, room);
  {
    Print print(line);
    print.number(settings.started).put(':').number(settings.device).put(':');
    print.number(settings.inode).put(':');
    print.hex(check_of(variable("RKCHAIN_CAPTURE_FILE"))).put(':').text(settings.pattern);
  }
  return line.end();
}

bool file_path(const Settings& settings, std::uint32_t pid, char (&path)[path_bytes]) noexcept {
  Line line(path, sizeof(path));
  {
    Print print(line);
    std::string_view rest = settings.pattern;
    for (std::size_t at = 0; (at = rest.find("%p")) != std::string_view::npos;) {
      print.text(rest.substr(0, at)).number(std::uint64_t{pid});
      rest.remove_prefix(at + 2);
    }
    print.text(rest);
  }
  return line.end() != 0;
}

}  // namespace rkchain::capture::shim

// SPDX-License-Identifier: MIT
#include "capture/shim/sink.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "capture/encode.hpp"
#include "capture/shim/calls.hpp"

namespace rkchain::capture::shim {
namespace {

constexpr std::uint64_t preferred_fd = 1000;
constexpr std::uint64_t patience_ms = 1000;

std::uint64_t number(int value) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

/// As high as it may be: low numbers are the program's.
int duplicate_high(int fd) noexcept {
  rlimit limit{};
  raw(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, word(&limit));
  std::uint64_t from = preferred_fd;
  if (limit.rlim_cur <= from) from = limit.rlim_cur > 8 ? limit.rlim_cur - 8 : 0;
  for (;; from /= 2) {
    const std::int64_t copy = raw(SYS_fcntl, number(fd), F_DUPFD_CLOEXEC, from);
    if (copy >= 0 || from == 0) return static_cast<int>(copy);
  }
}

/// What a file begins with, put together.
class Head final : public Output {
 public:
  void put(const void* data, std::size_t bytes) noexcept override {
    if (bytes > sizeof(bytes_) - used_) return;
    __builtin_memcpy(bytes_ + used_, data, bytes);
    used_ += bytes;
  }
  void write(int fd) const noexcept {
    if (used_ != 0) raw(SYS_write, number(fd), word(bytes_), used_);
  }

 private:
  char bytes_[512];
  std::size_t used_ = 0;
};

void write_head(int fd, Format format) noexcept {
  FileHeader header{};
  __builtin_memcpy(header.magic, file_magic, sizeof(header.magic));
  header.endian = file_endian;
  header.version = file_version;
  header.header_bytes = sizeof(header);
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  header.realtime_ns = static_cast<std::uint64_t>(time.tv_sec) * 1000000000U +
                       static_cast<std::uint64_t>(time.tv_nsec);
  header.monotonic_ns = now_ns();
  Head head;
  encode_begin(format, header, head);
  head.write(fd);
}

/// Keeps signals that a write may raise from the program, which does not write.
class Quiet {
 public:
  explicit Quiet(bool needed) noexcept : needed_(needed) {
    if (!needed_) return;
    raw(SYS_rt_sigpending, word(&pending_), sizeof(pending_));
    raw(SYS_rt_sigprocmask, SIG_BLOCK, word(&raised), word(&before_), sizeof(before_));
  }
  ~Quiet() {
    if (!needed_) return;
    const timespec at_once{};
    const std::uint64_t ours = raised & ~pending_;
    while (raw(SYS_rt_sigtimedwait, word(&ours), 0, word(&at_once), sizeof(ours)) > 0) {
    }
    raw(SYS_rt_sigprocmask, SIG_SETMASK, word(&before_), 0, sizeof(before_));
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  static constexpr std::uint64_t raised = 1ULL << (SIGPIPE - 1) | 1ULL << (SIGXFSZ - 1);
  bool needed_;
  std::uint64_t pending_ = 0;
  std::uint64_t before_ = 0;
};

/// Waits for room in a pipe that does not wait by itself.
bool wait_for_room(int fd) noexcept {
  pollfd poll{fd, POLLOUT, 0};
  const timespec time{patience_ms / 1000, 0};
  return raw(SYS_ppoll, word(&poll), 1, word(&time), 0, sizeof(std::uint64_t)) == 1;
}

bool limited_size() noexcept {
  rlimit limit{};
  raw(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, word(&limit));
  return limit.rlim_cur != RLIM_INFINITY;
}

std::uint64_t nanoseconds(const timespec& time) noexcept {
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000U +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

void Sink::open(const Settings& settings, std::uint32_t pid) noexcept {
  file_ = !settings.to_stderr;
  if (settings.to_stderr) return open_stderr(settings);
  if (settings.pattern[0] == '\0' || !file_path(settings, pid, path_)) return;
  open_file(settings);
}

void Sink::close() noexcept {
  const int fd = fd_.exchange(-1);
  if (fd >= 0) raw(SYS_close, number(fd));
}

void Sink::open_file(const Settings& settings) noexcept {
  const std::int64_t opened = raw(SYS_openat, number(AT_FDCWD), word(path_),
                                  O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
  if (opened < 0) return;
  const int fd = static_cast<int>(opened);
  raw(SYS_flock, number(fd), LOCK_EX);
  struct stat status {};
  status_of(fd, status);
  const bool regular = S_ISREG(status.st_mode);
  // A file of its own may be left from an earlier process of the same number.
  const bool old = settings.own_files && nanoseconds(status.st_mtim) < settings.started;
  const bool replace = regular && (settings.own_files ? settings.first || old : settings.first);
  if (replace) raw(SYS_ftruncate, number(fd), 0);
  if (replace || (regular ? status.st_size == 0 : settings.first)) write_head(fd, settings.format);
  raw(SYS_flock, number(fd), LOCK_UN);
  keep(fd, status);
  raw(SYS_close, number(fd));
}

void Sink::open_stderr(const Settings& settings) noexcept {
  struct stat status {};
  if (status_of(2, status) != 0) return;
  const bool same = status.st_dev == settings.device && status.st_ino == settings.inode;
  if (!same) return;
  if (settings.first) write_head(2, settings.format);
  keep(2, status);
}

void Sink::keep(int fd, const struct stat& status) noexcept {
  may_signal_ = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || limited_size();
  inode_.store(status.st_ino, std::memory_order_relaxed);
  fd_.store(duplicate_high(fd));
}

void Sink::move() noexcept {
  const int old = fd_.load();
  if (old < 0) return;
  fd_.store(duplicate_high(old));
  // Those that still write to the old number; not for ever, as one may be below a signal handler.
  for (std::uint64_t i = 0; writers_.load() != 0 && i < patience_ms; i++) {
    const timespec moment{0, 100000};
    raw(SYS_nanosleep, word(&moment), 0);
  }
  raw(SYS_close, number(old));
}

/// The program has closed it, past the shim.
bool Sink::reopen(int lost) noexcept {
  if (!file_ || path_[0] == '\0') return false;
  const std::int64_t opened =
      raw(SYS_openat, number(AT_FDCWD), word(path_), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY, 0);
  if (opened < 0) return false;
  struct stat status {};
  const int fd = static_cast<int>(opened);
  const bool same = status_of(fd, status) == 0 && status.st_ino == inode_.load();
  const int high = same ? duplicate_high(fd) : -1;
  raw(SYS_close, number(fd));
  if (high < 0) return false;
  int expected = lost;
  if (!fd_.compare_exchange_strong(expected, high)) raw(SYS_close, number(high));
  return true;
}

bool Sink::write_all(const char* data, std::size_t bytes) noexcept {
  bool reopened = false;
  while (bytes != 0) {
    const int fd = fd_.load();
    if (fd < 0) return false;
    const std::int64_t put = raw(SYS_write, number(fd), word(data), bytes);
    if (put > 0) {
      data += put;
      bytes -= static_cast<std::size_t>(put);
    } else if (put == -EBADF && !reopened) {
      reopened = true;
      if (!reopen(fd)) return false;
    } else if (put == -EAGAIN) {
      if (!wait_for_room(fd)) return false;
    } else if (put != -EINTR) {
      return false;
    }
  }
  return true;
}

bool Sink::write(const void* data, std::size_t bytes) noexcept {
  writers_.fetch_add(1);
  bool done = false;
  {
    const Quiet quiet(may_signal_);
    done = write_all(static_cast<const char*>(data), bytes);
  }
  writers_.fetch_sub(1);
  return done;
}

}  // namespace rkchain::capture::shim

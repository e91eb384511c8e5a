// SPDX-License-Identifier: MIT
// Where records go: a file that several processes append to, or standard error.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "capture/shim/settings.hpp"

namespace rkchain::capture::shim {

class Sink {
 public:
  /// Nothing is written where it cannot be opened.
  void open(const Settings& settings, std::uint32_t pid) noexcept;
  void close() noexcept;

  /// One record in one write, so that those of other threads and processes come before or after.
  /// @return false when it is not all there
  bool write(const void* data, std::size_t bytes) noexcept;

  /// Is it the sink's descriptor?  The program has not opened it.
  [[nodiscard]] bool has(int fd) const noexcept {
    return fd >= 0 && fd == fd_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] int fd() const noexcept { return fd_.load(std::memory_order_relaxed); }

  /// To another number, as the program wants this one.
  void move() noexcept;
  /// In a forked child: nobody is writing.
  void forget_writers() noexcept { writers_.store(0, std::memory_order_relaxed); }

 private:
  void open_file(const Settings& settings) noexcept;
  void open_stderr(const Settings& settings) noexcept;
  void keep(int fd, const struct stat& status) noexcept;
  bool reopen(int lost) noexcept;
  bool write_all(const char* data, std::size_t bytes) noexcept;

  std::atomic<int> fd_ = -1;
  std::atomic<int> writers_ = 0;
  bool may_signal_ = false;  ///< a write may raise SIGPIPE or SIGXFSZ
  bool file_ = false;
  std::atomic<std::uint64_t> inode_ = 0;
  char path_[path_bytes] = {};
};

}  // namespace rkchain::capture::shim

// SPDX-License-Identifier: MIT
// Calls to the NPU as they pass.
#pragma once

#include <cstdint>

#include "capture/record.hpp"
#include "capture/shim/calls.hpp"

namespace rkchain::capture::shim {

/// A call as the program makes it.
struct Call {
  int fd;
  unsigned long command;
  void* argument;
  std::uint32_t file;

  [[nodiscard]] std::size_t size() const noexcept { return _IOC_SIZE(command); }

  /// What the program gave, or got back.  Drivers of another age have another size; what theirs
  /// lacks is 0.
  template <typename T>
  [[nodiscard]] bool read(T& to) const noexcept {
    to = {};
    return read_program(&to, word(argument), size() < sizeof(T) ? size() : sizeof(T));
  }

  [[nodiscard]] int pass() const noexcept { return next_ioctl(fd, command, argument); }
};

/// What a call returned, as records have it.
inline std::int32_t outcome(int result) noexcept { return result < 0 ? -errno : result; }

/// Is it a call that the stock driver may know?
[[nodiscard]] bool is_stock(unsigned long command) noexcept;
[[nodiscard]] bool is_chain(unsigned long command) noexcept;

int stock_call(int fd, unsigned long command, void* argument) noexcept;
int chain_call(int fd, unsigned long command, void* argument) noexcept;

/// The tasks of a submit and their programs.  Called with the lock held.
void record_tasks(std::uint64_t submit, const rknpu_submit& argument) noexcept;

}  // namespace rkchain::capture::shim

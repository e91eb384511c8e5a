// SPDX-License-Identifier: MIT
// The calls that the shim stands before, and its own, which nobody else sees.
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace rkchain::capture::shim {

/// What the program sees of errno is the driver's doing alone.
class KeepErrno {
 public:
  KeepErrno() noexcept : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

// The next definitions of these functions.  They set errno as the program's call would.  Where
// dlsym() is itself the caller, or finds nothing, the kernel is asked directly.
int next_ioctl(int fd, unsigned long command, void* argument) noexcept;
void* next_mmap(void* address, std::size_t size, int protection, int flags, int fd,
                std::int64_t offset) noexcept;
int next_munmap(void* address, std::size_t size) noexcept;
int next_open(const char* path, int flags, mode_t mode) noexcept;
int next_openat(int folder, const char* path, int flags, mode_t mode) noexcept;
int next_close(int fd) noexcept;
int next_close_range(unsigned first, unsigned last, int flags) noexcept;
void next_closefrom(int first) noexcept;
int next_dup(int fd) noexcept;
int next_dup2(int from, int to) noexcept;
int next_dup3(int from, int to, int flags) noexcept;
int next_fcntl(int fd, int command, void* argument) noexcept;

// The kernel's, past everybody; 0 and up, or a negative errno.  errno itself is left alone, and
// none of them is a cancellation point.
std::int64_t raw(std::int64_t number, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0,
                 std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0) noexcept;

template <typename T>
std::uint64_t word(T* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

/// Memory of the shim's own, zero; nullptr when there is none.
void* get_memory(std::size_t bytes) noexcept;
void give_memory(void* memory, std::size_t bytes) noexcept;

/// 0 or a negative errno.
int status_of(int fd, struct stat& status) noexcept;

std::uint64_t now_ns() noexcept;

/// Copies what a program points at, as far as that can be read.
/// @return false when not all of it can.
bool read_program(void* to, std::uint64_t address, std::size_t bytes) noexcept;

/// A lock that a signal handler of the same thread cannot wait for, as there are none meanwhile.
class Guard {
 public:
  Guard() noexcept;
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Around fork(): the child gets the lock free, and whole what it guards.
  static void before_fork() noexcept;
  static void after_fork() noexcept;
  /// For a child that came to be in another way.
  static void start_anew() noexcept;
  /// Does this thread hold it?  Then what it calls is the shim's own doing.
  [[nodiscard]] static bool mine() noexcept;

 private:
  std::uint64_t signals_ = 0;
};

}  // namespace rkchain::capture::shim

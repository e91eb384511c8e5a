// SPDX-License-Identifier: MIT
// The functions that the shim puts before the C library's, and its beginning and end.  Those that
// have nothing to do with the NPU's nodes only pass.
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>

#include "capture/shim/buffers.hpp"
#include "capture/shim/calls.hpp"
#include "capture/shim/journal.hpp"
#include "capture/shim/mappings.hpp"
#include "capture/shim/nodes.hpp"
#include "capture/shim/stock.hpp"

using namespace rkchain::capture;
using namespace rkchain::capture::shim;

namespace {

constexpr unsigned all = ~0U;

bool is_open(int fd) noexcept {
  return raw(SYS_fcntl, static_cast<std::uint64_t>(static_cast<std::int64_t>(fd)), F_GETFD) >= 0;
}

int refuse() noexcept {
  errno = EBADF;
  return -1;
}

/// The sink's number is not open, as far as the program knows.
bool hidden(int fd) noexcept { return sink().has(fd) && !Guard::mine(); }

/// What was known of this number is over.
int opened(int fd) noexcept {
  if (!Guard::mine()) drop_node(fd);
  return fd;
}

int copied(int from, int to) noexcept {
  if (to >= 0 && !Guard::mine()) copy_node(from, to);
  return to;
}

/// @p to is about to become another file.
void make_way(int from, int to) noexcept {
  if (from == to || Guard::mine()) return;
  const bool known_node = known(to).what != What::unknown;
  if ((!known_node && !sink().has(to)) || !is_open(from)) return;
  const KeepErrno keep;
  if (!same_process()) return;
  if (sink().has(to)) sink().move();
  drop_node(to);
}

mode_t mode_of(int flags, va_list arguments) noexcept {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(arguments, mode_t) : 0;
}

void* map(void* address, std::size_t size, int protection, int flags, int fd,
          std::int64_t offset) noexcept {
  const What what = known(fd).what;
  const bool node = what == What::rknpu || what == What::rkchain;
  const bool replaces = (flags & MAP_FIXED) != 0 && any_mapping();
  if ((!node && !replaces) || !ready() || depth() == Depth::submits)
    return next_mmap(address, size, protection, flags, fd, offset);
  if (replaces) remove_mappings(word(address), size);
  void* result = next_mmap(address, size, protection, flags, fd, offset);
  if (result == MAP_FAILED || !node) return result;
  const KeepErrno keep;
  Mapped fixed{};
  fixed.fd = fd;
  fixed.address = word(result);
  fixed.size = size;
  fixed.offset = static_cast<std::uint64_t>(offset);
  {
    const Guard guard;
    fixed.handle = what == What::rknpu ? handle_at(known(fd).file, fixed.offset) : 0;
  }
  add_mapping(fixed);
  return result;
}

int control(int fd, int command, void* argument) {
  const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (copies && hidden(fd)) return refuse();
  const int result = next_fcntl(fd, command, argument);
  return copies ? copied(fd, result) : result;
}

/// Closes all of a range but the sink's descriptor.
int close_others(unsigned first, unsigned last, int flags) noexcept {
  const int kept = sink().fd();
  const auto number = static_cast<unsigned>(kept);
  if (kept < 0 || number < first || number > last) return next_close_range(first, last, flags);
  int result = 0;
  if (number > first) result = next_close_range(first, number - 1, flags);
  if (result == 0 && number < last) result = next_close_range(number + 1, last, flags);
  return result;
}

[[gnu::constructor]] void begin() noexcept {
  const KeepErrno keep;
  ready();
  pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  // Before the program looks at its environment, and only here, as it takes memory.
  char text[path_bytes + 128];
  if (settings().first && run_text(settings(), text, sizeof(text)) != 0)
    setenv(run_variable, text, 1);
}

[[gnu::destructor]] void end() noexcept {
  const KeepErrno keep;
  end_journal();
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

int ioctl(int fd, unsigned long command, ...) noexcept {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (is_stock(command) && ready()) return stock_call(fd, command, argument);
  if (is_chain(command) && ready()) return chain_call(fd, command, argument);
  return next_ioctl(fd, command, argument);
}

void* mmap(void* address, std::size_t size, int protection, int flags, int fd,
           off_t offset) noexcept {
  return map(address, size, protection, flags, fd, offset);
}

void* mmap64(void* address, std::size_t size, int protection, int flags, int fd,
             off64_t offset) noexcept {
  return map(address, size, protection, flags, fd, offset);
}

int munmap(void* address, std::size_t size) noexcept {
  const bool valid = size != 0 && word(address) % 4096 == 0;
  if (any_mapping() && valid && ready()) {
    const KeepErrno keep;
    remove_mappings(word(address), size);
  }
  return next_munmap(address, size);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return opened(next_open(path, flags, mode));
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return opened(next_open(path, flags, mode));
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return opened(next_openat(folder, path, flags, mode));
}

int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return opened(next_openat(folder, path, flags, mode));
}

int close(int fd) {
  if (hidden(fd)) return refuse();
  if (!Guard::mine()) drop_node(fd);
  return next_close(fd);
}

int close_range(unsigned first, unsigned last, int flags) noexcept {
  if ((flags & static_cast<int>(CLOSE_RANGE_CLOEXEC)) != 0 || first > last)
    return next_close_range(first, last, flags);
  drop_nodes(first, last);
  return close_others(first, last, flags);
}

void closefrom(int first) noexcept {
  const unsigned from = first < 0 ? 0 : static_cast<unsigned>(first);
  drop_nodes(from, all);
  const int kept = sink().fd();
  if (kept < 0 || static_cast<unsigned>(kept) < from) return next_closefrom(first);
  // Kernels before 5.9 have no close_range().
  if (static_cast<unsigned>(kept) > from &&
      raw(SYS_close_range, from, static_cast<unsigned>(kept) - 1, 0) != 0)
    for (int fd = static_cast<int>(from); fd < kept; fd++)
      raw(SYS_close, static_cast<std::uint64_t>(fd));
  next_closefrom(kept + 1);
}

int dup(int fd) noexcept {
  if (hidden(fd)) return refuse();
  return copied(fd, next_dup(fd));
}

int dup2(int from, int to) noexcept {
  if (hidden(from)) return refuse();
  make_way(from, to);
  return copied(from, next_dup2(from, to));
}

int dup3(int from, int to, int flags) noexcept {
  if (hidden(from)) return refuse();
  if ((flags & ~O_CLOEXEC) == 0) make_way(from, to);
  return copied(from, next_dup3(from, to, flags));
}

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(fd, command, argument);
}

}  // extern "C"

#pragma GCC visibility pop

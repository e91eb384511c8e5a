// SPDX-License-Identifier: MIT
// Small programs for the tests of the shim, each under a name.
//   capture_probe NAME NODE
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "capture/stock_client.hpp"

extern char** environ;

namespace {

using rkchain::test::ClientBuffer;
using rkchain::test::make_submit;
using rkchain::test::Work;

const char* self = nullptr;
const char* node = nullptr;

int open_node() { return open(node, O_RDWR | O_CLOEXEC); }

/// Some submits from beginning to end.
bool some_work(std::uint32_t submits) {
  const int fd = open_node();
  Work work;
  if (fd < 0 || !work.create(fd)) return false;
  bool good = true;
  for (std::uint32_t i = 0; i < submits; i++) {
    work.build(1 + i % Work::kMost);
    good = work.submit(i % 3, 1 + i % Work::kMost) == 0 && work.right() && good;
  }
  return work.destroy() && close(fd) == 0 && good;
}

int verdict(bool good) {
  std::puts(good ? "good" : "bad");
  return good ? 0 : 1;
}

bool wait_for(pid_t child) {
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// ---- what a program can see -----------------------------------------------------

/// Prints what a call came to.
template <typename Call>
void tell(const char* what, const Call& call) {
  errno = 77;
  const long result = call();
  std::printf("%s: %ld, errno %d\n", what, result < -1 || result > 4096 ? 1L : result, errno);
}

void bad_arguments(int fd) {
  char* const page = static_cast<char*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(page + 4096, 4096, PROT_NONE);
  for (int number = 0; number < RKNPU_IOCTLS; number++) {
    const unsigned long command = _IOC(_IOC_READ | _IOC_WRITE, 'd', 0x40 + number, 104);
    tell("null", [&] { return ioctl(fd, command, nullptr); });
    tell("unmapped", [&] { return ioctl(fd, command, page + 4096); });
    tell("half", [&] { return ioctl(fd, command, page + 4096 - 4); });
  }
  tell("create", [&] { return ioctl(fd, rkchain::test::create_command(), page + 4096 - 8); });
  munmap(page, 8192);
}

void sizes(int fd) {
  for (const unsigned size : {0U, 8U, 32U, 40U, 48U, 56U}) {
    rknpu_mem_create create[2]{};
    create[0].size = 4096;
    const unsigned long command = _IOC(_IOC_READ | _IOC_WRITE, 'd', 0x42, size);
    tell("MEM_CREATE", [&] { return ioctl(fd, command, create); });
    if (create[0].handle == 0) continue;
    rknpu_mem_destroy gone{};
    gone.handle = create[0].handle;
    tell("MEM_DESTROY", [&] { return ioctl(fd, RKNPU_IOCTL_MEM_DESTROY, &gone); });
    tell("MEM_DESTROY", [&] { return ioctl(fd, RKNPU_IOCTL_MEM_DESTROY, &gone); });
  }
}

void submits(int fd) {
  Work work;
  work.create(fd);
  work.build(1);
  rknpu_submit args = make_submit(work.tasks().object, 1, 1);
  tell("submit", [&] { return ioctl(fd, RKNPU_IOCTL_SUBMIT, &args); });
  std::printf("counter %u, elapsed %lld\n", args.task_counter,
              static_cast<long long>(args.hw_elapse_time));
  args.task_number = 0;
  tell("no tasks", [&] { return ioctl(fd, RKNPU_IOCTL_SUBMIT, &args); });
  args = make_submit(0x1234, 0, 1);
  tell("no array", [&] { return ioctl(fd, RKNPU_IOCTL_SUBMIT, &args); });
  args = make_submit(work.tasks().object, 0, 0xffffffff);
  args.subcore_task[0] = {0xfffffff0, 0xffffffff};
  tell("many tasks", [&] { return ioctl(fd, RKNPU_IOCTL_SUBMIT, &args); });
  rknpu_task task{};
  task.regcmd_addr = 0xffffff000;
  task.regcfg_amount = 0xffffffff;
  task.int_mask = RKNPU_INT_DPU;
  std::memcpy(work.tasks().memory, &task, sizeof(task));
  args = make_submit(work.tasks().object, 0, 1);
  tell("no program", [&] { return ioctl(fd, RKNPU_IOCTL_SUBMIT, &args); });
  rknpu_action action{RKNPU_GET_DRV_VERSION, 0};
  tell("version", [&] { return ioctl(fd, RKNPU_IOCTL_ACTION, &action); });
  std::printf("version %u\n", action.value);
  action.flags = RKNPU_GET_FREQ;
  tell("frequency", [&] { return ioctl(fd, RKNPU_IOCTL_ACTION, &action); });
  work.destroy();
}

void descriptors(int fd) {
  tell("dup", [&] { return dup(fd); });
  tell("dup2", [&] { return dup2(fd, 50); });
  tell("dup2 same", [&] { return dup2(fd, fd); });
  tell("dup2 from none", [&] { return dup2(400, 50); });
  tell("dup2 to none", [&] { return dup2(fd, -1); });
  tell("dup3", [&] { return dup3(fd, 51, O_CLOEXEC); });
  tell("dup3 same", [&] { return dup3(fd, fd, 0); });
  tell("dup3 flags", [&] { return dup3(fd, 52, 1); });
  tell("F_DUPFD", [&] { return fcntl(fd, F_DUPFD, 60); });
  tell("F_DUPFD_CLOEXEC", [&] { return fcntl(fd, F_DUPFD_CLOEXEC, 60); });
  tell("F_DUPFD far", [&] { return fcntl(fd, F_DUPFD, 1 << 30); });
  tell("F_GETFD", [&] { return fcntl(fd, F_GETFD); });
  tell("F_GETFD none", [&] { return fcntl(400, F_GETFD); });
  tell("close", [&] { return close(50); });
  tell("close again", [&] { return close(50); });
  tell("close none", [&] { return close(-1); });
  tell("close_range", [&] { return close_range(51, 70, 0); });
  tell("close_range wrong", [&] { return close_range(70, 51, 0); });
  tell("close_range flags", [&] { return close_range(51, 70, 1 << 20); });
  tell("open none", [&] { return open("/nowhere/at/all", O_RDONLY); });
  tell("openat none", [&] { return openat(400, "nowhere", O_RDONLY); });
  tell("open", [&] { return open("/dev/null", O_RDONLY); });
  tell("openat", [&] { return openat(AT_FDCWD, "/dev/null", O_RDONLY); });
  tell("ioctl none", [&] { return ioctl(400, RKNPU_IOCTL_ACTION, nullptr); });
  tell("ioctl other", [&] { return ioctl(0, RKNPU_IOCTL_ACTION, nullptr); });
  tell("ioctl chain", [&] { return ioctl(0, _IOC(3, 0xb7, 0x30, 64), nullptr); });
}

void memory(int fd) {
  ClientBuffer buffer;
  buffer.create(fd, 3 * 4096, rkchain::test::kData);
  tell("munmap part", [&] { return munmap(buffer.memory + 4096, 4096); });
  tell("munmap part again", [&] { return munmap(buffer.memory + 4096, 4096); });
  tell("munmap odd", [&] { return munmap(buffer.memory + 1, 4096); });
  tell("munmap none", [&] { return munmap(buffer.memory, 0); });
  const auto place = [&](void* at, int flags, int file, off_t offset) {
    return reinterpret_cast<long>(mmap(at, 4096, PROT_READ, flags, file, offset));
  };
  tell("mmap over",
       [&] { return place(buffer.memory, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); });
  tell("mmap odd", [&] { return place(nullptr, MAP_SHARED, fd, 1); });
  tell("mmap none", [&] { return place(nullptr, MAP_SHARED, 400, 0); });
  tell("destroy", [&] { return buffer.destroy(fd) ? 0 : -1; });
  tell("sync", [&] { return buffer.sync(fd, RKNPU_MEM_SYNC_FROM_DEVICE); });
}

int transcript() {
  const int fd = open_node();
  std::printf("node %d\n", fd);
  bad_arguments(fd);
  sizes(fd);
  submits(fd);
  memory(fd);
  descriptors(fd);
  tell("close node", [&] { return close(fd); });
  tell("submit closed", [&] { return ioctl(fd, RKNPU_IOCTL_SUBMIT, nullptr); });
  return 0;
}

// ---- what happens to descriptors --------------------------------------------------

int close_loop() {
  bool good = some_work(2);
  for (int fd = 3; fd < 2000; fd++) close(fd);
  good = some_work(2) && good;
  closefrom(3);
  good = some_work(2) && good;
  good = close_range(3, ~0U, 0) == 0 && some_work(2) && good;
  // Past everybody.
  syscall(SYS_close_range, 3U, ~0U, 0U);
  return verdict(some_work(2) && good);
}

/// Takes every number up to 1100 for a file of its own, which must stay empty.
int take_numbers() {
  rlimit limit{2048, 2048};
  setrlimit(RLIMIT_NOFILE, &limit);
  bool good = some_work(1);
  const int own = memfd_create("own", MFD_CLOEXEC);
  for (int fd = 900; fd <= 1100; fd++) good = dup2(own, fd) == fd && good;
  good = some_work(3) && good;
  for (int fd = 900; fd <= 1100; fd++) good = close(fd) == 0 && good;
  return verdict(lseek(own, 0, SEEK_END) == 0 && some_work(1) && good);
}

int closed_stderr() {
  close(2);
  const bool good = some_work(2);
  // What gets the number is not to be written to.
  const int other = memfd_create("other", 0);
  return verdict(some_work(2) && other == 2 && lseek(other, 0, SEEK_END) == 0 && good);
}

/// Standard error cannot be opened again once its copy is gone; a copy in its place is written to.
int late_pipe() {
  bool good = some_work(1);
  int sink = -1;
  for (int fd = 3; fd < 1100; fd++)
    if (fcntl(fd, F_GETFD) >= 0) sink = fd;
  syscall(SYS_close, sink);
  good = some_work(2) && good;
  good = syscall(SYS_dup3, 2, sink, O_CLOEXEC) == sink && good;
  return verdict(some_work(1) && good);
}

// ---- processes ------------------------------------------------------------------

int in_fork() {
  const int fd = open_node();
  Work work;
  bool good = work.create(fd);
  work.build(1);
  good = work.submit(0, 1) == 0 && good;
  const pid_t child = fork();
  if (child == 0) {
    // The file and its buffers are the parent's as well.
    const bool fine = work.submit(1, 1) == 0 && work.right() && some_work(3);
    std::exit(fine ? 0 : 1);
  }
  good = wait_for(child) && work.submit(2, 1) == 0 && good;
  return verdict(work.destroy() && good);
}

int in_raw_fork() {
  bool good = some_work(1);
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (child == 0) _exit(some_work(2) ? 0 : 1);
  return verdict(wait_for(child) && good);
}

int in_vfork() {
  const int fd = open_node();
  Work work;
  bool good = work.create(fd);
  work.build(1);
  good = work.submit(0, 1) == 0 && good;
  const pid_t child = vfork();
  if (child == 0) {
    close(fd);
    for (int i = 3; i < 1100; i++) dup2(0, i);
    closefrom(3);
    execl(self, self, "work", node, nullptr);
    _exit(1);
  }
  good = wait_for(child) && work.submit(1, 1) == 0 && good;
  return verdict(work.destroy() && close(fd) == 0 && good);
}

int with_exec() {
  bool good = some_work(2);
  char work[] = "work";
  char* const arguments[] = {const_cast<char*>(self), work, const_cast<char*>(node), nullptr};
  pid_t child = 0;
  good = posix_spawn(&child, self, nullptr, nullptr, arguments, environ) == 0 && good;
  return verdict(wait_for(child) && some_work(1) && good);
}

int exec_itself() {
  some_work(1);
  if (chdir("/") != 0) return 1;
  execl(self, self, "work", node, nullptr);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  self = "/proc/self/exe";
  node = argv[2];
  const std::map<std::string, int (*)()> programs = {{"work", [] { return verdict(some_work(3)); }},
                                                     {"transcript", transcript},
                                                     {"close-loop", close_loop},
                                                     {"take-numbers", take_numbers},
                                                     {"closed-stderr", closed_stderr},
                                                     {"late-pipe", late_pipe},
                                                     {"fork", in_fork},
                                                     {"raw-fork", in_raw_fork},
                                                     {"vfork", in_vfork},
                                                     {"spawn", with_exec},
                                                     {"exec", exec_itself}};
  const auto found = programs.find(argv[1]);
  return found != programs.end() ? found->second() : 2;
}

// SPDX-License-Identifier: MIT
#include "tools/capture_run.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace rkchain::tool {
namespace {

constexpr std::array passed_on{SIGHUP,  SIGINT,  SIGQUIT,  SIGTERM, SIGUSR1,
                               SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};

/// Blocks the signals that are passed on, so that they can be waited for.
class Blocked {
 public:
  Blocked() {
    sigemptyset(&set_);
    for (const int signal : passed_on) sigaddset(&set_, signal);
    sigaddset(&set_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~Blocked() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;
  [[nodiscard]] const sigset_t& set() const { return set_; }
  [[nodiscard]] const sigset_t& before() const { return before_; }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) failed("pipe: {}", std::strerror(errno));
  }
  ~Pipe() {
    close(ends_[0]);
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_write() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  void write_number(int number) const { (void)!write(ends_[1], &number, sizeof(number)); }
  [[nodiscard]] int read_number() const {
    int number = 0;
    ssize_t got = 0;
    do got = read(ends_[0], &number, sizeof(number));
    while (got < 0 && errno == EINTR);
    return got == sizeof(number) ? number : 0;
  }

 private:
  int ends_[2] = {-1, -1};
};

[[noreturn]] void become(std::vector<char*>& argv,
                         const std::vector<std::pair<std::string, std::string>>& environment,
                         const Pipe& errors, const sigset_t& mask) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execvp(argv[0], argv.data());
  errors.write_number(errno);
  _exit(127);
}

/// @return the child's status
int wait_for(pid_t child, const sigset_t& set) {
  for (;;) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&set, &info);
    if (signal < 0) continue;
    if (signal != SIGCHLD) {
      // What a terminal sends has reached the child as well.
      if (info.si_code != SI_KERNEL) kill(child, signal);
      continue;
    }
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return status;
  }
}

}  // namespace

int run_child(const std::vector<std::string>& command,
              const std::vector<std::pair<std::string, std::string>>& environment,
              std::string& error) {
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  // A child that nobody may wait for would be lost.
  std::signal(SIGCHLD, SIG_DFL);
  const Blocked blocked;
  Pipe errors;
  const pid_t child = fork();
  if (child < 0) failed("fork: {}", std::strerror(errno));
  if (child == 0) become(argv, environment, errors, blocked.before());
  errors.close_write();
  const int cause = errors.read_number();
  const int status = wait_for(child, blocked.set());
  if (cause != 0) {
    error = fmt::format("{}: {}", command.front(), std::strerror(cause));
    return cause == ENOENT ? 127 : 126;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace rkchain::tool

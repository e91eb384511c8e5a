// SPDX-License-Identifier: MIT
// Many threads that open, submit, fork and close at the same time.  Says how many submits each
// core got, and whether anything is left of it.
//   capture_stress NODE SUBMITS
#include <dirent.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "capture/stock_client.hpp"

namespace {

using rkchain::test::Work;

constexpr std::uint32_t kThreads = 8;
constexpr std::uint32_t kForks = 4;      // of each thread
constexpr std::uint32_t kChildWork = 5;  // submits of each child
constexpr std::uint32_t kPerSession = 25;

struct Shared {
  std::atomic<std::uint64_t> cores[3];
  std::atomic<std::uint64_t> tasks;
  std::atomic<std::uint64_t> wrong;
};

const char* node = nullptr;
Shared* shared = nullptr;

void fail() { shared->wrong.fetch_add(1); }

void submit(Work& work, std::uint32_t turn) {
  const std::uint32_t core = turn % 3, tasks = 1 + turn % Work::kMost;
  work.build(tasks);
  if (work.submit(core, tasks) != 0 || !work.right()) fail();
  shared->cores[core].fetch_add(1);
  shared->tasks.fetch_add(tasks);
}

/// The descriptor goes through the dup family on its way.
int open_node(std::uint32_t turn) {
  const int fd = open(node, O_RDWR | O_CLOEXEC);
  if (fd < 0) return fd;
  int other = fd;
  if (turn % 4 == 1) other = dup(fd);
  if (turn % 4 == 2) other = fcntl(fd, F_DUPFD_CLOEXEC, 40);
  if (turn % 4 == 3) {
    other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (dup2(fd, other) != other) fail();
  }
  if (other != fd && close(fd) != 0) fail();
  return other;
}

void session(std::uint32_t turn, std::uint32_t submits) {
  const int fd = open_node(turn);
  Work work;
  if (fd < 0 || !work.create(fd)) return fail();
  for (std::uint32_t i = 0; i < submits; i++) {
    submit(work, turn + i);
    if (i % 8 == 0 && work.data().sync(fd, RKNPU_MEM_SYNC_FROM_DEVICE) != 0) fail();
  }
  if (!work.destroy()) fail();
  if (close(fd) != 0) fail();
}

void fork_one(std::uint32_t turn) {
  const pid_t child = fork();
  if (child == 0) {
    session(turn, kChildWork);
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail();
}

void work(std::uint32_t thread, std::uint32_t submits) {
  std::uint32_t turn = thread, forks = 0;
  for (std::uint32_t done = 0; done < submits; turn++) {
    const std::uint32_t now = submits - done < kPerSession ? submits - done : kPerSession;
    session(turn, now);
    done += now;
    if (forks < kForks && done >= submits * (forks + 1) / (kForks + 1)) {
      forks++;
      fork_one(turn);
    }
  }
  while (forks++ < kForks) fork_one(turn);
}

std::size_t descriptors() {
  std::size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (folder != nullptr && readdir(folder) != nullptr) count++;
  if (folder != nullptr) closedir(folder);
  return count;
}

std::size_t mappings() {
  std::size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(node) != std::string::npos) count++;
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  node = argv[1];
  const auto total = static_cast<std::uint32_t>(std::atoi(argv[2]));
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  shared = new (memory) Shared{};
  const std::size_t before = descriptors();
  const std::uint32_t each = (total - kThreads * kForks * kChildWork) / kThreads;
  const std::uint32_t rest = total - kThreads * (kForks * kChildWork + each);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kThreads; i++)
    threads.emplace_back(work, i, each + (i == 0 ? rest : 0));
  for (std::thread& thread : threads) thread.join();
  const std::size_t after = descriptors();
  std::printf("cores %llu %llu %llu tasks %llu wrong %llu descriptors %+d mappings %zu\n",
              static_cast<unsigned long long>(shared->cores[0]),
              static_cast<unsigned long long>(shared->cores[1]),
              static_cast<unsigned long long>(shared->cores[2]),
              static_cast<unsigned long long>(shared->tasks),
              static_cast<unsigned long long>(shared->wrong), static_cast<int>(after - before),
              mappings());
  return shared->wrong == 0 ? 0 : 1;
}

// SPDX-License-Identifier: MIT
// capture_overhead NODE [ROUNDS]: what being captured costs a SUBMIT, as the ratio of calls through
// ioctl(), where the shim stands, to calls past it.  Prints the median over interleaved rounds of
// submits that the driver refuses at once, which are the shortest there are, and of good ones.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "capture/stock_client.hpp"

namespace {

using rkchain::test::make_submit;
using rkchain::test::Work;
using std::chrono::steady_clock;

constexpr int kCalls = 100;

template <typename Call>
double seconds(Call&& call) {
  const auto start = steady_clock::now();
  for (int i = 0; i < kCalls; i++) call();
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

/// @param expected what each call returns
double ratio(int fd, const rknpu_submit& submit, int rounds, int expected, int& unexpected) {
  const auto check = [&](long result) {
    if ((result != 0 ? -errno : 0) != expected) unexpected++;
  };
  const auto through = [&] {
    rknpu_submit args = submit;
    check(ioctl(fd, RKNPU_IOCTL_SUBMIT, &args));
  };
  const auto past = [&] {
    rknpu_submit args = submit;
    check(syscall(SYS_ioctl, fd, RKNPU_IOCTL_SUBMIT, &args));
  };
  std::vector<double> ratios;
  for (int round = 0; round < rounds; round++) {
    // Who comes first has the colder caches.
    const bool first = round % 2 == 0;
    const double one = first ? seconds(through) : seconds(past);
    const double two = first ? seconds(past) : seconds(through);
    ratios.push_back(first ? one / two : two / one);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[ratios.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 11;
  if (argc < 2 || argc > 3 || rounds < 1) {
    std::fprintf(stderr, "usage: capture_overhead NODE [ROUNDS]\n");
    return 2;
  }
  const int fd = open(argv[1], O_RDWR | O_CLOEXEC);
  Work work;
  if (fd < 0 || !work.create(fd)) {
    std::perror(argv[1]);
    return 1;
  }
  work.build(1);
  int unexpected = work.sync(RKNPU_MEM_SYNC_TO_DEVICE) ? 0 : 1;
  const rknpu_submit good = make_submit(work.tasks().object, 0, 1);
  rknpu_submit refused = good;
  refused.task_number = 0;
  const double of_refused = ratio(fd, refused, rounds, -EINVAL, unexpected);
  const double of_good = ratio(fd, good, rounds, 0, unexpected);
  std::printf("refused %.2f\ngood %.2f\nunexpected %d\n", of_refused, of_good, unexpected);
  const bool right = work.sync(RKNPU_MEM_SYNC_FROM_DEVICE) && work.right() && unexpected == 0;
  return work.destroy() && right ? 0 : 1;
}

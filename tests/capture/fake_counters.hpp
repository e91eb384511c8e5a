// SPDX-License-Identifier: MIT
// What the driver of fake_rknpu.cpp has run, in a file that its processes share.
#pragma once

#include <atomic>
#include <cstdint>

namespace rkchain::test {

struct CoreCounters {
  std::atomic<std::uint64_t> submits[3];
  std::atomic<std::uint64_t> tasks[3];
  std::atomic<std::uint64_t> failed;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace rkchain::test

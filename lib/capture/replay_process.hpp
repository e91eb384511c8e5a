// SPDX-License-Identifier: MIT
// What Replay keeps of each process.
#pragma once

#include <list>
#include <set>

#include "capture/replay.hpp"

namespace rkchain::capture {

/// A submit that the driver has not answered yet.
struct Replay::Open {
  explicit Open(const std::shared_ptr<Budget>& budget) : words(budget) {}
  SubmitResult result;
  rknpu_submit argument{};
  std::uint64_t started = 0;                         ///< record
  std::map<std::uint64_t, std::vector<Task>> tasks;  ///< by index
  Pages words;                                       ///< of the programs, where they lie
  Moment moment;
  std::string unseen;  ///< what the capture says that it could not see
};

struct Replay::Process {
  explicit Process(ProcessImage memory) : image(std::move(memory)) {}
  ProcessImage image;
  std::optional<Depth> depth;
  std::map<std::uint64_t, std::unique_ptr<Open>> open;  ///< by id
  std::list<std::unique_ptr<Pending>> pending;
  std::set<std::uint64_t> chain_submits;  ///< of /dev/rkchain, not answered

  void change(std::uint64_t at, std::uint64_t len) {
    for (auto& each : pending) each->settle(image.now(), at, len, true);
  }
};

}  // namespace rkchain::capture

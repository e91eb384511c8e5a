// SPDX-License-Identifier: MIT
// The work of a capture as wait chains of ours: how few submits it could have been.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/replay.hpp"

namespace rkchain::capture {

/// Counted, not measured: nothing here says what silicon would do.
struct ChainCounts {
  std::uint64_t submits = 0;
  std::uint64_t tasks = 0;
  std::uint64_t interrupts = 0;  ///< one for each core of a submit
  std::uint64_t calls = 0;       ///< ioctls: SUBMIT and MEM_SYNC; of a chain SUBMIT and WAIT
};

struct LeftAlone {
  std::uint32_t pid = 0;
  std::uint64_t id = 0;
  std::uint64_t number = 0;
  std::string why;
};

struct ChainReport {
  ChainCounts captured;
  ChainCounts ours;              ///< with what was left alone
  std::uint64_t taken_over = 0;  ///< submits
  std::uint64_t chains = 0;
  std::uint64_t blocks = 0;
  std::uint64_t longest = 0;  ///< blocks
  std::uint64_t bytes = 0;    ///< of outputs, compared with those of the captured programs
  std::uint64_t equal = 0;
  std::string first;  ///< the first difference or failure
  std::vector<LeftAlone> left;
  std::map<std::string, std::uint64_t> ends;  ///< why chains are not longer
};

/// Gathers the submits of each thread into chains, as long as nobody looks at results in between,
/// and runs each chain on the software NPU with the memory that its submits found.
class ToChain final : public ReplayObserver {
 public:
  ToChain();
  ~ToChain() override;
  /// Where chains run and what they may hold; before the first record.
  void use(Replay& replay);

  void replayed(const Replayed& submit) override;
  void passed_over(const SubmitResult& submit) override;
  void synced(std::uint32_t pid, bool from_device) override;
  /// After the last record.
  ChainReport finish();

 private:
  struct Group;
  using Key = std::pair<std::uint32_t, std::uint32_t>;  ///< pid, tid

  void leave(const SubmitResult& submit, const std::string& why);
  void end(Key key, const std::string& why);
  void end_process(std::uint32_t pid, const std::string& why);
  void run(Group& group);
  void compare(const Group& group, const Pages& outputs);

  Replay* replay_ = nullptr;
  std::map<Key, std::unique_ptr<Group>> groups_;
  ChainReport report_;
  std::uint64_t syncs_ = 0;
};

}  // namespace rkchain::capture

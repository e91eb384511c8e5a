// SPDX-License-Identifier: MIT
// What there is in a simulation of the scheduling policy: clients with their chains, other
// programs, cores, and the driver.  Seen by the module around the policy and by its oracle.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kmod/core/check.h"
#include "kmod/core/cores.h"
#include "kmod/core/share.h"
#include "unit/simulated_driver.hpp"

namespace rkchain::sim {

inline constexpr Time kHang = kS;
inline constexpr std::uint32_t kStrikes = 3;
inline constexpr std::uint64_t kNone = ~std::uint64_t{0};
/// What waits for a time may be this late.
inline constexpr Time kTick = 4 * kMs;

inline constexpr int kEio = -5;
inline constexpr int kEnodev = -19;
inline constexpr int kEtime = -62;
inline constexpr int kEcanceled = -125;

/// The policy as the module calls it; a control takes one rule out.
struct Policy {
  std::function<Time(const rkc_cores&, std::uint32_t, Time)> opens =
      [](const rkc_cores& c, std::uint32_t id, Time now) { return rkc_cores_opens(&c, id, now); };
  std::function<rkc_verdict(rkc_cores&, std::uint32_t, Time, rkc_return&)> back =
      [](rkc_cores& c, std::uint32_t id, Time now, rkc_return& r) {
        return rkc_cores_back(&c, id, now, &r);
      };
  std::function<bool(rkc_cores&, std::uint32_t, const rkc_run_end&)> finish =
      [](rkc_cores& c, std::uint32_t id, const rkc_run_end& end) {
        return rkc_cores_finish(&c, id, &end, kStrikes);
      };
  std::function<Time(rkc_cores&, Time, bool, std::uint32_t&)> watch =
      [](rkc_cores& c, Time now, bool alone, std::uint32_t& reset) {
        return rkc_cores_watch(&c, now, kHang, alone, &reset);
      };
};

struct Client;

/// One chain of a client, and what became of it.
struct Chain {
  std::uint64_t id = 0;
  Client* client = nullptr;
  std::uint64_t sequence = 0;
  std::uint32_t mask = RKC_CORES_ALL;
  Time estimate = 0;
  Time duration = 0;        // of each part
  std::uint32_t parts = 1;  // submits
  bool replayable = true;
  bool follows = false;
  std::uint64_t after = 0;
  Time deadline = 0;

  bool running = false;
  bool late = false;
  std::uint32_t retries = 0;
  std::uint32_t part = 0;
  JobPtr job;                // the last one
  bool left_behind = false;  // another program was there when it was submitted

  // The truth.
  std::uint32_t starts = 0;
  std::uint32_t effects = 0;  // on memory: how often it has been added
  bool written = false;
  std::uint32_t completions = 0;
};
using ChainPtr = std::shared_ptr<Chain>;

struct Client {
  std::int32_t priority = 0;
  rkc_share share{};
  bool active = false;
  std::uint64_t next = 1;
  std::list<ChainPtr> queue;
  std::set<std::uint64_t> live;
  std::set<std::uint64_t> failed;
  std::uint64_t outstanding = 0;
  std::uint64_t done_ns = 0;
};

struct World {
  std::uint64_t seed = 1;
  std::uint64_t chains = 20'000;
  Faults faults;
  bool alone = false;
  Others others;
  bool plain = false;  ///< every core, nothing else asked for, always more to do
  std::vector<std::int32_t> priorities{0, 0, 1, -1};
};

struct Figures {
  std::uint64_t chains = 0, resets = 0, actions = 0, replays = 0, poisoned = 0, aside = 0;
  std::uint64_t rebinds = 0, missed_for_hung = 0, left_behind = 0, gave_up = 0;
  std::uint64_t met_foreign = 0, hung = 0;
  std::map<int, std::uint64_t> status;
  std::map<std::int32_t, std::uint64_t> served;  // by priority: core time
  std::map<std::string, std::uint64_t> wrong;    // what must not happen
  std::string first;
};

/// Where it all happens.
class Scene {
 protected:
  struct Core {
    ChainPtr chain;
    bool at_gate = false;
    std::uint64_t turn = 0;  // of waiting: an older one has been overtaken
    Time out = 0;            // since when the driver has its submit: the oracle's own book
  };

  explicit Scene(const World& world)
      : world_(world), dice_(world.seed), driver_(clock_, dice_, world.faults) {
    rkc_cores_init(&npu_, 0);
    for (const std::int32_t priority : world.priorities) {
      clients_.push_back(std::make_unique<Client>());
      clients_.back()->priority = priority;
    }
    if (!world.alone)
      for (int i = 0; i < 2; ++i)
        others_.push_back(
            std::make_unique<StockClient>(clock_, dice_, driver_, world.others, stopping_));
  }
  // Others hold references to what is in it.
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  ~Scene() = default;

  bool others_present() const {
    return std::any_of(others_.begin(), others_.end(),
                       [](const auto& other) { return other->present(); });
  }

  bool ready(const Chain& chain) const {
    return !chain.follows || *chain.client->live.begin() > chain.after;
  }

  World world_;
  Clock clock_;
  Dice dice_;
  Driver driver_;
  rkc_cores npu_{};
  std::array<Core, RKC_CORES> cores_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<StockClient>> others_;
  std::uint64_t completed_ = 0;
  bool stopping_ = false;
  bool in_reset_ = false;
  Figures figures_;
};

}  // namespace rkchain::sim

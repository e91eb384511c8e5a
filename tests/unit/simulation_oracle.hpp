// SPDX-License-Identifier: MIT
// What must not happen in a simulation of the scheduling policy.  It sees what the policy cannot,
// and keeps books of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kmod/core/cores.h"
#include "unit/simulated_driver.hpp"
#include "unit/simulation_scene.hpp"

namespace rkchain::sim {

class Oracle : protected Scene {
 protected:
  using Scene::Scene;
  ~Oracle() = default;

  void wrong(const std::string& what) {
    if (figures_.wrong[what]++ == 0 && figures_.first.empty())
      figures_.first = what + " at " + std::to_string((clock_.now() - 1'000 * kS) / kMs) + " ms";
  }
  void wrong(const std::string& what, const Chain& chain) {
    wrong(what);
    if (figures_.first.find("chain") == std::string::npos)
      figures_.first += ", chain " + std::to_string(chain.id);
  }

  /// The driver counts it.
  void count(std::uint64_t how_often, const std::string& what) {
    if (how_often == 0) return;
    if (figures_.wrong[what] == 0) wrong(what);
    figures_.wrong[what] = how_often;
  }

  /// Is @p now inside the window of a submit that the driver has?  Any of them may time out.
  bool in_window(Time now, Time margin) const {
    return std::any_of(cores_.begin(), cores_.end(), [&](const Core& core) {
      if (core.out == 0) return false;
      const Time age = now - core.out;
      for (Time k = 1; k <= 4; ++k)
        if (age + margin >= 6 * k * kS && age < 6 * k * kS * 9 / 8 + 300 * kMs) return true;
      return false;
    });
  }

  /// The longest estimate of all that runs and of the one on @p id.
  Time longest(std::size_t id) const {
    Time longest = cores_[id].chain->estimate;
    for (const Core& core : cores_)
      if (core.out != 0) longest = std::max(longest, core.chain->estimate);
    return longest;
  }

  bool any_older_than(Time age) const {
    return std::any_of(cores_.begin(), cores_.end(), [&](const Core& core) {
      return core.out != 0 && clock_.now() - core.out > age;
    });
  }

  bool alone_for(Time span) const {
    return !others_present() && clock_.now() - alone_since_ > span;
  }

  void check_submit(std::size_t id) {
    const Chain& chain = *cores_[id].chain;
    if (in_window(clock_.now(), longest(id))) wrong("submit in the reset window", chain);
    if (alone_for(RKC_ALONE_AGAIN_NS + 3 * kTick) && any_older_than(kHang + 2 * kTick))
      wrong("submit though something hangs", chain);
    if ((lost_ & 1U << id) != 0) wrong("submit to a core that is lost", chain);
    if (in_reset_) wrong("submit during an own reset", chain);
    if (cores_[id].out != 0) wrong("two submits on a core", chain);
    if ((chain.mask & 1U << id) == 0) wrong("submit to a core that was not allowed", chain);
  }

  /// After each event: does anything stand still that need not?
  void look() {
    if (others_present()) alone_since_ = clock_.now();
    const Driver::Counts& counts = driver_.counts();
    count(counts.traps, "trap");
    count(counts.young_hit, "an own reset hit what was young");
    count(counts.foreign_hit, "an own reset hit another program's job");
    count(counts.met_own, "submit during the reset of an own time-out");
    count(counts.met_noticed, "submit during a reset that was known of");
    stands_still_ = clock_.now() - last_end_ > 600 * kS;
    if (stands_still_) wrong("everything stands still");
    if (stopping_) return;
    const std::uint32_t idle = npu_.rotor.usable & ~npu_.rotor.busy;
    if (idle != 0)
      for (const auto& client : clients_)
        for (const ChainPtr& chain : client->queue)
          if ((chain->mask & idle) != 0 && ready(*chain)) wrong("idle core", *chain);
    for (std::size_t id = 0; id < cores_.size(); ++id) {
      if (!cores_[id].at_gate) continue;
      const Time margin = longest(id) + RKC_WINDOW_SLACK_NS;
      const Time before = clock_.now() - 3 * kTick;
      const bool closed = in_window(clock_.now(), margin) || in_window(before, margin) ||
                          any_older_than(kHang) || in_reset_ ||
                          clock_.now() - changed_ < RKC_RESET_NS + 3 * kTick;
      if (!closed) wrong("waits at an open gate", *cores_[id].chain);
    }
  }

  void judge(const Chain& chain, int status) {
    const bool other_way = (chain.mask & npu_.rotor.usable) != 0 && !stopping_;
    const JobPtr& job = chain.job;
    switch (status) {
      case 0:
        if (!chain.written || (!chain.replayable && chain.effects != 1))
          wrong("reported well and is not", chain);
        break;
      case kEtimedout:
        if (job && job->hung) break;
        // Two that look the same from outside: its own age and errno are all that there is.
        if (job && job->hit && job->missed && job->cause != Cause::kOwnAction) {
          ++figures_.missed_for_hung;
        } else if (job && job->hit && job->cause == Cause::kOwnAction && chain.left_behind) {
          ++figures_.left_behind;
        } else {
          wrong("reported as hung and was not", chain);
        }
        break;
      case kEio:
        if (!job || !(job->hit || job->gave_up)) wrong("reported as hit and was not", chain);
        if (chain.replayable && chain.retries == 0 && !chain.late && other_way)
          wrong("could have been run again", chain);
        figures_.gave_up += job && !job->hit;
        break;
      case kEnodev:
        if (other_way) wrong("no core, though there is one", chain);
        break;
      case kEcanceled:
        if (!chain.follows || chain.client->failed.empty() ||
            *chain.client->failed.begin() > chain.after)
          wrong("cancelled for nothing", chain);
        if (chain.starts != 0 && chain.retries == 0) wrong("cancelled though it ran", chain);
        break;
      case kEtime:
        if (chain.deadline == 0 || chain.deadline > clock_.now()) wrong("not late", chain);
        break;
      default:
        wrong("unknown status", chain);
    }
    if (!chain.replayable && chain.starts > 1) wrong("ran twice and may not", chain);
  }

  Time last_end_ = clock_.now();
  bool stands_still_ = false;
  std::uint32_t lost_ = 0;  // cores that nothing may be given to
  Time changed_ = 0;        // when what the gate depends on has changed last
  Time alone_since_ = 0;
};

}  // namespace rkchain::sim

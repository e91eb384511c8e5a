// SPDX-License-Identifier: MIT
// The module around the scheduling policy of kmod/core, in virtual time, as kmod has it: queues, a
// thread per core, the watch, and the administrator who brings back what was lost.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kmod/core/check.h"
#include "kmod/core/cores.h"
#include "kmod/core/share.h"
#include "unit/simulated_driver.hpp"
#include "unit/simulation_oracle.hpp"
#include "unit/simulation_scene.hpp"

namespace rkchain::sim {

class Simulation : private Oracle {
 public:
  Simulation(const World& world, Policy policy) : Oracle(world), policy_(std::move(policy)) {}

  Figures run() {
    for (const auto& other : others_) other->live([this] { return over(); });
    for (const auto& client : clients_) fill(*client);
    kick_watch();
    while (!over() && clock_.step()) look();
    for (const ChainPtr& chain : all_)
      if (chain->completions == 0) wrong("lost", *chain);
    collect();
    return figures_;
  }

 private:
  bool over() const {
    return completed_ >= world_.chains || stands_still_ || driver_.counts().traps > 0;
  }

  // ---- clients --------------------------------------------------------------------

  void fill(Client& client) {
    while (client.outstanding < 16 && figures_.chains < world_.chains) {
      if (stopping_ || npu_.rotor.usable == 0) {
        clock_.after(50 * kMs, [this, &client] { fill(client); });
        return;
      }
      submit(client, make(client));
      // Now and then there is nothing to do.
      if (!world_.plain && dice_.chance(10'000)) {
        clock_.after(dice_.between(kMs, 30 * kMs), [this, &client] { fill(client); });
        return;
      }
    }
  }

  ChainPtr make(Client& client) {
    const auto chain = std::make_shared<Chain>();
    chain->id = figures_.chains++;
    chain->client = &client;
    chain->sequence = client.next++;
    const auto blocks =
        static_cast<std::uint32_t>(dice_.between(1, dice_.chance(50'000) ? 40 : kMostBlocks));
    rkc_cost cost{};
    cost.macs = blocks * dice_.between(1, 100) * 100'000;
    cost.bytes = blocks * dice_.between(1, 100) * 1'000;
    if (!world_.plain && dice_.chance(5'000))
      chain->parts = static_cast<std::uint32_t>(dice_.between(2, 4));
    chain->estimate = std::min<Time>(rkc_estimate_ns(&cost, blocks, chain->parts), kHang / 2);
    // Estimates are slow ones, but some are not.
    const Time per_mille = dice_.chance(500) ? dice_.between(1000, 1500) : dice_.between(100, 900);
    chain->duration = std::max<Time>(chain->estimate * per_mille / 1000 / chain->parts, 10 * kUs);
    if (world_.plain) return chain;
    chain->replayable = dice_.chance(70'000);
    if (dice_.chance(20'000)) chain->mask = static_cast<std::uint32_t>(dice_.between(1, 7));
    if ((chain->mask & npu_.rotor.usable) == 0) chain->mask = npu_.rotor.usable;
    if (chain->sequence > 1 && dice_.chance(10'000)) {
      chain->follows = true;
      chain->after = chain->sequence - 1 - dice_.between(0, std::min<Time>(3, chain->sequence - 2));
    }
    if (dice_.chance(3'000)) chain->deadline = clock_.now() + dice_.between(10 * kMs, 5 * kS);
    return chain;
  }

  void submit(Client& client, const ChainPtr& chain) {
    all_.push_back(chain);
    ++client.outstanding;
    if (client.queue.empty()) rkc_share_wake(&client.share, level_);
    client.live.insert(chain->sequence);
    client.queue.push_back(chain);
    if (chain->deadline != 0) kick_watch();
    dispatch();
  }

  void conclude(const ChainPtr& chain, int status) {
    if (++chain->completions > 1) wrong("completed twice", *chain);
    judge(*chain, status);
    Client& client = *chain->client;
    client.live.erase(chain->sequence);
    if (status != 0 || chain->late) client.failed.insert(chain->sequence);
    --client.outstanding;
    ++figures_.status[status];
    ++completed_;
    last_end_ = clock_.now();
    clock_.after(0, [this, &client] { fill(client); });
  }

  void cancel_followers(Client& client, std::uint64_t failed) {
    for (auto i = client.queue.begin(); i != client.queue.end();) {
      const ChainPtr chain = *i++;
      if (!chain->follows || chain->after < failed) continue;
      client.queue.remove(chain);
      conclude(chain, kEcanceled);
    }
  }

  void end(const ChainPtr& chain, int status) {
    conclude(chain, status);
    if (status != 0) cancel_followers(*chain->client, chain->sequence);
  }

  void end_impossible(std::uint32_t cores) {
    for (const auto& client : clients_)
      for (auto i = client->queue.begin(); i != client->queue.end();) {
        const ChainPtr chain = *i;
        if ((chain->mask & cores) != 0) {
          ++i;
          continue;
        }
        client->queue.erase(i);
        end(chain, kEnodev);
        i = client->queue.begin();
      }
  }

  // ---- rotation -------------------------------------------------------------------

  std::uint32_t cores_for(const Chain& chain) const {
    return ready(chain) ? rkc_rotor_free(&npu_.rotor) & chain.mask : 0;
  }

  void dispatch() {
    while (!stopping_ && rkc_rotor_free(&npu_.rotor) != 0) {
      ChainPtr best;
      for (const auto& client : clients_) {
        if (best && client->share.had >= best->client->share.had) continue;
        const auto first = std::find_if(client->queue.begin(), client->queue.end(),
                                        [&](const ChainPtr& c) { return cores_for(*c) != 0; });
        if (first != client->queue.end()) best = *first;
      }
      if (!best) return;
      start(best);
    }
  }

  void start(const ChainPtr& chain) {
    Client& client = *chain->client;
    const int id = rkc_cores_take(&npu_, cores_for(*chain), chain->estimate);
    client.queue.remove(chain);
    level_ = std::max(level_, client.share.had);
    rkc_share_charge(&client.share, chain->estimate, client.priority);
    chain->running = true;
    chain->part = 0;
    chain->job = nullptr;
    started_[static_cast<std::size_t>(id)] = clock_.now();
    cores_[static_cast<std::size_t>(id)].chain = chain;
    clock_.after(dice_.between(10 * kUs, 100 * kUs), [this, id] { pass(id); });
    if (watch_asleep_) kick_watch();
  }

  // ---- a core's thread --------------------------------------------------------------

  void open_gate() {
    for (std::size_t id = 0; id < cores_.size(); ++id)
      if (cores_[id].at_gate) {
        const std::uint64_t turn = ++cores_[id].turn;
        clock_.after(10 * kUs, [this, id, turn] {
          if (cores_[id].turn == turn) pass(static_cast<int>(id));
        });
      }
  }

  void pass(int core_id) {
    const auto id = static_cast<std::size_t>(core_id);
    Core& core = cores_[id];
    core.at_gate = false;
    const Time now = clock_.now();
    if (stopping_) {
      rkc_return r{};
      r.error = kEnodev;
      r.committed = true;
      finish(core_id, {rkc_judge(&r), false, false});
      return;
    }
    const Time opens = policy_.opens(npu_, static_cast<std::uint32_t>(id), now);
    if (opens != 0) {
      core.at_gate = true;
      const std::uint64_t turn = ++core.turn;
      if (opens != RKC_NEVER)
        clock_.after(opens - now + dice_.between(0, kTick), [this, core_id, id, turn] {
          if (cores_[id].turn == turn) pass(core_id);
        });
      return;
    }
    if (!world_.plain && dice_.chance(100)) {
      // Another IOMMU domain came into force meanwhile.
      rkc_cores_submit(&npu_, static_cast<std::uint32_t>(id), now);
      rkc_cores_recall(&npu_, static_cast<std::uint32_t>(id));
      open_gate();
      clock_.after(10 * kMs, [this, core_id] { pass(core_id); });
      return;
    }
    check_submit(id);
    rkc_cores_submit(&npu_, static_cast<std::uint32_t>(id), now);
    changed_ = any_out() ? changed_ : now;
    core.out = now;
    give(core_id);
  }

  bool any_out() const {
    return std::any_of(cores_.begin(), cores_.end(), [](const Core& c) { return c.out != 0; });
  }

  void give(int id) {
    const ChainPtr chain = cores_[static_cast<std::size_t>(id)].chain;
    const auto job = std::make_shared<Job>();
    const bool first = chain->part == 0;
    const bool last = chain->part + 1 == chain->parts;
    job->core = id;
    job->duration = chain->duration;
    // Chains stay as long as the simulation does.
    job->started = [c = chain.get(), first] { c->starts += first; };
    job->executed = [c = chain.get(), last] {
      if (!last) return;
      ++c->effects;
      c->written = true;
    };
    job->returned = [this, id, job = std::weak_ptr<Job>(job)](int error) {
      returned(id, job.lock(), error);
    };
    chain->job = job;
    chain->left_behind = others_present();
    driver_.submit(job);
  }

  void returned(int core_id, const JobPtr& job, int error) {
    const auto id = static_cast<std::size_t>(core_id);
    Core& core = cores_[id];
    const Time now = clock_.now();
    if ((error == 0) != job->done) wrong("the driver itself is wrong", *core.chain);
    rkc_return r{};
    r.error = error;
    r.committed = job->committed;
    r.replayable = core.chain->replayable;
    r.retries = core.chain->retries;
    const rkc_verdict verdict = policy_.back(npu_, static_cast<std::uint32_t>(id), now, r);
    const bool oldest = std::all_of(cores_.begin(), cores_.end(), [&](const Core& other) {
      return other.out == 0 || other.out >= core.out;
    });
    core.out = 0;
    if (error != 0 || oldest) changed_ = now;
    open_gate();
    if (npu_.resetting) kick_watch();
    if (error == 0 && ++core.chain->part < core.chain->parts) {
      pass(core_id);
      return;
    }
    finish(core_id, {verdict, error != 0, false});
  }

  void finish(int core_id, const rkc_run_end& end_of_run) {
    const auto id = static_cast<std::size_t>(core_id);
    const ChainPtr chain = cores_[id].chain;
    Client& client = *chain->client;
    const Time took = clock_.now() - started_[id];
    chain->running = false;
    if (took > chain->estimate)
      rkc_share_charge(&client.share, took - chain->estimate, client.priority);
    figures_.served[client.priority] += took;
    cores_[id].chain = nullptr;
    const std::uint32_t poisoned = npu_.poisoned;
    const bool lost = policy_.finish(npu_, static_cast<std::uint32_t>(id), end_of_run);
    if (end_of_run.failed && end_of_run.verdict.poisoned) lost_ |= 1U << id;
    if (lost) {
      (npu_.poisoned != poisoned ? figures_.poisoned : figures_.aside) += 1;
      lost_ |= 1U << id;
      end_impossible(npu_.rotor.usable);
      administer(core_id);
    }
    const rkc_fate fate = end_of_run.verdict.fate;
    if (fate == RKC_FATE_AGAIN && !chain->late && !stopping_ &&
        (chain->mask & npu_.rotor.usable) != 0) {
      ++chain->retries;
      ++figures_.replays;
      auto where = std::find_if(client.queue.begin(), client.queue.end(),
                                [&](const ChainPtr& c) { return c->sequence > chain->sequence; });
      client.queue.insert(where, chain);
    } else {
      static const std::map<rkc_fate, int> status{{RKC_FATE_DONE, 0},
                                                  {RKC_FATE_HUNG, kEtimedout},
                                                  {RKC_FATE_AGAIN, kEio},
                                                  {RKC_FATE_HIT, kEio},
                                                  {RKC_FATE_GONE, kEnodev}};
      end(chain, status.at(fate));
    }
    dispatch();
  }

  // ---- the watch ----------------------------------------------------------------------

  void kick_watch() { plan_watch(0); }

  void plan_watch(Time delay) {
    if (in_reset_) return;  // it looks as soon as that is over
    const std::uint64_t turn = ++watch_turn_;
    clock_.after(delay, [this, turn] {
      if (turn == watch_turn_ && !in_reset_) watch();
    });
  }

  Time expire() {
    const Time now = clock_.now();
    Time next = RKC_NEVER;
    for (const auto& client : clients_) {
      std::uint64_t failed = kNone;
      for (auto i = client->queue.begin(); i != client->queue.end();) {
        const ChainPtr chain = *i++;
        if (chain->deadline == 0) continue;
        if (chain->deadline > now) {
          next = std::min(next, chain->deadline);
          continue;
        }
        failed = std::min(failed, chain->sequence);
        client->queue.remove(chain);
        conclude(chain, kEtime);
      }
      if (failed != kNone) cancel_followers(*client, failed);
    }
    for (const Core& core : cores_) {
      const ChainPtr chain = core.chain;
      if (!chain || chain->deadline == 0 || chain->late) continue;
      if (chain->deadline > now) {
        next = std::min(next, chain->deadline);
        continue;
      }
      chain->late = true;
      chain->client->failed.insert(chain->sequence);
      cancel_followers(*chain->client, chain->sequence);
    }
    return next;
  }

  void watch() {
    const Time now = clock_.now();
    Time next = expire();
    const bool was = npu_.resetting;
    std::uint32_t hung = 0;
    next = std::min(next, policy_.watch(npu_, now, !others_present(), hung));
    if (was && !npu_.resetting) open_gate();
    if (was != npu_.resetting) changed_ = now;
    if (hung != 0) {
      if (others_present()) wrong("an own reset though not alone");
      in_reset_ = true;
      driver_.reset(Cause::kOwnAction, kHang, [this] {
        in_reset_ = false;
        changed_ = clock_.now();
        rkc_cores_was_reset(&npu_, clock_.now());
        dispatch();
        kick_watch();
      });
      return;
    }
    dispatch();
    if (npu_.rotor.busy != 0) next = std::min(next, now + kHang);
    watch_asleep_ = next == RKC_NEVER;
    if (!watch_asleep_) plan_watch(next <= now ? kMs : next - now + dice_.between(0, kTick));
  }

  // ---- the administrator --------------------------------------------------------------

  void administer(int id) {
    const std::uint64_t bound = figures_.rebinds;
    if (npu_.rotor.usable == 0) {
      clock_.after(kS, [this, bound] { rebind(bound); });
    } else if ((npu_.poisoned & 1U << id) != 0) {
      clock_.after(60 * kS, [this, bound] { rebind(bound); });
    } else {
      clock_.after(20 * kS, [this, bound, id] {
        if (bound != figures_.rebinds || stopping_) return;
        const bool enabled = rkc_cores_enable(&npu_, static_cast<std::uint32_t>(id));
        if (!enabled && (npu_.poisoned & 1U << id) == 0) wrong("a good core stays aside");
        if (enabled) lost_ &= ~(1U << id);
        dispatch();
      });
    }
  }

  void rebind(std::uint64_t bound) {
    if (bound != figures_.rebinds) return;
    if (!stopping_) {
      stopping_ = true;
      end_impossible(0);
      open_gate();
    }
    if (npu_.rotor.busy != 0 || in_reset_ || !driver_.idle()) {
      clock_.after(10 * kMs, [this, bound] { rebind(bound); });
      return;
    }
    driver_.rebind();
    const std::uint64_t generation = npu_.generation;
    rkc_cores_init(&npu_, 0);
    if (npu_.generation != generation) wrong("the generation went back");
    lost_ = 0;
    ++figures_.rebinds;
    stopping_ = false;
    changed_ = clock_.now();
    dispatch();
  }

  void collect() {
    const Driver::Counts& counts = driver_.counts();
    figures_.resets = counts.resets;
    figures_.actions = counts.actions;
    figures_.met_foreign = counts.met_foreign;
    figures_.hung = counts.hung;
  }

  static constexpr std::uint64_t kMostBlocks = 1191;

  Policy policy_;
  std::array<Time, RKC_CORES> started_{};
  std::vector<ChainPtr> all_;
  std::uint64_t level_ = 0;
  bool watch_asleep_ = false;
  std::uint64_t watch_turn_ = 0;
};

inline Figures simulate(const World& world, Policy policy = {}) {
  return Simulation(world, std::move(policy)).run();
}

}  // namespace rkchain::sim

// SPDX-License-Identifier: MIT
// The scheduling policy of kmod/core in virtual time: many chains of several clients, over a
// driver and hardware that have all the faults there are.  What ought to come of it is judged by
// somebody who sees what the policy cannot: what has really happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "kmod/core/check.h"
#include "kmod/core/cores.h"
#include "kmod/core/share.h"
#include "unit/simulated_driver.hpp"

namespace {

using rkchain::sim::Cause;
using rkchain::sim::Clock;
using rkchain::sim::Dice;
using rkchain::sim::Driver;
using rkchain::sim::Faults;
using rkchain::sim::Job;
using rkchain::sim::JobPtr;
using rkchain::sim::kEinval;
using rkchain::sim::kEtimedout;
using rkchain::sim::kMs;
using rkchain::sim::kS;
using rkchain::sim::kUs;
using rkchain::sim::Others;
using rkchain::sim::StockClient;
using rkchain::sim::Time;

constexpr Time kHang = kS;
constexpr std::uint32_t kStrikes = 3;
constexpr std::uint64_t kNone = ~std::uint64_t{0};
/// What waits for a time may be this late.
constexpr Time kTick = 4 * kMs;

constexpr int kEio = -5;
constexpr int kEnodev = -19;
constexpr int kEtime = -62;
constexpr int kEcanceled = -125;

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

/// The module around the policy, as kmod has it: queues, a thread per core, the watch.
class Simulation {
 public:
  Simulation(const World& world, Policy policy)
      : world_(world),
        policy_(std::move(policy)),
        dice_(world.seed),
        driver_(clock_, dice_, world.faults) {
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
  struct Core {
    ChainPtr chain;
    bool at_gate = false;
    std::uint64_t turn = 0;  // of waiting: an older one has been overtaken
    Time out = 0;            // since when the driver has its submit: the oracle's own book
  };

  // ---- what must not happen ---------------------------------------------------

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

  bool over() const {
    return completed_ >= world_.chains || stands_still_ || driver_.counts().traps > 0;
  }

  bool others_present() const {
    return std::any_of(others_.begin(), others_.end(),
                       [](const auto& other) { return other->present(); });
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

  bool ready(const Chain& chain) const {
    return !chain.follows || *chain.client->live.begin() > chain.after;
  }

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

  World world_;
  Policy policy_;
  Clock clock_;
  Dice dice_;
  Driver driver_;
  rkc_cores npu_{};
  std::array<Core, RKC_CORES> cores_;
  std::array<Time, RKC_CORES> started_{};
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<StockClient>> others_;
  std::vector<ChainPtr> all_;
  std::uint64_t completed_ = 0;
  std::uint64_t level_ = 0;
  Time last_end_ = clock_.now();
  bool stands_still_ = false;
  std::uint32_t lost_ = 0;  // cores that nothing may be given to: the oracle's own book
  Time changed_ = 0;        // when what the gate depends on has changed last
  Time alone_since_ = 0;
  bool stopping_ = false;
  bool in_reset_ = false;
  bool watch_asleep_ = false;
  std::uint64_t watch_turn_ = 0;
  Figures figures_;
};

Figures simulate(const World& world, Policy policy = {}) {
  return Simulation(world, std::move(policy)).run();
}

std::string said(const Figures& figures) {
  std::string text = figures.first;
  for (const auto& [what, count] : figures.wrong)
    text += "\n  " + std::to_string(count) + " x " + what;
  return text;
}

/// What all seeds of a world have come to.
class Table {
 public:
  void add(const std::string& world, const Figures& f) {
    Row& row = rows_[world];
    const auto status = [&f](int which) {
      const auto found = f.status.find(which);
      return found == f.status.end() ? 0 : found->second;
    };
    const Row figures{f.chains,       status(0),          status(kEtimedout), status(kEio),
                      status(kEtime), status(kEcanceled), status(kEnodev),    f.resets,
                      f.actions,      f.replays,          f.poisoned,         f.aside,
                      f.rebinds,      f.missed_for_hung,  f.left_behind,      f.gave_up,
                      f.met_foreign};
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += figures[i];
  }
  void print() const {
    std::printf("%-26s", "");
    for (const auto& [world, row] : rows_) std::printf("%10s", world.c_str());
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      std::printf("\n%-26s", kNames[i]);
      for (const auto& [world, row] : rows_)
        std::printf("%10llu", static_cast<unsigned long long>(row[i]));
    }
    std::printf("\n");
  }

 private:
  static constexpr std::array kNames{"chains",
                                     "well",
                                     "hung",
                                     "hit",
                                     "late",
                                     "cancelled",
                                     "no core",
                                     "resets",
                                     "  our own",
                                     "replays",
                                     "poisoned",
                                     "set aside",
                                     "rebinds",
                                     "missed a wake-up: hung",
                                     "left behind: hung",
                                     "never committed: hit",
                                     "met others' reset"};
  using Row = std::array<std::uint64_t, kNames.size()>;

  std::map<std::string, Row> rows_;
};

std::uint64_t chains(std::uint64_t all) { return rkchain::test::sampled() ? all / 20 : all; }

/// Of kinds().
constexpr std::size_t kOrdinary = 0;
constexpr std::size_t kAlone = 1;
constexpr std::size_t kCrowded = 2;

/// A world that everything is shown in.
struct Kind {
  const char* name;
  World world;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<Kind> kinds() {
  std::vector<Kind> kinds;
  World world;
  kinds.push_back({"ordinary", world});
  // Nothing but resets of our own.
  world.alone = true;
  kinds.push_back({"alone", world});
  // Other programs all the time; what they do to each other is done to us.
  world = {};
  world.others = {4 * kS, 60 * kS, 10'000};
  kinds.push_back({"crowded", world});
  // As the driver is: what a reset wakes is awake microseconds before its end.
  world.faults.wake_gap = 1;
  kinds.push_back({"brief", world});
  // A board that is about to fail.
  world = {};
  world.faults.dropped = 5'000;
  world.faults.stuck = 500;
  world.faults.stray = 1'000;
  world.faults.late = 1'000;
  kinds.push_back({"failing", world});
  return kinds;
}

class Simulated : public testing::TestWithParam<Kind> {
 protected:
  static void TearDownTestSuite() { table.print(); }

  static inline Table table;
};

TEST_P(Simulated, NothingIsLostWrongOrTwice) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    World world = GetParam().world;
    world.seed = seed;
    world.chains = chains(25'000);
    const Figures f = simulate(world);
    table.add(GetParam().name, f);
    EXPECT_TRUE(f.wrong.empty()) << "seed " << seed << ": " << said(f);
    // That there was something to be survived.
    EXPECT_GT(f.resets, 0U);
    EXPECT_GT(f.hung, 0U);
    EXPECT_GT(f.status.at(0), f.chains * 7 / 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Simulated, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(Simulation, TheSameSeedIsTheSameWorld) {
  World world;
  world.seed = 7;
  world.chains = chains(20'000);
  const Figures one = simulate(world);
  const Figures other = simulate(world);
  EXPECT_EQ(one.status, other.status);
  EXPECT_EQ(one.resets, other.resets);
  EXPECT_EQ(one.served, other.served);
}

/// Where nothing fails, clients that always have more get core time by their weight.
TEST(Simulation, CoreTimeIsSharedByWeight) {
  World world;
  world.chains = 60'000;
  world.faults = {0, 0, 0, 0, 0, 0, 25};
  world.alone = true;
  world.plain = true;
  world.priorities = {-1, 0, 1};
  const Figures f = simulate(world);
  EXPECT_TRUE(f.wrong.empty()) << said(f);
  EXPECT_EQ(f.status.at(0), f.chains);
  EXPECT_EQ(f.resets, 0U);
  const auto low = static_cast<double>(f.served.at(-1));
  EXPECT_NEAR(static_cast<double>(f.served.at(0)) / low, 4, 0.4);
  EXPECT_NEAR(static_cast<double>(f.served.at(1)) / low, 16, 1.6);
}

// ---- with a rule taken out, something has to be found -----------------------------

/// With this policy one of @p what goes wrong, in one of some seeds.
void expect_found(const Policy& policy, const std::set<std::string>& what, std::size_t kind) {
  std::string all;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world = kinds().at(kind).world;
    world.seed = seed;
    world.chains = 10'000;
    const Figures f = simulate(world, policy);
    all += said(f);
    for (const auto& [wrong, count] : f.wrong) {
      if (what.contains(wrong)) {
        return;
      }
    }
  }
  FAIL() << "nothing was found but: " << all;
}

TEST(SimulationControl, AGateThatIsAlwaysOpen) {
  Policy policy;
  policy.opens = [](const rkc_cores&, std::uint32_t, Time) { return Time{0}; };
  expect_found(policy, {"submit in the reset window", "submit though something hangs"}, kOrdinary);
  expect_found(policy, {"submit during an own reset"}, kAlone);
  expect_found(policy, {"submit during the reset of an own time-out"}, kCrowded);
}

TEST(SimulationControl, AGateThatForgetsOthersResets) {
  Policy policy;
  policy.opens = [](const rkc_cores& c, std::uint32_t id, Time now) {
    rkc_cores forgetful = c;
    forgetful.quiet = 0;
    return rkc_cores_opens(&forgetful, id, now);
  };
  expect_found(policy, {"submit during a reset that was known of"}, kCrowded);
}

TEST(SimulationControl, AGateThatStaysShut) {
  Policy policy;
  policy.opens = [](const rkc_cores& c, std::uint32_t id, Time now) {
    const Time opens = rkc_cores_opens(&c, id, now);
    return opens != 0 && opens != RKC_NEVER ? opens + kS : opens;
  };
  expect_found(policy, {"waits at an open gate"}, kCrowded);
}

TEST(SimulationControl, PoisonedCoresThatAreUsed) {
  Policy policy;
  policy.finish = [](rkc_cores& c, std::uint32_t id, const rkc_run_end& end) {
    rkc_run_end blind = end;
    blind.verdict.poisoned = false;
    return rkc_cores_finish(&c, id, &blind, kStrikes);
  };
  expect_found(policy, {"trap"}, kCrowded);
}

TEST(SimulationControl, AJudgeThatReplaysEverything) {
  Policy policy;
  policy.back = [](rkc_cores& c, std::uint32_t id, Time now, rkc_return& r) {
    rkc_verdict verdict = rkc_cores_back(&c, id, now, &r);
    if (verdict.fate == RKC_FATE_HIT) verdict.fate = RKC_FATE_AGAIN;
    return verdict;
  };
  expect_found(policy, {"ran twice and may not", "reported well and is not"}, kCrowded);
}

TEST(SimulationControl, AJudgeThatReplaysNothing) {
  Policy policy;
  policy.back = [](rkc_cores& c, std::uint32_t id, Time now, rkc_return& r) {
    r.replayable = false;
    return rkc_cores_back(&c, id, now, &r);
  };
  expect_found(policy, {"could have been run again"}, kCrowded);
}

TEST(SimulationControl, AJudgeThatTakesEveryErrorForAHang) {
  Policy policy;
  policy.back = [](rkc_cores& c, std::uint32_t id, Time now, rkc_return& r) {
    rkc_verdict verdict = rkc_cores_back(&c, id, now, &r);
    if (r.error != 0) verdict.fate = RKC_FATE_HUNG;
    return verdict;
  };
  expect_found(policy, {"reported as hung and was not"}, kCrowded);
}

TEST(SimulationControl, AResetThatDoesNotWaitForTheYoung) {
  Policy policy;
  policy.watch = [](rkc_cores& c, Time now, bool alone, std::uint32_t& reset) {
    rkc_cores old = c;
    for (rkc_core& core : old.core)
      if (core.submitted != 0 && now - core.submitted < kHang) core.submitted = 0;
    const Time next = rkc_cores_watch(&old, now, kHang, alone, &reset);
    for (std::size_t i = 0; i < RKC_CORES; ++i) old.core[i].submitted = c.core[i].submitted;
    c = old;
    return next;
  };
  expect_found(policy, {"an own reset hit what was young"}, kAlone);
}

TEST(SimulationControl, AResetThoughOthersAreThere) {
  Policy policy;
  policy.watch = [](rkc_cores& c, Time now, bool, std::uint32_t& reset) {
    return rkc_cores_watch(&c, now, kHang, true, &reset);
  };
  expect_found(policy, {"an own reset though not alone"}, kCrowded);
}

TEST(SimulationControl, ACoreThatIsNotGivenWork) {
  Policy policy;
  policy.finish = [](rkc_cores& c, std::uint32_t id, const rkc_run_end& end) {
    const bool lost = rkc_cores_finish(&c, id, &end, kStrikes);
    // Lost, and nobody is told.
    if (end.failed) c.rotor.usable &= ~(1U << id);
    return lost;
  };
  expect_found(policy, {"everything stands still"}, kAlone);
}

}  // namespace

// SPDX-License-Identifier: MIT
// The stock driver in virtual time, with the bugs that a caller has to stay clear of, and the
// hardware below it with its own.  It knows what really happened to each job.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "unit/matmul_reference.hpp"

namespace rkchain::sim {

using Time = std::uint64_t;

inline constexpr Time kUs = 1'000;
inline constexpr Time kMs = 1'000'000;
inline constexpr Time kS = 1'000'000'000;
inline constexpr int kCores = 3;
inline constexpr int kEinval = -22;
inline constexpr int kEtimedout = -110;

/// Numbers that depend on nothing but the seed.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : numbers_(seed) {}

  /// low .. high, both included.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + numbers_.next() % (high - low + 1);
  }
  /// @p share of 100,000 times.
  bool chance(std::uint64_t share) { return numbers_.next() % 100'000 < share; }

 private:
  test::Numbers numbers_;
};

/// Virtual time: what is due, in the order of time and then of asking.
class Clock {
 public:
  Time now() const { return now_; }

  void after(Time delay, std::function<void()> what) {
    due_.push_back({now_ + delay, number_++, std::move(what)});
    std::push_heap(due_.begin(), due_.end(), std::greater<>());
  }
  /// False when nothing is due any more.
  bool step() {
    if (due_.empty()) return false;
    std::pop_heap(due_.begin(), due_.end(), std::greater<>());
    const Event event = std::move(due_.back());
    due_.pop_back();
    now_ = event.when;
    event.what();
    return true;
  }

 private:
  struct Event {
    Time when;
    std::uint64_t number;
    std::function<void()> what;

    bool operator>(const Event& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };
  Time now_ = 1'000 * kS;
  std::uint64_t number_ = 0;
  std::vector<Event> due_;
};

/// Of 100,000.
struct Faults {
  std::uint64_t dropped = 1'000;         ///< commits that the hardware does not take
  std::uint64_t stuck = 20;              ///< after which a core takes none until some resets
  std::uint64_t stray = 50;              ///< jobs with an interrupt of another status
  std::uint64_t late = 50;               ///< jobs whose interrupt takes up to 2 s
  std::uint64_t missed = 54'000;         ///< wake-ups by a reset that nobody sees
  std::uint64_t still_running = 20'000;  ///< engines that a reset does not stop
  std::uint64_t wake_gap = 25;           ///< hundredths of a reset that follow its wake-ups
};

/// How two other programs behave.
struct Others {
  Time absent = 90 * kS;       ///< at most
  Time present = 40 * kS;      ///< until the last submit, at most
  std::uint64_t hang = 3'000;  ///< of 100,000 jobs
};

enum class Cause { kOwnAction, kOwnTimeOut, kForeign };

/// A blocking submit, and the truth about it.
struct Job {
  bool own = true;
  int core = 0;
  Time duration = 0;
  std::function<void()> started;
  std::function<void()> executed;
  std::function<void(int error)> returned;

  Time submitted = 0;
  Time commit = 0;
  int rounds = 0;
  bool committed = false;  ///< what the caller sees in int_status
  bool odd = false;
  bool down = false;
  bool woken = false;
  bool over = false;  ///< its caller is on the way back

  bool hung = false;    ///< by itself: nothing would ever have come, or seconds too late
  bool hit = false;     ///< a reset took it down, or was under way when it came
  bool missed = false;  ///< and it did not see the wake-up
  bool done = false;
  bool gave_up = false;           ///< after three time-outs in a queue
  Cause cause = Cause::kForeign;  ///< of the last reset that hit it
};

using JobPtr = std::shared_ptr<Job>;

class Driver {
 public:
  Driver(Clock& clock, Dice& dice, const Faults& faults)
      : clock_(clock), dice_(dice), faults_(faults) {}

  struct Counts {
    std::uint64_t submits = 0, own_submits = 0, resets = 0, actions = 0, hung = 0, hit = 0;
    std::uint64_t missed = 0, tombstones = 0, dead = 0;
    std::uint64_t traps = 0;        ///< submits to a list with freed memory: the board is down
    std::uint64_t young_hit = 0;    ///< own jobs that an own reset took down before their time
    std::uint64_t foreign_hit = 0;  ///< others' jobs that an own reset took down
    std::uint64_t met_own = 0;      ///< own submits that met a reset of an own time-out
    std::uint64_t met_noticed = 0;  ///< own submits that met a reset an own one had returned from
    std::uint64_t met_foreign = 0;  ///< own submits that met somebody else's reset
  };
  const Counts& counts() const { return counts_; }
  bool resetting() const { return resetting_; }

  void submit(const JobPtr& job) {
    Core& core = cores_[static_cast<std::size_t>(job->core)];
    ++counts_.submits;
    counts_.own_submits += job->own;
    counts_.traps += core.tombstones > 0;
    job->submitted = clock_.now();
    core.queue.push_back(job);
    ++jobs_out_;
    if (resetting_) {
      job->hit = true;
      job->cause = cause_;
      if (job->own) {
        counts_.met_own += cause_ == Cause::kOwnTimeOut;
        counts_.met_foreign += cause_ == Cause::kForeign;
        counts_.met_noticed += noticed_;
      }
      job->woken = true;
      clock_.after(20 * kUs, [this, job] { give_up(job); });
      return;
    }
    dispatch(core);
    arm(job);
  }

  /// What ACTION 6 and time-outs do; @p over when it is over.
  void reset(Cause cause, Time hang, std::function<void()> over) {
    if (resetting_) {
      clock_.after(10 * kUs, std::move(over));
      return;
    }
    resetting_ = true;
    noticed_ = false;
    cause_ = cause;
    ++counts_.resets;
    counts_.actions += cause == Cause::kOwnAction;
    for (Core& core : cores_) take_down(core, hang);
    const Time length = dice_.between(100 * kMs, 250 * kMs);
    const Time gap = length * faults_.wake_gap / 100;
    clock_.after(length - gap, [this] {
      for (Core& core : cores_) wake(core);
    });
    clock_.after(length, [this, over = std::move(over)] {
      resetting_ = false;
      for (Core& core : cores_) {
        if (core.stuck > 0) --core.stuck;
        dispatch(core);
      }
      over();
    });
  }

  /// Nobody has anything here.
  bool idle() const { return jobs_out_ == 0 && !resetting_; }

  /// Unbound and bound again.
  void rebind() {
    for (Core& core : cores_) core = Core{};
  }

 private:
  struct Core {
    std::deque<JobPtr> queue;
    JobPtr running;
    int tombstones = 0;
    int stuck = 0;
    bool dead = false;
  };

  Core& core_of(const JobPtr& job) { return cores_[static_cast<std::size_t>(job->core)]; }

  void dispatch(Core& core) {
    if (resetting_ || core.running || core.dead) return;
    const auto next = std::find_if(core.queue.begin(), core.queue.end(),
                                   [](const JobPtr& job) { return !job->woken; });
    if (next == core.queue.end()) return;
    core.running = *next;
    core.queue.erase(next);
    commit(core, core.running);
  }

  void commit(Core& core, const JobPtr& job) {
    job->committed = true;
    job->commit = clock_.now();
    if (job->started) job->started();
    if (dice_.chance(faults_.stuck)) core.stuck = static_cast<int>(dice_.between(1, 6));
    job->odd = dice_.chance(faults_.stray);
    // An interrupt with another status may be all that comes.
    const bool nothing =
        core.stuck > 0 || dice_.chance(faults_.dropped) || (job->odd && dice_.chance(50'000));
    const Time delay = dice_.chance(faults_.late) ? dice_.between(kMs, 2 * kS) : 0;
    job->hung = job->hung || nothing || delay > 0;
    counts_.hung += nothing || delay > 0;
    if (nothing) return;
    clock_.after(job->duration, [this, job, delay] {
      if (job->down && !dice_.chance(faults_.still_running)) return;
      if (job->executed) job->executed();
      clock_.after(delay, [this, job] { interrupt(job); });
    });
  }

  void interrupt(const JobPtr& job) {
    Core& core = core_of(job);
    if (job->down || core.running != job) return;
    job->done = true;
    core.running = nullptr;
    come_back(job, 0, dice_.between(5 * kUs, 50 * kUs));
    dispatch(core);
  }

  void come_back(const JobPtr& job, int error, Time delay) {
    job->over = true;
    clock_.after(delay, [this, job, error] {
      --jobs_out_;
      if (resetting_ && job->own && error != 0) noticed_ = true;
      job->returned(error);
    });
  }

  void arm(const JobPtr& job) {
    // Timers are late by up to an eighth.
    const Time wait = 6 * kS + dice_.between(0, 6 * kS / 8);
    clock_.after(wait, [this, job] { time_out(job); });
  }

  void time_out(const JobPtr& job) {
    if (job->over || job->woken) return;
    const bool patient = !job->committed || clock_.now() - job->commit < 6 * kS;
    if (++job->rounds < 3 && patient) {
      arm(job);
      return;
    }
    job->gave_up = !job->committed;
    give_up(job);
  }

  void give_up(const JobPtr& job) {
    Core& core = core_of(job);
    if (!job->committed) {
      job->hung = job->hung || core.dead;
      core.queue.erase(std::find(core.queue.begin(), core.queue.end(), job));
      // The driver takes it out of core 0's list alone.
      core.tombstones += job->core > 0;
      counts_.tombstones += job->core > 0;
      come_back(job, kEinval, 10 * kUs);
      return;
    }
    job->over = true;
    if (core.running == job) {
      core.running = nullptr;
      if (job->odd) {
        core.dead = true;
        ++counts_.dead;
      }
    }
    reset(job->own ? Cause::kOwnTimeOut : Cause::kForeign, 0,
          [this, job] { come_back(job, kEtimedout, 10 * kUs); });
  }

  void take_down(Core& core, Time hang) {
    const JobPtr& job = core.running;
    if (!job) return;
    job->down = true;
    job->hit = true;
    job->cause = cause_;
    ++counts_.hit;
    if (cause_ != Cause::kOwnAction) return;
    counts_.foreign_hit += !job->own;
    counts_.young_hit += job->own && clock_.now() - job->submitted < hang;
  }

  void wake(Core& core) {
    if (core.running && core.running->down) {
      const JobPtr job = core.running;
      if (dice_.chance(faults_.missed)) {
        job->missed = true;
        ++counts_.missed;
      } else {
        job->woken = true;
        core.running = nullptr;
        come_back(job, kEinval, dice_.between(20 * kUs, 300 * kUs));
      }
    }
    for (const JobPtr& job : std::deque<JobPtr>(core.queue)) {
      if (job->woken || dice_.chance(faults_.missed)) continue;
      job->woken = true;
      job->hit = true;
      job->cause = cause_;
      give_up(job);
    }
  }

  Clock& clock_;
  Dice& dice_;
  Faults faults_;
  Counts counts_;
  std::array<Core, kCores> cores_;
  std::uint64_t jobs_out_ = 0;
  bool resetting_ = false;
  bool noticed_ = false;
  Cause cause_ = Cause::kForeign;
};

/// Another program on core 0: there for a while, then not.  Some of its jobs hang.
class StockClient {
 public:
  StockClient(Clock& clock, Dice& dice, Driver& driver, const Others& how, const bool& stopping)
      : clock_(clock), dice_(dice), driver_(driver), how_(how), stopping_(stopping) {}

  bool present() const { return present_; }
  /// Comes and goes from now on, until @p over says so.
  void live(std::function<bool()> over) {
    over_ = std::move(over);
    go();
  }

 private:
  void go() {
    present_ = false;
    if (over_()) return;
    clock_.after(dice_.between(how_.absent / 50, how_.absent), [this] {
      if (stopping_ || over_()) return go();
      present_ = true;
      until_ = clock_.now() + dice_.between(how_.present / 50, how_.present);
      submit();
    });
  }

  void submit() {
    if (stopping_ || over_() || clock_.now() >= until_) return go();
    const auto job = std::make_shared<Job>();
    job->own = false;
    job->duration = dice_.between(kMs, 200 * kMs);
    // A program of its own that never ends.
    if (dice_.chance(how_.hang)) job->duration = 1'000'000 * kS;
    job->returned = [this](int) {
      clock_.after(dice_.between(100 * kUs, 300 * kMs), [this] { submit(); });
    };
    driver_.submit(job);
  }

  Clock& clock_;
  Dice& dice_;
  Driver& driver_;
  Others how_;
  const bool& stopping_;
  std::function<bool()> over_;
  bool present_ = false;
  Time until_ = 0;
};

}  // namespace rkchain::sim

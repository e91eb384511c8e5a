// SPDX-License-Identifier: MIT
#include "rkchain/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "chain.hpp"
#include "kmod/core/rotor.h"
#include "plan.hpp"
#include "rkchain/error.hpp"
#include "run.hpp"

namespace rkchain {
namespace {

using detail::Run;
using std::chrono::steady_clock;

/// How long to leave the device's queue alone when it is full of other streams' work.
constexpr auto kBackOff = std::chrono::microseconds(200);

/// Cores that a run may use, ascending.
std::vector<std::uint32_t> allowed_cores(const DeviceInfo& info, std::uint32_t core_mask) {
  const std::uint32_t mask = core_mask == 0 ? info.usable_mask : info.usable_mask & core_mask;
  std::vector<std::uint32_t> cores;
  for (std::uint32_t core = 0; core < RKC_CORES; ++core) {
    if ((mask >> core & 1U) != 0) cores.push_back(core);
  }
  if (cores.empty()) {
    throw Error(Errc::invalid_argument,
                fmt::format("submit: core_mask is {:#x}, the mask of usable cores is {:#x}",
                            core_mask, info.usable_mask));
  }
  return cores;
}

/// How @p chain runs on the cores that there are now.
std::vector<detail::Step> steps_of(const Chain::Impl& chain, std::uint32_t core_mask) {
  std::vector<std::uint32_t> cores;
  if (chain.pinned || core_mask != 0) cores = allowed_cores(chain.device.info(), core_mask);
  std::vector<detail::Step> steps;
  steps.reserve(chain.segments.size());
  for (const detail::Segment& segment : chain.segments) {
    detail::Step step;
    step.chain = segment.chain.id();
    step.level = segment.level;
    step.core_mask = chain.pinned ? 1U << cores[segment.lane % cores.size()] : core_mask;
    step.text = segment.text;
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

struct Future::Impl {
  std::shared_ptr<Run> run;
};

Future::Future(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Future::Future(Future&&) noexcept = default;
Future& Future::operator=(Future&&) noexcept = default;
Future::~Future() = default;

bool Future::ready() const { return wait_for(std::chrono::nanoseconds::zero()); }

bool Future::wait_for(std::chrono::nanoseconds timeout) const {
  if (!impl_) throw Error(Errc::invalid_argument, "Future: get() has been called already");
  const auto now = steady_clock::now();
  const bool forever = timeout > steady_clock::time_point::max() - now;
  return impl_->run->wait_until(forever ? steady_clock::time_point::max() : now + timeout);
}

RunResult Future::get() {
  wait_for(std::chrono::nanoseconds::max());
  return std::exchange(impl_, nullptr)->run->result();
}

struct Stream::Impl {
  Impl(const Device& device, const StreamOptions& options)
      : backend(device.share()), depth(options.depth) {
    detail::require_positive("Stream", "depth", depth);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    for (const auto& run : in_flight) run->wait_until(steady_clock::time_point::max());
  }

  std::optional<Future> submit(Chain& chain, const SubmitOptions& options, bool block);
  void reap(bool all);

  const std::shared_ptr<Backend> backend;
  const std::uint32_t depth;
  std::mutex mutex;
  std::deque<std::shared_ptr<Run>> in_flight;  ///< in the order of submission
  std::optional<std::uint64_t> last_sequence;
};

std::optional<Future> Stream::Impl::submit(Chain& chain, const SubmitOptions& options, bool block) {
  const std::shared_ptr<Chain::Impl>& target = chain.impl();
  if (!target || !target->built) {
    throw Error(Errc::invalid_argument, "submit: the chain has not been built");
  }
  if (target->device.share() != backend) {
    throw Error(Errc::invalid_argument, "submit: the chain is on another device than the stream");
  }
  const auto run = std::make_shared<Run>(backend, target, steps_of(*target, options.core_mask));
  target->claim(run);

  for (;;) {
    std::shared_ptr<Run> oldest;
    {
      const std::lock_guard lock(mutex);
      reap(false);
      if (in_flight.size() >= depth) reap(true);
      // What was submitted first is queued first, to its last segment.
      const bool turn =
          in_flight.size() < depth && std::all_of(in_flight.begin(), in_flight.end(), [](auto& r) {
            return r->queued() || r->wait_until({}) || r->queued();
          });
      if (turn) {
        for (const auto& earlier : in_flight) {
          last_sequence = std::max(last_sequence.value_or(0), earlier->last_sequence());
        }
        if (run->start(options.ordered ? last_sequence : std::nullopt)) {
          in_flight.push_back(run);
          return Future(std::make_unique<Future::Impl>(Future::Impl{run}));
        }
      }
      if (!in_flight.empty()) oldest = in_flight.front();
    }
    if (!block) return std::nullopt;
    if (oldest) {
      oldest->wait_until(steady_clock::time_point::max());
    } else {
      std::this_thread::sleep_for(kBackOff);
    }
  }
}

/// Forgets runs that have ended: the oldest, or with @p all whichever.
void Stream::Impl::reap(bool all) {
  const auto ended = [this](const std::shared_ptr<Run>& run) {
    if (!run->wait_until({})) return false;
    last_sequence = std::max(last_sequence.value_or(0), run->last_sequence());
    return true;
  };
  if (all) {
    std::erase_if(in_flight, ended);
    return;
  }
  while (!in_flight.empty() && ended(in_flight.front())) in_flight.pop_front();
}

Stream::Stream(const Device& device, const StreamOptions& options)
    : impl_(std::make_shared<Impl>(device, options)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

Future Stream::submit(Chain& chain, const SubmitOptions& options) {
  return *impl_->submit(chain, options, true);
}

std::optional<Future> Stream::try_submit(Chain& chain, const SubmitOptions& options) {
  return impl_->submit(chain, options, false);
}

void Stream::drain() {
  std::deque<std::shared_ptr<Run>> runs;
  {
    const std::lock_guard lock(impl_->mutex);
    runs = impl_->in_flight;
  }
  for (const auto& run : runs) run->wait_until(steady_clock::time_point::max());
  const std::lock_guard lock(impl_->mutex);
  impl_->reap(true);
}

}  // namespace rkchain

// SPDX-License-Identifier: MIT
#include "rkchain/selftest.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend/backend.hpp"
#include "kmod/core/trial.h"
#include "rkchain/error.hpp"

namespace rkchain {
namespace {

static_assert(static_cast<int>(Verdict::works) == RKC_TRIAL_WORKS);
static_assert(static_cast<int>(Verdict::early) == RKC_TRIAL_EARLY);
static_assert(static_cast<int>(Verdict::wrong) == RKC_TRIAL_WRONG);
static_assert(static_cast<int>(Verdict::unordered) == RKC_TRIAL_UNORDERED);
static_assert(static_cast<int>(Verdict::timeout) == RKC_TRIAL_TIMEOUT);

/// What kept a mode from being chosen, on the first core where something did.
std::string objection(const SelfTestReport& report, Mode mode) {
  for (const SelfTestResult& result : report.results) {
    if (result.mode == mode && result.verdict != Verdict::works &&
        (report.failed_cores >> result.core & 1) == 0) {
      return fmt::format("{}: {} on core {}", name(mode), name(result.verdict), result.core);
    }
  }
  return fmt::format("{}: not tested", name(mode));
}

std::string reason(const SelfTestReport& report, bool brief) {
  if (report.proven.empty()) return "no mode works on every core; single is what asks least";
  std::string why = fmt::format("the best that {} on every core that works",
                                brief ? "passed the short test" : "works");
  std::string others;
  for (const Mode mode : {Mode::wait, Mode::wait41, Mode::link}) {
    if (mode >= report.chosen) break;
    others += (others.empty() ? "" : "; ") + objection(report, mode);
  }
  return others.empty() ? why : fmt::format("{} ({})", why, others);
}

}  // namespace

std::string_view name(Verdict verdict) noexcept {
  return rkc_trial_verdict_name(static_cast<u32>(verdict));
}

SelfTestReport self_test(const Device& device, const SelfTestOptions& options) {
  for (const Mode mode : options.modes) {
    if (static_cast<std::uint32_t>(mode) >= RKC_MODES) {
      throw Error(Errc::invalid_argument,
                  fmt::format("self_test: mode {} is none of the {} modes",
                              static_cast<std::uint32_t>(mode), +RKC_MODES));
    }
  }
  if ((options.core_mask & ~RKC_CORES_ALL) != 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("self_test: core_mask is {:#x}, the limit is {:#x}", options.core_mask,
                            RKC_CORES_ALL));
  }
  SelfTestReport report;
  report.results = device.backend().self_test(options);

  rkc_trial_table table{};
  for (const SelfTestResult& result : report.results) {
    table.verdict[static_cast<u32>(result.mode)][result.core] = static_cast<u8>(result.verdict);
  }
  rkc_trial_summary summary{};
  rkc_trial_summarise(&table, &summary);
  for (u32 mode = 0; mode < RKC_MODES; ++mode) {
    if ((summary.works >> mode & 1) != 0) report.proven.push_back(static_cast<Mode>(mode));
  }
  report.failed_cores = summary.failed;
  report.chosen = static_cast<Mode>(rkc_trial_best(summary.works));
  report.why = reason(report, options.brief);
  return report;
}

}  // namespace rkchain

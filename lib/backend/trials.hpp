// SPDX-License-Identifier: MIT
// The self-test of the back ends that run chains from this process.
#pragma once

#include <vector>

#include "backend/backend.hpp"
#include "rkchain/selftest.hpp"

namespace rkchain {

/// All modes that are asked for on all cores: chains of kmod/core/trial.h through the back end's
/// own interface.
/// @throws Error no_device, out_of_memory.
[[nodiscard]] std::vector<SelfTestResult> run_trials(Backend& backend,
                                                     const SelfTestOptions& options);

/// Of that many modes and cores, in the order of the results.
[[nodiscard]] std::vector<SelfTestResult> untested(const SelfTestOptions& options);

}  // namespace rkchain

// SPDX-License-Identifier: MIT
// The back end that hands chains to the rkchain module.
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "backend/system.hpp"

namespace rkchain {

/// The module checks, lays out, rotates and recovers; it has a mode of its own, so that
/// options.mode does not count.  options.queue_depth counts chains that have been submitted
/// and have not ended.
///
/// stats() knows of this client's chains only, and of them what the module's mode and its
/// completions say: interrupts are those of submits that succeeded.
///
/// @throws Error no_device, permission: see KmodDevice; no_device also when no stock driver has
///   been provided; unsupported when the module lacks a capability; invalid_argument (core
///   mask, queue depth).
std::shared_ptr<Backend> make_kmod_backend(const OpenOptions& options,
                                           std::shared_ptr<const System> system);

}  // namespace rkchain

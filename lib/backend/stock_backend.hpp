// SPDX-License-Identifier: MIT
// The back end for machines without the module: SUBMIT of the unpatched stock driver, from
// this process, by the rules that keep that driver out of its own bugs.
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "backend/system.hpp"

namespace rkchain {

/// Blocking submits of one core each, at most one outstanding per core, none in the reset
/// window of this process's own submits.  What other programs do cannot be seen from here, so
/// the NPU is never reset: what hangs takes the driver's time-outs, up to 18 s.
///
/// A core that may be broken inside the driver is set aside for good.  After a failure, the
/// chain and its buffers stay alive until that core has completed another one.
///
/// In stats(), interrupts are the submits that succeeded, and busy_ns is the driver's measure.
///
/// @throws Error no_device, permission: see RknpuNode::find(); invalid_argument (core mask,
///   mode, queue depth); out_of_memory.
std::shared_ptr<Backend> make_stock_backend(const OpenOptions& options,
                                            std::shared_ptr<const System> system);

}  // namespace rkchain

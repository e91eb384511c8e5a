// SPDX-License-Identifier: MIT
// The back end without an NPU: three cores of the software NPU (lib/model), with
// the programs, the checks and the rotation that a real NPU would get.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "backend/backend.hpp"

namespace rkchain {

/// For tests.
struct ModelHooks {
  /// Called on a core's thread before it starts a chain.
  std::function<void(std::uint32_t core)> before_chain;
};

/// Times in completions are simulated: see model_duration_ns().
/// @throws Error invalid_argument (core mask, mode, queue depth), out_of_memory.
std::shared_ptr<Backend> make_model_backend(const OpenOptions& options, ModelHooks hooks = {});

/// Takes a buffer's address away from the NPU for good, as a broken page table would.
/// The CPU keeps the memory.
/// @param backend one that make_model_backend() made.
/// @throws Error invalid_argument (not a model, no such buffer).
void model_unmap(Backend& backend, std::uint64_t buffer);

/// How long the model says that a chain takes.  Not a calibrated clock: it exists to
/// order chains on cores by size, and knows nothing of memory bandwidth.
///
/// Each submit 130 us, each further program of a link chain 18 us, and the MACs at
/// the manual's rate of 1024 (int8) or 512 (fp16) per ns.
[[nodiscard]] std::uint64_t model_duration_ns(std::uint32_t submits, std::uint32_t tasks,
                                              std::uint64_t macs_i8, std::uint64_t macs_f16);

}  // namespace rkchain

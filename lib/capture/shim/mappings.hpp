// SPDX-License-Identifier: MIT
// Where the program has mapped the NPU's nodes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/record.hpp"

namespace rkchain::capture::shim {

/// Is there anything that munmap() could take away?
bool any_mapping() noexcept;
void add_mapping(const Mapped& mapped) noexcept;
/// Writes down what goes of the program's mappings in [address, address + size).
void remove_mappings(std::uint64_t address, std::uint64_t size) noexcept;
void forget_mappings() noexcept;

}  // namespace rkchain::capture::shim

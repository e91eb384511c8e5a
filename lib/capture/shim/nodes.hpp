// SPDX-License-Identifier: MIT
// Which descriptors of the program are the NPU's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rkchain::capture::shim {

/// Descriptors from here on are not followed.
inline constexpr int max_nodes = 4096;

enum class What : std::uint8_t { unknown, other, rknpu, rkchain };

/// Those that dup() made of each other are one file.
struct Seen {
  What what = What::unknown;
  std::uint32_t file = 0;
};

/// What a descriptor is, as far as it is known.
Seen known(int fd) noexcept;

/// The same for a call that only an NPU's node understands; finds out where it is not known, or
/// where the descriptor means something else by now.
/// @param create_bytes of its MEM_CREATE, 0 when it is another call
Seen look(int fd, What wanted, std::uint32_t create_bytes) noexcept;

/// A descriptor of the same file as @p from.
void copy_node(int from, int to) noexcept;
/// The program is about to close it, or what it opened has got this number.
void drop_node(int fd) noexcept;
void drop_nodes(unsigned first, unsigned last) noexcept;

/// Any descriptor of a file, -1 for none.
int descriptor_of(std::uint32_t file) noexcept;

void forget_nodes_after_fork() noexcept;

}  // namespace rkchain::capture::shim

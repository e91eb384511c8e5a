// SPDX-License-Identifier: MIT
// The program's buffers, and what lies in them.
//
// The shim reads through mappings of its own, made when they are first needed: the program's are
// its own business, and may go at any time.  All of this is called with the lock held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/record.hpp"

namespace rkchain::capture::shim {

inline constexpr std::size_t max_buffers = 4096;

struct Held {
  std::uint32_t file = 0;  ///< 0: the place is free
  Buffer record{};
  bool chains = false;      ///< of /dev/rkchain
  bool no_mapping = false;  ///< tried in vain
  std::uint64_t place = 0;  ///< for mmap() of its node; 0 where it is not known
  const char* memory = nullptr;
  std::uint64_t* hashes = nullptr;  ///< of the pieces as they were last written down
};

/// Writes the record, and follows the buffer from now on.
void add_buffer(std::uint32_t file, const Buffer& record, bool chains, int memory_fd) noexcept;

/// The shim's mapping goes at once.
/// @return the buffer as it was, so that it can be added again; file 0 when there is none
Held remove_buffer(std::uint32_t file, std::uint32_t handle, bool chains) noexcept;

/// All of a file that is about to be closed.
void drop_buffers(std::uint32_t file) noexcept;

/// Says once more which there are, for a process that has only just begun its records.
void announce_buffers(std::uint32_t file, int fd) noexcept;

/// What MEM_MAP said.
void place_buffer(std::uint32_t file, std::uint32_t handle, std::uint64_t place) noexcept;
std::uint32_t handle_at(std::uint32_t file, std::uint64_t place) noexcept;

Held* buffer_of_object(std::uint64_t object) noexcept;
Held* buffer_at(std::uint64_t iova) noexcept;

/// @return nullptr when it cannot be mapped
const char* memory_of(Held& held) noexcept;

/// Writes down what has changed in all buffers.
void dump_buffers(std::uint64_t submit, When when) noexcept;
/// The same of a part of one.
void dump_range(Held& held, std::uint64_t offset, std::uint64_t bytes, std::uint64_t submit,
                When when) noexcept;

/// Mappings are not inherited.
/// @param whole false: what is known may be halfway changed, and is given up
void forget_buffers_after_fork(bool whole) noexcept;

}  // namespace rkchain::capture::shim

// SPDX-License-Identifier: MIT
// Records of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "capture/record.hpp"
#include "capture/shim/calls.hpp"
#include "capture/shim/sink.hpp"

namespace rkchain::capture::shim {

/// Memory that grows and is kept.  Guard guards it.
class Room {
 public:
  /// @return nullptr when there is none
  char* get(std::size_t bytes) noexcept;

 private:
  char* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Is this call one to look at?  Begins the capture when nothing has yet, goes on with it in a
/// forked child, and says no to what the shim itself caused.
bool ready() noexcept;

/// A child that shares memory and has descriptors of its own (vfork) must not change what is
/// known of its parent's.
bool same_process() noexcept;

/// Around fork().
void before_fork() noexcept;
void after_fork_parent() noexcept;
void after_fork_child() noexcept;

/// At the end of the process.
void end_journal() noexcept;

Depth depth() noexcept;
Sink& sink() noexcept;
const Settings& settings() noexcept;

/// Ids count from 1.
std::uint64_t begin_submit() noexcept;
void count_failure() noexcept;
std::uint64_t last_submit() noexcept;

void write_record(Kind kind, const void* fixed, std::size_t fixed_bytes, const void* rest,
                  std::size_t rest_bytes) noexcept;

template <typename T>
void record(Kind kind, const T& fixed, const void* rest = nullptr,
            std::size_t rest_bytes = 0) noexcept {
  write_record(kind, &fixed, sizeof(fixed), rest, rest_bytes);
}

void unseen(Missing what, std::uint64_t submit, std::uint64_t value,
            std::string_view text) noexcept;

}  // namespace rkchain::capture::shim

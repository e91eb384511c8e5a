// SPDX-License-Identifier: MIT
// What the environment asks of the shim.
//
//   RKCHAIN_CAPTURE_FILE    where to; %p is the pid; without it, standard error
//   RKCHAIN_CAPTURE_FORMAT  binary, json or text; without it by the file's name: .json and .jsonl,
//                           .txt and .log, else binary; text on standard error
//   RKCHAIN_CAPTURE_DEPTH   submits, programs or everything; ORK_SUBMIT_ONLY=1 is submits
//   RKCHAIN_CAPTURE_RUN     set by the first process of a tree for those that it starts:
//                           TIME:DEVICE:INODE:CHECK:PATH, so that they append
#pragma once

#include <cstddef>
#include <cstdint>

#include "capture/record.hpp"

namespace rkchain::capture::shim {

inline constexpr std::size_t path_bytes = 4096;
inline constexpr const char* run_variable = "RKCHAIN_CAPTURE_RUN";

struct Settings {
  Format format = Format::binary;
  Depth depth = Depth::submits;
  bool to_stderr = false;
  bool own_files = false;     ///< %p: a file for each process
  bool first = true;          ///< of its tree
  std::uint64_t started = 0;  ///< CLOCK_REALTIME when the first process began, ns
  std::uint64_t device = 0;   ///< of the first process's standard error
  std::uint64_t inode = 0;
  char pattern[path_bytes] = {};  ///< absolute; empty where it cannot be made so
};

/// Neither allocates nor changes the environment.
void read_settings(Settings& settings) noexcept;

/// What RKCHAIN_CAPTURE_RUN is to be.
/// @return bytes before the final NUL, 0 when @p room is too small
std::size_t run_text(const Settings& settings, char* to, std::size_t room) noexcept;

/// The pattern with the pid in it.
bool file_path(const Settings& settings, std::uint32_t pid, char (&path)[path_bytes]) noexcept;

}  // namespace rkchain::capture::shim

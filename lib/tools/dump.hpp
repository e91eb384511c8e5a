// SPDX-License-Identifier: MIT
// What the parts of rkchain dump share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli.hpp"
#include "tools/words.hpp"

namespace rkchain::tool {

struct DumpOptions {
  std::string file;
  std::string other;  ///< to compare with; empty for none
  WordFormat format = WordFormat::automatic;
  bool summary = false;
  std::optional<std::uint32_t> submit;  ///< of a capture
  std::optional<std::uint32_t> task;
  std::optional<std::uint32_t> pid;
};

// ---- one word ----------------------------------------------------------------

/// "DATA_SIZE0", "-" for padding, "?" for what has no name.
[[nodiscard]] std::string_view reg_name(std::uint64_t word);
/// "width=4 height=1": fields that are not 0; empty where there are none.
[[nodiscard]] std::string field_text(std::uint64_t word);
/// All fields; empty where there are none.
[[nodiscard]] Json field_json(std::uint64_t word);
void print_word(std::uint64_t word, std::size_t at, std::size_t offset);
[[nodiscard]] Json word_json(std::uint64_t word, std::size_t at, std::size_t offset);

// ---- programs ------------------------------------------------------------------

/// One program taken apart.
struct Dumped {
  Json json;        ///< with --json
  std::string why;  ///< empty when every block is a matmul
};
/// Prints it, unless it is to be JSON.
/// @param heading what it is
Dumped dump_program(const Session& session, const DumpOptions& options, const std::string& heading,
                    Words words);

/// The programs of a capture.
int dump_capture(const Session& session, const DumpOptions& options);

/// The one program of a file that may be a capture.
/// @throws BadInput when there are several and the options choose none.
[[nodiscard]] std::vector<std::uint64_t> one_program(const std::string& file,
                                                     const DumpOptions& options);

/// Two programs, register by register.
/// @return exit_ok when they are the same
int dump_diff(const Session& session, const DumpOptions& options);

}  // namespace rkchain::tool

// SPDX-License-Identifier: MIT
// Captures, as the commands use them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capture/report.hpp"
#include "tools/cli.hpp"

namespace rkchain::tool {

/// The same as capture::read_capture().
/// @throws BadInput for what cannot be read.
capture::ReadResult read_records(const std::string& path,
                                 const std::function<void(const capture::Record&)>& visit,
                                 bool partial = false);

/// Is it a file that begins like a capture?  Pipes are not looked at.
[[nodiscard]] bool is_capture(const std::string& path);

/// "binary", "json", "text".
/// @throws BadInput naming @p what and the words there are.
[[nodiscard]] capture::Format parse_capture_format(std::string_view text, std::string_view what);
/// By the end of its name: .json and .jsonl, .txt and .log, else binary.
[[nodiscard]] capture::Format capture_format_of(std::string_view path);

/// Writes the records of one file to another.
/// @param to "-" is standard output.
/// @throws BadInput, Failed
void convert_capture(const std::string& from, const std::string& to, capture::Format format,
                     bool partial);

/// Tables for people.
[[nodiscard]] std::string report_text(const capture::Report& report, bool by_process);
[[nodiscard]] Json report_json(const capture::Report& report);

/// "0x1", or "0 (auto)".
[[nodiscard]] std::string core_text(std::uint32_t mask);
/// "ETIMEDOUT"; the number where there is no name.
[[nodiscard]] std::string errno_text(std::int32_t error);
[[nodiscard]] std::string_view missing_text(std::uint32_t what);
[[nodiscard]] std::string shape_text(const capture::MatmulShape& shape);
[[nodiscard]] std::string layout_text(const capture::ProgramLayout& layout);

}  // namespace rkchain::tool

// SPDX-License-Identifier: MIT
// A report drawn.
#pragma once

#include <string>
#include <string_view>

#include "capture/report.hpp"

namespace rkchain::capture {

/// One SVG document: tasks per submit, time between submits, and a timeline of the cores.
/// @param title of the whole, e.g. the file's name; any bytes
[[nodiscard]] std::string draw_svg(const Report& report, std::string_view title);

/// "12.3 us"; units from ns to s.
[[nodiscard]] std::string duration(double ns);

}  // namespace rkchain::capture

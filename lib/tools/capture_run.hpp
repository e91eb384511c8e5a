// SPDX-License-Identifier: MIT
// Running a program under the capture library.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/cli.hpp"

namespace rkchain::tool {

/// RKCHAIN_CAPTURE_LIBRARY, else beside the tool, or where it is installed.
/// @throws Failed naming the places.
[[nodiscard]] std::string find_capture_library();

/// Runs a program as a child that gets the signals of this process, and waits for it.
/// @param environment variables to set in the child alone
/// @return its exit status, 128 + the signal that ended it; 127 when it is not there, 126 when it
/// cannot be run: both with @p error saying why.
[[nodiscard]] int run_child(const std::vector<std::string>& command,
                            const std::vector<std::pair<std::string, std::string>>& environment,
                            std::string& error);

}  // namespace rkchain::tool

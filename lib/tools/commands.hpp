// SPDX-License-Identifier: MIT
// The commands: each file of that name adds one to the command line.
#pragma once

#include "tools/cli.hpp"

namespace rkchain::tool {

void add_bench(CLI::App& app, Session& session);
void add_capture(CLI::App& app, Session& session);
void add_demo(CLI::App& app, Session& session);
void add_dump(CLI::App& app, Session& session);
void add_info(CLI::App& app, Session& session);
void add_provide(CLI::App& app, Session& session);
void add_regcmd(CLI::App& app, Session& session);
void add_replay(CLI::App& app, Session& session);
void add_report(CLI::App& app, Session& session);
void add_run(CLI::App& app, Session& session);
void add_selftest(CLI::App& app, Session& session);
void add_vector(CLI::App& app, Session& session);

}  // namespace rkchain::tool

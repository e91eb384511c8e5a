// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "rkchain/error.hpp"
#include "tools/commands.hpp"

namespace rkchain::tool {
namespace {

int code_of(const Error& error) {
  switch (error.code()) {
    case Errc::invalid_argument:
    case Errc::bad_format:
      return exit_usage;
    default:
      return exit_failed;
  }
}

/// @return the exit code; a failure has been reported.
int run(const CLI::App& app, const Session& session) {
  const auto commands = app.get_subcommands();
  const std::string command = commands.empty() ? "" : commands.front()->get_name();
  try {
    return session.action();
  } catch (const BadInput& error) {
    complain(command, error.what());
    return exit_usage;
  } catch (const Failed& error) {
    complain(command, error.what());
  } catch (const Error& error) {
    complain(command, error.what());
    return code_of(error);
  } catch (const std::bad_alloc&) {
    complain(command, "out of memory");
  } catch (const std::exception& error) {
    complain(command, error.what());
  }
  return exit_failed;
}

int parse(CLI::App& app, int argc, char** argv) {
  const auto command = [&app] {
    const auto commands = app.get_subcommands();
    return commands.empty() ? std::string() : commands.front()->get_name();
  };
  const auto usage = [&command](const std::string& text) {
    const std::string name = command();
    complain(name, fmt::format("{} (try: rkchain {}--help)", text, name.empty() ? "" : name + " "));
    return static_cast<int>(exit_usage);
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    // What is missing matters less than what was not understood.
    const std::vector<std::string> extra = app.remaining(true);
    if (!extra.empty())
      return usage(fmt::format("no such option, command or argument: {}", extra.front()));
    return usage(error.what());
  } catch (const BadInput& error) {
    return usage(error.what());
  } catch (const std::exception& error) {
    complain(command(), error.what());
    return exit_failed;
  }
  return -1;
}

int main(int argc, char** argv) {
  // A reader that leaves early ("| head") is an error of no one.
  std::signal(SIGPIPE, SIG_IGN);

  Session session;
  CLI::App app("Chains of matmuls for the NPU of the RK3588.", "rkchain");
  app.set_version_flag("--version", "rkchain " RKCHAIN_VERSION, "print the version");
  app.require_subcommand(1);
  app.fallthrough();
  app.get_formatter()->column_width(26);
  add_json(app, session);
  add_model(app, session);
  add_demo(app, session);
  add_info(app, session);
  add_run(app, session);
  add_regcmd(app, session);
  add_dump(app, session);
  add_vector(app, session);
  add_capture(app, session);
  add_report(app, session);
  add_replay(app, session);
  add_bench(app, session);
  add_provide(app, session);
  add_selftest(app, session);
  app.footer(
      "Exit codes: 0 all is well, 1 the work failed or results disagree, 2 usage or bad input.\n"
      "\n"
      "Examples:\n"
      "  rkchain demo                          chains of matmuls, checked; needs no NPU\n"
      "  rkchain info                          what would run here, or what is missing\n"
      "  rkchain --model run 1 1024 3072 --chain 2\n"
      "  rkchain COMMAND --help                each command explains itself\n");

  int code = parse(app, argc, argv);
  if (code < 0) code = run(app, session);
  const int error = flush_output();
  if (error != 0 && error != EPIPE) {
    complain("", fmt::format("standard output: {}", std::strerror(error)));
    if (code == exit_ok) code = exit_failed;
  }
  return code;
}

}  // namespace
}  // namespace rkchain::tool

int main(int argc, char** argv) { return rkchain::tool::main(argc, argv); }

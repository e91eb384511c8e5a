// SPDX-License-Identifier: MIT
// rkchain selftest: which modes this NPU can do.
#include "rkchain/selftest.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "backend/saved_selftest.hpp"
#include "rkchain/error.hpp"
#include "tools/commands.hpp"

namespace rkchain::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::array kModes{Mode::wait, Mode::wait41, Mode::link, Mode::single};
constexpr std::uint32_t kCores = 3;
/// Read by modprobe; holds the module's parameter "proven".
constexpr const char* kModprobe = "/etc/modprobe.d/rkchain-selftest.conf";

struct Options {
  std::vector<std::string> modes;
  std::vector<std::uint32_t> cores;
  std::optional<std::string> silicon;
  bool brief = false;
  bool shared = false;
  bool yes = false;
  bool save = true;
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    if (to > from) words.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return words;
}

/// @throws BadInput for a word that is no kind of silicon.
ModelOptions silicon_of(const std::string& text) {
  ModelOptions model;
  for (const std::string& word : words_of(text)) {
    if (word == "nowait") {
      model.nowait = true;
    } else if (word == "early") {
      model.early = true;
    } else if (word == "needs41") {
      model.needs41 = true;
    } else if (word == "late") {
      model.late = true;
    } else if (word == "rawlate") {
      model.rawlate = true;
    } else if (word == "badcore0" || word == "badcore1" || word == "badcore2") {
      model.bad_cores |= 1U << (word.back() - '0');
    } else if (word != "good") {
      bad_input(
          "--silicon: no '{}'; there are nowait, early, needs41, late, rawlate, badcore0, "
          "badcore1, badcore2, and any of them together",
          word);
    }
  }
  return model;
}

SelfTestOptions asked_for(const Options& options) {
  SelfTestOptions test;
  for (const std::string& text : options.modes) {
    for (const std::string& word : words_of(text)) {
      const auto* const mode =
          std::ranges::find_if(kModes, [&](Mode one) { return name(one) == word; });
      if (mode == kModes.end())
        bad_input("--modes: no mode '{}'; there are wait, wait41, link, single", word);
      test.modes.push_back(*mode);
    }
  }
  for (const std::uint32_t core : options.cores) {
    if (core >= kCores) bad_input("--cores: no core {}; there are 0, 1, 2", core);
    test.core_mask |= 1U << core;
  }
  test.brief = options.brief;
  test.shared = options.shared;
  return test;
}

/// What may happen, before it does.
void ask(const DeviceInfo& info, const Options& options) {
  if (info.backend == BackendKind::model || options.yes) return;
  constexpr std::string_view kWarning =
      "The self-test runs modes that this NPU may not be able to do.  One that does not work can\n"
      "hang a core until the NPU is reset, and with it the work of every program that uses it.\n";
  if (isatty(STDIN_FILENO) == 0) {
    bad_input("it may reset the NPU for every program: --yes says that this is all right");
  }
  fmt::print(stderr, "{}Go on? [y/N] ", kWarning);
  std::string answer;
  std::getline(std::cin, answer);
  if (answer != "y" && answer != "Y" && answer != "yes") failed("nothing has been tried");
}

// ---- the file that keeps the result ---------------------------------------------

/// @return an error, empty when it has been written.
std::string write_file(const fs::path& path, const std::string& text) {
  std::error_code code;
  fs::create_directories(path.parent_path(), code);
  // Whole or not at all.
  const fs::path part = path.string() + ".new";
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    if (!(file << text).flush()) return std::strerror(errno);
  }
  fs::rename(part, path, code);
  return code ? code.message() : "";
}

std::string modprobe_text(const SelfTestReport& report, const DeviceInfo& info) {
  std::vector<std::string_view> proven;
  for (const Mode mode : report.proven) proven.push_back(name(mode));
  return fmt::format(
      "# Written by \"rkchain selftest\": the modes that work on this board, {}.\n"
      "# They are a property of the board; run it again after the NPU's driver has changed.\n"
      "options rkchain proven={}\n",
      info.driver, fmt::join(proven, ","));
}

struct Saved {
  std::string path;
  std::string error;
};

/// Only a whole test of all cores is worth keeping.
std::optional<Saved> save(const SelfTestReport& report, const DeviceInfo& info,
                          const Options& options) {
  const bool whole = options.modes.empty() && options.cores.empty() && !options.brief;
  if (info.backend == BackendKind::model || !options.save || !whole) return std::nullopt;
  const auto system = System::real();
  Saved saved;
  std::string text;
  if (info.backend == BackendKind::kmod) {
    saved.path = kModprobe;
    text = modprobe_text(report, info);
  } else {
    const std::vector<std::string> files = selftest_files(*system);
    saved.path = geteuid() == 0 ? files.back() : files.front();
    const std::string driver = info.driver.substr(info.driver.find(' ') + 1);
    text = ProvenModes(report.proven, driver, board_identity(*system)).text();
  }
  saved.error = write_file(saved.path, text);
  return saved;
}

// ---- what is shown ----------------------------------------------------------------

std::uint64_t ns_per_block(const SelfTestResult& result) {
  return result.blocks == 0 ? 0 : result.hw_ns / result.blocks;
}

Json json_of(const SelfTestReport& report, const DeviceInfo& info) {
  Json modes = Json::object();
  for (const SelfTestResult& result : report.results) {
    Json core = {{"core", result.core},
                 {"verdict", name(result.verdict)},
                 {"blocks", result.blocks},
                 {"hw_ns", result.hw_ns},
                 {"expected_ns", result.expected_ns},
                 {"ns_per_block", ns_per_block(result)}};
    if (result.block) core["block"] = *result.block;
    if (!result.detail.empty()) core["detail"] = result.detail;
    modes[std::string(name(result.mode))]["cores"].push_back(std::move(core));
  }
  Json proven = Json::array();
  for (const Mode mode : report.proven) proven.push_back(name(mode));
  Json failed = Json::array();
  for (std::uint32_t core = 0; core < kCores; ++core)
    if ((report.failed_cores >> core & 1) != 0) failed.push_back(core);
  return {{"backend", name(info.backend)}, {"model", info.backend == BackendKind::model},
          {"driver", info.driver},         {"modes", std::move(modes)},
          {"proven", std::move(proven)},   {"failed_cores", std::move(failed)},
          {"chosen", name(report.chosen)}, {"why", report.why}};
}

std::string cell(const SelfTestResult& result) {
  if (result.verdict == Verdict::untested || result.hw_ns == 0)
    return std::string(name(result.verdict));
  return fmt::format("{}, {:.1f} us", name(result.verdict),
                     static_cast<double>(ns_per_block(result)) / 1000);
}

void show(const SelfTestReport& report, const DeviceInfo& info) {
  put("{}\n", describe(info));
  std::vector<std::vector<std::string>> rows{{"mode"}};
  std::optional<Mode> last;
  for (const SelfTestResult& result : report.results) {
    if (rows.size() <= 2 && (!last || *last == result.mode))
      rows.front().push_back(fmt::format("core {}", result.core));
    if (!last || *last != result.mode) rows.push_back({std::string(name(result.mode))});
    last = result.mode;
    rows.back().push_back(cell(result));
  }
  put_text(table(rows));
  put("(verdict, and time on the NPU per block{})\n",
      info.backend == BackendKind::model ? ", as the model counts it" : "");
  for (std::uint32_t core = 0; core < kCores; ++core) {
    if ((report.failed_cores >> core & 1) == 0) continue;
    put("core {}: nothing works there{}\n", core,
        info.backend == BackendKind::kmod ? "; it has been set aside" : "; do not use it");
  }
  put("chosen: {}, {}\n", name(report.chosen), report.why);
}

int selftest(const Session& session, const Options& options) {
  OpenOptions open = open_options(session);
  if (options.silicon) {
    open.backend = BackendKind::model;
    open.model = silicon_of(*options.silicon);
  }
  SelfTestOptions test = asked_for(options);
  const Device device = Device::open(open);
  const DeviceInfo info = device.info();
  ask(info, options);

  SelfTestReport report;
  {
    const std::uint64_t modes = test.modes.empty() ? kModes.size() : test.modes.size();
    const std::uint64_t cores = options.cores.empty() ? kCores : options.cores.size();
    Progress progress("modes and cores", modes * cores);
    test.progress = [&progress](Mode, std::uint32_t) { progress.step(); };
    report = self_test(device, test);
  }
  const std::optional<Saved> saved = save(report, info, options);
  if (session.json) {
    Json json = json_of(report, info);
    json["saved"] = saved && saved->error.empty() ? Json(saved->path) : Json();
    put_json(json);
  } else {
    show(report, info);
    if (saved && saved->error.empty()) put("kept in {}\n", saved->path);
  }
  if (saved && !saved->error.empty()) {
    complain("selftest",
             fmt::format("the result could not be kept: {}: {}", saved->path, saved->error));
  }
  return report.proven.empty() ? exit_failed : exit_ok;
}

}  // namespace

void add_selftest(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("selftest", "find out which modes this NPU can do (root, on kmod)");
  command->add_option("--modes", options->modes, "wait, wait41, link, single; all if not given")
      ->type_name("LIST");
  command->add_option("--cores", options->cores, "0, 1, 2; all if not given")
      ->delimiter(',')
      ->type_name("LIST");
  command->add_flag("--short", options->brief,
                    "microseconds; cannot see that completion comes too early, proves nothing");
  command->add_flag("--shared", options->shared, "even if other programs have the NPU open");
  command->add_flag("--yes", options->yes, "do not ask: it is all right if the NPU is reset");
  command->add_flag("!--no-save", options->save, "do not keep the result");
  command
      ->add_option("--silicon", options->silicon,
                   "the model, playing an NPU that is not as claimed: a list of nowait, early, "
                   "needs41, late, rawlate, badcore0, badcore1, badcore2; empty: as claimed")
      ->expected(0, 1)
      ->default_str("")
      ->type_name("LIST");
  add_json(*command, session);
  add_model(*command, session);
  command->footer(
      "Runs chains whose results are known, in each mode on each core, and looks at the outputs\n"
      "when completion is signalled and later.  The module uses what is proven from then on\n"
      "(chain_mode=auto); the result is kept in /etc/modprobe.d/rkchain-selftest.conf, and for\n"
      "the stock driver in rkchain/selftest.json below XDG_STATE_HOME or, as root, /var/lib.\n"
      "\n"
      "Exit code 1 when no mode works on every core.\n"
      "\n"
      "Examples:\n"
      "  sudo rkchain selftest\n"
      "  rkchain selftest --silicon nowait\n"
      "  rkchain selftest --silicon early,badcore1 --json\n");
  command->callback([&session, options] {
    session.action = [&session, options] { return selftest(session, *options); };
  });
}

}  // namespace rkchain::tool

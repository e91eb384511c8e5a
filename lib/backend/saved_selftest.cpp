// SPDX-License-Identifier: MIT
#include "backend/saved_selftest.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace rkchain {
namespace {

using Json = nlohmann::ordered_json;

constexpr Mode kModes[] = {Mode::wait, Mode::wait41, Mode::link, Mode::single};

std::optional<Mode> mode_named(const Json& text) {
  for (const Mode mode : kModes) {
    if (text == name(mode)) return mode;
  }
  return std::nullopt;
}

}  // namespace

ProvenModes::ProvenModes(std::vector<Mode> modes, std::string driver, std::string board)
    : modes_(std::move(modes)), driver_(std::move(driver)), board_(std::move(board)) {
  std::ranges::sort(modes_);
}

ProvenModes ProvenModes::load(const System& system, const std::string& driver) {
  for (const std::string& path : selftest_files(system)) {
    const auto text = system.read(path);
    if (!text) continue;
    const Json json = Json::parse(*text, nullptr, false);
    const std::string board = board_identity(system);
    if (!json.is_object() || json.value("driver", Json()) != driver ||
        json.value("board", Json()) != board) {
      return {};
    }
    std::vector<Mode> modes;
    for (const Json& entry : json.value("proven", Json::array())) {
      if (const auto mode = mode_named(entry)) modes.push_back(*mode);
    }
    return {std::move(modes), driver, board};
  }
  return {};
}

std::string ProvenModes::text() const {
  Json names = Json::array();
  for (const Mode mode : modes_) names.push_back(name(mode));
  const Json json = {{"driver", driver_}, {"board", board_}, {"proven", std::move(names)}};
  return json.dump(2) + "\n";
}

bool ProvenModes::contains(Mode mode) const {
  return std::ranges::find(modes_, mode) != modes_.end();
}

std::optional<Mode> ProvenModes::best() const {
  if (modes_.empty()) return std::nullopt;
  return modes_.front();
}

std::vector<std::string> selftest_files(const System& system) {
  if (const auto named = system.environment("RKCHAIN_SELFTEST_FILE")) return {*named};
  std::vector<std::string> files;
  const auto state = system.environment("XDG_STATE_HOME");
  const auto home = system.environment("HOME");
  if (state) {
    files.push_back(*state + "/rkchain/selftest.json");
  } else if (home) {
    files.push_back(*home + "/.local/state/rkchain/selftest.json");
  }
  files.emplace_back("/var/lib/rkchain/selftest.json");
  return files;
}

std::string board_identity(const System& system) {
  for (const char* const path :
       {"/proc/device-tree/serial-number", "/etc/machine-id", "/proc/device-tree/model"}) {
    if (auto text = system.read(path)) {
      std::erase_if(*text, [](char c) { return c == '\0' || c == '\n'; });
      if (!text->empty()) return *text;
    }
  }
  return "";
}

}  // namespace rkchain

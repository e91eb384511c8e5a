// SPDX-License-Identifier: MIT
// Starts programs with a driver and, before it, the shim.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "capture/records.hpp"

namespace rkchain::test {

namespace fs = std::filesystem;

inline std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

class Shim : public testing::Test {
 protected:
  Shim() : folder_(fs::temp_directory_path() / ("rkchain-shim." + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    std::ofstream(path("node")) << "";
  }
  ~Shim() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path path(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::string bytes() const { return slurp(path("cap")); }
  [[nodiscard]] Records records() const { return parse_records(bytes()); }

  using Environment = std::map<std::string, std::string>;

  /// A program with the driver and, where a capture is asked for, the shim before it.
  Outcome run(const std::string& program, const Environment& more, bool shim = true,
              const std::string& redirect = "") const {
    Environment environment = {{"RKCHAIN_FAKE_NODE", path("node")},
                               {"RKCHAIN_FAKE_COUNTERS", path("counters")},
                               {"RKCHAIN_CAPTURE_FILE", path("cap")}};
    for (const auto& [name, value] : more) environment[name] = value;
    environment["LD_PRELOAD"] = (shim ? RKCHAIN_SHIM ":" : "") + fake();
    std::string command = before_ + "cd '" + folder_.string() + "' && timeout -k 5 200 ";
    command += "env";
    for (const auto& [name, value] : environment)
      if (!value.empty()) command += " '" + name + "=" + value + "'";
    command += " " RKCHAIN_PROGRAMS "/" + program + " >'" + path("out").string() + "' 2>'" +
               path("err").string() + "' </dev/null " + redirect;
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(path("out")), slurp(path("err"))};
  }

  Outcome probe(const std::string& name, const Environment& more = {}, bool shim = true,
                const std::string& redirect = "") const {
    return run("capture_probe " + name + " '" + path("node").string() + "'", more, shim, redirect);
  }

  [[nodiscard]] std::string fake() const { return RKCHAIN_PROGRAMS "/fake_rknpu.so"; }

  /// Submits that the driver has run.
  [[nodiscard]] std::uint64_t driver_submits() const {
    const std::string raw = slurp(path("counters"));
    std::uint64_t values[7] = {};
    std::memcpy(values, raw.data(), std::min(raw.size(), sizeof(values)));
    return values[0] + values[1] + values[2];
  }

  std::string before_;  ///< commands of the shell

 private:
  fs::path folder_;
};

}  // namespace rkchain::test

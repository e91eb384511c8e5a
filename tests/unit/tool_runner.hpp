// SPDX-License-Identifier: MIT
// Starts the command line tool as a user would, for the tests of its commands.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace rkchain::tool_test {

using nlohmann::json;
using Args = std::vector<std::string>;
namespace fs = std::filesystem;

inline const std::string vector_file = RKCHAIN_VECTORS_DIR "/int8_4x32x32.json";

inline std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

inline std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

class Tool : public testing::Test {
 protected:
  Tool() : folder_(fs::temp_directory_path() / ("rkchain-tool." + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Tool() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path path(const std::string& name) const { return folder_ / name; }

  /// A file of that content, ready to be an argument.
  [[nodiscard]] std::string file(const std::string& name, const std::string& bytes) const {
    write(path(name), bytes);
    return path(name).string();
  }

  /// @param more what a shell may add: a redirection, a pipe.
  /// @param backend RKCHAIN_BACKEND, unset if empty.
  Outcome run(const Args& args, const std::string& input = "", const std::string& more = "",
              const std::string& backend = "") const {
    write(path("in"), input);
    std::string command = backend.empty() ? "unset RKCHAIN_BACKEND; "
                                          : "export RKCHAIN_BACKEND=" + quoted(backend) + "; ";
    command += RKCHAIN_EMULATOR " " + quoted(RKCHAIN_TOOL);
    for (const std::string& arg : args) command += " " + quoted(arg);
    command += " <" + quoted(path("in")) + " 2>" + quoted(path("err"));
    command += more.empty() ? " >" + quoted(path("out")) : more;
    const int status = std::system(command.c_str());
    Outcome outcome;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.out = read(path("out"));
    outcome.err = read(path("err"));
    return outcome;
  }

  json run_json(const Args& args, int code = 0) const {
    const Outcome outcome = run(args);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }

  /// Exit code, one line on standard error that starts as it should and says all of @p words.
  void refuses(const Args& args, int code, const std::vector<std::string>& words,
               const std::string& input = "") const {
    const Outcome outcome = run(args, input);
    std::string shown;
    for (const std::string& arg : args) shown += arg + " ";
    EXPECT_EQ(outcome.code, code) << shown << outcome.err;
    EXPECT_EQ(lines(outcome.err), 1U) << shown << outcome.err;
    EXPECT_EQ(outcome.err.rfind("rkchain", 0), 0U) << shown << outcome.err;
    for (const std::string& word : words)
      EXPECT_NE(outcome.err.find(word), std::string::npos)
          << shown << "\nno '" << word << "' in: " << outcome.err;
  }

 private:
  fs::path folder_;
};

inline std::string last_line(const std::string& text) {
  const std::string body = text.substr(0, text.find_last_not_of('\n') + 1);
  return body.substr(body.rfind('\n') + 1);
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline json silicon() { return json::parse(read(vector_file)); }

inline std::vector<std::string> silicon_words() { return silicon()["regcmd"]; }

inline std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + "\n";
  return text;
}

inline std::string raw(const std::vector<std::uint64_t>& words) {
  std::string bytes;
  for (const std::uint64_t word : words)
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(word >> shift);
  return bytes;
}

inline std::vector<std::uint64_t> numbers(const std::vector<std::string>& words) {
  std::vector<std::uint64_t> result;
  for (const std::string& word : words) result.push_back(std::stoull(word, nullptr, 16));
  return result;
}

}  // namespace rkchain::tool_test

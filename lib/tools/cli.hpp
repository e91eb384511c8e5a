// SPDX-License-Identifier: MIT
// What the commands share: how they are started, how they fail, how they print.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rkchain/device.hpp"
#include "rkchain/types.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rkchain::tool {

using Json = nlohmann::ordered_json;

enum Exit : int {
  exit_ok = 0,
  exit_failed = 1,  ///< the work failed, or results disagree
  exit_usage = 2,   ///< usage or bad input
};

/// Arguments or files that cannot be used: exit code 2.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The work failed: exit code 1.
class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... T>
[[noreturn]] void bad_input(fmt::format_string<T...> format, T&&... args) {
  throw BadInput(fmt::format(format, std::forward<T>(args)...));
}

template <typename... T>
[[noreturn]] void failed(fmt::format_string<T...> format, T&&... args) {
  throw Failed(fmt::format(format, std::forward<T>(args)...));
}

/// One start of the tool.  Parsing a command line only sets `action`; main()
/// runs it when all of the line has been understood.
struct Session {
  bool json = false;
  bool model = false;
  std::function<int()> action;
};

/// Text or JSON for standard output.  A reader that has gone away is no error.
void put_text(std::string_view text);
void put_json(const Json& json);
template <typename... T>
void put(fmt::format_string<T...> format, T&&... args) {
  put_text(fmt::format(format, std::forward<T>(args)...));
}
/// @return the errno of the first write that failed, 0 when all went well.
int flush_output();

/// "rkchain COMMAND: text" on standard error.
void complain(std::string_view command, std::string_view text);

/// A counter on standard error while something long runs; silent in a pipe.
class Progress {
 public:
  Progress(std::string_view what, std::uint64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  void step(std::uint64_t count = 1);

 private:
  std::string what_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  int shown_ = -1;
  bool terminal_;
};

/// Decimal or 0x...
/// @throws BadInput naming @p what and the range.
[[nodiscard]] std::uint64_t parse_number(std::string_view text, std::string_view what,
                                         std::uint64_t low, std::uint64_t high);

/// An option or positional that holds a number; "M" and "--a" are both names.
CLI::Option* add_number(CLI::App& app, const std::string& name, std::uint32_t& target,
                        std::uint64_t low, std::uint64_t high, const std::string& help);

/// --json, --model; at the top and for each command.
void add_json(CLI::App& app, Session& session);
void add_model(CLI::App& app, Session& session);

/// "i8", "int8", "i8_i32"; "i8i8"; "f16", "fp16"; "f16f16"; and so on.
/// @throws BadInput naming @p what and the words there are.
[[nodiscard]] Type parse_type(std::string_view text, std::string_view what);
/// "flat" or "native".
[[nodiscard]] Layout parse_layout(std::string_view text, std::string_view what);
CLI::Option* add_type(CLI::App& app, Type& target);
CLI::Option* add_layout(CLI::App& app, Layout& target);
CLI::Option* add_mode(CLI::App& app, std::optional<Mode>& target);

/// @return "1,234,567"
[[nodiscard]] std::string grouped(std::uint64_t value);

/// @param path "-" is standard input.
/// @throws BadInput when it cannot be read or is larger than @p limit bytes.
[[nodiscard]] std::string read_file(const std::string& path, std::size_t limit);
/// @return "standard input" for "-".
[[nodiscard]] std::string display_name(const std::string& path);

/// The back end that the command line asks for.
[[nodiscard]] OpenOptions open_options(const Session& session);
/// @return "software NPU (model)" or the driver with its back end.
[[nodiscard]] std::string describe(const DeviceInfo& info);

/// A table of right-aligned columns, the first one left-aligned.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

}  // namespace rkchain::tool

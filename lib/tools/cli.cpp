// SPDX-License-Identifier: MIT
#include "tools/cli.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

namespace rkchain::tool {
namespace {

int output_error = 0;

}  // namespace

void put_text(std::string_view text) {
  if (output_error == 0 && std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    output_error = errno;
}

void put_json(const Json& json) {
  // File names may hold any byte.
  put_text(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

int flush_output() {
  if (output_error == 0 && std::fflush(stdout) != 0) output_error = errno;
  return output_error;
}

void complain(std::string_view command, std::string_view text) {
  std::string line = command.empty() ? fmt::format("rkchain: {}", text)
                                     : fmt::format("rkchain {}: {}", command, text);
  // One line whatever a library or a file name put into it.
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

Progress::Progress(std::string_view what, std::uint64_t total)
    : what_(what), total_(total), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_ && shown_ >= 0) std::fputs("\r\x1b[K", stderr);
}

void Progress::step(std::uint64_t count) {
  done_ += count;
  if (!terminal_ || total_ == 0) return;
  const int percent = static_cast<int>(100 * std::min(done_, total_) / total_);
  if (percent == shown_) return;
  shown_ = percent;
  const std::string line = fmt::format("\r{}: {} %", what_, percent);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

std::uint64_t parse_number(std::string_view text, std::string_view what, std::uint64_t low,
                           std::uint64_t high) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hex ? text.substr(2) : text;
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  const bool whole = !digits.empty() && end == digits.data() + digits.size();
  if (!whole || error == std::errc::invalid_argument)
    bad_input("{}: '{}' is not a whole number (decimal or 0x...)", what, text);
  if (error != std::errc() || value < low || value > high) {
    if (hex)
      bad_input("{}: {} is out of range, the limits are {:#x} to {:#x}", what, text, low, high);
    bad_input("{}: {} is out of range, the limits are {} to {}", what, text, low, high);
  }
  return value;
}

CLI::Option* add_number(CLI::App& app, const std::string& name, std::uint32_t& target,
                        std::uint64_t low, std::uint64_t high, const std::string& help) {
  return app
      .add_option_function<std::string>(
          name,
          [name, &target, low, high](const std::string& text) {
            target = static_cast<std::uint32_t>(parse_number(text, name, low, high));
          },
          help)
      ->type_name(name.starts_with("-") ? "NUMBER" : "");
}

void add_json(CLI::App& app, Session& session) {
  app.add_flag("--json", session.json, "machine-readable output; messages stay on standard error");
}

void add_model(CLI::App& app, Session& session) {
  app.add_flag("--model", session.model,
               "use the software NPU (the same as RKCHAIN_BACKEND=model)");
}

Type parse_type(std::string_view text, std::string_view what) {
  struct Word {
    std::string_view text;
    Type type;
  };
  static constexpr std::array words{
      Word{"i8", Type::i8_i32},        Word{"int8", Type::i8_i32},
      Word{"i8_i32", Type::i8_i32},    Word{"int8_int32", Type::i8_i32},
      Word{"i8i8", Type::i8_i8},       Word{"i8_i8", Type::i8_i8},
      Word{"int8_i8", Type::i8_i8},    Word{"int8_int8", Type::i8_i8},
      Word{"f16", Type::f16_f32},      Word{"fp16", Type::f16_f32},
      Word{"f16_f32", Type::f16_f32},  Word{"fp16_fp32", Type::f16_f32},
      Word{"f16f16", Type::f16_f16},   Word{"f16_f16", Type::f16_f16},
      Word{"fp16_f16", Type::f16_f16}, Word{"fp16_fp16", Type::f16_f16},
  };
  for (const Word& word : words)
    if (word.text == text) return word.type;
  bad_input("{}: no type '{}'; there are i8, i8i8, f16, f16f16", what, text);
}

Layout parse_layout(std::string_view text, std::string_view what) {
  if (text == "flat") return Layout::flat;
  if (text == "native") return Layout::native;
  bad_input("{}: no layout '{}'; there are flat, native", what, text);
}

CLI::Option* add_type(CLI::App& app, Type& target) {
  return app
      .add_option_function<std::string>(
          "--type", [&target](const std::string& text) { target = parse_type(text, "--type"); },
          "element types: i8 (int32 results), i8i8 (int8 results), f16 (fp32 results), f16f16 "
          "(fp16 results); i8 if not given")
      ->type_name("TYPE");
}

CLI::Option* add_layout(CLI::App& app, Layout& target) {
  return app
      .add_option_function<std::string>(
          "--layout",
          [&target](const std::string& text) { target = parse_layout(text, "--layout"); },
          "of features and outputs in memory: flat (row-major) or native (NC1HWC2); flat if not "
          "given")
      ->type_name("LAYOUT");
}

CLI::Option* add_mode(CLI::App& app, std::optional<Mode>& target) {
  return app
      .add_option_function<std::string>(
          "--mode",
          [&target](const std::string& text) {
            for (const Mode mode : {Mode::wait, Mode::wait41, Mode::link, Mode::single})
              if (name(mode) == text) {
                target = mode;
                return;
              }
            bad_input("--mode: no mode '{}'; there are wait, wait41, link, single", text);
          },
          "how a chain runs: wait, wait41, link, or single (one submit for each program); if not "
          "given, wait on the model, and what \"rkchain selftest\" has proven on the stock driver")
      ->type_name("MODE");
}

std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string display_name(const std::string& path) { return path == "-" ? "standard input" : path; }

std::string read_file(const std::string& path, std::size_t limit) {
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdin) std::fclose(file);
    }
  };
  const std::string shown = display_name(path);
  const std::unique_ptr<std::FILE, Close> file(path == "-" ? stdin
                                                           : std::fopen(path.c_str(), "rb"));
  if (!file) bad_input("{}: {}", shown, std::strerror(errno));

  constexpr std::size_t piece = std::size_t{1} << 20;
  std::string bytes;
  for (;;) {
    const std::size_t at = bytes.size();
    bytes.resize(at + piece);
    const std::size_t got = std::fread(bytes.data() + at, 1, piece, file.get());
    bytes.resize(at + got);
    if (bytes.size() > limit) bad_input("{}: larger than the limit of {} bytes", shown, limit);
    if (std::ferror(file.get()) != 0) bad_input("{}: {}", shown, std::strerror(errno));
    if (got < piece) return bytes;
  }
}

OpenOptions open_options(const Session& session) {
  OpenOptions options;
  if (session.model) options.backend = BackendKind::model;
  return options;
}

std::string describe(const DeviceInfo& info) {
  if (info.backend == BackendKind::model) return "software NPU (model)";
  return fmt::format("{} ({} back end)", info.driver, name(info.backend));
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); i++) width[i] = std::max(width[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); i++) {
      if (i == 0)
        text += fmt::format("{:<{}}", row[i], width[i]);
      else
        text += fmt::format("  {:>{}}", row[i], width[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace rkchain::tool

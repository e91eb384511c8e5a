// SPDX-License-Identifier: MIT
// rkchain capture: a program under the capture library, and what it asked for.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "tools/capture_run.hpp"
#include "tools/captures.hpp"
#include "tools/commands.hpp"

namespace rkchain::tool {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string file = "rkchain-capture.bin";
  std::string format;
  std::string depth = "programs";
  std::vector<std::string> command;
};

/// What was there before is no part of this capture.
fs::path fresh_file(const std::string& path) {
  std::error_code error;
  fs::path file = fs::absolute(path, error);
  if (error) bad_input("{}: {}", path, error.message());
  if (!fs::is_directory(file.parent_path(), error))
    bad_input("{}: {} is no directory", path, file.parent_path().string());
  if (fs::is_directory(file, error)) bad_input("{}: it is a directory", path);
  if (fs::is_regular_file(file, error)) {
    fs::remove(file, error);
    if (error) bad_input("{}: {}", path, error.message());
  }
  return file;
}

std::string preload(const std::string& library) {
  const char* others = std::getenv("LD_PRELOAD");
  return others == nullptr || *others == '\0' ? library : library + ":" + others;
}

void print_totals(const capture::Report& report, std::uintmax_t bytes, const std::string& path) {
  const capture::Stats& total = report.total;
  std::string cores;
  for (const auto& [core, row] : total.cores)
    cores += fmt::format("{}{} {}", cores.empty() ? "" : ", ", core_text(core), row.submits);
  std::uint64_t unseen = total.unseen.others;
  for (const auto& [what, count] : total.unseen.of) unseen += count;
  std::string text =
      fmt::format("{}: {} bytes, {} submits ({}), {} tasks, {} failed, {} not seen, {} lost", path,
                  grouped(bytes), grouped(total.submits), cores, grouped(total.tasks),
                  grouped(total.failed), grouped(unseen), grouped(total.lost));
  if (total.chains.submits != 0)
    text += fmt::format("; /dev/rkchain: {} submits of {} chains, {} completions",
                        grouped(total.chains.submits), grouped(total.chains.submitted),
                        grouped(total.chains.completions));
  complain("capture", text);
}

/// What has happened is on standard error, and nothing here changes the program's status.
void sum_up(const fs::path& file, const std::string& shown) {
  constexpr std::string_view nothing =
      "the program was not captured: it is linked statically, runs with other rights (setuid), or "
      "clears LD_PRELOAD";
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error || bytes == 0) {
    complain("capture", nothing);
    return;
  }
  try {
    capture::Reporter reporter;
    const capture::ReadResult read = read_records(
        file.string(), [&](const capture::Record& record) { reporter.add(record); }, true);
    const capture::Report report = reporter.finish();
    if (report.processes_known == 0) complain("capture", nothing);
    print_totals(report, bytes, shown);
    if (!read.damage.empty()) complain("capture", read.damage);
  } catch (const std::exception& problem) {
    complain("capture", problem.what());
  }
}

int capture_command(const Options& options) {
  const std::string library = find_capture_library();
  const fs::path file = fresh_file(options.file);
  const capture::Format format = options.format.empty()
                                     ? capture_format_of(options.file)
                                     : parse_capture_format(options.format, "--format");
  std::string error;
  const int status = run_child(options.command,
                               {{"LD_PRELOAD", preload(library)},
                                {"RKCHAIN_CAPTURE_FILE", file.string()},
                                {"RKCHAIN_CAPTURE_FORMAT", std::string(capture::name(format))},
                                {"RKCHAIN_CAPTURE_DEPTH", options.depth}},
                               error);
  if (error.empty())
    sum_up(file, options.file);
  else
    complain("capture", error);
  return status;
}

}  // namespace

void add_capture(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("capture", "run a program, and write down what it asks of the NPU");
  command
      ->add_option("-o,--output", options->file,
                   "the capture; rkchain-capture.bin if not given, and what was there is replaced")
      ->type_name("FILE");
  command
      ->add_option_function<std::string>(
          "--format",
          [options](const std::string& text) {
            (void)parse_capture_format(text, "--format");
            options->format = text;
          },
          "binary, json (JSON lines) or text; if not given, what the file's name ends with says")
      ->type_name("FORMAT");
  command
      ->add_option_function<std::string>(
          "--depth",
          [options](const std::string& text) {
            static constexpr std::array words{"submits", "programs", "everything"};
            if (std::find(words.begin(), words.end(), text) == words.end())
              bad_input("--depth: no depth '{}'; there are submits, programs, everything", text);
            options->depth = text;
          },
          "submits (and what they return), programs (also register programs), everything (also "
          "memory, for replay); programs if not given")
      ->type_name("DEPTH");
  command->add_option("CMD", options->command, "the program and its arguments, behind --")
      ->required()
      ->type_name("");
  add_json(*command, session);
  command->footer(
      "The program runs as it would alone: its output, its exit code (128 + the signal that ended\n"
      "it), and the signals sent to rkchain are its own.  Totals are printed on standard error\n"
      "when it has ended.  Statically linked and setuid programs cannot be captured.  Exit code\n"
      "127 or 126 when the program is not there or cannot be run.\n"
      "\n"
      "Examples:\n"
      "  rkchain capture -- ./llm-demo model.rkllm\n"
      "  rkchain capture -o all.bin --depth everything -- ./llm-demo model.rkllm\n"
      "  rkchain capture -o cap.log --depth submits -- ./llm-demo model.rkllm; grep SUBMIT "
      "cap.log\n");
  command->callback(
      [&session, options] { session.action = [options] { return capture_command(*options); }; });
}

}  // namespace rkchain::tool

// SPDX-License-Identifier: MIT
// rkchain report: what a capture says.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "capture/svg.hpp"
#include "tools/captures.hpp"
#include "tools/commands.hpp"

namespace rkchain::tool {
namespace {

struct Options {
  std::string file;
  std::string svg;
  std::string convert;
  std::optional<capture::Format> format;
  std::uint32_t pid = 0;
  bool partial = false;
  bool processes = false;
};

void write_text(const std::string& path, const std::string& text) {
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "wb"));
  if (!file) bad_input("{}: {}", path, std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (!written || std::fclose(file.release()) != 0) failed("{}: {}", path, std::strerror(errno));
}

int report(const Session& session, const Options& options) {
  if (!options.convert.empty()) {
    convert_capture(options.file, options.convert,
                    options.format.value_or(capture_format_of(options.convert)), options.partial);
    return exit_ok;
  }
  capture::Reporter reporter(options.pid != 0 ? std::optional(options.pid) : std::nullopt);
  const capture::ReadResult read = read_records(
      options.file, [&](const capture::Record& record) { reporter.add(record); }, options.partial);
  const capture::Report result = reporter.finish();
  const std::string shown = display_name(options.file);
  if (options.pid != 0 && result.processes.empty())
    bad_input("--pid: {} has no record of process {}", shown, options.pid);
  if (!options.svg.empty()) write_text(options.svg, capture::draw_svg(result, shown));

  if (session.json) {
    Json json = {{"file", shown},
                 {"format", capture::name(read.format)},
                 {"records", read.records},
                 {"unknown_records", read.unknown}};
    if (!read.damage.empty()) json["damage"] = read.damage;
    json.update(report_json(result));
    put_json(json);
  } else {
    put("{}: {}, {} records", shown, capture::name(read.format), grouped(read.records));
    if (read.unknown != 0) put(", {} of kinds that are not known here", grouped(read.unknown));
    put_text("\n");
    if (!read.damage.empty()) put("Only what comes before the damage: {}\n", read.damage);
    put_text(report_text(result, options.processes));
  }
  return exit_ok;
}

}  // namespace

void add_report(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("report", "tables of what captured programs asked of the NPU");
  command->add_option("FILE", options->file, "a capture in any form, or - for standard input")
      ->required()
      ->type_name("");
  command->add_option("--svg", options->svg, "also draw it: histograms and a timeline")
      ->type_name("OUT");
  command->add_flag("--partial", options->partial,
                    "of a damaged file, take what comes before the damage");
  add_number(*command, "--pid", options->pid, 1, 0xffffffff, "only this process");
  command->add_flag("--processes", options->processes, "also the tables of each process");
  command->add_option("--convert", options->convert, "write the same records to OUT, and no report")
      ->type_name("OUT");
  command
      ->add_option_function<std::string>(
          "--format",
          [options](const std::string& text) {
            options->format = parse_capture_format(text, "--format");
          },
          "of --convert: binary, json or text; if not given, what the name of OUT ends with says")
      ->type_name("FORMAT");
  add_json(*command, session);
  command->footer(
      "Reads the binary form, JSON lines and text, whatever the file is called.  Text needs only\n"
      "lines with \"=== SUBMIT core=0x1 task_number=3\" in them.  Files may be of any size.\n"
      "\n"
      "Examples:\n"
      "  rkchain report rkchain-capture.bin\n"
      "  rkchain report capture.log --svg capture.svg\n"
      "  rkchain report capture.bin --json | jq .total.cores\n"
      "  rkchain report capture.bin --convert capture.log\n");
  command->callback([&session, options] {
    session.action = [&session, options] { return report(session, *options); };
  });
}

}  // namespace rkchain::tool

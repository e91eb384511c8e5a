// SPDX-License-Identifier: MIT
// rkchain replay: what was captured, on the software NPU.
#include "capture/replay.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "capture/to_chain.hpp"
#include "tools/commands.hpp"

namespace rkchain::tool {
namespace {

using capture::ChainReport;
using capture::Depth;
using capture::ReadResult;
using capture::ReplayTotals;
using capture::SubmitResult;

constexpr std::size_t most_lines = 50;

struct Options {
  std::string file;
  bool to_chain = false;
  bool partial = false;
  std::uint64_t submit = 0;
  std::uint64_t limit_bytes = capture::ReplayOptions{}.limit_bytes;
};

struct Outcome {
  ReadResult read;
  std::vector<SubmitResult> submits;
  ReplayTotals totals;
  std::optional<Depth> depth;
  std::optional<ChainReport> chains;

  std::uint64_t words = 0;  ///< of the submits that are asked for
  std::uint64_t equal = 0;
  std::uint64_t left_out = 0;
};

Outcome replay(const Options& options) {
  capture::ReplayOptions replay_options;
  replay_options.limit_bytes = options.limit_bytes;
  capture::ToChain to_chain;
  capture::Replay replay(replay_options, options.to_chain ? &to_chain : nullptr);
  to_chain.use(replay);
  Outcome outcome;
  try {
    outcome.read = capture::read_capture(
        options.file, [&](const capture::Record& record) { replay.visit(record); },
        {options.partial});
    outcome.submits = replay.finish();
    if (options.to_chain) outcome.chains = to_chain.finish();
  } catch (const capture::BadCapture& error) {
    throw BadInput(error.what());
  } catch (const capture::TooLarge& error) {
    failed("{}: {}", display_name(options.file), error.what());
  }
  outcome.totals = replay.totals();
  outcome.depth = replay.depth();
  if (options.submit > outcome.totals.submits)
    bad_input("--submit: {} is out of range, {} has {} submits", options.submit,
              display_name(options.file), outcome.totals.submits);
  if (options.submit != 0)
    std::erase_if(outcome.submits,
                  [&](const SubmitResult& submit) { return submit.number != options.submit; });
  for (const SubmitResult& submit : outcome.submits) {
    outcome.words += submit.words;
    outcome.equal += submit.equal;
    outcome.left_out += submit.left_out;
  }
  return outcome;
}

// ---- verdict --------------------------------------------------------------------

/// Why nothing could be compared.
std::string nothing_text(const Outcome& outcome) {
  if (outcome.totals.submits == 0 && outcome.totals.chain_submits != 0)
    return fmt::format(
        "it has {} chain submits of /dev/rkchain and none of the stock driver, which alone are "
        "replayed",
        outcome.totals.chain_submits);
  if (outcome.totals.submits == 0) return "it has no submits";
  if (!outcome.depth || *outcome.depth != Depth::everything)
    return fmt::format("its depth is {}, without memory: capture with --depth everything",
                       !outcome.depth                     ? "not known"
                       : *outcome.depth == Depth::submits ? "submits"
                                                          : "programs");
  for (const SubmitResult& submit : outcome.submits)
    if (!submit.why.empty()) return submit.why;
  return "no submit wrote anything";
}

int judge(const Outcome& outcome, const std::string& file) {
  if (outcome.words == 0) {
    complain("replay",
             fmt::format("{}: nothing could be compared: {}", file, nothing_text(outcome)));
    return exit_failed;
  }
  const bool chains_equal = !outcome.chains || (outcome.chains->equal == outcome.chains->bytes);
  return outcome.equal == outcome.words && chains_equal ? exit_ok : exit_failed;
}

// ---- text -----------------------------------------------------------------------

std::string difference_text(const capture::Difference& first) {
  const int digits = 2 * static_cast<int>(first.bytes);
  return fmt::format(
      "first difference in buffer {:#010x} at offset {:#x} (address {:#010x}): the software NPU "
      "has {:#0{}x}, the capture {:#0{}x}",
      first.buffer, first.offset, first.address, first.have, digits + 2, first.want, digits + 2);
}

std::string submit_text(const SubmitResult& submit) {
  std::string text =
      fmt::format("submit {} (pid {}, id {}): core mask {:#x}, {} {}", submit.number, submit.pid,
                  submit.id, submit.core_mask, submit.tasks, submit.tasks == 1 ? "task" : "tasks");
  if (submit.words != 0) text += fmt::format(", {}/{} words equal", submit.equal, submit.words);
  if (submit.left_out != 0)
    text += fmt::format(", {} not compared: {}", submit.left_out, submit.why);
  else if (!submit.why.empty())
    text += fmt::format(", not replayed: {}", submit.why);
  if (submit.first) text += fmt::format("\n  {}", difference_text(*submit.first));
  return text + "\n";
}

void put_submits(const Outcome& outcome) {
  const bool all = outcome.submits.size() <= most_lines;
  std::size_t shown = 0, more = 0;
  for (const SubmitResult& submit : outcome.submits) {
    if (!all && submit.why.empty() && !submit.differs()) continue;
    if (++shown <= most_lines)
      put_text(submit_text(submit));
    else
      more++;
  }
  if (more != 0) put("{} more with differences or not replayed; --json has them all\n", more);
}

void put_totals(const Outcome& outcome) {
  std::map<std::string, std::uint64_t> reasons;
  std::uint64_t compared = 0;
  for (const SubmitResult& submit : outcome.submits) {
    compared += submit.words != 0 ? 1 : 0;
    if (!submit.why.empty()) reasons[submit.why]++;
  }
  if (outcome.submits.size() > most_lines)
    for (const auto& [why, count] : reasons) put("{} submits: {}\n", grouped(count), why);
  put("{}/{} words equal, {} of {} submits compared", outcome.equal, outcome.words,
      grouped(compared), grouped(outcome.submits.size()));
  if (outcome.left_out != 0) put(", {} words not compared", outcome.left_out);
  put("\n");
  if (outcome.totals.lost != 0)
    put("the capture has lost {} records\n", grouped(outcome.totals.lost));
  if (outcome.totals.odd != 0)
    put("{} records do not fit what came before them and were passed over\n",
        grouped(outcome.totals.odd));
  if (outcome.totals.chain_submits != 0)
    put("{} chain submits of /dev/rkchain are not replayed\n",
        grouped(outcome.totals.chain_submits));
  if (!outcome.read.damage.empty()) put("the capture is damaged: {}\n", outcome.read.damage);
}

void put_chains(const ChainReport& report) {
  const auto row = [](const std::string& what, std::uint64_t captured, std::uint64_t ours) {
    return std::vector<std::string>{what, grouped(captured), grouped(ours)};
  };
  put("\nthe same work as wait chains; counted, not measured: nothing is claimed of silicon\n");
  put_text(table({{"", "captured", "as chains"},
                  row("submits", report.captured.submits, report.ours.submits),
                  row("tasks", report.captured.tasks, report.ours.tasks),
                  row("interrupts", report.captured.interrupts, report.ours.interrupts),
                  row("system calls", report.captured.calls, report.ours.calls)}));
  put("{} submits in {} chains, {} matmuls, at most {} in a chain\n", grouped(report.taken_over),
      grouped(report.chains), grouped(report.blocks), grouped(report.longest));
  for (const auto& [why, count] : report.ends) put("  {} ended: {}\n", grouped(count), why);
  put("chains on the software NPU: {}/{} bytes of outputs as the captured programs write them\n",
      report.equal, report.bytes);
  if (!report.first.empty()) put("  first difference: {}\n", report.first);
  std::size_t shown = 0;
  for (const auto& left : report.left)
    if (++shown <= most_lines)
      put("submit {} (pid {}, id {}) left as it is: {}\n", left.number, left.pid, left.id,
          left.why);
  if (shown > most_lines) put("{} more left as they are\n", grouped(shown - most_lines));
  put("Reads of memory that is not cached cannot be seen in a capture: a program that looks at\n"
      "results in between without MEM_SYNC needs more chains than these.\n");
}

// ---- JSON -----------------------------------------------------------------------

Json to_json(const SubmitResult& submit) {
  Json json = {{"submit", submit.number},
               {"pid", submit.pid},
               {"tid", submit.tid},
               {"id", submit.id},
               {"core_mask", submit.core_mask},
               {"tasks", submit.tasks},
               {"blocks", submit.blocks},
               {"words", submit.words},
               {"equal", submit.equal},
               {"not_compared", submit.left_out}};
  if (!submit.why.empty()) json["why"] = submit.why;
  if (submit.first)
    json["first_difference"] = {
        {"buffer", submit.first->buffer},   {"offset", submit.first->offset},
        {"address", submit.first->address}, {"bytes", submit.first->bytes},
        {"have", submit.first->have},       {"want", submit.first->want}};
  return json;
}

Json to_json(const capture::ChainCounts& counts) {
  return {{"submits", counts.submits},
          {"tasks", counts.tasks},
          {"interrupts", counts.interrupts},
          {"system_calls", counts.calls}};
}

Json to_json(const ChainReport& report) {
  Json json = {{"counted_not_measured", true},
               {"captured", to_json(report.captured)},
               {"as_chains", to_json(report.ours)},
               {"taken_over", report.taken_over},
               {"chains", report.chains},
               {"blocks", report.blocks},
               {"longest", report.longest},
               {"bytes", report.bytes},
               {"equal", report.equal},
               {"ends", Json::object()},
               {"left", Json::array()}};
  if (!report.first.empty()) json["first_difference"] = report.first;
  for (const auto& [why, count] : report.ends) json["ends"][why] = count;
  for (const auto& left : report.left)
    json["left"].push_back(
        {{"submit", left.number}, {"pid", left.pid}, {"id", left.id}, {"why", left.why}});
  return json;
}

Json to_json(const Outcome& outcome, const std::string& file, bool pass) {
  Json json = {{"file", file},
               {"pass", pass},
               {"submits", Json::array()},
               {"words", outcome.words},
               {"equal", outcome.equal},
               {"not_compared", outcome.left_out},
               {"lost_records", outcome.totals.lost},
               {"odd_records", outcome.totals.odd},
               {"chain_submits", outcome.totals.chain_submits}};
  for (const SubmitResult& submit : outcome.submits) json["submits"].push_back(to_json(submit));
  if (outcome.chains) json["to_chain"] = to_json(*outcome.chains);
  if (!outcome.read.damage.empty()) json["damage"] = outcome.read.damage;
  return json;
}

int run_replay(const Session& session, const Options& options) {
  const std::string file = display_name(options.file);
  const Outcome outcome = replay(options);
  const int code = judge(outcome, file);
  if (session.json) {
    put_json(to_json(outcome, file, code == exit_ok));
    return code;
  }
  put_submits(outcome);
  put_totals(outcome);
  if (outcome.chains) put_chains(*outcome.chains);
  return code;
}

}  // namespace

void add_replay(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("replay", "run captured programs on the software NPU and compare");
  command->add_option("FILE", options->file, "a capture; - is standard input")
      ->required()
      ->type_name("");
  command->add_flag("--to-chain", options->to_chain,
                    "also build the same work as chains, run them, and count what that saves");
  command->add_flag("--partial", options->partial, "take what comes before a damaged place");
  const auto number = [command](const std::string& name, std::uint64_t& target, std::uint64_t low,
                                const std::string& help) {
    command
        ->add_option_function<std::string>(
            name,
            [name, &target, low](const std::string& text) {
              target = parse_number(text, name, low, std::uint64_t{1} << 48);
            },
            help)
        ->type_name("NUMBER");
  };
  number("--submit", options->submit, 1, "show and judge only this one, counted from 1");
  number("--limit-bytes", options->limit_bytes, 4096,
         "the most memory that captured buffers may take; 4 GiB if not given");
  add_json(*command, session);
  command->footer(
      "Memory is rebuilt from the buffers of the capture, each submit runs with what it found\n"
      "there, and what it writes is compared with what was captured after it, bit for bit.\n"
      "That needs a capture of depth everything.\n"
      "Exit code 0: something was compared and all of it is equal.\n"
      "\n"
      "Examples:\n"
      "  rkchain capture --depth everything -o cap.rkcap -- ./program\n"
      "  rkchain replay cap.rkcap --to-chain\n");
  command->callback([&session, options] {
    session.action = [&session, options] { return run_replay(session, *options); };
  });
}

}  // namespace rkchain::tool

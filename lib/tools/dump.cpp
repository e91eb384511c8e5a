// SPDX-License-Identifier: MIT
// rkchain dump: what a register program says and does.
#include "tools/dump.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "kmod/core/chain.h"
#include "kmod/core/entry.h"
#include "kmod/core/regs.h"
#include "src/format.hpp"
#include "tools/captures.hpp"
#include "tools/commands.hpp"
#include "tools/matmul_args.hpp"
#include "tools/words.hpp"

namespace rkchain::tool {
namespace {

struct Block {
  std::size_t first = 0;  // word of the file
  std::size_t size = 0;
  std::optional<rkc_matmul> matmul;  // what the recogniser found
  rkc_err error{};                   // or why not
  std::optional<std::uint32_t> next;
};

/// What a file holds.
struct Dump {
  std::string file;
  Words input;
  std::uint32_t mode = RKC_MODES;  // RKC_MODES: no layout fits
  rkc_program program{};
  rkc_err shape{};  // of the chain as a whole
  std::vector<Block> blocks;

  [[nodiscard]] bool understood() const {
    return mode != RKC_MODES && shape.reason == RKC_OK &&
           std::all_of(blocks.begin(), blocks.end(),
                       [](const Block& block) { return block.matmul.has_value(); });
  }
};

/// The address that a link's tail names.
std::optional<std::uint32_t> next_program(std::span<const std::uint64_t> tail) {
  for (const std::uint64_t word : tail)
    if (rkc_entry_target(word) == RKC_TARGET_PC && rkc_entry_reg(word) == RKC_PC_ADDRESS &&
        rkc_entry_value(word) != 0)
      return rkc_entry_value(word);
  return std::nullopt;
}

/// A chain that was cut off inside a block: the detection counts whole bodies only.
bool begins_another(const Dump& dump) {
  const rkc_program& program = dump.program;
  const std::uint64_t end = std::uint64_t{program.count} * program.stride;
  return end < program.nwords &&
         rkc_target_page(rkc_entry_target(program.words[end])) >= rkc_target_page(RKC_TARGET_CNA);
}

Dump analyse(const std::string& heading, Words input) {
  Dump dump;
  dump.file = heading;
  dump.input = std::move(input);
  const std::vector<std::uint64_t>& words = dump.input.words;

  dump.mode = rkc_program_detect(words.data(), words.size(), &dump.program);
  if (dump.mode == RKC_MODES) {
    dump.blocks.push_back({0, words.size(), std::nullopt, {}, std::nullopt});
    return dump;
  }
  if (begins_another(dump)) dump.program.count++;
  rkc_program_shape(&dump.program, &dump.shape);

  const auto recogniser = std::make_unique<rkc_recogniser>();
  const std::size_t count = std::max<std::size_t>(dump.program.count, 1);
  for (std::size_t i = 0; i < count; i++) {
    Block block;
    block.first = i * dump.program.stride;
    if (block.first >= words.size()) break;
    const std::size_t left = words.size() - block.first;
    block.size = i + 1 == count ? left : std::min<std::size_t>(dump.program.stride, left);
    rkc_matmul matmul{};
    if (block.size < dump.program.body)
      rkc_refuse(&block.error, RKC_TRUNCATED, static_cast<u32>(block.size), 0, block.size,
                 dump.program.body);
    else if (rkc_program_block(recogniser.get(), &dump.program, static_cast<u32>(i), &matmul,
                               &block.error) == RKC_OK)
      block.matmul = matmul;
    block.error.block = static_cast<u32>(i);
    if (block.size >= dump.program.body)
      block.next = next_program(std::span(words).subspan(block.first + dump.program.body,
                                                         block.size - dump.program.body));
    dump.blocks.push_back(block);
  }
  return dump;
}

/// Do the links name the programs as they lie here, one behind the other?
bool links_in_place(const Dump& dump) {
  for (std::size_t i = 1; i + 1 < dump.blocks.size(); i++) {
    const auto &one = dump.blocks[i - 1].next, &two = dump.blocks[i].next;
    if (!one || !two || *two - *one != 8 * dump.program.stride) return false;
  }
  return true;
}

// ---- the whole -----------------------------------------------------------------

std::string mode_text(const Dump& dump) {
  const rkc_program& program = dump.program;
  if (dump.mode == RKC_MODES) return "no chain layout fits";
  std::string text =
      program.count == 1
          ? fmt::format("one program, body of {} words", program.body)
          : fmt::format("{} chain: S = {} blocks, stride {} words, body of {}",
                        rkc_mode_name(dump.mode), program.count, program.stride, program.body);
  if (program.link)
    text += links_in_place(dump) ? ", links in place" : ", links not in the order of the file";
  return text;
}

std::string why(const Dump& dump, const Block& block) {
  if (dump.mode == RKC_MODES)
    return fmt::format("no body of at most {} register words, or more than {} programs",
                       RKC_BODY_MAX, RKC_LINK_MAX);
  std::string text = detail::describe(block.error);
  if (block.error.word != RKC_NO_WORD)
    text += fmt::format(" (file offset {:#x})", 8 * (block.first + block.error.word));
  return text;
}

std::string extent_text(const rkc_extent& extent) {
  return fmt::format("{:#x} + {}", extent.start, grouped(extent.len));
}

void print_dump(const Dump& dump, const DumpOptions& options) {
  const std::vector<std::uint64_t>& words = dump.input.words;
  put("{}: {} words ({}); {}\n", dump.file, words.size(), name(dump.input.format), mode_text(dump));
  for (std::size_t i = 0; i < dump.blocks.size(); i++) {
    const Block& block = dump.blocks[i];
    put("\nblock {} at word {}: ", i, block.first);
    if (block.matmul) {
      rkc_extents extents{};
      rkc_matmul_extents(&*block.matmul, &extents);
      put("{}\n  A {}, B {}, C {} bytes\n", describe(*block.matmul), extent_text(extents.a),
          extent_text(extents.b), extent_text(extents.c));
    } else {
      put("no matmul: {}\n", why(dump, block));
    }
    if (block.next) put("  next program at {:#x}\n", *block.next);
    if (options.summary) continue;
    for (std::size_t w = 0; w < block.size; w++)
      print_word(words[block.first + w], w, 8 * (block.first + w));
  }
}

Json dump_json(const Dump& dump, const DumpOptions& options) {
  const std::vector<std::uint64_t>& words = dump.input.words;
  Json json = {{"file", dump.file},
               {"format", name(dump.input.format)},
               {"words", words.size()},
               {"understood", dump.understood()}};
  if (dump.mode != RKC_MODES) {
    json["chain"] = {{"mode", rkc_mode_name(dump.mode)},
                     {"S", dump.program.count},
                     {"stride", dump.program.stride},
                     {"body", dump.program.body},
                     {"link", dump.program.link}};
    if (dump.program.link) json["chain"]["links_in_place"] = links_in_place(dump);
    if (dump.shape.reason != RKC_OK) json["chain"]["reason"] = to_json(dump.shape);
  }
  json["blocks"] = Json::array();
  for (std::size_t i = 0; i < dump.blocks.size(); i++) {
    const Block& block = dump.blocks[i];
    Json entry = {{"block", i}, {"first_word", block.first}};
    if (block.matmul)
      entry["matmul"] = to_json(*block.matmul);
    else if (dump.mode != RKC_MODES)
      entry["reason"] = to_json(block.error);
    if (block.next) entry["next"] = fmt::format("{:#x}", *block.next);
    if (!options.summary) {
      entry["words"] = Json::array();
      for (std::size_t w = 0; w < block.size; w++)
        entry["words"].push_back(word_json(words[block.first + w], w, 8 * (block.first + w)));
    }
    json["blocks"].push_back(std::move(entry));
  }
  return json;
}

int dump_file(const Session& session, const DumpOptions& options) {
  if (!options.other.empty()) return dump_diff(session, options);
  if (options.format == WordFormat::automatic && is_capture(options.file))
    return dump_capture(session, options);
  if (options.submit || options.task || options.pid)
    bad_input("{}: no capture: --submit, --task and --pid choose nothing in it",
              display_name(options.file));
  const std::string shown = display_name(options.file);
  const std::string bytes = read_file(options.file, max_dump_bytes);
  if (options.format == WordFormat::automatic && capture::looks_like_capture(bytes))
    bad_input("{}: a capture, which is taken from a file only", shown);
  const Dumped dumped =
      dump_program(session, options, shown, parse_words(bytes, shown, options.format));
  if (session.json) put_json(dumped.json);
  if (!dumped.why.empty()) failed("{}: {}", shown, dumped.why);
  return exit_ok;
}

void add_choice(CLI::App& app, const std::string& name, std::optional<std::uint32_t>& target,
                const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [name, &target](const std::string& text) {
           target = static_cast<std::uint32_t>(parse_number(text, name, 0, 0xffffffff));
         },
         help)
      ->type_name("NUMBER");
}

}  // namespace

Dumped dump_program(const Session& session, const DumpOptions& options, const std::string& heading,
                    Words words) {
  const Dump dump = analyse(heading, std::move(words));
  Dumped result;
  if (session.json)
    result.json = dump_json(dump, options);
  else
    print_dump(dump, options);
  if (dump.understood()) return result;
  for (const Block& block : dump.blocks)
    if (!block.matmul) {
      result.why = why(dump, block);
      return result;
    }
  result.why = detail::describe(dump.shape);
  return result;
}

void add_dump(CLI::App& app, Session& session) {
  auto options = std::make_shared<DumpOptions>();
  CLI::App* command =
      app.add_subcommand("dump", "take a register program apart, and say which matmuls it is");
  command->add_option("FILE", options->file, "a file, or - for standard input")
      ->required()
      ->type_name("");
  command
      ->add_option_function<std::string>(
          "--format",
          [options](const std::string& text) {
            for (const WordFormat format :
                 {WordFormat::automatic, WordFormat::raw, WordFormat::hex64, WordFormat::hex32,
                  WordFormat::xxd, WordFormat::json})
              if (name(format) == text) {
                options->format = format;
                return;
              }
            bad_input("--format: no format '{}'; there are auto, raw, hex64, hex32, xxd, json",
                      text);
          },
          "auto, raw (64-bit little-endian), hex64 (one word a line), hex32 (two 32-bit words a "
          "line, the low one first), xxd (bytes: xxd, xxd -p, hexdump -Cv), json (a vector, or "
          "what regcmd --json prints)")
      ->type_name("FORMAT");
  command->add_flag("--summary", options->summary, "only blocks and matmuls, not every word");
  add_choice(*command, "--submit", options->submit, "of a capture, only the submit of this id");
  add_choice(*command, "--task", options->task, "of a capture, only tasks of this index");
  add_choice(*command, "--pid", options->pid, "of a capture, only this process");
  command
      ->add_option("--diff", options->other,
                   "compare with the program in B, register by register: exit code 1 when they "
                   "differ")
      ->type_name("B");
  add_json(*command, session);
  command->footer(
      "A word is one 64-bit entry; notes that count 32-bit words count twice as many (their\n"
      "word 216 is word 108 here).  In hex text, # // and ; begin a comment, and a position\n"
      "in front (\"[12]\", \"0x60:\") is skipped.  At most 64 MiB are read.  Exit code 1 when a\n"
      "block is no matmul that rkchain would run; the reason is printed.  Captures of any size\n"
      "are taken as well, and all of their programs are shown.\n"
      "\n"
      "Examples:\n"
      "  rkchain dump tests/vectors/int8_4x32x32.json\n"
      "  rkchain dump --summary rkchain-capture.bin\n"
      "  rkchain dump rkchain-capture.bin --submit 1 --task 0 --diff q.bin\n"
      "  rkchain regcmd 1 1024 2048 --a 0x100000 --b 0x200000 --c 0x500000 | rkchain dump -\n");
  command->callback([&session, options] {
    session.action = [&session, options] { return dump_file(session, *options); };
  });
}

}  // namespace rkchain::tool

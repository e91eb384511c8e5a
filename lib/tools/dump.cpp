// SPDX-License-Identifier: MIT
// rkchain dump: what a register program says and does.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "kmod/core/chain.h"
#include "kmod/core/entry.h"
#include "kmod/core/regs.h"
#include "src/format.hpp"
#include "tools/commands.hpp"
#include "tools/matmul_args.hpp"
#include "tools/words.hpp"

namespace rkchain::tool {
namespace {

struct Options {
  std::string file;
  WordFormat format = WordFormat::automatic;
  bool summary = false;
};

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

Dump analyse(const Options& options) {
  Dump dump;
  dump.file = display_name(options.file);
  dump.input = parse_words(read_file(options.file, max_dump_bytes), dump.file, options.format);
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

// ---- one word ----------------------------------------------------------------

const rkc_reg* reg_of(std::uint64_t word) {
  return rkc_reg_find(rkc_entry_target(word), rkc_entry_reg(word));
}

std::string_view reg_name(std::uint64_t word) {
  const rkc_reg* reg = reg_of(word);
  if (reg != nullptr) return reg->name;
  switch (rkc_entry_target(word)) {
    case RKC_TARGET_NOP:
      return "-";
    case RKC_TARGET_ARM:
      return "(arm)";
    default:
      return "?";
  }
}

template <typename Visit>
void for_each_field(std::uint64_t word, Visit&& visit) {
  const rkc_reg* reg = reg_of(word);
  if (reg == nullptr || reg->fields == nullptr) return;
  for (const rkc_field* field = reg->fields; field->name != nullptr; field++) {
    const std::int64_t span = std::int64_t{1} << field->width;
    std::int64_t value = rkc_entry_value(word) >> field->lo & (span - 1);
    if (std::string_view(field->name).ends_with("_signed") && value >= span / 2) value -= span;
    visit(field->name, value);
  }
}

void print_word(std::uint64_t word, std::size_t at, std::size_t offset) {
  std::string fields;
  for_each_field(word, [&](const char* field, std::int64_t value) {
    if (value != 0) fields += fmt::format("{}{}={}", fields.empty() ? "  " : " ", field, value);
  });
  put("{:>5} {:>8x}  {:016x}  {:<8} {:04x} {:<22} {:08x}{}\n", at, offset, word,
      rkc_target_name(rkc_entry_target(word)), rkc_entry_reg(word), reg_name(word),
      rkc_entry_value(word), fields);
}

Json word_json(std::uint64_t word, std::size_t at, std::size_t offset) {
  Json json = {{"word", at},
               {"offset", offset},
               {"entry", fmt::format("{:016x}", word)},
               {"target", fmt::format("{:#06x}", rkc_entry_target(word))},
               {"unit", rkc_target_name(rkc_entry_target(word))},
               {"register", fmt::format("{:#06x}", rkc_entry_reg(word))},
               {"name", reg_name(word)},
               {"value", rkc_entry_value(word)}};
  Json fields = Json::object();
  for_each_field(word, [&](const char* field, std::int64_t value) { fields[field] = value; });
  if (!fields.empty()) json["fields"] = fields;
  return json;
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

void print_dump(const Dump& dump, const Options& options) {
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

Json dump_json(const Dump& dump, const Options& options) {
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

int dump_file(const Session& session, const Options& options) {
  const Dump dump = analyse(options);
  if (session.json)
    put_json(dump_json(dump, options));
  else
    print_dump(dump, options);
  if (dump.understood()) return exit_ok;
  for (const Block& block : dump.blocks)
    if (!block.matmul) failed("{}: {}", dump.file, why(dump, block));
  failed("{}: {}", dump.file, detail::describe(dump.shape));
}

}  // namespace

void add_dump(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
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
  add_json(*command, session);
  command->footer(
      "A word is one 64-bit entry; notes that count 32-bit words count twice as many (their\n"
      "word 216 is word 108 here).  In hex text, # // and ; begin a comment, and a position\n"
      "in front (\"[12]\", \"0x60:\") is skipped.  At most 64 MiB are read.  Exit code 1 when a\n"
      "block is no matmul that rkchain would run; the reason is printed.\n"
      "\n"
      "Examples:\n"
      "  rkchain dump tests/vectors/int8_4x32x32.json\n"
      "  rkchain dump --summary capture.bin\n"
      "  rkchain regcmd 1 1024 2048 --a 0x100000 --b 0x200000 --c 0x500000 | rkchain dump -\n");
  command->callback([&session, options] {
    session.action = [&session, options] { return dump_file(session, *options); };
  });
}

}  // namespace rkchain::tool

// SPDX-License-Identifier: MIT
// rkchain vector: programs with what they read and wrote, on the software NPU and against the
// generator.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>

#include "kmod/core/chain.h"
#include "kmod/core/entry.h"
#include "kmod/core/regs.h"
#include "tools/commands.hpp"
#include "tools/vector_model.hpp"
#include "tools/vectors.hpp"

namespace rkchain::tool {
namespace {

struct Options {
  std::vector<std::string> files;
  std::uint32_t last_of = 1;
  double tolerance = 0;
};

/// One comparison: how many of how many agree, and the first that does not.
struct Agreement {
  std::uint64_t total = 0;
  std::uint64_t equal = 0;
  std::string first;

  void count(bool same, const auto& text) {
    total++;
    equal += same ? 1 : 0;
    if (!same && first.empty()) first = text();
  }
  [[nodiscard]] bool pass() const { return equal == total; }
};

// ---- outputs -------------------------------------------------------------------

std::uint32_t element(const std::vector<std::uint8_t>& bytes, std::size_t index, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; i++) value |= std::uint32_t{bytes[index * size + i]} << 8 * i;
  return value;
}

double number(Type type, std::uint32_t bits) {
  switch (type) {
    case Type::i8_i8:
      return static_cast<std::int8_t>(bits);
    case Type::f16_f32:
      return std::bit_cast<float>(bits);
    case Type::f16_f16:
      return to_float(Half{static_cast<std::uint16_t>(bits)});
    default:
      return static_cast<std::int32_t>(bits);
  }
}

/// "[row][column]" of an element at @p index of C's memory.
std::string place(const Vector& vector, std::size_t index) {
  const std::size_t rows = vector.matmul.m, columns = vector.matmul.n;
  std::size_t m = index / columns, n = index % columns;
  if (vector.matmul.layout == RKC_NATIVE) {
    const std::size_t group = 16 / output_bytes(vector.type());
    m = index / group % rows;
    n = index / (group * rows) * group + index % group;
  }
  return fmt::format("element [{}][{}] (offset {:#x} of C)", m, n,
                     index * output_bytes(vector.type()));
}

Agreement compare_outputs(const Vector& vector, const std::vector<std::uint8_t>& got,
                          double tolerance) {
  const Type type = vector.type();
  const std::size_t size = output_bytes(type);
  const bool exact = tolerance == 0 || type == Type::i8_i32 || type == Type::i8_i8;
  Agreement agreement;
  for (std::size_t i = 0; i < vector.outputs(); i++) {
    const std::uint32_t have = element(got, i, size), want = element(vector.c, i, size);
    const double x = number(type, have), y = number(type, want);
    const bool same = have == want || (!exact && std::fabs(x - y) <= tolerance * std::fabs(y));
    agreement.count(same, [&] {
      return fmt::format("{}: the model has {} ({:#x}), the file {} ({:#x})", place(vector, i), x,
                         have, y, want);
    });
  }
  return agreement;
}

// ---- words ----------------------------------------------------------------------

std::string entry_text(std::uint64_t word) {
  const rkc_reg* reg = rkc_reg_find(rkc_entry_target(word), rkc_entry_reg(word));
  return fmt::format("{:016x} ({} {:04x} {} = {:#x})", word,
                     rkc_target_name(rkc_entry_target(word)), rkc_entry_reg(word),
                     reg != nullptr ? reg->name : "-", rkc_entry_value(word));
}

Agreement compare_words(const Vector& vector) {
  std::array<u64, RKC_FULL_WORDS> program{};
  rkc_chain_emit(RKC_SINGLE, &vector.matmul, 1, 0, program.data(), nullptr);
  Agreement agreement;
  for (std::size_t i = 0; i < std::max(program.size(), vector.regcmd.size()); i++) {
    const bool both = i < program.size() && i < vector.regcmd.size();
    agreement.count(both && program[i] == vector.regcmd[i], [&] {
      if (!both) return fmt::format("word {}: only one of file and generator has it", i);
      return fmt::format("word {}: the file has {}, the generator {}", i,
                         entry_text(vector.regcmd[i]), entry_text(program[i]));
    });
  }
  return agreement;
}

// ---- one file ---------------------------------------------------------------------

struct Verdict {
  std::string file;
  std::string name;
  Agreement outputs;
  Agreement words;
  std::string trouble;  ///< of the run as a whole

  [[nodiscard]] bool pass() const { return outputs.pass() && words.pass() && trouble.empty(); }
};

Verdict judge(const std::string& path, const Options& options) {
  Verdict verdict;
  verdict.file = display_name(path);
  const Vector vector = parse_vector(read_file(path, max_vector_bytes), verdict.file);
  verdict.name = vector.name;
  verdict.words = compare_words(vector);
  // What an earlier client left behind must not show.
  for (const std::uint32_t poison : {0x00000000U, 0xa5a5a5a5U}) {
    const ModelRun run = run_on_model(vector, options.last_of, poison);
    const Agreement outputs = compare_outputs(vector, run.c, options.tolerance);
    if (outputs.equal <= verdict.outputs.equal || verdict.outputs.total == 0)
      verdict.outputs = outputs;
    if (verdict.trouble.empty()) verdict.trouble = run.trouble;
    if (!verdict.outputs.pass() || !verdict.trouble.empty()) break;
  }
  return verdict;
}

void report(const Verdict& verdict, const Options& options) {
  std::string line =
      fmt::format("{}: {}/{} outputs, {}/{} words", verdict.name, verdict.outputs.equal,
                  verdict.outputs.total, verdict.words.equal, verdict.words.total);
  if (options.last_of > 1)
    line += fmt::format(", as the last block of a chain of {}", options.last_of);
  put("{}\n", line);
}

void complain(const Verdict& verdict) {
  for (const std::string& text : {verdict.trouble, verdict.outputs.first, verdict.words.first})
    if (!text.empty()) tool::complain("vector", fmt::format("{}: {}", verdict.file, text));
}

Json to_json(const Verdict& verdict) {
  Json json = {{"file", verdict.file},
               {"name", verdict.name},
               {"pass", verdict.pass()},
               {"outputs", {{"equal", verdict.outputs.equal}, {"total", verdict.outputs.total}}},
               {"words", {{"equal", verdict.words.equal}, {"total", verdict.words.total}}}};
  if (!verdict.outputs.first.empty()) json["outputs"]["first_difference"] = verdict.outputs.first;
  if (!verdict.words.first.empty()) json["words"]["first_difference"] = verdict.words.first;
  if (!verdict.trouble.empty()) json["trouble"] = verdict.trouble;
  return json;
}

int check_vectors(const Session& session, const Options& options) {
  int code = exit_ok;
  Json json = {{"last_of", options.last_of}, {"vectors", Json::array()}, {"pass", false}};
  for (const std::string& file : options.files) {
    try {
      const Verdict verdict = judge(file, options);
      if (session.json)
        json["vectors"].push_back(to_json(verdict));
      else
        report(verdict, options);
      complain(verdict);
      if (!verdict.pass()) code = std::max<int>(code, exit_failed);
    } catch (const BadInput& error) {
      tool::complain("vector", error.what());
      code = exit_usage;
    }
  }
  json["pass"] = code == exit_ok;
  if (session.json) put_json(json);
  return code;
}

}  // namespace

void add_vector(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "vector", "check the software NPU and the generator against captured programs");
  command->add_option("FILE", options->files, "vectors in JSON; - is standard input")
      ->required()
      ->type_name("");
  add_number(*command, "--as-last-of", options->last_of, 1, RKC_WAIT_MAX,
             "run the program as the last block of a wait chain of this many");
  command
      ->add_option("--tolerance", options->tolerance,
                   "fp16 types: accept this relative difference (0: bit for bit)")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("NUMBER");
  add_json(*command, session);
  command->footer(
      "A vector is an object with the keys\n"
      "  name    text\n"
      "  type    int8 (int32 results), int8_i8, fp16 (fp32 results), fp16_f16\n"
      "  layout  flat (row-major) or native (NC1HWC2), of A and C\n"
      "  shape   {M, K, N}\n"
      "  iova    {A, B, C, regcmd}: addresses, as numbers or \"0x...\"\n"
      "  regcmd  the program: hex strings of 16 digits, body and 4 words of tail\n"
      "  A B C   hex, little-endian, as in memory; B packed as the NPU reads it\n"
      "  task    optional: {regcfg_amount, int_mask}\n"
      "The program runs on the software NPU from the addresses of the file and must write C;\n"
      "and the generator must make the same program, word for word.\n"
      "\n"
      "Examples:\n"
      "  rkchain vector tests/vectors/*.json\n"
      "  rkchain vector tests/vectors/int8_4x32x32.json --as-last-of 8\n");
  command->callback([&session, options] {
    session.action = [&session, options] { return check_vectors(session, *options); };
  });
}

}  // namespace rkchain::tool

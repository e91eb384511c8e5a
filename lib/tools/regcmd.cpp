// SPDX-License-Identifier: MIT
// rkchain regcmd: the register program of one matmul.
#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>

#include "kmod/core/chain.h"
#include "src/format.hpp"
#include "tools/commands.hpp"
#include "tools/matmul_args.hpp"

namespace rkchain::tool {
namespace {

struct Options {
  std::uint32_t m = 0, k = 0, n = 0;
  Type type = Type::i8_i32;
  Layout layout = Layout::flat;
  std::uint32_t rows_total = 0;
  std::uint32_t a = 0, b = 0, c = 0;
  bool body = false;
  std::string binary;
};

void write_binary(const std::string& path, std::span<const u64> words) {
  std::string bytes;
  for (const u64 word : words)
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(word >> shift);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) failed("{}: {}", path, std::strerror(errno));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed) failed("{}: {}", path, std::strerror(errno));
}

rkc_matmul matmul_of(const Options& options) {
  rkc_matmul matmul{};
  matmul.type = static_cast<u8>(options.type);
  matmul.layout = static_cast<u8>(options.layout);
  matmul.m = options.m;
  matmul.k = options.k;
  matmul.n = options.n;
  matmul.m_total = options.m;
  if (options.rows_total != 0) {
    if (options.layout != Layout::native)
      bad_input("--rows-total: a row slice needs --layout native");
    matmul.layout = RKC_SLICE;
    matmul.m_total = options.rows_total;
  }
  matmul.a = options.a;
  matmul.b = options.b;
  matmul.c = options.c;
  return matmul;
}

int regcmd(const Session& session, const Options& options) {
  const rkc_matmul matmul = matmul_of(options);
  rkc_err error{};
  if (rkc_matmul_check(&matmul, &error) != RKC_OK) bad_input("{}", explain(error, {}));

  std::array<u64, RKC_FULL_WORDS> program{};
  if (rkc_chain_emit(RKC_SINGLE, &matmul, 1, 0, program.data(), &error) != RKC_OK)
    failed("{}", detail::describe(error));
  const std::span<const u64> words =
      std::span<const u64>(program).first(options.body ? RKC_BODY_WORDS : RKC_FULL_WORDS);

  if (!options.binary.empty()) write_binary(options.binary, words);
  if (session.json) {
    Json json = {{"matmul", to_json(matmul)}, {"regcmd", Json::array()}};
    for (const u64 word : words) json["regcmd"].push_back(fmt::format("{:016x}", word));
    put_json(json);
  } else if (options.binary.empty()) {
    for (const u64 word : words) put("{:016x}\n", word);
  }
  return exit_ok;
}

}  // namespace

void add_regcmd(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("regcmd", "print the register program of one matmul");
  constexpr std::uint64_t any = 0xffffffff;
  add_number(*command, "M", options->m, 0, any, "rows of A and C")->required();
  add_number(*command, "K", options->k, 0, any, "columns of A, rows of B")->required();
  add_number(*command, "N", options->n, 0, any, "columns of B and C")->required();
  add_type(*command, options->type);
  add_layout(*command, options->layout);
  add_number(*command, "--a", options->a, 0, any, "NPU address of A")->required();
  add_number(*command, "--b", options->b, 0, any, "NPU address of packed B")->required();
  add_number(*command, "--c", options->c, 0, any, "NPU address of C")->required();
  add_number(*command, "--rows-total", options->rows_total, 1, any,
             "the M rows are a slice of a native tensor of this many rows");
  command->add_flag("--body", options->body, "only the 108 words of the body, without the tail");
  command->add_option("--binary", options->binary, "write 64-bit little-endian words to this file")
      ->type_name("FILE");
  add_json(*command, session);
  command->footer(
      "Prints 112 words in fetch order, one 64-bit hex number a line:\n"
      "[63:48] target, [47:16] value, [15:0] register.  One task takes K up to 10752 (a\n"
      "multiple of 32), N up to 8192 (a multiple of 32, fp16: 16), and as many rows as K\n"
      "allows (int8: 704 for K <= 512 ... 64 for K <= 4096, fp16: 16384 / K).\n"
      "\n"
      "Examples:\n"
      "  rkchain regcmd 4 32 32 --type i8 --layout flat --a 0xfffe8000 --b 0xfffec000 "
      "--c 0xfffea000\n"
      "  rkchain regcmd 1 1024 2048 --a 0x100000 --b 0x200000 --c 0x500000 --binary q.bin\n"
      "  rkchain regcmd 4 32 32 --a 0x1000 --b 0x2000 --c 0x3000 | rkchain dump -\n");
  command->callback([&session, options] {
    session.action = [&session, options] { return regcmd(session, *options); };
  });
}

}  // namespace rkchain::tool

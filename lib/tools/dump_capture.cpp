// SPDX-License-Identifier: MIT
// rkchain dump: the programs of a capture.
#include <cstring>

#include "tools/captures.hpp"
#include "tools/dump.hpp"

namespace rkchain::tool {
namespace {

using namespace capture;

std::vector<std::uint64_t> words_of(std::span<const std::byte> rest) {
  std::vector<std::uint64_t> words(rest.size() / sizeof(std::uint64_t));
  std::memcpy(words.data(), rest.data(), words.size() * sizeof(std::uint64_t));
  return words;
}

/// A program, and what is known of it.
struct Found {
  std::string heading;
  Json json;
  std::vector<std::uint64_t> words;
};

bool chosen(const DumpOptions& options, std::uint32_t pid, std::uint64_t submit,
            std::uint32_t task) {
  return (!options.pid || *options.pid == pid) && (!options.submit || *options.submit == submit) &&
         (!options.task || *options.task == task);
}

template <typename Visit>
void for_each_program(const std::string& file, const DumpOptions& options, Visit&& visit) {
  (void)read_records(file, [&](const Record& record) {
    const std::uint32_t pid = record.header.pid;
    if (record.kind() == Kind::task) {
      const Task task = record.get<Task>();
      if (task.words == 0 || !chosen(options, pid, task.submit, task.index)) return;
      const std::string core =
          task.core == any_core ? "any core" : fmt::format("core {}", task.core);
      visit(Found{fmt::format("submit {} of process {}, task {}, {}, at {:#x}", task.submit, pid,
                              task.index, core, std::uint64_t{task.task.regcmd_addr}),
                  {{"pid", pid},
                   {"submit", task.submit},
                   {"task", task.index},
                   {"regcmd", fmt::format("{:#x}", std::uint64_t{task.task.regcmd_addr})}},
                  words_of(record.rest<Task>())});
    } else if (record.kind() == Kind::chain && !options.submit && !options.task) {
      const capture::Chain chain = record.get<capture::Chain>();
      if (chain.words == 0 || !chosen(options, pid, 0, 0)) return;
      visit(Found{fmt::format("chain {} of process {}", chain.id, pid),
                  {{"pid", pid}, {"chain", chain.id}},
                  words_of(record.rest<capture::Chain>())});
    }
  });
}

std::string nothing(const std::string& file, const DumpOptions& options) {
  const bool choice = options.submit || options.task || options.pid;
  return fmt::format("{}: {}", display_name(file),
                     choice ? "no program of that submit, task and process is in it"
                            : "no programs in it: capture with --depth programs");
}

}  // namespace

int dump_capture(const Session& session, const DumpOptions& options) {
  const std::string shown = display_name(options.file);
  std::size_t count = 0, foreign = 0;
  std::string first_why;
  // One after the other, as there may be any number.
  if (session.json)
    put("{{\"file\": {}, \"programs\": [",
        Json(shown).dump(-1, ' ', false, Json::error_handler_t::replace));
  for_each_program(options.file, options, [&](Found found) {
    if (!session.json && count != 0) put_text("\n");
    Dumped dumped =
        dump_program(session, options, found.heading, {WordFormat::raw, std::move(found.words)});
    if (session.json) {
      found.json.update(dumped.json);
      found.json.erase("file");
      put_text(count == 0 ? "\n" : ",\n");
      put_text(found.json.dump());
    }
    count++;
    if (dumped.why.empty()) return;
    if (foreign++ == 0) first_why = fmt::format("{}: {}", found.heading, dumped.why);
  });
  if (session.json) put_text("]}\n");
  if (count == 0) bad_input("{}", nothing(options.file, options));
  if (foreign != 0)
    failed("{}: {} of {} programs are no matmuls; the first: {}", shown, foreign, count, first_why);
  return exit_ok;
}

std::vector<std::uint64_t> one_program(const std::string& file, const DumpOptions& options) {
  if (options.format != WordFormat::automatic || !is_capture(file))
    return parse_words(read_file(file, max_dump_bytes), display_name(file), options.format).words;
  std::vector<std::uint64_t> words;
  std::size_t count = 0;
  for_each_program(file, options, [&](Found found) {
    if (count++ == 0) words = std::move(found.words);
  });
  if (count == 0) bad_input("{}", nothing(file, options));
  if (count > 1)
    bad_input("{}: {} programs; --submit, --task and --pid choose one", display_name(file), count);
  return words;
}

}  // namespace rkchain::tool

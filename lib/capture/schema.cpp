// SPDX-License-Identifier: MIT
#include "capture/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace rkchain::capture {
namespace {

constexpr Schema plain(Kind kind, std::size_t size) { return {kind, size, Rest::none, {}, 0}; }

constexpr std::array<Schema, last_kind> schemas{{
    {Kind::process, sizeof(Process), Rest::strings, "command", 0},
    {Kind::node, sizeof(Node), Rest::text, "path", 0},
    plain(Kind::closed, sizeof(Closed)),
    plain(Kind::submit, sizeof(Submit)),
    plain(Kind::submitted, sizeof(Submitted)),
    {Kind::task, sizeof(Task), Rest::words, "words", offsetof(Task, words)},
    plain(Kind::buffer, sizeof(Buffer)),
    plain(Kind::destroyed, sizeof(Destroyed)),
    {Kind::memory, sizeof(Memory), Rest::bytes, "data", offsetof(Memory, bytes)},
    plain(Kind::sync, sizeof(Sync)),
    plain(Kind::action, sizeof(Action)),
    plain(Kind::mapped, sizeof(Mapped)),
    plain(Kind::unmapped, sizeof(Unmapped)),
    {Kind::unseen, sizeof(Unseen), Rest::text, "text", 0},
    {Kind::chain, sizeof(Chain), Rest::words, "words", offsetof(Chain, words)},
    {Kind::chain_submit, sizeof(ChainSubmit), Rest::ids, "chains", offsetof(ChainSubmit, count)},
    plain(Kind::end, sizeof(End)),
    plain(Kind::completion, sizeof(Completion)),
}};

}  // namespace

const Schema* schema_of(std::uint16_t kind) noexcept {
  if (kind == 0 || kind > last_kind) return nullptr;
  return &schemas[kind - 1U];
}

const Schema* schema_of(std::string_view text) noexcept {
  for (const Schema& schema : schemas) {
    const std::string_view own = name(schema.kind);
    const bool same = std::equal(text.begin(), text.end(), own.begin(), own.end(),
                                 [](char a, char b) { return a == b || a == b - 'a' + 'A'; });
    if (same) return &schema;
  }
  return nullptr;
}

std::size_t piece_bytes(Rest rest) noexcept {
  switch (rest) {
    case Rest::words:
      return sizeof(std::uint64_t);
    case Rest::ids:
      return sizeof(std::uint32_t);
    case Rest::bytes:
      return 1;
    default:
      return 0;
  }
}

std::string misfit(const Schema& schema, std::span<const std::byte> payload) {
  if (payload.size() < schema.size)
    return fmt::format("a \"{}\" record of {} bytes, it has at least {}", name(schema.kind),
                       payload.size(), schema.size);
  const std::size_t piece = piece_bytes(schema.rest);
  if (piece == 0) return {};
  std::uint32_t count = 0;
  std::memcpy(&count, payload.data() + schema.count_offset, sizeof(count));
  const std::size_t follow = payload.size() - schema.size;
  if (follow == std::size_t{count} * piece) return {};
  return fmt::format("a \"{}\" record says that {} {} follow, which are {} bytes, and has {}",
                     name(schema.kind), count, schema.rest_name, std::size_t{count} * piece,
                     follow);
}

}  // namespace rkchain::capture

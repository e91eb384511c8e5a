// SPDX-License-Identifier: MIT
#include "capture/shim/buffers.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <bit>
#include <cstring>

#include "capture/shim/journal.hpp"
#include "capture/shim/nodes.hpp"

namespace rkchain::capture::shim {
namespace {

constexpr std::size_t piece_bytes = 64 << 10;
constexpr std::uint64_t largest = 1ULL << 32;

constinit Held table[max_buffers];
constinit std::size_t used = 0;  ///< places that have ever been in use
constinit Room piece;
constinit bool told_full = false;

std::size_t pieces_of(std::uint64_t size) noexcept {
  return static_cast<std::size_t>((size + piece_bytes - 1) / piece_bytes);
}

/// Never 0, which says that a piece has not been written down.
std::uint64_t hash_of(const char* data, std::size_t bytes) noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15U ^ bytes;
  while (bytes != 0) {
    const std::size_t some = bytes < 8 ? bytes : 8;
    std::uint64_t next = 0;
    std::memcpy(&next, data, some);
    hash = std::rotl(hash ^ next * 0xc2b2ae3d27d4eb4fU, 31) * 0x9e3779b97f4a7c15U;
    data += some;
    bytes -= some;
  }
  hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9U;
  hash ^= hash >> 32;
  return hash != 0 ? hash : 1;
}

void unmap(Held& held) noexcept {
  if (held.memory != nullptr) {
    const KeepErrno keep;
    next_munmap(const_cast<char*>(held.memory), held.record.size);
  }
  if (held.hashes != nullptr) give_memory(held.hashes, pieces_of(held.record.size) * 8);
  held.memory = nullptr;
  held.hashes = nullptr;
}

/// A child must not inherit it: it would keep the buffer for longer than its maker.
const char* map_shared(int fd, std::uint64_t size, std::uint64_t place) noexcept {
  const KeepErrno keep;
  void* memory =
      next_mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, static_cast<std::int64_t>(place));
  if (memory == MAP_FAILED) return nullptr;
  raw(SYS_madvise, word(memory), size, MADV_DONTFORK);
  return static_cast<const char*>(memory);
}

bool find_place(Held& held, int fd) noexcept {
  if (held.place != 0) return true;
  rknpu_mem_map place{};
  place.handle = held.record.handle;
  const KeepErrno keep;
  if (next_ioctl(fd, RKNPU_IOCTL_MEM_MAP, &place) != 0) return false;
  held.place = place.offset;
  return true;
}

Held* find(std::uint32_t file, std::uint32_t handle, bool chains) noexcept {
  for (std::size_t i = 0; i < used; i++)
    if (table[i].file == file && table[i].record.handle == handle && table[i].chains == chains)
      return &table[i];
  return nullptr;
}

Held* free_place() noexcept {
  for (std::size_t i = 0; i < used; i++)
    if (table[i].file == 0) return &table[i];
  return used < max_buffers ? &table[used++] : nullptr;
}

void dump_piece(Held& held, std::size_t index, std::uint64_t submit, When when) noexcept {
  const std::uint64_t offset = std::uint64_t{index} * piece_bytes;
  const std::uint64_t left = held.record.size - offset;
  const std::size_t bytes = left < piece_bytes ? static_cast<std::size_t>(left) : piece_bytes;
  char* copy = piece.get(piece_bytes);
  if (copy == nullptr) return;
  // What is hashed and written is one thing, though the program may be writing to it.
  std::memcpy(copy, held.memory + offset, bytes);
  const std::uint64_t hash = hash_of(copy, bytes);
  if (held.hashes[index] == hash) return;
  held.hashes[index] = hash;
  Memory fixed{};
  fixed.submit = submit;
  fixed.when = static_cast<std::uint32_t>(when);
  const bool cached = !held.chains && (held.record.flags & RKNPU_MEM_CACHEABLE) != 0;
  fixed.stale = when == When::after && cached ? 1 : 0;
  fixed.iova = held.record.iova;
  fixed.offset = offset;
  fixed.bytes = static_cast<std::uint32_t>(bytes);
  record(Kind::memory, fixed, copy, bytes);
}

bool can_dump(Held& held, std::uint64_t submit) noexcept {
  const bool tried = held.no_mapping;
  if (memory_of(held) != nullptr && held.hashes == nullptr)
    held.hashes = static_cast<std::uint64_t*>(get_memory(pieces_of(held.record.size) * 8));
  if (held.hashes != nullptr) return true;
  if (!tried) unseen(Missing::memory, submit, held.record.iova, "this buffer cannot be mapped");
  return false;
}

}  // namespace

void add_buffer(std::uint32_t file, const Buffer& fixed, bool chains, int memory_fd) noexcept {
  Held* held = find(file, fixed.handle, chains);
  const bool same = held != nullptr && held->record.obj == fixed.obj &&
                    held->record.iova == fixed.iova && held->record.size == fixed.size;
  record(Kind::buffer, fixed);
  if (same) return;
  if (held != nullptr)
    unmap(*held);
  else
    held = free_place();
  if (held == nullptr) {
    if (!told_full) unseen(Missing::table_full, 0, fixed.iova, "more buffers than are followed");
    told_full = true;
    return;
  }
  *held = {};
  held->file = file;
  held->record = fixed;
  held->chains = chains;
  held->no_mapping = fixed.size == 0 || fixed.size > largest || (chains && memory_fd < 0);
  if (memory_fd >= 0 && !held->no_mapping) held->memory = map_shared(memory_fd, fixed.size, 0);
}

Held remove_buffer(std::uint32_t file, std::uint32_t handle, bool chains) noexcept {
  Held* held = find(file, handle, chains);
  if (held == nullptr) return {};
  unmap(*held);
  const Held was = *held;
  *held = {};
  Destroyed fixed{};
  fixed.fd = was.record.fd;
  fixed.handle = handle;
  record(Kind::destroyed, fixed);
  return was;
}

void drop_buffers(std::uint32_t file) noexcept {
  for (std::size_t i = 0; i < used; i++) {
    if (table[i].file != file) continue;
    unmap(table[i]);
    table[i] = {};
  }
}

void announce_buffers(std::uint32_t file, int fd) noexcept {
  for (std::size_t i = 0; i < used; i++) {
    if (table[i].file != file) continue;
    Buffer fixed = table[i].record;
    fixed.fd = fd;
    fixed.existed = 1;
    record(Kind::buffer, fixed);
  }
}

void place_buffer(std::uint32_t file, std::uint32_t handle, std::uint64_t place) noexcept {
  if (Held* held = find(file, handle, false)) held->place = place;
}

std::uint32_t handle_at(std::uint32_t file, std::uint64_t place) noexcept {
  for (std::size_t i = 0; i < used; i++)
    if (table[i].file == file && table[i].place == place && place != 0)
      return table[i].record.handle;
  return 0;
}

Held* buffer_of_object(std::uint64_t object) noexcept {
  for (std::size_t i = 0; i < used; i++)
    if (table[i].file != 0 && !table[i].chains && table[i].record.obj == object) return &table[i];
  return nullptr;
}

Held* buffer_at(std::uint64_t iova) noexcept {
  for (std::size_t i = 0; i < used; i++) {
    const Buffer& at = table[i].record;
    if (table[i].file != 0 && iova >= at.iova && iova - at.iova < at.size) return &table[i];
  }
  return nullptr;
}

const char* memory_of(Held& held) noexcept {
  if (held.memory != nullptr || held.no_mapping) return held.memory;
  const int fd = held.chains ? -1 : descriptor_of(held.file);
  if (fd >= 0 && find_place(held, fd)) held.memory = map_shared(fd, held.record.size, held.place);
  held.no_mapping = held.memory == nullptr;
  return held.memory;
}

void dump_range(Held& held, std::uint64_t offset, std::uint64_t bytes, std::uint64_t submit,
                When when) noexcept {
  if (bytes == 0 || offset >= held.record.size || !can_dump(held, submit)) return;
  const std::uint64_t left = held.record.size - offset;
  const std::uint64_t last = offset + (bytes < left ? bytes : left) - 1;
  for (std::uint64_t i = offset / piece_bytes; i <= last / piece_bytes; i++)
    dump_piece(held, static_cast<std::size_t>(i), submit, when);
}

void dump_buffers(std::uint64_t submit, When when) noexcept {
  for (std::size_t i = 0; i < used; i++)
    if (table[i].file != 0) dump_range(table[i], 0, table[i].record.size, submit, when);
}

void forget_buffers_after_fork(bool whole) noexcept {
  for (std::size_t i = 0; i < used; i++) {
    table[i].memory = nullptr;
    if (table[i].hashes != nullptr)
      give_memory(table[i].hashes, pieces_of(table[i].record.size) * 8);
    table[i].hashes = nullptr;
    table[i].no_mapping = table[i].chains;
    if (!whole) table[i] = {};
  }
  if (!whole) used = 0;
}

}  // namespace rkchain::capture::shim

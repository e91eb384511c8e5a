// SPDX-License-Identifier: MIT
// What a capture holds: records of one binary layout, which JSON lines and text are made of.
//
// A file begins with a FileHeader; records follow without gaps.  Each is a RecordHeader and its
// payload: one of the structs below, then what it says follows it.  Everything is little endian
// and laid out as the structs are.  Several processes may append to one file, a record at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "uapi/rkchain.h"
#include "uapi/rknpu.h"

namespace rkchain::capture {

enum class Format : std::uint8_t { binary, json, text };
[[nodiscard]] std::string_view name(Format format) noexcept;

inline constexpr char file_magic[8] = {'R', 'K', 'C', 'A', 'P', '\r', '\n', '\x1a'};
inline constexpr std::uint32_t file_endian =
    0x01020304;  ///< what another order reads as 0x04030201
inline constexpr std::uint16_t file_version = 1;

struct FileHeader {
  char magic[8];
  std::uint32_t endian;
  std::uint16_t version;
  std::uint16_t header_bytes;  ///< sizeof(FileHeader); later versions may have more
  std::uint64_t realtime_ns;   ///< CLOCK_REALTIME when the file was begun
  std::uint64_t monotonic_ns;  ///< CLOCK_MONOTONIC at the same moment
};
static_assert(sizeof(FileHeader) == 32);

inline constexpr std::uint32_t record_magic = 0x43524b52;  ///< "RKRC"
/// No record has more payload than this; memory is written in pieces.
inline constexpr std::uint32_t max_payload = 4U << 20;

/// Numbers are never used again; readers pass over those that they do not know.
enum class Kind : std::uint16_t {
  process = 1,        ///< Process, then its command line, words ended by NUL
  node = 2,           ///< Node, then its path
  closed = 3,         ///< Closed
  submit = 4,         ///< Submit: before the driver is called
  submitted = 5,      ///< Submitted: what it returned
  task = 6,           ///< Task, then Task::words words of its program
  buffer = 7,         ///< Buffer
  destroyed = 8,      ///< Destroyed
  memory = 9,         ///< Memory, then Memory::bytes bytes
  sync = 10,          ///< Sync
  action = 11,        ///< Action
  mapped = 12,        ///< Mapped
  unmapped = 13,      ///< Unmapped
  unseen = 14,        ///< Unseen, then a sentence
  chain = 15,         ///< Chain, then its words; of /dev/rkchain
  chain_submit = 16,  ///< ChainSubmit, then ChainSubmit::count ids; of /dev/rkchain
  end = 17,           ///< End: the process is about to go
  completion = 18,    ///< Completion: what WAIT or read() of /dev/rkchain handed out
};
inline constexpr std::uint16_t last_kind = 18;
/// "submit", ... as JSON lines have it; empty for a number that is none.
[[nodiscard]] std::string_view name(Kind kind) noexcept;

struct RecordHeader {
  std::uint32_t magic;  ///< record_magic
  std::uint16_t kind;
  std::uint16_t reserved;
  std::uint32_t bytes;  ///< of the payload, at most max_payload
  std::uint32_t crc;    ///< CRC-32 (IEEE) of this header with crc = 0, and of the payload
  std::uint32_t pid;
  std::uint32_t tid;
  std::uint64_t time_ns;  ///< CLOCK_MONOTONIC
};
static_assert(sizeof(RecordHeader) == 32);

/// CRC-32 (IEEE 802.3) of @p data, going on from @p crc; 0 begins one.
[[nodiscard]] std::uint32_t crc32(std::uint32_t crc, const void* data, std::size_t bytes) noexcept;

/// How much is written down.
enum class Depth : std::uint32_t {
  submits = 0,     ///< submits and what they return
  programs = 1,    ///< also buffers, tasks and their register programs
  everything = 2,  ///< also memory, at each submit and after it
};

enum class Begin : std::uint32_t { started = 0, forked = 1 };

struct Process {
  std::uint32_t parent;  ///< pid
  std::uint32_t depth;   ///< Depth
  std::uint32_t begin;   ///< Begin
  std::uint32_t reserved;
};

enum class NodeKind : std::uint32_t { rknpu = 0, rkchain = 1 };

/// A descriptor on which a call to the NPU was seen for the first time.
struct Node {
  std::int32_t fd;
  std::uint32_t kind;            ///< NodeKind
  std::uint32_t driver_version;  ///< 908 for 0.9.8; 0 where it is not known
  std::uint32_t create_bytes;    ///< size of its MEM_CREATE argument; 0 until there was one
};

struct Closed {
  std::int32_t fd;
  std::uint32_t reserved;
};

/// Ids of submits count up in each process from 1.  id and pid together name one.
struct Submit {
  std::uint64_t id;
  std::int32_t fd;
  std::uint32_t argument_bytes;  ///< of the command; what is missing in @ref argument is 0
  rknpu_submit argument;         ///< as the program gave it
};

struct Submitted {
  std::uint64_t id;
  std::int32_t result;         ///< 0 or a negative errno
  std::uint32_t task_counter;  ///< as the driver gave it back
  std::int64_t hw_elapse_ns;   ///< the same
  std::uint64_t took_ns;       ///< inside the driver
};

inline constexpr std::uint32_t any_core = 0xffffffff;

struct Task {
  std::uint64_t submit;  ///< id; 0 for none
  std::uint32_t index;   ///< in the array
  std::uint32_t core;    ///< any_core where the driver chooses
  rknpu_task task;       ///< 40 bytes
  std::uint32_t words;   ///< that follow; 0 when they could not be read
  std::uint32_t reserved;
};

struct Buffer {
  std::int32_t fd;
  std::uint32_t handle;   ///< GEM handle; of /dev/rkchain the buffer's id
  std::uint32_t flags;    ///< RKNPU_MEM_*; of /dev/rkchain RKCHAIN_BUF_*
  std::uint32_t existed;  ///< 1: looked up by its handle, not made
  std::uint64_t size;
  std::uint64_t obj;  ///< obj_addr; 0 of /dev/rkchain
  std::uint64_t iova;
};

struct Destroyed {
  std::int32_t fd;
  std::uint32_t handle;
};

enum class When : std::uint32_t {
  before = 0,  ///< a submit
  after = 1,   ///< it came back
  synced = 2,  ///< the program asked for what the device wrote (MEM_SYNC FROM_DEVICE)
};

/// A piece of a buffer's memory.  Pieces that are as the file has them already are left out.
struct Memory {
  std::uint64_t submit;  ///< id, for before and after; else the last one of the process
  std::uint32_t when;    ///< When
  std::uint32_t stale;   ///< 1: cached memory that the program has not synced yet
  std::uint64_t iova;    ///< of the buffer
  std::uint64_t offset;
  std::uint32_t bytes;
  std::uint32_t reserved;
};

struct Sync {
  std::int32_t fd;
  std::uint32_t flags;  ///< RKNPU_MEM_SYNC_*
  std::uint64_t obj;
  std::uint64_t offset;
  std::uint64_t size;
};

struct Action {
  std::int32_t fd;
  std::uint32_t flags;  ///< RKNPU_GET_*, RKNPU_ACT_*
  std::uint32_t value;  ///< after the call
  std::int32_t result;
};

struct Mapped {
  std::int32_t fd;
  std::uint32_t handle;  ///< 0 where the offset is not known
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t offset;
};

struct Unmapped {
  std::uint64_t address;
  std::uint64_t size;
};

enum class Missing : std::uint32_t {
  task_array = 0,  ///< the buffer with the tasks is not known or cannot be mapped
  program = 1,     ///< the same of a task's program
  memory = 2,      ///< the same of a buffer
  table_full = 3,  ///< more descriptors or buffers than are followed
  argument = 4,    ///< the argument of a call cannot be read
  lost = 5,        ///< records could not be written; value: how many
};

struct Unseen {
  std::uint64_t submit;  ///< id; 0 for none
  std::uint32_t what;    ///< Missing
  std::uint32_t reserved;
  std::uint64_t value;  ///< address, size or number concerned
};

struct Chain {
  std::int32_t fd;
  std::uint32_t id;
  std::uint32_t count;   ///< S
  std::uint32_t stride;  ///< words
  std::uint32_t body;    ///< words
  std::uint32_t flags;   ///< RKCHAIN_CHAIN_*
  std::uint32_t words;   ///< that follow; 0 when they were not to be read
  std::uint32_t reserved;
};

struct ChainSubmit {
  std::uint64_t id;
  std::int32_t fd;
  std::uint32_t core_mask;
  std::uint32_t flags;  ///< RKCHAIN_SUBMIT_*
  std::uint32_t count;  ///< chains
};

struct Completion {
  std::int32_t fd;
  std::uint32_t reserved;
  rkchain_completion completion;
};

struct End {
  std::uint64_t submits;
  std::uint64_t failed;  ///< of them
  std::uint64_t records;
  std::uint64_t lost;  ///< records that could not be written
  std::uint64_t unseen;
};

}  // namespace rkchain::capture

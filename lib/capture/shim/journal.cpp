// SPDX-License-Identifier: MIT
#include "capture/shim/journal.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstring>

#include "capture/encode.hpp"
#include "capture/shim/buffers.hpp"
#include "capture/shim/mappings.hpp"
#include "capture/shim/nodes.hpp"

namespace rkchain::capture::shim {
namespace {

enum Phase : int { asleep, waking, awake };

constexpr std::size_t page_bytes = 4096;

struct Counters {
  std::atomic<std::uint64_t> submits = 0;
  std::atomic<std::uint64_t> failed = 0;
  std::atomic<std::uint64_t> records = 0;
  std::atomic<std::uint64_t> lost = 0;
  std::atomic<std::uint64_t> unreported = 0;  ///< of those lost
  std::atomic<std::uint64_t> unseen = 0;
};

constinit std::atomic<int> phase = asleep;
constinit Counters counters;
constinit Settings current;
constinit Sink output;
constinit Room encoding;
constinit std::atomic<std::uint32_t> process_id = 0;
/// On a page that a forked child gets empty, whatever made it.
constinit std::atomic<std::uint32_t>* inherited = nullptr;
thread_local std::uint32_t thread_id = 0;
thread_local std::uint32_t thread_of = 0;

std::uint32_t tid() noexcept {
  const std::uint32_t pid = process_id.load(std::memory_order_relaxed);
  if (thread_of != pid) {
    thread_id = static_cast<std::uint32_t>(raw(SYS_gettid));
    thread_of = pid;
  }
  return thread_id;
}

/// Bytes as far as they fit; how many there were.
class Fill final : public Output {
 public:
  Fill(char* to, std::size_t room) noexcept : to_(to), room_(room) {}
  void put(const void* data, std::size_t bytes) noexcept override {
    if (used_ + bytes <= room_) std::memcpy(to_ + used_, data, bytes);
    used_ += bytes;
  }
  [[nodiscard]] bool fits() const noexcept { return used_ <= room_; }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }

 private:
  char* to_;
  std::size_t room_;
  std::size_t used_ = 0;
};

struct Parts {
  RecordHeader header;
  const void* fixed;
  std::size_t fixed_bytes;
  const void* rest;
  std::size_t rest_bytes;

  void encode_to(Fill& fill) const noexcept {
    encode(current.format, header, fixed, fixed_bytes, rest, rest_bytes, fill);
  }
};

bool write_large(const Parts& parts, std::size_t bytes) noexcept {
  char* memory = encoding.get(bytes);
  if (memory == nullptr) return false;
  Fill fill(memory, bytes);
  parts.encode_to(fill);
  return fill.fits() && output.write(memory, fill.used());
}

bool put_record(const Parts& parts) noexcept {
  char small[1536];
  Fill fill(small, sizeof(small));
  parts.encode_to(fill);
  if (fill.fits()) return fill.used() == 0 || output.write(small, fill.used());
  if (Guard::mine()) return write_large(parts, fill.used());
  const Guard guard;
  return write_large(parts, fill.used());
}

void count_record(bool written) noexcept {
  if (written) {
    counters.records.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  counters.lost.fetch_add(1, std::memory_order_relaxed);
  counters.unreported.fetch_add(1, std::memory_order_relaxed);
}

RecordHeader header_of(Kind kind) noexcept {
  RecordHeader header{};
  header.kind = static_cast<std::uint16_t>(kind);
  header.pid = process_id.load(std::memory_order_relaxed);
  header.tid = tid();
  header.time_ns = now_ns();
  return header;
}

/// What could not be written is told as soon as something can.
void report_lost() noexcept {
  const std::uint64_t lost = counters.unreported.exchange(0, std::memory_order_relaxed);
  if (lost == 0) return;
  constexpr std::string_view text = "records could not be written";
  Unseen fixed{};
  fixed.what = static_cast<std::uint32_t>(Missing::lost);
  fixed.value = lost;
  if (put_record({header_of(Kind::unseen), &fixed, sizeof(fixed), text.data(), text.size()}))
    counters.records.fetch_add(1, std::memory_order_relaxed);
  else
    counters.unreported.fetch_add(lost, std::memory_order_relaxed);
}

void record_process(Begin begin) noexcept {
  char command[page_bytes];
  std::int64_t bytes = 0;
  const std::int64_t fd = raw(SYS_openat, static_cast<std::uint64_t>(AT_FDCWD),
                              word("/proc/self/cmdline"), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    bytes = raw(SYS_read, static_cast<std::uint64_t>(fd), word(command), sizeof(command) - 1);
    raw(SYS_close, static_cast<std::uint64_t>(fd));
  }
  if (bytes < 0) bytes = 0;
  // A command line that does not fit ends somewhere, and so do its words.
  if (bytes != 0 && command[bytes - 1] != '\0') command[bytes++] = '\0';
  Process fixed{};
  fixed.parent = static_cast<std::uint32_t>(raw(SYS_getppid));
  fixed.depth = static_cast<std::uint32_t>(current.depth);
  fixed.begin = static_cast<std::uint32_t>(begin);
  record(Kind::process, fixed, command, static_cast<std::size_t>(bytes));
}

void watch_forks() noexcept {
  void* page = get_memory(page_bytes);
  if (page == nullptr) return;
  if (raw(SYS_madvise, word(page), page_bytes, MADV_WIPEONFORK) != 0) {
    give_memory(page, page_bytes);
    return;
  }
  inherited = static_cast<std::atomic<std::uint32_t>*>(page);
  inherited->store(1);
}

void wake() noexcept {
  const Guard guard;
  int expected = asleep;
  if (!phase.compare_exchange_strong(expected, waking)) return;
  process_id.store(static_cast<std::uint32_t>(raw(SYS_getpid)));
  read_settings(current);
  output.open(current, process_id.load());
  watch_forks();
  phase.store(awake, std::memory_order_release);
  record_process(Begin::started);
}

void begin_child() noexcept {
  process_id.store(static_cast<std::uint32_t>(raw(SYS_getpid)));
  for (auto* counter : {&counters.submits, &counters.failed, &counters.records, &counters.lost,
                        &counters.unreported, &counters.unseen})
    counter->store(0, std::memory_order_relaxed);
  output.forget_writers();
  current.first = false;
  if (current.own_files) {
    output.close();
    output.open(current, process_id.load());
  }
  if (inherited != nullptr) inherited->store(1);
  record_process(Begin::forked);
}

/// The handlers of fork() were not asked: _Fork() or clone().
void begin_strange_child() noexcept {
  Guard::start_anew();
  const Guard guard;
  forget_buffers_after_fork(false);
  forget_mappings();
  forget_nodes_after_fork();
  begin_child();
}

}  // namespace

char* Room::get(std::size_t bytes) noexcept {
  if (bytes <= bytes_) return memory_;
  give_memory(memory_, bytes_);
  bytes_ = 0;
  const std::size_t whole = (bytes + bytes / 2 + page_bytes - 1) / page_bytes * page_bytes;
  memory_ = static_cast<char*>(get_memory(whole));
  if (memory_ != nullptr) bytes_ = whole;
  return memory_;
}

bool ready() noexcept {
  if (Guard::mine()) return false;
  if (phase.load(std::memory_order_acquire) != awake) {
    const KeepErrno keep;
    wake();
  }
  if (inherited != nullptr && inherited->load(std::memory_order_relaxed) == 0) {
    const KeepErrno keep;
    begin_strange_child();
  }
  return true;
}

bool same_process() noexcept {
  return static_cast<std::uint32_t>(raw(SYS_getpid)) == process_id.load();
}

void before_fork() noexcept { Guard::before_fork(); }

void after_fork_parent() noexcept { Guard::after_fork(); }

void after_fork_child() noexcept {
  const KeepErrno keep;
  if (phase.load() == awake) {
    forget_buffers_after_fork(true);
    forget_nodes_after_fork();
    begin_child();
  }
  Guard::after_fork();
}

void end_journal() noexcept {
  if (!ready() || !same_process()) return;
  report_lost();
  End fixed{};
  fixed.submits = counters.submits.load();
  fixed.failed = counters.failed.load();
  fixed.records = counters.records.load() + 1;
  fixed.lost = counters.lost.load();
  fixed.unseen = counters.unseen.load();
  record(Kind::end, fixed);
}

Depth depth() noexcept { return current.depth; }
Sink& sink() noexcept { return output; }
const Settings& settings() noexcept { return current; }

std::uint64_t begin_submit() noexcept {
  return counters.submits.fetch_add(1, std::memory_order_relaxed) + 1;
}

void count_failure() noexcept { counters.failed.fetch_add(1, std::memory_order_relaxed); }

std::uint64_t last_submit() noexcept { return counters.submits.load(std::memory_order_relaxed); }

void write_record(Kind kind, const void* fixed, std::size_t fixed_bytes, const void* rest,
                  std::size_t rest_bytes) noexcept {
  if (counters.unreported.load(std::memory_order_relaxed) != 0) report_lost();
  count_record(put_record({header_of(kind), fixed, fixed_bytes, rest, rest_bytes}));
}

void unseen(Missing what, std::uint64_t submit, std::uint64_t value,
            std::string_view text) noexcept {
  counters.unseen.fetch_add(1, std::memory_order_relaxed);
  Unseen fixed{};
  fixed.submit = submit;
  fixed.what = static_cast<std::uint32_t>(what);
  fixed.value = value;
  record(Kind::unseen, fixed, text.data(), text.size());
}

}  // namespace rkchain::capture::shim

// SPDX-License-Identifier: MIT
// What a capture says of the way in which programs use the NPU.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/histogram.hpp"
#include "capture/reader.hpp"
#include "kmod/core/matmul.h"

namespace rkchain::capture {

/// What is kept of each kind does not grow with the file: what is beyond these is only counted.
struct ReportLimits {
  static constexpr std::size_t processes = 256;
  static constexpr std::size_t core_masks = 64;
  static constexpr std::size_t task_numbers = 4096;
  static constexpr std::size_t shapes = 4096;
  static constexpr std::size_t foreign = 256;      ///< kinds of programs that are no matmuls
  static constexpr std::size_t registers = 512;    ///< of each of them
  static constexpr std::size_t programs = 262144;  ///< remembered to find repeats
  static constexpr std::size_t open_submits = 65536;
  static constexpr std::size_t texts = 16;
  static constexpr std::size_t bars = 3000;  ///< of the timeline
};

/// Counts by key, of at most so many keys.
template <typename Key>
struct Counts {
  std::map<Key, std::uint64_t> of;
  std::uint64_t others = 0;  ///< of keys that had no room

  void add(const Key& key, std::size_t most, std::uint64_t count = 1) {
    const auto found = of.find(key);
    if (found != of.end())
      found->second += count;
    else if (of.size() < most)
      of.emplace(key, count);
    else
      others += count;
  }
};

struct CoreRow {
  std::uint64_t submits = 0;
  std::uint64_t tasks = 0;
  std::uint64_t failed = 0;
};

/// From which core to which, one submit after the other.
struct Order {
  std::uint64_t steps = 0;    ///< pairs of submits
  std::uint64_t changes = 0;  ///< of them, those to another core
  std::uint64_t runs = 0;     ///< stays on one core
  std::uint64_t longest = 0;  ///< submits of the longest stay
  std::uint32_t longest_core = 0;
  Counts<std::pair<std::uint32_t, std::uint32_t>> transitions;

  void add(std::uint32_t core);
  [[nodiscard]] double mean_run() const;

  /// Cores that follow each other most often, when they make one circle.
  struct Circle {
    std::vector<std::uint32_t> cores;  ///< empty when there is none
    double share = 0;                  ///< of all steps that follow it
  };
  [[nodiscard]] Circle circle() const;

 private:
  std::optional<std::uint32_t> last_;
  std::uint64_t run_ = 0;
};

/// Submits that were handed to the driver and had not come back.
struct QueueDepth {
  static constexpr std::size_t levels = 9;  ///< the last: that many or more, less one
  std::uint64_t now = 0;
  std::uint64_t most = 0;
  std::uint64_t changed_ns = 0;
  std::uint64_t ns_at[levels] = {};
  double weighted = 0;  ///< sum of depth times ns

  void until(std::uint64_t time_ns);
  [[nodiscard]] std::uint64_t span_ns() const;
  [[nodiscard]] double mean() const;
};

enum class Form : std::uint8_t {
  single,   ///< one program
  wait,     ///< one task, programs that wait for each other
  wait41,   ///< the same with arm markers
  link,     ///< one task for each program, each names the next
  several,  ///< tasks that do not name each other
  mixed,
  unknown,  ///< no layout that is known here
};
[[nodiscard]] std::string_view name(Form form) noexcept;

/// How the programs of a submit lie.
struct ProgramLayout {
  Form form = Form::unknown;
  std::uint32_t tasks = 0;
  std::uint32_t count = 0;   ///< S, programs
  std::uint32_t stride = 0;  ///< words from one to the next; 0: they differ, or there is one
  std::uint32_t body = 0;    ///< words of each; 0: they differ
  auto operator<=>(const ProgramLayout&) const = default;
};

/// A matmul but for its addresses.
struct MatmulShape {
  std::uint8_t type = 0;    ///< enum rkc_type
  std::uint8_t layout = 0;  ///< enum rkc_layout
  std::uint32_t m = 0;
  std::uint32_t k = 0;
  std::uint32_t n = 0;
  std::uint32_t m_total = 0;
  auto operator<=>(const MatmulShape&) const = default;
};

struct RegisterValue {
  std::uint16_t target = 0;
  std::uint16_t reg = 0;
  std::uint32_t value = 0;  ///< the last one; of an address, that of the first such program
  bool address = false;     ///< does not count when programs are compared
};

/// Programs that are no matmul that we know, alike in all registers but addresses.
struct Foreign {
  std::uint64_t count = 0;
  std::uint32_t reason = 0;  ///< enum rkc_reason of the first; 0: no layout fits
  std::uint64_t registers = 0;
  std::vector<RegisterValue> values;  ///< at most ReportLimits::registers of them
};

struct Programs {
  std::uint64_t tasks = 0;   ///< whose words are there
  std::uint64_t unread = 0;  ///< whose words are not
  std::uint64_t same = 0;    ///< tasks whose words were there before, addresses as well
  std::uint64_t alike = 0;   ///< the same apart from addresses, those counted as same included
  std::uint64_t blocks = 0;  ///< programs: a task may hold several
  Counts<MatmulShape> shapes;
  std::map<std::uint64_t, Foreign> foreign;
  std::uint64_t other_foreign = 0;
};

struct Chains {
  std::uint64_t made = 0;
  std::uint64_t unread = 0;
  Counts<ProgramLayout> layouts;
  std::uint64_t submits = 0;
  std::uint64_t submitted = 0;  ///< chains in them
  Counts<std::uint32_t> masks;  ///< what the submits asked for
  std::uint64_t completions = 0;
  std::uint64_t failed = 0;
  std::uint64_t retries = 0;
  Counts<std::uint32_t> cores;  ///< that ran them; RKCHAIN_NO_CORE: none did
  Counts<std::int32_t> errors;
  Order order;  ///< of completions, cores as masks
  Histogram queued_ns;
  Histogram ran_ns;
  Histogram hw_ns;
};

/// Of one process, or of all.
struct Stats {
  std::uint64_t submits = 0;
  std::uint64_t returned = 0;
  std::uint64_t failed = 0;
  std::uint64_t nonblock = 0;
  std::uint64_t tasks = 0;
  std::map<std::uint32_t, CoreRow> cores;  ///< by core mask
  CoreRow other_cores;
  Counts<std::uint32_t> tasks_per_submit;
  Order order;
  std::map<std::uint32_t, QueueDepth> depth;
  Histogram between_ns;  ///< from one submit to the next
  Histogram took_ns;     ///< in the driver
  Histogram hw_ns;       ///< hw_elapse_time of those that succeeded, where it was filled
  Counts<std::int32_t> errors;
  Counts<ProgramLayout> layouts;
  std::uint64_t layout_unread = 0;  ///< submits whose tasks are not in the file
  Programs programs;
  Chains chains;
  Counts<std::uint32_t> unseen;  ///< by Missing
  std::uint64_t lost = 0;        ///< records that could not be written
  std::vector<std::string> unseen_texts;
  std::uint64_t first_ns = 0;  ///< of the first submit and of the last record that counts
  std::uint64_t last_ns = 0;
};

struct ProcessStats {
  std::uint32_t pid = 0;
  std::uint32_t parent = 0;
  bool known = false;  ///< there was a Process record
  bool forked = false;
  bool ended = false;
  std::uint32_t depth = 0;  ///< enum Depth of record.hpp
  std::string command;
  std::uint32_t driver_version = 0;
  std::uint64_t buffers = 0;
  std::uint64_t buffer_bytes = 0;
  Stats stats;
};

/// On the timeline: one submit, or several that lie close together.
struct Bar {
  std::uint32_t core = 0;  ///< mask
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t submits = 0;
};

struct Report {
  Stats total;
  std::vector<ProcessStats> processes;     ///< in the order in which they came
  std::uint64_t processes_known = 0;       ///< of which there is a Process record
  std::uint64_t processes_left_out = 0;    ///< records of processes beyond the limit
  std::uint64_t submits_not_followed = 0;  ///< too many open ones at a time
  bool programs_forgotten = false;         ///< more than are remembered to find repeats
  std::vector<Bar> bars;
  std::uint64_t bar_ns = 0;  ///< submits of a core within this time are one bar; 0: none are
};

/// Takes records in, in the file's order.
class Reporter {
 public:
  /// @param pid of the only process that counts
  explicit Reporter(std::optional<std::uint32_t> pid = std::nullopt);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void add(const Record& record);
  /// Nothing may be added afterwards.
  [[nodiscard]] Report finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rkchain::capture

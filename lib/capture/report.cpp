// SPDX-License-Identifier: MIT
#include "capture/report.hpp"

#include <algorithm>
#include <unordered_map>

#include "capture/report_programs.hpp"
#include "capture/report_timeline.hpp"

namespace rkchain::capture {
namespace {

struct SubmitKey {
  std::uint32_t pid = 0;
  std::uint64_t id = 0;
  auto operator<=>(const SubmitKey&) const = default;
};

/// A submit that has not come back, or whose tasks come before it.
struct OpenSubmit {
  bool submitted = false;
  std::uint32_t core = 0;
  std::uint64_t time_ns = 0;
  LayoutOf layout;
};

void count_layout(Stats& stats, const std::optional<ProgramLayout>& layout) {
  if (layout)
    stats.layouts.add(*layout, ReportLimits::shapes);
  else
    stats.layout_unread++;
}

void moment(Stats& stats, std::uint64_t time_ns) {
  if (time_ns == 0) return;
  if (stats.first_ns == 0) stats.first_ns = time_ns;
  stats.last_ns = std::max(stats.last_ns, time_ns);
}

QueueDepth& depth_of(Stats& stats, std::uint32_t core) {
  const auto [at, made] = stats.depth.try_emplace(core);
  if (made) at->second.changed_ns = stats.first_ns;
  return at->second;
}

bool has_row(const Stats& stats, std::uint32_t core) {
  return stats.cores.contains(core) || stats.cores.size() < ReportLimits::core_masks;
}

CoreRow& row_of(Stats& stats, std::uint32_t core) {
  return has_row(stats, core) ? stats.cores[core] : stats.other_cores;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void close_depths(Stats& stats) {
  for (auto& [core, depth] : stats.depth) depth.until(stats.last_ns);
}

}  // namespace

/// Everything that is counted goes to the total and to the process.
class Reporter::State {
 public:
  explicit State(std::optional<std::uint32_t> pid) : only_(pid) {
    // Those that are always asked for.
    for (const std::uint32_t core : {1U, 2U, 4U, 7U}) report_.total.cores[core];
  }

  void add(const Record& record) {
    if (only_ && record.header.pid != *only_) return;
    process_ = process_of(record.header.pid);
    scopes_ = {&report_.total};
    programs_ = {&report_.total.programs};
    if (process_ != nullptr) {
      scopes_.push_back(&process_->stats);
      programs_.push_back(&process_->stats.programs);
    }
    dispatch(record);
  }

  Report finish() {
    for (const auto& [key, open] : open_) {
      if (!open.submitted) continue;
      count_layout(report_.total, open.layout.layout());
      if (ProcessStats* process = process_of(key.pid))
        count_layout(process->stats, open.layout.layout());
    }
    close_depths(report_.total);
    for (const auto& process : processes_) {
      close_depths(process->stats);
      report_.total.lost += process->stats.lost;
      report_.processes.push_back(std::move(*process));
    }
    report_.programs_forgotten = reader_.forgotten();
    report_.bars = timeline_.bars();
    report_.bar_ns = timeline_.joined_ns();
    return std::move(report_);
  }

 private:
  ProcessStats* process_of(std::uint32_t pid) {
    const auto found = by_pid_.find(pid);
    if (found != by_pid_.end()) return found->second;
    if (processes_.size() == ReportLimits::processes) {
      report_.processes_left_out++;
      return nullptr;
    }
    processes_.push_back(std::make_unique<ProcessStats>());
    ProcessStats* process = processes_.back().get();
    process->pid = pid;
    for (const std::uint32_t core : {1U, 2U, 4U, 7U}) process->stats.cores[core];
    by_pid_.emplace(pid, process);
    return process;
  }

  void dispatch(const Record& record) {
    switch (record.kind()) {
      case Kind::process:
        return begun(record);
      case Kind::node:
        return node(record.get<Node>());
      case Kind::submit:
        return submit(record.header, record.get<Submit>());
      case Kind::submitted:
        return submitted(record.header, record.get<Submitted>());
      case Kind::task:
        return task(record.header, record.get<Task>(), record.rest<Task>());
      case Kind::buffer:
        return buffer(record.get<Buffer>());
      case Kind::unseen:
        return unseen(record.get<Unseen>(), text_of(record.rest<Unseen>()));
      case Kind::chain:
        return chain(record.get<Chain>(), record.rest<Chain>());
      case Kind::chain_submit:
        return chain_submit(record.get<ChainSubmit>());
      case Kind::completion:
        return completion(record.get<Completion>().completion);
      case Kind::end:
        return ended(record.get<End>());
      default:
        return;
    }
  }

  void begun(const Record& record) {
    report_.processes_known++;
    forget_submits(record.header.pid);
    if (process_ == nullptr) return;
    const auto process = record.get<Process>();
    process_->known = true;
    process_->parent = process.parent;
    process_->depth = process.depth;
    process_->forked = process.begin == static_cast<std::uint32_t>(Begin::forked);
    process_->ended = false;
    std::string command(text_of(record.rest<Process>()));
    while (!command.empty() && command.back() == '\0') command.pop_back();
    std::replace(command.begin(), command.end(), '\0', ' ');
    constexpr std::size_t most = 4096;
    process_->command = command.substr(0, most);
  }

  /// A new program under that pid: ids begin again, and what is open never comes back.
  void forget_submits(std::uint32_t pid) {
    auto at = open_.lower_bound({pid, 0});
    while (at != open_.end() && at->first.pid == pid) {
      const OpenSubmit& open = at->second;
      for (Stats* stats : scopes_) {
        if (!open.submitted) continue;
        count_layout(*stats, open.layout.layout());
        const auto depth = stats->depth.find(open.core);
        if (open.time_ns != 0 && depth != stats->depth.end() && depth->second.now != 0) {
          depth->second.until(stats->last_ns);
          depth->second.now--;
        }
      }
      at = open_.erase(at);
    }
  }

  void node(const Node& node) {
    if (process_ != nullptr && node.driver_version != 0)
      process_->driver_version = node.driver_version;
  }

  OpenSubmit* open(std::uint32_t pid, std::uint64_t id) {
    const auto found = open_.find({pid, id});
    if (found != open_.end()) return &found->second;
    if (open_.size() == ReportLimits::open_submits) return nullptr;
    return &open_[{pid, id}];
  }

  void submit(const RecordHeader& header, const Submit& submit) {
    const rknpu_submit& argument = submit.argument;
    const std::uint32_t core = argument.core_mask;
    for (Stats* stats : scopes_) {
      stats->submits++;
      stats->tasks += argument.task_number;
      if ((argument.flags & RKNPU_JOB_NONBLOCK) != 0) stats->nonblock++;
      CoreRow& row = row_of(*stats, core);
      row.submits++;
      row.tasks += argument.task_number;
      stats->tasks_per_submit.add(argument.task_number, ReportLimits::task_numbers);
      stats->order.add(core);
      submit_time(*stats, core, header.time_ns);
    }
    OpenSubmit* entry = open(header.pid, submit.id);
    if (entry == nullptr) {
      report_.submits_not_followed++;
      return;
    }
    entry->submitted = true;
    entry->core = core;
    entry->time_ns = header.time_ns;
    if (header.time_ns == 0) return;
    for (Stats* stats : scopes_)
      if (has_row(*stats, core)) deeper(depth_of(*stats, core), header.time_ns);
  }

  void submit_time(Stats& stats, std::uint32_t, std::uint64_t time_ns) {
    if (time_ns == 0) return;
    std::uint64_t& last = last_submit_[&stats];
    // Threads may write in another order than they asked for the time.
    if (last != 0) stats.between_ns.add(time_ns > last ? time_ns - last : 0);
    last = std::max(last, time_ns);
    moment(stats, time_ns);
  }

  static void deeper(QueueDepth& depth, std::uint64_t time_ns) {
    depth.until(time_ns);
    depth.now++;
    depth.most = std::max(depth.most, depth.now);
  }

  void submitted(const RecordHeader& header, const Submitted& done) {
    const auto found = open_.find({header.pid, done.id});
    const bool known = found != open_.end() && found->second.submitted;
    for (Stats* stats : scopes_) {
      stats->returned++;
      if (done.result < 0) {
        stats->failed++;
        stats->errors.add(done.result, ReportLimits::core_masks);
      } else if (done.hw_elapse_ns > 0) {
        stats->hw_ns.add(static_cast<std::uint64_t>(done.hw_elapse_ns));
      }
      if (done.took_ns != 0) stats->took_ns.add(done.took_ns);
      moment(*stats, header.time_ns);
      if (known) came_back(*stats, found->second, header.time_ns, done.result < 0);
    }
    if (!known) return;
    if (found->second.time_ns != 0 && header.time_ns >= found->second.time_ns)
      timeline_.add({found->second.core, found->second.time_ns, header.time_ns, 1});
    open_.erase(found);
  }

  static void came_back(Stats& stats, const OpenSubmit& open, std::uint64_t time_ns, bool failed) {
    if (failed) row_of(stats, open.core).failed++;
    count_layout(stats, open.layout.layout());
    const auto depth = stats.depth.find(open.core);
    if (depth == stats.depth.end() || open.time_ns == 0) return;
    depth->second.until(time_ns);
    if (depth->second.now != 0) depth->second.now--;
  }

  void task(const RecordHeader& header, const Task& task, std::span<const std::byte> rest) {
    OpenSubmit* entry = task.submit == 0 ? nullptr : open(header.pid, task.submit);
    if (task.words == 0) {
      for (Programs* programs : programs_) programs->unread++;
      if (entry != nullptr) entry->layout.add_unread();
      return;
    }
    copy_words(rest);
    const TaskProgram program = reader_.add(words_, programs_);
    if (entry != nullptr) entry->layout.add(task, program);
  }

  /// Payloads are not aligned.
  void copy_words(std::span<const std::byte> rest) {
    words_.resize(rest.size() / sizeof(std::uint64_t));
    std::memcpy(words_.data(), rest.data(), words_.size() * sizeof(std::uint64_t));
  }

  void buffer(const Buffer& buffer) {
    if (process_ == nullptr || buffer.existed != 0) return;
    process_->buffers++;
    process_->buffer_bytes += buffer.size;
  }

  void unseen(const Unseen& unseen, std::string_view text) {
    if (process_ != nullptr && unseen.what == static_cast<std::uint32_t>(Missing::lost))
      process_->stats.lost += unseen.value;
    for (Stats* stats : scopes_) {
      stats->unseen.add(unseen.what, ReportLimits::core_masks);
      constexpr std::size_t most = 256;
      const std::string shown(text.substr(0, most));
      auto& texts = stats->unseen_texts;
      if (!shown.empty() && texts.size() < ReportLimits::texts &&
          std::find(texts.begin(), texts.end(), shown) == texts.end())
        texts.push_back(shown);
    }
  }

  void chain(const Chain& chain, std::span<const std::byte> rest) {
    Form form = Form::unknown;
    rkc_program program{};
    if (chain.words != 0) {
      copy_words(rest);
      program = {words_.data(), words_.size(), chain.count,
                 chain.stride,  chain.body,    (chain.flags & RKCHAIN_CHAIN_LINK) != 0};
      reader_.add(program, programs_);
      form = program.link ? Form::link : detect_program(words_).form;
    }
    for (Stats* stats : scopes_) {
      stats->chains.made++;
      if (chain.words == 0) stats->chains.unread++;
      stats->chains.layouts.add({form, 0, chain.count, chain.stride, chain.body},
                                ReportLimits::shapes);
    }
  }

  void chain_submit(const ChainSubmit& submit) {
    for (Stats* stats : scopes_) {
      stats->chains.submits++;
      stats->chains.submitted += submit.count;
      stats->chains.masks.add(submit.core_mask, ReportLimits::core_masks);
    }
  }

  void completion(const rkchain_completion& done) {
    // It follows one that was counted.
    if ((done.flags & RKCHAIN_DONE_RETIRED) != 0) return;
    for (Stats* stats : scopes_) {
      Chains& chains = stats->chains;
      chains.completions++;
      chains.retries += done.retries;
      chains.cores.add(done.core, ReportLimits::core_masks);
      if (done.status != 0) {
        chains.failed++;
        chains.errors.add(done.status, ReportLimits::core_masks);
      }
      if (done.core < 32) chains.order.add(1U << done.core);
      if (done.started_ns == 0) continue;
      if (done.started_ns >= done.queued_ns) chains.queued_ns.add(done.started_ns - done.queued_ns);
      if (done.done_ns >= done.started_ns) chains.ran_ns.add(done.done_ns - done.started_ns);
      if (done.hw_ns != 0) chains.hw_ns.add(done.hw_ns);
    }
  }

  void ended(const End& end) {
    if (process_ == nullptr) return;
    process_->ended = true;
    process_->stats.lost = std::max(process_->stats.lost, end.lost);
  }

  std::optional<std::uint32_t> only_;
  Report report_;
  std::vector<std::unique_ptr<ProcessStats>> processes_;
  std::unordered_map<std::uint32_t, ProcessStats*> by_pid_;
  std::map<SubmitKey, OpenSubmit> open_;
  std::unordered_map<const Stats*, std::uint64_t> last_submit_;
  ProgramReader reader_;
  Timeline timeline_;
  std::vector<std::uint64_t> words_;
  ProcessStats* process_ = nullptr;
  std::vector<Stats*> scopes_;
  std::vector<Programs*> programs_;
};

Reporter::Reporter(std::optional<std::uint32_t> pid) : state_(std::make_unique<State>(pid)) {}
Reporter::~Reporter() = default;
void Reporter::add(const Record& record) { state_->add(record); }
Report Reporter::finish() { return state_->finish(); }

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
// /dev/rkchain as its callers see it, with the software NPU's back end behind it.
#pragma once

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "backend/model_backend.hpp"
#include "fake_system.hpp"
#include "uapi/rkchain.h"

namespace rkchain::test {

class FakeModule {
 public:
  static constexpr int kFd = 60;
  static constexpr int kFirstBuffer = 1000;  ///< descriptors of dma-bufs

  /// What a call is made to say.
  struct Answer {
    int error = 0;
    rkchain_report report{};
  };

  // Set before use.
  rkchain_query query{};
  std::map<std::uint32_t, Answer> answers;               ///< by number of the call, each time
  std::map<std::uint64_t, rkchain_completion> outcomes;  ///< what WAIT says instead

  // What it was asked.
  std::vector<rkchain_submit> submits;
  std::vector<rkchain_buf_use> uses;
  std::vector<rkchain_buf_sync> syncs;
  int provided = -2;  ///< descriptor; -1 after a release

  explicit FakeModule(FakeSystem& machine, ModelHooks hooks = {})
      : npu_(make_model_backend({}, std::move(hooks))) {
    query.abi_version = RKCHAIN_ABI_VERSION;
    query.provider = 1;
    query.capabilities = RKCHAIN_CAP_CHAINS | RKCHAIN_CAP_AFTER | RKCHAIN_CAP_FEED_ON;
    query.cores_present = query.cores_usable = 7;
    query.mode = RKCHAIN_MODE_LINK;
    query.driver_version = 908;
    machine.nodes["/dev/rkchain"] = kFd;
    machine.ioctl = [this](int, unsigned long command, void* argument) {
      return call(_IOC_NR(command), argument);
    };
    machine.map = [this](int fd, std::size_t size, std::uint64_t offset, std::byte*& memory) {
      return map(fd, size, offset, memory);
    };
  }

  [[nodiscard]] std::size_t buffers() const {
    const std::lock_guard lock(mutex_);
    return buffers_.size();
  }

 private:
  using Time = std::chrono::steady_clock::time_point;

  int call(std::uint32_t number, void* argument) {
    if (const auto at = answers.find(number); at != answers.end()) {
      set_report(number, argument, at->second.report);
      return at->second.error;
    }
    try {
      switch (number) {
        case RKCHAIN_NR_QUERY:
          *static_cast<rkchain_query*>(argument) = query;
          return 0;
        case RKCHAIN_NR_PROVIDE:
          provided = static_cast<rkchain_provide*>(argument)->drm_fd;
          return 0;
        case RKCHAIN_NR_BUF_CREATE:
          return create_buffer(*static_cast<rkchain_buf_create*>(argument));
        case RKCHAIN_NR_BUF_DESTROY: {
          const auto id = static_cast<rkchain_id*>(argument)->id;
          npu_->destroy_buffer(id);
          const std::lock_guard lock(mutex_);
          buffers_.erase(id);
          return 0;
        }
        case RKCHAIN_NR_BUF_SYNC:
          syncs.push_back(*static_cast<rkchain_buf_sync*>(argument));
          return 0;
        case RKCHAIN_NR_CHAIN_CREATE:
          return create_chain(*static_cast<rkchain_chain_create*>(argument));
        case RKCHAIN_NR_CHAIN_DESTROY:
          npu_->destroy_chain(static_cast<rkchain_id*>(argument)->id);
          return 0;
        case RKCHAIN_NR_SUBMIT:
          return submit(*static_cast<rkchain_submit*>(argument));
        case RKCHAIN_NR_WAIT:
          return wait(*static_cast<rkchain_wait*>(argument));
        default:
          return -ENOTTY;
      }
    } catch (const Error& error) {
      rkchain_report report{};
      report.reason = error.reason();
      report.block = error.block();
      report.word = error.word();
      set_report(number, argument, report);
      return -EINVAL;
    }
  }

  static void set_report(std::uint32_t number, void* argument, const rkchain_report& report) {
    switch (number) {
      case RKCHAIN_NR_PROVIDE:
        static_cast<rkchain_provide*>(argument)->report = report;
        break;
      case RKCHAIN_NR_BUF_CREATE:
        static_cast<rkchain_buf_create*>(argument)->report = report;
        break;
      case RKCHAIN_NR_CHAIN_CREATE:
        static_cast<rkchain_chain_create*>(argument)->report = report;
        break;
      case RKCHAIN_NR_SUBMIT:
        static_cast<rkchain_submit*>(argument)->report = report;
        break;
      case RKCHAIN_NR_WAIT:
        static_cast<rkchain_wait*>(argument)->report = report;
        break;
      default:
        break;
    }
  }

  int create_buffer(rkchain_buf_create& create) {
    const BackendBuffer buffer = npu_->create_buffer(create.size);
    create.id = static_cast<std::uint32_t>(buffer.id);
    create.iova = buffer.iova;
    create.fd = kFirstBuffer + static_cast<int>(buffer.id);
    const std::lock_guard lock(mutex_);
    buffers_.emplace(buffer.id, buffer);
    return 0;
  }

  int map(int fd, std::size_t size, std::uint64_t offset, std::byte*& memory) {
    const std::lock_guard lock(mutex_);
    const auto at = buffers_.find(static_cast<std::uint64_t>(fd - kFirstBuffer));
    if (at == buffers_.end() || offset != 0 || size > at->second.size) return -EINVAL;
    memory = at->second.cpu;
    return 0;
  }

  int create_chain(rkchain_chain_create& create) {
    ChainProgram program;
    program.words = {reinterpret_cast<const std::uint64_t*>(create.programs), create.size / 8};
    program.count = create.count;
    program.stride = create.stride;
    program.body = create.body;
    program.link = (create.flags & RKCHAIN_CHAIN_LINK) != 0;
    const auto* const array = reinterpret_cast<const rkchain_buf_use*>(create.buffers);
    uses.assign(array, array + create.buffer_count);
    std::vector<BufferUse> declared;
    for (const auto& use : uses) {
      declared.push_back({use.id, (use.flags & RKCHAIN_USE_READ) != 0,
                          (use.flags & RKCHAIN_USE_WRITE) != 0,
                          (use.flags & RKCHAIN_USE_SYNC) != 0});
    }
    create.id = static_cast<std::uint32_t>(npu_->create_chain(program, declared));
    create.macs = 1000 * create.count;
    return 0;
  }

  int submit(rkchain_submit& args) {
    const auto* const ids = reinterpret_cast<const std::uint32_t*>(args.chains);
    const std::vector<std::uint64_t> chains(ids, ids + args.count);
    const auto after =
        (args.flags & RKCHAIN_SUBMIT_AFTER) != 0 ? std::optional(args.after) : std::nullopt;
    args.first = npu_->submit({chains, args.core_mask, after});
    const std::lock_guard lock(mutex_);
    submits.push_back(args);
    return 0;
  }

  int wait(rkchain_wait& args) {
    const auto deadline =
        args.deadline_ns < 0 ? Time::max() : Time(std::chrono::nanoseconds(args.deadline_ns));
    auto& into = *reinterpret_cast<rkchain_completion*>(args.completions);
    const auto done = npu_->wait(args.first, deadline);
    if (!done) return -ETIME;
    into = {};
    into.sequence = done->sequence;
    into.core = done->core;
    into.queued_ns = 10 + done->queued_ns;
    into.started_ns = 20 + done->started_ns;
    into.done_ns = 20 + done->done_ns;
    into.hw_ns = 777;
    if (done->error) into.status = *done->error == Errc::cancelled ? -ECANCELED : -EIO;
    if (const auto at = outcomes.find(args.first); at != outcomes.end()) into = at->second;
    args.done = 1;
    return 0;
  }

  const std::shared_ptr<Backend> npu_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, BackendBuffer> buffers_;
};

}  // namespace rkchain::test

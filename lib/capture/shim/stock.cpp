// SPDX-License-Identifier: MIT
#include "capture/shim/stock.hpp"

#include "capture/shim/buffers.hpp"
#include "capture/shim/journal.hpp"
#include "capture/shim/nodes.hpp"

namespace rkchain::capture::shim {
namespace {

constexpr unsigned base = 0x40;

/// @return the submit's id, 0 when there is nothing to tell
std::uint64_t before_submit(const Call& call) noexcept {
  const KeepErrno keep;
  Submit fixed{};
  if (!call.read(fixed.argument)) {
    unseen(Missing::argument, 0, word(call.argument), "the argument of SUBMIT cannot be read");
    return 0;
  }
  fixed.id = begin_submit();
  fixed.fd = call.fd;
  fixed.argument_bytes = static_cast<std::uint32_t>(call.size());
  if (depth() == Depth::submits) {
    record(Kind::submit, fixed);
    return fixed.id;
  }
  // In one piece: what another thread writes down in between would be left out here.
  const Guard guard;
  record(Kind::submit, fixed);
  record_tasks(fixed.id, fixed.argument);
  if (depth() == Depth::everything) dump_buffers(fixed.id, When::before);
  return fixed.id;
}

void after_submit(const Call& call, std::uint64_t id, int result, std::uint64_t took) noexcept {
  const KeepErrno keep;
  Submitted fixed{};
  fixed.id = id;
  fixed.result = outcome(result);
  fixed.took_ns = took;
  rknpu_submit argument{};
  if (call.read(argument)) {
    fixed.task_counter = argument.task_counter;
    fixed.hw_elapse_ns = argument.hw_elapse_time;
  }
  if (result < 0) count_failure();
  if (depth() != Depth::everything) {
    record(Kind::submitted, fixed);
    return;
  }
  const Guard guard;
  record(Kind::submitted, fixed);
  dump_buffers(id, When::after);
}

int submit(const Call& call) noexcept {
  const std::uint64_t id = before_submit(call);
  if (id == 0) return call.pass();
  const std::uint64_t start = now_ns();
  const int result = call.pass();
  after_submit(call, id, result, now_ns() - start);
  return result;
}

int create(const Call& call) noexcept {
  rknpu_mem_create given{};
  const bool readable = call.read(given);
  const int result = call.pass();
  if (result != 0) return result;
  const KeepErrno keep;
  rknpu_mem_create got{};
  if (!readable || !call.read(got)) {
    unseen(Missing::argument, 0, word(call.argument), "the argument of MEM_CREATE cannot be read");
    return result;
  }
  Buffer fixed{};
  fixed.fd = call.fd;
  fixed.handle = got.handle;
  fixed.flags = got.flags;
  fixed.existed = given.handle != 0 ? 1 : 0;
  fixed.size = got.size;
  fixed.obj = got.obj_addr;
  fixed.iova = got.dma_addr;
  const Guard guard;
  add_buffer(call.file, fixed, false, -1);
  return result;
}

int destroy(const Call& call) noexcept {
  rknpu_mem_destroy given{};
  Held was{};
  {
    // Before the call: its handle may have a new meaning before this thread comes back.
    const KeepErrno keep;
    const bool readable = call.read(given);
    const Guard guard;
    if (readable) was = remove_buffer(call.file, given.handle, false);
  }
  const int result = call.pass();
  if (result == 0 || was.file == 0) return result;
  const KeepErrno keep;
  const Guard guard;
  was.record.existed = 1;
  add_buffer(was.file, was.record, false, -1);
  return result;
}

int map(const Call& call) noexcept {
  const int result = call.pass();
  rknpu_mem_map got{};
  const KeepErrno keep;
  if (result != 0 || !call.read(got)) return result;
  const Guard guard;
  place_buffer(call.file, got.handle, got.offset);
  return result;
}

int sync(const Call& call) noexcept {
  rknpu_mem_sync given{};
  const bool readable = call.read(given);
  const int result = call.pass();
  const KeepErrno keep;
  if (!readable) return result;
  Sync fixed{};
  fixed.fd = call.fd;
  fixed.flags = given.flags;
  fixed.obj = given.obj_addr;
  fixed.offset = given.offset;
  fixed.size = given.size;
  record(Kind::sync, fixed);
  const bool from_device = (given.flags & RKNPU_MEM_SYNC_FROM_DEVICE) != 0;
  if (depth() != Depth::everything || !from_device || result != 0) return result;
  const Guard guard;
  if (Held* held = buffer_of_object(given.obj_addr))
    dump_range(*held, given.offset, given.size, last_submit(), When::synced);
  return result;
}

int act(const Call& call) noexcept {
  const int result = call.pass();
  const KeepErrno keep;
  rknpu_action got{};
  if (!call.read(got)) return result;
  Action fixed{};
  fixed.fd = call.fd;
  fixed.flags = got.flags;
  fixed.value = got.value;
  fixed.result = outcome(result);
  record(Kind::action, fixed);
  return result;
}

}  // namespace

bool is_stock(unsigned long command) noexcept {
  return _IOC_TYPE(command) == 'd' && _IOC_NR(command) >= base &&
         _IOC_NR(command) < base + RKNPU_IOCTLS;
}

int stock_call(int fd, unsigned long command, void* argument) noexcept {
  const unsigned number = _IOC_NR(command) - base;
  const auto bytes =
      static_cast<std::uint32_t>(number == RKNPU_MEM_CREATE ? _IOC_SIZE(command) : 0);
  const Seen seen = [&] {
    const KeepErrno keep;
    return look(fd, What::rknpu, bytes);
  }();
  const Call call{fd, command, argument, seen.file};
  if (seen.what != What::rknpu) return call.pass();
  if (number == RKNPU_SUBMIT) return submit(call);
  if (depth() == Depth::submits) return call.pass();
  switch (number) {
    case RKNPU_ACTION:
      return act(call);
    case RKNPU_MEM_CREATE:
      return create(call);
    case RKNPU_MEM_MAP:
      return map(call);
    case RKNPU_MEM_DESTROY:
      return destroy(call);
    default:
      return sync(call);
  }
}

}  // namespace rkchain::capture::shim

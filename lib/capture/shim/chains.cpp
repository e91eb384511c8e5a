// SPDX-License-Identifier: MIT
#include "capture/shim/buffers.hpp"
#include "capture/shim/journal.hpp"
#include "capture/shim/nodes.hpp"
#include "capture/shim/stock.hpp"

namespace rkchain::capture::shim {
namespace {

constinit Room words_room;
constinit Room ids_room;

int create_chain(const Call& call) noexcept {
  const int result = call.pass();
  rkchain_chain_create got{};
  const KeepErrno keep;
  if (result != 0) return result;
  if (!call.read(got)) {
    unseen(Missing::argument, 0, word(call.argument), "the argument of CHAIN_CREATE is not there");
    return result;
  }
  Chain fixed{};
  fixed.fd = call.fd;
  fixed.id = got.id;
  fixed.count = got.count;
  fixed.stride = got.stride;
  fixed.body = got.body;
  fixed.flags = got.flags;
  const std::uint64_t most = max_payload - sizeof(fixed);
  const std::size_t bytes = (got.size < most ? got.size : most) / 8 * 8;
  const Guard guard;
  char* words = bytes != 0 ? words_room.get(bytes) : nullptr;
  const bool have = words != nullptr && read_program(words, got.programs, bytes);
  if (!have || bytes < got.size)
    unseen(Missing::program, 0, got.programs, "not all words of this chain are here");
  fixed.words = have ? static_cast<std::uint32_t>(bytes / 8) : 0;
  record(Kind::chain, fixed, words, have ? bytes : 0);
  return result;
}

std::uint64_t before_submit(const Call& call) noexcept {
  const KeepErrno keep;
  rkchain_submit given{};
  if (!call.read(given)) {
    unseen(Missing::argument, 0, word(call.argument), "the argument of SUBMIT cannot be read");
    return 0;
  }
  ChainSubmit fixed{};
  fixed.fd = call.fd;
  fixed.core_mask = given.core_mask;
  fixed.flags = given.flags;
  fixed.id = begin_submit();
  const std::size_t bytes = std::size_t{given.count} * 4;
  const Guard guard;
  const bool fits = bytes != 0 && bytes <= max_payload - sizeof(fixed);
  char* ids = fits ? ids_room.get(bytes) : nullptr;
  const bool have = ids != nullptr && read_program(ids, given.chains, bytes);
  if (!have && bytes != 0)
    unseen(Missing::argument, fixed.id, given.chains, "the ids of the chains cannot be read");
  fixed.count = have ? given.count : 0;
  record(Kind::chain_submit, fixed, ids, have ? bytes : 0);
  if (depth() == Depth::everything) dump_buffers(fixed.id, When::before);
  return fixed.id;
}

int submit_chains(const Call& call) noexcept {
  const std::uint64_t id = before_submit(call);
  if (id == 0) return call.pass();
  const std::uint64_t start = now_ns();
  const int result = call.pass();
  const KeepErrno keep;
  Submitted fixed{};
  fixed.id = id;
  fixed.result = outcome(result);
  fixed.took_ns = now_ns() - start;
  if (result < 0) count_failure();
  record(Kind::submitted, fixed);
  return result;
}

int wait_for_chains(const Call& call) noexcept {
  const int result = call.pass();
  rkchain_wait got{};
  const KeepErrno keep;
  if (result != 0 || !call.read(got)) return result;
  for (std::uint32_t i = 0; i < got.done && i < got.count; i++) {
    Completion fixed{};
    fixed.fd = call.fd;
    const std::uint64_t at = got.completions + std::uint64_t{i} * sizeof(fixed.completion);
    if (!read_program(&fixed.completion, at, sizeof(fixed.completion))) {
      unseen(Missing::argument, 0, at, "this completion cannot be read");
      break;
    }
    record(Kind::completion, fixed);
  }
  if (depth() != Depth::everything || got.done == 0) return result;
  const Guard guard;
  dump_buffers(last_submit(), When::after);
  return result;
}

int create_buffer(const Call& call, bool adopted) noexcept {
  const int result = call.pass();
  const KeepErrno keep;
  if (result != 0) return result;
  Buffer fixed{};
  fixed.fd = call.fd;
  int memory_fd = -1;
  rkchain_buf_create made{};
  rkchain_buf_adopt taken{};
  if (adopted ? !call.read(taken) : !call.read(made)) {
    unseen(Missing::argument, 0, word(call.argument), "the argument of a buffer cannot be read");
    return result;
  }
  fixed.handle = adopted ? taken.id : made.id;
  fixed.flags = adopted ? taken.flags : made.flags;
  fixed.existed = adopted ? 1 : 0;
  fixed.size = adopted ? taken.size : (made.size + 4095) / 4096 * 4096;
  fixed.iova = adopted ? taken.iova : made.iova;
  // An adopted one's memory is the stock buffer's.  The descriptor may be closed soon.
  if (!adopted && depth() == Depth::everything) memory_fd = made.fd;
  const Guard guard;
  if (adopted)
    record(Kind::buffer, fixed);
  else
    add_buffer(call.file, fixed, true, memory_fd);
  return result;
}

int destroy_buffer(const Call& call) noexcept {
  rkchain_id given{};
  Held was{};
  {
    const KeepErrno keep;
    const bool readable = call.read(given);
    const Guard guard;
    if (readable) was = remove_buffer(call.file, given.id, true);
  }
  const int result = call.pass();
  if (result == 0 || was.file == 0) return result;
  const KeepErrno keep;
  const Guard guard;
  was.record.existed = 1;
  add_buffer(was.file, was.record, true, -1);
  return result;
}

}  // namespace

bool is_chain(unsigned long command) noexcept { return _IOC_TYPE(command) == RKCHAIN_IOCTL_TYPE; }

int chain_call(int fd, unsigned long command, void* argument) noexcept {
  const Seen seen = [&] {
    const KeepErrno keep;
    return look(fd, What::rkchain, 0);
  }();
  const Call call{fd, command, argument, seen.file};
  if (seen.what != What::rkchain) return call.pass();
  const unsigned number = _IOC_NR(command);
  if (number == RKCHAIN_NR_SUBMIT) return submit_chains(call);
  if (number == RKCHAIN_NR_WAIT) return wait_for_chains(call);
  if (depth() == Depth::submits) return call.pass();
  switch (number) {
    case RKCHAIN_NR_CHAIN_CREATE:
      return create_chain(call);
    case RKCHAIN_NR_BUF_CREATE:
      return create_buffer(call, false);
    case RKCHAIN_NR_BUF_ADOPT:
      return create_buffer(call, true);
    case RKCHAIN_NR_BUF_DESTROY:
      return destroy_buffer(call);
    default:
      return call.pass();
  }
}

}  // namespace rkchain::capture::shim

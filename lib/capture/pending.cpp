// SPDX-License-Identifier: MIT
#include "capture/pending.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace rkchain::capture {

namespace {

enum State : std::uint8_t {
  settled = 1,
  known = 2,    ///< the capture has it
  fresh = 4,    ///< synced
  closed = 8,   ///< settled for good
  shared = 16,  ///< another submit wrote there at the same time
};

/// Calls part(written, first index, last index + 1) for what is in [at, at + len).
template <typename Part>
void each_part(std::vector<Written>& all, std::uint64_t at, std::uint64_t len, const Part& part) {
  auto it = std::upper_bound(all.begin(), all.end(), at,
                             [](auto address, const Written& each) { return address < each.at; });
  if (it != all.begin()) --it;
  for (; it != all.end() && (it->at <= at || it->at - at < len); ++it) {
    Written& written = *it;
    const std::uint64_t size = written.model.size();
    const std::uint64_t from = at > written.at ? at - written.at : 0;
    if (from >= size) continue;
    const std::uint64_t rest = at > written.at ? len : len - (written.at - at);
    part(written, from, from + std::min(size - from, rest));
  }
}

/// Takes what stands there for the bytes that @p choose wants.
template <typename Choose>
void take(Written& written, const View& now, std::uint64_t from, std::uint64_t to,
          std::uint8_t mark, const Choose& choose) {
  if (written.open == 0 && mark == 0) return;
  std::vector<std::byte> bytes(to - from);
  std::vector<std::uint8_t> has(to - from);
  now.read(written.at + from, bytes, has);
  for (std::uint64_t i = from; i < to; i++) {
    std::uint8_t& state = written.state[i];
    if ((state & settled) == 0 && choose(i)) {
      written.want[i] = bytes[i - from];
      written.open--;
      state = static_cast<std::uint8_t>(state | settled | mark | (has[i - from] != 0 ? known : 0));
    }
    if ((state & settled) != 0) state |= mark;
  }
}

std::uint32_t value(const std::vector<std::byte>& bytes, std::size_t at, std::size_t size) {
  std::uint32_t result = 0;
  for (std::size_t i = 0; i < size; i++)
    result |= static_cast<std::uint32_t>(bytes[at + i]) << 8 * i;
  return result;
}

/// Why an element that differs says nothing; nullptr when it does.
const char* excuse(const Written& written, std::size_t at, std::size_t size) {
  for (std::size_t i = at; i < at + size; i++) {
    if ((written.state[i] & known) == 0) return "the memory of its output was not captured";
    if ((written.state[i] & shared) != 0)
      return "another submit wrote to its output at the same time";
    if (written.stale && (written.state[i] & fresh) == 0)
      return "what was captured of its output may be stale: the program never synced it";
  }
  return nullptr;
}

bool all_known(const Written& written, std::size_t at, std::size_t size) {
  return std::all_of(written.state.begin() + static_cast<std::ptrdiff_t>(at),
                     written.state.begin() + static_cast<std::ptrdiff_t>(at + size),
                     [](std::uint8_t state) { return (state & known) != 0; });
}

void compare_element(const Written& written, std::size_t at, std::size_t size,
                     SubmitResult& result) {
  const bool equal = std::memcmp(written.model.data() + at, written.want.data() + at, size) == 0 &&
                     all_known(written, at, size);
  const char* const why = equal ? nullptr : excuse(written, at, size);
  if (why != nullptr) {
    result.left_out++;
    if (result.why.empty()) result.why = why;
    return;
  }
  result.words++;
  result.equal += equal ? 1 : 0;
  if (!equal && !result.first)
    result.first = Difference{written.buffer,
                              written.at + at - written.buffer,
                              written.at + at,
                              static_cast<std::uint32_t>(size),
                              value(written.model, at, size),
                              value(written.want, at, size)};
}

}  // namespace

void Pending::synced(std::uint64_t at, std::uint64_t len) {
  each_part(written_, at, len, [](Written& written, auto from, auto to) {
    written.touched = true;
    for (auto i = from; i < to; i++)
      if ((written.state[i] & settled) == 0) written.state[i] |= fresh;
  });
}

void Pending::settle(const View& now, std::uint64_t at, std::uint64_t len, bool last) {
  each_part(written_, at, len, [&](Written& written, auto from, auto to) {
    take(written, now, from, to, last ? closed : 0, [](auto) { return true; });
  });
}

void Pending::settle_visible(const View& now, bool synced_too) {
  for (Written& written : written_)
    if (!written.stale || (synced_too && written.touched))
      take(written, now, 0, written.model.size(), 0,
           [&](auto i) { return !written.stale || (written.state[i] & fresh) != 0; });
}

void Pending::changed(const View& now, std::uint64_t at, std::span<const std::byte> bytes) {
  each_part(written_, at, bytes.size(), [&](Written& written, auto from, auto to) {
    std::vector<std::byte> old(to - from);
    std::vector<std::uint8_t> has(to - from);
    now.read(written.at + from, old, has);
    take(written, now, from, to, 0, [&](auto i) {
      const std::byte put = bytes[written.at + i - at];
      // A cache line that went by itself shows what the device has written.
      const bool refreshed = written.stale && put == written.model[i];
      return has[i - from] != 0 && old[i - from] != put && !refreshed;
    });
  });
}

void Pending::reopen(std::uint64_t at, std::uint64_t len) {
  each_part(written_, at, len, [](Written& written, auto from, auto to) {
    for (auto i = from; i < to; i++) {
      if ((written.state[i] & (closed | settled)) != settled) continue;
      written.state[i] &= static_cast<std::uint8_t>(~(settled | known));
      written.open++;
    }
  });
}

void Pending::raced(std::uint64_t at, std::uint64_t len) {
  each_part(written_, at, len, [](Written& written, auto from, auto to) {
    for (auto i = from; i < to; i++) written.state[i] |= shared;
  });
}

bool Pending::complete() const {
  return std::all_of(written_.begin(), written_.end(),
                     [](const Written& written) { return written.open == 0; });
}

SubmitResult Pending::compare() const {
  SubmitResult result = result_;
  for (const Written& written : written_)
    for (std::size_t at = 0; at < written.model.size(); at += written.element)
      compare_element(written, at,
                      std::min<std::size_t>(written.element, written.model.size() - at), result);
  return result;
}

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
// What the software NPU wrote for a submit, until the file has said what the hardware did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capture/pages.hpp"

namespace rkchain::capture {

/// The first place where the software NPU and the capture differ.
struct Difference {
  std::uint64_t buffer = 0;   ///< IOVA
  std::uint64_t offset = 0;   ///< in the buffer
  std::uint64_t address = 0;  ///< IOVA
  std::uint32_t bytes = 0;    ///< of an element: 1, 2 or 4
  std::uint32_t have = 0;     ///< what the software NPU wrote
  std::uint32_t want = 0;     ///< what was captured
};

/// One submit and what became of it.
struct SubmitResult {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint64_t id = 0;
  std::uint64_t number = 0;  ///< of all submits of the file, from 1
  std::uint32_t core_mask = 0;
  std::uint64_t tasks = 0;
  std::uint64_t blocks = 0;  ///< matmuls executed
  /// Elements of the outputs: 32 bits where results are int32 or fp32, 16 for fp16, else bytes.
  std::uint64_t words = 0;  ///< compared
  std::uint64_t equal = 0;
  std::uint64_t left_out = 0;  ///< written, and not comparable; why is in @ref why
  std::optional<Difference> first;
  std::string why;  ///< it was not replayed, or not all of it compared

  [[nodiscard]] bool differs() const noexcept { return equal != words; }
};

/// Contiguous bytes that were written.
struct Written {
  Written(const std::shared_ptr<Budget>& budget, std::uint64_t address, std::size_t bytes)
      : share(budget, 3 * bytes),
        at(address),
        open(bytes),
        model(bytes),
        want(bytes),
        state(bytes) {}

  Share share;
  std::uint64_t at;
  std::uint64_t open;        ///< bytes that are not settled
  std::uint64_t buffer = 0;  ///< IOVA
  std::uint32_t element = 1;
  bool touched = false;  ///< some have been synced
  bool stale = false;    ///< the CPU may not see it before a MEM_SYNC FROM_DEVICE
  std::vector<std::byte> model;
  std::vector<std::byte> want;
  std::vector<std::uint8_t> state;  ///< of each byte
};

class Pending {
 public:
  Pending(SubmitResult result, std::uint64_t started, std::uint64_t ended)
      : result_(std::move(result)), started_(started), ended_(ended) {}

  [[nodiscard]] const SubmitResult& result() const noexcept { return result_; }
  /// When its memory was taken, and when it came back: numbers of records.
  [[nodiscard]] std::uint64_t started() const noexcept { return started_; }
  [[nodiscard]] std::uint64_t ended() const noexcept { return ended_; }
  /// Its thread has done something else since.
  [[nodiscard]] bool moved() const noexcept { return moved_; }
  void move() noexcept { moved_ = true; }
  /// Ascending; none overlaps another.
  [[nodiscard]] std::vector<Written>& written() noexcept { return written_; }

  /// The captured bytes are those that the CPU sees from now on.
  void synced(std::uint64_t at, std::uint64_t len);
  /// Something else will stand there: compares with what @p now has, where that is not done.
  /// @param last nothing that comes later changes it
  void settle(const View& now, std::uint64_t at, std::uint64_t len, bool last);
  /// The same where the CPU sees what the device wrote.
  void settle_visible(const View& now, bool synced_too);
  /// Before @p bytes are put over what @p now has: what they change is settled.
  void changed(const View& now, std::uint64_t at, std::span<const std::byte> bytes);
  /// Its own memory as it was when it came back: what stood there before does not count.
  void reopen(std::uint64_t at, std::uint64_t len);
  /// Another one wrote there at the same time.
  void raced(std::uint64_t at, std::uint64_t len);

  [[nodiscard]] bool complete() const;
  /// Everything is settled.
  [[nodiscard]] SubmitResult compare() const;

 private:
  SubmitResult result_;
  std::uint64_t started_;
  std::uint64_t ended_;
  bool moved_ = false;
  std::vector<Written> written_;
};

}  // namespace rkchain::capture

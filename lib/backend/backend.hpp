// SPDX-License-Identifier: MIT
// The one virtual seam of the library: what a way to reach an NPU must offer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rkchain/device.hpp"
#include "rkchain/error.hpp"
#include "rkchain/selftest.hpp"

namespace rkchain {

/// Device memory as a back end hands it out.
struct BackendBuffer {
  std::uint64_t id = 0;
  std::byte* cpu = nullptr;
  std::uint32_t iova = 0;
  std::size_t size = 0;
};

/// How a registered chain uses a buffer.
struct BufferUse {
  std::uint64_t id = 0;
  bool read = false;
  bool write = false;
  bool sync = false;  ///< clean before and invalidate after each run
};

/// A chain as it is handed to a back end: wait layout, the interchange format.
struct ChainProgram {
  std::span<const std::uint64_t> words;
  std::uint32_t count = 0;  ///< S, blocks
  std::uint32_t stride = 110;
  std::uint32_t body = 108;
  bool link = false;
  /// One of the self-test's: laid out in this mode whatever the back end's is; its blocks may
  /// read what earlier ones wrote, what it signals is taken as it comes, and that it fails is
  /// not held against a core.  Not for kmod, which has chains of its own for that.
  std::optional<Mode> trial = std::nullopt;
};

struct SubmitRequest {
  std::span<const std::uint64_t> chains;  ///< ids; queued all or none
  std::uint32_t core_mask = 0;            ///< allowed cores, 0 = any
  std::optional<std::uint64_t> after;     ///< runs when all up to this sequence number ended
};

struct Completion {
  std::uint64_t sequence = 0;
  std::optional<Errc> error;  ///< nothing = success
  std::string detail;         ///< text for the error
  std::uint32_t core = 0;
  std::uint32_t retries = 0;
  std::uint64_t queued_ns = 0;
  std::uint64_t started_ns = 0;
  std::uint64_t done_ns = 0;
  std::uint64_t hw_ns = 0;  ///< time on the NPU, where the back end knows it
};

/// Thread-safe.  Ids are never reused.  Errors are thrown as rkchain::Error.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual DeviceInfo info() const = 0;
  [[nodiscard]] virtual DeviceStats stats() const = 0;

  virtual BackendBuffer create_buffer(std::size_t size) = 0;
  /// The memory goes when no registered chain holds it any more.
  virtual void destroy_buffer(std::uint64_t id) = 0;
  virtual void sync_buffer(std::uint64_t id, std::size_t offset, std::size_t size,
                           Direction direction) = 0;

  /// Recognises, checks and registers.
  /// @throws Error check_failed with reason, block and word; invalid_argument for ids.
  virtual std::uint64_t create_chain(const ChainProgram& program,
                                     std::span<const BufferUse> buffers) = 0;
  /// Running work finishes first.
  virtual void destroy_chain(std::uint64_t id) = 0;

  /// Queues without copying or checking.  @return the first sequence number; one per chain.
  /// @throws Error queue_full, invalid_argument.
  virtual std::uint64_t submit(const SubmitRequest& request) = 0;
  /// Waits for one sequence number; each completion is handed out once.
  /// @return nothing when the deadline passed.
  virtual std::optional<Completion> wait(std::uint64_t sequence,
                                         std::chrono::steady_clock::time_point deadline) = 0;

  /// As rkchain::self_test(), which has checked the options.
  /// @return results of all modes and cores that are asked for, ascending by mode, then core.
  virtual std::vector<SelfTestResult> self_test(const SelfTestOptions& options) = 0;
};

}  // namespace rkchain

// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rkchain/types.hpp"

#pragma GCC visibility push(default)

namespace rkchain {

class Backend;  // lib/backend/backend.hpp: the seam under the library

/// Which back end Device::open() takes.
enum class BackendKind : std::uint8_t {
  automatic,  ///< RKCHAIN_BACKEND if set, else kmod, else stock; never the model
  kmod,
  stock,
  model,
};
[[nodiscard]] std::string_view name(BackendKind kind) noexcept;

/// How the software NPU behaves.  The defaults are silicon as claimed.
struct ModelOptions {
  bool nowait = false;                  ///< op-enable bit 1 does not wait
  bool early = false;                   ///< completion after the last program's first block
  bool needs41 = false;                 ///< op-enable needs the arm marker
  bool late = false;                    ///< last output in memory only after completion
  bool rawlate = false;                 ///< output in memory only after the next block read
  std::uint32_t bad_cores = 0;          ///< mask of cores that compute wrongly
  std::uint32_t stuck_cores = 0;        ///< mask of cores that never finish
  std::uint32_t drop_every = 0;         ///< every n-th start is dropped; 0 = none
  bool cold = false;                    ///< the first write after power-on is lost
  std::optional<std::uint32_t> poison;  ///< pattern in CBUF and shadow registers before each chain
  bool plain = false;                   ///< the plain C MAC array instead of the vectorised one
};

struct OpenOptions {
  BackendKind backend = BackendKind::automatic;
  /// Model and stock; kmod has its own.  Nothing: wait on the model; on stock the best that
  /// the self-test has proven on this machine, else link, as the vendor's runtime does.
  std::optional<Mode> mode;
  std::uint32_t core_mask = 0;      ///< cores that may be used; 0 = all
  std::uint32_t queue_depth = 256;  ///< chains queued before queue_full
  ModelOptions model;
};

struct DeviceInfo {
  BackendKind backend = BackendKind::model;
  std::string driver;  ///< "software NPU", "rknpu 0.9.8", ...
  Mode mode = Mode::wait;
  std::uint32_t cores = 3;
  std::uint32_t usable_mask = 7;
  bool ordered = false;  ///< a block may read an earlier block's output
};

/// Work done so far.
struct CoreStats {
  std::uint64_t chains = 0;
  std::uint64_t blocks = 0;
  std::uint64_t macs = 0;
  std::uint64_t busy_ns = 0;  ///< virtual time on the model
};
struct DeviceStats {
  std::uint64_t submits = 0;  ///< submits to the NPU
  std::uint64_t interrupts = 0;
  std::uint64_t tasks = 0;
  std::uint64_t blocks = 0;
  CoreStats core[3];
};

enum class Direction : std::uint8_t { to_device, from_device };

/// Memory that CPU and NPU share.  Movable; the memory lives as long as the
/// Buffer or any registered chain that declares it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  ~Buffer();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept;
  template <typename T>
  [[nodiscard]] std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(bytes().data()), bytes().size() / sizeof(T)};
  }
  [[nodiscard]] std::size_t size() const noexcept;
  /// Address for the NPU, a multiple of 4096, below 4 GiB.
  [[nodiscard]] std::uint32_t iova() const noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return impl_ != nullptr; }
  /// Cache maintenance; a registered chain does it by itself for what it declares SYNC.
  void sync(Direction direction) const;

  struct [[gnu::visibility("hidden")]] Impl;
  explicit Buffer(std::shared_ptr<Impl> impl) noexcept;
  [[nodiscard]] const std::shared_ptr<Impl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// An open NPU.  Cheap to copy: copies share the same device.  Thread-safe.
class Device {
 public:
  /// Picks kmod, stock or (only when asked) the model.  Where options.backend is automatic,
  /// the environment decides: RKCHAIN_BACKEND = auto, kmod, stock or model.
  /// @throws Error no_device or permission with a text that says what to do; invalid_argument:
  ///   an unknown RKCHAIN_BACKEND, a core that does not exist, a queue depth of 0.
  static Device open(const OpenOptions& options = {});

  [[nodiscard]] DeviceInfo info() const;
  [[nodiscard]] DeviceStats stats() const;
  /// @param size bytes, at least 1 and below 4 GiB; contents are zero.
  /// @throws Error invalid_argument, out_of_memory.
  [[nodiscard]] Buffer allocate(std::size_t size) const;
  [[nodiscard]] Backend& backend() const noexcept { return *backend_; }
  [[nodiscard]] const std::shared_ptr<Backend>& share() const noexcept { return backend_; }

  explicit Device(std::shared_ptr<Backend> backend) noexcept : backend_(std::move(backend)) {}

 private:
  std::shared_ptr<Backend> backend_;
};

}  // namespace rkchain

#pragma GCC visibility pop

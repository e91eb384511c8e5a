// SPDX-License-Identifier: MIT
// The operating system as the back ends see it.  Tests play another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rkchain {

/// Calls that can fail return a negative errno.  All of them are thread-safe.
struct System {
  /// A device with a DRM node.
  struct DrmDevice {
    std::string node;                     ///< its render node, else its card node
    std::vector<std::string> compatible;  ///< of the device tree; empty where it has none
  };

  std::function<int(const std::string& path)> open;  ///< to read and write; returns a descriptor
  std::function<void(int fd)> close;
  std::function<int(int fd, unsigned long command, void* argument)> ioctl;  ///< again on EINTR
  /// The ioctl() of DRM nodes: again on EINTR and EAGAIN.
  std::function<int(int fd, unsigned long command, void* argument)> drm_ioctl;
  /// Maps shared memory to read and write.
  std::function<int(int fd, std::size_t size, std::uint64_t offset, std::byte*& memory)> map;
  std::function<void(std::byte* memory, std::size_t size)> unmap;
  std::function<std::vector<DrmDevice>()> drm_devices;
  std::function<std::string(int fd)> drm_driver;  ///< name of a DRM node's driver, else empty
  std::function<bool(const std::string& path)> exists;
  std::function<std::string(const std::string& path)> group;  ///< name of a file's, or empty
  std::function<std::optional<std::string>(const char* name)> environment;
  std::function<std::uint64_t()> now_ns;  ///< CLOCK_MONOTONIC
  /// A small file; nothing when it cannot be read.
  std::function<std::optional<std::string>(const std::string& path)> read;

  /// The one that we run on.
  static std::shared_ptr<const System> real();
};

/// @return what errno says, e.g. "Permission denied".
/// @param error a negative errno
[[nodiscard]] std::string error_text(int error);

/// A file descriptor that closes.
class Fd {
 public:
  Fd() = default;
  Fd(std::shared_ptr<const System> system, int fd) : system_(std::move(system)), fd_(fd) {}
  Fd(Fd&& other) noexcept : system_(std::move(other.system_)), fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(system_, other.system_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) system_->close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  std::shared_ptr<const System> system_;
  int fd_ = -1;
};

/// Shared memory that unmaps.
class Mapping {
 public:
  Mapping() = default;
  /// @throws Error out_of_memory when it cannot be mapped.
  Mapping(std::shared_ptr<const System> system, int fd, std::size_t size, std::uint64_t offset);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  [[nodiscard]] std::byte* memory() const noexcept { return memory_; }

 private:
  std::shared_ptr<const System> system_;
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace rkchain

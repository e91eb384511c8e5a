// SPDX-License-Identifier: MIT
// A node of the stock rknpu driver: how it is found, and its calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/system.hpp"
#include "rkchain/device.hpp"
#include "uapi/rknpu.h"

namespace rkchain {

/// Thread-safe.  Calls that return an int return 0 or a negative errno.
class RknpuNode {
 public:
  /// Finds the node of the RK3588's rknpu driver; RKCHAIN_DRM_NODE names one instead.
  /// @throws Error no_device, permission: what is missing, and who can do what about it.
  static std::shared_ptr<const RknpuNode> find(const std::shared_ptr<const System>& system);

  RknpuNode(std::shared_ptr<const System> system, std::string path, Fd fd);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] const std::shared_ptr<const System>& system() const noexcept { return system_; }

  /// @throws Error no_device
  [[nodiscard]] std::uint32_t driver_version() const;
  /// The IOMMU domain that the NPU is in: 0 unless a program has chosen another one, and 0 with
  /// drivers that know of none; or a negative errno.
  [[nodiscard]] std::int64_t iommu_domain() const;

  int create(rknpu_mem_create& memory) const;
  int map(rknpu_mem_map& memory) const { return call(RKNPU_IOCTL_MEM_MAP, &memory); }
  int destroy(rknpu_mem_destroy& memory) const { return call(RKNPU_IOCTL_MEM_DESTROY, &memory); }
  int sync(rknpu_mem_sync& range) const { return call(RKNPU_IOCTL_MEM_SYNC, &range); }
  int submit(rknpu_submit& submit) const { return call(RKNPU_IOCTL_SUBMIT, &submit); }

 private:
  int call(unsigned long command, void* argument) const {
    return system_->drm_ioctl(fd_.get(), command, argument);
  }
  void probe();

  std::shared_ptr<const System> system_;
  std::string path_;
  Fd fd_;
  unsigned long create_command_ = RKNPU_IOCTL_MEM_CREATE;
};

/// "0.9.8" for 908.
[[nodiscard]] std::string rknpu_version_text(std::uint32_t version);

/// Memory that the stock driver made, mapped.  Holds its node.
class RknpuBuffer {
 public:
  /// @param size bytes; whole pages are made of it
  /// @param flags RKNPU_MEM_*
  /// @throws Error out_of_memory; no_device.
  RknpuBuffer(std::shared_ptr<const RknpuNode> node, std::size_t size, std::uint32_t flags);
  RknpuBuffer(const RknpuBuffer&) = delete;
  RknpuBuffer& operator=(const RknpuBuffer&) = delete;
  ~RknpuBuffer();

  [[nodiscard]] std::byte* cpu() const noexcept { return mapping_->memory(); }
  [[nodiscard]] std::uint32_t iova() const noexcept { return iova_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// How the driver's other calls name it.
  [[nodiscard]] std::uint64_t object() const noexcept { return object_; }

  /// Cache maintenance of whole bytes [offset, offset + size).
  /// @throws Error io
  void sync(std::size_t offset, std::size_t size, Direction direction) const;
  void sync(Direction direction) const { sync(0, size_, direction); }

 private:
  std::shared_ptr<const RknpuNode> node_;
  std::size_t size_ = 0;
  std::uint32_t handle_ = 0;
  std::uint32_t iova_ = 0;
  std::uint64_t object_ = 0;
  std::optional<Mapping> mapping_;
};

}  // namespace rkchain

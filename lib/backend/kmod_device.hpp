// SPDX-License-Identifier: MIT
// The node of the module, /dev/rkchain: its calls, and what its refusals mean.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "backend/system.hpp"
#include "rkchain/error.hpp"
#include "uapi/rkchain.h"

namespace rkchain {

/// Thread-safe.
class KmodDevice {
 public:
  /// Opens /dev/rkchain; RKCHAIN_DEVICE names another node.
  /// @throws Error no_device, permission: what is missing, and who can do what about it.
  explicit KmodDevice(std::shared_ptr<const System> system);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const std::shared_ptr<const System>& system() const noexcept { return system_; }

  /// @return 0 or a negative errno.
  int call(unsigned long command, void* argument) const {
    return system_->ioctl(fd_.get(), command, argument);
  }
  /// @throws Error no_device
  [[nodiscard]] rkchain_query query() const;
  /// Names the stock driver for everyone.
  /// @param drm_fd an open node of rknpu
  /// @throws Error permission (root only), busy (there is one), no_device (not our rknpu).
  void provide(int drm_fd) const;
  /// Lets go of it.  @throws Error permission
  void release() const;

 private:
  std::shared_ptr<const System> system_;
  std::string path_;
  Fd fd_;
};

/// What a call of the module that failed says.
/// @param subject what was refused, e.g. "chain"
/// @param error a negative errno
[[nodiscard]] Error kmod_error(std::string_view subject, int error, const rkchain_report& report);

/// Names of capability bits, e.g. "CHAINS, AFTER".
[[nodiscard]] std::string capability_names(std::uint64_t bits);

}  // namespace rkchain

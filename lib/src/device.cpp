// SPDX-License-Identifier: MIT
#include "rkchain/device.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "backend/backend.hpp"
#include "backend/open.hpp"
#include "buffer.hpp"
#include "kmod/core/rotor.h"
#include "plan.hpp"
#include "rkchain/error.hpp"

namespace rkchain {
namespace {

BackendKind from_environment() {
  // Nothing in this library changes the environment.
  const char* const value = std::getenv("RKCHAIN_BACKEND");  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) return BackendKind::automatic;
  const std::string_view text = value;
  if (text.empty() || text == "auto") return BackendKind::automatic;
  for (const BackendKind kind : {BackendKind::kmod, BackendKind::stock, BackendKind::model}) {
    if (text == name(kind)) return kind;
  }
  throw Error(Errc::invalid_argument,
              fmt::format("RKCHAIN_BACKEND is \"{}\"; it can be auto, kmod, stock or model", text));
}

}  // namespace

std::string_view name(BackendKind kind) noexcept {
  switch (kind) {
    case BackendKind::automatic:
      return "auto";
    case BackendKind::kmod:
      return "kmod";
    case BackendKind::stock:
      return "stock";
    case BackendKind::model:
      return "model";
  }
  return "?";
}

Device Device::open(const OpenOptions& options) {
  if ((options.core_mask & ~RKC_CORES_ALL) != 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("core_mask is {:#x}; cores 0 to {} exist, so that the limit is {:#x}",
                            options.core_mask, RKC_CORES - 1, RKC_CORES_ALL));
  }
  detail::require_positive("Device::open", "queue_depth", options.queue_depth);
  const BackendKind kind =
      options.backend == BackendKind::automatic ? from_environment() : options.backend;
  return Device(open_backend(kind, options, System::real()));
}

DeviceInfo Device::info() const { return backend_->info(); }

DeviceStats Device::stats() const { return backend_->stats(); }

Buffer Device::allocate(std::size_t size) const {
  detail::require_positive("allocate", "size", size);
  if (size >= detail::kDeviceBytes) {
    throw Error(Errc::invalid_argument,
                fmt::format("allocate: size = {} does not fit into the {} bytes that the NPU "
                            "addresses",
                            size, detail::kDeviceBytes));
  }
  return Buffer(std::make_shared<Buffer::Impl>(backend_, size));
}

}  // namespace rkchain

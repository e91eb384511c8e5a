// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "rkchain/device.hpp"

namespace rkchain {

/// A back end's buffer and the reference that keeps the back end alive.
struct Buffer::Impl {
  Impl(std::shared_ptr<Backend> owner, std::size_t size)
      : backend(std::move(owner)), memory(backend->create_buffer(size)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  std::shared_ptr<Backend> backend;
  BackendBuffer memory;
};

}  // namespace rkchain

// SPDX-License-Identifier: MIT
#include "buffer.hpp"

#include <exception>
#include <utility>

namespace rkchain {

Buffer::Impl::~Impl() {
  try {
    backend->destroy_buffer(memory.id);
  } catch (const std::exception&) {
    // A device that has gone has taken its buffers along.
  }
}

Buffer::Buffer(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;
Buffer::~Buffer() = default;

std::span<std::byte> Buffer::bytes() const noexcept {
  if (!impl_) return {};
  return {impl_->memory.cpu, impl_->memory.size};
}

std::size_t Buffer::size() const noexcept { return impl_ ? impl_->memory.size : 0; }

std::uint32_t Buffer::iova() const noexcept { return impl_ ? impl_->memory.iova : 0; }

void Buffer::sync(Direction direction) const {
  if (impl_) impl_->backend->sync_buffer(impl_->memory.id, 0, impl_->memory.size, direction);
}

}  // namespace rkchain

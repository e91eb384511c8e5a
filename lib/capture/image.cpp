// SPDX-License-Identifier: MIT
#include "capture/image.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace rkchain::capture {

ProcessImage ProcessImage::fork() const {
  ProcessImage child = *this;
  child.moments_.clear();
  return child;
}

const HeldBuffer* ProcessImage::holding(std::uint64_t at, std::uint64_t len) const {
  const auto after = buffers_.upper_bound(at);
  if (after == buffers_.begin()) return nullptr;
  const HeldBuffer& buffer = std::prev(after)->second;
  const std::uint64_t offset = at - buffer.iova;
  return offset < buffer.size && len <= buffer.size - offset ? &buffer : nullptr;
}

const HeldBuffer* ProcessImage::by_obj(std::uint64_t obj) const {
  for (const auto& [iova, buffer] : buffers_)
    if (buffer.obj == obj) return &buffer;
  return nullptr;
}

const HeldBuffer* ProcessImage::by_handle(std::int32_t fd, std::uint32_t handle) const {
  const std::pair name(fd, handle);
  for (const auto& [iova, buffer] : buffers_)
    if (std::find(buffer.names.begin(), buffer.names.end(), name) != buffer.names.end())
      return &buffer;
  // The descriptor may be a copy of the one that the buffer was made with.
  const HeldBuffer* only = nullptr;
  for (const auto& [iova, buffer] : buffers_) {
    const bool named = std::any_of(buffer.names.begin(), buffer.names.end(),
                                   [&](const auto& other) { return other.second == handle; });
    if (named && only != nullptr) return nullptr;
    if (named) only = &buffer;
  }
  return only;
}

std::vector<const HeldBuffer*> ProcessImage::overlapping(std::uint64_t at,
                                                         std::uint64_t len) const {
  std::vector<const HeldBuffer*> found;
  auto it = buffers_.upper_bound(at);
  if (it != buffers_.begin()) --it;
  for (; it != buffers_.end() && (it->first <= at || it->first - at < len); ++it)
    if (it->first >= at || at - it->first < it->second.size) found.push_back(&it->second);
  return found;
}

bool ProcessImage::add(const Buffer& buffer) {
  if (buffer.size == 0 || buffer.size > std::numeric_limits<std::uint64_t>::max() - buffer.iova)
    return false;
  const auto same = buffers_.find(buffer.iova);
  if (buffer.existed != 0 && same != buffers_.end() && same->second.size == buffer.size) {
    auto& names = same->second.names;
    const std::pair name(buffer.fd, buffer.handle);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    if (buffer.obj != 0) same->second.obj = buffer.obj;
    return true;
  }
  std::vector<std::uint64_t> gone;
  for (const HeldBuffer* old : overlapping(buffer.iova, buffer.size)) gone.push_back(old->iova);
  for (const std::uint64_t iova : gone) remove(iova);
  buffers_.emplace(
      buffer.iova,
      HeldBuffer{buffer.iova, buffer.size, buffer.obj, buffer.flags, {{buffer.fd, buffer.handle}}});
  return true;
}

void ProcessImage::remove(std::uint64_t iova) {
  const auto found = buffers_.find(iova);
  if (found == buffers_.end()) return;
  keep(iova, found->second.size);
  pages_.forget(iova, found->second.size);
  device_.forget(iova, found->second.size);
  buffers_.erase(found);
}

void ProcessImage::keep(std::uint64_t at, std::uint64_t len) {
  if (moments_.empty() || len == 0) return;
  const std::uint64_t last = (at + len - 1) / page_bytes;
  pages_.each_page(at / page_bytes, last, [&](std::uint64_t number, const auto& page) {
    for (Moment* moment : moments_) moment->saved.emplace(number, page);
  });
}

void ProcessImage::put(std::uint64_t at, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  keep(at, bytes.size());
  // What is not known yet is so for a moment that has passed as well.
  for (std::uint64_t page = at / page_bytes; page <= (at + bytes.size() - 1) / page_bytes; page++)
    if (pages_.page(page) == nullptr)
      for (Moment* moment : moments_) moment->saved.emplace(page, nullptr);
  pages_.put(at, bytes);
}

}  // namespace rkchain::capture

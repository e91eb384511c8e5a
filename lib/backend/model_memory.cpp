// SPDX-License-Identifier: MIT
#include "backend/model_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "rkchain/error.hpp"

namespace rkchain {

namespace {

std::byte* inside(const ModelRegion& region, std::uint64_t iova, std::uint64_t len) {
  if (!region.mapped() || iova < region.iova()) {
    return nullptr;
  }
  const std::uint64_t offset = iova - region.iova();
  if (offset > region.size() || len > region.size() - offset) {
    return nullptr;
  }
  return region.cpu() + offset;
}

}  // namespace

/// The first address from @p from on with room for @p size bytes and a gap, 0 if none.
std::uint64_t IovaSpace::find(std::uint64_t from, std::uint64_t size) const {
  std::uint64_t at = from;
  for (auto it = taken_.lower_bound(from); it != taken_.end(); ++it) {
    if (at + size + kPage <= it->first) {
      return at;
    }
    at = it->second + kPage;
  }
  return at <= kEnd && size <= kEnd - at ? at : 0;
}

std::uint32_t IovaSpace::take(std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  // Going on from the last region first, so that an address that has been given back is not
  // used again soon: whoever still has it is found out.
  std::uint64_t at = find(next_, size);
  if (at == 0) {
    at = find(kBegin, size);
  }
  if (at == 0) {
    throw Error(Errc::out_of_memory,
                fmt::format("no {} bytes in one piece left of the NPU's address space, {:#x} to "
                            "{:#x}, of which {} bytes are in use",
                            size, kBegin, kEnd, used_));
  }
  taken_.emplace(at, at + size);
  used_ += size;
  next_ = at + size + kPage;
  return static_cast<std::uint32_t>(at);
}

void IovaSpace::give_back(std::uint32_t iova) noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = taken_.find(iova);
  used_ -= it->second - it->first;
  taken_.erase(it);
}

ModelRegion::ModelRegion(std::shared_ptr<IovaSpace> space, std::size_t size)
    : space_(std::move(space)),
      size_(size),
      whole_((size + IovaSpace::kPage - 1) / IovaSpace::kPage * IovaSpace::kPage),
      iova_(space_->take(whole_)) {
  void* memory = mmap(nullptr, whole_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    space_->give_back(iova_);
    throw Error(Errc::out_of_memory, fmt::format("no host memory for {} bytes", whole_));
  }
  cpu_ = static_cast<std::byte*>(memory);
}

ModelRegion::~ModelRegion() {
  munmap(cpu_, whole_);
  space_->give_back(iova_);
}

void ModelView::add(std::shared_ptr<ModelRegion> region, bool read, bool write) {
  const auto at = std::upper_bound(
      declared_.begin(), declared_.end(), region->iova(),
      [](std::uint32_t iova, const Declared& declared) { return iova < declared.region->iova(); });
  declared_.insert(at, {std::move(region), read, write});
}

std::byte* ModelView::map(npu_access access, std::uint64_t iova, std::uint64_t len) const {
  if (access == NPU_FETCH) {
    return program_ ? inside(*program_, iova, len) : nullptr;
  }
  const auto after = std::upper_bound(declared_.begin(), declared_.end(), iova,
                                      [](std::uint64_t address, const Declared& declared) {
                                        return address < declared.region->iova();
                                      });
  if (after == declared_.begin()) {
    return nullptr;
  }
  const Declared& declared = *std::prev(after);
  const bool allowed = access == NPU_OUTPUT ? declared.write : declared.read;
  return allowed ? inside(*declared.region, iova, len) : nullptr;
}

}  // namespace rkchain

// SPDX-License-Identifier: MIT
// The device memory of one captured process, as far as the file has told of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "capture/pages.hpp"
#include "capture/record.hpp"

namespace rkchain::capture {

struct HeldBuffer {
  std::uint64_t iova = 0;
  std::uint64_t size = 0;
  std::uint64_t obj = 0;
  std::uint32_t flags = 0;
  std::vector<std::pair<std::int32_t, std::uint32_t>> names;  ///< descriptor and handle
};

/// A submit keeps the memory that it found, whatever comes before it ends.
struct Moment {
  SavedPages saved;  ///< pages that have changed since
};

class ProcessImage {
 public:
  explicit ProcessImage(const std::shared_ptr<Budget>& budget) : pages_(budget), device_(budget) {}
  /// A fork: the same buffers and memory, and no submit under way.
  [[nodiscard]] ProcessImage fork() const;

  /// @return the buffer of which all of that is part, or nullptr.
  [[nodiscard]] const HeldBuffer* holding(std::uint64_t at, std::uint64_t len) const;
  [[nodiscard]] const HeldBuffer* by_obj(std::uint64_t obj) const;
  [[nodiscard]] const HeldBuffer* by_handle(std::int32_t fd, std::uint32_t handle) const;
  /// Buffers that have any of these bytes.
  [[nodiscard]] std::vector<const HeldBuffer*> overlapping(std::uint64_t at,
                                                           std::uint64_t len) const;

  /// What was at those addresses is gone, but for another name of the same buffer.
  /// @return false when the buffer would not fit 64 bits
  bool add(const Buffer& buffer);
  void remove(std::uint64_t iova);

  /// What the CPU sees.
  void put(std::uint64_t at, std::span<const std::byte> bytes);
  [[nodiscard]] View now() const { return {{}, nullptr, &pages_}; }

  /// What the device wrote to cached memory that nobody has synced, so that the CPU does not.
  [[nodiscard]] Pages& device() noexcept { return device_; }

  void watch(Moment* moment) { moments_.push_back(moment); }
  void unwatch(Moment* moment) { std::erase(moments_, moment); }
  /// What the device found at that moment.
  [[nodiscard]] View at(const Moment& moment) const { return {{&device_}, &moment.saved, &pages_}; }
  /// What the CPU saw then.
  [[nodiscard]] View at_cpu(const Moment& moment) const { return {{}, &moment.saved, &pages_}; }

 private:
  void keep(std::uint64_t at, std::uint64_t len);

  std::map<std::uint64_t, HeldBuffer> buffers_;  ///< by address, none overlaps another
  Pages pages_;
  Pages device_;
  std::vector<Moment*> moments_;
};

}  // namespace rkchain::capture

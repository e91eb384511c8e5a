// SPDX-License-Identifier: MIT
// What a back end has handed out, by id.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "rkchain/error.hpp"

namespace rkchain {

/// Shared things by their ids.  Thread-safe, and nothing ends under its lock: the end of a buffer
/// may be a call of a driver.
template <typename T>
class IdTable {
 public:
  /// @param what they are, for errors: "buffer", "chain"
  explicit IdTable(std::string_view what) : what_(what) {}

  /// @param id one that has never been there
  void add(std::uint64_t id, std::shared_ptr<T> thing) {
    const std::lock_guard lock(mutex_);
    table_.emplace(id, std::move(thing));
  }

  /// @throws Error invalid_argument
  [[nodiscard]] std::shared_ptr<T> get(std::uint64_t id) const {
    const std::lock_guard lock(mutex_);
    const auto it = table_.find(id);
    if (it == table_.end()) throw missing(id);
    return it->second;
  }

  /// Forgets it.
  /// @throws Error invalid_argument
  std::shared_ptr<T> take(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    auto node = table_.extract(id);
    if (!node) throw missing(id);
    return std::move(node.mapped());
  }

 private:
  [[nodiscard]] Error missing(std::uint64_t id) const {
    return {Errc::invalid_argument, fmt::format("no {} has the id {}", what_, id)};
  }

  const std::string_view what_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<T>> table_;
};

}  // namespace rkchain

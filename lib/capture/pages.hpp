// SPDX-License-Identifier: MIT
// Memory of which only parts are known: what a capture says of the NPU's address space.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

namespace rkchain::capture {

/// The captured memory is more than what may be held.
class TooLarge : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How many bytes are held, of how many that may be.
class Budget {
 public:
  explicit Budget(std::uint64_t limit) : limit_(limit) {}
  /// @throws TooLarge naming the limit.
  void take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes) noexcept { used_ -= bytes; }
  [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }

 private:
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
};

/// Taken from a budget as long as it lives.
class Share {
 public:
  Share(std::shared_ptr<Budget> budget, std::uint64_t bytes);
  Share(const Share& other) : Share(other.budget_, other.bytes_) {}
  Share& operator=(const Share&) = delete;
  ~Share() { budget_->give_back(bytes_); }

 private:
  std::shared_ptr<Budget> budget_;
  std::uint64_t bytes_;
};

inline constexpr std::uint64_t page_bytes = 4096;

struct Page {
  explicit Page(const std::shared_ptr<Budget>& budget) : share(budget, sizeof(Page)) {}
  std::array<std::byte, page_bytes> data{};
  std::bitset<page_bytes> known;
  Share share;
};

/// Sparse bytes by address.  Copies share their pages until one of them is written.
class Pages {
 public:
  explicit Pages(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}

  /// @throws TooLarge.
  void put(std::uint64_t at, std::span<const std::byte> bytes);
  void forget(std::uint64_t at, std::uint64_t len);
  void clear() { pages_.clear(); }
  [[nodiscard]] bool empty() const noexcept { return pages_.empty(); }
  /// @return nullptr where nothing of it is known.
  [[nodiscard]] std::shared_ptr<const Page> page(std::uint64_t number) const;
  /// Those of pages @p first to @p last that are there.
  void each_page(
      std::uint64_t first, std::uint64_t last,
      const std::function<void(std::uint64_t, const std::shared_ptr<const Page>&)>& visit) const;
  /// Known bytes without gaps, ascending; a run ends where a page does.
  void each_run(const std::function<void(std::uint64_t, std::span<const std::byte>)>& run) const;
  [[nodiscard]] const std::shared_ptr<Budget>& budget() const noexcept { return budget_; }

 private:
  Page& writable(std::uint64_t number);

  std::shared_ptr<Budget> budget_;
  std::map<std::uint64_t, std::shared_ptr<Page>> pages_;
};

/// Pages as they were at some moment; nullptr: not known then.
using SavedPages = std::map<std::uint64_t, std::shared_ptr<const Page>>;

/// Layers of memory, the first one that knows a byte gives it.
struct View {
  std::vector<const Pages*> over;
  const SavedPages* saved = nullptr;  ///< instead of pages of @ref base
  const Pages* base = nullptr;

  /// @return the first address of it that no layer knows.
  [[nodiscard]] std::optional<std::uint64_t> unknown(std::uint64_t at, std::uint64_t len) const;
  /// What is not known is 0.
  /// @param known set to 1 or 0 for each byte, unless it is empty
  void read(std::uint64_t at, std::span<std::byte> to, std::span<std::uint8_t> known = {}) const;

 private:
  [[nodiscard]] std::vector<std::shared_ptr<const Page>> layers(std::uint64_t number) const;
};

}  // namespace rkchain::capture

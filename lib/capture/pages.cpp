// SPDX-License-Identifier: MIT
#include "capture/pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace rkchain::capture {

namespace {

/// Calls part(page, offset in it, bytes, offset from @p at) until it returns false.
template <typename Part>
void each_part(std::uint64_t at, std::uint64_t len, const Part& part) {
  for (std::uint64_t done = 0; done < len;) {
    const std::uint64_t offset = (at + done) % page_bytes;
    const std::uint64_t size = std::min(len - done, page_bytes - offset);
    if (!part((at + done) / page_bytes, offset, size, done)) return;
    done += size;
  }
}

}  // namespace

void Budget::take(std::uint64_t bytes) {
  if (bytes > limit_ - used_)
    throw TooLarge(fmt::format(
        "more memory than the limit of {} bytes would have to be held (--limit-bytes)", limit_));
  used_ += bytes;
}

Share::Share(std::shared_ptr<Budget> budget, std::uint64_t bytes)
    : budget_(std::move(budget)), bytes_(bytes) {
  budget_->take(bytes);
}

Page& Pages::writable(std::uint64_t number) {
  auto& page = pages_[number];
  if (!page)
    page = std::make_shared<Page>(budget_);
  else if (page.use_count() > 1)
    page = std::make_shared<Page>(*page);
  return *page;
}

void Pages::put(std::uint64_t at, std::span<const std::byte> bytes) {
  each_part(at, bytes.size(), [&](auto number, auto offset, auto size, auto done) {
    Page& page = writable(number);
    std::memcpy(page.data.data() + offset, bytes.data() + done, size);
    if (size == page_bytes)
      page.known.set();
    else
      for (std::uint64_t i = offset; i < offset + size; i++) page.known.set(i);
    return true;
  });
}

void Pages::forget(std::uint64_t at, std::uint64_t len) {
  if (len == 0) return;
  const std::uint64_t last = (at + len - 1) / page_bytes;
  for (auto it = pages_.lower_bound(at / page_bytes); it != pages_.end() && it->first <= last;) {
    const std::uint64_t start = it->first * page_bytes;
    const std::uint64_t from = std::max(start, at) - start;
    const std::uint64_t to = std::min(page_bytes - 1, at + len - 1 - start);
    if (from == 0 && to == page_bytes - 1) {
      it = pages_.erase(it);
      continue;
    }
    Page& page = writable(it->first);
    for (std::uint64_t i = from; i <= to; i++) page.known.reset(i);
    ++it;
  }
}

std::shared_ptr<const Page> Pages::page(std::uint64_t number) const {
  const auto found = pages_.find(number);
  return found == pages_.end() ? nullptr : found->second;
}

void Pages::each_page(
    std::uint64_t first, std::uint64_t last,
    const std::function<void(std::uint64_t, const std::shared_ptr<const Page>&)>& visit) const {
  for (auto it = pages_.lower_bound(first); it != pages_.end() && it->first <= last; ++it)
    visit(it->first, it->second);
}

void Pages::each_run(
    const std::function<void(std::uint64_t, std::span<const std::byte>)>& run) const {
  for (const auto& [number, page] : pages_) {
    for (std::uint64_t i = 0; i < page_bytes;) {
      std::uint64_t end = i;
      while (end < page_bytes && page->known[end]) end++;
      if (end > i) run(number * page_bytes + i, std::span(page->data).subspan(i, end - i));
      i = end + 1;
    }
  }
}

std::vector<std::shared_ptr<const Page>> View::layers(std::uint64_t number) const {
  std::vector<std::shared_ptr<const Page>> found;
  for (const Pages* pages : over)
    if (auto page = pages->page(number)) found.push_back(std::move(page));
  const auto old = saved != nullptr ? saved->find(number) : SavedPages::const_iterator{};
  auto page = saved != nullptr && old != saved->end() ? old->second
              : base != nullptr                       ? base->page(number)
                                                      : nullptr;
  if (page) found.push_back(std::move(page));
  return found;
}

std::optional<std::uint64_t> View::unknown(std::uint64_t at, std::uint64_t len) const {
  std::optional<std::uint64_t> result;
  each_part(at, len, [&](auto number, auto offset, auto size, auto done) {
    const auto found = layers(number);
    std::bitset<page_bytes> known;
    for (const auto& page : found) known |= page->known;
    if (known.all()) return true;
    for (std::uint64_t i = 0; i < size; i++)
      if (!known[offset + i]) {
        result = at + done + i;
        return false;
      }
    return true;
  });
  return result;
}

void View::read(std::uint64_t at, std::span<std::byte> to, std::span<std::uint8_t> known) const {
  each_part(at, to.size(), [&](auto number, auto offset, auto size, auto done) {
    const auto found = layers(number);
    if (!found.empty() && found.front()->known.all()) {
      std::memcpy(to.data() + done, found.front()->data.data() + offset, size);
      if (!known.empty()) std::fill_n(known.begin() + done, size, std::uint8_t{1});
      return true;
    }
    for (std::uint64_t i = 0; i < size; i++) {
      const auto has = std::find_if(found.begin(), found.end(),
                                    [&](const auto& page) { return page->known[offset + i]; });
      to[done + i] = has == found.end() ? std::byte{0} : (*has)->data[offset + i];
      if (!known.empty()) known[done + i] = has == found.end() ? 0 : 1;
    }
    return true;
  });
}

}  // namespace rkchain::capture

// SPDX-License-Identifier: MIT
//
// What the fuzzers share: the input as a stream of choices, and how a broken property ends a run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "kmod/core/chain.h"
#include "kmod/core/matmul.h"

namespace rkchain::fuzz {

/// A property that does not hold: says which one, and stops, so that libFuzzer keeps the input.
inline void require(bool holds, const char* property) {
  if (!holds) {
    std::fprintf(stderr, "BROKEN: %s\n", property);
    std::abort();
  }
}

/// Reads the input front to back.  Behind its end everything is 0, so every input means something.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}

  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

  u8 byte() { return at_ == end_ ? 0 : *at_++; }
  u16 half() {
    const u16 low = byte();
    return static_cast<u16>(low | byte() << 8);
  }
  u32 word() {
    const u32 low = half();
    return low | u32{half()} << 16;
  }
  u64 entry() {
    const u64 low = word();
    return low | u64{word()} << 32;
  }

  /// 0 .. n - 1; takes one byte, or two when n does not fit one.
  u32 below(u32 n) { return (n > 256 ? u32{half()} : u32{byte()}) % n; }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

/// Words in a heap block of exactly their size: the sanitizer sees every step beyond it.
class Words {
 public:
  explicit Words(std::size_t count) : count_(count), words_(new u64[count]()) {}
  explicit Words(const std::vector<u64>& from) : Words(from.size()) {
    std::copy(from.begin(), from.end(), words_.get());
  }

  [[nodiscard]] u64* data() const { return words_.get(); }
  [[nodiscard]] std::size_t size() const { return count_; }
  u64& operator[](std::size_t i) const { return words_[i]; }

  bool operator==(const Words& other) const {
    return count_ == other.count_ &&
           std::equal(words_.get(), words_.get() + count_, other.words_.get());
  }

 private:
  std::size_t count_;
  std::unique_ptr<u64[]> words_;
};

inline bool same(const rkc_matmul& x, const rkc_matmul& y) {
  return std::memcmp(&x, &y, sizeof(x)) == 0;
}

/// What rkc_err holds before a call, so that a refusal that forgets to fill it is seen.
inline rkc_err unset() { return {0xabad1dea, 0xabad1dea, 0xabad1dea, 0xabad1dea, 0, 0}; }

/// @param words of the block; 0 where no word can be meant
inline void require_refusal(u32 ret, const rkc_err& err, u32 block, u64 words) {
  require(ret != RKC_OK && err.reason == ret, "a refusal fills in its reason");
  require(std::strcmp(rkc_reason_name(ret), "UNKNOWN") != 0, "a reason has a name");
  require(err.block == block, "a refusal names its block");
  require(err.word == RKC_NO_WORD || err.word < words, "a refusal names a word of its block");
  require(err.reg <= 0xffff, "a refusal names a register");
}

/// The block, once more with a recogniser that has seen nothing: the same in every respect.
inline void require_no_memory(const rkc_program& p, u32 i, u32 ret, const rkc_matmul& d,
                              const rkc_err& err) {
  const auto fresh = std::make_unique<rkc_recogniser>();
  rkc_matmul d2{};
  rkc_err err2 = unset();
  require(rkc_program_block(fresh.get(), &p, i, &d2, &err2) == ret,
          "what was recognised before does not change the verdict");
  if (ret == RKC_OK) {
    require(same(d, d2), "what was recognised before does not change the descriptor");
  } else {
    require(std::memcmp(&err, &err2, sizeof(err)) == 0,
            "what was recognised before does not change the refusal");
  }
}

/// What has been accepted is within all limits, and is what our own program for it is taken for.
inline void require_inverse(rkc_recogniser* r, const rkc_matmul& d) {
  require(rkc_matmul_check(&d, nullptr) == RKC_OK, "what was accepted is within the limits");
  const Words words(RKC_FULL_WORDS);
  require(rkc_chain_emit(RKC_SINGLE, &d, 1, 0, words.data(), nullptr) == RKC_OK,
          "what was accepted can be emitted");
  for (const u32 total : {RKC_BODY_WORDS, RKC_FULL_WORDS}) {
    rkc_matmul again{};
    require(rkc_recognise(r, words.data(), RKC_BODY_WORDS, total, false, &again, nullptr) == RKC_OK,
            "what we emit is accepted");
    require(same(d, again), "what we emit is recognised as itself");
  }
}

}  // namespace rkchain::fuzz

// SPDX-License-Identifier: MIT
#include "backend/checked_chain.hpp"

#include <fmt/format.h>

#include "rkchain/error.hpp"
#include "src/format.hpp"

namespace rkchain {
namespace {

[[noreturn]] void refuse(const rkc_err& err) { throw detail::refusal(err, "chain"); }

}  // namespace

CheckedChain::CheckedChain(const ChainProgram& program, std::span<const rkc_buf> buffers, Mode mode,
                           bool ordered)
    : mode_(static_cast<std::uint32_t>(mode)) {
  const rkc_program given{program.words.data(), program.words.size(), program.count,
                          program.stride,       program.body,         program.link};
  rkc_err err{};
  if (rkc_program_shape(&given, &err) != RKC_OK) {
    refuse(err);
  }
  // Registered chains fit every mode, whatever layout they came in.
  if (program.count > RKC_WAIT_MAX) {
    rkc_refuse(&err, RKC_TOO_LONG, RKC_NO_WORD, 0, program.count, RKC_WAIT_MAX);
    refuse(err);
  }

  blocks_.resize(program.count);
  rkc_recogniser recogniser{};
  for (std::uint32_t i = 0; i < program.count; ++i) {
    rkc_matmul& block = blocks_[i];
    if (rkc_program_block(&recogniser, &given, i, &block, &err) != RKC_OK) {
      refuse(err);
    }
    macs_[rkc_in_bytes(block.type) - 1] += std::uint64_t{block.m} * block.k * block.n;
  }

  const auto count = static_cast<std::uint32_t>(buffers.size());
  if (rkc_bufs_check(buffers.data(), count, &err) != RKC_OK ||
      rkc_chain_check(blocks_.data(), program.count, buffers.data(), count, ordered, &checked_,
                      &err) != RKC_OK ||
      rkc_chain_measure(mode_, program.count, &measure_, &err) != RKC_OK) {
    refuse(err);
  }
}

void CheckedChain::emit(std::uint64_t iova, std::uint64_t* words) const {
  rkc_err err{};
  if (rkc_chain_emit(mode_, blocks_.data(), blocks(), iova, words, &err) != RKC_OK) {
    refuse(err);
  }
}

void require_mode(Mode mode) {
  if (static_cast<std::uint32_t>(mode) >= RKC_MODES) {
    throw Error(Errc::invalid_argument, fmt::format("mode {} is none of the {} modes",
                                                    static_cast<std::uint32_t>(mode), +RKC_MODES));
  }
}

void require_buffer_size(std::size_t size) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  if (size == 0 || size > kMost) {
    throw Error(Errc::invalid_argument,
                fmt::format("a buffer of {} bytes: 1 to {} are possible", size, kMost));
  }
}

void require_range(std::size_t offset, std::size_t size, std::size_t whole) {
  if (offset > whole || size > whole - offset) {
    throw Error(Errc::invalid_argument,
                fmt::format("bytes {} to {} of a buffer of {}", offset, offset + size, whole));
  }
}

}  // namespace rkchain

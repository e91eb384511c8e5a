// SPDX-License-Identifier: MIT
// A back end with one chain of int8 matmuls: 4 x 64 x 32, each with its own operands.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "backend/model_backend.hpp"
#include "gate.hpp"
#include "kmod/core/chain.h"

namespace rkchain::test {

template <typename Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {Errc::bad_format, ""};
}

inline std::shared_ptr<Backend> open_model(Mode mode = Mode::wait, const ModelOptions& model = {},
                                           ModelHooks hooks = {}) {
  OpenOptions options;
  options.mode = mode;
  options.model = model;
  return make_model_backend(options, std::move(hooks));
}

inline std::uint64_t submit(Backend& backend, std::uint64_t chain, std::uint32_t mask = 0,
                            std::optional<std::uint64_t> after = std::nullopt) {
  return backend.submit({{&chain, 1}, mask, after});
}

inline Completion finish(Backend& backend, std::uint64_t sequence) {
  auto done = backend.wait(sequence, std::chrono::steady_clock::now() + kLimit);
  if (!done) throw std::runtime_error("time limit");
  return *done;
}

inline Completion run(Backend& backend, std::uint64_t chain, std::uint32_t mask = 0) {
  return finish(backend, submit(backend, chain, mask));
}

class Rig {
 public:
  static constexpr std::uint32_t kM = 4;
  static constexpr std::uint32_t kK = 64;
  static constexpr std::uint32_t kN = 32;
  static constexpr std::uint32_t kA = kM * kK;
  static constexpr std::uint32_t kB = kK * kN;
  static constexpr std::uint32_t kC = kM * kN * 4;

  Rig(std::shared_ptr<Backend> backend, std::uint32_t count, unsigned seed = 1)
      : backend_(std::move(backend)),
        a_(backend_->create_buffer(std::size_t{count} * kA)),
        b_(backend_->create_buffer(std::size_t{count} * kB)),
        c_(backend_->create_buffer(std::size_t{count} * kC)) {
    std::mt19937 rng(seed);
    for (const auto* buffer : {&a_, &b_}) {
      std::generate_n(buffer->cpu, buffer->size, [&] { return static_cast<std::byte>(rng()); });
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      rkc_matmul d{};
      d.type = RKC_I8_I32;
      d.layout = RKC_FLAT;
      d.m = kM;
      d.k = kK;
      d.n = kN;
      d.m_total = kM;
      d.a = a_.iova + i * kA;
      d.b = b_.iova + i * kB;
      d.c = c_.iova + i * kC;
      blocks.push_back(d);
    }
  }

  /// The program in the interchange format.
  [[nodiscard]] std::vector<std::uint64_t> words() const {
    rkc_measure measure{};
    rkc_err err{};
    const auto count = static_cast<std::uint32_t>(blocks.size());
    std::vector<u64> words;
    if (rkc_chain_measure(RKC_WAIT, count, &measure, &err) == RKC_OK) {
      words.resize(measure.words);
      rkc_chain_emit(RKC_WAIT, blocks.data(), count, 0, words.data(), &err);
    }
    EXPECT_EQ(err.reason, RKC_OK);
    return {words.begin(), words.end()};
  }

  [[nodiscard]] std::vector<BufferUse> uses() const {
    return {{a_.id, true, false, true}, {b_.id, true, false, false}, {c_.id, false, true, true}};
  }

  [[nodiscard]] std::uint64_t create() const { return create(words(), uses()); }
  [[nodiscard]] std::uint64_t create(const std::vector<std::uint64_t>& words,
                                     const std::vector<BufferUse>& uses) const {
    ChainProgram program;
    program.words = words;
    program.count = static_cast<std::uint32_t>(blocks.size());
    return backend_->create_chain(program, uses);
  }

  [[nodiscard]] std::vector<std::int32_t> output() const {
    std::vector<std::int32_t> values(c_.size / 4);
    std::memcpy(values.data(), c_.cpu, c_.size);
    return values;
  }
  void clear() const { std::fill_n(c_.cpu, c_.size, std::byte{0}); }

  /// What the chain has to leave in C, computed from the definition.
  [[nodiscard]] std::vector<std::int32_t> expected() const {
    std::vector<std::int32_t> values;
    const auto* a = reinterpret_cast<const std::int8_t*>(a_.cpu);
    const auto* b = reinterpret_cast<const std::int8_t*>(b_.cpu);
    for (std::size_t i = 0; i < blocks.size(); ++i, a += kA, b += kB) {
      for (std::uint32_t m = 0; m < kM; ++m) {
        for (std::uint32_t n = 0; n < kN; ++n) {
          std::int32_t sum = 0;
          for (std::uint32_t k = 0; k < kK; ++k) {
            sum += a[m * kK + k] * b[k / 32 * 32 * 32 + n * 32 + k % 32];
          }
          values.push_back(sum);
        }
      }
    }
    return values;
  }

  [[nodiscard]] Backend& backend() const { return *backend_; }
  [[nodiscard]] const BackendBuffer& a() const { return a_; }
  [[nodiscard]] const BackendBuffer& b() const { return b_; }
  [[nodiscard]] const BackendBuffer& c() const { return c_; }

  std::vector<rkc_matmul> blocks;

 private:
  std::shared_ptr<Backend> backend_;
  BackendBuffer a_;
  BackendBuffer b_;
  BackendBuffer c_;
};

}  // namespace rkchain::test

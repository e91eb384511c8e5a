// SPDX-License-Identifier: MIT
// What a Chain is inside.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "plan.hpp"
#include "rkchain/chain.hpp"
#include "rkchain/device.hpp"
#include "weights.hpp"

namespace rkchain {
namespace detail {

class Run;

/// A chain that a back end has registered; unregisters it.
class RegisteredChain {
 public:
  RegisteredChain(std::shared_ptr<Backend> backend, const ChainProgram& program,
                  std::span<const BufferUse> buffers)
      : backend_(std::move(backend)), id_(backend_->create_chain(program, buffers)) {}
  RegisteredChain(RegisteredChain&&) noexcept = default;
  RegisteredChain& operator=(RegisteredChain&&) = delete;
  ~RegisteredChain();

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 private:
  std::shared_ptr<Backend> backend_;
  std::uint64_t id_;
};

/// The part of a chain that is queued as one.
struct Segment {
  RegisteredChain chain;
  std::uint32_t level = 0;  ///< starts when all segments of lower levels have ended
  std::uint32_t lane = 0;   ///< segments of one lane share a core, where lanes count at all
  std::string text;         ///< which one it is, for messages
};

/// One buffer for each way that the NPU uses tensors, so that each is declared as it is used.
enum class Arena : std::uint8_t { inputs, results, between };
inline constexpr std::size_t kArenas = 3;

/// An operand or a result.
struct Item {
  Type type = Type::i8_i32;
  Shape shape;
  // Results only:
  std::shared_ptr<const Weights::Impl> weights;
  std::uint32_t source = 0;  ///< item that is its operand
  std::uint32_t matmul = 0;  ///< counts results
  std::uint32_t level = 0;   ///< longest way back to an input
  bool fed_on = false;
  MatmulPlan plan;
  // Since build():
  Arena arena = Arena::inputs;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  [[nodiscard]] bool is_result() const noexcept { return weights != nullptr; }
};

}  // namespace detail

struct Chain::Impl {
  enum class Outcome : std::uint8_t { never_run, running, done, failed };

  Impl(const Device& on, const ChainOptions& with) : device(on), options(with) {}

  void build();
  [[nodiscard]] const detail::Item& item(std::string_view what, Tensor t) const;

  /// Makes @p run the one that is in flight.
  /// @throws Error busy when another one is.
  void claim(const std::shared_ptr<detail::Run>& run);
  void set_outcome(Outcome value);
  /// @throws Error busy while a run is in flight.  @return how the last run ended.
  [[nodiscard]] Outcome require_idle(std::string_view what);

  /// Memory of @p bytes bytes at @p offset within an item.
  [[nodiscard]] std::byte* memory(const detail::Item& item, std::uint64_t offset) const {
    return arenas[static_cast<std::size_t>(item.arena)].bytes().data() + item.offset + offset;
  }

  Device device;
  ChainOptions options;
  std::vector<detail::Item> items;
  std::array<Buffer, detail::kArenas> arenas;
  std::vector<detail::Segment> segments;
  ChainPlan plan;
  std::uint32_t matmuls = 0;
  bool pinned = false;  ///< lanes are cores
  bool built = false;

 private:
  std::mutex mutex_;
  std::weak_ptr<detail::Run> current_;
  Outcome outcome_ = Outcome::never_run;
};

}  // namespace rkchain

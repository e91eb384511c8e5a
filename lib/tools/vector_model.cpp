// SPDX-License-Identifier: MIT
#include "tools/vector_model.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <memory>
#include <new>

#include "kmod/core/chain.h"
#include "lib/model/npu.h"
#include "tools/reference.hpp"

namespace rkchain::tool {
namespace {

/// The NPU's memory, as pieces that may only be used for what they are there for: so a program
/// that mixes up its addresses is a DMA error even where the file's pieces overlap.
class Memory {
 public:
  void add(npu_access access, std::uint64_t iova, std::vector<std::uint8_t>& bytes) {
    pieces_.push_back({access, iova, bytes});
  }

  static void* map(void* context, npu_access access, u64 iova, u64 size) {
    for (const Piece& piece : static_cast<Memory*>(context)->pieces_) {
      const std::uint64_t held = piece.bytes.size();
      if (piece.access == access && iova >= piece.iova && size <= held &&
          iova - piece.iova <= held - size)
        return piece.bytes.data() + (iova - piece.iova);
    }
    return nullptr;
  }

 private:
  struct Piece {
    npu_access access;
    std::uint64_t iova;
    std::vector<std::uint8_t>& bytes;
  };
  std::vector<Piece> pieces_;
};

class Core {
 public:
  explicit Core(const npu_ops& ops)
      : memory_(
            std::make_unique<std::max_align_t[]>(npu_core_size() / sizeof(std::max_align_t) + 1)) {
    npu_init(get(), 0, &ops);
  }
  [[nodiscard]] npu_core* get() { return reinterpret_cast<npu_core*>(memory_.get()); }

 private:
  std::unique_ptr<std::max_align_t[]> memory_;
};

std::vector<std::uint8_t> little_endian(const std::vector<std::uint64_t>& words) {
  std::vector<std::uint8_t> bytes(8 * words.size());
  for (std::size_t i = 0; i < bytes.size(); i++)
    bytes[i] = static_cast<std::uint8_t>(words[i / 8] >> 8 * (i % 8));
  return bytes;
}

/// A place for what the file does not have: a window that none of its pieces comes near.
std::uint64_t free_window(const Vector& vector, std::uint64_t size) {
  rkc_extents extents{};
  rkc_matmul_extents(&vector.matmul, &extents);
  for (const std::uint64_t base : {0x10000000ULL, 0x40000000ULL, 0x70000000ULL, 0xa0000000ULL}) {
    bool taken = false;
    for (const rkc_extent& x : {extents.a, extents.b, extents.c})
      taken = taken || (x.start < base + size && base < x.start + x.len);
    if (!taken) return base;
  }
  // Pieces of different kinds may overlap: see Memory.
  return 0x10000000;
}

/// Blocks of changing row counts that run before the file's program.
class Earlier {
 public:
  static constexpr std::uint32_t k = 64, n = 64, heights = 3;
  static constexpr std::uint64_t window = 0x10000;

  explicit Earlier(std::uint64_t base) : base_(base) {
    Random random(base);
    const auto a = random.bytes(std::size_t{heights} * k, -128, 127);
    const auto b = random.bytes(std::size_t{n} * k, -128, 127);
    a_.assign(a.begin(), a.end());
    b_.resize(b.size());
    for (std::uint32_t column = 0; column < n; column++)
      for (std::uint32_t row = 0; row < k; row++)
        b_[packed_index(k, 32, row, column)] =
            static_cast<std::uint8_t>(b[std::size_t{column} * k + row]);
    for (std::uint32_t m = 1; m <= heights; m++) {
      std::vector<std::int32_t> want(std::size_t{m} * n);
      reference_i8({m, k, n}, a, b, want);
      auto& bytes = want_[m - 1];
      for (const std::int32_t value : want)
        for (int shift = 0; shift < 32; shift += 8)
          bytes.push_back(static_cast<std::uint8_t>(static_cast<std::uint32_t>(value) >> shift));
      c_[m - 1].resize(bytes.size());
    }
  }

  void map(Memory& memory) {
    memory.add(NPU_FEATURE, base_ + 0x1000, a_);
    memory.add(NPU_WEIGHT, base_ + 0x2000, b_);
    for (std::uint32_t i = 0; i < heights; i++) memory.add(NPU_OUTPUT, c_iova(i), c_[i]);
  }

  [[nodiscard]] rkc_matmul matmul(std::uint32_t block) const {
    const std::uint32_t m = 1 + block % heights;
    rkc_matmul matmul{};
    matmul.type = RKC_I8_I32;
    matmul.layout = RKC_FLAT;
    matmul.m = matmul.m_total = m;
    matmul.k = k;
    matmul.n = n;
    matmul.a = static_cast<u32>(base_ + 0x1000);
    matmul.b = static_cast<u32>(base_ + 0x2000);
    matmul.c = static_cast<u32>(c_iova(m - 1));
    return matmul;
  }

  /// Are the results of the first @p blocks there and right?
  [[nodiscard]] bool right(std::uint32_t blocks) const {
    for (std::uint32_t i = 0; i < heights && i < blocks; i++)
      if (c_[i] != want_[i]) return false;
    return true;
  }

 private:
  [[nodiscard]] std::uint64_t c_iova(std::uint32_t i) const {
    return base_ + 0x8000 + 0x1000 * std::uint64_t{i};
  }

  std::uint64_t base_;
  std::vector<std::uint8_t> a_, b_;
  std::array<std::vector<std::uint8_t>, heights> c_, want_;
};

}  // namespace

ModelRun run_on_model(const Vector& vector, std::uint32_t blocks, std::uint32_t poison) {
  const std::uint32_t before = blocks - 1;
  // For odd amounts the NPU fetches one word more.
  std::vector<std::uint64_t> words(std::size_t{before} * RKC_WAIT_STRIDE + RKC_FULL_WORDS);
  const std::uint64_t base = free_window(vector, Earlier::window + 8 * words.size());
  Earlier earlier(base);
  for (std::uint32_t i = 0; i < before; i++) {
    const rkc_matmul matmul = earlier.matmul(i);
    rkc_chain_append(words.data(), i, &matmul);
  }
  // Lets rkc_chain_append() write what goes between the blocks, then puts the file's program in.
  rkc_chain_append(words.data(), before, &vector.matmul);
  words.resize(std::size_t{before} * RKC_WAIT_STRIDE);
  words.insert(words.end(), vector.regcmd.begin(), vector.regcmd.end());
  words.push_back(0);
  std::vector<std::uint8_t> program = little_endian(words);

  rkc_extents extents{};
  rkc_matmul_extents(&vector.matmul, &extents);
  std::vector<std::uint8_t> a = vector.a, b = vector.b;
  a.resize(extents.a.len, 0x5a);  // native: what is read past the rows
  ModelRun run;
  run.c.assign(vector.c.size(), 0xcd);

  Memory memory;
  const std::uint64_t at = before == 0 ? vector.regcmd_iova : base + Earlier::window;
  memory.add(NPU_FETCH, at, program);
  memory.add(NPU_FEATURE, extents.a.start, a);
  memory.add(NPU_WEIGHT, extents.b.start, b);
  memory.add(NPU_OUTPUT, extents.c.start, run.c);
  earlier.map(memory);

  npu_ops ops{};
  ops.map = Memory::map;
  ops.ctx = &memory;
  Core core(ops);
  npu_poison(core.get(), poison);
  const std::uint32_t amount = rkc_pc_amount(before * RKC_WAIT_STRIDE + vector.regcfg_amount);
  if (amount > 0xffff) {
    run.trouble = fmt::format("{} words are more than one task fetches", words.size() - 1);
    return run;
  }
  const npu_job job{static_cast<u32>(at), amount, vector.int_mask, 1, 0};
  npu_start(core.get(), &job);
  const std::uint32_t events = npu_run(core.get());

  const struct npu_fault* fault = npu_fault(core.get());
  if (fault->code != NPU_FAULT_NONE)
    run.trouble =
        fmt::format("the software NPU stopped at word {}, register {:#06x}, value {:#x}: {}",
                    fault->word, fault->reg, fault->value, npu_fault_text(fault->code));
  else if ((events & NPU_EV_IRQ) == 0)
    run.trouble = "the software NPU did not signal completion";
  else if (!earlier.right(before))
    run.trouble = "an earlier block of the chain has wrong results";
  return run;
}

}  // namespace rkchain::tool

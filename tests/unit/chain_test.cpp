// SPDX-License-Identifier: MIT
// kmod/core: chain layouts, the checker, rotation policy, register names.
#include "kmod/core/chain.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "kmod/core/check.h"
#include "kmod/core/entry.h"
#include "kmod/core/regs.h"
#include "kmod/core/rotor.h"
#include "unit/core_samples.hpp"

namespace {

using rkchain::test::any_matmul;
using rkchain::test::block;
using rkchain::test::full_program;
using rkchain::test::same;
using rkchain::test::Words;

Words emit(std::uint32_t mode, const std::vector<rkc_matmul>& blocks, std::uint64_t iova = 0x8000) {
  rkc_measure m{};
  EXPECT_EQ(rkc_chain_measure(mode, static_cast<u32>(blocks.size()), &m, nullptr), RKC_OK);
  Words words(m.words, 0x5a5a5a5a5a5a5a5aULL);
  EXPECT_EQ(rkc_chain_emit(mode, blocks.data(), static_cast<u32>(blocks.size()), iova, words.data(),
                           nullptr),
            RKC_OK);
  return words;
}

std::vector<rkc_matmul> any_chain(std::mt19937& rng, std::size_t count) {
  std::vector<rkc_matmul> blocks(count);
  for (rkc_matmul& d : blocks) {
    d = any_matmul(rng);
    // Runs of one shape take a short cut in generator and recogniser.
    if (&d != blocks.data() && rng() % 2 != 0) {
      const rkc_matmul& before = *(&d - 1);
      d = block(before.type, before.layout, before.m, before.k, before.n);
      d.m_total = before.m_total;
      if (rkc_matmul_check(&d, nullptr) != RKC_OK) d = before;
    }
  }
  return blocks;
}

TEST(Measure, WaitLayout) {
  for (std::uint32_t s = 1; s <= 1191; ++s) {
    for (const std::uint32_t mode : {RKC_WAIT, RKC_WAIT41}) {
      rkc_measure m{};
      ASSERT_EQ(rkc_chain_measure(mode, s, &m, nullptr), RKC_OK);
      ASSERT_EQ(m.words, (s - 1) * 110 + 112);
      ASSERT_EQ(m.regcfg_amount, (s - 1) * 110 + 108);
      ASSERT_EQ(m.pc_amount, 55 * s);
      ASSERT_LE(m.pc_amount, 0xffffU);
      ASSERT_GE(2 * (m.pc_amount + 1), m.words);  // all of it is fetched
      ASSERT_EQ(m.tasks, 1U);
      ASSERT_EQ(m.submits, 1U);
    }
  }
}

TEST(Measure, RefusesWhatDoesNotFitTheRegisters) {
  rkc_measure m{};
  rkc_err err{};
  EXPECT_EQ(rkc_chain_measure(RKC_WAIT, 1192, &m, &err), RKC_TOO_LONG);
  EXPECT_EQ(err.value, 1192U);
  EXPECT_EQ(err.limit, 1191U);
  EXPECT_EQ(rkc_chain_measure(RKC_WAIT41, 1192, &m, &err), RKC_TOO_LONG);
  EXPECT_EQ(rkc_chain_measure(RKC_LINK, 4095, &m, &err), RKC_OK);
  EXPECT_EQ(rkc_chain_measure(RKC_LINK, 4096, &m, &err), RKC_TOO_LONG);
  EXPECT_EQ(rkc_chain_measure(RKC_LINK, 0, &m, &err), RKC_EMPTY);
  EXPECT_EQ(rkc_chain_measure(RKC_MODES, 1, &m, &err), RKC_BAD_MODE);
}

TEST(Measure, LinkAndSingle) {
  rkc_measure m{};
  ASSERT_EQ(rkc_chain_measure(RKC_LINK, 5, &m, nullptr), RKC_OK);
  EXPECT_EQ(m.words, 5U * 112);
  EXPECT_EQ(m.regcfg_amount, 108U);
  EXPECT_EQ(m.pc_amount, 0x37U);
  EXPECT_EQ(m.tasks, 5U);
  EXPECT_EQ(m.submits, 1U);
  ASSERT_EQ(rkc_chain_measure(RKC_SINGLE, 5, &m, nullptr), RKC_OK);
  EXPECT_EQ(m.tasks, 1U);
  EXPECT_EQ(m.submits, 5U);
}

TEST(Layout, WaitBlocksEndAsTheSeedNoteSays) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 32, 32);
  const Words words = emit(RKC_WAIT, {d, d, d});
  ASSERT_EQ(words.size(), 2U * 110 + 112);
  for (const std::size_t i : {0U, 110U}) {
    // u32 words 216 and 217 of the block
    EXPECT_EQ(static_cast<u32>(words[i + 108]), 0x000f0008U);
    EXPECT_EQ(static_cast<u32>(words[i + 108] >> 32), 0x00810000U);
    EXPECT_EQ(words[i + 109], 0U);
  }
  const Words tail(words.end() - 4, words.end());
  EXPECT_EQ(tail, (Words{0, 0x0101000000000014, 0x0041000000000000, 0x00810000000d0008}));
}

TEST(Layout, Wait41ArmsBeforeEachOpEnable) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 32, 32);
  const Words words = emit(RKC_WAIT41, {d, d});
  EXPECT_EQ(words[108], 0x0041000000000000U);
  EXPECT_EQ(words[109], 0x00810000000f0008U);
}

TEST(Layout, LinksNameTheNextProgram) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 32, 32);
  const Words words = emit(RKC_LINK, {d, d, d}, 0xfffe0000);
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(words[i * 112 + 108], rkc_entry(0x0101, 0x10, 0xfffe0000 + (i + 1) * 896));
    EXPECT_EQ(words[i * 112 + 109], rkc_entry(0x0101, 0x14, 0x37));
  }
  EXPECT_EQ(words[2 * 112 + 108], 0U);
  EXPECT_EQ(words[2 * 112 + 109], rkc_entry(0x0101, 0x14, 0));
}

TEST(Layout, RefusesProgramAddressesOutOfReach) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 32, 32);
  Words words(112);
  rkc_err err{};
  EXPECT_EQ(rkc_chain_emit(RKC_WAIT, &d, 1, 0x8008, words.data(), &err), RKC_IOVA_ALIGN);
  EXPECT_EQ(rkc_chain_emit(RKC_WAIT, &d, 1, 0xfffffff0, words.data(), &err), RKC_IOVA_RANGE);
  EXPECT_EQ(rkc_chain_emit(RKC_WAIT, &d, 1, 0x100000000, words.data(), &err), RKC_IOVA_RANGE);
  EXPECT_EQ(rkc_chain_emit(RKC_WAIT, &d, 1, 0x100000000 - 896, words.data(), &err), RKC_OK);
}

TEST(Layout, AppendMakesTheSameChain) {
  std::mt19937 rng(4);
  const std::vector<rkc_matmul> blocks = any_chain(rng, 20);
  Words words(19 * 110 + 112);
  for (std::uint32_t i = 0; i < blocks.size(); ++i) rkc_chain_append(words.data(), i, &blocks[i]);
  EXPECT_EQ(words, emit(RKC_WAIT, blocks));
}

TEST(Program, ComesBackFromEveryLayout) {
  std::mt19937 rng(5);
  rkc_recogniser scratch{};
  for (int round = 0; round < 300; ++round) {
    const std::vector<rkc_matmul> blocks = any_chain(rng, 1 + rng() % 40);
    for (std::uint32_t mode = 0; mode < RKC_MODES; ++mode) {
      const Words words = emit(mode, blocks);
      rkc_program p{};
      const std::uint32_t found = rkc_program_detect(words.data(), words.size(), &p);
      ASSERT_EQ(found, blocks.size() == 1 ? std::uint32_t{RKC_SINGLE} : mode);
      ASSERT_EQ(p.count, blocks.size());
      ASSERT_EQ(p.body, 108U);
      ASSERT_EQ(rkc_program_shape(&p, nullptr), RKC_OK);
      for (std::uint32_t i = 0; i < p.count; ++i) {
        rkc_matmul d{};
        rkc_err err{};
        ASSERT_EQ(rkc_program_block(&scratch, &p, i, &d, &err), RKC_OK)
            << rkc_reason_name(err.reason) << " block " << i << " word " << err.word;
        ASSERT_TRUE(same(d, blocks[i]));
      }
    }
  }
}

TEST(Program, RelayoutEqualsEmit) {
  std::mt19937 rng(6);
  rkc_recogniser scratch{};
  for (int round = 0; round < 50; ++round) {
    const std::vector<rkc_matmul> blocks = any_chain(rng, 2 + rng() % 20);
    for (std::uint32_t from = 0; from < RKC_MODES; ++from) {
      const Words source = emit(from, blocks);
      rkc_program p{};
      rkc_program_detect(source.data(), source.size(), &p);
      for (std::uint32_t to = 0; to < RKC_MODES; ++to) {
        const Words want = emit(to, blocks, 0x123450);
        Words got(want.size());
        ASSERT_EQ(rkc_chain_relayout(&scratch, &p, to, 0x123450, got.data(), nullptr), RKC_OK);
        ASSERT_EQ(got, want);
      }
    }
  }
}

TEST(Program, RelayoutNamesTheBlockThatIsWrong) {
  rkc_recogniser scratch{};
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 32, 32);
  Words words = emit(RKC_WAIT, {d, d, d});
  words[110 + 8] ^= u64{1} << 16;
  rkc_program p{};
  rkc_program_detect(words.data(), words.size(), &p);
  Words out(3 * 112);
  rkc_err err{};
  EXPECT_EQ(rkc_chain_relayout(&scratch, &p, RKC_LINK, 0, out.data(), &err), RKC_SIZE_MISMATCH);
  EXPECT_EQ(err.block, 1U);
  EXPECT_EQ(err.word, 8U);
}

TEST(Program, RefusesImplausibleShapes) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 32, 32);
  const Words words = emit(RKC_WAIT, {d, d, d});
  const rkc_program good{words.data(), words.size(), 3, 110, 108, false};
  rkc_err err{};
  ASSERT_EQ(rkc_program_shape(&good, &err), RKC_OK);
  const auto with = [&good](auto change) {
    rkc_program p = good;
    change(p);
    return rkc_program_shape(&p, nullptr);
  };
  EXPECT_EQ(with([](auto& p) { p.count = 0; }), RKC_EMPTY);
  EXPECT_EQ(with([](auto& p) { p.body = 0; }), RKC_EMPTY);
  EXPECT_EQ(with([](auto& p) { p.count = 1192; }), RKC_TOO_LONG);
  EXPECT_EQ(with([](auto& p) { p.count = 4; }), RKC_TRUNCATED);
  EXPECT_EQ(with([](auto& p) { p.stride = 107; }), RKC_BAD_STRIDE);
  EXPECT_EQ(with([](auto& p) { p.stride = 5000; }), RKC_BAD_STRIDE);
  EXPECT_EQ(with([](auto& p) { p.body = 5000; }), RKC_BAD_STRIDE);
  EXPECT_EQ(with([](auto& p) { p.nwords = 100000; }), RKC_BAD_STRIDE);
  EXPECT_EQ(with([](auto& p) { p.count = 0xffffffff; }), RKC_TOO_LONG);
}

TEST(Program, TheLastLinkMayNotJump) {
  rkc_recogniser scratch{};
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 32, 32);
  Words words = emit(RKC_LINK, {d, d});
  words[112 + 108] = rkc_entry(0x0101, 0x10, 0x9000);
  const rkc_program p{words.data(), words.size(), 2, 112, 108, true};
  rkc_matmul found{};
  rkc_err err{};
  EXPECT_EQ(rkc_program_block(&scratch, &p, 0, &found, &err), RKC_OK);
  EXPECT_EQ(rkc_program_block(&scratch, &p, 1, &found, &err), RKC_JUMP);
  EXPECT_EQ(err.block, 1U);
  EXPECT_EQ(err.word, 108U);
}

TEST(Program, DetectGivesUpOnGarbage) {
  rkc_program p{};
  const Words zeros(300);
  EXPECT_EQ(rkc_program_detect(zeros.data(), zeros.size(), &p), std::uint32_t{RKC_MODES});
  EXPECT_EQ(rkc_program_detect(zeros.data(), 0, &p), std::uint32_t{RKC_MODES});
  std::mt19937_64 rng(7);
  for (int i = 0; i < 2000; ++i) {
    Words words(rng() % 400);
    for (u64& word : words) word = rng();
    rkc_program q{};
    if (rkc_program_detect(words.data(), words.size(), &q) == RKC_MODES) continue;
    rkc_recogniser scratch{};
    rkc_matmul d{};
    if (rkc_program_shape(&q, nullptr) == RKC_OK) {
      EXPECT_NE(rkc_program_block(&scratch, &q, 0, &d, nullptr), RKC_OK);
    }
  }
}

// Three buffers: features, weights, outputs; two blocks in them.
struct Declared {
  std::vector<rkc_buf> bufs = {{0x10000000, 0x1000, RKC_BUF_READ, 0},
                               {0x20000000, 0x2000, RKC_BUF_READ, 0},
                               {0x30000000, 0x1000, RKC_BUF_WRITE, 0}};
  std::vector<rkc_matmul> blocks = {
      block(RKC_I8_I32, RKC_FLAT, 4, 64, 64, 0x10000000, 0x20000000, 0x30000000),
      block(RKC_I8_I32, RKC_FLAT, 4, 64, 64, 0x10000100, 0x20001000, 0x30000400)};
  bool ordered = true;
  rkc_checked out{};
  rkc_err err{};

  std::uint32_t check() {
    return rkc_chain_check(blocks.data(), static_cast<u32>(blocks.size()), bufs.data(),
                           static_cast<u32>(bufs.size()), ordered, &out, &err);
  }
};

TEST(Checker, AcceptsAndAddsUp) {
  Declared c;
  EXPECT_EQ(c.check(), RKC_OK);
  EXPECT_EQ(c.out.cost.macs, 2U * 4 * 64 * 64);
  EXPECT_EQ(c.out.cost.bytes, 2U * (4 * 64 + 64 * 64 + 4 * 64 * 4));
  EXPECT_TRUE(c.out.replayable);
  EXPECT_FALSE(c.out.aliases);
}

TEST(Checker, RefusesOneByteOutside) {
  Declared c;
  c.bufs[0].size = 0x1ff;
  EXPECT_EQ(c.check(), RKC_A_OUTSIDE);
  EXPECT_EQ(c.err.block, 1U);
  EXPECT_EQ(c.err.reg, 0x1070U);
  c = {};
  c.bufs[1].size = 0x1fff;
  EXPECT_EQ(c.check(), RKC_B_OUTSIDE);
  EXPECT_EQ(c.err.block, 1U);
  c = {};
  c.bufs[2].size = 0x7ff;
  EXPECT_EQ(c.check(), RKC_C_OUTSIDE);
  EXPECT_EQ(c.err.block, 1U);
  c = {};
  c.bufs[0].iova += 16;
  EXPECT_EQ(c.check(), RKC_A_OUTSIDE);
  EXPECT_EQ(c.err.block, 0U);
}

TEST(Checker, CountsPaddingReadsOfTheNativeLayout) {
  Declared c;
  c.blocks = {block(RKC_I8_I32, RKC_NATIVE, 4, 64, 64, 0x10000000, 0x20000000, 0x30000000)};
  c.bufs[0].size = 4 * 64 + 48 * 4;
  EXPECT_EQ(c.check(), RKC_OK);
  c.bufs[0].size -= 1;
  EXPECT_EQ(c.check(), RKC_A_OUTSIDE);
}

TEST(Checker, RefusesOutputInAReadBuffer) {
  Declared c;
  c.blocks[1].c = 0x20001800;
  EXPECT_EQ(c.check(), RKC_C_OUTSIDE);
  EXPECT_EQ(c.err.block, 1U);
}

TEST(Checker, RefusesInputInAWriteBuffer) {
  Declared c;
  c.blocks[1].a = 0x30000800;
  EXPECT_EQ(c.check(), RKC_A_OUTSIDE);
}

TEST(Checker, RefusesOutputOverItsOwnInputs) {
  Declared c;
  for (rkc_buf& b : c.bufs) b.flags = RKC_BUF_READ | RKC_BUF_WRITE;
  c.blocks[0].c = 0x100000f0;
  EXPECT_EQ(c.check(), RKC_OUTPUT_OVERLAP);
  c.blocks[0].c = 0x20000ff0;
  EXPECT_EQ(c.check(), RKC_OUTPUT_OVERLAP);
}

TEST(Checker, FeedingOnNeedsTypeAndOrder) {
  Declared c;
  c.bufs[2].flags = RKC_BUF_READ | RKC_BUF_WRITE;
  c.blocks[1].a = 0x30000000;
  EXPECT_EQ(c.check(), RKC_ALIAS_TYPE);
  EXPECT_EQ(c.err.block, 1U);
  c.blocks[0].type = RKC_I8_I8;
  EXPECT_EQ(c.check(), RKC_OK);
  EXPECT_TRUE(c.out.aliases);
  EXPECT_TRUE(c.out.replayable);
  c.ordered = false;
  EXPECT_EQ(c.check(), RKC_ALIAS_ORDER);
}

TEST(Checker, OverwritingAnInputIsNotReplayable) {
  Declared c;
  c.bufs[0].flags = RKC_BUF_READ | RKC_BUF_WRITE;
  c.bufs[0].size = 0x1000;
  c.blocks[1].c = 0x10000000;  // what block 0 has read
  c.blocks[1].a = 0x10000800;
  EXPECT_EQ(c.check(), RKC_OK);
  EXPECT_FALSE(c.out.replayable);
  c.blocks[1].c = 0x10000a00;
  EXPECT_EQ(c.check(), RKC_OK);
  EXPECT_TRUE(c.out.replayable);
}

TEST(Checker, RefusesStrangeBuffers) {
  rkc_err err{};
  std::array<rkc_buf, 2> bufs = {{{0x1000, 0x1000, 1, 0}, {0x2000, 0x1000, 2, 0}}};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_OK);
  bufs[1].iova = 0x1fff;
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_BUFFERS_OVERLAP);
  EXPECT_EQ(err.word, 1U);
  bufs[1] = {0x2000, 0, 2, 0};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_BUFFER_RANGE);
  bufs[1] = {0xfffff000, 0x1001, 2, 0};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_BUFFER_RANGE);
  bufs[1] = {0x2000, ~std::uint64_t{0}, 2, 0};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_BUFFER_RANGE);
  bufs[1] = {0xfffff000, 0x1000, 2, 0};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_OK);
}

TEST(Rotor, GoesRound) {
  rkc_rotor r{};
  rkc_rotor_init(&r, 7);
  EXPECT_EQ(rkc_rotor_take(&r, 0), 0);
  EXPECT_EQ(rkc_rotor_take(&r, 0), 1);
  EXPECT_EQ(rkc_rotor_take(&r, 0), 2);
  EXPECT_EQ(rkc_rotor_take(&r, 0), -1);
  rkc_rotor_release(&r, 1);
  EXPECT_EQ(rkc_rotor_take(&r, 1 << 0 | 1 << 2), -1);
  EXPECT_EQ(rkc_rotor_take(&r, 0), 1);
}

TEST(Rotor, LeavesUnusableCoresAlone) {
  rkc_rotor r{};
  rkc_rotor_init(&r, 5);
  EXPECT_EQ(rkc_rotor_take(&r, 0), 0);
  EXPECT_EQ(rkc_rotor_take(&r, 0), 2);
  EXPECT_EQ(rkc_rotor_take(&r, 0), -1);
  EXPECT_FALSE(rkc_rotor_possible(&r, 2));
  EXPECT_TRUE(rkc_rotor_possible(&r, 6));
}

TEST(Registers, AreSortedKnownAndOnTheirPages) {
  std::uint32_t count = 0;
  const rkc_reg* table = rkc_reg_table(&count);
  for (std::uint32_t i = 0; i < count; ++i) {
    EXPECT_EQ(table[i].reg & 0xf000, rkc_target_page(table[i].target)) << table[i].name;
    if (i != 0) {
      EXPECT_LT(table[i - 1].reg, table[i].reg);
    }
    EXPECT_EQ(rkc_reg_find(table[i].target, table[i].reg), &table[i]);
    u32 taken = 0;
    for (const rkc_field* f = table[i].fields; f != nullptr && f->name != nullptr; ++f) {
      ASSERT_GT(f->width, 0) << table[i].name << ' ' << f->name;
      ASSERT_LE(f->lo + f->width, 32) << table[i].name << ' ' << f->name;
      const u32 bits = ~u32{0} >> (32 - f->width) << f->lo;
      EXPECT_EQ(taken & bits, 0) << table[i].name << ' ' << f->name;
      taken |= bits;
    }
  }
  EXPECT_EQ(rkc_reg_find(RKC_TARGET_CNA, 0x4020), nullptr);
}

TEST(Registers, NameEveryWordOfAProgram) {
  for (const u64 word : full_program(block(RKC_I8_I32, RKC_FLAT, 4, 32, 32))) {
    const std::uint32_t target = rkc_entry_target(word);
    if (target == RKC_TARGET_NOP || target == RKC_TARGET_ARM) continue;
    EXPECT_NE(rkc_reg_find(target, rkc_entry_reg(word)), nullptr) << std::hex << word;
  }
}

}  // namespace

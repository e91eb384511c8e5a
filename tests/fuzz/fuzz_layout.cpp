// SPDX-License-Identifier: MIT
//
// Layouts: any descriptors, from any mode to any other and back, in heap blocks of exactly the
// measured size.
#include <array>

#include "fuzz/samples.hpp"

namespace rkchain::fuzz {
namespace {

constexpr u32 kMostEmitted = 6;

using Blocks = std::vector<rkc_matmul>;

bool waits(u32 mode) { return mode == RKC_WAIT || mode == RKC_WAIT41; }

// What measuring says is one thing said in several ways.
void check_measure(u32 mode, u32 count) {
  rkc_measure m{};
  rkc_err err = unset();
  const u32 ret = rkc_chain_measure(mode, count, &m, &err);
  const u32 limit = waits(mode) ? RKC_WAIT_MAX : RKC_LINK_MAX;
  require((ret == RKC_OK) == (mode < RKC_MODES && count != 0 && count <= limit),
          "the limits of a mode are the documented ones");
  if (ret != RKC_OK) {
    require_refusal(ret, err, 0, 0);
    return;
  }
  require(m.pc_amount <= 0xffff && m.tasks <= 0xfff, "what is measured fits the registers");
  require(m.tasks * m.submits == (waits(mode) ? 1 : count), "every program has its task");
  require(m.words == (count - 1) * m.stride + RKC_FULL_WORDS, "blocks lie one stride apart");
  const u32 fetched = 2 * (m.pc_amount + 1);
  require(fetched == (waits(mode) ? m.words : RKC_FULL_WORDS), "each program is fetched whole");
}

u32 word_count(u32 mode, std::size_t count) {
  rkc_measure m{};
  require(rkc_chain_measure(mode, static_cast<u32>(count), &m, nullptr) == RKC_OK,
          "a few blocks fit every mode");
  return m.words;
}

Words emit(u32 mode, const Blocks& blocks, u64 iova) {
  Words words(word_count(mode, blocks.size()));
  require(rkc_chain_emit(mode, blocks.data(), static_cast<u32>(blocks.size()), iova, words.data(),
                         nullptr) == RKC_OK,
          "descriptors within the limits are emitted");
  return words;
}

// The words between the bodies, written down once more.
void check_ends(u32 mode, const Words& words, u32 count, u64 iova) {
  const u32 stride = waits(mode) ? RKC_WAIT_STRIDE : RKC_FULL_WORDS;
  for (u32 i = 0; i < count; i++) {
    const u64* end = words.data() + i * stride + RKC_BODY_WORDS;
    const bool last = i + 1 == count;
    if (waits(mode) && !last) {
      require(end[0] == (mode == RKC_WAIT ? kRunAndWait : kArm) &&
                  end[1] == (mode == RKC_WAIT ? 0 : kRunAndWait),
              "blocks of a wait chain are run and waited for");
      continue;
    }
    const bool linked = mode == RKC_LINK && !last;
    const auto expected =
        tail(linked ? static_cast<u32>(iova + 8ULL * (i + 1) * stride) : 0, RKC_BODY_WORDS);
    require(std::equal(expected.begin(), expected.end(), end),
            "a tail names the next program of a link chain, and none otherwise");
  }
}

// Takes a chain apart again.
void check_blocks(rkc_recogniser* r, const rkc_program& p, const Blocks& blocks) {
  require(p.count == blocks.size(), "as many blocks as there are");
  require(rkc_program_shape(&p, nullptr) == RKC_OK, "a layout of ours is plausible");
  for (u32 i = 0; i < p.count; i++) {
    rkc_matmul d{};
    require(rkc_program_block(r, &p, i, &d, nullptr) == RKC_OK, "a block of ours is accepted");
    require(same(d, blocks[i]), "a block of ours is recognised as itself");
  }
}

rkc_program detect(u32 mode, const Words& words, std::size_t count) {
  rkc_program p{};
  const u32 found = rkc_program_detect(words.data(), words.size(), &p);
  require(found == (count > 1 ? mode : RKC_SINGLE), "a layout of ours is detected");
  require(p.body == RKC_BODY_WORDS && p.link == (count > 1 && mode == RKC_LINK),
          "a layout of ours is detected with its body");
  return p;
}

// The same chain with the first words of each body left out, as another generator has it.
Words shorten(const Words& words, u32 stride, u32 count) {
  std::vector<u64> shorter;
  for (u32 i = 0; i < count; i++) {
    const u64* block = words.data() + i * stride;
    const u64* end = i + 1 == count ? words.data() + words.size() : block + stride;
    shorter.insert(shorter.end(), block + 4, end);
  }
  return Words(shorter);
}

void check_append(const Blocks& blocks) {
  Words words(0);
  for (u32 i = 0; i < blocks.size(); i++) {
    Words more(word_count(RKC_WAIT, i + 1));
    std::copy(words.data(), words.data() + words.size(), more.data());
    rkc_chain_append(more.data(), i, &blocks[i]);
    require(more == emit(RKC_WAIT, {blocks.begin(), blocks.begin() + i + 1}, 0),
            "a chain that grew is the chain");
    words = std::move(more);
  }
}

void check_retarget(const rkc_matmul& from, const rkc_matmul& to) {
  rkc_matmul moved = from;
  moved.a = to.a;
  moved.b = to.b;
  moved.c = to.c;
  const Words body(RKC_BODY_WORDS);
  const Words expected(RKC_BODY_WORDS);
  rkc_generate(&from, body.data());
  rkc_retarget(body.data(), &moved);
  rkc_generate(&moved, expected.data());
  require(body == expected, "another address is another generation");
}

void check_place(u32 mode, const Blocks& blocks, u64 iova) {
  const Words words(word_count(mode, blocks.size()));
  rkc_err err = unset();
  const u32 ret = rkc_chain_emit(mode, blocks.data(), static_cast<u32>(blocks.size()), iova,
                                 words.data(), &err);
  const bool fits = iova % 16 == 0 && iova < 1ULL << 32 && words.size() * 8 <= (1ULL << 32) - iova;
  require((ret == RKC_OK) == fits, "a chain lies below 4 GiB, at a multiple of 16");
  if (ret != RKC_OK) require_refusal(ret, err, 0, 0);
}

void judge(Input& in) {
  const u32 count = 1 + in.below(kMostEmitted);
  const u32 place = in.word();
  const u32 other = in.half();
  const u64 strange = u64{in.word()} << (other % 3);
  for (const u32 any : {count, other, other % 2048, strange > 0xff ? 0U : u32{0xffffffff}}) {
    for (u32 mode = 0; mode <= RKC_MODES; mode++) check_measure(mode, any);
  }

  Blocks blocks;
  for (u32 i = 0; i < count; i++) {
    // At the end of the input, and sometimes before it, blocks repeat a shape.
    if (i == 0 || (in.left() != 0 && in.byte() % 4 != 0)) {
      blocks.push_back(any_matmul(in));
    } else {
      rkc_matmul d = blocks[i / 2];
      d.b = static_cast<u32>(d.b - 16 * std::min<u32>(d.b / 16, in.byte()));
      blocks.push_back(d);
    }
    require(rkc_matmul_check(&blocks.back(), nullptr) == RKC_OK, "a sample is within the limits");
  }
  const u64 highest = (1ULL << 32) - 8 * u64{word_count(RKC_LINK, count)};
  const u64 iova = std::min<u64>(place, highest) & ~15ULL;
  const auto recogniser = std::make_unique<rkc_recogniser>();

  check_append(blocks);
  check_retarget(blocks.front(), blocks.back());
  std::vector<Words> emitted;
  for (u32 mode = 0; mode < RKC_MODES; mode++) {
    emitted.push_back(emit(mode, blocks, iova));
    check_ends(mode, emitted.back(), count, iova);
    check_place(mode, blocks, strange);
    check_place(mode, blocks, highest + 16 * (other % 4));
  }
  for (u32 from = 0; from < RKC_MODES; from++) {
    rkc_program p = detect(from, emitted[from], count);
    check_blocks(recogniser.get(), p, blocks);
    const u32 stride = waits(from) ? RKC_WAIT_STRIDE : RKC_FULL_WORDS;
    const Words shorter = shorten(emitted[from], stride, count);
    if (other % 2 != 0) {
      require(
          rkc_program_detect(shorter.data(), shorter.size(), &p) == (count > 1 ? from : RKC_SINGLE),
          "the layout with shorter bodies is detected");
      require(p.body == RKC_BODY_WORDS - 4, "shorter bodies are detected");
      check_blocks(recogniser.get(), p, blocks);
    }
    for (u32 to = 0; to < RKC_MODES; to++) {
      const Words words(word_count(to, count));
      require(rkc_chain_relayout(recogniser.get(), &p, to, iova, words.data(), nullptr) == RKC_OK,
              "a chain of ours is converted");
      require(words == emitted[to], "converting gives what emitting gives");
    }
  }
}

}  // namespace
}  // namespace rkchain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rkchain::fuzz::Input in(data, size);
  rkchain::fuzz::judge(in);
  return 0;
}

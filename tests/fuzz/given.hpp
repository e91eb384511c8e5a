// SPDX-License-Identifier: MIT
//
// A chain as somebody might hand it over, made from choices: blocks of our generator or in the
// forms of others, in any layout, then changed entry by entry; and the buffers declared for it.
#pragma once

#include "fuzz/samples.hpp"
#include "kmod/core/check.h"

extern "C" {
#include "kmod/core/body.h"
}

namespace rkchain::fuzz {

struct Given {
  std::vector<rkc_matmul> meant;  ///< descriptors that it was made from, possibly out of limits
  std::vector<u64> words;
  u32 count = 0;
  u32 stride = 0;
  u32 body = 0;
  bool link = false;
  u32 iova = 0;  ///< where its links say that it lies
  std::vector<rkc_buf> bufs;
  u32 mode = 0;          ///< to emit it in
  bool ordered = false;  ///< what the checker is told of that mode
};

class Builder {
 public:
  explicit Builder(Input& in) : in_(in) {}

  Given build() {
    header();
    for (u32 i = 0; i < g_.count; i++) add_block();
    declare();
    lay_out();
    while (in_.left() >= 8 && changes_-- != 0) change();
    g_.words.resize(g_.words.size() - std::min<std::size_t>(truncated_, g_.words.size() - 1));
    tell_lies();
    return std::move(g_);
  }

 private:
  // Where one extent after the other gets its place: from a base up, or from 4 GiB down.
  struct Pool {
    u64 base;
    u64 used = 0;
    bool down = false;

    u32 place(u64 len) {
      const u64 at = used;
      used = std::min<u64>(used + ((len + 15) & ~15ULL), 0x0fff0000);
      return static_cast<u32>(down ? (u64{1} << 32) - used : base + at);
    }
  };

  void header() {
    const u32 form = in_.byte();
    layout_ = form % RKC_MODES;
    short_ = (form & 4) != 0;
    foreign_ = (form & 8) != 0;
    extra_ = (form & 16) != 0 ? 2 : 0;
    g_.count = 1 + (form >> 5) % 4;
    const u32 wish = in_.byte();
    g_.mode = wish % RKC_MODES;
    g_.ordered = (wish & 4) == 0;
    changes_ = (wish >> 3) % 16;
    const u32 memory = in_.byte();
    one_buffer_ = (memory & 3) == 3;
    both_ways_ = (memory & 3) == 2;
    slack_ = (memory >> 2 & 3) * 16;
    outputs_.down = (memory & 16) != 0;
    const u32 place = in_.byte();
    g_.iova = place < 128 ? 0x08000000 + 16 * place : 0xfff00000 + 16 * place;
    lies_ = in_.byte();
  }

  // ---- descriptors ----

  void add_block() {
    rkc_matmul d = any_shape(in_);
    const u32 reuse = in_.byte();
    const u32 odd = in_.byte();
    if (odd > 224) make_odd(d, odd - 224);
    rkc_extents x{};
    rkc_matmul_extents(&d, &x);
    const auto& before = g_.meant;
    const auto pick = [&](u32 i) -> const rkc_matmul& { return before[i % before.size()]; };

    d.a = features_.place(x.a.len);
    d.b = (one_buffer_ ? features_ : weights_).place(x.b.len);
    d.c = (one_buffer_ ? features_ : outputs_).place(x.c.len);
    if (!before.empty()) {
      if ((reuse & 1) != 0) d.a = pick(reuse >> 4).c;
      if ((reuse & 2) != 0) d.b = pick(reuse >> 4).b;
      if ((reuse & 12) == 4) d.a = pick(reuse >> 4).a;
      if ((reuse & 12) == 8) d.c = pick(reuse >> 4).c;
      if ((reuse & 12) == 12) d.c = pick(reuse >> 4).a;
    }
    if (odd > 192 && odd <= 224) {
      (odd % 3 == 0 ? d.a : odd % 3 == 1 ? d.b : d.c) += odd % 2 != 0 ? 8 : 0xb0000000;
    }
    g_.meant.push_back(d);
  }

  // Just beyond a limit, or on it.
  static void make_odd(rkc_matmul& d, u32 how) {
    switch (how) {
      case 1:
        d.m = 0;
        break;
      case 2:
        d.k += 16;
        break;
      case 3:
        d.n += rkc_kernel_group(d.type) / 2;
        break;
      case 4:
        d.m = rkc_max_rows(d.type, d.k);
        break;
      case 5:
        d.m = rkc_max_rows(d.type, d.k) + 1;
        break;
      case 6:
        d.k = RKC_K_MAX;
        d.m = rkc_max_rows(d.type, d.k);
        break;
      case 7:
        d.k = RKC_K_MAX + 32;
        break;
      case 8:
        d.n = RKC_N_MAX;
        break;
      case 9:
        d.n = RKC_N_MAX + rkc_kernel_group(d.type);
        break;
      case 10:
        d.k = 0;
        break;
      case 11:
        d.n = 0;
        break;
      case 12:
        d.m_total = d.m - 1;
        return;
      case 13:
        d.m_total = RKC_ROWS_TOTAL_MAX;
        return;
      case 14:
        d.m_total = RKC_ROWS_TOTAL_MAX + 1;
        return;
      case 15:
        d.m_total += 1;
        return;
      default:
        break;
    }
    d.m_total = d.m;
  }

  // ---- buffers ----

  void declare() {
    const u32 both = RKC_BUF_READ | RKC_BUF_WRITE;
    add_buffer(features_, one_buffer_ || both_ways_ ? both : RKC_BUF_READ);
    if (one_buffer_) return;
    add_buffer(weights_, RKC_BUF_READ);
    add_buffer(outputs_, both_ways_ ? both : RKC_BUF_WRITE);
  }

  void add_buffer(const Pool& pool, u32 flags) {
    const u64 size = std::max<u64>(pool.used + slack_, 16);
    g_.bufs.push_back({pool.down ? (u64{1} << 32) - size : pool.base, size, flags, 0});
  }

  // ---- words ----

  std::vector<u64> body_of(rkc_matmul d) const {
    std::vector<u64> body(RKC_BODY_WORDS);
    if (foreign_ && d.layout == RKC_NATIVE) {
      rkc_generate_image(&d, 1, d.m, body.data());
    } else {
      rkc_generate(&d, body.data());
    }
    if (foreign_) {
      for (auto& entry : body) {
        if (d.type >= RKC_F16_F32) break;
        if (rkc_entry_reg(entry) == 0x3010) entry &= ~(u64{1} << 16);
        if (rkc_entry_reg(entry) == 0x4050) entry |= u64{2} << 16;
      }
    }
    if (short_) body.erase(body.begin(), body.begin() + 4);
    body.resize(body.size() + extra_);
    return body;
  }

  void lay_out() {
    g_.link = layout_ == RKC_LINK;
    g_.body = (short_ ? 104U : RKC_BODY_WORDS) + extra_;
    const bool wait = layout_ == RKC_WAIT || layout_ == RKC_WAIT41;
    g_.stride = g_.body + (wait ? 2 : RKC_TAIL_WORDS);
    for (u32 i = 0; i < g_.count; i++) {
      const bool last = i + 1 == g_.count;
      auto words = body_of(g_.meant[i]);
      if (wait && !last) {
        words.push_back(layout_ == RKC_WAIT ? kRunAndWait : kArm);
        words.push_back(layout_ == RKC_WAIT ? 0 : kRunAndWait);
      } else {
        const u32 next = g_.iova + 8 * (i + 1) * g_.stride;
        const auto end = tail(g_.link && !last ? next : 0, g_.body);
        words.insert(words.end(), end.begin(), end.end());
      }
      g_.words.insert(g_.words.end(), words.begin(), words.end());
    }
  }

  // ---- changes ----

  // A word of a block, by number; the last block has the longest tail.
  u64& word(u32 block, u32 i) {
    const u32 first = block % g_.count * g_.stride;
    return g_.words[first + i % std::min<u32>(g_.stride, g_.words.size() - first)];
  }

  static u64 with_value(u64 entry, u32 value) {
    return (entry & ~(u64{0xffffffff} << 16)) | u64{value} << 16;
  }

  // Takes 8 bytes.
  void change() {
    const u32 what = in_.byte();
    const u32 block = in_.byte();
    const u32 i = in_.byte();
    const u32 j = in_.byte();
    const u32 value = in_.word();
    u64& entry = word(block, i);
    const u32 old = rkc_entry_value(entry);
    const u32 body = g_.body;
    const u32 first = block % g_.count * g_.stride;
    const auto at = [&](u32 k) { return g_.words.begin() + first + k; };

    switch (what % 18) {
      case 0:  // nothing
        break;
      case 1:
        entry = with_value(entry, value);
        break;
      case 2:
        entry = with_value(entry, old ^ 1U << value % 32);
        break;
      case 3:
        entry = with_value(entry, old + (j < 128 ? 1 + j : j - 256));
        break;
      case 4:
        std::swap(entry, word(block, j));
        break;
      case 5:  // drop
        entry = 0;
        break;
      case 6:  // drop, and close the gap
        std::copy(at(i % body + 1), at(body), at(i % body));
        *at(body - 1) = 0;
        break;
      case 7:  // the same entry again somewhere
        word(block, j) = entry;
        break;
      case 8:  // insert: what stood last falls off, which may be padding
        std::copy_backward(at(i % body), at(body - 1), at(body));
        *at(i % body) = with_value(word(block, j), value);
        break;
      case 9:
        entry = (entry & 0xffffffffffffULL) | u64{target(j, value)} << 48;
        break;
      case 10:
        entry = (entry & ~0xffffULL) | reg(j, value & 0xffff);
        break;
      case 11:  // an entry of another block
        entry = word(block + 1 + j % 4, i);
        break;
      case 12:
        schedule(block, j, value);
        break;
      case 13:
        shuffle(first, body, value);
        break;
      case 14: {  // in the tail
        u64& end = word(block, body + j % 6);
        end = tail_entry(i, value, end);
        break;
      }
      case 15:
        for (u32 k = 0; k < body; k++) {
          u64& same = *at(k);
          if (rkc_entry_reg(same) == rkc_entry_reg(entry) && &same != &entry) same = 0;
        }
        if (j % 2 != 0) entry = 0;
        break;
      case 16:
        entry = rkc_entry(target(j, value >> 16), reg(i, value >> 16), value & 0xffff);
        break;
      default:
        truncated_ += value % 8;
        break;
    }
  }

  static u32 target(u32 which, u32 other) {
    static constexpr u16 targets[] = {RKC_TARGET_NOP, RKC_TARGET_ARM,     RKC_TARGET_OP_ENABLE,
                                      RKC_TARGET_PC,  RKC_TARGET_CNA,     RKC_TARGET_CORE,
                                      RKC_TARGET_DPU, RKC_TARGET_RK3568,  RKC_TARGET_DPU_RDMA,
                                      RKC_TARGET_PPU, RKC_TARGET_PPU_RDMA};
    return which % 12 < 11 ? targets[which % 12] : other & 0xffff;
  }

  // One that bodies write, one of the PC's, or any.
  static u32 reg(u32 which, u32 other) {
    if (which < 128) return rkc_entry_reg(rkc_body_template[which % RKC_BODY_WORDS]);
    return which < 192 ? which & 0x3c : other;
  }

  // What may differ without changing the result.
  void schedule(u32 block, u32 which, u32 value) {
    static constexpr struct {
      u16 reg;
      u32 bits;
    } free[] = {{0x1010, 0x3ff0}, {0x1040, 0xff}, {0x3010, 1}, {0x4050, 2}};
    const auto& [reg, bits] = free[which % 4];
    for (u32 k = 0; k < g_.body; k++) {
      u64& entry = word(block, k);
      if (rkc_entry_reg(entry) != reg) continue;
      entry = with_value(entry, (rkc_entry_value(entry) & ~bits) | (value & bits));
    }
  }

  void shuffle(u32 first, u32 body, u32 seed) {
    for (u32 k = body; k > 1; k--) {
      seed = seed * 1664525 + 1013904223;
      std::swap(g_.words[(first + k - 1) % g_.words.size()],
                g_.words[(first + (seed >> 8) % k) % g_.words.size()]);
    }
  }

  u64 tail_entry(u32 which, u32 value, u64 old) const {
    switch (which % 10) {
      case 0:
        return 0;
      case 1:
        return kArm;
      case 2:
        return kRun;
      case 3:
        return kRunAndWait;
      case 4:
        return pc_entry(RKC_PC_ADDRESS, value);
      case 5:
        return pc_entry(RKC_PC_ADDRESS, g_.iova + 8 * g_.stride * (value % 6));
      case 6:
        return pc_entry(RKC_PC_AMOUNT, value % 128);
      case 7:
        return pc_entry(value >> 16 & 0x3c, value & 0xffff);
      case 8:
        return with_value(old, value);
      default:
        return kArm | (value & 0xffff);
    }
  }

  void tell_lies() {
    const u32 by = 1 + in_.below(8);
    switch (lies_ < 224 ? 0 : lies_ % 16) {
      case 1:
        g_.stride += by;
        break;
      case 2:
        g_.stride -= by;
        break;
      case 3:
        g_.body += by;
        break;
      case 4:
        g_.body -= by;
        break;
      case 5:
        g_.count += by;
        break;
      case 6:
        g_.count -= std::min(by, g_.count);
        break;
      case 7:
        g_.link = !g_.link;
        break;
      case 8:
        g_.bufs[by % g_.bufs.size()].flags ^= 1 + by % 3;
        break;
      case 9:
        g_.bufs[by % g_.bufs.size()].size -= 16;
        break;
      case 10:
        g_.bufs[by % g_.bufs.size()].iova += by * 4;
        break;
      case 11:
        g_.bufs.push_back(g_.bufs[by % g_.bufs.size()]);
        break;
      case 12:
        g_.bufs[by % g_.bufs.size()].size = u64{1} << (28 + by);
        break;
      case 13:
        g_.bufs[by % g_.bufs.size()].size = ~u64{0} - by;
        break;
      case 14:
        g_.stride = by % 2 != 0 ? 0 : 0xffffffff - by;
        break;
      case 15:
        (by % 2 != 0 ? g_.body : g_.count) = by < 4 ? 0 : 0xffffffff - by;
        break;
      default:
        break;
    }
  }

  Input& in_;
  Given g_;
  u32 layout_ = 0, extra_ = 0, changes_ = 0, truncated_ = 0, lies_ = 0, slack_ = 0;
  bool short_ = false, foreign_ = false, one_buffer_ = false, both_ways_ = false;
  Pool features_{0x10000000}, weights_{0x20000000}, outputs_{0x40000000};
};

}  // namespace rkchain::fuzz

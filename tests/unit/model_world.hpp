// SPDX-License-Identifier: MIT
//
// Memory, register programs and data for the tests of the software NPU. Programs are written here
// from the published register descriptions, so that neither the model nor the generator judges
// itself.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <random>
#include <vector>

#include "backend/model_i8.hpp"
#include "lib/model/npu.h"

namespace rkchain::model_test {

using Bytes = std::vector<std::uint8_t>;
using Program = std::vector<std::uint64_t>;

enum class Type { kI8I32, kI8I8, kF16F32, kF16F16 };
enum class Layout { kFlat, kNative, kColumn };  // kColumn: native memory as W = 1, H = M

constexpr u32 kProgram = 0x10000;
constexpr u32 kA = 0x100000;
constexpr u32 kB = 0x200000;
constexpr u32 kC = 0x400000;
constexpr u32 kBlock = 110;  // entries of a block in a wait chain

// ---- the world around a core ----

struct Access {
  npu_access kind;
  u64 iova;
  u64 len;
  bool operator==(const Access&) const = default;
};

struct Region {
  u64 iova;
  Bytes bytes;
  bool readable = true;
  bool writable = true;
};

class World {
 public:
  explicit World(bool fast = false) {
    ops_.map = [](void* ctx, npu_access kind, u64 iova, u64 len) -> void* {
      return static_cast<World*>(ctx)->Map(kind, iova, len);
    };
    ops_.scratch = [](void* ctx, u32 which, u64 len) -> void* {
      auto& buffer = static_cast<World*>(ctx)->scratch_[which];
      buffer.assign(len, 0x5a);
      return buffer.data();
    };
    ops_.ctx = this;
    if (fast) ops_.dot_i8 = rkchain::model_dot_i8;
    core_ = std::make_unique<std::byte[]>(npu_core_size());
    npu_init(core(), 1, &ops_);
  }

  npu_core* core() { return reinterpret_cast<npu_core*>(core_.get()); }
  auto& knobs() { return *npu_knobs(core()); }
  const auto& fault() { return *npu_fault(core()); }
  const auto& counters() { return *npu_counters(core()); }
  npu_ops& ops() { return ops_; }

  Region& Add(u64 iova, std::size_t size) {
    regions_.push_back({iova, Bytes(size, 0xcc)});
    return regions_.back();
  }

  Region& At(u64 iova) { return *std::ranges::find(regions_, iova, &Region::iova); }

  // Replaces what was at that address.
  void Load(const Program& program, u32 iova = kProgram) {
    std::erase_if(regions_, [&](const Region& region) { return region.iova == iova; });
    auto& bytes = Add(iova, 0).bytes;
    bytes.resize((program.size() + 1) / 2 * 16);
    std::memcpy(bytes.data(), program.data(), program.size() * 8);
  }

  // Starts, runs to the end or the first interrupt, and acknowledges that.
  u32 Run(const Program& program, u32 tasks = 1, bool pingpong = false) {
    const npu_job job{kProgram, static_cast<u32>((program.size() + 1) / 2 - 1), 0x300, tasks,
                      pingpong};
    npu_start(core(), &job);
    const u32 events = npu_run(core());
    status = npu_read(core(), NPU_PC_INT_STATUS);
    npu_write(core(), NPU_PC_INT_CLEAR, 0x1ffff);
    return events;
  }

  u32 status = 0;
  std::vector<Access> trace;

 private:
  void* Map(npu_access kind, u64 iova, u64 len) {
    trace.push_back({kind, iova, len});
    for (auto& region : regions_) {
      if (iova >= region.iova && iova + len <= region.iova + region.bytes.size() &&
          (kind == NPU_OUTPUT ? region.writable : region.readable)) {
        return region.bytes.data() + (iova - region.iova);
      }
    }
    return nullptr;
  }

  npu_ops ops_{};
  std::unique_ptr<std::byte[]> core_;
  std::list<Region> regions_;
  Bytes scratch_[2];
};

// ---- programs ----

struct Matmul {
  Type type = Type::kI8I32;
  Layout layout = Layout::kFlat;
  u32 m = 1, k = 32, n = 32;
  u32 a = kA, b = kB, c = kC;
  u32 total = 0;  // rows of the tensor that this is a slice of

  bool fp16() const { return type == Type::kF16F32 || type == Type::kF16F16; }
  u32 in_size() const { return fp16() ? 2 : 1; }
  u32 out_size() const { return type == Type::kI8I8 ? 1 : type == Type::kF16F16 ? 2 : 4; }
  u32 group() const { return fp16() ? 16 : 32; }
  u32 rows() const { return total != 0 ? total : m; }

  // Byte offsets, by the layouts of the NPU.
  std::size_t AtA(u32 row, u32 kk) const {
    const u32 c2 = 16 / in_size();
    return in_size() * (layout == Layout::kFlat
                            ? std::size_t{row} * k + kk
                            : std::size_t{kk / c2 * rows() + row} * c2 + kk % c2);
  }
  std::size_t AtB(u32 kk, u32 nn) const {
    return in_size() * (std::size_t{nn / group()} * group() * k + kk / 32 * group() * 32 +
                        nn % group() * 32 + kk % 32);
  }
  std::size_t AtC(u32 row, u32 nn) const {
    const u32 c2 = 16 / out_size();
    return out_size() * (layout == Layout::kFlat
                             ? std::size_t{row} * n + nn
                             : std::size_t{nn / c2 * rows() + row} * c2 + nn % c2);
  }
  std::size_t SizeA() const {
    return std::size_t{rows()} * k * in_size() + (layout == Layout::kFlat ? 0 : 48 * rows());
  }
  std::size_t SizeB() const { return std::size_t{k} * n * in_size(); }
  std::size_t SizeC() const { return std::size_t{rows()} * n * out_size(); }
};

constexpr std::uint64_t Entry(std::uint64_t target, u32 reg, u32 value) {
  return target << 48 | std::uint64_t{value} << 16 | reg;
}

constexpr std::uint64_t Reg(u32 reg, u32 value) {
  return Entry(reg < 0x2000 ? 0x0201 : reg < 0x4000 ? 0x0801 : 0x1001, reg, value);
}

// The 108 entries of a matmul.
inline Program Body(const Matmul& mm) {
  const u32 es = mm.in_size(), p = mm.fp16() ? 2 : 0, cpa = 16 / mm.out_size();
  const bool flat = mm.layout == Layout::kFlat;
  const u32 w = mm.layout == Layout::kNative ? mm.m : 1, h = mm.m / w;
  const u32 glo = flat || mm.total != 0 ? 1 : 0;
  const u32 d = std::min(11u, (mm.m * mm.k * es + 32767) / 32768);
  const u32 e = mm.group() / cpa - 1;
  const u32 out = mm.type == Type::kI8I32    ? 4
                  : mm.type == Type::kF16F32 ? 5
                  : mm.type == Type::kF16F16 ? 2
                                             : 0;
  const u32 dst = flat ? 16 : 16 * mm.rows();
  const u32 n1 = mm.n - 1, size = (h - 1) << 16 | (w - 1);
  Program body;
  const auto add = [&](u32 reg, u32 value) { body.push_back(Reg(reg, value)); };
  const auto fill = [&](u32 first, u32 last, u32 value) {
    for (u32 reg = first; reg <= last; reg += 4) add(reg, value);
  };
  for (int i = 0; i < 2; i++) {
    add(0x1040, (12 - d) << 4 | d);
    add(0x1104, 0);
    add(0x1100, 0);
    add(0x100c, glo << 29 | p << 7 | p << 4);
  }
  add(0x4004, 0xe);
  add(0x1010, (h + 1) << 4);
  add(0x1014, 9);
  add(0x1020, w << 16 | h);
  add(0x1084, w << 16 | h);
  add(0x1024, (mm.k - 1) << 16 | mm.k);
  add(0x1028, w);
  add(0x102c, mm.m);
  add(0x1030, mm.k * mm.n * es);
  add(0x1034, mm.k * es);
  add(0x1038, 0x01010000 | mm.n);
  add(0x1044, (w * mm.k * es + 63) / 64);
  add(0x104c, 0xb);
  fill(0x1050, 0x105c, 0x10000);
  fill(0x1060, 0x1068, 0);
  add(0x1070, mm.a);
  add(0x1074, 0);
  add(0x1078, 0x000f000f);
  add(0x107c, flat ? mm.k * es / 16 : mm.total != 0 ? mm.total : 4 * w);
  add(0x1080, flat ? 0 : mm.total != 0 ? mm.total - mm.m : (w * h - 4 * w) & 0x0fffffff);
  add(0x1088, mm.k);
  add(0x1110, mm.b);
  fill(0x1140, 0x117c, 0);
  fill(0x1180, 0x1184, 0);
  add(0x3010, p << 8 | 1);
  add(0x3014, size);
  add(0x3018, n1);
  add(0x301c, 0);
  add(0x3030, 0);
  add(0x400c, 0x1e4);
  add(0x4010, out << 29 | p << 26 | p);
  add(0x4014, 0);
  add(0x4020, mm.c);
  add(0x4024, dst);
  add(0x4030, w - 1);
  add(0x4034, h - 1);
  add(0x4038, flat ? (mm.n / cpa - 1) * 0x10001 : 0);
  add(0x403c, n1 << 16 | n1);
  add(0x4040, 0x53);
  fill(0x4044, 0x404c, 0);
  add(0x4050, e << 8 | e << 5 | e << 2);
  add(0x4054, 0);
  add(0x4058, n1);
  add(0x405c, size);
  add(0x4060, 0x53);
  fill(0x4064, 0x406c, 0);
  add(0x4070, 0x383);
  add(0x4074, 0);
  add(0x4078, 1);
  fill(0x407c, 0x4080, 0);
  add(0x4084, mm.type == Type::kF16F16 ? 0x10001 : 1);
  add(0x4088, 0);
  fill(0x4090, 0x40ac, 0);
  add(0x40c0, (e + 1) * dst);
  add(0x40c4, 0);
  fill(0x4100, 0x412c, 0);
  return body;
}

inline Program& operator+=(Program& program, const Program& more) {
  program.insert(program.end(), more.begin(), more.end());
  return program;
}

inline Program Tail(u32 next = 0, u32 amount = 0) {
  return {next != 0 ? Entry(0x0101, 0x10, next) : 0, Entry(0x0101, 0x14, amount),
          Entry(0x0041, 0, 0), Entry(0x0081, 8, 0x0d)};
}

inline Program Single(const Matmul& mm) {
  Program program = Body(mm);
  program += Tail();
  return program;
}

// A body with one register changed, or left out.
inline Program With(const Matmul& mm, u32 reg, u32 value) {
  Program program = Single(mm);
  for (auto& entry : program) {
    if ((entry & 0xffff) == reg) entry = Reg(reg, value);
  }
  return program;
}

inline Program Without(const Matmul& mm, u32 reg) {
  Program program = Single(mm);
  std::erase_if(program, [&](std::uint64_t entry) { return (entry & 0xffff) == reg; });
  return program;
}

// ---- data ----

inline std::uint16_t ToHalf(int value) { return npu_f32_to_f16(std::bit_cast<u32>(float(value))); }

// Small whole numbers: their sums are exact in every format, and int8 outputs saturate at times.
inline void Fill(const Matmul& mm, Bytes& bytes, unsigned seed) {
  std::mt19937 random(seed);
  for (std::size_t i = 0; i + mm.in_size() <= bytes.size(); i += mm.in_size()) {
    const int value = static_cast<int>(random() % 7) - 3;
    if (mm.fp16()) {
      const auto half = ToHalf(value);
      std::memcpy(&bytes[i], &half, 2);
    } else {
      bytes[i] = static_cast<std::uint8_t>(value);
    }
  }
}

inline double Value(const Matmul& mm, const std::uint8_t* p) {
  if (!mm.fp16()) return static_cast<std::int8_t>(*p);
  std::uint16_t half;
  std::memcpy(&half, p, 2);
  return std::bit_cast<float>(npu_f16_to_f32(half));
}

inline Bytes Reference(const Matmul& mm, const Bytes& a, const Bytes& b) {
  Bytes c(mm.SizeC(), 0xcc);
  for (u32 row = 0; row < mm.rows(); row++) {
    for (u32 n = 0; n < mm.n; n++) {
      double sum = 0;
      for (u32 k = 0; k < mm.k; k++) {
        sum += Value(mm, &a[mm.AtA(row, k)]) * Value(mm, &b[mm.AtB(k, n)]);
      }
      auto* at = &c[mm.AtC(row, n)];
      const auto whole = static_cast<std::int32_t>(sum);
      const auto single = static_cast<float>(sum);
      const auto half = ToHalf(whole);
      const auto byte = static_cast<std::int8_t>(std::clamp(whole, -128, 127));
      switch (mm.type) {
        case Type::kI8I32:
          std::memcpy(at, &whole, 4);
          break;
        case Type::kI8I8:
          std::memcpy(at, &byte, 1);
          break;
        case Type::kF16F32:
          std::memcpy(at, &single, 4);
          break;
        case Type::kF16F16:
          std::memcpy(at, &half, 2);
          break;
      }
    }
  }
  return c;
}

// A matmul with its buffers in a world of its own.
struct Bench {
  explicit Bench(const Matmul& matmul, bool fast = false)
      : world(fast),
        mm(matmul),
        a(world.Add(kA, mm.SizeA()).bytes),
        b(world.Add(kB, mm.SizeB()).bytes),
        c(world.Add(kC, mm.SizeC()).bytes) {
    Fill(mm, a, 1);
    Fill(mm, b, 2);
    expected = Reference(mm, a, b);
  }

  u32 Run(const Program& program) {
    world.Load(program);
    return world.Run(program);
  }

  World world;
  Matmul mm;
  Bytes& a;
  Bytes& b;
  Bytes& c;
  Bytes expected;
};

constexpr u32 kDone = NPU_EV_IRQ | NPU_EV_IDLE;

}  // namespace rkchain::model_test

// SPDX-License-Identifier: MIT
//
// A chain as somebody might hand it over, through recogniser and checker.  What they accept runs on
// the software NPU, as it was given and as we emit it:
//   - the emitted chain touches only what its extents say, inside the declared buffers;
//   - its result is the same whatever an earlier client left in CBUF and in the shadow registers;
//   - it is what the given chain computes, wherever that does not depend on such remains.
#include "fuzz/given.hpp"
#include "fuzz/world.hpp"

namespace rkchain::fuzz {
namespace {

constexpr u64 kMostMacs = u64{1} << 19;   // of a chain that is executed
constexpr u64 kMostBytes = u64{1} << 20;  // of a buffer
constexpr u32 kDoubts = 24;               // more pasts for a given chain before it is believed

// ---- planted faults, so that a test can see that faults are found ----

#ifdef RKCHAIN_FUZZ_PLANTED
bool planted(const char* fault) {
  const char* wanted = std::getenv("RKCHAIN_FUZZ_PLANTED");
  return wanted != nullptr && std::strcmp(wanted, fault) == 0;
}
#else
constexpr bool planted(const char*) { return false; }
#endif

// As if the recogniser had taken a program that computes fewer columns for one of N.
void plant_columns(u64* body, u32 words, const rkc_matmul& d) {
  const u32 group = rkc_kernel_group(d.type);
  if (d.n == group) return;
  for (u32 i = 0; i < words; i++) {
    const u64 one = u64{1} << 16;
    switch (rkc_entry_reg(body[i])) {
      case 0x1030:
        body[i] -= one * d.k * group * rkc_in_bytes(d.type);
        break;
      case 0x1038:
      case 0x3018:
      case 0x4058:
        body[i] -= one * group;
        break;
      case 0x403c:
        body[i] -= one * group * 0x10001;
        break;
      default:
        break;
    }
  }
}

// As if the generator fetched half of what it consumes, or wrote beyond its output.
void plant_in_emitted(u64* body) {
  if (planted("stale")) body[13] = rkc_entry(0x0201, 0x1034, rkc_entry_value(body[13]) / 2);
  if (planted("outside")) body[RKC_WORD_C] += u64{16} << 16;
}

// ---- one input ----

struct Counts {
  u64 inputs, recognised, accepted, executed, whole, blocks, independent;
} counts;

// How a given chain and ours compare: equal everywhere; equal wherever the given one does not
// depend on what was there before, which it does; or neither.
enum class Verdict { kEqual, kDepends, kDiffers };

class Case {
 public:
  explicit Case(Given given) : g_(std::move(given)), words_(g_.words) {
    p_ = {words_.data(), words_.size(), g_.count, g_.stride, g_.body, g_.link};
  }

  void judge() {
    counts.inputs++;
    for (const auto& d : g_.meant) check_descriptor(d);
    if (!recognise()) return;
    counts.recognised++;
    check_relayout();
    if (!check()) return;
    counts.accepted++;
    for (const auto& d : blocks_) {
      extents_.emplace_back();
      rkc_matmul_extents(&d, &extents_.back());
    }
    check_extents();
    if (too_large()) return;
    counts.executed++;
    execute();
  }

 private:
  static void check_descriptor(const rkc_matmul& d) {
    rkc_err err = unset();
    const u32 ret = rkc_matmul_check(&d, &err);
    if (ret != RKC_OK) require_refusal(ret, err, 0, 0);
  }

  bool recognise() {
    rkc_err err = unset();
    u32 ret = rkc_program_shape(&p_, &err);
    if (ret != RKC_OK) {
      require_refusal(ret, err, 0, 0);
      return false;
    }
    const auto recogniser = std::make_unique<rkc_recogniser>();
    for (u32 i = 0; i < p_.count; i++) {
      rkc_matmul d{};
      err = unset();
      ret = rkc_program_block(recogniser.get(), &p_, i, &d, &err);
      require_no_memory(p_, i, ret, d, err);
      if (ret != RKC_OK) {
        const u64 rest = p_.nwords - u64{i} * p_.stride;
        require_refusal(ret, err, i, i + 1 == p_.count ? rest : p_.stride);
        return false;
      }
      require_inverse(recogniser.get(), d);
      blocks_.push_back(d);
    }
    return true;
  }

  // Converting is recognising and emitting.
  void check_relayout() {
    rkc_measure m{};
    rkc_err err = unset();
    const u32 count = static_cast<u32>(blocks_.size());
    const u32 ret = rkc_chain_measure(g_.mode, count, &m, &err);
    if (ret != RKC_OK) {
      require_refusal(ret, err, 0, 0);
      return;
    }
    const auto recogniser = std::make_unique<rkc_recogniser>();
    const Words emitted(m.words);
    const Words converted(m.words);
    const u32 emit =
        rkc_chain_emit(g_.mode, blocks_.data(), count, g_.iova, emitted.data(), nullptr);
    require(rkc_chain_relayout(recogniser.get(), &p_, g_.mode, g_.iova, converted.data(),
                               nullptr) == emit,
            "converting is refused when emitting is");
    require(emitted == converted, "converting gives what emitting gives");
  }

  bool check() {
    const u32 nbufs = static_cast<u32>(g_.bufs.size());
    rkc_err err = unset();
    u32 ret = rkc_bufs_check(g_.bufs.data(), nbufs, &err);
    if (ret != RKC_OK) {
      require_refusal(ret, err, 0, nbufs);
      return false;
    }
    err = unset();
    ret = rkc_chain_check(blocks_.data(), static_cast<u32>(blocks_.size()), g_.bufs.data(), nbufs,
                          g_.ordered, &checked_, &err);
    if (ret != RKC_OK) {
      require(err.block < blocks_.size(), "a refusal names its block");
      require_refusal(ret, err, err.block, 0);
      return false;
    }
    return true;
  }

  void check_extents() const {
    const auto declared = [this](const rkc_extent& x, u32 flag) {
      return std::any_of(g_.bufs.begin(), g_.bufs.end(), [&](const rkc_buf& buf) {
        return (buf.flags & flag) != 0 && x.start >= buf.iova && x.len <= buf.size &&
               x.start - buf.iova <= buf.size - x.len;
      });
    };
    for (const auto& x : extents_) {
      require(declared(x.a, RKC_BUF_READ), "accepted features are declared");
      require(declared(x.b, RKC_BUF_READ), "accepted weights are declared");
      require(declared(x.c, RKC_BUF_WRITE), "accepted outputs are declared");
    }
  }

  [[nodiscard]] bool too_large() const {
    return checked_.cost.macs > kMostMacs ||
           std::any_of(g_.bufs.begin(), g_.bufs.end(),
                       [](const rkc_buf& buf) { return buf.size > kMostBytes; });
  }

  // ---- execution ----

  static World& world() {
    static World world;
    return world;
  }

  // Runs what we emit.  @return the memory after it
  Memory run_emitted(u32 mode, const rkc_matmul* blocks, u32 count, Memory memory) {
    rkc_measure m{};
    rkc_err err = unset();
    // The input's address may be too high for this many words.
    const u32 iova = std::min(g_.iova, 0xfff00000U);
    require(rkc_chain_measure(mode, count, &m, &err) == RKC_OK, "a few blocks fit every mode");
    const Words words((m.words + 1) & ~1U);
    require(rkc_chain_emit(mode, blocks, count, iova, words.data(), &err) == RKC_OK,
            "what was accepted can be emitted");
    for (u32 i = 0; i < count; i++) plant_in_emitted(words.data() + u64{i} * m.stride);
    for (u32 i = 0; i < m.submits; i++) {
      const u64* at = words.data() + u64{i} * m.stride;
      const u64* end = m.submits > 1 ? at + m.stride : words.data() + words.size();
      require(world().run(memory, Words(std::vector<u64>(at, end)), iova + 8 * i * m.stride,
                          {m.pc_amount, m.tasks}),
              "what we emit runs to its end");
    }
    return memory;
  }

  void execute() {
    const Memory before(g_.bufs);
    const u32 count = static_cast<u32>(blocks_.size());
    if (count <= RKC_WAIT_MAX) {
      world().confine(&extents_);
      world().use(0);
      const u64 macs = npu_counters(world().core())->macs;
      const Memory after = run_emitted(g_.mode, blocks_.data(), count, before);
      require(npu_counters(world().core())->macs - macs == checked_.cost.macs,
              "the checker counts what is computed");

      world().use(1);
      // Where no order is promised, an output may be as late as it likes.
      if (!g_.ordered) npu_knobs(world().core())->rawlate = 1;
      require(run_emitted(g_.mode, blocks_.data(), count, before) == after,
              "what we emit does not depend on what was there before");
      if (checked_.replayable) {
        world().use(0);
        require(run_emitted(g_.mode, blocks_.data(), count, after) == after,
                "what may be replayed gives the same again");
      }
      world().confine(nullptr);
      if (launches_as_meant()) {
        const Verdict whole = compare_whole(before, after);
        if (whole == Verdict::kEqual) return;
        // A block may depend on what one before it left in CBUF: then it does so alone, too.
        require(!compare_blocks(before) || whole != Verdict::kDiffers,
                "what we emit computes what was given");
        return;
      }
    }
    compare_blocks(before);
  }

  // ---- the given chain as one job ----

  [[nodiscard]] u32 words_of(u32 block) const {
    return block + 1 == p_.count ? static_cast<u32>(p_.nwords - u64{block} * p_.stride) : p_.stride;
  }

  // Fetch amount for a program of so many words.
  static u32 amount(u32 words) { return (words + 1) / 2 - 1; }

  // A split of CBUF may be anything, as ours takes its place.  One that leaves features or weights
  // too little room makes a block read the ones for the others: there is nothing to compare with.
  [[nodiscard]] bool splits_well(u32 block) const {
    constexpr u32 kBank = NPU_CBUF_BANK_BYTES;
    const u64* words = words_.data() + u64{block} * p_.stride;
    const rkc_matmul& d = blocks_[block];
    const u32 bytes = d.k * rkc_in_bytes(d.type);
    u32 split = 0;
    for (u32 k = 0; k < p_.body; k++) {
      if (rkc_entry_reg(words[k]) == 0x1040) split = rkc_entry_value(words[k]);
    }
    return (split & 15) * kBank >= bytes * (d.layout == RKC_FLAT ? 1 : d.m) &&
           (split >> 4 & 15) * kBank >= bytes * rkc_kernel_group(d.type);
  }

  // Does the given chain launch each of its blocks once, in order, and wait for it?
  [[nodiscard]] bool launches_as_meant() const {
    if (p_.count > 1 && p_.stride % 2 != 0) return false;
    for (u32 i = 0; i < p_.count; i++) {
      const u64* words = words_.data() + u64{i} * p_.stride;
      const bool last = i + 1 == p_.count;
      bool pointer = false, wait = false;
      u32 launches = 0;
      u64 next = 0, fetch = 0;
      for (u32 k = 0; k < words_of(i); k++) {
        const u32 reg = rkc_entry_reg(words[k]);
        const u32 value = rkc_entry_value(words[k]);
        switch (rkc_entry_target(words[k])) {
          case RKC_TARGET_DPU:
            pointer |= reg == 0x4004;
            break;
          case RKC_TARGET_OP_ENABLE:
            launches++;
            wait = (value & 2) != 0;
            break;
          case RKC_TARGET_PC:
            (reg == RKC_PC_ADDRESS ? next : fetch) = value;
            break;
          default:
            break;
        }
      }
      if (!pointer || launches != 1 || !splits_well(i)) return false;
      if (!last && !p_.link && !wait) return false;
      if (!last && p_.link &&
          (next != g_.iova + 8ULL * (i + 1) * p_.stride || fetch != amount(words_of(i + 1)))) {
        return false;
      }
    }
    return true;
  }

  bool run_whole(Memory& memory, u32 poison) {
    std::vector<u64> words(words_.data(), words_.data() + words_.size());
    if (planted("columns")) {
      for (u32 i = 0; i < p_.count; i++) {
        plant_columns(words.data() + u64{i} * p_.stride, p_.body, blocks_[i]);
      }
    }
    words.resize((words.size() + 1) & ~std::size_t{1});
    world().use(poison);
    const u32 fetched = p_.link ? words_of(0) : static_cast<u32>(words.size());
    return world().run(memory, Words(words), g_.iova, {amount(fetched), p_.link ? p_.count : 1});
  }

  Verdict compare_whole(const Memory& before, const Memory& after) {
    counts.whole++;
    return compare(before, after,
                   [this](Memory& memory, u32 poison) { return run_whole(memory, poison); });
  }

  // ---- the given chain, one body at a time ----

  bool run_body(Memory& memory, u32 i, u32 poison) {
    const u64* words = words_.data() + u64{i} * p_.stride;
    std::vector<u64> program(words, words + p_.body);
    if (planted("columns")) plant_columns(program.data(), p_.body, blocks_[i]);
    const auto end = tail(0, 0);
    program.insert(program.end(), end.begin(), end.end());
    program.resize((program.size() + 1) & ~std::size_t{1});
    world().use(poison);
    return world().run(memory, Words(program), 0x08000000,
                       {amount(static_cast<u32>(program.size())), 1});
  }

  // @return whether none depends on what was there before
  bool compare_blocks(Memory memory) {
    bool independent = true;
    for (u32 i = 0; i < p_.count; i++) {
      counts.blocks++;
      world().use(0);
      const Memory after = run_emitted(RKC_SINGLE, &blocks_[i], 1, memory);
      const auto run = [this, i](Memory& given, u32 poison) { return run_body(given, i, poison); };
      const Verdict verdict = splits_well(i) ? compare(memory, after, run) : Verdict::kDepends;
      require(verdict != Verdict::kDiffers, "what we emit computes what was given");
      independent &= verdict == Verdict::kEqual;
      memory = after;
    }
    return independent;
  }

  // ---- comparison ----

  // Where the given one gives the same whatever was there before, does ours?
  template <typename Run>
  static Verdict compare(const Memory& before, const Memory& ours, const Run& run) {
    std::vector<Memory> given;
    for (u32 poison = 0; poison < World::kPoisons; poison++) {
      given.push_back(before);
      if (!run(given.back(), poison)) return Verdict::kDepends;
    }
    const bool independent = given[0] == given[1];
    counts.independent += independent;
    if (agree(given, ours)) return independent ? Verdict::kEqual : Verdict::kDepends;
    // Two that depend on what was there may be equal by chance; all of these are not.
    for (u32 doubt = 0; doubt < kDoubts; doubt++) {
      given.push_back(before);
      if (!run(given.back(), World::kPoisons + doubt)) return Verdict::kDepends;
    }
    return agree(given, ours) ? Verdict::kDepends : Verdict::kDiffers;
  }

  // In each 16 bytes: are all of @p given alike and ours not?
  static bool agree(const std::vector<Memory>& given, const Memory& ours) {
    for (std::size_t b = 0; b < ours.buffers().size(); b++) {
      const auto& mine = ours.buffers()[b].bytes;
      for (std::size_t at = 0; at < mine.size(); at += 16) {
        const std::size_t len = std::min<std::size_t>(16, mine.size() - at);
        const auto same = [&](const std::vector<std::uint8_t>& bytes) {
          return std::memcmp(bytes.data() + at, given[0].buffers()[b].bytes.data() + at, len) == 0;
        };
        if (!same(mine) && std::all_of(given.begin(), given.end(), [&](const Memory& memory) {
              return same(memory.buffers()[b].bytes);
            })) {
          return false;
        }
      }
    }
    return true;
  }

  Given g_;
  Words words_;
  rkc_program p_{};
  std::vector<rkc_matmul> blocks_;
  std::vector<rkc_extents> extents_;
  rkc_checked checked_{};
};

void print_counts() {
  std::fprintf(stderr,
               "inputs %llu, recognised %llu, accepted %llu, executed %llu; compared: %llu chains, "
               "%llu blocks, %llu of both independent of the past\n",
               static_cast<unsigned long long>(counts.inputs),
               static_cast<unsigned long long>(counts.recognised),
               static_cast<unsigned long long>(counts.accepted),
               static_cast<unsigned long long>(counts.executed),
               static_cast<unsigned long long>(counts.whole),
               static_cast<unsigned long long>(counts.blocks),
               static_cast<unsigned long long>(counts.independent));
}

}  // namespace
}  // namespace rkchain::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (std::getenv("RKCHAIN_FUZZ_COUNTS") != nullptr) std::atexit(rkchain::fuzz::print_counts);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rkchain::fuzz::Input in(data, size);
  rkchain::fuzz::Case(rkchain::fuzz::Builder(in).build()).judge();
  return 0;
}

// SPDX-License-Identifier: MIT
//
// Words that mean nothing, or a program with any of its bits changed, in heap blocks of exactly
// their size: detection, recognition and conversion stay inside them and refuse in good order.
#include "fuzz/samples.hpp"

namespace rkchain::fuzz {
namespace {

constexpr u64 kIova = 0x08000000;

void recognise(rkc_recogniser* r, const rkc_program& p) {
  rkc_err err = unset();
  u32 ret = rkc_program_shape(&p, &err);
  if (ret != RKC_OK) {
    require_refusal(ret, err, 0, 0);
    return;
  }
  for (u32 i = 0; i < p.count; i++) {
    rkc_matmul d{};
    err = unset();
    ret = rkc_program_block(r, &p, i, &d, &err);
    require_no_memory(p, i, ret, d, err);
    if (ret == RKC_OK) {
      require_inverse(r, d);
      continue;
    }
    const u64 rest = p.nwords - u64{i} * p.stride;
    require_refusal(ret, err, i, i + 1 == p.count ? rest : p.stride);
    break;
  }
  // One that is refused is refused alike for every mode.
  for (u32 mode = ret == RKC_OK ? 0 : RKC_LINK; mode <= RKC_MODES; mode++) {
    rkc_measure m{};
    const Words out(rkc_chain_measure(mode, p.count, &m, nullptr) == RKC_OK ? m.words : 0);
    err = unset();
    const u32 got = rkc_chain_relayout(r, &p, mode, kIova, out.data(), &err);
    if (got != RKC_OK) {
      require_refusal(got, err, err.block, p.nwords);
      continue;
    }
    require(ret == RKC_OK, "what is converted has been recognised");
    rkc_program again{};
    require(rkc_program_detect(out.data(), out.size(), &again) == (p.count > 1 ? mode : RKC_SINGLE),
            "what was converted is detected");
    require(again.count == p.count, "what was converted has as many blocks");
  }
}

void judge(Input& in) {
  const u32 form = in.byte();
  const u32 body = in.half();
  const u32 stride = in.half();
  const u32 count = in.byte();
  std::vector<u64> words;
  if (form % 2 != 0) {
    std::vector<rkc_matmul> blocks(1 + (form >> 1) % 4);
    for (auto& d : blocks) d = any_matmul(in);
    rkc_measure m{};
    const u32 mode = form >> 3 & 3;
    rkc_chain_measure(mode, static_cast<u32>(blocks.size()), &m, nullptr);
    words.resize(m.words);
    rkc_chain_emit(mode, blocks.data(), static_cast<u32>(blocks.size()), kIova, words.data(),
                   nullptr);
    if ((form & 32) != 0) words.resize(words.size() - in.below(static_cast<u32>(words.size())));
    for (u32 at = in.byte(); in.left() != 0; at += 1 + in.byte()) {
      words[at % words.size()] ^= in.entry();
    }
  } else {
    while (in.left() >= 8) words.push_back(in.entry());
  }

  const Words exact(words);
  const auto recogniser = std::make_unique<rkc_recogniser>();
  rkc_program p{};
  if (rkc_program_detect(exact.data(), exact.size(), &p) != RKC_MODES) {
    require(p.words == exact.data() && p.nwords == exact.size() && p.count != 0 && p.body != 0,
            "what is detected has blocks");
    recognise(recogniser.get(), p);
  }
  recognise(recogniser.get(), {exact.data(), exact.size(), count, stride, body, (form & 64) != 0});

  rkc_matmul d{};
  rkc_err err = unset();
  const u32 total = static_cast<u32>(exact.size());
  const u32 ret =
      rkc_recognise(recogniser.get(), exact.data(), body, total, (form & 64) != 0, &d, &err);
  if (ret == RKC_OK) {
    require_inverse(recogniser.get(), d);
  } else {
    require_refusal(ret, err, 0, total);
  }
}

}  // namespace
}  // namespace rkchain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rkchain::fuzz::Input in(data, size);
  rkchain::fuzz::judge(in);
  return 0;
}

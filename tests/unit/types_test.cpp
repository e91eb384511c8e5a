// SPDX-License-Identifier: MIT
// fp16 conversion, names, and the sentences that refusals become.
#include "rkchain/types.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kmod/core/chain.h"
#include "rkchain/error.hpp"
#include "src/format.hpp"

namespace rkchain {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Half, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half value{static_cast<std::uint16_t>(bits)};
    const bool nan = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0;
    if (nan) {
      EXPECT_TRUE(std::isnan(to_float(value)));
      EXPECT_EQ(to_half(to_float(value)).bits, bits | 0x200);
    } else {
      ASSERT_EQ(to_half(to_float(value)), value) << std::hex << bits;
    }
  }
}

TEST(Half, ToFloatIsExact) {
  EXPECT_EQ(to_float({0x3c00}), 1.0F);
  EXPECT_EQ(to_float({0xc000}), -2.0F);
  EXPECT_EQ(to_float({0x7bff}), 65504.0F);
  EXPECT_EQ(to_float({0x0400}), std::ldexp(1.0F, -14));
  EXPECT_EQ(to_float({0x03ff}), std::ldexp(1023.0F, -24));
  EXPECT_EQ(to_float({0x0001}), std::ldexp(1.0F, -24));
  EXPECT_EQ(to_float({0x7c00}), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::signbit(to_float({0x8000})));
}

TEST(Half, RoundsBetweenNeighboursToNearestAndTiesToEven) {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = to_float({bits});
    const float high = to_float({static_cast<std::uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;  // exact
    const auto even = static_cast<std::uint16_t>(bits + (bits & 1));
    ASSERT_EQ(to_half(middle).bits, even) << std::hex << bits;
    ASSERT_EQ(to_half(std::nextafter(middle, 0.0F)).bits, bits) << std::hex << bits;
    ASSERT_EQ(to_half(std::nextafter(middle, 1e9F)).bits, bits + 1) << std::hex << bits;
    ASSERT_EQ(to_half(-middle).bits, even | 0x8000) << std::hex << bits;
  }
}

TEST(Half, OverflowsToInfinity) {
  EXPECT_EQ(to_half(65519.996F).bits, 0x7bff);
  EXPECT_EQ(to_half(65520.0F).bits, 0x7c00);
  EXPECT_EQ(to_half(-1e30F).bits, 0xfc00);
  EXPECT_EQ(to_half(std::numeric_limits<float>::infinity()).bits, 0x7c00);
}

TEST(Half, UnderflowsToSignedZero) {
  EXPECT_EQ(to_half(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(to_half(-1e-30F).bits, 0x8000);
}

TEST(Half, NanStaysNan) {
  EXPECT_TRUE(std::isnan(to_float(to_half(std::bit_cast<float>(0x7f800001U)))));
  EXPECT_TRUE(std::isnan(to_float(to_half(std::bit_cast<float>(0xffffffffU)))));
}

TEST(Names, AreThoseOfTheEnumerators) {
  EXPECT_EQ(name(Type::i8_i8), "i8_i8");
  EXPECT_EQ(name(Type::f16_f32), "f16_f32");
  EXPECT_EQ(name(Layout::native), "native");
  EXPECT_EQ(name(Strategy::fan_out), "fan_out");
  EXPECT_EQ(name(Errc::early_completion), "early_completion");
}

TEST(Names, ModesAreThoseOfTheCore) {
  for (const Mode mode : {Mode::wait, Mode::wait41, Mode::link, Mode::single}) {
    EXPECT_EQ(name(mode), rkc_mode_name(static_cast<u32>(mode)));
  }
}

TEST(Names, NoneForWhatDoesNotExist) {
  EXPECT_EQ(name(static_cast<Type>(99)), "?");
  EXPECT_EQ(name(static_cast<Errc>(99)), "unknown");
}

TEST(Refusal, NamesBlockWordRegisterFindingAndClause) {
  const rkc_err err{RKC_SHORT_WEIGHTS, 3, 12, 0x1030, 0x400, 0x800};
  EXPECT_EQ(detail::describe(err),
            "block 3, word 12, register 0x1030 (CNA WEIGHT_SIZE0): found 0x400, expected 0x800; "
            "weight size is not K * N");
}

TEST(Refusal, NamesTheLimitThatWasBroken) {
  EXPECT_THAT(detail::describe({RKC_M_TOO_BIG, 0, RKC_NO_WORD, 0x1020, 65, 64}),
              HasSubstr("found 65, the limit is 64; more rows (M) than one task takes"));
  EXPECT_THAT(detail::describe({RKC_K_ALIGN, 0, RKC_NO_WORD, 0x1024, 33, 32}),
              HasSubstr("found 33, expected a multiple of 32"));
  EXPECT_THAT(detail::describe({RKC_A_OUTSIDE, 1, RKC_NO_WORD, 0x1070, 0x1000, 0x2000}),
              HasSubstr("found the extent 0x1000..0x2000; features are not inside"));
  EXPECT_THAT(detail::describe({RKC_BUFFERS_OVERLAP, 0, 2, 0, 0x3000, 0x2000}),
              StartsWith("declared buffer 2: found 0x3000 and another at 0x2000"));
}

TEST(Refusal, EveryReasonEndsInItsClause) {
  for (u32 reason = 1; reason < 100; ++reason) {
    const std::string clause = rkc_reason_text(reason);
    if (clause == rkc_reason_text(9999)) continue;
    const std::string text = detail::describe({reason, 0, 1, 0x1020, 5, 4});
    ASSERT_GE(text.size(), clause.size() + 10);
    EXPECT_EQ(text.substr(text.size() - clause.size()), clause);
  }
}

TEST(Refusal, BecomesAnErrorWithItsPosition) {
  const Error error = detail::refusal({RKC_JUMP, 7, 109, 0x10, 0x1234, 0}, "chain");
  EXPECT_EQ(error.code(), Errc::check_failed);
  EXPECT_EQ(error.reason(), u32{RKC_JUMP});
  EXPECT_EQ(error.block(), 7U);
  EXPECT_EQ(error.word(), 109U);
  EXPECT_THAT(error.what(), StartsWith("chain: block 7, word 109, register 0x0010"));
}

}  // namespace
}  // namespace rkchain

// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * fp16 with integers only, as a kernel has no floating point.
 *
 * How silicon rounds while it accumulates is not public.  The model defines the
 * result as the exact sum, rounded once to fp32.  Every finite fp16 is a
 * multiple of 2^-24 below 2^16, so products are multiples of 2^-48 below 2^32,
 * and 2^14 of them fit 128 bits easily.
 *
 * What silicon does with NaN, infinity, subnormals and the sign of zero is not
 * known.  Here: a NaN, infinity times zero, or infinities of both signs give
 * 0x7fc00000; other infinities stay; subnormals count; a zero sum is +0.
 */
#include "npu_core.h"

#define F16_EXPONENT(h)	(((h) >> 10) & 0x1f)
#define F16_MANTISSA(h)	((h) & 0x3ff)
#define F16_SPECIAL	0x1f
#define SAW_NAN		1u
#define SAW_POSITIVE	2u
#define SAW_NEGATIVE	4u
#define F32_INFINITY	0x7f800000u
#define F32_NAN		0x7fc00000u

/* Drops the low @shift bits (1 to 127) of a magnitude, to nearest even. */
static npu_u128 round_off(npu_u128 value, u32 shift)
{
	npu_u128 kept = value >> shift;
	npu_u128 rest = value - (kept << shift);
	npu_u128 half = (npu_u128)1 << (shift - 1);

	if (rest > half || (rest == half && (kept & 1)))
		kept++;
	return kept;
}

static u32 top_bit(npu_u128 value)
{
	u64 high = (u64)(value >> 64);

	return high ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll((u64)value);
}

u32 npu_f16_to_f32(u16 h)
{
	u32 sign = (u32)(h & 0x8000) << 16;
	u32 exponent = F16_EXPONENT(h);
	u32 mantissa = F16_MANTISSA(h);

	if (exponent == F16_SPECIAL)
		return sign | (mantissa ? F32_NAN : F32_INFINITY) | mantissa << 13;
	if (!exponent) {
		if (!mantissa)
			return sign;
		/* A subnormal is an ordinary fp32. */
		exponent = 1;
		while (!(mantissa & 0x400)) {
			mantissa <<= 1;
			exponent--;
		}
	}
	return sign | (exponent + 112) << 23 | (mantissa & 0x3ff) << 13;
}

u16 npu_f32_to_f16(u32 f)
{
	u32 sign = (f >> 16) & 0x8000;
	u32 exponent = (f >> 23) & 0xff;
	u32 mantissa = f & 0x7fffff;
	u32 h;

	if (exponent == 0xff)
		return sign | (mantissa ? 0x7e00 | mantissa >> 13 : 0x7c00);
	/* Below half of the smallest subnormal, 2^-25; fp32 subnormals are. */
	if (exponent < 102)
		return sign;
	if (exponent < 113)
		return sign | (u32)round_off(mantissa | 0x800000, 126 - exponent);
	/* A carry out of the mantissa rightly counts the exponent up, to infinity as well. */
	h = (u32)round_off((exponent - 112) << 23 | mantissa, 13);
	return sign | (h > 0x7c00 ? 0x7c00 : h);
}

/* In units of 2^-24; 0 for NaN and infinity. */
static s64 to_fixed(u16 h)
{
	u32 exponent = F16_EXPONENT(h);
	s64 value = F16_MANTISSA(h);

	if (exponent == F16_SPECIAL)
		return 0;
	if (exponent)
		value = (value | 0x400) << (exponent - 1);
	return h & 0x8000 ? -value : value;
}

static int is_special(u16 h)
{
	return F16_EXPONENT(h) == F16_SPECIAL;
}

/* What a product adds to the SAW_* of a sum. */
static u32 product_saw(u16 a, u16 b)
{
	int nan_a = is_special(a) && F16_MANTISSA(a);
	int nan_b = is_special(b) && F16_MANTISSA(b);

	if (!is_special(a) && !is_special(b))
		return 0;
	if (nan_a || nan_b || !(a & 0x7fff) || !(b & 0x7fff))
		return SAW_NAN;
	return (a ^ b) & 0x8000 ? SAW_NEGATIVE : SAW_POSITIVE;
}

static u32 saw_to_f32(u32 saw)
{
	if (saw == SAW_POSITIVE)
		return F32_INFINITY;
	if (saw == SAW_NEGATIVE)
		return 0x80000000u | F32_INFINITY;
	return F32_NAN;
}

/* A sum in units of 2^-48. */
static u32 sum_to_f32(npu_s128 sum)
{
	u32 sign = sum < 0 ? 0x80000000u : 0;
	npu_u128 value = sum < 0 ? -(npu_u128)sum : (npu_u128)sum;
	u32 top, mantissa;

	if (!value)
		return 0;
	/* 2^-48 to 2^79: always a normal fp32. */
	top = top_bit(value);
	if (top > 23)
		mantissa = (u32)round_off(value, top - 23);
	else
		mantissa = (u32)value << (23 - top);
	/* The implicit bit, and a carry beyond it, add to the exponent. */
	return sign + ((top - 48 + 127 - 1) << 23) + mantissa;
}

static u16 f16_at(const u8 *p, u32 i)
{
	u16 h;

	__builtin_memcpy(&h, p + 2 * i, 2);
	return h;
}

/* 32 values in fixed point. Returns whether there was a NaN or infinity. */
static u32 decode(s64 *fixed_point, const u8 *p)
{
	u32 special = 0, i;

	for (i = 0; i < NPU_BLOCK_CHANNELS; i++) {
		fixed_point[i] = to_fixed(f16_at(p, i));
		special |= is_special(f16_at(p, i));
	}
	return special;
}

static u32 saw_anything(const struct npu_core *core, const struct npu_op *op, u32 at,
			const u8 *weights, u32 kernel)
{
	u32 saw = 0, block, i;

	for (block = 0; block < op->k / NPU_BLOCK_CHANNELS; block++) {
		const u8 *f = npu_feature_block(core, op, at, block);
		const u8 *w = npu_weight_block(core, op, weights, block) +
			      kernel * NPU_BLOCK_CHANNELS * 2;

		for (i = 0; i < NPU_BLOCK_CHANNELS; i++)
			saw |= product_saw(f16_at(f, i), f16_at(w, i));
	}
	return saw;
}

void npu_mac_f16(struct npu_core *core, const struct npu_op *op, u32 at, u32 stride,
		 const u8 *weights, u32 pixels, s32 acc[][NPU_ACC_KERNELS])
{
	u32 special = 0, pixel, block, n, i;

	memset(core->sum, 0, sizeof(core->sum));
	for (block = 0; block < op->k / NPU_BLOCK_CHANNELS; block++) {
		const u8 *w = npu_weight_block(core, op, weights, block);

		for (n = 0; n < NPU_F16_KERNELS; n++)
			special |= decode(core->fixed_weight[n], w + n * NPU_BLOCK_CHANNELS * 2);
		for (pixel = 0; pixel < pixels; pixel++) {
			s64 *f = core->fixed_feature[pixel];

			special |= decode(f, npu_feature_block(core, op, at + pixel * stride,
							       block));
			for (n = 0; n < NPU_F16_KERNELS; n++) {
				npu_s128 sum = core->sum[pixel][n];

				for (i = 0; i < NPU_BLOCK_CHANNELS; i++)
					sum += (npu_s128)f[i] * core->fixed_weight[n][i];
				core->sum[pixel][n] = sum;
			}
		}
	}
	for (pixel = 0; pixel < pixels; pixel++)
		for (n = 0; n < NPU_F16_KERNELS; n++) {
			u32 saw = special ? saw_anything(core, op, at + pixel * stride, weights, n)
					  : 0;

			acc[pixel][n] = saw ? saw_to_f32(saw)
					    : sum_to_f32(core->sum[pixel][n]);
		}
}

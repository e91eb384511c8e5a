// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The matmul generator: descriptor -> limits, extents, register program.
 *
 * A matmul is a 1x1 convolution over an image of W x H pixels.  Row-major
 * (FLAT) memory is an image one pixel wide, M high; NATIVE memory one M wide,
 * one high.  The register formulas were derived from captures of silicon; the
 * golden vectors in tests/vectors hold the generator to them word for word.
 */
#include "matmul.h"
#include "entry.h"
#include "body.h"

#define TWO_POW_32	0x100000000ULL

u32 rkc_max_rows(u32 type, u32 k)
{
	u32 weight_banks;

	if (type >= RKC_TYPES || !k || k % RKC_K_MULTIPLE || k > RKC_K_MAX)
		return 0;
	/*
	 * fp16 with N of 16 or 32 and K = 1024 hangs above 128 rows; this limit
	 * (16 rows there) keeps far away from it.
	 */
	if (type >= RKC_F16_F32)
		return 16384 / k;
	if (k <= 512)
		return RKC_ROWS_MAX;
	if (k <= 1024)
		return 320;
	if (k <= 2048)
		return 128;
	if (k <= 4096)
		return 64;
	/* A kernel group takes K / 1024 banks, the features get the others. */
	weight_banks = (k + 1023) / 1024;
	return (RKC_CBUF_BANKS - weight_banks) * RKC_CBUF_BANK_BYTES / k;
}

static u32 check_extent(const struct rkc_extent *x, u32 reg, struct rkc_err *err)
{
	if (x->start % RKC_ADDR_MULTIPLE)
		return rkc_refuse(err, RKC_ADDR_ALIGN, RKC_NO_WORD, reg, x->start,
				  RKC_ADDR_MULTIPLE);
	if (x->start + x->len > TWO_POW_32)
		return rkc_refuse(err, RKC_ADDR_RANGE, RKC_NO_WORD, reg, x->start + x->len,
				  TWO_POW_32);
	return RKC_OK;
}

u32 rkc_matmul_check_addresses(const struct rkc_matmul *d, struct rkc_err *err)
{
	struct rkc_extents x;
	u32 ret;

	rkc_matmul_extents(d, &x);
	ret = check_extent(&x.a, 0x1070, err);
	if (!ret)
		ret = check_extent(&x.b, 0x1110, err);
	if (!ret)
		ret = check_extent(&x.c, 0x4020, err);
	return ret;
}

u32 rkc_matmul_check(const struct rkc_matmul *d, struct rkc_err *err)
{
	u32 rows;

	if (d->type >= RKC_TYPES)
		return rkc_refuse(err, RKC_BAD_TYPE, RKC_NO_WORD, 0x4010, d->type, RKC_TYPES - 1);
	if (d->layout >= RKC_LAYOUTS)
		return rkc_refuse(err, RKC_BAD_LAYOUT, RKC_NO_WORD, 0x100c, d->layout,
				  RKC_LAYOUTS - 1);
	if (!d->m)
		return rkc_refuse(err, RKC_M_ZERO, RKC_NO_WORD, 0x1020, 0, 1);
	if (!d->k || d->k > RKC_K_MAX)
		return rkc_refuse(err, RKC_K_RANGE, RKC_NO_WORD, 0x1024, d->k, RKC_K_MAX);
	if (d->k % RKC_K_MULTIPLE)
		return rkc_refuse(err, RKC_K_ALIGN, RKC_NO_WORD, 0x1024, d->k, RKC_K_MULTIPLE);
	if (!d->n || d->n > RKC_N_MAX)
		return rkc_refuse(err, RKC_N_RANGE, RKC_NO_WORD, 0x1038, d->n, RKC_N_MAX);
	if (d->n % rkc_kernel_group(d->type))
		return rkc_refuse(err, RKC_N_ALIGN, RKC_NO_WORD, 0x1038, d->n,
				  rkc_kernel_group(d->type));
	rows = rkc_max_rows(d->type, d->k);
	if (d->m > rows)
		return rkc_refuse(err, RKC_M_TOO_BIG, RKC_NO_WORD, 0x1020, d->m, rows);
	if (d->layout == RKC_SLICE) {
		if (d->m_total < d->m || d->m_total > RKC_ROWS_TOTAL_MAX)
			return rkc_refuse(err, RKC_ROWS_TOTAL, RKC_NO_WORD, 0x107c, d->m_total,
					  RKC_ROWS_TOTAL_MAX);
	} else if (d->m_total != d->m) {
		return rkc_refuse(err, RKC_ROWS_TOTAL, RKC_NO_WORD, 0x107c, d->m_total, d->m);
	}
	return rkc_matmul_check_addresses(d, err);
}

void rkc_matmul_extents(const struct rkc_matmul *d, struct rkc_extents *x)
{
	u64 a_bytes = (u64)d->m * d->k * rkc_in_bytes(d->type);
	u64 c_bytes = (u64)d->m * d->n * rkc_out_bytes(d->type);
	/* In 16-byte atoms, one tensor row holds: */
	u64 a_atoms = (u64)d->k * rkc_in_bytes(d->type) / 16;
	u64 c_atoms = (u64)d->n * rkc_out_bytes(d->type) / 16;

	x->a.start = d->a;
	x->b.start = d->b;
	x->c.start = d->c;
	/* K is a multiple of 32 and N of a kernel group: always whole 64 bytes. */
	x->b.len = (u64)d->k * d->n * rkc_in_bytes(d->type);
	switch (d->layout) {
	case RKC_SLICE:
		x->a.len = 16 * ((a_atoms - 1) * d->m_total + d->m);
		x->c.len = 16 * ((c_atoms - 1) * d->m_total + d->m);
		break;
	case RKC_NATIVE:
		/* The reader rounds H = 1 up to 4 image rows of M pixels. */
		x->a.len = a_bytes + 48ULL * d->m;
		x->c.len = c_bytes;
		break;
	default:
		x->a.len = a_bytes;
		x->c.len = c_bytes;
		break;
	}
}

/* Target and register of each word, value 0 where the descriptor decides it. */
#define E(target, reg, value) \
	((u64)(target) << 48 | (u64)(u32)(value) << 16 | (reg))
#define CNA(reg, value)		E(RKC_TARGET_CNA, reg, value)
#define CORE(reg, value)	E(RKC_TARGET_CORE, reg, value)
#define DPU(reg, value)		E(RKC_TARGET_DPU, reg, value)

const u64 rkc_body_template[RKC_BODY_WORDS] = {
	CNA(0x1040, 0), CNA(0x1104, 0), CNA(0x1100, 0), CNA(0x100c, 0),
	DPU(0x4004, 0xe),	/* without it a later block repeats the first one */
	CNA(0x100c, 0), CNA(0x1010, 0), CNA(0x1014, 0x9), CNA(0x1020, 0), CNA(0x1024, 0),
	CNA(0x1028, 0), CNA(0x102c, 0), CNA(0x1030, 0), CNA(0x1034, 0), CNA(0x1038, 0),
	CNA(0x1040, 0), CNA(0x1044, 0), CNA(0x104c, 0xb), CNA(0x1050, 0x10000),
	CNA(0x1054, 0x10000), CNA(0x1058, 0x10000), CNA(0x105c, 0x10000), CNA(0x1060, 0),
	CNA(0x1064, 0), CNA(0x1068, 0), CNA(0x1070, 0), CNA(0x1074, 0), CNA(0x1078, 0x000f000f),
	CNA(0x107c, 0), CNA(0x1080, 0), CNA(0x1084, 0), CNA(0x1088, 0), CNA(0x1100, 0),
	CNA(0x1104, 0), CNA(0x1110, 0), CNA(0x1140, 0), CNA(0x1144, 0), CNA(0x1148, 0),
	CNA(0x114c, 0), CNA(0x1150, 0), CNA(0x1154, 0), CNA(0x1158, 0), CNA(0x115c, 0),
	CNA(0x1160, 0), CNA(0x1164, 0), CNA(0x1168, 0), CNA(0x116c, 0), CNA(0x1170, 0),
	CNA(0x1174, 0), CNA(0x1178, 0), CNA(0x117c, 0), CNA(0x1180, 0), CNA(0x1184, 0),
	CORE(0x3010, 0), CORE(0x3014, 0), CORE(0x3018, 0), CORE(0x301c, 0), CORE(0x3030, 0),
	DPU(0x400c, 0x1e4), DPU(0x4010, 0), DPU(0x4014, 0), DPU(0x4020, 0), DPU(0x4024, 0),
	DPU(0x4030, 0), DPU(0x4034, 0), DPU(0x4038, 0), DPU(0x403c, 0), DPU(0x4040, 0x53),
	DPU(0x4044, 0), DPU(0x4048, 0), DPU(0x404c, 0), DPU(0x4050, 0), DPU(0x4054, 0),
	DPU(0x4058, 0), DPU(0x405c, 0), DPU(0x4060, 0x53), DPU(0x4064, 0), DPU(0x4068, 0),
	DPU(0x406c, 0), DPU(0x4070, 0x383), DPU(0x4074, 0), DPU(0x4078, 1), DPU(0x407c, 0),
	DPU(0x4080, 0), DPU(0x4084, 0), DPU(0x4088, 0), DPU(0x4090, 0), DPU(0x4094, 0),
	DPU(0x4098, 0), DPU(0x409c, 0), DPU(0x40a0, 0), DPU(0x40a4, 0), DPU(0x40a8, 0),
	DPU(0x40ac, 0), DPU(0x40c0, 0), DPU(0x40c4, 0), DPU(0x4100, 0), DPU(0x4104, 0),
	DPU(0x4108, 0), DPU(0x410c, 0), DPU(0x4110, 0), DPU(0x4114, 0), DPU(0x4118, 0),
	DPU(0x411c, 0), DPU(0x4120, 0), DPU(0x4124, 0), DPU(0x4128, 0), DPU(0x412c, 0),
};

/* What a type puts into registers; by enum rkc_type. */
static const struct {
	u8 precision;	/* 0 int8, 2 fp16 */
	u8 out;		/* 0x4010[31:29]: 0 int8, 2 fp16, 4 int32, 5 fp32 */
	u8 e;		/* surface groups of a kernel group, minus 1 */
	u8 bypass;	/* 0x4050 bit 1, as captured */
	u32 convert;	/* 0x4084: scale 1, bit 16 = fp32 to fp16 */
} type_regs[RKC_TYPES] = {
	[RKC_I8_I32] = { 0, 4, 7, 0, 0x1 },
	[RKC_I8_I8] = { 0, 0, 1, 0, 0x1 },
	[RKC_F16_F32] = { 2, 5, 3, 2, 0x1 },
	[RKC_F16_F16] = { 2, 2, 1, 2, 0x10001 },
};

void rkc_generate_image(const struct rkc_matmul *d, u32 w, u32 h, u64 *body)
{
	const u32 p = type_regs[d->type].precision;
	const u32 e = type_regs[d->type].e;
	const u32 es = rkc_in_bytes(d->type);
	const u32 k_bytes = d->k * es;
	const u32 cpa = 16 / rkc_out_bytes(d->type);
	const bool native = d->layout == RKC_NATIVE;
	const u32 conv = (u32)!native << 29 | p << 7 | p << 4;
	const u32 size = w << 16 | h;
	const u32 size_1 = (h - 1) << 16 | (w - 1);
	u32 banks = (d->m * k_bytes + RKC_CBUF_BANK_BYTES - 1) / RKC_CBUF_BANK_BYTES;
	u32 line, surf, dst, notch;

	if (banks > RKC_CBUF_BANKS - 1)
		banks = RKC_CBUF_BANKS - 1;
	banks |= (RKC_CBUF_BANKS - banks) << 4;

	switch (d->layout) {
	case RKC_SLICE:
		line = d->m_total;
		surf = d->m_total - d->m;
		dst = 16 * d->m_total;
		notch = 0;
		break;
	case RKC_NATIVE:
		line = 4 * w;
		surf = (w * h - 4 * w) & 0x0fffffff;	/* signed, 28 bits */
		dst = 16 * w * h;
		notch = 0;
		break;
	default:
		line = k_bytes / 16;
		surf = 0;
		dst = 16;
		notch = (d->n / cpa - 1) * 0x10001;
		break;
	}

	rkc_copy_words(body, rkc_body_template, RKC_BODY_WORDS);
	body[0] = CNA(0x1040, banks);
	body[3] = CNA(0x100c, conv);
	body[5] = CNA(0x100c, conv);
	body[6] = CNA(0x1010, (h + 1) << 4);
	body[8] = CNA(0x1020, size);
	body[9] = CNA(0x1024, (d->k - 1) << 16 | d->k);
	body[10] = CNA(0x1028, w);
	body[11] = CNA(0x102c, w * h);
	body[12] = CNA(0x1030, k_bytes * d->n);
	body[13] = CNA(0x1034, k_bytes);
	body[14] = CNA(0x1038, 0x01010000 | d->n);
	body[15] = CNA(0x1040, banks);
	body[16] = CNA(0x1044, (w * k_bytes + 63) / 64);
	body[RKC_WORD_A] = CNA(0x1070, d->a);
	body[28] = CNA(0x107c, line);
	body[29] = CNA(0x1080, surf);
	body[30] = CNA(0x1084, size);
	body[31] = CNA(0x1088, d->k);
	body[RKC_WORD_B] = CNA(0x1110, d->b);
	body[53] = CORE(0x3010, p << 8 | 1);
	body[54] = CORE(0x3014, size_1);
	body[55] = CORE(0x3018, d->n - 1);
	body[59] = DPU(0x4010, (u32)type_regs[d->type].out << 29 | p << 26 | p);
	body[RKC_WORD_C] = DPU(0x4020, d->c);
	body[62] = DPU(0x4024, dst);
	body[63] = DPU(0x4030, w - 1);
	body[64] = DPU(0x4034, h - 1);
	body[65] = DPU(0x4038, notch);
	body[66] = DPU(0x403c, (d->n - 1) * 0x10001);
	body[71] = DPU(0x4050, e << 8 | e << 5 | e << 2 | type_regs[d->type].bypass);
	body[73] = DPU(0x4058, d->n - 1);
	body[74] = DPU(0x405c, size_1);
	body[84] = DPU(0x4084, type_regs[d->type].convert);
	body[94] = DPU(0x40c0, (e + 1) * dst);
}

void rkc_generate(const struct rkc_matmul *d, u64 *body)
{
	if (d->layout == RKC_FLAT)
		rkc_generate_image(d, 1, d->m, body);
	else
		rkc_generate_image(d, d->m, 1, body);
}

void rkc_retarget(u64 *body, const struct rkc_matmul *d)
{
	body[RKC_WORD_A] = CNA(0x1070, d->a);
	body[RKC_WORD_B] = CNA(0x1110, d->b);
	body[RKC_WORD_C] = DPU(0x4020, d->c);
}

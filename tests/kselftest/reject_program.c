// SPDX-License-Identifier: MIT
/*
 * Reasons that speak of a block's words: what it computes, registers that no matmul
 * writes, values that it does not have.
 */
#include <errno.h>
#include <string.h>

#include "debug.h"
#include "reasons.h"
#include "subject.h"

static u64 cna(u32 reg, u32 value)
{
	return rkc_entry(RKC_TARGET_CNA, reg, value);
}

static u64 core(u32 reg, u32 value)
{
	return rkc_entry(RKC_TARGET_CORE, reg, value);
}

static u64 dpu(u32 reg, u32 value)
{
	return rkc_entry(RKC_TARGET_DPU, reg, value);
}

/* The last word of block 1 that writes @reg. */
static u32 last_write(const struct subject *s, u32 reg)
{
	for (u32 i = RKC_BODY_WORDS; i--;)
		if (rkc_entry_reg(s->words[STRIDE + i]) == reg)
			return i;
	FAIL("no word writes %#x", reg);
}

/* @word in the room behind block 1. */
static void refuses_extra(u32 reason, u64 word)
{
	struct subject s;

	begin(&s);
	accepted(&s);
	s.words[STRIDE + RKC_BODY_WORDS] = word;
	refused(&s, -EINVAL, reason, 1, RKC_BODY_WORDS);
	ASSERT_EQ(s.create.report.reg, rkc_entry_reg(word));
	reset(&s);
	accepted(&s);
}

/* @word instead of the one of block 1 that writes its register. */
static void refuses_value(u32 reason, u64 word)
{
	struct subject s;
	u32 at;

	begin(&s);
	at = last_write(&s, rkc_entry_reg(word));
	s.words[STRIDE + at] = word;
	refused(&s, -EINVAL, reason, 1, at);
	ASSERT_EQ(s.create.report.reg, rkc_entry_reg(word));
	ASSERT_EQ(s.create.report.value, rkc_entry_value(word));
	reset(&s);
	accepted(&s);
}

/* Block 1 is what the generator writes for @d, which it would not be asked for. */
static void refuses_shape(struct subject *s, u32 reason, const struct rkc_matmul *d, u32 reg,
			  u64 value, u64 limit)
{
	u32 at;

	put_block(s, 1, d);
	at = last_write(s, reg);
	refused(s, -EINVAL, reason, 1, at);
	ASSERT_EQ(s->create.report.reg, reg);
	ASSERT_EQ(s->create.report.value, value);
	ASSERT_EQ(s->create.report.limit, limit);
	reset(s);
	accepted(s);
}

static void refuses_size(u32 reason, u32 m, u32 k, u32 n, u32 reg, u64 value, u64 limit)
{
	struct rkc_matmul d;
	struct subject s;

	begin(&s);
	d = s.job.blocks[1];
	d.m = m;
	d.m_total = m;
	d.k = k;
	d.n = n;
	refuses_shape(&s, reason, &d, reg, value, limit);
}

/* ---- the shape that a block computes ---- */

/* No words say such a type or layout; the code that the module checks with does. */
void test_bad_type(void)
{
	struct rkc_matmul d = { .type = RKC_TYPES, .m = 1, .m_total = 1, .k = 32, .n = 32 };
	struct rkc_err err;

	ASSERT_EQ(rkc_matmul_check(&d, &err), RKCHAIN_REASON_BAD_TYPE);
	ASSERT_EQ(err.value, RKC_TYPES);
	d.type = RKC_I8_I32;
	ASSERT_EQ(rkc_matmul_check(&d, &err), 0);
}

void test_bad_layout(void)
{
	struct rkc_matmul d = { .layout = RKC_LAYOUTS, .m = 1, .m_total = 1, .k = 32, .n = 32 };
	struct rkc_err err;

	ASSERT_EQ(rkc_matmul_check(&d, &err), RKCHAIN_REASON_BAD_LAYOUT);
	ASSERT_EQ(err.value, RKC_LAYOUTS);
	d.layout = RKC_FLAT;
	ASSERT_EQ(rkc_matmul_check(&d, &err), 0);
}

void test_m_zero(void)
{
	refuses_size(RKCHAIN_REASON_M_ZERO, 0, 64, 96, 0x1020, 0, 1);
}

void test_m_too_big(void)
{
	refuses_size(RKCHAIN_REASON_M_TOO_BIG, 705, 512, 32, 0x1020, 705, 704);
	refuses_size(RKCHAIN_REASON_M_TOO_BIG, 4, 10752, 32, 0x1020, 4, 3);
}

void test_k_align(void)
{
	refuses_size(RKCHAIN_REASON_K_ALIGN, 4, 48, 96, 0x1024, 48, 32);
}

void test_k_range(void)
{
	refuses_size(RKCHAIN_REASON_K_RANGE, 1, RKC_K_MAX + 32, 32, 0x1024, RKC_K_MAX + 32,
		     RKC_K_MAX);
}

void test_n_align(void)
{
	refuses_size(RKCHAIN_REASON_N_ALIGN, 4, 64, 48, 0x1038, 48, 32);
}

void test_n_range(void)
{
	refuses_size(RKCHAIN_REASON_N_RANGE, 1, 32, 16384, 0x1038, 16384, RKC_N_MAX);
}

void test_rows_total(void)
{
	struct rkc_matmul d;
	struct subject s;

	begin(&s);
	d = s.job.blocks[1];
	d.layout = RKC_SLICE;
	d.m = 5;
	d.m_total = 4;
	refuses_shape(&s, RKCHAIN_REASON_ROWS_TOTAL, &d, 0x107c, 4, RKC_ROWS_TOTAL_MAX);
}

void test_addr_align(void)
{
	struct rkc_matmul d;
	struct subject s;

	begin(&s);
	d = s.job.blocks[1];
	d.a += 8;
	refuses_shape(&s, RKCHAIN_REASON_ADDR_ALIGN, &d, 0x1070, d.a, 16);
	d = s.job.blocks[1];
	d.b += 1;
	refuses_shape(&s, RKCHAIN_REASON_ADDR_ALIGN, &d, 0x1110, d.b, 16);
	d = s.job.blocks[1];
	d.c += 4;
	refuses_shape(&s, RKCHAIN_REASON_ADDR_ALIGN, &d, 0x4020, d.c, 16);
}

/* The end of an extent must not wrap around to somewhere low. */
void test_addr_range(void)
{
	struct rkc_extents x;
	struct rkc_matmul d;
	struct subject s;

	begin(&s);
	rkc_matmul_extents(&s.job.blocks[1], &x);
	d = s.job.blocks[1];
	d.a = FOUR_GIB - x.a.len + 16;
	refuses_shape(&s, RKCHAIN_REASON_ADDR_RANGE, &d, 0x1070, FOUR_GIB + 16, FOUR_GIB);
	d = s.job.blocks[1];
	d.b = FOUR_GIB - x.b.len + 16;
	refuses_shape(&s, RKCHAIN_REASON_ADDR_RANGE, &d, 0x1110, FOUR_GIB + 16, FOUR_GIB);
	d = s.job.blocks[1];
	d.c = FOUR_GIB - x.c.len + 16;
	refuses_shape(&s, RKCHAIN_REASON_ADDR_RANGE, &d, 0x4020, FOUR_GIB + 16, FOUR_GIB);
	/* In a row slice the rows lie far apart. */
	d = s.job.blocks[1];
	d.layout = RKC_SLICE;
	d.m_total = RKC_ROWS_TOTAL_MAX;
	put_block(&s, 1, &d);
	refused(&s, -EINVAL, RKCHAIN_REASON_ADDR_RANGE, 1, last_write(&s, 0x4020));
}

/* ---- words that no matmul program holds ---- */

void test_page_mismatch(void)
{
	refuses_extra(RKCHAIN_REASON_PAGE_MISMATCH, cna(0x4014, 0));
	refuses_extra(RKCHAIN_REASON_PAGE_MISMATCH, dpu(0x1070, 0));
}

void test_foreign_target(void)
{
	refuses_extra(RKCHAIN_REASON_FOREIGN_TARGET, rkc_entry(RKC_TARGET_DPU_RDMA, 0x5018, 0));
	refuses_extra(RKCHAIN_REASON_FOREIGN_TARGET, rkc_entry(RKC_TARGET_PPU, 0x6070, 0));
	refuses_extra(RKCHAIN_REASON_FOREIGN_TARGET, rkc_entry(RKC_TARGET_PPU_RDMA, 0x701c, 0));
	refuses_extra(RKCHAIN_REASON_FOREIGN_TARGET, rkc_entry(RKC_TARGET_RK3568, 0x2010, 0));
	refuses_extra(RKCHAIN_REASON_FOREIGN_TARGET, rkc_entry(0xffff, 0x1020, 0));
}

void test_unknown_reg(void)
{
	refuses_extra(RKCHAIN_REASON_UNKNOWN_REG, cna(0x1018, 0));
	refuses_extra(RKCHAIN_REASON_UNKNOWN_REG, cna(0x1021, 0));
	refuses_extra(RKCHAIN_REASON_UNKNOWN_REG, cna(0x1090, 0));
	refuses_extra(RKCHAIN_REASON_UNKNOWN_REG, core(0x300c, 0));
}

void test_jump(void)
{
	struct subject s;

	refuses_extra(RKCHAIN_REASON_JUMP, rkc_entry(RKC_TARGET_PC, RKC_PC_ADDRESS, 0x1000));
	refuses_extra(RKCHAIN_REASON_JUMP, rkc_entry(RKC_TARGET_PC, RKC_PC_AMOUNT, 0x37));

	/* In a tail, where a link stands in the link form; the last one names nothing. */
	begin(&s);
	s.words[STRIDE + BODY + 1] = rkc_entry(RKC_TARGET_PC, RKC_PC_ADDRESS, 0x1000);
	refused(&s, -EINVAL, RKCHAIN_REASON_JUMP, 1, BODY + 1);
	s.create.flags = RKCHAIN_CHAIN_LINK;
	accepted(&s);
	reset(&s);
	s.words[2 * STRIDE + BODY] = rkc_entry(RKC_TARGET_PC, RKC_PC_ADDRESS, 0x1000);
	s.create.flags = RKCHAIN_CHAIN_LINK;
	refused(&s, -EINVAL, RKCHAIN_REASON_JUMP, 2, BODY);
}

void test_base_address(void)
{
	struct subject s;

	refuses_extra(RKCHAIN_REASON_BASE_ADDRESS, rkc_entry(RKC_TARGET_PC, 0x34, 0));
	begin(&s);
	s.words[BODY] = rkc_entry(RKC_TARGET_PC, 0x34, 0x1000);
	refused(&s, -EINVAL, RKCHAIN_REASON_BASE_ADDRESS, 0, BODY);
}

void test_int_mask(void)
{
	refuses_extra(RKCHAIN_REASON_INT_MASK, rkc_entry(RKC_TARGET_PC, 0x20, 0x300));
	refuses_extra(RKCHAIN_REASON_INT_MASK, rkc_entry(RKC_TARGET_PC, 0x24, 0x1ffff));
}

void test_task_control(void)
{
	refuses_extra(RKCHAIN_REASON_TASK_CONTROL, rkc_entry(RKC_TARGET_PC, 0x30, 0x6001));
}

void test_pc_write(void)
{
	refuses_extra(RKCHAIN_REASON_PC_WRITE, rkc_entry(RKC_TARGET_PC, 0x8, 1));
	refuses_extra(RKCHAIN_REASON_PC_WRITE, rkc_entry(RKC_TARGET_PC, 0x2c, 0));
}

void test_unit_op_enable(void)
{
	refuses_extra(RKCHAIN_REASON_UNIT_OP_ENABLE, cna(0x1008, 1));
	refuses_extra(RKCHAIN_REASON_UNIT_OP_ENABLE, core(0x3008, 1));
	refuses_extra(RKCHAIN_REASON_UNIT_OP_ENABLE, dpu(0x4008, 1));
}

void test_pointer(void)
{
	refuses_extra(RKCHAIN_REASON_POINTER, cna(0x1004, 0xe));
	refuses_extra(RKCHAIN_REASON_POINTER, core(0x3004, 0xe));
	refuses_value(RKCHAIN_REASON_POINTER, dpu(0x4004, 0));
}

void test_bad_op_enable(void)
{
	struct subject s;

	refuses_extra(RKCHAIN_REASON_BAD_OP_ENABLE,
		      rkc_entry(RKC_TARGET_OP_ENABLE, RKC_PC_OP_ENABLE, RKC_OP_MATMUL));
	begin(&s);
	s.words[STRIDE + BODY] = rkc_entry(RKC_TARGET_OP_ENABLE, RKC_PC_OP_ENABLE, 0x1d);
	refused(&s, -EINVAL, RKCHAIN_REASON_BAD_OP_ENABLE, 1, BODY);
}

void test_bad_padding(void)
{
	struct subject s;

	refuses_extra(RKCHAIN_REASON_BAD_PADDING, 0x10000);
	begin(&s);
	s.words[STRIDE + BODY + 3] = cna(0x1020, 0);
	refused(&s, -EINVAL, RKCHAIN_REASON_BAD_PADDING, 1, BODY + 3);
}

/* ---- words of a matmul program with the wrong value ---- */

void test_missing_reg(void)
{
	static const u16 regs[] = {
		0x1020, 0x1024, 0x1030, 0x1070, 0x1110, 0x4020, 0x4024, 0x40c0,
	};
	struct subject s;

	begin(&s);
	for (u32 i = 0; i < ARRAY_SIZE(regs); i++) {
		s.words[STRIDE + last_write(&s, regs[i])] = 0;
		refused(&s, -EINVAL, RKCHAIN_REASON_MISSING_REG, 1, RKCHAIN_NO_WORD);
		ASSERT_EQ(s.create.report.reg, regs[i]);
		reset(&s);
	}
	accepted(&s);
}

void test_size_mismatch(void)
{
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, cna(0x1020, 1 << 16 | 5));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, cna(0x1084, 1 << 16 | 3));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, cna(0x1030, 64 * 96 + 64));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, cna(0x1038, 0x01010000 | 64));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, core(0x3018, 63));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, dpu(0x403c, 63 << 16 | 63));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, dpu(0x4058, 127));
}

void test_short_weights(void)
{
	refuses_value(RKCHAIN_REASON_SHORT_WEIGHTS, cna(0x1030, 64 * 96 - 64));
	refuses_value(RKCHAIN_REASON_SHORT_WEIGHTS, cna(0x1034, 32));
}

void test_cowork(void)
{
	refuses_value(RKCHAIN_REASON_COWORK, cna(0x1014, 0x10000009));
	refuses_value(RKCHAIN_REASON_COWORK, cna(0x1010, 5 << 4 | 1));
}

void test_cbuf_reuse(void)
{
	refuses_value(RKCHAIN_REASON_CBUF_REUSE, cna(0x1040, 0x10b1));
	refuses_value(RKCHAIN_REASON_CBUF_REUSE, cna(0x1040, 0x20b1));
}

void test_compression(void)
{
	refuses_value(RKCHAIN_REASON_COMPRESSION, cna(0x1100, 1));
	refuses_value(RKCHAIN_REASON_COMPRESSION, cna(0x1104, 1));
	refuses_value(RKCHAIN_REASON_COMPRESSION, cna(0x117c, 1));
}

void test_lut(void)
{
	refuses_value(RKCHAIN_REASON_LUT, dpu(0x4108, 1));
}

void test_stride(void)
{
	refuses_value(RKCHAIN_REASON_STRIDE, cna(0x107c, 8));
	refuses_value(RKCHAIN_REASON_STRIDE, cna(0x1080, 1));
	refuses_value(RKCHAIN_REASON_STRIDE, dpu(0x4024, 32));
	refuses_value(RKCHAIN_REASON_STRIDE, dpu(0x4038, 22 << 16 | 22));
	refuses_value(RKCHAIN_REASON_STRIDE, dpu(0x40c0, 0x100));
}

void test_precision(void)
{
	refuses_value(RKCHAIN_REASON_PRECISION, cna(0x100c, 0x20000000 | 2 << 7 | 2 << 4));
	refuses_value(RKCHAIN_REASON_PRECISION, core(0x3010, 0x201));
	refuses_value(RKCHAIN_REASON_PRECISION, dpu(0x4010, 0xa0000000));
}

void test_value(void)
{
	refuses_value(RKCHAIN_REASON_VALUE, cna(0x1060, 1));
	refuses_value(RKCHAIN_REASON_VALUE, dpu(0x4040, 0x52));
	refuses_value(RKCHAIN_REASON_VALUE, dpu(0x4084, 2));
}

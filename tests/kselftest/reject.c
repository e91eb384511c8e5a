// SPDX-License-Identifier: MIT
/*
 * A test for each reason of uapi/rkchain.h: the call fails with the right errno and
 * says why and where.  The Makefile makes the list from the header.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/udmabuf.h>

#include "debug.h"
#include "rig.h"

#define FOUR_GIB	0x100000000ULL
#define ANY		0xfffffffeU	/* block or word that is not certain */

static void expect(int ret, const struct rkchain_report *report, int error, u32 reason)
{
	if (ret == error && report->reason == reason)
		return;
	FAIL("%s, %u (%s), block %u, word %u, value %#llx, limit %#llx; not %s, %u (%s)",
	     ret ? strerror(-ret) : "success", report->reason, rkc_reason_name(report->reason),
	     report->block, report->word, report->value, report->limit, strerror(-error), reason,
	     rkc_reason_name(reason));
}

/* ---- a program of three blocks with room for one word more in each ---- */

#define BLOCKS		3
#define BODY		(RKC_BODY_WORDS + 1)
#define STRIDE		(BODY + RKC_TAIL_WORDS)

struct subject {
	int rk;
	struct rig_job job;
	struct rkchain_chain_create create;
	u64 words[BLOCKS * STRIDE];
};

static void put_block(struct subject *s, u32 i, const struct rkc_matmul *d)
{
	u64 *words = s->words + i * STRIDE;

	/* A word of zeros is a word that does nothing. */
	memset(words, 0, STRIDE * sizeof(*words));
	rkc_generate(d, words);
}

/* The good program again. */
static void reset(struct subject *s)
{
	rig_job_request(&s->job, &s->create);
	s->create.programs = (uintptr_t)s->words;
	s->create.size = sizeof(s->words);
	s->create.stride = STRIDE;
	s->create.body = BODY;
	for (u32 i = 0; i < BLOCKS; i++)
		put_block(s, i, &s->job.blocks[i]);
}

static void begin(struct subject *s)
{
	s->rk = rig_open();
	rig_job_shape(&s->job, s->rk, 4, 64, 96, BLOCKS);
	reset(s);
}

static void accepted(struct subject *s)
{
	int ret = rig_try_create(s->rk, &s->create);

	if (ret)
		FAIL("a good program: %s, %s, block %u, word %u", strerror(-ret),
		     rkc_reason_name(s->create.report.reason), s->create.report.block,
		     s->create.report.word);
	ASSERT_EQ(rig_try_destroy_chain(s->rk, s->create.id), 0);
}

static void refused(struct subject *s, int error, u32 reason, u32 block, u32 word)
{
	const struct rkchain_report *report = &s->create.report;

	expect(rig_try_create(s->rk, &s->create), report, error, reason);
	if (block != ANY)
		ASSERT_EQ(report->block, block);
	if (word != ANY)
		ASSERT_EQ(report->word, word);
}

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

static void test_bad_type(void)
{
	tap_skip("no words say such a type; unit test Limits type");
}

static void test_bad_layout(void)
{
	tap_skip("no words say such a layout; unit test Limits layout");
}

static void test_m_zero(void)
{
	refuses_size(RKCHAIN_REASON_M_ZERO, 0, 64, 96, 0x1020, 0, 1);
}

static void test_m_too_big(void)
{
	refuses_size(RKCHAIN_REASON_M_TOO_BIG, 705, 512, 32, 0x1020, 705, 704);
	refuses_size(RKCHAIN_REASON_M_TOO_BIG, 4, 10752, 32, 0x1020, 4, 3);
}

static void test_k_align(void)
{
	refuses_size(RKCHAIN_REASON_K_ALIGN, 4, 48, 96, 0x1024, 48, 32);
}

static void test_k_range(void)
{
	refuses_size(RKCHAIN_REASON_K_RANGE, 1, RKC_K_MAX + 32, 32, 0x1024, RKC_K_MAX + 32,
		     RKC_K_MAX);
}

static void test_n_align(void)
{
	refuses_size(RKCHAIN_REASON_N_ALIGN, 4, 64, 48, 0x1038, 48, 32);
}

static void test_n_range(void)
{
	refuses_size(RKCHAIN_REASON_N_RANGE, 1, 32, 16384, 0x1038, 16384, RKC_N_MAX);
}

static void test_rows_total(void)
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

static void test_addr_align(void)
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
static void test_addr_range(void)
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

static void test_page_mismatch(void)
{
	refuses_extra(RKCHAIN_REASON_PAGE_MISMATCH, cna(0x4014, 0));
	refuses_extra(RKCHAIN_REASON_PAGE_MISMATCH, dpu(0x1070, 0));
}

static void test_foreign_target(void)
{
	refuses_extra(RKCHAIN_REASON_FOREIGN_TARGET, rkc_entry(RKC_TARGET_DPU_RDMA, 0x5018, 0));
	refuses_extra(RKCHAIN_REASON_FOREIGN_TARGET, rkc_entry(RKC_TARGET_PPU, 0x6070, 0));
	refuses_extra(RKCHAIN_REASON_FOREIGN_TARGET, rkc_entry(RKC_TARGET_PPU_RDMA, 0x701c, 0));
	refuses_extra(RKCHAIN_REASON_FOREIGN_TARGET, rkc_entry(RKC_TARGET_RK3568, 0x2010, 0));
	refuses_extra(RKCHAIN_REASON_FOREIGN_TARGET, rkc_entry(0xffff, 0x1020, 0));
}

static void test_unknown_reg(void)
{
	refuses_extra(RKCHAIN_REASON_UNKNOWN_REG, cna(0x1018, 0));
	refuses_extra(RKCHAIN_REASON_UNKNOWN_REG, cna(0x1021, 0));
	refuses_extra(RKCHAIN_REASON_UNKNOWN_REG, cna(0x1090, 0));
	refuses_extra(RKCHAIN_REASON_UNKNOWN_REG, core(0x300c, 0));
}

static void test_jump(void)
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

static void test_base_address(void)
{
	struct subject s;

	refuses_extra(RKCHAIN_REASON_BASE_ADDRESS, rkc_entry(RKC_TARGET_PC, 0x34, 0));
	begin(&s);
	s.words[BODY] = rkc_entry(RKC_TARGET_PC, 0x34, 0x1000);
	refused(&s, -EINVAL, RKCHAIN_REASON_BASE_ADDRESS, 0, BODY);
}

static void test_int_mask(void)
{
	refuses_extra(RKCHAIN_REASON_INT_MASK, rkc_entry(RKC_TARGET_PC, 0x20, 0x300));
	refuses_extra(RKCHAIN_REASON_INT_MASK, rkc_entry(RKC_TARGET_PC, 0x24, 0x1ffff));
}

static void test_task_control(void)
{
	refuses_extra(RKCHAIN_REASON_TASK_CONTROL, rkc_entry(RKC_TARGET_PC, 0x30, 0x6001));
}

static void test_pc_write(void)
{
	refuses_extra(RKCHAIN_REASON_PC_WRITE, rkc_entry(RKC_TARGET_PC, 0x8, 1));
	refuses_extra(RKCHAIN_REASON_PC_WRITE, rkc_entry(RKC_TARGET_PC, 0x2c, 0));
}

static void test_unit_op_enable(void)
{
	refuses_extra(RKCHAIN_REASON_UNIT_OP_ENABLE, cna(0x1008, 1));
	refuses_extra(RKCHAIN_REASON_UNIT_OP_ENABLE, core(0x3008, 1));
	refuses_extra(RKCHAIN_REASON_UNIT_OP_ENABLE, dpu(0x4008, 1));
}

static void test_pointer(void)
{
	refuses_extra(RKCHAIN_REASON_POINTER, cna(0x1004, 0xe));
	refuses_extra(RKCHAIN_REASON_POINTER, core(0x3004, 0xe));
	refuses_value(RKCHAIN_REASON_POINTER, dpu(0x4004, 0));
}

static void test_bad_op_enable(void)
{
	struct subject s;

	refuses_extra(RKCHAIN_REASON_BAD_OP_ENABLE,
		      rkc_entry(RKC_TARGET_OP_ENABLE, RKC_PC_OP_ENABLE, RKC_OP_MATMUL));
	begin(&s);
	s.words[STRIDE + BODY] = rkc_entry(RKC_TARGET_OP_ENABLE, RKC_PC_OP_ENABLE, 0x1d);
	refused(&s, -EINVAL, RKCHAIN_REASON_BAD_OP_ENABLE, 1, BODY);
}

static void test_bad_padding(void)
{
	struct subject s;

	refuses_extra(RKCHAIN_REASON_BAD_PADDING, 0x10000);
	begin(&s);
	s.words[STRIDE + BODY + 3] = cna(0x1020, 0);
	refused(&s, -EINVAL, RKCHAIN_REASON_BAD_PADDING, 1, BODY + 3);
}

/* ---- words of a matmul program with the wrong value ---- */

static void test_missing_reg(void)
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

static void test_size_mismatch(void)
{
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, cna(0x1020, 1 << 16 | 5));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, cna(0x1084, 1 << 16 | 3));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, cna(0x1030, 64 * 96 + 64));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, cna(0x1038, 0x01010000 | 64));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, core(0x3018, 63));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, dpu(0x403c, 63 << 16 | 63));
	refuses_value(RKCHAIN_REASON_SIZE_MISMATCH, dpu(0x4058, 127));
}

static void test_short_weights(void)
{
	refuses_value(RKCHAIN_REASON_SHORT_WEIGHTS, cna(0x1030, 64 * 96 - 64));
	refuses_value(RKCHAIN_REASON_SHORT_WEIGHTS, cna(0x1034, 32));
}

static void test_cowork(void)
{
	refuses_value(RKCHAIN_REASON_COWORK, cna(0x1014, 0x10000009));
	refuses_value(RKCHAIN_REASON_COWORK, cna(0x1010, 5 << 4 | 1));
}

static void test_cbuf_reuse(void)
{
	refuses_value(RKCHAIN_REASON_CBUF_REUSE, cna(0x1040, 0x10b1));
	refuses_value(RKCHAIN_REASON_CBUF_REUSE, cna(0x1040, 0x20b1));
}

static void test_compression(void)
{
	refuses_value(RKCHAIN_REASON_COMPRESSION, cna(0x1100, 1));
	refuses_value(RKCHAIN_REASON_COMPRESSION, cna(0x1104, 1));
	refuses_value(RKCHAIN_REASON_COMPRESSION, cna(0x117c, 1));
}

static void test_lut(void)
{
	refuses_value(RKCHAIN_REASON_LUT, dpu(0x4108, 1));
}

static void test_stride(void)
{
	refuses_value(RKCHAIN_REASON_STRIDE, cna(0x107c, 8));
	refuses_value(RKCHAIN_REASON_STRIDE, cna(0x1080, 1));
	refuses_value(RKCHAIN_REASON_STRIDE, dpu(0x4024, 32));
	refuses_value(RKCHAIN_REASON_STRIDE, dpu(0x4038, 22 << 16 | 22));
	refuses_value(RKCHAIN_REASON_STRIDE, dpu(0x40c0, 0x100));
}

static void test_precision(void)
{
	refuses_value(RKCHAIN_REASON_PRECISION, cna(0x100c, 0x20000000 | 2 << 7 | 2 << 4));
	refuses_value(RKCHAIN_REASON_PRECISION, core(0x3010, 0x201));
	refuses_value(RKCHAIN_REASON_PRECISION, dpu(0x4010, 0xa0000000));
}

static void test_value(void)
{
	refuses_value(RKCHAIN_REASON_VALUE, cna(0x1060, 1));
	refuses_value(RKCHAIN_REASON_VALUE, dpu(0x4040, 0x52));
	refuses_value(RKCHAIN_REASON_VALUE, dpu(0x4084, 2));
}

/* ---- the chain as a whole ---- */

static void test_empty(void)
{
	struct subject s;

	begin(&s);
	s.create.count = 0;
	refused(&s, -EINVAL, RKCHAIN_REASON_EMPTY, ANY, ANY);
	reset(&s);
	s.create.body = 0;
	refused(&s, -EINVAL, RKCHAIN_REASON_EMPTY, ANY, ANY);
	reset(&s);
	accepted(&s);
}

static void test_too_long(void)
{
	int rk = rig_open();
	struct rkchain_chain_create create;
	struct rig_job job;

	rig_job_new(&job, rk, RKC_WAIT_MAX + 1);
	rig_job_request(&job, &create);
	expect(rig_try_create(rk, &create), &create.report, -EINVAL, RKCHAIN_REASON_TOO_LONG);
	ASSERT_EQ(create.report.value, RKC_WAIT_MAX + 1);
	ASSERT_EQ(create.report.limit, RKC_WAIT_MAX);

	rig_job_request(&job, &create);
	create.count = ~0u;
	expect(rig_try_create(rk, &create), &create.report, -EINVAL, RKCHAIN_REASON_TOO_LONG);
}

static void test_truncated(void)
{
	struct subject s;

	begin(&s);
	s.create.size = 8 * (2 * STRIDE + BODY - 1);
	refused(&s, -EINVAL, RKCHAIN_REASON_TRUNCATED, ANY, ANY);
	ASSERT_EQ(s.create.report.value, 2 * STRIDE + BODY - 1);
	ASSERT_EQ(s.create.report.limit, 2 * STRIDE + BODY);
	/* The last block's tail may be left out. */
	s.create.size += 8;
	accepted(&s);
}

static void test_bad_stride(void)
{
	struct subject s;

	begin(&s);
	s.create.stride = BODY - 1;
	refused(&s, -EINVAL, RKCHAIN_REASON_BAD_STRIDE, ANY, ANY);
	reset(&s);
	s.create.body = RKC_BODY_MAX + 1;
	refused(&s, -EINVAL, RKCHAIN_REASON_BAD_STRIDE, ANY, ANY);
}

static void test_bad_mode(void)
{
	tap_skip("the mode is the module's parameter, which takes no other");
}

static void test_iova_align(void)
{
	tap_skip("the module lays programs out in buffers of its own");
}

static void test_iova_range(void)
{
	tap_skip("the module lays programs out in buffers of its own");
}

/* ---- the buffers that it declares ---- */

/* Block 2 with other addresses must be refused. */
static void outside(struct subject *s, const struct rkc_matmul *d, u32 reason, u32 reg, u64 value)
{
	put_block(s, 2, d);
	refused(s, -EINVAL, reason, 2, RKCHAIN_NO_WORD);
	ASSERT_EQ(s->create.report.reg, reg);
	ASSERT_EQ(s->create.report.value, value);
	reset(s);
}

/*
 * The smallest steps that the registers allow, 16 bytes: in front of the buffer and
 * behind it; then memory of the same client that is not declared, memory of another
 * client, and the declared buffer without its right.
 */
static void refuses_outside(u32 which, u32 reason, u32 reg)
{
	struct rig_buf undeclared, foreign;
	struct rkc_extents x;
	struct rkc_matmul d;
	struct subject s;
	u64 start, end, len;
	u32 *address;
	int other;

	begin(&s);
	other = rig_open();
	rig_buf_new(&undeclared, s.rk, 65536);
	rig_buf_new(&foreign, other, 65536);

	d = s.job.blocks[2];
	rkc_matmul_extents(&d, &x);
	address = which == 0 ? &d.a : which == 1 ? &d.b : &d.c;
	len = which == 0 ? x.a.len : which == 1 ? x.b.len : x.c.len;
	start = which == 0 ? s.job.a.iova : which == 1 ? s.job.b.iova : s.job.c.iova;
	end = start + (which == 0 ? s.job.a.size : which == 1 ? s.job.b.size : s.job.c.size);

	*address = start;
	put_block(&s, 2, &d);
	accepted(&s);
	*address = end - len;
	put_block(&s, 2, &d);
	accepted(&s);
	if (start) {
		*address = start - 16;
		outside(&s, &d, reason, reg, start - 16);
	}
	if (end - len + 16 + len <= FOUR_GIB) {
		*address = end - len + 16;
		outside(&s, &d, reason, reg, end - len + 16);
	}
	*address = undeclared.iova;
	outside(&s, &d, reason, reg, undeclared.iova);
	*address = foreign.iova;
	outside(&s, &d, reason, reg, foreign.iova);
	*address = 0;
	outside(&s, &d, reason, reg, 0);

	s.job.uses[which].flags ^= RKCHAIN_USE_READ | RKCHAIN_USE_WRITE;
	refused(&s, -EINVAL, reason, 0, RKCHAIN_NO_WORD);
	s.job.uses[which].flags ^= RKCHAIN_USE_READ | RKCHAIN_USE_WRITE;
	accepted(&s);
}

static void test_a_outside(void)
{
	struct rkc_extents x;
	struct rkc_matmul d;
	struct subject s;

	refuses_outside(0, RKCHAIN_REASON_A_OUTSIDE, 0x1070);

	/* In the NATIVE layout the NPU reads on behind the features. */
	begin(&s);
	d = s.job.blocks[2];
	d.layout = RKC_NATIVE;
	rkc_matmul_extents(&d, &x);
	ASSERT_EQ(x.a.len, d.m * d.k + 48 * d.m);
	d.a = s.job.a.iova + s.job.a.size - x.a.len;
	put_block(&s, 2, &d);
	accepted(&s);
	d.a += 16;
	outside(&s, &d, RKCHAIN_REASON_A_OUTSIDE, 0x1070, d.a);
	d.a = s.job.a.iova + s.job.a.size - d.m * d.k;
	outside(&s, &d, RKCHAIN_REASON_A_OUTSIDE, 0x1070, d.a);
}

static void test_b_outside(void)
{
	refuses_outside(1, RKCHAIN_REASON_B_OUTSIDE, 0x1110);
}

static void test_c_outside(void)
{
	refuses_outside(2, RKCHAIN_REASON_C_OUTSIDE, 0x4020);
}

static void test_output_overlap(void)
{
	struct rkc_matmul d;
	struct subject s;

	begin(&s);
	s.job.uses[0].flags |= RKCHAIN_USE_WRITE;
	d = s.job.blocks[1];
	/* The output's last bytes on the features' first, where the buffer has room. */
	d.a = s.job.a.iova + 4 * d.m * d.n - 16;
	d.c = s.job.a.iova;
	ASSERT(d.a + (u64)d.m * d.k <= s.job.a.iova + s.job.a.size);
	put_block(&s, 1, &d);
	refused(&s, -EINVAL, RKCHAIN_REASON_OUTPUT_OVERLAP, 1, RKCHAIN_NO_WORD);
	d.a += 16;
	put_block(&s, 1, &d);
	/* Blocks 0 and 2 read what block 1 writes now: in different places, */
	for (u32 i = 0; i < BLOCKS; i += 2) {
		struct rkc_matmul moved = s.job.blocks[i];

		moved.a = d.a;
		put_block(&s, i, &moved);
	}
	accepted(&s);
}

static void test_alias_type(void)
{
	struct rkc_matmul d;
	struct subject s;

	begin(&s);
	s.job.uses[2].flags |= RKCHAIN_USE_READ;
	d = s.job.blocks[2];
	d.a = s.job.blocks[1].c;
	put_block(&s, 2, &d);
	refused(&s, -EINVAL, RKCHAIN_REASON_ALIAS_TYPE, 2, RKCHAIN_NO_WORD);
	ASSERT_EQ(s.create.report.value, 4);
	ASSERT_EQ(s.create.report.limit, 1);
	/* What a later block writes is another matter. */
	reset(&s);
	d = s.job.blocks[0];
	d.a = s.job.blocks[1].c;
	put_block(&s, 0, &d);
	accepted(&s);
	ASSERT(!(s.create.found & RKCHAIN_CHAIN_REPLAYABLE));
}

static void test_alias_order(void)
{
	struct rkchain_query query;
	struct rkc_matmul d;
	struct subject s;

	begin(&s);
	rig_set_parameter("chain_mode", "wait");
	rig_set_parameter("feed_on", "0");
	rig_query(s.rk, &query);
	if (query.capabilities & RKCHAIN_CAP_FEED_ON)
		tap_skip("the mode in force orders blocks; unit tests of the checker");
	s.job.uses[2].flags |= RKCHAIN_USE_READ;
	d = s.job.blocks[1];
	d.type = RKC_I8_I8;
	put_block(&s, 1, &d);
	d = s.job.blocks[2];
	d.a = s.job.blocks[1].c;
	put_block(&s, 2, &d);
	refused(&s, -EINVAL, RKCHAIN_REASON_ALIAS_ORDER, 2, RKCHAIN_NO_WORD);
}

static void test_buffers_overlap(void)
{
	struct rkchain_buf_use uses[4];
	struct subject s;

	begin(&s);
	memcpy(uses, s.job.uses, sizeof(s.job.uses));
	uses[3] = uses[0];
	s.create.buffers = (uintptr_t)uses;
	s.create.buffer_count = 4;
	refused(&s, -EINVAL, RKCHAIN_REASON_BUFFERS_OVERLAP, ANY, ANY);
	ASSERT(s.create.report.block == 3 || s.create.report.word == 3);
}

static void test_buffer_range(void)
{
	tap_skip("the module makes no such buffer; unit tests of the checker");
}

/* ---- the calls ---- */

static void test_flags(void)
{
	struct rkchain_completion done;
	struct rkchain_buf_create create = { .size = 4096, .flags = 1u << 31 };
	struct rkchain_buf_adopt adopt = { .drm_fd = rig_node(), .handle = 1, .flags = 1 };
	struct rkchain_provide provide = { .drm_fd = rig_node(), .flags = 1u << 31 };
	struct rkchain_submit submit = { .count = 1, .flags = 1u << 31 };
	struct rkchain_wait wait = { .count = 1, .flags = 1u << 31 };
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	expect(rig_try_buf(s.rk, &create), &create.report, -EINVAL, RKCHAIN_REASON_FLAGS);
	ASSERT(!(create.report.limit & 1u << 31));

	s.create.flags = 1u << 31;
	refused(&s, -EINVAL, RKCHAIN_REASON_FLAGS, ANY, ANY);
	reset(&s);
	s.job.uses[1].flags |= 1u << 31;
	refused(&s, -EINVAL, RKCHAIN_REASON_FLAGS, ANY, ANY);

	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_FLAGS);
	wait.completions = (uintptr_t)&done;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_FLAGS);
	expect(rig_try(s.rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), &adopt.report, -EINVAL,
	       RKCHAIN_REASON_FLAGS);
	if (!geteuid())
		expect(rig_try(s.rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -EINVAL,
		       RKCHAIN_REASON_FLAGS);
}

static void test_reserved(void)
{
	struct rkchain_completion done;
	struct rkchain_buf_create create = { .size = 4096, .reserved = 1 };
	struct rkchain_id id = { .reserved = 1 };
	struct rkchain_submit submit = { .count = 1, .after = 1 };	/* without its flag */
	struct rkchain_wait wait = { .count = 1, .reserved = 1 };
	struct rkchain_query query = { .reserved = 1 };
	struct subject s;
	int ret;

	begin(&s);
	rig_job_register(&s.job);
	expect(rig_try_buf(s.rk, &create), &create.report, -EINVAL, RKCHAIN_REASON_RESERVED);
	id.id = s.job.a.id;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_BUF_DESTROY, &id), &id.report, -EINVAL,
	       RKCHAIN_REASON_RESERVED);
	id.id = s.job.chain;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_CHAIN_DESTROY, &id), &id.report, -EINVAL,
	       RKCHAIN_REASON_RESERVED);
	s.create.reserved = 1;
	refused(&s, -EINVAL, RKCHAIN_REASON_RESERVED, ANY, ANY);
	wait.completions = (uintptr_t)&done;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_RESERVED);
	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_RESERVED);
	/* QUERY has no report, and all of it is an answer. */
	ret = rig_try(s.rk, RKCHAIN_IOCTL_QUERY, &query);
	ASSERT(!ret || ret == -EINVAL);
	reset(&s);
	accepted(&s);
}

static void test_privilege(void)
{
	struct rkchain_provide provide = { .drm_fd = rig_node() };
	struct rkchain_submit submit = { .count = 1, .priority = RKCHAIN_PRIORITY_HIGH };
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	rig_drop_capability(CAP_SYS_ADMIN);
	rig_drop_capability(CAP_SYS_NICE);
	expect(rig_try(s.rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -EPERM,
	       RKCHAIN_REASON_PRIVILEGE);
	memset(&provide, 0, sizeof(provide));
	provide.drm_fd = -1;
	provide.flags = RKCHAIN_PROVIDE_RELEASE;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -EPERM,
	       RKCHAIN_REASON_PRIVILEGE);
	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EPERM, RKCHAIN_REASON_PRIVILEGE);
}

static void test_size(void)
{
	struct rkchain_completion done;
	struct rkchain_buf_create create = { .size = 0 };
	struct rkchain_submit submit = { .count = 0 };
	struct rkchain_wait wait = { .count = 0 };
	struct rkchain_query query;
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	rig_query(s.rk, &query);
	expect(rig_try_buf(s.rk, &create), &create.report, -EINVAL, RKCHAIN_REASON_SIZE);

	s.create.size -= 4;
	refused(&s, -EINVAL, RKCHAIN_REASON_SIZE, ANY, ANY);
	reset(&s);
	s.create.buffer_count = query.max_buffers + 1;
	refused(&s, -EINVAL, RKCHAIN_REASON_SIZE, ANY, ANY);
	ASSERT_EQ(s.create.report.limit, query.max_buffers);
	s.create.buffer_count = ~0u;
	refused(&s, -EINVAL, RKCHAIN_REASON_SIZE, ANY, ANY);

	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_SIZE);
	submit.count = query.max_submit + 1;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_SIZE);
	ASSERT_EQ(submit.report.limit, query.max_submit);
	submit.count = ~0u;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_SIZE);
	wait.completions = (uintptr_t)&done;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_SIZE);
}

static void test_range(void)
{
	static const struct {
		u64 offset;
		u64 size;
	} bad[] = {
		{ 0, 8193 }, { 8192, 1 }, { 8193, 0 }, { 4096, 4097 }, { ~0ull, 1 }, { 1, ~0ull },
		{ ~0ull - 4095, 8192 },
	};
	int rk = rig_open();
	struct rig_buf buf;

	rig_buf_new(&buf, rk, 8192);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rkchain_buf_sync sync = {
			.id = buf.id,
			.direction = RKCHAIN_SYNC_TO_DEVICE,
			.offset = bad[i].offset,
			.size = bad[i].size,
		};

		tap_note("offset %#llx, size %#llx", sync.offset, sync.size);
		expect(rig_try(rk, RKCHAIN_IOCTL_BUF_SYNC, &sync), &sync.report, -EINVAL,
		       RKCHAIN_REASON_RANGE);
	}
}

static void test_direction(void)
{
	static const u32 bad[] = { 0, 4, 7, 1u << 31 };
	int rk = rig_open();
	struct rig_buf buf;

	rig_buf_new(&buf, rk, 8192);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rkchain_buf_sync sync = { .id = buf.id, .direction = bad[i] };

		expect(rig_try(rk, RKCHAIN_IOCTL_BUF_SYNC, &sync), &sync.report, -EINVAL,
		       RKCHAIN_REASON_DIRECTION);
	}
	rig_buf_sync(&buf, RKCHAIN_SYNC_TO_DEVICE | RKCHAIN_SYNC_FROM_DEVICE);
}

static void test_no_provider(void)
{
	struct rkchain_buf_create create = { .size = 4096 };
	struct rkchain_query query;
	int rk = rig_open();

	rig_release(rk);
	rig_query(rk, &query);
	ASSERT_EQ(query.provider, 0);
	expect(rig_try_buf(rk, &create), &create.report, -ENODEV, RKCHAIN_REASON_NO_PROVIDER);
	ASSERT_EQ(rig_try_provide(rk, rig_node()), 0);
	create.report.reason = 0;
	ASSERT_EQ(rig_try_buf(rk, &create), 0);
}

static void test_device_gone(void)
{
	struct rkchain_submit submit = { .count = 1 };
	struct rkchain_buf_sync sync = { .direction = RKCHAIN_SYNC_TO_DEVICE };
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	rig_release(s.rk);
	ASSERT_EQ(rig_try_provide(s.rk, rig_node()), 0);
	sync.id = s.job.a.id;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_BUF_SYNC, &sync), &sync.report, -ENODEV,
	       RKCHAIN_REASON_DEVICE_GONE);
	refused(&s, -ENODEV, RKCHAIN_REASON_DEVICE_GONE, ANY, ANY);
	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -ENODEV,
	       RKCHAIN_REASON_DEVICE_GONE);
}

static void test_not_rknpu(void)
{
	static const char * const paths[] = { "/dev/null", "/", RIG_DEVICE };
	int rk = rig_open();
	int i, ret;

	rig_release(rk);
	for (i = 0; i < (int)ARRAY_SIZE(paths); i++) {
		struct rkchain_provide provide = {
			.drm_fd = open(paths[i], O_RDONLY | O_CLOEXEC),
		};

		ret = rig_try(rk, RKCHAIN_IOCTL_PROVIDE, &provide);
		ASSERT(ret == -ENODEV || ret == -EOPNOTSUPP);
		ASSERT_EQ(provide.report.reason, RKCHAIN_REASON_NOT_RKNPU);
		close(provide.drm_fd);
	}
	ret = rig_try_provide(rk, 1000);
	ASSERT_EQ(ret, -EBADF);
	ASSERT_EQ(rig_try_provide(rk, rig_node()), 0);
}

/* One of the stand-in's other devices: 0 is of another chip, 1 has other calls. */
static int open_other(u32 n)
{
	char name[32], path[64], device[PATH_MAX];
	int fd = -1;

	standin_need();
	standin_set("others", 1);
	snprintf(name, sizeof(name), "/RKNPU-other.%u", n);
	for (u32 i = 128; i < 192 && fd < 0; i++) {
		snprintf(path, sizeof(path), "/sys/class/drm/renderD%u/device", i);
		if (!realpath(path, device) || !strstr(device, name))
			continue;
		snprintf(path, sizeof(path), "/dev/dri/renderD%u", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
	}
	if (fd < 0)
		FAIL("no node of %s: %s", name + 1, strerror(errno));
	return fd;
}

static void test_wrong_chip(void)
{
	struct rkchain_provide provide = { .drm_fd = open_other(0) };
	int rk = rig_open();

	rig_need_root();
	ASSERT_EQ(rig_try_provide(rk, -1), 0);
	expect(rig_try(rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -ENODEV,
	       RKCHAIN_REASON_WRONG_CHIP);
}

static void test_foreign_abi(void)
{
	struct rkchain_provide provide = { .drm_fd = open_other(1) };
	int rk = rig_open();

	rig_need_root();
	ASSERT_EQ(rig_try_provide(rk, -1), 0);
	expect(rig_try(rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -EOPNOTSUPP,
	       RKCHAIN_REASON_FOREIGN_ABI);
	ASSERT_EQ(provide.report.limit, RKNPU_IOCTLS);
}

static void test_provided(void)
{
	struct rkchain_provide provide = { .drm_fd = rig_node() };
	int rk = rig_open();

	rig_need_root();
	expect(rig_try(rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -EBUSY,
	       RKCHAIN_REASON_PROVIDED);
}

static void expect_no_buffer(int rk, u32 id)
{
	struct rkchain_id destroy = { .id = id };
	struct rkchain_buf_sync sync = { .id = id, .direction = RKCHAIN_SYNC_TO_DEVICE };

	expect(rig_try(rk, RKCHAIN_IOCTL_BUF_DESTROY, &destroy), &destroy.report, -EINVAL,
	       RKCHAIN_REASON_BUFFER_ID);
	ASSERT_EQ(destroy.report.value, id);
	expect(rig_try(rk, RKCHAIN_IOCTL_BUF_SYNC, &sync), &sync.report, -EINVAL,
	       RKCHAIN_REASON_BUFFER_ID);
}

static void test_buffer_id(void)
{
	struct rig_buf foreign, gone;
	struct subject s;
	int other = rig_open();

	begin(&s);
	rig_buf_new(&foreign, other, 65536);
	/* An id that this client has not got, so that it is certainly the other's. */
	for (u32 i = 0; i < 8; i++)
		rig_buf_new(&foreign, other, 4096);
	rig_buf_new(&gone, s.rk, 4096);
	ASSERT_EQ(rig_try_destroy(s.rk, gone.id), 0);
	expect_no_buffer(s.rk, 0);
	expect_no_buffer(s.rk, ~0u);
	expect_no_buffer(s.rk, gone.id);
	expect_no_buffer(s.rk, foreign.id);

	s.job.uses[1].id = gone.id;
	refused(&s, -EINVAL, RKCHAIN_REASON_BUFFER_ID, 1, ANY);
	s.job.uses[1].id = foreign.id;
	refused(&s, -EINVAL, RKCHAIN_REASON_BUFFER_ID, 1, ANY);
	s.job.uses[1].id = s.job.b.id;
	accepted(&s);
	/* Its memory is gone from the chain's view as well. */
	ASSERT_EQ(rig_try_destroy(s.rk, s.job.b.id), 0);
	refused(&s, -EINVAL, RKCHAIN_REASON_BUFFER_ID, 1, ANY);
}

static void test_chain_id(void)
{
	struct rkchain_submit submit = { .count = 2 };
	struct rkchain_id destroy = { .id = ~0u };
	struct rkchain_completion done;
	u32 chains[2];
	struct subject s;
	int other = rig_open();
	u64 first;

	begin(&s);
	rig_job_register(&s.job);
	expect(rig_try(s.rk, RKCHAIN_IOCTL_CHAIN_DESTROY, &destroy), &destroy.report, -EINVAL,
	       RKCHAIN_REASON_CHAIN_ID);

	/* All or none: the good one in front does not run. */
	chains[0] = s.job.chain;
	chains[1] = ~0u;
	submit.chains = (uintptr_t)chains;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_CHAIN_ID);
	ASSERT_EQ(submit.report.block, 1);
	ASSERT_EQ(submit.report.value, ~0u);
	first = rig_submit(s.rk, s.job.chain, 1, 0, 0);
	rig_wait_good(s.rk, first, 1, &done);
	ASSERT_EQ(rig_submit(s.rk, s.job.chain, 1, 0, 0), first + 1);
	rig_wait_good(s.rk, first + 1, 1, &done);

	/* Somebody else's. */
	submit.count = 1;
	expect(rig_try_submit(other, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_CHAIN_ID);
	destroy.id = s.job.chain;
	expect(rig_try(other, RKCHAIN_IOCTL_CHAIN_DESTROY, &destroy), &destroy.report, -EINVAL,
	       RKCHAIN_REASON_CHAIN_ID);
	ASSERT_EQ(rig_try_destroy_chain(s.rk, s.job.chain), 0);
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_CHAIN_ID);
}

static void test_handle(void)
{
	struct rkchain_buf_adopt adopt = { .drm_fd = rig_node(), .handle = 0xdead };
	int rk = rig_open();

	if (adopt.drm_fd < 0)
		tap_skip("the stock driver's node cannot be opened");
	expect(rig_try(rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), &adopt.report, -EINVAL,
	       RKCHAIN_REASON_HANDLE);
	adopt.handle = 0;
	expect(rig_try(rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), &adopt.report, -EINVAL,
	       RKCHAIN_REASON_HANDLE);
	close(adopt.drm_fd);
	ASSERT_EQ(rig_try(rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), -EBADF);
}

/* A dma-buf of memory that is nobody's device's. */
static int memory_buf(void)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = 65536 };
	const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	const int memory = memfd_create("udmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (device < 0 || memory < 0 || ftruncate(memory, create.size) ||
	    fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK))
		return -1;
	create.memfd = memory;
	return ioctl(device, UDMABUF_CREATE, &create);
}

/* A dma-buf of vgem, a device that is none. */
static int vgem_buf(void)
{
	struct {
		__u32 height;
		__u32 width;
		__u32 bpp;
		__u32 flags;
		__u32 handle;
		__u32 pitch;
		__u64 size;
	} dumb = { .height = 64, .width = 256, .bpp = 32 };
	struct rig_drm_prime prime = { .flags = O_CLOEXEC };
	const int node = rig_open_drm("vgem");

	if (node < 0 || ioctl(node, _IOWR('d', 0xb2, dumb), &dumb))
		return -1;
	prime.handle = dumb.handle;
	return ioctl(node, RIG_DRM_PRIME_HANDLE_TO_FD, &prime) ? -1 : prime.fd;
}

/* A dma-buf that no rknpu has made; -1 when there is nobody to make one. */
static int foreign_dma_buf(void)
{
	const int fd = memory_buf();

	return fd < 0 ? vgem_buf() : fd;
}

static void test_imported(void)
{
	struct rkchain_buf_adopt adopt = { .drm_fd = rig_node() };
	struct rig_drm_prime prime = { .fd = foreign_dma_buf() };
	int rk = rig_open();

	if (adopt.drm_fd < 0)
		tap_skip("the stock driver's node cannot be opened");
	if (prime.fd < 0)
		tap_skip("nobody makes a foreign dma-buf: no udmabuf, no vgem");
	if (ioctl(adopt.drm_fd, RIG_DRM_PRIME_FD_TO_HANDLE, &prime))
		tap_skip("the stock driver imports no such dma-buf: %s", strerror(errno));
	adopt.handle = prime.handle;
	expect(rig_try(rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), &adopt.report, -EINVAL,
	       RKCHAIN_REASON_IMPORTED);
}

static void test_foreign_node(void)
{
	struct rkchain_buf_adopt adopt = { .drm_fd = open_other(0), .handle = 1 };

	expect(rig_try(rig_open(), RKCHAIN_IOCTL_BUF_ADOPT, &adopt), &adopt.report, -EINVAL,
	       RKCHAIN_REASON_FOREIGN_NODE);
}

static void test_quota_bytes(void)
{
	struct rkchain_query query;
	struct rkchain_buf_create create = { 0 };
	int rk = rig_open();

	rig_query(rk, &query);
	create.size = query.quota_bytes - query.used_bytes + RIG_PAGE;
	expect(rig_try_buf(rk, &create), &create.report, -EDQUOT, RKCHAIN_REASON_QUOTA_BYTES);
	ASSERT_EQ(create.report.limit, query.quota_bytes);
	create.size = ~0ull - 4096;
	ASSERT(rig_try_buf(rk, &create) < 0);
	create.size = ~0ull;
	ASSERT(rig_try_buf(rk, &create) < 0);
}

/* Registers until it is refused; @blocks of each. */
static void register_until(u32 blocks, u64 tries, u32 reason)
{
	struct rkchain_query before, after;
	struct rkchain_chain_create create;
	int rk = rig_open();
	struct rig_job job;
	int ret = 0;

	rig_query(rk, &before);
	rig_job_new(&job, rk, blocks);
	for (u64 i = 0; i <= tries && !ret; i++) {
		rig_job_request(&job, &create);
		ret = rig_try_create(rk, &create);
	}
	if (ret == -ENOMEM || create.report.reason == RKCHAIN_REASON_QUOTA_BYTES)
		tap_skip("the memory ends sooner");
	expect(ret, &create.report, -EDQUOT, reason);
	ASSERT_EQ(create.report.limit, reason == RKCHAIN_REASON_QUOTA_CHAINS ?
		  before.quota_chains : before.quota_blocks);
	close(rk);
	rk = rig_open();
	rig_job_unmap(&job);
	rig_settles(rk, &before);
	rig_query(rk, &after);
	ASSERT_EQ(after.used_chains, before.used_chains);
}

static void test_quota_chains(void)
{
	struct rkchain_query query;

	rig_set_parameter("quota_chains", "100");
	rig_query(rig_open(), &query);
	if (query.quota_chains > 20000)
		tap_skip("the quota is %llu chains", query.quota_chains);
	register_until(1, query.quota_chains, RKCHAIN_REASON_QUOTA_CHAINS);
}

static void test_quota_blocks(void)
{
	struct rkchain_query query;

	rig_set_parameter("quota_blocks", "5000");
	rig_query(rig_open(), &query);
	if (query.quota_blocks / RKC_WAIT_MAX >= query.quota_chains)
		tap_skip("the quota of chains, %llu, ends sooner", query.quota_chains);
	if (query.quota_blocks > 1000 * RKC_WAIT_MAX)
		tap_skip("the quota is %llu blocks", query.quota_blocks);
	register_until(RKC_WAIT_MAX, query.quota_blocks / RKC_WAIT_MAX + 1,
		       RKCHAIN_REASON_QUOTA_BLOCKS);
}

static void test_too_costly(void)
{
	struct rkchain_chain_create create = { 0 };
	struct rkchain_buf_create memory = { 0 };
	struct rkchain_query query;
	struct rig_job job;
	int rk = rig_open();
	u64 *words;
	u32 count, n;

	/* The largest matmul that the memory has room for, many times over. */
	for (n = RKC_N_MAX; n >= 512; n /= 2) {
		memory.size = 4096ULL * n;
		if (!rig_try_buf(rk, &memory))
			break;
	}
	if (n < 512)
		tap_skip("no memory for a large matmul");
	close(memory.fd);
	ASSERT_EQ(rig_try_destroy(rk, memory.id), 0);
	rig_query(rk, &query);
	rig_job_shape(&job, rk, 64, 4096, n, 1);
	count = query.max_blocks < RKC_WAIT_MAX ? query.max_blocks : RKC_WAIT_MAX;
	words = calloc(count * RKC_WAIT_STRIDE + RKC_TAIL_WORDS, sizeof(*words));
	ASSERT(words);
	for (u32 i = 0; i < count; i++)
		rkc_chain_append(words, i, &job.blocks[0]);
	rig_job_request(&job, &create);
	create.programs = (uintptr_t)words;
	create.count = count;
	create.size = 8ULL * ((count - 1) * RKC_WAIT_STRIDE + RKC_FULL_WORDS);
	expect(rig_try_create(rk, &create), &create.report, -E2BIG, RKCHAIN_REASON_TOO_COSTLY);
	ASSERT_EQ(create.report.limit, query.max_chain_ns);
	ASSERT(create.report.value > create.report.limit);
	/* One of them is fine. */
	create.count = 1;
	create.size = 8 * RKC_BODY_WORDS;
	ASSERT_EQ(rig_try_create(rk, &create), 0);
	ASSERT(create.estimate_ns > 0);
	ASSERT_EQ(create.macs, 64ULL * 4096 * n);
}

static void test_core_mask(void)
{
	static const u32 bad[] = { 8, 1u << 31 };
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rkchain_submit submit = {
			.chains = (uintptr_t)&s.job.chain,
			.count = 1,
			.core_mask = bad[i],
		};

		expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL,
		       RKCHAIN_REASON_CORE_MASK);
	}
}

static void test_priority(void)
{
	static const s32 bad[] = {
		RKCHAIN_PRIORITY_LOW - 1, RKCHAIN_PRIORITY_HIGH + 1, 0x7fffffff,
	};
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rkchain_submit submit = {
			.chains = (uintptr_t)&s.job.chain,
			.count = 1,
			.priority = bad[i],
		};

		expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL,
		       RKCHAIN_REASON_PRIORITY);
	}
}

static void test_sequence(void)
{
	struct rkchain_completion done;
	struct rkchain_submit submit = { .count = 1, .flags = RKCHAIN_SUBMIT_AFTER };
	struct rkchain_wait wait = {
		.count = 1,
		.deadline_ns = -1,
		.completions = (uintptr_t)&done,
	};
	struct subject s;
	u64 first;

	begin(&s);
	rig_job_register(&s.job);
	wait.first = 12345;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_SEQUENCE);
	first = rig_submit(s.rk, s.job.chain, 1, 0, 0);
	rig_wait_good(s.rk, first, 1, &done);
	wait.first = first;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_SEQUENCE);
	wait.first = first + 1;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_SEQUENCE);
	wait.first = ~0ull;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_SEQUENCE);

	submit.chains = (uintptr_t)&s.job.chain;
	submit.after = first + 1;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_SEQUENCE);
}

static void test_queue_full(void)
{
	struct rkchain_completion done;
	struct rkchain_query query;
	struct rkchain_submit submit = { .count = 1 };
	struct subject s;
	u64 first = 0;
	u32 left;

	begin(&s);
	rig_job_register(&s.job);
	rig_query(s.rk, &query);
	for (left = query.slots; left;) {
		const u32 some = left < query.max_submit ? left : query.max_submit;

		first = rig_submit(s.rk, s.job.chain, some, 0, 0);
		left -= some;
	}
	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EAGAIN, RKCHAIN_REASON_QUEUE_FULL);
	ASSERT_EQ(submit.report.limit, query.slots);
	rig_wait_good(s.rk, first, 1, &done);
	ASSERT_EQ(rig_try_submit(s.rk, &submit), 0);
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EAGAIN, RKCHAIN_REASON_QUEUE_FULL);
}

static void test_memory(void)
{
	struct rkchain_buf_create create = { .size = 3 * RIG_PAGE };
	struct rkchain_query before, after;
	int rk = rig_open();

	standin_need();
	rig_query(rk, &before);
	standin_set("no_memory", 1);
	expect(rig_try_buf(rk, &create), &create.report, -ENOMEM, RKCHAIN_REASON_MEMORY);
	ASSERT_EQ(create.report.value, 3 * RIG_PAGE);
	rig_query(rk, &after);
	ASSERT_EQ(after.used_bytes, before.used_bytes);
}

static void test_iova(void)
{
	struct rkchain_buf_create create = { .size = RIG_PAGE };
	struct rkchain_query before, after;
	int rk = rig_open();

	standin_need();
	rig_query(rk, &before);
	standin_set("iova_high", 1);
	expect(rig_try_buf(rk, &create), &create.report, -ERANGE, RKCHAIN_REASON_IOVA);
	ASSERT(create.report.value > 1ULL << 32);
	ASSERT_EQ(create.report.limit, 1ULL << 32);
	rig_query(rk, &after);
	ASSERT_EQ(after.used_bytes, before.used_bytes);
}

/* A core that may still write to a chain's memory keeps the driver from going. */
static void test_quarantine(void)
{
	struct rkchain_provide release = { .drm_fd = -1, .flags = RKCHAIN_PROVIDE_RELEASE };
	struct rkchain_completion done;
	struct subject s;

	model_need();
	rig_need_root();
	begin(&s);
	rig_job_register(&s.job);
	rig_set_parameter("hang_ms", "200");
	model_set("stuck_core", 1);
	rig_wait(s.rk, rig_submit(s.rk, s.job.chain, 1, 1, 0), 1, &done);
	ASSERT_EQ(done.status, -ETIMEDOUT);
	expect(rig_try(s.rk, RKCHAIN_IOCTL_PROVIDE, &release), &release.report, -EBUSY,
	       RKCHAIN_REASON_QUARANTINE);
	model_calm();
	/* Until it has run something else. */
	rig_wait_good(s.rk, rig_submit(s.rk, s.job.chain, 1, 1, 0), 1, &done);
	rig_release(s.rk);
	ASSERT_EQ(rig_try_provide(s.rk, rig_node()), 0);
}

/* ---- what is no reason ---- */

/* Each call with its struct right in front of a page that is not there. */
static void test_guard_of_each_call(void)
{
	static const struct {
		unsigned long command;
		size_t size;
	} calls[] = {
		{ RKCHAIN_IOCTL_QUERY, sizeof(struct rkchain_query) },
		{ RKCHAIN_IOCTL_PROVIDE, sizeof(struct rkchain_provide) },
		{ RKCHAIN_IOCTL_BUF_CREATE, sizeof(struct rkchain_buf_create) },
		{ RKCHAIN_IOCTL_BUF_DESTROY, sizeof(struct rkchain_id) },
		{ RKCHAIN_IOCTL_BUF_SYNC, sizeof(struct rkchain_buf_sync) },
		{ RKCHAIN_IOCTL_BUF_ADOPT, sizeof(struct rkchain_buf_adopt) },
		{ RKCHAIN_IOCTL_CHAIN_CREATE, sizeof(struct rkchain_chain_create) },
		{ RKCHAIN_IOCTL_CHAIN_DESTROY, sizeof(struct rkchain_id) },
		{ RKCHAIN_IOCTL_SUBMIT, sizeof(struct rkchain_submit) },
		{ RKCHAIN_IOCTL_WAIT, sizeof(struct rkchain_wait) },
	};
	int rk = rig_open();

	for (u32 i = 0; i < ARRAY_SIZE(calls); i++) {
		char *argument = rig_guarded(calls[i].size);
		const u32 nr = _IOC_NR(calls[i].command);

		/* A size of 0 and ids of 0 are refused, but they were read. */
		if (rig_try(rk, calls[i].command, argument) == -EFAULT)
			FAIL("call %#x reads or writes behind its struct", nr);
		if (rig_try(rk, calls[i].command, argument + 1) != -EFAULT)
			FAIL("call %#x does not read the end of its struct", nr);
		for (size_t at = 0; at < 8; at++) {
			char more[512] = { 0 };
			const unsigned long longer = _IOC(_IOC_READ | _IOC_WRITE,
							  RKCHAIN_IOCTL_TYPE, nr,
							  calls[i].size + 8);

			more[calls[i].size + at] = 1;
			if (rig_try(rk, longer, more) != -E2BIG)
				FAIL("call %#x takes bytes that it does not know", nr);
		}
	}
}

/* The arrays that structs point to, likewise. */
static void test_guard_of_arrays(void)
{
	struct rkchain_submit submit = { .count = 1 };
	struct rkchain_wait wait = { .count = 1, .deadline_ns = rig_soon() };
	struct subject s;
	char *words, *uses, *chains, *done;

	begin(&s);
	words = rig_guarded(sizeof(s.words));
	uses = rig_guarded(sizeof(s.job.uses));
	memcpy(words, s.words, sizeof(s.words));
	memcpy(uses, s.job.uses, sizeof(s.job.uses));
	s.create.programs = (uintptr_t)words;
	s.create.buffers = (uintptr_t)uses;
	accepted(&s);
	s.create.size += 8;
	ASSERT_EQ(rig_try_create(s.rk, &s.create), -EFAULT);
	s.create.size -= 8;
	s.create.buffers += 8;
	ASSERT_EQ(rig_try_create(s.rk, &s.create), -EFAULT);
	s.create.programs = ~0xfffULL;
	ASSERT_EQ(rig_try_create(s.rk, &s.create), -EFAULT);

	rig_job_register(&s.job);
	chains = rig_guarded(sizeof(s.job.chain));
	memcpy(chains, &s.job.chain, sizeof(s.job.chain));
	submit.chains = (uintptr_t)chains;
	ASSERT_EQ(rig_try_submit(s.rk, &submit), 0);
	done = rig_guarded(sizeof(struct rkchain_completion));
	wait.first = submit.first;
	wait.completions = (uintptr_t)done;
	ASSERT_EQ(rig_try_wait(s.rk, &wait), 0);
	ASSERT_EQ(wait.done, 1);

	submit.count = 2;
	ASSERT_EQ(rig_try_submit(s.rk, &submit), -EFAULT);
	submit.count = 1;
	ASSERT_EQ(rig_try_submit(s.rk, &submit), 0);
	wait.first = submit.first;
	wait.completions = (uintptr_t)done + 8;
	ASSERT_EQ(rig_try_wait(s.rk, &wait), -EFAULT);
}

/* A caller with a struct from before there were reports gets the errno alone. */
static void test_no_room_for_a_report(void)
{
	struct rkchain_buf_create create = { .flags = 1u << 31, .size = 4096 };
	const size_t size = offsetof(struct rkchain_buf_create, report);
	char *argument = rig_guarded(size);
	int rk = rig_open();

	memcpy(argument, &create, size);
	ASSERT_EQ(rig_try(rk, _IOC(_IOC_READ | _IOC_WRITE, RKCHAIN_IOCTL_TYPE,
				   RKCHAIN_NR_BUF_CREATE, size), argument), -EINVAL);
}

static void test_still_works(void)
{
	rig_still_works();
}

static const struct tap_test tests[] = {
#include "reasons.inc"
	{ .name = "guard_of_each_call", .run = test_guard_of_each_call },
	{ .name = "guard_of_arrays", .run = test_guard_of_arrays },
	{ .name = "no_room_for_a_report", .run = test_no_room_for_a_report },
	{ .name = "still_works", .run = test_still_works },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

// SPDX-License-Identifier: MIT
/*
 * Reasons that speak of a chain as a whole, and of the buffers that it declares.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "debug.h"
#include "reasons.h"
#include "subject.h"

/* ---- the chain as a whole ---- */

void test_empty(void)
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

void test_too_long(void)
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

void test_truncated(void)
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

void test_bad_stride(void)
{
	struct subject s;

	begin(&s);
	s.create.stride = BODY - 1;
	refused(&s, -EINVAL, RKCHAIN_REASON_BAD_STRIDE, ANY, ANY);
	reset(&s);
	s.create.body = RKC_BODY_MAX + 1;
	refused(&s, -EINVAL, RKCHAIN_REASON_BAD_STRIDE, ANY, ANY);
}

/*
 * The mode is the module's parameter and the program's address its own memory: no call
 * says them.  The code that lays programs out is asked itself.
 */
void test_bad_mode(void)
{
	struct rkc_measure measure;
	struct rkc_err err;

	ASSERT_EQ(rkc_chain_measure(RKC_MODES, 1, &measure, &err), RKCHAIN_REASON_BAD_MODE);
	ASSERT_EQ(err.value, RKC_MODES);
	ASSERT_EQ(rkc_chain_measure(RKC_SINGLE, 1, &measure, &err), 0);
}

static u32 emit_at(u64 iova, struct rkc_err *err)
{
	const struct rkc_matmul d = { .m = 1, .m_total = 1, .k = 32, .n = 32 };
	u64 words[RKC_FULL_WORDS];

	return rkc_chain_emit(RKC_LINK, &d, 1, iova, words, err);
}

void test_iova_align(void)
{
	struct rkc_err err;

	ASSERT_EQ(emit_at(0x1008, &err), RKCHAIN_REASON_IOVA_ALIGN);
	ASSERT_EQ(err.value, 0x1008);
	ASSERT_EQ(emit_at(0x1010, &err), 0);
}

void test_iova_range(void)
{
	const u64 last = FOUR_GIB - RKC_FULL_WORDS * sizeof(u64);
	struct rkc_err err;

	ASSERT_EQ(emit_at(last + 16, &err), RKCHAIN_REASON_IOVA_RANGE);
	ASSERT_EQ(err.limit, FOUR_GIB);
	ASSERT_EQ(emit_at(last, &err), 0);
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

void test_a_outside(void)
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

void test_b_outside(void)
{
	refuses_outside(1, RKCHAIN_REASON_B_OUTSIDE, 0x1110);
}

void test_c_outside(void)
{
	refuses_outside(2, RKCHAIN_REASON_C_OUTSIDE, 0x4020);
}

void test_output_overlap(void)
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

void test_alias_type(void)
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

void test_alias_order(void)
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

void test_buffers_overlap(void)
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

/* The module makes no such buffer; the code that it checks them with is asked itself. */
void test_buffer_range(void)
{
	struct rkc_buf buf = { .iova = FOUR_GIB - 4096, .size = 4097, .flags = RKC_BUF_READ };
	struct rkc_err err;

	ASSERT_EQ(rkc_bufs_check(&buf, 1, &err), RKCHAIN_REASON_BUFFER_RANGE);
	ASSERT_EQ(err.limit, FOUR_GIB);
	buf.size = 0;
	ASSERT_EQ(rkc_bufs_check(&buf, 1, &err), RKCHAIN_REASON_BUFFER_RANGE);
	buf.size = 4096;
	ASSERT_EQ(rkc_bufs_check(&buf, 1, &err), 0);
}

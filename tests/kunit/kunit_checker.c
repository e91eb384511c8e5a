// SPDX-License-Identifier: GPL-2.0-only
/*
 * The checker: what it refuses, with block and word, and what it says of a chain.
 */
#include "check.h"
#include "chain.h"
#include "entry.h"
#include "kunit_suites.h"

#define BLOCKS	3

/* int8, 4 x 32 x 32: 128 bytes of A, 1024 of B, 512 of C. */
static struct rkc_matmul small(u32 a, u32 b, u32 c)
{
	return (struct rkc_matmul){
		.type = RKC_I8_I32, .layout = RKC_FLAT,
		.m = 4, .k = 32, .n = 32, .m_total = 4, .a = a, .b = b, .c = c,
	};
}

/* A chain of blocks of different addresses, in wait layout. */
struct chain_of_words {
	struct rkc_recogniser scratch;
	struct rkc_matmul blocks[BLOCKS];
	u64 words[BLOCKS * RKC_WAIT_STRIDE + RKC_TAIL_WORDS];
	struct rkc_program program;
};

static struct chain_of_words *make_chain(struct kunit *test)
{
	struct chain_of_words *chain = kunit_kzalloc(test, sizeof(*chain), GFP_KERNEL);
	struct rkc_measure measure;
	u32 i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, chain);
	for (i = 0; i < BLOCKS; i++)
		chain->blocks[i] = small(0x10000 + i * 0x1000, 0x20000, 0x30000 + i * 0x1000);
	KUNIT_ASSERT_EQ(test, rkc_chain_measure(RKC_WAIT, BLOCKS, &measure, NULL), RKC_OK);
	KUNIT_ASSERT_LE(test, measure.words, (u32)ARRAY_SIZE(chain->words));
	KUNIT_ASSERT_EQ(test, rkc_chain_emit(RKC_WAIT, chain->blocks, BLOCKS, 0x40000,
					     chain->words, NULL), RKC_OK);
	chain->program = (struct rkc_program){
		.words = chain->words, .nwords = measure.words, .count = BLOCKS,
		.stride = RKC_WAIT_STRIDE, .body = RKC_BODY_WORDS,
	};
	return chain;
}

static void recognises_what_it_makes(struct kunit *test)
{
	struct chain_of_words *chain = make_chain(test);
	struct rkc_matmul d;
	struct rkc_err err;
	u32 i;

	KUNIT_EXPECT_EQ(test, rkc_program_shape(&chain->program, &err), RKC_OK);
	for (i = 0; i < BLOCKS; i++) {
		KUNIT_EXPECT_EQ(test, rkc_program_block(&chain->scratch, &chain->program, i, &d,
							&err), RKC_OK);
		KUNIT_EXPECT_EQ(test, memcmp(&d, &chain->blocks[i], sizeof(d)), 0);
	}
}

static void names_block_and_word(struct kunit *test)
{
	static const struct {
		u64 entry;
		u32 reason;
		u32 reg;
	} wrong[] = {
		{ (u64)RKC_TARGET_PPU << 48 | 0x6008, RKC_FOREIGN_TARGET, 0x6008 },
		{ (u64)RKC_TARGET_CNA << 48 | 0x3010, RKC_PAGE_MISMATCH, 0x3010 },
		{ (u64)RKC_TARGET_PC << 48 | 0x0034, RKC_BASE_ADDRESS, 0x0034 },
		{ (u64)RKC_TARGET_PC << 48 | RKC_PC_ADDRESS, RKC_JUMP, RKC_PC_ADDRESS },
		{ (u64)RKC_TARGET_PC << 48 | 0x0020, RKC_INT_MASK, 0x0020 },
	};
	struct chain_of_words *chain = make_chain(test);
	const u32 words[] = { 0, 50, RKC_BODY_WORDS - 1 };
	struct rkc_matmul d;
	struct rkc_err err;
	u32 block, i, j;
	u64 *word, was;

	for (block = 0; block < BLOCKS; block++)
		for (i = 0; i < ARRAY_SIZE(words); i++)
			for (j = 0; j < ARRAY_SIZE(wrong); j++) {
				word = &chain->words[block * RKC_WAIT_STRIDE + words[i]];
				was = *word;
				*word = wrong[j].entry;
				KUNIT_EXPECT_EQ(test, rkc_program_block(&chain->scratch,
									&chain->program, block, &d,
									&err), wrong[j].reason);
				KUNIT_EXPECT_EQ(test, err.reason, wrong[j].reason);
				KUNIT_EXPECT_EQ(test, err.block, block);
				KUNIT_EXPECT_EQ(test, err.word, words[i]);
				KUNIT_EXPECT_EQ(test, err.reg, wrong[j].reg);
				*word = was;
			}
}

static void refuses_what_is_cut_off(struct kunit *test)
{
	struct chain_of_words *chain = make_chain(test);
	struct rkc_err err;

	chain->program.nwords = (BLOCKS - 1) * RKC_WAIT_STRIDE + RKC_BODY_WORDS;
	KUNIT_EXPECT_EQ(test, rkc_program_shape(&chain->program, &err), RKC_OK);
	chain->program.nwords--;
	KUNIT_EXPECT_EQ(test, rkc_program_shape(&chain->program, &err), RKC_TRUNCATED);
	chain->program.count = 0;
	KUNIT_EXPECT_EQ(test, rkc_program_shape(&chain->program, &err), RKC_EMPTY);
}

static void limits(struct kunit *test)
{
	static const struct {
		u8 type;
		u32 m, k, n;
		u32 reason;
		u64 limit;
	} cases[] = {
		{ RKC_I8_I32, 704, 512, 32, RKC_OK, 0 },
		{ RKC_I8_I32, 705, 512, 32, RKC_M_TOO_BIG, 704 },
		{ RKC_I8_I32, 320, 1024, 32, RKC_OK, 0 },
		{ RKC_I8_I32, 321, 1024, 32, RKC_M_TOO_BIG, 320 },
		{ RKC_F16_F32, 512, 32, 16, RKC_OK, 0 },
		{ RKC_F16_F32, 513, 32, 16, RKC_M_TOO_BIG, 512 },
		{ RKC_I8_I32, 0, 32, 32, RKC_M_ZERO, 1 },
		{ RKC_I8_I32, 1, RKC_K_MAX, 32, RKC_OK, 0 },
		{ RKC_I8_I32, 1, RKC_K_MAX + 32, 32, RKC_K_RANGE, RKC_K_MAX },
		{ RKC_I8_I32, 1, 48, 32, RKC_K_ALIGN, 32 },
		{ RKC_I8_I32, 1, 32, RKC_N_MAX, RKC_OK, 0 },
		{ RKC_I8_I32, 1, 32, RKC_N_MAX + 32, RKC_N_RANGE, RKC_N_MAX },
		{ RKC_I8_I32, 1, 32, 48, RKC_N_ALIGN, 32 },
		{ RKC_F16_F32, 1, 32, 48, RKC_OK, 0 },
		{ RKC_TYPES, 1, 32, 32, RKC_BAD_TYPE, RKC_TYPES - 1 },
	};
	struct rkc_err err;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rkc_matmul d = small(0x1000000, 0x2000000, 0x8000000);

		d.type = cases[i].type;
		d.m = cases[i].m;
		d.m_total = cases[i].m;
		d.k = cases[i].k;
		d.n = cases[i].n;
		err.limit = 0;
		KUNIT_EXPECT_EQ_MSG(test, rkc_matmul_check(&d, &err), cases[i].reason,
				    "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, err.limit, cases[i].limit, "case %u", i);
	}
}

static const struct rkc_buf bufs[] = {
	{ 0x10000, 0x1000, RKC_BUF_READ },
	{ 0x20000, 0x1000, RKC_BUF_READ },
	{ 0x30000, 0x1000, RKC_BUF_WRITE },
	{ 0x40000, 0x1000, RKC_BUF_READ | RKC_BUF_WRITE },
};

/* Two blocks, of which the first is fine. */
static u32 check_second(struct rkc_matmul second, bool ordered, struct rkc_checked *out,
			struct rkc_err *err)
{
	const struct rkc_matmul blocks[] = { small(0x10000, 0x20000, 0x40000), second };

	memset(err, 0, sizeof(*err));
	return rkc_chain_check(blocks, 2, bufs, ARRAY_SIZE(bufs), ordered, out, err);
}

static void extents(struct kunit *test)
{
	struct rkc_checked out;
	struct rkc_err err;

	/* To the last byte, and one step further. */
	KUNIT_EXPECT_EQ(test, check_second(small(0x10f80, 0x20c00, 0x30e00), true, &out, &err),
			RKC_OK);
	KUNIT_EXPECT_TRUE(test, out.replayable);
	KUNIT_EXPECT_FALSE(test, out.aliases);
	KUNIT_EXPECT_EQ(test, out.cost.macs, 2ULL * 4 * 32 * 32);
	KUNIT_EXPECT_EQ(test, out.cost.bytes, 2ULL * (128 + 1024 + 512));

	KUNIT_EXPECT_EQ(test, check_second(small(0x10f90, 0x20c00, 0x30e00), true, &out, &err),
			RKC_A_OUTSIDE);
	KUNIT_EXPECT_EQ(test, err.block, 1);
	KUNIT_EXPECT_EQ(test, err.value, 0x10f90);
	KUNIT_EXPECT_EQ(test, check_second(small(0x10f80, 0x20c10, 0x30e00), true, &out, &err),
			RKC_B_OUTSIDE);
	KUNIT_EXPECT_EQ(test, err.block, 1);
	KUNIT_EXPECT_EQ(test, check_second(small(0x10f80, 0x20c00, 0x30e10), true, &out, &err),
			RKC_C_OUTSIDE);
	KUNIT_EXPECT_EQ(test, err.block, 1);
	/* Inside, but not of a buffer that allows it. */
	KUNIT_EXPECT_EQ(test, check_second(small(0x30000, 0x20000, 0x30800), true, &out, &err),
			RKC_A_OUTSIDE);
	KUNIT_EXPECT_EQ(test, check_second(small(0x10000, 0x20000, 0x10800), true, &out, &err),
			RKC_C_OUTSIDE);
}

static void buffers(struct kunit *test)
{
	const struct rkc_buf touching[] = { { 0x1000, 0x1000 }, { 0x2000, 0x1000 } };
	const struct rkc_buf sharing[] = { { 0x1000, 0x1001 }, { 0x2000, 0x1000 } };
	const struct rkc_buf last[] = { { 0xfffff000, 0x1000 } };
	const struct rkc_buf past[] = { { 0x1000, 0x1000 }, { 0xfffff000, 0x1001 } };
	struct rkc_err err;

	KUNIT_EXPECT_EQ(test, rkc_bufs_check(touching, 2, &err), RKC_OK);
	KUNIT_EXPECT_EQ(test, rkc_bufs_check(sharing, 2, &err), RKC_BUFFERS_OVERLAP);
	KUNIT_EXPECT_EQ(test, err.word, 1);
	KUNIT_EXPECT_EQ(test, rkc_bufs_check(last, 1, &err), RKC_OK);
	KUNIT_EXPECT_EQ(test, rkc_bufs_check(past, 2, &err), RKC_BUFFER_RANGE);
	KUNIT_EXPECT_EQ(test, err.word, 1);
}

static void aliasing(struct kunit *test)
{
	struct rkc_matmul d = small(0x40000, 0x20000, 0x30000);
	struct rkc_checked out;
	struct rkc_err err;

	/* The first block's 32-bit output, read as int8. */
	KUNIT_EXPECT_EQ(test, check_second(d, true, &out, &err), RKC_ALIAS_TYPE);
	KUNIT_EXPECT_EQ(test, err.block, 1);
	KUNIT_EXPECT_EQ(test, err.reg, 0x1070);
	/* Right behind it. */
	d.a = 0x40200;
	KUNIT_EXPECT_EQ(test, check_second(d, true, &out, &err), RKC_OK);
	KUNIT_EXPECT_FALSE(test, out.aliases);
	/* Its own input. */
	d.a = 0x40800;
	d.c = 0x40810;
	KUNIT_EXPECT_EQ(test, check_second(d, true, &out, &err), RKC_OUTPUT_OVERLAP);
	KUNIT_EXPECT_EQ(test, err.block, 1);
}

static void aliasing_in_order(struct kunit *test)
{
	struct rkc_matmul blocks[] = { small(0x10000, 0x20000, 0x40000),
				       small(0x40000, 0x20000, 0x40800) };
	struct rkc_checked out;
	struct rkc_err err = { 0 };

	blocks[0].type = RKC_I8_I8;
	KUNIT_EXPECT_EQ(test, rkc_chain_check(blocks, 2, bufs, ARRAY_SIZE(bufs), true, &out, &err),
			RKC_OK);
	KUNIT_EXPECT_TRUE(test, out.aliases);
	KUNIT_EXPECT_TRUE(test, out.replayable);
	KUNIT_EXPECT_EQ(test, rkc_chain_check(blocks, 2, bufs, ARRAY_SIZE(bufs), false, &out, &err),
			RKC_ALIAS_ORDER);
	KUNIT_EXPECT_EQ(test, err.block, 1);
	KUNIT_EXPECT_EQ(test, err.value, 0);
}

static void replayable(struct kunit *test)
{
	/* The second writes what the first has read. */
	const struct rkc_matmul blocks[] = { small(0x40000, 0x20000, 0x30000),
					     small(0x10000, 0x20000, 0x40000) };
	struct rkc_checked out;

	KUNIT_EXPECT_EQ(test, rkc_chain_check(blocks, 2, bufs, ARRAY_SIZE(bufs), true, &out, NULL),
			RKC_OK);
	KUNIT_EXPECT_FALSE(test, out.replayable);
	KUNIT_EXPECT_EQ(test, rkc_chain_check(blocks, 1, bufs, ARRAY_SIZE(bufs), true, &out, NULL),
			RKC_OK);
	KUNIT_EXPECT_TRUE(test, out.replayable);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(recognises_what_it_makes),
	KUNIT_CASE(names_block_and_word),
	KUNIT_CASE(refuses_what_is_cut_off),
	KUNIT_CASE(limits),
	KUNIT_CASE(extents),
	KUNIT_CASE(buffers),
	KUNIT_CASE(aliasing),
	KUNIT_CASE(aliasing_in_order),
	KUNIT_CASE(replayable),
	{}
};

struct kunit_suite checker_suite = {
	.name = "rkchain-checker",
	.test_cases = cases,
};

// SPDX-License-Identifier: MIT
/*
 * Do chains compute what plain C computes?  Each output starts out wrong.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "debug.h"
#include "rig.h"

static void run_blocks(u32 count)
{
	int rk = rig_open();
	struct rig_job job;

	/* What an emulated NPU takes for long chains is not to be taken for hanging. */
	if (tap_slow() > 1)
		rig_set_parameter("hang_ms", "3000");
	rig_job_new(&job, rk, count);
	rig_job_fill(&job, count);
	rig_job_register(&job);
	rig_job_run(&job);
	rig_job_free(&job);
}

static void test_1_block(void)
{
	run_blocks(1);
}

static void test_2_blocks(void)
{
	run_blocks(2);
}

static void test_64_blocks(void)
{
	run_blocks(64);
}

static void test_1191_blocks(void)
{
	run_blocks(1191);
}

/* Shapes at the limits of rows and in between. */
static void test_shapes(void)
{
	static const struct {
		u32 m;
		u32 k;
		u32 n;
	} shapes[] = {
		{ 1, 32, 32 }, { 1, 1024, 256 }, { 7, 96, 160 }, { 704, 32, 32 }, { 64, 4096, 32 },
		{ 3, 10752, 32 }, { 1, 32, 8192 },
	};
	int rk = rig_open();

	for (u32 i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct rig_job job;

		rig_job_shape(&job, rk, shapes[i].m, shapes[i].k, shapes[i].n, 2);
		rig_job_fill(&job, i);
		rig_job_register(&job);
		tap_note("%u x %u x %u", shapes[i].m, shapes[i].k, shapes[i].n);
		rig_job_run(&job);
		rig_job_free(&job);
	}
}

/* Registered once; only the input changes, and only SYNC moves it. */
static void test_100_times(void)
{
	int rk = rig_open();
	struct rig_job job;

	rig_job_new(&job, rk, 8);
	rig_job_fill(&job, 0);
	rig_job_register(&job);
	for (u32 i = 0; i < 100; i++) {
		rig_job_refill(&job, 1000 + i);
		rig_job_run(&job);
	}
	rig_job_free(&job);
}

/* Without SYNC, BUF_SYNC does the same, of a part as of all. */
static void test_buf_sync(void)
{
	struct rkchain_completion done;
	int rk = rig_open();
	struct rig_job job;

	rig_job_new(&job, rk, 8);
	for (u32 i = 0; i < 3; i++)
		job.uses[i].flags &= ~RKCHAIN_USE_SYNC;
	rig_job_register(&job);
	for (u32 i = 0; i < 10; i++) {
		struct rkchain_buf_sync half = {
			.id = job.a.id,
			.direction = RKCHAIN_SYNC_TO_DEVICE,
			.size = 4 * 4 * 32,
		};

		rig_job_fill(&job, i);
		ASSERT_EQ(rig_try(rk, RKCHAIN_IOCTL_BUF_SYNC, &half), 0);
		half.offset = half.size;
		half.size = 0;
		ASSERT_EQ(rig_try(rk, RKCHAIN_IOCTL_BUF_SYNC, &half), 0);
		rig_buf_sync(&job.c, RKCHAIN_SYNC_TO_DEVICE);
		rig_wait_good(rk, rig_submit(rk, job.chain, 1, 0, 0), 1, &done);
		rig_buf_sync(&job.c, RKCHAIN_SYNC_FROM_DEVICE);
		rig_job_check(&job);
	}
}

static void test_write_combine(void)
{
	struct rkchain_buf_create create = { .size = 4096, .flags = RKCHAIN_BUF_WRITE_COMBINE };
	int rk = rig_open();
	struct rig_buf buf;

	ASSERT_EQ(rig_try_buf(rk, &create), 0);
	ASSERT_EQ(create.iova % 4096, 0);
	buf.rk = rk;
	buf.id = create.id;
	/* Nothing to sync, and no error to ask for it. */
	rig_buf_sync(&buf, RKCHAIN_SYNC_TO_DEVICE);
	ASSERT_EQ(rig_try_destroy(rk, create.id), 0);
}

static void test_memory_is_zero(void)
{
	int rk = rig_open();

	for (u32 i = 0; i < 16; i++) {
		struct rig_buf buf;
		const u8 *byte;

		rig_buf_new(&buf, rk, 65536);
		byte = buf.map;
		for (u32 at = 0; at < 65536; at++)
			ASSERT_EQ(byte[at], 0);
		memset(buf.map, 0xff, 65536);
		rig_buf_sync(&buf, RKCHAIN_SYNC_TO_DEVICE);
		rig_buf_free(&buf);
	}
}

/* A chain that was registered in one mode runs in all others. */
static void in_mode(const char *name)
{
	int rk = rig_open();
	struct rig_job job;

	rig_job_new(&job, rk, 24);
	rig_job_fill(&job, 1);
	rig_job_register(&job);
	rig_job_run(&job);
	rig_need_parameter("chain_mode", name);
	for (u32 i = 0; i < 4; i++) {
		rig_job_refill(&job, i);
		rig_job_run(&job);
	}
	rig_job_free(&job);

	/* And one that is registered in it. */
	run_blocks(1);
	run_blocks(50);
}

static void test_mode_wait(void)
{
	in_mode("wait");
}

static void test_mode_wait41(void)
{
	in_mode("wait41");
}

static void test_mode_link(void)
{
	in_mode("link");
}

static void test_mode_single(void)
{
	in_mode("single");
}

static void test_mode_unknown(void)
{
	rig_need_parameter("chain_mode", "link");
	ASSERT(!rig_set_parameter("chain_mode", "fast"));
	rig_still_works();
}

/* ---- programs of other generators ---- */

static void run_words(struct rig_job *job, struct rkchain_chain_create *create)
{
	int ret = rig_try_create(job->rk, create);

	if (ret)
		FAIL("CHAIN_CREATE: %s, %s, block %u, word %u", strerror(-ret),
		     rkc_reason_name(create->report.reason), create->report.block,
		     create->report.word);
	job->chain = create->id;
	rig_job_run(job);
	rig_job_free(job);
}

static void layout(u32 mode, u32 flags)
{
	struct rkchain_chain_create create;
	int rk = rig_open();
	struct rkc_measure measure;
	struct rig_job job;
	u64 *words;

	rig_job_new(&job, rk, 20);
	rig_job_fill(&job, mode);
	ASSERT_EQ(rkc_chain_measure(mode, job.count, &measure, NULL), RKC_OK);
	words = calloc(measure.words, sizeof(*words));
	ASSERT(words);
	/* Links that lead into memory which is not there: they are not followed. */
	ASSERT_EQ(rkc_chain_emit(mode, job.blocks, job.count, 0x40, words, NULL), RKC_OK);
	rig_job_request(&job, &create);
	create.programs = (uintptr_t)words;
	create.size = 8ULL * measure.words;
	create.stride = measure.stride;
	create.flags = flags;
	run_words(&job, &create);
}

static void test_layout_wait41(void)
{
	layout(RKC_WAIT41, 0);
}

static void test_layout_link(void)
{
	layout(RKC_LINK, RKCHAIN_CHAIN_LINK);
}

static void test_layout_single(void)
{
	layout(RKC_SINGLE, 0);
}

/* Bodies of 104 words: what is written twice, once; other schedules. */
static void test_layout_104(void)
{
	const u32 body = RKC_BODY_WORDS - 4, stride = 112;
	struct rkchain_chain_create create;
	int rk = rig_open();
	struct rig_job job;
	u64 *words;

	rig_job_new(&job, rk, 20);
	rig_job_fill(&job, 104);
	words = calloc(job.count * stride, sizeof(*words));
	ASSERT(words);
	for (u32 i = 0; i < job.count; i++) {
		u64 *to = words + i * stride;
		u64 all[RKC_BODY_WORDS];

		rkc_generate(&job.blocks[i], all);
		to[0] = all[3];
		to[1] = all[4];
		memcpy(to + 2, all + 6, (RKC_BODY_WORDS - 6) * sizeof(*to));
		to[body - RKC_BODY_WORDS + 53] = rkc_entry(RKC_TARGET_CORE, 0x3010, 0);
	}
	rig_job_request(&job, &create);
	create.programs = (uintptr_t)words;
	create.size = 8ULL * job.count * stride;
	create.stride = stride;
	create.body = body;
	run_words(&job, &create);
}

/* ---- one block's output is another's input ---- */

static void feed_on(const char *mode)
{
	const u32 m = 4, k = 32, n = 32;
	struct rkchain_chain_create create = { 0 };
	struct rkchain_buf_use uses[2];
	u64 words[RKC_WAIT_STRIDE + RKC_FULL_WORDS];
	struct rkchain_completion done;
	struct rig_buf data, weights;
	int rk = rig_open();
	struct rkc_matmul d;
	s8 *a, *mid, *b;
	s32 *c;

	rig_need_parameter("chain_mode", mode);
	/* Whether it keeps the order in the wait modes is the NPU's own; the model's does. */
	if (model_present())
		rig_set_parameter("feed_on", "1");
	rig_need(rk, RKCHAIN_CAP_FEED_ON, "feeding on");
	rig_buf_new(&data, rk, 4096);
	rig_buf_new(&weights, rk, 4096);
	uses[0] = (struct rkchain_buf_use){ data.id, RKCHAIN_USE_READ | RKCHAIN_USE_WRITE |
					    RKCHAIN_USE_SYNC };
	uses[1] = (struct rkchain_buf_use){ weights.id, RKCHAIN_USE_READ };
	d = (struct rkc_matmul){
		.type = RKC_I8_I8, .layout = RKC_FLAT, .m = m, .k = k, .n = n, .m_total = m,
		.a = data.iova, .b = weights.iova, .c = data.iova + 1024,
	};
	rkc_chain_append(words, 0, &d);
	d.type = RKC_I8_I32;
	d.a = d.c;
	d.b += k * n;
	d.c += 1024;
	rkc_chain_append(words, 1, &d);
	create.programs = (uintptr_t)words;
	create.size = sizeof(words);
	create.count = 2;
	create.stride = RKC_WAIT_STRIDE;
	create.body = RKC_BODY_WORDS;
	create.buffers = (uintptr_t)uses;
	create.buffer_count = 2;
	ASSERT_EQ(rig_try_create(rk, &create), 0);
	ASSERT(create.found & RKCHAIN_CHAIN_FEEDS_ON);

	a = data.map;
	mid = a + 1024;
	c = (s32 *)(a + 2048);
	b = weights.map;
	for (u32 run = 0; run < 50; run++) {
		/* Small enough for int8 in between: -1, 0 and 1. */
		for (u32 i = 0; i < m * k; i++)
			a[i] = (int)((i * 7 + run * 13 + i / 5) % 3) - 1;
		for (u32 i = 0; i < 2 * k * n; i++)
			b[i] = (int)((i * 11 + run + i / 7) % 3) - 1;
		memset(mid, 0x5a, 1024);
		memset(c, 0x5a, 2048);
		rig_buf_sync(&weights, RKCHAIN_SYNC_TO_DEVICE);
		rig_wait_good(rk, rig_submit(rk, create.id, 1, 0, 0), 1, &done);
		for (u32 row = 0; row < m; row++)
			for (u32 i = 0; i < n; i++)
				ASSERT_EQ(mid[row * n + i], rig_dot(a + row * k, b, k, i));
		for (u32 row = 0; row < m; row++)
			for (u32 i = 0; i < n; i++)
				ASSERT_EQ(c[row * n + i],
					  rig_dot(mid + row * n, b + k * n, n, i));
	}
}

static void test_feed_on_link(void)
{
	feed_on("link");
}

static void test_feed_on_single(void)
{
	feed_on("single");
}

static void test_feed_on_wait(void)
{
	feed_on("wait");
}

/* A buffer that the caller made on the stock driver's node. */
static void test_adopt(void)
{
	struct rkchain_buf_adopt adopt = { .drm_fd = rig_node() };
	struct rkchain_chain_create create;
	struct rkchain_completion done;
	struct rig_stock_buf mine;
	int rk = rig_open();
	struct rig_job job;
	const s32 *c;

	rig_need(rk, RKCHAIN_CAP_ADOPT, "BUF_ADOPT");
	if (adopt.drm_fd < 0)
		tap_skip("the stock driver's node cannot be opened");
	rig_job_new(&job, rk, 1);
	rig_job_fill(&job, 77);
	rig_stock_buf(adopt.drm_fd, 4096, RKNPU_MEM_NON_CONTIGUOUS | RKNPU_MEM_WRITE_COMBINE,
		      &mine);
	adopt.handle = mine.handle;
	ASSERT_EQ(rig_try(rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), 0);
	ASSERT_EQ(adopt.iova, mine.iova);
	ASSERT_EQ(adopt.size, 4096);

	job.uses[2].id = adopt.id;
	job.blocks[0].c = adopt.iova;
	rkc_chain_append(job.words, 0, &job.blocks[0]);
	rig_job_request(&job, &create);
	ASSERT_EQ(rig_try_create(rk, &create), 0);
	/* The caller's own file may be closed: the memory stays as long as it is held. */
	close(adopt.drm_fd);
	rig_wait_good(rk, rig_submit(rk, create.id, 1, 0, 0), 1, &done);
	c = mine.map;
	for (u32 i = 0; i < 4 * 32; i++)
		ASSERT_EQ(c[i], rig_dot((s8 *)job.a.map + i / 32 * 32, job.b.map, 32, i % 32));
	ASSERT_EQ(rig_try_destroy(rk, adopt.id), 0);
}

static const struct tap_test tests[] = {
	{ .name = "1_block", .run = test_1_block },
	{ .name = "2_blocks", .run = test_2_blocks },
	{ .name = "64_blocks", .run = test_64_blocks },
	{ .name = "1191_blocks", .run = test_1191_blocks },
	{ .name = "shapes", .run = test_shapes },
	{ .name = "100_times", .run = test_100_times },
	{ .name = "buf_sync", .run = test_buf_sync },
	{ .name = "write_combine", .run = test_write_combine },
	{ .name = "memory_is_zero", .run = test_memory_is_zero },
	{ .name = "mode_wait", .run = test_mode_wait },
	{ .name = "mode_wait41", .run = test_mode_wait41 },
	{ .name = "mode_link", .run = test_mode_link },
	{ .name = "mode_single", .run = test_mode_single },
	{ .name = "mode_unknown", .run = test_mode_unknown },
	{ .name = "layout_wait41", .run = test_layout_wait41 },
	{ .name = "layout_link", .run = test_layout_link },
	{ .name = "layout_single", .run = test_layout_single },
	{ .name = "layout_104", .run = test_layout_104 },
	{ .name = "feed_on_link", .run = test_feed_on_link },
	{ .name = "feed_on_single", .run = test_feed_on_single },
	{ .name = "feed_on_wait", .run = test_feed_on_wait },
	{ .name = "adopt", .run = test_adopt },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

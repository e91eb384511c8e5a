// SPDX-License-Identifier: MIT
/*
 * What a chain saves, in the hardware model's own count: 64 matmuls one by one
 * through the stock driver, and as one chain.
 */
#include "debug.h"
#include "rig.h"

#define BLOCKS	64

struct count {
	u64 commits;
	u64 interrupts;
	u64 blocks;
	u64 syncs;
	u64 calls;
};

static struct count now(void)
{
	struct count c = {
		.commits = model_sum("commits"),
		.interrupts = model_sum("interrupts"),
		.blocks = model_sum("blocks"),
		.calls = rig_calls,
	};
	u64 from = 0;

	if (standin_counter("sync_to_device", &c.syncs) &&
	    standin_counter("sync_from_device", &from))
		c.syncs += from;
	return c;
}

static struct count since(struct count then)
{
	struct count c = now();

	c.commits -= then.commits;
	c.interrupts -= then.interrupts;
	c.blocks -= then.blocks;
	c.syncs -= then.syncs;
	c.calls -= then.calls;
	return c;
}

static void row(const char *what, struct count c)
{
	tap_note("%-34s %5llu %7llu %10llu %6llu %5llu", what, (unsigned long long)c.calls,
		 (unsigned long long)c.commits, (unsigned long long)c.interrupts,
		 (unsigned long long)c.blocks, (unsigned long long)c.syncs);
}

static void count_in_mode(const char *mode, u64 submits)
{
	struct rkchain_completion done;
	struct rig_singles singles;
	struct count start, c;
	int rk = rig_open();
	struct rig_job job;

	model_need();
	rig_need_parameter("chain_mode", mode);
	rig_job_new(&job, rk, BLOCKS);
	rig_job_fill(&job, 1);
	rig_buf_sync(&job.a, RKCHAIN_SYNC_TO_DEVICE);
	rig_buf_sync(&job.c, RKCHAIN_SYNC_TO_DEVICE);
	rig_singles_new(&singles, &job);
	tap_note("%-34s %5s %7s %10s %6s %5s", "besides WAIT", "calls", "submits", "interrupts",
		 "blocks", "syncs");

	start = now();
	rig_singles_run(&singles);
	c = since(start);
	row("64 matmuls one by one, stock", c);
	ASSERT_EQ(c.calls, BLOCKS);
	rig_buf_sync(&job.c, RKCHAIN_SYNC_FROM_DEVICE);
	rig_job_check(&job);
	ASSERT_EQ(c.commits, BLOCKS);
	ASSERT_EQ(c.interrupts, BLOCKS);
	ASSERT_EQ(c.blocks, BLOCKS);

	rig_job_refill(&job, 2);
	start = now();
	rig_job_register(&job);
	rig_wait_good(rk, rig_submit(rk, job.chain, 1, 0, 0), 1, &done);
	c = since(start);
	row("one chain, registered and run", c);
	rig_job_check(&job);
	ASSERT_EQ(c.commits, submits);
	ASSERT_EQ(c.interrupts, submits);
	ASSERT_EQ(c.blocks, BLOCKS);

	rig_job_refill(&job, 3);
	start = now();
	rig_wait_good(rk, rig_submit(rk, job.chain, 1, 0, 0), 1, &done);
	c = since(start);
	row("the same chain again", c);
	ASSERT_EQ(c.calls, 1);
	rig_job_check(&job);
	ASSERT_EQ(c.commits, submits);
	ASSERT_EQ(c.interrupts, submits);
	ASSERT_EQ(c.blocks, BLOCKS);
	/* Features and output before, output after; neither weights nor program. */
	if (c.syncs > 3)
		FAIL("%llu cache operations, not 3", (unsigned long long)c.syncs);
}

static void test_wait(void)
{
	count_in_mode("wait", 1);
}

static void test_wait41(void)
{
	count_in_mode("wait41", 1);
}

static void test_link(void)
{
	count_in_mode("link", 1);
}

static void test_single(void)
{
	count_in_mode("single", BLOCKS);
}

static const struct tap_test tests[] = {
	{ .name = "wait", .run = test_wait },
	{ .name = "wait41", .run = test_wait41 },
	{ .name = "link", .run = test_link },
	{ .name = "single", .run = test_single },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

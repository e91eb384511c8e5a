// SPDX-License-Identifier: MIT
/*
 * What calls cost, as ratios of times that were taken in turns.  The hardware
 * model's own time, which is the emulator's, is left out.
 */
#include <stdlib.h>

#include "debug.h"
#include "rig.h"

#define BLOCKS	64
#define ROUNDS	15
#define TIMES	200

static u64 busy(void)
{
	return model_present() ? model_sum("busy_ns") : 0;
}

static u64 host_time(u64 start, u64 busy_start)
{
	const u64 all = rig_now() - start, npu = busy() - busy_start;

	return all > npu ? all - npu : 1;
}

static void test_chain_of_64(void)
{
	u64 stock[ROUNDS], chain[ROUNDS], one, many;
	struct rkchain_completion done;
	struct rig_singles singles;
	int rk = rig_open();
	struct rig_job job;

	rig_job_new(&job, rk, BLOCKS);
	rig_job_fill(&job, 1);
	rig_singles_new(&singles, &job);
	rig_job_register(&job);
	for (u32 i = 0; i < ROUNDS; i++) {
		u64 npu = busy(), start = rig_now();

		rig_singles_run(&singles);
		stock[i] = host_time(start, npu);

		npu = busy();
		start = rig_now();
		rig_wait_good(rk, rig_submit(rk, job.chain, 1, 0, 0), 1, &done);
		chain[i] = host_time(start, npu);
	}
	many = rig_median(stock, ROUNDS);
	one = rig_median(chain, ROUNDS);
	tap_note("%u submits %llu us, one chain %llu us: %.1f times", BLOCKS,
		 (unsigned long long)many / 1000, (unsigned long long)one / 1000,
		 (double)many / one);
	ASSERT(many >= 10 * one);
}

/* The call alone, without what it sets going. */
static u64 submit_time(int rk, u32 chain)
{
	struct rkchain_submit submit = { .chains = (uintptr_t)&chain, .count = 1 };
	struct rkchain_completion done;
	u64 start = rig_now();
	int ret = rig_try_submit(rk, &submit);
	u64 took = rig_now() - start;

	ASSERT_EQ(ret, 0);
	rig_wait_good(rk, submit.first, 1, &done);
	return took;
}

static void test_submit_of_1024(void)
{
	static u64 with_1[TIMES], with_1024[TIMES];
	struct rig_job small, large;
	int rk = rig_open();
	bool ok = false;
	u64 one, many;

	rig_job_new(&small, rk, 1);
	rig_job_new(&large, rk, 1024);
	rig_job_fill(&small, 1);
	rig_job_fill(&large, 1);
	rig_job_register(&small);
	rig_job_register(&large);
	submit_time(rk, small.chain);
	submit_time(rk, large.chain);
	for (u32 round = 0; round < 3 && !ok; round++) {
		for (u32 i = 0; i < TIMES; i++) {
			with_1[i] = submit_time(rk, small.chain);
			with_1024[i] = submit_time(rk, large.chain);
		}
		/*
		 * What the call sets going may run on its CPU before it returns; the
		 * quicker ones are the call alone.
		 */
		qsort(with_1, TIMES, sizeof(u64), rig_compare_u64);
		qsort(with_1024, TIMES, sizeof(u64), rig_compare_u64);
		one = with_1[TIMES / 4];
		many = with_1024[TIMES / 4];
		tap_note("SUBMIT of 1 block %llu ns, of 1024 blocks %llu ns: %.2f times",
			 (unsigned long long)one, (unsigned long long)many,
			 (double)many / one);
		ok = many * 10 <= one * 13;
	}
	ASSERT(ok);
}

/* Waiting for one that has ended is a call like any other. */
static void test_wait_is_cheap(void)
{
	static u64 wait_ns[TIMES], query_ns[TIMES];
	struct rkchain_completion done;
	struct rkchain_query query;
	int rk = rig_open();
	struct rig_job job;
	u64 call, wait;

	rig_job_new(&job, rk, 1);
	rig_job_fill(&job, 1);
	rig_job_register(&job);
	for (u32 i = 0; i < TIMES; i++) {
		u64 first = rig_submit(rk, job.chain, 1, 0, 0);
		u64 start;

		rig_sleep(2);
		start = rig_now();
		rig_wait_good(rk, first, 1, &done);
		wait_ns[i] = rig_now() - start;
		start = rig_now();
		rig_query(rk, &query);
		query_ns[i] = rig_now() - start;
	}
	call = rig_median(query_ns, TIMES);
	wait = rig_median(wait_ns, TIMES);
	tap_note("WAIT %llu ns, QUERY %llu ns", (unsigned long long)wait,
		 (unsigned long long)call);
	ASSERT(wait <= 20 * call);
}

static const struct tap_test tests[] = {
	{ .name = "chain_of_64", .run = test_chain_of_64, .seconds = 120 },
	{ .name = "submit_of_1024", .run = test_submit_of_1024, .seconds = 300 },
	{ .name = "wait_is_cheap", .run = test_wait_is_cheap },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

// SPDX-License-Identifier: MIT
/*
 * A registered chain holds its buffers: whoever made them may let go.  And when
 * all is let go of, all of the memory is back.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "debug.h"
#include "rig.h"

static u64 live_objects(void)
{
	u64 objects = 0;

	standin_counter("objects", &objects);
	return objects;
}

static void objects_return(u64 then)
{
	const u64 end = rig_soon();

	while (live_objects() > then) {
		if (rig_now() > end)
			FAIL("%llu objects of the stock driver, %llu before",
			     (unsigned long long)live_objects(), (unsigned long long)then);
		rig_sleep(20);
	}
}

/* The ids and the dma-bufs; the mappings stay, to see the result. */
static void let_go(struct rig_job *job)
{
	struct rig_buf *bufs[] = { &job->a, &job->b, &job->c };

	for (u32 i = 0; i < ARRAY_SIZE(bufs); i++) {
		close(bufs[i]->fd);
		ASSERT_EQ(rig_try_destroy(job->rk, bufs[i]->id), 0);
	}
}

static void test_buffers_destroyed(void)
{
	struct rkchain_query before, mapped;
	u64 objects;
	int rk = rig_open();
	struct rig_job job;

	/* The first call opens the driver for this client. */
	rig_still_works();
	rig_query(rk, &before);
	objects = live_objects();
	rig_job_new(&job, rk, 16);
	rig_job_fill(&job, 1);
	rig_job_register(&job);
	let_go(&job);
	for (u32 i = 0; i < 20; i++) {
		rig_job_refill(&job, i);
		rig_job_run(&job);
	}
	ASSERT_EQ(rig_try_destroy_chain(rk, job.chain), 0);

	/* What is mapped is still there, counts, and goes with the mapping. */
	memset(job.a.map, 1, job.a.size);
	rig_query(rk, &mapped);
	ASSERT_EQ(mapped.used_bytes, before.used_bytes + job.a.size + job.b.size + job.c.size);
	munmap(job.a.map, job.a.size);
	munmap(job.b.map, job.b.size);
	munmap(job.c.map, job.c.size);
	rig_settles(rk, &before);
	objects_return(objects);
}

/* Other memory must not end up where the old one was. */
static void test_memory_not_given_twice(void)
{
	int rk = rig_open(), other = rig_open();
	struct rig_job job;
	struct rig_buf bufs[64];

	rig_job_new(&job, rk, 16);
	rig_job_fill(&job, 1);
	rig_job_register(&job);
	let_go(&job);
	for (u32 i = 0; i < ARRAY_SIZE(bufs); i++) {
		rig_buf_new(&bufs[i], other, job.c.size);
		memset(bufs[i].map, 0x77, bufs[i].size);
		rig_buf_sync(&bufs[i], RKCHAIN_SYNC_TO_DEVICE);
		if (bufs[i].iova < job.c.iova + job.c.size &&
		    job.c.iova < bufs[i].iova + bufs[i].size)
			FAIL("the output's memory has been given away");
	}
	rig_job_run(&job);
	for (u32 i = 0; i < ARRAY_SIZE(bufs); i++) {
		const u8 *byte = bufs[i].map;

		rig_buf_sync(&bufs[i], RKCHAIN_SYNC_FROM_DEVICE);
		for (u32 at = 0; at < bufs[i].size; at++)
			ASSERT_EQ(byte[at], 0x77);
	}
}

/* Destroyed with work that waits: the work is done, then the memory goes. */
static void test_chain_destroyed_with_work(void)
{
	struct rkchain_completion done[40];
	struct rkchain_query before;
	int rk = rig_open();
	struct rig_job job;
	u64 first;

	rig_still_works();
	rig_query(rk, &before);
	if (model_present())
		model_set("latency_us", 2000);
	rig_job_new(&job, rk, 4);
	rig_job_fill(&job, 1);
	rig_job_register(&job);
	let_go(&job);
	first = rig_submit(rk, job.chain, ARRAY_SIZE(done), 0, 0);
	ASSERT_EQ(rig_try_destroy_chain(rk, job.chain), 0);
	rig_wait_good(rk, first, ARRAY_SIZE(done), done);
	rig_job_check(&job);
	munmap(job.a.map, job.a.size);
	munmap(job.b.map, job.b.size);
	munmap(job.c.map, job.c.size);
	rig_settles(rk, &before);
}

/* The file closed with everything in it. */
static void test_everything_left_behind(void)
{
	struct rkchain_query before;
	int rk = rig_open();
	u64 objects;

	rig_still_works();
	rig_query(rk, &before);
	objects = live_objects();
	for (u32 i = 0; i < 10; i++) {
		int other = rig_open();
		struct rig_job job;

		rig_job_new(&job, other, 10);
		rig_job_fill(&job, i);
		rig_job_register(&job);
		rig_submit(other, job.chain, 10, 0, 0);
		close(other);
		close(job.a.fd);
		close(job.b.fd);
		close(job.c.fd);
		munmap(job.a.map, job.a.size);
		munmap(job.b.map, job.b.size);
		munmap(job.c.map, job.c.size);
	}
	rig_settles(rk, &before);
	objects_return(objects);
}

/* A refused chain holds nothing. */
static void test_refused_holds_nothing(void)
{
	struct rkchain_query before, after;
	int rk = rig_open();
	struct rig_job job;

	rig_job_new(&job, rk, 100);
	rig_query(rk, &before);
	job.words[99 * RKC_WAIT_STRIDE + 8] = 0;
	for (u32 i = 0; i < 100; i++) {
		struct rkchain_chain_create create;

		rig_job_request(&job, &create);
		ASSERT(rig_try_create(rk, &create) < 0);
		ASSERT_EQ(create.report.block, 99);
	}
	rig_query(rk, &after);
	ASSERT_EQ(after.used_bytes, before.used_bytes);
	ASSERT_EQ(after.used_chains, before.used_chains);
	ASSERT_EQ(after.used_blocks, before.used_blocks);
	rig_job_free(&job);
}

static const struct tap_test tests[] = {
	{ .name = "buffers_destroyed", .run = test_buffers_destroyed },
	{ .name = "memory_not_given_twice", .run = test_memory_not_given_twice },
	{ .name = "chain_destroyed_with_work", .run = test_chain_destroyed_with_work },
	{ .name = "everything_left_behind", .run = test_everything_left_behind },
	{ .name = "refused_holds_nothing", .run = test_refused_holds_nothing },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

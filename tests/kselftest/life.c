// SPDX-License-Identifier: MIT
/*
 * Clients, chains, buffers and the stock driver itself come and go at bad moments.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debug.h"
#include "rig.h"

#define MS	1000000ULL
#define CHAINS	100

static void open_queue(struct rig_job *job, u32 *chains)
{
	rig_job_new(job, rig_open(), 1);
	rig_job_fill(job, 1);
	rig_clones(job, CHAINS, chains);
}

/* ---- clients ---- */

static void test_killed(void)
{
	struct rkchain_query before;
	int rk = rig_open();
	int ready[2];
	char byte;
	pid_t child;

	rig_still_works();
	rig_query(rk, &before);
	ASSERT_EQ(pipe(ready), 0);
	rig_slow(20);
	child = fork();
	ASSERT(child >= 0);
	if (!child) {
		struct rkchain_completion done[CHAINS];
		u32 chains[CHAINS];
		struct rig_job job;
		u64 first;

		open_queue(&job, chains);
		first = rig_submit_all(job.rk, chains, CHAINS, NULL);
		rig_wait_good(job.rk, first, 5, done);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		rig_wait(job.rk, first + 5, CHAINS - 5, done);
		_exit(1);
	}
	ASSERT_EQ(read(ready[0], &byte, 1), 1);
	kill(child, SIGKILL);
	ASSERT_EQ(waitpid(child, NULL, 0), child);
	rig_settles(rk, &before);
	rig_still_works();
}

struct waiter {
	int rk;
	u64 first;
	struct rkchain_completion done;
	bool waiting;
	int ret;
};

static void *wait_thread(void *data)
{
	struct waiter *w = data;
	struct rkchain_wait wait = {
		.first = w->first,
		.count = 1,
		.deadline_ns = rig_soon(),
		.completions = (uintptr_t)&w->done,
	};

	__atomic_store_n(&w->waiting, true, __ATOMIC_SEQ_CST);
	w->ret = rig_try_wait(w->rk, &wait);
	return NULL;
}

/* The descriptor is gone at once; the call that uses it has the file until it ends. */
static void test_closed_during_wait(void)
{
	struct rkchain_query before;
	struct waiter waiter = { 0 };
	u32 chains[CHAINS];
	int rk = rig_open();
	struct rig_job job;
	pthread_t thread;
	u64 start;

	model_need();
	rig_query(rk, &before);
	open_queue(&job, chains);
	rig_slow(500);
	waiter.rk = job.rk;
	waiter.first = rig_submit_all(job.rk, chains, 1, NULL);
	ASSERT_EQ(pthread_create(&thread, NULL, wait_thread, &waiter), 0);
	while (!__atomic_load_n(&waiter.waiting, __ATOMIC_SEQ_CST))
		rig_sleep(1);
	rig_sleep(50);
	start = rig_now();
	ASSERT_EQ(close(job.rk), 0);
	ASSERT(rig_now() - start < 200 * MS);
	pthread_join(thread, NULL);
	ASSERT_EQ(waiter.ret, 0);
	ASSERT_EQ(waiter.done.status, 0);
	rig_job_unmap(&job);
	rig_settles(rk, &before);
}

/* Closing does not wait for what runs. */
static void test_close_is_quick(void)
{
	struct rkchain_query before;
	u32 chains[CHAINS];
	int rk = rig_open();
	struct rig_job job;
	u64 start;

	model_need();
	rig_query(rk, &before);
	open_queue(&job, chains);
	rig_slow(500);
	rig_submit_all(job.rk, chains, CHAINS, NULL);
	rig_sleep(20);
	start = rig_now();
	ASSERT_EQ(close(job.rk), 0);
	ASSERT(rig_now() - start < 300 * MS);
	rig_job_unmap(&job);
	rig_settles(rk, &before);
	/* What was queued has not been run. */
	ASSERT(rig_now() - start < 3000 * MS);
}

static void test_forked(void)
{
	struct rkchain_completion done[2];
	int rk = rig_open();
	struct rig_job job;
	int status;
	pid_t child;
	u64 first;

	rig_job_new(&job, rk, 4);
	rig_job_fill(&job, 1);
	rig_job_register(&job);
	first = rig_submit(rk, job.chain, 1, 0, 0);
	child = fork();
	ASSERT(child >= 0);
	if (!child) {
		/* One client, whoever of its processes calls. */
		rig_buf_map(&job.a);
		rig_buf_map(&job.b);
		rig_buf_map(&job.c);
		rig_wait_good(rk, first, 1, done);
		rig_job_check(&job);
		rig_job_refill(&job, 2);
		rig_job_run(&job);
		_exit(0);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_EQ(status, 0);
	/* The child's exit has closed nothing. */
	rig_job_refill(&job, 3);
	rig_job_run(&job);
	rig_job_free(&job);
}

static void test_200_opens(void)
{
	struct rkchain_query before, during;
	static int clients[200];
	int rk = rig_open();

	rig_query(rk, &before);
	for (u32 i = 0; i < ARRAY_SIZE(clients); i++)
		clients[i] = rig_open();
	rig_query(rk, &during);
	ASSERT_EQ(during.clients, before.clients + ARRAY_SIZE(clients));
	/* Each of them with memory of its own: all hold the stock driver. */
	for (u32 i = 0; i < ARRAY_SIZE(clients); i++) {
		struct rkchain_buf_create create = { .size = 4096 };

		ASSERT_EQ(rig_try_buf(clients[i], &create), 0);
		close(create.fd);
	}
	rig_still_works();
	for (u32 i = 0; i < ARRAY_SIZE(clients); i++)
		close(clients[i]);
	rig_settles(rk, &before);
}

static void test_opened_and_closed(void)
{
	struct rkchain_query before;
	int rk = rig_open();

	rig_query(rk, &before);
	for (u32 i = 0; i < 500; i++) {
		int client = rig_open();

		if (i % 10 == 0) {
			struct rkchain_buf_create create = { .size = 4096 };

			ASSERT_EQ(rig_try_buf(client, &create), 0);
			close(create.fd);
		}
		close(client);
	}
	rig_settles(rk, &before);
}

/* The last one to go lets go of the driver; the next one opens it again. */
static void test_all_gone_and_back(void)
{
	for (u32 i = 0; i < 20; i++)
		rig_still_works();
}

static void test_chain_destroyed(void)
{
	struct rkchain_completion done[CHAINS];
	u32 chains[CHAINS];
	struct rig_job job;
	u64 first;

	rig_slow(3);
	open_queue(&job, chains);
	first = rig_submit_all(job.rk, chains, CHAINS, NULL);
	for (u32 i = 0; i < CHAINS; i++)
		ASSERT_EQ(rig_try_destroy_chain(job.rk, chains[i]), 0);
	ASSERT_EQ(rig_try_destroy_chain(job.rk, chains[0]), -EINVAL);
	rig_wait_good(job.rk, first, CHAINS, done);
	rig_buf_sync(&job.c, RKCHAIN_SYNC_FROM_DEVICE);
	rig_job_check(&job);
}

/* Registered, run and destroyed by several threads at a time. */
static void *churn(void *data)
{
	const u32 seed = *(u32 *)data;
	int rk = rig_open();

	for (u32 i = 0; i < 20; i++) {
		struct rig_job job;

		rig_job_new(&job, rk, 1 + (seed + i) % 7);
		rig_job_fill(&job, seed + i);
		rig_job_register(&job);
		rig_job_run(&job);
		rig_job_free(&job);
	}
	close(rk);
	return NULL;
}

static void test_four_threads(void)
{
	u32 seeds[4] = { 1, 100, 200, 300 };
	pthread_t threads[4];

	for (u32 i = 0; i < 4; i++)
		ASSERT_EQ(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
	for (u32 i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* ---- the stock driver ---- */

/* Released with work: what runs ends, what waits is cancelled. */
static void test_released(void)
{
	struct rkchain_completion done[CHAINS];
	struct rkchain_query query;
	u32 chains[CHAINS], good = 0;
	struct rig_job job;
	u64 first;

	open_queue(&job, chains);
	rig_slow(20);
	first = rig_submit_all(job.rk, chains, CHAINS, NULL);
	rig_sleep(50);
	rig_release(job.rk);
	rig_wait(job.rk, first, CHAINS, done);
	for (u32 i = 0; i < CHAINS; i++) {
		if (!done[i].status) {
			good++;
			continue;
		}
		ASSERT_EQ(done[i].status, -ENODEV);
		ASSERT_EQ(done[i].core, RKCHAIN_NO_CORE);
	}
	tap_note("%u had been started", good);
	if (model_present())
		ASSERT(good >= 3 && good < CHAINS / 2);
	rig_query(job.rk, &query);
	ASSERT_EQ(query.provider, 0);
	ASSERT_EQ(rig_try_provide(job.rk, rig_node()), 0);
	rig_still_works();
}

static void test_released_and_given_again(void)
{
	int rk = rig_open();

	rig_need_root();
	for (u32 i = 0; i < 10; i++) {
		struct rig_job job;
		int node;

		rig_job_new(&job, rk, 2);
		rig_job_fill(&job, i);
		rig_job_register(&job);
		rig_job_run(&job);
		rig_release(rk);
		node = rig_node();
		ASSERT_EQ(rig_try_provide(rk, node), 0);
		close(node);
		/* Ids of before can be destroyed, and nothing else. */
		ASSERT_EQ(rig_try_destroy_chain(rk, job.chain), 0);
		job.chain = 0;
		rig_job_free(&job);
	}
}

/* A mapping is the client's until he unmaps it. */
static void test_mapping_outlives_release(void)
{
	int rk = rig_open();
	struct rig_buf buf;
	u8 *byte;

	rig_buf_new(&buf, rk, 65536);
	byte = buf.map;
	memset(byte, 0x11, 65536);
	rig_release(rk);
	for (u32 i = 0; i < 65536; i++)
		ASSERT_EQ(byte[i], 0x11);
	memset(byte, 0x22, 65536);
	ASSERT_EQ(rig_try_provide(rk, rig_node()), 0);
	rig_still_works();
	for (u32 i = 0; i < 65536; i++)
		ASSERT_EQ(byte[i], 0x22);
	rig_buf_free(&buf);
	rig_still_works();
}

static void test_unbound(void)
{
	struct rkchain_completion done[CHAINS];
	struct rkchain_buf_create create = { .size = 4096 };
	u32 chains[CHAINS], good = 0, gone = 0;
	struct rkchain_query query;
	u64 late_before = 0, late = 0;
	struct rig_binding binding;
	struct rig_buf kept;
	struct rig_job job;
	u64 first;
	u8 *byte;

	rig_find_binding(&binding);
	standin_counter("late_put", &late_before);
	open_queue(&job, chains);
	rig_slow(20);
	byte = job.c.map;
	/* One that the module no longer has a name for. */
	rig_buf_new(&kept, job.rk, 8192);
	ASSERT_EQ(rig_try_destroy(job.rk, kept.id), 0);
	first = rig_submit_all(job.rk, chains, CHAINS, NULL);
	rig_sleep(50);
	rig_bind(&binding, "unbind");
	model_calm();
	rig_wait(job.rk, first, CHAINS, done);
	for (u32 i = 0; i < CHAINS; i++) {
		good += !done[i].status;
		gone += done[i].status == -ENODEV;
	}
	tap_note("%u had been started, %u were cancelled", good, gone);
	ASSERT_EQ(good + gone, CHAINS);
	ASSERT(gone);
	rig_query(job.rk, &query);
	ASSERT_EQ(query.provider, 0);
	ASSERT_EQ(rig_try_buf(job.rk, &create), -ENODEV);

	/* The mapping is the client's still. */
	memset(byte, 0x33, job.c.size);
	rig_bind(&binding, "bind");
	rig_provide_again(job.rk);
	rig_still_works();
	for (u32 i = 0; i < job.c.size; i++)
		ASSERT_EQ(byte[i], 0x33);
	munmap(job.c.map, job.c.size);
	close(job.c.fd);
	munmap(kept.map, kept.size);
	close(kept.fd);
	ASSERT_EQ(rig_try_destroy(job.rk, job.c.id), 0);
	close(job.rk);
	rig_still_works();
	if (standin_counter("late_put", &late) && late != late_before)
		FAIL("%llu buffers were given back to a driver that had gone",
		     (unsigned long long)(late - late_before));
}

/* Let go of first, unbound then, with a mapping that is there all the time. */
static void test_released_then_unbound(void)
{
	u64 late_before = 0, late = 0;
	struct rig_binding binding;
	int rk = rig_open();
	struct rig_buf kept;

	rig_find_binding(&binding);
	standin_counter("late_put", &late_before);
	rig_buf_new(&kept, rk, 8192);
	rig_release(rk);
	rig_bind(&binding, "unbind");
	rig_bind(&binding, "bind");
	rig_provide_again(rk);
	rig_still_works();
	munmap(kept.map, kept.size);
	close(kept.fd);
	ASSERT_EQ(rig_try_destroy(rk, kept.id), 0);
	close(rk);
	rig_still_works();
	if (standin_counter("late_put", &late) && late != late_before)
		FAIL("%llu buffers were given back to a driver that had gone",
		     (unsigned long long)(late - late_before));
}

static void test_unbound_idle(void)
{
	struct rig_binding binding;
	int rk = rig_open();

	rig_find_binding(&binding);
	for (u32 i = 0; i < 3; i++) {
		rig_still_works();
		rig_bind(&binding, "unbind");
		rig_bind(&binding, "bind");
		rig_provide_again(rk);
	}
	rig_still_works();
}

static const struct tap_test tests[] = {
	{ .name = "killed", .run = test_killed },
	{ .name = "closed_during_wait", .run = test_closed_during_wait },
	{ .name = "close_is_quick", .run = test_close_is_quick },
	{ .name = "forked", .run = test_forked },
	{ .name = "200_opens", .run = test_200_opens },
	{ .name = "opened_and_closed", .run = test_opened_and_closed },
	{ .name = "all_gone_and_back", .run = test_all_gone_and_back },
	{ .name = "chain_destroyed", .run = test_chain_destroyed },
	{ .name = "four_threads", .run = test_four_threads },
	{ .name = "released", .run = test_released },
	{ .name = "released_and_given_again", .run = test_released_and_given_again },
	{ .name = "mapping_outlives_release", .run = test_mapping_outlives_release },
	{ .name = "unbound", .run = test_unbound },
	{ .name = "released_then_unbound", .run = test_released_then_unbound },
	{ .name = "unbound_idle", .run = test_unbound_idle },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

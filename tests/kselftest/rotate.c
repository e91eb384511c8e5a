// SPDX-License-Identifier: MIT
/*
 * Which core takes which chain and when, as the completion records tell it: rotation,
 * sharing between clients, and order.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/capability.h>

#include "debug.h"
#include "rig.h"

#define MS		1000000ULL
#define CHAINS		99
#define CORES		3

static int by_start(const void *x, const void *y)
{
	const struct rkchain_completion *a = x, *b = y;

	return a->started_ns < b->started_ns ? -1 : a->started_ns > b->started_ns;
}

/* ---- rotation ---- */

/*
 * What depends on time has three rounds: a guest whose processors stand still for a
 * moment leaves a core idle, or makes one chain dear, for which its client then pays.
 */
#define TRIES	3

/*
 * While chains wait, no core that may take them is idle: false when the guest's
 * processors were elsewhere too often.
 */
static bool no_core_idles(struct rig_queue *q)
{
	u64 end[CORES] = { 0 }, idle[CHAINS], all_idle = 0, first;
	u32 ran[CORES] = { 0 }, long_idle = 0;
	struct rkchain_completion done[CHAINS];

	first = rig_submit_all(q->rk, q->chains, CHAINS, NULL);
	rig_wait_good(q->rk, first, CHAINS, done);
	qsort(done, CHAINS, sizeof(done[0]), by_start);
	for (u32 i = 0; i < CHAINS; i++) {
		const struct rkchain_completion *d = &done[i];

		ASSERT(d->core < CORES);
		ASSERT(d->queued_ns <= d->started_ns && d->started_ns <= d->done_ns);
		ASSERT(d->hw_ns <= d->done_ns - d->started_ns);
		if (end[d->core] > d->started_ns)
			FAIL("two chains at a time on core %u", d->core);
		idle[i] = d->started_ns - (end[d->core] ? end[d->core] : d->queued_ns);
		all_idle += idle[i];
		/* Half a chain's time is more than the machine's own comings and goings. */
		long_idle += idle[i] >= 5 * MS;
		end[d->core] = d->done_ns;
		ran[d->core]++;
	}
	tap_note("chains per core: %u, %u, %u; idle for %llu us, %llu us between two chains",
		 ran[0], ran[1], ran[2], (unsigned long long)all_idle / 1000,
		 (unsigned long long)rig_median(idle, CHAINS) / 1000);
	/* The first ones go to each in turn. */
	ASSERT(done[0].core != done[1].core && done[1].core != done[2].core &&
	       done[0].core != done[2].core);
	ASSERT(rig_median(idle, CHAINS) < MS);
	for (u32 core = 0; core < CORES; core++)
		if (ran[core] < CHAINS / CORES - 8 || ran[core] > CHAINS / CORES + 8)
			return false;
	return long_idle <= CHAINS / 20;
}

static void test_no_core_idle(void)
{
	struct rig_queue q;
	bool ok = false;

	rig_need_slow(10);
	rig_queue_open(&q, CHAINS);
	for (u32 i = 0; i < TRIES && !ok; i++)
		ok = no_core_idles(&q);
	ASSERT(ok);
}

/* All starts in the order of submission, when nothing speaks against it. */
static void test_first_come(void)
{
	struct rkchain_completion done[30];
	struct rig_queue q;
	u64 first;

	rig_need_slow(5);
	rig_queue_open(&q, 30);
	first = rig_submit_all(q.rk, q.chains, 30, NULL);
	rig_wait_good(q.rk, first, 30, done);
	for (u32 i = 1; i < 30; i++)
		ASSERT(done[i].started_ns >= done[i - 1].started_ns);
}

/* A chain is data in memory: it does not run on two cores at a time. */
static void test_same_chain(void)
{
	struct rkchain_completion done[20];
	struct rig_queue q;
	u64 first;

	rig_need_slow(3);
	rig_queue_open(&q, 1);
	first = rig_submit(q.rk, q.chains[0], 20, 0, 0);
	rig_wait_good(q.rk, first, 20, done);
	for (u32 i = 1; i < 20; i++)
		ASSERT(done[i].started_ns >= done[i - 1].done_ns);
}

static void test_core_mask(void)
{
	struct rkchain_completion done[12];
	struct rig_queue q;

	rig_queue_open(&q, 12);
	for (u32 mask = 1; mask < 8; mask++) {
		const struct rkchain_submit how = { .core_mask = mask };
		u64 first = rig_submit_all(q.rk, q.chains, 12, &how);

		rig_wait_good(q.rk, first, 12, done);
		for (u32 i = 0; i < 12; i++)
			if (!(mask & 1u << done[i].core))
				FAIL("core %u for mask %#x", done[i].core, mask);
	}
}

/* Work for a busy core does not hold up work for the others. */
static void test_mask_does_not_block(void)
{
	const struct rkchain_submit core_0 = { .core_mask = 1 }, core_2 = { .core_mask = 4 };
	struct rkchain_completion done[10], other;
	struct rig_queue q;
	u64 first, behind;

	rig_need_slow(20);
	rig_queue_open(&q, 11);
	first = rig_submit_all(q.rk, q.chains, 10, &core_0);
	behind = rig_submit_all(q.rk, q.chains + 10, 1, &core_2);
	rig_wait_good(q.rk, behind, 1, &other);
	rig_wait_good(q.rk, first, 10, done);
	ASSERT(other.started_ns < done[2].started_ns);
}

/* ---- between clients ---- */

/* How many of @a started while @b had chains that had not. */
static u32 started_within(const struct rkchain_completion *a, u32 count,
			  const struct rkchain_completion *b, u32 b_count)
{
	u64 from = b[0].started_ns, to = 0;
	u32 within = 0;

	for (u32 i = 0; i < b_count; i++) {
		if (b[i].started_ns < from)
			from = b[i].started_ns;
		if (b[i].started_ns > to)
			to = b[i].started_ns;
	}
	for (u32 i = 0; i < count; i++)
		within += a[i].started_ns >= from && a[i].started_ns <= to;
	return within;
}

/* The one with the long queue came first, and gets no more for it. */
static void test_two_clients(void)
{
	struct rkchain_completion long_done[90], short_done[30];
	struct rig_queue long_queue, short_queue;
	u64 long_first, short_first;
	u32 within = 0;

	rig_need_slow(5);
	rig_queue_open(&long_queue, 90);
	rig_queue_open(&short_queue, 30);
	for (u32 i = 0; i < TRIES && (within < 20 || within > 42); i++) {
		long_first = rig_submit_all(long_queue.rk, long_queue.chains, 90, NULL);
		rig_sleep(20);
		short_first = rig_submit_all(short_queue.rk, short_queue.chains, 30, NULL);
		rig_wait_good(short_queue.rk, short_first, 30, short_done);
		rig_wait_good(long_queue.rk, long_first, 90, long_done);
		within = started_within(long_done, 90, short_done, 30);
		tap_note("30 of one client, %u of the other meanwhile", within);
	}
	ASSERT(within >= 20 && within <= 42);
}

static void share(s32 low, s32 high, u32 ratio)
{
	const struct rkchain_submit low_how = { .priority = low }, high_how = { .priority = high };
	struct rkchain_completion low_done[80], high_done[48];
	struct rig_queue low_queue, high_queue;
	u64 low_first, high_first;
	bool fair = false;
	u32 within;

	rig_need_slow(5);
	rig_queue_open(&low_queue, 80);
	rig_queue_open(&high_queue, 48);
	for (u32 i = 0; i < TRIES && !fair; i++) {
		low_first = rig_submit_all(low_queue.rk, low_queue.chains, 80, &low_how);
		high_first = rig_submit_all(high_queue.rk, high_queue.chains, 48, &high_how);
		rig_wait_good(high_queue.rk, high_first, 48, high_done);
		rig_wait_good(low_queue.rk, low_first, 80, low_done);
		within = started_within(low_done, 80, high_done, 48);
		tap_note("48 of priority %d, %u of priority %d meanwhile; one to %u expected",
			 high, within, low, ratio);
		/* Three may have been under way already, and count; nobody starves. */
		fair = within <= 48 / ratio * 2 + 3 && within + 3 >= 48 / ratio / 2;
	}
	ASSERT(fair);
}

static void test_low_priority(void)
{
	share(RKCHAIN_PRIORITY_LOW, RKCHAIN_PRIORITY_NORMAL, 4);
}

static void test_high_priority(void)
{
	rig_need_root();
	share(RKCHAIN_PRIORITY_NORMAL, RKCHAIN_PRIORITY_HIGH, 4);
	share(RKCHAIN_PRIORITY_LOW, RKCHAIN_PRIORITY_HIGH, 16);
}

static void test_high_needs_privilege(void)
{
	struct rkchain_submit submit = { .count = 1, .priority = RKCHAIN_PRIORITY_HIGH };
	struct rkchain_completion done;
	struct rig_queue q;

	rig_queue_open(&q, 1);
	rig_drop_capability(CAP_SYS_NICE);
	submit.chains = (uintptr_t)q.chains;
	ASSERT_EQ(rig_try_submit(q.rk, &submit), -EPERM);
	submit.priority = RKCHAIN_PRIORITY_NORMAL;
	ASSERT_EQ(rig_try_submit(q.rk, &submit), 0);
	rig_wait_good(q.rk, submit.first, 1, &done);
}

/* ---- order ---- */

static void test_ordered(void)
{
	const struct rkchain_submit how = { .flags = RKCHAIN_SUBMIT_ORDERED };
	struct rkchain_completion done[20];
	struct rig_queue q;
	u64 first;

	rig_need_slow(3);
	rig_queue_open(&q, 20);
	first = rig_submit_all(q.rk, q.chains, 20, &how);
	rig_wait_good(q.rk, first, 20, done);
	for (u32 i = 1; i < 20; i++) {
		ASSERT_EQ(done[i].core, done[0].core);
		ASSERT(done[i].started_ns >= done[i - 1].done_ns);
	}
}

/* Two ordered sequences have two cores. */
static void test_two_ordered(void)
{
	const struct rkchain_submit how = { .flags = RKCHAIN_SUBMIT_ORDERED };
	struct rkchain_completion done[20];
	struct rig_queue q;
	u64 first, second;

	rig_need_slow(10);
	rig_queue_open(&q, 20);
	first = rig_submit_all(q.rk, q.chains, 10, &how);
	second = rig_submit_all(q.rk, q.chains + 10, 10, &how);
	rig_wait_good(q.rk, first, 10, done);
	rig_wait_good(q.rk, second, 10, done + 10);
	ASSERT(done[10].started_ns < done[1].started_ns);
	ASSERT(done[0].core != done[10].core);
}

static void test_after_success(void)
{
	struct rkchain_submit how = { .flags = RKCHAIN_SUBMIT_AFTER };
	struct rkchain_completion done[9], later[6];
	struct rig_queue q;
	u64 first;

	rig_need_slow(10);
	rig_queue_open(&q, 15);
	first = rig_submit_all(q.rk, q.chains, 9, NULL);
	how.after = first + 8;
	ASSERT_EQ(rig_submit_all(q.rk, q.chains + 9, 6, &how), first + 9);
	rig_wait_good(q.rk, first, 9, done);
	rig_wait_good(q.rk, first + 9, 6, later);
	for (u32 i = 0; i < 6; i++)
		for (u32 j = 0; j < 9; j++)
			ASSERT(later[i].started_ns >= done[j].done_ns);
	/* After something that has long ended. */
	how.after = first;
	first = rig_submit_all(q.rk, q.chains, 1, &how);
	rig_wait_good(q.rk, first, 1, done);
}

static void test_after_failure(void)
{
	struct rkchain_submit how = { .deadline_ns = 1 };
	struct rkchain_completion done[4];
	struct rig_queue q;
	u64 first;

	rig_queue_open(&q, 4);
	/* It fails because its time has come before it could start. */
	rig_need_slow(50);
	rig_submit_all(q.rk, q.chains + 1, 3, NULL);
	first = rig_submit_all(q.rk, q.chains, 1, &how);
	how.deadline_ns = 0;
	how.flags = RKCHAIN_SUBMIT_AFTER;
	how.after = first;
	rig_submit_all(q.rk, q.chains + 1, 1, &how);
	how.after = first + 1;
	rig_submit_all(q.rk, q.chains + 2, 1, &how);
	rig_submit_all(q.rk, q.chains + 3, 1, NULL);
	rig_wait(q.rk, first, 4, done);
	ASSERT_EQ(done[0].status, -ETIME);
	ASSERT_EQ(done[0].core, RKCHAIN_NO_CORE);
	ASSERT_EQ(done[1].status, -ECANCELED);
	ASSERT_EQ(done[2].status, -ECANCELED);
	ASSERT_EQ(done[2].started_ns, 0);
	ASSERT_EQ(done[3].status, 0);
}

static const struct tap_test tests[] = {
	{ .name = "no_core_idle", .run = test_no_core_idle },
	{ .name = "first_come", .run = test_first_come },
	{ .name = "same_chain", .run = test_same_chain },
	{ .name = "core_mask", .run = test_core_mask },
	{ .name = "mask_does_not_block", .run = test_mask_does_not_block },
	{ .name = "two_clients", .run = test_two_clients },
	{ .name = "low_priority", .run = test_low_priority },
	{ .name = "high_priority", .run = test_high_priority },
	{ .name = "high_needs_privilege", .run = test_high_needs_privilege },
	{ .name = "ordered", .run = test_ordered },
	{ .name = "two_ordered", .run = test_two_ordered },
	{ .name = "after_success", .run = test_after_success },
	{ .name = "after_failure", .run = test_after_failure },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

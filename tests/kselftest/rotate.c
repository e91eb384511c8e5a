// SPDX-License-Identifier: MIT
/*
 * Which core takes which chain and when, as the completion records tell it; and
 * what SUBMIT, WAIT, read() and poll() promise of order and time.
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

/* A client with chains of one small block. */
struct queue {
	int rk;
	struct rig_job job;
	u32 chains[CHAINS];
};

static void open_queue(struct queue *q, u32 count)
{
	q->rk = rig_open();
	rig_job_new(&q->job, q->rk, 1);
	rig_job_fill(&q->job, 1);
	rig_clones(&q->job, count, q->chains);
}

/* Each chain takes that long on the NPU. */
static void slow(u32 ms)
{
	model_need();
	rig_set_parameter("hang_ms", "3000");
	model_set("latency_us", 1000 * ms);
}

static int by_start(const void *x, const void *y)
{
	const struct rkchain_completion *a = x, *b = y;

	return a->started_ns < b->started_ns ? -1 : a->started_ns > b->started_ns;
}

static int try_wait(int rk, u64 first, u32 count, u32 flags, s64 deadline,
		    struct rkchain_completion *done, u32 *filled)
{
	struct rkchain_wait wait = {
		.first = first,
		.count = count,
		.flags = flags,
		.deadline_ns = deadline,
		.completions = (uintptr_t)done,
	};
	int ret = rig_try_wait(rk, &wait);

	if (filled)
		*filled = wait.done;
	return ret;
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
static bool no_core_idles(struct queue *q)
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
	struct queue q;
	bool ok = false;

	slow(10);
	open_queue(&q, CHAINS);
	for (u32 i = 0; i < TRIES && !ok; i++)
		ok = no_core_idles(&q);
	ASSERT(ok);
}

/* All starts in the order of submission, when nothing speaks against it. */
static void test_first_come(void)
{
	struct rkchain_completion done[30];
	struct queue q;
	u64 first;

	slow(5);
	open_queue(&q, 30);
	first = rig_submit_all(q.rk, q.chains, 30, NULL);
	rig_wait_good(q.rk, first, 30, done);
	for (u32 i = 1; i < 30; i++)
		ASSERT(done[i].started_ns >= done[i - 1].started_ns);
}

/* A chain is data in memory: it does not run on two cores at a time. */
static void test_same_chain(void)
{
	struct rkchain_completion done[20];
	struct queue q;
	u64 first;

	slow(3);
	open_queue(&q, 1);
	first = rig_submit(q.rk, q.chains[0], 20, 0, 0);
	rig_wait_good(q.rk, first, 20, done);
	for (u32 i = 1; i < 20; i++)
		ASSERT(done[i].started_ns >= done[i - 1].done_ns);
}

static void test_core_mask(void)
{
	struct rkchain_completion done[12];
	struct queue q;

	open_queue(&q, 12);
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
	struct queue q;
	u64 first, behind;

	slow(20);
	open_queue(&q, 11);
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
	struct queue long_queue, short_queue;
	u64 long_first, short_first;
	u32 within = 0;

	slow(5);
	open_queue(&long_queue, 90);
	open_queue(&short_queue, 30);
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
	struct queue low_queue, high_queue;
	u64 low_first, high_first;
	bool fair = false;
	u32 within;

	slow(5);
	open_queue(&low_queue, 80);
	open_queue(&high_queue, 48);
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
	struct queue q;

	open_queue(&q, 1);
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
	struct queue q;
	u64 first;

	slow(3);
	open_queue(&q, 20);
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
	struct queue q;
	u64 first, second;

	slow(10);
	open_queue(&q, 20);
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
	struct queue q;
	u64 first;

	slow(10);
	open_queue(&q, 15);
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
	struct queue q;
	u64 first;

	open_queue(&q, 4);
	/* It fails because its time has come before it could start. */
	slow(50);
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

/* ---- WAIT ---- */

static void test_wait_any(void)
{
	struct rkchain_completion done[9];
	bool seen[9] = { false };
	struct queue q;
	u32 left = 9, filled, calls = 0;
	u64 first;

	slow(15);
	open_queue(&q, 9);
	first = rig_submit_all(q.rk, q.chains, 9, NULL);
	while (left) {
		ASSERT_EQ(try_wait(q.rk, first, 9, RKCHAIN_WAIT_ANY, rig_soon(), done, &filled), 0);
		ASSERT(filled >= 1 && filled <= left);
		for (u32 i = 0; i < filled; i++) {
			const u64 at = done[i].sequence - first;

			ASSERT(at < 9 && !seen[at]);
			ASSERT(!i || done[i].sequence > done[i - 1].sequence);
			seen[at] = true;
		}
		left -= filled;
		calls++;
	}
	ASSERT(calls > 1);
	ASSERT_EQ(try_wait(q.rk, first, 9, RKCHAIN_WAIT_ANY, rig_soon(), done, &filled), -EINVAL);
}

/* What has been handed out is left out. */
static void test_wait_all(void)
{
	struct rkchain_completion done[9];
	struct queue q;
	u32 filled;
	u64 first;

	slow(5);
	open_queue(&q, 9);
	first = rig_submit_all(q.rk, q.chains, 9, NULL);
	rig_wait_good(q.rk, first + 4, 1, done);
	ASSERT_EQ(try_wait(q.rk, first, 9, 0, rig_soon(), done, &filled), 0);
	ASSERT_EQ(filled, 8);
	for (u32 i = 0; i < 8; i++)
		ASSERT_EQ(done[i].sequence, first + i + (i >= 4));
}

static void test_wait_deadline(void)
{
	struct rkchain_completion done;
	struct queue q;
	u64 first, start, took;
	u32 filled = 77;

	slow(400);
	open_queue(&q, 1);
	first = rig_submit_all(q.rk, q.chains, 1, NULL);
	start = rig_now();
	ASSERT_EQ(try_wait(q.rk, first, 1, 0, start + 60 * MS, &done, &filled), -ETIME);
	took = rig_now() - start;
	ASSERT_EQ(filled, 0);
	ASSERT(took >= 60 * MS);
	ASSERT(took < 350 * MS);
	/* It only did not wait long enough. */
	rig_wait_good(q.rk, first, 1, &done);
}

static void test_wait_polls(void)
{
	struct rkchain_completion done[2];
	struct queue q;
	u64 first, start;
	u32 filled;

	slow(300);
	open_queue(&q, 2);
	first = rig_submit(q.rk, q.chains[0], 2, 0, 0);
	start = rig_now();
	ASSERT_EQ(try_wait(q.rk, first, 2, 0, 0, done, &filled), -ETIME);
	ASSERT_EQ(try_wait(q.rk, first, 2, RKCHAIN_WAIT_ANY, 1, done, &filled), -ETIME);
	ASSERT(rig_now() - start < 200 * MS);
	rig_sleep(420);
	/* One of two: not all, but any. */
	ASSERT_EQ(try_wait(q.rk, first, 2, 0, 0, done, &filled), -ETIME);
	ASSERT_EQ(try_wait(q.rk, first, 2, RKCHAIN_WAIT_ANY, 0, done, &filled), 0);
	ASSERT_EQ(filled, 1);
	ASSERT_EQ(done[0].sequence, first);
	rig_wait_good(q.rk, first + 1, 1, done);
	ASSERT_EQ(try_wait(q.rk, first, 2, 0, 0, done, &filled), -EINVAL);
}

struct waiter {
	struct queue *q;
	u64 first;
	struct rkchain_completion done;
	u32 filled;
	int ret;
};

static void *wait_thread(void *data)
{
	struct waiter *w = data;

	w->ret = try_wait(w->q->rk, w->first, 1, 0, rig_soon(), &w->done, &w->filled);
	return NULL;
}

/* Each completion is handed out once; the other one is told that none can come. */
static void test_two_waiters(void)
{
	struct waiter waiters[2];
	pthread_t threads[2];
	struct queue q;
	u64 first;

	slow(150);
	open_queue(&q, 1);
	first = rig_submit_all(q.rk, q.chains, 1, NULL);
	for (u32 i = 0; i < 2; i++) {
		waiters[i] = (struct waiter){ .q = &q, .first = first };
		ASSERT_EQ(pthread_create(&threads[i], NULL, wait_thread, &waiters[i]), 0);
	}
	for (u32 i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ASSERT_EQ(waiters[0].filled + waiters[1].filled, 1);
	for (u32 i = 0; i < 2; i++)
		ASSERT_EQ(waiters[i].ret, waiters[i].filled ? 0 : -EINVAL);
}

static int signals;

static void on_signal(int signal)
{
	(void)signal;
	__atomic_fetch_add(&signals, 1, __ATOMIC_SEQ_CST);
}

static void test_signals(void)
{
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	const struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct rkchain_completion done[4];
	struct queue q;
	u32 filled;
	u64 first;

	slow(200);
	open_queue(&q, 4);
	first = rig_submit_all(q.rk, q.chains, 4, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	ASSERT_EQ(try_wait(q.rk, first, 4, 0, rig_soon(), done, &filled), 0);
	setitimer(ITIMER_REAL, &never, NULL);
	ASSERT_EQ(filled, 4);
	tap_note("%d signals meanwhile", signals);
	ASSERT(signals >= 5);
}

/* A restarted wait has the deadline that it had. */
static void test_signals_and_deadline(void)
{
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	const struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct rkchain_completion done;
	struct queue q;
	u64 first, start;

	slow(600);
	open_queue(&q, 1);
	first = rig_submit_all(q.rk, q.chains, 1, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	start = rig_now();
	ASSERT_EQ(try_wait(q.rk, first, 1, 0, start + 100 * MS, &done, NULL), -ETIME);
	setitimer(ITIMER_REAL, &never, NULL);
	ASSERT(rig_now() - start < 500 * MS);
	rig_wait_good(q.rk, first, 1, &done);
}

/* ---- read() and poll() ---- */

static short polled(int rk, int ms)
{
	struct pollfd fd = { .fd = rk, .events = POLLIN };

	ASSERT(poll(&fd, 1, ms) >= 0);
	return fd.revents;
}

static void test_read(void)
{
	struct rkchain_submit how = {
		.flags = RKCHAIN_SUBMIT_READ,
		.user_data = 0x1234567890abcdefULL,
	};
	struct rkchain_completion done[20];
	struct queue q;
	u64 first, seen = 0;
	u32 left = 10, filled;
	ssize_t size;

	slow(10);
	open_queue(&q, 11);
	ASSERT_EQ(polled(q.rk, 0), 0);
	first = rig_submit_all(q.rk, q.chains, 10, &how);
	/* They are not WAIT's. */
	ASSERT_EQ(try_wait(q.rk, first, 10, 0, 0, done, &filled), -EINVAL);
	ASSERT_EQ(polled(q.rk, 10000), POLLIN);
	while (left) {
		size = read(q.rk, done, sizeof(done));
		ASSERT(size > 0);
		ASSERT_EQ(size % sizeof(done[0]), 0);
		for (u32 i = 0; i < size / sizeof(done[0]); i++) {
			ASSERT_EQ(done[i].status, 0);
			ASSERT_EQ(done[i].user_data, how.user_data);
			ASSERT(done[i].sequence - first < 10);
			ASSERT(!(seen & 1u << (done[i].sequence - first)));
			seen |= 1u << (done[i].sequence - first);
			left--;
		}
	}
	ASSERT_EQ(polled(q.rk, 0), 0);

	/* Those of WAIT are not read()'s. */
	first = rig_submit_all(q.rk, q.chains + 10, 1, NULL);
	ASSERT_EQ(polled(q.rk, 200), 0);
	rig_wait_good(q.rk, first, 1, done);
}

static void test_read_limits(void)
{
	const struct rkchain_submit how = { .flags = RKCHAIN_SUBMIT_READ };
	struct rkchain_completion done[3];
	struct queue q;

	open_queue(&q, 3);
	ASSERT_EQ(fcntl(q.rk, F_SETFL, O_NONBLOCK), 0);
	ASSERT_EQ(read(q.rk, done, sizeof(done)), -1);
	ASSERT_EQ(errno, EAGAIN);
	rig_submit_all(q.rk, q.chains, 3, &how);
	ASSERT_EQ(polled(q.rk, 10000), POLLIN);
	ASSERT_EQ(read(q.rk, done, sizeof(done[0]) - 1), -1);
	ASSERT_EQ(errno, EINVAL);
	/* What cannot be delivered is not lost. */
	ASSERT_EQ(read(q.rk, mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		       sizeof(done[0])), -1);
	ASSERT_EQ(errno, EFAULT);
	for (u32 i = 0; i < 3; i++) {
		ASSERT_EQ(polled(q.rk, 10000), POLLIN);
		/* Whole records alone. */
		ASSERT_EQ(read(q.rk, done, sizeof(done[0]) + 5), sizeof(done[0]));
	}
	ASSERT_EQ(read(q.rk, done, sizeof(done)), -1);
	ASSERT_EQ(errno, EAGAIN);
}

static void test_full_queue(void)
{
	struct rkchain_submit how = { .flags = RKCHAIN_SUBMIT_READ };
	struct rkchain_completion done[64];
	struct rkchain_query query;
	struct queue q;
	u32 left, got;

	open_queue(&q, 64);
	rig_query(q.rk, &query);
	for (left = query.slots; left >= 64; left -= 64)
		rig_submit_all(q.rk, q.chains, 64, &how);
	if (left)
		rig_submit_all(q.rk, q.chains, left, &how);
	how.chains = (uintptr_t)q.chains;
	how.count = 1;
	ASSERT_EQ(rig_try_submit(q.rk, &how), -EAGAIN);
	ASSERT_EQ(how.report.reason, RKCHAIN_REASON_QUEUE_FULL);
	/* All or none: two do not fit where one does. */
	ASSERT_EQ(read(q.rk, done, sizeof(done[0])), sizeof(done[0]));
	how.count = 2;
	ASSERT_EQ(rig_try_submit(q.rk, &how), -EAGAIN);
	how.count = 1;
	ASSERT_EQ(rig_try_submit(q.rk, &how), 0);
	for (left = query.slots; left; left -= got) {
		const ssize_t size = read(q.rk, done, sizeof(done));

		ASSERT(size > 0);
		got = size / sizeof(done[0]);
		for (u32 i = 0; i < got; i++)
			ASSERT_EQ(done[i].status, 0);
	}
	rig_wait_good(q.rk, rig_submit(q.rk, q.chains[0], 1, 0, 0), 1, done);
}

/* ---- deadlines ---- */

static void test_deadline_queued(void)
{
	struct rkchain_submit how = { 0 };
	struct rkchain_completion running[3], late[5];
	struct queue q;
	u64 first, start;

	slow(400);
	open_queue(&q, 8);
	first = rig_submit_all(q.rk, q.chains, 3, NULL);
	start = rig_now();
	how.deadline_ns = start + 80 * MS;
	rig_submit_all(q.rk, q.chains + 3, 5, &how);
	rig_wait(q.rk, first + 3, 5, late);
	/* When it is time, and not when a core comes free. */
	ASSERT(rig_now() - start < 350 * MS);
	for (u32 i = 0; i < 5; i++) {
		ASSERT_EQ(late[i].status, -ETIME);
		ASSERT_EQ(late[i].flags, 0);
		ASSERT_EQ(late[i].started_ns, 0);
		ASSERT_EQ(late[i].core, RKCHAIN_NO_CORE);
		ASSERT(late[i].done_ns >= how.deadline_ns);
	}
	rig_wait_good(q.rk, first, 3, running);
}

static void check_late(const struct rkchain_completion *late)
{
	ASSERT_EQ(late->status, -ETIME);
	ASSERT_EQ(late->flags, RKCHAIN_DONE_RUNNING);
	ASSERT(late->core < CORES);
	ASSERT(late->started_ns);
}

/* Two records: that it is late and still writes, and that it no longer does. */
static void test_deadline_running(void)
{
	struct rkchain_submit how = { 0 };
	struct rkchain_completion late, retired;
	struct queue q;
	u64 first;

	slow(400);
	open_queue(&q, 1);
	how.deadline_ns = rig_now() + 80 * MS;
	first = rig_submit_all(q.rk, q.chains, 1, &how);
	rig_wait(q.rk, first, 1, &late);
	ASSERT(rig_now() < how.deadline_ns + 250 * MS);
	check_late(&late);
	ASSERT_EQ(try_wait(q.rk, first, 1, 0, 0, &retired, NULL), -ETIME);
	rig_wait(q.rk, first, 1, &retired);
	ASSERT_EQ(retired.flags, RKCHAIN_DONE_RETIRED);
	ASSERT(retired.done_ns >= late.started_ns + 380 * MS);
	ASSERT_EQ(try_wait(q.rk, first, 1, 0, 0, &retired, NULL), -EINVAL);
}

static void test_deadline_read(void)
{
	struct rkchain_submit how = { .flags = RKCHAIN_SUBMIT_READ };
	struct rkchain_completion done;
	struct queue q;

	slow(300);
	open_queue(&q, 1);
	how.deadline_ns = rig_now() + 80 * MS;
	rig_submit_all(q.rk, q.chains, 1, &how);
	ASSERT_EQ(read(q.rk, &done, sizeof(done)), sizeof(done));
	check_late(&done);
	ASSERT_EQ(read(q.rk, &done, sizeof(done)), sizeof(done));
	ASSERT_EQ(done.flags, RKCHAIN_DONE_RETIRED);
	ASSERT_EQ(polled(q.rk, 50), 0);
}

static void test_deadline_met(void)
{
	struct rkchain_submit how = { 0 };
	struct rkchain_completion done[10];
	struct queue q;
	u64 first;

	open_queue(&q, 10);
	how.deadline_ns = rig_soon();
	first = rig_submit_all(q.rk, q.chains, 10, &how);
	rig_wait_good(q.rk, first, 10, done);
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
	{ .name = "wait_any", .run = test_wait_any },
	{ .name = "wait_all", .run = test_wait_all },
	{ .name = "wait_deadline", .run = test_wait_deadline },
	{ .name = "wait_polls", .run = test_wait_polls },
	{ .name = "two_waiters", .run = test_two_waiters },
	{ .name = "signals", .run = test_signals },
	{ .name = "signals_and_deadline", .run = test_signals_and_deadline },
	{ .name = "read", .run = test_read },
	{ .name = "read_limits", .run = test_read_limits },
	{ .name = "full_queue", .run = test_full_queue },
	{ .name = "deadline_queued", .run = test_deadline_queued },
	{ .name = "deadline_running", .run = test_deadline_running },
	{ .name = "deadline_read", .run = test_deadline_read },
	{ .name = "deadline_met", .run = test_deadline_met },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

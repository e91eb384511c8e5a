// SPDX-License-Identifier: MIT
/*
 * How one learns what became of chains: WAIT, read() and poll(), full queues, signals,
 * and deadlines.
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

#include "debug.h"
#include "rig.h"

#define MS		1000000ULL

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

/* ---- WAIT ---- */

static void test_wait_any(void)
{
	struct rkchain_completion done[9];
	bool seen[9] = { false };
	struct rig_queue q;
	u32 left = 9, filled, calls = 0;
	u64 first;

	rig_need_slow(15);
	rig_queue_open(&q, 9);
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
	struct rig_queue q;
	u32 filled;
	u64 first;

	rig_need_slow(5);
	rig_queue_open(&q, 9);
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
	struct rig_queue q;
	u64 first, start, took;
	u32 filled = 77;

	rig_need_slow(400);
	rig_queue_open(&q, 1);
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
	struct rig_queue q;
	u64 first, start;
	u32 filled;

	rig_need_slow(300);
	rig_queue_open(&q, 2);
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
	struct rig_queue *q;
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
	struct rig_queue q;
	u64 first;

	rig_need_slow(150);
	rig_queue_open(&q, 1);
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
	struct rig_queue q;
	u32 filled;
	u64 first;

	rig_need_slow(200);
	rig_queue_open(&q, 4);
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
	struct rig_queue q;
	u64 first, start;

	rig_need_slow(600);
	rig_queue_open(&q, 1);
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
	struct rig_queue q;
	u64 first, seen = 0;
	u32 left = 10, filled;
	ssize_t size;

	rig_need_slow(10);
	rig_queue_open(&q, 11);
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
	struct rig_queue q;

	rig_queue_open(&q, 3);
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
	struct rig_queue q;
	u32 left, got;

	rig_queue_open(&q, 64);
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

/* A user has only so many, whatever he opens. */
static void test_full_for_user(void)
{
	struct rkchain_completion done[30];
	struct rig_queue one, other;
	struct rkchain_submit how = { .count = 1 };

	rig_need_parameter("quota_jobs", "30");
	rig_queue_open(&one, 20);
	rig_queue_open(&other, 20);
	rig_submit_all(one.rk, one.chains, 20, NULL);
	rig_submit_all(other.rk, other.chains, 10, NULL);
	how.chains = (uintptr_t)other.chains;
	ASSERT_EQ(rig_try_submit(other.rk, &how), -EAGAIN);
	ASSERT_EQ(how.report.reason, RKCHAIN_REASON_QUEUE_FULL);
	ASSERT_EQ(how.report.value, 31);
	ASSERT_EQ(how.report.limit, 30);
	rig_wait_good(one.rk, 1, 1, done);
	ASSERT_EQ(rig_try_submit(other.rk, &how), 0);
	ASSERT_EQ(rig_try_submit(other.rk, &how), -EAGAIN);
	/* What a client leaves behind is given back. */
	close(one.rk);
	ASSERT_EQ(rig_try_submit(other.rk, &how), 0);
	rig_wait_good(other.rk, 1, 12, done);
}

/* ---- deadlines ---- */

static void test_deadline_queued(void)
{
	struct rkchain_submit how = { 0 };
	struct rkchain_completion running[3], late[5];
	struct rig_queue q;
	u64 first, start;

	rig_need_slow(400);
	rig_queue_open(&q, 8);
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
	ASSERT(late->core < MODEL_CORES);
	ASSERT(late->started_ns);
}

/* Two records: that it is late and still writes, and that it no longer does. */
static void test_deadline_running(void)
{
	struct rkchain_submit how = { 0 };
	struct rkchain_completion late, retired;
	struct rig_queue q;
	u64 first;

	rig_need_slow(400);
	rig_queue_open(&q, 1);
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
	struct rig_queue q;

	rig_need_slow(300);
	rig_queue_open(&q, 1);
	how.deadline_ns = rig_now() + 80 * MS;
	rig_submit_all(q.rk, q.chains, 1, &how);
	ASSERT_EQ(read(q.rk, &done, sizeof(done)), sizeof(done));
	check_late(&done);
	ASSERT_EQ(read(q.rk, &done, sizeof(done)), sizeof(done));
	ASSERT_EQ(done.flags, RKCHAIN_DONE_RETIRED);
	ASSERT_EQ(polled(q.rk, 50), 0);
}

/* Who has been told that it is late goes on after it. */
static void test_deadline_and_after(void)
{
	struct rkchain_submit how = { 0 }, then = { .flags = RKCHAIN_SUBMIT_AFTER };
	struct rkchain_completion late, next;
	struct rig_queue q;

	rig_need_slow(200);
	rig_queue_open(&q, 2);
	how.deadline_ns = rig_now() + 50 * MS;
	then.after = rig_submit_all(q.rk, q.chains, 1, &how);
	rig_wait(q.rk, then.after, 1, &late);
	check_late(&late);
	rig_wait_good(q.rk, rig_submit_all(q.rk, q.chains + 1, 1, &then), 1, &next);
	/* It has waited for what was late. */
	ASSERT(next.started_ns - late.started_ns >= 150 * MS);
	rig_wait(q.rk, then.after, 1, &late);
	ASSERT_EQ(late.status, 0);
	ASSERT_EQ(late.flags, RKCHAIN_DONE_RETIRED);
}

static void test_deadline_met(void)
{
	struct rkchain_submit how = { 0 };
	struct rkchain_completion done[10];
	struct rig_queue q;
	u64 first;

	rig_queue_open(&q, 10);
	how.deadline_ns = rig_soon();
	first = rig_submit_all(q.rk, q.chains, 10, &how);
	rig_wait_good(q.rk, first, 10, done);
}

static const struct tap_test tests[] = {
	{ .name = "any", .run = test_wait_any },
	{ .name = "all", .run = test_wait_all },
	{ .name = "deadline", .run = test_wait_deadline },
	{ .name = "polls", .run = test_wait_polls },
	{ .name = "two_waiters", .run = test_two_waiters },
	{ .name = "signals", .run = test_signals },
	{ .name = "signals_and_deadline", .run = test_signals_and_deadline },
	{ .name = "read", .run = test_read },
	{ .name = "read_limits", .run = test_read_limits },
	{ .name = "full_queue", .run = test_full_queue },
	{ .name = "full_for_user", .run = test_full_for_user },
	{ .name = "deadline_queued", .run = test_deadline_queued },
	{ .name = "deadline_running", .run = test_deadline_running },
	{ .name = "deadline_read", .run = test_deadline_read },
	{ .name = "deadline_and_after", .run = test_deadline_and_after },
	{ .name = "deadline_met", .run = test_deadline_met },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

// SPDX-License-Identifier: MIT
/*
 * A core that does not come back: its chain fails in bounded time, the others' do
 * not, and the stock driver is never given a submit that it would trip over.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "debug.h"
#include "rig.h"

#define MS	1000000ULL
#define S	1000000000ULL
#define CHAINS	60

/* A success on each core: no strikes are left from the test before, and nothing hangs. */
static void warm_up(struct rig_queue *q)
{
	for (u32 core = 0; core < MODEL_CORES; core++) {
		const struct rkchain_submit here = { .core_mask = 1u << core };
		struct rkchain_completion done = { .status = -EIO };

		for (u32 i = 0; done.status && i < 3; i++)
			rig_wait(q->rk, rig_submit_all(q->rk, q->chains, 1, &here), 1, &done);
		ASSERT_EQ(done.status, 0);
	}
}

static void open_queue(struct rig_queue *q, u32 count)
{
	rig_queue_open(q, count);
	warm_up(q);
}

/* What would have brought a board down. */
static const char * const disasters[] = { "trap", "in_window", "oops", "freed_dispatch" };

struct before {
	u64 disasters[ARRAY_SIZE(disasters)];
	u64 generation;
	u64 asked;
};

static void begin(struct before *b, int rk)
{
	struct rkchain_query query;

	memset(b, 0, sizeof(*b));
	for (u32 i = 0; i < ARRAY_SIZE(disasters); i++)
		standin_counter(disasters[i], &b->disasters[i]);
	standin_counter("resets_asked", &b->asked);
	rig_query(rk, &query);
	b->generation = query.generation;
}

static void no_disaster(const struct before *b)
{
	for (u32 i = 0; i < ARRAY_SIZE(disasters); i++)
		standin_expect(disasters[i], b->disasters[i]);
}

static bool alone(int rk)
{
	struct rkchain_query query;

	rig_query(rk, &query);
	return query.clients == 1;
}

/* Cores that were lost come back with the driver. */
static void rebind(int rk)
{
	struct rig_binding binding;

	rig_find_binding(&binding);
	rig_bind(&binding, "unbind");
	rig_bind(&binding, "bind");
	rig_provide_again(rk);
}

/* Writes a core's state; 0 or a negative errno. */
static int set_state(u32 core, const char *state)
{
	char path[] = "/sys/class/misc/rkchain/core0/state";
	int ret = 0, fd;

	path[strlen("/sys/class/misc/rkchain/core")] += core;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, state, strlen(state)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

static void restore(void)
{
	struct rkchain_query query = { 0 };
	int rk;

	rig_restore();
	if (!model_present())
		return;
	for (u32 core = 0; core < 3; core++)
		set_state(core, "usable");
	rk = rig_open();
	rig_query(rk, &query);
	/* What is poisoned takes more. */
	if (query.cores_usable != query.cores_present)
		rebind(rk);
	close(rk);
}

/* One chain for a core that is stuck, and work for the others. */
static void stick(u32 core)
{
	const struct rkchain_submit here = { .core_mask = 1u << core };
	const struct rkchain_submit there = { .core_mask = 7 & ~(1u << core) };
	struct rkchain_completion stuck, others[CHAINS - 1];
	struct rkchain_query query;
	u64 first, second, took;
	struct before before;
	struct rig_queue q;

	model_need();
	open_queue(&q, CHAINS);
	if (!alone(q.rk))
		tap_skip("others use the device");
	begin(&before, q.rk);
	model_set("latency_us", 5000);
	model_set("stuck_core", 1u << core);
	first = rig_submit_all(q.rk, q.chains, 1, &here);
	second = rig_submit_all(q.rk, q.chains + 1, CHAINS - 1, &there);
	rig_wait(q.rk, first, 1, &stuck);
	took = stuck.done_ns - stuck.started_ns;
	tap_note("core %u: back after %llu ms", core, (unsigned long long)(took / MS));
	ASSERT_EQ(stuck.status, -ETIMEDOUT);
	ASSERT_EQ(stuck.core, core);
	ASSERT(took < 3 * S);
	rig_query(q.rk, &query);
	ASSERT(query.generation > before.generation);
	ASSERT(stuck.generation > before.generation);
	rig_wait_good(q.rk, second, CHAINS - 1, others);

	/* Once the core is well again it takes work again. */
	model_calm();
	first = rig_submit_all(q.rk, q.chains, 1, &here);
	rig_wait_good(q.rk, first, 1, &stuck);
	ASSERT_EQ(stuck.core, core);
	no_disaster(&before);
	rig_still_works();
}

static void test_core_0(void)
{
	stick(0);
}

static void test_core_1(void)
{
	stick(1);
}

static void test_core_2(void)
{
	stick(2);
}

/* What runs beside it when the reset comes is not the worse for it. */
static void test_neighbours(void)
{
	const struct rkchain_submit here = { .core_mask = 2 };
	struct rkchain_completion stuck, others[30];
	struct before before;
	struct rig_queue q;
	u64 first, second;

	model_need();
	open_queue(&q, 31);
	begin(&before, q.rk);
	model_set("latency_us", 150000);
	model_set("stuck_core", 2);
	first = rig_submit_all(q.rk, q.chains, 1, &here);
	second = rig_submit_all(q.rk, q.chains + 1, 30,
				&(struct rkchain_submit){ .core_mask = 5 });
	rig_wait(q.rk, first, 1, &stuck);
	ASSERT_EQ(stuck.status, -ETIMEDOUT);
	model_calm();
	rig_wait_good(q.rk, second, 30, others);
	no_disaster(&before);
}

/* All at a time. */
static void test_all_cores(void)
{
	struct rkchain_completion done[3];
	struct before before;
	struct rig_queue q;
	u64 first;

	model_need();
	open_queue(&q, 3);
	begin(&before, q.rk);
	model_set("stuck_core", 7);
	first = rig_submit_all(q.rk, q.chains, 3, NULL);
	rig_wait(q.rk, first, 3, done);
	for (u32 i = 0; i < 3; i++) {
		ASSERT(done[i].status == -ETIMEDOUT || done[i].status == -EIO);
		ASSERT(done[i].done_ns - done[i].queued_ns < 8 * S);
	}
	model_calm();
	no_disaster(&before);
	rig_still_works();
}

/* Set aside after so many failures in a row: the others do its work. */
static void test_set_aside(void)
{
	const struct rkchain_submit here = { .core_mask = 4 };
	struct rkchain_submit try = { .core_mask = 4, .count = 1 };
	struct rkchain_completion done[30];
	struct rkchain_query query;
	struct before before;
	struct rig_queue q;
	u64 first;

	model_need();
	rig_need_parameter("strikes", "2");
	open_queue(&q, 30);
	begin(&before, q.rk);
	model_set("stuck_core", 4);
	for (u32 i = 0; i < 2; i++) {
		rig_query(q.rk, &query);
		ASSERT_EQ(query.cores_usable, 7);
		first = rig_submit_all(q.rk, q.chains, 1, &here);
		rig_wait(q.rk, first, 1, done);
		ASSERT_EQ(done[0].status, -ETIMEDOUT);
	}
	rig_query(q.rk, &query);
	ASSERT_EQ(query.cores_aside, 4);
	ASSERT_EQ(query.cores_usable, 3);
	ASSERT_EQ(query.cores_present, 7);

	/* The knob is still set: whoever goes there hangs. */
	first = rig_submit_all(q.rk, q.chains, 30, NULL);
	rig_wait_good(q.rk, first, 30, done);
	for (u32 i = 0; i < 30; i++)
		ASSERT(done[i].core != 2);
	try.chains = (uintptr_t)q.chains;
	ASSERT_EQ(rig_try_submit(q.rk, &try), -ENODEV);
	ASSERT_EQ(try.report.reason, RKCHAIN_REASON_CORE_MASK);

	/* The administrator brings it back. */
	model_calm();
	no_disaster(&before);
	ASSERT_EQ(set_state(2, "useless"), -EINVAL);
	ASSERT_EQ(set_state(2, "usable"), 0);
	rig_query(q.rk, &query);
	ASSERT_EQ(query.cores_usable, 7);
	ASSERT_EQ(query.cores_aside, 0);
	warm_up(&q);
}

/* Or the driver, when it is bound anew. */
static void test_rebound(void)
{
	const struct rkchain_submit here = { .core_mask = 4 };
	struct rkchain_completion done;
	struct rkchain_query query;
	struct rig_queue q;

	model_need();
	rig_need_parameter("strikes", "1");
	open_queue(&q, 1);
	model_set("stuck_core", 4);
	rig_wait(q.rk, rig_submit_all(q.rk, q.chains, 1, &here), 1, &done);
	ASSERT_EQ(done.status, -ETIMEDOUT);
	rig_query(q.rk, &query);
	ASSERT_EQ(query.cores_usable, 3);
	model_calm();
	rebind(q.rk);
	rig_query(q.rk, &query);
	ASSERT_EQ(query.cores_usable, 7);
	rig_still_works();
}

/* What waits for that core alone ends when it is set aside. */
static void test_waiting_for_it(void)
{
	const struct rkchain_submit here = { .core_mask = 1 };
	struct rkchain_completion done[10];
	struct rig_queue q;
	u64 first;

	model_need();
	rig_need_parameter("strikes", "1");
	open_queue(&q, 10);
	model_set("stuck_core", 1);
	first = rig_submit_all(q.rk, q.chains, 10, &here);
	rig_wait(q.rk, first, 10, done);
	ASSERT_EQ(done[0].status, -ETIMEDOUT);
	for (u32 i = 1; i < 10; i++) {
		ASSERT_EQ(done[i].status, -ENODEV);
		ASSERT_EQ(done[i].core, RKCHAIN_NO_CORE);
	}
}

/* Behind a chain that hangs, an ordered sequence ends, and what comes after it. */
static void test_followers(void)
{
	struct rkchain_submit how = { .core_mask = 2, .flags = RKCHAIN_SUBMIT_ORDERED };
	struct rkchain_completion done[8];
	struct rig_queue q;
	u64 first;

	model_need();
	open_queue(&q, 8);
	model_set("stuck_core", 2);
	first = rig_submit_all(q.rk, q.chains, 5, &how);
	how.core_mask = 0;
	how.flags = RKCHAIN_SUBMIT_AFTER;
	how.after = first + 4;
	rig_submit_all(q.rk, q.chains + 5, 2, &how);
	rig_submit_all(q.rk, q.chains + 7, 1, &(struct rkchain_submit){ .core_mask = 5 });
	rig_wait(q.rk, first, 8, done);
	ASSERT_EQ(done[0].status, -ETIMEDOUT);
	for (u32 i = 1; i < 7; i++)
		ASSERT_EQ(done[i].status, -ECANCELED);
	ASSERT_EQ(done[7].status, 0);
}

/* Its owner has gone: the memory stays until the core is known not to use it. */
static void test_closed(void)
{
	const struct rkchain_submit here = { .core_mask = 2 };
	struct rkchain_query before, now;
	struct before disaster;
	struct rig_queue q, other;
	struct rkchain_completion done;
	int rk = rig_open();
	u64 end;

	model_need();
	/* The first one warms up: what an earlier test left behind is gone. */
	open_queue(&other, 1);
	open_queue(&q, 1);
	begin(&disaster, rk);
	model_set("stuck_core", 2);
	rig_query(rk, &before);
	rig_submit_all(q.rk, q.chains, 1, &here);
	rig_sleep(100);
	close(q.rk);
	end = rig_now() + 3 * S;
	do {
		rig_sleep(50);
		rig_query(rk, &now);
	} while (now.generation == disaster.generation && rig_now() < end);
	ASSERT(now.generation > disaster.generation);
	rig_sleep(1000);
	rig_query(rk, &now);
	ASSERT_EQ(now.used_chains, before.used_chains);
	ASSERT_EQ(now.used_bytes, before.used_bytes);

	model_calm();
	rig_wait_good(other.rk, rig_submit(other.rk, other.chains[0], 1, 2, 0), 1, &done);
	before.used_bytes -= q.job.c.size;
	before.used_chains--;
	before.clients--;
	rig_settles(rk, &before);
	no_disaster(&disaster);
}

/* The work is done, but nobody says so. */
static void test_lost_interrupts(void)
{
	struct rkchain_completion done[12];
	struct before before;
	struct rig_queue q;
	u32 failed = 0;
	u64 first;

	model_need();
	rig_need_parameter("strikes", "100");
	open_queue(&q, 12);
	begin(&before, q.rk);
	model_set("drop_every", 5);
	first = rig_submit_all(q.rk, q.chains, 12, NULL);
	rig_wait(q.rk, first, 12, done);
	for (u32 i = 0; i < 12; i++) {
		ASSERT(!done[i].status || done[i].status == -ETIMEDOUT || done[i].status == -EIO);
		failed += !!done[i].status;
	}
	tap_note("%u of 12 failed", failed);
	ASSERT(failed);
	model_calm();
	no_disaster(&before);
	rig_still_works();
}

/*
 * Interrupts that no job has asked for.  The driver acknowledges with them whatever
 * else is there, so that a completion may be lost; nothing worse.
 */
static void test_stray_interrupts(void)
{
	struct rkchain_completion done[CHAINS];
	struct before before;
	struct rig_queue q;
	u32 failed = 0;
	u64 first;

	model_need();
	/* A real one takes a core for lost, and so have the next tests to. */
	standin_need();
	rig_need_parameter("strikes", "100");
	open_queue(&q, CHAINS);
	begin(&before, q.rk);
	model_set("latency_us", 3000);
	first = rig_submit_all(q.rk, q.chains, CHAINS, NULL);
	for (u32 i = 0; i < 20; i++) {
		model_set("stray", 7);
		rig_sleep(2);
	}
	rig_wait(q.rk, first, CHAINS, done);
	for (u32 i = 0; i < CHAINS; i++) {
		ASSERT(!done[i].status || done[i].status == -ETIMEDOUT || done[i].status == -EIO);
		failed += !!done[i].status;
	}
	tap_note("%u of %u failed", failed, CHAINS);
	ASSERT(failed < 6);
	model_calm();
	warm_up(&q);
	no_disaster(&before);
}

/*
 * What a lost core may still fetch stays as it is, whatever mode has been chosen since;
 * once that core has run something else it is laid out anew.
 */
static void test_mode_changed(void)
{
	struct rkchain_completion done;
	struct rig_queue q;
	struct rig_job job;
	u64 commits;

	model_need();
	open_queue(&q, 1);
	rig_need_parameter("chain_mode", "wait");
	rig_job_new(&job, q.rk, 4);
	rig_job_fill(&job, 1);
	rig_job_register(&job);
	model_set("stuck_core", 1);
	rig_wait(q.rk, rig_submit(q.rk, job.chain, 1, 1, 0), 1, &done);
	ASSERT_EQ(done.status, -ETIMEDOUT);
	rig_need_parameter("chain_mode", "single");
	commits = model_counter(1, "commits");
	rig_wait_good(q.rk, rig_submit(q.rk, job.chain, 1, 2, 0), 1, &done);
	rig_job_check(&job);
	ASSERT_EQ(model_counter(1, "commits") - commits, 1);

	model_calm();
	rig_wait_good(q.rk, rig_submit(q.rk, q.chains[0], 1, 1, 0), 1, &done);
	commits = model_counter(1, "commits");
	rig_wait_good(q.rk, rig_submit(q.rk, job.chain, 1, 2, 0), 1, &done);
	rig_job_check(&job);
	ASSERT_EQ(model_counter(1, "commits") - commits, 4);
}

/* Another program's job, which hangs on core 1. */
static void *hang_core_1(void *singles)
{
	const struct rig_singles *s = singles;

	return (void *)(long)rig_try_stock_submit(s->node, s->tasks.obj_addr, 0, 1, 1, 500);
}

/*
 * A job that was never committed may still be on the driver's list of its core, though
 * it has been freed: nothing goes there any more until the driver is bound anew.
 */
static void test_poisoned(void)
{
	const struct rkchain_submit here = { .core_mask = 2 };
	struct rkchain_submit there = { .core_mask = 2, .count = 1 };
	struct rkchain_completion done, others[CHAINS];
	struct rkchain_query query;
	struct rig_singles singles;
	pthread_t thread;
	u64 first, trap = 0;
	struct rig_queue q;
	void *ret;

	model_need();
	standin_need();
	open_queue(&q, CHAINS);
	rig_singles_new(&singles, &q.job);
	standin_counter("trap", &trap);
	/* What waits behind a job is woken by the reset for it. */
	standin_set("wake_queued", 1);
	model_set("stuck_core", 2);
	ASSERT_EQ(pthread_create(&thread, NULL, hang_core_1, &singles), 0);
	rig_sleep(100);
	first = rig_submit_all(q.rk, q.chains, 1, &here);
	rig_wait(q.rk, first, 1, &done);
	pthread_join(thread, &ret);
	standin_set("wake_queued", 0);
	model_calm();
	ASSERT(ret);
	ASSERT_EQ(done.status, -EIO);
	ASSERT_EQ(done.core, 1);
	rig_query(q.rk, &query);
	ASSERT_EQ(query.cores_poisoned, 2);
	ASSERT_EQ(query.cores_usable, 5);
	ASSERT_EQ(set_state(1, "usable"), -EBUSY);
	there.chains = (uintptr_t)q.chains;
	ASSERT_EQ(rig_try_submit(q.rk, &there), -ENODEV);
	ASSERT_EQ(there.report.reason, RKCHAIN_REASON_CORE_MASK);

	/* The other two go on. */
	first = rig_submit_all(q.rk, q.chains, CHAINS, NULL);
	rig_wait_good(q.rk, first, CHAINS, others);
	for (u32 i = 0; i < CHAINS; i++)
		ASSERT(others[i].core != 1);
	/*
	 * That the driver itself comes across the freed job is its own doing; that
	 * nobody gives it the next one for that core is ours.
	 */
	standin_expect("trap", trap);
	close(q.rk);
	close(singles.node);

	rebind(rig_open());
	rig_query(rig_open(), &query);
	ASSERT_EQ(query.cores_poisoned, 0);
	ASSERT_EQ(query.cores_usable, 7);
}

/*
 * With another program on the NPU no reset is asked for: the driver's own time-out
 * ends it, and around each of its multiples nothing is dispatched.
 */
static void not_alone(u32 core)
{
	const struct rkchain_submit here = { .core_mask = 1u << core };
	struct rkchain_completion stuck = { 0 }, done;
	u32 good = 0, bad = 0, filled = 0;
	struct before before;
	struct rig_queue q;
	u64 first, asked;
	int node;

	model_need();
	open_queue(&q, 2);
	node = rig_node();
	if (node < 0)
		tap_skip("the stock driver's node cannot be opened");
	begin(&before, q.rk);
	model_set("latency_us", 20000);
	model_set("stuck_core", 1u << core);
	first = rig_submit_all(q.rk, q.chains, 1, &here);
	do {
		struct rkchain_wait wait = {
			.first = first,
			.count = 1,
			.completions = (uintptr_t)&stuck,
		};
		struct rkchain_submit beside = {
			.chains = (uintptr_t)(q.chains + 1),
			.count = 1,
			.core_mask = 7 & ~(1u << core),
		};

		/* Both others lost: the driver's counters tell why. */
		if (rig_try_submit(q.rk, &beside)) {
			bad++;
			break;
		}
		rig_wait(q.rk, beside.first, 1, &done);
		good += !done.status;
		if (done.status && !bad++)
			tap_note("core %u: %s after %llu ms", done.core, strerror(-done.status),
				 (unsigned long long)((done.done_ns - done.started_ns) / MS));
		rig_try_wait(q.rk, &wait);
		filled = wait.done;
	} while (!filled);
	tap_note("core %u: back after %llu ms; beside it %u good, %u failed", core,
		 (unsigned long long)((stuck.done_ns - stuck.started_ns) / MS), good, bad);
	no_disaster(&before);
	if (standin_counter("resets_asked", &asked))
		ASSERT_EQ(asked, before.asked);
	ASSERT(good);
	ASSERT_EQ(bad, 0);
	ASSERT(stuck.status == -ETIMEDOUT || stuck.status == -EIO);
	ASSERT(stuck.done_ns - stuck.started_ns < 25 * S);
	close(node);
	model_calm();
	rig_still_works();
}

static void test_not_alone_core_0(void)
{
	not_alone(0);
}

static void test_not_alone_core_2(void)
{
	not_alone(2);
}

static const struct tap_test tests[] = {
	{ .name = "core_0", .run = test_core_0 },
	{ .name = "core_1", .run = test_core_1 },
	{ .name = "core_2", .run = test_core_2 },
	{ .name = "neighbours", .run = test_neighbours },
	{ .name = "all_cores", .run = test_all_cores },
	{ .name = "set_aside", .run = test_set_aside },
	{ .name = "rebound", .run = test_rebound },
	{ .name = "waiting_for_it", .run = test_waiting_for_it },
	{ .name = "followers", .run = test_followers },
	{ .name = "closed", .run = test_closed },
	{ .name = "lost_interrupts", .run = test_lost_interrupts },
	{ .name = "stray_interrupts", .run = test_stray_interrupts },
	{ .name = "mode_changed", .run = test_mode_changed },
	{ .name = "poisoned", .run = test_poisoned },
	/* These last as long as the stock driver's time-outs. */
	{ .name = "not_alone_core_0", .run = test_not_alone_core_0, .seconds = 120 },
	{ .name = "not_alone_core_2", .run = test_not_alone_core_2, .seconds = 120 },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), restore);
}

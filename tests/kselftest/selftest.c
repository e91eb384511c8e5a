// SPDX-License-Identifier: MIT
/*
 * SELFTEST: does it find out what this NPU can do?  The hardware model plays every kind
 * of silicon; with the mode forced that the self-test says does not work, results are
 * wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "debug.h"
#include "rig.h"
#include "trial.h"

#define RESULTS		(RKC_MODES * MODEL_CORES)
#define ALL		0xfu	/* modes */

#define BIT(n)		(1u << (n))

struct table {
	int rk;
	struct rkchain_selftest call;
	struct rkchain_selftest_result results[RESULTS];
};

/* Brings back what it set aside, and forgets what it learnt. */
static void restore(void)
{
	char path[] = "/sys/class/misc/rkchain/core0/state";
	FILE *file;

	rig_restore();
	rig_set_parameter("proven", "\n");
	for (u32 core = 0; core < MODEL_CORES; core++) {
		path[strlen("/sys/class/misc/rkchain/core")] = '0' + core;
		file = fopen(path, "we");
		if (file) {
			fputs("usable", file);
			fclose(file);
		}
	}
}

static int try_selftest(struct table *t, u32 modes, u32 cores, u32 flags)
{
	memset(&t->call, 0, sizeof(t->call));
	memset(t->results, 0xff, sizeof(t->results));
	t->call.modes = modes;
	t->call.cores = cores;
	t->call.flags = flags;
	t->call.count = RESULTS;
	t->call.results = (uintptr_t)t->results;
	return rig_try(t->rk, RKCHAIN_IOCTL_SELFTEST, &t->call);
}

static void run(struct table *t, u32 modes, u32 cores, u32 flags)
{
	ASSERT_EQ(try_selftest(t, modes, cores, flags), 0);
	for (u32 i = 0; i < t->call.count; i++) {
		const struct rkchain_selftest_result *r = &t->results[i];

		tap_note("%-6s core %u: %s, %u blocks, %llu of %llu us", rkc_mode_name(r->mode),
			 r->core, rkc_trial_verdict_name(r->verdict), r->blocks,
			 (unsigned long long)r->hw_ns / 1000,
			 (unsigned long long)r->expected_ns / 1000);
	}
}

static void begin(struct table *t)
{
	model_need();
	rig_need_root();
	t->rk = rig_open();
	rig_need(t->rk, RKCHAIN_CAP_SELFTEST, "the self-test");
	rig_need_parameter("chain_mode", "auto");
}

/* Soon, so that a test of what hangs is over soon; an emulated NPU is slower. */
static void hangs_after(u32 ms)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", ms * tap_slow());
	rig_need_parameter("hang_ms", text);
}

static u32 verdict(const struct table *t, u32 mode, u32 core)
{
	for (u32 i = 0; i < t->call.count; i++)
		if (t->results[i].mode == mode && t->results[i].core == core)
			return t->results[i].verdict;
	FAIL("nothing is said of %s on core %u", rkc_mode_name(mode), core);
}

/* The verdicts of wait, wait41, link and single on all cores; and the mode in force. */
static void expect(struct table *t, const u32 *verdicts, u32 mode, u32 source)
{
	struct rkchain_query query;

	ASSERT_EQ(t->call.count, RESULTS);
	for (u32 m = 0; m < RKC_MODES; m++)
		for (u32 core = 0; core < MODEL_CORES; core++)
			if (verdict(t, m, core) != verdicts[m])
				FAIL("%s on core %u: %s, not %s", rkc_mode_name(m), core,
				     rkc_trial_verdict_name(verdict(t, m, core)),
				     rkc_trial_verdict_name(verdicts[m]));
	ASSERT_EQ(t->call.mode, mode);
	ASSERT_EQ(t->call.mode_source, source);
	rig_query(t->rk, &query);
	ASSERT_EQ(query.mode, mode);
	ASSERT_EQ(query.mode_source, source);
}

/* How many outputs of a chain are wrong in that mode. */
static u64 wrong_in(int rk, const char *mode)
{
	struct rkchain_completion done;
	struct rig_job job;
	u64 wrong;

	rig_need_parameter("chain_mode", mode);
	rig_job_new(&job, rk, 16);
	rig_job_fill(&job, 1);
	rig_job_register(&job);
	rig_wait_good(rk, rig_submit(rk, job.chain, 1, 0, 0), 1, &done);
	wrong = rig_job_wrong(&job);
	/* What comes late is not to meet memory that is somebody else's by then. */
	rig_sleep(200);
	return wrong;
}

#define WORKS		RKCHAIN_VERDICT_WORKS
#define EARLY		RKCHAIN_VERDICT_EARLY
#define WRONG		RKCHAIN_VERDICT_WRONG
#define UNORDERED	RKCHAIN_VERDICT_UNORDERED

static void test_good(void)
{
	static const u32 verdicts[] = { WORKS, WORKS, WORKS, WORKS };
	struct rkchain_query before;
	struct table t;

	begin(&t);
	rig_query(t.rk, &before);
	ASSERT_EQ(before.mode, RKCHAIN_MODE_LINK);
	ASSERT_EQ(before.mode_source, RKCHAIN_MODE_TRIED);
	run(&t, 0, 0, 0);
	expect(&t, verdicts, RKCHAIN_MODE_WAIT, RKCHAIN_MODE_PROVEN);
	ASSERT_EQ(t.call.proven, ALL);
	ASSERT_EQ(t.call.cores_failed, 0);
	for (u32 i = 0; i < RESULTS; i++) {
		const struct rkchain_selftest_result *r = &t.results[i];

		ASSERT_EQ(r->mode, i / MODEL_CORES);
		ASSERT_EQ(r->core, i % MODEL_CORES);
		ASSERT_EQ(r->status, 0);
		ASSERT_EQ(r->block, RKCHAIN_NO_WORD);
		ASSERT(r->expected_ns >= RKC_TRIAL_NS);
		ASSERT(r->hw_ns >= r->expected_ns / RKC_TRIAL_TOO_SHORT);
	}
	/* It holds nothing. */
	rig_settles(t.rk, &before);
	ASSERT_EQ(wrong_in(t.rk, "auto"), 0);
}

/* Some modes and cores: nothing is learnt of the others. */
static void test_part(void)
{
	struct table t;
	char proven[32];

	begin(&t);
	rig_need_parameter("proven", "wait,single");
	run(&t, BIT(RKC_WAIT41) | BIT(RKC_LINK), 5, 0);
	ASSERT_EQ(t.call.count, 4);
	ASSERT_EQ(verdict(&t, RKC_WAIT41, 0), WORKS);
	ASSERT_EQ(verdict(&t, RKC_LINK, 2), WORKS);
	ASSERT_EQ(t.call.proven, ALL);
	ASSERT(rig_parameter("proven", proven, sizeof(proven)));
	ASSERT(!strcmp(proven, "wait,wait41,link,single"));
	ASSERT(!rig_set_parameter("proven", "wait,fast"));
	ASSERT(!rig_set_parameter("proven", "auto"));
	rig_need_parameter("proven", "wait41");
	ASSERT(rig_parameter("proven", proven, sizeof(proven)));
	ASSERT(!strcmp(proven, "wait41"));
}

static void test_does_not_wait(void)
{
	static const u32 verdicts[] = { WRONG, WRONG, WORKS, WORKS };
	struct table t;

	begin(&t);
	model_set("nowait", 1);
	run(&t, 0, 0, 0);
	expect(&t, verdicts, RKCHAIN_MODE_LINK, RKCHAIN_MODE_PROVEN);
	ASSERT_EQ(wrong_in(t.rk, "auto"), 0);
	ASSERT(wrong_in(t.rk, "wait"));
}

static void test_completes_early(void)
{
	static const u32 verdicts[] = { EARLY, EARLY, WORKS, WORKS };
	struct table t;

	begin(&t);
	model_set("early", 1);
	run(&t, 0, 0, 0);
	expect(&t, verdicts, RKCHAIN_MODE_LINK, RKCHAIN_MODE_PROVEN);
	/* What is behind the first block takes longer than looking. */
	model_set("block_us", 5000);
	ASSERT_EQ(wrong_in(t.rk, "auto"), 0);
	ASSERT(wrong_in(t.rk, "wait"));
}

/*
 * Microseconds are over before anybody looks: results of short chains are right, so
 * that they cannot tell.
 */
static void test_early_is_not_seen_by_short_chains(void)
{
	struct rkchain_completion done;
	u32 missed = 0, caught = 0;
	struct rig_job job;
	struct table t;

	begin(&t);
	rig_need_parameter("chain_mode", "wait");
	model_set("early", 1);
	rig_job_shape(&job, t.rk, 1, 32, 32, 3);
	rig_job_register(&job);
	for (u32 i = 0; i < 50; i++) {
		rig_job_fill(&job, i);
		rig_wait_good(t.rk, rig_submit(t.rk, job.chain, 1, 0, 0), 1, &done);
		missed += !rig_job_wrong(&job);
	}
	tap_note("short blocks: %u of 50 right", missed);
	ASSERT(missed);
	model_set("block_us", 5000);
	for (u32 i = 0; i < 10; i++) {
		rig_job_fill(&job, i);
		rig_wait_good(t.rk, rig_submit(t.rk, job.chain, 1, 0, 0), 1, &done);
		caught += rig_job_wrong(&job) != 0;
		rig_sleep(30);
	}
	tap_note("long blocks: %u of 10 right", 10 - caught);
	ASSERT_EQ(caught, 10);
}

/* The short test is not taken for a proof. */
static void test_short(void)
{
	struct table t;

	begin(&t);
	run(&t, 0, 0, RKCHAIN_SELFTEST_SHORT);
	ASSERT_EQ(t.call.count, RESULTS);
	for (u32 i = 0; i < RESULTS; i++) {
		ASSERT_EQ(t.results[i].verdict, WORKS);
		ASSERT_EQ(t.results[i].blocks, RKC_TRIAL_SMALL_BLOCKS);
		ASSERT_EQ(t.results[i].expected_ns, 0);
	}
	ASSERT_EQ(t.call.proven, 0);
	ASSERT_EQ(t.call.mode, RKCHAIN_MODE_LINK);
	ASSERT_EQ(t.call.mode_source, RKCHAIN_MODE_TRIED);
}

static void test_needs_marker(void)
{
	static const u32 verdicts[] = { WRONG, WORKS, WORKS, WORKS };
	struct table t;

	begin(&t);
	model_set("needs41", 1);
	run(&t, 0, 0, 0);
	expect(&t, verdicts, RKCHAIN_MODE_WAIT41, RKCHAIN_MODE_PROVEN);
	ASSERT_EQ(wrong_in(t.rk, "auto"), 0);
	ASSERT(wrong_in(t.rk, "wait"));
}

/* Nothing works, so that nothing is used. */
static void test_late(void)
{
	static const u32 verdicts[] = { EARLY, EARLY, EARLY, EARLY };
	struct rkchain_query query;
	struct table t;

	begin(&t);
	model_set("late", 1);
	run(&t, 0, 0, 0);
	expect(&t, verdicts, RKCHAIN_MODE_SINGLE, RKCHAIN_MODE_LAST);
	ASSERT_EQ(t.call.proven, 0);
	ASSERT_EQ(t.call.cores_failed, 7);
	rig_query(t.rk, &query);
	ASSERT_EQ(query.cores_aside, 7);
	restore();
	model_set("late", 1);
	ASSERT(wrong_in(t.rk, "wait"));
}

/* A block reads the memory before the one in front of it has written there. */
static void test_unordered(void)
{
	static const u32 verdicts[] = { UNORDERED, UNORDERED, UNORDERED, WORKS };
	struct rkchain_query query;
	struct table t;

	begin(&t);
	model_set("rawlate", 1);
	run(&t, 0, 0, 0);
	expect(&t, verdicts, RKCHAIN_MODE_SINGLE, RKCHAIN_MODE_PROVEN);
	rig_need_parameter("chain_mode", "link");
	rig_query(t.rk, &query);
	ASSERT(!(query.capabilities & RKCHAIN_CAP_FEED_ON));
}

static void test_bad_core(void)
{
	const u32 bad = 1;
	struct rkchain_query query;
	struct table t;

	begin(&t);
	model_set("bad_core", BIT(bad));
	run(&t, 0, 0, 0);
	for (u32 m = 0; m < RKC_MODES; m++)
		for (u32 core = 0; core < MODEL_CORES; core++)
			ASSERT_EQ(verdict(&t, m, core), core == bad ? WRONG : WORKS);
	ASSERT_EQ(t.call.mode, RKCHAIN_MODE_WAIT);
	ASSERT_EQ(t.call.cores_failed, BIT(bad));
	rig_query(t.rk, &query);
	ASSERT_EQ(query.cores_aside, BIT(bad));
	ASSERT_EQ(query.cores_usable, 7 & ~BIT(bad));
	ASSERT_EQ(wrong_in(t.rk, "auto"), 0);
	/* What is out is not tried. */
	run(&t, 0, 0, 0);
	ASSERT_EQ(verdict(&t, RKC_SINGLE, bad), RKCHAIN_VERDICT_UNTESTED);
	ASSERT_EQ(t.call.proven, ALL);
}

static void test_stuck_core(void)
{
	const u32 stuck = 2;
	struct table t;

	begin(&t);
	hangs_after(200);
	model_set("stuck_core", BIT(stuck));
	run(&t, 0, 0, 0);
	for (u32 m = 0; m < RKC_MODES; m++)
		for (u32 core = 0; core < MODEL_CORES; core++)
			ASSERT_EQ(verdict(&t, m, core),
				  core == stuck ? RKCHAIN_VERDICT_TIMEOUT : WORKS);
	ASSERT_EQ(t.call.cores_failed, BIT(stuck));
	ASSERT_EQ(t.call.mode, RKCHAIN_MODE_WAIT);
	model_calm();
	rig_still_works();
}

/* A start that is lost says nothing about a mode: it is tried again. */
static void test_lost_starts(void)
{
	static const u32 verdicts[] = { WORKS, WORKS, WORKS, WORKS };
	struct table t;

	begin(&t);
	hangs_after(200);
	model_set("drop_every", 11);
	run(&t, BIT(RKC_WAIT) | BIT(RKC_LINK), 0, 0);
	for (u32 core = 0; core < MODEL_CORES; core++) {
		ASSERT_EQ(verdict(&t, RKC_WAIT, core), verdicts[RKC_WAIT]);
		ASSERT_EQ(verdict(&t, RKC_LINK, core), verdicts[RKC_LINK]);
	}
}

/* What PROVIDE finds out by itself. */
static void test_provide(void)
{
	struct rkchain_query query;
	struct table t;

	begin(&t);
	rig_release(t.rk);
	rig_query(t.rk, &query);
	ASSERT_EQ(query.provider, 0);
	model_set("bad_core", 1);
	ASSERT_EQ(rig_try_provide(t.rk, rig_node()), 0);
	rig_query(t.rk, &query);
	ASSERT_EQ(query.mode, RKCHAIN_MODE_LINK);
	ASSERT_EQ(query.mode_source, RKCHAIN_MODE_TRIED);
	ASSERT_EQ(query.cores_usable, 6);

	rig_release(t.rk);
	model_calm();
	model_set("rawlate", 1);
	ASSERT_EQ(rig_try_provide(t.rk, rig_node()), 0);
	rig_query(t.rk, &query);
	ASSERT_EQ(query.mode, RKCHAIN_MODE_SINGLE);
	ASSERT_EQ(query.mode_source, RKCHAIN_MODE_LAST);
	ASSERT_EQ(query.cores_usable, 7);
}

/* Clients go on meanwhile. */
static void test_beside_others(void)
{
	static const u32 verdicts[] = { WORKS, WORKS, WORKS, WORKS };
	struct rkchain_completion done[100];
	struct rig_queue q;
	struct table t;
	u64 first;

	begin(&t);
	rig_queue_open(&q, 100);
	model_set("latency_us", 1000);
	first = rig_submit_all(q.rk, q.chains, 100, NULL);
	run(&t, 0, 0, 0);
	expect(&t, verdicts, RKCHAIN_MODE_WAIT, RKCHAIN_MODE_PROVEN);
	rig_wait_good(q.rk, first, 100, done);
}

static void ignore(__attribute__((unused)) int signal)
{
}

static void test_interrupted(void)
{
	const struct sigaction action = { .sa_handler = ignore };
	const struct itimerval soon = { .it_value.tv_usec = 50000 };
	struct rkchain_query before;
	struct table t;

	begin(&t);
	rig_query(t.rk, &before);
	sigaction(SIGALRM, &action, NULL);
	model_set("latency_us", 200000);
	setitimer(ITIMER_REAL, &soon, NULL);
	ASSERT_EQ(try_selftest(&t, 0, 0, 0), -EINTR);
	ASSERT_EQ(t.call.count, 0);
	model_calm();
	rig_settles(t.rk, &before);
	rig_still_works();
}

static const struct tap_test tests[] = {
	{ .name = "good", .run = test_good },
	{ .name = "part", .run = test_part },
	{ .name = "does_not_wait", .run = test_does_not_wait },
	{ .name = "completes_early", .run = test_completes_early },
	{ .name = "early_is_not_seen_by_short_chains",
	  .run = test_early_is_not_seen_by_short_chains },
	{ .name = "short", .run = test_short },
	{ .name = "needs_marker", .run = test_needs_marker },
	{ .name = "late", .run = test_late },
	{ .name = "unordered", .run = test_unordered },
	{ .name = "bad_core", .run = test_bad_core },
	{ .name = "stuck_core", .run = test_stuck_core },
	{ .name = "lost_starts", .run = test_lost_starts },
	{ .name = "provide", .run = test_provide },
	{ .name = "beside_others", .run = test_beside_others },
	{ .name = "interrupted", .run = test_interrupted },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), restore);
}

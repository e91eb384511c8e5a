// SPDX-License-Identifier: MIT
/*
 * FAILURES: what a client is told of its chains that failed on the NPU; and which of
 * them are run again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "debug.h"
#include "rig.h"

#define MS		1000000ULL
#define KEPT		8

static int try_failures(int rk, u32 index, void *program, u64 size,
			struct rkchain_failures *failures)
{
	memset(failures, 0, sizeof(*failures));
	failures->index = index;
	failures->program = (uintptr_t)program;
	failures->size = size;
	return rig_try(rk, RKCHAIN_IOCTL_FAILURES, failures);
}

/* Runs a chain on a core that is stuck. */
static void hang(struct rig_job *job, u32 core, struct rkchain_completion *done)
{
	const struct rkchain_submit here = { .core_mask = 1u << core, .user_data = 4711 };

	model_set("stuck_core", 1u << core);
	rig_wait(job->rk, rig_submit_all(job->rk, &job->chain, 1, &here), 1, done);
	model_calm();
	ASSERT_EQ(done->status, -ETIMEDOUT);
	/* A success, so that nothing is held and no strikes are left. */
	rig_wait_good(job->rk, rig_submit_all(job->rk, &job->chain, 1, &here), 1, done);
}

static void begin(struct rig_job *job, u32 count)
{
	int rk = rig_open();

	model_need();
	rig_need(rk, RKCHAIN_CAP_FAILURES, "looking at failures");
	rig_need_parameter("hang_ms", "200");
	rig_job_new(job, rk, count);
	rig_job_fill(job, 1);
	rig_job_register(job);
}

static void test_none(void)
{
	struct rkchain_failures failures;
	struct rig_job job;

	begin(&job, 1);
	rig_job_run(&job);
	ASSERT_EQ(try_failures(job.rk, 0, NULL, 0, &failures), -EINVAL);
	ASSERT_EQ(failures.report.reason, RKCHAIN_REASON_FAILURE);
	ASSERT_EQ(failures.kept, 0);
}

/* What is told, and the program as the NPU had it, in each mode. */
static void hung_in(u32 mode)
{
	const u32 count = mode == RKC_SINGLE ? 1 : 5;
	struct rkchain_failures failures;
	struct rkchain_completion done;
	struct rkchain_query before;
	struct rkc_measure measure;
	u64 *program, *want;
	struct rig_job job;
	size_t size;

	begin(&job, count);
	rig_need_parameter("chain_mode", rkc_mode_name(mode));
	rig_query(job.rk, &before);
	hang(&job, 1, &done);
	ASSERT_EQ(try_failures(job.rk, 0, NULL, 0, &failures), 0);
	ASSERT_EQ(failures.kept, 1);
	ASSERT_EQ(failures.failure.sequence, done.sequence - 1);
	ASSERT_EQ(failures.failure.user_data, 4711);
	ASSERT_EQ(failures.failure.status, -ETIMEDOUT);
	ASSERT(failures.failure.error == -EINVAL || failures.failure.error == -ETIMEDOUT);
	ASSERT_EQ(failures.failure.flags, RKCHAIN_FAILURE_COMMITTED | RKCHAIN_FAILURE_HUNG |
					  RKCHAIN_FAILURE_REPLAYABLE);
	ASSERT_EQ(failures.failure.core, 1);
	ASSERT_EQ(failures.failure.mode, mode);
	ASSERT_EQ(failures.failure.retries, 0);
	ASSERT_EQ(failures.failure.blocks, count);
	ASSERT_EQ(failures.failure.reserved, 0);
	ASSERT(failures.failure.age_ns >= 200 * MS);
	ASSERT(failures.failure.generation > before.generation);
	ASSERT(failures.failure.started_ns);

	ASSERT_EQ(rkc_chain_measure(mode, count, &measure, NULL), 0);
	size = measure.words * sizeof(u64);
	ASSERT_EQ(failures.size, size);
	want = calloc(1, size);
	program = calloc(1, size + 8);
	ASSERT_EQ(rkc_chain_emit(mode, job.blocks, count, failures.failure.iova, want, NULL), 0);
	ASSERT_EQ(try_failures(job.rk, 0, program, size - 8, &failures), -ENOSPC);
	ASSERT_EQ(failures.report.reason, RKCHAIN_REASON_SIZE);
	ASSERT_EQ(failures.report.limit, size);
	ASSERT_EQ(try_failures(job.rk, 0, program, size + 8, &failures), 0);
	ASSERT_EQ(failures.size, size);
	ASSERT(!memcmp(program, want, size));
	ASSERT_EQ(program[measure.words], 0);
	ASSERT_EQ(try_failures(job.rk, 0, (char *)rig_guarded(size) + 8, size, &failures),
		  -EFAULT);
	ASSERT_EQ(try_failures(job.rk, 1, NULL, 0, &failures), -EINVAL);
	ASSERT_EQ(failures.report.limit, 1);
}

static void test_wait(void)
{
	hung_in(RKC_WAIT);
}

static void test_wait41(void)
{
	hung_in(RKC_WAIT41);
}

static void test_link(void)
{
	hung_in(RKC_LINK);
}

static void test_single(void)
{
	hung_in(RKC_SINGLE);
}

/* The last ones, the last one first; and they are this client's alone. */
static void test_the_last_ones(void)
{
	struct rkchain_failures failures;
	struct rkchain_completion done;
	struct rig_job job;
	u64 before = ~0ull;

	begin(&job, 1);
	rig_need_parameter("strikes", "1000");
	rig_need_parameter("hang_ms", "50");
	for (u32 i = 0; i < KEPT + 2; i++)
		hang(&job, i % MODEL_CORES, &done);
	for (u32 i = 0; i < KEPT; i++) {
		ASSERT_EQ(try_failures(job.rk, i, NULL, 0, &failures), 0);
		ASSERT_EQ(failures.kept, KEPT);
		ASSERT(failures.failure.sequence < before);
		before = failures.failure.sequence;
	}
	ASSERT_EQ(try_failures(job.rk, KEPT, NULL, 0, &failures), -EINVAL);
	ASSERT_EQ(try_failures(rig_open(), 0, NULL, 0, &failures), -EINVAL);
	ASSERT_EQ(failures.kept, 0);
}

/* It holds neither the chain nor the buffers. */
static void test_outlives_its_chain(void)
{
	struct rkchain_query before, query;
	struct rkchain_failures failures;
	struct rkchain_completion done;
	struct rig_job job;
	u64 program[RKC_FULL_WORDS];
	int rk = rig_open();

	rig_query(rk, &before);
	begin(&job, 1);
	hang(&job, 2, &done);
	rig_job_free(&job);
	rig_query(rk, &query);
	ASSERT_EQ(query.used_bytes, before.used_bytes);
	ASSERT_EQ(query.used_chains, before.used_chains);
	ASSERT_EQ(try_failures(job.rk, 0, program, sizeof(program), &failures), 0);
	ASSERT_EQ(failures.failure.core, 2);
}

/* ---- what is run again, and what is not ---- */

/* Has the second block write over what the first one reads, so that it is not replayable. */
static void begin_replay(struct rig_job *job, bool replayable)
{
	struct rkchain_chain_create create;

	begin(job, 2);
	rig_need_parameter("hang_ms", "3000");
	if (replayable)
		return;
	ASSERT_EQ(rig_try_destroy_chain(job->rk, job->chain), 0);
	job->blocks[0].a = job->blocks[1].c;
	for (u32 i = 0; i < 2; i++)
		rkc_chain_append(job->words, i, &job->blocks[i]);
	job->uses[2].flags |= RKCHAIN_USE_READ;
	rig_job_request(job, &create);
	ASSERT_EQ(rig_try_create(job->rk, &create), 0);
	ASSERT(!(create.found & RKCHAIN_CHAIN_REPLAYABLE));
	job->chain = create.id;
}

/*
 * Runs a chain and has another program reset the NPU meanwhile; how often the hardware
 * was given it.  What it does has ended, as the hardware that is played knows no reset,
 * before the module submits again.
 */
static u64 hit(struct rig_job *job, struct rkchain_completion *done)
{
	const struct rkchain_submit here = { .core_mask = 2 };
	struct rknpu_action action = { .flags = RKNPU_ACT_RESET };
	int node = rig_node();
	u64 commits, first;

	if (node < 0)
		tap_skip("the stock driver's node cannot be opened");
	commits = model_counter(1, "commits");
	model_set("latency_us", 200000);
	first = rig_submit_all(job->rk, &job->chain, 1, &here);
	while (model_counter(1, "commits") == commits)
		rig_sleep(1);
	ASSERT_EQ(ioctl(node, RKNPU_IOCTL_ACTION, &action), 0);
	model_set("latency_us", 0);
	rig_wait(job->rk, first, 1, done);
	close(node);
	rig_sleep(600);
	return model_counter(1, "commits") - commits;
}

static void test_run_again(void)
{
	struct rkchain_failures failures;
	struct rkchain_completion done;
	struct rig_job job;

	begin_replay(&job, true);
	ASSERT_EQ(hit(&job, &done), 2);
	ASSERT_EQ(done.status, 0);
	ASSERT_EQ(done.retries, 1);
	rig_job_check(&job);
	ASSERT_EQ(try_failures(job.rk, 0, NULL, 0, &failures), 0);
	ASSERT_EQ(failures.failure.status, -EAGAIN);
	ASSERT(failures.failure.flags & RKCHAIN_FAILURE_REPLAYABLE);
	ASSERT(!(failures.failure.flags & RKCHAIN_FAILURE_HUNG));
}

static void test_not_run_again(void)
{
	struct rkchain_failures failures;
	struct rkchain_completion done;
	struct rig_job job;

	for (u32 i = 0; i < 3; i++) {
		begin_replay(&job, false);
		ASSERT_EQ(hit(&job, &done), 1);
		ASSERT_EQ(done.status, -EIO);
		ASSERT_EQ(done.retries, 0);
		ASSERT_EQ(try_failures(job.rk, 0, NULL, 0, &failures), 0);
		ASSERT_EQ(failures.failure.status, -EIO);
		ASSERT(!(failures.failure.flags & RKCHAIN_FAILURE_REPLAYABLE));
		rig_still_works();
	}
}

static const struct tap_test tests[] = {
	{ .name = "none", .run = test_none },
	{ .name = "wait", .run = test_wait },
	{ .name = "wait41", .run = test_wait41 },
	{ .name = "link", .run = test_link },
	{ .name = "single", .run = test_single },
	{ .name = "the_last_ones", .run = test_the_last_ones },
	{ .name = "outlives_its_chain", .run = test_outlives_its_chain },
	{ .name = "run_again", .run = test_run_again },
	{ .name = "not_run_again", .run = test_not_run_again },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

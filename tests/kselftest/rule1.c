// SPDX-License-Identifier: MIT
/*
 * The NPU fetches only what the module wrote, and touches only what the chain
 * declared, whatever the caller does with his memory meanwhile.
 *
 * A thread keeps rewriting the caller's program while chains are made of it and run.
 * The hardware model's access log is the witness.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "debug.h"
#include "rig.h"

#define BLOCKS	4
#define RUNS	240
#define LOOK	8	/* runs between looks at the log */
#define STEPS	40	/* moments of a call that are tried */

/* Memory of the client that no chain declares. */
#define DECOY	65536

struct range {
	u64 start;
	u64 end;
};

struct scene {
	int rk;
	struct rig_job job;
	struct rig_buf decoy;
	struct rig_buf program;	/* the caller's words, in memory that the NPU could reach */
	struct range in;
	struct range weights;
	struct range out;
	struct range caller[5];
	u64 next[MODEL_CORES];
	u64 seen;
	u64 foreign;

	/* For the other thread: at that time, that word gets that value. */
	u32 turn;
	u32 done;
	u64 time;
	u64 *where;
	u64 bad;
};

#define STOP	(~0u)

static struct range of(const struct rig_buf *buf)
{
	return (struct range){ buf->iova, buf->iova + buf->size };
}

static bool inside(const struct model_access *access, const struct range *range)
{
	return access->iova >= range->start && access->iova + access->len <= range->end;
}

static bool touches(const struct model_access *access, const struct range *range)
{
	return access->iova < range->end && range->start < access->iova + access->len;
}

static void see(const struct model_access *access, void *data)
{
	struct scene *s = data;
	bool good;

	s->seen++;
	if (!strcmp(access->kind, "fetch")) {
		/* The program is the module's; it lies in none of the client's buffers. */
		good = true;
		for (u32 i = 0; i < ARRAY_SIZE(s->caller); i++)
			good = good && !touches(access, &s->caller[i]);
	} else if (!strcmp(access->kind, "feature")) {
		good = inside(access, &s->in);
	} else if (!strcmp(access->kind, "weight")) {
		good = inside(access, &s->weights);
	} else {
		good = inside(access, &s->out);
	}
	if (!good && !s->foreign++)
		tap_note("core %u: %s of %#llx, %llu bytes", access->core, access->kind,
			 (unsigned long long)access->iova, (unsigned long long)access->len);
}

static void look(struct scene *s)
{
	const u64 forgotten = model_log(s->next, see, s);

	if (forgotten)
		FAIL("the log forgot %llu accesses", (unsigned long long)forgotten);
	ASSERT_EQ(s->foreign, 0);
}

static void begin(struct scene *s, const char *mode)
{
	model_need();
	rig_need_parameter("chain_mode", mode);
	memset(s, 0, sizeof(*s));
	s->rk = rig_open();
	rig_job_new(&s->job, s->rk, BLOCKS);
	rig_job_fill(&s->job, 1);
	rig_buf_new(&s->decoy, s->rk, DECOY);
	rig_buf_new(&s->program, s->rk, 8ULL * s->job.nwords);
	memset(s->decoy.map, 0x3c, DECOY);
	rig_buf_sync(&s->decoy, RKCHAIN_SYNC_TO_DEVICE);
	s->in = of(&s->job.a);
	s->weights = of(&s->job.b);
	s->out = of(&s->job.c);
	s->caller[0] = s->in;
	s->caller[1] = s->weights;
	s->caller[2] = s->out;
	s->caller[3] = of(&s->decoy);
	s->caller[4] = of(&s->program);
	model_log(s->next, NULL, NULL);
}

static void end(struct scene *s)
{
	const u8 *byte = s->decoy.map;

	look(s);
	ASSERT(s->seen);
	rig_buf_sync(&s->decoy, RKCHAIN_SYNC_FROM_DEVICE);
	for (u32 i = 0; i < DECOY; i++)
		ASSERT_EQ(byte[i], 0x3c);
	tap_note("%llu accesses, all of them declared", (unsigned long long)s->seen);
	rig_still_works();
}

/* What is put in place of a good word, and taken back. */
struct attack {
	u32 word;
	u64 bad;
};

static void make_attacks(const struct scene *s, struct attack attacks[6])
{
	const u32 at = s->decoy.iova;
	const u32 last = (BLOCKS - 1) * RKC_WAIT_STRIDE;

	attacks[0] = (struct attack){ 61, rkc_entry(RKC_TARGET_DPU, 0x4020, at) };
	attacks[1] = (struct attack){ 25, rkc_entry(RKC_TARGET_CNA, 0x1070, at) };
	attacks[2] = (struct attack){ RKC_WAIT_STRIDE + 34,
				      rkc_entry(RKC_TARGET_CNA, 0x1110, at) };
	attacks[3] = (struct attack){ RKC_WAIT_STRIDE + 108,
				      rkc_entry(RKC_TARGET_PC, RKC_PC_ADDRESS, at) };
	attacks[4] = (struct attack){ last + 109,
				      rkc_entry(RKC_TARGET_PC, RKC_PC_AMOUNT, 0x37) };
	attacks[5] = (struct attack){ last + 52, rkc_entry(RKC_TARGET_PC, 0x34, at) };
}

static void *rewrite(void *data)
{
	struct scene *s = data;
	u32 seen = 0;

	for (;;) {
		const u32 turn = __atomic_load_n(&s->turn, __ATOMIC_ACQUIRE);

		if (turn == STOP)
			return NULL;
		if (turn == seen) {
			sched_yield();
			continue;
		}
		seen = turn;
		while (rig_now() < s->time)
			;
		__atomic_store_n(s->where, s->bad, __ATOMIC_SEQ_CST);
		__atomic_store_n(&s->done, turn, __ATOMIC_RELEASE);
	}
}

/* How long a call takes that nobody interferes with. */
static u64 create_time(struct scene *s, const struct rkchain_chain_create *request)
{
	u64 took[9];

	for (u32 i = 0; i < ARRAY_SIZE(took); i++) {
		struct rkchain_chain_create create = *request;
		u64 start = rig_now();

		ASSERT_EQ(rig_try_create(s->rk, &create), 0);
		took[i] = rig_now() - start;
		ASSERT_EQ(rig_try_destroy_chain(s->rk, create.id), 0);
	}
	return rig_median(took, ARRAY_SIZE(took));
}

/*
 * Makes chains and runs them; a word of @memory goes bad at some moment of the call
 * or just after it, and stays so while the chain runs.
 */
static void race(struct scene *s, const struct rkchain_chain_create *request, u64 *memory,
		 const struct attack *attacks, u32 count)
{
	const u64 duration = create_time(s, request);
	struct rkchain_completion done;
	u32 accepted = 0, refused = 0;
	pthread_t thread;

	ASSERT_EQ(pthread_create(&thread, NULL, rewrite, s), 0);
	for (u32 i = 0; i < RUNS; i++) {
		const struct attack *attack = &attacks[i % count];
		struct rkchain_chain_create create = *request;
		const u64 good = memory[attack->word];
		u64 wrong;
		int ret;

		rig_job_refill(&s->job, i);
		s->where = &memory[attack->word];
		s->bad = attack->bad;
		s->time = rig_now() + duration * (i / count % STEPS) * 5 / 4 / STEPS;
		__atomic_store_n(&s->turn, i + 1, __ATOMIC_RELEASE);
		ret = rig_try_create(s->rk, &create);
		while (__atomic_load_n(&s->done, __ATOMIC_ACQUIRE) != i + 1)
			sched_yield();
		if (ret) {
			/* Caught at it: one of the reasons that such words can have. */
			ASSERT_EQ(ret, -EINVAL);
			if (create.report.reason < RKCHAIN_REASON_PAGE_MISMATCH ||
			    create.report.reason >= RKCHAIN_REASON_FLAGS)
				FAIL("reason %u", create.report.reason);
			refused++;
		} else {
			accepted++;
			rig_wait(s->rk, rig_submit(s->rk, create.id, 1, 0, 0), 1, &done);
			wrong = done.status ? 0 : rig_job_wrong(&s->job);
			/* The log first: it says what happened. */
			if (i % LOOK == 0 || done.status || wrong)
				look(s);
			ASSERT_EQ(done.status, 0);
			ASSERT_EQ(wrong, 0);
			ASSERT_EQ(rig_try_destroy_chain(s->rk, create.id), 0);
		}
		memory[attack->word] = good;
	}
	__atomic_store_n(&s->turn, STOP, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	tap_note("%u accepted, %u refused", accepted, refused);
	ASSERT(accepted && refused);
	end(s);
}

static void rewritten_program(const char *mode)
{
	struct rkchain_chain_create create;
	struct attack attacks[6];
	struct scene s;

	begin(&s, mode);
	memcpy(s.program.map, s.job.words, 8ULL * s.job.nwords);
	rig_job_request(&s.job, &create);
	create.programs = (uintptr_t)s.program.map;
	make_attacks(&s, attacks);
	race(&s, &create, s.program.map, attacks, ARRAY_SIZE(attacks));
}

static void test_rewritten_program(void)
{
	rewritten_program("link");
}

/* In the layout that the caller's own program has. */
static void test_rewritten_program_wait(void)
{
	rewritten_program("wait");
}

/* Once it is registered, the caller's words do not matter any more. */
static void test_rewritten_afterwards(void)
{
	struct rkchain_chain_create create;
	struct rkchain_completion done;
	struct attack attacks[6];
	struct scene s;
	u64 *words;

	begin(&s, "wait");
	words = s.program.map;
	memcpy(words, s.job.words, 8ULL * s.job.nwords);
	rig_job_request(&s.job, &create);
	create.programs = (uintptr_t)words;
	ASSERT_EQ(rig_try_create(s.rk, &create), 0);
	make_attacks(&s, attacks);
	for (u32 i = 0; i < ARRAY_SIZE(attacks); i++)
		words[attacks[i].word] = attacks[i].bad;
	rig_buf_sync(&s.program, RKCHAIN_SYNC_TO_DEVICE);
	for (u32 i = 0; i < 50; i++) {
		rig_job_refill(&s.job, i);
		rig_wait_good(s.rk, rig_submit(s.rk, create.id, 1, 0, 0), 1, &done);
		look(&s);
		rig_job_check(&s.job);
	}
	end(&s);
}

/* The list of buffers, likewise: a buffer is held with the rights it was checked with. */
static void test_rewritten_buffers(void)
{
	struct rkchain_chain_create create;
	struct attack attacks[3];
	struct scene s;

	begin(&s, "wait");
	memcpy(s.program.map, s.job.uses, sizeof(s.job.uses));
	rig_job_request(&s.job, &create);
	create.buffers = (uintptr_t)s.program.map;
	/* An entry is a word: the id, and the flags above it. */
	attacks[0] = (struct attack){ 0, s.job.a.id | (u64)RKCHAIN_USE_WRITE << 32 };
	attacks[1] = (struct attack){ 1, s.decoy.id | (u64)RKCHAIN_USE_READ << 32 };
	attacks[2] = (struct attack){ 2, s.decoy.id | (u64)RKCHAIN_USE_WRITE << 32 };
	race(&s, &create, s.program.map, attacks, ARRAY_SIZE(attacks));
}

static const struct tap_test tests[] = {
	{ .name = "rewritten_program", .run = test_rewritten_program, .seconds = 180 },
	{ .name = "rewritten_program_wait", .run = test_rewritten_program_wait, .seconds = 180 },
	{ .name = "rewritten_afterwards", .run = test_rewritten_afterwards },
	{ .name = "rewritten_buffers", .run = test_rewritten_buffers, .seconds = 180 },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

// SPDX-License-Identifier: MIT
/*
 * A process that keeps books: each chain that it submits completes once, what has
 * succeeded is right, and QUERY knows what the process has.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "ioctl_fuzz.h"

#define JOBS	4
#define MOST	64	/* chains of a round */

/* One of them for each sequence number of a round. */
struct entry {
	u32 job;
	u32 flags;
	bool deadline;
	bool follows;
	bool late;		/* it has been told that it still runs */
	bool done;
};

struct books {
	struct fuzz_dice dice;
	struct fuzz_slot *slot;
	int rk;
	struct rig_job jobs[JOBS];
	u32 succeeded[JOBS];
	__u64 first;
	u32 count;
	u32 left;
	struct entry entries[MOST];
	u32 epoch;		/* when the round began */
	bool was_calm;
	u32 made;		/* when the jobs were made */
	u32 failed;
	struct rkchain_completion *records_end;
};

static void on_alarm(int signal)
{
	(void)signal;
}

/* Nothing but the caller himself can make a call fail: now, and since the round began. */
static bool calm(const struct books *b)
{
	return b->was_calm && fuzz_weather() == CALM && fuzz_epoch() == b->epoch;
}

/* ---- jobs ---- */

static int try_buf(struct books *b, struct rig_buf *buf, u64 size)
{
	struct rkchain_buf_create create = { .size = size };
	int ret;

	fuzz_begin(b->slot, CALL_BUF_CREATE, 0);
	ret = rig_try_buf(b->rk, &create);
	fuzz_end(b->slot);
	if (ret)
		return ret;
	*buf = (struct rig_buf){
		.rk = b->rk,
		.id = create.id,
		.iova = create.iova,
		.size = (size + RIG_PAGE - 1) / RIG_PAGE * RIG_PAGE,
		.fd = create.fd,
	};
	rig_buf_map(buf);
	return 0;
}

static int try_job(struct books *b, struct rig_job *job)
{
	static const struct rkchain_buf_use uses[] = {
		{ .flags = RKCHAIN_USE_READ | RKCHAIN_USE_SYNC },
		{ .flags = RKCHAIN_USE_READ | RKCHAIN_USE_SYNC },
		{ .flags = RKCHAIN_USE_WRITE | RKCHAIN_USE_SYNC },
	};
	struct rkchain_chain_create create;
	int ret;

	memset(job, 0, sizeof(*job));
	job->rk = b->rk;
	job->m = 1 + fuzz_below(&b->dice, 4);
	job->k = 32 * (1 + fuzz_below(&b->dice, 2));
	job->n = 32;
	job->count = 1 + fuzz_below(&b->dice, 4);
	job->a.fd = -1;
	job->b.fd = -1;
	job->c.fd = -1;
	ret = try_buf(b, &job->a, (u64)job->m * job->k * job->count);
	if (!ret)
		ret = try_buf(b, &job->b, (u64)job->k * job->n * job->count);
	if (!ret)
		ret = try_buf(b, &job->c, 4ULL * job->m * job->n * job->count);
	if (ret)
		return ret;
	memcpy(job->uses, uses, sizeof(uses));
	job->uses[0].id = job->a.id;
	job->uses[1].id = job->b.id;
	job->uses[2].id = job->c.id;
	job->nwords = (job->count - 1) * RKC_WAIT_STRIDE + RKC_FULL_WORDS;
	job->words = calloc(job->nwords, sizeof(*job->words));
	ASSERT(job->words);
	for (u32 i = 0; i < job->count; i++) {
		const struct rkc_matmul d = {
			.type = RKC_I8_I32,
			.layout = RKC_FLAT,
			.m = job->m,
			.k = job->k,
			.n = job->n,
			.m_total = job->m,
			.a = job->a.iova + i * job->m * job->k,
			.b = job->b.iova + i * job->k * job->n,
			.c = job->c.iova + i * 4 * job->m * job->n,
		};

		rkc_chain_append(job->words, i, &d);
	}
	rig_job_request(job, &create);
	fuzz_begin(b->slot, CALL_CHAIN_CREATE, 0);
	ret = rig_try_create(b->rk, &create);
	fuzz_end(b->slot);
	if (!ret)
		job->chain = create.id;
	else if (ret == -EINVAL)
		FAIL("CHAIN_CREATE of a good program: %s, block %u, word %u, value %#llx",
		     rkc_reason_name(create.report.reason), create.report.block,
		     create.report.word, create.report.value);
	return ret;
}

static void drop_job(struct rig_job *job)
{
	rig_job_unmap(job);
	free(job->words);
	if (job->chain)
		ASSERT_EQ(rig_try_destroy_chain(job->rk, job->chain), 0);
	if (job->a.id)
		ASSERT_EQ(rig_try_destroy(job->rk, job->a.id), 0);
	if (job->b.id)
		ASSERT_EQ(rig_try_destroy(job->rk, job->b.id), 0);
	if (job->c.id)
		ASSERT_EQ(rig_try_destroy(job->rk, job->c.id), 0);
	memset(job, 0, sizeof(*job));
	job->a.fd = -1;
	job->b.fd = -1;
	job->c.fd = -1;
}

/* New data; the weights are declared SYNC, so that no call is needed for it. */
static void fill(struct books *b, struct rig_job *job)
{
	u8 *weights = job->b.map;

	rig_job_refill(job, fuzz_random(&b->dice));
	for (u32 i = 0; i < job->k * job->n * job->count; i++)
		weights[i] = fuzz_random(&b->dice);
}

/* ---- the books ---- */

static void enter(struct books *b, const struct rkchain_completion *done)
{
	const u64 index = done->sequence - b->first;
	struct entry *e;

	if (done->sequence < b->first || index >= b->count)
		FAIL("completion %llu, of %u from %llu", done->sequence, b->count, b->first);
	e = &b->entries[index];
	if (e->done)
		FAIL("completion %llu came twice, now with %s", done->sequence,
		     strerror(-done->status));
	if (done->user_data != b->first + 7)
		FAIL("completion %llu has another submit's data", done->sequence);
	fuzz_count(&fuzz->statuses[-done->status]);
	if (done->flags & RKCHAIN_DONE_RUNNING) {
		if (e->late || !e->deadline || done->status != -ETIME)
			FAIL("completion %llu: flags %#x, status %d", done->sequence, done->flags,
			     done->status);
		e->late = true;
		fuzz_count(&fuzz->late);
		b->failed++;
		return;
	}
	if (e->late != !!(done->flags & RKCHAIN_DONE_RETIRED))
		FAIL("completion %llu: flags %#x, late %u", done->sequence, done->flags, e->late);
	e->done = true;
	b->left--;
	b->succeeded[e->job] += !done->status;
	fuzz_count(&fuzz->chains);
	if (!done->status)
		return;
	b->failed++;
	if ((done->status == -ETIME && e->deadline) || (done->status == -ECANCELED && e->follows))
		return;
	if (done->status != -ETIMEDOUT && done->status != -EIO && done->status != -ENODEV)
		FAIL("completion %llu: %s", done->sequence, strerror(-done->status));
	if (!calm(b))
		return;
	/* An emulated machine may take a second for nothing. */
	if (done->status == -ENODEV)
		FAIL("chain %llu was cancelled for no reason", done->sequence);
	fuzz_count(&fuzz->calm_hung);
}

/* WAIT for some of the range, in all ways that it can fail. */
static void collect_by_wait(struct books *b)
{
	const u32 from = fuzz_below(&b->dice, b->count);
	const u32 count = 1 + fuzz_below(&b->dice, b->count - from);
	struct rkchain_wait wait = {
		.first = b->first + from,
		.count = count,
		.flags = fuzz_percent(&b->dice, 70) ? RKCHAIN_WAIT_ANY : 0,
		.deadline_ns = fuzz_percent(&b->dice, 30) ? 0 : rig_now() + 20 * MS,
		.completions = (uintptr_t)(b->records_end - count),
	};
	const bool bad = fuzz_percent(&b->dice, 5);
	int ret;

	if (bad)
		wait.completions = 8;
	fuzz_begin(b->slot, CALL_WAIT, 0);
	ret = rig_try_wait(b->rk, &wait);
	fuzz_end(b->slot);
	if (ret) {
		ASSERT(ret == -ETIME || ret == -EINTR || ret == -EINVAL ||
		       (bad && ret == -EFAULT));
		return;
	}
	ASSERT(!bad && wait.done && wait.done <= count);
	for (u32 i = 0; i < wait.done; i++)
		enter(b, b->records_end - count + i);
}

static void collect_by_read(struct books *b)
{
	const u32 count = 1 + fuzz_below(&b->dice, MOST);
	struct rkchain_completion *at = b->records_end - count;
	struct pollfd poll_for = { .fd = b->rk, .events = POLLIN };
	const bool bad = fuzz_percent(&b->dice, 5);
	void *to = at;
	ssize_t ret;

	if (bad)
		to = mmap(NULL, RIG_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(to != MAP_FAILED);
	if (fuzz_percent(&b->dice, 50))
		poll(&poll_for, 1, 10);
	fuzz_begin(b->slot, CALL_READ, 0);
	ret = read(b->rk, to, count * sizeof(*at));
	fuzz_end(b->slot);
	if (ret < 0) {
		const int error = errno;

		if (bad)
			munmap(to, RIG_PAGE);
		errno = error;
		ASSERT(errno == EAGAIN || errno == EINTR || (bad && errno == EFAULT));
		return;
	}
	ASSERT(!bad && ret && ret % sizeof(*at) == 0);
	for (u32 i = 0; i < ret / sizeof(*at); i++)
		enter(b, at + i);
}

static int submit(struct books *b)
{
	const u32 count = 1 + fuzz_below(&b->dice, 12);
	const u32 kind = fuzz_below(&b->dice, 100);
	struct rkchain_submit s = {
		.count = count,
		.core_mask = fuzz_percent(&b->dice, 70) ? 0 : 1 + fuzz_below(&b->dice, 7),
		.user_data = b->first + 7,
	};
	u32 chains[12], jobs[12];
	int ret;

	for (u32 i = 0; i < count; i++) {
		jobs[i] = fuzz_below(&b->dice, JOBS);
		chains[i] = b->jobs[jobs[i]].chain;
	}
	s.chains = (uintptr_t)chains;
	if (kind < 25)
		s.flags |= RKCHAIN_SUBMIT_ORDERED;
	if (kind % 4 == 0)
		s.flags |= RKCHAIN_SUBMIT_READ;
	if (kind % 5 == 0 && b->first + b->count > 1) {
		s.flags |= RKCHAIN_SUBMIT_AFTER;
		s.after = b->first + b->count - 1;
	}
	if (kind % 7 == 0)
		s.deadline_ns = rig_now() + fuzz_below(&b->dice, 50 * MS);
	fuzz_begin(b->slot, CALL_SUBMIT, 0);
	ret = rig_try_submit(b->rk, &s);
	fuzz_end(b->slot);
	if (ret)
		return ret;
	ASSERT_EQ(s.first, b->first + b->count);
	for (u32 i = 0; i < count; i++)
		b->entries[b->count + i] = (struct entry){
			.job = jobs[i],
			.flags = s.flags,
			.deadline = s.deadline_ns,
			.follows = s.flags & (RKCHAIN_SUBMIT_ORDERED | RKCHAIN_SUBMIT_AFTER),
		};
	b->count += count;
	b->left += count;
	return 0;
}

/* ---- a round ---- */

static void check_drained(struct books *b)
{
	struct pollfd poll_for = { .fd = b->rk, .events = POLLIN };
	struct rkchain_wait wait = {
		.first = b->first,
		.count = b->count,
		.flags = RKCHAIN_WAIT_ANY,
		.completions = (uintptr_t)(b->records_end - MOST),
	};
	struct rkchain_query query;
	u32 chains = 0, blocks = 0;

	ASSERT(poll(&poll_for, 1, 0) <= 0);
	ASSERT_EQ(read(b->rk, b->records_end - 1, sizeof(*b->records_end)), -1);
	ASSERT(errno == EAGAIN || errno == EINTR);
	ASSERT_EQ(rig_try_wait(b->rk, &wait), -EINVAL);
	ASSERT_EQ(wait.report.reason, RKCHAIN_REASON_SEQUENCE);
	rig_query(b->rk, &query);
	ASSERT_EQ(query.used_jobs, 0);
	for (u32 i = 0; i < JOBS; i++) {
		chains += !!b->jobs[i].chain;
		blocks += b->jobs[i].chain ? b->jobs[i].count : 0;
	}
	/* What has been destroyed may be in quarantine. */
	if (query.used_chains < chains || query.used_blocks < blocks)
		FAIL("QUERY knows of %llu chains and %llu blocks; there are %u and %u",
		     query.used_chains, query.used_blocks, chains, blocks);
}

static int round_of(struct books *b)
{
	const u64 end = rig_now() + 60ULL * 1000 * MS * tap_slow();
	int ret = 0;

	b->was_calm = fuzz_weather() == CALM;
	b->epoch = fuzz_epoch();
	b->first += b->count;
	b->count = 0;
	b->left = 0;
	b->failed = 0;
	memset(b->succeeded, 0, sizeof(b->succeeded));
	for (u32 i = 0; i < JOBS; i++)
		fill(b, &b->jobs[i]);
	while (!ret && b->count + 12 <= MOST && fuzz_percent(&b->dice, 75))
		ret = submit(b);
	if (ret && calm(b) && b->made == b->epoch)
		FAIL("SUBMIT failed for no reason: %s", strerror(-ret));
	while (b->left) {
		if (fuzz_percent(&b->dice, 70))
			collect_by_wait(b);
		else
			collect_by_read(b);
		if (rig_now() > end)
			FAIL("%u of %u chains from %llu did not complete, weather %u", b->left,
			     b->count, b->first, fuzz_weather());
	}
	if (b->count)
		check_drained(b);
	for (u32 i = 0; i < JOBS; i++)
		if (b->succeeded[i]) {
			rig_job_check(&b->jobs[i]);
			fuzz_count(&fuzz->outputs);
		}
	if (calm(b))
		__atomic_fetch_add(&fuzz->calm, b->count, __ATOMIC_SEQ_CST);
	fuzz_count(&fuzz->rounds);
	return ret;
}

static void some_life(struct books *b)
{
	int ret = 0;

	b->was_calm = fuzz_weather() == CALM;
	b->epoch = fuzz_epoch();
	b->made = b->epoch;
	for (u32 i = 0; !ret && i < JOBS; i++)
		ret = try_job(b, &b->jobs[i]);
	if (ret && calm(b))
		FAIL("a job could not be made for no reason: %s", strerror(-ret));
	for (u32 i = 0; !ret && i < 20 && !fuzz_over(); i++)
		ret = round_of(b);
	for (u32 i = 0; i < JOBS; i++)
		drop_job(&b->jobs[i]);
	if (ret)
		rig_sleep(50);
}

void fuzz_careful(u32 number, u64 seed)
{
	const struct sigaction action = { .sa_handler = on_alarm };
	const struct sigaction restart = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	const struct itimerval every = { .it_interval.tv_usec = 37000, .it_value.tv_usec = 37000 };
	static struct books b;

	fuzz_become(1000 + number);
	b.dice.state = seed;
	b.slot = fuzz_slot();
	b.records_end = (struct rkchain_completion *)
			rig_guarded(MOST * sizeof(*b.records_end)) + MOST;
	sigaction(SIGALRM, number % 2 ? &action : &restart, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (!fuzz_over()) {
		b.rk = open(RIG_DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
		ASSERT(b.rk >= 0);
		b.first = 1;
		b.count = 0;
		for (u32 i = 0; i < 5 && !fuzz_over(); i++)
			some_life(&b);
		close(b.rk);
	}
}

// SPDX-License-Identifier: MIT
/*
 * soak: a client of rkchain.  Round after round it submits a few batches, collects what
 * becomes of them by WAIT or read(), and judges it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "soak.h"

#define MS		1000000ULL
#define S		1000000000ULL
#define POOL		10	/* chains that a worker has */
#define RUNS		12	/* of a chain, then there is another one */
#define GIVE_UP_NS	(90 * S)
/* By then somebody should have looked after a deadline. */
#define NO_BATCH	(~0u)

/* A chain of a round, and what became of it. */
struct item {
	struct soak_job *job;
	u64 sequence;
	u64 cookie;
	u64 after;		/* 0: none */
	u64 deadline;
	u64 generation;		/* before it was submitted */
	u32 mask;
	u32 batch;		/* ORDERED, else NO_BATCH */
	u32 failures;		/* that FAILURES tells of */
	bool late;		/* it has been told that it was RUNNING */
	bool ended;
	struct rkchain_completion done;
};

struct worker {
	int rk;
	u32 slot;
	u32 random;
	u32 batches;
	bool by_read;
	bool shared;		/* with another thread */
	struct soak_job jobs[POOL];
	struct item items[POOL];
	u32 count;
};

/* ---- submitting ---- */

/* -ENODEV when there is no driver at the moment. */
static int try_pool(struct worker *w)
{
	for (u32 i = 0; i < POOL; i++) {
		struct soak_job *job = &w->jobs[i];
		int ret;

		if (job->chain && (job->spoilt || job->runs >= RUNS))
			soak_job_free(job);
		if (job->chain)
			continue;
		ret = soak_job_try_new(job, w->rk, &w->random);
		if (ret == -ENODEV)
			return ret;
		/* A failed core may hold a lot: then with fewer chains. */
		if (ret && ret != -ENOMEM && ret != -EDQUOT)
			soak_wrong(SOAK_CALLS, "a chain of %u: %s", job->count, strerror(-ret));
	}
	return 0;
}

static void forget_pool(struct worker *w, void (*forget)(struct soak_job *job))
{
	for (u32 i = 0; i < POOL; i++)
		if (w->jobs[i].chain)
			forget(&w->jobs[i]);
}

static void choose(struct worker *w, struct rkchain_submit *submit)
{
	u32 *r = &w->random;

	submit->flags = w->by_read ? RKCHAIN_SUBMIT_READ : 0;
	if (soak_chance(r, 35))
		submit->flags |= RKCHAIN_SUBMIT_ORDERED;
	/* Not where another thread's failures count as well. */
	if (w->count && !w->shared && soak_chance(r, 35)) {
		submit->flags |= RKCHAIN_SUBMIT_AFTER;
		submit->after = w->items[soak_below(r, w->count)].sequence;
	}
	submit->priority = (s32)soak_below(r, 3) - 1;
	submit->core_mask = soak_chance(r, 15) ? soak_below(r, 8) : 0;
	if (soak_chance(r, 12))
		submit->deadline_ns = rig_now() + (soak_chance(r, 10) ? 0 :
						   soak_below(r, 150) * MS);
	submit->user_data = soak_random(r);
}

/* Submits up to @most of the chains that are not in this round. */
static int try_batch(struct worker *w, u32 most)
{
	struct rkchain_submit submit = { 0 };
	struct rkchain_query query;
	struct item *items = &w->items[w->count];
	u32 chains[POOL], count = 0, batch = ++w->batches;
	u64 blocks = 0;
	int ret;

	for (u32 i = 0; i < POOL && count < most; i++) {
		struct soak_job *job = &w->jobs[i];
		bool taken = !job->chain;

		for (u32 j = 0; j < w->count + count; j++)
			taken |= w->items[j].job == job;
		if (taken)
			continue;
		soak_job_fill(job, &w->random);
		memset(&items[count], 0, sizeof(*items));
		items[count].job = job;
		chains[count++] = job->chain;
		blocks += job->count;
	}
	if (!count)
		return 0;
	if (soak_add(soak->budget, -(s64)count) <= 0) {
		soak_add(soak->budget, count);
		return -ECANCELED;
	}
	choose(w, &submit);
	submit.chains = (uintptr_t)chains;
	submit.count = count;
	rig_query(w->rk, &query);
	ret = rig_try_submit(w->rk, &submit);
	if (ret) {
		soak_add(soak->budget, count);
		if (ret != -ENODEV && ret != -EAGAIN)
			soak_wrong(SOAK_CALLS, "SUBMIT: %s, reason %u", strerror(-ret),
				   submit.report.reason);
		/* The cores of a mask may be out, which says nothing of the driver. */
		if (submit.report.reason == RKCHAIN_REASON_CORE_MASK) {
			rig_sleep(10);
			return 0;
		}
		return ret;
	}
	for (u32 i = 0; i < count; i++) {
		items[i].job->runs++;
		items[i].sequence = submit.first + i;
		items[i].cookie = submit.user_data;
		items[i].after = submit.after;
		items[i].deadline = submit.deadline_ns;
		items[i].generation = query.generation;
		items[i].mask = submit.core_mask ? submit.core_mask : 7;
		items[i].batch = submit.flags & RKCHAIN_SUBMIT_ORDERED ? batch : NO_BATCH;
	}
	w->count += count;
	soak_add(soak->slot[w->slot].submitted, count);
	soak_add(soak->blocks, blocks);
	return 0;
}

/* ---- collecting ---- */

static void note_completion(struct worker *w, const struct rkchain_completion *done)
{
	struct item *item = NULL;

	for (u32 i = 0; i < w->count; i++)
		if (w->items[i].sequence == done->sequence)
			item = &w->items[i];
	if (!item) {
		soak_wrong(SOAK_ONCE, "chain %llu ended, which is not waited for",
			   done->sequence);
		return;
	}
	if (done->user_data != item->cookie)
		soak_wrong(SOAK_ONCE, "chain %llu has somebody else's user_data", done->sequence);
	if (item->ended || (item->late && !(done->flags & RKCHAIN_DONE_RETIRED)) ||
	    (!item->late && done->flags & RKCHAIN_DONE_RETIRED)) {
		soak_wrong(SOAK_ONCE, "chain %llu ended again: status %d, flags %u",
			   done->sequence, done->status, done->flags);
		return;
	}
	if (done->flags & RKCHAIN_DONE_RUNNING) {
		if (done->status != -ETIME || !item->deadline || done->done_ns != item->deadline ||
		    rig_now() < item->deadline)
			soak_wrong(SOAK_ETIME, "chain %llu was RUNNING: status %d, %lld ns late",
				   done->sequence, done->status,
				   (long long)(done->done_ns - item->deadline));
		item->late = true;
		return;
	}
	item->ended = true;
	item->done = *done;
	soak_add(soak->slot[w->slot].completed, 1);
}

/* 0, or -ETIME when nothing has come for a while. */
static int wait_some(struct worker *w)
{
	struct rkchain_completion done[2 * POOL];
	struct rkchain_wait wait = {
		.first = w->items[0].sequence,
		.flags = soak_chance(&w->random, 50) ? RKCHAIN_WAIT_ANY : 0,
		.deadline_ns = rig_now() + 100 * MS,
		.completions = (uintptr_t)done,
	};
	u64 last = 0;
	int ret;

	for (u32 i = 0; i < w->count; i++)
		last = w->items[i].sequence > last ? w->items[i].sequence : last;
	wait.count = last - wait.first + 1;
	/* Another thread's are in between, and go to read(). */
	if (wait.count > ARRAY_SIZE(done)) {
		wait.count = ARRAY_SIZE(done);
		for (u32 i = 0; i < w->count; i++)
			if (!w->items[i].ended) {
				wait.first = w->items[i].sequence;
				break;
			}
	}
	ret = rig_try_wait(w->rk, &wait);
	if (ret)
		return ret;
	for (u32 i = 0; i < wait.done; i++)
		note_completion(w, &done[i]);
	return 0;
}

static int read_some(struct worker *w)
{
	struct rkchain_completion done[POOL];
	struct pollfd poll_in = { .fd = w->rk, .events = POLLIN };
	ssize_t size;

	if (poll(&poll_in, 1, 100) <= 0)
		return -ETIME;
	size = read(w->rk, done, (1 + soak_below(&w->random, POOL)) * sizeof(*done));
	if (size < 0)
		return -errno;
	for (u32 i = 0; i < size / sizeof(*done); i++)
		note_completion(w, &done[i]);
	return 0;
}

static bool collected(const struct worker *w)
{
	for (u32 i = 0; i < w->count; i++)
		if (!w->items[i].ended)
			return false;
	return true;
}

static void collect(struct worker *w)
{
	u64 end = rig_now() + GIVE_UP_NS * tap_slow();

	while (!collected(w)) {
		int ret = w->by_read ? read_some(w) : wait_some(w);

		if (!ret || (ret == -ETIME && rig_now() < end))
			continue;
		for (u32 i = 0; i < w->count; i++)
			if (!w->items[i].ended)
				soak_wrong(SOAK_ONCE, "chain %llu of %u blocks is lost: %s",
					   (unsigned long long)w->items[i].sequence,
					   w->items[i].job->count, strerror(-ret));
		break;
	}
}

/* ---- judging ---- */

static bool failed(const struct item *item)
{
	return item->late || item->done.status;
}

/* Has something failed that this chain waited for? */
static const struct item *failed_before(const struct worker *w, const struct item *item)
{
	for (u32 i = 0; i < w->count; i++) {
		const struct item *other = &w->items[i];

		if (failed(other) && other->sequence < item->sequence &&
		    ((item->batch != NO_BATCH && other->batch == item->batch) ||
		     other->sequence <= item->after))
			return other;
	}
	return NULL;
}

static void suspect(const struct item *item)
{
	struct soak_suspect *s;

	s = &soak->suspects[soak_add(soak->suspect_next, 1) % SOAK_SUSPECTS];
	s->status = item->done.status;
	s->mask = item->mask;
	s->sequence = item->sequence;
	s->started_ns = item->done.started_ns;
	s->done_ns = item->done.done_ns;
	soak_put(s->ready, 1);
}

/* A success: computed once, and after what it was to come after. */
static void judge_good(struct worker *w, const struct item *item)
{
	const u64 wrong = soak_job_wrong(item->job, false, &w->random);
	const struct item *before = failed_before(w, item);

	if (wrong)
		soak_wrong(SOAK_OUTPUTS, "chain %llu, core %u, %u retries: %llu outputs are wrong",
			   item->done.sequence, item->done.core, item->done.retries,
			   (unsigned long long)wrong);
	if (before && before->late && !before->done.status && before->sequence > item->after)
		soak_add(soak->behind_late, 1);
	else if (before)
		soak_wrong(SOAK_ORDER, "chain %llu ran though %llu had failed with %d%s",
			   item->done.sequence, before->done.sequence, before->done.status,
			   before->late ? ", late" : "");
	for (u32 i = 0; i < w->count; i++) {
		const struct item *other = &w->items[i];

		if (other->sequence < item->sequence &&
		    item->done.started_ns < other->done.done_ns &&
		    ((item->batch != NO_BATCH && other->batch == item->batch) ||
		     other->sequence <= item->after))
			soak_wrong(SOAK_ORDER, "chain %llu started %llu ns before %llu ended",
				   item->done.sequence,
				   other->done.done_ns - item->done.started_ns,
				   other->done.sequence);
	}
}

static void judge_status(const struct worker *w, const struct item *item)
{
	const struct rkchain_completion *d = &item->done;
	const u64 took = d->done_ns - d->started_ns;

	switch (d->status) {
	case 0:
		break;
	case -ETIMEDOUT:
		if (!d->started_ns || took < soak->hang_ns)
			soak_wrong(SOAK_TIMEDOUT, "chain %llu hung on core %u for %llu us",
				   d->sequence, d->core, (unsigned long long)took / 1000);
		break;
	case -EIO:
		if (!d->started_ns || d->core == RKCHAIN_NO_CORE ||
		    d->generation <= item->generation)
			soak_wrong(SOAK_EIO, "chain %llu: EIO, core %u, generation %llu -> %llu",
				   d->sequence, d->core, (unsigned long long)item->generation,
				   d->generation);
		suspect(item);
		break;
	case -ECANCELED:
		if (!failed_before(w, item))
			soak_wrong(SOAK_CANCELED, "chain %llu was cancelled, after %llu",
				   d->sequence, (unsigned long long)item->after);
		break;
	case -ETIME:
		if (!item->deadline || d->done_ns < item->deadline || item->late)
			soak_wrong(SOAK_ETIME, "chain %llu: ETIME, %lld ns after its deadline",
				   d->sequence, (long long)(d->done_ns - item->deadline));
		break;
	case -ENODEV:
		suspect(item);
		break;
	default:
		soak_wrong(SOAK_CALLS, "chain %llu ended with %d", d->sequence, d->status);
		break;
	}
}

static void judge(struct worker *w, struct item *item)
{
	const struct rkchain_completion *d = &item->done;
	u64 wrong;

	if (!item->ended)
		return;
	if (item->late)
		soak_add(soak->late, 1);
	else
		soak_add(soak->status[-d->status < (s32)ARRAY_SIZE(soak->status) ?
				      -d->status : 0], 1);
	if (d->retries)
		soak_add(soak->retried, 1);
	if (d->retries > 1 || (d->retries && !item->job->replayable))
		soak_wrong(SOAK_RETRIES, "chain %llu, %sreplayable, was run again %u times",
			   d->sequence, item->job->replayable ? "" : "not ", d->retries);
	judge_status(w, item);
	if (!d->status) {
		judge_good(w, item);
	} else if (d->started_ns && !d->retries && (d->status == -ETIMEDOUT || d->status == -EIO)) {
		/* No more than one run, and that one right. */
		wrong = soak_job_wrong(item->job, true, &w->random);
		if (wrong)
			soak_wrong(SOAK_OUTPUTS, "chain %llu failed with %d, %llu outputs wrong",
				   d->sequence, d->status, (unsigned long long)wrong);
	}
	/* What failed on the hardware may still be running there. */
	if (d->retries || (d->status && d->started_ns))
		item->job->spoilt = true;
}

/* What FAILURES says of the round. */
static void judge_failures(struct worker *w)
{
	struct rkchain_failures failures;
	const struct rkchain_failure *f = &failures.failure;

	for (u32 i = 0; ; i++) {
		struct item *item = NULL;

		memset(&failures, 0, sizeof(failures));
		failures.index = i;
		if (rig_try(w->rk, RKCHAIN_IOCTL_FAILURES, &failures))
			return;
		for (u32 j = 0; j < w->count; j++)
			if (w->items[j].sequence == f->sequence)
				item = &w->items[j];
		if (!item || !item->ended)
			continue;
		item->failures++;
		soak_add(soak->failures, 1);
		if (!!(f->flags & RKCHAIN_FAILURE_REPLAYABLE) != item->job->replayable ||
		    item->failures > 1u + item->job->replayable ||
		    f->retries > item->done.retries || f->blocks != item->job->count ||
		    (f->status == -EAGAIN && (!item->job->replayable || f->retries)))
			soak_wrong(SOAK_RETRIES,
				   "FAILURES of %llu: status %d, error %d, flags %#x, retries %u of %u",
				   f->sequence, f->status, f->error, f->flags, f->retries,
				   item->done.retries);
		if (f->status == -ETIMEDOUT && f->age_ns < soak->hang_ns)
			soak_wrong(SOAK_TIMEDOUT, "FAILURES of %llu: it hung for %llu us",
				   f->sequence, f->age_ns / 1000);
	}
}

/* ---- rounds ---- */

/* Nothing comes twice. */
static void nothing_left(struct worker *w)
{
	struct pollfd poll_in = { .fd = w->rk, .events = POLLIN };
	struct rkchain_completion done[2 * POOL];
	struct rkchain_wait wait = {
		.first = w->items[0].sequence,
		.count = ARRAY_SIZE(done),
		.flags = RKCHAIN_WAIT_ANY,
		.completions = (uintptr_t)done,
	};

	if (w->shared || !collected(w))
		return;
	if (rig_try_wait(w->rk, &wait) != -EINVAL || poll(&poll_in, 1, 0))
		soak_wrong(SOAK_ONCE, "there is a completion left after %llu",
			   w->items[w->count - 1].done.sequence);
}

/* Goes with work under way, and comes back as somebody new. */
static void go_and_come_back(struct worker *w)
{
	soak_add(soak->slot[w->slot].abandoned, w->count);
	close(w->rk);
	forget_pool(w, soak_job_unmap);
	w->rk = rig_open();
}

static void one_round(struct worker *w)
{
	u32 batches = 1 + soak_below(&w->random, 3);
	bool bad = false;
	int ret;

	w->count = 0;
	w->by_read = w->shared ? w->by_read : soak_chance(&w->random, 40);
	ret = try_pool(w);
	while (!ret && batches--)
		ret = try_batch(w, 1 + soak_below(&w->random, 6));
	if (w->count && !w->shared && soak_chance(&w->random, 2)) {
		go_and_come_back(w);
		return;
	}
	if (w->count) {
		collect(w);
		nothing_left(w);
	}
	for (u32 i = 0; i < w->count; i++) {
		judge(w, &w->items[i]);
		bad |= w->items[i].job->spoilt;
	}
	if (bad)
		judge_failures(w);
	if (ret == -ENODEV)
		/* The driver has gone, and with it what there was. */
		forget_pool(w, soak_job_free);
	if (ret)
		rig_sleep(20);
}

static void *work(void *worker)
{
	struct worker *w = worker;

	while (!soak_get(soak->stop))
		one_round(w);
	forget_pool(w, soak_job_free);
	return NULL;
}

/* The last two slots are two threads each, with one descriptor. */
void soak_client(u32 slot, u32 seed)
{
	static struct worker workers[2];
	pthread_t thread;

	for (u32 i = 0; i < 2; i++) {
		workers[i].slot = slot;
		workers[i].random = (seed + i) * 2654435761u | 1;
		workers[i].by_read = i;
		workers[i].shared = slot >= SOAK_CLIENTS - 2;
	}
	workers[0].rk = rig_open();
	workers[1].rk = workers[0].rk;
	if (workers[0].shared)
		ASSERT_EQ(pthread_create(&thread, NULL, work, &workers[1]), 0);
	work(&workers[0]);
	if (workers[0].shared)
		pthread_join(thread, NULL);
	close(workers[0].rk);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs of a client: SUBMIT queues them, WAIT and read() collect what became of them.
 *
 * A job is one chain of one SUBMIT and at the same time its completion slot: it stays
 * until its record has been handed out.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "job.h"

/* ---- the end of jobs ---- */

static void job_free(struct job *job)
{
	if (job->batch && !--job->batch->jobs)
		kfree(job->batch);
	if (job->chain)
		chain_put(job->chain);
	if (job->client)
		client_put(job->client);
	kfree(job);
}

/* It waits no more. */
void job_unqueue(struct job *job)
{
	list_del_init(&job->queue);
	if (list_empty(&job->client->queue))
		list_del_init(&job->client->active);
}

/* There is something to be told of it. */
void job_tell(struct job *job)
{
	if (job->flags & RKCHAIN_SUBMIT_READ && list_empty(&job->readable))
		list_add_tail(&job->readable, &job->client->readable);
	job->client->turn++;
	wake_up_all(&job->client->changed);
}

/* Ends a job that is in no queue; those that depend on it are not looked at. */
void job_conclude(struct job *job, int status)
{
	job->state = JOB_ENDED;
	list_del_init(&job->live);
	if (job->deadline)
		rkchain.deadlines--;
	job->record.status = status;
	job->record.done_ns = ktime_get_ns();
	job->record.generation = rkchain.npu.generation;
	chain_put(job->chain);
	job->chain = NULL;
	if (job->batch) {
		job->batch->next = job_seq(job) + 1;
		job->batch->failed |= status != 0;
	}
	if (job->client->closed) {
		job_free(job);
		return;
	}
	job->end_due = true;
	job_tell(job);
}

/*
 * Cancels what waits for something that failed.  Followers of followers too, in one
 * pass: their numbers are higher, and so is what they come after.
 */
void job_cancel_followers(struct client *client, u64 failed)
{
	struct job *job, *next;

	list_for_each_entry_safe(job, next, &client->queue, queue)
		if ((job->flags & RKCHAIN_SUBMIT_AFTER && job->after >= failed) ||
		    (job->batch && job->batch->failed)) {
			job_unqueue(job);
			job_conclude(job, -ECANCELED);
		}
}

/* It has ended, and what waits for it to end well has if it has not. */
void job_end(struct job *job, int status)
{
	struct client *client = job->client;
	const u64 sequence = job_seq(job);

	kref_get(&client->ref);
	job_conclude(job, status);
	if (status)
		job_cancel_followers(client, sequence);
	client_put(client);
}

/* ---- SUBMIT ---- */

static int check_submit(const struct rkchain_submit *arg, struct rkc_err *err)
{
	const u32 known = RKCHAIN_SUBMIT_ORDERED | RKCHAIN_SUBMIT_AFTER | RKCHAIN_SUBMIT_READ;

	if (arg->flags & ~known)
		return refuse(err, -EINVAL, RKCHAIN_REASON_FLAGS, arg->flags, known);
	if (!arg->count || arg->count > MAX_SUBMIT)
		return refuse(err, -EINVAL, RKCHAIN_REASON_SIZE, arg->count, MAX_SUBMIT);
	if (arg->core_mask & ~RKC_CORES_ALL)
		return refuse(err, -EINVAL, RKCHAIN_REASON_CORE_MASK, arg->core_mask,
			      RKC_CORES_ALL);
	if (arg->after && !(arg->flags & RKCHAIN_SUBMIT_AFTER))
		return refuse(err, -EINVAL, RKCHAIN_REASON_RESERVED, arg->after, 0);
	if (arg->priority < RKCHAIN_PRIORITY_LOW || arg->priority > RKCHAIN_PRIORITY_HIGH)
		return refuse(err, -EINVAL, RKCHAIN_REASON_PRIORITY, (s64)arg->priority,
			      RKCHAIN_PRIORITY_HIGH);
	if (arg->priority > RKCHAIN_PRIORITY_NORMAL && !capable(CAP_SYS_NICE))
		return refuse(err, -EPERM, RKCHAIN_REASON_PRIVILEGE, arg->priority, CAP_SYS_NICE);
	return 0;
}

static void put_chains(struct chain **chains, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		chain_put(chains[i]);
}

/* Looks the chains of a SUBMIT up; the caller puts them. */
static int find_chains(struct client *client, const struct rkchain_submit *arg,
		       struct chain **chains, struct rkc_err *err)
{
	u32 *ids = memdup_user(u64_to_user_ptr(arg->chains), arg->count * sizeof(*ids));
	int ret = PTR_ERR_OR_ZERO(ids);
	u32 i;

	if (ret)
		return ret;
	for (i = 0; !ret && i < arg->count; i++) {
		chains[i] = chain_get(client, ids[i]);
		if (!chains[i]) {
			ret = refuse(err, -EINVAL, RKCHAIN_REASON_CHAIN_ID, ids[i], 0);
			err->block = i;
			put_chains(chains, i);
		}
	}
	kfree(ids);
	return ret;
}

/* Makes the jobs of a SUBMIT, in a list; the caller frees them when this fails. */
static int make_jobs(const struct rkchain_submit *arg, struct chain **chains,
		     struct list_head *jobs)
{
	struct batch *batch = NULL;
	struct job *job;
	int ret = 0;
	u32 i;

	if (arg->flags & RKCHAIN_SUBMIT_ORDERED) {
		batch = kzalloc(sizeof(*batch), GFP_KERNEL_ACCOUNT);
		if (!batch)
			ret = -ENOMEM;
	}
	for (i = 0; !ret && i < arg->count; i++) {
		job = kzalloc(sizeof(*job), GFP_KERNEL_ACCOUNT);
		if (!job) {
			ret = -ENOMEM;
			break;
		}
		INIT_LIST_HEAD(&job->live);
		INIT_LIST_HEAD(&job->readable);
		list_add_tail(&job->queue, jobs);
		if (batch) {
			job->batch = batch;
			batch->jobs++;
			batch->core = -1;
		}
		job->mask = arg->core_mask ?: RKC_CORES_ALL;
		job->flags = arg->flags;
		job->priority = arg->priority;
		job->deadline = arg->deadline_ns;
		job->after = arg->after;
		job->record.user_data = arg->user_data;
		job->record.core = RKCHAIN_NO_CORE;
		kref_get(&chains[i]->ref);
		job->chain = chains[i];
	}
	if (batch && !batch->jobs)
		kfree(batch);
	return ret;
}

static int admit(struct client *client, const struct rkchain_submit *arg,
		 struct list_head *jobs, struct rkc_err *err)
{
	const u32 mask = arg->core_mask ?: RKC_CORES_ALL;
	struct job *job;
	u32 i = 0;

	if (!rkchain.stock || rkchain.stopping)
		return refuse(err, -ENODEV, RKCHAIN_REASON_NO_PROVIDER, 0, 0);
	list_for_each_entry(job, jobs, queue) {
		if (stock_of(job->chain->bo.file) != rkchain.stock) {
			refuse(err, -ENODEV, RKCHAIN_REASON_DEVICE_GONE, 0, 0);
			err->block = i;
			return -ENODEV;
		}
		i++;
	}
	if (!(mask & rkchain.npu.rotor.usable))
		return refuse(err, -ENODEV, RKCHAIN_REASON_CORE_MASK, mask,
			      rkchain.npu.rotor.usable);
	if (arg->flags & RKCHAIN_SUBMIT_AFTER && arg->after >= client->next)
		return refuse(err, -EINVAL, RKCHAIN_REASON_SEQUENCE, arg->after,
			      client->next - 1);
	if (client->slots + arg->count > SLOTS)
		return refuse(err, -EAGAIN, RKCHAIN_REASON_QUEUE_FULL, client->slots + arg->count,
			      SLOTS);
	if (client->user->jobs + arg->count > param_quota_jobs())
		return refuse(err, -EAGAIN, RKCHAIN_REASON_QUEUE_FULL,
			      client->user->jobs + arg->count, param_quota_jobs());
	return 0;
}

/* Has something failed up to @after that nobody has been told of? */
static bool failed_before(struct client *client, u64 after)
{
	unsigned long sequence;
	struct job *job;

	xa_for_each_range(&client->jobs, sequence, job, 0, after)
		if (job->late_due || (job->state == JOB_ENDED && job->record.status))
			return true;
	return false;
}

static void enqueue(struct client *client, struct rkchain_submit *arg, struct list_head *jobs)
{
	const u64 now = ktime_get_ns();
	bool cancelled = arg->flags & RKCHAIN_SUBMIT_AFTER && failed_before(client, arg->after);
	struct job *job, *next;

	arg->first = client->next;
	client->slots += arg->count;
	client->user->jobs += arg->count;
	if (list_empty(&client->queue))
		rkc_share_wake(&client->share, rkchain.level);
	list_for_each_entry_safe(job, next, jobs, queue) {
		job->record.sequence = client->next++;
		job->record.queued_ns = now;
		/* Its place has been reserved. */
		xa_store(&client->jobs, job_seq(job), job, GFP_NOWAIT);
		kref_get(&client->ref);
		job->client = client;
		if (job->batch && !job->batch->next)
			job->batch->next = arg->first;
		list_add_tail(&job->live, &client->live);
		if (job->deadline)
			rkchain.deadlines++;
		if (cancelled) {
			list_del_init(&job->queue);
			job_conclude(job, -ECANCELED);
		} else {
			list_move_tail(&job->queue, &client->queue);
		}
	}
	if (!list_empty(&client->queue) && list_empty(&client->active))
		list_add_tail(&client->active, &rkchain.active);
	if (arg->deadline_ns)
		watch_kick();
	sched_dispatch();
}

/* Everybody waits for rkchain.lock: memory is found before it is taken. */
static int reserve(struct client *client, u32 count)
{
	int ret = 0;
	u32 i;

	for (i = 0; i < count && !ret; i++)
		ret = xa_reserve(&client->jobs, client->next + i, GFP_KERNEL_ACCOUNT);
	return ret;
}

static void unreserve(struct client *client, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		xa_release(&client->jobs, client->next + i);
}

/* @arg has been checked; the chains stay the caller's. */
static int submit(struct client *client, struct rkchain_submit *arg, struct chain **chains,
		  struct rkc_err *err)
{
	struct job *job, *next;
	LIST_HEAD(jobs);
	int ret;

	ret = make_jobs(arg, chains, &jobs);
	if (ret)
		goto out;
	mutex_lock(&client->submit);
	ret = reserve(client, arg->count);
	if (!ret) {
		mutex_lock(&rkchain.lock);
		ret = admit(client, arg, &jobs, err);
		if (!ret)
			enqueue(client, arg, &jobs);
		mutex_unlock(&rkchain.lock);
	}
	if (ret)
		unreserve(client, arg->count);
	mutex_unlock(&client->submit);
out:
	/* Empty when they have been queued. */
	list_for_each_entry_safe(job, next, &jobs, queue)
		job_free(job);
	return ret;
}

int job_submit(struct client *client, struct rkchain_submit *arg, struct rkc_err *err)
{
	struct chain **chains;
	int ret;

	ret = check_submit(arg, err);
	if (ret)
		return ret;
	chains = kmalloc_array(arg->count, sizeof(*chains), GFP_KERNEL_ACCOUNT);
	if (!chains)
		return -ENOMEM;
	ret = find_chains(client, arg, chains, err);
	if (!ret) {
		ret = submit(client, arg, chains, err);
		put_chains(chains, arg->count);
	}
	kfree(chains);
	return ret;
}

/* ---- completions ---- */

static bool due(const struct job *job)
{
	return job->late_due || job->end_due;
}

static void fill(const struct job *job, struct rkchain_completion *record)
{
	*record = job->record;
	if (job->late_due) {
		record->status = -ETIME;
		record->flags = RKCHAIN_DONE_RUNNING;
		record->done_ns = job->deadline;
	} else if (job->late) {
		record->flags = RKCHAIN_DONE_RETIRED;
	}
}

/* The record that fill() made has been handed out. */
static void handed_out(struct client *client, struct job *job)
{
	list_del_init(&job->readable);
	if (job->late_due) {
		job->late_due = false;
		if (job->end_due)
			job_tell(job);
		return;
	}
	xa_erase(&client->jobs, job_seq(job));
	client->slots--;
	client->user->jobs--;
	job_free(job);
}

/* Takes what is there for WAIT: 0 when it is not enough yet, or how many records. */
static int take(struct client *client, const struct rkchain_wait *arg,
		struct rkchain_completion *records, struct rkc_err *err)
{
	const u64 last = arg->first + min_t(u64, arg->count - 1, U64_MAX - arg->first);
	u32 present = 0, ready = 0, filled = 0;
	unsigned long sequence;
	struct job *job;

	xa_for_each_range(&client->jobs, sequence, job, arg->first, last) {
		if (job->flags & RKCHAIN_SUBMIT_READ)
			continue;
		present++;
		ready += due(job);
	}
	if (!present)
		return refuse(err, -EINVAL, RKCHAIN_REASON_SEQUENCE, arg->first,
			      client->next - 1);
	if (!ready || (ready < present && !(arg->flags & RKCHAIN_WAIT_ANY)))
		return 0;
	if (!records)
		return ready;
	xa_for_each_range(&client->jobs, sequence, job, arg->first, last)
		if (!(job->flags & RKCHAIN_SUBMIT_READ) && due(job))
			fill(job, &records[filled++]);
	return filled;
}

/* What has been copied to user space is forgotten; what could not be is kept. */
static void forget(struct client *client, const struct rkchain_completion *records, u32 count)
{
	struct job *job;
	u32 i;

	mutex_lock(&rkchain.lock);
	for (i = 0; i < count; i++) {
		job = xa_load(&client->jobs, records[i].sequence);
		if (job)
			handed_out(client, job);
	}
	mutex_unlock(&rkchain.lock);
}

/*
 * Sleeps until take() has something, or the deadline, or a signal.  Others may take
 * it first, so that the caller looks again.
 */
static int sleep_for(struct client *client, const struct rkchain_wait *arg, struct rkc_err *err)
{
	u64 now;
	u32 turn;
	int ret;

	for (;;) {
		mutex_lock(&rkchain.lock);
		ret = take(client, arg, NULL, err);
		turn = client->turn;
		mutex_unlock(&rkchain.lock);
		if (ret)
			return min(ret, 0);
		now = ktime_get_ns();
		if (arg->deadline_ns >= 0 && now >= (u64)arg->deadline_ns)
			return -ETIME;
		ret = wait_event_interruptible_hrtimeout(client->changed,
							 READ_ONCE(client->turn) != turn,
							 arg->deadline_ns < 0 ? KTIME_MAX :
							 ns_to_ktime(arg->deadline_ns - now));
		if (ret && ret != -ETIME)
			return ret;
	}
}

int job_wait(struct client *client, struct rkchain_wait *arg, struct rkc_err *err)
{
	void __user *to = u64_to_user_ptr(arg->completions);
	struct rkchain_completion *records;
	int ret;

	if (arg->flags & ~RKCHAIN_WAIT_ANY)
		return refuse(err, -EINVAL, RKCHAIN_REASON_FLAGS, arg->flags, RKCHAIN_WAIT_ANY);
	if (arg->reserved)
		return refuse(err, -EINVAL, RKCHAIN_REASON_RESERVED, arg->reserved, 0);
	if (!arg->count || arg->count > SLOTS)
		return refuse(err, -EINVAL, RKCHAIN_REASON_SIZE, arg->count, SLOTS);
	records = kvmalloc_array(arg->count, sizeof(*records), GFP_KERNEL_ACCOUNT);
	if (!records)
		return -ENOMEM;
	do {
		ret = sleep_for(client, arg, err);
		if (ret)
			break;
		/* Whoever has it may be at a page that does not come. */
		if (mutex_lock_interruptible(&client->collect)) {
			ret = -ERESTARTSYS;
			break;
		}
		mutex_lock(&rkchain.lock);
		ret = take(client, arg, records, err);
		mutex_unlock(&rkchain.lock);
		if (ret > 0) {
			if (copy_to_user(to, records, ret * sizeof(*records))) {
				ret = -EFAULT;
			} else {
				forget(client, records, ret);
				arg->done = ret;
			}
		}
		mutex_unlock(&client->collect);
	} while (!ret);
	kvfree(records);
	return min(ret, 0);
}

/**
 * job_run() - one chain on one core, from beginning to end
 * @client: one of the module's own
 * @chain: which
 * @core: where
 * @record: out, what became of it
 * @err: filled on refusal
 *
 * Return: 0, -ENODEV, -ENOMEM, -ERESTARTSYS.
 */
int job_run(struct client *client, struct chain *chain, u32 core,
	    struct rkchain_completion *record, struct rkc_err *err)
{
	struct rkchain_submit arg = { .count = 1, .core_mask = BIT(core) };
	struct rkchain_wait wait = { .count = 1, .deadline_ns = -1 };
	int ret;

	ret = submit(client, &arg, &chain, err);
	if (ret)
		return ret;
	wait.first = arg.first;
	ret = sleep_for(client, &wait, err);
	if (ret)
		return ret;
	mutex_lock(&rkchain.lock);
	take(client, &wait, record, err);
	mutex_unlock(&rkchain.lock);
	forget(client, record, 1);
	return 0;
}

/* How many records read() may take at a time. */
#define READ_RECORDS	64

ssize_t job_read(struct client *client, char __user *to, size_t size, bool block)
{
	const u32 room = min_t(size_t, size / sizeof(struct rkchain_completion), READ_RECORDS);
	struct rkchain_completion *records;
	struct job *job;
	ssize_t ret = 0;
	u32 count = 0;

	if (!room)
		return -EINVAL;
	records = kmalloc_array(room, sizeof(*records), GFP_KERNEL_ACCOUNT);
	if (!records)
		return -ENOMEM;
	while (!count && !ret) {
		if (block)
			ret = wait_event_interruptible(client->changed,
						       !list_empty_careful(&client->readable));
		if (ret)
			break;
		if (block ? mutex_lock_interruptible(&client->collect) :
			    !mutex_trylock(&client->collect)) {
			ret = block ? -ERESTARTSYS : -EAGAIN;
			break;
		}
		mutex_lock(&rkchain.lock);
		list_for_each_entry(job, &client->readable, readable) {
			if (count == room)
				break;
			fill(job, &records[count++]);
		}
		mutex_unlock(&rkchain.lock);
		if (!count)
			ret = block ? 0 : -EAGAIN;
		else if (copy_to_user(to, records, count * sizeof(*records)))
			ret = -EFAULT;
		else
			forget(client, records, count);
		mutex_unlock(&client->collect);
	}
	kfree(records);
	return ret ?: (ssize_t)(count * sizeof(*records));
}

/* A client goes: what waits is dropped, what runs is left to itself. */
void job_close(struct client *client)
{
	unsigned long sequence;
	struct job *job;

	mutex_lock(&rkchain.lock);
	client->closed = true;
	client->user->jobs -= client->slots;
	list_del_init(&client->active);
	xa_for_each(&client->jobs, sequence, job) {
		xa_erase(&client->jobs, sequence);
		list_del_init(&job->readable);
		if (job->state == JOB_RUNNING)
			continue;
		if (job->state == JOB_QUEUED) {
			list_del_init(&job->queue);
			list_del_init(&job->live);
			if (job->deadline)
				rkchain.deadlines--;
		}
		job_free(job);
	}
	if (!--rkchain.clients)
		queue_work(rkchain.workqueue, &rkchain.detach);
	mutex_unlock(&rkchain.lock);
}

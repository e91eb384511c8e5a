// SPDX-License-Identifier: GPL-2.0-only
/*
 * The watch: deadlines that pass, and chains that do not come back.
 *
 * A thread that sleeps until the next of them is due.  See core/window.h for what may
 * be done about a chain that hangs, and when.
 */
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/ktime.h>

#include "job.h"

/* ---- deadlines ---- */

static void expire_running(struct job *job)
{
	struct client *client = job->client;

	job->late = true;
	if (client->closed)
		return;
	/* Those behind it in its order have nothing to wait for. */
	if (job->batch)
		job->batch->failed = true;
	job->late_due = true;
	job_tell(job);
	job_cancel_followers(client, job_seq(job));
}

/*
 * A client's part of expire().  What follows something that ends here ends as well, so
 * that jobs are collected first.
 */
static u64 expire_client(struct client *client, u64 now)
{
	u64 next = RKC_NEVER, failed = RKC_NEVER;
	struct job *job, *other;

	kref_get(&client->ref);
	list_for_each_entry_safe(job, other, &client->queue, queue) {
		if (!job->deadline)
			continue;
		if (job->deadline > now) {
			next = min(next, job->deadline);
			continue;
		}
		failed = min(failed, job_seq(job));
		job_unqueue(job);
		job_conclude(job, -ETIME);
	}
	if (failed != RKC_NEVER)
		job_cancel_followers(client, failed);
	client_put(client);
	return next;
}

/* Ends what has passed its deadline; tells when the next one is due. */
static u64 expire(u64 now)
{
	struct client *client, *other;
	u64 next = RKC_NEVER;
	struct job *job;
	u32 i;

	if (!rkchain.deadlines)
		return next;
	list_for_each_entry_safe(client, other, &rkchain.active, active)
		next = min(next, expire_client(client, now));
	for (i = 0; i < RKC_CORES; i++) {
		job = rkchain.cores[i].job;
		if (!job || !job->deadline || job->late)
			continue;
		if (job->deadline <= now)
			expire_running(job);
		else
			next = min(next, job->deadline);
	}
	return next;
}

/* ---- chains that hang ---- */

/*
 * What hangs is woken in the midst of a reset and has to look before its end, which
 * may be microseconds away and does not give up the CPU.  So the reset is done on
 * another CPU than what waits for it slept on.
 */
static void reset_beside(struct stock_file *file, u32 hung)
{
	cpumask_var_t beside;
	u32 i;

	if (zalloc_cpumask_var(&beside, GFP_KERNEL)) {
		cpumask_copy(beside, cpu_online_mask);
		for (i = 0; i < RKC_CORES; i++)
			if (hung & BIT(i))
				cpumask_clear_cpu(task_cpu(rkchain.cores[i].thread), beside);
		if (!cpumask_empty(beside))
			set_cpus_allowed_ptr(current, beside);
		free_cpumask_var(beside);
	}
	stock_reset(file);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

/*
 * Looks after chains that are too old, and drops rkchain.lock for a reset.  Returns when
 * to look again.
 */
static u64 recover(void)
{
	const bool was = rkchain.npu.resetting;
	struct stock_file *file;
	u64 next;
	u32 hung;

	next = rkc_cores_watch(&rkchain.npu, ktime_get_ns(), param_hang_ns(),
			       rkchain.stock && rkchain.watch_file && stock_alone(rkchain.stock),
			       &hung);
	if (was && !rkchain.npu.resetting)
		sched_open_gate();
	if (!hung)
		return next;
	/* Whoever lets the driver go waits for this too. */
	file = stock_file_get(rkchain.watch_file);
	rkchain.in_reset = true;
	mutex_unlock(&rkchain.lock);
	reset_beside(file, hung);
	mutex_lock(&rkchain.lock);
	rkchain.in_reset = false;
	rkc_cores_was_reset(&rkchain.npu, ktime_get_ns());
	stock_file_put(file);
	if (!rkchain.clients)
		queue_work(rkchain.workqueue, &rkchain.detach);
	wake_up_all(&rkchain.idle);
	return rkchain.npu.again;
}

/* ---- the thread ---- */

/* Wakes it, as something is due sooner than it knows. */
void watch_kick(void)
{
	rkchain.watch_kick = true;
	wake_up(&rkchain.watch_wake);
}

static int watch(void *unused)
{
	while (!kthread_should_stop()) {
		u64 now, next;
		long pause;

		mutex_lock(&rkchain.lock);
		rkchain.watch_kick = false;
		now = ktime_get_ns();
		next = expire(now);
		next = min(next, recover());
		sched_dispatch();
		if (rkchain.npu.rotor.busy)
			/* What is at the gate has no age yet. */
			next = min(next, now + param_hang_ns());
		rkchain.watch_asleep = next == RKC_NEVER;
		mutex_unlock(&rkchain.lock);
		now = ktime_get_ns();
		pause = next == RKC_NEVER ? MAX_SCHEDULE_TIMEOUT :
			next <= now ? 1 : nsecs_to_jiffies(next - now) + 1;
		wait_event_interruptible_timeout(rkchain.watch_wake,
						 READ_ONCE(rkchain.watch_kick) ||
						 kthread_should_stop(), pause);
	}
	return 0;
}

int watch_init(void)
{
	init_waitqueue_head(&rkchain.watch_wake);
	return sched_run_thread(&rkchain.watch, watch, NULL, "rkchain/watch");
}

void watch_exit(void)
{
	if (rkchain.watch)
		kthread_stop(rkchain.watch);
}

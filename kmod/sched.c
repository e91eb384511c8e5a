// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cores: who gets which chain, and the threads that run them.
 *
 * A thread per core submits one chain at a time and waits for it.  Which core takes
 * which chain is decided in sched_dispatch(), whenever a chain is queued or a core comes
 * free.  What may be given to the driver, and when, is decided in gate() alone.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "job.h"

/* How long to wait for other programs' IOMMU domain to go away. */
#define DOMAIN_TRIES	100
#define DOMAIN_PAUSE_MS	10
/* A suspend waits as long as a submit can last. */
#define SUSPEND_WAIT_MS	(4 * RKC_STOCK_TIMEOUT_MS)

/* Ends every waiting job that @core_mask leaves no core; all of them if it is 0. */
static void end_impossible(u32 core_mask)
{
	struct client *client;
	struct job *job;

again:
	list_for_each_entry(client, &rkchain.active, active)
		list_for_each_entry(job, &client->queue, queue)
			if (!(job->mask & core_mask)) {
				job_unqueue(job);
				job_end(job, -ENODEV);
				goto again;
			}
}

/* ---- rotation ---- */

/* Cores that a job may go to now. */
static u32 cores_for(const struct job *job)
{
	const u32 free = rkc_rotor_free(&rkchain.npu.rotor) & job->mask;
	const struct batch *batch = job->batch;

	if (job->chain->running)
		return 0;
	if (job->flags & RKCHAIN_SUBMIT_AFTER &&
	    job_seq(list_first_entry(&job->client->live, struct job, live)) <= job->after)
		return 0;
	if (!batch)
		return free;
	if (batch->running || batch->next != job_seq(job))
		return 0;
	/* The order holds elsewhere as well, if its core has been lost. */
	if (batch->core >= 0 && rkchain.npu.rotor.usable & BIT(batch->core))
		return free & BIT(batch->core);
	return free;
}

static struct job *first_for_a_core(struct client *client)
{
	struct job *job;

	list_for_each_entry(job, &client->queue, queue)
		if (cores_for(job))
			return job;
	return NULL;
}

static void start(struct job *job)
{
	struct client *client = job->client;
	const int id = rkc_cores_take(&rkchain.npu, cores_for(job), job->chain->estimate_ns);
	struct core *core = &rkchain.cores[id];

	job_unqueue(job);
	if (!list_empty(&client->active))
		list_move_tail(&client->active, &rkchain.active);
	rkchain.level = max(rkchain.level, client->share.had);
	rkc_share_charge(&client->share, job->chain->estimate_ns, job->priority);
	job->state = JOB_RUNNING;
	job->record.core = id;
	job->record.started_ns = ktime_get_ns();
	job->chain->running = true;
	if (job->batch) {
		job->batch->running = true;
		job->batch->core = id;
	}
	core->job = job;
	wake_up(&core->wake);
	if (rkchain.watch_asleep)
		watch_kick();
}

/* Gives work to idle cores, to the client first that has had the least. */
void sched_dispatch(void)
{
	struct client *client;
	struct job *best, *job;

	lockdep_assert_held(&rkchain.lock);
	while (!rkchain.stopping && !rkchain.suspended) {
		if (!rkc_rotor_free(&rkchain.npu.rotor))
			return;
		best = NULL;
		list_for_each_entry(client, &rkchain.active, active) {
			if (best && client->share.had >= best->client->share.had)
				continue;
			job = first_for_a_core(client);
			if (job)
				best = job;
		}
		if (!best)
			return;
		start(best);
	}
}

/* ---- a core's thread ---- */

/* Something has happened that whoever waits at the gate has to look at. */
void sched_open_gate(void)
{
	rkchain.gate_turn++;
	wake_up_all(&rkchain.gate);
}

/*
 * Waits until the driver may be given a submit, and from then on counts it as given.
 */
static int gate(struct core *core)
{
	u64 now, opens;
	u32 turn;

	for (;;) {
		mutex_lock(&rkchain.lock);
		now = ktime_get_ns();
		opens = rkc_cores_opens(&rkchain.npu, core->id, now);
		turn = rkchain.gate_turn;
		if (rkchain.stopping) {
			mutex_unlock(&rkchain.lock);
			return -ENODEV;
		}
		if (!opens) {
			rkc_cores_submit(&rkchain.npu, core->id, now);
			mutex_unlock(&rkchain.lock);
			return 0;
		}
		mutex_unlock(&rkchain.lock);
		wait_event_interruptible_timeout(rkchain.gate,
						 READ_ONCE(rkchain.gate_turn) != turn,
						 opens == RKC_NEVER ? MAX_SCHEDULE_TIMEOUT :
						 nsecs_to_jiffies(opens - now) + 1);
	}
}

/* Programs run in domain 0 alone; the driver would let us wait for ever in another. */
static int await_domain(struct core *core)
{
	u32 i;

	for (i = 0; i < DOMAIN_TRIES; i++) {
		if (!stock_domain(core->file))
			return 0;
		msleep(DOMAIN_PAUSE_MS);
	}
	return -EIO;
}

/* The domain, then the gate; and the domain again, as the gate may have taken long. */
static int pass(struct core *core)
{
	int ret;

	for (;;) {
		ret = await_domain(core) ?: gate(core);
		if (ret || !stock_domain(core->file))
			return ret;
		mutex_lock(&rkchain.lock);
		rkc_cores_recall(&rkchain.npu, core->id);
		sched_open_gate();
		mutex_unlock(&rkchain.lock);
	}
}

/**
 * struct outcome - how a run ended
 * @end: for the core
 * @hw_ns: time on the NPU
 * @failure: what is known, when a submit failed
 */
struct outcome {
	struct rkc_run_end end;
	u64 hw_ns;
	struct failure *failure;
};

/* Notes what is known of a submit that failed; NULL when there is no memory for it. */
static struct failure *note(const struct job *job, const struct rkc_return *back, u32 mode)
{
	const struct chain *chain = job->chain;
	struct failure *failure = failure_new(chain);
	struct rkchain_failure *info;

	if (!failure)
		return NULL;
	info = failure_info(failure);
	info->sequence = job_seq(job);
	info->user_data = job->record.user_data;
	info->error = back->error;
	info->flags = (back->committed ? RKCHAIN_FAILURE_COMMITTED : 0) |
		      (back->hung ? RKCHAIN_FAILURE_HUNG : 0) |
		      (back->replayable ? RKCHAIN_FAILURE_REPLAYABLE : 0);
	info->core = back->core;
	info->mode = mode;
	info->retries = back->retries;
	info->started_ns = job->record.started_ns;
	info->age_ns = back->age_ns;
	return failure;
}

/* Is a core perhaps still fetching the program?  Then it stays as it is. */
static bool quarantined(const struct chain *chain)
{
	bool any = false;
	u32 i;

	mutex_lock(&rkchain.lock);
	for (i = 0; i < RKC_CORES; i++)
		any |= !list_empty(&chain->quarantine[i]);
	mutex_unlock(&rkchain.lock);
	return any;
}

/* The mode of a run: the one in force, or that of a program that must not change. */
static u32 mode_of_run(const struct chain *chain, bool held)
{
	if (held && (!chain->checked.aliases || mode_ordered(chain->emitted)))
		return chain->emitted;
	return chain_mode(chain);
}

static void run(struct core *core, struct job *job, struct outcome *out)
{
	struct chain *chain = job->chain;
	const bool held = quarantined(chain);
	const u32 mode = mode_of_run(chain, held);
	struct stock_run run = { .bo = &chain->bo, .core = core->id };
	struct rkc_return back = {
		.replayable = chain->checked.replayable,
		.retries = job->record.retries,
		.committed = true,
	};
	u32 submits, i;

	if (chain->emitted != mode)
		back.error = held ? -EIO : chain_emit(chain, core->file, mode);
	if (!back.error)
		back.error = chain_clean(chain, core->file);
	submits = mode == RKC_SINGLE ? chain->count : 1;
	run.number = mode == RKC_LINK ? chain->count : 1;
	for (i = 0; !back.error && i < submits; i++) {
		run.start = i;
		back.error = pass(core);
		if (back.error)
			break;
		back.error = stock_submit(core->file, &run);
		back.committed = run.committed;
		mutex_lock(&rkchain.lock);
		out->end.verdict = rkc_cores_back(&rkchain.npu, core->id, ktime_get_ns(), &back);
		sched_open_gate();
		if (rkchain.npu.resetting)
			watch_kick();
		mutex_unlock(&rkchain.lock);
		out->end.failed = back.error;
	}
	if (out->end.failed)
		out->failure = note(job, &back, mode);
	if (!back.error)
		back.error = chain_invalidate(chain, core->file);
	if (!out->end.failed)
		out->end.verdict = rkc_judge(&back);
	out->end.trial = chain->trial;
	out->hw_ns = run.hw_ns;
}

/* A core may still be running what failed on it, until it has run something else. */
static void quarantine(struct core *core, struct chain *chain)
{
	if (!list_empty(&chain->quarantine[core->id]))
		return;
	kref_get(&chain->ref);
	list_add(&chain->quarantine[core->id], &core->quarantine);
	/* The memory is not to be given back by unloading the module. */
	__module_get(THIS_MODULE);
}

static void release_quarantine(struct core *core)
{
	struct chain *chain, *next;

	list_for_each_entry_safe(chain, next, &core->quarantine, quarantine[core->id]) {
		list_del_init(&chain->quarantine[core->id]);
		chain_put(chain);
		module_put(THIS_MODULE);
	}
}

/* Back to where it stood in its client's queue. */
static void requeue(struct job *job)
{
	struct client *client = job->client;
	struct job *other;

	job->state = JOB_QUEUED;
	if (list_empty(&client->active))
		list_add_tail(&client->active, &rkchain.active);
	list_for_each_entry(other, &client->queue, queue)
		if (job_seq(other) > job_seq(job))
			break;
	list_add_tail(&job->queue, &other->queue);
}

static void finish(struct core *core, struct job *job, struct outcome *out)
{
	static const int status[] = {
		[RKC_FATE_DONE] = 0,
		[RKC_FATE_HUNG] = -ETIMEDOUT,
		[RKC_FATE_AGAIN] = -EIO,	/* it cannot be */
		[RKC_FATE_HIT] = -EIO,
		[RKC_FATE_GONE] = -ENODEV,
	};
	const u64 took = ktime_get_ns() - job->record.started_ns;
	const u64 used = out->end.failed || !out->hw_ns ? took : out->hw_ns;
	const enum rkc_fate fate = out->end.verdict.fate;
	struct client *client = job->client;
	struct chain *chain = job->chain;
	bool again;

	chain->running = false;
	if (job->batch)
		job->batch->running = false;
	job->record.hw_ns += out->hw_ns;
	/* Whoever keeps a core for longer than he should pays for it. */
	if (used > chain->estimate_ns)
		rkc_share_charge(&client->share, used - chain->estimate_ns, job->priority);

	core->busy_ns += took;
	if (out->end.failed) {
		core->failures++;
		quarantine(core, chain);
	} else if (fate == RKC_FATE_DONE) {
		release_quarantine(core);
		core->chains++;
		core->blocks += chain->count;
	}
	core->job = NULL;
	if (rkc_cores_finish(&rkchain.npu, core->id, &out->end, param_strikes()))
		end_impossible(rkchain.npu.rotor.usable);

	again = fate == RKC_FATE_AGAIN && !client->closed && !job->late && !rkchain.stopping &&
		job->mask & rkchain.npu.rotor.usable;
	if (out->failure) {
		struct rkchain_failure *info = failure_info(out->failure);

		info->status = again ? -EAGAIN : status[fate];
		info->generation = rkchain.npu.generation;
		if (rkchain.npu.poisoned & BIT(core->id))
			info->flags |= RKCHAIN_FAILURE_POISONED;
		failure_keep(out->failure, client);
	}
	if (again) {
		job->record.retries++;
		requeue(job);
	} else {
		job_end(job, status[fate]);
	}
	if (!rkchain.clients)
		queue_work(rkchain.workqueue, &rkchain.detach);
	wake_up_all(&rkchain.idle);
}

static int work(void *data)
{
	struct core *core = data;
	struct outcome out;
	struct job *job;

	/*
	 * An idle core must not wait for a CPU that programs compute on; and what a
	 * reset wakes has to look at once, as the driver takes its word back.
	 */
	sched_set_fifo_low(current);
	for (;;) {
		wait_event_interruptible(core->wake,
					 READ_ONCE(core->job) || kthread_should_stop());
		mutex_lock(&rkchain.lock);
		job = core->job;
		mutex_unlock(&rkchain.lock);
		if (!job) {
			if (kthread_should_stop())
				return 0;
			continue;
		}
		memset(&out, 0, sizeof(out));
		run(core, job, &out);
		mutex_lock(&rkchain.lock);
		finish(core, job, &out);
		sched_dispatch();
		mutex_unlock(&rkchain.lock);
	}
}

/* ---- coming and going ---- */

/* Opens the files that the cores' threads and the watch work with. */
int sched_attach(struct stock *stock)
{
	struct stock_file *files[RKC_CORES + 1] = { NULL };
	int ret = 0;
	u32 i;

	mutex_lock(&rkchain.files_lock);
	if (rkchain.watch_file)
		goto out;
	for (i = 0; i < ARRAY_SIZE(files); i++) {
		files[i] = stock_open(stock);
		if (IS_ERR(files[i])) {
			ret = PTR_ERR(files[i]);
			while (i--)
				stock_file_put(files[i]);
			goto out;
		}
	}
	mutex_lock(&rkchain.lock);
	for (i = 0; i < RKC_CORES; i++)
		rkchain.cores[i].file = files[i];
	rkchain.watch_file = files[RKC_CORES];
	mutex_unlock(&rkchain.lock);
out:
	mutex_unlock(&rkchain.files_lock);
	return ret;
}

/* Does a core or the watch work with the driver? */
static bool in_use(void)
{
	return READ_ONCE(rkchain.npu.rotor.busy) || READ_ONCE(rkchain.in_reset);
}

static void detach(bool only_unused)
{
	struct stock_file *files[RKC_CORES + 1] = { NULL };
	u32 i;

	mutex_lock(&rkchain.files_lock);
	mutex_lock(&rkchain.lock);
	if (!only_unused || (!rkchain.clients && !in_use())) {
		for (i = 0; i < RKC_CORES; i++)
			swap(files[i], rkchain.cores[i].file);
		swap(files[RKC_CORES], rkchain.watch_file);
	}
	mutex_unlock(&rkchain.lock);
	for (i = 0; i < ARRAY_SIZE(files); i++)
		stock_file_put(files[i]);
	mutex_unlock(&rkchain.files_lock);
}

static void detach_work(struct work_struct *work)
{
	detach(true);
}

/* Lets go of the driver's files; no core is busy. */
void sched_detach(void)
{
	detach(false);
}

/**
 * sched_stop() - end all work, as the driver is about to go
 * @gone: for good: what cores may have been running can no longer be
 *
 * Waits for what runs.  Nothing is accepted until sched_resume().
 */
void sched_stop(bool gone)
{
	u32 i;

	mutex_lock(&rkchain.lock);
	rkchain.stopping = true;
	end_impossible(0);
	sched_open_gate();
	mutex_unlock(&rkchain.lock);
	wait_event(rkchain.idle, !in_use());
	mutex_lock(&rkchain.lock);
	for (i = 0; gone && i < RKC_CORES; i++)
		release_quarantine(&rkchain.cores[i]);
	mutex_unlock(&rkchain.lock);
}

void sched_resume(void)
{
	mutex_lock(&rkchain.lock);
	rkchain.stopping = false;
	sched_dispatch();
	mutex_unlock(&rkchain.lock);
}

/* Is there something that a core may still be running? */
bool sched_quarantined(void)
{
	bool any = false;
	u32 i;

	mutex_lock(&rkchain.lock);
	for (i = 0; i < RKC_CORES; i++)
		any |= !list_empty(&rkchain.cores[i].quarantine);
	mutex_unlock(&rkchain.lock);
	return any;
}

/* Before the system sleeps: waits for what runs, and starts nothing more. */
int sched_suspend(void)
{
	mutex_lock(&rkchain.lock);
	rkchain.suspended = true;
	mutex_unlock(&rkchain.lock);
	if (wait_event_timeout(rkchain.idle, !in_use(),
			       msecs_to_jiffies(SUSPEND_WAIT_MS)))
		return 0;
	sched_wake();
	return -EBUSY;
}

void sched_wake(void)
{
	mutex_lock(&rkchain.lock);
	rkchain.suspended = false;
	sched_dispatch();
	mutex_unlock(&rkchain.lock);
}

/* Brings a core back that has been set aside. */
int sched_enable(struct core *core)
{
	bool usable;

	mutex_lock(&rkchain.lock);
	usable = rkc_cores_enable(&rkchain.npu, core->id);
	if (usable)
		sched_dispatch();
	mutex_unlock(&rkchain.lock);
	return usable ? 0 : -EBUSY;
}

/* Takes cores out that have been found to compute nothing right. */
void sched_set_aside(u32 mask)
{
	mutex_lock(&rkchain.lock);
	rkc_cores_set_aside(&rkchain.npu, mask);
	end_impossible(rkchain.npu.rotor.usable);
	mutex_unlock(&rkchain.lock);
}

/* Starts one of the module's threads. */
int sched_run_thread(struct task_struct **thread, int (*function)(void *), void *data,
		     const char *name)
{
	struct task_struct *task = kthread_run(function, data, "%s", name);

	if (IS_ERR(task))
		return PTR_ERR(task);
	*thread = task;
	return 0;
}

int sched_init(void)
{
	static const char * const names[RKC_CORES] = { "rkchain/0", "rkchain/1", "rkchain/2" };
	int ret = 0;
	u32 i;

	INIT_LIST_HEAD(&rkchain.active);
	init_waitqueue_head(&rkchain.gate);
	init_waitqueue_head(&rkchain.idle);
	INIT_WORK(&rkchain.detach, detach_work);
	rkc_cores_init(&rkchain.npu, 0);
	rkchain.workqueue = alloc_workqueue("rkchain", WQ_UNBOUND, 0);
	if (!rkchain.workqueue)
		return -ENOMEM;
	for (i = 0; i < RKC_CORES; i++) {
		struct core *core = &rkchain.cores[i];

		core->id = i;
		init_waitqueue_head(&core->wake);
		INIT_LIST_HEAD(&core->quarantine);
	}
	for (i = 0; !ret && i < RKC_CORES; i++)
		ret = sched_run_thread(&rkchain.cores[i].thread, work, &rkchain.cores[i],
				       names[i]);
	if (!ret)
		ret = watch_init();
	if (ret)
		sched_exit();
	return ret;
}

void sched_exit(void)
{
	u32 i;

	watch_exit();
	for (i = 0; i < RKC_CORES; i++)
		if (rkchain.cores[i].thread)
			kthread_stop(rkchain.cores[i].thread);
	destroy_workqueue(rkchain.workqueue);
}

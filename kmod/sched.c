// SPDX-License-Identifier: GPL-2.0-only
/*
 * Jobs, cores, deadlines, and what happens when the NPU does not come back.
 *
 * A thread per core submits one chain at a time and waits for it.  Which core takes
 * which chain is decided in dispatch(), whenever a chain is queued or a core comes
 * free.  A further thread watches: deadlines, and chains that are too old.
 *
 * What may be given to the driver, and when, is decided in gate() alone.
 */
#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

/* How long to wait for other programs' IOMMU domain to go away. */
#define DOMAIN_TRIES	100
#define DOMAIN_PAUSE_MS	10
/* A suspend waits as long as a submit can last. */
#define SUSPEND_WAIT_MS	(4 * RKC_STOCK_TIMEOUT_MS)
/* How often to look whether a hung chain may be reset by now. */
#define ALONE_AGAIN_NS	100000000ULL

#define NEVER		U64_MAX

enum job_state {
	JOB_QUEUED,
	JOB_RUNNING,
	JOB_ENDED,
};

/* Chains of one ORDERED submit. */
struct batch {
	u32 jobs;		/* that refer to it */
	int core;		/* where the first one went, -1 = nowhere yet */
	bool running;
	bool failed;
	u64 next;		/* sequence number of the one whose turn it is */
};

/**
 * struct job - one chain of one SUBMIT; also its completion slot
 * @queue: in client.queue while it waits
 * @live: in client.live until it has ended
 * @readable: in client.readable while read() has something to fetch
 * @client: counted
 * @chain: counted, until it has ended
 * @batch: of an ORDERED submit
 * @state: where it is
 * @late_due: the deadline has passed while it ran, and nobody has been told
 * @end_due: it has ended, and nobody has been told
 * @late: the deadline has passed while it ran
 * @mask: cores that it may go to
 * @flags: RKCHAIN_SUBMIT_*
 * @priority: RKCHAIN_PRIORITY_*
 * @deadline: ns, 0 for none
 * @after: with RKCHAIN_SUBMIT_AFTER, the sequence number to wait for
 * @record: what is told
 */
struct job {
	struct list_head queue;
	struct list_head live;
	struct list_head readable;
	struct client *client;
	struct chain *chain;
	struct batch *batch;
	enum job_state state;
	bool late_due;
	bool end_due;
	bool late;
	u32 mask;
	u32 flags;
	s32 priority;
	u64 deadline;
	u64 after;
	struct rkchain_completion record;
};

static u64 seq_of(const struct job *job)
{
	return job->record.sequence;
}

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

static void unqueue(struct job *job)
{
	list_del_init(&job->queue);
	if (list_empty(&job->client->queue))
		list_del_init(&job->client->active);
}

static void tell(struct job *job)
{
	if (job->flags & RKCHAIN_SUBMIT_READ && list_empty(&job->readable))
		list_add_tail(&job->readable, &job->client->readable);
	job->client->turn++;
	wake_up_all(&job->client->changed);
}

/* Ends a job that is in no queue; those that depend on it are not looked at. */
static void conclude(struct job *job, int status)
{
	job->state = JOB_ENDED;
	list_del_init(&job->live);
	if (job->deadline)
		rkchain.deadlines--;
	job->record.status = status;
	job->record.done_ns = ktime_get_ns();
	job->record.generation = rkchain.generation;
	chain_put(job->chain);
	job->chain = NULL;
	if (job->batch) {
		job->batch->next = seq_of(job) + 1;
		job->batch->failed |= status != 0;
	}
	if (job->client->closed) {
		job_free(job);
		return;
	}
	job->end_due = true;
	tell(job);
}

/*
 * Cancels what waits for something that failed.  Followers of followers too, in one
 * pass: their numbers are higher, and so is what they come after.
 */
static void cancel_followers(struct client *client, u64 failed)
{
	struct job *job, *next;

	list_for_each_entry_safe(job, next, &client->queue, queue)
		if ((job->flags & RKCHAIN_SUBMIT_AFTER && job->after >= failed) ||
		    (job->batch && job->batch->failed)) {
			unqueue(job);
			conclude(job, -ECANCELED);
		}
}

static void end(struct job *job, int status)
{
	struct client *client = job->client;
	const u64 sequence = seq_of(job);

	kref_get(&client->ref);
	conclude(job, status);
	if (status)
		cancel_followers(client, sequence);
	client_put(client);
}

/* Ends every waiting job that @core_mask leaves no core; all of them if it is 0. */
static void end_impossible(u32 core_mask)
{
	struct client *client;
	struct job *job;

again:
	list_for_each_entry(client, &rkchain.active, active)
		list_for_each_entry(job, &client->queue, queue)
			if (!(job->mask & core_mask)) {
				unqueue(job);
				end(job, -ENODEV);
				goto again;
			}
}

/* ---- rotation ---- */

/* Cores that a job may go to now. */
static u32 cores_for(const struct job *job)
{
	const u32 free = rkchain.rotor.usable & ~rkchain.rotor.busy & job->mask;
	const struct batch *batch = job->batch;

	if (job->chain->running)
		return 0;
	if (job->flags & RKCHAIN_SUBMIT_AFTER &&
	    seq_of(list_first_entry(&job->client->live, struct job, live)) <= job->after)
		return 0;
	if (!batch)
		return free;
	if (batch->running || batch->next != seq_of(job))
		return 0;
	/* The order holds elsewhere as well, if its core has been lost. */
	if (batch->core >= 0 && rkchain.rotor.usable & BIT(batch->core))
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

static void kick_watch(void)
{
	rkchain.watch_kick = true;
	wake_up(&rkchain.watch_wake);
}

static void start(struct job *job)
{
	struct client *client = job->client;
	const int id = rkc_rotor_take(&rkchain.rotor, cores_for(job));
	struct core *core = &rkchain.cores[id];

	unqueue(job);
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
		kick_watch();
}

/* Gives work to idle cores, to the client first that has had the least. */
static void dispatch(void)
{
	struct client *client;
	struct job *best, *job;

	lockdep_assert_held(&rkchain.lock);
	while (!rkchain.stopping && !rkchain.suspended) {
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

static void open_gate(void)
{
	rkchain.gate_turn++;
	wake_up_all(&rkchain.gate);
}

/* When @core may submit: 0 now, NEVER when something has to happen first. */
static u64 gate_opens(const struct core *core, u64 now)
{
	u64 estimate = core->job->chain->estimate_ns;
	u64 oldest = NEVER;
	u32 i;

	if (rkchain.resetting)
		return NEVER;
	for (i = 0; i < RKC_CORES; i++) {
		const struct core *other = &rkchain.cores[i];

		if (!other->submitted)
			continue;
		oldest = min(oldest, other->submitted);
		estimate = max(estimate, other->job->chain->estimate_ns);
	}
	return oldest == NEVER ? 0 : rkc_window_opens(oldest, now, estimate);
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
		opens = gate_opens(core, now);
		turn = rkchain.gate_turn;
		if (rkchain.stopping) {
			mutex_unlock(&rkchain.lock);
			return -ENODEV;
		}
		if (!opens) {
			core->submitted = now;
			core->hung = false;
			mutex_unlock(&rkchain.lock);
			return 0;
		}
		mutex_unlock(&rkchain.lock);
		wait_event_interruptible_timeout(rkchain.gate,
						 READ_ONCE(rkchain.gate_turn) != turn,
						 opens == NEVER ? MAX_SCHEDULE_TIMEOUT :
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

/**
 * struct outcome - how a run ended
 * @verdict: of the submit that ended it
 * @hw_ns: time on the NPU
 * @failed: a submit failed, so that the NPU may still be busy with it
 */
struct outcome {
	struct rkc_verdict verdict;
	u64 hw_ns;
	bool failed;
};

static void run(struct core *core, struct job *job, struct outcome *out)
{
	struct chain *chain = job->chain;
	const u32 mode = chain_mode(chain);
	struct stock_run run = { .bo = &chain->bo, .core = core->id };
	struct rkc_return back = {
		.replayable = chain->checked.replayable,
		.retries = job->record.retries,
		.core = core->id,
		.committed = true,
	};
	u32 submits, i;

	if (chain->emitted != mode)
		back.error = chain_emit(chain, core->file, mode);
	if (!back.error)
		back.error = chain_clean(chain, core->file);
	submits = mode == RKC_SINGLE ? chain->count : 1;
	run.number = mode == RKC_LINK ? chain->count : 1;
	for (i = 0; !back.error && i < submits; i++) {
		run.start = i;
		back.error = await_domain(core) ?: gate(core);
		if (back.error)
			break;
		back.error = stock_submit(core->file, &run);
		mutex_lock(&rkchain.lock);
		back.age_ns = ktime_get_ns() - core->submitted;
		back.hung = core->hung;
		back.committed = run.committed;
		core->submitted = 0;
		open_gate();
		mutex_unlock(&rkchain.lock);
		out->failed = back.error;
	}
	if (!back.error)
		back.error = chain_invalidate(chain, core->file);
	out->verdict = rkc_judge(&back);
	out->hw_ns = run.hw_ns;
	/* Nothing but a submit says anything about a core. */
	if (!out->failed)
		out->verdict.poisoned = false;
}

static void lose_core(struct core *core, u32 *why)
{
	*why |= BIT(core->id);
	rkchain.rotor.usable &= ~BIT(core->id);
	end_impossible(rkchain.rotor.usable);
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
		if (seq_of(other) > seq_of(job))
			break;
	list_add_tail(&job->queue, &other->queue);
}

static void finish(struct core *core, struct job *job, const struct outcome *out)
{
	static const int status[] = {
		[RKC_FATE_DONE] = 0,
		[RKC_FATE_HUNG] = -ETIMEDOUT,
		[RKC_FATE_HIT] = -EIO,
		[RKC_FATE_GONE] = -ENODEV,
	};
	const u64 took = ktime_get_ns() - job->record.started_ns;
	const struct rkc_verdict *verdict = &out->verdict;
	struct client *client = job->client;
	struct chain *chain = job->chain;

	chain->running = false;
	if (job->batch)
		job->batch->running = false;
	job->record.hw_ns += out->hw_ns;
	/* Whoever keeps a core for longer than he should pays for it. */
	if (took > chain->estimate_ns)
		rkc_share_charge(&client->share, took - chain->estimate_ns, job->priority);

	core->busy_ns += took;
	if (out->failed) {
		core->failures++;
		quarantine(core, chain);
		/* Its own time-out, or the reset that took it down. */
		if (!core->hung)
			rkchain.generation++;
	} else if (verdict->fate == RKC_FATE_DONE) {
		release_quarantine(core);
		core->strikes = 0;
		core->chains++;
		core->blocks += chain->count;
	}
	core->job = NULL;
	core->hung = false;
	rkc_rotor_release(&rkchain.rotor, core->id);
	if (verdict->poisoned)
		lose_core(core, &rkchain.poisoned);
	else if (verdict->strike && ++core->strikes >= param_strikes())
		lose_core(core, &rkchain.aside);

	if (verdict->fate == RKC_FATE_AGAIN && !client->closed && !job->late &&
	    !rkchain.stopping && job->mask & rkchain.rotor.usable) {
		job->record.retries++;
		requeue(job);
	} else {
		end(job, verdict->fate == RKC_FATE_AGAIN ? -EIO : status[verdict->fate]);
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
		dispatch();
		mutex_unlock(&rkchain.lock);
	}
}

/* ---- the watch ---- */

static void expire_running(struct job *job)
{
	struct client *client = job->client;

	job->late = true;
	if (client->closed)
		return;
	job->late_due = true;
	tell(job);
	cancel_followers(client, seq_of(job));
}

/* Ends what has passed its deadline; tells when the next one is due. */
static u64 expire(u64 now)
{
	struct client *client;
	u64 next = NEVER;
	struct job *job;
	u32 i;

	if (!rkchain.deadlines)
		return next;
again:
	list_for_each_entry(client, &rkchain.active, active)
		list_for_each_entry(job, &client->queue, queue) {
			if (!job->deadline)
				continue;
			if (job->deadline <= now) {
				unqueue(job);
				end(job, -ETIME);
				goto again;
			}
			next = min(next, job->deadline);
		}
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

/*
 * Looks after chains that are too old.  Alone on the NPU: nothing more is given to
 * the driver, the other cores come back, and then the NPU is reset until what hangs
 * has come back too.  Not alone: a reset could free what another program's job
 * waits for, so only the driver's own time-out remains.
 *
 * Drops rkchain.lock for a reset.  Returns when to look again.
 */
static u64 recover(u64 now, u64 *again)
{
	const u64 hang = param_hang_ns();
	u32 hung = 0, young = 0, i;
	u64 next = NEVER;

	for (i = 0; i < RKC_CORES; i++) {
		const struct core *core = &rkchain.cores[i];

		if (!core->submitted)
			continue;
		if (now - core->submitted >= hang) {
			hung |= BIT(i);
		} else {
			young |= BIT(i);
			next = min(next, core->submitted + hang);
		}
	}
	if (!hung || !rkchain.stock || !rkchain.watch_file || !stock_alone(rkchain.stock)) {
		if (rkchain.resetting) {
			rkchain.resetting = false;
			open_gate();
		}
		return hung ? min(next, now + ALONE_AGAIN_NS) : next;
	}
	if (!rkchain.resetting) {
		rkchain.resetting = true;
		*again = now;
	}
	if (young)
		return next;
	if (now >= *again) {
		for (i = 0; i < RKC_CORES; i++)
			if (hung & BIT(i))
				rkchain.cores[i].hung = true;
		rkchain.generation++;
		mutex_unlock(&rkchain.lock);
		stock_reset(rkchain.watch_file);
		mutex_lock(&rkchain.lock);
		*again = ktime_get_ns() + RKC_RESET_AGAIN_NS;
	}
	return *again;
}

static int watch(void *unused)
{
	u64 again = 0;

	while (!kthread_should_stop()) {
		u64 now, next;
		long pause;

		mutex_lock(&rkchain.lock);
		rkchain.watch_kick = false;
		now = ktime_get_ns();
		next = expire(now);
		next = min(next, recover(now, &again));
		dispatch();
		if (rkchain.rotor.busy)
			/* What is at the gate has no age yet. */
			next = min(next, now + param_hang_ns());
		rkchain.watch_asleep = next == NEVER;
		mutex_unlock(&rkchain.lock);
		now = ktime_get_ns();
		pause = next == NEVER ? MAX_SCHEDULE_TIMEOUT :
			next <= now ? 1 : nsecs_to_jiffies(next - now) + 1;
		wait_event_interruptible_timeout(rkchain.watch_wake,
						 READ_ONCE(rkchain.watch_kick) ||
						 kthread_should_stop(), pause);
	}
	return 0;
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

/* Makes the jobs of a SUBMIT, in a list; the caller frees them when this fails. */
static int make_jobs(struct client *client, const struct rkchain_submit *arg,
		     struct list_head *jobs, struct rkc_err *err)
{
	struct batch *batch = NULL;
	struct job *job;
	int ret = 0;
	u32 *ids, i;

	ids = memdup_user(u64_to_user_ptr(arg->chains), arg->count * sizeof(*ids));
	if (IS_ERR(ids))
		return PTR_ERR(ids);
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
		job->chain = chain_get(client, ids[i]);
		if (!job->chain) {
			ret = refuse(err, -EINVAL, RKCHAIN_REASON_CHAIN_ID, ids[i], 0);
			err->block = i;
		}
	}
	if (batch && !batch->jobs)
		kfree(batch);
	kfree(ids);
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
	if (!(mask & rkchain.rotor.usable))
		return refuse(err, -ENODEV, RKCHAIN_REASON_CORE_MASK, mask,
			      rkchain.rotor.usable);
	if (arg->flags & RKCHAIN_SUBMIT_AFTER && arg->after >= client->next)
		return refuse(err, -EINVAL, RKCHAIN_REASON_SEQUENCE, arg->after,
			      client->next - 1);
	if (client->slots + arg->count > SLOTS)
		return refuse(err, -EAGAIN, RKCHAIN_REASON_QUEUE_FULL, client->slots + arg->count,
			      SLOTS);
	return 0;
}

/* Has something failed up to @after that nobody has been told of? */
static bool failed_before(struct client *client, u64 after)
{
	unsigned long sequence;
	struct job *job;

	xa_for_each_range(&client->jobs, sequence, job, 0, after)
		if (job->late || (job->state == JOB_ENDED && job->record.status))
			return true;
	return false;
}

static int enqueue(struct client *client, struct rkchain_submit *arg, struct list_head *jobs)
{
	const u64 first = client->next;
	const u64 now = ktime_get_ns();
	bool cancelled = arg->flags & RKCHAIN_SUBMIT_AFTER && failed_before(client, arg->after);
	struct job *job, *next;
	u64 sequence = first;
	int ret;

	list_for_each_entry(job, jobs, queue) {
		job->record.sequence = sequence;
		job->record.queued_ns = now;
		ret = xa_insert(&client->jobs, sequence, job, GFP_KERNEL_ACCOUNT);
		if (ret) {
			while (sequence-- > first)
				xa_erase(&client->jobs, sequence);
			return ret;
		}
		sequence++;
	}
	client->next = sequence;
	client->slots += arg->count;
	arg->first = first;
	if (list_empty(&client->queue))
		rkc_share_wake(&client->share, rkchain.level);
	list_for_each_entry_safe(job, next, jobs, queue) {
		kref_get(&client->ref);
		job->client = client;
		if (job->batch && !job->batch->next)
			job->batch->next = first;
		list_add_tail(&job->live, &client->live);
		if (job->deadline)
			rkchain.deadlines++;
		if (cancelled) {
			list_del_init(&job->queue);
			conclude(job, -ECANCELED);
		} else {
			list_move_tail(&job->queue, &client->queue);
		}
	}
	if (!list_empty(&client->queue) && list_empty(&client->active))
		list_add_tail(&client->active, &rkchain.active);
	if (arg->deadline_ns)
		kick_watch();
	dispatch();
	return 0;
}

int sched_submit(struct client *client, struct rkchain_submit *arg, struct rkc_err *err)
{
	struct job *job, *next;
	LIST_HEAD(jobs);
	int ret;

	ret = check_submit(arg, err);
	if (!ret)
		ret = make_jobs(client, arg, &jobs, err);
	if (!ret) {
		mutex_lock(&rkchain.lock);
		ret = admit(client, arg, &jobs, err) ?: enqueue(client, arg, &jobs);
		mutex_unlock(&rkchain.lock);
	}
	/* Empty when they have been queued. */
	list_for_each_entry_safe(job, next, &jobs, queue)
		job_free(job);
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
			tell(job);
		return;
	}
	xa_erase(&client->jobs, seq_of(job));
	client->slots--;
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

int sched_wait(struct client *client, struct rkchain_wait *arg, struct rkc_err *err)
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
		mutex_lock(&client->collect);
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

/* How many records read() may take at a time. */
#define READ_RECORDS	64

ssize_t sched_read(struct client *client, char __user *to, size_t size, bool block)
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
		mutex_lock(&client->collect);
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

/* ---- coming and going ---- */

/* A client goes: what waits is dropped, what runs is left to itself. */
void sched_close(struct client *client)
{
	unsigned long sequence;
	struct job *job;

	mutex_lock(&rkchain.lock);
	client->closed = true;
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

static void detach(bool only_unused)
{
	struct stock_file *files[RKC_CORES + 1] = { NULL };
	u32 i;

	mutex_lock(&rkchain.files_lock);
	mutex_lock(&rkchain.lock);
	if (!only_unused || (!rkchain.clients && !rkchain.rotor.busy)) {
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
	open_gate();
	mutex_unlock(&rkchain.lock);
	wait_event(rkchain.idle, !READ_ONCE(rkchain.rotor.busy));
	mutex_lock(&rkchain.lock);
	for (i = 0; gone && i < RKC_CORES; i++)
		release_quarantine(&rkchain.cores[i]);
	mutex_unlock(&rkchain.lock);
}

void sched_resume(void)
{
	mutex_lock(&rkchain.lock);
	rkchain.stopping = false;
	dispatch();
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
	if (wait_event_timeout(rkchain.idle, !READ_ONCE(rkchain.rotor.busy),
			       msecs_to_jiffies(SUSPEND_WAIT_MS)))
		return 0;
	sched_wake();
	return -EBUSY;
}

void sched_wake(void)
{
	mutex_lock(&rkchain.lock);
	rkchain.suspended = false;
	dispatch();
	mutex_unlock(&rkchain.lock);
}

/* Brings a core back that has been set aside. */
int sched_enable(struct core *core)
{
	int ret = 0;

	mutex_lock(&rkchain.lock);
	if (rkchain.poisoned & BIT(core->id)) {
		ret = -EBUSY;
	} else {
		rkchain.aside &= ~BIT(core->id);
		rkchain.rotor.usable |= BIT(core->id);
		core->strikes = 0;
		dispatch();
	}
	mutex_unlock(&rkchain.lock);
	return ret;
}

static int run_thread(struct task_struct **thread, int (*function)(void *), void *data,
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
	init_waitqueue_head(&rkchain.watch_wake);
	INIT_WORK(&rkchain.detach, detach_work);
	rkc_rotor_init(&rkchain.rotor, RKC_CORES_ALL);
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
		ret = run_thread(&rkchain.cores[i].thread, work, &rkchain.cores[i],
				 names[i]);
	if (!ret)
		ret = run_thread(&rkchain.watch, watch, NULL, "rkchain/watch");
	if (ret)
		sched_exit();
	return ret;
}

void sched_exit(void)
{
	u32 i;

	if (rkchain.watch)
		kthread_stop(rkchain.watch);
	for (i = 0; i < RKC_CORES; i++)
		if (rkchain.cores[i].thread)
			kthread_stop(rkchain.cores[i].thread);
	destroy_workqueue(rkchain.workqueue);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * SUBMIT, interrupts and reset: a queue per core, one job of it committed.
 *
 * Bugs that are played here, all of them the stock driver's:
 * - a blocking job that gives up before it was committed stays in the queue of
 *   core 1 or 2 though it is freed: here a tombstone, and the next submit to that
 *   core springs the trap;
 * - during a reset every submit gives up at once, so that one submit is enough;
 * - a job that a reset takes down may miss the wake-up, time out and cause a
 *   second reset;
 * - an unexpected interrupt and then a time-out, and the core dispatches no more;
 * - a reset that finds another one under way does nothing.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "standin.h"

#define ROUNDS		3
#define ALL_INTERRUPTS	0x1ffff
#define TASK_COUNTER	0xfff

/* Registers of a core's window. */
#define OP_ENABLE	0x08
#define DATA_ADDR	0x10
#define DATA_AMOUNT	0x14
#define INT_MASK	0x20
#define INT_CLEAR	0x24
#define INT_STATUS	0x28
#define TASK_CON	0x30
#define TASK_BASE_ADDR	0x34
#define TASK_STATUS	0x3c

struct job {
	struct list_head node;
	struct work_struct work;	/* frees one that nobody waits for */
	struct core *core;
	struct standin_object *object;
	struct rknpu_task *first;
	struct rknpu_task *last;
	u32 flags;
	u32 number;
	u32 base;
	u32 int_mask;
	u64 commit_ns;
	s64 elapsed_ns;
	u32 int_status;
	bool committed;
	bool odd;	/* an interrupt with another status than the one it waits for */
	bool down;	/* taken down by a reset */
	bool woken;	/* and its waiter sees it */
	bool done;
	bool tombstone;
};

static struct workqueue_struct *queue;

static void free_job(struct job *job)
{
	drm_gem_object_put(&job->object->base);
	kfree(job);
}

static void free_work(struct work_struct *work)
{
	free_job(container_of(work, struct job, work));
}

/* ---- under standin_lock ---- */

static struct standin_core_stats *stats(struct core *core)
{
	return &standin_stats.core[core->id];
}

static void commit(struct core *core, struct job *job)
{
	void __iomem *w = core->window;
	u32 pingpong = job->flags & RKNPU_JOB_PINGPONG ? 1 : 0;

	writel(1, w + DATA_ADDR);
	writel(0xe + (core->id << 28), w + 0x1004);
	writel(0xe + (core->id << 28), w + 0x3004);
	writel(lower_32_bits(job->first->regcmd_addr), w + DATA_ADDR);
	writel((job->first->regcfg_amount + 4 + 1) / 2 - 1, w + DATA_AMOUNT);
	job->int_mask = job->last->int_mask;
	writel(job->int_mask, w + INT_MASK);
	writel(job->first->int_mask, w + INT_CLEAR);
	writel((6 | pingpong) << 12 | job->number, w + TASK_CON);
	writel(job->base, w + TASK_BASE_ADDR);
	job->commit_ns = ktime_get_ns();
	job->committed = true;
	writel(1, w + OP_ENABLE);
	writel(0, w + OP_ENABLE);
}

static void dispatch(struct standin *s, struct core *core)
{
	struct job *job, *next = NULL;

	if (s->gone || s->resetting || core->running || core->dead)
		return;
	list_for_each_entry(job, &core->queue, node) {
		if (!job->tombstone && !job->woken) {
			next = job;
			break;
		}
		standin_stats.freed_dispatch += job->tombstone;
	}
	if (!next)
		return;
	list_del_init(&next->node);
	core->running = next;
	stats(core)->queued--;
	stats(core)->running = 1;
	stats(core)->dispatches++;
	commit(core, next);
	standin_log(EVENT_DISPATCH, core->id, next->number);
}

/* The job leaves the core, and is nobody's if nobody waits for it. */
static void retire(struct core *core, struct job *job)
{
	core->running = NULL;
	core->tasks -= job->number;
	stats(core)->running = 0;
	if (job->flags & RKNPU_JOB_NONBLOCK)
		queue_work(queue, &job->work);
}

/* The waiter has had enough: what SUBMIT returns. */
static int give_up(struct standin *s, struct core *core, struct job *job)
{
	if (!job->committed) {
		stats(core)->queued--;
		if (core->id && !s->gone) {
			job->tombstone = true;
			stats(core)->tombstones++;
		} else {
			list_del_init(&job->node);
			core->tasks -= job->number;
		}
		return -EINVAL;
	}
	if (core->running == job) {
		retire(core, job);
		if (job->odd && !job->woken) {
			core->dead = true;
			stats(core)->dead = 1;
		}
	}
	return job->woken ? -EINVAL : -ETIMEDOUT;
}

static struct core *choose(struct standin *s)
{
	struct core *best = &s->core[0];
	u32 i;

	for (i = 1; i < CORES; i++)
		if (s->core[i].tasks < best->tasks)
			best = &s->core[i];
	return best;
}

/* ---- interrupts ---- */

static u32 widen(u32 status)
{
	u32 pair, wide = 0;

	for (pair = 0x3; pair & 0xfff; pair <<= 2)
		if (status & pair)
			wide |= pair;
	return wide | (status & ~0xfffU);
}

irqreturn_t standin_interrupt(struct standin *s, struct core *core)
{
	struct job *job;
	u32 status;

	spin_lock(&standin_lock);
	if (s->gone)
		goto out;
	job = core->running;
	status = readl(core->window + INT_STATUS);
	/*
	 * What a reset takes down raises no interrupt any more, but the hardware
	 * that is played knows no reset.  As long as it has not taken a commit, it
	 * is at an older one.
	 */
	if (job && !standin_knobs.no_reset &&
	    (job->down || readl(core->window + TASK_BASE_ADDR) == job->base))
		job = NULL;
	writel(ALL_INTERRUPTS, core->window + INT_CLEAR);
	if (!job) {
		standin_stats.stale++;
		goto out;
	}
	job->int_status = status;
	if (widen(status) != job->int_mask) {
		job->odd = true;
		pr_info_once("core %u: status %#x, expected %#x\n", core->id, status,
			     job->int_mask);
		goto out;
	}
	job->elapsed_ns = ktime_get_ns() - job->commit_ns;
	job->done = true;
	stats(core)->done++;
	standin_log(EVENT_DONE, core->id, job->elapsed_ns);
	retire(core, job);
	dispatch(s, core);
	wake_up(&core->wait);
out:
	spin_unlock(&standin_lock);
	return IRQ_HANDLED;
}

/* ---- reset ---- */

static void take_down(struct standin *s)
{
	u32 i;

	spin_lock_irq(&standin_lock);
	s->resetting = true;
	standin_stats.resets++;
	standin_log(EVENT_RESET, 0, standin_stats.resets);
	for (i = 0; i < CORES; i++)
		if (s->core[i].running) {
			s->core[i].running->down = true;
			s->core[i].running->int_status = 0;
		}
	spin_unlock_irq(&standin_lock);
}

static void wake(struct core *core)
{
	struct job *job = core->running;
	u32 every = standin_knobs.miss_wakeup;

	if (job) {
		standin_stats.bystanders++;
		if (every && standin_stats.bystanders % every == 0) {
			/* It goes on to wait, and the core waits for it. */
			standin_stats.missed++;
		} else {
			job->woken = true;
			retire(core, job);
		}
	}
	if (standin_knobs.wake_queued)
		list_for_each_entry(job, &core->queue, node)
			if (!(job->flags & RKNPU_JOB_NONBLOCK))
				job->woken = true;
	wake_up(&core->wait);
}

/* Takes down all that is committed, in a window of reset_ms. */
void standin_reset(struct standin *s)
{
	u32 ms = READ_ONCE(standin_knobs.reset_ms);
	u32 i;

	if (!mutex_trylock(&s->reset_lock))
		return;
	take_down(s);
	msleep(ms - ms / 4);

	spin_lock_irq(&standin_lock);
	standin_log(EVENT_WAKE, 0, standin_stats.resets);
	for (i = 0; i < CORES; i++)
		wake(&s->core[i]);
	spin_unlock_irq(&standin_lock);
	msleep(ms / 4);

	spin_lock_irq(&standin_lock);
	s->resetting = false;
	standin_log(EVENT_RESET_END, 0, standin_stats.resets);
	for (i = 0; i < CORES; i++)
		dispatch(s, &s->core[i]);
	spin_unlock_irq(&standin_lock);
	mutex_unlock(&s->reset_lock);
}

/* ---- SUBMIT ---- */

/*
 * Where the stock driver follows whatever it is given.  An automatic choice is
 * made later: all that it may choose has to be good.
 */
static bool tasks_ok(const struct rknpu_submit *args, const struct standin_object *object)
{
	u64 tasks = object->base.size / sizeof(struct rknpu_task);
	u32 i;

	if (!(object->flags & RKNPU_MEM_KERNEL_MAPPING) || !object->cpu)
		return false;
	for (i = 0; i < CORES; i++) {
		const struct rknpu_subcore_task *t = &args->subcore_task[i];

		if (args->core_mask && !(args->core_mask & BIT(i)))
			continue;
		if (!t->task_number || (u64)t->task_start + t->task_number > tasks)
			return false;
	}
	return true;
}

static struct job *new_job(const struct rknpu_submit *args)
{
	struct job *job;
	u32 i;

	if (args->core_mask == 7)
		for (i = 2; i < 2 + CORES; i++)
			if (!args->subcore_task[i].task_number)
				goto oops;
	/* Several cores per job are not played. */
	if (hweight32(args->core_mask) > 1)
		return ERR_PTR(-EINVAL);

	job = kzalloc(sizeof(*job), GFP_KERNEL);
	if (!job)
		return ERR_PTR(-ENOMEM);
	job->object = standin_object_get(args->task_obj_addr);
	if (!job->object || !tasks_ok(args, job->object)) {
		if (job->object)
			drm_gem_object_put(&job->object->base);
		kfree(job);
		goto oops;
	}
	INIT_LIST_HEAD(&job->node);
	INIT_WORK(&job->work, free_work);
	job->flags = args->flags;
	job->base = lower_32_bits(args->task_base_addr);
	return job;

oops:
	standin_count(&standin_stats.oops);
	return ERR_PTR(-EFAULT);
}

/* False when the driver is unbound. */
static bool enqueue(struct standin *s, struct job *job, const struct rknpu_submit *args)
{
	struct rknpu_task *tasks = job->object->cpu;
	const struct rknpu_subcore_task *t;
	struct core *core;
	bool ok;

	spin_lock_irq(&standin_lock);
	ok = !s->gone;
	if (!ok)
		goto out;
	core = args->core_mask ? &s->core[ffs(args->core_mask) - 1] : choose(s);
	t = &args->subcore_task[core->id];
	job->core = core;
	job->number = t->task_number;
	job->first = &tasks[t->task_start];
	job->last = &tasks[t->task_start + t->task_number - 1];

	stats(core)->submits++;
	standin_stats.last_submit_ns = ktime_get_ns();
	standin_stats.in_window += s->resetting;
	standin_log(EVENT_SUBMIT, core->id, s->resetting);
	if (stats(core)->tombstones) {
		standin_stats.trap++;
		if (standin_trap_log)
			pr_err("list_add corruption\n");
	}
	list_add_tail(&job->node, &core->queue);
	core->tasks += job->number;
	stats(core)->queued++;
	job->woken = s->resetting && !(job->flags & RKNPU_JOB_NONBLOCK);
	dispatch(s, core);
out:
	spin_unlock_irq(&standin_lock);
	return ok;
}

static bool settled(struct job *job)
{
	bool settled;

	spin_lock_irq(&standin_lock);
	settled = job->done || job->woken;
	spin_unlock_irq(&standin_lock);
	return settled;
}

/* True when another round is due: not committed, or only a short time ago. */
static bool patient(struct job *job, u32 timeout)
{
	bool patient;

	spin_lock_irq(&standin_lock);
	patient = !job->committed ||
		  ktime_get_ns() - job->commit_ns < (u64)timeout * NSEC_PER_MSEC;
	spin_unlock_irq(&standin_lock);
	return patient;
}

static int wait(struct standin *s, struct job *job, struct rknpu_submit *args)
{
	struct core *core = job->core;
	u32 round = 0;
	int ret = 0;

	while (!wait_event_timeout(core->wait, settled(job), msecs_to_jiffies(args->timeout)))
		if (++round == ROUNDS || !patient(job, args->timeout))
			break;

	spin_lock_irq(&standin_lock);
	args->task_counter = args->task_number;
	args->hw_elapse_time = job->elapsed_ns;
	if (!job->done) {
		args->task_counter = 0;
		if (job->committed && !s->gone)
			args->task_counter = readl(core->window + TASK_STATUS) & TASK_COUNTER;
		ret = give_up(s, core, job);
		standin_log(EVENT_GIVE_UP, core->id, ret);
		standin_stats.time_outs += ret == -ETIMEDOUT;
	}
	if (job->committed)
		job->last->int_status = job->int_status;
	spin_unlock_irq(&standin_lock);

	if (ret == -ETIMEDOUT)
		standin_reset(s);
	return ret;
}

int standin_submit(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct standin *s = to_standin(drm);
	struct rknpu_submit *args = data;
	struct job *job;
	int ret;

	standin_enter(drm);
	if (!args->task_number || args->core_mask > 7 || !(args->flags & RKNPU_JOB_PC))
		return -EINVAL;
	/* Built without fences, as most are. */
	if (args->flags & (RKNPU_JOB_FENCE_IN | RKNPU_JOB_FENCE_OUT))
		return -EINVAL;
	job = new_job(args);
	if (IS_ERR(job))
		return PTR_ERR(job);
	if (!enqueue(s, job, args)) {
		free_job(job);
		return -ENODEV;
	}
	if (args->flags & RKNPU_JOB_NONBLOCK)
		return 0;
	ret = wait(s, job, args);
	/* A tombstone is nobody's until the driver is unbound, its tasks less so. */
	if (!job->tombstone) {
		free_job(job);
	} else {
		drm_gem_object_put(&job->object->base);
		job->object = NULL;
	}
	return ret;
}

/* ---- coming and going ---- */

void standin_jobs_add(struct standin *s)
{
	u32 i;

	for (i = 0; i < CORES; i++) {
		s->core[i].id = i;
		init_waitqueue_head(&s->core[i].wait);
		INIT_LIST_HEAD(&s->core[i].queue);
	}
}

static void forget(struct core *core, struct job *job)
{
	list_del_init(&job->node);
	stats(core)->queued--;
	queue_work(queue, &job->work);
}

/* Whoever waits goes on to wait until its time is over. */
void standin_jobs_remove(struct standin *s)
{
	struct job *job, *next;
	struct core *core;
	LIST_HEAD(free);
	u32 i;

	spin_lock_irq(&standin_lock);
	s->gone = true;
	for (i = 0; i < CORES; i++) {
		core = &s->core[i];
		if (core->running)
			retire(core, core->running);
		list_for_each_entry_safe(job, next, &core->queue, node) {
			if (job->tombstone)
				list_move(&job->node, &free);
			else if (job->flags & RKNPU_JOB_NONBLOCK)
				forget(core, job);
		}
		stats(core)->tombstones = 0;
		stats(core)->dead = 0;
	}
	spin_unlock_irq(&standin_lock);

	list_for_each_entry_safe(job, next, &free, node)
		kfree(job);
	flush_workqueue(queue);
}

int standin_jobs_init(void)
{
	queue = alloc_workqueue("rknpu_standin", WQ_UNBOUND, 0);
	return queue ? 0 : -ENOMEM;
}

void standin_jobs_exit(void)
{
	destroy_workqueue(queue);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The self-test: chains whose results are known, one mode and core after the other, as
 * jobs of a client of the module's own among those of the others.
 *
 * See core/trial.h for the chains, and for what their results mean; core/course.h for
 * what comes after what.
 */
#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "core/course.h"
#include "internal.h"

/* How often to look whether an output comes after all. */
#define LOOK_AGAIN_MS	5
/* What has been closed stays open for a moment. */
#define ALONE_TRIES	25
#define ALONE_PAUSE_MS	20

/* One self-test at a time. */
static DEFINE_MUTEX(selftest_lock);

/* Makes buffer and chain of a trial. */
static struct chain *prepare(struct client *client, const struct rkc_step *step,
			     struct rkc_err *err)
{
	struct buffer *buffer;
	struct chain *chain;

	down_read(&rkchain.driver_sem);
	buffer = buffer_internal(client, rkc_trial_bytes(&step->trial), err);
	if (IS_ERR(buffer)) {
		up_read(&rkchain.driver_sem);
		return ERR_CAST(buffer);
	}
	rkc_trial_fill(&step->trial, buffer->bo.vaddr);
	chain = chain_of_trial(client, buffer, &step->trial, step->mode, err);
	/* The chain holds it. */
	buffer_put(buffer);
	up_read(&rkchain.driver_sem);
	return chain;
}

/* A block whose output is not there; RKC_NO_WORD for none; -ENODEV without a driver. */
static int look(const struct rkc_trial *trial, const struct chain *chain,
		struct stock_file *again, u32 *wrong)
{
	const struct buffer *buffer = chain->uses[0].buffer;
	int ret = -ENODEV;

	down_read(&rkchain.driver_sem);
	if (buffer_alive(buffer)) {
		ret = again ? chain_invalidate(chain, again) : 0;
		*wrong = rkc_trial_wrong(trial, buffer->bo.vaddr);
	}
	up_read(&rkchain.driver_sem);
	return ret;
}

/* Outputs that were not there may still come. */
static int look_later(struct client *client, const struct rkc_step *step,
		      const struct chain *chain, u32 *wrong)
{
	u64 ms = div_u64(step->late_ns, NSEC_PER_MSEC);
	int ret = 0;

	while (!ret && *wrong != RKC_NO_WORD && ms > 0) {
		if (msleep_interruptible(LOOK_AGAIN_MS))
			return -ERESTARTSYS;
		ret = look(&step->trial, chain, client->file, wrong);
		ms -= min_t(u64, ms, LOOK_AGAIN_MS);
	}
	return ret;
}

/* Runs a trial.  What is wrong with its outputs is not an error. */
static int try_step(struct client *client, const struct rkc_step *step,
		    struct rkc_tried *tried, struct rkc_err *err)
{
	struct chain *chain = prepare(client, step, err);
	struct rkchain_completion record;
	int ret;

	memset(tried, 0, sizeof(*tried));
	if (IS_ERR(chain))
		return PTR_ERR(chain);
	ret = job_run(client, chain, step->core, &record, err);
	if (!ret) {
		tried->status = record.status;
		tried->hw_ns = record.hw_ns;
		ret = look(&step->trial, chain, NULL, &tried->at_once);
	}
	tried->later = tried->at_once;
	if (!ret && !tried->status)
		ret = look_later(client, step, chain, &tried->later);
	chain_put(chain);
	/* The core has been lost meanwhile; the others are there. */
	if (ret == -ENODEV && err->reason == RKCHAIN_REASON_CORE_MASK) {
		tried->status = ret;
		ret = 0;
	}
	return ret;
}

/* From beginning to end. */
static int run_course(struct rkc_course *course, struct rkc_err *err)
{
	struct client *client = client_new();
	struct rkc_tried tried;
	struct rkc_step step;
	int ret = 0;

	if (IS_ERR(client))
		return PTR_ERR(client);
	while (!ret && rkc_course_next(course, READ_ONCE(rkchain.npu.rotor.usable), &step)) {
		ret = try_step(client, &step, &tried, err);
		if (!ret)
			rkc_course_tell(course, &tried);
		else if (ret == -E2BIG && rkc_course_shorten(course))
			ret = 0;
	}
	client_close(client);
	return ret;
}

/* Results in ascending order of mode and core, of what was asked for. */
static void hand_out(const struct rkc_course *course, struct rkchain_selftest_result *to)
{
	u32 mode, core;

	for (mode = 0; mode < RKC_MODES; mode++) {
		for (core = 0; core < RKC_CORES; core++) {
			const struct rkc_course_result *from = &course->results[mode][core];

			if (!(course->modes & BIT(mode)) || !(course->cores & BIT(core)))
				continue;
			*to++ = (struct rkchain_selftest_result){
				.mode = mode,
				.core = core,
				.verdict = course->table.verdict[mode][core],
				.status = from->status,
				.blocks = from->blocks,
				.block = from->block,
				.hw_ns = from->hw_ns,
				.expected_ns = from->expected_ns,
			};
		}
	}
}

/*
 * All of @modes on all of @cores.  Hands out results, if there is room for them, and
 * what they amount to.
 */
static int run(u32 modes, u32 cores, bool brief, struct rkchain_selftest_result *results,
	       struct rkc_trial_summary *summary, struct rkc_err *err)
{
	struct rkc_course *course = kmalloc(sizeof(*course), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!course)
		return -ENOMEM;
	rkc_course_begin(course, modes, cores, brief, ktime_get_ns());
	ret = run_course(course, err);
	if (!ret) {
		rkc_trial_summarise(&course->table, summary);
		if (results)
			hand_out(course, results);
	}
	kfree(course);
	if (ret)
		return ret;
	mode_learn(summary, !brief);
	if (summary->failed) {
		pr_notice("rkchain: cores %#x compute nothing right and are set aside\n",
			  summary->failed);
		sched_set_aside(summary->failed);
	}
	return 0;
}

/* Does nobody else have the NPU open? */
static bool alone(void)
{
	bool yes = false;
	u32 i;

	for (i = 0; i < ALONE_TRIES && !yes; i++) {
		if (i && msleep_interruptible(ALONE_PAUSE_MS))
			break;
		down_read(&rkchain.driver_sem);
		yes = !rkchain.stock || stock_alone(rkchain.stock);
		up_read(&rkchain.driver_sem);
	}
	return yes;
}

static int check(const struct rkchain_selftest *arg, u32 modes, u32 cores, struct rkc_err *err)
{
	const u32 known = RKCHAIN_SELFTEST_SHORT | RKCHAIN_SELFTEST_SHARED;
	const u32 want = hweight32(modes) * hweight32(cores);
	int ret = 0;

	if (!capable(CAP_SYS_ADMIN))
		return refuse(err, -EPERM, RKCHAIN_REASON_PRIVILEGE, 0, CAP_SYS_ADMIN);
	if (arg->flags & ~known)
		return refuse(err, -EINVAL, RKCHAIN_REASON_FLAGS, arg->flags, known);
	if (modes >> RKC_MODES)
		return refuse(err, -EINVAL, RKCHAIN_REASON_MODES, modes, BIT(RKC_MODES) - 1);
	if (cores & ~RKC_CORES_ALL)
		return refuse(err, -EINVAL, RKCHAIN_REASON_CORE_MASK, cores, RKC_CORES_ALL);
	if (arg->count < want)
		return refuse(err, -EINVAL, RKCHAIN_REASON_SIZE, arg->count, want);
	down_read(&rkchain.driver_sem);
	if (!rkchain.stock)
		ret = refuse(err, -ENODEV, RKCHAIN_REASON_NO_PROVIDER, 0, 0);
	up_read(&rkchain.driver_sem);
	if (!ret && !(arg->flags & RKCHAIN_SELFTEST_SHARED) && !alone())
		ret = refuse(err, -EBUSY, RKCHAIN_REASON_NOT_ALONE, 0, 0);
	return ret;
}

/**
 * selftest() - SELFTEST
 * @arg: of the caller
 * @err: filled on refusal
 *
 * Return: 0, -EPERM, -EINVAL, -ENODEV, -EBUSY, -ENOMEM, -EFAULT, -EINTR.
 */
int selftest(struct rkchain_selftest *arg, struct rkc_err *err)
{
	const u32 modes = arg->modes ?: BIT(RKC_MODES) - 1;
	const u32 cores = arg->cores ?: RKC_CORES_ALL;
	struct rkchain_selftest_result *results;
	struct rkc_trial_summary summary = { 0 };
	const u32 count = hweight32(modes) * hweight32(cores);
	int ret = check(arg, modes, cores, err);

	if (ret)
		return ret;
	results = kcalloc(count, sizeof(*results), GFP_KERNEL_ACCOUNT);
	if (!results)
		return -ENOMEM;
	ret = mutex_lock_interruptible(&selftest_lock);
	if (!ret) {
		ret = run(modes, cores, arg->flags & RKCHAIN_SELFTEST_SHORT, results, &summary,
			  err);
		mutex_unlock(&selftest_lock);
	}
	/* To begin again is not what somebody wants who has interrupted it. */
	if (ret == -ERESTARTSYS)
		ret = -EINTR;
	if (!ret && copy_to_user(u64_to_user_ptr(arg->results), results,
				 count * sizeof(*results)))
		ret = -EFAULT;
	kfree(results);
	arg->count = ret ? 0 : count;
	arg->mode = mode_in_force();
	arg->mode_source = mode_source();
	arg->proven = mode_proven();
	arg->cores_failed = summary.failed;
	return ret;
}

/* The short test of PROVIDE: what it cannot find out stays unknown. */
void selftest_provide(void)
{
	struct rkc_trial_summary summary;
	struct rkc_err err = { 0 };

	mutex_lock(&selftest_lock);
	run(BIT(RKC_LINK) | BIT(RKC_SINGLE), RKC_CORES_ALL, true, NULL, &summary, &err);
	mutex_unlock(&selftest_lock);
}

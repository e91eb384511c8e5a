// SPDX-License-Identifier: GPL-2.0-only
/*
 * The self-test: chains whose results are known, one mode and core after the other, as
 * jobs of a client of the module's own among those of the others.
 *
 * See core/trial.h for the chains, and for what their results mean.
 */
#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

/* How often to look whether an output comes after all, and how much longer than that. */
#define LOOK_AGAIN_MS	5
#define LATE_MS		100
/* What has been closed stays open for a moment. */
#define ALONE_TRIES	25
#define ALONE_PAUSE_MS	20

/* One self-test at a time. */
static DEFINE_MUTEX(selftest_lock);

/**
 * struct bench - what a self-test works with
 * @client: of the module's own
 * @brief: of PROVIDE: whatever takes long is left out
 * @blocks: of the long chain
 * @expected_ns: how long they take one by one; 0 where that is not known
 * @salt: no two trials have the same results
 * @err: filled on refusal
 */
struct bench {
	struct client *client;
	bool brief;
	u32 blocks;
	u64 expected_ns;
	u32 salt;
	struct rkc_err *err;
};

/* What became of one trial. */
struct tried {
	struct rkchain_completion record;
	u32 at_once;	/* a block that was wrong when completion was signalled */
	u32 later;	/* and some time after it; RKC_NO_WORD for none */
};

/* Makes buffer and chain of a trial. */
static struct chain *prepare(struct bench *bench, const struct rkc_trial *trial, u32 mode)
{
	struct buffer *buffer;
	struct chain *chain;

	down_read(&rkchain.driver_sem);
	buffer = buffer_internal(bench->client, rkc_trial_bytes(trial), bench->err);
	if (IS_ERR(buffer)) {
		up_read(&rkchain.driver_sem);
		return ERR_CAST(buffer);
	}
	rkc_trial_fill(trial, buffer->bo.vaddr);
	chain = chain_of_trial(bench->client, buffer, trial, mode, bench->err);
	/* The chain holds it. */
	buffer_put(buffer);
	up_read(&rkchain.driver_sem);
	return chain;
}

/* A block whose output is not there; RKC_NO_WORD for none; -ENODEV without a driver. */
static int look(struct bench *bench, const struct rkc_trial *trial, const struct chain *chain,
		bool again, u32 *wrong)
{
	const struct buffer *buffer = chain->uses[0].buffer;
	int ret = -ENODEV;

	down_read(&rkchain.driver_sem);
	if (buffer_alive(buffer)) {
		ret = again ? chain_invalidate(chain, bench->client->file) : 0;
		*wrong = rkc_trial_wrong(trial, buffer->bo.vaddr);
	}
	up_read(&rkchain.driver_sem);
	return ret;
}

/* Outputs that were not there may still come. */
static int look_later(struct bench *bench, const struct rkc_trial *trial,
		      const struct chain *chain, u32 *wrong)
{
	u64 ms = LATE_MS + div_u64(2 * bench->expected_ns, NSEC_PER_MSEC);
	int ret = 0;

	while (!ret && *wrong != RKC_NO_WORD && ms > 0) {
		if (msleep_interruptible(LOOK_AGAIN_MS))
			return -ERESTARTSYS;
		ret = look(bench, trial, chain, true, wrong);
		ms -= min_t(u64, ms, LOOK_AGAIN_MS);
	}
	return ret;
}

/* Runs a trial once.  What is wrong with its outputs is not an error. */
static int try_once(struct bench *bench, u32 kind, u32 mode, u32 core, struct tried *tried)
{
	const struct rkc_trial trial = {
		.kind = kind,
		.count = kind == RKC_TRIAL_LONG ? bench->blocks :
			 kind == RKC_TRIAL_ORDER ? RKC_TRIAL_ORDER_BLOCKS :
			 RKC_TRIAL_SMALL_BLOCKS,
		.salt = bench->salt++,
	};
	struct chain *chain = prepare(bench, &trial, mode);
	int ret;

	memset(tried, 0, sizeof(*tried));
	if (IS_ERR(chain))
		return PTR_ERR(chain);
	ret = job_run(bench->client, chain, core, &tried->record, bench->err);
	if (!ret)
		ret = look(bench, &trial, chain, false, &tried->at_once);
	tried->later = tried->at_once;
	if (!ret && !tried->record.status)
		ret = look_later(bench, &trial, chain, &tried->later);
	chain_put(chain);
	return ret;
}

/* The same, and again if it hung: a dispatch can be lost for no reason of its own. */
static int try_chain(struct bench *bench, u32 kind, u32 mode, u32 core, struct tried *tried)
{
	const int ret = try_once(bench, kind, mode, core, tried);

	if (ret || bench->brief || tried->record.status != -ETIMEDOUT)
		return ret;
	return try_once(bench, kind, mode, core, tried);
}

static bool usable(u32 core)
{
	return READ_ONCE(rkchain.npu.rotor.usable) & BIT(core);
}

/*
 * Makes the chain longer until what is behind its first block takes long enough, one by
 * one, as that is what is most likely to work.
 */
static int find_length(struct bench *bench, u32 cores)
{
	struct tried tried;
	u32 core, blocks;
	int ret;

	bench->blocks = RKC_TRIAL_FIRST_BLOCKS;
	for (core = 0; core < RKC_CORES; core++) {
		if (!(cores & BIT(core)))
			continue;
		while (usable(core)) {
			ret = try_chain(bench, RKC_TRIAL_LONG, RKC_SINGLE, core, &tried);
			/* None may be longer than that. */
			if (ret == -E2BIG && bench->expected_ns) {
				bench->blocks = (bench->blocks - 1) / 2 + 1;
				return 0;
			}
			if (ret)
				return ret;
			if (tried.record.status)
				break;
			bench->expected_ns = tried.record.hw_ns;
			if (bench->expected_ns >= RKC_TRIAL_NS)
				return 0;
			blocks = 2 * (bench->blocks - 1) + 1;
			if (blocks > RKC_TRIAL_MOST_BLOCKS)
				return 0;
			bench->blocks = blocks;
		}
	}
	return 0;
}

static int judge(struct bench *bench, u32 kind, struct rkchain_selftest_result *result)
{
	struct rkc_trial_seen seen = { 0 };
	struct tried tried;
	int ret;

	ret = try_chain(bench, kind, result->mode, result->core, &tried);
	if (ret)
		return ret;
	seen.status = tried.record.status;
	seen.at_once = tried.at_once == RKC_NO_WORD;
	seen.later = tried.later == RKC_NO_WORD;
	seen.hw_ns = tried.record.hw_ns;
	seen.expected_ns = kind == RKC_TRIAL_LONG ? bench->expected_ns : 0;
	result->status = seen.status;
	result->blocks = kind == RKC_TRIAL_LONG ? bench->blocks : RKC_TRIAL_SMALL_BLOCKS;
	result->block = seen.status ? RKC_NO_WORD : tried.at_once;
	result->hw_ns = seen.hw_ns;
	result->expected_ns = seen.expected_ns;
	if (seen.status || !seen.at_once) {
		result->verdict = rkc_trial_verdict(&seen);
		return 0;
	}
	ret = try_chain(bench, RKC_TRIAL_ORDER, result->mode, result->core, &tried);
	if (ret)
		return ret;
	seen.order = tried.record.status;
	seen.order_at_once = tried.at_once == RKC_NO_WORD;
	seen.order_later = tried.later == RKC_NO_WORD;
	result->verdict = rkc_trial_verdict(&seen);
	if (!seen.order && !seen.order_at_once)
		result->block = tried.at_once;
	return 0;
}

/*
 * All of @modes on all of @cores.  Hands out results in ascending order of mode and
 * core, and what they amount to.
 */
static int run(u32 modes, u32 cores, bool brief, struct rkchain_selftest_result *results,
	       struct rkc_trial_summary *summary, struct rkc_err *err)
{
	struct rkc_trial_table table = { 0 };
	struct bench bench = { .brief = brief, .err = err, .salt = ktime_get_ns() };
	u32 mode, core, n = 0;
	int ret = 0;

	bench.client = client_new();
	if (IS_ERR(bench.client))
		return PTR_ERR(bench.client);
	if (!brief)
		ret = find_length(&bench, cores);
	for (mode = 0; mode < RKC_MODES; mode++) {
		for (core = 0; core < RKC_CORES; core++) {
			struct rkchain_selftest_result *result = &results[n];

			if (!(modes & BIT(mode)) || !(cores & BIT(core)))
				continue;
			n++;
			result->mode = mode;
			result->core = core;
			result->block = RKC_NO_WORD;
			if (!ret && usable(core))
				ret = judge(&bench, brief ? RKC_TRIAL_SHORT : RKC_TRIAL_LONG,
					    result);
			/* The core has been lost meanwhile; the others are there. */
			if (ret == -ENODEV && err->reason == RKCHAIN_REASON_CORE_MASK)
				ret = 0;
			table.verdict[mode][core] = result->verdict;
		}
	}
	client_close(bench.client);
	if (ret)
		return ret;
	rkc_trial_summarise(&table, summary);
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
	struct rkchain_selftest_result results[2 * RKC_CORES] = { };
	struct rkc_trial_summary summary;
	struct rkc_err err = { 0 };

	mutex_lock(&selftest_lock);
	run(BIT(RKC_LINK) | BIT(RKC_SINGLE), RKC_CORES_ALL, true, results, &summary, &err);
	mutex_unlock(&selftest_lock);
}

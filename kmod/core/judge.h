/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a submit that came back means: for its chain, and for the core.
 *
 * The stock driver's errno does not say who is to blame: a job that a reset took
 * down returns -EINVAL, or -ETIMEDOUT seconds later.  So it is what the caller knows
 * of its own resets that counts.
 */
#ifndef RKC_JUDGE_H
#define RKC_JUDGE_H

#include "types.h"

RKC_BEGIN_DECLS

/* Preset of a task's int_status: what is still there was never committed. */
#define RKC_NOT_COMMITTED	0xdeadbeefu

/**
 * struct rkc_return - a submit that came back
 * @error: 0, or what the driver returned, as a negative errno
 * @age_ns: how long it took
 * @hung: it was the one that a reset of ours was meant for
 * @committed: the driver gave it to the hardware
 * @replayable: the chain may be run again
 * @retries: how often it has been
 * @core: where
 */
struct rkc_return {
	s32 error;
	u64 age_ns;
	bool hung;
	bool committed;
	bool replayable;
	u32 retries;
	u32 core;
};

enum rkc_fate {
	RKC_FATE_DONE,		/* all well */
	RKC_FATE_HUNG,		/* it hung: the chain's fault, or the core's */
	RKC_FATE_AGAIN,		/* taken down by a reset: run it again */
	RKC_FATE_HIT,		/* taken down by a reset, for good */
	RKC_FATE_GONE,		/* the device went away */
};

/**
 * struct rkc_verdict - what to do
 * @fate: of the chain
 * @strike: it counts against the core
 * @poisoned: the driver's list of that core may hold freed memory: no submit there
 * until the driver is rebound
 */
struct rkc_verdict {
	enum rkc_fate fate;
	bool strike;
	bool poisoned;
};

/* errnos, which freestanding code has no header for */
#define RKC_ENODEV	19
#define RKC_EINVAL	22
#define RKC_ETIMEDOUT	110

struct rkc_verdict rkc_judge(const struct rkc_return *r);

RKC_END_DECLS

#endif /* RKC_JUDGE_H */

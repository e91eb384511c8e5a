/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The three cores as a scheduler sees them: which one takes what, when a submit may be
 * given to the stock driver, when the NPU is reset, and what a failure costs a core.
 * All of it without locks, clocks and sleeping, so that the module and a simulation in
 * virtual time run the same code.
 *
 * The life of a run: rkc_cores_take(), then for each of its submits rkc_cores_opens()
 * until it says 0, rkc_cores_submit() and rkc_cores_back(); then rkc_cores_finish().
 * rkc_cores_watch() is asked besides, whenever something may be due.
 */
#ifndef RKC_CORES_H
#define RKC_CORES_H

#include "judge.h"
#include "rotor.h"
#include "window.h"

RKC_BEGIN_DECLS

#define RKC_NEVER	(~0ULL)	/* a time */

/**
 * struct rkc_core - one of them
 * @estimate_ns: of the chain that it has
 * @submitted: since when the driver has a submit of it, 0 = it has none
 * @hung: a reset of ours was meant for that submit
 * @strikes: hung chains in a row
 */
struct rkc_core {
	u64 estimate_ns;
	u64 submitted;
	bool hung;
	u32 strikes;
};

/**
 * struct rkc_cores - all of them
 * @rotor: who is usable, busy and next
 * @core: each
 * @aside: mask of those that failed too often
 * @poisoned: mask of those that may not be used until the driver is rebound
 * @generation: counts resets, our own and others' that were noticed
 * @resetting: nothing is submitted, since the NPU is about to be reset
 * @again: when to reset next, while @resetting
 * @quiet: nothing is submitted before, as somebody else's reset may not be over
 */
struct rkc_cores {
	struct rkc_rotor rotor;
	struct rkc_core core[RKC_CORES];
	u32 aside;
	u32 poisoned;
	u64 generation;
	bool resetting;
	u64 again;
	u64 quiet;
};

/**
 * struct rkc_run_end - how a run ended
 * @verdict: of the submit that ended it
 * @failed: a submit failed, so that the NPU may still be busy with it
 * @trial: the chain was there to try something out: its failing is no strike
 */
struct rkc_run_end {
	struct rkc_verdict verdict;
	bool failed;
	bool trial;
};

/**
 * rkc_cores_init() - a driver has come
 * @c: the cores
 * @poisoned: mask of those that the same driver has been known to have lost
 *
 * The generation goes on.
 */
void rkc_cores_init(struct rkc_cores *c, u32 poisoned);

/**
 * rkc_cores_take() - give one chain to a core
 * @c: the cores
 * @allowed: mask of cores that it may use
 * @estimate_ns: of the chain
 *
 * Return: the core, or -1 when none of them is free.
 */
int rkc_cores_take(struct rkc_cores *c, u32 allowed, u64 estimate_ns);

/**
 * rkc_cores_opens() - may the driver be given a submit for @id now?
 * @c: the cores
 * @id: a core that rkc_cores_take() gave
 * @now: ns
 *
 * Return: 0 when it may, else when to ask again, RKC_NEVER when something has to
 * come back first.
 */
u64 rkc_cores_opens(const struct rkc_cores *c, u32 id, u64 now);

/* It has been given one. */
void rkc_cores_submit(struct rkc_cores *c, u32 id, u64 now);

/* It has not been given it after all. */
static inline void rkc_cores_recall(struct rkc_cores *c, u32 id)
{
	c->core[id].submitted = 0;
}

/**
 * rkc_cores_back() - the submit has returned
 * @c: the cores
 * @id: whose
 * @now: ns
 * @r: @error, @committed, @replayable and @retries are given; age, core and whether a
 *	reset was meant for it are filled in
 *
 * Return: what it means.
 */
struct rkc_verdict rkc_cores_back(struct rkc_cores *c, u32 id, u64 now, struct rkc_return *r);

/**
 * rkc_cores_finish() - the run is over, the core is free again
 * @c: the cores
 * @id: which
 * @end: how it ended
 * @strikes: hung chains in a row that a core may have, less one
 *
 * Return: true when the core has been lost by it.
 */
bool rkc_cores_finish(struct rkc_cores *c, u32 id, const struct rkc_run_end *end, u32 strikes);

/**
 * rkc_cores_watch() - is anything due?
 * @c: the cores
 * @now: ns
 * @hang_ns: age at which a submit is taken for hung
 * @alone: nobody else uses the NPU
 * @reset: out, mask of hung cores for which the NPU is to be reset now; 0 for none.
 *	rkc_cores_was_reset() says when that has been done
 *
 * Alone on the NPU: once a submit is too old nothing more is given to the driver, the
 * other cores come back, and then the NPU is reset until what hangs has come back too.
 * Not alone: a reset could free what another program's job waits for, so only the
 * driver's own time-out remains.
 *
 * Return: when to ask again, RKC_NEVER when nothing will be due by itself.
 */
u64 rkc_cores_watch(struct rkc_cores *c, u64 now, u64 hang_ns, bool alone, u32 *reset);

/* A reset that rkc_cores_watch() asked for is over. */
void rkc_cores_was_reset(struct rkc_cores *c, u64 now);

/* A core is taken out as if it had failed too often. */
void rkc_cores_set_aside(struct rkc_cores *c, u32 mask);

/**
 * rkc_cores_enable() - bring a core back that has been set aside
 * @c: the cores
 * @id: which
 *
 * Return: false when it is poisoned.
 */
bool rkc_cores_enable(struct rkc_cores *c, u32 id);

/* Mask of cores whose submits the driver has. */
static inline u32 rkc_cores_out(const struct rkc_cores *c)
{
	u32 mask = 0;

	for (u32 i = 0; i < RKC_CORES; i++)
		mask |= c->core[i].submitted ? 1u << i : 0;
	return mask;
}

RKC_END_DECLS

#endif /* RKC_CORES_H */

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Trials: chains whose results are known, and what it means when they are not there.
 *
 * A trial lives in one buffer, which holds weights, features and outputs.  Its blocks
 * are small first and heavy then: hardware that signals completion too early is only
 * found out when what is left takes much longer than it takes to look.  In an ordered
 * trial each block reads what the one before it has written.
 */
#ifndef RKC_TRIAL_H
#define RKC_TRIAL_H

#include "chain.h"
#include "judge.h"
#include "rotor.h"

RKC_BEGIN_DECLS

/* As enum rkchain_verdict of the module's interface. */
enum rkc_trial_verdict {
	RKC_TRIAL_UNTESTED,
	RKC_TRIAL_WORKS,
	RKC_TRIAL_EARLY,
	RKC_TRIAL_WRONG,
	RKC_TRIAL_UNORDERED,
	RKC_TRIAL_TIMEOUT,
	RKC_TRIAL_VERDICTS
};

enum rkc_trial_kind {
	RKC_TRIAL_SHORT,	/* small blocks alone: microseconds each */
	RKC_TRIAL_LONG,		/* one small block, then heavy ones */
	RKC_TRIAL_ORDER,	/* each block reads the one before */
};

#define RKC_TRIAL_SMALL_BLOCKS	4	/* of a short trial */
#define RKC_TRIAL_ORDER_BLOCKS	8	/* of an ordered one */
#define RKC_TRIAL_FIRST_BLOCKS	5	/* of the long one that is tried first */
#define RKC_TRIAL_MOST_BLOCKS	513	/* of the longest */
/* What is behind the first block of a long trial takes at least this long. */
#define RKC_TRIAL_NS		20000000ULL
/*
 * A program that the NPU had for less than this part of what its blocks take one by
 * one has not been executed.  Chains are faster than that, but not by so much.
 */
#define RKC_TRIAL_TOO_SHORT	8
/* In every byte of an output that has not been written. */
#define RKC_TRIAL_SENTINEL	0x5a

/**
 * struct rkc_trial - one chain to try out
 * @kind: enum rkc_trial_kind
 * @count: S, blocks
 * @salt: makes the results of one run differ from those of another
 */
struct rkc_trial {
	u32 kind;
	u32 count;
	u32 salt;
};

/* Bytes of the buffer, a multiple of 4096. */
u64 rkc_trial_bytes(const struct rkc_trial *t);

/**
 * rkc_trial_blocks() - what it computes
 * @t: the trial
 * @iova: of the buffer, a multiple of 4096
 * @blocks: room for @t->count
 */
void rkc_trial_blocks(const struct rkc_trial *t, u64 iova, struct rkc_matmul *blocks);

/**
 * rkc_trial_fill() - features and weights, and the sentinel in every output
 * @t: the trial
 * @memory: the buffer, rkc_trial_bytes() long
 */
void rkc_trial_fill(const struct rkc_trial *t, void *memory);

/**
 * rkc_trial_output() - where a block's output lies
 * @t: the trial
 * @block: which
 * @bytes: out, how long it is
 *
 * Return: offset in the buffer.
 */
u64 rkc_trial_output(const struct rkc_trial *t, u32 block, u32 *bytes);

/**
 * rkc_trial_wrong() - is everything there?
 * @t: the trial
 * @memory: the buffer
 *
 * Looks at the last block first, as that is the one to come last.
 *
 * Return: a block whose output is not as it has to be, RKC_NO_WORD when there is none.
 */
u32 rkc_trial_wrong(const struct rkc_trial *t, const void *memory);

/**
 * struct rkc_trial_seen - what was seen of a mode on a core
 * @status: of the chain, 0 or a negative errno
 * @at_once: all outputs were there when completion was signalled
 * @later: and some time afterwards
 * @order: status of the ordered trial
 * @order_at_once: its outputs were there when completion was signalled
 * @order_later: and some time afterwards
 * @hw_ns: how long the NPU had the chain
 * @expected_ns: how long its blocks took one by one; 0 where that is not known
 */
struct rkc_trial_seen {
	s32 status;
	bool at_once;
	bool later;
	s32 order;
	bool order_at_once;
	bool order_later;
	u64 hw_ns;
	u64 expected_ns;
};

/* What it means: enum rkc_trial_verdict. */
u32 rkc_trial_verdict(const struct rkc_trial_seen *seen);

/* Name of a verdict, as it stands in tables. */
const char *rkc_trial_verdict_name(u32 verdict);

/**
 * struct rkc_trial_table - verdicts of all modes on all cores
 * @verdict: enum rkc_trial_verdict
 */
struct rkc_trial_table {
	u8 verdict[RKC_MODES][RKC_CORES];
};

/**
 * struct rkc_trial_summary - what follows from a table
 * @works: mask of modes that work on every core that works in some mode
 * @unordered: mask of modes that were seen not to keep the order of blocks
 * @tested: mask of modes that were tried on any core
 * @failed: mask of cores that were tried one block after the other, and on which
 *	nothing works
 */
struct rkc_trial_summary {
	u32 works;
	u32 unordered;
	u32 tested;
	u32 failed;
};

void rkc_trial_summarise(const struct rkc_trial_table *table, struct rkc_trial_summary *s);

/**
 * rkc_trial_best() - the mode to use
 * @works: mask of modes that work
 *
 * The fastest of them: wait, wait41, link; single when none is known to.
 *
 * Return: enum rkc_mode.
 */
u32 rkc_trial_best(u32 works);

RKC_END_DECLS

#endif /* RKC_TRIAL_H */

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The course of a self-test: which trial comes next, and what it all amounts to.
 *
 * Its caller makes the chain of a trial, runs it and looks at the outputs:
 *
 *	rkc_course_begin(&course, modes, cores, brief, salt);
 *	while (rkc_course_next(&course, usable, &step)) {
 *		...
 *		rkc_course_tell(&course, &tried);
 *	}
 *	rkc_trial_summarise(&course.table, &summary);
 */
#ifndef RKC_COURSE_H
#define RKC_COURSE_H

#include "trial.h"

RKC_BEGIN_DECLS

/* How long outputs may take to come after all, besides what the blocks take. */
#define RKC_COURSE_LATE_NS	100000000ULL

enum rkc_course_stage {
	RKC_COURSE_LENGTH,	/* how long a chain takes long enough */
	RKC_COURSE_FIRST,	/* a chain of blocks of their own */
	RKC_COURSE_ORDER,	/* one whose blocks read each other's outputs */
};

/**
 * struct rkc_step - what to try
 * @trial: the chain
 * @mode: enum rkc_mode
 * @core: where
 * @stage: enum rkc_course_stage
 * @late_ns: how long to go on looking for outputs that are not there at completion
 */
struct rkc_step {
	struct rkc_trial trial;
	u32 mode;
	u32 core;
	u32 stage;
	u64 late_ns;
};

/**
 * struct rkc_tried - what became of it
 * @status: 0, or a negative errno
 * @at_once: a block that was wrong when completion was signalled, or RKC_NO_WORD
 * @later: one that still was after rkc_step.late_ns
 * @hw_ns: how long the NPU had it
 */
struct rkc_tried {
	s32 status;
	u32 at_once;
	u32 later;
	u64 hw_ns;
};

/**
 * struct rkc_course_result - a mode on a core
 * @status: of the chain that decided it
 * @blocks: of that chain; 0 when none was tried
 * @block: first one whose output was not as expected, RKC_NO_WORD for none
 * @hw_ns: how long the NPU had it
 * @expected_ns: how long the same blocks took one by one; 0 where that is not known
 */
struct rkc_course_result {
	s32 status;
	u32 blocks;
	u32 block;
	u64 hw_ns;
	u64 expected_ns;
};

/**
 * struct rkc_course - how far it has come
 * @modes: asked for
 * @cores: asked for
 * @brief: whatever takes long is left out
 * @stage: enum rkc_course_stage
 * @mode: the next trial's
 * @core: the next trial's
 * @again: it is the second time
 * @blocks: of the long chain
 * @salt: of the next trial
 * @expected_ns: how long the long chain's blocks take one by one; 0 where that is not
 *	known
 * @seen: of the current mode on the current core
 * @table: the verdicts
 * @results: what they rest on
 */
struct rkc_course {
	u32 modes;
	u32 cores;
	bool brief;
	u32 stage;
	u32 mode;
	u32 core;
	bool again;
	u32 blocks;
	u32 salt;
	u64 expected_ns;
	struct rkc_trial_seen seen;
	struct rkc_trial_table table;
	struct rkc_course_result results[RKC_MODES][RKC_CORES];
};

/**
 * rkc_course_begin() - before the first trial
 * @c: the course
 * @modes: mask of 1 << enum rkc_mode
 * @cores: mask
 * @brief: small chains only: nothing of it takes long, and nothing is tried twice
 * @salt: another one each time
 */
void rkc_course_begin(struct rkc_course *c, u32 modes, u32 cores, bool brief, u32 salt);

/**
 * rkc_course_next() - what to try next
 * @c: the course
 * @usable: mask of cores that work may be given to just now
 * @step: out
 *
 * Return: false when there is nothing left.
 */
bool rkc_course_next(struct rkc_course *c, u32 usable, struct rkc_step *step);

/* What became of the trial that rkc_course_next() gave. */
void rkc_course_tell(struct rkc_course *c, const struct rkc_tried *tried);

/**
 * rkc_course_shorten() - its chain is longer than what may be made
 * @c: the course
 *
 * Goes on with the longest that there was.
 *
 * Return: false when there was none.
 */
bool rkc_course_shorten(struct rkc_course *c);

RKC_END_DECLS

#endif /* RKC_COURSE_H */

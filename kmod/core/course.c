// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "course.h"

void rkc_course_begin(struct rkc_course *c, u32 modes, u32 cores, bool brief, u32 salt)
{
	*c = (struct rkc_course){
		.modes = modes,
		.cores = cores,
		.brief = brief,
		.stage = brief ? RKC_COURSE_FIRST : RKC_COURSE_LENGTH,
		.blocks = brief ? RKC_TRIAL_SMALL_BLOCKS : RKC_TRIAL_FIRST_BLOCKS,
		.salt = salt,
	};
	for (u32 mode = 0; mode < RKC_MODES; mode++)
		for (u32 core = 0; core < RKC_CORES; core++)
			c->results[mode][core].block = RKC_NO_WORD;
}

/* The long chain is as long as it will be. */
static void begin_judging(struct rkc_course *c)
{
	c->stage = RKC_COURSE_FIRST;
	c->mode = 0;
	c->core = 0;
}

/* Goes to the next core, and behind the last one to the next mode. */
static void advance(struct rkc_course *c)
{
	if (c->stage == RKC_COURSE_LENGTH) {
		if (++c->core == RKC_CORES)
			begin_judging(c);
		return;
	}
	c->stage = RKC_COURSE_FIRST;
	if (++c->core == RKC_CORES) {
		c->core = 0;
		c->mode++;
	}
}

bool rkc_course_next(struct rkc_course *c, u32 usable, struct rkc_step *step)
{
	const u32 cores = c->cores & usable;

	while (c->mode < RKC_MODES) {
		const bool asked = c->stage == RKC_COURSE_LENGTH || c->modes & 1u << c->mode;

		if (asked && cores & 1u << c->core) {
			*step = (struct rkc_step){
				.trial = {
					.kind = c->stage == RKC_COURSE_ORDER ? RKC_TRIAL_ORDER :
						c->brief ? RKC_TRIAL_SHORT : RKC_TRIAL_LONG,
					.count = c->stage == RKC_COURSE_ORDER ?
						RKC_TRIAL_ORDER_BLOCKS : c->blocks,
					.salt = c->salt++,
				},
				/* What is most likely to work. */
				.mode = c->stage == RKC_COURSE_LENGTH ? RKC_SINGLE : c->mode,
				.core = c->core,
				.stage = c->stage,
				.late_ns = RKC_COURSE_LATE_NS + 2 * c->expected_ns,
			};
			return true;
		}
		c->again = false;
		advance(c);
	}
	return false;
}

/*
 * The chain is made longer until what is behind its first block takes long enough, one
 * by one.
 */
static void measured(struct rkc_course *c, const struct rkc_tried *tried)
{
	const u32 longer = 2 * (c->blocks - 1) + 1;

	if (tried->status) {
		advance(c);
		return;
	}
	c->expected_ns = tried->hw_ns;
	if (c->expected_ns >= RKC_TRIAL_NS || longer > RKC_TRIAL_MOST_BLOCKS)
		begin_judging(c);
	else
		c->blocks = longer;
}

static void decided(struct rkc_course *c)
{
	c->table.verdict[c->mode][c->core] = (u8)rkc_trial_verdict(&c->seen);
	advance(c);
}

static void tried_first(struct rkc_course *c, const struct rkc_tried *tried)
{
	struct rkc_course_result *result = &c->results[c->mode][c->core];

	c->seen = (struct rkc_trial_seen){
		.status = tried->status,
		.at_once = tried->at_once == RKC_NO_WORD,
		.later = tried->later == RKC_NO_WORD,
		.hw_ns = tried->hw_ns,
		.expected_ns = c->expected_ns,
	};
	*result = (struct rkc_course_result){
		.status = tried->status,
		.blocks = c->blocks,
		.block = tried->status ? RKC_NO_WORD : tried->at_once,
		.hw_ns = tried->hw_ns,
		.expected_ns = c->expected_ns,
	};
	if (tried->status || !c->seen.at_once)
		decided(c);
	else
		c->stage = RKC_COURSE_ORDER;
}

static void tried_order(struct rkc_course *c, const struct rkc_tried *tried)
{
	c->seen.order = tried->status;
	c->seen.order_at_once = tried->at_once == RKC_NO_WORD;
	c->seen.order_later = tried->later == RKC_NO_WORD;
	if (!tried->status)
		c->results[c->mode][c->core].block = tried->at_once;
	decided(c);
}

void rkc_course_tell(struct rkc_course *c, const struct rkc_tried *tried)
{
	/* A dispatch can be lost for no reason of its own. */
	if (tried->status == -RKC_ETIMEDOUT && !c->brief && !c->again) {
		c->again = true;
		return;
	}
	c->again = false;
	if (c->stage == RKC_COURSE_LENGTH)
		measured(c, tried);
	else if (c->stage == RKC_COURSE_FIRST)
		tried_first(c, tried);
	else
		tried_order(c, tried);
}

bool rkc_course_shorten(struct rkc_course *c)
{
	if (c->stage != RKC_COURSE_LENGTH || !c->expected_ns)
		return false;
	c->blocks = (c->blocks - 1) / 2 + 1;
	begin_judging(c);
	return true;
}

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Sharing the cores between clients: whoever has had the least goes first, counted
 * in core time over weight.  Nobody starves, since all that others get counts
 * against them.
 */
#ifndef RKC_SHARE_H
#define RKC_SHARE_H

#include "types.h"

/* Weights of the priorities -1, 0 and 1. */
static inline u32 rkc_share_weight(s32 priority)
{
	if (priority < 0)
		return 1;
	return priority ? 16 : 4;
}

/**
 * struct rkc_share - what a client has had
 * @had: core time over weight, ns
 */
struct rkc_share {
	u64 had;
};

/* @ns of core time at @priority. */
static inline void rkc_share_charge(struct rkc_share *s, u64 ns, s32 priority)
{
	s->had += ns * 16 / rkc_share_weight(priority);
}

/*
 * A client has work again, at a time when the one served last has had @level: being
 * idle saves nothing up.
 */
static inline void rkc_share_wake(struct rkc_share *s, u64 level)
{
	if (s->had < level)
		s->had = level;
}

#endif /* RKC_SHARE_H */

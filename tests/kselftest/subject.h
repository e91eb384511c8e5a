/* SPDX-License-Identifier: MIT */
/*
 * What the tests of refusals share: a good program of three blocks, to be spoilt.
 */
#ifndef SUBJECT_H
#define SUBJECT_H

#include "rig.h"

#define FOUR_GIB	0x100000000ULL
#define ANY		0xfffffffeU	/* block or word that is not certain */

/* Each block has room for one word more. */
#define BLOCKS		3
#define BODY		(RKC_BODY_WORDS + 1)
#define STRIDE		(BODY + RKC_TAIL_WORDS)

struct subject {
	int rk;
	struct rig_job job;
	struct rkchain_chain_create create;
	u64 words[BLOCKS * STRIDE];
};

/* Fails the test when a call did not fail like that. */
void expect(int ret, const struct rkchain_report *report, int error, u32 reason);

void put_block(struct subject *s, u32 i, const struct rkc_matmul *d);

/* The good program again. */
void reset(struct subject *s);
void begin(struct subject *s);

/* What CHAIN_CREATE makes of it. */
void accepted(struct subject *s);
void refused(struct subject *s, int error, u32 reason, u32 block, u32 word);

#endif /* SUBJECT_H */

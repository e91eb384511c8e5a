// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Programs in memory: append to one, take one apart, find out its layout, convert it.
 * The module has no use for it.
 */
#include "layout.h"

void rkc_chain_append(u64 *words, u32 count, const struct rkc_matmul *d)
{
	u64 *block = words + (u64)count * RKC_WAIT_STRIDE;

	if (count)
		rkc_put_wait(block - (RKC_WAIT_STRIDE - RKC_BODY_WORDS), false);
	rkc_generate(d, block);
	rkc_put_tail(block + RKC_BODY_WORDS, 0);
}

u32 rkc_program_block(struct rkc_recogniser *r, const struct rkc_program *p, u32 i,
		      struct rkc_matmul *d, struct rkc_err *err)
{
	const u64 at = (u64)i * p->stride;
	const bool last = i + 1 == p->count;
	const u32 total = last ? (u32)(p->nwords - at) : p->stride;
	u32 ret = rkc_recognise(r, p->words + at, p->body, total, p->link && !last, d, err);

	if (ret && err)
		err->block = i;
	return ret;
}

static bool is_unit_word(u64 entry)
{
	switch (rkc_entry_target(entry)) {
	case RKC_TARGET_NOP:
	case RKC_TARGET_ARM:
	case RKC_TARGET_OP_ENABLE:
	case RKC_TARGET_PC:
		return false;
	default:
		return true;
	}
}

u32 rkc_program_detect(const u64 *words, u64 nwords, struct rkc_program *p)
{
	u32 body = 0, stride, mode = RKC_SINGLE;
	u64 i;

	while (body < nwords && body < RKC_BODY_MAX && is_unit_word(words[body]))
		body++;
	p->words = words;
	p->nwords = nwords;
	p->body = body;
	p->link = false;
	if (!body)
		return RKC_MODES;

	for (i = body; i < nwords && !is_unit_word(words[i]); i++) {
		const u32 reg = rkc_entry_reg(words[i]);
		const u32 value = rkc_entry_value(words[i]);

		switch (rkc_entry_target(words[i])) {
		case RKC_TARGET_PC:
			if (reg == RKC_PC_ADDRESS && value) {
				p->link = true;
				mode = RKC_LINK;
			}
			break;
		case RKC_TARGET_OP_ENABLE:
			if (value & 2)
				mode = rkc_entry_target(words[i - 1]) == RKC_TARGET_ARM ?
				       RKC_WAIT41 : RKC_WAIT;
			break;
		default:
			break;
		}
	}
	if (i > RKC_BODY_MAX)
		return RKC_MODES;
	stride = (u32)i;
	p->stride = stride;
	if ((nwords - body) / stride >= RKC_LINK_MAX)
		return RKC_MODES;
	/* The last block's tail is longer than the others' in a wait layout. */
	p->count = nwords > body ? (u32)((nwords - body - 1) / stride) + 1 : 1;
	if (i == nwords)
		p->count = 1;
	return mode;
}

u32 rkc_chain_relayout(struct rkc_recogniser *r, const struct rkc_program *p, u32 mode, u64 iova,
		       u64 *words, struct rkc_err *err)
{
	struct rkc_measure m;
	u32 ret = rkc_measure_at(mode, p->count, iova, &m, err);

	for (u32 i = 0; !ret && i < p->count; i++) {
		u64 *block = words + (u64)i * m.stride;
		struct rkc_matmul d;

		ret = rkc_program_block(r, p, i, &d, err);
		if (!ret) {
			rkc_generate(&d, block);
			rkc_put_end(mode, &m, i, p->count, iova, block + RKC_BODY_WORDS);
		}
	}
	return ret;
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Chain layouts: measure, emit.
 */
#include "chain.h"
#include "body.h"
#include "layout.h"

const char *rkc_mode_name(u32 mode)
{
	static const char *const names[RKC_MODES] = { "wait", "wait41", "link", "single" };

	return mode < RKC_MODES ? names[mode] : "?";
}

u32 rkc_chain_measure(u32 mode, u32 count, struct rkc_measure *m, struct rkc_err *err)
{
	const u32 limit = mode == RKC_WAIT || mode == RKC_WAIT41 ? RKC_WAIT_MAX : RKC_LINK_MAX;

	if (mode >= RKC_MODES)
		return rkc_refuse(err, RKC_BAD_MODE, RKC_NO_WORD, 0, mode, RKC_MODES - 1);
	if (!count)
		return rkc_refuse(err, RKC_EMPTY, RKC_NO_WORD, 0, 0, 1);
	if (count > limit)
		return rkc_refuse(err, RKC_TOO_LONG, RKC_NO_WORD, 0, count, limit);

	m->tasks = 1;
	m->submits = 1;
	if (mode == RKC_WAIT || mode == RKC_WAIT41) {
		m->stride = RKC_WAIT_STRIDE;
		m->words = (count - 1) * RKC_WAIT_STRIDE + RKC_FULL_WORDS;
		m->regcfg_amount = (count - 1) * RKC_WAIT_STRIDE + RKC_BODY_WORDS;
	} else {
		m->stride = RKC_FULL_WORDS;
		m->words = count * RKC_FULL_WORDS;
		m->regcfg_amount = RKC_BODY_WORDS;
		if (mode == RKC_LINK)
			m->tasks = count;
		else
			m->submits = count;
	}
	m->pc_amount = rkc_pc_amount(m->regcfg_amount);
	return RKC_OK;
}

u32 rkc_chain_emit(u32 mode, const struct rkc_matmul *blocks, u32 count, u64 iova, u64 *words,
		   struct rkc_err *err)
{
	struct rkc_measure m;
	u32 ret = rkc_measure_at(mode, count, iova, &m, err);

	if (ret)
		return ret;
	for (u32 i = 0; i < count; i++) {
		u64 *block = words + (u64)i * m.stride;

		/* Layers repeat a shape: copying the last body is cheaper. */
		if (i && rkc_same_shape(&blocks[i], &blocks[i - 1])) {
			rkc_copy_words(block, block - m.stride, RKC_BODY_WORDS);
			rkc_retarget(block, &blocks[i]);
		} else {
			rkc_generate(&blocks[i], block);
		}
		rkc_put_end(mode, &m, i, count, iova, block + RKC_BODY_WORDS);
	}
	return RKC_OK;
}

u32 rkc_program_shape(const struct rkc_program *p, struct rkc_err *err)
{
	const u32 limit = p->link ? RKC_LINK_MAX : RKC_WAIT_MAX;
	u64 need;

	if (!p->count || !p->body)
		return rkc_refuse(err, RKC_EMPTY, RKC_NO_WORD, 0, 0, 1);
	if (p->count > limit)
		return rkc_refuse(err, RKC_TOO_LONG, RKC_NO_WORD, 0, p->count, limit);
	if (p->body > RKC_BODY_MAX)
		return rkc_refuse(err, RKC_BAD_STRIDE, RKC_NO_WORD, 0, p->body, RKC_BODY_MAX);
	if (p->count > 1 && (p->stride < p->body || p->stride > RKC_BODY_MAX))
		return rkc_refuse(err, RKC_BAD_STRIDE, RKC_NO_WORD, 0, p->stride,
				  p->stride < p->body ? p->body : RKC_BODY_MAX);
	need = (u64)(p->count - 1) * p->stride + p->body;
	if (p->nwords < need)
		return rkc_refuse(err, RKC_TRUNCATED, RKC_NO_WORD, 0, p->nwords, need);
	/* The last block may be longer by its tail, not by more programs. */
	if (p->nwords > need + RKC_BODY_MAX)
		return rkc_refuse(err, RKC_BAD_STRIDE, RKC_NO_WORD, 0, p->nwords,
				  need + RKC_BODY_MAX);
	return RKC_OK;
}

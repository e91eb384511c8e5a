// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Chain layouts: measure, emit, append, take apart, convert.
 */
#include "chain.h"
#include "entry.h"
#include "body.h"

#define TWO_POW_32	0x100000000ULL

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

/* The end of a program; @next is the next program's address, 0 for none. */
static void put_tail(u64 *tail, u32 next)
{
	tail[0] = next ? rkc_entry(RKC_TARGET_PC, RKC_PC_ADDRESS, next) : 0;
	tail[1] = rkc_entry(RKC_TARGET_PC, RKC_PC_AMOUNT, next ? rkc_pc_amount(RKC_BODY_WORDS) : 0);
	tail[2] = rkc_entry(RKC_TARGET_ARM, 0, 0);
	tail[3] = rkc_entry(RKC_TARGET_OP_ENABLE, RKC_PC_OP_ENABLE, RKC_OP_MATMUL);
}

/* Between two blocks of a wait chain: run, and wait for it. */
static void put_wait(u64 *words, bool arm)
{
	const u64 run = rkc_entry(RKC_TARGET_OP_ENABLE, RKC_PC_OP_ENABLE, RKC_OP_MATMUL_WAIT);

	words[0] = arm ? rkc_entry(RKC_TARGET_ARM, 0, 0) : run;
	words[1] = arm ? run : 0;
}

/* Everything of block @i but its body. */
static void put_end(u32 mode, const struct rkc_measure *m, u32 i, u32 count, u64 iova, u64 *end)
{
	const bool last = i + 1 == count;

	if ((mode == RKC_WAIT || mode == RKC_WAIT41) && !last)
		put_wait(end, mode == RKC_WAIT41);
	else if (mode == RKC_LINK && !last)
		put_tail(end, (u32)(iova + 8ULL * (i + 1) * m->stride));
	else
		put_tail(end, 0);
}

static u32 measure_at(u32 mode, u32 count, u64 iova, struct rkc_measure *m, struct rkc_err *err)
{
	u32 ret = rkc_chain_measure(mode, count, m, err);

	if (ret)
		return ret;
	if (iova % RKC_ADDR_MULTIPLE)
		return rkc_refuse(err, RKC_IOVA_ALIGN, RKC_NO_WORD, RKC_PC_ADDRESS, iova,
				  RKC_ADDR_MULTIPLE);
	if (iova >= TWO_POW_32 || iova + 8ULL * m->words > TWO_POW_32)
		return rkc_refuse(err, RKC_IOVA_RANGE, RKC_NO_WORD, RKC_PC_ADDRESS, iova,
				  TWO_POW_32);
	return RKC_OK;
}

u32 rkc_chain_emit(u32 mode, const struct rkc_matmul *blocks, u32 count, u64 iova, u64 *words,
		   struct rkc_err *err)
{
	struct rkc_measure m;
	u32 ret = measure_at(mode, count, iova, &m, err);

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
		put_end(mode, &m, i, count, iova, block + RKC_BODY_WORDS);
	}
	return RKC_OK;
}

void rkc_chain_append(u64 *words, u32 count, const struct rkc_matmul *d)
{
	u64 *block = words + (u64)count * RKC_WAIT_STRIDE;

	if (count)
		put_wait(block - (RKC_WAIT_STRIDE - RKC_BODY_WORDS), false);
	rkc_generate(d, block);
	put_tail(block + RKC_BODY_WORDS, 0);
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
	u32 ret = measure_at(mode, p->count, iova, &m, err);

	for (u32 i = 0; !ret && i < p->count; i++) {
		u64 *block = words + (u64)i * m.stride;
		struct rkc_matmul d;

		ret = rkc_program_block(r, p, i, &d, err);
		if (!ret) {
			rkc_generate(&d, block);
			put_end(mode, &m, i, p->count, iova, block + RKC_BODY_WORDS);
		}
	}
	return ret;
}

// SPDX-License-Identifier: MIT
/*
 * Programs for CHAIN_CREATE: good ones by the generator, some of them with words
 * that have been changed.
 */
#include <stdlib.h>
#include <string.h>

#include "ioctl_fuzz.h"

static const u32 targets[] = {
	RKC_TARGET_NOP, RKC_TARGET_ARM, RKC_TARGET_OP_ENABLE, RKC_TARGET_PC, RKC_TARGET_CNA,
	RKC_TARGET_RK3568, RKC_TARGET_CORE, RKC_TARGET_DPU, RKC_TARGET_DPU_RDMA,
	RKC_TARGET_PPU, RKC_TARGET_PPU_RDMA,
};

static u32 any_register(struct fuzz_dice *dice)
{
	static const u32 special[] = {
		0x08, 0x10, 0x14, 0x20, 0x24, 0x30, 0x34, 0x1004, 0x1008, 0x3004, 0x3008, 0x4004,
		0x4008,
	};

	if (fuzz_percent(dice, 40))
		return special[fuzz_below(dice, ARRAY_SIZE(special))];
	return (fuzz_below(dice, 8) << 12) | (fuzz_below(dice, 0x120) & ~3U);
}

static u64 mutant(struct fuzz_dice *dice, u64 word, u64 other)
{
	const u32 target = rkc_entry_target(word), reg = word & 0xffff, value = word >> 16;

	switch (fuzz_below(dice, 9)) {
	case 0:
		return rkc_entry(target, reg, fuzz_percent(dice, 50) ? value + 1 : value - 1);
	case 1:
		return rkc_entry(target, reg, fuzz_random(dice));
	case 2:
		return rkc_entry(targets[fuzz_below(dice, ARRAY_SIZE(targets))], reg, value);
	case 3:
		return rkc_entry(target, any_register(dice), value);
	case 4:
		return 0;
	case 5:
		return other;
	case 6:
		return word ^ 1ULL << fuzz_below(dice, 64);
	case 7:
		return rkc_entry(targets[fuzz_below(dice, ARRAY_SIZE(targets))],
				 any_register(dice), fuzz_boundary(dice));
	}
	return fuzz_random(dice);
}

static void mutate(struct fuzz_try *t)
{
	struct fuzz_dice *dice = &t->dice;
	u32 count = 1 + fuzz_below(dice, 3);

	while (count--) {
		/* Tails are few words, and worth as much as the rest. */
		const u32 from = fuzz_percent(dice, 30) ? t->nwords - 6 : 0;
		u64 *word = &t->words[from + fuzz_below(dice, t->nwords - from)];

		*word = mutant(dice, *word, t->words[fuzz_below(dice, t->nwords)]);
	}
}

/* Many blocks are small ones: the model takes its time. */
static void choose_shape(struct fuzz_dice *dice, struct rkc_matmul *d, bool small)
{
	memset(d, 0, sizeof(*d));
	do {
		d->type = fuzz_percent(dice, 70) ? RKC_I8_I32 : fuzz_below(dice, RKC_TYPES);
		d->layout = fuzz_percent(dice, 80) ? RKC_FLAT : fuzz_below(dice, RKC_LAYOUTS);
		d->m = 1 + fuzz_below(dice, 8);
		d->k = 32 * (1 + fuzz_below(dice, small || fuzz_percent(dice, 90) ? 4 : 64));
		d->n = 32 * (1 + fuzz_below(dice, 3));
		d->m_total = d->layout == RKC_SLICE ? d->m + fuzz_below(dice, 8) : d->m;
		d->a = 0x100000;
		d->b = 0x200000;
		d->c = 0x300000;
	} while (rkc_matmul_check(d, NULL));
}

/* Blocks of one shape: A and B side by side as far as they go, C never twice. */
static u32 place(struct fuzz_try *t, const struct fuzz_buf *bufs, struct rkc_matmul *blocks,
		 u32 count)
{
	struct rkc_matmul d;
	struct rkc_extents x;
	u64 a, b, c;
	u32 i;

	/* One that fits, unless nothing seems to. */
	for (i = 0; i < 20; i++) {
		choose_shape(&t->dice, &d, count > 16);
		rkc_matmul_extents(&d, &x);
		if (x.a.len <= bufs[0].size && x.b.len <= bufs[1].size && x.c.len <= bufs[2].size)
			break;
	}
	a = (x.a.len + 63) & ~63ULL;
	b = (x.b.len + 63) & ~63ULL;
	c = (x.c.len + 63) & ~63ULL;
	for (i = 0; i < count; i++) {
		if (i && c * (i + 1) > bufs[2].size && fuzz_percent(&t->dice, 99))
			break;
		d.a = bufs[0].iova + a * (i % (bufs[0].size / a ? bufs[0].size / a : 1));
		d.b = bufs[1].iova + b * (i % (bufs[1].size / b ? bufs[1].size / b : 1));
		d.c = bufs[2].iova + c * i;
		blocks[i] = d;
	}
	return i;
}

static void declare(struct fuzz_try *t, const struct fuzz_buf *bufs)
{
	static const u32 flags[] = { RKCHAIN_USE_READ, RKCHAIN_USE_READ, RKCHAIN_USE_WRITE };
	u32 count = 0;

	for (u32 i = 0; i < 3; i++) {
		u32 with = flags[i] | (fuzz_percent(&t->dice, 60) ? RKCHAIN_USE_SYNC : 0);
		u32 j;

		if (fuzz_percent(&t->dice, 1))
			with = fuzz_below(&t->dice, 16);
		/* One that is declared twice is refused. */
		for (j = 0; j < count; j++)
			if (t->uses[j].id == bufs[i].id && fuzz_percent(&t->dice, 95))
				break;
		t->uses[j].id = bufs[i].id;
		t->uses[j].flags = j < count ? t->uses[j].flags | with : with;
		count += j == count;
	}
	t->plan[KIND_ARRAY] = (uintptr_t)t->uses;
	t->plan[KIND_ITEMS] = count;
}

static u32 choose_count(struct fuzz_dice *dice)
{
	const u32 die = fuzz_below(dice, 100);

	if (die < 50)
		return 1;
	if (die < 90)
		return 1 + fuzz_below(dice, 12);
	return die < 97 ? 1 + fuzz_below(dice, 100) : RKC_WAIT_MAX;
}

void fuzz_program(struct fuzz_try *t)
{
	static __thread struct rkc_matmul blocks[RKC_WAIT_MAX];
	const bool link = fuzz_percent(&t->dice, 10);
	struct fuzz_buf bufs[3];
	u32 count, stride;

	for (u32 i = 0; i < ARRAY_SIZE(bufs); i++)
		if (!fuzz_pick_buf(t, &bufs[i]))
			bufs[i] = (struct fuzz_buf){ .iova = 4096, .size = 4096, .fd = -1 };
	count = place(t, bufs, blocks, choose_count(&t->dice));
	stride = link ? RKC_FULL_WORDS : RKC_WAIT_STRIDE;
	t->nwords = (count - 1) * stride + RKC_FULL_WORDS;
	t->words = t->words_end - t->nwords;
	memset(t->words, 0, t->nwords * sizeof(*t->words));
	if (link) {
		rkc_chain_emit(RKC_LINK, blocks, count, 0x1000, t->words, NULL);
	} else {
		for (u32 i = 0; i < count; i++)
			rkc_chain_append(t->words, i, &blocks[i]);
	}
	if (fuzz_percent(&t->dice, 20)) {
		mutate(t);
		t->spoilt = true;
	}
	declare(t, bufs);
	t->plan[KIND_WORDS] = (uintptr_t)t->words;
	t->plan[KIND_SIZE] = t->nwords * sizeof(*t->words);
	t->plan[KIND_COUNT] = count;
	t->plan[KIND_STRIDE] = stride;
	t->plan[KIND_BODY] = RKC_BODY_WORDS;
	t->plan[KIND_FLAGS] = link ? RKCHAIN_CHAIN_LINK : 0;
}

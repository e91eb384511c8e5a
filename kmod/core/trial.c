// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Every weight of a matmul is one of -3 .. 3, in a pattern that has all seven of them in
 * any seven neighbours along K, so that most of a sum cancels out and the rest is quickly
 * computed; and all features of a block are one number, another one for each block.  An
 * output therefore tells which block wrote it.
 */
#include "trial.h"

#define GROUP		32u	/* kernels, and elements along K, of a packed piece */
#define SMALL		32u	/* K and N of a small block */
#define HEAVY_K		4096u	/* as much as one task is commonly given */
#define HEAVY_N		512u
#define ORDER_KN	256u
#define PAGE		4096u

/* The shape of a block, and where its features and its output are. */
struct place {
	u32 k;
	u32 n;
	u64 a;
	u64 c;
	u32 bytes;	/* of the output */
};

static u64 weight_bytes(const struct rkc_trial *t)
{
	if (t->kind == RKC_TRIAL_LONG)
		return HEAVY_K * HEAVY_N;
	return t->kind == RKC_TRIAL_ORDER ? ORDER_KN * ORDER_KN : SMALL * SMALL;
}

static void find_place(const struct rkc_trial *t, u32 block, struct place *p)
{
	const bool small = t->kind == RKC_TRIAL_SHORT || !block;
	u64 features;

	if (t->kind == RKC_TRIAL_ORDER) {
		p->k = ORDER_KN;
		p->n = ORDER_KN;
		p->bytes = ORDER_KN;
		/* What one writes the next one reads. */
		p->a = weight_bytes(t) + (u64)block * ORDER_KN;
		p->c = p->a + ORDER_KN;
		return;
	}
	/* All of a kind have the same room, the small one in front too. */
	p->k = t->kind == RKC_TRIAL_LONG ? HEAVY_K : SMALL;
	p->n = t->kind == RKC_TRIAL_LONG ? HEAVY_N : SMALL;
	features = weight_bytes(t);
	p->a = features + (u64)block * p->k;
	p->c = features + (u64)t->count * p->k + (u64)block * p->n * sizeof(s32);
	if (small) {
		p->k = SMALL;
		p->n = SMALL;
	}
	p->bytes = p->n * sizeof(s32);
}

u64 rkc_trial_bytes(const struct rkc_trial *t)
{
	struct place last;
	u64 end;

	find_place(t, t->count - 1, &last);
	end = last.c + last.bytes;
	return (end + PAGE - 1) / PAGE * PAGE;
}

u64 rkc_trial_output(const struct rkc_trial *t, u32 block, u32 *bytes)
{
	struct place p;

	find_place(t, block, &p);
	*bytes = p.bytes;
	return p.c;
}

void rkc_trial_blocks(const struct rkc_trial *t, u64 iova, struct rkc_matmul *blocks)
{
	for (u32 i = 0; i < t->count; i++) {
		struct place p;

		find_place(t, i, &p);
		blocks[i] = (struct rkc_matmul){
			.type = t->kind == RKC_TRIAL_ORDER ? RKC_I8_I8 : RKC_I8_I32,
			.layout = RKC_FLAT,
			.m = 1,
			.k = p.k,
			.n = p.n,
			.m_total = 1,
			.a = (u32)(iova + p.a),
			.b = (u32)iova,
			.c = (u32)(iova + p.c),
		};
	}
}

static s32 pattern(const struct rkc_trial *t, u32 n, u32 k)
{
	return (s32)((n + 3 * k + t->salt % 7) % 7) - 3;
}

/* Feature of all of a block's K. */
static s32 feature(const struct rkc_trial *t, u32 block)
{
	return (s32)((block + t->salt % 127) % 127) + 1;
}

/* Element @i of what the first block of an ordered trial reads: neighbours differ. */
static s8 first(const struct rkc_trial *t, u32 i)
{
	return (s8)((s32)((i + t->salt % 251) % 251) - 125);
}

/* What every byte of an output, or every element of it, has to be. */
static s32 expected(const struct rkc_trial *t, u32 block, const struct place *p, u32 n)
{
	s32 sum = 0;

	/* The weights of an ordered trial move everything on by one. */
	if (t->kind == RKC_TRIAL_ORDER)
		return first(t, (n + block + 1) % ORDER_KN);
	for (u32 k = p->k / 7 * 7; k < p->k; k++)
		sum += pattern(t, n, k);
	return sum * feature(t, block);
}

static void fill_weights(const struct rkc_trial *t, s8 *to)
{
	const u32 k_all = t->kind == RKC_TRIAL_LONG ? HEAVY_K :
			  t->kind == RKC_TRIAL_ORDER ? ORDER_KN : SMALL;
	const u32 n_all = t->kind == RKC_TRIAL_LONG ? HEAVY_N : k_all;

	for (u32 n = 0; n < n_all; n += GROUP)
		for (u32 k = 0; k < k_all; k += GROUP)
			for (u32 i = 0; i < GROUP * GROUP; i++) {
				const u32 row = n + i / GROUP, col = k + i % GROUP;

				*to++ = t->kind == RKC_TRIAL_ORDER ?
					col == (row + 1) % ORDER_KN : (s8)pattern(t, row, col);
			}
}

void rkc_trial_fill(const struct rkc_trial *t, void *memory)
{
	u8 *bytes = memory;
	struct place p;

	fill_weights(t, memory);
	for (u32 block = 0; block < t->count; block++) {
		find_place(t, block, &p);
		for (u32 i = 0; i < p.bytes; i++)
			bytes[p.c + i] = RKC_TRIAL_SENTINEL;
		if (t->kind == RKC_TRIAL_ORDER)
			continue;
		for (u32 k = 0; k < p.k; k++)
			bytes[p.a + k] = (u8)feature(t, block);
	}
	if (t->kind != RKC_TRIAL_ORDER)
		return;
	find_place(t, 0, &p);
	for (u32 k = 0; k < ORDER_KN; k++)
		bytes[p.a + k] = (u8)first(t, k);
}

static bool right(const struct rkc_trial *t, u32 block, const void *memory)
{
	const u8 *bytes = memory;
	struct place p;

	find_place(t, block, &p);
	for (u32 n = 0; n < p.n; n++) {
		const s32 want = expected(t, block, &p, n);

		if (t->kind == RKC_TRIAL_ORDER) {
			if ((s8)bytes[p.c + n] != want)
				return false;
		} else if (((const s32 *)(bytes + p.c))[n] != want) {
			return false;
		}
	}
	return true;
}

u32 rkc_trial_wrong(const struct rkc_trial *t, const void *memory)
{
	if (!right(t, t->count - 1, memory))
		return t->count - 1;
	for (u32 i = 0; i < t->count - 1; i++)
		if (!right(t, i, memory))
			return i;
	return RKC_NO_WORD;
}

u32 rkc_trial_verdict(const struct rkc_trial_seen *seen)
{
	if (seen->status == -RKC_ETIMEDOUT)
		return RKC_TRIAL_TIMEOUT;
	if (seen->status)
		return RKC_TRIAL_UNTESTED;
	if (!seen->later)
		return RKC_TRIAL_WRONG;
	if (!seen->at_once || seen->hw_ns < seen->expected_ns / RKC_TRIAL_TOO_SHORT)
		return RKC_TRIAL_EARLY;
	if (seen->order == -RKC_ETIMEDOUT)
		return RKC_TRIAL_TIMEOUT;
	if (seen->order)
		return RKC_TRIAL_UNTESTED;
	if (!seen->order_later)
		return RKC_TRIAL_UNORDERED;
	return seen->order_at_once ? RKC_TRIAL_WORKS : RKC_TRIAL_EARLY;
}

const char *rkc_trial_verdict_name(u32 verdict)
{
	static const char * const names[RKC_TRIAL_VERDICTS] = {
		"untested", "works", "completes early", "output wrong",
		"order between blocks not kept", "times out",
	};

	return verdict < RKC_TRIAL_VERDICTS ? names[verdict] : "?";
}

void rkc_trial_summarise(const struct rkc_trial_table *table, struct rkc_trial_summary *s)
{
	u32 good = 0;	/* cores on which something works */

	*s = (struct rkc_trial_summary){ 0 };
	for (u32 mode = 0; mode < RKC_MODES; mode++)
		for (u32 core = 0; core < RKC_CORES; core++) {
			const u32 verdict = table->verdict[mode][core];

			if (verdict != RKC_TRIAL_UNTESTED)
				s->tested |= 1u << mode;
			if (verdict == RKC_TRIAL_UNORDERED)
				s->unordered |= 1u << mode;
			if (verdict == RKC_TRIAL_WORKS)
				good |= 1u << core;
		}
	for (u32 mode = 0; mode < RKC_MODES; mode++) {
		bool all = good != 0;

		for (u32 core = 0; core < RKC_CORES; core++)
			if (good & 1u << core && table->verdict[mode][core] != RKC_TRIAL_WORKS)
				all = false;
		s->works |= all ? 1u << mode : 0;
	}
	for (u32 core = 0; core < RKC_CORES; core++)
		if (table->verdict[RKC_SINGLE][core] != RKC_TRIAL_UNTESTED && !(good & 1u << core))
			s->failed |= 1u << core;
}

u32 rkc_trial_best(u32 works)
{
	for (u32 mode = 0; mode < RKC_MODES; mode++)
		if (works & 1u << mode)
			return mode;
	return RKC_SINGLE;
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The checker: extents against declared buffers, aliasing between blocks, cost.
 *
 * Inputs can only meet outputs in a buffer that is declared both READ and
 * WRITE (declared buffers do not overlap, and an extent lies inside one of
 * them), so the quadratic search is confined to such buffers.
 */
#include "check.h"

#define TWO_POW_32	0x100000000ULL

static bool overlap(const struct rkc_extent *x, const struct rkc_extent *y)
{
	return x->start < y->start + y->len && y->start < x->start + x->len;
}

u32 rkc_bufs_check(const struct rkc_buf *bufs, u32 nbufs, struct rkc_err *err)
{
	for (u32 i = 0; i < nbufs; i++) {
		const struct rkc_extent x = { bufs[i].iova, bufs[i].size };

		if (!x.len || x.start >= TWO_POW_32 || x.len > TWO_POW_32 - x.start)
			return rkc_refuse(err, RKC_BUFFER_RANGE, i, 0, x.start + x.len, TWO_POW_32);
		for (u32 j = 0; j < i; j++) {
			const struct rkc_extent y = { bufs[j].iova, bufs[j].size };

			if (overlap(&x, &y))
				return rkc_refuse(err, RKC_BUFFERS_OVERLAP, i, 0, x.start, y.start);
		}
	}
	return RKC_OK;
}

/* The declared buffer that holds all of @x and allows @flag, from @hint on. */
static const struct rkc_buf *find_buf(const struct rkc_buf *bufs, u32 nbufs,
				      const struct rkc_extent *x, u32 flag, u32 *hint)
{
	for (u32 n = 0; n < nbufs; n++) {
		const u32 i = *hint + n < nbufs ? *hint + n : *hint + n - nbufs;
		const struct rkc_buf *b = &bufs[i];

		if ((b->flags & flag) && x->start >= b->iova &&
		    x->start + x->len <= b->iova + b->size) {
			*hint = i;
			return b;
		}
	}
	return (const struct rkc_buf *)0;
}

/* May block @i read @x, given what the blocks before it write? */
static u32 check_read(const struct rkc_matmul *blocks, u32 i, const struct rkc_extent *x, u32 reg,
		      bool ordered, struct rkc_checked *out, struct rkc_err *err)
{
	const u32 want = rkc_in_bytes(blocks[i].type);

	for (u32 j = 0; j < i; j++) {
		const u32 have = rkc_out_bytes(blocks[j].type);
		struct rkc_extents before;

		rkc_matmul_extents(&blocks[j], &before);
		if (!overlap(x, &before.c))
			continue;
		out->aliases = true;
		if (have != want)
			return rkc_refuse(err, RKC_ALIAS_TYPE, RKC_NO_WORD, reg, have, want);
		if (!ordered)
			return rkc_refuse(err, RKC_ALIAS_ORDER, RKC_NO_WORD, reg, j, 0);
	}
	return RKC_OK;
}

/* Does @x overwrite anything that blocks 0 .. @i read? */
static bool overwrites_input(const struct rkc_matmul *blocks, u32 i, const struct rkc_extent *x)
{
	for (u32 j = 0; j <= i; j++) {
		struct rkc_extents before;

		rkc_matmul_extents(&blocks[j], &before);
		if (overlap(x, &before.a) || overlap(x, &before.b))
			return true;
	}
	return false;
}

u32 rkc_chain_check(const struct rkc_matmul *blocks, u32 count, const struct rkc_buf *bufs,
		    u32 nbufs, bool ordered, struct rkc_checked *out, struct rkc_err *err)
{
	const u32 both = RKC_BUF_READ | RKC_BUF_WRITE;
	u32 hint_a = 0, hint_b = 0, hint_c = 0;
	u32 ret = RKC_OK;

	out->cost.macs = 0;
	out->cost.bytes = 0;
	out->replayable = true;
	out->aliases = false;

	for (u32 i = 0; !ret && i < count; i++) {
		const struct rkc_matmul *d = &blocks[i];
		const struct rkc_buf *a, *b, *c;
		struct rkc_extents x;

		rkc_matmul_extents(d, &x);
		out->cost.macs += (u64)d->m * d->k * d->n;
		out->cost.bytes += x.a.len + x.b.len + x.c.len;

		a = find_buf(bufs, nbufs, &x.a, RKC_BUF_READ, &hint_a);
		b = find_buf(bufs, nbufs, &x.b, RKC_BUF_READ, &hint_b);
		c = find_buf(bufs, nbufs, &x.c, RKC_BUF_WRITE, &hint_c);
		if (!a)
			ret = rkc_refuse(err, RKC_A_OUTSIDE, RKC_NO_WORD, 0x1070, x.a.start,
					 x.a.start + x.a.len);
		else if (!b)
			ret = rkc_refuse(err, RKC_B_OUTSIDE, RKC_NO_WORD, 0x1110, x.b.start,
					 x.b.start + x.b.len);
		else if (!c)
			ret = rkc_refuse(err, RKC_C_OUTSIDE, RKC_NO_WORD, 0x4020, x.c.start,
					 x.c.start + x.c.len);
		else if (overlap(&x.c, &x.a) || overlap(&x.c, &x.b))
			ret = rkc_refuse(err, RKC_OUTPUT_OVERLAP, RKC_NO_WORD, 0x4020, x.c.start,
					 overlap(&x.c, &x.a) ? x.a.start : x.b.start);
		if (!ret && (a->flags & both) == both)
			ret = check_read(blocks, i, &x.a, 0x1070, ordered, out, err);
		if (!ret && (b->flags & both) == both)
			ret = check_read(blocks, i, &x.b, 0x1110, ordered, out, err);
		if (!ret && (c->flags & both) == both && out->replayable)
			out->replayable = !overwrites_input(blocks, i, &x.c);
		if (ret && err)
			err->block = i;
	}
	return ret;
}

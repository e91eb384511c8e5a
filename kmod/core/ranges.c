// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "ranges.h"

static bool before(const struct rkc_range *x, const struct rkc_range *y)
{
	return x->buf != y->buf ? x->buf < y->buf : x->offset < y->offset;
}

/* Restores the heap below @root. */
static void sift(struct rkc_range *ranges, u32 root, u32 count)
{
	const struct rkc_range moved = ranges[root];

	for (;;) {
		u32 child = 2 * root + 1;

		if (child >= count)
			break;
		if (child + 1 < count && before(&ranges[child], &ranges[child + 1]))
			child++;
		if (!before(&moved, &ranges[child]))
			break;
		ranges[root] = ranges[child];
		root = child;
	}
	ranges[root] = moved;
}

/* In place, and never slow, whatever order somebody chooses. */
static void sort(struct rkc_range *ranges, u32 count)
{
	for (u32 i = count / 2; i-- > 0;)
		sift(ranges, i, count);
	for (u32 i = count; i-- > 1;) {
		const struct rkc_range last = ranges[i];

		ranges[i] = ranges[0];
		ranges[0] = last;
		sift(ranges, 0, i);
	}
}

static u32 merge(struct rkc_range *ranges, u32 count)
{
	u32 merged = 0;

	for (u32 i = 0; i < count; i++) {
		struct rkc_range *last = merged ? &ranges[merged - 1] : (struct rkc_range *)0;
		const u64 end = ranges[i].offset + ranges[i].size;

		if (!last || last->buf != ranges[i].buf ||
		    last->offset + last->size < ranges[i].offset)
			ranges[merged++] = ranges[i];
		else if (end > last->offset + last->size)
			last->size = end - last->offset;
	}
	return merged;
}

u32 rkc_chain_ranges(const struct rkc_matmul *blocks, u32 count, const struct rkc_buf *bufs,
		     u32 nbufs, u32 flag, struct rkc_range *ranges)
{
	u32 found = 0, buf = 0;

	for (u32 i = 0; i < count; i++) {
		struct rkc_extent touched[2];
		struct rkc_extents x;
		u32 n = 0;

		rkc_matmul_extents(&blocks[i], &x);
		if (flag == RKC_BUF_WRITE) {
			touched[n++] = x.c;
		} else {
			touched[n++] = x.a;
			touched[n++] = x.b;
		}
		while (n--) {
			/* Most often the buffer of the one before. */
			for (u32 tried = 0; tried < nbufs; tried++) {
				if (touched[n].start - bufs[buf].iova < bufs[buf].size)
					break;
				buf = buf + 1 < nbufs ? buf + 1 : 0;
			}
			if (!(bufs[buf].flags & RKC_BUF_SYNC))
				continue;
			ranges[found].buf = buf;
			ranges[found].reserved = 0;
			ranges[found].offset = touched[n].start - bufs[buf].iova;
			ranges[found].size = touched[n].len;
			found++;
		}
	}
	sort(ranges, found);
	return merge(ranges, found);
}

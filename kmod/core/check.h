/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Does a chain stay inside the buffers that its owner declared?
 */
#ifndef RKC_CHECK_H
#define RKC_CHECK_H

#include "types.h"
#include "matmul.h"

RKC_BEGIN_DECLS

#define RKC_BUF_READ	1u
#define RKC_BUF_WRITE	2u
#define RKC_BUF_SYNC	4u	/* caches are to be looked after; the checker ignores it */

/* A declared buffer. */
struct rkc_buf {
	u64 iova;
	u64 size;
	u32 flags;	/* RKC_BUF_* */
	u32 reserved;
};

/* What a chain costs, summed over its blocks. */
struct rkc_cost {
	u64 macs;
	u64 bytes;	/* DDR traffic: features, weights and outputs, once each */
};

/* Estimates are made of these; slow ones, as they bound how long to wait. */
#define RKC_EST_SUBMIT_NS	170000	/* the dearest submit that boards showed */
#define RKC_EST_BLOCK_NS	18000	/* a further program of a link chain */
#define RKC_EST_MACS_PER_NS	100	/* a tenth of int8, a fifth of fp16 at full rate */
#define RKC_EST_BYTES_PER_NS	4	/* half of what the slowest table shows for one core */

/* How long @count blocks that cost @c may take on a core, ns. */
static inline u64 rkc_estimate_ns(const struct rkc_cost *c, u32 count, u32 submits)
{
	return (u64)submits * RKC_EST_SUBMIT_NS + (u64)count * RKC_EST_BLOCK_NS +
	       c->macs / RKC_EST_MACS_PER_NS + c->bytes / RKC_EST_BYTES_PER_NS;
}

/**
 * struct rkc_checked - what checking found out about a chain
 * @cost: sums
 * @replayable: running it twice gives the same memory
 * @aliases: some block reads an earlier block's output
 */
struct rkc_checked {
	struct rkc_cost cost;
	bool replayable;
	bool aliases;
};

/**
 * rkc_bufs_check() - are the declared buffers themselves sane?
 * @bufs: the buffers
 * @nbufs: how many
 * @err: filled on refusal (@err->word is the buffer's index), may be NULL
 *
 * Return: RKC_OK, RKC_BUFFER_RANGE or RKC_BUFFERS_OVERLAP.
 */
u32 rkc_bufs_check(const struct rkc_buf *bufs, u32 nbufs, struct rkc_err *err);

/**
 * rkc_chain_check() - extents, aliasing and cost of a whole chain
 * @blocks: descriptors that passed rkc_matmul_check()
 * @count: S
 * @bufs: buffers that passed rkc_bufs_check()
 * @nbufs: how many
 * @ordered: the mode in force is known to finish a block before the next reads
 * @out: result
 * @err: filled on refusal with the block, may be NULL
 *
 * Return: RKC_OK or the reason.
 */
u32 rkc_chain_check(const struct rkc_matmul *blocks, u32 count, const struct rkc_buf *bufs,
		    u32 nbufs, bool ordered, struct rkc_checked *out, struct rkc_err *err);

RKC_END_DECLS

#endif /* RKC_CHECK_H */

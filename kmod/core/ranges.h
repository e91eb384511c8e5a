/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which bytes of its buffers a chain touches: what caches have to be looked after.
 *
 * Exactly these, since what lies between them may belong to another chain, which
 * another core is writing at the same time.
 */
#ifndef RKC_RANGES_H
#define RKC_RANGES_H

#include "types.h"
#include "check.h"

RKC_BEGIN_DECLS

/**
 * struct rkc_range - bytes of a declared buffer
 * @buf: its index
 * @reserved: 0
 * @offset: bytes
 * @size: bytes
 */
struct rkc_range {
	u32 buf;
	u32 reserved;
	u64 offset;
	u64 size;
};

/**
 * rkc_chain_ranges() - what a chain reads, or writes, of the buffers declared SYNC
 * @blocks: descriptors that passed rkc_chain_check()
 * @count: S
 * @bufs: buffers that it passed with
 * @nbufs: how many
 * @flag: RKC_BUF_READ for features and weights, RKC_BUF_WRITE for outputs
 * @ranges: room for 2 * @count, or @count for outputs
 *
 * Return: how many ranges; ascending by buffer and offset, and none touches another.
 */
u32 rkc_chain_ranges(const struct rkc_matmul *blocks, u32 count, const struct rkc_buf *bufs,
		     u32 nbufs, u32 flag, struct rkc_range *ranges);

RKC_END_DECLS

#endif /* RKC_RANGES_H */

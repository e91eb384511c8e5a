/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What stands between the bodies of a chain, for those who lay one out.
 */
#ifndef RKC_LAYOUT_H
#define RKC_LAYOUT_H

#include "chain.h"
#include "entry.h"

#define RKC_4_GIB	0x100000000ULL

/* The end of a program; @next is the next program's address, 0 for none. */
static inline void rkc_put_tail(u64 *tail, u32 next)
{
	tail[0] = next ? rkc_entry(RKC_TARGET_PC, RKC_PC_ADDRESS, next) : 0;
	tail[1] = rkc_entry(RKC_TARGET_PC, RKC_PC_AMOUNT, next ? rkc_pc_amount(RKC_BODY_WORDS) : 0);
	tail[2] = rkc_entry(RKC_TARGET_ARM, 0, 0);
	tail[3] = rkc_entry(RKC_TARGET_OP_ENABLE, RKC_PC_OP_ENABLE, RKC_OP_MATMUL);
}

/* Between two blocks of a wait chain: run, and wait for it. */
static inline void rkc_put_wait(u64 *words, bool arm)
{
	const u64 run = rkc_entry(RKC_TARGET_OP_ENABLE, RKC_PC_OP_ENABLE, RKC_OP_MATMUL_WAIT);

	words[0] = arm ? rkc_entry(RKC_TARGET_ARM, 0, 0) : run;
	words[1] = arm ? run : 0;
}

/* Everything of block @i but its body. */
static inline void rkc_put_end(u32 mode, const struct rkc_measure *m, u32 i, u32 count,
			       u64 iova, u64 *end)
{
	const bool last = i + 1 == count;

	if ((mode == RKC_WAIT || mode == RKC_WAIT41) && !last)
		rkc_put_wait(end, mode == RKC_WAIT41);
	else if (mode == RKC_LINK && !last)
		rkc_put_tail(end, (u32)(iova + 8ULL * (i + 1) * m->stride));
	else
		rkc_put_tail(end, 0);
}

/* As rkc_chain_measure(), and whether it fits there. */
static inline u32 rkc_measure_at(u32 mode, u32 count, u64 iova, struct rkc_measure *m,
				 struct rkc_err *err)
{
	u32 ret = rkc_chain_measure(mode, count, m, err);

	if (ret)
		return ret;
	if (iova % RKC_ADDR_MULTIPLE)
		return rkc_refuse(err, RKC_IOVA_ALIGN, RKC_NO_WORD, RKC_PC_ADDRESS, iova,
				  RKC_ADDR_MULTIPLE);
	if (iova >= RKC_4_GIB || iova + 8ULL * m->words > RKC_4_GIB)
		return rkc_refuse(err, RKC_IOVA_RANGE, RKC_NO_WORD, RKC_PC_ADDRESS, iova,
				  RKC_4_GIB);
	return RKC_OK;
}

#endif /* RKC_LAYOUT_H */

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One entry of a register program: 64 bits, little-endian,
 *
 *	[63:48] target | [47:16] value | [15:0] register
 *
 * "Word" means one such entry everywhere in this tree; a word number counts
 * entries from the start of a block.  (Notes that speak of u32 words count
 * twice as many: their word 216 is our word 108.)
 */
#ifndef RKC_ENTRY_H
#define RKC_ENTRY_H

#include "types.h"

/* Targets: which unit an entry is for. */
#define RKC_TARGET_NOP		0x0000
#define RKC_TARGET_ARM		0x0041	/* must precede an op-enable (TRM) */
#define RKC_TARGET_OP_ENABLE	0x0081	/* register 0x0008 */
#define RKC_TARGET_PC		0x0101	/* page 0x0000 */
#define RKC_TARGET_CNA		0x0201	/* page 0x1000 */
#define RKC_TARGET_RK3568	0x0401	/* page 0x2000, not on RK3588 */
#define RKC_TARGET_CORE		0x0801	/* page 0x3000 */
#define RKC_TARGET_DPU		0x1001	/* page 0x4000 */
#define RKC_TARGET_DPU_RDMA	0x2001	/* page 0x5000 */
#define RKC_TARGET_PPU		0x4001	/* page 0x6000 */
#define RKC_TARGET_PPU_RDMA	0x8001	/* page 0x7000 */

/* PC registers that a program's tail writes. */
#define RKC_PC_ADDRESS		0x0010
#define RKC_PC_AMOUNT		0x0014
#define RKC_PC_OP_ENABLE	0x0008

/* Op-enable values: CNA, CORE and DPU; bit 1 asks the parser to wait. */
#define RKC_OP_MATMUL		0x0d
#define RKC_OP_MATMUL_WAIT	0x0f

static inline u64 rkc_entry(u32 target, u32 reg, u32 value)
{
	return (u64)target << 48 | (u64)value << 16 | reg;
}

static inline u32 rkc_entry_target(u64 entry)
{
	return entry >> 48;
}

static inline u32 rkc_entry_value(u64 entry)
{
	return (entry >> 16) & 0xffffffff;
}

static inline u32 rkc_entry_reg(u64 entry)
{
	return entry & 0xffff;
}

#endif /* RKC_ENTRY_H */

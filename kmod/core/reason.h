/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Why a program, a chain or a request was refused.  The numbers are ABI: they
 * reach user space, so they are never reused and new ones go at the end.
 */
#ifndef RKC_REASON_H
#define RKC_REASON_H

#include "types.h"

RKC_BEGIN_DECLS

enum rkc_reason {
	RKC_OK = 0,
	/* the shape, from whoever asks for a matmul or from a program's words */
	RKC_BAD_TYPE = 1,
	RKC_BAD_LAYOUT = 2,
	RKC_M_ZERO = 3,
	RKC_M_TOO_BIG = 4,		/* more rows than K allows */
	RKC_K_ALIGN = 5,
	RKC_K_RANGE = 6,
	RKC_N_ALIGN = 7,
	RKC_N_RANGE = 8,
	RKC_ROWS_TOTAL = 9,		/* row slice: M > total, or total too big */
	RKC_ADDR_ALIGN = 10,
	RKC_ADDR_RANGE = 11,		/* extent crosses 2^32 */
	/* words that no matmul program holds */
	RKC_PAGE_MISMATCH = 20,		/* target and register page disagree */
	RKC_FOREIGN_TARGET = 21,
	RKC_UNKNOWN_REG = 22,
	RKC_JUMP = 23,			/* PC address or amount outside a link */
	RKC_BASE_ADDRESS = 24,		/* PC 0x34 rebases every DMA address */
	RKC_INT_MASK = 25,		/* PC 0x20, 0x24 lose the completion */
	RKC_TASK_CONTROL = 26,		/* PC 0x30 */
	RKC_PC_WRITE = 27,		/* any other PC register */
	RKC_UNIT_OP_ENABLE = 28,	/* a unit's own 0x?008 */
	RKC_POINTER = 29,		/* S_POINTER that is the driver's, or not 0xe */
	RKC_BAD_OP_ENABLE = 30,		/* op-enable that is not a matmul's */
	RKC_BAD_PADDING = 31,		/* no-op or arm marker that carries a value */
	/* words of a matmul program with the wrong value */
	RKC_MISSING_REG = 40,		/* decides the result and is never written */
	RKC_SIZE_MISMATCH = 41,		/* CNA, CORE and DPU disagree about a size */
	RKC_SHORT_WEIGHTS = 42,		/* 0x1030 or 0x1034 below K * N */
	RKC_COWORK = 43,		/* 0x1014: cores that work together, dilation */
	RKC_CBUF_REUSE = 44,		/* 0x1040: data of an earlier program */
	RKC_COMPRESSION = 45,		/* 0x1100, 0x1104, 0x1140.. */
	RKC_LUT = 46,			/* 0x4100.. */
	RKC_STRIDE = 47,		/* a stride that no layout has */
	RKC_PRECISION = 48,		/* CNA, CORE and DPU disagree about the type */
	RKC_VALUE = 49,			/* any other register's value */
	/* a chain */
	RKC_EMPTY = 60,			/* S = 0, or a block without words */
	RKC_TOO_LONG = 61,		/* S above the layout's limit */
	RKC_TRUNCATED = 62,		/* fewer words than the layout needs */
	RKC_BAD_STRIDE = 63,
	RKC_BAD_MODE = 64,
	RKC_IOVA_ALIGN = 65,		/* the program's own address: 16 bytes */
	RKC_IOVA_RANGE = 66,		/* the program's own address + size > 2^32 */
	/* buffers */
	RKC_A_OUTSIDE = 80,		/* feature not inside a READ buffer */
	RKC_B_OUTSIDE = 81,		/* weights not inside a READ buffer */
	RKC_C_OUTSIDE = 82,		/* output not inside a WRITE buffer */
	RKC_OUTPUT_OVERLAP = 83,	/* output overlaps this block's inputs */
	RKC_ALIAS_TYPE = 84,		/* reads a 32-bit output of an earlier block */
	RKC_ALIAS_ORDER = 85,		/* mode not shown to order blocks */
	RKC_BUFFERS_OVERLAP = 86,	/* two declared buffers share an address */
	RKC_BUFFER_RANGE = 87,		/* declared buffer empty or past 2^32 */
};

/* No word to point at: the fault is in what is absent or in the arguments. */
#define RKC_NO_WORD	0xffffffffu

/**
 * struct rkc_err - what is wrong, where, and which limit it broke
 * @reason: enum rkc_reason
 * @block: block of the chain, from 0
 * @word: 64-bit word within the block, or RKC_NO_WORD
 * @reg: register concerned, 0 if none
 * @value: what was found
 * @limit: what was expected, or the limit
 */
struct rkc_err {
	u32 reason;
	u32 block;
	u32 word;
	u32 reg;
	u64 value;
	u64 limit;
};

/**
 * rkc_reason_name() - identifier of a reason, e.g. "K_ALIGN"
 * @reason: enum rkc_reason
 *
 * Return: a constant string; "UNKNOWN" for a number that is no reason.
 */
const char *rkc_reason_name(u32 reason);

/**
 * rkc_reason_text() - one clause of English for people
 * @reason: enum rkc_reason
 *
 * Return: a constant string without final stop.
 */
const char *rkc_reason_text(u32 reason);

/* Fills @err (may be NULL) and returns @reason, for one-line refusals. */
static inline u32 rkc_refuse(struct rkc_err *err, u32 reason, u32 word, u32 reg,
			     u64 value, u64 limit)
{
	if (err) {
		err->reason = reason;
		err->block = 0;
		err->word = word;
		err->reg = reg;
		err->value = value;
		err->limit = limit;
	}
	return reason;
}

RKC_END_DECLS

#endif /* RKC_REASON_H */

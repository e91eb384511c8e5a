/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One matmul, C[M,N] = A[M,K] * B[K,N], as the NPU runs it: the descriptor,
 * its limits, what it touches, and the register program for it.
 */
#ifndef RKC_MATMUL_H
#define RKC_MATMUL_H

#include "types.h"
#include "reason.h"

RKC_BEGIN_DECLS

#define RKC_BODY_WORDS	108	/* a program without its tail */
#define RKC_TAIL_WORDS	4
#define RKC_FULL_WORDS	(RKC_BODY_WORDS + RKC_TAIL_WORDS)

#define RKC_K_MULTIPLE	32
#define RKC_K_MAX	10752	/* the most that any stack ran in one task */
#define RKC_N_MAX	8192	/* 13-bit field */
#define RKC_ROWS_MAX	704	/* most rows of any K */
#define RKC_ROWS_TOTAL_MAX	0x1ffffff	/* 0x40c0 = 8 * 16 * rows in 32 bits */
#define RKC_ADDR_MULTIPLE	16

/* Element types, input -> output. */
enum rkc_type {
	RKC_I8_I32 = 0,
	RKC_I8_I8 = 1,
	RKC_F16_F32 = 2,
	RKC_F16_F16 = 3,
	RKC_TYPES
};

/*
 * Memory layouts of A and C (B is always packed):
 * FLAT    row-major.
 * NATIVE  NC1HWC2, A: ((k / C2) * M + m) * C2 + k % C2 with C2 = 16 bytes,
 *         C alike with 16-byte groups of outputs.
 * SLICE   M rows out of a NATIVE tensor of m_total rows.
 */
enum rkc_layout {
	RKC_FLAT = 0,
	RKC_NATIVE = 1,
	RKC_SLICE = 2,
	RKC_LAYOUTS
};

/**
 * struct rkc_matmul - the descriptor: everything that decides the result
 * @type: enum rkc_type
 * @layout: enum rkc_layout
 * @reserved: 0
 * @m: rows
 * @k: contraction length, elements
 * @n: columns
 * @m_total: SLICE: rows of the whole tensor; otherwise equal to @m
 * @a: IOVA of the features
 * @b: IOVA of the packed weights
 * @c: IOVA of the output
 */
struct rkc_matmul {
	u8 type;
	u8 layout;
	u16 reserved;
	u32 m;
	u32 k;
	u32 n;
	u32 m_total;
	u32 a;
	u32 b;
	u32 c;
};

/* Bytes [start, start + len) of the NPU's address space. */
struct rkc_extent {
	u64 start;
	u64 len;
};

/* Everything one block touches. */
struct rkc_extents {
	struct rkc_extent a;
	struct rkc_extent b;
	struct rkc_extent c;
};

/* Bytes of an input element: 1 or 2. */
static inline u32 rkc_in_bytes(u32 type)
{
	return type < RKC_F16_F32 ? 1 : 2;
}

/* Bytes of an output element: 4, 1, 4, 2. */
static inline u32 rkc_out_bytes(u32 type)
{
	if (type == RKC_I8_I8)
		return 1;
	return type == RKC_F16_F16 ? 2 : 4;
}

/* Kernels (columns of B) per group: 32 int8, 16 fp16.  N is a multiple of it. */
static inline u32 rkc_kernel_group(u32 type)
{
	return type < RKC_F16_F32 ? 32 : 16;
}

/**
 * rkc_max_rows() - most rows of A that one task takes
 * @type: enum rkc_type
 * @k: contraction length, a valid one
 *
 * int8: 704 / 320 / 128 / 64 rows for K <= 512 / 1024 / 2048 / 4096, fp16:
 * 16384 / K; above K = 4096 what leaves room for a kernel group in CBUF.
 *
 * Return: the limit, 0 when @type or @k is itself out of range.
 */
u32 rkc_max_rows(u32 type, u32 k);

/**
 * rkc_matmul_check() - every limit of one matmul, buffers apart
 * @d: the descriptor
 * @err: filled on refusal, may be NULL
 *
 * Return: RKC_OK or the reason.
 */
u32 rkc_matmul_check(const struct rkc_matmul *d, struct rkc_err *err);

/**
 * rkc_matmul_extents() - what the program that we emit touches
 * @d: a descriptor that passed rkc_matmul_check()
 * @x: result; padding reads of the NATIVE layout (48 * M bytes) included
 */
void rkc_matmul_extents(const struct rkc_matmul *d, struct rkc_extents *x);

/**
 * rkc_generate() - the program body for a matmul
 * @d: a descriptor that passed rkc_matmul_check()
 * @body: RKC_BODY_WORDS words, in the captured order
 */
void rkc_generate(const struct rkc_matmul *d, u64 *body);

/**
 * rkc_retarget() - give a generated body other addresses
 * @body: RKC_BODY_WORDS words that rkc_generate() made
 * @d: a descriptor of the same type, layout and shape
 */
void rkc_retarget(u64 *body, const struct rkc_matmul *d);

/* Same program but for the three addresses? */
static inline bool rkc_same_shape(const struct rkc_matmul *x, const struct rkc_matmul *y)
{
	return x->type == y->type && x->layout == y->layout && x->m == y->m &&
	       x->k == y->k && x->n == y->n && x->m_total == y->m_total;
}

RKC_END_DECLS

#endif /* RKC_MATMUL_H */

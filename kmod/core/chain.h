/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Chains: S matmul programs in one buffer, laid out in one of four modes.
 *
 *	wait	block stride 110 words; word 108 of all but the last block is
 *		op-enable 0x0f (run, and the parser waits), word 109 padding;
 *		the last block ends with the 4-word tail.  One task.
 *	wait41	the same with the arm marker in word 108, op-enable in 109.
 *	link	112-word programs; each tail but the last names the next
 *		program's address and fetch amount.  One task per program,
 *		one submit.
 *	single	112-word programs without links, one submit each.
 */
#ifndef RKC_CHAIN_H
#define RKC_CHAIN_H

#include "types.h"
#include "matmul.h"

RKC_BEGIN_DECLS

enum rkc_mode {
	RKC_WAIT = 0,
	RKC_WAIT41 = 1,
	RKC_LINK = 2,
	RKC_SINGLE = 3,
	RKC_MODES
};

#define RKC_WAIT_STRIDE	110	/* words */
#define RKC_WAIT_MAX	1191	/* 55 * S fits PC_DATA_AMOUNT's 16 bits */
#define RKC_LINK_MAX	4095	/* task_number has 12 bits */

/**
 * struct rkc_measure - size and submit parameters of a laid-out chain
 * @words: 64-bit words of the whole buffer
 * @stride: words from one block to the next
 * @regcfg_amount: what goes into each task's regcfg_amount (body only)
 * @pc_amount: PC_DATA_AMOUNT that a driver derives from it
 * @tasks: tasks of one submit
 * @submits: submits (S in single mode, else 1)
 */
struct rkc_measure {
	u32 words;
	u32 stride;
	u32 regcfg_amount;
	u32 pc_amount;
	u32 tasks;
	u32 submits;
};

/* PC_DATA_AMOUNT for a program of @regcfg_amount body words on RK3588. */
static inline u32 rkc_pc_amount(u32 regcfg_amount)
{
	return (regcfg_amount + RKC_TAIL_WORDS + 1) / 2 - 1;
}

/* "wait", "wait41", "link", "single"; "?" for anything else. */
const char *rkc_mode_name(u32 mode);

/**
 * rkc_chain_measure() - how big, and how to submit
 * @mode: enum rkc_mode
 * @count: S, blocks
 * @m: result
 * @err: filled on refusal, may be NULL
 *
 * Return: RKC_OK, RKC_BAD_MODE, RKC_EMPTY or RKC_TOO_LONG.
 */
u32 rkc_chain_measure(u32 mode, u32 count, struct rkc_measure *m, struct rkc_err *err);

/**
 * rkc_chain_emit() - lay a chain out
 * @mode: enum rkc_mode
 * @blocks: descriptors that passed rkc_matmul_check()
 * @count: S
 * @iova: where @words will lie for the NPU (links need it), 16-byte aligned
 * @words: rkc_measure.words words
 * @err: filled on refusal, may be NULL
 *
 * Return: RKC_OK, what rkc_chain_measure() returns, RKC_IOVA_ALIGN or
 * RKC_IOVA_RANGE.
 */
u32 rkc_chain_emit(u32 mode, const struct rkc_matmul *blocks, u32 count, u64 iova,
		   u64 *words, struct rkc_err *err);

/**
 * rkc_chain_append() - add one block to a chain under construction, wait layout
 * @words: start of the buffer, room for @count + 1 blocks
 * @count: blocks there so far, < RKC_WAIT_MAX
 * @d: the block to add, passed rkc_matmul_check()
 *
 * The result is a complete chain of @count + 1 blocks after each call.
 */
void rkc_chain_append(u64 *words, u32 count, const struct rkc_matmul *d);

/**
 * struct rkc_program - a chain as somebody hands it over, not yet believed
 * @words: the words
 * @nwords: how many there are
 * @count: S, blocks
 * @stride: words from one block to the next; the last block may be longer
 * @body: words of each block before its tail (108, or another generator's 104)
 * @link: link form: tails may name a next program
 */
struct rkc_program {
	const u64 *words;
	u64 nwords;
	u32 count;
	u32 stride;
	u32 body;
	bool link;
};

#define RKC_BODY_MAX	4096	/* words of a block that anybody may hand over */
#define RKC_REG_INDEXES	272	/* registers of CNA, CORE and DPU that exist */

#define RKC_SHAPES	8	/* programs that the recogniser remembers */

/* A canonical body and what it computes; the addresses do not count. */
struct rkc_shape {
	struct rkc_matmul d;
	bool valid;
	u64 gen[RKC_BODY_WORDS];
};

/**
 * struct rkc_recogniser - scratch space of the recogniser
 *
 * About 10 KiB, too much for a kernel stack: the caller provides it, zeroed
 * before its first use.  It remembers the programs of a few shapes, because
 * layers repeat theirs.  All members are private.
 */
struct rkc_recogniser {
	/* private: */
	struct rkc_shape shapes[RKC_SHAPES];
	u64 other[RKC_BODY_WORDS];	/* the reading that is being tried */
	u32 value[RKC_REG_INDEXES];	/* final register map */
	u16 word[RKC_REG_INDEXES];	/* last word that wrote it */
	bool known[RKC_REG_INDEXES];	/* a matmul writes it */
};

/**
 * rkc_recognise() - which matmul is this block?
 * @r: scratch
 * @words: the block
 * @body: words before the tail
 * @total: words in all; those from @body on are the tail, which may be absent
 * @link: the tail may name a next program
 * @d: the descriptor; every limit of rkc_matmul_check() has been applied
 * @err: filled on refusal, may be NULL; @err->block is left 0
 *
 * Reads the final register map (last write wins, a register that is never
 * written is 0, any order) and accepts it when every register that decides the
 * result has the value that rkc_generate() would write for some descriptor.
 * Registers that only schedule may differ: 0x1010 grains, 0x1040 bank split,
 * 0x3010 bit 0, 0x4050 bit 1, an absent 0x4004, the op-enable's wait bit.
 *
 * Return: RKC_OK or the reason.
 */
u32 rkc_recognise(struct rkc_recogniser *r, const u64 *words, u32 body, u32 total,
		  bool link, struct rkc_matmul *d, struct rkc_err *err);

/**
 * rkc_program_shape() - are count, stride, body and length plausible?
 * @p: the program
 * @err: filled on refusal, may be NULL
 *
 * Return: RKC_OK, RKC_EMPTY, RKC_TOO_LONG, RKC_BAD_STRIDE or RKC_TRUNCATED.
 */
u32 rkc_program_shape(const struct rkc_program *p, struct rkc_err *err);

/**
 * rkc_program_block() - recognise block @i of a program
 * @r: scratch
 * @p: a program that passed rkc_program_shape()
 * @i: block, < count
 * @d: the descriptor
 * @err: filled on refusal with block and word, may be NULL
 *
 * Return: RKC_OK or the reason.
 */
u32 rkc_program_block(struct rkc_recogniser *r, const struct rkc_program *p, u32 i,
		      struct rkc_matmul *d, struct rkc_err *err);

/**
 * rkc_program_detect() - find out which layout a buffer of words has
 * @words: the words
 * @nwords: how many
 * @p: result: count, stride, body, link
 *
 * Knows the four layouts of ours with bodies of 108 and 104 words.
 *
 * Return: the mode (single for one program, and for several without links),
 * or RKC_MODES when nothing fits.
 */
u32 rkc_program_detect(const u64 *words, u64 nwords, struct rkc_program *p);

/**
 * rkc_chain_relayout() - the same chain in another mode
 * @r: scratch
 * @p: the chain to convert, passed rkc_program_shape()
 * @mode: enum rkc_mode wanted
 * @iova: where the result will lie for the NPU
 * @words: room for rkc_chain_measure(@mode, count) words; not @p->words
 * @err: filled on refusal, may be NULL
 *
 * Every block is recognised and generated anew: no word of @p is copied.
 *
 * Return: RKC_OK or the reason.
 */
u32 rkc_chain_relayout(struct rkc_recogniser *r, const struct rkc_program *p, u32 mode,
		       u64 iova, u64 *words, struct rkc_err *err);

RKC_END_DECLS

#endif /* RKC_CHAIN_H */

/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What generator and recogniser know of a program body between themselves.
 */
#ifndef RKC_BODY_H
#define RKC_BODY_H

#include "matmul.h"

#define RKC_CBUF_BANKS		12
#define RKC_CBUF_BANK_BYTES	32768

/* Where the three addresses stand in a canonical body. */
#define RKC_WORD_A	25
#define RKC_WORD_B	34
#define RKC_WORD_C	61

/* Every word of a body in order, value 0 where the descriptor decides it. */
extern const u64 rkc_body_template[RKC_BODY_WORDS];

static inline void rkc_copy_words(u64 *to, const u64 *from, unsigned long words)
{
	/*
	 * A copy whose size the compiler knows becomes "rep movsq" on x86, more
	 * than twice as slow as the memcpy it replaces.
	 */
	asm("" : "+r"(words));
	__builtin_memcpy(to, from, 8 * words);
}

/*
 * rkc_generate() for an image of @w x @h pixels.  Other generators write NATIVE
 * memory as an image one pixel wide: the recogniser has to know that form.
 */
void rkc_generate_image(const struct rkc_matmul *d, u32 w, u32 h, u64 *body);

/* The part of rkc_matmul_check() that a change of addresses can affect. */
u32 rkc_matmul_check_addresses(const struct rkc_matmul *d, struct rkc_err *err);

#endif /* RKC_BODY_H */

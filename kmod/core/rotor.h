/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Rotation: which core takes the next chain.  Pure policy without locks or
 * clocks; the module's scheduler, the library's own workers and the simulation
 * in virtual time all ask it.
 */
#ifndef RKC_ROTOR_H
#define RKC_ROTOR_H

#include "types.h"

RKC_BEGIN_DECLS

#define RKC_CORES	3
#define RKC_CORES_ALL	0x7u

/**
 * struct rkc_rotor - state of the cores
 * @usable: mask of cores that may be given work
 * @busy: mask of cores that run a chain
 * @next: core that is asked first next time
 */
struct rkc_rotor {
	u32 usable;
	u32 busy;
	u32 next;
};

void rkc_rotor_init(struct rkc_rotor *r, u32 usable);

/**
 * rkc_rotor_take() - give one chain to a core
 * @r: the rotor
 * @allowed: mask of cores that the chain may use, 0 = any
 *
 * Return: the core, now busy, or -1 when every core that it may use is busy or
 * unusable.
 */
int rkc_rotor_take(struct rkc_rotor *r, u32 allowed);

/* Mask of cores that could take a chain now. */
static inline u32 rkc_rotor_free(const struct rkc_rotor *r)
{
	return r->usable & ~r->busy;
}

/* The chain on @core is over. */
void rkc_rotor_release(struct rkc_rotor *r, u32 core);

/* Can any core ever take work with this mask? */
static inline bool rkc_rotor_possible(const struct rkc_rotor *r, u32 allowed)
{
	return (r->usable & (allowed ? allowed : RKC_CORES_ALL)) != 0;
}

RKC_END_DECLS

#endif /* RKC_ROTOR_H */

// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "rotor.h"

void rkc_rotor_init(struct rkc_rotor *r, u32 usable)
{
	r->usable = usable & RKC_CORES_ALL;
	r->busy = 0;
	r->next = 0;
}

int rkc_rotor_take(struct rkc_rotor *r, u32 allowed)
{
	u32 free = rkc_rotor_free(r) & (allowed ? allowed : RKC_CORES_ALL);

	for (u32 i = 0; i < RKC_CORES; i++) {
		u32 core = (r->next + i) % RKC_CORES;

		if (free & 1u << core) {
			r->busy |= 1u << core;
			r->next = (core + 1) % RKC_CORES;
			return (int)core;
		}
	}
	return -1;
}

void rkc_rotor_release(struct rkc_rotor *r, u32 core)
{
	r->busy &= ~(1u << core);
}

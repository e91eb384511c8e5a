/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Register names and fields, for people: nothing but disassembly uses them.
 */
#ifndef RKC_REGS_H
#define RKC_REGS_H

#include "types.h"

RKC_BEGIN_DECLS

/* A field of a register: bits [lo + width - 1 : lo]. */
struct rkc_field {
	const char *name;
	u8 lo;
	u8 width;
};

/**
 * struct rkc_reg - one register
 * @reg: number, page included (0x1020)
 * @target: target of the entries that write it
 * @name: without the unit, e.g. "DATA_SIZE0"
 * @fields: ended by a field whose name is NULL; NULL when the value is one number
 */
struct rkc_reg {
	u16 reg;
	u16 target;
	const char *name;
	const struct rkc_field *fields;
};

/* "CNA", "CORE", "DPU", ...; "?" for an unknown target. */
const char *rkc_target_name(u32 target);

/* Page of a target's registers: 0x1000 for CNA; -1 for an unknown target. */
int rkc_target_page(u32 target);

/* Looks a register up, NULL when the table does not have it. */
const struct rkc_reg *rkc_reg_find(u32 target, u32 reg);

/* The whole table, in ascending order; *@count entries. */
const struct rkc_reg *rkc_reg_table(u32 *count);

RKC_END_DECLS

#endif /* RKC_REGS_H */

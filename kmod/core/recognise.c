// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The recogniser: register program -> descriptor.
 *
 * Threat model: the words come from somebody who wants the NPU to touch memory
 * that is not theirs or to compute with what another client left behind.
 * Looking at registers one by one is never finished, because a program says
 * the same size in many places and stale registers fill what it leaves out.
 * So a program is accepted only when all of it is what our own generator would
 * have written, scheduling apart, and what runs is our generator's program.
 */
#include "chain.h"
#include "entry.h"
#include "body.h"

/* Register index: the units' pages one after the other. */
#define CNA_REGS	128	/* 0x1000 .. 0x11fc */
#define CORE_REGS	16	/* 0x3000 .. 0x303c */
#define DPU_REGS	128	/* 0x4000 .. 0x41fc */
#define NO_INDEX	RKC_REG_INDEXES
#define UNWRITTEN	0xffffu

_Static_assert(CNA_REGS + CORE_REGS + DPU_REGS == RKC_REG_INDEXES, "register index");

static u32 reg_index(u32 reg)
{
	if (reg % 4)
		return NO_INDEX;
	if (reg >= 0x1000 && reg < 0x1000 + 4 * CNA_REGS)
		return (reg - 0x1000) / 4;
	if (reg >= 0x3000 && reg < 0x3000 + 4 * CORE_REGS)
		return CNA_REGS + (reg - 0x3000) / 4;
	if (reg >= 0x4000 && reg < 0x4000 + 4 * DPU_REGS)
		return CNA_REGS + CORE_REGS + (reg - 0x4000) / 4;
	return NO_INDEX;
}

/* Bits of registers that only schedule: they may have any value. */
#define FREE_1010	0x3ff0u	/* grains */
#define FREE_1040	0x00ffu	/* bank split */
#define FREE_3010	0x1u
#define FREE_4050	0x2u
#define FREE_ADDRESS	0xffffffffu

static u32 schedule_bits(u32 reg)
{
	switch (reg) {
	case 0x1010:
		return FREE_1010;
	case 0x1040:
		return FREE_1040;
	case 0x3010:
		return FREE_3010;
	case 0x4050:
		return FREE_4050;
	default:
		return 0;
	}
}

static bool is_unit_target(u32 target)
{
	return target == RKC_TARGET_CNA || target == RKC_TARGET_CORE || target == RKC_TARGET_DPU;
}

/* What is wrong with a write to the PC. */
static u32 pc_reason(u32 reg)
{
	switch (reg) {
	case RKC_PC_ADDRESS:
	case RKC_PC_AMOUNT:
		return RKC_JUMP;
	case 0x20:
	case 0x24:
		return RKC_INT_MASK;
	case 0x30:
		return RKC_TASK_CONTROL;
	case 0x34:
		return RKC_BASE_ADDRESS;
	default:
		return RKC_PC_WRITE;
	}
}

/* What is wrong with a value, or with leaving a register out. */
static u32 value_reason(u32 reg, u64 have, u64 want)
{
	switch (reg) {
	case 0x100c:
	case 0x3010:
	case 0x4010:
	case 0x4050:
		return RKC_PRECISION;
	case 0x1010:
	case 0x1014:
		return RKC_COWORK;
	case 0x1030:
	case 0x1034:
		return have < want ? RKC_SHORT_WEIGHTS : RKC_SIZE_MISMATCH;
	case 0x1040:
		return RKC_CBUF_REUSE;
	case 0x1020:
	case 0x1024:
	case 0x1028:
	case 0x102c:
	case 0x1038:
	case 0x1044:
	case 0x1084:
	case 0x1088:
	case 0x3014:
	case 0x3018:
	case 0x4030:
	case 0x4034:
	case 0x403c:
	case 0x4058:
	case 0x405c:
		return RKC_SIZE_MISMATCH;
	case 0x107c:
	case 0x1080:
	case 0x4024:
	case 0x4038:
	case 0x40c0:
		return RKC_STRIDE;
	case 0x1100:
	case 0x1104:
		return RKC_COMPRESSION;
	case 0x4004:
		return RKC_POINTER;
	default:
		break;
	}
	if (reg >= 0x1140 && reg <= 0x117c)
		return RKC_COMPRESSION;
	if (reg >= 0x4100 && reg <= 0x412c)
		return RKC_LUT;
	return RKC_VALUE;
}

static u32 check_tail_word(u64 entry, u32 word, bool link, struct rkc_err *err)
{
	const u32 target = rkc_entry_target(entry);
	const u32 reg = rkc_entry_reg(entry);
	const u32 value = rkc_entry_value(entry);

	switch (target) {
	case RKC_TARGET_NOP:
	case RKC_TARGET_ARM:
		if (reg || value)
			return rkc_refuse(err, RKC_BAD_PADDING, word, reg, entry, 0);
		return RKC_OK;
	case RKC_TARGET_OP_ENABLE:
		if (reg != RKC_PC_OP_ENABLE || (value | 2) != RKC_OP_MATMUL_WAIT)
			return rkc_refuse(err, RKC_BAD_OP_ENABLE, word, reg, value,
					  RKC_OP_MATMUL);
		return RKC_OK;
	case RKC_TARGET_PC:
		if ((reg != RKC_PC_ADDRESS && reg != RKC_PC_AMOUNT) || (value && !link))
			return rkc_refuse(err, pc_reason(reg), word, reg, value, 0);
		return RKC_OK;
	default:
		return rkc_refuse(err,
				  is_unit_target(target) ? RKC_BAD_PADDING : RKC_FOREIGN_TARGET,
				  word, reg, target, 0);
	}
}

static u32 check_tail(const u64 *words, u32 body, u32 total, bool link, struct rkc_err *err)
{
	for (u32 i = body; i < total; i++) {
		u32 ret = check_tail_word(words[i], i, link, err);

		if (ret)
			return ret;
	}
	return RKC_OK;
}

/*
 * The quick way: words in the canonical order.  What may differ is first taken
 * over into our own program, so that the rest is one comparison of memory.
 */
static void take_over(u64 *gen, const u64 *words, u32 i, u32 bits)
{
	const u64 mask = (u64)bits << 16;

	gen[i] = (gen[i] & ~mask) | (words[i] & mask);
}

static bool matches(u64 *gen, const u64 *words)
{
	static const struct {
		u32 word;
		u32 bits;
	} free_bits[] = {
		{ 0, FREE_1040 }, { 15, FREE_1040 }, { 6, FREE_1010 }, { 53, FREE_3010 },
		{ 71, FREE_4050 }, { RKC_WORD_A, FREE_ADDRESS },
		{ RKC_WORD_B, FREE_ADDRESS }, { RKC_WORD_C, FREE_ADDRESS },
	};

	for (u32 i = 0; i < sizeof(free_bits) / sizeof(free_bits[0]); i++)
		take_over(gen, words, free_bits[i].word, free_bits[i].bits);
	return !__builtin_memcmp(words, gen, RKC_BODY_WORDS * sizeof(*gen));
}

/* The descriptor that canonical words seem to describe; not yet believed. */
static void read_canonical(const u64 *words, struct rkc_matmul *d)
{
	const u32 conv = rkc_entry_value(words[5]);
	const u32 size = rkc_entry_value(words[8]);
	const u32 out = rkc_entry_value(words[59]) >> 29;

	if (conv >> 4 & 7)
		d->type = out == 5 ? RKC_F16_F32 : RKC_F16_F16;
	else
		d->type = out == 4 ? RKC_I8_I32 : RKC_I8_I8;
	if (!(conv >> 29 & 1))
		d->layout = RKC_NATIVE;
	else
		d->layout = rkc_entry_value(words[65]) ? RKC_FLAT : RKC_SLICE;
	d->reserved = 0;
	d->m = d->layout == RKC_FLAT ? size & 0xffff : size >> 16;
	d->k = rkc_entry_value(words[9]) & 0xffff;
	d->n = rkc_entry_value(words[14]) & 0xffff;
	d->m_total = d->layout == RKC_SLICE ? rkc_entry_value(words[28]) : d->m;
}

/* Where a shape is remembered: odd multipliers, because sizes are round numbers. */
static struct rkc_shape *shape_slot(struct rkc_recogniser *r, const struct rkc_matmul *d)
{
	const u32 hash = d->k * 0x9e3779b1u ^ d->n * 0x85ebca6bu ^ d->m * 0xc2b2ae35u;

	return &r->shapes[hash >> 16 & (RKC_SHAPES - 1)];
}

static bool recognise_canonical(struct rkc_recogniser *r, const u64 *words, struct rkc_matmul *d)
{
	struct rkc_shape *shape;

	read_canonical(words, d);
	shape = shape_slot(r, d);
	if (!shape->valid || !rkc_same_shape(&shape->d, d)) {
		d->a = 0;
		d->b = 0;
		d->c = 0;
		if (rkc_matmul_check(d, (struct rkc_err *)0))
			return false;
		rkc_generate(d, shape->gen);
		shape->d = *d;
		shape->valid = true;
	}
	if (!matches(shape->gen, words))
		return false;
	d->a = rkc_entry_value(words[RKC_WORD_A]);
	d->b = rkc_entry_value(words[RKC_WORD_B]);
	d->c = rkc_entry_value(words[RKC_WORD_C]);
	return !rkc_matmul_check_addresses(d, (struct rkc_err *)0);
}

/*
 * The thorough way: any order, repeats, other generators, and the place to
 * point at when nothing fits.
 */
static u32 read_map(struct rkc_recogniser *r, const u64 *words, u32 body, struct rkc_err *err)
{
	for (u32 i = 0; i < RKC_REG_INDEXES; i++) {
		r->value[i] = 0;
		r->word[i] = UNWRITTEN;
		r->known[i] = false;
	}
	for (u32 i = 0; i < RKC_BODY_WORDS; i++)
		r->known[reg_index(rkc_entry_reg(rkc_body_template[i]))] = true;

	for (u32 i = 0; i < body; i++) {
		const u32 target = rkc_entry_target(words[i]);
		const u32 reg = rkc_entry_reg(words[i]);
		u32 page, index;

		switch (target) {
		case RKC_TARGET_NOP:
			if (words[i])
				return rkc_refuse(err, RKC_BAD_PADDING, i, reg, words[i], 0);
			continue;
		case RKC_TARGET_CNA:
			page = 0x1000;
			break;
		case RKC_TARGET_CORE:
			page = 0x3000;
			break;
		case RKC_TARGET_DPU:
			page = 0x4000;
			break;
		case RKC_TARGET_PC:
			return rkc_refuse(err, pc_reason(reg), i, reg,
					  rkc_entry_value(words[i]), 0);
		case RKC_TARGET_OP_ENABLE:
		case RKC_TARGET_ARM:
			/* In the body it would start something half written. */
			return rkc_refuse(err, RKC_BAD_OP_ENABLE, i, reg,
					  rkc_entry_value(words[i]), 0);
		default:
			return rkc_refuse(err, RKC_FOREIGN_TARGET, i, reg, target, 0);
		}
		if ((reg & 0xf000) != page)
			return rkc_refuse(err, RKC_PAGE_MISMATCH, i, reg, reg & 0xf000, page);
		index = reg_index(reg);
		if (index == NO_INDEX || !r->known[index]) {
			u32 reason = RKC_UNKNOWN_REG;

			if ((reg & 0xfff) == 0x4)
				reason = RKC_POINTER;
			else if ((reg & 0xfff) == 0x8)
				reason = RKC_UNIT_OP_ENABLE;
			return rkc_refuse(err, reason, i, reg, rkc_entry_value(words[i]), 0);
		}
		r->value[index] = rkc_entry_value(words[i]);
		r->word[index] = (u16)i;
	}
	return RKC_OK;
}

static u32 value_of(const struct rkc_recogniser *r, u32 reg)
{
	return r->value[reg_index(reg)];
}

/* Two out of three, so that the one that differs is the one to be named. */
static u32 majority(u32 x, u32 y, u32 z)
{
	return y == z ? y : x;
}

static u32 type_from(u32 precision, u32 e)
{
	if (precision == 2)
		return e == 3 ? RKC_F16_F32 : RKC_F16_F16;
	return e == 7 ? RKC_I8_I32 : RKC_I8_I8;
}

static u32 e_from_out(u32 out)
{
	if (out == 4)
		return 7;
	return out == 5 ? 3 : 1;
}

/* Does value match what the descriptor's program would write? Counts misses. */
static u32 count_misses(struct rkc_recogniser *r, u32 *miss_reg, u32 *miss_want)
{
	u32 misses = 0;
	u32 first = RKC_NO_WORD;

	for (u32 i = 0; i < RKC_BODY_WORDS; i++) {
		const u32 reg = rkc_entry_reg(r->other[i]);
		const u32 index = reg_index(reg);
		const u32 want = rkc_entry_value(r->other[i]);
		const u32 where = r->word[index];

		if (!((r->value[index] ^ want) & ~schedule_bits(reg)))
			continue;
		/* The driver's own program order does not need it. */
		if (reg == 0x4004 && where == UNWRITTEN)
			continue;
		misses++;
		if (where < first) {
			first = where;
			*miss_reg = reg;
			*miss_want = want;
		}
	}
	return misses;
}

/* Ways to read the image: how wide, how high, which layout. */
enum reading { READ_FLAT, READ_SLICE, READ_WIDE, READ_TALL, READINGS };

static u32 try_reading(struct rkc_recogniser *r, enum reading how, struct rkc_matmul *d,
		       u32 *miss_reg, u32 *miss_want)
{
	const u32 size = majority(value_of(r, 0x1020), value_of(r, 0x1084),
				  (value_of(r, 0x1028) & 0xffff) << 16 |
				  ((value_of(r, 0x405c) >> 16) + 1));
	const u32 w = size >> 16;
	const u32 h = size & 0xffff;

	switch (how) {
	case READ_FLAT:
		d->layout = RKC_FLAT;
		d->m = h;
		break;
	case READ_SLICE:
		d->layout = RKC_SLICE;
		d->m = w;
		break;
	case READ_WIDE:
		d->layout = RKC_NATIVE;
		d->m = w;
		break;
	default:
		d->layout = RKC_NATIVE;
		d->m = h;
		break;
	}
	d->m_total = d->m;
	if (how == READ_SLICE)
		d->m_total = majority(value_of(r, 0x107c), value_of(r, 0x4024) / 16,
				      value_of(r, 0x1080) + d->m);
	if (how == READ_FLAT || how == READ_TALL)
		rkc_generate_image(d, 1, d->m, r->other);
	else
		rkc_generate_image(d, d->m, 1, r->other);
	return count_misses(r, miss_reg, miss_want);
}

static void read_dimensions(const struct rkc_recogniser *r, struct rkc_matmul *d)
{
	const u32 dst = value_of(r, 0x4024);
	const u32 precision = majority(value_of(r, 0x100c) >> 4 & 7, value_of(r, 0x3010) >> 8 & 7,
				       value_of(r, 0x4010) & 7);
	const u32 e = majority(e_from_out(value_of(r, 0x4010) >> 29),
			       value_of(r, 0x4050) >> 8 & 7,
			       dst ? value_of(r, 0x40c0) / dst - 1 : 0);

	d->type = (u8)type_from(precision, e);
	d->reserved = 0;
	d->k = majority(value_of(r, 0x1024) & 0xffff, value_of(r, 0x1088),
			value_of(r, 0x1034) / rkc_in_bytes(d->type));
	d->n = majority(value_of(r, 0x1038) & 0xffff, value_of(r, 0x3018) + 1,
			value_of(r, 0x4058) + 1);
	d->a = value_of(r, 0x1070);
	d->b = value_of(r, 0x1110);
	d->c = value_of(r, 0x4020);
}

static u32 word_of(const struct rkc_recogniser *r, u32 reg)
{
	const u32 word = r->word[reg_index(reg)];

	return word == UNWRITTEN ? RKC_NO_WORD : word;
}

static u32 recognise_map(struct rkc_recogniser *r, struct rkc_matmul *d, struct rkc_err *err)
{
	u32 best_misses = ~0u, best_reg = 0, best_want = 0;
	enum reading best = READ_FLAT;
	struct rkc_err limit;
	u32 ret, have;

	read_dimensions(r, d);
	for (u32 how = 0; how < READINGS; how++) {
		u32 reg = 0, want = 0;
		u32 misses = try_reading(r, (enum reading)how, d, &reg, &want);

		if (misses < best_misses) {
			best_misses = misses;
			best_reg = reg;
			best_want = want;
			best = (enum reading)how;
		}
	}
	if (best_misses) {
		have = value_of(r, best_reg);
		ret = word_of(r, best_reg) == RKC_NO_WORD ? RKC_MISSING_REG :
							    value_reason(best_reg, have, best_want);
		return rkc_refuse(err, ret, word_of(r, best_reg), best_reg, have, best_want);
	}
	/* 0 is an address like any other, but not by leaving it out. */
	for (u32 i = 0; i < 3; i++) {
		static const u16 addresses[] = { 0x1070, 0x1110, 0x4020 };

		if (word_of(r, addresses[i]) == RKC_NO_WORD)
			return rkc_refuse(err, RKC_MISSING_REG, RKC_NO_WORD, addresses[i], 0, 0);
	}
	try_reading(r, best, d, &best_reg, &best_want);
	ret = rkc_matmul_check(d, &limit);
	if (ret)
		rkc_refuse(err, ret, word_of(r, limit.reg), limit.reg, limit.value, limit.limit);
	return ret;
}

u32 rkc_recognise(struct rkc_recogniser *r, const u64 *words, u32 body, u32 total, bool link,
		  struct rkc_matmul *d, struct rkc_err *err)
{
	u32 ret;

	if (!body)
		return rkc_refuse(err, RKC_EMPTY, RKC_NO_WORD, 0, 0, 1);
	if (body > total || body > RKC_BODY_MAX)
		return rkc_refuse(err, RKC_BAD_STRIDE, RKC_NO_WORD, 0, body,
				  total < RKC_BODY_MAX ? total : RKC_BODY_MAX);
	if (body != RKC_BODY_WORDS || !recognise_canonical(r, words, d)) {
		ret = read_map(r, words, body, err);
		if (!ret)
			ret = recognise_map(r, d, err);
		if (ret)
			return ret;
	}
	return check_tail(words, body, total, link, err);
}

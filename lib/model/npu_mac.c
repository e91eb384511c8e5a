// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * CNA, CORE and DPU: one matmul from and to memory, computed from registers.
 *
 * What the MAC array consumes is described by other registers than what is
 * fetched for it.  So features and weights go through CBUF, and whatever was
 * not fetched is what an earlier block or client left there.  Registers that
 * ask for anything that the model does not have are a fault, never ignored.
 */
#include "npu_core.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "NPU memory is little-endian");

#define MAX_SIDE	8192	/* W, H, N: fields of 13 bits hold them minus 1 */
#define MAX_K		16384

static u32 reg(const struct npu_op *op, u32 addr)
{
	u32 page = addr >> 12;

	return op->regs[page == 1 ? NPU_UNIT_CNA : page == 3 ? NPU_UNIT_CORE : NPU_UNIT_DPU]
		       [(addr & 0xfff) / 4];
}

static int want(struct npu_core *core, int ok, u32 addr, const struct npu_op *op)
{
	return ok ? 0 : npu_set_fault(core, NPU_FAULT_UNSUPPORTED, addr, reg(op, addr));
}

/* Registers with one value that the model implements: mostly "bypass" and "off". */
static const struct {
	u16 first;
	u16 last;
	u32 value;
} fixed[] = {
	{ 0x1014, 0x1014, 0x9 },	/* no co-work, no deconvolution, stride 1 */
	{ 0x104c, 0x104c, 0xb },	/* no conversion of features */
	{ 0x1050, 0x105c, 0x10000 },
	{ 0x1060, 0x1068, 0 },		/* no FC skip */
	{ 0x1074, 0x1074, 0 },
	{ 0x1100, 0x1104, 0 },		/* no decompression of weights */
	{ 0x1140, 0x117c, 0 },
	{ 0x1180, 0x1184, 0 },
	{ 0x301c, 0x301c, 0 },
	{ 0x3030, 0x3030, 0 },
	{ 0x400c, 0x400c, 0x1e4 },
	{ 0x4014, 0x4014, 0 },
	{ 0x4040, 0x4040, 0x53 },	/* BS bypassed */
	{ 0x4044, 0x404c, 0 },
	{ 0x4054, 0x4054, 0 },
	{ 0x4060, 0x4060, 0x53 },	/* BN bypassed */
	{ 0x4064, 0x406c, 0 },
	{ 0x4070, 0x4070, 0x383 },	/* EW bypassed */
	{ 0x4074, 0x4074, 0 },
	{ 0x4078, 0x4078, 1 },
	{ 0x407c, 0x407c, 0 },
	{ 0x4090, 0x40ac, 0 },
	{ 0x40c4, 0x40c4, 0 },
	{ 0x4100, 0x412c, 0 },		/* no LUT */
};

static int parse_fixed(struct npu_core *core, const struct npu_op *op)
{
	u32 i, addr;

	for (i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		for (addr = fixed[i].first; addr <= fixed[i].last; addr += 4)
			if (want(core, reg(op, addr) == fixed[i].value, addr, op))
				return -1;
	return 0;
}

/* CNA: what is fetched and what is consumed. */
static int parse_cna(struct npu_core *core, struct npu_op *op)
{
	u32 format = reg(op, 0x100c), precision = (format >> 4) & 7;
	u32 banks = reg(op, 0x1040), data_banks = banks & 15, weight_banks = (banks >> 4) & 15;
	u32 kernels = reg(op, 0x1038);
	u32 surface = reg(op, 0x1080);
	u64 group_fetch;

	if (want(core, precision == 0 || precision == 2, 0x100c, op) ||
	    want(core, (format & ~(1u << 29)) == (precision << 7 | precision << 4), 0x100c, op))
		return -1;
	op->fp16 = precision == 2;
	op->size = op->fp16 ? 2 : 1;
	op->kernels_per_group = op->fp16 ? NPU_F16_KERNELS : NPU_ACC_KERNELS;

	op->w = reg(op, 0x1020) >> 16;
	op->h = reg(op, 0x1020) & 0xffff;
	op->k = reg(op, 0x1024) & 0xffff;
	op->n = kernels & 0x3fff;
	if (want(core, op->w && op->w <= MAX_SIDE && op->h && op->h <= MAX_SIDE, 0x1020, op) ||
	    want(core, op->k && op->k <= MAX_K && op->k % NPU_BLOCK_CHANNELS == 0 &&
		 reg(op, 0x1024) >> 16 == op->k - 1, 0x1024, op) ||
	    want(core, kernels >> 16 == 0x0101 && !(kernels & 0xc000) && op->n &&
		 op->n <= MAX_SIDE && op->n % op->kernels_per_group == 0, 0x1038, op) ||
	    want(core, reg(op, 0x1028) == op->w, 0x1028, op) ||
	    want(core, reg(op, 0x102c) == op->w * op->h, 0x102c, op))
		return -1;
	op->groups = op->n / op->kernels_per_group;

	/* Fewer rows or channels than consumed leave stale data; more are not understood. */
	op->rows_fetched = reg(op, 0x1084) & 0xffff;
	if (want(core, reg(op, 0x1084) >> 16 == op->w && op->rows_fetched <= op->h, 0x1084, op) ||
	    want(core, reg(op, 0x1088) <= op->k, 0x1088, op) ||
	    want(core, reg(op, 0x1070) % NPU_ATOM == 0, 0x1070, op) ||
	    want(core, reg(op, 0x1110) % NPU_ATOM == 0, 0x1110, op) ||
	    want(core, surface < 1u << 28, 0x1080, op))
		return -1;
	op->bytes_fetched = reg(op, 0x1088) * op->size;
	op->feature = (u64)core->task_base + reg(op, 0x1070);
	op->grouping = format & 1u << 29 ? 1 : 4;
	op->line = (s64)reg(op, 0x107c) * NPU_ATOM;
	op->surface = ((s64)surface - (surface & 1u << 27 ? 1 << 28 : 0) +
		       (s64)op->grouping * op->w) * NPU_ATOM;

	if (want(core, !(banks & ~0x30ffu) && data_banks + weight_banks <= NPU_CBUF_BANKS,
		 0x1040, op) ||
	    want(core, reg(op, 0x1044) <= 0xffff, 0x1044, op) ||
	    want(core, !(reg(op, 0x1010) & ~0x3ff0u), 0x1010, op))
		return -1;
	op->keep_data = banks >> 12 & 1;
	op->keep_weights = banks >> 13 & 1;
	op->grains = reg(op, 0x1010) >> 4;
	op->data_bytes = data_banks * NPU_CBUF_BANK_BYTES;
	op->weight_base = op->data_bytes;
	op->weight_bytes = weight_banks * NPU_CBUF_BANK_BYTES;
	op->pitch = reg(op, 0x1044) * 64;

	/*
	 * The rows of CBUF are a ring.  One row always has its place, and loses
	 * its end when it does not fit.  A ring starts with a whole group of rows
	 * where it can, so that each group is fetched once.
	 */
	op->ring = op->pitch ? op->data_bytes / op->pitch : op->h;
	if (op->ring >= op->h)
		op->ring = op->h;
	else if (op->ring >= op->grouping)
		op->ring -= op->ring % op->grouping;
	else if (!op->ring)
		op->ring = 1;

	op->weight = (u64)core->task_base + reg(op, 0x1110);
	op->weight_total = reg(op, 0x1030);
	group_fetch = (u64)reg(op, 0x1034) * op->kernels_per_group;
	if (want(core, group_fetch <= 0xffffffffu, 0x1034, op))
		return -1;
	op->group_fetch = (u32)group_fetch;
	op->group_need = op->k * op->size * op->kernels_per_group;
	return 0;
}

/* CORE and DPU have sizes of their own: what happens when they differ is not known. */
static int parse_sizes(struct npu_core *core, const struct npu_op *op)
{
	u32 w = op->w - 1, h = op->h - 1, n = op->n - 1;

	return want(core, reg(op, 0x3014) == (h << 16 | w), 0x3014, op) ||
	       want(core, reg(op, 0x3018) == n, 0x3018, op) ||
	       want(core, reg(op, 0x4030) == w, 0x4030, op) ||
	       want(core, reg(op, 0x4034) == h, 0x4034, op) ||
	       want(core, reg(op, 0x403c) == (n << 16 | n), 0x403c, op) ||
	       want(core, reg(op, 0x4058) == n, 0x4058, op) ||
	       want(core, reg(op, 0x405c) == (h << 16 | w), 0x405c, op) ? -1 : 0;
}

static int parse_dpu(struct npu_core *core, struct npu_op *op)
{
	u32 precision = op->fp16 ? 2 : 0;
	u32 notch = reg(op, 0x4038) & 0xffff;
	u32 element, surfaces, scale = reg(op, 0x4084), convert;

	/* Bit 0 of 0x3010 is clear only in int8 programs that have been seen. */
	if (want(core, (reg(op, 0x3010) & ~1u) == precision << 8 &&
		 (!op->fp16 || reg(op, 0x3010) & 1), 0x3010, op))
		return -1;
	op->out_type = reg(op, 0x4010) >> 29;
	if (want(core, op->out_type == NPU_OUT_INT32 || op->out_type == NPU_OUT_INT8 ? !op->fp16 :
		 (op->out_type == NPU_OUT_FP32 || op->out_type == NPU_OUT_FP16) && op->fp16,
		 0x4010, op) ||
	    want(core, (reg(op, 0x4010) & 0x1fffffff) == (precision << 26 | precision),
		 0x4010, op))
		return -1;
	element = op->out_type == NPU_OUT_INT8 ? 1 : op->out_type == NPU_OUT_FP16 ? 2 : 4;
	op->out.slices = op->kernels_per_group * element / NPU_ATOM;
	surfaces = op->out.slices - 1;
	if (want(core, (reg(op, 0x4050) & ~2u) ==
		 (surfaces << 8 | surfaces << 5 | surfaces << 2), 0x4050, op) ||
	    want(core, reg(op, 0x4038) == (notch << 16 | notch) && notch <= 0x1fff, 0x4038, op) ||
	    want(core, reg(op, 0x4020) % NPU_ATOM == 0, 0x4020, op))
		return -1;

	/* The output conversion is known for int8 only, and FP32TOFP16. */
	convert = op->out_type == NPU_OUT_INT8;
	if (want(core, convert || !reg(op, 0x4080), 0x4080, op) ||
	    want(core, convert ? scale <= 0xffff :
		 scale == (op->out_type == NPU_OUT_FP16 ? 0x10001 : 1), 0x4084, op) ||
	    want(core, reg(op, 0x4088) <= (convert ? 62 : 0), 0x4088, op))
		return -1;
	op->offset = (s32)reg(op, 0x4080);
	op->scale = (s16)scale;
	op->shift = reg(op, 0x4088);

	op->out.base = (u64)core->task_base + reg(op, 0x4020);
	op->out.slice = reg(op, 0x4024) & ~15u;
	op->out.surface = reg(op, 0x40c0) & ~15u;
	op->out.row = (u64)NPU_ATOM * (op->w + notch);
	op->out.w = op->w;
	op->out.h = op->h;
	op->out.groups = op->groups;
	return 0;
}

static u64 weight_span(const struct npu_op *op)
{
	u64 len = (u64)op->group_fetch * op->groups;

	/* The bound that the NPU is known to keep: rounded up more than what is consumed. */
	return ((len < op->weight_total ? op->weight_total : len) + 63) & ~63ull;
}

/*
 * Reading a group's weights where they are, without copying them to CBUF, is the
 * same when nothing else reads that part of CBUF and nobody writes that part of
 * memory meanwhile: features that are consumed from beyond the data banks do, and
 * outputs into the weights.
 */
static u32 may_use_in_place(const struct npu_op *op)
{
	const struct npu_out *out = &op->out;
	u64 end = out->base + out->slice * (out->slices - 1) + out->surface * (out->groups - 1) +
		  out->row * (out->h - 1) + (u64)NPU_ATOM * out->w;

	return (u64)(op->ring - 1) * op->pitch + (u64)op->w * op->k * op->size <=
	       op->data_bytes &&
	       (end <= op->weight || out->base >= op->weight + weight_span(op));
}

static int parse(struct npu_core *core, u32 group, struct npu_op *op)
{
	u32 unit;

	memset(op, 0, sizeof(*op));
	for (unit = 0; unit < NPU_UNITS; unit++)
		op->regs[unit] = core->regs[unit][group];
	if (parse_cna(core, op) || parse_sizes(core, op) || parse_dpu(core, op) ||
	    parse_fixed(core, op))
		return -1;
	op->direct = may_use_in_place(op);
	return 0;
}

/* ---- CNA: memory to CBUF ---- */

static void store_atoms(struct npu_core *core, const struct npu_op *op, u32 y, u32 slice,
			const u8 *src)
{
	u32 row = y % op->ring * op->pitch;
	u32 room = op->data_bytes - row < op->pitch ? op->data_bytes - row : op->pitch;
	u32 len = op->bytes_fetched - slice * NPU_ATOM;
	u32 at = slice * NPU_ATOM;
	u32 x;

	/* Everything is a multiple of an atom, so an atom is stored or lost whole. */
	for (x = 0; x < op->w && at < room; x++) {
		if (len >= NPU_ATOM)
			__builtin_memcpy(core->cbuf + row + at, src, NPU_ATOM);
		else
			memcpy(core->cbuf + row + at, src, len);
		at += op->k * op->size;
		src += NPU_ATOM;
	}
}

/* Rows y .. y + rows - 1. A group of rows is read whole, whatever is wanted of it. */
static int load_rows(struct npu_core *core, const struct npu_op *op, u32 y, u32 rows)
{
	u32 end = y + rows < op->rows_fetched ? y + rows : op->rows_fetched;
	u32 band = y / op->grouping, slices = (op->bytes_fetched + NPU_ATOM - 1) / NPU_ATOM, i;
	struct npu_walk walk = {
		.access = NPU_FEATURE,
		.reg = 0x1070,
		.base = op->feature,
		.first = band * op->line,
		.len = (u64)NPU_ATOM * op->grouping * op->w,
		.dim = { { 0, op->line }, { slices, op->surface } },
	};
	const u8 *src;

	if (y >= end || !slices)
		return 0;
	walk.dim[0].count = (end - 1) / op->grouping - band + 1;
	while ((src = npu_walk_next(core, &walk)))
		for (i = 0; i < op->grouping; i++) {
			u32 row = (band + walk.at[0]) * op->grouping + i;

			if (row >= y && row < end)
				store_atoms(core, op, row, walk.at[1],
					    src + (u64)NPU_ATOM * i * op->w);
		}
	return walk.failed ? -1 : 0;
}

static int map_weights(struct npu_core *core, struct npu_op *op)
{
	u64 len = weight_span(op);

	if (op->keep_weights || !len)
		return 0;
	op->weights = npu_dma(core, NPU_WEIGHT, 0x1110, op->weight, len);
	return op->weights ? 0 : -1;
}

/*
 * Groups follow each other at the start of the weight banks, so of those that
 * were used in place only the last can still be seen there: all have the same
 * size.
 */
static void store_lazy(struct npu_core *core, struct npu_op *op)
{
	if (op->lazy)
		memcpy(core->cbuf + op->weight_base,
		       op->weights + (u64)(op->lazy - 1) * op->group_fetch, op->group_fetch);
	op->lazy = 0;
}

/* A group's weights in memory, or NULL when they are to be taken from CBUF. */
static const u8 *load_weights(struct npu_core *core, struct npu_op *op, u32 group)
{
	u64 first = (u64)group * op->group_fetch;
	u64 len = op->group_fetch;

	if (op->keep_weights)
		return NULL;
	if (first >= op->weight_total)
		len = 0;
	else if (len > op->weight_total - first)
		len = op->weight_total - first;
	if (len > op->weight_bytes)
		len = op->weight_bytes;
	if (op->direct && len == op->group_need && len == op->group_fetch) {
		op->lazy = group + 1;
		return op->weights + first;
	}
	store_lazy(core, op);
	if (len)
		memcpy(core->cbuf + op->weight_base, op->weights + first, len);
	return NULL;
}

/* ---- CORE: the MAC array ---- */

void npu_dot_i8(s32 *acc, const s8 *feature, u64 pixel_stride, const s8 *weight, u32 pixels,
		u32 k)
{
	u32 pixel, block, n, c;

	for (pixel = 0; pixel < pixels; pixel++) {
		const s8 *w = weight;

		memset(acc, 0, NPU_ACC_KERNELS * sizeof(*acc));
		for (block = 0; block < k / NPU_BLOCK_CHANNELS; block++) {
			const s8 *f = feature + block * NPU_BLOCK_CHANNELS;

			for (n = 0; n < NPU_ACC_KERNELS; n++) {
				s32 sum = 0;

				for (c = 0; c < NPU_BLOCK_CHANNELS; c++)
					sum += f[c] * w[c];
				acc[n] += sum;
				w += NPU_BLOCK_CHANNELS;
			}
		}
		feature += pixel_stride;
		acc += NPU_ACC_KERNELS;
	}
}

/* 32 channels of a pixel; beyond its end CBUF starts again. */
const u8 *npu_feature_block(const struct npu_core *core, const struct npu_op *op, u32 at, u32 block)
{
	return core->cbuf + (at + (u64)block * NPU_BLOCK_CHANNELS * op->size) % NPU_CBUF_BYTES;
}

const u8 *npu_weight_block(const struct npu_core *core, const struct npu_op *op, const u8 *weights,
			   u32 block)
{
	if (weights)
		return weights + (u64)block * NPU_BLOCK_BYTES;
	return core->cbuf + (op->weight_base + (u64)block * NPU_BLOCK_BYTES) % NPU_CBUF_BYTES;
}

static void mac_i8(struct npu_core *core, const struct npu_op *op, u32 at, u32 stride,
		   const u8 *weights, u32 pixels)
{
	void (*dot)(s32 *acc, const s8 *feature, u64 pixel_stride, const s8 *weight, u32 pixels,
		    u32 k) = core->ops->dot_i8 ? core->ops->dot_i8 : npu_dot_i8;
	s32 part[NPU_ACC_KERNELS];
	u32 pixel, block, n;

	if (!weights && op->weight_base + op->group_need <= NPU_CBUF_BYTES)
		weights = core->cbuf + op->weight_base;
	if (weights && at + (u64)(pixels - 1) * stride + op->k <= NPU_CBUF_BYTES) {
		dot(core->acc[0], (const s8 *)core->cbuf + at, stride, (const s8 *)weights, pixels,
		    op->k);
		return;
	}
	memset(core->acc, 0, pixels * sizeof(core->acc[0]));
	for (pixel = 0; pixel < pixels; pixel++, at += stride)
		for (block = 0; block < op->k / NPU_BLOCK_CHANNELS; block++) {
			npu_dot_i8(part, (const s8 *)npu_feature_block(core, op, at, block), 0,
				   (const s8 *)npu_weight_block(core, op, weights, block), 1,
				   NPU_BLOCK_CHANNELS);
			for (n = 0; n < NPU_ACC_KERNELS; n++)
				core->acc[pixel][n] += part[n];
		}
}

/* ---- DPU: sums to memory ---- */

static s8 to_int8(const struct npu_op *op, s32 sum)
{
	s64 value = (((s64)sum * op->scale) >> op->shift) + op->offset;

	return value < -128 ? -128 : value > 127 ? 127 : value;
}

/* Sums as atoms of output elements. */
static void stage(struct npu_core *core, const struct npu_op *op, u32 pixels)
{
	u32 pixel, slice, i;

	for (slice = 0; slice < op->out.slices; slice++)
		for (pixel = 0; pixel < pixels; pixel++) {
			const s32 *acc = core->acc[pixel];
			u8 *atom = core->stage[slice][pixel];

			if (op->out_type == NPU_OUT_INT8) {
				for (i = 0; i < 16; i++)
					atom[i] = to_int8(op, acc[slice * 16 + i]);
			} else if (op->out_type == NPU_OUT_FP16) {
				for (i = 0; i < 8; i++) {
					u16 h = npu_f32_to_f16(acc[slice * 8 + i]);

					__builtin_memcpy(atom + 2 * i, &h, 2);
				}
			} else {
				__builtin_memcpy(atom, acc + slice * 4, NPU_ATOM);
			}
			for (i = 0; core->knobs.bad && i < NPU_ATOM; i += 4)
				atom[i] ^= 1;
		}
}

/* Maps the output at once if it is contiguous. */
static int map_output(struct npu_core *core, struct npu_out *out)
{
	struct npu_dim dim[3] = {
		{ out->slices, out->slice },
		{ out->groups, out->surface },
		{ out->h, out->row },
	};
	s64 first = 0;
	u64 len = (u64)NPU_ATOM * out->w;

	out->mapped = 1;
	if (npu_merge(dim, 3, &first, &len) != 7)
		return 0;
	out->whole = npu_dma(core, NPU_OUTPUT, 0x4020, out->base, len);
	return out->whole ? 0 : -1;
}

/*
 * Writes one kernel group's atoms of @count pixels, which lie in one row unless
 * rows have one pixel; those of a slice are at @src + slice * @pitch.
 */
static int put(struct npu_core *core, struct npu_out *out, u32 group, u32 pixel, u32 count,
	       const u8 *src, u64 pitch)
{
	u32 rows = out->w == 1 ? count : 1;
	u32 bytes = NPU_ATOM * (out->w == 1 ? 1 : count);
	struct npu_walk walk = {
		.access = NPU_OUTPUT,
		.reg = 0x4020,
		.base = out->base,
		.first = group * out->surface + pixel / out->w * out->row +
			 (u64)NPU_ATOM * (pixel % out->w),
		.len = bytes,
		.dim = { { out->slices, out->slice }, { rows, out->row } },
	};
	u32 slice, row;
	u8 *dst;

	if (!out->mapped && map_output(core, out))
		return -1;
	if (out->whole) {
		for (row = 0; !out->lost && row < rows; row++)
			for (slice = 0; slice < out->slices; slice++)
				memcpy(out->whole + walk.first + slice * out->slice +
				       row * out->row,
				       src + slice * pitch + (u64)row * NPU_ATOM, bytes);
		return 0;
	}
	while ((dst = npu_walk_next(core, &walk)))
		if (!out->lost)
			memcpy(dst, src + walk.at[0] * pitch + (u64)walk.at[1] * NPU_ATOM, bytes);
	return walk.failed ? -1 : 0;
}

int npu_flush(struct npu_core *core)
{
	struct npu_out *out = &core->held;
	u64 pitch = (u64)out->w * out->h * NPU_ATOM;
	u32 count = out->w == 1 ? out->h : out->w, group, pixel;
	const u8 *src = core->held_data;

	if (!core->held_valid)
		return 0;
	core->held_valid = 0;
	for (group = 0; group < out->groups; group++, src += pitch * out->slices)
		for (pixel = 0; pixel < out->w * out->h; pixel += count)
			if (put(core, out, group, pixel, count, src + (u64)pixel * NPU_ATOM,
				pitch))
				return -1;
	return 0;
}

/* To memory, or to where a late knob keeps it in the order that npu_flush() expects. */
static int output(struct npu_core *core, struct npu_op *op, u32 group, u32 pixel, u32 count)
{
	u64 pitch = (u64)op->w * op->h * NPU_ATOM;
	u8 *dst;
	u32 slice;

	stage(core, op, count);
	if (!op->hold)
		return put(core, &op->out, group, pixel, count, core->stage[0][0],
			   sizeof(core->stage[0]));
	dst = op->hold + pitch * op->out.slices * group + (u64)pixel * NPU_ATOM;
	for (slice = 0; slice < op->out.slices; slice++)
		memcpy(dst + slice * pitch, core->stage[slice], count * NPU_ATOM);
	return 0;
}

/* ---- all together ---- */

/* @count pixels from @pixel on, which are @stride apart at @at in CBUF. */
static int compute(struct npu_core *core, struct npu_op *op, u32 group, const u8 *weights,
		   u32 pixel, u32 count, u32 at, u32 stride)
{
	u32 first, i;

	if (!op->fp16)
		mac_i8(core, op, at, stride, weights, count);
	for (first = 0; op->fp16 && first < count; first += NPU_F16_PIXELS) {
		i = count - first < NPU_F16_PIXELS ? count - first : NPU_F16_PIXELS;
		npu_mac_f16(core, op, at + first * stride, stride, weights, i, core->acc + first);
	}
	return output(core, op, group, pixel, count);
}

/* A kernel group over the rows that are in CBUF together. */
static int compute_rows(struct npu_core *core, struct npu_op *op, u32 group, const u8 *weights,
			u32 y, u32 rows)
{
	u32 length = op->w == 1 ? rows : op->w;	/* pixels at equal distances */
	u32 step = op->w == 1 ? rows : 1;
	u32 stride = op->w == 1 ? op->pitch : op->k * op->size;
	u32 row, x, count;

	for (row = y; row < y + rows; row += step)
		for (x = 0; x < length; x += count) {
			count = length - x < NPU_ACC_PIXELS ? length - x : NPU_ACC_PIXELS;
			if (compute(core, op, group, weights, row * op->w + x, count,
				    row % op->ring * op->pitch + x * stride, stride))
				return -1;
		}
	return 0;
}

static int compute_groups(struct npu_core *core, struct npu_op *op)
{
	u32 fetch = op->grains && !op->keep_data;
	u32 group, y, rows;

	if (fetch && op->ring >= op->h && load_rows(core, op, 0, op->h))
		return -1;
	for (group = 0; group < op->groups; group++) {
		const u8 *weights = load_weights(core, op, group);

		for (y = 0; y < op->h; y += op->ring) {
			rows = op->h - y < op->ring ? op->h - y : op->ring;
			/* Rows that do not fit together come again for each group. */
			if (fetch && op->ring < op->h && load_rows(core, op, y, rows))
				return -1;
			if (compute_rows(core, op, group, weights, y, rows))
				return -1;
		}
	}
	/* Without grains the array does not wait for features. */
	for (y = 0; !op->grains && !op->keep_data && y < op->h; y += op->ring)
		if (load_rows(core, op, y, op->ring))
			return -1;
	return 0;
}

static int hold(struct npu_core *core, struct npu_op *op)
{
	u64 len = (u64)op->w * op->h * NPU_ATOM * op->out.slices * op->groups;

	core->held_which ^= 1;
	op->hold = core->ops->scratch ?
		   core->ops->scratch(core->ops->ctx, core->held_which, len) : NULL;
	return op->hold ? 0 : npu_set_fault(core, NPU_FAULT_NO_SCRATCH, 0, (u32)len);
}

int npu_execute(struct npu_core *core, u32 group)
{
	struct npu_op op;
	int ret;

	if (parse(core, group, &op))
		return -1;
	if (!core->knobs.rawlate && npu_flush(core))
		return -1;
	if ((core->knobs.late || core->knobs.rawlate) && hold(core, &op))
		return -1;
	op.out.lost = core->knobs.cold && !core->warm;

	if (map_weights(core, &op))
		return -1;
	ret = compute_groups(core, &op);
	store_lazy(core, &op);
	if (ret)
		return ret;

	/* The block before is written now: this one has read. */
	ret = npu_flush(core);
	if (op.hold) {
		core->held = op.out;
		core->held_data = op.hold;
		core->held_valid = 1;
	}
	core->warm = 1;
	core->counters.macs += (u64)op.w * op.h * op.n * op.k;
	return ret;
}

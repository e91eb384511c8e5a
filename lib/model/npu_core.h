/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the files of the model share: the state of a core.  Users need it only
 * to allocate one without npu_core_size().
 */
#ifndef NPU_CORE_H
#define NPU_CORE_H

#include "npu.h"

NPU_BEGIN_DECLS

#define NPU_ACC_PIXELS		64	/* pixels accumulated at a time */
#define NPU_ACC_KERNELS		32	/* an int8 kernel group; fp16: the first 16 */
#define NPU_F16_PIXELS		8
#define NPU_F16_KERNELS		16
#define NPU_BLOCK_CHANNELS	32	/* channels that the weight layout keeps together */
#define NPU_BLOCK_BYTES		1024	/* those of a kernel group, int8 or fp16 */
#define NPU_ATOM		16	/* bytes */
#define NPU_MAX_SLICES		8	/* atoms that one kernel group writes per pixel */

__extension__ typedef __int128 npu_s128;
__extension__ typedef unsigned __int128 npu_u128;

enum npu_unit { NPU_UNIT_CNA, NPU_UNIT_CORE, NPU_UNIT_DPU };

enum npu_state { NPU_STATE_IDLE, NPU_STATE_RUNNING, NPU_STATE_STUCK };

/* Output formats, as in 0x4010. */
enum npu_out_type {
	NPU_OUT_INT8 = 0,
	NPU_OUT_FP16 = 2,
	NPU_OUT_INT32 = 4,
	NPU_OUT_FP32 = 5
};

struct npu_dim {
	u32 count;
	s64 stride;
};

/* Blocks of @len bytes in two dimensions, each run mapped once. */
struct npu_walk {
	enum npu_access access;
	u32 reg;
	u64 base;
	s64 first;		/* offset of the first block */
	u64 len;
	struct npu_dim dim[2];
	u32 at[2];		/* the block that npu_walk_next() returned */

	u32 outer;
	u32 merged;
	s64 run_first;
	u64 run_len;
	s64 mapped;
	u8 *p;
	u8 started;
	u8 failed;
};

/* Where a block's output goes; all of it comes from DPU registers. */
struct npu_out {
	u64 base;
	u64 surface;		/* bytes between kernel groups */
	u64 slice;		/* bytes between atoms of one pixel in a group */
	u64 row;		/* bytes between rows */
	u32 w;
	u32 h;
	u32 groups;
	u32 slices;
	u8 *whole;		/* all of it, when it is one contiguous run */
	u8 mapped;
	u8 lost;		/* knob cold */
};

/* A block, as its registers describe it. */
struct npu_op {
	const u32 *regs[NPU_UNITS];

	u32 fp16;
	u32 size;		/* bytes of an element */
	u32 kernels_per_group;
	u32 w;
	u32 h;
	u32 k;
	u32 n;
	u32 groups;

	u64 feature;
	u32 grouping;		/* rows that the feature layout keeps together */
	s64 line;		/* bytes between such groups of rows */
	s64 surface;		/* bytes between 16-byte slices of the channels */
	u32 rows_fetched;
	u32 bytes_fetched;	/* of a pixel */
	u32 pitch;		/* bytes of a row in CBUF */
	u32 ring;		/* rows that CBUF holds at a time */
	u32 data_bytes;
	u32 grains;
	u32 keep_data;		/* consume what is there, fetch nothing */
	u32 keep_weights;

	u64 weight;
	u32 weight_total;
	u32 group_fetch;	/* bytes that are fetched for a kernel group */
	u32 group_need;		/* bytes that it consumes */
	u32 weight_base;	/* in CBUF */
	u32 weight_bytes;
	const u8 *weights;
	u32 direct;		/* weights may be used where they are */
	u32 lazy;		/* 1 + the group used so last; 0 = none */

	u32 out_type;
	s64 offset;
	s64 scale;
	u32 shift;
	struct npu_out out;
	u8 *hold;
};

/*
 * One core.
 *
 * @acc: sums of one kernel group: int32, or fp32 bits
 * @stage: the same as atoms, [slice][pixel]
 * @sum: exact sums of fp16 products, in units of 2^-48
 * @fixed_feature: fp16 values in units of 2^-24
 * @fixed_weight: the same
 * @held: an output that a late knob holds back, with @held_data
 * @running: launched and not executed yet; then @wait and @run_group count
 * @producer: group that register writes go to
 * @last: group that was launched last
 * @armed: S_POINTER has been written since
 * @marker: 0x0041 has been seen since the last op-enable
 * @signalled: completion, by this job
 * @warm: there was an output since init or reset
 * @program: entries that the PC has fetched; NULL between programs
 * @launched: op-enables with effect in this program
 * @unmasked: status bits that show whatever the mask
 * @done: DPU bit of the group that retired last
 */
struct npu_core {
	u8 cbuf[NPU_CBUF_BYTES];
	s32 acc[NPU_ACC_PIXELS][NPU_ACC_KERNELS];
	u8 stage[NPU_MAX_SLICES][NPU_ACC_PIXELS][NPU_ATOM];
	npu_s128 sum[NPU_F16_PIXELS][NPU_F16_KERNELS];
	s64 fixed_feature[NPU_F16_PIXELS][NPU_BLOCK_CHANNELS];
	s64 fixed_weight[NPU_F16_KERNELS][NPU_BLOCK_CHANNELS];
	u32 regs[NPU_UNITS][2][NPU_UNIT_REGS];

	const struct npu_ops *ops;
	struct npu_knobs knobs;
	struct npu_counters counters;
	struct npu_fault fault;
	u32 id;

	struct npu_out held;
	u8 *held_data;
	u32 held_which;
	u8 held_valid;

	u8 state;
	u8 running;
	u8 wait;
	u8 run_group;
	u8 producer;
	u8 last;
	u8 armed[NPU_UNITS];
	u8 marker;
	u8 signalled;
	u8 warm;

	const u8 *program;
	u32 words;
	u32 word;
	u32 block;
	u32 launched;

	u32 data_addr;
	u32 data_amount;
	u32 int_mask;
	u32 raw;
	u32 unmasked;
	u32 done;
	u32 task_con;
	u32 task_base;
	u32 tasks_done;
};

/* Records the job's first fault. Returns -1, for the caller to return. */
int npu_set_fault(struct npu_core *core, u32 code, u32 reg, u32 value);

/* ops->map() with fault and counters; @reg: where the address came from. */
u8 *npu_dma(struct npu_core *core, enum npu_access access, u32 reg, u64 iova, u64 len);

/* One matmul from and to memory, with a group's registers. Returns 0, or -1 with the fault set. */
int npu_execute(struct npu_core *core, u32 group);

/* Writes what a late knob holds back. Returns 0, or -1 with the fault set. */
int npu_flush(struct npu_core *core);

/*
 * Widens [*off, *off + *len), a block, over the dimensions in which copies of it
 * leave no gap. Returns a mask of them.
 */
u32 npu_merge(const struct npu_dim *dim, u32 dims, s64 *off, u64 *len);

/* The next block, or NULL at the end or when @failed. */
u8 *npu_walk_next(struct npu_core *core, struct npu_walk *w);

/* 32 channels of the pixel at @at in CBUF. */
const u8 *npu_feature_block(const struct npu_core *core, const struct npu_op *op, u32 at,
			    u32 block);

/* 32 channels of a kernel group, from @weights or, when NULL, from CBUF. */
const u8 *npu_weight_block(const struct npu_core *core, const struct npu_op *op,
			   const u8 *weights, u32 block);

/* Up to NPU_F16_PIXELS pixels, @stride apart, against a kernel group: fp32 bits. */
void npu_mac_f16(struct npu_core *core, const struct npu_op *op, u32 at, u32 stride,
		 const u8 *weights, u32 pixels, s32 acc[][NPU_ACC_KERNELS]);

NPU_END_DECLS

#endif /* NPU_CORE_H */

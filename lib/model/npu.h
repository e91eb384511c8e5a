/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The software NPU: one RK3588 NPU core at register level.
 *
 * Written from what is known of the hardware, and sharing no code with
 * kmod/core, so that it can judge the programs that kmod/core generates.
 * Freestanding C: user space and a kernel module compile the same files.
 * Memory is reached through one callback only.
 *
 * A driver uses it as it would use the hardware: npu_write() the PC registers,
 * start, wait for the interrupt, npu_read() the status.  Time does not pass by
 * itself: npu_step() executes up to the next event.
 *
 * What silicon does is not known in every case.  struct npu_knobs lets each
 * open question be answered either way.
 */
#ifndef NPU_H
#define NPU_H

#include "npu_types.h"

NPU_BEGIN_DECLS

#define NPU_CBUF_BANKS		12
#define NPU_CBUF_BANK_BYTES	32768
#define NPU_CBUF_BYTES		(NPU_CBUF_BANKS * NPU_CBUF_BANK_BYTES)
#define NPU_UNITS		3	/* CNA, CORE, DPU */
#define NPU_UNIT_REGS		128	/* u32 registers of a unit's page that exist */

/* Registers of the PC window that a driver uses. */
#define NPU_PC_VERSION		0x00
#define NPU_PC_VERSION_NUM	0x04
#define NPU_PC_OP_ENABLE	0x08
#define NPU_PC_DATA_ADDR	0x10
#define NPU_PC_DATA_AMOUNT	0x14
#define NPU_PC_INT_MASK		0x20
#define NPU_PC_INT_CLEAR	0x24
#define NPU_PC_INT_STATUS	0x28
#define NPU_PC_INT_RAW_STATUS	0x2c
#define NPU_PC_TASK_CON		0x30
#define NPU_PC_TASK_BASE_ADDR	0x34
#define NPU_PC_TASK_STATUS	0x3c

/* Interrupt bits (two DPU bits: one per register group). */
#define NPU_INT_DPU_0		(1u << 8)
#define NPU_INT_DPU_1		(1u << 9)
#define NPU_INT_DMA_READ_ERROR	(1u << 12)
#define NPU_INT_DMA_WRITE_ERROR	(1u << 13)

/* What a memory access is for. */
enum npu_access {
	NPU_FETCH,	/* register program */
	NPU_FEATURE,
	NPU_WEIGHT,
	NPU_OUTPUT,
	NPU_ACCESSES
};

/**
 * struct npu_ops - the world around a core
 * @map: bytes [iova, iova + len) for an access of this kind, or NULL when the
 *	address is not mapped or not allowed: that is a DMA error.  Called once
 *	for each contiguous run that the core touches, with its exact bounds, so
 *	it is the access trace as well (features that do not fit CBUF are read
 *	again for each kernel group).  The memory of a NPU_FETCH run is read
 *	until its program has ended; the others only within the same npu_step()
 * @dot_i8: optional fast path, same result as npu_dot_i8(); NULL = plain C
 * @ctx: handed to @map and @scratch
 * @scratch: optional, needed by the knobs that hold outputs back: at least
 *	@len bytes that are the core's until it asks for buffer @which (0 or 1)
 *	again or npu_reset(); NULL = no memory
 */
struct npu_ops {
	void *(*map)(void *ctx, enum npu_access access, u64 iova, u64 len);
	void (*dot_i8)(s32 *acc, const s8 *feature, u64 pixel_stride, const s8 *weight,
		       u32 pixels, u32 k);
	void *ctx;
	void *(*scratch)(void *ctx, u32 which, u64 len);
};

/**
 * struct npu_knobs - how this piece of silicon behaves; all zero = as claimed
 * @nowait: op-enable bit 1 does not make the parser wait
 * @early: completion is signalled after the first block of the last program
 * @needs41: an op-enable without the 0x0041 marker before it is ignored
 * @late: the last block's output is in memory only npu_settle() after completion
 * @rawlate: a block's output is in memory only after the next block has read
 * @bad: every 32-bit output word has bit 0 of its first byte flipped
 * @drop: a start is accepted and nothing happens (no interrupt, counter 0)
 *	until npu_reset()
 * @stuck: execution stops inside the first block for ever
 * @cold: the first block's output after npu_init() or npu_reset() is lost
 * @wrong_status: raised instead of the DPU bits when not 0, masked or not
 * @stuck_after: with @stuck: blocks that still execute before it sticks
 */
struct npu_knobs {
	u8 nowait;
	u8 early;
	u8 needs41;
	u8 late;
	u8 rawlate;
	u8 bad;
	u8 drop;
	u8 stuck;
	u8 cold;
	u8 reserved[3];
	u32 wrong_status;
	u32 stuck_after;
};

/* Since npu_init(). */
struct npu_counters {
	u64 starts;		/* op-enables of the PC */
	u64 programs;		/* programs executed to their end */
	u64 blocks;		/* matmuls executed */
	u64 interrupts;
	u64 words;		/* 64-bit entries of register programs fetched */
	u64 macs;
	u64 bytes[NPU_ACCESSES];
	u64 ignored;		/* op-enables without effect */
};

/* Why execution stopped with a program that the model cannot judge. */
struct npu_fault {
	u32 code;	/* enum npu_fault_code */
	u32 block;	/* since the start of the job */
	u32 word;	/* 64-bit entry, since the start of the program */
	u32 reg;	/* as in the manual: 0x1070, or 0x10 for the PC */
	u32 value;
};

enum npu_fault_code {
	NPU_FAULT_NONE,
	NPU_FAULT_DMA_READ,	/* value: low 32 bits of the address */
	NPU_FAULT_DMA_WRITE,
	NPU_FAULT_BAD_ENTRY,	/* target and page disagree, or no such target */
	NPU_FAULT_UNKNOWN_REG,	/* a register that no unit of the model has */
	NPU_FAULT_UNSUPPORTED,	/* reg: what it asks for is not modelled */
	NPU_FAULT_NO_OP,	/* program ended and nothing was launched */
	NPU_FAULT_NO_NEXT,	/* tasks remain and no next program is given */
	NPU_FAULT_NO_SCRATCH	/* a knob needs npu_ops.scratch */
};

/* Events of npu_step(), a mask. */
#define NPU_EV_BLOCK	1u	/* one block has been executed */
#define NPU_EV_IRQ	2u	/* the interrupt line went up */
#define NPU_EV_IDLE	4u	/* nothing left to execute */
#define NPU_EV_STUCK	8u	/* nothing will ever happen until npu_reset() */

struct npu_core;	/* defined in npu_core.h for those who allocate one */

/**
 * npu_core_size() - bytes of a struct npu_core
 *
 * Return: about 420 KiB, to be aligned as malloc() and vmalloc() do.
 */
u64 npu_core_size(void);

/**
 * npu_init() - power-on: registers and CBUF zero, no knobs
 * @core: the core
 * @id: which of the three
 * @ops: must outlive the core
 */
void npu_init(struct npu_core *core, u32 id, const struct npu_ops *ops);

/**
 * npu_reset() - device reset: stops execution
 * @core: the core
 *
 * Shadow registers and CBUF keep what they had.  An output that a knob holds
 * back is lost.
 */
void npu_reset(struct npu_core *core);

/**
 * npu_poison() - as if an earlier client had left this
 * @core: the core
 * @pattern: for CBUF and for every shadow register of both groups
 */
void npu_poison(struct npu_core *core, u32 pattern);

/**
 * npu_knobs() - the knobs, to be changed between jobs
 * @core: the core
 *
 * Return: never NULL.
 */
struct npu_knobs *npu_knobs(struct npu_core *core);

/**
 * npu_counters() - what the core did since npu_init()
 * @core: the core
 *
 * Return: never NULL.
 */
const struct npu_counters *npu_counters(const struct npu_core *core);

/**
 * npu_fault() - the first fault of the job that ran last
 * @core: the core
 *
 * A DMA error completes the job with an interrupt and an error bit.  With any
 * other fault the core is stuck, as the model cannot tell what silicon does.
 *
 * Return: never NULL; code NPU_FAULT_NONE when there was none.
 */
const struct npu_fault *npu_fault(const struct npu_core *core);

/**
 * npu_fault_text() - a fault in words
 * @code: enum npu_fault_code
 *
 * Return: never NULL.
 */
const char *npu_fault_text(u32 code);

/**
 * npu_write() - a write to the core's 64 KiB window
 * @core: the core
 * @offset: as in the manual
 * @value: what is written
 *
 * A start while the core is busy is counted and otherwise lost.
 */
void npu_write(struct npu_core *core, u32 offset, u32 value);

/**
 * npu_read() - a read from the core's 64 KiB window
 * @core: the core
 * @offset: as in the manual
 *
 * Return: the register; 0 for one that the model does not have.
 */
u32 npu_read(const struct npu_core *core, u32 offset);

/**
 * npu_step() - executes up to the next event
 * @core: the core
 *
 * Return: a mask of NPU_EV_*.
 */
u32 npu_step(struct npu_core *core);

/**
 * npu_busy() - is a job started and not finished?
 * @core: the core
 *
 * Return: 1 or 0; a stuck core is busy.
 */
int npu_busy(const struct npu_core *core);

/**
 * npu_settle() - lets outputs that the late knobs hold back reach memory
 * @core: the core
 */
void npu_settle(struct npu_core *core);

/**
 * struct npu_job - what a driver writes for one job, in one struct
 * @regcmd: address of the first program
 * @amount: PC_DATA_AMOUNT
 * @int_mask: interrupt bits that complete it (0x300 for matmuls)
 * @tasks: task_number
 * @pingpong: flag PINGPONG of the stock driver
 */
struct npu_job {
	u32 regcmd;
	u32 amount;
	u32 int_mask;
	u32 tasks;
	u32 pingpong;
};

/**
 * npu_start() - writes the registers in the stock driver's order and starts
 * @core: the core
 * @job: what to run
 */
void npu_start(struct npu_core *core, const struct npu_job *job);

/**
 * npu_run() - steps until interrupt, idle or stuck
 * @core: the core
 *
 * Return: the mask that ended it.
 */
u32 npu_run(struct npu_core *core);

/**
 * npu_dot_i8() - the MAC array on one kernel group, plain C
 * @acc: [pixels][32], overwritten
 * @feature: pixel p's K channels at feature + p * pixel_stride
 * @weight: [K / 32][32 kernels][32 channels]
 * @pixels: rows
 * @k: multiple of 32
 */
void npu_dot_i8(s32 *acc, const s8 *feature, u64 pixel_stride, const s8 *weight, u32 pixels,
		u32 k);

/**
 * npu_f16_to_f32() - IEEE 754 binary16 to binary32, exact
 * @h: the bits
 *
 * Return: the bits; a NaN comes out quiet.
 */
u32 npu_f16_to_f32(u16 h);

/**
 * npu_f32_to_f16() - IEEE 754 binary32 to binary16, to nearest even
 * @f: the bits
 *
 * Return: the bits; infinity beyond the range, a NaN comes out quiet.
 */
u16 npu_f32_to_f16(u32 f);

NPU_END_DECLS

#endif /* NPU_H */

/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The part of the stock rknpu driver's ABI that rkchain uses, as the 0.8 and 0.9
 * versions speak it on the RK3588: a DRM driver named "rknpu", ioctl type 'd',
 * numbers from 0x40 on, all of them for card and render nodes alike.
 *
 * Declared anew from the layout: every offset that matters is asserted where the
 * header is used.
 */
#ifndef _UAPI_RKNPU_H
#define _UAPI_RKNPU_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Numbers within the driver's own range, which starts at 0x40 (DRM_COMMAND_BASE). */
#define RKNPU_ACTION		0
#define RKNPU_SUBMIT		1
#define RKNPU_MEM_CREATE	2
#define RKNPU_MEM_MAP		3
#define RKNPU_MEM_DESTROY	4
#define RKNPU_MEM_SYNC		5
#define RKNPU_IOCTLS		6

/* Subjects of ACTION.  4, the voltage, is never to be asked for: a driver without
 * a regulator falls over it.
 */
#define RKNPU_GET_HW_VERSION	0
#define RKNPU_GET_DRV_VERSION	1	/* 0.9.8 is 908 */
#define RKNPU_GET_FREQ		2
#define RKNPU_ACT_RESET		6	/* all cores, of all clients */
#define RKNPU_GET_IOMMU_EN	18
#define RKNPU_GET_IOMMU_DOMAIN	24	/* drivers before 0.9.6 do not know it */

/* SUBMIT flags. */
#define RKNPU_JOB_PC		(1U << 0)	/* mandatory */
#define RKNPU_JOB_NONBLOCK	(1U << 1)
#define RKNPU_JOB_PINGPONG	(1U << 2)
#define RKNPU_JOB_FENCE_IN	(1U << 3)
#define RKNPU_JOB_FENCE_OUT	(1U << 4)

/* MEM_CREATE flags. */
#define RKNPU_MEM_NON_CONTIGUOUS	(1U << 0)
#define RKNPU_MEM_CACHEABLE		(1U << 1)
#define RKNPU_MEM_WRITE_COMBINE		(1U << 2)
#define RKNPU_MEM_KERNEL_MAPPING	(1U << 3)	/* what a task array needs */
#define RKNPU_MEM_IOMMU			(1U << 4)
#define RKNPU_MEM_ZEROING		(1U << 5)
#define RKNPU_MEM_TRY_ALLOC_SRAM	(1U << 8)
#define RKNPU_MEM_IOVA_ALIGNMENT	(1U << 10)	/* limits it */

/* MEM_SYNC flags. */
#define RKNPU_MEM_SYNC_TO_DEVICE	(1U << 0)
#define RKNPU_MEM_SYNC_FROM_DEVICE	(1U << 1)

/* What an interrupt of a matmul reports: DPU done, either register group. */
#define RKNPU_INT_DPU		0x300

#define RKNPU_MAX_CORES		5	/* places in a submit; the RK3588 has 3 cores */

/**
 * struct rknpu_task - one register program, in an array in a buffer
 * @flags: not read
 * @op_idx: not read
 * @enable_mask: not read
 * @int_mask: interrupts that end the task
 * @int_clear: not read
 * @int_status: out, of the last task of a submit only
 * @regcfg_amount: words of the body; the driver adds the 4 of the tail
 * @regcfg_offset: not read
 * @regcmd_addr: IOVA of the program
 */
struct rknpu_task {
	__u32 flags;
	__u32 op_idx;
	__u32 enable_mask;
	__u32 int_mask;
	__u32 int_clear;
	__u32 int_status;
	__u32 regcfg_amount;
	__u32 regcfg_offset;
	__u64 regcmd_addr;
} __attribute__((packed));

/**
 * struct rknpu_subcore_task - a core's part of a submit
 * @task_start: first task
 * @task_number: tasks
 */
struct rknpu_subcore_task {
	__u32 task_start;
	__u32 task_number;
};

/**
 * struct rknpu_submit - argument of SUBMIT, 104 bytes
 * @flags: RKNPU_JOB_*
 * @timeout: ms; the driver waits up to three times as long
 * @task_start: first task
 * @task_number: tasks, not 0
 * @task_counter: out
 * @priority: not read
 * @task_obj_addr: of the buffer that holds the tasks; taken as it is
 * @iommu_domain_id: 0
 * @reserved: 0
 * @task_base_addr: 0; anything else moves every DMA address
 * @hw_elapse_time: out, ns, blocking submits only
 * @core_mask: 0 for the driver's choice, else 1, 2 or 4
 * @fence_fd: -1
 * @subcore_task: by core when one core is asked for
 */
struct rknpu_submit {
	__u32 flags;
	__u32 timeout;
	__u32 task_start;
	__u32 task_number;
	__u32 task_counter;
	__s32 priority;
	__u64 task_obj_addr;
	__u32 iommu_domain_id;
	__u32 reserved;
	__u64 task_base_addr;
	__s64 hw_elapse_time;
	__u32 core_mask;
	__s32 fence_fd;
	struct rknpu_subcore_task subcore_task[RKNPU_MAX_CORES];
};

/**
 * struct rknpu_mem_create - argument of MEM_CREATE, 48 bytes
 * @handle: 0 to allocate, or an existing GEM handle to look up; out
 * @flags: RKNPU_MEM_*
 * @size: bytes; out
 * @obj_addr: out, how the driver's other calls name the buffer
 * @dma_addr: out, IOVA
 * @sram_size: from 0.8.3 on
 * @iommu_domain_id: from 0.9.6 on
 * @core_mask: 0.9.8; reserved before
 *
 * Older drivers take the first 40 or 32 bytes.
 */
struct rknpu_mem_create {
	__u32 handle;
	__u32 flags;
	__u64 size;
	__u64 obj_addr;
	__u64 dma_addr;
	__u64 sram_size;
	__s32 iommu_domain_id;
	__u32 core_mask;
};

#define RKNPU_MEM_CREATE_SIZE_OLD	32
#define RKNPU_MEM_CREATE_SIZE_SRAM	40

/**
 * struct rknpu_mem_map - argument of MEM_MAP
 * @handle: GEM handle
 * @reserved: 0
 * @offset: out, for mmap of the node
 */
struct rknpu_mem_map {
	__u32 handle;
	__u32 reserved;
	__u64 offset;
};

/**
 * struct rknpu_mem_destroy - argument of MEM_DESTROY
 * @handle: GEM handle
 * @reserved: 0
 * @obj_addr: of the same buffer
 */
struct rknpu_mem_destroy {
	__u32 handle;
	__u32 reserved;
	__u64 obj_addr;
};

/**
 * struct rknpu_mem_sync - argument of MEM_SYNC
 * @flags: RKNPU_MEM_SYNC_*
 * @reserved: 0
 * @obj_addr: of the buffer; taken as it is
 * @offset: bytes
 * @size: bytes
 */
struct rknpu_mem_sync {
	__u32 flags;
	__u32 reserved;
	__u64 obj_addr;
	__u64 offset;
	__u64 size;
};

/**
 * struct rknpu_action - argument of ACTION
 * @flags: RKNPU_GET_* or RKNPU_ACT_*
 * @value: in or out
 */
struct rknpu_action {
	__u32 flags;
	__u32 value;
};

#define RKNPU_IOWR(n, type)	_IOWR('d', 0x40 + (n), type)

#define RKNPU_IOCTL_ACTION	RKNPU_IOWR(RKNPU_ACTION, struct rknpu_action)
#define RKNPU_IOCTL_SUBMIT	RKNPU_IOWR(RKNPU_SUBMIT, struct rknpu_submit)
#define RKNPU_IOCTL_MEM_CREATE	RKNPU_IOWR(RKNPU_MEM_CREATE, struct rknpu_mem_create)
#define RKNPU_IOCTL_MEM_MAP	RKNPU_IOWR(RKNPU_MEM_MAP, struct rknpu_mem_map)
#define RKNPU_IOCTL_MEM_DESTROY	RKNPU_IOWR(RKNPU_MEM_DESTROY, struct rknpu_mem_destroy)
#define RKNPU_IOCTL_MEM_SYNC	RKNPU_IOWR(RKNPU_MEM_SYNC, struct rknpu_mem_sync)

#endif /* _UAPI_RKNPU_H */

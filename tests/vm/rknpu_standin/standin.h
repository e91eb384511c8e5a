/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stand-in for the stock rknpu driver in a virtual machine: its ABI and its
 * behaviour, bugs included, on the hardware that npu_model plays.
 *
 * Where the stock driver would use freed memory or a wild pointer, the stand-in
 * counts: "trap" is a corrupted queue, "oops" a bad pointer, "late_call" an ioctl
 * and "late_put" a buffer freed after the driver was unbound.
 *
 * Locks: standin_objects_lock (mutex) guards the list of objects.  standin_lock
 * guards all that is of jobs, cores and counters, is taken in interrupts, and is
 * innermost.  standin.reset_lock is held for the whole of a reset and outermost.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <linux/irqreturn.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>

#include <drm/drm_device.h>
#include <drm/drm_gem.h>

#include "rknpu.h"

#define CORES		3
#define DRV_VERSION	908	/* 0.9.8 */

struct clk;
struct drm_driver;
struct drm_file;
struct job;
struct sg_table;

struct core {
	u32 id;
	void __iomem *window;
	wait_queue_head_t wait;
	struct list_head queue;	/* of jobs that were not committed, and of tombstones */
	struct job *running;
	u64 tasks;		/* queued and running */
	bool dead;		/* dispatches no more */
};

struct standin {
	struct drm_device drm;
	struct clk *clk;
	struct core core[CORES];
	struct mutex reset_lock;	/* a reset is under way */
	bool resetting;
	bool gone;		/* unbound: no windows, no interrupts */
};

static inline struct standin *to_standin(struct drm_device *drm)
{
	return container_of(drm, struct standin, drm);
}

struct standin_object {
	struct drm_gem_object base;	/* first: the ABI's obj_addr */
	struct list_head node;
	u32 flags;
	void *cpu;		/* what a process, the driver and the sg table see */
	struct page *device;	/* what the NPU sees: a copy when CACHEABLE */
	dma_addr_t dma;
	struct sg_table *sgt;	/* of an import, which has no memory of its own */
};

static inline struct standin_object *to_object(struct drm_gem_object *base)
{
	return container_of(base, struct standin_object, base);
}

struct standin_core_stats {
	u64 submits;
	u64 dispatches;
	u64 done;
	u32 queued;		/* not committed, somebody waits */
	u32 tombstones;		/* queued, but freed by the stock driver */
	u32 running;
	u32 dead;
};

/* Since the module was loaded. */
struct standin_stats {
	u64 actions;
	u64 resets;
	u64 resets_asked;
	u64 time_outs;
	u64 bystanders;		/* committed jobs that a reset took down */
	u64 missed;		/* those that missed the wake-up */
	u64 trap;
	u64 freed_dispatch;
	u64 oops;
	u64 in_window;		/* submits during a reset */
	u64 stale;		/* interrupts of no job, or one that a reset took down */
	u64 late_call;
	u64 late_put;
	u64 objects;
	u64 bytes;
	u64 to_device;
	u64 from_device;
	u64 last_submit_ns;
	struct standin_core_stats core[CORES];
};

struct standin_knobs {
	u32 miss_wakeup;
	u32 reset_ms;
	u32 iommu_domain;
	bool wake_queued;
	bool no_reset;
	bool no_memory;		/* MEM_CREATE makes nothing */
	bool iova_high;		/* and tells addresses that 32 bits cannot hold */
};

enum standin_event {
	EVENT_SUBMIT,
	EVENT_DISPATCH,
	EVENT_DONE,
	EVENT_GIVE_UP,
	EVENT_RESET,
	EVENT_WAKE,
	EVENT_RESET_END,
	EVENTS
};

extern spinlock_t standin_lock;
extern struct standin_stats standin_stats;
extern struct standin_knobs standin_knobs;
extern bool standin_trap_log;

void standin_count(u64 *counter);
void standin_enter(struct drm_device *drm);
void standin_log(enum standin_event event, u32 core, s64 value);
void standin_debugfs_add(void);
void standin_debugfs_remove(void);

int standin_others_init(const struct drm_driver *driver);
void standin_others_exit(void);
int standin_others_set(u64 wanted);

struct standin_object *standin_object_get(u64 obj_addr);
struct drm_gem_object *standin_import(struct drm_device *drm, struct dma_buf_attachment *attach,
				      struct sg_table *sgt);
int standin_mem_create(struct drm_device *drm, void *data, struct drm_file *file);
int standin_mem_map(struct drm_device *drm, void *data, struct drm_file *file);
int standin_mem_destroy(struct drm_device *drm, void *data, struct drm_file *file);
int standin_mem_sync(struct drm_device *drm, void *data, struct drm_file *file);

int standin_jobs_init(void);
void standin_jobs_exit(void);
void standin_jobs_add(struct standin *s);
void standin_jobs_remove(struct standin *s);
irqreturn_t standin_interrupt(struct standin *s, struct core *core);
void standin_reset(struct standin *s);
int standin_submit(struct drm_device *drm, void *data, struct drm_file *file);

#endif /* STANDIN_H */

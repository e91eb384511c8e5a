/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of the module know of each other.
 *
 * Threat model.  User space may do anything with its memory at any time, pass any
 * number, and close or fork at any point.  So: what is copied is copied once and
 * used from the copy; ids are looked up, never followed; the NPU fetches only what
 * rkc_chain_emit() wrote from checked descriptors into memory that user space never
 * sees, and touches only buffers that the chain holds.
 *
 * Lock order, from the outside in:
 *
 *	the driver's device
 *	provider_lock	one PROVIDE, release or unbind at a time
 *	selftest_lock	one self-test at a time
 *	driver_sem	read: the stock driver stays; write: it goes
 *	client.ids	tables of a client
 *	client.submit	sequence numbers of a client
 *	client.collect	completions of a client that are on their way to user space
 *	files_lock	the workers' files
 *	lock		everything about jobs and cores
 *	lingering_lock	buffers that somebody's dma-buf keeps
 *	stock.lock	the list of a driver's buffer objects
 *	users_lock, stocks_lock	what there is of them
 */
#ifndef RKCHAIN_INTERNAL_H
#define RKCHAIN_INTERNAL_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <rkchain.h>

#include "core/chain.h"
#include "core/check.h"
#include "core/cores.h"
#include "core/ranges.h"
#include "core/share.h"
#include "core/trial.h"

#define MAX_BUFFERS	256	/* that a chain declares */
#define MAX_SUBMIT	256	/* chains of one SUBMIT */
#define SLOTS		1024	/* completions of a client, due or not collected */

struct attribute_group;
struct core;
struct dma_buf;
struct device;
struct drm_gem_object;
struct file;
struct task_struct;

/* Fills a report and gives back an errno, for one-line refusals. */
static inline int refuse(struct rkc_err *err, int error, u32 reason, u64 value, u64 limit)
{
	rkc_refuse(err, reason, RKC_NO_WORD, 0, value, limit);
	return error;
}

/* ---- stock.c: the driver underneath -------------------------------------- */

/* A stock driver that somebody has named.  Counted. */
struct stock;

/* An open file of ours on its node.  Counted; the last one to let go closes it. */
struct stock_file;

enum stock_memory {
	STOCK_CACHED,
	STOCK_WRITE_COMBINE,
	STOCK_KERNEL,		/* cached, mapped, and the driver may read tasks there */
	STOCK_ADOPTED,		/* somebody else made it, cached or not */
};

/**
 * struct stock_bo - memory that the driver made
 * @file: keeps the driver's device; NULL when there is no memory
 * @link: in the driver's list
 * @obj: the module's reference, NULL once the driver has gone
 * @iova: for the NPU
 * @size: bytes, whole pages
 * @vaddr: the kernel's mapping, where there is one
 * @kind: what it is for
 */
struct stock_bo {
	struct stock_file *file;
	struct list_head link;
	struct drm_gem_object *obj;
	u64 iova;
	u64 size;
	void *vaddr;
	enum stock_memory kind;
};

struct device *stock_device(int fd);
int stock_create(int fd, struct stock **stock, struct rkc_err *err);
void stock_put(struct stock *s);
bool stock_is(const struct stock *s, const struct device *dev);
const void *stock_identity(const struct stock *s);
u32 stock_driver_version(const struct stock *s);
u32 stock_hw_version(const struct stock *s);
bool stock_alone(const struct stock *s);
void stock_drop_bos(struct stock *s, bool gone);
bool stocks_unbound(const struct device *dev);

struct stock_file *stock_open(struct stock *s);
struct stock_file *stock_file_get(struct stock_file *f);
void stock_file_put(struct stock_file *f);
struct stock *stock_of(const struct stock_file *f);

int stock_bo_create(struct stock_file *f, u64 size, enum stock_memory kind, struct stock_bo *bo,
		    struct rkc_err *err);
int stock_bo_adopt(struct stock_file *f, int fd, u32 handle, struct stock_bo *bo,
		   struct rkc_err *err);
void stock_bo_release(struct stock_bo *bo);
bool stock_bo_shared(const struct stock_bo *bo);
struct dma_buf *stock_bo_export(struct stock_bo *bo);
int stock_bo_sync(struct stock_file *f, const struct stock_bo *bo, u64 offset, u64 size,
		  u32 directions);

/**
 * struct stock_run - one blocking submit
 * @bo: holds the tasks, at its start, and their programs
 * @core: where
 * @start: first task
 * @number: tasks
 * @hw_ns: out, time on the NPU
 * @committed: out, the driver gave it to the hardware
 */
struct stock_run {
	const struct stock_bo *bo;
	u32 core;
	u32 start;
	u32 number;
	u64 hw_ns;
	bool committed;
};

void stock_put_task(const struct stock_bo *bo, u32 index, u64 iova, u32 regcfg_amount);
size_t stock_task_bytes(u32 tasks);
int stock_submit(struct stock_file *f, struct stock_run *run);
int stock_reset(struct stock_file *f);
int stock_domain(struct stock_file *f);

/* ---- client.c: one open file, and its user ------------------------------- */

/**
 * struct client_user - what the clients of one user id hold together
 * @link: in the list of users
 * @uid: whose
 * @refs: clients, buffers and chains that refer to it
 * @bytes: of device memory
 * @chains: registered
 * @blocks: of these chains
 * @jobs: submitted and not collected (under rkchain.lock)
 */
struct client_user {
	struct list_head link;
	kuid_t uid;
	u32 refs;
	u64 bytes;
	u64 chains;
	u64 blocks;
	u64 jobs;
};

struct client_user *client_user_get(struct client_user *user);
void client_user_put(struct client_user *user);
int client_user_charge(struct client_user *user, u64 bytes, u64 chains, u64 blocks,
		       struct rkc_err *err);
void client_user_uncharge(struct client_user *user, u64 bytes, u64 chains, u64 blocks);

struct client {
	struct kref ref;
	struct client_user *user;
	struct mutex ids;		/* of the tables */
	struct xarray bufs;
	struct xarray chains;
	struct stock_file *file;	/* under ids: what its memory is made through */

	struct mutex submit;		/* one at a time takes sequence numbers */
	struct mutex collect;		/* one at a time takes completions */
	/* the rest under rkchain.lock */
	bool closed;
	struct list_head active;	/* in rkchain.active while it has a queue */
	struct list_head queue;		/* jobs that wait, in ascending order */
	struct list_head live;		/* jobs that have not ended, in ascending order */
	struct list_head readable;	/* records for read() */
	struct list_head failures;	/* the last ones, the last one first */
	u32 nfailures;
	struct xarray jobs;		/* by sequence, until collected */
	u32 slots;
	u64 next;			/* sequence number */
	u32 turn;			/* counts records */
	struct rkc_share share;
	wait_queue_head_t changed;
};

struct client *client_new(void);
void client_close(struct client *client);
void client_put(struct client *client);
int client_publish(struct xarray *table, void *entry, u32 *id);
struct stock_file *client_file(struct client *client, struct rkc_err *err);
extern const struct file_operations client_fops;

/* ---- buffer.c ------------------------------------------------------------ */

struct buffer {
	struct kref ref;
	struct list_head lingering;
	u64 charged;
	struct client_user *user;
	struct stock_bo bo;
};

int buffer_create(struct client *client, struct rkchain_buf_create *arg, struct file **file,
		  struct rkc_err *err);
int buffer_adopt(struct client *client, struct rkchain_buf_adopt *arg, struct rkc_err *err);
int buffer_destroy(struct client *client, struct rkchain_id *arg, struct rkc_err *err);
int buffer_sync(struct client *client, struct rkchain_buf_sync *arg, struct rkc_err *err);
struct buffer *buffer_internal(struct client *client, u64 size, struct rkc_err *err);
struct buffer *buffer_get(struct client *client, u32 id);
void buffer_put(struct buffer *buffer);
void buffer_sweep(void);
void buffer_exit(void);
bool buffer_alive(const struct buffer *buffer);

/* ---- chain.c ------------------------------------------------------------- */

struct chain_use {
	struct buffer *buffer;
	u32 flags;		/* RKCHAIN_USE_* */
};

/**
 * struct chain - a registered chain
 * @ref: the client's table, jobs and quarantines
 * @free: for the last one to let go
 * @user: who pays for it
 * @bo: tasks and program; only the module has ever seen it
 * @blocks: what each block computes
 * @uses: buffers that it holds
 * @count: blocks
 * @nuses: how many buffers
 * @reads: what it reads of those declared SYNC
 * @writes: what it writes of them
 * @nreads: how many ranges
 * @nwrites: how many ranges
 * @emitted: mode that the program in @bo is laid out in
 * @trial: one of the module's own, and @mode is what it is run in
 * @mode: enum rkc_mode
 * @checked: cost, and what may be done with it
 * @estimate_ns: of a run in the costliest mode
 * @running: a core has it
 * @quarantine: of a core that it failed on
 */
struct chain {
	struct kref ref;
	struct work_struct free;
	struct client_user *user;
	struct stock_bo bo;
	struct rkc_matmul *blocks;
	struct chain_use *uses;
	u32 count;
	u32 nuses;
	struct rkc_range *reads;
	struct rkc_range *writes;
	u32 nreads;
	u32 nwrites;
	u32 emitted;
	bool trial;
	u32 mode;
	struct rkc_checked checked;
	u64 estimate_ns;
	/* under rkchain.lock */
	bool running;
	struct list_head quarantine[RKC_CORES];
};

int chain_create(struct client *client, struct rkchain_chain_create *arg, struct rkc_err *err);
struct chain *chain_of_trial(struct client *client, struct buffer *buffer,
			     const struct rkc_trial *trial, u32 mode, struct rkc_err *err);
int chain_destroy(struct client *client, struct rkchain_id *arg, struct rkc_err *err);
struct chain *chain_get(struct client *client, u32 id);
void chain_put(struct chain *chain);
u32 chain_mode(const struct chain *chain);
u64 chain_program(const struct chain *chain);
int chain_emit(struct chain *chain, struct stock_file *f, u32 mode);
int chain_clean(const struct chain *chain, struct stock_file *f);
int chain_invalidate(const struct chain *chain, struct stock_file *f);

/* ---- queue.c: jobs ------------------------------------------------------- */

int job_submit(struct client *client, struct rkchain_submit *arg, struct rkc_err *err);
int job_wait(struct client *client, struct rkchain_wait *arg, struct rkc_err *err);
int job_run(struct client *client, struct chain *chain, u32 core,
	    struct rkchain_completion *record, struct rkc_err *err);
ssize_t job_read(struct client *client, char __user *to, size_t size, bool block);
void job_close(struct client *client);

/* ---- sched.c: cores, recovery -------------------------------------------- */

int sched_init(void);
void sched_exit(void);
int sched_attach(struct stock *stock);
void sched_detach(void);
bool sched_quarantined(void);
void sched_stop(bool gone);
void sched_resume(void);
int sched_suspend(void);
void sched_wake(void);
int sched_enable(struct core *core);
void sched_set_aside(u32 mask);

/* ---- failures.c: what is known of chains that failed ----------------------- */

struct failure;

struct failure *failure_new(const struct chain *chain);
void failure_keep(struct failure *failure, struct client *client);
struct rkchain_failure *failure_info(struct failure *failure);
void failures_drop(struct client *client);
int failures_get(struct client *client, struct rkchain_failures *arg, struct rkc_err *err);

/* ---- mode.c: how chains are laid out --------------------------------------- */

u32 mode_in_force(void);
u32 mode_source(void);
bool mode_auto(void);
bool mode_ordered(u32 mode);
u32 mode_proven(void);
void mode_forget(void);
void mode_learn(const struct rkc_trial_summary *found, bool proof);

/* ---- selftest.c: what this NPU can do --------------------------------------- */

int selftest(struct rkchain_selftest *arg, struct rkc_err *err);
void selftest_provide(void);

/* ---- stats.c: sysfs ------------------------------------------------------- */

extern const struct attribute_group *stats_groups[];
void stats_init(void);

/* ---- main.c: what there is once ------------------------------------------ */

struct core {
	u32 id;
	struct task_struct *thread;
	wait_queue_head_t wake;
	struct stock_file *file;	/* a file of its own, as drm is slow when shared */
	struct job *job;
	u64 chains;			/* that ended well, and their blocks */
	u64 blocks;
	u64 failures;
	u64 busy_ns;
	struct list_head quarantine;	/* chains that it may still be running */
};

struct rkchain {
	struct rw_semaphore driver_sem;
	struct stock *stock;		/* written under driver_sem and lock */
	struct mutex files_lock;	/* of the files that work is done with */
	struct stock_file *watch_file;
	struct workqueue_struct *workqueue;
	struct work_struct detach;
	atomic_t next_id;

	struct mutex lock;		/* of all that follows */
	struct list_head active;	/* clients that have a queue */
	u32 clients;
	struct rkc_cores npu;		/* what is known of the cores; the policy */
	struct core cores[RKC_CORES];	/* who runs what there */
	u64 level;			/* share.had of the client served last */
	bool stopping;			/* the driver is about to go */
	bool suspended;
	bool in_reset;			/* the watch is at it */
	wait_queue_head_t gate;		/* of what waits to be submitted */
	u32 gate_turn;			/* counts what may have opened it */
	wait_queue_head_t idle;		/* a core has become idle */
	struct task_struct *watch;
	wait_queue_head_t watch_wake;
	bool watch_kick;
	bool watch_asleep;		/* until it is kicked */
	u32 deadlines;			/* jobs that have one and have not ended */
};

extern struct rkchain rkchain;

u64 param_hang_ns(void);
u32 param_strikes(void);
u64 param_quota_bytes(void);
u64 param_quota_chains(void);
u64 param_quota_blocks(void);
u64 param_quota_jobs(void);

int provide(struct rkchain_provide *arg, struct rkc_err *err);

#endif /* RKCHAIN_INTERNAL_H */

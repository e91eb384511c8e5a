/* SPDX-License-Identifier: MIT */
/*
 * What the tests share: the device, buffers, matmuls with their reference, chains
 * in the wait layout, submits and waits.
 *
 * A function that returns nothing, or a value, ends the test when it fails; one
 * named try hands back the error as a negative errno.
 */
#ifndef RIG_H
#define RIG_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "chain.h"
#include "check.h"
#include "entry.h"
#include "matmul.h"

#include "rkchain.h"
#include "rknpu.h"
#include "tap.h"

#define RIG_DEVICE	"/dev/rkchain"
#define RIG_PARAMETERS	"/sys/module/rkchain/parameters"

#define RIG_PAGE	4096u

/* ---- the device ---- */

/* Makes the program skip without a device; names the stock driver if need be. */
void rig_require(void);

/*
 * After each test, whatever became of it: knobs and parameters as they were, and the
 * stock driver named again when it has been let go of.
 */
void rig_restore(void);

/* Opens the device anew. */
int rig_open(void);

/* Calls made so far, of the device and of the stock driver's SUBMIT; not WAIT. */
extern unsigned int rig_calls;

/* ioctl(), 0 or a negative errno. */
int rig_try(int rk, unsigned long command, void *argument);

/* Zeroed memory with an unmapped page right behind it. */
void *rig_guarded(size_t size);

void rig_query(int rk, struct rkchain_query *query);
void rig_need(int rk, u64 capability, const char *what);
void rig_need_root(void);

/* Opens a node of a DRM driver, of the stock driver; -1 without one. */
int rig_open_drm(const char *driver);
int rig_node(void);

/* PROVIDE: the node, or -1 to let go of it. */
int rig_try_provide(int rk, int node);

/* Lets go of the stock driver, which everybody would notice; skips if there are others. */
void rig_release(int rk);

/**
 * struct rig_binding - where the platform driver of the rknpu node is
 * @driver: its folder in sysfs
 * @device: what the device is called there
 */
struct rig_binding {
	char driver[PATH_MAX];
	char device[256];
};

/* Skips outside the guest: on a board the driver is everybody's. */
void rig_find_binding(struct rig_binding *binding);

/* Writes the device to @what, "bind" or "unbind". */
void rig_bind(const struct rig_binding *binding, const char *what);

/* PROVIDE as soon as the node is there. */
void rig_provide_again(int rk);

/* Each chain takes that long on the NPU; the model is needed for it, or is not. */
void rig_slow(u32 ms);
void rig_need_slow(u32 ms);

/* Waits until this user holds no more than @then and no client but @clients is there. */
void rig_settles(int rk, const struct rkchain_query *then);

/* A parameter of the module; false when it is not there or cannot be written. */
bool rig_parameter(const char *name, char *value, size_t size);
bool rig_set_parameter(const char *name, const char *value);
void rig_need_parameter(const char *name, const char *value);

/* ---- time ---- */

u64 rig_now(void);
void rig_sleep(unsigned int ms);

/* A deadline that is only reached when something is wrong. */
s64 rig_soon(void);

int rig_compare_u64(const void *x, const void *y);
u64 rig_median(u64 *values, unsigned int count);

/* Ends the test's way of being root: capability @capability, in this process. */
void rig_drop_capability(int capability);

/* ---- buffers ---- */

struct rig_buf {
	int rk;
	u32 id;
	u64 iova;
	u64 size;
	void *map;
	int fd;
};

int rig_try_buf(int rk, struct rkchain_buf_create *create);
void rig_buf_new(struct rig_buf *buf, int rk, u64 size);

/* Maps it once more: a stock driver's mapping need not survive a fork. */
void rig_buf_map(struct rig_buf *buf);
void rig_buf_sync(const struct rig_buf *buf, u32 direction);
int rig_try_destroy(int rk, u32 id);
void rig_buf_free(struct rig_buf *buf);

/* ---- a job: a chain of equal matmuls, int8 to int32, and its data ---- */

/**
 * struct rig_job - @count matmuls, each with its own A, B and C
 * @rk: descriptor of the device
 * @m: rows
 * @k: contraction length
 * @n: columns
 * @count: blocks
 * @a: features, declared READ and SYNC
 * @b: weights, packed, declared READ
 * @c: outputs, declared WRITE and SYNC
 * @uses: the three as CHAIN_CREATE takes them
 * @blocks: descriptors
 * @words: the program in the wait layout
 * @nwords: how many
 * @chain: id, once registered
 */
struct rig_job {
	int rk;
	u32 m;
	u32 k;
	u32 n;
	u32 count;
	struct rig_buf a;
	struct rig_buf b;
	struct rig_buf c;
	struct rkchain_buf_use uses[3];
	struct rkc_matmul *blocks;
	u64 *words;
	u32 nwords;
	u32 chain;
};

void rig_job_shape(struct rig_job *job, int rk, u32 m, u32 k, u32 n, u32 count);
void rig_job_new(struct rig_job *job, int rk, u32 count);	/* 4 x 32 x 32 */

/* Random A and B for a seed, and an output that is wrong everywhere. */
void rig_job_fill(struct rig_job *job, u32 seed);

/* The same through mappings alone: A and C are declared SYNC. */
void rig_job_refill(struct rig_job *job, u32 seed);

/* The arguments of CHAIN_CREATE. */
void rig_job_request(const struct rig_job *job, struct rkchain_chain_create *create);
int rig_try_create(int rk, struct rkchain_chain_create *create);
void rig_job_register(struct rig_job *job);

/* The number of wrong outputs; the first is reported. */
u64 rig_job_wrong(const struct rig_job *job);
void rig_job_check(const struct rig_job *job);

/* Submit, wait for success, compare. */
void rig_job_run(struct rig_job *job);
void rig_job_free(struct rig_job *job);

/* Lets go of its memory: a buffer counts as long as somebody has its dma-buf. */
void rig_job_unmap(struct rig_job *job);

/*
 * Registers the job @count times more, without SYNC: a chain runs on one core at a
 * time, so that work for several cores takes several chains.
 */
void rig_clones(struct rig_job *job, u32 count, u32 *chains);

/* A client of its own with chains of one small block, of the same data. */
struct rig_queue {
	int rk;
	struct rig_job job;
	u32 chains[100];
};

void rig_queue_open(struct rig_queue *q, u32 count);

/* A, B (logical: k x n) and C of block @i in plain C, for whoever has other data. */
s32 rig_dot(const s8 *a, const s8 *packed_b, u32 k, u32 column);
u32 rig_b_index(u32 k, u32 row, u32 column);

/* A new client computes a small chain and goes: the device still works. */
void rig_still_works(void);

/* ---- submits and waits ---- */

int rig_try_submit(int rk, struct rkchain_submit *submit);

/* Submits @count chains as @how says, which may be NULL; the first sequence number. */
u64 rig_submit_all(int rk, const u32 *chains, u32 count, const struct rkchain_submit *how);

/* Submits one chain @count times. */
u64 rig_submit(int rk, u32 chain, u32 count, u32 core_mask, u32 flags);

int rig_try_wait(int rk, struct rkchain_wait *wait);

/* Waits for all of them, whatever their status. */
void rig_wait(int rk, u64 first, u32 count, struct rkchain_completion *done);

/* The same, and each must be a success. */
void rig_wait_good(int rk, u64 first, u32 count, struct rkchain_completion *done);

int rig_try_destroy_chain(int rk, u32 id);

/* ---- the stock driver, used directly ---- */

/* What is needed of DRM: its headers are not everywhere. */
struct rig_drm_version {
	int major;
	int minor;
	int patchlevel;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc;
};

struct rig_drm_prime {
	__u32 handle;
	__u32 flags;
	__s32 fd;
};

#define RIG_DRM_VERSION			_IOWR('d', 0x00, struct rig_drm_version)
#define RIG_DRM_PRIME_HANDLE_TO_FD	_IOWR('d', 0x2d, struct rig_drm_prime)
#define RIG_DRM_PRIME_FD_TO_HANDLE	_IOWR('d', 0x2e, struct rig_drm_prime)

struct rig_stock_buf {
	u32 handle;
	u64 obj_addr;
	u64 iova;
	u64 size;
	void *map;
};

void rig_stock_buf(int node, u64 size, u32 flags, struct rig_stock_buf *buf);
int rig_try_stock_submit(int node, u64 task_obj_addr, u32 first, u32 tasks, unsigned int core,
			 u32 timeout_ms);

/**
 * struct rig_singles - the blocks of a job as programs of the stock driver
 * @node: its node
 * @programs: one after the other, in the single layout
 * @tasks: one for each
 * @count: how many
 */
struct rig_singles {
	int node;
	struct rig_stock_buf programs;
	struct rig_stock_buf tasks;
	u32 count;
};

/* Skips when the node cannot be opened. */
void rig_singles_new(struct rig_singles *singles, const struct rig_job *job);

/* One submit for each block, one after the other, on core 0. */
void rig_singles_run(const struct rig_singles *singles);

#endif /* RIG_H */

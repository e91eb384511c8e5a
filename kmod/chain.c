// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registered chains: what user space hands over is copied block by block,
 * recognised, checked and forgotten; what is kept is which matmul each block
 * computes.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

/* The program stands behind the tasks, at a multiple of this. */
#define PROGRAM_ALIGN	64

static u32 program_offset(u32 count)
{
	return ALIGN(stock_task_bytes(count), PROGRAM_ALIGN);
}

/* Enough for the tasks and the program of any mode: link programs are the longest. */
static u64 chain_bytes(u32 count)
{
	return PAGE_ALIGN(program_offset(count) + (u64)count * RKC_FULL_WORDS * sizeof(u64));
}

static void chain_free(struct chain *chain)
{
	u32 i;

	stock_bo_release(&chain->bo);
	for (i = 0; i < chain->nuses; i++)
		buffer_put(chain->uses[i].buffer);
	client_user_uncharge(chain->user, chain_bytes(chain->count), 1, chain->count);
	client_user_put(chain->user);
	kvfree(chain->reads);
	kvfree(chain->writes);
	kvfree(chain->uses);
	kvfree(chain->blocks);
	kfree(chain);
}

static void chain_free_work(struct work_struct *work)
{
	chain_free(container_of(work, struct chain, free));
}

static void chain_last_put(struct kref *ref)
{
	struct chain *chain = container_of(ref, struct chain, ref);

	/* The last one to let go may hold rkchain.lock. */
	queue_work(rkchain.workqueue, &chain->free);
}

void chain_put(struct chain *chain)
{
	kref_put(&chain->ref, chain_last_put);
}

struct chain *chain_get(struct client *client, u32 id)
{
	struct chain *chain;

	mutex_lock(&client->ids);
	chain = xa_load(&client->chains, id);
	if (chain)
		kref_get(&chain->ref);
	mutex_unlock(&client->ids);
	return chain;
}

/* ---- creation ---- */

static int check_args(const struct rkchain_chain_create *arg, struct rkc_err *err)
{
	const struct rkc_program shape = {
		.nwords = arg->size / sizeof(u64),
		.count = arg->count,
		.stride = arg->stride,
		.body = arg->body,
		.link = arg->flags & RKCHAIN_CHAIN_LINK,
	};

	if (arg->flags & ~RKCHAIN_CHAIN_LINK)
		return refuse(err, -EINVAL, RKCHAIN_REASON_FLAGS, arg->flags, RKCHAIN_CHAIN_LINK);
	if (arg->reserved)
		return refuse(err, -EINVAL, RKCHAIN_REASON_RESERVED, arg->reserved, 0);
	if (arg->size % sizeof(u64))
		return refuse(err, -EINVAL, RKCHAIN_REASON_SIZE, arg->size, sizeof(u64));
	if (arg->buffer_count > MAX_BUFFERS)
		return refuse(err, -EINVAL, RKCHAIN_REASON_SIZE, arg->buffer_count, MAX_BUFFERS);
	if (rkc_program_shape(&shape, err))
		return -EINVAL;
	/* It has to fit every mode, as the mode may change. */
	if (arg->count > RKC_WAIT_MAX)
		return refuse(err, -EINVAL, RKC_TOO_LONG, arg->count, RKC_WAIT_MAX);
	return 0;
}

/* Copies each block once, and keeps what it computes. */
static int recognise(struct chain *chain, const struct rkchain_chain_create *arg,
		     struct rkc_err *err)
{
	const u64 nwords = arg->size / sizeof(u64);
	const u32 last = arg->count - 1;
	const u64 tail = nwords - (u64)last * arg->stride;
	const u64 most = max_t(u64, last ? arg->stride : 0, tail);
	struct rkc_recogniser *recogniser = kvzalloc(sizeof(*recogniser), GFP_KERNEL);
	u64 *words = kvmalloc_array(most, sizeof(u64), GFP_KERNEL);
	int ret = recogniser && words ? 0 : -ENOMEM;
	u32 i;

	for (i = 0; !ret && i <= last; i++) {
		const u64 at = (u64)i * arg->stride;
		const u32 total = i == last ? tail : arg->stride;
		const bool link = arg->flags & RKCHAIN_CHAIN_LINK && i != last;

		if (copy_from_user(words, u64_to_user_ptr(arg->programs) + at * sizeof(u64),
				   total * sizeof(u64))) {
			ret = -EFAULT;
		} else if (rkc_recognise(recogniser, words, arg->body, total, link,
					 &chain->blocks[i], err)) {
			err->block = i;
			ret = -EINVAL;
		}
		cond_resched();
	}
	kvfree(words);
	kvfree(recogniser);
	return ret;
}

/* Copies what the caller says of his buffers. */
static int copy_uses(const struct rkchain_chain_create *arg, struct rkchain_buf_use *uses,
		     struct rkc_err *err)
{
	const u32 known = RKCHAIN_USE_READ | RKCHAIN_USE_WRITE | RKCHAIN_USE_SYNC;
	u32 i;

	if (copy_from_user(uses, u64_to_user_ptr(arg->buffers),
			   arg->buffer_count * sizeof(*uses)))
		return -EFAULT;
	for (i = 0; i < arg->buffer_count; i++)
		if (uses[i].flags & ~known) {
			refuse(err, -EINVAL, RKCHAIN_REASON_FLAGS, uses[i].flags, known);
			err->block = i;
			return -EINVAL;
		}
	return 0;
}

/* Adds a buffer, which is the chain's to put from now on. */
static void hold_buffer(struct chain *chain, struct buffer *buffer, u32 flags,
			struct rkc_buf *buf)
{
	chain->uses[chain->nuses++] = (struct chain_use){ buffer, flags };
	buf->iova = buffer->bo.iova;
	buf->size = buffer->bo.size;
	buf->flags = (flags & RKCHAIN_USE_READ ? RKC_BUF_READ : 0) |
		     (flags & RKCHAIN_USE_WRITE ? RKC_BUF_WRITE : 0) |
		     (flags & RKCHAIN_USE_SYNC ? RKC_BUF_SYNC : 0);
}

/* Looks the declared buffers up and holds them. */
static int hold_buffers(struct client *client, struct chain *chain,
			const struct rkchain_buf_use *uses, u32 count, struct rkc_buf *bufs,
			struct rkc_err *err)
{
	struct buffer *buffer;
	u32 i;

	for (i = 0; i < count; i++) {
		buffer = buffer_get(client, uses[i].id);
		if (!buffer) {
			refuse(err, -EINVAL, RKCHAIN_REASON_BUFFER_ID, uses[i].id, 0);
			err->block = i;
			return -EINVAL;
		}
		hold_buffer(chain, buffer, uses[i].flags, &bufs[i]);
		if (!buffer_alive(buffer)) {
			refuse(err, -ENODEV, RKCHAIN_REASON_DEVICE_GONE, uses[i].id, 0);
			err->block = i;
			return -ENODEV;
		}
	}
	return 0;
}

static int check(struct chain *chain, const struct rkc_buf *bufs, struct rkc_err *err)
{
	const bool ordered = chain->trial || mode_ordered(mode_in_force());

	if (rkc_bufs_check(bufs, chain->nuses, err) ||
	    rkc_chain_check(chain->blocks, chain->count, bufs, chain->nuses, ordered,
			    &chain->checked, err))
		return -EINVAL;
	chain->estimate_ns = rkc_estimate_ns(&chain->checked.cost, chain->count, 1);
	if (chain->estimate_ns > param_hang_ns() / 2)
		return refuse(err, -E2BIG, RKCHAIN_REASON_TOO_COSTLY, chain->estimate_ns,
			      param_hang_ns() / 2);
	return 0;
}

/* Finds out which bytes caches have to be looked after for. */
static int find_ranges(struct chain *chain, const struct rkc_buf *bufs, u32 flag, u32 room,
		       struct rkc_range **ranges, u32 *count)
{
	struct rkc_range *all = kvmalloc_array(room, sizeof(*all), GFP_KERNEL);

	if (!all)
		return -ENOMEM;
	*count = rkc_chain_ranges(chain->blocks, chain->count, bufs, chain->nuses, flag, all);
	/* One more: there may be none. */
	*ranges = kvmalloc_array(*count + 1, sizeof(*all), GFP_KERNEL_ACCOUNT);
	if (*ranges)
		memcpy(*ranges, all, *count * sizeof(*all));
	kvfree(all);
	return *ranges ? 0 : -ENOMEM;
}

/*
 * The part of the creation that needs the driver and has nothing to do with user memory.
 * The chain has its blocks and its buffers.
 */
static int build(struct client *client, struct chain *chain, const struct rkc_buf *bufs,
		 struct rkc_err *err)
{
	struct stock_file *file = client_file(client, err);
	int ret = PTR_ERR_OR_ZERO(file);

	if (!ret)
		ret = sched_attach(rkchain.stock);
	if (!ret)
		ret = check(chain, bufs, err);
	if (!ret)
		ret = find_ranges(chain, bufs, RKC_BUF_READ, 2 * chain->count, &chain->reads,
				  &chain->nreads);
	if (!ret)
		ret = find_ranges(chain, bufs, RKC_BUF_WRITE, chain->count, &chain->writes,
				  &chain->nwrites);
	if (!ret)
		ret = stock_bo_create(file, chain_bytes(chain->count), STOCK_KERNEL, &chain->bo,
				      err);
	if (!ret)
		ret = chain_emit(chain, file, chain_mode(chain));
	return ret;
}

/* Room for @count blocks and @buffers buffers, which counts for the client's user. */
static struct chain *chain_alloc(struct client *client, u32 count, u32 buffers,
				 struct rkc_err *err)
{
	struct chain *chain = kzalloc(sizeof(*chain), GFP_KERNEL_ACCOUNT);
	int ret;
	u32 i;

	if (!chain)
		return ERR_PTR(-ENOMEM);
	ret = client_user_charge(client->user, chain_bytes(count), 1, count, err);
	if (ret) {
		kfree(chain);
		return ERR_PTR(ret);
	}
	kref_init(&chain->ref);
	INIT_WORK(&chain->free, chain_free_work);
	for (i = 0; i < RKC_CORES; i++)
		INIT_LIST_HEAD(&chain->quarantine[i]);
	chain->user = client_user_get(client->user);
	chain->count = count;
	chain->blocks = kvcalloc(count, sizeof(*chain->blocks), GFP_KERNEL_ACCOUNT);
	/* One more: there may be none. */
	chain->uses = kvcalloc(buffers + 1, sizeof(*chain->uses), GFP_KERNEL_ACCOUNT);
	if (chain->blocks && chain->uses)
		return chain;
	chain_free(chain);
	return ERR_PTR(-ENOMEM);
}

/**
 * chain_of_trial() - a chain of the module's own, in a mode of its own
 * @client: one of the module's own
 * @buffer: as long as the trial wants it; the chain holds it too
 * @trial: what it computes
 * @mode: enum rkc_mode
 * @err: filled on refusal
 *
 * Under rkchain.driver_sem.
 *
 * Return: the chain or an ERR_PTR.
 */
struct chain *chain_of_trial(struct client *client, struct buffer *buffer,
			     const struct rkc_trial *trial, u32 mode, struct rkc_err *err)
{
	const u32 flags = RKCHAIN_USE_READ | RKCHAIN_USE_WRITE | RKCHAIN_USE_SYNC;
	struct chain *chain = chain_alloc(client, trial->count, 1, err);
	struct rkc_buf buf = { 0 };
	int ret;

	if (IS_ERR(chain))
		return chain;
	chain->trial = true;
	chain->mode = mode;
	rkc_trial_blocks(trial, buffer->bo.iova, chain->blocks);
	kref_get(&buffer->ref);
	hold_buffer(chain, buffer, flags, &buf);
	ret = build(client, chain, &buf, err);
	if (!ret)
		return chain;
	chain_free(chain);
	return ERR_PTR(ret);
}

/**
 * chain_create() - CHAIN_CREATE
 * @client: whose
 * @arg: of the caller
 * @err: filled on refusal
 *
 * User memory is read before driver_sem is taken, as it may be as slow as its owner
 * likes.
 *
 * Return: 0, -EINVAL, -E2BIG, -EFAULT, -EDQUOT, -ENOMEM, -ENODEV.
 */
int chain_create(struct client *client, struct rkchain_chain_create *arg, struct rkc_err *err)
{
	struct rkchain_buf_use *uses = NULL;
	struct rkc_buf *bufs = NULL;
	struct chain *chain;
	int ret;

	ret = check_args(arg, err);
	if (ret)
		return ret;
	chain = chain_alloc(client, arg->count, arg->buffer_count, err);
	if (IS_ERR(chain))
		return PTR_ERR(chain);
	uses = kvcalloc(arg->buffer_count + 1, sizeof(*uses), GFP_KERNEL);
	bufs = kvcalloc(arg->buffer_count + 1, sizeof(*bufs), GFP_KERNEL);
	ret = uses && bufs ? copy_uses(arg, uses, err) : -ENOMEM;
	if (!ret)
		ret = recognise(chain, arg, err);
	if (ret)
		goto out;

	down_read(&rkchain.driver_sem);
	/* First, as without a driver there is no buffer either. */
	ret = PTR_ERR_OR_ZERO(client_file(client, err)) ?:
	      hold_buffers(client, chain, uses, arg->buffer_count, bufs, err) ?:
	      build(client, chain, bufs, err);
	if (!ret) {
		arg->found = (chain->checked.replayable ? RKCHAIN_CHAIN_REPLAYABLE : 0) |
			     (chain->checked.aliases ? RKCHAIN_CHAIN_FEEDS_ON : 0);
		arg->macs = chain->checked.cost.macs;
		arg->bytes = chain->checked.cost.bytes;
		arg->estimate_ns = chain->estimate_ns;
		ret = client_publish(&client->chains, chain, &arg->id);
	}
	up_read(&rkchain.driver_sem);
out:
	kvfree(bufs);
	kvfree(uses);
	if (ret)
		chain_free(chain);
	return ret;
}

int chain_destroy(struct client *client, struct rkchain_id *arg, struct rkc_err *err)
{
	struct chain *chain;

	if (arg->reserved)
		return refuse(err, -EINVAL, RKCHAIN_REASON_RESERVED, arg->reserved, 0);
	mutex_lock(&client->ids);
	chain = xa_erase(&client->chains, arg->id);
	mutex_unlock(&client->ids);
	if (!chain)
		return refuse(err, -EINVAL, RKCHAIN_REASON_CHAIN_ID, arg->id, 0);
	chain_put(chain);
	/* When nothing runs it, its memory is back when the call is. */
	flush_workqueue(rkchain.workqueue);
	return 0;
}

/* ---- running ---- */

/* The mode to run it in; what needs an order that the mode does not keep runs singly. */
u32 chain_mode(const struct chain *chain)
{
	const u32 mode = mode_in_force();

	if (chain->trial)
		return chain->mode;
	return chain->checked.aliases && !mode_ordered(mode) ? RKC_SINGLE : mode;
}

/* Where the NPU finds the program. */
u64 chain_program(const struct chain *chain)
{
	return chain->bo.iova + program_offset(chain->count);
}

/* Lays the program out; nothing may be running it. */
int chain_emit(struct chain *chain, struct stock_file *f, u32 mode)
{
	const u32 offset = program_offset(chain->count);
	const u64 iova = chain_program(chain);
	struct rkc_measure measure;
	u32 i;

	if (rkc_chain_measure(mode, chain->count, &measure, NULL) ||
	    rkc_chain_emit(mode, chain->blocks, chain->count, iova, chain->bo.vaddr + offset,
			   NULL))
		return -EINVAL;
	for (i = 0; i < measure.tasks * measure.submits; i++)
		stock_put_task(&chain->bo, i, iova + (u64)i * measure.stride * sizeof(u64),
			       measure.regcfg_amount);
	chain->emitted = mode;
	return stock_bo_sync(f, &chain->bo, 0, chain->bo.size, RKCHAIN_SYNC_TO_DEVICE);
}

static int sync_ranges(const struct chain *chain, struct stock_file *f,
		       const struct rkc_range *ranges, u32 count, u32 direction)
{
	int ret = 0;
	u32 i;

	for (i = 0; !ret && i < count; i++)
		ret = stock_bo_sync(f, &chain->uses[ranges[i].buf].buffer->bo, ranges[i].offset,
				    ranges[i].size, direction);
	return ret;
}

/*
 * Before a run.  What is only written too: a line that the CPU has written to may
 * leave the cache later, over the output.
 */
int chain_clean(const struct chain *chain, struct stock_file *f)
{
	return sync_ranges(chain, f, chain->reads, chain->nreads, RKCHAIN_SYNC_TO_DEVICE) ?:
	       sync_ranges(chain, f, chain->writes, chain->nwrites, RKCHAIN_SYNC_TO_DEVICE);
}

/* After a run. */
int chain_invalidate(const struct chain *chain, struct stock_file *f)
{
	return sync_ranges(chain, f, chain->writes, chain->nwrites, RKCHAIN_SYNC_FROM_DEVICE);
}

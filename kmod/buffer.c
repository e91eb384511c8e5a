// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device memory that user space sees: made through the stock driver, or adopted.
 *
 * All of it under rkchain.driver_sem, so that the driver cannot go meanwhile.
 */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "internal.h"

/*
 * Buffers that nobody needs but whoever still has their dma-buf: their memory is there,
 * so that it counts, and it must not outlive the driver unnoticed.
 */
static DEFINE_MUTEX(lingering_lock);
static LIST_HEAD(lingering);

/* How soon to look whether they do: often, then less so. */
#define SWEEP_FIRST	msecs_to_jiffies(20)
#define SWEEP_AGAIN	msecs_to_jiffies(500)

static void sweep_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(sweeper, sweep_work);

static void buffer_free(struct buffer *buffer)
{
	stock_bo_release(&buffer->bo);
	client_user_uncharge(buffer->user, buffer->charged, 0, 0);
	client_user_put(buffer->user);
	kfree(buffer);
}

static void buffer_last_put(struct kref *ref)
{
	struct buffer *buffer = container_of(ref, struct buffer, ref);

	if (!stock_bo_shared(&buffer->bo)) {
		buffer_free(buffer);
		return;
	}
	/* Somebody has to be there when the driver goes. */
	__module_get(THIS_MODULE);
	mutex_lock(&lingering_lock);
	list_add(&buffer->lingering, &lingering);
	mutex_unlock(&lingering_lock);
	queue_delayed_work(rkchain.workqueue, &sweeper, SWEEP_FIRST);
}

/* Frees what lingers no more. */
void buffer_sweep(void)
{
	struct buffer *buffer, *next;

	mutex_lock(&lingering_lock);
	list_for_each_entry_safe(buffer, next, &lingering, lingering)
		if (!stock_bo_shared(&buffer->bo)) {
			list_del(&buffer->lingering);
			buffer_free(buffer);
			module_put(THIS_MODULE);
		}
	mutex_unlock(&lingering_lock);
}

static void sweep_work(struct work_struct *work)
{
	bool more;

	buffer_sweep();
	mutex_lock(&lingering_lock);
	more = !list_empty(&lingering);
	mutex_unlock(&lingering_lock);
	if (more)
		queue_delayed_work(rkchain.workqueue, &sweeper, SWEEP_AGAIN);
}

void buffer_exit(void)
{
	cancel_delayed_work_sync(&sweeper);
}

void buffer_put(struct buffer *buffer)
{
	kref_put(&buffer->ref, buffer_last_put);
}

/* Looks an id up; whoever gets a buffer puts it. */
struct buffer *buffer_get(struct client *client, u32 id)
{
	struct buffer *buffer;

	mutex_lock(&client->ids);
	buffer = xa_load(&client->bufs, id);
	if (buffer)
		kref_get(&buffer->ref);
	mutex_unlock(&client->ids);
	return buffer;
}

/* Is it memory of the driver that there is now?  Under rkchain.driver_sem. */
bool buffer_alive(const struct buffer *buffer)
{
	return buffer->bo.obj && stock_of(buffer->bo.file) == rkchain.stock;
}

static struct buffer *buffer_alloc(struct client *client)
{
	struct buffer *buffer = kzalloc(sizeof(*buffer), GFP_KERNEL_ACCOUNT);

	if (buffer) {
		kref_init(&buffer->ref);
		buffer->user = client_user_get(client->user);
	}
	return buffer;
}

/* Device memory of @size bytes, whole pages, that counts for the client's user. */
static struct buffer *buffer_make(struct client *client, u64 size, enum stock_memory kind,
				  struct rkc_err *err)
{
	struct stock_file *file = client_file(client, err);
	struct buffer *buffer;
	int ret;

	if (IS_ERR(file))
		return ERR_CAST(file);
	buffer = buffer_alloc(client);
	if (!buffer)
		return ERR_PTR(-ENOMEM);
	buffer_sweep();
	ret = client_user_charge(client->user, size, 0, 0, err);
	if (!ret) {
		buffer->charged = size;
		ret = stock_bo_create(file, size, kind, &buffer->bo, err);
		if (ret)
			client_user_uncharge(client->user, size, 0, 0);
	}
	if (!ret)
		return buffer;
	client_user_put(buffer->user);
	kfree(buffer);
	return ERR_PTR(ret);
}

/**
 * buffer_internal() - memory for the module's own chains, mapped
 * @client: one of the module's own
 * @size: bytes, whole pages
 * @err: filled on refusal
 *
 * Under rkchain.driver_sem, and so is the use of its mapping, while buffer_alive().
 *
 * Return: the buffer or an ERR_PTR.
 */
struct buffer *buffer_internal(struct client *client, u64 size, struct rkc_err *err)
{
	return buffer_make(client, size, STOCK_KERNEL, err);
}

/**
 * buffer_create() - BUF_CREATE
 * @client: whose
 * @arg: of the caller
 * @dmabuf_file: out, to be installed at arg->fd once the caller knows of it
 * @err: filled on refusal
 *
 * Return: 0, -EINVAL, -ENODEV, -EDQUOT, -ENOMEM, -EMFILE.
 */
int buffer_create(struct client *client, struct rkchain_buf_create *arg,
		  struct file **dmabuf_file, struct rkc_err *err)
{
	struct dma_buf *dmabuf;
	struct buffer *buffer;
	int ret;

	if (arg->flags & ~RKCHAIN_BUF_WRITE_COMBINE)
		return refuse(err, -EINVAL, RKCHAIN_REASON_FLAGS, arg->flags,
			      RKCHAIN_BUF_WRITE_COMBINE);
	if (arg->reserved)
		return refuse(err, -EINVAL, RKCHAIN_REASON_RESERVED, arg->reserved, 0);
	if (!arg->size || arg->size >= 1ULL << 32)
		return refuse(err, -EINVAL, RKCHAIN_REASON_SIZE, arg->size, (1ULL << 32) - 1);
	buffer = buffer_make(client, PAGE_ALIGN(arg->size),
			     arg->flags & RKCHAIN_BUF_WRITE_COMBINE ? STOCK_WRITE_COMBINE :
			     STOCK_CACHED, err);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);

	ret = get_unused_fd_flags(O_CLOEXEC);
	if (ret < 0)
		goto put;
	arg->fd = ret;
	dmabuf = stock_bo_export(&buffer->bo);
	ret = PTR_ERR_OR_ZERO(dmabuf);
	if (ret)
		goto put_fd;
	arg->iova = buffer->bo.iova;
	ret = client_publish(&client->bufs, buffer, &arg->id);
	if (ret)
		goto put_dmabuf;
	*dmabuf_file = dmabuf->file;
	return 0;

put_dmabuf:
	fput(dmabuf->file);
put_fd:
	put_unused_fd(arg->fd);
put:
	buffer_put(buffer);
	return ret;
}

int buffer_adopt(struct client *client, struct rkchain_buf_adopt *arg, struct rkc_err *err)
{
	struct stock_file *file;
	struct buffer *buffer;
	int ret;

	if (arg->flags)
		return refuse(err, -EINVAL, RKCHAIN_REASON_FLAGS, arg->flags, 0);
	file = client_file(client, err);
	if (IS_ERR(file))
		return PTR_ERR(file);
	buffer = buffer_alloc(client);
	if (!buffer)
		return -ENOMEM;
	ret = stock_bo_adopt(file, arg->drm_fd, arg->handle, &buffer->bo, err);
	if (ret)
		goto free;
	buffer_sweep();
	ret = client_user_charge(client->user, buffer->bo.size, 0, 0, err);
	if (ret)
		goto release;
	buffer->charged = buffer->bo.size;
	arg->iova = buffer->bo.iova;
	arg->size = buffer->bo.size;
	ret = client_publish(&client->bufs, buffer, &arg->id);
	if (ret)
		buffer_put(buffer);
	return ret;

release:
	stock_bo_release(&buffer->bo);
free:
	client_user_put(buffer->user);
	kfree(buffer);
	return ret;
}

int buffer_destroy(struct client *client, struct rkchain_id *arg, struct rkc_err *err)
{
	struct buffer *buffer;

	if (arg->reserved)
		return refuse(err, -EINVAL, RKCHAIN_REASON_RESERVED, arg->reserved, 0);
	mutex_lock(&client->ids);
	buffer = xa_erase(&client->bufs, arg->id);
	mutex_unlock(&client->ids);
	if (!buffer)
		return refuse(err, -EINVAL, RKCHAIN_REASON_BUFFER_ID, arg->id, 0);
	buffer_put(buffer);
	buffer_sweep();
	return 0;
}

int buffer_sync(struct client *client, struct rkchain_buf_sync *arg, struct rkc_err *err)
{
	const u32 both = RKCHAIN_SYNC_TO_DEVICE | RKCHAIN_SYNC_FROM_DEVICE;
	struct stock_file *file;
	struct buffer *buffer;
	u64 size;
	int ret;

	if (!arg->direction || arg->direction & ~both)
		return refuse(err, -EINVAL, RKCHAIN_REASON_DIRECTION, arg->direction, both);
	buffer = buffer_get(client, arg->id);
	if (!buffer)
		return refuse(err, -EINVAL, RKCHAIN_REASON_BUFFER_ID, arg->id, 0);
	if (!buffer_alive(buffer)) {
		ret = refuse(err, -ENODEV, RKCHAIN_REASON_DEVICE_GONE, arg->id, 0);
		goto out;
	}
	file = client_file(client, err);
	if (IS_ERR(file)) {
		ret = PTR_ERR(file);
		goto out;
	}
	size = arg->size ?: buffer->bo.size - min(arg->offset, buffer->bo.size);
	if (!size || arg->offset >= buffer->bo.size || size > buffer->bo.size - arg->offset)
		ret = refuse(err, -EINVAL, RKCHAIN_REASON_RANGE, arg->offset + size,
			     buffer->bo.size);
	else
		ret = stock_bo_sync(file, &buffer->bo, arg->offset, size, arg->direction);
out:
	buffer_put(buffer);
	return ret;
}

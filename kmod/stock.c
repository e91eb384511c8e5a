// SPDX-License-Identifier: GPL-2.0-only
/*
 * The only file that talks to the stock rknpu driver.
 *
 * It is driven from outside, unpatched: its ioctl functions are called through
 * drm_ioctl_kernel() with arguments in kernel memory, on files of our own.  It
 * trusts its callers with kernel pointers and addresses, so every one that it gets
 * from here is one that it gave out itself.
 *
 * A GEM object does not hold the device that it belongs to; an open file does.  So
 * each stock_bo has a file, and its object is let go before the file.
 */
#include <linux/build_bug.h>
#include <linux/cred.h>
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/of.h>
#include <linux/path.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_prime.h>

#include <rknpu.h>

#include "internal.h"

struct stock {
	struct kref ref;
	struct list_head link;		/* in stocks */
	struct drm_device *drm;
	struct path path;
	const struct cred *cred;
	u32 driver_version;
	u32 hw_version;
	atomic_t files;
	struct mutex lock;		/* of bos */
	struct list_head bos;
};

/* All that there is memory of. */
static DEFINE_MUTEX(stocks_lock);
static LIST_HEAD(stocks);

struct stock_file {
	struct kref ref;
	struct stock *stock;
	struct file *file;
};

/* Room for whatever a version of the driver takes; what it does not know stays 0. */
union stock_arg {
	struct rknpu_action action;
	struct rknpu_submit submit;
	struct rknpu_mem_create create;
	struct rknpu_mem_sync sync;
	u8 room[256];
};

static_assert(sizeof(struct rknpu_action) == 8);
static_assert(sizeof(struct rknpu_submit) == 104);
static_assert(sizeof(struct rknpu_mem_create) == 48);
static_assert(sizeof(struct rknpu_mem_sync) == 32);
static_assert(sizeof(struct rknpu_task) == 40);
static_assert(offsetof(struct rknpu_submit, task_obj_addr) == 24);
static_assert(offsetof(struct rknpu_submit, subcore_task) == 64);

static int stock_call(struct file *file, u32 n, union stock_arg *arg)
{
	const struct drm_file *priv = file->private_data;
	const struct drm_ioctl_desc *desc = &priv->minor->dev->driver->ioctls[n];

	return drm_ioctl_kernel(file, desc->func, arg, desc->flags);
}

static int stock_action(struct file *file, u32 subject, u32 *value)
{
	union stock_arg arg = { .action.flags = subject };
	int ret = stock_call(file, RKNPU_ACTION, &arg);

	if (!ret)
		*value = arg.action.value;
	return ret;
}

/* ---- finding it ---- */

/* The device behind a file, if it is one of DRM's. */
static struct drm_device *drm_of(struct file *file)
{
	const struct drm_file *priv;

	if (!file->f_op || file->f_op->unlocked_ioctl != drm_ioctl ||
	    imajor(file_inode(file)) != DRM_MAJOR)
		return NULL;
	priv = file->private_data;
	return priv->minor->dev;
}

/* Are the calls where we look for them, and of a size that we know? */
static bool abi_known(const struct drm_driver *driver)
{
	static const u32 sizes[RKNPU_IOCTLS] = {
		[RKNPU_ACTION] = sizeof(struct rknpu_action),
		[RKNPU_SUBMIT] = sizeof(struct rknpu_submit),
		[RKNPU_MEM_CREATE] = sizeof(struct rknpu_mem_create),
		[RKNPU_MEM_MAP] = sizeof(struct rknpu_mem_map),
		[RKNPU_MEM_DESTROY] = sizeof(struct rknpu_mem_destroy),
		[RKNPU_MEM_SYNC] = sizeof(struct rknpu_mem_sync),
	};
	u32 i;

	if (driver->num_ioctls < RKNPU_IOCTLS)
		return false;
	for (i = 0; i < RKNPU_IOCTLS; i++) {
		const u32 cmd = driver->ioctls[i].cmd;
		const u32 size = _IOC_SIZE(cmd);

		if (!driver->ioctls[i].func || _IOC_NR(cmd) != DRM_COMMAND_BASE + i)
			return false;
		if (size != sizes[i] && !(i == RKNPU_MEM_CREATE &&
					  (size == RKNPU_MEM_CREATE_SIZE_OLD ||
					   size == RKNPU_MEM_CREATE_SIZE_SRAM)))
			return false;
	}
	return true;
}

static int check_driver(struct drm_device *drm, struct rkc_err *err)
{
	if (!drm || !drm->registered || strcmp(drm->driver->name, "rknpu"))
		return refuse(err, -ENODEV, RKCHAIN_REASON_NOT_RKNPU, 0, 0);
	if (!abi_known(drm->driver))
		return refuse(err, -EOPNOTSUPP, RKCHAIN_REASON_FOREIGN_ABI,
			      drm->driver->num_ioctls, RKNPU_IOCTLS);
	/* The same name serves other chips, with other registers. */
	if (!drm->dev || !drm->dev->of_node ||
	    !of_device_is_compatible(drm->dev->of_node, "rockchip,rk3588-rknpu"))
		return refuse(err, -ENODEV, RKCHAIN_REASON_WRONG_CHIP, 0, 0);
	return 0;
}

/**
 * stock_device() - the device of a driver behind a descriptor
 * @fd: of the caller
 *
 * Return: it, counted, or NULL when that is no file of DRM.
 */
struct device *stock_device(int fd)
{
	struct file *file = fget(fd);
	struct drm_device *drm;
	struct device *dev = NULL;

	if (!file)
		return NULL;
	drm = drm_of(file);
	if (drm && drm->dev)
		dev = get_device(drm->dev);
	fput(file);
	return dev;
}

/**
 * stock_create() - take note of the driver behind a descriptor
 * @fd: of the caller, an open rknpu node
 * @stock: out; the caller owns a reference
 * @err: filled on refusal
 *
 * Under the lock of stock_device(@fd), so that the driver cannot be unbound meanwhile.
 * Keeps path and credentials, to open the node again whenever there is need.
 *
 * Return: 0, -EBADF, -ENODEV, -EOPNOTSUPP, -ENOMEM.
 */
int stock_create(int fd, struct stock **stock, struct rkc_err *err)
{
	struct file *file = fget(fd);
	struct stock *s;
	int ret;

	if (!file)
		return -EBADF;
	ret = check_driver(drm_of(file), err);
	if (ret)
		goto out;
	s = kzalloc(sizeof(*s), GFP_KERNEL);
	ret = -ENOMEM;
	if (!s)
		goto out;
	ret = stock_action(file, RKNPU_GET_DRV_VERSION, &s->driver_version);
	if (!ret)
		ret = stock_action(file, RKNPU_GET_HW_VERSION, &s->hw_version);
	if (ret) {
		ret = refuse(err, -EOPNOTSUPP, RKCHAIN_REASON_FOREIGN_ABI, -ret, 0);
		kfree(s);
		goto out;
	}
	kref_init(&s->ref);
	mutex_init(&s->lock);
	INIT_LIST_HEAD(&s->bos);
	s->drm = drm_of(file);
	drm_dev_get(s->drm);
	s->path = file->f_path;
	path_get(&s->path);
	s->cred = get_current_cred();
	mutex_lock(&stocks_lock);
	list_add(&s->link, &stocks);
	mutex_unlock(&stocks_lock);
	*stock = s;
out:
	fput(file);
	return ret;
}

static void stock_free(struct kref *ref)
{
	struct stock *s = container_of(ref, struct stock, ref);

	list_del(&s->link);
	mutex_unlock(&stocks_lock);
	path_put(&s->path);
	put_cred(s->cred);
	drm_dev_put(s->drm);
	kfree(s);
}

void stock_put(struct stock *s)
{
	kref_put_mutex(&s->ref, stock_free, &stocks_lock);
}

bool stock_is(const struct stock *s, const struct device *dev)
{
	return s->drm->dev == dev;
}

/* Tells two drivers, or two lives of one, apart; not to be followed. */
const void *stock_identity(const struct stock *s)
{
	return s->drm;
}

u32 stock_driver_version(const struct stock *s)
{
	return s->driver_version;
}

u32 stock_hw_version(const struct stock *s)
{
	return s->hw_version;
}

/* Is every open file of the driver ours?  May say no too often, never yes. */
bool stock_alone(const struct stock *s)
{
	return atomic_read(&s->drm->open_count) == atomic_read(&s->files);
}

/* ---- files ---- */

/* Opens the node anew: a path may lead elsewhere by now, so it is checked again. */
struct stock_file *stock_open(struct stock *s)
{
	struct stock_file *f = kzalloc(sizeof(*f), GFP_KERNEL);
	struct file *file;

	if (!f)
		return ERR_PTR(-ENOMEM);
	file = dentry_open(&s->path, O_RDWR | O_CLOEXEC, s->cred);
	if (IS_ERR(file)) {
		kfree(f);
		return ERR_CAST(file);
	}
	if (drm_of(file) != s->drm) {
		fput(file);
		kfree(f);
		return ERR_PTR(-ENODEV);
	}
	kref_init(&f->ref);
	kref_get(&s->ref);
	f->stock = s;
	f->file = file;
	atomic_inc(&s->files);
	return f;
}

struct stock_file *stock_file_get(struct stock_file *f)
{
	kref_get(&f->ref);
	return f;
}

static void stock_file_free(struct kref *ref)
{
	struct stock_file *f = container_of(ref, struct stock_file, ref);

	/* First: until the driver has noticed we are not alone rather than alone. */
	atomic_dec(&f->stock->files);
	fput(f->file);
	stock_put(f->stock);
	kfree(f);
}

void stock_file_put(struct stock_file *f)
{
	if (f)
		kref_put(&f->ref, stock_file_free);
}

struct stock *stock_of(const struct stock_file *f)
{
	return f->stock;
}

/* ---- memory ---- */

static void bo_add(struct stock_file *f, struct stock_bo *bo)
{
	bo->file = stock_file_get(f);
	mutex_lock(&f->stock->lock);
	list_add(&bo->link, &f->stock->bos);
	mutex_unlock(&f->stock->lock);
}

static int bo_set(struct stock_bo *bo, struct drm_gem_object *obj, enum stock_memory kind,
		  const struct rknpu_mem_create *arg, struct rkc_err *err)
{
	memset(bo, 0, sizeof(*bo));
	bo->kind = kind;
	/* The object begins with the GEM object; the driver's other calls rely on it. */
	if (arg->obj_addr != (u64)(uintptr_t)obj)
		return refuse(err, -EOPNOTSUPP, RKCHAIN_REASON_FOREIGN_ABI, 0, 0);
	if (arg->dma_addr % PAGE_SIZE || arg->dma_addr >> 32 || obj->size > 1ULL << 32 ||
	    arg->dma_addr + obj->size > 1ULL << 32)
		return refuse(err, -ERANGE, RKCHAIN_REASON_IOVA, arg->dma_addr + obj->size,
			      1ULL << 32);
	bo->obj = obj;
	bo->iova = arg->dma_addr;
	bo->size = obj->size;
	return 0;
}

/* The kernel's own mapping of what the driver allocated. */
static int bo_map(struct stock_bo *bo)
{
	const unsigned long count = bo->size >> PAGE_SHIFT;
	unsigned long i = 0;
	struct sg_page_iter iter;
	struct page **pages;
	struct sg_table *sgt;

	if (!bo->obj->funcs || !bo->obj->funcs->get_sg_table)
		return -EOPNOTSUPP;
	pages = kvmalloc_array(count, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	sgt = bo->obj->funcs->get_sg_table(bo->obj);
	if (IS_ERR_OR_NULL(sgt)) {
		kvfree(pages);
		return sgt ? PTR_ERR(sgt) : -ENOMEM;
	}
	for_each_sgtable_page(sgt, &iter, 0)
		if (i < count)
			pages[i++] = sg_page_iter_page(&iter);
	if (i == count)
		bo->vaddr = vmap(pages, count, VM_MAP, PAGE_KERNEL);
	sg_free_table(sgt);
	kfree(sgt);
	kvfree(pages);
	return bo->vaddr ? 0 : -ENOMEM;
}

/**
 * stock_bo_create() - allocate device memory
 * @f: file to do it on
 * @size: bytes, not 0
 * @kind: what it is for
 * @bo: result; on success stock_bo_release() frees it
 * @err: filled on refusal
 *
 * The handle goes at once: nobody but the module refers to the object, until it is
 * exported.
 *
 * Return: 0, -ENOMEM, -EOPNOTSUPP, -ERANGE.
 */
int stock_bo_create(struct stock_file *f, u64 size, enum stock_memory kind, struct stock_bo *bo,
		    struct rkc_err *err)
{
	const u32 common = RKNPU_MEM_NON_CONTIGUOUS | RKNPU_MEM_IOVA_ALIGNMENT | RKNPU_MEM_ZEROING;
	static const u32 flags[] = {
		[STOCK_CACHED] = RKNPU_MEM_CACHEABLE,
		[STOCK_WRITE_COMBINE] = RKNPU_MEM_WRITE_COMBINE,
		[STOCK_KERNEL] = RKNPU_MEM_CACHEABLE | RKNPU_MEM_KERNEL_MAPPING,
	};
	struct drm_file *priv = f->file->private_data;
	union stock_arg arg = { .create.flags = common | flags[kind], .create.size = size };
	struct drm_gem_object *obj;
	int ret;

	ret = stock_call(f->file, RKNPU_MEM_CREATE, &arg);
	if (ret)
		return refuse(err, ret == -ENODEV ? ret : -ENOMEM, RKCHAIN_REASON_MEMORY, size,
			      -ret);
	obj = drm_gem_object_lookup(priv, arg.create.handle);
	drm_gem_handle_delete(priv, arg.create.handle);
	if (!obj)
		return refuse(err, -ENOMEM, RKCHAIN_REASON_MEMORY, size, 0);
	ret = bo_set(bo, obj, kind, &arg.create, err);
	if (!ret && kind == STOCK_KERNEL) {
		ret = bo_map(bo);
		if (ret)
			refuse(err, ret, RKCHAIN_REASON_MEMORY, size, -ret);
	}
	if (ret) {
		bo->obj = NULL;
		drm_gem_object_put(obj);
		return ret;
	}
	bo_add(f, bo);
	return 0;
}

/**
 * stock_bo_adopt() - take a buffer that somebody made on the node himself
 * @f: file of ours, to keep the device
 * @fd: the caller's file of the same device
 * @handle: of a GEM object there
 * @bo: result
 * @err: filled on refusal
 *
 * An imported dma-buf is refused: of its address the driver tells the first segment
 * and of its size the whole.
 *
 * Return: 0, -EBADF, -EINVAL.
 */
int stock_bo_adopt(struct stock_file *f, int fd, u32 handle, struct stock_bo *bo,
		   struct rkc_err *err)
{
	union stock_arg arg = { .create.handle = handle };
	struct drm_gem_object *obj;
	struct file *file = fget(fd);
	int ret;

	if (!file)
		return -EBADF;
	ret = -EINVAL;
	if (drm_of(file) != f->stock->drm) {
		refuse(err, ret, RKCHAIN_REASON_FOREIGN_NODE, 0, 0);
		goto out;
	}
	obj = drm_gem_object_lookup(file->private_data, handle);
	if (!obj) {
		refuse(err, ret, RKCHAIN_REASON_HANDLE, handle, 0);
		goto out;
	}
	if (obj->import_attach) {
		refuse(err, ret, RKCHAIN_REASON_IMPORTED, handle, 0);
	} else if (stock_call(file, RKNPU_MEM_CREATE, &arg) ||
		   arg.create.obj_addr != (u64)(uintptr_t)obj) {
		/* Somebody exchanged the handle meanwhile. */
		refuse(err, ret, RKCHAIN_REASON_HANDLE, handle, 0);
	} else {
		ret = bo_set(bo, obj, STOCK_ADOPTED, &arg.create, err);
	}
	if (ret) {
		bo->obj = NULL;
		drm_gem_object_put(obj);
	} else {
		bo_add(f, bo);
	}
out:
	fput(file);
	return ret;
}

static void bo_put_object(struct stock_bo *bo)
{
	if (bo->vaddr)
		vunmap(bo->vaddr);
	bo->vaddr = NULL;
	if (bo->obj)
		drm_gem_object_put(bo->obj);
	bo->obj = NULL;
}

void stock_bo_release(struct stock_bo *bo)
{
	struct stock *s;

	if (!bo->file)
		return;
	s = bo->file->stock;
	mutex_lock(&s->lock);
	list_del_init(&bo->link);
	bo_put_object(bo);
	mutex_unlock(&s->lock);
	stock_file_put(bo->file);
	bo->file = NULL;
}

/**
 * stock_drop_bos() - give back all memory of a driver
 * @s: the driver
 * @gone: it is being unbound
 *
 * What is left of each stock_bo is an empty shell.  When the driver goes, an object
 * that somebody else refers to as well must never be freed, since that needs what
 * the driver frees now: the module's reference stays with it for good.  When it
 * does not, such an object stays in the list, until the driver goes.
 */
void stock_drop_bos(struct stock *s, bool gone)
{
	struct stock_bo *bo, *next;

	mutex_lock(&s->lock);
	list_for_each_entry_safe(bo, next, &s->bos, link) {
		/* Somebody has a dma-buf of it. */
		if (kref_read(&bo->obj->refcount) > 1) {
			if (!gone)
				continue;
			bo->obj = NULL;
		}
		list_del_init(&bo->link);
		bo_put_object(bo);
	}
	mutex_unlock(&s->lock);
}

/* The driver of @dev goes: is there memory of it left from before a release? */
bool stocks_unbound(const struct device *dev)
{
	bool any = false;
	struct stock *s;

	mutex_lock(&stocks_lock);
	list_for_each_entry(s, &stocks, link)
		if (stock_is(s, dev)) {
			any = true;
			stock_drop_bos(s, true);
		}
	mutex_unlock(&stocks_lock);
	return any;
}

/* Does somebody besides the module hold it? */
bool stock_bo_shared(const struct stock_bo *bo)
{
	bool shared;

	if (!bo->file)
		return false;
	mutex_lock(&bo->file->stock->lock);
	shared = bo->obj && kref_read(&bo->obj->refcount) > 1;
	mutex_unlock(&bo->file->stock->lock);
	return shared;
}

/* A dma-buf of it, for user space to map; the caller owns the reference. */
struct dma_buf *stock_bo_export(struct stock_bo *bo)
{
	const struct drm_gem_object_funcs *funcs = bo->obj->funcs;
	const int flags = O_RDWR | O_CLOEXEC;

	return funcs && funcs->export ? funcs->export(bo->obj, flags) :
					drm_gem_prime_export(bo->obj, flags);
}

int stock_bo_sync(struct stock_file *f, const struct stock_bo *bo, u64 offset, u64 size,
		  u32 directions)
{
	union stock_arg arg = {
		.sync.flags = (directions & RKCHAIN_SYNC_TO_DEVICE ?
			       RKNPU_MEM_SYNC_TO_DEVICE : 0) |
			      (directions & RKCHAIN_SYNC_FROM_DEVICE ?
			       RKNPU_MEM_SYNC_FROM_DEVICE : 0),
		.sync.obj_addr = (uintptr_t)bo->obj,
		.sync.offset = offset,
		.sync.size = size,
	};
	int ret;

	if (bo->kind == STOCK_WRITE_COMBINE)
		return 0;
	ret = stock_call(f->file, RKNPU_MEM_SYNC, &arg);
	/* That is how the driver answers when there is no cache to look after. */
	return ret == -EINVAL && bo->kind == STOCK_ADOPTED ? 0 : ret;
}

/* ---- work ---- */

size_t stock_task_bytes(u32 tasks)
{
	return tasks * sizeof(struct rknpu_task);
}

void stock_put_task(const struct stock_bo *bo, u32 index, u64 iova, u32 regcfg_amount)
{
	struct rknpu_task *task = (struct rknpu_task *)bo->vaddr + index;

	memset(task, 0, sizeof(*task));
	task->int_mask = RKNPU_INT_DPU;
	task->regcfg_amount = regcfg_amount;
	task->regcmd_addr = iova;
}

/**
 * stock_submit() - run tasks on one core and wait for them
 * @f: the core's own file
 * @run: what; results
 *
 * Blocking, one core, nothing else outstanding there: whatever else the driver
 * offers has bugs that take the machine down.
 *
 * Return: 0 or what the driver says, which does not tell whose fault it is.
 */
int stock_submit(struct stock_file *f, struct stock_run *run)
{
	struct rknpu_task *tasks = run->bo->vaddr;
	struct rknpu_task *last = tasks + run->start + run->number - 1;
	union stock_arg arg = {
		.submit.flags = RKNPU_JOB_PC,
		.submit.timeout = RKC_STOCK_TIMEOUT_MS,
		.submit.task_start = run->start,
		.submit.task_number = run->number,
		.submit.task_obj_addr = (uintptr_t)run->bo->obj,
		.submit.core_mask = 1U << run->core,
		.submit.fence_fd = -1,
	};
	int ret;

	arg.submit.subcore_task[run->core].task_start = run->start;
	arg.submit.subcore_task[run->core].task_number = run->number;
	WRITE_ONCE(last->int_status, RKC_NOT_COMMITTED);
	ret = stock_call(f->file, RKNPU_SUBMIT, &arg);
	run->committed = READ_ONCE(last->int_status) != RKC_NOT_COMMITTED;
	if (!ret && arg.submit.hw_elapse_time > 0)
		run->hw_ns += arg.submit.hw_elapse_time;
	return ret;
}

/* Resets the NPU, for all of its users. */
int stock_reset(struct stock_file *f)
{
	u32 unused;

	return stock_action(f->file, RKNPU_ACT_RESET, &unused);
}

/* The IOMMU domain in force; 0 as well from a driver that has only one. */
int stock_domain(struct stock_file *f)
{
	u32 domain = 0;

	if (stock_action(f->file, RKNPU_GET_IOMMU_DOMAIN, &domain))
		return 0;
	return domain;
}

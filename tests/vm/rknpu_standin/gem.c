// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers: MEM_CREATE, MEM_MAP, MEM_DESTROY, MEM_SYNC, PRIME.
 *
 * Memory of a CACHEABLE buffer exists twice, and MEM_SYNC copies: whoever forgets
 * it sees what a processor with a cache would show on a bad day.
 *
 * An object keeps the DRM device and this module.  In the stock driver it keeps
 * neither, so that freeing one after an unbind uses freed memory: late_put.
 */
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include <drm/drm_drv.h>
#include <drm/drm_prime.h>

#include "standin.h"

static DEFINE_MUTEX(standin_objects_lock);
static LIST_HEAD(objects);

static void free_memory(struct standin_object *obj)
{
	if (obj->flags & RKNPU_MEM_CACHEABLE)
		vfree(obj->cpu);
	if (obj->device)
		dma_free_pages(obj->base.dev->dev, obj->base.size, obj->device, obj->dma,
			       DMA_BIDIRECTIONAL);
}

static void standin_free(struct drm_gem_object *base)
{
	struct standin_object *obj = to_object(base);
	struct drm_device *drm = base->dev;
	unsigned long irq;

	mutex_lock(&standin_objects_lock);
	list_del(&obj->node);
	mutex_unlock(&standin_objects_lock);

	spin_lock_irqsave(&standin_lock, irq);
	standin_stats.objects--;
	standin_stats.bytes -= base->size;
	standin_stats.late_put += to_standin(drm)->gone;
	spin_unlock_irqrestore(&standin_lock, irq);

	if (obj->sgt)
		drm_prime_gem_destroy(base, obj->sgt);
	free_memory(obj);
	drm_gem_object_release(base);
	kfree(obj);
	drm_dev_put(drm);
	module_put(THIS_MODULE);
}

static struct sg_table *standin_sg_table(struct drm_gem_object *base)
{
	struct standin_object *obj = to_object(base);
	size_t i, count = base->size >> PAGE_SHIFT;
	struct sg_table *sgt;
	struct page **pages;

	if (!obj->cpu)
		return ERR_PTR(-EINVAL);
	pages = kvmalloc_array(count, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < count; i++)
		pages[i] = is_vmalloc_addr(obj->cpu) ?
			   vmalloc_to_page(obj->cpu + i * PAGE_SIZE) : obj->device + i;
	sgt = drm_prime_pages_to_sg(base->dev, pages, count);
	kvfree(pages);
	return sgt;
}

/* Of the node at the offset of MEM_MAP, and of a dma-buf at any offset. */
static int standin_mmap(struct drm_gem_object *base, struct vm_area_struct *vma)
{
	struct standin_object *obj = to_object(base);
	unsigned long count = base->size >> PAGE_SHIFT;
	unsigned long first = vma->vm_pgoff - drm_vma_node_start(&base->vma_node);

	if (!obj->cpu || first >= count || vma_pages(vma) > count - first)
		return -EINVAL;
	if (is_vmalloc_addr(obj->cpu))
		return remap_vmalloc_range(vma, obj->cpu, first);
	return remap_pfn_range(vma, vma->vm_start, page_to_pfn(obj->device) + first,
			       vma_pages(vma) << PAGE_SHIFT, vma->vm_page_prot);
}

static const struct vm_operations_struct standin_vm_ops = {
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
};

static const struct drm_gem_object_funcs standin_funcs = {
	.free = standin_free,
	.get_sg_table = standin_sg_table,
	.mmap = standin_mmap,
	.vm_ops = &standin_vm_ops,
};

static void live(struct drm_device *drm, struct standin_object *obj)
{
	unsigned long irq;

	drm_dev_get(drm);
	__module_get(THIS_MODULE);
	spin_lock_irqsave(&standin_lock, irq);
	standin_stats.objects++;
	standin_stats.bytes += obj->base.size;
	spin_unlock_irqrestore(&standin_lock, irq);
	mutex_lock(&standin_objects_lock);
	list_add(&obj->node, &objects);
	mutex_unlock(&standin_objects_lock);
}

static struct standin_object *new_object(struct drm_device *drm, u64 size, u32 flags)
{
	struct standin_object *obj;

	if (!size || size > SZ_1G)
		return ERR_PTR(size ? -ENOMEM : -EINVAL);
	size = PAGE_ALIGN(size);
	obj = kzalloc(sizeof(*obj), GFP_KERNEL);
	if (!obj)
		return ERR_PTR(-ENOMEM);
	obj->flags = flags;
	obj->base.funcs = &standin_funcs;
	/* Contiguous whatever the flags say: there is no IOMMU. */
	obj->device = dma_alloc_pages(drm->dev, size, &obj->dma, DMA_BIDIRECTIONAL,
				      GFP_KERNEL | __GFP_NOWARN);
	if (!obj->device)
		goto no_device;
	memset(page_address(obj->device), 0, size);
	obj->cpu = page_address(obj->device);
	if (flags & RKNPU_MEM_CACHEABLE)
		obj->cpu = vmalloc_user(size);
	if (!obj->cpu)
		goto no_cpu;
	drm_gem_private_object_init(drm, &obj->base, size);
	live(drm, obj);
	return obj;

no_cpu:
	dma_free_pages(drm->dev, size, obj->device, obj->dma, DMA_BIDIRECTIONAL);
no_device:
	kfree(obj);
	return ERR_PTR(-ENOMEM);
}

struct drm_gem_object *standin_import(struct drm_device *drm, struct dma_buf_attachment *attach,
				      struct sg_table *sgt)
{
	struct standin_object *obj = kzalloc(sizeof(*obj), GFP_KERNEL);
	struct scatterlist *sg;
	size_t size = 0;
	u32 i;

	if (!obj)
		return ERR_PTR(-ENOMEM);
	for_each_sgtable_sg(sgt, sg, i)
		size += sg->length;
	obj->base.funcs = &standin_funcs;
	obj->sgt = sgt;
	/* All of the size, and the address of the first piece alone. */
	obj->dma = sg_dma_address(sgt->sgl);
	drm_gem_private_object_init(drm, &obj->base, PAGE_ALIGN(size));
	live(drm, obj);
	return &obj->base;
}

/* The object of that address with a reference, if there is one. */
struct standin_object *standin_object_get(u64 obj_addr)
{
	struct standin_object *obj, *found = NULL;

	mutex_lock(&standin_objects_lock);
	list_for_each_entry(obj, &objects, node)
		if ((uintptr_t)obj == obj_addr && kref_get_unless_zero(&obj->base.refcount))
			found = obj;
	mutex_unlock(&standin_objects_lock);
	return found;
}

int standin_mem_create(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct rknpu_mem_create *args = data;
	struct drm_gem_object *base = NULL;
	struct standin_object *obj;
	int ret;

	standin_enter(drm);
	if (args->handle)
		base = drm_gem_object_lookup(file, args->handle);
	if (base) {
		obj = to_object(base);
	} else {
		if (READ_ONCE(standin_knobs.no_memory))
			return -ENOMEM;
		/* A handle that is none gets a new buffer. */
		obj = new_object(drm, args->size, args->flags);
		if (IS_ERR(obj))
			return PTR_ERR(obj);
		ret = drm_gem_handle_create(file, &obj->base, &args->handle);
		if (ret) {
			drm_gem_object_put(&obj->base);
			return ret;
		}
	}
	args->size = obj->base.size;
	args->obj_addr = (uintptr_t)obj;
	args->dma_addr = obj->dma + (READ_ONCE(standin_knobs.iova_high) ? 1ULL << 32 : 0);
	args->sram_size = 0;
	drm_gem_object_put(&obj->base);
	return 0;
}

int standin_mem_map(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct rknpu_mem_map *args = data;

	standin_enter(drm);
	return drm_gem_dumb_map_offset(file, drm, args->handle, &args->offset);
}

int standin_mem_destroy(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct rknpu_mem_destroy *args = data;

	standin_enter(drm);
	return drm_gem_handle_delete(file, args->handle);
}

/* The stock driver trusts address and range. */
int standin_mem_sync(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct rknpu_mem_sync *args = data;
	struct standin_object *obj = standin_object_get(args->obj_addr);
	int ret = -EINVAL;
	void *device;

	standin_enter(drm);
	if (!obj || args->offset > obj->base.size || args->size > obj->base.size - args->offset) {
		standin_count(&standin_stats.oops);
		goto out;
	}
	if (!(obj->flags & RKNPU_MEM_CACHEABLE))
		goto out;
	device = page_address(obj->device) + args->offset;
	if (args->flags & RKNPU_MEM_SYNC_TO_DEVICE) {
		memcpy(device, obj->cpu + args->offset, args->size);
		standin_count(&standin_stats.to_device);
	}
	if (args->flags & RKNPU_MEM_SYNC_FROM_DEVICE) {
		memcpy(obj->cpu + args->offset, device, args->size);
		standin_count(&standin_stats.from_device);
	}
	ret = 0;
out:
	if (obj)
		drm_gem_object_put(&obj->base);
	return ret;
}

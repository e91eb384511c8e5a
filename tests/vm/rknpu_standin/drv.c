// SPDX-License-Identifier: GPL-2.0-only
/*
 * The platform driver, the DRM device and ACTION.
 *
 * All that a binding makes is device-managed: the last thing that probe
 * registers is the first that an unbind takes down.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/clk.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/mod_devicetable.h>
#include <linux/module.h>
#include <linux/platform_device.h>

#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_prime.h>

#include "standin.h"

static_assert(sizeof(struct rknpu_action) == 8);
static_assert(sizeof(struct rknpu_submit) == 104);
static_assert(sizeof(struct rknpu_mem_create) == 48);
static_assert(sizeof(struct rknpu_mem_map) == 16);
static_assert(sizeof(struct rknpu_mem_destroy) == 16);
static_assert(sizeof(struct rknpu_mem_sync) == 32);
static_assert(sizeof(struct rknpu_task) == 40);

bool standin_trap_log = true;
module_param_named(trap_log, standin_trap_log, bool, 0644);
MODULE_PARM_DESC(trap_log, "Say in the kernel log that a queue would have been corrupted");

static u32 hardware_version(struct standin *s)
{
	unsigned long irq;
	u32 version = 0;

	spin_lock_irqsave(&standin_lock, irq);
	if (!s->gone)
		version = readl(s->core[0].window) + (readl(s->core[0].window + 4) & 0xffff);
	spin_unlock_irqrestore(&standin_lock, irq);
	return version;
}

static int standin_action(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct standin *s = to_standin(drm);
	struct rknpu_action *args = data;

	standin_enter(drm);
	standin_count(&standin_stats.actions);
	switch (args->flags) {
	case RKNPU_GET_HW_VERSION:
		args->value = hardware_version(s);
		return 0;
	case RKNPU_GET_DRV_VERSION:
		args->value = DRV_VERSION;
		return 0;
	case RKNPU_GET_FREQ:
		args->value = clk_get_rate(s->clk);
		return 0;
	case RKNPU_ACT_RESET:
		standin_count(&standin_stats.resets_asked);
		standin_reset(s);
		return 0;
	case RKNPU_GET_IOMMU_EN:
		args->value = 0;
		return 0;
	case RKNPU_GET_IOMMU_DOMAIN:
		args->value = READ_ONCE(standin_knobs.iommu_domain);
		return 0;
	default:
		return -EINVAL;
	}
}

/* The macro below wants these names. */
#define DRM_IOCTL_RKNPU_ACTION		RKNPU_IOCTL_ACTION
#define DRM_IOCTL_RKNPU_SUBMIT		RKNPU_IOCTL_SUBMIT
#define DRM_IOCTL_RKNPU_MEM_CREATE	RKNPU_IOCTL_MEM_CREATE
#define DRM_IOCTL_RKNPU_MEM_MAP		RKNPU_IOCTL_MEM_MAP
#define DRM_IOCTL_RKNPU_MEM_DESTROY	RKNPU_IOCTL_MEM_DESTROY
#define DRM_IOCTL_RKNPU_MEM_SYNC	RKNPU_IOCTL_MEM_SYNC

static const struct drm_ioctl_desc standin_ioctls[] = {
	DRM_IOCTL_DEF_DRV(RKNPU_ACTION, standin_action, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(RKNPU_SUBMIT, standin_submit, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(RKNPU_MEM_CREATE, standin_mem_create, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(RKNPU_MEM_MAP, standin_mem_map, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(RKNPU_MEM_DESTROY, standin_mem_destroy, DRM_RENDER_ALLOW),
	DRM_IOCTL_DEF_DRV(RKNPU_MEM_SYNC, standin_mem_sync, DRM_RENDER_ALLOW),
};

DEFINE_DRM_GEM_FOPS(standin_fops);

static const struct drm_driver standin_driver = {
	.driver_features = DRIVER_GEM | DRIVER_RENDER,
	.name = "rknpu",
	.desc = "stand-in for the stock NPU driver",
#ifdef HAVE_DATE
	.date = "20240828",
#endif
	.major = 0,
	.minor = 9,
	.patchlevel = 8,
	.fops = &standin_fops,
	.ioctls = standin_ioctls,
	.num_ioctls = ARRAY_SIZE(standin_ioctls),
	.prime_handle_to_fd = drm_gem_prime_handle_to_fd,
	.prime_fd_to_handle = drm_gem_prime_fd_to_handle,
	.gem_prime_import = drm_gem_prime_import,
	.gem_prime_import_sg_table = standin_import,
#ifdef HAVE_PRIME_MMAP
	.gem_prime_mmap = drm_gem_prime_mmap,
#endif
};

/* ---- coming and going ---- */

static irqreturn_t handler(int irq, void *data)
{
	struct core *core = data;

	return standin_interrupt(container_of(core, struct standin, core[core->id]), core);
}

static void unregister(void *data)
{
	struct standin *s = data;

	drm_dev_unregister(&s->drm);
	standin_jobs_remove(s);
}

static int add_core(struct platform_device *pdev, struct core *core)
{
	char name[] = "npu0_irq";
	int irq;

	core->window = devm_platform_ioremap_resource(pdev, core->id);
	if (IS_ERR(core->window))
		return PTR_ERR(core->window);
	name[3] += core->id;
	irq = platform_get_irq_byname(pdev, name);
	if (irq < 0)
		return irq;
	return devm_request_irq(&pdev->dev, irq, handler, 0, "rknpu", core);
}

static int standin_probe(struct platform_device *pdev)
{
	struct standin *s;
	int ret;
	u32 i;

	s = devm_drm_dev_alloc(&pdev->dev, &standin_driver, struct standin, drm);
	if (IS_ERR(s))
		return PTR_ERR(s);
	mutex_init(&s->reset_lock);
	standin_jobs_add(s);
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(32));
	if (ret)
		return ret;
	s->clk = devm_clk_get(&pdev->dev, NULL);
	if (IS_ERR(s->clk))
		return PTR_ERR(s->clk);
	for (i = 0; i < CORES; i++) {
		ret = add_core(pdev, &s->core[i]);
		if (ret)
			return ret;
	}
	ret = drm_dev_register(&s->drm, 0);
	if (ret)
		return ret;
	return devm_add_action_or_reset(&pdev->dev, unregister, s);
}

static const struct of_device_id standin_of_match[] = {
	{ .compatible = "rockchip,rk3588-rknpu" },
	{}
};
MODULE_DEVICE_TABLE(of, standin_of_match);

static struct platform_driver standin_platform_driver = {
	.probe = standin_probe,
	.driver = {
		.name = "RKNPU",
		.of_match_table = standin_of_match,
	},
};

static int __init standin_init(void)
{
	int ret = standin_jobs_init();

	if (ret)
		return ret;
	standin_debugfs_add();
	ret = standin_others_init(&standin_driver);
	if (ret)
		goto jobs;
	ret = platform_driver_register(&standin_platform_driver);
	if (ret)
		goto others;
	return 0;

others:
	standin_others_exit();
jobs:
	standin_debugfs_remove();
	standin_jobs_exit();
	return ret;
}

static void __exit standin_exit(void)
{
	platform_driver_unregister(&standin_platform_driver);
	/* Its file makes devices, so that it goes first. */
	standin_debugfs_remove();
	standin_others_exit();
	standin_jobs_exit();
}

module_init(standin_init);
module_exit(standin_exit);
MODULE_DESCRIPTION("Stand-in for the stock rknpu driver, for tests in a virtual machine");
MODULE_LICENSE("GPL");

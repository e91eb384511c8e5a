// SPDX-License-Identifier: GPL-2.0-only
/*
 * rkchain: a system service that runs chains of matmul programs on the NPU of the
 * RK3588, on top of the stock rknpu driver.
 *
 * The module's parameters, the device node, and the comings and goings of the
 * driver underneath.
 */
#include <linux/capability.h>
#include <linux/device.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/platform_device.h>
#include <linux/suspend.h>

#include "internal.h"

struct rkchain rkchain;

/* ---- parameters ---- */

static u32 hang_ms = 1000;
static u32 strikes = 3;
static u32 quota_mbytes = 3072;
static u32 quota_chains = 16384;
static u32 quota_blocks = 262144;
static u32 quota_jobs = 8192;

static int bounded_set(const char *text, const struct kernel_param *param, u32 least, u32 most)
{
	u32 value;
	int ret = kstrtou32(text, 0, &value);

	if (ret)
		return ret;
	if (value < least || value > most) {
		pr_info("rkchain: %s can be %u to %u\n", param->name, least, most);
		return -EINVAL;
	}
	WRITE_ONCE(*(u32 *)param->arg, value);
	return 0;
}

/* Below half the driver's time-out, so that the module is the one that acts first. */
static int hang_set(const char *text, const struct kernel_param *param)
{
	return bounded_set(text, param, 20, RKC_STOCK_TIMEOUT_MS / 2);
}

static int strikes_set(const char *text, const struct kernel_param *param)
{
	return bounded_set(text, param, 1, 1000000);
}

static const struct kernel_param_ops hang_ops = { .set = hang_set, .get = param_get_uint };
static const struct kernel_param_ops strikes_ops = { .set = strikes_set, .get = param_get_uint };

module_param_cb(hang_ms, &hang_ops, &hang_ms, 0644);
MODULE_PARM_DESC(hang_ms,
		 "age at which a chain is taken for hung, 20 to 3000; none may be estimated at more than half (1000)");
module_param_cb(strikes, &strikes_ops, &strikes, 0644);
MODULE_PARM_DESC(strikes, "failures in a row after which a core is set aside (3)");
module_param(quota_mbytes, uint, 0644);
MODULE_PARM_DESC(quota_mbytes, "MiB of device memory that a user may hold (3072)");
module_param(quota_chains, uint, 0644);
MODULE_PARM_DESC(quota_chains, "chains that a user may hold (16384)");
module_param(quota_blocks, uint, 0644);
MODULE_PARM_DESC(quota_blocks, "blocks of all of a user's chains (262144)");
module_param(quota_jobs, uint, 0644);
MODULE_PARM_DESC(quota_jobs, "chains that a user may have submitted and not collected (8192)");

u64 param_hang_ns(void)
{
	return (u64)READ_ONCE(hang_ms) * NSEC_PER_MSEC;
}

u32 param_strikes(void)
{
	return READ_ONCE(strikes);
}

u64 param_quota_bytes(void)
{
	return (u64)READ_ONCE(quota_mbytes) << 20;
}

u64 param_quota_chains(void)
{
	return READ_ONCE(quota_chains);
}

u64 param_quota_blocks(void)
{
	return READ_ONCE(quota_blocks);
}

u64 param_quota_jobs(void)
{
	return READ_ONCE(quota_jobs);
}

/* ---- the driver underneath ---- */

/* One PROVIDE, release or unbind at a time. */
static DEFINE_MUTEX(provider_lock);
/* Which driver it was whose cores have been poisoned. */
static const void *last_identity;

enum drop {
	DROP_RELEASED,		/* somebody asked for it */
	DROP_UNBOUND,		/* the driver goes */
	DROP_UNLOADED,		/* the module goes */
};

static int drop_driver(enum drop why)
{
	struct stock *stock;

	lockdep_assert_held(&provider_lock);
	if (!rkchain.stock)
		return 0;
	/* Nothing is queued or runs from here on. */
	sched_stop(why == DROP_UNBOUND);
	if (sched_quarantined()) {
		/* Memory that the NPU may still write to is better lost than given back. */
		if (why == DROP_RELEASED)
			sched_resume();
		return -EBUSY;
	}
	down_write(&rkchain.driver_sem);
	mutex_lock(&rkchain.lock);
	stock = rkchain.stock;
	rkchain.stock = NULL;
	mutex_unlock(&rkchain.lock);
	sched_detach();
	stock_drop_bos(stock, why == DROP_UNBOUND);
	up_write(&rkchain.driver_sem);
	if (why == DROP_UNBOUND)
		last_identity = NULL;
	stock_put(stock);
	sched_resume();
	return 0;
}

static int release_driver(struct rkc_err *err)
{
	if (!rkchain.stock)
		return refuse(err, -ENODEV, RKCHAIN_REASON_NO_PROVIDER, 0, 0);
	if (sched_quarantined() || drop_driver(DROP_RELEASED))
		return refuse(err, -EBUSY, RKCHAIN_REASON_QUARANTINE, 0, 0);
	return 0;
}

static int take_driver(int fd, struct rkc_err *err)
{
	struct stock *stock;
	int ret;

	if (rkchain.stock)
		return refuse(err, -EBUSY, RKCHAIN_REASON_PROVIDED, 0, 0);
	ret = stock_create(fd, &stock, err);
	if (ret)
		return ret;
	down_write(&rkchain.driver_sem);
	mutex_lock(&rkchain.lock);
	rkchain.stock = stock;
	/* The driver's lists are as they were, if it is the same one. */
	rkc_cores_init(&rkchain.npu, last_identity == stock_identity(stock) ?
		       rkchain.npu.poisoned : 0);
	last_identity = stock_identity(stock);
	mutex_unlock(&rkchain.lock);
	mode_forget();
	up_write(&rkchain.driver_sem);
	if (mode_auto())
		selftest_provide();
	return 0;
}

/**
 * provide() - PROVIDE
 * @arg: of the caller
 * @err: filled on refusal
 *
 * Return: 0, -EPERM, -EINVAL, -EBADF, -ENODEV, -EOPNOTSUPP, -EBUSY, -ENOMEM.
 */
int provide(struct rkchain_provide *arg, struct rkc_err *err)
{
	const bool release = arg->flags & RKCHAIN_PROVIDE_RELEASE;
	struct device *dev;
	int ret;

	if (!capable(CAP_SYS_ADMIN))
		return refuse(err, -EPERM, RKCHAIN_REASON_PRIVILEGE, 0, CAP_SYS_ADMIN);
	if (arg->flags & ~RKCHAIN_PROVIDE_RELEASE)
		return refuse(err, -EINVAL, RKCHAIN_REASON_FLAGS, arg->flags,
			      RKCHAIN_PROVIDE_RELEASE);
	/* What is being unbound is not to be taken: unbinding holds this lock. */
	dev = release ? NULL : stock_device(arg->drm_fd);
	if (dev)
		device_lock(dev);
	mutex_lock(&provider_lock);
	ret = release ? release_driver(err) : take_driver(arg->drm_fd, err);
	mutex_unlock(&provider_lock);
	if (dev) {
		device_unlock(dev);
		put_device(dev);
	}
	return ret;
}

/*
 * Unbinding does not wait for open files: what the module has of the driver must be
 * gone before, or would be given back to something that no longer exists.
 */
static int bus_event(struct notifier_block *self, unsigned long event, void *data)
{
	if (event != BUS_NOTIFY_UNBIND_DRIVER)
		return NOTIFY_DONE;
	mutex_lock(&provider_lock);
	if (rkchain.stock && stock_is(rkchain.stock, data))
		drop_driver(DROP_UNBOUND);
	/* What is left of earlier ones, and the memory of what they were. */
	if (stocks_unbound(data))
		last_identity = NULL;
	mutex_unlock(&provider_lock);
	return NOTIFY_OK;
}

/* The kernel's threads go on while user space is frozen, so they have to be stopped. */
static int pm_event(struct notifier_block *self, unsigned long event, void *unused)
{
	switch (event) {
	case PM_HIBERNATION_PREPARE:
	case PM_SUSPEND_PREPARE:
	case PM_RESTORE_PREPARE:
		return notifier_from_errno(sched_suspend());
	case PM_POST_HIBERNATION:
	case PM_POST_SUSPEND:
	case PM_POST_RESTORE:
		sched_wake();
		return NOTIFY_OK;
	}
	return NOTIFY_DONE;
}

static struct notifier_block bus_notifier = { .notifier_call = bus_event };
static struct notifier_block pm_notifier = { .notifier_call = pm_event };

/* ---- coming and going ---- */

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rkchain",
	.fops = &client_fops,
	.groups = stats_groups,
	.mode = 0660,
};

static int __init rkchain_init(void)
{
	int ret;

	init_rwsem(&rkchain.driver_sem);
	mutex_init(&rkchain.files_lock);
	mutex_init(&rkchain.lock);
	stats_init();
	ret = sched_init();
	if (ret)
		return ret;
	ret = bus_register_notifier(&platform_bus_type, &bus_notifier);
	if (ret)
		goto sched;
	ret = register_pm_notifier(&pm_notifier);
	if (ret)
		goto bus;
	ret = misc_register(&device);
	if (ret)
		goto pm;
	return 0;

pm:
	unregister_pm_notifier(&pm_notifier);
bus:
	bus_unregister_notifier(&platform_bus_type, &bus_notifier);
sched:
	sched_exit();
	return ret;
}

static void __exit rkchain_exit(void)
{
	misc_deregister(&device);
	unregister_pm_notifier(&pm_notifier);
	bus_unregister_notifier(&platform_bus_type, &bus_notifier);
	mutex_lock(&provider_lock);
	drop_driver(DROP_UNLOADED);
	mutex_unlock(&provider_lock);
	buffer_exit();
	sched_exit();
}

module_init(rkchain_init);
module_exit(rkchain_exit);
MODULE_DESCRIPTION("Chains of matmul programs for the RK3588 NPU, over the stock driver");
MODULE_LICENSE("GPL");

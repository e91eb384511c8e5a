// SPDX-License-Identifier: GPL-2.0-only
/*
 * More devices of a driver named "rknpu", for who must not take them for an RK3588's:
 * while the knob "others" is 1 there are one of another chip and one that has other
 * calls.  Nothing works there but what needs no hardware.
 */
#include <linux/err.h>
#include <linux/mutex.h>
#include <linux/platform_device.h>

#include <drm/drm_drv.h>

#include "standin.h"

#define OTHERS	2

static DEFINE_MUTEX(others_lock);
static struct drm_driver drivers[OTHERS];
static struct platform_device *devices[OTHERS];

static void unregister(void *drm)
{
	drm_dev_unregister(drm);
}

static int other_probe(struct platform_device *pdev)
{
	struct standin *s;
	int ret;

	s = devm_drm_dev_alloc(&pdev->dev, &drivers[pdev->id], struct standin, drm);
	if (IS_ERR(s))
		return PTR_ERR(s);
	mutex_init(&s->reset_lock);
	standin_jobs_add(s);
	/* No windows. */
	s->gone = true;
	ret = drm_dev_register(&s->drm, 0);
	return ret ?: devm_add_action_or_reset(&pdev->dev, unregister, &s->drm);
}

static struct platform_driver other_platform_driver = {
	.probe = other_probe,
	.driver = {
		.name = "RKNPU-other",
	},
};

static void remove_devices(void)
{
	u32 i;

	for (i = 0; i < OTHERS; i++) {
		platform_device_unregister(devices[i]);
		devices[i] = NULL;
	}
}

/* 1: they come, 0: they go. */
int standin_others_set(u64 wanted)
{
	int ret = 0;
	u32 i;

	mutex_lock(&others_lock);
	if (!wanted)
		remove_devices();
	for (i = 0; wanted && i < OTHERS && !ret; i++) {
		struct platform_device *device;

		if (devices[i])
			continue;
		device = platform_device_register_simple("RKNPU-other", i, NULL, 0);
		ret = PTR_ERR_OR_ZERO(device);
		if (!ret)
			devices[i] = device;
	}
	mutex_unlock(&others_lock);
	return ret;
}

int standin_others_init(const struct drm_driver *driver)
{
	u32 i;

	for (i = 0; i < OTHERS; i++)
		drivers[i] = *driver;
	drivers[1].num_ioctls = 2;
	return platform_driver_register(&other_platform_driver);
}

void standin_others_exit(void)
{
	standin_others_set(0);
	platform_driver_unregister(&other_platform_driver);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/class/misc/rkchain: mode and generation, and a folder per core.
 */
#include <linux/device.h>
#include <linux/sysfs.h>

#include "internal.h"

static ssize_t mode_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return sysfs_emit(text, "%s\n", rkc_mode_name(mode_in_force()));
}
static DEVICE_ATTR_RO(mode);

static ssize_t generation_show(struct device *dev, struct device_attribute *attr, char *text)
{
	u64 generation;

	mutex_lock(&rkchain.lock);
	generation = rkchain.npu.generation;
	mutex_unlock(&rkchain.lock);
	return sysfs_emit(text, "%llu\n", generation);
}
static DEVICE_ATTR_RO(generation);

static struct attribute *device_attrs[] = {
	&dev_attr_mode.attr,
	&dev_attr_generation.attr,
	NULL
};

static const struct attribute_group device_group = { .attrs = device_attrs };

/* ---- per core ---- */

struct core_attribute {
	struct device_attribute attr;
	u32 core;
};

static struct core *core_of(struct device_attribute *attr)
{
	return &rkchain.cores[container_of(attr, struct core_attribute, attr)->core];
}

static ssize_t state_show(struct device *dev, struct device_attribute *attr, char *text)
{
	const struct core *core = core_of(attr);
	const char *state = "usable";

	mutex_lock(&rkchain.lock);
	if (rkchain.npu.poisoned & BIT(core->id))
		state = "poisoned";
	else if (rkchain.npu.aside & BIT(core->id))
		state = "aside";
	mutex_unlock(&rkchain.lock);
	return sysfs_emit(text, "%s\n", state);
}

/* Brings a core back that has been set aside; a poisoned one is busy until a rebind. */
static ssize_t state_store(struct device *dev, struct device_attribute *attr, const char *text,
			   size_t size)
{
	int ret;

	if (!sysfs_streq(text, "usable"))
		return -EINVAL;
	ret = sched_enable(core_of(attr));
	return ret ?: size;
}

static ssize_t counter_show(char *text, const u64 *counter)
{
	u64 value;

	mutex_lock(&rkchain.lock);
	value = *counter;
	mutex_unlock(&rkchain.lock);
	return sysfs_emit(text, "%llu\n", value);
}

static ssize_t chains_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return counter_show(text, &core_of(attr)->chains);
}

static ssize_t blocks_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return counter_show(text, &core_of(attr)->blocks);
}

static ssize_t failures_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return counter_show(text, &core_of(attr)->failures);
}

static ssize_t busy_ns_show(struct device *dev, struct device_attribute *attr, char *text)
{
	return counter_show(text, &core_of(attr)->busy_ns);
}

/* What each core's folder holds. */
static const struct device_attribute templates[] = {
	__ATTR_RW(state),
	__ATTR_RO(chains),
	__ATTR_RO(blocks),
	__ATTR_RO(failures),
	__ATTR_RO(busy_ns),
};

static struct core_attribute core_attrs[RKC_CORES][ARRAY_SIZE(templates)];
static struct attribute *core_lists[RKC_CORES][ARRAY_SIZE(templates) + 1];
static struct attribute_group core_groups[RKC_CORES] = {
	{ .name = "core0" },
	{ .name = "core1" },
	{ .name = "core2" },
};

const struct attribute_group *stats_groups[] = {
	&device_group,
	&core_groups[0],
	&core_groups[1],
	&core_groups[2],
	NULL
};

void stats_init(void)
{
	u32 core, i;

	for (core = 0; core < RKC_CORES; core++) {
		for (i = 0; i < ARRAY_SIZE(templates); i++) {
			struct core_attribute *attr = &core_attrs[core][i];

			attr->attr = templates[i];
			attr->core = core;
			sysfs_attr_init(&attr->attr.attr);
			core_lists[core][i] = &attr->attr.attr;
		}
		core_groups[core].attrs = core_lists[core];
	}
}

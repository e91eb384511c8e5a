// SPDX-License-Identifier: MIT
#include "rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "debug.h"

/* ---- its node ---- */

static bool is_driver(int fd, const char *driver)
{
	char name[32] = "";
	struct rig_drm_version version = { .name = name, .name_len = sizeof(name) - 1 };

	return !ioctl(fd, RIG_DRM_VERSION, &version) && !strcmp(name, driver);
}

int rig_open_drm(const char *driver)
{
	static const struct {
		const char *name;
		int first;
	} kinds[] = { { "card", 0 }, { "renderD", 128 } };

	for (unsigned int kind = 0; kind < ARRAY_SIZE(kinds); kind++)
		for (int i = 0; i < 64; i++) {
			char path[64];
			int fd;

			snprintf(path, sizeof(path), "/dev/dri/%s%d", kinds[kind].name,
				 kinds[kind].first + i);
			fd = open(path, O_RDWR | O_CLOEXEC);
			if (fd >= 0 && is_driver(fd, driver))
				return fd;
			if (fd >= 0)
				close(fd);
		}
	return -1;
}

int rig_node(void)
{
	return rig_open_drm("rknpu");
}

void rig_find_binding(struct rig_binding *b)
{
	char link[300], path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	rig_need_root();
	model_need();	/* on a board the driver is everybody's */
	dir = opendir("/sys/class/drm");
	ASSERT(dir);
	while (!found && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "renderD", 7) && strncmp(entry->d_name, "card", 4))
			continue;
		snprintf(link, sizeof(link), "/sys/class/drm/%.200s/device", entry->d_name);
		if (!realpath(link, path))
			continue;
		snprintf(b->device, sizeof(b->device), "%.255s", strrchr(path, '/') + 1);
		snprintf(link, sizeof(link), "/sys/class/drm/%.200s/device/driver", entry->d_name);
		found = realpath(link, b->driver) && strcasestr(b->driver, "rknpu");
	}
	closedir(dir);
	if (!found)
		tap_skip("no platform driver of that name");
}

void rig_bind(const struct rig_binding *b, const char *what)
{
	char path[PATH_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", b->driver, what);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ASSERT(fd >= 0);
	if (write(fd, b->device, strlen(b->device)) < 0)
		FAIL("%s: %s", path, strerror(errno));
	close(fd);
}

/* ---- its calls ---- */

void rig_stock_buf(int node, u64 size, u32 flags, struct rig_stock_buf *buf)
{
	struct rknpu_mem_create create = { .flags = flags, .size = size };
	struct rknpu_mem_map map = { 0 };

	if (ioctl(node, RKNPU_IOCTL_MEM_CREATE, &create))
		FAIL("MEM_CREATE: %s", strerror(errno));
	map.handle = create.handle;
	if (ioctl(node, RKNPU_IOCTL_MEM_MAP, &map))
		FAIL("MEM_MAP: %s", strerror(errno));
	buf->handle = create.handle;
	buf->obj_addr = create.obj_addr;
	buf->iova = create.dma_addr;
	buf->size = size;
	buf->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, node, map.offset);
	if (buf->map == MAP_FAILED)
		FAIL("mmap of the node: %s", strerror(errno));
	memset(buf->map, 0, size);
}

int rig_try_stock_submit(int node, u64 task_obj_addr, u32 first, u32 tasks, unsigned int core,
			 u32 timeout_ms)
{
	struct rknpu_submit submit = {
		.flags = RKNPU_JOB_PC,
		.timeout = timeout_ms,
		.task_start = first,
		.task_number = tasks,
		.task_obj_addr = task_obj_addr,
		.core_mask = 1u << core,
		.fence_fd = -1,
	};

	submit.subcore_task[core].task_start = first;
	submit.subcore_task[core].task_number = tasks;
	__atomic_fetch_add(&rig_calls, 1, __ATOMIC_RELAXED);
	return ioctl(node, RKNPU_IOCTL_SUBMIT, &submit) < 0 ? -errno : 0;
}

void rig_singles_new(struct rig_singles *singles, const struct rig_job *job)
{
	const u32 flags = RKNPU_MEM_NON_CONTIGUOUS | RKNPU_MEM_WRITE_COMBINE |
			  RKNPU_MEM_KERNEL_MAPPING;
	struct rknpu_task *tasks;

	singles->node = rig_node();
	if (singles->node < 0)
		tap_skip("the stock driver's node cannot be opened");
	singles->count = job->count;
	rig_stock_buf(singles->node, 8ULL * job->count * RKC_FULL_WORDS, flags,
		      &singles->programs);
	rig_stock_buf(singles->node, job->count * sizeof(*tasks), flags, &singles->tasks);
	ASSERT_EQ(rkc_chain_emit(RKC_SINGLE, job->blocks, job->count, singles->programs.iova,
				 singles->programs.map, NULL), RKC_OK);
	tasks = singles->tasks.map;
	for (u32 i = 0; i < job->count; i++) {
		tasks[i].int_mask = RKNPU_INT_DPU;
		tasks[i].regcfg_amount = RKC_BODY_WORDS;
		tasks[i].regcmd_addr = singles->programs.iova + 8ULL * i * RKC_FULL_WORDS;
	}
}

void rig_singles_run(const struct rig_singles *singles)
{
	for (u32 i = 0; i < singles->count; i++)
		ASSERT_EQ(rig_try_stock_submit(singles->node, singles->tasks.obj_addr, i, 1, 0,
					       6000), 0);
}

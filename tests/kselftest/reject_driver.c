// SPDX-License-Identifier: MIT
/*
 * Reasons that speak of the stock driver: which one it is, its memory, its handles.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/udmabuf.h>

#include "debug.h"
#include "reasons.h"
#include "subject.h"

void test_no_provider(void)
{
	struct rkchain_buf_create create = { .size = 4096 };
	struct rkchain_query query;
	int rk = rig_open();

	rig_release(rk);
	rig_query(rk, &query);
	ASSERT_EQ(query.provider, 0);
	expect(rig_try_buf(rk, &create), &create.report, -ENODEV, RKCHAIN_REASON_NO_PROVIDER);
	ASSERT_EQ(rig_try_provide(rk, rig_node()), 0);
	create.report.reason = 0;
	ASSERT_EQ(rig_try_buf(rk, &create), 0);
}

void test_device_gone(void)
{
	struct rkchain_submit submit = { .count = 1 };
	struct rkchain_buf_sync sync = { .direction = RKCHAIN_SYNC_TO_DEVICE };
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	rig_release(s.rk);
	ASSERT_EQ(rig_try_provide(s.rk, rig_node()), 0);
	sync.id = s.job.a.id;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_BUF_SYNC, &sync), &sync.report, -ENODEV,
	       RKCHAIN_REASON_DEVICE_GONE);
	refused(&s, -ENODEV, RKCHAIN_REASON_DEVICE_GONE, ANY, ANY);
	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -ENODEV,
	       RKCHAIN_REASON_DEVICE_GONE);
}

void test_not_rknpu(void)
{
	static const char * const paths[] = { "/dev/null", "/", RIG_DEVICE };
	int rk = rig_open();
	int i, ret;

	rig_release(rk);
	for (i = 0; i < (int)ARRAY_SIZE(paths); i++) {
		struct rkchain_provide provide = {
			.drm_fd = open(paths[i], O_RDONLY | O_CLOEXEC),
		};

		ret = rig_try(rk, RKCHAIN_IOCTL_PROVIDE, &provide);
		ASSERT(ret == -ENODEV || ret == -EOPNOTSUPP);
		ASSERT_EQ(provide.report.reason, RKCHAIN_REASON_NOT_RKNPU);
		close(provide.drm_fd);
	}
	ret = rig_try_provide(rk, 1000);
	ASSERT_EQ(ret, -EBADF);
	ASSERT_EQ(rig_try_provide(rk, rig_node()), 0);
}

/* One of the stand-in's other devices: 0 is of another chip, 1 has other calls. */
static int open_other(u32 n)
{
	char name[32], path[64], device[PATH_MAX];
	int fd = -1;

	standin_need();
	standin_set("others", 1);
	snprintf(name, sizeof(name), "/RKNPU-other.%u", n);
	for (u32 i = 128; i < 192 && fd < 0; i++) {
		snprintf(path, sizeof(path), "/sys/class/drm/renderD%u/device", i);
		if (!realpath(path, device) || !strstr(device, name))
			continue;
		snprintf(path, sizeof(path), "/dev/dri/renderD%u", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
	}
	if (fd < 0)
		FAIL("no node of %s: %s", name + 1, strerror(errno));
	return fd;
}

void test_wrong_chip(void)
{
	struct rkchain_provide provide = { .drm_fd = open_other(0) };
	int rk = rig_open();

	rig_need_root();
	ASSERT_EQ(rig_try_provide(rk, -1), 0);
	expect(rig_try(rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -ENODEV,
	       RKCHAIN_REASON_WRONG_CHIP);
}

void test_foreign_abi(void)
{
	struct rkchain_provide provide = { .drm_fd = open_other(1) };
	int rk = rig_open();

	rig_need_root();
	ASSERT_EQ(rig_try_provide(rk, -1), 0);
	expect(rig_try(rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -EOPNOTSUPP,
	       RKCHAIN_REASON_FOREIGN_ABI);
	ASSERT_EQ(provide.report.limit, RKNPU_IOCTLS);
}

void test_provided(void)
{
	struct rkchain_provide provide = { .drm_fd = rig_node() };
	int rk = rig_open();

	rig_need_root();
	expect(rig_try(rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -EBUSY,
	       RKCHAIN_REASON_PROVIDED);
}

void test_handle(void)
{
	struct rkchain_buf_adopt adopt = { .drm_fd = rig_node(), .handle = 0xdead };
	int rk = rig_open();

	if (adopt.drm_fd < 0)
		tap_skip("the stock driver's node cannot be opened");
	expect(rig_try(rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), &adopt.report, -EINVAL,
	       RKCHAIN_REASON_HANDLE);
	adopt.handle = 0;
	expect(rig_try(rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), &adopt.report, -EINVAL,
	       RKCHAIN_REASON_HANDLE);
	close(adopt.drm_fd);
	ASSERT_EQ(rig_try(rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), -EBADF);
}

/* A dma-buf of memory that is nobody's device's. */
static int memory_buf(void)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = 65536 };
	const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	const int memory = memfd_create("udmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	if (device < 0 || memory < 0 || ftruncate(memory, create.size) ||
	    fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK))
		return -1;
	create.memfd = memory;
	return ioctl(device, UDMABUF_CREATE, &create);
}

/* A dma-buf of vgem, a device that is none. */
static int vgem_buf(void)
{
	struct {
		__u32 height;
		__u32 width;
		__u32 bpp;
		__u32 flags;
		__u32 handle;
		__u32 pitch;
		__u64 size;
	} dumb = { .height = 64, .width = 256, .bpp = 32 };
	struct rig_drm_prime prime = { .flags = O_CLOEXEC };
	const int node = rig_open_drm("vgem");

	if (node < 0 || ioctl(node, _IOWR('d', 0xb2, dumb), &dumb))
		return -1;
	prime.handle = dumb.handle;
	return ioctl(node, RIG_DRM_PRIME_HANDLE_TO_FD, &prime) ? -1 : prime.fd;
}

/* A dma-buf that no rknpu has made; -1 when there is nobody to make one. */
static int foreign_dma_buf(void)
{
	const int fd = memory_buf();

	return fd < 0 ? vgem_buf() : fd;
}

void test_imported(void)
{
	struct rkchain_buf_adopt adopt = { .drm_fd = rig_node() };
	struct rig_drm_prime prime = { .fd = foreign_dma_buf() };
	int rk = rig_open();

	if (adopt.drm_fd < 0)
		tap_skip("the stock driver's node cannot be opened");
	if (prime.fd < 0)
		tap_skip("nobody makes a foreign dma-buf: no udmabuf, no vgem");
	if (ioctl(adopt.drm_fd, RIG_DRM_PRIME_FD_TO_HANDLE, &prime))
		tap_skip("the stock driver imports no such dma-buf: %s", strerror(errno));
	adopt.handle = prime.handle;
	expect(rig_try(rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), &adopt.report, -EINVAL,
	       RKCHAIN_REASON_IMPORTED);
}

void test_foreign_node(void)
{
	struct rkchain_buf_adopt adopt = { .drm_fd = open_other(0), .handle = 1 };

	expect(rig_try(rig_open(), RKCHAIN_IOCTL_BUF_ADOPT, &adopt), &adopt.report, -EINVAL,
	       RKCHAIN_REASON_FOREIGN_NODE);
}

void test_memory(void)
{
	struct rkchain_buf_create create = { .size = 3 * RIG_PAGE };
	struct rkchain_query before, after;
	int rk = rig_open();

	standin_need();
	rig_query(rk, &before);
	standin_set("no_memory", 1);
	expect(rig_try_buf(rk, &create), &create.report, -ENOMEM, RKCHAIN_REASON_MEMORY);
	ASSERT_EQ(create.report.value, 3 * RIG_PAGE);
	rig_query(rk, &after);
	ASSERT_EQ(after.used_bytes, before.used_bytes);
}

void test_iova(void)
{
	struct rkchain_buf_create create = { .size = RIG_PAGE };
	struct rkchain_query before, after;
	int rk = rig_open();

	standin_need();
	rig_query(rk, &before);
	standin_set("iova_high", 1);
	expect(rig_try_buf(rk, &create), &create.report, -ERANGE, RKCHAIN_REASON_IOVA);
	ASSERT(create.report.value > 1ULL << 32);
	ASSERT_EQ(create.report.limit, 1ULL << 32);
	rig_query(rk, &after);
	ASSERT_EQ(after.used_bytes, before.used_bytes);
}

/* A core that may still write to a chain's memory keeps the driver from going. */
void test_quarantine(void)
{
	struct rkchain_provide release = { .drm_fd = -1, .flags = RKCHAIN_PROVIDE_RELEASE };
	struct rkchain_completion done;
	struct subject s;

	model_need();
	rig_need_root();
	begin(&s);
	rig_job_register(&s.job);
	rig_set_parameter("hang_ms", "200");
	model_set("stuck_core", 1);
	rig_wait(s.rk, rig_submit(s.rk, s.job.chain, 1, 1, 0), 1, &done);
	ASSERT_EQ(done.status, -ETIMEDOUT);
	expect(rig_try(s.rk, RKCHAIN_IOCTL_PROVIDE, &release), &release.report, -EBUSY,
	       RKCHAIN_REASON_QUARANTINE);
	model_calm();
	/* Until it has run something else. */
	rig_wait_good(s.rk, rig_submit(s.rk, s.job.chain, 1, 1, 0), 1, &done);
	rig_release(s.rk);
	ASSERT_EQ(rig_try_provide(s.rk, rig_node()), 0);
}

/* A mode that does not work may take the NPU from whoever uses it. */
void test_not_alone(void)
{
	struct rkchain_selftest_result result;
	struct rkchain_selftest selftest = {
		.modes = 1u << RKC_SINGLE,
		.cores = 1,
		.count = 1,
		.results = (uintptr_t)&result,
	};
	struct subject s;
	int node;

	rig_need_root();
	begin(&s);
	node = rig_node();
	if (node < 0)
		tap_skip("the stock driver's node cannot be opened");
	expect(rig_try(s.rk, RKCHAIN_IOCTL_SELFTEST, &selftest), &selftest.report, -EBUSY,
	       RKCHAIN_REASON_NOT_ALONE);
	selftest.flags = RKCHAIN_SELFTEST_SHARED;
	ASSERT_EQ(rig_try(s.rk, RKCHAIN_IOCTL_SELFTEST, &selftest), 0);
	ASSERT_EQ(result.verdict, RKCHAIN_VERDICT_WORKS);
	close(node);
	selftest.flags = 0;
	ASSERT_EQ(rig_try(s.rk, RKCHAIN_IOCTL_SELFTEST, &selftest), 0);
	rig_set_parameter("proven", "\n");
}

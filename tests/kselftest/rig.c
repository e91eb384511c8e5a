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
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/capability.h>

#include "debug.h"

#define NS_PER_S	1000000000ULL
#define NS_PER_MS	1000000ULL

/* ---- the module's parameters ---- */

bool rig_parameter(const char *name, char *value, size_t size)
{
	char path[128];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), RIG_PARAMETERS "/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, value, size - 1);
	close(fd);
	if (length < 0)
		return false;
	value[length] = 0;
	value[strcspn(value, "\n")] = 0;
	return true;
}

bool rig_set_parameter(const char *name, const char *value)
{
	char path[128];
	bool ok;
	int fd;

	snprintf(path, sizeof(path), RIG_PARAMETERS "/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = write(fd, value, strlen(value)) > 0;
	close(fd);
	return ok;
}

/* What tests change, as it was when the program began. */
static struct {
	const char *name;
	char value[32];
} parameters[] = {
	{ .name = "chain_mode" }, { .name = "feed_on" }, { .name = "hang_ms" },
	{ .name = "strikes" },
	{ .name = "quota_mbytes" }, { .name = "quota_chains" }, { .name = "quota_blocks" },
	{ .name = "quota_jobs" },
};

static void save_parameters(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(parameters); i++)
		if (!rig_parameter(parameters[i].name, parameters[i].value,
				   sizeof(parameters[i].value)))
			parameters[i].value[0] = 0;
}

static void restore_parameters(void)
{
	char now[32];

	for (unsigned int i = 0; i < ARRAY_SIZE(parameters); i++)
		if (parameters[i].value[0] &&
		    rig_parameter(parameters[i].name, now, sizeof(now)) &&
		    strcmp(now, parameters[i].value))
			rig_set_parameter(parameters[i].name, parameters[i].value);
}

void rig_need_parameter(const char *name, const char *value)
{
	if (!rig_set_parameter(name, value))
		tap_skip("the module's parameter %s cannot be set to %s", name, value);
}

/* ---- the device ---- */

unsigned int rig_calls;

int rig_try(int rk, unsigned long command, void *argument)
{
	__atomic_fetch_add(&rig_calls, command != RKCHAIN_IOCTL_WAIT, __ATOMIC_RELAXED);
	return ioctl(rk, command, argument) < 0 ? -errno : 0;
}

void *rig_guarded(size_t size)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	const size_t room = (size + page - 1) / page * page;
	char *map = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);

	ASSERT(map != MAP_FAILED);
	ASSERT_EQ(mprotect(map + room, page, PROT_NONE), 0);
	return map + room - size;
}

int rig_open(void)
{
	int rk = open(RIG_DEVICE, O_RDWR | O_CLOEXEC);

	if (rk < 0)
		FAIL(RIG_DEVICE ": %s", strerror(errno));
	return rk;
}

void rig_query(int rk, struct rkchain_query *query)
{
	memset(query, 0, sizeof(*query));
	ASSERT_EQ(rig_try(rk, RKCHAIN_IOCTL_QUERY, query), 0);
}

void rig_need(int rk, u64 capability, const char *what)
{
	struct rkchain_query query;

	rig_query(rk, &query);
	if (!(query.capabilities & capability))
		tap_skip("the module does not offer %s", what);
}

void rig_need_root(void)
{
	if (geteuid())
		tap_skip("needs root");
}

int rig_try_provide(int rk, int node)
{
	struct rkchain_provide provide = {
		.drm_fd = node,
		.flags = node < 0 ? RKCHAIN_PROVIDE_RELEASE : 0,
	};

	return rig_try(rk, RKCHAIN_IOCTL_PROVIDE, &provide);
}

void rig_require(void)
{
	struct rkchain_query query = { 0 };
	int rk = open(RIG_DEVICE, O_RDWR | O_CLOEXEC);
	int node, ret;

	if (rk < 0)
		tap_skip_all(RIG_DEVICE ": %s", strerror(errno));
	ret = rig_try(rk, RKCHAIN_IOCTL_QUERY, &query);
	if (ret)
		tap_skip_all("QUERY: %s", strerror(-ret));
	if (!query.provider) {
		if (geteuid())
			tap_skip_all("no stock driver has been named, and only root can do it");
		node = rig_node();
		if (node < 0)
			tap_skip_all("no node of the rknpu driver");
		ret = rig_try_provide(rk, node);
		close(node);
		if (ret)
			tap_skip_all("PROVIDE: %s", strerror(-ret));
	}
	close(rk);
	save_parameters();
}

void rig_restore(void)
{
	struct rkchain_query query = { 0 };
	int rk = open(RIG_DEVICE, O_RDWR | O_CLOEXEC);
	int node = -1;

	model_calm();
	standin_calm();
	restore_parameters();
	if (rk >= 0 && !rig_try(rk, RKCHAIN_IOCTL_QUERY, &query) && !query.provider)
		node = rig_node();
	if (node >= 0) {
		rig_try_provide(rk, node);
		close(node);
	}
	if (rk >= 0)
		close(rk);
}

void rig_release(int rk)
{
	struct rkchain_query query;

	rig_need_root();
	rig_query(rk, &query);
	if (query.clients > 1)
		tap_skip("others use the device");
	ASSERT_EQ(rig_try_provide(rk, -1), 0);
}

/* The node takes a moment to appear. */
void rig_provide_again(int rk)
{
	const u64 end = rig_soon();
	int node = -1;

	while (node < 0 && rig_now() < end) {
		node = rig_node();
		rig_sleep(20);
	}
	ASSERT(node >= 0);
	ASSERT_EQ(rig_try_provide(rk, node), 0);
	close(node);
}

void rig_settles(int rk, const struct rkchain_query *then)
{
	const u64 end = rig_soon();
	struct rkchain_query now;

	do {
		rig_query(rk, &now);
		if (now.used_bytes <= then->used_bytes && now.used_chains <= then->used_chains &&
		    now.used_blocks <= then->used_blocks && now.clients <= then->clients)
			return;
		rig_sleep(20);
	} while (rig_now() < end);
	FAIL("bytes %llu -> %llu, chains %llu -> %llu, blocks %llu -> %llu, clients %u -> %u",
	     then->used_bytes, now.used_bytes, then->used_chains, now.used_chains,
	     then->used_blocks, now.used_blocks, then->clients, now.clients);
}

/* Chains take that long on the NPU, where there is a model of it. */
void rig_slow(u32 ms)
{
	if (!model_present())
		return;
	rig_set_parameter("hang_ms", "3000");
	model_set("latency_us", 1000 * ms);
}

void rig_need_slow(u32 ms)
{
	model_need();
	rig_slow(ms);
}

/* ---- time ---- */

u64 rig_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

void rig_sleep(unsigned int ms)
{
	const struct timespec time = { ms / 1000, ms % 1000 * NS_PER_MS };

	nanosleep(&time, NULL);
}

s64 rig_soon(void)
{
	return rig_now() + 30 * NS_PER_S * tap_slow();
}

int rig_compare_u64(const void *x, const void *y)
{
	const u64 a = *(const u64 *)x, b = *(const u64 *)y;

	return a < b ? -1 : a > b;
}

u64 rig_median(u64 *values, unsigned int count)
{
	qsort(values, count, sizeof(*values), rig_compare_u64);
	return values[count / 2];
}

void rig_drop_capability(int capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	const unsigned int word = capability / 32, bit = 1u << capability % 32;

	ASSERT_EQ(syscall(SYS_capget, &header, data), 0);
	data[word].effective &= ~bit;
	data[word].permitted &= ~bit;
	data[word].inheritable &= ~bit;
	ASSERT_EQ(syscall(SYS_capset, &header, data), 0);
}

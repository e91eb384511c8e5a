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

/* ---- buffers ---- */

int rig_try_buf(int rk, struct rkchain_buf_create *create)
{
	return rig_try(rk, RKCHAIN_IOCTL_BUF_CREATE, create);
}

void rig_buf_new(struct rig_buf *buf, int rk, u64 size)
{
	struct rkchain_buf_create create = { .size = size };
	int ret = rig_try_buf(rk, &create);

	if (ret)
		FAIL("BUF_CREATE of %llu bytes: %s, reason %u", (unsigned long long)size,
		     strerror(-ret), create.report.reason);
	buf->rk = rk;
	buf->id = create.id;
	buf->iova = create.iova;
	buf->size = (size + RIG_PAGE - 1) / RIG_PAGE * RIG_PAGE;
	buf->fd = create.fd;
	rig_buf_map(buf);
}

void rig_buf_map(struct rig_buf *buf)
{
	buf->map = mmap(NULL, buf->size, PROT_READ | PROT_WRITE, MAP_SHARED, buf->fd, 0);
	if (buf->map == MAP_FAILED)
		FAIL("mmap of a dma-buf: %s", strerror(errno));
}

void rig_buf_sync(const struct rig_buf *buf, u32 direction)
{
	struct rkchain_buf_sync sync = { .id = buf->id, .direction = direction };

	ASSERT_EQ(rig_try(buf->rk, RKCHAIN_IOCTL_BUF_SYNC, &sync), 0);
}

int rig_try_destroy(int rk, u32 id)
{
	struct rkchain_id argument = { .id = id };

	return rig_try(rk, RKCHAIN_IOCTL_BUF_DESTROY, &argument);
}

void rig_buf_free(struct rig_buf *buf)
{
	munmap(buf->map, buf->size);
	close(buf->fd);
	ASSERT_EQ(rig_try_destroy(buf->rk, buf->id), 0);
}

/* ---- jobs ---- */

void rig_job_shape(struct rig_job *job, int rk, u32 m, u32 k, u32 n, u32 count)
{
	const u64 a_bytes = (u64)m * k, b_bytes = (u64)k * n, c_bytes = 4ULL * m * n;

	memset(job, 0, sizeof(*job));
	job->rk = rk;
	job->m = m;
	job->k = k;
	job->n = n;
	job->count = count;
	rig_buf_new(&job->a, rk, a_bytes * count);
	rig_buf_new(&job->b, rk, b_bytes * count);
	rig_buf_new(&job->c, rk, c_bytes * count);
	job->uses[0].id = job->a.id;
	job->uses[0].flags = RKCHAIN_USE_READ | RKCHAIN_USE_SYNC;
	job->uses[1].id = job->b.id;
	job->uses[1].flags = RKCHAIN_USE_READ;
	job->uses[2].id = job->c.id;
	job->uses[2].flags = RKCHAIN_USE_WRITE | RKCHAIN_USE_SYNC;

	job->blocks = calloc(count, sizeof(*job->blocks));
	job->nwords = (count - 1) * RKC_WAIT_STRIDE + RKC_FULL_WORDS;
	job->words = calloc(job->nwords, sizeof(*job->words));
	ASSERT(job->blocks && job->words);
	for (u32 i = 0; i < count; i++) {
		struct rkc_matmul *d = &job->blocks[i];

		d->type = RKC_I8_I32;
		d->layout = RKC_FLAT;
		d->m = m;
		d->k = k;
		d->n = n;
		d->m_total = m;
		d->a = job->a.iova + i * a_bytes;
		d->b = job->b.iova + i * b_bytes;
		d->c = job->c.iova + i * c_bytes;
		ASSERT_EQ(rkc_matmul_check(d, NULL), RKC_OK);
		if (i < RKC_WAIT_MAX)
			rkc_chain_append(job->words, i, d);
	}
}

void rig_job_new(struct rig_job *job, int rk, u32 count)
{
	rig_job_shape(job, rk, 4, 32, 32, count);
}

static u32 next_random(u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void fill_random(void *map, u64 bytes, u32 seed)
{
	u32 state = seed * 2654435761u | 1;
	u8 *to = map;

	for (u64 i = 0; i < bytes; i++)
		to[i] = next_random(&state) >> 24;
}

void rig_job_refill(struct rig_job *job, u32 seed)
{
	fill_random(job->a.map, (u64)job->m * job->k * job->count, seed);
	memset(job->c.map, 0xa5, job->c.size);
}

void rig_job_fill(struct rig_job *job, u32 seed)
{
	rig_job_refill(job, seed);
	fill_random(job->b.map, (u64)job->k * job->n * job->count, seed + 0x8000);
	rig_buf_sync(&job->b, RKCHAIN_SYNC_TO_DEVICE);
}

void rig_job_request(const struct rig_job *job, struct rkchain_chain_create *create)
{
	memset(create, 0, sizeof(*create));
	create->programs = (uintptr_t)job->words;
	create->size = 8ULL * job->nwords;
	create->count = job->count;
	create->stride = RKC_WAIT_STRIDE;
	create->body = RKC_BODY_WORDS;
	create->buffers = (uintptr_t)job->uses;
	create->buffer_count = ARRAY_SIZE(job->uses);
}

int rig_try_create(int rk, struct rkchain_chain_create *create)
{
	return rig_try(rk, RKCHAIN_IOCTL_CHAIN_CREATE, create);
}

void rig_job_register(struct rig_job *job)
{
	struct rkchain_chain_create create;
	int ret;

	rig_job_request(job, &create);
	ret = rig_try_create(job->rk, &create);
	if (ret)
		FAIL("CHAIN_CREATE of %u blocks: %s, %s, block %u, word %u", job->count,
		     strerror(-ret), rkc_reason_name(create.report.reason), create.report.block,
		     create.report.word);
	job->chain = create.id;
}

void rig_clones(struct rig_job *job, u32 count, u32 *chains)
{
	for (u32 i = 0; i < ARRAY_SIZE(job->uses); i++)
		job->uses[i].flags &= ~RKCHAIN_USE_SYNC;
	rig_buf_sync(&job->a, RKCHAIN_SYNC_TO_DEVICE);
	rig_buf_sync(&job->c, RKCHAIN_SYNC_TO_DEVICE);
	for (u32 i = 0; i < count; i++) {
		rig_job_register(job);
		chains[i] = job->chain;
	}
}

u32 rig_b_index(u32 k, u32 row, u32 column)
{
	return column / 32 * 32 * k + row / 32 * 32 * 32 + column % 32 * 32 + row % 32;
}

s32 rig_dot(const s8 *a, const s8 *packed_b, u32 k, u32 column)
{
	s32 sum = 0;

	for (u32 row = 0; row < k; row++)
		sum += a[row] * packed_b[rig_b_index(k, row, column)];
	return sum;
}

u64 rig_job_wrong(const struct rig_job *job)
{
	const s8 *a = job->a.map, *b = job->b.map;
	const s32 *c = job->c.map;
	u64 wrong = 0;

	for (u32 i = 0; i < job->count; i++) {
		for (u32 row = 0; row < job->m; row++)
			for (u32 column = 0; column < job->n; column++) {
				const s32 want = rig_dot(a + (u64)row * job->k, b, job->k, column);
				const s32 have = c[(u64)row * job->n + column];

				if (have != want && !wrong++)
					tap_note("block %u [%u, %u] is %d, not %d", i, row,
						 column, have, want);
			}
		a += (u64)job->m * job->k;
		b += (u64)job->k * job->n;
		c += (u64)job->m * job->n;
	}
	return wrong;
}

void rig_job_check(const struct rig_job *job)
{
	ASSERT_EQ(rig_job_wrong(job), 0);
}

void rig_job_run(struct rig_job *job)
{
	struct rkchain_completion done;

	rig_wait_good(job->rk, rig_submit(job->rk, job->chain, 1, 0, 0), 1, &done);
	rig_job_check(job);
}

void rig_job_free(struct rig_job *job)
{
	if (job->chain)
		ASSERT_EQ(rig_try_destroy_chain(job->rk, job->chain), 0);
	rig_buf_free(&job->a);
	rig_buf_free(&job->b);
	rig_buf_free(&job->c);
	free(job->blocks);
	free(job->words);
}

void rig_job_unmap(struct rig_job *job)
{
	struct rig_buf *bufs[] = { &job->a, &job->b, &job->c };

	for (u32 i = 0; i < ARRAY_SIZE(bufs); i++) {
		if (bufs[i]->map)
			munmap(bufs[i]->map, bufs[i]->size);
		if (bufs[i]->fd >= 0)
			close(bufs[i]->fd);
		bufs[i]->map = NULL;
		bufs[i]->fd = -1;
	}
}

void rig_still_works(void)
{
	int rk = rig_open();
	struct rig_job job;

	rig_job_new(&job, rk, 3);
	rig_job_fill(&job, 4711);
	rig_job_register(&job);
	rig_job_run(&job);
	rig_job_free(&job);
	close(rk);
}

/* ---- submits and waits ---- */

int rig_try_submit(int rk, struct rkchain_submit *submit)
{
	return rig_try(rk, RKCHAIN_IOCTL_SUBMIT, submit);
}

u64 rig_submit_all(int rk, const u32 *chains, u32 count, const struct rkchain_submit *how)
{
	struct rkchain_submit submit = { 0 };
	int ret;

	if (how)
		submit = *how;
	submit.chains = (uintptr_t)chains;
	submit.count = count;
	ret = rig_try_submit(rk, &submit);
	if (ret)
		FAIL("SUBMIT of %u chains: %s, reason %u, value %llu, limit %llu", count,
		     strerror(-ret), submit.report.reason, submit.report.value,
		     submit.report.limit);
	return submit.first;
}

u64 rig_submit(int rk, u32 chain, u32 count, u32 core_mask, u32 flags)
{
	const struct rkchain_submit how = { .core_mask = core_mask, .flags = flags };
	u32 *chains = calloc(count, sizeof(*chains));
	u64 first;

	ASSERT(chains);
	for (u32 i = 0; i < count; i++)
		chains[i] = chain;
	first = rig_submit_all(rk, chains, count, &how);
	free(chains);
	return first;
}

int rig_try_wait(int rk, struct rkchain_wait *wait)
{
	return rig_try(rk, RKCHAIN_IOCTL_WAIT, wait);
}

void rig_wait(int rk, u64 first, u32 count, struct rkchain_completion *done)
{
	struct rkchain_wait wait = {
		.first = first,
		.count = count,
		.deadline_ns = rig_soon(),
		.completions = (uintptr_t)done,
	};
	int ret = rig_try_wait(rk, &wait);

	if (ret)
		FAIL("WAIT for %u from %llu: %s, reason %u", count, (unsigned long long)first,
		     strerror(-ret), wait.report.reason);
	ASSERT_EQ(wait.done, count);
	for (u32 i = 0; i < count; i++)
		ASSERT_EQ(done[i].sequence, first + i);
}

void rig_wait_good(int rk, u64 first, u32 count, struct rkchain_completion *done)
{
	rig_wait(rk, first, count, done);
	for (u32 i = 0; i < count; i++)
		if (done[i].status || done[i].flags)
			FAIL("chain %llu ended with %s on core %u after %u retries, flags %u",
			     done[i].sequence, strerror(-done[i].status), done[i].core,
			     done[i].retries, done[i].flags);
}

int rig_try_destroy_chain(int rk, u32 id)
{
	struct rkchain_id argument = { .id = id };

	return rig_try(rk, RKCHAIN_IOCTL_CHAIN_DESTROY, &argument);
}

/* ---- the stock driver ---- */

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

// SPDX-License-Identifier: MIT
/*
 * Inside the guest: one process that uses the stock driver's ABI, for
 * standin-test.
 *
 *   standin_user job [OPTION]...  the captured matmul as one job; says
 *                                 "errno E equal N status S counter C"
 *     -c MASK   cores             -t MS   time-out           -n  does not wait
 *     -i        A is not synced   -o      C is not synced    -w MS  memory is kept
 *     -k        tasks without a kernel mapping               -m  subcore_task[0] alone
 *     -f FLAGS  of SUBMIT         -x N    task_number        -u  no such task buffer
 *     -d        buffers that need no sync
 *   standin_user action N         "errno E value V"
 *   standin_user memory           "ok TEXT" or "not ok TEXT" for each thing tried
 *   standin_user import           the same, of a buffer of vgem
 *   standin_user hold FILE        keeps a buffer and its mapping until FILE exists
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <drm/drm.h>
#include <drm/drm_mode.h>

#include "rknpu.h"

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#include "golden.h"

#define PAGE 4096
#define WORDS (sizeof(golden_c) / 4)
/* What is in use elsewhere, for data and programs, and for tasks. */
#define DATA 0x403
#define TASKS 0x40b

/* Entries of the golden program that are addresses, and what they point to. */
#define ENTRY_A 25
#define ENTRY_B 34
#define ENTRY_C 61

#define UNTOUCHED 0xdeadbeef

struct buffer {
	u32 handle;
	u64 size;
	u64 obj;
	u64 dma;
	u8 *map;
};

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

/* The node of that kind whose driver has that name. */
static int open_node(const char *kind, int first, const char *driver)
{
	char path[32], name[16];
	int i;

	for (i = first; i < first + 8; i++) {
		struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };
		int fd;

		snprintf(path, sizeof(path), "/dev/dri/%s%d", kind, i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		memset(name, 0, sizeof(name));
		if (!ioctl(fd, DRM_IOCTL_VERSION, &version) && !strcmp(name, driver))
			return fd;
		close(fd);
	}
	errno = ENODEV;
	fail(driver);
	return -1;
}

static int npu(void)
{
	return open_node("renderD", 128, "rknpu");
}

static int create(int fd, struct buffer *b, u64 size, u32 flags)
{
	struct rknpu_mem_create args = { .size = size, .flags = flags };

	if (ioctl(fd, RKNPU_IOCTL_MEM_CREATE, &args))
		return errno;
	b->handle = args.handle;
	b->size = args.size;
	b->obj = args.obj_addr;
	b->dma = args.dma_addr;
	return 0;
}

static int map(int fd, struct buffer *b)
{
	struct rknpu_mem_map args = { .handle = b->handle };

	if (ioctl(fd, RKNPU_IOCTL_MEM_MAP, &args))
		return errno;
	b->map = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, args.offset);
	return b->map == MAP_FAILED ? errno : 0;
}

static struct buffer make(int fd, u64 size, u32 flags)
{
	struct buffer b = { 0 };

	errno = create(fd, &b, size, flags);
	if (!errno)
		errno = map(fd, &b);
	if (errno)
		fail("buffer");
	return b;
}

static int sync_range(int fd, u64 obj, u32 flags, u64 offset, u64 size)
{
	struct rknpu_mem_sync args = {
		.flags = flags, .obj_addr = obj, .offset = offset, .size = size,
	};

	return ioctl(fd, RKNPU_IOCTL_MEM_SYNC, &args) ? errno : 0;
}

static void to_device(int fd, const struct buffer *b)
{
	sync_range(fd, b->obj, RKNPU_MEM_SYNC_TO_DEVICE, 0, b->size);
}

static void from_device(int fd, const struct buffer *b)
{
	sync_range(fd, b->obj, RKNPU_MEM_SYNC_FROM_DEVICE, 0, b->size);
}

static int action(int fd, u32 flags, u32 *value)
{
	struct rknpu_action args = { .flags = flags };
	int ret = ioctl(fd, RKNPU_IOCTL_ACTION, &args) ? errno : 0;

	*value = args.value;
	return ret;
}

static u32 equal_words(const u8 *c)
{
	u32 i, equal = 0;

	for (i = 0; i < sizeof(golden_c); i += 4)
		equal += !memcmp(c + i, golden_c + i, 4);
	return equal;
}

/* ---- job ---- */

static u64 entry(u64 old, const struct buffer *b)
{
	return (old & ~0xffffffff0000ULL) | b->dma << 16;
}

static int job(int argc, char **argv)
{
	bool no_wait = false, in = true, out = true, one = false, unknown = false;
	u32 mask = 1, timeout = 2000, keep = 0, flags = RKNPU_JOB_PC | RKNPU_JOB_PINGPONG;
	u32 number = 1, data_flags = DATA, task_flags = TASKS, i;
	struct buffer program, a, b, c, tasks;
	struct rknpu_submit args = { 0 };
	struct rknpu_task *task;
	u64 *words;
	int fd, option, ret;

	while ((option = getopt(argc, argv, "c:t:niow:kmf:x:ud")) != -1)
		switch (option) {
		case 'c': mask = strtoul(optarg, NULL, 0); break;
		case 't': timeout = strtoul(optarg, NULL, 0); break;
		case 'n': no_wait = true; break;
		case 'i': in = false; break;
		case 'o': out = false; break;
		case 'w': keep = strtoul(optarg, NULL, 0); break;
		case 'k': task_flags = DATA; break;
		case 'm': one = true; break;
		case 'f': flags = strtoul(optarg, NULL, 0); break;
		case 'x': number = strtoul(optarg, NULL, 0); break;
		case 'u': unknown = true; break;
		case 'd': data_flags = 0; task_flags = RKNPU_MEM_KERNEL_MAPPING; break;
		default: return 2;
		}

	fd = npu();
	program = make(fd, sizeof(golden_regcmd), data_flags);
	a = make(fd, sizeof(golden_a), data_flags);
	b = make(fd, sizeof(golden_b), data_flags);
	c = make(fd, sizeof(golden_c), data_flags);
	tasks = make(fd, sizeof(*task), task_flags);

	words = (u64 *)program.map;
	memcpy(words, golden_regcmd, sizeof(golden_regcmd));
	words[ENTRY_A] = entry(words[ENTRY_A], &a);
	words[ENTRY_B] = entry(words[ENTRY_B], &b);
	words[ENTRY_C] = entry(words[ENTRY_C], &c);
	memcpy(a.map, golden_a, sizeof(golden_a));
	memcpy(b.map, golden_b, sizeof(golden_b));
	memset(c.map, 0xa5, c.size);
	task = (struct rknpu_task *)tasks.map;
	task->int_mask = RKNPU_INT_DPU;
	task->int_clear = 0x1ffff;
	task->int_status = UNTOUCHED;
	task->regcfg_amount = sizeof(golden_regcmd) / 8 - 4;
	task->regcmd_addr = program.dma;
	to_device(fd, &program);
	if (in)
		to_device(fd, &a);
	to_device(fd, &b);
	to_device(fd, &c);
	to_device(fd, &tasks);

	args.flags = flags | (no_wait ? RKNPU_JOB_NONBLOCK : 0);
	args.timeout = timeout;
	args.task_number = number;
	args.task_obj_addr = unknown ? tasks.obj + 64 : tasks.obj;
	args.core_mask = mask;
	args.fence_fd = -1;
	for (i = 0; i < (one ? 1 : RKNPU_MAX_CORES); i++)
		args.subcore_task[i].task_number = 1;
	ret = ioctl(fd, RKNPU_IOCTL_SUBMIT, &args) ? errno : 0;

	if (no_wait)
		usleep(keep * 1000);
	if (out)
		from_device(fd, &c);
	printf("errno %d equal %u status %#x counter %u\n", ret, equal_words(c.map),
	       task->int_status, args.task_counter);
	fflush(stdout);
	/* The hardware may be at it long after the driver has given up. */
	usleep(keep * 1000);
	return 0;
}

/* ---- memory ---- */

static int failed;

static void verdict(const char *text, bool ok)
{
	printf("%s %s\n", ok ? "ok" : "not ok", text);
	failed |= !ok;
}

static bool all(const u8 *p, u64 size, u8 value)
{
	u64 i;

	for (i = 0; i < size; i++)
		if (p[i] != value)
			return false;
	return true;
}

static int destroy(int fd, u32 handle)
{
	struct rknpu_mem_destroy args = { .handle = handle };

	return ioctl(fd, RKNPU_IOCTL_MEM_DESTROY, &args) ? errno : 0;
}

static int export_fd(int fd, u32 handle)
{
	struct drm_prime_handle args = { .handle = handle, .flags = DRM_CLOEXEC | DRM_RDWR };

	return ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &args) ? -errno : args.fd;
}

static u32 import_fd(int fd, int dmabuf)
{
	struct drm_prime_handle args = { .fd = dmabuf };

	return ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &args) ? 0 : args.handle;
}

static void test_create(int fd)
{
	struct rknpu_mem_create args = { .flags = DATA };
	struct buffer b = make(fd, 5000, DATA), other;

	verdict("MEM_CREATE rounds to pages, below 4 GiB",
		b.size == 2 * PAGE && b.dma && !(b.dma % PAGE) && !((b.dma + b.size) >> 32));
	verdict("and gives zeroes", all(b.map, b.size, 0));
	verdict("MEM_CREATE of no bytes", create(fd, &other, 0, DATA) == EINVAL);

	args.handle = b.handle;
	verdict("MEM_CREATE of a handle looks it up",
		!ioctl(fd, RKNPU_IOCTL_MEM_CREATE, &args) && args.handle == b.handle &&
		args.size == b.size && args.obj_addr == b.obj && args.dma_addr == b.dma);
	memset(&args, 0, sizeof(args));
	args.handle = 999;
	verdict("of a dead handle, no bytes",
		ioctl(fd, RKNPU_IOCTL_MEM_CREATE, &args) && errno == EINVAL);
	args.size = 1;
	verdict("of a dead handle with bytes is a new buffer",
		!ioctl(fd, RKNPU_IOCTL_MEM_CREATE, &args) && args.handle != 999 &&
		args.obj_addr != b.obj && !destroy(fd, args.handle));
	verdict("more than there is", create(fd, &other, 900U << 20, DATA) == ENOMEM);
	verdict("16 MiB twice", !create(fd, &other, 16U << 20, DATA) &&
		!create(fd, &other, 16U << 20, 0) && !map(fd, &other) &&
		all(other.map, other.size, 0));
	verdict("MEM_DESTROY", !munmap(b.map, b.size) && !destroy(fd, b.handle) &&
		destroy(fd, b.handle) == EINVAL);
}

/* The device's memory cannot be seen: FROM_DEVICE shows what TO_DEVICE left there. */
static void test_sync(int fd)
{
	struct buffer b = make(fd, 3 * PAGE, DATA), plain = make(fd, PAGE, 0);

	memset(b.map, 1, b.size);
	verdict("MEM_SYNC of a range to the device",
		!sync_range(fd, b.obj, RKNPU_MEM_SYNC_TO_DEVICE, 100, PAGE));
	memset(b.map, 2, b.size);
	verdict("and all of it back",
		!sync_range(fd, b.obj, RKNPU_MEM_SYNC_FROM_DEVICE, 0, b.size) &&
		all(b.map, 100, 0) && all(b.map + 100, PAGE, 1) &&
		all(b.map + 100 + PAGE, b.size - 100 - PAGE, 0));
	verdict("MEM_SYNC without a cache",
		sync_range(fd, plain.obj, RKNPU_MEM_SYNC_TO_DEVICE, 0, 1) == EINVAL);
	verdict("MEM_SYNC out of range",
		sync_range(fd, b.obj, RKNPU_MEM_SYNC_TO_DEVICE, b.size, 1) == EINVAL);
	verdict("MEM_SYNC of no buffer",
		sync_range(fd, b.obj + 64, RKNPU_MEM_SYNC_TO_DEVICE, 0, 1) == EINVAL);
}

static void test_prime(void)
{
	int own = npu(), primary = open_node("card", 0, "rknpu"), dmabuf;
	u32 flags[] = { DATA, 0 }, i, handle;
	u8 *map, *part;

	for (i = 0; i < 2; i++) {
		struct buffer b = make(own, 4 * PAGE, flags[i]);
		struct rknpu_mem_create args = { 0 };

		memset(b.map, 7, b.size);
		dmabuf = export_fd(own, b.handle);
		map = mmap(NULL, b.size, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
		part = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, dmabuf, PAGE);
		verdict(i ? "mmap of a dma-buf, no cache" : "mmap of a dma-buf",
			map != MAP_FAILED && all(map, b.size, 7) && part != MAP_FAILED);
		map[PAGE] = 9;
		verdict("is the same memory", b.map[PAGE] == 9 && part[0] == 9);
		verdict("and no larger", mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, dmabuf,
					      3 * PAGE) == MAP_FAILED);
		handle = import_fd(primary, dmabuf);
		args.handle = handle;
		verdict("another file, the primary node: the same object",
			handle && !ioctl(primary, RKNPU_IOCTL_MEM_CREATE, &args) &&
			args.obj_addr == b.obj && args.dma_addr == b.dma);
		munmap(b.map, b.size);
		munmap(part, PAGE);
		destroy(own, b.handle);
		destroy(primary, handle);
		close(dmabuf);
		map[3 * PAGE] = 8;
		verdict("the mapping outlives handles and dma-buf",
			map[PAGE] == 9 && map[3 * PAGE] == 8);
		if (!i)
			continue;
		close(own);
		close(primary);
		verdict("and the files", map[PAGE] == 9 && map[3 * PAGE] == 8);
		map[0] = 1;
	}
}

static int memory(void)
{
	int fd = npu();

	test_create(fd);
	test_sync(fd);
	test_prime();
	return failed;
}

static int import(void)
{
	struct drm_mode_create_dumb dumb = { .width = 64, .height = 64, .bpp = 32 };
	int other = open_node("card", 0, "vgem"), fd = npu(), dmabuf;
	struct rknpu_mem_create args = { 0 };
	struct buffer b;

	if (ioctl(other, DRM_IOCTL_MODE_CREATE_DUMB, &dumb))
		fail("vgem");
	dmabuf = export_fd(other, dumb.handle);
	args.handle = import_fd(fd, dmabuf);
	verdict("a foreign dma-buf gets a handle", args.handle);
	verdict("size and address of its first piece",
		!ioctl(fd, RKNPU_IOCTL_MEM_CREATE, &args) && args.size == dumb.size &&
		args.dma_addr);
	b.handle = args.handle;
	b.size = args.size;
	verdict("it is not for MEM_MAP", map(fd, &b) == EINVAL);
	verdict("nor for MEM_SYNC",
		sync_range(fd, args.obj_addr, RKNPU_MEM_SYNC_TO_DEVICE, 0, 1) == EINVAL);
	verdict("MEM_DESTROY of it", !destroy(fd, args.handle));
	return failed;
}

static int hold(const char *path)
{
	int fd = npu(), dmabuf;
	struct buffer b = make(fd, PAGE, DATA);

	dmabuf = export_fd(fd, b.handle);
	b.map[0] = 5;
	puts("held");
	fflush(stdout);
	while (access(path, F_OK))
		usleep(10000);
	verdict("a mapping outlives the driver", b.map[0] == 5);
	sync_range(fd, b.obj, RKNPU_MEM_SYNC_TO_DEVICE, 0, 1);
	close(dmabuf);
	return failed;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "job"))
		return job(argc - 1, argv + 1);
	if (!strcmp(what, "action") && argc == 3) {
		u32 value;
		int ret = action(npu(), strtoul(argv[2], NULL, 0), &value);

		printf("errno %d value %#x\n", ret, value);
		return 0;
	}
	if (!strcmp(what, "memory"))
		return memory();
	if (!strcmp(what, "import"))
		return import();
	if (!strcmp(what, "hold") && argc == 3)
		return hold(argv[2]);
	return 2;
}

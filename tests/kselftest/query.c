// SPDX-License-Identifier: MIT
/*
 * QUERY, and what all calls have in common: sizes of structs that grow, numbers
 * and types of commands.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"
#include "rotor.h"

#define SIZED(size)	_IOC(_IOC_READ | _IOC_WRITE, RKCHAIN_IOCTL_TYPE, RKCHAIN_NR_QUERY, size)

static void test_values(void)
{
	struct rkchain_query q;
	const u32 all = RKC_CORES_ALL;
	int rk = rig_open();

	rig_query(rk, &q);
	tap_note("driver %u, hardware %#x, mode %u, %u blocks, hang %u ms", q.driver_version,
		 q.hw_version, q.mode, q.max_blocks, q.hang_ms);
	ASSERT(q.abi_version >= RKCHAIN_ABI_VERSION);
	ASSERT_EQ(q.provider, 1);
	ASSERT_EQ(q.cores_present & ~all, 0);
	ASSERT(q.cores_present);
	ASSERT_EQ(q.cores_usable & ~q.cores_present, 0);
	ASSERT_EQ(q.cores_usable & (q.cores_aside | q.cores_poisoned), 0);
	ASSERT(q.mode <= RKCHAIN_MODE_SINGLE);
	ASSERT(q.driver_version >= 800 && q.driver_version < 2000);
	ASSERT(q.max_blocks >= 1 && q.max_blocks <= RKC_LINK_MAX);
	ASSERT(q.max_buffers >= 3);
	ASSERT(q.max_body >= RKC_BODY_WORDS);
	ASSERT(q.max_submit >= 1);
	ASSERT(q.slots >= 1);
	ASSERT(q.hang_ms >= 1);
	ASSERT_EQ(q.max_chain_ns, q.hang_ms * 1000000ULL / 2);
	ASSERT(q.used_bytes <= q.quota_bytes);
	ASSERT(q.used_chains <= q.quota_chains);
	ASSERT(q.used_blocks <= q.quota_blocks);
	ASSERT(q.clients >= 1);
	ASSERT_EQ(q.reserved, 0);
	close(rk);
}

static void test_counts(void)
{
	struct rkchain_query before, during, after;
	int rk = rig_open();
	struct rig_job job;
	int other;

	rig_query(rk, &before);
	other = rig_open();
	rig_query(rk, &during);
	ASSERT_EQ(during.clients, before.clients + 1);
	close(other);

	rig_job_new(&job, rk, 5);
	rig_job_fill(&job, 1);
	rig_job_register(&job);
	rig_query(rk, &during);
	ASSERT_EQ(during.used_chains, before.used_chains + 1);
	ASSERT_EQ(during.used_blocks, before.used_blocks + 5);
	ASSERT(during.used_bytes >= before.used_bytes + job.a.size + job.b.size + job.c.size);
	rig_job_free(&job);
	rig_settles(rk, &before);
	rig_query(rk, &after);
	ASSERT_EQ(after.used_bytes, before.used_bytes);
}

static void test_shorter_struct(void)
{
	struct rkchain_query full;
	int rk = rig_open();

	rig_query(rk, &full);
	for (size_t size = 4; size <= sizeof(full); size += 4) {
		unsigned char some[sizeof(full)];

		memset(some, 0, size);
		memset(some + size, 0xee, sizeof(some) - size);
		ASSERT_EQ(rig_try(rk, SIZED(size), some), 0);
		ASSERT_EQ(memcmp(some, &full, size), 0);
		for (size_t i = size; i < sizeof(some); i++)
			ASSERT_EQ(some[i], 0xee);
	}
}

static void test_empty_struct(void)
{
	int rk = rig_open();

	ASSERT_EQ(rig_try(rk, SIZED(0), NULL), 0);
}

static void test_longer_struct(void)
{
	unsigned char more[sizeof(struct rkchain_query) + 64] = { 0 };
	struct rkchain_query full;
	int rk = rig_open();

	rig_query(rk, &full);
	ASSERT_EQ(rig_try(rk, SIZED(sizeof(more)), more), 0);
	ASSERT_EQ(memcmp(more, &full, sizeof(full)), 0);
	for (size_t i = sizeof(full); i < sizeof(more); i++)
		ASSERT_EQ(more[i], 0);
}

static void test_trailing_bytes(void)
{
	int rk = rig_open();

	for (size_t at = 0; at < 64; at++) {
		unsigned char more[sizeof(struct rkchain_query) + 64] = { 0 };

		more[sizeof(struct rkchain_query) + at] = 1;
		ASSERT_EQ(rig_try(rk, SIZED(sizeof(more)), more), -E2BIG);
	}
}

/* The largest size that a command can name. */
static void test_longest_struct(void)
{
	static unsigned char most[_IOC_SIZEMASK];
	int rk = rig_open();
	int ret;

	ret = rig_try(rk, SIZED(sizeof(most)), most);
	ASSERT(!ret || ret == -E2BIG);
	most[sizeof(most) - 1] = 1;
	ASSERT_EQ(rig_try(rk, SIZED(sizeof(most)), most), -E2BIG);
}

static void test_guard_page(void)
{
	int rk = rig_open();

	ASSERT_EQ(rig_try(rk, RKCHAIN_IOCTL_QUERY, rig_guarded(sizeof(struct rkchain_query))), 0);
	for (size_t size = 4; size < sizeof(struct rkchain_query); size += 4)
		ASSERT_EQ(rig_try(rk, SIZED(size), rig_guarded(size)), 0);
	/* One byte short. */
	ASSERT_EQ(rig_try(rk, RKCHAIN_IOCTL_QUERY,
			  (char *)rig_guarded(sizeof(struct rkchain_query)) + 1), -EFAULT);
	ASSERT_EQ(rig_try(rk, RKCHAIN_IOCTL_QUERY, NULL), -EFAULT);
	ASSERT_EQ(rig_try(rk, RKCHAIN_IOCTL_QUERY, (void *)~0xfUL), -EFAULT);
}

static void test_unknown_number(void)
{
	static const unsigned char known[] = {
		RKCHAIN_NR_QUERY, RKCHAIN_NR_PROVIDE, RKCHAIN_NR_BUF_CREATE, RKCHAIN_NR_BUF_DESTROY,
		RKCHAIN_NR_BUF_SYNC, RKCHAIN_NR_BUF_ADOPT, RKCHAIN_NR_CHAIN_CREATE,
		RKCHAIN_NR_CHAIN_DESTROY, RKCHAIN_NR_SUBMIT, RKCHAIN_NR_WAIT, RKCHAIN_NR_FAILURES,
		RKCHAIN_NR_SELFTEST,
	};
	unsigned char argument[128] = { 0 };
	int rk = rig_open();

	for (unsigned int nr = 0; nr < 256; nr++) {
		if (memchr(known, nr, sizeof(known)))
			continue;
		ASSERT_EQ(rig_try(rk, RKCHAIN_IOWR(nr, argument), argument), -ENOTTY);
	}
}

/* A number that has a name and no capability is unknown, too. */
static void test_calls_to_come(void)
{
	unsigned char argument[128] = { 0 };
	struct rkchain_query q;
	int rk = rig_open();

	rig_query(rk, &q);
	if (!(q.capabilities & RKCHAIN_CAP_FAILURES))
		ASSERT_EQ(rig_try(rk, RKCHAIN_IOWR(RKCHAIN_NR_FAILURES, argument), argument),
			  -ENOTTY);
	if (!(q.capabilities & RKCHAIN_CAP_SELFTEST))
		ASSERT_EQ(rig_try(rk, RKCHAIN_IOWR(RKCHAIN_NR_SELFTEST, argument), argument),
			  -ENOTTY);
}

static void test_unknown_type(void)
{
	struct rkchain_query q = { 0 };
	int rk = rig_open();

	for (unsigned int type = 0; type < 256; type++)
		if (type != RKCHAIN_IOCTL_TYPE && type != 'T' && type != 'f' && type != 'X')
			ASSERT_EQ(rig_try(rk, _IOWR(type, RKCHAIN_NR_QUERY, struct rkchain_query),
					  &q), -ENOTTY);
}

static void test_node(void)
{
	struct stat stat;

	ASSERT_EQ(lstat(RIG_DEVICE, &stat), 0);
	ASSERT(S_ISCHR(stat.st_mode));
	if (stat.st_mode & 07)
		FAIL("%s has mode %o: everybody may open it", RIG_DEVICE, stat.st_mode & 0777);
}

/* Nothing to be mapped, nothing to be written. */
static void test_other_calls(void)
{
	int rk = rig_open();
	char byte = 0;

	ASSERT_EQ(write(rk, &byte, 1), -1);
	ASSERT_EQ(errno, EINVAL);
	ASSERT_EQ(lseek(rk, 1, SEEK_SET), -1);
	ASSERT_EQ(errno, ESPIPE);
}

static const struct tap_test tests[] = {
	{ .name = "values", .run = test_values },
	{ .name = "counts", .run = test_counts },
	{ .name = "shorter_struct", .run = test_shorter_struct },
	{ .name = "empty_struct", .run = test_empty_struct },
	{ .name = "longer_struct", .run = test_longer_struct },
	{ .name = "trailing_bytes", .run = test_trailing_bytes },
	{ .name = "longest_struct", .run = test_longest_struct },
	{ .name = "guard_page", .run = test_guard_page },
	{ .name = "unknown_number", .run = test_unknown_number },
	{ .name = "calls_to_come", .run = test_calls_to_come },
	{ .name = "unknown_type", .run = test_unknown_type },
	{ .name = "node", .run = test_node },
	{ .name = "other_calls", .run = test_other_calls },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), NULL);
}

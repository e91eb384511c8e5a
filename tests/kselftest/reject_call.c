// SPDX-License-Identifier: MIT
/*
 * Reasons that speak of a call's arguments: flags, reserved members, ids, sizes, quotas.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/capability.h>

#include "debug.h"
#include "reasons.h"
#include "subject.h"

/* ---- the calls ---- */

void test_flags(void)
{
	struct rkchain_completion done;
	struct rkchain_buf_create create = { .size = 4096, .flags = 1u << 31 };
	struct rkchain_buf_adopt adopt = { .drm_fd = rig_node(), .handle = 1, .flags = 1 };
	struct rkchain_provide provide = { .drm_fd = rig_node(), .flags = 1u << 31 };
	struct rkchain_submit submit = { .count = 1, .flags = 1u << 31 };
	struct rkchain_wait wait = { .count = 1, .flags = 1u << 31 };
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	expect(rig_try_buf(s.rk, &create), &create.report, -EINVAL, RKCHAIN_REASON_FLAGS);
	ASSERT(!(create.report.limit & 1u << 31));

	s.create.flags = 1u << 31;
	refused(&s, -EINVAL, RKCHAIN_REASON_FLAGS, ANY, ANY);
	reset(&s);
	s.job.uses[1].flags |= 1u << 31;
	refused(&s, -EINVAL, RKCHAIN_REASON_FLAGS, ANY, ANY);

	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_FLAGS);
	wait.completions = (uintptr_t)&done;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_FLAGS);
	expect(rig_try(s.rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt), &adopt.report, -EINVAL,
	       RKCHAIN_REASON_FLAGS);
	if (!geteuid())
		expect(rig_try(s.rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -EINVAL,
		       RKCHAIN_REASON_FLAGS);
}

void test_reserved(void)
{
	struct rkchain_completion done;
	struct rkchain_buf_create create = { .size = 4096, .reserved = 1 };
	struct rkchain_id id = { .reserved = 1 };
	struct rkchain_submit submit = { .count = 1, .after = 1 };	/* without its flag */
	struct rkchain_wait wait = { .count = 1, .reserved = 1 };
	struct rkchain_query query = { .reserved = 1 };
	struct subject s;
	int ret;

	begin(&s);
	rig_job_register(&s.job);
	expect(rig_try_buf(s.rk, &create), &create.report, -EINVAL, RKCHAIN_REASON_RESERVED);
	id.id = s.job.a.id;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_BUF_DESTROY, &id), &id.report, -EINVAL,
	       RKCHAIN_REASON_RESERVED);
	id.id = s.job.chain;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_CHAIN_DESTROY, &id), &id.report, -EINVAL,
	       RKCHAIN_REASON_RESERVED);
	s.create.reserved = 1;
	refused(&s, -EINVAL, RKCHAIN_REASON_RESERVED, ANY, ANY);
	wait.completions = (uintptr_t)&done;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_RESERVED);
	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_RESERVED);
	/* QUERY has no report, and all of it is an answer. */
	ret = rig_try(s.rk, RKCHAIN_IOCTL_QUERY, &query);
	ASSERT(!ret || ret == -EINVAL);
	reset(&s);
	accepted(&s);
}

void test_privilege(void)
{
	struct rkchain_provide provide = { .drm_fd = rig_node() };
	struct rkchain_submit submit = { .count = 1, .priority = RKCHAIN_PRIORITY_HIGH };
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	rig_drop_capability(CAP_SYS_ADMIN);
	rig_drop_capability(CAP_SYS_NICE);
	expect(rig_try(s.rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -EPERM,
	       RKCHAIN_REASON_PRIVILEGE);
	memset(&provide, 0, sizeof(provide));
	provide.drm_fd = -1;
	provide.flags = RKCHAIN_PROVIDE_RELEASE;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_PROVIDE, &provide), &provide.report, -EPERM,
	       RKCHAIN_REASON_PRIVILEGE);
	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EPERM, RKCHAIN_REASON_PRIVILEGE);
}

void test_size(void)
{
	struct rkchain_completion done;
	struct rkchain_buf_create create = { .size = 0 };
	struct rkchain_submit submit = { .count = 0 };
	struct rkchain_wait wait = { .count = 0 };
	struct rkchain_query query;
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	rig_query(s.rk, &query);
	expect(rig_try_buf(s.rk, &create), &create.report, -EINVAL, RKCHAIN_REASON_SIZE);

	s.create.size -= 4;
	refused(&s, -EINVAL, RKCHAIN_REASON_SIZE, ANY, ANY);
	reset(&s);
	s.create.buffer_count = query.max_buffers + 1;
	refused(&s, -EINVAL, RKCHAIN_REASON_SIZE, ANY, ANY);
	ASSERT_EQ(s.create.report.limit, query.max_buffers);
	s.create.buffer_count = ~0u;
	refused(&s, -EINVAL, RKCHAIN_REASON_SIZE, ANY, ANY);

	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_SIZE);
	submit.count = query.max_submit + 1;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_SIZE);
	ASSERT_EQ(submit.report.limit, query.max_submit);
	submit.count = ~0u;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_SIZE);
	wait.completions = (uintptr_t)&done;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_SIZE);
}

void test_range(void)
{
	static const struct {
		u64 offset;
		u64 size;
	} bad[] = {
		{ 0, 8193 }, { 8192, 1 }, { 8193, 0 }, { 4096, 4097 }, { ~0ull, 1 }, { 1, ~0ull },
		{ ~0ull - 4095, 8192 },
	};
	int rk = rig_open();
	struct rig_buf buf;

	rig_buf_new(&buf, rk, 8192);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rkchain_buf_sync sync = {
			.id = buf.id,
			.direction = RKCHAIN_SYNC_TO_DEVICE,
			.offset = bad[i].offset,
			.size = bad[i].size,
		};

		tap_note("offset %#llx, size %#llx", sync.offset, sync.size);
		expect(rig_try(rk, RKCHAIN_IOCTL_BUF_SYNC, &sync), &sync.report, -EINVAL,
		       RKCHAIN_REASON_RANGE);
	}
}

void test_direction(void)
{
	static const u32 bad[] = { 0, 4, 7, 1u << 31 };
	int rk = rig_open();
	struct rig_buf buf;

	rig_buf_new(&buf, rk, 8192);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rkchain_buf_sync sync = { .id = buf.id, .direction = bad[i] };

		expect(rig_try(rk, RKCHAIN_IOCTL_BUF_SYNC, &sync), &sync.report, -EINVAL,
		       RKCHAIN_REASON_DIRECTION);
	}
	rig_buf_sync(&buf, RKCHAIN_SYNC_TO_DEVICE | RKCHAIN_SYNC_FROM_DEVICE);
}

static void expect_no_buffer(int rk, u32 id)
{
	struct rkchain_id destroy = { .id = id };
	struct rkchain_buf_sync sync = { .id = id, .direction = RKCHAIN_SYNC_TO_DEVICE };

	expect(rig_try(rk, RKCHAIN_IOCTL_BUF_DESTROY, &destroy), &destroy.report, -EINVAL,
	       RKCHAIN_REASON_BUFFER_ID);
	ASSERT_EQ(destroy.report.value, id);
	expect(rig_try(rk, RKCHAIN_IOCTL_BUF_SYNC, &sync), &sync.report, -EINVAL,
	       RKCHAIN_REASON_BUFFER_ID);
}

void test_buffer_id(void)
{
	struct rig_buf foreign, gone;
	struct subject s;
	int other = rig_open();

	begin(&s);
	rig_buf_new(&foreign, other, 65536);
	/* An id that this client has not got, so that it is certainly the other's. */
	for (u32 i = 0; i < 8; i++)
		rig_buf_new(&foreign, other, 4096);
	rig_buf_new(&gone, s.rk, 4096);
	ASSERT_EQ(rig_try_destroy(s.rk, gone.id), 0);
	expect_no_buffer(s.rk, 0);
	expect_no_buffer(s.rk, ~0u);
	expect_no_buffer(s.rk, gone.id);
	expect_no_buffer(s.rk, foreign.id);

	s.job.uses[1].id = gone.id;
	refused(&s, -EINVAL, RKCHAIN_REASON_BUFFER_ID, 1, ANY);
	s.job.uses[1].id = foreign.id;
	refused(&s, -EINVAL, RKCHAIN_REASON_BUFFER_ID, 1, ANY);
	s.job.uses[1].id = s.job.b.id;
	accepted(&s);
	/* Its memory is gone from the chain's view as well. */
	ASSERT_EQ(rig_try_destroy(s.rk, s.job.b.id), 0);
	refused(&s, -EINVAL, RKCHAIN_REASON_BUFFER_ID, 1, ANY);
}

void test_chain_id(void)
{
	struct rkchain_submit submit = { .count = 2 };
	struct rkchain_id destroy = { .id = ~0u };
	struct rkchain_completion done;
	u32 chains[2];
	struct subject s;
	int other = rig_open();
	u64 first;

	begin(&s);
	rig_job_register(&s.job);
	expect(rig_try(s.rk, RKCHAIN_IOCTL_CHAIN_DESTROY, &destroy), &destroy.report, -EINVAL,
	       RKCHAIN_REASON_CHAIN_ID);

	/* All or none: the good one in front does not run. */
	chains[0] = s.job.chain;
	chains[1] = ~0u;
	submit.chains = (uintptr_t)chains;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_CHAIN_ID);
	ASSERT_EQ(submit.report.block, 1);
	ASSERT_EQ(submit.report.value, ~0u);
	first = rig_submit(s.rk, s.job.chain, 1, 0, 0);
	rig_wait_good(s.rk, first, 1, &done);
	ASSERT_EQ(rig_submit(s.rk, s.job.chain, 1, 0, 0), first + 1);
	rig_wait_good(s.rk, first + 1, 1, &done);

	/* Somebody else's. */
	submit.count = 1;
	expect(rig_try_submit(other, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_CHAIN_ID);
	destroy.id = s.job.chain;
	expect(rig_try(other, RKCHAIN_IOCTL_CHAIN_DESTROY, &destroy), &destroy.report, -EINVAL,
	       RKCHAIN_REASON_CHAIN_ID);
	ASSERT_EQ(rig_try_destroy_chain(s.rk, s.job.chain), 0);
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_CHAIN_ID);
}

void test_quota_bytes(void)
{
	struct rkchain_query query;
	struct rkchain_buf_create create = { 0 };
	int rk = rig_open();

	rig_query(rk, &query);
	create.size = query.quota_bytes - query.used_bytes + RIG_PAGE;
	expect(rig_try_buf(rk, &create), &create.report, -EDQUOT, RKCHAIN_REASON_QUOTA_BYTES);
	ASSERT_EQ(create.report.limit, query.quota_bytes);
	create.size = ~0ull - 4096;
	ASSERT(rig_try_buf(rk, &create) < 0);
	create.size = ~0ull;
	ASSERT(rig_try_buf(rk, &create) < 0);
}

/* Registers until it is refused; @blocks of each. */
static void register_until(u32 blocks, u64 tries, u32 reason)
{
	struct rkchain_query before, after;
	struct rkchain_chain_create create;
	int rk = rig_open();
	struct rig_job job;
	int ret = 0;

	rig_query(rk, &before);
	rig_job_new(&job, rk, blocks);
	for (u64 i = 0; i <= tries && !ret; i++) {
		rig_job_request(&job, &create);
		ret = rig_try_create(rk, &create);
	}
	if (ret == -ENOMEM || create.report.reason == RKCHAIN_REASON_QUOTA_BYTES)
		tap_skip("the memory ends sooner");
	expect(ret, &create.report, -EDQUOT, reason);
	ASSERT_EQ(create.report.limit, reason == RKCHAIN_REASON_QUOTA_CHAINS ?
		  before.quota_chains : before.quota_blocks);
	close(rk);
	rk = rig_open();
	rig_job_unmap(&job);
	rig_settles(rk, &before);
	rig_query(rk, &after);
	ASSERT_EQ(after.used_chains, before.used_chains);
}

void test_quota_chains(void)
{
	struct rkchain_query query;

	rig_set_parameter("quota_chains", "100");
	rig_query(rig_open(), &query);
	if (query.quota_chains > 20000)
		tap_skip("the quota is %llu chains", query.quota_chains);
	register_until(1, query.quota_chains, RKCHAIN_REASON_QUOTA_CHAINS);
}

void test_quota_blocks(void)
{
	struct rkchain_query query;

	rig_set_parameter("quota_blocks", "5000");
	rig_query(rig_open(), &query);
	if (query.quota_blocks / RKC_WAIT_MAX >= query.quota_chains)
		tap_skip("the quota of chains, %llu, ends sooner", query.quota_chains);
	if (query.quota_blocks > 1000 * RKC_WAIT_MAX)
		tap_skip("the quota is %llu blocks", query.quota_blocks);
	register_until(RKC_WAIT_MAX, query.quota_blocks / RKC_WAIT_MAX + 1,
		       RKCHAIN_REASON_QUOTA_BLOCKS);
}

void test_too_costly(void)
{
	struct rkchain_chain_create create = { 0 };
	struct rkchain_buf_create memory = { 0 };
	struct rkchain_query query;
	struct rig_job job;
	int rk = rig_open();
	u64 *words;
	u32 count, n;

	/* The largest matmul that the memory has room for, many times over. */
	for (n = RKC_N_MAX; n >= 512; n /= 2) {
		memory.size = 4096ULL * n;
		if (!rig_try_buf(rk, &memory))
			break;
	}
	if (n < 512)
		tap_skip("no memory for a large matmul");
	close(memory.fd);
	ASSERT_EQ(rig_try_destroy(rk, memory.id), 0);
	rig_query(rk, &query);
	rig_job_shape(&job, rk, 64, 4096, n, 1);
	count = query.max_blocks < RKC_WAIT_MAX ? query.max_blocks : RKC_WAIT_MAX;
	words = calloc(count * RKC_WAIT_STRIDE + RKC_TAIL_WORDS, sizeof(*words));
	ASSERT(words);
	for (u32 i = 0; i < count; i++)
		rkc_chain_append(words, i, &job.blocks[0]);
	rig_job_request(&job, &create);
	create.programs = (uintptr_t)words;
	create.count = count;
	create.size = 8ULL * ((count - 1) * RKC_WAIT_STRIDE + RKC_FULL_WORDS);
	expect(rig_try_create(rk, &create), &create.report, -E2BIG, RKCHAIN_REASON_TOO_COSTLY);
	ASSERT_EQ(create.report.limit, query.max_chain_ns);
	ASSERT(create.report.value > create.report.limit);
	/* One of them is fine. */
	create.count = 1;
	create.size = 8 * RKC_BODY_WORDS;
	ASSERT_EQ(rig_try_create(rk, &create), 0);
	ASSERT(create.estimate_ns > 0);
	ASSERT_EQ(create.macs, 64ULL * 4096 * n);
}

void test_core_mask(void)
{
	static const u32 bad[] = { 8, 1u << 31 };
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rkchain_submit submit = {
			.chains = (uintptr_t)&s.job.chain,
			.count = 1,
			.core_mask = bad[i],
		};

		expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL,
		       RKCHAIN_REASON_CORE_MASK);
	}
}

void test_priority(void)
{
	static const s32 bad[] = {
		RKCHAIN_PRIORITY_LOW - 1, RKCHAIN_PRIORITY_HIGH + 1, 0x7fffffff,
	};
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		struct rkchain_submit submit = {
			.chains = (uintptr_t)&s.job.chain,
			.count = 1,
			.priority = bad[i],
		};

		expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL,
		       RKCHAIN_REASON_PRIORITY);
	}
}

void test_sequence(void)
{
	struct rkchain_completion done;
	struct rkchain_submit submit = { .count = 1, .flags = RKCHAIN_SUBMIT_AFTER };
	struct rkchain_wait wait = {
		.count = 1,
		.deadline_ns = -1,
		.completions = (uintptr_t)&done,
	};
	struct subject s;
	u64 first;

	begin(&s);
	rig_job_register(&s.job);
	wait.first = 12345;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_SEQUENCE);
	first = rig_submit(s.rk, s.job.chain, 1, 0, 0);
	rig_wait_good(s.rk, first, 1, &done);
	wait.first = first;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_SEQUENCE);
	wait.first = first + 1;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_SEQUENCE);
	wait.first = ~0ull;
	expect(rig_try_wait(s.rk, &wait), &wait.report, -EINVAL, RKCHAIN_REASON_SEQUENCE);

	submit.chains = (uintptr_t)&s.job.chain;
	submit.after = first + 1;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EINVAL, RKCHAIN_REASON_SEQUENCE);
}

void test_queue_full(void)
{
	struct rkchain_completion done;
	struct rkchain_query query;
	struct rkchain_submit submit = { .count = 1 };
	struct subject s;
	u64 first = 0;
	u32 left;

	begin(&s);
	rig_job_register(&s.job);
	rig_query(s.rk, &query);
	for (left = query.slots; left;) {
		const u32 some = left < query.max_submit ? left : query.max_submit;

		first = rig_submit(s.rk, s.job.chain, some, 0, 0);
		left -= some;
	}
	submit.chains = (uintptr_t)&s.job.chain;
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EAGAIN, RKCHAIN_REASON_QUEUE_FULL);
	ASSERT_EQ(submit.report.limit, query.slots);
	rig_wait_good(s.rk, first, 1, &done);
	ASSERT_EQ(rig_try_submit(s.rk, &submit), 0);
	expect(rig_try_submit(s.rk, &submit), &submit.report, -EAGAIN, RKCHAIN_REASON_QUEUE_FULL);
}

void test_failure(void)
{
	struct rkchain_failures failures = { .index = 3 };
	struct subject s;

	begin(&s);
	expect(rig_try(s.rk, RKCHAIN_IOCTL_FAILURES, &failures), &failures.report, -EINVAL,
	       RKCHAIN_REASON_FAILURE);
	ASSERT_EQ(failures.report.value, 3);
	ASSERT_EQ(failures.report.limit, 0);
}

void test_modes(void)
{
	struct rkchain_selftest_result results[12];
	struct rkchain_selftest selftest = {
		.modes = 1u << RKC_MODES,
		.count = 12,
		.results = (uintptr_t)results,
	};
	struct subject s;

	rig_need_root();
	begin(&s);
	expect(rig_try(s.rk, RKCHAIN_IOCTL_SELFTEST, &selftest), &selftest.report, -EINVAL,
	       RKCHAIN_REASON_MODES);
	selftest.modes = 0;
	selftest.cores = 8;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_SELFTEST, &selftest), &selftest.report, -EINVAL,
	       RKCHAIN_REASON_CORE_MASK);
	selftest.cores = 0;
	selftest.count = 11;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_SELFTEST, &selftest), &selftest.report, -EINVAL,
	       RKCHAIN_REASON_SIZE);
	ASSERT_EQ(selftest.report.limit, 12);
	selftest.count = 12;
	selftest.flags = 1u << 31;
	expect(rig_try(s.rk, RKCHAIN_IOCTL_SELFTEST, &selftest), &selftest.report, -EINVAL,
	       RKCHAIN_REASON_FLAGS);
}

// SPDX-License-Identifier: MIT
/*
 * A test for each reason of uapi/rkchain.h: the call fails with the right errno and
 * says why and where.  The Makefile makes the list from the header; the tests are in
 * reject_*.c by what the reason speaks of, and those of no reason are here.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "reasons.h"
#include "subject.h"

/* ---- what is no reason ---- */

/* Each call with its struct right in front of a page that is not there. */
static void test_guard_of_each_call(void)
{
	static const struct {
		unsigned long command;
		size_t size;
	} calls[] = {
		{ RKCHAIN_IOCTL_QUERY, sizeof(struct rkchain_query) },
		{ RKCHAIN_IOCTL_PROVIDE, sizeof(struct rkchain_provide) },
		{ RKCHAIN_IOCTL_BUF_CREATE, sizeof(struct rkchain_buf_create) },
		{ RKCHAIN_IOCTL_BUF_DESTROY, sizeof(struct rkchain_id) },
		{ RKCHAIN_IOCTL_BUF_SYNC, sizeof(struct rkchain_buf_sync) },
		{ RKCHAIN_IOCTL_BUF_ADOPT, sizeof(struct rkchain_buf_adopt) },
		{ RKCHAIN_IOCTL_CHAIN_CREATE, sizeof(struct rkchain_chain_create) },
		{ RKCHAIN_IOCTL_CHAIN_DESTROY, sizeof(struct rkchain_id) },
		{ RKCHAIN_IOCTL_SUBMIT, sizeof(struct rkchain_submit) },
		{ RKCHAIN_IOCTL_WAIT, sizeof(struct rkchain_wait) },
	};
	int rk = rig_open();

	for (u32 i = 0; i < ARRAY_SIZE(calls); i++) {
		char *argument = rig_guarded(calls[i].size);
		const u32 nr = _IOC_NR(calls[i].command);

		/* A size of 0 and ids of 0 are refused, but they were read. */
		if (rig_try(rk, calls[i].command, argument) == -EFAULT)
			FAIL("call %#x reads or writes behind its struct", nr);
		if (rig_try(rk, calls[i].command, argument + 1) != -EFAULT)
			FAIL("call %#x does not read the end of its struct", nr);
		for (size_t at = 0; at < 8; at++) {
			char more[512] = { 0 };
			const unsigned long longer = _IOC(_IOC_READ | _IOC_WRITE,
							  RKCHAIN_IOCTL_TYPE, nr,
							  calls[i].size + 8);

			more[calls[i].size + at] = 1;
			if (rig_try(rk, longer, more) != -E2BIG)
				FAIL("call %#x takes bytes that it does not know", nr);
		}
	}
}

/* The arrays that structs point to, likewise. */
static void test_guard_of_arrays(void)
{
	struct rkchain_submit submit = { .count = 1 };
	struct rkchain_wait wait = { .count = 1, .deadline_ns = rig_soon() };
	struct subject s;
	char *words, *uses, *chains, *done;

	begin(&s);
	words = rig_guarded(sizeof(s.words));
	uses = rig_guarded(sizeof(s.job.uses));
	memcpy(words, s.words, sizeof(s.words));
	memcpy(uses, s.job.uses, sizeof(s.job.uses));
	s.create.programs = (uintptr_t)words;
	s.create.buffers = (uintptr_t)uses;
	accepted(&s);
	s.create.size += 8;
	ASSERT_EQ(rig_try_create(s.rk, &s.create), -EFAULT);
	s.create.size -= 8;
	s.create.buffers += 8;
	ASSERT_EQ(rig_try_create(s.rk, &s.create), -EFAULT);
	s.create.programs = ~0xfffULL;
	ASSERT_EQ(rig_try_create(s.rk, &s.create), -EFAULT);

	rig_job_register(&s.job);
	chains = rig_guarded(sizeof(s.job.chain));
	memcpy(chains, &s.job.chain, sizeof(s.job.chain));
	submit.chains = (uintptr_t)chains;
	ASSERT_EQ(rig_try_submit(s.rk, &submit), 0);
	done = rig_guarded(sizeof(struct rkchain_completion));
	wait.first = submit.first;
	wait.completions = (uintptr_t)done;
	ASSERT_EQ(rig_try_wait(s.rk, &wait), 0);
	ASSERT_EQ(wait.done, 1);

	submit.count = 2;
	ASSERT_EQ(rig_try_submit(s.rk, &submit), -EFAULT);
	submit.count = 1;
	ASSERT_EQ(rig_try_submit(s.rk, &submit), 0);
	wait.first = submit.first;
	wait.completions = (uintptr_t)done + 8;
	ASSERT_EQ(rig_try_wait(s.rk, &wait), -EFAULT);
}

/* A caller with a struct from before there were reports gets the errno alone. */
static void test_no_room_for_a_report(void)
{
	struct rkchain_buf_create create = { .flags = 1u << 31, .size = 4096 };
	const size_t size = offsetof(struct rkchain_buf_create, report);
	char *argument = rig_guarded(size);
	int rk = rig_open();

	memcpy(argument, &create, size);
	ASSERT_EQ(rig_try(rk, _IOC(_IOC_READ | _IOC_WRITE, RKCHAIN_IOCTL_TYPE,
				   RKCHAIN_NR_BUF_CREATE, size), argument), -EINVAL);
}

/* Who cannot be told the number of his chain has not submitted it. */
static void test_read_only_struct(void)
{
	struct rkchain_completion done;
	struct rkchain_submit submit = { .count = 1 }, *fixed;
	struct rkchain_query query;
	struct subject s;

	begin(&s);
	rig_job_register(&s.job);
	submit.chains = (uintptr_t)&s.job.chain;
	fixed = rig_guarded(RIG_PAGE);
	*fixed = submit;
	ASSERT_EQ(mprotect(fixed, RIG_PAGE, PROT_READ), 0);
	ASSERT_EQ(rig_try_submit(s.rk, fixed), -EFAULT);
	rig_query(s.rk, &query);
	ASSERT_EQ(query.used_jobs, 0);
	ASSERT_EQ(rig_try_submit(s.rk, &submit), 0);
	ASSERT_EQ(submit.first, 1);
	rig_wait_good(s.rk, submit.first, 1, &done);
}

static void test_still_works(void)
{
	rig_still_works();
}

static const struct tap_test tests[] = {
#include "reasons.inc"
	{ .name = "guard_of_each_call", .run = test_guard_of_each_call },
	{ .name = "guard_of_arrays", .run = test_guard_of_arrays },
	{ .name = "no_room_for_a_report", .run = test_no_room_for_a_report },
	{ .name = "read_only_struct", .run = test_read_only_struct },
	{ .name = "still_works", .run = test_still_works },
};

int main(int argc, char **argv)
{
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

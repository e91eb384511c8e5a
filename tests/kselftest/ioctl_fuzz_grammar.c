// SPDX-License-Identifier: MIT
/*
 * The calls of uapi/rkchain.h as the fuzzer makes them.
 */
#include <errno.h>
#include <stddef.h>

#include "ioctl_fuzz.h"

#define MEMBER(type, member, kind)	{ offsetof(struct type, member), KIND_##kind }
#define END(type)			{ offsetof(struct type, report), KINDS }
#define CALL(member, type) \
	.name = #member, .nr = RKCHAIN_NR_##member, .size = sizeof(struct type), \
	.report = offsetof(struct type, report)
#define REASON(name)	RKCHAIN_REASON_##name

static const struct fuzz_member query_members[] = { { 0, KINDS } };

static const struct fuzz_member provide_members[] = {
	MEMBER(rkchain_provide, drm_fd, NODE),
	MEMBER(rkchain_provide, flags, FLAGS),
	END(rkchain_provide)
};

static const u32 provide_reasons[] = {
	REASON(FLAGS), REASON(PRIVILEGE), REASON(NO_PROVIDER), REASON(NOT_RKNPU),
	REASON(WRONG_CHIP), REASON(FOREIGN_ABI), REASON(PROVIDED), REASON(QUARANTINE), 0
};

static const struct fuzz_member buf_create_members[] = {
	MEMBER(rkchain_buf_create, size, BYTES),
	MEMBER(rkchain_buf_create, flags, FLAGS),
	MEMBER(rkchain_buf_create, id, OUT),
	MEMBER(rkchain_buf_create, iova, OUT),
	MEMBER(rkchain_buf_create, fd, OUT),
	MEMBER(rkchain_buf_create, reserved, ZERO),
	END(rkchain_buf_create)
};

static const u32 buf_create_reasons[] = {
	REASON(FLAGS), REASON(RESERVED), REASON(SIZE), REASON(NO_PROVIDER), REASON(QUOTA_BYTES),
	REASON(MEMORY), REASON(IOVA), 0
};

static const struct fuzz_member id_buffer_members[] = {
	MEMBER(rkchain_id, id, BUFFER),
	MEMBER(rkchain_id, reserved, ZERO),
	END(rkchain_id)
};

static const struct fuzz_member id_chain_members[] = {
	MEMBER(rkchain_id, id, CHAIN),
	MEMBER(rkchain_id, reserved, ZERO),
	END(rkchain_id)
};

static const u32 buf_destroy_reasons[] = { REASON(RESERVED), REASON(BUFFER_ID), 0 };
static const u32 chain_destroy_reasons[] = { REASON(RESERVED), REASON(CHAIN_ID), 0 };

static const struct fuzz_member buf_sync_members[] = {
	MEMBER(rkchain_buf_sync, id, BUFFER),
	MEMBER(rkchain_buf_sync, direction, DIRECTION),
	MEMBER(rkchain_buf_sync, offset, OFFSET),
	MEMBER(rkchain_buf_sync, size, LENGTH),
	END(rkchain_buf_sync)
};

static const u32 buf_sync_reasons[] = {
	REASON(DIRECTION), REASON(BUFFER_ID), REASON(DEVICE_GONE), REASON(RANGE), 0
};

static const struct fuzz_member buf_adopt_members[] = {
	MEMBER(rkchain_buf_adopt, drm_fd, NODE),
	MEMBER(rkchain_buf_adopt, handle, HANDLE),
	MEMBER(rkchain_buf_adopt, flags, FLAGS),
	MEMBER(rkchain_buf_adopt, id, OUT),
	MEMBER(rkchain_buf_adopt, iova, OUT),
	MEMBER(rkchain_buf_adopt, size, OUT),
	END(rkchain_buf_adopt)
};

/* Not IMPORTED: that takes another driver, and reject makes it. */
static const u32 buf_adopt_reasons[] = {
	REASON(FLAGS), REASON(NO_PROVIDER), REASON(HANDLE), REASON(FOREIGN_NODE),
	REASON(QUOTA_BYTES), 0
};

static const struct fuzz_member chain_create_members[] = {
	MEMBER(rkchain_chain_create, programs, WORDS),
	MEMBER(rkchain_chain_create, size, SIZE),
	MEMBER(rkchain_chain_create, count, COUNT),
	MEMBER(rkchain_chain_create, stride, STRIDE),
	MEMBER(rkchain_chain_create, body, BODY),
	MEMBER(rkchain_chain_create, flags, FLAGS),
	MEMBER(rkchain_chain_create, buffers, ARRAY),
	MEMBER(rkchain_chain_create, buffer_count, ITEMS),
	MEMBER(rkchain_chain_create, id, OUT),
	MEMBER(rkchain_chain_create, found, OUT),
	MEMBER(rkchain_chain_create, reserved, ZERO),
	MEMBER(rkchain_chain_create, macs, OUT),
	MEMBER(rkchain_chain_create, bytes, OUT),
	MEMBER(rkchain_chain_create, estimate_ns, OUT),
	END(rkchain_chain_create)
};

/*
 * Not BAD_TYPE, BAD_LAYOUT, BAD_MODE, IOVA_ALIGN, IOVA_RANGE, M_ZERO, N_RANGE,
 * SHORT_WEIGHTS: words cannot say such things, or are refused for something else
 * before; BUFFER_RANGE: buffers are the module's own.  Nor what takes a program made
 * for it, which reject has: ROWS_TOTAL, K_RANGE, ALIAS_ORDER, DEVICE_GONE, TOO_COSTLY,
 * or is hit by few words of many: BASE_ADDRESS.
 */
static const u32 chain_create_reasons[] = {
	REASON(PAGE_MISMATCH), REASON(FOREIGN_TARGET), REASON(UNKNOWN_REG), REASON(JUMP),
	REASON(BAD_OP_ENABLE), REASON(BAD_PADDING), REASON(MISSING_REG),
	REASON(SIZE_MISMATCH), REASON(VALUE), REASON(EMPTY), REASON(TOO_LONG), REASON(TRUNCATED),
	REASON(BAD_STRIDE), REASON(A_OUTSIDE), REASON(B_OUTSIDE), REASON(C_OUTSIDE),
	REASON(OUTPUT_OVERLAP), REASON(BUFFERS_OVERLAP), REASON(FLAGS), REASON(RESERVED),
	REASON(SIZE), REASON(BUFFER_ID), REASON(QUOTA_CHAINS), REASON(QUOTA_BLOCKS),
	0
};

static const struct fuzz_member submit_members[] = {
	MEMBER(rkchain_submit, chains, ARRAY),
	MEMBER(rkchain_submit, count, ITEMS),
	MEMBER(rkchain_submit, core_mask, CORES),
	MEMBER(rkchain_submit, flags, FLAGS),
	MEMBER(rkchain_submit, priority, PRIORITY),
	MEMBER(rkchain_submit, deadline_ns, DEADLINE),
	MEMBER(rkchain_submit, after, AFTER),
	MEMBER(rkchain_submit, user_data, ANY),
	MEMBER(rkchain_submit, first, OUT),
	END(rkchain_submit)
};

static const u32 submit_reasons[] = {
	REASON(FLAGS), REASON(SIZE), REASON(CORE_MASK), REASON(RESERVED), REASON(PRIORITY),
	REASON(PRIVILEGE), REASON(CHAIN_ID), REASON(DEVICE_GONE), REASON(NO_PROVIDER),
	REASON(SEQUENCE), REASON(QUEUE_FULL), 0
};

static const struct fuzz_member wait_members[] = {
	MEMBER(rkchain_wait, first, SEQUENCE),
	MEMBER(rkchain_wait, count, COUNT),
	MEMBER(rkchain_wait, flags, FLAGS),
	MEMBER(rkchain_wait, deadline_ns, DEADLINE),
	MEMBER(rkchain_wait, completions, ROOM),
	MEMBER(rkchain_wait, done, OUT),
	MEMBER(rkchain_wait, reserved, ZERO),
	END(rkchain_wait)
};

static const u32 wait_reasons[] = {
	REASON(FLAGS), REASON(RESERVED), REASON(SIZE), REASON(SEQUENCE), 0
};

static const struct fuzz_member failures_members[] = {
	MEMBER(rkchain_failures, index, INDEX),
	MEMBER(rkchain_failures, kept, OUT),
	MEMBER(rkchain_failures, program, ROOM),
	MEMBER(rkchain_failures, size, SIZE),
	MEMBER(rkchain_failures, failure, OUT),
	END(rkchain_failures)
};

static const u32 failures_reasons[] = { REASON(FAILURE), REASON(SIZE), 0 };

static const struct fuzz_member selftest_members[] = {
	MEMBER(rkchain_selftest, modes, MODES),
	MEMBER(rkchain_selftest, cores, CORES),
	MEMBER(rkchain_selftest, flags, FLAGS),
	MEMBER(rkchain_selftest, count, COUNT),
	MEMBER(rkchain_selftest, results, ROOM),
	MEMBER(rkchain_selftest, mode, OUT),
	MEMBER(rkchain_selftest, mode_source, OUT),
	MEMBER(rkchain_selftest, proven, OUT),
	MEMBER(rkchain_selftest, cores_failed, OUT),
	END(rkchain_selftest)
};

/* Not NO_PROVIDER, NOT_ALONE: seldom enough to be missed in a minute. */
static const u32 selftest_reasons[] = {
	REASON(PRIVILEGE), REASON(FLAGS), REASON(MODES), REASON(CORE_MASK), REASON(SIZE), 0
};

static const u32 no_reasons[] = { 0 };

const struct fuzz_grammar fuzz_grammar[CALL_NUMBERS] = {
	[CALL_QUERY] = {
		.name = "QUERY", .nr = RKCHAIN_NR_QUERY, .size = sizeof(struct rkchain_query),
		.report = NO_REPORT, .weight = 3, .members = query_members, .reasons = no_reasons,
	},
	[CALL_PROVIDE] = {
		CALL(PROVIDE, rkchain_provide), .weight = 3, .members = provide_members,
		.errors = { EPERM, EBADF, ENODEV, EOPNOTSUPP, EBUSY },
		.reasons = provide_reasons,
	},
	[CALL_BUF_CREATE] = {
		CALL(BUF_CREATE, rkchain_buf_create), .weight = 12, .members = buf_create_members,
		.errors = { ENODEV, EDQUOT, ENOMEM, EMFILE, ERANGE }, .reasons = buf_create_reasons,
	},
	[CALL_BUF_DESTROY] = {
		CALL(BUF_DESTROY, rkchain_id), .weight = 5, .members = id_buffer_members,
		.reasons = buf_destroy_reasons,
	},
	[CALL_BUF_SYNC] = {
		CALL(BUF_SYNC, rkchain_buf_sync), .weight = 5, .members = buf_sync_members,
		.errors = { ENODEV }, .reasons = buf_sync_reasons,
	},
	[CALL_BUF_ADOPT] = {
		CALL(BUF_ADOPT, rkchain_buf_adopt), .weight = 3, .members = buf_adopt_members,
		.errors = { ENODEV, EBADF, EDQUOT, ENOMEM, ERANGE }, .reasons = buf_adopt_reasons,
	},
	[CALL_CHAIN_CREATE] = {
		CALL(CHAIN_CREATE, rkchain_chain_create), .weight = 25,
		.members = chain_create_members,
		.errors = { EDQUOT, ENOMEM, ENODEV, E2BIG, ERANGE },
		.reasons = chain_create_reasons,
	},
	[CALL_CHAIN_DESTROY] = {
		CALL(CHAIN_DESTROY, rkchain_id), .weight = 4, .members = id_chain_members,
		.reasons = chain_destroy_reasons,
	},
	[CALL_SUBMIT] = {
		CALL(SUBMIT, rkchain_submit), .weight = 22, .members = submit_members,
		.errors = { EPERM, EAGAIN, ENODEV, ENOMEM }, .reasons = submit_reasons,
	},
	[CALL_WAIT] = {
		CALL(WAIT, rkchain_wait), .weight = 16, .members = wait_members,
		.errors = { ETIME, EINTR, ENOMEM }, .reasons = wait_reasons,
	},
	[CALL_FAILURES] = {
		CALL(FAILURES, rkchain_failures), .weight = 3, .members = failures_members,
		.capability = RKCHAIN_CAP_FAILURES, .errors = { ENOSPC, ENOMEM },
		.reasons = failures_reasons,
	},
	[CALL_SELFTEST] = {
		CALL(SELFTEST, rkchain_selftest), .weight = 2, .members = selftest_members,
		.capability = RKCHAIN_CAP_SELFTEST,
		.errors = { EPERM, ENODEV, EBUSY, ENOMEM, EINTR, EDQUOT, EAGAIN, ERANGE },
		.reasons = selftest_reasons,
	},
};

bool fuzz_reachable(enum fuzz_call call, u32 reason)
{
	if (call >= CALL_NUMBERS)
		return false;
	for (const u32 *r = fuzz_grammar[call].reasons; *r; r++)
		if (*r == reason)
			return true;
	return false;
}

const char *fuzz_call_name(enum fuzz_call call)
{
	if (call == CALL_ODD)
		return "other numbers";
	return call == CALL_READ ? "read()" : fuzz_grammar[call].name;
}

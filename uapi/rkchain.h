/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The ABI of /dev/rkchain: chains of matmul programs on the NPU of the RK3588.
 *
 * How it grows.  Calls are told apart by their number alone; the size of the
 * struct is part of the command and may differ between a program and the module.
 * What a shorter struct lacks is taken as zero; what a longer one has more must be
 * zero, else the call fails with E2BIG.  Only as much is written back as the
 * caller's struct has room for.  Flags that the module does not know and reserved
 * members that are not zero fail with EINVAL, so that both can get a meaning later.
 * Numbers of calls, reasons, flags and capabilities are never reused.
 *
 * What is refused.  Each struct that asks for something has a struct
 * rkchain_report.  A call that fails fills it where the caller has given room: the
 * reason, and for a program the block and word that it objects to.  Beside what is
 * said of each call: EFAULT for memory that cannot be read or written, ENOMEM.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC.  Addresses (IOVA) are those that the
 * NPU uses, below 4 GiB.  "Word" is an entry of a register program, 64 bits, little
 * endian.
 */
#ifndef _UAPI_RKCHAIN_H
#define _UAPI_RKCHAIN_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define RKCHAIN_ABI_VERSION	1

/*
 * Why a call was refused.  Numbers below 100 speak of a program; they are those of
 * kmod/core/reason.h.
 */
enum rkchain_reason {
	RKCHAIN_REASON_NONE = 0,

	/* the shape that a block computes */
	RKCHAIN_REASON_BAD_TYPE = 1,
	RKCHAIN_REASON_BAD_LAYOUT = 2,
	RKCHAIN_REASON_M_ZERO = 3,
	RKCHAIN_REASON_M_TOO_BIG = 4,		/* more rows than one task takes at this K */
	RKCHAIN_REASON_K_ALIGN = 5,
	RKCHAIN_REASON_K_RANGE = 6,
	RKCHAIN_REASON_N_ALIGN = 7,
	RKCHAIN_REASON_N_RANGE = 8,
	RKCHAIN_REASON_ROWS_TOTAL = 9,
	RKCHAIN_REASON_ADDR_ALIGN = 10,
	RKCHAIN_REASON_ADDR_RANGE = 11,		/* an extent crosses 2^32 */

	/* words that no matmul program holds */
	RKCHAIN_REASON_PAGE_MISMATCH = 20,
	RKCHAIN_REASON_FOREIGN_TARGET = 21,
	RKCHAIN_REASON_UNKNOWN_REG = 22,
	RKCHAIN_REASON_JUMP = 23,
	RKCHAIN_REASON_BASE_ADDRESS = 24,
	RKCHAIN_REASON_INT_MASK = 25,
	RKCHAIN_REASON_TASK_CONTROL = 26,
	RKCHAIN_REASON_PC_WRITE = 27,
	RKCHAIN_REASON_UNIT_OP_ENABLE = 28,
	RKCHAIN_REASON_POINTER = 29,
	RKCHAIN_REASON_BAD_OP_ENABLE = 30,
	RKCHAIN_REASON_BAD_PADDING = 31,

	/* words of a matmul program with the wrong value */
	RKCHAIN_REASON_MISSING_REG = 40,
	RKCHAIN_REASON_SIZE_MISMATCH = 41,
	RKCHAIN_REASON_SHORT_WEIGHTS = 42,
	RKCHAIN_REASON_COWORK = 43,
	RKCHAIN_REASON_CBUF_REUSE = 44,
	RKCHAIN_REASON_COMPRESSION = 45,
	RKCHAIN_REASON_LUT = 46,
	RKCHAIN_REASON_STRIDE = 47,
	RKCHAIN_REASON_PRECISION = 48,
	RKCHAIN_REASON_VALUE = 49,

	/* the chain as a whole */
	RKCHAIN_REASON_EMPTY = 60,
	RKCHAIN_REASON_TOO_LONG = 61,
	RKCHAIN_REASON_TRUNCATED = 62,
	RKCHAIN_REASON_BAD_STRIDE = 63,
	RKCHAIN_REASON_BAD_MODE = 64,
	RKCHAIN_REASON_IOVA_ALIGN = 65,
	RKCHAIN_REASON_IOVA_RANGE = 66,

	/* the buffers that it declares */
	RKCHAIN_REASON_A_OUTSIDE = 80,
	RKCHAIN_REASON_B_OUTSIDE = 81,
	RKCHAIN_REASON_C_OUTSIDE = 82,
	RKCHAIN_REASON_OUTPUT_OVERLAP = 83,
	RKCHAIN_REASON_ALIAS_TYPE = 84,
	RKCHAIN_REASON_ALIAS_ORDER = 85,
	RKCHAIN_REASON_BUFFERS_OVERLAP = 86,
	RKCHAIN_REASON_BUFFER_RANGE = 87,

	/* the call itself; value and limit say what was found and what is possible */
	RKCHAIN_REASON_FLAGS = 100,		/* unknown flags; limit = known ones */
	RKCHAIN_REASON_RESERVED = 101,		/* a reserved member is not zero */
	RKCHAIN_REASON_PRIVILEGE = 102,		/* needs CAP_SYS_ADMIN or CAP_SYS_NICE */
	RKCHAIN_REASON_SIZE = 103,		/* a size, count or length out of range */
	RKCHAIN_REASON_RANGE = 104,		/* offset + size is outside the buffer */
	RKCHAIN_REASON_DIRECTION = 105,		/* of BUF_SYNC */
	RKCHAIN_REASON_NO_PROVIDER = 106,	/* PROVIDE has not been called */
	RKCHAIN_REASON_DEVICE_GONE = 107,	/* made before the driver went or was exchanged */
	RKCHAIN_REASON_NOT_RKNPU = 108,		/* the descriptor is no rknpu node */
	RKCHAIN_REASON_WRONG_CHIP = 109,	/* an rknpu of another chip */
	RKCHAIN_REASON_FOREIGN_ABI = 110,	/* an rknpu whose structs we do not know */
	RKCHAIN_REASON_PROVIDED = 111,		/* there is a provider already */
	RKCHAIN_REASON_BUFFER_ID = 112,		/* no such buffer of this client */
	RKCHAIN_REASON_CHAIN_ID = 113,		/* no such chain of this client */
	RKCHAIN_REASON_HANDLE = 114,		/* no such GEM handle of that node */
	RKCHAIN_REASON_IMPORTED = 115,		/* imported dma-buf */
	RKCHAIN_REASON_FOREIGN_NODE = 116,	/* of BUF_ADOPT: not the provider's node */
	RKCHAIN_REASON_QUOTA_BYTES = 117,
	RKCHAIN_REASON_QUOTA_CHAINS = 118,
	RKCHAIN_REASON_QUOTA_BLOCKS = 119,
	RKCHAIN_REASON_TOO_COSTLY = 120,	/* estimated ns; limit = half of hang_ms */
	RKCHAIN_REASON_CORE_MASK = 121,		/* no usable core in it */
	RKCHAIN_REASON_PRIORITY = 122,
	RKCHAIN_REASON_SEQUENCE = 123,		/* not submitted, or handed out before */
	RKCHAIN_REASON_QUEUE_FULL = 124,	/* completion slots, of the file or its user */
	RKCHAIN_REASON_MEMORY = 125,		/* the stock driver has none */
	RKCHAIN_REASON_IOVA = 126,		/* the stock driver gave an address above 4 GiB */
	RKCHAIN_REASON_QUARANTINE = 127,	/* a core may still be running what failed on it */
	RKCHAIN_REASON_FAILURE = 128,		/* fewer failures are kept; limit = how many */
	RKCHAIN_REASON_NOT_ALONE = 129,		/* other programs have the NPU open */
	RKCHAIN_REASON_MODES = 130,		/* no such mode */
};

/**
 * struct rkchain_report - what was refused, and why
 * @reason: enum rkchain_reason
 * @block: block of the chain, from 0; for CHAIN_CREATE, SUBMIT: index into an array
 * @word: word within the block, RKCHAIN_NO_WORD where there is none to point at
 * @reg: register concerned, 0 for none
 * @value: what was found
 * @limit: what was expected, or the limit
 */
struct rkchain_report {
	__u32 reason;
	__u32 block;
	__u32 word;
	__u32 reg;
	__u64 value;
	__u64 limit;
};

#define RKCHAIN_NO_WORD		0xffffffffU

/**
 * enum rkchain_mode - how the programs of a chain are laid out
 * @RKCHAIN_MODE_WAIT: one task; op-enable 0x0f between blocks
 * @RKCHAIN_MODE_WAIT41: the same with an arm marker before each op-enable
 * @RKCHAIN_MODE_LINK: one task per block, linked, one interrupt
 * @RKCHAIN_MODE_SINGLE: one submit per block
 */
enum rkchain_mode {
	RKCHAIN_MODE_WAIT = 0,
	RKCHAIN_MODE_WAIT41 = 1,
	RKCHAIN_MODE_LINK = 2,
	RKCHAIN_MODE_SINGLE = 3,
};

/**
 * enum rkchain_mode_source - why this mode
 * @RKCHAIN_MODE_PARAMETER: the parameter chain_mode says so
 * @RKCHAIN_MODE_PROVEN: the best one that SELFTEST, or the parameter proven, says works
 * @RKCHAIN_MODE_TRIED: link, as it passed the short test of PROVIDE
 * @RKCHAIN_MODE_LAST: single, as nothing better is known to work
 */
enum rkchain_mode_source {
	RKCHAIN_MODE_PARAMETER = 0,
	RKCHAIN_MODE_PROVEN = 1,
	RKCHAIN_MODE_TRIED = 2,
	RKCHAIN_MODE_LAST = 3,
};

/* Capability bits of QUERY. */
#define RKCHAIN_CAP_CHAINS	(1ULL << 0)	/* CHAIN_CREATE, SUBMIT, WAIT, read(), poll() */
#define RKCHAIN_CAP_ADOPT	(1ULL << 1)	/* BUF_ADOPT */
#define RKCHAIN_CAP_ORDERED	(1ULL << 2)	/* SUBMIT: RKCHAIN_SUBMIT_ORDERED */
#define RKCHAIN_CAP_AFTER	(1ULL << 3)	/* SUBMIT: RKCHAIN_SUBMIT_AFTER */
#define RKCHAIN_CAP_DEADLINE	(1ULL << 4)	/* SUBMIT: deadline_ns */
#define RKCHAIN_CAP_PRIORITY	(1ULL << 5)	/* SUBMIT: priority */
#define RKCHAIN_CAP_FEED_ON	(1ULL << 6)	/* a block may read an earlier one's output */
#define RKCHAIN_CAP_SELFTEST	(1ULL << 7)	/* SELFTEST */
#define RKCHAIN_CAP_FAILURES	(1ULL << 8)	/* FAILURES */

/**
 * struct rkchain_query - what there is
 * @abi_version: RKCHAIN_ABI_VERSION of the module
 * @provider: 1 when there is a stock driver to work with
 * @capabilities: RKCHAIN_CAP_*
 * @cores_present: mask
 * @cores_usable: mask of those that take work
 * @cores_aside: mask of those that failed too often
 * @cores_poisoned: mask of those that are out until the stock driver is rebound
 * @mode: enum rkchain_mode in force
 * @mode_source: enum rkchain_mode_source
 * @driver_version: of the stock driver, 908 for 0.9.8; 0 without provider
 * @hw_version: of the NPU, as the stock driver says; 0 without provider
 * @generation: resets of the NPU that the module has asked for or noticed
 * @max_blocks: of a chain
 * @max_buffers: that a chain declares
 * @max_body: words of a block
 * @max_submit: chains of one SUBMIT
 * @slots: completion slots of a client
 * @hang_ms: age at which a chain is taken for hung when nobody else uses the NPU
 * @max_chain_ns: most that a chain's estimated time may be
 * @quota_bytes: device memory that a user may hold
 * @quota_chains: chains that a user may hold
 * @quota_blocks: blocks of all of a user's chains
 * @used_bytes: device memory that this user holds
 * @used_chains: chains that this user holds
 * @used_blocks: blocks of this user's chains
 * @quota_jobs: chains that a user may have submitted and not collected
 * @used_jobs: chains that this user has
 * @clients: open files of the device
 * @reserved: 0
 */
struct rkchain_query {
	__u32 abi_version;
	__u32 provider;
	__u64 capabilities;
	__u32 cores_present;
	__u32 cores_usable;
	__u32 cores_aside;
	__u32 cores_poisoned;
	__u32 mode;
	__u32 mode_source;
	__u32 driver_version;
	__u32 hw_version;
	__u64 generation;
	__u32 max_blocks;
	__u32 max_buffers;
	__u32 max_body;
	__u32 max_submit;
	__u32 slots;
	__u32 hang_ms;
	__u64 max_chain_ns;
	__u64 quota_bytes;
	__u64 quota_chains;
	__u64 quota_blocks;
	__u64 used_bytes;
	__u64 used_chains;
	__u64 used_blocks;
	__u64 quota_jobs;
	__u64 used_jobs;
	__u32 clients;
	__u32 reserved;
};

/* PROVIDE flags. */
#define RKCHAIN_PROVIDE_RELEASE	(1U << 0)	/* let go of it; drm_fd is -1 */

/**
 * struct rkchain_provide - name the stock driver for everyone, CAP_SYS_ADMIN
 * @drm_fd: an open node of the rknpu driver, card or render
 * @flags: RKCHAIN_PROVIDE_*
 * @report: out
 *
 * The module keeps the node's path and the caller's credentials and opens it anew
 * while it has clients.  Releasing it cancels what waits with ENODEV, waits for
 * what runs, and ends the life of every buffer and chain.
 *
 * Errors: EPERM; EBADF; ENODEV, EOPNOTSUPP (NOT_RKNPU, WRONG_CHIP, FOREIGN_ABI);
 * EBUSY (PROVIDED; QUARANTINE: memory that a hung core may still write to cannot be
 * given back until that core has run something else, or the stock driver is unbound).
 */
struct rkchain_provide {
	__s32 drm_fd;
	__u32 flags;
	struct rkchain_report report;
};

/* BUF_CREATE flags. */
#define RKCHAIN_BUF_WRITE_COMBINE	(1U << 0)	/* not cached: nothing to sync */

/**
 * struct rkchain_buf_create - memory that CPU and NPU share
 * @size: bytes, 1 up; rounded to whole pages
 * @flags: RKCHAIN_BUF_*
 * @id: out
 * @iova: out, a multiple of 4096
 * @fd: out, a dma-buf: mmap() it; closes on exec.  It may be closed at any time; as
 *	long as somebody has it, or a mapping, the memory counts for its user
 * @reserved: 0
 * @report: out
 *
 * Memory is zero.  A cached buffer wants BUF_SYNC after the CPU wrote and before it
 * reads, unless a chain declares it SYNC.
 *
 * Errors: ENODEV, EINVAL, EDQUOT, EMFILE; ERANGE (IOVA).
 */
struct rkchain_buf_create {
	__u64 size;
	__u32 flags;
	__u32 id;
	__u64 iova;
	__s32 fd;
	__u32 reserved;
	struct rkchain_report report;
};

/**
 * struct rkchain_buf_adopt - use a buffer that the caller made on the stock node
 * @drm_fd: the caller's own open node, of the provider's device
 * @handle: GEM handle there; an imported dma-buf is refused
 * @flags: 0
 * @id: out
 * @iova: out
 * @size: out, bytes
 * @report: out
 *
 * Errors: ENODEV, EBADF, EINVAL, EDQUOT; ERANGE (IOVA).
 */
struct rkchain_buf_adopt {
	__s32 drm_fd;
	__u32 handle;
	__u32 flags;
	__u32 id;
	__u64 iova;
	__u64 size;
	struct rkchain_report report;
};

/**
 * struct rkchain_id - argument of BUF_DESTROY and CHAIN_DESTROY
 * @id: what goes
 * @reserved: 0
 * @report: out
 *
 * The id is gone at once; the memory when nothing that is registered, queued or
 * running needs it any more.  What is queued still runs.
 */
struct rkchain_id {
	__u32 id;
	__u32 reserved;
	struct rkchain_report report;
};

/* BUF_SYNC directions. */
#define RKCHAIN_SYNC_TO_DEVICE		1U
#define RKCHAIN_SYNC_FROM_DEVICE	2U

/**
 * struct rkchain_buf_sync - cache maintenance
 * @id: buffer
 * @direction: RKCHAIN_SYNC_*, one or both
 * @offset: bytes
 * @size: bytes, 0 for all from offset on
 * @report: out
 */
struct rkchain_buf_sync {
	__u32 id;
	__u32 direction;
	__u64 offset;
	__u64 size;
	struct rkchain_report report;
};

/* Flags of a declared buffer. */
#define RKCHAIN_USE_READ	(1U << 0)	/* features and weights may lie here */
#define RKCHAIN_USE_WRITE	(1U << 1)	/* outputs may lie here */
/* What it touches is cleaned before, and what it writes invalidated after, each run. */
#define RKCHAIN_USE_SYNC	(1U << 2)

/**
 * struct rkchain_buf_use - how a chain uses a buffer
 * @id: buffer
 * @flags: RKCHAIN_USE_*
 */
struct rkchain_buf_use {
	__u32 id;
	__u32 flags;
};

/* CHAIN_CREATE flags. */
#define RKCHAIN_CHAIN_LINK	(1U << 0)	/* link form: tails may name a next program */

/* What CHAIN_CREATE found out. */
#define RKCHAIN_CHAIN_REPLAYABLE	(1U << 0)	/* running it twice gives the same memory */
#define RKCHAIN_CHAIN_FEEDS_ON		(1U << 1)	/* a block reads an earlier one's output */

/**
 * struct rkchain_chain_create - register a chain
 * @programs: pointer to the words
 * @size: bytes there, a multiple of 8
 * @count: S, blocks
 * @stride: words from one block to the next; 110 in the wait layout
 * @body: words of a block before its tail; 108, or another generator's 104
 * @flags: RKCHAIN_CHAIN_LINK
 * @buffers: pointer to an array of struct rkchain_buf_use
 * @buffer_count: how many
 * @id: out
 * @found: out, RKCHAIN_CHAIN_REPLAYABLE, RKCHAIN_CHAIN_FEEDS_ON
 * @reserved: 0
 * @macs: out, multiplications and additions of one run
 * @bytes: out, memory traffic of one run
 * @estimate_ns: out, how long a run may take
 * @report: out
 *
 * Copies the program once, finds out what each block computes, checks it against
 * the declared buffers, and holds them.  What the NPU fetches is generated from
 * what was found out; none of the caller's words reaches it.
 *
 * Errors: EINVAL, EDQUOT, ENODEV; E2BIG (TOO_COSTLY); ERANGE (IOVA).
 */
struct rkchain_chain_create {
	__u64 programs;
	__u64 size;
	__u32 count;
	__u32 stride;
	__u32 body;
	__u32 flags;
	__u64 buffers;
	__u32 buffer_count;
	__u32 id;
	__u32 found;
	__u32 reserved;
	__u64 macs;
	__u64 bytes;
	__u64 estimate_ns;
	struct rkchain_report report;
};

/* SUBMIT flags. */
#define RKCHAIN_SUBMIT_ORDERED	(1U << 0)	/* one core, in the order given */
#define RKCHAIN_SUBMIT_AFTER	(1U << 1)	/* after is valid */
#define RKCHAIN_SUBMIT_READ	(1U << 2)	/* completions go to read(), not to WAIT */

/* Priorities weigh 1, 4 and 16 in the sharing of the cores between clients. */
#define RKCHAIN_PRIORITY_LOW	(-1)
#define RKCHAIN_PRIORITY_NORMAL	0
#define RKCHAIN_PRIORITY_HIGH	1		/* CAP_SYS_NICE */

/**
 * struct rkchain_submit - run registered chains, all or none
 * @chains: pointer to an array of ids, __u32 each
 * @count: how many
 * @core_mask: cores allowed, 0 for any
 * @flags: RKCHAIN_SUBMIT_*
 * @priority: RKCHAIN_PRIORITY_*
 * @deadline_ns: 0 for none; a chain that has not ended then ends with ETIME
 * @after: sequence number; the chains start when all of this client's work up to it
 *	has finished, and end with ECANCELED when any of that failed, unless the
 *	failure had been handed out before this call
 * @user_data: comes back in the completions
 * @first: out, sequence number of the first chain; the others follow
 * @report: out
 *
 * Neither copies nor checks programs.  Each chain goes to the next core that is
 * free; the same chain is on one core at a time.  Under ORDERED, when one fails,
 * those behind it end with ECANCELED.
 *
 * Errors: EINVAL; EPERM; EAGAIN (QUEUE_FULL); ENODEV.
 */
struct rkchain_submit {
	__u64 chains;
	__u32 count;
	__u32 core_mask;
	__u32 flags;
	__s32 priority;
	__u64 deadline_ns;
	__u64 after;
	__u64 user_data;
	__u64 first;
	struct rkchain_report report;
};

/* Flags of a completion. */
#define RKCHAIN_DONE_RUNNING	(1U << 0)	/* ETIME, and the NPU may still write */
#define RKCHAIN_DONE_RETIRED	(1U << 1)	/* follows one that was RUNNING: it no longer can */

/**
 * struct rkchain_completion - what became of a chain; also what read() returns
 * @sequence: which
 * @user_data: of its SUBMIT
 * @status: 0, -ETIME, -ETIMEDOUT (it hung), -EIO (taken down by a reset, and not
 *	run again or not with success), -ECANCELED, -ENODEV
 * @flags: RKCHAIN_DONE_*
 * @core: where it ran last; RKCHAIN_NO_CORE when it never started
 * @retries: how often it was run again
 * @queued_ns: when it was submitted
 * @started_ns: when a core took it; 0 when none did
 * @done_ns: when it ended
 * @hw_ns: time on the NPU, as the stock driver measured it
 * @generation: see struct rkchain_query
 * @reserved: 0
 */
struct rkchain_completion {
	__u64 sequence;
	__u64 user_data;
	__s32 status;
	__u32 flags;
	__u32 core;
	__u32 retries;
	__u64 queued_ns;
	__u64 started_ns;
	__u64 done_ns;
	__u64 hw_ns;
	__u64 generation;
	__u64 reserved;
};

#define RKCHAIN_NO_CORE		0xffffffffU

/* WAIT flags. */
#define RKCHAIN_WAIT_ANY	(1U << 0)	/* return with the first; without it, with all */

/**
 * struct rkchain_wait - wait for chains
 * @first: sequence number of the first
 * @count: how many from there on
 * @flags: RKCHAIN_WAIT_*
 * @deadline_ns: absolute; one that has passed polls, -1 waits for ever
 * @completions: pointer to @count struct rkchain_completion
 * @done: out, how many of them have been filled, in ascending sequence
 * @reserved: 0
 * @report: out
 *
 * Each completion is handed out once; those of the range that have been handed out
 * before are left out.
 *
 * Errors: ETIME (the deadline passed; nothing was handed out); EINVAL (SEQUENCE:
 * none of the range can come any more); EINTR (a handler without SA_RESTART; nothing
 * was handed out).
 */
struct rkchain_wait {
	__u64 first;
	__u32 count;
	__u32 flags;
	__s64 deadline_ns;
	__u64 completions;
	__u32 done;
	__u32 reserved;
	struct rkchain_report report;
};

/* What is known of a failure. */
#define RKCHAIN_FAILURE_COMMITTED	(1U << 0)	/* the NPU was given it */
#define RKCHAIN_FAILURE_HUNG		(1U << 1)	/* a reset of ours was meant for it */
#define RKCHAIN_FAILURE_REPLAYABLE	(1U << 2)	/* it may be run again */
#define RKCHAIN_FAILURE_POISONED	(1U << 3)	/* the core is out since then */

/**
 * struct rkchain_failure - what is known of a chain that failed on the NPU
 * @sequence: which
 * @user_data: of its SUBMIT
 * @status: of the run: -ETIMEDOUT, -EIO or -ENODEV; -EAGAIN when it was run again
 * @error: what the stock driver returned, or a step before it
 * @flags: RKCHAIN_FAILURE_*
 * @core: where
 * @mode: enum rkchain_mode of the program
 * @retries: runs before this one
 * @blocks: of the chain
 * @reserved: 0
 * @iova: where the program lay for the NPU
 * @started_ns: when the core took it
 * @age_ns: how long the submit that failed was out
 * @generation: when it failed, see struct rkchain_query
 */
struct rkchain_failure {
	__u64 sequence;
	__u64 user_data;
	__s32 status;
	__s32 error;
	__u32 flags;
	__u32 core;
	__u32 mode;
	__u32 retries;
	__u32 blocks;
	__u32 reserved;
	__u64 iova;
	__u64 started_ns;
	__u64 age_ns;
	__u64 generation;
};

/**
 * struct rkchain_failures - look at the last chains of this client that failed
 * @index: which, 0 for the last
 * @kept: out, how many there are to look at, at most 8
 * @program: pointer to room for a copy of the program that the NPU had; 0 for none
 * @size: bytes of room, a multiple of 8; out, bytes of the program
 * @failure: out
 * @report: out
 *
 * Chains that ended before the NPU had them, by a deadline or cancelled, are not
 * among them.  What has been looked at stays.
 *
 * Errors: EINVAL (FAILURE: there are not that many); ENOSPC (SIZE: too little room;
 * limit = what it takes).
 */
struct rkchain_failures {
	__u32 index;
	__u32 kept;
	__u64 program;
	__u64 size;
	struct rkchain_failure failure;
	struct rkchain_report report;
};

/**
 * enum rkchain_verdict - what the self-test says of a mode on a core
 * @RKCHAIN_VERDICT_UNTESTED: nothing: the core is out, or was not asked for
 * @RKCHAIN_VERDICT_WORKS: all outputs were in memory when completion was signalled, and a
 *	block read what the one before it had written
 * @RKCHAIN_VERDICT_EARLY: outputs were right, but some came after the completion
 * @RKCHAIN_VERDICT_WRONG: outputs were wrong
 * @RKCHAIN_VERDICT_UNORDERED: outputs were right, but a block that reads an earlier one's
 *	read something else
 * @RKCHAIN_VERDICT_TIMEOUT: the chain did not come back
 */
enum rkchain_verdict {
	RKCHAIN_VERDICT_UNTESTED = 0,
	RKCHAIN_VERDICT_WORKS = 1,
	RKCHAIN_VERDICT_EARLY = 2,
	RKCHAIN_VERDICT_WRONG = 3,
	RKCHAIN_VERDICT_UNORDERED = 4,
	RKCHAIN_VERDICT_TIMEOUT = 5,
};

/**
 * struct rkchain_selftest_result - a mode on a core
 * @mode: enum rkchain_mode
 * @core: which
 * @verdict: enum rkchain_verdict
 * @status: of the chain that decided it, as in struct rkchain_completion
 * @blocks: of that chain
 * @block: first one whose output was not as expected; RKCHAIN_NO_WORD for none
 * @hw_ns: how long the NPU had it
 * @expected_ns: how long the same blocks took one by one; 0 where that is not known
 */
struct rkchain_selftest_result {
	__u32 mode;
	__u32 core;
	__u32 verdict;
	__s32 status;
	__u32 blocks;
	__u32 block;
	__u64 hw_ns;
	__u64 expected_ns;
};

/* SELFTEST flags. */
#define RKCHAIN_SELFTEST_SHORT	(1U << 0)	/* microseconds: cannot see early completion */
#define RKCHAIN_SELFTEST_SHARED	(1U << 1)	/* even if others have the NPU open */

/**
 * struct rkchain_selftest - find out which modes this NPU can do, CAP_SYS_ADMIN
 * @modes: mask of 1 << enum rkchain_mode, 0 for all
 * @cores: mask, 0 for all
 * @flags: RKCHAIN_SELFTEST_*
 * @count: room in @results; out, how many have been filled
 * @results: pointer to struct rkchain_selftest_result
 * @mode: out, enum rkchain_mode in force from now on
 * @mode_source: out, enum rkchain_mode_source
 * @proven: out, mask of modes that work on every core that works at all
 * @cores_failed: out, mask of cores where no tested mode works; they are set aside
 * @report: out
 *
 * Runs chains whose results are known, one mode and core after the other, beside the
 * clients' work, and looks at the outputs when completion is signalled and later.  A
 * mode that does not work can hang its core until the NPU is reset, and with it what
 * every program has there.  A mode is used by chain_mode=auto when it is proven.  The
 * short test proves nothing; what it finds replaces what PROVIDE found.
 *
 * Errors: EPERM; ENODEV; EINVAL (FLAGS, MODES, CORE_MASK, SIZE: @count is less than
 * modes times cores); EBUSY (NOT_ALONE); EINTR; EDQUOT, EAGAIN, E2BIG, ERANGE: its chains
 * count for the caller, and are checked, as anybody's.
 */
struct rkchain_selftest {
	__u32 modes;
	__u32 cores;
	__u32 flags;
	__u32 count;
	__u64 results;
	__u32 mode;
	__u32 mode_source;
	__u32 proven;
	__u32 cores_failed;
	struct rkchain_report report;
};

#define RKCHAIN_IOCTL_TYPE	0xb7

#define RKCHAIN_NR_QUERY	0x00
#define RKCHAIN_NR_PROVIDE	0x01
#define RKCHAIN_NR_BUF_CREATE	0x10
#define RKCHAIN_NR_BUF_DESTROY	0x11
#define RKCHAIN_NR_BUF_SYNC	0x12
#define RKCHAIN_NR_BUF_ADOPT	0x13
#define RKCHAIN_NR_CHAIN_CREATE	0x20
#define RKCHAIN_NR_CHAIN_DESTROY	0x21
#define RKCHAIN_NR_SUBMIT	0x30
#define RKCHAIN_NR_WAIT		0x31
#define RKCHAIN_NR_FAILURES	0x32
#define RKCHAIN_NR_SELFTEST	0x40

#define RKCHAIN_IOWR(nr, type)	_IOWR(RKCHAIN_IOCTL_TYPE, nr, type)

#define RKCHAIN_IOCTL_QUERY	RKCHAIN_IOWR(RKCHAIN_NR_QUERY, struct rkchain_query)
#define RKCHAIN_IOCTL_PROVIDE	RKCHAIN_IOWR(RKCHAIN_NR_PROVIDE, struct rkchain_provide)
#define RKCHAIN_IOCTL_BUF_CREATE	\
	RKCHAIN_IOWR(RKCHAIN_NR_BUF_CREATE, struct rkchain_buf_create)
#define RKCHAIN_IOCTL_BUF_DESTROY	RKCHAIN_IOWR(RKCHAIN_NR_BUF_DESTROY, struct rkchain_id)
#define RKCHAIN_IOCTL_BUF_SYNC	RKCHAIN_IOWR(RKCHAIN_NR_BUF_SYNC, struct rkchain_buf_sync)
#define RKCHAIN_IOCTL_BUF_ADOPT	RKCHAIN_IOWR(RKCHAIN_NR_BUF_ADOPT, struct rkchain_buf_adopt)
#define RKCHAIN_IOCTL_CHAIN_CREATE	\
	RKCHAIN_IOWR(RKCHAIN_NR_CHAIN_CREATE, struct rkchain_chain_create)
#define RKCHAIN_IOCTL_CHAIN_DESTROY	RKCHAIN_IOWR(RKCHAIN_NR_CHAIN_DESTROY, struct rkchain_id)
#define RKCHAIN_IOCTL_SUBMIT	RKCHAIN_IOWR(RKCHAIN_NR_SUBMIT, struct rkchain_submit)
#define RKCHAIN_IOCTL_WAIT	RKCHAIN_IOWR(RKCHAIN_NR_WAIT, struct rkchain_wait)
#define RKCHAIN_IOCTL_FAILURES	\
	RKCHAIN_IOWR(RKCHAIN_NR_FAILURES, struct rkchain_failures)
#define RKCHAIN_IOCTL_SELFTEST	\
	RKCHAIN_IOWR(RKCHAIN_NR_SELFTEST, struct rkchain_selftest)

#endif /* _UAPI_RKCHAIN_H */

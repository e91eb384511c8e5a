/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the ioctl fuzzer know of each other.
 *
 *	ioctl_fuzz.c		main: processes, watchdog, verdicts
 *	ioctl_fuzz_grammar.c	the calls: members, errors, reasons
 *	ioctl_fuzz_make.c	makes a call of the grammar, good or spoilt
 *	ioctl_fuzz_program.c	chains for it, good or mutated
 *	ioctl_fuzz_worker.c	a process that does anything
 *	ioctl_fuzz_careful.c	a process that holds the module to its word
 *	ioctl_fuzz_weather.c	knobs, parameters, and the driver that goes and comes
 */
#ifndef IOCTL_FUZZ_H
#define IOCTL_FUZZ_H

#include <pthread.h>
#include <sys/types.h>

#include "rig.h"

#define MS	1000000ULL

/* ---- calls ---- */

enum fuzz_call {
	CALL_QUERY,
	CALL_PROVIDE,
	CALL_BUF_CREATE,
	CALL_BUF_DESTROY,
	CALL_BUF_SYNC,
	CALL_BUF_ADOPT,
	CALL_CHAIN_CREATE,
	CALL_CHAIN_DESTROY,
	CALL_SUBMIT,
	CALL_WAIT,
	CALL_FAILURES,
	CALL_SELFTEST,
	CALL_NUMBERS,		/* the last one that has a number */
	CALL_ODD = CALL_NUMBERS,	/* a number that is none */
	CALL_READ,
	CALLS
};

/* What a member means; the plan of a call has a good value for each kind. */
enum fuzz_kind {
	KIND_OUT,		/* nobody reads it */
	KIND_ZERO,		/* reserved */
	KIND_FLAGS,
	KIND_NODE,
	KIND_HANDLE,
	KIND_BYTES,
	KIND_BUFFER,
	KIND_CHAIN,
	KIND_DIRECTION,
	KIND_OFFSET,
	KIND_LENGTH,
	KIND_WORDS,
	KIND_SIZE,
	KIND_COUNT,
	KIND_STRIDE,
	KIND_BODY,
	KIND_ARRAY,		/* of buffers declared, of chains */
	KIND_ITEMS,
	KIND_CORES,
	KIND_PRIORITY,
	KIND_DEADLINE,
	KIND_AFTER,
	KIND_ANY,
	KIND_SEQUENCE,
	KIND_ROOM,
	KIND_INDEX,
	KIND_MODES,
	KINDS
};

/* It reaches to the next one: there are no holes.  The last is of kind KINDS. */
struct fuzz_member {
	u16 offset;
	enum fuzz_kind kind;
};

#define NO_REPORT	0xffff
#define MOST_ERRORS	12

/**
 * struct fuzz_grammar - a call
 * @name: of the call
 * @nr: its number
 * @size: of its struct
 * @report: where its report stands, or NO_REPORT
 * @weight: how often it is made
 * @capability: RKCHAIN_CAP_* without which it is not there
 * @members: all of them, up to the report
 * @errors: that the header lists, apart from those of any call
 * @reasons: that can be reached, 0 ends them
 */
struct fuzz_grammar {
	const char *name;
	u32 nr;
	u16 size;
	u16 report;
	u32 weight;
	u64 capability;
	const struct fuzz_member *members;
	int errors[MOST_ERRORS];
	const u32 *reasons;
};

extern const struct fuzz_grammar fuzz_grammar[CALL_NUMBERS];

bool fuzz_reachable(enum fuzz_call call, u32 reason);
const char *fuzz_call_name(enum fuzz_call call);

/* ---- what all processes see ---- */

#define ERRORS		136
#define REASONS		160
#define SLOTS		64

enum fuzz_weather {
	CALM,		/* nothing fails but what its caller spoils */
	SLOW,		/* modes change, chains take their time */
	SCARCE,		/* small quotas */
	HANG,		/* cores and interrupts fail */
	STOCK,		/* other programs use the stock driver */
	RELEASE,	/* the driver is let go of and named again, by anybody */
	REBIND,		/* it is unbound and bound */
	POOR,		/* the driver has no memory, or none that is of use */
	DOMAIN,		/* other IOMMU domains */
	STRAY,		/* interrupts that nobody asked for */
	WEATHERS
};

struct fuzz_tally {
	__u64 good;
	__u64 errors[ERRORS];
	__u64 reasons[REASONS];
};

/* A failure that the header does not list. */
struct fuzz_odd {
	u32 call;
	u32 command;
	u32 weather;
	u32 error;
	u32 reason;
};

#define ODDS		16

/* What a thread is at. */
struct fuzz_slot {
	pid_t pid;
	pid_t tid;
	u64 since;		/* 0: nothing */
	enum fuzz_call call;
	u32 command;
};

enum fuzz_action {
	ACTION_REOPEN,
	ACTION_MAP,
	ACTION_POLL,
	ACTION_SYSFS,
	ACTION_FORK,
	ACTION_STATE,
	ACTION_ALARM,
	ACTION_KILLED,
	ACTION_STOCK,
	ACTION_WEATHER,
	ACTION_SCRIBBLED,
	ACTIONS
};

struct fuzz {
	u64 seed;
	u64 end;
	u32 stop;
	u64 capabilities;
	u32 weather;
	u32 epoch;		/* counts changes */
	struct fuzz_tally tally[CALLS];
	struct fuzz_slot slots[SLOTS];
	__u64 actions[ACTIONS];
	__u64 weathers[WEATHERS];
	__u64 unlisted;
	struct fuzz_odd odds[ODDS];
	__u64 spoilt;
	char others[2][64];	/* nodes of other devices of a driver of that name */
	/* of careful processes */
	__u64 chains;
	__u64 statuses[ERRORS];
	__u64 late;
	__u64 calm;
	__u64 calm_hung;
	__u64 outputs;
	__u64 rounds;
};

extern struct fuzz *fuzz;

void fuzz_count(__u64 *counter);
bool fuzz_over(void);
struct fuzz_slot *fuzz_slot(void);
void fuzz_begin(struct fuzz_slot *slot, enum fuzz_call call, u32 command);
void fuzz_end(struct fuzz_slot *slot);

static inline enum fuzz_weather fuzz_weather(void)
{
	return __atomic_load_n(&fuzz->weather, __ATOMIC_SEQ_CST);
}

static inline u32 fuzz_epoch(void)
{
	return __atomic_load_n(&fuzz->epoch, __ATOMIC_SEQ_CST);
}

/* Are there knobs, and may we turn them? */
bool fuzz_has_weather(void);

/* ---- chance ---- */

struct fuzz_dice {
	u64 state;
};

u64 fuzz_random(struct fuzz_dice *dice);

static inline u64 fuzz_below(struct fuzz_dice *dice, u64 limit)
{
	return fuzz_random(dice) % limit;
}

static inline bool fuzz_percent(struct fuzz_dice *dice, u32 percent)
{
	return fuzz_below(dice, 100) < percent;
}

u64 fuzz_boundary(struct fuzz_dice *dice);

/* ---- what a worker has ---- */

#define FILES	3
#define BUFS	24
#define CHAINS	24

struct fuzz_buf {
	u32 file;
	u32 id;
	u64 iova;
	u64 size;
	int fd;
	void *map;
};

struct fuzz_chain {
	u32 file;
	u32 id;
};

/* Under lock, but for files, which are always of the device. */
struct fuzz_pool {
	pthread_mutex_t lock;
	int files[FILES];
	u64 next[FILES];	/* sequence number */
	struct fuzz_buf bufs[BUFS];
	struct fuzz_chain chains[CHAINS];
	/* What another thread writes to while it is copied. */
	u64 *target;
	u32 target_words;
	bool privileged;
};

/* ---- a call in the making ---- */

#define PROGRAM_WORDS	(RKC_WAIT_MAX * RKC_FULL_WORDS)
#define PROGRAM_USES	6
#define MOST_IDS	257
#define MOST_RECORDS	1025

/**
 * struct fuzz_try - a call
 * @dice: of the thread
 * @pool: of the process
 * @slot: of the thread
 * @file: which one it is made on
 * @call: which
 * @plan: good values
 * @argument: the struct
 * @command: of ioctl()
 * @at: where the struct is handed over
 * @may_fault: some pointer is bad
 * @may_tail: there is something in what the module does not know
 * @node: a node opened for it
 * @spoilt: something is not as planned
 * @words: a program
 * @words_end: where programs end, as nothing is mapped there
 * @nwords: how many there are
 * @uses: buffers that it declares
 * @ids_end: where arrays of ids end
 * @records_end: where room for completions ends
 * @arena: pages: RW, none, read-only, none
 * @device: a page that the NPU sees too
 */
struct fuzz_try {
	struct fuzz_dice dice;
	struct fuzz_pool *pool;
	struct fuzz_slot *slot;
	u32 file;
	enum fuzz_call call;
	u64 plan[KINDS];
	u8 argument[512];
	u32 command;
	void *at;
	bool may_fault;
	bool may_tail;
	bool spoilt;
	int node;
	u64 *words;
	u64 *words_end;
	u32 nwords;
	struct rkchain_buf_use uses[PROGRAM_USES];
	u32 *ids_end;
	u8 *records_end;
	u8 *arena;
	void *device;
};

void fuzz_try_init(struct fuzz_try *t, struct fuzz_pool *pool, u64 seed);

/* Makes one call of the grammar and looks at what comes back. */
void fuzz_make(struct fuzz_try *t, enum fuzz_call call);
enum fuzz_call fuzz_choose(struct fuzz_dice *dice);

/* A buffer or chain of the file: false when there is none. */
bool fuzz_pick_buf(struct fuzz_try *t, struct fuzz_buf *buf);
u32 fuzz_pick_chain(struct fuzz_try *t);

/* Fills words, uses, and the part of the plan that is of a program. */
void fuzz_program(struct fuzz_try *t);

/* ---- processes ---- */

int fuzz_node(void);
int fuzz_open_as(uid_t uid);
void fuzz_become(uid_t uid);
void fuzz_worker(u32 number, u64 seed);
void fuzz_careful(u32 number, u64 seed);
void fuzz_weather_man(u64 seed);

/* All knobs and parameters as they are at first, all cores back, a driver there. */
void fuzz_settle(void);
bool fuzz_core_state(u32 core, const char *state);

#endif /* IOCTL_FUZZ_H */

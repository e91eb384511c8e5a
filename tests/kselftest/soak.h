/* SPDX-License-Identifier: MIT */
/*
 * soak: what its processes share, and what its parts know of each other.
 *
 *	soak.c		main: phases, processes
 *	soak_weather.c	what is done to hardware and driver, and made good again
 *	soak_verdicts.c	what must hold, and the table of what happened
 *	soak_log.c	the driver's log
 *	soak_client.c	a client of rkchain
 *	soak_stock.c	a client of the stock driver
 *	soak_job.c	chains whose outputs tell how often they were run
 *
 * The first process is the weather and the administrator: it has hardware and driver
 * misbehave, kills clients, brings cores back, and looks at the driver's log.  The
 * others are clients of rkchain, and two of the stock driver.  Each judges what it is
 * told; what takes the log to be judged is handed to the first process.
 */
#ifndef SOAK_H
#define SOAK_H

#include "rig.h"

#define SOAK_CLIENTS	6
#define SOAK_STOCKS	2
#define SOAK_SUSPECTS	16384	/* a power of two */

/* What must hold, and is counted when it does not. */
enum soak_oracle {
	SOAK_ONCE,
	SOAK_OUTPUTS,
	SOAK_TIMEDOUT,
	SOAK_EIO,
	SOAK_CANCELED,
	SOAK_ETIME,
	SOAK_ENODEV,
	SOAK_RETRIES,
	SOAK_ORDER,
	SOAK_CALLS,
	SOAK_STOCK,
	SOAK_POISONED,
	SOAK_WINDOW,
	SOAK_DISASTERS,
	SOAK_SETTLED,
	SOAK_ORACLES
};

/**
 * struct soak_suspect - a failure that the driver's log has to explain
 * @ready: it has been filled
 * @status: -EIO or -ENODEV
 * @mask: cores that the chain could use
 * @sequence: of the chain
 * @started_ns: 0 for one that never did
 * @done_ns: when it ended
 */
struct soak_suspect {
	u32 ready;
	s32 status;
	u32 mask;
	u64 sequence;
	u64 started_ns;
	u64 done_ns;
};

/* A client from its start to its end. */
struct soak_slot {
	u64 submitted;
	u64 completed;
	u64 abandoned;
};

/**
 * struct soak - in memory that all processes share
 * @stop: no more submits
 * @beside: the stock clients are to be there
 * @hang: and to hang now and then
 * @present: stock clients that are
 * @hang_ns: the module's hang_ms
 * @budget: chains that may be submitted
 * @wrong: how often each oracle was
 * @late: chains that ran on behind their deadlines
 * @status: the others, by -status
 * @retried: chains that were run again
 * @blocks: submitted
 * @failures: records of FAILURES that were looked at
 * @behind_late: ran ORDERED behind one that was ETIME|RUNNING and ended well later
 * @stock_good: stock submits with success
 * @stock_bad: and without
 * @suspect_next: where the next suspect goes
 * @suspects: not yet judged
 * @slot: the rkchain clients
 */
struct soak {
	u32 stop;
	u32 beside;
	u32 hang;
	u32 present;
	u64 hang_ns;
	s64 budget;
	u32 wrong[SOAK_ORACLES];
	u64 late;
	u64 status[160];
	u64 retried;
	u64 blocks;
	u64 failures;
	u64 behind_late;
	u64 stock_good;
	u64 stock_bad;
	u32 suspect_next;
	struct soak_suspect suspects[SOAK_SUSPECTS];
	struct soak_slot slot[SOAK_CLIENTS];
};

extern struct soak *soak;

#define soak_add(counter, n)	__atomic_fetch_add(&(counter), n, __ATOMIC_SEQ_CST)
#define soak_get(value)		__atomic_load_n(&(value), __ATOMIC_SEQ_CST)
#define soak_put(value, n)	__atomic_store_n(&(value), n, __ATOMIC_SEQ_CST)

/* Something is not as it must be; the first few times it says what. */
void __printf(2, 3) soak_wrong(enum soak_oracle oracle, const char *format, ...);

u32 soak_random(u32 *state);
u32 soak_below(u32 *state, u32 limit);
bool soak_chance(u32 *state, u32 percent);

/* ---- chains with data that can be checked ---- */

/**
 * struct soak_job - @count matmuls, M x K x 32, int8 to int32
 * @rk: descriptor of the device
 * @m: rows
 * @k: contraction length
 * @count: blocks
 * @replayable: false when the first block reads what the last one writes
 * @spoilt: a core may still be running it
 * @chain: id
 * @runs: so far
 * @a: features
 * @b: weights, a few that the blocks share
 * @c: outputs
 */
struct soak_job {
	int rk;
	u32 m;
	u32 k;
	u32 count;
	bool replayable;
	bool spoilt;
	u32 chain;
	u32 runs;
	struct rig_buf a;
	struct rig_buf b;
	struct rig_buf c;
};

int soak_job_try_new(struct soak_job *job, int rk, u32 *random);

/* Random features, and outputs that are wrong everywhere. */
void soak_job_fill(struct soak_job *job, u32 *random);

/*
 * How many outputs are wrong, of all or of a sample.  Of a chain that failed each may
 * be missing, and none be anything else than it would be after one run.
 */
u64 soak_job_wrong(const struct soak_job *job, bool failed, u32 *random);

/* Makes what has been mapped and registered undone. */
void soak_job_free(struct soak_job *job);

/* Maps no more, while the descriptor is about to be closed. */
void soak_job_unmap(struct soak_job *job);

/* ---- processes ---- */

void soak_client(u32 slot, u32 seed);
void soak_stock(u32 seed);

/* ---- the driver's log ---- */

/* Looks at what is new in it.  The stock clients are there since @since, 0 = they are not. */
void soak_log_read(u64 since);

/* Was there a reset in that time? */
bool soak_log_reset(u64 begin, u64 end);

/* Submits in others' resets, which nobody could know of. */
extern u64 soak_log_unlucky;
/* Resets that the module, or a time-out of its own submits, caused; and others'. */
extern u64 soak_log_own, soak_log_others;

/* ---- the first process ---- */

#define SOAK_HANG_MS	100
#define SOAK_TICK_MS	20

/**
 * struct soak_run - what the parts of the first process share
 * @rk: its descriptor of the device
 * @seed: decides what is tried
 * @random: comes of it
 * @incarnations: clients that there have been
 * @killed: of these
 * @submitted: chains, by those that have gone
 * @completed: of these
 * @abandoned: of these
 * @since: the stock clients are there since, 0 = they are not
 * @can_rebind: the driver
 * @query: what there was at the last look
 * @generation: of the NPU, then
 * @aside: how often a core was set aside
 * @poisoned: how often one was poisoned
 * @dead: how often the driver let one die
 * @enabled: how often one was brought back
 * @rebinds: of the driver
 */
struct soak_run {
	int rk;
	u32 seed;
	u32 random;
	u32 incarnations;
	u32 killed;
	u64 submitted;
	u64 completed;
	u64 abandoned;
	u64 since;
	bool can_rebind;
	struct rkchain_query query;
	u64 generation;
	u32 aside;
	u32 poisoned;
	u32 dead;
	u32 enabled;
	u32 rebinds;
};

extern struct soak_run soak_run;

/* ---- the weather and the administrator ---- */

/**
 * struct soak_phase - the weather for a few seconds
 * @name: what it is called
 * @beside: the stock clients are there
 * @hang: and hang now and then
 * @stuck: percent of ticks with which cores begin to be stuck
 * @stray: the same for interrupts that nobody asked for
 * @late: the same for times in which interrupts come late
 * @miss_wakeup: of the driver
 * @wake_queued: of the driver
 * @seconds: how long it lasts
 * @mode: the module's chain_mode
 */
struct soak_phase {
	const char *name;
	bool beside;
	bool hang;
	u32 stuck;
	u32 stray;
	u32 late;
	u32 miss_wakeup;
	bool wake_queued;
	u32 seconds;
	const char *mode;
};

/* Takes a first look. */
void soak_weather_prepare(void);

/* The hardware behaves. */
void soak_calm(void);

/* The stock clients come or go, and hang or do not. */
void soak_set_beside(bool beside, bool hang);

void soak_begin_phase(const struct soak_phase *p);

/* What a tick brings. */
void soak_weather(const struct soak_phase *p);

/* Which cores are there now? */
void soak_look(void);

/* Were all cores of the mask out at that time, or the driver away? */
bool soak_no_core(u32 mask, u64 ns);

/* Brings back what was lost. */
void soak_administrate(const struct soak_phase *p, bool phase_ends);

/* All of it at once, and for good. */
void soak_clear_up(const struct soak_phase *p);

/* ---- verdicts ---- */

/* What was counted before is not ours. */
void soak_verdicts_prepare(void);

/* Failures that the driver's log explains by now, or all of them. */
void soak_judge_suspects(bool all);

/*
 * At the end, when all has been brought back: each core computes something, so nothing
 * is held for what may still run there.
 */
void soak_settle(const struct soak_phase *p);

void soak_judge_driver(void);

/* What happened in so many ns. */
void soak_table(u64 took);

/* Says which oracles held; what main() returns. */
int soak_verdict(void);

#endif /* SOAK_H */

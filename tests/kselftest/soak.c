// SPDX-License-Identifier: MIT
/*
 * Not a test of one thing but all at a time, for as long as one likes: several clients,
 * two users of the stock driver, hardware and driver that misbehave, and somebody who
 * brings back what was lost.
 *
 *	soak [-c CHAINS] [-m MINUTES] [-s SEED]
 *
 * ends after so many chains (5000), or minutes.  The seed decides what is tried; what
 * comes of it depends on the time that it takes as well.
 */
#include "soak.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debug.h"

#define MS		1000000ULL
#define S		1000000000ULL
#define HANG_MS		100
#define TICK_MS		20
#define PER_SECOND	90	/* chains, so that 5000 of them see all there is */
#define HISTORY		256

struct soak *soak;

static const char * const oracles[SOAK_ORACLES] = {
	[SOAK_ONCE] = "each chain ended once: none lost, none twice",
	[SOAK_OUTPUTS] = "outputs of successes are right, and of failures right or missing",
	[SOAK_TIMEDOUT] = "ETIMEDOUT: only what was on a core for as long as hang_ms",
	[SOAK_EIO] = "EIO: only where the NPU was reset while the chain was on a core",
	[SOAK_CANCELED] = "ECANCELED: only behind something that failed",
	[SOAK_ETIME] = "ETIME: only behind a deadline",
	[SOAK_ENODEV] = "ENODEV: only without a core, or while the driver was rebound",
	[SOAK_RETRIES] = "run again at most once, and only what is replayable",
	[SOAK_ORDER] = "ORDERED and AFTER were kept",
	[SOAK_CALLS] = "no call failed that should not, and every process ended well",
	[SOAK_STOCK] = "stock clients got what the stock driver gives",
	[SOAK_POISONED] = "cores whose queue is corrupt were taken for poisoned",
	[SOAK_WINDOW] = "no submit in a reset that the module could know of",
	[SOAK_DISASTERS] = "the driver was not brought down",
	[SOAK_SETTLED] = "nothing is held at the end",
};

/* They speak of what the stand-in alone can tell. */
#define OF_STANDIN	(1u << SOAK_POISONED | 1u << SOAK_WINDOW | 1u << SOAK_DISASTERS)

/* What would have brought a board down. */
static const char * const disasters[] = { "trap", "oops", "late_call", "late_put" };

/**
 * struct phase - the weather for a few seconds
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
static const struct phase {
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
} phases[] = {
	{ .name = "alone", .seconds = 4, .stuck = 1, .mode = "wait" },
	{ .name = "beside others that hang", .seconds = 4, .beside = true, .hang = true,
	  .mode = "wait" },
	{ .name = "alone, stuck cores", .seconds = 4, .stuck = 5, .mode = "link" },
	/* Long enough for time-outs of the module's own submits. */
	{ .name = "beside others", .seconds = 9, .beside = true, .stuck = 1, .late = 2,
	  .mode = "link" },
	{ .name = "alone, stray and late interrupts, lost wake-ups", .seconds = 4, .stray = 10,
	  .late = 4, .miss_wakeup = 3, .mode = "wait41" },
	{ .name = "beside others that hang, lost wake-ups", .seconds = 4, .beside = true,
	  .hang = true, .miss_wakeup = 5, .wake_queued = true, .mode = "wait" },
};

static struct {
	int rk;
	u32 seed;
	u32 random;
	u64 end;		/* of a run by minutes */
	u64 granted;		/* chains, so far */
	pid_t clients[SOAK_CLIENTS];
	pid_t stocks[SOAK_STOCKS];
	u32 incarnations;
	u32 killed;
	u64 submitted;		/* by those that have gone */
	u64 completed;
	u64 abandoned;
	/* the weather */
	u64 stuck_until;
	u64 late_until;
	/* the stock clients are there since */
	u64 since;
	u64 asked;		/* resets, until then */
	/* the administrator */
	bool can_rebind;
	struct rig_binding binding;
	struct rkchain_query query;
	u64 seen;		/* when */
	u64 out_since[MODEL_CORES];
	u32 corrupt[MODEL_CORES];	/* looks in a row at a queue that is */
	u32 aside;
	u32 poisoned;
	u32 dead;
	u32 were_dead;
	u32 enabled;
	u32 rebinds;
	u64 before[ARRAY_SIZE(disasters)];
	u64 resets_before;
	u64 commits;
	u64 generation;
} run;

/* When cores were out, or the driver away.  @end 0: still. */
static struct {
	u32 mask;
	u64 begin;
	u64 end;
} history[HISTORY];
static u32 history_count;

void soak_wrong(enum soak_oracle oracle, const char *format, ...)
{
	va_list list;
	char text[256];

	if (soak_add(soak->wrong[oracle], 1) >= 8)
		return;
	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	tap_note("WRONG: %s", text);
}

/* ---- processes ---- */

static pid_t start(void (*body)(u32 a), u32 a)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	ASSERT(child >= 0);
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(run.rk);
	body(a);
	fflush(stdout);
	_exit(0);
}

static void client(u32 slot)
{
	soak_client(slot, run.seed + 1000 * run.incarnations + slot);
}

static void stock(u32 number)
{
	soak_stock(run.seed + 77 * number + 5);
}

static void start_client(u32 slot)
{
	memset(&soak->slot[slot], 0, sizeof(soak->slot[slot]));
	run.incarnations++;
	run.clients[slot] = start(client, slot);
}

/* A client is dead; it may have had work under way. */
static void bury(u32 slot, int status)
{
	const struct soak_slot *s = &soak->slot[slot];

	run.clients[slot] = 0;
	run.submitted += s->submitted;
	run.completed += s->completed;
	run.abandoned += s->abandoned;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		run.abandoned += s->submitted - s->completed - s->abandoned;
	else if (status)
		soak_wrong(SOAK_CALLS, "a client ended with %#x", status);
	else if (s->submitted != s->completed + s->abandoned)
		soak_wrong(SOAK_ONCE, "of %llu chains %llu ended", (unsigned long long)s->submitted,
			   (unsigned long long)s->completed);
}

static u64 total(void)
{
	u64 sum = run.submitted;

	for (u32 i = 0; i < SOAK_CLIENTS; i++)
		sum += soak_get(soak->slot[i].submitted);
	return sum;
}

static void kill_one(void)
{
	const u32 slot = soak_below(&run.random, SOAK_CLIENTS);
	int status;

	kill(run.clients[slot], SIGKILL);
	waitpid(run.clients[slot], &status, 0);
	run.killed++;
	bury(slot, status);
	start_client(slot);
}

static void look_after_processes(void)
{
	int status;

	for (u32 i = 0; i < SOAK_CLIENTS; i++)
		if (run.clients[i] && waitpid(run.clients[i], &status, WNOHANG) > 0) {
			bury(i, status);
			start_client(i);
		}
	for (u32 i = 0; i < SOAK_STOCKS; i++)
		if (run.stocks[i] && waitpid(run.stocks[i], &status, WNOHANG) > 0) {
			soak_wrong(SOAK_CALLS, "a stock client ended with %#x", status);
			run.stocks[i] = 0;
		}
}

/* ---- suspects ---- */

/* Were all cores of the mask out at that time, or the driver away? */
static bool no_core(u32 mask, u64 ns)
{
	u32 out = 0;

	for (u32 i = history_count > HISTORY ? history_count - HISTORY : 0; i < history_count; i++)
		if (history[i % HISTORY].begin <= ns &&
		    (!history[i % HISTORY].end || history[i % HISTORY].end >= ns))
			out |= history[i % HISTORY].mask;
	return !(mask & ~out);
}

static void judge_suspects(bool all)
{
	const u64 until = rig_now();

	/* What is known now reaches to a moment ago. */
	soak_log_read(run.since);
	for (u32 i = 0; i < SOAK_SUSPECTS; i++) {
		struct soak_suspect *s = &soak->suspects[i];

		if (!soak_get(s->ready) || (!all && s->done_ns + 200 * MS > until))
			continue;
		if (s->status == -EIO && !soak_log_reset(s->started_ns, s->done_ns))
			soak_wrong(SOAK_EIO, "chain %llu: EIO without a reset, %llu us",
				   (unsigned long long)s->sequence,
				   (unsigned long long)(s->done_ns - s->started_ns) / 1000);
		if (s->status == -ENODEV && !no_core(s->mask, s->done_ns))
			soak_wrong(SOAK_ENODEV, "chain %llu: ENODEV, but one of %#x was there",
				   (unsigned long long)s->sequence, s->mask);
		soak_put(s->ready, 0);
	}
}

/* ---- which cores there are ---- */

static u64 *history_open(u32 mask, u64 begin)
{
	u32 i = history_count++ % HISTORY;

	history[i].mask = mask;
	history[i].begin = begin;
	history[i].end = 0;
	return &history[i].end;
}

static void look(void)
{
	const u64 before = run.seen;
	const u32 usable = run.query.cores_usable;
	const u32 aside = run.query.cores_aside, poisoned = run.query.cores_poisoned;
	u32 lost, back;

	run.seen = rig_now();
	rig_query(run.rk, &run.query);
	lost = usable & ~run.query.cores_usable;
	back = run.query.cores_usable & ~usable;
	run.aside += __builtin_popcount(run.query.cores_aside & ~aside);
	run.poisoned += __builtin_popcount(run.query.cores_poisoned & ~poisoned);
	for (u32 core = 0; core < MODEL_CORES; core++) {
		if (lost & 1u << core) {
			history_open(1u << core, before);
			run.out_since[core] = run.seen;
		}
		for (u32 i = 0; back & 1u << core && i < HISTORY; i++)
			if (history[i].mask == 1u << core && !history[i].end)
				history[i].end = rig_now();
	}
	if (run.query.generation < run.generation)
		soak_wrong(SOAK_CALLS, "the generation went back");
	run.generation = run.query.generation;
}

/* Sleeps, and misses no core that is lost meanwhile. */
static void rest(u32 ms)
{
	const u64 end = rig_now() + ms * MS;

	do {
		look();
		rig_sleep(ms < TICK_MS ? ms : TICK_MS);
	} while (rig_now() < end);
}

/* ---- the stock clients ---- */

static u64 resets_asked(void)
{
	u64 asked = 0;

	standin_counter("resets_asked", &asked);
	return asked;
}

static void set_beside(bool beside, bool hang)
{
	const u64 end = rig_soon();

	soak_put(soak->hang, hang);
	if (beside == !!run.since)
		return;
	soak_log_read(run.since);
	/* While they are there the module resets nothing. */
	if (!beside && resets_asked() != run.asked)
		soak_wrong(SOAK_WINDOW, "%llu resets were asked for beside others",
			   (unsigned long long)(resets_asked() - run.asked));
	soak_put(soak->beside, beside);
	if (beside)
		run.since = rig_now();
	while (soak_get(soak->present) != (beside ? SOAK_STOCKS : 0) && rig_now() < end)
		rest(5);
	if (soak_get(soak->present) != (beside ? SOAK_STOCKS : 0))
		soak_wrong(SOAK_CALLS, "the stock clients do not %s", beside ? "come" : "go");
	if (beside) {
		/* One that was under way. */
		rest(300);
		run.asked = resets_asked();
	} else {
		soak_log_read(run.since);
		run.since = 0;
	}
}

/* ---- the weather ---- */

static void weather_set(const char *knob, u64 value)
{
	if (model_present())
		model_set(knob, value);
}

static void driver_set(const char *knob, u64 value)
{
	if (standin_present())
		standin_set(knob, value);
}

static void calm(void)
{
	model_calm();
	run.stuck_until = 0;
	run.late_until = 0;
}

static void begin_phase(const struct phase *p)
{
	calm();
	/* A core that is lost beside others is lost for longer: first all come back. */
	if (p->beside)
		rest(300);
	set_beside(p->beside, p->hang);
	rig_set_parameter("chain_mode", p->mode);
	driver_set("miss_wakeup", p->miss_wakeup);
	driver_set("wake_queued", p->wake_queued);
	weather_set("drop_every", 100);
}

static void weather(const struct phase *p)
{
	u32 *r = &run.random;
	const u64 now = rig_now();

	if (run.stuck_until && now >= run.stuck_until) {
		weather_set("stuck_core", 0);
		run.stuck_until = 0;
	} else if (!run.stuck_until && soak_chance(r, p->stuck)) {
		weather_set("stuck_core", 1 + soak_below(r, 7));
		run.stuck_until = now + (50 + soak_below(r, 500)) * MS;
	}
	if (run.late_until && now >= run.late_until) {
		weather_set("late_irq_us", 0);
		run.late_until = 0;
	} else if (!run.late_until && soak_chance(r, p->late)) {
		/* Now and then later than that a chain is taken for hung. */
		weather_set("late_irq_us", 1000 * (1 + soak_below(r, soak_chance(r, 20) ?
								   2 * HANG_MS : HANG_MS / 3)));
		run.late_until = now + (50 + soak_below(r, 200)) * MS;
	}
	if (soak_chance(r, p->stray))
		weather_set("stray", 1 + soak_below(r, 7));
	if (soak_chance(r, 5))
		weather_set("latency_us", soak_chance(r, 50) ? 0 : soak_below(r, 3000));
}

/* ---- the administrator ---- */

static void write_usable(u32 core)
{
	char path[] = "/sys/class/misc/rkchain/core0/state";
	int fd;

	path[strlen("/sys/class/misc/rkchain/core")] += core;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "usable", 6) < 0)
		soak_wrong(SOAK_CALLS, "core %u does not come back: %s", core, strerror(errno));
	else
		run.enabled++;
	if (fd >= 0)
		close(fd);
}

/* The stand-in knows whose queue holds something freed; so must the module. */
static void look_at_queues(void)
{
	for (u32 core = 1; core < MODEL_CORES; core++) {
		char name[] = "core0/tombstones";
		u64 tombstones = 0;

		name[4] += core;
		standin_counter(name, &tombstones);
		if (!tombstones || run.query.cores_poisoned & 1u << core)
			run.corrupt[core] = 0;
		else if (++run.corrupt[core] == 20)
			soak_wrong(SOAK_POISONED, "core %u is used, whose queue is corrupt", core);
	}
}

/* Cores to which the driver gives nothing any more. */
static u32 dead_cores(void)
{
	u32 mask = 0;

	for (u32 core = 0; core < MODEL_CORES; core++) {
		char name[] = "core0/dead";
		u64 dead = 0;

		name[4] += core;
		if (standin_counter(name, &dead) && dead)
			mask |= 1u << core;
	}
	run.dead += __builtin_popcount(mask & ~run.were_dead);
	run.were_dead = mask;
	return mask;
}

static void rebind(const struct phase *p)
{
	const bool beside = run.since;
	u64 *end;

	/* Who used the stock driver has been asked to stop. */
	calm();
	set_beside(false, false);
	rest(300);
	end = history_open(7, run.seen);
	rig_bind(&run.binding, "unbind");
	rig_bind(&run.binding, "bind");
	rig_provide_again(run.rk);
	*end = rig_now();
	run.rebinds++;
	look();
	if (beside)
		set_beside(true, p->hang);
	begin_phase(p);
}

static void administrate(const struct phase *p, bool phase_ends)
{
	u32 out;

	look();
	look_at_queues();
	for (u32 core = 0; core < MODEL_CORES; core++)
		if (run.query.cores_aside & 1u << core &&
		    run.seen - run.out_since[core] > (200 + soak_below(&run.random, 1500)) * MS) {
			write_usable(core);
			look();
		}
	/* Nothing else helps. */
	out = __builtin_popcount(run.query.cores_poisoned | dead_cores());
	if (run.can_rebind && (out > 1 || (out && phase_ends)))
		rebind(p);
}

/* ---- the end ---- */

static void end_processes(void)
{
	u32 left = SOAK_CLIENTS;
	int status;

	soak_put(soak->stop, 1);
	while (left) {
		look();
		for (u32 i = 0; i < SOAK_CLIENTS; i++)
			if (run.clients[i] && waitpid(run.clients[i], &status, WNOHANG) > 0) {
				bury(i, status);
				left--;
			}
		rig_sleep(TICK_MS);
	}
	for (u32 i = 0; i < SOAK_STOCKS; i++)
		if (run.stocks[i] && waitpid(run.stocks[i], &status, 0) > 0 && status)
			soak_wrong(SOAK_CALLS, "a stock client ended with %#x", status);
}

/* Each core has computed something since: nothing is held for what may still run there. */
static void settle(void)
{
	const u64 end = rig_soon();
	struct rkchain_query q;

	look();
	for (u32 core = 0; core < MODEL_CORES; core++)
		if (run.query.cores_aside & 1u << core)
			write_usable(core);
	if (run.can_rebind && (run.query.cores_poisoned | dead_cores()))
		rebind(&phases[0]);
	set_beside(false, false);
	calm();
	for (u32 core = 0; core < MODEL_CORES; core++) {
		const struct rkchain_submit here = { .core_mask = 1u << core };
		struct rkchain_completion done = { .status = -EIO };
		struct rig_job job;

		rig_job_new(&job, run.rk, 1);
		rig_job_fill(&job, core);
		rig_job_register(&job);
		for (u32 i = 0; done.status && i < 3; i++)
			rig_wait(run.rk, rig_submit_all(run.rk, &job.chain, 1, &here), 1, &done);
		if (done.status)
			soak_wrong(SOAK_SETTLED, "core %u does not work: %s", core,
				   strerror(-done.status));
		rig_job_free(&job);
	}
	do {
		rig_sleep(20);
		rig_query(run.rk, &q);
	} while ((q.used_bytes || q.used_chains || q.used_blocks || q.used_jobs ||
		  q.clients != 1) && rig_now() < end);
	if (q.used_bytes || q.used_chains || q.used_blocks || q.used_jobs || q.clients != 1)
		soak_wrong(SOAK_SETTLED,
			   "%llu bytes, %llu chains, %llu blocks, %llu jobs are held, %u clients",
			   q.used_bytes, q.used_chains, q.used_blocks, q.used_jobs, q.clients);
	if (run.can_rebind && q.cores_usable != 7)
		soak_wrong(SOAK_SETTLED, "cores %#x are usable", q.cores_usable);
}

static void judge_driver(void)
{
	u64 now = 0, freed = 0;

	for (u32 i = 0; i < ARRAY_SIZE(disasters); i++) {
		standin_counter(disasters[i], &now);
		if (now != run.before[i])
			soak_wrong(SOAK_DISASTERS, "%s: %llu", disasters[i],
				   (unsigned long long)(now - run.before[i]));
	}
	/* Where there is such a job the driver itself comes across it. */
	standin_counter("freed_dispatch", &freed);
	if (freed && !run.poisoned)
		soak_wrong(SOAK_DISASTERS, "freed_dispatch: %llu", (unsigned long long)freed);
}

static void row(const char *what, u64 value)
{
	tap_note("%-44s %8llu", what, (unsigned long long)value);
}

static void table(u64 took)
{
	static const struct {
		const char *name;
		int status;
	} names[] = {
		{ "  ended with 0", 0 }, { "  ETIMEDOUT", ETIMEDOUT }, { "  EIO", EIO },
		{ "  ECANCELED", ECANCELED }, { "  ETIME before they ran", ETIME },
		{ "  ENODEV", ENODEV },
	};
	u64 resets = 0, missed = 0, freed = 0;

	standin_counter("resets", &resets);
	standin_counter("missed", &missed);
	standin_counter("freed_dispatch", &freed);
	tap_note("seed %u, %llu.%llu s", run.seed, (unsigned long long)(took / S),
		 (unsigned long long)(took % S / (S / 10)));
	row("chains submitted", run.submitted);
	row("blocks in them", soak->blocks);
	for (u32 i = 0; i < ARRAY_SIZE(names); i++)
		row(names[i].name, soak->status[names[i].status]);
	row("  ETIME while they ran", soak->late);
	row("  not collected: their clients went", run.abandoned);
	row("run again after a reset", soak->retried);
	row("failures looked at", soak->failures);
	row("ran ORDERED behind one that was only late", soak->behind_late);
	row("clients", run.incarnations);
	row("  killed", run.killed);
	row("generation", run.generation);
	if (standin_present()) {
		row("resets by the driver", resets - run.resets_before);
		row("  that the module caused", soak_log_own);
		row("  of others", soak_log_others);
		row("  wake-ups lost in them", missed);
		row("submits in others' resets, unknown as yet", soak_log_unlucky);
		row("freed jobs that the driver came across", freed);
	}
	row("cores set aside", run.aside);
	row("  brought back", run.enabled);
	row("cores poisoned", run.poisoned);
	row("cores that the driver let die", run.dead);
	row("rebinds of the driver", run.rebinds);
	if (model_present())
		row("dispatches to the NPU, others' as well", model_sum("commits") - run.commits);
	row("stock submits", soak->stock_good + soak->stock_bad);
	row("  failed", soak->stock_bad);
}

static int verdict(void)
{
	u32 failed = 0, skipped = 0;

	for (u32 i = 0; i < SOAK_ORACLES; i++) {
		const bool skip = OF_STANDIN & 1u << i && !standin_present();

		failed += !skip && soak->wrong[i];
		skipped += skip;
		if (skip)
			printf("ok %u - %s # SKIP needs the stand-in driver\n", i + 1, oracles[i]);
		else if (soak->wrong[i])
			printf("not ok %u - %s: %u times it was not so\n", i + 1, oracles[i],
			       soak->wrong[i]);
		else
			printf("ok %u - %s\n", i + 1, oracles[i]);
	}
	printf("# Totals: pass:%u fail:%u skip:%u\n", SOAK_ORACLES - failed - skipped, failed,
	       skipped);
	return failed ? TAP_FAIL : 0;
}

/* ---- all of it ---- */

/* Nothing has ended for a while though there is work: says how things stand. */
static void stalled(void)
{
	static u64 ended, since;
	u64 now = run.completed;

	for (u32 i = 0; i < SOAK_CLIENTS; i++)
		now += soak_get(soak->slot[i].completed);
	if (now != ended || !since || soak_get(soak->budget) <= 0) {
		ended = now;
		since = rig_now();
	}
	if (rig_now() - since < 2 * S)
		return;
	since = rig_now();
	tap_note("2 s: cores %#x, aside %#x, poisoned %#x, %llu jobs, %llu bytes, %u clients, %lld",
		 run.query.cores_usable, run.query.cores_aside, run.query.cores_poisoned,
		 run.query.used_jobs, run.query.used_bytes, run.query.clients,
		 (long long)soak_get(soak->budget));
}

static void prepare(void)
{
	char value[16];

	soak = mmap(NULL, sizeof(*soak), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(soak != MAP_FAILED);
	soak->hang_ns = HANG_MS * tap_slow() * MS;
	snprintf(value, sizeof(value), "%u", HANG_MS * tap_slow());
	ASSERT(rig_set_parameter("hang_ms", value));
	ASSERT(rig_set_parameter("strikes", "2"));
	run.rk = rig_open();
	run.random = run.seed * 2654435761u | 1;
	run.can_rebind = model_present();
	if (run.can_rebind)
		rig_find_binding(&run.binding);
	for (u32 i = 0; i < ARRAY_SIZE(disasters); i++)
		standin_counter(disasters[i], &run.before[i]);
	standin_counter("resets", &run.resets_before);
	run.commits = model_present() ? model_sum("commits") : 0;
	rig_query(run.rk, &run.query);
	run.seen = rig_now();
	if (run.query.clients != 1 || run.query.cores_usable != 7)
		tap_skip_all("others use the device, or cores are out");
	/* What is in the log is not ours. */
	soak_log_read(0);
	soak_log_own = 0;
	soak_log_others = 0;
}

/* More chains may be submitted, now more of them, now fewer. */
static void grant(u32 chains, u64 start_ns)
{
	const u64 due = (rig_now() - start_ns) * PER_SECOND / S;
	u64 more;

	if (due <= run.granted)
		return;
	more = soak_below(&run.random, 2 * (due - run.granted) + 1);
	if (chains && run.granted + more > chains)
		more = chains - run.granted;
	run.granted += more;
	soak_add(soak->budget, more);
}

static bool over(u32 chains)
{
	return chains ? run.granted >= chains && soak_get(soak->budget) <= 0 :
			rig_now() >= run.end;
}

static void soak_all(u32 chains)
{
	u64 next_look = 0, next_kill = rig_now() + S, shown = rig_now();
	const u64 start_ns = rig_now();

	for (u32 i = 0; i < SOAK_CLIENTS; i++)
		start_client(i);
	for (u32 i = 0; i < SOAK_STOCKS; i++)
		run.stocks[i] = start(stock, i);
	for (u32 number = 0; !over(chains); number++) {
		const struct phase *p = &phases[number % ARRAY_SIZE(phases)];
		const u64 began = rig_now(), chains_before = total();
		const u64 end = began + p->seconds * S;

		begin_phase(p);
		while (!over(chains) && rig_now() < end) {
			grant(chains, start_ns);
			weather(p);
			look_after_processes();
			administrate(p, false);
			stalled();
			if (rig_now() >= next_look) {
				judge_suspects(false);
				next_look = rig_now() + S;
			}
			if (rig_now() >= next_kill) {
				kill_one();
				next_kill = rig_now() + (1 + soak_below(&run.random, 4)) * S;
			}
			rig_sleep(TICK_MS);
		}
		administrate(p, true);
		/* A long run says that it is alive. */
		if (number < 2 * ARRAY_SIZE(phases) || rig_now() - shown > 60 * S) {
			shown = rig_now();
			tap_note("%4llu s: %llu chains, %llu ms of them %s: %llu",
				 (unsigned long long)(shown - start_ns) / S,
				 (unsigned long long)total(),
				 (unsigned long long)(shown - began) / MS, p->name,
				 (unsigned long long)(total() - chains_before));
		}
	}
	calm();
	set_beside(false, false);
	end_processes();
	judge_suspects(true);
	settle();
	judge_suspects(true);
	judge_driver();
	table(rig_now() - start_ns);
}

int main(int argc, char **argv)
{
	u32 chains = 5000, minutes = 0;
	int option;

	run.seed = 1;
	while ((option = getopt(argc, argv, "c:m:s:")) != -1) {
		if (option == 'c')
			chains = strtoul(optarg, NULL, 0);
		else if (option == 'm')
			minutes = strtoul(optarg, NULL, 0);
		else if (option == 's')
			run.seed = strtoul(optarg, NULL, 0);
		if (option == '?' || optind > argc)
			return 2;
	}
	if (minutes)
		chains = 0;
	if (geteuid())
		tap_skip_all("needs root");
	rig_require();
	setvbuf(stdout, NULL, _IOLBF, 0);
	prepare();
	run.end = minutes ? rig_now() + minutes * 60 * S : 0;
	printf("TAP version 13\n1..%u\n", SOAK_ORACLES);
	soak_all(chains);
	rig_restore();
	return verdict();
}

// SPDX-License-Identifier: MIT
/*
 * soak: the weather, that is what is done to the hardware and to the driver, and the
 * administrator, who brings back what was lost by it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "debug.h"
#include "soak.h"

#define MS	1000000ULL
#define HISTORY	256

static struct {
	u64 stuck_until;
	u64 late_until;
	u64 asked;		/* resets, until the stock clients came */
	/* the administrator */
	struct rig_binding binding;
	u64 seen;		/* when */
	u64 out_since[MODEL_CORES];
	u32 corrupt[MODEL_CORES];	/* looks in a row at a queue that is */
	u32 were_dead;
} weather;

/* When cores were out, or the driver away.  @end 0: still. */
static struct {
	u32 mask;
	u64 begin;
	u64 end;
} history[HISTORY];
static u32 history_count;

/* ---- which cores there are ---- */

bool soak_no_core(u32 mask, u64 ns)
{
	u32 out = 0;

	for (u32 i = history_count > HISTORY ? history_count - HISTORY : 0; i < history_count; i++)
		if (history[i % HISTORY].begin <= ns &&
		    (!history[i % HISTORY].end || history[i % HISTORY].end >= ns))
			out |= history[i % HISTORY].mask;
	return !(mask & ~out);
}

static u64 *history_open(u32 mask, u64 begin)
{
	u32 i = history_count++ % HISTORY;

	history[i].mask = mask;
	history[i].begin = begin;
	history[i].end = 0;
	return &history[i].end;
}

void soak_look(void)
{
	const u64 before = weather.seen;
	const u32 usable = soak_run.query.cores_usable;
	const u32 aside = soak_run.query.cores_aside, poisoned = soak_run.query.cores_poisoned;
	u32 lost, back;

	weather.seen = rig_now();
	rig_query(soak_run.rk, &soak_run.query);
	lost = usable & ~soak_run.query.cores_usable;
	back = soak_run.query.cores_usable & ~usable;
	soak_run.aside += __builtin_popcount(soak_run.query.cores_aside & ~aside);
	soak_run.poisoned += __builtin_popcount(soak_run.query.cores_poisoned & ~poisoned);
	for (u32 core = 0; core < MODEL_CORES; core++) {
		if (lost & 1u << core) {
			history_open(1u << core, before);
			weather.out_since[core] = weather.seen;
		}
		for (u32 i = 0; back & 1u << core && i < HISTORY; i++)
			if (history[i].mask == 1u << core && !history[i].end)
				history[i].end = rig_now();
	}
	if (soak_run.query.generation < soak_run.generation)
		soak_wrong(SOAK_CALLS, "the generation went back");
	soak_run.generation = soak_run.query.generation;
}

/* Sleeps, and misses no core that is lost meanwhile. */
static void rest(u32 ms)
{
	const u64 end = rig_now() + ms * MS;

	do {
		soak_look();
		rig_sleep(ms < SOAK_TICK_MS ? ms : SOAK_TICK_MS);
	} while (rig_now() < end);
}

/* ---- the stock clients ---- */

static u64 resets_asked(void)
{
	u64 asked = 0;

	standin_counter("resets_asked", &asked);
	return asked;
}

void soak_set_beside(bool beside, bool hang)
{
	const u64 end = rig_soon();

	soak_put(soak->hang, hang);
	if (beside == !!soak_run.since)
		return;
	soak_log_read(soak_run.since);
	/* While they are there the module resets nothing. */
	if (!beside && resets_asked() != weather.asked)
		soak_wrong(SOAK_WINDOW, "%llu resets were asked for beside others",
			   (unsigned long long)(resets_asked() - weather.asked));
	soak_put(soak->beside, beside);
	if (beside)
		soak_run.since = rig_now();
	while (soak_get(soak->present) != (beside ? SOAK_STOCKS : 0) && rig_now() < end)
		rest(5);
	if (soak_get(soak->present) != (beside ? SOAK_STOCKS : 0))
		soak_wrong(SOAK_CALLS, "the stock clients do not %s", beside ? "come" : "go");
	if (beside) {
		/* One that was under way. */
		rest(300);
		weather.asked = resets_asked();
	} else {
		soak_log_read(soak_run.since);
		soak_run.since = 0;
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

void soak_calm(void)
{
	model_calm();
	weather.stuck_until = 0;
	weather.late_until = 0;
}

void soak_begin_phase(const struct soak_phase *p)
{
	soak_calm();
	/* A core that is lost beside others is lost for longer: first all come back. */
	if (p->beside)
		rest(300);
	soak_set_beside(p->beside, p->hang);
	rig_set_parameter("chain_mode", p->mode);
	driver_set("miss_wakeup", p->miss_wakeup);
	driver_set("wake_queued", p->wake_queued);
	weather_set("drop_every", 100);
}

void soak_weather(const struct soak_phase *p)
{
	u32 *r = &soak_run.random;
	const u64 now = rig_now();

	if (weather.stuck_until && now >= weather.stuck_until) {
		weather_set("stuck_core", 0);
		weather.stuck_until = 0;
	} else if (!weather.stuck_until && soak_chance(r, p->stuck)) {
		weather_set("stuck_core", 1 + soak_below(r, 7));
		weather.stuck_until = now + (50 + soak_below(r, 500)) * MS;
	}
	if (weather.late_until && now >= weather.late_until) {
		weather_set("late_irq_us", 0);
		weather.late_until = 0;
	} else if (!weather.late_until && soak_chance(r, p->late)) {
		/* Now and then later than that a chain is taken for hung. */
		weather_set("late_irq_us",
			    1000 * (1 + soak_below(r, soak_chance(r, 20) ? 2 * SOAK_HANG_MS :
									   SOAK_HANG_MS / 3)));
		weather.late_until = now + (50 + soak_below(r, 200)) * MS;
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
		soak_run.enabled++;
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
		if (!tombstones || soak_run.query.cores_poisoned & 1u << core)
			weather.corrupt[core] = 0;
		else if (++weather.corrupt[core] == 20)
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
	soak_run.dead += __builtin_popcount(mask & ~weather.were_dead);
	weather.were_dead = mask;
	return mask;
}

static void rebind(const struct soak_phase *p)
{
	const bool beside = soak_run.since;
	u64 *end;

	/* Who used the stock driver has been asked to stop. */
	soak_calm();
	soak_set_beside(false, false);
	rest(300);
	end = history_open(7, weather.seen);
	rig_bind(&weather.binding, "unbind");
	rig_bind(&weather.binding, "bind");
	rig_provide_again(soak_run.rk);
	*end = rig_now();
	soak_run.rebinds++;
	soak_look();
	if (beside)
		soak_set_beside(true, p->hang);
	soak_begin_phase(p);
}

void soak_administrate(const struct soak_phase *p, bool phase_ends)
{
	u32 out;

	soak_look();
	look_at_queues();
	for (u32 core = 0; core < MODEL_CORES; core++)
		if (soak_run.query.cores_aside & 1u << core &&
		    weather.seen - weather.out_since[core] >
			    (200 + soak_below(&soak_run.random, 1500)) * MS) {
			write_usable(core);
			soak_look();
		}
	/* Nothing else helps. */
	out = __builtin_popcount(soak_run.query.cores_poisoned | dead_cores());
	if (soak_run.can_rebind && (out > 1 || (out && phase_ends)))
		rebind(p);
}

void soak_clear_up(const struct soak_phase *p)
{
	soak_look();
	for (u32 core = 0; core < MODEL_CORES; core++)
		if (soak_run.query.cores_aside & 1u << core)
			write_usable(core);
	if (soak_run.can_rebind && (soak_run.query.cores_poisoned | dead_cores()))
		rebind(p);
	soak_set_beside(false, false);
	soak_calm();
}

void soak_weather_prepare(void)
{
	soak_run.can_rebind = model_present();
	if (soak_run.can_rebind)
		rig_find_binding(&weather.binding);
	rig_query(soak_run.rk, &soak_run.query);
	weather.seen = rig_now();
}

// SPDX-License-Identifier: MIT
/*
 * soak: what the log of the stand-in for the stock driver says.  Without it every
 * reset is taken to have happened.
 */
#include <stdio.h>
#include <string.h>

#include "debug.h"
#include "soak.h"

#define MS	1000000ULL
#define KEPT	1024
#define LOG	"/sys/kernel/debug/rknpu_standin/log"
/* Of the module's submits; stock clients here give up sooner. */
#define TIMEOUT_NS	6000000000ULL
/* From a submit's return to its being known. */
#define NOTICE_NS	(15 * MS)

static struct {
	u64 begin;
	u64 end;	/* 0: not yet */
} resets[KEPT];
static u32 reset_count;

u64 soak_log_unlucky, soak_log_own, soak_log_others;

/* Where the log stands. */
static struct {
	u64 next;
	u64 dispatched[MODEL_CORES];
	u64 timed_out;		/* a submit, which resets the NPU next */
	bool by_us;		/* it was the module's */
	bool own;		/* the reset that is under way */
	u64 noticed;		/* when the module could know of it */
} at;

static void begin_reset(u64 ns, u64 since)
{
	/* Nobody but the module asks for one by ACTION. */
	at.own = !since || ns < since ||
		 (at.timed_out && ns - at.timed_out < 100 * MS ? at.by_us : true);
	at.timed_out = 0;
	at.noticed = 0;
	resets[reset_count % KEPT].begin = ns;
	resets[reset_count++ % KEPT].end = 0;
	if (at.own)
		soak_log_own++;
	else
		soak_log_others++;
}

/* A submit during a reset. */
static void in_window(u64 ns, u32 core, u64 since)
{
	const bool beside = since && ns >= since;

	if (beside && !core)
		return;	/* it may be a stock client's */
	if (at.own)
		soak_wrong(SOAK_WINDOW, "a submit to core %u in a reset of our own", core);
	else if (at.noticed && ns - at.noticed > NOTICE_NS)
		soak_wrong(SOAK_WINDOW, "a submit to core %u, %llu us after a known reset",
			   core, (unsigned long long)(ns - at.noticed) / 1000);
	else
		soak_log_unlucky++;
}

static void see(u64 ns, const char *event, u32 core, long long value, u64 since)
{
	if (!strcmp(event, "dispatch")) {
		at.dispatched[core] = ns;
	} else if (!strcmp(event, "submit")) {
		if (value)
			in_window(ns, core, since);
	} else if (!strcmp(event, "give_up")) {
		if (value == -110) {
			at.timed_out = ns;
			at.by_us = core || ns - at.dispatched[core] >= TIMEOUT_NS;
		} else if (core && !at.noticed) {
			at.noticed = ns;
		}
	} else if (!strcmp(event, "reset")) {
		begin_reset(ns, since);
	} else if (!strcmp(event, "reset_end") && reset_count) {
		resets[(reset_count - 1) % KEPT].end = ns;
	}
}

void soak_log_read(u64 since)
{
	unsigned long long number, ns;
	char line[128], event[16];
	FILE *file;

	if (!standin_present())
		return;
	file = fopen(LOG, "re");
	if (!file)
		FAIL("no " LOG);
	while (fgets(line, sizeof(line), file)) {
		long long value = 0;
		u32 core = 0;
		int at_value;

		if (sscanf(line, "%llu %llu %15s %n", &number, &ns, event, &at_value) != 3 ||
		    number < at.next)
			continue;
		if (number != at.next)
			tap_note("%llu lines of the driver's log were missed", number - at.next);
		at.next = number + 1;
		if (sscanf(line + at_value, "core %u %*s %lld", &core, &value) != 2)
			core = 0;
		see(ns, event, core < MODEL_CORES ? core : 0, value, since);
	}
	fclose(file);
}

bool soak_log_reset(u64 begin, u64 end)
{
	if (!standin_present())
		return true;
	for (u32 i = reset_count > KEPT ? reset_count - KEPT : 0; i < reset_count; i++)
		if (resets[i % KEPT].begin <= end &&
		    (!resets[i % KEPT].end || resets[i % KEPT].end >= begin))
			return true;
	return false;
}

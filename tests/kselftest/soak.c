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
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS		1000000ULL
#define S		1000000000ULL
#define PER_SECOND	90	/* chains, so that 5000 of them see all there is */

struct soak *soak;
struct soak_run soak_run;

static const struct soak_phase phases[] = {
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
	u64 end;		/* of a run by minutes */
	u64 granted;		/* chains, so far */
	pid_t clients[SOAK_CLIENTS];
	pid_t stocks[SOAK_STOCKS];
} run;

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
	close(soak_run.rk);
	body(a);
	fflush(stdout);
	_exit(0);
}

static void client(u32 slot)
{
	soak_client(slot, soak_run.seed + 1000 * soak_run.incarnations + slot);
}

static void stock(u32 number)
{
	soak_stock(soak_run.seed + 77 * number + 5);
}

static void start_client(u32 slot)
{
	memset(&soak->slot[slot], 0, sizeof(soak->slot[slot]));
	soak_run.incarnations++;
	run.clients[slot] = start(client, slot);
}

/* A client is dead; it may have had work under way. */
static void bury(u32 slot, int status)
{
	const struct soak_slot *s = &soak->slot[slot];

	run.clients[slot] = 0;
	soak_run.submitted += s->submitted;
	soak_run.completed += s->completed;
	soak_run.abandoned += s->abandoned;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		soak_run.abandoned += s->submitted - s->completed - s->abandoned;
	else if (status)
		soak_wrong(SOAK_CALLS, "a client ended with %#x", status);
	else if (s->submitted != s->completed + s->abandoned)
		soak_wrong(SOAK_ONCE, "of %llu chains %llu ended", (unsigned long long)s->submitted,
			   (unsigned long long)s->completed);
}

static u64 total(void)
{
	u64 sum = soak_run.submitted;

	for (u32 i = 0; i < SOAK_CLIENTS; i++)
		sum += soak_get(soak->slot[i].submitted);
	return sum;
}

static void kill_one(void)
{
	const u32 slot = soak_below(&soak_run.random, SOAK_CLIENTS);
	int status;

	kill(run.clients[slot], SIGKILL);
	waitpid(run.clients[slot], &status, 0);
	soak_run.killed++;
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

static void end_processes(void)
{
	u32 left = SOAK_CLIENTS;
	int status;

	soak_put(soak->stop, 1);
	while (left) {
		soak_look();
		for (u32 i = 0; i < SOAK_CLIENTS; i++)
			if (run.clients[i] && waitpid(run.clients[i], &status, WNOHANG) > 0) {
				bury(i, status);
				left--;
			}
		rig_sleep(SOAK_TICK_MS);
	}
	for (u32 i = 0; i < SOAK_STOCKS; i++)
		if (run.stocks[i] && waitpid(run.stocks[i], &status, 0) > 0 && status)
			soak_wrong(SOAK_CALLS, "a stock client ended with %#x", status);
}

/* ---- all of it ---- */

/* Nothing has ended for a while though there is work: says how things stand. */
static void stalled(void)
{
	const struct rkchain_query *q = &soak_run.query;
	static u64 ended, since;
	u64 now = soak_run.completed;

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
		 q->cores_usable, q->cores_aside, q->cores_poisoned, q->used_jobs, q->used_bytes,
		 q->clients, (long long)soak_get(soak->budget));
}

static void prepare(void)
{
	char value[16];

	soak = mmap(NULL, sizeof(*soak), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(soak != MAP_FAILED);
	soak->hang_ns = SOAK_HANG_MS * tap_slow() * MS;
	snprintf(value, sizeof(value), "%u", SOAK_HANG_MS * tap_slow());
	ASSERT(rig_set_parameter("hang_ms", value));
	ASSERT(rig_set_parameter("strikes", "2"));
	soak_run.rk = rig_open();
	soak_run.random = soak_run.seed * 2654435761u | 1;
	soak_verdicts_prepare();
	soak_weather_prepare();
	if (soak_run.query.clients != 1 || soak_run.query.cores_usable != 7)
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
	more = soak_below(&soak_run.random, 2 * (due - run.granted) + 1);
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
		const struct soak_phase *p = &phases[number % ARRAY_SIZE(phases)];
		const u64 began = rig_now(), chains_before = total();
		const u64 end = began + p->seconds * S;

		soak_begin_phase(p);
		while (!over(chains) && rig_now() < end) {
			grant(chains, start_ns);
			soak_weather(p);
			look_after_processes();
			soak_administrate(p, false);
			stalled();
			if (rig_now() >= next_look) {
				soak_judge_suspects(false);
				next_look = rig_now() + S;
			}
			if (rig_now() >= next_kill) {
				kill_one();
				next_kill = rig_now() + (1 + soak_below(&soak_run.random, 4)) * S;
			}
			rig_sleep(SOAK_TICK_MS);
		}
		soak_administrate(p, true);
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
	soak_calm();
	soak_set_beside(false, false);
	end_processes();
	soak_judge_suspects(true);
	soak_settle(&phases[0]);
	soak_judge_suspects(true);
	soak_judge_driver();
	soak_table(rig_now() - start_ns);
}

int main(int argc, char **argv)
{
	u32 chains = 5000, minutes = 0;
	int option;

	soak_run.seed = 1;
	while ((option = getopt(argc, argv, "c:m:s:")) != -1) {
		if (option == 'c')
			chains = strtoul(optarg, NULL, 0);
		else if (option == 'm')
			minutes = strtoul(optarg, NULL, 0);
		else if (option == 's')
			soak_run.seed = strtoul(optarg, NULL, 0);
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
	return soak_verdict();
}

// SPDX-License-Identifier: MIT
/*
 * soak: what must hold, and what happened.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "debug.h"
#include "soak.h"

#define MS	1000000ULL
#define S	1000000000ULL

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

static struct {
	u64 disasters[ARRAY_SIZE(disasters)];
	u64 resets;
	u64 commits;
} before;

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

void soak_verdicts_prepare(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(disasters); i++)
		standin_counter(disasters[i], &before.disasters[i]);
	standin_counter("resets", &before.resets);
	before.commits = model_present() ? model_sum("commits") : 0;
}

/* ---- suspects ---- */

void soak_judge_suspects(bool all)
{
	const u64 until = rig_now();

	/* What is known now reaches to a moment ago. */
	soak_log_read(soak_run.since);
	for (u32 i = 0; i < SOAK_SUSPECTS; i++) {
		struct soak_suspect *s = &soak->suspects[i];

		if (!soak_get(s->ready) || (!all && s->done_ns + 200 * MS > until))
			continue;
		if (s->status == -EIO && !soak_log_reset(s->started_ns, s->done_ns))
			soak_wrong(SOAK_EIO, "chain %llu: EIO without a reset, %llu us",
				   (unsigned long long)s->sequence,
				   (unsigned long long)(s->done_ns - s->started_ns) / 1000);
		if (s->status == -ENODEV && !soak_no_core(s->mask, s->done_ns))
			soak_wrong(SOAK_ENODEV, "chain %llu: ENODEV, but one of %#x was there",
				   (unsigned long long)s->sequence, s->mask);
		soak_put(s->ready, 0);
	}
}

/* ---- the end ---- */

void soak_settle(const struct soak_phase *p)
{
	const u64 end = rig_soon();
	struct rkchain_query q;

	soak_clear_up(p);
	for (u32 core = 0; core < MODEL_CORES; core++) {
		const struct rkchain_submit here = { .core_mask = 1u << core };
		struct rkchain_completion done = { .status = -EIO };
		struct rig_job job;

		rig_job_new(&job, soak_run.rk, 1);
		rig_job_fill(&job, core);
		rig_job_register(&job);
		for (u32 i = 0; done.status && i < 3; i++)
			rig_wait(soak_run.rk, rig_submit_all(soak_run.rk, &job.chain, 1, &here), 1,
				 &done);
		if (done.status)
			soak_wrong(SOAK_SETTLED, "core %u does not work: %s", core,
				   strerror(-done.status));
		rig_job_free(&job);
	}
	do {
		rig_sleep(20);
		rig_query(soak_run.rk, &q);
	} while ((q.used_bytes || q.used_chains || q.used_blocks || q.used_jobs ||
		  q.clients != 1) && rig_now() < end);
	if (q.used_bytes || q.used_chains || q.used_blocks || q.used_jobs || q.clients != 1)
		soak_wrong(SOAK_SETTLED,
			   "%llu bytes, %llu chains, %llu blocks, %llu jobs are held, %u clients",
			   q.used_bytes, q.used_chains, q.used_blocks, q.used_jobs, q.clients);
	if (soak_run.can_rebind && q.cores_usable != 7)
		soak_wrong(SOAK_SETTLED, "cores %#x are usable", q.cores_usable);
}

void soak_judge_driver(void)
{
	u64 now = 0, freed = 0;

	for (u32 i = 0; i < ARRAY_SIZE(disasters); i++) {
		standin_counter(disasters[i], &now);
		if (now != before.disasters[i])
			soak_wrong(SOAK_DISASTERS, "%s: %llu", disasters[i],
				   (unsigned long long)(now - before.disasters[i]));
	}
	/* Where there is such a job the driver itself comes across it. */
	standin_counter("freed_dispatch", &freed);
	if (freed && !soak_run.poisoned)
		soak_wrong(SOAK_DISASTERS, "freed_dispatch: %llu", (unsigned long long)freed);
}

static void row(const char *what, u64 value)
{
	tap_note("%-44s %8llu", what, (unsigned long long)value);
}

void soak_table(u64 took)
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
	tap_note("seed %u, %llu.%llu s", soak_run.seed, (unsigned long long)(took / S),
		 (unsigned long long)(took % S / (S / 10)));
	row("chains submitted", soak_run.submitted);
	row("blocks in them", soak->blocks);
	for (u32 i = 0; i < ARRAY_SIZE(names); i++)
		row(names[i].name, soak->status[names[i].status]);
	row("  ETIME while they ran", soak->late);
	row("  not collected: their clients went", soak_run.abandoned);
	row("run again after a reset", soak->retried);
	row("failures looked at", soak->failures);
	row("ran ORDERED behind one that was only late", soak->behind_late);
	row("clients", soak_run.incarnations);
	row("  killed", soak_run.killed);
	row("generation", soak_run.generation);
	if (standin_present()) {
		row("resets by the driver", resets - before.resets);
		row("  that the module caused", soak_log_own);
		row("  of others", soak_log_others);
		row("  wake-ups lost in them", missed);
		row("submits in others' resets, unknown as yet", soak_log_unlucky);
		row("freed jobs that the driver came across", freed);
	}
	row("cores set aside", soak_run.aside);
	row("  brought back", soak_run.enabled);
	row("cores poisoned", soak_run.poisoned);
	row("cores that the driver let die", soak_run.dead);
	row("rebinds of the driver", soak_run.rebinds);
	if (model_present())
		row("dispatches to the NPU, others' as well",
		    model_sum("commits") - before.commits);
	row("stock submits", soak->stock_good + soak->stock_bad);
	row("  failed", soak->stock_bad);
}

int soak_verdict(void)
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

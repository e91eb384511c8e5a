/* SPDX-License-Identifier: MIT */
/*
 * What a guest has and a board has not: the hardware model's knobs, counters and
 * access log, and the stand-in driver's counters, in debugfs.
 */
#ifndef DEBUG_H
#define DEBUG_H

#include "types.h"

#define MODEL_CORES	3

/* Is the hardware model there?  Tests that need it skip otherwise. */
bool model_present(void);
void model_need(void);

/*
 * Sets a knob: latency_us, block_us, late_irq_us, early, nowait, needs41, late, rawlate,
 * bad_core, drop_every, stuck_core, wrong_status, stray.
 */
void model_set(const char *knob, u64 value);

/* All knobs back to 0; nothing when the model is not there. */
void model_calm(void);

/* A counter of a core, or the sum over all cores. */
u64 model_counter(unsigned int core, const char *name);
u64 model_sum(const char *name);

/**
 * struct model_access - an entry of the access log
 * @core: which
 * @number: counts up from 0, per core
 * @kind: "fetch", "feature", "weight" or "output"
 * @iova: first byte
 * @len: bytes
 */
struct model_access {
	unsigned int core;
	u64 number;
	char kind[16];
	u64 iova;
	u64 len;
};

/**
 * model_log() - look at the accesses that are new
 * @next: MODEL_CORES numbers to begin with; updated
 * @see: called for each
 * @data: passed on
 *
 * Return: how many accesses the log had forgotten already.
 */
u64 model_log(u64 *next, void (*see)(const struct model_access *access, void *data), void *data);

/* Is the stand-in driver there?  Tests that need it skip otherwise. */
bool standin_present(void);
void standin_need(void);

/* Sets a knob of the stand-in driver. */
void standin_set(const char *knob, u64 value);

/* All knobs of it as they are at first; nothing when it is not there. */
void standin_calm(void);

/* A counter of the stand-in driver; false when there is none of that name. */
bool standin_counter(const char *name, u64 *value);

/* Fails the test when that counter is not @want; nothing when there is none. */
void standin_expect(const char *name, u64 want);

#endif /* DEBUG_H */

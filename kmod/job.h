/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Jobs, as queue.c makes and ends them, sched.c runs them and watch.c looks after
 * them.  All of it under rkchain.lock, but for what starts and stops.
 */
#ifndef RKCHAIN_JOB_H
#define RKCHAIN_JOB_H

#include "internal.h"

enum job_state {
	JOB_QUEUED,
	JOB_RUNNING,
	JOB_ENDED,
};

/* Chains of one ORDERED submit. */
struct batch {
	u32 jobs;		/* that refer to it */
	int core;		/* where the first one went, -1 = nowhere yet */
	bool running;
	bool failed;
	u64 next;		/* sequence number of the one whose turn it is */
};

/**
 * struct job - one chain of one SUBMIT; also its completion slot
 * @queue: in client.queue while it waits
 * @live: in client.live until it has ended
 * @readable: in client.readable while read() has something to fetch
 * @client: counted
 * @chain: counted, until it has ended
 * @batch: of an ORDERED submit
 * @state: where it is
 * @late_due: the deadline has passed while it ran, and nobody has been told
 * @end_due: it has ended, and nobody has been told
 * @late: the deadline has passed while it ran
 * @mask: cores that it may go to
 * @flags: RKCHAIN_SUBMIT_*
 * @priority: RKCHAIN_PRIORITY_*
 * @deadline: ns, 0 for none
 * @after: with RKCHAIN_SUBMIT_AFTER, the sequence number to wait for
 * @record: what is told
 */
struct job {
	struct list_head queue;
	struct list_head live;
	struct list_head readable;
	struct client *client;
	struct chain *chain;
	struct batch *batch;
	enum job_state state;
	bool late_due;
	bool end_due;
	bool late;
	u32 mask;
	u32 flags;
	s32 priority;
	u64 deadline;
	u64 after;
	struct rkchain_completion record;
};

static inline u64 job_seq(const struct job *job)
{
	return job->record.sequence;
}

/* queue.c */
void job_unqueue(struct job *job);
void job_tell(struct job *job);
void job_conclude(struct job *job, int status);
void job_end(struct job *job, int status);
void job_cancel_followers(struct client *client, u64 failed);

/* sched.c */
void sched_dispatch(void);
void sched_open_gate(void);
int sched_run_thread(struct task_struct **thread, int (*function)(void *), void *data,
		     const char *name);

/* watch.c */
void watch_kick(void);
int watch_init(void);
void watch_exit(void);

#endif /* RKCHAIN_JOB_H */

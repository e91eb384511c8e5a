/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The reset window: when nothing may be dispatched.
 *
 * The stock driver resets the whole NPU, all cores of all clients, when a blocking
 * submit has waited for its time-out; one submit waits up to three times.  The
 * kernel's timers are late by up to an eighth of a long time.  A submit
 * to an idle core that meets such a reset fails, and on cores 1 and 2 it stays on
 * the driver's list after it has been freed.  So nothing is dispatched that could
 * still be running when the oldest submit reaches a multiple of the time-out, nor
 * until a reset that came then must be over.
 */
#ifndef RKC_WINDOW_H
#define RKC_WINDOW_H

#include "types.h"

RKC_BEGIN_DECLS

/* The time-out that every submit gets. */
#define RKC_STOCK_TIMEOUT_MS	6000
#define RKC_STOCK_TIMEOUT_NS	6000000000ULL
/* That a submit may wait for its turn. */
#define RKC_STOCK_ROUNDS	3
/* Timers round up to this part of what they were set to. */
#define RKC_TIMER_LATE		8
/* A reset takes 100 ms and more. */
#define RKC_RESET_NS		300000000ULL
/* Estimates are not promises: this much on top of the longest. */
#define RKC_WINDOW_SLACK_NS	50000000ULL
/* While a hung submit does not return, the reset is asked for again this often. */
#define RKC_RESET_AGAIN_NS	160000000ULL
/* While one is not alone, it is looked again this often. */
#define RKC_ALONE_AGAIN_NS	100000000ULL

/**
 * rkc_window_opens() - may a chain be dispatched now?
 * @oldest: when the oldest submit that has not returned began, ns
 * @now: ns of the same clock, not before @oldest
 * @estimate: longest estimate of all chains that run and of the one to dispatch, ns
 *
 * Return: 0 when it may, else when to ask again.
 */
u64 rkc_window_opens(u64 oldest, u64 now, u64 estimate);

RKC_END_DECLS

#endif /* RKC_WINDOW_H */

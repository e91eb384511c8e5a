// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "window.h"

u64 rkc_window_opens(u64 oldest, u64 now, u64 estimate)
{
	const u64 age = now - oldest;
	const u64 margin = estimate + RKC_WINDOW_SLACK_NS;
	u64 due = 0;	/* the time-out that is near */
	u64 over;	/* and when its reset must be */

	/*
	 * The driver gives up after three; whoever waits longer has missed a
	 * wake-up and resets once more, so every multiple counts.
	 */
	do {
		due += RKC_STOCK_TIMEOUT_NS;
		over = due + due / RKC_TIMER_LATE + RKC_RESET_NS;
	} while (over <= age);
	return age + margin >= due ? oldest + over : 0;
}

// SPDX-License-Identifier: MIT
/*
 * Not a test but what tests of loading, unloading and suspending need: keeps the
 * cores busy.
 *
 *	busy COUNT	queues COUNT chains (at most 1024), says "queued", waits for
 *			all of them and says how many were good
 */
#include <stdio.h>
#include <stdlib.h>

#include "rig.h"

#define CHAINS	12	/* that go round: a chain is on one core at a time */
#define MOST	1024

int main(int argc, char **argv)
{
	const unsigned int count = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	static struct rkchain_completion done[MOST];
	struct rig_job jobs[CHAINS];
	unsigned int good = 0;
	int rk;

	if (!count || count > MOST) {
		fprintf(stderr, "usage: busy COUNT (1 to %d)\n", MOST);
		return 2;
	}
	rig_require();
	rk = rig_open();
	for (unsigned int i = 0; i < CHAINS; i++) {
		rig_job_new(&jobs[i], rk, 4);
		rig_job_fill(&jobs[i], i);
		rig_job_register(&jobs[i]);
	}
	for (unsigned int i = 0; i < count; i++)
		rig_submit(rk, jobs[i % CHAINS].chain, 1, 0, 0);
	printf("queued\n");
	fflush(stdout);
	rig_wait(rk, 1, count, done);
	for (unsigned int i = 0; i < count; i++)
		good += !done[i].status;
	for (unsigned int i = 0; i < CHAINS && i < count; i++)
		rig_job_check(&jobs[i]);
	printf("%u good\n", good);
	return good == count ? 0 : 1;
}

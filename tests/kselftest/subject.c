// SPDX-License-Identifier: MIT
#include "subject.h"

#include <errno.h>
#include <string.h>

void expect(int ret, const struct rkchain_report *report, int error, u32 reason)
{
	if (ret == error && report->reason == reason)
		return;
	FAIL("%s, %u (%s), block %u, word %u, value %#llx, limit %#llx; not %s, %u (%s)",
	     ret ? strerror(-ret) : "success", report->reason, rkc_reason_name(report->reason),
	     report->block, report->word, report->value, report->limit, strerror(-error), reason,
	     rkc_reason_name(reason));
}

void put_block(struct subject *s, u32 i, const struct rkc_matmul *d)
{
	u64 *words = s->words + i * STRIDE;

	/* A word of zeros is a word that does nothing. */
	memset(words, 0, STRIDE * sizeof(*words));
	rkc_generate(d, words);
}

void reset(struct subject *s)
{
	rig_job_request(&s->job, &s->create);
	s->create.programs = (uintptr_t)s->words;
	s->create.size = sizeof(s->words);
	s->create.stride = STRIDE;
	s->create.body = BODY;
	for (u32 i = 0; i < BLOCKS; i++)
		put_block(s, i, &s->job.blocks[i]);
}

void begin(struct subject *s)
{
	s->rk = rig_open();
	rig_job_shape(&s->job, s->rk, 4, 64, 96, BLOCKS);
	reset(s);
}

void accepted(struct subject *s)
{
	int ret = rig_try_create(s->rk, &s->create);

	if (ret)
		FAIL("a good program: %s, %s, block %u, word %u", strerror(-ret),
		     rkc_reason_name(s->create.report.reason), s->create.report.block,
		     s->create.report.word);
	ASSERT_EQ(rig_try_destroy_chain(s->rk, s->create.id), 0);
}

void refused(struct subject *s, int error, u32 reason, u32 block, u32 word)
{
	const struct rkchain_report *report = &s->create.report;

	expect(rig_try_create(s->rk, &s->create), report, error, reason);
	if (block != ANY)
		ASSERT_EQ(report->block, block);
	if (word != ANY)
		ASSERT_EQ(report->word, word);
}

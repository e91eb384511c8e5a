// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replay rules: what a submit that came back means for its chain and for its core.
 */
#include "cores.h"
#include "kunit_suites.h"

static void table(struct kunit *test)
{
	static const struct {
		const char *what;
		struct rkc_return back;
		struct rkc_verdict verdict;
	} rows[] = {
		{ "well", { 0, MS, false, true, true, 0, 1 }, { RKC_FATE_DONE } },
		{ "well in spite of a reset", { 0, MS, true, true, true, 0, 1 },
		  { RKC_FATE_DONE } },
		{ "our reset was meant for it", { -RKC_EINVAL, HANG_NS, true, true, true, 0, 1 },
		  { RKC_FATE_HUNG, true } },
		{ "the driver's time-out",
		  { -RKC_ETIMEDOUT, RKC_STOCK_TIMEOUT_NS, false, true, true, 0, 2 },
		  { RKC_FATE_HUNG, true } },
		{ "somebody else's", { -RKC_ETIMEDOUT, RKC_STOCK_TIMEOUT_NS - 1, false, true, true,
				       0, 2 }, { RKC_FATE_AGAIN } },
		{ "hit", { -RKC_EINVAL, MS, false, true, true, 0, 0 }, { RKC_FATE_AGAIN } },
		{ "hit again", { -RKC_EINVAL, MS, false, true, true, 1, 0 }, { RKC_FATE_HIT } },
		{ "not replayable", { -RKC_EINVAL, MS, false, true, false, 0, 0 },
		  { RKC_FATE_HIT } },
		{ "not committed on core 0", { -RKC_EINVAL, MS, false, false, true, 0, 0 },
		  { RKC_FATE_AGAIN } },
		{ "not committed on core 1", { -RKC_EINVAL, MS, false, false, true, 0, 1 },
		  { RKC_FATE_AGAIN, false, true } },
		{ "not committed and hung", { -RKC_EINVAL, HANG_NS, true, false, true, 0, 2 },
		  { RKC_FATE_HUNG, true, true } },
		{ "into no queue", { -5, MS, false, false, true, 0, 2 }, { RKC_FATE_AGAIN } },
		{ "gone", { -RKC_ENODEV, MS, false, false, true, 0, 2 }, { RKC_FATE_GONE } },
	};
	struct rkc_verdict verdict;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		verdict = rkc_judge(&rows[i].back);
		KUNIT_EXPECT_EQ_MSG(test, (int)verdict.fate, (int)rows[i].verdict.fate, "%s",
				    rows[i].what);
		KUNIT_EXPECT_EQ_MSG(test, verdict.strike, rows[i].verdict.strike, "%s",
				    rows[i].what);
		KUNIT_EXPECT_EQ_MSG(test, verdict.poisoned, rows[i].verdict.poisoned, "%s",
				    rows[i].what);
	}
}

/* A run on core @id that ended like this: has the core been lost? */
static bool run(struct rkc_cores *c, u32 id, struct rkc_run_end end)
{
	return rkc_cores_take(c, 1U << id, 0) == (int)id && rkc_cores_finish(c, id, &end, 3);
}

static const struct rkc_run_end hung = { { RKC_FATE_HUNG, true, false }, true, false };
static const struct rkc_run_end done = { { RKC_FATE_DONE, false, false }, false, false };
static const struct rkc_run_end hit = { { RKC_FATE_HIT, false, false }, true, false };
static const struct rkc_run_end trial = { { RKC_FATE_HUNG, true, false }, true, true };
static const struct rkc_run_end lost = { { RKC_FATE_HUNG, true, true }, true, false };

static void strikes_in_a_row(struct kunit *test)
{
	struct rkc_cores c = { 0 };

	rkc_cores_init(&c, 0);
	KUNIT_EXPECT_FALSE(test, run(&c, 1, hung));
	KUNIT_EXPECT_FALSE(test, run(&c, 1, hung));
	KUNIT_EXPECT_FALSE(test, run(&c, 1, done));
	KUNIT_EXPECT_FALSE(test, run(&c, 1, hung));
	KUNIT_EXPECT_FALSE(test, run(&c, 1, hit));
	KUNIT_EXPECT_FALSE(test, run(&c, 1, trial));
	KUNIT_EXPECT_FALSE(test, run(&c, 1, hung));
	KUNIT_EXPECT_TRUE(test, run(&c, 1, hung));
	KUNIT_EXPECT_EQ(test, c.aside, 2);
	KUNIT_EXPECT_EQ(test, c.rotor.usable, 5);
	KUNIT_EXPECT_TRUE(test, rkc_cores_enable(&c, 1));
	KUNIT_EXPECT_EQ(test, c.core[1].strikes, 0);
}

static void poisoned_for_good(struct kunit *test)
{
	struct rkc_cores c = { 0 };

	rkc_cores_init(&c, 0);
	run(&c, 2, hung);
	run(&c, 2, hung);
	KUNIT_EXPECT_TRUE(test, run(&c, 2, lost));
	KUNIT_EXPECT_EQ(test, c.poisoned, 4);
	KUNIT_EXPECT_EQ(test, c.aside, 0);
	KUNIT_EXPECT_FALSE(test, rkc_cores_enable(&c, 2));
	rkc_cores_set_aside(&c, 4);
	KUNIT_EXPECT_EQ(test, c.aside, 0);
	rkc_cores_init(&c, c.poisoned);
	KUNIT_EXPECT_EQ(test, c.rotor.usable, 3);
	rkc_cores_init(&c, 0);
	KUNIT_EXPECT_EQ(test, c.rotor.usable, 7);
}

/* The same error, of the one that hung and of one that was in the way. */
static void who_is_to_blame(struct kunit *test)
{
	struct rkc_return back = { .error = -RKC_EINVAL, .committed = true, .replayable = true };
	struct rkc_cores c = { 0 };
	u32 reset;

	rkc_cores_init(&c, 0);
	rkc_cores_take(&c, 1, 0);
	rkc_cores_submit(&c, 0, START);
	rkc_cores_watch(&c, START + HANG_NS, HANG_NS, true, &reset);
	KUNIT_EXPECT_EQ(test, (int)rkc_cores_back(&c, 0, START + HANG_NS + MS, &back).fate,
			(int)RKC_FATE_HUNG);
	KUNIT_EXPECT_TRUE(test, back.hung);
	KUNIT_EXPECT_EQ(test, back.age_ns, HANG_NS + MS);
	KUNIT_EXPECT_EQ(test, c.generation, 1);
	rkc_cores_submit(&c, 0, START + 2 * HANG_NS);
	KUNIT_EXPECT_EQ(test, (int)rkc_cores_back(&c, 0, START + 2 * HANG_NS + MS, &back).fate,
			(int)RKC_FATE_AGAIN);
	KUNIT_EXPECT_FALSE(test, back.hung);
	KUNIT_EXPECT_EQ(test, c.generation, 2);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(table),
	KUNIT_CASE(strikes_in_a_row),
	KUNIT_CASE(poisoned_for_good),
	KUNIT_CASE(who_is_to_blame),
	{}
};

struct kunit_suite replay_suite = {
	.name = "rkchain-replay",
	.test_cases = cases,
};

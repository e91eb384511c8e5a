// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rotation: which core takes what, and which client comes first.
 */
#include "cores.h"
#include "kunit_suites.h"
#include "share.h"

static void takes_turns(struct kunit *test)
{
	const struct rkc_run_end done = { 0 };
	struct rkc_cores c = { 0 };
	int i;

	rkc_cores_init(&c, 0);
	for (i = 0; i < 9; i++) {
		KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, RKC_CORES_ALL, i), i % RKC_CORES);
		KUNIT_EXPECT_EQ(test, c.core[i % RKC_CORES].estimate_ns, i);
		KUNIT_EXPECT_FALSE(test, rkc_cores_finish(&c, i % RKC_CORES, &done, 3));
	}
}

static void the_first_that_comes_free(struct kunit *test)
{
	const struct rkc_run_end done = { 0 };
	struct rkc_cores c = { 0 };

	rkc_cores_init(&c, 0);
	KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, RKC_CORES_ALL, 0), 0);
	KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, RKC_CORES_ALL, 0), 1);
	KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, RKC_CORES_ALL, 0), 2);
	KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, RKC_CORES_ALL, 0), -1);
	rkc_cores_finish(&c, 1, &done, 3);
	KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, RKC_CORES_ALL, 0), 1);
}

static void only_what_is_allowed(struct kunit *test)
{
	struct rkc_cores c = { 0 };

	rkc_cores_init(&c, 2);
	KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, 0, 0), -1);
	KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, 2, 0), -1);
	KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, 6, 0), 2);
	rkc_cores_set_aside(&c, 1);
	KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, RKC_CORES_ALL, 0), -1);
	KUNIT_EXPECT_FALSE(test, rkc_rotor_possible(&c.rotor, 3));
	KUNIT_EXPECT_TRUE(test, rkc_rotor_possible(&c.rotor, 4));
	KUNIT_EXPECT_FALSE(test, rkc_cores_enable(&c, 1));
	KUNIT_EXPECT_TRUE(test, rkc_cores_enable(&c, 0));
	KUNIT_EXPECT_EQ(test, rkc_cores_take(&c, RKC_CORES_ALL, 0), 0);
}

/* Clients that always have more, on the core that comes free next. */
static void shares_by_weight(struct kunit *test)
{
	struct rkc_share share[3] = { { 0 } };
	u32 got[3] = { 0 };
	u32 i, j, best;

	for (i = 0; i < 2100; i++) {
		best = 0;
		for (j = 1; j < ARRAY_SIZE(share); j++)
			if (share[j].had < share[best].had)
				best = j;
		rkc_share_charge(&share[best], MS, (s32)best - 1);
		got[best]++;
	}
	/* 1 : 4 : 16. */
	KUNIT_EXPECT_EQ(test, got[0], 100);
	KUNIT_EXPECT_EQ(test, got[1], 400);
	KUNIT_EXPECT_EQ(test, got[2], 1600);
}

static void idleness_saves_nothing(struct kunit *test)
{
	struct rkc_share share = { 0 };

	rkc_share_wake(&share, 1000);
	KUNIT_EXPECT_EQ(test, share.had, 1000);
	rkc_share_wake(&share, 999);
	KUNIT_EXPECT_EQ(test, share.had, 1000);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(takes_turns),
	KUNIT_CASE(the_first_that_comes_free),
	KUNIT_CASE(only_what_is_allowed),
	KUNIT_CASE(shares_by_weight),
	KUNIT_CASE(idleness_saves_nothing),
	{}
};

struct kunit_suite rotation_suite = {
	.name = "rkchain-rotation",
	.test_cases = cases,
};

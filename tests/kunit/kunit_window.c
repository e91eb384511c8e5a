// SPDX-License-Identifier: GPL-2.0-only
/*
 * The reset window: when nothing may be given to the driver, at both sides of each edge.
 */
#include "cores.h"
#include "kunit_suites.h"

/* When the reset of the k-th time-out must be over. */
#define OVER(k)	((k) * RKC_STOCK_TIMEOUT_NS * 9 / 8 + RKC_RESET_NS)

static void edges(struct kunit *test)
{
	const u64 estimates[] = { 0, 1, 21 * MS, 500 * MS };
	u64 closes, opens;
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(estimates); i++)
		for (k = 1; k <= 4; k++) {
			closes = START + k * RKC_STOCK_TIMEOUT_NS - RKC_WINDOW_SLACK_NS -
				 estimates[i];
			opens = START + OVER(k);
			KUNIT_EXPECT_EQ(test, rkc_window_opens(START, closes - 1, estimates[i]), 0);
			KUNIT_EXPECT_EQ(test, rkc_window_opens(START, closes, estimates[i]), opens);
			KUNIT_EXPECT_EQ(test, rkc_window_opens(START, opens - 1, estimates[i]),
					opens);
			KUNIT_EXPECT_EQ(test, rkc_window_opens(START, opens, estimates[i]), 0);
		}
}

static void counts_from_the_oldest_submit(struct kunit *test)
{
	const u64 closes = START + RKC_STOCK_TIMEOUT_NS - RKC_WINDOW_SLACK_NS - 30 * MS;
	struct rkc_cores c = { 0 };

	rkc_cores_init(&c, 0);
	rkc_cores_take(&c, 1, 10 * MS);
	rkc_cores_take(&c, 2, 30 * MS);
	rkc_cores_take(&c, 4, 20 * MS);
	KUNIT_EXPECT_EQ(test, rkc_cores_opens(&c, 2, START), 0);
	rkc_cores_submit(&c, 0, START);
	rkc_cores_submit(&c, 1, START + 2000 * MS);
	KUNIT_EXPECT_EQ(test, rkc_cores_out(&c), 3);
	KUNIT_EXPECT_EQ(test, rkc_cores_opens(&c, 2, closes - 1), 0);
	KUNIT_EXPECT_EQ(test, rkc_cores_opens(&c, 2, closes), START + OVER(1));
	rkc_cores_recall(&c, 0);
	KUNIT_EXPECT_EQ(test, rkc_cores_opens(&c, 2, closes), 0);
}

static void shut_while_resetting(struct kunit *test)
{
	struct rkc_return back = { .error = -RKC_EINVAL, .committed = true };
	struct rkc_cores c = { 0 };
	u64 now = START + HANG_NS;
	u32 reset;

	rkc_cores_init(&c, 0);
	rkc_cores_take(&c, 1, 0);
	rkc_cores_take(&c, 2, 0);
	rkc_cores_submit(&c, 0, START);
	KUNIT_EXPECT_EQ(test, rkc_cores_watch(&c, now - 1, HANG_NS, true, &reset), now);
	KUNIT_EXPECT_EQ(test, reset, 0);
	KUNIT_EXPECT_EQ(test, rkc_cores_opens(&c, 1, now), 0);
	rkc_cores_watch(&c, now, HANG_NS, true, &reset);
	KUNIT_EXPECT_EQ(test, reset, 1);
	KUNIT_EXPECT_EQ(test, rkc_cores_opens(&c, 1, now), RKC_NEVER);

	now += 130 * MS;
	rkc_cores_was_reset(&c, now);
	KUNIT_EXPECT_EQ(test, rkc_cores_watch(&c, now, HANG_NS, true, &reset),
			now + RKC_RESET_AGAIN_NS);
	KUNIT_EXPECT_EQ(test, reset, 0);
	now += RKC_RESET_AGAIN_NS;
	rkc_cores_watch(&c, now, HANG_NS, true, &reset);
	KUNIT_EXPECT_EQ(test, reset, 1);
	KUNIT_EXPECT_EQ(test, c.generation, 2);

	rkc_cores_back(&c, 0, now, &back);
	KUNIT_EXPECT_EQ(test, rkc_cores_opens(&c, 1, now), RKC_NEVER);
	KUNIT_EXPECT_EQ(test, rkc_cores_watch(&c, now, HANG_NS, true, &reset), RKC_NEVER);
	KUNIT_EXPECT_EQ(test, rkc_cores_opens(&c, 1, now), 0);
}

static void shut_after_a_reset_of_others(struct kunit *test)
{
	struct rkc_return back = { .error = -RKC_EINVAL, .committed = true };
	const u64 now = START + 20 * MS;
	struct rkc_cores c = { 0 };

	rkc_cores_init(&c, 0);
	rkc_cores_take(&c, 1, 0);
	rkc_cores_submit(&c, 0, START);
	rkc_cores_back(&c, 0, now, &back);
	KUNIT_EXPECT_EQ(test, rkc_cores_opens(&c, 0, now + RKC_RESET_NS - 1), now + RKC_RESET_NS);
	KUNIT_EXPECT_EQ(test, rkc_cores_opens(&c, 0, now + RKC_RESET_NS), 0);
}

/* The young come back first, or hang as well; and nothing is reset while not alone. */
static void waits_for_the_young(struct kunit *test)
{
	struct rkc_return back = { 0 };
	struct rkc_cores c = { 0 };
	u32 reset;

	rkc_cores_init(&c, 0);
	rkc_cores_take(&c, 1, 0);
	rkc_cores_take(&c, 2, 0);
	rkc_cores_submit(&c, 0, START);
	rkc_cores_submit(&c, 1, START + 1);
	rkc_cores_watch(&c, START + HANG_NS, HANG_NS, false, &reset);
	KUNIT_EXPECT_EQ(test, reset, 0);
	KUNIT_EXPECT_FALSE(test, c.resetting);
	rkc_cores_watch(&c, START + HANG_NS, HANG_NS, true, &reset);
	KUNIT_EXPECT_EQ(test, reset, 0);
	KUNIT_EXPECT_TRUE(test, c.resetting);
	rkc_cores_back(&c, 1, START + HANG_NS, &back);
	rkc_cores_watch(&c, START + HANG_NS, HANG_NS, true, &reset);
	KUNIT_EXPECT_EQ(test, reset, 1);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(edges),
	KUNIT_CASE(counts_from_the_oldest_submit),
	KUNIT_CASE(shut_while_resetting),
	KUNIT_CASE(shut_after_a_reset_of_others),
	KUNIT_CASE(waits_for_the_young),
	{}
};

struct kunit_suite window_suite = {
	.name = "rkchain-window",
	.test_cases = cases,
};

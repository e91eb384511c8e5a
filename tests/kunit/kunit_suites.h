/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The suites of rkchain_kunit.ko, and what they share.
 */
#ifndef RKCHAIN_KUNIT_SUITES_H
#define RKCHAIN_KUNIT_SUITES_H

#include <kunit/test.h>

#define MS		1000000ULL
#define HANG_NS		(1000 * MS)
/* When the tests begin; 0 is no time. */
#define START		(1000 * 1000 * MS)

extern struct kunit_suite checker_suite;
extern struct kunit_suite replay_suite;
extern struct kunit_suite rotation_suite;
extern struct kunit_suite window_suite;

#endif /* RKCHAIN_KUNIT_SUITES_H */

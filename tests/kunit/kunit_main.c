// SPDX-License-Identifier: GPL-2.0-only
/*
 * kmod/core under KUnit: what the unit tests show of it on the build machine, shown
 * where it runs, by the compiler and with the checks of that kernel.
 */
#include <linux/module.h>

#include "kunit_suites.h"

kunit_test_suites(&checker_suite, &replay_suite, &rotation_suite, &window_suite);

MODULE_DESCRIPTION("KUnit suites of rkchain's core");
MODULE_LICENSE("GPL");

/* SPDX-License-Identifier: MIT */
/*
 * TAP 13 for programs of several named tests.  Each test runs in a process of its
 * own, so that one that hangs or dies takes only itself down: its descriptors are
 * closed and the next test starts clean.
 *
 * A program ends with 0, 1 when a test failed, or 4 when none could be run.
 */
#ifndef TAP_H
#define TAP_H

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#endif

#define TAP_FAIL	1
#define TAP_SKIP	4

#define TAP_SECONDS	60	/* that a test may take unless it says more */

/**
 * struct tap_test - one test
 * @name: as it is reported, and as it is chosen on the command line
 * @run: returns when the test has passed
 * @seconds: how long it may take, 0 for TAP_SECONDS
 */
struct tap_test {
	const char *name;
	void (*run)(void);
	unsigned int seconds;
};

/**
 * tap_main() - run a program's tests
 * @argc: of main()
 * @argv: of main(): names of tests to be run, -l to list them, none for all
 * @tests: the tests
 * @count: how many
 * @after: called after each test whatever became of it, may be NULL
 *
 * RKCHAIN_TEST_SLOW multiplies all time limits, for emulated machines.  With
 * RKCHAIN_TEST_ALL what is skipped has failed.
 *
 * Return: what main() returns.
 */
int tap_main(int argc, char **argv, const struct tap_test *tests, unsigned int count,
	     void (*after)(void));

/* The factor of RKCHAIN_TEST_SLOW, 1 without it. */
unsigned int tap_slow(void);

#ifndef __printf
#define __printf(a, b)	__attribute__((__format__(printf, a, b)))
#endif
#ifndef __noreturn
#define __noreturn	__attribute__((__noreturn__))
#endif

/* A comment line. */
void __printf(1, 2) tap_note(const char *format, ...);

/* Ends the program before its tests: none of them can be run. */
void __printf(1, 2) __noreturn tap_skip_all(const char *format, ...);

/* Ends the running test. */
void __printf(1, 2) __noreturn tap_skip(const char *format, ...);
void __printf(3, 4) __noreturn tap_fail(const char *file, int line, const char *format, ...);

void tap_equal(const char *file, int line, const char *what, long long have, long long want);

#define FAIL(...)	tap_fail(__FILE__, __LINE__, __VA_ARGS__)

#define ASSERT(condition) \
	((condition) ? (void)0 : tap_fail(__FILE__, __LINE__, "%s", #condition))

#define ASSERT_EQ(have, want) \
	tap_equal(__FILE__, __LINE__, #have, (long long)(have), (long long)(want))

#endif /* TAP_H */

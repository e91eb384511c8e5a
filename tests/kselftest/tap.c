// SPDX-License-Identifier: MIT
#include "tap.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define REASON_SIZE	512

/* Written by the test's process, read by the program's. */
static char *skip_reason;

/* Shared with the signal's handler. */
static sig_atomic_t timed_out;
static pid_t running;

unsigned int tap_slow(void)
{
	const char *slow = getenv("RKCHAIN_TEST_SLOW");
	const int factor = slow ? atoi(slow) : 1;

	return factor > 1 ? factor : 1;
}

/* Is everything there, so that nothing may be skipped? */
static int all(void)
{
	return !!getenv("RKCHAIN_TEST_ALL");
}

void tap_note(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	printf("# ");
	vprintf(format, list);
	putchar('\n');
	fflush(stdout);
	va_end(list);
}

void tap_skip_all(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	printf(all() ? "TAP version 13\n1..1\nnot ok 1 - nothing could be run: " :
		       "TAP version 13\n1..0 # SKIP ");
	vprintf(format, list);
	putchar('\n');
	fflush(stdout);
	va_end(list);
	exit(all() ? TAP_FAIL : TAP_SKIP);
}

void tap_skip(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(skip_reason, REASON_SIZE, format, list);
	va_end(list);
	fflush(stdout);
	_exit(TAP_SKIP);
}

void tap_fail(const char *file, int line, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	printf("# %s:%d: ", file, line);
	vprintf(format, list);
	putchar('\n');
	fflush(stdout);
	va_end(list);
	_exit(TAP_FAIL);
}

void tap_equal(const char *file, int line, const char *what, long long have, long long want)
{
	if (have != want)
		tap_fail(file, line, "%s is %lld (%#llx), not %lld (%#llx)", what, have, have, want,
			 want);
}

static void on_alarm(int signal)
{
	(void)signal;
	__atomic_store_n(&timed_out, 1, __ATOMIC_SEQ_CST);
	kill(-running, SIGKILL);
}

/* Return: the wait status of the test's process. */
static int run(const struct tap_test *test)
{
	const unsigned int seconds = (test->seconds ? test->seconds : TAP_SECONDS) * tap_slow();
	int status = 0;

	fflush(stdout);
	skip_reason[0] = 0;
	__atomic_store_n(&timed_out, 0, __ATOMIC_SEQ_CST);
	running = fork();
	if (running < 0) {
		tap_note("fork: %s", strerror(errno));
		return TAP_FAIL << 8;
	}
	if (!running) {
		/* A group of its own: its children go with it. */
		setpgid(0, 0);
		test->run();
		fflush(stdout);
		_exit(0);
	}
	setpgid(running, running);
	alarm(seconds);
	while (waitpid(running, &status, 0) < 0 && errno == EINTR)
		;
	alarm(0);
	kill(-running, SIGKILL);
	if (__atomic_load_n(&timed_out, __ATOMIC_SEQ_CST))
		tap_note("%s did not end within %u s", test->name, seconds);
	else if (WIFSIGNALED(status))
		tap_note("%s: %s", test->name, strsignal(WTERMSIG(status)));
	return status;
}

static int chosen(const struct tap_test *test, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], test->name))
			return 1;
	return argc < 2;
}

int tap_main(int argc, char **argv, const struct tap_test *tests, unsigned int count,
	     void (*after)(void))
{
	const struct sigaction action = { .sa_handler = on_alarm };
	unsigned int planned = 0, number = 0, failed = 0, skipped = 0;

	if (argc == 2 && !strcmp(argv[1], "-l")) {
		for (unsigned int i = 0; i < count; i++)
			puts(tests[i].name);
		return 0;
	}
	for (unsigned int i = 0; i < count; i++)
		planned += chosen(&tests[i], argc, argv);
	skip_reason = mmap(NULL, REASON_SIZE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (skip_reason == MAP_FAILED || !planned)
		return TAP_FAIL;
	sigaction(SIGALRM, &action, NULL);

	printf("TAP version 13\n1..%u\n", planned);
	for (unsigned int i = 0; i < count; i++) {
		int status;

		if (!chosen(&tests[i], argc, argv))
			continue;
		status = run(&tests[i]);
		if (after)
			after();
		number++;
		if (WIFEXITED(status) && WEXITSTATUS(status) == TAP_SKIP) {
			skipped += !all();
			failed += all();
			printf("%sok %u - %s # %s %s\n", all() ? "not " : "", number,
			       tests[i].name, all() ? "skipped:" : "SKIP", skip_reason);
		} else if (status) {
			failed++;
			printf("not ok %u - %s\n", number, tests[i].name);
		} else {
			printf("ok %u - %s\n", number, tests[i].name);
		}
		fflush(stdout);
	}
	printf("# Totals: pass:%u fail:%u skip:%u\n", planned - failed - skipped, failed, skipped);
	if (failed)
		return TAP_FAIL;
	return skipped == planned ? TAP_SKIP : 0;
}

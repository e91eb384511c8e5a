// SPDX-License-Identifier: MIT
/*
 * A process that does anything: threads that share files of the device and call it at
 * random, close and exchange the files, map and unmap memory, fork, and can be killed
 * at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/capability.h>

#include "ioctl_fuzz.h"

#define THREADS	2

static struct fuzz_pool pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void on_alarm(int signal)
{
	(void)signal;
	fuzz_count(&fuzz->actions[ACTION_ALARM]);
}

/* ---- files ---- */

static int open_device(void)
{
	int rk = open(RIG_DEVICE, O_RDWR | O_CLOEXEC);

	if (rk < 0)
		FAIL(RIG_DEVICE ": %s", strerror(errno));
	return rk;
}

/* What was there is closed, though others may be calling it; the number stays. */
static void reopen(struct fuzz_try *t)
{
	const u32 file = fuzz_below(&t->dice, FILES);
	struct fuzz_buf gone[BUFS];
	u32 count = 0;
	int rk;

	fuzz_count(&fuzz->actions[ACTION_REOPEN]);
	if (fuzz_percent(&t->dice, 20)) {
		/* Another name for another file: two numbers, one client. */
		dup2(pool.files[(file + 1) % FILES], pool.files[file]);
	} else {
		rk = open_device();
		dup2(rk, pool.files[file]);
		close(rk);
	}
	pthread_mutex_lock(&pool.lock);
	pool.next[file] = 1;
	for (u32 i = 0; i < BUFS; i++)
		if (pool.bufs[i].id && pool.bufs[i].file == file) {
			gone[count++] = pool.bufs[i];
			pool.bufs[i].id = 0;
		}
	for (u32 i = 0; i < CHAINS; i++)
		if (pool.chains[i].file == file)
			pool.chains[i].id = 0;
	pthread_mutex_unlock(&pool.lock);
	while (count--) {
		if (gone[count].map)
			munmap(gone[count].map, gone[count].size);
		if (gone[count].fd >= 0)
			close(gone[count].fd);
	}
}

/* Maps, unmaps or closes a dma-buf. */
static void map(struct fuzz_try *t)
{
	struct fuzz_buf *buf = &pool.bufs[fuzz_below(&t->dice, BUFS)];

	fuzz_count(&fuzz->actions[ACTION_MAP]);
	pthread_mutex_lock(&pool.lock);
	if (buf->id && buf->map) {
		memset(buf->map, fuzz_random(&t->dice), buf->size);
		munmap(buf->map, buf->size);
		buf->map = NULL;
	} else if (buf->id && buf->fd >= 0 && fuzz_percent(&t->dice, 70)) {
		buf->size = (buf->size + RIG_PAGE - 1) / RIG_PAGE * RIG_PAGE;
		buf->map = mmap(NULL, buf->size, PROT_READ | PROT_WRITE, MAP_SHARED, buf->fd, 0);
		if (buf->map == MAP_FAILED)
			buf->map = NULL;
	} else if (buf->id && buf->fd >= 0) {
		close(buf->fd);
		buf->fd = -1;
	}
	pthread_mutex_unlock(&pool.lock);
}

/* ---- completions ---- */

static void read_some(struct fuzz_try *t)
{
	static const u32 sizes[] = { 0, 1, 87, 88, 89, 880, 88 * 64, 88 * 65 };
	const int rk = pool.files[fuzz_below(&t->dice, FILES)];
	const u32 size = sizes[fuzz_below(&t->dice, ARRAY_SIZE(sizes))];
	const bool bad = fuzz_percent(&t->dice, 10);
	struct pollfd poll_for = { .fd = rk, .events = POLLIN };
	struct fuzz_tally *tally = &fuzz->tally[CALL_READ];
	ssize_t ret;

	fuzz_count(&fuzz->actions[ACTION_POLL]);
	fuzz_begin(t->slot, CALL_READ, 0);
	if (fuzz_percent(&t->dice, 60))
		poll(&poll_for, 1, fuzz_below(&t->dice, 20));
	if (fuzz_percent(&t->dice, 50))
		fcntl(rk, F_SETFL, O_RDWR | (fuzz_percent(&t->dice, 70) ? O_NONBLOCK : 0));
	ret = read(rk, bad ? (void *)(t->arena + RIG_PAGE) : t->records_end - size, size);
	if (ret >= 0) {
		fuzz_count(&tally->good);
		if (ret % sizeof(struct rkchain_completion) || (size_t)ret > size)
			FAIL("read() of %u bytes returned %zd", size, ret);
	} else {
		fuzz_count(&tally->errors[errno]);
		if (errno != EINVAL && errno != EAGAIN && errno != EINTR &&
		    !(errno == EFAULT && bad))
			FAIL("read(): %s", strerror(errno));
	}
	fuzz_end(t->slot);
}

/* ---- the rest ---- */

static void sysfs(struct fuzz_try *t)
{
	static const char * const files[] = { "state", "chains", "blocks", "failures", "busy_ns" };
	char path[96], text[64];
	int fd;

	fuzz_count(&fuzz->actions[ACTION_SYSFS]);
	if (fuzz_percent(&t->dice, 30))
		snprintf(path, sizeof(path), "/sys/class/misc/rkchain/%s",
			 fuzz_percent(&t->dice, 50) ? "mode" : "generation");
	else
		snprintf(path, sizeof(path), "/sys/class/misc/rkchain/core%u/%s",
			 (u32)fuzz_below(&t->dice, 3),
			 files[fuzz_below(&t->dice, ARRAY_SIZE(files))]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		FAIL("%s: %s", path, strerror(errno));
	if (read(fd, text, sizeof(text)) <= 0)
		FAIL("%s: %s", path, strerror(errno));
	close(fd);
}

static void core_state(struct fuzz_try *t)
{
	static const char * const words[] = { "usable", "aside", "", "usable\n", "poisoned" };

	fuzz_count(&fuzz->actions[ACTION_STATE]);
	fuzz_core_state(fuzz_below(&t->dice, 3), words[fuzz_below(&t->dice, ARRAY_SIZE(words))]);
}

/* A child with the same files, which makes calls and goes, of itself or not. */
static void fork_one(struct fuzz_try *t)
{
	struct fuzz_dice dice = { fuzz_random(&t->dice) | 1 };
	pid_t child;

	fuzz_count(&fuzz->actions[ACTION_FORK]);
	/* The child has this thread alone: nobody may hold the lock. */
	pthread_mutex_lock(&pool.lock);
	child = fork();
	pthread_mutex_unlock(&pool.lock);
	if (child < 0)
		return;
	if (!child) {
		t->dice = dice;
		t->slot = fuzz_slot();
		pool.target = NULL;
		/* The parent writes there. */
		t->device = NULL;
		for (u32 i = 0; i < 20; i++)
			fuzz_make(t, fuzz_choose(&t->dice));
		_exit(0);
	}
	if (fuzz_percent(&dice, 60)) {
		rig_sleep(fuzz_below(&dice, 60));
		kill(child, SIGKILL);
	}
	waitpid(child, NULL, 0);
}

static void step(struct fuzz_try *t)
{
	const u32 die = fuzz_below(&t->dice, 1000);

	if (die < 850)
		fuzz_make(t, fuzz_choose(&t->dice));
	else if (die < 910)
		read_some(t);
	else if (die < 960)
		map(t);
	else if (die < 963)
		reopen(t);
	else if (die < 985)
		sysfs(t);
	else if (die < 992 && fuzz_has_weather())
		core_state(t);
	else if (die < 995)
		fork_one(t);
}

static void *steps(void *data)
{
	struct fuzz_try *t = data;

	while (!fuzz_over())
		step(t);
	return NULL;
}

/* Changes words of a program while it is copied, and puts them back. */
static void *scribble(void *data)
{
	struct fuzz_dice dice = { *(u64 *)data };

	while (!fuzz_over()) {
		u64 *words = __atomic_load_n(&pool.target, __ATOMIC_SEQ_CST);
		const u32 count = __atomic_load_n(&pool.target_words, __ATOMIC_SEQ_CST);

		if (words && count) {
			u64 *word = &words[fuzz_below(&dice, count)];
			const u64 was = *word;

			*word = fuzz_random(&dice) << 8;
			sched_yield();
			*word = was;
		} else {
			usleep(200);
		}
	}
	return NULL;
}

void fuzz_worker(u32 number, u64 seed)
{
	static struct fuzz_try tries[THREADS];
	struct sigaction action = { .sa_handler = on_alarm };
	struct fuzz_dice dice = { seed };
	pthread_t threads[THREADS], scribbler;
	u64 scribbler_seed = fuzz_random(&dice) | 1;

	/* Calls that wait are interrupted. */
	sigaction(SIGALRM, &action, NULL);
	fuzz_become(2000 + number % 2);
	pool.privileged = number % 2 == 0;
	if (!pool.privileged) {
		rig_drop_capability(CAP_SYS_ADMIN);
		rig_drop_capability(CAP_SYS_NICE);
	}
	for (u32 i = 0; i < FILES; i++) {
		pool.files[i] = open_device();
		pool.next[i] = 1;
	}
	for (u32 i = 0; i < THREADS; i++)
		fuzz_try_init(&tries[i], &pool, fuzz_random(&dice) | 1);
	ASSERT_EQ(pthread_create(&scribbler, NULL, scribble, &scribbler_seed), 0);
	for (u32 i = 0; i < THREADS; i++)
		ASSERT_EQ(pthread_create(&threads[i], NULL, steps, &tries[i]), 0);
	for (u32 i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(scribbler, NULL);
}

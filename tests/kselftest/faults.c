// SPDX-License-Identifier: MIT
/*
 * Not in the runner's list, as it takes a kernel with CONFIG_FAULT_INJECTION and
 * CONFIG_FAILSLAB: each allocation that a call makes fails in turn.  The call then
 * says ENOMEM, or does without; nothing is left of it; and the next one succeeds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "debug.h"
#include "rig.h"

#define MOST_SITES	2000
#define MANY		64

static struct {
	int nth;		/* /proc/thread-self/fail-nth */
	int rk;
	int node;
	struct rig_job job;
	struct rkchain_query before;
	u32 chains[MANY];
	u64 first;
	u32 count;
	u32 flags;
} f;

/* ---- injection ---- */

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		tap_note("%s: %s", path, strerror(errno));
	close(fd);
}

/* All allocations can fail, and silently. */
static void prepare(void)
{
	static const char * const folders[] = { "failslab", "fail_page_alloc" };
	char path[96];

	for (u32 i = 0; i < ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s/ignore-gfp-wait", folders[i]);
		put(path, "N");
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s/verbose", folders[i]);
		put(path, "0");
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s/task-filter", folders[i]);
		put(path, "N");
	}
	put("/sys/kernel/debug/fail_page_alloc/min-order", "0");
	put("/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N");
}

static void arm(u32 n)
{
	char text[16];
	const int length = snprintf(text, sizeof(text), "%u", n);

	ASSERT_EQ(pwrite(f.nth, text, length, 0), length);
}

/* Has it failed?  What has not, will not. */
static bool disarm(void)
{
	char text[16] = "";
	const ssize_t length = pread(f.nth, text, sizeof(text) - 1, 0);

	ASSERT(length > 0);
	if (!atoi(text))
		return true;
	arm(0);
	return false;
}

/* ---- calls ---- */

/**
 * struct step - a call that is to fail
 * @name: for the report
 * @before: before each try
 * @call: 0 or a negative errno
 * @undo: after a success
 * @none: it allocates nothing, and must not
 */
struct step {
	const char *name;
	void (*before)(void);
	int (*call)(void);
	void (*undo)(void);
	bool none;
};

static bool as_before(struct rkchain_query *now)
{
	const struct rkchain_query *then = &f.before;

	rig_query(f.rk, now);
	/* Less when something of the try before was still on its way out. */
	return now->used_bytes <= then->used_bytes && now->used_chains <= then->used_chains &&
	       now->used_blocks <= then->used_blocks && now->used_jobs <= then->used_jobs &&
	       now->clients <= then->clients && now->provider == then->provider;
}

static void expect_as_before(const char *name, u32 n)
{
	const u64 end = rig_soon();
	struct rkchain_query now;

	while (!as_before(&now)) {
		if (rig_now() > end)
			FAIL("%s, %u: bytes %llu -> %llu, chains %llu -> %llu, clients %u -> %u",
			     name, n, f.before.used_bytes, now.used_bytes, f.before.used_chains,
			     now.used_chains, f.before.clients, now.clients);
		rig_sleep(10);
	}
}

static void run(const struct step *s)
{
	u32 hit = 0, optional = 0, n;
	bool injected;
	int ret;

	/* Caches are full, so that each try allocates the same. */
	for (n = 0; n < 2; n++) {
		if (s->before)
			s->before();
		ret = s->call();
		if (ret == -ENOTTY) {
			tap_note("%s: the module has no such call", s->name);
			return;
		}
		if (ret)
			FAIL("%s without a fault: %s", s->name, strerror(-ret));
		if (s->undo)
			s->undo();
	}
	for (n = 1; n < MOST_SITES; n++) {
		if (s->before)
			s->before();
		rig_query(f.rk, &f.before);
		arm(n);
		ret = s->call();
		injected = disarm();
		hit += injected;
		optional += injected && !ret;
		if (ret && ret != -ENOMEM)
			FAIL("%s, allocation %u: %s", s->name, n, strerror(-ret));
		if (ret && !injected)
			FAIL("%s failed without a fault", s->name);
		if (ret) {
			expect_as_before(s->name, n);
			ret = s->call();
			if (ret)
				FAIL("%s after allocation %u failed: %s", s->name, n,
				     strerror(-ret));
		}
		if (s->undo)
			s->undo();
		if (!injected)
			break;
	}
	tap_note("%s: %u allocations failed, %u of them did not matter", s->name, hit, optional);
	if (!hit && !s->none)
		FAIL("%s: no allocation failed", s->name);
	if (hit && s->none)
		FAIL("%s allocates", s->name);
}

static void begin(void)
{
	f.rk = rig_open();
	f.node = -1;
	f.nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	ASSERT(f.nth >= 0);
	prepare();
	/* Without it each PROVIDE has a self-test, which would be most of what is called. */
	rig_need_parameter("chain_mode", "link");
}

static void begin_job(u32 count)
{
	begin();
	rig_job_new(&f.job, f.rk, count);
	rig_job_fill(&f.job, 1);
}

/* ---- open(), QUERY ---- */

static int opened;

static int call_open(void)
{
	opened = open(RIG_DEVICE, O_RDWR | O_CLOEXEC);
	return opened < 0 ? -errno : 0;
}

static void close_opened(void)
{
	close(opened);
}

static void test_open(void)
{
	const struct step step = {
		.name = "open()",
		.call = call_open,
		.undo = close_opened,
	};

	begin();
	run(&step);
}

static int call_query(void)
{
	struct rkchain_query query = { 0 };

	return rig_try(f.rk, RKCHAIN_IOCTL_QUERY, &query);
}

static void test_query(void)
{
	const struct step step = {
		.name = "QUERY",
		.call = call_query,
		.none = true,
	};

	begin();
	run(&step);
}

/* ---- buffers ---- */

static struct rkchain_buf_create created;
static int creator;

static int call_buf_create(void)
{
	created = (struct rkchain_buf_create){ .size = 3 * RIG_PAGE };
	return rig_try_buf(creator, &created);
}

static void undo_buf_create(void)
{
	close(created.fd);
	ASSERT_EQ(rig_try_destroy(creator, created.id), 0);
}

static void test_buf_create(void)
{
	const struct step step = {
		.name = "BUF_CREATE",
		.call = call_buf_create,
		.undo = undo_buf_create,
	};

	begin();
	creator = f.rk;
	run(&step);
}

/* A client's first one opens the stock driver's node. */
static void new_creator(void)
{
	creator = rig_open();
}

static void undo_first(void)
{
	undo_buf_create();
	close(creator);
}

static void test_first_buf_create(void)
{
	const struct step step = {
		.name = "the first BUF_CREATE",
		.before = new_creator,
		.call = call_buf_create,
		.undo = undo_first,
	};

	begin();
	run(&step);
}

static u32 adopted, handle;

static int call_adopt(void)
{
	struct rkchain_buf_adopt adopt = { .drm_fd = f.node, .handle = handle };
	int ret = rig_try(f.rk, RKCHAIN_IOCTL_BUF_ADOPT, &adopt);

	adopted = adopt.id;
	return ret;
}

static void undo_adopt(void)
{
	ASSERT_EQ(rig_try_destroy(f.rk, adopted), 0);
}

static void test_buf_adopt(void)
{
	const struct step step = {
		.name = "BUF_ADOPT",
		.call = call_adopt,
		.undo = undo_adopt,
	};
	struct rknpu_mem_create create = { .flags = RKNPU_MEM_NON_CONTIGUOUS, .size = RIG_PAGE };

	begin();
	f.node = rig_node();
	if (f.node < 0)
		tap_skip("the stock driver's node cannot be opened");
	ASSERT_EQ(ioctl(f.node, RKNPU_IOCTL_MEM_CREATE, &create), 0);
	handle = create.handle;
	run(&step);
}

/* ---- chains ---- */

static int call_chain_create(void)
{
	struct rkchain_chain_create create;
	int ret;

	rig_job_request(&f.job, &create);
	ret = rig_try_create(f.job.rk, &create);
	f.job.chain = create.id;
	return ret;
}

static void undo_chain_create(void)
{
	ASSERT_EQ(rig_try_destroy_chain(f.job.rk, f.job.chain), 0);
	f.job.chain = 0;
}

static void test_chain_create(void)
{
	const struct step step = {
		.name = "CHAIN_CREATE",
		.call = call_chain_create,
		.undo = undo_chain_create,
	};

	begin_job(5);
	run(&step);
}

/* Large enough for memory that is not of the slab. */
static void test_long_chain_create(void)
{
	const struct step step = {
		.name = "CHAIN_CREATE of 300 blocks",
		.call = call_chain_create,
		.undo = undo_chain_create,
	};

	begin_job(300);
	run(&step);
}

/* The first one after PROVIDE opens the files that the cores work with. */
static void provide_anew(void)
{
	rig_release(f.rk);
	rig_provide_again(f.rk);
	rig_job_new(&f.job, f.rk, 2);
}

static void undo_first_chain(void)
{
	rig_job_free(&f.job);
}

static void test_first_chain_create(void)
{
	const struct step step = {
		.name = "the first CHAIN_CREATE",
		.before = provide_anew,
		.call = call_chain_create,
		.undo = undo_first_chain,
	};

	begin();
	run(&step);
}

/* ---- jobs ---- */

static int call_submit(void)
{
	struct rkchain_submit submit = {
		.chains = (uintptr_t)f.chains,
		.count = f.count,
		.flags = f.flags,
	};
	int ret = rig_try_submit(f.rk, &submit);

	f.first = submit.first;
	return ret;
}

static void undo_submit(void)
{
	struct rkchain_completion done[MANY];

	rig_wait_good(f.rk, f.first, f.count, done);
}

static void begin_submit(u32 count, u32 flags)
{
	begin_job(2);
	rig_clones(&f.job, count, f.chains);
	f.count = count;
	f.flags = flags;
}

static void test_submit(void)
{
	const struct step step = {
		.name = "SUBMIT",
		.call = call_submit,
		.undo = undo_submit,
	};

	begin_submit(1, 0);
	run(&step);
}

static void test_submit_ordered(void)
{
	const struct step step = {
		.name = "SUBMIT of many, ORDERED",
		.call = call_submit,
		.undo = undo_submit,
	};

	begin_submit(MANY, RKCHAIN_SUBMIT_ORDERED);
	run(&step);
}

/* What has completed is there still after a WAIT that failed. */
static void submitted(void)
{
	ASSERT_EQ(call_submit(), 0);
	rig_sleep(20);
}

static int call_wait(void)
{
	struct rkchain_completion done[MANY];
	struct rkchain_wait wait = {
		.first = f.first,
		.count = f.count,
		.deadline_ns = rig_soon(),
		.completions = (uintptr_t)done,
	};
	int ret = rig_try_wait(f.rk, &wait);

	if (!ret)
		ASSERT_EQ(wait.done, f.count);
	return ret;
}

static void test_wait(void)
{
	const struct step step = {
		.name = "WAIT",
		.before = submitted,
		.call = call_wait,
	};

	begin_submit(3, 0);
	run(&step);
}

static int call_read(void)
{
	struct rkchain_completion done[MANY];
	u32 have = 0;

	while (have < f.count) {
		const ssize_t ret = read(f.rk, done, sizeof(done));

		if (ret < 0)
			return -errno;
		have += ret / sizeof(done[0]);
	}
	return 0;
}

static void test_read(void)
{
	const struct step step = {
		.name = "read()",
		.before = submitted,
		.call = call_read,
	};

	begin_submit(1, RKCHAIN_SUBMIT_READ);
	run(&step);
}

/* ---- the stock driver ---- */

static void released(void)
{
	struct rkchain_query query;

	rig_query(f.rk, &query);
	if (query.provider)
		rig_release(f.rk);
}

static int call_provide(void)
{
	return rig_try_provide(f.rk, f.node);
}

static int call_release(void)
{
	return rig_try_provide(f.rk, -1);
}

static void undo_release(void)
{
	ASSERT_EQ(call_provide(), 0);
}

static void begin_provide(void)
{
	begin();
	rig_need_root();
	f.node = rig_node();
	if (f.node < 0)
		tap_skip("the stock driver's node cannot be opened");
	released();
}

static void test_provide(void)
{
	const struct step step = {
		.name = "PROVIDE",
		.before = released,
		.call = call_provide,
	};

	begin_provide();
	run(&step);
}

static void test_release(void)
{
	const struct step step = {
		.name = "PROVIDE, release",
		.call = call_release,
		.undo = undo_release,
		.none = true,
	};

	begin_provide();
	ASSERT_EQ(call_provide(), 0);
	run(&step);
}

/* ---- FAILURES, SELFTEST ---- */

static u64 program[2 * RKC_FULL_WORDS];

static int call_failures(void)
{
	struct rkchain_failures failures = {
		.program = (uintptr_t)program,
		.size = sizeof(program),
	};

	return rig_try(f.rk, RKCHAIN_IOCTL_FAILURES, &failures);
}

static void test_failures(void)
{
	const struct step step = {
		.name = "FAILURES",
		.call = call_failures,
	};
	struct rkchain_completion done;

	model_need();
	begin_submit(1, 0);
	rig_need_parameter("hang_ms", "200");
	model_set("stuck_core", 1);
	rig_wait(f.rk, rig_submit(f.rk, f.chains[0], 1, 1, 0), 1, &done);
	model_calm();
	ASSERT_EQ(done.status, -ETIMEDOUT);
	rig_wait_good(f.rk, rig_submit(f.rk, f.chains[0], 1, 1, 0), 1, &done);
	run(&step);
}

static int call_selftest(void)
{
	struct rkchain_selftest_result results[12] = { 0 };
	struct rkchain_selftest selftest = {
		.flags = RKCHAIN_SELFTEST_SHORT | RKCHAIN_SELFTEST_SHARED,
		.modes = 1u << RKCHAIN_MODE_LINK,
		.cores = 1,
		.count = ARRAY_SIZE(results),
		.results = (uintptr_t)results,
	};

	return rig_try(f.rk, RKCHAIN_IOCTL_SELFTEST, &selftest);
}

static void test_selftest(void)
{
	const struct step step = {
		.name = "SELFTEST",
		.call = call_selftest,
	};

	rig_need_root();
	begin();
	run(&step);
}

#define SECONDS	300

static const struct tap_test tests[] = {
	{ "open", test_open, SECONDS },
	{ "query", test_query, SECONDS },
	{ "buf_create", test_buf_create, SECONDS },
	{ "first_buf_create", test_first_buf_create, SECONDS },
	{ "buf_adopt", test_buf_adopt, SECONDS },
	{ "chain_create", test_chain_create, SECONDS },
	{ "long_chain_create", test_long_chain_create, SECONDS },
	{ "first_chain_create", test_first_chain_create, SECONDS },
	{ "submit", test_submit, SECONDS },
	{ "submit_ordered", test_submit_ordered, SECONDS },
	{ "wait", test_wait, SECONDS },
	{ "read", test_read, SECONDS },
	{ "provide", test_provide, SECONDS },
	{ "release", test_release, SECONDS },
	{ "failures", test_failures, SECONDS },
	{ "selftest", test_selftest, SECONDS },
};

int main(int argc, char **argv)
{
	if (access("/proc/thread-self/fail-nth", W_OK))
		tap_skip_all("this kernel injects no faults: no /proc/self/fail-nth");
	if (access("/sys/kernel/debug/failslab", F_OK))
		tap_skip_all("this kernel injects no faults: no failslab");
	rig_require();
	return tap_main(argc, argv, tests, ARRAY_SIZE(tests), rig_restore);
}

// SPDX-License-Identifier: MIT
/*
 * Not in the runner's list: calls /dev/rkchain at random, by a grammar of its ABI.
 *
 *	ioctl_fuzz SECONDS [SEED [WORKERS]]
 *
 * Workers do anything and may be killed at any time; careful processes hold the module
 * to its word; as root in the guest the weather changes as well.  The same seed gives
 * each process the same dice; what they meet depends on each other.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/capability.h>

#include "debug.h"
#include "ioctl_fuzz.h"

#define WORKERS		4
#define CAREFUL		2
#define MOST_PROCESSES	16

#define BLOCKED_S	60	/* no call takes longer */
#define END_S		20	/* nor does the end */
#define PROD_MS		300	/* what waits is interrupted */

struct fuzz *fuzz;

struct process {
	void (*run)(u32 number, u64 seed);
	const char *name;
	u32 number;
	u32 life;
	pid_t pid;
	bool killed;
};

static struct process processes[MOST_PROCESSES];
static u32 count;
static u32 failures, tests;

/* ---- what all processes see ---- */

void fuzz_count(__u64 *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

bool fuzz_over(void)
{
	return __atomic_load_n(&fuzz->stop, __ATOMIC_SEQ_CST) || rig_now() > fuzz->end;
}

struct fuzz_slot *fuzz_slot(void)
{
	for (u32 tries = 0; tries < 1000; tries++) {
		for (u32 i = 0; i < SLOTS; i++) {
			pid_t none = 0;

			if (__atomic_compare_exchange_n(&fuzz->slots[i].pid, &none, getpid(), false,
							__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
				fuzz->slots[i].since = 0;
				return &fuzz->slots[i];
			}
		}
		rig_sleep(10);
	}
	FAIL("too many processes");
}

void fuzz_begin(struct fuzz_slot *slot, enum fuzz_call call, u32 command)
{
	slot->tid = syscall(SYS_gettid);
	slot->call = call;
	slot->command = command;
	__atomic_store_n(&slot->since, rig_now(), __ATOMIC_SEQ_CST);
}

void fuzz_end(struct fuzz_slot *slot)
{
	__atomic_store_n(&slot->since, 0, __ATOMIC_SEQ_CST);
}

/* Another user for the module, with all that root may do. */
void fuzz_become(uid_t uid)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (getuid())
		return;
	ASSERT_EQ(seteuid(uid), 0);
	ASSERT_EQ(syscall(SYS_capget, &header, data), 0);
	for (u32 i = 0; i < ARRAY_SIZE(data); i++)
		data[i].effective = data[i].permitted;
	ASSERT_EQ(syscall(SYS_capset, &header, data), 0);
}

int fuzz_open_as(uid_t uid)
{
	int rk;

	fuzz_become(uid);
	rk = rig_open();
	if (!getuid())
		ASSERT_EQ(seteuid(0), 0);
	return rk;
}

/* ---- processes ---- */

static void run_weather(u32 number, u64 seed)
{
	(void)number;
	fuzz_weather_man(seed);
}

static u64 seed_of(const struct process *p)
{
	struct fuzz_dice dice = {
		fuzz->seed * 0x9e3779b97f4a7c15ULL + p->number * 1000003 + p->life + 1
	};

	fuzz_random(&dice);
	return fuzz_random(&dice) | 1;
}

static void start(struct process *p)
{
	p->killed = false;
	fflush(stdout);
	p->pid = fork();
	if (p->pid < 0) {
		tap_note("fork: %s", strerror(errno));
		failures++;
		fuzz->stop = 1;
		return;
	}
	if (!p->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		p->run(p->number, seed_of(p));
		fflush(stdout);
		_exit(0);
	}
}

static void add(void (*run)(u32 number, u64 seed), const char *name, u32 number)
{
	struct process *p = &processes[count++];

	*p = (struct process){ .run = run, .name = name, .number = number };
	start(p);
}

/* A process has gone; workers come back as others. */
static void gone(pid_t pid, int status)
{
	for (u32 i = 0; i < count; i++) {
		struct process *p = &processes[i];

		if (p->pid != pid)
			continue;
		p->pid = 0;
		if (status && !(p->killed && WIFSIGNALED(status))) {
			tap_note("%s %u, life %u: status %#x", p->name, p->number, p->life, status);
			failures++;
			fuzz->stop = 1;
		}
		p->life++;
		if (!fuzz_over())
			start(p);
	}
}

static bool reap(void)
{
	bool any = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		gone(pid, status);
	for (u32 i = 0; i < SLOTS; i++) {
		struct fuzz_slot *slot = &fuzz->slots[i];

		if (slot->pid && kill(slot->pid, 0) && errno == ESRCH) {
			slot->since = 0;
			__atomic_store_n(&slot->pid, 0, __ATOMIC_SEQ_CST);
		}
	}
	for (u32 i = 0; i < count; i++)
		any |= processes[i].pid > 0;
	return any;
}

static void show_stack(pid_t pid, pid_t tid)
{
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stack", pid, tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		printf("#   %s", line);
	if (file)
		fclose(file);
}

/* Interrupts what may wait; false when something takes too long. */
static bool look_after_calls(void)
{
	const u64 now = rig_now(), limit = BLOCKED_S * 1000 * MS * tap_slow();

	for (u32 i = 0; i < SLOTS; i++) {
		struct fuzz_slot *slot = &fuzz->slots[i];
		const u64 since = __atomic_load_n(&slot->since, __ATOMIC_SEQ_CST);

		if (!slot->pid || !since || since > now)
			continue;
		if (now - since > limit) {
			tap_note("%s, command %#x, has not returned for %llu ms, weather %u",
				 fuzz_call_name(slot->call), slot->command,
				 (unsigned long long)((now - since) / MS), fuzz_weather());
			show_stack(slot->pid, slot->tid);
			return false;
		}
		if (((slot->call == CALL_WAIT || slot->call == CALL_READ) &&
		     now - since > PROD_MS * MS) ||
		    (slot->call == CALL_SELFTEST && now - since > limit / 40))
			syscall(SYS_tgkill, slot->pid, slot->tid, SIGALRM);
	}
	return true;
}

static bool watch(void)
{
	struct fuzz_dice dice = { fuzz->seed | 1 };
	u64 next = rig_now() + 2000 * MS;
	bool good = true;

	while (!fuzz_over() && good) {
		struct process *p = &processes[fuzz_below(&dice, count)];

		reap();
		good = look_after_calls();
		if (rig_now() > next && p->run == fuzz_worker && p->pid > 0) {
			p->killed = true;
			kill(p->pid, SIGKILL);
			fuzz_count(&fuzz->actions[ACTION_KILLED]);
			next = rig_now() + (500 + fuzz_below(&dice, 3000)) * MS;
		}
		rig_sleep(50);
	}
	return good;
}

static bool end_all(void)
{
	const u64 end = rig_now() + END_S * 1000 * MS * tap_slow();
	bool good = true;

	fuzz->stop = 1;
	while (reap() && good) {
		look_after_calls();
		rig_sleep(50);
		good = rig_now() < end;
	}
	for (u32 i = 0; i < count; i++)
		if (processes[i].pid > 0) {
			tap_note("%s %u does not end", processes[i].name, processes[i].number);
			kill(processes[i].pid, SIGKILL);
		}
	/* Children of those that were killed, too. */
	for (u32 i = 0; i < SLOTS; i++)
		if (fuzz->slots[i].pid)
			kill(fuzz->slots[i].pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
	return good;
}

/* ---- verdicts ---- */

static void verdict(bool good, const char *what)
{
	printf("%sok %u - %s\n", good ? "" : "not ", ++tests, what);
	fflush(stdout);
	failures += !good;
}

/* In a process of its own, as what fails there ends it. */
static bool succeeds(void (*run)(void))
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child < 0)
		return false;
	if (!child) {
		run();
		fflush(stdout);
		_exit(0);
	}
	return waitpid(child, &status, 0) == child && !status;
}

/* Each core runs something, so that nothing is in quarantine any more. */
static void run_each_core(void)
{
	struct rkchain_completion done;
	struct rig_job job;
	int rk = rig_open();

	if (fuzz_has_weather())
		fuzz_settle();
	rig_job_new(&job, rk, 3);
	rig_job_fill(&job, 1);
	rig_job_register(&job);
	for (u32 i = 0; i < 3; i++) {
		rig_wait_good(rk, rig_submit(rk, job.chain, 1, 1u << i, 0), 1, &done);
		rig_job_check(&job);
	}
	rig_job_free(&job);
	close(rk);
}

static void check_empty(void)
{
	static const uid_t users[] = { 0, 1000, 1001, 2000, 2001 };
	const struct rkchain_query nothing = { .clients = 1 };

	for (u32 i = 0; i < ARRAY_SIZE(users); i++) {
		int rk = fuzz_open_as(users[i]);
		struct rkchain_query query;

		rig_settles(rk, &nothing);
		rig_query(rk, &query);
		ASSERT_EQ(query.used_jobs, 0);
		close(rk);
	}
}

static const char * const traps[] = { "trap", "oops", "freed_dispatch", "late_call", "late_put" };

static void print_tallies(void)
{
	for (u32 call = 0; call < CALLS; call++) {
		const struct fuzz_tally *tally = &fuzz->tally[call];
		__u64 sum = tally->good;

		for (u32 i = 0; i < ERRORS; i++)
			sum += tally->errors[i];
		printf("# %-14s %9llu calls %9llu good", fuzz_call_name(call), sum, tally->good);
		for (u32 i = 0; i < ERRORS; i++)
			if (tally->errors[i])
				printf("  %s %llu", strerrorname_np(i), tally->errors[i]);
		printf("\n");
		for (u32 i = 0, n = 0; i < REASONS; i++)
			if (tally->reasons[i])
				printf("%s%u:%llu", n++ ? " " : "#     reasons ", i,
				       tally->reasons[i]);
		for (u32 i = 0; i < REASONS; i++)
			if (tally->reasons[i]) {
				printf("\n");
				break;
			}
	}
}

static void print_odds(void)
{
	for (u32 i = 0; i < fuzz->unlisted && i < ODDS; i++) {
		const struct fuzz_odd *odd = &fuzz->odds[i];

		tap_note("%s, command %#x, weather %u: %s, reason %u", fuzz_call_name(odd->call),
			 odd->command, odd->weather,
			 odd->error ? strerror(odd->error) : "success", odd->reason);
	}
}

static void print_rest(void)
{
	static const char * const actions[ACTIONS] = {
		"reopened", "mapped", "read", "sysfs", "forked", "states", "alarms", "killed",
		"stock jobs", "weathers", "scribbled",
	};

	printf("#");
	for (u32 i = 0; i < ACTIONS; i++)
		printf(" %s %llu%s", actions[i], fuzz->actions[i], i < ACTIONS - 1 ? "," : "\n");
	printf("# careful: %llu chains in %llu rounds, %llu outputs checked, %llu late, ",
	       fuzz->chains, fuzz->rounds, fuzz->outputs, fuzz->late);
	printf("%llu while it was calm, of these %llu hung; statuses", fuzz->calm,
	       fuzz->calm_hung);
	for (u32 i = 0; i < ERRORS; i++)
		if (fuzz->statuses[i])
			printf(" %s %llu", i ? strerrorname_np(i) : "0", fuzz->statuses[i]);
	printf("\n");
}

static bool call_is_there(u32 call)
{
	return !fuzz_grammar[call].capability ||
	       fuzz->capabilities & fuzz_grammar[call].capability;
}

/*
 * The grammar's own test: what can be met is met, in the guest and in ten minutes.  Who
 * runs slices finds out what is missing in all of them.
 */
static void note_unmet(void)
{
	for (u32 call = 0; call < CALL_NUMBERS; call++) {
		const struct fuzz_tally *tally = &fuzz->tally[call];

		if (!call_is_there(call)) {
			tap_note("the module has no %s", fuzz_call_name(call));
			continue;
		}
		if (!tally->good)
			tap_note("unmet: success of %s", fuzz_call_name(call));
		for (u32 reason = 1; reason < REASONS; reason++)
			if (fuzz_reachable(call, reason) && !tally->reasons[reason])
				tap_note("unmet: reason %u of %s", reason, fuzz_call_name(call));
	}
}

static __u64 calls_made(void)
{
	__u64 sum = 0;

	for (u32 call = 0; call < CALLS; call++) {
		sum += fuzz->tally[call].good;
		for (u32 i = 0; i < ERRORS; i++)
			sum += fuzz->tally[call].errors[i];
	}
	return sum;
}

/* ---- main ---- */

int main(int argc, char **argv)
{
	const u64 seconds = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	/* Any that is not the last one. */
	const u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : rig_now() / 1000 % 1000000;
	const u64 workers = argc > 3 ? strtoull(argv[3], NULL, 0) : WORKERS;
	u64 before[ARRAY_SIZE(traps)] = { 0 }, after;
	struct rlimit files = { 4096, 4096 };
	struct rkchain_query query;
	bool returned, same = true;
	int rk;

	if (!seconds || !workers || workers > MOST_PROCESSES - CAREFUL - 1) {
		fprintf(stderr, "usage: ioctl_fuzz SECONDS [SEED [WORKERS]]\n");
		return 2;
	}
	rig_require();
	fuzz = mmap(NULL, sizeof(*fuzz), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fuzz == MAP_FAILED)
		return 1;
	setrlimit(RLIMIT_NOFILE, &files);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	rk = rig_open();
	rig_query(rk, &query);
	close(rk);
	fuzz->capabilities = query.capabilities;
	fuzz->seed = seed;
	printf("TAP version 13\n# %llu s, seed %llu, %llu workers%s\n", (unsigned long long)seconds,
	       (unsigned long long)seed, (unsigned long long)workers,
	       fuzz_has_weather() ? "" : "; no weather, since there is no guest or no root");
	if (fuzz_has_weather())
		for (u32 i = 0; i < ARRAY_SIZE(traps); i++)
			standin_counter(traps[i], &before[i]);
	fuzz->end = rig_now() + seconds * 1000 * MS;
	if (fuzz_has_weather())
		add(run_weather, "the weather", 100);
	for (u32 i = 0; i < CAREFUL; i++)
		add(fuzz_careful, "careful", i);
	for (u32 i = 0; i < workers; i++)
		add(fuzz_worker, "worker", i);
	returned = watch();
	returned &= end_all();
	verdict(!failures, "all processes ended well");
	verdict(returned, "every call returned in time");
	print_odds();
	verdict(!fuzz->unlisted, "calls fail with what the header lists");
	verdict(fuzz->calm_hung * 100 <= fuzz->calm, "nothing fails while it is calm");
	verdict(succeeds(run_each_core), "the device works");
	verdict(succeeds(check_empty), "nothing is left when all files are closed");
	for (u32 i = 0; fuzz_has_weather() && i < ARRAY_SIZE(traps); i++) {
		standin_counter(traps[i], &after);
		if (after != before[i])
			tap_note("the stock driver's %s: %llu", traps[i],
				 (unsigned long long)(after - before[i]));
		same &= after == before[i];
	}
	verdict(same, "the stock driver's bugs were not met");
	printf("# %llu calls, %llu per second, %llu of them not as planned\n", calls_made(),
	       calls_made() / seconds, fuzz->spoilt);
	print_tallies();
	print_rest();
	note_unmet();
	printf("1..%u\n", tests);
	rig_restore();
	return failures ? 1 : 0;
}

// SPDX-License-Identifier: MIT
/*
 * The weather: what the hardware model, the stand-in driver and the module's
 * parameters do to everybody.  One kind at a time, and calm in between, so that it is
 * known what may go wrong.
 *
 * Cores hang only while no other program uses the stock driver: the module cannot
 * protect itself from what others' time-outs do.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debug.h"
#include "ioctl_fuzz.h"

bool fuzz_has_weather(void)
{
	return model_present() && standin_present() && !getuid();
}

bool fuzz_core_state(u32 core, const char *state)
{
	char path[64];
	bool ok;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/misc/rkchain/core%u/state", core);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = write(fd, state, strlen(state)) > 0;
	close(fd);
	return ok;
}

/* ---- calm ---- */

static const struct {
	const char *name;
	const char *value;
} parameters[] = {
	{ "chain_mode", "link" }, { "feed_on", "0" }, { "hang_ms", "3000" }, { "strikes", "3" },
	{ "quota_mbytes", "3072" }, { "quota_chains", "16384" }, { "quota_blocks", "262144" },
	{ "quota_jobs", "8192" },
};

/*
 * The node of the NPU: others have a driver of that name, too, and what has been
 * unbound keeps its number for a while.
 */
int fuzz_node(void)
{
	char path[64], device[PATH_MAX];
	int fd = -1;

	for (u32 i = 128; i < 192 && fd < 0; i++) {
		snprintf(path, sizeof(path), "/sys/class/drm/renderD%u/device", i);
		if (!realpath(path, device) || !strstr(device, "npu") ||
		    strstr(device, "RKNPU-other"))
			continue;
		snprintf(path, sizeof(path), "/dev/dri/renderD%u", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
	}
	return fd;
}

/* Devices of a driver of that name that are not the NPU. */
static void add_others(void)
{
	char path[64], device[PATH_MAX], name[32];

	standin_set("others", 1);
	for (u32 n = 0; n < 2; n++) {
		snprintf(name, sizeof(name), "/RKNPU-other.%u", n);
		for (u32 i = 128; i < 192; i++) {
			snprintf(path, sizeof(path), "/sys/class/drm/renderD%u/device", i);
			if (realpath(path, device) && strstr(device, name))
				snprintf(fuzz->others[n], sizeof(fuzz->others[n]),
					 "/dev/dri/renderD%u", i);
		}
	}
}

static void calm_parameters(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(parameters); i++)
		rig_set_parameter(parameters[i].name, parameters[i].value);
}

/* Waits until no core has the same job for longer than it could. */
static void await_cores(void)
{
	const u64 end = rig_soon();
	u64 before[3] = { 0 }, now, running;
	bool hung;

	do {
		hung = false;
		for (u32 i = 0; i < 3; i++) {
			char name[32];

			snprintf(name, sizeof(name), "core%u/dispatches", i);
			now = 0;
			standin_counter(name, &now);
			snprintf(name, sizeof(name), "core%u/running", i);
			running = 0;
			standin_counter(name, &running);
			hung |= running && now == before[i];
			before[i] = now;
		}
		rig_sleep(400);
	} while (hung && rig_now() < end);
	if (hung)
		FAIL("a core is busy with the same job for ever");
}

static void rebind(void)
{
	struct rig_binding binding;

	rig_find_binding(&binding);
	rig_bind(&binding, "unbind");
	rig_sleep(20);
	rig_bind(&binding, "bind");
}

static void provide(int rk)
{
	const u64 end = rig_soon();
	struct rkchain_query query;
	int node;

	do {
		rig_query(rk, &query);
		if (query.provider)
			return;
		node = fuzz_node();
		if (node >= 0) {
			rig_try_provide(rk, node);
			close(node);
		} else {
			rig_sleep(20);
		}
	} while (rig_now() < end);
	FAIL("there is no driver to provide");
}

void fuzz_settle(void)
{
	struct rkchain_query query;
	u64 dead = 0;
	int rk = rig_open();

	model_calm();
	standin_calm();
	rig_set_parameter("hang_ms", "200");
	await_cores();
	calm_parameters();
	for (u32 i = 0; i < 3; i++) {
		char name[32];
		u64 value = 0;

		fuzz_core_state(i, "usable");
		snprintf(name, sizeof(name), "core%u/dead", i);
		standin_counter(name, &value);
		dead += value;
	}
	rig_query(rk, &query);
	if (query.cores_poisoned || dead)
		rebind();
	provide(rk);
	rig_query(rk, &query);
	if (query.cores_usable != 7)
		FAIL("cores %#x are usable, %#x aside, %#x poisoned", query.cores_usable,
		     query.cores_aside, query.cores_poisoned);
	close(rk);
}

/* ---- weather ---- */

static void set_parameter_number(const char *name, u64 value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	rig_set_parameter(name, text);
}

static void any_mode(struct fuzz_dice *dice)
{
	static const char * const modes[] = { "wait", "wait41", "link", "single" };

	rig_set_parameter("chain_mode", modes[fuzz_below(dice, ARRAY_SIZE(modes))]);
	set_parameter_number("feed_on", fuzz_below(dice, 2));
}

static void pass(u64 ms)
{
	const u64 end = rig_now() + ms * MS * tap_slow();

	while (rig_now() < end && !fuzz_over())
		rig_sleep(50);
}

/* One after the other: where memory is short nobody gets as far as chains. */
static void scarce(struct fuzz_dice *dice)
{
	static const struct {
		const char *name;
		u32 most;
	} quotas[] = {
		{ "quota_mbytes", 3 }, { "quota_chains", 16 }, { "quota_blocks", 64 },
		{ "quota_jobs", 32 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(quotas); i++) {
		set_parameter_number(quotas[i].name, fuzz_below(dice, quotas[i].most));
		pass(400);
		calm_parameters();
	}
	for (u32 i = 0; i < ARRAY_SIZE(quotas); i++)
		set_parameter_number(quotas[i].name, fuzz_below(dice, 4 * quotas[i].most));
}

static void hang(struct fuzz_dice *dice)
{
	set_parameter_number("hang_ms", fuzz_percent(dice, 50) ? 20 : 20 + fuzz_below(dice, 100));
	set_parameter_number("strikes", 1 + fuzz_below(dice, 5));
	switch (fuzz_below(dice, 4)) {
	case 0:
		model_set("drop_every", 2 + fuzz_below(dice, 50));
		break;
	case 1:
		model_set("stuck_core", 1 + fuzz_below(dice, 7));
		break;
	case 2:
		model_set("wrong_status", fuzz_below(dice, 0x1000));
		break;
	default:
		model_set("drop_every", 5);
		standin_set("miss_wakeup", 1 + fuzz_below(dice, 3));
		standin_set("wake_queued", fuzz_below(dice, 2));
	}
}

/* A program of the stock driver: submits on its own, next to the module. */
static void stock_client(void)
{
	struct rig_singles singles;
	struct rig_job job;
	int rk = rig_open();

	rig_job_new(&job, rk, 2);
	rig_job_fill(&job, 1);
	rig_buf_sync(&job.a, RKCHAIN_SYNC_TO_DEVICE);
	rig_buf_sync(&job.c, RKCHAIN_SYNC_TO_DEVICE);
	rig_singles_new(&singles, &job);
	do {
		rig_singles_run(&singles);
		fuzz_count(&fuzz->actions[ACTION_STOCK]);
	} while (fuzz_weather() == STOCK && !fuzz_over());
	rig_buf_sync(&job.c, RKCHAIN_SYNC_FROM_DEVICE);
	rig_job_check(&job);
	_exit(0);
}

/* Nothing that depends on the weather before may still be under way. */
static void await_calls(void)
{
	const u64 end = rig_soon();
	bool any;

	do {
		any = false;
		for (u32 i = 0; i < SLOTS; i++) {
			const struct fuzz_slot *slot = &fuzz->slots[i];

			any |= slot->since && slot->call < CALL_NUMBERS &&
			       (slot->call == CALL_PROVIDE || slot->call == CALL_BUF_ADOPT ||
				slot->call == CALL_SELFTEST);
		}
		rig_sleep(10);
	} while (any && rig_now() < end);
}

static void change(enum fuzz_weather weather)
{
	__atomic_fetch_add(&fuzz->epoch, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&fuzz->weather, weather, __ATOMIC_SEQ_CST);
	await_calls();
}

/* It stays for a while; true when nothing was found wrong. */
static bool stormy(struct fuzz_dice *dice, enum fuzz_weather weather)
{
	pid_t clients[2] = { -1, -1 };
	bool good = true;
	int status, rk;

	any_mode(dice);
	if (weather != STOCK && fuzz_percent(dice, 50))
		model_set("latency_us", fuzz_below(dice, 3000));
	switch (weather) {
	case SCARCE:
		scarce(dice);
		break;
	case HANG:
		hang(dice);
		/* Workers let go of the driver, and without one nothing hangs. */
		rk = rig_open();
		for (u32 i = 0; i < 10; i++) {
			pass(150);
			provide(rk);
		}
		close(rk);
		break;
	case STOCK:
		for (u32 i = 0; i < ARRAY_SIZE(clients); i++) {
			clients[i] = fork();
			if (!clients[i])
				stock_client();
		}
		break;
	case RELEASE:
		add_others();
		rk = rig_open();
		for (u32 i = 0; i < 4; i++) {
			rig_try_provide(rk, -1);
			pass(200);
			provide(rk);
			pass(200);
		}
		close(rk);
		break;
	case REBIND:
		rk = rig_open();
		for (u32 i = 0; i < 3; i++) {
			rebind();
			provide(rk);
			pass(400);
		}
		close(rk);
		break;
	case POOR:
		standin_set("no_memory", 1);
		pass(500);
		standin_set("no_memory", 0);
		standin_set("iova_high", 1);
		break;
	case DOMAIN:
		standin_set("iommu_domain", 1);
		pass(fuzz_below(dice, 1500));
		standin_set("iommu_domain", 0);
		break;
	case STRAY:
		for (u32 i = 0; i < 20; i++) {
			model_set("stray", fuzz_below(dice, 8));
			pass(50);
		}
		break;
	default:
		break;
	}
	pass(500 + fuzz_below(dice, 1500));
	if (weather == STOCK)
		change(SLOW);
	for (u32 i = 0; i < ARRAY_SIZE(clients); i++)
		if (clients[i] > 0 && waitpid(clients[i], &status, 0) == clients[i] && status) {
			tap_note("a program of the stock driver: status %#x", status);
			good = false;
		}
	return good;
}

void fuzz_weather_man(u64 seed)
{
	struct fuzz_dice dice = { seed };
	u32 next = 0;

	while (!fuzz_over()) {
		const enum fuzz_weather weather = 1 + next++ % (WEATHERS - 1);

		change(weather);
		fuzz_count(&fuzz->weathers[weather]);
		fuzz_count(&fuzz->actions[ACTION_WEATHER]);
		if (!stormy(&dice, weather))
			_exit(1);
		/* Whatever comes: it is not calm before all is as it was. */
		__atomic_store_n(&fuzz->weather, SLOW, __ATOMIC_SEQ_CST);
		await_calls();
		fuzz_settle();
		__atomic_fetch_add(&fuzz->epoch, 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&fuzz->weather, CALM, __ATOMIC_SEQ_CST);
		fuzz_count(&fuzz->weathers[CALM]);
		pass(500 + fuzz_below(&dice, 1000));
	}
}

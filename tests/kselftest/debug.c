// SPDX-License-Identifier: MIT
#include "debug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"

#define MODEL	"/sys/kernel/debug/npu_model"
#define STANDIN	"/sys/kernel/debug/rknpu_standin"

bool model_present(void)
{
	return !access(MODEL "/latency_us", W_OK);
}

void model_need(void)
{
	if (!model_present())
		tap_skip("needs the hardware model (" MODEL ")");
}

static bool set(const char *folder, const char *knob, u64 value)
{
	char path[128], text[32];
	int fd, length;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", folder, knob);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	ok = write(fd, text, length) == length;
	close(fd);
	return ok;
}

void model_set(const char *knob, u64 value)
{
	if (!set(MODEL, knob, value))
		FAIL("%s/%s: %s", MODEL, knob, strerror(errno));
}

void model_calm(void)
{
	static const char * const knobs[] = {
		"latency_us", "block_us", "late_irq_us", "early", "nowait", "needs41", "late",
		"rawlate", "bad_core", "drop_every", "stuck_core", "wrong_status",
	};

	for (unsigned int i = 0; model_present() && i < ARRAY_SIZE(knobs); i++)
		set(MODEL, knobs[i], 0);
}

/* The number behind @name in a file of lines "name number". */
static bool read_counter(const char *path, const char *name, u64 *value)
{
	FILE *file = fopen(path, "re");
	unsigned long long number;
	char word[64];
	bool found = false;

	if (!file)
		return false;
	while (!found && fscanf(file, "%63s %llu", word, &number) == 2)
		found = !strcmp(word, name);
	fclose(file);
	if (found)
		*value = number;
	return found;
}

u64 model_counter(unsigned int core, const char *name)
{
	char path[128];
	u64 value = 0;

	snprintf(path, sizeof(path), MODEL "/core%u/counters", core);
	if (!read_counter(path, name, &value))
		FAIL("%s has no %s", path, name);
	return value;
}

u64 model_sum(const char *name)
{
	u64 sum = 0;

	for (unsigned int core = 0; core < MODEL_CORES; core++)
		sum += model_counter(core, name);
	return sum;
}

u64 model_log(u64 *next, void (*see)(const struct model_access *access, void *data), void *data)
{
	u64 forgotten = 0;

	for (unsigned int core = 0; core < MODEL_CORES; core++) {
		struct model_access access = { .core = core };
		unsigned long long number, iova, len;
		char path[128];
		FILE *file;

		snprintf(path, sizeof(path), MODEL "/core%u/log", core);
		file = fopen(path, "re");
		if (!file)
			FAIL("%s: %s", path, strerror(errno));
		while (fscanf(file, "%llu %15s %llx %llu", &number, access.kind, &iova,
			      &len) == 4) {
			if (number < next[core])
				continue;
			forgotten += number - next[core];
			next[core] = number + 1;
			access.number = number;
			access.iova = iova;
			access.len = len;
			if (see)
				see(&access, data);
		}
		fclose(file);
	}
	return forgotten;
}

bool standin_present(void)
{
	return !access(STANDIN "/log", R_OK);
}

void standin_need(void)
{
	if (!standin_present())
		tap_skip("needs the stand-in for the stock driver (" STANDIN ")");
}

void standin_set(const char *knob, u64 value)
{
	if (!set(STANDIN, knob, value))
		FAIL("%s/%s: %s", STANDIN, knob, strerror(errno));
}

void standin_calm(void)
{
	static const char * const knobs[] = {
		"miss_wakeup", "wake_queued", "no_memory", "iova_high", "iommu_domain", "others",
	};

	for (unsigned int i = 0; standin_present() && i < ARRAY_SIZE(knobs); i++)
		set(STANDIN, knobs[i], 0);
}

bool standin_counter(const char *name, u64 *value)
{
	char path[128], text[32] = "";
	int fd;

	if (read_counter(STANDIN "/counters", name, value))
		return true;
	snprintf(path, sizeof(path), STANDIN "/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	*value = strtoull(text, NULL, 0);
	return text[0] != 0;
}

void standin_expect(const char *name, u64 want)
{
	u64 have;

	if (standin_counter(name, &have) && have != want)
		FAIL("the driver's %s is %llu, not %llu", name, (unsigned long long)have,
		     (unsigned long long)want);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/debug/rknpu_standin: what happened, and knobs.  Both outlive an
 * unbind; a knob is read when it matters.
 */
#include <linux/debugfs.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "standin.h"

#define LOG_ENTRIES	4096

DEFINE_SPINLOCK(standin_lock);
struct standin_stats standin_stats;
struct standin_knobs standin_knobs = { .reset_ms = 120 };

static struct {
	u64 ns;
	u32 event;
	u32 core;
	s64 value;
} entries[LOG_ENTRIES];
static u64 logged;
static struct dentry *root;

void standin_count(u64 *counter)
{
	unsigned long irq;

	spin_lock_irqsave(&standin_lock, irq);
	++*counter;
	spin_unlock_irqrestore(&standin_lock, irq);
}

/* An ioctl begins. */
void standin_enter(struct drm_device *drm)
{
	unsigned long irq;

	spin_lock_irqsave(&standin_lock, irq);
	standin_stats.late_call += to_standin(drm)->gone;
	spin_unlock_irqrestore(&standin_lock, irq);
}

/* Under standin_lock. */
void standin_log(enum standin_event event, u32 core, s64 value)
{
	u32 i = logged++ % LOG_ENTRIES;

	entries[i].ns = ktime_get_ns();
	entries[i].event = event;
	entries[i].core = core;
	entries[i].value = value;
}

/* The last events, oldest first: its number, ns, what, and what that is about. */
static int log_show(struct seq_file *s, void *unused)
{
	u64 i, end, ns;
	u32 event, core;
	s64 value;

	spin_lock_irq(&standin_lock);
	end = logged;
	spin_unlock_irq(&standin_lock);
	for (i = end > LOG_ENTRIES ? end - LOG_ENTRIES : 0; i < end; i++) {
		spin_lock_irq(&standin_lock);
		ns = entries[i % LOG_ENTRIES].ns;
		event = entries[i % LOG_ENTRIES].event;
		core = entries[i % LOG_ENTRIES].core;
		value = entries[i % LOG_ENTRIES].value;
		spin_unlock_irq(&standin_lock);

		seq_printf(s, "%llu %llu ", i, ns);
		switch (event) {
		case EVENT_SUBMIT:
			seq_printf(s, "submit core %u in_window %lld\n", core, value);
			break;
		case EVENT_DISPATCH:
			seq_printf(s, "dispatch core %u tasks %lld\n", core, value);
			break;
		case EVENT_DONE:
			seq_printf(s, "done core %u took %lld\n", core, value);
			break;
		case EVENT_GIVE_UP:
			seq_printf(s, "give_up core %u error %lld\n", core, value);
			break;
		case EVENT_RESET:
			seq_printf(s, "reset %lld\n", value);
			break;
		case EVENT_WAKE:
			seq_printf(s, "reset_wake %lld\n", value);
			break;
		case EVENT_RESET_END:
			seq_printf(s, "reset_end %lld\n", value);
			break;
		}
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(log);

static int others_set(void *unused, u64 value)
{
	return standin_others_set(value);
}
DEFINE_DEBUGFS_ATTRIBUTE(others_fops, NULL, others_set, "%llu\n");

static void add_core(u32 i)
{
	struct standin_core_stats *core = &standin_stats.core[i];
	char name[] = "core0";
	struct dentry *dir;

	name[4] += i;
	dir = debugfs_create_dir(name, root);
	debugfs_create_u64("submits", 0400, dir, &core->submits);
	debugfs_create_u64("dispatches", 0400, dir, &core->dispatches);
	debugfs_create_u64("done", 0400, dir, &core->done);
	debugfs_create_u32("queued", 0400, dir, &core->queued);
	debugfs_create_u32("tombstones", 0400, dir, &core->tombstones);
	debugfs_create_u32("running", 0400, dir, &core->running);
	debugfs_create_u32("dead", 0400, dir, &core->dead);
}

void standin_debugfs_add(void)
{
	struct standin_knobs *knobs = &standin_knobs;
	struct {
		const char *name;
		u64 *value;
	} counters[] = {
		{ "actions", &standin_stats.actions },
		{ "resets", &standin_stats.resets },
		{ "resets_asked", &standin_stats.resets_asked },
		{ "time_outs", &standin_stats.time_outs },
		{ "bystanders", &standin_stats.bystanders },
		{ "missed", &standin_stats.missed },
		{ "trap", &standin_stats.trap },
		{ "freed_dispatch", &standin_stats.freed_dispatch },
		{ "oops", &standin_stats.oops },
		{ "in_window", &standin_stats.in_window },
		{ "stale", &standin_stats.stale },
		{ "late_call", &standin_stats.late_call },
		{ "late_put", &standin_stats.late_put },
		{ "objects", &standin_stats.objects },
		{ "bytes", &standin_stats.bytes },
		{ "sync_to_device", &standin_stats.to_device },
		{ "sync_from_device", &standin_stats.from_device },
		{ "last_submit_ns", &standin_stats.last_submit_ns },
	};
	u32 i;

	root = debugfs_create_dir("rknpu_standin", NULL);
	for (i = 0; i < ARRAY_SIZE(counters); i++)
		debugfs_create_u64(counters[i].name, 0400, root, counters[i].value);
	for (i = 0; i < CORES; i++)
		add_core(i);
	debugfs_create_file("log", 0400, root, NULL, &log_fops);

	debugfs_create_u32("miss_wakeup", 0600, root, &knobs->miss_wakeup);
	debugfs_create_bool("wake_queued", 0600, root, &knobs->wake_queued);
	debugfs_create_bool("no_reset", 0600, root, &knobs->no_reset);
	debugfs_create_bool("no_memory", 0600, root, &knobs->no_memory);
	debugfs_create_bool("iova_high", 0600, root, &knobs->iova_high);
	debugfs_create_file("others", 0200, root, NULL, &others_fops);
	debugfs_create_u32("reset_ms", 0600, root, &knobs->reset_ms);
	debugfs_create_u32("iommu_domain", 0600, root, &knobs->iommu_domain);
}

void standin_debugfs_remove(void)
{
	debugfs_remove_recursive(root);
}

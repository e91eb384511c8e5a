// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hardware behind the register windows of dts/guest-npu.dtsi.
 *
 * The windows are memory, so nothing happens when a driver writes there: a
 * thread per core looks.  A commit is seen by a sentinel in TASK_BASE_ADDR, the
 * last register that a driver writes before it starts the core; OP_ENABLE goes
 * to 1 and back too fast to be seen.  lib/model executes the program.
 *
 * There is no IOMMU: a DMA address is a physical one, and must be RAM.
 *
 * Locks: core.lock guards a core's log and is innermost.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/of_irq.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include "npu_core.h"

#define CORES		3
#define LOG_ENTRIES	4096
/* Neither an address that a driver would rebase by nor a mask of interrupts. */
#define SENTINEL	0x5e471e15
#define ALL_INTERRUPTS	0x1ffff
/* How late an output is that comes late. */
#define LATE_NS		(20 * NSEC_PER_MSEC)

struct access {
	u64 iova;
	u64 len;
	u32 kind;
};

struct core {
	u32 id;
	int irq;
	void __iomem *window;
	struct npu_core *npu;
	struct npu_ops ops;
	struct task_struct *thread;
	u64 commits;
	u64 interrupts;
	u64 strays;
	u64 busy_ns;
	u64 idle_since;		/* with outputs that are held back; 0 = without */
	void *held[2];
	u64 held_bytes[2];

	spinlock_t lock;	/* of the log */
	u64 logged;
	struct access *log;
};

static struct core cores[CORES];
static struct dentry *root;

/* Read once per job. */
static u32 latency_us;
static u32 block_us;
static u32 late_irq_us;
static bool early;
static bool nowait;
static bool needs41;
static bool late;
static bool rawlate;
static u32 bad_core;
static u32 drop_every;
static u32 stuck_core;
static u32 wrong_status;

static void *map(void *ctx, enum npu_access kind, u64 iova, u64 len)
{
	struct core *core = ctx;
	struct access *access;
	u64 pfn;

	spin_lock(&core->lock);
	access = &core->log[core->logged++ % LOG_ENTRIES];
	access->kind = kind;
	access->iova = iova;
	access->len = len;
	spin_unlock(&core->lock);

	/* The DMA addresses of a program have 32 bits. */
	if (!len || iova >> 32 || (iova + len - 1) >> 32)
		return NULL;
	for (pfn = PHYS_PFN(iova); pfn <= PHYS_PFN(iova + len - 1); pfn++)
		if (!pfn_is_map_memory(pfn))
			return NULL;
	return phys_to_virt(iova);
}

/* For outputs that a knob holds back.  What is held is in one of them at a time. */
static void *scratch(void *ctx, u32 which, u64 len)
{
	struct core *core = ctx;

	if (core->held_bytes[which] < len) {
		vfree(core->held[which]);
		core->held[which] = vmalloc(len);
		core->held_bytes[which] = core->held[which] ? len : 0;
	}
	return core->held[which];
}

static void raise_irq(struct core *core)
{
	if (irq_set_irqchip_state(core->irq, IRQCHIP_STATE_PENDING, true))
		pr_err_once("an interrupt could not be made pending\n");
}

static void show(struct core *core, u32 reg)
{
	writel(npu_read(core->npu, reg), core->window + reg);
}

static void show_status(struct core *core)
{
	show(core, NPU_PC_TASK_STATUS);
	show(core, NPU_PC_INT_STATUS);
	show(core, NPU_PC_INT_RAW_STATUS);
}

/* Sleeps for the latency, and not much longer when the module is to go. */
static void pass_time(u32 us)
{
	while (us && !kthread_should_stop()) {
		u32 slice = min_t(u32, us, 10000);

		usleep_range(slice, slice + slice / 8 + 1);
		us -= slice;
	}
}

static void set_knobs(struct core *core)
{
	struct npu_knobs *knobs = npu_knobs(core->npu);
	u32 every = READ_ONCE(drop_every);

	core->commits++;
	knobs->early = READ_ONCE(early);
	knobs->nowait = READ_ONCE(nowait);
	knobs->needs41 = READ_ONCE(needs41);
	knobs->late = READ_ONCE(late);
	knobs->rawlate = READ_ONCE(rawlate);
	knobs->bad = !!(READ_ONCE(bad_core) & BIT(core->id));
	knobs->drop = every && core->commits % every == 0;
	knobs->stuck = !!(READ_ONCE(stuck_core) & BIT(core->id));
	knobs->wrong_status = READ_ONCE(wrong_status);
}

static void run(struct core *core)
{
	static const u32 committed[] = {
		0x1004, 0x3004, NPU_PC_DATA_ADDR, NPU_PC_DATA_AMOUNT, NPU_PC_INT_MASK,
		NPU_PC_TASK_CON, NPU_PC_TASK_BASE_ADDR,
	};
	u64 begin = ktime_get_ns();
	u32 events, late_by, i;

	/* Only after a reset does a driver start a core that is still busy. */
	if (npu_busy(core->npu))
		npu_reset(core->npu);
	npu_settle(core->npu);
	set_knobs(core);
	npu_write(core->npu, NPU_PC_INT_CLEAR, ALL_INTERRUPTS);
	for (i = 0; i < ARRAY_SIZE(committed); i++)
		npu_write(core->npu, committed[i], readl(core->window + committed[i]));
	/* From here on the next commit can be seen. */
	writel(SENTINEL, core->window + NPU_PC_TASK_BASE_ADDR);
	npu_write(core->npu, NPU_PC_OP_ENABLE, 1);
	show_status(core);

	/* Memory is touched late, so that whoever frees it too soon is found out. */
	pass_time(READ_ONCE(latency_us));
	do {
		events = npu_step(core->npu);
		if (events & NPU_EV_BLOCK)
			pass_time(READ_ONCE(block_us));
		if (events & NPU_EV_IRQ) {
			/*
			 * Whoever takes the interrupt may commit at once, so no
			 * status is written behind it, and time ends before it.
			 */
			core->busy_ns += ktime_get_ns() - begin;
			begin = ktime_get_ns();
			core->interrupts++;
			show_status(core);
			late_by = READ_ONCE(late_irq_us);
			pass_time(late_by);
			/* A commit meanwhile follows a reset, which takes interrupts away. */
			if (!late_by || readl(core->window + NPU_PC_TASK_BASE_ADDR) == SENTINEL)
				raise_irq(core);
			if (!(events & NPU_EV_IDLE))
				pass_time(READ_ONCE(latency_us));
		}
		cond_resched();
	} while (!(events & (NPU_EV_IDLE | NPU_EV_STUCK)) && !kthread_should_stop());

	core->idle_since = late ? ktime_get_ns() : 0;
	if (events & NPU_EV_STUCK && npu_fault(core->npu)->code)
		pr_info("core %u: %s: block %u, word %u, register %#x, value %#x\n", core->id,
			npu_fault_text(npu_fault(core->npu)->code), npu_fault(core->npu)->block,
			npu_fault(core->npu)->word, npu_fault(core->npu)->reg,
			npu_fault(core->npu)->value);
}

static int work(void *data)
{
	struct core *core = data;

	while (!kthread_should_stop()) {
		u32 clear = readl(core->window + NPU_PC_INT_CLEAR);

		if (readl(core->window + NPU_PC_TASK_BASE_ADDR) != SENTINEL) {
			writel(SENTINEL, core->window + NPU_PC_INT_CLEAR);
			run(core);
			continue;
		}
		if (clear != SENTINEL) {
			writel(SENTINEL, core->window + NPU_PC_INT_CLEAR);
			npu_write(core->npu, NPU_PC_INT_CLEAR, clear);
			show(core, NPU_PC_INT_STATUS);
			show(core, NPU_PC_INT_RAW_STATUS);
		}
		if (core->idle_since && ktime_get_ns() - core->idle_since > LATE_NS) {
			npu_settle(core->npu);
			core->idle_since = 0;
		}
		usleep_range(20, 60);
	}
	return 0;
}

/* ---- debugfs ---- */

static int counters_show(struct seq_file *s, void *unused)
{
	struct core *core = s->private;
	const struct npu_counters *c = npu_counters(core->npu);

	seq_printf(s, "commits %llu\nprograms %llu\nblocks %llu\ninterrupts %llu\nstrays %llu\n",
		   core->commits, c->programs, c->blocks, core->interrupts, core->strays);
	seq_printf(s, "busy_ns %llu\nwords %llu\nread %llu\nwritten %llu\n", core->busy_ns,
		   c->words, c->bytes[NPU_FEATURE] + c->bytes[NPU_WEIGHT], c->bytes[NPU_OUTPUT]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

/* The last accesses, oldest first, each with its number. */
static int log_show(struct seq_file *s, void *unused)
{
	static const char * const kinds[NPU_ACCESSES] = {
		[NPU_FETCH] = "fetch",
		[NPU_FEATURE] = "feature",
		[NPU_WEIGHT] = "weight",
		[NPU_OUTPUT] = "output",
	};
	struct core *core = s->private;
	struct access access;
	u64 i, end;

	spin_lock(&core->lock);
	end = core->logged;
	spin_unlock(&core->lock);
	for (i = end > LOG_ENTRIES ? end - LOG_ENTRIES : 0; i < end; i++) {
		spin_lock(&core->lock);
		access = core->log[i % LOG_ENTRIES];
		spin_unlock(&core->lock);
		seq_printf(s, "%llu %s %#llx %llu\n", i, kinds[access.kind], access.iova,
			   access.len);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(log);

/* An interrupt that no job has asked for, on each core of the mask. */
static int stray_set(void *unused, u64 mask)
{
	u32 i;

	for (i = 0; i < CORES; i++)
		if (mask & BIT(i)) {
			cores[i].strays++;
			raise_irq(&cores[i]);
		}
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(stray_fops, NULL, stray_set, "%llu\n");

static void add_files(void)
{
	u32 i;

	root = debugfs_create_dir("npu_model", NULL);
	debugfs_create_u32("latency_us", 0600, root, &latency_us);
	debugfs_create_u32("block_us", 0600, root, &block_us);
	debugfs_create_u32("late_irq_us", 0600, root, &late_irq_us);
	debugfs_create_bool("early", 0600, root, &early);
	debugfs_create_bool("nowait", 0600, root, &nowait);
	debugfs_create_bool("needs41", 0600, root, &needs41);
	debugfs_create_bool("late", 0600, root, &late);
	debugfs_create_bool("rawlate", 0600, root, &rawlate);
	debugfs_create_x32("bad_core", 0600, root, &bad_core);
	debugfs_create_u32("drop_every", 0600, root, &drop_every);
	debugfs_create_x32("stuck_core", 0600, root, &stuck_core);
	debugfs_create_x32("wrong_status", 0600, root, &wrong_status);
	debugfs_create_file("stray", 0200, root, NULL, &stray_fops);
	for (i = 0; i < CORES; i++) {
		char name[] = "core0";
		struct dentry *dir;

		name[4] += i;
		dir = debugfs_create_dir(name, root);
		debugfs_create_file("counters", 0400, dir, &cores[i], &counters_fops);
		debugfs_create_file("log", 0400, dir, &cores[i], &log_fops);
	}
}

/* ---- coming and going ---- */

static void remove_core(struct core *core)
{
	if (core->thread)
		kthread_stop(core->thread);
	if (core->window)
		iounmap(core->window);
	vfree(core->held[0]);
	vfree(core->held[1]);
	vfree(core->log);
	vfree(core->npu);
}

static int add_core(struct core *core, u32 id, struct device_node *node)
{
	char name[] = "npu0_irq";
	struct task_struct *thread;

	name[3] += id;
	core->id = id;
	spin_lock_init(&core->lock);
	core->irq = of_irq_get_byname(node, name);
	if (core->irq <= 0)
		return core->irq ?: -ENXIO;
	core->window = of_iomap(node, id);
	core->npu = vzalloc(npu_core_size());
	core->log = vzalloc(array_size(LOG_ENTRIES, sizeof(*core->log)));
	if (!core->window || !core->npu || !core->log)
		return -ENOMEM;

	core->ops.map = map;
	core->ops.scratch = scratch;
	core->ops.ctx = core;
	npu_init(core->npu, id, &core->ops);
	show(core, NPU_PC_VERSION);
	show(core, NPU_PC_VERSION_NUM);
	show_status(core);
	writel(SENTINEL, core->window + NPU_PC_INT_CLEAR);
	writel(SENTINEL, core->window + NPU_PC_TASK_BASE_ADDR);

	thread = kthread_run(work, core, "npu_model/%u", id);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	core->thread = thread;
	return 0;
}

static void __exit npu_model_exit(void)
{
	u32 i;

	debugfs_remove_recursive(root);
	for (i = 0; i < CORES; i++)
		remove_core(&cores[i]);
}

static int __init npu_model_init(void)
{
	struct device_node *node = of_find_compatible_node(NULL, NULL, "rockchip,rk3588-rknpu");
	int ret = 0;
	u32 i;

	if (!node)
		return -ENODEV;
	for (i = 0; i < CORES && !ret; i++)
		ret = add_core(&cores[i], i, node);
	of_node_put(node);
	if (ret) {
		while (i--)
			remove_core(&cores[i]);
		return ret;
	}
	add_files();
	return 0;
}

module_init(npu_model_init);
module_exit(npu_model_exit);
MODULE_DESCRIPTION("RK3588 NPU at register level, for tests in a virtual machine");
MODULE_LICENSE("GPL");

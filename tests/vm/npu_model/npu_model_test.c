// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs the golden vector on each core of npu_model as a driver would: registers
 * in the stock driver's order, interrupt, status, result.  Loading is the test;
 * the verdicts are TAP lines in the kernel log.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/gfp.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/of_irq.h>
#include <linux/string.h>

#include "golden.h"
#include "npu.h"

#define CORES		3
#define DONE		(NPU_INT_DPU_0 | NPU_INT_DPU_1)

/* Entries of the golden program that are addresses, and what they point to. */
#define ENTRY_A		25
#define ENTRY_B		34
#define ENTRY_C		61

struct job {
	void __iomem *window;
	struct completion done;
	u32 status;
	u32 counter;
};

enum { PROGRAM, A, B, C, PAGES };

static irqreturn_t handler(int irq, void *data)
{
	struct job *job = data;
	u32 status;

	/* One that nobody has asked for is not this job's. */
	status = readl(job->window + NPU_PC_INT_STATUS);
	if (!status)
		return IRQ_NONE;
	job->status = status;
	job->counter = readl(job->window + NPU_PC_TASK_STATUS);
	writel(0x1ffff, job->window + NPU_PC_INT_CLEAR);
	complete(&job->done);
	return IRQ_HANDLED;
}

static void commit(void __iomem *w, u32 core, u32 program)
{
	/* In the order of the stock driver. */
	writel(1, w + NPU_PC_DATA_ADDR);
	writel(0xe + (core << 28), w + 0x1004);
	writel(0xe + (core << 28), w + 0x3004);
	writel(program, w + NPU_PC_DATA_ADDR);
	writel(ARRAY_SIZE(golden_regcmd) / 2 - 1, w + NPU_PC_DATA_AMOUNT);
	writel(DONE, w + NPU_PC_INT_MASK);
	writel(DONE, w + NPU_PC_INT_CLEAR);
	writel(6 << 12 | 1, w + NPU_PC_TASK_CON);
	writel(0, w + NPU_PC_TASK_BASE_ADDR);
	writel(1, w + NPU_PC_OP_ENABLE);
	writel(0, w + NPU_PC_OP_ENABLE);
}

static u64 entry(u64 old, const void *page)
{
	return (old & ~GENMASK_ULL(47, 16)) | (u64)(u32)virt_to_phys(page) << 16;
}

static u32 equal_words(const u8 *c)
{
	u32 i, equal = 0;

	for (i = 0; i < sizeof(golden_c); i += sizeof(u32))
		equal += !memcmp(c + i, golden_c + i, sizeof(u32));
	return equal;
}

/* Once with all memory in place, once with B where there is none. */
static void run(struct job *job, u32 core, void **page, bool bad)
{
	u64 *program = page[PROGRAM];
	bool in_time, ok;
	u32 equal;

	memcpy(program, golden_regcmd, sizeof(golden_regcmd));
	memcpy(page[A], golden_a, sizeof(golden_a));
	memcpy(page[B], golden_b, sizeof(golden_b));
	memset(page[C], 0xa5, PAGE_SIZE);
	program[ENTRY_A] = entry(program[ENTRY_A], page[A]);
	program[ENTRY_B] = entry(program[ENTRY_B], page[B]);
	program[ENTRY_C] = entry(program[ENTRY_C], page[C]);
	if (bad)	/* a device: the first bytes of the map are no RAM */
		program[ENTRY_B] &= ~GENMASK_ULL(47, 16);

	reinit_completion(&job->done);
	job->status = 0;
	commit(job->window, core, virt_to_phys(program));
	in_time = wait_for_completion_timeout(&job->done, 5 * HZ);
	equal = equal_words(page[C]);
	if (bad)
		ok = in_time && job->status == NPU_INT_DMA_READ_ERROR && !equal;
	else
		ok = in_time && job->status && !(job->status & ~DONE) && job->counter == 1 &&
		     equal == sizeof(golden_c) / sizeof(u32);
	pr_info("%sok %u - core %u%s: %s, status %#x, counter %u, %u of %zu words equal\n",
		ok ? "" : "not ", 2 * core + bad + 1, core, bad ? ", address that is no RAM" : "",
		in_time ? "interrupt" : "time-out", job->status, job->counter, equal,
		sizeof(golden_c) / sizeof(u32));
}

static int test_core(struct device_node *node, u32 core, void **page)
{
	char name[] = "npu0_irq";
	struct job job = {};
	int irq, ret;

	name[3] += core;
	irq = of_irq_get_byname(node, name);
	if (irq <= 0)
		return irq ?: -ENXIO;
	init_completion(&job.done);
	job.window = of_iomap(node, core);
	if (!job.window)
		return -ENOMEM;
	ret = request_irq(irq, handler, 0, KBUILD_MODNAME, &job);
	if (!ret) {
		run(&job, core, page, false);
		run(&job, core, page, true);
		free_irq(irq, &job);
	}
	iounmap(job.window);
	return ret;
}

static int __init npu_model_test_init(void)
{
	struct device_node *node = of_find_compatible_node(NULL, NULL, "rockchip,rk3588-rknpu");
	void *page[PAGES] = {};
	int ret = 0, err;
	u32 i;

	if (!node)
		return -ENODEV;
	for (i = 0; i < PAGES; i++) {
		/* The DMA addresses of a program have 32 bits. */
		page[i] = (void *)get_zeroed_page(GFP_KERNEL | GFP_DMA32);
		if (!page[i])
			ret = -ENOMEM;
	}
	for (i = 0; i < CORES && ret != -ENOMEM; i++) {
		err = test_core(node, i, page);
		ret = ret ?: err;
	}
	for (i = 0; i < PAGES; i++)
		free_page((unsigned long)page[i]);
	of_node_put(node);
	return ret;
}

static void __exit npu_model_test_exit(void)
{
}

module_init(npu_model_test_init);
module_exit(npu_model_test_exit);
MODULE_DESCRIPTION("Test of npu_model");
MODULE_LICENSE("GPL");

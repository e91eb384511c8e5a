// SPDX-License-Identifier: MIT
/*
 * soak: a client of the stock driver, which hangs now and then, times out and so has
 * the driver reset the NPU.  On core 0 alone, where the driver unlinks what gives up.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "soak.h"

#define M	4u
#define K	32u
#define N	32u
#define TOO_SHORT	8u	/* words, none of which starts anything */

struct stock {
	int node;
	struct rig_stock_buf a;
	struct rig_stock_buf b;
	struct rig_stock_buf c;
	struct rig_stock_buf program;
	struct rig_stock_buf tasks;
};

/* Two tasks: a good one, and one that ends before it has started anything. */
static void open_stock(struct stock *s)
{
	const u32 flags = RKNPU_MEM_NON_CONTIGUOUS | RKNPU_MEM_WRITE_COMBINE |
			  RKNPU_MEM_KERNEL_MAPPING;
	struct rkc_matmul d = {
		.type = RKC_I8_I32, .layout = RKC_FLAT, .m = M, .k = K, .n = N, .m_total = M,
	};
	struct rknpu_task *tasks;

	s->node = rig_node();
	ASSERT(s->node >= 0);
	rig_stock_buf(s->node, RIG_PAGE, flags, &s->a);
	rig_stock_buf(s->node, RIG_PAGE, flags, &s->b);
	rig_stock_buf(s->node, RIG_PAGE, flags, &s->c);
	rig_stock_buf(s->node, RIG_PAGE, flags, &s->program);
	rig_stock_buf(s->node, RIG_PAGE, flags, &s->tasks);
	d.a = s->a.iova;
	d.b = s->b.iova;
	d.c = s->c.iova;
	ASSERT_EQ(rkc_chain_emit(RKC_SINGLE, &d, 1, s->program.iova, s->program.map, NULL),
		  RKC_OK);
	tasks = s->tasks.map;
	for (u32 i = 0; i < 2; i++) {
		tasks[i].int_mask = RKNPU_INT_DPU;
		tasks[i].regcfg_amount = i ? TOO_SHORT : RKC_BODY_WORDS;
		tasks[i].regcmd_addr = s->program.iova;
	}
}

static void close_stock(struct stock *s)
{
	const struct rig_stock_buf *bufs[] = { &s->a, &s->b, &s->c, &s->program, &s->tasks };

	for (u32 i = 0; i < ARRAY_SIZE(bufs); i++)
		munmap(bufs[i]->map, bufs[i]->size);
	close(s->node);
	s->node = -1;
}

static void check(const struct stock *s)
{
	const s8 *a = s->a.map, *b = s->b.map;
	const s32 *c = s->c.map;

	for (u32 i = 0; i < M * N; i++)
		if (c[i] != rig_dot(a + i / N * K, b, K, i % N)) {
			soak_wrong(SOAK_STOCK, "a stock client's output [%u, %u] is %d, not %d",
				   i / N, i % N, c[i], rig_dot(a + i / N * K, b, K, i % N));
			return;
		}
}

static void submit(struct stock *s, u32 *random)
{
	const bool hang = soak_get(soak->hang) && soak_chance(random, 4);
	const u32 timeout_ms = 200 + soak_below(random, 300);
	int ret;

	for (u32 i = 0; i < M * K; i++)
		((s8 *)s->a.map)[i] = soak_random(random) >> 24;
	for (u32 i = 0; i < K * N; i++)
		((s8 *)s->b.map)[i] = soak_random(random) >> 24;
	memset(s->c.map, 0xa5, s->c.size);
	ret = rig_try_stock_submit(s->node, s->tasks.obj_addr, hang, 1, 0, timeout_ms);
	if (!ret && !hang)
		check(s);
	if (!ret && hang)
		soak_wrong(SOAK_STOCK, "a stock client's program that hangs came back");
	if (ret && ret != -ETIMEDOUT && ret != -EINVAL)
		soak_wrong(SOAK_STOCK, "what a stock client gave the driver: %s", strerror(-ret));
	if (ret)
		soak_add(soak->stock_bad, 1);
	else
		soak_add(soak->stock_good, 1);
}

void soak_stock(u32 seed)
{
	struct stock s = { .node = -1 };
	u32 random = seed | 1;

	while (!soak_get(soak->stop)) {
		if (soak_get(soak->beside)) {
			if (s.node < 0) {
				open_stock(&s);
				soak_add(soak->present, 1);
			}
			submit(&s, &random);
			rig_sleep(soak_below(&random, 40));
		} else {
			if (s.node >= 0) {
				close_stock(&s);
				soak_add(soak->present, -1);
			}
			rig_sleep(10);
		}
	}
	if (s.node >= 0) {
		close_stock(&s);
		soak_add(soak->present, -1);
	}
}

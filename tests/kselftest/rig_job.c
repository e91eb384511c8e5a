// SPDX-License-Identifier: MIT
#include "rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "debug.h"

/* ---- buffers ---- */

int rig_try_buf(int rk, struct rkchain_buf_create *create)
{
	return rig_try(rk, RKCHAIN_IOCTL_BUF_CREATE, create);
}

void rig_buf_new(struct rig_buf *buf, int rk, u64 size)
{
	struct rkchain_buf_create create = { .size = size };
	int ret = rig_try_buf(rk, &create);

	if (ret)
		FAIL("BUF_CREATE of %llu bytes: %s, reason %u", (unsigned long long)size,
		     strerror(-ret), create.report.reason);
	buf->rk = rk;
	buf->id = create.id;
	buf->iova = create.iova;
	buf->size = (size + RIG_PAGE - 1) / RIG_PAGE * RIG_PAGE;
	buf->fd = create.fd;
	rig_buf_map(buf);
}

void rig_buf_map(struct rig_buf *buf)
{
	buf->map = mmap(NULL, buf->size, PROT_READ | PROT_WRITE, MAP_SHARED, buf->fd, 0);
	if (buf->map == MAP_FAILED)
		FAIL("mmap of a dma-buf: %s", strerror(errno));
}

void rig_buf_sync(const struct rig_buf *buf, u32 direction)
{
	struct rkchain_buf_sync sync = { .id = buf->id, .direction = direction };

	ASSERT_EQ(rig_try(buf->rk, RKCHAIN_IOCTL_BUF_SYNC, &sync), 0);
}

int rig_try_destroy(int rk, u32 id)
{
	struct rkchain_id argument = { .id = id };

	return rig_try(rk, RKCHAIN_IOCTL_BUF_DESTROY, &argument);
}

void rig_buf_free(struct rig_buf *buf)
{
	munmap(buf->map, buf->size);
	close(buf->fd);
	ASSERT_EQ(rig_try_destroy(buf->rk, buf->id), 0);
}

/* ---- jobs ---- */

void rig_job_shape(struct rig_job *job, int rk, u32 m, u32 k, u32 n, u32 count)
{
	const u64 a_bytes = (u64)m * k, b_bytes = (u64)k * n, c_bytes = 4ULL * m * n;

	memset(job, 0, sizeof(*job));
	job->rk = rk;
	job->m = m;
	job->k = k;
	job->n = n;
	job->count = count;
	rig_buf_new(&job->a, rk, a_bytes * count);
	rig_buf_new(&job->b, rk, b_bytes * count);
	rig_buf_new(&job->c, rk, c_bytes * count);
	job->uses[0].id = job->a.id;
	job->uses[0].flags = RKCHAIN_USE_READ | RKCHAIN_USE_SYNC;
	job->uses[1].id = job->b.id;
	job->uses[1].flags = RKCHAIN_USE_READ;
	job->uses[2].id = job->c.id;
	job->uses[2].flags = RKCHAIN_USE_WRITE | RKCHAIN_USE_SYNC;

	job->blocks = calloc(count, sizeof(*job->blocks));
	job->nwords = (count - 1) * RKC_WAIT_STRIDE + RKC_FULL_WORDS;
	job->words = calloc(job->nwords, sizeof(*job->words));
	ASSERT(job->blocks && job->words);
	for (u32 i = 0; i < count; i++) {
		struct rkc_matmul *d = &job->blocks[i];

		d->type = RKC_I8_I32;
		d->layout = RKC_FLAT;
		d->m = m;
		d->k = k;
		d->n = n;
		d->m_total = m;
		d->a = job->a.iova + i * a_bytes;
		d->b = job->b.iova + i * b_bytes;
		d->c = job->c.iova + i * c_bytes;
		ASSERT_EQ(rkc_matmul_check(d, NULL), RKC_OK);
		if (i < RKC_WAIT_MAX)
			rkc_chain_append(job->words, i, d);
	}
}

void rig_job_new(struct rig_job *job, int rk, u32 count)
{
	rig_job_shape(job, rk, 4, 32, 32, count);
}

static u32 next_random(u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void fill_random(void *map, u64 bytes, u32 seed)
{
	u32 state = seed * 2654435761u | 1;
	u8 *to = map;

	for (u64 i = 0; i < bytes; i++)
		to[i] = next_random(&state) >> 24;
}

void rig_job_refill(struct rig_job *job, u32 seed)
{
	fill_random(job->a.map, (u64)job->m * job->k * job->count, seed);
	memset(job->c.map, 0xa5, job->c.size);
}

void rig_job_fill(struct rig_job *job, u32 seed)
{
	rig_job_refill(job, seed);
	fill_random(job->b.map, (u64)job->k * job->n * job->count, seed + 0x8000);
	rig_buf_sync(&job->b, RKCHAIN_SYNC_TO_DEVICE);
}

void rig_job_request(const struct rig_job *job, struct rkchain_chain_create *create)
{
	memset(create, 0, sizeof(*create));
	create->programs = (uintptr_t)job->words;
	create->size = 8ULL * job->nwords;
	create->count = job->count;
	create->stride = RKC_WAIT_STRIDE;
	create->body = RKC_BODY_WORDS;
	create->buffers = (uintptr_t)job->uses;
	create->buffer_count = ARRAY_SIZE(job->uses);
}

int rig_try_create(int rk, struct rkchain_chain_create *create)
{
	return rig_try(rk, RKCHAIN_IOCTL_CHAIN_CREATE, create);
}

void rig_job_register(struct rig_job *job)
{
	struct rkchain_chain_create create;
	int ret;

	rig_job_request(job, &create);
	ret = rig_try_create(job->rk, &create);
	if (ret)
		FAIL("CHAIN_CREATE of %u blocks: %s, %s, block %u, word %u", job->count,
		     strerror(-ret), rkc_reason_name(create.report.reason), create.report.block,
		     create.report.word);
	job->chain = create.id;
}

void rig_clones(struct rig_job *job, u32 count, u32 *chains)
{
	for (u32 i = 0; i < ARRAY_SIZE(job->uses); i++)
		job->uses[i].flags &= ~RKCHAIN_USE_SYNC;
	rig_buf_sync(&job->a, RKCHAIN_SYNC_TO_DEVICE);
	rig_buf_sync(&job->c, RKCHAIN_SYNC_TO_DEVICE);
	for (u32 i = 0; i < count; i++) {
		rig_job_register(job);
		chains[i] = job->chain;
	}
}

void rig_queue_open(struct rig_queue *q, u32 count)
{
	ASSERT(count <= ARRAY_SIZE(q->chains));
	q->rk = rig_open();
	rig_job_new(&q->job, q->rk, 1);
	rig_job_fill(&q->job, 1);
	rig_clones(&q->job, count, q->chains);
}

u32 rig_b_index(u32 k, u32 row, u32 column)
{
	return column / 32 * 32 * k + row / 32 * 32 * 32 + column % 32 * 32 + row % 32;
}

s32 rig_dot(const s8 *a, const s8 *packed_b, u32 k, u32 column)
{
	s32 sum = 0;

	for (u32 row = 0; row < k; row++)
		sum += a[row] * packed_b[rig_b_index(k, row, column)];
	return sum;
}

u64 rig_job_wrong(const struct rig_job *job)
{
	const s8 *a = job->a.map, *b = job->b.map;
	const s32 *c = job->c.map;
	u64 wrong = 0;

	for (u32 i = 0; i < job->count; i++) {
		for (u32 row = 0; row < job->m; row++)
			for (u32 column = 0; column < job->n; column++) {
				const s32 want = rig_dot(a + (u64)row * job->k, b, job->k, column);
				const s32 have = c[(u64)row * job->n + column];

				if (have != want && !wrong++)
					tap_note("block %u [%u, %u] is %d, not %d", i, row,
						 column, have, want);
			}
		a += (u64)job->m * job->k;
		b += (u64)job->k * job->n;
		c += (u64)job->m * job->n;
	}
	return wrong;
}

void rig_job_check(const struct rig_job *job)
{
	ASSERT_EQ(rig_job_wrong(job), 0);
}

void rig_job_run(struct rig_job *job)
{
	struct rkchain_completion done;

	rig_wait_good(job->rk, rig_submit(job->rk, job->chain, 1, 0, 0), 1, &done);
	rig_job_check(job);
}

void rig_job_free(struct rig_job *job)
{
	if (job->chain)
		ASSERT_EQ(rig_try_destroy_chain(job->rk, job->chain), 0);
	rig_buf_free(&job->a);
	rig_buf_free(&job->b);
	rig_buf_free(&job->c);
	free(job->blocks);
	free(job->words);
}

void rig_job_unmap(struct rig_job *job)
{
	struct rig_buf *bufs[] = { &job->a, &job->b, &job->c };

	for (u32 i = 0; i < ARRAY_SIZE(bufs); i++) {
		if (bufs[i]->map)
			munmap(bufs[i]->map, bufs[i]->size);
		if (bufs[i]->fd >= 0)
			close(bufs[i]->fd);
		bufs[i]->map = NULL;
		bufs[i]->fd = -1;
	}
}

void rig_still_works(void)
{
	int rk = rig_open();
	struct rig_job job;

	rig_job_new(&job, rk, 3);
	rig_job_fill(&job, 4711);
	rig_job_register(&job);
	rig_job_run(&job);
	rig_job_free(&job);
	close(rk);
}

/* ---- submits and waits ---- */

int rig_try_submit(int rk, struct rkchain_submit *submit)
{
	return rig_try(rk, RKCHAIN_IOCTL_SUBMIT, submit);
}

u64 rig_submit_all(int rk, const u32 *chains, u32 count, const struct rkchain_submit *how)
{
	struct rkchain_submit submit = { 0 };
	int ret;

	if (how)
		submit = *how;
	submit.chains = (uintptr_t)chains;
	submit.count = count;
	ret = rig_try_submit(rk, &submit);
	if (ret)
		FAIL("SUBMIT of %u chains: %s, reason %u, value %llu, limit %llu", count,
		     strerror(-ret), submit.report.reason, submit.report.value,
		     submit.report.limit);
	return submit.first;
}

u64 rig_submit(int rk, u32 chain, u32 count, u32 core_mask, u32 flags)
{
	const struct rkchain_submit how = { .core_mask = core_mask, .flags = flags };
	u32 *chains = calloc(count, sizeof(*chains));
	u64 first;

	ASSERT(chains);
	for (u32 i = 0; i < count; i++)
		chains[i] = chain;
	first = rig_submit_all(rk, chains, count, &how);
	free(chains);
	return first;
}

int rig_try_wait(int rk, struct rkchain_wait *wait)
{
	return rig_try(rk, RKCHAIN_IOCTL_WAIT, wait);
}

void rig_wait(int rk, u64 first, u32 count, struct rkchain_completion *done)
{
	struct rkchain_wait wait = {
		.first = first,
		.count = count,
		.deadline_ns = rig_soon(),
		.completions = (uintptr_t)done,
	};
	int ret = rig_try_wait(rk, &wait);

	if (ret)
		FAIL("WAIT for %u from %llu: %s, reason %u", count, (unsigned long long)first,
		     strerror(-ret), wait.report.reason);
	ASSERT_EQ(wait.done, count);
	for (u32 i = 0; i < count; i++)
		ASSERT_EQ(done[i].sequence, first + i);
}

void rig_wait_good(int rk, u64 first, u32 count, struct rkchain_completion *done)
{
	rig_wait(rk, first, count, done);
	for (u32 i = 0; i < count; i++)
		if (done[i].status || done[i].flags)
			FAIL("chain %llu ended with %s on core %u after %u retries, flags %u",
			     done[i].sequence, strerror(-done[i].status), done[i].core,
			     done[i].retries, done[i].flags);
}

int rig_try_destroy_chain(int rk, u32 id)
{
	struct rkchain_id argument = { .id = id };

	return rig_try(rk, RKCHAIN_IOCTL_CHAIN_DESTROY, &argument);
}

// SPDX-License-Identifier: MIT
/*
 * soak: chains whose outputs tell how often they were run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "soak.h"

#define N		32u
#define TILES		8u	/* weights that the blocks share */
#define ROWS_MAX	4u
#define K_MAX		64u
#define SENTINEL	0xa5

u32 soak_random(u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

u32 soak_below(u32 *state, u32 limit)
{
	return (soak_random(state) >> 8) % limit;
}

bool soak_chance(u32 *state, u32 percent)
{
	return soak_below(state, 100) < percent;
}

static int try_buffer(struct rig_buf *buf, int rk, u64 size)
{
	struct rkchain_buf_create create = { .size = size };
	int ret = rig_try_buf(rk, &create);

	if (ret)
		return ret;
	buf->rk = rk;
	buf->id = create.id;
	buf->iova = create.iova;
	buf->size = (size + RIG_PAGE - 1) / RIG_PAGE * RIG_PAGE;
	buf->fd = create.fd;
	buf->map = mmap(NULL, buf->size, PROT_READ | PROT_WRITE, MAP_SHARED, buf->fd, 0);
	if (buf->map == MAP_FAILED) {
		/* The driver has gone in between. */
		buf->map = NULL;
		return -ENODEV;
	}
	return 0;
}

static u32 random_count(u32 *random)
{
	const u32 kind = soak_below(random, 100);

	if (kind < 70)
		return 1 + soak_below(random, 4);
	if (kind < 92)
		return 5 + soak_below(random, 28);
	if (kind < 98)
		return 33 + soak_below(random, 160);
	return kind == 98 ? 193 + soak_below(random, 998) : RKC_WAIT_MAX;
}

static void fill(void *map, u64 bytes, u32 *random)
{
	u32 *to = map;

	for (u64 i = 0; i < bytes / 4; i++)
		to[i] = soak_random(random);
}

static int try_sync(const struct rig_buf *buf, u32 direction)
{
	struct rkchain_buf_sync sync = { .id = buf->id, .direction = direction };

	return rig_try(buf->rk, RKCHAIN_IOCTL_BUF_SYNC, &sync);
}

static int try_register(struct soak_job *job)
{
	const u32 a_bytes = job->m * job->k, b_bytes = job->k * N, c_bytes = 4 * job->m * N;
	struct rkchain_buf_use uses[] = {
		{ job->a.id, RKCHAIN_USE_READ | RKCHAIN_USE_SYNC },
		{ job->b.id, RKCHAIN_USE_READ },
		{ job->c.id, RKCHAIN_USE_WRITE | RKCHAIN_USE_SYNC },
	};
	struct rkchain_chain_create create = {
		.count = job->count,
		.stride = RKC_WAIT_STRIDE,
		.body = RKC_BODY_WORDS,
		.buffers = (uintptr_t)uses,
		.buffer_count = ARRAY_SIZE(uses),
	};
	const u32 words = (job->count - 1) * RKC_WAIT_STRIDE + RKC_FULL_WORDS;
	u64 *program = malloc(8ULL * words);
	int ret;

	ASSERT(program);
	for (u32 i = 0; i < job->count; i++) {
		struct rkc_matmul d = {
			.type = RKC_I8_I32,
			.layout = RKC_FLAT,
			.m = job->m,
			.k = job->k,
			.n = N,
			.m_total = job->m,
			.a = job->a.iova + i * a_bytes,
			.b = job->b.iova + i % TILES * b_bytes,
			.c = job->c.iova + i * c_bytes,
		};

		if (!i && !job->replayable) {
			d.a = job->c.iova + (job->count - 1) * c_bytes;
			uses[2].flags |= RKCHAIN_USE_READ;
		}
		ASSERT_EQ(rkc_matmul_check(&d, NULL), RKC_OK);
		rkc_chain_append(program, i, &d);
	}
	create.programs = (uintptr_t)program;
	create.size = 8ULL * words;
	ret = rig_try_create(job->rk, &create);
	free(program);
	if (ret)
		return ret;
	ASSERT_EQ(!!(create.found & RKCHAIN_CHAIN_REPLAYABLE), job->replayable);
	job->chain = create.id;
	return 0;
}

int soak_job_try_new(struct soak_job *job, int rk, u32 *random)
{
	int ret;

	memset(job, 0, sizeof(*job));
	job->a.fd = -1;
	job->b.fd = -1;
	job->c.fd = -1;
	job->rk = rk;
	job->count = random_count(random);
	job->m = job->count > 32 ? 1 : 1u << soak_below(random, 3);
	job->k = job->count > 32 ? 32 : 32u << soak_below(random, 2);
	job->replayable = job->count < 2 || soak_chance(random, 60);
	ret = try_buffer(&job->a, rk, (u64)job->m * job->k * job->count);
	if (!ret)
		ret = try_buffer(&job->b, rk, (u64)TILES * job->k * N);
	if (!ret)
		ret = try_buffer(&job->c, rk, 4ULL * job->m * N * job->count);
	if (!ret) {
		fill(job->b.map, job->b.size, random);
		ret = try_sync(&job->b, RKCHAIN_SYNC_TO_DEVICE);
	}
	if (!ret)
		ret = try_register(job);
	if (ret)
		soak_job_free(job);
	return ret;
}

void soak_job_fill(struct soak_job *job, u32 *random)
{
	fill(job->a.map, (u64)job->m * job->k * job->count, random);
	memset(job->c.map, SENTINEL, job->c.size);
}

static s32 dot(const s8 *a, const s8 *b, u32 k, u32 column)
{
	s32 sum = 0;

	for (u32 row = 0; row < k; row += 32) {
		const s8 *tile = b + rig_b_index(k, row, column);

		for (u32 i = 0; i < 32; i++)
			sum += a[row + i] * tile[i];
	}
	return sum;
}

static u64 wrong_in(const struct soak_job *job, u32 block, bool failed, u32 first, u32 step)
{
	static s8 sentinel[ROWS_MAX * K_MAX];
	const bool feeds = !block && !job->replayable;
	const s8 *b = (const s8 *)job->b.map + block % TILES * job->k * N;
	const s8 *a = (const s8 *)job->a.map + block * job->m * job->k;
	const s32 *c = (const s32 *)job->c.map + block * job->m * N;
	const s32 missing = (s32)(SENTINEL * 0x01010101u);
	u64 wrong = 0;

	if (feeds) {
		/* What was there before the one run that it may have had. */
		memset(sentinel, SENTINEL, sizeof(sentinel));
		a = sentinel;
	}
	for (u32 i = first; i < job->m * N; i += step) {
		const s32 have = __atomic_load_n(&c[i], __ATOMIC_RELAXED);
		const s32 want = dot(a + i / N * job->k, b, job->k, i % N);

		if (have == want || (failed && have == missing))
			continue;
		if (!wrong++)
			tap_note("block %u of %u, m %u, k %u%s [%u, %u] is %d%s, not %d", block,
				 job->count, job->m, job->k, feeds ? ", fed" : "", i / N, i % N,
				 have, have == missing ? " (missing)" : "", want);
	}
	return wrong;
}

u64 soak_job_wrong(const struct soak_job *job, bool failed, u32 *random)
{
	u64 wrong = 0;

	/* Nothing has been invalidated for it. */
	if (failed && try_sync(&job->c, RKCHAIN_SYNC_FROM_DEVICE))
		return 0;
	for (u32 i = 0; i < job->count && !wrong; i++) {
		const bool all = job->count <= 32 || !i || i + 1 == job->count ||
				 soak_chance(random, 2);

		wrong += wrong_in(job, i, failed, all ? 0 : soak_below(random, N), all ? 1 : N);
	}
	return wrong;
}

static void unmap(struct rig_buf *buf)
{
	if (buf->map)
		munmap(buf->map, buf->size);
	if (buf->fd >= 0)
		close(buf->fd);
	buf->map = NULL;
	buf->fd = -1;
}

void soak_job_unmap(struct soak_job *job)
{
	unmap(&job->a);
	unmap(&job->b);
	unmap(&job->c);
	job->chain = 0;
}

void soak_job_free(struct soak_job *job)
{
	const struct rig_buf *bufs[] = { &job->a, &job->b, &job->c };

	if (job->chain && rig_try_destroy_chain(job->rk, job->chain))
		soak_wrong(SOAK_CALLS, "CHAIN_DESTROY failed");
	for (u32 i = 0; i < ARRAY_SIZE(bufs); i++)
		if (bufs[i]->fd >= 0 && rig_try_destroy(job->rk, bufs[i]->id))
			soak_wrong(SOAK_CALLS, "BUF_DESTROY failed");
	soak_job_unmap(job);
}

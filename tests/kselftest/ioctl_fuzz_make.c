// SPDX-License-Identifier: MIT
/*
 * Makes a call: a good one by the grammar, which is then spoilt in one place or in
 * all, handed over, and looked at.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ioctl_fuzz.h"

#define ANY_UNMAPPED	((void *)0x10000UL)

/* ---- chance ---- */

u64 fuzz_random(struct fuzz_dice *dice)
{
	u64 x = dice->state ? dice->state : 1;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	dice->state = x;
	return x * 0x2545f4914f6cdd1dULL >> 8;
}

u64 fuzz_boundary(struct fuzz_dice *dice)
{
	static const u64 special[] = {
		0, 1, 2, 3, 4, 7, 8, 15, 16, 63, 64, 104, 108, 110, 112, 255, 256, 257, 1023, 1024,
		1025, 1190, 1191, 1192, 4095, 4096, 4097, 65535, 65536, 0x7fffffff, 0x80000000,
		0xfffffff8, 0xffffffff, 0x100000000ULL, 0xfffffffffULL, 0x7fffffffffffffffULL,
		0x8000000000000000ULL, ~7ULL, ~0ULL - 1, ~0ULL,
	};

	if (fuzz_percent(dice, 70))
		return special[fuzz_below(dice, ARRAY_SIZE(special))];
	return fuzz_random(dice) >> fuzz_below(dice, 56);
}

/* ---- what there is ---- */

bool fuzz_pick_buf(struct fuzz_try *t, struct fuzz_buf *buf)
{
	struct fuzz_pool *pool = t->pool;
	const u32 from = fuzz_below(&t->dice, BUFS);
	bool found = false;

	pthread_mutex_lock(&pool->lock);
	for (u32 i = 0; !found && i < BUFS; i++) {
		*buf = pool->bufs[(from + i) % BUFS];
		found = buf->id && buf->file == t->file;
	}
	pthread_mutex_unlock(&pool->lock);
	return found;
}

u32 fuzz_pick_chain(struct fuzz_try *t)
{
	struct fuzz_pool *pool = t->pool;
	const u32 from = fuzz_below(&t->dice, CHAINS);
	u32 id = 0;

	pthread_mutex_lock(&pool->lock);
	for (u32 i = 0; !id && i < CHAINS; i++) {
		const struct fuzz_chain *chain = &pool->chains[(from + i) % CHAINS];

		if (chain->file == t->file)
			id = chain->id;
	}
	pthread_mutex_unlock(&pool->lock);
	return id;
}

enum fuzz_call fuzz_choose(struct fuzz_dice *dice)
{
	u32 sum = 2, die, call;

	for (call = 0; call < CALL_NUMBERS; call++)
		sum += fuzz_grammar[call].weight;
	die = fuzz_below(dice, sum);
	for (call = 0; call < CALL_NUMBERS && die >= fuzz_grammar[call].weight; call++)
		die -= fuzz_grammar[call].weight;
	return call;
}

/* ---- the plan ---- */

static u64 some_bytes(struct fuzz_dice *dice)
{
	const u32 die = fuzz_below(dice, 100);

	if (die < 80)
		return 1 + fuzz_below(dice, 32768);
	return 1 + fuzz_below(dice, die < 99 ? 131072 : 4 << 20);
}

static int some_node(struct fuzz_try *t)
{
	const u32 die = fuzz_below(&t->dice, 100);

	/* What is open calls a driver that is gone. */
	if (fuzz_weather() == REBIND)
		return -1;
	if (die < (fuzz_weather() == RELEASE ? 40 : 75))
		t->node = fuzz_node();
	else if (die < 95)
		t->node = open(fuzz->others[die % 2], O_RDWR | O_CLOEXEC);
	else
		t->node = open("/dev/null", O_RDWR | O_CLOEXEC);
	return t->node;
}

static void plan_provide(struct fuzz_try *t)
{
	const enum fuzz_weather weather = fuzz_weather();

	if (weather == HANG || (weather == RELEASE && fuzz_percent(&t->dice, 40))) {
		t->plan[KIND_NODE] = -1;
		t->plan[KIND_FLAGS] = RKCHAIN_PROVIDE_RELEASE;
	} else {
		t->plan[KIND_NODE] = some_node(t);
	}
}

static void plan_adopt(struct fuzz_try *t)
{
	struct rknpu_mem_create create = {
		.flags = RKNPU_MEM_NON_CONTIGUOUS |
			 (fuzz_percent(&t->dice, 50) ? RKNPU_MEM_CACHEABLE : 0),
		.size = 1 + fuzz_below(&t->dice, 32768),
	};

	/* The stand-in's other devices have no memory. */
	if (fuzz_percent(&t->dice, 80) && fuzz_weather() != REBIND)
		t->node = fuzz_node();
	if (t->node >= 0 && !ioctl(t->node, RKNPU_IOCTL_MEM_CREATE, &create))
		t->plan[KIND_HANDLE] = create.handle;
	else if (t->node < 0)
		some_node(t);
	t->plan[KIND_NODE] = t->node;
}

static void plan_submit(struct fuzz_try *t)
{
	struct fuzz_dice *dice = &t->dice;
	const u32 count = 1 + fuzz_below(dice, fuzz_percent(dice, 90) ? 8 : 256);
	u32 *ids = t->ids_end - count;
	u32 flags = fuzz_below(dice, 8);

	ids[0] = fuzz_pick_chain(t);
	for (u32 i = 1; i < count; i++)
		ids[i] = fuzz_percent(dice, 20) ? fuzz_pick_chain(t) : ids[i - 1];
	if (fuzz_percent(dice, 3))
		ids[fuzz_below(dice, count)] = fuzz_boundary(dice);
	if (t->pool->next[t->file] < 2)
		flags &= ~RKCHAIN_SUBMIT_AFTER;
	if (flags & RKCHAIN_SUBMIT_AFTER)
		t->plan[KIND_AFTER] = t->pool->next[t->file] - 1 - fuzz_below(dice, 2);
	t->plan[KIND_ARRAY] = (uintptr_t)ids;
	t->plan[KIND_ITEMS] = count;
	t->plan[KIND_CORES] = fuzz_below(dice, 8);
	t->plan[KIND_FLAGS] = flags;
	t->plan[KIND_PRIORITY] = (u32)fuzz_below(dice, 3) - 1;
	t->plan[KIND_DEADLINE] = fuzz_percent(dice, 80) ? 0 :
				 rig_now() + fuzz_below(dice, 100 * MS);
	t->plan[KIND_ANY] = fuzz_random(dice);
}

static void plan_wait(struct fuzz_try *t)
{
	struct fuzz_dice *dice = &t->dice;
	const u64 next = t->pool->next[t->file];
	const u64 back = 1 + fuzz_below(dice, next < 64 ? next : 64);
	const u32 count = 1 + fuzz_below(dice, fuzz_percent(dice, 90) ? 32 : 1024);
	const u32 die = fuzz_below(dice, 100);

	t->plan[KIND_SEQUENCE] = next > back ? next - back : 1;
	t->plan[KIND_COUNT] = count;
	t->plan[KIND_FLAGS] = fuzz_percent(dice, 60) ? RKCHAIN_WAIT_ANY : 0;
	if (die < 70)
		t->plan[KIND_DEADLINE] = die < 30 ? 0 : rig_now() + fuzz_below(dice, 50 * MS);
	else
		t->plan[KIND_DEADLINE] = ~0ULL;
	t->plan[KIND_ROOM] = (uintptr_t)t->records_end -
			     count * sizeof(struct rkchain_completion);
}

static void plan(struct fuzz_try *t)
{
	struct fuzz_dice *dice = &t->dice;
	struct fuzz_buf buf = { .size = 4096 };
	u64 size;

	switch (t->call) {
	case CALL_PROVIDE:
		plan_provide(t);
		break;
	case CALL_BUF_CREATE:
		t->plan[KIND_BYTES] = some_bytes(dice);
		t->plan[KIND_FLAGS] = fuzz_percent(dice, 30) ? RKCHAIN_BUF_WRITE_COMBINE : 0;
		break;
	case CALL_BUF_SYNC:
		fuzz_pick_buf(t, &buf);
		t->plan[KIND_DIRECTION] = 1 + fuzz_below(dice, 3);
		t->plan[KIND_OFFSET] = fuzz_below(dice, buf.size);
		t->plan[KIND_LENGTH] = fuzz_below(dice, buf.size - t->plan[KIND_OFFSET] + 1);
		t->plan[KIND_BUFFER] = buf.id;
		break;
	case CALL_BUF_DESTROY:
		fuzz_pick_buf(t, &buf);
		t->plan[KIND_BUFFER] = buf.id;
		break;
	case CALL_BUF_ADOPT:
		plan_adopt(t);
		break;
	case CALL_CHAIN_CREATE:
		fuzz_program(t);
		break;
	case CALL_CHAIN_DESTROY:
		t->plan[KIND_CHAIN] = fuzz_pick_chain(t);
		break;
	case CALL_SUBMIT:
		plan_submit(t);
		break;
	case CALL_WAIT:
		plan_wait(t);
		break;
	case CALL_FAILURES:
		size = 8 * fuzz_below(dice, 8192);
		t->plan[KIND_INDEX] = fuzz_below(dice, fuzz_percent(dice, 70) ? 2 : 9);
		t->plan[KIND_ROOM] = fuzz_percent(dice, 20) ? 0 : (uintptr_t)t->records_end - size;
		t->plan[KIND_SIZE] = size;
		break;
	case CALL_SELFTEST:
		t->plan[KIND_MODES] = fuzz_below(dice, 16);
		t->plan[KIND_CORES] = fuzz_below(dice, 8);
		t->plan[KIND_FLAGS] = fuzz_below(dice, 4) | RKCHAIN_SELFTEST_SHORT;
		t->plan[KIND_COUNT] = fuzz_percent(dice, 90) ? 12 : fuzz_below(dice, 12);
		t->plan[KIND_ROOM] = (uintptr_t)t->records_end -
				     12 * sizeof(struct rkchain_selftest_result);
		break;
	default:
		break;
	}
}

/* ---- spoiling it ---- */

static u64 bad_pointer(struct fuzz_try *t)
{
	switch (fuzz_below(&t->dice, 7)) {
	case 0:
		return 0;
	case 1:
		return (uintptr_t)t->arena + RIG_PAGE;
	case 2:
		return (uintptr_t)t->arena + 2 * RIG_PAGE;
	case 3:
		return (uintptr_t)t->arena + RIG_PAGE - 1 - fuzz_below(&t->dice, 64);
	case 4:
		return (uintptr_t)t->device;
	case 5:
		return 0xffff000000000000ULL | fuzz_random(&t->dice) >> 16;
	}
	return fuzz_boundary(&t->dice);
}

static u64 spoil(struct fuzz_try *t, const struct fuzz_member *m, u64 value, bool slightly)
{
	if (slightly)
		return fuzz_percent(&t->dice, 50) ? value + 1 : value - 1;
	if (m->kind == KIND_WORDS || m->kind == KIND_ARRAY || m->kind == KIND_ROOM)
		return bad_pointer(t);
	return fuzz_boundary(&t->dice);
}

static void fill(struct fuzz_try *t, const struct fuzz_grammar *g)
{
	const u32 die = fuzz_below(&t->dice, 100);
	u32 count = 0, chosen;

	while (g->members[count].kind != KINDS)
		count++;
	chosen = count ? fuzz_below(&t->dice, count) : 0;
	for (u32 i = 0; i < count; i++) {
		const struct fuzz_member *m = &g->members[i];
		const u32 bytes = m[1].offset - m->offset;
		u64 value = m->kind == KIND_OUT ? fuzz_random(&t->dice) : t->plan[m->kind];

		if (die >= 95 || (die >= 70 && i == chosen)) {
			value = spoil(t, m, value, die < 80);
			t->spoilt = true;
		}
		memcpy(t->argument + m->offset, &value, bytes < 8 ? bytes : 8);
	}
	if (t->spoilt)
		t->may_fault = true;
}

/* What would change the weather for everybody is done only where that is expected. */
static void restrain(struct fuzz_try *t)
{
	struct rkchain_provide *provide = (void *)t->argument;

	if (t->call == CALL_PROVIDE && fuzz_weather() != RELEASE && fuzz_weather() != HANG)
		provide->flags &= ~RKCHAIN_PROVIDE_RELEASE;
}

/* The number, size and direction of the command. */
static u32 choose_command(struct fuzz_try *t)
{
	struct fuzz_dice *dice = &t->dice;
	const u32 die = fuzz_below(dice, 100);
	u32 size, nr, type = RKCHAIN_IOCTL_TYPE;

	if (t->call == CALL_ODD) {
		do {
			nr = fuzz_below(dice, 256);
			type = fuzz_percent(dice, 80) ? RKCHAIN_IOCTL_TYPE : fuzz_below(dice, 256);
			size = 0;
			for (u32 i = 0; i < CALL_NUMBERS; i++)
				size += fuzz_grammar[i].nr == nr;
		} while (size && type == RKCHAIN_IOCTL_TYPE);
		/* The kernel answers some of every file's itself. */
		if (type != RKCHAIN_IOCTL_TYPE)
			type = 0xb6;
		return _IOC(_IOC_READ | _IOC_WRITE, type, nr, fuzz_below(dice, 256));
	}
	size = fuzz_grammar[t->call].size;
	nr = fuzz_grammar[t->call].nr;
	if (die >= 90) {
		t->may_fault = true;
		t->spoilt = true;
	}
	if (die >= 90 && die < 94)
		size = fuzz_below(dice, size);
	if (die >= 94) {
		const u32 more = 1 + fuzz_below(dice, 64);

		memset(t->argument + size, 0, more);
		if (die >= 97) {
			t->argument[size + fuzz_below(dice, more)] = 1 + fuzz_below(dice, 255);
			t->may_tail = true;
		}
		size += more;
	}
	return _IOC(fuzz_percent(dice, 95) ? _IOC_READ | _IOC_WRITE : fuzz_below(dice, 4), type, nr,
		    size);
}

/* Right before what is not mapped, mostly. */
static void put(struct fuzz_try *t)
{
	const u32 size = _IOC_SIZE(t->command);
	const u32 die = fuzz_below(&t->dice, 100);

	t->at = t->arena + RIG_PAGE - size;
	if (die < 95 || (die == 99 && !t->device)) {
		memcpy(t->at, t->argument, size);
		return;
	}
	t->may_fault = true;
	t->spoilt = true;
	switch (die) {
	case 95:
		t->at = NULL;
		break;
	case 96:
		t->at = ANY_UNMAPPED;
		break;
	case 97:
		t->at = t->arena + 2 * RIG_PAGE;
		break;
	case 98:
		t->at = t->arena + RIG_PAGE - size / 2;
		break;
	default:
		t->at = t->device;
		memcpy(t->at, t->argument, size);
	}
}

/* ---- what came of it ---- */

static bool listed(const struct fuzz_try *t, int error)
{
	if (t->call == CALL_ODD)
		return error == ENOTTY;
	if (error == EINVAL || (error == EFAULT && t->may_fault) ||
	    (error == E2BIG && t->may_tail))
		return true;
	if (error == ENOTTY && fuzz_grammar[t->call].capability &&
	    !(fuzz->capabilities & fuzz_grammar[t->call].capability))
		return true;
	for (u32 i = 0; i < MOST_ERRORS; i++)
		if (error && fuzz_grammar[t->call].errors[i] == error)
			return true;
	return false;
}

static void judge(struct fuzz_try *t, int error)
{
	struct fuzz_tally *tally = &fuzz->tally[t->call];
	const struct rkchain_report *report = NULL;
	u64 n;

	if (t->call < CALL_NUMBERS && fuzz_grammar[t->call].report != NO_REPORT)
		report = (void *)(t->argument + fuzz_grammar[t->call].report);
	if (!error) {
		fuzz_count(&tally->good);
		if (t->call != CALL_ODD)
			return;
	} else {
		fuzz_count(&tally->errors[error < ERRORS ? error : 0]);
		if (report && report->reason)
			fuzz_count(&tally->reasons[report->reason < REASONS ? report->reason : 0]);
		if (listed(t, error))
			return;
	}
	n = __atomic_fetch_add(&fuzz->unlisted, 1, __ATOMIC_SEQ_CST);
	if (n < ODDS)
		fuzz->odds[n] = (struct fuzz_odd){
			.call = t->call,
			.command = t->command,
			.weather = fuzz_weather(),
			.error = error,
			.reason = report ? report->reason : 0,
		};
}

static void keep_buf(struct fuzz_try *t, const struct fuzz_buf *buf)
{
	struct fuzz_pool *pool = t->pool;
	struct fuzz_buf old = { .fd = -1 };
	u32 i, at = fuzz_below(&t->dice, BUFS);

	pthread_mutex_lock(&pool->lock);
	for (i = 0; i < BUFS && pool->bufs[at].id; i++)
		at = (at + 1) % BUFS;
	old = pool->bufs[at];
	pool->bufs[at] = *buf;
	pthread_mutex_unlock(&pool->lock);
	if (!old.id)
		return;
	if (old.map)
		munmap(old.map, old.size);
	if (old.fd >= 0)
		close(old.fd);
	rig_try_destroy(pool->files[old.file], old.id);
}

static void keep_chain(struct fuzz_try *t, u32 id)
{
	struct fuzz_pool *pool = t->pool;
	struct fuzz_chain old;
	u32 i, at = fuzz_below(&t->dice, CHAINS);

	pthread_mutex_lock(&pool->lock);
	for (i = 0; i < CHAINS && pool->chains[at].id; i++)
		at = (at + 1) % CHAINS;
	old = pool->chains[at];
	pool->chains[at] = (struct fuzz_chain){ t->file, id };
	pthread_mutex_unlock(&pool->lock);
	if (old.id)
		rig_try_destroy_chain(pool->files[old.file], old.id);
}

/* Ids that are gone, whoever they were of. */
static void forget_buf(struct fuzz_try *t, u32 id)
{
	struct fuzz_pool *pool = t->pool;
	struct fuzz_buf old = { .fd = -1 };

	pthread_mutex_lock(&pool->lock);
	for (u32 i = 0; i < BUFS; i++)
		if (pool->bufs[i].id == id) {
			old = pool->bufs[i];
			pool->bufs[i].id = 0;
		}
	pthread_mutex_unlock(&pool->lock);
	if (old.map)
		munmap(old.map, old.size);
	if (old.fd >= 0)
		close(old.fd);
}

static void forget_chain(struct fuzz_try *t, u32 id)
{
	struct fuzz_pool *pool = t->pool;

	pthread_mutex_lock(&pool->lock);
	for (u32 i = 0; i < CHAINS; i++)
		if (pool->chains[i].id == id)
			pool->chains[i].id = 0;
	pthread_mutex_unlock(&pool->lock);
}

static void check_records(const struct fuzz_try *t)
{
	const struct rkchain_wait *wait = (const void *)t->argument;
	const struct rkchain_completion *done = (const void *)(uintptr_t)wait->completions;

	if (t->spoilt)
		return;
	if (!wait->done || wait->done > wait->count)
		FAIL("WAIT for %u filled %u", wait->count, wait->done);
	for (u32 i = 0; i < wait->done; i++)
		if (done[i].sequence < wait->first ||
		    done[i].sequence - wait->first >= wait->count ||
		    (i && done[i].sequence <= done[i - 1].sequence))
			FAIL("WAIT for %u from %llu: record %u is %llu", wait->count, wait->first,
			     i, done[i].sequence);
}

static void harvest(struct fuzz_try *t)
{
	const struct rkchain_buf_create *buf = (const void *)t->argument;
	const struct rkchain_buf_adopt *adopt = (const void *)t->argument;
	const struct rkchain_chain_create *chain = (const void *)t->argument;
	const struct rkchain_submit *submit = (const void *)t->argument;
	const struct rkchain_id *id = (const void *)t->argument;
	struct fuzz_buf made = { .file = t->file, .fd = -1 };

	if (_IOC_SIZE(t->command) < fuzz_grammar[t->call].size)
		return;
	switch (t->call) {
	case CALL_BUF_CREATE:
		made.id = buf->id;
		made.iova = buf->iova;
		made.size = (buf->size + RIG_PAGE - 1) / RIG_PAGE * RIG_PAGE;
		made.fd = buf->fd;
		keep_buf(t, &made);
		break;
	case CALL_BUF_ADOPT:
		made.id = adopt->id;
		made.iova = adopt->iova;
		made.size = adopt->size;
		keep_buf(t, &made);
		break;
	case CALL_CHAIN_CREATE:
		keep_chain(t, chain->id);
		break;
	case CALL_BUF_DESTROY:
		forget_buf(t, id->id);
		break;
	case CALL_CHAIN_DESTROY:
		forget_chain(t, id->id);
		break;
	case CALL_SUBMIT:
		t->pool->next[t->file] = submit->first + submit->count;
		break;
	case CALL_WAIT:
		check_records(t);
		break;
	default:
		break;
	}
}

/* One that has what the call needs, if there is any. */
static u32 choose_file(struct fuzz_try *t, enum fuzz_call call)
{
	struct fuzz_buf buf;

	for (u32 i = 0; i < 8; i++) {
		t->file = fuzz_below(&t->dice, FILES);
		if (call == CALL_SUBMIT || call == CALL_CHAIN_DESTROY) {
			if (fuzz_pick_chain(t))
				break;
		} else if (call == CALL_WAIT) {
			if (t->pool->next[t->file] > 1)
				break;
		} else if (fuzz_pick_buf(t, &buf)) {
			break;
		}
	}
	return t->file;
}

void fuzz_make(struct fuzz_try *t, enum fuzz_call call)
{
	const bool scribbled = call == CALL_CHAIN_CREATE && fuzz_percent(&t->dice, 10);
	int ret, error;

	t->call = call;
	t->file = choose_file(t, call);
	t->node = -1;
	t->may_fault = false;
	t->may_tail = false;
	t->spoilt = false;
	memset(t->plan, 0, sizeof(t->plan));
	memset(t->argument, 0, sizeof(t->argument));
	/* Whoever changes the weather waits for calls that depend on it. */
	fuzz_begin(t->slot, call, 0);
	plan(t);
	if (call < CALL_NUMBERS)
		fill(t, &fuzz_grammar[call]);
	restrain(t);
	t->command = choose_command(t);
	put(t);
	if (scribbled) {
		__atomic_store_n(&t->pool->target_words, t->nwords, __ATOMIC_SEQ_CST);
		__atomic_store_n(&t->pool->target, t->words, __ATOMIC_SEQ_CST);
		fuzz_count(&fuzz->actions[ACTION_SCRIBBLED]);
	}
	fuzz_begin(t->slot, call, t->command);
	ret = ioctl(t->pool->files[t->file], t->command, t->at);
	error = ret < 0 ? errno : 0;
	if (scribbled)
		__atomic_store_n(&t->pool->target, NULL, __ATOMIC_SEQ_CST);
	if (t->at == t->arena + RIG_PAGE - _IOC_SIZE(t->command) || (!error && t->at == t->device))
		memcpy(t->argument, t->at, _IOC_SIZE(t->command));
	judge(t, error);
	if (t->spoilt)
		fuzz_count(&fuzz->spoilt);
	if (!error && call < CALL_NUMBERS)
		harvest(t);
	if (t->node >= 0)
		close(t->node);
	fuzz_end(t->slot);
}

void fuzz_try_init(struct fuzz_try *t, struct fuzz_pool *pool, u64 seed)
{
	struct rkchain_buf_create create = { .size = RIG_PAGE };
	u8 *arena;

	memset(t, 0, sizeof(*t));
	t->dice.state = seed;
	t->pool = pool;
	t->slot = fuzz_slot();
	t->words_end = (u64 *)rig_guarded(PROGRAM_WORDS * sizeof(u64)) + PROGRAM_WORDS;
	t->ids_end = (u32 *)rig_guarded(MOST_IDS * sizeof(u32)) + MOST_IDS;
	t->records_end = (u8 *)rig_guarded(MOST_RECORDS * sizeof(struct rkchain_completion)) +
			 MOST_RECORDS * sizeof(struct rkchain_completion);
	arena = mmap(NULL, 4 * RIG_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(arena != MAP_FAILED);
	ASSERT_EQ(mprotect(arena, RIG_PAGE, PROT_READ | PROT_WRITE), 0);
	ASSERT_EQ(mprotect(arena + 2 * RIG_PAGE, RIG_PAGE, PROT_READ), 0);
	t->arena = arena;
	if (rig_try_buf(pool->files[0], &create))
		return;
	t->device = mmap(NULL, RIG_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, create.fd, 0);
	if (t->device == MAP_FAILED)
		t->device = NULL;
	close(create.fd);
	rig_try_destroy(pool->files[0], create.id);
}

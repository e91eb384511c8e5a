// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "cores.h"

void rkc_cores_init(struct rkc_cores *c, u32 poisoned)
{
	rkc_rotor_init(&c->rotor, RKC_CORES_ALL & ~poisoned);
	for (u32 i = 0; i < RKC_CORES; i++)
		c->core[i] = (struct rkc_core){ 0 };
	c->aside = 0;
	c->poisoned = poisoned & RKC_CORES_ALL;
	c->resetting = false;
	c->again = 0;
	c->quiet = 0;
}

int rkc_cores_take(struct rkc_cores *c, u32 allowed, u64 estimate_ns)
{
	/* To the rotor, an empty mask is any core. */
	const int id = allowed ? rkc_rotor_take(&c->rotor, allowed) : -1;

	if (id >= 0)
		c->core[id].estimate_ns = estimate_ns;
	return id;
}

u64 rkc_cores_opens(const struct rkc_cores *c, u32 id, u64 now)
{
	u64 estimate = c->core[id].estimate_ns;
	u64 opens = 0;

	if (c->resetting)
		return RKC_NEVER;
	if (now < c->quiet)
		return c->quiet;
	for (u32 i = 0; i < RKC_CORES; i++)
		if (c->core[i].submitted && c->core[i].estimate_ns > estimate)
			estimate = c->core[i].estimate_ns;
	/* Any of them may time out, not only the oldest: that may be waiting in a queue. */
	for (u32 i = 0; i < RKC_CORES; i++) {
		const u64 since = c->core[i].submitted;
		const u64 own = since ? rkc_window_opens(since, now, estimate) : 0;

		if (own > opens)
			opens = own;
	}
	return opens;
}

void rkc_cores_submit(struct rkc_cores *c, u32 id, u64 now)
{
	c->core[id].submitted = now;
	c->core[id].hung = false;
}

struct rkc_verdict rkc_cores_back(struct rkc_cores *c, u32 id, u64 now, struct rkc_return *r)
{
	struct rkc_core *core = &c->core[id];

	r->core = id;
	r->age_ns = now - core->submitted;
	r->hung = core->hung;
	core->submitted = 0;
	core->hung = false;
	/* Its own time-out, or the reset that took it down, which wakes before its end. */
	if ((r->error == -RKC_EINVAL || r->error == -RKC_ETIMEDOUT) && !r->hung) {
		/* One that others have told of already is not another one. */
		if (now >= c->quiet)
			c->generation++;
		c->quiet = now + RKC_RESET_NS;
	}
	return rkc_judge(r);
}

static void lose(struct rkc_cores *c, u32 id, u32 *why)
{
	*why |= 1u << id;
	c->rotor.usable &= ~(1u << id);
}

bool rkc_cores_finish(struct rkc_cores *c, u32 id, const struct rkc_run_end *end, u32 strikes)
{
	struct rkc_core *core = &c->core[id];
	const u32 before = c->rotor.usable;

	rkc_rotor_release(&c->rotor, id);
	if (end->verdict.fate == RKC_FATE_DONE)
		core->strikes = 0;
	/* Nothing but a submit says anything about a core. */
	if (end->failed && end->verdict.poisoned)
		lose(c, id, &c->poisoned);
	else if (end->verdict.strike && !end->trial && ++core->strikes >= strikes)
		lose(c, id, &c->aside);
	return c->rotor.usable != before;
}

u64 rkc_cores_watch(struct rkc_cores *c, u64 now, u64 hang_ns, bool alone, u32 *reset)
{
	u32 hung = 0, young = 0;
	u64 next = RKC_NEVER;

	*reset = 0;
	for (u32 i = 0; i < RKC_CORES; i++) {
		const u64 since = c->core[i].submitted;

		if (!since)
			continue;
		if (now - since >= hang_ns) {
			hung |= 1u << i;
		} else {
			young |= 1u << i;
			if (since + hang_ns < next)
				next = since + hang_ns;
		}
	}
	if (!hung || !alone) {
		c->resetting = false;
		if (hung && now + RKC_ALONE_AGAIN_NS < next)
			next = now + RKC_ALONE_AGAIN_NS;
		return next;
	}
	if (!c->resetting) {
		c->resetting = true;
		c->again = now;
	}
	/* They come back, or hang as well. */
	if (young)
		return next;
	if (now < c->again)
		return c->again;
	for (u32 i = 0; i < RKC_CORES; i++)
		if (hung & 1u << i)
			c->core[i].hung = true;
	c->generation++;
	*reset = hung;
	return now;
}

void rkc_cores_was_reset(struct rkc_cores *c, u64 now)
{
	c->again = now + RKC_RESET_AGAIN_NS;
}

void rkc_cores_set_aside(struct rkc_cores *c, u32 mask)
{
	for (u32 i = 0; i < RKC_CORES; i++)
		if (mask & 1u << i && !(c->poisoned & 1u << i))
			lose(c, i, &c->aside);
}

bool rkc_cores_enable(struct rkc_cores *c, u32 id)
{
	if (c->poisoned & 1u << id)
		return false;
	c->aside &= ~(1u << id);
	c->rotor.usable |= 1u << id;
	c->core[id].strikes = 0;
	return true;
}

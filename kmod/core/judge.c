// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "judge.h"
#include "window.h"

struct rkc_verdict rkc_judge(const struct rkc_return *r)
{
	struct rkc_verdict v = { RKC_FATE_DONE, false, false };

	if (!r->error)
		return v;
	if (r->error == -RKC_ENODEV) {
		v.fate = RKC_FATE_GONE;
		return v;
	}
	/*
	 * Who waits for a whole time-out has hung, or has missed the wake-up of somebody
	 * else's reset, which nothing tells from it.
	 */
	if (r->hung || (r->error == -RKC_ETIMEDOUT && r->age_ns >= RKC_STOCK_TIMEOUT_NS)) {
		v.fate = RKC_FATE_HUNG;
		v.strike = true;
	} else if (r->replayable && !r->retries) {
		v.fate = RKC_FATE_AGAIN;
	} else {
		v.fate = RKC_FATE_HIT;
	}
	/* It was never its turn: what is in front of it stands, or the core does. */
	if (!r->committed && r->age_ns >= RKC_STOCK_ROUNDS * RKC_STOCK_TIMEOUT_NS)
		v.strike = true;
	/*
	 * What gave up in a queue is still in it, but on core 0, where the driver takes it
	 * out.  Other errors are of submits that came into none.
	 */
	v.poisoned = !r->committed && r->core > 0 &&
		     (r->error == -RKC_EINVAL || r->error == -RKC_ETIMEDOUT);
	return v;
}

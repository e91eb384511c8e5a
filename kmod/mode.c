// SPDX-License-Identifier: GPL-2.0-only
/*
 * In which mode chains are laid out: as a parameter says, or as this NPU has been shown
 * to be able to.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "internal.h"

/* Of chain_mode: whatever is known to work. */
#define AUTO	RKC_MODES

static u32 wanted = AUTO;
static u32 proven;	/* mask of modes that passed the self-test */
static u32 unordered;	/* mask of modes that do not keep the order of blocks */
static bool tried;	/* link passed the short test */
static bool feed_on;

static const char *name_of(u32 mode)
{
	return mode == AUTO ? "auto" : rkc_mode_name(mode);
}

/* RKC_MODES + 1 for what is none. */
static u32 mode_named(const char *text)
{
	u32 i;

	for (i = 0; i <= AUTO; i++)
		if (sysfs_streq(text, name_of(i)))
			break;
	return i;
}

static int mode_set(const char *text, const struct kernel_param *param)
{
	const u32 mode = mode_named(text);

	if (mode > AUTO) {
		pr_info("rkchain: chain_mode can be auto, wait, wait41, link or single\n");
		return -EINVAL;
	}
	WRITE_ONCE(wanted, mode);
	return 0;
}

static int mode_get(char *text, const struct kernel_param *param)
{
	return sysfs_emit(text, "%s\n", name_of(READ_ONCE(wanted)));
}

static int proven_set(const char *text, const struct kernel_param *param)
{
	char *list = kstrdup(text, GFP_KERNEL);
	char *rest = list, *name;
	u32 modes = 0, mode;
	int ret = list ? 0 : -ENOMEM;

	while (!ret && (name = strsep(&rest, ",\n"))) {
		if (!*name)
			continue;
		mode = mode_named(name);
		if (mode < AUTO) {
			modes |= BIT(mode);
		} else {
			pr_info("rkchain: proven is a list of wait, wait41, link, single\n");
			ret = -EINVAL;
		}
	}
	if (!ret)
		WRITE_ONCE(proven, modes);
	kfree(list);
	return ret;
}

static int proven_get(char *text, const struct kernel_param *param)
{
	const u32 modes = READ_ONCE(proven);
	int length = 0;
	u32 i;

	for (i = 0; i < RKC_MODES; i++)
		if (modes & BIT(i))
			length += sysfs_emit_at(text, length, "%s%s", length ? "," : "",
						rkc_mode_name(i));
	return length + sysfs_emit_at(text, length, "\n");
}

static const struct kernel_param_ops mode_ops = { .set = mode_set, .get = mode_get };
static const struct kernel_param_ops proven_ops = { .set = proven_set, .get = proven_get };

module_param_cb(chain_mode, &mode_ops, NULL, 0644);
MODULE_PARM_DESC(chain_mode,
		 "how chains are laid out: wait, wait41, link, single, or auto: the best that is proven, else link if it passes a short test, else single (auto)");
module_param_cb(proven, &proven_ops, NULL, 0644);
MODULE_PARM_DESC(proven, "modes that passed the self-test on this board, a list ()");
module_param(feed_on, bool, 0644);
MODULE_PARM_DESC(feed_on,
		 "this NPU keeps the order of blocks in modes wait and wait41 too (N)");

static u32 works(void)
{
	return READ_ONCE(proven) | (READ_ONCE(tried) ? BIT(RKC_LINK) : 0);
}

u32 mode_in_force(void)
{
	const u32 mode = READ_ONCE(wanted);

	return mode == AUTO ? rkc_trial_best(works()) : mode;
}

/* Why: enum rkchain_mode_source. */
u32 mode_source(void)
{
	if (!mode_auto())
		return RKCHAIN_MODE_PARAMETER;
	if (READ_ONCE(proven) & BIT(rkc_trial_best(works())))
		return RKCHAIN_MODE_PROVEN;
	return READ_ONCE(tried) ? RKCHAIN_MODE_TRIED : RKCHAIN_MODE_LAST;
}

bool mode_auto(void)
{
	return READ_ONCE(wanted) == AUTO;
}

/*
 * May a block read what an earlier one writes?  In link and single mode a program is
 * started when the one before it has ended; what the self-test saw goes before that.
 */
bool mode_ordered(u32 mode)
{
	if (READ_ONCE(unordered) & BIT(mode))
		return false;
	return mode == RKC_LINK || mode == RKC_SINGLE || READ_ONCE(feed_on) ||
	       READ_ONCE(proven) & BIT(mode);
}

u32 mode_proven(void)
{
	return READ_ONCE(proven);
}

/* Another driver: what was tried has to be tried again. */
void mode_forget(void)
{
	WRITE_ONCE(tried, false);
	WRITE_ONCE(unordered, 0);
}

/**
 * mode_learn() - what a self-test found
 * @found: about the modes that it tried
 * @proof: it was a long one
 *
 * One self-test at a time.
 */
void mode_learn(const struct rkc_trial_summary *found, bool proof)
{
	if (proof)
		WRITE_ONCE(proven, (READ_ONCE(proven) & ~found->tested) | found->works);
	if (found->tested & BIT(RKC_LINK))
		WRITE_ONCE(tried, found->works & BIT(RKC_LINK));
	WRITE_ONCE(unordered, (READ_ONCE(unordered) & ~found->tested) | found->unordered);
}

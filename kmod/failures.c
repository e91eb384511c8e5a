// SPDX-License-Identifier: GPL-2.0-only
/*
 * FAILURES: what is known of a client's last chains that failed on the NPU.
 *
 * A failure keeps what the chain computed, not the chain, so that it holds no buffer;
 * the program that the NPU had is generated from that once more when somebody asks.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "internal.h"

/* That are kept for a client. */
#define KEPT	8

/**
 * struct failure - one of them
 * @ref: the client's list, and whoever looks at it
 * @link: in client.failures, under rkchain.lock
 * @info: what is told
 * @blocks: what the chain computed
 */
struct failure {
	struct kref ref;
	struct list_head link;
	struct rkchain_failure info;
	struct rkc_matmul *blocks;
};

struct failure *failure_new(const struct chain *chain)
{
	struct failure *failure = kzalloc(sizeof(*failure), GFP_KERNEL);

	if (!failure)
		return NULL;
	failure->blocks = kvmalloc_array(chain->count, sizeof(*chain->blocks), GFP_KERNEL);
	if (!failure->blocks) {
		kfree(failure);
		return NULL;
	}
	memcpy(failure->blocks, chain->blocks, chain->count * sizeof(*chain->blocks));
	kref_init(&failure->ref);
	failure->info.blocks = chain->count;
	failure->info.iova = chain_program(chain);
	return failure;
}

static void failure_last_put(struct kref *ref)
{
	struct failure *failure = container_of(ref, struct failure, ref);

	kvfree(failure->blocks);
	kfree(failure);
}

static void failure_put(struct failure *failure)
{
	kref_put(&failure->ref, failure_last_put);
}

struct rkchain_failure *failure_info(struct failure *failure)
{
	return &failure->info;
}

static void forget_last(struct client *client)
{
	struct failure *last = list_last_entry(&client->failures, struct failure, link);

	list_del(&last->link);
	failure_put(last);
}

/* Keeps it for a client, unless there is nobody who could ask.  Under rkchain.lock. */
void failure_keep(struct failure *failure, struct client *client)
{
	lockdep_assert_held(&rkchain.lock);
	if (client->closed) {
		failure_put(failure);
		return;
	}
	list_add(&failure->link, &client->failures);
	if (++client->nfailures > KEPT) {
		forget_last(client);
		client->nfailures--;
	}
}

/* A client goes. */
void failures_drop(struct client *client)
{
	mutex_lock(&rkchain.lock);
	while (!list_empty(&client->failures))
		forget_last(client);
	mutex_unlock(&rkchain.lock);
}

static struct failure *find(struct client *client, struct rkchain_failures *arg)
{
	struct failure *failure, *found = NULL;
	u32 i = 0;

	mutex_lock(&rkchain.lock);
	arg->kept = client->nfailures;
	list_for_each_entry(failure, &client->failures, link)
		if (i++ == arg->index) {
			kref_get(&failure->ref);
			found = failure;
			break;
		}
	mutex_unlock(&rkchain.lock);
	return found;
}

/* The program as the NPU had it. */
static int copy_program(const struct failure *failure, u32 words, u64 to)
{
	const struct rkchain_failure *info = &failure->info;
	u64 *program = kvmalloc_array(words, sizeof(u64), GFP_KERNEL_ACCOUNT);
	int ret = 0;

	if (!program)
		return -ENOMEM;
	/* Between the blocks of some modes there is nothing. */
	memset(program, 0, words * sizeof(u64));
	rkc_chain_emit(info->mode, failure->blocks, info->blocks, info->iova, program, NULL);
	if (copy_to_user(u64_to_user_ptr(to), program, words * sizeof(u64)))
		ret = -EFAULT;
	kvfree(program);
	return ret;
}

/**
 * failures_get() - FAILURES
 * @client: whose
 * @arg: of the caller
 * @err: filled on refusal
 *
 * Return: 0, -EINVAL, -ENOSPC, -EFAULT, -ENOMEM.
 */
int failures_get(struct client *client, struct rkchain_failures *arg, struct rkc_err *err)
{
	struct failure *failure = find(client, arg);
	struct rkc_measure measure;
	u64 room = arg->size;
	int ret = 0;

	if (!failure)
		return refuse(err, -EINVAL, RKCHAIN_REASON_FAILURE, arg->index, arg->kept);
	arg->failure = failure->info;
	rkc_chain_measure(failure->info.mode, failure->info.blocks, &measure, NULL);
	arg->size = (u64)measure.words * sizeof(u64);
	if (arg->program && room < arg->size)
		ret = refuse(err, -ENOSPC, RKCHAIN_REASON_SIZE, room, arg->size);
	else if (arg->program)
		ret = copy_program(failure, measure.words, arg->program);
	failure_put(failure);
	return ret;
}

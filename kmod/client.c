// SPDX-License-Identifier: GPL-2.0-only
/*
 * One open file of /dev/rkchain: its calls, and what its user may hold.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "internal.h"

/* ---- users ---- */

static DEFINE_MUTEX(users_lock);
static LIST_HEAD(users);

static struct client_user *user_of_current(void)
{
	const kuid_t uid = current_euid();
	struct client_user *user;

	mutex_lock(&users_lock);
	list_for_each_entry(user, &users, link)
		if (uid_eq(user->uid, uid)) {
			user->refs++;
			goto out;
		}
	user = kzalloc(sizeof(*user), GFP_KERNEL);
	if (user) {
		user->uid = uid;
		user->refs = 1;
		list_add(&user->link, &users);
	}
out:
	mutex_unlock(&users_lock);
	return user;
}

struct client_user *client_user_get(struct client_user *user)
{
	mutex_lock(&users_lock);
	user->refs++;
	mutex_unlock(&users_lock);
	return user;
}

void client_user_put(struct client_user *user)
{
	mutex_lock(&users_lock);
	if (!--user->refs) {
		list_del(&user->link);
		kfree(user);
	}
	mutex_unlock(&users_lock);
}

int client_user_charge(struct client_user *user, u64 bytes, u64 chains, u64 blocks,
		       struct rkc_err *err)
{
	int ret = 0;

	mutex_lock(&users_lock);
	if (user->bytes + bytes > param_quota_bytes()) {
		ret = refuse(err, -EDQUOT, RKCHAIN_REASON_QUOTA_BYTES, user->bytes + bytes,
			     param_quota_bytes());
	} else if (user->chains + chains > param_quota_chains()) {
		ret = refuse(err, -EDQUOT, RKCHAIN_REASON_QUOTA_CHAINS, user->chains + chains,
			     param_quota_chains());
	} else if (user->blocks + blocks > param_quota_blocks()) {
		ret = refuse(err, -EDQUOT, RKCHAIN_REASON_QUOTA_BLOCKS, user->blocks + blocks,
			     param_quota_blocks());
	} else {
		user->bytes += bytes;
		user->chains += chains;
		user->blocks += blocks;
	}
	mutex_unlock(&users_lock);
	return ret;
}

void client_user_uncharge(struct client_user *user, u64 bytes, u64 chains, u64 blocks)
{
	mutex_lock(&users_lock);
	user->bytes -= bytes;
	user->chains -= chains;
	user->blocks -= blocks;
	mutex_unlock(&users_lock);
}

/* ---- calls ---- */

static int query(struct client *client, struct rkchain_query *q)
{
	q->abi_version = RKCHAIN_ABI_VERSION;
	q->capabilities = RKCHAIN_CAP_CHAINS | RKCHAIN_CAP_ADOPT | RKCHAIN_CAP_ORDERED |
			  RKCHAIN_CAP_AFTER | RKCHAIN_CAP_DEADLINE | RKCHAIN_CAP_PRIORITY |
			  RKCHAIN_CAP_SELFTEST | RKCHAIN_CAP_FAILURES;
	q->mode = mode_in_force();
	q->mode_source = mode_source();
	if (mode_ordered(q->mode))
		q->capabilities |= RKCHAIN_CAP_FEED_ON;
	q->cores_present = RKC_CORES_ALL;
	q->max_blocks = RKC_WAIT_MAX;
	q->max_buffers = MAX_BUFFERS;
	q->max_body = RKC_BODY_MAX;
	q->max_submit = MAX_SUBMIT;
	q->slots = SLOTS;
	q->hang_ms = div_u64(param_hang_ns(), NSEC_PER_MSEC);
	q->max_chain_ns = param_hang_ns() / 2;
	q->quota_bytes = param_quota_bytes();
	q->quota_chains = param_quota_chains();
	q->quota_blocks = param_quota_blocks();

	down_read(&rkchain.driver_sem);
	q->provider = rkchain.stock ? 1 : 0;
	if (rkchain.stock) {
		q->driver_version = stock_driver_version(rkchain.stock);
		q->hw_version = stock_hw_version(rkchain.stock);
	}
	up_read(&rkchain.driver_sem);

	q->quota_jobs = param_quota_jobs();

	mutex_lock(&rkchain.lock);
	q->used_jobs = client->user->jobs;
	q->cores_usable = rkchain.npu.rotor.usable;
	q->cores_aside = rkchain.npu.aside;
	q->cores_poisoned = rkchain.npu.poisoned;
	q->generation = rkchain.npu.generation;
	q->clients = rkchain.clients;
	mutex_unlock(&rkchain.lock);

	buffer_sweep();
	mutex_lock(&users_lock);
	q->used_bytes = client->user->bytes;
	q->used_chains = client->user->chains;
	q->used_blocks = client->user->blocks;
	mutex_unlock(&users_lock);
	return 0;
}

/**
 * client_file() - the stock driver's file that a client's memory is made through
 * @client: the client
 * @err: filled on refusal
 *
 * Opened when there is need.  Under rkchain.driver_sem.
 *
 * Return: the file, which stays as long as the driver does, or an ERR_PTR.
 */
struct stock_file *client_file(struct client *client, struct rkc_err *err)
{
	struct stock_file *file, *old = NULL;

	if (!rkchain.stock)
		return ERR_PTR(refuse(err, -ENODEV, RKCHAIN_REASON_NO_PROVIDER, 0, 0));
	mutex_lock(&client->ids);
	file = client->file;
	if (!file || stock_of(file) != rkchain.stock) {
		file = stock_open(rkchain.stock);
		if (!IS_ERR(file)) {
			old = client->file;
			client->file = file;
		}
	}
	mutex_unlock(&client->ids);
	stock_file_put(old);
	return file;
}

/* Puts something into a table of a client under an id that nobody has had lately. */
int client_publish(struct xarray *table, void *entry, u32 *id)
{
	int ret;

	do {
		*id = atomic_inc_return(&rkchain.next_id);
		ret = *id ? xa_insert(table, *id, entry, GFP_KERNEL_ACCOUNT) : -EBUSY;
	} while (ret == -EBUSY);
	return ret;
}

union call_arg {
	struct rkchain_query query;
	struct rkchain_provide provide;
	struct rkchain_buf_create buf_create;
	struct rkchain_buf_adopt buf_adopt;
	struct rkchain_buf_sync buf_sync;
	struct rkchain_id id;
	struct rkchain_chain_create chain_create;
	struct rkchain_submit submit;
	struct rkchain_wait wait;
	struct rkchain_failures failures;
	struct rkchain_selftest selftest;
};

#define NO_REPORT	0xffff

/* Sizes of a call's struct, and where its report stands. */
struct call {
	u16 size;
	u16 report;
	bool driver;	/* under driver_sem */
};

#define CALL(type, driver)	\
	{ sizeof(struct type), offsetof(struct type, report), driver }

static const struct call calls[] = {
	[RKCHAIN_NR_QUERY] = { sizeof(struct rkchain_query), NO_REPORT, false },
	[RKCHAIN_NR_PROVIDE] = CALL(rkchain_provide, false),
	[RKCHAIN_NR_BUF_CREATE] = CALL(rkchain_buf_create, true),
	[RKCHAIN_NR_BUF_DESTROY] = CALL(rkchain_id, false),
	[RKCHAIN_NR_BUF_SYNC] = CALL(rkchain_buf_sync, true),
	[RKCHAIN_NR_BUF_ADOPT] = CALL(rkchain_buf_adopt, true),
	[RKCHAIN_NR_CHAIN_CREATE] = CALL(rkchain_chain_create, false),
	[RKCHAIN_NR_CHAIN_DESTROY] = CALL(rkchain_id, false),
	[RKCHAIN_NR_SUBMIT] = CALL(rkchain_submit, false),
	[RKCHAIN_NR_WAIT] = CALL(rkchain_wait, false),
	[RKCHAIN_NR_FAILURES] = CALL(rkchain_failures, false),
	[RKCHAIN_NR_SELFTEST] = CALL(rkchain_selftest, false),
};

static int call(struct client *client, u32 nr, union call_arg *arg, struct file **dmabuf,
		struct rkc_err *err)
{
	switch (nr) {
	case RKCHAIN_NR_QUERY:
		return query(client, &arg->query);
	case RKCHAIN_NR_PROVIDE:
		return provide(&arg->provide, err);
	case RKCHAIN_NR_BUF_CREATE:
		return buffer_create(client, &arg->buf_create, dmabuf, err);
	case RKCHAIN_NR_BUF_DESTROY:
		return buffer_destroy(client, &arg->id, err);
	case RKCHAIN_NR_BUF_SYNC:
		return buffer_sync(client, &arg->buf_sync, err);
	case RKCHAIN_NR_BUF_ADOPT:
		return buffer_adopt(client, &arg->buf_adopt, err);
	case RKCHAIN_NR_CHAIN_CREATE:
		return chain_create(client, &arg->chain_create, err);
	case RKCHAIN_NR_CHAIN_DESTROY:
		return chain_destroy(client, &arg->id, err);
	case RKCHAIN_NR_SUBMIT:
		return job_submit(client, &arg->submit, err);
	case RKCHAIN_NR_WAIT:
		return job_wait(client, &arg->wait, err);
	case RKCHAIN_NR_FAILURES:
		return failures_get(client, &arg->failures, err);
	case RKCHAIN_NR_SELFTEST:
		return selftest(&arg->selftest, err);
	}
	return -ENOTTY;
}

static long client_ioctl(struct file *file, unsigned int cmd, unsigned long user)
{
	const size_t size = _IOC_SIZE(cmd);
	const u32 nr = _IOC_NR(cmd);
	void __user *at = (void __user *)user;
	struct client *client = file->private_data;
	struct file *dmabuf = NULL;
	struct rkc_err err = { 0 };
	union call_arg arg;
	size_t known;
	int ret;

	if (_IOC_TYPE(cmd) != RKCHAIN_IOCTL_TYPE || nr >= ARRAY_SIZE(calls) || !calls[nr].size)
		return -ENOTTY;
	known = calls[nr].size;
	memset(&arg, 0, sizeof(arg));
	ret = copy_struct_from_user(&arg, known, at, size);
	if (ret)
		return ret;

	/* Not all that calls do can be undone: find out before whether he can be told. */
	if (copy_to_user(at, &arg, min(size, known)))
		return -EFAULT;

	if (calls[nr].driver)
		down_read(&rkchain.driver_sem);
	ret = call(client, nr, &arg, &dmabuf, &err);
	if (calls[nr].driver)
		up_read(&rkchain.driver_sem);

	if (calls[nr].report != NO_REPORT) {
		const struct rkchain_report report = {
			.reason = ret ? err.reason : 0,
			.block = err.block,
			.word = ret && err.reason ? err.word : RKCHAIN_NO_WORD,
			.reg = err.reg,
			.value = err.value,
			.limit = err.limit,
		};

		memcpy((u8 *)&arg + calls[nr].report, &report, sizeof(report));
	}
	/* A restarted call must find its arguments as they were. */
	if (ret != -ERESTARTSYS && copy_to_user(at, &arg, min(size, known)))
		ret = -EFAULT;
	if (dmabuf && ret) {
		put_unused_fd(arg.buf_create.fd);
		fput(dmabuf);
	} else if (dmabuf) {
		fd_install(arg.buf_create.fd, dmabuf);
	}
	return ret;
}

static ssize_t client_read(struct file *file, char __user *to, size_t size, loff_t *pos)
{
	return job_read(file->private_data, to, size, !(file->f_flags & O_NONBLOCK));
}

static __poll_t client_poll(struct file *file, struct poll_table_struct *table)
{
	struct client *client = file->private_data;
	__poll_t ready = 0;

	poll_wait(file, &client->changed, table);
	mutex_lock(&rkchain.lock);
	if (!list_empty(&client->readable))
		ready = EPOLLIN | EPOLLRDNORM;
	mutex_unlock(&rkchain.lock);
	return ready;
}

/* ---- coming and going ---- */

/* A client of the calling user, or an ERR_PTR. */
struct client *client_new(void)
{
	struct client *client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);

	if (!client)
		return ERR_PTR(-ENOMEM);
	client->user = user_of_current();
	if (!client->user) {
		kfree(client);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&client->ref);
	mutex_init(&client->ids);
	mutex_init(&client->submit);
	mutex_init(&client->collect);
	xa_init(&client->bufs);
	xa_init(&client->chains);
	xa_init(&client->jobs);
	INIT_LIST_HEAD(&client->active);
	INIT_LIST_HEAD(&client->queue);
	INIT_LIST_HEAD(&client->live);
	INIT_LIST_HEAD(&client->readable);
	INIT_LIST_HEAD(&client->failures);
	client->next = 1;
	init_waitqueue_head(&client->changed);
	mutex_lock(&rkchain.lock);
	rkchain.clients++;
	mutex_unlock(&rkchain.lock);
	return client;
}

static int client_open(struct inode *inode, struct file *file)
{
	struct client *client = client_new();

	if (IS_ERR(client))
		return PTR_ERR(client);
	file->private_data = client;
	return stream_open(inode, file);
}

static void client_free(struct kref *ref)
{
	struct client *client = container_of(ref, struct client, ref);

	xa_destroy(&client->jobs);
	client_user_put(client->user);
	kfree(client);
}

void client_put(struct client *client)
{
	kref_put(&client->ref, client_free);
}

/* Never waits: what runs is left to itself, and cleaned up when it ends. */
void client_close(struct client *client)
{
	struct buffer *buffer;
	struct chain *chain;
	unsigned long id;

	job_close(client);
	failures_drop(client);
	xa_for_each(&client->chains, id, chain)
		chain_put(chain);
	xa_for_each(&client->bufs, id, buffer)
		buffer_put(buffer);
	xa_destroy(&client->chains);
	xa_destroy(&client->bufs);
	stock_file_put(client->file);
	client_put(client);
	buffer_sweep();
}

static int client_release(struct inode *inode, struct file *file)
{
	client_close(file->private_data);
	return 0;
}

const struct file_operations client_fops = {
	.owner = THIS_MODULE,
	.open = client_open,
	.release = client_release,
	.unlocked_ioctl = client_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.read = client_read,
	.poll = client_poll,
	RKCHAIN_LLSEEK
};

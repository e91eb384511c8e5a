/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between kernels.  The only file that may ask which one this is.
 */
#ifndef RKCHAIN_COMPAT_H
#define RKCHAIN_COMPAT_H

#include <linux/fs.h>
#include <linux/version.h>

/* A stream without positions: the default since 6.12. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define RKCHAIN_LLSEEK	.llseek = no_llseek,
#else
#define RKCHAIN_LLSEEK
#endif

#endif /* RKCHAIN_COMPAT_H */

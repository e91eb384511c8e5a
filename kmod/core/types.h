/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The fixed-width types of freestanding code.  Inside a kernel they are the
 * kernel's; elsewhere they come from the compiler alone, so that kmod/core and
 * lib/model build with -ffreestanding -nostdinc and need neither libc nor
 * kernel headers.
 */
#ifndef RKC_TYPES_H
#define RKC_TYPES_H

#ifdef __KERNEL__
#include <linux/types.h>
#else

typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT8_TYPE__ s8;
typedef __INT16_TYPE__ s16;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;

#ifndef __cplusplus
typedef _Bool bool;
enum { false = 0, true = 1 };
#endif

#endif /* __KERNEL__ */

#ifdef __cplusplus
#define RKC_BEGIN_DECLS extern "C" {
#define RKC_END_DECLS }
#else
#define RKC_BEGIN_DECLS
#define RKC_END_DECLS
#endif

#endif /* RKC_TYPES_H */

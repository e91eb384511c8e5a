/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What lib/model needs of its environment: fixed-width types, memcpy, memset.
 * Inside a kernel these are the kernel's.  Elsewhere the types come from the
 * compiler, so that the model builds with -ffreestanding -nostdinc.
 */
#ifndef NPU_TYPES_H
#define NPU_TYPES_H

#ifdef __KERNEL__
#include <linux/string.h>
#include <linux/types.h>
#else

/* The same types as kmod/core's, so that one file may include both. */
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT8_TYPE__ s8;
typedef __INT16_TYPE__ s16;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;

/* C++ has them in headers of its own, with an exception specification. */
#ifndef __cplusplus
#ifndef NULL
#define NULL ((void *)0)
#endif
void *memcpy(void *dst, const void *src, __SIZE_TYPE__ len);
void *memset(void *dst, int byte, __SIZE_TYPE__ len);
#endif

#endif /* __KERNEL__ */

#ifdef __cplusplus
#define NPU_BEGIN_DECLS extern "C" {
#define NPU_END_DECLS }
#else
#define NPU_BEGIN_DECLS
#define NPU_END_DECLS
#endif

#endif /* NPU_TYPES_H */

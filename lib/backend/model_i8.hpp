// SPDX-License-Identifier: MIT
//
// The int8 MAC array of the software NPU with the CPU's vectors: what user space
// gives the model as npu_ops.dot_i8.
#pragma once

#include "lib/model/npu.h"

namespace rkchain {

/// npu_dot_i8() for the widest vectors that this CPU has; equal bit for bit, -128 included.
void model_dot_i8(s32* acc, const s8* feature, u64 pixel_stride, const s8* weight, u32 pixels,
                  u32 k);

}  // namespace rkchain

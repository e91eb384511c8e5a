// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "reason.h"

static const struct {
	u32 reason;
	const char *name;
	const char *text;
} reasons[] = {
	{ RKC_OK, "OK", "accepted" },
	{ RKC_BAD_TYPE, "BAD_TYPE", "no such element type" },
	{ RKC_BAD_LAYOUT, "BAD_LAYOUT", "no such memory layout" },
	{ RKC_M_ZERO, "M_ZERO", "M must be at least 1" },
	{ RKC_M_TOO_BIG, "M_TOO_BIG", "more rows (M) than one task takes at this K" },
	{ RKC_K_ALIGN, "K_ALIGN", "K must be a multiple of 32" },
	{ RKC_K_RANGE, "K_RANGE", "K must be 32 to 10752 in one task" },
	{ RKC_N_ALIGN, "N_ALIGN", "N must be a multiple of the kernel group (32 int8, 16 fp16)" },
	{ RKC_N_RANGE, "N_RANGE", "N must be at most 8192 in one task" },
	{ RKC_ROWS_TOTAL, "ROWS_TOTAL", "row slice and total rows do not fit together" },
	{ RKC_ADDR_ALIGN, "ADDR_ALIGN", "address must be a multiple of 16" },
	{ RKC_ADDR_RANGE, "ADDR_RANGE", "extent ends above 4 GiB" },
	{ RKC_PAGE_MISMATCH, "PAGE_MISMATCH", "target and register page disagree" },
	{ RKC_FOREIGN_TARGET, "FOREIGN_TARGET", "target that a matmul does not use" },
	{ RKC_UNKNOWN_REG, "UNKNOWN_REG", "register that a matmul does not write" },
	{ RKC_JUMP, "JUMP", "jump: PC address or fetch amount outside a link" },
	{ RKC_BASE_ADDRESS, "BASE_ADDRESS", "PC base address would move every DMA address" },
	{ RKC_INT_MASK, "INT_MASK", "PC interrupt mask or clear would lose the completion" },
	{ RKC_TASK_CONTROL, "TASK_CONTROL", "PC task control would change the task count" },
	{ RKC_PC_WRITE, "PC_WRITE", "PC register that a program may not write" },
	{ RKC_UNIT_OP_ENABLE, "UNIT_OP_ENABLE", "op-enable register of a single unit" },
	{ RKC_POINTER, "POINTER", "S_POINTER of CNA or CORE, or not 0xe in the DPU" },
	{ RKC_BAD_OP_ENABLE, "BAD_OP_ENABLE", "op-enable of other units than a matmul's" },
	{ RKC_BAD_PADDING, "BAD_PADDING", "word that is neither padding nor part of a tail" },
	{ RKC_MISSING_REG, "MISSING_REG", "register that decides the result is never written" },
	{ RKC_SIZE_MISMATCH, "SIZE_MISMATCH", "size disagrees with the other units'" },
	{ RKC_SHORT_WEIGHTS, "SHORT_WEIGHTS", "weight size is not K * N" },
	{ RKC_COWORK, "COWORK", "co-working cores, deconvolution or dilation" },
	{ RKC_CBUF_REUSE, "CBUF_REUSE", "reuse of data that an earlier program left in CBUF" },
	{ RKC_COMPRESSION, "COMPRESSION", "weight compression" },
	{ RKC_LUT, "LUT", "look-up table" },
	{ RKC_STRIDE, "STRIDE", "stride of no layout" },
	{ RKC_PRECISION, "PRECISION", "precision of no type, or units disagree about it" },
	{ RKC_VALUE, "VALUE", "value that a matmul does not have" },
	{ RKC_EMPTY, "EMPTY", "no block" },
	{ RKC_TOO_LONG, "TOO_LONG", "more blocks than a chain of this layout takes" },
	{ RKC_TRUNCATED, "TRUNCATED", "fewer words than the blocks need" },
	{ RKC_BAD_STRIDE, "BAD_STRIDE", "block stride and body length do not fit together" },
	{ RKC_BAD_MODE, "BAD_MODE", "no such chain mode" },
	{ RKC_IOVA_ALIGN, "IOVA_ALIGN", "program address must be a multiple of 16" },
	{ RKC_IOVA_RANGE, "IOVA_RANGE", "program ends above 4 GiB" },
	{ RKC_A_OUTSIDE, "A_OUTSIDE", "features are not inside a READ buffer" },
	{ RKC_B_OUTSIDE, "B_OUTSIDE", "weights are not inside a READ buffer" },
	{ RKC_C_OUTSIDE, "C_OUTSIDE", "output is not inside a WRITE buffer" },
	{ RKC_OUTPUT_OVERLAP, "OUTPUT_OVERLAP", "output overlaps the block's own input" },
	{ RKC_ALIAS_TYPE, "ALIAS_TYPE",
	  "input is an earlier block's output of another element size" },
	{ RKC_ALIAS_ORDER, "ALIAS_ORDER",
	  "input is an earlier block's output and the mode is not known to order blocks" },
	{ RKC_BUFFERS_OVERLAP, "BUFFERS_OVERLAP", "declared buffers overlap" },
	{ RKC_BUFFER_RANGE, "BUFFER_RANGE", "declared buffer is empty or ends above 4 GiB" },
};

const char *rkc_reason_name(u32 reason)
{
	for (u32 i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].reason == reason)
			return reasons[i].name;
	return "UNKNOWN";
}

const char *rkc_reason_text(u32 reason)
{
	for (u32 i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].reason == reason)
			return reasons[i].text;
	return "unknown reason";
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Register names after chapter 36 of the RK3588 reference manual.
 */
#include "regs.h"
#include "entry.h"

#define END { (const char *)0, 0, 0 }
#define BITS_OF(name, ...) static const struct rkc_field name[] = { __VA_ARGS__, END }

BITS_OF(pc_task_con, { "task_number", 0, 12 }, { "pingpong", 12, 1 },
	{ "task_count_clear", 13, 1 });
BITS_OF(op_enable, { "cna", 0, 1 }, { "wait", 1, 1 }, { "core", 2, 1 }, { "dpu", 3, 1 },
	{ "dpu_rdma", 4, 1 }, { "ppu", 5, 1 }, { "ppu_rdma", 6, 1 });
BITS_OF(s_pointer, { "pointer", 0, 1 }, { "pointer_pp_en", 1, 1 }, { "executer_pp_en", 2, 1 },
	{ "pp_mode", 3, 1 }, { "pointer_pp_clear", 4, 1 }, { "executer_pp_clear", 5, 1 },
	{ "executer", 16, 1 });
BITS_OF(cna_conv_con1, { "conv_mode", 0, 4 }, { "in_precision", 4, 3 }, { "proc_precision", 7, 3 },
	{ "argb_in", 12, 4 }, { "deconv", 16, 1 }, { "group_line_off", 29, 1 },
	{ "nonalign_dma", 30, 1 });
BITS_OF(cna_conv_con2, { "cmd_fifo_srst", 0, 1 }, { "csc_do_en", 1, 1 }, { "csc_wo_en", 2, 1 },
	{ "feature_grains", 4, 10 }, { "kernel_group", 16, 8 });
BITS_OF(cna_conv_con3, { "conv_x_stride", 0, 3 }, { "conv_y_stride", 3, 3 },
	{ "deconv_x_stride", 8, 3 }, { "deconv_y_stride", 11, 3 }, { "atrous_x_dilation", 16, 5 },
	{ "atrous_y_dilation", 21, 5 }, { "nn_mode", 28, 3 });
BITS_OF(width_height, { "width", 16, 11 }, { "height", 0, 11 });
BITS_OF(cna_data_size1, { "channel_real_minus_1", 16, 14 }, { "channel", 0, 16 });
BITS_OF(cna_data_size2, { "dataout_width", 0, 11 });
BITS_OF(cna_data_size3, { "dataout_atomics", 0, 22 }, { "surf_mode", 22, 2 });
BITS_OF(cna_weight_size2, { "kernels", 0, 14 }, { "kernel_height", 16, 5 },
	{ "kernel_width", 24, 5 });
BITS_OF(cna_cbuf_con0, { "data_bank", 0, 4 }, { "weight_bank", 4, 4 }, { "fc_data_bank", 8, 3 },
	{ "data_reuse", 12, 1 }, { "weight_reuse", 13, 1 });
BITS_OF(cna_cbuf_con1, { "data_entries", 0, 14 });
BITS_OF(cna_cvt_con0, { "bypass", 0, 1 }, { "type", 1, 1 }, { "round_type", 2, 1 },
	{ "data_sign", 3, 1 }, { "truncate_0", 4, 6 }, { "truncate_1", 10, 6 },
	{ "truncate_2", 16, 6 }, { "truncate_3", 22, 6 });
BITS_OF(cna_cvt_con, { "offset", 0, 16 }, { "scale", 16, 16 });
BITS_OF(cna_dma_con0, { "data_burst_len", 0, 4 }, { "weight_burst_len", 16, 4 },
	{ "ov4k_bypass", 31, 1 });
BITS_OF(line_stride, { "line_stride", 0, 28 });
BITS_OF(surf_stride, { "surf_stride_signed", 0, 28 });
BITS_OF(core_misc_cfg, { "qd_en", 0, 1 }, { "dw_en", 1, 1 }, { "proc_precision", 8, 3 },
	{ "soft_gating", 14, 6 });
BITS_OF(core_size0, { "height_minus_1", 16, 16 }, { "width_minus_1", 0, 16 });
BITS_OF(channel_minus_1, { "channel_minus_1", 0, 13 });
BITS_OF(dpu_feature_mode, { "flying_mode", 0, 1 }, { "output_mode", 1, 2 }, { "conv_mode", 3, 2 },
	{ "burst_len", 5, 4 }, { "surf_len", 9, 14 }, { "nonalign", 30, 1 },
	{ "comb_use", 31, 1 });
BITS_OF(dpu_data_format, { "proc_precision", 0, 3 }, { "mc_surf_out", 3, 1 },
	{ "bs_mul_shift_neg", 4, 6 }, { "bn_mul_shift_neg", 10, 6 }, { "ew_truncate_neg", 16, 10 },
	{ "in_precision", 26, 3 }, { "out_precision", 29, 3 });
BITS_OF(width_minus_1, { "width_minus_1", 0, 13 });
BITS_OF(height_minus_1, { "height_minus_1", 0, 13 });
BITS_OF(dpu_notch, { "notch_0", 0, 13 }, { "notch_1", 16, 13 });
BITS_OF(dpu_channel, { "channel_minus_1", 0, 13 }, { "orig_channel_minus_1", 16, 13 });
BITS_OF(dpu_bypass_cfg, { "bypass", 0, 1 }, { "alu_bypass", 1, 1 }, { "mul_bypass", 4, 1 },
	{ "relu_bypass", 6, 1 }, { "relux_en", 7, 1 }, { "alu_algo", 16, 4 });
BITS_OF(dpu_bs_ow_cfg, { "od_bypass", 1, 1 }, { "size_e_0", 2, 3 }, { "size_e_1", 5, 3 },
	{ "size_e_2", 8, 3 }, { "tp_org_en", 27, 1 }, { "rgp_cnter", 28, 4 });
BITS_OF(dpu_wdma_size1, { "height_minus_1", 16, 13 }, { "width_minus_1", 0, 13 });
BITS_OF(dpu_ew_cfg, { "bypass", 0, 1 }, { "op_bypass", 1, 1 }, { "lut_bypass", 7, 1 },
	{ "op_cvt_bypass", 8, 1 }, { "relu_bypass", 9, 1 }, { "alu_algo", 16, 4 });
BITS_OF(dpu_cvt_scale, { "scale", 0, 16 }, { "fp32tofp16_en", 16, 1 });
BITS_OF(dpu_stride16, { "stride_16_bytes", 4, 28 });

#define NUM ((const struct rkc_field *)0)
#define PC(reg, name, fields) { reg, RKC_TARGET_PC, name, fields }
#define CNA(reg, name, fields) { reg, RKC_TARGET_CNA, name, fields }
#define CORE(reg, name, fields) { reg, RKC_TARGET_CORE, name, fields }
#define DPU(reg, name, fields) { reg, RKC_TARGET_DPU, name, fields }

static const struct rkc_reg table[] = {
	PC(0x0008, "OPERATION_ENABLE", NUM), PC(0x0010, "BASE_ADDRESS", NUM),
	PC(0x0014, "REGISTER_AMOUNTS", NUM), PC(0x0020, "INTERRUPT_MASK", NUM),
	PC(0x0024, "INTERRUPT_CLEAR", NUM), PC(0x0030, "TASK_CON", pc_task_con),
	PC(0x0034, "TASK_DMA_BASE_ADDR", NUM),

	CNA(0x1004, "S_POINTER", s_pointer), CNA(0x1008, "OPERATION_ENABLE", NUM),
	CNA(0x100c, "CONV_CON1", cna_conv_con1), CNA(0x1010, "CONV_CON2", cna_conv_con2),
	CNA(0x1014, "CONV_CON3", cna_conv_con3), CNA(0x1020, "DATA_SIZE0", width_height),
	CNA(0x1024, "DATA_SIZE1", cna_data_size1), CNA(0x1028, "DATA_SIZE2", cna_data_size2),
	CNA(0x102c, "DATA_SIZE3", cna_data_size3), CNA(0x1030, "WEIGHT_SIZE0", NUM),
	CNA(0x1034, "WEIGHT_SIZE1", NUM), CNA(0x1038, "WEIGHT_SIZE2", cna_weight_size2),
	CNA(0x1040, "CBUF_CON0", cna_cbuf_con0), CNA(0x1044, "CBUF_CON1", cna_cbuf_con1),
	CNA(0x104c, "CVT_CON0", cna_cvt_con0), CNA(0x1050, "CVT_CON1", cna_cvt_con),
	CNA(0x1054, "CVT_CON2", cna_cvt_con), CNA(0x1058, "CVT_CON3", cna_cvt_con),
	CNA(0x105c, "CVT_CON4", cna_cvt_con), CNA(0x1060, "FC_CON0", NUM),
	CNA(0x1064, "FC_CON1", NUM), CNA(0x1068, "PAD_CON0", NUM),
	CNA(0x1070, "FEATURE_DATA_ADDR", NUM), CNA(0x1074, "FC_CON2", NUM),
	CNA(0x1078, "DMA_CON0", cna_dma_con0), CNA(0x107c, "DMA_CON1", line_stride),
	CNA(0x1080, "DMA_CON2", surf_stride), CNA(0x1084, "FC_DATA_SIZE0", width_height),
	CNA(0x1088, "FC_DATA_SIZE1", NUM), CNA(0x1090, "CLK_GATE", NUM),
	CNA(0x1100, "DCOMP_CTRL", NUM), CNA(0x1104, "DCOMP_REGNUM", NUM),
	CNA(0x1110, "DCOMP_ADDR0", NUM), CNA(0x1140, "DCOMP_AMOUNT0", NUM),
	CNA(0x1144, "DCOMP_AMOUNT1", NUM), CNA(0x1148, "DCOMP_AMOUNT2", NUM),
	CNA(0x114c, "DCOMP_AMOUNT3", NUM), CNA(0x1150, "DCOMP_AMOUNT4", NUM),
	CNA(0x1154, "DCOMP_AMOUNT5", NUM), CNA(0x1158, "DCOMP_AMOUNT6", NUM),
	CNA(0x115c, "DCOMP_AMOUNT7", NUM), CNA(0x1160, "DCOMP_AMOUNT8", NUM),
	CNA(0x1164, "DCOMP_AMOUNT9", NUM), CNA(0x1168, "DCOMP_AMOUNT10", NUM),
	CNA(0x116c, "DCOMP_AMOUNT11", NUM), CNA(0x1170, "DCOMP_AMOUNT12", NUM),
	CNA(0x1174, "DCOMP_AMOUNT13", NUM), CNA(0x1178, "DCOMP_AMOUNT14", NUM),
	CNA(0x117c, "DCOMP_AMOUNT15", NUM), CNA(0x1180, "CVT_CON5", NUM),
	CNA(0x1184, "PAD_CON1", NUM),

	CORE(0x3004, "S_POINTER", s_pointer), CORE(0x3008, "OPERATION_ENABLE", NUM),
	CORE(0x300c, "MAC_GATING", NUM), CORE(0x3010, "MISC_CFG", core_misc_cfg),
	CORE(0x3014, "DATAOUT_SIZE_0", core_size0), CORE(0x3018, "DATAOUT_SIZE_1", channel_minus_1),
	CORE(0x301c, "CLIP_TRUNCATE", NUM), CORE(0x3030, "RESERVED_3030", NUM),

	DPU(0x4004, "S_POINTER", s_pointer), DPU(0x4008, "OPERATION_ENABLE", NUM),
	DPU(0x400c, "FEATURE_MODE_CFG", dpu_feature_mode),
	DPU(0x4010, "DATA_FORMAT", dpu_data_format), DPU(0x4014, "OFFSET_PEND", NUM),
	DPU(0x4020, "DST_BASE_ADDR", NUM), DPU(0x4024, "DST_SURF_STRIDE", dpu_stride16),
	DPU(0x4030, "DATA_CUBE_WIDTH", width_minus_1),
	DPU(0x4034, "DATA_CUBE_HEIGHT", height_minus_1),
	DPU(0x4038, "DATA_CUBE_NOTCH_ADDR", dpu_notch),
	DPU(0x403c, "DATA_CUBE_CHANNEL", dpu_channel), DPU(0x4040, "BS_CFG", dpu_bypass_cfg),
	DPU(0x4044, "BS_ALU_CFG", NUM), DPU(0x4048, "BS_MUL_CFG", NUM),
	DPU(0x404c, "BS_RELUX_CMP_VALUE", NUM), DPU(0x4050, "BS_OW_CFG", dpu_bs_ow_cfg),
	DPU(0x4054, "BS_OW_OP", NUM), DPU(0x4058, "WDMA_SIZE_0", channel_minus_1),
	DPU(0x405c, "WDMA_SIZE_1", dpu_wdma_size1), DPU(0x4060, "BN_CFG", dpu_bypass_cfg),
	DPU(0x4064, "BN_ALU_CFG", NUM), DPU(0x4068, "BN_MUL_CFG", NUM),
	DPU(0x406c, "BN_RELUX_CMP_VALUE", NUM), DPU(0x4070, "EW_CFG", dpu_ew_cfg),
	DPU(0x4074, "EW_CVT_OFFSET_VALUE", NUM), DPU(0x4078, "EW_CVT_SCALE_VALUE", NUM),
	DPU(0x407c, "EW_RELUX_CMP_VALUE", NUM), DPU(0x4080, "OUT_CVT_OFFSET", NUM),
	DPU(0x4084, "OUT_CVT_SCALE", dpu_cvt_scale), DPU(0x4088, "OUT_CVT_SHIFT", NUM),
	DPU(0x4090, "EW_OP_VALUE_0", NUM), DPU(0x4094, "EW_OP_VALUE_1", NUM),
	DPU(0x4098, "EW_OP_VALUE_2", NUM), DPU(0x409c, "EW_OP_VALUE_3", NUM),
	DPU(0x40a0, "EW_OP_VALUE_4", NUM), DPU(0x40a4, "EW_OP_VALUE_5", NUM),
	DPU(0x40a8, "EW_OP_VALUE_6", NUM), DPU(0x40ac, "EW_OP_VALUE_7", NUM),
	DPU(0x40c0, "SURFACE_ADD", dpu_stride16), DPU(0x40c4, "RESERVED_40C4", NUM),
	DPU(0x4100, "LUT_ACCESS_CFG", NUM), DPU(0x4104, "LUT_ACCESS_DATA", NUM),
	DPU(0x4108, "LUT_CFG", NUM), DPU(0x410c, "LUT_INFO", NUM),
	DPU(0x4110, "LUT_LE_START", NUM), DPU(0x4114, "LUT_LE_END", NUM),
	DPU(0x4118, "LUT_LO_START", NUM), DPU(0x411c, "LUT_LO_END", NUM),
	DPU(0x4120, "LUT_LE_SLOPE_SCALE", NUM), DPU(0x4124, "LUT_LE_SLOPE_SHIFT", NUM),
	DPU(0x4128, "LUT_LO_SLOPE_SCALE", NUM), DPU(0x412c, "LUT_LO_SLOPE_SHIFT", NUM),
};

static const struct rkc_reg op_enable_reg = {
	RKC_PC_OP_ENABLE, RKC_TARGET_OP_ENABLE, "OP_ENABLE", op_enable
};

static const struct {
	u32 target;
	int page;
	const char *name;
} targets[] = {
	{ RKC_TARGET_NOP, 0, "NOP" },
	{ RKC_TARGET_ARM, 0, "ARM" },
	{ RKC_TARGET_OP_ENABLE, 0, "ALL" },
	{ RKC_TARGET_PC, 0x0000, "PC" },
	{ RKC_TARGET_CNA, 0x1000, "CNA" },
	{ RKC_TARGET_RK3568, 0x2000, "RK3568" },
	{ RKC_TARGET_CORE, 0x3000, "CORE" },
	{ RKC_TARGET_DPU, 0x4000, "DPU" },
	{ RKC_TARGET_DPU_RDMA, 0x5000, "DPU_RDMA" },
	{ RKC_TARGET_PPU, 0x6000, "PPU" },
	{ RKC_TARGET_PPU_RDMA, 0x7000, "PPU_RDMA" },
};

const char *rkc_target_name(u32 target)
{
	for (u32 i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		if (targets[i].target == target)
			return targets[i].name;
	return "?";
}

int rkc_target_page(u32 target)
{
	for (u32 i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		if (targets[i].target == target)
			return targets[i].page;
	return -1;
}

const struct rkc_reg *rkc_reg_find(u32 target, u32 reg)
{
	if (target == RKC_TARGET_OP_ENABLE && reg == RKC_PC_OP_ENABLE)
		return &op_enable_reg;
	for (u32 i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].target == target && table[i].reg == reg)
			return &table[i];
	return (const struct rkc_reg *)0;
}

const struct rkc_reg *rkc_reg_table(u32 *count)
{
	*count = sizeof(table) / sizeof(table[0]);
	return table;
}

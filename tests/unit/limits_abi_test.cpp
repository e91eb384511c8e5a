// SPDX-License-Identifier: MIT
// kmod/core: the numbers that others rely on.  Reasons, types and the format of entries are ABI,
// the fields of registers are the reference manual's.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kmod/core/chain.h"
#include "kmod/core/check.h"
#include "kmod/core/entry.h"
#include "kmod/core/matmul.h"
#include "kmod/core/reason.h"
#include "kmod/core/regs.h"

namespace {

TEST(Abi, ReasonsKeepTheirNumbers) {
  const std::map<std::uint32_t, std::string> reasons = {{0, "OK"},
                                                        {1, "BAD_TYPE"},
                                                        {2, "BAD_LAYOUT"},
                                                        {3, "M_ZERO"},
                                                        {4, "M_TOO_BIG"},
                                                        {5, "K_ALIGN"},
                                                        {6, "K_RANGE"},
                                                        {7, "N_ALIGN"},
                                                        {8, "N_RANGE"},
                                                        {9, "ROWS_TOTAL"},
                                                        {10, "ADDR_ALIGN"},
                                                        {11, "ADDR_RANGE"},
                                                        {20, "PAGE_MISMATCH"},
                                                        {21, "FOREIGN_TARGET"},
                                                        {22, "UNKNOWN_REG"},
                                                        {23, "JUMP"},
                                                        {24, "BASE_ADDRESS"},
                                                        {25, "INT_MASK"},
                                                        {26, "TASK_CONTROL"},
                                                        {27, "PC_WRITE"},
                                                        {28, "UNIT_OP_ENABLE"},
                                                        {29, "POINTER"},
                                                        {30, "BAD_OP_ENABLE"},
                                                        {31, "BAD_PADDING"},
                                                        {40, "MISSING_REG"},
                                                        {41, "SIZE_MISMATCH"},
                                                        {42, "SHORT_WEIGHTS"},
                                                        {43, "COWORK"},
                                                        {44, "CBUF_REUSE"},
                                                        {45, "COMPRESSION"},
                                                        {46, "LUT"},
                                                        {47, "STRIDE"},
                                                        {48, "PRECISION"},
                                                        {49, "VALUE"},
                                                        {60, "EMPTY"},
                                                        {61, "TOO_LONG"},
                                                        {62, "TRUNCATED"},
                                                        {63, "BAD_STRIDE"},
                                                        {64, "BAD_MODE"},
                                                        {65, "IOVA_ALIGN"},
                                                        {66, "IOVA_RANGE"},
                                                        {80, "A_OUTSIDE"},
                                                        {81, "B_OUTSIDE"},
                                                        {82, "C_OUTSIDE"},
                                                        {83, "OUTPUT_OVERLAP"},
                                                        {84, "ALIAS_TYPE"},
                                                        {85, "ALIAS_ORDER"},
                                                        {86, "BUFFERS_OVERLAP"},
                                                        {87, "BUFFER_RANGE"}};
  std::set<std::string> texts;
  for (std::uint32_t number = 0; number < 128; ++number) {
    const auto reason = reasons.find(number);
    if (reason == reasons.end()) {
      EXPECT_STREQ(rkc_reason_name(number), "UNKNOWN") << number;
      continue;
    }
    EXPECT_EQ(rkc_reason_name(number), reason->second) << number;
    EXPECT_TRUE(texts.insert(rkc_reason_text(number)).second) << number;
  }
  EXPECT_EQ(texts.count("unknown reason"), 0U);
}

TEST(Abi, TypesLayoutsAndModesKeepTheirNumbers) {
  EXPECT_EQ(RKC_I8_I32, 0);
  EXPECT_EQ(RKC_I8_I8, 1);
  EXPECT_EQ(RKC_F16_F32, 2);
  EXPECT_EQ(RKC_F16_F16, 3);
  EXPECT_EQ(RKC_FLAT, 0);
  EXPECT_EQ(RKC_NATIVE, 1);
  EXPECT_EQ(RKC_SLICE, 2);
  const std::array<const char*, 5> modes = {"wait", "wait41", "link", "single", "?"};
  for (std::uint32_t mode = 0; mode < modes.size(); ++mode)
    EXPECT_STREQ(rkc_mode_name(mode), modes[mode]);
  EXPECT_EQ(RKC_BUF_READ, 1U);
  EXPECT_EQ(RKC_BUF_WRITE, 2U);
  EXPECT_EQ(RKC_BUF_SYNC, 4U);
}

TEST(Abi, EntriesAreTargetValueRegister) {
  const u64 entry = rkc_entry(0xfedc, 0x9876, 0x89abcdef);
  EXPECT_EQ(entry, 0xfedc89abcdef9876U);
  EXPECT_EQ(rkc_entry_target(entry), 0xfedcU);
  EXPECT_EQ(rkc_entry_value(entry), 0x89abcdefU);
  EXPECT_EQ(rkc_entry_reg(entry), 0x9876U);
}

TEST(Abi, TargetsHaveNamesAndPages) {
  struct Target {
    std::uint32_t target;
    const char* name;
    int page;
  };
  constexpr std::array<Target, 12> targets = {{{0x0000, "NOP", 0},
                                               {0x0041, "ARM", 0},
                                               {0x0081, "ALL", 0},
                                               {0x0101, "PC", 0},
                                               {0x0201, "CNA", 0x1000},
                                               {0x0401, "RK3568", 0x2000},
                                               {0x0801, "CORE", 0x3000},
                                               {0x1001, "DPU", 0x4000},
                                               {0x2001, "DPU_RDMA", 0x5000},
                                               {0x4001, "PPU", 0x6000},
                                               {0x8001, "PPU_RDMA", 0x7000},
                                               {0x0101 + 1, "?", -1}}};
  for (const Target& t : targets) {
    EXPECT_STREQ(rkc_target_name(t.target), t.name);
    EXPECT_EQ(rkc_target_page(t.target), t.page) << t.name;
  }
}

TEST(Registers, HaveTheirFieldsWhereTheManualHasThem) {
  const std::vector<std::string> manual = {
      "TASK_CON task_number[11:0] pingpong[12] task_count_clear[13]",
      "S_POINTER pointer[0] pointer_pp_en[1] executer_pp_en[2] pp_mode[3] pointer_pp_clear[4] "
      "executer_pp_clear[5] executer[16]",
      "CONV_CON1 conv_mode[3:0] in_precision[6:4] proc_precision[9:7] argb_in[15:12] deconv[16] "
      "group_line_off[29] nonalign_dma[30]",
      "CONV_CON2 cmd_fifo_srst[0] csc_do_en[1] csc_wo_en[2] feature_grains[13:4] "
      "kernel_group[23:16]",
      "CONV_CON3 conv_x_stride[2:0] conv_y_stride[5:3] deconv_x_stride[10:8] "
      "deconv_y_stride[13:11] atrous_x_dilation[20:16] atrous_y_dilation[25:21] nn_mode[30:28]",
      "DATA_SIZE0 width[26:16] height[10:0]",
      "DATA_SIZE1 channel_real_minus_1[29:16] channel[15:0]",
      "DATA_SIZE2 dataout_width[10:0]",
      "DATA_SIZE3 dataout_atomics[21:0] surf_mode[23:22]",
      "WEIGHT_SIZE2 kernels[13:0] kernel_height[20:16] kernel_width[28:24]",
      "CBUF_CON0 data_bank[3:0] weight_bank[7:4] fc_data_bank[10:8] data_reuse[12] "
      "weight_reuse[13]",
      "CBUF_CON1 data_entries[13:0]",
      "CVT_CON0 bypass[0] type[1] round_type[2] data_sign[3] truncate_0[9:4] truncate_1[15:10] "
      "truncate_2[21:16] truncate_3[27:22]",
      "CVT_CON1 offset[15:0] scale[31:16]",
      "CVT_CON2 offset[15:0] scale[31:16]",
      "CVT_CON3 offset[15:0] scale[31:16]",
      "CVT_CON4 offset[15:0] scale[31:16]",
      "DMA_CON0 data_burst_len[3:0] weight_burst_len[19:16] ov4k_bypass[31]",
      "DMA_CON1 line_stride[27:0]",
      "DMA_CON2 surf_stride_signed[27:0]",
      "FC_DATA_SIZE0 width[26:16] height[10:0]",
      "S_POINTER pointer[0] pointer_pp_en[1] executer_pp_en[2] pp_mode[3] pointer_pp_clear[4] "
      "executer_pp_clear[5] executer[16]",
      "MISC_CFG qd_en[0] dw_en[1] proc_precision[10:8] soft_gating[19:14]",
      "DATAOUT_SIZE_0 height_minus_1[31:16] width_minus_1[15:0]",
      "DATAOUT_SIZE_1 channel_minus_1[12:0]",
      "S_POINTER pointer[0] pointer_pp_en[1] executer_pp_en[2] pp_mode[3] pointer_pp_clear[4] "
      "executer_pp_clear[5] executer[16]",
      "FEATURE_MODE_CFG flying_mode[0] output_mode[2:1] conv_mode[4:3] burst_len[8:5] "
      "surf_len[22:9] nonalign[30] comb_use[31]",
      "DATA_FORMAT proc_precision[2:0] mc_surf_out[3] bs_mul_shift_neg[9:4] "
      "bn_mul_shift_neg[15:10] ew_truncate_neg[25:16] in_precision[28:26] out_precision[31:29]",
      "DST_SURF_STRIDE stride_16_bytes[31:4]",
      "DATA_CUBE_WIDTH width_minus_1[12:0]",
      "DATA_CUBE_HEIGHT height_minus_1[12:0]",
      "DATA_CUBE_NOTCH_ADDR notch_0[12:0] notch_1[28:16]",
      "DATA_CUBE_CHANNEL channel_minus_1[12:0] orig_channel_minus_1[28:16]",
      "BS_CFG bypass[0] alu_bypass[1] mul_bypass[4] relu_bypass[6] relux_en[7] alu_algo[19:16]",
      "BS_OW_CFG od_bypass[1] size_e_0[4:2] size_e_1[7:5] size_e_2[10:8] tp_org_en[27] "
      "rgp_cnter[31:28]",
      "WDMA_SIZE_0 channel_minus_1[12:0]",
      "WDMA_SIZE_1 height_minus_1[28:16] width_minus_1[12:0]",
      "BN_CFG bypass[0] alu_bypass[1] mul_bypass[4] relu_bypass[6] relux_en[7] alu_algo[19:16]",
      "EW_CFG bypass[0] op_bypass[1] lut_bypass[7] op_cvt_bypass[8] relu_bypass[9] alu_algo[19:16]",
      "OUT_CVT_SCALE scale[15:0] fp32tofp16_en[16]",
      "SURFACE_ADD stride_16_bytes[31:4]",
      "OP_ENABLE cna[0] wait[1] core[2] dpu[3] dpu_rdma[4] ppu[5] ppu_rdma[6]"};
  std::uint32_t count = 0;
  const rkc_reg* table = rkc_reg_table(&count);
  std::vector<const rkc_reg*> with_fields;
  for (std::uint32_t i = 0; i < count; ++i)
    if (table[i].fields != nullptr) with_fields.push_back(&table[i]);
  with_fields.push_back(rkc_reg_find(RKC_TARGET_OP_ENABLE, RKC_PC_OP_ENABLE));
  ASSERT_EQ(with_fields.size(), manual.size());
  for (std::size_t i = 0; i < manual.size(); ++i) {
    std::string line = with_fields[i]->name;
    for (const rkc_field* f = with_fields[i]->fields; f->name != nullptr; ++f) {
      line += std::string(" ") + f->name + "[";
      if (f->width > 1) line += std::to_string(f->lo + f->width - 1) + ":";
      line += std::to_string(f->lo) + "]";
    }
    EXPECT_EQ(line, manual[i]);
  }
}

TEST(Registers, ThatNoProgramWritesHaveTheirNamesToo) {
  const auto name = [](std::uint32_t target, std::uint32_t reg) -> std::string {
    const rkc_reg* found = rkc_reg_find(target, reg);
    return found != nullptr ? found->name : "";
  };
  for (const std::uint32_t target : {RKC_TARGET_CNA, RKC_TARGET_CORE, RKC_TARGET_DPU}) {
    const auto page = static_cast<std::uint32_t>(rkc_target_page(target));
    EXPECT_EQ(name(target, page + 4), "S_POINTER");
    EXPECT_EQ(name(target, page + 8), "OPERATION_ENABLE");
  }
  EXPECT_EQ(name(RKC_TARGET_CNA, 0x1090), "CLK_GATE");
  EXPECT_EQ(name(RKC_TARGET_CORE, 0x300c), "MAC_GATING");
  EXPECT_EQ(name(RKC_TARGET_PC, 0x08), "OPERATION_ENABLE");
  EXPECT_EQ(name(RKC_TARGET_PC, 0x10), "BASE_ADDRESS");
  EXPECT_EQ(name(RKC_TARGET_PC, 0x14), "REGISTER_AMOUNTS");
  EXPECT_EQ(name(RKC_TARGET_PC, 0x20), "INTERRUPT_MASK");
  EXPECT_EQ(name(RKC_TARGET_PC, 0x24), "INTERRUPT_CLEAR");
  EXPECT_EQ(name(RKC_TARGET_PC, 0x30), "TASK_CON");
  EXPECT_EQ(name(RKC_TARGET_PC, 0x34), "TASK_DMA_BASE_ADDR");
  EXPECT_EQ(name(RKC_TARGET_OP_ENABLE, 0x08), "OP_ENABLE");
  EXPECT_EQ(name(RKC_TARGET_OP_ENABLE, 0x10), "");
}

}  // namespace

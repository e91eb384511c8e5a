// SPDX-License-Identifier: MIT
// kmod/core: the numbers that others rely on.  Reasons are ABI, limits and times come from what
// boards showed, fields of registers are the reference manual's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kmod/core/chain.h"
#include "kmod/core/check.h"
#include "kmod/core/entry.h"
#include "kmod/core/judge.h"
#include "kmod/core/ranges.h"
#include "kmod/core/regs.h"
#include "kmod/core/share.h"
#include "kmod/core/window.h"
#include "unit/core_samples.hpp"

namespace {

using rkchain::test::block;
using rkchain::test::full_program;
using rkchain::test::same;
using rkchain::test::Words;

// ---- reasons ----------------------------------------------------------------

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

// ---- one matmul -------------------------------------------------------------

TEST(Limits, EndExactlyWhereTheyAreSaidTo) {
  const auto check = [](const rkc_matmul& d) { return rkc_matmul_check(&d, nullptr); };
  // Most rows of each K, at the last K of each step and behind it.
  constexpr std::array<std::array<std::uint32_t, 2>, 11> rows = {{{32, 704},
                                                                  {512, 704},
                                                                  {544, 320},
                                                                  {1024, 320},
                                                                  {1056, 128},
                                                                  {2048, 128},
                                                                  {2080, 64},
                                                                  {4096, 64},
                                                                  {4128, 55},
                                                                  {5120, 44},
                                                                  {10752, 3}}};
  for (const auto& [k, most] : rows) {
    EXPECT_EQ(rkc_max_rows(RKC_I8_I32, k), most) << k;
    EXPECT_EQ(check(block(RKC_I8_I32, RKC_FLAT, most, k, 32)), RKC_OK) << k;
    EXPECT_EQ(check(block(RKC_I8_I32, RKC_FLAT, most + 1, k, 32)), RKC_M_TOO_BIG) << k;
  }
  EXPECT_EQ(rkc_max_rows(RKC_F16_F32, 32), 512U);
  EXPECT_EQ(rkc_max_rows(RKC_F16_F16, 10752), 1U);
  EXPECT_EQ(rkc_max_rows(RKC_I8_I32, 0), 0U);
  EXPECT_EQ(check(block(RKC_I8_I32, RKC_FLAT, 1, 32, 8192)), RKC_OK);
  EXPECT_EQ(check(block(RKC_I8_I32, RKC_FLAT, 1, 32, 8224)), RKC_N_RANGE);
  rkc_matmul slice = block(RKC_I8_I32, RKC_SLICE, 5, 32, 32, 0x10, 0x20, 0x30);
  EXPECT_EQ(check(slice), RKC_OK);
  // A slice of so many rows does not fit an address space, unless it is one atom wide.
  slice = block(RKC_I8_I8, RKC_SLICE, 5, 32, 32, 0, 0, 0);
  slice.m_total = 0x1ffffff;
  EXPECT_EQ(check(slice), RKC_OK);
  slice.m_total = 0x2000000;
  EXPECT_EQ(check(slice), RKC_ROWS_TOTAL);
}

TEST(Limits, NameTheRegisterThatHoldsWhatIsWrong) {
  const auto reg = [](const rkc_matmul& d) {
    rkc_err err{1, 2, 3, 4, 5, 6};
    EXPECT_NE(rkc_matmul_check(&d, &err), RKC_OK);
    EXPECT_EQ(err.block, 0U);
    EXPECT_EQ(err.word, RKC_NO_WORD);
    return err.reg;
  };
  rkc_matmul total = block(0, RKC_FLAT, 5, 32, 32);
  total.m_total = 6;
  rkc_matmul slice = block(0, RKC_SLICE, 5, 32, 32);
  slice.m_total = 4;
  EXPECT_EQ(reg(block(4, RKC_FLAT, 1, 32, 32)), 0x4010U);
  EXPECT_EQ(reg(block(0, 3, 1, 32, 32)), 0x100cU);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 0, 32, 32)), 0x1020U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 705, 32, 32)), 0x1020U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 0, 32)), 0x1024U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 33, 32)), 0x1024U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 0)), 0x1038U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 33)), 0x1038U);
  EXPECT_EQ(reg(total), 0x107cU);
  EXPECT_EQ(reg(slice), 0x107cU);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 8, 16, 16)), 0x1070U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 16, 8, 16)), 0x1110U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 16, 16, 8)), 0x4020U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 0xfffffff0, 16, 16)), 0x1070U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 16, 0xfffffff0, 16)), 0x1110U);
  EXPECT_EQ(reg(block(0, RKC_FLAT, 1, 32, 32, 16, 16, 0xfffffff0)), 0x4020U);
}

// ---- programs ---------------------------------------------------------------

TEST(Program, ShapesEndExactlyWhereTheyAreSaidTo) {
  const Words words(3 * 4096 + 4096, 0);
  const auto shape = [&words](std::uint64_t nwords, std::uint32_t count, std::uint32_t stride,
                              std::uint32_t body, bool link = false) {
    const rkc_program p{words.data(), nwords, count, stride, body, link};
    return rkc_program_shape(&p, nullptr);
  };
  EXPECT_EQ(shape(2 * 110 + 108, 3, 110, 108), RKC_OK);
  EXPECT_EQ(shape(2 * 110 + 107, 3, 110, 108), RKC_TRUNCATED);
  EXPECT_EQ(shape(2 * 110 + 108 + 4096, 3, 110, 108), RKC_OK);
  EXPECT_EQ(shape(2 * 110 + 108 + 4097, 3, 110, 108), RKC_BAD_STRIDE);
  EXPECT_EQ(shape(2 * 108 + 108, 3, 108, 108), RKC_OK);
  EXPECT_EQ(shape(3 * 108, 3, 107, 108), RKC_BAD_STRIDE);
  EXPECT_EQ(shape(2 * 4096 + 108, 3, 4096, 108), RKC_OK);
  EXPECT_EQ(shape(2 * 4097 + 108, 3, 4097, 108), RKC_BAD_STRIDE);
  EXPECT_EQ(shape(4096, 1, 4096, 4096), RKC_OK);
  EXPECT_EQ(shape(4097, 1, 4097, 4097), RKC_BAD_STRIDE);
  // One block alone has no stride.
  EXPECT_EQ(shape(112, 1, 0, 108), RKC_OK);
  EXPECT_EQ(shape(1191 * 108, 1191, 108, 108), RKC_OK);
  EXPECT_EQ(shape(1192 * 108, 1192, 108, 108), RKC_TOO_LONG);
  EXPECT_EQ(shape(1192 * 108, 1192, 108, 108, true), RKC_OK);
  EXPECT_EQ(shape(4095 * 108, 4095, 108, 108, true), RKC_OK);
  EXPECT_EQ(shape(4096 * 108, 4096, 108, 108, true), RKC_TOO_LONG);
}

TEST(Program, ShapesSayWhatWasFoundAndWhatWasExpected) {
  const auto error = [](std::uint64_t nwords, std::uint32_t count, std::uint32_t stride,
                        std::uint32_t body, bool link = false) {
    const rkc_program p{nullptr, nwords, count, stride, body, link};
    rkc_err err{1, 2, 3, 4, 5, 6};
    EXPECT_EQ(rkc_program_shape(&p, &err), err.reason);
    EXPECT_EQ(err.block, 0U);
    EXPECT_EQ(err.word, RKC_NO_WORD);
    EXPECT_EQ(err.reg, 0U);
    return std::array<std::uint64_t, 3>{err.reason, err.value, err.limit};
  };
  using Error = std::array<std::uint64_t, 3>;
  EXPECT_EQ(error(100, 0, 110, 108), (Error{RKC_EMPTY, 0, 1}));
  EXPECT_EQ(error(200000, 1192, 110, 108), (Error{RKC_TOO_LONG, 1192, 1191}));
  EXPECT_EQ(error(200000, 4096, 110, 108, true), (Error{RKC_TOO_LONG, 4096, 4095}));
  EXPECT_EQ(error(200000, 1, 0, 5000), (Error{RKC_BAD_STRIDE, 5000, 4096}));
  EXPECT_EQ(error(400, 3, 100, 108), (Error{RKC_BAD_STRIDE, 100, 108}));
  EXPECT_EQ(error(400, 3, 5000, 108), (Error{RKC_BAD_STRIDE, 5000, 4096}));
  EXPECT_EQ(error(300, 3, 110, 108), (Error{RKC_TRUNCATED, 300, 328}));
  EXPECT_EQ(error(5000, 3, 110, 108), (Error{RKC_BAD_STRIDE, 5000, 328 + 4096}));
}

TEST(Program, MeasuringSaysWhatWasFoundAndWhatWasExpected) {
  const auto error = [](std::uint32_t mode, std::uint32_t count) {
    rkc_measure m{};
    rkc_err err{1, 2, 3, 4, 5, 6};
    EXPECT_EQ(rkc_chain_measure(mode, count, &m, &err), err.reason);
    EXPECT_EQ(err.word, RKC_NO_WORD);
    EXPECT_EQ(err.reg, 0U);
    return std::array<std::uint64_t, 3>{err.reason, err.value, err.limit};
  };
  using Error = std::array<std::uint64_t, 3>;
  EXPECT_EQ(error(4, 1), (Error{RKC_BAD_MODE, 4, 3}));
  EXPECT_EQ(error(RKC_WAIT, 0), (Error{RKC_EMPTY, 0, 1}));
  EXPECT_EQ(error(RKC_SINGLE, 4096), (Error{RKC_TOO_LONG, 4096, 4095}));
  const rkc_matmul d = block(0, RKC_FLAT, 1, 32, 32);
  Words words(112);
  rkc_err err{};
  EXPECT_EQ(rkc_chain_emit(RKC_WAIT, &d, 1, 0x18, words.data(), &err), RKC_IOVA_ALIGN);
  EXPECT_EQ((std::array<std::uint64_t, 3>{err.reg, err.value, err.limit}),
            (std::array<std::uint64_t, 3>{0x10, 0x18, 16}));
  EXPECT_EQ(rkc_chain_emit(RKC_WAIT, &d, 1, 0xfffffff0, words.data(), &err), RKC_IOVA_RANGE);
  EXPECT_EQ((std::array<std::uint64_t, 3>{err.reg, err.value, err.limit}),
            (std::array<std::uint64_t, 3>{0x10, 0xfffffff0, 0x100000000}));
  EXPECT_EQ(err.word, RKC_NO_WORD);
}

TEST(Program, IsDetectedUpToTheLimitsOfAnyLayout) {
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 64, 96);
  const Words one = full_program(d);
  Words many;
  for (int i = 0; i < 4095; ++i) many.insert(many.end(), one.begin(), one.end());
  for (std::size_t i = 108; i + 112 < many.size(); i += 112)
    many[i] = rkc_entry(RKC_TARGET_PC, RKC_PC_ADDRESS, static_cast<std::uint32_t>(8 * (i + 4)));
  rkc_program p{};
  EXPECT_EQ(rkc_program_detect(many.data(), many.size(), &p), std::uint32_t{RKC_LINK});
  EXPECT_EQ(p.count, 4095U);
  EXPECT_EQ(p.stride, 112U);
  EXPECT_EQ(rkc_program_shape(&p, nullptr), RKC_OK);
  many.insert(many.end(), one.begin(), one.end());
  EXPECT_EQ(rkc_program_detect(many.data(), many.size(), &p), std::uint32_t{RKC_MODES});
  // Padding behind a block belongs to it, as long as a block may be.
  for (const std::uint32_t stride : {4096U, 4097U}) {
    Words padded = one;
    padded.resize(stride);
    padded.insert(padded.end(), one.begin(), one.end());
    const std::uint32_t found = rkc_program_detect(padded.data(), padded.size(), &p);
    if (stride > 4096) {
      EXPECT_EQ(found, std::uint32_t{RKC_MODES});
      continue;
    }
    EXPECT_EQ(found, std::uint32_t{RKC_SINGLE});
    EXPECT_EQ(p.count, 2U);
    EXPECT_EQ(p.stride, stride);
    EXPECT_EQ(p.body, 108U);
    EXPECT_FALSE(p.link);
  }
  // A block alone, without a tail or with one.
  for (const std::size_t size : {108U, 109U, 112U}) {
    EXPECT_EQ(rkc_program_detect(one.data(), size, &p), std::uint32_t{RKC_SINGLE});
    EXPECT_EQ(p.count, 1U);
    EXPECT_EQ(p.body, 108U);
  }
}

TEST(Program, ABlockOfAnyLengthUpTo4096Words) {
  // Padding in the body is no reason to refuse; its length is.
  const rkc_matmul d = block(RKC_I8_I32, RKC_FLAT, 4, 64, 96);
  Words words(RKC_BODY_WORDS);
  rkc_generate(&d, words.data());
  words.resize(4097);
  rkc_recogniser scratch{};
  rkc_matmul found{};
  rkc_err err{};
  EXPECT_EQ(rkc_recognise(&scratch, words.data(), 4096, 4096, false, &found, &err), RKC_OK);
  EXPECT_TRUE(same(found, d));
  EXPECT_EQ(rkc_recognise(&scratch, words.data(), 4097, 4097, false, &found, &err), RKC_BAD_STRIDE);
  EXPECT_EQ(err.value, 4097U);
  EXPECT_EQ(err.limit, 4096U);
  EXPECT_EQ(rkc_recognise(&scratch, words.data(), 109, 108, false, &found, &err), RKC_BAD_STRIDE);
  EXPECT_EQ(err.value, 109U);
  EXPECT_EQ(err.limit, 108U);
}

// ---- what a wrong value of each register means --------------------------------

using Refusal = std::array<std::uint64_t, 5>;  ///< reason, word, register, value, limit

Refusal refuse(const Words& words) {
  rkc_recogniser scratch{};
  rkc_matmul found{};
  rkc_err err{};
  const std::uint32_t total = static_cast<std::uint32_t>(words.size());
  EXPECT_EQ(rkc_recognise(&scratch, words.data(), 108, total, false, &found, &err), err.reason);
  return {err.reason, err.word, err.reg, err.value, err.limit};
}

TEST(Recogniser, EachRegisterHasItsReason) {
  const std::map<std::uint32_t, std::uint32_t> reasons = {
      {0x100c, RKC_PRECISION},     {0x3010, RKC_PRECISION},     {0x4010, RKC_PRECISION},
      {0x4050, RKC_PRECISION},     {0x1010, RKC_COWORK},        {0x1014, RKC_COWORK},
      {0x1040, RKC_CBUF_REUSE},    {0x1020, RKC_SIZE_MISMATCH}, {0x1024, RKC_SIZE_MISMATCH},
      {0x1028, RKC_SIZE_MISMATCH}, {0x102c, RKC_SIZE_MISMATCH}, {0x1030, RKC_SIZE_MISMATCH},
      {0x1034, RKC_SIZE_MISMATCH}, {0x1038, RKC_SIZE_MISMATCH}, {0x1044, RKC_SIZE_MISMATCH},
      {0x1084, RKC_SIZE_MISMATCH}, {0x1088, RKC_SIZE_MISMATCH}, {0x3014, RKC_SIZE_MISMATCH},
      {0x3018, RKC_SIZE_MISMATCH}, {0x4030, RKC_SIZE_MISMATCH}, {0x4034, RKC_SIZE_MISMATCH},
      {0x403c, RKC_SIZE_MISMATCH}, {0x4058, RKC_SIZE_MISMATCH}, {0x405c, RKC_SIZE_MISMATCH},
      {0x107c, RKC_STRIDE},        {0x1080, RKC_STRIDE},        {0x4024, RKC_STRIDE},
      {0x4038, RKC_STRIDE},        {0x40c0, RKC_STRIDE},        {0x1100, RKC_COMPRESSION},
      {0x1104, RKC_COMPRESSION},   {0x4004, RKC_POINTER}};
  rkc_matmul slice = block(RKC_F16_F32, RKC_SLICE, 4, 64, 96);
  slice.m_total = 77;
  for (const rkc_matmul& d :
       {block(RKC_I8_I32, RKC_FLAT, 4, 64, 96), block(RKC_F16_F16, RKC_FLAT, 5, 96, 48),
        block(RKC_I8_I8, RKC_NATIVE, 4, 64, 96), slice}) {
    const Words original = full_program(d);
    std::set<std::uint32_t> seen;
    for (std::size_t i = RKC_BODY_WORDS; i-- > 0;) {
      const std::uint32_t reg = rkc_entry_reg(original[i]);
      // The last write counts; any address will do.
      if (!seen.insert(reg).second || reg == 0x1070 || reg == 0x1110 || reg == 0x4020) continue;
      Words words = original;
      words[i] ^= u64{1} << (16 + 30);
      const Refusal refusal = refuse(words);
      std::uint32_t expected = RKC_VALUE;
      if (reasons.count(reg) != 0) expected = reasons.at(reg);
      if (reg >= 0x1140 && reg <= 0x117c) expected = RKC_COMPRESSION;
      if (reg >= 0x4100 && reg <= 0x412c) expected = RKC_LUT;
      EXPECT_EQ(refusal, (Refusal{expected, i, reg, rkc_entry_value(words[i]),
                                  rkc_entry_value(original[i])}))
          << std::hex << reg << ' ' << rkc_reason_name(static_cast<std::uint32_t>(refusal[0]));
    }
    EXPECT_GT(seen.size(), 100U);
  }
}

// Whichever bit is wrong, its own word is named: what the others agree about is what was meant.
TEST(Recogniser, NamesTheOneWordThatIsWrong) {
  const std::map<std::uint32_t, std::uint32_t> only_schedule = {
      {0x1010, 0x3ff0}, {0x1040, 0xff}, {0x3010, 1}, {0x4050, 2}};
  for (std::uint32_t type = 0; type < RKC_TYPES; ++type) {
    for (std::uint32_t layout = 0; layout < RKC_LAYOUTS; ++layout) {
      rkc_matmul d = block(type, layout, 5, 64, 96);
      if (layout == RKC_SLICE) d.m_total = 77;
      const Words original = full_program(d);
      std::set<std::uint32_t> seen;
      for (std::size_t i = RKC_BODY_WORDS; i-- > 0;) {
        const std::uint32_t reg = rkc_entry_reg(original[i]);
        if (!seen.insert(reg).second || reg == 0x1070 || reg == 0x1110 || reg == 0x4020) continue;
        const auto free = only_schedule.find(reg);
        for (int bit = 0; bit < 32; ++bit) {
          Words words = original;
          words[i] ^= u64{1} << (16 + bit);
          const Refusal refusal = refuse(words);
          if (free != only_schedule.end() && (free->second >> bit & 1) != 0) {
            EXPECT_EQ(refusal[0], RKC_OK) << std::hex << reg << ' ' << bit;
            continue;
          }
          EXPECT_NE(refusal[0], RKC_OK) << std::hex << reg << ' ' << bit;
          EXPECT_EQ(refusal[1], i)
              << std::hex << reg << ' ' << bit << " type " << type << " layout " << layout;
          EXPECT_EQ(refusal[3], rkc_entry_value(words[i])) << std::hex << reg << ' ' << bit;
          EXPECT_EQ(refusal[4], rkc_entry_value(original[i])) << std::hex << reg << ' ' << bit;
        }
      }
    }
  }
}

TEST(Recogniser, SaysWhatNoProgramHolds) {
  Words words = full_program(block(RKC_I8_I32, RKC_FLAT, 4, 64, 96));
  const auto with = [&words](std::size_t at, u64 word) {
    Words changed = words;
    changed[at] = word;
    return refuse(changed);
  };
  // In the body,
  EXPECT_EQ(with(7, rkc_entry(0x0081, 0x8, 0xd)), (Refusal{RKC_BAD_OP_ENABLE, 7, 0x8, 0xd, 0}));
  EXPECT_EQ(with(7, rkc_entry(0x0041, 0x9, 0x5)), (Refusal{RKC_BAD_OP_ENABLE, 7, 0x9, 0x5, 0}));
  EXPECT_EQ(with(7, rkc_entry(0x0101, 0x34, 0x5)), (Refusal{RKC_BASE_ADDRESS, 7, 0x34, 0x5, 0}));
  EXPECT_EQ(with(7, rkc_entry(0x2001, 0x5018, 0x5)),
            (Refusal{RKC_FOREIGN_TARGET, 7, 0x5018, 0x2001, 0}));
  EXPECT_EQ(with(7, rkc_entry(0, 0x1014, 0x5)),
            (Refusal{RKC_BAD_PADDING, 7, 0x1014, rkc_entry(0, 0x1014, 0x5), 0}));
  EXPECT_EQ(with(7, rkc_entry(0x0201, 0x4014, 0x5)),
            (Refusal{RKC_PAGE_MISMATCH, 7, 0x4014, 0x4000, 0x1000}));
  EXPECT_EQ(with(7, rkc_entry(0x0801, 0x3004, 0x5)), (Refusal{RKC_POINTER, 7, 0x3004, 0x5, 0}));
  EXPECT_EQ(with(7, rkc_entry(0x1001, 0x4008, 0x5)),
            (Refusal{RKC_UNIT_OP_ENABLE, 7, 0x4008, 0x5, 0}));
  for (const std::uint32_t reg : {0x1005U, 0x1006U, 0x1009U, 0x100aU, 0x1018U, 0x1200U, 0x1fffU})
    EXPECT_EQ(with(7, rkc_entry(0x0201, reg, 0x5)), (Refusal{RKC_UNKNOWN_REG, 7, reg, 0x5, 0}));
  for (const std::uint32_t reg : {0x3000U, 0x300cU, 0x3040U})
    EXPECT_EQ(with(7, rkc_entry(0x0801, reg, 0x5)), (Refusal{RKC_UNKNOWN_REG, 7, reg, 0x5, 0}));
  for (const std::uint32_t reg : {0x4000U, 0x4018U, 0x4130U, 0x4200U})
    EXPECT_EQ(with(7, rkc_entry(0x1001, reg, 0x5)), (Refusal{RKC_UNKNOWN_REG, 7, reg, 0x5, 0}));
  // and in the tail.
  EXPECT_EQ(with(110, rkc_entry(0x0041, 0x9, 0x5)),
            (Refusal{RKC_BAD_PADDING, 110, 0x9, rkc_entry(0x0041, 0x9, 0x5), 0}));
  EXPECT_EQ(with(110, rkc_entry(0, 0x9, 0)), (Refusal{RKC_BAD_PADDING, 110, 0x9, 0x9, 0}));
  EXPECT_EQ(with(111, rkc_entry(0x0081, 0x8, 0x1d)),
            (Refusal{RKC_BAD_OP_ENABLE, 111, 0x8, 0x1d, 0xd}));
  EXPECT_EQ(with(111, rkc_entry(0x0081, 0x4, 0xd)),
            (Refusal{RKC_BAD_OP_ENABLE, 111, 0x4, 0xd, 0xd}));
  EXPECT_EQ(with(109, rkc_entry(0x0101, 0x10, 0x80)), (Refusal{RKC_JUMP, 109, 0x10, 0x80, 0}));
  EXPECT_EQ(with(109, rkc_entry(0x0101, 0x20, 0x80)), (Refusal{RKC_INT_MASK, 109, 0x20, 0x80, 0}));
  EXPECT_EQ(with(110, rkc_entry(0x0801, 0x3010, 1)),
            (Refusal{RKC_BAD_PADDING, 110, 0x3010, 0x0801, 0}));
  EXPECT_EQ(with(110, rkc_entry(0x8001, 0x7008, 1)),
            (Refusal{RKC_FOREIGN_TARGET, 110, 0x7008, 0x8001, 0}));
  // An address that is left out is not address 0.
  for (const std::size_t at : {25U, 34U, 61U})
    EXPECT_EQ(with(at, 0), (Refusal{RKC_MISSING_REG, RKC_NO_WORD, rkc_entry_reg(words[at]), 0, 0}));
}

// Layers repeat their shapes: programs in the generator's order cost a comparison then, and are
// not read register by register.
TEST(Recogniser, IsQuickWithShapesThatItKnows) {
  const auto time = [](rkc_recogniser* scratch, const Words& words) {
    auto least = std::chrono::nanoseconds::max();
    for (int round = 0; round < 20; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 10; ++i) {
        rkc_matmul d{};
        if (rkc_recognise(scratch, words.data(), 108, 108, false, &d, nullptr) != RKC_OK)
          return least;
      }
      least = std::min<std::chrono::nanoseconds>(least, std::chrono::steady_clock::now() - start);
    }
    return least;
  };
  rkc_recogniser known{};
  for (std::uint32_t type = 0; type < RKC_TYPES; ++type) {
    for (std::uint32_t layout = 0; layout < RKC_LAYOUTS; ++layout) {
      rkc_matmul d = block(type, layout, 3, 64, 96);
      if (layout == RKC_SLICE) d.m_total = 77;
      Words words = full_program(d);
      words.resize(108);
      // What only schedules may differ.
      for (const std::size_t at : {0U, 15U}) words[at] ^= u64{0x77} << 16;
      words[6] ^= u64{0x3ff0} << 16;
      words[53] ^= u64{1} << 16;
      words[71] ^= u64{2} << 16;
      Words reordered = words;
      std::rotate(reordered.begin() + 16, reordered.begin() + 50, reordered.end());
      bool quick = false;
      for (int attempt = 0; attempt < 10 && !quick; ++attempt) {
        rkc_recogniser scratch{};
        const auto thorough = time(&scratch, reordered);
        quick = 2 * time(&known, words) < thorough;
      }
      EXPECT_TRUE(quick) << type << ' ' << layout;
    }
  }
}

// ---- buffers ----------------------------------------------------------------

constexpr std::uint32_t kBoth = RKC_BUF_READ | RKC_BUF_WRITE | RKC_BUF_SYNC;

/// Two blocks in three buffers, and what checking them says.
struct Chain {
  std::vector<rkc_buf> bufs = {{0x10000000, 0x1000, RKC_BUF_READ, 0},
                               {0x20000000, 0x2000, RKC_BUF_READ, 0},
                               {0x30000000, 0x1000, RKC_BUF_WRITE, 0}};
  std::vector<rkc_matmul> blocks = {
      block(RKC_I8_I8, RKC_FLAT, 4, 32, 64, 0x10000000, 0x20000000, 0x30000000),
      block(RKC_I8_I8, RKC_FLAT, 4, 32, 64, 0x10000100, 0x20000800, 0x30000400)};
  bool ordered = true;
  rkc_checked out{};

  using Error = std::array<std::uint64_t, 6>;
  Error error() {
    rkc_err err{1, 2, 3, 4, 5, 6};
    const std::uint32_t ret =
        rkc_chain_check(blocks.data(), static_cast<std::uint32_t>(blocks.size()), bufs.data(),
                        static_cast<std::uint32_t>(bufs.size()), ordered, &out, &err);
    if (ret == RKC_OK) return {};
    EXPECT_EQ(ret, err.reason);
    return {err.reason, err.block, err.word, err.reg, err.value, err.limit};
  }
};

TEST(Checker, SaysWhichExtentOfWhichBlockIsOutside) {
  Chain c;
  c.blocks[1].a = 0x11000000;
  EXPECT_EQ(c.error(),
            (Chain::Error{RKC_A_OUTSIDE, 1, RKC_NO_WORD, 0x1070, 0x11000000, 0x11000080}));
  c = {};
  c.blocks[1].b = 0x21000000;
  EXPECT_EQ(c.error(),
            (Chain::Error{RKC_B_OUTSIDE, 1, RKC_NO_WORD, 0x1110, 0x21000000, 0x21000800}));
  c = {};
  c.blocks[1].c = 0x31000000;
  EXPECT_EQ(c.error(),
            (Chain::Error{RKC_C_OUTSIDE, 1, RKC_NO_WORD, 0x4020, 0x31000000, 0x31000100}));
}

TEST(Checker, SaysWhichInputAnOutputOverlaps) {
  Chain c;
  for (rkc_buf& buf : c.bufs) buf.flags = kBoth;
  c.blocks[1].c = 0x10000070;
  c.blocks[1].a = 0x10000000;
  EXPECT_EQ(c.error(),
            (Chain::Error{RKC_OUTPUT_OVERLAP, 1, RKC_NO_WORD, 0x4020, 0x10000070, 0x10000000}));
  c.blocks[1].c = 0x10000080;
  EXPECT_EQ(c.error(), Chain::Error{});
  c.blocks[1].c = 0x20000ff0;
  EXPECT_EQ(c.error(),
            (Chain::Error{RKC_OUTPUT_OVERLAP, 1, RKC_NO_WORD, 0x4020, 0x20000ff0, 0x20000800}));
  c.blocks[1].c = 0x20001000;
  EXPECT_EQ(c.error(), Chain::Error{});
  c.blocks[1].c = 0x20000700;
  EXPECT_EQ(c.error(), Chain::Error{});
}

TEST(Checker, FollowsOutputsIntoFeaturesAndWeights) {
  for (const std::uint32_t reg : {0x1070U, 0x1110U}) {
    const auto feed = [reg](rkc_matmul& d, std::uint32_t address) {
      (reg == 0x1070 ? d.a : d.b) = address;
    };
    Chain c;
    c.bufs[2].flags = kBoth;
    feed(c.blocks[1], 0x300000f0);
    c.blocks[1].c = 0x30000a00;
    EXPECT_EQ(c.error(), Chain::Error{});
    EXPECT_TRUE(c.out.aliases);
    c.ordered = false;
    c.blocks.insert(c.blocks.begin(), c.blocks[0]);
    c.blocks[0].c = 0x30000f00;
    EXPECT_EQ(c.error(), (Chain::Error{RKC_ALIAS_ORDER, 2, RKC_NO_WORD, reg, 1, 0}));
    c.blocks[1].type = RKC_I8_I32;
    EXPECT_EQ(c.error(), (Chain::Error{RKC_ALIAS_TYPE, 2, RKC_NO_WORD, reg, 4, 1}));
    // Behind the output there is nothing to wait for.
    c.blocks[1].type = RKC_I8_I8;
    feed(c.blocks[2], 0x30000100);
    EXPECT_EQ(c.error(), Chain::Error{});
    EXPECT_FALSE(c.out.aliases);
  }
}

TEST(Checker, OverwritingFeaturesOrWeightsIsNotReplayable) {
  for (const std::uint32_t at : {0x10000000U, 0x20000000U}) {
    Chain c;
    for (rkc_buf& buf : c.bufs) buf.flags = kBoth;
    c.blocks[1].c = at;
    EXPECT_EQ(c.error(), Chain::Error{});
    EXPECT_FALSE(c.out.replayable);
    // Nor does a later block that is harmless make up for it.
    c.blocks.push_back(c.blocks[0]);
    c.blocks[2].c = 0x30000800;
    EXPECT_EQ(c.error(), Chain::Error{});
    EXPECT_FALSE(c.out.replayable);
  }
}

TEST(Checker, FindsBuffersInAnyOrder) {
  Chain c;
  c.bufs.push_back({0x40000000, 0x1000, RKC_BUF_READ | RKC_BUF_WRITE, 0});
  for (const std::uint32_t i : {0U, 1U, 0U}) {
    c.blocks.push_back(c.blocks[i]);
    c.blocks.back().a = 0x40000800;
    c.blocks.back().c = 0x40000000 + 0x100 * i;
    c.blocks.push_back(c.blocks[i]);
    c.blocks.back().b = 0x40000800;
  }
  EXPECT_EQ(c.error(), Chain::Error{});
  std::reverse(c.bufs.begin(), c.bufs.end());
  EXPECT_EQ(c.error(), Chain::Error{});
}

TEST(Checker, SaysWhichBufferIsWrong) {
  std::array<rkc_buf, 2> bufs = {{{0x1000, 0x1000, 1, 0}, {0x1fff, 0x1000, 2, 0}}};
  rkc_err err{};
  const auto error = [&] {
    rkc_bufs_check(bufs.data(), 2, &err);
    return Chain::Error{err.reason, err.block, err.word, err.reg, err.value, err.limit};
  };
  EXPECT_EQ(error(), (Chain::Error{RKC_BUFFERS_OVERLAP, 0, 1, 0, 0x1fff, 0x1000}));
  bufs[1] = {0xfffff000, 0x1001, 2, 0};
  EXPECT_EQ(error(), (Chain::Error{RKC_BUFFER_RANGE, 0, 1, 0, 0x100000001, 0x100000000}));
  bufs[1] = {0x100000000, 1, 2, 0};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_BUFFER_RANGE);
  bufs[1] = {0x0fff, 1, 2, 0};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_OK);
  bufs[1] = {0x0fff, 2, 2, 0};
  EXPECT_EQ(rkc_bufs_check(bufs.data(), 2, &err), RKC_BUFFERS_OVERLAP);
}

// ---- times ------------------------------------------------------------------

TEST(Estimate, AddsSubmitsBlocksMacsAndBytes) {
  const rkc_cost nothing{0, 0};
  EXPECT_EQ(rkc_estimate_ns(&nothing, 0, 1), 170'000U);
  EXPECT_EQ(rkc_estimate_ns(&nothing, 1, 0), 18'000U);
  EXPECT_EQ(rkc_estimate_ns(&nothing, 10, 3), 690'000U);
  const rkc_cost macs{1'000'000, 0};
  EXPECT_EQ(rkc_estimate_ns(&macs, 0, 0), 10'000U);
  const rkc_cost bytes{0, 1'000'000};
  EXPECT_EQ(rkc_estimate_ns(&bytes, 0, 0), 250'000U);
  const rkc_cost both{1'000'000, 1'000'000};
  EXPECT_EQ(rkc_estimate_ns(&both, 1, 1), 448'000U);
}

TEST(Window, TimesAreWhatTheStockDriverNeeds) {
  EXPECT_EQ(RKC_STOCK_TIMEOUT_MS, 6000);
  EXPECT_EQ(RKC_STOCK_TIMEOUT_NS, 6'000'000'000U);
  EXPECT_EQ(RKC_RESET_NS, 300'000'000U);
  EXPECT_EQ(RKC_WINDOW_SLACK_NS, 50'000'000U);
  EXPECT_EQ(RKC_RESET_AGAIN_NS, 160'000'000U);
  // What the kernel says, and what it never says.
  EXPECT_EQ(RKC_ENODEV, 19);
  EXPECT_EQ(RKC_ETIMEDOUT, 110);
  EXPECT_EQ(RKC_NOT_COMMITTED, 0xdeadbeefU);
}

// ---- sharing ----------------------------------------------------------------

TEST(Share, ChargesCoreTimeOverWeight) {
  const auto charged = [](std::int32_t priority) {
    rkc_share share{1};
    rkc_share_charge(&share, 1000, priority);
    return share.had;
  };
  EXPECT_EQ(charged(-1), 16'001U);
  EXPECT_EQ(charged(0), 4'001U);
  EXPECT_EQ(charged(1), 1'001U);
}

}  // namespace

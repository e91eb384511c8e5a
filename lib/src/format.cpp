// SPDX-License-Identifier: MIT
#include "format.hpp"

#include <fmt/format.h>

#include "kmod/core/regs.h"

namespace rkchain::detail {
namespace {

/// "block 3, word 12, register 0x1030 (CNA WEIGHT_SIZE0)", as much of it as there is.
std::string place(const rkc_err& err) {
  std::string text = fmt::format("block {}", err.block);
  if (err.word != RKC_NO_WORD) text += fmt::format(", word {}", err.word);
  if (err.reg == 0) return text;
  text += fmt::format(", register 0x{:04x}", err.reg);
  u32 count = 0;
  const rkc_reg* const table = rkc_reg_table(&count);
  for (u32 i = 0; i < count; ++i) {
    if (table[i].reg == err.reg) {
      text += fmt::format(" ({} {})", rkc_target_name(table[i].target), table[i].name);
      break;
    }
  }
  return text;
}

/// What value and limit mean depends on the reason.
std::string finding(const rkc_err& err) {
  switch (err.reason) {
    case RKC_BAD_TYPE:
    case RKC_BAD_LAYOUT:
    case RKC_BAD_MODE:
    case RKC_M_TOO_BIG:
    case RKC_K_RANGE:
    case RKC_N_RANGE:
    case RKC_TOO_LONG:
    case RKC_ROWS_TOTAL:
    case RKC_BAD_STRIDE:
      return fmt::format("found {}, the limit is {}", err.value, err.limit);
    case RKC_M_ZERO:
    case RKC_EMPTY:
    case RKC_TRUNCATED:
      return fmt::format("found {}, at least {} is needed", err.value, err.limit);
    case RKC_K_ALIGN:
    case RKC_N_ALIGN:
      return fmt::format("found {}, expected a multiple of {}", err.value, err.limit);
    case RKC_ADDR_ALIGN:
    case RKC_IOVA_ALIGN:
      return fmt::format("found 0x{:x}, expected a multiple of {}", err.value, err.limit);
    case RKC_ADDR_RANGE:
    case RKC_IOVA_RANGE:
      return fmt::format("found an end at 0x{:x}, the limit is 0x{:x}", err.value, err.limit);
    case RKC_PAGE_MISMATCH:
      return fmt::format("found page 0x{:04x}, expected 0x{:04x}", err.value, err.limit);
    case RKC_FOREIGN_TARGET:
      return fmt::format("found target 0x{:04x} ({})", err.value,
                         rkc_target_name(static_cast<u32>(err.value)));
    case RKC_BAD_PADDING:
    case RKC_UNKNOWN_REG:
    case RKC_JUMP:
    case RKC_BASE_ADDRESS:
    case RKC_INT_MASK:
    case RKC_TASK_CONTROL:
    case RKC_PC_WRITE:
    case RKC_UNIT_OP_ENABLE:
      return fmt::format("found 0x{:x}", err.value);
    case RKC_A_OUTSIDE:
    case RKC_B_OUTSIDE:
    case RKC_C_OUTSIDE:
      return fmt::format("found the extent 0x{:x}..0x{:x}", err.value, err.limit);
    case RKC_OUTPUT_OVERLAP:
      return fmt::format("found the output at 0x{:x}, the input at 0x{:x}", err.value, err.limit);
    case RKC_ALIAS_TYPE:
      return fmt::format("found elements of {} bytes, expected {}", err.value, err.limit);
    case RKC_ALIAS_ORDER:
      return fmt::format("found an output of block {}", err.value);
    default:
      return fmt::format("found 0x{:x}, expected 0x{:x}", err.value, err.limit);
  }
}

}  // namespace

std::string describe(const rkc_err& err) {
  const std::string_view clause = rkc_reason_text(err.reason);
  switch (err.reason) {
    case RKC_BUFFERS_OVERLAP:  // the word counts buffers in these two
      return fmt::format("declared buffer {}: found 0x{:x} and another at 0x{:x}; {}", err.word,
                         err.value, err.limit, clause);
    case RKC_BUFFER_RANGE:
      return fmt::format("declared buffer {}: found an end at 0x{:x}, the limit is 0x{:x}; {}",
                         err.word, err.value, err.limit, clause);
    default:
      return fmt::format("{}: {}; {}", place(err), finding(err), clause);
  }
}

Error refusal(const rkc_err& err, std::string_view subject) {
  return {Errc::check_failed, fmt::format("{}: {}", subject, describe(err)), err.reason, err.block,
          err.word};
}

}  // namespace rkchain::detail

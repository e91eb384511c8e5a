// SPDX-License-Identifier: MIT
#include "tools/matmul_args.hpp"

#include "src/format.hpp"

namespace rkchain::tool {
namespace {

std::string_view layout_name(const rkc_matmul& matmul) {
  if (matmul.layout == RKC_SLICE) return "native row slice";
  return name(static_cast<Layout>(matmul.layout));
}

Json extent_json(const rkc_extent& extent) {
  return {{"address", fmt::format("{:#x}", extent.start)}, {"bytes", extent.len}};
}

}  // namespace

std::string describe(const rkc_matmul& matmul) {
  std::string text = fmt::format("{} {}, M {}, K {}, N {}", name(type_of(matmul)),
                                 layout_name(matmul), matmul.m, matmul.k, matmul.n);
  if (matmul.layout == RKC_SLICE) text += fmt::format(", {} rows in all", matmul.m_total);
  return text;
}

std::string explain(const rkc_err& error, const MatmulNames& names) {
  const std::string_view text = rkc_reason_text(error.reason);
  const auto line = [&](std::string_view name, std::string_view kind) {
    return fmt::format("{} = {}: {} ({} {})", name, error.value, text, kind, error.limit);
  };
  switch (error.reason) {
    case RKC_M_ZERO:
      return fmt::format("{} = 0: {}", names.m, text);
    case RKC_M_TOO_BIG:
      return line(names.m, "limit");
    case RKC_K_ALIGN:
      return line(names.k, "multiple of");
    case RKC_K_RANGE:
      return line(names.k, "limit");
    case RKC_N_ALIGN:
      return line(names.n, "multiple of");
    case RKC_N_RANGE:
      return line(names.n, "limit");
    case RKC_ROWS_TOTAL:
      return line(names.rows_total, "limit");
    default:
      break;
  }
  const std::string_view name = error.reg == 0x1070   ? names.a
                                : error.reg == 0x1110 ? names.b
                                                      : names.c;
  if (error.reason == RKC_ADDR_ALIGN) return fmt::format("{} = {:#x}: {}", name, error.value, text);
  if (error.reason == RKC_ADDR_RANGE)
    return fmt::format("{}: {}: it would end at {:#x} (limit {:#x})", name, text, error.value,
                       error.limit);
  return detail::describe(error);
}

Json to_json(const rkc_err& error) {
  Json json = {{"name", rkc_reason_name(error.reason)},
               {"number", error.reason},
               {"text", rkc_reason_text(error.reason)},
               {"block", error.block}};
  if (error.word != RKC_NO_WORD) json["word"] = error.word;
  if (error.reg != 0) json["register"] = fmt::format("{:#06x}", error.reg);
  json["value"] = error.value;
  json["limit"] = error.limit;
  return json;
}

Json to_json(const rkc_matmul& matmul) {
  rkc_extents extents{};
  rkc_matmul_extents(&matmul, &extents);
  Json json = {{"type", name(type_of(matmul))},
               {"layout", matmul.layout == RKC_FLAT ? "flat" : "native"},
               {"M", matmul.m},
               {"K", matmul.k},
               {"N", matmul.n}};
  if (matmul.layout == RKC_SLICE) json["rows_total"] = matmul.m_total;
  json["A"] = extent_json(extents.a);
  json["B"] = extent_json(extents.b);
  json["C"] = extent_json(extents.c);
  return json;
}

}  // namespace rkchain::tool

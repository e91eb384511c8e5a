// SPDX-License-Identifier: MIT
// rkchain info: what would run here.
#include <CLI/CLI.hpp>

#include "kmod/core/chain.h"
#include "tools/commands.hpp"

namespace rkchain::tool {
namespace {

Json limits() {
  return {{"K_multiple", RKC_K_MULTIPLE},
          {"K_max", RKC_K_MAX},
          {"N_multiple_i8", rkc_kernel_group(RKC_I8_I32)},
          {"N_multiple_f16", rkc_kernel_group(RKC_F16_F32)},
          {"N_max", RKC_N_MAX},
          {"rows_max", RKC_ROWS_MAX},
          {"wait_blocks_max", RKC_WAIT_MAX},
          {"link_blocks_max", RKC_LINK_MAX}};
}

std::vector<std::uint32_t> cores_of(std::uint32_t mask) {
  std::vector<std::uint32_t> cores;
  for (std::uint32_t core = 0; core < 32; core++)
    if ((mask >> core & 1) != 0) cores.push_back(core);
  return cores;
}

int show(const Session& session) {
  const DeviceInfo info = Device::open(open_options(session)).info();
  const bool model = info.backend == BackendKind::model;
  const std::vector<std::uint32_t> usable = cores_of(info.usable_mask);
  if (session.json) {
    put_json(Json{{"version", RKCHAIN_VERSION},
                  {"backend", name(info.backend)},
                  {"model", model},
                  {"driver", info.driver},
                  {"mode", name(info.mode)},
                  {"cores", info.cores},
                  {"usable", usable},
                  {"ordered", info.ordered},
                  {"task_limits", limits()}});
    return exit_ok;
  }
  put("rkchain        {}\n", RKCHAIN_VERSION);
  put("back end       {}{}\n", name(info.backend),
      model ? ": the software NPU; nothing it shows is a claim about silicon" : "");
  put("driver         {}\n", info.driver);
  put("mode           {}{}\n", name(info.mode),
      info.ordered ? ", a block may read an earlier block's output" : "");
  put("cores          {}, usable: {}\n", info.cores, fmt::join(usable, ", "));
  put("limits of one  K a multiple of {} up to {}, N a multiple of {} (fp16: {}) up to {},\n",
      RKC_K_MULTIPLE, RKC_K_MAX, rkc_kernel_group(RKC_I8_I32), rkc_kernel_group(RKC_F16_F32),
      RKC_N_MAX);
  put("program        rows up to {}, fewer for a large K; the library takes any M, K, N\n",
      RKC_ROWS_MAX);
  put("blocks of one  {} in a wait chain, {} in a link chain; the library splits longer ones\n",
      RKC_WAIT_MAX, RKC_LINK_MAX);
  put("chain\n");
  return exit_ok;
}

}  // namespace

void add_info(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("info", "show the back end, its cores and its limits");
  add_json(*command, session);
  add_model(*command, session);
  command->footer(
      "Without an NPU, exit code 1 and a line that says what is missing; --model shows the\n"
      "software NPU.\n"
      "\n"
      "Examples:\n"
      "  rkchain info\n"
      "  rkchain --model info --json\n");
  command->callback([&session] { session.action = [&session] { return show(session); }; });
}

}  // namespace rkchain::tool

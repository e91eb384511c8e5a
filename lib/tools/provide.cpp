// SPDX-License-Identifier: MIT
// rkchain provide: names the stock driver for the module.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "backend/kmod_device.hpp"
#include "backend/rknpu_node.hpp"
#include "rkchain/error.hpp"
#include "tools/commands.hpp"

namespace rkchain::tool {
namespace {

struct Options {
  std::string node;
  bool release = false;
};

/// The node to provide, open.
struct Provided {
  std::string path;
  Fd fd;                                   ///< when it was named
  std::shared_ptr<const RknpuNode> found;  ///< when it was looked for
  [[nodiscard]] int descriptor() const { return found ? found->fd() : fd.get(); }
};

Provided open_node(const std::string& node, const std::shared_ptr<const System>& system) {
  Provided provided;
  if (node.empty()) {
    provided.found = RknpuNode::find(system);
    provided.path = provided.found->path();
    return provided;
  }
  // Whether it is the right one is for the module to say.
  const int fd = system->open(node);
  if (fd < 0) failed("{}: {}", node, error_text(fd));
  provided.path = node;
  provided.fd = Fd(system, fd);
  return provided;
}

int provide(const Session& session, const Options& options) {
  const auto system = System::real();
  const KmodDevice module(system);
  std::string node;
  if (options.release) {
    module.release();
  } else {
    const Provided provided = open_node(options.node, system);
    module.provide(provided.descriptor());
    node = provided.path;
  }
  const rkchain_query query = module.query();
  if (session.json) {
    Json json = {{"module", module.path()}, {"provider", query.provider != 0}};
    if (query.provider != 0) json["driver"] = "rknpu " + rknpu_version_text(query.driver_version);
    if (!node.empty()) json["node"] = node;
    put_json(json);
  } else if (options.release) {
    put("{} has let go of the stock driver\n", module.path());
  } else {
    put("{} works with {}: rknpu {}\n", module.path(), node,
        rknpu_version_text(query.driver_version));
  }
  return exit_ok;
}

}  // namespace

void add_provide(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("provide", "name the NPU's stock driver for the rkchain module (root)");
  command
      ->add_option("NODE", options->node,
                   "DRM node of the driver rknpu, e.g. /dev/dri/renderD129; found if not given")
      ->type_name("");
  command->add_flag("--release", options->release,
                    "let go of it: ends what runs and every buffer and chain of every program");
  add_json(*command, session);
  command->footer(
      "The module opens no file by its name: after it has been loaded, root names the driver\n"
      "that it works with, once for all programs.\n"
      "\n"
      "Examples:\n"
      "  sudo rkchain provide\n"
      "  sudo rkchain provide /dev/dri/renderD129 --json\n"
      "  sudo rkchain provide --release\n");
  command->callback([&session, options] {
    if (options->release && !options->node.empty())
      bad_input("--release lets go of whatever node there is; none is to be named");
    session.action = [&session, options] { return provide(session, *options); };
  });
}

}  // namespace rkchain::tool

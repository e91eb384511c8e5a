// SPDX-License-Identifier: MIT
// rkchain demo: what rkchain is about, in some seconds, with or without an NPU.
#include "tools/demo.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "tools/commands.hpp"
#include "tools/reference.hpp"
#include "tools/vectors.hpp"

namespace rkchain::tool {
namespace {

constexpr std::string_view model_statement =
    "this is the software NPU, a model and no hardware; nothing is claimed of silicon";

struct Opened {
  Device device;
  std::string why_model;  ///< when there is no NPU that can be used
};

Opened open(const Session& session, const DemoOptions& options) {
  OpenOptions open = open_options(session);
  open.mode = options.mode;
  const char* asked = std::getenv("RKCHAIN_BACKEND");
  try {
    return {Device::open(open), ""};
  } catch (const Error& error) {
    const bool missing = error.code() == Errc::no_device || error.code() == Errc::permission;
    // Who asks for one back end does not want another one's results.
    if (!missing || (asked != nullptr && *asked != '\0' && asked != std::string_view("auto")))
      throw;
    open.backend = BackendKind::model;
    return {Device::open(open), error.what()};
  }
}

/// Builds, runs once, waits.
void run_once(const Device& device, Chain& chain) { Stream(device).submit(chain).get(); }

// ---- two tasks -----------------------------------------------------------------

/// One value of a result all of whose elements have to be the same.
std::int32_t only_value(const Chain& chain, Tensor result, std::int32_t expected) {
  const Shape shape = chain.shape(result);
  std::vector<std::int32_t> values(std::size_t{shape.m} * shape.n);
  chain.read(result, values);
  const auto other = std::find_if(values.begin(), values.end(),
                                  [expected](std::int32_t value) { return value != expected; });
  return other == values.end() ? expected : *other;
}

struct TwoTasks {
  std::int32_t c0 = 0, c1 = 0;
  [[nodiscard]] bool pass() const { return c0 == 32 && c1 == 64; }
};

/// The first chain that was seen to work on a board: A and B of ones, then B of twos, K = 32.
TwoTasks two_tasks(const Device& device) {
  constexpr std::uint32_t m = 4, k = 32, n = 32;
  const std::vector<std::int8_t> ones(std::size_t{n} * k, 1), twos(std::size_t{n} * k, 2);
  Chain chain(device);
  const Tensor a = chain.input(Type::i8_i32, m, k);
  const Tensor c0 = chain.matmul(a, Weights::pack(device, k, n, ones));
  const Tensor c1 = chain.matmul(a, Weights::pack(device, k, n, twos));
  chain.build();
  chain.write(a, std::span(ones).first(std::size_t{m} * k));
  run_once(device, chain);
  return {only_value(chain, c0, 32), only_value(chain, c1, 64)};
}

// ---- the vector from silicon -----------------------------------------------------

struct SiliconResult {
  std::string name;
  std::uint32_t chain = 1;
  std::uint64_t equal = 0, total = 0;
  bool others = true;  ///< results of the blocks before it
  [[nodiscard]] bool pass() const { return equal == total && others; }
};

/// @param blocks 1: the vector alone, more: as the last block of a chain.
SiliconResult silicon(const Device& device, std::uint32_t blocks) {
  const Vector vector = silicon_vector();
  const auto [m, k, n] = vector.shape();
  const std::vector<std::int8_t> a(vector.a.begin(), vector.a.end());
  std::vector<std::int8_t> b(vector.b.size());
  for (std::uint32_t column = 0; column < n; column++)
    for (std::uint32_t row = 0; row < k; row++)
      b[std::size_t{column} * k + row] =
          static_cast<std::int8_t>(vector.b[packed_index(k, 32, row, column)]);

  // Other sizes before it, so that nothing of them may stay behind in the NPU.
  struct Other {
    Shape shape;
    std::vector<std::int8_t> a, b;
    Tensor input, result;
  };
  Chain chain(device);
  Random random(vector.outputs());
  std::vector<Other> others;
  for (std::uint32_t i = 1; i < blocks; i++) {
    Other other{{i, 32 * (i + 1), 64}, {}, {}, {}, {}};
    const Shape& shape = other.shape;
    other.a = random.bytes(std::size_t{shape.m} * shape.k, -128, 127);
    other.b = random.bytes(std::size_t{shape.n} * shape.k, -128, 127);
    other.input = chain.input(Type::i8_i32, shape.m, shape.k);
    other.result = chain.matmul(other.input, Weights::pack(device, shape.k, shape.n, other.b));
    others.push_back(std::move(other));
  }
  const Tensor input = chain.input(Type::i8_i32, m, k);
  const Tensor output = chain.matmul(input, Weights::pack(device, k, n, b));
  chain.build();
  for (const Other& other : others) chain.write(other.input, other.a);
  chain.write(input, a);
  run_once(device, chain);

  SiliconResult result{vector.name, blocks, 0, vector.outputs(), true};
  std::vector<std::int32_t> c(vector.outputs());
  chain.read(output, c);
  for (std::size_t i = 0; i < c.size(); i++) {
    std::uint32_t want = 0;
    for (std::size_t byte = 0; byte < 4; byte++)
      want |= std::uint32_t{vector.c[4 * i + byte]} << 8 * byte;
    result.equal += static_cast<std::uint32_t>(c[i]) == want ? 1 : 0;
  }
  for (const Other& other : others) {
    std::vector<std::int32_t> got(std::size_t{other.shape.m} * other.shape.n), want(got.size());
    chain.read(other.result, got);
    reference_i8(other.shape, other.a, other.b, want);
    result.others = result.others && got == want;
  }
  return result;
}

// ---- the layers ------------------------------------------------------------------

std::string layer_table(const LayersReport& report) {
  std::vector<std::vector<std::string>> rows{{"layer", "chains", "tasks", "submits", "saved",
                                              "core 0", "core 1", "core 2", "elements", "equal"}};
  const auto row = [&rows](std::string first, const LayerWork& work) {
    const auto number = [](std::uint64_t value) { return std::to_string(value); };
    rows.push_back({std::move(first), number(work.chains), number(work.tasks), number(work.submits),
                    number(work.tasks - work.submits), number(work.core[0].blocks),
                    number(work.core[1].blocks), number(work.core[2].blocks),
                    grouped(work.elements),
                    work.different == 0 ? "all" : grouped(work.elements - work.different)});
  };
  for (std::size_t i = 0; i < report.layers.size(); i++) row(std::to_string(i), report.layers[i]);
  row("all", report.total());
  return table(rows);
}

Json to_json(const LayerWork& work) {
  Json json = {{"chains", work.chains},         {"tasks", work.tasks},
               {"submits", work.submits},       {"saved", work.tasks - work.submits},
               {"interrupts", work.interrupts}, {"cores", Json::array()},
               {"elements", work.elements},     {"equal", work.elements - work.different}};
  for (const CoreStats& core : work.core)
    json["cores"].push_back({{"chains", core.chains},
                             {"tasks", core.blocks},
                             {"macs", core.macs},
                             {"busy_ns", core.busy_ns}});
  return json;
}

// ---- the whole -------------------------------------------------------------------

/// Prints as it goes, or collects JSON.
class Demo {
 public:
  Demo(const Session& session, const DemoOptions& options)
      : json_mode_(session.json), options_(options) {}

  bool run(const Session& session) {
    const auto [device, why_model] = open(session, options_);
    begin(device.info(), why_model);
    show(two_tasks(device));
    show(silicon(device, 1));
    show(silicon(device, 4));
    show(device, run_layers(device, options_));
    return pass_;
  }

  void end(bool pass) {
    if (json_mode_) {
      json_["pass"] = pass;
      put_json(json_);
    } else {
      put("demo: {}\n", pass ? "PASS" : "FAIL");
    }
  }

 private:
  template <typename... T>
  void say(fmt::format_string<T...> format, T&&... args) {
    if (!json_mode_) put(format, std::forward<T>(args)...);
  }

  void begin(const DeviceInfo& info, const std::string& why_model) {
    const bool model = info.backend == BackendKind::model;
    json_["backend"] = name(info.backend);
    json_["model"] = model;
    json_["mode"] = name(info.mode);
    if (model) json_["statement"] = model_statement;
    if (!why_model.empty()) {
      say("No NPU that can be used here: {}\n", why_model);
      json_["why_model"] = why_model;
    }
    if (model)
      say("NOTE: {}.\n", model_statement);
    else
      say("This is {}.\n", describe(info));
    say("Mode {}, {} cores.\n\n", name(info.mode), info.cores);
  }

  void show(const TwoTasks& result) {
    say("Two matmuls in one chain, K = 32, ones times ones and ones times twos:\n");
    say("C0 = {}\nC1 = {}\n\n", result.c0, result.c1);
    json_["two_tasks"] = {{"C0", result.c0}, {"C1", result.c1}, {"pass", result.pass()}};
    pass_ = pass_ && result.pass();
  }

  void show(const SiliconResult& result) {
    if (result.chain == 1)
      say("A matmul whose outputs were captured from silicon, alone and behind others:\n{}: "
          "{}/{}\n",
          result.name, result.equal, result.total);
    else
      say("{}: {}/{} as the last block of a chain of {}{}\n\n", result.name, result.equal,
          result.total, result.chain, result.others ? "" : "; an earlier block has wrong results");
    json_["vectors"].push_back({{"name", result.name},
                                {"chain", result.chain},
                                {"equal", result.equal},
                                {"total", result.total},
                                {"pass", result.pass()}});
    pass_ = pass_ && result.pass();
  }

  void show(const Device& device, const LayersReport& report) {
    const LayerWork total = report.total();
    say("{} decoder layers of Qwen3-0.6B at M = 1, {} sequences at once; chains Q,K,V / o /\n"
        "gate,up / down.  A task is one register program; one by one, each would be a submit.\n"
        "Per core: tasks.  Every element is compared with the CPU.\n\n{}\n",
        report.layers.size(), options_.sequences, layer_table(report));
    const bool model = device.info().backend == BackendKind::model;
    for (std::size_t i = 0; i < total.core.size(); i++)
      say("core {}: {} chains, {} MACs, {} {} busy\n", i, total.core[i].chains,
          grouped(total.core[i].macs), grouped(total.core[i].busy_ns / 1000),
          model ? "us of the model's own time" : "us");
    say("{} submits and {} interrupts instead of {}: {} saved\n", total.submits, total.interrupts,
        total.tasks, total.tasks - total.submits);
    const bool pass = total.different == 0;
    if (pass)
      say("layers: all {} elements equal\n", grouped(total.elements));
    else
      say("layers: {} of {} elements differ; first: {}\n", grouped(total.different),
          grouped(total.elements), report.first_difference);
    json_["layers"] = Json::array();
    for (const LayerWork& layer : report.layers) json_["layers"].push_back(to_json(layer));
    json_["total"] = to_json(total);
    if (!pass) json_["first_difference"] = report.first_difference;
    pass_ = pass_ && pass;
  }

  bool json_mode_;
  DemoOptions options_;
  Json json_ = Json::object();
  bool pass_ = true;
};

int demo(const Session& session, const DemoOptions& options) {
  Demo demo(session, options);
  bool pass = false;
  try {
    pass = demo.run(session);
  } catch (const Error& error) {
    // Of the environment: all arguments are the demo's own.
    if (error.code() == Errc::invalid_argument) throw;
    complain("demo", error.what());
  }
  demo.end(pass);
  return pass ? exit_ok : exit_failed;
}

}  // namespace

void add_demo(CLI::App& app, Session& session) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* command = app.add_subcommand("demo", "run chains of matmuls and compare every result");
  add_number(*command, "--layers", options->layers, 1, 1000, "decoder layers; 28 if not given");
  add_number(*command, "--sequences", options->sequences, 1, 16,
             "sequences decoded at once; 2 if not given");
  add_number(*command, "--seed", options->seed, 0, 0xffffffff, "of the weights; 1 if not given");
  add_mode(*command, options->mode);
  add_json(*command, session);
  add_model(*command, session);
  command->footer(
      "Runs on the NPU where there is one that can be used, else on the software NPU, and says\n"
      "which.  The last line is \"demo: PASS\" (exit code 0) or \"demo: FAIL\" (exit code 1).\n"
      "\n"
      "Examples:\n"
      "  rkchain demo\n"
      "  rkchain demo --mode single      the same work, one submit for each task\n"
      "  rkchain demo --model --json | jq .total\n");
  command->callback([&session, options] {
    session.action = [&session, options] { return demo(session, *options); };
  });
}

}  // namespace rkchain::tool

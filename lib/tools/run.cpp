// SPDX-License-Identifier: MIT
// rkchain run: a chain of matmuls of any size, compared with the CPU.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "rkchain/rkchain.hpp"
#include "tools/commands.hpp"
#include "tools/reference.hpp"

namespace rkchain::tool {
namespace {

constexpr std::uint32_t max_dimension = 1U << 20;
constexpr std::uint64_t max_data_bytes = std::uint64_t{1} << 30;

struct Options {
  std::uint32_t m = 0, k = 0, n = 0;
  Type type = Type::i8_i32;
  ChainOptions chain;
  std::uint32_t length = 1;
  std::uint32_t cores = 0;
  std::optional<Mode> mode;
  std::uint32_t seed = 1;
  std::uint32_t repeat = 1;
  bool fractions = false;
  double tolerance = 1e-3;

  [[nodiscard]] Shape shape() const { return {m, k, n}; }
  [[nodiscard]] std::uint64_t elements() const { return std::uint64_t{length} * m * n; }
};

/// "0,2" or "0x5".
std::uint32_t parse_cores(std::string_view text) {
  constexpr std::uint32_t cores = 3;
  if (text.starts_with("0x") || text.starts_with("0X"))
    return static_cast<std::uint32_t>(parse_number(text, "--cores", 1, (1U << cores) - 1));
  std::uint32_t mask = 0;
  for (;;) {
    const std::size_t comma = text.find(',');
    mask |= 1U << parse_number(text.substr(0, comma), "--cores", 0, cores - 1);
    if (comma == std::string_view::npos) return mask;
    text.remove_prefix(comma + 1);
  }
}

Strategy parse_strategy(std::string_view text) {
  if (text == "rotate") return Strategy::rotate;
  if (text == "split") return Strategy::split;
  if (text == "fan-out" || text == "fan_out") return Strategy::fan_out;
  bad_input("--strategy: no strategy '{}'; there are rotate, split, fan-out", text);
}

void check_size(const Options& options) {
  const std::uint64_t in = input_bytes(options.type), out = output_bytes(options.type);
  const auto check = [](std::string_view what, std::uint64_t count, std::uint64_t bytes) {
    if (count > max_data_bytes / bytes)
      bad_input("{} would take {} bytes, the limit of this command is {}", what,
                grouped(count * bytes), grouped(max_data_bytes));
  };
  check("A (M * K)", std::uint64_t{options.m} * options.k, in);
  check("B (K * N)", std::uint64_t{options.k} * options.n, in);
  check("C (M * N)", std::uint64_t{options.m} * options.n, out);
  // Products of checked numbers: no overflow.
  check("all B (--chain * K * N)", std::uint64_t{options.length} * options.k * options.n, in);
  check("all C (--chain * M * N)", options.elements(), out);
  if (options.fractions && input_bytes(options.type) == 1)
    bad_input("--fractions: only fp16 types have them");
}

// ---- data ----------------------------------------------------------------------

/// The largest magnitude of the whole numbers that a type is fed with.
std::int32_t amplitude(Type type) {
  switch (type) {
    case Type::i8_i8:
      return 1;  // sums that seldom saturate
    case Type::i8_i32:
      return 127;
    default:
      return 8;  // partial sums below 2^24: exact in fp32
  }
}

std::vector<Half> halves(std::span<const std::int8_t> values, bool fractions) {
  std::vector<Half> result(values.size());
  // Odd steps, so that products need more digits than fp16 has.
  const float step = fractions ? 0.0137F : 1.0F;
  std::transform(values.begin(), values.end(), result.begin(),
                 [step](std::int8_t value) { return to_half(step * value); });
  return result;
}

std::vector<float> floats(std::span<const Half> values) {
  std::vector<float> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), to_float);
  return result;
}

/// Operands and expected results, and the chains that compute them.
struct Work {
  Options options;
  std::vector<std::int8_t> a;
  std::vector<Weights> weights;
  // Expected results of each matmul: whole numbers, or sums with what a tolerance refers to.
  std::vector<std::vector<std::int32_t>> whole;
  std::vector<std::vector<double>> sums, scales;
};

Work prepare(const Device& device, const Options& options) {
  Work work;
  work.options = options;
  Random random(options.seed);
  const std::int32_t most = amplitude(options.type);
  // -128 is an int8 value as well.
  const std::int32_t least = options.type == Type::i8_i32 ? -128 : -most;
  work.a = random.bytes(std::size_t{options.m} * options.k, least, most);
  Progress progress("reference on the CPU", options.length);
  for (std::uint32_t i = 0; i < options.length; i++, progress.step()) {
    const auto b = random.bytes(std::size_t{options.k} * options.n, least, most);
    const std::size_t count = std::size_t{options.m} * options.n;
    if (input_bytes(options.type) == 1)
      work.weights.push_back(Weights::pack(device, options.k, options.n, b));
    else
      work.weights.push_back(
          Weights::pack(device, options.k, options.n, halves(b, options.fractions)));
    if (options.fractions) {
      work.sums.emplace_back(count);
      work.scales.emplace_back(count);
      reference_f16(options.shape(), floats(halves(work.a, true)), floats(halves(b, true)),
                    work.sums.back(), work.scales.back());
    } else {
      work.whole.emplace_back(count);
      reference_i8(options.shape(), work.a, b, work.whole.back());
    }
  }
  return work;
}

struct Run {
  Chain chain;
  Tensor input;
  std::vector<Tensor> results;
  std::optional<Future> future;
};

Run build(const Device& device, const Work& work) {
  const Options& options = work.options;
  Run run{Chain(device, options.chain), {}, {}, std::nullopt};
  run.input = run.chain.input(options.type, options.m, options.k);
  for (const Weights& weights : work.weights)
    run.results.push_back(run.chain.matmul(run.input, weights, options.type));
  run.chain.build();
  if (input_bytes(options.type) == 1)
    run.chain.write(run.input, work.a);
  else
    run.chain.write(run.input, halves(work.a, options.fractions));
  return run;
}

// ---- comparison ----------------------------------------------------------------

/// What one element of @p matmul has to be, and by how much it may differ.
struct Expected {
  double value;
  double slack;
};

Expected expected(const Work& work, std::size_t matmul, std::size_t index) {
  const Type type = work.options.type;
  if (work.options.fractions)
    return {work.sums[matmul][index], work.options.tolerance * work.scales[matmul][index]};
  const std::int32_t value = work.whole[matmul][index];
  switch (type) {
    case Type::i8_i8:
      return {static_cast<double>(saturate_i8(value)), 0};
    case Type::f16_f16:
      return {to_float(to_half(static_cast<float>(value))), 0};
    default:
      return {static_cast<double>(value), 0};
  }
}

/// Results in double, which holds every value of every type.
std::vector<double> results(const Run& run, Tensor tensor, const Options& options) {
  const std::size_t count = std::size_t{options.m} * options.n;
  const auto read = [&]<typename T>(T, auto convert) {
    std::vector<T> raw(count);
    run.chain.read(tensor, std::span<T>(raw));
    std::vector<double> values(count);
    std::transform(raw.begin(), raw.end(), values.begin(), convert);
    return values;
  };
  const auto number = [](auto value) { return static_cast<double>(value); };
  switch (options.type) {
    case Type::i8_i8:
      return read(std::int8_t{}, number);
    case Type::f16_f32:
      return read(float{}, number);
    case Type::f16_f16:
      return read(Half{}, [](Half value) { return static_cast<double>(to_float(value)); });
    default:
      return read(std::int32_t{}, number);
  }
}

struct Comparison {
  std::uint64_t different = 0;
  std::string first;
};

void compare(const Work& work, const Run& run, std::uint32_t repetition, Comparison& total) {
  const Options& options = work.options;
  for (std::size_t i = 0; i < run.results.size(); i++) {
    const std::vector<double> got = results(run, run.results[i], options);
    for (std::size_t e = 0; e < got.size(); e++) {
      const Expected want = expected(work, i, e);
      if (got[e] == want.value || std::fabs(got[e] - want.value) <= want.slack) continue;
      if (total.different++ == 0)
        total.first =
            fmt::format("run {}, matmul {}, element [{}][{}]: the device has {}, the CPU {}",
                        repetition, i, e / options.n, e % options.n, got[e], want.value);
    }
  }
}

// ---- report --------------------------------------------------------------------

struct Report {
  DeviceInfo device;
  ChainPlan plan;
  DeviceStats before, after;
  Comparison comparison;
};

Json to_json(const Options& options, const Report& report) {
  const DeviceStats &x = report.before, &y = report.after;
  Json json = {{"backend", name(report.device.backend)},
               {"model", report.device.backend == BackendKind::model},
               {"mode", name(report.device.mode)},
               {"type", name(options.type)},
               {"layout", name(options.chain.layout)},
               {"strategy", name(options.chain.strategy)},
               {"S", options.length},
               {"M", options.m},
               {"K", options.k},
               {"N", options.n},
               {"repeat", options.repeat},
               {"plan",
                {{"blocks", report.plan.blocks},
                 {"segments", report.plan.segments},
                 {"submits", report.plan.submits},
                 {"macs", report.plan.macs},
                 {"device_bytes", report.plan.device_bytes}}},
               {"submits", y.submits - x.submits},
               {"interrupts", y.interrupts - x.interrupts},
               {"tasks", y.tasks - x.tasks},
               {"blocks", y.blocks - x.blocks},
               {"cores", Json::array()}};
  for (std::size_t core = 0; core < std::size(y.core); core++)
    json["cores"].push_back({{"core", core},
                             {"chains", y.core[core].chains - x.core[core].chains},
                             {"blocks", y.core[core].blocks - x.core[core].blocks},
                             {"macs", y.core[core].macs - x.core[core].macs},
                             {"busy_ns", y.core[core].busy_ns - x.core[core].busy_ns}});
  json["elements"] = options.elements() * options.repeat;
  json["different"] = report.comparison.different;
  if (report.comparison.different != 0) json["first_difference"] = report.comparison.first;
  json["equal"] = report.comparison.different == 0;
  return json;
}

void print_report(const Options& options, const Report& report) {
  const DeviceStats &x = report.before, &y = report.after;
  put("device  {}, mode {}\n", describe(report.device), name(report.device.mode));
  put("plan    {} matmuls as {} blocks in {} segments, {} submits a run\n", report.plan.matmuls,
      report.plan.blocks, report.plan.segments, report.plan.submits);
  put("done    {} runs: {} submits, {} interrupts, {} blocks\n", options.repeat,
      y.submits - x.submits, y.interrupts - x.interrupts, y.blocks - x.blocks);
  const std::string_view clock = report.device.backend == BackendKind::model ? "virtual us" : "us";
  for (std::size_t core = 0; core < std::size(y.core); core++)
    put("core {}  {} chains, {} blocks, {} MACs, {} {}\n", core,
        y.core[core].chains - x.core[core].chains, y.core[core].blocks - x.core[core].blocks,
        grouped(y.core[core].macs - x.core[core].macs),
        (y.core[core].busy_ns - x.core[core].busy_ns) / 1000, clock);
}

int run(const Session& session, const Options& options) {
  check_size(options);
  OpenOptions open = open_options(session);
  open.core_mask = options.cores;
  open.mode = options.mode;
  const Device device = Device::open(open);
  const Work work = prepare(device, options);

  // As many copies as can run at a time: one chain is in flight at most once.
  std::vector<Run> runs;
  for (std::uint32_t i = 0; i < std::min(options.repeat, device.info().cores); i++)
    runs.push_back(build(device, work));

  Report report{device.info(), runs.front().chain.plan(), device.stats(), {}, {}};
  Stream stream(device);
  Progress progress("runs", options.repeat);
  const auto finish = [&](std::uint32_t repetition) {
    Run& one = runs[repetition % runs.size()];
    one.future->get();
    compare(work, one, repetition, report.comparison);
    progress.step();
  };
  for (std::uint32_t i = 0; i < options.repeat; i++) {
    if (i >= runs.size()) finish(i - static_cast<std::uint32_t>(runs.size()));
    runs[i % runs.size()].future = stream.submit(runs[i % runs.size()].chain);
  }
  for (std::uint32_t i = options.repeat - static_cast<std::uint32_t>(runs.size());
       i < options.repeat; i++)
    finish(i);
  report.after = device.stats();

  if (session.json)
    put_json(to_json(options, report));
  else
    print_report(options, report);
  const std::string size =
      fmt::format("{} x {} x {} x {}", options.length, options.m, options.k, options.n);
  if (report.comparison.different != 0)
    failed("{}: {} of {} elements differ; {}", size, report.comparison.different,
           options.elements() * options.repeat, report.comparison.first);
  if (!session.json)
    put("{}: all {} elements {}\n", size, options.elements(),
        options.fractions ? "within the tolerance" : "equal");
  return exit_ok;
}

}  // namespace

void add_run(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("run", "run a chain of matmuls of any size, and compare with the CPU");
  add_number(*command, "M", options->m, 1, max_dimension, "rows of A and C")->required();
  add_number(*command, "K", options->k, 1, 131071, "columns of A, rows of B")->required();
  add_number(*command, "N", options->n, 1, max_dimension, "columns of B and C")->required();
  add_type(*command, options->type);
  add_layout(*command, options->chain.layout);
  add_number(*command, "--chain", options->length, 1, 65535,
             "matmuls in the chain, each with weights of its own; 1 if not given");
  command
      ->add_option_function<std::string>(
          "--cores", [options](const std::string& text) { options->cores = parse_cores(text); },
          "cores to use: 0,2 or a mask as 0x5; all if not given")
      ->type_name("CORES");
  add_mode(*command, options->mode);
  command
      ->add_option_function<std::string>(
          "--strategy",
          [options](const std::string& text) { options->chain.strategy = parse_strategy(text); },
          "rotate (each chain on one core), split (N of every matmul over the cores), fan-out "
          "(blocks dealt out to the cores); rotate if not given")
      ->type_name("STRATEGY");
  add_number(*command, "--seed", options->seed, 0, 0xffffffff, "of the data; 1 if not given");
  add_number(*command, "--repeat", options->repeat, 1, 1000000, "runs; 1 if not given");
  command->add_flag("--fractions", options->fractions,
                    "fp16 types: fractions instead of whole numbers, compared with --tolerance");
  command
      ->add_option(
          "--tolerance", options->tolerance,
          "with --fractions: the difference allowed, as a part of the sum of the products' "
          "magnitudes; 0.001 if not given")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("NUMBER");
  add_json(*command, session);
  add_model(*command, session);
  command->footer(
      "Every element is compared: integers exactly, and fp16 types as well, as they are fed\n"
      "with whole numbers whose sums fp32 holds.  Exit code 1 when one differs.\n"
      "\n"
      "Examples:\n"
      "  rkchain --model run 1 1024 3072 --chain 2\n"
      "  rkchain --model run 7 100 50 --type f16 --layout native --mode link\n"
      "  rkchain --model run 1 2048 1024 --chain 6 --repeat 30 --cores 0,1\n");
  command->callback([&session, options] {
    session.action = [&session, options] { return run(session, *options); };
  });
}

}  // namespace rkchain::tool

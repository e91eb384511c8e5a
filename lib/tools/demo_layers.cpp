// SPDX-License-Identifier: MIT
// Decoder layers as a language model's decode phase runs them: M = 1, four chains a layer.
//
// Sizes are those of Qwen3-0.6B: hidden 1024, 16 heads for Q and 8 for K and V of 128 each, 3072
// in the MLP.  Weights are seeded numbers, and one layer's serve for all: what is shown is how
// matmuls reach the NPU, not a language.
//
// Between chains a real model runs normalisation, attention and SwiGLU on the CPU.  The stand-ins
// here are integer arithmetic with the same operands and results: each int8 vector is scaled so
// that its largest element needs 7 bits, "attention" weighs V by Q * K element by element, and
// "SwiGLU" is relu(gate) * up.  They are deterministic, and no layer's activations die out.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

#include "tools/demo.hpp"
#include "tools/reference.hpp"

namespace rkchain::tool {
namespace {

constexpr std::uint32_t hidden = 1024, q_size = 2048, kv_size = 1024, mlp_size = 3072;
constexpr std::uint32_t head = 128, heads_per_kv = 2;

using Ints = std::vector<std::int32_t>;
using Bytes = std::vector<std::int8_t>;

/// One projection: its weights as the CPU reads them, and on the device.
struct Projection {
  std::string name;
  std::uint32_t k;
  std::uint32_t n;
  Bytes values;
  Weights weights;

  Projection(const Device& device, std::string what, std::uint32_t inputs, std::uint32_t outputs,
             Random& random)
      : name(std::move(what)),
        k(inputs),
        n(outputs),
        values(random.bytes(std::size_t{inputs} * outputs, -127, 127)),
        weights(Weights::pack(device, k, n, values)) {}
};

struct Layer {
  Projection q, k, v, o, gate, up, down;

  Layer(const Device& device, Random& random)
      : q(device, "q", hidden, q_size, random),
        k(device, "k", hidden, kv_size, random),
        v(device, "v", hidden, kv_size, random),
        o(device, "o", q_size, hidden, random),
        gate(device, "gate", hidden, mlp_size, random),
        up(device, "up", hidden, mlp_size, random),
        down(device, "down", mlp_size, hidden, random) {}
};

// ---- between chains ------------------------------------------------------------

Bytes requantise(const Ints& values) {
  std::uint32_t most = 0;
  for (const std::int32_t value : values)
    most = std::max(most, static_cast<std::uint32_t>(std::abs(value)));
  const int shift = std::max(0, static_cast<int>(std::bit_width(most)) - 7);
  Bytes result(values.size());
  std::transform(values.begin(), values.end(), result.begin(),
                 [shift](std::int32_t value) { return saturate_i8(value >> shift); });
  return result;
}

Bytes attention(const Bytes& q, const Bytes& k, const Bytes& v) {
  Ints mixed(q.size());
  for (std::size_t i = 0; i < q.size(); i++) {
    const std::size_t j = i / (head * heads_per_kv) * head + i % head;
    mixed[i] = q[i] * k[j] + 64 * v[j];
  }
  return requantise(mixed);
}

Bytes swiglu(const Bytes& gate, const Bytes& up) {
  Ints mixed(gate.size());
  for (std::size_t i = 0; i < gate.size(); i++) mixed[i] = std::max<int>(gate[i], 0) * up[i];
  return requantise(mixed);
}

Bytes residual(const Bytes& x, const Bytes& y) {
  Ints sum(x.size());
  std::transform(x.begin(), x.end(), y.begin(), sum.begin(), [](int a, int b) { return a + b; });
  return requantise(sum);
}

// ---- chains --------------------------------------------------------------------

/// Projections of one operand: one chain, built once and submitted for every layer.
class Stage {
 public:
  Stage(const Device& device, std::initializer_list<const Projection*> projections)
      : chain_(device), projections_(projections) {
    input_ = chain_.input(Type::i8_i32, 1, projections_.front()->k);
    for (const Projection* projection : projections_)
      results_.push_back(chain_.matmul(input_, projection->weights));
    chain_.build();
  }

  void start(Stream& stream, const Bytes& x) {
    x_ = x;
    chain_.write(input_, x_);
    future_ = stream.submit(chain_);
  }

  /// Waits, compares with the CPU, and hands the results out as int8.
  std::vector<Bytes> finish(LayerWork& work, std::string& first_difference) {
    future_->get();
    work.chains++;
    work.tasks += chain_.plan().blocks;
    std::vector<Bytes> outputs;
    for (std::size_t i = 0; i < results_.size(); i++) {
      const Projection& projection = *projections_[i];
      Ints got(projection.n), want(projection.n);
      chain_.read(results_[i], got);
      reference_i8({1, projection.k, projection.n}, x_, projection.values, want);
      work.elements += got.size();
      for (std::size_t n = 0; n < got.size(); n++) {
        if (got[n] == want[n]) continue;
        work.different++;
        if (first_difference.empty())
          first_difference = fmt::format("{}[{}]: the device has {}, the CPU {}", projection.name,
                                         n, got[n], want[n]);
      }
      outputs.push_back(requantise(got));
    }
    return outputs;
  }

 private:
  Chain chain_;
  std::vector<const Projection*> projections_;
  Tensor input_;
  std::vector<Tensor> results_;
  Bytes x_;
  std::optional<Future> future_;
};

/// One sequence of tokens: its activations and the four chains of a layer.
struct Sequence {
  Bytes x;
  Stage qkv, o, mlp, down;

  Sequence(const Device& device, const Layer& layer, Random& random)
      : x(random.bytes(hidden, -127, 127)),
        qkv(device, {&layer.q, &layer.k, &layer.v}),
        o(device, {&layer.o}),
        mlp(device, {&layer.gate, &layer.up}),
        down(device, {&layer.down}) {}
};

LayerWork difference(const DeviceStats& before, const DeviceStats& after) {
  LayerWork work;
  work.submits = after.submits - before.submits;
  work.interrupts = after.interrupts - before.interrupts;
  for (std::size_t i = 0; i < work.core.size(); i++) {
    const CoreStats &x = before.core[i], &y = after.core[i];
    work.core[i] = {y.chains - x.chains, y.blocks - x.blocks, y.macs - x.macs,
                    y.busy_ns - x.busy_ns};
  }
  return work;
}

}  // namespace

LayerWork& LayerWork::operator+=(const LayerWork& other) {
  chains += other.chains;
  tasks += other.tasks;
  submits += other.submits;
  interrupts += other.interrupts;
  for (std::size_t i = 0; i < core.size(); i++) {
    core[i].chains += other.core[i].chains;
    core[i].blocks += other.core[i].blocks;
    core[i].macs += other.core[i].macs;
    core[i].busy_ns += other.core[i].busy_ns;
  }
  elements += other.elements;
  different += other.different;
  return *this;
}

LayerWork LayersReport::total() const {
  LayerWork sum;
  for (const LayerWork& layer : layers) sum += layer;
  return sum;
}

LayersReport run_layers(const Device& device, const DemoOptions& options) {
  Random random(options.seed);
  const Layer layer(device, random);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (std::uint32_t i = 0; i < options.sequences; i++)
    sequences.push_back(std::make_unique<Sequence>(device, layer, random));

  LayersReport report;
  Stream stream(device);
  Progress progress("layers", options.layers);
  for (std::uint32_t i = 0; i < options.layers; i++, progress.step()) {
    const DeviceStats before = device.stats();
    LayerWork counted;
    std::string first;
    // All sequences' chains are in flight together: that is what there is to rotate.
    for (auto& s : sequences) s->qkv.start(stream, s->x);
    for (auto& s : sequences) {
      const auto qkv = s->qkv.finish(counted, first);
      s->o.start(stream, attention(qkv[0], qkv[1], qkv[2]));
    }
    for (auto& s : sequences) {
      s->x = residual(s->x, s->o.finish(counted, first)[0]);
      s->mlp.start(stream, s->x);
    }
    for (auto& s : sequences) {
      const auto mlp = s->mlp.finish(counted, first);
      s->down.start(stream, swiglu(mlp[0], mlp[1]));
    }
    for (auto& s : sequences) s->x = residual(s->x, s->down.finish(counted, first)[0]);

    LayerWork work = difference(before, device.stats());
    work += counted;
    if (report.first_difference.empty() && !first.empty())
      report.first_difference = fmt::format("layer {}, {}", i, first);
    report.layers.push_back(work);
  }
  return report;
}

}  // namespace rkchain::tool

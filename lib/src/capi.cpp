// SPDX-License-Identifier: MIT
// The C interface: the C++ one behind handles, with exceptions turned into values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rkchain.h"
#include "rkchain/rkchain.hpp"

struct rkchain_device {
  rkchain::Device device;
};
struct rkchain_weights {
  rkchain::Weights weights;
};
struct rkchain_chain {
  rkchain::Chain chain;
};
struct rkchain_stream {
  rkchain::Stream stream;
};
struct rkchain_future {
  rkchain::Future future;
};

namespace {

using rkchain::Errc;
using rkchain::Error;
using rkchain::Half;

static_assert(sizeof(Half) == sizeof(std::uint16_t) && alignof(Half) == alignof(std::uint16_t));
static_assert(static_cast<int>(Errc::invalid_argument) == RKCHAIN_INVALID_ARGUMENT);
static_assert(static_cast<int>(Errc::bad_format) == RKCHAIN_BAD_FORMAT);
static_assert(static_cast<int>(rkchain::BackendKind::model) == RKCHAIN_BACKEND_MODEL);
static_assert(static_cast<int>(rkchain::Mode::single) == RKCHAIN_MODE_SINGLE);
static_assert(static_cast<int>(rkchain::Type::f16_f16) == RKCHAIN_F16_F16);
static_assert(static_cast<int>(rkchain::Source::kn) == RKCHAIN_KN);
static_assert(static_cast<int>(rkchain::Layout::native) == RKCHAIN_NATIVE);
static_assert(static_cast<int>(rkchain::Strategy::fan_out) == RKCHAIN_FAN_OUT);

// ---- errors ----------------------------------------------------------------

/// The last failure of a thread.  Of fixed size: to keep it must not be able to fail.
struct Failure {
  std::array<char, 1024> text{};
  std::uint32_t reason = 0;
  std::uint32_t block = Error::no_position;
  std::uint32_t word = Error::no_position;
};

thread_local Failure last_failure;

rkchain_status fail(Errc code, std::string_view text) noexcept {
  last_failure = {};
  const std::size_t size = std::min(text.size(), last_failure.text.size() - 1);
  std::copy_n(text.begin(), size, last_failure.text.begin());
  return static_cast<rkchain_status>(code);
}

/// Runs the body of a C function; no exception leaves it.
template <typename Body>
rkchain_status guard(Body&& body) noexcept {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<Body>, rkchain_status>) {
      return body();
    } else {
      body();
      return RKCHAIN_OK;
    }
  } catch (const Error& error) {
    const rkchain_status status = fail(error.code(), error.what());
    last_failure.reason = error.reason();
    last_failure.block = error.block();
    last_failure.word = error.word();
    return status;
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "out of host memory");
  } catch (const std::exception& error) {
    return fail(Errc::io, error.what());
  } catch (...) {
    return fail(Errc::io, "an exception of no known type");
  }
}

// ---- arguments -------------------------------------------------------------

void need(const void* pointer, std::string_view name) {
  if (pointer == nullptr) {
    throw Error(Errc::invalid_argument, fmt::format("{} is NULL", name));
  }
}

/// An enum that came as a number.
template <typename Enum>
Enum choice(std::uint32_t value, Enum last, std::string_view name) {
  if (value > static_cast<std::uint32_t>(last)) {
    throw Error(Errc::invalid_argument, fmt::format("{} is {}, the limit is {}", name, value,
                                                    static_cast<std::uint32_t>(last)));
  }
  return static_cast<Enum>(value);
}

void check_size(std::uint32_t size, std::string_view name) {
  if (size < sizeof(size)) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("{}->size is {}: it is to be set to the size of the struct", name, size));
  }
}

/// A struct of the caller's version of the header as one of ours.
template <typename Struct>
Struct take(const Struct* given, std::string_view name) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  Struct known{};
  if (given == nullptr) return known;
  check_size(given->size, name);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const std::size_t common = std::min<std::size_t>(given->size, sizeof(known));
  if (std::any_of(bytes + common, bytes + given->size, [](unsigned char b) { return b != 0; })) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} has {} bytes with an option that this library does not know; it "
                            "knows {} bytes",
                            name, given->size, sizeof(known)));
  }
  std::memcpy(&known, given, common);
  return known;
}

/// A struct of ours as one of the caller's version.
template <typename Struct>
void give(Struct* out, Struct known) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  const std::uint32_t size = out->size;
  known.size = size;
  const std::size_t common = std::min<std::size_t>(size, sizeof(known));
  std::memcpy(out, &known, common);
  std::memset(reinterpret_cast<unsigned char*>(out) + common, 0, size - common);
}

std::size_t elements(std::uint64_t count) {
  if constexpr (sizeof(std::size_t) < sizeof(count)) {
    if (count > std::numeric_limits<std::size_t>::max()) {
      throw Error(Errc::invalid_argument, fmt::format("{} elements do not fit memory", count));
    }
  }
  return static_cast<std::size_t>(count);
}

template <typename T>
std::span<T> span(T* values, std::uint64_t count) {
  return {values, elements(count)};
}

std::span<const Half> halves(const std::uint16_t* values, std::uint64_t count) {
  return {reinterpret_cast<const Half*>(values), elements(count)};
}

std::span<Half> halves(std::uint16_t* values, std::uint64_t count) {
  return {reinterpret_cast<Half*>(values), elements(count)};
}

rkchain::OpenOptions open_options(const rkchain_open_options* given) {
  constexpr std::uint32_t kFlags = 2 * RKCHAIN_MODEL_POISON - 1;
  const rkchain_open_options from = take(given, "options");
  if ((from.model_flags & ~kFlags) != 0) {
    throw Error(Errc::invalid_argument,
                fmt::format("model_flags is {:#x}, the limit is {:#x}", from.model_flags, kFlags));
  }
  const auto flag = [&](std::uint32_t bit) { return (from.model_flags & bit) != 0; };
  rkchain::OpenOptions options;
  options.backend = choice(from.backend, rkchain::BackendKind::model, "backend");
  if (from.mode != RKCHAIN_MODE_AUTO) {
    options.mode = choice(from.mode, rkchain::Mode::single, "mode");
  }
  options.core_mask = from.core_mask;
  if (from.queue_depth != 0) options.queue_depth = from.queue_depth;
  options.model.nowait = flag(RKCHAIN_MODEL_NOWAIT);
  options.model.early = flag(RKCHAIN_MODEL_EARLY);
  options.model.needs41 = flag(RKCHAIN_MODEL_NEEDS41);
  options.model.late = flag(RKCHAIN_MODEL_LATE);
  options.model.rawlate = flag(RKCHAIN_MODEL_RAWLATE);
  options.model.cold = flag(RKCHAIN_MODEL_COLD);
  options.model.plain = flag(RKCHAIN_MODEL_PLAIN);
  options.model.bad_cores = from.model_bad_cores;
  options.model.stuck_cores = from.model_stuck_cores;
  options.model.drop_every = from.model_drop_every;
  if (flag(RKCHAIN_MODEL_POISON)) options.model.poison = from.model_poison;
  return options;
}

// ---- what several functions have in common ----------------------------------

template <typename Handle>
rkchain_status release(Handle* handle) noexcept {
  return guard([&] { delete handle; });
}

template <typename Element>
rkchain_status pack(const rkchain_device* device, std::uint32_t k, std::uint32_t n,
                    const Element* source, std::uint64_t count, std::uint32_t order,
                    rkchain_weights** weights) noexcept {
  return guard([&] {
    need(device, "device");
    need(source, "source");
    need(weights, "weights");
    const auto from = choice(order, rkchain::Source::kn, "order");
    const auto values = [&] {
      if constexpr (std::is_same_v<Element, std::uint16_t>) {
        return halves(source, count);
      } else {
        return span(source, count);
      }
    }();
    *weights = new rkchain_weights{rkchain::Weights::pack(device->device, k, n, values, from)};
  });
}

template <typename Values>
rkchain_status write(rkchain_chain* chain, rkchain_tensor tensor, const void* given,
                     Values&& values) noexcept {
  return guard([&] {
    need(chain, "chain");
    need(given, "values");
    chain->chain.write({tensor}, values());
  });
}

template <typename Values>
rkchain_status read(const rkchain_chain* chain, rkchain_tensor tensor, const void* given,
                    Values&& values) noexcept {
  return guard([&] {
    need(chain, "chain");
    need(given, "values");
    chain->chain.read({tensor}, values());
  });
}

struct FreeStorage {
  void operator()(void* memory) const noexcept { ::operator delete(memory); }
};
using Storage = std::unique_ptr<void, FreeStorage>;

/// @param block wait while the stream is full
rkchain_status submit(rkchain_stream* stream, rkchain_chain* chain,
                      const rkchain_submit_options* options, rkchain_future** future,
                      bool block) noexcept {
  return guard([&]() -> rkchain_status {
    need(stream, "stream");
    need(chain, "chain");
    const rkchain_submit_options from = take(options, "options");
    const rkchain::SubmitOptions to{from.core_mask, from.ordered != 0};
    // First of all, as nothing may fail once the chain is on its way.
    Storage storage(::operator new(sizeof(rkchain_future)));
    std::optional<rkchain::Future> run;
    if (block) {
      run = stream->stream.submit(chain->chain, to);
    } else {
      run = stream->stream.try_submit(chain->chain, to);
    }
    if (!run) {
      return fail(Errc::queue_full, "the stream or the device has no room for another run");
    }
    if (future != nullptr) *future = new (storage.release()) rkchain_future{std::move(*run)};
    return RKCHAIN_OK;
  });
}

}  // namespace

// ---- errors and version ------------------------------------------------------

const char* rkchain_version(void) { return RKCHAIN_VERSION; }

const char* rkchain_strerror(rkchain_status status) {
  switch (status) {
    case RKCHAIN_OK:
      return "success";
    case RKCHAIN_INVALID_ARGUMENT:
      return "an argument breaks a limit";
    case RKCHAIN_OUT_OF_MEMORY:
      return "out of host memory or device address space";
    case RKCHAIN_NO_DEVICE:
      return "no NPU, or no driver that can be used";
    case RKCHAIN_PERMISSION:
      return "no permission to open the NPU";
    case RKCHAIN_CHECK_FAILED:
      return "a program was refused";
    case RKCHAIN_BUSY:
      return "the chain is in flight or built already";
    case RKCHAIN_QUEUE_FULL:
      return "the queue is full";
    case RKCHAIN_TIMED_OUT:
      return "not finished in time";
    case RKCHAIN_HUNG:
      return "the NPU did not finish";
    case RKCHAIN_DMA_ERROR:
      return "the NPU touched an address that is not mapped";
    case RKCHAIN_EARLY_COMPLETION:
      return "the NPU signalled completion too early";
    case RKCHAIN_DROPPED_DISPATCH:
      return "the NPU accepted a chain and never started it";
    case RKCHAIN_IO:
      return "the device failed";
    case RKCHAIN_CANCELLED:
      return "cancelled";
    case RKCHAIN_UNSUPPORTED:
      return "not supported by this back end";
    case RKCHAIN_BAD_FORMAT:
      return "a file or text that cannot be read";
    default:
      return "unknown status";
  }
}

const char* rkchain_last_error(void) { return last_failure.text.data(); }

rkchain_status rkchain_last_check(uint32_t* reason, uint32_t* block, uint32_t* word) {
  if (reason != nullptr) *reason = last_failure.reason;
  if (block != nullptr) *block = last_failure.block;
  if (word != nullptr) *word = last_failure.word;
  return RKCHAIN_OK;
}

// ---- device -------------------------------------------------------------------

rkchain_status rkchain_open(const rkchain_open_options* options, rkchain_device** device) {
  return guard([&] {
    need(device, "device");
    *device = new rkchain_device{rkchain::Device::open(open_options(options))};
  });
}

rkchain_status rkchain_close(rkchain_device* device) { return release(device); }

rkchain_status rkchain_device_info(const rkchain_device* device, rkchain_info* info) {
  return guard([&] {
    need(device, "device");
    need(info, "info");
    check_size(info->size, "info");
    const rkchain::DeviceInfo from = device->device.info();
    rkchain_info to{};
    to.backend = static_cast<std::uint32_t>(from.backend);
    to.mode = static_cast<std::uint32_t>(from.mode);
    to.cores = from.cores;
    to.usable_mask = from.usable_mask;
    to.ordered = from.ordered ? 1 : 0;
    from.driver.copy(to.driver, sizeof(to.driver) - 1);
    give(info, to);
  });
}

rkchain_status rkchain_device_stats(const rkchain_device* device, rkchain_stats* stats) {
  return guard([&] {
    need(device, "device");
    need(stats, "stats");
    check_size(stats->size, "stats");
    const rkchain::DeviceStats from = device->device.stats();
    rkchain_stats to{};
    to.submits = from.submits;
    to.interrupts = from.interrupts;
    to.tasks = from.tasks;
    to.blocks = from.blocks;
    static_assert(std::size(decltype(from.core){}) == std::size(decltype(to.core){}));
    for (std::size_t i = 0; i < std::size(to.core); ++i) {
      const rkchain::CoreStats& core = from.core[i];
      to.core[i] = {core.chains, core.blocks, core.macs, core.busy_ns};
    }
    give(stats, to);
  });
}

// ---- weights -------------------------------------------------------------------

rkchain_status rkchain_weights_pack_i8(const rkchain_device* device, uint32_t k, uint32_t n,
                                       const int8_t* source, uint64_t count, uint32_t order,
                                       rkchain_weights** weights) {
  return pack(device, k, n, source, count, order, weights);
}

rkchain_status rkchain_weights_pack_f16(const rkchain_device* device, uint32_t k, uint32_t n,
                                        const uint16_t* source, uint64_t count, uint32_t order,
                                        rkchain_weights** weights) {
  return pack(device, k, n, source, count, order, weights);
}

rkchain_status rkchain_weights_bytes(const rkchain_weights* weights, uint64_t* bytes) {
  return guard([&] {
    need(weights, "weights");
    need(bytes, "bytes");
    *bytes = weights->weights.device_bytes();
  });
}

rkchain_status rkchain_weights_free(rkchain_weights* weights) { return release(weights); }

// ---- chains --------------------------------------------------------------------

rkchain_status rkchain_chain_create(const rkchain_device* device,
                                    const rkchain_chain_options* options, rkchain_chain** chain) {
  return guard([&] {
    need(device, "device");
    need(chain, "chain");
    const rkchain_chain_options from = take(options, "options");
    const rkchain::ChainOptions to{choice(from.strategy, rkchain::Strategy::fan_out, "strategy"),
                                   choice(from.layout, rkchain::Layout::native, "layout")};
    *chain = new rkchain_chain{rkchain::Chain(device->device, to)};
  });
}

rkchain_status rkchain_chain_free(rkchain_chain* chain) { return release(chain); }

rkchain_status rkchain_chain_input(rkchain_chain* chain, uint32_t type, uint32_t m, uint32_t k,
                                   rkchain_tensor* tensor) {
  return guard([&] {
    need(chain, "chain");
    need(tensor, "tensor");
    *tensor = chain->chain.input(choice(type, rkchain::Type::f16_f16, "type"), m, k).index;
  });
}

rkchain_status rkchain_chain_matmul(rkchain_chain* chain, rkchain_tensor a,
                                    const rkchain_weights* weights, uint32_t type,
                                    rkchain_tensor* result) {
  return guard([&] {
    need(chain, "chain");
    need(weights, "weights");
    need(result, "result");
    *result =
        chain->chain.matmul({a}, weights->weights, choice(type, rkchain::Type::f16_f16, "type"))
            .index;
  });
}

rkchain_status rkchain_chain_build(rkchain_chain* chain) {
  return guard([&] {
    need(chain, "chain");
    chain->chain.build();
  });
}

rkchain_status rkchain_chain_plan(const rkchain_chain* chain, rkchain_plan* plan) {
  return guard([&] {
    need(chain, "chain");
    need(plan, "plan");
    check_size(plan->size, "plan");
    const rkchain::ChainPlan& from = chain->chain.plan();
    rkchain_plan to{};
    to.matmuls = from.matmuls;
    to.blocks = from.blocks;
    to.segments = from.segments;
    to.submits = from.submits;
    to.macs = from.macs;
    to.device_bytes = from.device_bytes;
    give(plan, to);
  });
}

rkchain_status rkchain_chain_shape(const rkchain_chain* chain, rkchain_tensor tensor, uint32_t* m,
                                   uint32_t* k, uint32_t* n) {
  return guard([&] {
    need(chain, "chain");
    const rkchain::Shape shape = chain->chain.shape({tensor});
    if (m != nullptr) *m = shape.m;
    if (k != nullptr) *k = shape.k;
    if (n != nullptr) *n = shape.n;
  });
}

rkchain_status rkchain_chain_write_i8(rkchain_chain* chain, rkchain_tensor tensor,
                                      const int8_t* values, uint64_t count) {
  return write(chain, tensor, values, [&] { return span(values, count); });
}

rkchain_status rkchain_chain_write_f16(rkchain_chain* chain, rkchain_tensor tensor,
                                       const uint16_t* values, uint64_t count) {
  return write(chain, tensor, values, [&] { return halves(values, count); });
}

rkchain_status rkchain_chain_read_i32(const rkchain_chain* chain, rkchain_tensor tensor,
                                      int32_t* values, uint64_t count) {
  return read(chain, tensor, values, [&] { return span(values, count); });
}

rkchain_status rkchain_chain_read_i8(const rkchain_chain* chain, rkchain_tensor tensor,
                                     int8_t* values, uint64_t count) {
  return read(chain, tensor, values, [&] { return span(values, count); });
}

rkchain_status rkchain_chain_read_f32(const rkchain_chain* chain, rkchain_tensor tensor,
                                      float* values, uint64_t count) {
  return read(chain, tensor, values, [&] { return span(values, count); });
}

rkchain_status rkchain_chain_read_f16(const rkchain_chain* chain, rkchain_tensor tensor,
                                      uint16_t* values, uint64_t count) {
  return read(chain, tensor, values, [&] { return halves(values, count); });
}

// ---- running -------------------------------------------------------------------

rkchain_status rkchain_stream_create(const rkchain_device* device,
                                     const rkchain_stream_options* options,
                                     rkchain_stream** stream) {
  return guard([&] {
    need(device, "device");
    need(stream, "stream");
    const rkchain_stream_options from = take(options, "options");
    rkchain::StreamOptions to;
    if (from.depth != 0) to.depth = from.depth;
    *stream = new rkchain_stream{rkchain::Stream(device->device, to)};
  });
}

rkchain_status rkchain_stream_free(rkchain_stream* stream) { return release(stream); }

rkchain_status rkchain_stream_submit(rkchain_stream* stream, rkchain_chain* chain,
                                     const rkchain_submit_options* options,
                                     rkchain_future** future) {
  return submit(stream, chain, options, future, true);
}

rkchain_status rkchain_stream_try_submit(rkchain_stream* stream, rkchain_chain* chain,
                                         const rkchain_submit_options* options,
                                         rkchain_future** future) {
  return submit(stream, chain, options, future, false);
}

rkchain_status rkchain_stream_drain(rkchain_stream* stream) {
  return guard([&] {
    need(stream, "stream");
    stream->stream.drain();
  });
}

rkchain_status rkchain_future_wait(const rkchain_future* future, int64_t timeout_ns) {
  return guard([&]() -> rkchain_status {
    need(future, "future");
    const auto timeout =
        timeout_ns < 0 ? std::chrono::nanoseconds::max() : std::chrono::nanoseconds(timeout_ns);
    if (future->future.wait_for(timeout)) return RKCHAIN_OK;
    return fail(Errc::timed_out, "the run has not ended within the time limit");
  });
}

rkchain_status rkchain_future_get(rkchain_future* future, rkchain_run* run) {
  return guard([&] {
    need(future, "future");
    rkchain_run to{};
    if (run != nullptr) {
      to = take(run, "run");
      if (to.capacity != 0) need(to.segments, "run->segments");
    }
    const rkchain::RunResult result = future->future.get();
    if (run == nullptr) return;
    to.count = static_cast<std::uint32_t>(result.segments.size());
    for (std::uint32_t i = 0; i < std::min(to.count, to.capacity); ++i) {
      const rkchain::SegmentResult& from = result.segments[i];
      to.segments[i] = {from.sequence,  from.core,       from.retries,
                        from.queued_ns, from.started_ns, from.done_ns};
    }
    give(run, to);
  });
}

rkchain_status rkchain_future_free(rkchain_future* future) { return release(future); }

// ---- one-shot ------------------------------------------------------------------

rkchain_status rkchain_matmul_i8(const rkchain_device* device, uint32_t m, uint32_t k, uint32_t n,
                                 const int8_t* a, const rkchain_weights* weights, int32_t* c) {
  return guard([&] {
    need(device, "device");
    need(a, "a");
    need(weights, "weights");
    need(c, "c");
    rkchain::matmul(device->device, {m, k, n}, span(a, std::uint64_t{m} * k), weights->weights,
                    span(c, std::uint64_t{m} * n));
  });
}

rkchain_status rkchain_matmul_f16(const rkchain_device* device, uint32_t m, uint32_t k, uint32_t n,
                                  const uint16_t* a, const rkchain_weights* weights, float* c) {
  return guard([&] {
    need(device, "device");
    need(a, "a");
    need(weights, "weights");
    need(c, "c");
    rkchain::matmul(device->device, {m, k, n}, halves(a, std::uint64_t{m} * k), weights->weights,
                    span(c, std::uint64_t{m} * n));
  });
}

rkchain_status rkchain_to_f16(const float* from, uint16_t* to, uint64_t count) {
  return guard([&] {
    need(from, "from");
    need(to, "to");
    std::transform(from, from + elements(count), to,
                   [](float value) { return rkchain::to_half(value).bits; });
  });
}

rkchain_status rkchain_from_f16(const uint16_t* from, float* to, uint64_t count) {
  return guard([&] {
    need(from, "from");
    need(to, "to");
    std::transform(from, from + elements(count), to,
                   [](std::uint16_t bits) { return rkchain::to_float({bits}); });
  });
}

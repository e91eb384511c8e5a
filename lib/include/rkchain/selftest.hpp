// SPDX-License-Identifier: MIT
// Which modes this NPU can do, found out by chains whose results are known.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rkchain/device.hpp"

#pragma GCC visibility push(default)

namespace rkchain {

/// What is said of a mode on a core.
enum class Verdict : std::uint8_t {
  untested,   ///< the core is out, or was not asked for, or others' resets took the chain down
  works,      ///< outputs were in memory at completion, and blocks read what earlier ones wrote
  early,      ///< outputs were right, but some came after the completion
  wrong,      ///< outputs were wrong
  unordered,  ///< right, but a block that reads an earlier one's output read something else
  timeout,    ///< the chain did not come back
};
/// @return "works", "completes early", ... as it stands in tables.
[[nodiscard]] std::string_view name(Verdict verdict) noexcept;

struct SelfTestOptions {
  std::vector<Mode> modes;      ///< none = all
  std::uint32_t core_mask = 0;  ///< 0 = all
  /// Microseconds, without long chains; cannot see early completion and proves nothing.
  bool brief = false;
  bool shared = false;  ///< kmod: even if other programs have the NPU open
  /// Called before each mode and core, where the back end works through them in this process.
  std::function<void(Mode mode, std::uint32_t core)> progress;
};

struct SelfTestResult {
  Mode mode = Mode::wait;
  std::uint32_t core = 0;
  Verdict verdict = Verdict::untested;
  std::uint32_t blocks = 0;            ///< of the chain that decided it
  std::optional<std::uint32_t> block;  ///< first one whose output was not as expected
  std::uint64_t hw_ns = 0;             ///< time on the NPU; on the model as its counters have it
  std::uint64_t expected_ns = 0;       ///< of the same blocks one by one; 0 = not known
  std::string detail;                  ///< what the back end said of a chain that failed
};

struct SelfTestReport {
  std::vector<SelfTestResult> results;  ///< ascending by mode, then core
  std::vector<Mode> proven;             ///< work on every core that works at all
  std::uint32_t failed_cores = 0;       ///< mask; nothing works there
  Mode chosen = Mode::single;           ///< the best that is proven, else single
  std::string why;                      ///< it was chosen, in a sentence
};

/// Runs the self-test.  On kmod the module does it and uses what it proves from then on; the
/// others run it in this process and change nothing of the device.  A mode that does not work
/// can hang a core until the NPU is reset, for every program.
/// @throws Error permission (kmod: root only), busy (kmod: others have the NPU open),
///   no_device, out_of_memory, invalid_argument.
[[nodiscard]] SelfTestReport self_test(const Device& device, const SelfTestOptions& options = {});

}  // namespace rkchain

#pragma GCC visibility pop

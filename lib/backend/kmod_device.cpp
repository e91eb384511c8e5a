// SPDX-License-Identifier: MIT
#include "backend/kmod_device.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "kmod/core/reason.h"
#include "src/format.hpp"

namespace rkchain {
namespace {

// The module tells old programs from new ones by these.
static_assert(sizeof(rkchain_report) == 32 && sizeof(rkchain_query) == 160);
static_assert(sizeof(rkchain_provide) == 40 && sizeof(rkchain_buf_create) == 64);
static_assert(sizeof(rkchain_buf_sync) == 56 && sizeof(rkchain_id) == 40);
static_assert(sizeof(rkchain_chain_create) == 112 && sizeof(rkchain_submit) == 88);
static_assert(sizeof(rkchain_completion) == 80 && sizeof(rkchain_wait) == 72);
static_assert(sizeof(rkchain_failures) == 136 && sizeof(rkchain_selftest) == 72);
static_assert(sizeof(rkchain_selftest_result) == 40);
static_assert(static_cast<int>(RKCHAIN_REASON_BUFFER_RANGE) == static_cast<int>(RKC_BUFFER_RANGE));
static_assert(RKCHAIN_NO_WORD == RKC_NO_WORD && RKCHAIN_NO_WORD == Error::no_position);

constexpr std::uint32_t kFirstOfCall = 100;  ///< reasons below speak of a program

std::string finding(std::string_view text, const rkchain_report& report) {
  return fmt::format("{}: found {}, the limit is {}", text, report.value, report.limit);
}

/// Code and sentence for what is wrong with the call itself.
std::pair<Errc, std::string> meaning(const rkchain_report& report) {
  switch (report.reason) {
    case RKCHAIN_REASON_FLAGS:
    case RKCHAIN_REASON_RESERVED:
      return {Errc::unsupported, fmt::format("this rkchain module does not know what was asked of "
                                             "it (found {:#x}, it knows {:#x}): it is older than "
                                             "this library",
                                             report.value, report.limit)};
    case RKCHAIN_REASON_PRIVILEGE:
      return {Errc::permission, "only root may do that"};
    case RKCHAIN_REASON_SIZE:
      return {Errc::invalid_argument, finding("a size or count out of range", report)};
    case RKCHAIN_REASON_RANGE:
      return {Errc::invalid_argument, finding("outside the buffer", report)};
    case RKCHAIN_REASON_DIRECTION:
      return {Errc::invalid_argument, "no such direction"};
    case RKCHAIN_REASON_NO_PROVIDER:
      return {Errc::no_device,
              "the rkchain module has no stock driver to work with: run \"rkchain provide\" as "
              "root"};
    case RKCHAIN_REASON_DEVICE_GONE:
      return {Errc::no_device, "the rknpu driver that this was made with has gone"};
    case RKCHAIN_REASON_NOT_RKNPU:
      return {Errc::no_device, "that is no node of the driver rknpu"};
    case RKCHAIN_REASON_WRONG_CHIP:
      return {Errc::no_device, "that is the NPU of another chip than the RK3588"};
    case RKCHAIN_REASON_FOREIGN_ABI:
      return {Errc::no_device, "that rknpu driver has an interface that the module does not know"};
    case RKCHAIN_REASON_PROVIDED:
      return {Errc::busy,
              "the module has a stock driver already; \"rkchain provide --release\" "
              "lets go of it"};
    case RKCHAIN_REASON_BUFFER_ID:
      return {Errc::invalid_argument, fmt::format("no buffer has the id {}", report.value)};
    case RKCHAIN_REASON_CHAIN_ID:
      return {Errc::invalid_argument, fmt::format("no chain has the id {}", report.value)};
    case RKCHAIN_REASON_QUOTA_BYTES:
      return {Errc::out_of_memory, finding("this user's quota of device memory, in bytes", report)};
    case RKCHAIN_REASON_QUOTA_CHAINS:
      return {Errc::out_of_memory, finding("this user's quota of chains", report)};
    case RKCHAIN_REASON_QUOTA_BLOCKS:
      return {Errc::out_of_memory, finding("this user's quota of blocks of chains", report)};
    case RKCHAIN_REASON_TOO_COSTLY:
      return {Errc::check_failed,
              fmt::format("it may take {} ns by the module's estimate, and the limit is {} ns: "
                          "make several chains of it",
                          report.value, report.limit)};
    case RKCHAIN_REASON_CORE_MASK:
      if (report.limit == 0) return {Errc::no_device, "every core has been set aside"};
      return {Errc::invalid_argument, fmt::format("core mask {:#x} has no usable core, mask {:#x}",
                                                  report.value, report.limit)};
    case RKCHAIN_REASON_SEQUENCE:
      return {Errc::invalid_argument, fmt::format("sequence number {} has not been submitted, or "
                                                  "has been waited for before",
                                                  report.value)};
    case RKCHAIN_REASON_QUEUE_FULL:
      return {Errc::queue_full, finding("chains in the module's queue", report)};
    case RKCHAIN_REASON_MEMORY:
      return {Errc::out_of_memory, "the rknpu driver has no memory for it"};
    case RKCHAIN_REASON_IOVA:
      return {Errc::out_of_memory, "the rknpu driver gave an address above 4 GiB"};
    case RKCHAIN_REASON_QUARANTINE:
      return {Errc::busy,
              "a core may still be running what failed on it, until it has run something else"};
    case RKCHAIN_REASON_FAILURE:
      return {Errc::invalid_argument,
              fmt::format("there is no failure {}: {} are kept", report.value, report.limit)};
    case RKCHAIN_REASON_NOT_ALONE:
      return {Errc::busy,
              "other programs have the NPU open, and a mode that does not work would take it "
              "from them"};
    case RKCHAIN_REASON_MODES:
      return {Errc::invalid_argument, fmt::format("no mode has a bit of {:#x}", report.value)};
    default:
      return {Errc::io, fmt::format("refused for reason {}", report.reason)};
  }
}

/// When the module gives no reason.
std::pair<Errc, std::string> meaning(int error) {
  const auto text = [error](std::string_view what) {
    return fmt::format("{} ({})", what, error_text(error));
  };
  switch (error) {
    case -ENOTTY:
    case -E2BIG:
      return {Errc::unsupported, text("this rkchain module is older than what is asked of it")};
    case -EPERM:
    case -EACCES:
      return {Errc::permission, text("only root may do that")};
    case -ENODEV:
      return {Errc::no_device, text("the rkchain module has no NPU driver to work with")};
    case -EDQUOT:
      return {Errc::out_of_memory, text("this user's quota is used up")};
    case -ENOMEM:
    case -EMFILE:
    case -ENFILE:
      return {Errc::out_of_memory, error_text(error)};
    case -EAGAIN:
      return {Errc::queue_full, text("the module's queue is full")};
    case -EBUSY:
      return {Errc::busy, error_text(error)};
    case -EINVAL:
    case -EBADF:
      return {Errc::invalid_argument, error_text(error)};
    default:
      return {Errc::io, error_text(error)};
  }
}

Error cannot_open(const System& system, const std::string& path, int error) {
  if (error == -ENOENT) {
    return {Errc::no_device,
            fmt::format("there is no {}: the rkchain module is not loaded (\"sudo modprobe "
                        "rkchain\" loads it)",
                        path)};
  }
  if (error != -EACCES && error != -EPERM) {
    return {Errc::no_device, fmt::format("{} cannot be opened: {}", path, error_text(error))};
  }
  const std::string group = system.group(path);
  if (group.empty() || group == "root") {
    return {Errc::permission, fmt::format("only root may open {}", path)};
  }
  return {Errc::permission,
          fmt::format("{} may not be opened: its group is \"{}\", so that \"sudo usermod -aG {} "
                      "$USER\" and a new login give access",
                      path, group, group)};
}

}  // namespace

KmodDevice::KmodDevice(std::shared_ptr<const System> system)
    : system_(std::move(system)),
      path_(system_->environment("RKCHAIN_DEVICE").value_or("/dev/rkchain")) {
  const int fd = system_->open(path_);
  if (fd < 0) throw cannot_open(*system_, path_, fd);
  fd_ = Fd(system_, fd);
}

rkchain_query KmodDevice::query() const {
  rkchain_query query{};
  const int error = call(RKCHAIN_IOCTL_QUERY, &query);
  if (error < 0) {
    throw Error(Errc::no_device, fmt::format("{} does not answer as the rkchain module: {}", path_,
                                             error_text(error)));
  }
  return query;
}

void KmodDevice::provide(int drm_fd) const {
  rkchain_provide provide{};
  provide.drm_fd = drm_fd;
  const int error = call(RKCHAIN_IOCTL_PROVIDE, &provide);
  if (error < 0) throw kmod_error("provide", error, provide.report);
}

void KmodDevice::release() const {
  rkchain_provide provide{};
  provide.drm_fd = -1;
  provide.flags = RKCHAIN_PROVIDE_RELEASE;
  const int error = call(RKCHAIN_IOCTL_PROVIDE, &provide);
  if (error < 0) throw kmod_error("provide", error, provide.report);
}

Error kmod_error(std::string_view subject, int error, const rkchain_report& report) {
  if (report.reason != RKCHAIN_REASON_NONE && report.reason < kFirstOfCall) {
    return detail::refusal(
        {report.reason, report.block, report.word, report.reg, report.value, report.limit},
        subject);
  }
  const auto [code, text] = report.reason != RKCHAIN_REASON_NONE ? meaning(report) : meaning(error);
  const std::string what = fmt::format("{}: {}", subject, text);
  if (code != Errc::check_failed) return {code, what};
  return {code, what, report.reason, report.block, Error::no_position};
}

std::string capability_names(std::uint64_t bits) {
  static constexpr std::array names = {"CHAINS",   "ADOPT",   "ORDERED",  "AFTER",   "DEADLINE",
                                       "PRIORITY", "FEED_ON", "SELFTEST", "FAILURES"};
  std::string text;
  for (std::size_t bit = 0; bit < 64; ++bit) {
    if ((bits >> bit & 1) == 0) continue;
    if (!text.empty()) text += ", ";
    text += bit < names.size() ? std::string(names[bit]) : fmt::format("bit {}", bit);
  }
  return text;
}

}  // namespace rkchain

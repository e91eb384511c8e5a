// SPDX-License-Identifier: MIT
#include "rkchain/error.hpp"

namespace rkchain {

std::string_view name(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::out_of_memory:
      return "out_of_memory";
    case Errc::no_device:
      return "no_device";
    case Errc::permission:
      return "permission";
    case Errc::check_failed:
      return "check_failed";
    case Errc::busy:
      return "busy";
    case Errc::queue_full:
      return "queue_full";
    case Errc::timed_out:
      return "timed_out";
    case Errc::hung:
      return "hung";
    case Errc::dma_error:
      return "dma_error";
    case Errc::early_completion:
      return "early_completion";
    case Errc::dropped_dispatch:
      return "dropped_dispatch";
    case Errc::io:
      return "io";
    case Errc::cancelled:
      return "cancelled";
    case Errc::unsupported:
      return "unsupported";
    case Errc::bad_format:
      return "bad_format";
  }
  return "unknown";
}

}  // namespace rkchain

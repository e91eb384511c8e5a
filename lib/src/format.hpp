// SPDX-License-Identifier: MIT
// Refusals of kmod/core, for people.
#pragma once

#include <string>
#include <string_view>

#include "kmod/core/reason.h"
#include "rkchain/error.hpp"

namespace rkchain::detail {

/// One sentence: where (block, word, register by name), what was found, what the limit or
/// expectation is, and the reason's clause.
std::string describe(const rkc_err& err);

/// The sentence as an Error with Errc::check_failed, reason, block and word.
/// @param subject what was refused, e.g. "chain"; the sentence follows after a colon.
Error refusal(const rkc_err& err, std::string_view subject);

}  // namespace rkchain::detail

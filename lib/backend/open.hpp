// SPDX-License-Identifier: MIT
// Which back end a device gets.
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "backend/system.hpp"

namespace rkchain {

/// @param kind automatic: the module, else the stock driver; never the model
/// @throws Error no_device, permission, unsupported with a text that says which of the usual
///   causes it is and who can do what about it; what the back ends throw.
std::shared_ptr<Backend> open_backend(BackendKind kind, const OpenOptions& options,
                                      const std::shared_ptr<const System>& system);

}  // namespace rkchain

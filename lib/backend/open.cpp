// SPDX-License-Identifier: MIT
#include "backend/open.hpp"

#include <fmt/format.h>

#include <optional>

#include "backend/kmod_backend.hpp"
#include "backend/model_backend.hpp"
#include "backend/stock_backend.hpp"

namespace rkchain {
namespace {

/// Is it a reason to look for another way to the NPU?
bool is_absence(const Error& error) {
  return error.code() == Errc::no_device || error.code() == Errc::permission ||
         error.code() == Errc::unsupported;
}

std::shared_ptr<Backend> open_any(const OpenOptions& options,
                                  const std::shared_ptr<const System>& system) {
  std::optional<Error> module;
  try {
    return make_kmod_backend(options, system);
  } catch (const Error& error) {
    if (!is_absence(error)) throw;
    module = error;
  }
  try {
    return make_stock_backend(options, system);
  } catch (const Error& stock) {
    if (!is_absence(stock)) throw;
    // What only needs a permission is nearer than what has to be installed.
    const bool permission = module->code() == Errc::permission || stock.code() == Errc::permission;
    throw Error(permission ? Errc::permission : Errc::no_device,
                fmt::format("no NPU can be used. The module: {}. The stock driver: {}. "
                            "RKCHAIN_BACKEND=model (or --model) runs on the software NPU",
                            module->what(), stock.what()));
  }
}

}  // namespace

std::shared_ptr<Backend> open_backend(BackendKind kind, const OpenOptions& options,
                                      const std::shared_ptr<const System>& system) {
  switch (kind) {
    case BackendKind::model:
      return make_model_backend(options);
    case BackendKind::kmod:
      return make_kmod_backend(options, system);
    case BackendKind::stock:
      return make_stock_backend(options, system);
    case BackendKind::automatic:
      break;
  }
  return open_any(options, system);
}

}  // namespace rkchain

// SPDX-License-Identifier: MIT
// Where librkchain_capture.so lies.
#include <cstdlib>
#include <filesystem>

#include "tools/capture_run.hpp"

namespace rkchain::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "librkchain_capture.so";

std::vector<fs::path> places() {
  std::vector<fs::path> all;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path folder = own.parent_path();
    const fs::path lib = folder.parent_path() / "lib";
    all = {folder, lib / "rkchain", lib / RKCHAIN_TRIPLET / "rkchain"};
  }
  all.emplace_back(RKCHAIN_CAPTURE_LIBDIR);
  return all;
}

}  // namespace

std::string find_capture_library() {
  const char* asked = std::getenv("RKCHAIN_CAPTURE_LIBRARY");
  fs::path found;
  std::string tried;
  std::error_code error;
  if (asked != nullptr && *asked != '\0') {
    found = fs::absolute(asked, error);
    if (!fs::is_regular_file(found, error))
      failed("RKCHAIN_CAPTURE_LIBRARY: {} is no file", found.string());
  } else {
    for (const fs::path& place : places()) {
      tried += (tried.empty() ? "" : ", ") + place.string();
      if (found.empty() && fs::is_regular_file(place / file_name, error)) found = place / file_name;
    }
    if (found.empty())
      failed("{} is not there; RKCHAIN_CAPTURE_LIBRARY can name it (looked in {})", file_name,
             tried);
  }
  if (found.string().find_first_of(" :") != std::string::npos)
    failed("{}: LD_PRELOAD takes no path with blanks or colons", found.string());
  return found.string();
}

}  // namespace rkchain::tool

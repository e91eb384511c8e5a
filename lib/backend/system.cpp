// SPDX-License-Identifier: MIT
#include "backend/system.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xf86drm.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "rkchain/error.hpp"

namespace rkchain {
namespace {

int open_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  return fd >= 0 ? fd : -errno;
}

int control(int fd, unsigned long command, void* argument) {
  for (;;) {
    const int result = ::ioctl(fd, command, argument);
    if (result >= 0) return result;
    if (errno != EINTR) return -errno;
  }
}

int control_drm(int fd, unsigned long command, void* argument) {
  const int result = drmIoctl(fd, command, argument);
  return result >= 0 ? result : -errno;
}

int map_memory(int fd, std::size_t size, std::uint64_t offset, std::byte*& memory) {
  void* const at =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return -errno;
  memory = static_cast<std::byte*>(at);
  return 0;
}

std::vector<System::DrmDevice> list_drm_devices() {
  std::array<drmDevicePtr, 64> found{};
  const int count = drmGetDevices2(0, found.data(), static_cast<int>(found.size()));
  std::vector<System::DrmDevice> devices;
  for (int i = 0; i < count; ++i) {
    const drmDevice& device = *found[static_cast<std::size_t>(i)];
    System::DrmDevice entry;
    for (const int node : {DRM_NODE_RENDER, DRM_NODE_PRIMARY}) {
      if (entry.node.empty() && (device.available_nodes & 1 << node) != 0) {
        entry.node = device.nodes[node];
      }
    }
    if (device.bustype == DRM_BUS_PLATFORM && device.deviceinfo.platform != nullptr &&
        device.deviceinfo.platform->compatible != nullptr) {
      for (char** name = device.deviceinfo.platform->compatible; *name != nullptr; ++name) {
        entry.compatible.emplace_back(*name);
      }
    }
    if (!entry.node.empty()) devices.push_back(std::move(entry));
  }
  if (count > 0) drmFreeDevices(found.data(), count);
  return devices;
}

std::string name_drm_driver(int fd) {
  const std::unique_ptr<drmVersion, void (*)(drmVersionPtr)> version(drmGetVersion(fd),
                                                                     drmFreeVersion);
  if (!version || version->name == nullptr) return "";
  return {version->name, static_cast<std::size_t>(version->name_len)};
}

/// Device nodes belong to groups of this machine, so its own list is enough; and a statically
/// linked program has no other.
std::string group_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return "";
  const std::string id = std::to_string(status.st_gid);
  std::ifstream list("/etc/group");
  for (std::string line; std::getline(list, line);) {
    // name:password:id:members
    const std::size_t name = line.find(':');
    const std::size_t password = name == std::string::npos ? name : line.find(':', name + 1);
    if (password == std::string::npos) continue;
    const std::size_t end = line.find(':', password + 1);
    if (line.substr(password + 1, end - password - 1) == id) return line.substr(0, name);
  }
  return id;
}

std::optional<std::string> variable(const char* name) {
  // Nothing in this library changes the environment.
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::uint64_t monotonic() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

std::optional<std::string> read_small(const std::string& path) {
  constexpr std::size_t kMost = 65536;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMost, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

std::shared_ptr<const System> System::real() {
  static const auto system = std::make_shared<const System>(System{
      open_file,
      [](int fd) { ::close(fd); },
      control,
      control_drm,
      map_memory,
      [](std::byte* memory, std::size_t size) { munmap(memory, size); },
      list_drm_devices,
      name_drm_driver,
      [](const std::string& path) { return access(path.c_str(), F_OK) == 0; },
      group_of,
      variable,
      monotonic,
      read_small,
  });
  return system;
}

std::string error_text(int error) { return std::generic_category().message(-error); }

Mapping::Mapping(std::shared_ptr<const System> system, int fd, std::size_t size,
                 std::uint64_t offset)
    : system_(std::move(system)), size_(size) {
  const int error = system_->map(fd, size, offset, memory_);
  if (error < 0) {
    throw Error(Errc::out_of_memory, fmt::format("{} bytes of device memory cannot be mapped: {}",
                                                 size, error_text(error)));
  }
}

Mapping::~Mapping() {
  if (memory_ != nullptr) system_->unmap(memory_, size_);
}

}  // namespace rkchain

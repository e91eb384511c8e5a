// SPDX-License-Identifier: MIT
// A machine whose nodes, drivers and clock a test decides on.
#pragma once

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/system.hpp"

namespace rkchain::test {

/// Set up first, used after; what is atomic may change in between.
struct FakeSystem {
  std::map<std::string, int> nodes;  ///< descriptor or negative errno; what is missing: ENOENT
  std::map<std::string, std::string> groups;
  std::map<std::string, std::string> variables;
  std::map<int, std::string> drivers;  ///< of DRM descriptors
  std::set<std::string> files;
  std::map<std::string, std::string> contents;  ///< of small files
  std::vector<System::DrmDevice> devices;
  std::function<int(int, unsigned long, void*)> ioctl;
  std::function<int(int, unsigned long, void*)> drm_ioctl;
  std::function<int(int, std::size_t, std::uint64_t, std::byte*&)> map;
  std::atomic<std::uint64_t> clock_ns = 0;       ///< 0: the host's
  std::atomic<std::uint64_t> clock_step_ns = 0;  ///< how far it goes when it is looked at
  std::atomic<int> open_descriptors = 0;
  std::atomic<int> mappings = 0;

  /// It refers to this.
  [[nodiscard]] std::shared_ptr<const System> system() {
    System system;
    system.open = [this](const std::string& path) {
      const auto at = nodes.find(path);
      if (at == nodes.end()) return -ENOENT;
      if (at->second >= 0) ++open_descriptors;
      return at->second;
    };
    system.close = [this](int) { --open_descriptors; };
    system.ioctl = [this](int fd, unsigned long command, void* argument) {
      return ioctl ? ioctl(fd, command, argument) : -ENOTTY;
    };
    system.drm_ioctl = [this](int fd, unsigned long command, void* argument) {
      return drm_ioctl ? drm_ioctl(fd, command, argument) : -ENOTTY;
    };
    system.map = [this](int fd, std::size_t size, std::uint64_t offset, std::byte*& memory) {
      const int error = map ? map(fd, size, offset, memory) : -EINVAL;
      if (error == 0) ++mappings;
      return error;
    };
    system.unmap = [this](std::byte*, std::size_t) { --mappings; };
    system.drm_devices = [this] { return devices; };
    system.drm_driver = [this](int fd) { return drivers.contains(fd) ? drivers.at(fd) : ""; };
    system.exists = [this](const std::string& path) { return files.contains(path); };
    system.group = [this](const std::string& path) {
      return groups.contains(path) ? groups.at(path) : "";
    };
    system.environment = [this](const char* name) -> std::optional<std::string> {
      if (!variables.contains(name)) return std::nullopt;
      return variables.at(name);
    };
    system.now_ns = [this, real = System::real()] {
      const std::uint64_t now = clock_ns;
      if (now != 0) clock_ns += clock_step_ns;
      return now != 0 ? now : real->now_ns();
    };
    system.read = [this](const std::string& path) -> std::optional<std::string> {
      if (!contents.contains(path)) return std::nullopt;
      return contents.at(path);
    };
    return std::make_shared<const System>(std::move(system));
  }
};

}  // namespace rkchain::test

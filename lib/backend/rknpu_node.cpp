// SPDX-License-Identifier: MIT
#include "backend/rknpu_node.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

#include "rkchain/error.hpp"

namespace rkchain {
namespace {

// The driver's layout, wherever this is compiled.
static_assert(sizeof(rknpu_task) == 40 && offsetof(rknpu_task, int_mask) == 12 &&
              offsetof(rknpu_task, int_status) == 20 && offsetof(rknpu_task, regcfg_amount) == 24 &&
              offsetof(rknpu_task, regcmd_addr) == 32);
static_assert(sizeof(rknpu_submit) == 104 && offsetof(rknpu_submit, task_obj_addr) == 24 &&
              offsetof(rknpu_submit, task_base_addr) == 40 &&
              offsetof(rknpu_submit, hw_elapse_time) == 48 &&
              offsetof(rknpu_submit, core_mask) == 56 && offsetof(rknpu_submit, fence_fd) == 60 &&
              offsetof(rknpu_submit, subcore_task) == 64);
static_assert(sizeof(rknpu_mem_create) == 48 && offsetof(rknpu_mem_create, obj_addr) == 16 &&
              offsetof(rknpu_mem_create, dma_addr) == 24);
static_assert(sizeof(rknpu_mem_map) == 16 && sizeof(rknpu_mem_destroy) == 16 &&
              sizeof(rknpu_mem_sync) == 32 && sizeof(rknpu_action) == 8);

constexpr std::size_t kPage = 4096;
constexpr std::string_view kChip = "rockchip,rk3588-rknpu";
constexpr const char* kRocket = "/sys/bus/platform/drivers/rocket";

unsigned long create_command(std::size_t size) {
  return _IOC(_IOC_READ | _IOC_WRITE, 'd', 0x40 + RKNPU_MEM_CREATE, size);
}

Error not_permitted(const System& system, const std::string& path) {
  const std::string group = system.group(path);
  return {Errc::permission,
          group.empty() || group == "root"
              ? fmt::format("{} is the NPU's node and only root may open it", path)
              : fmt::format("{} is the NPU's node and may not be opened: its group is \"{}\", so "
                            "that \"sudo usermod -aG {} $USER\" and a new login give access",
                            path, group, group)};
}

Error rocket() {
  return {Errc::no_device,
          "the NPU belongs to the mainline driver \"rocket\", which cannot run these programs: "
          "rkchain needs the vendor's driver \"rknpu\" (a vendor kernel, or its DKMS port with a "
          "device tree that names it)"};
}

Error no_node() {
  return {Errc::no_device,
          "there is no node of the driver \"rknpu\": a vendor kernel for the RK3588 has it built "
          "in, a mainline kernel needs its DKMS port and a device tree that names it"};
}

Error wrong_chip(const System::DrmDevice& device) {
  return {Errc::no_device, fmt::format("{} is the NPU of another chip, {}: rkchain knows {}",
                                       device.node, fmt::join(device.compatible, ", "), kChip)};
}

bool has(const System::DrmDevice& device, std::string_view name) {
  return std::any_of(device.compatible.begin(), device.compatible.end(),
                     [&](const std::string& entry) { return entry == name; });
}

bool may_be_npu(const System::DrmDevice& device) {
  return device.compatible.empty() ||
         std::any_of(
             device.compatible.begin(), device.compatible.end(),
             [](const std::string& entry) { return entry.find("-rknpu") != std::string::npos; });
}

}  // namespace

std::shared_ptr<const RknpuNode> RknpuNode::find(const std::shared_ptr<const System>& system) {
  const auto forced = system->environment("RKCHAIN_DRM_NODE");
  std::vector<System::DrmDevice> devices = system->drm_devices();
  if (forced) {
    std::erase_if(devices, [&](const System::DrmDevice& each) { return each.node != *forced; });
    if (devices.empty()) devices.push_back({*forced, {}});
  }

  std::optional<Error> problem;
  for (const System::DrmDevice& device : devices) {
    Fd fd(system, system->open(device.node));
    if (fd.get() == -EACCES || fd.get() == -EPERM) {
      if (forced || may_be_npu(device)) problem = not_permitted(*system, device.node);
      continue;
    }
    if (fd.get() < 0) {
      if (forced) {
        throw Error(Errc::no_device,
                    fmt::format("RKCHAIN_DRM_NODE is {}: {}", device.node, error_text(fd.get())));
      }
      continue;
    }
    const std::string driver = system->drm_driver(fd.get());
    if (driver == "rocket") {
      problem = rocket();
    } else if (driver == "rknpu" && !device.compatible.empty() && !has(device, kChip)) {
      problem = wrong_chip(device);
    } else if (driver == "rknpu") {
      return std::make_shared<const RknpuNode>(system, device.node, std::move(fd));
    } else if (forced) {
      throw Error(Errc::no_device,
                  fmt::format("RKCHAIN_DRM_NODE is {}, which belongs to {} and not to \"rknpu\"",
                              device.node, driver.empty() ? "no DRM driver" : driver));
    }
  }
  if (problem) throw Error(*problem);
  if (system->exists(kRocket)) throw rocket();
  throw no_node();
}

RknpuNode::RknpuNode(std::shared_ptr<const System> system, std::string path, Fd fd)
    : system_(std::move(system)), path_(std::move(path)), fd_(std::move(fd)) {
  probe();
}

/// Which MEM_CREATE is it?  The version does not say; what it takes does.
void RknpuNode::probe() {
  int error = 0;
  for (const std::size_t size : {sizeof(rknpu_mem_create), std::size_t{RKNPU_MEM_CREATE_SIZE_SRAM},
                                 std::size_t{RKNPU_MEM_CREATE_SIZE_OLD}}) {
    create_command_ = create_command(size);
    rknpu_mem_create memory{};
    memory.flags = RKNPU_MEM_NON_CONTIGUOUS | RKNPU_MEM_CACHEABLE | RKNPU_MEM_IOVA_ALIGNMENT;
    memory.size = kPage;
    error = create(memory);
    if (error == 0) {
      rknpu_mem_destroy gone{};
      gone.handle = memory.handle;
      gone.obj_addr = memory.obj_addr;
      destroy(gone);
      return;
    }
    if (error != -EINVAL && error != -ENOTTY) break;
  }
  throw Error(Errc::no_device, fmt::format("the driver behind {} makes no buffer in any way that "
                                           "is known: {}",
                                           path_, error_text(error)));
}

std::uint32_t RknpuNode::driver_version() const {
  rknpu_action action{RKNPU_GET_DRV_VERSION, 0};
  const int error = call(RKNPU_IOCTL_ACTION, &action);
  if (error < 0) {
    throw Error(Errc::no_device, fmt::format("the driver behind {} does not tell its version: {}",
                                             path_, error_text(error)));
  }
  return action.value;
}

std::int64_t RknpuNode::iommu_domain() const {
  rknpu_action action{RKNPU_GET_IOMMU_DOMAIN, 0};
  const int error = call(RKNPU_IOCTL_ACTION, &action);
  if (error == -EINVAL) return 0;
  return error < 0 ? error : std::int64_t{action.value};
}

int RknpuNode::create(rknpu_mem_create& memory) const { return call(create_command_, &memory); }

std::string rknpu_version_text(std::uint32_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

RknpuBuffer::RknpuBuffer(std::shared_ptr<const RknpuNode> node, std::size_t size,
                         std::uint32_t flags)
    : node_(std::move(node)), size_(size) {
  rknpu_mem_create memory{};
  memory.flags = flags;
  memory.size = (size + kPage - 1) / kPage * kPage;
  const std::uint64_t whole = memory.size;
  const int error = node_->create(memory);
  if (error < 0) {
    throw Error(
        error == -ENODEV ? Errc::no_device : Errc::out_of_memory,
        fmt::format("the rknpu driver makes no buffer of {} bytes: {}", whole, error_text(error)));
  }
  handle_ = memory.handle;
  object_ = memory.obj_addr;
  iova_ = static_cast<std::uint32_t>(memory.dma_addr);
  const auto give_back = [this] {
    rknpu_mem_destroy gone{};
    gone.handle = handle_;
    gone.obj_addr = object_;
    node_->destroy(gone);
  };
  if (memory.dma_addr % kPage != 0 || memory.dma_addr + whole > std::uint64_t{1} << 32) {
    give_back();
    throw Error(Errc::out_of_memory,
                fmt::format("the rknpu driver put a buffer of {} bytes at {:#x}; the NPU reaches "
                            "whole pages below 4 GiB",
                            whole, memory.dma_addr));
  }
  rknpu_mem_map place{};
  place.handle = handle_;
  const int unmapped = node_->map(place);
  if (unmapped < 0) {
    give_back();
    throw Error(Errc::out_of_memory, fmt::format("the rknpu driver maps no buffer of {} bytes: {}",
                                                 whole, error_text(unmapped)));
  }
  try {
    mapping_.emplace(node_->system(), node_->fd(), whole, place.offset);
  } catch (const Error&) {
    give_back();
    throw;
  }
}

RknpuBuffer::~RknpuBuffer() {
  mapping_.reset();
  rknpu_mem_destroy gone{};
  gone.handle = handle_;
  gone.obj_addr = object_;
  node_->destroy(gone);
}

void RknpuBuffer::sync(std::size_t offset, std::size_t size, Direction direction) const {
  rknpu_mem_sync range{};
  range.flags =
      direction == Direction::to_device ? RKNPU_MEM_SYNC_TO_DEVICE : RKNPU_MEM_SYNC_FROM_DEVICE;
  range.obj_addr = object_;
  range.offset = offset;
  range.size = size;
  if (size == 0) return;
  const int error = node_->sync(range);
  if (error < 0) {
    throw Error(
        error == -ENODEV ? Errc::no_device : Errc::io,
        fmt::format("the rknpu driver does not sync {} bytes: {}", size, error_text(error)));
  }
}

}  // namespace rkchain

// SPDX-License-Identifier: MIT
// Which back end a machine gives, and what the user is told when it gives none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/kmod_device.hpp"
#include "backend/open.hpp"
#include "backend/rknpu_node.hpp"
#include "backend_rig.hpp"
#include "fake_module.hpp"
#include "fake_rknpu.hpp"

namespace rkchain::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kNpu = "rockchip,rk3588-rknpu";

class Machine : public testing::Test, public FakeSystem {
 protected:
  Error refused(BackendKind kind) {
    return error_of([&] { open_backend(kind, {}, system()); });
  }
  std::shared_ptr<Backend> open(BackendKind kind = BackendKind::automatic) {
    return open_backend(kind, {}, system());
  }

  /// Both nodes at once: the module's calls are no DRM calls, but both map.
  void add_both() {
    module_.emplace(*this);
    const auto of_module = map;
    driver_.emplace(*this);
    map = [of_module, of_driver = map](int fd, std::size_t size, std::uint64_t offset,
                                       std::byte*& memory) {
      return (fd >= FakeModule::kFirstBuffer ? of_module : of_driver)(fd, size, offset, memory);
    };
  }

  std::optional<FakeModule> module_;
  std::optional<FakeRknpu> driver_;
};

// ---- the module ----

TEST_F(Machine, NoModule) {
  const Error error = refused(BackendKind::kmod);
  EXPECT_EQ(error.code(), Errc::no_device);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("no /dev/rkchain"), HasSubstr("modprobe rkchain")));
}

TEST_F(Machine, NoPermissionForTheModule) {
  nodes["/dev/rkchain"] = -EACCES;
  groups["/dev/rkchain"] = "render";
  const Error error = refused(BackendKind::kmod);
  EXPECT_EQ(error.code(), Errc::permission);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("/dev/rkchain"), HasSubstr("group is \"render\""),
                                  HasSubstr("usermod -aG render")));
  groups["/dev/rkchain"] = "root";
  EXPECT_THAT(refused(BackendKind::kmod).what(),
              AllOf(HasSubstr("only root may open /dev/rkchain"), Not(HasSubstr("usermod"))));
}

TEST_F(Machine, AModuleThatCannotBeOpened) {
  nodes["/dev/rkchain"] = -EMFILE;
  EXPECT_EQ(refused(BackendKind::kmod).code(), Errc::no_device);
  EXPECT_THAT(refused(BackendKind::kmod).what(), HasSubstr("Too many open files"));
}

TEST_F(Machine, NotTheModule) {
  nodes["/dev/rkchain"] = 5;
  EXPECT_EQ(refused(BackendKind::kmod).code(), Errc::no_device);
  EXPECT_THAT(refused(BackendKind::kmod).what(), HasSubstr("does not answer"));
}

TEST_F(Machine, AModuleWithoutAProvider) {
  module_.emplace(*this);
  module_->query.provider = 0;
  module_->query.capabilities = 0;
  const Error error = refused(BackendKind::kmod);
  EXPECT_EQ(error.code(), Errc::no_device);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rkchain provide"), HasSubstr("root")));
}

TEST_F(Machine, AModuleWithoutChains) {
  module_.emplace(*this);
  module_->query.capabilities = RKCHAIN_CAP_ADOPT;
  const Error error = refused(BackendKind::kmod);
  EXPECT_EQ(error.code(), Errc::unsupported);
  EXPECT_THAT(error.what(), HasSubstr("lacks the capability CHAINS"));
}

TEST_F(Machine, AnotherNodeOfTheModule) {
  module_.emplace(*this);
  nodes.erase("/dev/rkchain");
  nodes["/tmp/other"] = FakeModule::kFd;
  variables["RKCHAIN_DEVICE"] = "/tmp/other";
  EXPECT_EQ(open(BackendKind::kmod)->info().backend, BackendKind::kmod);
}

TEST_F(Machine, Provide) {
  module_.emplace(*this);
  const KmodDevice device(system());
  device.provide(17);
  EXPECT_EQ(module_->provided, 17);
  device.release();
  EXPECT_EQ(module_->provided, -1);
  module_->answers[RKCHAIN_NR_PROVIDE] = {-EPERM, {RKCHAIN_REASON_PRIVILEGE, 0, 0, 0, 0, 0}};
  EXPECT_EQ(error_of([&] { device.provide(1); }).code(), Errc::permission);
}

// ---- the stock driver ----

TEST_F(Machine, NoDriver) {
  const Error error = refused(BackendKind::stock);
  EXPECT_EQ(error.code(), Errc::no_device);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("no node of the driver \"rknpu\""),
                                  HasSubstr("vendor kernel"), HasSubstr("DKMS")));
}

TEST_F(Machine, OnlyAGpu) {
  devices = {{"/dev/dri/renderD128", {"rockchip,rk3588-mali", "arm,mali-valhall-csf"}}};
  nodes["/dev/dri/renderD128"] = 9;
  drivers[9] = "panthor";
  EXPECT_THAT(refused(BackendKind::stock).what(), HasSubstr("no node of the driver \"rknpu\""));
  // Whether it may be opened or not.
  nodes["/dev/dri/renderD128"] = -EACCES;
  EXPECT_EQ(refused(BackendKind::stock).code(), Errc::no_device);
  EXPECT_EQ(open_descriptors, 0);
}

TEST_F(Machine, NoPermissionForTheDriver) {
  for (const std::vector<std::string>& compatible : {std::vector<std::string>{kNpu}, {}}) {
    devices = {{"/dev/dri/renderD129", compatible}};
    nodes["/dev/dri/renderD129"] = -EACCES;
    groups["/dev/dri/renderD129"] = "render";
    const Error error = refused(BackendKind::stock);
    EXPECT_EQ(error.code(), Errc::permission);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("/dev/dri/renderD129"),
                                    HasSubstr("group is \"render\""), HasSubstr("usermod")));
    groups.clear();
    EXPECT_THAT(refused(BackendKind::stock).what(), HasSubstr("only root"));
  }
}

TEST_F(Machine, TheMainlineDriver) {
  files.insert("/sys/bus/platform/drivers/rocket");
  const Error error = refused(BackendKind::stock);
  EXPECT_EQ(error.code(), Errc::no_device);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("\"rocket\""), HasSubstr("rknpu")));
  files.clear();
  devices = {{"/dev/dri/renderD129", {"rockchip,rk3588-rknn-core"}}};
  nodes["/dev/dri/renderD129"] = 9;
  drivers[9] = "rocket";
  EXPECT_THAT(refused(BackendKind::stock).what(), HasSubstr("\"rocket\""));
}

TEST_F(Machine, AnotherChip) {
  FakeRknpu driver(*this);
  devices[0].compatible = {"rockchip,rk3568-rknpu"};
  const Error error = refused(BackendKind::stock);
  EXPECT_EQ(error.code(), Errc::no_device);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rk3568"), HasSubstr(kNpu)));
  // Without a device tree it is the driver's name that counts.
  devices[0].compatible.clear();
  EXPECT_EQ(open(BackendKind::stock)->info().driver, "rknpu 0.9.8");
}

TEST_F(Machine, OneNodeByName) {
  FakeRknpu driver(*this);
  nodes["/dev/dri/card1"] = FakeRknpu::kFd;
  nodes["/dev/dri/card0"] = 9;
  drivers[9] = "panthor";
  variables["RKCHAIN_DRM_NODE"] = "/dev/dri/card1";
  EXPECT_EQ(RknpuNode::find(system())->path(), "/dev/dri/card1");
  variables["RKCHAIN_DRM_NODE"] = "/dev/dri/card0";
  EXPECT_THAT(refused(BackendKind::stock).what(),
              AllOf(HasSubstr("RKCHAIN_DRM_NODE is /dev/dri/card0"), HasSubstr("panthor")));
  variables["RKCHAIN_DRM_NODE"] = "/dev/dri/card7";
  EXPECT_THAT(refused(BackendKind::stock).what(), HasSubstr("No such file"));
}

// ---- whichever there is ----

TEST_F(Machine, TheModuleComesFirst) {
  add_both();
  EXPECT_EQ(open()->info().backend, BackendKind::kmod);
  EXPECT_EQ(open(BackendKind::stock)->info().backend, BackendKind::stock);
}

TEST_F(Machine, WithoutTheModuleTheStockDriverWorks) {
  FakeRknpu driver(*this);
  EXPECT_EQ(open()->info().backend, BackendKind::stock);
  nodes["/dev/rkchain"] = -EACCES;
  EXPECT_EQ(open()->info().backend, BackendKind::stock);
}

TEST_F(Machine, AModuleThatIsNoUseLeavesTheStockDriver) {
  add_both();
  module_->query.provider = 0;
  EXPECT_EQ(open()->info().backend, BackendKind::stock);
  module_->query.provider = 1;
  module_->query.capabilities = 0;
  EXPECT_EQ(open()->info().backend, BackendKind::stock);
}

TEST_F(Machine, NothingAtAll) {
  const Error error = refused(BackendKind::automatic);
  EXPECT_EQ(error.code(), Errc::no_device);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("modprobe rkchain"), HasSubstr("DKMS"),
                                  HasSubstr("RKCHAIN_BACKEND=model"), HasSubstr("--model")));
}

TEST_F(Machine, APermissionIsWhatIsMissing) {
  nodes["/dev/rkchain"] = -EACCES;
  groups["/dev/rkchain"] = "render";
  const Error error = refused(BackendKind::automatic);
  EXPECT_EQ(error.code(), Errc::permission);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("usermod -aG render"), HasSubstr("rknpu")));
}

TEST_F(Machine, WhatIsWrongWithTheOptionsIsNoReasonToGoOn) {
  add_both();
  OpenOptions options;
  options.queue_depth = 0;
  EXPECT_THAT(error_of([&] { open_backend(BackendKind::automatic, options, system()); }).code(),
              Errc::invalid_argument);
}

}  // namespace
}  // namespace rkchain::test

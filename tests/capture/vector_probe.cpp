// SPDX-License-Identifier: MIT
// Runs a captured program (tests/vectors) as its first owner did: with calls to the stock driver.
//   capture_vector_probe NODE VECTOR
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "capture/stock_client.hpp"

namespace {

using rkchain::test::ClientBuffer;
using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 2 <= hex.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// Addresses are where this driver put the buffers.
std::uint64_t rebased(std::uint64_t word, const ClientBuffer& a, const ClientBuffer& b,
                      const ClientBuffer& c) {
  const std::uint64_t reg = word & 0xffff;
  const ClientBuffer* to = reg == 0x1070 ? &a : reg == 0x1110 ? &b : reg == 0x4020 ? &c : nullptr;
  if (to == nullptr) return word;
  return (word & 0xffff00000000ffff) | to->iova << 16;
}

int fail(const char* what) {
  std::perror(what);
  return 1;
}

int run(int fd, const nlohmann::json& vector) {
  const Bytes a_bytes = bytes_of(vector.at("A")), b_bytes = bytes_of(vector.at("B"));
  const Bytes want = bytes_of(vector.at("C"));
  ClientBuffer tasks, program, a, b, c;
  if (!tasks.create(fd, 4096, rkchain::test::kTasks)) return fail("tasks");
  for (ClientBuffer* each : {&program, &a, &b, &c})
    if (!each->create(fd, 8192, rkchain::test::kData)) return fail("MEM_CREATE");
  std::memcpy(a.memory, a_bytes.data(), a_bytes.size());
  std::memcpy(b.memory, b_bytes.data(), b_bytes.size());
  std::size_t at = 0;
  for (const std::string text : vector.at("regcmd")) {
    const std::uint64_t word = rebased(std::stoull(text, nullptr, 16), a, b, c);
    std::memcpy(program.memory + at, &word, sizeof(word));
    at += sizeof(word);
  }
  rknpu_task task{};
  task.enable_mask = 0xd;
  task.int_mask = RKNPU_INT_DPU;
  task.int_clear = 0x1ffff;
  task.regcfg_amount = vector.at("task").at("regcfg_amount");
  task.regcmd_addr = program.iova;
  std::memcpy(tasks.memory, &task, sizeof(task));
  for (const ClientBuffer* each : {&tasks, &program, &a, &b, &c})
    if (each->sync(fd, RKNPU_MEM_SYNC_TO_DEVICE) != 0) return fail("MEM_SYNC");
  rknpu_submit submit = rkchain::test::make_submit(tasks.object, 0, 1);
  if (ioctl(fd, RKNPU_IOCTL_SUBMIT, &submit) != 0) return fail("SUBMIT");
  if (c.sync(fd, RKNPU_MEM_SYNC_FROM_DEVICE) != 0) return fail("MEM_SYNC");
  std::size_t equal = 0;
  for (std::size_t i = 0; i < want.size(); i += 4)
    equal += std::memcmp(c.memory + i, want.data() + i, 4) == 0 ? 1 : 0;
  std::printf("%zu/%zu outputs\n", equal, want.size() / 4);
  bool gone = true;
  for (ClientBuffer* each : {&tasks, &program, &a, &b, &c}) gone = each->destroy(fd) && gone;
  return gone && 4 * equal == want.size() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int fd = open(argv[1], O_RDWR | O_CLOEXEC);
  if (fd < 0) return fail(argv[1]);
  std::ifstream file(argv[2]);
  const int code = run(fd, nlohmann::json::parse(file));
  close(fd);
  return code;
}

// SPDX-License-Identifier: MIT
#include <bit>
#include <cstring>

#include "capture/shim/buffers.hpp"
#include "capture/shim/journal.hpp"
#include "capture/shim/stock.hpp"

namespace rkchain::capture::shim {
namespace {

constexpr std::uint32_t tail_words = 4;
constexpr std::uint32_t npu_cores = 3;

constinit Room words_room;

/// A core's part of a submit.
struct Part {
  std::uint32_t core = any_core;
  rknpu_subcore_task tasks{};
};

struct Parts {
  Part list[npu_cores];
  std::uint32_t count = 0;
};

/// As the driver looks them up: three cores have other places than one or two.
Parts parts_of(const rknpu_submit& argument) noexcept {
  const std::uint32_t mask = argument.core_mask & ((1U << npu_cores) - 1);
  const std::uint32_t shift = mask == 7 ? 2 : 0;
  Parts parts;
  std::uint64_t tasks = 0;
  for (std::uint32_t core = 0; core < npu_cores; core++) {
    if ((mask >> core & 1) == 0) continue;
    parts.list[parts.count++] = {core, argument.subcore_task[core + shift]};
    tasks += argument.subcore_task[core + shift].task_number;
  }
  if (mask == 0) {
    parts.list[parts.count++] = {any_core, argument.subcore_task[0]};
    tasks = argument.subcore_task[0].task_number;
  }
  if (tasks != 0) return parts;
  const std::uint32_t core =
      std::popcount(mask) == 1 ? static_cast<std::uint32_t>(std::countr_zero(mask)) : any_core;
  parts.list[0] = {core, {argument.task_start, argument.task_number}};
  parts.count = 1;
  return parts;
}

/// @return bytes of the program that can be read, at @p memory
std::size_t find_program(std::uint64_t address, std::uint64_t words, const char*& memory) noexcept {
  Held* held = buffer_at(address);
  memory = held != nullptr ? memory_of(*held) : nullptr;
  if (memory == nullptr) return 0;
  const std::uint64_t offset = address - held->record.iova;
  memory += offset;
  std::uint64_t most = (held->record.size - offset) / 8;
  most = most < (max_payload - sizeof(Task)) / 8 ? most : (max_payload - sizeof(Task)) / 8;
  return static_cast<std::size_t>(words < most ? words : most) * 8;
}

void record_task(std::uint64_t submit, std::uint32_t index, std::uint32_t core,
                 const char* at) noexcept {
  Task fixed{};
  fixed.submit = submit;
  fixed.index = index;
  fixed.core = core;
  std::memcpy(&fixed.task, at, sizeof(fixed.task));
  const std::uint64_t address = fixed.task.regcmd_addr;
  const char* memory = nullptr;
  std::size_t bytes =
      find_program(address, std::uint64_t{fixed.task.regcfg_amount} + tail_words, memory);
  // Its check must be of what is written, whatever the program does to it meanwhile.
  char* copy = bytes != 0 ? words_room.get(bytes) : nullptr;
  if (copy == nullptr) {
    bytes = 0;
    unseen(Missing::program, submit, address, "no known buffer has this program");
  } else {
    std::memcpy(copy, memory, bytes);
  }
  fixed.words = static_cast<std::uint32_t>(bytes / 8);
  record(Kind::task, fixed, copy, bytes);
}

}  // namespace

void record_tasks(std::uint64_t submit, const rknpu_submit& argument) noexcept {
  Held* array = buffer_of_object(argument.task_obj_addr);
  const char* memory = array != nullptr ? memory_of(*array) : nullptr;
  if (memory == nullptr) {
    unseen(Missing::task_array, submit, argument.task_obj_addr,
           "no known buffer has the tasks of this submit");
    return;
  }
  const std::uint64_t room = array->record.size / sizeof(rknpu_task);
  const Parts parts = parts_of(argument);
  for (std::uint32_t i = 0; i < parts.count; i++) {
    const Part& part = parts.list[i];
    for (std::uint64_t task = 0; task < part.tasks.task_number; task++) {
      const std::uint64_t index = part.tasks.task_start + task;
      if (index >= room) {
        unseen(Missing::task_array, submit, index,
               "the buffer with the tasks ends before this one");
        break;
      }
      record_task(submit, static_cast<std::uint32_t>(index), part.core,
                  memory + index * sizeof(rknpu_task));
    }
  }
}

}  // namespace rkchain::capture::shim

// SPDX-License-Identifier: MIT
#include "capture/npu_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>

#include "backend/model_i8.hpp"
#include "kmod/core/chain.h"

namespace rkchain::capture {

namespace {

constexpr std::size_t most_tasks = 4095;  ///< of one start; the driver makes several of more

std::string_view purpose(npu_access access) {
  constexpr std::string_view names[] = {"program fetch", "feature read", "weight read",
                                        "output write"};
  return access < NPU_ACCESSES ? names[access] : "access";
}

}  // namespace

Npu::Npu(std::uint64_t blocks) : most_blocks_(blocks) {
  ops_.map = map;
  ops_.dot_i8 = model_dot_i8;
  ops_.ctx = this;
  constexpr std::size_t alignment = 64;
  const std::size_t size = (npu_core_size() + alignment - 1) / alignment * alignment;
  for (std::uint32_t i = 0; i < npu_cores; i++) {
    cores_[i].reset(static_cast<npu_core*>(std::aligned_alloc(alignment, size)));
    if (!cores_[i]) throw std::bad_alloc();
    npu_init(cores_[i].get(), i, &ops_);
  }
}

/// Called by C code: no exception may leave it.
void* Npu::map(void* context, npu_access access, u64 iova, u64 len) noexcept {
  auto& npu = *static_cast<Npu*>(context);
  try {
    return access == NPU_FETCH ? npu.fetch(iova, len) : npu.piece(access, iova, len);
  } catch (const TooLarge& error) {
    npu.too_large_ = error;
  } catch (const std::exception& error) {
    npu.refused_ = error.what();
  }
  return nullptr;
}

void* Npu::fetch(std::uint64_t iova, std::uint64_t len) {
  // A program of odd length is fetched with one word more, which does not matter.
  const std::size_t index = result_.programs.size();
  const bool odd = index < tasks_->size() && (*tasks_)[index].regcfg_amount % 2 != 0;
  const std::uint64_t needed = odd && len > 8 ? len - 8 : len;
  if (const auto missing = memory_->view.unknown(iova, needed)) {
    if (refused_.empty())
      refused_ = fmt::format("program fetch of {} bytes at {:#010x}: {} at {:#010x}", len, iova,
                             memory_->held(*missing, 1) ? "nothing was captured of the buffer"
                                                        : "no captured program and no buffer",
                             *missing);
    return nullptr;
  }
  program_ = std::make_unique<Piece>(memory_->outputs->budget(), len);
  memory_->view.read(iova, program_->bytes);
  Fetched fetched{static_cast<std::uint32_t>(iova), std::vector<std::uint64_t>(len / 8)};
  std::memcpy(fetched.words.data(), program_->bytes.data(), len);
  result_.programs.push_back(std::move(fetched));
  return program_->bytes.data();
}

void* Npu::piece(npu_access access, std::uint64_t iova, std::uint64_t len) {
  const auto refuse = [&](const std::string& why) {
    if (refused_.empty())
      refused_ = fmt::format("{} of {} bytes at {:#010x}: {}", purpose(access), len, iova, why);
    return nullptr;
  };
  if (!memory_->held(iova, len))
    return refuse(memory_->held(iova, 1) ? "the buffer there is smaller" : "no buffer there");
  if (access != NPU_OUTPUT)
    if (const auto missing = memory_->view.unknown(iova, len))
      return refuse(fmt::format("memory at {:#010x} was not captured", *missing));
  auto& piece = pieces_[{access, iova, len}];
  if (!piece) {
    piece = std::make_unique<Piece>(memory_->outputs->budget(), len);
    memory_->view.read(iova, piece->bytes);
  }
  return piece->bytes.data();
}

/// What a block has written is in memory when it has ended.
void Npu::write_back() {
  for (const auto& [key, piece] : pieces_)
    if (std::get<0>(key) == NPU_OUTPUT) memory_->outputs->put(std::get<1>(key), piece->bytes);
  pieces_.clear();
}

std::string Npu::judge(npu_core* core, std::uint32_t events) const {
  const struct npu_fault& fault = *npu_fault(core);
  if (fault.code == NPU_FAULT_DMA_READ || fault.code == NPU_FAULT_DMA_WRITE) return refused_;
  if (fault.code != NPU_FAULT_NONE)
    return fmt::format(
        "the software NPU stopped in block {} at word {}, register {:#06x}, value {:#x}: {}",
        fault.block, fault.word, fault.reg, fault.value, npu_fault_text(fault.code));
  if ((events & NPU_EV_IRQ) == 0)
    return "the software NPU did not signal completion (no interrupt that the mask lets through)";
  return "";
}

std::string Npu::run_batch(const NpuWork& work, std::size_t first, std::size_t count) {
  npu_core* core = cores_[work.core].get();
  npu_write(core, NPU_PC_INT_CLEAR, 0x1ffff);
  const NpuTask& task = work.tasks[first];
  const std::uint32_t amount = rkc_pc_amount(task.regcfg_amount);
  if (task.regcfg_amount > 2 * 0xffff || amount > 0xffff)
    return fmt::format("task {} has {} words, more than one task fetches", first,
                       task.regcfg_amount);
  const npu_job job{task.regcmd, amount, work.tasks[first + count - 1].int_mask,
                    static_cast<u32>(count), work.pingpong ? 1U : 0U};
  npu_start(core, &job);
  std::uint32_t events = 0;
  std::string trouble;
  constexpr std::uint32_t ended = NPU_EV_IRQ | NPU_EV_IDLE | NPU_EV_STUCK;
  while ((events & ended) == 0 && trouble.empty()) {
    events = npu_step(core);
    if (!too_large_) write_back();
    if ((events & NPU_EV_BLOCK) != 0 && ++result_.blocks > most_blocks_)
      trouble = fmt::format("more than the limit of {} blocks", most_blocks_);
  }
  if (trouble.empty()) trouble = judge(core, events);
  if ((events & NPU_EV_IRQ) != 0) result_.interrupts++;
  if (npu_busy(core) != 0 || !trouble.empty()) npu_reset(core);
  return trouble;
}

NpuResult Npu::run(const NpuWork& work, NpuMemory& memory) {
  memory_ = &memory;
  tasks_ = &work.tasks;
  result_ = {};
  refused_.clear();
  too_large_.reset();
  for (std::size_t first = 0; first < work.tasks.size() && result_.trouble.empty();
       first += most_tasks)
    result_.trouble = run_batch(work, first, std::min(most_tasks, work.tasks.size() - first));
  pieces_.clear();
  program_.reset();
  memory_ = nullptr;
  if (too_large_) throw TooLarge(*too_large_);
  return std::move(result_);
}

}  // namespace rkchain::capture

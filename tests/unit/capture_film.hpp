// SPDX-License-Identifier: MIT
// Captures made up in tests: what a program would have done, record by record.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capture/reader.hpp"
#include "capture/record.hpp"
#include "kmod/core/chain.h"

namespace rkchain::capture_test {

using Bytes = std::vector<std::byte>;
using Words = std::vector<std::uint64_t>;

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class Film {
 public:
  static constexpr std::uint32_t uncached = 0x403;
  static constexpr std::uint32_t cached = uncached | RKNPU_MEM_CACHEABLE;

  std::uint32_t pid = 100;
  std::uint32_t tid = 100;

  template <typename T>
  void add(capture::Kind kind, const T& fixed, std::span<const std::byte> rest = {}) {
    Frame frame;
    frame.header.magic = capture::record_magic;
    frame.header.kind = static_cast<std::uint16_t>(kind);
    frame.header.pid = pid;
    frame.header.tid = tid;
    frame.header.time_ns = 1000 * (frames_.size() + 1);
    frame.payload.resize(sizeof(T));
    std::memcpy(frame.payload.data(), &fixed, sizeof(T));
    frame.payload.insert(frame.payload.end(), rest.begin(), rest.end());
    frame.header.bytes = static_cast<std::uint32_t>(frame.payload.size());
    frames_.push_back(std::move(frame));
  }

  void process(capture::Depth depth = capture::Depth::everything, std::uint32_t parent = 1,
               capture::Begin begin = capture::Begin::started) {
    add(capture::Kind::process, capture::Process{parent, static_cast<std::uint32_t>(depth),
                                                 static_cast<std::uint32_t>(begin), 0});
  }
  void buffer(std::uint64_t iova, std::uint64_t size, std::uint32_t handle,
              std::uint32_t flags = uncached) {
    add(capture::Kind::buffer, capture::Buffer{3, handle, flags, 0, size, obj(handle), iova});
  }
  static std::uint64_t obj(std::uint32_t handle) { return 0xffff000000000000 + handle; }
  void destroyed(std::uint32_t handle) {
    add(capture::Kind::destroyed, capture::Destroyed{3, handle});
  }
  void memory(capture::When when, std::uint64_t submit, std::uint64_t iova, std::uint64_t offset,
              std::span<const std::byte> bytes, bool stale = false) {
    add(capture::Kind::memory,
        capture::Memory{submit, static_cast<std::uint32_t>(when), stale ? 1U : 0U, iova, offset,
                        static_cast<std::uint32_t>(bytes.size()), 0},
        bytes);
  }
  void before(std::uint64_t submit, std::uint64_t iova, std::span<const std::byte> bytes) {
    memory(capture::When::before, submit, iova, 0, bytes);
  }
  void after(std::uint64_t submit, std::uint64_t iova, std::span<const std::byte> bytes,
             bool stale = false) {
    memory(capture::When::after, submit, iova, 0, bytes, stale);
  }
  void sync(std::uint32_t handle, std::uint32_t flags, std::uint64_t size) {
    add(capture::Kind::sync, capture::Sync{3, flags, obj(handle), 0, size});
  }

  void submit(std::uint64_t id, std::uint32_t core_mask, std::uint32_t tasks,
              std::uint32_t flags = RKNPU_JOB_PC) {
    capture::Submit submit{};
    submit.id = id;
    submit.fd = 3;
    submit.argument_bytes = sizeof(submit.argument);
    submit.argument.flags = flags;
    submit.argument.task_number = tasks;
    submit.argument.core_mask = core_mask;
    submit.argument.fence_fd = -1;
    for (auto& range : submit.argument.subcore_task) range = {0, tasks};
    add(capture::Kind::submit, submit);
  }
  void task(std::uint64_t submit, std::uint32_t index, std::uint32_t core, std::uint64_t iova,
            const Words& words, std::uint32_t body = RKC_BODY_WORDS) {
    capture::Task task{};
    task.submit = submit;
    task.index = index;
    task.core = core;
    task.task.int_mask = 0x300;
    task.task.regcfg_amount = body;
    task.task.regcmd_addr = iova;
    task.words = static_cast<std::uint32_t>(words.size());
    add(capture::Kind::task, task, std::as_bytes(std::span(words)));
  }
  void submitted(std::uint64_t id, std::int32_t result = 0) {
    add(capture::Kind::submitted, capture::Submitted{id, result, 0, 0, 1000});
  }

  void play(const std::function<void(const capture::Record&)>& visit) const {
    std::uint64_t where = 0;
    for (const Frame& frame : frames_) visit({frame.header, frame.payload, ++where});
  }

  /// As a binary file.
  [[nodiscard]] std::string file() const {
    capture::FileHeader head{};
    std::memcpy(head.magic, capture::file_magic, sizeof(head.magic));
    head.endian = capture::file_endian;
    head.version = capture::file_version;
    head.header_bytes = sizeof(head);
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof(head));
    for (const Frame& frame : frames_) {
      capture::RecordHeader header = frame.header;
      header.crc = capture::crc32(capture::crc32(0, &header, sizeof(header)), frame.payload.data(),
                                  frame.payload.size());
      bytes.append(reinterpret_cast<const char*>(&header), sizeof(header));
      bytes.append(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
    }
    return bytes;
  }

 private:
  struct Frame {
    capture::RecordHeader header{};
    Bytes payload;
  };
  std::vector<Frame> frames_;
};

/// C = A * B of int8 with int32 results, row-major; A, B and C in one buffer each.
struct Matmul {
  static constexpr std::uint64_t window = 0x10000;

  /// @param base A lies there, B and C in the windows behind it
  Matmul(std::uint64_t base, std::uint32_t m, std::uint32_t k, std::uint32_t n,
         std::uint32_t seed) {
    descriptor.type = RKC_I8_I32;
    descriptor.layout = RKC_FLAT;
    descriptor.m = descriptor.m_total = m;
    descriptor.k = k;
    descriptor.n = n;
    descriptor.a = static_cast<u32>(base);
    descriptor.b = static_cast<u32>(base + window);
    descriptor.c = static_cast<u32>(base + 2 * window);
    a.resize(std::size_t{m} * k);
    b.resize(std::size_t{n} * k);
    for (auto* values : {&a, &b})
      for (auto& value : *values) {
        seed = seed * 1664525 + 1013904223;
        value = static_cast<std::byte>(seed >> 24);
      }
    compute();
  }
  void compute() {
    const std::uint32_t m = descriptor.m, k = descriptor.k, n = descriptor.n;
    std::vector<std::int32_t> sums(std::size_t{m} * n);
    for (std::uint32_t i = 0; i < m; i++)
      for (std::uint32_t j = 0; j < n; j++)
        for (std::uint32_t x = 0; x < k; x++)
          sums[std::size_t{i} * n + j] +=
              static_cast<std::int8_t>(a[std::size_t{i} * k + x]) *
              static_cast<std::int8_t>(b[std::size_t{j / 32} * k * 32 + std::size_t{x / 32} * 1024 +
                                         j % 32 * 32 + x % 32]);
    c = bytes_of(sums);
  }

  [[nodiscard]] Words program() const {
    Words words(RKC_FULL_WORDS);
    rkc_chain_emit(RKC_SINGLE, &descriptor, 1, 0, words.data(), nullptr);
    return words;
  }
  /// The three buffers, with handles from @p handle on.
  void buffers(Film& film, std::uint32_t handle, std::uint32_t flags = Film::uncached) const {
    for (std::uint32_t i = 0; i < 3; i++)
      film.buffer(descriptor.a + i * window, window, handle + i, flags);
  }
  void inputs(Film& film, std::uint64_t submit) const {
    film.before(submit, descriptor.a, a);
    film.before(submit, descriptor.b, b);
  }

  rkc_matmul descriptor{};
  Bytes a, b, c;
};

}  // namespace rkchain::capture_test

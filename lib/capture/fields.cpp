// SPDX-License-Identifier: MIT
#include "capture/fields.hpp"

#include <cstring>

namespace rkchain::capture {
namespace {

using enum Shape;

constexpr Field process[] = {{"parent", offsetof(Process, parent), u32},
                             {"depth", offsetof(Process, depth), u32},
                             {"begin", offsetof(Process, begin), u32}};
constexpr Field node[] = {{"fd", offsetof(Node, fd), s32},
                          {"node_kind", offsetof(Node, kind), u32},
                          {"driver_version", offsetof(Node, driver_version), u32},
                          {"create_bytes", offsetof(Node, create_bytes), u32}};
constexpr Field closed[] = {{"fd", offsetof(Closed, fd), s32}};
constexpr Field submit[] = {{"id", offsetof(Submit, id), u64},
                            {"fd", offsetof(Submit, fd), s32},
                            {"argument_bytes", offsetof(Submit, argument_bytes), u32}};
constexpr Field argument[] = {{"flags", offsetof(rknpu_submit, flags), hex32},
                              {"timeout", offsetof(rknpu_submit, timeout), u32},
                              {"task_start", offsetof(rknpu_submit, task_start), u32},
                              {"task_number", offsetof(rknpu_submit, task_number), u32},
                              {"task_counter", offsetof(rknpu_submit, task_counter), u32},
                              {"priority", offsetof(rknpu_submit, priority), s32},
                              {"task_obj_addr", offsetof(rknpu_submit, task_obj_addr), hex64},
                              {"iommu_domain_id", offsetof(rknpu_submit, iommu_domain_id), u32},
                              {"task_base_addr", offsetof(rknpu_submit, task_base_addr), hex64},
                              {"hw_elapse_time", offsetof(rknpu_submit, hw_elapse_time), s64},
                              {"core_mask", offsetof(rknpu_submit, core_mask), hex32},
                              {"fence_fd", offsetof(rknpu_submit, fence_fd), s32},
                              {"subcore_task", offsetof(rknpu_submit, subcore_task), subcores}};
constexpr Field submitted[] = {{"id", offsetof(Submitted, id), u64},
                               {"result", offsetof(Submitted, result), s32},
                               {"task_counter", offsetof(Submitted, task_counter), u32},
                               {"hw_elapse_ns", offsetof(Submitted, hw_elapse_ns), s64},
                               {"took_ns", offsetof(Submitted, took_ns), u64}};
constexpr Field task[] = {{"submit", offsetof(Task, submit), u64},
                          {"index", offsetof(Task, index), u32},
                          {"core", offsetof(Task, core), u32}};
constexpr Field inner_task[] = {{"flags", offsetof(rknpu_task, flags), hex32},
                                {"op_idx", offsetof(rknpu_task, op_idx), u32},
                                {"enable_mask", offsetof(rknpu_task, enable_mask), hex32},
                                {"int_mask", offsetof(rknpu_task, int_mask), hex32},
                                {"int_clear", offsetof(rknpu_task, int_clear), hex32},
                                {"int_status", offsetof(rknpu_task, int_status), hex32},
                                {"regcfg_amount", offsetof(rknpu_task, regcfg_amount), u32},
                                {"regcfg_offset", offsetof(rknpu_task, regcfg_offset), u32},
                                {"regcmd_addr", offsetof(rknpu_task, regcmd_addr), hex64}};
constexpr Field buffer[] = {
    {"fd", offsetof(Buffer, fd), s32},         {"handle", offsetof(Buffer, handle), u32},
    {"flags", offsetof(Buffer, flags), hex32}, {"existed", offsetof(Buffer, existed), u32},
    {"size", offsetof(Buffer, size), u64},     {"obj", offsetof(Buffer, obj), hex64},
    {"iova", offsetof(Buffer, iova), hex64}};
constexpr Field destroyed[] = {{"fd", offsetof(Destroyed, fd), s32},
                               {"handle", offsetof(Destroyed, handle), u32}};
constexpr Field memory[] = {
    {"submit", offsetof(Memory, submit), u64}, {"when", offsetof(Memory, when), u32},
    {"stale", offsetof(Memory, stale), u32},   {"iova", offsetof(Memory, iova), hex64},
    {"offset", offsetof(Memory, offset), u64}, {"bytes", offsetof(Memory, bytes), u32}};
constexpr Field sync[] = {{"fd", offsetof(Sync, fd), s32},
                          {"flags", offsetof(Sync, flags), hex32},
                          {"obj", offsetof(Sync, obj), hex64},
                          {"offset", offsetof(Sync, offset), u64},
                          {"size", offsetof(Sync, size), u64}};
constexpr Field action[] = {{"fd", offsetof(Action, fd), s32},
                            {"flags", offsetof(Action, flags), u32},
                            {"value", offsetof(Action, value), u32},
                            {"result", offsetof(Action, result), s32}};
constexpr Field mapped[] = {{"fd", offsetof(Mapped, fd), s32},
                            {"handle", offsetof(Mapped, handle), u32},
                            {"address", offsetof(Mapped, address), hex64},
                            {"size", offsetof(Mapped, size), u64},
                            {"offset", offsetof(Mapped, offset), hex64}};
constexpr Field unmapped[] = {{"address", offsetof(Unmapped, address), hex64},
                              {"size", offsetof(Unmapped, size), u64}};
constexpr Field unseen[] = {{"submit", offsetof(Unseen, submit), u64},
                            {"what", offsetof(Unseen, what), u32},
                            {"value", offsetof(Unseen, value), hex64}};
constexpr Field chain[] = {
    {"fd", offsetof(Chain, fd), s32},       {"id", offsetof(Chain, id), u32},
    {"count", offsetof(Chain, count), u32}, {"stride", offsetof(Chain, stride), u32},
    {"body", offsetof(Chain, body), u32},   {"flags", offsetof(Chain, flags), hex32}};
constexpr Field chain_submit[] = {{"id", offsetof(ChainSubmit, id), u64},
                                  {"fd", offsetof(ChainSubmit, fd), s32},
                                  {"core_mask", offsetof(ChainSubmit, core_mask), hex32},
                                  {"flags", offsetof(ChainSubmit, flags), hex32},
                                  {"count", offsetof(ChainSubmit, count), u32}};
constexpr Field completion[] = {{"fd", offsetof(Completion, fd), s32}};
constexpr Field inner_completion[] = {
    {"sequence", offsetof(rkchain_completion, sequence), u64},
    {"user_data", offsetof(rkchain_completion, user_data), u64},
    {"status", offsetof(rkchain_completion, status), s32},
    {"flags", offsetof(rkchain_completion, flags), hex32},
    {"core", offsetof(rkchain_completion, core), u32},
    {"retries", offsetof(rkchain_completion, retries), u32},
    {"queued_ns", offsetof(rkchain_completion, queued_ns), u64},
    {"started_ns", offsetof(rkchain_completion, started_ns), u64},
    {"done_ns", offsetof(rkchain_completion, done_ns), u64},
    {"hw_ns", offsetof(rkchain_completion, hw_ns), u64},
    {"generation", offsetof(rkchain_completion, generation), u64}};
constexpr Field end[] = {{"submits", offsetof(End, submits), u64},
                         {"failed", offsetof(End, failed), u64},
                         {"records", offsetof(End, records), u64},
                         {"lost", offsetof(End, lost), u64},
                         {"unseen", offsetof(End, unseen), u64}};

template <typename T>
T load_as(const void* from, std::size_t offset) noexcept {
  T value{};
  std::memcpy(&value, static_cast<const char*>(from) + offset, sizeof(value));
  return value;
}

}  // namespace

Fields fields(Kind kind) noexcept {
  switch (kind) {
    case Kind::process:
      return {process};
    case Kind::node:
      return {node};
    case Kind::closed:
      return {closed};
    case Kind::submit:
      return {submit, "argument", argument, offsetof(Submit, argument)};
    case Kind::submitted:
      return {submitted};
    case Kind::task:
      return {task, "task", inner_task, offsetof(Task, task)};
    case Kind::buffer:
      return {buffer};
    case Kind::destroyed:
      return {destroyed};
    case Kind::memory:
      return {memory};
    case Kind::sync:
      return {sync};
    case Kind::action:
      return {action};
    case Kind::mapped:
      return {mapped};
    case Kind::unmapped:
      return {unmapped};
    case Kind::unseen:
      return {unseen};
    case Kind::chain:
      return {chain};
    case Kind::chain_submit:
      return {chain_submit};
    case Kind::end:
      return {end};
    case Kind::completion:
      return {completion, "completion", inner_completion, offsetof(Completion, completion)};
  }
  return {};
}

std::uint64_t load(const void* from, const Field& field) noexcept {
  switch (field.shape) {
    case Shape::u32:
    case Shape::hex32:
      return load_as<std::uint32_t>(from, field.offset);
    case Shape::s32:
      return static_cast<std::uint64_t>(std::int64_t{load_as<std::int32_t>(from, field.offset)});
    default:
      return load_as<std::uint64_t>(from, field.offset);
  }
}

}  // namespace rkchain::capture

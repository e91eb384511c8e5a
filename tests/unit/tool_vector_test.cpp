// SPDX-License-Identifier: MIT
// rkchain vector: what it accepts, and that it notices every change.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kmod/core/chain.h"
#include "rkchain/types.hpp"
#include "unit/tool_runner.hpp"

namespace rkchain::tool_test {
namespace {

class VectorTool : public Tool {};

TEST_F(VectorTool, VectorFromSilicon) {
  EXPECT_EQ(run({"vector", vector_file}).out, "int8_4x32x32: 128/128 outputs, 112/112 words\n");
  for (const char* count : {"2", "7", "1191"}) {
    const Outcome last = run({"vector", vector_file, "--as-last-of", count});
    EXPECT_EQ(last.code, 0) << last.err;
    EXPECT_TRUE(has(last.out, "128/128 outputs, 112/112 words")) << last.out;
  }
  const json both = run_json({"vector", vector_file, vector_file, "--json"});
  EXPECT_EQ(both["pass"], true);
  EXPECT_EQ(both["vectors"].size(), 2U);
  refuses({"vector", vector_file, "--as-last-of", "1192"}, 2, {"--as-last-of", "1191"});
}

TEST_F(VectorTool, VectorWithOneByteChanged) {
  for (const std::size_t at : {0U, 255U, 511U}) {
    json vector = silicon();
    std::string c = vector["C"];
    c[2 * at] = c[2 * at] == '0' ? '1' : '0';
    vector["C"] = c;
    const std::string name = file("v.json", vector.dump());
    refuses({"vector", name}, 1,
            {"element [" + std::to_string(at / 128) + "][" + std::to_string(at / 4 % 32) + "]"});
    EXPECT_TRUE(has(run({"vector", name}).out, "127/128 outputs, 112/112 words"));
    EXPECT_EQ(run({"vector", name, "--as-last-of", "3"}).code, 1);
    EXPECT_EQ(run_json({"vector", name, "--json"}, 1)["pass"], false);
  }
}

TEST_F(VectorTool, VectorWithOneRegisterChanged) {
  const json good = silicon();
  for (std::size_t word = 0; word < 112; word += 3) {
    json vector = good;
    std::string text = vector["regcmd"][word];
    text[11] = text[11] == '0' ? '1' : '0';  // the lowest digit of the value
    vector["regcmd"][word] = text;
    const Outcome outcome = run({"vector", file("v.json", vector.dump())});
    EXPECT_EQ(outcome.code, 1) << word << outcome.err;
    EXPECT_TRUE(has(outcome.err, "word " + std::to_string(word) + ":")) << outcome.err;
    EXPECT_TRUE(has(outcome.out, "111/112 words")) << outcome.out;
  }
}

/// A vector of whole numbers that this test has computed.
json made_vector(rkc_type type, rkc_layout layout) {
  rkc_matmul d{};
  d.type = static_cast<u8>(type);
  d.layout = static_cast<u8>(layout);
  d.m = d.m_total = 3;
  d.k = 64;
  d.n = 96;
  d.a = 0x1000;
  d.b = 0x10000;
  d.c = 0x20000;
  std::vector<u64> words(RKC_FULL_WORDS);
  rkc_chain_emit(RKC_SINGLE, &d, 1, 0, words.data(), nullptr);
  const bool half = type == RKC_F16_F32 || type == RKC_F16_F16;
  const auto in = [](u32 row, u32 column, u32 salt) {
    return static_cast<int>((row * 37 + column * 11 + salt) % 7) - 3;
  };
  // Places in a tensor of that many rows and columns, in elements.
  const auto at = [&](u32 row, u32 column, u32 columns, u32 bytes) {
    const u32 group = 16 / bytes;
    return layout == RKC_FLAT ? row * columns + column
                              : (column / group * d.m + row) * group + column % group;
  };
  const auto put = [](std::string& bytes, std::size_t index, std::size_t size, u32 value) {
    for (std::size_t i = 0; i < size; i++)
      bytes[index * size + i] = static_cast<char>(value >> 8 * i);
  };
  const auto number = [&](int value) {
    return half ? u32{to_half(static_cast<float>(value)).bits} : static_cast<u32>(value);
  };
  const u32 size = rkc_in_bytes(type), out = rkc_out_bytes(type), group = rkc_kernel_group(type);
  std::string a(std::size_t{d.m} * d.k * size, 0), b(std::size_t{d.k} * d.n * size, 0),
      c(std::size_t{d.m} * d.n * out, 0);
  for (u32 m = 0; m < d.m; m++)
    for (u32 k = 0; k < d.k; k++) put(a, at(m, k, d.k, size), size, number(in(m, k, 1)));
  for (u32 n = 0; n < d.n; n++)
    for (u32 k = 0; k < d.k; k++)
      put(b, n / group * group * d.k + k / 32 * group * 32 + n % group * 32 + k % 32, size,
          number(in(n, k, 2)));
  for (u32 m = 0; m < d.m; m++)
    for (u32 n = 0; n < d.n; n++) {
      int sum = 0;
      for (u32 k = 0; k < d.k; k++) sum += in(m, k, 1) * in(n, k, 2);
      if (type == RKC_I8_I8) sum = std::clamp(sum, -128, 127);
      const u32 bits =
          type == RKC_F16_F32 ? std::bit_cast<u32>(static_cast<float>(sum)) : number(sum);
      put(c, at(m, n, d.n, out), out, bits);
    }
  const auto hex = [](const std::string& bytes) {
    std::string text;
    for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text;
  };
  static constexpr const char* types[] = {"int8", "int8_i8", "fp16", "fp16_f16"};
  json vector = {{"name", "made"},
                 {"type", types[type]},
                 {"layout", layout == RKC_FLAT ? "flat" : "native"},
                 {"shape", {{"M", d.m}, {"K", d.k}, {"N", d.n}}},
                 {"iova", {{"A", d.a}, {"B", d.b}, {"C", "0x20000"}, {"regcmd", 0x8000}}},
                 {"A", hex(a)},
                 {"B", hex(b)},
                 {"C", hex(c)}};
  for (const u64 word : words) vector["regcmd"].push_back(fmt::format("{:016x}", word));
  return vector;
}

TEST_F(VectorTool, VectorsOfAllTypesAndLayouts) {
  for (const rkc_type type : {RKC_I8_I32, RKC_I8_I8, RKC_F16_F32, RKC_F16_F16})
    for (const rkc_layout layout : {RKC_FLAT, RKC_NATIVE}) {
      json vector = made_vector(type, layout);
      const std::string name = file("made.json", vector.dump());
      for (const char* count : {"1", "3"}) {
        const Outcome outcome = run({"vector", name, "--as-last-of", count});
        EXPECT_EQ(outcome.code, 0) << vector["type"] << vector["layout"] << outcome.err;
        EXPECT_TRUE(has(outcome.out, "made: 288/288 outputs, 112/112 words")) << outcome.out;
      }
      // The element in row 1, column 5.
      const u32 bytes = rkc_out_bytes(type), group = 16 / bytes;
      const u32 at =
          bytes * (layout == RKC_FLAT ? 96 + 5 : (5 / group * 3 + 1) * group + 5 % group);
      std::string c = vector["C"];
      c[2 * at] = c[2 * at] == '0' ? '1' : '0';
      vector["C"] = c;
      refuses({"vector", file("made.json", vector.dump())}, 1, {"element [1][5]"});
    }
  // A difference that a tolerance takes, in the last digit of an fp32.
  json vector = made_vector(RKC_F16_F32, RKC_FLAT);
  std::string c = vector["C"];
  c[1] = c[1] == '0' ? '1' : '0';
  vector["C"] = c;
  const std::string name = file("made.json", vector.dump());
  EXPECT_EQ(run({"vector", name}).code, 1);
  EXPECT_EQ(run({"vector", name, "--tolerance", "1e-5"}).code, 0);
}

TEST_F(VectorTool, VectorThatCannotBeRead) {
  const std::string name = path("v.json").string();
  const auto refused = [&](const json& vector, const std::vector<std::string>& words) {
    write(name, vector.dump());
    std::vector<std::string> all = {name};
    all.insert(all.end(), words.begin(), words.end());
    refuses({"vector", name}, 2, all);
  };
  for (const char* key : {"name", "type", "layout", "shape", "iova", "regcmd", "A", "B", "C"}) {
    json vector = silicon();
    vector.erase(key);
    refused(vector, {key, "missing"});
    vector[key] = true;
    refused(vector, {key});
  }
  for (const char* key : {"M", "K", "N"}) {
    json vector = silicon();
    vector["shape"].erase(key);
    refused(vector, {std::string("shape.") + key, "missing"});
    for (const json& value : {json(-1), json(0), json(1.5), json("many"), json(4294967296)}) {
      vector["shape"][key] = value;
      refused(vector, {std::string("shape.") + key});
    }
  }
  for (const char* key : {"A", "B", "C"}) {
    json vector = silicon();
    const std::string digits = vector[key];
    vector[key] = digits.substr(1);
    refused(vector, {key, "odd number"});
    vector[key] = digits.substr(2);
    refused(vector, {key, "bytes"});
    vector[key] = "0x" + digits.substr(2);
    refused(vector, {key, "byte 0"});
    vector[key] = digits.substr(2) + "zz";
    refused(vector, {key, "zz"});
    vector = silicon();
    vector["iova"][key] = "0xfffe8001";
    refused(vector, {std::string("iova.") + key, "multiple of 16"});
    vector["iova"].erase(key);
    refused(vector, {std::string("iova.") + key, "missing"});
  }
  json vector = silicon();
  vector["regcmd"].erase(5);
  refused(vector, {"regcmd", "111"});
  vector = silicon();
  vector["regcmd"][7] = "02010000000010400";
  refused(vector, {"regcmd", "[7]"});
  vector = silicon();
  vector["iova"]["regcmd"] = "0xfffffff0";
  refused(vector, {"iova.regcmd", "4 GiB"});
  vector = silicon();
  vector["type"] = "int4";
  refused(vector, {"type", "int4"});
  refused(json::array({1, 2}), {"no JSON object"});
  write(name, "{\"name\": ");
  refuses({"vector", name}, 2, {name, "line 1"});
  // A bad file does not keep the others from being looked at.
  const Outcome both = run({"vector", name, vector_file});
  EXPECT_EQ(both.code, 2);
  EXPECT_TRUE(has(both.out, "int8_4x32x32: 128/128 outputs")) << both.out;
}

}  // namespace
}  // namespace rkchain::tool_test

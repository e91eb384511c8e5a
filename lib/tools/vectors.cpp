// SPDX-License-Identifier: MIT
#include "tools/vectors.hpp"

#include "tools/cli.hpp"
#include "tools/matmul_args.hpp"
#include "tools/words.hpp"

namespace rkchain::tool {

// Written by the build from the file itself.
extern const std::string_view silicon_vector_json;

namespace {

constexpr std::uint64_t any32 = 0xffffffff;

/// Members of one object of the file, with messages that name file and key.
class Keys {
 public:
  Keys(const Json& json, std::string_view file, std::string prefix = "")
      : json_(json), file_(file), prefix_(std::move(prefix)) {}

  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }

  [[nodiscard]] const Json& at(const char* key) const {
    if (!json_.contains(key)) bad_input("{}: key \"{}\" is missing", file_, path(key));
    return json_[key];
  }

  [[nodiscard]] Keys object(const char* key) const {
    const Json& value = at(key);
    if (!value.is_object()) bad_input("{}: key \"{}\" is no object", file_, path(key));
    return {value, file_, path(key) + "."};
  }

  [[nodiscard]] const std::string& text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) bad_input("{}: key \"{}\" is no string", file_, path(key));
    return value.get_ref<const std::string&>();
  }

  /// A JSON number, or a string with a decimal or 0x number.
  [[nodiscard]] std::uint32_t number(const char* key) const {
    const Json& value = at(key);
    const std::string what = fmt::format("{}: key \"{}\"", file_, path(key));
    if (value.is_string())
      return static_cast<std::uint32_t>(
          parse_number(value.get_ref<const std::string&>(), what, 0, any32));
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > any32)
      bad_input("{} is no whole number from 0 to {}", what, any32);
    return value.get<std::uint32_t>();
  }

  [[nodiscard]] std::vector<std::uint8_t> bytes(const char* key, std::uint64_t size) const {
    const std::string& digits = text(key);
    if (digits.size() % 2 != 0)
      bad_input("{}: key \"{}\" has an odd number of hex digits ({})", file_, path(key),
                digits.size());
    if (digits.size() != 2 * size)
      bad_input("{}: key \"{}\" has {} bytes, type and shape need {}", file_, path(key),
                digits.size() / 2, size);
    std::vector<std::uint8_t> bytes(size);
    for (std::uint64_t i = 0; i < size; i++) {
      std::uint64_t byte = 0;
      const auto pair = std::string_view(digits).substr(2 * i, 2);
      if (pair[1] == 'x' || pair[1] == 'X' || !parse_hex(pair, 2, byte))
        bad_input("{}: key \"{}\", byte {}: '{}' is no hex", file_, path(key), i, pair);
      bytes[i] = static_cast<std::uint8_t>(byte);
    }
    return bytes;
  }

 private:
  [[nodiscard]] std::string path(const char* key) const { return prefix_ + key; }

  const Json& json_;
  std::string_view file_;
  std::string prefix_;
};

}  // namespace

Vector parse_vector(std::string_view text, std::string_view file) {
  const Json json = parse_json(text, file);
  if (!json.is_object()) bad_input("{}: no JSON object", file);
  const Keys keys(json, file);

  Vector vector;
  vector.name = keys.text("name");
  vector.matmul.type =
      static_cast<u8>(parse_type(keys.text("type"), fmt::format("{}: key \"type\"", file)));
  vector.matmul.layout =
      static_cast<u8>(parse_layout(keys.text("layout"), fmt::format("{}: key \"layout\"", file)));
  const Keys shape = keys.object("shape");
  vector.matmul.m = shape.number("M");
  vector.matmul.k = shape.number("K");
  vector.matmul.n = shape.number("N");
  vector.matmul.m_total = vector.matmul.m;
  const Keys iova = keys.object("iova");
  vector.matmul.a = iova.number("A");
  vector.matmul.b = iova.number("B");
  vector.matmul.c = iova.number("C");
  vector.regcmd_iova = iova.number("regcmd");

  rkc_err error{};
  if (rkc_matmul_check(&vector.matmul, &error) != RKC_OK)
    bad_input(
        "{}: {}", file,
        explain(error, {"key \"shape.M\"", "key \"shape.K\"", "key \"shape.N\"", "key \"shape.M\"",
                        "key \"iova.A\"", "key \"iova.B\"", "key \"iova.C\""}));
  if (vector.regcmd_iova % 16 != 0)
    bad_input("{}: key \"iova.regcmd\": {:#x} is no multiple of 16", file, vector.regcmd_iova);

  if (keys.has("task")) {
    const Keys task = keys.object("task");
    if (task.has("regcfg_amount")) vector.regcfg_amount = task.number("regcfg_amount");
    if (task.has("int_mask")) vector.int_mask = task.number("int_mask");
  }
  vector.regcmd = regcmd_words(keys.at("regcmd"), file, "key \"regcmd\"");
  const std::uint64_t need = std::uint64_t{vector.regcfg_amount} + RKC_TAIL_WORDS;
  if (vector.regcmd.size() != need)
    bad_input("{}: key \"regcmd\" has {} words, key \"task.regcfg_amount\" + {} makes {}", file,
              vector.regcmd.size(), RKC_TAIL_WORDS, need);
  if (vector.regcmd_iova + 8 * need > any32 + 1)
    bad_input("{}: key \"iova.regcmd\": the program would end above 4 GiB", file);

  const rkc_matmul& matmul = vector.matmul;
  const std::uint64_t in = rkc_in_bytes(matmul.type);
  vector.a = keys.bytes("A", in * matmul.m * matmul.k);
  vector.b = keys.bytes("B", in * matmul.k * matmul.n);
  vector.c = keys.bytes("C", std::uint64_t{rkc_out_bytes(matmul.type)} * matmul.m * matmul.n);
  return vector;
}

Vector silicon_vector() { return parse_vector(silicon_vector_json, "int8_4x32x32"); }

}  // namespace rkchain::tool

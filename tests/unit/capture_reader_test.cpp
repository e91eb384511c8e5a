// SPDX-License-Identifier: MIT
// Captures read back, and every way in which one can be broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "rkchain/error.hpp"
#include "unit/capture_samples.hpp"

namespace rkchain::capture_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t first_record = sizeof(FileHeader);

/// What is wrong, in the words of the message.
std::string error_of(const std::string& bytes) {
  try {
    (void)read_all(bytes);
  } catch (const BadCapture& error) {
    return error.what();
  }
  return "no error";
}

template <typename T>
std::string with(std::string bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return bytes;
}

/// A record with its CRC made right.
std::string record(std::uint16_t kind, const std::string& payload) {
  RecordHeader header{};
  header.magic = record_magic;
  header.kind = kind;
  header.bytes = static_cast<std::uint32_t>(payload.size());
  header.crc = crc32(crc32(0, &header, sizeof(header)), payload.data(), payload.size());
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + payload;
}

std::string small() {
  Writer writer(Format::binary);
  writer.submit(1, 2, 3, 1000).submitted(1, -110, 2000, 50);
  return writer.bytes();
}

// ---- what is written comes back --------------------------------------------------

/// Numbers of any size in every member of a struct but those that are reserved or count.
class Maker {
 public:
  explicit Maker(unsigned seed) : random_(seed) {}

  template <typename T>
  T any() {
    T value{};
    auto* bytes = reinterpret_cast<unsigned char*>(&value);
    for (std::size_t i = 0; i < sizeof(T); i++) bytes[i] = static_cast<unsigned char>(random_());
    return value;
  }
  std::string some(std::size_t most) {
    std::string bytes(random_() % (most + 1), '\0');
    for (char& c : bytes) c = static_cast<char>(random_());
    return bytes;
  }
  std::uint64_t number() { return random_(); }

 private:
  std::mt19937_64 random_;
};

void add_any(Writer& writer, Maker& make) {
  const std::uint64_t time = make.number();
  auto process = make.any<Process>();
  process.reserved = 0;
  writer.add(Kind::process, process, time, std::string("a \"b\"\0c\xc3\xa9\0\0", 11));
  writer.add(Kind::node, make.any<Node>(), time, "/dev/dri/card 1");
  auto closed = make.any<Closed>();
  closed.reserved = 0;
  writer.add(Kind::closed, closed, time);
  auto submit = make.any<Submit>();
  submit.argument.reserved = 0;
  writer.add(Kind::submit, submit, time);
  writer.add(Kind::submitted, make.any<Submitted>(), time);
  auto task = make.any<Task>();
  task.words = static_cast<std::uint32_t>(make.number() % 5);
  task.reserved = 0;
  std::string words = make.some(0);
  for (std::uint32_t i = 0; i < task.words; i++) {
    const std::uint64_t word = make.number();
    words.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  writer.add(Kind::task, task, time, words);
  writer.add(Kind::buffer, make.any<Buffer>(), time);
  writer.add(Kind::destroyed, make.any<Destroyed>(), time);
  const std::string bytes = make.some(40);
  auto memory = make.any<Memory>();
  memory.bytes = static_cast<std::uint32_t>(bytes.size());
  memory.reserved = 0;
  writer.add(Kind::memory, memory, time, bytes);
  writer.add(Kind::sync, make.any<Sync>(), time);
  writer.add(Kind::action, make.any<Action>(), time);
  writer.add(Kind::mapped, make.any<Mapped>(), time);
  writer.add(Kind::unmapped, make.any<Unmapped>(), time);
  auto unseen = make.any<Unseen>();
  unseen.reserved = 0;
  writer.add(Kind::unseen, unseen, time, "it\tcannot\nbe \x7f seen");
  auto chain = make.any<Chain>();
  chain.words = 1;
  chain.reserved = 0;
  writer.add(Kind::chain, chain, time, std::string("\xf0\xde\xbc\x9a\x78\x56\x34\x12", 8));
  auto chain_submit = make.any<ChainSubmit>();
  chain_submit.count = 2;
  writer.add(Kind::chain_submit, chain_submit, time, std::string("\1\0\0\0\xff\xff\xff\xff", 8));
  writer.add(Kind::end, make.any<End>(), time);
  auto completion = make.any<Completion>();
  completion.reserved = 0;
  completion.completion.reserved = 0;
  writer.add(Kind::completion, completion, time);
}

TEST(CaptureReader, EveryKindComesBack) {
  for (unsigned seed = 0; seed < 50; seed++) {
    Maker one(seed), two(seed);
    Writer binary(Format::binary), json(Format::json);
    add_any(binary, one);
    add_any(json, two);
    ReadResult read_binary, read_json;
    const auto from_binary = read_all(binary.bytes(), &read_binary);
    const auto from_json = read_all(json.bytes(), &read_json);
    EXPECT_EQ(read_binary.format, Format::binary);
    EXPECT_EQ(read_json.format, Format::json);
    EXPECT_EQ(read_json.realtime_ns, 1700000000000000000U);
    EXPECT_EQ(read_binary.monotonic_ns, 5000U);
    ASSERT_EQ(from_binary.size(), std::size_t{last_kind});
    ASSERT_EQ(from_json.size(), std::size_t{last_kind});
    std::string again(binary.bytes().substr(0, first_record));
    for (std::size_t i = 0; i < from_binary.size(); i++) {
      EXPECT_EQ(from_json[i].payload, from_binary[i].payload) << "kind " << i + 1;
      EXPECT_EQ(from_json[i].header.kind, i + 1);
      EXPECT_EQ(from_json[i].header.pid, from_binary[i].header.pid);
      EXPECT_EQ(from_json[i].header.time_ns, from_binary[i].header.time_ns);
      EXPECT_EQ(from_json[i].where, i + 2);
      EXPECT_EQ(from_binary[i].where, again.size());
      again.append(reinterpret_cast<const char*>(&from_binary[i].header), sizeof(RecordHeader));
      again += from_binary[i].payload;
    }
    EXPECT_EQ(again, binary.bytes());
  }
}

TEST(CaptureReader, Text) {
  Writer writer(Format::text);
  writer.submit(7, 4, 21, 1234).task(7, 3, program(1), 0xfff0).submitted(7, -22, 2345, 99);
  const auto records = read_all(writer.bytes());
  ASSERT_EQ(records.size(), 3U);
  const auto submit = records[0].get<Submit>();
  EXPECT_EQ(submit.id, 7U);
  EXPECT_EQ(submit.fd, 5);
  EXPECT_EQ(submit.argument.core_mask, 4U);
  EXPECT_EQ(submit.argument.task_number, 21U);
  EXPECT_EQ(submit.argument.timeout, 6000U);
  EXPECT_EQ(submit.argument.subcore_task[0].task_number, 21U);
  EXPECT_EQ(records[0].header.pid, 12U);
  EXPECT_EQ(records[0].header.tid, 13U);
  EXPECT_EQ(records[0].header.time_ns, 1234U);
  const auto task = records[1].get<Task>();
  EXPECT_EQ(task.submit, 7U);
  EXPECT_EQ(task.core, any_core);
  EXPECT_EQ(task.task.regcmd_addr, 0xfff0U);
  EXPECT_EQ(task.words, 112U);
  EXPECT_EQ(records[1].payload.size(), sizeof(Task) + 8 * 112);
  const auto words = program(1);
  EXPECT_EQ(std::memcmp(records[1].payload.data() + sizeof(Task), words.data(), 8 * 112), 0);
  const auto done = records[2].get<Submitted>();
  EXPECT_EQ(done.result, -22);
  EXPECT_EQ(done.hw_elapse_ns, 99);
}

TEST(CaptureReader, TextOfOthers) {
  ReadResult result;
  const auto records = read_all(
      "starting\n"
      "[ork 0.3] === SUBMIT core=0x2 task_number=6 frob=9 word\r\n"
      "=== nothing of ours\n--- WHATEVER a=1\n"
      "12:00 === DONE result=-110\n"
      "=== SUBMIT task_number=3 core=1\n"
      "npu: --- TASK index=4 words=2\n"
      "npu:   0201000000b11040\nsomebody else speaks\nnpu:   1001000000b11040\nthe end",
      &result);
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(result.format, Format::text);
  EXPECT_EQ(result.unknown, 1U);
  EXPECT_EQ(records[0].where, 2U);
  EXPECT_EQ(records[0].get<Submit>().id, 1U);
  EXPECT_EQ(records[0].get<Submit>().argument.core_mask, 2U);
  EXPECT_EQ(records[0].get<Submit>().argument.fence_fd, -1);
  EXPECT_EQ(records[1].get<Submitted>().id, 1U);
  EXPECT_EQ(records[1].get<Submitted>().result, -110);
  EXPECT_EQ(records[2].get<Submit>().id, 2U);
  EXPECT_EQ(records[3].get<Task>().submit, 2U);
  EXPECT_EQ(records[3].get<Task>().words, 2U);
}

TEST(CaptureReader, TextHasWhatTheOthersAreMadeOf) {
  Writer writer(Format::text);
  writer.add(Kind::process, Process{7, 1, 1, 0}, 5, std::string("prog\0arg\0", 9));
  writer.add(Kind::node, Node{5, 1, 908, 48}, 6, "/dev/dri/by name");
  writer.add(Kind::unseen, Unseen{3, 2, 0, 0x1000}, 7, "a buffer of others");
  writer.add(Kind::chain_submit, ChainSubmit{9, 4, 3, 1, 2}, 8, std::string(8, '\1'));
  const auto records = read_all(writer.bytes());
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[0].get<Process>().parent, 7U);
  EXPECT_EQ(records[0].payload.substr(sizeof(Process)), std::string("prog\0arg\0", 9));
  EXPECT_EQ(records[0].header.pid, 12U);
  EXPECT_EQ(records[1].get<Node>().driver_version, 908U);
  EXPECT_EQ(records[1].payload.substr(sizeof(Node)), "/dev/dri/by name");
  EXPECT_EQ(records[2].payload.substr(sizeof(Unseen)), "a buffer of others");
  EXPECT_EQ(records[3].get<ChainSubmit>().core_mask, 3U);
  EXPECT_EQ(records[3].get<ChainSubmit>().count, 2U);
}

TEST(CaptureReader, PassesOverKindsThatItDoesNotKnow) {
  ReadResult result;
  EXPECT_EQ(read_all(small() + record(99, "abc"), &result).size(), 2U);
  EXPECT_EQ(result.unknown, 1U);
  const std::string line = R"({"kind":"later","pid":1,"tid":1,"time_ns":1})";
  EXPECT_TRUE(read_all(Writer(Format::json).bytes() + line + "\n\n", &result).empty());
  EXPECT_EQ(result.unknown, 1U);
}

TEST(CaptureReader, LaterHeadersMayBeLonger) {
  std::string bytes = small();
  bytes.insert(first_record, 8, 'x');
  EXPECT_EQ(read_all(with<std::uint16_t>(bytes, 14, first_record + 8)).size(), 2U);
}

TEST(CaptureReader, Looks) {
  EXPECT_TRUE(looks_like_capture(small()));
  EXPECT_TRUE(looks_like_capture(Writer(Format::json).bytes()));
  EXPECT_TRUE(looks_like_capture("x\n: === SUBMIT core=1"));
  EXPECT_FALSE(looks_like_capture("{\"regcmd\": []}"));
  EXPECT_FALSE(looks_like_capture("0201000000b11040\n"));
  EXPECT_FALSE(looks_like_capture(""));
}

// ---- binary files that are broken ------------------------------------------------

TEST(CaptureReader, BrokenHead) {
  EXPECT_EQ(error_of(small()), "no error");
  EXPECT_THAT(error_of(""), HasSubstr("offset 0: the file is empty"));
  EXPECT_THAT(error_of("RKCAP\n\x1a"), HasSubstr("offset 0: the magic"));
  EXPECT_THAT(error_of("RKC"), HasSubstr("cut off"));
  EXPECT_THAT(error_of(std::string("ELF\0abc", 7)), HasSubstr("offset 0x3: no capture"));
  EXPECT_THAT(error_of(small().substr(0, 20)),
              AllOf(HasSubstr("offset 0x14"), HasSubstr("20 of 32")));
  EXPECT_THAT(error_of(with<std::uint32_t>(small(), 8, 0x04030201)),
              AllOf(HasSubstr("offset 0x8"), HasSubstr("other byte order")));
  EXPECT_THAT(error_of(with<std::uint32_t>(small(), 8, 7)),
              AllOf(HasSubstr("offset 0x8"), HasSubstr("0x00000007, not 0x01020304")));
  EXPECT_THAT(error_of(with<std::uint16_t>(small(), 12, 2)),
              AllOf(HasSubstr("offset 0xc"), HasSubstr("version 2"), HasSubstr("reads version 1")));
  for (const std::uint16_t bytes : {31, 4097})
    EXPECT_THAT(error_of(with<std::uint16_t>(small(), 14, bytes)),
                AllOf(HasSubstr("offset 0xe"), HasSubstr("32 to 4096")));
  EXPECT_THAT(error_of(with<std::uint16_t>(small().substr(0, first_record), 14, 40)),
              AllOf(HasSubstr("offset 0x20"), HasSubstr("32 of 40")));
}

TEST(CaptureReader, BrokenRecords) {
  const std::string bytes = small();
  const std::size_t second = first_record + sizeof(RecordHeader) + sizeof(Submit);
  const auto at = [](std::size_t offset) { return fmt::format("sample: offset {:#x}: ", offset); };
  EXPECT_THAT(error_of(with<std::uint32_t>(bytes, second, 0x4b525243)),
              HasSubstr(at(second) + "a record of the other byte order"));
  EXPECT_THAT(error_of(with<std::uint32_t>(bytes, second, 1)),
              HasSubstr(at(second) + "no record begins here"));
  EXPECT_THAT(error_of(with<std::uint32_t>(bytes, second + 8, max_payload + 1)),
              HasSubstr(at(second + 8) + "a record of 4194305 bytes, the limit is 4194304"));
  EXPECT_THAT(error_of(bytes.substr(0, second + 10)),
              HasSubstr(at(second + 10) + "the file ends inside a record's header"));
  EXPECT_THAT(error_of(bytes.substr(0, bytes.size() - 1)),
              HasSubstr(at(bytes.size() - 1) + "the file ends inside a record that begins at"));
  // Every byte counts: of the payload, and of the header where it is not looked at before.
  for (const std::size_t damaged : {second + 6, second + 16, second + 24, bytes.size() - 1})
    EXPECT_THAT(error_of(with<char>(bytes, damaged, static_cast<char>(bytes[damaged] ^ 4))),
                HasSubstr(at(second + 12) + "the record is damaged"));
}

TEST(CaptureReader, StructsThatDoNotFit) {
  const std::string head = small().substr(0, first_record);
  for (std::uint16_t kind = 1; kind <= last_kind; kind++)
    EXPECT_THAT(error_of(head + record(kind, "abc")),
                AllOf(HasSubstr("offset 0x20: "), HasSubstr("record of 3 bytes, it has at least")))
        << kind;
  const auto counted = [&](Kind kind, auto fixed, const std::string& rest) {
    return error_of(head +
                    record(static_cast<std::uint16_t>(kind),
                           std::string(reinterpret_cast<char*>(&fixed), sizeof(fixed)) + rest));
  };
  Task task{};
  task.words = 2;
  EXPECT_THAT(counted(Kind::task, task, std::string(8, 'x')),
              HasSubstr("says that 2 words follow, which are 16 bytes, and has 8"));
  EXPECT_EQ(counted(Kind::task, task, std::string(16, 'x')), "no error");
  Memory memory{};
  memory.bytes = 5;
  EXPECT_THAT(counted(Kind::memory, memory, "1234"), HasSubstr("5 data follow"));
  Chain chain{};
  chain.words = 0xffffffff;
  EXPECT_THAT(counted(Kind::chain, chain, ""), HasSubstr("4294967295 words"));
  ChainSubmit submit{};
  submit.count = 1;
  EXPECT_THAT(counted(Kind::chain_submit, submit, "12345"), HasSubstr("1 chains follow"));
}

TEST(CaptureReader, PartOfABrokenFile) {
  const std::string bytes = small();
  ReadResult result;
  EXPECT_EQ(read_all(bytes.substr(0, bytes.size() - 1), &result, {true}).size(), 1U);
  EXPECT_THAT(result.damage, HasSubstr("the file ends inside"));
  EXPECT_EQ(read_all(bytes, &result, {true}).size(), 2U);
  EXPECT_EQ(result.damage, "");
  EXPECT_THROW((void)read_all(bytes.substr(0, 20), &result, {true}), BadCapture);
}

// ---- JSON and text that are broken -----------------------------------------------

std::string json_lines(const std::string& line) { return Writer(Format::json).bytes() + line; }

TEST(CaptureReader, BrokenJson) {
  const auto bad = [](const std::string& line, const std::string& what) {
    EXPECT_THAT(error_of(json_lines(line)), AllOf(HasSubstr("sample: line 2: "), HasSubstr(what)))
        << line;
  };
  const std::string head = R"({"pid":1,"tid":2,"time_ns":3,"kind":)";
  EXPECT_EQ(error_of(json_lines(head + R"("closed","fd":3})")), "no error");
  bad("{\"kind\":", "column 9");
  bad("[1]", "no JSON object");
  bad("{}", "\"kind\" is missing");
  bad("{\"kind\":3}", "\"kind\" is no string");
  bad(R"({"kind":"closed","fd":3})", "\"pid\" is missing");
  bad(head + R"("closed"})", "\"fd\" is missing");
  bad(head + R"("closed","fd":"3"})", "\"fd\" is no whole number");
  bad(head + R"("closed","fd":3.5})", "\"fd\" is no whole number");
  bad(head + R"("closed","fd":2147483648})", "2147483648 is out of range");
  bad(head + R"("closed","fd":-2147483649})", "-2147483649 is out of range");
  bad(head + R"("destroyed","fd":1,"handle":-1})", "\"handle\": -1 is out of range");
  bad(head + R"("node","fd":1,"node_kind":0,"driver_version":1,"create_bytes":0,"path":1})",
      "\"path\" is no string");
  bad(head + R"("process","parent":1,"depth":0,"begin":0,"command":"x"})", "is no array");
  bad(head + R"("chain","fd":1,"id":1,"count":1,"stride":1,"body":1,"flags":0,"words":["12x"]})",
      "'12x' is no word");
  bad(head + R"("chain_submit","id":1,"fd":1,"core_mask":1,"flags":0,"count":3,"chains":[1]})",
      "3 chains follow");
  const std::string memory =
      R"("memory","submit":1,"when":0,"stale":0,"iova":0,"offset":0,"bytes":1,"data":)";
  EXPECT_EQ(error_of(json_lines(head + memory + "\"QQ==\"}")), "no error");
  for (const char* data : {"\"QQ=\"", "\"Q===\"", "\"Q=Q=\"", "\"Q!==\""})
    bad(head + memory + data + "}", "no base64");
  bad(head + memory + "\"QUI=\"}", "1 data follow");
  bad(head + R"("submit","id":1,"fd":1,"argument_bytes":104,"argument":1})", "no object");
  std::string submit = Writer(Format::json).submit(1, 1, 1, 1).bytes();
  submit.erase(0, submit.find('\n') + 1);
  const std::string pairs = "[[0,1],[0,0],[0,0],[0,0],[0,0]]";
  ASSERT_NE(submit.find(pairs), std::string::npos);
  const auto pairs_are = [&](const std::string& other) {
    std::string line = submit;
    return line.replace(line.find(pairs), pairs.size(), other);
  };
  bad(pairs_are("[[0,1]]"), "no array of 5 pairs");
  bad(pairs_are("[1,[0,0],[0,0],[0,0],[0,0]]"), "no pair");
}

TEST(CaptureReader, BrokenFileLine) {
  const auto bad = [](const std::string& line, const std::string& what) {
    EXPECT_THAT(error_of(line), AllOf(HasSubstr("sample: line 1: "), HasSubstr(what)));
  };
  bad(R"({"kind":"submit","format":"x"})", "not that of the file");
  bad(R"({"kind":"file","format":"else"})", "not that of the file");
  bad(R"({"kind":"file","format":"rkchain-capture","version":2})", "version 2 of the format");
  bad(R"({"kind":"file","format":"rkchain-capture","version":1})", "\"realtime_ns\" is missing");
}

TEST(CaptureReader, BrokenText) {
  const auto bad = [](const std::string& text, std::size_t line, const std::string& what) {
    EXPECT_THAT(error_of(text),
                AllOf(HasSubstr(fmt::format("sample: line {}: ", line)), HasSubstr(what)))
        << text;
  };
  EXPECT_EQ(error_of("=== SUBMIT core=0x1 task_number=3"), "no error");
  bad("hello\nworld\n", 2, "no capture");
  bad("\n=== SUBMIT task_number=3\n", 2, "core= is missing");
  bad("=== SUBMIT core=1\n", 1, "task_number= is missing");
  bad("=== SUBMIT core=x task_number=3\n", 1, "core='x' is no whole number");
  bad("=== SUBMIT core= task_number=3\n", 1, "no whole number");
  bad("=== SUBMIT core=0x100000000 task_number=3\n", 1, "out of range");
  bad("=== SUBMIT core=1 task_number=-3\n", 1, "out of range");
  bad("=== SUBMIT core=1 task_number=3 subcore=0-3\n", 1, "START+NUMBER");
  bad("=== SUBMIT core=1 task_number=3 subcore=0+3,1+1,1+1,1+1,1+1,1+1\n", 1, "up to 5 pairs");
  bad("--- TASK words=2\n    0201000000b11040\n=== DONE id=1\n", 3, "1 of the 2 words of line 1");
  bad("--- TASK words=2\n    0201000000b11040\n", 2, "1 of the 2 words of line 1");
  bad("--- TASK words=600000\n", 1, "the limit is 524");
  bad("--- CHAIN_SUBMIT count=4000000\n", 1, "count=4000000, the limit is");
}

TEST(CaptureReader, LinesHaveALimit) {
  const std::string most(std::size_t{16} << 20, 'x');
  EXPECT_EQ(error_of("=== SUBMIT core=1 task_number=3\n" + most + "\n"), "no error");
  EXPECT_THAT(error_of("=== SUBMIT core=1 task_number=3\n" + most + "x\n"),
              HasSubstr("line 2: longer than the limit of 16777216 bytes"));
  EXPECT_THAT(error_of(json_lines("{" + most)), HasSubstr("line 2: longer than the limit"));
}

// ---- files ---------------------------------------------------------------------

class CaptureFile : public testing::Test {
 protected:
  CaptureFile()
      : path_(std::filesystem::temp_directory_path() /
              ("rkchain-capture." + std::to_string(getpid()))) {}
  ~CaptureFile() override { std::filesystem::remove(path_); }
  std::filesystem::path path_;
};

TEST_F(CaptureFile, IsReadInPieces) {
  std::string records;
  for (std::uint64_t id = 1; id <= 20000; id++) records += record(99, std::string(id % 700, 'x'));
  std::ofstream(path_, std::ios::binary) << small() << records << small().substr(first_record);
  std::uint64_t seen = 0;
  const ReadResult result = read_capture(path_.string(), [&](const Record&) { seen++; });
  EXPECT_EQ(seen, 4U);
  EXPECT_EQ(result.unknown, 20000U);
}

TEST_F(CaptureFile, CannotBeRead) {
  const auto code = [](const std::string& path) {
    try {
      (void)read_capture(path, [](const Record&) {});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path));
      return error.code();
    }
    return Errc::busy;
  };
  EXPECT_EQ(code(path_.string()), Errc::invalid_argument);
  EXPECT_EQ(code(std::filesystem::temp_directory_path().string()), Errc::io);
}

}  // namespace
}  // namespace rkchain::capture_test

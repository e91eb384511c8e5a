// SPDX-License-Identifier: MIT
#include <charconv>

#include "capture/reader_feed.hpp"

namespace rkchain::capture {
namespace {

constexpr std::string_view blanks = " \t\r";

/// The next word of @p text, taken off it.
std::string_view next(std::string_view& text) {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return text = {};
  const std::size_t end = std::min(text.find_first_of(blanks, begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

/// "=== NAME key=value ..." or "--- NAME ...", whatever is in front of it.
struct Marked {
  std::string_view name;
  std::string_view rest;
};

bool is_name(std::string_view word) {
  return word.size() > 1 && std::all_of(word.begin(), word.end(),
                                        [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
}

std::optional<Marked> marked(std::string_view line) {
  for (const std::string_view mark : {"=== ", "--- "})
    for (std::size_t at = line.find(mark); at != std::string_view::npos;
         at = line.find(mark, at + 1)) {
      std::string_view rest = line.substr(at + mark.size());
      if (rest.starts_with(' ')) continue;
      const std::string_view word = next(rest);
      if (is_name(word)) return Marked{word, rest};
    }
  return std::nullopt;
}

const Schema* schema_of_mark(std::string_view mark) {
  return mark == "DONE" ? schema_of(static_cast<std::uint16_t>(Kind::submitted)) : schema_of(mark);
}

constexpr Field any_u32{"", 0, Shape::u32};
constexpr Field any_u64{"", 0, Shape::u64};

/// What a line calls by a shorter name.
std::string_view member_name(Kind kind, std::string_view key) {
  struct Alias {
    Kind kind;
    std::string_view key;
    std::string_view name;
  };
  static constexpr Alias aliases[] = {{Kind::submit, "core", "core_mask"},
                                      {Kind::submit, "task_obj", "task_obj_addr"},
                                      {Kind::task, "amount", "regcfg_amount"},
                                      {Kind::task, "regcmd", "regcmd_addr"},
                                      {Kind::chain_submit, "core", "core_mask"}};
  for (const Alias& alias : aliases)
    if (alias.kind == kind && alias.key == key) return alias.name;
  return key;
}

class TextReader {
 public:
  explicit TextReader(Reading& reading) : reading_(reading) {}

  void run() {
    while (const auto text = reading_.feed.line()) {
      number_++;
      if (text->size() > max_line) bad("longer than the limit of {} bytes", max_line);
      if (const auto line = marked(*text))
        begin(*line);
      else if (draft_)
        add_word(*text);
    }
    finish();
    if (!any_) bad("no capture: no line of it has \"=== SUBMIT\"");
  }

 private:
  template <typename... T>
  [[noreturn]] void bad(fmt::format_string<T...> format, T&&... args) const {
    bad_capture(reading_.name, fmt::format("line {}", number_), format, std::forward<T>(args)...);
  }

  void begin(const Marked& line) {
    finish();
    const Schema* schema = schema_of_mark(line.name);
    if (schema == nullptr) {
      reading_.result.unknown++;
      return;
    }
    any_ = true;
    where_ = number_;
    header_ = {};
    words_ = 0;
    draft_.emplace(*schema);
    seen_.clear();
    set_defaults(schema->kind);
    std::string_view rest = line.rest;
    for (auto word = next(rest); !word.empty(); word = next(rest)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string_view key = word.substr(0, equals);
      std::string_view value = word.substr(equals + 1);
      if (value.starts_with('"')) {
        // Paths and sentences have blanks.
        const char* begin = value.data() + 1;
        rest = {begin, static_cast<std::size_t>(rest.data() + rest.size() - begin)};
        const std::size_t end = std::min(rest.find('"'), rest.size());
        value = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
      if (takes_text(key))
        append_text(value);
      else
        set(key, value);
      seen_.emplace_back(key);
    }
    if (schema->kind == Kind::submit) require_all({"core", "task_number"});
    if (schema->rest == Rest::ids) add_ids();
    last_submit(schema->kind);
    if (words_ == 0) finish();
  }

  void set_defaults(Kind kind) {
    if (kind == Kind::submit) {
      draft_->put(offsetof(Submit, argument) + offsetof(rknpu_submit, fence_fd), std::int32_t{-1});
      draft_->put(offsetof(Submit, argument_bytes),
                  static_cast<std::uint32_t>(sizeof(rknpu_submit)));
      draft_->put(offsetof(Submit, id), id_ + 1);
    } else if (kind == Kind::submitted) {
      draft_->put(offsetof(Submitted, id), id_);
    } else if (kind == Kind::task) {
      draft_->put(offsetof(Task, submit), id_);
      draft_->put(offsetof(Task, core), any_core);
    }
  }

  /// Lines that name none belong to the one before.
  void last_submit(Kind kind) {
    if (kind == Kind::submit) id_ = draft_->at<std::uint64_t>(offsetof(Submit, id));
  }

  void require_all(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys)
      if (std::find(seen_.begin(), seen_.end(), key) == seen_.end()) bad("{}= is missing", key);
  }

  [[nodiscard]] bool takes_text(std::string_view key) const {
    const Schema& schema = draft_->schema();
    return (schema.rest == Rest::text || schema.rest == Rest::strings) && key == schema.rest_name;
  }

  /// What is in quotes, or a word.
  void append_text(std::string_view text) {
    if (draft_->payload().size() + text.size() > max_payload)
      bad("a text of {} bytes, the limit is {}", text.size(), max_payload);
    if (draft_->schema().rest == Rest::text) {
      draft_->append(text.data(), text.size());
      return;
    }
    for (auto word = next(text); !word.empty(); word = next(text)) {
      draft_->append(word.data(), word.size());
      draft_->append("", 1);
    }
  }

  std::uint64_t number_of(std::string_view text, const Field& field, std::string_view key) const {
    const bool negative = text.starts_with('-');
    std::string_view digits = text.substr(negative ? 1 : 0);
    const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
    if (hex) digits.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
    if (digits.empty() || end != digits.data() + digits.size() ||
        error == std::errc::invalid_argument)
      bad("{}={} is no whole number (decimal or 0x...)", key, shown(text));
    if (error != std::errc() || (negative && !has_sign(field)) ||
        value > most_of(field) + (negative ? 1U : 0U))
      bad("{}={} is out of range", key, shown(text));
    return negative ? 0 - value : value;
  }

  void set(std::string_view key, std::string_view text) {
    const Schema& schema = draft_->schema();
    if (key == "pid") {
      header_.pid = static_cast<std::uint32_t>(number_of(text, any_u32, key));
    } else if (key == "tid") {
      header_.tid = static_cast<std::uint32_t>(number_of(text, any_u32, key));
    } else if (key == "time_ns") {
      header_.time_ns = number_of(text, any_u64, key);
    } else if (key == "subcore" && schema.kind == Kind::submit) {
      set_subcores(text);
    } else if (key == "words" && schema.rest == Rest::words) {
      set_words(text);
    } else if (key != "core" || schema.kind != Kind::task || text != "any") {
      set_member(key, text);
    }
  }

  void set_member(std::string_view key, std::string_view text) {
    const Fields all = fields(draft_->schema().kind);
    const std::string_view name = member_name(draft_->schema().kind, key);
    for (const Field& field : all.own)
      if (field.name == name) return draft_->set(field, 0, number_of(text, field, key));
    for (const Field& field : all.inner)
      if (field.name == name && field.shape != Shape::subcores)
        return draft_->set(field, all.inner_offset, number_of(text, field, key));
  }

  void set_words(std::string_view text) {
    words_ = number_of(text, any_u32, "words");
    const std::uint64_t most = (max_payload - draft_->schema().size) / sizeof(std::uint64_t);
    if (words_ > most) bad("words={}, the limit is {}", words_, most);
    // Those of a chain do not follow.
    if (draft_->schema().kind == Kind::chain) words_ = 0;
  }

  /// Text does not say which chains they were, only how many.
  void add_ids() {
    const auto count = draft_->at<std::uint32_t>(draft_->schema().count_offset);
    const std::size_t most = (max_payload - draft_->schema().size) / sizeof(count);
    if (count > most) bad("count={}, the limit is {}", count, most);
    const std::vector<std::uint32_t> none(count);
    draft_->append(none.data(), none.size() * sizeof(count));
  }

  /// "0+3,0+0,...": start and number of each core.
  void set_subcores(std::string_view text) {
    std::size_t at = offsetof(Submit, argument) + offsetof(rknpu_submit, subcore_task);
    for (std::size_t core = 0; !text.empty(); core++) {
      const std::size_t comma = std::min(text.find(','), text.size());
      const std::string_view pair = text.substr(0, comma);
      const std::size_t plus = pair.find('+');
      if (plus == std::string_view::npos || core == RKNPU_MAX_CORES)
        bad("subcore={} is not up to {} pairs of START+NUMBER", shown(text), RKNPU_MAX_CORES);
      for (const std::string_view number : {pair.substr(0, plus), pair.substr(plus + 1)}) {
        draft_->put(at, static_cast<std::uint32_t>(number_of(number, any_u32, "subcore")));
        at += sizeof(std::uint32_t);
      }
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
  }

  /// A line between the words that is none is somebody else's.
  void add_word(std::string_view line) {
    const std::size_t end = line.find_last_not_of(blanks);
    if (end == std::string_view::npos) return;
    const std::size_t begin = line.find_last_of(blanks, end) + 1;
    const std::string_view text = line.substr(begin, end + 1 - begin);
    std::uint64_t word = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
    if (text.size() != 16 || error != std::errc() || stop != text.data() + text.size()) return;
    draft_->append(&word, sizeof(word));
    if (draft_->rest_bytes() == words_ * sizeof(word)) finish();
  }

  void finish() {
    if (!draft_) return;
    const std::uint64_t got = draft_->rest_bytes() / sizeof(std::uint64_t);
    if (words_ != 0 && got != words_)
      bad("{} of the {} words of line {} are there", got, words_, where_);
    if (draft_->schema().rest == Rest::words) draft_->count();
    reading_.visit(draft_->record(header_, where_));
    reading_.result.records++;
    draft_.reset();
  }

  Reading& reading_;
  std::uint64_t number_ = 0;
  std::uint64_t where_ = 0;
  std::uint64_t id_ = 0;
  std::uint64_t words_ = 0;
  bool any_ = false;
  RecordHeader header_{};
  std::optional<Draft> draft_;
  std::vector<std::string_view> seen_;
};

}  // namespace

void read_text(Reading& reading) { TextReader(reading).run(); }

}  // namespace rkchain::capture

#include "common/prom/parser.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"

namespace poolmark::prom {
namespace {

bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
}
bool IsNameChar(char c) {
  return IsNameStart(c) || (c >= '0' && c <= '9');
}
bool IsBlank(char c) {
  return c == ' ' || c == '\t';
}

// Walks over one line. Every Take… leaves the position after what it took, or fails and says why.
class Line {
 public:
  explicit Line(std::string_view text) : text_(text) {}

  void SkipBlanks() {
    while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
  }
  bool AtEnd() const { return at_ >= text_.size(); }
  bool Peek(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool Take(char c) {
    if (!Peek(c)) return false;
    ++at_;
    return true;
  }
  std::string_view TakeName() {
    const size_t start = at_;
    if (at_ < text_.size() && IsNameStart(text_[at_])) {
      while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
    }
    return text_.substr(start, at_ - start);
  }
  // Up to the next blank.
  std::string_view TakeWord() {
    const size_t start = at_;
    while (at_ < text_.size() && !IsBlank(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  std::string_view Rest() const { return text_.substr(at_); }
  // A quoted string with \\, \" and \n escapes; false when it does not end.
  bool TakeQuoted(std::string* out) {
    if (!Take('"')) return false;
    out->clear();
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (c != '\\') {
        out->push_back(c);
        continue;
      }
      if (at_ >= text_.size()) return false;
      const char escaped = text_[at_++];
      if (escaped == 'n') {
        out->push_back('\n');
      } else if (escaped == '\\' || escaped == '"') {
        out->push_back(escaped);
      } else {  // an unknown escape is kept as it stands, as Prometheus does
        out->push_back('\\');
        out->push_back(escaped);
      }
    }
    return false;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

bool EqualsIgnoreCase(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
    if (c != lower[i]) return false;
  }
  return true;
}

// What an error shows of a foreign line: short, printable.
std::string Excerpt(std::string_view line) {
  constexpr size_t kMost = 80;
  std::string out = ValidUtf8(line.substr(0, kMost));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return line.size() > kMost ? out + "..." : out;
}

bool ParseValue(std::string_view word, double* value) {
  if (word.empty()) return false;
  std::string_view digits = word;
  bool negative = false;
  if (digits.front() == '+' || digits.front() == '-') {
    negative = digits.front() == '-';
    digits.remove_prefix(1);
  }
  if (EqualsIgnoreCase(digits, "inf") || EqualsIgnoreCase(digits, "infinity")) {
    *value = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    return true;
  }
  if (EqualsIgnoreCase(digits, "nan")) {
    *value = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (digits.empty() || !((digits.front() >= '0' && digits.front() <= '9') || digits.front() == '.')) {
    return false;
  }
  double parsed = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed);
  if (end != digits.data() + digits.size()) return false;
  if (error == std::errc::result_out_of_range) {
    // from_chars leaves the value alone: too large is infinite, too small is zero, as strtod has it.
    const bool small =
        digits.find("e-") != std::string_view::npos || digits.find("E-") != std::string_view::npos;
    parsed = small ? 0 : std::numeric_limits<double>::infinity();
  } else if (error != std::errc()) {
    return false;
  }
  *value = negative ? -parsed : parsed;
  return true;
}

// Milliseconds as an integer (0.0.4), seconds as a float (OpenMetrics).
bool ParseTimestamp(std::string_view word, std::optional<int64_t>* timestamp_ms) {
  int64_t integer = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), integer);
  if (error == std::errc() && end == word.data() + word.size()) {
    *timestamp_ms = integer;
    return true;
  }
  double seconds = 0;
  if (!ParseValue(word, &seconds) || !std::isfinite(seconds) || std::abs(seconds) > 1e15) return false;
  *timestamp_ms = static_cast<int64_t>(std::llround(seconds * 1000));
  return true;
}

class Parser {
 public:
  Parser(const Limits& limits, const NameFilter& keep) : limits_(limits), keep_(keep) {}

  Status Run(std::string_view text);
  Page TakePage() { return std::move(page_); }
  bool found_anything() const { return found_anything_; }

 private:
  // An empty reason: the line is good. A fatal status: a limit was broken.
  Status ParseLine(std::string_view text, std::string* reason);
  void ParseComment(std::string_view text);
  Status ParseLabels(Line* line, Sample* sample, std::string* reason);

  const Limits& limits_;
  const NameFilter& keep_;
  Page page_;
  size_t seen_samples_ = 0;
  bool found_anything_ = false;
  int line_number_ = 0;
};

Status Parser::Run(std::string_view text) {
  size_t start = 0;
  while (start < text.size()) {
    size_t end = text.find('\n', start);
    if (end == std::string_view::npos) end = text.size();
    std::string_view line = text.substr(start, end - start);
    start = end + 1;
    ++line_number_;
    while (!line.empty() && (line.back() == '\r' || IsBlank(line.back()))) line.remove_suffix(1);
    while (!line.empty() && IsBlank(line.front())) line.remove_prefix(1);
    if (line.empty()) continue;
    if (line == "# EOF") {
      found_anything_ = true;
      break;
    }
    if (line.front() == '#') {
      ParseComment(line);
      continue;
    }
    std::string reason;
    POOLMARK_RETURN_IF_ERROR(ParseLine(line, &reason));
    if (reason.empty()) {
      found_anything_ = true;
    } else if (page_.bad_lines++ == 0) {
      page_.first_bad_line = absl::StrCat("line ", line_number_, ": ", reason, ": ", Excerpt(line));
    }
  }
  return absl::OkStatus();
}

void Parser::ParseComment(std::string_view text) {
  Line line(text.substr(1));
  line.SkipBlanks();
  const std::string_view keyword = line.TakeWord();
  const bool is_type = keyword == "TYPE";
  if (!is_type && keyword != "HELP") return;
  line.SkipBlanks();
  const std::string_view name = line.TakeWord();
  if (name.empty()) return;
  found_anything_ = true;
  if (keep_ && !keep_(name)) return;
  line.SkipBlanks();
  if (page_.families.empty() || page_.families.back().name != name) {
    if (page_.families.size() >= limits_.max_samples) return;
    page_.families.push_back({std::string(name), "untyped", ""});
  }
  (is_type ? page_.families.back().type : page_.families.back().help) = std::string(line.Rest());
}

Status Parser::ParseLabels(Line* line, Sample* sample, std::string* reason) {
  for (;;) {
    line->SkipBlanks();
    if (line->Take('}')) return absl::OkStatus();
    std::string key;
    if (line->Peek('"')) {  // a UTF-8 name in quotes; without "=" it is the name of the metric
      if (!line->TakeQuoted(&key)) {
        *reason = "a quoted name does not end";
        return absl::OkStatus();
      }
      line->SkipBlanks();
      if (!line->Peek('=')) {
        if (!sample->name.empty() || !sample->labels.empty()) {
          *reason = "a quoted name where a label was expected";
          return absl::OkStatus();
        }
        sample->name = std::move(key);
        line->Take(',');
        continue;
      }
    } else {
      key = std::string(line->TakeName());
    }
    line->SkipBlanks();
    if (key.empty() || !line->Take('=')) {
      *reason = "malformed labels";
      return absl::OkStatus();
    }
    line->SkipBlanks();
    std::string value;
    if (!line->TakeQuoted(&value)) {
      *reason = "a label's value is not a quoted string";
      return absl::OkStatus();
    }
    if (value.size() > limits_.max_label_value) {
      return InvalidInput(
          absl::StrCat("line ", line_number_),
          absl::StrCat("a label has ", value.size(), " bytes, at most ", limits_.max_label_value));
    }
    if (sample->labels.size() >= limits_.max_labels) {
      return InvalidInput(absl::StrCat("line ", line_number_),
                          absl::StrCat("more than ", limits_.max_labels, " labels on one sample"));
    }
    sample->labels.emplace_back(std::move(key), std::move(value));
    line->SkipBlanks();
    if (!line->Take(',') && !line->Peek('}')) {
      *reason = "labels lack a comma or the closing brace";
      return absl::OkStatus();
    }
  }
}

Status Parser::ParseLine(std::string_view text, std::string* reason) {
  Line line(text);
  Sample sample;
  const std::string_view name = line.TakeName();
  sample.name = std::string(name);
  line.SkipBlanks();
  const bool has_labels = line.Peek('{');
  if (name.empty() && !has_labels) {
    *reason = "no metric name";
    return absl::OkStatus();
  }
  if (++seen_samples_ > limits_.max_samples) {
    return InvalidInput(absl::StrCat("line ", line_number_),
                        absl::StrCat("more than ", limits_.max_samples, " samples on one page"));
  }
  if (keep_ && !name.empty() && !keep_(name)) {
    // A page of words must not pass for one of series that nobody asked about.
    double value = 0;
    if (!has_labels && !ParseValue(line.TakeWord(), &value)) *reason = "no number";
    return absl::OkStatus();
  }
  if (line.Take('{')) {
    POOLMARK_RETURN_IF_ERROR(ParseLabels(&line, &sample, reason));
    if (!reason->empty()) return absl::OkStatus();
  }
  if (sample.name.empty()) {
    *reason = "no metric name";
    return absl::OkStatus();
  }
  if (keep_ && name.empty() && !keep_(sample.name)) return absl::OkStatus();
  line.SkipBlanks();
  if (!ParseValue(line.TakeWord(), &sample.value)) {
    *reason = "no number";
    return absl::OkStatus();
  }
  line.SkipBlanks();
  if (!line.AtEnd() && !line.Peek('#')) {
    if (!ParseTimestamp(line.TakeWord(), &sample.timestamp_ms)) {
      *reason = "malformed timestamp";
      return absl::OkStatus();
    }
    line.SkipBlanks();
  }
  if (!line.AtEnd() && !line.Peek('#')) {  // "#" begins an exemplar (OpenMetrics)
    *reason = "text after the sample";
    return absl::OkStatus();
  }
  page_.samples.push_back(std::move(sample));
  return absl::OkStatus();
}

}  // namespace

std::string_view Sample::label(std::string_view key) const {
  for (const auto& [name_of, value_of] : labels) {
    if (name_of == key) return value_of;
  }
  return "";
}

Result<Page> ParseText(std::string_view text, const Limits& limits, const NameFilter& keep) {
  if (text.size() > limits.max_bytes) {
    return InvalidInput("", absl::StrCat("the page has ", text.size(), " bytes, at most ", limits.max_bytes));
  }
  if (text.find('\0') != std::string_view::npos) {
    return InvalidInput("", "the page holds NUL bytes: binary data, no Prometheus text");
  }
  Parser parser(limits, keep);
  POOLMARK_RETURN_IF_ERROR(parser.Run(text));
  Page page = parser.TakePage();
  if (!parser.found_anything() && page.bad_lines > 0) {
    return InvalidInput("", absl::StrCat("no Prometheus text (", page.first_bad_line, ")"),
                        "give the address of the metrics page, often /metrics on a port of its own");
  }
  return page;
}

std::optional<double> Sum(const Page& page, std::string_view name, const Labels& match) {
  std::optional<double> sum;
  for (const Sample& sample : page.samples) {
    if (sample.name != name) continue;
    bool matches = true;
    for (const auto& [key, value] : match) matches = matches && sample.label(key) == value;
    if (!matches) continue;
    if (!std::isfinite(sample.value)) return std::nullopt;
    sum = sum.value_or(0) + sample.value;
  }
  return sum;
}

}  // namespace poolmark::prom

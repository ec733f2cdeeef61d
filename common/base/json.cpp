#include "common/base/json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "absl/strings/str_cat.h"

namespace poolmark {
namespace {

// A SAX builder over ordered_json that knows the limits: nlohmann's own parser neither bounds the depth
// nor rejects duplicate keys.
class Builder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return Add(nullptr); }
  bool boolean(bool v) { return Add(v); }
  bool number_integer(number_integer_t v) { return Add(v); }
  bool number_unsigned(number_unsigned_t v) { return Add(v); }
  bool number_float(number_float_t v, const string_t& text) {
    if (!std::isfinite(v)) {
      problem = absl::StrCat("number ", text.substr(0, 40), " is out of range");
      return false;
    }
    return Add(v);
  }
  bool string(string_t& v) { return Add(std::move(v)); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) {
    keys_.emplace_back();
    return Open(Json::object());
  }
  bool key(string_t& v) {
    const auto [place, added] = keys_.back().emplace(v, keys_.back().size());
    place_ = place->second;
    if (!added && limits_.reject_duplicate_keys) {
      problem = absl::StrCat("key '", v.substr(0, 80), "' stands twice");
      return false;
    }
    key_ = std::move(v);
    return true;
  }
  bool end_object() {
    keys_.pop_back();
    stack_.pop_back();
    return true;
  }
  bool start_array(std::size_t) { return Open(Json::array()); }
  bool end_array() {
    stack_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    std::string_view text =
        error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    size_t tail = text.find("] ");
    problem = absl::StrCat("byte ", position, ": ",
                           std::string(tail == text.npos ? text : text.substr(tail + 2)).substr(0, 300));
    return false;
  }

  Json root;
  std::string problem;

 private:
  template <class Value>
  Json* Put(Value&& value) {
    if (stack_.empty()) {
      root = std::forward<Value>(value);
      return &root;
    }
    Json& top = *stack_.back();
    if (top.is_array()) {
      top.push_back(std::forward<Value>(value));
      return &top.back();
    }
    // A key's place is known from key(): an ordered object's own look-up would read all keys before it.
    auto& members =
        static_cast<std::vector<std::pair<const std::string, Json>>&>(top.get_ref<Json::object_t&>());
    if (place_ == members.size()) {
      members.emplace_back(std::move(key_), Json(std::forward<Value>(value)));
    } else {
      members[place_].second = std::forward<Value>(value);
    }
    return &members[place_].second;
  }
  template <class Value>
  bool Add(Value&& value) {
    Put(Json(std::forward<Value>(value)));
    return true;
  }
  bool Open(Json container) {
    if (static_cast<int>(stack_.size()) >= limits_.max_depth) {
      problem = absl::StrCat("nested deeper than ", limits_.max_depth, " levels");
      return false;
    }
    stack_.push_back(Put(std::move(container)));
    return true;
  }

  const JsonLimits& limits_;
  std::vector<Json*> stack_;
  std::vector<std::unordered_map<std::string, size_t>> keys_;  // of each open object: where a key stands
  std::string key_;
  size_t place_ = 0;  // of key_ in its object
};

Status CheckFinite(const Json& json) {
  if (json.is_number_float() && !std::isfinite(json.get<double>())) {
    return Internal("", "a number that is not finite cannot be written as JSON");
  }
  if (json.is_structured()) {
    for (const Json& child : json) POOLMARK_RETURN_IF_ERROR(CheckFinite(child));
  }
  return absl::OkStatus();
}

// Decodes one code point of valid or invalid UTF-8 at `at`; returns its length, or 0 when invalid.
size_t DecodeUtf8(std::string_view text, size_t at, uint32_t* code) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(at);
  if (first < 0x80) {
    *code = first;
    return 1;
  }
  size_t length = first >= 0xf0 && first <= 0xf4  ? 4
                  : first >= 0xe0 && first < 0xf0 ? 3
                  : first >= 0xc2 && first < 0xe0 ? 2
                                                  : 0;
  if (length == 0 || at + length > text.size()) return 0;
  uint32_t value = first & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
    value = (value << 6) | (byte(at + i) & 0x3fu);
  }
  if ((length == 3 && (value < 0x800 || (value >= 0xd800 && value < 0xe000))) ||
      (length == 4 && (value < 0x10000 || value > 0x10ffff))) {
    return 0;
  }
  *code = value;
  return length;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view where, JsonLimits limits) {
  if (text.size() > limits.max_bytes) {
    return InvalidInput(std::string(where), absl::StrCat("JSON text of ", text.size(), " bytes, at most ",
                                                         limits.max_bytes, " are read"));
  }
  Builder builder(limits);
  bool ok = Json::sax_parse(text.begin(), text.end(), &builder);
  if (!ok) return InvalidInput(std::string(where), absl::StrCat("not valid JSON: ", builder.problem));
  return std::move(builder.root);
}

Result<std::vector<Json>> ParseJsonLines(std::string_view text, std::string_view where, JsonLimits limits) {
  std::vector<Json> rows;
  size_t line = 0;
  while (!text.empty()) {
    ++line;
    size_t end = text.find('\n');
    std::string_view row = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (!row.empty() && row.back() == '\r') row.remove_suffix(1);
    if (row.find_first_not_of(" \t") == row.npos) continue;
    POOLMARK_ASSIGN_OR_RETURN(Json value,
                              ParseJson(row, absl::StrCat(std::string(where), ":", line), limits));
    rows.push_back(std::move(value));
  }
  return rows;
}

Result<std::string> DumpJson(const Json& json, int indent) {
  POOLMARK_RETURN_IF_ERROR(CheckFinite(json));
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string ValidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    uint32_t code = 0;
    size_t length = DecodeUtf8(text, i, &code);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++i;
      // One mark for a whole broken sequence: skip its continuation bytes as Python's decoder mostly does.
      while (i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) ++i;
    } else {
      out.append(text.substr(i, length));
      i += length;
    }
  }
  return out;
}

}  // namespace poolmark

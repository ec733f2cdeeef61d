#include "common/spec/yaml.h"

#include <yaml-cpp/depthguard.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/time_format.h"

namespace poolmark::spec {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr int kMaxDepth = 32;
// Values of one file, those behind an alias counted at each use: nine lists of nine aliases are 400 million.
constexpr int kMaxValues = 100'000;

std::string Short(const std::string& text) {
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

std::string KindOf(const YAML::Node& node) {
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  if (node.IsNull()) return "empty";
  return absl::StrCat("'", Short(node.Scalar()), "'");
}

// What is wrong with the shape of the tree, or nothing. Stops at the first bound it meets.
std::string ShapeError(const YAML::Node& node, int depth, int* values) {
  if (depth > kMaxDepth) return absl::StrCat("is nested deeper than ", kMaxDepth, " levels");
  if (++*values > kMaxValues) {
    return absl::StrCat("holds more than ", kMaxValues, " values, those behind an alias counted at each use");
  }
  std::string error;
  if (node.IsSequence()) {
    for (const auto& child : node) {
      error = ShapeError(child, depth + 1, values);
      if (!error.empty()) return error;
    }
  }
  if (node.IsMap()) {
    for (const auto& member : node) {
      error = ShapeError(member.second, depth + 1, values);
      if (!error.empty()) return error;
    }
  }
  return error;
}

// "file:line" of the first byte that is no UTF-8, or "".
std::string WhereNotUtf8(std::string_view text, const std::string& file) {
  const std::string valid = ValidUtf8(text);
  if (valid == text) return "";
  const auto differs = std::mismatch(text.begin(), text.end(), valid.begin(), valid.end()).first;
  return absl::StrCat(file, ":", 1 + std::count(text.begin(), differs, '\n'));
}

Json ScalarToJson(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text == "true") return true;
  if (text == "false") return false;
  int64_t whole = 0;
  auto parsed = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (!text.empty() && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) {
    if (whole >= 0) return static_cast<uint64_t>(whole);  // as a JSON parser types it
    return whole;
  }
  double number = 0;
  auto floating = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && floating.ec == std::errc() && floating.ptr == text.data() + text.size() &&
      std::isfinite(number)) {
    return number;
  }
  return text;
}

Json NodeToJson(const YAML::Node& node) {
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& member : node) object[member.first.Scalar()] = NodeToJson(member.second);
    return object;
  }
  if (node.IsSequence()) {
    Json array = Json::array();
    for (const auto& child : node) array.push_back(NodeToJson(child));
    return array;
  }
  if (node.IsScalar()) return ScalarToJson(node);
  return nullptr;
}

// The whole text of a scalar as a number within the bounds.
template <typename T>
std::optional<T> Parsed(const YAML::Node& node, T low, T high) {
  if (!node.IsScalar()) return std::nullopt;
  const std::string& text = node.Scalar();
  T number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  if (!(number >= low && number <= high)) return std::nullopt;
  return number;
}

}  // namespace

std::optional<Value> Value::Parse(std::string_view yaml, const std::string& file, Errors* errors) {
  auto fail = [&](std::string where, std::string message) {
    errors->push_back({absl::StatusCode::kInvalidArgument, "yaml", std::move(where), std::move(message), ""});
    return std::nullopt;
  };
  if (yaml.size() > kMaxFileBytes) {
    return fail(file, absl::StrCat(yaml.size(), " bytes, a spec file has at most ", kMaxFileBytes));
  }
  if (yaml.find('\0') != yaml.npos) return fail(file, "is binary, a YAML text is needed");
  if (const std::string where = WhereNotUtf8(yaml, file); !where.empty())
    return fail(where, "is no UTF-8 text");
  try {
    std::vector<YAML::Node> documents = YAML::LoadAll(std::string(yaml));
    if (documents.size() != 1)
      return fail(file, absl::StrCat("has ", documents.size(), " YAML documents, one is needed"));
    int values = 0;
    if (const std::string shape = ShapeError(documents[0], 0, &values); !shape.empty())
      return fail(file, shape);
    return Value(documents[0], "", file, errors);
  } catch (const YAML::DeepRecursion& error) {
    return fail(absl::StrCat(file, ":", error.mark.line + 1, ":", error.mark.column + 1),
                absl::StrCat("is nested deeper than ", kMaxDepth, " levels"));
  } catch (const YAML::Exception& error) {
    return fail(absl::StrCat(file, ":", error.mark.line + 1, ":", error.mark.column + 1),
                absl::StrCat("not valid YAML: ", error.msg));
  } catch (const std::exception& error) {
    return fail(file, absl::StrCat("not valid YAML: ", error.what()));
  }
}

std::string Value::Where() const {
  YAML::Mark mark = node_.Mark();
  std::string where = file_;
  if (!mark.is_null()) absl::StrAppend(&where, ":", mark.line + 1, ":", mark.column + 1);
  if (!path_.empty()) absl::StrAppend(&where, " ", path_);
  return where;
}

void Value::Fail(std::string message, std::string hint) const {
  errors_->push_back(
      {absl::StatusCode::kInvalidArgument, "spec", Where(), std::move(message), std::move(hint)});
}

std::optional<std::string> Value::Text() const {
  if (!node_.IsScalar()) {
    Fail(absl::StrCat("is ", KindOf(node_), ", a text is needed"));
    return std::nullopt;
  }
  return node_.Scalar();
}

std::optional<int64_t> Value::Whole(int64_t low, int64_t high) const {
  const auto number = Parsed(node_, low, high);
  if (!number)
    Fail(absl::StrCat("is ", KindOf(node_), ", a whole number from ", low, " to ", high, " is needed"));
  return number;
}

std::optional<double> Value::Number(double low, double high) const {
  const auto number = Parsed(node_, low, high);
  if (!number) Fail(absl::StrCat("is ", KindOf(node_), ", a number from ", low, " to ", high, " is needed"));
  return number;
}

std::optional<bool> Value::Flag() const {
  if (node_.IsScalar()) {
    if (node_.Scalar() == "true") return true;
    if (node_.Scalar() == "false") return false;
  }
  Fail(absl::StrCat("is ", KindOf(node_), ", true or false is needed"));
  return std::nullopt;
}

std::optional<Nanoseconds> Value::Duration(Nanoseconds low, Nanoseconds high) const {
  if (node_.IsScalar()) {
    auto parsed = ParseDuration(node_.Scalar());
    if (parsed.ok() && *parsed >= low && *parsed <= high) return *parsed;
  }
  Fail(absl::StrCat("is ", KindOf(node_), ", a duration from ", FormatDuration(low), " to ",
                    FormatDuration(high), " is needed"));
  return std::nullopt;
}

std::optional<std::string> Value::OneOf(const std::vector<std::string>& names) const {
  if (node_.IsScalar() && std::find(names.begin(), names.end(), node_.Scalar()) != names.end())
    return node_.Scalar();
  std::string near = node_.IsScalar() ? Nearest(node_.Scalar(), names) : "";
  Fail(absl::StrCat("is ", KindOf(node_), ", one of ", absl::StrJoin(names, ", "), " is needed"),
       near.empty() ? "" : absl::StrCat("did you mean '", near, "'?"));
  return std::nullopt;
}

std::vector<Value> Value::List() const {
  std::vector<Value> values;
  if (!node_.IsSequence()) {
    Fail(absl::StrCat("is ", KindOf(node_), ", a list is needed"));
    return values;
  }
  size_t index = 0;
  for (const auto& child : node_)
    values.emplace_back(child, absl::StrCat(path_, "[", index++, "]"), file_, errors_);
  return values;
}

std::vector<std::string> Value::Texts() const {
  std::vector<std::string> texts;
  if (node_.IsScalar()) return {node_.Scalar()};
  for (const Value& value : List()) {
    if (auto text = value.Text()) texts.push_back(*text);
  }
  return texts;
}

std::map<std::string, std::string> Value::TextMap() const {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : Members()) {
    if (auto text = value.Text()) texts[key] = *text;
  }
  return texts;
}

std::vector<std::pair<std::string, Value>> Value::Members() const {
  std::vector<std::pair<std::string, Value>> members;
  if (!node_.IsMap()) {
    Fail(absl::StrCat("is ", KindOf(node_), ", a map is needed"));
    return members;
  }
  std::set<std::string> seen;
  for (const auto& member : node_) {
    if (!member.first.IsScalar()) {
      Fail("has a key that is no text");
      continue;
    }
    std::string key = member.first.Scalar();
    Value value(member.second, path_.empty() ? key : absl::StrCat(path_, ".", key), file_, errors_);
    if (!seen.insert(key).second) value.Fail("stands twice in this map", "remove one");
    members.emplace_back(key, value);
  }
  return members;
}

Json Value::ToJson() const {
  return NodeToJson(node_);
}

Map::Map(const Value& value) : value_(value), ok_(value.is_map()) {
  if (!ok_) {
    value_.Fail(absl::StrCat("is ", KindOf(value_.node_), ", a map is needed"));
    return;
  }
  std::set<std::string> seen;
  for (const auto& member : value_.node_) {
    if (member.first.IsScalar() && !seen.insert(member.first.Scalar()).second) {
      Value(member.first, value_.path_, value_.file_, value_.errors_)
          .Fail(absl::StrCat("the key '", member.first.Scalar(), "' stands twice"), "remove one");
    }
  }
}

std::optional<Value> Map::Get(const std::string& key) {
  known_.insert(key);
  if (!ok_) return std::nullopt;
  const YAML::Node& node = value_.node_;
  YAML::Node child = node[key];
  if (!child.IsDefined() || child.IsNull()) return std::nullopt;
  return Value(child, value_.path_.empty() ? key : absl::StrCat(value_.path_, ".", key), value_.file_,
               value_.errors_);
}

std::optional<Value> Map::Need(const std::string& key, const std::string& hint) {
  auto value = Get(key);
  if (!value && ok_) value_.Fail(absl::StrCat("'", key, "' is missing"), hint);
  return value;
}

void Map::Finish() {
  if (!ok_) return;
  std::vector<std::string> known(known_.begin(), known_.end());
  for (const auto& member : value_.node_) {
    if (!member.first.IsScalar()) {
      value_.Fail("has a key that is no text");
      continue;
    }
    std::string key = member.first.Scalar();
    if (known_.count(key) != 0) continue;
    Value unknown(member.first, value_.path_.empty() ? key : absl::StrCat(value_.path_, ".", key),
                  value_.file_, value_.errors_);
    std::string near = Nearest(key, known);
    unknown.Fail("unknown key", near.empty() ? absl::StrCat("known here: ", absl::StrJoin(known, ", "))
                                             : absl::StrCat("did you mean '", near, "'?"));
  }
}

void Map::Text(const std::string& key, std::string* out) {
  if (auto value = Get(key)) {
    if (auto text = value->Text()) *out = *text;
  }
}
void Map::Flag(const std::string& key, bool* out) {
  if (auto value = Get(key)) {
    if (auto flag = value->Flag()) *out = *flag;
  }
}
void Map::OneOf(const std::string& key, const std::vector<std::string>& names, std::string* out) {
  if (auto value = Get(key)) {
    if (auto text = value->OneOf(names)) *out = *text;
  }
}
void Map::Duration(const std::string& key, Nanoseconds low, Nanoseconds high, Nanoseconds* out) {
  if (auto value = Get(key)) {
    if (auto duration = value->Duration(low, high)) *out = *duration;
  }
}
void Map::Texts(const std::string& key, std::vector<std::string>* out) {
  if (auto value = Get(key)) *out = value->Texts();
}
void Map::TextMap(const std::string& key, std::map<std::string, std::string>* out) {
  if (auto value = Get(key)) *out = value->TextMap();
}

void CheckVersion(Map* map) {
  auto value = map->Need("version", "write version: 1");
  if (!value) return;
  auto text = value->Text();
  if (text && *text != "1") value->Fail(absl::StrCat("is ", Short(*text), ", this program reads version 1"));
}

std::string Nearest(const std::string& name, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = name.size() <= 3 ? 1 : name.size() / 3 + 1;
  for (const std::string& candidate : known) {
    // Levenshtein distance by rows.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j <= candidate.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size() && name.size() <= 200; ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        size_t above = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1)});
        diagonal = above;
      }
    }
    if (row.back() <= best_distance && !candidate.empty() && name.size() <= 200) {
      if (row.back() < best_distance || best.empty()) best = candidate;
      best_distance = row.back();
    }
  }
  return best;
}

}  // namespace poolmark::spec

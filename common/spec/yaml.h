// Typed access to a YAML document: every error of a file is collected with line and column, unknown keys
// come with a suggestion. The only header that shows yaml-cpp; include it in .cpp files alone.
// Not thread-safe.
#pragma once
#include <yaml-cpp/yaml.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/result.h"

namespace poolmark::spec {

class Map;

// A value and where it stands ("workloads.code.warm_up").
class Value {
 public:
  Value(YAML::Node node, std::string path, std::string file, Errors* errors)
      : node_(std::move(node)), path_(std::move(path)), file_(std::move(file)), errors_(errors) {}

  // Parses a whole file; errors become one entry of `errors`.
  static std::optional<Value> Parse(std::string_view yaml, const std::string& file, Errors* errors);

  bool is_map() const { return node_.IsMap(); }
  bool is_list() const { return node_.IsSequence(); }
  bool is_text() const { return node_.IsScalar(); }
  const std::string& path() const { return path_; }
  // "job.yaml:12:5 workloads.code.warm_up"
  std::string Where() const;
  void Fail(std::string message, std::string hint = "") const;

  // Each of these reports what is wrong and gives nothing.
  std::optional<std::string> Text() const;
  std::optional<int64_t> Whole(int64_t low, int64_t high) const;
  std::optional<double> Number(double low, double high) const;
  std::optional<bool> Flag() const;
  std::optional<Nanoseconds> Duration(Nanoseconds low, Nanoseconds high) const;
  std::optional<std::string> OneOf(const std::vector<std::string>& names) const;
  std::vector<Value> List() const;
  std::vector<std::string> Texts() const;  // a list, or one text
  std::map<std::string, std::string> TextMap() const;
  // The members of a map in file order, for maps whose keys are names.
  std::vector<std::pair<std::string, Value>> Members() const;
  // Scalars that read as numbers or booleans become such; depth is bounded.
  Json ToJson() const;
  const YAML::Node& node() const { return node_; }
  Errors* errors() const { return errors_; }

 private:
  friend class Map;
  YAML::Node node_;
  std::string path_;
  std::string file_;
  Errors* errors_;
};

// A map with known keys: call Get for each, then Finish() to refuse the rest.
class Map {
 public:
  explicit Map(const Value& value);
  // The value, or nothing when absent or null.
  std::optional<Value> Get(const std::string& key);
  // As Get, and an error when absent.
  std::optional<Value> Need(const std::string& key, const std::string& hint = "");
  void Finish();
  bool ok() const { return ok_; }
  const Value& value() const { return value_; }

  // Shorthands that leave `out` alone when the key is absent or wrong.
  void Text(const std::string& key, std::string* out);
  void Flag(const std::string& key, bool* out);
  void OneOf(const std::string& key, const std::vector<std::string>& names, std::string* out);
  void Duration(const std::string& key, Nanoseconds low, Nanoseconds high, Nanoseconds* out);
  void Texts(const std::string& key, std::vector<std::string>* out);
  void TextMap(const std::string& key, std::map<std::string, std::string>* out);
  template <class Int>
  void Whole(const std::string& key, int64_t low, int64_t high, Int* out) {
    if (auto value = Get(key)) {
      if (auto number = value->Whole(low, high)) *out = static_cast<typename Unwrap<Int>::type>(*number);
    }
  }

 private:
  template <class T>
  struct Unwrap {
    using type = T;
  };
  template <class T>
  struct Unwrap<std::optional<T>> {
    using type = T;
  };
  Value value_;
  bool ok_;
  std::set<std::string> known_;
};

// Checks `version: 1` and reports anything else.
void CheckVersion(Map* map);
// The nearest of `known` to `name` for "did you mean", or "".
std::string Nearest(const std::string& name, const std::vector<std::string>& known);

}  // namespace poolmark::spec

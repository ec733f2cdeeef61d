// What the files of agent/process that read allow.yaml have in common: values with their place, and all
// errors at once. Not thread-safe; internal to agent/process.
#pragma once
#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/result.h"

namespace poolmark::process {

// Absolute, without empty parts, "." and "..".
inline bool IsPlainAbsolute(const std::string& path) {
  if (path.empty() || path[0] != '/') return false;
  for (const auto& part : absl::StrSplit(path.substr(1), '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

// With the line to add in `hint`.
inline Status NotAllowed(const std::string& where, const std::string& message, const std::string& hint) {
  return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "not_allowed", where, message, hint});
}

class AllowReader {
 public:
  explicit AllowReader(const std::string& where) : where_(where) {}

  void Fail(const YAML::Node& node, const std::string& message, const std::string& hint = "") {
    std::string place = where_;
    if (node.Mark().line >= 0)
      absl::StrAppend(&place, ":", node.Mark().line + 1, ":", node.Mark().column + 1);
    errors.push_back(Error{absl::StatusCode::kInvalidArgument, "allow_list", place, message, hint});
  }
  std::string Text(const YAML::Node& node, const std::string& what) {
    if (node.IsScalar() && !node.Scalar().empty()) return node.Scalar();
    Fail(node, what + " must be a text");
    return "";
  }
  std::string Path(const YAML::Node& node, const std::string& what) {
    std::string path = Text(node, what);
    if (!path.empty() && !IsPlainAbsolute(path)) {
      Fail(node, what + " '" + path + "' must be an absolute path without '.' and '..'");
    }
    return path;
  }
  std::vector<std::string> Paths(const YAML::Node& node, const std::string& what) {
    std::vector<std::string> paths;
    if (!node.IsSequence()) {
      Fail(node, what + " must be a list");
      return paths;
    }
    for (const YAML::Node& entry : node) paths.push_back(Path(entry, what));
    return paths;
  }

  Errors errors;

 private:
  std::string where_;
};

}  // namespace poolmark::process

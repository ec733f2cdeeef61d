// JSON in and out, strict. Behind it: nlohmann::ordered_json (include <nlohmann/json.hpp> only in .cpp
// files: it costs 6 s of compiler time each). Functions are pure and thread-safe.
#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace poolmark {

using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_bytes = 64u << 20;
  int max_depth = 64;
  bool reject_duplicate_keys = true;
};

// Strict RFC 8259: no NaN, no Infinity, no comments, no trailing text. `where` (file, or file:line)
// leads the error, which gives the byte offset. Lone surrogates (\ud800) are refused.
Result<Json> ParseJson(std::string_view text, std::string_view where = "", JsonLimits limits = {});

// One object per line. Blank lines are skipped. The error names "where:line".
Result<std::vector<Json>> ParseJsonLines(std::string_view text, std::string_view where,
                                         JsonLimits limits = {});

// Refuses NaN and Infinity; invalid UTF-8 in strings becomes U+FFFD. indent < 0: one line, ", " and ": "
// are not used (compact).
Result<std::string> DumpJson(const Json& json, int indent = -1);

// The bytes of Python's json.dumps(value, sort_keys=sort_keys): ", " and ": ", ASCII only (\uXXXX with
// surrogate pairs), floats as Python's repr, keys in code-point order. Digests are taken over it
// (decisions Q2). NaN and Infinity are refused.
Result<std::string> PythonDumps(const Json& json, bool sort_keys = true);

// repr(float) of Python: shortest text that reads back, "1.0", "1e-07", "1e+16".
std::string PythonFloat(double value);

// Replaces invalid UTF-8 (lone surrogates, overlong forms, NULs kept) by U+FFFD, as Python's "replace".
std::string ValidUtf8(std::string_view text);

}  // namespace poolmark

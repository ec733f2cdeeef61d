// The text of our JSON files: strict JSON in UTF-8, spaced like Python's json.dumps (", " and ": "), floats
// as Python's repr, so that files grep alike whoever wrote them. For digests use PythonDumps
// (common/base/json.h). Pure, thread-safe.
#pragma once
#include <string>

#include "common/base/json.h"
#include "common/base/result.h"

namespace poolmark::quality {

// One line without a line end (indent 0), or indented by `indent` spaces a level. Numbers that are not finite
// are refused; invalid UTF-8 becomes U+FFFD.
Result<std::string> WriteJson(const Json& json, int indent = 0);

// Makes foreign JSON text readable by the strict parser without changing what it says: invalid UTF-8 and
// escaped lone surrogates ("\ud800") become U+FFFD. Python programs write the latter.
std::string RepairJsonText(std::string_view text);

}  // namespace poolmark::quality

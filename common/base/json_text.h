// JSON text spaced like Python's json.dumps (", " and ": "), floats as Python's repr, in UTF-8, so that files
// grep alike whoever wrote them. The ASCII form that digests are taken over is PythonDumps (json.h). Pure,
// thread-safe.
#pragma once
#include <string>

#include "common/base/json.h"
#include "common/base/result.h"

namespace poolmark {

// One line without a line end (indent 0), or indented by `indent` spaces a level. Numbers that are not finite
// are refused; invalid UTF-8 becomes U+FFFD.
Result<std::string> WriteJson(const Json& json, int indent = 0);

}  // namespace poolmark

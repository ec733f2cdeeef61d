// The error for a machine that the registry does not know. For its own sources.
#pragma once
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/result.h"

namespace poolmark::controller {

inline Status UnknownMachine(const std::string& name) {
  return NotFound(absl::StrCat("machine '", name, "'"), "no such machine",
                  "list them with `poolmark machines`");
}

}  // namespace poolmark::controller

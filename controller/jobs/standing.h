// What keeps a machine out: the state that somebody gave it, and the jobs whose tear-down on it is not
// proven. Each of these stays until its own end comes: the first is taken back by hand, the second by the
// proof. Pure.
#pragma once
#include <string>

#include "absl/strings/str_cat.h"

namespace poolmark::controller {

// In a query over machines: what jobs left unproven there; NULL: nothing.
inline constexpr char kUnproven[] = "(SELECT group_concat(why, '; ') FROM unproven WHERE machine=name)";

struct Standing {
  std::string state;
  std::string reason;
};
inline Standing StandingOf(const std::string& given, const std::string& reason, const std::string& unproven) {
  if (unproven.empty()) return {given, reason};
  return {given == "REVOKED" ? given : "QUARANTINED",
          reason.empty() ? unproven : absl::StrCat(reason, "; ", unproven)};
}

}  // namespace poolmark::controller

#include "common/rpc/rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/rpc_list.h"

namespace poolmark::rpc {
namespace {

#define POOLMARK_CHECK_RULE(method)                                                     \
  static_assert(FindRule(method) != nullptr, "RPC " method                              \
                                             " has no rule: add roles and deadline in " \
                                             "rules.h");
POOLMARK_RPCS(POOLMARK_CHECK_RULE)
#undef POOLMARK_CHECK_RULE

#define POOLMARK_COUNT(method) +1
static_assert(kRules.size() == 0 POOLMARK_RPCS(POOLMARK_COUNT), "a rule in rules.h names no RPC");
#undef POOLMARK_COUNT

constexpr std::string_view kPackage = "/poolmark.v1.";
constexpr std::string_view kHealth = "/grpc.health.v1.Health/";

const Rule* RuleOfPath(std::string_view path) {
  if (path.substr(0, kPackage.size()) != kPackage) return nullptr;
  return FindRule(path.substr(kPackage.size()));
}

bool IsHealth(std::string_view path) {
  return path.substr(0, kHealth.size()) == kHealth &&
         (path.substr(kHealth.size()) == "Check" || path.substr(kHealth.size()) == "Watch");
}

}  // namespace

bool IsAllowed(std::string_view path, Role role) {
  if (IsHealth(path)) return role != Role::kNone;
  const Rule* rule = RuleOfPath(path);
  if (rule == nullptr) return false;
  if ((rule->roles & kAnyone) != 0) return true;
  return role != Role::kNone && (rule->roles & Bits(role)) != 0;
}

bool IsAudited(std::string_view path) {
  const Rule* rule = RuleOfPath(path);
  return rule != nullptr && rule->audited;
}

bool IsOpenToAnyone(std::string_view path) {
  const Rule* rule = RuleOfPath(path);
  return IsHealth(path) || (rule != nullptr && (rule->roles & kAnyone) != 0);
}

Status CheckAllowed(std::string_view path, Role role) {
  if (IsAllowed(path, role)) return absl::OkStatus();
  std::string who;
  const Rule* rule = RuleOfPath(path);
  if (rule != nullptr) {
    for (unsigned bit = 1; bit <= Bits(Role::kController); bit <<= 1) {
      if ((rule->roles & bit) == 0) continue;
      absl::StrAppend(&who, who.empty() ? "" : ", ", RoleName(static_cast<Role>(bit)));
    }
  }
  return ToStatus(Error{absl::StatusCode::kPermissionDenied, "role", "",
                        absl::StrCat("role '", RoleName(role), "' may not call ", std::string(path)),
                        who.empty() ? "no role may" : absl::StrCat("roles that may: ", who)});
}

}  // namespace poolmark::rpc

#include "common/rpc/token.h"

#include <algorithm>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/units.h"
#include "common/rpc/address.h"

namespace poolmark::rpc {
namespace {

constexpr char kPrefix[] = "pmk1-";

bool IsHex(const std::string& text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string FormatToken(const EnrollToken& token) {
  std::string plain = absl::StrCat(token.address, "\n", token.ca_sha256, "\n", token.name, "\n",
                                   RoleName(token.role), "\n", token.secret);
  return kPrefix + absl::WebSafeBase64Escape(plain);
}

Result<EnrollToken> ParseToken(std::string_view given) {
  const Status bad = InvalidInput("token", "it is no enrolment token, or not whole",
                                  "copy the whole word that 'poolmark-controller token create' printed");
  std::string text(given);
  constexpr size_t kPrefixSize = sizeof kPrefix - 1;
  std::string plain;
  if (text.size() > 4096 || text.rfind(kPrefix, 0) != 0 ||
      !absl::WebSafeBase64Unescape(text.substr(kPrefixSize), &plain))
    return bad;
  std::vector<std::string> parts = absl::StrSplit(plain, '\n');
  if (parts.size() != 5) return bad;
  EnrollToken token{parts[0], parts[1], parts[2], ParseRole(parts[3]).value_or(Role::kNone), parts[4]};
  if (!ParseHostPort(token.address).ok() || !IsHex(token.ca_sha256, 64) || !IsName(token.name) ||
      token.role == Role::kNone || !IsHex(token.secret, 32)) {
    return bad;
  }
  return token;
}

}  // namespace poolmark::rpc

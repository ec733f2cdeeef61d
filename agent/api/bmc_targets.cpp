#include "agent/api/bmc_targets.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/process/allow_list.h"

namespace poolmark::agent {
namespace {

struct Asked {
  std::string login;
  std::string address;
};

// "<scheme>login@address[/redfish/…]": nothing else, so that what is compared is what will be dialled.
Result<Asked> ReadUrl(const v1::ScrapeTarget& target, const std::string& scheme) {
  const std::string& url = target.url();
  const size_t start = scheme.size();
  const size_t at = url.find('@');
  const size_t slash = std::min(url.find('/', std::min(start, url.size())), url.size());
  if (!absl::StartsWith(url, scheme) || at == std::string::npos || at > slash ||
      url.find('@', at + 1) != std::string::npos || url.find_first_of("?#\\ ") != std::string::npos) {
    return InvalidInput(target.source(), absl::StrCat("'", url, "' is no address of a BMC"),
                        absl::StrCat("write ", scheme, "login@address"));
  }
  return Asked{url.substr(start, at - start), url.substr(at + 1, slash - at - 1)};
}

}  // namespace

Status CheckBmcTargets(const std::string& allow_file, std::vector<v1::ScrapeTarget>* targets) {
  Errors errors;
  for (v1::ScrapeTarget& target : *targets) {
    const bool redfish = target.dialect() == "redfish";
    if ((!redfish && target.dialect() != "ipmi-dcmi") || target.url() == "ipmi://local") continue;
    POOLMARK_ASSIGN_OR_RETURN(const auto allow, process::AllowList::Load(allow_file));
    const auto asked = ReadUrl(target, redfish ? "https://" : "ipmi://");
    const auto bmc = asked.ok() ? allow.Bmc(redfish ? "redfish" : "ipmitool", asked->address, asked->login)
                                : Result<process::BmcLogin>(asked.status());
    if (!bmc.ok()) {
      errors.push_back(ErrorOf(bmc.status()));
    } else if (redfish && !bmc->verify) {
      target.set_url(absl::StrCat(target.url(), "?verify=no"));
    }
  }
  return errors.empty() ? absl::OkStatus() : ToStatus(errors);
}

}  // namespace poolmark::agent

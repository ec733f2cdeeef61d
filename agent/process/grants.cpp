#include "agent/process/grants.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/process/allow_reader.h"
#include "common/base/secrets.h"

namespace poolmark::process {
namespace {

// "sub.host", "10.9.0.1:443", "[fd00::9]:443": no word that a tool could take for an option or a path.
bool IsAddress(const std::string& address) {
  return !address.empty() && address.size() <= 255 && address[0] != '-' &&
         std::all_of(address.begin(), address.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                  c == '-' || c == ':' || c == '[' || c == ']';
         });
}

}  // namespace

void Grants::ReadSecrets(const YAML::Node& node, AllowReader* reader,
                         const std::function<bool(const std::string& program)>& is_known) {
  for (const auto& one : node) {
    const std::string secret = one.first.Scalar();
    if (!IsSecretName(secret)) reader->Fail(one.first, "'" + secret + "' is no name of a secret");
    if (!one.second.IsSequence()) {
      reader->Fail(one.second, "secret " + secret + " must have a list of programs and images");
      continue;
    }
    std::vector<std::string>& programs = secrets_[secret];
    for (const YAML::Node& entry : one.second) {
      const std::string program = reader->Text(entry, "program of secret " + secret);
      if (program.empty()) continue;
      if (!is_known(program)) {
        reader->Fail(entry, "'" + program + "' is no name of 'executables:' and no image of 'images:'",
                     "write a name as it stands there");
      }
      programs.push_back(program);
    }
  }
}

void Grants::ReadBmcs(const YAML::Node& node, AllowReader* reader) {
  for (const YAML::Node& one : node) {
    if (!one.IsMap()) {
      reader->Fail(one, "a BMC must be {address: …, kind: redfish or ipmitool, login: name of a secret}");
      continue;
    }
    BmcLogin bmc;
    for (const auto& field : one) {
      const std::string key = field.first.Scalar();
      if (key == "address") {
        bmc.address = reader->Text(field.second, "address of a BMC");
        if (!bmc.address.empty() && !IsAddress(bmc.address))
          reader->Fail(field.second, "'" + bmc.address + "' is no address", "host or host:port");
      } else if (key == "kind") {
        bmc.kind = reader->Text(field.second, "kind of a BMC");
        if (!bmc.kind.empty() && bmc.kind != "redfish" && bmc.kind != "ipmitool")
          reader->Fail(field.second, "kind '" + bmc.kind + "' is not known", "known: redfish, ipmitool");
      } else if (key == "login") {
        bmc.login = reader->Text(field.second, "login of a BMC");
        if (!bmc.login.empty() && !IsSecretName(bmc.login))
          reader->Fail(field.second, "'" + bmc.login + "' is no name of a secret");
      } else if (key == "verify") {
        const std::string verify = reader->Text(field.second, "verify of a BMC");
        if (verify != "true" && verify != "false")
          reader->Fail(field.second, "verify '" + verify + "' must be true or false");
        bmc.verify = verify != "false";
      } else {
        reader->Fail(field.first, "unknown key '" + key + "'", "known: address, kind, login, verify");
      }
    }
    if (bmc.address.empty() || bmc.kind.empty() || bmc.login.empty())
      reader->Fail(one, "a BMC must have address, kind and login");
    if (!bmc.verify && bmc.kind == "ipmitool")
      reader->Fail(one, "verify is about a certificate, which ipmitool does not see", "take it out");
    bmcs_.push_back(std::move(bmc));
  }
}

Status Grants::Secret(const std::string& secret, const std::vector<std::string>& names) const {
  const auto found = secrets_.find(secret);
  const std::vector<std::string> given = found == secrets_.end() ? std::vector<std::string>() : found->second;
  for (const std::string& name : names) {
    if (std::find(given.begin(), given.end(), name) != given.end()) return absl::OkStatus();
  }
  // A program that is asked for by its path is listed by its name.
  const bool path = names[0].starts_with("/");
  std::vector<std::string> wanted = given;
  wanted.push_back(path && names.size() > 1 ? names[1] : names[0]);
  return NotAllowed(where_,
                    absl::StrCat("secret '", secret, "' is not given to '", names[0], "' on this machine"),
                    absl::StrCat(given.empty() ? "add below" : "write below", " 'secrets:' the line \"  ",
                                 secret, ": [", absl::StrJoin(wanted, ", "), "]\""));
}

Result<BmcLogin> Grants::Bmc(const std::string& kind, const std::string& address,
                             const std::string& login) const {
  for (const BmcLogin& bmc : bmcs_) {
    if (bmc.kind == kind && bmc.address == address && bmc.login == login) return bmc;
  }
  const std::string quote = address.starts_with("[") ? "'" : "";
  return NotAllowed(where_,
                    absl::StrCat("BMC login '", login, "' may not be sent to ", address, " by ", kind,
                                 " from this machine"),
                    absl::StrCat("add below 'bmc:' the line \"  - {address: ", quote, address, quote,
                                 ", kind: ", kind, ", login: ", login, "}\""));
}

}  // namespace poolmark::process

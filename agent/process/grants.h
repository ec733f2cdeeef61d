// Who may have a machine's secrets, as its administrator says in allow.yaml: programs and images by secret,
// and BMC logins by the one address and kind that each may be sent to. Nobody has what is not listed,
// whatever a job or a controller names. No values are here. A value; thread-safe. Used through AllowList.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace YAML {
class Node;
}

namespace poolmark::process {

class AllowReader;

struct BmcLogin {
  std::string kind;     // "redfish" or "ipmitool"
  std::string address;  // host or host:port, as the pool file writes it
  std::string login;    // name of a secret "user:password"
  bool verify = true;   // redfish: the BMC's certificate
};

class Grants {
 public:
  explicit Grants(std::string where) : where_(std::move(where)) {}

  // Errors go to the reader. `is_known`: does the file allow this executable or image?
  void ReadSecrets(const YAML::Node& node, AllowReader* reader,
                   const std::function<bool(const std::string& program)>& is_known);
  void ReadBmcs(const YAML::Node& node, AllowReader* reader);

  // `names`: all names of one program, the one that the job uses first. FAILED_PRECONDITION (code
  // "not_allowed") with the line to write.
  Status Secret(const std::string& secret, const std::vector<std::string>& names) const;
  Result<BmcLogin> Bmc(const std::string& kind, const std::string& address, const std::string& login) const;

  const std::map<std::string, std::vector<std::string>>& secrets() const { return secrets_; }
  const std::vector<BmcLogin>& bmcs() const { return bmcs_; }

 private:
  std::string where_;
  std::map<std::string, std::vector<std::string>> secrets_;  // secret -> programs and images
  std::vector<BmcLogin> bmcs_;
};

}  // namespace poolmark::process

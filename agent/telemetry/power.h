// Node power at the BMC: ipmitool's DCMI reading and Redfish. Parsers are pure. A BMC that answers nonsense
// (a short reply printed with exit code 0, 0 W, a deactivated sensor without watts) is "not measured".
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/facts/command.h"
#include "common/base/measured.h"
#include "common/http/client.h"

namespace poolmark::agent {

struct DcmiReading {
  uint64_t watts = 0, minimum = 0, maximum = 0, average = 0;
  bool activated = false;
};
// `ipmitool dcmi power reading`: watts, or why not.
Measured<DcmiReading> ParseDcmi(std::string_view out);

// Redfish, in the order of preference: EnvironmentMetrics, Power, a chassis power sensor.
Measured<double> EnvironmentPower(std::string_view json);  // PowerWatts.Reading
Measured<double> ControlPower(
    std::string_view json);  // PowerControl[].PowerConsumedWatts, and known OEM members
// Members of a collection: paths.
std::vector<std::string> CollectionMembers(std::string_view json);

// One BMC. Remembers which resource answered. Blocking; not thread-safe.
class RedfishPower {
 public:
  // `base`: "https://address[:port]" or down to a chassis; `login`: "user:password" or empty.
  RedfishPower(http::Client* client, http::Url base, std::string login, bool verify);
  Measured<double> Read(Nanoseconds timeout);
  const std::string& resource() const { return resource_; }  // "" before the first reading

 private:
  Result<std::string> Get(const std::string& path, Nanoseconds timeout);
  Result<std::string> FindChassis(Nanoseconds timeout);
  http::Client* client_;
  http::Url base_;
  std::string login_;
  bool verify_;
  std::string chassis_;
  std::string resource_;
};

// ipmitool in band ("ipmi://local") or over the network with a login "user:password"; the password goes by
// environment, never argv, and a login that is not of that form is not used.
class IpmiPower {
 public:
  IpmiPower(Spawner* spawner, std::string address, std::string login);
  Measured<double> Read(Nanoseconds timeout);

 private:
  Spawner* spawner_;
  std::string address_;  // "" : in band
  std::string login_;
  std::optional<uint64_t> deactivated_watts_;  // last reading of a "deactivated" sensor
};

}  // namespace poolmark::agent

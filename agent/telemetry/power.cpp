#include "agent/telemetry/power.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "agent/facts/text.h"
#include "common/base/json.h"

namespace poolmark::agent {
namespace {

constexpr double kMostWatts = 65534;  // DCMI has 16 bits; no machine draws more

// "Instantaneous power reading:     412 Watts".
std::optional<uint64_t> WattsLine(std::string_view line, std::string_view name) {
  if (line.substr(0, name.size()) != name) return std::nullopt;
  const auto fields = Fields(line.substr(name.size()));
  return fields.size() == 2 && fields[1] == "Watts" ? ToUint(fields[0]) : std::nullopt;
}

Result<Json> Object(std::string_view text) {
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(Trim(text), "redfish", {4u << 20, 32, false}));
  if (!json.is_object()) return InvalidInput("redfish", "no JSON object");
  return json;
}

const Json* Find(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  for (const char* key : path) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

Measured<double> Watts(const Json* value, const std::string& what) {
  if (value == nullptr) return NotMeasured{"the BMC has no " + what};
  if (!value->is_number()) return NotMeasured{"the BMC gives no number as " + what};
  const double watts = value->get<double>();
  if (!(watts > 0) || watts > kMostWatts)
    return NotMeasured{absl::StrCat("the BMC says ", watts, " W (", what, ")")};
  return watts;
}

}  // namespace

Measured<DcmiReading> ParseDcmi(std::string_view out) {
  DcmiReading reading;
  bool now = false, minimum = false, maximum = false, average = false, state = false;
  const auto take = [](std::optional<uint64_t> value, uint64_t* into, bool* seen) {
    if (!value) return;
    *into = *value;
    *seen = true;
  };
  for (std::string_view raw : Lines(out)) {
    const std::string_view line = Trim(raw);
    take(WattsLine(line, "Instantaneous power reading:"), &reading.watts, &now);
    take(WattsLine(line, "Minimum during sampling period:"), &reading.minimum, &minimum);
    take(WattsLine(line, "Maximum during sampling period:"), &reading.maximum, &maximum);
    take(WattsLine(line, "Average power reading over sample period:"), &reading.average, &average);
    if (line.substr(0, 23) == "Power reading state is:") {
      state = true;
      reading.activated = Trim(line.substr(23)) == "activated";
    }
  }
  if (!now || !minimum || !maximum || !average || !state)
    return NotMeasured{"ipmitool printed no complete power reading"};
  if (reading.watts == 0) return NotMeasured{"the BMC says 0 W"};
  if (static_cast<double>(reading.watts) > kMostWatts)
    return NotMeasured{absl::StrCat("the BMC says ", reading.watts, " W")};
  // ipmitool 1.8.19 prints uninitialised memory when a BMC sends a short reply
  if (reading.maximum > 0 && (reading.watts < reading.minimum || reading.watts > reading.maximum)) {
    return NotMeasured{absl::StrCat("the BMC's reading is inconsistent: ", reading.watts, " W, but ",
                                    reading.minimum, " to ", reading.maximum, " W in its period")};
  }
  return reading;
}

Measured<double> EnvironmentPower(std::string_view text) {
  const auto json = Object(text);
  if (!json.ok()) return NotMeasured{std::string(json.status().message())};
  return Watts(Find(*json, {"PowerWatts", "Reading"}), "PowerWatts.Reading");
}

Measured<double> ControlPower(std::string_view text) {
  const auto json = Object(text);
  if (!json.ok()) return NotMeasured{std::string(json.status().message())};
  Measured<double> best = NotMeasured{"the BMC has no PowerControl"};
  const Json* controls = Find(*json, {"PowerControl"});
  if (controls != nullptr && controls->is_array()) {
    // Several members are parts of one chassis: the one for the whole comes first or says Chassis.
    for (const Json& control : *controls) {
      if (!control.is_object()) continue;
      const Measured<double> watts = Watts(Find(control, {"PowerConsumedWatts"}), "PowerConsumedWatts");
      const Json* context = Find(control, {"PhysicalContext"});
      const bool whole =
          context != nullptr && context->is_string() && context->get<std::string>() == "Chassis";
      if (watts.has_value() && (whole || !best.has_value())) best = watts;
      if (!watts.has_value() && !best.has_value()) best = watts;
      if (watts.has_value() && whole) break;
    }
  }
  if (best.has_value()) return best;
  // Fujitsu keeps it in its own part
  const Json* fujitsu =
      Find(*json, {"Oem", "ts_fujitsu", "ChassisPowerConsumption", "CurrentPowerConsumptionW"});
  return fujitsu != nullptr ? Watts(fujitsu, "ChassisPowerConsumption") : best;
}

std::vector<std::string> CollectionMembers(std::string_view text) {
  std::vector<std::string> paths;
  const auto json = Object(text);
  if (!json.ok()) return paths;
  const Json* members = Find(*json, {"Members"});
  if (members == nullptr || !members->is_array()) return paths;
  for (const Json& member : *members) {
    const Json* id = member.is_object() ? Find(member, {"@odata.id"}) : nullptr;
    // only paths of this very BMC: a hostile answer must not send the login elsewhere
    if (id != nullptr && id->is_string() && id->get<std::string>().rfind("/redfish/", 0) == 0)
      paths.push_back(id->get<std::string>());
  }
  return paths;
}

RedfishPower::RedfishPower(http::Client* client, http::Url base, std::string login, bool verify)
    : client_(client), base_(std::move(base)), login_(std::move(login)), verify_(verify) {
  if (base_.target.rfind("/redfish/v1/Chassis/", 0) == 0) chassis_ = base_.target;
  while (chassis_.size() > 1 && chassis_.back() == '/') chassis_.pop_back();
}

Result<std::string> RedfishPower::Get(const std::string& path, Nanoseconds timeout) {
  http::Request request;
  request.url = base_;
  request.url.target = path;
  request.timeout = timeout;
  request.max_body_bytes = 4u << 20;
  request.headers.emplace_back("Accept", "application/json");
  if (!login_.empty()) request.headers.emplace_back("Authorization", "Basic " + absl::Base64Escape(login_));
  request.tls.verify = verify_;
  POOLMARK_ASSIGN_OR_RETURN(http::Response response, client_->Send(request));
  if (response.status == 404) return NotFound(path, "the BMC has no such resource");
  if (response.status != 200)
    return Unavailable(path, absl::StrCat("the BMC answered with status ", response.status));
  return std::move(response.body);
}

// The system's own chassis: baseboards (HGX_...) are inside it, and their power is in its power.
Result<std::string> RedfishPower::FindChassis(Nanoseconds timeout) {
  POOLMARK_ASSIGN_OR_RETURN(const std::string chassis, Get("/redfish/v1/Chassis", timeout));
  std::vector<std::string> members = CollectionMembers(chassis);
  if (members.empty()) return NotFound("/redfish/v1/Chassis", "the BMC lists no chassis");
  std::stable_partition(members.begin(), members.end(), [](const std::string& path) {
    const std::string name = path.substr(path.find_last_of('/') + 1);
    return name.rfind("HGX", 0) != 0 && name.rfind("GPU", 0) != 0;
  });
  for (const std::string& member : members) {
    for (const char* resource : {"/EnvironmentMetrics", "/Power"}) {
      const auto text = Get(member + resource, timeout);
      if (!text.ok()) continue;
      const Measured<double> watts =
          std::string_view(resource) == "/Power" ? ControlPower(*text) : EnvironmentPower(*text);
      if (watts.has_value()) return member;
    }
  }
  return members.front();
}

Measured<double> RedfishPower::Read(Nanoseconds timeout) {
  if (chassis_.empty()) {
    auto found = FindChassis(timeout);
    if (!found.ok()) return NotMeasured{std::string(found.status().message())};
    chassis_ = *found;
  }
  std::string reasons;
  for (const char* resource : {"/EnvironmentMetrics", "/Power", "/Sensors/TotalPower"}) {
    // once a resource has answered, only that one is asked: two of them may differ
    if (!resource_.empty() && resource_ != chassis_ + resource) continue;
    const auto text = Get(chassis_ + resource, timeout);
    Measured<double> watts = NotMeasured{text.ok() ? "" : std::string(text.status().message())};
    if (text.ok()) {
      if (std::string_view(resource) == "/EnvironmentMetrics") {
        watts = EnvironmentPower(*text);
      } else if (std::string_view(resource) == "/Power") {
        watts = ControlPower(*text);
      } else if (const auto json = Object(*text); json.ok()) {
        const Json* type = Find(*json, {"ReadingType"});
        if (type != nullptr && *type == "Power")
          watts = Watts(Find(*json, {"Reading"}), "TotalPower.Reading");
      }
    }
    if (watts.has_value()) {
      resource_ = chassis_ + resource;
      return watts;
    }
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", watts.reason());
  }
  return NotMeasured{reasons};
}

IpmiPower::IpmiPower(Spawner* spawner, std::string address, std::string login)
    : spawner_(spawner), address_(std::move(address)), login_(std::move(login)) {}

Measured<double> IpmiPower::Read(Nanoseconds timeout) {
  Command command;
  command.argv = {"ipmitool"};
  if (!address_.empty()) {
    const size_t colon = login_.find(':');
    // The part before it stands on a command line that every user of the machine can read.
    if (colon == std::string::npos || colon == 0)
      return NotMeasured{"the BMC's login is not of the form user:password"};
    command.argv.insert(command.argv.end(), {"-I", "lanplus", "-H", address_, "-U", login_.substr(0, colon),
                                             "-E", "-N", "1", "-R", "1"});
    command.env["IPMI_PASSWORD"] = login_.substr(colon + 1);
  }
  command.argv.insert(command.argv.end(), {"dcmi", "power", "reading"});
  command.max_output_bytes = 64u << 10;
  const auto output = RunCommand(*spawner_, command, timeout);
  if (!output.ok()) return NotMeasured{std::string(output.status().message())};
  if (!output->ok()) return NotMeasured{Describe(command, *output)};
  const Measured<DcmiReading> reading = ParseDcmi(output->out);
  if (!reading.has_value()) return NotMeasured{reading.reason()};
  if (!(*reading).activated) {
    // OpenBMC says "deactivated" with valid watts: believed once a second reading agrees that it is alive
    const bool second = deactivated_watts_.has_value();
    deactivated_watts_ = (*reading).watts;
    if (!second) return NotMeasured{"the BMC says 'deactivated'; a second reading is needed"};
  }
  return static_cast<double>((*reading).watts);
}

}  // namespace poolmark::agent

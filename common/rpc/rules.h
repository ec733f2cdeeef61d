// One row for each RPC: who may call it and how long a call may take. Deny by default: what has no row is
// refused. Rows are checked against the .proto files at compile time (rules.cpp). Constant data.
#pragma once
#include <array>
#include <chrono>
#include <string_view>

#include "common/rpc/identity.h"

namespace poolmark::rpc {

using Roles = unsigned;  // bits of Role
constexpr Roles Bits(Role role) {
  return static_cast<Roles>(role);
}

inline constexpr Roles kAdmins = Bits(Role::kAdmin);
inline constexpr Roles kOperators = kAdmins | Bits(Role::kOperator);
inline constexpr Roles kSubmitters = kOperators | Bits(Role::kAutomation);
inline constexpr Roles kReaders = kSubmitters | Bits(Role::kViewer);
inline constexpr Roles kAgents = Bits(Role::kAgent);
inline constexpr Roles kControllers = Bits(Role::kController);
inline constexpr Roles kEveryRole = kReaders | kAgents | kControllers;
// Callable without any certificate; only the enrolment listener serves such calls.
inline constexpr Roles kAnyone = 1u << 31;

struct Rule {
  std::string_view method;  // "ControllerService/GetJob"
  Roles roles;
  std::chrono::seconds deadline;  // 0: a stream that follows; keep-alive ends it, not a deadline
  bool audited = false;           // it changes something: a line in the audit log for each call
};

using std::chrono_literals::operator""s;
inline constexpr std::chrono::seconds kFollows = 0s;

inline constexpr auto kRules = std::to_array<Rule>({
    {"ControllerService/UploadInput", kSubmitters, 3600s},
    {"ControllerService/SubmitJob", kSubmitters, 30s, true},
    {"ControllerService/ValidateJob", kSubmitters, 30s},
    {"ControllerService/GetJob", kReaders, 10s},
    {"ControllerService/ListJobs", kReaders, 10s},
    {"ControllerService/WatchJob", kReaders, kFollows},
    {"ControllerService/CancelJob", kSubmitters, 10s, true},  // of others: MayChangeJobOf
    {"ControllerService/DeleteJob", kSubmitters, 60s, true},  // of others: MayChangeJobOf
    {"ControllerService/StreamLogs", kReaders, kFollows},
    {"ControllerService/ListResultFiles", kReaders, 60s},
    {"ControllerService/FetchResults", kReaders, 3600s},
    {"ControllerService/ListMachines", kReaders, 10s},
    {"ControllerService/SetMachineState", kOperators, 10s, true},  // revoke: MayRevoke
    {"ControllerService/ListStacks", kReaders, 10s},
    {"ControllerService/GetVersion", kReaders | kAgents, 10s},
    {"ControllerService/RenewCertificate", kReaders | kAgents, 10s, true},
    {"EnrollService/Enroll", kAnyone, 30s, true},
    {"AgentRegistryService/Register", kAgents, 10s, true},
    {"AgentRegistryService/Heartbeat", kAgents, 5s},
    {"AgentService/AcquireLease", kControllers, 10s, true},
    {"AgentService/GetFacts", kControllers, 240s},
    {"AgentService/RunChecks", kControllers, 180s},
    {"AgentService/MeasureLine", kControllers, 90s},
    {"AgentService/StartProcess", kControllers, 30s, true},
    {"AgentService/WatchProcesses", kControllers, kFollows},
    {"AgentService/StopProcess", kControllers, 90s, true},
    {"AgentService/StreamLogs", kControllers, kFollows},
    {"AgentService/StartSampling", kControllers, 30s},
    {"AgentService/StreamSamples", kControllers, kFollows},
    {"AgentService/StopSampling", kControllers, 30s},
    {"AgentService/Probe", kControllers, 120s},
    {"AgentService/ResetCaches", kControllers, 120s, true},
    {"AgentService/Teardown", kControllers, 300s, true},
    {"AgentService/FetchFile", kControllers, 3600s},
    {"AgentService/ListFiles", kControllers, 30s},
});

// The row of "Service/Method", or null.
constexpr const Rule* FindRule(std::string_view method) {
  for (const Rule& rule : kRules) {
    if (rule.method == method) return &rule;
  }
  return nullptr;
}

// The deadline of an RPC, looked up while compiling: an unknown name does not build.
// rpc::Deadline("ControllerService/GetJob")
consteval std::chrono::seconds Deadline(std::string_view method) {
  const Rule* rule = FindRule(method);
  if (rule == nullptr) throw "no such RPC in rules.h";
  return rule->deadline;
}

// Whether `role` may call the method of a request path ("/poolmark.v1.ControllerService/GetJob",
// "/grpc.health.v1.Health/Check"). Unknown paths: never.
bool IsAllowed(std::string_view path, Role role);
// The same with an error that names method, role and who may.
Status CheckAllowed(std::string_view path, Role role);
// Whether each call leaves a line in the audit log.
bool IsAudited(std::string_view path);
// Whether the method may be called without a certificate.
bool IsOpenToAnyone(std::string_view path);

}  // namespace poolmark::rpc

// Between the API's messages and the guard's records. Pure.
#pragma once
#include "agent/guard/items.h"
#include "agent/guard/record.h"
#include "agent/process/launch.h"
#include "agent/process/readiness.h"
#include "common/base/result.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::agent {

// Refuses unknown backends and bad names; the executable and the rest are the allow-list's business.
Result<process::LaunchSpec> LaunchSpecOf(const v1::ProcessSpec& spec);
process::ReadinessSpec ReadinessOf(const v1::Readiness& ready);
// From a `process` record or event of the guard.
v1::ProcessStatus StatusOf(const guard::Record& record);
// From an `item` event.
v1::LedgerItem ItemOf(const guard::Record& event);
v1::LedgerItem ItemOf(const guard::Item& item);
bool IsGone(v1::LedgerItemState state);
// What the machine's allow-list permits, by name: executables, secrets and BMC logins.
void FillAllowed(const process::AllowList& allow, v1::Facts* facts);
// What engines and tools said, without the secrets that this agent has read (common/base/secrets.h).
void TakeSecretsOut(v1::ProbeResponse* answer);
void TakeSecretsOut(v1::CheckResult* result);
void TakeSecretsOut(v1::StreamSamplesResponse* batch);

}  // namespace poolmark::agent

#include "agent/api/convert.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/api/guard_spawner.h"
#include "common/base/json.h"
#include "common/base/secrets.h"
#include "common/base/units.h"

namespace poolmark::agent {
namespace {

v1::LedgerItemState StateOf(guard::GoneState state) {
  switch (state) {
    case guard::GoneState::kGone:
      return v1::LEDGER_ITEM_STATE_GONE;
    case guard::GoneState::kAlreadyGone:
      return v1::LEDGER_ITEM_STATE_ALREADY_GONE;
    case guard::GoneState::kOpen:
    case guard::GoneState::kLeft:
      return v1::LEDGER_ITEM_STATE_LEFT;
    case guard::GoneState::kUnknown:
      break;
  }
  return v1::LEDGER_ITEM_STATE_UNKNOWN;
}

}  // namespace

Result<process::LaunchSpec> LaunchSpecOf(const v1::ProcessSpec& spec) {
  process::LaunchSpec out;
  if (absl::StartsWith(spec.id(), kToolPrefix)) {
    return InvalidInput("spec.id", absl::StrCat("'", spec.id(), "'"),
                        "names that begin so are the agent's own");
  }
  if (!IsName(spec.id()))
    return InvalidInput("spec.id", absl::StrCat("'", spec.id(), "'"), "use [a-z0-9][a-z0-9._-]{0,62}");
  switch (spec.backend()) {
    case v1::BACKEND_UNSPECIFIED:
    case v1::BACKEND_PROCESS:
      out.backend = process::BackendKind::kProcess;
      break;
    case v1::BACKEND_DOCKER:
      out.backend = process::BackendKind::kDocker;
      break;
    case v1::BACKEND_PODMAN:
      out.backend = process::BackendKind::kPodman;
      break;
    default:
      return InvalidInput(
          absl::StrCat("spec ", spec.id(), ".backend"),
          absl::StrCat("value ", static_cast<int>(spec.backend()), " is not known to this agent"),
          "use process, docker or podman, or upgrade the agent");
  }
  out.id = spec.id();
  out.role = spec.role();
  out.executable = spec.executable();
  out.image = spec.image();
  out.argv.assign(spec.argv().begin(), spec.argv().end());
  out.env.insert(spec.env().begin(), spec.env().end());
  out.secrets.insert(spec.secrets().begin(), spec.secrets().end());
  out.gpus.assign(spec.gpus().begin(), spec.gpus().end());
  out.ports.assign(spec.ports().begin(), spec.ports().end());
  out.devices.assign(spec.devices().begin(), spec.devices().end());
  out.mounts.assign(spec.mounts().begin(), spec.mounts().end());
  out.gpu_vendor = spec.gpu_vendor();
  return out;
}

process::ReadinessSpec ReadinessOf(const v1::Readiness& ready) {
  process::ReadinessSpec out;
  out.http_url = ready.http_url();
  out.redis_address = ready.redis_address();
  out.tcp_address = ready.tcp_address();
  if (ready.within_ns() > 0) out.within = Nanoseconds(ready.within_ns());
  return out;
}

v1::ProcessStatus StatusOf(const guard::Record& record) {
  v1::ProcessStatus status;
  status.set_id(record.Get("id"));
  const std::string& state = record.Get("state");
  status.set_state(state == "starting" ? v1::PROCESS_STATE_STARTING
                   : state == "ready"  ? v1::PROCESS_STATE_READY
                   : state == "exited" ? v1::PROCESS_STATE_EXITED
                                       : v1::PROCESS_STATE_FAILED);
  status.set_pid(static_cast<int32_t>(record.Signed("pid").value_or(0)));
  status.set_start_time_ticks(record.Unsigned("start").value_or(0));
  if (auto code = record.Signed("code")) status.set_exit_code(static_cast<int32_t>(*code));
  if (auto signal = record.Signed("signal")) status.set_exit_signal(static_cast<int32_t>(*signal));
  status.set_out_of_memory(record.Get("oom") == "1");
  status.set_message(ValidUtf8(Redacted(record.Get("message"))));
  status.set_ready_after_ns(record.Signed("after_ns").value_or(0));
  status.set_forced(record.Get("forced") == "1");
  return status;
}

v1::LedgerItem ItemOf(const guard::Record& event) {
  v1::LedgerItem item;
  item.set_kind(event.Get("item"));
  item.set_name(ValidUtf8(event.Get("name")));
  item.set_state(StateOf(guard::GoneStateOf(event.Get("state"))));
  item.set_proof(ValidUtf8(event.Get("proof")));
  item.set_detail(ValidUtf8(event.Get("detail")));
  item.set_forced(event.Get("forced") == "1");
  return item;
}

v1::LedgerItem ItemOf(const guard::Item& item) {
  v1::LedgerItem out;
  out.set_kind(item.kind);
  out.set_name(ValidUtf8(item.name));
  out.set_state(StateOf(item.state));
  out.set_proof(ValidUtf8(item.proof));
  out.set_detail(ValidUtf8(item.detail));
  out.set_forced(item.forced);
  return out;
}

bool IsGone(v1::LedgerItemState state) {
  return state == v1::LEDGER_ITEM_STATE_GONE || state == v1::LEDGER_ITEM_STATE_ALREADY_GONE;
}

void FillAllowed(const process::AllowList& allow, v1::Facts* facts) {
  facts->clear_executables();
  facts->clear_secrets();
  facts->clear_bmc_logins();
  for (const std::string& name : allow.names()) facts->add_executables(name);
  for (const auto& [secret, programs] : allow.secrets()) {
    v1::SecretUse* use = facts->add_secrets();
    use->set_secret(secret);
    for (const std::string& program : programs) use->add_programs(program);
  }
  for (const process::BmcLogin& bmc : allow.bmcs()) {
    v1::BmcLogin* login = facts->add_bmc_logins();
    login->set_kind(bmc.kind);
    login->set_address(bmc.address);
    login->set_login(bmc.login);
  }
}

void TakeSecretsOut(v1::ProbeResponse* answer) {
  answer->set_body(Redacted(std::move(*answer->mutable_body())));
  answer->set_failure(Redacted(std::move(*answer->mutable_failure())));
  for (v1::Label& header : *answer->mutable_headers()) {
    header.set_key(Redacted(std::move(*header.mutable_key())));
    header.set_value(Redacted(std::move(*header.mutable_value())));
  }
}

void TakeSecretsOut(v1::CheckResult* result) {
  for (std::string* text : {result->mutable_expected(), result->mutable_observed(),
                            result->mutable_evidence(), result->mutable_hint()})
    *text = Redacted(std::move(*text));
}

void TakeSecretsOut(v1::StreamSamplesResponse* batch) {
  for (v1::SeriesDefinition& series : *batch->mutable_series()) {
    series.set_name(Redacted(std::move(*series.mutable_name())));
    for (v1::Label& label : *series.mutable_labels()) {
      label.set_key(Redacted(std::move(*label.mutable_key())));
      label.set_value(Redacted(std::move(*label.mutable_value())));
    }
  }
  for (v1::SampleRound& round : *batch->mutable_rounds()) {
    if (!round.failure().empty()) round.set_failure(Redacted(std::move(*round.mutable_failure())));
    for (v1::SamplePoint& point : *round.mutable_points()) {
      if (point.reading_case() == v1::SamplePoint::kNotMeasured)
        point.set_not_measured(Redacted(std::move(*point.mutable_not_measured())));
    }
  }
}

}  // namespace poolmark::agent

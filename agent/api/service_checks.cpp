// Preflight on this machine: checks and line-rate measurements, by agent/checks.
#include "absl/strings/str_cat.h"
#include "agent/api/convert.h"
#include "agent/api/service.h"
#include "agent/checks/checks.h"
#include "common/rpc/status.h"

namespace poolmark::agent {
namespace {

using guard::Record;

// What earlier jobs left here, a line each.
std::vector<std::string> Leftovers(Runs& runs, const std::string& current_run) {
  std::vector<std::string> lines;
  for (const HeldRun& run : runs.Held()) {
    if (run.info.run == current_run || run.clean) continue;
    lines.push_back(absl::StrCat("run ", run.info.run, " of job ", run.info.job, ": ", run.state, ", ",
                                 run.open_items, " things not proven gone (ledger ", run.info.directory,
                                 "/ledger)"));
  }
  return lines;
}

}  // namespace

grpc::ServerWriteReactor<v1::RunChecksResponse>* AgentService::RunChecks(
    grpc::CallbackServerContext* context, const v1::RunChecksRequest* request) {
  return streams_->Produce<v1::RunChecksResponse>(
      context, [this, request = *request](rpc::Outbox<v1::RunChecksResponse>& out) -> Status {
        POOLMARK_ASSIGN_OR_RETURN(auto run, runs_->Find(request.lease().job_id(), request.lease().epoch()));
        CheckContext checks;
        checks.machine = runs_->config().machine;
        checks.facts = MakeFactsContext();
        checks.executable_allowed = [this](const std::string& executable) -> Status {
          POOLMARK_ASSIGN_OR_RETURN(auto allow, process::AllowList::Load(runs_->config().allow_file));
          return allow.Executable(executable).status();
        };
        checks.secret = [this](const std::string& name) { return secrets_.Get(name); };
        checks.all_secret_values = [this] { return secrets_.AllValues(); };
        checks.job_pids = [run] {
          std::set<int> pids;
          auto members = run->Ask(Record("members"));
          if (!members.ok()) return pids;
          for (const Record& member : members->data)
            pids.insert(static_cast<int>(member.Signed("pid").value_or(0)));
          return pids;
        };
        checks.ledger_leftovers = [this, run] { return Leftovers(*runs_, run->info().run); };
        std::vector<std::string> only(request.only().begin(), request.only().end());
        agent::RunChecks(
            request.plan(), only, checks,
            [&out](v1::CheckResult result) {
              TakeSecretsOut(&result);  // other programs' names and words are quoted there
              v1::RunChecksResponse message;
              *message.mutable_result() = std::move(result);
              out.Write(std::move(message));
            },
            out.stop_token());
        v1::RunChecksResponse last;
        last.set_last(true);
        out.Write(std::move(last));
        return absl::OkStatus();
      });
}

grpc::Status AgentService::MeasureLine(grpc::ServerContext*, const v1::MeasureLineRequest* request,
                                       v1::MeasureLineResponse* response) {
  auto run = runs_->Find(request->lease().job_id(), request->lease().epoch());
  if (!run.ok()) return rpc::ToGrpc(run.status());
  *response = line_rate_.Measure(*request);
  return grpc::Status::OK;
}

}  // namespace poolmark::agent

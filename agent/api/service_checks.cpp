// Preflight on this machine: checks and line-rate measurements, by agent/checks.
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/api/convert.h"
#include "agent/api/service.h"
#include "agent/checks/checks.h"
#include "agent/facts/wary_spawner.h"
#include "agent/guard/container_client.h"
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

// Is the image here? Asks the engine as its client does for a start: it must answer, too.
Status CheckImage(Spawner& spawner, const std::string& client, const std::string& tool,
                  const std::string& image) {
  Command command;
  command.argv = {client, "image", "inspect", "--format", "{{.Id}}", image};
  for (const std::string& word : guard::ClientVariables()) {
    const size_t equals = word.find('=');
    command.env[word.substr(0, equals)] = word.substr(equals + 1);
  }
  POOLMARK_ASSIGN_OR_RETURN(CommandOutput output, RunCommand(spawner, command, std::chrono::seconds(20)));
  if (output.ok()) return absl::OkStatus();
  return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "no_image", image, Describe(command, output),
                        absl::StrCat("on this machine: ", tool, " pull ", image,
                                     " (during the launch it would count as the engine's start)")});
}

// A tokenizer that the load opens as it begins. Of other files nothing is told: this agent may see more than
// whoever asks.
Status CheckFile(const std::string& path) {
  if (!absl::StartsWith(path, "/") || !absl::EndsWith(path, ".json"))
    return InvalidInput(path, "this agent looks for no such file", "name the absolute path of a .json file");
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return absl::OkStatus();
  return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "no_file", path,
                        absl::StrCat(path, ": there is no such file on this machine"),
                        "copy it there, or name another `load.tokenizer`"});
}

}  // namespace

Status AgentService::MayUse(const ActiveRun& run, const std::string& wanted) {
  POOLMARK_ASSIGN_OR_RETURN(auto allow, process::AllowList::Load(runs_->config().allow_file));
  const std::vector<std::string> words = absl::StrSplit(wanted, absl::MaxSplits(' ', 2));
  if (words.size() == 3 && words[0] == "image") {
    POOLMARK_RETURN_IF_ERROR(allow.Image(words[2]));
    POOLMARK_ASSIGN_OR_RETURN(const std::string client, allow.ContainerTool(words[1]));
    return CheckImage(*spawner_, client, words[1], words[2]);
  }
  if (words.size() > 1 && words[0] == "mount") {
    process::LaunchPlace place;
    place.work_dir = run.info().work_dir;
    place.uid = runs_->uid();
    place.gid = runs_->gid();
    return process::CheckedMount(wanted.substr(words[0].size() + 1), place, allow).status();
  }
  if (words.size() > 1 && words[0] == "device") return allow.Device(wanted.substr(words[0].size() + 1));
  if (words.size() > 1 && words[0] == "file") return CheckFile(wanted.substr(words[0].size() + 1));
  return allow.Executable(wanted).status();
}

grpc::ServerWriteReactor<v1::RunChecksResponse>* AgentService::RunChecks(
    grpc::CallbackServerContext* context, const v1::RunChecksRequest* request) {
  return streams_->Produce<v1::RunChecksResponse>(
      context, [this, request = *request](rpc::Outbox<v1::RunChecksResponse>& out) -> Status {
        POOLMARK_ASSIGN_OR_RETURN(auto run, runs_->Find(request.lease().job_id(), request.lease().epoch()));
        CheckContext checks;
        checks.machine = runs_->config().machine;
        checks.facts = MakeFactsContext();
        WarySpawner spawner(spawner_.get(), out.stop_token());
        checks.facts.spawner = &spawner;
        checks.executable_allowed = [this, run](const std::string& wanted) { return MayUse(*run, wanted); };
        checks.secret = [this](const std::string& name) { return secrets_.Get(name); };
        checks.secret_given = [this](const std::string& secret, const std::string& program) -> Status {
          POOLMARK_ASSIGN_OR_RETURN(auto allow, process::AllowList::Load(runs_->config().allow_file));
          const bool image = absl::StrContains(program, "@sha256:");
          return allow.Secret(secret, image ? "" : program, image ? program : "");
        };
        checks.bmc_given = [this](const v1::BmcLogin& bmc) -> Status {
          POOLMARK_ASSIGN_OR_RETURN(auto allow, process::AllowList::Load(runs_->config().allow_file));
          return allow.Bmc(bmc.kind(), bmc.address(), bmc.login()).status();
        };
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

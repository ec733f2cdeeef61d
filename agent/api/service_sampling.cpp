// Sampling of AgentService: one sampler for the run that holds the machine, by agent/telemetry.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/api/bmc_targets.h"
#include "agent/api/convert.h"
#include "agent/api/service.h"
#include "common/base/digest.h"
#include "common/rpc/status.h"

namespace poolmark::agent {
namespace {

using guard::Record;

// The run's processes, as the guard knows them now.
std::vector<EngineProcess> ProcessesOf(ActiveRun& run) {
  std::vector<EngineProcess> processes;
  auto status = run.Ask(Record("status"), std::chrono::seconds(5));
  if (!status.ok()) return processes;
  for (const Record& process : status->data) {
    // Exporters among them measure; they are no part of what is measured.
    if (process.Get("running") != "1" || absl::StartsWith(process.Get("id"), kToolPrefix)) continue;
    processes.push_back({process.Get("id"), static_cast<int>(process.Signed("pid").value_or(0))});
  }
  return processes;
}

}  // namespace

Result<const prom::Catalogue*> AgentService::TheCatalogue() {
  if (catalogue_ == nullptr) {
    POOLMARK_ASSIGN_OR_RETURN(prom::Catalogue loaded, prom::Catalogue::Load(runs_->config().catalogue_dir));
    catalogue_ = std::make_unique<prom::Catalogue>(std::move(loaded));
  }
  return catalogue_.get();
}

void AgentService::EndSampling(const std::string& run) {
  std::shared_ptr<Sampler> ending;
  {
    std::lock_guard lock(sampling_mutex_);
    if (run.empty() || run == sampling_run_) ending = std::move(sampler_);
    if (ending != nullptr) sampling_run_.clear();
  }
  if (ending != nullptr) ending->Stop();
}

void AgentService::StopOrphanedTools(ActiveRun& run) {
  auto status = run.Ask(Record("status"));
  for (const Record& process : status.ok() ? status->data : std::vector<Record>()) {
    if (process.Get("running") != "1" || !absl::StartsWith(process.Get("id"), kToolPrefix)) continue;
    (void)run.Ask(Record("stop")
                      .Add("id", process.Get("id"))
                      .Add("grace_ns", Nanoseconds(std::chrono::seconds(2)).count()));
  }
}

std::shared_ptr<Sampler> AgentService::SamplerOf(const std::string& run) {
  std::lock_guard lock(sampling_mutex_);
  return run == sampling_run_ ? sampler_ : nullptr;
}

grpc::Status AgentService::StartSampling(grpc::ServerContext*, const v1::StartSamplingRequest* request,
                                         v1::StartSamplingResponse* response) {
  auto run = runs_->Find(request->lease().job_id(), request->lease().epoch());
  if (!run.ok()) return rpc::ToGrpc(run.status());
  const std::string name = (*run)->info().run;
  auto answer = [&](const Sampler& sampler) {
    for (const v1::Tool& tool : sampler.tools()) *response->add_tools() = tool;
    return grpc::Status::OK;
  };
  {
    std::lock_guard lock(sampling_mutex_);
    bool repeated = !request->request_id().empty() && request->request_id() == sampling_request_;
    if (repeated && sampler_ != nullptr && sampling_run_ == name) return answer(*sampler_);
  }
  EndSampling("");  // of the repeat before
  std::lock_guard lock(sampling_mutex_);
  auto catalogue = TheCatalogue();
  if (!catalogue.ok()) return rpc::ToGrpc(catalogue.status());
  const AgentConfig& config = runs_->config();
  SamplerOptions options;
  options.targets.assign(request->targets().begin(), request->targets().end());
  if (Status allowed = CheckBmcTargets(config.allow_file, &options.targets); !allowed.ok())
    return rpc::ToGrpc(allowed);
  options.host = request->host();
  options.directories = {config.state_dir, config.work_dir};
  options.directories.insert(options.directories.end(), config.directories.begin(), config.directories.end());
  options.catalogue = *catalogue;
  options.spawner = spawner_.get();
  // In the ledger before they exist, and gone with the run whatever becomes of this agent.
  options.keeper = &guard_spawner_;
  options.exporter_directory = [weak = std::weak_ptr<ActiveRun>(*run)]() -> Result<std::string> {
    auto alive = weak.lock();
    if (alive == nullptr) return Unavailable("exporters", "the run has ended");
    const std::string part = absl::StrCat("exporter-", RandomHex(3));
    POOLMARK_RETURN_IF_ERROR(
        alive->Ask(Record("directory").Add("base", alive->info().work_dir).Add("path", part)).status());
    return absl::StrCat(alive->info().work_dir, "/", part);
  };
  options.client = client_.get();
  // Weak: a sampler that outlives its run must not keep the run's connection alive.
  options.engines = [weak = std::weak_ptr<ActiveRun>(*run)] {
    auto alive = weak.lock();
    return alive != nullptr ? ProcessesOf(*alive) : std::vector<EngineProcess>();
  };
  options.secret = [this](const std::string& secret) { return secrets_.Get(secret); };
  options.exporters_file = config.exporters_file;
  // It says what this agent starts: nobody else may be able to write it.
  if (!config.exporters_file.empty())
    options.exporters_refused = std::string(process::CheckTrustedFile(config.exporters_file).message());
  auto started = Sampler::Start(std::move(options));
  if (!started.ok()) return rpc::ToGrpc(started.status());
  // One that ended meanwhile has been told of already, and nobody would end this sampler.
  if (auto still = runs_->Find(request->lease().job_id(), request->lease().epoch()); !still.ok())
    return rpc::ToGrpc(still.status());
  sampler_ = std::move(*started);
  sampling_run_ = name;
  sampling_request_ = request->request_id();
  return answer(*sampler_);
}

grpc::Status AgentService::StopSampling(grpc::ServerContext*, const v1::StopSamplingRequest* request,
                                        v1::StopSamplingResponse* response) {
  auto run = runs_->Find(request->lease().job_id(), request->lease().epoch());
  if (!run.ok()) return rpc::ToGrpc(run.status());
  // It stays, so that a reader can still fetch what is left; the next start replaces it.
  auto sampler = SamplerOf((*run)->info().run);
  if (sampler != nullptr) response->set_last_sequence(sampler->Stop());
  return grpc::Status::OK;
}

grpc::ServerWriteReactor<v1::StreamSamplesResponse>* AgentService::StreamSamples(
    grpc::CallbackServerContext* context, const v1::StreamSamplesRequest* request) {
  return streams_->Produce<v1::StreamSamplesResponse>(
      context, [this, request = *request](rpc::Outbox<v1::StreamSamplesResponse>& out) -> Status {
        POOLMARK_ASSIGN_OR_RETURN(auto run, runs_->Find(request.lease().job_id(), request.lease().epoch()));
        auto sampler = SamplerOf(run->info().run);
        run.reset();
        if (sampler == nullptr) {
          return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "not_sampling", "samples",
                                "nothing is being sampled for this job", "call StartSampling first"});
        }
        uint64_t after = request.after_sequence();
        while (!out.closed()) {
          auto batch = sampler->Next(after, std::chrono::milliseconds(500));
          if (!batch) continue;
          after = batch->sequence();
          bool end = batch->end();
          TakeSecretsOut(&*batch);
          if (!out.Write(std::move(*batch)) || end) break;
        }
        return absl::OkStatus();
      });
}

}  // namespace poolmark::agent

#include "agent/api/service.h"

#include <sys/stat.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/api/beneath.h"
#include "agent/api/convert.h"
#include "agent/facts/wary_spawner.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/rpc/rules.h"
#include "common/rpc/status.h"

namespace poolmark::agent {
namespace {

using guard::Record;
using rpc::ToGrpc;

constexpr Nanoseconds kFactsAge = std::chrono::minutes(1);  // older ones are read anew where they are told
// A call may come in the middle of a reading and wait for the next. That a tool hangs is for the checks to
// say, by its name; a deadline would only say that this machine is slow.
static_assert(rpc::Deadline("AgentService/GetFacts") > 2 * kLongestReading);

// Digests of executables are kept: engines are gigabytes, and are started again and again.
std::string DigestOf(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return "";
  std::string key = absl::StrCat(path, "|", facts.st_ino, "|", facts.st_size, "|", facts.st_mtim.tv_sec, ".",
                                 facts.st_mtim.tv_nsec);
  {
    std::lock_guard lock(mutex);
    if (auto found = known.find(key); found != known.end()) return found->second;
  }
  // The file behind links such as /usr/bin/python3: that is what runs.
  std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  auto digest = Sha256OfFile(real != nullptr ? real.get() : path);
  std::lock_guard lock(mutex);
  return known[key] = digest.ok() ? *digest : "";
}

}  // namespace

AgentService::AgentService(Runs* runs, rpc::Streams* streams, Secrets secrets)
    : runs_(runs),
      streams_(streams),
      secrets_(std::move(secrets)),
      spawner_(MakeSpawner()),
      guard_spawner_([runs] { return runs->Current(); }),
      line_rate_(&guard_spawner_, MakeFactsContext()),
      client_(http::MakeClient()),
      facts_([this](std::stop_token stop) {
        WarySpawner spawner(spawner_.get(), std::move(stop));
        FactsContext context = MakeFactsContext();
        context.spawner = &spawner;
        return ReadFacts(context);
      }) {
  // Read before any engine says one, also after a restart between an engine's start and its answer.
  (void)secrets_.AllValues();
  // By its lease or with its guard, too: nobody asks for the end of the sampling then.
  runs_->OnEnded([this](const std::string& run) { EndSampling(run); });
}

AgentService::~AgentService() {
  runs_->OnEnded(nullptr);
  EndSampling("");  // its threads use what goes after this
}

grpc::Status AgentService::AcquireLease(grpc::ServerContext*, const v1::AcquireLeaseRequest* request,
                                        v1::AcquireLeaseResponse* response) {
  auto run =
      runs_->Acquire(request->lease().job_id(), request->lease().epoch(), Nanoseconds(request->ttl_ns()));
  if (!run.ok()) return ToGrpc(run.status());
  response->set_work_dir((*run)->info().work_dir);
  return grpc::Status::OK;
}

FactsContext AgentService::MakeFactsContext() {
  FactsContext context;
  context.spawner = spawner_.get();
  context.work_dir = runs_->config().work_dir;
  context.directories = runs_->config().directories;
  context.containment = runs_->containment();
  return context;
}

void AgentService::AddAllowed(v1::Facts* facts) {
  // An edit counts at once, as it does for starts. A list that cannot be read permits nothing.
  FillAllowed(process::AllowList::Load(runs_->config().allow_file).value_or(process::AllowList()), facts);
}

Registration::FactsNow AgentService::FactsNow() {
  FactsKeeper::Known known = facts_.Last();
  Registration::FactsNow now{std::move(known.facts), known.facts && known.age < kFactsAge};
  if (!now.fresh) facts_.Ask();
  if (now.facts) AddAllowed(&*now.facts);
  return now;
}

grpc::Status AgentService::GetFacts(grpc::ServerContext* context, const v1::GetFactsRequest* request,
                                    v1::GetFactsResponse* response) {
  FactsKeeper::Known known = facts_.Last();
  if (request->refresh() || !known.facts || known.age >= kFactsAge)
    known.facts = facts_.Fresh([context] { return context->IsCancelled(); });
  if (!known.facts) return grpc::Status::CANCELLED;
  AddAllowed(&*known.facts);
  *response->mutable_facts() = *std::move(known.facts);
  return grpc::Status::OK;
}

grpc::Status AgentService::StartProcess(grpc::ServerContext*, const v1::StartProcessRequest* request,
                                        v1::StartProcessResponse* response) {
  return ToGrpc(StartOne(*request, response));
}

Status AgentService::StartOne(const v1::StartProcessRequest& request, v1::StartProcessResponse* response) {
  const v1::ProcessSpec& spec = request.spec();
  POOLMARK_ASSIGN_OR_RETURN(auto run, runs_->Find(request.lease().job_id(), request.lease().epoch()));
  POOLMARK_ASSIGN_OR_RETURN(process::LaunchSpec launch, LaunchSpecOf(spec));
  POOLMARK_ASSIGN_OR_RETURN(process::AllowList allow, process::AllowList::Load(runs_->config().allow_file));

  // Known already: the answer of then, and no further effect, whatever was stopped since.
  if (!request.request_id().empty()) {
    POOLMARK_ASSIGN_OR_RETURN(auto known, run->Ask(Record("find").Add("request", request.request_id())));
    if (!known.data.empty()) {
      *response->mutable_status() = StatusOf(known.data[0]);
      return absl::OkStatus();
    }
  }
  process::LaunchPlace place;
  place.run = run->info().run;
  place.job = run->info().job;
  place.work_dir = run->info().work_dir;
  place.temp_dir = absl::StrCat(place.work_dir, "/tmp/", spec.id());
  place.serial = run->Ledger().next_number();
  place.uid = runs_->uid();
  place.gid = runs_->gid();
  POOLMARK_ASSIGN_OR_RETURN(Record start,
                            process::MakeBackend(launch.backend)->Compose(launch, place, allow, secrets_));
  POOLMARK_RETURN_IF_ERROR(MakeDirectories(*run, spec));
  POOLMARK_RETURN_IF_ERROR(WriteFiles(*run, spec));
  // What a restarted agent must know to go on looking for readiness; it names secrets, but holds none, and
  // the files' contents are where they belong.
  v1::ProcessSpec kept = spec;
  for (v1::InputFile& file : *kept.mutable_files()) file.clear_content();
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(absl::StrCat(run->info().directory, "/specs/", spec.id(), ".pb"),
                                           kept.SerializeAsString(), 0600));

  start.Add("request", request.request_id());
  POOLMARK_ASSIGN_OR_RETURN(auto reply, run->Ask(start));
  if (reply.data.empty()) return Internal("guard", "its answer names no process");
  *response->mutable_status() = StatusOf(reply.data[0]);
  response->mutable_tool()->set_name(spec.executable().empty() ? spec.image() : spec.executable());
  response->mutable_tool()->set_path(start.Get("exe"));
  response->mutable_tool()->set_sha256(DigestOf(start.Get("exe")));
  if (auto allowed = allow.Executable(spec.executable()); !spec.executable().empty() && allowed.ok())
    response->mutable_tool()->set_version(allowed->version);
  if (reply.data[0].Get("already") != "1")
    run->WatchReadiness(spec.id(), ReadinessOf(spec.ready()), launch.ports);
  return absl::OkStatus();
}

Status AgentService::MakeDirectories(ActiveRun& run, const v1::ProcessSpec& spec) {
  const AgentConfig& config = runs_->config();
  auto make = [&](const std::string& base, const std::string& relative, bool emptied = false) {
    Record ask("directory");
    ask.Add("base", base).Add("path", relative);
    if (emptied) ask.Add("emptied", 1);
    if (runs_->uid()) ask.Add("uid", *runs_->uid());
    if (runs_->gid()) ask.Add("gid", *runs_->gid());
    return run.Ask(ask).status();
  };
  const std::string& work = run.info().work_dir;
  POOLMARK_RETURN_IF_ERROR(make(work, absl::StrCat("tmp/", spec.id())));
  for (const v1::InputFile& file : spec.files()) {
    size_t slash = file.path().rfind('/');
    if (slash != std::string::npos) POOLMARK_RETURN_IF_ERROR(make(work, file.path().substr(0, slash)));
  }
  for (const v1::Directory& directory : spec.directories()) {
    const std::string& path = directory.path();
    if (!absl::StartsWith(path, "/")) {
      POOLMARK_RETURN_IF_ERROR(make(work, path, directory.emptied()));
      continue;
    }
    std::string base;
    for (const std::string& place : config.directories) {
      if (absl::StartsWith(path, place + "/") && place.size() > base.size()) base = place;
    }
    if (absl::StartsWith(path, work + "/")) base = work;
    if (base.empty()) {
      return ToStatus(Error{
          absl::StatusCode::kFailedPrecondition, "not_allowed", "agent.yaml directories",
          absl::StrCat("directory '", path, "' lies below no place that this machine offers"),
          absl::StrCat("add below 'directories:' the line \"  - ", path.substr(0, path.rfind('/')), "\"")});
    }
    POOLMARK_RETURN_IF_ERROR(make(base, path.substr(base.size() + 1), directory.emptied()));
  }
  return absl::OkStatus();
}

Status AgentService::WriteFiles(ActiveRun& run, const v1::ProcessSpec& spec) {
  if (spec.files().empty()) return absl::OkStatus();
  Record claim("file");
  for (const v1::InputFile& file : spec.files()) {
    if (absl::StartsWith(file.path(), "/") ||
        absl::StrContains(absl::StrCat("/", file.path(), "/"), "/../")) {
      return InvalidInput(absl::StrCat("spec ", spec.id(), ".files"),
                          absl::StrCat("path '", file.path(), "'"),
                          "paths are relative to the work directory");
    }
    if (!file.sha256().empty() && Sha256Hex(file.content()) != file.sha256()) {
      return InvalidInput(absl::StrCat("spec ", spec.id(), ".files ", file.path()),
                          "the content has another digest than was sent");
    }
    claim.Add("path", absl::StrCat(run.info().work_dir, "/", file.path()));
  }
  POOLMARK_RETURN_IF_ERROR(run.Ask(claim).status());
  for (const v1::InputFile& file : spec.files()) {
    POOLMARK_RETURN_IF_ERROR(
        WriteBeneath(run.info().work_dir, file.path(), file.content(), runs_->uid(), runs_->gid()));
  }
  return absl::OkStatus();
}

void AgentService::Resume() {
  auto run = runs_->Current();
  if (run == nullptr) return;
  StopOrphanedTools(*run);
  auto status = run->Ask(Record("status"));
  if (!status.ok()) return;
  for (const Record& process : status->data) {
    if (process.Get("state") != "starting" || process.Get("running") != "1") continue;
    auto text = ReadFile(absl::StrCat(run->info().directory, "/specs/", process.Get("id"), ".pb"));
    v1::ProcessSpec spec;
    if (!text.ok() || !spec.ParseFromString(*text)) continue;
    run->WatchReadiness(spec.id(), ReadinessOf(spec.ready()), {spec.ports().begin(), spec.ports().end()});
  }
}

grpc::Status AgentService::StopProcess(grpc::ServerContext* context, const v1::StopProcessRequest* request,
                                       v1::StopProcessResponse* response) {
  auto run = runs_->Find(request->lease().job_id(), request->lease().epoch());
  if (!run.ok()) return ToGrpc(run.status());
  auto grace = request->grace_ns() > 0 ? Nanoseconds(request->grace_ns()) : runs_->config().grace;
  auto told = (*run)->Ask(Record("stop").Add("id", request->id()).Add("grace_ns", grace.count()));
  if (!told.ok()) return ToGrpc(told.status());
  Nanoseconds end = RealClock().Steady() + grace + runs_->config().kill_wait;
  while (RealClock().Steady() < end && !context->IsCancelled()) {
    auto status = (*run)->Ask(Record("status"));
    if (!status.ok()) return ToGrpc(status.status());
    for (const Record& process : status->data) {
      if (process.Get("id") != request->id() || process.Get("running") == "1" || process.Get("empty") != "1")
        continue;
      *response->mutable_status() = StatusOf(process);
      return grpc::Status::OK;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return ToGrpc(
      ToStatus(Error{absl::StatusCode::kDeadlineExceeded, "not_stopped", request->id(),
                     "it is still there after grace and kill wait", "the tear-down will report it"}));
}

grpc::Status AgentService::ListFiles(grpc::ServerContext*, const v1::ListFilesRequest* request,
                                     v1::ListFilesResponse* response) {
  auto info = runs_->FindInfo(request->lease().job_id(), request->lease().epoch());
  if (!info.ok()) return ToGrpc(info.status());
  auto files = ListBeneath(info->work_dir, request->directory(), 10000);
  if (!files.ok()) return ToGrpc(files.status());
  for (const FoundFile& file : *files) {
    auto* entry = response->add_files();
    entry->set_path(ValidUtf8(file.path));
    entry->set_size(file.size);
  }
  return grpc::Status::OK;
}

}  // namespace poolmark::agent

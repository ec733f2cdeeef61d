#include "controller/runner/results_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/time_format.h"
#include "common/base/version.h"
#include "common/report/html.h"
#include "common/results/directory.h"
#include "common/results/inputs_file.h"
#include "common/results/job_file.h"
#include "common/results/layout.h"
#include "common/results/summarize.h"
#include "common/results/sums.h"
#include "common/workload/stored_settings.h"
#include "controller/runner/validated.h"

namespace poolmark::controller {
namespace {

constexpr uint64_t kMaxCopiedInput = 64u << 20;

std::string Time(bool there, int64_t wall_ns) {
  return there ? IsoUtc(Nanoseconds(wall_ns)) : "";
}

std::string BaseName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// The last part of its path; what of the catalogue a job took along is named there without its ending.
std::string InputFileName(const v1::JobInput& input) {
  const bool of_catalogue = input.path().find_first_of("./") == std::string::npos;
  return BaseName(input.path()) + (of_catalogue ? ".yaml" : "");
}

// inputs/<base name>; two of the same name get their digest in front.
std::map<std::string, std::string> InputNames(const v1::SubmitJobRequest& request) {
  std::map<std::string, int> uses;
  for (const v1::JobInput& input : request.inputs()) ++uses[InputFileName(input)];
  std::map<std::string, std::string> names;
  for (const v1::JobInput& input : request.inputs()) {
    const std::string base = InputFileName(input);
    // What the record itself is called stays free.
    const bool apart = uses[base] > 1 || base == BaseName(std::string(results::kInputsFile));
    names[input.path()] =
        absl::StrCat(results::kInputsDir.data(), "/", apart ? input.sha256().substr(0, 8) + "-" : "", base);
  }
  return names;
}

results::JobFile JobFileOf(const StoredJob& stored, v1::JobState state, v1::TeardownVerdict verdict,
                           const PlannedJob* planned, const results::ManifestFile& manifest,
                           const Clock& clock) {
  const v1::Job& job = stored.job;
  results::JobFile file;
  file.job_id = job.id();
  file.state = StateName(state);
  file.teardown = v1::TeardownVerdict_Name(verdict).substr(sizeof("TEARDOWN_VERDICT_") - 1);
  for (const v1::Reason& reason : job.reasons()) {
    if (!file.reason.empty()) file.reason += "\n";
    file.reason += reason.message();
    if (file.failed_check.empty()) file.failed_check = reason.check();
  }
  file.submitted = Time(true, job.submitted_wall_ns());
  file.started = Time(job.has_started_wall_ns(), job.started_wall_ns());
  file.ended = Time(true, job.has_finished_wall_ns() ? job.finished_wall_ns() : clock.Wall().count());
  file.submitted_by = job.owner();
  file.poolmark_version = Version();
  if (planned == nullptr) {
    file.notes.push_back("the job's specs could not be read when it ended");
    return file;
  }
  const spec::JobSpec& spec = planned->job;
  file.head = planned->plan.head;
  for (size_t i = 0; i < spec.stacks.size(); ++i) {
    const spec::StackSpec& stack = spec.stacks[i];
    results::JobStack entry;
    entry.name = stack.name;
    entry.use = i < spec.uses.size() ? spec.uses[i].use : stack.name;
    entry.strategy = std::string(spec::StrategyName(stack.strategy));
    entry.simulated = stack.simulated || std::any_of(manifest.engines.begin(), manifest.engines.end(),
                                                     [&](const results::ManifestEngine& engine) {
                                                       return engine.stack == stack.name && engine.simulated;
                                                     });
    entry.compression = stack.kv.compression;
    entry.path = stack.kv.path;
    if (const StackPlan* plan = planned->plan.stack(stack.name)) {
      entry.digest = plan->digest;
      for (const PlannedProcess& process : plan->processes) {
        if (entry.vendor.empty()) entry.vendor = process.spec.gpu_vendor();
      }
    }
    file.stacks.push_back(std::move(entry));
  }
  file.baseline = spec.baseline;
  std::map<std::string, std::string> digests;
  for (const v1::JobInput& input : stored.request.inputs()) digests[input.path()] = input.sha256();
  const auto names = InputNames(stored.request);
  for (const spec::WorkloadSpec& workload : spec.workloads) {
    results::JobWorkload entry;
    entry.name = workload.name;
    entry.shape = workload.shape;
    entry.options = workload.options_json;
    if (!workload.file.empty()) {
      if (auto name = names.find(workload.file); name != names.end()) entry.input = name->second;
      entry.input_sha256 = digests[workload.file];
    }
    entry.token_scale = FormatRatio(workload::StoredScale(workload.options_json).value_or(Ratio{}));
    for (const spec::LoadLevel& level : workload.levels) entry.levels.push_back(level.Name());
    file.workloads.push_back(std::move(entry));
  }
  file.repeats = spec.repeats;
  file.starting_state = spec.starting_state;
  file.slo = spec.slo;
  file.slo_limits = planned->slos;
  file.seed = spec.seed;
  file.notes = planned->plan.notes;
  return file;
}

Json EventJson(const v1::JobEvent& event) {
  Json json = {{"sequence", event.sequence()},
               {"time", IsoUtc(Nanoseconds(event.wall_ns()))},
               {"kind", event.kind()},
               {"state", StateName(event.state())},
               {"message", ValidUtf8(event.message())}};
  if (!event.machine().empty()) json["machine"] = event.machine();
  if (!event.process().empty()) json["process"] = event.process();
  if (event.has_position()) {
    const v1::JobPosition& position = event.position();
    json["position"] = {{"cycle", position.cycle()},
                        {"stack", position.stack()},
                        {"workload", position.workload()},
                        {"level", position.level()},
                        {"repeat", position.repeat()}};
  }
  if (event.has_check()) {
    const v1::CheckResult& check = event.check();
    json["check"] = {{"id", check.id()},
                     {"outcome", v1::Outcome_Name(check.outcome()).substr(sizeof("OUTCOME_") - 1)},
                     {"expected", ValidUtf8(check.expected())},
                     {"observed", ValidUtf8(check.observed())}};
  }
  return json;
}

}  // namespace

std::string ResultsDir(const Environment& environment, const std::string& job_id) {
  return JoinPath(environment.results_dir, job_id);
}

Status WriteInputs(const Environment& environment, const StoredJob& job, const PlannedJob* planned) {
  const std::string directory = ResultsDir(environment, job.job.id());
  POOLMARK_RETURN_IF_ERROR(MakeDirs(JoinPath(directory, std::string(results::kInputsDir)), 0750));
  if (planned != nullptr) {
    POOLMARK_ASSIGN_OR_RETURN(std::string plan, PlanJson(planned->plan));
    POOLMARK_RETURN_IF_ERROR(
        AtomicWriteFile(JoinPath(directory, std::string(results::kPlanFile)), plan, 0640));
  }
  // The record by which `submit --from` runs them again.
  results::InputsFile record;
  record.job_path = job.request.job_path();
  record.name = job.request.name();
  record.set = {job.request.set().begin(), job.request.set().end()};
  const auto names = InputNames(job.request);
  for (const v1::JobInput& input : job.request.inputs()) {
    results::JobInputFile entry{input.path(), input.sha256(), input.size(), ""};
    auto size = environment.inputs->SizeOf(input.sha256());
    if (size.ok() && *size <= kMaxCopiedInput) {
      POOLMARK_ASSIGN_OR_RETURN(std::string content,
                                ReadFile(environment.inputs->PathOf(input.sha256()), kMaxCopiedInput));
      entry.stored = names.at(input.path());
      POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(directory, entry.stored), content, 0640));
    }
    record.inputs.push_back(std::move(entry));
  }
  POOLMARK_ASSIGN_OR_RETURN(std::string text, results::Encode(record));
  return AtomicWriteFile(JoinPath(directory, std::string(results::kInputsFile)), text, 0640);
}

Status WriteFinal(const Environment& environment, const StoredJob& job, v1::JobState state,
                  v1::TeardownVerdict verdict, const PlannedJob* planned,
                  const results::ManifestFile& manifest) {
  const std::string directory = ResultsDir(environment, job.job.id());
  POOLMARK_RETURN_IF_ERROR(MakeDirs(directory, 0750));
  POOLMARK_RETURN_IF_ERROR(WriteInputs(environment, job, planned));
  const results::JobFile file = JobFileOf(job, state, verdict, planned, manifest, *environment.clock);
  POOLMARK_ASSIGN_OR_RETURN(std::string text, results::Encode(file));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(directory, std::string(results::kJobFile)), text, 0640));
  POOLMARK_ASSIGN_OR_RETURN(std::string manifest_text, results::Encode(manifest));
  POOLMARK_RETURN_IF_ERROR(
      AtomicWriteFile(JoinPath(directory, std::string(results::kManifestFile)), manifest_text, 0640));
  // The summary is made from the files alone, as `poolmark report` makes it again.
  POOLMARK_ASSIGN_OR_RETURN(results::Directory read, results::ReadDirectory(directory));
  const results::SummaryFile summary = results::Summarize(read.job, read.manifest.value_or(manifest),
                                                          read.repeats, results::RequestsIn(directory));
  POOLMARK_ASSIGN_OR_RETURN(std::string summary_text, results::Encode(summary));
  POOLMARK_RETURN_IF_ERROR(
      AtomicWriteFile(JoinPath(directory, std::string(results::kSummaryFile)), summary_text, 0640));
  POOLMARK_RETURN_IF_ERROR(
      AddValidated(JoinPath(environment.state_dir, kValidatedFile),
                   ConfigurationsOf(read.job, read.manifest.value_or(manifest), summary)));
  return report::WriteReport(directory, {.check_sums = false}).status();
}

Status WriteEvents(const Environment& environment, const std::string& job_id) {
  const std::string directory = ResultsDir(environment, job_id);
  std::string text;
  uint64_t after = 0;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(auto events, environment.store->Events(job_id, after, 1000));
    if (events.empty()) break;
    for (const v1::JobEvent& event : events) {
      POOLMARK_ASSIGN_OR_RETURN(std::string line, DumpJson(EventJson(event)));
      absl::StrAppend(&text, line, "\n");
      after = event.sequence();
    }
  }
  POOLMARK_RETURN_IF_ERROR(MakeDirs(directory, 0750));
  POOLMARK_RETURN_IF_ERROR(
      AtomicWriteFile(JoinPath(directory, std::string(results::kEventsFile)), text, 0640));
  return results::WriteSums(directory);
}

Status CloseResults(const Environment& environment, const std::string& job_id) {
  const std::string directory = ResultsDir(environment, job_id);
  const bool whole = FileExists(JoinPath(directory, std::string(results::kJobFile))) &&
                     FileExists(JoinPath(directory, std::string(results::kSummaryFile))) &&
                     FileExists(JoinPath(directory, std::string(results::kReportFile)));
  if (!whole) {
    POOLMARK_ASSIGN_OR_RETURN(StoredJob job, environment.store->Get(job_id));
    Errors errors;
    auto planned = PlanJob(environment, job.request, job_id, &errors);
    results::ManifestFile manifest;
    manifest.job_id = job_id;
    const std::string path = JoinPath(directory, std::string(results::kManifestFile));
    if (auto text = ReadFile(path, kMaxCopiedInput); text.ok()) {
      if (auto stored = results::DecodeManifest(*text, path); stored.ok()) manifest = *std::move(stored);
    }
    POOLMARK_RETURN_IF_ERROR(WriteFinal(environment, job, job.job.state(), job.job.teardown(),
                                        planned.ok() ? planned->get() : nullptr, manifest));
  }
  return WriteEvents(environment, job_id);
}

bool IsClosed(const Environment& environment, const std::string& job_id) {
  return FileExists(JoinPath(ResultsDir(environment, job_id), std::string(results::kSumsFile)));
}

}  // namespace poolmark::controller

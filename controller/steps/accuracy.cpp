#include "controller/steps/accuracy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "controller/steps/accuracy_files.h"
#include "controller/steps/fetch.h"
#include "controller/steps/head_process.h"
#include "controller/steps/load_plan.h"

namespace poolmark::controller {
namespace {

class Arm {
 public:
  Arm(JobRun* run, const StackPlan& stack, const PlannedAccuracy& planned, uint32_t cycle,
      const VerifyEvidence& verified, ProcessWatch* watch, std::vector<std::string>* ids)
      : run_(*run),
        stack_(stack),
        planned_(planned),
        spec_(*run->job->accuracy),
        candidate_(stack.name == planned.stack),
        cycle_(cycle),
        verified_(verified),
        watch_(*watch),
        ids_(*ids),
        home_(run->work_dirs.at(run->plan->head)) {}

  StepOutcome Go() {
    run_.Note("step",
              absl::StrCat("accuracy of ", planned_.stack, ": ", candidate_ ? "candidate" : "reference",
                           " answers of stack ", stack_.name));
    if (Status judge = JudgeAnswers(spec_, run_.stop); !judge.ok()) {
      if (run_.stop.stop_requested()) return StepOutcome::Stopped();
      return StepOutcome::Failed("accuracy_refused", std::string(judge.message()));
    }
    AccuracyTokens tokens;
    if (candidate_) {
      StepOutcome warm = Ask("warm");
      if (!warm.passed()) return warm;
      StepOutcome evicted = Evict(&tokens.notes);
      if (!evicted.passed()) return evicted;
    }
    const std::vector<EngineReading> before = ReadEngines();
    StepOutcome asked = Ask("answers");
    if (!asked.passed()) return asked;
    if (candidate_) tokens.sources = Moved(before, ReadEngines());
    return Keep(tokens);
  }

 private:
  std::string Relative(const std::string& kind) const {
    return absl::StrCat("quality/", planned_.stack, candidate_ ? "-candidate-" : "-reference-", kind);
  }

  Result<v1::ProcessSpec> SpecOf(const std::string& kind) {
    v1::ProcessSpec spec;
    spec.set_id(absl::StrCat(stack_.name, ".quality-", planned_.stack, "-", kind, ".", cycle_));
    spec.set_role("quality");
    spec.set_backend(v1::BACKEND_PROCESS);
    spec.set_executable(run_.plan->load_executable);
    spec.set_stop_grace_ns(Nanoseconds(std::chrono::seconds(10)).count());
    const std::string out = JoinPath(home_, Relative(kind));
    spec.add_directories()->set_path(out);
    auto stored = run_.input_files.find(spec_.dataset);
    if (stored == run_.input_files.end())
      return NotFound(spec_.dataset, "the data set is not among the job's inputs");
    std::string dataset = stored->second;
    if (auto content = ReadFile(dataset, kMaxShipped); content.ok()) {
      v1::InputFile* file = spec.add_files();
      file->set_path(
          absl::StrCat(Relative(kind), ".input/", spec_.dataset.substr(spec_.dataset.rfind('/') + 1)));
      file->set_sha256(Sha256Hex(*content));
      file->set_content(*std::move(content));
      dataset = JoinPath(home_, file->path());
    }
    const StackPlan& candidate = *run_.plan->stack(planned_.stack);
    auto add = [&](const std::string& flag, const std::string& value) {
      spec.add_argv(flag);
      spec.add_argv(value);
    };
    spec.add_argv("quality");
    spec.add_argv("run");
    add("--out", out);
    add(candidate_ ? "--candidate-url" : "--reference-url", stack_.entry_url);
    if (!candidate_) add("--reference-repeats", absl::StrCat(spec_.reference_repeats));
    // The name that this stack's engines answer to; the plan is the candidate's, so that both arms agree.
    add("--model", verified_.model);
    add("--dataset", spec_.dataset);
    add("--dataset-file", dataset);
    add("--scenario", spec_.scenario);
    add("--limit", absl::StrCat(spec_.limit));
    add("--chunk-size",
        absl::StrCat(candidate.kv.chunk_tokens.value_or(std::max(1, candidate.kv.block_tokens))));
    add("--max-output-tokens", absl::StrCat(spec_.max_output_tokens));
    add("--seed", absl::StrCat(run_.job->seed));
    for (const PlannedProcess& process : stack_.processes) {
      if (!IsEngine(process) || process.base_url.empty()) continue;
      add("--tokenize-url", process.base_url);
      break;
    }
    add("--progress", "json");
    return spec;
  }

  StepOutcome Ask(const std::string& kind) {
    auto spec = SpecOf(kind);
    if (!spec.ok()) return StepOutcome::Failed("accuracy_refused", std::string(spec.status().message()));
    HeadProcess process;
    process.spec = *std::move(spec);
    process.request = absl::StrCat("quality/", cycle_, "/", planned_.stack, "/", kind);
    process.what = "accuracy run";
    process.code = "accuracy";
    process.refusal_is_final = true;
    process.on_started = [] {};
    process.on_line = [&](const std::string& line) { Tick(line, kind); };
    ids_.push_back(process.spec.id());
    return RunOnHead(&run_, &watch_, process);
  }

  void Tick(const std::string& line, const std::string& kind) {
    auto progress = ParseProgress(line);
    if (!progress || progress->event != "progress") return;
    Live(line, absl::StrCat(progress->phase, kind == "warm" ? " (unmeasured)" : ""));
  }

  // To whoever follows the job now.
  void Live(const std::string& line, const std::string& phase) {
    v1::JobEvent event;
    event.set_kind("progress");
    event.set_state(v1::JOB_STATE_BENCHMARKING);
    event.set_wall_ns(run_.clock->Wall().count());
    event.set_data_json(line);
    v1::JobPosition* position = event.mutable_position();
    position->set_cycle(cycle_);
    position->set_stack(stack_.name);
    position->set_phase(absl::StrCat("accuracy of ", planned_.stack, ", ", phase));
    run_.tick(std::move(event));
  }

  // Empties the engines' own caches, so that the second pass reads KV from below.
  StepOutcome Evict(std::vector<std::string>* notes) {
    if (stack_.attach && !stack_.reset_allowed) {
      notes->push_back("attached to running engines: their caches were not emptied before the counted pass");
      return StepOutcome::Passed();
    }
    std::map<std::string, v1::ResetCachesRequest> requests;
    for (const PlannedProcess& process : stack_.processes) {
      for (const v1::ResetStep& step : process.evicts) *requests[process.machine].add_resets() = step;
      if (IsEngine(process) && process.evicts.empty())
        notes->push_back(absl::StrCat(process.spec.id(), " has no `evict`: its own cache may have answered"));
    }
    for (auto& [machine, request] : requests) {
      request.set_request_id(run_.RequestId(machine, absl::StrCat("evict/", cycle_, "/", planned_.stack)));
      *request.mutable_lease() = run_.Lease(machine);
      auto link = run_.registry->Link(machine);
      auto answer = link.ok() ? (*link)->ResetCaches(request, run_.stop)
                              : Result<v1::ResetCachesResponse>(link.status());
      if (run_.stop.stop_requested()) return StepOutcome::Stopped();
      if (!answer.ok())
        return {StepOutcome::Kind::kInterrupted,
                {ReasonOf(answer.status(), machine, "emptying the engines")}};
      for (const v1::CheckResult& check : answer->results()) {
        if (check.outcome() != v1::OUTCOME_PASS)
          notes->push_back(absl::StrCat(check.id(), " failed: ", check.observed()));
      }
    }
    return StepOutcome::Passed();
  }

  // One entry per engine, in the order of the stack's processes; those that cannot be read are empty.
  std::vector<EngineReading> ReadEngines() {
    std::vector<EngineReading> readings;
    for (const PlannedProcess& process : stack_.processes) {
      if (IsEngine(process)) readings.push_back(Read(run_, stack_, process).value_or(EngineReading()));
    }
    return readings;
  }

  // Where the prompt tokens of the counted pass came from, over the engines that attribute them.
  Measured<stats::TokenSources> Moved(const std::vector<EngineReading>& before,
                                      const std::vector<EngineReading>& after) {
    stats::TokenSources total;
    std::string why = "no engine was read";
    size_t at = 0;
    for (const PlannedProcess& process : stack_.processes) {
      if (!IsEngine(process)) continue;
      const EngineReading &start = before[at], &end = after[at];
      ++at;
      if (start.engine.empty() || end.engine.empty()) {
        why = absl::StrCat(process.spec.id(), ": its counters could not be read");
        continue;
      }
      auto version = verified_.versions.find(process.spec.id());
      stats::EngineAttribution engine =
          Between(stack_, process, version == verified_.versions.end() ? "" : version->second, start, end);
      if (engine.sources.has_value()) {
        total.Add(engine.sources.value());
      } else {
        why = engine.sources.reason();
      }
    }
    if (total.prompt <= 0) return NotMeasured{why};
    return total;
  }

  // From the head into quality/<stack>; compares once all arms are there.
  StepOutcome Keep(const AccuracyTokens& tokens) {
    const std::string directory = AccuracyDir(run_, planned_.stack);
    const std::string incoming = JoinPath(directory, "incoming");
    auto removed = RemoveTree(incoming);
    Status status = removed.ok() ? MakeDirs(incoming, 0750) : removed.status();
    std::vector<std::string> names = {"plan.json", "manifest.jsonl"};
    for (const std::string& label : AccuracyLabels(spec_, candidate_)) {
      names.push_back(absl::StrCat("answers_", label, ".jsonl"));
      names.push_back(absl::StrCat("requests_", label, ".json"));
      names.push_back(absl::StrCat("arm_", label, ".json"));
    }
    for (const std::string& name : names) {
      if (status.ok())
        status =
            FetchFile(run_, run_.plan->head, JoinPath(Relative("answers"), name), JoinPath(incoming, name));
    }
    if (!status.ok()) {
      if (run_.stop.stop_requested()) return StepOutcome::Stopped();
      return {StepOutcome::Kind::kInterrupted, {ReasonOf(status, run_.plan->head, "fetching the answers")}};
    }
    status = TakeAccuracyArm(spec_, candidate_, incoming, directory);
    if (status.ok() && candidate_) status = WriteAccuracyTokens(directory, planned_, tokens);
    if (!status.ok()) return StepOutcome::Failed("accuracy_refused", std::string(status.message()));
    if (!HasAccuracyArm(spec_, true, directory) || !HasAccuracyArm(spec_, false, directory))
      return StepOutcome::Passed();
    auto judged = [&](int64_t done, int64_t total, int64_t unrated) {
      Live(absl::StrCat("{\"event\": \"progress\", \"phase\": \"judge\", \"done\": ", done,
                        ", \"total\": ", total, ", \"failed\": ", unrated, "}"),
           "judge");
    };
    auto result = CompareAccuracy(spec_, directory, run_.state_dir, judged, run_.stop);
    if (run_.stop.stop_requested()) return StepOutcome::Stopped();
    if (!result.ok())
      return StepOutcome::Failed("accuracy_refused", absl::StrCat("accuracy of ", planned_.stack, ": ",
                                                                  std::string(result.status().message())));
    run_.Note("accuracy",
              absl::StrCat("accuracy of ", planned_.stack, " against ", planned_.reference, ": ", *result));
    return StepOutcome::Passed();
  }

  JobRun& run_;
  const StackPlan& stack_;
  const PlannedAccuracy& planned_;
  const spec::AccuracySpec& spec_;
  const bool candidate_;
  const uint32_t cycle_;
  const VerifyEvidence& verified_;
  ProcessWatch& watch_;
  std::vector<std::string>& ids_;
  const std::string home_;  // the job's work directory on the head
};

// Does this planned comparison still lack what `stack` gives?
bool Lacks(const JobRun& run, const PlannedAccuracy& planned, const std::string& stack) {
  if (stack != planned.stack && stack != planned.reference) return false;
  const std::string directory = AccuracyDir(run, planned.stack);
  if (!HasAccuracyArm(*run.job->accuracy, stack == planned.stack, directory)) return true;
  // The answers are there, but nobody compared them: the controller ended in between.
  return HasAccuracyArm(*run.job->accuracy, stack != planned.stack, directory) &&
         !HasAccuracyResult(directory);
}

}  // namespace

std::string AccuracyDir(const JobRun& run, const std::string& stack) {
  return absl::StrCat(run.results_dir, "/", AccuracyDirName(stack));
}

bool AccuracyMissing(const JobRun& run, const StackPlan& stack) {
  return std::any_of(run.plan->accuracy.begin(), run.plan->accuracy.end(),
                     [&](const PlannedAccuracy& planned) { return Lacks(run, planned, stack.name); });
}

StepOutcome RunAccuracy(JobRun* run, const StackPlan& stack, uint32_t cycle, const VerifyEvidence& verified,
                        ProcessWatch* watch, std::vector<std::string>* ids) {
  for (const PlannedAccuracy& planned : run->plan->accuracy) {
    if (!Lacks(*run, planned, stack.name)) continue;
    StepOutcome outcome = Arm(run, stack, planned, cycle, verified, watch, ids).Go();
    if (!outcome.passed()) return outcome;
  }
  return StepOutcome::Passed();
}

stats::AccuracyEvidence AccuracyOf(const JobRun& run, const StackPlan& stack) {
  stats::AccuracyEvidence evidence;
  evidence.compression = stack.kv.compression;
  const std::string directory = AccuracyDir(run, stack.name);
  if (!HasAccuracyResult(directory)) return evidence;
  DescribeAccuracyResult(directory, !stack.tiers.empty(), &evidence);
  evidence.directory = AccuracyDirName(stack.name);
  return evidence;
}

}  // namespace poolmark::controller

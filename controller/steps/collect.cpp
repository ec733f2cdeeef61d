#include "controller/steps/collect.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/results/compute.h"
#include "common/results/evidence_check.h"
#include "common/results/layout.h"
#include "common/results/reuse_facts.h"
#include "common/stats/slo.h"
#include "controller/steps/accuracy.h"
#include "controller/steps/catalogue_use.h"
#include "controller/steps/kv_formats.h"
#include "controller/steps/load_plan.h"
#include "controller/steps/path_evidence.h"

namespace poolmark::controller {
namespace {

void AddPresence(const JobRun& run, const RepeatRecord& record, const results::SampleFacts& samples,
                 stats::Evidence* evidence) {
  for (const auto& [machine, presence] : record.presence) {
    // M10: neither heartbeat nor sample. A machine that still sampled did not stop responding.
    Nanoseconds silence = presence.longest_silence;
    if (auto gap = samples.longest_gap.find(machine); gap != samples.longest_gap.end())
      silence = std::min(silence, gap->second);
    evidence->silences.push_back({machine, ToSeconds(silence), IsoUtc(presence.silence_began_wall)});
    stats::ClockEvidence clock;
    clock.machine = machine;
    clock.measured = presence.worst_clock.has_value();
    if (presence.worst_clock) {
      clock.worst_offset_seconds = ToSeconds(presence.worst_clock->offset);
      clock.uncertainty_seconds = ToSeconds(presence.worst_clock->uncertainty);
    }
    clock.step_seconds = ToSeconds(presence.largest_step);
    evidence->clocks.push_back(std::move(clock));
    if (presence.boot_changed) {
      stats::ResetEvidence reset;
      reset.machine = machine;
      reset.at = "the machine started anew";
      evidence->resets.push_back(std::move(reset));
    }
  }
  evidence->silence_limit_seconds = ToSeconds(run.registry->timing().silent);
}

std::string ShapeOf(const JobRun& run, const std::string& workload) {
  for (const spec::WorkloadSpec& spec : run.job->workloads) {
    if (spec.name == workload) return spec.shape;
  }
  return "";
}

// What was reusable of the prompts that were sent (M6), from the workload and the records.
results::ReuseFacts ReuseOf(const JobRun& run, const StackPlan& stack, const RepeatRecord& record,
                            const std::string& requests, const results::RepeatFacts& facts) {
  for (const spec::WorkloadSpec& workload : run.job->workloads) {
    if (workload.name != record.repeat.workload) continue;
    results::WorkloadInput input{workload.options_json, "", record.repeat.level.Name(),
                                 run.job->starting_state == "warm"};
    if (const auto file = run.input_files.find(workload.file); file != run.input_files.end())
      input.file = file->second;
    auto reuse = results::MeasureReuse(input, requests, facts.measured_from, facts.measured_to,
                                       static_cast<uint32_t>(std::max(1, stack.kv.block_tokens)));
    if (reuse.ok()) return *reuse;
    return results::NoReuse(std::string(reuse.status().message()));
  }
  return results::NoReuse("the job does not have this workload");
}

results::JobTerms TermsOf(const spec::JobSpec& job) {
  results::JobTerms terms;
  terms.starting_state = job.starting_state;
  terms.baseline = job.baseline;
  terms.slo = job.slo;
  for (const spec::WorkloadSpec& workload : job.workloads) terms.shapes[workload.name] = workload.shape;
  return terms;
}

}  // namespace

Result<results::RepeatFile> Collect(const JobRun& run, const StackPlan& stack, const RepeatRecord& record,
                                    const VerifyEvidence& verified) {
  results::RepeatFile file;
  results::RepeatFacts& facts = file.facts;
  facts.job_id = run.job_id;
  facts.point = {stack.name, record.repeat.workload, record.repeat.level.Name()};
  facts.repeat = record.repeat.repeat;
  facts.cycle = static_cast<int>(record.cycle);
  facts.strategy = std::string(spec::StrategyName(stack.strategy));
  facts.shape = ShapeOf(run, record.repeat.workload);
  facts.baseline = stack.name == run.job->baseline;
  facts.simulated = stack.simulated || !verified.simulated.empty();
  facts.open_loop = record.repeat.level.kind != spec::LoadLevel::Kind::kConcurrency;
  facts.gpus = stack.gpus;
  facts.notes = record.notes;
  facts.started = IsoUtc(record.began_wall);
  facts.ended = IsoUtc(record.ended_wall);
  facts.evidence.interrupted = record.interrupted;
  facts.evidence.state = record.state;
  facts.evidence.accuracy = AccuracyOf(run, stack);
  for (const spec::WorkloadSpec& workload : run.job->workloads) {
    if (workload.name == record.repeat.workload) facts.held_load = workload.load_duration.has_value();
  }
  results::SampleWindow window;
  if (record.load_json) {
    POOLMARK_ASSIGN_OR_RETURN(LoadTimes times, ParseLoadJson(*record.load_json));
    facts.started = IsoUtc(times.started_wall);
    facts.load_seconds = ToSeconds(times.load_end);
    facts.warm_up_seconds = ToSeconds(times.window_start);
    facts.measured_from = ToSeconds(times.window_start);
    facts.measured_to = ToSeconds(times.window_end);
    facts.drain_end = ToSeconds(times.total_end);
    facts.ran_out_of_sessions = facts.held_load && times.ran_out_of_sessions;
    facts.client_limited = times.client_limited;
    facts.notes.insert(facts.notes.end(), times.notes.begin(), times.notes.end());
    if (times.interrupted && facts.evidence.interrupted.empty())
      facts.evidence.interrupted = "the load was stopped before its end";
    window = {times.window_start, times.window_end, times.total_end};
  } else {
    const Nanoseconds length = std::max(record.ended_wall - record.began_wall, Nanoseconds(0));
    facts.load_seconds = facts.measured_to = facts.drain_end = ToSeconds(length);
    window = {Nanoseconds(0), length, length};
    if (facts.evidence.interrupted.empty())
      facts.evidence.interrupted = "the load left no record of its times";
  }
  facts.slos = run.slos;
  const auto catalogue = CatalogueIn(run.catalogue_dir);
  const results::PlanFile planned = ToFile(*run.plan);
  const results::PlanStack& as_planned = *planned.stack(stack.name);
  const results::SampleFacts samples =
      results::ReadSampleFacts(as_planned, record.samples, verified.versions, window, catalogue.get());
  facts.simulated = facts.simulated || samples.simulated;
  facts.engines = samples.engines;
  facts.caches = samples.caches;
  facts.power = samples.power;
  facts.evidence.resets = samples.resets;
  facts.evidence.formats = FormatsOf(stack, samples);
  facts.notes.insert(facts.notes.end(), samples.notes.begin(), samples.notes.end());
  AddPresence(run, record, samples, &facts.evidence);
  const std::string requests = JoinPath(record.directory, std::string(results::kRequestsFile));
  facts.reuse = record.has_requests ? ReuseOf(run, stack, record, requests, facts)
                                    : results::NoReuse("the load left no records");
  facts.transfers = results::TransfersOf(as_planned, samples, run.line_rate_bits);
  facts.evidence.paths = PathsOf(run, facts.transfers, samples, facts.simulated);
  auto figures = record.has_requests ? results::ComputeRepeat(facts, requests)
                                     : results::ComputeRepeat(
                                           facts, [](stats::RequestFacts*) -> Result<bool> { return false; });
  if (!figures.ok() && record.has_requests) {
    // Records that cannot be read make an invalid repeat with a reason, not a lost one.
    facts.evidence.interrupted =
        absl::StrCat("the load's records cannot be read: ", std::string(figures.status().message()));
    figures = results::ComputeRepeat(facts, [](stats::RequestFacts*) -> Result<bool> { return false; });
  }
  if (!figures.ok()) return figures.status();
  file.figures = std::move(*figures);
  results::AddNotJudged(results::EvidenceProblems(facts, planned, TermsOf(*run.job)), &file.figures);
  POOLMARK_ASSIGN_OR_RETURN(std::string text, results::Encode(file));
  POOLMARK_RETURN_IF_ERROR(MakeDirs(record.directory, 0750));
  POOLMARK_RETURN_IF_ERROR(
      AtomicWriteFile(JoinPath(record.directory, std::string(results::kRepeatFile)), text, 0640));
  return file;
}

}  // namespace poolmark::controller

#include "common/report/recompute.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/load/record_codec.h"
#include "common/report/files_check.h"
#include "common/report/workloads.h"
#include "common/results/compute.h"
#include "common/results/evidence_check.h"
#include "common/results/layout.h"
#include "common/results/reuse_facts.h"
#include "common/results/sample_check.h"
#include "common/results/summarize.h"
#include "common/results/sums.h"

namespace poolmark::report {
namespace {

bool Same(const Json& left, const Json& right) {
  if (left.is_number() && right.is_number()) {
    const double a = left.get<double>(), b = right.get<double>();
    return a == b || std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
  }
  return left == right;
}

std::string Shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 80 ? text.substr(0, 77) + "..." : text;
}

// Every place where two trees differ, in order.
void Differ(const Json& stored, const Json& computed, const std::string& path, const std::string& file,
            std::vector<Difference>* out) {
  if (out->size() >= kMaxDifferences) return;
  if (stored.is_object() && computed.is_object()) {
    for (const auto& [key, value] : computed.items()) {
      const std::string below = path.empty() ? key : path + "." + key;
      if (!stored.contains(key)) {
        out->push_back({file, below, "(nothing)", Shown(value)});
      } else {
        Differ(stored[key], value, below, file, out);
      }
    }
    for (const auto& [key, value] : stored.items()) {
      if (!computed.contains(key))
        out->push_back({file, path.empty() ? key : path + "." + key, Shown(value), "(nothing)"});
    }
  } else if (stored.is_array() && computed.is_array() && stored.size() == computed.size()) {
    for (size_t i = 0; i < stored.size(); ++i)
      Differ(stored[i], computed[i], path + "[" + std::to_string(i) + "]", file, out);
  } else if (!Same(stored, computed)) {
    out->push_back({file, path, Shown(stored), Shown(computed)});
  }
}

template <class T>
void Compare(const T& stored, const T& computed, const std::string& file, std::vector<Difference>* out) {
  const auto left = results::Encode(stored), right = results::Encode(computed);
  if (!left.ok() || !right.ok()) return;
  const auto a = ParseJson(*left, file), b = ParseJson(*right, file);
  if (!a.ok() || !b.ok()) return;
  std::vector<Difference> found;
  Differ(*a, *b, "", file, &found);
  out->insert(out->end(), found.begin(), found.end());
}

// The workload's own figures again, where its settings and its file are in the directory.
class WorkloadCheck {
 public:
  WorkloadCheck(const results::Directory& directory, Recomputed* out) : directory_(directory), out_(*out) {}

  // `sent`: the prompts of the repeat, as far as its records could be read.
  void Check(const results::RepeatFile& repeat, std::vector<workload::SentRequest> sent,
             results::RepeatFile* again) {
    const auto& workloads = directory_.job.workloads;
    const auto at = std::find_if(workloads.begin(), workloads.end(), [&](const auto& workload) {
      return workload.name == repeat.facts.point.workload;
    });
    if (at == workloads.end()) return;  // told with the job's own files
    if (at->options.empty())
      return Unchecked(*at, "job.json does not say the settings of workload " + at->name);
    auto reuse = Measure(*at, repeat, std::move(sent));
    if (!reuse.ok()) {
      // An input that was too big to keep has no name here; inputs.json says so of it.
      if (reuse.status().code() == absl::StatusCode::kNotFound && at->input.empty())
        return Unchecked(*at, WasTooBig() ? "" : "job.json does not name the input of workload " + at->name);
      out_.problems.push_back({results::DirectoryOf(repeat), "the reusable share was not computed again: " +
                                                                 std::string(reuse.status().message())});
      return;
    }
    again->facts.reuse = std::move(*reuse);
  }

 private:
  // Once a workload. `problem`: empty where nothing is wrong, and the reader must know all the same.
  void Unchecked(const results::JobWorkload& job, const std::string& problem) {
    if (!told_.insert(job.name).second) return;
    if (problem.empty()) {
      out_.unchecked.push_back("the reusable share of workload " + job.name +
                               ", whose input was too big to keep");
    } else {
      out_.problems.push_back(
          {std::string(results::kJobFile), problem + ": the reusable share was not computed again"});
    }
  }
  bool WasTooBig() const {
    if (!directory_.inputs) return false;
    const auto& inputs = directory_.inputs->inputs;
    return std::any_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.stored.empty(); });
  }
  Result<results::ReuseFacts> Measure(const results::JobWorkload& job, const results::RepeatFile& repeat,
                                      std::vector<workload::SentRequest> sent) {
    results::WorkloadInput input{job.options, "", repeat.facts.point.level,
                                 directory_.job.starting_state == "warm"};
    if (job.options.find("\"file\"") != std::string::npos) {
      input.file = JoinPath(directory_.path, job.input);
      if (job.input.empty() || !FileExists(input.file))
        return NotFound(input.file, "the input is not in the directory");
      POOLMARK_ASSIGN_OR_RETURN(const std::string sum, Sha256OfFile(input.file));
      if (!job.input_sha256.empty() && sum != job.input_sha256)
        return InvalidInput(input.file, "is not the input that was used: its SHA-256 differs");
    }
    return results::MeasureReuse(input, std::move(sent), repeat.facts.measured_from, repeat.facts.measured_to,
                                 repeat.facts.reuse.block_tokens);
  }

  const results::Directory& directory_;
  Recomputed& out_;
  std::set<std::string> told_;
};

// What the records of one repeat give, all in one reading of them.
struct RepeatRecords {
  std::vector<workload::SentRequest> sent;
  std::vector<results::PairedRequest> pairs;
};

Status ReadRecords(const std::string& path, const results::RepeatFacts& facts,
                   results::RepeatComputer* computer, LoadCheck* load, RepeatRecords* out) {
  POOLMARK_ASSIGN_OR_RETURN(const auto reader, load::RecordReader::Open(path));
  load::RequestRecord record;
  stats::RequestFacts request;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
    if (!more) return absl::OkStatus();
    results::RequestOf(record, &request);
    computer->Add(request);
    load->Add(record);
    if (const auto sent = results::SentOf(record)) out->sent.push_back(*sent);
    if (const auto pair = results::PairOf(facts, record, request)) out->pairs.push_back(*pair);
  }
}

// Files that a result is made of; others that lie beside them change nothing.
bool IsOfTheResult(const std::string& path) {
  for (const std::string_view name : {results::kJobFile, results::kPlanFile, results::kPreflightFile,
                                      results::kManifestFile, results::kSummaryFile, results::kEventsFile}) {
    if (path == name) return true;
  }
  for (const char* directory : {"points/", "cycles/", "inputs/", "quality/"}) {
    if (path.starts_with(directory)) return true;
  }
  return false;
}

void CheckFiles(const std::string& path, Recomputed* out) {
  if (!FileExists(JoinPath(path, results::kSumsFile))) {
    out->problems.push_back({std::string(results::kSumsFile),
                             "is missing: the files cannot be checked against what was written"});
    return;
  }
  const auto sums = results::CheckSums(path);
  if (!sums.ok()) {
    out->problems.push_back({std::string(results::kSumsFile), std::string(sums.status().message())});
    return;
  }
  std::string unlisted;  // put there later: nothing says what they were
  for (const auto& problem : *sums) {
    // A report may be written again, and one of a single load beside its records.
    if (problem.path == results::kReportFile ||
        problem.path.ends_with("/" + std::string(results::kReportFile)))
      continue;
    if (problem.problem == "not listed" && IsOfTheResult(problem.path)) {
      out->problems.push_back({problem.path, "is not listed in " + std::string(results::kSumsFile) +
                                                 ": it was added later, or the list is cut"});
      continue;
    }
    if (problem.problem == "not listed") {
      unlisted += (unlisted.empty() ? "" : ", ") + problem.path;
      continue;
    }
    out->problems.push_back({problem.path, problem.problem == "differs"
                                               ? "was changed after it was written (SHA-256 differs)"
                                               : "is missing"});
  }
  out->checked.push_back("SHA-256 of every file" +
                         (unlisted.empty() ? "" : ", except what is not listed: " + unlisted));
}

// Without the limits in job.json, as earlier versions wrote it, the repeats must agree with each other.
results::JobTerms TermsOf(const results::Directory& directory, std::vector<std::string>* unchecked) {
  results::JobTerms terms = results::TermsOf(directory.job);
  if (!terms.slo_limits && !terms.slo.empty() && !directory.repeats.empty()) {
    terms.slo_limits = directory.repeats.front().facts.slos;
    unchecked->push_back("the limits of goodput, which job.json of an earlier version does not hold");
  }
  for (const results::RepeatFile& repeat : directory.repeats) {
    const auto& caches = repeat.facts.caches;
    if (std::all_of(caches.begin(), caches.end(),
                    [](const auto& one) { return one.capacity_series.has_value(); }))
      continue;
    unchecked->push_back(
        "the series that told the caches' size, which repeat.json of an earlier version does not name");
    break;
  }
  return terms;
}

results::Witnesses WitnessesOf(const results::Directory& directory, const results::RepeatFile& repeat) {
  results::Witnesses out;
  if (directory.planned) out.stack = directory.planned->stack(repeat.facts.point.stack);
  if (directory.preflight) out.preflight = &*directory.preflight;
  if (directory.manifest) out.manifest = &*directory.manifest;
  return out;
}

// What the evidence of a repeat leaves open, by the plan, the job and the accuracy result in the directory.
std::vector<std::string> EvidenceProblems(const results::Directory& directory,
                                          const results::RepeatFile& repeat, const results::JobTerms& terms) {
  if (!repeat.facts.evidence.interrupted.empty()) return {};
  if (!directory.planned)
    return {"plan.json is missing or cannot be read: what the evidence must cover is not known"};
  auto out = results::EvidenceProblems(repeat.facts, *directory.planned, terms);
  const std::string& stored = repeat.facts.evidence.accuracy.verdict;
  if (stored.empty()) return out;
  const std::string file = results::QualityDir(repeat.facts.point.stack) + "/summary.json";
  const auto text = ReadFile(JoinPath(directory.path, file));
  const auto json = text.ok() ? ParseJson(*text, file) : Result<Json>(text.status());
  const Json verdict = json.ok() && json->is_object() ? json->value("verdict", Json()) : Json();
  if (!verdict.is_string()) {
    out.push_back(file + " is missing or cannot be read, evidence.accuracy says " + stored);
  } else if (verdict != stored) {
    out.push_back(file + " says " + verdict.get<std::string>() + ", evidence.accuracy says " + stored);
  }
  return out;
}

}  // namespace

Result<Recomputed> Recompute(const std::string& path, const RecomputeOptions& options) {
  Recomputed out;
  POOLMARK_ASSIGN_OR_RETURN(out.directory, results::ReadDirectory(path));
  out.problems = out.directory.problems;
  if (options.check_sums) {
    CheckFiles(path, &out);
    CheckJobFiles(out.directory, &out.problems);
    CheckTokenScales(out.directory.job, &out.differences);
  }
  WorkloadCheck workload(out.directory, &out);
  const results::JobTerms terms = TermsOf(out.directory, &out.unchecked);
  std::map<std::string, std::vector<results::PairedRequest>> pairs;  // by directory of the repeat
  for (const results::RepeatFile& stored : out.directory.repeats) {
    results::RepeatFile again = stored;
    const std::string directory = results::DirectoryOf(stored);
    std::vector<stats::InvalidReason> reasons;
    if (options.check_samples) {
      auto samples = results::CompareWithSamples(stored.facts, WitnessesOf(out.directory, stored),
                                                 JoinPath(path, directory));
      if (!samples.ok()) return samples.status();
      for (const std::string& line : samples->problems) out.problems.push_back({directory, line});
      reasons = std::move(samples->reasons);
    }
    LoadCheck load(out.directory, stored, options.check_sums, &out.problems, &out.differences);
    results::RepeatComputer computer(stored.facts);
    RepeatRecords records;
    const Status read = ReadRecords(JoinPath(JoinPath(path, directory), results::kRequestsFile), stored.facts,
                                    &computer, &load, &records);
    const bool computed = read.ok();
    auto gaps = load.Finish(read);
    if (!gaps.empty()) out.gap_curves[directory] = std::move(gaps);
    if (computed) {
      workload.Check(stored, std::move(records.sent), &again);
      again.figures = computer.Finish(again.facts);
      pairs[directory] = std::move(records.pairs);
    } else {
      out.problems.push_back({directory + "/" + std::string(results::kRequestsFile),
                              std::string(read.message()) + " (the figures shown are the stored ones)"});
      if (stored.facts.evidence.interrupted.empty())
        reasons.push_back(
            {stats::Reason::kNotJudged, std::string(results::kRequestsFile) + " cannot be read"});
    }
    results::AddNotJudged(EvidenceProblems(out.directory, stored, terms), &again.figures);
    again.figures.reasons.insert(again.figures.reasons.end(), reasons.begin(), reasons.end());
    again.figures.valid = again.figures.reasons.empty();
    if (computed)
      Compare(stored, again, directory + "/" + std::string(results::kRepeatFile), &out.differences);
    out.repeats.push_back(std::move(again));
  }
  for (const std::string& name : results::MissingRepeats(out.directory.job, out.directory.repeats)) {
    const std::string file = name + "/" + std::string(results::kRepeatFile);
    const bool told = std::any_of(out.problems.begin(), out.problems.end(),
                                  [&](const auto& problem) { return problem.path == file; });
    if (!told) out.problems.push_back({file, "is missing: the job ran it to its end"});
  }
  const results::ManifestFile none;
  out.summary = results::Summarize(
      out.directory.job, out.directory.manifest ? *out.directory.manifest : none, out.repeats,
      [&](const results::RepeatFile& repeat) { return pairs[results::DirectoryOf(repeat)]; });
  if (!out.directory.manifest) {
    out.summary.publishable = false;
    out.summary.held_back_by.push_back("there is no manifest that names the tools");
  }
  if (out.directory.summary)
    Compare(*out.directory.summary, out.summary, std::string(results::kSummaryFile), &out.differences);
  out.checked.push_back(std::to_string(out.repeats.size()) + " repeats from their requests and evidence");
  return out;
}

}  // namespace poolmark::report

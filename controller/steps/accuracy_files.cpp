#include "controller/steps/accuracy_files.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/secrets.h"
#include "common/http/stoppable_client.h"
#include "common/quality/accuracy.h"
#include "common/quality/accuracy_file.h"
#include "common/quality/codec.h"
#include "common/quality/judge_templates.h"
#include "common/quality/plan.h"
#include "common/quality/sender.h"
#include "common/results/layout.h"
#include "controller/steps/step.h"

namespace poolmark::controller {
namespace {

constexpr const char* kTokensFile = "accuracy.json";

Result<quality::AccuracyFile> TokensFile(const std::string& directory) {
  POOLMARK_ASSIGN_OR_RETURN(const std::string text,
                            ReadFile(JoinPath(directory, kTokensFile), quality::kMaxFileBytes));
  return quality::DecodeAccuracyFile(text, kTokensFile);
}

// "; of 12345 prompt tokens 80 % came from caches (gpu 10 %, remote 70 %)" and the notes.
std::string DescribeTokens(const std::string& directory) {
  const Result<quality::AccuracyFile> file = TokensFile(directory);
  return absl::StrCat("; ",
                      file.ok() ? quality::DescribeSources(*file) : std::string(file.status().message()));
}

// Was it measured that the candidate's counted pass read nothing back from below the GPUs?
bool ReadNoTier(const std::string& directory) {
  const Result<quality::AccuracyFile> file = TokensFile(directory);
  return file.ok() && file->sources && file->sources->below_gpu() <= 0;
}

std::string File(const std::string& directory, const char* prefix, const std::string& label,
                 const char* suffix) {
  return JoinPath(directory, absl::StrCat(prefix, label, suffix));
}

}  // namespace

std::string AccuracyDirName(const std::string& stack) {
  return results::QualityDir(stack);
}

std::vector<std::string> AccuracyLabels(const spec::AccuracySpec& spec, bool candidate) {
  if (candidate) return {"candidate"};
  std::vector<std::string> labels;
  for (int i = 0; i < spec.reference_repeats; ++i) labels.push_back(quality::ArmLabel("reference", i));
  return labels;
}

bool HasAccuracyArm(const spec::AccuracySpec& spec, bool candidate, const std::string& directory) {
  const std::vector<std::string> labels = AccuracyLabels(spec, candidate);
  return std::all_of(labels.begin(), labels.end(), [&](const std::string& label) {
    return FileExists(File(directory, "arm_", label, ".json"));
  });
}

bool HasAccuracyResult(const std::string& directory) {
  return FileExists(JoinPath(directory, "summary.json"));
}

Status TakeAccuracyArm(const spec::AccuracySpec& spec, bool candidate, const std::string& incoming,
                       const std::string& directory) {
  quality::Directory there(directory);
  POOLMARK_ASSIGN_OR_RETURN(auto ours, quality::Directory(incoming).LoadPlan());
  if (!ours) return NotFound(incoming, "has no plan.json");
  POOLMARK_ASSIGN_OR_RETURN(auto existing, there.LoadPlan());
  if (!existing) {
    for (const char* name : {"manifest.jsonl", "plan.json"})
      POOLMARK_RETURN_IF_ERROR(RenameDurably(JoinPath(incoming, name), JoinPath(directory, name)));
  } else if (existing->plan_fingerprint != ours->plan_fingerprint) {
    return Precondition(directory,
                        absl::StrCat("reference and candidate were not asked the same: ",
                                     quality::PlanDifferences(*ours, *existing)),
                        "the stacks must serve the same model under the same name");
  }
  bool first = true;
  for (const std::string& label : AccuracyLabels(spec, candidate)) {
    const std::string arm_file = File(incoming, "arm_", label, ".json");
    POOLMARK_ASSIGN_OR_RETURN(std::string arm_text, ReadFile(arm_file, quality::kMaxFileBytes));
    POOLMARK_ASSIGN_OR_RETURN(quality::Arm arm, quality::DecodeArm(arm_text, arm_file));
    POOLMARK_ASSIGN_OR_RETURN(std::string answers,
                              ReadFile(File(incoming, "answers_", label, ".jsonl"), quality::kMaxFileBytes));
    const std::string requests_file = File(incoming, "requests_", label, ".json");
    std::optional<quality::RequestLog> requests;
    if (FileExists(requests_file)) {
      POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(requests_file, quality::kMaxFileBytes));
      POOLMARK_ASSIGN_OR_RETURN(requests, quality::DecodeRequests(text, requests_file));
    }
    POOLMARK_RETURN_IF_ERROR(there.SavePass(arm, answers, requests, first));
    first = false;
  }
  return RemoveTree(incoming).status();
}

Status WriteAccuracyTokens(const std::string& directory, const PlannedAccuracy& planned,
                           const AccuracyTokens& tokens) {
  quality::AccuracyFile file;
  file.stack = planned.stack;
  file.reference = planned.reference;
  file.notes = tokens.notes;
  if (tokens.sources.has_value()) {
    const stats::TokenSources& s = tokens.sources.value();
    file.sources = {s.prompt, s.gpu, s.host, s.storage, s.remote, s.computed, s.not_attributed};
  } else {
    file.not_measured = tokens.sources.reason();
  }
  POOLMARK_ASSIGN_OR_RETURN(std::string text, quality::EncodeAccuracyFile(file));
  return AtomicWriteFile(JoinPath(directory, kTokensFile), text, 0640);
}

Result<JudgeAccess> JudgeAccessOf(const spec::AccuracySpec& spec, const std::string& state_dir) {
  JudgeAccess access;
  if (spec.metric != "judge") return access;
  POOLMARK_RETURN_IF_ERROR(http::ParseUrl(quality::ApiBase(spec.judge_url)).status());
  access.templates = JoinPath(state_dir, "quality/judge");
  if (!FileExists(JoinPath(access.templates, "template_accuracy1.txt")))
    access.templates = quality::JudgeTemplateDirectory();
  POOLMARK_RETURN_IF_ERROR(quality::LoadJudgeTemplates(access.templates).status());
  if (!spec.judge_key.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(access.key, Secrets(JoinPath(state_dir, "secrets"), "").Get(spec.judge_key));
  }
  return access;
}

Status JudgeAnswers(const spec::AccuracySpec& spec, std::stop_token stop) {
  if (spec.metric != "judge") return absl::OkStatus();
  http::Request request;
  POOLMARK_ASSIGN_OR_RETURN(request.url, http::ParseUrl(quality::ApiBase(spec.judge_url) + "/models"));
  // Any HTTP answer will do: not every server lists its models to everyone.
  Result<http::Response> response = http::MakeStoppableClient(std::move(stop))->Send(request);
  if (response.ok()) return absl::OkStatus();
  return Unavailable(spec.judge_url,
                     absl::StrCat("the judge cannot be reached: ", std::string(response.status().message())),
                     "see to accuracy.judge.url");
}

Result<std::string> CompareAccuracy(const spec::AccuracySpec& spec, const std::string& directory,
                                    const std::string& state_dir, const JudgeTick& progress,
                                    std::stop_token stop) {
  quality::AnalyzeOptions options;
  options.directory = directory;
  options.settings.metric = spec.metric;
  options.settings.tolerance = spec.tolerance;
  if (spec.metric == "judge") {
    POOLMARK_ASSIGN_OR_RETURN(JudgeAccess access, JudgeAccessOf(spec, state_dir));
    options.judge_url = spec.judge_url;
    options.settings.judge_model = spec.judge_model;
    options.judge_api_key = std::move(access.key);
    options.judge_templates = std::move(access.templates);
  }
  std::unique_ptr<http::Client> client = http::MakeStoppableClient(stop);
  quality::JudgeContext context{client.get(), [&](Nanoseconds wait) { WaitFor(stop, wait); }, stop,
                                [&](const quality::JudgeProgress& p) {
                                  if (progress) progress(p.done, p.total, p.unrated);
                                }};
  POOLMARK_ASSIGN_OR_RETURN(quality::AccuracyResult result, quality::FinishAccuracy(options, context));
  return absl::StrCat(std::string(quality::VerdictName(result.verdict)), ", ",
                      quality::DescribeAccuracy(result), DescribeTokens(directory));
}

void DescribeAccuracyResult(const std::string& directory, bool tiers, stats::AccuracyEvidence* evidence) {
  auto result = quality::ReadAccuracy(directory);
  if (!result.ok()) {
    evidence->detail = std::string(result.status().message());
    return;
  }
  evidence->verdict = std::string(quality::VerdictName(result->verdict));
  evidence->detail = quality::DescribeAccuracy(*result) + DescribeTokens(directory);
  if (result->verdict != quality::Verdict::kPass) return;
  std::string why = result->says_nothing;
  if (why.empty() && tiers && ReadNoTier(directory))
    why =
        "the counted pass read no KV from host, storage or remote, so none of it was compressed "
        "(let the stack say how to `evict`, or ask more questions)";
  if (why.empty()) return;
  evidence->verdict.clear();
  evidence->detail = absl::StrCat("PASS, but ", why, "; ", evidence->detail);
}

}  // namespace poolmark::controller

// Builds the plan of a run: store requests, measured prompts, and for every passage how it gets into the
// cache. Deterministic: the same questions, settings and tokenizer give the same bytes. Needs a tokenizer;
// analyze does not.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/quality/dataset.h"
#include "common/quality/types.h"
#include "common/tokenizer/tokenizer.h"

namespace poolmark::quality {

// How long a rendered request is.
struct PromptSize {
  std::string request_id;
  std::string qid;  // "": a store request
  int64_t tokens = 0;
};

struct PlanNotes {
  std::vector<std::string> warnings;
  std::vector<PromptSize> prompts;  // every store request, then every question
};

// "key=value" of --template-kwargs: true/false in any case, whole numbers, else text. Later ones win.
Result<TemplateKwargs> ParseTemplateKwargs(const std::vector<std::string>& arguments);
// The object that goes to the template and to requests.
std::string TemplateKwargsJson(const TemplateKwargs& kwargs);

// All problems of the settings at once.
Status CheckSettings(const Settings& settings);

// `progress(done, total)` is called now and then. created_at and lmcache_version are left for the caller.
using PlanProgress = std::function<void(int64_t done, int64_t total)>;
Result<Plan> BuildPlan(const Settings& settings, const std::vector<Question>& questions,
                       tokenizer::Tokenizer* tokenizer, PlanNotes* notes,
                       const PlanProgress& progress = nullptr);

// Refused where an engine that takes `context_tokens` of prompt and answer together, as `where` tells, could
// not answer a request: the longest one is named.
Status CheckContext(const PlanNotes& notes, const Settings& settings, int64_t context_tokens,
                    const std::string& where);

// The measured order of a question's passages in the reordered scenario: a permutation that is never the
// identity for two or more (decision Q8).
std::vector<size_t> MeasuredOrder(int64_t seed, const std::string& qid, size_t passages);

// "chunk_size is 16, the directory's is 256; ...", "" when they are equal.
std::string SettingsDifferences(const Settings& ours, const Settings& directorys);
// Why two plans have different fingerprints: "chunk_size is 16, the directory's is 256; ...".
std::string PlanDifferences(const Plan& ours, const Plan& directorys);

// What must hold for every plan of ours and whatever digests can show for a foreign one: dense ids, digests,
// references between records, blocks found in their store requests. Empty when sound.
std::vector<std::string> PlanProblems(const Plan& plan);
// Its part about values that the specification fixes or bounds: settings, padding, expected reuse, roles.
void CheckPlanValues(const Plan& plan, std::vector<std::string>* problems);
// Not in it, as another program may find evidence otherwise: where the data set marks none, the passages that
// hold a gold's words are the evidence.
void CheckFoundEvidence(const Plan& plan, std::vector<std::string>* problems);

}  // namespace poolmark::quality

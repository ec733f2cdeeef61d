// Does the evidence of a repeat cover what the plan and the job say it must, and do its facts agree with
// them? A list that is empty because nothing went wrong and one that was cut look alike: only the plan tells
// them apart. Pure.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/results/job_file.h"
#include "common/results/plan_file.h"
#include "common/results/repeat_file.h"

namespace poolmark::results {

// What the job asked for, as far as the facts of a repeat repeat it.
struct JobTerms {
  std::string job_id;  // "" : not known yet
  std::string starting_state = "empty";
  std::string baseline;
  std::vector<std::string> slo;
  std::optional<std::vector<stats::Slo>> slo_limits;  // nothing: not known
  std::map<std::string, std::string> shapes;          // by name of the workload
};
JobTerms TermsOf(const JobFile& job);

// Why the repeat cannot be judged, a line each; empty: nothing is missing. A repeat that was interrupted
// needs no evidence: it has its reason.
std::vector<std::string> EvidenceProblems(const RepeatFacts& facts, const PlanFile& plan,
                                          const JobTerms& terms);

// Makes the repeat invalid for each of them, with the reason `not_judged`.
void AddNotJudged(const std::vector<std::string>& problems, RepeatFigures* figures);

}  // namespace poolmark::results

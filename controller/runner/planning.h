// From a stored request to the plan: reads the specs from the snapshot, takes the machines as the registry
// knows them, makes the plan. The same way at submit, at the lock and after a restart; at the lock and for a
// dry run the machines are asked first how they are now (used ports, free disk and memory).
#pragma once
#include <memory>
#include <set>
#include <string>

#include "controller/runner/environment.h"

namespace poolmark::controller {

struct PlannedJob {
  spec::JobSpec job;
  Plan plan;
  bool names_machines = true;    // the pool file says which; else they were picked
  std::vector<stats::Slo> slos;  // that the job names
};

enum class FactsFrom { kRegistry, kAgents };

// `job_id`: machines held by it count as free; "" at submit. Machines that others hold count as free too: the
// job waits for them; where the pool file names none, free ones are taken first, and those in `reserved`
// (which earlier jobs wait for) last. A job that holds machines keeps them. All errors and refusals at once
// in `errors`.
Result<std::unique_ptr<PlannedJob>> PlanJob(const Environment& environment,
                                            const v1::SubmitJobRequest& request, const std::string& job_id,
                                            Errors* errors, FactsFrom facts = FactsFrom::kRegistry,
                                            const std::set<std::string>& reserved = {});

// Is this an error of the inputs (INVALID_ARGUMENT), or a plan that cannot work now (REFUSED)?
bool IsInputError(const Errors& errors);

}  // namespace poolmark::controller

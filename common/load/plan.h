// A plan file: a whole load as JSON, for jobs and for people who keep their loads in files. `poolmark load
// --plan FILE` runs it; the controller writes it. Documented in docs/load.md. Pure but for
// PlanDigest.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/result.h"
#include "common/load/options.h"
#include "common/load/summary.h"

namespace poolmark::load {

struct Plan {
  // Everything but urls, headers of the key and the loops' own choices; `urls` are filled from base_urls
  // once the workload has said its API's path.
  LoadOptions options;
  std::vector<std::string> base_urls;
  std::string api_key_file;   // "": none
  std::string workload_json;  // an object for workload::OpenSource
  std::string tokenize_url;   // base URL of an engine that counts tokens for text prompts; "": none
  std::string tokenizer;      // a tokenizer.json or its directory, instead; "": none
  std::string out;            // directory of the results
  int processes = 1;
  std::optional<Nanoseconds> start_at_wall;
  std::optional<Slo> slo;
};

// All errors at once; unknown keys are errors. `where` leads them.
Result<Plan> ParsePlan(const Json& json, const std::string& where = "plan");
Result<Json> PlanJson(const Plan& plan);
// SHA-256 of what all workers of one load have in common: the plan without its worker, outputs, threads and
// secrets, and the data set's content. Reads the data set.
Result<std::string> PlanDigest(const Plan& plan);

}  // namespace poolmark::load

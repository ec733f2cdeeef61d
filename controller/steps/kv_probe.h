// Asks engines and reads their counters through the agents, for Verify and for canary prompts. Every request
// and scrape is one Probe call from the machine of the process. Used by one thread.
#pragma once
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/prom/parser.h"
#include "controller/steps/counters.h"
#include "controller/steps/step.h"

namespace poolmark::controller {

struct Completion {
  std::string text;
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> completion_tokens;
};

// A prompt of `words` short words that no other seed begins like.
std::string UniquePrompt(const std::string& seed, int words);

// POST <base_url>/v1/completions from `machine`. An answer without output is an error.
Result<Completion> Ask(const JobRun& run, const std::string& machine, const std::string& base_url,
                       const std::string& model, const std::string& prompt, int max_tokens);
// The first model of <base_url>/v1/models.
Result<std::string> FirstModel(const JobRun& run, const std::string& machine, const std::string& base_url);
// The answer's text; an error with the status and the beginning of the body where it is no 2xx.
Result<std::string> Get(const JobRun& run, const std::string& machine, const std::string& url);

// What the program says of its version: GET /version, /props of llama.cpp, INFO of Redis and Valkey. Empty
// where it does not tell, or tells that it does not know ("b0-unknown").
std::string ProgramVersion(const JobRun& run, const PlannedProcess& process);

// The engine's counters now, with those of its cache server.
struct EngineReading {
  Totals engine;
  Totals cache;
};
Result<EngineReading> Read(const JobRun& run, const StackPlan& stack, const PlannedProcess& engine);
// Where the prompt tokens between two readings came from. `alone`: the engine was asked directly, whatever
// its role in the pool.
stats::EngineAttribution Between(const StackPlan& stack, const PlannedProcess& engine,
                                 const std::string& version, const EngineReading& before,
                                 const EngineReading& after, bool alone = false);

}  // namespace poolmark::controller

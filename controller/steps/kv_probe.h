// Asks engines and reads their counters through the agents, for Verify and for canary prompts. Every request
// and scrape is one Probe call from the machine of the process. Used by one thread.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/prom/parser.h"
#include "common/prom/version_source.h"
#include "controller/steps/counters.h"
#include "controller/steps/step.h"

namespace poolmark::controller {

// Codes of errors whose cause is the program that was asked, not the agent that asked it.
inline constexpr char kEngineFailed[] = "engine_failed";  // it answered with an error, or without output
inline constexpr char kNoAnswer[] = "no_answer";          // no connection, or nothing within the deadline

struct Completion {
  std::string text;
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> completion_tokens;
  size_t events = 0;  // with output, of a stream
};

// A prompt of `words` short words that no other seed begins like.
std::string UniquePrompt(const std::string& seed, int words);

// POST <base_url>/v1/completions from `machine`. An answer without output is an error.
Result<Completion> Ask(const JobRun& run, const std::string& machine, const std::string& base_url,
                       const std::string& model, const std::string& prompt, int max_tokens);
// The same as the load asks: a stream, of chat completions or plain ones, that must hold output and end well.
Result<Completion> AskStream(const JobRun& run, const std::string& machine, const std::string& base_url,
                             bool chat, const std::string& model, const std::string& prompt, int max_tokens);
// The first model of <base_url>/v1/models.
Result<std::string> FirstModel(const JobRun& run, const std::string& machine, const std::string& base_url);
// The answer's text; an error with the status and the beginning of the body where it is no 2xx.
Result<std::string> Get(const JobRun& run, const std::string& machine, const std::string& url);

// What the program says of its version when it is asked as its dialect's `version_from` says. Empty where it
// does not tell, or is asked by hand only.
std::string ProgramVersion(const JobRun& run, const PlannedProcess& process,
                           const prom::VersionSource& source);

// The engine's counters now, with those of its cache server.
struct EngineReading {
  Totals engine;
  Totals cache;
  std::shared_ptr<const prom::Catalogue> catalogue;  // by which they were added up; null: none
};
Result<EngineReading> Read(const JobRun& run, const StackPlan& stack, const PlannedProcess& engine);
// Where the prompt tokens between two readings came from. `alone`: the engine was asked directly, whatever
// its role in the pool.
stats::EngineAttribution Between(const StackPlan& stack, const PlannedProcess& engine,
                                 const std::string& version, const EngineReading& before,
                                 const EngineReading& after, bool alone = false);

}  // namespace poolmark::controller

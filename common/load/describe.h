// What a load was, for its own results: load.json and `-o json` can be understood, compared and merged
// without the command that made them. The keys are those of a plan file where both have one. Secrets never
// get in: of headers only the names. Reads the host's name and size; otherwise pure.
#pragma once
#include "common/load/options.h"
#include "common/load/summary.h"

namespace poolmark::load {

// What the maker of the sessions knows. Pure values.
struct SourceFacts {
  std::string model;
  std::string api;                                     // "chat" or "completions"
  std::optional<std::string> prompt;                   // "ids" or "text"
  std::optional<std::string> prompt_lengths;           // "exact, counted by …" or "estimates"
  bool input_tokens_exact = false;                     // what the server counts can be checked against it
  std::optional<int64_t> input_tokens, output_tokens;  // of every request, where they are all alike
  std::optional<uint64_t> requests;                    // asked for
  std::optional<uint64_t> seed;                        // of the prompts
  std::string workload_json;                           // of a plan file; "": none
  std::string plan_sha256;  // of the plan without what differs from worker to worker; "": no plan file
};

// The part of a plan file that is about the load itself, from "load" to "request_id_prefix".
Json SettingsJson(const LoadOptions& options, int processes);
Json SloJson(const Slo& slo);
Result<Slo> SloOfJson(const Json& json);
// As JSON text.
Result<std::string> DescribeLoad(const LoadOptions& options, int processes,
                                 const std::optional<Nanoseconds>& start_at_wall,
                                 const std::optional<Slo>& slo, const SourceFacts& source,
                                 const std::vector<std::string>& source_notes);
// The users, arrivals or speed-up of a described load and its duration, as far as a summary needs them.
Result<LoadOptions> OptionsOfDescription(const Json& load);
// What a load.json says of the program itself, added to what others said: the worst of delays, the sum of
// counts; of requests in flight the largest, since what was in flight together only the records of all say.
// Throws where the JSON is of another form.
void AddClient(const Json& client, ClientFigures* sum);

}  // namespace poolmark::load

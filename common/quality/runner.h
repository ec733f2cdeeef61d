// A run: builds or checks the plan, then runs the arms that have a URL, one request in flight, and saves each
// pass as it finishes. Not thread-safe; one run at a time per directory.
#pragma once
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/http/client.h"
#include "common/quality/directory.h"
#include "common/quality/sender.h"
#include "common/quality/types.h"

namespace poolmark::quality {

struct RunOptions {
  std::string out;
  Settings settings;
  std::string dataset_file;   // the records of settings.dataset; "": ResolveDataset() finds them
  std::string tokenizer;      // a tokenizer.json or its directory; "": a tokenize endpoint
  std::string tokenize_url;   // of the engine that is asked for tokens; "": the first arm's
  std::string reference_url;  // "": this arm is not run
  std::string control_url;
  std::string candidate_url;
  int64_t reference_repeats = 2;
  std::string blend_metrics_url;  // --capture-blend-metrics; candidate only
  Nanoseconds settle = std::chrono::seconds(2);
  Nanoseconds request_timeout = std::chrono::seconds(600);
  bool resume = false;  // keep passes that are already finished with the same URL
  std::string api_key;
};

struct RunProgress {
  std::string stage;  // "plan", "candidate store", "candidate"
  int64_t done = 0;
  int64_t total = 0;
  int64_t failed = 0;
  std::optional<Nanoseconds> left;  // estimate, from the second step on
};

// What a run needs from outside; everything outlives the run.
struct RunContext {
  http::Client* client = nullptr;
  const Clock* clock = nullptr;
  Sender::Sleep sleep;
  std::stop_token stop;
  std::function<void(const RunProgress&)> progress;  // may be empty
  std::function<void(const std::string&)> note;      // warnings and results, a line each; may be empty
};

struct RunReport {
  std::vector<std::string> saved;  // labels
  std::vector<std::string> kept;   // with resume
  int64_t failed_questions = 0;
  int64_t failed_stores = 0;
  bool interrupted = false;
};

// Errors are refusals (exit 2): bad settings, a directory of another plan or schema, a tokenizer or metrics
// page that cannot be read. Failed requests are data. Passes finished before an error or interrupt are kept.
Result<RunReport> RunArms(const RunOptions& options, const RunContext& context);

}  // namespace poolmark::quality

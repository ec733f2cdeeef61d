// job.yaml as plain structs. Pure values; read and validated by common/spec/read.h.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/units.h"
#include "common/spec/pool.h"
#include "common/spec/stack.h"

namespace poolmark::spec {

// One load level of a workload: users at once, requests a second, or trace speed.
struct LoadLevel {
  enum class Kind { kConcurrency, kRate, kSpeedup } kind = Kind::kConcurrency;
  double value = 1;
  std::string steps = {};    // a rate's steps and ramps as written ("10-100:60s"); "": plain
  std::string Name() const;  // "c16", "r5", "r0.5", "x2", "r10-100_60s"; a long one "rsteps-1a2b3c4d"
  bool operator==(const LoadLevel&) const = default;
};

struct WorkloadSpec {
  std::string name;
  std::string where;  // file, line and column in the job file, for errors found later
  std::string shape;  // agentic, shared-prompt, synthetic, trace
  std::string file;   // as written; the controller resolves it to the stored input
  std::vector<LoadLevel> levels;
  std::optional<Nanoseconds> load_duration;  // agentic only
  std::optional<Nanoseconds> warm_up;        // agentic only
  bool text_prompts = false;                 // whose tokens somebody has to count (M23), no token ids
  // The workload as one JSON object, checked by workload::ParseWorkload (docs/workloads.md), without the
  // load levels; `file` still as written.
  std::string options_json;
};

struct StackUse {
  std::string use;  // file or name of the catalogue
  std::string as;
  std::map<std::string, std::string> set;
};

struct Slo {
  std::string name;  // a preset of deploy/slo
};

// The accuracy run of the job's stacks that compress KV (docs/quality.md, "Inside a job").
struct AccuracySpec {
  std::string dataset;    // hotpotqa, musique or a file, as written
  std::string reference;  // a stack without compression; empty: the baseline, else the first such stack
  std::string metric = "match";
  std::string scenario = "independent";
  int limit = 200;  // questions; 0: all
  int max_output_tokens = 2048;
  int reference_repeats = 2;
  double tolerance = 0.05;
  // Metric judge only; the key is the name of a secret of the controller's, "": none.
  std::string judge_url, judge_model, judge_key;
};

// The machines that send the load, several share it; and when a load without answers is given up.
struct LoadSpec {
  std::vector<std::string> machines;                   // of the pool; empty: the head
  Nanoseconds start_after = std::chrono::seconds(10);  // several: from starting them to their common start
  std::optional<Nanoseconds> stall = std::chrono::seconds(60);  // no token for any user; empty: never
  // A tokenizer.json or its directory on these machines, which counts text prompts; "": the engine does.
  std::string tokenizer;
};

struct JobSpec {
  std::string pool_file;
  PoolSpec pool;
  std::vector<StackUse> uses;
  std::vector<StackSpec> stacks;  // resolved, same order as `uses`
  std::string baseline;           // `as` of the baseline stack; empty: none
  std::vector<WorkloadSpec> workloads;
  int repeats = 3;
  std::string starting_state = "empty";  // empty or warm
  std::vector<std::string> slo;
  int line_rate_runs = 3;
  int line_rate_seconds = 10;
  bool line_rate = true;  // preflight.line_rate: off switches it off, with a note
  std::optional<AccuracySpec> accuracy;
  std::optional<Nanoseconds> request_deadline;  // per request
  LoadSpec load;
  uint64_t seed = 42;
};

}  // namespace poolmark::spec

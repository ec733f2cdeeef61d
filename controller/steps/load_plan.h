// The plan file of the load process, and what is in its progress lines and in load.json (docs/load.md). Pure.
#pragma once
#include <optional>
#include <string>

#include "controller/steps/step.h"

namespace poolmark::controller {

struct LoadPlanInput {
  const StackPlan* stack = nullptr;
  const spec::WorkloadSpec* workload = nullptr;
  PlannedRepeat repeat;
  std::string model;
  std::string file;        // of the workload, where the head finds it; "": it has none
  std::string output_dir;  // on the head
  std::string marker;      // prompts of this job and repeat share no KV with others
  std::optional<Nanoseconds> request_deadline;
  std::string tokenizer;     // a tokenizer.json or its directory on the load's machine; "": none
  std::string tokenize_url;  // of an engine that counts tokens where there is no tokenizer; "": none
  uint64_t seed = 42;
  // One of several workers that share the load and begin together, by its own machine's clock.
  uint32_t worker = 0, workers = 1;
  std::optional<Nanoseconds> start_at_wall;
};
Result<std::string> LoadPlanJson(const LoadPlanInput& input);

// One level of a workload for people: "16 users", "Poisson arrivals, 5 requests/s".
// A workload of the job as people see it, with its token scale: "moon@1/64" (M21).
std::string ScenarioName(const spec::JobSpec& job, const std::string& workload);
std::string DescribeLevel(const spec::WorkloadSpec& workload, const spec::LoadLevel& level);

// One progress line: "start", "progress" once a second, "end" or "error".
struct LoadProgress {
  std::string event;
  double seconds = 0;           // of the load
  std::string phase;            // "warm-up", "load", "drain"
  std::string message;          // of an error
  Nanoseconds started_wall{0};  // of a start, by the head's clock
  // Of a progress line; a line without one says nothing about it.
  std::optional<uint64_t> in_flight, failed;
  std::optional<double> events_per_second;  // events with output
};
std::optional<LoadProgress> ParseProgress(const std::string& line);

// The last progress lines of several workers as one: counts and rates added up, times at their worst. One
// line stays as it is.
std::string SumProgress(const std::vector<std::string>& lines);

// What load.json says of the times of a load, in nanoseconds from its start.
struct LoadTimes {
  Nanoseconds started_wall{0};
  Nanoseconds window_start{0}, window_end{0}, load_end{0}, total_end{0};
  bool interrupted = false;
  bool ran_out_of_sessions = false;
  bool client_limited = false;  // the load's machine was too slow for it
  std::vector<std::string> notes;
};
Result<LoadTimes> ParseLoadJson(const std::string& text);

}  // namespace poolmark::controller

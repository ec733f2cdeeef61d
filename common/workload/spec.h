// What a workload of a job file says, checked: `workloads.<name>` of job.yaml (design section 7) as JSON.
// The file itself is not opened here. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/load/arrivals.h"
#include "common/workload/prompt.h"

namespace poolmark::workload {

// Of one prompt; more is a mistake in the file.
inline constexpr int64_t kMaxTokens = 16'000'000;
// Of a workload: what inspect, plan and comparison hold of each is some 200 bytes.
inline constexpr int64_t kMaxRequests = 2'000'000;

enum class Shape { kAgentic, kSharedPrompt, kSynthetic, kTrace };
enum class TraceFormat { kMooncake, kQwenBailian, kAzure2023, kAzure2024, kBurstGpt };

std::string_view Name(Shape shape);
std::string_view Name(TraceFormat format);

// token_scale (M21): 1/32 shrinks every block and output in proportion, rounded up, so never below one token.
int64_t ScaleTokens(int64_t tokens, Ratio scale);

// One rate: plain, or steps and ramps as the load generator writes them ("10:60s,10-100:60s").
struct RateLevel {
  double value = 0;   // requests per second; of steps the first
  std::string steps;  // "": plain
  bool operator==(const RateLevel&) const = default;
};

struct WorkloadSpec {
  Shape shape = Shape::kSynthetic;
  std::string file;  // agentic, trace
  TraceFormat format = TraceFormat::kMooncake;
  uint64_t seed = 42;
  std::string marker;         // (job, repeat): other marker, other tokens (M20)
  bool live_answers = false;  // answers: live
  Ratio token_scale;

  // How requests are written.
  bool chat = false;      // api: chat | completions
  bool token_ids = true;  // prompt: ids | text; chat is always text
  Vocabulary vocabulary;
  std::string model = "default";
  bool ignore_eos = true;

  // Load level. At most one of the three per point; lists are for the planner.
  std::vector<int64_t> concurrency;
  std::vector<RateLevel> rate;
  load::ArrivalOptions::Kind arrivals = load::ArrivalOptions::Kind::kPoisson;  // of a rate
  double arrivals_cv = 1;                                                      // gamma
  std::vector<double> speedup;                                                 // traces: 2 is twice as fast
  std::optional<int64_t> users;                                                // open loop: sessions in turn

  // synthetic and shared prompt
  int64_t sessions = 100;
  int64_t groups = 1;
  int64_t prefix = 0;   // shared by a group; shared prompt: by all
  int64_t history = 0;  // shared prompt: of one user, before the first question
  int64_t turns = 1;
  int64_t input = 0;   // first question
  int64_t growth = 0;  // new tokens of each later turn, besides the answer before it
  int64_t output = 0;
  Nanoseconds think{0};

  // traces
  std::optional<int64_t> block_tokens;  // of the trace, where it is not the format's own
  std::optional<int64_t> limit;         // read that many requests or sessions
  // agentic (M20)
  std::optional<Nanoseconds> load_duration;
  std::optional<Nanoseconds> warm_up;
  bool recorded_think = true;  // think: recorded | none
  std::optional<Nanoseconds> think_cap;
  double time_scale = 1;                // recorded think times times this
  double start_from = 0, start_to = 0;  // start: [0.25, 0.75], share of a session's rounds

  bool operator==(const WorkloadSpec&) const = default;
};

inline constexpr Nanoseconds kDefaultLoadDuration = std::chrono::seconds(1200);
inline constexpr Nanoseconds kDefaultWarmUp = std::chrono::seconds(300);

// All errors at once, each with `where` + "." + key; unknown keys come with the nearest known one.
// Agentic: load duration 120 to 14400 s, warm-up 0 to 3600 s and less than half of it, defaults filled in;
// the other shapes refuse both (methodology, "Load duration, warm-up and the measured window").
Result<WorkloadSpec> ParseWorkload(const Json& json, const std::string& where = "workload");

// Of a workload as its author wrote it, with all its levels: a setting that does nothing without one is
// refused. Where a level was taken out, to be given apart, this is not asked.
Status CheckLevels(const WorkloadSpec& spec, const std::string& where = "workload");

// "Measured over 15 min after a 5 min warm-up" or "Measured over the whole run" (M19).
std::string MeasuredLine(const WorkloadSpec& spec);
// The arrivals at one of its rates; empty steps where the text is none (ParseWorkload refuses that).
load::ArrivalOptions ArrivalsOf(const WorkloadSpec& spec, const RateLevel& level, uint64_t seed);

std::string MeasuredLine(Nanoseconds measured, Nanoseconds warm_up);

}  // namespace poolmark::workload

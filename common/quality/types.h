// What the files of a results directory hold, as plain values. Names follow the files' fields;
// docs/quality.md says what each means. Sentinels of the files (-1.0, "") are kept only where the format
// fixes them: they are converted in codec.h. No behaviour, no threads.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/quality/statistics.h"

namespace poolmark::quality {

inline constexpr int64_t kSchemaVersion = 1;
inline constexpr char kJudgeMetric[] = "ragas-0.4.3/nv_accuracy";

struct Message {
  std::string role;
  std::string content;
  bool operator==(const Message&) const = default;
};
using Messages = std::vector<Message>;

using TemplateValue = std::variant<bool, int64_t, std::string>;
using TemplateKwargs = std::vector<std::pair<std::string, TemplateValue>>;

enum class Scenario { kIndependent, kReordered, kConcatenated };

struct Settings {
  std::string model;
  std::string dataset;
  std::string task = "qa";
  std::string scenario;
  int64_t num_samples = 0;
  int64_t chunk_size = 0;
  int64_t max_output_tokens = 0;
  TemplateKwargs template_kwargs;
  int64_t seed = 0;
  std::optional<std::string> filler;       // absent in plans made before it was recorded
  std::optional<int64_t> min_unit_tokens;  // concatenated only
};

struct StoreRequest {
  std::string request_id;
  Messages messages;
};

struct PassageRecord {
  std::string passage_id;
  std::string origin;
  std::string store_request_id;
  int64_t stored_position = 0;
  int64_t measured_position = 0;
  bool is_evidence = false;
  std::vector<std::string> measured_earlier_in;
  int64_t pad_tokens = 0;
};

struct Sample {
  std::string qid;
  std::string request_id;
  std::string prompt_hash;
  std::string evidence_source;
  std::vector<std::string> evidence_passage_ids;
  std::optional<int64_t> expected_reused_tokens;
  std::optional<int64_t> unit_position;
  std::optional<std::string> duplicate_of;
  std::vector<PassageRecord> passages;
  // In plan.json alone, not in manifest.jsonl:
  std::string question;
  std::vector<std::string> answers;
  std::vector<std::string> documents;
  std::vector<int64_t> evidence_indices;
  Messages messages;
};

struct Padding {
  std::string filler;
  int64_t pad_tokens = 0;
  int64_t prompt_tokens = 0;
};

struct Plan {
  std::string plan_fingerprint;
  std::string prompts_digest;
  std::string lmcache_version;
  std::string created_at;
  Settings settings;
  std::string
      settings_json;  // the object as it stands in plan.json: digests and summary.json take it from here
  std::string scenario;
  int64_t chunk_size = 0;
  std::vector<StoreRequest> store_requests;
  std::vector<Sample> samples;
  std::optional<Padding> padding;
};

struct Counters {
  double requested_tokens = 0;
  double prefix_hit_tokens = 0;
  double non_prefix_hit_tokens = 0;
  double segmented_prefix_hit_tokens = 0;
  double stale_chunks = 0;
  double fingerprints_registered = 0;
  double prefix() const { return prefix_hit_tokens + segmented_prefix_hit_tokens; }
  double reused() const { return prefix() + non_prefix_hit_tokens; }
  // Of the looked-up tokens; 0 where none were. Counters may hold anything: less than a token is none.
  double blend_share() const {
    return requested_tokens >= 1 ? non_prefix_hit_tokens / requested_tokens : 0.0;
  }
  bool operator==(const Counters&) const = default;
};
// More in a counter is no reading: sums must stay finite.
inline constexpr double kMostTokens = 1e15;
// The fields in file order, for codecs and for reading the series.
inline constexpr std::array<std::pair<const char*, double Counters::*>, 6> kCounterFields{{
    {"requested_tokens", &Counters::requested_tokens},
    {"prefix_hit_tokens", &Counters::prefix_hit_tokens},
    {"non_prefix_hit_tokens", &Counters::non_prefix_hit_tokens},
    {"segmented_prefix_hit_tokens", &Counters::segmented_prefix_hit_tokens},
    {"stale_chunks", &Counters::stale_chunks},
    {"fingerprints_registered", &Counters::fingerprints_registered},
}};

struct Arm {
  std::string plan_fingerprint;
  std::string role;  // reference, control, candidate
  int64_t run_index = 0;
  std::string label;
  std::string url;
  std::string blend_metrics_url;
  std::optional<std::string> engine_version;
  std::string lmcache_version;
  std::string started_at;
  std::string finished_at;
  bool engagement_measured = false;
  std::optional<Counters> counters;
  int64_t store_failures = 0;
  int64_t num_questions = 0;
};

struct Answer {
  std::string qid;
  std::string request_id;
  bool successful = false;
  std::string answer;  // "" when there is no complete one
  std::string response;
  std::optional<double> ttft_seconds;  // nothing when the request failed; -1.0 in the file
  int64_t num_output_tokens = 0;
  std::optional<Counters> counters;
};

// How the requests of a pass went, which the format has no place for: requests_<label>.json, our own file.
struct TroubledRequest {
  std::string request_id;
  int64_t attempts = 1;
  bool successful = false;
  std::string problem;  // of the last attempt that failed
};
struct RequestLog {
  std::string label;
  std::string started_at;  // the pass that it belongs to has these times
  std::string finished_at;
  int64_t requests = 0;                   // store requests and questions
  std::vector<TroubledRequest> troubled;  // sent again or failed, in the order they were sent
  // What the store requests added to the blend server's fingerprint index; nothing where it was not read.
  std::optional<double> chunks_registered_by_stores;
  int64_t sent_again() const {
    int64_t total = 0;
    for (const TroubledRequest& request : troubled) total += request.attempts - 1;
    return total;
  }
  int64_t failed() const {
    int64_t total = 0;
    for (const TroubledRequest& request : troubled) total += request.successful ? 0 : 1;
    return total;
  }
};

struct Pass {
  Arm arm;
  std::vector<Answer> answers;
  std::optional<RequestLog> requests;  // other programs write none
};

// One value per pass, in the order of the arms.
template <class T>
using PerArm = std::vector<std::pair<std::string, T>>;

struct EvidencePlace {
  std::string passage_id;
  std::string origin;
  int64_t stored_position = 0;
  int64_t measured_position = 0;
};

struct RowReuse {
  std::optional<int64_t> expected_tokens;
  std::optional<std::string> kind;  // prefix, blended, none
  std::optional<double> prefix_tokens;
  std::optional<double> blended_tokens;
};

struct Row {
  std::string qid;
  std::vector<std::string> gold;
  PerArm<std::optional<double>> scores;
  std::optional<PerArm<double>> match;  // judge metric only
  PerArm<std::string> answers;
  std::optional<std::string> loss_tag;
  std::optional<bool> reference_flipped;
  std::optional<double> blend_share;
  RowReuse reuse;
  std::vector<EvidencePlace> evidence;
};

struct ArmComparison {
  std::string label;
  PairedComparison figures;
};

struct Engagement {
  bool measured = false;
  double blend_share = 0;
  double min_window_share = 0;
  double stale_chunks = 0;
  double segmented_prefix_hit_tokens = 0;
  double fingerprints_registered = 0;
  bool engaged = true;
  std::string gate;  // blend_share, reuse
  std::optional<double> reuse_ratio;
  std::optional<double> min_window_reuse_ratio;
};

struct ReuseGroup {
  std::string kind;
  int64_t questions = 0;
  PairedComparison figures;
};

struct ReuseSummary {
  std::optional<int64_t> expected_tokens;
  double observed_tokens = 0;
  double observed_prefix_tokens = 0;
  double observed_blended_tokens = 0;
  std::optional<double> observed_over_expected;
  std::vector<ReuseGroup> groups;
};

struct ArmCounts {
  int64_t answered = 0;
  int64_t empty = 0;
  int64_t abstained = 0;
};

// What the verdict was taken with: summary.json's settings beyond the plan's.
struct VerdictSettings {
  std::string metric = "match";            // match, f1, judge
  std::optional<std::string> judge_model;  // judge only
  double tolerance = 0.05;
  double min_blend_share = 0.3;
  double min_reuse_ratio = 0.8;
};

struct Summary {
  std::string run_fingerprint;
  std::string plan_fingerprint;
  std::string settings_json;  // the plan's
  VerdictSettings verdict_settings;
  int64_t reference_repeats = 0;
  std::string blend_metrics_url;
  std::vector<Arm> arms;
  int64_t num_questions = 0;
  int64_t unscored_questions = 0;
  int64_t evidence_dataset = 0;
  int64_t evidence_answer_string = 0;
  int64_t evidence_none = 0;
  double measured_earlier_share = 0;
  std::optional<Padding> padding;
  std::optional<ReuseSummary> reuse;
  int64_t num_store_requests = 0;
  Verdict verdict = Verdict::kInvalid;
  std::vector<std::string> invalid_reasons;
  int64_t samples_needed = 0;
  std::optional<double> reference_flip_rate;  // nothing with one reference pass; -1.0 in the file
  ArmComparison candidate;
  std::vector<ArmComparison> others;
  Engagement engagement;
  PerArm<ArmCounts> arm_counts;
  PerArm<int64_t> store_failures;
  PerArm<int64_t> loss_tags;
};

}  // namespace poolmark::quality

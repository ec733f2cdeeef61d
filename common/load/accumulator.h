// What a summary needs of each record, kept small: 64 bytes a request, so that percentiles are exact without
// reading the records again; gaps, of which there are hundreds a request, as counts. Not thread-safe.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "common/load/histogram.h"
#include "common/load/in_flight.h"
#include "common/load/record.h"

namespace poolmark::load {

// Time per output token (M4) in nanoseconds; nothing below two output tokens or where one event held all.
std::optional<double> TimePerOutputToken(const RequestRecord& record);

struct RequestFigures {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
  int64_t window_time = 0;
  int64_t ttft = kNone;       // from latency_start() to the first output
  int64_t latency = kNone;    // from latency_start() to the last output
  float ttft_from_sent = -1;  // nanoseconds; below 0: not measured
  float kernel_ttft = -1;
  float answer_ttft = -1;
  float time_per_output_token = -1;
  float connect = -1;
  float first_byte = -1;
  uint32_t input_tokens = 0;
  uint32_t cached_tokens = 0;
  uint32_t output_tokens = 0;
  Outcome outcome = Outcome::kOk;
  bool primer : 1 = false;
  bool has_input_tokens : 1 = false;
  bool has_cached_tokens : 1 = false;
  bool counted : 1 = false;
};
static_assert(sizeof(RequestFigures) == 64);  // docs/load.md states it

class Accumulator;
// Type 7 (M3) of the pooled gaps, in nanoseconds, from the buckets and within the smallest and largest gap:
// at most 0.1 % from that of the gaps themselves. Nothing without gaps.
std::optional<double> GapPercentile(const Accumulator& records, double share);

class Accumulator {
 public:
  // `window_start`: as known now; a record of the warm-up adds no gaps.
  void Add(const RequestRecord& record, int64_t window_start);
  void Merge(Accumulator other);

  std::deque<RequestFigures> requests;  // in blocks: adding one never moves the others
  std::unique_ptr<FineHistogram> gaps = std::make_unique<FineHistogram>();  // between output events, pooled
  double gap_sum = 0;
  uint64_t gap_count = 0;
  int64_t min_gap = std::numeric_limits<int64_t>::max();
  int64_t max_gap = 0;
  int64_t last_end = 0;  // of all requests
  // Of the requests whose prompt the server counted: how many, what was planned and what was counted, and for
  // how many the two are not the same.
  uint64_t prompts_counted = 0, prompts_counted_otherwise = 0;
  int64_t prompt_tokens_planned = 0, prompt_tokens_counted = 0;
  // Set by whoever asks for it: one loop knows what it has in flight.
  std::optional<InFlightSpans> in_flight;
  // One example of what was said for each kind of failure.
  std::array<std::string, kOutcomes> examples;
};

}  // namespace poolmark::load

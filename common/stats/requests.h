// The latency figures of a window, from the client's record of every request (methodology, "What is
// measured"; decisions M3, M4, M5, M18). Records come one at a time, so that a million of them need little
// memory. Not thread-safe.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/measured.h"
#include "common/stats/counted_at.h"
#include "common/stats/summary.h"

namespace poolmark::stats {

// What the figures need of one request; seconds from the start of the load.
struct RequestFacts {
  double start = 0;  // scheduled (open loop) or actual send
  double sent = 0;   // actual send
  double end = 0;
  std::optional<double> first_output, last_output;
  std::optional<double> lateness;   // the program saw it later than the kernel
  std::optional<double> sent_late;  // begun after its schedule, without the set-up of its connection
  int64_t input_tokens = -1;        // -1: the engine sent no usage
  int64_t cached_tokens = -1;
  int64_t output_tokens = 0;
  int64_t first_event_tokens = 1;
  bool counted = false;  // output tokens counted from events
  bool ok = true;
  bool primer = false;
  std::vector<std::pair<double, uint32_t>> events;  // arrival, tokens
};

// Of one request; nothing where it has none.
std::optional<double> TimeToFirstToken(const RequestFacts& request);
std::optional<double> TimePerOutputToken(const RequestFacts& request);

struct Slo {
  std::string name;  // "mlperf-llama2-70b"
  std::string title;
  std::string source;  // where the limits come from
  double ttft_seconds = 0;
  double tpot_seconds = 0;
  std::string note;
  std::optional<double> share = {};  // of the requests that must meet both; nothing: the source names none
};

struct Goodput {
  std::string slo;
  double good_per_second = 0;
  double share = 0;                              // of the requests of the window, failed ones included
  std::optional<double> required_share;          // by the preset
  std::optional<bool> met;                       // share against it; nothing: none required, or no request
  double share_ttft = 0, share_tpot = 0;         // met each limit
  std::vector<std::pair<double, double>> curve;  // scale of both limits -> good requests per second
};

struct RequestFigures {
  uint64_t requests = 0;  // started in the window, primers excluded
  uint64_t failed = 0;
  Measured<Distribution> ttft, tpot, itl, latency;
  Measured<Distribution> lateness, sent_late;
  double output_tokens = 0;
  double output_tokens_per_second = 0;
  double requests_per_second = 0;
  std::optional<double> client_prompt_tokens;  // nothing: a request came without usage
  std::optional<double> client_cached_tokens;
  uint64_t counted = 0;             // requests whose output tokens were counted from events
  double achieved_concurrency = 0;  // time-weighted, over the window
  uint64_t peak_concurrency = 0;
  std::vector<Goodput> goodput;
  std::vector<std::pair<double, double>> ttft_curve, tpot_curve;  // share -> seconds, for percentile plots
};

// Prompts in flight when the engines' counters were read for the window's start (M7): sent before the window,
// and counted after the reading; and primers that were sent inside it. The counters of the window hold them,
// the requests of the window do not.
struct Skew {
  double tokens = 0;
  uint64_t requests = 0;
  uint64_t unknown = 0;  // of those: the engine sent no usage
};

// Window [from, to) in seconds. Only requests that start inside count; their tokens after the end (drain)
// too.
class RequestAccumulator {
 public:
  // `counters_from`: when the counters were read; by default the window's start.
  RequestAccumulator(double from, double to, std::vector<Slo> slos,
                     std::optional<double> counters_from = std::nullopt);
  void Add(const RequestFacts& request);
  RequestFigures Finish();
  // Output tokens that arrived in each of `windows` equal parts of the window, whichever request (M2).
  const std::vector<double>& window_tokens() const { return window_tokens_; }
  // With engines that count prompts at this moment.
  const Skew& skew(CountedAt at = CountedAt::kFirstToken) const {
    return at == CountedAt::kFinish ? skew_at_finish_ : skew_at_first_token_;
  }

 private:
  double from_, to_, counters_from_;
  std::vector<Slo> slos_;
  RequestFigures figures_;
  std::vector<double> ttft_, tpot_, latency_, lateness_, sent_late_;
  std::vector<float> itl_;
  std::vector<std::pair<float, float>> pairs_;  // (ttft, tpot) of good candidates; tpot 0 without one
  std::vector<std::pair<double, int>> edges_;   // +1 at start, -1 at end
  std::vector<double> window_tokens_;
  Skew skew_at_first_token_, skew_at_finish_;
  bool usage_missing_ = false, cached_missing_ = false;
  double prompt_ = 0, cached_ = 0;
};

}  // namespace poolmark::stats

// The figures of one load, with what they mean. Pure: from accumulated records and the loops' counters.
// Published figures of jobs come from common/stats over the same records; these are for people at a terminal
// and for the search for the knee.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/load/accumulator.h"
#include "common/load/options.h"

namespace poolmark::load {

// The schema_version of load.json that is written and read.
inline constexpr int kLoadSchemaVersion = 1;
// Refuses another version with what is read and what is known.
Status CheckLoadVersion(const Json& json, const std::string& path);

// Four decimals of a millisecond are tenths of a microsecond: all that was measured.
inline double FourDecimals(double value) {
  return std::round(value * 1e4) / 1e4;
}

// Milliseconds; percentiles by linear interpolation between closest ranks (M3).
struct Distribution {
  uint64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, min = 0, max = 0;
};

// Limits of a service level objective; a request is good when it met every limit that is set (M5). A
// request without a time per output token (one token) meets that limit.
struct Slo {
  std::string name;
  std::optional<Nanoseconds> ttft;
  std::optional<Nanoseconds> time_per_output_token;
  std::optional<Nanoseconds> latency;
  std::optional<double> share;  // of the requests that must be good; nothing: none is asked for
};

struct GoodputPoint {
  double scale = 1;       // of all limits
  double per_second = 0;  // good requests
  double share = 0;       // of all requests of the window
};

// The program about itself.
struct ClientFigures {
  std::optional<double> lateness_p50_ms, lateness_p99_ms, lateness_max_ms;  // kernel stamp to program
  std::optional<double> schedule_error_p50_ms, schedule_error_p99_ms, schedule_error_max_ms;  // open loop
  std::optional<double> processor_wait_share;  // of a loop's time: ready to run without a processor
  uint64_t stale_requests = 0;                 // failed since the server had closed the kept connection
  uint64_t own_limits = 0;  // requests without a connection since this machine had no files or ports for more
  uint64_t absurd_usages = 0;  // usages with a count beyond http::kMostTokens, which was not taken
  std::optional<double> connection_wait_max_ms;  // open loop: from the intended send, with max_connections
  double achieved_concurrency = 0;               // time-weighted, over the load without its drain
  uint64_t max_in_flight = 0;                    // at once, over all loops, processes and workers
  double cpu_seconds = 0;
  double cpu_seconds_of_load = 0;
  uint64_t max_rss_bytes = 0;
  uint64_t connections = 0, stale_connections = 0, extra_attempts = 0, unfilled_arrivals = 0,
           unsent_arrivals = 0;
  uint64_t abandoned_turns = 0, waited_for_connection = 0, users_without_session = 0, bytes_in = 0,
           events = 0;
  std::optional<double> ran_out_at_s;
  int loops = 0;
  int processes = 1;
};

struct Summary {
  double window_start_s = 0;
  double window_s = 0;
  bool whole_run = true;
  double load_s = 0;   // time 0 to the end of issuing
  double total_s = 0;  // with the drain
  bool interrupted = false;
  std::string files_error;  // why the files are not complete; "": they are

  uint64_t requests = 0;  // that start in the window, primers apart
  uint64_t ok = 0;
  uint64_t warm_up_requests = 0;
  uint64_t primers = 0;
  std::array<uint64_t, kOutcomes> outcomes{};  // of the window
  std::array<std::string, kOutcomes> examples;

  double requests_per_second = 0;       // successful
  double output_tokens_per_second = 0;  // M18
  uint64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0;
  // Of the successful requests: sums of tokens are of the others.
  uint64_t without_input_tokens = 0, without_cached_tokens = 0, with_counted_tokens = 0;

  std::optional<Distribution> ttft, ttft_from_sent, kernel_ttft, answer_ttft, first_byte,
      time_per_output_token, gap, latency, connect;
  std::optional<Slo> slo;
  std::vector<GoodputPoint> goodput;  // at scale 1 first

  ClientFigures client;
  bool client_limited = false;        // the program was too slow for this load: figures are marked
  std::vector<std::string> warnings;  // the methodology's three and no others
  std::vector<std::string> notes;
  std::string load_json;             // what the load was (describe.h), as JSON; "": not said
  std::string prompt_token_sources;  // token_sources.h, as JSON; "": no engine was asked
};

struct WindowBounds {
  int64_t start = 0;
  int64_t end = 0;
  bool whole_run = true;
  int64_t load_end = 0;
  int64_t total_end = 0;
  bool interrupted = false;
};

Distribution Distribute(std::vector<double> nanoseconds);

// `source_notes`: what the sessions have to say (approximate prompt lengths).
Summary Summarize(const Accumulator& records, const WindowBounds& window, const LoadOptions& options,
                  const ClientFigures& client, const std::optional<Slo>& slo,
                  std::vector<std::string> source_notes);

Json SummaryJson(const Summary& summary);
std::string SummaryText(const Summary& summary);
// "ttft=2s,tpot=100ms,latency=10s,share=0.99". Errors name the part.
Result<Slo> ParseSlo(std::string_view text);

}  // namespace poolmark::load

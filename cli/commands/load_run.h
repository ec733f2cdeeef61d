// `poolmark load` behind its options: checks them, runs the load, prints. No CLI11 here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/load/engine.h"

namespace poolmark::cli {

class MetricsReader;

// The options as given; "" and 0 stand for "not given" where said.
struct LoadArguments {
  std::string plan;                // a plan file instead of the options for the load
  std::vector<std::string> merge;  // directories of load workers, to be merged into `out`
  std::string from;                // a directory to export, without a load
  std::vector<std::string> urls;
  std::vector<std::string> metrics;  // pages of the engines behind them
  std::string model;
  std::string api = "chat";
  std::string api_key_file;
  std::vector<std::string> headers;
  std::string ca_file, server_name;
  bool insecure = false;
  uint32_t concurrency = 0;  // 0: not given
  std::string rate;          // "": not given
  std::string arrivals;      // "": not given, constant
  std::optional<double> cv;  // not given: 1
  std::string ramp_up;       // "": not given
  uint64_t requests = 0;     // 0: not given
  std::string duration;      // "": not given
  std::string warm_up = "0";
  uint64_t warm_up_requests = 0;
  std::string drain = "10m", deadline = "10m", stall = "2m", connect_timeout = "10s", keep_alive = "4s";
  uint32_t max_connections = 0;
  int retry_attempts = 1;
  std::string retry_on = "connect,stale,429,5xx";
  int64_t input_tokens = 128, output_tokens = 128;
  bool prompt_ids = false;
  std::string tokenize_url;  // who counts the tokens of text prompts; "": nobody
  std::string tokenizer;
  bool allow_eos = false;
  uint64_t vocabulary = 32000;
  uint64_t seed = 1;
  int loops = 0;
  int processes = 1;
  std::string slo;
  bool find_knee = false;
  double knee_share = 0;  // 0: not given, the limits' own or 0.9
  std::string out;
  std::string output = "text";
  std::string progress;  // "": text on a terminal, else none
  std::vector<std::string> exports;
  std::string request_id_prefix = "poolmark";
};

// Runs; returns the exit code.
int RunLoadCommand(const LoadArguments& arguments);

// The load that the options describe, once.
// `metrics` (may be null) reads the engines' pages at the ends of the window.
Result<load::LoadResult> RunQuickLoad(const LoadArguments& arguments, MetricsReader* metrics = nullptr);
// --plan: progress and result as JSON lines on stdout.
int RunPlanFile(const LoadArguments& arguments);
// --find-knee: loads of growing level.
int RunKneeSearch(const LoadArguments& arguments);

}  // namespace poolmark::cli

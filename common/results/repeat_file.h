// repeat.json: one repeat. `facts` is what was observed and cannot be computed again from other files;
// `figures` is what ComputeRepeat (compute.h) makes of the facts and requests.jsonl.zst, so that `poolmark
// report` can check it. Plain values.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/measured.h"
#include "common/base/result.h"
#include "common/stats/attribution.h"
#include "common/stats/energy.h"
#include "common/stats/requests.h"
#include "common/stats/validity.h"
#include "common/stats/windows.h"

namespace poolmark::results {

struct PointId {
  std::string stack, workload, level;  // "cand", "code", "c16"
  bool operator==(const PointId&) const = default;
  auto operator<=>(const PointId&) const = default;
};

// KV bytes between a pair of machines over the window, beside the line rate of preflight.
struct TransferFacts {
  std::string from, to, path;
  Measured<double> bytes;
  Measured<double> line_bits_per_second;
  std::string series;  // where the bytes come from
};

// How full an engine's GPU cache was.
struct CacheFacts {
  std::string process, machine;
  Measured<double> capacity_tokens;
  Measured<double> usage_mean, usage_peak;  // 0 … 1, in use by running requests
  std::string series = {};                  // of the usage
  // Of the capacity, ", " between them; "" : from the command line, or none. Nothing: written by a version
  // that did not say.
  std::optional<std::string> capacity_series = std::string();
};

// From the workload, before any engine (M6, M8); workload::MeasureReuse.
struct ReuseFacts {
  Measured<double> reusable;  // of the measured window, whole blocks
  Measured<double> reusable_uncut;
  Measured<double> reusable_lifetime;  // of all prompts since the cache was empty
  uint32_t block_tokens = 0;
  Measured<double> working_set_tokens;
  std::vector<std::pair<double, double>> curve;  // cache size in tokens -> share that an LRU cache serves
  std::string scope;                             // "session", "global"
  std::vector<std::string> notes;
};

struct PowerSeries {
  std::string machine, kind;  // "bmc", "telemetry", "gpu"
  std::string series;
  std::vector<std::pair<double, double>> watts;  // seconds from the start of the load
};

struct SwitchPowerFacts {
  std::string name;
  std::vector<double> input_watts;
  std::optional<uint64_t> ports_used, ports_up;
};
// A switch counter's value in this repeat, by its reading kind.
struct SwitchCounter {
  std::string switch_name, port, queue, counter, unit, kind;  // kind: total, level, peak, last_event
  Measured<double> value;  // a reset and a peak that did not rise are not measured, with that reason
  bool confirmed = true;
};
// What a network card sent and its switch port received, and the other way round.
struct LinkAgreement {
  std::string machine, nic, switch_name, port;
  Measured<double> nic_sent, port_received, port_sent, nic_received;  // bytes
  double seconds = 0;
  std::string host_total;  // which host counter was compared
};

struct RepeatFacts {
  std::string job_id;
  PointId point;
  int repeat = 1;
  int cycle = 1;
  std::string strategy, shape;
  bool baseline = false;
  bool simulated = false;
  bool open_loop = false;
  std::string started, ended;  // RFC 3339
  // Seconds from the start of the load.
  bool held_load = false;
  double load_seconds = 0;  // held: load duration; else the time until the last request was sent
  double warm_up_seconds = 0;
  double measured_from = 0, measured_to = 0;
  double drain_end = 0;
  bool ran_out_of_sessions = false;
  // The load's own machine was too slow for it: latencies include the load generator's delay.
  bool client_limited = false;
  uint64_t gpus = 0;  // of all engines; 0: none
  std::vector<stats::Slo> slos;
  std::vector<stats::EngineFacts> engines;
  std::vector<TransferFacts> transfers;
  std::vector<CacheFacts> caches;
  ReuseFacts reuse;
  std::vector<PowerSeries> power;
  std::vector<SwitchPowerFacts> switch_power;
  std::vector<SwitchCounter> switch_counters;
  std::vector<LinkAgreement> links;
  stats::Evidence evidence;
  std::vector<std::string> notes;  // of the load, the sampler and the controller
};

struct TransferFigures {
  std::string from, to, path;
  Measured<double> bytes_per_second, line_bytes_per_second, share_of_line;
};
struct LinkFigures {
  std::string machine, nic, switch_name, port;
  std::string verdict;                             // "agree", "differ", "idle", "not_measured"
  Measured<double> out_difference, in_difference;  // share
};

struct RepeatFigures {
  std::string measured_line;
  bool valid = false;
  std::vector<stats::InvalidReason> reasons;
  std::vector<std::string> warnings;  // sentences
  std::vector<std::string> notes;
  stats::RequestFigures requests;
  Measured<double> output_tokens_per_second_per_gpu;
  std::vector<Measured<double>> goodput_per_gpu;
  stats::Stability stability;
  stats::Attribution sources;
  Measured<double> reused;          // share
  Measured<double> reuse_captured;  // reused / reusable
  Measured<double> working_set_ratio;
  Measured<double> gpu_kv_usage_mean, gpu_kv_usage_peak, gpu_kv_capacity_tokens;
  std::vector<TransferFigures> transfers;
  Measured<double> kv_bytes_per_second;
  stats::EnergyFigures energy;
  std::vector<LinkFigures> links;
};

struct RepeatFile {
  RepeatFacts facts;
  RepeatFigures figures;
};

Result<std::string> Encode(const RepeatFile& file);
Result<RepeatFile> DecodeRepeat(std::string_view text, std::string_view where);

}  // namespace poolmark::results

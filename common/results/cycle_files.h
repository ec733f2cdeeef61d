// cycles/<n>/verify.json and teardown.json, and preflight.json: what was looked at and what was seen. Plain
// values.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/measured.h"
#include "common/base/result.h"

namespace poolmark::results {

// Outcomes: "pass", "fail", "skipped", "not_measured", "note".
struct CheckEntry {
  std::string id;       // "clock", "gpu_family", "tokens_through_router", "cross_machine_load" …
  std::string machine;  // "" : the pool
  std::string outcome;
  std::string expected, observed, evidence, hint;
  double duration_seconds = 0;
};

// A counter before and after a verification, the proof that KV moved.
struct CounterProof {
  std::string process, machine, series;
  Measured<double> before, after;
  std::string expected;  // "at least 512 tokens"
};

struct VerifyRecord {
  std::string job_id;
  int cycle = 1;
  std::string stack;
  std::string started, ended;  // RFC 3339
  bool passed = false;
  std::string failed_check;  // id of the first that failed; "" : none
  std::vector<CheckEntry> checks;
  std::map<std::string, std::vector<CounterProof>> proofs;  // check id -> counters
  std::string diagnosis;  // why a cross-machine load failed, where it can be told
};

struct TeardownItem {
  std::string machine, kind, name;
  std::string state;  // "removed", "gone", "left", "unknown"
  std::string proof, detail;
  bool forced = false;
};
struct TeardownRecord {
  std::string job_id;
  int cycle = 1;
  std::string stack;
  std::string cause;  // "all repeats done", "cancelled by …", "machine n2 lost"
  std::string started, ended;
  std::string outcome;  // "CLEAN", "DIRTY", "UNKNOWN"
  std::vector<TeardownItem> items;
  std::vector<std::string> leftovers;
};

// Measured line rate of a directed pair of machines (M12).
struct LineRate {
  std::string from, to, path, tool, tool_version;
  Measured<double> bits_per_second;  // best of the runs
  std::vector<double> runs;
  int seconds = 0, streams = 0;
  Measured<double> latency_p50_us, latency_p99_us;
  // How far the sender's byte counters rose for one byte that the tool sent, by "net:<interface>",
  // "rdma:<device>".
  std::map<std::string, double> counted_per_byte;
};
struct PreflightRecord {
  std::string job_id;
  std::string started, ended;
  bool passed = false;
  std::string failed_check;
  std::vector<CheckEntry> checks;
  std::vector<LineRate> line_rates;
  std::vector<std::string> notes;
};

Result<std::string> Encode(const VerifyRecord& file);
Result<std::string> Encode(const TeardownRecord& file);
Result<std::string> Encode(const PreflightRecord& file);
Result<VerifyRecord> DecodeVerify(std::string_view text, std::string_view where);
Result<TeardownRecord> DecodeTeardown(std::string_view text, std::string_view where);
Result<PreflightRecord> DecodePreflight(std::string_view text, std::string_view where);

}  // namespace poolmark::results

// Is a repeat valid? Pure functions from stored evidence to reasons (methodology, "When a result counts";
// decision M1). The same evidence in a results directory gives the same verdict again. Thread-safe.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/measured.h"

namespace poolmark::stats {

// The seven, in the methodology's order, and two of ours.
enum class Reason {
  kMachineSilent,
  kClockDrift,
  kCounterBackwards,
  kWrongPath,
  kKvFormat,
  kStartingState,
  kNoAccuracy,
  kInterrupted,  // the repeat did not run to its end, so there is nothing to judge (design, promise 8)
  kNotJudged,    // evidence that a verdict must rest on is missing or was changed: absent is not in order
};
// "machine_silent", "clock_drift", "counter_backwards", "wrong_path", "kv_format", "starting_state",
// "no_accuracy", "interrupted", "not_judged".
std::string_view ReasonName(Reason reason);
// The methodology's own sentence: "a machine stopped responding during the job".
std::string_view ReasonSentence(Reason reason);

struct InvalidReason {
  Reason reason;
  std::string detail;  // "n2: nothing heard for 14.2 s (limit 10 s) from 12:04:05 on"
};

// --- evidence ---

// No sample and no heartbeat for longer than 10 s between launch and collection (M10).
struct SilenceEvidence {
  std::string machine;
  double seconds = 0;  // longest silence
  std::string from;    // RFC 3339
};
// Offsets to the head's clock seen during the repeat (M9), and steps of the wall clock.
struct ClockEvidence {
  std::string machine;
  double worst_offset_seconds = 0;  // with sign
  double uncertainty_seconds = 0;   // half the round trip
  double step_seconds = 0;          // largest jump of wall time against steady time; 0: none
  bool measured = true;
};
// A series that fell, or a process whose start time changed.
struct ResetEvidence {
  std::string machine;
  std::string process;
  std::string series;  // "" when the process itself was seen to restart
  double before = 0, after = 0;
  std::string at;
};
// Bytes between a pair of machines by path (M11).
struct PathEvidence {
  std::string from, to;
  std::string intended;                   // "tcp" or "rdma"
  Measured<double> expected_bytes = 0.0;  // KV bytes that the engines or caches say they moved
  Measured<double> rdma_bytes;
  Measured<double> tcp_bytes;
  bool simulated = false;
};
// Readers of one store whose KV format differs from the writers' (M13).
struct FormatEvidence {
  std::string reader, writer;
  std::string field;
  std::string read_as, written_as;
};
// What the tiers held before the repeat (M22).
struct StateEvidence {
  std::string declared;  // "empty", "warm" or "attached"
  struct Tier {
    std::string process;
    std::string method;     // "DBSIZE", "canary", "series …"; "restart" clears and reads nothing back
    Measured<double> held;  // keys, tokens or hits; 0 is empty
  };
  std::vector<Tier> tiers;
  // Ids of everything of the stack that holds KV: engines, caches, stores. Each must have been read back.
  std::vector<std::string> holders;
};
// Accuracy of a stack that compresses KV.
struct AccuracyEvidence {
  std::string compression = "none";
  std::string verdict;    // PASS, FAIL, UNDERPOWERED, INVALID or "" (none)
  std::string directory;  // quality/<stack>
  std::string detail;     // its figures, or why there is none
};

struct Evidence {
  double silence_limit_seconds = 10;
  double clock_limit_seconds = 0.1;
  std::vector<SilenceEvidence> silences;
  std::vector<ClockEvidence> clocks;
  std::vector<ResetEvidence> resets;
  std::vector<PathEvidence> paths;
  std::vector<FormatEvidence> formats;
  StateEvidence state;
  AccuracyEvidence accuracy;
  std::string interrupted;  // why the repeat did not run to its end; empty: it did
};

// Blocks of another format that an engine met and did not use, by its own counter.
inline constexpr const char* kFormatMismatchSeries[] = {"poolmark_sim_kv_format_mismatch_total"};

struct Verdict {
  bool valid() const { return reasons.empty(); }
  std::vector<InvalidReason> reasons;
  std::vector<std::string> notes;  // worth saying, no reason: clock above 10 ms, path not measured, …
};
Verdict Judge(const Evidence& evidence);

// Path of one pair: at least 80 % of the expected bytes on the intended path is right; under 10 % on it with
// the bytes seen on the other is wrong; between is mixed, which is wrong too.
enum class PathVerdict { kRight, kMixed, kWrong, kIdle, kNotMeasured };
struct PathJudgement {
  PathVerdict verdict;
  std::string detail;
};
PathJudgement JudgePath(const PathEvidence& evidence);

}  // namespace poolmark::stats

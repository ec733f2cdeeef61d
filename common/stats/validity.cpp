#include "common/stats/validity.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace poolmark::stats {
namespace {

constexpr double kClockNoteSeconds = 0.010;
constexpr double kRightShare = 0.8;  // M11
constexpr double kWrongShare = 0.1;
constexpr double kMuch = 64.0 * 1024 * 1024;  // bytes; below, heartbeats and requests could be it

std::string TimeText(double value) {
  char text[48];
  std::snprintf(text, sizeof text, std::abs(value) < 1 ? "%.1f ms" : "%.1f s",
                std::abs(value) < 1 ? value * 1e3 : value);
  return text;
}

std::string Bytes(double value) {
  static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  int unit = 0;
  while (value >= 1000 && unit < 5) {
    value /= 1000;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
  return text;
}

std::string Shown(const Measured<double>& bytes) {
  return bytes.has_value() ? Bytes(*bytes) : "not measured (" + bytes.reason() + ")";
}

void JudgeClocks(const Evidence& evidence, Verdict* verdict) {
  for (const ClockEvidence& clock : evidence.clocks) {
    if (!clock.measured) {
      // An interrupted repeat has its reason already; its readings may never have begun.
      if (evidence.interrupted.empty())
        verdict->reasons.push_back(
            {Reason::kNotJudged, clock.machine + ": its clock was not compared with the head's"});
      continue;
    }
    const double offset = std::abs(clock.worst_offset_seconds);
    const double step = std::abs(clock.step_seconds);
    if (offset > evidence.clock_limit_seconds) {
      verdict->reasons.push_back({Reason::kClockDrift, clock.machine + ": " +
                                                           TimeText(clock.worst_offset_seconds) +
                                                           " off the head's clock (limit " +
                                                           TimeText(evidence.clock_limit_seconds) + ")"});
    } else if (step > evidence.clock_limit_seconds) {
      verdict->reasons.push_back({Reason::kClockDrift, clock.machine + ": the wall clock jumped by " +
                                                           TimeText(clock.step_seconds) + " (limit " +
                                                           TimeText(evidence.clock_limit_seconds) + ")"});
    } else if (offset > kClockNoteSeconds) {
      verdict->notes.push_back(clock.machine + ": clock " + TimeText(clock.worst_offset_seconds) +
                               " off the head's, within the limit of " +
                               TimeText(evidence.clock_limit_seconds));
    }
  }
}

void JudgePaths(const Evidence& evidence, Verdict* verdict) {
  for (const PathEvidence& path : evidence.paths) {
    const PathJudgement judgement = JudgePath(path);
    switch (judgement.verdict) {
      case PathVerdict::kMixed:
      case PathVerdict::kWrong:
        verdict->reasons.push_back({Reason::kWrongPath, judgement.detail});
        break;
      case PathVerdict::kNotMeasured:
        verdict->notes.push_back(judgement.detail);
        break;
      case PathVerdict::kRight:
      case PathVerdict::kIdle:
        break;
    }
  }
}

// An empty start, and what a warm one begins with before its unmeasured pass: every tier was read back, and
// nothing was there. A holder that nobody read back is not empty, it is unknown.
void JudgeState(const Evidence& evidence, Verdict* verdict) {
  const StateEvidence& state = evidence.state;
  if (state.declared != "empty" && state.declared != "warm") return;
  const std::string declared = state.declared == "warm" ? "the declared state is empty before the warm pass"
                                                        : "the declared state is empty";
  // A repeat that ended before anything could be read has no state to judge.
  if (evidence.interrupted.empty()) {
    for (const std::string& holder : state.holders) {
      const bool read = std::any_of(state.tiers.begin(), state.tiers.end(), [&](const auto& tier) {
        return tier.process == holder && tier.method != "restart";
      });
      if (!read)
        verdict->reasons.push_back({Reason::kStartingState, holder + ": nothing was read back, " + declared});
    }
  }
  for (const auto& tier : state.tiers) {
    if (!tier.held.has_value()) {
      verdict->reasons.push_back({Reason::kStartingState, tier.process + ": could not be shown empty by " +
                                                              tier.method + " (" + tier.held.reason() + ")"});
    } else if (*tier.held != 0) {
      char text[32];
      std::snprintf(text, sizeof text, "%.15g", *tier.held);
      verdict->reasons.push_back(
          {Reason::kStartingState, tier.process + ": " + tier.method + " shows " + text + ", " + declared});
    }
  }
}

}  // namespace

std::string_view ReasonName(Reason reason) {
  static constexpr std::string_view names[] = {"machine_silent", "clock_drift", "counter_backwards",
                                               "wrong_path",     "kv_format",   "starting_state",
                                               "no_accuracy",    "interrupted", "not_judged"};
  return names[static_cast<int>(reason)];
}

std::string_view ReasonSentence(Reason reason) {
  static constexpr std::string_view sentences[] = {
      "a machine stopped responding during the job",
      "a machine's clock drifted past the limit",
      "a counter went backwards, which means a process restarted",
      "the KV cache took a different network path than the stack intended",
      "a reader used KV cache written in a different format",
      "the cache held data before the job that its declared starting state says it should not",
      "the stack compresses KV cache and the run has no accuracy result",
      "the repeat did not run to its end",
      "the evidence that the verdict must rest on is missing or was changed, so it cannot be judged"};
  return sentences[static_cast<int>(reason)];
}

Verdict Judge(const Evidence& evidence) {
  Verdict verdict;
  for (const auto& silence : evidence.silences) {
    if (silence.seconds <= evidence.silence_limit_seconds) continue;
    verdict.reasons.push_back(
        {Reason::kMachineSilent, silence.machine + ": nothing heard for " + TimeText(silence.seconds) +
                                     " (limit " + TimeText(evidence.silence_limit_seconds) + ")" +
                                     (silence.from.empty() ? "" : " from " + silence.from + " on")});
  }
  JudgeClocks(evidence, &verdict);
  for (const auto& reset : evidence.resets) {
    char change[96];
    std::snprintf(change, sizeof change, "from %.15g to %.15g", reset.before, reset.after);
    verdict.reasons.push_back(
        {Reason::kCounterBackwards,
         (reset.process.empty() ? reset.machine : reset.process) + ": " +
             (reset.series.empty() ? "the process started anew" : reset.series + " went " + change) +
             (reset.at.empty() ? "" : " at " + reset.at)});
  }
  JudgePaths(evidence, &verdict);
  for (const auto& format : evidence.formats) {
    verdict.reasons.push_back({Reason::kKvFormat, format.reader + " reads " + format.field + " " +
                                                      format.read_as + ", " + format.writer + " wrote " +
                                                      format.written_as});
  }
  JudgeState(evidence, &verdict);
  const AccuracyEvidence& accuracy = evidence.accuracy;
  if (!accuracy.compression.empty() && accuracy.compression != "none") {
    // Only PASS says that the answers are right; the other three say that they are not, or nothing
    // (docs/adr/0010).
    const std::string compression = "KV compression is " + accuracy.compression;
    const std::string detail = accuracy.detail.empty() ? "" : ": " + accuracy.detail;
    if (accuracy.verdict.empty()) {
      verdict.reasons.push_back(
          {Reason::kNoAccuracy, compression + ", the job has no accuracy result" + detail});
    } else if (accuracy.verdict != "PASS") {
      verdict.reasons.push_back({Reason::kNoAccuracy, compression + ", its accuracy result is " +
                                                          accuracy.verdict + " (" + accuracy.directory + ")" +
                                                          detail});
    } else {
      verdict.notes.push_back(compression + ", accuracy: PASS (" + accuracy.directory + ")" + detail);
    }
  }
  if (!evidence.interrupted.empty()) verdict.reasons.push_back({Reason::kInterrupted, evidence.interrupted});
  return verdict;
}

namespace {

// No counter tells what should have moved. An RDMA stack is then judged by what did: much over RDMA and
// little beside it is right, much over TCP and next to nothing over RDMA is the fall-back that must not stay
// unseen. Of a TCP stack it is enough that next to nothing went over RDMA: there is no other path.
PathJudgement JudgeUnexpected(const PathEvidence& path, const std::string& pair) {
  const std::string why = pair + "KV bytes not measured: " + path.expected_bytes.reason();
  if (path.intended == "tcp" && path.rdma_bytes.has_value() && *path.rdma_bytes < kMuch)
    return {PathVerdict::kRight, why + ", " + Shown(path.rdma_bytes) + " over RDMA"};
  if (path.intended != "rdma" || !path.rdma_bytes.has_value() || !path.tcp_bytes.has_value())
    return {PathVerdict::kNotMeasured, why};
  const std::string figures =
      pair + Shown(path.rdma_bytes) + " over RDMA, " + Shown(path.tcp_bytes) + " over TCP";
  const double rdma = *path.rdma_bytes, tcp = *path.tcp_bytes;
  if (rdma >= kMuch && rdma >= 10 * tcp) return {PathVerdict::kRight, figures};
  if (rdma < kMuch && tcp >= kMuch) return {PathVerdict::kWrong, "intended rdma, " + figures};
  return {PathVerdict::kNotMeasured, why};
}

}  // namespace

PathJudgement JudgePath(const PathEvidence& path) {
  const std::string pair = path.from + " to " + path.to + ": ";
  const bool rdma = path.intended == "rdma";
  const Measured<double>& on = rdma ? path.rdma_bytes : path.tcp_bytes;
  const Measured<double>& off = rdma ? path.tcp_bytes : path.rdma_bytes;
  if (!path.expected_bytes.has_value()) return JudgeUnexpected(path, pair);
  const double expected = *path.expected_bytes;
  if (expected <= 0) return {PathVerdict::kIdle, pair + "no KV moved"};
  if (!on.has_value()) {
    // Nobody read the intended path; the bytes may still have been seen on the other.
    if (off.has_value() && *off >= kRightShare * expected)
      return {PathVerdict::kWrong, pair + "intended " + path.intended + ", " + Bytes(expected) + " of KV, " +
                                       Shown(path.rdma_bytes) + " over RDMA, " + Shown(path.tcp_bytes) +
                                       " over TCP"};
    return {PathVerdict::kNotMeasured, pair + path.intended + " bytes not measured: " + on.reason()};
  }
  const double share = *on / expected;
  const std::string figures = Bytes(expected) + " of KV, " + Shown(path.rdma_bytes) + " over RDMA, " +
                              Shown(path.tcp_bytes) + " over TCP";
  // A TCP stack whose bytes went over RDMA: the Ethernet totals may hold both, so the other path decides.
  if (!rdma && off.has_value() && *off >= kRightShare * expected) {
    return {PathVerdict::kWrong, pair + "intended tcp, " + figures};
  }
  if (share >= kRightShare) return {PathVerdict::kRight, pair + figures};
  if (share >= kWrongShare)
    return {PathVerdict::kMixed, pair + "mixed paths, intended " + path.intended + ", " + figures};
  return {PathVerdict::kWrong, pair + "intended " + path.intended + ", " + figures};
}

}  // namespace poolmark::stats

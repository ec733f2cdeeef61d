#include "common/load/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "common/base/time_format.h"
#include "common/stats/warnings.h"

namespace poolmark::load {
namespace {

constexpr double kMillisecond = 1e6;

// Type 7 of a sorted list.
double Percentile(const std::vector<double>& sorted, double share) {
  const double rank = share * static_cast<double>(sorted.size() - 1);
  const size_t low = static_cast<size_t>(rank);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (rank - static_cast<double>(low));
}

// A request of the window, or a successful one of these. Asked anew for each figure: lists of them would be a
// quarter more memory at the end of a long load.
bool IsMeasured(const RequestFigures& request, int64_t window_start) {
  return !request.primer && request.window_time >= window_start;
}
bool IsGood(const RequestFigures& request, int64_t window_start) {
  return IsMeasured(request, window_start) && request.outcome == Outcome::kOk;
}

template <class Which, class Get>
std::optional<Distribution> Collect(const Accumulator& records, const Which& which, Get&& get) {
  std::vector<double> values;
  values.reserve(records.requests.size());
  for (const RequestFigures& request : records.requests) {
    if (!which(request)) continue;
    if (const std::optional<double> value = get(request)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return Distribute(std::move(values));
}

std::optional<double> Float(float value) {
  return value < 0 ? std::nullopt : std::optional<double>(value);
}
std::optional<double> Integer(int64_t value) {
  return value == RequestFigures::kNone ? std::nullopt : std::optional<double>(static_cast<double>(value));
}

std::optional<Distribution> GapDistribution(const Accumulator& records) {
  if (records.gap_count == 0) return std::nullopt;
  Distribution gap;
  gap.count = records.gap_count;
  gap.mean = records.gap_sum / static_cast<double>(records.gap_count) / kMillisecond;
  const auto quantile = [&](double share) {
    return GapPercentile(records, share).value_or(0) / kMillisecond;
  };
  gap.p50 = quantile(0.5);
  gap.p90 = quantile(0.9);
  gap.p95 = quantile(0.95);
  gap.p99 = quantile(0.99);
  gap.min = static_cast<double>(records.min_gap) / kMillisecond;
  gap.max = static_cast<double>(records.max_gap) / kMillisecond;
  return gap;
}

bool Good(const RequestFigures& request, const Slo& slo, double scale) {
  const auto within = [scale](double value, const std::optional<Nanoseconds>& limit) {
    return !limit.has_value() || value <= static_cast<double>(limit->count()) * scale;
  };
  return request.outcome == Outcome::kOk && within(static_cast<double>(request.ttft), slo.ttft) &&
         within(request.time_per_output_token, slo.time_per_output_token) &&
         within(static_cast<double>(request.latency), slo.latency);
}

std::string Text(const char* format, double a, double b = 0, double c = 0) {
  char buffer[300];
  std::snprintf(buffer, sizeof buffer, format, a, b, c);
  return buffer;
}

// Was the program fast enough for its own figures?
void JudgeClient(const LoadOptions& options, Summary* summary) {
  const ClientFigures& client = summary->client;
  const double ttft = summary->ttft.has_value() ? summary->ttft->p50 : 0;
  std::vector<std::string> limits;
  if (client.lateness_p99_ms.has_value() && ttft > 0 && *client.lateness_p99_ms > 0.05 * ttft &&
      *client.lateness_p99_ms > 0.1) {
    limits.push_back(
        Text("data waited %.3f ms (P99) from the kernel to this program, more than 5 %% of the TTFT's P50 "
             "(%.3f ms)",
             *client.lateness_p99_ms, ttft));
  }
  // Gaps that are shorter than the delay with which they are seen are no longer gaps.
  const double per_token =
      summary->time_per_output_token.has_value() ? summary->time_per_output_token->p50 : 0;
  if (client.lateness_p99_ms.has_value() && per_token > 0 &&
      *client.lateness_p99_ms > std::max(1.0, per_token)) {
    limits.push_back(
        Text("data waited %.3f ms (P99), longer than the time per output token (P50 %.3f ms), so that gaps "
             "between tokens are not to be trusted",
             *client.lateness_p99_ms, per_token));
  }
  if (client.processor_wait_share.value_or(0) > 0.2) {
    limits.push_back(Text("its event loops were ready to run and had no processor %.0f %% of the time",
                          *client.processor_wait_share * 100));
  }
  if (client.schedule_error_p99_ms.has_value() &&
      (*client.schedule_error_p99_ms > 10 ||
       (*client.schedule_error_p99_ms > 1 && *client.schedule_error_p99_ms > 0.05 * ttft))) {
    limits.push_back(Text("requests left %.3f ms late (P99; max %.3f ms)", *client.schedule_error_p99_ms,
                          client.schedule_error_max_ms.value_or(*client.schedule_error_p99_ms)));
  }
  // Of a shorter load the processor time is not known well enough.
  constexpr double kShortestJudged = 0.1;
  if (options.mode == LoadOptions::Mode::kClosed && summary->load_s >= kShortestJudged) {
    const double busy =
        client.cpu_seconds_of_load / summary->load_s / std::max(1, client.loops * client.processes);
    if (busy > 0.9) limits.push_back(Text("its event loops were busy %.0f %% of the time", busy * 100));
  }
  if (client.own_limits > 0) {
    summary->client_limited = true;
    summary->notes.push_back(
        std::to_string(client.own_limits) +
        " requests failed since this machine had no files, ports or memory for another connection; that is "
        "not the "
        "server's doing. Raise the limit of open files (ulimit -n, LimitNOFILE=), or spread the load.");
  }
  if (limits.empty()) return;
  summary->client_limited = true;
  std::string note =
      "this machine was too slow for the load, so that latencies include the client's own delay: ";
  for (size_t i = 0; i < limits.size(); ++i) note += (i > 0 ? "; " : "") + limits[i];
  summary->notes.push_back(
      note + ". Give it more cores (--loops, --processes), less load, or a machine of its own.");
}

// Rates whose steps all have a length end the load by themselves, be it as long as was asked or not.
void AddEndOfRates(const LoadOptions& options, const Summary& summary, std::vector<std::string>* notes) {
  if (options.mode != LoadOptions::Mode::kRate || summary.client.ran_out_at_s.has_value()) return;
  Nanoseconds length{0};
  for (const RateStep& step : options.arrivals.steps) {
    if (step.duration == Nanoseconds(0)) return;
    length += step.duration;
  }
  if (options.duration.has_value() && length >= *options.duration) return;
  if (options.measured_requests > summary.requests) {
    notes->push_back("the steps of the rate ended after " + FormatDuration(length) + ", with " +
                     std::to_string(summary.requests) + " of the " +
                     std::to_string(options.measured_requests) + " requests that were asked for");
  } else if (options.max_requests > summary.requests && options.measured_requests == 0 &&
             options.warm_up == Nanoseconds(0) && options.warm_up_requests == 0 &&
             options.warm_up_sessions == 0) {
    notes->push_back("the steps of the rate ended after " + FormatDuration(length) +
                     ", before the limit of " + std::to_string(options.max_requests) + " requests");
  } else if (options.duration.has_value() && options.measured_requests == 0) {
    notes->push_back("the steps of the rate ended after " + FormatDuration(length) + " of the " +
                     FormatDuration(*options.duration) + " that the load was to last");
  }
}

void AddNotes(const LoadOptions& options, Summary* summary) {
  const ClientFigures& client = summary->client;
  std::vector<std::string>& notes = summary->notes;
  const auto count = [](uint64_t n) { return std::to_string(n); };
  if (!client.lateness_p99_ms.has_value() && client.bytes_in > 0)
    notes.push_back("the sockets gave no kernel receive stamps: the client's own lateness is not measured");
  if (summary->with_counted_tokens > 0) {
    notes.push_back("the server sent no usage for " + count(summary->with_counted_tokens) +
                    " requests: their events were counted as output tokens");
  }
  // A sum of some is no sum of all.
  const auto some = [&](uint64_t without, const char* what) {
    if (without > 0 && without < summary->ok)
      notes.push_back("the server told no " + std::string(what) + " tokens for " + count(without) + " of " +
                      count(summary->ok) + " successful requests: their sum is that of the others");
  };
  some(summary->without_input_tokens, "prompt");
  some(summary->without_cached_tokens, "cached");
  if (summary->requests == 0 && summary->warm_up_requests > 0)
    notes.push_back("the warm-up was not over when the load ended: all " + count(summary->warm_up_requests) +
                    " requests belong to it and nothing was measured; shorten it or lengthen the load");
  if (const uint64_t cut = summary->outcomes[static_cast<size_t>(Outcome::kCancelled)]; cut > 0) {
    // The ends are seen some milliseconds late.
    const bool drained = summary->total_s - summary->load_s >= ToSeconds(options.drain) - 0.1;
    notes.push_back(count(cut) + (summary->interrupted && !drained
                                      ? " requests were cut off by the interruption"
                                      : " requests were cut off at the end of the drain (" +
                                            FormatDuration(options.drain) + ")"));
  }
  if (!summary->interrupted) AddEndOfRates(options, *summary, &notes);
  if (client.absurd_usages > 0) {
    notes.push_back("the server's usage counted more than 1,000,000,000 tokens in " +
                    count(client.absurd_usages) + " requests: such counts were not taken");
  }
  if (client.stale_requests > 0) {
    notes.push_back(count(client.stale_requests) +
                    " requests failed since the server had closed the kept connection without saying so "
                    "(Connection: close); --retry-attempts 2 --retry-on stale sends such a request again");
  }
  if (client.extra_attempts > 0)
    notes.push_back("the retry policy sent " + count(client.extra_attempts) +
                    " requests again; latency counts from the first attempt");
  if (client.unfilled_arrivals > 0) {
    notes.push_back(count(client.unfilled_arrivals) +
                    " arrivals found no session or turn that could be sent: the load was lower than asked");
  }
  if (client.abandoned_turns > 0)
    notes.push_back(count(client.abandoned_turns) +
                    " turns were not sent, since a turn before them failed or the arrivals ended");
  if (client.waited_for_connection > 0) {
    std::string longest;
    if (client.connection_wait_max_ms.has_value())
      longest = Text(", the longest for %.1f ms", *client.connection_wait_max_ms);
    notes.push_back(count(client.waited_for_connection) + " requests waited for a connection (limit " +
                    count(options.max_connections) + longest +
                    "); in an open loop the wait is part of their latency");
  }
  if (client.unsent_arrivals > 0)
    notes.push_back(count(client.unsent_arrivals) +
                    " arrivals were due and not sent when the load was interrupted");
  // Of several workers each has every workers-th user.
  const uint32_t users = ShareOf(options.users, options.worker, options.workers);
  if (options.mode == LoadOptions::Mode::kClosed && !options.think_cap.has_value() &&
      client.achieved_concurrency > 0 && client.achieved_concurrency < 0.98 * users) {
    notes.push_back(
        Text("%.1f requests were in flight on average for %.0f users: think times, ramps, failures and the "
             "last requests of a run count",
             client.achieved_concurrency, static_cast<double>(users)));
  }
}

// The methodology's sentence, and the figure behind it.
std::string WithDetail(stats::Warning warning, const std::string& detail) {
  return std::string(stats::WarningSentence(warning)) + " (" + detail + ")";
}

void AddWarnings(const LoadOptions& options, Summary* summary) {
  if (options.duration.has_value() && summary->client.ran_out_at_s.has_value() &&
      *summary->client.ran_out_at_s < summary->load_s - 0.001) {
    summary->warnings.push_back(
        WithDetail(stats::Warning::kOutOfSessions,
                   Text("no session was left after %.1f s", *summary->client.ran_out_at_s)));
  }
  const uint64_t failed = summary->requests - summary->ok;
  if (failed * 100 > summary->requests) {
    summary->warnings.push_back(WithDetail(
        stats::Warning::kFailures,
        Text("%.2f %%", 100.0 * static_cast<double>(failed) / static_cast<double>(summary->requests))));
  }
  if (summary->window_s < 300)
    summary->warnings.push_back(WithDetail(stats::Warning::kShortWindow, Text("%.1f s", summary->window_s)));
}

}  // namespace

Distribution Distribute(std::vector<double> values) {
  Distribution result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  result.count = values.size();
  result.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()) / kMillisecond;
  result.p50 = Percentile(values, 0.5) / kMillisecond;
  result.p90 = Percentile(values, 0.9) / kMillisecond;
  result.p95 = Percentile(values, 0.95) / kMillisecond;
  result.p99 = Percentile(values, 0.99) / kMillisecond;
  result.min = values.front() / kMillisecond;
  result.max = values.back() / kMillisecond;
  return result;
}

Summary Summarize(const Accumulator& records, const WindowBounds& window, const LoadOptions& options,
                  const ClientFigures& client, const std::optional<Slo>& slo,
                  std::vector<std::string> source_notes) {
  Summary summary;
  summary.window_start_s = static_cast<double>(window.start) / 1e9;
  summary.window_s = std::max(0.0, static_cast<double>(window.end - window.start) / 1e9);
  summary.whole_run = window.whole_run;
  summary.load_s = static_cast<double>(window.load_end) / 1e9;
  summary.total_s = static_cast<double>(window.total_end) / 1e9;
  summary.interrupted = window.interrupted;
  summary.client = client;
  summary.examples = records.examples;
  const auto measured = [&](const RequestFigures& r) { return IsMeasured(r, window.start); };
  const auto good = [&](const RequestFigures& r) { return IsGood(r, window.start); };
  for (const RequestFigures& request : records.requests) {
    if (request.primer) {
      ++summary.primers;
      continue;
    }
    if (request.window_time < window.start) {
      ++summary.warm_up_requests;
      continue;
    }
    ++summary.requests;
    ++summary.outcomes[static_cast<size_t>(request.outcome)];
    if (request.outcome != Outcome::kOk) continue;
    ++summary.ok;
    summary.input_tokens += request.input_tokens;
    summary.cached_tokens += request.cached_tokens;
    summary.output_tokens += request.output_tokens;
    if (!request.has_input_tokens) ++summary.without_input_tokens;
    if (!request.has_cached_tokens) ++summary.without_cached_tokens;
    if (request.counted) ++summary.with_counted_tokens;
  }
  if (summary.window_s > 0) {
    summary.requests_per_second = static_cast<double>(summary.ok) / summary.window_s;
    summary.output_tokens_per_second = static_cast<double>(summary.output_tokens) / summary.window_s;
  }
  summary.ttft = Collect(records, good, [](const RequestFigures& r) { return Integer(r.ttft); });
  summary.latency = Collect(records, good, [](const RequestFigures& r) { return Integer(r.latency); });
  summary.ttft_from_sent =
      Collect(records, good, [](const RequestFigures& r) { return Float(r.ttft_from_sent); });
  summary.kernel_ttft = Collect(records, good, [](const RequestFigures& r) { return Float(r.kernel_ttft); });
  summary.answer_ttft = Collect(records, good, [](const RequestFigures& r) { return Float(r.answer_ttft); });
  summary.first_byte = Collect(records, good, [](const RequestFigures& r) { return Float(r.first_byte); });
  summary.time_per_output_token =
      Collect(records, good, [](const RequestFigures& r) { return Float(r.time_per_output_token); });
  summary.connect = Collect(records, measured, [](const RequestFigures& r) { return Float(r.connect); });
  summary.gap = GapDistribution(records);
  if (slo.has_value() && summary.window_s > 0) {
    summary.slo = slo;
    for (const double scale : {1.0, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0}) {
      const auto n = std::count_if(records.requests.begin(), records.requests.end(),
                                   [&](const RequestFigures& r) { return good(r) && Good(r, *slo, scale); });
      summary.goodput.push_back(
          {scale, static_cast<double>(n) / summary.window_s,
           summary.requests == 0 ? 0 : static_cast<double>(n) / static_cast<double>(summary.requests)});
    }
  }
  summary.notes = std::move(source_notes);
  JudgeClient(options, &summary);
  AddNotes(options, &summary);
  AddWarnings(options, &summary);
  return summary;
}

Result<Slo> ParseSlo(std::string_view text) {
  Slo slo;
  slo.name = std::string(text);
  const auto twice = [&](std::string_view key) {
    return InvalidInput("slo '" + std::string(text) + "'", std::string(key) + " is given twice",
                        "give each limit once");
  };
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    if (key == "share" && equals != std::string_view::npos) {
      const std::string value(part.substr(equals + 1));
      char* end = nullptr;
      const double share = std::strtod(value.c_str(), &end);
      if (value.empty() || *end != 0 || !(share > 0 && share <= 1)) {
        return InvalidInput("slo '" + std::string(text) + "'",
                            "share '" + value + "' is not above 0 and at most 1", "write share=0.99");
      }
      if (slo.share.has_value()) return twice(key);
      slo.share = share;
      continue;
    }
    std::optional<Nanoseconds>* const limit = key == "ttft"      ? &slo.ttft
                                              : key == "tpot"    ? &slo.time_per_output_token
                                              : key == "latency" ? &slo.latency
                                                                 : nullptr;
    if (limit == nullptr || equals == std::string_view::npos) {
      return InvalidInput("slo '" + std::string(text) + "'", "'" + std::string(part) + "' is no limit",
                          "write ttft=2s,tpot=100ms,latency=10s,share=0.99, each of them optional");
    }
    if (limit->has_value()) return twice(key);
    POOLMARK_ASSIGN_OR_RETURN(*limit, ParseDuration(part.substr(equals + 1)));
    if (**limit <= Nanoseconds(0))
      return InvalidInput("slo '" + std::string(text) + "'", std::string(key) + " is not above 0",
                          "no request could meet it");
  }
  if (!slo.ttft.has_value() && !slo.time_per_output_token.has_value() && !slo.latency.has_value()) {
    return InvalidInput("slo '" + std::string(text) + "'", "it sets no limit",
                        "write ttft=2s,tpot=100ms,latency=10s, each of them optional");
  }
  return slo;
}

}  // namespace poolmark::load

#include "common/stats/requests.h"

#include <algorithm>
#include <cmath>

#include "common/stats/percentile_curve.h"
#include "common/stats/windows.h"

namespace poolmark::stats {
namespace {

constexpr double kCurveScales[] = {0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6};  // DistServe's sweep of both limits

}  // namespace

std::optional<double> TimeToFirstToken(const RequestFacts& request) {
  if (!request.ok || !request.first_output) return std::nullopt;
  return *request.first_output - request.start;
}

std::optional<double> TimePerOutputToken(const RequestFacts& request) {
  if (!request.ok || !request.first_output || !request.last_output || request.output_tokens < 2)
    return std::nullopt;
  const int64_t later = request.output_tokens - request.first_event_tokens;
  if (later < 1) return std::nullopt;
  return (*request.last_output - *request.first_output) / static_cast<double>(later);
}

RequestAccumulator::RequestAccumulator(double from, double to, std::vector<Slo> slos,
                                       std::optional<double> counters_from)
    : from_(from),
      to_(to),
      counters_from_(std::min(from, counters_from.value_or(from))),
      slos_(std::move(slos)),
      window_tokens_(WindowCount(to - from)) {}

void RequestAccumulator::Add(const RequestFacts& request) {
  const double length = (to_ - from_) / static_cast<double>(window_tokens_.size());
  for (const auto& [at, tokens] : request.events) {
    // The end is inside: of a whole run it is the very time of the last token.
    if (at < from_ || at > to_ || !(length > 0)) continue;
    const auto window = std::min(window_tokens_.size() - 1, static_cast<size_t>((at - from_) / length));
    window_tokens_[window] += tokens;
  }
  const bool primer_inside = request.primer && request.sent >= from_ && request.sent < to_;
  const auto add_skew = [&](double counted, Skew* skew) {
    if (!primer_inside && (request.sent >= from_ || counted <= counters_from_)) return;
    ++skew->requests;
    if (request.input_tokens < 0)
      ++skew->unknown;
    else
      skew->tokens += static_cast<double>(request.input_tokens);
  };
  add_skew(request.first_output.value_or(request.end), &skew_at_first_token_);
  add_skew(request.end, &skew_at_finish_);
  if (request.end > from_ && request.sent < to_) {
    edges_.emplace_back(std::max(request.sent, from_), 1);
    edges_.emplace_back(std::min(request.end, to_), -1);
  }
  if (request.primer || request.start < from_ || request.start >= to_) return;
  ++figures_.requests;
  if (request.sent_late) sent_late_.push_back(*request.sent_late);
  if (!request.ok) {
    ++figures_.failed;
    return;
  }
  const auto ttft = TimeToFirstToken(request), tpot = TimePerOutputToken(request);
  if (ttft) ttft_.push_back(*ttft);
  if (tpot) tpot_.push_back(*tpot);
  // One output token: there is no time per output token to miss the limit with.
  if (ttft) pairs_.emplace_back(static_cast<float>(*ttft), static_cast<float>(tpot.value_or(0)));
  if (request.last_output) latency_.push_back(*request.last_output - request.start);
  if (request.lateness) lateness_.push_back(*request.lateness);
  for (size_t i = 1; i < request.events.size(); ++i) {
    itl_.push_back(static_cast<float>(request.events[i].first - request.events[i - 1].first));
  }
  figures_.output_tokens += static_cast<double>(request.output_tokens);
  if (request.counted) ++figures_.counted;
  if (request.input_tokens < 0)
    usage_missing_ = true;
  else
    prompt_ += static_cast<double>(request.input_tokens);
  if (request.cached_tokens < 0)
    cached_missing_ = true;
  else
    cached_ += static_cast<double>(request.cached_tokens);
}

RequestFigures RequestAccumulator::Finish() {
  const double seconds = to_ - from_;
  figures_.ttft = Describe(&ttft_);
  figures_.tpot = Describe(&tpot_);
  figures_.latency = Describe(&latency_);
  figures_.lateness = Describe(&lateness_);
  figures_.sent_late = Describe(&sent_late_);
  figures_.itl = DescribeMany(&itl_);
  itl_ = {};
  figures_.ttft_curve = PercentileCurve(ttft_);
  figures_.tpot_curve = PercentileCurve(tpot_);
  if (seconds > 0) {
    figures_.output_tokens_per_second = figures_.output_tokens / seconds;
    figures_.requests_per_second = static_cast<double>(figures_.requests - figures_.failed) / seconds;
  }
  const bool any = figures_.requests > figures_.failed;
  if (any && !usage_missing_) figures_.client_prompt_tokens = prompt_;
  if (any && !cached_missing_) figures_.client_cached_tokens = cached_;
  std::sort(edges_.begin(), edges_.end());
  double last = from_, area = 0;
  int64_t active = 0;
  for (const auto& [at, step] : edges_) {
    area += static_cast<double>(active) * (at - last);
    last = at;
    active += step;
    figures_.peak_concurrency =
        std::max(figures_.peak_concurrency, static_cast<uint64_t>(std::max<int64_t>(0, active)));
  }
  if (seconds > 0) figures_.achieved_concurrency = area / seconds;
  for (const Slo& slo : slos_) {
    Goodput goodput;
    goodput.slo = slo.name;
    const auto good = [&](double scale) {
      return static_cast<double>(std::count_if(pairs_.begin(), pairs_.end(), [&](const auto& pair) {
        return pair.first <= slo.ttft_seconds * scale && pair.second <= slo.tpot_seconds * scale;
      }));
    };
    const auto all = static_cast<double>(std::max<uint64_t>(1, figures_.requests));
    const double met = good(1);
    goodput.share = met / all;
    goodput.required_share = slo.share;
    if (slo.share && figures_.requests > 0) goodput.met = goodput.share >= *slo.share;
    goodput.share_ttft =
        static_cast<double>(std::count_if(pairs_.begin(), pairs_.end(),
                                          [&](const auto& pair) { return pair.first <= slo.ttft_seconds; })) /
        all;
    goodput.share_tpot = static_cast<double>(std::count_if(
                             pairs_.begin(), pairs_.end(),
                             [&](const auto& pair) { return pair.second <= slo.tpot_seconds; })) /
                         all;
    if (seconds > 0) {
      goodput.good_per_second = met / seconds;
      for (const double scale : kCurveScales) goodput.curve.emplace_back(scale, good(scale) / seconds);
    }
    figures_.goodput.push_back(std::move(goodput));
  }
  return std::move(figures_);
}

}  // namespace poolmark::stats

#include "common/results/comparisons.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/results/figures.h"
#include "common/stats/compare.h"
#include "common/stats/summary.h"

namespace poolmark::results {
namespace {

using Pair = std::pair<const RepeatFile*, const RepeatFile*>;

// The figures of one request that are paired session by session.
struct SessionRatios {
  std::vector<double> ttft, tpot;
};

SessionRatios PairSessions(const std::vector<Pair>& pairs, const RequestsOf& baseline,
                           const RequestsOf& candidate) {
  SessionRatios out;
  if (!baseline || !candidate) return out;
  for (const auto& [left, right] : pairs) {
    std::map<std::pair<uint64_t, uint32_t>, PairedRequest> by_turn;
    for (const PairedRequest& request : baseline(*left)) by_turn[{request.session, request.turn}] = request;
    for (const PairedRequest& request : candidate(*right)) {
      const auto at = by_turn.find({request.session, request.turn});
      if (at == by_turn.end()) continue;
      if (at->second.ttft && request.ttft && *at->second.ttft > 0)
        out.ttft.push_back(*request.ttft / *at->second.ttft - 1);
      if (at->second.tpot && request.tpot && *at->second.tpot > 0)
        out.tpot.push_back(*request.tpot / *at->second.tpot - 1);
    }
  }
  std::sort(out.ttft.begin(), out.ttft.end());
  std::sort(out.tpot.begin(), out.tpot.end());
  return out;
}

std::optional<double> ValueOf(const std::vector<NamedFigure>& figures, const std::string& name) {
  const auto at = std::find_if(figures.begin(), figures.end(),
                               [&](const NamedFigure& figure) { return figure.name == name; });
  return at != figures.end() && at->value.has_value() ? std::optional(*at->value) : std::nullopt;
}

void FillSession(const SessionRatios& sessions, SummaryComparison* out) {
  const std::vector<double>* ratios = out->figure.starts_with("ttft_")   ? &sessions.ttft
                                      : out->figure.starts_with("tpot_") ? &sessions.tpot
                                                                         : nullptr;
  if (ratios == nullptr) {
    out->session_relative = NotMeasured{"not a figure of one request"};
  } else if (ratios->empty()) {
    out->session_relative = NotMeasured{"no request of the same session and turn in both"};
  } else {
    out->paired_sessions = ratios->size();
    out->session_relative = stats::Percentile(*ratios, 0.5);
  }
}

}  // namespace

std::vector<SummaryComparison> ComparePoint(const std::vector<const RepeatFile*>& baseline,
                                            const std::vector<const RepeatFile*>& candidate,
                                            const RequestsOf& baseline_requests,
                                            const RequestsOf& candidate_requests) {
  std::vector<Pair> pairs;
  for (const RepeatFile* left : baseline) {
    for (const RepeatFile* right : candidate) {
      if (left->facts.repeat == right->facts.repeat && left->figures.valid && right->figures.valid)
        pairs.emplace_back(left, right);
    }
  }
  std::vector<SummaryComparison> out;
  if (baseline.empty() || candidate.empty()) return out;
  const SessionRatios sessions = PairSessions(pairs, baseline_requests, candidate_requests);
  std::vector<std::pair<std::vector<NamedFigure>, std::vector<NamedFigure>>> figures;
  for (const auto& [left, right] : pairs) figures.emplace_back(FiguresOf(*left), FiguresOf(*right));
  for (const NamedFigure& figure : FiguresOf(*candidate.front())) {
    const Direction direction = DirectionOf(figure.name);
    if (direction == Direction::kNone) continue;
    std::vector<double> before, after;
    for (const auto& [left, right] : figures) {
      const auto a = ValueOf(left, figure.name), b = ValueOf(right, figure.name);
      if (!a || !b) continue;
      before.push_back(*a);
      after.push_back(*b);
    }
    SummaryComparison one;
    one.baseline = baseline.front()->facts.point.stack;
    one.candidate = candidate.front()->facts.point.stack;
    one.workload = candidate.front()->facts.point.workload;
    one.level = candidate.front()->facts.point.level;
    one.figure = figure.name;
    one.lower_is_better = direction == Direction::kLower;
    const auto result = stats::ComparePaired(before, after, one.lower_is_better);
    one.verdict = stats::ComparisonName(result.verdict);
    one.pairs = result.pairs;
    const NotMeasured none{"no pair of valid repeats"};
    one.baseline_mean = before.empty() ? Measured<double>(none) : stats::Mean(before);
    one.candidate_mean = after.empty() ? Measured<double>(none) : stats::Mean(after);
    one.relative = result.relative    ? Measured<double>(*result.relative)
                   : result.from_zero ? Measured<double>(NotMeasured{"the baseline is 0"})
                                      : Measured<double>(none);
    one.low = result.low;
    one.high = result.high;
    one.same_within = stats::kSameWithin;
    one.repeats_needed = result.repeats_needed;
    FillSession(sessions, &one);
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<SummaryComparison> Compare(const std::string& baseline, const std::vector<RepeatFile>& repeats,
                                       const RequestsOf& requests) {
  std::map<PointId, std::vector<const RepeatFile*>> points;
  for (const RepeatFile& repeat : repeats) points[repeat.facts.point].push_back(&repeat);
  std::vector<SummaryComparison> out;
  for (const auto& [id, list] : points) {
    if (id.stack == baseline) continue;
    const auto base = points.find({baseline, id.workload, id.level});
    if (base == points.end()) continue;
    auto one = ComparePoint(base->second, list, requests, requests);
    out.insert(out.end(), std::make_move_iterator(one.begin()), std::make_move_iterator(one.end()));
  }
  return out;
}

}  // namespace poolmark::results

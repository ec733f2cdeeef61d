#include "common/quality/engagement.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/quality/counter_checks.h"

namespace poolmark::quality {
namespace {

std::vector<bool> WereRead(const Pass& candidate) {
  std::vector<bool> read;
  for (const Answer& answer : candidate.answers) read.push_back(answer.counters.has_value());
  return read;
}

std::optional<double> Lowest(const std::vector<double>& values) {
  auto found = std::min_element(values.begin(), values.end());
  return found == values.end() ? std::nullopt : std::optional(*found);
}

std::string Share(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

std::vector<double> BlendWindows(const Pass& candidate) {
  std::vector<double> blended, requested;
  for (const Answer& answer : candidate.answers) {
    const Counters counters = answer.counters.value_or(Counters{});
    blended.push_back(counters.non_prefix_hit_tokens);
    requested.push_back(counters.requested_tokens);
  }
  return WindowShares(blended, requested, false, WereRead(candidate));
}

std::vector<double> ReuseWindows(const Plan& plan, const Pass& candidate) {
  std::vector<double> reused, expected;
  for (size_t i = 0; i < candidate.answers.size(); ++i) {
    reused.push_back(candidate.answers[i].counters.value_or(Counters{}).reused());
    expected.push_back(static_cast<double>(plan.samples[i].expected_reused_tokens.value_or(0)));
  }
  return WindowShares(reused, expected, true, WereRead(candidate));
}

std::optional<int64_t> ExpectedTokens(const Plan& plan) {
  int64_t total = 0;
  for (const Sample& sample : plan.samples) {
    if (!sample.expected_reused_tokens) return std::nullopt;
    total += *sample.expected_reused_tokens;
  }
  return total;
}

Engagement EngagementOf(const Plan& plan, const Pass& candidate, const VerdictSettings& settings) {
  Engagement e;
  bool reuse_gate = plan.scenario == "concatenated";
  e.gate = reuse_gate ? "reuse" : "blend_share";
  if (!candidate.arm.engagement_measured || !candidate.arm.counters) return e;
  const Counters& pass = *candidate.arm.counters;
  e.measured = true;
  e.stale_chunks = pass.stale_chunks;
  e.segmented_prefix_hit_tokens = pass.segmented_prefix_hit_tokens;
  e.fingerprints_registered = pass.fingerprints_registered;
  e.blend_share = pass.blend_share();
  e.min_window_share = candidate.answers.size() >= kWindow
                           ? Lowest(BlendWindows(candidate)).value_or(e.blend_share)
                           : e.blend_share;
  if (!reuse_gate) {
    e.engaged = e.blend_share >= settings.min_blend_share && e.min_window_share >= settings.min_blend_share;
    return e;
  }
  std::optional<int64_t> expected = ExpectedTokens(plan);
  e.engaged = false;  // a plan that expects nothing cannot show reuse
  if (!expected || *expected == 0) return e;
  e.reuse_ratio = pass.reused() / static_cast<double>(*expected);
  e.min_window_reuse_ratio =
      candidate.answers.size() >= kWindow ? Lowest(ReuseWindows(plan, candidate)) : e.reuse_ratio;
  e.engaged = *e.reuse_ratio >= settings.min_reuse_ratio &&
              e.min_window_reuse_ratio.value_or(*e.reuse_ratio) >= settings.min_reuse_ratio;
  return e;
}

std::optional<std::string> LastRead(const Pass& candidate) {
  if (candidate.answers.empty() || candidate.answers.back().counters) return std::nullopt;
  for (auto answer = candidate.answers.rbegin(); answer != candidate.answers.rend(); ++answer) {
    if (answer->counters) return answer->request_id;
  }
  return std::nullopt;
}

std::optional<std::string> WarmStart(const Plan& plan, double registered) {
  // Each stored passage that stands on chunks of its own, and each unit, has at least one that no other has.
  int64_t least = static_cast<int64_t>(plan.store_requests.size());
  if (plan.scenario != "concatenated") {
    std::set<std::string> passages;
    for (const Sample& sample : plan.samples) {
      for (const PassageRecord& passage : sample.passages) passages.insert(passage.passage_id);
    }
    least = static_cast<int64_t>(passages.size());
  }
  if (least == 0 || registered >= static_cast<double>(least)) return std::nullopt;
  if (registered < 1)
    return "the store requests registered no new chunk: the cache was warm before, or does not index them";
  return absl::StrCat("the store requests registered ", registered, " new chunks, a cold cache at least ",
                      least, ": it was warm before, or does not index all of them");
}

namespace {

// The counters of one stretch of the pass.
struct Stretch {
  Counters sum;
  std::string where;  // for people
};

// The window with the lowest share, or nothing where none is below the limit.
std::optional<Stretch> LowestWindow(const Plan& plan, const Pass& candidate, bool reuse_gate, double limit) {
  std::optional<Stretch> lowest;
  double lowest_share = limit;
  if (candidate.answers.size() < kWindow) return lowest;
  for (const auto& [begin, end] : Windows(candidate.answers.size(), WereRead(candidate))) {
    Counters sum;
    double expected = 0;
    for (size_t i = begin; i < end; ++i) {
      expected += static_cast<double>(plan.samples[i].expected_reused_tokens.value_or(0));
      if (!candidate.answers[i].counters) continue;
      for (const auto& [name, member] : kCounterFields)
        sum.*member += (*candidate.answers[i].counters).*member;
    }
    if (reuse_gate && expected < 1) continue;
    const double share = reuse_gate ? sum.reused() / expected : sum.blend_share();
    if (share >= lowest_share) continue;
    lowest_share = share;
    lowest = Stretch{
        sum, absl::StrCat(" in ", plan.samples[begin].request_id, " to ", plan.samples[end - 1].request_id)};
  }
  return lowest;
}

// Where the looked-up tokens went, and what that makes likely. Says nothing that the counters contradict.
std::string Cause(const Plan& plan, const Stretch& stretch, bool reuse_gate) {
  const Counters& c = stretch.sum;
  if (c.requested_tokens < 1) return absl::StrCat(":", stretch.where, " no look-up was counted");
  const double prefix = c.prefix() / c.requested_tokens;
  const double missed = std::max(0.0, 1 - prefix - c.blend_share());
  std::string out =
      absl::StrCat(":", stretch.where, stretch.where.empty() ? " " : ", ", "of the looked-up tokens ",
                   Share(c.blend_share()), " were blended, ", Share(prefix), " came as exact prefixes and ",
                   Share(missed), " were not found");
  if (c.stale_chunks > 0)
    absl::StrAppend(&out, "; ", c.stale_chunks, " chunks were matched but their KV was gone");
  const double stale = c.stale_chunks * static_cast<double>(plan.chunk_size) / c.requested_tokens;
  if (!reuse_gate && prefix >= 0.5) {
    out += ": the cache may have held whole prompts before the pass (clear it and run the candidate again)";
  } else if (missed >= 0.1 && stale >= missed / 2) {
    out += ": the cache may be too small for the plan";
  } else if (missed >= 0.1) {
    out +=
        reuse_gate ? ": chunk size may not fit the server" : ": chunk size or padding may not fit the server";
  }
  return out;
}

std::optional<std::string> WhyBelow(const Plan& plan, const Pass& candidate, const Engagement& e,
                                    const VerdictSettings& settings) {
  const std::optional<Counters>& pass = candidate.arm.counters;
  if (pass && pass->requested_tokens == 0 && pass->reused() == 0) {
    return absl::StrCat("not_engaged: ", candidate.arm.blend_metrics_url,
                        " counted no look-up during the pass: it may be another server's page");
  }
  const bool reuse_gate = e.gate == "reuse";
  if (reuse_gate && !ExpectedTokens(plan)) {
    return "not_engaged: this older plan does not say how much reuse it expects "
           "(expected_reused_tokens is null), so the reuse gate cannot be decided: make the plan anew";
  }
  if (reuse_gate && !e.reuse_ratio)
    return "not_engaged: the plan expects no reuse, so nothing can be shown about it";
  const double whole = reuse_gate ? *e.reuse_ratio : e.blend_share;
  const double window = reuse_gate ? e.min_window_reuse_ratio.value_or(whole) : e.min_window_share;
  const double limit = reuse_gate ? settings.min_reuse_ratio : settings.min_blend_share;
  std::string out = absl::StrCat(
      "not_engaged: ",
      reuse_gate ? "reused over expected tokens is " : "the share of tokens served by blending is ",
      Share(whole), " over the pass and ", Share(window), " in its lowest window, at least ", Share(limit),
      " is needed (", reuse_gate ? "--min-reuse-ratio" : "--min-blend-share", ")");
  std::optional<Stretch> stretch;
  if (whole < limit && pass) {
    stretch = Stretch{*pass, ""};
  } else {
    stretch = LowestWindow(plan, candidate, reuse_gate, limit);
  }
  if (stretch && !CounterReset(candidate) && ImpossibleCounters(candidate).empty())
    out += Cause(plan, *stretch, reuse_gate);
  return out;
}

}  // namespace

std::optional<std::string> WhyNotEngaged(const Plan& plan, const Pass& candidate, const Engagement& e,
                                         const VerdictSettings& settings) {
  if (e.engaged) return std::nullopt;
  std::optional<std::string> why = WhyBelow(plan, candidate, e, settings);
  if (std::optional<std::string> last = LastRead(candidate); why && last)
    absl::StrAppend(&*why, "; the counters were last read after ", *last, ", what came later is not in them");
  return why;
}

std::optional<std::string> CounterReset(const Pass& candidate) {
  auto fell = [](const std::optional<Counters>& counters) -> const char* {
    if (!counters) return nullptr;
    for (const auto& [name, member] : kCounterFields) {
      if ((*counters).*member < 0) return name;
    }
    return nullptr;
  };
  if (const char* name = fell(candidate.arm.counters)) {
    return absl::StrCat("counter_reset: ", name, " fell during the pass: the blend server was restarted");
  }
  for (const Answer& answer : candidate.answers) {
    if (const char* name = fell(answer.counters)) {
      return absl::StrCat("counter_reset: ", name, " fell at ", answer.request_id,
                          ": the blend server was restarted");
    }
  }
  return std::nullopt;
}

}  // namespace poolmark::quality

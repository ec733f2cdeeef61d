#include "common/quality/engagement.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"

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

namespace {

std::optional<std::string> WhyBelow(const Plan& plan, const Pass& candidate, const Engagement& e,
                                    const VerdictSettings& settings) {
  const std::optional<Counters>& pass = candidate.arm.counters;
  if (pass && pass->requested_tokens == 0 && pass->reused() == 0) {
    return absl::StrCat("not_engaged: ", candidate.arm.blend_metrics_url,
                        " counted no look-up during the pass: it may be another server's page");
  }
  if (e.gate == "reuse") {
    if (!ExpectedTokens(plan)) {
      return "not_engaged: this older plan does not say how much reuse it expects "
             "(expected_reused_tokens is null), so the reuse gate cannot be decided: make the plan anew";
    }
    if (!e.reuse_ratio) return "not_engaged: the plan expects no reuse, so nothing can be shown about it";
    return absl::StrCat("not_engaged: reused over expected tokens is ", Share(*e.reuse_ratio),
                        " over the pass and ", Share(e.min_window_reuse_ratio.value_or(*e.reuse_ratio)),
                        " in its lowest window, at least ", Share(settings.min_reuse_ratio),
                        " is needed (--min-reuse-ratio)");
  }
  return absl::StrCat(
      "not_engaged: the share of tokens served by blending is ", Share(e.blend_share), " over the pass and ",
      Share(e.min_window_share), " in its lowest window, at least ", Share(settings.min_blend_share),
      " is needed (--min-blend-share): chunk size or padding may not fit the server, or chunks went stale");
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

#include "common/quality/counter_checks.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/quality/engagement.h"

namespace poolmark::quality {
namespace {

// Programs may round each figure.
constexpr double kSlackTokens = 0.5;

std::string Whole(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

}  // namespace

std::optional<std::string> MoreThanLookedUp(const Counters& counters) {
  if (counters.requested_tokens < 0) return std::nullopt;  // it fell: CounterReset() tells
  const double served = counters.prefix_hit_tokens + counters.non_prefix_hit_tokens;
  if (served <= counters.requested_tokens + kSlackTokens) return std::nullopt;
  return absl::StrCat(Whole(served), " tokens were served, of ", Whole(counters.requested_tokens),
                      " looked up");
}

std::vector<std::string> ImpossibleCounters(const Pass& pass) {
  const std::optional<Counters>& all = pass.arm.counters;
  std::vector<std::string> problems;
  if (!all || CounterReset(pass)) return problems;
  if (std::optional<std::string> more = MoreThanLookedUp(*all)) problems.push_back(*std::move(more));
  for (const auto& [name, member] : kCounterFields) {
    double sum = 0;
    for (const Answer& answer : pass.answers) sum += answer.counters ? (*answer.counters).*member : 0;
    if (sum > (*all).*member + kSlackTokens)
      problems.push_back(absl::StrCat(name, " is ", Whole((*all).*member),
                                      " over the pass, its questions have ", Whole(sum)));
  }
  return problems;
}

}  // namespace poolmark::quality

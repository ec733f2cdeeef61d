#include "common/stats/warnings.h"

namespace poolmark::stats {

std::string_view WarningName(Warning warning) {
  static constexpr std::string_view names[] = {"out_of_sessions", "failures", "short_window"};
  return names[static_cast<int>(warning)];
}

std::string_view WarningSentence(Warning warning) {
  static constexpr std::string_view sentences[] = {
      "The load ran out of sessions. The data set had fewer sessions than the load duration needed, so users "
      "stopped "
      "before the load ended and the measured window is not full.",
      "More than 1% of the requests in the measured window failed.",
      "Less than 300 s was measured. A shorter window is too brief to average out normal variation."};
  return sentences[static_cast<int>(warning)];
}

std::vector<Warning> WarningsOf(const WarningFacts& facts) {
  std::vector<Warning> out;
  if (facts.held_load && facts.ran_out) out.push_back(Warning::kOutOfSessions);
  if (facts.failed * 100 > facts.requests) out.push_back(Warning::kFailures);
  if (facts.requests > 0 && facts.measured_seconds < 300) out.push_back(Warning::kShortWindow);
  return out;
}

}  // namespace poolmark::stats

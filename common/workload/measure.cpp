#include "common/workload/measure.h"

#include <algorithm>
#include <cmath>

namespace poolmark::workload {

SentReuse MeasureReuse(const Workload& workload, const WorkloadSpec& spec, std::vector<SentRequest> requests,
                       double from, double to, uint32_t block_tokens, bool warm_pass) {
  std::vector<Arrival> arrivals;
  arrivals.reserve(requests.size());
  const auto time = [](double seconds) { return Nanoseconds(std::llround(seconds * 1e9)); };
  for (const SentRequest& request : requests) {
    if (request.session >= workload.sessions()) continue;
    arrivals.push_back({request.session, request.turn, time(request.sent), time(request.end),
                        !request.primer && request.sent >= from && request.sent < to});
  }
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.start < b.start; });
  ReuseOptions options;
  options.block_tokens = block_tokens;
  options.live_answers = spec.live_answers;
  options.warm_pass = warm_pass;
  SentReuse out;
  out.around = TemplateOf(workload, spec, requests);
  const auto analyse = [&](const Workload& words) {
    return Analyse(*WithTemplate(words, out.around, spec.chat), arrivals, options);
  };
  if (!spec.live_answers) {
    out.reuse = out.around == Template() ? Analyse(workload, arrivals, options) : analyse(workload);
    return out;
  }
  const auto sent = WithSentAnswers(workload, requests, Doubtful::kReusable);
  out.answers = sent->counts();
  out.reuse = analyse(*sent);
  if (out.answers->doubtful == 0) return out;
  options.curve = false;
  out.least = analyse(*WithSentAnswers(workload, requests, Doubtful::kNew));
  return out;
}

}  // namespace poolmark::workload

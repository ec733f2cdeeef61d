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
  if (!spec.live_answers) {
    out.reuse = Analyse(workload, arrivals, options);
    return out;
  }
  const auto sent = WithSentAnswers(workload, requests, Doubtful::kReusable);
  out.answers = sent->counts();
  out.reuse = Analyse(*sent, arrivals, options);
  if (out.answers->doubtful == 0) return out;
  options.curve = false;
  out.least = Analyse(*WithSentAnswers(workload, requests, Doubtful::kNew), arrivals, options);
  return out;
}

}  // namespace poolmark::workload

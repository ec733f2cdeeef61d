#include "common/workload/measure.h"

#include <algorithm>
#include <cmath>

namespace poolmark::workload {

Reuse MeasureReuse(const Workload& workload, const WorkloadSpec& spec,
                   const std::vector<load::RequestRecord>& records, int64_t from, int64_t to,
                   uint32_t block_tokens) {
  std::vector<SentRequest> sent;
  sent.reserve(records.size());
  for (const load::RequestRecord& record : records) {
    if (record.outcome == load::Outcome::kConnect) continue;
    sent.push_back({record.session, record.turn,
                    static_cast<double>(record.intended.value_or(record.sent)) / 1e9,
                    static_cast<double>(record.end) / 1e9, record.primer});
  }
  return MeasureReuse(workload, spec, std::move(sent), static_cast<double>(from) / 1e9,
                      static_cast<double>(to) / 1e9, block_tokens);
}

Reuse MeasureReuse(const Workload& workload, const WorkloadSpec& spec, std::vector<SentRequest> requests,
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
  return Analyse(workload, arrivals, options);
}

}  // namespace poolmark::workload

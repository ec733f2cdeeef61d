#include "common/load/in_flight.h"

#include <algorithm>
#include <vector>

namespace poolmark::load {

void InFlightSpans::Add(const RequestRecord& record) {
  if (record.was_sent() && record.end > record.started) spans_.push_back({record.started, record.end});
}

void InFlightSpans::Merge(const InFlightSpans& other) {
  spans_.insert(spans_.end(), other.spans_.begin(), other.spans_.end());
}

uint64_t InFlightSpans::Most() const {
  std::vector<int64_t> starts, ends;
  starts.reserve(spans_.size());
  ends.reserve(spans_.size());
  for (const Span& span : spans_) {
    starts.push_back(span.started);
    ends.push_back(span.end);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  size_t ended = 0, most = 0;
  for (size_t started = 0; started < starts.size(); ++started) {
    while (ends[ended] <= starts[started]) ++ended;  // some end lies after every start
    most = std::max(most, started + 1 - ended);
  }
  return most;
}

}  // namespace poolmark::load

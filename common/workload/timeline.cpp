#include "common/workload/timeline.h"

#include <algorithm>
#include <queue>

namespace poolmark::workload {
namespace {

struct AnswerTime {
  Nanoseconds first, per_token;
  Nanoseconds Of(const Turn& turn) const {
    return turn.service ? *turn.service : first + turn.output_tokens * per_token;
  }
};

// Adds the session's turns from `begin` on; returns when its last answer ends.
Nanoseconds Place(const Script& script, uint64_t number, Nanoseconds begin, const AnswerTime& answer,
                  std::vector<Arrival>* out) {
  std::vector<Nanoseconds> ends(script.turns.size());
  Nanoseconds last = begin;
  for (size_t i = 0; i < script.turns.size(); ++i) {
    const Turn& turn = script.turns[i];
    Nanoseconds free = begin;
    if (!turn.after.empty()) {
      for (const uint32_t before : turn.after) free = std::max(free, ends[before]);
    } else if (i > 0) {
      free = ends[i - 1];
    }
    Nanoseconds start = free + turn.think;
    if (turn.at) start = std::max(*turn.at, i > 0 ? free : *turn.at);
    ends[i] = start + answer.Of(turn);
    last = std::max(last, ends[i]);
    out->push_back({number, static_cast<uint32_t>(i), start, ends[i], !turn.primer});
  }
  return last;
}

// The sessions in the order of their starts: place(number, begin) adds one and returns when its last answer
// ends. Returns when the first user of a closed loop is free and finds none left; nothing where that is not
// reached.
template <class PlaceSession>
std::optional<Nanoseconds> Walk(const Workload& workload, const WorkloadSpec& spec, bool held,
                                const PlaceSession& place) {
  const bool timed = spec.shape == Shape::kTrace || !spec.rate.empty();
  if (timed) {
    for (uint64_t s = 0; s < workload.sessions(); ++s) place(s, Nanoseconds(0));
    return std::nullopt;
  }
  const uint64_t users = spec.concurrency.empty() ? 1 : static_cast<uint64_t>(spec.concurrency.front());
  using Free = std::pair<Nanoseconds, uint64_t>;
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (uint64_t user = 0; user < std::min(users, workload.sessions()); ++user)
    free.push({Nanoseconds(0), user});
  for (uint64_t s = 0; s < workload.sessions(); ++s) {
    const auto [at, user] = free.top();
    if (held && at >= *spec.load_duration) return std::nullopt;
    free.pop();
    free.push({place(s, at), user});
  }
  if (users > workload.sessions() || free.empty()) return Nanoseconds(0);
  return free.top().first;
}

}  // namespace

std::vector<Arrival> PlanArrivals(const Workload& workload, const WorkloadSpec& spec, bool held,
                                  Nanoseconds first, Nanoseconds per_token) {
  const AnswerTime answer{first, per_token};
  std::vector<Arrival> out;
  Walk(workload, spec, held,
       [&](uint64_t s, Nanoseconds begin) { return Place(workload.Outline(s), s, begin, answer, &out); });
  if (held) {
    std::erase_if(out, [&](const Arrival& arrival) { return arrival.start >= *spec.load_duration; });
    for (Arrival& arrival : out) arrival.counts = arrival.counts && arrival.start >= *spec.warm_up;
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Arrival& a, const Arrival& b) { return a.start < b.start; });
  return out;
}

Nanoseconds PlannedEnd(const Workload& workload, const WorkloadSpec& spec, Nanoseconds first,
                       Nanoseconds per_token) {
  const AnswerTime answer{first, per_token};
  std::vector<Arrival> one;  // what a session places is not kept
  Nanoseconds end{0};
  Walk(workload, spec, false, [&](uint64_t s, Nanoseconds begin) {
    one.clear();
    const Nanoseconds last = Place(workload.Outline(s), s, begin, answer, &one);
    end = std::max(end, last);
    return last;
  });
  return end;
}

std::optional<Nanoseconds> RunsOutAt(const Workload& workload, const WorkloadSpec& spec, Nanoseconds first,
                                     Nanoseconds per_token) {
  const AnswerTime answer{first, per_token};
  std::vector<Arrival> one;
  const auto at = Walk(workload, spec, true, [&](uint64_t s, Nanoseconds begin) {
    one.clear();
    return Place(workload.Open(s), s, begin, answer, &one);
  });
  return at && *at < *spec.load_duration ? at : std::nullopt;
}

}  // namespace poolmark::workload

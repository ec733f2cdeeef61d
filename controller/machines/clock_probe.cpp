#include "controller/machines/clock_probe.h"

#include <algorithm>

namespace poolmark::controller {
namespace {

constexpr size_t kExchanges = 8;
constexpr size_t kOpenBeats = 4;
constexpr Nanoseconds kKept = std::chrono::hours(4);
constexpr Nanoseconds kStep = std::chrono::milliseconds(50);

}  // namespace

template <class At>
void ClockProbe::Trim(std::deque<At>* entries, Nanoseconds now) {
  while (!entries->empty() && now - entries->front().steady > kKept) entries->pop_front();
}

void ClockProbe::Received(int64_t t1, int64_t boot, int64_t t2, int64_t t3, Nanoseconds steady) {
  open_.push_back({t1, t2, t3, steady});
  if (open_.size() > kOpenBeats) open_.pop_front();
  if (last_wall_ && boot > *last_boot_) {
    const Nanoseconds step((t1 - *last_wall_) - (boot - *last_boot_));
    if (std::chrono::abs(step) > kStep) steps_.push_back({step, steady});
    Trim(&steps_, steady);
  }
  last_wall_ = t1;
  last_boot_ = boot;
}

void ClockProbe::Completed(int64_t t1, int64_t t4) {
  auto beat = std::find_if(open_.begin(), open_.end(), [&](const Beat& b) { return b.t1 == t1; });
  if (beat == open_.end()) return;
  const int64_t round_trip = (t4 - beat->t1) - (beat->t3 - beat->t2);
  const Nanoseconds steady = beat->steady;
  // ((t2 - t1) + (t3 - t4)) / 2 is ours minus theirs.
  const Nanoseconds offset(-((beat->t2 - beat->t1) + (beat->t3 - t4)) / 2);
  open_.erase(beat);
  if (round_trip < 0) return;  // a step of the clock inside the exchange; Received sees it
  exchanges_.push_back({{offset, Nanoseconds(round_trip / 2)}, steady});
  if (exchanges_.size() > kExchanges) exchanges_.pop_front();
  history_.push_back({*reading(), steady});
  Trim(&history_, steady);
}

std::optional<ClockReading> ClockProbe::reading() const {
  if (exchanges_.empty()) return std::nullopt;
  return std::min_element(exchanges_.begin(), exchanges_.end(),
                          [](const Exchange& a, const Exchange& b) {
                            return a.reading.uncertainty < b.reading.uncertainty;
                          })
      ->reading;
}

std::optional<ClockReading> ClockProbe::WorstSince(Nanoseconds steady) const {
  std::optional<ClockReading> worst;
  for (const Exchange& entry : history_) {
    if (entry.steady < steady) continue;
    if (!worst || std::chrono::abs(entry.reading.offset) > std::chrono::abs(worst->offset))
      worst = entry.reading;
  }
  // Nothing completed since then: the last known reading still describes the clock.
  return worst ? worst : reading();
}

Nanoseconds ClockProbe::LargestStepSince(Nanoseconds steady) const {
  Nanoseconds largest{0};
  for (const Step& step : steps_) {
    if (step.steady >= steady && std::chrono::abs(step.size) > std::chrono::abs(largest)) largest = step.size;
  }
  return largest;
}

}  // namespace poolmark::controller

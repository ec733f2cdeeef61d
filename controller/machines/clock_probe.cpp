#include "controller/machines/clock_probe.h"

#include <algorithm>

namespace poolmark::controller {
namespace {

constexpr size_t kExchanges = 8;
constexpr size_t kOpenBeats = 4;
constexpr Nanoseconds kKept = std::chrono::hours(4);
constexpr Nanoseconds kStep = std::chrono::milliseconds(50);
// Less than a step that is worth a word, but more than what is said of the clocks below it.
constexpr Nanoseconds kShift = std::chrono::milliseconds(5);

}  // namespace

template <class At>
void ClockProbe::Trim(std::deque<At>* entries, Nanoseconds now) {
  while (!entries->empty() && now - entries->front().steady > kKept) entries->pop_front();
}

void ClockProbe::Received(int64_t t1, int64_t boot, int64_t t2, int64_t t3, Nanoseconds steady) {
  // The exchange that ended last is among what goes: its way back may have been after the step.
  if (WasSet(t1, boot, t2, steady)) {
    exchanges_.clear();
    open_.clear();
  }
  last_ = {t1, boot, t2, steady};
  open_.push_back({t1, t2, t3, steady});
  if (open_.size() > kOpenBeats) open_.pop_front();
}

bool ClockProbe::WasSet(int64_t t1, int64_t boot, int64_t t2, Nanoseconds steady) {
  if (!last_) return false;
  if (boot <= last_->boot) return true;
  const Nanoseconds step((t1 - last_->wall) - (boot - last_->boot));
  if (std::chrono::abs(step) > kStep) steps_.push_back({step, steady});
  Trim(&steps_, steady);
  const Nanoseconds ours = Nanoseconds(t2 - last_->ours) - (steady - last_->steady);
  // Ours are read one after the other, with a wait for others between them.
  return std::chrono::abs(step) > kShift || std::chrono::abs(ours) > kStep;
}

void ClockProbe::Forget() {
  exchanges_.clear();
  open_.clear();
  last_.reset();
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

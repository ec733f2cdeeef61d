#include "common/load/record.h"

#include <array>

namespace poolmark::load {
namespace {
constexpr std::array<std::string_view, kOutcomes> kNames = {
    "ok",      "connect",  "http_status", "error_event", "truncated", "reset",
    "stalled", "deadline", "no_output",   "protocol",    "cancelled"};
}  // namespace

std::string_view OutcomeName(Outcome outcome) {
  return kNames[static_cast<size_t>(outcome)];
}

std::optional<Outcome> OutcomeOf(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Outcome>(i);
  }
  return std::nullopt;
}

void RequestRecord::Clear() {
  std::vector<OutputEvent> kept = std::move(events);
  std::string id = std::move(session_id);
  kept.clear();
  id.clear();
  *this = RequestRecord();
  events = std::move(kept);
  session_id = std::move(id);
}

}  // namespace poolmark::load

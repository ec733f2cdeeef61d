#include "controller/runner/cancelled.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "controller/steps/step.h"

namespace poolmark::controller {
namespace {

constexpr char kAsked[] = "cancel by ";
constexpr char kForced[] = "forced cancel by ";
constexpr uint32_t kPage = 1000;

}  // namespace

std::string CancelMessage(bool force, const std::string& who) {
  return absl::StrCat(force ? kForced : kAsked, who);
}

std::string WhoCancelled(Store& store, const std::string& job_id) {
  uint64_t after = 0;
  for (;;) {
    auto events = store.Events(job_id, after, kPage);
    if (!events.ok() || events->empty()) return "";
    for (const v1::JobEvent& event : *events) {
      absl::string_view message = event.message();
      if (event.kind() == "step" &&
          (absl::ConsumePrefix(&message, kAsked) || absl::ConsumePrefix(&message, kForced)))
        return std::string(message);
      after = event.sequence();
    }
  }
}

v1::Reason CancelledReason(const std::string& who) {
  return MakeReason("cancelled", absl::StrCat("cancelled by ", who.empty() ? "request" : who));
}

}  // namespace poolmark::controller

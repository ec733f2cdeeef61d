// The specification's words for the enumerations of the spec files.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/spec/job.h"
#include "common/spec/stack.h"

namespace poolmark::spec {

std::string_view StrategyName(Strategy strategy) {
  switch (strategy) {
    case Strategy::kLocal:
      return "local";
    case Strategy::kOffload:
      return "offload";
    case Strategy::kShared:
      return "shared";
    case Strategy::kSplit:
      return "split";
    case Strategy::kSplitOffload:
      return "split-offload";
  }
  return "unknown";
}

std::string_view StrategyTitle(Strategy strategy) {
  switch (strategy) {
    case Strategy::kLocal:
      return "Each machine keeps its own cache (aggregated baseline)";
    case Strategy::kOffload:
      return "Spill to host memory and disk (offload per node)";
    case Strategy::kShared:
      return "Share one cache pool across machines (shared KV pool)";
    case Strategy::kSplit:
      return "Split prefill and decode across machines (disaggregated prefill and decode)";
    case Strategy::kSplitOffload:
      return "Split and offload";
  }
  return "unknown";
}

std::string_view TierSourceName(TierSource source) {
  switch (source) {
    case TierSource::kHost:
      return "host";
    case TierSource::kStorage:
      return "storage";
    case TierSource::kRemote:
      return "remote";
  }
  return "unknown";
}

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kRelay:
      return "relay";
    case Role::kStore:
      return "store";
    case Role::kCache:
      return "cache";
    case Role::kEngine:
      return "engine";
    case Role::kPrefill:
      return "prefill";
    case Role::kDecode:
      return "decode";
    case Role::kRouter:
      return "router";
  }
  return "unknown";
}

std::string LoadLevel::Name() const {
  const char* letter = kind == Kind::kConcurrency ? "c" : kind == Kind::kRate ? "r" : "x";
  if (steps.empty()) return absl::StrCat(letter, value);
  // A name of files and processes, which may be no longer than others.
  constexpr size_t kLongest = 20;
  if (steps.size() > kLongest) return absl::StrCat(letter, "steps-", Sha256Hex(steps, 8));
  std::string name = absl::StrCat(letter, steps);
  for (char& c : name) {
    if (c == ':' || c == ',') c = '_';
  }
  return name;
}

}  // namespace poolmark::spec

#include "controller/steps/kv_formats.h"

#include "absl/strings/str_cat.h"

namespace poolmark::controller {
namespace {

// Labels of a cache_config_info gauge that a reader and a writer must agree on.
constexpr const char* kAgreed[] = {"block_size", "cache_dtype"};

}  // namespace

std::vector<stats::FormatEvidence> FormatsOf(const StackPlan& stack, const results::SampleFacts& samples) {
  std::vector<stats::FormatEvidence> formats;
  for (const stats::EngineFacts& engine : samples.engines) {
    for (const char* name : stats::kFormatMismatchSeries) {
      auto found = engine.deltas.find(name);
      if (found == engine.deltas.end() || !(found->second > 0)) continue;
      formats.push_back({engine.process, "another party of the store", "KV", "of its own format",
                         absl::StrCat(found->second, " blocks of another that it met (", name, ")")});
    }
  }
  // Engines whose KV never leaves their machine read nothing of each other.
  if (stack.links.empty()) return formats;
  for (const char* label : kAgreed) {
    const std::string* first = nullptr;
    const std::string* first_process = nullptr;
    for (const auto& [process, labels] : samples.cache_config) {
      auto found = labels.find(label);
      if (found == labels.end() || found->second.empty()) continue;
      if (first == nullptr) {
        first = &found->second;
        first_process = &process;
      } else if (found->second != *first) {
        formats.push_back({process, *first_process, label, found->second, *first});
      }
    }
  }
  return formats;
}

}  // namespace poolmark::controller

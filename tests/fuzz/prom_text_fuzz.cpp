// Metrics pages: no page is a bomb, a filter only leaves away, and what was kept has a name and bounded
// labels.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/prom/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  poolmark::prom::Limits limits;
  limits.max_samples = 500;
  limits.max_labels = 8;
  limits.max_label_value = 64;
  const auto page = poolmark::prom::ParseText(text, limits);
  const auto none = poolmark::prom::ParseText(text, limits, [](std::string_view) { return false; });
  if (none.ok() && !none->samples.empty()) std::abort();
  if (!page.ok()) return 0;
  if (page->samples.size() > limits.max_samples) std::abort();
  for (const auto& sample : page->samples) {
    if (sample.name.empty() || sample.labels.size() > limits.max_labels) std::abort();
    for (const auto& [name, value] : sample.labels) {
      if (value.size() > limits.max_label_value) std::abort();
    }
    (void)poolmark::prom::Sum(*page, sample.name, sample.labels);
  }
  return 0;
}

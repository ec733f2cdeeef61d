// Prometheus text exposition (0.0.4 and OpenMetrics' text subset). Pure, thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace poolmark::prom {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Sample {
  std::string name;
  Labels labels;     // in the order of the page
  double value = 0;  // NaN and +-Inf are legal in the text and kept; a caller turns them into NotMeasured
  std::optional<int64_t> timestamp_ms;
  // The value of a label, or "".
  std::string_view label(std::string_view key) const;
};

struct Family {
  std::string name;
  std::string type;  // counter, gauge, histogram, summary, untyped
  std::string help;
};

struct Page {
  std::vector<Sample> samples;
  std::vector<Family> families;
  int bad_lines = 0;           // skipped, the first one named:
  std::string first_bad_line;  // "line 12: ..."
};

struct Limits {
  size_t max_bytes = 10u << 20;
  size_t max_samples = 100'000;
  size_t max_labels = 64;
  size_t max_label_value = 16 << 10;
};

// Says which series to keep; samples of others are skipped cheaply (their labels are not even parsed).
using NameFilter = std::function<bool(std::string_view name)>;

// A page with bad lines is still a page; a page that is no exposition at all (HTML, JSON, binary) or breaks
// a limit is an error. An empty page is a page: OpenTelemetry exporters print nothing before the first event.
Result<Page> ParseText(std::string_view text, const Limits& limits = {}, const NameFilter& keep = nullptr);

// Sum over all samples of `name` whose labels include every pair of `match`; nothing when there is none, or
// when one of them is not a finite number.
std::optional<double> Sum(const Page& page, std::string_view name, const Labels& match = {});

}  // namespace poolmark::prom

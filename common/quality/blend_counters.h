// The blend server's counters, read from its Prometheus page. A series that is not there counts as 0: the
// exporter shows a counter only after its first event. Not thread-safe per object.
#pragma once
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/http/client.h"
#include "common/quality/types.h"

namespace poolmark::quality {

// Sums over label sets; names with and without "_total". An error when the page is no exposition.
Result<Counters> ParseBlendPage(std::string_view page);

class BlendCounters {
 public:
  BlendCounters(http::Client* client, std::string url) : client_(client), url_(std::move(url)) {}
  Result<Counters> Read();
  // Whether the last page that was read holds nothing: an exporter before its first event, or no metrics
  // page.
  bool page_was_empty() const { return page_was_empty_; }

 private:
  http::Client* client_;
  std::string url_;
  bool page_was_empty_ = false;
};

Counters Difference(const Counters& after, const Counters& before);

}  // namespace poolmark::quality

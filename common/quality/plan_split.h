// plan.json in pieces: the elements of its two large arrays, each parsed on its own, so that a plan of 10 000
// questions never stands in memory as one tree. Pure, thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::quality {

struct SplitPlan {
  std::string rest;                              // the text with both arrays empty
  std::vector<std::string_view> store_requests;  // of plan.store_requests, views into the text
  std::vector<std::string_view> samples;         // of plan.samples
};

// Looks at brackets, strings and commas alone: text that is no JSON gives pieces that a strict parser
// refuses.
SplitPlan SplitPlanText(std::string_view text);

}  // namespace poolmark::quality

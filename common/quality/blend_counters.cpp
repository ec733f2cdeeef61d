#include "common/quality/blend_counters.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/prom/parser.h"

namespace poolmark::quality {
namespace {

// The series behind a field of Counters, without "_total".
std::string SeriesOf(std::string_view field) {
  bool lookup = field != "fingerprints_registered";
  return absl::StrCat("lmcache_blend_", lookup ? "lookup_" : "", std::string(field));
}

}  // namespace

Result<Counters> ParseBlendPage(std::string_view text) {
  POOLMARK_ASSIGN_OR_RETURN(prom::Page page, prom::ParseText(text, {}, [](std::string_view name) {
                              return name.starts_with("lmcache_blend_");
                            }));
  Counters out;
  for (const auto& [name, member] : kCounterFields) {
    std::string series = SeriesOf(name);
    // NaN is no reading, least of all a restart.
    for (const prom::Sample& sample : page.samples) {
      if ((sample.name == series || sample.name == series + "_total") && !std::isfinite(sample.value))
        return InvalidInput(sample.name, absl::StrCat("is ", sample.value, ", a number is needed"));
    }
    std::optional<double> value = prom::Sum(page, series + "_total");
    if (!value) value = prom::Sum(page, series);
    // A counter is absent before its first add.
    out.*member = value.value_or(0.0);
    if (!(std::abs(out.*member) <= kMostTokens))
      return InvalidInput(series,
                          absl::StrCat("is ", out.*member, ", no more than ", kMostTokens, " makes sense"));
  }
  return out;
}

Result<Counters> BlendCounters::Read() {
  http::Request request;
  POOLMARK_ASSIGN_OR_RETURN(request.url, http::ParseUrl(url_));
  POOLMARK_ASSIGN_OR_RETURN(http::Response response, client_->Send(request));
  if (response.status != 200)
    return Unavailable(url_, absl::StrCat("answered ", response.status, " instead of a metrics page"));
  page_was_empty_ = response.body.find_first_not_of(" \t\r\n") == std::string::npos;
  Result<Counters> counters = ParseBlendPage(response.body);
  if (!counters.ok())
    return InvalidInput(
        url_, absl::StrCat("cannot be read as blend metrics: ", std::string(counters.status().message())));
  return counters;
}

Counters Difference(const Counters& after, const Counters& before) {
  Counters out;
  for (const auto& [name, member] : kCounterFields) out.*member = after.*member - before.*member;
  return out;
}

}  // namespace poolmark::quality

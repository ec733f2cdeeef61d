// Goodput presets: deploy/slo/*.yaml. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/stats/requests.h"

namespace poolmark::stats {

// One file holds a list of presets: name, title, ttft, tpot (durations), share (of the requests that
// must meet both; optional), source. All errors at once.
Result<std::vector<Slo>> ReadSlos(std::string_view yaml, const std::string& where);
// A list that ReadSlos reads as the same presets.
std::string WriteSlos(const std::vector<Slo>& slos);
// Every *.yaml of a directory; a name that occurs twice is an error.
Result<std::vector<Slo>> ReadSloDirectory(const std::string& directory);
// Those named, in that order; an unknown name comes with the known ones.
Result<std::vector<Slo>> PickSlos(const std::vector<Slo>& all, const std::vector<std::string>& names);

}  // namespace poolmark::stats

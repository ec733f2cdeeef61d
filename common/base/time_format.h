// Texts of times and durations. Pure but for the local zone, which comes from TZ.
#pragma once
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark {

// ISO 8601 to the second, local time with offset: "2026-10-19T10:41:12-05:00" (result files, "Times").
std::string IsoLocal(Nanoseconds wall);
// RFC 3339 in UTC with milliseconds: "2026-10-19T15:41:12.042Z".
std::string IsoUtc(Nanoseconds wall);
// "20m", "1h30m", "250ms", "2s", "1200" (seconds). Errors name the text and the accepted units.
Result<Nanoseconds> ParseDuration(std::string_view text);
// The shortest exact text of a duration: "20m", "1h30m", "1.5s", "250ms".
std::string FormatDuration(Nanoseconds duration);

}  // namespace poolmark

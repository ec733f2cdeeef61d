// The schema of each file, defined beside its codec. Internal to this directory.
#pragma once
#include "common/base/json.h"

namespace poolmark::results {

Json JobSchema();
Json ManifestSchema();
Json PlanSchema();
Json InputsSchema();
Json PreflightSchema();
Json VerifySchema();
Json TeardownSchema();
Json RepeatSchema();
Json SummarySchema();
Json LoadSchema();
// Of one line.
Json EventSchema();
Json SampleSchema();
Json RequestSchema();
Json TimelineSchema();

// {"type": type}, and the same or null.
Json OfType(const char* type);
Json OfTypeOrNull(const char* type);

}  // namespace poolmark::results

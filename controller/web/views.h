// What the pages read, as JSON: small answers, foreign text as plain strings (the pages show it as text,
// never as markup). Pure.
#pragma once
#include <string>

#include "common/base/json.h"
#include "poolmark/v1/controller.pb.h"

namespace poolmark::controller {

// `report`: the job has a report.html.
Json JobView(const v1::Job& job, bool report);
Json EventView(const v1::JobEvent& event);
// A progress tick: the load's line with its position, or null where the line is none.
Json TickView(const v1::JobEvent& event);
Json MachineView(const v1::Machine& machine, uint64_t epoch);

}  // namespace poolmark::controller

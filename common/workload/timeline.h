// When each request of a workload would run, before any engine: the order in which an ideal cache sees the
// prompts, and which conversations live at once. Pure.
#pragma once
#include <optional>
#include <vector>

#include "common/workload/script.h"
#include "common/workload/spec.h"

namespace poolmark::workload {

// One request, planned or sent.
struct Arrival {
  uint64_t session = 0;
  uint32_t turn = 0;
  Nanoseconds start{0};
  Nanoseconds end{0};
  bool counts = true;  // started in the measured window and is no primer
};

// Traces and open loop: at their own times. Closed loop: `concurrency` users take the sessions in order. An
// answer takes its recorded time, or `first` and `per_token`, where nothing is recorded. With `held`, no
// request starts after the load duration and those before the warm-up's end do not count; an agentic workload
// without it runs to its last session.
std::vector<Arrival> PlanArrivals(const Workload& workload, const WorkloadSpec& spec, bool held,
                                  Nanoseconds first = std::chrono::milliseconds(200),
                                  Nanoseconds per_token = std::chrono::milliseconds(20));

// When the last answer of PlanArrivals(..., held = false, ...) ends, without keeping the arrivals.
Nanoseconds PlannedEnd(const Workload& workload, const WorkloadSpec& spec, Nanoseconds first,
                       Nanoseconds per_token);

// When a held load finds no session for a user who is free; nothing: it lasts to the end of the load
// duration.
std::optional<Nanoseconds> RunsOutAt(const Workload& workload, const WorkloadSpec& spec,
                                     Nanoseconds first = std::chrono::milliseconds(200),
                                     Nanoseconds per_token = std::chrono::milliseconds(20));

}  // namespace poolmark::workload

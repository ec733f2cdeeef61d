// docs/lifecycle.md, printed from the table so that it cannot say anything else.
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/jobs/job_table.h"

namespace poolmark::controller {
namespace {

constexpr char kHead[] = R"(# The life of a job

This page is printed from the controller's own table (`controller/jobs/job_table.cpp`); a test compares the two.

```
SUBMITTED -> QUEUED -> PREFLIGHT -> [ LAUNCHING -> VERIFYING -> BENCHMARKING <-> COLLECTING -> TEARING_DOWN ]* -> SUCCEEDED
                                                                                                                  INVALID
                                                                                                                  FAILED
                                                                                                                  CANCELLED
SUBMITTED or QUEUED -> REFUSED (the plan cannot work)
```

The part in brackets is a cycle: one launch of one stack, for as many of its repeats as can share it. Whatever happens once
the machines are locked leaves through TEARING_DOWN. What comes after the tear-down (the *pending outcome*) is stored before
the tear-down begins, so that a crash in the middle of it loses nothing. Each row is one SQLite transaction together with its
event row; no reply states a transition that a power cut can undo.

Beside the state stands the tear-down verdict: `NONE` (nothing was ever started, or its tear-down has not ended yet), `CLEAN`
(every ledger item of every machine is proven gone), `DIRTY` (something is left, and named), `UNKNOWN` (a machine could not be
looked at). A machine that is not clean is quarantined.

An event that has no row for a state changes nothing there: it came late, or twice.

| state | event | pending outcome | next state | action | pending outcome then |
|---|---|---|---|---|---|
)";

constexpr char kDeadlines[] = R"(
## When nobody says anything

A machine that is silent for the lease is lost, in every state. What ends a state although all machines beat:

| state | after | then |
|---|---|---|
)";

constexpr char kTail[] = R"(
## What interrupts a measurement

| cause | repeat | job |
|---|---|---|
| controller restarted | void, measured again | goes on with a new cycle (`--no-continue`: INVALID) |
| engine, cache, store, router or load process died | invalid, with the reason | goes on with a new cycle for what is left (`--no-continue`: INVALID) |
| requests in flight and no token for any user for 60 s (`load.stall`): `stalled` | invalid, with the reason | goes on with a new cycle for what is left (`--no-continue`: INVALID) |
| machine silent for more than 10 s, then back | invalid, with the reason | goes on |
| machine lost (no heartbeat for the lease and the time its guard needs) | invalid, with the reason | INVALID |
| the controller's disk is full: samples or records cannot be stored | invalid, with the reason `disk` | torn down; goes on, or FAILED when the next step cannot store either |
| an agent could not be reached during the launch | none yet | goes on with a new cycle |
| cancel | void | CANCELLED; a second cancel with force cuts the grace of processes |

Three cycles in a row that end without a finished repeat end the job as FAILED.
)";

}  // namespace

std::string LifecycleMarkdown() {
  std::string text = kHead;
  for (const Row& row : JobTable()) {
    absl::StrAppend(&text, "| ", StateName(row.state), " | ", EventName(row.event), " | ",
                    row.when ? PendingName(*row.when) : "any", " | ", StateName(row.next), " | ",
                    ActionName(row.action), " | ", row.set ? PendingName(*row.set) : "as before", " |\n");
  }
  absl::StrAppend(&text, kDeadlines);
  for (int i = v1::JobState_MIN + 1; i <= v1::JobState_MAX; ++i) {
    const auto state = static_cast<v1::JobState>(i);
    const auto deadline = DeadlineOf(state);
    if (!deadline) continue;
    absl::StrAppend(&text, "| ", StateName(state), " | ", std::string(deadline->after), " | ",
                    deadline->event ? EventName(*deadline->event) : "looked at again", " |\n");
  }
  absl::StrAppend(&text, kTail);
  return text;
}

}  // namespace poolmark::controller

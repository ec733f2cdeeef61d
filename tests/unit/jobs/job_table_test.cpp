// The table of a job's life, over the whole product of states, events and pending outcomes.
#include "controller/jobs/job_table.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "common/base/files.h"
#include "tests/support/shared_data.h"

namespace poolmark::controller {
namespace {

std::vector<v1::JobState> States() {
  std::vector<v1::JobState> states;
  for (int i = v1::JobState_MIN + 1; i <= v1::JobState_MAX; ++i)
    states.push_back(static_cast<v1::JobState>(i));
  return states;
}

template <class Check>
void ForAll(Check check) {
  for (v1::JobState state : States()) {
    for (int event = 0; event < kJobEventKinds; ++event) {
      for (int pending = 0; pending < kPendings; ++pending) {
        check(state, static_cast<JobEventKind>(event), static_cast<Pending>(pending));
      }
    }
  }
}

TEST_CASE("a terminal state is never left") {
  ForAll([](v1::JobState state, JobEventKind event, Pending pending) {
    if (IsTerminal(state)) CHECK_FALSE(Next(state, event, pending));
  });
}

TEST_CASE("once machines are locked, every way out is the tear-down, and its cause is stored before it") {
  ForAll([](v1::JobState state, JobEventKind event, Pending pending) {
    auto next = Next(state, event, pending);
    if (!next || !HoldsMachines(state)) return;
    INFO(StateName(state) << " + " << EventName(event) << " -> " << StateName(next->next));
    if (IsTerminal(next->next)) CHECK(state == v1::JOB_STATE_TEARING_DOWN);
    if (next->next == v1::JOB_STATE_TEARING_DOWN && state != v1::JOB_STATE_TEARING_DOWN) {
      CHECK(next->pending != Pending::kNone);
      CHECK(next->action == Action::kTearDown);
    }
    if (!IsTerminal(next->next)) CHECK(HoldsMachines(next->next));
  });
}

TEST_CASE("a job without machines never enters a cycle but by the lock") {
  ForAll([](v1::JobState state, JobEventKind event, Pending pending) {
    auto next = Next(state, event, pending);
    if (!next || HoldsMachines(state)) return;
    if (HoldsMachines(next->next)) CHECK(event == JobEventKind::kLocked);
  });
}

TEST_CASE("cancel, a restart and the end of a tear-down mean something in every state that has them") {
  for (v1::JobState state : States()) {
    if (IsTerminal(state)) continue;
    INFO(StateName(state));
    CHECK(Next(state, JobEventKind::kRestarted, Pending::kNextCycle));
    CHECK(Next(state, JobEventKind::kRestartedToEnd, Pending::kNextCycle));
    CHECK(Next(state, JobEventKind::kCancel, Pending::kNextCycle));
    CHECK(ActionOf(state) != Action::kNone);
  }
  for (int p = 1; p < kPendings; ++p) {
    CHECK(Next(v1::JOB_STATE_TEARING_DOWN, JobEventKind::kTornDown, static_cast<Pending>(p)));
    CHECK(Next(v1::JOB_STATE_TEARING_DOWN, JobEventKind::kLeftovers, static_cast<Pending>(p)));
  }
}

TEST_CASE("an outcome that is decided is not changed by what comes later") {
  for (Pending decided : {Pending::kSucceeded, Pending::kInvalid, Pending::kFailed, Pending::kCancelled}) {
    for (int event = 0; event < kJobEventKinds; ++event) {
      auto next = Next(v1::JOB_STATE_TEARING_DOWN, static_cast<JobEventKind>(event), decided);
      if (next) CHECK(next->pending == decided);
    }
  }
}

TEST_CASE("no next cycle starts on leftovers") {
  auto next = Next(v1::JOB_STATE_TEARING_DOWN, JobEventKind::kLeftovers, Pending::kNextCycle);
  REQUIRE(next);
  CHECK(next->next == v1::JOB_STATE_FAILED);
}

TEST_CASE("the entered state and the action agree") {
  ForAll([](v1::JobState state, JobEventKind event, Pending pending) {
    auto next = Next(state, event, pending);
    if (!next || next->action == Action::kNone) return;
    CHECK(next->action == (IsTerminal(next->next) ? Action::kFinish : ActionOf(next->next)));
  });
}

using Place = std::pair<v1::JobState, Pending>;

// Where a job can come by any events, from its submission on.
std::set<Place> Reachable() {
  std::set<Place> reached;
  std::vector<Place> open = {{v1::JOB_STATE_SUBMITTED, Pending::kNone}};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    if (!reached.insert(place).second) continue;
    for (int event = 0; event < kJobEventKinds; ++event) {
      const auto next = Next(place.first, static_cast<JobEventKind>(event), place.second);
      if (next) open.emplace_back(next->next, next->pending);
    }
  }
  return reached;
}

TEST_CASE("every state is reached and every row is used") {
  std::set<v1::JobState> states;
  std::set<const Row*> used;
  for (const auto& [state, pending] : Reachable()) {
    states.insert(state);
    for (int event = 0; event < kJobEventKinds; ++event) {
      const Row* best = nullptr;  // as Next chooses
      for (const Row& row : JobTable()) {
        if (row.state != state || row.event != static_cast<JobEventKind>(event)) continue;
        if (row.when && *row.when != pending) continue;
        if (best == nullptr || row.when) best = &row;
      }
      if (best != nullptr) used.insert(best);
    }
  }
  CHECK(states.size() == States().size());
  for (const Row& row : JobTable()) {
    INFO(StateName(row.state) << " + " << EventName(row.event));
    CHECK(used.contains(&row));
  }
}

TEST_CASE("a job that has not ended always has a next deadline, and deadlines alone bring it to an end") {
  for (const auto& [from, pending] : Reachable()) {
    INFO(StateName(from) << ", pending " << PendingName(pending));
    CHECK(DeadlineOf(from).has_value() == !IsTerminal(from));
    Place at{from, pending};
    // A tear-down that nobody proves ends the job, also when another cycle was to follow: at most one launch
    // is between.
    int steps = 0;
    while (!IsTerminal(at.first)) {
      REQUIRE(++steps < 6);
      const auto deadline = DeadlineOf(at.first);
      REQUIRE(deadline);
      // What waits for machines ends when somebody ends it; all else by itself.
      const auto event = deadline->event.value_or(JobEventKind::kCancel);
      CHECK(deadline->event.has_value() == (at.first != v1::JOB_STATE_QUEUED));
      const auto next = Next(at.first, event, at.second);
      REQUIRE(next);
      at = {next->next, next->pending};
    }
  }
}

TEST_CASE("docs/lifecycle.md says what the table says") {
  const std::string path = test::Source("docs/lifecycle.md");
  if (std::getenv("POOLMARK_UPDATE_DOCS") != nullptr)
    REQUIRE(AtomicWriteFile(path, LifecycleMarkdown()).ok());
  auto text = ReadFile(path);
  REQUIRE(text.ok());
  // On a difference: POOLMARK_UPDATE_DOCS=1 build/dev/bin/unit_jobs
  CHECK(*text == LifecycleMarkdown());
}

}  // namespace
}  // namespace poolmark::controller

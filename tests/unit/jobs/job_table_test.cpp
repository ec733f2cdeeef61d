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

TEST_CASE("every state is reached and every row is used") {
  std::set<v1::JobState> reached = {v1::JOB_STATE_SUBMITTED};
  for (size_t i = 0; i < JobTable().size(); ++i) {
    for (const Row& row : JobTable()) {
      if (reached.contains(row.state)) reached.insert(row.next);
    }
  }
  CHECK(reached.size() == States().size());
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

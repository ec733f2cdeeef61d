// Jobs that wait for machines.
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

using controller::StateName;

TEST_CASE("jobs that wait for machines that others hold are planned once, however long they wait") {
  ControllerFixture f;
  f.pool.hold_load = true;
  const std::string first = f.Submit(f.Request());
  ControllerFixture::Until([&] { return f.Job(first).machines_size() == 2; });
  const uint64_t before = f.jobs->queue_plans();
  std::vector<std::string> waiting;
  for (uint64_t i = 1; i <= 5; ++i) {
    waiting.push_back(f.Submit(f.Request()));
    // Each new one makes the dispatcher look at all of them.
    ControllerFixture::Until(
        [&] { return f.Job(waiting.back()).waiting_for() == "machine n0 is held by job " + first; });
    CHECK(f.jobs->queue_plans() == before + i);
  }
  f.pool.hold_load = false;
  for (const std::string& id : waiting) CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
}

TEST_CASE("a job that waits is cancelled at once, with complete files") {
  ControllerFixture f;
  f.pool.hold_load = true;
  const std::string first = f.Submit(f.Request());
  const std::string second = f.Submit(f.Request());
  ControllerFixture::Until(
      [&] { return f.Job(second).waiting_for() == "machine n0 is held by job " + first; });
  CHECK(f.jobs->Cancel(second, false, "ada")->state() == v1::JOB_STATE_CANCELLED);
  CHECK(f.Finished(second).teardown() == v1::TEARDOWN_VERDICT_NONE);
  REQUIRE(f.jobs->Cancel(first, false, "ada").ok());
  CHECK(StateName(f.Finished(first).state()) == "CANCELLED");
}

TEST_CASE("jobs of any one machine take free ones, and one that waits is not planned for those of others") {
  ControllerFixture f({"n0", "n1"});
  f.pool.hold_load = true;
  v1::SubmitJobRequest request = f.Request();
  f.AskForMachines(1, &request);
  const std::string first = f.Submit(request);
  ControllerFixture::Until([&] { return f.Job(first).machines_size() == 1; });
  const std::string second = f.Submit(request);
  ControllerFixture::Until([&] { return f.Job(second).machines_size() == 1; });
  CHECK(f.Job(first).machines(0) == "n0");
  CHECK(f.Job(second).machines(0) == "n1");
  f.pool.hold_load = false;
  CHECK(StateName(f.Finished(first).state()) == "SUCCEEDED");
  CHECK(StateName(f.Finished(second).state()) == "SUCCEEDED");
}

}  // namespace
}  // namespace poolmark::test

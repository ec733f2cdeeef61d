// What an agent sends has an end: one that was taken over by somebody else harms its own job and nobody
// else's.
#include "common/results/directory.h"
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
using controller::StateName;

TEST_CASE("an agent whose checks never end fails its job, by name, and leaves no pile of events") {
  ControllerFixture f;
  f.pool.floods["RunChecks"] = "n1";
  const std::string id = f.Submit(f.Request());
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "FAILED");
  CHECK(HasReason(job, "agent_sends_too_much", "n1"));
  const auto events = f.store->Events(id, 0, 10000);
  REQUIRE(events.ok());
  CHECK(events->size() < 600);
}

TEST_CASE("clean without a single item is no proof of the end of a run that was started there") {
  ControllerFixture f;
  f.pool.floods["Teardown nothing"] = "n1";
  const bool restarts = GENERATE(false, true);
  CAPTURE(restarts);
  f.pool.hold_load = restarts;
  const std::string id = f.Submit(f.Request());
  if (restarts) {
    ControllerFixture::Until([&] { return f.Job(id).state() == v1::JOB_STATE_BENCHMARKING; });
    f.Restart();  // it still knows what was answered before
    f.pool.hold_load = false;
  }
  const v1::Job job = f.Finished(id);
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_UNKNOWN);
  CHECK(HasReason(job, "teardown_unknown", "n1"));
  CHECK(f.registry->Get("n1")->state() == v1::MACHINE_STATE_QUARANTINED);
  CHECK(f.registry->Get("n1")->reason().find("know nothing of a run that was started there") !=
        std::string::npos);
  CHECK(f.registry->Get("n0")->state() == v1::MACHINE_STATE_READY);
}

TEST_CASE("a tear-down that lists without end is none: unknown, and its machine is kept out") {
  ControllerFixture f;
  f.pool.floods["Teardown"] = "n1";
  const std::string id = f.Submit(f.Request());
  const v1::Job job = f.Finished(id);
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_UNKNOWN);
  CHECK(HasReason(job, "teardown_unknown", "n1"));
  for (const v1::Reason& reason : job.reasons()) CHECK(reason.message().size() < 1000);
  const auto machine = f.registry->Get("n1");
  REQUIRE(machine.ok());
  CHECK(machine->state() == v1::MACHINE_STATE_QUARANTINED);
  CHECK(f.registry->Get("n0")->state() == v1::MACHINE_STATE_READY);
}

TEST_CASE("a file that grows beyond what was announced, or beyond any disk, is not taken") {
  const auto [flood, word] = GENERATE(std::pair<std::string, std::string>("FetchFile", "sends more"),
                                      std::pair<std::string, std::string>("FetchFile huge", "at most 16GiB"));
  ControllerFixture f;
  f.pool.floods[flood] = "n0";  // the head, where the load runs
  const std::string id = f.Submit(f.Request());
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "INVALID");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  const auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  REQUIRE(read->repeats.size() == 1);
  std::string notes;
  for (const std::string& note : read->repeats[0].figures.notes) notes += note + "\n";
  INFO(notes);
  CHECK(notes.find(word) != std::string::npos);
  const auto files = ListTree(f.Results(id));
  REQUIRE(files.ok());
  for (const std::string& file : *files) {
    INFO(file);
    CHECK_FALSE(file.ends_with("requests.jsonl.zst"));
    CHECK_FALSE(file.ends_with(".tmp"));
  }
}

}  // namespace poolmark::test

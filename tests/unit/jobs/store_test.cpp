// The durable store: transitions, locks, epochs, repeated requests, corrupt files.
#include "controller/jobs/store.h"

#include <catch2/catch.hpp>
#include <set>

#include "common/base/files.h"
#include "controller/jobs/sqlite.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_dir.h"

namespace poolmark::controller {
namespace {

struct Fixture {
  test::TempDir dir;
  test::FakeClock clock;
  std::unique_ptr<Store> store;
  Fixture() { Open(); }
  void Open() {
    store.reset();
    auto opened = Store::Open(dir / "state", &clock);
    INFO(opened.status());
    REQUIRE(opened.ok());
    store = std::move(*opened);
  }
  void Machine(const std::string& name) {
    v1::RegisterRequest registration;
    registration.set_machine(name);
    registration.set_address("127.0.0.1:1");
    REQUIRE(store->SaveRegistration(registration).ok());
  }
  std::string Submit(const std::string& name, const std::string& request_id = "") {
    v1::SubmitJobRequest request;
    request.set_name(name);
    request.set_request_id(request_id);
    auto job = store->Insert(request, "ada", "digest", {"a note"}, 5);
    INFO(job.status());
    REQUIRE(job.ok());
    return job->id();
  }
  void Go(const std::string& id, JobEventKind event, Change change = {}) {
    auto applied = store->Apply(id, event, change);
    INFO(applied.status());
    REQUIRE(applied.ok());
    REQUIRE(applied->has_value());
  }
};

TEST_CASE("a request that comes again while the first one is planned is the same job") {
  Fixture f;
  v1::SubmitJobRequest request;
  request.set_request_id("r1");
  auto first = f.store->Insert(request, "ada", "digest", {}, 0);
  REQUIRE(first.ok());
  auto again = f.store->Insert(request, "ada", "digest", {}, 0);
  INFO(again.status());
  REQUIRE(again.ok());
  CHECK(again->id() == first->id());
  CHECK(absl::IsAlreadyExists(f.store->Insert(request, "ada", "other", {}, 0).status()));
  CHECK(f.store->Unfinished()->size() == 1);
}

TEST_CASE("jobs of one second all get an id of their own") {
  Fixture f;
  std::set<std::string> ids;
  // 16 bits tell them apart: of a thousand, two would be the same but for one time in two thousand.
  for (int i = 0; i < 1000; ++i) {
    auto job = f.store->Insert({}, "ada", "digest", {}, 0);
    INFO(job.status());
    REQUIRE(job.ok());
    ids.insert(job->id());
  }
  CHECK(ids.size() == 1000);
}

TEST_CASE("a transition and its event survive a re-open, and events number on without a gap") {
  Fixture f;
  f.Machine("n0");
  const std::string id = f.Submit("one");
  f.Go(id, JobEventKind::kPlanAccepted);
  std::string blocked;
  auto locked = f.store->Lock(id, {"n0"}, &blocked);
  REQUIRE(locked.ok());
  REQUIRE(locked->has_value());
  f.Open();
  auto job = f.store->Get(id);
  REQUIRE(job.ok());
  CHECK(job->job.state() == v1::JOB_STATE_PREFLIGHT);
  CHECK(job->request.name() == "one");
  v1::Reason reason;
  reason.set_code("preflight");
  f.Go(id, JobEventKind::kFailed, Change{.reasons = {reason}});
  f.Open();
  job = f.store->Get(id);
  CHECK(job->pending == Pending::kFailed);
  CHECK(job->job.reasons(0).code() == "preflight");
  auto events = f.store->Events(id, 0, 100);
  REQUIRE(events.ok());
  REQUIRE(events->size() == 4);
  for (size_t i = 0; i < events->size(); ++i) CHECK((*events)[i].sequence() == i + 1);
  CHECK(f.store->Events(id, 3, 100)->size() == 1);
  CHECK(f.store->Events(id, UINT64_MAX, 100)->empty());
}

TEST_CASE("machines are locked all or none, and epochs grow with every grant") {
  Fixture f;
  for (const char* name : {"a", "b", "c"}) f.Machine(name);
  const std::string first = f.Submit("first");
  const std::string second = f.Submit("second");
  f.Go(first, JobEventKind::kPlanAccepted);
  f.Go(second, JobEventKind::kPlanAccepted);
  std::string blocked;
  REQUIRE(f.store->Lock(first, {"c", "b"}, &blocked)->has_value());
  auto refused = f.store->Lock(second, {"a", "b"}, &blocked);
  REQUIRE(refused.ok());
  CHECK_FALSE(refused->has_value());
  CHECK(blocked == "machine b is held by job " + first);
  CHECK(f.store->Machines()->at(0).job_id.empty());  // a was not taken
  CHECK(f.store->Machines()->at(0).epoch == 0);
  f.Go(first, JobEventKind::kCancel);
  f.Go(first, JobEventKind::kTornDown);
  CHECK(f.store->Get(first)->job.state() == v1::JOB_STATE_CANCELLED);
  REQUIRE(f.store->Lock(second, {"a", "b"}, &blocked)->has_value());
  CHECK(f.store->Machines()->at(1).epoch == 2);
  CHECK(f.store->Machines()->at(1).job_id == second);
}

TEST_CASE("a restart grants held machines anew, and only those; so does a lease that ended under its job") {
  Fixture f;
  for (const char* name : {"a", "b"}) f.Machine(name);
  const std::string job = f.Submit("job");
  f.Go(job, JobEventKind::kPlanAccepted);
  std::string blocked;
  REQUIRE(f.store->Lock(job, {"a"}, &blocked)->has_value());
  CHECK(f.store->Machines()->at(0).epoch == 1);
  f.Open();
  const uint64_t epoch = f.store->Machines()->at(0).epoch;
  CHECK(epoch > 1);
  CHECK(f.store->Machines()->at(1).epoch == 0);
  REQUIRE(f.store->GrantAnew(job, "a").ok());
  CHECK(f.store->Machines()->at(0).epoch == epoch + 1);
  CHECK_FALSE(f.store->GrantAnew(job, "b").ok());
  CHECK_FALSE(f.store->GrantAnew("other", "a").ok());
  // What an agent has seen counts for machines that nobody holds.
  REQUIRE(f.store->RaiseEpoch("a", 1'000'000).ok());
  CHECK(f.store->Machines()->at(0).epoch == epoch + 1);
  REQUIRE(f.store->RaiseEpoch("b", 40).ok());
  REQUIRE(f.store->RaiseEpoch("b", 7).ok());
  CHECK(f.store->Machines()->at(1).epoch == 40);
}

TEST_CASE("drained, quarantined and unknown machines are not locked") {
  Fixture f;
  f.Machine("a");
  const std::string id = f.Submit("x");
  f.Go(id, JobEventKind::kPlanAccepted);
  std::string blocked;
  CHECK_FALSE(f.store->Lock(id, {"zz"}, &blocked)->has_value());
  CHECK(blocked == "machine zz is not registered");
  REQUIRE(f.store->SetMachine("a", v1::MACHINE_STATE_DRAINED, "maintenance").ok());
  CHECK_FALSE(f.store->Lock(id, {"a"}, &blocked)->has_value());
  CHECK(blocked == "machine a is DRAINED: maintenance");
  CHECK(f.store->SetMachine("zz", v1::MACHINE_STATE_DRAINED, "").code() == absl::StatusCode::kNotFound);
  REQUIRE(f.store->Quarantine("a", "job-7", "tear-down of job job-7 not proven").ok());
  CHECK_FALSE(f.store->Lock(id, {"a"}, &blocked)->has_value());
  CHECK(blocked == "machine a is QUARANTINED: maintenance; tear-down of job job-7 not proven");
  REQUIRE(f.store->SetMachine("a", v1::MACHINE_STATE_READY, "").ok());
  CHECK_FALSE(f.store->Lock(id, {"a"}, &blocked)->has_value());
  CHECK(blocked == "machine a is QUARANTINED: tear-down of job job-7 not proven");
  CHECK_FALSE(*f.store->Proven("a", "job-8"));
  CHECK(*f.store->Proven("a", "job-7"));
  CHECK(f.store->Lock(id, {"a"}, &blocked)->has_value());
}

TEST_CASE("an event without a row writes nothing") {
  Fixture f;
  const std::string id = f.Submit("x");
  auto applied = f.store->Apply(id, JobEventKind::kTornDown);
  REQUIRE(applied.ok());
  CHECK_FALSE(applied->has_value());
  CHECK(f.store->Events(id, 0, 10)->size() == 1);
}

TEST_CASE("a repeated request gets the stored answer, another body under its id is refused") {
  Fixture f;
  const std::string id = f.Submit("x", "request-1");
  auto answer = f.store->FindAnswer("request-1", "digest");
  REQUIRE(answer.ok());
  v1::SubmitJobResponse response;
  REQUIRE(response.ParseFromString(answer->value()));
  CHECK(response.job_id() == id);
  CHECK(response.notes(0) == "a note");
  CHECK(f.store->FindAnswer("request-1", "other").status().code() == absl::StatusCode::kAlreadyExists);
  CHECK_FALSE(f.store->FindAnswer("request-2", "digest")->has_value());
}

TEST_CASE("answers are forgotten when no retry can ask for them, those of jobs with their job") {
  Fixture f;
  const std::string job = f.Submit("x", "submit-1");
  REQUIRE(f.store->StoreAnswer("cancel-1", "digest", "answer").ok());
  CHECK(*f.store->ForgetAnswers() == 0);
  f.clock.Advance(kAnswersKept + std::chrono::seconds(1));
  REQUIRE(f.store->StoreAnswer("cancel-2", "digest", "answer").ok());
  CHECK(*f.store->ForgetAnswers() == 1);
  CHECK_FALSE(f.store->FindAnswer("cancel-1", "digest")->has_value());
  CHECK(f.store->FindAnswer("cancel-2", "digest")->has_value());
  CHECK(f.Submit("x", "submit-1") == job);  // however late
  f.Go(job, JobEventKind::kCancel);
  REQUIRE(f.store->Delete(job).ok());
  // A call that is late makes no second job, and is not told of one that is gone.
  v1::SubmitJobRequest late;
  late.set_request_id("submit-1");
  for (const Status& status : {f.store->FindAnswer("submit-1", "digest").status(),
                               f.store->Insert(late, "ada", "digest", {}, 0).status()}) {
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(std::string(status.message()).find(job) != std::string::npos);
  }
  CHECK(*f.store->ForgetAnswers() == 0);
  f.clock.Advance(kAnswersKept + std::chrono::seconds(1));
  CHECK(*f.store->ForgetAnswers() == 2);
  CHECK_FALSE(f.store->FindAnswer("submit-1", "digest")->has_value());
}

TEST_CASE("a deletion is owed until its files are gone, over restarts") {
  Fixture f;
  const std::string job = f.Submit("x");
  f.Go(job, JobEventKind::kCancel);
  REQUIRE(f.store->Delete(job).ok());
  f.Open();
  CHECK(*f.store->Deletions() == std::vector<std::string>{job});
  REQUIRE(f.store->Deleted(job).ok());
  f.Open();
  CHECK(f.store->Deletions()->empty());
}

TEST_CASE("a store of the first schema goes on") {
  Fixture f;
  const std::string job = f.Submit("x", "submit-1");
  f.store.reset();
  {
    auto db = Database::Open(f.dir / "state/poolmark.db");
    REQUIRE(db.ok());
    for (const char* back :
         {"DROP TABLE unproven", "ALTER TABLE machines DROP COLUMN taken", "DROP TABLE deletions",
          "DROP INDEX requests_by_job", "ALTER TABLE requests DROP COLUMN job_id", "PRAGMA user_version=1"}) {
      INFO(back);
      const Status done = (*db)->Execute(back);
      INFO(done);
      REQUIRE(done.ok());
    }
  }
  f.Open();
  CHECK(f.store->Get(job).ok());
  CHECK(f.Submit("x", "submit-1") == job);
  CHECK(f.store->Deletions()->empty());
}

TEST_CASE("a store of the second schema goes on: what a job left unproven is told from what somebody said") {
  Fixture f;
  for (const char* name : {"a", "b", "c"}) f.Machine(name);
  f.store.reset();
  {
    auto db = Database::Open(f.dir / "state/poolmark.db");
    REQUIRE(db.ok());
    for (const char* back :
         {"DROP TABLE unproven", "ALTER TABLE machines DROP COLUMN taken",
          "UPDATE machines SET state='QUARANTINED', reason='tear-down of job job-7 not proven: not reached' "
          "WHERE name='a'",
          "UPDATE machines SET state='QUARANTINED', reason='ECC errors seen with job-7' WHERE name='b'",
          "PRAGMA user_version=2"}) {
      INFO(back);
      REQUIRE((*db)->Execute(back).ok());
    }
  }
  f.Open();
  auto machines = f.store->Machines();
  REQUIRE(machines.ok());
  CHECK(machines->at(0).state == v1::MACHINE_STATE_QUARANTINED);
  CHECK(machines->at(0).given == v1::MACHINE_STATE_READY);
  CHECK(machines->at(0).reason == "tear-down of job job-7 not proven: not reached");
  CHECK(*f.store->Proven("a", "job-7"));
  CHECK_FALSE(*f.store->Proven("b", "job-7"));
  machines = f.store->Machines();
  CHECK(machines->at(0).state == v1::MACHINE_STATE_READY);
  CHECK(machines->at(0).reason == "");
  CHECK(machines->at(1).state == v1::MACHINE_STATE_QUARANTINED);
  CHECK(machines->at(1).reason == "ECC errors seen with job-7");
  CHECK(machines->at(2).state == v1::MACHINE_STATE_READY);
}

TEST_CASE("one controller at a time holds a state directory") {
  Fixture f;
  auto second = Store::Open(f.dir / "state", &f.clock);
  REQUIRE_FALSE(second.ok());
  CHECK(ErrorOf(second.status()).code == "locked");
}

TEST_CASE("the controller epoch grows with every start") {
  Fixture f;
  CHECK(f.store->controller_epoch() == 1);
  const std::string cluster = f.store->cluster_id();
  f.Open();
  CHECK(f.store->controller_epoch() == 2);
  CHECK(f.store->cluster_id() == cluster);
}

TEST_CASE("a corrupt store is kept beside, and the controller starts in recovery") {
  auto content = GENERATE(std::string(), std::string("not a database, for sure. not a database, for sure."),
                          std::string(8192, '\0'), std::string("SQLite format 3\0garbage", 23));
  Fixture f;
  f.Submit("lost");
  const uint64_t epoch = f.store->controller_epoch();
  f.store.reset();
  REQUIRE(AtomicWriteFile(f.dir / "state/poolmark.db", content).ok());
  (void)RemoveTree(f.dir / "state/poolmark.db-wal");
  f.Open();
  if (content.empty()) {
    CHECK_FALSE(f.store->recovered());  // an empty file is a new one for SQLite
    return;
  }
  REQUIRE(f.store->recovered());
  CHECK(*ReadFile(*f.store->recovered()) == content);
  CHECK(f.store->controller_epoch() > epoch);
  CHECK(f.store->List({}, 0, 10)->jobs.empty());
}

TEST_CASE("a store of a later program is refused, not touched") {
  Fixture f;
  f.store.reset();
  {
    auto db = Database::Open(f.dir / "state/poolmark.db");
    REQUIRE(db.ok());
    REQUIRE((*db)->Execute("PRAGMA user_version=99").ok());
  }
  auto opened = Store::Open(f.dir / "state", &f.clock);
  REQUIRE_FALSE(opened.ok());
  CHECK(std::string(opened.status().message()).find("schema 99") != std::string::npos);
}

TEST_CASE("jobs are found by a unique prefix and listed newest first, in pages") {
  Fixture f;
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    f.clock.Advance(std::chrono::seconds(1));
    ids.push_back(f.Submit("job" + std::to_string(i)));
  }
  CHECK(f.store->Get(ids[2])->job.name() == "job2");
  CHECK(f.store->Get(ids[2].substr(0, ids[2].size() - 1))->job.name() == "job2");
  CHECK(f.store->Get("2").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(f.store->Get("").status().code() == absl::StatusCode::kNotFound);
  CHECK(f.store->Get("nope").status().code() == absl::StatusCode::kNotFound);
  auto page = f.store->List({}, 0, 2);
  REQUIRE(page->jobs.size() == 2);
  CHECK(page->jobs[0].name() == "job4");
  page = f.store->List({}, page->next, 2);
  CHECK(page->jobs[0].name() == "job2");
  page = f.store->List({}, page->next, 2);
  CHECK(page->jobs.size() == 1);
  CHECK(page->next == 0);
  f.Go(ids[0], JobEventKind::kCancel);
  CHECK(f.store->List({v1::JOB_STATE_CANCELLED}, 0, 10)->jobs.size() == 1);
  CHECK(f.store->Unfinished()->size() == 4);
}

TEST_CASE("a page of jobs ends at its bytes, and holds one at least") {
  Fixture f;
  for (int i = 0; i < 5; ++i) f.Submit(std::string(1000, 'n'));
  const auto walk = [&](size_t bytes) {
    std::vector<size_t> pages;
    uint64_t before = 0;
    do {
      auto page = f.store->List({}, before, 100, bytes);
      REQUIRE(page.ok());
      pages.push_back(page->jobs.size());
      before = page->next;
    } while (before != 0);
    return pages;
  };
  CHECK(walk(2500) == std::vector<size_t>{2, 2, 1});
  CHECK(walk(1) == std::vector<size_t>{1, 1, 1, 1, 1});
  CHECK(walk(1u << 20) == std::vector<size_t>{5});
}

TEST_CASE("what agents say is cut before it is kept: one event, one reason, all reasons of a job") {
  Fixture f;
  const std::string id = f.Submit("x");
  v1::JobEvent event;
  event.set_kind("check");
  event.set_message(std::string(1u << 20, 'm'));
  event.mutable_check()->set_observed(std::string(1u << 20, 'o'));
  REQUIRE(f.store->AppendEvent(id, event).ok());
  const auto events = f.store->Events(id, 0, 10);
  REQUIRE(events.ok());
  CHECK(events->back().ByteSizeLong() < 100'000);
  CHECK(events->back().message().find("bytes more") != std::string::npos);
  Change change;
  for (int i = 0; i < 150; ++i) change.reasons.push_back({});
  for (v1::Reason& reason : change.reasons) reason.set_message(std::string(1u << 16, 'r'));
  change.reasons.front().set_code("the first");
  change.reasons.back().set_code("the last");
  REQUIRE(f.store->Update(id, change).ok());
  const v1::Job job = f.store->Get(id)->job;
  CHECK(job.reasons_size() == 100);
  CHECK(job.reasons(0).code() == "the first");
  CHECK(job.reasons(99).code() == "the last");
  CHECK(job.ByteSizeLong() < 2u << 20);
}

TEST_CASE("only a finished job is deleted, with its events") {
  Fixture f;
  const std::string id = f.Submit("x");
  CHECK(f.store->Delete(id).code() == absl::StatusCode::kFailedPrecondition);
  f.Go(id, JobEventKind::kCancel);
  REQUIRE(f.store->Delete(id).ok());
  CHECK_FALSE(f.store->Get(id).ok());
  CHECK(f.store->Events(id, 0, 10)->empty());
}

TEST_CASE("a finished repeat is stored in the transaction of its transition") {
  Fixture f;
  f.Machine("a");
  const std::string id = f.Submit("x");
  f.Go(id, JobEventKind::kPlanAccepted);
  std::string blocked;
  REQUIRE(f.store->Lock(id, {"a"}, &blocked)->has_value());
  REQUIRE(f.store->BeginCycle(id).value() == 1);
  CHECK(f.store->Get(id)->idle_cycles == 1);
  for (int i = 0; i < 4; ++i) f.Go(id, JobEventKind::kPassed);
  f.Go(id, JobEventKind::kMoreInCycle, Change{.repeat = StoredRepeat{{"base", "chat", "c4", 1}, true, 1}});
  auto repeats = f.store->Repeats(id);
  REQUIRE(repeats->size() == 1);
  CHECK(repeats->at(0).valid);
  CHECK(f.store->Get(id)->idle_cycles == 0);
}

TEST_CASE("a listener hears what was committed, after the commit") {
  Fixture f;
  std::vector<std::string> heard;
  f.store->SetListener([&](const std::string& id, const v1::JobEvent& event) {
    CHECK(f.store->Get(id)->job.last_sequence() == event.sequence());
    heard.push_back(event.message());
  });
  const std::string id = f.Submit("x");
  f.Go(id, JobEventKind::kCancel);
  CHECK(heard == std::vector<std::string>{"submitted", "cancel"});
}

}  // namespace
}  // namespace poolmark::controller

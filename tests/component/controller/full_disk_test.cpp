// A full disk under the controller's store: the ends of jobs are stored all the same, from room that the
// store set aside, and a start finds them.
#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "controller/jobs/store.h"
#include "controller/steps/room.h"
#include "tests/support/fake_clock.h"
#include "tests/support/small_disk.h"
#include "tests/support/temp_dir.h"

namespace poolmark::test {
namespace {

using controller::JobEventKind;

std::unique_ptr<controller::Store> OpenStore(const std::string& directory, const Clock* clock) {
  auto opened = controller::Store::Open(directory, clock);
  INFO(opened.status());
  REQUIRE(opened.ok());
  return std::move(*opened);
}

}  // namespace

TEST_CASE("on a full disk jobs still end with reason and verdict, and a start finds them", "[live]") {
  TempDir dir;
  SmallDisk disk(dir / "disk", "32m");
  if (!disk.mounted()) {
    WARN("skipped: no right to mount a file system here");
    return;
  }
  FakeClock clock;
  const std::string state = dir / "disk/state";
  auto store = OpenStore(state, &clock);
  std::vector<std::string> jobs;
  for (int i = 0; i < 20; ++i) {
    const std::string machine = "n" + std::to_string(i);
    v1::RegisterRequest registration;
    registration.set_machine(machine);
    registration.set_address("127.0.0.1:1");
    REQUIRE(store->SaveRegistration(registration).ok());
    auto job = store->Insert({}, "ada", "digest", {}, 5);
    REQUIRE(job.ok());
    jobs.push_back(job->id());
    REQUIRE(store->Apply(job->id(), JobEventKind::kPlanAccepted, {}).ok());
    std::string blocked;
    auto locked = store->Lock(job->id(), {machine}, &blocked);
    REQUIRE(locked.ok());
    REQUIRE(locked->has_value());
  }
  CHECK(controller::RoomForJob(state).code() == absl::StatusCode::kResourceExhausted);  // 32 MiB in all
  disk.Fill();
  REQUIRE_FALSE(AtomicWriteFile(state + "/other", std::string(8192, 'x'), 0600).ok());
  const auto end = [&](const std::string& id, size_t from, size_t events) {
    for (size_t n = from; n < from + events; ++n) {
      v1::JobEvent event;
      event.set_kind("check");
      event.set_message("event " + std::to_string(n) + std::string(400, 'x'));
      auto stored = store->AppendEvent(id, std::move(event));
      INFO(id << " " << n << " " << stored.status());
      REQUIRE(stored.ok());
    }
    controller::Change failed;
    failed.reasons.emplace_back().set_code("disk");
    failed.reasons.back().set_message("No space left on device");
    REQUIRE(store->Apply(id, JobEventKind::kFailed, failed).ok());
    controller::Change torn_down;
    torn_down.verdict = v1::TEARDOWN_VERDICT_CLEAN;
    auto ended = store->Apply(id, JobEventKind::kTornDown, torn_down);
    INFO(ended.status());
    REQUIRE(ended.ok());
    REQUIRE(ended->has_value());
  };
  for (size_t i = 0; i < 10; ++i) end(jobs[i], 0, 50);
  // A new start on the same full disk, after a close and, as after a kill, without one.
  store.reset();
  store = OpenStore(state, &clock);
  for (size_t i = 10; i < jobs.size(); ++i) end(jobs[i], 0, 50);
  store.reset();
  disk.Free();
  store = OpenStore(state, &clock);
  CHECK_FALSE(store->recovered());
  for (const std::string& id : jobs) {
    auto job = store->Get(id);
    REQUIRE(job.ok());
    CHECK(job->job.state() == v1::JOB_STATE_FAILED);
    CHECK(job->job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
    REQUIRE(job->job.reasons_size() == 1);
    CHECK(job->job.reasons(0).code() == "disk");
    CHECK(store->Events(id, 0, 1000)->size() == 50 + 5);
  }
}

TEST_CASE("a store without room for its reserve says so and works", "[live]") {
  TempDir dir;
  SmallDisk disk(dir / "disk", "32m");
  if (!disk.mounted()) {
    WARN("skipped: no right to mount a file system here");
    return;
  }
  disk.Fill();
  REQUIRE(truncate((dir / "disk/ballast").c_str(), (32 << 20) - (1 << 20)) == 0);
  FakeClock clock;
  auto store = OpenStore(dir / "disk/state", &clock);
  auto job = store->Insert({}, "ada", "digest", {}, 5);
  REQUIRE(job.ok());
  // Once there is room it is taken, not before a minute has gone by.
  disk.Free();
  clock.Advance(std::chrono::minutes(2));
  REQUIRE(store->Apply(job->id(), JobEventKind::kPlanAccepted, {}).ok());
  disk.Fill();
  CHECK(store->Apply(job->id(), JobEventKind::kCancel, {}).ok());
}

}  // namespace poolmark::test

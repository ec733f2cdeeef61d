// Tear-downs after which another cycle was to follow: not clean, cancelled, or of a machine whose earlier
// lease ended well.
#include "common/results/directory.h"
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

using controller::StateName;

// Each stack is a cycle of its own.
v1::SubmitJobRequest TwoCycles(ControllerFixture* f) {
  v1::SubmitJobRequest request = f->Request();
  std::string job = *ReadFile(f->inputs->FilesOf(request).at("job.yaml"), 1u << 20);
  const std::string one = "{use: sim-local, as: base}";
  job.insert(job.find(one) + one.size(), ", {use: sim-local, as: other}");
  request.mutable_inputs(0)->set_sha256(f->Upload(job));
  request.mutable_inputs(0)->set_size(job.size());
  return request;
}

// The machine's clock, whose wall time somebody else hears of being asked for.
class HeardClock final : public Clock {
 public:
  explicit HeardClock(std::function<void()> asked) : asked_(std::move(asked)) {}
  Nanoseconds Steady() const override { return RealClock().Steady(); }
  Nanoseconds Boot() const override { return RealClock().Boot(); }
  Nanoseconds Wall() const override {
    asked_();
    return RealClock().Wall();
  }

 private:
  const std::function<void()> asked_;
};

}  // namespace

TEST_CASE("the machines that are clean are free for the next job when the one before ends between cycles") {
  const bool silent = GENERATE(false, true);
  CAPTURE(silent);
  ControllerFixture f;
  if (silent) {
    f.pool.SetHook([](const std::string& machine, const std::string& call, std::stop_token) -> Status {
      return machine == "n1" && call == "Teardown" ? Unavailable("n1", "no answer") : absl::OkStatus();
    });
  } else {
    f.pool.floods["Teardown leaves"] = "n1";
  }
  const std::string id = f.Submit(TwoCycles(&f));
  // It waits for the machine, and takes it the moment that the first one ends.
  const std::string next = f.Submit(f.Request(1, "", {"n0"}));
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "FAILED");
  CHECK(job.teardown() == (silent ? v1::TEARDOWN_VERDICT_UNKNOWN : v1::TEARDOWN_VERDICT_DIRTY));
  CHECK(HasReason(job, silent ? "teardown_unknown" : "teardown_dirty", "n1"));
  CHECK(std::count_if(job.reasons().begin(), job.reasons().end(),
                      [](const v1::Reason& reason) { return reason.machine() == "n1"; }) == 1);
  CHECK(f.registry->Get("n1")->state() == v1::MACHINE_STATE_QUARANTINED);
  // Who answered is asked once more, who did not is not waited for twice.
  CHECK(f.pool.at("n1").graces().size() == (silent ? 0 : 2));
  const v1::Job after = f.Finished(next);
  CHECK(StateName(after.state()) == "SUCCEEDED");
  CHECK(after.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
}

TEST_CASE("a machine that goes away when its lease is let go after a cancel is named and kept out") {
  ControllerFixture f;
  auto gate = std::make_shared<Gate>("Teardown", "n1");
  auto calls = std::make_shared<std::atomic<int>>(0);
  f.pool.SetHook([gate, calls](const std::string& m, const std::string& c, std::stop_token s) -> Status {
    if (m == "n1" && c == "Teardown" && ++*calls > 1) return Unavailable("n1", "no route to host");
    return (*gate)(m, c, s);
  });
  const std::string id = f.Submit(TwoCycles(&f));
  gate->AwaitReached();
  REQUIRE(f.jobs->Cancel(id, false, "ada").ok());
  gate->Open();
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "CANCELLED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_UNKNOWN);
  CHECK(HasReason(job, "teardown_unknown", "n1"));
  CHECK(f.registry->Get("n1")->state() == v1::MACHINE_STATE_QUARANTINED);
  CHECK(f.registry->Get("n0")->state() == v1::MACHINE_STATE_READY);
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  REQUIRE(read->teardowns.count(1) == 1);
  const results::TeardownRecord& record = read->teardowns.at(1);
  CHECK(record.outcome == "UNKNOWN");
  CHECK(std::any_of(record.items.begin(), record.items.end(), [](const results::TeardownItem& item) {
    return item.machine == "n1" && item.kind == "machine" && item.state == "unknown";
  }));
}

TEST_CASE("a cancel between a tear-down and the next cycle lets the leases go and writes the job's files") {
  ControllerFixture f;
  Gate gate("Teardown", "n0");
  f.pool.SetHook(std::ref(gate));
  const std::string id = f.Submit(TwoCycles(&f));
  gate.AwaitReached();
  REQUIRE(f.jobs->Cancel(id, false, "ada").ok());
  gate.Open();
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "CANCELLED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  CHECK(ReadFile(JoinPath(f.environment.results_dir, id) + "/job.json").ok());
  CHECK(StateName(f.Finished(f.Submit(f.Request())).state()) == "SUCCEEDED");
}

TEST_CASE("a cancel in the last moment of a tear-down between cycles: the leases go, the files are whole") {
  std::atomic<int> torn_down{0};
  std::atomic<bool> cancelled{false};
  std::string id;
  std::function<void()> asked;
  const HeardClock clock([&] { asked(); });
  ControllerFixture f;
  // The tear-down's record is written with the wall time, after the last look at what is to follow it.
  asked = [&] {
    if (torn_down >= 2 && !cancelled.exchange(true)) (void)f.jobs->Cancel(id, false, "ada");
  };
  {
    std::lock_guard lock(f.mutex);
    f.jobs.reset();
    f.environment.clock = &clock;
    f.jobs = std::make_unique<controller::JobManager>(f.environment, controller::Retention{});
    REQUIRE(f.jobs->Start().ok());
  }
  auto gate = std::make_shared<Gate>("RunChecks");
  f.pool.SetHook([gate, &torn_down](const std::string& m, const std::string& c, std::stop_token s) {
    if (c == "Teardown") ++torn_down;
    return (*gate)(m, c, s);
  });
  id = f.Submit(TwoCycles(&f));
  gate->Open();
  const v1::Job job = f.Finished(id);
  CHECK(cancelled);
  CHECK(StateName(job.state()) == "CANCELLED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  CHECK(job.position().cycle() == 1);
  const auto read = results::ReadDirectory(f.Results(id));
  INFO(read.status());
  REQUIRE(read.ok());
  CHECK(read->job.state == "CANCELLED");
  CHECK(FileExists(f.Results(id) + "/summary.json"));
  CHECK(FileExists(f.Results(id) + "/report.html"));
  for (const char* machine : {"n0", "n1"}) CHECK(f.pool.at(machine).graces().size() == 2);
  CHECK(StateName(f.Finished(f.Submit(f.Request())).state()) == "SUCCEEDED");
}

TEST_CASE("how an earlier lease of the job ended is no proof of the end of what runs under a later one") {
  ControllerFixture f;
  f.pool.hold_load = true;
  auto gate = std::make_shared<Gate>("StreamSamples", "n1");
  auto cut_off = std::make_shared<std::atomic<bool>>(false);
  f.pool.SetHook([gate, cut_off](const std::string& m, const std::string& c, std::stop_token s) -> Status {
    if (m == "n1" && *cut_off) return Unavailable("n1", "no route to host");
    return (*gate)(m, c, s);
  });
  const std::string id = f.Submit(f.Request(2));
  gate->AwaitReached();
  const uint64_t first = f.pool.at("n1").epoch();
  f.pool.at("n1").KillGuard();
  v1::HeartbeatRequest beat;
  beat.set_machine("n1");
  beat.set_boot_id("boot-1");
  beat.set_controller_epoch(f.store->controller_epoch());
  v1::HeldJob* held = beat.add_held();
  held->set_job_id(id);
  held->set_epoch(first);
  held->set_state("torn_down");
  held->set_clean(true);
  REQUIRE(f.registry->Heartbeat(beat, RealClock().Wall().count()).ok());
  CHECK(f.registry->Held("n1", id).has_value());
  gate->Open();
  ControllerFixture::Until([&] {
    return (f.Job(id).position().cycle() > 1 && f.Job(id).state() == v1::JOB_STATE_BENCHMARKING) ||
           controller::IsTerminal(f.Job(id).state());
  });
  CHECK(f.pool.at("n1").epoch() > first);
  *cut_off = true;
  REQUIRE(f.jobs->Cancel(id, false, "ada").ok());
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "CANCELLED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_UNKNOWN);
  CHECK(HasReason(job, "teardown_unknown", "n1"));
  CHECK(f.registry->Get("n1")->state() == v1::MACHINE_STATE_QUARANTINED);
}

}  // namespace poolmark::test

// Agents, guards, engines and machines that go away under a job.
#include "common/results/directory.h"
#include "common/results/layout.h"
#include "common/results/samples.h"
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

using controller::StateName;

TEST_CASE("an agent that is started again under load samples again, and its counters go on", "[B4][F22]") {
  ControllerFixture f;
  f.pool.engine_counters = true;
  f.pool.hold_load = true;
  const std::string id = f.Submit(f.Request());
  std::string load;
  ControllerFixture::Until([&] {
    for (const std::string& process : f.pool.at("n0").Processes()) {
      if (process.find(".load-") != std::string::npos) load = process;
    }
    return !load.empty();
  });
  const Nanoseconds loaded = RealClock().Steady();
  f.pool.at("n1").RestartAgent();
  ControllerFixture::Until([&] { return f.pool.at("n1").samplings() == 2; });
  // The records say a load of two seconds: counters are read after it.
  ControllerFixture::Until([&] { return RealClock().Steady() - loaded > std::chrono::seconds(4); });
  f.pool.at("n0").Die(load, 0);
  v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(f.pool.at("n0").samplings() == 1);
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  REQUIRE(read->repeats.size() == 1);
  const results::RepeatFile& repeat = read->repeats[0];
  for (const std::string& note : repeat.figures.notes) UNSCOPED_INFO(note);
  CHECK(repeat.figures.valid);
  CHECK_THAT(repeat.figures.notes,
             Catch::VectorContains(std::string("samples of n1: gap: the agent was started again")));
  REQUIRE(repeat.figures.sources.engines.size() == 2);
  for (const auto& engine : repeat.figures.sources.engines) {
    INFO(engine.process << ": " << (engine.sources.has_value() ? "" : engine.sources.reason()));
    REQUIRE(engine.sources.has_value());
    CHECK((*engine.sources).prompt > 0);
    CHECK((*engine.sources).not_attributed == 0);
  }
  CHECK(repeat.figures.sources.complete);
  CHECK(repeat.figures.reused.value_or(-1) == Approx(0.4));
  const std::string directory =
      f.Results(id) + "/" +
      results::RepeatDir(repeat.facts.point.stack, repeat.facts.point.workload, repeat.facts.point.level, 1);
  auto log = results::ReadSamples(directory + "/samples/n1.jsonl.zst");
  REQUIRE(log.ok());
  REQUIRE(log->gaps.size() == 1);
  CHECK(log->gaps[0].reason == "the agent was started again");
  CHECK(log->resets.empty());
  REQUIRE(log->series.size() == 6);  // four of the engine and two of the host, each defined once
  for (const results::SampleSeries& series : log->series) {
    if (series.source == "node") continue;
    INFO(series.name);
    const auto& values = log->values.at(series.id);
    REQUIRE(values.size() > 2);
    const std::map<std::string, double> steps = {
        {"local_compute", 6}, {"local_cache_hit", 4}, {"external_kv_transfer", 0}};
    const double step = series.labels.empty() ? 10 : steps.at(series.labels.at("source"));
    for (size_t i = 1; i < values.size(); ++i) CHECK(values[i].value == Approx(values[i - 1].value + step));
  }
}

TEST_CASE("an engine that dies under load makes its repeat invalid, and the job goes on") {
  ControllerFixture f;
  f.pool.hold_load = true;
  const std::string id = f.Submit(f.Request(2));
  ControllerFixture::Until([&] {
    auto running = f.pool.at("n0").Processes();
    return std::any_of(running.begin(), running.end(),
                       [](const std::string& p) { return p.find(".load-") != std::string::npos; });
  });
  f.pool.hold_load = false;
  f.pool.at("n1").Die("base.engine-n1", 139);
  v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "SUCCEEDED");  // the second repeat is valid
  auto repeats = *f.store->Repeats(id);
  REQUIRE(repeats.size() == 2);
  CHECK(std::count_if(repeats.begin(), repeats.end(), [](const auto& r) { return r.valid; }) == 1);
  REQUIRE(job.reasons_size() >= 1);
  CHECK(job.reasons(0).code() == "process_died");
  CHECK(job.reasons(0).message().find("last words of base.engine-n1") != std::string::npos);
}

TEST_CASE("a guard that dies without a word: its processes count as gone, the job goes on with a new grant") {
  const std::string call = GENERATE("Probe", "StreamSamples");
  ControllerFixture f;
  f.pool.hold_load = call == "StreamSamples";
  auto gate = std::make_shared<Gate>(call, "n1");
  f.pool.SetHook(
      [gate](const std::string& m, const std::string& c, std::stop_token s) { return (*gate)(m, c, s); });
  const std::string id = f.Submit(f.Request(2));
  gate->AwaitReached();
  f.pool.at("n1").KillGuard();
  gate->Open();
  ControllerFixture::Until(
      [&] { return f.Job(id).position().cycle() > 1 || controller::IsTerminal(f.Job(id).state()); });
  f.pool.hold_load = false;
  v1::Job job = f.Finished(id);
  INFO(job.ShortDebugString());
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  REQUIRE(job.reasons_size() >= 1);
  CHECK(job.reasons(0).code() == "process_died");
  CHECK(job.reasons(0).message().find("guard has ended") != std::string::npos);
  CHECK(f.pool.at("n1").epoch() > f.pool.at("n0").epoch());
}

TEST_CASE(
    "a controller that comes back holds its machines with a higher epoch: the one before is fenced off") {
  ControllerFixture f;
  f.pool.hold_load = true;
  const std::string id = f.Submit(f.Request());
  ControllerFixture::Until([&] { return f.Job(id).state() == v1::JOB_STATE_BENCHMARKING; });
  v1::StartProcessRequest late;
  late.mutable_lease()->set_job_id(id);
  late.mutable_lease()->set_epoch(f.pool.at("n0").epoch());
  late.mutable_spec()->set_id("late");
  f.Restart();
  f.pool.hold_load = false;
  CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
  CHECK(f.pool.at("n0").epoch() > late.lease().epoch());
  CHECK_FALSE(f.pool.at("n0").StartProcess(late, {}).ok());
}

TEST_CASE("a machine that is lost ends the job as INVALID, the others are torn down, it is quarantined",
          "[I1]") {
  ControllerFixture f;
  f.pool.hold_load = true;
  const std::string id = f.Submit(f.Request());
  ControllerFixture::Until([&] {
    auto running = f.pool.at("n0").Processes();
    return std::any_of(running.begin(), running.end(),
                       [](const std::string& p) { return p.find(".load-") != std::string::npos; });
  });
  f.silent.store("n1");
  f.pool.SetHook([](const std::string& machine, const std::string&, std::stop_token) -> Status {
    if (machine == "n1") return Unavailable("n1", "no route to host");
    return absl::OkStatus();
  });
  v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "INVALID");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_UNKNOWN);
  CHECK(f.pool.at("n0").Processes().empty());
  CHECK(job.reasons(0).code() == "machine_lost");
  CHECK(f.registry->Get("n1")->state() == v1::MACHINE_STATE_QUARANTINED);
  CHECK(f.registry->Get("n0")->state() == v1::MACHINE_STATE_READY);
}

TEST_CASE("what a ledger does not prove gone is DIRTY, named, and the machine is quarantined") {
  ControllerFixture f;
  f.pool.leave_leftovers = true;
  v1::Job job = f.Finished(f.Submit(f.Request()));
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_DIRTY);
  std::string reasons;  // in the order in which the machines answered
  for (const v1::Reason& reason : job.reasons()) reasons += reason.message() + "\n";
  CHECK(reasons.find("process base.engine-n0") != std::string::npos);
  CHECK(f.registry->Get("n0")->state() == v1::MACHINE_STATE_QUARANTINED);
}

TEST_CASE("a late call of an earlier grant changes nothing") {
  ControllerFixture f;
  f.Finished(f.Submit(f.Request()));
  f.Finished(f.Submit(f.Request()));
  REQUIRE(f.pool.at("n0").epoch() == 2);
  v1::StartProcessRequest late;
  late.mutable_lease()->set_job_id("old");
  late.mutable_lease()->set_epoch(1);
  late.mutable_spec()->set_id("x");
  CHECK_FALSE(f.pool.at("n0").StartProcess(late, {}).ok());
}

}  // namespace
}  // namespace poolmark::test

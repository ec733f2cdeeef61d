// Registrations, leases, liveness and what a returning agent's ledgers mean.
#include "controller/machines/registry.h"

#include <catch2/catch.hpp>
#include <thread>

#include "controller/jobs/epochs.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_dir.h"

namespace poolmark::controller {
namespace {

using std::chrono::seconds;

struct Fixture {
  test::TempDir dir;
  test::FakeClock clock;
  std::unique_ptr<Store> store;
  std::unique_ptr<Registry> registry;
  std::vector<std::string> lost;
  Fixture() { Start(); }
  void Start() {
    registry.reset();
    store.reset();
    auto opened = Store::Open(dir / "state", &clock);
    REQUIRE(opened.ok());
    store = std::move(*opened);
    registry = std::make_unique<Registry>(
        store.get(), &clock, Timing{}, [](const std::string&, const std::string&) { return AgentLinkPtr(); });
    REQUIRE(registry->Load().ok());
  }
  v1::RegisterRequest Registration(const std::string& name) {
    v1::RegisterRequest request;
    request.set_machine(name);
    request.set_address("127.0.0.1:7000");
    request.set_boot_id("boot-1");
    request.add_api_versions("v1");
    request.mutable_facts()->set_cpus(64);
    return request;
  }
  v1::HeartbeatResponse Beat(const std::string& name, const std::string& job = "", uint64_t epoch = 0) {
    v1::HeartbeatRequest request;
    request.set_machine(name);
    request.set_boot_id("boot-1");
    request.set_controller_epoch(store->controller_epoch());
    if (!job.empty()) {
      request.mutable_lease()->set_job_id(job);
      request.mutable_lease()->set_epoch(epoch);
    }
    auto response = registry->Heartbeat(request, clock.Wall().count());
    REQUIRE(response.ok());
    return *response;
  }
  std::string LockedJob(const std::string& machine) {
    auto job = store->Insert({}, "ada", "", {}, 0);
    REQUIRE(job.ok());
    REQUIRE(store->Apply(job->id(), JobEventKind::kPlanAccepted)->has_value());
    std::string blocked;
    REQUIRE(store->Lock(job->id(), {machine}, &blocked)->has_value());
    REQUIRE(registry->Refresh().ok());
    return job->id();
  }
  void Seconds(int n) {
    for (int i = 0; i < n; ++i) {
      clock.Advance(seconds(1));
      registry->Tick([&](const std::string& machine, const std::string&) { lost.push_back(machine); });
    }
  }
  v1::MachineState State(const std::string& name) { return registry->Get(name)->state(); }
};

TEST_CASE("a lease is renewed only for who holds the machine, with the epoch of the grant") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  const std::string job = f.LockedJob("n1");
  CHECK(f.Beat("n1").lease_ttl_ns() == 0);
  CHECK(f.Beat("n1", job, 1).lease_ttl_ns() == 30'000'000'000);
  CHECK(f.Beat("n1", job, 2).lease_ttl_ns() == 0);
  CHECK(f.Beat("n1", "another", 1).lease_ttl_ns() == 0);
  REQUIRE(f.store->Apply(job, JobEventKind::kCancel)->has_value());
  REQUIRE(f.store->Apply(job, JobEventKind::kTornDown)->has_value());
  REQUIRE(f.registry->Refresh().ok());
  CHECK(f.Beat("n1", job, 1).lease_ttl_ns() == 0);
}

TEST_CASE("silence: suspect after 6 s, lost after the lease, once; back with the next beat") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_READY);
  f.Seconds(7);
  CHECK(f.State("n1") == v1::MACHINE_STATE_SUSPECT);
  CHECK(f.lost.empty());
  f.Seconds(24);
  CHECK(f.State("n1") == v1::MACHINE_STATE_LOST);
  f.Seconds(10);
  CHECK(f.lost == std::vector<std::string>{"n1"});
  f.Beat("n1");
  CHECK(f.State("n1") == v1::MACHINE_STATE_READY);
}

TEST_CASE("a controller that stood still loses no machine") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  f.Seconds(1);
  f.clock.Advance(seconds(60));
  f.Seconds(2);
  CHECK(f.lost.empty());
  CHECK(f.State("n1") == v1::MACHINE_STATE_READY);
}

TEST_CASE("silences are kept as evidence for the repeat they fall in", "[I1]") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  f.registry->Watch("n1");
  f.Seconds(14);
  f.Beat("n1");
  f.Seconds(2);
  CHECK(f.registry->PresenceOf("n1").longest_silence == seconds(14));
  f.registry->Watch("n1");
  CHECK(f.registry->PresenceOf("n1").longest_silence < seconds(10));
}

TEST_CASE("unknown machines, other boots and another controller epoch must register again") {
  Fixture f;
  CHECK(f.Beat("n1").register_again());
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  CHECK_FALSE(f.Beat("n1").register_again());
  f.Start();
  CHECK(f.Beat("n1").register_again());
  CHECK(f.State("n1") == v1::MACHINE_STATE_SUSPECT);
  CHECK(f.registry->Register(f.Registration("n1"))->controller_epoch() == 2);
  CHECK_FALSE(f.Beat("n1").register_again());
}

TEST_CASE("grants go on above what the agents have seen, after a store that was lost or restored") {
  Fixture f;
  auto registration = f.Registration("n1");
  registration.set_highest_epoch(17);
  REQUIRE(f.registry->Register(registration).ok());
  const std::string job = f.LockedJob("n1");
  CHECK(f.registry->epoch("n1") == 18);
  // Another controller took it meanwhile: the grant of this one stays below, and the agent refuses it.
  registration.set_highest_epoch(30);
  REQUIRE(f.registry->Register(registration).ok());
  CHECK(f.registry->epoch("n1") == 18);
  REQUIRE(f.store->Apply(job, JobEventKind::kCancel)->has_value());
  REQUIRE(f.store->Apply(job, JobEventKind::kTornDown)->has_value());
  REQUIRE(f.registry->Refresh().ok());
  v1::HeartbeatRequest beat;
  beat.set_machine("n1");
  beat.set_boot_id("boot-1");
  beat.set_controller_epoch(f.store->controller_epoch());
  beat.set_highest_epoch(30);
  REQUIRE(f.registry->Heartbeat(beat, f.clock.Wall().count()).ok());
  f.LockedJob("n1");
  CHECK(f.registry->epoch("n1") == 31);
}

TEST_CASE("a returning agent tears down jobs that nobody owns, and keeps what its controller owns") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  const std::string job = f.LockedJob("n1");
  auto registration = f.Registration("n1");
  auto* held = registration.add_held();
  held->set_job_id(job);
  held->set_state("running");
  held = registration.add_held();
  held->set_job_id("stranger");
  held->set_state("running");
  held->set_open_items(2);
  auto answer = f.registry->Register(registration);
  REQUIRE(answer.ok());
  REQUIRE(answer->tear_down_size() == 1);
  CHECK(answer->tear_down(0) == "stranger");
}

TEST_CASE("a quarantine for an unproven tear-down ends when the machine comes back with the proof") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  const std::string job = f.LockedJob("n1");
  REQUIRE(f.store->Apply(job, JobEventKind::kMachineLost)->has_value());
  Change change;
  change.quarantine = {{"n1", "tear-down of job " + job + " not proven"}};
  REQUIRE(f.store->Apply(job, JobEventKind::kLeftovers, change)->has_value());
  REQUIRE(f.registry->Refresh().ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_QUARANTINED);
  auto registration = f.Registration("n1");
  auto* held = registration.add_held();
  held->set_job_id(job);
  held->set_state("stopped_by_lease");
  auto dirty = registration;
  REQUIRE(f.registry->Register(dirty).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_QUARANTINED);
  held->set_clean(true);
  REQUIRE(f.registry->Register(registration).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_READY);
}

TEST_CASE("what was read of the store earlier never takes the place of what was read later") {
  Fixture f;
  auto registration = f.Registration("n1");
  REQUIRE(f.registry->Register(registration).ok());
  const std::string job = f.LockedJob("n1");
  std::vector<std::jthread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&](std::stop_token stop) {
      while (!stop.stop_requested()) (void)f.registry->Refresh();
    });
  }
  int old_epochs = 0, old_addresses = 0;
  for (int i = 0; i < 60; ++i) {
    REQUIRE(f.store->GrantAnew(job, "n1").ok());
    REQUIRE(f.registry->Refresh().ok());
    const uint64_t granted = 2 + static_cast<uint64_t>(i);
    for (int look = 0; look < 50; ++look) {
      old_epochs += f.registry->epoch("n1") != granted;
      std::this_thread::yield();
    }
    registration.set_address("127.0.0.1:" + std::to_string(7001 + i));
    REQUIRE(f.registry->Register(registration).ok());
    for (int look = 0; look < 50; ++look) {
      old_addresses += f.registry->Get("n1")->address() != registration.address();
      std::this_thread::yield();
    }
  }
  CHECK(old_epochs == 0);
  CHECK(old_addresses == 0);
}

TEST_CASE("what an agent says of a job's earlier lease is not heard once it has answered a later one") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  const std::string job = f.LockedJob("n1");
  v1::HeartbeatRequest beat;
  beat.set_machine("n1");
  beat.set_boot_id("boot-1");
  beat.set_controller_epoch(f.store->controller_epoch());
  const auto ended = [&](uint64_t epoch) {
    v1::HeldJob* held = beat.add_held();
    held->set_job_id(job);
    held->set_epoch(epoch);
    held->set_state("torn_down");
    held->set_clean(true);
  };
  const auto say = [&] { REQUIRE(f.registry->Heartbeat(beat, f.clock.Wall().count()).ok()); };
  v1::LeaseId lease;
  lease.set_job_id(job);
  lease.set_epoch(1);
  REQUIRE(f.registry->NoteTaken("n1", lease).ok());
  CHECK(f.registry->HasTaken("n1", job));
  ended(1);
  say();
  REQUIRE(f.registry->Held("n1", job).has_value());
  lease.set_epoch(2);
  REQUIRE(f.registry->NoteTaken("n1", lease).ok());
  CHECK_FALSE(f.registry->Held("n1", job).has_value());
  say();  // it was under way
  CHECK_FALSE(f.registry->Held("n1", job).has_value());
  // In whatever order it names them.
  beat.clear_held();
  ended(2);
  ended(1);
  say();
  REQUIRE(f.registry->Held("n1", job).has_value());
  CHECK(f.registry->Held("n1", job)->epoch() == 2);
}

TEST_CASE("what somebody said of a machine outlives a tear-down that is not proven, and its proof") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  const v1::MachineAction by_hand =
      GENERATE(v1::MACHINE_ACTION_UNSPECIFIED, v1::MACHINE_ACTION_DRAIN, v1::MACHINE_ACTION_QUARANTINE);
  CAPTURE(by_hand);
  const std::string job = f.LockedJob("n1");
  // It names the job, as people do; that makes it no business of the job's proof.
  const std::string said = "ECC errors seen under job " + job;
  if (by_hand != v1::MACHINE_ACTION_UNSPECIFIED) REQUIRE(f.registry->Act("n1", by_hand, said, false).ok());
  const v1::MachineState before = f.registry->Get("n1")->state();
  REQUIRE(f.store->Apply(job, JobEventKind::kMachineLost)->has_value());
  Change change;
  const std::string why = "tear-down of job " + job + " not proven";
  change.quarantine = {{"n1", why}};
  REQUIRE(f.store->Apply(job, JobEventKind::kLeftovers, change)->has_value());
  REQUIRE(f.registry->Refresh().ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_QUARANTINED);
  const bool bare = by_hand == v1::MACHINE_ACTION_UNSPECIFIED;
  CHECK(f.registry->Get("n1")->reason() == (bare ? why : said + "; " + why));
  f.Start();  // the store keeps it apart
  auto registration = f.Registration("n1");
  auto* held = registration.add_held();
  held->set_job_id(job);
  held->set_state("torn_down");
  held->set_clean(true);
  // Of two leases of the job one has ended well.
  auto* other = registration.add_held();
  other->set_job_id(job);
  other->set_state("torn_down");
  REQUIRE(f.registry->Register(registration).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_QUARANTINED);
  CHECK_FALSE(f.registry->Held("n1", job)->clean());
  other->set_clean(true);
  REQUIRE(f.registry->Register(registration).ok());
  CHECK(f.State("n1") == (bare ? v1::MACHINE_STATE_READY : before));
  CHECK(f.registry->Get("n1")->reason() == (bare ? "" : said));
}

TEST_CASE("a quarantine by a job and one by hand end each in its own way") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  auto act = [&](v1::MachineAction action) { return f.registry->Act("n1", action, "reboot at noon", false); };
  auto quarantine = [&] {
    REQUIRE(f.store->Quarantine("n1", "job-7", "not proven").ok());
    REQUIRE(f.registry->Refresh().ok());
  };
  // Drained, quarantined by a job, looked at: the drain goes on.
  REQUIRE(act(v1::MACHINE_ACTION_DRAIN).ok());
  quarantine();
  CHECK(act(v1::MACHINE_ACTION_CLEAR)->state() == v1::MACHINE_STATE_DRAINED);
  CHECK(f.registry->Get("n1")->reason() == "reboot at noon");
  // The drain ended while the proof is missing.
  quarantine();
  CHECK(act(v1::MACHINE_ACTION_UNDRAIN)->state() == v1::MACHINE_STATE_QUARANTINED);
  CHECK(f.registry->Get("n1")->reason() == "not proven");
  CHECK_FALSE(act(v1::MACHINE_ACTION_UNDRAIN).ok());
  CHECK_FALSE(act(v1::MACHINE_ACTION_DRAIN).ok());
  // Quarantined by hand as well: one look ends both.
  CHECK(act(v1::MACHINE_ACTION_QUARANTINE)->reason() == "reboot at noon; not proven");
  CHECK(act(v1::MACHINE_ACTION_CLEAR)->state() == v1::MACHINE_STATE_READY);
  CHECK(f.registry->Get("n1")->reason() == "");
  CHECK_FALSE(*f.store->Proven("n1", "job-7"));
}

TEST_CASE("of two agents of one name the one that was there first is the machine, until it is silent") {
  Fixture f;
  auto first = f.Registration("n1"), second = f.Registration("n1");
  first.set_agent_id("aa");
  second.set_agent_id("bb");
  second.set_address("127.0.0.1:7001");
  const auto beat = [&](const std::string& agent) {
    v1::HeartbeatRequest request;
    request.set_machine("n1");
    request.set_boot_id("boot-1");
    request.set_agent_id(agent);
    request.set_controller_epoch(f.store->controller_epoch());
    return f.registry->Heartbeat(request, f.clock.Wall().count())->register_again();
  };
  REQUIRE(f.registry->Register(first).ok());
  CHECK_FALSE(beat("aa"));
  const Status refused = f.registry->Register(second).status();
  CHECK(ErrorOf(refused).code == "two_agents");
  CHECK(
      beat("bb"));  // it is told to register, which is refused: it neither keeps n1 alive nor renews a lease
  CHECK(f.registry->Get("n1")->address() == "127.0.0.1:7000");
  CHECK(f.registry->Get("n1")->state() == v1::MACHINE_STATE_READY);
  CHECK(f.registry->Get("n1")->reason() ==
        "another agent says that it is this machine, and is refused: 127.0.0.1:7001");
  // A controller that starts again has not forgotten which of them it is.
  f.Start();
  CHECK(ErrorOf(f.registry->Register(second).status()).code == "two_agents");
  REQUIRE(f.registry->Register(first).ok());
  f.Seconds(29);
  CHECK(ErrorOf(f.registry->Register(second).status()).code == "two_agents");
  f.Seconds(2);
  REQUIRE(f.registry->Register(second).ok());
  CHECK(f.registry->Get("n1")->address() == "127.0.0.1:7001");
  CHECK(ErrorOf(f.registry->Register(first).status()).code == "two_agents");
  f.Seconds(20);
  CHECK_FALSE(beat("bb"));
  f.Seconds(20);
  CHECK_FALSE(beat("bb"));
  f.Seconds(21);
  CHECK(f.registry->Get("n1")->reason().find("another agent") == std::string::npos);
  // Two hosts that take turns are no copies of each other.
  f.Seconds(31);
  first.set_boot_id("boot-2");
  REQUIRE(f.registry->Register(first).ok());
  f.Seconds(31);
  CHECK(f.registry->Register(second).ok());
}

TEST_CASE("copies of one agent's state on two machines are found out, and the machine is kept out") {
  Fixture f;
  auto original = f.Registration("n1"), clone = f.Registration("n1");
  original.set_agent_id("aa");
  clone.set_agent_id("aa");
  clone.set_boot_id("boot-2");
  REQUIRE(f.registry->Register(original).ok());
  REQUIRE(f.registry->Register(clone).ok());  // it may have been a reboot
  CHECK(f.State("n1") == v1::MACHINE_STATE_READY);
  CHECK(ErrorOf(f.registry->Register(original).status()).code == "two_agents");
  CHECK(f.State("n1") == v1::MACHINE_STATE_QUARANTINED);
  CHECK(f.registry->Get("n1")->reason().find("copies of one agent's state directory") != std::string::npos);
  REQUIRE(f.registry->Register(clone).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_QUARANTINED);
  // Somebody has ended one of them and looked at it.
  REQUIRE(f.registry->Act("n1", v1::MACHINE_ACTION_CLEAR, "", false).ok());
  REQUIRE(f.registry->Register(original).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_READY);
}

TEST_CASE("actions on machines") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  auto act = [&](v1::MachineAction action) { return f.registry->Act("n1", action, "why", true); };
  CHECK(act(v1::MACHINE_ACTION_DRAIN)->state() == v1::MACHINE_STATE_DRAINED);
  CHECK(act(v1::MACHINE_ACTION_UNDRAIN)->state() == v1::MACHINE_STATE_READY);
  CHECK(act(v1::MACHINE_ACTION_QUARANTINE)->reason() == "why");
  CHECK_FALSE(act(v1::MACHINE_ACTION_UNDRAIN).ok());
  CHECK(act(v1::MACHINE_ACTION_CLEAR)->state() == v1::MACHINE_STATE_READY);
  CHECK(act(v1::MACHINE_ACTION_REVOKE)->state() == v1::MACHINE_STATE_REVOKED);
  CHECK(f.registry->Register(f.Registration("n1")).status().code() == absl::StatusCode::kPermissionDenied);
  CHECK_FALSE(act(v1::MACHINE_ACTION_UNSPECIFIED).ok());
  // An admin's revocation is not turned into something that an operator could end.
  for (v1::MachineAction action :
       {v1::MACHINE_ACTION_QUARANTINE, v1::MACHINE_ACTION_DRAIN, v1::MACHINE_ACTION_UNDRAIN}) {
    CHECK(absl::IsFailedPrecondition(act(action).status()));
    CHECK(f.State("n1") == v1::MACHINE_STATE_REVOKED);
  }
  const Status operators = f.registry->Act("n1", v1::MACHINE_ACTION_CLEAR, "", false).status();
  CHECK(absl::IsPermissionDenied(operators));
  CHECK(ErrorOf(operators).code == "needs_admin");
  CHECK(f.State("n1") == v1::MACHINE_STATE_REVOKED);
  CHECK(act(v1::MACHINE_ACTION_CLEAR)->state() != v1::MACHINE_STATE_REVOKED);
  CHECK(f.registry->Register(f.Registration("n1")).ok());
  CHECK(act(v1::MACHINE_ACTION_QUARANTINE).ok());
  CHECK(f.registry->Act("n1", v1::MACHINE_ACTION_CLEAR, "", false)->state() == v1::MACHINE_STATE_READY);
  CHECK(f.registry->Act("zz", v1::MACHINE_ACTION_DRAIN, "", true).status().code() ==
        absl::StatusCode::kNotFound);
}

TEST_CASE("an agent that claims an impossible grant is kept out, and the store goes on counting") {
  Fixture f;
  for (const char* name : {"n1", "n2"}) REQUIRE(f.registry->Register(f.Registration(name)).ok());
  auto wrong = f.Registration("n1");
  wrong.set_highest_epoch((uint64_t{1} << 63) - 1);
  REQUIRE(f.registry->Register(wrong).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_QUARANTINED);
  CHECK(f.registry->epoch("n1") == 0);
  CHECK_FALSE(f.store->RaiseEpoch("n1", kMostEpoch + 1).ok());
  auto highest = f.Registration("n2");
  highest.set_highest_epoch(kMostEpoch);
  REQUIRE(f.registry->Register(highest).ok());
  const std::string job = f.LockedJob("n2");
  f.Start();  // each start grants anew
  f.Start();
  CHECK(f.registry->epoch("n2") > kMostEpoch);
  CHECK(f.registry->epoch("n2") <= kMostEpoch + 1000);
}

TEST_CASE("an agent cannot make the controller keep or show more than any machine has") {
  Fixture f;
  auto large = f.Registration("n1");
  large.mutable_facts()->set_cpu_model(std::string(kMaxMachineBytes, 'x'));
  CHECK(f.registry->Register(large).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_FALSE(f.registry->Get("n1").ok());

  auto many = f.Registration("n1");
  for (int i = 0; i < 5001; ++i) many.add_held()->set_job_id("job-" + std::to_string(i));
  CHECK(f.registry->Register(many).status().code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  v1::HeartbeatRequest beat;
  beat.set_machine("n1");
  beat.set_boot_id("boot-1");
  beat.set_controller_epoch(f.store->controller_epoch());
  *beat.mutable_held() = many.held();
  CHECK(f.registry->Heartbeat(beat, 0).status().code() == absl::StatusCode::kInvalidArgument);
  // What it names for a while and then no more is forgotten once it names so much else.
  for (int turn = 0; turn < 3; ++turn) {
    beat.clear_held();
    for (int i = 0; i < 2000; ++i)
      beat.add_held()->set_job_id("turn-" + std::to_string(turn) + "-" + std::to_string(i));
    REQUIRE(f.registry->Heartbeat(beat, 0).ok());
  }
  CHECK(f.registry->Held("n1", "turn-2-7").has_value());
  CHECK_FALSE(f.registry->Held("n1", "turn-0-7").has_value());
}

TEST_CASE("machines are listed in pages, each at least one long") {
  Fixture f;
  for (const char* name : {"n3", "n1", "n2"}) {
    auto registration = f.Registration(name);
    registration.mutable_facts()->add_gpus()->set_model(std::string(3000, 'g'));
    REQUIRE(f.registry->Register(registration).ok());
  }
  const auto walk = [&](bool facts, size_t size, size_t bytes) {
    std::string seen;
    std::string after;
    do {
      const Registry::Page page = f.registry->ListPage(facts, after, size, bytes);
      for (const v1::Machine& machine : page.machines) {
        seen += machine.name() + " ";
        CHECK(machine.gpus() == 1);
        CHECK(machine.has_facts() == facts);
      }
      seen += "| ";
      after = page.next;
    } while (!after.empty());
    return seen;
  };
  CHECK(walk(false, 2, SIZE_MAX) == "n1 n2 | n3 | ");
  CHECK(walk(false, 3, SIZE_MAX) == "n1 n2 n3 | ");
  CHECK(walk(true, 100, 10) == "n1 | n2 | n3 | ");
  CHECK(f.registry->ListPage(true, "zz", 10, 10).machines.empty());
}

TEST_CASE("a drained or quarantined machine that fell silent says so") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  REQUIRE(f.registry->Act("n1", v1::MACHINE_ACTION_DRAIN, "a new fan", true).ok());
  f.Seconds(5);
  CHECK(f.registry->Get("n1")->reason() == "a new fan");
  f.Seconds(40);
  CHECK(f.State("n1") == v1::MACHINE_STATE_DRAINED);
  CHECK(f.registry->Get("n1")->reason() == "a new fan; no heartbeat for 45s");
  f.Beat("n1");
  CHECK(f.registry->Get("n1")->reason() == "a new fan");
}

TEST_CASE("an agent of another API is refused with what to do") {
  Fixture f;
  auto registration = f.Registration("n1");
  registration.clear_api_versions();
  registration.add_api_versions("v2");
  auto refused = f.registry->Register(registration);
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string(refused.status().message()).find("does not speak API v1") != std::string::npos);
}

TEST_CASE("an agent that beats before it has read its facts: those of before count, but not past a reboot",
          "[L1]") {
  Fixture f;
  v1::RegisterRequest early = f.Registration("n1");
  early.clear_facts();
  REQUIRE(f.registry->Register(early).ok());
  // It lives, and nothing can be planned on it: no GPUs is not what it said.
  CHECK(f.State("n1") == v1::MACHINE_STATE_SUSPECT);
  CHECK(f.registry->Get("n1")->reason().find("still reading") != std::string::npos);
  CHECK_FALSE(f.registry->Get("n1")->has_facts());
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_READY);

  // Its agent is started again, and its vendor tool is slow.
  REQUIRE(f.registry->Register(early).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_READY);
  CHECK(f.registry->Get("n1")->facts().cpus() == 64);
  CHECK(f.store->Machines()->front().registration.facts().cpus() == 64);

  early.set_boot_id("boot-2");
  REQUIRE(f.registry->Register(early).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_SUSPECT);
  CHECK_FALSE(f.registry->Get("n1")->has_facts());
  CHECK_FALSE(f.store->Machines()->front().registration.has_facts());
}

TEST_CASE("facts of a machine that a job holds stay, whatever its agent has read yet") {
  Fixture f;
  REQUIRE(f.registry->Register(f.Registration("n1")).ok());
  f.LockedJob("n1");
  v1::RegisterRequest early = f.Registration("n1");
  early.clear_facts();
  early.set_boot_id("boot-2");
  REQUIRE(f.registry->Register(early).ok());
  CHECK(f.State("n1") == v1::MACHINE_STATE_BUSY);
  CHECK(f.registry->Get("n1")->facts().cpus() == 64);
  CHECK(f.store->Machines()->front().registration.facts().cpus() == 64);
}

}  // namespace
}  // namespace poolmark::controller

// A controller's store, registry and jobs over fake agents that beat, all in this process. Re-opening the
// store is a restart: what was not committed is lost.
#pragma once
#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "controller/runner/manager.h"
#include "tests/component/controller/fake_agent.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace poolmark::test {

// Holds calls of one name until it is opened or the call is stopped.
class Gate {
 public:
  explicit Gate(std::string call, std::string machine = "")
      : call_(std::move(call)), machine_(std::move(machine)) {}
  Status operator()(const std::string& machine, const std::string& call, std::stop_token stop) {
    if (call != call_ || (!machine_.empty() && machine != machine_)) return absl::OkStatus();
    std::unique_lock lock(mutex_);
    ++reached_;
    changed_.notify_all();
    changed_.wait(lock, stop, [&] { return open_; });
    return stop.stop_requested() ? absl::CancelledError("stopped") : absl::OkStatus();
  }
  void AwaitReached() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return reached_ > 0; }));
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  const std::string call_, machine_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  int reached_ = 0;
  bool open_ = false;
};

struct ControllerFixture {
  explicit ControllerFixture(std::vector<std::string> names = {"n0", "n1"})
      : machines(std::move(names)), pool(machines) {
    Start();
    beats = std::jthread([this](std::stop_token stop) { Beat(stop); });
    Until([&] {
      for (const v1::Machine& machine : registry->List(false)) {
        if (!machine.has_clock_offset_ns()) return false;
      }
      return registry->List(false).size() == machines.size();
    });
  }
  ~ControllerFixture() {
    pool.SetHook(nullptr);
    pool.hold_load = false;
    beats.request_stop();
    beats.join();
    End();
  }

  static controller::Timing FastTiming() {
    controller::Timing timing;
    timing.heartbeat = std::chrono::milliseconds(50);
    timing.suspect = std::chrono::seconds(2);
    timing.silent = std::chrono::seconds(2);
    timing.lease = std::chrono::seconds(4);
    timing.guard_done = std::chrono::seconds(1);
    return timing;
  }

  void Start() {
    std::lock_guard lock(mutex);
    auto opened = controller::Store::Open(dir / "state", &RealClock());
    INFO(opened.status());
    REQUIRE(opened.ok());
    store = std::move(*opened);
    auto opened_inputs = controller::InputStore::Open(dir / "state/inputs", Source("deploy/stacks"), slo_dir);
    REQUIRE(opened_inputs.ok());
    inputs = std::make_unique<controller::InputStore>(std::move(*opened_inputs));
    store->SetListener(
        [this](const std::string& job, const v1::JobEvent& event) { hub.Publish(job, event); });
    registry =
        std::make_unique<controller::Registry>(store.get(), &RealClock(), FastTiming(), pool.Factory());
    REQUIRE(registry->Load().ok());
    environment.store = store.get();
    environment.registry = registry.get();
    environment.inputs = inputs.get();
    environment.hub = &hub;
    environment.clock = &RealClock();
    environment.timing.poll = std::chrono::milliseconds(20);
    environment.timing.stop_grace = std::chrono::milliseconds(100);
    environment.state_dir = dir / "state";
    environment.results_dir = dir / "state/results";
    environment.catalogue_dir = Source("deploy/catalogue");
    jobs = std::make_unique<controller::JobManager>(environment, controller::Retention{});
    REQUIRE(jobs->Start().ok());
  }
  void End() {
    std::lock_guard lock(mutex);
    jobs.reset();
    registry.reset();
    inputs.reset();
    store.reset();
  }
  // What a kill and a new start are to the store and the agents.
  void Restart() {
    End();
    Start();
  }

  void Beat(std::stop_token stop) {
    std::map<std::string, v1::HeartbeatRequest> previous;
    while (!stop.stop_requested()) {
      {
        std::lock_guard lock(mutex);
        for (const std::string& machine : machines) {
          if (!registry || silent.load() == machine) continue;
          v1::HeartbeatRequest beat;
          beat.set_machine(machine);
          beat.set_boot_id("boot-1");
          beat.set_controller_epoch(store->controller_epoch());
          beat.set_sent_wall_ns(RealClock().Wall().count());
          beat.set_sent_boot_ns(RealClock().Boot().count());
          beat.set_previous_sent_wall_ns(previous[machine].sent_wall_ns());
          beat.set_previous_reply_wall_ns(previous[machine].previous_reply_wall_ns());
          auto answer = registry->Heartbeat(beat, RealClock().Wall().count());
          if (answer.ok() && answer->register_again()) {
            v1::RegisterRequest registration;
            registration.set_machine(machine);
            registration.set_address("127.0.0.1:1");
            registration.set_boot_id("boot-1");
            registration.add_api_versions("v1");
            *registration.mutable_facts() = FakeAgent::Facts();
            (void)registry->Register(registration);
            if (jobs) jobs->Wake();
          }
          beat.set_previous_reply_wall_ns(RealClock().Wall().count());
          previous[machine] = beat;
        }
        if (registry)
          registry->Tick(
              [&](const std::string& machine, const std::string& job) { jobs->MachineLost(machine, job); });
      }
      controller::WaitFor(stop, std::chrono::milliseconds(50));
    }
  }

  std::string Upload(const std::string& text) {
    const std::string sha = Sha256Hex(text);
    if (inputs->Has(sha)) return sha;
    auto upload = inputs->Begin(sha);
    REQUIRE(upload.ok());
    REQUIRE(upload->Append(text).ok());
    REQUIRE(upload->Finish().ok());
    return sha;
  }
  v1::SubmitJobRequest Request(int repeats = 1, const std::string& extra = "",
                               std::vector<std::string> on = {}, const std::string& workload = "") {
    if (on.empty()) on = machines;
    std::string pool_text = "version: 1\nhead: " + on.front() + "\nmachines:\n";
    for (const std::string& machine : on) pool_text += "  - {name: " + machine + ", net: {tcp: 127.0.0.1}}\n";
    const std::string job_text =
        "version: 1\npool: pool.yaml\nstacks: [{use: sim-local, as: base}]\nworkloads:\n  chat: {shape: "
        "synthetic, sessions: 4, turns: 2, " +
        workload +
        "input: 32, growth: 16, output: 8, concurrency: [2]}\nrepeats: " + std::to_string(repeats) + "\n" +
        extra;
    v1::SubmitJobRequest request;
    request.set_job_path("job.yaml");
    for (const auto& [path, text] :
         {std::pair<std::string, std::string>("job.yaml", job_text), {"pool.yaml", pool_text}}) {
      v1::JobInput* input = request.add_inputs();
      input->set_path(path);
      input->set_sha256(Upload(text));
      input->set_size(text.size());
    }
    return request;
  }
  // The usual job on a stack file of its own.
  v1::SubmitJobRequest WithStack(const std::string& stack) {
    v1::SubmitJobRequest request = Request();
    std::string job = *ReadFile(inputs->FilesOf(request).at("job.yaml"), 1u << 20);
    job.replace(job.find("sim-local"), 9, "stack.yaml");
    request.mutable_inputs(0)->set_sha256(Upload(job));
    request.mutable_inputs(0)->set_size(job.size());
    v1::JobInput* added = request.add_inputs();
    added->set_path("stack.yaml");
    added->set_sha256(Upload(stack));
    added->set_size(stack.size());
    return request;
  }
  // A pool that says how many machines, not which.
  void AskForMachines(int count, v1::SubmitJobRequest* request) {
    const std::string text = "version: 1\nmachines: " + std::to_string(count) + "\n";
    request->mutable_inputs(1)->set_sha256(Upload(text));
    request->mutable_inputs(1)->set_size(text.size());
  }
  std::string Submit(const v1::SubmitJobRequest& request) {
    auto response = jobs->Submit(request, "ada");
    INFO(response.status());
    REQUIRE(response.ok());
    return response->job_id();
  }
  v1::Job Job(const std::string& id) {
    auto job = store->Get(id);
    REQUIRE(job.ok());
    return job->job;
  }
  static void Until(const std::function<bool()>& done, Nanoseconds limit = std::chrono::seconds(90)) {
    const Nanoseconds deadline = RealClock().Steady() + limit;
    while (!done()) {
      REQUIRE(RealClock().Steady() < deadline);
      controller::WaitFor({}, std::chrono::milliseconds(20));
    }
  }
  v1::Job Finished(const std::string& id) {
    Until([&] { return controller::IsTerminal(Job(id).state()) && FileExists(Results(id) + "/SHA256SUMS"); });
    v1::Job job = Job(id);
    for (const v1::Reason& reason : job.reasons()) UNSCOPED_INFO(reason.code() << ": " << reason.message());
    return job;
  }
  std::string Results(const std::string& id) const { return dir / ("state/results/" + id); }
  std::vector<std::string> States(const std::string& id) {
    std::vector<std::string> states;
    auto events = store->Events(id, 0, 10000);
    for (const v1::JobEvent& event : *events) {
      if (event.kind() == "state") states.push_back(controller::StateName(event.state()));
    }
    return states;
  }

  TempDir dir;
  std::string slo_dir = Source("deploy/slo");  // of the next start
  const std::vector<std::string> machines;
  FakePool pool;
  struct Silent {
    std::mutex mutex;
    std::string name;
    std::string load() {
      std::lock_guard lock(mutex);
      return name;
    }
    void store(std::string text) {
      std::lock_guard lock(mutex);
      name = std::move(text);
    }
  } silent;
  std::mutex mutex;  // the pointers below, against the beats
  std::unique_ptr<controller::Store> store;
  std::unique_ptr<controller::InputStore> inputs;
  controller::EventHub hub;
  std::unique_ptr<controller::Registry> registry;
  controller::Environment environment;
  std::unique_ptr<controller::JobManager> jobs;
  std::jthread beats;
};

inline bool HasReason(const v1::Job& job, const std::string& code, const std::string& machine) {
  for (const v1::Reason& reason : job.reasons()) {
    if (reason.code() == code && reason.machine() == machine) return true;
  }
  return false;
}

}  // namespace poolmark::test

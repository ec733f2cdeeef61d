#include "controller/steps/reset.h"

#include <algorithm>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "controller/stacks/starting_state.h"
#include "controller/steps/kv_probe.h"
#include "controller/steps/launch.h"

namespace poolmark::controller {
namespace {

// A process that is stopped to be started again: what it would write out is to be gone anyway, and the call
// takes 90 s (common/rpc/rules.h).
constexpr Nanoseconds kRestartGrace = std::chrono::seconds(60);

constexpr int kCanaryTries = 5;

// The number in a check's words ("3 keys", "DBSIZE answered 12").
Measured<double> NumberIn(const std::string& text) {
  // "name_l2_blocks = 12": what follows the sign, not a digit of the name.
  const size_t sign = text.rfind(" = ");
  const size_t begin = text.find_first_of("0123456789", sign == std::string::npos ? 0 : sign);
  if (begin == std::string::npos) return NotMeasured{text.empty() ? "no answer" : text};
  double value = 0;
  const size_t end = text.find_first_not_of("0123456789.", begin);
  if (!absl::SimpleAtod(text.substr(begin, end == std::string::npos ? end : end - begin), &value))
    return NotMeasured{text};
  return value;
}

class Resetter {
 public:
  Resetter(JobRun* run, const StackPlan& stack, std::string tag, const VerifyEvidence& verified,
           ProcessWatch* watch, ResetResult* result)
      : run_(*run),
        stack_(stack),
        tag_(std::move(tag)),
        verified_(verified),
        watch_(*watch),
        result_(*result) {}

  StepOutcome Run() {
    result_.state.declared = run_.job->starting_state;
    for (const PlannedProcess& process : stack_.processes) {
      if (HoldsKv(process)) result_.state.holders.push_back(process.spec.id());
    }
    if (stack_.attach && !stack_.reset_allowed) {
      result_.state.declared = "attached";
      result_.notes.push_back("attached to running engines: nothing was reset");
      return StepOutcome::Passed();
    }
    StepOutcome outcome = Restarts();
    if (!outcome.passed()) return outcome;
    outcome = ClearAndRead();
    if (!outcome.passed()) return outcome;
    return Canaries();
  }

 private:
  // What has no reset is stopped and started again, engines before routers that watch them.
  StepOutcome Restarts() {
    for (const PlannedProcess& process : stack_.processes) {
      if (!process.restart_to_reset || process.attached) continue;
      auto link = run_.registry->Link(process.machine);
      if (!link.ok()) return Broken(link.status(), process.machine, "restarting " + process.spec.id());
      watch_.Expect(process.spec.id(), true);
      v1::StopProcessRequest stop;
      stop.set_request_id(
          run_.RequestId(process.machine, absl::StrCat("reset-stop/", tag_, "/", process.spec.id())));
      *stop.mutable_lease() = run_.Lease(process.machine);
      stop.set_id(process.spec.id());
      stop.set_grace_ns(std::min<int64_t>(process.spec.stop_grace_ns(), kRestartGrace.count()));
      auto stopped = (*link)->StopProcess(stop, run_.stop);
      if (!stopped.ok()) return Broken(stopped.status(), process.machine, "stopping " + process.spec.id());
      watch_.Forget(process.spec.id());
      Status started = StartOne(&run_, process.machine, process.spec,
                                absl::StrCat("reset-start/", tag_, "/", process.spec.id()), &watch_);
      if (!started.ok()) return Broken(started, process.machine, "starting " + process.spec.id() + " again");
      const Nanoseconds within = ReadyWithin(run_, process.spec);
      if (!watch_.AwaitReady({process.spec.id()}, run_.clock->Steady() + within)) {
        if (!watch_.FirstDeath() && !run_.stop.stop_requested())
          return NotTold(process.spec.id(), process.machine, within);
        return Died();
      }
      watch_.Expect(process.spec.id(), false);
      result_.state.tiers.push_back({process.spec.id(), "restart", 0.0});
    }
    return StepOutcome::Passed();
  }

  // Engines of all machines first, then the stores, for an engine that is being cleared may still write; only
  // then is everything read back.
  StepOutcome ClearAndRead() {
    std::erase_if(result_.state.tiers, [](const auto& tier) {
      return tier.method != "restart" && !tier.method.starts_with("canary");
    });
    StepOutcome outcome =
        OnAll("engines", [](const PlannedProcess& process, v1::ResetCachesRequest* request) {
          if (process.role != spec::Role::kStore) Add(process.resets, request->mutable_resets());
        });
    if (outcome.passed())
      outcome = OnAll("stores", [](const PlannedProcess& process, v1::ResetCachesRequest* request) {
        if (process.role == spec::Role::kStore) Add(process.resets, request->mutable_resets());
      });
    if (outcome.passed())
      outcome = OnAll("empty", [](const PlannedProcess& process, v1::ResetCachesRequest* request) {
        Add(process.empties, request->mutable_empties());
      });
    if (!outcome.passed() && watch_.FirstDeath()) return Died();
    return outcome;
  }
  static void Add(const std::vector<v1::ResetStep>& steps,
                  google::protobuf::RepeatedPtrField<v1::ResetStep>* to) {
    to->Add(steps.begin(), steps.end());
  }

  // One call of every machine that has something to do, all at once.
  template <class Fill>
  StepOutcome OnAll(const std::string& stage, Fill fill) {
    std::map<std::string, v1::ResetCachesRequest> requests;
    for (const PlannedProcess& process : stack_.processes) {
      v1::ResetCachesRequest one;
      fill(process, &one);
      if (one.resets_size() + one.empties_size() > 0) requests[process.machine].MergeFrom(one);
    }
    std::vector<std::string> machines;
    for (const auto& [machine, request] : requests) machines.push_back(machine);
    std::mutex mutex;  // outcome, result_
    StepOutcome outcome;
    ForEachMachine(machines, [&](const std::string& machine) {
      v1::ResetCachesRequest request = requests[machine];
      request.set_request_id(run_.RequestId(machine, absl::StrCat("reset/", tag_, "/", stage)));
      *request.mutable_lease() = run_.Lease(machine);
      auto link = run_.registry->Link(machine);
      auto answer = link.ok() ? (*link)->ResetCaches(request, run_.stop)
                              : Result<v1::ResetCachesResponse>(link.status());
      std::lock_guard lock(mutex);
      if (!answer.ok()) {
        outcome = Broken(answer.status(), machine, "clearing the caches");
        return;
      }
      for (const v1::CheckResult& check : answer->results()) Take(machine, check);
    });
    return outcome;
  }

  // The agent names what it did "reset/<process>" and "empty/<process>"; both must have passed.
  void Take(const std::string& machine, const v1::CheckResult& check) {
    const size_t colon = check.id().find_first_of("/:");
    const std::string kind = check.id().substr(0, colon);
    const std::string process = colon == std::string::npos ? check.id() : check.id().substr(colon + 1);
    const bool passed = check.outcome() == v1::OUTCOME_PASS || check.outcome() == v1::OUTCOME_NOTE;
    if (kind == "reset") {
      if (!passed)
        result_.state.tiers.push_back(
            {process, "reset",
             NotMeasured{absl::StrCat("the reset failed on ", machine, ": ", check.observed())}});
      return;
    }
    result_.state.tiers.push_back(
        {process, MethodOf(process), passed ? Measured<double>(0.0) : NumberIn(check.observed())});
  }

  // How the process's cache is read back: "DBSIZE", "series x", "GET /path".
  std::string MethodOf(const std::string& id) const {
    for (const PlannedProcess& process : stack_.processes) {
      if (process.spec.id() != id || process.empties.empty()) continue;
      const v1::ResetStep& step = process.empties.front();
      if (step.method() == "REDIS") return step.body();
      if (step.method() == "SERIES") return absl::StrCat("series ", step.body());
      const size_t path = step.url().find('/', step.url().find("://") + 3);
      return absl::StrCat(step.method(), " ", path == std::string::npos ? "/" : step.url().substr(path));
    }
    return "read back";
  }

  StepOutcome Canaries() {
    Measured<double> all = NotMeasured{"no engine of the stack could be asked"};
    bool asked = false;
    for (const PlannedProcess& process : stack_.processes) {
      if (!process.canary || !IsEngine(process)) continue;
      auto prompt = verified_.canaries.find(process.spec.id());
      Measured<double> hits = NotMeasured{"no prompt of this engine alone is known"};
      // Split engines are only reached through the router: their reset was answered, which is all we can
      // read.
      if (prompt != verified_.canaries.end()) {
        StepOutcome outcome = AskCanary(process, prompt->second, &hits);
        if (!outcome.passed()) return outcome;
        cleared_again_ = true;
      }
      result_.state.tiers.push_back({process.spec.id(), "canary", hits});
      if (!asked || !hits.has_value()) {
        all = hits;
      } else if (all.has_value()) {
        all = *all + *hits;
      }
      asked = true;
    }
    // A cache or store that cannot be asked what it holds: its engines got nothing of it.
    for (const PlannedProcess& process : stack_.processes) {
      if (HoldsKv(process) && !IsEngine(process) && process.empties.empty())
        result_.state.tiers.push_back({process.spec.id(), "canary of the engines", all});
    }
    if (!cleared_again_) return StepOutcome::Passed();
    // The canary itself is now cached: clear once more. What is read back then counts.
    tag_ += "/after-canary";
    return ClearAndRead();
  }

  // An engine that fails one request in twenty is asked again. What it counted of a request that failed
  // decides as well as an answer: a second try would hit what the first one left.
  StepOutcome AskCanary(const PlannedProcess& process, const std::string& prompt, Measured<double>* hits) {
    Status failed;
    for (int tries = 1; tries <= kCanaryTries; ++tries) {
      auto before = Read(run_, stack_, process);
      if (before.ok()) {
        auto answer = Ask(run_, process.machine, process.base_url, verified_.model, prompt, 1);
        *hits = Hits(process, *before, answer.ok() ? std::chrono::seconds(5) : 2 * run_.timing.poll);
        if (answer.ok() || hits->has_value()) return StepOutcome::Passed();
        failed = answer.status();
      } else {
        failed = before.status();
      }
      if (watch_.FirstDeath()) return Died();
      if (ErrorOf(failed).code != kEngineFailed || !WaitFor(run_.stop, run_.timing.poll)) break;
    }
    return Broken(failed, process.machine, "asking the canary prompt of " + process.spec.id());
  }

  // Prompt tokens that the engine says it took from a cache since `before`.
  Measured<double> Hits(const PlannedProcess& process, const EngineReading& before, Nanoseconds within) {
    const Nanoseconds deadline = run_.clock->Steady() + within;
    Measured<double> hits = NotMeasured{"the engine's counters did not move"};
    do {
      auto after = Read(run_, stack_, process);
      if (!after.ok()) continue;
      stats::EngineAttribution moved = Between(stack_, process, "", before, *after, true);
      if (!moved.sources.has_value()) {
        hits = NotMeasured{moved.sources.reason()};
      } else if (moved.sources.value().prompt > 0) {
        return moved.sources.value().reused();
      }
    } while (run_.clock->Steady() < deadline && WaitFor(run_.stop, run_.timing.poll));
    return hits;
  }

  StepOutcome Broken(const Status& status, const std::string& machine, const std::string& doing) {
    if (run_.stop.stop_requested()) return StepOutcome::Stopped();
    return {StepOutcome::Kind::kInterrupted, {ReasonOf(status, machine, doing)}};
  }
  StepOutcome Died() {
    if (auto death = watch_.FirstDeath())
      return {StepOutcome::Kind::kInterrupted, {DeathReason(&run_, *death, "process_died")}};
    return StepOutcome::Stopped();
  }

  JobRun& run_;
  const StackPlan& stack_;
  std::string tag_;
  const VerifyEvidence& verified_;
  ProcessWatch& watch_;
  ResetResult& result_;
  bool cleared_again_ = false;
};

}  // namespace

StepOutcome ResetPool(JobRun* run, const StackPlan& stack, const std::string& tag,
                      const VerifyEvidence& verified, ProcessWatch* watch, ResetResult* result) {
  return Resetter(run, stack, tag, verified, watch, result).Run();
}

}  // namespace poolmark::controller

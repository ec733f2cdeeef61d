#include "controller/steps/verify.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "controller/steps/engine_versions.h"
#include "controller/steps/evidence_json.h"
#include "controller/steps/exposure.h"
#include "controller/steps/patience.h"
#include "controller/steps/pool_checks.h"
#include "controller/steps/verify_diagnosis.h"

namespace poolmark::controller {
namespace {

constexpr int kAnswerTokens = 8;
constexpr int kStreamTokens = 32;  // some of a tiny model's tokens are no text

class Verifier {
 public:
  Verifier(JobRun* run, const StackPlan& stack, uint32_t cycle, VerifyEvidence* evidence)
      : run_(*run), stack_(stack), cycle_(cycle), evidence_(*evidence) {
    for (const PlannedProcess& process : stack.processes) {
      if (IsEngine(process)) engines_.push_back(&process);
    }
    // At least two chunks and four blocks, so that whole ones are there to load.
    words_ = std::max({256, 2 * stack.kv.chunk_tokens.value_or(0), 4 * stack.kv.block_tokens}) + 32;
  }

  void Run() {
    if (!ThroughRouter()) return;
    evidence_.versions = ReadVersions(run_, stack_);
    evidence_.simulated = FindSimulated(run_, stack_, evidence_.versions);
    if (auto check = CheckVersions(stack_, evidence_.versions)) {
      run_.Check(*check);
      evidence_.checks.push_back(*std::move(check));
    }
    const bool split =
        stack_.strategy == spec::Strategy::kSplit || stack_.strategy == spec::Strategy::kSplitOffload;
    if (split) {
      if (!Split()) return;
    } else if (!EveryEngine()) {
      return;
    }
    if (stack_.strategy == spec::Strategy::kShared) Shared(engines_);
    if (stack_.strategy == spec::Strategy::kSplitOffload && HasRemoteTier()) SharedByPrefill();
  }

 private:
  v1::CheckResult* Start(const std::string& id, const std::string& expected) {
    v1::CheckResult check;
    check.set_id(id);
    check.set_expected(expected);
    began_ = run_.clock->Steady();
    evidence_.checks.push_back(std::move(check));
    return &evidence_.checks.back();
  }
  bool End(v1::CheckResult* check, bool passed, const std::string& observed, const std::string& hint = "") {
    check->set_outcome(passed ? v1::OUTCOME_PASS : v1::OUTCOME_FAIL);
    if (!failed_requests_.empty()) {
      check->set_evidence(absl::StrCat(check->evidence(), check->evidence().empty() ? "" : "; ",
                                       failed_requests_.size(),
                                       " requests failed and were sent again: ", failed_requests_.back()));
      failed_requests_.clear();
    }
    check->set_observed(observed);
    if (!passed) check->set_hint(hint);
    check->set_duration_ns((run_.clock->Steady() - began_).count());
    run_.Check(*check);
    return passed;
  }

  // An engine that fails one request in twenty is no engine that does not work: it is asked three times, and
  // the evidence says so. One that does not answer at all is not.
  template <class Send>
  Result<Completion> Insist(Send send) {
    for (int tries = 1;; ++tries) {
      auto answer = Patiently(run_, send);
      if (answer.ok() || tries == 3 || ErrorOf(answer.status()).code != kEngineFailed) return answer;
      failed_requests_.push_back(std::string(answer.status().message()));
      if (!WaitFor(run_.stop, run_.timing.poll)) return answer;
    }
  }
  Result<Completion> AskAgain(const std::string& machine, const std::string& url, const std::string& prompt,
                              int tokens) {
    return Insist([&] { return Ask(run_, machine, url, evidence_.model, prompt, tokens); });
  }
  Result<Completion> StreamAgain(const std::string& machine, const std::string& url, bool chat,
                                 const std::string& prompt) {
    return Insist(
        [&] { return AskStream(run_, machine, url, chat, evidence_.model, prompt, kStreamTokens); });
  }

  // The APIs that the workloads ask: plain completions, chat, or both.
  std::set<bool> Apis() const {
    std::set<bool> chat;
    for (const spec::WorkloadSpec& workload : run_.job->workloads) {
      const auto options = ParseJson(workload.options_json);
      chat.insert(options.ok() && options->is_object() && options->value("api", "") == "chat");
    }
    return chat;
  }

  Result<EngineReading> Reading(const PlannedProcess& engine) const {
    return Patiently(run_, [&] { return Read(run_, stack_, engine); });
  }

  std::string Prompt(const std::string& tag) const {
    return UniquePrompt(absl::StrCat(run_.job_id, "/", cycle_, "/", stack_.name, "/", tag), words_);
  }

  bool ThroughRouter() {
    v1::CheckResult* check = Start("tokens_through_router", "a request to the pool's entry returns tokens");
    evidence_.model = stack_.model;
    if (evidence_.model.empty()) {
      auto model = Patiently(run_, [&] { return FirstModel(run_, run_.plan->head, stack_.entry_url); });
      if (!model.ok())
        return End(check, false, std::string(model.status().message()),
                   "name the model in the stack's params");
      evidence_.model = *model;
    }
    // As the load will ask: what streams nothing would fail every one of its requests.
    std::vector<std::string> seen;
    for (const bool chat : Apis()) {
      auto answer = StreamAgain(run_.plan->head, stack_.entry_url, chat, Prompt(chat ? "chat" : "router"));
      if (!answer.ok()) {
        return End(check, false, std::string(answer.status().message()),
                   "an engine that is healthy but gives no tokens hangs; see the logs of router and engines");
      }
      seen.push_back(absl::StrCat(answer->completion_tokens.value_or(0), " tokens in a stream of ",
                                  answer->events, " events", chat ? " of the chat API" : ""));
    }
    return End(check, true, absl::StrCat(stack_.entry_url, " answered with ", absl::StrJoin(seen, ", ")));
  }

  std::string VersionOf(const PlannedProcess& engine) const {
    auto found = evidence_.versions.find(engine.spec.id());
    return found == evidence_.versions.end() ? "" : found->second;
  }

  // Every engine answers by itself and counts what it was asked: its counters are the ones we will read.
  bool EveryEngine() {
    v1::CheckResult* check = Start("engines_count", "every engine answers, and its own counters move");
    std::vector<std::string> seen;
    for (const PlannedProcess* engine : engines_) {
      if (engine->metrics_url.empty())
        return End(check, false, absl::StrCat(engine->spec.id(), " has no metrics address"),
                   "name one in the stack file");
      auto before = Reading(*engine);
      if (!before.ok()) return End(check, false, std::string(before.status().message()));
      const std::string prompt = Prompt(absl::StrCat("engine/", engine->spec.id()));
      // Plain completions whatever the workloads ask: the same prompt is the engine's canary later.
      auto answer = StreamAgain(engine->machine, engine->base_url, false, prompt);
      if (!answer.ok())
        return End(check, false,
                   absl::StrCat(engine->spec.id(), ": ", std::string(answer.status().message())));
      stats::EngineAttribution moved;
      EngineReading last;
      const bool counted = Until(
          [&](const EngineReading& after) {
            last = after;
            moved = Between(stack_, *engine, VersionOf(*engine), *before, after);
            return moved.sources.has_value() && moved.sources.value().prompt > 0;
          },
          *engine, std::chrono::seconds(5));
      if (!counted) {
        return End(check, false,
                   absl::StrCat(engine->spec.id(), ": ",
                                moved.sources.has_value() ? "its prompt token counter did not move"
                                                          : moved.sources.reason()),
                   "the metrics address may belong to another process, or this engine version names its "
                   "counters differently");
      }
      Prove(check->id(), *engine, *before, last, moved.series);
      Sum(check->id(), *engine, "prompt tokens", Prompts(*engine, *before), moved.sources.value().prompt);
      evidence_.canaries[engine->spec.id()] = prompt;
      seen.push_back(
          absl::StrCat(engine->spec.id(), " ", static_cast<int64_t>(moved.sources.value().prompt)));
    }
    return End(check, true, absl::StrCat("prompt tokens counted: ", absl::StrJoin(seen, ", ")));
  }

  // Prefill and decode engines are reached through the router; asked directly they compute a prompt by
  // themselves, which is what a canary needs. Those that refuse have none.
  void Canaries() {
    for (const PlannedProcess* engine : engines_) {
      const std::string prompt = Prompt(absl::StrCat("canary/", engine->spec.id()));
      auto answer = AskAgain(engine->machine, engine->base_url, prompt, 1);
      if (answer.ok()) evidence_.canaries[engine->spec.id()] = prompt;
    }
  }

  // Reads until `good` or the time is over.
  template <class Good>
  bool Until(Good good, const PlannedProcess& engine, Nanoseconds within) {
    const Nanoseconds deadline = run_.clock->Steady() + within;
    do {
      auto after = Read(run_, stack_, engine);
      if (after.ok() && good(*after)) return true;
    } while (run_.clock->Steady() < deadline && WaitFor(run_.stop, run_.timing.poll));
    return false;
  }

  // What the engine's counters together say, from its start to `before`, and how far it moved since.
  void Sum(const std::string& check, const PlannedProcess& engine, const std::string& what, double before,
           double moved) {
    evidence_.proofs[check].push_back(
        {engine.spec.id(), engine.machine, what, before, before + moved, "more than before"});
  }
  // Everything the engine had counted when it was read.
  stats::EngineAttribution Counted(const PlannedProcess& engine, const EngineReading& reading) const {
    EngineReading zero = reading;
    for (auto& [key, value] : zero.engine) value = 0;
    for (auto& [key, value] : zero.cache) value = 0;
    return Between(stack_, engine, VersionOf(engine), zero, reading);
  }
  double Prompts(const PlannedProcess& engine, const EngineReading& reading) const {
    const stats::EngineAttribution counted = Counted(engine, reading);
    return counted.sources.has_value() ? counted.sources.value().prompt : 0;
  }
  // The series that the figure was read from, as they stood before and after.
  void Prove(const std::string& check, const PlannedProcess& engine, const EngineReading& before,
             const EngineReading& after, const std::vector<std::string>& series) {
    auto add = [&](const Totals& old, const Totals& now, const PlannedProcess& process) {
      for (const std::string& name : series) {
        auto value = now.find(name);
        if (value == now.end()) continue;
        auto was = old.find(name);
        evidence_.proofs[check].push_back({process.spec.id(), process.machine, name,
                                           was == old.end() ? std::nullopt : std::optional(was->second),
                                           value->second, ""});
      }
    };
    add(before.engine, after.engine, engine);
    const PlannedProcess* cache = CacheOf(stack_, engine);
    if (cache != nullptr) add(before.cache, after.cache, *cache);
  }

  // The engine's own counters of what went wrong, where they rose.
  static void AddErrors(const PlannedProcess& engine, const EngineReading& before, const EngineReading& after,
                        std::map<std::string, double>* errors) {
    for (const auto& [key, value] : after.engine) {
      const bool names = key.find("error") != std::string::npos || key.find("fail") != std::string::npos ||
                         key.find("mismatch") != std::string::npos ||
                         key.find("damaged") != std::string::npos;
      if (!names || key.ends_with("_created")) continue;
      auto was = before.engine.find(key);
      const double rise = value - (was == before.engine.end() ? 0 : was->second);
      if (rise > 0) (*errors)[absl::StrCat(engine.spec.id(), ": ", key)] += rise;
    }
  }

  // The writer and the reader: on two machines where the pool has two.
  static std::pair<const PlannedProcess*, const PlannedProcess*> Pair(
      const std::vector<const PlannedProcess*>& engines) {
    for (const PlannedProcess* a : engines) {
      for (const PlannedProcess* b : engines) {
        if (a->machine != b->machine) return {a, b};
      }
    }
    return {engines.front(), engines.back()};
  }

  bool HasRemoteTier() const {
    return std::any_of(stack_.tiers.begin(), stack_.tiers.end(),
                       [](const PlannedTier& tier) { return tier.source == spec::TierSource::kRemote; });
  }

  // Reuse is counted on the prefill side (M7): two prefill machines share a store, or nobody can show it.
  void SharedByPrefill() {
    std::vector<const PlannedProcess*> prefill;
    std::set<std::string> machines;
    for (const PlannedProcess* engine : engines_) {
      if (engine->role != spec::Role::kPrefill) continue;
      prefill.push_back(engine);
      machines.insert(engine->machine);
    }
    if (machines.size() >= 2) return Shared(prefill);
    v1::CheckResult* check =
        Start("cross_machine_load", "one prefill machine loads KV that another computed, through the store");
    check->set_outcome(v1::OUTCOME_SKIPPED);
    check->set_observed("the pool has one prefill machine: no other one reads what it stored");
    run_.Check(*check);
  }

  void Shared(const std::vector<const PlannedProcess*>& engines) {
    v1::CheckResult* check =
        Start("cross_machine_load",
              "one machine loads KV that another machine computed, by the reader's own counters");
    if (engines.size() < 2) {
      End(check, false, "the pool has one engine: nobody is there to load what it computed",
          "give the pool a second machine");
      return;
    }
    const auto [writer, reader] = Pair(engines);
    stats::EngineAttribution wrote, read;
    std::map<std::string, double> errors;
    const Nanoseconds deadline = run_.clock->Steady() + run_.timing.kv_settle;
    Nanoseconds settle = run_.timing.poll * 2;
    for (int attempt = 0; !run_.stop.stop_requested(); ++attempt) {
      // A prompt per attempt: what the reader once computed it would find in its own cache.
      const std::string prompt = Prompt(absl::StrCat("shared/", attempt));
      auto writer_before = Reading(*writer);
      auto computed = AskAgain(writer->machine, writer->base_url, prompt, kAnswerTokens);
      if (!writer_before.ok() || !computed.ok()) {
        End(check, false,
            std::string((computed.ok() ? writer_before.status() : computed.status()).message()));
        return;
      }
      if (!WaitFor(run_.stop, settle)) return;
      auto writer_after = Reading(*writer);
      if (writer_after.ok())
        wrote = Between(stack_, *writer, VersionOf(*writer), *writer_before, *writer_after);
      auto before = Reading(*reader);
      auto loaded = AskAgain(reader->machine, reader->base_url, prompt, kAnswerTokens);
      if (!before.ok() || !loaded.ok()) {
        End(check, false, std::string((loaded.ok() ? before.status() : loaded.status()).message()));
        return;
      }
      EngineReading last;
      const bool proven = Until(
          [&](const EngineReading& after) {
            last = after;
            read = Between(stack_, *reader, VersionOf(*reader), *before, after);
            return read.sources.has_value() && read.sources.value().remote > 0;
          },
          *reader, std::min<Nanoseconds>(std::chrono::seconds(2), run_.timing.kv_settle));
      if (proven) {
        if (writer_after.ok() && wrote.sources.has_value()) {
          Prove(check->id(), *writer, *writer_before, *writer_after, wrote.series);
          check->set_evidence(absl::StrCat(
              writer->spec.id(), " computed ", static_cast<int64_t>(wrote.sources.value().computed),
              " of the ", static_cast<int64_t>(wrote.sources.value().prompt),
              " tokens before; then the same prompt went to ", reader->spec.id()));
        }
        Prove(check->id(), *reader, *before, last, read.series);
        const stats::EngineAttribution counted = Counted(*reader, *before);
        Sum(check->id(), *reader, "prompt tokens from remote KV",
            counted.sources.has_value() ? counted.sources.value().remote : 0, read.sources.value().remote);
        End(check, true,
            absl::StrCat(reader->spec.id(), " on ", reader->machine, " loaded ",
                         static_cast<int64_t>(read.sources.value().remote), " of ",
                         static_cast<int64_t>(read.sources.value().prompt), " tokens that ",
                         writer->spec.id(), " on ", writer->machine, " computed"));
        return;
      }
      if (run_.clock->Steady() >= deadline) {
        Prove(check->id(), *reader, *before, last, read.series);
        AddErrors(*reader, *before, last, &errors);
        if (writer_after.ok()) AddErrors(*writer, *writer_before, *writer_after, &errors);
        break;
      }
      settle = std::min<Nanoseconds>(settle * 2, std::chrono::seconds(5));
    }
    evidence_.diagnosis = DiagnoseShared(run_, stack_, *writer, *reader, wrote, read, errors);
    End(check, false,
        absl::StrCat(reader->spec.id(), " on ", reader->machine, " loaded no KV of ", writer->spec.id(),
                     " on ", writer->machine, " within ", run_.timing.kv_settle.count() / 1'000'000'000,
                     " s"),
        evidence_.diagnosis);
  }

  bool Split() {
    v1::CheckResult* check = Start(
        "decode_from_prefill", "a decode machine generates tokens from KV that a prefill machine computed");
    std::vector<const PlannedProcess*> decode;
    std::copy_if(engines_.begin(), engines_.end(), std::back_inserter(decode),
                 [](const PlannedProcess* p) { return p->role == spec::Role::kDecode; });
    std::map<const PlannedProcess*, EngineReading> before;
    for (const PlannedProcess* engine : decode) {
      auto reading = Reading(*engine);
      if (!reading.ok())
        return End(check, false,
                   absl::StrCat(engine->spec.id(), ": ", std::string(reading.status().message())));
      before[engine] = *reading;
    }
    auto answer = AskAgain(run_.plan->head, stack_.entry_url, Prompt("split"), kAnswerTokens);
    if (!answer.ok()) return End(check, false, std::string(answer.status().message()));
    const Nanoseconds deadline = run_.clock->Steady() + run_.timing.kv_settle;
    std::vector<std::pair<const PlannedProcess*, stats::EngineAttribution>> last;
    do {
      last.clear();
      for (const PlannedProcess* engine : decode) {
        auto after = Read(run_, stack_, *engine);
        if (!after.ok()) continue;
        stats::EngineAttribution moved = Between(stack_, *engine, VersionOf(*engine), before[engine], *after);
        if (moved.transferred_tokens > 0) {
          Prove(check->id(), *engine, before[engine], *after, moved.series);
          Sum(check->id(), *engine, "prompt tokens received from prefill",
              Counted(*engine, before[engine]).transferred_tokens, moved.transferred_tokens);
          Canaries();
          return End(check, true,
                     absl::StrCat(engine->spec.id(), " on ", engine->machine, " generated ",
                                  answer->completion_tokens.value_or(0), " tokens from ",
                                  static_cast<int64_t>(moved.transferred_tokens),
                                  " tokens of KV that a prefill machine computed"));
        }
        last.emplace_back(engine, std::move(moved));
      }
    } while (run_.clock->Steady() < deadline && WaitFor(run_.stop, run_.timing.poll));
    evidence_.diagnosis = DiagnoseSplit(run_, stack_, last);
    return End(check, false, "no decode engine's counters show KV from a prefill machine",
               evidence_.diagnosis);
  }

  JobRun& run_;
  const StackPlan& stack_;
  const uint32_t cycle_;
  VerifyEvidence& evidence_;
  std::vector<const PlannedProcess*> engines_;
  std::vector<std::string> failed_requests_;  // of the check that runs
  int words_ = 0;
  Nanoseconds began_{0};
};

}  // namespace

StepOutcome Verify(JobRun* run, const StackPlan& stack, uint32_t cycle, VerifyEvidence* evidence) {
  const Nanoseconds started = run->clock->Wall();
  Verifier(run, stack, cycle, evidence).Run();
  CheckExposure(run, &evidence->checks);
  Status written = WriteVerify(*run, cycle, stack.name, *evidence, started);
  if (run->stop.stop_requested()) return StepOutcome::Stopped();
  StepOutcome outcome;
  for (const v1::CheckResult& check : evidence->checks) {
    if (!Stops(check)) continue;
    outcome.kind = StepOutcome::Kind::kFailed;
    outcome.reasons.push_back(MakeReason(
        "verify_failed",
        absl::StrCat("verification ", check.id(),
                     check.machine().empty() ? "" : absl::StrCat(" on ", check.machine()), ": ",
                     check.observed(), check.hint().empty() ? "" : absl::StrCat("; ", check.hint())),
        check.machine(), check.id()));
  }
  if (outcome.passed() && !written.ok()) return StepOutcome::Failed("disk", std::string(written.message()));
  return outcome;
}

}  // namespace poolmark::controller

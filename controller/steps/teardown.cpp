#include "controller/steps/teardown.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "controller/steps/launch.h"

namespace poolmark::controller {
namespace {

// Asks the shared store to forget everything and reads back that it did. Best effort: removing the process
// and its files is the proof; this one tells a store that ignored its flush.
std::vector<v1::CheckResult> FlushStore(JobRun* run, const StackPlan& stack, std::stop_token shutdown) {
  std::vector<v1::CheckResult> results;
  for (const PlannedProcess& process : stack.processes) {
    if (process.role != spec::Role::kStore || process.resets.empty() ||
        (process.attached && !stack.reset_allowed))
      continue;
    if (run->registry->Silence(process.machine) > run->registry->timing().silent) continue;
    auto link = run->registry->Link(process.machine);
    if (!link.ok()) continue;
    v1::ResetCachesRequest request;
    request.set_request_id(run->RequestId(
        process.machine, absl::StrCat("flush/", process.spec.id(), "/", run->clock->Steady().count())));
    *request.mutable_lease() = run->Lease(process.machine);
    for (const v1::ResetStep& step : process.resets) *request.add_resets() = step;
    for (const v1::ResetStep& step : process.empties) *request.add_empties() = step;
    auto answer = (*link)->ResetCaches(request, shutdown);
    if (!answer.ok()) continue;  // it may be gone already: that is why we tear down
    for (const v1::CheckResult& result : answer->results()) {
      results.push_back(result);
      results.back().set_machine(process.machine);
    }
  }
  return results;
}

// A ledger has an item for each process, directory, port and file: dozens, and a tenth of a KiB each.
constexpr size_t kMaxItems = 20'000;
constexpr size_t kMaxItemBytes = 8u << 20;
// In reasons and lists.
constexpr size_t kNamedLeftovers = 20;
constexpr size_t kNameBytes = 300;

// False: the agent sends more than any ledger has.
bool Take(const v1::TeardownResponse& response, size_t* bytes, MachineTeardown* result, bool* complete) {
  *bytes += response.ByteSizeLong();
  if (*bytes > kMaxItemBytes || result->items.size() >= kMaxItems) return false;
  if (response.has_item()) result->items.push_back(response.item());
  if (!response.last()) return true;
  *complete = true;
  result->leftovers.assign(response.leftovers().begin(), response.leftovers().end());
  bool clean = response.clean() && result->leftovers.empty();
  // The agent's word is checked against its own items: an unknown or left item is never clean.
  for (const v1::LedgerItem& item : result->items) {
    if (item.state() == v1::LEDGER_ITEM_STATE_GONE || item.state() == v1::LEDGER_ITEM_STATE_ALREADY_GONE)
      continue;
    clean = false;
    const std::string name = absl::StrCat(item.kind(), " ", item.name());
    if (std::find(result->leftovers.begin(), result->leftovers.end(), name) == result->leftovers.end())
      result->leftovers.push_back(name);
  }
  result->verdict = clean ? v1::TEARDOWN_VERDICT_CLEAN : v1::TEARDOWN_VERDICT_DIRTY;
  return true;
}

std::string Named(const std::vector<std::string>& leftovers) {
  std::string text;
  for (size_t i = 0; i < std::min(leftovers.size(), kNamedLeftovers); ++i) {
    const bool whole = leftovers[i].size() <= kNameBytes;
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    whole ? leftovers[i] : absl::StrCat(ValidUtf8(leftovers[i].substr(0, kNameBytes)), "…"));
  }
  if (leftovers.size() > kNamedLeftovers)
    absl::StrAppend(&text, " and ", leftovers.size() - kNamedLeftovers, " more");
  return text;
}

MachineTeardown TearDownMachine(JobRun* run, const std::string& machine, uint32_t cycle,
                                const std::string& cause, Nanoseconds grace, bool keep_lease,
                                std::stop_token shutdown) {
  MachineTeardown result;
  result.machine = machine;
  const Nanoseconds began = run->clock->Steady();
  int attempt = 0;
  while (!shutdown.stop_requested()) {
    // An agent that came back may have done it itself, by its lease's deadline or by our order at Register.
    if (auto held = run->registry->Held(machine, run->job_id);
        held && held->state() != "running" && held->clean() && held->open_items() == 0 && attempt > 0) {
      result.verdict = v1::TEARDOWN_VERDICT_CLEAN;
      result.note = absl::StrCat("torn down by the machine itself (", held->state(), "), with proof");
      return result;
    }
    auto link = run->registry->Link(machine);
    if (link.ok()) {
      v1::TeardownRequest request;
      request.set_request_id(run->RequestId(machine, absl::StrCat("teardown/", cycle, "/", attempt)));
      *request.mutable_lease() = run->Lease(machine);
      request.set_cause(cause);
      request.set_grace_ns(run->force() ? 0 : grace.count());
      request.set_keep_lease(keep_lease);
      result.items.clear();
      bool complete = false, too_much = false;
      size_t bytes = 0;
      Status status = (*link)->Teardown(request, shutdown, [&](const v1::TeardownResponse& response) {
        too_much = !Take(response, &bytes, &result, &complete);
        return !too_much;
      });
      if (complete) {
        // Whoever took the lease has a ledger of it, with the job's directory at the least.
        if (result.items.empty() && run->registry->HasTaken(machine, run->job_id)) {
          result.verdict = v1::TEARDOWN_VERDICT_UNKNOWN;
          result.note =
              "its agent's ledgers know nothing of a run that was started there: another agent has its name, "
              "or "
              "its state directory was lost or changed";
        }
        return result;
      }
      if (too_much) {
        result.verdict = v1::TEARDOWN_VERDICT_UNKNOWN;
        result.note = absl::StrCat("its agent lists more than ", result.items.size(), " items in ", bytes,
                                   " bytes, which no ledger has: look at the machine itself");
        return result;
      }
      if (ErrorOf(status).code == "stale_epoch") {
        // Final: what runs there now is somebody else's, and so is its end.
        result.verdict = v1::TEARDOWN_VERDICT_UNKNOWN;
        result.note = absl::StrCat("another controller has taken the machine over: ", status.message());
        return result;
      }
      result.note =
          status.ok() ? "the agent ended the tear-down without its last word" : std::string(status.message());
    } else {
      result.note = std::string(link.status().message());
    }
    ++attempt;
    // While it is silent its guard counts down; past that, and past a grace of ours, nothing more will be
    // heard.
    const Nanoseconds silence = std::min(run->registry->Silence(machine), run->clock->Steady() - began);
    if (silence > run->registry->timing().guard_done) {
      result.verdict = v1::TEARDOWN_VERDICT_UNKNOWN;
      result.note = absl::StrCat("not reached: ", result.note);
      return result;
    }
    if (run->registry->Silence(machine) < run->registry->timing().silent && attempt >= 10) {
      result.note = absl::StrCat("it answers, but not the tear-down: ", result.note);
      return result;
    }
    WaitFor(shutdown, std::min<Nanoseconds>(std::chrono::seconds(2), run->timing.poll * (1 + attempt)));
  }
  return result;
}

}  // namespace

v1::TeardownVerdict Worst(v1::TeardownVerdict a, v1::TeardownVerdict b) {
  return std::max(a, b);
}

namespace {

// The longest that a process of the stack on that machine asks for: an engine may have a cache to write out.
Nanoseconds GraceOn(const JobRun& run, const StackPlan* stack, const std::string& machine) {
  std::optional<Nanoseconds> longest;
  if (stack != nullptr) {
    for (const PlannedProcess& process : stack->processes) {
      if (process.machine != machine || process.attached) continue;
      longest = std::max(longest.value_or(Nanoseconds(0)), Nanoseconds(process.spec.stop_grace_ns()));
    }
  }
  return longest && longest->count() > 0 ? *longest : run.timing.stop_grace;
}

void Tell(const JobRun& run, const MachineTeardown& one) {
  v1::JobEvent row;
  row.set_kind("teardown");
  row.set_machine(one.machine);
  row.set_message(absl::StrCat(v1::TeardownVerdict_Name(one.verdict).substr(sizeof("TEARDOWN_VERDICT_") - 1),
                               ", ", one.items.size(), " items",
                               one.leftovers.empty() ? "" : absl::StrCat("; left: ", Named(one.leftovers)),
                               one.note.empty() ? "" : absl::StrCat("; ", one.note)));
  run.event(std::move(row));
}

// The job's verdict, and what follows for a machine that is not clean.
void Count(const JobRun& run, const MachineTeardown& one, TeardownResult* result) {
  result->verdict = Worst(result->verdict, one.verdict);
  if (one.verdict == v1::TEARDOWN_VERDICT_CLEAN) return;
  const bool dirty = one.verdict == v1::TEARDOWN_VERDICT_DIRTY;
  const std::string what = dirty ? absl::StrCat("left: ", Named(one.leftovers)) : one.note;
  result->quarantine.emplace_back(one.machine, absl::StrCat("tear-down of job ", run.job_id,
                                                            dirty ? " not clean: " : " not proven: ", what));
  result->reasons.push_back(MakeReason(dirty ? "teardown_dirty" : "teardown_unknown",
                                       absl::StrCat("tear-down on ", one.machine, ": ", what), one.machine));
}

}  // namespace

TeardownResult Teardown(JobRun* run, const StackPlan* stack, uint32_t cycle, const std::string& cause,
                        bool keep_lease, std::stop_token shutdown) {
  TeardownResult result;
  if (stack != nullptr) result.store = FlushStore(run, *stack, shutdown);
  std::mutex mutex;  // result
  auto tear_down = [&](const std::string& machine) {
    MachineTeardown one =
        TearDownMachine(run, machine, cycle, cause, GraceOn(*run, stack, machine), keep_lease, shutdown);
    Tell(*run, one);
    std::lock_guard lock(mutex);
    Count(*run, one, &result);
    result.machines.push_back(std::move(one));
  };
  // Who made a directory that others write into removes it when they have ended.
  std::vector<std::string> first, last;
  for (const std::string& machine : run->plan->machines) {
    const bool makes =
        stack != nullptr &&
        std::any_of(stack->processes.begin(), stack->processes.end(), [&](const PlannedProcess& process) {
          return process.machine == machine && MakesSharedDirectory(*stack, process);
        });
    (makes ? last : first).push_back(machine);
  }
  ForEachMachine(first, tear_down);
  if (!last.empty()) ForEachMachine(last, tear_down);
  std::sort(result.machines.begin(), result.machines.end(),
            [](const auto& a, const auto& b) { return a.machine < b.machine; });
  return result;
}

void LetGo(JobRun* run, uint32_t cycle, const std::string& cause, TeardownResult* result,
           std::stop_token shutdown) {
  std::vector<std::string> answered;
  for (const MachineTeardown& before : result->machines) {
    if (before.verdict != v1::TEARDOWN_VERDICT_UNKNOWN) answered.push_back(before.machine);
  }
  std::mutex mutex;  // result
  ForEachMachine(answered, [&](const std::string& machine) {
    MachineTeardown one =
        TearDownMachine(run, machine, cycle, cause, run->timing.stop_grace, false, shutdown);
    Tell(*run, one);
    std::lock_guard lock(mutex);
    MachineTeardown& before = *std::find_if(result->machines.begin(), result->machines.end(),
                                            [&](const auto& known) { return known.machine == machine; });
    std::set<std::pair<std::string, std::string>> named;
    for (const v1::LedgerItem& item : before.items) named.emplace(item.kind(), item.name());
    for (const v1::LedgerItem& item : one.items) {
      if (named.count({item.kind(), item.name()}) == 0) before.items.push_back(item);
    }
    if (one.verdict <= before.verdict) return;
    Count(*run, one, result);
    before.verdict = one.verdict;
    before.leftovers = one.leftovers;
    before.note = one.note;
  });
}

}  // namespace poolmark::controller

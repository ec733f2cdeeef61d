#include "common/results/evidence_check.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "common/results/engine_facts.h"
#include "common/results/shared_fields.h"

namespace poolmark::results {
namespace {

// The methodology's limits (M9, M10): a repeat may be judged more strictly, never less.
constexpr double kSilenceLimitSeconds = 10;
constexpr double kClockLimitSeconds = 0.1;

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

std::string Joined(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& one : list) out += (out.empty() ? "" : ", ") + one;
  return out.empty() ? "none" : out;
}

bool SameBytes(const Measured<double>& left, const Measured<double>& right) {
  if (left.has_value() != right.has_value()) return false;
  return !left.has_value() || *left == *right;
}

class Checker {
 public:
  Checker(const RepeatFacts& facts, const PlanFile& plan, const PlanStack& stack, const JobTerms& terms)
      : facts_(facts), plan_(plan), stack_(stack), terms_(terms) {}

  std::vector<std::string> Run() {
    CheckTerms();
    CheckMachines();
    CheckLimits();
    CheckEngines();
    CheckPaths();
    CheckState();
    CheckCompression();
    return std::move(out_);
  }

 private:
  void Add(std::string line) { out_.push_back(std::move(line)); }
  void Same(const char* field, const std::string& stored, const std::string& expected, const char* file) {
    if (stored != expected)
      Add("facts." + std::string(field) + " is '" + stored + "', " + file + " says '" + expected + "'");
  }
  void Same(const char* field, bool stored, bool expected, const char* file) {
    Same(field, std::string(stored ? "true" : "false"), std::string(expected ? "true" : "false"), file);
  }

  // What the facts repeat of the job and the plan.
  void CheckTerms() {
    if (!terms_.job_id.empty()) Same("job_id", facts_.job_id, terms_.job_id, "job.json");
    Same("strategy", facts_.strategy, stack_.strategy, "plan.json");
    // Engines of a stack that calls itself real may turn out to be simulated, once they answer; never the
    // other way.
    if (stack_.simulated) Same("simulated", facts_.simulated, true, "plan.json");
    Same("gpus", std::to_string(facts_.gpus), std::to_string(stack_.gpus), "plan.json");
    Same("baseline", facts_.baseline, facts_.point.stack == terms_.baseline, "job.json");
    const auto shape = terms_.shapes.find(facts_.point.workload);
    if (shape == terms_.shapes.end()) {
      Add("job.json has no workload '" + facts_.point.workload + "'");
    } else {
      Same("shape", facts_.shape, shape->second, "job.json");
      Same("held_load", facts_.held_load, shape->second == "agentic", "job.json");
    }
    Same("open_loop", facts_.open_loop, !facts_.point.level.starts_with('c'), "its level");
    std::vector<std::string> slos;
    for (const auto& slo : facts_.slos) slos.push_back(slo.name);
    Same("slos", Joined(slos), Joined(terms_.slo), "job.json");
    CheckLimitsOfSlos();
    const bool planned = std::any_of(plan_.cycles.begin(), plan_.cycles.end(), [&](const PlanCycle& cycle) {
      return cycle.stack == stack_.name &&
             std::any_of(cycle.repeats.begin(), cycle.repeats.end(), [&](const PlanRepeat& one) {
               return one.workload == facts_.point.workload && one.level == facts_.point.level &&
                      one.repeat == facts_.repeat;
             });
    });
    if (!planned)
      Add("plan.json plans no repeat " + std::to_string(facts_.repeat) + " of " + stack_.name + " " +
          facts_.point.workload + "-" + facts_.point.level);
  }

  // Goodput is of the limits that the job was run with, in each of its repeats.
  void CheckLimitsOfSlos() {
    if (!terms_.slo_limits) return;
    const auto text = [](const stats::Slo& slo) {
      return "ttft " + Number(slo.ttft_seconds) + " s, tpot " + Number(slo.tpot_seconds) + " s" +
             (slo.share ? ", share " + Number(*slo.share) : "");
    };
    for (const stats::Slo& slo : facts_.slos) {
      const auto at = std::find_if(terms_.slo_limits->begin(), terms_.slo_limits->end(),
                                   [&](const auto& one) { return one.name == slo.name; });
      if (at == terms_.slo_limits->end()) {
        Add("facts.slos has '" + slo.name + "', whose limits job.json does not say");
      } else if (text(*at) != text(slo)) {
        Add("facts.slos: " + slo.name + " is " + text(slo) + "; the job has " + text(*at));
      }
    }
  }

  // Every machine of the pool was listened to, and its clock compared.
  void CheckMachines() {
    const auto& evidence = facts_.evidence;
    for (const PlanMachine& machine : plan_.machines) {
      const auto is = [&](const auto& one) { return one.machine == machine.name; };
      if (std::none_of(evidence.silences.begin(), evidence.silences.end(), is))
        Add("evidence.silences says nothing of " + machine.name + ": whether it answered is not known");
      if (std::none_of(evidence.clocks.begin(), evidence.clocks.end(), is))
        Add("evidence.clocks says nothing of " + machine.name + ": whether its clock drifted is not known");
    }
  }

  void CheckLimits() {
    const auto limit = [&](const char* name, double stored, double most) {
      if (!(stored > 0 && stored <= most))
        Add("evidence." + std::string(name) + " is " + Number(stored) + ", the methodology's limit is " +
            Number(most));
    };
    limit("silence_limit_seconds", facts_.evidence.silence_limit_seconds, kSilenceLimitSeconds);
    limit("clock_limit_seconds", facts_.evidence.clock_limit_seconds, kClockLimitSeconds);
  }

  // Counters of every engine: read, or with the reason why not; what they say beside the evidence.
  void CheckEngines() {
    for (const PlanProcess& process : stack_.processes) {
      if (!process.is_engine()) continue;
      const auto count = std::count_if(facts_.engines.begin(), facts_.engines.end(),
                                       [&](const auto& engine) { return engine.process == process.id; });
      if (count == 0) Add("facts.engines says nothing of " + process.id + ": its counters are not known");
      if (count > 1) Add("facts.engines counts " + process.id + " " + std::to_string(count) + " times");
    }
    for (const stats::EngineFacts& engine : facts_.engines) {
      CheckPlanned(engine);
      const auto& resets = facts_.evidence.resets;
      const bool told = std::any_of(resets.begin(), resets.end(),
                                    [&](const auto& reset) { return reset.machine == engine.machine; });
      if (engine.reset && !told)
        Add(engine.process + ": its counters began anew by the facts, evidence.resets says nothing of it");
      for (const char* name : stats::kFormatMismatchSeries) {
        const auto met = engine.deltas.find(name);
        const auto& formats = facts_.evidence.formats;
        if (met == engine.deltas.end() || met->second <= 0) continue;
        if (std::none_of(formats.begin(), formats.end(),
                         [&](const auto& format) { return format.reader == engine.process; }))
          Add(engine.process + ": " + name + " rose by " + Number(met->second) +
              ", evidence.formats says nothing of it");
      }
    }
  }

  // What decides where its tokens are put: its role, its place and the tiers behind it.
  void CheckPlanned(const stats::EngineFacts& engine) {
    const auto process = std::find_if(stack_.processes.begin(), stack_.processes.end(), [&](const auto& one) {
      return one.is_engine() && one.id == engine.process;
    });
    if (process == stack_.processes.end())
      return Add("facts.engines has " + engine.process + ", which is no engine of plan.json");
    const stats::EngineFacts planned = EngineFactsOf(stack_, *process);
    const auto same = [&](const char* field, const auto& stored, const auto& expected) {
      const Json left = ToJson(stored), right = ToJson(expected);
      if (left != right)
        Add(engine.process + ": " + field + " is " + left.dump() + " by the facts, " + right.dump() +
            " by plan.json");
    };
    same("machine", engine.machine, planned.machine);
    same("dialect", engine.dialect, planned.dialect);
    same("role", engine.role, planned.role);
    same("has_gpu", engine.has_gpu, planned.has_gpu);
    same("external_tiers", engine.external_tiers, planned.external_tiers);
    same("second_level", engine.second_level, planned.second_level);
  }

  // Every link over which the plan moves KV was judged, on the path that the stack intends.
  void CheckPaths() {
    for (const PlanLink& link : stack_.links) {
      const std::string pair = link.from + " to " + link.to;
      const auto is = [&](const auto& one) { return one.from == link.from && one.to == link.to; };
      const auto& paths = facts_.evidence.paths;
      const auto path = std::find_if(paths.begin(), paths.end(), is);
      if (path == paths.end()) {
        Add("evidence.paths says nothing of " + pair + ": which way its KV took is not known");
        continue;
      }
      if (path->intended != link.path)
        Add("evidence.paths: " + pair + " intends '" + path->intended + "', plan.json says '" + link.path +
            "'");
      const auto transfer = std::find_if(facts_.transfers.begin(), facts_.transfers.end(), is);
      if (transfer == facts_.transfers.end()) {
        Add("facts.transfers says nothing of " + pair);
      } else if (!SameBytes(transfer->bytes, path->expected_bytes)) {
        Add("evidence.paths: the bytes of " + pair + " are not those of facts.transfers");
      }
    }
  }

  void CheckState() {
    const stats::StateEvidence& state = facts_.evidence.state;
    const bool attached = state.declared == "attached" && stack_.launch == "attach";
    if (!attached) Same("evidence.state.declared", state.declared, terms_.starting_state, "job.json");
    const std::set<std::string> holders(state.holders.begin(), state.holders.end());
    for (const PlanProcess& process : stack_.processes) {
      if (process.holds_kv() && !holders.contains(process.id))
        Add("evidence.state.holders leaves out " + process.id + ": what it held is not known");
    }
  }

  void CheckCompression() {
    Same("evidence.accuracy.compression", facts_.evidence.accuracy.compression, stack_.kv.compression,
         "plan.json");
  }

  const RepeatFacts& facts_;
  const PlanFile& plan_;
  const PlanStack& stack_;
  const JobTerms& terms_;
  std::vector<std::string> out_;
};

}  // namespace

JobTerms TermsOf(const JobFile& job) {
  JobTerms terms;
  terms.job_id = job.job_id;
  terms.starting_state = job.starting_state;
  terms.baseline = job.baseline;
  terms.slo = job.slo;
  terms.slo_limits = job.slo_limits;
  for (const JobWorkload& workload : job.workloads) terms.shapes[workload.name] = workload.shape;
  return terms;
}

std::vector<std::string> EvidenceProblems(const RepeatFacts& facts, const PlanFile& plan,
                                          const JobTerms& terms) {
  if (!facts.evidence.interrupted.empty()) return {};
  const PlanStack* stack = plan.stack(facts.point.stack);
  if (stack == nullptr) return {"plan.json has no stack '" + facts.point.stack + "'"};
  return Checker(facts, plan, *stack, terms).Run();
}

void AddNotJudged(const std::vector<std::string>& problems, RepeatFigures* figures) {
  for (const std::string& problem : problems)
    figures->reasons.push_back({stats::Reason::kNotJudged, problem});
  figures->valid = figures->reasons.empty();
}

}  // namespace poolmark::results

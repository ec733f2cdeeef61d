#include "common/results/compute.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "common/load/record_codec.h"
#include "common/results/figures.h"
#include "common/stats/kv_bytes.h"
#include "common/stats/warnings.h"
#include "common/workload/spec.h"

namespace poolmark::results {
namespace {

double SecondsOf(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

// Engines whose counters belong to the token sources and were not read, each with its reason; "": none.
std::string UnreadEngines(const RepeatFacts& facts, const stats::Attribution& sources) {
  std::string unread;
  for (size_t i = 0; i < facts.engines.size() && i < sources.engines.size(); ++i) {
    const auto& engine = sources.engines[i];
    if (facts.engines[i].role == stats::EngineFacts::Role::kDecode || engine.sources.has_value()) continue;
    unread += (unread.empty() ? "" : "; ") + engine.process + ": " + engine.sources.reason();
  }
  return unread;
}

void FillReuse(const RepeatFacts& facts, RepeatFigures* out) {
  const auto& total = out->sources.total;
  if (!total.has_value()) {
    out->reused = NotMeasured{total.reason()};
  } else if (!out->sources.complete) {
    // A share over engines that were not read would count all of their tokens as not reused.
    const std::string unread = UnreadEngines(facts, out->sources);
    out->reused = NotMeasured{"not every engine was read: " + unread};
    out->notes.push_back("Reuse is not measured, because not every engine was read (" + unread + ").");
  } else if ((*total).prompt <= 0) {
    out->reused = NotMeasured{"no prompt tokens"};
  } else {
    out->reused = (*total).reused() / (*total).prompt;
  }
  if (!out->reused.has_value()) {
    out->reuse_captured = NotMeasured{out->reused.reason()};
  } else if (!facts.reuse.reusable.has_value()) {
    out->reuse_captured = NotMeasured{facts.reuse.reusable.reason()};
  } else if (*facts.reuse.reusable <= 0) {
    out->reuse_captured = NotMeasured{"nothing was reusable"};
  } else {
    out->reuse_captured = *out->reused / *facts.reuse.reusable;
    if (*out->reuse_captured > 1.001) {
      out->notes.push_back(
          "The pool reused more than an ideal cache of unlimited size could have (" + Percent(*out->reused) +
          " of " + Percent(*facts.reuse.reusable) +
          "): prompts shared more than the workload planned, or tokens were counted outside the window.");
    }
  }
}

void FillCaches(const RepeatFacts& facts, RepeatFigures* out) {
  double capacity = 0, mean = 0, peak = 0;
  std::string missing, no_usage;
  for (const CacheFacts& cache : facts.caches) {
    if (!cache.capacity_tokens.has_value()) {
      missing += (missing.empty() ? "" : "; ") + cache.process + ": " + cache.capacity_tokens.reason();
      continue;
    }
    capacity += *cache.capacity_tokens;
    if (!cache.usage_mean.has_value() || !cache.usage_peak.has_value()) {
      no_usage += (no_usage.empty() ? "" : "; ") + cache.process + ": " +
                  (cache.usage_mean.has_value() ? cache.usage_peak : cache.usage_mean).reason();
      continue;
    }
    mean += *cache.usage_mean * *cache.capacity_tokens;  // a big cache weighs more than a small one
    peak = std::max(peak, *cache.usage_peak);
  }
  for (const stats::EngineFacts& engine : facts.engines) {
    const bool known = std::any_of(facts.caches.begin(), facts.caches.end(),
                                   [&](const CacheFacts& cache) { return cache.process == engine.process; });
    if (!known) missing += (missing.empty() ? "" : "; ") + engine.process + ": its cache was not read";
  }
  if (facts.caches.empty()) missing = "no engine reports the size of its cache";
  if (!missing.empty()) {
    out->gpu_kv_capacity_tokens = out->gpu_kv_usage_mean = out->gpu_kv_usage_peak = out->working_set_ratio =
        NotMeasured{missing};
    return;
  }
  out->gpu_kv_capacity_tokens = capacity;
  if (no_usage.empty() && capacity > 0) {
    out->gpu_kv_usage_mean = mean / capacity;
    out->gpu_kv_usage_peak = peak;
  } else {
    out->gpu_kv_usage_mean = out->gpu_kv_usage_peak =
        NotMeasured{no_usage.empty() ? "no capacity" : no_usage};
  }
  if (!facts.reuse.working_set_tokens.has_value()) {
    out->working_set_ratio = NotMeasured{facts.reuse.working_set_tokens.reason()};
  } else if (capacity <= 0) {
    out->working_set_ratio = NotMeasured{"the engines report a cache of no size"};
  } else {
    out->working_set_ratio = *facts.reuse.working_set_tokens / capacity;
  }
}

// Without figures for each pair of machines: what all engines together say they moved. One that could not be
// read leaves no total, for a part of it would look like the whole.
Measured<double> ByEngines(const RepeatFacts& facts, double seconds) {
  if (facts.strategy == "local" || facts.strategy == "offload")
    return NotMeasured{"KV does not move between machines"};
  double total = 0;
  std::string missing = "no engine was read";
  bool any = false, all = true;
  for (const stats::EngineFacts& engine : facts.engines) {
    const auto moved = stats::KvBytesOf(engine);
    if (moved.bytes.has_value()) {
      total += *moved.bytes;
      any = true;
      continue;
    }
    missing = engine.process + ": " + moved.bytes.reason();
    // A hand-over counts at the decode side that fetched it.
    const bool other_side_counts = facts.strategy == "split" && engine.unreadable.empty() && !engine.reset &&
                                   engine.role == stats::EngineFacts::Role::kPrefill;
    all = all && other_side_counts;
  }
  if (!any || !all || !(seconds > 0)) return NotMeasured{missing};
  return total / seconds;
}

void FillTransfers(const RepeatFacts& facts, double seconds, RepeatFigures* out) {
  double total = 0;
  size_t measured = 0;
  std::string missing;
  for (const TransferFacts& transfer : facts.transfers) {
    TransferFigures figures{transfer.from,
                            transfer.to,
                            transfer.path,
                            NotMeasured{"no window"},
                            NotMeasured{"no line rate"},
                            NotMeasured{"no line rate"}};
    if (!transfer.bytes.has_value()) {
      figures.bytes_per_second = NotMeasured{transfer.bytes.reason()};
    } else if (seconds > 0) {
      figures.bytes_per_second = *transfer.bytes / seconds;
      total += *figures.bytes_per_second;
      ++measured;
    }
    if (!figures.bytes_per_second.has_value() && missing.empty())
      missing = transfer.from + " to " + transfer.to + ": " + figures.bytes_per_second.reason();
    if (!transfer.line_bits_per_second.has_value()) {
      figures.line_bytes_per_second = NotMeasured{transfer.line_bits_per_second.reason()};
      figures.share_of_line = NotMeasured{transfer.line_bits_per_second.reason()};
    } else {
      figures.line_bytes_per_second = *transfer.line_bits_per_second / 8;
      if (!figures.bytes_per_second.has_value()) {
        figures.share_of_line = NotMeasured{figures.bytes_per_second.reason()};
      } else if (*figures.line_bytes_per_second > 0) {
        figures.share_of_line = *figures.bytes_per_second / *figures.line_bytes_per_second;
      }
    }
    out->transfers.push_back(std::move(figures));
  }
  if (measured == facts.transfers.size() && measured > 0) {
    out->kv_bytes_per_second = total;
    return;
  }
  out->kv_bytes_per_second = ByEngines(facts, seconds);
  if (facts.transfers.empty()) return;
  const std::string pairs = std::to_string(facts.transfers.size() - measured) + " of " +
                            std::to_string(facts.transfers.size()) +
                            " pairs of machines could not be measured (" + missing + ")";
  if (out->kv_bytes_per_second.has_value()) {
    out->notes.push_back("The KV transfer bandwidth is what the engines counted together: " + pairs + ".");
  } else {
    out->kv_bytes_per_second = NotMeasured{pairs};
  }
}

// Both directions within 2 %; under 1 MB/s both ways the link counts as idle.
LinkFigures JudgeLink(const LinkAgreement& link) {
  LinkFigures out{
      link.machine,           link.nic, link.switch_name, link.port, "not_measured", NotMeasured{"not read"},
      NotMeasured{"not read"}};
  const auto difference = [](const Measured<double>& sent,
                             const Measured<double>& received) -> Measured<double> {
    if (!sent.has_value()) return NotMeasured{sent.reason()};
    if (!received.has_value()) return NotMeasured{received.reason()};
    const double larger = std::max(*sent, *received);
    return larger > 0 ? Measured<double>((*received - *sent) / larger) : Measured<double>(0.0);
  };
  out.out_difference = difference(link.nic_sent, link.port_received);
  out.in_difference = difference(link.port_sent, link.nic_received);
  if (!out.out_difference.has_value() || !out.in_difference.has_value() || !(link.seconds > 0)) return out;
  const double rate_out = std::max(*link.nic_sent, *link.port_received) / link.seconds;
  const double rate_in = std::max(*link.port_sent, *link.nic_received) / link.seconds;
  if (rate_out < 1e6 && rate_in < 1e6) {
    out.verdict = "idle";
  } else {
    out.verdict =
        std::abs(*out.out_difference) <= 0.02 && std::abs(*out.in_difference) <= 0.02 ? "agree" : "differ";
  }
  return out;
}

// Every machine of the pool, whether it reports power or not.
std::vector<stats::MachinePower> MachinesOf(const RepeatFacts& facts) {
  std::set<std::string> names;
  for (const auto& series : facts.power) names.insert(series.machine);
  for (const auto& engine : facts.engines) names.insert(engine.machine);
  for (const auto& silence : facts.evidence.silences) names.insert(silence.machine);
  for (const auto& clock : facts.evidence.clocks) names.insert(clock.machine);
  std::vector<stats::MachinePower> machines;
  for (const std::string& name : names) {
    machines.emplace_back();
    machines.back().machine = name;
  }
  return machines;
}

// Which GPU a power series is of: a card that is cut into instances stands on the page once for each.
std::string GpuOf(const std::string& series) {
  for (const std::string_view label : {",UUID=", ",uuid=", ",gpu_uuid=", ",gpu_id="}) {
    const size_t at = series.find(label);
    if (at == std::string::npos) continue;
    const size_t value = at + label.size();
    return series.substr(value, series.find(',', value) - value);
  }
  return series;
}

void FillEnergy(const RepeatFacts& facts, RepeatFigures* out) {
  std::vector<stats::MachinePower> machines = MachinesOf(facts);
  for (stats::MachinePower& machine : machines) {
    // Series of another name are of the same GPUs: the name with the most of them counts.
    std::map<std::string, std::map<std::string, std::vector<stats::Sample>>> gpus;
    for (const PowerSeries& series : facts.power) {
      if (series.machine != machine.machine) continue;
      std::vector<stats::Sample> samples;
      for (const auto& [time, watts] : series.watts)
        samples.push_back({Nanoseconds(std::llround(time * 1e9)), watts});
      if (series.kind == "gpu") {
        gpus[series.series.substr(0, series.series.find(','))].try_emplace(GpuOf(series.series),
                                                                           std::move(samples));
      } else {
        auto& node = series.kind == "bmc" ? machine.bmc : machine.telemetry;
        if (node.empty()) node = std::move(samples);
      }
    }
    const std::map<std::string, std::vector<stats::Sample>>* most = nullptr;
    const auto read = [](const auto& family) {
      return std::count_if(family.begin(), family.end(), [](const auto& gpu) { return !gpu.second.empty(); });
    };
    for (const auto& [name, family] : gpus) {
      if (most == nullptr || read(family) > read(*most)) most = &family;
    }
    if (most == nullptr) continue;
    for (const auto& [gpu, samples] : *most) machine.gpus.push_back(samples);
  }
  std::vector<stats::SwitchPower> switches;
  for (const auto& power : facts.switch_power)
    switches.push_back({power.name, power.input_watts, power.ports_used, power.ports_up});
  const auto time = [](double seconds) { return Nanoseconds(std::llround(seconds * 1e9)); };
  out->energy = stats::Energy(machines, switches, time(facts.measured_from), time(facts.measured_to),
                              out->requests.output_tokens);
}

void FillNotes(const RepeatFacts& facts, RepeatFigures* out) {
  auto& notes = out->notes;
  notes.insert(notes.end(), facts.notes.begin(), facts.notes.end());
  notes.insert(notes.end(), facts.reuse.notes.begin(), facts.reuse.notes.end());
  notes.insert(notes.end(), out->sources.notes.begin(), out->sources.notes.end());
  if (out->requests.counted > 0) {
    notes.push_back("Output tokens of " + std::to_string(out->requests.counted) +
                    " requests were counted from their events: the engine sent no usage.");
  }
  const auto& late = out->requests.lateness;
  const auto& ttft = out->requests.ttft;
  if (late.has_value() && ttft.has_value() && (*late).p99 > 0.05 * (*ttft).p50) {
    notes.push_back(
        "The load generator itself was late: its P99 lateness is more than 5 % of the median time to first "
        "token.");
  }
  if (facts.simulated)
    notes.push_back("The engine is simulated: these figures describe the simulation, not a machine.");
}

}  // namespace

void RequestOf(const load::RequestRecord& record, stats::RequestFacts* facts) {
  stats::RequestFacts& out = *facts;
  auto events = std::move(out.events);
  events.clear();
  out = {};
  out.events = std::move(events);
  out.sent = SecondsOf(record.sent);
  out.start = SecondsOf(record.intended.value_or(record.sent));
  out.end = SecondsOf(record.end);
  // As the load's own schedule error: what the connection's set-up took is told apart.
  if (record.intended)
    out.sent_late =
        SecondsOf(std::max<int64_t>(0, record.started - *record.intended - record.connect.value_or(0)));
  if (record.first_output) out.first_output = SecondsOf(*record.first_output);
  if (record.last_output) out.last_output = SecondsOf(*record.last_output);
  if (record.first_output && record.kernel_first_output) {
    out.lateness = std::max(0.0, SecondsOf(*record.first_output) - SecondsOf(*record.kernel_first_output));
  }
  out.input_tokens = record.input_tokens.value_or(-1);
  out.cached_tokens = record.cached_tokens.value_or(-1);
  out.output_tokens = record.output_tokens.value_or(0);
  out.first_event_tokens = record.first_event_tokens;
  out.counted = record.output_tokens_counted;
  out.ok = record.outcome == load::Outcome::kOk;
  out.primer = record.primer;
  out.events.reserve(record.events.size());
  for (const auto& event : record.events) out.events.emplace_back(SecondsOf(event.at), event.tokens);
}

namespace {

// The earliest reading of the engines' counters for the window's start.
std::optional<double> CountersFrom(const RepeatFacts& facts) {
  std::optional<double> counters_from;
  for (const stats::EngineFacts& engine : facts.engines) {
    if (engine.counters_from && engine.role != stats::EngineFacts::Role::kDecode)
      counters_from = std::min(*engine.counters_from, counters_from.value_or(*engine.counters_from));
  }
  return counters_from;
}

// Where engines that count at either moment serve together, the later one: no prompt is left out. A prefill
// engine finishes with the first token, not with the answer that the client sees.
stats::CountedAt CountedAtOf(const RepeatFacts& facts, const stats::Attribution& sources) {
  for (size_t i = 0; i < facts.engines.size(); ++i) {
    if (facts.engines[i].role == stats::EngineFacts::Role::kAggregated &&
        sources.engines[i].counted_at == stats::CountedAt::kFinish)
      return stats::CountedAt::kFinish;
  }
  return stats::CountedAt::kFirstToken;
}

}  // namespace

RepeatComputer::RepeatComputer(const RepeatFacts& facts)
    : requests_(facts.measured_from, facts.measured_to, facts.slos, CountersFrom(facts)) {}

RepeatFigures RepeatComputer::Finish(const RepeatFacts& facts) {
  RepeatFigures out;
  const double seconds = facts.measured_to - facts.measured_from;
  const auto window_tokens = requests_.window_tokens();
  out.stability = stats::StabilityOf(window_tokens, seconds / static_cast<double>(window_tokens.size()));
  out.requests = requests_.Finish();
  out.measured_line = facts.held_load
                          ? workload::MeasuredLine(FromSeconds(seconds), FromSeconds(facts.warm_up_seconds))
                          : "Measured over the whole run";
  if (out.requests.requests == 0 && !facts.evidence.interrupted.empty())
    out.measured_line = "Nothing was measured";
  const auto per_gpu = [&](double value) -> Measured<double> {
    if (facts.gpus == 0) return NotMeasured{"the engines use no GPU"};
    return value / static_cast<double>(facts.gpus);
  };
  out.output_tokens_per_second_per_gpu = per_gpu(out.requests.output_tokens_per_second);
  for (const auto& goodput : out.requests.goodput)
    out.goodput_per_gpu.push_back(per_gpu(goodput.good_per_second));
  out.sources = stats::Attribute(facts.engines, out.requests.client_prompt_tokens);
  const stats::Skew& skew = requests_.skew(CountedAtOf(facts, out.sources));
  out.sources.skew_tokens += skew.tokens;
  if (skew.unknown > 0) {
    out.sources.notes.push_back(
        std::to_string(skew.unknown) + " of " + std::to_string(skew.requests) +
        " prompts in flight at the window's start have no token count: the skew is larger");
  }
  FillReuse(facts, &out);
  FillCaches(facts, &out);
  // The counters hold the KV that moved until the last request of the window had ended.
  FillTransfers(facts, std::max(seconds, facts.drain_end - facts.measured_from), &out);
  FillEnergy(facts, &out);
  for (const LinkAgreement& link : facts.links) out.links.push_back(JudgeLink(link));
  const stats::Verdict verdict = stats::Judge(facts.evidence);
  out.valid = verdict.valid();
  out.reasons = verdict.reasons;
  out.notes.insert(out.notes.end(), verdict.notes.begin(), verdict.notes.end());
  for (const auto warning : stats::WarningsOf({facts.held_load, facts.ran_out_of_sessions,
                                               out.requests.requests, out.requests.failed, seconds})) {
    out.warnings.emplace_back(stats::WarningSentence(warning));
  }
  FillNotes(facts, &out);
  return out;
}

std::optional<PairedRequest> PairOf(const RepeatFacts& facts, const load::RequestRecord& record,
                                    const stats::RequestFacts& request) {
  if (request.primer || request.start < facts.measured_from || request.start >= facts.measured_to)
    return std::nullopt;
  return PairedRequest{record.session, record.turn, stats::TimeToFirstToken(request),
                       stats::TimePerOutputToken(request)};
}

Result<RepeatFigures> ComputeRepeat(const RepeatFacts& facts, const NextRequest& next) {
  RepeatComputer computer(facts);
  stats::RequestFacts request;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, next(&request));
    if (!more) return computer.Finish(facts);
    computer.Add(request);
  }
}

Result<RepeatFigures> ComputeRepeat(const RepeatFacts& facts, const std::string& requests_path,
                                    std::vector<PairedRequest>* pairs) {
  POOLMARK_ASSIGN_OR_RETURN(const auto reader, load::RecordReader::Open(requests_path));
  load::RequestRecord record;
  return ComputeRepeat(facts, [&](stats::RequestFacts* request) -> Result<bool> {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
    if (!more) return false;
    RequestOf(record, request);
    const auto pair = pairs == nullptr ? std::nullopt : PairOf(facts, record, *request);
    if (pair.has_value()) pairs->push_back(*pair);
    return true;
  });
}

}  // namespace poolmark::results

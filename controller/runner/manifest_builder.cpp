#include "controller/runner/manifest_builder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/files.h"
#include "common/base/version.h"
#include "common/prom/catalogue.h"
#include "common/prom/evidence.h"
#include "common/results/layout.h"
#include "common/stats/kv_bytes.h"
#include "controller/steps/counters.h"

namespace poolmark::controller {
namespace {

results::ManifestMeasure Measure(const char* measure, const char* source, const char* detail) {
  return {measure, source, detail};
}

}  // namespace

ManifestBuilder::ManifestBuilder(const std::string& results_dir, const std::string& job_id,
                                 const std::string& catalogue_dir, const std::string& evidence_file)
    : path_(JoinPath(results_dir, std::string(results::kManifestFile))),
      catalogue_dir_(catalogue_dir),
      evidence_file_(evidence_file) {
  if (FileExists(path_)) {
    auto text = ReadFile(path_, 64u << 20);
    if (text.ok()) {
      auto file = results::DecodeManifest(*text, path_);
      if (file.ok()) file_ = std::move(*file);
    }
  }
  file_.job_id = job_id;
  file_.controller_version = Version();
  const size_t dash = Version().rfind('-');
  file_.commit = dash == std::string::npos ? "" : Version().substr(dash + 1);
  file_.measures = {
      Measure("Latency, throughput, goodput", "the load generator's record of every request",
              "requests.jsonl.zst of each repeat"),
      Measure("Engine and cache counters", "each engine's and cache server's own metrics page",
              "scraped once a second by the machine's agent"),
      Measure("Router counters", "the router's own metrics page",
              "scraped once a second by the head's agent"),
      Measure("Host, network and GPU telemetry", "the tools listed for each machine",
              "samples/<machine>.jsonl.zst of each repeat"),
      Measure("Network line rate", "iperf3, and ib_write_bw and ib_write_lat on an RDMA pool",
              "preflight.json"),
      Measure("Clocks", "four timestamps of the agents' heartbeats", "smallest round trip of eight"),
  };
}

void ManifestBuilder::Machines(const JobRun& run) {
  for (const auto& [name, facts] : run.facts) {
    auto found = std::find_if(file_.machines.begin(), file_.machines.end(),
                              [&](const auto& machine) { return machine.name == name; });
    if (found == file_.machines.end())
      found = file_.machines.insert(file_.machines.end(), results::ManifestMachine());
    results::ManifestMachine& machine = *found;
    machine.name = name;
    machine.address = run.plan->addresses.at(name);
    machine.hostname = facts.hostname();
    machine.os = facts.os();
    machine.kernel = facts.kernel();
    machine.cpu = facts.cpu_model();
    machine.boot_id = facts.boot_id();
    auto registered = run.registry->Get(name);
    if (registered.ok()) machine.agent_version = registered->agent_version();
    machine.cores = static_cast<int>(facts.cpus());
    machine.memory_bytes = facts.memory_bytes();
    machine.gpus.clear();
    for (const v1::Gpu& gpu : facts.gpus())
      machine.gpus.push_back({gpu.vendor(), gpu.model(), gpu.uuid(), gpu.driver(), gpu.memory_bytes()});
    machine.nics.clear();
    for (const v1::Nic& nic : facts.nics()) {
      results::ManifestNic entry;
      entry.device = nic.name();
      entry.driver = nic.driver();
      entry.state = nic.operstate();
      if (nic.has_speed_bits_per_second()) entry.speed_mbit = nic.speed_bits_per_second() / 1'000'000;
      entry.mtu = nic.mtu();
      entry.rdma = std::any_of(facts.rdma_ports().begin(), facts.rdma_ports().end(),
                               [&](const v1::RdmaPort& port) { return port.netdev() == nic.name(); });
      machine.nics.push_back(std::move(entry));
    }
    if (machine.tools.empty()) machine.tools_missing = "nothing was sampled on this machine";
  }
  Switches(run);
}

void ManifestBuilder::Switches(const JobRun& run) {
  // Which card is cabled to which port is not known without a reader: an RDMA pool's cards hang on what it
  // lists.
  const bool rdma = std::any_of(run.plan->stacks.begin(), run.plan->stacks.end(),
                                [](const StackPlan& stack) { return stack.kv.path == "rdma"; });
  for (const spec::SwitchSpec& one : run.job->pool.switches) {
    const bool there = std::any_of(file_.switches.begin(), file_.switches.end(),
                                   [&](const auto& known) { return known.name == one.name; });
    if (there) continue;
    results::ManifestSwitch entry;
    entry.name = one.name;
    entry.address = one.address;
    entry.cabled = rdma;
    entry.ignored = one.ignore;
    entry.problem = "this version reads no switches";
    file_.switches.push_back(std::move(entry));
  }
}

void ManifestBuilder::Tools(const JobRun& run) {
  for (results::ManifestMachine& machine : file_.machines) {
    auto tools = run.tools.find(machine.name);
    if (tools == run.tools.end()) continue;
    for (const auto& [name, tool] : tools->second) {
      auto found = std::find_if(machine.tools.begin(), machine.tools.end(),
                                [&, n = name](const auto& known) { return known.name == n; });
      if (found == machine.tools.end())
        found = machine.tools.insert(machine.tools.end(), results::ManifestTool());
      // "what it measures" or "what it measures: why it stands in for another"
      const size_t colon = tool.note().find(": ");
      found->measure = tool.note().substr(0, colon);
      found->name = tool.name();
      found->version = tool.version();
      found->sha256 = tool.sha256();
      found->fallback_reason = colon == std::string::npos ? "" : tool.note().substr(colon + 2);
      found->pinned = found->fallback_reason.empty() && !tool.sha256().empty() &&
                      !absl::StartsWith(tool.name(), "poolmark-agent/");
    }
    if (!machine.tools.empty()) machine.tools_missing.clear();
  }
}

void ManifestBuilder::Engines(const JobRun& run, const StackPlan& stack, const VerifyEvidence& verified) {
  for (const PlannedProcess& process : stack.processes) {
    auto found = std::find_if(file_.engines.begin(), file_.engines.end(),
                              [&](const auto& engine) { return engine.process == process.spec.id(); });
    if (found == file_.engines.end())
      found = file_.engines.insert(file_.engines.end(), results::ManifestEngine());
    results::ManifestEngine& engine = *found;
    engine.process = process.spec.id();
    engine.stack = stack.name;
    engine.machine = process.machine;
    engine.role = process.spec.role();
    engine.dialect = process.dialect;
    engine.name = IsEngine(process) ? stack.engine_kind : process.spec.executable();
    if (auto version = verified.versions.find(process.spec.id()); version != verified.versions.end())
      engine.version = version->second;
    engine.image = process.spec.image().empty() ? process.spec.executable() : process.spec.image();
    if (auto tool = run.executables.find(process.spec.id()); tool != run.executables.end())
      engine.digest = tool->second.sha256();
    if (IsEngine(process)) engine.model = verified.model;
    engine.argv.assign(process.spec.argv().begin(), process.spec.argv().end());
    engine.gpus = process.spec.gpus_size();
    // A stack on simulated engines has real programs too: its store.
    engine.simulated =
        (stack.simulated && (IsEngine(process) || process.spec.executable() == "poolmark-sim")) ||
        verified.simulated.contains(process.spec.id());
  }
}

void ManifestBuilder::Repeat(const JobRun& run, const StackPlan& stack, const results::RepeatFile& repeat,
                             const VerifyEvidence& verified) {
  Tools(run);
  for (const results::CacheFacts& cache : repeat.facts.caches) {
    for (results::ManifestEngine& engine : file_.engines) {
      if (engine.process == cache.process && cache.capacity_tokens.has_value())
        engine.kv_capacity_tokens = static_cast<int64_t>(*cache.capacity_tokens);
    }
  }
  auto catalogue = prom::Catalogue::Load(catalogue_dir_);
  // Evidence that cannot be read confirms nothing: the result is then not publishable, which is the safe
  // side.
  if (catalogue.ok() && !evidence_file_.empty()) (void)prom::ApplyEvidence(evidence_file_, &*catalogue);
  // A series belongs to the process's own dialect, or to that of the cache server or store that keeps it.
  const auto process_of = [&](const std::string& id, const std::string& series) -> const PlannedProcess* {
    const PlannedProcess* own = nullptr;
    for (const PlannedProcess& process : stack.processes) {
      if (process.spec.id() == id) own = &process;
    }
    if (!catalogue.ok()) return own;
    const auto keeps = [&](const PlannedProcess& process) {
      const prom::Dialect* dialect = catalogue->Find(process.dialect);
      return dialect != nullptr && dialect->Keeps(series);
    };
    if (own != nullptr && keeps(*own)) return own;
    for (const PlannedProcess& process : stack.processes) {
      if (keeps(process)) return &process;
    }
    return own;
  };
  const auto add = [&](const std::string& figure, const std::string& id, const std::string& key) {
    results::ManifestSeries entry;
    entry.figure = figure;
    entry.series = key.substr(0, key.find('{'));
    if (entry.series.empty()) return;
    if (const PlannedProcess* process = process_of(id, entry.series)) {
      entry.dialect = process->dialect;
      if (auto known = verified.versions.find(process->spec.id()); known != verified.versions.end())
        entry.version = known->second;
    }
    const bool there = std::any_of(file_.series.begin(), file_.series.end(), [&](const auto& known) {
      return known.dialect == entry.dialect && known.version == entry.version &&
             known.series == entry.series && known.figure == entry.figure;
    });
    if (there) return;
    const prom::Dialect* dialect = catalogue.ok() ? catalogue->Find(entry.dialect) : nullptr;
    entry.confirmed = dialect != nullptr && catalogue->Confirmed(entry.dialect, entry.version, entry.series);
    if (entry.confirmed) {
      entry.evidence = absl::StrCat("catalogue, ", entry.dialect, " ", entry.version);
      for (const prom::Evidence& live : dialect->live) {
        if (prom::PlainVersion(live.version) == prom::PlainVersion(entry.version))
          entry.evidence = absl::StrCat(live.date, ": ", live.evidence);
      }
    }
    file_.series.push_back(std::move(entry));
  };
  for (const stats::EngineAttribution& engine : repeat.figures.sources.engines) {
    for (const std::string& key : engine.series) add("prompt token sources", engine.process, key);
  }
  for (const results::CacheFacts& cache : repeat.facts.caches)
    add("GPU KV usage", cache.process, cache.series);
  const auto add_all = [&](const std::string& figure, const std::string& id, const std::string& keys) {
    for (const absl::string_view key : absl::StrSplit(keys, ", ", absl::SkipEmpty()))
      add(figure, id, std::string(key));
  };
  for (const results::CacheFacts& cache : repeat.facts.caches)
    add_all("GPU KV capacity", cache.process, cache.capacity_series.value_or(""));
  for (const results::TransferFacts& transfer : repeat.facts.transfers)
    add_all("KV transfer bandwidth", "", transfer.series);
  // Where the pairs do not make the total, the engines' own counters do.
  const auto& pairs = repeat.figures.transfers;
  const bool by_engines = repeat.figures.kv_bytes_per_second.has_value() &&
                          (pairs.empty() || std::any_of(pairs.begin(), pairs.end(), [](const auto& pair) {
                             return !pair.bytes_per_second.has_value();
                           }));
  for (const stats::EngineFacts& engine : repeat.facts.engines) {
    if (!by_engines) break;
    for (const std::string& key : stats::KvBytesOf(engine).series)
      add("KV transfer bandwidth", engine.process, key);
  }
}

Status ManifestBuilder::Write() const {
  POOLMARK_ASSIGN_OR_RETURN(std::string text, results::Encode(file_));
  POOLMARK_RETURN_IF_ERROR(MakeDirs(path_.substr(0, path_.rfind('/')), 0750));
  return AtomicWriteFile(path_, text, 0640);
}

}  // namespace poolmark::controller

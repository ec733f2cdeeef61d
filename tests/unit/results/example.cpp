#include "tests/unit/results/example.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/random.h"
#include "common/base/zstd_file.h"
#include "common/load/describe.h"
#include "common/load/record_codec.h"
#include "common/load/summary.h"
#include "common/results/compute.h"
#include "common/results/inputs_file.h"
#include "common/results/layout.h"
#include "common/results/samples.h"
#include "common/results/summarize.h"
#include "tests/support/temp_dir.h"

namespace poolmark::test {

namespace {

// Bytes of KV that the engine read from the store.
constexpr const char* kMoved = "lmcache:num_remote_read_bytes_total";

}  // namespace

using namespace results;

JobFile ExampleJob() {
  JobFile job;
  job.job_id = "job-1";
  job.state = "SUCCEEDED";
  job.teardown = "CLEAN";
  job.started = "2026-11-30T12:00:00.000Z";
  job.stacks = {{"base", "vllm-local", "local", "aa", "nvidia", false, "none", "tcp"},
                {"cand", "stack.yaml", "shared", "bb", "nvidia", false, "none", "tcp"}};
  job.baseline = "base";
  job.workloads = {
      {"code", "agentic", R"({"shape":"agentic","file":"inputs/code.jsonl"})", "", "", "1", {"c4"}}};
  job.repeats = 3;
  job.slo = {"mlperf-llama2-70b"};
  job.slo_limits = {{"mlperf-llama2-70b", "Llama 2 70B server", "MLPerf", 2, 0.2, ""}};
  return job;
}

ManifestFile ExampleManifest() {
  ManifestFile manifest;
  manifest.job_id = "job-1";
  for (const char* name : {"n1", "n2"}) {
    ManifestMachine machine;
    machine.name = name;
    machine.cpu = "EPYC";
    machine.cores = 64;
    machine.gpus = {{"nvidia", "H100", "GPU-1", "550", 80ull << 30},
                    {"nvidia", "H100", "GPU-2", "550", 80ull << 30}};
    machine.tools = {{"engine counters", "poolmark-agent", "0.1.0", "ab", false, ""},
                     {"nic", "node_exporter", "1.12.1", "cd", true, ""}};
    manifest.machines.push_back(machine);
  }
  for (const char* stack : {"base", "cand"}) {
    ManifestEngine engine;
    engine.process = std::string(stack) + ".engine-n1";
    engine.stack = stack;
    engine.machine = "n1";
    engine.dialect = "vllm";
    engine.version = "0.32.0";
    engine.kv_capacity_tokens = 100000;
    manifest.engines.push_back(engine);
  }
  manifest.series = {{"prompt token sources", "vllm", "0.32.0", "vllm:prompt_tokens_by_source_total", true,
                      "capture of 2026-11-30"}};
  for (const auto& [figure, series] : {std::pair{"prompt token sources", "vllm:prompt_tokens_total"},
                                       {"prompt token sources", "vllm:prompt_tokens_cached_by_source_total"},
                                       {"GPU KV usage", "vllm:kv_cache_usage_perc"},
                                       {"GPU KV capacity", "vllm:cache_config_info"},
                                       {"KV transfer bandwidth", kMoved}}) {
    manifest.series.push_back({figure, "vllm", "0.32.0", series, true, "capture of 2026-11-30"});
  }
  manifest.measures = {
      {"Time to first token", "the load generator's record of every request", "requests.jsonl.zst"}};
  return manifest;
}

PlanFile ExamplePlan() {
  PlanFile plan;
  plan.head = "n1";
  plan.machines = {{"n1", "10.0.0.1"}, {"n2", "10.0.0.2"}};
  const auto process = [](const std::string& stack, const char* name, const char* role, const char* machine) {
    PlanProcess out;
    out.id = stack + "." + name + "-" + machine;
    out.role = role;
    out.machine = machine;
    out.backend = "process";
    out.executable = std::string(role) == "store" ? "valkey-server" : "vllm";
    out.dialect = std::string(role) == "store" ? "redis" : "vllm";
    return out;
  };
  for (const auto& job_stack : ExampleJob().stacks) {
    PlanStack stack;
    stack.name = job_stack.name;
    stack.strategy = job_stack.strategy;
    stack.engine = "vllm";
    stack.model = "m";
    stack.launch = "launch";
    stack.digest = job_stack.digest;
    stack.gpus = 4;
    stack.kv = {"tcp", "none", "bf16", 16, std::nullopt, 0};
    stack.entry_url = "http://10.0.0.1:8000";
    stack.entry_machine = "n1";
    stack.processes = {process(stack.name, "engine", "engine", "n1"),
                       process(stack.name, "router", "router", stack.name == "cand" ? "n2" : "n1")};
    stack.processes[0].gpus = {0, 1};
    stack.processes[0].ports = {8001};
    if (stack.name == "cand") {
      stack.processes.insert(stack.processes.begin(), process("cand", "store", "store", "n2"));
      stack.tiers = {{"remote", 68719476736, "n2", "cand.store-n2"}};
      stack.links = {{"n2", "n1", "tcp"}};
    }
    plan.stacks.push_back(std::move(stack));
  }
  for (const char* stack : {"base", "cand"}) {
    for (int repeat = 1; repeat <= 3; ++repeat)
      plan.cycles.push_back({repeat, stack, {{"code", "c4", repeat}}});
  }
  plan.loads = {{"code", "c4", "4 users"}};
  plan.load_machines = {"n1"};
  plan.line_pairs = {{"n2", "n1", "tcp"}};
  plan.estimated_seconds = 7200;
  return plan;
}

std::vector<stats::RequestFacts> ExampleRequests(const std::string& stack, int repeat) {
  SplitMix64 random(static_cast<uint64_t>(repeat) * 31 + (stack == "cand" ? 7 : 1));
  std::vector<stats::RequestFacts> out;
  const double scale = stack == "cand" ? 0.5 : 1.0;
  for (int i = 0; i < 600; ++i) {
    stats::RequestFacts request;
    request.start = request.sent = 2.0 * i;
    request.first_output = request.start + scale * (0.2 + 0.1 * random.Unit());
    double at = *request.first_output;
    for (int t = 0; t < 20; ++t) {
      request.events.emplace_back(at, 1u);
      if (t < 19) at += 0.02 + 0.01 * random.Unit();
    }
    request.last_output = at;
    request.end = at + 0.001;
    request.input_tokens = 1000;
    request.output_tokens = 20;
    // Records hold nanoseconds.
    const auto whole = [](double seconds) { return static_cast<double>(std::llround(seconds * 1e9)) / 1e9; };
    for (auto& [time, tokens] : request.events) time = whole(time);
    request.first_output = whole(*request.first_output);
    request.last_output = whole(*request.last_output);
    request.end = whole(request.end);
    out.push_back(request);
  }
  return out;
}

RepeatFile ExampleRepeat(const std::string& stack, int repeat) {
  RepeatFile file;
  RepeatFacts& facts = file.facts;
  facts.job_id = "job-1";
  facts.point = {stack, "code", "c4"};
  facts.repeat = repeat;
  facts.cycle = repeat;
  facts.strategy = stack == "cand" ? "shared" : "local";
  facts.shape = "agentic";
  facts.baseline = stack == "base";
  facts.started = "2026-11-30T12:00:00.000Z";
  facts.ended = "2026-11-30T12:20:05.000Z";
  facts.held_load = true;
  facts.load_seconds = 1200;
  facts.warm_up_seconds = 300;
  facts.measured_from = 300;
  facts.measured_to = 1200;
  facts.drain_end = 1201;
  facts.gpus = 4;
  facts.slos = *ExampleJob().slo_limits;
  stats::EngineFacts engine;
  engine.process = stack + ".engine-n1";
  engine.machine = "n1";
  engine.dialect = "vllm";
  engine.version = "0.32.0";
  const double remote = stack == "cand" ? 150000 : 0, local = 200000, computed = 450000 - remote - local;
  engine.deltas = {{"vllm:prompt_tokens_total", 450000},
                   {"vllm:prompt_tokens_by_source_total{source=local_compute}", computed},
                   {"vllm:prompt_tokens_by_source_total{source=local_cache_hit}", local},
                   {"vllm:prompt_tokens_by_source_total{source=external_kv_transfer}", remote},
                   {"vllm:prompt_tokens_cached_by_source_total{source=p2p}", remote}};
  if (stack == "cand") {
    engine.external_tiers = {stats::TierPlace::kRemote};
    engine.second_level = stats::TierPlace::kRemote;
    engine.deltas[kMoved] = 9e11;
  }
  engine.counters_from = facts.measured_from;
  facts.engines = {engine};
  if (stack == "cand") facts.transfers = {{"n2", "n1", "tcp", 9e11, 2e10, kMoved}};
  facts.caches = {
      {engine.process, "n1", 100000.0, 0.6, 0.9, "vllm:kv_cache_usage_perc", "vllm:cache_config_info"}};
  facts.reuse.reusable = 0.82;
  facts.reuse.reusable_uncut = 0.83;
  facts.reuse.reusable_lifetime = 0.8;
  facts.reuse.block_tokens = 16;
  facts.reuse.working_set_tokens = 180000;
  facts.reuse.curve = {{0, 0}, {50000, 0.3}, {100000, 0.55}, {200000, 0.75}, {400000, 0.82}};
  facts.reuse.scope = "session";
  for (const char* machine : {"n1", "n2"}) {
    PowerSeries power{machine, "bmc", "redfish PowerConsumedWatts", {}};
    for (int t = 0; t <= 1210; t += 10) power.watts.emplace_back(t, 900 + 50 * std::sin(t / 60.0));
    facts.power.push_back(power);
  }
  facts.evidence.state = {"empty", {{engine.process, "canary", 0.0}}, {engine.process}};
  if (stack == "cand") {
    facts.evidence.state.tiers.push_back({"cand.store-n2", "DBSIZE", 0.0});
    facts.evidence.state.holders.push_back("cand.store-n2");
    facts.evidence.paths = {{"n2", "n1", "tcp", 9e11, 0.0, 9.1e11, false}};
  }
  facts.evidence.silences = {{"n1", 0.4, "2026-11-30T12:01:00.000Z"},
                             {"n2", 0.5, "2026-11-30T12:01:00.000Z"}};
  facts.evidence.clocks = {{"n1", 0.0004, 0.0001, 0, true}, {"n2", -0.0012, 0.0001, 0, true}};
  const auto requests = ExampleRequests(stack, repeat);
  size_t next = 0;
  auto figures = ComputeRepeat(facts, [&](stats::RequestFacts* request) -> Result<bool> {
    if (next == requests.size()) return false;
    *request = requests[next++];
    return true;
  });
  REQUIRE(figures.ok());
  file.figures = std::move(*figures);
  return file;
}

std::vector<RepeatFile> ExampleRepeats() {
  std::vector<RepeatFile> out;
  for (const char* stack : {"base", "cand"}) {
    for (int repeat = 1; repeat <= 3; ++repeat) out.push_back(ExampleRepeat(stack, repeat));
  }
  return out;
}

std::string ExampleRecords(const std::string& stack, int repeat) {
  std::string out;
  int i = 0;
  for (const auto& request : ExampleRequests(stack, repeat)) {
    const auto ns = [](double seconds) { return std::to_string(std::llround(seconds * 1e9)); };
    out += "{\"session\":" + std::to_string(i / 5) + ",\"turn\":" + std::to_string(i % 5) +
           ",\"id\":\"s\",\"target\":0,\"outcome\":\"ok\",\"status\":200,\"attempts\":1,\"intended\":null,"
           "\"started\":" +
           ns(request.sent) + ",\"sent\":" + ns(request.sent) +
           ",\"connect\":null,\"first_byte\":null,\"first_answer_output\":null,\"kernel_first_output\":null,"
           "\"kernel_last_output\":null,\"lateness\":null,\"planned_input_tokens\":1000,"
           "\"event_tokens_known\":false,\"finish_reason\":\"length\"" +
           ",\"first_output\":" + ns(*request.first_output) + ",\"last_output\":" + ns(*request.last_output) +
           ",\"end\":" + ns(request.end) +
           ",\"input_tokens\":1000,\"cached_tokens\":null,\"output_tokens\":20,\"output_tokens_counted\":"
           "false,\"first_event_tokens\":1,\"events\":[";
    int64_t before = 0;
    for (size_t e = 0; e < request.events.size(); ++e) {
      const int64_t at = std::llround(request.events[e].first * 1e9);
      out += (e ? "," : "") + std::to_string(at - before);
      before = at;
    }
    out += "]}\n";
    ++i;
  }
  return out;
}

namespace {

// The samples of one machine: series as they are needed, rounds in the order of time.
class ExampleSamples {
 public:
  explicit ExampleSamples(std::string machine) : machine_(std::move(machine)) {}
  uint32_t Series(SampleSeries series) {
    series.id = static_cast<uint32_t>(series_.size() + 1);
    series_.push_back(series);
    return series.id;
  }
  void Read(double at, const std::string& source, uint32_t series, double value) {
    SampleRoundRecord& round = rounds_[{Nanoseconds(std::llround(at * 1e9)), source}];
    round.readings.push_back({series, value});
  }
  void Write(const std::string& directory) {
    auto writer = SamplesWriter::Create(JoinPath(directory, SamplesFile(machine_)), machine_,
                                        "2026-11-30T12:00:00.000Z");
    REQUIRE(writer.ok());
    for (const SampleSeries& series : series_) REQUIRE((*writer)->Series(series).ok());
    for (auto& [when, round] : rounds_) {
      round.at = when.first;
      round.source = when.second;
      REQUIRE((*writer)->Round(round).ok());
    }
    REQUIRE((*writer)->Finish().ok());
  }

 private:
  std::string machine_;
  std::vector<SampleSeries> series_;
  std::map<std::pair<Nanoseconds, std::string>, SampleRoundRecord> rounds_;
};

void AddEngine(const RepeatFacts& facts, ExampleSamples* samples) {
  const stats::EngineFacts& engine = facts.engines.at(0);
  for (const auto& [key, delta] : engine.deltas) {
    SampleSeries series{0, engine.process, key.substr(0, key.find('{')), {}, "", "counter"};
    if (const size_t at = key.find('='); at != std::string::npos)
      series.labels[key.substr(key.find('{') + 1, at - key.find('{') - 1)] =
          key.substr(at + 1, key.size() - at - 2);
    const uint32_t id = samples->Series(series);
    samples->Read(facts.measured_from, engine.process, id, 1000.0);
    samples->Read(facts.drain_end, engine.process, id, 1000.0 + delta);
  }
  const uint32_t config = samples->Series({0,
                                           engine.process,
                                           "vllm:cache_config_info",
                                           {{"num_gpu_blocks", "6250"}, {"block_size", "16"}},
                                           "",
                                           "gauge"});
  samples->Read(facts.measured_from, engine.process, config, 1);
  // Half of the window at 0.9 and half at 0.3.
  const uint32_t usage =
      samples->Series({0, engine.process, "vllm:kv_cache_usage_perc", {}, "ratio", "gauge"});
  const double middle = (facts.measured_from + facts.measured_to) / 2;
  for (double at = facts.measured_from; at <= facts.measured_to; at += 10)
    samples->Read(at, engine.process, usage, at < middle ? 0.9 : 0.3);
}

// What the machines' own counters say of the facts.
void WriteExampleSamples(const std::string& directory, const RepeatFacts& facts) {
  REQUIRE(MakeDirs(JoinPath(directory, std::string(kSamplesDir))).ok());
  for (const PowerSeries& power : facts.power) {
    ExampleSamples samples(power.machine);
    if (power.machine == facts.engines.at(0).machine) AddEngine(facts, &samples);
    const uint32_t watts = samples.Series({0, "bmc", power.series, {}, "watts", "gauge"});
    for (const auto& [at, value] : power.watts) samples.Read(at, "bmc", watts, value);
    if (power.machine == "n2") {  // which moves KV
      const uint32_t sent = samples.Series(
          {0, "node", "node_network_transmit_bytes_total", {{"device", "eth0"}}, "bytes", "counter"});
      samples.Read(facts.measured_from, "node", sent, 5e6);
      samples.Read(facts.drain_end, "node", sent, 5e6 + 9.1e11);
    }
    samples.Write(directory);
  }
}

// load.json and timeline.jsonl as the load writes them, from the records.
void WriteExampleLoad(const std::string& directory, const RepeatFacts& facts) {
  const auto ns = [](double seconds) { return static_cast<int64_t>(std::llround(seconds * 1e9)); };
  load::WindowBounds window;
  window.start = ns(facts.measured_from);
  window.end = window.load_end = ns(facts.measured_to);
  window.total_end = ns(facts.drain_end);
  load::Accumulator records;
  const auto read = load::ReadRecords(JoinPath(directory, "requests.jsonl.zst"));
  INFO(read.status().ToString());
  REQUIRE(read.ok());
  for (const load::RequestRecord& record : *read) records.Add(record, window.start);
  const load::LoadOptions options;
  load::Summary summary = load::Summarize(records, window, options, {}, std::nullopt, {});
  summary.load_json = *load::DescribeLoad(options, 1, std::nullopt, std::nullopt, {}, {});
  Json json = load::SummaryJson(summary);
  json["started_wall_ns"] = 0;
  json["window_ns"] = {{"start", window.start},
                       {"end", window.end},
                       {"load_end", window.load_end},
                       {"total_end", window.total_end}};
  REQUIRE(AtomicWriteFile(JoinPath(directory, "load.json"), *DumpJson(json, 2) + "\n").ok());
  std::string timeline;
  for (const double second : {600.0, facts.drain_end})
    timeline += *DumpJson({{"t", second}, {"in_flight", 4}, {"failed", 0}}) + "\n";
  REQUIRE(AtomicWriteFile(JoinPath(directory, "timeline.jsonl"), timeline).ok());
}

}  // namespace

namespace {

void MakeExample(const std::string& directory) {
  const auto write = [&](const std::string& name, const Result<std::string>& text) {
    REQUIRE(text.ok());
    const std::string path = JoinPath(directory, name);
    REQUIRE(MakeDirs(path.substr(0, path.rfind('/'))).ok());
    REQUIRE(AtomicWriteFile(path, *text).ok());
  };
  write("job.json", Encode(ExampleJob()));
  write("manifest.json", Encode(ExampleManifest()));
  PreflightRecord preflight;
  preflight.job_id = "job-1";
  preflight.passed = true;
  LineRate line;
  line.from = "n2";
  line.to = "n1";
  line.path = "tcp";
  line.tool = "iperf3";
  line.tool_version = "3.16";
  line.bits_per_second = 2e10;
  line.runs = {2e10};
  line.latency_p50_us = line.latency_p99_us = NotMeasured{"not asked for"};
  line.counted_per_byte = {{"net:eth0", 1.0}};
  preflight.line_rates = {line};
  preflight.checks = {{"clock", "n1", "pass", "within 100 ms", "0.4 ms", "", "", 0.1}};
  write("preflight.json", Encode(preflight));
  write("plan.json", Encode(ExamplePlan()));
  for (int cycle = 1; cycle <= 3; ++cycle) {
    VerifyRecord verify;
    verify.job_id = "job-1";
    verify.cycle = cycle;
    verify.stack = "cand";
    verify.passed = true;
    verify.started = "2026-11-30T11:59:00.000Z";
    verify.ended = "2026-11-30T11:59:20.000Z";
    verify.checks = {{"tokens_through_router", "", "pass", "tokens", "16 tokens", "", "", 0.4},
                     {"cross_machine_load", "", "pass", "at least 512 tokens", "1024 tokens", "", "", 1.2}};
    verify.proofs["cross_machine_load"] = {{"cand.engine-n2", "n2",
                                            "vllm:prompt_tokens_by_source_total{source=external_kv_transfer}",
                                            0.0, 1024.0, "at least 512 tokens"}};
    write(VerifyFile(cycle), Encode(verify));
    TeardownRecord teardown;
    teardown.job_id = "job-1";
    teardown.cycle = cycle;
    teardown.stack = "cand";
    teardown.cause = "all repeats done";
    teardown.outcome = "CLEAN";
    teardown.items = {{"n2", "process", "cand.store-n2", "removed", "cgroup empty, removed", "", false}};
    write(TeardownFile(cycle), Encode(teardown));
  }
  InputsFile inputs;
  inputs.job_path = "job.yaml";
  write("inputs/job.yaml", std::string("api: poolmark/v1\n"));
  inputs.inputs = {{"job.yaml", *Sha256OfFile(JoinPath(directory, "inputs/job.yaml")), 17, "inputs/job.yaml"},
                   {"code.jsonl", std::string(64, 'a'), 100u << 20, ""}};  // too big to keep
  write(std::string(kInputsFile), Encode(inputs));
  write(std::string(kEventsFile),
        std::string("{\"sequence\":1,\"kind\":\"state\",\"state\":\"SUBMITTED\"}\n"
                    "{\"sequence\":2,\"kind\":\"state\",\"state\":\"SUCCEEDED\"}\n"));
  std::vector<RepeatFile> repeats = ExampleRepeats();
  for (const RepeatFile& repeat : repeats) {
    write(DirectoryOf(repeat) + "/repeat.json", Encode(repeat));
    auto out = ZstdWriter::Create(JoinPath(directory, DirectoryOf(repeat) + "/requests.jsonl.zst"));
    REQUIRE(out.ok());
    REQUIRE((*out)->Write(ExampleRecords(repeat.facts.point.stack, repeat.facts.repeat)).ok());
    REQUIRE((*out)->Finish().ok());
    WriteExampleSamples(JoinPath(directory, DirectoryOf(repeat)), repeat.facts);
    WriteExampleLoad(JoinPath(directory, DirectoryOf(repeat)), repeat.facts);
  }
  write("summary.json", Encode(Summarize(ExampleJob(), ExampleManifest(), repeats, RequestsIn(directory))));
}

}  // namespace

void WriteExample(const std::string& directory) {
  // Made once in a program: with a sanitizer it takes seconds.
  static const TempDir original;
  static const bool made = (MakeExample(original.path()), true);
  REQUIRE(made);
  std::filesystem::copy(
      original.path(), directory,
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
}

}  // namespace poolmark::test

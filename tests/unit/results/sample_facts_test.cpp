// From the samples of a machine to what a repeat's figures rest on: its engine's counters and cache, its
// power.
#include "common/results/sample_facts.h"

#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/results/compute.h"
#include "common/results/samples.h"
#include "common/results/transfers.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::results;

namespace {

Nanoseconds S(double seconds) {
  return Nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

PlanStack OneEngine() {
  PlanStack stack;
  PlanProcess engine;
  engine.id = "s.engine-n0";
  engine.role = "engine";
  engine.machine = "n0";
  engine.dialect = "sglang";
  stack.processes.push_back(engine);
  return stack;
}

class Samples {
 public:
  Samples() : writer_(*results::SamplesWriter::Create(path(), "n0", "2026-11-30T12:00:00.000Z")) {}
  std::string path() const { return directory_.path() + "/n0.jsonl.zst"; }
  uint32_t Add(const std::string& source, const std::string& name, const std::string& kind,
               const std::string& unit = "tokens", std::map<std::string, std::string> labels = {},
               std::optional<prom::Adding> adding = {}) {
    REQUIRE(writer_->Series({++ids_, source, name, std::move(labels), unit, kind, std::move(adding)}).ok());
    return ids_;
  }
  void Round(double at, const std::string& source, std::vector<results::SampleReading> changed,
             const std::string& failure = "") {
    results::SampleRoundRecord round;
    round.at = S(at);
    round.source = source;
    round.failure = failure;
    round.readings = std::move(changed);
    REQUIRE(writer_->Round(round).ok());
  }
  SampleFacts Read(double from, double to, double drained) {
    REQUIRE(writer_->Finish().ok());
    return ReadSampleFacts(OneEngine(), {{"n0", path()}}, {}, {S(from), S(to), S(drained)});
  }

 private:
  test::TempDir directory_;
  std::unique_ptr<results::SamplesWriter> writer_;
  uint32_t ids_ = 0;
};

// Figures of a window of a minute without any request, from the power that was sampled.
stats::EnergyFigures EnergyOver(const SampleFacts& samples, double from, double to) {
  results::RepeatFacts facts;
  facts.measured_from = from;
  facts.measured_to = facts.drain_end = to;
  facts.engines = samples.engines;
  facts.power = samples.power;
  auto figures = results::ComputeRepeat(facts, [](stats::RequestFacts*) -> Result<bool> { return false; });
  REQUIRE(figures.ok());
  return figures->energy;
}

constexpr const char* kEngine = "s.engine-n0";

}  // namespace

TEST_CASE("a reading that does not change is read all the same: 100 W over a minute are 6 000 J", "[E8]") {
  Samples samples;
  const auto watts = samples.Add("bmc", "node_power_watts", "gauge", "watts", {{"reader", "redfish"}});
  samples.Round(-5, "bmc", {{watts, 100.0}});
  for (double at = 0; at <= 70; at += 5) samples.Round(at, "bmc", {});
  const auto energy = EnergyOver(samples.Read(0, 60, 62), 0, 60);
  REQUIRE(energy.joules.has_value());
  CHECK(*energy.joules == Approx(6000));
  CHECK((*energy.machines.at(0).energy).covered_seconds == Approx(60));
}

TEST_CASE("a power reading that steps is a step, and one that is lost leaves a gap", "[E8]") {
  Samples samples;
  const auto watts = samples.Add("bmc", "node_power_watts", "gauge", "watts");
  samples.Round(0, "bmc", {{watts, 100.0}});
  for (int at = 1; at <= 100; ++at) {
    std::vector<results::SampleReading> changed;
    if (at == 20) changed = {{watts, 300.0}};
    if (at == 40) changed = {{watts, NotMeasured{"the BMC gives null"}}};
    if (at == 90) changed = {{watts, 300.0}};
    samples.Round(at, "bmc", std::move(changed));
  }
  const auto energy = EnergyOver(samples.Read(0, 100, 100), 0, 100);
  REQUIRE(energy.joules.has_value());
  // 19 s of 100 W, a second that rises to 300 W, 19 s and 10 s of 300 W; 51 s between the readings are a gap.
  CHECK(*energy.joules == Approx(19 * 100 + 200 + 19 * 300 + 10 * 300));
  CHECK_FALSE(energy.tokens_per_joule.has_value());
  CHECK(energy.tokens_per_joule.reason() == "power of n0 was read for 49.00 of 100.00 s");
}

TEST_CASE("a GPU whose power was never read is missing from the machine's energy", "[E8]") {
  Samples samples;
  const auto one = samples.Add("node", "gpu_power_watts", "gauge", "watts", {{"gpu", "0"}, {"uuid", "a"}});
  const auto two = samples.Add("node", "gpu_power_watts", "gauge", "watts", {{"gpu", "1"}, {"uuid", "b"}});
  samples.Round(0, "node", {{one, 100.0}, {two, NotMeasured{"nvidia-smi gives no value"}}});
  for (int at = 1; at <= 12; ++at) samples.Round(at, "node", {});
  const auto energy = EnergyOver(samples.Read(0, 10, 11), 0, 10);
  CHECK_FALSE(energy.joules.has_value());
  CHECK(energy.joules.reason().find("not every GPU reported its power") != std::string::npos);
}

TEST_CASE("a GPU that a page shows for each of its instances counts once", "[E8]") {
  Samples samples;
  std::vector<results::SampleReading> first;
  for (const char* instance : {"1", "2"})
    first.push_back({samples.Add("node", "DCGM_FI_DEV_POWER_USAGE", "gauge", "watts",
                                 {{"UUID", "GPU-1"}, {"GPU_I_ID", instance}}),
                     200.0});
  samples.Round(0, "node", first);
  for (int at = 1; at <= 12; ++at) samples.Round(at, "node", {});
  CHECK(*EnergyOver(samples.Read(0, 10, 11), 0, 10).joules == Approx(2000));
}

TEST_CASE("cache usage is weighed by the time it was read, once for each process", "[E7]") {
  Samples samples;
  const auto usage = samples.Add(kEngine, "vllm:kv_cache_usage_perc", "gauge", "ratio");
  const auto older = samples.Add(kEngine, "vllm:gpu_cache_usage_perc", "gauge", "ratio");
  const auto blocks = samples.Add(kEngine, "vllm:cache_config_info", "gauge", "info",
                                  {{"num_gpu_blocks", "100"}, {"block_size", "16"}});
  const auto tokens = samples.Add(kEngine, "sglang:prompt_tokens_total", "counter");
  samples.Round(-1, kEngine, {{usage, 0.2}, {older, 0.2}, {blocks, 1.0}, {tokens, 5.0}});
  samples.Round(0, kEngine, {});
  samples.Round(2, kEngine, {{usage, 0.6}, {older, 0.6}});
  samples.Round(4, kEngine, {}, "connection refused");  // what it said before does not stand
  samples.Round(8, kEngine, {}, "connection refused");
  samples.Round(10, kEngine, {{tokens, 105.0}});
  const SampleFacts facts = samples.Read(0, 10, 10);
  REQUIRE(facts.caches.size() == 1);
  CHECK(*facts.caches[0].capacity_tokens == 1600);
  CHECK(facts.caches[0].series == "vllm:kv_cache_usage_perc");
  CHECK(facts.caches[0].capacity_series == "vllm:cache_config_info");
  CHECK(*facts.caches[0].usage_mean == Approx(0.4));
  CHECK(*facts.caches[0].usage_peak == 0.6);
  REQUIRE(facts.notes.size() == 1);
  CHECK(facts.notes[0] == "GPU KV usage of s.engine-n0 could be read for 4 of 10 s of the window");
}

TEST_CASE("the names that said how much a cache holds are kept", "[E7]") {
  const auto read = [](const std::vector<std::pair<std::string, double>>& gauges) {
    Samples samples;
    std::vector<results::SampleReading> first;
    for (const auto& [name, value] : gauges) {
      first.emplace_back();
      first.back().series = samples.Add(kEngine, name, "gauge", "");
      first.back().value = value;
    }
    samples.Round(-1, kEngine, first);
    samples.Round(11, kEngine, {});
    return samples.Read(0, 10, 10).caches.at(0);
  };
  const auto sglang = read({{"sglang:max_total_num_tokens", 4096}});
  CHECK(*sglang.capacity_tokens == 4096);
  CHECK(sglang.capacity_series == "sglang:max_total_num_tokens");
  const auto trtllm = read({{"trtllm_kv_cache_max_blocks", 100}, {"trtllm_kv_cache_tokens_per_block", 32}});
  CHECK(*trtllm.capacity_tokens == 3200);
  CHECK(trtllm.capacity_series == "trtllm_kv_cache_max_blocks, trtllm_kv_cache_tokens_per_block");
  const auto half = read({{"trtllm_kv_cache_max_blocks", 100}});
  CHECK_FALSE(half.capacity_tokens.has_value());
  CHECK(half.capacity_series == "");
}

TEST_CASE("every data-parallel rank holds a cache of its own, every copy of one counts once", "[E7]") {
  using Labels = std::map<std::string, std::string>;
  const auto read = [](const std::string& name, const std::vector<std::pair<Labels, double>>& gauges) {
    Samples samples;
    std::vector<results::SampleReading> first;
    for (const auto& [labels, value] : gauges) {
      first.emplace_back();
      first.back().series = samples.Add(kEngine, name, "gauge", "", labels);
      first.back().value = value;
    }
    samples.Round(-1, kEngine, first);
    samples.Round(11, kEngine, {});
    return *samples.Read(0, 10, 10).caches.at(0).capacity_tokens;
  };
  const auto vllm = [](const char* rank, const char* blocks) {
    return std::pair{Labels{{"engine", rank}, {"num_gpu_blocks", blocks}, {"block_size", "16"}}, 1.0};
  };
  CHECK(read("vllm:cache_config_info", {vllm("0", "100"), vllm("1", "90")}) == 3040);
  CHECK(read("sglang:max_total_num_tokens", {{{{"dp_rank", "0"}, {"tp_rank", "0"}}, 4000.0},
                                             {{{"dp_rank", "0"}, {"tp_rank", "1"}}, 4000.0},
                                             {{{"dp_rank", "1"}, {"tp_rank", "0"}}, 4096.0}}) == 8096);
  CHECK(read("sglang:max_total_num_tokens", {{{{"tp_rank", "0"}}, 4000.0}, {{{"tp_rank", "1"}}, 4000.0}}) ==
        4000);
}

TEST_CASE("bytes of KV that not every engine counted are not measured", "[E6]") {
  PlanStack stack = OneEngine();
  PlanProcess store;
  store.id = "s.store-n1";
  store.role = "store";
  store.machine = "n1";
  stack.processes.push_back(store);
  stack.links.push_back({"n1", "n0", "tcp"});
  SampleFacts samples;
  stats::EngineFacts engine;
  engine.process = kEngine;
  engine.machine = "n0";
  engine.deltas = {{"poolmark_sim_tier_bytes_total{tier=remote,direction=read}", 100},
                   {"lmcache:num_remote_read_bytes_total", 50}};
  samples.engines = {engine};
  auto transfer = TransfersOf(stack, samples, {}).at(0);
  CHECK(*transfer.bytes == 150);
  // Both names are kept: an unconfirmed one holds the result back.
  CHECK(transfer.series ==
        "lmcache:num_remote_read_bytes_total, poolmark_sim_tier_bytes_total{tier=remote,direction=read}");
  samples.unread_caches[kEngine] = "cache server s.cache-n0: no reading";
  CHECK(TransfersOf(stack, samples, {}).at(0).bytes.reason() == "cache server s.cache-n0: no reading");
  samples.engines[0].reset = true;
  CHECK(TransfersOf(stack, samples, {}).at(0).bytes.reason() == "s.engine-n0: a counter went backwards");
  samples.engines[0].unreadable = "the last reading is from 3s into it";
  CHECK(TransfersOf(stack, samples, {}).at(0).bytes.reason() ==
        "s.engine-n0: the last reading is from 3s into it");
}

TEST_CASE("an engine that says nothing of its cache stands there without a size", "[E7]") {
  Samples samples;
  const auto tokens = samples.Add(kEngine, "sglang:prompt_tokens_total", "counter");
  samples.Round(-1, kEngine, {{tokens, 5.0}});
  samples.Round(11, kEngine, {{tokens, 105.0}});
  const SampleFacts facts = samples.Read(0, 10, 10);
  REQUIRE(facts.caches.size() == 1);
  CHECK(facts.caches[0].process == kEngine);
  CHECK_FALSE(facts.caches[0].capacity_tokens.has_value());
  const SampleFacts none = ReadSampleFacts(OneEngine(), {{"n0", "/nonexistent"}}, {}, {S(0), S(10), S(10)});
  REQUIRE(none.caches.size() == 1);
  CHECK(none.caches[0].capacity_tokens.reason() == "the machine's samples cannot be read");
}

TEST_CASE("an engine that was first read inside the window has no change of it", "[B6]") {
  Samples samples;
  const auto prompt = samples.Add(kEngine, "sglang:prompt_tokens_total", "counter");
  const auto hits =
      samples.Add(kEngine, "sglang:cached_tokens_total", "counter", "tokens", {{"cache_source", "device"}});
  samples.Round(2, kEngine, {}, "connection refused");
  samples.Round(7, kEngine, {{prompt, 3438.0}, {hits, 1152.0}});
  samples.Round(61, kEngine, {{prompt, 4142.0}});
  SampleFacts facts = samples.Read(5, 60, 60);
  REQUIRE(facts.engines.size() == 1);
  CHECK(facts.engines[0].deltas.empty());
  CHECK(facts.engines[0].unreadable ==
        "its counters could not be read before the measured window; the first reading is from 7s into it");
}

TEST_CASE("a series that appears inside the window begins at zero, for its engine was read before", "[B6]") {
  Samples samples;
  const auto prompt = samples.Add(kEngine, "sglang:prompt_tokens_total", "counter");
  samples.Round(4, kEngine, {{prompt, 1000.0}});
  const auto hits =
      samples.Add(kEngine, "sglang:cached_tokens_total", "counter", "tokens", {{"cache_source", "device"}});
  samples.Round(30, kEngine, {{prompt, 1500.0}, {hits, 200.0}});
  samples.Round(61, kEngine, {});
  const SampleFacts facts = samples.Read(5, 60, 60);
  REQUIRE(facts.engines.size() == 1);
  CHECK(facts.engines[0].unreadable == "");
  CHECK(facts.engines[0].deltas.at("sglang:prompt_tokens_total") == 500);
  CHECK(facts.engines[0].deltas.at("sglang:cached_tokens_total{cache_source=device}") == 200);
}

TEST_CASE("samples add up as their series say: parts apart, copies of one amount once", "[B1]") {
  Samples samples;
  std::vector<results::SampleReading> before, after;
  for (const char* worker : {"0", "1"}) {
    const auto add = [&](const std::string& name, prom::Adding how) {
      const auto id = samples.Add(kEngine, name, "counter", "tokens",
                                  {{"worker_id", worker}, {"phase", "load"}}, std::move(how));
      before.push_back({id, 1.0});
      after.push_back({id, 9.0});
    };
    add("lmcache:num_hit_tokens_total", {{}, true});
    add("moved_bytes_total", {{"phase"}, false});
  }
  samples.Round(0, kEngine, before);
  samples.Round(61, kEngine, after);
  const SampleFacts facts = samples.Read(5, 60, 60);
  const auto& deltas = facts.engines.at(0).deltas;
  CHECK(deltas.at("lmcache:num_hit_tokens_total") == 8);
  CHECK(deltas.at("moved_bytes_total{phase=load}") == 16);
  CHECK(deltas.at("moved_bytes_total") == 16);
  CHECK(deltas.size() == 3);
}

TEST_CASE("an engine that was not read after the load has no change, nor has its cache server", "[B6]") {
  Samples samples;
  const auto prompt = samples.Add(kEngine, "sglang:prompt_tokens_total", "counter");
  samples.Round(0, kEngine, {{prompt, 1000.0}});
  samples.Round(30, kEngine, {{prompt, 1500.0}});
  samples.Round(61, kEngine, {}, "connection refused");
  const SampleFacts facts = samples.Read(5, 60, 60);
  CHECK(facts.engines.at(0).unreadable ==
        "its counters could not be read after the load; the last reading is from 30s into it");
}

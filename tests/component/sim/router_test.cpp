// The simulated router in front of simulated engines, all real programs.
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <thread>

#include "tests/component/sim/sim_process.h"

using namespace poolmark;
using namespace poolmark::test;

namespace {

std::vector<std::string> FastEngine(std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"engine", "--decode-step", "1ms", "--prefill-rate", "1000000"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// A router and what its metrics port says.
struct TestRouter {
  explicit TestRouter(std::vector<std::string> arguments) : sim(Prepend(std::move(arguments))) {
    metrics_url = "http://" + sim.child().Line("metrics ") + "/metrics";
    auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (sim.Get("/health").status != 200) {
      REQUIRE(std::chrono::steady_clock::now() < limit);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  static std::vector<std::string> Prepend(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"router", "--health-interval", "100ms"});
    return arguments;
  }
  std::string Page() { return Fetch("GET", metrics_url).body; }
  Sim sim;
  std::string metrics_url;
};

}  // namespace

TEST_CASE("round robin shares the requests out, streams pass through unchanged", "[live]") {
  Sim a(FastEngine());
  Sim b(FastEngine());
  TestRouter router({"--worker-urls", a.url(), b.url()});
  CHECK_FALSE(Has(router.Page(), "vllm_router_requests_total"));
  for (int i = 0; i < 6; ++i) {
    auto reply = router.sim.Post("/v1/completions", Completion(Prompt(i, 50), 3, R"("stream":true,
        "stream_options":{"include_usage":true})"));
    REQUIRE(reply.status == 200);
    CHECK(reply.header("content-type") == "text/event-stream; charset=utf-8");
    CHECK(Has(reply.body, "\"finish_reason\":\"length\""));
    CHECK(Has(reply.body, "\"usage\":{\"prompt_tokens\""));
    CHECK(Has(reply.body, "data: [DONE]"));
  }
  CHECK(a.Metric("vllm:request_success_total") == 3);
  CHECK(b.Metric("vllm:request_success_total") == 3);
  std::string page = router.Page();
  CHECK(Has(page, "vllm_router_requests_total{route=\"/v1/completions\"} 6.0"));
  CHECK(
      Has(page, "vllm_router_policy_decisions_total{policy=\"round_robin\",worker=\"" + a.url() + "\"} 3.0"));
  CHECK(Has(page, "vllm_router_cb_outcomes_total{worker=\"" + b.url() + "\",outcome=\"success\"} 3.0"));
  CHECK(Has(page, "vllm_router_generate_duration_seconds_count 6.0"));
  // As vllm-router's main port does it: an engine's page, not the router's.
  CHECK(Has(router.sim.Get("/metrics").body, "vllm:prompt_tokens_total"));
  CHECK(Has(router.sim.Get("/version").body, "simulated"));
  auto refused = router.sim.Post("/v1/completions", R"({"model":"nope","prompt":"x"})");
  CHECK(refused.status == 404);
  CHECK(Has(router.Page(), "error_type=\"non_retryable_error\"} 1.0"));
}

TEST_CASE("cache-aware and sticky policies bring a session back to its engine", "[live]") {
  Sim a(FastEngine());
  Sim b(FastEngine());
  for (const std::string policy : {"cache_aware", "sticky"}) {
    TestRouter router({"--worker-urls", a.url(), b.url(), "--policy", policy});
    int64_t warm = 0;
    for (int session = 0; session < 4; ++session) {
      std::string prompt = policy + Prompt(session, 200);
      for (int turn = 0; turn < 3; ++turn) {
        auto reply = router.sim.Post("/v1/completions",
                                     Completion(prompt, 2, "\"user\":\"u" + std::to_string(session) + "\""));
        warm += NumberAt(reply.body, "usage/prompt_tokens_details/cached_tokens") > 150;
      }
    }
    CAPTURE(policy);
    CHECK(warm == 8);
  }
}

TEST_CASE("an engine that dies is left out, half an answer is never taken for a whole one", "[live]") {
  Sim a(FastEngine());
  Sim b(FastEngine({"--fault", "reset:after_tokens=2"}));
  {
    TestRouter router({"--worker-urls", b.url()});
    auto reply = router.sim.Post("/v1/completions", Completion("x", 50, "\"stream\":true"));
    CHECK_FALSE(Has(reply.body, "[DONE]"));
    CHECK(reply.status == 0);  // the client saw a broken connection
    CHECK(Has(router.Page(), "error_type=\"broken_stream\"} 1.0"));
  }
  TestRouter router({"--worker-urls", a.url(), b.url()});
  b.child().Signal(SIGKILL);
  REQUIRE(b.child().Wait(5000));
  for (int i = 0; i < 4; ++i) CHECK(router.sim.Post("/v1/completions", Completion("x", 2)).status == 200);
  CHECK(router.sim.Get("/health").status == 503);
  CHECK(Has(router.Page(), "vllm_router_worker_health{worker=\"" + b.url() + "\"} 0.0"));
  a.child().Signal(SIGKILL);
  REQUIRE(a.child().Wait(5000));
  int status = router.sim.Post("/v1/completions", Completion("x", 2)).status;
  CHECK((status == 502 || status == 503));
}

TEST_CASE("prefill on one engine, decode on the other", "[live]") {
  Sim p(FastEngine({"--role", "prefill"}));
  Sim d(FastEngine({"--role", "decode"}));
  TestRouter router({"--pd", "--prefill", p.url(), "--decode", d.url()});
  int64_t tokens = 0;
  for (int i = 0; i < 3; ++i) {
    auto reply = router.sim.Post("/v1/completions", Completion(Prompt(i, 300), 4));
    REQUIRE(reply.status == 200);
    CHECK(NumberAt(reply.body, "usage/completion_tokens") == 4);
    tokens += NumberAt(reply.body, "usage/prompt_tokens");
  }
  CHECK(p.Metric("vllm:prompt_tokens_by_source_total", "local_compute") == tokens);
  CHECK(d.Metric("vllm:prompt_tokens_by_source_total", "local_compute") == 0);
  CHECK(d.Metric("vllm:prompt_tokens_by_source_total", "external_kv_transfer") == tokens);
  std::string page = router.Page();
  CHECK(Has(page, "vllm_router_pd_prefill_requests_total{worker=\"" + p.url() + "\"} 3.0"));
  CHECK(Has(page, "vllm_router_pd_decode_requests_total{worker=\"" + d.url() + "\"} 3.0"));
  CHECK(router.sim.Get("/metrics").status == 405);
  CHECK(router.sim.Post("/v1/completions", "not json").status == 400);
}

TEST_CASE("a client that goes away stops the engine's work", "[live]") {
  Sim a(FastEngine());
  TestRouter router({"--worker-urls", a.url()});
  auto url = *http::ParseUrl(router.sim.url() + "/v1/completions");
  http::Request request;
  request.method = "POST";
  request.url = url;
  request.body = Completion("x", 50000, "\"stream\":true");
  auto reply = http::MakeClient()->Stream(request, [](std::string_view, Nanoseconds) { return false; });
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (a.Metric("vllm:request_success_total", "abort") == 0 && std::chrono::steady_clock::now() < limit) {
  }
  CHECK(a.Metric("vllm:request_success_total", "abort") == 1);
  CHECK(a.Metric("vllm:kv_cache_usage_perc") == 0);
}

TEST_CASE("the router ends on SIGTERM", "[live]") {
  Sim a(FastEngine());
  TestRouter router({"--worker-urls", a.url()});
  router.sim.child().Signal(SIGTERM);
  CHECK(router.sim.child().Wait(5000) == 0);
}

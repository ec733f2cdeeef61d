// What a load's files say: what the load was, its engines' token sources, the exports.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/process.h"
#include "tests/component/load/program.h"
#include "tests/component/load/schema_keys.h"
#include "tests/support/shared_data.h"
#include "tests/support/token_server.h"

namespace poolmark::load::test {

using poolmark::test::Process;
using poolmark::test::TempDir;
using poolmark::test::TokenServer;

namespace {
bool WritePage(poolmark::test::RawConnection& connection, const std::string& page) {
  return connection.Write("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " +
                          std::to_string(page.size()) + "\r\n\r\n" + page);
}
}  // namespace

TEST_CASE("results say what the load was, and no secret", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(1)});
  const TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "key", "sk-very-secret\n").ok());
  const Done done = Poolmark(Quick(server, {"-r",
                                            "100",
                                            "--arrivals",
                                            "gamma",
                                            "--cv",
                                            "0.5",
                                            "--seed",
                                            "77",
                                            "--retry-attempts",
                                            "3",
                                            "-n",
                                            "20",
                                            "--input-tokens",
                                            "33",
                                            "--api-key-file",
                                            dir / "key",
                                            "--drain",
                                            "90s",
                                            "--slo",
                                            "ttft=2s,share=0.75",
                                            "--out",
                                            dir / "o",
                                            "-o",
                                            "json"}));
  INFO(done.err);
  REQUIRE(done.code == 0);
  const Json printed = *ParseJson(done.out);
  const Json stored = *ParseJson(*ReadFile(dir / "o/load.json"));
  CHECK(printed["load"] == stored["load"]);
  CheckKeys(stored, *ParseJson(*ReadFile(poolmark::test::Source("docs/schemas/load.schema.json"))),
            "load.json");
  const Json& load = stored["load"];
  CHECK(load["model"] == "m");
  CHECK(load["api"] == "chat");
  CHECK(load["load"]["rate"] == "100.0");
  CHECK(load["load"]["arrivals"] == "gamma");
  CHECK(load["load"]["cv"] == 0.5);
  CHECK(load["load"]["seed"] == 77);
  CHECK(load["seed"] == 77);
  CHECK(load["input_tokens"] == 33);
  CHECK(load["output_tokens"] == 3);
  CHECK(load["requests"] == 20);
  CHECK(load["drain"] == "1m30s");
  CHECK(load["retry"]["attempts"] == 3);
  CHECK(load["retry"]["on"] == Json::array({"connect", "stale", "429", "5xx"}));
  CHECK(load["loops"].get<int>() >= 1);
  CHECK_FALSE(load["program"]["version"].get<std::string>().empty());
  CHECK_FALSE(load["machine"]["hostname"].get<std::string>().empty());
  CHECK(load["urls"][0].get<std::string>().find("/v1/chat/completions") != std::string::npos);
  CHECK(load["headers"] == Json::array({"Authorization"}));
  CHECK(done.out.find("sk-very-secret") == std::string::npos);
  CHECK(stored["goodput"]["required_share"] == 0.75);
  CHECK(stored["goodput"]["met"] == true);
}

TEST_CASE("figures of another schema_version are refused by every reader", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(1)});
  const TempDir dir;
  REQUIRE(Poolmark(Quick(server, {"-c", "1", "-n", "4", "--out", dir / "o"})).code == 0);
  Json json = *ParseJson(*ReadFile(dir / "o/load.json"));
  for (const auto& [version, told] : {std::pair{Json(2), "its schema_version is 2, and this program reads 1"},
                                      {Json("1"), "its schema_version is \"1\", and this program reads 1"},
                                      {Json(), "its schema_version is null, and this program reads 1"}}) {
    json["schema_version"] = version;
    REQUIRE(AtomicWriteFile(dir / "o/load.json", *DumpJson(json)).ok());
    for (const auto& [command, arguments] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"load", {"--from", dir / "o", "--export", "vllm"}},
             {"load", {"--merge", dir / "o", "--out", dir / "all"}},
             {"report", {dir / "o"}}}) {
      const Done done = Poolmark(arguments, command);
      INFO(command << " " << arguments[0] << ": " << done.out << done.err);
      CHECK(done.code != 0);
      CHECK((done.out + done.err).find(told) != std::string::npos);
    }
  }
  json.erase("schema_version");
  REQUIRE(AtomicWriteFile(dir / "o/load.json", *DumpJson(json)).ok());
  CHECK(Poolmark({"--from", dir / "o", "--export", "vllm"}).err.find("it has no schema_version") !=
        std::string::npos);
}

TEST_CASE("gap percentiles of load.json are those of the exports", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 40, .first = milliseconds(1), .between = milliseconds(1)});
  const TempDir dir;
  REQUIRE(Poolmark(Quick(server, {"-c", "3", "-n", "30", "--warm-up-requests", "6", "--out", dir / "o",
                                  "--export", "vllm"}))
              .code == 0);
  REQUIRE(Poolmark({"--from", dir / "o", "--export", "aiperf"}).code == 0);
  const Json gaps = (*ParseJson(*ReadFile(dir / "o/load.json")))["inter_token_latency_ms"];
  const Json vllm = *ParseJson(*ReadFile(dir / "o/vllm.json"));
  const Json aiperf = (*ParseJson(*ReadFile(dir / "o/profile_export_aiperf.json")))["inter_chunk_latency"];
  CHECK(gaps["count"] == 30 * 39);
  // Buckets 0.1 % wide, and four decimals.
  const auto near = [](double value) { return Approx(value).epsilon(1.0 / 1024).margin(1e-4); };
  for (const char* name : {"p50", "p90", "p95", "p99"}) {
    INFO(name);
    CHECK(gaps[name].get<double>() == near(vllm[std::string(name) + "_itl_ms"].get<double>()));
    CHECK(gaps[name].get<double>() == near(aiperf[name].get<double>()));
  }
  CHECK(gaps["mean"].get<double>() == Approx(vllm["mean_itl_ms"].get<double>()).margin(1e-4));
  CHECK(gaps["min"].get<double>() == Approx(aiperf["min"].get<double>()).margin(1e-4));
  CHECK(gaps["max"].get<double>() == Approx(aiperf["max"].get<double>()).margin(1e-4));
}

TEST_CASE("where prompt tokens came from stands in every result, and a simulated engine is named", "[live]") {
  if (NoProgram()) return;
  for (const bool simulated : {false, true}) {
    std::atomic<int> asked{0};
    // 6 of 8 prompt tokens of each request come from the cache; its page counts them.
    TokenServer server(
        {.answer = [&](poolmark::test::RawConnection& connection, const std::string& request, int) {
          if (!request.starts_with("GET "))
            return ++asked > 0 && connection.Write(poolmark::test::StreamOf(1));
          const int n = asked;
          const std::string page =
              "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total " + std::to_string(8 * n) +
              "\n# TYPE vllm:prompt_tokens_by_source_total counter\n"
              "vllm:prompt_tokens_by_source_total{source=\"local_compute\"} " +
              std::to_string(2 * n) + "\nvllm:prompt_tokens_by_source_total{source=\"local_cache_hit\"} " +
              std::to_string(6 * n) +
              "\nvllm:prompt_tokens_by_source_total{source=\"external_kv_transfer\"} 0\n" +
              (simulated ? "poolmark_sim_info{simulated=\"true\"} 1\n" : "");
          return WritePage(connection, page);
        }});
    const TempDir dir;
    const Done done = Poolmark(
        Quick(server, {"-c", "2", "-n", "10", "--metrics", server.url(), "-o", "json", "--out", dir / "o"}));
    INFO(done.out << done.err);
    REQUIRE(done.code == 0);
    const Json told = (*ParseJson(done.out))["prompt_token_sources"];
    CHECK(told["engines"][0]["simulated"] == simulated);
    CHECK(told["engines"][0]["dialect"] == "vllm");
    CHECK(told["gpu_is"] == (simulated ? "engine cache" : "GPU cache"));
    CHECK(told["total"]["prompt"] == 80);
    CHECK(told["total"]["gpu"] == 60);
    CHECK(told["total"]["computed"] == 20);
    CHECK(told["total"]["not_attributed"] == 0);
    const Json stored = *ParseJson(*ReadFile(dir / "o/load.json"));
    CHECK(stored["prompt_token_sources"] == told);
    CheckKeys(stored, *ParseJson(*ReadFile(poolmark::test::Source("docs/schemas/load.schema.json"))),
              "load.json");
    const Done report = Poolmark({dir / "o"}, "report");
    CHECK(report.code == 0);
    CHECK(report.out.find(simulated ? "engine cache" : "GPU cache") != std::string::npos);
    CHECK((report.out.find("(simulated engine)") != std::string::npos) == simulated);
    const std::string page = *ReadFile(dir / "o/report.html");
    CHECK(page.find("Prompt tokens by source") != std::string::npos);
    CHECK((page.find("simulated engine") != std::string::npos) == simulated);
    const Done text = Poolmark(Quick(server, {"-c", "1", "-n", "2", "--metrics", server.url().substr(7)}));
    CHECK(text.out.find("prompt tokens by source") != std::string::npos);
    CHECK((text.out.find("(simulated engine)") != std::string::npos) == simulated);
    // One page under two names would count every token twice.
    for (const std::string& again : {server.url(), server.url() + "/metrics"}) {
      const Done twice = Poolmark(Quick(server, {"-n", "1", "--metrics", server.url() + "," + again}));
      CHECK(twice.code == 2);
      CHECK_THAT(twice.err, Catch::Contains("named before: its tokens would count twice"));
    }
  }
}

TEST_CASE("an engine that was restarted under load is seen by its page's identity, not by its counts alone",
          "[B1][live]") {
  if (NoProgram()) return;
  for (const bool restarts : {false, true}) {
    std::atomic<int> asked{0};
    // The new process has counted past where the old one stood.
    TokenServer server(
        {.answer = [&](poolmark::test::RawConnection& connection, const std::string& request, int) {
          if (!request.starts_with("GET "))
            return ++asked > 0 && connection.Write(poolmark::test::StreamOf(1));
          const bool over = asked >= 30;
          const std::string tokens = over ? "1000" : "100";
          const std::string page = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds " +
                                   std::string(over && restarts ? "200" : "100") +
                                   "\n# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total " +
                                   tokens +
                                   "\n# TYPE vllm:prompt_tokens_by_source_total counter\n"
                                   "vllm:prompt_tokens_by_source_total{source=\"local_compute\"} " +
                                   tokens + "\n";
          return WritePage(connection, page);
        }});
    const Done done =
        Poolmark(Quick(server, {"-c", "1", "-n", "30", "--metrics", server.url(), "-o", "json"}));
    INFO(done.out << done.err);
    REQUIRE(done.code == 0);
    const Json told = (*ParseJson(done.out))["prompt_token_sources"];
    CHECK(told["total"].contains("not_measured") == restarts);
    CHECK((told.dump().find("started anew during the load: process_start_time_seconds changed") !=
           std::string::npos) == restarts);
    if (!restarts) CHECK(told["total"]["prompt"] == 900);
  }
}

TEST_CASE("exports carry the records in the forms of other tools", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(5), .between = milliseconds(2)});
  const TempDir dir;
  REQUIRE(Poolmark(Quick(server, {"-c", "2", "-n", "10", "--out", dir / "o", "--export", "vllm"})).code == 0);
  const Json vllm = *ParseJson(*ReadFile(dir / "o/vllm.json"));
  CHECK(vllm["completed"] == 10);
  CHECK(vllm["ttfts"].size() == 10);
  CHECK(vllm["ttfts"][0].get<double>() > 0.005);
  CHECK(vllm["itls"][0].size() == 2);
  CHECK(vllm["total_output_tokens"] == 30);
  CHECK(vllm["median_ttft_ms"].get<double>() >= 5);
  CHECK(vllm["backend"] == "openai-chat");
  CHECK(vllm["model_id"] == "m");
  CHECK(vllm["request_rate"] == "inf");
  CHECK(vllm["burstiness"] == 1.0);
  CHECK(vllm["max_concurrency"] == 2);
  CHECK(vllm["max_concurrent_requests"].get<int>() <= 2);
  CHECK(vllm["max_output_tokens_per_s"].get<double>() > 0);
  CHECK(vllm["latencies"].size() == 10);
  for (const char* key : {"label", "tokenizer_id", "date", "queue_times", "request_goodput"})
    CHECK(vllm.contains(key));
  REQUIRE(Poolmark({"--from", dir / "o", "--export", "aiperf"}).code == 0);
  const auto lines = ParseJsonLines(*ReadFile(dir / "o/profile_export.jsonl"), "p");
  REQUIRE(lines.ok());
  REQUIRE(lines->size() == 10);
  CHECK((*lines)[0]["metadata"]["benchmark_phase"] == "profiling");
  CHECK((*lines)[0]["metrics"]["time_to_first_token"]["unit"] == "ms");
  CHECK((*lines)[0]["metrics"]["inter_chunk_latency"]["value"].size() == 2);
  for (const Json& line : *lines)
    CHECK(server.ids().count(line["metadata"]["x_request_id"].get<std::string>()) == 1);
  const Json aggregate = *ParseJson(*ReadFile(dir / "o/profile_export_aiperf.json"));
  CHECK(aggregate["request_count"]["avg"] == 10);
  CHECK(aggregate["error_request_count"]["avg"] == 0);
  CHECK(aggregate["time_to_first_token"]["unit"] == "ms");
  CHECK(aggregate["time_to_first_token"]["min"].get<double>() >= 5);
  CHECK(aggregate["output_sequence_length"]["p50"] == 3);
  CHECK(aggregate["total_osl"]["avg"] == 30);
}

TEST_CASE("requests that never left are not concurrent in an export", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 1, .first = milliseconds(200)});
  const TempDir dir;
  REQUIRE(Poolmark(Quick(server, {"-r", "40", "--duration", "1s", "--max-connections", "2", "--drain",
                                  "100ms", "--out", dir / "o", "--export", "vllm"}))
              .code == 0);
  size_t unsent = 0;
  const auto records = ReadRecords(dir / "o/requests.jsonl.zst");
  REQUIRE(records.ok());
  for (const RequestRecord& record : *records) unsent += !record.was_sent();
  CHECK(unsent > 10);
  const Json vllm = *ParseJson(*ReadFile(dir / "o/vllm.json"));
  CHECK(vllm["max_concurrent_requests"].get<int>() >= 1);
  CHECK(vllm["max_concurrent_requests"].get<int>() <= 2);
}

TEST_CASE("a failed request is an error in the exports and in none of their figures", "[live][H8]") {
  if (NoProgram()) return;
  // Every second answer breaks off after its first token.
  std::atomic<int> number{0};
  TokenServer server({.answer = [&](poolmark::test::RawConnection& connection, const std::string&, int) {
    const std::string token =
        poolmark::test::Chunk("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n");
    if (number++ % 2 == 1) return connection.Write(poolmark::test::ChunkedHead() + token + "0\r\n\r\n");
    return connection.Write(poolmark::test::ChunkedHead() + token +
                            poolmark::test::Chunk("data: [DONE]\n\n") + "0\r\n\r\n");
  }});
  const TempDir dir;
  REQUIRE(Poolmark(Quick(server, {"-c", "1", "-n", "8", "--out", dir / "o", "--export", "aiperf"})).code ==
          0);
  const auto lines = ParseJsonLines(*ReadFile(dir / "o/profile_export.jsonl"), "p");
  int failed = 0;
  for (const Json& line : *lines) {
    if (line["error"].is_null()) continue;
    ++failed;
    CHECK(line["error"]["type"] == "truncated");
    CHECK(line["metrics"].empty());
  }
  CHECK(failed == 4);
  const Json aggregate = *ParseJson(*ReadFile(dir / "o/profile_export_aiperf.json"));
  CHECK(aggregate["request_count"]["avg"] == 4);
  CHECK(aggregate["error_request_count"]["avg"] == 4);
  REQUIRE(aggregate["error_summary"].size() == 1);
  CHECK(aggregate["error_summary"][0]["count"] == 4);
}

}  // namespace poolmark::load::test

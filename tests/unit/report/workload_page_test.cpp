// `poolmark workload inspect` as text, JSON and page: what a held load would measure, and files that are no
// workload.
#include "common/report/workload_page.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/workload/inspect.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::workload;
using poolmark::test::TempDir;

namespace {

Inspection InspectJson(const Json& json, std::optional<uint32_t> block_tokens = std::nullopt,
                       std::optional<double> capacity = std::nullopt) {
  const auto spec = ParseWorkload(json);
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  auto out = Inspect(*spec, block_tokens, capacity);
  INFO(out.status().ToString());
  REQUIRE(out.ok());
  return *std::move(out);
}

std::string Refusal(const std::string& path) {
  const auto json = DetectWorkload(path);
  return json.ok() ? "" : std::string(json.status().message());
}

}  // namespace

TEST_CASE("inspect gives the window and the lifetime of a held load, cut and uncut", "[B2][H1][H2][H3]") {
  TempDir dir;
  // One user: rounds at 0, 100 and 200 s; blocks of 4, engine blocks of 8.
  REQUIRE(
      AtomicWriteFile(
          dir / "s.jsonl",
          R"({"id":"a","block_size":4,"hash_id_scope":"local","requests":[)"
          R"({"t":0,"type":"n","in":12,"out":2,"hash_ids":[1,2,3],"api_time":1,"think_time":0},)"
          R"({"t":100,"type":"n","in":20,"out":2,"hash_ids":[1,2,3,4,5],"api_time":1,"think_time":99},)"
          R"({"t":200,"type":"n","in":24,"out":2,"hash_ids":[1,2,3,4,5,6],"api_time":1,"think_time":99}]})"
          "\n")
          .ok());
  const Json json = {
      {"shape", "agentic"}, {"file", dir / "s.jsonl"}, {"load_duration", "150s"}, {"warm_up", "60s"}};
  const Inspection in = InspectJson(json, 8, 64);
  CHECK(in.reuse.requests == 3);
  CHECK(*in.reuse.share() == Approx((8.0 + 16) / 56));
  const WindowReuse& window = in.window;
  CHECK(window.held);
  CHECK(window.measured_line == "Measured over 90 s after a 1 min warm-up");
  CHECK(window.reuse.requests == 1);
  CHECK(*window.reuse.share() == Approx(8.0 / 20));
  CHECK(*window.reuse.share_uncut() == Approx(12.0 / 20));
  CHECK(window.reuse.lifetime_requests == 2);
  CHECK(*window.reuse.share_lifetime() == Approx(8.0 / 32));
  CHECK(*window.reuse.share_lifetime_uncut() == Approx(12.0 / 32));
  CHECK(window.reuse.working_set_tokens == 22);
  CHECK(*window.working_set_ratio == Approx(22.0 / 64));
  CHECK_FALSE(window.runs_out_at.has_value());

  const Json out = ToJson(in).at("window");
  CHECK(out.at("requests") == 1);
  CHECK(out.at("reusable_share").get<double>() == Approx(0.4));
  CHECK(out.at("reusable_share_uncut").get<double>() == Approx(0.6));
  CHECK(out.at("lifetime_reusable_share").get<double>() == Approx(0.25));
  CHECK(out.at("lifetime_reusable_share_uncut").get<double>() == Approx(0.375));
  CHECK(out.at("runs_out_at_seconds").is_null());
  CHECK_THAT(ToText(in),
             Catch::Contains("Measured over 90 s after a 1 min warm-up at c1\n") &&
                 Catch::Contains("measured window      1 requests, reusable 40.000 %, uncut 60.000 %") &&
                 Catch::Contains("cache's lifetime     2 requests, reusable 25.000 %, uncut 37.500 %"));
  const std::string page = report::WorkloadPage(in);
  for (const char* part :
       {"Measured over 90 s after a 1 min warm-up at c1.", "reusable in the measured window",
        "Lifetime of the cache", "LRU cache, the held load"}) {
    INFO(part);
    CHECK(page.find(part) != std::string::npos);
  }
  CHECK(page.find("\"dashed\":true") == std::string::npos);  // in a report that is an invalid repeat

  // Two users share one session: the second finds none from the start.
  Json more = json;
  more["concurrency"] = 2;
  const Inspection two = InspectJson(more);
  REQUIRE(two.window.runs_out_at.has_value());
  CHECK(*two.window.runs_out_at == Nanoseconds(0));
  more["concurrency"] = 1;
  more["load_duration"] = "300s";
  CHECK(*InspectJson(more).window.runs_out_at == std::chrono::seconds(201));
  CHECK_THAT(ToText(InspectJson(more)), Catch::Contains("the load runs out of sessions after 3m21s"));
  more["load_duration"] = "1200s";
  more["warm_up"] = "300s";
  CHECK_THAT(ToText(InspectJson(more)),
             Catch::Contains("measured window      0 requests, reusable not measured (no request counts)"));
}

TEST_CASE("a shape that holds no load is measured whole", "[B2][H10][H11]") {
  const Inspection in =
      InspectJson({{"shape", "synthetic"}, {"sessions", 4}, {"prefix", 40}, {"input", 8}, {"output", 2}});
  CHECK(in.window.measured_line == "Measured over the whole run");
  CHECK(*in.window.reuse.share() == Approx(3 * 32.0 / (4 * 48)));
  CHECK(*in.window.reuse.share_lifetime() == *in.reuse.share());
  CHECK(ToJson(in).at("window").at("held") == false);
}

TEST_CASE("the agentic slice: window and lifetime as counted from its recorded times",
          "[D1][B2][H3][recorded]") {
  const auto shared = test::SharedData();
  if (!shared) return;
  // Counted by a script of its own: the requests of the first session, sub-agents too, in the order of their
  // recorded times, up to second 1200; those from second 300 on are the window. Blocks of 64.
  const Inspection in =
      InspectJson({{"shape", "agentic"}, {"file", *shared + "/data/traces/weka_agentic_slice.jsonl"}});
  const Reuse& reuse = in.window.reuse;
  CHECK(reuse.requests == 20);
  CHECK(reuse.prompt_tokens == 1433468);
  CHECK(reuse.reusable_tokens == 1299904);
  CHECK(reuse.lifetime_requests == 25);
  CHECK(reuse.lifetime_prompt_tokens == 1647873);
  CHECK(reuse.lifetime_reusable_tokens == 1432832);
  CHECK(*in.reuse.share() == Approx(0.92364).margin(5e-6));
}

TEST_CASE("a workload file with a mistake is refused with the mistake's line", "[D3]") {
  TempDir dir;
  const auto refusal = [&](const std::string& text) {
    REQUIRE(AtomicWriteFile(dir / "w.json", text).ok());
    return Refusal(dir / "w.json");
  };
  CHECK_THAT(refusal("{\"shape\": \"trace\",\n \"format\": \"mooncake\"\n \"file\": \"x\"}\n"),
             Catch::Contains("w.json") && Catch::Contains("line 3"));
  CHECK_THAT(refusal("{\n \"shape\": \"trace\",\n \"speedup\": 01}\n"), Catch::Contains("line 3"));
  CHECK_THAT(refusal("{\n \"shape\": \"trace\", \"shape\": \"agentic\"}"),
             Catch::Contains("'shape' stands twice"));
  CHECK_THAT(refusal("{\"file\": \"x\"}"), Catch::Contains("without `shape`"));
  CHECK_THAT(refusal("{\"a\":1}\n{\"b\":2}\n"), Catch::Contains("first line"));
  CHECK_THAT(refusal("hello\n"), Catch::Contains("first line"));
}

TEST_CASE("the file of a workload is found beside the workload", "[D4]") {
  TempDir dir;
  REQUIRE(MakeDirs(dir / "jobs").ok());
  const auto file = [&](const std::string& name) {
    const std::string text = *DumpJson(Json{{"shape", "trace"}, {"format", "mooncake"}, {"file", name}});
    REQUIRE(AtomicWriteFile(dir / "jobs/w.json", text).ok());
    return DetectWorkload(dir / "jobs/w.json")->at("file").get<std::string>();
  };
  CHECK(file("t.jsonl") == dir / "jobs/t.jsonl");
  CHECK(file("../t.jsonl") == dir / "jobs/../t.jsonl");
  CHECK(file("/abs/t.jsonl") == "/abs/t.jsonl");
}

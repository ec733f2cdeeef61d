// Plan files and the workers of one plan: shared without overlap, merged into one result.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/files.h"
#include "common/base/json.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/plans.h"
#include "tests/component/load/schema_keys.h"
#include "tests/support/shared_data.h"
#include "tests/support/token_server.h"

namespace poolmark::load::test {

using poolmark::test::TempDir;
using poolmark::test::TokenServer;

TEST_CASE("a plan file runs a workload and tells its progress as JSON lines", "[live][D3]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(10)});
  const TempDir dir;
  const std::string plan = WritePlan(dir, "o",
                                     PlanOf(server,
                                            {{"shape", "synthetic"},
                                             {"sessions", 6},
                                             {"groups", 2},
                                             {"prefix", 32},
                                             {"turns", 3},
                                             {"input", 16},
                                             {"growth", 8},
                                             {"output", 4},
                                             {"model", "m"}},
                                            {{"concurrency", 2}}, {{"request_id_prefix", "job-1"}}));
  const Done done = Poolmark({"--plan", plan});
  INFO(done.out << done.err);
  REQUIRE(done.code == 0);
  std::vector<Json> events = *ParseJsonLines(done.out, "stdout");
  CHECK(events.front()["event"] == "start");
  CHECK(events.back()["event"] == "end");
  CHECK(events.back()["exit_code"] == 0);
  CHECK(events.back()["summary"]["ok"] == 18);
  CHECK(server.max_in_flight() == 2);
  const auto records = ReadRecords(dir / "o/requests.jsonl.zst");
  CHECK(records->size() == 18);
  CHECK(server.ids().count("job-1-5-2") == 1);
}

TEST_CASE("users of an agentic plan begin within their sessions, as many as the load level has",
          "[live][D1]") {
  if (NoProgram()) return;
  const auto shared = poolmark::test::SharedData();
  if (!shared.has_value()) return;
  TokenServer server({.tokens = 1});
  for (const int users : {2, 4}) {
    const TempDir dir;
    const std::string plan =
        WritePlan(dir, "o",
                  PlanOf(server,
                         {{"shape", "agentic"},
                          {"file", *shared + "/data/traces/weka_agentic_slice.jsonl"},
                          {"token_scale", "1/64"},
                          {"start", {0.25, 0.75}},
                          {"model", "m"}},
                         {{"concurrency", users}}, {{"think_scale", 0}, {"max_requests", 400}}));
    const Done done = Poolmark({"--plan", plan});
    INFO(done.err);
    REQUIRE(done.code == 0);
    std::set<uint64_t> primed;
    const auto records = ReadRecords(dir / "o/requests.jsonl.zst");
    for (const RequestRecord& record : *records) {
      if (record.primer) primed.insert(record.session);
    }
    CHECK(primed.size() == static_cast<size_t>(users));
  }
}

TEST_CASE("workers on several machines share a plan and merge into one result", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(5)});
  const TempDir dir;
  const int64_t start = Soon();
  std::map<std::string, Json> plans;
  for (int worker = 0; worker < 2; ++worker) {
    Json plan = PlanOf(server, Synthetic(21, 2), {{"concurrency", 5}}, WorkerOf(worker, 2, start));
    plan["loops"] = 2;
    plans["w" + std::to_string(worker)] = plan;
  }
  RunPlans(dir, plans);
  CHECK(server.max_in_flight() == 5);
  CHECK(server.requests() == 42);
  CHECK(server.ids().size() == 42);
  const Done merged = Poolmark({"--merge", dir / "w0," + (dir / "w1"), "--out", dir / "all", "-o", "json"});
  INFO(merged.err);
  REQUIRE(merged.code == 0);
  const Json summary = *ParseJson(merged.out);
  CHECK(summary["ok"] == 42);
  CHECK(summary["load"]["parts"].size() == 2);
  CHECK(summary["client"]["max_in_flight"] == 5);
  CHECK(summary["load"]["load"]["concurrency"] == 5);
  CheckKeys(*ParseJson(*ReadFile(dir / "all/load.json")),
            *ParseJson(*ReadFile(poolmark::test::Source("docs/schemas/load.schema.json"))), "load.json");
  const auto ticks = ParseJsonLines(*ReadFile(dir / "all/timeline.jsonl"), "timeline");
  REQUIRE(ticks.ok());
  CHECK(ticks->back()["ended"] == 42);
  // The last line of a worker that ended within the second may still be of its load.
  const std::string phase = ticks->back()["phase"];
  CHECK((phase == "drain" || phase == "load"));
  CHECK(ReadRecords(dir / "all/requests.jsonl.zst")->size() == 42);
  // The first requests of both began together.
  const auto first = [](const std::string& path) {
    int64_t earliest = INT64_MAX;
    const auto records = ReadRecords(path);
    for (const RequestRecord& record : *records) earliest = std::min(earliest, record.started);
    return earliest;
  };
  CHECK(first(dir / "w0/requests.jsonl.zst") < 500'000'000);
  CHECK(first(dir / "w1/requests.jsonl.zst") < 500'000'000);
}

TEST_CASE("workers with different numbers of loops share a load without overlap or gap", "[live][C21]") {
  if (NoProgram()) return;
  for (const Json& level : {Json{{"concurrency", 7}}, Json{{"rate", 200}, {"arrivals", "constant"}}}) {
    TokenServer server({.tokens = 2, .first = milliseconds(2)});
    const TempDir dir;
    const int64_t start = Soon();
    std::map<std::string, Json> plans;
    for (int worker = 0; worker < 3; ++worker) {
      Json plan = PlanOf(server, Synthetic(60, 2), level, WorkerOf(worker, 3, start));
      plan["loops"] = worker + 1;
      plans["w" + std::to_string(worker)] = plan;
    }
    RunPlans(dir, plans);
    INFO(level.dump());
    if (level.contains("concurrency")) {
      CHECK(server.max_in_flight() == 7);
      CHECK(server.requests() == 120);
    }
    CHECK(server.ids().size() == static_cast<size_t>(server.requests()));  // no request twice
    const Done merged = Poolmark(
        {"--merge", dir / "w0," + (dir / "w2") + "," + (dir / "w1"), "--out", dir / "all", "-o", "json"});
    INFO(merged.err);
    REQUIRE(merged.code == 0);
    CHECK((*ParseJson(merged.out))["client"]["max_in_flight"] ==
          MostInFlight(*ReadRecords(dir / "all/requests.jsonl.zst")));
  }
}

TEST_CASE("a merge refuses what is not one load", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(2)});
  const TempDir dir;
  // Two workers of a load, worker 1 of another plan, and worker 1 with another start; then a load of its own.
  const int64_t start = Soon();
  std::map<std::string, Json> plans;
  for (const auto& [name, worker, sessions, later] :
       {std::tuple{"w0", 0, 6, 0}, {"w1", 1, 6, 0}, {"other", 1, 8, 0}, {"later", 1, 6, 1}})
    plans[name] = PlanOf(server, Synthetic(sessions), {{"concurrency", 2}},
                         WorkerOf(worker, 2, start + later * 1'000'000'000));
  RunPlans(dir, plans);
  REQUIRE(Poolmark(Quick(server, {"-c", "1", "-n", "4", "--out", dir / "quick"})).code == 0);
  const std::string before = *ReadFile(dir / "w0/load.json");
  for (const auto& [inputs, out, expected] :
       std::vector<std::tuple<std::vector<std::string>, std::string, std::string>>{
           {{"w0", "w0"}, "all", "worker 0 is also in"},
           {{"w0", "quick"}, "all", "a part of another load"},
           {{"quick", "w0"}, "all", "a load of its own"},
           {{"w0", "other"}, "all", "their plans differ"},
           {{"w0", "later"}, "all", "did not begin together"},
           {{"w0"}, "all", "worker 1 of 2 is missing"},
           {{"w1"}, "all", "worker 0 of 2 is missing"},
           {{"w0", "w1"}, "w0", "would overwrite"},
           {{"w0", "nowhere"}, "all", "nowhere"},
       }) {
    std::string list;
    for (const std::string& input : inputs) list += (list.empty() ? "" : ",") + (dir / input);
    const Done done = Poolmark({"--merge", list, "--out", dir / out});
    INFO(list << " into " << out << ": " << done.err);
    CHECK(done.code != 0);
    CHECK(done.err.find(expected) != std::string::npos);
    CHECK_FALSE(FileExists(dir / "all/load.json"));
  }
  CHECK(*ReadFile(dir / "w0/load.json") == before);
  CHECK(Poolmark({"--merge", dir / "w0," + (dir / "w1"), "--out", dir / "all"}).code == 0);
  // What is merged already is no worker's.
  CHECK(Poolmark({"--merge", dir / "all," + (dir / "w1"), "--out", dir / "again"}).code == 2);
}

}  // namespace poolmark::load::test

// Agentic replay (M20): sessions, sub-agents, think times, start positions, markers, hostile files.
#include "common/workload/agentic.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/workload/source.h"
#include "common/workload/timeline.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::workload;
using poolmark::test::TempDir;

namespace {

// Three rounds of the parent; a sub-agent of two requests runs beside it from 12 s to 18 s.
constexpr const char* kSession =
    R"({"id":"t1","block_size":4,"hash_id_scope":"local","requests":[)"
    R"({"t":0,"type":"n","in":10,"out":6,"hash_ids":[1,2],"api_time":2,"think_time":0},)"
    R"({"t":5,"type":"n","in":17,"out":6,"hash_ids":[1,2,3,4],"api_time":3,"think_time":3},)"
    R"({"t":12,"type":"subagent","agent_id":"agent_001","duration_ms":6000,"requests":[)"
    R"({"t":0,"type":"n","in":8,"out":2,"hash_ids":[50,51],"api_time":1},{"t":4,"type":"s","in":12,"out":2,"hash_ids":[50,51,52],"api_time":2}]},)"
    R"({"t":20,"type":"n","in":21,"out":6,"hash_ids":[1,2,3,4,5],"api_time":1,"think_time":12}]})";

struct Files {
  TempDir dir;
  std::string path = dir / "sessions.jsonl";
  explicit Files(const std::string& content) { REQUIRE(AtomicWriteFile(path, content).ok()); }
};

std::shared_ptr<const Workload> OpenAgentic(const std::string& path, const Json& more = Json::object()) {
  Json json = {{"shape", "agentic"}, {"file", path}};
  for (const auto& [key, value] : more.items()) json[key] = value;
  const auto spec = ParseWorkload(json);
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  const auto workload = OpenWorkload(*spec);
  INFO(workload.status().ToString());
  REQUIRE(workload.ok());
  return *workload;
}

double Seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

TEST_CASE("rounds keep their blocks; a tail of less than a block is its own", "[D1]") {
  Files files(kSession);
  const Script script = OpenAgentic(files.path)->Open(0);
  REQUIRE(script.turns.size() == 5);
  CHECK(script.id == "t1");
  CHECK(TokensOf(script.turns[0].prompt) == 10);
  CHECK(script.turns[0].prompt.size() == 3);
  CHECK(TokensOf(script.turns[4].prompt) == 21);
  CHECK(script.turns[1].prompt[0] == script.turns[0].prompt[0]);
  CHECK(script.turns[1].prompt[1] == script.turns[0].prompt[1]);
  CHECK(script.turns[1].prompt[2].key != script.turns[0].prompt[2].key);
}

TEST_CASE("sub-agents run beside their parent, who waits for those that had ended", "[D1]") {
  Files files(kSession);
  const Script script = OpenAgentic(files.path)->Open(0);
  CHECK(script.turns[2].agent == "agent_001");
  CHECK(script.turns[2].after == std::vector<uint32_t>{1});
  CHECK(script.turns[3].after == std::vector<uint32_t>{2});
  CHECK(script.turns[4].agent.empty());
  CHECK(script.turns[4].after == std::vector<uint32_t>{1, 3});
  // From the end of what it waits for: 12 - (5 + 3), 16 - (12 + 1), 20 - max(8, 18).
  CHECK(Seconds(script.turns[2].think) == Approx(4));
  CHECK(Seconds(script.turns[3].think) == Approx(3));
  CHECK(Seconds(script.turns[4].think) == Approx(2));
}

TEST_CASE("think times are scaled, capped or left out", "[D1]") {
  Files files(kSession);
  CHECK(Seconds(OpenAgentic(files.path, {{"time_scale", 0.5}})->Open(0).turns[2].think) == Approx(2));
  CHECK(Seconds(OpenAgentic(files.path, {{"think_cap", "1s"}})->Open(0).turns[2].think) == Approx(1));
  CHECK(OpenAgentic(files.path, {{"think", "none"}})->Open(0).turns[2].think == Nanoseconds(0));
}

TEST_CASE("a start position begins after a primer with the context before it", "[D1]") {
  Files files(std::string(kSession) + "\n" + kSession);
  const auto workload = OpenAgentic(files.path, {{"start", {1.0, 1.0}}, {"concurrency", 1}});
  const Script first = workload->Open(0);
  REQUIRE(first.turns.size() == 2);  // primer and the last round; the sub-agent had begun before
  CHECK(first.turns[0].primer);
  CHECK(first.turns[0].output_tokens == 1);
  CHECK(TokensOf(first.turns[0].prompt) == 17);
  CHECK(TokensOf(first.turns[1].prompt) == 21);
  CHECK(first.turns[1].after == std::vector<uint32_t>{0});
  CHECK(workload->Open(1).turns.size() == 5);  // only the first session of each user
}

TEST_CASE("repeats with other markers share nothing, sessions with local ids neither", "[D1]") {
  Files files(std::string(kSession) + "\n" + kSession);
  const auto one = OpenAgentic(files.path, {{"marker", "job/1"}}),
             two = OpenAgentic(files.path, {{"marker", "job/2"}});
  CHECK(one->Open(0).turns[0].prompt[0].key != two->Open(0).turns[0].prompt[0].key);
  CHECK(one->Open(0).turns[0].prompt[0].key != one->Open(1).turns[0].prompt[0].key);
  CHECK(one->Open(0).turns[0].prompt[0] ==
        OpenAgentic(files.path, {{"marker", "job/1"}})->Open(0).turns[0].prompt[0]);
  CHECK(one->session_scope());
}

TEST_CASE("the timeline follows the dependencies", "[D1]") {
  Files files(kSession);
  const auto spec = *ParseWorkload(Json{{"shape", "agentic"}, {"file", files.path}});
  const auto arrivals = PlanArrivals(*OpenAgentic(files.path), spec, false);
  std::vector<double> starts;
  for (const Arrival& arrival : arrivals) starts.push_back(Seconds(arrival.start));
  CHECK(starts == std::vector<double>{0, 5, 12, 16, 20});
  CHECK(PlanArrivals(*OpenAgentic(files.path), spec, true).at(0).counts == false);  // warm-up
}

TEST_CASE("hostile session files are refused with line and field", "[D1]") {
  const auto error = [](const std::string& line) {
    Files files(std::string(kSession) + "\n" + line);
    const auto sessions = ReadAgentic(files.path, {});
    return sessions.ok() ? "" : std::string(sessions.status().message());
  };
  const std::string head = R"({"id":"x","block_size":4,"requests":[)";
  CHECK_THAT(error("[]"), Catch::Contains(".jsonl:2") && Catch::Contains("no object"));
  CHECK_THAT(error(R"({"id":"x","block_size":0,"requests":[]})"), Catch::Contains("block_size is 0"));
  CHECK_THAT(error(R"({"id":"x","block_size":4,"requests":[]})"), Catch::Contains("requests is empty"));
  CHECK_THAT(
      error(
          head +
          R"({"t":3,"type":"n","in":4,"out":1,"hash_ids":[1]},{"t":2,"type":"n","in":4,"out":1,"hash_ids":[1]}]})"),
      Catch::Contains("requests[1].t runs backwards"));
  CHECK_THAT(error(head + R"({"t":0,"type":"n","in":-4,"out":1,"hash_ids":[1]}]})"),
             Catch::Contains("requests[0].in is -4"));
  CHECK_THAT(error(head + R"({"t":0,"type":"n","in":40,"out":1,"hash_ids":[1]}]})"),
             Catch::Contains("has 1 blocks of 4, in is 40"));
  CHECK_THAT(error(head + R"({"t":0,"type":"x","in":4,"out":1,"hash_ids":[1]}]})"),
             Catch::Contains("must be n, s or subagent"));
  CHECK_THAT(error(head + R"({"t":0,"type":"n","in":4,"out":1}]})"), Catch::Contains("hash_ids is missing"));
  CHECK_THAT(error(head + R"({"t":"0","type":"n","in":4,"out":1,"hash_ids":[1]}]})"),
             Catch::Contains("requests[0].t is no number"));
  // Without a name of its own it would be taken for the session.
  CHECK_THAT(error(head + R"({"t":0,"type":"subagent","agent_id":"","requests":[]}]})"),
             Catch::Contains("requests[0].agent_id is empty"));
}

// The program itself: quick runs, processes, plan files, Ctrl-C, exports, merging.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "common/base/files.h"
#include "common/base/json.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/process.h"
#include "tests/component/load/program.h"
#include "tests/support/shared_data.h"
#include "tests/support/token_server.h"

namespace poolmark::load::test {
namespace {

using poolmark::test::Process;
using poolmark::test::TempDir;
using poolmark::test::TokenServer;

// Every key is described, every required one is there.
void CheckKeys(const Json& value, const Json& schema, const std::string& path) {
  if (value.is_object() && schema.contains("properties")) {
    for (const auto& [key, child] : value.items()) {
      INFO(path << "." << key);
      REQUIRE(schema["properties"].contains(key));
      CheckKeys(child, schema["properties"][key], path + "." + key);
    }
    for (const Json& key : schema.value("required", Json::array())) {
      INFO(path << " lacks " << key);
      CHECK(value.contains(key.get<std::string>()));
    }
  }
  if (value.is_array() && schema.contains("items")) {
    for (const Json& item : value) CheckKeys(item, schema["items"], path + "[]");
  }
}

}  // namespace

TEST_CASE("a quick run prints its summary as text and as JSON", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3});
  const TempDir dir;
  const Done text = Poolmark(Quick(server, {"-c", "4", "-n", "40", "--out", dir / "o"}));
  INFO(text.out << text.err);
  CHECK(text.code == 0);
  CHECK(text.out.find("40 in the window, 40 ok, 0 failed") != std::string::npos);
  CHECK(text.out.find("time to first token") != std::string::npos);
  CHECK(text.out.find("prompt lengths are estimates") != std::string::npos);
  CHECK(ReadRecords(dir / "o/requests.jsonl.zst")->size() == 40);
  const Done json =
      Poolmark(Quick(server, {"--rate", "200", "--arrivals", "poisson", "-n", "40", "--warm-up-requests",
                              "10", "-o", "json", "--progress", "json", "--api", "completions",
                              "--prompt-ids", "--slo", "mlperf-llama2-70b-interactive"}));
  INFO(json.out << json.err);
  CHECK(json.code == 0);
  const Json summary = *ParseJson(json.out);
  // The window begins when the 11th request was due.
  const int measured = summary["requests"], warm_up = summary["warm_up_requests"];
  CHECK(measured == 40);
  CHECK(warm_up == 10);
  CHECK(summary["goodput"]["slo"] == "mlperf-llama2-70b-interactive");
  CHECK(summary["client"]["schedule_error_ms"]["p99"].is_number());
  CHECK(summary["definitions"]["ttft_ms"].is_string());
  CHECK(server.bodies().back().find("\"prompt\":[") != std::string::npos);
}

TEST_CASE("wrong use ends with 2 and says what to do", "[live]") {
  if (NoProgram()) return;
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--url", "http://127.0.0.1:1", "--model", "m"},
           {"--url", "http://127.0.0.1:1", "--model", "m", "-c", "1"},
           {"--url", "http://127.0.0.1:1", "--model", "m", "-c", "1", "--rate", "3", "-n", "1"},
           {"--url", "ftp://127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--arrivals", "poisson"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--cv", "2"},
           {"--url", "127.0.0.1:1", "--model", "m", "--rate", "1", "-n", "1", "--cv", "2"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--cv", "0"},
           {"--url", "127.0.0.1:1", "--model", "m", "--rate", "1", "-n", "1", "--cv", "0"},
           {"--url", "127.0.0.1:1", "--model", "m", "--rate", "1", "-n", "1", "--arrivals", "gamma", "--cv",
            "0"},
           {"--url", "127.0.0.1:1", "--model", "m", "--rate", "1", "-n", "1", "--ramp-up", "1s"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "4", "-n", "9", "--processes", "4"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "4", "-n", "9", "--request-id-prefix", "a\r\nX: y"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "4", "-n", "9", "--seed", "-1"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "4", "-n", "9", "--loops", "-1"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--api-key-file", "/nonexistent"},
           {"--url", "http://127.0.0.1:1", "-c", "1", "-n", "1"},
           {"--url", "http://127.0.0.1:1", "--model", "m", "--rate", "x", "-n", "1"},
           {"--plan", "p.json", "-c", "4"},
           {"--from", "d", "--export", "vllm", "--out", "e"},
           {"--merge", "a,b", "--out", "c", "--rate", "1"},
           {"--url", "127.0.0.1:1", "--model", "m", "--find-knee", "--slo", "ttft=1s", "-n", "9", "--export",
            "vllm"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--knee-share", "0.5"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--vocabulary", "999"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--retry-on", "429"},
           {"--no-such-option"},
           {"--plan", "/nonexistent"},
           {"--url", "http://127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--retry-attempts", "2",
            "--retry-on", "always"},
       }) {
    const Done done = Poolmark(arguments);
    INFO(done.err);
    CHECK(done.code == (arguments[0] == "--plan" && arguments.size() == 2 ? 1 : 2));
    CHECK_FALSE(done.err.empty());
  }
}

TEST_CASE("headers that the program sets itself are refused by name", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 1});
  for (const std::string name : {"Content-Length", "transfer-encoding", "HOST", "X-Request-ID", "Connection",
                                 "Content-Type", "Accept"}) {
    const Done done = Poolmark(Quick(server, {"-c", "1", "-n", "1", "--header", name + ": 3"}));
    INFO(name << ": " << done.err);
    CHECK(done.code == 2);
    CHECK(done.err.find("header '" + name + "'") != std::string::npos);
    CHECK(done.err.find("the program sets it itself") != std::string::npos);
  }
  const Done spaced = Poolmark(Quick(server, {"-c", "1", "-n", "1", "--header", "A b: c"}));
  CHECK(spaced.code == 2);
  CHECK(spaced.err.find("header 'A b'") != std::string::npos);
  CHECK(spaced.err.find("without spaces in the name") != std::string::npos);
  CHECK(server.requests() == 0);
  CHECK(Poolmark(Quick(server, {"-c", "1", "-n", "1", "--header", "X-Tenant: a b"})).code == 0);
}

TEST_CASE("as many requests are measured as were asked for, whatever the warm-up", "[live][H1]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(2)});
  // A host and a port alone are a URL; a scheme may be written large.
  const std::string bare = "127.0.0.1:" + std::to_string(server.port());
  for (const std::vector<std::string>& level : std::vector<std::vector<std::string>>{
           {"--url", bare, "-c", "3", "--warm-up", "300ms"},
           {"--url", "HTTP://" + bare, "--rate", "100", "--warm-up", "300ms"},
           {"--url", bare, "--rate", "200", "--warm-up-requests", "20"},
           {"--url", bare, "--rate", "200", "--arrivals", "gamma", "--cv", "2", "--warm-up", "100ms",
            "--warm-up-requests", "20"}}) {
    std::vector<std::string> arguments = {
        "--model", "m", "--output-tokens", "3", "--loops", "2", "-n", "40", "-o", "json"};
    arguments.insert(arguments.end(), level.begin(), level.end());
    const Done done = Poolmark(arguments);
    INFO(done.out << done.err);
    REQUIRE(done.code == 0);
    const Json summary = *ParseJson(done.out);
    CHECK(summary["requests"] == 40);
    CHECK(summary["ok"] == 40);
    CHECK(summary["warm_up_requests"].get<int>() > 0);
    if (level.back() == "20" && level.size() == 6) CHECK(summary["warm_up_requests"] == 20);
  }
}

TEST_CASE("gaps of a warm-up counted in requests are in no figure", "[live][H1]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 8, .first = milliseconds(2)});
  const Done done = Poolmark(Quick(server, {"-c", "2", "-n", "6", "--warm-up-requests", "5", "-o", "json"}));
  REQUIRE(done.code == 0);
  const Json summary = *ParseJson(done.out);
  CHECK(summary["requests"] == 6);
  CHECK(summary["inter_token_latency_ms"]["count"] == 6 * 7);
}

TEST_CASE("figures of an older load do not stay beside those of a new one", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(5)});
  const TempDir dir;
  REQUIRE(Poolmark(Quick(server, {"-c", "2", "-n", "10", "--out", dir / "o", "--export", "vllm"})).code == 0);
  std::vector<std::string> argv = {kProgram, "load"};
  for (const std::string& word : Quick(server, {"-c", "2", "--duration", "60s", "--out", dir / "o"}))
    argv.push_back(word);
  const int before = server.requests();
  Process process(argv, dir / "run");
  while (server.requests() < before + 10) std::this_thread::sleep_for(milliseconds(2));
  process.Signal(SIGKILL);
  process.Wait(20000);
  for (const std::string name : {"load.json", "timeline.jsonl", "requests.jsonl.zst", "vllm.json"})
    CHECK_FALSE(FileExists(dir / ("o/" + name)));
}

TEST_CASE("progress in text has no figure for what was not measured", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(1500)});
  const Done done = Poolmark(Quick(server, {"-c", "1", "-n", "1", "--progress", "text"}));
  INFO(done.err);
  CHECK(done.err.find("TTFT P50 -") != std::string::npos);
  CHECK(done.err.find("TTFT P50     0.00") == std::string::npos);
}

TEST_CASE("error 18: event loops without work take no processor time", "[live]") {
  // llm-d/llm-d-benchmark#261: workers that spin beside one busy one.
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(40)});
  const Done done = Poolmark(Quick(server, {"--rate", "25", "-n", "40", "--loops", "8", "-o", "json"}));
  REQUIRE(done.code == 0);
  const Json client = (*ParseJson(done.out))["client"];
  CHECK(client["loops"] == 8);
  // Eight that spin would take at least the time of the load.
  CHECK(client["cpu_of_load_s"].get<double>() < 0.5);
}

TEST_CASE("processes share one plan: exact concurrency, each request once, one record file", "[live][C21]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(5), .between = milliseconds(1)});
  const TempDir dir;
  const Done done = Poolmark(Quick(server, {"-c", "10", "-n", "150", "--processes", "3", "--loops", "2",
                                            "--out", dir / "o", "-o", "json"}));
  INFO(done.err);
  REQUIRE(done.code == 0);
  const Json summary = *ParseJson(done.out);
  CHECK(summary["ok"] == 150);
  CHECK(summary["client"]["processes"] == 3);
  CHECK(server.max_in_flight() == 10);
  CHECK(server.requests() == 150);
  CHECK(server.ids().size() == 150);
  std::set<uint64_t> sessions;
  const auto records = ReadRecords(dir / "o/requests.jsonl.zst");
  for (const RequestRecord& record : *records) sessions.insert(record.session);
  CHECK(sessions.size() == 150);
  CHECK(ListDir(dir / "o")->size() == 3);  // the parts are gone
}

TEST_CASE("Ctrl-C ends with 130, a drained server and a complete record file", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(30), .between = milliseconds(5)});
  for (const std::string processes : {"1", "2"}) {
    const TempDir dir;
    const int before = server.requests();
    std::vector<std::string> argv = {kProgram, "load"};
    for (const std::string& word : Quick(server, {"-c", "4", "--duration", "60s", "--processes", processes,
                                                  "--out", dir / "o", "-o", "json"}))
      argv.push_back(word);
    Process process(argv, dir / "run");
    while (server.requests() < before + 20) std::this_thread::sleep_for(milliseconds(5));
    process.Signal(SIGINT);
    REQUIRE(process.Wait(20000) == 130);
    const Json summary = *ParseJson(process.out());
    CHECK(summary["interrupted"] == true);
    CHECK(summary["failed"] == 0);
    const auto records = ReadRecords(dir / "o/requests.jsonl.zst");
    INFO(records.status());
    REQUIRE(records.ok());
    CHECK(records->size() == static_cast<size_t>(server.requests() - before));
  }
}

TEST_CASE("SIGTERM ends a load whose server hangs at once, with a complete record file", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.answer = [](poolmark::test::RawConnection& connection, const std::string&, int) {
    return connection.PeerCloses() && false;
  }});
  const TempDir dir;
  std::vector<std::string> argv = {kProgram, "load"};
  for (const std::string& word :
       Quick(server, {"-c", "3", "--duration", "600s", "--out", dir / "o", "-o", "json"}))
    argv.push_back(word);
  Process process(argv, dir / "run");
  while (server.requests() < 3) std::this_thread::sleep_for(milliseconds(5));
  process.Signal(SIGTERM);
  REQUIRE(process.Wait(20000) == 130);  // its requests would have had ten minutes
  const auto records = ReadRecords(dir / "o/requests.jsonl.zst");
  INFO(records.status());
  REQUIRE(records.ok());
  REQUIRE(records->size() == 3);
  for (const auto& record : *records) CHECK(record.outcome == Outcome::kCancelled);
}

TEST_CASE("a client that is held up measures its own delay and marks its figures", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(20), .between = milliseconds(2)});
  const TempDir dir;
  std::vector<std::string> argv = {kProgram, "load"};
  for (const std::string& word :
       Quick(server, {"-c", "8", "--duration", "60s", "--loops", "1", "--out", dir / "o", "-o", "json"}))
    argv.push_back(word);
  Process process(argv, dir / "run");
  // The program stands still for a third of the time, as on a machine that has too much to do.
  for (int stop = 0; stop < 8; ++stop) {
    const int before = server.requests();
    while (server.requests() < before + 40) std::this_thread::sleep_for(milliseconds(2));
    process.Signal(SIGSTOP);
    std::this_thread::sleep_for(milliseconds(100));
    process.Signal(SIGCONT);
  }
  process.Signal(SIGINT);
  REQUIRE(process.Wait(20000) == 130);
  const Json summary = *ParseJson(process.out());
  CHECK(summary["client"]["lateness_ms"]["max"].get<double>() > 60);
  CHECK(summary["client"]["limited"] == true);
  CHECK(process.out().find("too slow for the load") != std::string::npos);
}

TEST_CASE("a plan file runs a workload and tells its progress as JSON lines", "[live][D3]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3, .first = milliseconds(10)});
  const TempDir dir;
  const Json plan = {{"schema_version", 1},
                     {"urls", {server.url()}},
                     {"workload",
                      {{"shape", "synthetic"},
                       {"sessions", 6},
                       {"groups", 2},
                       {"prefix", 32},
                       {"turns", 3},
                       {"input", 16},
                       {"growth", 8},
                       {"output", 4},
                       {"model", "m"}}},
                     {"load", {{"concurrency", 2}}},
                     {"request_id_prefix", "job-1"},
                     {"out", dir / "o"}};
  REQUIRE(AtomicWriteFile(dir / "plan.json", *DumpJson(plan)).ok());
  const Done done = Poolmark({"--plan", dir / "plan.json"});
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
    const Json plan = {{"schema_version", 1},
                       {"urls", {server.url()}},
                       {"workload",
                        {{"shape", "agentic"},
                         {"file", *shared + "/data/traces/weka_agentic_slice.jsonl"},
                         {"token_scale", "1/64"},
                         {"start", {0.25, 0.75}},
                         {"model", "m"}}},
                       {"load", {{"concurrency", users}}},
                       {"think_scale", 0},
                       {"max_requests", 400},
                       {"out", dir / "o"}};
    REQUIRE(AtomicWriteFile(dir / "plan.json", *DumpJson(plan)).ok());
    const Done done = Poolmark({"--plan", dir / "plan.json"});
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
  const int64_t start = (RealClock().Wall() + seconds(2)).count();
  std::vector<std::unique_ptr<Process>> workers;
  for (int worker = 0; worker < 2; ++worker) {
    const std::string name = "w" + std::to_string(worker);
    const Json plan = {{"schema_version", 1},
                       {"urls", {server.url()}},
                       {"workload",
                        {{"shape", "synthetic"},
                         {"sessions", 21},
                         {"turns", 2},
                         {"input", 16},
                         {"output", 4},
                         {"model", "m"}}},
                       {"load", {{"concurrency", 5}}},
                       {"loops", 2},
                       {"worker", worker},
                       {"workers", 2},
                       {"start_at_wall_ns", start},
                       {"out", dir / name}};
    REQUIRE(AtomicWriteFile(dir / (name + ".json"), *DumpJson(plan)).ok());
    workers.push_back(std::make_unique<Process>(
        std::vector<std::string>{kProgram, "load", "--plan", dir / (name + ".json")}, dir / name + "-run"));
  }
  for (const auto& worker : workers) {
    const auto code = worker->Wait(30000);
    INFO(worker->err() << worker->out());
    REQUIRE(code == 0);
  }
  CHECK(server.max_in_flight() == 5);
  CHECK(server.requests() == 42);
  CHECK(server.ids().size() == 42);
  const Done merged = Poolmark({"--merge", dir / "w0," + (dir / "w1"), "--out", dir / "all", "-o", "json"});
  INFO(merged.err);
  REQUIRE(merged.code == 0);
  const Json summary = *ParseJson(merged.out);
  CHECK(summary["ok"] == 42);
  CHECK(summary["load"]["parts"].size() == 2);
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
    const int64_t start = (RealClock().Wall() + seconds(2)).count();
    std::vector<std::unique_ptr<Process>> workers;
    for (int worker = 0; worker < 3; ++worker) {
      const std::string name = "w" + std::to_string(worker);
      const Json plan = {
          {"schema_version", 1},
          {"urls", {server.url()}},
          {"workload",
           {{"shape", "synthetic"}, {"sessions", 60}, {"turns", 2}, {"input", 16}, {"output", 4}}},
          {"load", level},
          {"loops", worker + 1},
          {"worker", worker},
          {"workers", 3},
          {"start_at_wall_ns", start},
          {"out", dir / name}};
      REQUIRE(AtomicWriteFile(dir / (name + ".json"), *DumpJson(plan)).ok());
      workers.push_back(std::make_unique<Process>(
          std::vector<std::string>{kProgram, "load", "--plan", dir / (name + ".json")}, dir / name + "-run"));
    }
    for (const auto& worker : workers) {
      const auto code = worker->Wait(60000);
      INFO(worker->err() << worker->out());
      REQUIRE(code == 0);
    }
    INFO(level.dump());
    if (level.contains("concurrency")) {
      CHECK(server.max_in_flight() == 7);
      CHECK(server.requests() == 120);
    }
    CHECK(server.ids().size() == static_cast<size_t>(server.requests()));  // no request twice
    const Done merged =
        Poolmark({"--merge", dir / "w0," + (dir / "w2") + "," + (dir / "w1"), "--out", dir / "all"});
    INFO(merged.err);
    CHECK(merged.code == 0);
  }
}

TEST_CASE("a merge refuses what is not one load", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(2)});
  const TempDir dir;
  const int64_t start = (RealClock().Wall() + seconds(2)).count();
  // Two workers of a load, worker 1 of another plan, and worker 1 with another start; then a load of its own.
  std::vector<std::unique_ptr<Process>> workers;
  for (const auto& [name, worker, sessions, later] :
       {std::tuple{"w0", 0, 6, 0}, {"w1", 1, 6, 0}, {"other", 1, 8, 0}, {"later", 1, 6, 1}}) {
    const Json plan = {
        {"schema_version", 1},
        {"urls", {server.url()}},
        {"workload", {{"shape", "synthetic"}, {"sessions", sessions}, {"input", 16}, {"output", 4}}},
        {"load", {{"concurrency", 2}}},
        {"worker", worker},
        {"workers", 2},
        {"start_at_wall_ns", start + later * 1'000'000'000},
        {"out", dir / name}};
    REQUIRE(AtomicWriteFile(dir / (std::string(name) + ".json"), *DumpJson(plan)).ok());
    workers.push_back(std::make_unique<Process>(
        std::vector<std::string>{kProgram, "load", "--plan", dir / (std::string(name) + ".json")},
        dir / (std::string(name) + "-run")));
  }
  for (const auto& worker : workers) REQUIRE(worker->Wait(60000) == 0);
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

TEST_CASE("the search for the knee stops where the limits no longer hold", "[live][E5]") {
  if (NoProgram()) return;
  // Answers far beyond the limit while more than ten requests are there, far below it else.
  std::atomic<int> there{0};
  TokenServer server({.answer = [&](poolmark::test::RawConnection& connection, const std::string&, int) {
    std::this_thread::sleep_for(milliseconds(++there > 10 ? 1000 : 20));
    --there;
    return connection.Write(
        poolmark::test::ChunkedHead() +
        poolmark::test::Chunk("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n") +
        "0\r\n\r\n");
  }});
  const TempDir dir;
  const Done done = Poolmark(Quick(
      server, {"--find-knee", "--slo", "ttft=700ms", "-n", "24", "-o", "json", "--out", dir / "sweep"}));
  INFO(done.err << done.out);
  const Json result = *ParseJson(done.out);
  for (const Json& level : result["levels"]) {
    if (!level["summary"]["client"]["limited"].get<bool>()) continue;
    // The machine is too busy to hold a level; then the knee is below it, as the search says.
    WARN("the client was too slow at level " << level["level"]);
    CHECK(result["knee"] < level["level"]);
    return;
  }
  REQUIRE(done.code == 0);
  CHECK(result["knee"].get<double>() >= 8);
  CHECK(result["knee"].get<double>() <= 15);
  CHECK(result["levels"].size() >= 5);
  CHECK(*ParseJson(*ReadFile(dir / "sweep/knee.json")) == result);
  CHECK(FileExists(dir / "sweep/c8/requests.jsonl.zst"));
}

}  // namespace poolmark::load::test

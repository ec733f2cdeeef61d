// The program itself: quick runs, wrong use, warm-ups, processes, signals.
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
#include "tests/support/waiting.h"

namespace poolmark::load::test {

using poolmark::test::Process;
using poolmark::test::Silence;
using poolmark::test::TempDir;
using poolmark::test::TokenServer;
using poolmark::test::WaitFor;

TEST_CASE("a quick run prints its summary as text and as JSON", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 3});
  const TempDir dir;
  const Done text = Poolmark(Quick(server, {"-c", "4", "-n", "40", "--out", dir / "o"}));
  INFO(text.out << text.err);
  CHECK(text.code == 0);
  CHECK(text.out.find("40 in the window, 40 ok, 0 failed") != std::string::npos);
  CHECK(text.out.find("time to first token") != std::string::npos);
  CHECK(text.out.find("TTFT and latency count from the last byte sent;") != std::string::npos);
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
  const Done open = Poolmark(Quick(server, {"--rate", "200", "-n", "5"}));
  CHECK(open.out.find("TTFT and latency count from the intended send;") != std::string::npos);
  // Where nothing was answered there is no table without lines.
  TokenServer down({.answer = [](poolmark::test::RawConnection& connection, const std::string&, int) {
    return connection.Write("HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n");
  }});
  const Done none =
      Poolmark(Quick(down, {"-c", "1", "-n", "2", "--retry-attempts", "2", "--retry-on", "5xx"}));
  INFO(none.out << none.err);
  CHECK(none.code == 1);
  CHECK(none.out.find("milliseconds") == std::string::npos);
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
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--retry-on", "429",
            "--retry-attempts", "1"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--retry-on=", "--retry-attempts",
            "2"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--insecure"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--ca-file", "ca.pem"},
           {"--url", "http://127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--server-name", "x"},
           {"--url", "https://127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--insecure", "--ca-file",
            "x"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "-3"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "010"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "0x10"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "010", "-n", "1"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "0x4", "-n", "1"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "4294967297", "-n", "1"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--input-tokens", "010"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--max-connections", "010"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--loops", "01"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "99999999999999999999999"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--seed", "99999999999999999999"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--warm-up-requests", "-1"},
           {"--url", "127.0.0.1:1", "--model", "m", "-c", "1", "-n", "1", "--api", "completions",
            "--prompt-ids", "--vocabulary", "-5"},
           {"--url", "127.0.0.1:1", "--model", "m", "-n", "1", "--find-knee", "--slo", "ttft=1s",
            "--knee-share", "nan"},
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

TEST_CASE("headers and URLs that would make another request than was meant are refused by name", "[live]") {
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
  for (const std::string value : {"a\r\nX-Other: b", "a\nb", "a\x01", "\x7f"}) {
    const Done broken = Poolmark(Quick(server, {"-c", "1", "-n", "1", "--header", "X-Tenant: " + value}));
    CHECK(broken.code == 2);
    CHECK(broken.err.find("header 'X-Tenant'") != std::string::npos);
    CHECK(broken.err.find("a line end or another control character") != std::string::npos);
  }
  CHECK(server.requests() == 0);
  CHECK(Poolmark(Quick(server, {"-c", "1", "-n", "1", "--header", "X-Tenant: a b"})).code == 0);
  // A URL as it stands in a request of somebody's.
  const std::string url = server.url() + "/v1/chat/completions";
  CHECK(Poolmark({"--url", url, "--model", "m", "-c", "1", "-n", "1"}).code == 0);
  const Done other = Poolmark({"--url", url, "--api", "completions", "--model", "m", "-c", "1", "-n", "1"});
  CHECK(other.code == 2);
  CHECK(other.err.find("another endpoint than /v1/completions") != std::string::npos);
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
  const int before = server.requests();
  Process process(LoadArgv(Quick(server, {"-c", "2", "--duration", "60s", "--out", dir / "o"})), dir / "run");
  REQUIRE(WaitFor([&] { return server.requests() >= before + 10; }));
  process.Signal(SIGKILL);
  process.Wait(20000);
  for (const std::string name : {"load.json", "timeline.jsonl", "requests.jsonl.zst", "vllm.json"})
    CHECK_FALSE(FileExists(dir / ("o/" + name)));
}

TEST_CASE("a load takes its own files out of the way and nobody else's", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2});
  const TempDir dir;
  REQUIRE(MakeDirs(dir / "o").ok());
  const std::vector<std::string> others = {"profile_export_mine.csv",
                                           "profile_export.jsonl",
                                           "profile_export_aiperf.json",
                                           "vllm.json",
                                           "requests.mine.jsonl.zst",
                                           "report.html",
                                           "requests.csv",
                                           "requests.1.jsonl.zst",
                                           "requests.1.part.jsonl.zst2"};
  for (const std::string& name : others) REQUIRE(AtomicWriteFile(dir / ("o/" + name), "mine").ok());
  const std::vector<std::string> ours = {"requests.0.part.jsonl.zst", "requests.12.part.jsonl.zst.tmp",
                                         "requests.partial.jsonl.zst", "requests.3.part.partial.jsonl.zst"};
  for (const std::string& name : ours) REQUIRE(AtomicWriteFile(dir / ("o/" + name), "old").ok());
  REQUIRE(Poolmark(Quick(server, {"-c", "1", "-n", "4", "--out", dir / "o"})).code == 0);
  for (const std::string& name : others) {
    INFO(name);
    CHECK(*ReadFile(dir / ("o/" + name)) == "mine");
  }
  for (const std::string& name : ours) {
    INFO(name);
    CHECK_FALSE(FileExists(dir / ("o/" + name)));
  }
  // Beside a load of ours, files named as its exports and its page are are its own.
  REQUIRE(Poolmark(Quick(server, {"-c", "1", "-n", "4", "--out", dir / "o"})).code == 0);
  for (const char* name : {"profile_export.jsonl", "profile_export_aiperf.json", "vllm.json", "report.html"})
    CHECK_FALSE(FileExists(dir / (std::string("o/") + name)));
  CHECK(FileExists(dir / "o/profile_export_mine.csv"));
}

TEST_CASE("a directory that a load is writing is refused to a second one", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(5)});
  for (const std::string processes : {"1", "2"}) {
    const TempDir dir;
    const int before = server.requests();
    Process first(LoadArgv(Quick(server, {"-c", "2", "--duration", "60s", "--processes", processes, "--out",
                                          dir / "o"})),
                  dir / "run");
    REQUIRE(WaitFor([&] { return server.requests() >= before + 4; }));
    const Done second = Poolmark(Quick(server, {"-c", "1", "-n", "1", "--out", dir / "o"}));
    INFO(second.err);
    CHECK(second.code == 2);
    CHECK(second.err.find("another load is writing there") != std::string::npos);
    first.Signal(SIGINT);
    CHECK(first.Wait(20000) == 130);
    const Json load = *ParseJson(*ReadFile(dir / "o/load.json"));
    CHECK(load["requests"].get<int>() >= 4);
    CHECK(load["requests"] == ReadRecords(dir / "o/requests.jsonl.zst")->size());
    // Afterwards it is free again.
    CHECK(Poolmark(Quick(server, {"-c", "1", "-n", "1", "--out", dir / "o"})).code == 0);
  }
}

TEST_CASE("a warm-up that outlasts the load is told, and a load without one says so", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(50)});
  const Done cold = Poolmark(
      Quick(server, {"-c", "2", "--warm-up-requests", "100000", "--duration", "300ms", "-o", "json"}));
  INFO(cold.out << cold.err);
  CHECK(cold.code == 1);
  const Json summary = *ParseJson(cold.out);
  CHECK(summary["requests"] == 0);
  const std::string note = "the warm-up was not over when the load ended: all " +
                           std::to_string(summary["warm_up_requests"].get<int>()) + " requests belong to it";
  CHECK(cold.out.find(note) != std::string::npos);
  const Done none = Poolmark(Quick(server, {"-c", "2", "--duration", "300ms"}));
  INFO(none.out);
  CHECK(none.out.find("measured            over 0.30 s, without a warm-up") != std::string::npos);
  CHECK(none.out.find("the warm-up was not over") == std::string::npos);
  const Done warm = Poolmark(Quick(server, {"-c", "2", "--duration", "600ms", "--warm-up", "200ms"}));
  INFO(warm.out);
  CHECK(warm.out.find("over 0.40 s after a 0.20 s warm-up") != std::string::npos);
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
  CHECK(summary["client"]["max_in_flight"] == 10);
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
    Process process(LoadArgv(Quick(server, {"-c", "4", "--duration", "60s", "--processes", processes, "--out",
                                            dir / "o", "-o", "json"})),
                    dir / "run");
    REQUIRE(WaitFor([&] { return server.requests() >= before + 20; }));
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
  TokenServer server({.answer = Silence});
  const TempDir dir;
  Process process(
      LoadArgv(Quick(server, {"-c", "3", "--duration", "600s", "--out", dir / "o", "-o", "json"})),
      dir / "run");
  REQUIRE(WaitFor([&] { return server.requests() >= 3; }));
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
  Process process(LoadArgv(Quick(server, {"-c", "8", "--duration", "60s", "--loops", "1", "--out", dir / "o",
                                          "-o", "json"})),
                  dir / "run");
  // The program stands still for a third of the time, as on a machine that has too much to do.
  for (int stop = 0; stop < 8; ++stop) {
    const int before = server.requests();
    REQUIRE(WaitFor([&] { return server.requests() >= before + 40; }));
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

}  // namespace poolmark::load::test

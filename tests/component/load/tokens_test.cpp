// Prompts of exact length in quick runs, as the simulated engine counts them.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/tokenizer/local.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/plans.h"
#include "tests/component/load/sim_engine.h"
#include "tests/support/shared_data.h"

namespace poolmark::load::test {
namespace {

using poolmark::test::OneToken;
using poolmark::test::RawConnection;
using poolmark::test::TempDir;
using poolmark::test::TokenServer;

}  // namespace

TEST_CASE("quick runs send prompts of exactly the length asked for where an engine counts", "[live]") {
  if (NoProgram() || !FileExists(poolmark::test::BuiltProgram("poolmark-sim"))) return;
  SimEngine engine;
  for (const char* api : {"chat", "completions"}) {
    for (const char* tokens : {"40", "777"}) {
      const TempDir dir;
      const Done done = Poolmark({"--url", engine.url(), "--tokenize-url", engine.url() + "/v1", "--model",
                                  "sim", "--api", api, "--input-tokens", tokens, "--output-tokens", "2", "-c",
                                  "4", "-n", "20", "--out", dir / "o"});
      INFO(api << " " << tokens << "\n" << done.out << done.err);
      REQUIRE(done.code == 0);
      CHECK(done.out.find("prompt lengths are exact, counted by " + engine.url() + "/tokenize") !=
            std::string::npos);
      CHECK(done.out.find("where") == std::string::npos);  // nothing was counted otherwise
      const auto records = ReadRecords(dir / "o/requests.jsonl.zst");
      REQUIRE(records.ok());
      for (const RequestRecord& record : *records) {
        REQUIRE(record.input_tokens.has_value());
        CHECK(*record.input_tokens == std::stoll(tokens));
      }
      CHECK((*ParseJson(*ReadFile(dir / "o/load.json")))["load"]["prompt_lengths"] ==
            "exact, counted by " + engine.url() + "/tokenize");
    }
  }
  // Less than the chat template itself, and both ways of counting at once.
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--input-tokens", "1"},
                                             {"--tokenizer", "/nonexistent"},
                                             {"--api", "completions", "--prompt-ids"}}) {
    std::vector<std::string> arguments = {
        "--url", engine.url(), "--tokenize-url", engine.url(), "--model", "sim", "-c", "1", "-n", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Done done = Poolmark(arguments);
    INFO(done.out << done.err);
    CHECK(done.code == 2);
  }
}

TEST_CASE("an engine that is busy for a moment is asked again for a prompt's tokens, one that refuses is not",
          "[live]") {
  if (NoProgram()) return;
  // One word is one token. The first two questions are refused in a way that may pass, the fourth is cut off.
  std::atomic<int> counted{0}, sent{0}, always{0};
  TokenServer server({.answer = [&](RawConnection& connection, const std::string& request, int) {
    if (!request.starts_with("POST /tokenize")) return ++sent > 0 && connection.Write(OneToken());
    const int number = ++counted;
    if (always > 0 || number <= 2)
      return connection.Write("HTTP/1.1 " + std::to_string(always > 0 ? int{always} : 503) +
                              " No\r\nretry-after-ms: 1\r\nContent-Length: 4\r\n\r\nbusy");
    if (number == 4) return false;
    const auto body = ParseJson(request.substr(request.find("\r\n\r\n") + 4));
    const std::string text = body.ok() ? body->value("prompt", "") : "";
    const std::string count =
        "{\"count\":" + std::to_string(std::count(text.begin(), text.end(), ' ') + 1) + "}";
    return connection.Write("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(count.size()) +
                            "\r\n\r\n" + count);
  }});
  const auto run = [&] {
    counted = sent = 0;
    return Poolmark({"--url", server.url(), "--tokenize-url", server.url(), "--model", "m", "--api",
                     "completions", "--input-tokens", "20", "--output-tokens", "1", "-c", "1", "-n", "3"});
  };
  const Done done = run();
  INFO(done.out << done.err);
  CHECK(done.code == 0);
  CHECK(done.out.find("prompt lengths are exact, counted by " + server.url() + "/tokenize") !=
        std::string::npos);
  CHECK(counted > 4);
  CHECK(sent == 3);
  // Three times in all where it may pass, once where it will not; and no load without the count.
  for (const auto& [status, times] : {std::pair{503, 3}, {429, 3}, {404, 1}}) {
    always = status;
    const Done refused = run();
    INFO(status << ": " << refused.err);
    CHECK(refused.code == 1);
    CHECK(refused.err.find("HTTP " + std::to_string(status) + ": busy") != std::string::npos);
    CHECK(counted == times);
    CHECK(sent == 0);
  }
}

TEST_CASE("a server that counts otherwise than was said to be exact is told", "[live]") {
  if (NoProgram()) return;
  // Its usage has one token more than each prompt: a token that begins every text.
  TokenServer server({.answer = [](poolmark::test::RawConnection& connection, const std::string&, int) {
    return connection.Write(
        poolmark::test::ChunkedHead() +
        poolmark::test::Chunk("data: {\"choices\":[{\"text\":\"x\"}],\"usage\":{\"prompt_tokens\":33,"
                              "\"completion_tokens\":1}}\n\ndata: [DONE]\n\n") +
        "0\r\n\r\n");
  }});
  const auto run = [&](const char* tokens) {
    return Poolmark({"--url", server.url(), "--model", "m", "--api", "completions", "--prompt-ids",
                     "--input-tokens", tokens, "--output-tokens", "1", "-c", "1", "-n", "3"});
  };
  CHECK(run("32").out.find("the server counted 33.00 prompt tokens a request where 32 were planned") !=
        std::string::npos);
  CHECK(run("33").out.find("the server counted") == std::string::npos);
  // Plans, and so jobs, too.
  const TempDir dir;
  for (const int input : {32, 33}) {
    Json workload = Synthetic(3);
    workload["turns"] = 1;
    workload["input"] = input;
    const Done planned =
        Poolmark({"--plan", WritePlan(dir, "o", PlanOf(server, workload, {{"concurrency", 1}}))});
    INFO(input << planned.out << planned.err);
    REQUIRE(planned.code == 0);
    const std::string notes = (*ParseJson(*ReadFile(dir / "o/load.json")))["notes"].dump();
    CHECK((notes.find("the server counted 33.00 prompt tokens a request where 32 were planned as exact") !=
           std::string::npos) == (input == 32));
  }
  // An endpoint that counts nothing ends the run before anything is sent.
  const int before = server.requests();
  const Done done = Poolmark(
      {"--url", "http://127.0.0.1:1", "--tokenize-url", server.url(), "--model", "m", "-c", "1", "-n", "1"});
  INFO(done.err);
  CHECK(done.code == 1);
  CHECK(done.err.find("/tokenize") != std::string::npos);
  CHECK(server.requests() > before);
}

TEST_CASE("a plan's results say how its prompts got their lengths", "[live]") {
  if (NoProgram() || !FileExists(poolmark::test::BuiltProgram("poolmark-sim"))) return;
  SimEngine engine;
  TokenServer server({.tokens = 1});
  const TempDir dir;
  Json text = Synthetic(4), chat = Synthetic(4);
  text["prompt"] = "text";
  chat["api"] = "chat";
  text["model"] = chat["model"] = "sim";
  text["input"] = chat["input"] = 40;
  const Json counts = {{"urls", {engine.url()}}, {"tokenize_url", engine.url()}};
  const std::string counted = "exact, counted by " + engine.url() + "/tokenize";
  for (const auto& [workload, more, prompt, lengths] :
       std::vector<std::tuple<Json, Json, std::string, std::string>>{
           {Synthetic(4), Json::object(), "ids", "exact, token ids"},
           {text, Json::object(), "text", "estimates"},
           {text, counts, "text", counted},
           {chat, counts, "text", counted}}) {
    const Done done =
        Poolmark({"--plan", WritePlan(dir, "o", PlanOf(server, workload, {{"concurrency", 2}}, more))});
    INFO(workload.dump() << done.out << done.err);
    REQUIRE(done.code == 0);
    const Json load = (*ParseJson(*ReadFile(dir / "o/load.json")))["load"];
    CHECK(load["prompt"] == prompt);
    CHECK(load["prompt_lengths"] == lengths);
    if (lengths != counted) continue;
    const auto records = ReadRecords(dir / "o/requests.jsonl.zst");
    REQUIRE(records.ok());
    for (const RequestRecord& record : *records) CHECK(record.input_tokens == record.planned_input_tokens);
  }
  // Nobody has to count token ids: a setting that would do nothing.
  const int before = server.requests();
  const Done ids = Poolmark({"--plan", WritePlan(dir, "ids",
                                                 PlanOf(server, Synthetic(4), {{"concurrency", 2}},
                                                        {{"tokenize_url", server.url()}}))});
  CHECK(ids.code == 2);
  CHECK(ids.err.find("its prompts are token ids, which need nobody to count them") != std::string::npos);
  CHECK(server.requests() == before);
}

TEST_CASE("a local tokenizer counts prompts where the build has one", "[M23][live][tokenizer]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 1});
  const auto shared = poolmark::test::SharedData();
  const std::string directory = shared.value_or("/nonexistent") + "/bench/loadgen/tokenizer";
  const Done done =
      Poolmark(Quick(server, {"--api", "completions", "--tokenizer", directory, "-c", "1", "-n", "1"}));
  INFO(done.out << done.err);
  // As a job writes its plan (load.tokenizer).
  const TempDir dir;
  Json chat = Synthetic(4);
  chat["api"] = "chat";
  chat["input"] = 40;
  const Done planned =
      Poolmark({"--plan",
                WritePlan(dir, "o", PlanOf(server, chat, {{"concurrency", 2}}, {{"tokenizer", directory}}))});
  INFO(planned.out << planned.err);
  if (!tokenizer::LocalAvailable()) {
    CHECK(done.code == 2);
    CHECK(planned.code == 2);
    for (const std::string& text : {done.err, planned.out + planned.err})
      CHECK(text.find(directory + ": this build has no local tokenizer") != std::string::npos);
    return;
  }
  const Done missing =
      Poolmark(Quick(server, {"--api", "completions", "--tokenizer", "/nonexistent", "-c", "1", "-n", "1"}));
  CHECK(missing.code == 2);
  CHECK(missing.err.find("/nonexistent/tokenizer.json: there is no such file") != std::string::npos);
  if (!shared.has_value()) return;
  CHECK(done.code == 0);
  CHECK(done.out.find("prompt lengths are exact, counted by file " + directory) != std::string::npos);
  REQUIRE(planned.code == 0);
  const Json load = (*ParseJson(*ReadFile(dir / "o/load.json")))["load"];
  CHECK(load["prompt_lengths"] == "exact, counted by file " + directory + "/tokenizer.json");
}

}  // namespace poolmark::load::test

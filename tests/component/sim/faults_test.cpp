// Faults on request, seen from outside as a client or an agent sees them.
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "common/base/files.h"
#include "tests/component/sim/sim_process.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"
#include "tests/support/waiting.h"

using namespace poolmark;
using namespace poolmark::test;

namespace {

std::vector<std::string> Engine(std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"engine", "--decode-step", "1ms"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string Streamed(Sim* sim, int tokens = 8) {
  return sim
      ->Post("/v1/completions",
             Completion("x", tokens, R"("stream":true,"stream_options":{"include_usage":true})"))
      .body;
}

}  // namespace

TEST_CASE("everything says that it is simulated", "[live]") {
  Sim sim(Engine());
  CHECK(Has(sim.Get("/version").body, "\"simulated\":true"));
  CHECK(Has(sim.Get("/v1/models").body, "simulated"));
  CHECK(Has(sim.Get("/metrics").body, "poolmark_sim_info{simulated=\"true\""));
  CHECK(Has(sim.Get("/version").header("server").value_or(""), "simulated"));
  CHECK(sim.Get("/health").body.empty());
  CHECK(sim.Get("/nothing").status == 404);
}

TEST_CASE("tokenize and detokenize agree with what a prompt is charged", "[live]") {
  Sim sim(Engine());
  std::string chat =
      R"({"messages":[{"role":"user","content":"Grüße, 世界! How are  you?"}],"max_tokens":2})";
  int64_t count = NumberAt(sim.Post("/tokenize", chat).body, "count");
  CHECK(count > 5);
  CHECK(NumberAt(sim.Post("/v1/chat/completions", chat).body, "usage/prompt_tokens") == count);
  std::string tokens = sim.Post("/tokenize", R"({"prompt":"a b\n\"c\" ünd","return_token_strs":true})").body;
  size_t from = tokens.find("\"tokens\":[");
  std::string ids = tokens.substr(from, tokens.find(']', from) - from + 1);
  CHECK(sim.Post("/detokenize", "{" + ids + "}").body == R"({"prompt":"a b\n\"c\" ünd"})");
}

TEST_CASE("spoiled streams: errors, cuts, resets, missing usage and end", "[live]") {
  struct Case {
    const char* fault;
    std::vector<std::string> has;
    std::vector<std::string> lacks;
  };
  const Case cases[] = {
      {"error-inside:after_tokens=3", {"\"error\":{", "EngineCore"}, {"finish_reason\":\"length"}},
      {"error-inside:after_tokens=0,event=1", {"event: error\ndata: {\"error\""}, {"\"text\":\""}},
      {"truncate:after_tokens=3", {"\"text\""}, {"[DONE]", "finish_reason\":\"length"}},
      {"no-usage", {"[DONE]"}, {"usage"}},
      {"no-done", {"finish_reason\":\"length"}, {"[DONE]"}},
      {"no-output", {"finish_reason\":\"length", "[DONE]"}, {"\"text\":\" "}},
      {"garbage:what=text", {"this is not JSON"}, {"[DONE]"}},
      {"garbage:what=html", {"<html>"}, {"data:"}},
      {"stall:after_tokens=3,for=100ms", {"[DONE]"}, {}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.fault);
    Sim sim(Engine({"--fault", c.fault}));
    std::string body = Streamed(&sim);
    for (const std::string& part : c.has) CHECK(Has(body, part));
    for (const std::string& part : c.lacks) CHECK_FALSE(Has(body, part));
    CHECK(sim.Get("/health").status == 200);
  }
}

TEST_CASE("HTTP errors, resets and slow drips", "[live]") {
  {
    Sim sim(Engine({"--fault", "error-before:status=429,count=1"}));
    CHECK(sim.Post("/v1/completions", Completion("x", 2)).status == 429);
    CHECK(sim.Post("/v1/completions", Completion("x", 2)).status == 200);
  }
  {
    Sim sim(Engine({"--fault", "reset:after_tokens=2"}));
    auto reply = sim.Post("/v1/completions", Completion("x", 50, "\"stream\":true"));
    CHECK(reply.status == 0);
  }
  {
    Sim sim(Engine({"--fault", "drip:bytes=64,interval=1ms"}));
    auto start = std::chrono::steady_clock::now();
    std::string body = Streamed(&sim, 4);
    CHECK(Has(body, "data: [DONE]"));
    CHECK(std::chrono::steady_clock::now() - start > std::chrono::milliseconds(10));
  }
}

TEST_CASE("faults at run time: listed, refused, taken back", "[live]") {
  Sim sim(Engine());
  CHECK(sim.Post("/sim/fault", "nonsense").status == 400);
  CHECK(sim.Post("/sim/fault", R"({"fault":"no-usage"})").status == 202);
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!Has(sim.Get("/sim/fault").body, "no-usage") && std::chrono::steady_clock::now() < limit) {
  }
  CHECK_FALSE(Has(Streamed(&sim), "usage"));
  CHECK(Fetch("DELETE", sim.url() + "/sim/fault").status == 200);
  CHECK(Has(Streamed(&sim), "usage"));
}

TEST_CASE("a hung engine looks healthy and gives no token; a dead one answers nothing", "[live]") {
  Sim sim(Engine({"--drain", "100ms"}));
  sim.Post("/sim/fault", "hang");
  auto request = [&](const std::string& path, const std::string& body, int milliseconds) {
    http::Request r;
    r.method = body.empty() ? "GET" : "POST";
    r.url = *http::ParseUrl(sim.url() + path);
    r.body = body;
    r.timeout = std::chrono::milliseconds(milliseconds);
    return http::MakeClient()->Send(r).ok();
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  CHECK_FALSE(request("/v1/completions", Completion("x", 1), 300));
  CHECK(sim.Get("/health").status == 200);
  sim.Post("/sim/fault", "hang:health=dead");
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  CHECK_FALSE(request("/health", "", 300));
  sim.child().Signal(SIGTERM);
  CHECK(sim.child().Wait(10000) == 0);
}

TEST_CASE("crashes by code and by signal, SIGTERM ignored", "[live]") {
  Sim one(Engine());
  one.Post("/sim/fault", "crash:exit=3");
  CHECK(one.child().Wait(5000).value_or(-1) == 3);
  Sim two(Engine());
  two.Post("/sim/fault", "crash:signal=9");
  CHECK(two.child().Wait(5000).value_or(-1) == 128 + 9);
  Sim three(Engine({"--fault", "ignore-sigterm"}));
  three.child().Signal(SIGTERM);
  CHECK_FALSE(three.child().Wait(300));
  CHECK(three.Get("/health").status == 200);
}

TEST_CASE("a detached child lives on when its engine has gone", "[live]") {
  Sim sim(Engine({"--fault", "detach:ignore_sigterm=1"}));
  pid_t child = std::stoi(sim.child().Line("child "));
  sim.child().Signal(SIGTERM);
  REQUIRE(sim.child().Wait(5000) == 0);
  CHECK(kill(child, 0) == 0);
  CHECK(getsid(child) != getsid(0));
  CHECK(getpgid(child) != getpgid(0));
  kill(child, SIGKILL);
}

TEST_CASE("counters that start again show it by value and by _created", "[live]") {
  Sim sim(Engine());
  sim.Post("/v1/completions", Completion("x", 3));
  REQUIRE(sim.Metric("vllm:generation_tokens_total") == 3);
  sim.Post("/sim/fault", "counter-reset");
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (sim.Metric("vllm:generation_tokens_total") != 0 && std::chrono::steady_clock::now() < limit) {
  }
  CHECK(sim.Metric("vllm:generation_tokens_total") == 0);
}

TEST_CASE("an engine that is still loading says so", "[live]") {
  Sim sim(Engine({"--ready-after", "400ms"}));
  CHECK(sim.Get("/health").status == 503);
  CHECK(sim.Post("/v1/completions", Completion("x", 1)).status == 503);
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (sim.Get("/health").status != 200 && std::chrono::steady_clock::now() < limit) {
  }
  CHECK(sim.Post("/v1/completions", Completion("x", 1)).status == 200);
}

TEST_CASE("SIGTERM lets what runs end", "[live]") {
  Sim sim(Engine({"--decode-step", "5ms"}));
  http::Response reply;
  std::thread client([&] { reply = sim.Post("/v1/completions", Completion("x", 60)); });
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (sim.Metric("vllm:num_requests_running") == 0 && std::chrono::steady_clock::now() < limit) {
  }
  sim.child().Signal(SIGTERM);
  client.join();
  CHECK(reply.status == 200);
  CHECK(NumberAt(reply.body, "usage/completion_tokens") == 60);
  CHECK(sim.child().Wait(5000) == 0);
}

TEST_CASE("bad command lines are refused with the flag", "[live]") {
  for (std::vector<std::string> bad : {std::vector<std::string>{"engine", "--port", "99999"},
                                       {"engine", "--fault", "boom"},
                                       {"engine", "--host-cache", "lots"},
                                       {"router", "--policy", "magic"},
                                       {"engine", "--spoil-share", "2"},
                                       {}}) {
    Child child(BuiltProgram("poolmark-sim"), bad);
    CHECK(child.Wait(5000) == 64);
  }
  Child no_workers(BuiltProgram("poolmark-sim"), {"router"});
  CHECK(no_workers.Wait(5000) == 1);
  Child taken(BuiltProgram("poolmark-sim"), {"engine", "--disk-cache", "1MiB"});
  CHECK(taken.Wait(5000) == 1);
}

TEST_CASE("damaged KV is found by whoever reads it, and a store that fails costs only the reuse", "[live]") {
  TempDir dir;
  const std::string prompt = Prompt(7, 300);
  const auto shared = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"--shared-dir", dir / "shared", "--shared-source",
                                    "external_unspecified"};
    all.insert(all.end(), more.begin(), more.end());
    return Engine(all);
  };
  const auto cached = [&](Sim* sim) {
    const auto answer = sim->Post("/v1/completions", Completion(prompt, 2));
    CHECK(answer.status == 200);
    return NumberAt(answer.body, "usage/prompt_tokens_details/cached_tokens");
  };
  {
    Sim writer(shared({"--fault", "corrupt-kv"}));
    CHECK(cached(&writer) == 0);
    REQUIRE(writer.Post("/flush", "").status == 200);
    Sim reader(shared({}));
    CHECK(cached(&reader) == 0);
    CHECK(reader.Metric("poolmark_sim_kv_damaged_blocks_total") > 0);
    REQUIRE(reader.Post("/reset_prefix_cache?reset_external=true", "").status == 200);
  }
  Sim writer(shared({}));
  CHECK(cached(&writer) == 0);
  REQUIRE(writer.Post("/flush", "").status == 200);
  Sim cut_off(shared({"--fault", "store-error"}));
  CHECK(cached(&cut_off) == 0);
  CHECK(cut_off.Metric("poolmark_sim_remote_errors_total", "direction=\"read\"") > 0);
  Sim mute(shared({}));
  CHECK(mute.Post("/sim/fault", "store-error").status == 202);
  REQUIRE(WaitFor([&] { return Has(mute.Get("/sim/fault").body, "store-error"); }));  // 202: it will be on
  CHECK(mute.Post("/v1/completions", Completion(Prompt(8, 300), 2)).status == 200);
  REQUIRE(mute.Post("/flush", "").status == 200);
  CHECK(mute.Metric("poolmark_sim_remote_errors_total", "direction=\"write\"") > 0);
  Sim reader(shared({}));
  CHECK(cached(&reader) > 200);  // the fault was the engine's, not the store's
}

TEST_CASE("the role event comes with the first token, or before any with early-role", "[live]") {
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],"max_tokens":8,"stream":true})";
  // An engine that gives no token any more: what comes, comes before the first one.
  const auto before_tokens = [&](std::vector<std::string> faults, std::chrono::milliseconds patience) {
    std::vector<std::string> arguments;
    for (const std::string& fault : faults) arguments.insert(arguments.end(), {"--fault", fault});
    Sim sim(Engine(arguments));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(sim.url().substr(sim.url().rfind(':') + 1))));
    (void)connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    const std::string request =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nContent-Type: "
        "application/json\r\nContent-Length: " +
        std::to_string(chat.size()) + "\r\n\r\n" + chat;
    bool sent = false;
    std::string got;
    (void)WaitFor(
        [&] {
          if (!sent) sent = send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0;
          char buffer[4096];
          for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;)
            got.append(buffer, static_cast<size_t>(n));
          return Has(got, "\"role\":\"assistant\"");
        },
        patience);
    close(fd);
    CHECK(sent);
    return got;
  };
  CHECK(Has(before_tokens({"hang:health=ok", "early-role"}, std::chrono::seconds(20)),
            "\"role\":\"assistant\""));
  CHECK(before_tokens({"hang:health=ok"}, std::chrono::milliseconds(500)).empty());
  Sim sim(Engine({"--fault", "early-role"}));
  CHECK(Has(sim.Post("/v1/chat/completions", chat).body, "[DONE]"));
}

TEST_CASE("a flood of log lines is as long as it was asked for, and the engine works on", "[live]") {
  TempDir dir;
  const std::string log = dir / "stderr";
  const int own = dup(2);
  REQUIRE(own >= 0);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(file >= 0);
  dup2(file, 2);  // what the engine starts with
  auto sim = std::make_unique<Sim>(Engine());
  dup2(own, 2);
  close(own);
  close(file);
  CHECK(sim->Post("/sim/fault", "log-flood:lines=20000").status == 202);
  const auto lines = [&] {
    const std::string text = ReadFile(log).value_or("");
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(WaitFor([&] { return lines() >= 20000; }));
  CHECK(sim->Post("/v1/completions", Completion("x", 2)).status == 200);
  CHECK(Has(ReadFile(log).value_or(""), "flood 19999 of log lines, simulated\n"));
}

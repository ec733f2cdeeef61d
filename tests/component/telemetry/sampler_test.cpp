// The sampler over real sockets: HTTP pages of a test server, a real redis-server, this very machine.
#include "agent/telemetry/sampler.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <iostream>
#include <map>
#include <mutex>

#include "agent/process/redis.h"
#include "agent/telemetry/exporters.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/http/server.h"
#include "tests/support/fake_spawner.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::agent;
using namespace std::chrono_literals;

namespace {

const prom::Catalogue& Shipped() {
  static const prom::Catalogue catalogue = *prom::Catalogue::Load(test::Source("deploy/catalogue"));
  return catalogue;
}

// A page that tests change.
class Page {
 public:
  explicit Page(std::string text) : text_(std::move(text)) {
    auto server = http::Server::Start(
        {}, [this](const http::ServerRequest&, std::shared_ptr<http::ResponseWriter> writer) {
          ++reads;
          const std::lock_guard lock(mutex_);
          if (hang_) {
            held_.push_back(writer);  // never answered
          } else {
            writer->Send(status_, "text/plain", text_);
          }
        });
    REQUIRE(server.ok());
    server_ = std::move(*server);
  }
  ~Page() { server_->Stop(); }
  void Set(std::string text, int status = 200, bool hang = false) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
    status_ = status;
    hang_ = hang;
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()) + "/metrics"; }
  std::atomic<int> reads{0};

 private:
  std::mutex mutex_;
  std::string text_;
  int status_ = 200;
  bool hang_ = false;
  std::vector<std::shared_ptr<http::ResponseWriter>> held_;
  std::unique_ptr<http::Server> server_;
};

struct Fixture {
  std::unique_ptr<http::Client> client = http::MakeClient();
  std::unique_ptr<Spawner> spawner = MakeSpawner();
  SamplerOptions options;
  Fixture() {
    options.catalogue = &Shipped();
    options.client = client.get();
    options.spawner = spawner.get();
    options.host = false;
    options.interval = 100ms;
  }
  void Target(const std::string& source, const std::string& dialect, const std::string& url) {
    v1::ScrapeTarget target;
    target.set_source(source);
    target.set_dialect(dialect);
    target.set_url(url);
    options.targets.push_back(target);
  }
  std::unique_ptr<Sampler> Start() {
    auto sampler = Sampler::Start(options);
    INFO(sampler.status());
    REQUIRE(sampler.ok());
    return std::move(*sampler);
  }
};

// Follows a sampler until a condition holds over all rounds seen, or ten seconds are over.
struct Follower {
  explicit Follower(Sampler* of) : sampler(of) {}
  Sampler* sampler;
  uint64_t sequence = 0;
  std::vector<v1::SampleRound> rounds;
  std::map<uint32_t, v1::SeriesDefinition> series;
  bool ended = false;

  bool Until(const std::function<bool()>& condition) {
    const Nanoseconds deadline = RealClock().Steady() + 10s;
    while (!condition()) {
      if (RealClock().Steady() > deadline || ended) return condition();
      const auto batch = sampler->Next(sequence, 200ms);
      if (!batch) continue;
      sequence = batch->sequence();
      ended = batch->end();
      for (const auto& definition : batch->series()) series[definition.id()] = definition;
      for (const auto& round : batch->rounds()) rounds.push_back(round);
    }
    return true;
  }
  int Rounds(const std::string& source, bool failed) const {
    int count = 0;
    for (const auto& round : rounds) count += round.source() == source && round.failure().empty() != failed;
    return count;
  }
  // The last value of a series of a source.
  std::optional<double> Value(const std::string& source, const std::string& name) const {
    std::optional<double> value;
    for (const auto& round : rounds) {
      for (const auto& point : round.points()) {
        const auto& definition = series.at(point.series());
        if (definition.source() == source && definition.name() == name &&
            point.reading_case() == v1::SamplePoint::kValue)
          value = point.value();
      }
    }
    return value;
  }
};

std::string Vllm(int tokens, double start) {
  return "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine=\"0\"} " +
         std::to_string(tokens) + "\nprocess_start_time_seconds " + std::to_string(start) +
         "\nunwanted_total 5\n";
}

}  // namespace

TEST_CASE("targets are read on their own schedules; one that hangs delays nobody", "[C23][F3][live]") {
  Fixture fixture;
  Page good(Vllm(10, 100)), bad("");
  bad.Set("", 200, true);
  fixture.options.scrape_timeout = 300ms;
  fixture.Target("engine-a", "vllm", good.url());
  fixture.Target("engine-b", "vllm", bad.url());
  const auto sampler = fixture.Start();
  Follower follower(sampler.get());
  REQUIRE(follower.Until(
      [&] { return follower.Rounds("engine-a", false) >= 5 && follower.Rounds("engine-b", true) >= 1; }));
  CHECK(follower.Value("engine-a", "vllm:prompt_tokens_total") == 10);
  CHECK(follower.Rounds("engine-b", false) == 0);
  CHECK(good.reads >= 5);
  // only catalogue series
  for (const auto& [id, definition] : follower.series) CHECK(definition.name() != "unwanted_total");
}

TEST_CASE("a restarted engine, a dead page and a recovery are all in the record", "[I3][F22][live]") {
  Fixture fixture;
  Page page(Vllm(100, 100));
  fixture.Target("engine", "vllm", page.url());
  const auto sampler = fixture.Start();
  Follower follower(sampler.get());
  REQUIRE(follower.Until([&] { return follower.Value("engine", "vllm:prompt_tokens_total") == 100; }));
  page.Set("gone", 503);
  REQUIRE(follower.Until([&] { return follower.Rounds("engine", true) >= 1; }));
  page.Set(Vllm(150, 200));  // larger, so that only its start time tells
  const auto restarted = [&] {
    for (const auto& round : follower.rounds) {
      for (const auto& reset : round.resets()) {
        if (reset.reason().find("process_start_time_seconds changed") != std::string::npos) return true;
      }
    }
    return false;
  };
  REQUIRE(follower.Until(restarted));
  CHECK(follower.Value("engine", "vllm:prompt_tokens_total") == 150);
}

TEST_CASE("stopping takes a last round of every target and ends the stream", "[C23][live]") {
  Fixture fixture;
  Page page(Vllm(1, 1));
  fixture.options.interval = std::chrono::hours(1);
  fixture.Target("engine", "vllm", page.url());
  const auto sampler = fixture.Start();
  Follower follower(sampler.get());
  REQUIRE(follower.Until([&] { return follower.Value("engine", "vllm:prompt_tokens_total") == 1; }));
  page.Set(Vllm(2, 1));
  const uint64_t last = sampler->Stop();
  CHECK(sampler->Stop() == last);
  REQUIRE(follower.Until([&] { return follower.ended; }));
  CHECK(follower.sequence == last);
  CHECK(follower.Value("engine", "vllm:prompt_tokens_total") == 2);
}

TEST_CASE("targets that no reader can serve are refused, all at once") {
  Fixture fixture;
  fixture.Target("a", "telepathy", "http://127.0.0.1:1/metrics");
  fixture.Target("b", "vllm", "not a url");
  fixture.Target("c", "redis", "redis://nowhere");
  fixture.Target("d", "redfish", "https://login@127.0.0.1");
  fixture.Target("e", "ipmi-dcmi", "ipmi://bare@10.9.0.1");
  fixture.options.secret = [](const std::string& name) -> Result<std::string> {
    return name == "bare" ? Result<std::string>("no_colon_CANARY")
                          : NotFound(name, "no secret '" + name + "'");
  };
  const auto sampler = Sampler::Start(fixture.options);
  REQUIRE_FALSE(sampler.ok());
  const std::string text(sampler.status().message());
  for (const char* part : {"a: no dialect 'telepathy'", "not a url", "redis://nowhere", "no secret 'login'",
                           "e: secret 'bare' is no login of a BMC"}) {
    INFO(text << "\nmissing: " << part);
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(text.find("CANARY") == std::string::npos);
}

TEST_CASE("this machine's own counters and an engine's process tree, live", "[C23][F10][F19][live]") {
  Fixture fixture;
  fixture.options.host = true;
  fixture.options.engines = [] { return std::vector<EngineProcess>{{"engine-self", ::getpid()}}; };
  fixture.options.directories = {"/", "/nowhere"};
  const auto sampler = fixture.Start();
  Follower follower(sampler.get());
  REQUIRE(follower.Until(
      [&] { return follower.Rounds("node", false) >= 3 && follower.Value("node", "disk_available_bytes"); }));
  CHECK(*follower.Value("node", "disk_available_bytes") > 0);
  CHECK(*follower.Value("node", "node_memory_MemAvailable_bytes") > 0);
  CHECK(*follower.Value("node", "node_cpu_seconds_total") > 0);
  CHECK(follower.Value("node", "node_network_receive_bytes_total"));
  CHECK(*follower.Value("node", "engine_processes") >= 1);
  CHECK(follower.Value("node", "engine_cpu_seconds_total"));
  bool named = false;
  for (const v1::Tool& tool : sampler->tools()) {
    named |= tool.name() == "poolmark-agent/host";
    CHECK_FALSE(tool.version().empty());
  }
  CHECK(named);
}

TEST_CASE("a real redis-server: its counters, and its restart by run_id", "[F3][I3][live]") {
  if (!FindExecutable("redis-server")) {
    std::cout << "skipped: no redis-server\n";
    return;
  }
  Fixture fixture;
  // a port that was free a moment ago
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0);
  ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  const uint16_t port = ntohs(address.sin_port);
  ::close(probe);
  const Command command{{"redis-server", "--port", std::to_string(port), "--bind", "127.0.0.1", "--save", "",
                         "--appendonly", "no"},
                        {}};
  const auto start = [&] {
    auto child = fixture.spawner->Start(command);
    REQUIRE(child.ok());
    const Nanoseconds deadline = RealClock().Steady() + 20s;
    while (!process::RedisCommand("127.0.0.1", port, "PING", 1s).ok()) {
      REQUIRE_FALSE((*child)->Wait(20ms));
      REQUIRE(RealClock().Steady() < deadline);
    }
    return std::move(*child);
  };
  auto server = start();
  REQUIRE(process::RedisCommand("127.0.0.1", port, "SET k v", 1s).ok());
  fixture.Target("store", "redis", "redis://127.0.0.1:" + std::to_string(port));
  const auto sampler = fixture.Start();
  Follower follower(sampler.get());
  REQUIRE(follower.Until([&] { return follower.Value("store", "keys") == 1; }));
  CHECK(*follower.Value("store", "total_net_input_bytes") > 0);
  server->Stop(5s);
  REQUIRE(follower.Until([&] { return follower.Rounds("store", true) >= 1; }));
  server = start();
  const auto restarted = [&] {
    for (const auto& round : follower.rounds) {
      for (const auto& reset : round.resets()) {
        if (reset.reason().find("run_id changed") != std::string::npos) return true;
      }
    }
    return false;
  };
  CHECK(follower.Until(restarted));
  CHECK(follower.Value("store", "keys") == 0);
}

TEST_CASE("Redfish over HTTP: discovery, preference, and a login that never leaves the BMC", "[F12]") {
  std::mutex mutex;
  std::vector<std::string> asked;
  std::string authorization;
  auto server = http::Server::Start({}, [&](const http::ServerRequest& request,
                                            std::shared_ptr<http::ResponseWriter> writer) {
    const std::lock_guard lock(mutex);
    asked.push_back(request.path);
    authorization = request.header("Authorization").value_or("");
    const std::map<std::string, std::string> pages = {
        {"/redfish/v1/Chassis",
         R"({"Members":[{"@odata.id":"/redfish/v1/Chassis/HGX_0"},{"@odata.id":"/redfish/v1/Chassis/1U"}]})"},
        {"/redfish/v1/Chassis/1U/Power", R"({"PowerControl":[{"PowerConsumedWatts":344}]})"},
        {"/redfish/v1/Chassis/HGX_0/Power", R"({"PowerControl":[{"PowerConsumedWatts":100}]})"}};
    const auto page = pages.find(request.path);
    writer->Send(page == pages.end() ? 404 : 200, "application/json",
                 page == pages.end() ? "{}" : page->second);
  });
  REQUIRE(server.ok());
  Fixture fixture;
  fixture.options.secret = [](const std::string& name) -> Result<std::string> {
    return name == "bmc" ? Result<std::string>("user:pass") : NotFound(name, "no such secret");
  };
  fixture.Target("bmc", "redfish", "http://bmc@127.0.0.1:" + std::to_string((*server)->port()));
  const auto sampler = fixture.Start();
  Follower follower(sampler.get());
  REQUIRE(follower.Until([&] { return follower.Value("bmc", "node_power_watts").has_value(); }));
  CHECK(follower.Value("bmc", "node_power_watts") == 344);
  sampler->Stop();
  const std::lock_guard lock(mutex);
  CHECK(authorization == "Basic dXNlcjpwYXNz");
  (*server)->Stop();
}

TEST_CASE("an exporter is used only when checksum, version and address are right", "[F15][F16][F17][F18]") {
  test::TempDir dir;
  // the program of the test: says its version, or serves a page on the port it is given
  const std::string program = dir / "fake_exporter";
  const auto write = [&](const std::string& version, const std::string& address) {
    const std::string text =
        "#!/usr/bin/env python3\nimport sys,http.server\nif '--version' in sys.argv:\n  "
        "print('fake_exporter, version " +
        version +
        "'); sys.exit(0)\nclass H(http.server.BaseHTTPRequestHandler):\n  def do_GET(s):\n    "
        "b=b'node_memory_MemTotal_bytes 5\\n'\n"
        "    s.send_response(200); s.send_header('Content-Length',str(len(b))); s.end_headers(); "
        "s.wfile.write(b)\n"
        "  def log_message(s,*a): pass\nhttp.server.HTTPServer(('" +
        address + "',int(sys.argv[1])),H).serve_forever()\n";
    REQUIRE(AtomicWriteFile(program, text, 0755).ok());
  };
  write("1.2.3", "127.0.0.1");
  Fixture fixture;
  ExporterSpec spec;
  spec.name = program;
  spec.version = "1.2.3";
  spec.argv = {"${port}"};
  spec.url = "http://127.0.0.1:${port}/metrics";
  spec.dialect = "node_exporter";
  ExporterContext context;
  context.spawner = fixture.spawner.get();
  context.client = fixture.client.get();
  context.ready_within = 20s;
  const auto reason = [&] { return std::string(StartExporter(spec, context).status().message()); };
  CHECK(reason().find("no checksum is pinned") != std::string::npos);
  spec.sha256 = {std::string(64, '0')};
  CHECK(reason().find("none of those pinned") != std::string::npos);
  spec.sha256.push_back(*Sha256OfFile(program));
  spec.version = "1.2.4";
  CHECK(reason().find("reports version '1.2.3', pinned is 1.2.4") != std::string::npos);
  spec.version = "v1.2.3";
  int pid = 0;
  {
    const auto exporter = StartExporter(spec, context);
    INFO(exporter.status());
    REQUIRE(exporter.ok());
    pid = exporter->child->pid();
    http::Request request;
    request.url = exporter->url;
    CHECK(fixture.client->Send(request)->body == "node_memory_MemTotal_bytes 5\n");
  }
  CHECK(::kill(pid, 0) != 0);  // gone with its object
  // ends at once: its own words are the reason
  REQUIRE(AtomicWriteFile(program,
                          "#!/bin/sh\n[ \"$1\" = --version ] && echo 'version 1.2.3' && exit 0\necho 'no "
                          "such collector' >&2\nexit 3\n",
                          0755)
              .ok());
  spec.sha256 = {*Sha256OfFile(program)};
  CHECK(reason().find("exited with 3: no such collector") != std::string::npos);
  spec.name = dir / "absent";
  CHECK(reason().find("not installed") != std::string::npos);
}

TEST_CASE("the shipped exporters file is sound, and says why own readers take over", "[F15][F18]") {
  const auto specs = ReadExporters(*ReadFile(test::Source("deploy/exporters.yaml")), "exporters.yaml");
  REQUIRE(specs.ok());
  CHECK(specs->size() >= 5);
  for (const ExporterSpec& spec : *specs) {
    INFO(spec.name);
    CHECK(Shipped().Find(spec.dialect) != nullptr);
    for (const std::string& word : spec.argv) CHECK(word.find("0.0.0.0") == std::string::npos);
  }
  Fixture fixture;
  fixture.options.host = true;
  fixture.options.exporters_file = test::Source("deploy/exporters.yaml");
  const auto sampler = fixture.Start();
  bool explained = false;
  for (const v1::Tool& tool : sampler->tools()) {
    explained |= tool.name() == "poolmark-agent/node_exporter" &&
                 tool.note().find("in place of node_exporter 1.12.1, because: ") != std::string::npos;
  }
  CHECK(explained);
  for (const char* text : {"", "version: 2\nexporters: []", "version: 1\nexporters: 3",
                           "version: 1\nexporters: [3]", "version: 1\nexporters: [{name: a, extra: 1}]",
                           "version: 1\nexporters: [{name: a, version: 1, dialect: d, measures: m, instead: "
                           "i, url: \"http://0.0.0.0:1/\"}]",
                           "version: 1\nexporters: [{name: a, version: 1, dialect: d, measures: m, instead: "
                           "i, url: \"http://127.0.0.1:1/\", sha256: [abc]}]",
                           "a: ["}) {
    INFO(text);
    CHECK_FALSE(ReadExporters(text, "x").ok());
  }
}

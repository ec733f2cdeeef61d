#include "common/load/plan.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/load/knee.h"
#include "tests/support/temp_dir.h"

namespace poolmark::load {
namespace {

Result<Plan> Parse(const std::string& text) {
  return ParsePlan(*ParseJson(text), "p");
}
const std::string kMinimal =
    R"({"schema_version":1,"urls":["http://h:1"],"workload":{"shape":"synthetic"},"load":{"concurrency":16},"out":"/o"})";

}  // namespace

TEST_CASE("a plan reads back as it was written, in every mode", "[C21][C22]") {
  const auto minimal = Parse(kMinimal);
  INFO(minimal.status());
  REQUIRE(minimal.ok());
  CHECK(minimal->options.users == 16);
  CHECK(minimal->options.mode == LoadOptions::Mode::kClosed);
  CHECK_FALSE(minimal->options.duration.has_value());
  Plan plan = *minimal;
  plan.options.duration = std::chrono::minutes(20);
  plan.options.warm_up = std::chrono::minutes(5);
  plan.options.think_cap = std::chrono::seconds(10);
  plan.options.headers = {{"X-A", "b"}};
  plan.options.retry = {3, true, false, true, false, std::chrono::milliseconds(50)};
  plan.options.worker = 1;
  plan.options.workers = 3;
  plan.start_at_wall = Nanoseconds(1'800'000'000'000'000'001);
  plan.slo = *ParseSlo("ttft=450ms,tpot=40ms");
  plan.api_key_file = "/k";
  for (const LoadOptions::Mode mode :
       {LoadOptions::Mode::kClosed, LoadOptions::Mode::kRate, LoadOptions::Mode::kTrace}) {
    plan.options.mode = mode;
    if (mode == LoadOptions::Mode::kRate) {
      plan.options.arrivals.steps = *ParseRate("10:60s,10-100:30s,2.5");
      plan.options.arrivals.kind = ArrivalOptions::Kind::kGamma;
      plan.options.arrivals.cv = 0.5;
      plan.options.arrivals.seed = 7;
      plan.options.rate_of_sessions = true;
    }
    if (mode == LoadOptions::Mode::kTrace) plan.options.speedup = 2.5;
    const Json written = *PlanJson(plan);
    const auto again = ParsePlan(written);
    INFO(written.dump() << again.status());
    REQUIRE(again.ok());
    if (mode == LoadOptions::Mode::kClosed) CHECK(again->options.users == 16);
    CHECK(*PlanJson(*again) == written);
  }
}

TEST_CASE("a data set counts by its content, whatever path or link leads to it") {
  poolmark::test::TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "blob", "{}\n").ok());
  REQUIRE(AtomicWriteFile(dir / "other", "{ }\n").ok());
  REQUIRE(symlink("blob", (dir / "link.jsonl").c_str()) == 0);
  auto digest = [&](const std::string& file) {
    Plan plan = *Parse(kMinimal);
    plan.workload_json = Json({{"shape", "trace"}, {"file", dir / file}}).dump();
    return PlanDigest(plan);
  };
  INFO(digest("link.jsonl").status());
  REQUIRE(digest("blob").ok());
  CHECK(digest("link.jsonl").value() == *digest("blob"));
  CHECK(digest("other").value() != *digest("blob"));
  CHECK_FALSE(digest("gone").ok());
}

TEST_CASE("a plan's headers are none that the program sets itself") {
  for (const std::string name :
       {"Content-Length", "Transfer-Encoding", "Host", "x-request-id", "CONNECTION", "A b", "", "A:"}) {
    const auto plan = Parse(R"({"schema_version":1,"urls":["http://h:1"],"workload":{"shape":"synthetic"},)"
                            R"("load":{"concurrency":1},"out":"o","headers":{")" +
                            name + R"(":"v"}})");
    INFO(name);
    REQUIRE_FALSE(plan.ok());
    CHECK(std::string(plan.status().message()).find("header '" + name + "'") != std::string::npos);
  }
}

TEST_CASE("all that is wrong with a plan is said at once") {
  const auto plan = Parse(
      R"({"schema_version":2,"urls":["ftp://x"],"workload":{},"load":{"concurrency":1,"rate":2},"warm_up":"5 parsecs","loops":-1,"lops":1,"retry":{"on":["never"]}})");
  REQUIRE_FALSE(plan.ok());
  const std::string text(plan.status().message());
  for (const std::string expected :
       {"p.schema_version", "p.urls", "p.workload", "p.load: it has not exactly one", "p.warm_up", "p.loops",
        "p.lops", "p.retry.on", "p.out"}) {
    INFO(expected << " in " << text);
    CHECK(text.find(expected) != std::string::npos);
  }
  CHECK_FALSE(Parse("[]").ok());
  CHECK_FALSE(Parse(R"({"schema_version":1})").ok());
}

TEST_CASE("a setting of a plan that would do nothing, or is null, is refused by name") {
  const auto with = [](const std::string& load, const std::string& more) {
    return Parse(R"({"schema_version":1,"urls":["http://h:1"],"workload":{"shape":"synthetic"},"out":"/o",)"
                 R"("load":)" +
                 load + more + "}");
  };
  const std::string closed = R"({"concurrency":1})";
  for (const auto& [load, more, expected] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {R"({"rate":null})", "", "p.load.rate: it is null"},
           {R"({"concurrency":null})", "", "p.load.concurrency: it is null"},
           {closed, R"(,"duration":null)", "p.duration: it is null"},
           {closed, R"(,"slo":{"ttft":"1s","share":null})", "p.slo.share: it is null"},
           {R"({"concurrency":2,"arrivals":"poisson"})", "", "p.load.arrivals: it belongs to a rate"},
           {R"({"concurrency":2,"cv":3})", "", "p.load.cv: it belongs to a rate with gamma arrivals"},
           {R"({"concurrency":2,"of":"sessions"})", "", "p.load.of: it belongs to a rate"},
           {R"({"concurrency":2,"seed":3})", "", "p.load.seed: it belongs to a rate"},
           {R"({"rate":50,"seed":3})", "", "p.load.seed: it belongs to a rate with Poisson or gamma"},
           {R"({"rate":50,"arrivals":"constant","seed":3})", "", "p.load.seed: it belongs to a rate with"},
           {R"({"rate":5,"ramp_up":"5s"})", "", "p.load.ramp_up: it belongs to a concurrency"},
           {R"({"rate":50,"cv":3})", "", "p.load.cv: it belongs to a rate with gamma arrivals"},
           {R"({"rate":50,"arrivals":"poisson","cv":3})", "", "p.load.cv: it belongs to a rate with gamma"},
           {R"({"speedup":2,"arrivals":"gamma"})", "", "p.load.arrivals: it belongs to a rate"},
           {R"({"rate":1e9})", "", "p.load.rate: it is not above 0 and at most 1e7"},
           {R"({"rate":0})", "", "p.load.rate: it is not above 0"},
           {R"({"concurrency":0})", "", "p: concurrency 0 is not between"},
           {R"({"speedup":-1})", "", "p: the speed-up is not above 0"},
           {closed, R"(,"headers":["A: b"])", "p.headers: it is no object"},
           {closed, R"(,"headers":"A: b")", "p.headers: it is no object"},
           {closed, R"(,"retry":{"attempts":3})", "p.retry.on: it names nothing"},
           {closed, R"(,"retry":{"attempts":3,"on":[]})", "p.retry.on: it names nothing"},
           {closed, R"(,"retry":{"attempts":3,"on":"429"})", "p.retry.on: it is no list"},
           {closed, R"(,"retry":{"attempts":3,"on":{"a":"429"}})", "p.retry.on: it is no list"},
           {closed, R"(,"retry":{"on":["429"]})", "p.retry.on: it belongs to attempts above 1"},
           {closed, R"(,"retry":{"pause":"1s"})", "p.retry.pause: it belongs to attempts above 1"},
           {closed, R"(,"slo":{})", "p.slo: it sets no limit"},
           {closed, R"(,"slo":{"name":"x","share":0.5})", "p.slo: it sets no limit"},
           {closed, R"(,"slo":{"ttft":0})", "p.slo.ttft: it is not above 0"},
           {closed, R"(,"slo":[])", "p.slo: it is no object"},
           {closed, R"(,"slo":{"name":"","ttft":1})", "p.slo.name: it is empty"},
           {closed, R"(,"ca_file":"ca.pem")", "p.ca_file: it belongs to an https URL"},
           {closed, R"(,"server_name":"x")", "p.server_name: it belongs to an https URL"},
           {closed, R"(,"insecure":true)", "p.insecure: it belongs to an https URL"},
           {closed, R"(,"processes":0)", "p.processes: it is not from 1 to 64"},
           {closed, R"(,"worker":2,"workers":2)", "p: worker 2 of 2 does not exist"},
       }) {
    const auto plan = with(load, more);
    INFO(load << more);
    REQUIRE_FALSE(plan.ok());
    INFO(plan.status());
    CHECK(std::string(plan.status().message()).find(expected) != std::string::npos);
  }
  // What does something is taken as it stands.
  const auto gamma = with(R"({"rate":1e7,"arrivals":"gamma","cv":3,"seed":2,"of":"sessions"})",
                          R"(,"retry":{"attempts":2,"on":["429"],"pause":"1s"})");
  INFO(gamma.status());
  REQUIRE(gamma.ok());
  CHECK(gamma->options.arrivals.cv == 3);
  CHECK(gamma->options.rate_of_sessions);
  CHECK(gamma->options.retry.attempts == 2);
  CHECK(gamma->options.retry.on_429);
  CHECK_FALSE(gamma->options.retry.on_5xx);
  // Limits without a name of their own are called what they are, as on the command line.
  const auto slo = with(closed, R"(,"slo":{"ttft":"450ms","tpot":0.04,"share":0.9})");
  INFO(slo.status());
  REQUIRE(slo.ok());
  CHECK(slo->slo->name == "ttft=450ms,tpot=40ms");
  CHECK(slo->slo->share == 0.9);
}

TEST_CASE("the knee is found between the last good and the first bad level") {
  const auto search = [](double knee, bool whole, double most) {
    KneeOptions options;
    options.whole = whole;
    options.most = most;
    KneeSearch steps(options);
    int measured = 0;
    while (const auto level = steps.Next()) {
      ++measured;
      steps.Report(*level, *level <= knee ? 0.95 : 0.2);
      REQUIRE(measured < 40);
    }
    return std::pair(steps.knee(), steps.open_end());
  };
  CHECK(*search(100, true, 65536).first >= 90);
  CHECK(*search(100, true, 65536).first <= 100);
  CHECK(*search(7, true, 65536).first == 7);
  CHECK(*search(1, true, 65536).first == 1);
  CHECK_FALSE(search(0.5, true, 65536).first.has_value());
  CHECK(*search(33.3, false, 65536).first == Approx(33.3).epsilon(0.1));
  CHECK(search(1e9, true, 256) == std::pair(std::optional<double>(256), true));
}

}  // namespace poolmark::load

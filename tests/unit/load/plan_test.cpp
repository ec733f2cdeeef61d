#include "common/load/plan.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/load/knee.h"

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

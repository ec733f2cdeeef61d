// How long the processes of a job may take to end.
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

using controller::StateName;

constexpr int64_t kSecond = 1'000'000'000;

// The shipped stack with another stop_grace for engines and router.
v1::SubmitJobRequest WithGraces(ControllerFixture* f, const std::string& engine, const std::string& router) {
  std::string stack = *ReadFile(Source("deploy/stacks/sim-local.yaml"));
  const std::string line = "    stop_grace: 5s\n";
  size_t at = 0;
  for (const std::string& grace : {engine, router}) {
    at = stack.find(line, at);
    REQUIRE(at != std::string::npos);
    const std::string other = "    stop_grace: " + grace + "\n";
    stack.replace(at, line.size(), other);
    at += other.size();
  }
  return f->WithStack(stack);
}

}  // namespace

TEST_CASE("each machine gets the longest grace that a process of the stack on it asks for") {
  ControllerFixture f;
  const bool router_longer = GENERATE(true, false);
  const auto request = WithGraces(&f, "7s", router_longer ? "12s" : "3s");
  CHECK(StateName(f.Finished(f.Submit(request)).state()) == "SUCCEEDED");
  CHECK(f.pool.at("n0").graces() == std::vector<int64_t>{(router_longer ? 12 : 7) * kSecond});
  CHECK(f.pool.at("n1").graces() == std::vector<int64_t>{7 * kSecond});
}

TEST_CASE("before anything was launched the grace is the controller's own, and a forced cancel gives none") {
  ControllerFixture f;
  const bool force = GENERATE(true, false);
  auto gate = std::make_shared<Gate>("RunChecks");
  f.pool.SetHook([gate](const std::string& machine, const std::string& call, std::stop_token stop) {
    return (*gate)(machine, call, stop);
  });
  const std::string id = f.Submit(WithGraces(&f, "7s", "7s"));
  gate->AwaitReached();
  REQUIRE(f.jobs->Cancel(id, force, "ada").ok());
  CHECK(StateName(f.Finished(id).state()) == "CANCELLED");
  const int64_t expected = force ? 0 : f.environment.timing.stop_grace.count();
  for (const char* machine : {"n0", "n1"})
    CHECK(f.pool.at(machine).graces() == std::vector<int64_t>{expected});
}

}  // namespace poolmark::test

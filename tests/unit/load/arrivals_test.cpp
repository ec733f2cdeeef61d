// When the requests of a load are due: arrivals, and turns that wait for others.
#include "common/load/arrivals.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "common/load/session_run.h"

namespace poolmark::load {

namespace {
std::vector<double> Draw(const std::string& rate, ArrivalOptions::Kind kind, double cv, size_t most) {
  ArrivalOptions options;
  options.steps = *ParseRate(rate);
  options.kind = kind;
  options.cv = cv;
  ArrivalSchedule schedule(options);
  std::vector<double> times;
  while (times.size() < most) {
    const auto at = schedule.Next();
    if (!at.has_value()) break;
    times.push_back(std::chrono::duration<double>(*at).count());
  }
  return times;
}

std::pair<double, double> MeanAndCv(const std::vector<double>& times) {
  std::vector<double> gaps;
  for (size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size());
  double square = 0;
  for (const double gap : gaps) square += (gap - mean) * (gap - mean);
  return {mean, std::sqrt(square / static_cast<double>(gaps.size())) / mean};
}
}  // namespace

TEST_CASE("arrivals keep their rate and their spread", "[C22]") {
  const std::vector<double> constant = Draw("100", ArrivalOptions::Kind::kConstant, 1, 1000);
  CHECK(constant[0] == 0);
  CHECK(constant[999] == Approx(9.99).margin(1e-8));
  CHECK(MeanAndCv(constant).second < 1e-6);
  const auto [poisson_mean, poisson_cv] = MeanAndCv(Draw("100", ArrivalOptions::Kind::kPoisson, 1, 40000));
  CHECK(poisson_mean == Approx(0.01).epsilon(0.02));
  CHECK(poisson_cv == Approx(1).epsilon(0.02));
  for (const double cv : {0.3, 2.0}) {
    const auto [mean, spread] = MeanAndCv(Draw("100", ArrivalOptions::Kind::kGamma, cv, 40000));
    CHECK(mean == Approx(0.01).epsilon(0.04));
    CHECK(spread == Approx(cv).epsilon(0.05));
  }
  // Steps and ramps: as many arrivals as the area under the rate, and none after the end.
  const std::vector<double> steps = Draw("10:10s,100:10s", ArrivalOptions::Kind::kConstant, 1, 100000);
  CHECK(steps.size() == 1100);
  CHECK(std::count_if(steps.begin(), steps.end(), [](double t) { return t < 10; }) == 100);
  const std::vector<double> ramp = Draw("0-100:20s", ArrivalOptions::Kind::kConstant, 1, 100000);
  CHECK(ramp.size() == 1000);
  CHECK(std::count_if(ramp.begin(), ramp.end(), [](double t) { return t < 10; }) == 250);
  CHECK(std::is_sorted(ramp.begin(), ramp.end()));
  CHECK(Draw("100-0:20s", ArrivalOptions::Kind::kPoisson, 1, 100000).size() == Approx(1000).epsilon(0.15));
  CHECK(Draw("100", ArrivalOptions::Kind::kPoisson, 1, 50) ==
        Draw("100", ArrivalOptions::Kind::kPoisson, 1, 50));
  for (const std::string bad : {"", "x", "-1", "10-20", "10,20:5s", "0", "1:0s", "1e9", "10:x"}) {
    INFO(bad);
    CHECK_FALSE(ParseRate(bad).ok());
  }
}

namespace {
class GraphSession final : public Session {
 public:
  explicit GraphSession(std::vector<std::vector<uint32_t>> after) : after_(std::move(after)) {}
  std::string_view id() const override { return "g"; }
  size_t turns() const override { return after_.size(); }
  TurnPlan turn(size_t index) const override {
    TurnPlan plan;
    plan.after = after_[index];
    return plan;
  }
  void Render(size_t, std::string*) override {}

 private:
  std::vector<std::vector<uint32_t>> after_;
};
}  // namespace

TEST_CASE("turns start when the turns they wait for have ended") {
  std::vector<uint32_t> ready;
  SessionRun chain(std::make_unique<GraphSession>(std::vector<std::vector<uint32_t>>(3)), 0, -1);
  chain.Begin(&ready);
  CHECK(ready == std::vector<uint32_t>{0});
  ready.clear();
  chain.Ended(0, &ready);
  CHECK(ready == std::vector<uint32_t>{1});
  CHECK(chain.more());
  CHECK(chain.Abandon() == 1);
  ready.clear();
  chain.Ended(1, &ready);
  CHECK(ready.empty());
  CHECK(chain.over());

  // 0 -> (1, 2 beside each other) -> 3; 4 waits for 1 alone. A wait for itself or a later turn is void.
  SessionRun graph(
      std::make_unique<GraphSession>(std::vector<std::vector<uint32_t>>{{}, {0}, {0, 0}, {1, 2}, {1, 4}}), 0,
      -1);
  ready.clear();
  graph.Begin(&ready);
  CHECK(ready == std::vector<uint32_t>{0});
  ready.clear();
  graph.Ended(0, &ready);
  CHECK(ready == std::vector<uint32_t>{1, 2});
  ready.clear();
  graph.Ended(1, &ready);
  CHECK(ready == std::vector<uint32_t>{4});
  graph.Ended(2, &ready);
  CHECK(ready == std::vector<uint32_t>{4, 3});
  CHECK_FALSE(graph.over());
  graph.Ended(3, &ready);
  graph.Ended(4, &ready);
  CHECK(graph.over());
  CHECK_FALSE(graph.more());
}

}  // namespace poolmark::load

// Percentiles, intervals, windows, goodput, energy, counters, comparison: against values worked out by hand
// or with scipy.
#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/stats/compare.h"
#include "common/stats/energy.h"
#include "common/stats/requests.h"
#include "common/stats/slo.h"
#include "common/stats/summary.h"
#include "common/stats/warnings.h"
#include "common/stats/windows.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::stats;

namespace {

RequestFacts Request(double start, double ttft, double tpot, int64_t tokens) {
  RequestFacts out;
  out.start = out.sent = start;
  out.first_output = start + ttft;
  out.last_output = *out.first_output + tpot * static_cast<double>(tokens - 1);
  out.end = *out.last_output + 0.001;
  out.output_tokens = tokens;
  out.input_tokens = 100;
  for (int64_t i = 0; i < tokens; ++i)
    out.events.emplace_back(*out.first_output + tpot * static_cast<double>(i), 1u);
  return out;
}

Nanoseconds S(double seconds) {
  return Nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

}  // namespace

TEST_CASE("percentiles interpolate between closest ranks (type 7)", "[E1]") {
  std::vector<double> values = {15, 20, 35, 40, 50};  // numpy.percentile(x, [50, 90, 99]) = 35, 46, 49.6
  const auto out = Describe(&values);
  REQUIRE(out.has_value());
  CHECK((*out).p50 == Approx(35));
  CHECK((*out).p90 == Approx(46));
  CHECK((*out).p99 == Approx(49.6));
  CHECK((*out).mean == Approx(32));
  std::vector<double> one = {7};
  CHECK((*Describe(&one)).p99 == 7);
  std::vector<double> none;
  CHECK_FALSE(Describe(&none).has_value());
}

TEST_CASE("many values give the same percentiles without being sorted", "[E1]") {
  for (size_t n : {1u, 2u, 3u, 10u, 101u, 5000u}) {
    std::vector<float> many;
    std::vector<double> few;
    for (size_t i = 0; i < n; ++i) {
      many.push_back(static_cast<float>((i * 7919) % 5003));
      few.push_back(static_cast<double>(many.back()));
    }
    const auto a = *DescribeMany(&many), b = *Describe(&few);
    CHECK(a.p50 == Approx(b.p50));
    CHECK(a.p90 == Approx(b.p90));
    CHECK(a.p99 == Approx(b.p99));
    CHECK(a.mean == Approx(b.mean));
    CHECK(a.min == b.min);
    CHECK(a.max == b.max);
  }
}

TEST_CASE("intervals are Student's t over the repeats", "[E11]") {
  CHECK(StudentT(0.95, 2) == Approx(4.302652729911275));  // scipy.stats.t.ppf(0.975, 2)
  CHECK(StudentT(0.95, 9) == Approx(2.2621571627409915));
  const std::vector<double> values = {10, 12, 14};
  const auto interval = MeanInterval(values);
  CHECK(interval->mean == 12);
  CHECK(*interval->half_width == Approx(4.302652729911275 * 2 / std::sqrt(3.0)));
  const std::vector<double> single = {10};
  CHECK_FALSE(MeanInterval(single)->half_width.has_value());
}

TEST_CASE("time per output token leaves out the first event and needs two tokens", "[E2]") {
  CHECK(*TimePerOutputToken(Request(0, 0.1, 0.02, 11)) == Approx(0.02));
  CHECK_FALSE(TimePerOutputToken(Request(0, 0.1, 0.02, 1)).has_value());
  auto burst = Request(0, 0.1, 0.02, 8);
  burst.first_event_tokens = 4;
  CHECK(*TimePerOutputToken(burst) == Approx(7 * 0.02 / 4));
}

TEST_CASE("only requests that start inside the window count, and their drain counts", "[H3][H4]") {
  RequestAccumulator sums(10, 20, {});
  sums.Add(Request(9.99, 0.1, 0.01, 50));  // warm-up, its tokens arrive inside
  sums.Add(Request(10, 0.2, 0.01, 10));
  sums.Add(Request(19.9, 0.3, 0.1, 20));  // ends in the drain
  sums.Add(Request(20, 0.4, 0.01, 30));   // after the window
  auto primer = Request(12, 0.1, 0.01, 1);
  primer.primer = true;
  sums.Add(primer);
  const auto figures = sums.Finish();
  CHECK(figures.requests == 2);
  CHECK(figures.output_tokens == 30);
  CHECK(figures.output_tokens_per_second == Approx(3));
  CHECK((*figures.ttft).mean == Approx(0.25));
}

TEST_CASE("a request's latency ends with its last output, however late the answer's end comes", "[E5]") {
  RequestAccumulator sums(0, 10, {});
  auto request = Request(1, 0.4, 0.04, 11);
  request.end = *request.last_output + 0.7;  // [DONE] was held back
  sums.Add(request);
  const auto figures = sums.Finish();
  CHECK((*figures.latency).p50 == Approx(0.8));
}

TEST_CASE("failed requests give no latency and miss every limit", "[E5][H8]") {
  RequestAccumulator sums(0, 10,
                          {{"slo", "", "", 0.5, 0.05, "", 0.25}, {"strict", "", "", 0.5, 0.05, "", 0.26}});
  sums.Add(Request(1, 0.4, 0.04, 10));
  sums.Add(Request(2, 0.6, 0.04, 10));
  sums.Add(Request(3, 0.4, 0.06, 10));
  auto failed = Request(4, 0.1, 0.01, 10);
  failed.ok = false;
  sums.Add(failed);
  const auto figures = sums.Finish();
  CHECK(figures.failed == 1);
  CHECK((*figures.ttft).count == 3);
  const Goodput& goodput = figures.goodput.at(0);
  CHECK(goodput.good_per_second == Approx(0.1));
  CHECK(goodput.share == Approx(0.25));
  CHECK(goodput.met == true);
  CHECK(figures.goodput.at(1).met == false);
  CHECK(goodput.share_ttft == Approx(0.5));
  CHECK(goodput.share_tpot == Approx(0.5));
  CHECK(goodput.curve.front().second == 0);
  CHECK(goodput.curve.back().second == Approx(0.3));
}

TEST_CASE("the presets that ship are the published limits", "[E5]") {
  const auto all = ReadSloDirectory(test::Source("deploy/slo"));
  INFO(all.status().ToString());
  REQUIRE(all.ok());
  CHECK(all->size() == 17);
  const auto picked = PickSlos(*all, {"mlperf-llama2-70b-interactive", "distserve-opt66b-humaneval"});
  REQUIRE(picked.ok());
  CHECK(picked->at(0).ttft_seconds == 0.45);
  CHECK(picked->at(0).tpot_seconds == 0.04);
  CHECK(picked->at(1).ttft_seconds == 0.125);
  for (const Slo& slo : *all) CHECK_FALSE(slo.source.empty());
  // MLPerf limits a 99th percentile, DistServe asks for 90 % of the requests.
  for (const Slo& slo : *all) CHECK(slo.share == (slo.name.starts_with("mlperf-") ? 0.99 : 0.9));
  CHECK_FALSE(ReadSlos("- {name: a, ttft: 1s, tpot: 1s, source: s, share: 1.5}", "x").ok());
  CHECK_FALSE(ReadSlos("- {name: a, ttft: 1s, tpot: 1s, source: s}", "x")->at(0).share.has_value());
  CHECK_THAT(std::string(PickSlos(*all, {"mlperf"}).status().message()), Catch::Contains("known: "));
}

TEST_CASE("prompts in flight when counters were read are those that the engine counted after it",
          "[B1][M7]") {
  // All sent before the window of 10 to 20: answered before it, in the middle of their answers when it
  // begins, and waiting for their first token.
  const auto skew = [](CountedAt at) {
    RequestAccumulator sums(10, 20, {});
    for (const auto& [first, end, tokens] :
         {std::tuple{8.0, 9.5, 1}, {8.0, 15.0, 10}, {9.0, 10.0, 100}, {11.0, 12.0, 1000}}) {
      RequestFacts request;
      request.start = request.sent = 7;
      request.first_output = first;
      request.end = end;
      request.input_tokens = tokens;
      sums.Add(request);
    }
    return sums.skew(at).tokens;
  };
  CHECK(skew(CountedAt::kFirstToken) == 1000);
  CHECK(skew(CountedAt::kFinish) == 1010);
}

TEST_CASE("a token at the window's end is in its last part, one before or after it in none", "[H5]") {
  RequestAccumulator sums(10, 20, {});
  RequestFacts request;
  request.start = request.sent = 9;
  request.end = 21;
  request.events = {{9.999, 1}, {10, 2}, {12, 4}, {20, 8}, {20.001, 16}};
  sums.Add(request);
  CHECK(sums.window_tokens() == std::vector<double>{2, 4, 0, 0, 8});
}

TEST_CASE("stability: five windows at least, one a minute, variation and a fitted drift", "[H5][H6][H12]") {
  CHECK(WindowCount(120) == 5);
  CHECK(WindowCount(900) == 15);
  CHECK(WindowCount(1e18) == 100'000);  // an edited file, no load
  const auto rising = StabilityOf({600, 660, 720, 780, 840}, 60);
  CHECK(*rising.drift == Approx((14.0 - 10.0) / 12.0));
  CHECK(*rising.variation == Approx(1.5811388300841898 / 12.0));  // numpy.std(x, ddof=1) / mean
  CHECK(*StabilityOf({9, 9, 9, 9, 9}, 1).variation == 0);
  CHECK_FALSE(StabilityOf({0, 0, 0, 0, 0}, 1).variation.has_value());
}

TEST_CASE("the three warnings stand with the methodology's own sentences", "[H7][H8][H9]") {
  CHECK(WarningsOf({true, false, 1000, 10, 900}).empty());
  CHECK(WarningsOf({true, false, 1000, 11, 900}) == std::vector{Warning::kFailures});
  CHECK(WarningsOf({true, true, 10, 0, 300}) == std::vector{Warning::kOutOfSessions});
  CHECK(WarningsOf({false, true, 10, 0, 299.9}) == std::vector{Warning::kShortWindow});
  CHECK(WarningsOf({false, false, 0, 0, 2.5}).empty());  // nothing was measured: no window that is too short
  CHECK(WarningSentence(Warning::kFailures) == "More than 1% of the requests in the measured window failed.");
}

TEST_CASE("energy leaves out gaps over 30 s and interpolates at the window's edges", "[E8][F23]") {
  const std::vector<Sample> watts = {{S(-5), 100}, {S(5), 200}, {S(36), 1000}, {S(46), 1000}};
  const auto out = Integrate(watts, S(0), S(40));
  REQUIRE(out.has_value());
  CHECK((*out).covered_seconds == Approx(9));
  CHECK((*out).joules == Approx(175 * 5 + 4000));  // 150..200 W over 5 s, 31 s gap, 1000 W over 4 s
  CHECK_FALSE(Integrate({{S(0), 1}}, S(0), S(40)).has_value());
}

TEST_CASE("tokens per joule needs the power of every machine over the window", "[E8]") {
  const std::vector<Sample> whole = {{S(0), 100}, {S(10), 100}}, quarter = {{S(0), 100}, {S(2.5), 100}};
  auto out = Energy({{"n0", quarter, {}, {}}, {"n1", whole, {}, {}}}, {}, S(0), S(10), 6000);
  CHECK(*out.joules == Approx(1250));
  CHECK(out.tokens_per_joule.reason() == "power of n0 was read for 2.50 of 10.00 s");
  // Node power of a part of the window is worth less than GPU power of all of it.
  out = Energy({{"n0", quarter, {}, {whole}}}, {}, S(0), S(10), 6000);
  CHECK(out.machines.at(0).kind == PowerKind::kGpus);
  CHECK(*out.tokens_per_joule == Approx(6));
  out = Energy({{"n0", whole, {}, {}}, {"n1", {}, {}, {}}}, {}, S(0), S(10), 6000);
  CHECK(out.tokens_per_joule.reason() == "no power of n1 (the machine reports no power)");
  out = Energy({{"n0", {}, {}, {}}, {"n1", {}, {}, {}}}, {}, S(0), S(10), 6000);
  CHECK(out.tokens_per_joule.reason() == "no machine reported power");
}

TEST_CASE("each machine counts once at its best power; network energy needs node power and ports",
          "[F23][G7][E10]") {
  const std::vector<Sample> flat = {{S(0), 100}, {S(10), 100}};
  MachinePower bmc{"a", flat, {{S(0), 50}, {S(10), 50}}, {flat}}, gpus{"b", {}, {}, {flat, flat}};
  auto out = Energy({bmc, gpus}, {{"leaf", {300, 500}, 2, 8}}, S(0), S(10), 6000);
  CHECK(*out.joules == Approx(1000 + 2000));
  CHECK(*out.tokens_per_joule == Approx(2));
  CHECK_THAT(out.tokens_per_joule_with_network.reason(), Catch::Contains("only GPU power of b"));
  out = Energy({bmc}, {{"leaf", {300, 500}, 2, 8}}, S(0), S(10), 6000);
  CHECK(*out.switches.at(0).share == Approx(400 * 10 * 0.25));
  CHECK(*out.tokens_per_joule_with_network == Approx(6000.0 / 2000));
  out = Energy({bmc}, {{"leaf", {300}, {}, {}}}, S(0), S(10), 6000);
  CHECK_FALSE(out.tokens_per_joule_with_network.has_value());
  CHECK_FALSE(Energy({bmc, {"c", {}, {}, {}}}, {}, S(0), S(10), 1).tokens_per_joule.has_value());
}

TEST_CASE("a counter that went backwards is a reset and no value", "[G4]") {
  const std::vector<Sample> samples = {{S(0), 5}, {S(1), 9}, {S(2), 3}, {S(3), 8}};
  const auto over = ChangeOver(samples, S(0), S(3));
  CHECK(over.reset);
  CHECK(*over.reset_at == S(2));
  CHECK_FALSE(over.change.has_value());
  CHECK(*ChangeOver(samples, S(2), S(3)).change == 5);
  CHECK(*ChangeOver(samples, S(0), S(1.5)).change == 4);
  CHECK_FALSE(ChangeOver(samples, S(-1), S(1)).change.has_value());
  CHECK(*ChangeOver(samples, S(-1), S(1), true).change == 9);
}

TEST_CASE("comparison tells better, worse, same and underpowered, with the repeats it would take", "[E11]") {
  const std::vector<double> base = {1.00, 1.02, 0.98};
  CHECK(ComparePaired(base, std::vector<double>{0.50, 0.51, 0.49}, true).verdict == Comparison::kBetter);
  CHECK(ComparePaired(base, std::vector<double>{0.50, 0.51, 0.49}, false).verdict == Comparison::kWorse);
  CHECK(ComparePaired(base, std::vector<double>{1.01, 1.02, 0.99}, true).verdict == Comparison::kSame);
  const auto noisy = ComparePaired(base, std::vector<double>{0.8, 1.3, 0.95}, true);
  CHECK(noisy.verdict == Comparison::kUnderpowered);
  REQUIRE(noisy.repeats_needed.has_value());
  CHECK(*noisy.repeats_needed > 3);
  // One pair shows no spread: how many it would take is not known.
  const auto single = ComparePaired(std::vector<double>{1.0}, std::vector<double>{0.5}, true);
  CHECK(single.verdict == Comparison::kUnderpowered);
  CHECK_FALSE(single.repeats_needed.has_value());
  CHECK_FALSE(ComparePaired({}, {}, true).repeats_needed.has_value());
  // From nothing there is no relative change, but better it is; nothing and nothing is the same.
  const std::vector<double> nothing = {0, 0, 0}, something = {0.7, 0.72, 0.69};
  const auto from_zero = ComparePaired(nothing, something, false);
  CHECK(from_zero.verdict == Comparison::kBetter);
  CHECK(from_zero.pairs == 3);
  CHECK(from_zero.from_zero);
  CHECK_FALSE(from_zero.relative.has_value());
  CHECK(ComparePaired(nothing, something, true).verdict == Comparison::kWorse);
  CHECK(ComparePaired(nothing, nothing, true).verdict == Comparison::kSame);
  CHECK(*ComparePaired(nothing, nothing, true).relative == 0);
  CHECK(ComparePaired(std::vector<double>{0}, std::vector<double>{0.7}, false).verdict ==
        Comparison::kUnderpowered);
  // One baseline of 0 among others is not left out: the pairs that stay would be a choice.
  CHECK(ComparePaired(std::vector<double>{0, 0.5}, something, false).from_zero);
}

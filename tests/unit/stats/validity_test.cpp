// The seven reasons, one by one, at and beyond their limits.
#include "common/stats/validity.h"

#include <catch2/catch.hpp>

#include "common/stats/publication.h"

using namespace poolmark;
using namespace poolmark::stats;

namespace {

std::vector<Reason> Reasons(const Evidence& evidence) {
  std::vector<Reason> out;
  for (const auto& reason : Judge(evidence).reasons) out.push_back(reason.reason);
  return out;
}

PathEvidence Path(const std::string& intended, double expected, Measured<double> rdma, Measured<double> tcp) {
  return {"n1", "n2", intended, expected, std::move(rdma), std::move(tcp), false};
}

}  // namespace

TEST_CASE("without evidence against it a repeat is valid", "[I8]") {
  CHECK(Judge({}).valid());
}

TEST_CASE("I1: ten seconds of silence are allowed, more are not", "[I1]") {
  Evidence evidence;
  evidence.silences = {{"n2", 10.0, ""}};
  CHECK(Reasons(evidence).empty());
  evidence.silences = {{"n2", 10.1, "2026-11-30T12:00:00.000Z"}};
  CHECK(Reasons(evidence) == std::vector{Reason::kMachineSilent});
  CHECK_THAT(Judge(evidence).reasons.at(0).detail,
             Catch::Contains("n2") && Catch::Contains("10.1 s (limit 10.0 s)"));
  CHECK(ReasonSentence(Reason::kMachineSilent) == "a machine stopped responding during the job");
}

TEST_CASE("I2: clocks over 100 ms and steps are reasons, over 10 ms is a note", "[I2]") {
  Evidence evidence;
  evidence.clocks = {{"n1", 0.009, 0.0001, 0, true}};
  CHECK(Judge(evidence).notes.empty());
  evidence.clocks = {{"n1", -0.05, 0.0001, 0, true}};
  CHECK(Judge(evidence).valid());
  CHECK(Judge(evidence).notes.size() == 1);
  evidence.clocks = {{"n1", -0.101, 0.0001, 0, true}};
  CHECK(Reasons(evidence) == std::vector{Reason::kClockDrift});
  evidence.clocks = {{"n1", 0.001, 0.0001, 3600, true}};
  CHECK(Reasons(evidence) == std::vector{Reason::kClockDrift});
  // A clock that nobody compared is not in order; an interrupted repeat has its reason.
  evidence.clocks = {{"n1", 0, 0, 0, false}};
  CHECK(Reasons(evidence) == std::vector{Reason::kNotJudged});
  evidence.interrupted = "stopped";
  CHECK(Reasons(evidence) == std::vector{Reason::kInterrupted});
}

TEST_CASE("I3: a counter that went backwards names process, series and values", "[I3]") {
  Evidence evidence;
  evidence.resets = {{"n1", "engine-n1", "vllm:prompt_tokens_total", 812, 3, "12:00:01"}};
  CHECK(Reasons(evidence) == std::vector{Reason::kCounterBackwards});
  CHECK_THAT(Judge(evidence).reasons.at(0).detail,
             Catch::Contains("vllm:prompt_tokens_total went from 812 to 3"));
}

TEST_CASE("I4: 80 % on the intended path is right, 10 to 80 % mixed, less is wrong", "[I4][J1]") {
  CHECK(JudgePath(Path("rdma", 1e9, 0.8e9, 0.0)).verdict == PathVerdict::kRight);
  CHECK(JudgePath(Path("rdma", 1e9, 0.79e9, 0.3e9)).verdict == PathVerdict::kMixed);
  CHECK(JudgePath(Path("rdma", 1e9, 0.1e9, 0.9e9)).verdict == PathVerdict::kMixed);
  CHECK(JudgePath(Path("rdma", 1e9, 0.0, 1.1e9)).verdict == PathVerdict::kWrong);
  CHECK(JudgePath(Path("tcp", 1e9, 1e9, 1.1e9)).verdict == PathVerdict::kWrong);
  CHECK(JudgePath(Path("tcp", 1e9, NotMeasured{"no RDMA card"}, 1.02e9)).verdict == PathVerdict::kRight);
  CHECK(JudgePath(Path("tcp", 0, 0.0, 0.0)).verdict == PathVerdict::kIdle);
  // KV bytes that nothing counts: only a fall-back that cannot be anything else is wrong.
  const auto unknown = [](double rdma, double tcp) {
    PathEvidence path = Path("rdma", 0, rdma, tcp);
    path.expected_bytes = NotMeasured{"two senders"};
    return JudgePath(path).verdict;
  };
  CHECK(unknown(1e9, 5e7) == PathVerdict::kRight);
  CHECK(unknown(1e3, 1e9) == PathVerdict::kWrong);
  CHECK(unknown(1e9, 1e9) == PathVerdict::kNotMeasured);
  CHECK(unknown(1e3, 1e3) == PathVerdict::kNotMeasured);
  // A TCP stack has no other path than RDMA to go astray on.
  PathEvidence uncounted = Path("tcp", 0, 0.0, 1e9);
  uncounted.expected_bytes = NotMeasured{"no counter of these engines tells it"};
  CHECK(JudgePath(uncounted).verdict == PathVerdict::kRight);
  uncounted.rdma_bytes = NotMeasured{"no RDMA counters on this machine"};
  CHECK(JudgePath(uncounted).verdict == PathVerdict::kNotMeasured);
  Evidence evidence;
  evidence.paths = {Path("rdma", 1e9, 0.0, 1.1e9)};
  CHECK(Reasons(evidence) == std::vector{Reason::kWrongPath});
  CHECK_THAT(Judge(evidence).reasons.at(0).detail,
             Catch::Contains("1.00 GB of KV") && Catch::Contains("1.10 GB over TCP"));
  // The intended path was not read, and the bytes were seen on the other: wrong, whichever of the two was
  // meant.
  CHECK(JudgePath(Path("rdma", 1e9, NotMeasured{"not read"}, 0.9e9)).verdict == PathVerdict::kWrong);
  CHECK(JudgePath(Path("tcp", 1e9, 0.9e9, NotMeasured{"not read"})).verdict == PathVerdict::kWrong);
  CHECK(JudgePath(Path("tcp", 1e9, 0.1e9, NotMeasured{"not read"})).verdict == PathVerdict::kNotMeasured);
  evidence.paths = {Path("rdma", 1e9, NotMeasured{"counter not exposed"}, 0.5e9)};
  CHECK(Judge(evidence).valid());
  CHECK(Judge(evidence).notes.size() == 1);
}

TEST_CASE("I4: RDMA that nobody could read does not hide KV that crossed TCP", "[I4][J1]") {
  const NotMeasured unread{"no RDMA counters on this machine"};
  const auto verdict = [&](Measured<double> tcp) {
    return JudgePath(Path("rdma", 1e9, unread, std::move(tcp))).verdict;
  };
  CHECK(verdict(1.02e9) == PathVerdict::kWrong);
  CHECK(verdict(0.8e9) == PathVerdict::kWrong);
  CHECK(verdict(0.79e9) == PathVerdict::kNotMeasured);
  CHECK(verdict(NotMeasured{"no card"}) == PathVerdict::kNotMeasured);
  CHECK(JudgePath(Path("tcp", 1e9, 0.0, unread)).verdict == PathVerdict::kNotMeasured);
}

TEST_CASE("I5: another KV format", "[I5]") {
  Evidence evidence;
  evidence.formats = {{"engine-n2", "engine-n1", "dtype", "fp8", "bf16"}};
  CHECK(Reasons(evidence) == std::vector{Reason::kKvFormat});
}

TEST_CASE("I6: declared empty must be shown empty", "[I6]") {
  Evidence evidence;
  evidence.state = {"empty", {{"store", "DBSIZE", 0.0}}, {}};
  CHECK(Reasons(evidence).empty());
  evidence.state.tiers.push_back({"engine-n1", "canary", 512.0});
  CHECK(Reasons(evidence) == std::vector{Reason::kStartingState});
  evidence.state.tiers.back().held = NotMeasured{"endpoint gone"};
  CHECK(Reasons(evidence) == std::vector{Reason::kStartingState});
  // A warm start begins empty too, before its unmeasured pass; what was attached was never cleared.
  evidence.state.declared = "warm";
  CHECK(Reasons(evidence) == std::vector{Reason::kStartingState});
  evidence.state.declared = "attached";
  CHECK(Reasons(evidence).empty());
}

TEST_CASE("I6: what holds KV and was not read back is not empty", "[I6]") {
  Evidence evidence;
  evidence.state = {"empty", {}, {"engine-n1"}};
  CHECK(Reasons(evidence) == std::vector{Reason::kStartingState});
  CHECK(Judge(evidence).reasons.at(0).detail ==
        "engine-n1: nothing was read back, the declared state is empty");
  // Starting anew clears; it shows nothing.
  evidence.state.tiers = {{"engine-n1", "restart", 0.0}};
  CHECK(Reasons(evidence) == std::vector{Reason::kStartingState});
  evidence.state.tiers.push_back({"engine-n1", "canary", 0.0});
  CHECK(Judge(evidence).valid());
  // Another's reading is not its own.
  evidence.state.holders.push_back("store");
  CHECK_THAT(Judge(evidence).reasons.at(0).detail, Catch::StartsWith("store: nothing was read back"));
  // A repeat that ended before it could be read says so, and no more.
  evidence.interrupted = "the agent of n1 went away";
  CHECK(Reasons(evidence) == std::vector{Reason::kInterrupted});
}

TEST_CASE("I7: compression needs an accuracy result that says PASS", "[I7][K30]") {
  Evidence evidence;
  evidence.accuracy.compression = "fp8";
  CHECK(Reasons(evidence) == std::vector{Reason::kNoAccuracy});
  for (const char* verdict : {"INVALID", "FAIL", "UNDERPOWERED"}) {
    evidence.accuracy = {"fp8", verdict, "quality/cand", "delta -0.120 over 200 questions"};
    CHECK(Reasons(evidence) == std::vector{Reason::kNoAccuracy});
    CHECK_THAT(Judge(evidence).reasons.at(0).detail, Catch::Contains(verdict) && Catch::Contains("-0.120"));
  }
  evidence.accuracy.verdict = "PASS";
  CHECK(Judge(evidence).valid());
  CHECK_THAT(Judge(evidence).notes.at(0), Catch::Contains("PASS") && Catch::Contains("quality/cand"));
  evidence.accuracy = {"none", "", "", ""};
  CHECK(Judge(evidence).valid());
  CHECK(Judge(evidence).notes.empty());
}

TEST_CASE("publication: tools recorded, names confirmed, switches read", "[I9][F4][G8]") {
  PublicationFacts facts;
  facts.valid = true;
  facts.machines = {{"n1", "", 3}};
  CHECK(HeldBack(facts).empty());
  facts.machines.push_back({"n2", "", 0});
  CHECK_THAT(HeldBack(facts).at(0), Catch::Contains("n2 recorded no tool"));
  facts.machines.pop_back();
  facts.series = {{"prompt token sources", "sglang", "0.5.23", "sglang:cached_tokens_total", false}};
  CHECK_THAT(HeldBack(facts).at(0), Catch::Contains("not confirmed on a live sglang 0.5.23"));
  facts.series[0].confirmed = true;
  facts.switches = {{"leaf1", true, false, true, false, false, {}}};
  CHECK_THAT(HeldBack(facts).at(0), Catch::Contains("was not read"));
  for (auto change : {0, 1, 2, 3}) {
    auto one = facts;
    auto& device = one.switches[0];
    if (change == 0) device.ignored = true;
    if (change == 1) device.readable = false;
    if (change == 2) device.found_after_end = true;
    if (change == 3) device.cabled = false;
    CHECK(HeldBack(one).empty());
  }
  facts.switches[0].read = true;
  facts.switches[0].unconfirmed_fields = {"queue/ecn-marked"};
  CHECK_THAT(HeldBack(facts).at(0), Catch::Contains("not confirmed"));
  facts.switches.clear();
  facts.unread = {"repeat 2: engine-n1 (the last reading is from 3s into it)"};
  REQUIRE(HeldBack(facts).size() == 1);
  CHECK_THAT(HeldBack(facts)[0], Catch::Contains("not every engine was read") &&
                                     Catch::Contains("repeat 2: engine-n1 (the last reading"));
  facts.unread.clear();
  facts.unjudged = {"repeat 2: n0 to n1: rdma bytes not measured"};
  REQUIRE(HeldBack(facts).size() == 1);
  CHECK_THAT(HeldBack(facts)[0], Catch::Contains("could not be judged: repeat 2: n0 to n1"));
  facts.simulated = true;
  CHECK_THAT(HeldBack(facts).at(0), Catch::Contains("simulated"));
  PublicationFacts lost;  // whoever measured is not known
  lost.valid = true;
  CHECK_THAT(HeldBack(lost).at(0), Catch::Contains("no machine is recorded"));
}

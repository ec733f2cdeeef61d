// Every verdict, loss tag and reason for INVALID by name, each from one change to a comparison that passes;
// and what is said about the cause of a reason, which the counters may not contradict.
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <set>

#include "common/quality/engagement.h"
#include "common/quality/report_text.h"
#include "common/quality/scoring.h"
#include "tests/unit/quality/one_plan.h"

namespace poolmark::quality {
namespace {

using test::OnePlan;
using Change = std::function<void(OnePlan&)>;

std::string Code(const std::string& reason) {
  return reason.substr(0, reason.find(':'));
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

void SayFirst(OnePlan& p, size_t questions, const std::string& answer) {
  for (size_t i = 0; i < questions; ++i) p.Say(i, answer);
}

}  // namespace

TEST_CASE("every verdict and every reason for INVALID, by name", "[K23][K24][K25][K26]") {
  struct Case {
    const char* name;
    const char* scenario;
    Change change;
    Verdict verdict;
    std::set<std::string> reasons;
    const char* words;  // in the reason
  };
  const Case cases[] = {
      {"equal answers", "independent", [](OnePlan&) {}, Verdict::kPass, {}, ""},
      {"one loss within the tolerance",
       "independent",
       [](OnePlan& p) {
         p.Say(3, "Bridgeport");
         p.settings.tolerance = 0.06;
       },
       Verdict::kPass,
       {},
       ""},
      {"many losses",
       "independent",
       [](OnePlan& p) { SayFirst(p, 12, "Bridgeport"); },
       Verdict::kFail,
       {},
       ""},
      {"a much better candidate",
       "independent",
       [](OnePlan& p) {
         for (size_t i = 0; i < 12; ++i) {
           p.directory.passes[0].answers[i].answer = "Bridgeport";
           p.directory.passes[1].answers[i].answer = "Bridgeport";
         }
       },
       Verdict::kFail,
       {},
       ""},
      {"a few losses",
       "independent",
       [](OnePlan& p) { SayFirst(p, 2, "Bridgeport"); },
       Verdict::kUnderpowered,
       {},
       ""},
      {"a store request failed",
       "independent",
       [](OnePlan& p) { p.candidate().arm.store_failures = 1; },
       Verdict::kInvalid,
       {"store_failures"},
       "1 of 40 store requests of candidate failed"},
      {"too little was blended",
       "independent",
       [](OnePlan& p) {
         p.Count({1000, 100, 200, 0, 0, 0});
       },
       Verdict::kInvalid,
       {"not_engaged"},
       "0.2 over the pass and 0.2 in its lowest window, at least 0.3"},
      {"too little was reused",
       "concatenated",
       [](OnePlan& p) {
         p.Count({1000, 100, 500, 0, 0, 0});
       },
       Verdict::kInvalid,
       {"not_engaged"},
       "reused over expected tokens is 0.75"},
      {"three of forty unrated",
       "independent",
       [](OnePlan& p) { p.Judge(3); },
       Verdict::kInvalid,
       {"unscored"},
       "3 of 40"},
      {"two of forty unrated", "independent", [](OnePlan& p) { p.Judge(2); }, Verdict::kPass, {}, ""},
      {"an insane judge",
       "independent",
       [](OnePlan& p) {
         p.Judge(40);
         p.judge->insane = "the wrong answer got as much as the right one";
       },
       Verdict::kInvalid,
       {"judge_sanity", "unscored"},
       "as much as the right one"},
      {"a counter of the pass fell",
       "independent",
       [](OnePlan& p) { p.candidate().arm.counters->stale_chunks = -1; },
       Verdict::kInvalid,
       {"counter_reset"},
       "stale_chunks fell during the pass"},
      {"a counter of a question fell",
       "independent",
       [](OnePlan& p) { p.candidate().answers[17].counters->fingerprints_registered = -5; },
       Verdict::kInvalid,
       {"counter_reset"},
       "fingerprints_registered fell at q17"},
  };
  std::set<std::string> reasons;
  std::set<Verdict> verdicts;
  for (const Case& c : cases) {
    DYNAMIC_SECTION(c.name) {
      OnePlan p(c.scenario);
      c.change(p);
      const Analysis analysis = p.Analyze();
      const Summary& s = analysis.summary;
      INFO(Joined(s.invalid_reasons));
      CHECK(s.verdict == c.verdict);
      std::set<std::string> codes;
      for (const std::string& reason : s.invalid_reasons) codes.insert(Code(reason));
      CHECK(codes == c.reasons);
      CHECK_THAT(Joined(s.invalid_reasons), Catch::Contains(c.words));
      CHECK((s.samples_needed > 40) == (c.verdict == Verdict::kUnderpowered));
      CHECK(SummaryText(analysis).starts_with(std::string(VerdictName(c.verdict)) + ": "));
    }
    reasons.insert(c.reasons.begin(), c.reasons.end());
    verdicts.insert(c.verdict);
  }
  CHECK(verdicts.size() == 4);
  CHECK(reasons ==
        std::set<std::string>{"store_failures", "not_engaged", "unscored", "judge_sanity", "counter_reset"});
}

TEST_CASE("every loss tag, by name", "[K21]") {
  struct Case {
    const char* answer;
    const char* tag;
  };
  const Case cases[] = {
      {"River0", "none"},
      {"the river0.", "none"},
      {"", "empty"},
      {"The passages do not mention it", "abstention"},
      {"unknown", "abstention"},
      {"Bridgeport", "wrong_value"},  // another text of a passage
      {"town0", "wrong_value"},       // of the question
      {"Atlantis", "wording"},
      {"Riv", "wording"},  // no whole word of the prompt
  };
  std::set<std::string> seen = {"candidate_higher"};
  for (const Case& c : cases) {
    OnePlan p;
    p.Say(0, c.answer);
    CAPTURE(c.answer);
    CHECK(p.Analyze().rows[0].loss_tag == c.tag);
    CHECK(p.Analyze().summary.loss_tags.size() == (std::string(c.tag) == "none" ? 1 : 2));
    seen.insert(c.tag);
  }
  CHECK(seen ==
        std::set<std::string>{"none", "candidate_higher", "empty", "abstention", "wrong_value", "wording"});
  OnePlan p;
  p.directory.passes[0].answers[0].answer = "Atlantis";
  CHECK(p.Analyze().rows[0].loss_tag == "candidate_higher");
  p.Judge(1);
  CHECK_FALSE(p.Analyze().rows[0].loss_tag.has_value());
}

TEST_CASE("the cause of a candidate that was not engaged is what its counters say", "[K25]") {
  struct Case {
    const char* name;
    const char* scenario;
    Change change;
    std::vector<std::string> says;
    std::vector<std::string> never;
  };
  const Case cases[] = {
      {"nothing is found",
       "independent",
       [](OnePlan& p) {
         p.Count({1000, 0, 0, 0, 0, 0});
       },
       {"0 were blended, 0 came as exact prefixes and 1 were not found: chunk size or padding may not fit "
        "the server"},
       {"gone", "too small", "before the pass"}},
      {"whole prompts were known",
       "independent",
       [](OnePlan& p) {
         p.Count({1000, 990, 0, 0, 0, 0});
       },
       {"0.99 came as exact prefixes", "may have held whole prompts before the pass"},
       {"chunk size", "gone", "too small"}},
      {"prefixes past a load failure count too",
       "independent",
       [](OnePlan& p) {
         p.Count({1000, 100, 0, 800, 0, 0});
       },
       {"0.9 came as exact prefixes", "may have held whole prompts"},
       {"chunk size"}},
      {"the cache evicts",
       "independent",
       [](OnePlan& p) {
         p.Count({1000, 100, 100, 0, 8, 0});
       },
       {"320 chunks were matched but their KV was gone: the cache may be too small"},
       {"chunk size", "before the pass"}},
      {"a few stale chunks explain nothing",
       "independent",
       [](OnePlan& p) {
         p.Count({1000, 100, 100, 0, 1, 0});
       },
       {"40 chunks were matched", "chunk size or padding may not fit"},
       {"too small"}},
      {"one window",
       "independent",
       [](OnePlan& p) {
         p.Count({1000, 100, 0, 0, 9, 0}, 20, 30);
       },
       {"0.6 over the pass and 0 in its lowest window",
        "in q20 to q29, of the looked-up tokens 0 were blended", "90 chunks were matched", "too small"},
       {"chunk size"}},
      {"one window without look-ups",
       "independent",
       [](OnePlan& p) {
         p.Count({0, 0, 0, 0, 0, 0}, 10, 20);
       },
       {"in q10 to q19 no look-up was counted"},
       {"chunk size", "not found"}},
      {"concatenated, nothing is found",
       "concatenated",
       [](OnePlan& p) {
         p.Count({1000, 0, 100, 0, 0, 0});
       },
       {"reused over expected tokens is 0.125", "0.9 were not found: chunk size may not fit the server"},
       {"padding", "before the pass"}},
      {"concatenated, prefixes are reuse",
       "concatenated",
       [](OnePlan& p) {
         p.Count({1000, 600, 0, 0, 0, 0});
       },
       {"reused over expected tokens is 0.75"},
       {"before the pass"}},
      {"another server's page",
       "independent",
       [](OnePlan& p) {
         p.Count({0, 0, 0, 0, 0, 0});
       },
       {"counted no look-up during the pass"},
       {"chunk size"}},
      {"a restart leaves no shares",
       "independent",
       [](OnePlan& p) {
         p.Count({1000, 100, 0, 0, 0, 0});
         p.candidate().arm.counters->prefix_hit_tokens = -4000;
       },
       {"counter_reset"},
       {"exact prefixes", "chunk size"}},
  };
  for (const Case& c : cases) {
    DYNAMIC_SECTION(c.name) {
      OnePlan p(c.scenario);
      c.change(p);
      const std::string reasons = Joined(p.Analyze().summary.invalid_reasons);
      for (const std::string& words : c.says) CHECK_THAT(reasons, Catch::Contains(words));
      for (const std::string& words : c.never) CHECK_THAT(reasons, !Catch::Contains(words));
    }
  }
}

TEST_CASE("a PASS without any difference says how much the questions still leave open", "[K24]") {
  OnePlan p;
  CHECK_THAT(Joined(p.Analyze().warnings),
             Catch::Contains("no difference in 40 questions still leaves a loss rate of up to 7.2%"));
  p.settings.tolerance = 0.08;
  CHECK_THAT(Joined(p.Analyze().warnings), !Catch::Contains("no difference"));
  CHECK_THAT(Joined(OnePlan("independent", 60).Analyze().warnings), !Catch::Contains("no difference"));
  p.Say(0, "Bridgeport");
  p.settings.tolerance = 0.06;
  CHECK_THAT(Joined(p.Analyze().warnings), !Catch::Contains("no difference"));
}

TEST_CASE("a cache that knew the plan before the pass is told from the chunks that the stores registered") {
  OnePlan p;
  CHECK_FALSE(WarmStart(p.directory.plan, 40).has_value());
  CHECK_FALSE(WarmStart(p.directory.plan, 81).has_value());
  CHECK_THAT(*WarmStart(p.directory.plan, 0), Catch::Contains("registered no new chunk"));
  CHECK_THAT(*WarmStart(p.directory.plan, 17),
             Catch::Contains("registered 17 new chunks, a cold cache at least 40"));
  // Equal passages are stored once, whatever asks for them; units are as many as store requests.
  for (Sample& sample : p.directory.plan.samples) sample.passages[0].passage_id = "same";
  CHECK_FALSE(WarmStart(p.directory.plan, 1).has_value());
  p.directory.plan.scenario = "concatenated";
  CHECK(WarmStart(p.directory.plan, 39).has_value());
  p.directory.plan.store_requests.clear();
  CHECK_FALSE(WarmStart(p.directory.plan, 0).has_value());

  OnePlan warned;
  warned.candidate().requests.emplace();
  auto warnings = [&] { return Joined(warned.Analyze().warnings); };
  CHECK_THAT(warnings(), !Catch::Contains("registered"));  // was not read
  warned.candidate().requests->chunks_registered_by_stores = 3;
  CHECK_THAT(warnings(), Catch::Contains("candidate: the store requests registered 3 new chunks"));
  CHECK_THAT(SummaryText(warned.Analyze()),
             Catch::Contains("warning: candidate: the store requests registered 3"));
  CHECK_THAT(EncodeStatistics(warned.Analyze()).value(), Catch::Contains("registered 3 new chunks"));
  warned.candidate().arm.store_failures = 2;  // what failed registered nothing
  CHECK_THAT(warnings(), !Catch::Contains("registered"));
}

TEST_CASE("runs that cannot be compared are told what differs, and no order of keys") {
  Summary a, b;
  a.run_fingerprint = "aa";
  b.run_fingerprint = "bb";
  a.settings_json = R"({"seed":42,"template_kwargs":{"x":1,"y":2}})";
  b.settings_json = R"({"seed":7,"template_kwargs":{"y":2,"x":1}})";
  CHECK(WhyNotComparable(a, b, nullptr, nullptr) == std::vector<std::string>{"seed: 42 and 7"});
}

}  // namespace poolmark::quality

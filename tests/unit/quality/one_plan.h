// A small comparison in memory for tests of the verdict: 40 questions about towns, two reference passes and a
// candidate that answer all of them rightly, blend counters of an engaged candidate. Tests change one thing.
#pragma once
#include <string>

#include "common/quality/analyze.h"
#include "common/quality/digests.h"

namespace poolmark::test {

inline quality::Pass PassOf(const std::string& label, const std::string& role, int64_t run_index,
                            const quality::Plan& plan) {
  quality::Pass pass;
  pass.arm.plan_fingerprint = plan.plan_fingerprint;
  pass.arm.label = label;
  pass.arm.role = role;
  pass.arm.run_index = run_index;
  pass.arm.num_questions = static_cast<int64_t>(plan.samples.size());
  for (const quality::Sample& sample : plan.samples) {
    quality::Answer answer;
    answer.qid = sample.qid;
    answer.request_id = sample.request_id;
    answer.successful = true;
    answer.answer = sample.answers[0];
    answer.response = "<answer>" + answer.answer + "</answer>";
    answer.ttft_seconds = 0.1;
    pass.answers.push_back(answer);
  }
  return pass;
}

struct OnePlan {
  explicit OnePlan(const std::string& scenario = "independent", int questions = 40) {
    quality::Plan& plan = directory.plan;
    plan.settings_json = "{\"model\": \"m\"}";
    plan.plan_fingerprint = plan.prompts_digest = std::string(16, 'a');
    plan.scenario = scenario;
    plan.chunk_size = 100;
    for (int i = 0; i < questions; ++i) {
      const std::string n = std::to_string(i);
      quality::Sample sample;
      sample.qid = "s" + n;
      sample.request_id = "q" + n;
      sample.evidence_source = "dataset";
      sample.question = "Which river passes Town" + n + "?";
      sample.answers = {"River" + n};
      sample.documents = {"The River" + n + " passes Town" + n + ", far from Bridgeport."};
      sample.expected_reused_tokens = 800;
      sample.passages.push_back({"p" + n, "alone", "store" + n, 0, 0, true, {}, 0});
      plan.samples.push_back(sample);
      plan.store_requests.push_back({"store" + n, {}});
    }
    directory.path = "out";
    directory.passes = {PassOf("reference_1", "reference", 0, plan),
                        PassOf("reference_2", "reference", 1, plan),
                        PassOf("candidate", "candidate", 0, plan)};
    Count({1000, 100, 800, 0, 0, 0});
  }
  quality::Pass& candidate() { return directory.passes.back(); }
  // The candidate's counters of each of the questions [begin, end), and so of the pass.
  void Count(const quality::Counters& each, size_t begin = 0, size_t end = 1000) {
    quality::Pass& pass = candidate();
    pass.arm.engagement_measured = true;
    pass.arm.blend_metrics_url = "http://gpu1:9090/metrics";
    pass.arm.counters.emplace();
    for (size_t i = 0; i < pass.answers.size(); ++i) {
      if (i >= begin && i < end) pass.answers[i].counters = each;
      for (const auto& [name, member] : quality::kCounterFields)
        (*pass.arm.counters).*member += (*pass.answers[i].counters).*member;
    }
  }
  void Say(size_t question, const std::string& answer) {
    candidate().answers[question].answer = answer;
    candidate().answers[question].response = answer.empty() ? "" : "<answer>" + answer + "</answer>";
  }
  // Every answer rated by how it matches, but for the first `unrated` questions.
  void Judge(size_t unrated) {
    settings.metric = "judge";
    settings.judge_model = "j";
    judge.emplace();
    for (size_t i = unrated; i < directory.plan.samples.size(); ++i) {
      const quality::Sample& sample = directory.plan.samples[i];
      for (const quality::Pass& pass : directory.passes) {
        const std::string& answer = pass.answers[i].answer;
        const double rating = answer == sample.answers[0] ? 1 : 0;
        judge->by_key[quality::JudgeKey("j", sample.question, answer, sample.answers[0])] = {rating, rating,
                                                                                             std::nullopt};
      }
    }
  }
  quality::Analysis Analyze() const {
    return quality::Analyze(directory, settings, judge ? &*judge : nullptr).value();
  }

  quality::LoadedDirectory directory;
  quality::VerdictSettings settings;
  std::optional<quality::JudgeTable> judge;
};

}  // namespace poolmark::test

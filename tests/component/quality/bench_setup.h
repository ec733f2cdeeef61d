// A directory, a small data set and a run that never really sleeps, for the runner's tests.
#pragma once
#include <catch2/catch.hpp>
#include <stop_token>
#include <string>

#include "common/base/files.h"
#include "common/http/stoppable_client.h"
#include "common/quality/runner.h"
#include "tests/component/quality/fake_engine.h"
#include "tests/support/temp_dir.h"

namespace poolmark::test {

class QualityBench {
 public:
  static constexpr int kQuestions = 24;

  QualityBench() {
    std::string records = "[";
    for (int i = 0; i < kQuestions; ++i) {
      if (i > 0) records += ",\n";
      records += "{\"_id\": \"s" + std::to_string(i) + "\", \"question\": \"" + Question(i) +
                 "\", \"answer\": \"" + Gold(Question(i)) + "\", \"context\": [" + Town(i) + ", " +
                 Town((i + 5) % kQuestions) +
                 ", [\"Notes\", [\"The mayor of Rivertown likes bread.\", \" So do others.\"]]]";
      if (i % 2 == 0) records += ", \"supporting_facts\": [[\"Town" + std::to_string(i) + "\", 0]]";
      records += "}";
    }
    dataset_ = directory_ / "dataset.json";
    if (!AtomicWriteFile(dataset_, records + "]").ok()) throw std::runtime_error("no data set");
    options.out = directory_ / "out";
    options.settings.model = "m";
    options.settings.dataset = dataset_;
    options.settings.scenario = "independent";
    options.settings.chunk_size = 16;
    options.settings.max_output_tokens = 64;
    options.settings.seed = 42;
    options.settings.filler = "dots";
  }

  static std::string Question(int i) { return "In which country is Town" + std::to_string(i) + "?"; }
  static std::string Gold(const std::string& question) {
    size_t at = question.find("Town");
    return "Country" + question.substr(at + 4, question.size() - at - 5);
  }
  const std::string& out() const { return options.out; }
  const TempDir& directory() const { return directory_; }

  Result<quality::RunReport> TryRun() {
    const std::unique_ptr<http::Client> client = http::MakeStoppableClient(stop_.get_token());
    quality::RunContext context;
    context.client = client.get();
    context.clock = &RealClock();
    context.sleep = [this](Nanoseconds wait) { slept_ += wait; };
    context.stop = stop_.get_token();
    context.note = [this](const std::string& note) { notes += note + "\n"; };
    return quality::RunArms(options, context);
  }
  quality::RunReport Run() {
    Result<quality::RunReport> report = TryRun();
    INFO(report.status().message() << "\n" << notes);
    REQUIRE(report.ok());
    return *report;
  }
  void Interrupt() { stop_.request_stop(); }
  void Continue() { stop_ = {}; }
  Nanoseconds slept() const { return slept_; }

  quality::RunOptions options;
  std::string notes;

 private:
  static std::string Town(int i) {
    std::string n = std::to_string(i);
    return "[\"Town" + n + "\", [\"Town" + n + " is a town in Country" + n + ".\", \" It was founded in 1" +
           std::to_string(200 + i) + ".\"]]";
  }

  TempDir directory_;
  std::string dataset_;
  std::stop_source stop_;
  Nanoseconds slept_{0};
};

// Gives every question its gold.
inline std::string RightAnswer(const std::string& question, int) {
  return "Let me see. <answer>" + QualityBench::Gold(question) + "</answer>";
}
inline FakeEngineOptions Answering() {
  FakeEngineOptions options;
  options.answer = RightAnswer;
  return options;
}

// A bench with one engine for both arms, whose passes are there.
struct RunOnce {
  RunOnce() : engine(Answering()) {
    bench.options.reference_url = engine.url();
    bench.options.candidate_url = engine.url();
    bench.Run();
  }
  QualityBench bench;
  FakeEngine engine;
};

// A bench with an engine for the reference and one for the candidate, whose counters are captured.
struct TwoArms {
  explicit TwoArms(const FakeEngineOptions& candidate_options = Answering())
      : reference(Answering()), candidate(candidate_options) {
    bench.options.reference_url = reference.url();
    bench.options.candidate_url = candidate.url();
    bench.options.blend_metrics_url = candidate.metrics_url();
  }
  QualityBench bench;
  FakeEngine reference;
  FakeEngine candidate;
};

}  // namespace poolmark::test

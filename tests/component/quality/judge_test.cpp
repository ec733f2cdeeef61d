// The judge: prompts, ratings, tries, cache, sanity, and the recorded directories that need one.
#include "common/quality/judge.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <latch>
#include <mutex>
#include <set>

#include "common/http/server.h"
#include "common/http/stoppable_client.h"
#include "common/quality/accuracy.h"
#include "common/quality/codec.h"
#include "common/quality/digests.h"
#include "tests/component/quality/bench_setup.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/quality/quality_data.h"

namespace poolmark::quality {
namespace {

// Not the published texts: enough to tell which prompt it is and what stands in it.
const JudgeTemplates kTemplates{"1\x1f{query}\x1f{sentence_inference}\x1f{sentence_true}\x1f{answer0}",
                                "2\x1f{query}\x1f{sentence_inference}\x1f{sentence_true}\x1f{answer0}"};

struct Asked {
  bool answer_first = false;
  std::string question, answer, reference;
  std::string first_slot;  // what {answer0} names
};

Asked ParsePrompt(const std::string& prompt) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = prompt.find('\x1f', begin)) != std::string::npos; begin = end + 1)
    parts.push_back(prompt.substr(begin, end - begin));
  parts.push_back(prompt.substr(begin));
  bool first = parts[0] == "1";
  return {first, parts[1], first ? parts[2] : parts[3], first ? parts[3] : parts[2], parts[4]};
}

// Replies by a rule; counts the calls.
class FakeJudge {
 public:
  using Rule = std::function<std::string(const Asked&)>;  // "" closes the connection without a word
  explicit FakeJudge(Rule rule) : rule_(std::move(rule)) {
    auto handler = [this](const http::ServerRequest& request, std::shared_ptr<http::ResponseWriter> writer) {
      ++calls_;
      Json body = Json::parse(request.body);
      std::string reply;
      {
        std::lock_guard lock(mutex_);
        temperatures_.insert(body["temperature"].get<double>());
        const Asked asked = ParsePrompt(body["messages"][0]["content"].get<std::string>());
        misplaced_ += asked.first_slot != (asked.answer_first ? "User Answer" : "Reference Answer");
        reply = rule_(asked);
      }
      if (reply.empty()) return writer->Abort();
      if (reply == "500") return writer->Send(500, "text/plain", "no");
      writer->Send(200, "application/json",
                   Json({{"choices", {{{"message", {{"role", "assistant"}, {"content", reply}}}}}}}).dump());
    };
    http::ServerOptions options;
    options.threads = 2;
    server_ = http::Server::Start(options, handler).value();
  }
  ~FakeJudge() {
    server_->Stop();
    CHECK(misplaced_ == 0);  // the first slot after the question holds what {answer0} names
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  int calls() const { return calls_; }
  const std::set<double>& temperatures() const { return temperatures_; }

 private:
  Rule rule_;
  std::atomic<int> calls_{0};
  std::mutex mutex_;
  std::set<double> temperatures_;
  int misplaced_ = 0;
  std::unique_ptr<http::Server> server_;
};

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The rule that the recorded directories were made with.
std::string RecordedRule(const Asked& a) {
  auto pick = [&](const char* first, const char* second) {
    return std::string(a.answer_first ? first : second);
  };
  std::string answer = Lower(a.answer);
  std::string reference = Lower(a.reference);
  if (a.answer.find("NORATING") != a.answer.npos) return pick("I cannot rate", "no idea");
  if (a.answer.find("ODD") != a.answer.npos) return pick("1", "2");
  if (a.answer.find("ONLYSECOND") != a.answer.npos) return pick("no digits here", "4");
  if (answer == reference) return pick("4", "Rating: 4");
  if (answer.find(reference) != answer.npos) return pick("4", "2");
  if (reference.find(answer) != reference.npos) return pick("2", "2");
  return "0";
}

class JudgeBench {
 public:
  JudgeBench() : client_(http::MakeStoppableClient(stop.get_token())) {}
  JudgeContext context() {
    return {client_.get(), [](Nanoseconds) {}, stop.get_token(), nullptr};
  }
  std::stop_source stop;

 private:
  std::unique_ptr<http::Client> client_;
};

// A directory with two references and a candidate that gives `answers` where it differs from the gold.
LoadedDirectory Loaded(const std::map<int, std::string>& answers) {
  LoadedDirectory out;
  for (int i = 0; i < 10; ++i) {
    Sample s;
    s.qid = "s" + std::to_string(i);
    s.question = "Question " + std::to_string(i) + "?";
    s.answers = {"Gold " + std::to_string(i)};
    s.evidence_source = "none";
    out.plan.samples.push_back(s);
  }
  out.plan.settings_json = "{}";
  out.plan.scenario = "independent";
  for (const char* label : {"reference_1", "candidate"}) {
    Pass pass;
    pass.arm.label = label;
    pass.arm.role = label == std::string("candidate") ? "candidate" : "reference";
    for (int i = 0; i < 10; ++i) {
      Answer a;
      a.qid = out.plan.samples[static_cast<size_t>(i)].qid;
      auto given = answers.find(i);
      a.answer = pass.arm.role == "candidate" && given != answers.end() ? given->second
                                                                        : "Gold " + std::to_string(i);
      pass.answers.push_back(a);
    }
    out.passes.push_back(std::move(pass));
  }
  return out;
}

}  // namespace

TEST_CASE("ratings are read as ragas reads them", "[K19][recorded]") {
  auto vectors = test::Vectors("judge_parse");
  if (!vectors) return;
  for (const Json& c : vectors->at("cases")) {
    INFO(c.dump());
    std::optional<double> want =
        c.at("rating").is_null() ? std::nullopt : std::optional(c.at("rating").get<double>());
    CHECK(ParseRating(c.at("reply").get<std::string>()) == want);
  }
}

TEST_CASE("recorded directories with a judge give their rows, summary and cache lines",
          "[K18][K19][K20][recorded]") {
  auto data = test::QualityData();
  if (!data) return;
  FakeJudge judge(RecordedRule);
  const std::vector<std::string> names = ListDir(*data).value();
  int cases = 0;
  for (const std::string& name : names) {
    std::string dir = *data + "/" + name;
    if (!FileExists(dir + "/expected/summary.json")) continue;
    Json case_file = test::LoadJson(dir + "/case.json");
    const Json& options = case_file.at("analyze_options");
    if (options.value("metric", "") != "judge") continue;
    ++cases;
    INFO(name);
    test::TempDir temp;
    const std::vector<std::string> inputs = ListDir(dir + "/input").value();
    for (const std::string& file : inputs)
      REQUIRE(AtomicWriteFile(temp / file, ReadFile(dir + "/input/" + file).value()).ok());
    std::string before =
        FileExists(temp / "judge_cache.jsonl") ? ReadFile(temp / "judge_cache.jsonl").value() : "";
    VerdictSettings settings;
    settings.metric = "judge";
    settings.judge_model = options.at("judge_model").get<std::string>();
    settings.tolerance = options.value("tolerance", 0.05);
    JudgeBench bench;
    LoadedDirectory loaded = Directory(temp.path()).Load(false).value();
    auto cache = JudgeCache::Open(temp / "judge_cache.jsonl").value();
    Result<JudgeTable> table =
        RateAnswers(loaded, {judge.url(), *settings.judge_model, "", 4, std::chrono::seconds(10)}, kTemplates,
                    cache.get(), bench.context());
    INFO(table.status().message());
    REQUIRE(table.ok());
    Result<Analysis> analysis = Analyze(loaded, settings, &*table);
    REQUIRE(analysis.ok());
    std::vector<Json> want = ParseJsonLines(*ReadFile(dir + "/expected/rows.jsonl"), "").value();
    std::vector<Json> have = ParseJsonLines(EncodeRows(analysis->rows).value(), "").value();
    CHECK(test::Difference(Json(want), Json(have)) == "");
    CHECK(VerdictName(analysis->summary.verdict) == case_file.at("verdict").get<std::string>());
    // What was there stays; what is new is the expected set of lines.
    std::string after = ReadFile(temp / "judge_cache.jsonl").value();
    REQUIRE(after.starts_with(before));
    std::set<std::string> new_lines, want_lines;
    const std::vector<Json> added = ParseJsonLines(after.substr(before.size()), "").value();
    for (const Json& line : added) new_lines.insert(line.dump());
    const std::vector<Json> expected =
        ParseJsonLines(ReadFile(dir + "/expected/judge_cache_new.jsonl").value(), "").value();
    for (const Json& line : expected) want_lines.insert(line.dump());
    CHECK(new_lines == want_lines);
    // Again: everything that could be rated comes from the cache.
    int unrated = 0;
    for (const Row& row : analysis->rows) {
      std::set<std::string> answers;
      for (size_t i = 0; i < row.scores.size(); ++i) {
        if (!row.scores[i].second) answers.insert(row.answers[i].second);
      }
      unrated += static_cast<int>(answers.size());
    }
    int calls = judge.calls();
    cache = JudgeCache::Open(temp / "judge_cache.jsonl").value();
    REQUIRE(RateAnswers(loaded, {judge.url(), *settings.judge_model, "", 4, std::chrono::seconds(10)},
                        kTemplates, cache.get(), bench.context())
                .ok());
    CHECK(judge.calls() - calls == (unrated > 0 ? 4 + 10 * unrated : 0));
  }
  CHECK(cases > 0);
  CHECK(judge.temperatures() == std::set<double>{0.1});
}

TEST_CASE("one missing rating leaves the other, two leave null, and nulls are not cached", "[K20][K33]") {
  FakeJudge judge(RecordedRule);
  test::TempDir temp;
  JudgeBench bench;
  LoadedDirectory loaded = Loaded({{0, "NORATING"}, {1, "ONLYSECOND"}, {2, ""}, {3, "Gold 3 ODD"}});
  auto cache = JudgeCache::Open(temp / "cache").value();
  JudgeTable table = RateAnswers(loaded, {judge.url(), "j", "", 8, std::chrono::seconds(10)}, kTemplates,
                                 cache.get(), bench.context())
                         .value();
  VerdictSettings settings;
  settings.metric = "judge";
  settings.judge_model = "j";
  Analysis analysis = Analyze(loaded, settings, &table).value();
  CHECK(!analysis.rows[0].scores[1].second);
  CHECK(!analysis.rows[0].loss_tag);
  CHECK(analysis.rows[1].scores[1].second == 1.0);
  CHECK(analysis.rows[2].scores[1].second == 0.0);
  CHECK(analysis.rows[3].scores[1].second == 0.375);
  CHECK(analysis.summary.unscored_questions == 1);
  CHECK(analysis.summary.verdict == Verdict::kInvalid);               // 1 of 10 is more than 5%
  CHECK(DecodeCache(ReadFile(temp / "cache").value()).size() == 12);  // 10 golds, ONLYSECOND, ODD
  CHECK(analysis.statistics.judge_disagreements == 1);
}

TEST_CASE("a judge that cannot tell right from wrong makes the verdict INVALID and rates nothing", "[K19]") {
  std::string reply;
  SECTION("it always says 4") {
    reply = "4";
  }
  SECTION("it says nothing useful") {
    reply = "hm";
  }
  SECTION("it answers 500") {
    reply = "500";
  }
  // Also where an earlier judge rated half of the answers.
  for (const bool half : {false, true}) {
    CAPTURE(half);
    FakeJudge judge([&](const Asked&) { return reply; });
    test::TempDir temp;
    JudgeBench bench;
    LoadedDirectory loaded = Loaded({});
    auto cache = JudgeCache::Open(temp / "cache").value();
    for (size_t i = 0; half && i < 5; ++i) {
      const Sample& s = loaded.plan.samples[i];
      REQUIRE(cache->Add(JudgeKey("j", s.question, s.answers[0], s.answers[0]), {1.0, 1.0, {}}).ok());
    }
    JudgeTable table = RateAnswers(loaded, {judge.url(), "j", "", 8, std::chrono::seconds(10)}, kTemplates,
                                   cache.get(), bench.context())
                           .value();
    REQUIRE(table.insane);
    CHECK(table.by_key.empty());
    VerdictSettings settings;
    settings.metric = "judge";
    settings.judge_model = "j";
    Analysis analysis = Analyze(loaded, settings, &table).value();
    CHECK(analysis.summary.verdict == Verdict::kInvalid);
    bool named = false;
    for (const std::string& reason : analysis.summary.invalid_reasons)
      named |= reason.starts_with("judge_sanity: ");
    CHECK(named);
    CHECK(analysis.summary.unscored_questions == 10);
    CHECK(FileExists(temp / "cache") == half);
  }
}

TEST_CASE("a judge that cannot be reached is refused; one that dies leaves nulls", "[K20]") {
  JudgeBench bench;
  test::TempDir temp;
  LoadedDirectory loaded = Loaded({});
  auto cache = JudgeCache::Open(temp / "cache").value();
  Result<JudgeTable> table = RateAnswers(loaded, {"http://127.0.0.1:1", "j", "", 8, std::chrono::seconds(2)},
                                         kTemplates, cache.get(), bench.context());
  CHECK(table.status().code() == absl::StatusCode::kUnavailable);

  int asked = 0;
  FakeJudge judge([&](const Asked& a) { return ++asked > 6 ? std::string() : RecordedRule(a); });
  table = RateAnswers(loaded, {judge.url(), "j", "", 1, std::chrono::seconds(2)}, kTemplates, cache.get(),
                      bench.context());
  REQUIRE(table.ok());
  CHECK(table->by_key.size() == 1);  // 4 calls of the sanity check, 1 answer
  CHECK(DecodeCache(ReadFile(temp / "cache").value()).size() == 1);
  // The reason is told, and that the rest was given up.
  CHECK(table->unrated == 8);
  CHECK(table->not_asked > 0);
  CHECK_FALSE(table->problem.empty());
  Analysis analysis = Analyze(loaded, {.metric = "judge", .judge_model = "j"}, &*table).value();
  std::string warnings;
  for (const std::string& warning : analysis.warnings) warnings += warning + "\n";
  CHECK_THAT(warnings, Catch::Contains("was not asked about") && Catch::Contains(table->problem));
}

TEST_CASE("a stop ends the rating before a silent judge has answered; finished ratings are kept", "[K20]") {
  JudgeBench bench;
  test::TempDir temp;
  LoadedDirectory loaded = Loaded({});
  std::latch over(1);
  int asked = 0;
  FakeJudge judge([&](const Asked& a) {
    // The sanity check has four calls, a rating two: the stop comes in the third rating.
    if (++asked == 9) {
      bench.stop.request_stop();
      over.wait();
    }
    return RecordedRule(a);
  });
  auto cache = JudgeCache::Open(temp / "cache").value();
  const Result<JudgeTable> table = RateAnswers(loaded, {judge.url(), "j", "", 1, std::chrono::minutes(5)},
                                               kTemplates, cache.get(), bench.context());
  over.count_down();
  CHECK(table.status().code() == absl::StatusCode::kCancelled);
  CHECK(DecodeCache(ReadFile(temp / "cache").value()).size() == 2);
}

TEST_CASE("text put into a template is not filled again") {
  std::string prompt = AnswerFirstPrompt(kTemplates, "{sentence_true}", "{query}", "{answer0}");
  CHECK(prompt == "1\x1f{sentence_true}\x1f{query}\x1f{answer0}\x1fUser Answer");
}

TEST_CASE("templates are refused unless they are the published ones", "[K19]") {
  test::TempDir temp;
  CHECK(LoadJudgeTemplates(temp.path()).status().message().find("fetch-judge-templates") !=
        std::string::npos);
  REQUIRE(AtomicWriteFile(temp / "template_accuracy1.txt", "another").ok());
  CHECK(LoadJudgeTemplates(temp.path()).status().message().find("not the published") != std::string::npos);
}

}  // namespace poolmark::quality

#include "agent/sim/answers.h"

#include <catch2/catch.hpp>
#include <set>

#include "agent/sim/options.h"
#include "common/base/files.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::sim;

namespace {

// Ten towns, each with a passage that names its river.
std::string DatasetText(int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) {
    std::string town = "Town" + std::to_string(i);
    text += (i == 0 ? "" : ",") + std::string("{\"question\":\"Which river passes ") + town +
            "?\",\"answer\":\"River" + std::to_string(i) + "\",\"context\":[[\"" + town + "\",[\"" + town +
            " is old.\",\" The River" + std::to_string(i) + " passes it.\"]],[\"Notes\",[\"Nothing.\"]]]}";
  }
  return text + "]";
}

std::string PromptFor(int i, bool with_passage) {
  std::string number = std::to_string(i);
  std::string text = "Answer from the passages.\n";
  if (with_passage)
    text += "Passage 1:\nTown" + number + "\nTown" + number + " is old. The River" + number +
            " passes it. . . .\n";
  return text + "Question: Which river passes Town" + number + "?";
}

std::unique_ptr<Answerer> Make(AnswerOptions options, int count = 50) {
  static test::TempDir dir;
  options.dataset = dir / "data.json";
  REQUIRE(AtomicWriteFile(options.dataset, DatasetText(count)).ok());
  auto answerer = Answerer::Make(options);
  REQUIRE(answerer.ok());
  return std::move(*answerer);
}

}  // namespace

TEST_CASE("a question is answered from its passage, and only from it") {
  auto answerer = Make({});
  CHECK(answerer->For(PromptFor(3, true), false)->text.find("<answer>River3</answer>") != std::string::npos);
  CHECK(answerer->For(PromptFor(12, true), true)->text.find("<answer>River12</answer>") != std::string::npos);
  CHECK(answerer->For(PromptFor(3, false), false)->text.find("not mentioned") != std::string::npos);
  CHECK_FALSE(answerer->For("Passage 1:\nTown3 is old.", false));
  CHECK_FALSE(answerer->For("", false));
}

TEST_CASE("a set share of the answers from moved KV is spoiled, the same ones each time") {
  AnswerOptions options;
  options.spoil_share = 0.3;
  options.seed = 5;
  auto answerer = Make(options, 400);
  int spoiled = 0;
  std::set<std::string> kinds;
  for (int i = 0; i < 400; ++i) {
    std::string good = "<answer>River" + std::to_string(i) + "</answer>";
    CHECK(answerer->For(PromptFor(i, true), false)->text.find(good) != std::string::npos);
    Answer moved = *answerer->For(PromptFor(i, true), true);
    CHECK(moved.text == answerer->For(PromptFor(i, true), true)->text);
    if (moved.text.find(good) != std::string::npos) continue;
    ++spoiled;
    if (moved.cut) kinds.insert("cut");
    if (moved.text.find("not mentioned") != std::string::npos) kinds.insert("abstain");
    if (moved.text.find("<answer>") == std::string::npos) kinds.insert("empty");
    if (moved.text.find("quorlen") != std::string::npos) kinds.insert("wording");
    if (moved.text.find("<answer>Town") != std::string::npos ||
        moved.text.find("<answer>Which") != std::string::npos ||
        moved.text.find("<answer>passes") != std::string::npos) {
      kinds.insert("wrong");
    }
  }
  CHECK(spoiled > 85);
  CHECK(spoiled < 155);
  CHECK(kinds == std::set<std::string>{"abstain", "cut", "empty", "wording", "wrong"});
}

TEST_CASE("--seed decides which answers are spoiled") {
  auto spoiled_with = [](const std::string& seed) {
    std::vector<std::string> words = {"poolmark-sim", "engine", "--spoil-share", "0.3", "--seed", seed};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    auto answerer = Make(ReadCommandLine(static_cast<int>(argv.size()), argv.data()).engine.answers, 400);
    std::set<int> which;
    for (int i = 0; i < 400; ++i) {
      if (answerer->For(PromptFor(i, true), true)->text != answerer->For(PromptFor(i, true), false)->text)
        which.insert(i);
    }
    return which;
  };
  const std::set<int> one = spoiled_with("1");
  CHECK(one.size() > 85);
  CHECK(one == spoiled_with("1"));
  CHECK(one != spoiled_with("2"));
}

TEST_CASE("lossy tiers are named or refused") {
  auto read = [](std::string tiers) {
    std::vector<std::string> words = {"poolmark-sim", "engine", "--lossy-tiers", std::move(tiers)};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    return ReadCommandLine(static_cast<int>(argv.size()), argv.data());
  };
  CHECK(read("host,remote").engine.lossy_tiers == std::vector<std::string>{"host", "remote"});
  CHECK(read("gpu").exit_code != 0);
}

TEST_CASE("abstentions and cut answers come in their shares, whatever the KV") {
  AnswerOptions options;
  options.abstain_share = 1;
  CHECK(Make(options)->For(PromptFor(1, true), false)->text.find("not mentioned") != std::string::npos);
  options.abstain_share = 0;
  options.cut_share = 1;
  CHECK(Make(options)->For(PromptFor(1, true), false)->cut);
}

TEST_CASE("a bad data set is refused with its path") {
  test::TempDir dir;
  for (const char* text : {"", "{}", "[]", "[{\"question\":\"only\"}]", "[1,2"}) {
    REQUIRE(AtomicWriteFile(dir / "bad.json", text).ok());
    AnswerOptions options;
    options.dataset = dir / "bad.json";
    auto answerer = Answerer::Make(options);
    REQUIRE_FALSE(answerer.ok());
    CHECK(std::string(answerer.status().message()).find("bad.json") != std::string::npos);
  }
}

TEST_CASE("the judge rates by the labelled answers, in both orders, and lies when asked to") {
  AnswerOptions options;
  options.judge = true;
  auto judge = *Answerer::Make(options);
  std::string first =
      "Say 4 if User Answer: is right.\n### Question: Capital?\n### User Answer: Paris\n### Reference "
      "Answer: paris\n\nThe rating is:\n";
  std::string second =
      "Rate.\n### Question: Capital?\n### Reference Answer: Paris\n### User Answer: It is Paris\n\nThe "
      "rating is:\n";
  CHECK(judge->For(first, false)->text == "4");
  CHECK(judge->For(second, false)->text == "2");
  CHECK(JudgeReply("Rome", "Paris", true) == "0");
  CHECK(JudgeReply("Paris", "Paris", false) == "Rating: 4");
  CHECK(JudgeReply("Paris", "Paris, France", true) == "2");
  CHECK(JudgeReply("NORATING", "Paris", true) == "I cannot rate");
  for (const char* fault : {"lying", "garbage", "silent", "yes-man"}) {
    options.judge_fault = fault;
    auto bad = *Answerer::Make(options);
    CAPTURE(fault);
    bool same = bad->For(first, false)->text == "4";
    CHECK(same == (std::string(fault) == "yes-man"));
  }
}

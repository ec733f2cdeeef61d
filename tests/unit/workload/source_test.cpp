// Sessions and traces as the load generator sees them.
#include "common/workload/source.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/files.h"
#include "common/workload/synthetic.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::workload;
using poolmark::test::TempDir;

namespace {

std::unique_ptr<load::SessionSource> Open(const std::string& text) {
  auto source = OpenSource(*ParseJson(text));
  INFO(source.status().ToString());
  REQUIRE(source.ok());
  return std::move(*source);
}

std::vector<int64_t> Ids(load::Session& session, size_t turn) {
  std::string body;
  session.Render(turn, &body);
  return (*ParseJson(body))["prompt"].get<std::vector<int64_t>>();
}

std::string Problem(const std::string& text) {
  const auto spec = ParseWorkload(*ParseJson(text));
  return spec.ok() ? "" : std::string(spec.status().message());
}

constexpr const char* kSynthetic =
    R"({"shape":"synthetic","sessions":6,"groups":2,"prefix":64,"turns":3,"input":20,"growth":10,"output":8,"think":"2s"})";

}  // namespace

TEST_CASE("a synthetic session grows by answer and question, and its prompt has exactly the planned tokens",
          "[D3][M23]") {
  const auto source = Open(kSynthetic);
  CHECK(source->size() == 6u);
  CHECK(source->api_path() == "/v1/completions");
  const auto session = source->Open(0);
  REQUIRE(session->turns() == 3);
  CHECK(session->turn(0).input_tokens == 84);
  CHECK(session->turn(1).input_tokens == 84 + 8 + 10);
  CHECK(session->turn(1).think == std::chrono::seconds(2));
  for (size_t t = 0; t < 3; ++t)
    CHECK(Ids(*session, t).size() == static_cast<size_t>(session->turn(t).input_tokens));
  const auto first = Ids(*session, 0);
  const auto second = Ids(*session, 1);
  CHECK(std::equal(first.begin(), first.end(), second.begin()));
}

TEST_CASE("groups share their prefix and nothing else", "[D3]") {
  const auto source = Open(kSynthetic);
  const auto a = Ids(*source->Open(0), 0), b = Ids(*source->Open(1), 0), c = Ids(*source->Open(2), 0);
  CHECK(std::equal(a.begin(), a.begin() + 64, c.begin()));
  CHECK_FALSE(std::equal(a.begin() + 64, a.end(), c.begin() + 64));
  CHECK_FALSE(std::equal(a.begin(), a.begin() + 16, b.begin()));
}

TEST_CASE("the same number gives the same body in every process; another marker shares nothing", "[D3]") {
  std::string one, two, other;
  Open(kSynthetic)->Open(5)->Render(2, &one);
  Open(kSynthetic)->Open(5)->Render(2, &two);
  std::string marked = kSynthetic;
  marked.insert(1, R"("marker":"job-7/2",)");
  Open(marked)->Open(5)->Render(2, &other);
  CHECK(one == two);
  const auto a = (*ParseJson(one))["prompt"].get<std::vector<int>>(),
             b = (*ParseJson(other))["prompt"].get<std::vector<int>>();
  CHECK(a.size() == b.size());
  CHECK(a.front() != b.front());
}

TEST_CASE("every user of the shared prompt shape has the system prompt and a history of his own", "[D2]") {
  const auto source = Open(
      R"({"shape":"shared-prompt","sessions":3,"prefix":32,"history":40,"turns":2,"input":16,"output":4})");
  const auto a = Ids(*source->Open(0), 0), b = Ids(*source->Open(1), 0);
  CHECK(a.size() == 88);
  CHECK(std::equal(a.begin(), a.begin() + 32, b.begin()));
  CHECK_FALSE(std::equal(a.begin() + 32, a.begin() + 48, b.begin() + 32));
}

TEST_CASE("open loop gives each request a slot of one Poisson process at the asked rate", "[C22]") {
  const auto source =
      Open(R"({"shape":"synthetic","sessions":2000,"turns":5,"input":4,"output":1,"growth":2,"rate":50})");
  double last = 0;
  std::set<int64_t> times;
  for (uint64_t s = 0; s < 2000; ++s) {
    const auto session = source->Open(s);
    Nanoseconds before{-1};
    for (size_t t = 0; t < 5; ++t) {
      const auto at = session->turn(t).at;
      REQUIRE(at.has_value());
      CHECK(*at > before);
      before = *at;
      times.insert(at->count());
      last = std::max(last, static_cast<double>(at->count()) / 1e9);
    }
  }
  CHECK(times.size() == 10000);
  CHECK(last == Approx(200).epsilon(0.05));  // 10 000 requests at 50 a second
}

TEST_CASE("a Mooncake trace keeps its times, bursts and lengths; equal blocks give equal tokens", "[D4]") {
  TempDir dir;
  const std::string path = dir.path() + "/trace.jsonl";
  REQUIRE(AtomicWriteFile(path,
                          R"({"timestamp":3000,"input_length":1030,"output_length":5,"hash_ids":[0,1,2]})"
                          "\n"
                          R"({"timestamp":3000,"input_length":1100,"output_length":7,"hash_ids":[0,1,3]})"
                          "\n"
                          R"({"timestamp":9000,"input_length":512,"output_length":0,"hash_ids":[4]})"
                          "\n")
              .ok());
  const auto source = Open(R"({"shape":"trace","format":"mooncake","speedup":2,"file":")" + path + "\"}");
  CHECK(source->size() == 3u);
  CHECK(source->Open(0)->turn(0).at == Nanoseconds(0));
  CHECK(source->Open(1)->turn(0).at == Nanoseconds(0));
  CHECK(source->Open(2)->turn(0).at == std::chrono::seconds(3));
  CHECK(source->Open(2)->turn(0).output_tokens == 1);
  std::vector<std::string> told;
  REQUIRE(OpenSource(Json{{"shape", "trace"}, {"format", "mooncake"}, {"file", path}}, nullptr, &told).ok());
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], Catch::Contains("1 requests without output in the trace ask for 1 token"));
  const auto a = Ids(*source->Open(0), 0), b = Ids(*source->Open(1), 0), c = Ids(*source->Open(2), 0);
  CHECK(a.size() == 1030);
  CHECK(b.size() == 1100);
  CHECK(std::equal(a.begin(), a.begin() + 1024, b.begin()));
  CHECK_FALSE(std::equal(a.begin() + 1024, a.end(), b.begin() + 1024));
  CHECK_FALSE(std::equal(c.begin(), c.begin() + 16, a.begin()));
}

TEST_CASE("token scale shrinks every block and output in proportion and keeps the structure", "[D4]") {
  TempDir dir;
  const std::string path = dir.path() + "/trace.jsonl";
  REQUIRE(AtomicWriteFile(path,
                          R"({"timestamp":0,"input_length":1030,"output_length":320,"hash_ids":[0,1,2]})"
                          "\n")
              .ok());
  const auto source =
      Open(R"({"shape":"trace","format":"mooncake","token_scale":"1/32","file":")" + path + "\"}");
  CHECK(source->Open(0)->turn(0).input_tokens == 16 + 16 + 1);
  CHECK(source->Open(0)->turn(0).output_tokens == 10);
}

TEST_CASE("hostile trace files are refused with their line named", "[D4]") {
  TempDir dir;
  const std::string path = dir.path() + "/t";
  const auto error = [&](const std::string& format, const std::string& content) {
    REQUIRE(AtomicWriteFile(path, content).ok());
    const auto source = OpenSource(Json{{"shape", "trace"}, {"format", format}, {"file", path}});
    return source.ok() ? "" : std::string(source.status().message());
  };
  const std::string good = R"({"timestamp":5,"input_length":10,"output_length":1,"hash_ids":[0]})"
                           "\n";
  CHECK_THAT(error("mooncake", ""), Catch::Contains("holds no request"));
  CHECK_THAT(error("mooncake", good + "{\n"), Catch::Contains("t:2"));
  CHECK_THAT(error("mooncake", good + "[]\n"), Catch::Contains("t:2") && Catch::Contains("object"));
  CHECK_THAT(
      error("mooncake", good + R"({"timestamp":4,"input_length":10,"output_length":1,"hash_ids":[0]})"),
      Catch::Contains("t:2") && Catch::Contains("backwards"));
  CHECK_THAT(error("mooncake", R"({"timestamp":0,"output_length":1,"hash_ids":[0]})"),
             Catch::Contains("t:1") && Catch::Contains("input_length is missing"));
  CHECK_THAT(error("mooncake", R"({"timestamp":0,"input_length":-3,"output_length":1,"hash_ids":[0]})"),
             Catch::Contains("input_length is -3"));
  CHECK_THAT(error("mooncake",
                   R"({"timestamp":0,"input_length":99999999999999999999,"output_length":1,"hash_ids":[0]})"),
             Catch::Contains("input_length"));
  CHECK_THAT(error("mooncake", R"({"timestamp":"x","input_length":1,"output_length":1,"hash_ids":[0]})"),
             Catch::Contains("timestamp is \"x\""));
  CHECK_THAT(error("mooncake", R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[-1]})"),
             Catch::Contains("hash_ids holds -1"));
  CHECK_THAT(error("mooncake", R"({"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[1]})"),
             Catch::Contains("block_tokens"));
  CHECK_THAT(error("azure-2023", "a,b\n"), Catch::Contains("TIMESTAMP"));
  CHECK_THAT(error("azure-2023", "TIMESTAMP,ContextTokens,GeneratedTokens\n1408-11-16 18:17:03.9,1,1\n"),
             Catch::Contains("TIMESTAMP") && Catch::Contains("1408"));
  CHECK_THAT(error("azure-2023", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 18:17:03.9,1,1\n"),
             Catch::Contains("t:2"));
  CHECK_THAT(
      error("burstgpt",
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,x,18,490,C\n"),
      Catch::Contains("Request tokens"));
}

TEST_CASE("Azure ticks, BurstGPT failures and Qwen-Bailian chats are read as their publishers write them",
          "[D4]") {
  TempDir dir;
  const std::string path = dir.path() + "/t";
  const auto open = [&](const std::string& format, const std::string& content,
                        std::vector<std::string>* notes) {
    REQUIRE(AtomicWriteFile(path, content).ok());
    auto source = OpenSource(Json{{"shape", "trace"}, {"format", format}, {"file", path}}, nullptr, notes);
    INFO(source.status().ToString());
    REQUIRE(source.ok());
    return std::move(*source);
  };
  std::vector<std::string> notes;
  const auto azure = open("azure-2023",
                          "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 "
                          "18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319601,3180,8\r\n",
                          &notes);
  CHECK(azure->Open(1)->turn(0).at == Nanoseconds(52'000'100));
  CHECK_THAT(notes.at(0), Catch::Contains("does not say which prompts are equal"));
  const auto late = open("azure-2024",
                         "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 "
                         "00:00:00.009930+00:00,100,10\n2024-05-10 00:00:01+00:00,20,8\n",
                         &notes);
  CHECK(late->Open(1)->turn(0).at == Nanoseconds(990'070'000));
  const auto burst =
      open("burstgpt",
           "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log "
           "Type\n5,1,0.3,ChatGPT,472,18,490,Conversation log\n6,2,0.3,ChatGPT,47,0,47,Conversation log\n",
           &notes);
  CHECK(burst->size() == 1u);
  CHECK_THAT(notes.back(), Catch::Contains("1 requests that failed"));
  const auto qwen = open(
      "qwen-bailian",
      R"({"chat_id":159,"parent_chat_id":-1,"timestamp":61.114,"input_length":33,"output_length":13,"type":"text","turn":1,"hash_ids":[1089,1090,1091]})"
      "\n",
      &notes);
  CHECK(qwen->Open(0)->id() == "chat159-r0");
  CHECK(qwen->Open(0)->turn(0).input_tokens == 33);
}

TEST_CASE("load duration and warm-up belong to agentic replay alone, within their ranges", "[H1][H2][H11]") {
  const std::string agentic = R"({"shape":"agentic","file":"f")";
  CHECK(Problem(agentic + "}").empty());
  CHECK_THAT(Problem(agentic + R"(,"load_duration":"119s"})"), Catch::Contains("from 2m to 4h"));
  CHECK_THAT(Problem(agentic + R"(,"load_duration":"14401s"})"), Catch::Contains("load_duration"));
  CHECK_THAT(Problem(agentic + R"(,"warm_up":"3601s","load_duration":"4h"})"),
             Catch::Contains("from 0s to 1h"));
  CHECK_THAT(Problem(agentic + R"(,"warm_up":"60s","load_duration":"120s"})"),
             Catch::Contains("less than half"));
  CHECK(Problem(agentic + R"(,"warm_up":"59s","load_duration":"120s"})").empty());
  for (const char* shape : {"synthetic", "shared-prompt"}) {
    const std::string text = std::string(R"({"shape":")") + shape + R"(","prefix":1,"input":1,"output":1,)";
    CHECK_THAT(Problem(text + R"("load_duration":"20m"})"), Catch::Contains("only agentic replay"));
    CHECK_THAT(Problem(text + R"("warm_up":"5m"})"), Catch::Contains("only agentic replay"));
  }
  CHECK_THAT(Problem(R"({"shape":"trace","file":"f","format":"mooncake","warm_up":"5m"})"),
             Catch::Contains("only agentic replay"));
}

TEST_CASE("the measured line reads as the methodology writes it", "[H10]") {
  CHECK(MeasuredLine(*ParseWorkload(*ParseJson(R"({"shape":"agentic","file":"f"})"))) ==
        "Measured over 15 min after a 5 min warm-up");
  CHECK(MeasuredLine(*ParseWorkload(*ParseJson(kSynthetic))) == "Measured over the whole run");
  using std::chrono::seconds;
  CHECK(MeasuredLine(seconds(13910), seconds(90)) == "Measured over 13910 s after a 90 s warm-up");
  CHECK(MeasuredLine(seconds(12345), seconds(0)) == "Measured over 12345 s after a 0 s warm-up");
  CHECK(MeasuredLine(std::chrono::milliseconds(118250), seconds(60)) ==
        "Measured over 118.25 s after a 1 min warm-up");
  // Bounds of several machines' clocks.
  CHECK(MeasuredLine(Nanoseconds(899'999'999'600), Nanoseconds(300'000'000'400)) ==
        "Measured over 15 min after a 5 min warm-up");
}

TEST_CASE("sessions that begin in their middle need a warm-up for their primers", "[D1][H1]") {
  CHECK_THAT(Problem(R"({"shape":"agentic","file":"f","warm_up":0,"start":[0.5,0.75]})"),
             Catch::Contains("start: begins sessions after a primer"));
  CHECK(ParseWorkload(*ParseJson(R"({"shape":"agentic","file":"f","warm_up":1,"start":[0.5,0.75]})")).ok());
  CHECK(ParseWorkload(*ParseJson(R"({"shape":"agentic","file":"f","warm_up":0})")).ok());
}

TEST_CASE("unknown settings come with the one that was meant, all errors at once", "[D3]") {
  const std::string text = Problem(R"({"shape":"synthetic","inptu":3,"output":-1,"turns":"many"})");
  CHECK_THAT(text, Catch::Contains("did you mean 'input'"));
  CHECK_THAT(text, Catch::Contains("output"));
  CHECK_THAT(text, Catch::Contains("turns"));
}

TEST_CASE("a setting is suggested only where it is near", "[D3]") {
  const std::string rate = Problem(R"({"shape":"trace","format":"mooncake","file":"f","rate":1})");
  CHECK_THAT(rate,
             Catch::Contains("rate: is no setting of the trace shape") && !Catch::Contains("did you mean"));
  CHECK_THAT(Problem(R"({"shape":"trace","format":"mooncake","flie":"f"})"),
             Catch::Contains("did you mean 'file'"));
  CHECK_THAT(Problem(R"({"shape":"trace","format":"mooncake","file":"f","sped_up":1})"),
             Catch::Contains("did you mean 'speedup'"));
}

TEST_CASE("settings that would do nothing are refused", "[D3]") {
  for (const char* format : {"azure-2023", "azure-2024", "burstgpt"}) {
    CHECK_THAT(
        Problem(std::string(R"({"shape":"trace","file":"f","block_tokens":16,"format":")") + format + "\"}"),
        Catch::Contains("block_tokens: does nothing: traces of the format " + std::string(format)));
  }
  CHECK(Problem(R"({"shape":"trace","file":"f","block_tokens":16,"format":"mooncake"})").empty());
  for (const char* setting : {R"("time_scale":2)", R"("think_cap":"1s")"}) {
    const std::string agentic = R"({"shape":"agentic","file":"f",)" + std::string(setting);
    CHECK_THAT(Problem(agentic + R"(,"think":"none"})"), Catch::Contains("belongs to think: recorded"));
    CHECK(Problem(agentic + "}").empty());
  }
  const auto levels = [](const std::string& words) {
    const auto spec =
        ParseWorkload(*ParseJson(R"({"shape":"synthetic","input":8,"output":2,)" + words + "}"));
    REQUIRE(spec.ok());
    return std::string(CheckLevels(*spec, "w").message());
  };
  CHECK_THAT(levels(R"("users":4,"concurrency":2)"), Catch::Contains("w.users: belongs to a rate"));
  CHECK(levels(R"("users":4,"rate":2)").empty());
}

TEST_CASE("sessions whose prompts together are too many tokens are refused with their number", "[D3]") {
  const auto problem = [](int sessions) {
    return Problem(
        R"({"shape":"synthetic","prefix":500,"input":500,"turns":101,"growth":30,"output":70,"sessions":)" +
        std::to_string(sessions) + "}");
  };
  // 101 prompts of 1 000 tokens, and 100 more in each later one: 606 000 tokens a session.
  CHECK_THAT(problem(6601),
             Catch::Contains("sessions: with their turns make 4000206000 prompt tokens in all, "
                             "at most 4000000000 are planned"));
  CHECK(problem(6600).empty());
}

TEST_CASE("sessions that make more requests than can be planned are refused", "[D3]") {
  const std::string text =
      Problem(R"({"shape":"synthetic","sessions":100000000,"turns":1000,"input":1,"output":1})");
  CHECK_THAT(text, Catch::Contains("sessions: times turns is 100000000000 requests, at most 2000000"));
  CHECK(Problem(R"({"shape":"synthetic","sessions":2000000,"input":1,"output":1})").empty());
}

TEST_CASE("sessions whose histories together would not fit into memory are refused", "[D3]") {
  const auto problem = [](const char* turns, const char* levels) {
    return Problem(
        std::string(R"({"shape":"synthetic","sessions":100,"input":1,"output":1,"growth":1,"turns":)") +
        turns + "," + levels + "}");
  };
  // 2000 turns hold 2000 x 2000 parts of 16 bytes: 64 MB for one session.
  CHECK_THAT(
      problem("2000", R"("concurrency":[1,32])"),
      Catch::Contains("turns: is 2000 with 32 sessions at once") && Catch::Contains("at most 1448 turns"));
  CHECK_THAT(problem("2000", R"("rate":[0.5,40])"), Catch::Contains("with 40 sessions at once"));
  CHECK(problem("1448", R"("concurrency":[32])").empty());
  CHECK(problem("2000", R"("concurrency":[16])").empty());
  // No more than there are.
  CHECK_THAT(problem("1000", R"("concurrency":[100000])"), Catch::Contains("with 100 sessions at once"));
}

TEST_CASE("how long a load takes is told without its prompts, to the same nanosecond") {
  for (const char* level : {R"("concurrency":[3])", R"("rate":[5])"}) {
    const auto spec = ParseWorkload(*ParseJson(
        std::string(
            R"({"shape":"synthetic","sessions":7,"groups":2,"prefix":64,"turns":5,"input":32,"growth":16,"output":8,"think":"250ms",)") +
        level + "}"));
    REQUIRE(spec.ok());
    const auto workload = OpenWorkload(*spec);
    REQUIRE(workload.ok());
    for (uint64_t s = 0; s < (*workload)->sessions(); ++s) {
      const Script whole = (*workload)->Open(s), outline = (*workload)->Outline(s);
      REQUIRE(outline.turns.size() == whole.turns.size());
      CHECK(outline.id == whole.id);
      for (size_t t = 0; t < whole.turns.size(); ++t) {
        CHECK(outline.turns[t].prompt.empty());
        CHECK_FALSE(whole.turns[t].prompt.empty());
        CHECK(outline.turns[t].output_tokens == whole.turns[t].output_tokens);
        CHECK(outline.turns[t].at == whole.turns[t].at);
        CHECK(outline.turns[t].think == whole.turns[t].think);
      }
    }
  }
}

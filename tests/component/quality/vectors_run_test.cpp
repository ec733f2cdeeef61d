// The vectors of the run side: data sets, template arguments, expected reuse, the sender's results, the
// counters' page.
#include <atomic>
#include <catch2/catch.hpp>

#include "common/http/server.h"
#include "common/quality/blend_counters.h"
#include "common/quality/dataset.h"
#include "common/quality/plan.h"
#include "common/quality/reuse.h"
#include "common/quality/sender.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/quality/quality_data.h"

namespace poolmark::quality {
namespace {

using test::Vectors;

Json SampleJson(const Question& q) {
  Json out = {
      {"sample_id", q.qid}, {"documents", q.documents}, {"question", q.question}, {"answers", q.answers}};
  out["evidence_indices"] = q.evidence;
  return out;
}

// Answers every request with one scripted reply, in pieces, or fails with 503 first.
std::unique_ptr<http::Server> ScriptedServer(const Json& reply, int failures_first,
                                             std::atomic<int>* attempts, http::ServerRequest* last) {
  auto handler = [=](const http::ServerRequest& request, std::shared_ptr<http::ResponseWriter> writer) {
    *last = request;
    if ((*attempts)++ < failures_first) return writer->Send(503, "application/json", "{}");
    int status = reply[0].get<int>();
    if (status != 200) return writer->Send(status, "application/json", reply[1][0].get<std::string>());
    writer->StartStream(200, "text/event-stream");
    for (const Json& piece : reply[1]) writer->Write(piece.get<std::string>());
    writer->End();
  };
  auto server = http::Server::Start({}, handler);
  REQUIRE(server.ok());
  return *std::move(server);
}

}  // namespace

TEST_CASE("data sets are read as the released loader reads them", "[recorded]") {
  auto vectors = Vectors("dataset");
  if (!vectors) return;
  const Json& cases = vectors->at("cases");
  for (auto it = cases.begin(); it != cases.end(); ++it) {
    INFO(it.key());
    Result<Dataset> read = ParseDataset(it.value().at("records").dump(), it.key(), false, 0);
    INFO(read.status().message());
    REQUIRE(read.ok());
    Json have = Json::array();
    for (const Question& q : read->questions) have.push_back(SampleJson(q));
    CHECK(test::Difference(it.value().at("samples"), have) == "");
    // The same records as JSON Lines.
    std::string lines;
    for (const Json& record : it.value().at("records")) lines += record.dump() + "\n\n";
    CHECK(ParseDataset(lines, it.key(), true, 0)->questions.size() == read->questions.size());
  }
  for (const Json& c : vectors->at("errors")) {
    INFO(c.dump());
    bool jsonl = c.at("file").get<std::string>().ends_with(".jsonl");
    CHECK(!ParseDataset(c.at("text").get<std::string>(), "case", jsonl, 0).ok());
  }
  std::string path = *test::QualityData() + "/shared/";
  Json samples = test::LoadJson(path + "samples.json");
  std::vector<Question> read = ReadDataset(path + "dataset.json", 0)->questions;
  Json have = Json::array();
  for (const Question& q : read) {
    Json sample = SampleJson(q);
    sample["qid"] = q.qid;
    sample.erase("sample_id");
    have.push_back(std::move(sample));
  }
  CHECK(test::Difference(samples, have) == "");
  CHECK(ReadDataset(path + "dataset.json", 3)->questions.size() == 3);
}

TEST_CASE("bad data sets are refused by line, and ids must differ") {
  auto why = [](std::string_view text, bool jsonl) {
    return std::string(ParseDataset(text, "f", jsonl, 0).status().message());
  };
  CHECK(why("{\"question\": \"q\", \"answer\": \"a\", \"ctxs\": [\"x\"]}\n{not json}\n", true).find("f:2") !=
        std::string::npos);
  CHECK(
      why(R"([{"id": 1, "question": "q", "answer": "a", "ctxs": ["x"]}, {"id": "1", "question": "r", "answer": "b", "ctxs": ["y"]}])",
          false)
          .find("stands twice") != std::string::npos);
  CHECK(why("", true).find("no record") != std::string::npos);
  CHECK(ReadDataset("/nowhere/x.PARQUET", 0).status().message().find("parquet-to-jsonl") !=
        std::string::npos);
  CHECK(ResolveDataset("/nowhere/x.json").status().message().find("hotpotqa") != std::string::npos);
  // A lone surrogate, which Python writes, is text like any other.
  CHECK(ParseDataset(R"([{"question": "q \ud800", "answer": "a", "ctxs": ["x"]}])", "f", false, 0)
            ->questions[0]
            .question == "q \uFFFD");
  // So is NaN where nothing reads it; a number that is none is no gold.
  const std::vector<Question> questions =
      ParseDataset(R"([{"question": "q", "answer": "NaN", "ctxs": ["x"], "score": NaN, "low": -Infinity},
                       {"question": "r", "answer": NaN, "ctxs": ["x"]}])",
                   "f", false, 0)
          ->questions;
  REQUIRE(questions.size() == 1);
  CHECK(questions[0].answers == std::vector<std::string>{"NaN"});
}

TEST_CASE("template arguments are typed as the released command types them", "[recorded]") {
  auto vectors = Vectors("template_kwargs");
  if (!vectors) return;
  for (const Json& c : vectors->at("cases")) {
    INFO(c.dump());
    Result<TemplateKwargs> kwargs = ParseTemplateKwargs({c.at("arg").get<std::string>()});
    if (c.contains("error")) {
      CHECK(!kwargs.ok());
    } else {
      REQUIRE(kwargs.ok());
      CHECK(ParseJson(TemplateKwargsJson(*kwargs), "").value() == c.at("result"));
    }
  }
  CHECK(TemplateKwargsJson(*ParseTemplateKwargs({"a=1", "a=2"})) == "{\"a\": 2}");
  CHECK(!ParseTemplateKwargs({"a=--3"}).ok());
}

TEST_CASE("expected reuse is any stored chunk at any offset", "[K14][recorded]") {
  auto vectors = Vectors("expected_reuse");
  if (!vectors) return;
  for (const Json& c : vectors->at("cases")) {
    INFO(c.dump());
    ReuseIndex index(c.at("chunk_size").get<int64_t>());
    for (const Json& store : c.at("stores")) index.AddStore(store.get<std::vector<uint32_t>>());
    CHECK(index.Covered(c.at("request").get<std::vector<uint32_t>>()) ==
          c.at("expected_reused_tokens").get<int64_t>());
  }
}

TEST_CASE("the sender's outcomes are those of the released one", "[recorded]") {
  auto vectors = Vectors("request_sender");
  if (!vectors) return;
  std::unique_ptr<http::Client> client = http::MakeClient();
  const Json& bodies = vectors->at("request_bodies");
  size_t compared = 0;
  const Json* normal = nullptr;
  for (const Json& c : vectors->at("results")) {
    if (c.at("scenario") == "normal") normal = &c.at("server_reply");
  }
  for (const Json& c : vectors->at("results")) {
    INFO(c.at("scenario").get<std::string>());
    bool scripted = c.at("server_reply").is_array();
    std::atomic<int> attempts{0};
    http::ServerRequest request;
    auto server =
        ScriptedServer(scripted ? c.at("server_reply") : *normal, scripted ? 0 : 1, &attempts, &request);
    // This one was recorded without template arguments.
    const bool plain = c.at("scenario") == "no_usage";
    Sender sender(
        client.get(), &RealClock(), [](Nanoseconds) {}, {},
        {"127.0.0.1:" + std::to_string(server->port()) + "/", "m",
         plain ? "{}" : "{\"enable_thinking\": false, \"level\": 3}", "", std::chrono::seconds(10)});
    SendOutcome outcome = sender.Send({{"user", "h\u00e9llo"}}, 64);
    CHECK(outcome.successful == c.at("successful").get<bool>());
    CHECK(outcome.ttft_seconds.has_value() == !c.at("ttft_is_minus_one").get<bool>());
    CHECK(outcome.num_output_tokens == c.at("num_output_tokens").get<int64_t>());
    CHECK(outcome.response == c.at("response").get<std::string>());
    CHECK(attempts == c.at("http_attempts").get<int>());
    if (auto sent = bodies.find(c.at("scenario").get<std::string>()); sent != bodies.end()) {
      ++compared;
      CHECK(request.method == "POST");
      CHECK(request.path == sent->at("path").get<std::string>());
      CHECK(request.header("Authorization") == sent->at("authorization").get<std::string>());
      CHECK(request.header("Accept") == sent->at("accept").get<std::string>());
      CHECK(request.header("Content-Type") == sent->at("content_type").get<std::string>());
      CHECK(test::Difference(sent->at("body"), ParseJson(request.body, "").value()) == "");
    }
  }
  CHECK(compared == bodies.size());
  for (const Json& c : vectors->at("normalize_url"))
    CHECK(ApiBase(c.at("in").get<std::string>()) == c.at("out").get<std::string>());
}

TEST_CASE("the blend server's page gives the six counters", "[K16][recorded]") {
  auto data = test::QualityData();
  if (!data) return;
  Counters counters = ParseBlendPage(*ReadFile(*data + "/vectors/blend_metrics_page.prom")).value();
  CHECK(counters == Counters{1024, 256, 768, 0, 0, 8});
  CHECK(ParseBlendPage("# nothing yet\n").value() == Counters{});
  CHECK(ParseBlendPage(
            "lmcache_blend_lookup_stale_chunks{a=\"1\"} 2\nlmcache_blend_lookup_stale_chunks{a=\"2\"} 3\n")
            ->stale_chunks == 5);
  CHECK(!ParseBlendPage("<html><body>login</body></html>").ok());
}

}  // namespace poolmark::quality

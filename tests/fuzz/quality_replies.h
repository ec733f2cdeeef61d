// What the fuzzer of the answer-quality benchmark does with what servers answer: the judge's replies,
// /v1/models, /version, /tokenize and /apply-template, and a streamed answer. Everything asks through
// http::Client, which here gives the input's pieces in turn. Used by libFuzzer and, on its seeds and mutated
// inputs, by a test.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json.h"
#include "common/http/client.h"
#include "common/quality/judge.h"
#include "common/quality/sender.h"
#include "common/tokenizer/tokenizer.h"
#include "common/workload/tokens.h"
#include "tests/fuzz/quality_targets.h"
#include "tests/support/fake_clock.h"

namespace poolmark::test {

// Pieces of the text between bytes 0x1e, one an answer, the last one for ever. A piece that begins with '!'
// has the status 500, with '#' 404, with '~' it is no answer: the connection broke.
class ScriptedServer final : public http::Client {
 public:
  explicit ScriptedServer(std::string_view text) {
    for (;;) {
      const size_t end = text.find('\x1e');
      replies_.emplace_back(text.substr(0, end));
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
  }

  Result<http::Response> Send(const http::Request& request) override {
    std::string reply = replies_[std::min(next_, replies_.size() - 1)];
    ++next_;
    const char mark = reply.empty() ? ' ' : reply[0];
    if (mark == '~') return Unavailable(request.url.ToString(), "the connection broke");
    http::Response response;
    response.status = mark == '!' ? 500 : mark == '#' ? 404 : 200;
    response.body = mark == '!' || mark == '#' ? reply.substr(1) : std::move(reply);
    return response;
  }

  Result<http::Response> Stream(const http::Request& request, const OnData& on_data) override {
    POOLMARK_ASSIGN_OR_RETURN(http::Response response, Send(request));
    if (response.status == 200) {
      const size_t half = response.body.size() / 2;
      const std::string_view body = response.body;
      if (on_data(body.substr(0, half), Nanoseconds(1))) on_data(body.substr(half), Nanoseconds(2));
      response.body.clear();
    }
    return response;
  }

  void Again() { next_ = 0; }

 private:
  std::vector<std::string> replies_;
  size_t next_ = 0;
};

inline void MustBeText(const std::string& text) {
  Must(ValidUtf8(text) == text);
}

inline void FuzzQualityReplies(std::string_view text) {
  using namespace quality;
  ScriptedServer server(text);
  const auto no_wait = [](Nanoseconds) {};
  const std::string url = "http://127.0.0.1:1";

  // An engine before and while it is asked.
  const FakeClock clock;
  Sender::Options engine;
  engine.url = url;
  engine.model = "m";
  Sender sender(&server, &clock, no_wait, {}, engine);
  if (auto longest = sender.CheckEngine(); longest.ok()) {
    Must(!longest->has_value() || **longest > 0);
  } else {
    Must(!longest.status().message().empty());
  }
  server.Again();
  if (auto version = sender.EngineVersion()) MustBeText(*version);
  server.Again();
  const SendOutcome outcome = sender.Send({{"user", "q"}}, 8);
  Must(outcome.successful == outcome.error.empty());
  Must(outcome.num_output_tokens >= 0);
  MustBeText(outcome.response);

  // Who counts tokens: for the questions, and for the words of a load.
  server.Again();
  if (auto counts = tokenizer::OpenEndpoint(&server, url, "m", "", no_wait); counts.ok()) {
    (void)(*counts)->Encode("a b");
    (void)(*counts)->EncodeChat({{"user", "a"}}, "{}");
    Must(!(*counts)->MaxModelTokens() || *(*counts)->MaxModelTokens() > 0);
  }
  server.Again();
  const auto counter = workload::EngineCounter(
      [&](const std::string& path, const std::string& body) -> Result<std::string> {
        http::Request request;
        POOLMARK_ASSIGN_OR_RETURN(request.url, http::JoinApi(url, path));
        request.body = body;
        POOLMARK_ASSIGN_OR_RETURN(http::Response response, server.Send(request));
        return std::move(response.body);
      },
      "m");
  for (const Result<int64_t>& count : {counter->CountText("a b"), counter->CountChat({{"user", "a"}})})
    Must(!count.ok() || (*count >= 0 && *count <= workload::kMostCounted));

  // A judge: whatever it says, a rating is none or from 0 to 1, and each answer is rated, unrated or not
  // asked.
  server.Again();
  const std::string file = "/tmp/poolmark-fuzz-judge-" + std::to_string(::getpid());
  ::unlink(file.c_str());
  const auto cache = JudgeCache::Open(file);
  Must(cache.ok());
  JudgeOptions options;
  options.url = url;
  options.model = "m";
  options.parallel = 1;
  JudgeContext context;
  context.client = &server;
  context.sleep = no_wait;
  const auto table = RateAnswers(OneQuestion(), options, {"{} {} {}", "{} {} {}"}, cache->get(), context);
  ::unlink(file.c_str());
  if (!table.ok()) return;
  for (const auto& [key, rating] : table->by_key)
    Must(rating.score() && *rating.score() >= 0 && *rating.score() <= 1);
  Must(table->insane || table->by_key.size() + static_cast<size_t>(table->unrated + table->not_asked) == 1);
}

}  // namespace poolmark::test

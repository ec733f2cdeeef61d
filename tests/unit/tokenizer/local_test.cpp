// The local tokenizer against what Hugging Face's library gives, and the endpoints that engines have.
#include "common/tokenizer/local.h"

#include <catch2/catch.hpp>
#include <ctime>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/http/server.h"
#include "common/tokenizer/config.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

namespace poolmark::tokenizer {
namespace {

Json Load(const std::string& path) {
  Result<std::string> text = ReadFile(path);
  REQUIRE(text.ok());
  return ParseJson(*text, path).value();
}

// A tokenizer.json whose tokens are the words between spaces.
Json WordTokenizer(const Json& vocabulary) {
  Json file = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"normalizer", nullptr}};
  file["added_tokens"] = Json::array();
  file["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  file["post_processor"] = nullptr;
  file["decoder"] = nullptr;
  file["model"] = {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "[UNK]"}};
  return file;
}

std::unique_ptr<http::Server> Serve(
    std::function<void(const http::ServerRequest&, http::ResponseWriter&)> handle) {
  return http::Server::Start(
             {}, [handle](const http::ServerRequest& request,
                          std::shared_ptr<http::ResponseWriter> writer) { handle(request, *writer); })
      .value();
}

std::string Url(const http::Server& server) {
  return "http://127.0.0.1:" + std::to_string(server.port());
}

}  // namespace

TEST_CASE("token ids and rendered chats are those of the tokenizers library", "[recorded]") {
  auto shared = test::SharedData();
  if (!shared) return;
  std::string directory = *shared + "/data/quality/shared/tokenizer";
  Result<std::unique_ptr<Tokenizer>> opened = OpenLocal(directory);
  if (!LocalAvailable()) {
    CHECK(opened.status().message().find("POOLMARK_TOKENIZER") != std::string::npos);
    WARN("skipped: built without the local tokenizer");
    return;
  }
  INFO(opened.status().message());
  REQUIRE(opened.ok());
  Tokenizer& tokenizer = **opened;
  Json vectors = Load(*shared + "/data/quality/vectors/tokenizer.json");
  for (const Json& c : vectors["encode"]) {
    INFO(c.dump());
    CHECK(tokenizer.Encode(c["text"].get<std::string>()).value() == c["ids"].get<TokenIds>());
  }
  for (const Json& c : vectors["render"]) {
    INFO(c.dump());
    ChatMessages messages;
    for (const Json& m : c["messages"])
      messages.emplace_back(m["role"].get<std::string>(), m["content"].get<std::string>());
    CHECK(tokenizer.EncodeChat(messages, c["kwargs"].dump()).value() == c["ids"].get<TokenIds>());
  }
  CHECK(tokenizer.Encode("broken \xff text").ok());
  CHECK(!tokenizer.EncodeChat({{"user", "x"}}, "[]").ok());
}

TEST_CASE("a tokenizer's files that are not there are named", "[M23]") {
  CHECK(LocalFilesOf("/models/m").tokenizer == "/models/m/tokenizer.json");
  CHECK(LocalFilesOf("/models/m").config == "/models/m/tokenizer_config.json");
  CHECK(LocalFilesOf("/models/m/other.json").tokenizer == "/models/m/other.json");
  CHECK(LocalFilesOf("/models/m/other.json").config == "/models/m/tokenizer_config.json");
  CHECK(LocalFilesOf("other.json").config == "./tokenizer_config.json");
  test::TempDir dir;
  const auto missing = [&](const std::string& path) {
    const Status status = CheckLocalFiles(path);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK(missing(dir / "none").find(dir / "none/tokenizer.json") != std::string::npos);
  REQUIRE(AtomicWriteFile(dir / "tokenizer.json", "{}").ok());
  CHECK(missing(dir.path()).find(dir / "tokenizer_config.json") != std::string::npos);
  CHECK(missing(dir / "tokenizer.json").find(dir / "tokenizer_config.json") != std::string::npos);
  // What a wrong use of an option is, whatever opens the tokenizer.
  if (LocalAvailable()) CHECK(OpenLocal(dir.path()).status().code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(AtomicWriteFile(dir / "tokenizer_config.json", "{}").ok());
  CHECK(CheckLocalFiles(dir.path()).ok());
}

TEST_CASE("broken tokenizer files are refused with their path") {
  if (!LocalAvailable()) {
    WARN("skipped: built without the local tokenizer");
    return;
  }
  test::TempDir dir;
  CHECK(!OpenLocal(dir.path()).ok());
  REQUIRE(AtomicWriteFile(dir / "tokenizer.json", "{\"model\": 1}").ok());
  REQUIRE(AtomicWriteFile(dir / "tokenizer_config.json", "{}").ok());
  CHECK(OpenLocal(dir.path()).status().message().find("chat_template") != std::string::npos);
  REQUIRE(AtomicWriteFile(dir / "tokenizer_config.json", "{\"chat_template\": \"{% for %}\"}").ok());
  Result<std::unique_ptr<Tokenizer>> opened = OpenLocal(dir.path());
  REQUIRE(!opened.ok());
  CHECK(opened.status().message().find(dir / "tokenizer.json") != std::string::npos);
}

TEST_CASE("a tokenizer_config.json whose chat template is broken is refused with its field", "[K2]") {
  const auto why = [](const std::string& chat_template) {
    const Result<TokenizerConfig> read =
        ReadTokenizerConfig("{\"chat_template\": " + chat_template + "}", "dir/config", true);
    return read.ok() ? "read: " + read->chat_template : std::string(read.status().message());
  };
  CHECK(why(R"("x")") == "read: x");
  CHECK(why(R"([{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}])") == "read: d");
  const std::pair<const char*, const char*> broken[] = {
      {R"([{"name": 5, "template": "t"}])", "'chat_template[0].name' is number"},
      {R"([{"name": "default", "template": "d"}, {"name": null, "template": "t"}])",
       "'chat_template[1].name' is null"},
      {R"([{"template": "t"}])", "'chat_template[0]' has no 'name'"},
      {R"([{"name": "default"}])", "'chat_template[0]' has no 'template'"},
      {R"([{"name": "default", "template": ["t"]}])", "'chat_template[0].template' is array"},
      {R"(["default"])", "'chat_template[0]' is string"},
      {R"([{"name": "tool", "template": "t"}])", "named default"},
      {"[]", "named default"},
      {"{\"default\": \"t\"}", "neither a text nor a list"},
      {"null", "neither a text nor a list"},
      {"7", "neither a text nor a list"}};
  for (const auto& [text, field] : broken) {
    INFO(text);
    CHECK_THAT(why(text), Catch::Contains("dir/config") && Catch::Contains(field));
  }
  CHECK(ReadTokenizerConfig("{\"chat_template\": 7, \"eos_token\": {\"content\": \"e\"}}", "f", false)
            ->eos_token == "e");
  CHECK_FALSE(ReadTokenizerConfig("[]", "f", false).ok());
  if (!LocalAvailable()) {
    WARN("the same through OpenLocal(): skipped, built without the local tokenizer");
    return;
  }
  test::TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "tokenizer.json", WordTokenizer({{"[UNK]", 0}}).dump()).ok());
  for (const auto& [text, field] : broken) {
    INFO(text);
    REQUIRE(AtomicWriteFile(dir / "tokenizer_config.json", "{\"chat_template\": " + std::string(text) + "}")
                .ok());
    CHECK_THAT(std::string(OpenLocal(dir.path()).status().message()),
               Catch::Contains(dir / "tokenizer_config.json") && Catch::Contains(field));
  }
}

TEST_CASE("a completion's prompt has the tokens that begin every text", "[M23]") {
  if (!LocalAvailable()) {
    WARN("skipped: built without the local tokenizer");
    return;
  }
  test::TempDir dir;
  Json file = WordTokenizer({{"[UNK]", 0}, {"a", 1}, {"b", 2}, {"[BOS]", 3}});
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "[BOS]"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair",
       {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
      {"special_tokens", {{"[BOS]", {{"id", "[BOS]"}, {"ids", {3}}, {"tokens", {"[BOS]"}}}}}}};
  REQUIRE(
      AtomicWriteFile(dir / "tokenizer_config.json", R"({"chat_template": "{{ messages[0]['content'] }} b"})")
          .ok());
  REQUIRE(AtomicWriteFile(dir / "tokenizer.json", file.dump()).ok());
  auto opened = OpenLocal(dir.path());
  INFO(opened.status());
  REQUIRE(opened.ok());
  CHECK((*opened)->Encode("a b").value() == TokenIds{1, 2});
  CHECK((*opened)->EncodePrompt("a b").value() == TokenIds{3, 1, 2});
  CHECK((*opened)->EncodeChat({{"user", "a"}}, "{}").value() == TokenIds{1, 2});
}

TEST_CASE("a file's truncation and padding change no count, as with transformers' encode()") {
  if (!LocalAvailable()) {
    WARN("skipped: built without the local tokenizer");
    return;
  }
  test::TempDir dir;
  Json file = WordTokenizer({{"[UNK]", 0}, {"a", 1}, {"b", 2}});
  REQUIRE(
      AtomicWriteFile(dir / "tokenizer_config.json", R"({"chat_template": "{{ messages[0]['content'] }} b"})")
          .ok());
  for (const bool truncation : {false, true}) {
    for (const bool padding : {false, true}) {
      INFO(truncation << padding);
      file["truncation"] = nullptr;
      file["padding"] = nullptr;
      if (truncation)
        file["truncation"] = {
            {"direction", "Right"}, {"max_length", 4}, {"strategy", "LongestFirst"}, {"stride", 0}};
      if (padding)
        file["padding"] = {{"strategy", {{"Fixed", 16}}},
                           {"direction", "Right"},
                           {"pad_to_multiple_of", 8},
                           {"pad_id", 0},
                           {"pad_type_id", 0},
                           {"pad_token", "[UNK]"}};
      REQUIRE(AtomicWriteFile(dir / "tokenizer.json", file.dump()).ok());
      auto opened = OpenLocal(dir.path());
      INFO(opened.status());
      REQUIRE(opened.ok());
      CHECK((*opened)->Encode("a b a b a b").value() == TokenIds{1, 2, 1, 2, 1, 2});
      CHECK((*opened)->Encode("a").value() == TokenIds{1});
      CHECK((*opened)->EncodeChat({{"user", "a a a a a"}}, "{}").value() == TokenIds{1, 1, 1, 1, 1, 2});
    }
  }
}

TEST_CASE("a chat template may ask for the date; what it cannot have names the endpoint") {
  if (!LocalAvailable()) {
    WARN("skipped: built without the local tokenizer");
    return;
  }
  const auto date = [](const char* format) {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    localtime_r(&now, &parts);
    char text[64];
    return std::string(text, std::strftime(text, sizeof text, format, &parts));
  };
  test::TempDir dir;
  const auto open = [&](const std::string& chat_template, const Json& vocabulary) {
    REQUIRE(AtomicWriteFile(dir / "tokenizer.json", WordTokenizer(vocabulary).dump()).ok());
    REQUIRE(
        AtomicWriteFile(dir / "tokenizer_config.json", Json({{"chat_template", chat_template}}).dump()).ok());
    return OpenLocal(dir.path());
  };
  // As gpt-oss and Llama 3.1 write it. The date is one word, which stands in the vocabulary.
  for (const std::string format : {"%Y-%m-%d", "%d_%b_%Y"}) {
    TokenIds ids;
    std::string before;
    do {  // once more when it was midnight meanwhile
      before = date(format.c_str());
      auto opened = open("a {{ strftime_now('" + format + "') }}{{ strftime_now('') }}",
                         {{"[UNK]", 0}, {"a", 1}, {before, 2}});
      INFO(opened.status());
      REQUIRE(opened.ok());
      ids = (*opened)->EncodeChat({{"user", "x"}}, "{}").value();
    } while (date(format.c_str()) != before);
    CHECK(ids == TokenIds{1, 2});
  }
  for (const char* broken : {"{{ raise_exception('no system prompt') }}", "{{ no_such_function() }}"}) {
    INFO(broken);
    auto opened = open(broken, {{"[UNK]", 0}});
    REQUIRE(opened.ok());
    CHECK_THAT(std::string((*opened)->EncodeChat({{"user", "x"}}, "{}").status().message()),
               Catch::Contains("rendering the chat template") && Catch::Contains("tokenize endpoint"));
  }
}

TEST_CASE("vLLM's tokenize endpoint takes messages with their template arguments") {
  Json last;
  auto server = Serve([&](const http::ServerRequest& request, http::ResponseWriter& writer) {
    last = Json::parse(request.body);
    bool known = request.path == "/tokenize" && (last.contains("messages") || last.contains("prompt"));
    writer.Send(known ? 200 : 404, "application/json",
                R"({"count": 2, "max_model_len": 9, "tokens": [7, 8]})");
  });
  auto client = http::MakeClient();
  auto tokenizer = OpenEndpoint(client.get(), Url(*server) + "/v1/", "m").value();
  CHECK(tokenizer->EncodeChat({{"user", "x"}}, R"({"enable_thinking": false})").value() == TokenIds{7, 8});
  CHECK(last["chat_template_kwargs"]["enable_thinking"] == false);
  CHECK(last["add_generation_prompt"] == true);
  CHECK(tokenizer->Encode("text").value() == TokenIds{7, 8});
  CHECK(last["add_special_tokens"] == false);
}

TEST_CASE("llama.cpp's endpoints are found by asking") {
  auto server = Serve([&](const http::ServerRequest& request, http::ResponseWriter& writer) {
    Json body = Json::parse(request.body);
    if (request.path == "/apply-template")
      return writer.Send(200, "application/json", R"({"prompt": "<|user|>x"})");
    // As llama.cpp: any request is answered, without "content" there are no tokens.
    writer.Send(200, "application/json",
                body.contains("content") ? R"({"tokens": [1, 2, 3]})" : R"({"tokens": []})");
  });
  auto client = http::MakeClient();
  auto tokenizer = OpenEndpoint(client.get(), Url(*server), "m").value();
  CHECK(tokenizer->EncodeChat({{"user", "x"}}, "{}").value() == TokenIds{1, 2, 3});
}

TEST_CASE("an engine without a tokenize endpoint, or with a lying one, is an error that says what to do") {
  std::string reply;
  int status = 200;
  SECTION("404") {
    status = 404;
  }
  SECTION("no JSON") {
    reply = "<html>";
  }
  SECTION("no token ids") {
    reply = R"({"tokens": ["a", -1]})";
  }
  auto server = Serve([&](const http::ServerRequest&, http::ResponseWriter& writer) {
    writer.Send(status, "application/json", reply);
  });
  auto client = http::MakeClient();
  Result<std::unique_ptr<Tokenizer>> opened = OpenEndpoint(client.get(), Url(*server), "m");
  REQUIRE(!opened.ok());
  CHECK(opened.status().message().find("--tokenizer") != std::string::npos);
}

}  // namespace poolmark::tokenizer

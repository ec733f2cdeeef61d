#include "tests/component/quality/fake_engine.h"

#include <cctype>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "common/base/json.h"

namespace poolmark::test {
namespace {

uint32_t Hash(std::string_view text) {
  uint64_t hash = 1469598103934665603ull;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return static_cast<uint32_t>(hash ^ (hash >> 32)) & 0x7fffffffu;
}

std::string Event(const Json& json) {
  return "data: " + json.dump() + "\n\n";
}

Json TextChunk(const std::string& text) {
  Json chunk = {{"id", "x"}, {"object", "chat.completion.chunk"}};
  chunk["choices"] = Json::array();
  chunk["choices"].push_back({{"index", 0}, {"delta", {{"content", text}}}});
  return chunk;
}

// The question in one of our prompts.
std::string QuestionIn(const std::string& content) {
  size_t begin = content.rfind("Question: ");
  if (begin == std::string::npos) return "";
  begin += 10;
  return content.substr(begin, content.find('\n', begin) - begin);
}

}  // namespace

std::vector<uint32_t> FakeTokens(std::string_view text, bool merging) {
  std::vector<uint32_t> out;
  auto word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80;
  };
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    if (text.substr(i).starts_with("<|")) {
      end = std::min(text.find("|>", i), text.size() - 2) + 2;
    } else {
      if (text[end] == ' ' && end + 1 < text.size()) ++end;
      if (word(text[end])) {
        while (end < text.size() && word(text[end])) ++end;
      } else if (merging) {
        auto mark = [&](char c) { return !word(c) && !std::isspace(static_cast<unsigned char>(c)); };
        while (end < text.size() && mark(text[end]) && !text.substr(end).starts_with("<|")) ++end;
        while (end < text.size() && text[end] == '\n') ++end;
        if (end == i) ++end;
      } else {
        ++end;
      }
    }
    out.push_back(Hash(text.substr(i, end - i)));
    i = end;
  }
  return out;
}

std::string FakeRender(const std::string& content, const std::string& behind) {
  return "<|user|>\n" + content + behind;
}

FakeEngine::FakeEngine(FakeEngineOptions options)
    : options_(std::move(options)), index_(options_.chunk_size) {
  auto handler = [this](const http::ServerRequest& request, std::shared_ptr<http::ResponseWriter> writer) {
    Serve(request, *writer);
  };
  auto server = http::Server::Start({}, handler);
  if (!server.ok()) throw std::runtime_error(std::string(server.status().message()));
  server_ = *std::move(server);
}

FakeEngine::~FakeEngine() {
  server_->Stop();
}

std::string FakeEngine::url() const {
  return "http://127.0.0.1:" + std::to_string(server_->port());
}
int FakeEngine::stores() const {
  std::lock_guard lock(mutex_);
  return stores_;
}
int FakeEngine::measured() const {
  std::lock_guard lock(mutex_);
  return measured_;
}
int FakeEngine::tokenized() const {
  std::lock_guard lock(mutex_);
  return tokenized_;
}
std::vector<std::string> FakeEngine::bodies() const {
  std::lock_guard lock(mutex_);
  return bodies_;
}
void FakeEngine::OnChat(std::function<void(int)> hook) {
  std::lock_guard lock(mutex_);
  on_chat_ = std::move(hook);
}

void FakeEngine::Serve(const http::ServerRequest& request, http::ResponseWriter& writer) {
  if (request.path == "/v1/chat/completions") return Chat(request, writer);
  if (request.path == "/metrics" && options_.metrics) {
    const std::string page = options_.page ? options_.page(measured()) : "";
    if (page == "500") return writer.Send(500, "text/plain", "no");
    return writer.Send(200, "text/plain", page.empty() ? MetricsPage() : page);
  }
  if (request.path == "/version" && !options_.version.empty()) {
    return writer.Send(200, "application/json", Json({{"version", options_.version}}).dump());
  }
  if (request.path == "/v1/models" && options_.models_status != 0)
    return writer.Send(options_.models_status, "application/json", R"({"error": "no"})");
  if (request.path == "/v1/models" && !options_.models.empty()) {
    Json data = Json::array();
    for (const std::string& model : options_.models) {
      data.push_back({{"id", model}});
      if (options_.models_max_model_len > 0) data.back()["max_model_len"] = options_.models_max_model_len;
    }
    return writer.Send(200, "application/json", Json({{"data", data}}).dump());
  }
  if (request.path == "/tokenize") {
    int number = 0;
    {
      std::lock_guard lock(mutex_);
      number = tokenized_++;
    }
    if (int status = options_.tokenize_status ? options_.tokenize_status(number) : 0; status != 0)
      return writer.Send(status, "text/plain", "busy");
    Json body = Json::parse(request.body);
    std::string text =
        body.contains("messages")
            ? FakeRender(body["messages"][0]["content"].get<std::string>(), options_.behind_user)
            : body["prompt"].get<std::string>();
    std::vector<uint32_t> tokens = FakeTokens(text, options_.merging);
    if (options_.leading_token && !body.contains("messages")) tokens.insert(tokens.begin(), 1);
    Json reply = {{"count", tokens.size()}, {"tokens", tokens}};
    reply["max_model_len"] = Json::parse(options_.max_model_len);
    return writer.Send(200, "application/json", reply.dump());
  }
  writer.Send(404, "application/json", "{}");
}

void FakeEngine::Chat(const http::ServerRequest& request, http::ResponseWriter& writer) {
  Json body = Json::parse(request.body);
  bool store = body["max_tokens"] == 1;
  std::string content = body["messages"][0]["content"].get<std::string>();
  int number = 0;
  std::function<void(int)> hook;
  {
    std::lock_guard lock(mutex_);
    number = store ? stores_++ : measured_++;
    bodies_.push_back(request.body);
    hook = on_chat_;
  }
  if (hook && !store) hook(number);
  if (int status = options_.status ? options_.status(store, number) : 0; status != 0) {
    return writer.Send(status, "application/json", R"({"error": {"message": "told to fail"}})");
  }
  CountReuse(content, store);
  std::string text = store             ? "x"
                     : options_.answer ? options_.answer(QuestionIn(content), number)
                                       : "<answer>none</answer>";
  writer.StartStream(200, "text/event-stream");
  writer.Write(Event({{"choices", {{{"delta", {{"role", "assistant"}, {"content", ""}}}}}}}));
  size_t half = text.size() / 2;
  if (half > 0) writer.Write(Event(TextChunk(text.substr(0, half))));
  if (text.size() > half) writer.Write(Event(TextChunk(text.substr(half))));
  Json usage = {{"choices", Json::array()}};
  usage["usage"] = {{"prompt_tokens", 10}, {"completion_tokens", FakeTokens(text).size()}};
  writer.Write(Event(usage));
  writer.Write("data: [DONE]\n\n");
  writer.End();
}

void FakeEngine::CountReuse(const std::string& content, bool store) {
  std::vector<uint32_t> tokens = FakeTokens(FakeRender(content, options_.behind_user), options_.merging);
  std::lock_guard lock(mutex_);
  if (!store && measured_ - 1 == options_.reset_counters_at) counters_ = {};
  auto looked_up =
      static_cast<double>(static_cast<int64_t>(tokens.size()) / options_.chunk_size * options_.chunk_size);
  double reused = static_cast<double>(index_.Covered(tokens)) * options_.reuse_share;
  counters_.requested_tokens += looked_up;
  using Reuse = FakeEngineOptions::Reuse;
  if (!store && options_.reuse == Reuse::kBlend) counters_.non_prefix_hit_tokens += reused;
  if (!store && options_.reuse == Reuse::kPrefix) counters_.prefix_hit_tokens += reused;
  if (!store && options_.reuse == Reuse::kStale) counters_.stale_chunks += 1;
  size_t before = index_.chunks();
  if (store) index_.AddStore(tokens);
  counters_.fingerprints_registered += static_cast<double>(index_.chunks() - before);
}

std::string FakeEngine::MetricsPage() {
  std::lock_guard lock(mutex_);
  std::string page;
  for (const auto& [name, member] : quality::kCounterFields) {
    std::string series = std::string("lmcache_blend_") +
                         (std::string_view(name) == "fingerprints_registered" ? "" : "lookup_") + name +
                         "_total";
    page += "# TYPE " + series + " counter\n" + series + "{otel_scope_name=\"lmcache.blend\"} " +
            std::to_string(counters_.*member) + "\n";
  }
  return page;
}

}  // namespace poolmark::test

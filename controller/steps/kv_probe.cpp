#include "controller/steps/kv_probe.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/json.h"
#include "common/base/random.h"
#include "common/load/stream.h"
#include "controller/steps/catalogue_use.h"

namespace poolmark::controller {
namespace {

constexpr uint32_t kMaxAnswer = 4u << 20;
constexpr Nanoseconds kAskTimeout = std::chrono::seconds(90);
constexpr Nanoseconds kScrapeTimeout = std::chrono::seconds(10);

// The agent answered; what it asked did not, or not well. Not the agent's failure.
Status Refused(const char* code, const std::string& url, std::string message) {
  return ToStatus(Error{absl::StatusCode::kUnavailable, code, url, std::move(message), ""});
}

Result<v1::ProbeResponse> Send(const JobRun& run, const std::string& machine, v1::ProbeRequest request) {
  POOLMARK_ASSIGN_OR_RETURN(AgentLinkPtr link, run.registry->Link(machine));
  *request.mutable_lease() = run.Lease(machine);
  request.set_max_bytes(kMaxAnswer);
  POOLMARK_ASSIGN_OR_RETURN(v1::ProbeResponse response, link->Probe(request, run.stop));
  if (response.status() == 0)
    return Refused(kNoAnswer, request.url(), response.failure().empty() ? "no answer" : response.failure());
  if (response.status() / 100 != 2) {
    return Refused(kEngineFailed, request.url(),
                   absl::StrCat("HTTP ", response.status(), ": ", ValidUtf8(response.body().substr(0, 500))));
  }
  return response;
}

Result<v1::ProbeResponse> Post(const JobRun& run, const std::string& machine, const std::string& url,
                               const Json& body) {
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(body));
  v1::ProbeRequest request;
  request.set_method("POST");
  request.set_url(url);
  request.set_body(text);
  request.set_timeout_ns(kAskTimeout.count());
  auto* header = request.add_headers();
  header->set_key("Content-Type");
  header->set_value("application/json");
  return Send(run, machine, std::move(request));
}

}  // namespace

std::string UniquePrompt(const std::string& seed, int words) {
  static constexpr const char* kWords[] = {"the",  "time", "and",  "year",  "you",  "way",  "that", "day",
                                           "for",  "man",  "with", "part",  "this", "work", "from", "life",
                                           "they", "hand", "will", "home",  "what", "room", "all",  "car",
                                           "one",  "book", "out",  "story", "who",  "fact", "get",  "month"};
  SplitMix64 random(std::stoull(Sha256Hex(seed, 16), nullptr, 16));
  std::string prompt;
  for (int i = 0; i < words; ++i)
    absl::StrAppend(&prompt, i == 0 ? "" : " ", kWords[random.Below(std::size(kWords))]);
  return prompt;
}

Result<Completion> Ask(const JobRun& run, const std::string& machine, const std::string& base_url,
                       const std::string& model, const std::string& prompt, int max_tokens) {
  const Json body = {{"model", model},
                     {"prompt", prompt},
                     {"max_tokens", max_tokens},
                     {"temperature", 0},
                     {"stream", false}};
  const std::string url = absl::StrCat(base_url, "/v1/completions");
  POOLMARK_ASSIGN_OR_RETURN(v1::ProbeResponse response, Post(run, machine, url, body));
  POOLMARK_ASSIGN_OR_RETURN(Json answer, ParseJson(response.body(), url));
  Completion completion;
  if (answer.is_object() && answer.contains("choices") && answer["choices"].is_array() &&
      !answer["choices"].empty()) {
    const Json& choice = answer["choices"][0];
    if (choice.is_object() && choice.contains("text") && choice["text"].is_string())
      completion.text = choice["text"].get<std::string>();
  }
  if (answer.is_object() && answer.contains("usage") && answer["usage"].is_object()) {
    const Json& usage = answer["usage"];
    if (usage.contains("prompt_tokens") && usage["prompt_tokens"].is_number_integer())
      completion.prompt_tokens = usage["prompt_tokens"].get<int64_t>();
    if (usage.contains("completion_tokens") && usage["completion_tokens"].is_number_integer()) {
      completion.completion_tokens = usage["completion_tokens"].get<int64_t>();
    }
  }
  // A tiny model may answer with tokens that are no text; the count then proves them.
  if (completion.text.empty() && completion.completion_tokens.value_or(0) == 0) {
    return Refused(kEngineFailed, base_url,
                   absl::StrCat("HTTP 200 without any output: ", ValidUtf8(response.body().substr(0, 300))));
  }
  return completion;
}

Result<Completion> AskStream(const JobRun& run, const std::string& machine, const std::string& base_url,
                             bool chat, const std::string& model, const std::string& prompt, int max_tokens) {
  Json body = {{"model", model},   {"max_tokens", max_tokens},
               {"temperature", 0}, {"ignore_eos", true},
               {"stream", true},   {"stream_options", {{"include_usage", true}}}};
  if (chat) {
    body["messages"] = Json::array({{{"role", "user"}, {"content", prompt}}});
  } else {
    body["prompt"] = prompt;
  }
  const std::string url = absl::StrCat(base_url, chat ? "/v1/chat/completions" : "/v1/completions");
  POOLMARK_ASSIGN_OR_RETURN(v1::ProbeResponse response, Post(run, machine, url, body));
  // The load's own reader judges it: what would be a failed request there proves nothing here.
  load::RequestRecord record;
  load::StreamReader reader;
  Completion completion;
  reader.Begin(&record, &completion.text);
  const size_t first = response.body().find_first_not_of(" \r\n\t");
  const bool document = first != std::string::npos && response.body()[first] == '{';
  reader.Feed(
      absl::StrCat("HTTP/1.1 200 OK\r\nContent-Type: ", document ? "application/json" : "text/event-stream",
                   "\r\nConnection: close\r\n\r\n", response.body()),
      0, std::nullopt);
  reader.Closed(0, "");
  if (record.outcome != load::Outcome::kOk) {
    return Refused(
        kEngineFailed, url,
        absl::StrCat("HTTP 200, but ", record.error, ": ", ValidUtf8(response.body().substr(0, 300))));
  }
  completion.prompt_tokens = record.input_tokens;
  completion.completion_tokens = record.output_tokens;
  completion.events = record.events.size();
  return completion;
}

Result<std::string> Get(const JobRun& run, const std::string& machine, const std::string& url) {
  v1::ProbeRequest request;
  request.set_method("GET");
  request.set_url(url);
  request.set_timeout_ns(kScrapeTimeout.count());
  POOLMARK_ASSIGN_OR_RETURN(v1::ProbeResponse response, Send(run, machine, std::move(request)));
  return response.body();
}

Result<std::string> FirstModel(const JobRun& run, const std::string& machine, const std::string& base_url) {
  POOLMARK_ASSIGN_OR_RETURN(std::string body, Get(run, machine, absl::StrCat(base_url, "/v1/models")));
  POOLMARK_ASSIGN_OR_RETURN(Json answer, ParseJson(body, absl::StrCat(base_url, "/v1/models")));
  if (answer.is_object() && answer.contains("data") && answer["data"].is_array() && !answer["data"].empty()) {
    const Json& model = answer["data"][0];
    if (model.is_object() && model.contains("id") && model["id"].is_string())
      return model["id"].get<std::string>();
  }
  return Unavailable(base_url, "/v1/models names no model");
}

std::string ProgramVersion(const JobRun& run, const PlannedProcess& process,
                           const prom::VersionSource& source) {
  v1::ProbeRequest request;
  request.set_timeout_ns(kScrapeTimeout.count());
  if (source.kind == prom::VersionSource::Kind::kInfo && !process.metrics_url.empty()) {
    request.set_method("REDIS");
    request.set_url(process.metrics_url);
    request.set_body(absl::StrCat("INFO ", source.target));
  } else if (source.kind == prom::VersionSource::Kind::kHttp && !process.base_url.empty()) {
    request.set_method("GET");
    request.set_url(process.base_url + source.target);
  } else {
    return "";
  }
  auto response = Send(run, process.machine, std::move(request));
  return response.ok() ? prom::VersionIn(source, response->body()) : "";
}

Result<EngineReading> Read(const JobRun& run, const StackPlan& stack, const PlannedProcess& engine) {
  EngineReading reading;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, Get(run, engine.machine, engine.metrics_url));
  POOLMARK_ASSIGN_OR_RETURN(prom::Page page, prom::ParseText(text));
  reading.catalogue = CatalogueIn(run.catalogue_dir);
  reading.engine = TotalsOf(page, DialectOf(reading.catalogue.get(), engine));
  const PlannedProcess* cache = CacheOf(stack, engine);
  if (cache != nullptr && !cache->metrics_url.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(std::string cache_text, Get(run, cache->machine, cache->metrics_url));
    POOLMARK_ASSIGN_OR_RETURN(prom::Page cache_page, prom::ParseText(cache_text));
    reading.cache = TotalsOf(cache_page, DialectOf(reading.catalogue.get(), *cache));
  }
  return reading;
}

stats::EngineAttribution Between(const StackPlan& stack, const PlannedProcess& engine,
                                 const std::string& version, const EngineReading& before,
                                 const EngineReading& after, bool alone) {
  stats::EngineFacts facts = EngineFactsOf(stack, engine);
  if (alone) facts.role = stats::EngineFacts::Role::kAggregated;
  facts.version = version;
  facts.deltas = Difference(before.engine, after.engine);
  facts.cache = Difference(before.cache, after.cache);
  if (const prom::Dialect* dialect = DialectOf(after.catalogue.get(), engine))
    prom::AddAbsent(*dialect, version, &facts.deltas);
  return stats::AttributeEngine(facts);
}

}  // namespace poolmark::controller

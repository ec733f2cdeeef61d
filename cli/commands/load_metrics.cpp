#include "cli/commands/load_metrics.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/commands/catalogue.h"
#include "common/load/token_sources.h"
#include "common/prom/version_source.h"
#include "common/stats/attribution.h"

namespace poolmark::cli {
namespace {

// In the order of load::TokenSourceNames().
constexpr double stats::TokenSources::*kParts[] = {
    &stats::TokenSources::gpu,    &stats::TokenSources::host,     &stats::TokenSources::storage,
    &stats::TokenSources::remote, &stats::TokenSources::computed, &stats::TokenSources::not_attributed};

Result<prom::Page> FetchPage(http::Client* client, const http::Url& url) {
  http::Request request;
  request.url = url;
  request.timeout = std::chrono::seconds(5);
  POOLMARK_ASSIGN_OR_RETURN(const http::Response response, client->Send(request));
  if (response.status != 200)
    return Unavailable(url.ToString(), "answers with status " + std::to_string(response.status));
  return prom::ParseText(response.body);
}

// The simulated engine speaks vLLM's dialect and says what it is.
bool IsSimulated(const prom::Page& page) {
  return std::any_of(page.samples.begin(), page.samples.end(),
                     [](const prom::Sample& sample) { return sample.name == "poolmark_sim_info"; });
}

// Of samples that a process sets once, when it starts: which they are, and what they say.
std::map<std::string, double> IdentityOf(const prom::Page& page, const prom::Dialect* dialect) {
  static const prom::Dialect any{};
  std::map<std::string, double> out;
  for (const prom::Sample& sample : page.samples) {
    if (!(dialect != nullptr ? *dialect : any).MarksRestart(sample.name)) continue;
    std::string key = sample.name;
    for (const auto& [name, value] : sample.labels) key += "," + name + "=" + value;
    out[key] = sample.value;
  }
  return out;
}

// What the engine itself answers where its dialect says that it tells its version.
std::string VersionOf(http::Client* client, const http::Url& page, const prom::Dialect& dialect) {
  const prom::VersionSource source = prom::ParseVersionFrom(dialect.version_from);
  if (source.kind != prom::VersionSource::Kind::kHttp) return "";
  http::Request request;
  request.url = page;
  request.url.target = source.target;
  request.timeout = std::chrono::seconds(5);
  const auto response = client->Send(request);
  return response.ok() && response->status == 200 ? prom::VersionIn(source, response->body) : "";
}

}  // namespace

Result<std::unique_ptr<MetricsReader>> MetricsReader::Open(const std::vector<std::string>& urls) {
  std::unique_ptr<MetricsReader> reader(new MetricsReader);
  if (auto catalogue = prom::Catalogue::Load(DefaultCatalogue()); catalogue.ok())
    reader->catalogue_ = std::move(*catalogue);
  for (const std::string& url : urls) {
    Engine engine;
    const bool has_scheme = url.find("://") != std::string::npos || url.starts_with("unix:");
    POOLMARK_ASSIGN_OR_RETURN(engine.url, http::ParseUrl(has_scheme ? url : "http://" + url));
    if (engine.url.target == "/") engine.url.target = "/metrics";
    for (const Engine& other : reader->engines_) {
      if (other.url.ToString() == engine.url.ToString())
        return InvalidInput(url,
                            "names the page of an engine that was named before: its tokens would count twice",
                            "name each engine's page once");
    }
    POOLMARK_ASSIGN_OR_RETURN(const prom::Page page, FetchPage(reader->client_.get(), engine.url));
    engine.dialect = prom::DialectOf(page);
    engine.simulated = IsSimulated(page);
    if (engine.dialect.empty()) {
      return InvalidInput(url, "has no series of an engine that poolmark knows",
                          "give the /metrics of vLLM, SGLang, TensorRT-LLM, llama.cpp or poolmark-sim");
    }
    if (const prom::Dialect* dialect = reader->DialectOf(engine))
      engine.version = VersionOf(reader->client_.get(), engine.url, *dialect);
    reader->engines_.push_back(std::move(engine));
  }
  return reader;
}

const prom::Dialect* MetricsReader::DialectOf(const Engine& engine) const {
  return catalogue_ ? catalogue_->Find(engine.simulated ? "sim" : engine.dialect) : nullptr;
}

void MetricsReader::Read(Engine* engine, Reading* reading) {
  const auto page = FetchPage(client_.get(), engine->url);
  if (page.ok()) {
    const prom::Dialect* dialect = DialectOf(*engine);
    reading->totals = prom::TotalsOf(*page, dialect);
    reading->identity = IdentityOf(*page, dialect);
  } else if (engine->failure.empty()) {
    engine->failure = std::string(page.status().message());
  }
}

std::string MetricsReader::Engine::Restarted() const {
  for (const auto& [key, value] : start.identity) {
    const auto now = end.identity.find(key);
    if (now != end.identity.end() && now->second != value) return key;
  }
  return "";
}

void MetricsReader::ReadStart() {
  if (started_) return;
  started_ = true;
  for (Engine& engine : engines_) Read(&engine, &engine.start);
}

void MetricsReader::ReadEnd() {
  for (Engine& engine : engines_) Read(&engine, &engine.end);
}

namespace {

stats::Attribution AttributionOf(const std::vector<stats::EngineFacts>& facts, const load::Summary& summary) {
  std::optional<double> client;
  if (summary.without_input_tokens == 0 && summary.ok > 0) client = static_cast<double>(summary.input_tokens);
  return stats::Attribute(facts, client);
}

}  // namespace

Json MetricsReader::ToJson(const load::Summary& summary) const {
  std::vector<stats::EngineFacts> facts;
  std::vector<std::string> restarts;
  for (const Engine& engine : engines_) {
    stats::EngineFacts one;
    one.process = engine.url.ToString();
    one.dialect = engine.dialect;
    // M7: an engine without a GPU has a cache of its own. A page does not say what its engine runs on; these
    // two have none, or cannot tell.
    one.has_gpu = engine.dialect != "llama-cpp" && !engine.simulated;
    one.unreadable = engine.failure;
    one.version = engine.version;
    one.deltas = prom::Difference(engine.start.totals, engine.end.totals);
    // A process that began anew may have counted past where the one before it stood.
    const std::string restarted = engine.Restarted();
    one.reset = !restarted.empty() || std::any_of(one.deltas.begin(), one.deltas.end(),
                                                  [](const auto& delta) { return delta.second < 0; });
    if (!restarted.empty())
      restarts.push_back(one.process + " started anew during the load: " + restarted + " changed");
    if (const prom::Dialect* dialect = DialectOf(engine))
      prom::AddAbsent(*dialect, engine.version, &one.deltas);
    facts.push_back(std::move(one));
  }
  const auto sources = AttributionOf(facts, summary);
  Json json = {{"engines", Json::array()}, {"notes", sources.notes}};
  for (const std::string& note : restarts) json["notes"].push_back(note);
  size_t own = 0;
  for (const stats::EngineAttribution& engine : sources.engines) own += engine.engine_cache_label ? 1 : 0;
  json["gpu_is"] = own == 0 ? "GPU cache" : own == engines_.size() ? "engine cache" : "GPU or engine cache";
  for (const Engine& engine : engines_)
    json["engines"].push_back(
        {{"url", engine.url.ToString()}, {"dialect", engine.dialect}, {"simulated", engine.simulated}});
  if (!sources.total.has_value()) {
    json["total"] = {{"not_measured", sources.total.reason()}};
    return json;
  }
  json["total"] = {{"prompt", (*sources.total).prompt}};
  const auto& names = load::TokenSourceNames();
  for (size_t i = 0; i < names.size(); ++i) json["total"][names[i].key] = (*sources.total).*kParts[i];
  if (!catalogue_ && (*sources.total).not_attributed > 0)
    json["notes"].push_back("no catalogue of series in " + DefaultCatalogue() +
                            ": what an engine does not show is not attributed");
  if (sources.closure_error.has_value()) json["closure_error"] = *sources.closure_error;
  if (sources.client_difference.has_value()) json["client_difference"] = *sources.client_difference;
  return json;
}

}  // namespace poolmark::cli

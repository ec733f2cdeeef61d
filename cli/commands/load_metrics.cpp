#include "cli/commands/load_metrics.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/prom/totals.h"
#include "common/stats/attribution.h"

namespace poolmark::cli {
namespace {

struct Part {
  const char* name;  // null: as the engines are, `gpu_is`
  const char* key;
  double stats::TokenSources::*tokens;
};
constexpr Part kParts[] = {{nullptr, "gpu", &stats::TokenSources::gpu},
                           {"host memory", "host", &stats::TokenSources::host},
                           {"storage", "storage", &stats::TokenSources::storage},
                           {"remote KV", "remote", &stats::TokenSources::remote},
                           {"computed", "computed", &stats::TokenSources::computed},
                           {"not attributed", "not_attributed", &stats::TokenSources::not_attributed}};

Result<prom::Page> FetchPage(http::Client* client, const http::Url& url) {
  http::Request request;
  request.url = url;
  request.timeout = std::chrono::seconds(5);
  POOLMARK_ASSIGN_OR_RETURN(const http::Response response, client->Send(request));
  if (response.status != 200)
    return Unavailable(url.ToString(), "answers with status " + std::to_string(response.status));
  return prom::ParseText(response.body);
}

// M7: an engine without a GPU has a cache of its own. A page does not say what its engine runs on; these two
// run without one, or cannot tell.
bool HasGpu(const std::string& dialect) {
  return dialect != "llama-cpp" && dialect != "sim";
}

template <class... Args>
std::string Line(const char* format, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

}  // namespace

Result<std::unique_ptr<MetricsReader>> MetricsReader::Open(const std::vector<std::string>& urls) {
  std::unique_ptr<MetricsReader> reader(new MetricsReader);
  for (const std::string& url : urls) {
    Engine engine;
    POOLMARK_ASSIGN_OR_RETURN(engine.url, http::ParseUrl(url));
    if (engine.url.target == "/") engine.url.target = "/metrics";
    POOLMARK_ASSIGN_OR_RETURN(const prom::Page page, FetchPage(reader->client_.get(), engine.url));
    engine.dialect = prom::DialectOf(page);
    if (engine.dialect.empty()) {
      return InvalidInput(url, "has no series of an engine that poolmark knows",
                          "give the /metrics of vLLM, SGLang, TensorRT-LLM, llama.cpp or poolmark-sim");
    }
    reader->engines_.push_back(std::move(engine));
  }
  return reader;
}

void MetricsReader::Read(Engine* engine, Totals* totals) {
  const auto page = FetchPage(client_.get(), engine->url);
  if (page.ok()) {
    *totals = prom::TotalsOf(*page);
  } else if (engine->failure.empty()) {
    engine->failure = std::string(page.status().message());
  }
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
  for (const Engine& engine : engines_) {
    stats::EngineFacts one;
    one.process = engine.url.ToString();
    one.dialect = engine.dialect;
    one.has_gpu = HasGpu(engine.dialect);
    one.unreadable = engine.failure;
    one.deltas = prom::Difference(engine.start, engine.end);
    facts.push_back(std::move(one));
  }
  const auto sources = AttributionOf(facts, summary);
  Json json = {{"engines", Json::array()}, {"notes", sources.notes}};
  size_t own = 0;
  for (const stats::EngineAttribution& engine : sources.engines) own += engine.engine_cache_label ? 1 : 0;
  json["gpu_is"] = own == 0 ? "GPU cache" : own == engines_.size() ? "engine cache" : "GPU or engine cache";
  for (const Engine& engine : engines_)
    json["engines"].push_back({{"url", engine.url.ToString()}, {"dialect", engine.dialect}});
  if (!sources.total.has_value()) {
    json["total"] = {{"not_measured", sources.total.reason()}};
    return json;
  }
  json["total"] = {{"prompt", (*sources.total).prompt}};
  for (const Part& part : kParts) json["total"][part.key] = (*sources.total).*part.tokens;
  if (sources.closure_error.has_value()) json["closure_error"] = *sources.closure_error;
  if (sources.client_difference.has_value()) json["client_difference"] = *sources.client_difference;
  return json;
}

std::string MetricsReader::Text(const load::Summary& summary) const {
  const Json json = ToJson(summary);
  std::string out = "\nprompt tokens by source, by the engines' own counters\n";
  const Json& total = json["total"];
  if (total.contains("not_measured")) {
    out += "  not measured: " + total["not_measured"].get<std::string>() + "\n";
  } else {
    const double prompt = total["prompt"].get<double>();
    for (const Part& part : kParts) {
      const double tokens = total[part.key].get<double>();
      const std::string name = part.name != nullptr ? part.name : json["gpu_is"].get<std::string>();
      out +=
          Line("  %-19s %12.0f  %6.2f %%\n", name.c_str(), tokens, prompt > 0 ? tokens / prompt * 100 : 0.0);
    }
    out += Line("  %-19s %12.0f\n", "prompt tokens", prompt);
  }
  for (const auto& note : json["notes"]) out += "  note: " + note.get<std::string>() + "\n";
  return out;
}

}  // namespace poolmark::cli

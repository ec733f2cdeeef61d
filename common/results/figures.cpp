#include "common/results/figures.h"

#include <cstdio>
#include <map>

namespace poolmark::results {
namespace {

void AddDistribution(const std::string& name, const Measured<stats::Distribution>& values,
                     std::vector<NamedFigure>* out) {
  const auto add = [&](const char* part, double stats::Distribution::*member) {
    out->push_back({name + part, "s",
                    values.has_value() ? Measured<double>((*values).*member) : NotMeasured{values.reason()}});
  };
  add("_mean_seconds", &stats::Distribution::mean);
  add("_p50_seconds", &stats::Distribution::p50);
  add("_p90_seconds", &stats::Distribution::p90);
  add("_p99_seconds", &stats::Distribution::p99);
}

void AddSources(const stats::Attribution& sources, std::vector<NamedFigure>* out) {
  const auto add = [&](const char* name, double stats::TokenSources::*member) {
    const auto& total = sources.total;
    if (!total.has_value()) {
      out->push_back({name, "share", NotMeasured{total.reason()}});
    } else if ((*total).prompt <= 0) {
      out->push_back({name, "share", NotMeasured{"no prompt tokens"}});
    } else {
      out->push_back({name, "share", (*total).*member / (*total).prompt});
    }
  };
  add("source_gpu", &stats::TokenSources::gpu);
  add("source_host", &stats::TokenSources::host);
  add("source_storage", &stats::TokenSources::storage);
  add("source_remote", &stats::TokenSources::remote);
  add("source_computed", &stats::TokenSources::computed);
  add("source_not_attributed", &stats::TokenSources::not_attributed);
  out->push_back({"prompt_tokens", "tokens",
                  sources.total.has_value() ? Measured<double>((*sources.total).prompt)
                                            : NotMeasured{sources.total.reason()}});
}

const std::map<std::string, std::string>& Titles() {
  static const std::map<std::string, std::string> titles = {
      {"ttft_mean_seconds", "Time to first token, mean"},
      {"ttft_p50_seconds", "Time to first token, median (P50)"},
      {"ttft_p90_seconds", "Time to first token, P90"},
      {"ttft_p99_seconds", "Time to first token, P99"},
      {"tpot_mean_seconds", "Time per output token, mean"},
      {"tpot_p50_seconds", "Time per output token, median (P50)"},
      {"tpot_p90_seconds", "Time per output token, P90"},
      {"tpot_p99_seconds", "Time per output token, P99"},
      {"itl_mean_seconds", "Inter-token latency, mean"},
      {"itl_p50_seconds", "Inter-token latency, median (P50)"},
      {"itl_p90_seconds", "Inter-token latency, P90"},
      {"itl_p99_seconds", "Inter-token latency, P99"},
      {"latency_mean_seconds", "Request latency, mean"},
      {"latency_p50_seconds", "Request latency, median (P50)"},
      {"latency_p90_seconds", "Request latency, P90"},
      {"latency_p99_seconds", "Request latency, P99"},
      {"output_tokens_per_second", "Output throughput, total"},
      {"output_tokens_per_second_per_gpu", "Output throughput, per GPU"},
      {"requests_per_second", "Completed requests"},
      {"failed_share", "Failed requests"},
      {"source_gpu", "Prompt tokens from GPU cache"},
      {"source_host", "Prompt tokens from host memory"},
      {"source_storage", "Prompt tokens from storage"},
      {"source_remote", "Prompt tokens from remote KV"},
      {"source_computed", "Prompt tokens computed"},
      {"source_not_attributed", "Prompt tokens not attributed"},
      {"prompt_tokens", "Prompt tokens"},
      {"closure_error", "Closure error of the sources"},
      {"reusable", "Reusable"},
      {"reused", "Reused"},
      {"reuse_captured", "Reuse captured"},
      {"kv_bytes_per_second", "KV transfer bandwidth"},
      {"kv_share_of_line", "KV transfer, share of line rate (busiest link)"},
      {"gpu_kv_usage_mean", "GPU KV usage, mean"},
      {"gpu_kv_usage_peak", "GPU KV usage, peak"},
      {"working_set_tokens", "Working set"},
      {"working_set_ratio", "Working set ratio"},
      {"joules", "Energy of the machines"},
      {"tokens_per_joule", "Output tokens per joule"},
      {"tokens_per_joule_with_network", "Output tokens per joule, with network"},
      {"variation", "Variation of output throughput"},
      {"drift", "Drift of output throughput"},
      {"achieved_concurrency", "Achieved concurrency"},
      {"client_lateness_p99_seconds", "Lateness of the load generator, P99"},
      {"sent_late_p99_seconds", "Requests sent after schedule, P99"},
  };
  return titles;
}

}  // namespace

std::vector<NamedFigure> FiguresOf(const RepeatFile& repeat) {
  const RepeatFigures& figures = repeat.figures;
  const stats::RequestFigures& requests = figures.requests;
  std::vector<NamedFigure> out;
  AddDistribution("ttft", requests.ttft, &out);
  AddDistribution("tpot", requests.tpot, &out);
  AddDistribution("itl", requests.itl, &out);
  AddDistribution("latency", requests.latency, &out);
  out.push_back({"output_tokens_per_second", "tokens/s", requests.output_tokens_per_second});
  out.push_back({"output_tokens_per_second_per_gpu", "tokens/s", figures.output_tokens_per_second_per_gpu});
  out.push_back({"requests_per_second", "requests/s", requests.requests_per_second});
  out.push_back({"failed_share", "share",
                 requests.requests > 0 ? Measured<double>(static_cast<double>(requests.failed) /
                                                          static_cast<double>(requests.requests))
                                       : NotMeasured{"no request started in the window"}});
  for (size_t i = 0; i < requests.goodput.size(); ++i) {
    const auto& goodput = requests.goodput[i];
    out.push_back({"goodput." + goodput.slo, "requests/s", goodput.good_per_second});
    out.push_back({"goodput_share." + goodput.slo, "share", goodput.share});
    if (i < figures.goodput_per_gpu.size())
      out.push_back({"goodput_per_gpu." + goodput.slo, "requests/s", figures.goodput_per_gpu[i]});
  }
  AddSources(figures.sources, &out);
  out.push_back({"closure_error", "share", figures.sources.closure_error});
  out.push_back({"reusable", "share", repeat.facts.reuse.reusable});
  out.push_back({"reused", "share", figures.reused});
  out.push_back({"reuse_captured", "share", figures.reuse_captured});
  out.push_back({"kv_bytes_per_second", "bytes/s", figures.kv_bytes_per_second});
  const bool moves = repeat.facts.strategy != "local" && repeat.facts.strategy != "offload";
  Measured<double> busiest =
      NotMeasured{moves ? "no counter tells pairs of machines apart, as the line rate does"
                        : "KV does not move between machines"};
  for (const auto& transfer : figures.transfers) {
    if (!transfer.share_of_line.has_value()) {
      // The busiest may be among those that nobody measured.
      busiest = NotMeasured{transfer.from + " to " + transfer.to + ": " + transfer.share_of_line.reason()};
      break;
    }
    if (!busiest.has_value() || (transfer.share_of_line.has_value() && *transfer.share_of_line > *busiest))
      busiest = transfer.share_of_line;
  }
  out.push_back({"kv_share_of_line", "share", busiest});
  out.push_back({"gpu_kv_usage_mean", "share", figures.gpu_kv_usage_mean});
  out.push_back({"gpu_kv_usage_peak", "share", figures.gpu_kv_usage_peak});
  out.push_back({"working_set_tokens", "tokens", repeat.facts.reuse.working_set_tokens});
  out.push_back({"working_set_ratio", "ratio", figures.working_set_ratio});
  out.push_back({"joules", "J", figures.energy.joules});
  out.push_back({"tokens_per_joule", "tokens/J", figures.energy.tokens_per_joule});
  out.push_back({"tokens_per_joule_with_network", "tokens/J", figures.energy.tokens_per_joule_with_network});
  out.push_back({"variation", "share", figures.stability.variation});
  out.push_back({"drift", "share", figures.stability.drift});
  out.push_back({"achieved_concurrency", "requests", requests.achieved_concurrency});
  const auto p99 = [](const Measured<stats::Distribution>& values) -> Measured<double> {
    return values.has_value() ? Measured<double>((*values).p99) : NotMeasured{values.reason()};
  };
  out.push_back({"client_lateness_p99_seconds", "s", p99(requests.lateness)});
  out.push_back(
      {"sent_late_p99_seconds", "s",
       repeat.facts.open_loop ? p99(requests.sent_late) : NotMeasured{"a closed loop has no schedule"}});
  return out;
}

Direction DirectionOf(const std::string& figure) {
  for (const char* lower : {"ttft_", "tpot_", "itl_", "latency_"}) {
    if (figure.starts_with(lower)) return Direction::kLower;
  }
  if (figure == "failed_share") return Direction::kLower;
  for (const char* higher : {"output_tokens_per_second", "requests_per_second", "goodput", "reused",
                             "reuse_captured", "tokens_per_joule"}) {
    if (figure.starts_with(higher)) return Direction::kHigher;
  }
  return Direction::kNone;
}

std::string UnitOf(const std::string& figure) {
  if (figure.ends_with("_seconds")) return "s";
  if (figure.starts_with("output_tokens_per_second")) return "tokens/s";
  if (figure.starts_with("goodput_share.") || figure.ends_with("_share")) return "share";
  if (figure == "requests_per_second" || figure.starts_with("goodput")) return "requests/s";
  if (figure.starts_with("tokens_per_joule")) return "tokens/J";
  return "share";
}

std::string TitleOf(const std::string& figure, bool engine_cache) {
  if (engine_cache && figure == "source_gpu") return "Prompt tokens from engine cache";
  if (engine_cache && figure == "gpu_kv_usage_mean") return "Engine cache usage, mean";
  if (engine_cache && figure == "gpu_kv_usage_peak") return "Engine cache usage, peak";
  const auto at = Titles().find(figure);
  if (at != Titles().end()) return at->second;
  const size_t dot = figure.find('.');
  if (dot == std::string::npos) return figure;
  const std::string preset = figure.substr(dot + 1);
  if (figure.starts_with("goodput.")) return "Goodput under " + preset;
  if (figure.starts_with("goodput_share.")) return "Share of requests within " + preset;
  if (figure.starts_with("goodput_per_gpu.")) return "Goodput per GPU under " + preset;
  return figure;
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", share * 100);
  return text;
}

}  // namespace poolmark::results

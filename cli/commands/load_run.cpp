#include "cli/commands/load_run.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands/load_metrics.h"
#include "cli/commands/load_support.h"
#include "cli/commands/load_tokens.h"
#include "cli/output/terminal.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/load/exports.h"
#include "common/load/merge.h"
#include "common/load/quick_source.h"

namespace poolmark::cli {
namespace {

Result<http::Headers> ReadHeaders(const LoadArguments& a) {
  http::Headers headers;
  if (!a.api_key_file.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(const std::string key, ReadKeyFile(a.api_key_file));
    headers.emplace_back("Authorization", "Bearer " + key);
  }
  for (const std::string& header : a.headers) {
    const size_t colon = header.find(':');
    if (colon == std::string::npos || colon == 0)
      return InvalidInput("header '" + header.substr(0, 60) + "'", "it has no name", "write 'Name: value'");
    std::string value = header.substr(colon + 1);
    value.erase(0, value.find_first_not_of(' '));
    POOLMARK_RETURN_IF_ERROR(load::CheckHeader(header.substr(0, colon), value));
    headers.emplace_back(header.substr(0, colon), value);
  }
  return headers;
}

Status ReadRetry(const LoadArguments& a, load::RetryPolicy* retry) {
  retry->attempts = a.retry_attempts;
  if (a.retry_attempts > 1 && a.retry_on.empty())
    return InvalidInput("--retry-on", "it names nothing, so that nothing would be tried again",
                        "use connect, stale, 429, 5xx");
  std::string_view rest = a.retry_on;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    bool* const flag = word == "connect" ? &retry->on_connect
                       : word == "stale" ? &retry->on_stale
                       : word == "429"   ? &retry->on_429
                       : word == "5xx"   ? &retry->on_5xx
                                         : nullptr;
    if (flag == nullptr)
      return InvalidInput("--retry-on", "'" + std::string(word) + "' is not known",
                          "use connect, stale, 429, 5xx");
    *flag = true;
  }
  return absl::OkStatus();
}

// The load level. What does not belong to it is refused, since it would do nothing.
Status ReadLevel(const LoadArguments& a, load::LoadOptions* o) {
  if (a.concurrency > 0) {
    if (!a.arrivals.empty() || a.cv.has_value())
      return InvalidInput("load", "--arrivals and --cv belong to a rate",
                          "a closed loop has no arrivals: leave them out or give --rate");
    o->users = a.concurrency;
    if (!a.ramp_up.empty()) {
      POOLMARK_ASSIGN_OR_RETURN(o->ramp_up, ParseDuration(a.ramp_up));
    }
    return absl::OkStatus();
  }
  o->mode = load::LoadOptions::Mode::kRate;
  if (!a.ramp_up.empty())
    return InvalidInput("load", "--ramp-up belongs to --concurrency", "write a ramp as --rate 1-10:60s");
  POOLMARK_ASSIGN_OR_RETURN(o->arrivals.steps, load::ParseRate(a.rate));
  if (!a.arrivals.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(o->arrivals.kind, load::ParseArrivalKind(a.arrivals));
  }
  if (a.cv.has_value() && o->arrivals.kind != load::ArrivalOptions::Kind::kGamma)
    return InvalidInput("load", "--cv belongs to --arrivals gamma",
                        "constant gaps have none, and those of Poisson arrivals is 1");
  if (a.cv.has_value()) o->arrivals.cv = *a.cv;
  o->arrivals.seed = a.seed;
  return absl::OkStatus();
}

Result<load::LoadOptions> ReadOptions(const LoadArguments& a) {
  load::LoadOptions o;
  if (a.urls.empty()) return InvalidInput("load", "no URL", "give --url http://HOST:PORT");
  for (const std::string& url : a.urls) {
    // As people write it: a host and a port.
    const bool has_scheme = url.find("://") != std::string::npos || url.starts_with("unix:");
    const std::string whole = has_scheme ? url : "http://" + url;
    POOLMARK_ASSIGN_OR_RETURN(
        http::Url joined, http::JoinApi(whole, a.api == "chat" ? "/v1/chat/completions" : "/v1/completions"));
    o.urls.push_back(std::move(joined));
  }
  POOLMARK_ASSIGN_OR_RETURN(o.headers, ReadHeaders(a));
  o.tls = {a.ca_file, !a.insecure, a.server_name};
  std::vector<std::string> asked = a.urls;
  asked.push_back(a.tokenize_url);
  if ((a.insecure || !a.ca_file.empty() || !a.server_name.empty()) && !load::AnyHttps(asked))
    return InvalidInput("load", "--ca-file, --server-name and --insecure do nothing without an https URL",
                        "leave them out, or write https://HOST:PORT");
  if ((a.concurrency > 0) == !a.rate.empty())
    return InvalidInput("load", "not exactly one load level", "give either --concurrency or --rate");
  POOLMARK_RETURN_IF_ERROR(ReadLevel(a, &o));
  const bool bounded =
      o.mode == load::LoadOptions::Mode::kRate && o.arrivals.steps.back().duration > Nanoseconds(0);
  if (a.requests == 0 && a.duration.empty() && !bounded)
    return InvalidInput("load", "the load has no end", "give --requests or --duration");
  if (!a.duration.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(o.duration, ParseDuration(a.duration));
  }
  POOLMARK_ASSIGN_OR_RETURN(o.warm_up, ParseDuration(a.warm_up));
  o.warm_up_requests = a.warm_up_requests;
  o.measured_requests = a.requests;
  POOLMARK_ASSIGN_OR_RETURN(o.drain, ParseDuration(a.drain));
  POOLMARK_ASSIGN_OR_RETURN(o.deadline, ParseDuration(a.deadline));
  POOLMARK_ASSIGN_OR_RETURN(o.stall, ParseDuration(a.stall));
  POOLMARK_ASSIGN_OR_RETURN(o.connect_timeout, ParseDuration(a.connect_timeout));
  POOLMARK_ASSIGN_OR_RETURN(o.keep_alive, ParseDuration(a.keep_alive));
  o.max_connections = a.max_connections;
  POOLMARK_RETURN_IF_ERROR(ReadRetry(a, &o.retry));
  o.loops = a.loops;
  o.request_id_prefix = a.request_id_prefix;
  return o;
}

// How prompts get their lengths, and how exact those are.
Status ReadPromptLengths(const LoadArguments& a, const load::LoadOptions& options, load::QuickOptions* quick,
                         load::RunSettings* settings) {
  const bool counts = !a.tokenize_url.empty() || !a.tokenizer.empty();
  load::SourceFacts& source = settings->source;
  source.input_tokens_exact = true;
  if (a.prompt_ids) {
    if (counts)
      return InvalidInput("load", "token ids need nobody to count them",
                          "leave --tokenize-url and --tokenizer out");
    source.prompt_lengths = "exact, token ids";
    return absl::OkStatus();
  }
  POOLMARK_ASSIGN_OR_RETURN(const Counter counter, OpenCounter({a.tokenize_url, a.tokenizer, a.model,
                                                                options.headers, options.tls}));
  workload::TextTokens text;
  if (counts) {
    auto calibrated = workload::CalibrateWords(counter.tokens.get(), quick->chat, false);
    if (!calibrated.ok()) {
      // An answer that is none is the endpoint's fault and not the command's.
      if (calibrated.status().code() == absl::StatusCode::kInvalidArgument)
        return Unavailable(counter.name, std::string(calibrated.status().message()));
      return calibrated.status();
    }
    text = *std::move(calibrated);
    quick->words = text.words;
    quick->overhead_tokens = quick->chat ? text.chat_overhead + text.message_overhead : text.text_overhead;
  }
  source.input_tokens_exact = text.exact;
  source.prompt_lengths = text.exact ? "exact, counted by " + counter.name : "estimates";
  settings->source_notes.push_back(
      text.exact ? "prompt lengths are exact, counted by " + counter.name
                 : "prompt lengths are estimates, one token for each word; --tokenize-url, --tokenizer or "
                   "--api completions --prompt-ids give exact ones");
  return absl::OkStatus();
}

load::QuickOptions ReadQuick(const LoadArguments& a) {
  load::QuickOptions quick;
  quick.model = a.model;
  quick.chat = a.api == "chat";
  quick.prompt_ids = a.prompt_ids;
  quick.input_tokens = a.input_tokens;
  quick.output_tokens = a.output_tokens;
  quick.ignore_eos = !a.allow_eos;
  quick.vocabulary = a.vocabulary;
  quick.seed = a.seed;
  return quick;
}

Status PrintSummary(const LoadArguments& a, const load::Summary& summary) {
  if (a.output == "json") {
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(load::SummaryJson(summary), 2));
    ShowOut(text + "\n");
  } else {
    ShowOut(Printable(load::SummaryText(summary), true));
    if (!a.out.empty() && summary.files_error.empty())
      ShowOut("records             " + Printable(JoinPath(a.out, "requests.jsonl.zst")) + "\n");
  }
  return absl::OkStatus();
}

Status Export(const LoadArguments& a, const std::string& directory) {
  for (const std::string& name : a.exports) {
    POOLMARK_ASSIGN_OR_RETURN(const load::ExportFormat format, load::ParseExportFormat(name));
    POOLMARK_ASSIGN_OR_RETURN(const auto paths, load::ExportRecords(directory, format));
    for (const std::string& path : paths) {
      const std::string line = "exported            " + Printable(path) + "\n";
      a.output == "json" ? WriteErr(line) : ShowOut(line);
    }
  }
  return absl::OkStatus();
}

Result<load::Summary> Merge(const LoadArguments& a) {
  if (a.out.empty()) return InvalidInput("load", "no directory for the merged results", "give --out");
  std::optional<load::Slo> slo;
  if (!a.slo.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(slo, FindSlo(a.slo));
  }
  std::vector<load::WorkerResult> workers;
  for (const std::string& directory : a.merge) workers.push_back({directory, Nanoseconds(0)});
  return load::MergeLoads(workers, a.out, slo);
}

}  // namespace

Result<load::LoadResult> RunQuickLoad(const LoadArguments& a, MetricsReader* metrics) {
  POOLMARK_ASSIGN_OR_RETURN(const load::LoadOptions options, ReadOptions(a));
  if (!a.exports.empty() && a.out.empty())
    return InvalidInput("load", "an export needs the records", "give --out");
  if (a.processes > 1 && a.out.empty())
    return InvalidInput("load", "several processes need a directory for their records", "give --out");
  load::RunSettings settings;
  settings.out_dir = a.out;
  settings.processes = a.processes;
  settings.source.model = a.model;
  settings.source.api = a.api;
  settings.source.prompt = a.prompt_ids ? "ids" : "text";
  settings.source.input_tokens = a.input_tokens;
  settings.source.output_tokens = a.output_tokens;
  if (a.requests > 0) settings.source.requests = a.requests;
  settings.source.seed = a.seed;
  if (!a.slo.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(settings.slo, FindSlo(a.slo));
  }
  load::QuickOptions quick = ReadQuick(a);
  POOLMARK_RETURN_IF_ERROR(load::MakeQuickSource(quick).status());  // before anybody is asked to count
  POOLMARK_RETURN_IF_ERROR(ReadPromptLengths(a, options, &quick, &settings));
  POOLMARK_ASSIGN_OR_RETURN(const auto source, load::MakeQuickSource(quick));
  bool line_open = false;
  settings.on_tick = LoadProgress(a.progress, &line_open);
  settings.stop = &LoadStop();
  if (metrics != nullptr) {
    // Without a warm-up the window begins with the load, else with the first tick after it.
    if (options.warm_up == Nanoseconds(0) && a.warm_up_requests == 0) metrics->ReadStart();
    settings.on_tick = [metrics, show = settings.on_tick](const load::Tick& tick) {
      // The last one is no beginning of a window.
      if (std::string_view(tick.phase) != "warm-up" && !tick.last) metrics->ReadStart();
      if (show) show(tick);
    };
    settings.prompt_token_sources = [metrics](const load::Summary& summary) {
      metrics->ReadEnd();
      return DumpJson(metrics->ToJson(summary));
    };
  }
  Result<load::LoadResult> result = load::RunLoad(options, *source, settings);
  if (line_open) std::fprintf(stderr, "\n");
  return result;
}

int RunLoadCommand(const LoadArguments& a) {
  CatchLoadSignals();
  if (!a.from.empty()) {
    if (a.exports.empty())
      return LoadFailed(
          InvalidInput("load", "--from has nothing to do", "give --export aiperf or --export vllm"),
          a.output);
    const Status exported = Export(a, a.from);
    return exported.ok() ? 0 : LoadFailed(exported, a.output);
  }
  if (!a.plan.empty()) return RunPlanFile(a);
  if (a.find_knee) return RunKneeSearch(a);
  Result<load::Summary> summary = [&]() -> Result<load::Summary> {
    if (!a.merge.empty()) return Merge(a);
    std::unique_ptr<MetricsReader> metrics;
    if (!a.metrics.empty()) {
      POOLMARK_ASSIGN_OR_RETURN(metrics, MetricsReader::Open(a.metrics));
    }
    POOLMARK_ASSIGN_OR_RETURN(load::LoadResult result, RunQuickLoad(a, metrics.get()));
    return std::move(result.summary);
  }();
  if (!summary.ok()) return LoadFailed(summary.status(), a.output);
  if (const Status printed = PrintSummary(a, *summary); !printed.ok()) return LoadFailed(printed, a.output);
  if (!summary->files_error.empty())
    (void)LoadFailed(Unavailable("", summary->files_error), a.output);  // the exit code says it, too
  if (!a.exports.empty() && summary->files_error.empty()) {
    if (const Status exported = Export(a, a.out); !exported.ok()) return LoadFailed(exported, a.output);
  }
  return LoadExitCode(*summary);
}

}  // namespace poolmark::cli

#include "cli/commands/load_run.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/time_format.h"
#include "common/load/engine.h"
#include "common/load/quick_source.h"

namespace poolmark::cli {
namespace {

std::atomic<int> g_stop{0};
void OnSignal(int) {
  g_stop = std::min(2, g_stop.load() + 1);
}

// Ctrl-C once: what is in flight may end; twice: it is cut off.
void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void PrintError(const Status& status) {
  std::fprintf(stderr, "poolmark load: %s\n", std::string(status.message()).c_str());
}

Result<http::Headers> ReadHeaders(const LoadArguments& a) {
  http::Headers headers;
  if (!a.api_key_file.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(std::string key, ReadFile(a.api_key_file, 64 * 1024));
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) key.pop_back();
    if (key.empty()) return InvalidInput(a.api_key_file, "it holds no key");
    headers.emplace_back("Authorization", "Bearer " + key);
  }
  for (const std::string& header : a.headers) {
    const size_t colon = header.find(':');
    if (colon == std::string::npos || colon == 0)
      return InvalidInput("header '" + header.substr(0, 60) + "'", "it has no name", "write 'Name: value'");
    std::string value = header.substr(colon + 1);
    value.erase(0, value.find_first_not_of(' '));
    headers.emplace_back(header.substr(0, colon), value);
  }
  return headers;
}

Status ReadRetry(const LoadArguments& a, load::RetryPolicy* retry) {
  retry->attempts = a.retry_attempts;
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

Result<load::LoadOptions> ReadOptions(const LoadArguments& a) {
  load::LoadOptions o;
  if (a.urls.empty()) return InvalidInput("load", "no URL", "give --url http://HOST:PORT");
  for (const std::string& url : a.urls) {
    POOLMARK_ASSIGN_OR_RETURN(
        http::Url joined, http::JoinApi(url, a.api == "chat" ? "/v1/chat/completions" : "/v1/completions"));
    o.urls.push_back(std::move(joined));
  }
  POOLMARK_ASSIGN_OR_RETURN(o.headers, ReadHeaders(a));
  o.tls = {a.ca_file, !a.insecure, a.server_name};
  if ((a.concurrency > 0) == !a.rate.empty())
    return InvalidInput("load", "give either --concurrency or --rate");
  if (a.concurrency > 0) {
    o.users = a.concurrency;
    POOLMARK_ASSIGN_OR_RETURN(o.ramp_up, ParseDuration(a.ramp_up));
  } else {
    o.mode = load::LoadOptions::Mode::kRate;
    POOLMARK_ASSIGN_OR_RETURN(o.arrivals.steps, load::ParseRate(a.rate));
    POOLMARK_ASSIGN_OR_RETURN(o.arrivals.kind, load::ParseArrivalKind(a.arrivals));
    o.arrivals.cv = a.cv;
    o.arrivals.seed = a.seed;
  }
  if (a.requests == 0 && a.duration.empty())
    return InvalidInput("load", "no end of the load", "give --requests or --duration");
  if (!a.duration.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(o.duration, ParseDuration(a.duration));
  }
  POOLMARK_ASSIGN_OR_RETURN(o.warm_up, ParseDuration(a.warm_up));
  o.warm_up_requests = a.warm_up_requests;
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

load::QuickOptions ReadQuick(const LoadArguments& a) {
  load::QuickOptions quick;
  quick.model = a.model;
  quick.chat = a.api == "chat";
  quick.prompt_ids = a.prompt_ids;
  quick.input_tokens = a.input_tokens;
  quick.output_tokens = a.output_tokens;
  quick.ignore_eos = !a.allow_eos;
  quick.vocabulary = a.vocabulary;
  if (a.requests > 0) quick.requests = a.requests + a.warm_up_requests;
  quick.seed = a.seed;
  return quick;
}

std::function<void(const load::Tick&)> ProgressPrinter(const std::string& how, bool* line_open) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (how == "json") {
    return [](const load::Tick& tick) {
      if (const auto text = DumpJson(load::TickJson(tick)); text.ok())
        std::fprintf(stderr, "%s\n", text->c_str());
    };
  }
  if (how == "none" || (how.empty() && !terminal)) return nullptr;
  return [terminal, line_open](const load::Tick& tick) {
    std::fprintf(stderr, terminal ? "\r%s\x1b[K" : "%s\n", load::TickText(tick).c_str());
    *line_open = terminal;
  };
}

Status PrintResult(const LoadArguments& a, const load::LoadResult& result) {
  if (a.output == "json") {
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(load::SummaryJson(result.summary), 2));
    std::printf("%s\n", text.c_str());
  } else {
    std::printf("%s", load::SummaryText(result.summary).c_str());
    if (!a.out.empty())
      std::printf("records             %s\n", JoinPath(a.out, "requests.jsonl.zst").c_str());
  }
  return absl::OkStatus();
}

int ExitCode(const load::Summary& summary) {
  if (summary.interrupted) return 130;
  return summary.ok > 0 ? 0 : 1;
}

// 2 for what the user can put right in the command, else 1.
int Failed(const Status& status) {
  PrintError(status);
  return status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
}

Result<load::LoadResult> RunQuick(const LoadArguments& a) {
  POOLMARK_ASSIGN_OR_RETURN(const load::LoadOptions options, ReadOptions(a));
  POOLMARK_ASSIGN_OR_RETURN(const auto source, load::MakeQuickSource(ReadQuick(a)));
  load::RunSettings settings;
  settings.out_dir = a.out;
  settings.processes = a.processes;
  if (!a.slo.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(settings.slo, load::ParseSlo(a.slo));
  }
  if (!a.prompt_ids) {
    settings.source_notes.push_back(
        "prompt lengths are estimates, one token for each word; --api completions --prompt-ids gives exact "
        "ones");
  }
  bool line_open = false;
  settings.on_tick = ProgressPrinter(a.progress, &line_open);
  settings.stop = &g_stop;
  Result<load::LoadResult> result = load::RunLoad(options, *source, settings);
  if (line_open) std::fprintf(stderr, "\n");
  return result;
}

}  // namespace

int RunLoadCommand(const LoadArguments& arguments) {
  CatchSignals();
  const Result<load::LoadResult> result = RunQuick(arguments);
  if (!result.ok()) return Failed(result.status());
  if (const Status printed = PrintResult(arguments, *result); !printed.ok()) return Failed(printed);
  return ExitCode(result->summary);
}

}  // namespace poolmark::cli

// `poolmark load --plan FILE`: a load as a job or a file describes it. Events go to stdout, one JSON object
// a line: {"event":"start"}, {"event":"progress"} once a second, {"event":"end"} or {"event":"error"}.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands/load_run.h"
#include "cli/commands/load_support.h"
#include "cli/commands/load_tokens.h"
#include "cli/output/terminal.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/load/plan.h"
#include "common/workload/source.h"

namespace poolmark::cli {
namespace {

void SayEvent(const Json& event) {
  const auto text = DumpJson(event);
  if (text.ok()) ShowOut(*text + "\n");
}

// How the prompts of a plan's workload got their lengths.
std::string PromptLengths(const workload::WorkloadSpec& spec, const Counter& counter, bool counted) {
  if (spec.token_ids) return "exact, token ids";
  if (!counted) return "estimates";
  return "exact, counted by " + counter.name +
         (spec.live_answers ? ", but for the live answers in them" : "");
}

Result<load::LoadResult> RunPlan(const LoadArguments& a) {
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(a.plan, 64u << 20));
  POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(text, a.plan));
  POOLMARK_ASSIGN_OR_RETURN(load::Plan plan, load::ParsePlan(json, a.plan));
  if (!a.out.empty()) plan.out = a.out;
  if (!plan.api_key_file.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(const std::string key, ReadKeyFile(plan.api_key_file));
    plan.options.headers.emplace_back("Authorization", "Bearer " + key);
  }
  POOLMARK_ASSIGN_OR_RETURN(const Json spec, ParseJson(plan.workload_json, a.plan + " workload"));
  POOLMARK_ASSIGN_OR_RETURN(const workload::WorkloadSpec shape, workload::ParseWorkload(spec));
  const bool asks = !plan.tokenize_url.empty() || !plan.tokenizer.empty();
  if (asks && shape.token_ids)
    return InvalidInput(a.plan, "its prompts are token ids, which need nobody to count them",
                        "leave tokenize_url and tokenizer out, or set \"prompt\": \"text\" in the workload");
  const auto named = spec.find("model");
  const std::string model = named != spec.end() && named->is_string() ? named->get<std::string>() : "default";
  POOLMARK_ASSIGN_OR_RETURN(const Counter counter, OpenCounter({plan.tokenize_url, plan.tokenizer, model,
                                                                plan.options.headers, plan.options.tls}));
  load::RunSettings settings;
  POOLMARK_ASSIGN_OR_RETURN(const auto source,
                            workload::OpenSource(spec, counter.tokens.get(), &settings.source_notes));
  for (const std::string& base : plan.base_urls) {
    POOLMARK_ASSIGN_OR_RETURN(http::Url url, http::JoinApi(base, source->api_path()));
    plan.options.urls.push_back(std::move(url));
  }
  POOLMARK_ASSIGN_OR_RETURN(settings.source.plan_sha256, load::PlanDigest(plan));
  const bool estimated =
      std::any_of(settings.source_notes.begin(), settings.source_notes.end(),
                  [](const std::string& note) { return note.starts_with("Prompt lengths are approximate"); });
  settings.source.prompt = shape.token_ids ? "ids" : "text";
  settings.source.prompt_lengths = PromptLengths(shape, counter, asks && !estimated);
  settings.source.input_tokens_exact =
      settings.source.prompt_lengths->starts_with("exact") && !shape.live_answers;
  settings.source.workload_json = plan.workload_json;
  settings.source.model = model;
  settings.source.api = source->api_path() == "/v1/chat/completions" ? "chat" : "completions";
  settings.out_dir = plan.out;
  settings.processes = plan.processes;
  settings.slo = plan.slo;
  settings.start_at_wall = plan.start_at_wall;
  settings.stop = &LoadStop();
  settings.on_tick = [](const load::Tick& tick) {
    Json event = load::TickJson(tick);
    event["event"] = "progress";
    SayEvent(event);
  };
  settings.on_start = [](Nanoseconds wall) {
    SayEvent({{"event", "start"}, {"started_wall_ns", wall.count()}});
  };
  return load::RunLoad(plan.options, *source, settings);
}

// Why a load without a single good answer failed: how many requests by outcome, with what one of them saw.
std::string NoneAnswered(const load::Summary& summary) {
  if (summary.requests == 0) return "no request began in the measured window";
  std::string text = "all " + std::to_string(summary.requests) + " requests failed: ";
  const char* separator = "";
  for (size_t at = 0; at < load::kOutcomes; ++at) {
    if (summary.outcomes[at] == 0) continue;
    text += separator + std::string(load::OutcomeName(static_cast<load::Outcome>(at)));
    if (summary.outcomes[at] != summary.requests) text += " " + std::to_string(summary.outcomes[at]);
    if (!summary.examples[at].empty()) text += " (" + summary.examples[at] + ")";
    separator = ", ";
  }
  return text;
}

}  // namespace

int RunPlanFile(const LoadArguments& a) {
  const Result<load::LoadResult> result = RunPlan(a);
  if (!result.ok()) {
    SayEvent({{"event", "error"}, {"message", std::string(result.status().message())}});
    return LoadFailed(result.status(), "text");
  }
  const int code = LoadExitCode(result->summary);
  Json end = {{"event", "end"}, {"exit_code", code}, {"started_wall_ns", result->started_wall.count()}};
  end["window_ns"] = {{"start", result->window.start},
                      {"end", result->window.end},
                      {"load_end", result->window.load_end},
                      {"total_end", result->window.total_end}};
  end["summary"] = load::SummaryJson(result->summary);
  SayEvent(end);
  if (result->summary.ok == 0 && !result->summary.interrupted)
    SayEvent({{"event", "error"}, {"message", NoneAnswered(result->summary)}});
  if (const std::string& error = result->summary.files_error; !error.empty()) {
    SayEvent({{"event", "error"}, {"message", "the files of the load are not complete: " + error}});
    std::fprintf(stderr, "poolmark load: %s\n", Printable(error, true).c_str());
  }
  return code;
}

}  // namespace poolmark::cli

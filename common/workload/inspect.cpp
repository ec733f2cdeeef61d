#include "common/workload/inspect.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/base/zstd_file.h"
#include "common/workload/source.h"
#include "common/workload/stored_settings.h"
#include "common/workload/synthetic.h"

namespace poolmark::workload {
namespace {

Spread SpreadOf(std::vector<int64_t> values) {
  Spread out;
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const int64_t value : values) sum += static_cast<double>(value);
  const auto at = [&](double share) {
    return values[std::min(values.size() - 1,
                           static_cast<size_t>(share * static_cast<double>(values.size())))];
  };
  out.mean = sum / static_cast<double>(values.size());
  out.p50 = at(0.5);
  out.p90 = at(0.9);
  out.p99 = at(0.99);
  out.max = values.back();
  return out;
}

Json ToJson(const Spread& spread) {
  return {{"mean", spread.mean},
          {"p50", spread.p50},
          {"p90", spread.p90},
          {"p99", spread.p99},
          {"max", spread.max}};
}

Json ShareJson(const Measured<double>& share) {
  return share.has_value() ? Json(*share) : Json{{"not_measured", share.reason()}};
}

std::string LevelOf(const WorkloadSpec& spec) {
  const auto number = [](double value) {
    std::string text = PythonFloat(value);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  };
  if (spec.shape == Shape::kTrace) return "x" + number(spec.speedup.empty() ? 1 : spec.speedup.front());
  if (!spec.rate.empty())
    return "r" +
           (spec.rate.front().steps.empty() ? number(spec.rate.front().value) : spec.rate.front().steps);
  return "c" + number(spec.concurrency.empty() ? 1 : static_cast<double>(spec.concurrency.front()));
}

template <class... Args>
std::string Line(const char* format, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

// A workload written as JSON; `path` began with a line that is no trace and no session.
Result<Json> ReadWorkloadObject(const std::string& path, const std::string& first) {
  const Status unknown = InvalidInput(
      path, "is no workload that can be recognised by its first line",
      "name it with --shape and --format, or give a JSON object with `shape` (docs/workloads.md)");
  if (first[first.find_first_not_of(" \t\r")] != '{') return unknown;
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 64u << 20));
  auto json = ParseJson(text, path);
  if (!json.ok()) {
    // A JSON object a line is some other trace; anything else is a workload with a mistake in it.
    return ParseJson(first, path).ok() ? unknown : json.status();
  }
  if (!json->contains("shape"))
    return InvalidInput(path, "is a JSON object without `shape`",
                        "give agentic, shared-prompt, synthetic or trace (docs/workloads.md)");
  const auto file = json->find("file");
  if (file != json->end() && file->is_string()) {
    const std::string name = file->get<std::string>();
    const size_t slash = path.rfind('/');
    if (!name.empty() && name.front() != '/' && slash != std::string::npos)
      *file = JoinPath(slash == 0 ? "/" : path.substr(0, slash), name);
  }
  return json;
}

WindowReuse WindowOf(const Workload& workload, const WorkloadSpec& spec, const Reuse& whole,
                     const ReuseOptions& options, std::optional<double> capacity_tokens) {
  WindowReuse out;
  out.measured_line = MeasuredLine(spec);
  out.held = spec.shape == Shape::kAgentic;
  out.reuse = out.held ? Analyse(workload, PlanArrivals(workload, spec, true), options) : whole;
  if (out.held) out.runs_out_at = RunsOutAt(workload, spec);
  if (capacity_tokens)
    out.working_set_ratio = static_cast<double>(out.reuse.working_set_tokens) / *capacity_tokens;
  return out;
}

std::string Percent(const Measured<double>& share) {
  return share.has_value() ? Line("%.3f %%", *share * 100) : "not measured (" + share.reason() + ")";
}

}  // namespace

Result<Json> DetectWorkload(const std::string& path) {
  POOLMARK_ASSIGN_OR_RETURN(auto lines, LineReader::Open(path));
  std::string first;
  do {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, lines->Next(&first));
    if (!more) return InvalidInput(path, "is empty");
  } while (first.find_first_not_of(" \t\r") == std::string::npos);
  const auto is = [&](const char* text) { return first.find(text) != std::string::npos; };
  if (is("TIMESTAMP") && is("ContextTokens"))
    return Json{{"shape", "trace"}, {"format", "azure-2023"}, {"file", path}};
  if (is("Timestamp") && is("Request tokens"))
    return Json{{"shape", "trace"}, {"format", "burstgpt"}, {"file", path}};
  if (is("\"chat_id\"") && is("\"hash_ids\""))
    return Json{{"shape", "trace"}, {"format", "qwen-bailian"}, {"file", path}};
  if (is("\"requests\"") && is("\"block_size\"")) return Json{{"shape", "agentic"}, {"file", path}};
  if (is("\"hash_ids\"")) return Json{{"shape", "trace"}, {"format", "mooncake"}, {"file", path}};
  return ReadWorkloadObject(path, first);
}

Result<Inspection> Inspect(const WorkloadSpec& spec, std::optional<uint32_t> block_tokens,
                           std::optional<double> capacity_tokens) {
  POOLMARK_ASSIGN_OR_RETURN(const auto workload, OpenWorkload(spec));
  Inspection out;
  out.shape = Name(spec.shape);
  if (spec.shape == Shape::kTrace) out.format = Name(spec.format);
  out.file = spec.file;
  out.scope = workload->session_scope() ? "session" : "global";
  out.sessions = workload->sessions();
  out.notes = workload->notes();
  for (std::string& note : ReplayNotes(spec)) out.notes.push_back(std::move(note));
  out.level = LevelOf(spec);
  if (spec.chat)
    out.notes.push_back(
        "the tokens of the chat template, which are the engine's own, are in no figure here; they are in "
        "those "
        "of a repeat");
  const size_t levels = std::max({spec.concurrency.size(), spec.rate.size(), spec.speedup.size()});
  if (levels > 1)
    out.notes.push_back("of the " + std::to_string(levels) +
                        " levels only the first is inspected: " + out.level);
  std::vector<int64_t> prompts, outputs, turns;
  for (uint64_t s = 0; s < workload->sessions(); ++s) {
    const Script script = workload->Open(s);
    turns.push_back(static_cast<int64_t>(script.turns.size()));
    for (const Turn& turn : script.turns) {
      if (turn.primer) {
        ++out.primers;
        continue;
      }
      prompts.push_back(TokensOf(turn.prompt));
      outputs.push_back(turn.output_tokens);
    }
  }
  out.prompt = SpreadOf(std::move(prompts));
  out.output = SpreadOf(std::move(outputs));
  out.turns = SpreadOf(std::move(turns));
  const auto arrivals = PlanArrivals(*workload, spec, false);
  for (const Arrival& arrival : arrivals) out.span = std::max(out.span, arrival.start);
  ReuseOptions options;
  options.block_tokens = block_tokens.value_or(DefaultBlockTokens(*workload));
  options.live_answers = spec.live_answers;
  out.reuse = Analyse(*workload, arrivals, options);
  if (spec.shape == Shape::kSynthetic || spec.shape == Shape::kSharedPrompt) {
    out.expected_share = ExpectedReusableShare(spec, options.block_tokens);
  }
  if (capacity_tokens)
    out.working_set_ratio = static_cast<double>(out.reuse.working_set_tokens) / *capacity_tokens;
  out.window = WindowOf(*workload, spec, out.reuse, options, capacity_tokens);
  return out;
}

namespace {

Json CurveJson(const Reuse& reuse) {
  Json curve = Json::array();
  for (const auto& [size, share] : reuse.curve) curve.push_back(Json::array({size, share}));
  return curve;
}

Json ToJson(const WindowReuse& window) {
  const Reuse& reuse = window.reuse;
  const auto optional = [](const auto& value) { return value ? Json(*value) : Json(); };
  std::optional<double> ends;
  if (window.runs_out_at) ends = std::chrono::duration<double>(*window.runs_out_at).count();
  return {{"measured_line", window.measured_line},
          {"held", window.held},
          {"requests", reuse.requests},
          {"prompt_tokens", reuse.prompt_tokens},
          {"reusable_share", ShareJson(reuse.share())},
          {"reusable_share_uncut", ShareJson(reuse.share_uncut())},
          {"lifetime_requests", reuse.lifetime_requests},
          {"lifetime_prompt_tokens", reuse.lifetime_prompt_tokens},
          {"lifetime_reusable_share", ShareJson(reuse.share_lifetime())},
          {"lifetime_reusable_share_uncut", ShareJson(reuse.share_lifetime_uncut())},
          {"working_set_tokens", reuse.working_set_tokens},
          {"live_conversations", reuse.live_conversations},
          {"working_set_ratio", optional(window.working_set_ratio)},
          {"runs_out_at_seconds", optional(ends)},
          {"curve", window.held ? CurveJson(reuse) : Json()}};
}

std::string ToText(const WindowReuse& window, const std::string& level) {
  const Reuse& reuse = window.reuse;
  std::string out = "\n  " + window.measured_line + (window.held ? " at " + level : "") + "\n";
  const auto share = [&](const char* name, uint64_t requests, const Measured<double>& cut,
                         const Measured<double>& uncut) {
    out += Line("    %-20s %llu requests, reusable ", name, static_cast<unsigned long long>(requests)) +
           Percent(cut) + (uncut.has_value() ? ", uncut " + Percent(uncut) : "") + "\n";
  };
  share("measured window", reuse.requests, reuse.share(), reuse.share_uncut());
  share("cache's lifetime", reuse.lifetime_requests, reuse.share_lifetime(), reuse.share_lifetime_uncut());
  if (!window.held) return out;
  out += Line("    %-20s %lld tokens in %llu live conversations\n", "working set",
              static_cast<long long>(reuse.working_set_tokens),
              static_cast<unsigned long long>(reuse.live_conversations));
  if (window.working_set_ratio)
    out += Line("    %-20s %.3f\n", "working set ratio", *window.working_set_ratio);
  if (window.runs_out_at)
    out += "    the load runs out of sessions after " +
           FormatDuration(std::chrono::round<std::chrono::seconds>(*window.runs_out_at)) + "\n";
  return out;
}

}  // namespace

Json ToJson(const Inspection& in) {
  Json json = {{"shape", in.shape},
               {"format", in.format.empty() ? Json() : Json(in.format)},
               {"file", in.file.empty() ? Json() : Json(in.file)},
               {"scope", in.scope},
               {"sessions", in.sessions},
               {"requests", in.reuse.requests},
               {"primers", in.primers},
               {"prompt_tokens", in.reuse.prompt_tokens},
               {"output_tokens", in.reuse.output_tokens},
               {"prompt", ToJson(in.prompt)},
               {"output", ToJson(in.output)},
               {"turns", ToJson(in.turns)},
               {"span_seconds", std::chrono::duration<double>(in.span).count()},
               {"block_tokens", in.reuse.block_tokens},
               {"reusable_share", ShareJson(in.reuse.share())},
               {"reusable_share_uncut", ShareJson(in.reuse.share_uncut())},
               {"reusable_tokens", in.reuse.reusable_tokens},
               {"requests_with_reuse", in.reuse.requests_with_reuse},
               {"expected_share", in.expected_share ? Json(*in.expected_share) : Json()},
               {"distinct_tokens", in.reuse.distinct_tokens},
               {"level", in.level},
               {"working_set_tokens", in.reuse.working_set_tokens},
               {"live_conversations", in.reuse.live_conversations},
               {"working_set_ratio", in.working_set_ratio ? Json(*in.working_set_ratio) : Json()},
               {"curve", CurveJson(in.reuse)},
               {"window", ToJson(in.window)},
               {"notes", in.notes}};
  return json;
}

std::string ToText(const Inspection& in) {
  const Reuse& reuse = in.reuse;
  std::string out = in.shape + (in.format.empty() ? "" : " (" + in.format + ")") +
                    (in.file.empty() ? "" : "  " + in.file) + "\n\n";
  const auto spread = [&](const char* name, const Spread& s) {
    return Line("  %-22s mean %.1f  P50 %lld  P90 %lld  P99 %lld  max %lld\n", name, s.mean,
                static_cast<long long>(s.p50), static_cast<long long>(s.p90), static_cast<long long>(s.p99),
                static_cast<long long>(s.max));
  };
  out += Line("  %-22s %llu in %llu sessions, over %s\n", "requests",
              static_cast<unsigned long long>(reuse.requests), static_cast<unsigned long long>(in.sessions),
              FormatDuration(std::chrono::round<std::chrono::seconds>(in.span)).c_str());
  out += Line("  %-22s %lld prompt, %lld output\n", "tokens", static_cast<long long>(reuse.prompt_tokens),
              static_cast<long long>(reuse.output_tokens));
  out += spread("prompt tokens", in.prompt) + spread("output tokens", in.output);
  if (in.turns.max > 1) out += spread("turns", in.turns);
  out += "\n  reusable               " + Percent(reuse.share()) +
         " of the prompt tokens, in whole blocks of " + std::to_string(reuse.block_tokens) + " tokens\n";
  out += "  reusable, uncut        " + Percent(reuse.share_uncut()) +
         (in.scope == "session" ? "  (sessions share nothing)" : "") + "\n";
  if (in.expected_share) out += Line("  follows from settings  %.3f %%\n", *in.expected_share * 100);
  out += Line("  distinct tokens        %lld\n", static_cast<long long>(reuse.distinct_tokens));
  out += Line("  working set at %-7s %lld tokens in %llu live conversations\n", in.level.c_str(),
              static_cast<long long>(reuse.working_set_tokens),
              static_cast<unsigned long long>(reuse.live_conversations));
  if (in.working_set_ratio) out += Line("  working set ratio      %.3f\n", *in.working_set_ratio);
  out += ToText(in.window, in.level);
  out +=
      "\n  reuse of an LRU cache by its size (blocks of " + std::to_string(reuse.block_tokens) + " tokens)\n";
  for (size_t i = 0; i < reuse.curve.size(); i += i + 6 < reuse.curve.size() ? 5 : 1) {
    const auto& [size, share] = reuse.curve[i];
    out += Line("  %14.0f tokens  %7.3f %%  ", size, share * 100) +
           std::string(static_cast<size_t>(share * 40 + 0.5), '#') + "\n";
  }
  for (const std::string& note : in.notes) out += "\n  note: " + note;
  if (!in.notes.empty()) out += "\n";
  return out;
}

}  // namespace poolmark::workload

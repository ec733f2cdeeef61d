#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cli/commands/quality_commands.h"
#include "cli/commands/quality_support.h"
#include "cli/output/interrupt.h"
#include "cli/output/terminal.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/time_format.h"
#include "common/http/stoppable_client.h"
#include "common/quality/plan.h"
#include "common/quality/runner.h"

namespace poolmark::cli {
namespace {

Result<quality::RunOptions> OptionsOf(const QualityRunArguments& a) {
  quality::RunOptions o;
  o.out = a.out;
  quality::Settings& s = o.settings;
  s.model = a.model;
  s.dataset = a.dataset;
  s.task = a.task;
  s.scenario = a.scenario;
  s.num_samples = a.limit;
  s.chunk_size = a.chunk_size;
  s.max_output_tokens = a.max_output_tokens;
  s.seed = a.seed;
  POOLMARK_ASSIGN_OR_RETURN(s.template_kwargs, quality::ParseTemplateKwargs(a.template_kwargs));
  bool concatenated = a.scenario == "concatenated";
  s.filler = !a.filler.empty() ? a.filler : concatenated ? "none" : "dots";
  s.min_unit_tokens = a.min_unit_tokens;
  if (concatenated && !s.min_unit_tokens) {
    // What is beyond every limit is refused below, under its own name.
    s.min_unit_tokens = std::clamp<int64_t>(a.chunk_size, 1, 100'000'000) * 8;
  }
  o.dataset_file = a.dataset_file;
  o.tokenizer = a.tokenizer;
  o.tokenize_url = a.tokenize_url;
  o.reference_url = a.reference_url;
  o.control_url = a.control_url;
  o.candidate_url = a.candidate_url;
  o.reference_repeats = a.reference_repeats;
  o.blend_metrics_url = a.blend_metrics_url;
  o.resume = a.resume;
  POOLMARK_ASSIGN_OR_RETURN(o.settle, ParseDuration(a.settle));
  POOLMARK_ASSIGN_OR_RETURN(o.request_timeout, ParseDuration(a.timeout));
  POOLMARK_ASSIGN_OR_RETURN(o.api_key, ApiKey(a.api_key_file));
  return o;
}

// Events for a program that follows the run: "start", "progress", "note", "error", "end", one JSON object a
// line, as the load writes them. A line comes at least every five seconds, also within a long request.
class EventLines {
 public:
  EventLines() : start_(RealClock().Steady()) {
    Write({{"event", "start"}, {"started_wall_ns", RealClock().Wall().count()}});
    beat_ = std::jthread([this](std::stop_token stop) {
      std::unique_lock lock(mutex_);
      while (!wake_.wait_for(lock, stop, std::chrono::seconds(5), [] { return false; }) &&
             !stop.stop_requested())
        Print(Line("progress"));
    });
  }
  void Progress(const quality::RunProgress& progress) {
    std::lock_guard lock(mutex_);
    last_ = progress;
    Print(Line("progress"));
  }
  void Say(const char* event, const std::string& message) {
    Write({{"event", event}, {"message", ValidUtf8(message)}});
  }

 private:
  Json Line(const char* event) const {
    return {
        {"event", event},       {"t", std::chrono::duration<double>(RealClock().Steady() - start_).count()},
        {"phase", last_.stage}, {"done", last_.done},
        {"total", last_.total}, {"failed", last_.failed}};
  }
  void Write(const Json& json) {
    std::lock_guard lock(mutex_);
    Print(json);
  }
  void Print(const Json& json) const {  // lock held
    auto text = DumpJson(json);
    if (text.ok()) ShowOut(*text + "\n");
  }

  const Nanoseconds start_;
  std::mutex mutex_;  // last_, stdout
  std::condition_variable_any wake_;
  quality::RunProgress last_;
  std::jthread beat_;  // last: ends before the rest goes
};

std::string ProgressText(const quality::RunProgress& p) {
  return absl::StrCat(
      p.stage, ": ", p.done, "/", p.total,
      p.failed > 0 ? absl::StrCat(", ", p.failed, " failed") : std::string(),
      p.left ? absl::StrCat(", about ", FormatDuration(std::chrono::ceil<std::chrono::seconds>(*p.left)),
                            " left")
             : std::string());
}

// The result for programs.
int ReportJson(const quality::RunReport& report, const std::string& out) {
  const auto text = DumpJson(Json{{"directory", ValidUtf8(out)},
                                  {"kept", report.kept},
                                  {"saved", report.saved},
                                  {"failed_stores", report.failed_stores},
                                  {"failed_questions", report.failed_questions},
                                  {"interrupted", report.interrupted}});
  if (text.ok()) ShowOut(*text + "\n");
  return report.interrupted ? 130 : 0;
}

// The result for people.
int Report(const quality::RunReport& report, const std::string& out) {
  for (const std::string& label : report.kept) ShowOut(absl::StrCat("kept ", Printable(label), "\n"));
  for (const std::string& label : report.saved) ShowOut(absl::StrCat("saved ", Printable(label), "\n"));
  if (report.failed_stores > 0)
    ShowOut(absl::StrCat(report.failed_stores, " store requests failed: analyze will say INVALID\n"));
  if (report.failed_questions > 0)
    ShowOut(absl::StrCat(report.failed_questions, " questions failed: they score 0\n"));
  if (report.interrupted) {
    ShowOut("interrupted; finished passes are kept, run again with --resume\n");
    return 130;
  }
  ShowOut(absl::StrCat("next: poolmark quality analyze ", Printable(out), "\n"));
  return 0;
}

}  // namespace

int RunQualityRun(const QualityRunArguments& arguments) {
  Interrupt interrupt;
  const StopMessage said(interrupt.token());
  std::optional<EventLines> events;
  if (arguments.progress == "json") events.emplace();
  Result<quality::RunOptions> options = OptionsOf(arguments);
  ProgressLine progress;
  std::unique_ptr<http::Client> client = http::MakeStoppableClient(interrupt.token());
  quality::RunContext context;
  context.client = client.get();
  context.clock = &RealClock();
  context.sleep = [&](Nanoseconds wait) { SleepUnlessStopped(interrupt.token(), wait); };
  context.stop = interrupt.token();
  context.note = [&](const std::string& text) {
    if (events) events->Say("note", text);
    progress.Note(text);
  };
  context.progress = [&](const quality::RunProgress& p) {
    if (events) return events->Progress(p);
    progress.Show(ProgressText(p), p.done == p.total);
  };
  Result<quality::RunReport> report =
      options.ok() ? quality::RunArms(*options, context) : Result<quality::RunReport>(options.status());
  if (!report.ok()) {
    if (events) events->Say("error", std::string(report.status().message()));
    return Refuse(report.status(), events ? arguments.progress : arguments.output);
  }
  if (!events && arguments.output == "json") return ReportJson(*report, arguments.out);
  if (!events) return Report(*report, arguments.out);
  events->Say("end", absl::StrCat(report->saved.size(), " passes saved, ", report->failed_questions,
                                  " questions and ", report->failed_stores, " store requests failed"));
  return report->interrupted ? 130 : 0;
}

}  // namespace poolmark::cli

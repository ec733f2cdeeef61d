#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cli/commands/quality_commands.h"
#include "cli/commands/quality_support.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
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
  if (concatenated) s.min_unit_tokens = a.min_unit_tokens >= 0 ? a.min_unit_tokens : 8 * a.chunk_size;
  if (!concatenated && a.min_unit_tokens >= 0) s.min_unit_tokens = a.min_unit_tokens;
  o.tokenizer = a.tokenizer;
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

}  // namespace

int RunQualityRun(const QualityRunArguments& arguments) {
  Result<quality::RunOptions> options = OptionsOf(arguments);
  if (!options.ok()) return Refuse(options.status());
  Interrupts interrupts;
  ProgressLine progress;
  std::unique_ptr<http::Client> client = http::MakeClient();
  quality::RunContext context;
  context.client = client.get();
  context.clock = &RealClock();
  context.sleep = [&](Nanoseconds wait) { interrupts.Sleep(wait); };
  context.interrupted = &interrupts.flag();
  context.note = [&](const std::string& text) { progress.Note(text); };
  context.progress = [&](const quality::RunProgress& p) {
    progress.Show(
        absl::StrCat(
            p.stage, ": ", p.done, "/", p.total,
            p.failed > 0 ? absl::StrCat(", ", p.failed, " failed") : std::string(),
            p.left ? absl::StrCat(", about ",
                                  FormatDuration(std::chrono::ceil<std::chrono::seconds>(*p.left)), " left")
                   : std::string()),
        p.done == p.total);
  };
  Result<quality::RunReport> report = quality::RunArms(*options, context);
  if (!report.ok()) return Refuse(report.status());
  for (const std::string& label : report->kept) std::printf("kept %s\n", label.c_str());
  for (const std::string& label : report->saved) std::printf("saved %s\n", label.c_str());
  if (report->failed_stores > 0) {
    std::printf("%lld store requests failed: analyze will say INVALID\n",
                static_cast<long long>(report->failed_stores));
  }
  if (report->failed_questions > 0)
    std::printf("%lld questions failed: they score 0\n", static_cast<long long>(report->failed_questions));
  if (report->interrupted) {
    std::printf("interrupted; finished passes are kept, run again with --resume\n");
    return 130;
  }
  std::printf("next: poolmark quality analyze %s\n", arguments.out.c_str());
  return 0;
}

}  // namespace poolmark::cli

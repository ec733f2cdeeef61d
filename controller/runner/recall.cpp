#include "controller/runner/recall.h"

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/results/cycle_files.h"
#include "common/results/layout.h"

namespace poolmark::controller {

void RecallPreflight(JobRun* run) {
  for (const std::string& name : run->plan->machines) {
    const auto machine = run->registry->Get(name);
    if (machine.ok() && machine->has_facts()) run->facts[name] = machine->facts();
  }
  const std::string path = JoinPath(run->results_dir, std::string(results::kPreflightFile));
  if (!FileExists(path)) return;
  auto text = ReadFile(path, 64u << 20);
  auto file =
      text.ok() ? results::DecodePreflight(*text, path) : Result<results::PreflightRecord>(text.status());
  if (!file.ok()) {
    Log(LogLevel::kError, "job.preflight_lost",
        {{"job", run->job_id}, {"error", std::string(file.status().message())}});
    return;
  }
  run->line_rate_bits = results::LineRatesOf(*file);
  run->calibrations = results::CalibrationsOf(*file);
  for (const results::LineRate& line : file->line_rates) {
    if (line.tool.empty()) continue;
    v1::Tool tool;
    tool.set_name(line.tool);
    tool.set_version(line.tool_version);
    tool.set_note("network line rate");
    run->tools[line.from].try_emplace(line.tool, std::move(tool));
  }
}

}  // namespace poolmark::controller

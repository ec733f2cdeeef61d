// The settings of a workload as a job keeps them: `options` of job.json, that is `workloads.<name>` of the
// job file without its load levels. For reports and comparisons; what is sent is planned from ParseWorkload.
// Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/workload/spec.h"

namespace poolmark::workload {

// Of the levels nothing is left, also where `options` has some: settings that belong to a rate are accepted
// without one.
Result<WorkloadSpec> ParseStored(const Json& options);

// In lowest terms.
Ratio Reduced(Ratio ratio);

// Of the settings as text; nothing where they cannot be read.
std::optional<Ratio> StoredScale(const std::string& options);

// "moon@1/64": the name of a scenario has its token scale (M21); of scale 1 just the name.
std::string ScaledName(const std::string& name, Ratio token_scale);
std::string ScaledName(const std::string& name, const std::string& options);

struct Setting {
  std::string name, value;
  bool written = false;  // in the job file; else the default
};

// Every setting of the shape with the value that it had, in the order of docs/workloads.md. Defaults that
// say that nothing of the kind was done ("no cap") are left out.
Result<std::vector<Setting>> SettingsOf(const Json& options);
// The value that a setting had without being written, in the words of SettingsOf. Nothing: it is written, the
// shape has none of that name, or none means that nothing of the kind was done.
std::optional<std::string> DefaultOf(const Json& options, std::string_view name);

// In what a replay is not what was recorded, a sentence each; a reader must know it beside the figures.
std::vector<std::string> ReplayNotes(const WorkloadSpec& spec);

}  // namespace poolmark::workload

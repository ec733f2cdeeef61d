#include "controller/steps/engine_versions.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/prom/catalogue.h"
#include "common/prom/version_source.h"
#include "common/spec/versions.h"
#include "controller/steps/kv_probe.h"
#include "controller/steps/patience.h"

namespace poolmark::controller {

std::map<std::string, std::string> ReadVersions(const JobRun& run, const StackPlan& stack) {
  std::map<std::string, std::string> versions;
  const auto catalogue = prom::Catalogue::Load(run.catalogue_dir);
  for (const PlannedProcess& process : stack.processes) {
    const prom::Dialect* dialect = catalogue.ok() ? catalogue->Find(process.dialect) : nullptr;
    prom::VersionSource source;
    if (dialect != nullptr) source = prom::ParseVersionFrom(dialect->version_from);
    std::string version = ProgramVersion(run, process, source);
    if (version.empty()) {
      auto tool = run.executables.find(process.spec.id());
      if (tool != run.executables.end()) version = tool->second.version();
    }
    if (!version.empty()) {
      versions[process.spec.id()] = version;
    } else if (source.kind == prom::VersionSource::Kind::kByHand && !source.target.empty() &&
               !stack.simulated) {
      // An attached process has no program here that an allow-list could speak of.
      const std::string where = process.attached
                                    ? ""
                                    : absl::StrCat(" and write it as version: of ", process.spec.executable(),
                                                   " in the machine's allow.yaml");
      run.Note("note",
               absl::StrCat(process.spec.id(), ": its version is unknown; find it with '", source.target, "'",
                            where),
               process.machine);
    }
  }
  return versions;
}

std::set<std::string> FindSimulated(const JobRun& run, const StackPlan& stack,
                                    const std::map<std::string, std::string>& versions) {
  std::set<std::string> found;
  for (const PlannedProcess& process : stack.processes) {
    if (!IsEngine(process)) continue;
    const std::string& id = process.spec.id();
    const auto version = versions.find(id);
    bool simulated = version != versions.end() && absl::StrContains(version->second, "+sim");
    if (!simulated && !process.metrics_url.empty()) {
      const auto page = Patiently(run, [&] { return Get(run, process.machine, process.metrics_url); });
      simulated = page.ok() && absl::StrContains(*page, "\npoolmark_sim_");
    }
    if (!simulated) continue;
    found.insert(id);
    if (!stack.simulated)
      run.Note("note",
               absl::StrCat(id, " is a simulated engine, whatever stack ", stack.name,
                            " calls it: its figures are marked so and cannot be published"),
               process.machine);
  }
  return found;
}

std::optional<v1::CheckResult> CheckVersions(const StackPlan& stack,
                                             const std::map<std::string, std::string>& versions) {
  std::set<std::string> ranges;
  std::vector<std::string> seen, wrong, unknown;
  for (const PlannedProcess& process : stack.processes) {
    if (process.compatible.empty()) continue;
    const std::string& id = process.spec.id();
    ranges.insert(absl::StrCat(process.template_name, " ", process.compatible));
    const auto version = versions.find(id);
    const auto fits =
        version == versions.end() ? std::nullopt : spec::InVersionRange(process.compatible, version->second);
    const std::string text =
        absl::StrCat(id, version == versions.end() ? "" : absl::StrCat(" ", version->second));
    (!fits ? unknown : *fits ? seen : wrong).push_back(text);
  }
  if (ranges.empty()) return std::nullopt;
  v1::CheckResult check;
  check.set_id("versions");
  check.set_expected(absl::StrCat("versions that the stack file is for: ", absl::StrJoin(ranges, "; ")));
  check.set_evidence("what the programs say, else `version` of the machines' allow-lists");
  if (!wrong.empty()) {
    check.set_outcome(v1::OUTCOME_FAIL);
    check.set_observed(absl::StrCat("other versions run: ", absl::StrJoin(wrong, ", ")));
    check.set_hint("install a version that the stack file is for, or correct `compatible` in the stack file");
  } else if (!unknown.empty()) {
    check.set_outcome(v1::OUTCOME_NOTE);
    check.set_observed(absl::StrCat("not known: ", absl::StrJoin(unknown, ", "),
                                    seen.empty() ? "" : absl::StrCat("; ", absl::StrJoin(seen, ", "))));
    check.set_hint("write `version` of the program in the machine's allow.yaml");
  } else {
    check.set_outcome(v1::OUTCOME_PASS);
    check.set_observed(absl::StrJoin(seen, ", "));
  }
  return check;
}

}  // namespace poolmark::controller

#include "controller/runner/validated.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"

namespace poolmark::controller {
namespace {

constexpr uint64_t kMaxBytes = 64u << 20;

std::mutex& FileMutex() {
  static std::mutex mutex;  // the file
  return mutex;
}

std::optional<ValidatedConfiguration> ReadLine(const std::string& line, const std::string& where) {
  auto json = ParseJson(line, where, {1u << 20, 8, true});
  if (!json.ok() || !json->is_object()) return std::nullopt;
  ValidatedConfiguration out;
  for (const auto& [key, into] :
       {std::pair("stack", &out.stack), std::pair("digest", &out.digest), std::pair("vendor", &out.vendor),
        std::pair("job_id", &out.job_id), std::pair("date", &out.date)}) {
    if (!json->contains(key) || !(*json)[key].is_string()) return std::nullopt;
    *into = (*json)[key].get<std::string>();
  }
  if (!json->contains("components") || !(*json)["components"].is_array()) return std::nullopt;
  for (const Json& component : (*json)["components"]) {
    if (!component.is_string()) return std::nullopt;
    out.components.push_back(component.get<std::string>());
  }
  return out;
}

Result<std::vector<ValidatedConfiguration>> ReadLocked(const std::string& path) {
  std::vector<ValidatedConfiguration> out;
  if (!FileExists(path)) return out;
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    if (auto entry = ReadLine(text.substr(start, end - start), path)) out.push_back(std::move(*entry));
    start = end + 1;
  }
  return out;
}

}  // namespace

std::vector<ValidatedConfiguration> ConfigurationsOf(const results::JobFile& job,
                                                     const results::ManifestFile& manifest,
                                                     const results::SummaryFile& summary) {
  std::vector<ValidatedConfiguration> out;
  if (job.state != "SUCCEEDED") return out;
  for (const results::JobStack& stack : job.stacks) {
    bool any = false, all = true;
    for (const results::SummaryPoint& point : summary.points) {
      if (point.point.stack != stack.name) continue;
      any = true;
      all = all && point.valid && point.publishable;
    }
    if (!any || !all) continue;
    ValidatedConfiguration entry;
    entry.stack = stack.use;
    entry.digest = stack.digest;
    entry.vendor = stack.vendor;
    std::set<std::string> components;
    for (const results::ManifestEngine& engine : manifest.engines) {
      if (engine.stack != stack.name) continue;
      components.insert(absl::StrCat(engine.dialect.empty() ? engine.name : engine.dialect, " ",
                                     engine.version.empty() ? "(version unknown)" : engine.version));
    }
    entry.components.assign(components.begin(), components.end());
    entry.job_id = job.job_id;
    entry.date = job.ended;
    out.push_back(std::move(entry));
  }
  return out;
}

Result<std::vector<ValidatedConfiguration>> ReadValidated(const std::string& path) {
  std::lock_guard lock(FileMutex());
  return ReadLocked(path);
}

Status AddValidated(const std::string& path, const std::vector<ValidatedConfiguration>& found) {
  if (found.empty()) return absl::OkStatus();
  std::lock_guard lock(FileMutex());
  POOLMARK_ASSIGN_OR_RETURN(std::vector<ValidatedConfiguration> known, ReadLocked(path));
  for (const ValidatedConfiguration& entry : found) {
    if (std::any_of(known.begin(), known.end(), [&](const auto& old) { return old.SameAs(entry); })) continue;
    known.push_back(entry);
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson({{"stack", entry.stack},
                                                                {"digest", entry.digest},
                                                                {"vendor", entry.vendor},
                                                                {"components", entry.components},
                                                                {"job_id", entry.job_id},
                                                                {"date", entry.date}}));
    POOLMARK_RETURN_IF_ERROR(AppendFile(path, text + "\n", true));
  }
  return absl::OkStatus();
}

}  // namespace poolmark::controller

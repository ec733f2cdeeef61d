// Whether the workloads of two jobs sent the same.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/report/compare_parts.h"
#include "common/report/workloads.h"
#include "common/workload/stored_settings.h"

namespace poolmark::report {
namespace {

// The settings of a workload without what may differ: the level, where the file lies (its digest counts) and
// the model's name (the engines' counts).
Json Settings(const results::JobWorkload& workload) {
  auto json = ParseJson(workload.options, workload.name);
  if (!json.ok() || !json->is_object()) return Json::object();
  for (const char* key : {"concurrency", "rate", "speedup", "model"}) json->erase(key);
  if (json->contains("file")) (*json)["file"] = "file";
  return *std::move(json);
}

// Whether both say the same, however it is written ("50ms" and "0.05s", 1/64 and 2/128, a default in words).
bool SameMeaning(const Json& a, const Json& b) {
  const auto left = workload::ParseStored(a), right = workload::ParseStored(b);
  return left.ok() && right.ok() && *left == *right;
}

// As it was written, or the default that was used.
std::string WrittenOrDefault(const Json& options, const std::string& key) {
  if (const auto at = options.find(key); at != options.end()) return at->dump();
  const auto value = workload::DefaultOf(options, key);
  return value ? *value + " (default)" : "";
}

void CompareSettings(const std::string& name, const Json& a, const Json& b, Differences* differences) {
  if (SameMeaning(a, b)) return;
  // What either writes; the other may mean it without writing it.
  Json keys = a;
  keys.update(b);
  for (const auto& [key, value] : keys.items()) {
    const auto in_a = a.find(key), in_b = b.find(key);
    if (in_a != a.end() && in_b != b.end() && *in_a == *in_b) continue;
    Json with = a;
    with.erase(key);
    if (in_b != b.end()) with[key] = *in_b;
    if (SameMeaning(a, with)) continue;
    differences->Same(name + key, WrittenOrDefault(a, key), WrittenOrDefault(b, key), true);
  }
}

}  // namespace

void CompareWorkloads(const results::Directory& first, const results::Directory& other,
                      Differences* differences) {
  for (const auto& left : first.job.workloads) {
    const auto right = std::find_if(other.job.workloads.begin(), other.job.workloads.end(),
                                    [&](const auto& one) { return one.name == left.name; });
    if (right == other.job.workloads.end()) continue;  // its test points are named
    // As in the tables; of two scales it has none.
    const bool same_scale = TokenScaleOf(left) == TokenScaleOf(*right);
    const std::string name = "workload " + (same_scale ? ShownName(left) : left.name) + ": ";
    differences->Same(name + "shape", left.shape, right->shape, true);
    differences->Same(name + "input", left.input_sha256, right->input_sha256, true);
    const Json a = Settings(left), b = Settings(*right);
    if (!a.empty() && !b.empty()) {
      CompareSettings(name, a, b, differences);
    } else {
      differences->Same(name + "settings", a.empty() ? "not known" : "known",
                        b.empty() ? "not known" : "known", true);
      differences->Same(name + "token_scale", left.token_scale, right->token_scale, true);
    }
  }
}

}  // namespace poolmark::report

#include "common/prom/totals.h"

#include <cmath>
#include <set>

namespace poolmark::prom {
namespace {

// Labels that tell sources of prompt tokens or ways of KV bytes apart.
bool Splits(const std::string& label) {
  return label == "source" || label == "cache_source" || label == "mode" || label == "cache_tier" ||
         label == "tier" || label == "operation";
}

}  // namespace

std::vector<std::string> KeysOf(const std::string& name, const Labels& labels) {
  std::vector<std::string> keys = {name};
  for (const auto& [label, value] : labels) {
    if (Splits(label)) keys.push_back(name + "{" + label + "=" + value + "}");
  }
  // Bytes of tiers are told by two labels together.
  std::string tier, direction;
  for (const auto& [label, value] : labels) {
    if (label == "tier") tier = value;
    if (label == "direction") direction = value;
  }
  if (!tier.empty() && !direction.empty())
    keys.push_back(name + "{tier=" + tier + ",direction=" + direction + "}");
  return keys;
}

std::vector<std::string> DeclaredWithoutSample(const Page& page) {
  std::set<std::string_view> counters;
  for (const Family& family : page.families) {
    if (family.type == "counter") counters.insert(family.name);
  }
  for (const Sample& sample : page.samples) {
    counters.erase(sample.name);
    // OpenMetrics declares a counter without the ending of its samples.
    if (sample.name.ends_with("_total"))
      counters.erase(std::string_view(sample.name).substr(0, sample.name.size() - 6));
  }
  std::vector<std::string> names;
  for (const std::string_view name : counters)
    names.push_back(std::string(name) + (name.ends_with("_total") ? "" : "_total"));
  return names;
}

Totals TotalsOf(const Page& page) {
  // A level may fall without any restart (llama.cpp's tokens per second, vLLM's running requests).
  std::set<std::string> levels;
  for (const Family& family : page.families) {
    if (family.type == "gauge") levels.insert(family.name);
  }
  Totals totals;
  for (const Sample& sample : page.samples) {
    if (!std::isfinite(sample.value) || levels.count(sample.name) != 0) continue;
    for (const std::string& key : KeysOf(sample.name, sample.labels)) totals[key] += sample.value;
  }
  for (const std::string& name : DeclaredWithoutSample(page)) totals.try_emplace(name, 0);
  return totals;
}

Totals Difference(const Totals& before, const Totals& after) {
  Totals changes;
  for (const auto& [key, value] : after) {
    const auto old = before.find(key);
    changes[key] = value - (old == before.end() ? 0 : old->second);
  }
  return changes;
}

std::string DialectOf(const Page& page) {
  for (const Sample& sample : page.samples) {
    if (sample.name.starts_with("vllm:")) return "vllm";
    if (sample.name.starts_with("sglang:")) return "sglang";
    if (sample.name.starts_with("trtllm_")) return "trtllm";
    if (sample.name.starts_with("llamacpp:")) return "llama-cpp";
  }
  return "";
}

}  // namespace poolmark::prom

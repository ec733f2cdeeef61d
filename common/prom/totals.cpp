#include "common/prom/totals.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace poolmark::prom {
namespace {

constexpr std::string_view kKnownSplits[] = {"source", "cache_source", "mode",     "cache_tier",
                                             "tier",   "operation",    "direction"};

std::string KeyOf(const std::string& name, const Labels& split) {
  if (split.empty()) return name;
  std::string key = name + "{";
  for (const auto& [label, value] : split) key += (key.back() == '{' ? "" : ",") + label + "=" + value;
  return key + "}";
}

}  // namespace

Adding AddingOf(const Labels& labels) {
  Adding how;
  for (const auto& [label, value] : labels) {
    if (std::find(std::begin(kKnownSplits), std::end(kKnownSplits), label) != std::end(kKnownSplits))
      how.split.push_back(label);
  }
  return how;
}

void Adder::Add(const std::string& name, const Labels& labels, const Adding& how, double value) {
  Part part{name, {}, value};
  for (const std::string& label : how.split) {
    for (const auto& [given, text] : labels) {
      if (given == label) part.split.emplace_back(label, text);
    }
  }
  const auto [at, added] = parts_.try_emplace(KeyOf(name, part.split), part);
  if (added) return;
  double& sum = at->second.value;
  sum = how.max ? std::max(sum, value) : sum + value;
}

Totals Adder::Take() const {
  Totals totals;
  for (const auto& [key, part] : parts_) {
    totals[part.name] += part.value;
    for (const auto& label : part.split) totals[KeyOf(part.name, {label})] += part.value;
    if (part.split.size() > 1) totals[key] = part.value;
  }
  return totals;
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

Totals TotalsOf(const Page& page, const Dialect* dialect) {
  // A level may fall without any restart (llama.cpp's tokens per second, vLLM's running requests).
  std::set<std::string> levels;
  for (const Family& family : page.families) {
    if (family.type == "gauge") levels.insert(family.name);
  }
  Adder adder;
  for (const Sample& sample : page.samples) {
    if (!std::isfinite(sample.value)) continue;
    const Series* series = dialect == nullptr ? nullptr : dialect->Find(sample.name);
    // The catalogue knows better than a page that calls its counters gauges.
    if (series != nullptr ? series->kind == Kind::kGauge : levels.count(sample.name) != 0) continue;
    const Adding how = series != nullptr ? AddingOf(*series) : AddingOf(sample.labels);
    adder.Add(sample.name, sample.labels, how, sample.value * (series != nullptr ? series->factor : 1));
  }
  Totals totals = adder.Take();
  for (const std::string& name : DeclaredWithoutSample(page)) totals.try_emplace(name, 0);
  return totals;
}

void AddAbsent(const Dialect& dialect, std::string_view version, Totals* totals) {
  if (totals->count(dialect.witness) == 0) return;
  for (const TokenSource& source : dialect.sources) {
    if (source.versions.unbounded() || !source.versions.Contains(version)) continue;
    totals->try_emplace(KeyOf(source.series, source.labels), 0);
  }
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

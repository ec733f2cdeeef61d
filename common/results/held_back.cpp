#include "common/results/held_back.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/stats/publication.h"
#include "common/stats/validity.h"

namespace poolmark::results {
namespace {

using Repeats = std::vector<const RepeatFile*>;

// A figure and the plain name of a series that it was read through.
using Reading = std::pair<std::string, std::string>;

std::string PlainName(const std::string& key) {
  return key.substr(0, key.find('{'));
}

// As the manifest is written: names of token sources, of the caches' fill and size, of transferred KV.
std::set<Reading> ReadingsOf(const RepeatFile& repeat) {
  std::set<Reading> out;
  const auto add = [&](const char* figure, const std::string& key) {
    if (const std::string name = PlainName(key); !name.empty()) out.emplace(figure, name);
  };
  for (const auto& engine : repeat.figures.sources.engines) {
    for (const std::string& key : engine.series) add("prompt token sources", key);
  }
  const auto add_all = [&](const char* figure, const std::string& keys) {
    for (size_t at = 0; at < keys.size();) {
      const size_t comma = std::min(keys.find(", ", at), keys.size());
      add(figure, keys.substr(at, comma - at));
      at = comma + 2;
    }
  };
  for (const CacheFacts& cache : repeat.facts.caches) {
    add("GPU KV usage", cache.series);
    add_all("GPU KV capacity", cache.capacity_series.value_or(""));
  }
  for (const TransferFacts& transfer : repeat.facts.transfers)
    add_all("KV transfer bandwidth", transfer.series);
  return out;
}

// Engines that were not read in the repeats that count.
std::vector<std::string> UnreadIn(const Repeats& repeats) {
  std::vector<std::string> unread;
  for (const RepeatFile* repeat : repeats) {
    if (!repeat->figures.valid) continue;
    for (const stats::EngineFacts& engine : repeat->facts.engines) {
      if (engine.unreadable.empty() || engine.role == stats::EngineFacts::Role::kDecode) continue;
      unread.push_back("repeat " + std::to_string(repeat->facts.repeat) + ": " + engine.process + " (" +
                       engine.unreadable + ")");
    }
  }
  return unread;
}

// Pairs whose network path was not judged in the repeats that count: that they are valid says nothing of it.
std::vector<std::string> UnjudgedIn(const Repeats& repeats) {
  std::vector<std::string> unjudged;
  for (const RepeatFile* repeat : repeats) {
    if (!repeat->figures.valid) continue;
    for (const stats::PathEvidence& path : repeat->facts.evidence.paths) {
      const stats::PathJudgement judged = stats::JudgePath(path);
      if (judged.verdict != stats::PathVerdict::kNotMeasured) continue;
      unjudged.push_back("repeat " + std::to_string(repeat->facts.repeat) + ": " + judged.detail);
    }
  }
  return unjudged;
}

void AddMachines(const ManifestFile& manifest, const Repeats& repeats, stats::PublicationFacts* facts) {
  std::set<std::string> listed, of_the_pool;
  for (const auto& machine : manifest.machines) {
    listed.insert(machine.name);
    facts->machines.push_back({machine.name, machine.tools_missing, machine.tools.size()});
  }
  for (const RepeatFile* repeat : repeats) {
    for (const auto& silence : repeat->facts.evidence.silences) of_the_pool.insert(silence.machine);
    for (const auto& engine : repeat->facts.engines) of_the_pool.insert(engine.machine);
  }
  for (const std::string& name : of_the_pool) {
    if (!listed.contains(name)) facts->machines.push_back({name, "", 0});
  }
}

// Names by the manifest of the engines of this stack, and those that repeats were read through without it.
void AddSeries(const ManifestFile& manifest, const Repeats& repeats, stats::PublicationFacts* facts) {
  std::vector<std::pair<std::string, std::string>> engines;  // dialect and version of this stack
  for (const auto& engine : manifest.engines) {
    if (engine.stack == repeats.front()->facts.point.stack)
      engines.emplace_back(engine.dialect, engine.version);
  }
  std::set<Reading> named;
  for (const auto& series : manifest.series) {
    const bool ours =
        engines.empty() ||
        std::find(engines.begin(), engines.end(), std::pair(series.dialect, series.version)) != engines.end();
    if (!ours) continue;
    named.emplace(series.figure, series.series);
    facts->series.push_back({series.figure, series.dialect, series.version, series.series, series.confirmed});
  }
  for (const RepeatFile* repeat : repeats) {
    if (!repeat->figures.valid) continue;
    for (const auto& [figure, series] : ReadingsOf(*repeat)) {
      if (named.emplace(figure, series).second) facts->unnamed.push_back({figure, series});
    }
  }
}

void AddEngines(const ManifestFile& manifest, const Repeats& repeats, stats::PublicationFacts* facts) {
  std::set<std::string> said;
  for (const RepeatFile* repeat : repeats) {
    for (const stats::EngineFacts& engine : repeat->facts.engines) {
      const bool listed = std::any_of(manifest.engines.begin(), manifest.engines.end(), [&](const auto& one) {
        return one.process == engine.process && one.dialect == engine.dialect &&
               one.version == engine.version;
      });
      if (!listed && said.insert(engine.process).second) facts->unlisted_engines.push_back(engine.process);
    }
  }
  for (const auto& engine : manifest.engines) {
    if (engine.stack == repeats.front()->facts.point.stack && engine.simulated) facts->simulated = true;
  }
}

void AddSwitches(const ManifestFile& manifest, const Repeats& repeats, stats::PublicationFacts* facts) {
  std::set<std::string> listed, seen;
  for (const auto& device : manifest.switches) {
    std::vector<std::string> unconfirmed;
    for (const auto& field : device.fields) {
      if (!field.confirmed) unconfirmed.push_back(field.field);
    }
    listed.insert(device.name);
    facts->switches.push_back({device.name, device.cabled, device.ignored, device.readable,
                               device.found_after_end, device.read, unconfirmed});
  }
  for (const RepeatFile* repeat : repeats) {
    for (const auto& counter : repeat->facts.switch_counters) seen.insert(counter.switch_name);
    for (const auto& power : repeat->facts.switch_power) seen.insert(power.name);
    for (const auto& link : repeat->facts.links) seen.insert(link.switch_name);
  }
  for (const std::string& name : seen) {
    if (!name.empty() && !listed.contains(name)) facts->unlisted_switches.push_back(name);
  }
}

}  // namespace

std::vector<std::string> HeldBackBy(const ManifestFile& manifest, const Repeats& repeats, bool valid,
                                    bool simulated) {
  stats::PublicationFacts facts;
  facts.valid = valid;
  facts.simulated = simulated;
  facts.unread = UnreadIn(repeats);
  facts.unjudged = UnjudgedIn(repeats);
  AddMachines(manifest, repeats, &facts);
  AddEngines(manifest, repeats, &facts);
  AddSeries(manifest, repeats, &facts);
  AddSwitches(manifest, repeats, &facts);
  return stats::HeldBack(facts);
}

}  // namespace poolmark::results

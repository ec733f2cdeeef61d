// What the samples of a repeat say about its window: counter changes of engines and caches, restarts, cache
// usage, power. Used when a repeat is collected, and when it is judged again from the files. Pure but for
// reading.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "common/prom/catalogue.h"
#include "common/results/plan_file.h"
#include "common/results/repeat_file.h"
#include "common/results/samples.h"

namespace poolmark::results {

struct SampleWindow {
  Nanoseconds from{0}, to{0};  // of the measured window, from the start of the load
  Nanoseconds drained{0};      // when the last request ended: counters are read after it (M7)
};

struct SampleFacts {
  std::vector<stats::EngineFacts> engines;
  std::vector<CacheFacts> caches;
  std::vector<PowerSeries> power;
  std::vector<stats::ResetEvidence> resets;
  std::map<std::string, Nanoseconds> longest_gap;  // machine -> without any sample, inside the load
  // Machine -> "net:<device>" or "rdma:<device>" -> bytes sent in the window.
  std::map<std::string, std::map<std::string, double>> sent_by_device;
  // Engine -> why its cache server's counters could not be read.
  std::map<std::string, std::string> unread_caches;
  // Process -> labels of its cache_config_info gauge (block_size, cache_dtype): what it says of its KV.
  std::map<std::string, std::map<std::string, std::string>> cache_config;
  bool simulated = false;  // a process of the stack has series that only poolmark-sim has
  std::vector<std::string> notes;
};

// Adds what the samples of one machine say, or that they cannot be read. `catalogue` says which parts of a
// prompt an engine's version has, so that those without a child are 0; null: none is.
void AddSampleFacts(const PlanStack& stack, const std::string& machine, const Result<SampleLog>& log,
                    const std::map<std::string, std::string>& versions, const SampleWindow& window,
                    const prom::Catalogue* catalogue, SampleFacts* facts);
// Of all machines; `files` by machine.
SampleFacts ReadSampleFacts(const PlanStack& stack, const std::map<std::string, std::string>& files,
                            const std::map<std::string, std::string>& versions, const SampleWindow& window,
                            const prom::Catalogue* catalogue = nullptr);

}  // namespace poolmark::results

// What the samples of a repeat say about its window: counter changes of engines and caches, restarts, cache
// usage, power. Reads each machine's file once. Pure but for reading.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "common/prom/catalogue.h"
#include "common/results/repeat_file.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {

struct SampleWindow {
  Nanoseconds from{0}, to{0};  // of the measured window, from the start of the load
  Nanoseconds drained{0};      // when the last request ended: counters are read after it (M7)
};

struct SampleFacts {
  std::vector<stats::EngineFacts> engines;
  std::vector<results::CacheFacts> caches;
  std::vector<results::PowerSeries> power;
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

// `catalogue` says which parts of a prompt an engine's version has, so that those without a child are 0;
// null: none is.
SampleFacts ReadSampleFacts(const StackPlan& stack, const std::map<std::string, std::string>& files,
                            const std::map<std::string, std::string>& versions, const SampleWindow& window,
                            const prom::Catalogue* catalogue = nullptr);

}  // namespace poolmark::controller

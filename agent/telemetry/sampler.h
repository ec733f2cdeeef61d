// Samples a machine once a second while a pool runs: engine, cache, router and exporter pages, and the
// machine's own counters. One schedule per target; a slow target delays nobody else and is never read twice
// at once. Samples go into a bounded ring that a reader follows and may resume; when the reader is too slow
// the oldest batches go and a gap says so. Sampling never waits for the reader. Thread-safe.
//
// A series that is missing is a point with `not_measured`, a page that cannot be read a round with `failure`,
// a process that restarted a round with `resets`. Nothing missing is ever zero.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/facts/command.h"
#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/http/client.h"
#include "common/prom/catalogue.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::agent {

// A process of the job whose tree's CPU time is counted.
struct EngineProcess {
  std::string id;  // "engine-n1"
  int pid = 0;
};

struct SamplerOptions {
  // What to scrape. Dialects beside those of the catalogue's pages: "redis" (redis://host:port, RESP INFO),
  // "ipmi-dcmi" (url "ipmi://local" or "ipmi://<login>@<address>"), "redfish" (url
  // "https://<login>@<address>" or "https://<login>@<address>/redfish/v1/Chassis/<id>"; "?verify=no" accepts
  // any certificate), where <login> is the name of a secret "user:password". A BMC's power comes under the
  // target's own source.
  std::vector<v1::ScrapeTarget> targets;
  bool host = true;                      // the machine's own readers, source "node"
  std::string root = "/";                // tests give a fixture tree
  std::vector<std::string> directories;  // of the host: their free space is sampled
  Nanoseconds interval = std::chrono::seconds(1);
  Nanoseconds scrape_timeout = std::chrono::seconds(5);
  Nanoseconds power_interval = std::chrono::seconds(5);  // BMCs are slow
  size_t ring_bytes = 16u << 20;                         // about ten minutes of three engines
  const prom::Catalogue* catalogue = nullptr;            // required; outlives the sampler
  Spawner* spawner = nullptr;  // vendor tools, perf, ipmitool, exporters; null: none of them
  Spawner* keeper = nullptr;   // runs the exporters (ExporterContext); both are used by Start only
  std::function<Result<std::string>()> exporter_directory;
  http::Client* client = nullptr;  // required; outlives the sampler
  const Clock* clock = &RealClock();
  std::function<std::vector<EngineProcess>()> engines;                 // null: none
  std::function<Result<std::string>(const std::string& name)> secret;  // null: no logins
  std::string exporters_file;            // deploy/exporters.yaml; empty: own readers only
  std::string exporters_refused;         // why that file is not believed; empty: it is
  std::vector<std::string> gpu_vendors;  // "nvidia", "amd"; empty: those whose tool is installed
};

class Sampler {
 public:
  // Starts sampling. Fails on a target that no reader can serve (unknown dialect, malformed URL), all of them
  // named at once.
  static Result<std::unique_ptr<Sampler>> Start(SamplerOptions options);
  virtual ~Sampler() = default;  // stops

  // What measures on this machine (own readers with the reason why no exporter does), for the manifest.
  virtual std::vector<v1::Tool> tools() const = 0;
  // The next batch after `after_sequence`: waits up to `wait` for one. Nothing: none came in time. A batch
  // with `end` is the last one after Stop.
  virtual std::optional<v1::StreamSamplesResponse> Next(uint64_t after_sequence, Nanoseconds wait) = 0;
  // Takes a last round of every target, then ends. Returns the last sequence. Idempotent.
  virtual uint64_t Stop() = 0;
};

}  // namespace poolmark::agent

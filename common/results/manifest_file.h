// manifest.json: machines, tools and builds, engines, images, the source of every measure; everything another
// run needs to reproduce this one (methodology, "How each measurement is taken"). Plain values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace poolmark::results {

// What measured, on one machine. `measure` is a group of the methodology's table: "engine counters",
// "router counters", "gpu", "gpu activity", "nic", "cpu", "nvme", "node power", "engine cpu time",
// "memory bandwidth", "rdma counters", "clock", "load".
struct ManifestTool {
  std::string measure;
  std::string name;  // "node_exporter", "poolmark-agent"
  std::string version;
  std::string sha256;           // of the executable or image digest; "" where it is no file
  bool pinned = false;          // a published exporter at the pinned version
  std::string fallback_reason;  // why the own reader took its place; "" : it did not
};

struct ManifestGpu {
  std::string vendor, model, uuid, driver;
  uint64_t memory_bytes = 0;
};
struct ManifestNic {
  std::string device, driver, firmware, state;
  std::optional<uint64_t> speed_mbit;  // null: the driver tells none
  int64_t mtu = 0;
  bool rdma = false;
};

struct ManifestMachine {
  std::string name, address, hostname, os, kernel, cpu, boot_id, agent_version;
  int cores = 0;
  uint64_t memory_bytes = 0;
  std::vector<ManifestGpu> gpus;
  std::vector<ManifestNic> nics;
  std::vector<ManifestTool> tools;
  std::string tools_missing;  // which counters have no recorded tool; "" : none
};

struct ManifestEngine {
  std::string process;  // "cand.engine-n1"
  std::string stack, machine, role, dialect;
  std::string name, version;  // "vllm", "0.32.0"
  std::string image, digest;  // image reference and digest, or executable and its SHA-256
  std::string model;
  std::vector<std::string> argv;
  int gpus = 0;
  bool simulated = false;
  std::optional<int64_t> kv_capacity_tokens;  // of its GPU cache
};

// A series that a published figure was read through.
struct ManifestSeries {
  std::string figure;  // "prompt token sources"
  std::string dialect, version, series;
  bool confirmed = false;  // seen on a live engine of that version (M14)
  std::string evidence;    // which
};

struct ManifestSwitchField {
  std::string figure, field;
  bool confirmed = false;
};
struct ManifestSwitch {
  std::string name, address, os, reader;
  int interval_seconds = 0;
  std::optional<double> clock_offset_seconds;
  bool cabled = false;   // to an RDMA network card of the pool, or an uplink between those
  bool ignored = false;  // by the team
  bool readable = true;  // false: a kind we cannot read
  bool found_after_end = false;
  bool read = false;
  std::string problem;
  std::vector<ManifestSwitchField> fields;
};

// Where a measure comes from, for the report's last table.
struct ManifestMeasure {
  std::string measure;  // "Time to first token"
  std::string source;   // "the load generator's record of every request"
  std::string detail;
};

struct ManifestFile {
  std::string job_id;
  std::string controller_version;
  std::string commit;
  std::vector<ManifestMachine> machines;
  std::vector<ManifestEngine> engines;
  std::vector<ManifestSeries> series;
  std::vector<ManifestSwitch> switches;
  std::vector<ManifestMeasure> measures;
  std::vector<std::string> notes;
};

Result<std::string> Encode(const ManifestFile& file);
Result<ManifestFile> DecodeManifest(std::string_view text, std::string_view where);

}  // namespace poolmark::results

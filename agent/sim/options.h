// The flags of poolmark-sim. Read by CLI11 in options.cpp; everything else sees plain values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "agent/sim/answers.h"
#include "agent/sim/faults.h"
#include "agent/sim/kv_format.h"
#include "agent/sim/store.h"
#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::sim {

enum class Role { kBoth, kPrefill, kDecode };

struct EngineOptions {
  std::string host = "127.0.0.1";
  int port = 0;
  Role role = Role::kBoth;
  KvFormat format;  // the model's name is in it
  uint64_t kv_bytes_per_token = 1024;
  uint64_t simulated_kv_bytes_per_token = 131072;
  size_t gpu_cache_tokens = 65536;
  uint64_t host_cache_bytes = 0;
  uint64_t disk_cache_bytes = 0;
  std::string disk_directory;
  StoreOptions store;
  bool shared() const { return !store.redis_url.empty() || !store.directory.empty(); }
  std::string shared_source = "p2p";

  int64_t max_model_len = 131072;
  int64_t default_max_tokens = 128;
  size_t max_num_seqs = 256;
  int64_t max_batched_tokens = 8192;
  double prefill_tokens_per_second = 20000;
  Nanoseconds decode_step = std::chrono::milliseconds(10);
  Nanoseconds decode_per_sequence = std::chrono::microseconds(50);
  double host_bandwidth = 20e9;  // bytes per second, of simulated KV bytes
  double disk_bandwidth = 3e9;
  double remote_bandwidth = 5e9;
  Nanoseconds remote_latency = std::chrono::microseconds(500);

  std::string transfer_host;  // of the hand-over; "": as host
  int transfer_port = 0;
  Nanoseconds transfer_lease = std::chrono::seconds(120);

  int64_t tokens_per_event = 1;
  int64_t reasoning_tokens = 0;
  std::string reasoning_field = "reasoning";
  size_t blend_chunk = 0;  // 0: no blend mode
  size_t blend_capacity = 1 << 16;
  double blend_stale_share = 0;
  std::vector<std::string> lossy_tiers;  // host, disk, remote: KV is compressed there and comes back changed
  AnswerOptions answers;

  uint64_t seed = 0;
  Nanoseconds ready_after{0};
  Nanoseconds drain = std::chrono::seconds(5);
  std::vector<Fault> faults;
};

struct RouterOptions {
  std::string host = "127.0.0.1";
  int port = 0;
  std::string metrics_host = "127.0.0.1";
  int metrics_port = 0;
  std::string policy = "round_robin";
  std::vector<std::string> workers;
  bool disaggregated = false;
  std::vector<std::string> prefill;
  std::vector<std::string> decode;
  Nanoseconds health_interval = std::chrono::seconds(2);
  Nanoseconds request_timeout = std::chrono::seconds(1800);
  Nanoseconds drain = std::chrono::seconds(5);
};

// A process that stays behind when its parent ends: for tests of tear-down.
struct ChildOptions {
  Nanoseconds lives = std::chrono::hours(1);
  bool ignore_sigterm = false;
  bool listen = false;
  bool detach = false;
};

struct Command {
  enum class Kind { kEngine, kRouter, kChild, kDone } kind = Kind::kDone;
  EngineOptions engine;
  RouterOptions router;
  ChildOptions child;
  int exit_code = 0;  // kDone: help and version were printed, or an error
};

Command ReadCommandLine(int argc, char** argv);

}  // namespace poolmark::sim

// stack.yaml as plain structs: what one strategy runs. `${...}` texts are still unfilled: the plan
// fills them (controller/stacks). Pure values.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace poolmark::spec {

enum class Strategy { kLocal, kOffload, kShared, kSplit, kSplitOffload };
// "local", "offload", "shared", "split", "split-offload".
std::string_view StrategyName(Strategy strategy);
// "aggregated baseline", "offload per node", ... (the methodology's words).
std::string_view StrategyTitle(Strategy strategy);

enum class TierSource { kHost, kStorage, kRemote };
// kRelay is the plan's own (`relay: store`); no stack file names it.
enum class Role { kStore, kCache, kEngine, kPrefill, kDecode, kRouter, kRelay };
std::string_view TierSourceName(TierSource source);
std::string_view RoleName(Role role);

struct KvFormat {
  std::string path = "tcp";  // tcp or rdma: the network path the stack intends
  std::string compression = "none";
  std::string dtype = "auto";  // of the KV
  int block_tokens = 16;
  std::optional<int> chunk_tokens;  // of the cache server
  std::optional<int> hash_seed;
  std::string serializer;  // empty: none
};

struct TierSpec {
  TierSource source = TierSource::kHost;
  std::string size;   // "64GiB", "auto" or "${host}"
  std::string owner;  // name of the process that holds it
};

struct ReadySpec {
  std::string http;   // path, "/health"
  std::string redis;  // "PING"
  std::string tcp;    // name of a port
  Nanoseconds within = std::chrono::minutes(30);
};

struct MetricsSpec {
  std::string port;  // name of the port that serves /metrics; empty: dialect without HTTP (redis)
  std::string dialect;
  std::string path = "/metrics";
};

// How to clear a process's cache: at most one member is set.
struct ResetSpec {
  std::string http;      // "POST /reset_prefix_cache"
  std::string redis;     // "FLUSHALL"
  bool restart = false;  // no reset: start it again
};
// How to see that it is empty.
struct EmptySpec {
  std::string redis;   // "DBSIZE", must answer 0
  std::string series;  // a gauge that must be 0
  std::string http;    // "GET /sim/state", must hold `http_expect`
  std::string http_expect;
  bool canary = false;  // a prompt that was cached before must show zero hits
};

// An argv word: text with ${...}, or one value per instance of a role ("{each: engine, value: ...}").
struct ArgWord {
  std::string text;
  std::string each;  // role or process name; empty: plain text
};

struct AttachPoint {
  std::string machine;
  std::string url;
  std::string metrics;
};

struct ProcessTemplate {
  std::string name;
  Role role = Role::kEngine;
  std::string on = "each";        // head, each, or (prefill/decode) a count with `count`
  std::optional<unsigned> count;  // instances over the machines, round robin
  std::string exec;
  std::string image;
  std::string backend;  // process (default), docker, podman
  std::vector<ArgWord> argv;
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> secrets;
  std::map<std::string, std::string> files;  // path below the work directory -> content with ${...}
  std::vector<std::string> ports;            // names
  std::optional<unsigned> gpus;              // per instance
  std::string gpus_param;                    // the parameter that says how many; "": the file does
  ReadySpec ready;
  MetricsSpec metrics;
  ResetSpec reset;
  std::string evict;  // "POST /reset_prefix_cache": empties its GPU cache and nothing below it; "": cannot
  EmptySpec empty;
  std::string disk;       // name of a directory made for it and deleted after: ${dir.<name>}
  std::string disk_path;  // where; empty: below the machine's disk. A shared directory names one path for all
  std::string compatible;       // ">=0.22"
  std::vector<AttachPoint> at;  // launch: attach
  Nanoseconds stop_grace = std::chrono::seconds(30);
  std::vector<std::string> devices;
  std::vector<std::string> mounts;
  std::map<std::string, std::string>
      kv;  // what this process uses otherwise than the stack's `kv` (refused within one store)
};

struct StackSpec {
  std::string name;  // file name without .yaml, or `as`
  std::string description;
  Strategy strategy = Strategy::kLocal;
  std::vector<std::string> vendor;  // empty: any, also none
  std::string engine_kind;          // vllm, sglang, trtllm, llama.cpp, sim; from `engine:` or the dialects
  bool simulated = false;
  bool attach = false;                        // launch: attach
  bool reset_allowed = true;                  // attach: only with `reset: allow`
  std::map<std::string, std::string> params;  // name -> value
  std::vector<std::string> required;          // parameters that are `null` in the file: must be set
  KvFormat kv;
  std::vector<TierSpec> tiers;
  std::vector<ProcessTemplate> processes;
  std::string entry;           // "router.http"
  std::string relay = "none";  // none or store
};

}  // namespace poolmark::spec

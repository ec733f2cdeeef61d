// What the simulated engine counts, and the page that shows it. Series names, labels and buckets follow
// vLLM 0.32 (vllm/v1/metrics/loggers.py), so that readers meet what they will meet on real engines;
// series of our own are called poolmark_sim_*. The numbers are plain values that the engine guards.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace poolmark::sim {

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void Observe(double value);
  const std::vector<double>& bounds() const { return bounds_; }
  const std::vector<uint64_t>& counts() const { return counts_; }  // per bucket, the last is above all bounds
  double sum() const { return sum_; }
  uint64_t count() const { return count_; }
  void Reset();

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
  uint64_t count_ = 0;
};

// Counters of lmcache's blend lookup (lmcache_blend_*); all absent until the first lookup, as OpenTelemetry
// exports them.
struct BlendCounters {
  bool seen = false;
  uint64_t requests = 0;
  uint64_t requested_tokens = 0;
  uint64_t hit_tokens = 0;
  uint64_t prefix_hit_tokens = 0;
  uint64_t non_prefix_hit_tokens = 0;
  uint64_t segmented_prefix_hit_tokens = 0;
  uint64_t stale_chunks = 0;
  uint64_t fingerprints_registered = 0;
};

struct EngineCounters {
  EngineCounters();
  double created = 0;  // Unix seconds; changes with a reset, as a restart would

  uint64_t prompt_tokens = 0;
  uint64_t computed_tokens = 0;                // local_compute
  uint64_t local_hit_tokens = 0;               // local_cache_hit
  uint64_t external_tokens = 0;                // external_kv_transfer
  std::array<uint64_t, 5> cached_by_source{};  // device, host, p2p, disk, external_unspecified
  uint64_t prefix_queries = 0;
  uint64_t prefix_hits = 0;
  uint64_t external_queries = 0;
  uint64_t external_hits = 0;
  uint64_t generation_tokens = 0;
  std::map<std::string, uint64_t> finished;  // stop, length, abort, error
  Histogram ttft, inter_token, time_per_output_token, e2e, queue_time, inference_time, prefill_time,
      decode_time;
  Histogram request_prompt_tokens, request_generation_tokens, iteration_tokens, kv_computed_tokens;

  // The hand-over between prefill and decode engines (vllm:nixl_*), on the reader.
  bool has_transfer = false;
  Histogram transfer_seconds, post_seconds, transfer_bytes, transfer_descriptors;
  uint64_t failed_transfers = 0;
  uint64_t expired_transfers = 0;

  // Byte movements of tiers and store: simulated-only series.
  uint64_t host_write_bytes = 0, host_read_bytes = 0;
  uint64_t disk_write_bytes = 0, disk_read_bytes = 0;
  uint64_t remote_write_bytes = 0, remote_read_bytes = 0;
  uint64_t remote_write_errors = 0, remote_read_errors = 0;
  uint64_t format_mismatches = 0;
  uint64_t damaged_blocks = 0;
  uint64_t lost_blocks = 0;  // found by the lookup, gone when it was loaded
  BlendCounters blend;
};

// Positions in cached_by_source.
enum CachedSource : size_t { kDevice = 0, kHostSource = 1, kP2p = 2, kDiskSource = 3, kUnspecified = 4 };

struct PageFacts {
  std::string model;
  std::string role;
  std::string kv_dtype;
  size_t running = 0;
  size_t waiting = 0;
  size_t loading = 0;
  size_t gpu_blocks = 0, gpu_used = 0, gpu_filled = 0;
  size_t host_blocks = 0, host_filled = 0;
  size_t disk_blocks = 0, disk_filled = 0;
  size_t block_tokens = 16;
  uint64_t kv_bytes_per_token = 0;
  uint64_t pending_writes = 0;
};

// The page in the Prometheus text format.
std::string RenderEnginePage(const EngineCounters& counters, const PageFacts& facts);

// A page under construction; also used by the router.
class PageWriter {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;
  void Family(std::string_view name, std::string_view type, std::string_view help = "");
  void Sample(std::string_view name, const Labels& labels, double value);
  // A counter with its `_created` gauge, the way Python's client writes it. `name` without "_total".
  void Counter(std::string_view name, std::string_view help, const Labels& labels, double value,
               double created);
  void HistogramFamily(std::string_view name, std::string_view help, const Labels& labels,
                       const Histogram& histogram, double created);
  // process_* of this process.
  void Process();
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace poolmark::sim

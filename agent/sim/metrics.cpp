#include "agent/sim/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/version.h"

namespace poolmark::sim {
namespace {

const std::vector<double> kTtftBounds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                         1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
const std::vector<double> kItlBounds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                        0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const std::vector<double> kRequestBounds = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                            30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
const std::vector<double> kTokenBounds = {1,   2,    5,    10,   20,    50,    100,   200,
                                          500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
const std::vector<double> kBytesBounds = {4096, 65536, 1048576, 16777216, 268435456, 4294967296};
const std::vector<double> kTransferBounds = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5};

double WallSeconds() {
  return static_cast<double>(RealClock().Wall().count()) / 1e9;
}

// From the ticks since boot in /proc/self/stat, field 22.
double ProcessStart() {
  double started = 0;
  if (auto stat = ReadPseudoFile("/proc/self/stat"); stat.ok()) {
    size_t at = stat->rfind(')');
    for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat->find(' ', at + 1);
    if (at != std::string::npos)
      started = std::atof(stat->c_str() + at) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return WallSeconds() - static_cast<double>(RealClock().Boot().count()) / 1e9 + started;
}

}  // namespace

void Histogram::Observe(double value) {
  size_t at = static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
  ++counts_[at];
  sum_ += value;
  ++count_;
}

void Histogram::Reset() {
  std::fill(counts_.begin(), counts_.end(), 0);
  sum_ = 0;
  count_ = 0;
}

EngineCounters::EngineCounters()
    : created(WallSeconds()),
      finished({{"stop", 0}, {"length", 0}, {"abort", 0}, {"error", 0}, {"repetition", 0}}),
      ttft(kTtftBounds),
      inter_token(kItlBounds),
      time_per_output_token(kItlBounds),
      e2e(kRequestBounds),
      queue_time(kRequestBounds),
      inference_time(kRequestBounds),
      prefill_time(kRequestBounds),
      decode_time(kRequestBounds),
      request_prompt_tokens(kTokenBounds),
      request_generation_tokens(kTokenBounds),
      iteration_tokens(kTokenBounds),
      kv_computed_tokens(kTokenBounds),
      transfer_seconds(kTransferBounds),
      post_seconds(kTransferBounds),
      transfer_bytes(kBytesBounds),
      transfer_descriptors(kTokenBounds) {}

void PageWriter::Family(std::string_view name, std::string_view type, std::string_view help) {
  if (!help.empty()) text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
  text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

void PageWriter::Sample(std::string_view name, const Labels& labels, double value) {
  text_.append(name);
  if (!labels.empty()) {
    text_ += '{';
    bool first = true;
    for (const auto& [key, label] : labels) {
      if (!first) text_ += ',';
      first = false;
      text_.append(key).append("=\"");
      for (char c : label) {
        if (c == '\\' || c == '"') text_ += '\\';
        if (c == '\n') {
          text_ += "\\n";
        } else {
          text_ += c;
        }
      }
      text_ += '"';
    }
    text_ += '}';
  }
  text_.append(" ").append(PythonFloat(value)).append("\n");
}

void PageWriter::Counter(std::string_view name, std::string_view help, const Labels& labels, double value,
                         double created) {
  std::string total = std::string(name) + "_total";
  std::string made = std::string(name) + "_created";
  Family(total, "counter", help);
  Sample(total, labels, value);
  Family(made, "gauge", help);
  Sample(made, labels, created);
}

void PageWriter::HistogramFamily(std::string_view name, std::string_view help, const Labels& labels,
                                 const Histogram& histogram, double created) {
  Family(name, "histogram", help);
  std::string base(name);
  uint64_t below = 0;
  for (size_t i = 0; i < histogram.counts().size(); ++i) {
    below += histogram.counts()[i];
    Labels bucket = labels;
    std::string bound = i < histogram.bounds().size() ? PythonFloat(histogram.bounds()[i]) : "+Inf";
    bucket.insert(bucket.empty() ? bucket.end() : bucket.begin() + 1, {"le", bound});
    Sample(base + "_bucket", bucket, static_cast<double>(below));
  }
  Sample(base + "_count", labels, static_cast<double>(histogram.count()));
  Sample(base + "_sum", labels, histogram.sum());
  Family(base + "_created", "gauge", help);
  Sample(base + "_created", labels, created);
}

void PageWriter::Process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  static const double kStart = ProcessStart();
  unsigned long long pages = 0, resident = 0;
  if (auto statm = ReadPseudoFile("/proc/self/statm"); statm.ok()) {
    std::sscanf(statm->c_str(), "%llu %llu", &pages, &resident);
  }
  auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  Family("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.");
  Sample("process_virtual_memory_bytes", {}, static_cast<double>(pages) * page);
  Family("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.");
  Sample("process_resident_memory_bytes", {}, static_cast<double>(resident) * page);
  Family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.");
  Sample("process_start_time_seconds", {}, kStart);
  Family("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.");
  Sample("process_cpu_seconds_total", {}, seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

std::string RenderEnginePage(const EngineCounters& c, const PageFacts& f) {
  PageWriter page;
  const PageWriter::Labels base = {{"engine", "0"}, {"model_name", f.model}};
  auto with = [&](std::string_view key, const std::string& value, bool first = false) {
    PageWriter::Labels labels = base;
    labels.insert(first ? labels.begin() + 1 : labels.end(), {key, value});
    return labels;
  };
  auto number = [](uint64_t value) { return static_cast<double>(value); };
  auto counter = [&](std::string_view name, std::string_view help, uint64_t value) {
    page.Counter(name, help, base, number(value), c.created);
  };
  auto gauge = [&](std::string_view name, std::string_view help, double value) {
    page.Family(name, "gauge", help);
    page.Sample(name, base, value);
  };
  // A family with one label that is filled from the start, with its _created twin.
  auto split = [&](const std::string& name, std::string_view help, std::string_view label, bool first,
                   const std::vector<std::pair<std::string, uint64_t>>& values) {
    page.Family(name + "_total", "counter", help);
    for (const auto& [key, value] : values)
      page.Sample(name + "_total", with(label, key, first), number(value));
    page.Family(name + "_created", "gauge", help);
    for (const auto& [key, value] : values)
      page.Sample(name + "_created", with(label, key, first), c.created);
  };

  page.Process();
  page.Family("poolmark_sim_info", "gauge",
              "This engine is simulated: its times are set by flags, not by a GPU.");
  page.Sample("poolmark_sim_info", {{"simulated", "true"}, {"role", f.role}, {"version", Version()}}, 1);
  gauge("vllm:num_requests_running", "Number of requests in model execution batches.", number(f.running));
  gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.",
        number(f.waiting + f.loading));
  page.Family("vllm:num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.");
  page.Sample("vllm:num_requests_waiting_by_reason", with("reason", "capacity"), number(f.waiting));
  page.Sample("vllm:num_requests_waiting_by_reason", with("reason", "deferred"), number(f.loading));
  gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
        f.gpu_blocks == 0 ? 0 : number(f.gpu_used) / number(f.gpu_blocks));
  counter("vllm:prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.",
          c.prefix_queries);
  counter("vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", c.prefix_hits);
  counter("vllm:external_prefix_cache_queries",
          "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number "
          "of queried "
          "tokens.",
          c.external_queries);
  counter("vllm:external_prefix_cache_hits",
          "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of "
          "cached "
          "tokens.",
          c.external_hits);
  counter("vllm:num_preemptions", "Cumulative number of preemption from the engine.", 0);
  counter("vllm:prompt_tokens", "Number of prefill tokens processed.", c.prompt_tokens);
  split("vllm:prompt_tokens_by_source", "Number of prompt tokens by source.", "source", false,
        {{"local_compute", c.computed_tokens},
         {"local_cache_hit", c.local_hit_tokens},
         {"external_kv_transfer", c.external_tokens}});
  counter("vllm:prompt_tokens_cached", "Number of cached prompt tokens (local + external).",
          c.local_hit_tokens + c.external_tokens);
  split("vllm:prompt_tokens_cached_by_source",
        "Prefix-cache hit tokens by the cache tier that supplied them.", "source", false,
        {{"device", c.cached_by_source[kDevice]},
         {"host", c.cached_by_source[kHostSource]},
         {"p2p", c.cached_by_source[kP2p]},
         {"disk", c.cached_by_source[kDiskSource]},
         {"external_unspecified", c.cached_by_source[kUnspecified]}});
  counter("vllm:generation_tokens", "Number of generation tokens processed.", c.generation_tokens);
  split("vllm:request_success", "Count of successfully processed requests.", "finished_reason", true,
        {c.finished.begin(), c.finished.end()});
  auto histogram = [&](std::string_view name, std::string_view help, const Histogram& h) {
    page.HistogramFamily(name, help, base, h, c.created);
  };
  histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", c.request_prompt_tokens);
  histogram("vllm:request_generation_tokens", "Number of generation tokens processed.",
            c.request_generation_tokens);
  histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.",
            c.iteration_tokens);
  histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", c.ttft);
  histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.",
            c.inter_token);
  histogram("vllm:request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.", c.time_per_output_token);
  histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", c.e2e);
  histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.",
            c.queue_time);
  histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.",
            c.inference_time);
  histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.",
            c.prefill_time);
  histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.",
            c.decode_time);
  histogram("vllm:request_prefill_kv_computed_tokens",
            "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
            c.kv_computed_tokens);
  if (c.has_transfer) {
    histogram("vllm:nixl_xfer_time_seconds", "Histogram of transfer duration for KV Cache transfers.",
              c.transfer_seconds);
    histogram("vllm:nixl_post_time_seconds", "Histogram of transfer post time for KV Cache transfers.",
              c.post_seconds);
    histogram("vllm:nixl_bytes_transferred", "Histogram of bytes transferred per KV Cache transfers.",
              c.transfer_bytes);
    histogram("vllm:nixl_num_descriptors", "Histogram of number of descriptors per KV Cache transfers.",
              c.transfer_descriptors);
    counter("vllm:nixl_num_failed_transfers", "Number of failed KV Cache transfers.", c.failed_transfers);
    counter("vllm:nixl_num_failed_notifications", "Number of failed KV Cache notifications.", 0);
    counter("vllm:nixl_num_kv_expired_reqs", "Number of requests that had their KV expire.",
            c.expired_transfers);
  }
  page.Family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig");
  page.Sample(
      "vllm:cache_config_info",
      {{"block_size", std::to_string(f.block_tokens)},
       {"cache_dtype", f.kv_dtype},
       {"enable_prefix_caching", "True"},
       {"engine", "0"},
       {"kv_cache_memory_bytes", std::to_string(f.gpu_blocks * f.block_tokens * f.kv_bytes_per_token)},
       {"kv_cache_size_tokens", std::to_string(f.gpu_blocks * f.block_tokens)},
       {"num_gpu_blocks", std::to_string(f.gpu_blocks)},
       {"prefix_caching_hash_algo", "poolmark-sim"}},
      1);

  page.Family("poolmark_sim_tier_blocks", "gauge", "Blocks held per tier, in use or not.");
  page.Sample("poolmark_sim_tier_blocks", {{"tier", "gpu"}}, number(f.gpu_filled));
  page.Sample("poolmark_sim_tier_blocks", {{"tier", "host"}}, number(f.host_filled));
  page.Sample("poolmark_sim_tier_blocks", {{"tier", "disk"}}, number(f.disk_filled));
  page.Family("poolmark_sim_tier_capacity_blocks", "gauge", "Size of each tier.");
  page.Sample("poolmark_sim_tier_capacity_blocks", {{"tier", "gpu"}}, number(f.gpu_blocks));
  page.Sample("poolmark_sim_tier_capacity_blocks", {{"tier", "host"}}, number(f.host_blocks));
  page.Sample("poolmark_sim_tier_capacity_blocks", {{"tier", "disk"}}, number(f.disk_blocks));
  page.Family("poolmark_sim_tier_bytes_total", "counter", "Real bytes moved to and from tiers.");
  auto moved = [&](const char* tier, const char* direction, uint64_t bytes) {
    page.Sample("poolmark_sim_tier_bytes_total", {{"tier", tier}, {"direction", direction}}, number(bytes));
  };
  moved("host", "read", c.host_read_bytes);
  moved("host", "write", c.host_write_bytes);
  moved("disk", "read", c.disk_read_bytes);
  moved("disk", "write", c.disk_write_bytes);
  moved("remote", "read", c.remote_read_bytes);
  moved("remote", "write", c.remote_write_bytes);
  page.Family("poolmark_sim_remote_errors_total", "counter", "Failed calls of the shared store.");
  page.Sample("poolmark_sim_remote_errors_total", {{"direction", "read"}}, number(c.remote_read_errors));
  page.Sample("poolmark_sim_remote_errors_total", {{"direction", "write"}}, number(c.remote_write_errors));
  auto own = [&](std::string_view name, std::string_view help, uint64_t value,
                 std::string_view type = "counter") {
    page.Family(name, type, help);
    page.Sample(name, {}, number(value));
  };
  own("poolmark_sim_kv_format_mismatch_total", "Blocks found that an engine of another KV format wrote.",
      c.format_mismatches);
  own("poolmark_sim_kv_damaged_blocks_total", "Blocks whose bytes were not what they should be.",
      c.damaged_blocks);
  own("poolmark_sim_kv_lost_blocks_total", "Blocks that were gone between lookup and load.", c.lost_blocks);
  own("poolmark_sim_pending_writes", "Blocks not yet written to disk or store.", f.pending_writes, "gauge");

  if (c.blend.seen) {
    const PageWriter::Labels scope = {
        {"otel_scope_name", "lmcache.blend"}, {"otel_scope_schema_url", ""}, {"otel_scope_version", ""}};
    page.Family("target_info", "gauge", "Target metadata");
    page.Sample("target_info", {{"service_name", "poolmark-sim"}, {"simulated", "true"}}, 1);
    auto blend = [&](const std::string& name, std::string_view help, uint64_t value) {
      page.Family("lmcache_blend_" + name, "counter", help);
      page.Sample("lmcache_blend_" + name, scope, number(value));
    };
    blend("lookup_requests_total", "Total CB lookup requests", c.blend.requests);
    blend("lookup_requested_tokens_total", "Total tokens submitted for CB lookup.", c.blend.requested_tokens);
    blend("lookup_hit_tokens_total", "Total tokens served by blend during lookup.", c.blend.hit_tokens);
    blend("lookup_prefix_hit_tokens_total", "Tokens served by blend from the prefix (L1+L2).",
          c.blend.prefix_hit_tokens);
    blend("lookup_non_prefix_hit_tokens_total", "Tokens served by blend from non-prefix (shifted) chunks.",
          c.blend.non_prefix_hit_tokens);
    blend("lookup_segmented_prefix_hit_tokens_total",
          "Tokens served by blend from the segmented-prefix tail.", c.blend.segmented_prefix_hit_tokens);
    blend("lookup_stale_chunks_total", "Fingerprint hits evicted as stale (not in storage)",
          c.blend.stale_chunks);
    blend("fingerprints_registered_total", "Chunks indexed into the fingerprint table",
          c.blend.fingerprints_registered);
  }
  return page.Take();
}

}  // namespace poolmark::sim
